/*
 * The pages that appending to a log changes, looked over: for a start that doesn't read the whole file first.
 *
 *        o          root of the log's tree       An append changes the rightmost page of each level.  When an inner one
 *       /|\         inner pages                  of these is full, SQLite spreads its cells over it and up to two
 *      o o o                                     pages to its left.  New pages come from the end of the file, whose
 *           |       rightmost page               length logfile_inspect() has compared.  And the row of `meta` is
 *           o       of each level                rewritten in place.
 *
 * On each of these pages everything that SQLite trusts when it makes room for a cell must agree: cells, free blocks and
 * fragments share the page without gap or overlap.  A flipped bit there is what could make it overwrite good rows; a bit
 * anywhere else makes a row unreadable at most, which the chain tells.
 *
 * File format: https://www.sqlite.org/fileformat2.html section 1.6.
 */
#include "commitlog_file.h"

#include <stdlib.h>

#define PAGE_BYTES 4096
#define DEPTH_MAX 16
#define SIBLINGS 2

enum page_type { PAGE_INNER = 5, PAGE_LEAF = 13 };

struct page {
    uint8_t bytes[PAGE_BYTES];
    size_t usable;
    enum page_type type;
    uint32_t cells;
    uint32_t content; /* where cells may begin */
    size_t header;
};

static uint32_t u16_at(const struct page *p, size_t at)
{
    return (uint32_t)p->bytes[at] << 8 | p->bytes[at + 1];
}

static uint32_t u32_at(const struct page *p, size_t at)
{
    return u16_at(p, at) << 16 | u16_at(p, at + 2);
}

/* SQLite's number of 1 to 9 bytes at *AT, which moves behind it; false when it leaves the page. */
static bool read_varint(const struct page *p, size_t *at, uint64_t *ret)
{
    *ret = 0;
    for (int i = 0; i < 9; i++) {
        if (*at >= p->usable)
            return false;
        uint8_t byte = p->bytes[(*at)++];
        if (i == 8) {
            *ret = *ret << 8 | byte;
            return true;
        }
        *ret = *ret << 7 | (byte & 0x7f);
        if (!(byte & 0x80))
            return true;
    }
    return true;
}

/* Bytes of a leaf's cell behind its two numbers, of PAYLOAD in all. */
static uint64_t local_bytes(const struct page *p, uint64_t payload)
{
    uint64_t usable = p->usable, most = usable - 35, least = (usable - 12) * 32 / 255 - 23;

    if (payload <= most)
        return payload;
    uint64_t kept = least + (payload - least) % (usable - 4);
    return (kept <= most ? kept : least) + 4;
}

/* The size of the cell at AT; 0: it can't be one. */
static uint64_t cell_size(const struct page *p, size_t at)
{
    size_t end = at;
    uint64_t payload = 0, key;

    if (p->type == PAGE_INNER)
        end += 4;
    else if (!read_varint(p, &end, &payload))
        return 0;
    if (!read_varint(p, &end, &key))
        return 0;
    uint64_t size = end - at + (p->type == PAGE_LEAF ? local_bytes(p, payload) : 0);
    return size < 4 ? 4 : size;
}

/* Bytes [AT, AT + LEN) are in use, and were not before. */
static bool take(const struct page *p, uint8_t *used, size_t at, uint64_t len)
{
    if (at < p->content || len > p->usable || at > p->usable - len)
        return false;
    for (size_t i = at; i < at + len; i++)
        if (used[i]++)
            return false;
    return true;
}

static bool take_cells(const struct page *p, uint8_t *used)
{
    for (uint32_t i = 0; i < p->cells; i++) {
        size_t at = u16_at(p, p->header + (size_t)i * 2);
        uint64_t size = at < p->usable ? cell_size(p, at) : 0;
        if (size == 0 || !take(p, used, at, size))
            return false;
    }
    return true;
}

static bool take_free_blocks(const struct page *p, uint8_t *used)
{
    size_t at = u16_at(p, 1), before = 0;

    while (at) {
        if (at <= before || at < p->content || at > p->usable - 4)
            return false;
        uint32_t size = u16_at(p, at + 2);
        if (size < 4 || !take(p, used, at, size))
            return false;
        before = at;
        at = u16_at(p, at);
    }
    return true;
}

static bool page_is_sound(struct page *p)
{
    uint8_t used[PAGE_BYTES] = { 0 };
    size_t unused = 0;

    p->type = (enum page_type)p->bytes[0];
    if (p->type != PAGE_INNER && p->type != PAGE_LEAF)
        return false;
    p->header = p->type == PAGE_INNER ? 12 : 8;
    p->cells = u16_at(p, 3);
    p->content = u16_at(p, 5) ? u16_at(p, 5) : 65536;
    if (p->content > p->usable || p->header + (size_t)p->cells * 2 > p->content)
        return false;
    if (!take_cells(p, used) || !take_free_blocks(p, used))
        return false;
    for (size_t i = p->content; i < p->usable; i++)
        unused += !used[i];
    return unused == p->bytes[7];
}

/* ---- the tree ------------------------------------------------------------------------------------------------------ */

struct walk {
    struct logfile *file;
    uint64_t pages; /* of the file */
    uint32_t seen[DEPTH_MAX * (SIBLINGS + 1)];
    size_t seen_count;
    size_t reserved; /* bytes at the end of each page that aren't SQLite's */
};

static int bad_page(const struct walk *w, uint32_t number, struct errmsg *msg)
{
    return fail(
        msg, SKADE_EDAMAGED,
        "%s: page %u, which the next commit changes, is broken: see whether the disk is well, then restore "
        "a backup",
        w->file->path, number);
}

/* From the database file itself: nothing is in the write-ahead log any more. */
static int read_page(const struct walk *w, uint32_t number, struct page *ret, struct errmsg *msg)
{
    sqlite3_file *file = NULL;

    int rc = sqlite3_file_control(w->file->db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (rc == SQLITE_OK)
        rc = file->pMethods->xRead(file, ret->bytes, PAGE_BYTES, (sqlite3_int64)(number - 1) * PAGE_BYTES);
    ret->usable = PAGE_BYTES - w->reserved;
    return rc == SQLITE_OK ? 0 : logfile_error(w->file, rc, msg, "read a page");
}

/* Read page NUMBER, which nobody named before, and look at it. */
static int visit(struct walk *w, uint32_t number, struct page *ret, struct errmsg *msg)
{
    bool known = number < 2 || number > w->pages || w->seen_count == ARRAY_SIZE(w->seen);

    for (size_t i = 0; i < w->seen_count && !known; i++)
        known = w->seen[i] == number;
    if (known)
        return bad_page(w, number, msg);
    w->seen[w->seen_count++] = number;
    int r = read_page(w, number, ret, msg);
    return r == 0 && !page_is_sound(ret) ? bad_page(w, number, msg) : r;
}

/* The children of the inner page P that stand before its rightmost one. */
static int visit_siblings(struct walk *w, const struct page *p, struct page *child, struct errmsg *msg)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < SIBLINGS && i < p->cells; i++) {
        size_t cell = u16_at(p, p->header + (size_t)(p->cells - 1 - i) * 2);
        r = visit(w, u32_at(p, cell), child, msg);
    }
    return r;
}

static int walk_down(struct walk *w, uint32_t root, struct errmsg *msg)
{
    struct page page, child;
    uint32_t number = root;
    int r;

    w->seen_count = 0;
    for (int depth = 0; (r = visit(w, number, &page, msg)) == 0 && page.type == PAGE_INNER; depth++) {
        if (depth == DEPTH_MAX - 1)
            return bad_page(w, number, msg);
        r = visit_siblings(w, &page, &child, msg);
        if (r < 0)
            return r;
        number = u32_at(&page, 8);
    }
    return r;
}

/* The root pages of our two tables. */
static int read_roots(struct logfile *f, uint32_t roots[2], struct errmsg *msg)
{
    sqlite3_stmt *s = NULL;
    int n = 0;

    int rc = sqlite3_prepare_v2(
        f->db, "SELECT rootpage FROM sqlite_schema WHERE name IN ('log', 'meta') ORDER BY rowid", -1, &s,
        NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW && n < 2) {
        roots[n++] = (uint32_t)sqlite3_column_int64(s, 0);
        rc = SQLITE_OK;
    }
    sqlite3_finalize(s);
    if (rc != SQLITE_DONE && rc != SQLITE_OK && rc != SQLITE_ROW)
        return logfile_error(f, rc, msg, "read its tables");
    return n == 2 ? 0 : fail(msg, SKADE_EDAMAGED, "%s: its tables aren't a log's", f->path);
}

int logfile_check_end(struct logfile *f, struct errmsg *msg)
{
    struct walk w = { .file = f, .pages = logfile_bytes(f) / PAGE_BYTES };
    uint32_t roots[2];
    struct page first;

    int r = read_roots(f, roots, msg);
    if (r == 0)
        r = read_page(&w, 1, &first, msg);
    if (r < 0)
        return r;
    w.reserved = first.bytes[20];
    if (w.reserved > 255 || PAGE_BYTES - w.reserved < 480)
        return bad_page(&w, 1, msg);
    r = walk_down(&w, roots[0], msg);
    return r == 0 ? walk_down(&w, roots[1], msg) : r;
}
