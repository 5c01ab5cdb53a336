#include "entry_internal.h"
#include "checksum.h"
#include "key_range.h"
#include "mix.h"
#include "row_sum.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define READ_LIMIT (256u << 10) /* longer stretches are mapped */
#define STEP (1u << 20)         /* populated and summed at a time: a multiple of ENTRY_PIECE */

int entry_file_damaged(const struct entry_file *f, uint64_t off, struct errmsg *msg, const char *format, ...)
{
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return fail(msg, SKADE_EDAMAGED, "%s: damaged at byte %" PRIu64 ": %s", f->name, off, what);
}

static uint64_t footer_off(const struct entry_file *f)
{
    return f->footer.size - sizeof f->footer;
}

/* ---- opening ---- */

static int read_at(const struct entry_file *f, void *data, size_t len, uint64_t off, struct errmsg *msg)
{
    char *at = data;
    while (len > 0) {
        ssize_t n = pread(f->fd, at, len, (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int r = -errno;
            return fail(msg, r, "%s: reading at byte %" PRIu64 ": %s", f->name, off, error_text(r));
        }
        if (n == 0)
            return entry_file_damaged(f, off, msg, "the file ends here");
        at += n;
        len -= (size_t)n;
        off += (uint64_t)n;
    }
    return 0;
}

static int foreign(const struct entry_file *f, struct errmsg *msg, const char *why)
{
    return fail(msg, SKADE_EFOREIGN, "%s: %s", f->name, why);
}

static int file_size(const struct entry_file *f, const struct stat *st, uint64_t *ret, struct errmsg *msg)
{
    struct stat own;
    if (!st && fstat(f->fd, &own) < 0)
        return fail(msg, -errno, "%s: %s", f->name, error_text(-errno));
    st = st ? st : &own;
    if (!S_ISREG(st->st_mode))
        return foreign(f, msg, "not a regular file");
    if ((uint64_t)st->st_size < sizeof f->header)
        return foreign(f, msg, "too short to be a file of skade's");
    *ret = (uint64_t)st->st_size;
    return 0;
}

static const struct entry_kind *kind_of(const struct entry_header *h)
{
    if (memcmp(h->magic, FORMAT_MAGIC_ENTRIES, sizeof h->magic) == 0)
        return &entry_plain;
    if (memcmp(h->magic, FORMAT_MAGIC_ROWS, sizeof h->magic) == 0)
        return &entry_blocks;
    return NULL;
}

static int read_header(struct entry_file *f, struct errmsg *msg)
{
    struct entry_header *h = &f->header;
    int r = read_at(f, h, sizeof *h, 0, msg);
    if (r < 0)
        return r;
    f->kind = kind_of(h);
    if (!f->kind)
        return foreign(f, msg, "no magic number at byte 0: not a file of rows of skade's");
    if (h->major != FORMAT_MAJOR)
        return fail(msg, SKADE_EVERSION, "%s: version %u of the format at byte 8, this skade reads %u",
                    f->name, h->major, FORMAT_MAJOR);
    if (h->check != checksum(h, offsetof(struct entry_header, check), 0))
        return entry_file_damaged(f, 0, msg, "the header's checksum is wrong");
    if (h->header_len != sizeof *h)
        return entry_file_damaged(f, 12, msg, "a header of %u bytes", h->header_len);
    if (h->align < 8 || h->align > 4096 || (h->align & (h->align - 1)) != 0)
        return entry_file_damaged(f, 52, msg, "an alignment of %u", h->align);
    return 0;
}

/* An array of the stretch [begin, end)? */
static bool lies_in(const struct section *s, uint64_t elem, uint64_t begin, uint64_t end)
{
    if (s->count == 0)
        return true;
    return s->off % CACHE_LINE == 0 && s->off >= begin && array_inside(s->off, s->count, elem, end);
}

static bool sections_fit(const struct entry_footer *t, uint64_t end)
{
    struct stree64_shape shape;
    if (t->data_end < sizeof(struct entry_header) || t->data_end > t->keys_off || t->keys_off > end ||
        t->keys_off % CACHE_LINE != 0)
        return false;
    if (!lies_in(&t->skips, sizeof(uint64_t), t->data_end, t->keys_off) ||
        !lies_in(&t->blocks, sizeof(struct block_ref), t->data_end, t->keys_off))
        return false;
    if (!lies_in(&t->hashes, sizeof(int64_t), t->keys_off, end) ||
        !lies_in(&t->places, sizeof(uint64_t), t->keys_off, end) ||
        !lies_in(&t->nodes, sizeof(struct stree64_node), t->keys_off, end))
        return false;
    return t->hashes.count == t->keyed && t->places.count == t->keyed &&
           stree64_shape((t->keyed + STREE64_KEYS - 1) / STREE64_KEYS, &shape) &&
           t->nodes.count == shape.nodes;
}

static int read_footer(struct entry_file *f, uint64_t size, struct errmsg *msg)
{
    struct entry_footer *t = &f->footer;
    if (size < sizeof f->header + sizeof *t)
        return entry_file_damaged(f, size, msg, "it ends before its footer");
    uint64_t off = size - sizeof *t;
    int r = read_at(f, t, sizeof *t, off, msg);
    if (r < 0)
        return r;
    if (memcmp(t->magic, FORMAT_MAGIC_FOOTER, sizeof t->magic) != 0)
        return entry_file_damaged(f, off, msg, "no footer at its end: cut, or something was appended");
    if (t->check != checksum(t, offsetof(struct entry_footer, check), f->header.check))
        return entry_file_damaged(f, off, msg, "the footer's checksum is wrong");
    if (t->size != size)
        return entry_file_damaged(f, off + 8, msg, "it has %" PRIu64 " bytes, its footer says %" PRIu64, size,
                                  t->size);
    if (off % CACHE_LINE != 0 || t->keyed > t->rows || t->deletes > t->keyed || !sections_fit(t, off) ||
        t->facts & ~(uint64_t)KEY_FACTS || !key_range_valid(&t->low, &t->high, t->keyed))
        return entry_file_damaged(f, off, msg, "the footer contradicts itself");
    return f->kind->check_footer(f, msg);
}

static bool differs(const struct uuid *want, const struct uuid *have)
{
    return !uuid_is_zero(want) && !uuid_equal(want, have);
}

static int check_expected(const struct entry_file *f, const struct entry_expect *e, struct errmsg *msg)
{
    const struct entry_header *h = &f->header;
    if (differs(&e->log, &h->log))
        return foreign(f, msg, "of another commit log");
    if (differs(&e->uuid, &h->uuid))
        return foreign(f, msg, "written by another request");
    if (e->table && e->table != h->table)
        return foreign(f, msg, "of another table");
    /* A .rows file may not know its number. */
    if (e->part && e->part != h->part && (h->part || !entry_file_compacted(f)))
        return foreign(f, msg, "another part of its table");
    if (e->size && e->size != f->footer.size)
        return entry_file_damaged(f, footer_off(f), msg, "%" PRIu64 " bytes, expected %" PRIu64,
                                  f->footer.size, e->size);
    if (e->footer_check && e->footer_check != f->footer.check)
        return entry_file_damaged(f, footer_off(f), msg, "whole, but not the file that was expected");
    return 0;
}

static int open_checked(struct entry_file *f, const char *name, const struct entry_expect *expect,
                        struct errmsg *msg)
{
    uint64_t size = 0;
    f->name = strdup(name);
    if (!f->name)
        return fail(msg, -ENOMEM, "%s: no memory to open it", name);
    int r = file_size(f, expect ? expect->st : NULL, &size, msg);
    if (r < 0)
        return r;
    r = read_header(f, msg);
    if (r < 0)
        return r;
    f->seed = row_uuid_seed(&f->header.uuid);
    r = read_footer(f, size, msg);
    if (r < 0)
        return r;
    return expect ? check_expected(f, expect, msg) : 0;
}

int entry_file_open(struct entry_file **ret, int fd, const char *name, const struct entry_expect *expect,
                    struct errmsg *msg)
{
    struct entry_file *f = calloc(1, sizeof *f);
    if (!f) {
        close(fd);
        return fail(msg, -ENOMEM, "%s: no memory to open it", name);
    }
    f->fd = fd;
    pthread_mutex_init(&f->lock, NULL);
    int r = open_checked(f, name, expect, msg);
    if (r < 0) {
        entry_file_close(f);
        return r;
    }
    *ret = f;
    return 0;
}

static void free_stretch(struct entry_stretch *s)
{
    if (s->mapped)
        munmap(s->base, s->mapped);
    else
        free(s->base);
}

void entry_file_close(struct entry_file *f)
{
    if (!f)
        return;
    free_stretch(&f->map);
    free_stretch(&f->keys);
    pthread_mutex_destroy(&f->lock);
    close(f->fd);
    free(f->name);
    free(f);
}

const struct entry_header *entry_file_header(const struct entry_file *f)
{
    return &f->header;
}

const struct entry_footer *entry_file_footer(const struct entry_file *f)
{
    return &f->footer;
}

const char *entry_file_name(const struct entry_file *f)
{
    return f->name;
}

bool entry_file_compacted(const struct entry_file *f)
{
    return f->kind == &entry_blocks;
}

int entry_file_bytes(const struct entry_file *f, void *memory, struct entry_bytes *ret, struct errmsg *msg)
{
    assert(f->kind == &entry_plain);
    int r = read_at(f, memory, f->footer.data_end, 0, msg);
    if (r < 0)
        return r;
    *ret = (struct entry_bytes){
        .data = memory, .end = f->footer.data_end, .seed = f->seed, .align = f->header.align
    };
    return 0;
}

/* ---- stretches ---- */

static int read_stretch(const struct entry_file *f, struct entry_stretch *s, uint64_t end, uint64_t *sum,
                        struct errmsg *msg)
{
    uint64_t from = s->off & ~(uint64_t)(CACHE_LINE - 1);
    size_t len = (size_t)(end - from);
    s->base = aligned_alloc(CACHE_LINE, align_up(len, CACHE_LINE) + CACHE_LINE);
    if (!s->base)
        return fail(msg, -ENOMEM, "%s: no memory for its index", f->name);
    s->data = (uint8_t *)s->base + (s->off - from);
    int r = read_at(f, s->base, len, from, msg);
    if (r == 0)
        *sum = checksum_pieces(s->data, (size_t)(end - s->off), 0);
    return r;
}

/* Populate before looking: an error then, not SIGBUS.  1: the kernel can't. */
static int populate(const struct entry_file *f, const struct entry_stretch *s, size_t from, size_t to,
                    struct errmsg *msg)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    from &= ~(page - 1);
    if (madvise((char *)s->base + from, to - from, MADV_POPULATE_READ) == 0)
        return 0;
    if (errno == EINVAL || errno == ENOSYS)
        return 1;
    return fail(msg, -EIO, "%s: its index can't be read: %s", f->name, error_text(-errno));
}

static int map_stretch(const struct entry_file *f, struct entry_stretch *s, uint64_t end, uint64_t *sum,
                       struct errmsg *msg)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t from = s->off & ~(uint64_t)(page - 1);
    size_t skip = (size_t)(s->off - from), len = (size_t)(end - s->off);
    void *map = mmap(NULL, skip + len, PROT_READ, MAP_SHARED, f->fd, (off_t)from);
    if (map == MAP_FAILED)
        return fail(msg, -errno, "%s: mapping its index: %s", f->name, error_text(-errno));
    s->base = map;
    s->mapped = skip + len;
    s->data = (const uint8_t *)map + skip;
    *sum = 0;
    for (size_t at = 0; at < len; at += STEP) {
        size_t n = len - at < STEP ? len - at : STEP;
        int r = populate(f, s, skip + at, skip + at + n, msg);
        if (r != 0)
            return r;
        *sum = checksum_pieces(s->data + at, n, *sum);
    }
    return 0;
}

static int load_stretch(struct entry_file *f, struct entry_stretch *s, uint64_t off, uint64_t end,
                        uint64_t check, struct errmsg *msg)
{
    uint64_t sum = 0;
    int r = 1;
    s->off = off;
    if (end - off > READ_LIMIT)
        r = map_stretch(f, s, end, &sum, msg);
    if (r == 1) {
        free_stretch(s);
        s->mapped = 0;
        r = read_stretch(f, s, end, &sum, msg);
    }
    if (r == 0 && sum != check)
        r = entry_file_damaged(f, off, msg,
                               "the checksum of the index from here to byte %" PRIu64 " is wrong", end);
    if (r == 0)
        return 0;
    free_stretch(s);
    s->base = NULL;
    s->mapped = 0;
    return r;
}

/* Load a stretch unless it is here: whoever comes first does it. */
static int need_stretch(struct entry_file *f, struct entry_stretch *s, uint64_t off, uint64_t end,
                        uint64_t check, struct errmsg *msg)
{
    int r = 0;
    if (atomic_load_explicit(&s->here, memory_order_acquire))
        return 0;
    pthread_mutex_lock(&f->lock);
    if (!atomic_load_explicit(&s->here, memory_order_relaxed))
        r = load_stretch(f, s, off, end, check, msg);
    if (r == 0)
        atomic_store_explicit(&s->here, true, memory_order_release);
    pthread_mutex_unlock(&f->lock);
    return r;
}

static int need_map(struct entry_file *f, struct errmsg *msg)
{
    const struct entry_footer *t = &f->footer;
    return need_stretch(f, &f->map, t->data_end, t->keys_off, t->map_check, msg);
}

static int need_keys(struct entry_file *f, struct errmsg *msg)
{
    const struct entry_footer *t = &f->footer;
    return need_stretch(f, &f->keys, t->keys_off, footer_off(f), t->keys_check, msg);
}

/* Sections are aligned in the file, and stretches like the file. */
static const void *array_of(const struct entry_stretch *s, const struct section *section)
{
    return section->count ? s->data + (section->off - s->off) : NULL;
}

int entry_file_skips(struct entry_file *f, const uint64_t **ret, struct errmsg *msg)
{
    int r = need_map(f, msg);
    if (r == 0)
        *ret = array_of(&f->map, &f->footer.skips);
    return r;
}

int entry_file_blocks(struct entry_file *f, const struct block_ref **ret, struct errmsg *msg)
{
    int r = need_map(f, msg);
    if (r == 0)
        *ret = array_of(&f->map, &f->footer.blocks);
    return r;
}

int entry_file_index(struct entry_file *f, struct entry_index *ret, struct errmsg *msg)
{
    struct entry_index index = { .count = f->footer.keyed };
    int r = need_keys(f, msg);
    if (r < 0)
        return r;
    index.hashes = array_of(&f->keys, &f->footer.hashes);
    index.places = array_of(&f->keys, &f->footer.places);
    index.tree.nodes = array_of(&f->keys, &f->footer.nodes);
    stree64_shape((index.count + STREE64_KEYS - 1) / STREE64_KEYS, &index.tree.shape);
    *ret = index;
    return 0;
}

/* ---- cursors: the kind does it, errors stay ---- */

int entry_cursor_open(struct entry_cursor **ret, struct entry_file *f, enum entry_order order,
                      int64_t time_us, struct errmsg *msg)
{
    struct entry_cursor *c;
    int r = f->kind->open(&c, f, order, msg);
    if (r < 0)
        return r;
    c->kind = f->kind;
    c->time_us = time_us;
    *ret = c;
    return 0;
}

void entry_cursor_close(struct entry_cursor *c)
{
    if (c)
        c->kind->close(c);
}

static void forget_row(struct entry_cursor *c)
{
    c->run.low = c->run.high = c->run.given = 0;
    c->has_row = false;
}

static int turn(struct entry_cursor *c, struct entry_file *f, int64_t time_us, struct errmsg *msg)
{
    c->failed = 0;
    c->file = f;
    c->time_us = time_us;
    forget_row(c);
    return c->kind->turn(c, f, msg);
}

int entry_cursor_turn(struct entry_cursor **c, struct entry_file *f, int64_t time_us, struct errmsg *msg)
{
    struct entry_cursor *old = *c;
    enum entry_order order = old->order;
    int r = old->kind == f->kind ? turn(old, f, time_us, msg) : 1;
    if (r == 0)
        return 0;
    *c = NULL;
    entry_cursor_close(old);
    return r < 0 ? r : entry_cursor_open(c, f, order, time_us, msg);
}

struct entry_run *entry_cursor_run(struct entry_cursor *c)
{
    return &c->run;
}

static int failed(struct entry_cursor *c, int error, struct errmsg *msg)
{
    c->failed = error;
    forget_row(c);
    if (msg)
        *msg = c->why;
    return error;
}

int entry_next(struct entry_cursor *c, struct row *ret, struct errmsg *msg)
{
    if (entry_run_next(&c->run, c->order == OLDEST_FIRST, ret))
        return 1;
    if (c->failed)
        return failed(c, c->failed, msg);
    c->run.given = 0;
    int r = c->kind->next(c, ret, &c->why);
    if (r < 0)
        return failed(c, r, msg);
    c->has_row = r == 1;
    return r;
}

/* Did the run give the row that the cursor stands on?  Then there it is. */
static const struct entry_spot *spot_of_row(const struct entry_cursor *c)
{
    return c->run.given ? &c->run.spots[c->run.given - 1] : NULL;
}

int entry_value_read(struct entry_cursor *c, uint64_t off, void *buffer, size_t len, struct errmsg *msg)
{
    if (c->failed)
        return failed(c, c->failed, msg);
    const struct entry_spot *spot = spot_of_row(c);
    if (spot) {
        assert(range_inside(off, len, spot->value_len));
        if (len)
            memcpy(buffer, c->run.data + spot->value_off + off, len);
        return 0;
    }
    assert(c->has_row && range_inside(off, len, c->row.value_len));
    int r = c->kind->value_read(c, off, buffer, len, &c->why);
    return r < 0 ? failed(c, r, msg) : 0;
}

int entry_value_check(struct entry_cursor *c, struct errmsg *msg)
{
    if (c->failed)
        return failed(c, c->failed, msg);
    if (spot_of_row(c))
        return 0;
    assert(c->has_row);
    int r = c->kind->value_check(c, &c->why);
    return r < 0 ? failed(c, r, msg) : 0;
}

int entry_seek_number(struct entry_cursor *c, uint64_t number, struct errmsg *msg)
{
    assert(number < c->file->footer.rows);
    c->failed = 0;
    forget_row(c);
    int r = c->kind->seek_number(c, number, &c->why);
    return r < 0 ? failed(c, r, msg) : 0;
}

int entry_seek_place(struct entry_cursor *c, uint64_t place, struct errmsg *msg)
{
    c->failed = 0;
    forget_row(c);
    int r = c->kind->seek_place(c, place, &c->why);
    return r < 0 ? failed(c, r, msg) : 0;
}

int entry_block_take(struct entry_cursor *c, uint64_t number, struct entry_block **ret, struct errmsg *msg)
{
    assert(c->file->kind == &entry_blocks);
    c->failed = 0;
    c->has_row = false;
    int r = entry_blocks_take(c, number, ret, &c->why);
    return r < 0 ? failed(c, r, msg) : r;
}

/* ---- the rows of a key ---- */

/* In a .rows file there is one at most. */
int entry_find_at(struct entry_cursor *c, uint64_t place, struct bytes key, struct row *ret,
                  struct errmsg *msg)
{
    int r = entry_seek_place(c, place, msg);
    if (r < 0)
        return r;
    while ((r = entry_next(c, ret, msg)) == 1 && ret->place == place)
        if (ret->flags & ROW_KEYED && bytes_equal(ret->key, key))
            return 1;
    return r < 0 ? r : 0;
}

uint64_t entry_index_end(const struct entry_index *x, int64_t hash)
{
    return hash == INT64_MAX ? x->count
                             : stree64_lower_bound(&x->tree, x->hashes, x->count, hash + 1, stree64_leaf);
}

int entry_find(struct entry_cursor *c, struct bytes key, struct row *ret, struct errmsg *msg)
{
    struct entry_index x;
    int64_t hash = (int64_t)entry_hash(key);
    int r = entry_file_index(c->file, &x, msg);
    if (r < 0)
        return r;
    uint64_t end = entry_index_end(&x, hash);
    for (uint64_t i = end; i > 0 && x.hashes[i - 1] == hash; i--) {
        if (i < end && x.places[i] == x.places[i - 1])
            continue;
        r = entry_find_at(c, x.places[i - 1], key, ret, msg);
        if (r != 0)
            return r;
    }
    return 0;
}

/* ---- everything ---- */

struct census { /* what the rows are, counted */
    uint64_t rows, keyed, deletes, raw_bytes, keys_sum;
    int64_t time_min, time_max;
    struct key_range range;
};

/* Of a set of (hash, place), whatever their order: equal sums mean equal sets, but for damage of very good luck. */
static uint64_t one_of_set(uint64_t hash, uint64_t place)
{
    return mix64(hash + place * ENTRY_SEED_STEP);
}

static int count_rows(struct entry_cursor *c, struct census *ret, struct errmsg *msg)
{
    struct row row;
    int r;
    while ((r = entry_run_next(&c->run, true, &row) ? 1 : entry_next(c, &row, msg)) == 1) {
        if (row.number != ret->rows)
            return entry_file_damaged(c->file, row.place, msg, "a row out of turn");
        if (ret->rows == 0 || row.time_us < ret->time_min)
            ret->time_min = row.time_us;
        if (ret->rows == 0 || row.time_us > ret->time_max)
            ret->time_max = row.time_us;
        ret->rows++;
        ret->raw_bytes += row.key.len + row.value_len;
        ret->deletes += (row.flags & ROW_DELETE) != 0;
        if (row.flags & ROW_KEYED) {
            key_range_add(&ret->range, row.key, ret->keyed == 0);
            ret->keyed++;
            ret->keys_sum += one_of_set(entry_hash(row.key), row.place);
        }
        r = row.value ? 0 : entry_value_check(c, msg);
        if (r < 0)
            return r;
    }
    return r;
}

static int verify_rows(struct entry_file *f, struct census *ret, struct errmsg *msg)
{
    struct entry_cursor *c;
    int r = entry_cursor_open(&c, f, OLDEST_FIRST, 0, msg);
    if (r < 0)
        return r;
    r = count_rows(c, ret, msg);
    entry_cursor_close(c);
    return r;
}

/* Rows of a .entries file have the time 0 here, as its footer has. */
static int verify_counts(struct entry_file *f, const struct census *n, struct errmsg *msg)
{
    const struct entry_footer *t = &f->footer;
    if (n->rows != t->rows || n->keyed != t->keyed || n->deletes != t->deletes ||
        n->raw_bytes != t->raw_bytes || n->time_min != t->time_min || n->time_max != t->time_max)
        return entry_file_damaged(f, footer_off(f), msg, "the footer's counts are not those of the rows");
    if (key_bound_compare(&n->range.low, &t->low) != 0 || key_bound_compare(&n->range.high, &t->high) != 0)
        return entry_file_damaged(f, footer_off(f), msg, "the footer's bounds are not those of the keys");
    return 0;
}

static int verify_keys(struct entry_file *f, const struct entry_index *x, uint64_t want, struct errmsg *msg)
{
    uint64_t sum = 0, facts = KEYS_DIFFER;
    for (uint64_t i = 0; i < x->count; i++) {
        if (i > 0 && x->hashes[i - 1] == x->hashes[i])
            facts = 0;
        if (i > 0 && (x->hashes[i - 1] > x->hashes[i] ||
                      (x->hashes[i - 1] == x->hashes[i] && x->places[i - 1] > x->places[i])))
            return entry_file_damaged(f, f->footer.hashes.off + i * sizeof(int64_t), msg,
                                      "the index is out of order");
        sum += one_of_set((uint64_t)x->hashes[i], x->places[i]);
    }
    if (sum != want)
        return entry_file_damaged(f, f->footer.keys_off, msg, "the index is not that of the rows");
    if (facts != f->footer.facts)
        return entry_file_damaged(f, footer_off(f), msg,
                                  "the footer is wrong about keys that are there twice");
    return 0;
}

static int verify_nodes(struct entry_file *f, const struct entry_index *x, struct errmsg *msg)
{
    size_t size = (size_t)x->tree.shape.nodes * sizeof(struct stree64_node);
    if (size == 0)
        return 0;
    struct stree64_node *nodes = malloc(size);
    if (!nodes)
        return fail(msg, -ENOMEM, "%s: no memory to verify its index", f->name);
    stree64_fill(&x->tree.shape, nodes, x->hashes + STREE64_KEYS - 1, STREE64_KEYS * sizeof(int64_t));
    bool same = memcmp(nodes, x->tree.nodes, size) == 0;
    free(nodes);
    if (!same)
        return entry_file_damaged(f, f->footer.nodes.off, msg, "the tree is not that of its keys");
    return 0;
}

int entry_file_verify(struct entry_file *f, struct errmsg *msg)
{
    struct census census = { 0 };
    struct entry_index x;
    int r = verify_rows(f, &census, msg);
    if (r < 0)
        return r;
    r = verify_counts(f, &census, msg);
    if (r < 0)
        return r;
    r = entry_file_index(f, &x, msg);
    if (r < 0)
        return r;
    r = verify_keys(f, &x, census.keys_sum, msg);
    return r < 0 ? r : verify_nodes(f, &x, msg);
}
