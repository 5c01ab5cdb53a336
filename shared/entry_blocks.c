/*
 * The cursor over a .rows file.
 *
 *      refs   [ref 0][ref 1][ref 2: GOES_ON][ref 3: MORE|GOES_ON][ref 4: MORE][ref 5] ...
 *                      |                         |
 *                      v  here                   v  more
 *                      raw bytes + spots         raw bytes of a large row's value
 *
 * A block is checked, decoded and walked over once; then it is known where each of its rows is, so that they are a run
 * (entry_run.h).  A large row, which has blocks of its own, is given alone: its further blocks may fail.  Zstd gets a whole frame and a whole buffer, so that
 * it allocates nothing; and what a frame claims to need must agree with its ref before a byte is decoded.
 *
 * Memory: two decoded blocks of at most BLOCK_RAW_MAX, the spots of one (32 bytes a row of at least three), a value
 * of at most ROW_WHOLE, and a frame when it is larger than a window.
 */
#include "checksum.h"
#include "entry_internal.h"
#include "row_sum.h"
#include "rows_block.h"

#include <errno.h>
#include <stdlib.h>
#include <zstd.h>

#define ROW_MIN 3u             /* bytes of a row: three varints */
#define FRAME_PIECE (1u << 20) /* what a filewindow surely gives */

/* A decoded block. */
struct decoded {
    uint8_t *data;
    size_t cap;
    uint64_t block; /* its number, if VALID */
    bool valid;
};

struct blocks_cursor {
    struct entry_cursor base;
    const struct block_ref *refs;
    uint64_t count;
    ZSTD_DCtx *zstd;
    struct filewindow *window;
    uint8_t *frame; /* FRAME_CAP bytes, for frames larger than FRAME_PIECE */
    size_t frame_cap;

    struct decoded here; /* the block whose rows are given, and where they are */
    struct entry_spot *spots;
    size_t spots_cap;
    struct decoded more; /* a further block of a large row */
    uint64_t more_start; /* the offset of its first byte in the value */

    uint64_t next_block; /* OLDEST_FIRST: to be loaded next; NEWEST_FIRST: [0, next_block) are left */

    bool large;         /* HERE has a large row, which wasn't given yet */
    uint64_t large_len; /* of its value, which begins in HERE with its spot's */
    char *whole;        /* the value, if it is handed on whole; WHOLE_CAP bytes */
    size_t whole_cap;
};

static struct blocks_cursor *cursor_of(struct entry_cursor *c)
{
    return (struct blocks_cursor *)c;
}

/* OLD, or a larger buffer in its place when it has fewer than N bytes; what was in it is lost.  NULL: no memory. */
static void *with_room(void *old, size_t *cap, size_t n)
{
    if (n <= *cap)
        return old;
    free(old);
    void *fresh = malloc(n);
    *cap = fresh ? n : 0;
    return fresh;
}

static int no_memory(const struct blocks_cursor *c, struct errmsg *msg)
{
    return fail(msg, -ENOMEM, "%s: no memory for a block", c->base.file->name);
}

/* ---- refs ---------------------------------------------------------------------------------------------- */

static const char *rows_problem(const struct block_ref *ref)
{
    if (ref->flags & ~(uint32_t)BLOCK_FLAGS)
        return "flags that nobody knows";
    if (ref->flags & BLOCK_MORE)
        return ref->rows == 0 ? NULL : "rows that begin inside a row";
    if (ref->flags & BLOCK_GOES_ON)
        return ref->rows == 1 ? NULL : "a large row that isn't alone";
    if (ref->rows == 0 || ref->rows > ref->raw_len / ROW_MIN)
        return "another number of rows than fit in";
    return NULL;
}

static const char *size_problem(const struct block_ref *ref, uint64_t data_end)
{
    if (ref->raw_len == 0 || ref->raw_len > BLOCK_RAW_MAX)
        return "it is larger than blocks are";
    if (ref->len == 0 || ref->len > ZSTD_compressBound(ref->raw_len))
        return "its frame is longer than its bytes";
    if (!range_inside(ref->off, ref->len, data_end))
        return "it isn't among the data";
    return NULL;
}

/* Does REF follow BEFORE?  NULL: it is the first one. */
static const char *order_problem(const struct block_ref *before, const struct block_ref *ref)
{
    static const struct block_ref start = { .off = sizeof(struct entry_header) };

    if (!before)
        before = &start;
    if (ref->off != before->off + before->len)
        return "it doesn't begin where the one before ends";
    if (ref->first_row != before->first_row + before->rows)
        return "its rows don't follow those before";
    if (!(before->flags & BLOCK_GOES_ON) != !(ref->flags & BLOCK_MORE))
        return "it doesn't go on with the row before";
    return NULL;
}

static const char *last_problem(const struct block_ref *ref, const struct entry_footer *f)
{
    if (ref->off + ref->len != f->data_end)
        return "data that belong to no block follow it";
    if (ref->first_row + ref->rows != f->rows)
        return "it isn't the end of the rows";
    return ref->flags & BLOCK_GOES_ON ? "the file ends inside its row" : NULL;
}

/* A ref is judged when it is needed, against its neighbours; B is less than the number of blocks. */
static int check_ref(const struct blocks_cursor *c, const struct entry_file *f, uint64_t b,
                     struct errmsg *msg)
{
    const struct block_ref *ref = &c->refs[b];

    const char *problem = rows_problem(ref);
    if (!problem)
        problem = size_problem(ref, f->footer.data_end);
    if (!problem)
        problem = order_problem(b > 0 ? ref - 1 : NULL, ref);
    if (!problem && b + 1 == c->count)
        problem = last_problem(ref, &f->footer);
    if (problem)
        return entry_file_damaged(f, ref->off, msg, "block %llu: %s", (unsigned long long)b, problem);
    return 0;
}

/* ---- decoding ------------------------------------------------------------------------------------------ */

/* A frame that is larger than what a window gives. */
static const uint8_t *gather_frame(struct blocks_cursor *c, const struct block_ref *ref, int *error,
                                   struct errmsg *msg)
{
    c->frame = with_room(c->frame, &c->frame_cap, ref->len);
    if (!c->frame) {
        *error = no_memory(c, msg);
        return NULL;
    }
    for (size_t done = 0; done < ref->len;) {
        size_t n = ref->len - done < FRAME_PIECE ? ref->len - done : FRAME_PIECE;
        const uint8_t *piece = filewindow_get(c->window, ref->off + done, n, false, error, msg);
        if (!piece)
            return NULL;
        memcpy(c->frame + done, piece, n);
        done += n;
    }
    return c->frame;
}

/* The frame's bytes, lent until the next call; NULL and *ERROR. */
static const uint8_t *get_frame(struct blocks_cursor *c, const struct block_ref *ref, int *error,
                                struct errmsg *msg)
{
    bool backward = c->base.order == NEWEST_FIRST;

    if (ref->len > FRAME_PIECE)
        return gather_frame(c, ref, error, msg);
    return filewindow_get(c->window, ref->off, ref->len, backward, error, msg);
}

/* Zstd writes no window larger than the bytes: they are the window then.  Bytes 4 and 5 of a frame: RFC 8878, 3.1.1.1. */
static bool window_fits(const uint8_t *frame, uint32_t raw_len)
{
    uint64_t base = 1024ull << (frame[5] >> 3);

    if (frame[4] & 0x20)
        return true;
    return base + base / 8 * (frame[5] & 7) <= raw_len;
}

static const char *frame_problem(const struct entry_file *f, const struct block_ref *ref,
                                 const uint8_t *frame)
{
    if (ref->check != checksum(frame, ref->len, row_seed(f->seed, ref->off)))
        return "wrong checksum";
    if (ZSTD_findFrameCompressedSize(frame, ref->len) != ref->len)
        return "it isn't one zstd frame";
    if (ZSTD_getFrameContentSize(frame, ref->len) != ref->raw_len)
        return "its frame says another size than its ref";
    return window_fits(frame, ref->raw_len) ? NULL : "its frame wants more memory than its bytes take";
}

/* Decode block B, whose ref was checked, into D, unless it is there. */
static int decode(struct blocks_cursor *c, uint64_t b, struct decoded *d, struct errmsg *msg)
{
    const struct entry_file *f = c->base.file;
    const struct block_ref *ref = &c->refs[b];
    int error = 0;

    d->valid = false;
    d->data = with_room(d->data, &d->cap, ref->raw_len);
    if (!d->data)
        return no_memory(c, msg);
    const uint8_t *frame = get_frame(c, ref, &error, msg);
    if (!frame)
        return error;
    const char *problem = frame_problem(f, ref, frame);
    if (!problem && ZSTD_decompressDCtx(c->zstd, d->data, ref->raw_len, frame, ref->len) != ref->raw_len)
        problem = "its frame can't be decoded";
    if (problem)
        return entry_file_damaged(f, ref->off, msg, "block %llu: %s", (unsigned long long)b, problem);
    d->block = b;
    d->valid = true;
    return 0;
}

/* ---- rows of a block ----------------------------------------------------------------------------------- */

/* The next row; of a large one only what is in this block. */
static void find_spot(struct blocks_cursor *c, struct rd *r, bool goes_on, int64_t time_us,
                      struct entry_spot *ret)
{
    struct row_head head = row_head_get(r);

    ret->key_off = (uint32_t)r->pos;
    ret->key_len = (uint16_t)head.key_len;
    ret->flags = head.keyed ? ROW_KEYED : 0;
    ret->time_us = row_time_after(time_us, head.time_step);
    ret->place = c->here.block;
    rd_take(r, head.key_len);
    uint64_t left = rd_left(r);
    if (goes_on ? head.value_len <= left : head.value_len > left)
        r->error = SKADE_EDAMAGED;
    ret->value_off = (uint32_t)r->pos;
    ret->value_len = (uint32_t)(goes_on ? left : head.value_len);
    rd_take(r, ret->value_len);
    c->large_len = head.value_len;
}

static bool in_time(const struct entry_footer *f, const struct entry_spot *s)
{
    return s->time_us >= f->time_min && s->time_us <= f->time_max;
}

static int find_spots(struct blocks_cursor *c, const struct block_ref *ref, struct errmsg *msg)
{
    struct rd r = rd_of(c->here.data, ref->raw_len);
    int64_t time_us = ref->time_us;

    c->spots = with_room(c->spots, &c->spots_cap, ref->rows * sizeof c->spots[0]);
    if (!c->spots)
        return no_memory(c, msg);
    for (uint32_t i = 0; i < ref->rows && !r.error; i++) {
        find_spot(c, &r, ref->flags & BLOCK_GOES_ON, time_us, &c->spots[i]);
        time_us = c->spots[i].time_us;
        if (!in_time(&c->base.file->footer, &c->spots[i]))
            r.error = SKADE_EDAMAGED;
    }
    if (rd_done(&r) < 0)
        return entry_file_damaged(c->base.file, ref->off, msg, "block %llu: its rows contradict it",
                                  (unsigned long long)c->here.block);
    return 0;
}

/* The rows that begin in block B are to be given next, in the run but for a large one.  All of them are left. */
static int load(struct blocks_cursor *c, uint64_t b, struct errmsg *msg)
{
    const struct block_ref *ref = &c->refs[b];

    c->base.run = (struct entry_run){ .low = 0 };
    c->large = false;
    if (!c->here.valid || c->here.block != b) {
        int r = decode(c, b, &c->here, msg);
        if (r == 0)
            r = find_spots(c, ref, msg);
        if (r < 0) {
            c->here.valid = false;
            return r;
        }
    }
    c->large = ref->flags & BLOCK_GOES_ON;
    if (!c->large)
        c->base.run = (struct entry_run){
            .spots = c->spots, .data = c->here.data, .first = ref->first_row, .high = ref->rows
        };
    c->next_block = c->base.order == OLDEST_FIRST ? b + 1 : b;
    return 0;
}

/* ---- values of large rows -------------------------------------------------------------------------------------------- */

/* Bytes of the row's value that are in HERE. */
static uint64_t value_here(const struct blocks_cursor *c)
{
    return c->spots[0].value_len;
}

/* The row goes on over further blocks: together they must have exactly VALUE_LEN bytes. */
static int check_length(struct blocks_cursor *c, uint64_t value_len, struct errmsg *msg)
{
    uint64_t have = value_here(c);
    uint64_t b = c->here.block;

    while (c->refs[b].flags & BLOCK_GOES_ON) { /* not the last one: its ref was checked */
        int r = check_ref(c, c->base.file, ++b, msg);
        if (r < 0)
            return r;
        have += c->refs[b].raw_len;
    }
    if (have != value_len)
        return entry_file_damaged(
            c->base.file, c->refs[c->here.block].off, msg, "block %llu: its row has %llu bytes and says %llu",
            (unsigned long long)c->here.block, (unsigned long long)have, (unsigned long long)value_len);
    return 0;
}

/* Put the further block that has byte OFF of the value into MORE.  Reading on goes from the block that is there. */
static int load_more(struct blocks_cursor *c, uint64_t off, struct errmsg *msg)
{
    uint64_t b = c->here.block + 1, start = value_here(c);

    if (c->more.valid && c->more_start <= off) {
        b = c->more.block;
        start = c->more_start;
    }
    while (off - start >= c->refs[b].raw_len)
        start += c->refs[b++].raw_len;
    if (c->more.valid && c->more.block == b)
        return 0;
    c->more_start = start;
    return decode(c, b, &c->more, msg);
}

/* A piece of the value from OFF on: it begins at *RET and has at most *LEN bytes. */
static int value_piece(struct blocks_cursor *c, uint64_t off, const uint8_t **ret, size_t *len,
                       struct errmsg *msg)
{
    uint64_t here = value_here(c);
    if (off < here) {
        *ret = c->here.data + c->spots[0].value_off + off;
        *len = here - off < *len ? (size_t)(here - off) : *len;
        return 0;
    }
    int r = load_more(c, off, msg);
    if (r < 0)
        return r;
    uint64_t inside = off - c->more_start, left = c->refs[c->more.block].raw_len - inside;
    *ret = c->more.data + inside;
    *len = left < *len ? (size_t)left : *len;
    return 0;
}

static int read_value(struct blocks_cursor *c, uint64_t off, char *buffer, size_t len, struct errmsg *msg)
{
    while (len > 0) {
        const uint8_t *piece;
        size_t n = len;
        int r = value_piece(c, off, &piece, &n, msg);
        if (r < 0)
            return r;
        memcpy(buffer, piece, n);
        buffer += n;
        off += n;
        len -= n;
    }
    return 0;
}

static int blocks_value_read(struct entry_cursor *base, uint64_t off, void *buffer, size_t len,
                             struct errmsg *msg)
{
    return read_value(cursor_of(base), off, buffer, len, msg);
}

/* What is in HERE was checked before the row was given. */
static int blocks_value_check(struct entry_cursor *base, struct errmsg *msg)
{
    struct blocks_cursor *c = cursor_of(base);

    for (uint64_t off = value_here(c); off < base->row.value_len;) {
        int r = load_more(c, off, msg);
        if (r < 0)
            return r;
        off = c->more_start + c->refs[c->more.block].raw_len;
    }
    return 0;
}

/* ---- giving rows --------------------------------------------------------------------------------------- */

static int gather_value(struct blocks_cursor *c, struct row *row, struct errmsg *msg)
{
    c->whole = with_room(c->whole, &c->whole_cap, row->value_len);
    if (!c->whole)
        return no_memory(c, msg);
    row->value = c->whole;
    return read_value(c, 0, c->whole, row->value_len, msg);
}

/* The one row that begins in HERE. */
static int give_large(struct blocks_cursor *c, struct row *ret, struct errmsg *msg)
{
    const struct entry_spot *s = &c->spots[0];

    *ret = (struct row){ .flags = s->flags,
                         .key = { (const char *)c->here.data + s->key_off, s->key_len },
                         .value_len = c->large_len,
                         .time_us = s->time_us,
                         .place = c->here.block,
                         .number = c->refs[c->here.block].first_row };
    c->base.row.value_len = c->large_len;
    c->large = false;
    c->more.valid = false; /* perhaps of another row */
    int r = check_length(c, c->large_len, msg);
    if (r == 0 && c->large_len <= ROW_WHOLE)
        r = gather_value(c, ret, msg);
    return r < 0 ? r : 1;
}

/* The next block in order in which rows begin: 1, 0 at the end. */
static int advance(struct blocks_cursor *c, struct errmsg *msg)
{
    bool forward = c->base.order == OLDEST_FIRST;
    uint64_t b;

    do {
        if (c->next_block == (forward ? c->count : 0))
            return 0;
        b = forward ? c->next_block++ : --c->next_block;
        int r = check_ref(c, c->base.file, b, msg);
        if (r < 0)
            return r;
    } while (c->refs[b].flags & BLOCK_MORE);
    int r = load(c, b, msg);
    return r < 0 ? r : 1;
}

static int blocks_next(struct entry_cursor *base, struct row *ret, struct errmsg *msg)
{
    struct blocks_cursor *c = cursor_of(base);

    if (!c->large) {
        int r = advance(c, msg);
        if (r <= 0)
            return r;
    }
    return c->large ? give_large(c, ret, msg) : entry_run_next(&base->run, base->order == OLDEST_FIRST, ret);
}

/* ---- jumping ------------------------------------------------------------------------------------------- */

static int blocks_seek_place(struct entry_cursor *base, uint64_t place, struct errmsg *msg)
{
    struct blocks_cursor *c = cursor_of(base);

    if (place >= c->count)
        return entry_file_damaged(base->file, base->file->footer.keys_off, msg,
                                  "a key is in block %llu: there are %llu", (unsigned long long)place,
                                  (unsigned long long)c->count);
    int r = check_ref(c, base->file, place, msg);
    if (r < 0)
        return r;
    if (c->refs[place].flags & BLOCK_MORE)
        return entry_file_damaged(base->file, base->file->footer.keys_off, msg,
                                  "a key is in block %llu, where no row begins", (unsigned long long)place);
    return load(c, place, msg);
}

/* The last block that begins with row NUMBER or an older one; further blocks of a large row begin behind it. */
static uint64_t block_of(const struct blocks_cursor *c, uint64_t number)
{
    uint64_t first = 0, end = c->count;

    while (end - first > 1) {
        uint64_t middle = first + (end - first) / 2;
        if (c->refs[middle].first_row <= number)
            first = middle;
        else
            end = middle;
    }
    return first;
}

static int blocks_seek_number(struct entry_cursor *base, uint64_t number, struct errmsg *msg)
{
    struct blocks_cursor *c = cursor_of(base);
    uint64_t b = block_of(c, number);

    int r = check_ref(c, base->file, b, msg);
    if (r < 0)
        return r;
    const struct block_ref *ref = &c->refs[b];
    if (number < ref->first_row || number - ref->first_row >= ref->rows)
        return entry_file_damaged(base->file, ref->off, msg, "row %llu is in no block",
                                  (unsigned long long)number);
    r = load(c, b, msg);
    if (r < 0)
        return r;
    uint32_t i = (uint32_t)(number - ref->first_row);
    if (c->large)
        return 0;
    if (base->order == OLDEST_FIRST)
        base->run.low = i;
    else
        base->run.high = i + 1;
    return 0;
}

/* ---- a block by itself --------------------------------------------------------------------------------- */

#define ROWS_BY_KEY 65534u /* more aren't found by 16 bits */

/* The struct, then BY_KEY, spots and data, in one stretch. */
struct entry_block {
    uint64_t *by_key; /* where a row's key is, part of its hash, row + 1; probed in line; 0: free */
    struct entry_spot *spots;
    uint8_t *data;
    uint32_t mask, rows;
    uint64_t number, first_row;
    size_t bytes;
};

size_t entry_block_bytes(const struct entry_block *b)
{
    return b->bytes;
}

static void lay_out(struct entry_block *b)
{
    b->by_key = (uint64_t *)(b + 1);
    b->spots = (struct entry_spot *)(b->by_key + b->mask + 1);
    b->data = (uint8_t *)(b->spots + b->rows);
}

struct entry_block *entry_block_move(struct entry_block *b, void *memory)
{
    struct entry_block *moved = memory;

    memcpy(memory, b, b->bytes);
    lay_out(moved);
    free(b);
    return moved;
}

static struct bytes key_of(const struct entry_block *b, uint32_t i)
{
    const struct entry_spot *s = &b->spots[i];

    return (struct bytes){ (const char *)b->data + s->key_off, s->key_len };
}

/* Upper bits of a hash, so that most rows that aren't meant are passed by without a look at them. */
static uint64_t tag_of(uint64_t hash)
{
    return (hash >> 48) << 16;
}

/* The newest first, so that it is found first. */
static void note_keys(struct entry_block *b, uint32_t rows)
{
    for (uint32_t i = rows; i-- > 0;) {
        if (!(b->spots[i].flags & ROW_KEYED))
            continue;
        uint64_t hash = entry_hash(key_of(b, i));
        uint32_t at = (uint32_t)hash & b->mask;
        while (b->by_key[at] != 0)
            at = (at + 1) & b->mask;
        b->by_key[at] = (uint64_t)b->spots[i].key_off << 32 | tag_of(hash) | (i + 1);
    }
}

static struct entry_block *make_block(const struct block_ref *ref, uint64_t number)
{
    struct entry_block *b;
    uint32_t slots = 4;

    while (slots / 3 * 2 < ref->rows)
        slots *= 2;
    size_t bytes = sizeof *b + slots * sizeof b->by_key[0] + ref->rows * sizeof b->spots[0] + ref->raw_len;
    b = calloc(1, bytes);
    if (!b)
        return NULL;
    b->mask = slots - 1;
    b->rows = ref->rows;
    b->number = number;
    b->first_row = ref->first_row;
    b->bytes = bytes;
    lay_out(b);
    return b;
}

int entry_blocks_take(struct entry_cursor *base, uint64_t number, struct entry_block **ret,
                      struct errmsg *msg)
{
    struct blocks_cursor *c = cursor_of(base);

    int r = blocks_seek_place(base, number, msg);
    if (r < 0)
        return r;
    const struct block_ref *ref = &c->refs[number];
    if ((ref->flags & BLOCK_GOES_ON) || ref->rows > ROWS_BY_KEY)
        return 0;
    struct entry_block *b = make_block(ref, number);
    if (!b)
        return 0;
    memcpy(b->data, c->here.data, ref->raw_len);
    memcpy(b->spots, c->spots, ref->rows * sizeof b->spots[0]);
    note_keys(b, ref->rows);
    *ret = b;
    return 1;
}

bool entry_block_find(const struct entry_block *b, uint64_t hash, struct bytes key, struct row *ret)
{
    for (uint32_t at = (uint32_t)hash & b->mask; b->by_key[at] != 0; at = (at + 1) & b->mask) {
        uint64_t entry = b->by_key[at];
        if ((entry & 0xffff0000) != tag_of(hash))
            continue;
        uint32_t i = (uint32_t)(entry & 0xffff) - 1, off = (uint32_t)(entry >> 32);
        const struct entry_spot *s = &b->spots[i];
        __builtin_prefetch(b->data + off); /* while the spot comes */
        if (s->key_len != key.len || memcmp(b->data + off, key.data, key.len) != 0)
            continue;
        *ret = (struct row){ .flags = s->flags,
                             .key = key_of(b, i),
                             .value = (const char *)b->data + s->value_off,
                             .value_len = s->value_len,
                             .time_us = s->time_us,
                             .place = b->number,
                             .number = b->first_row + i };
        return true;
    }
    return false;
}

/* ---- the cursor ---------------------------------------------------------------------------------------- */

static int blocks_check_footer(const struct entry_file *f, struct errmsg *msg)
{
    const struct entry_footer *e = &f->footer;
    const char *problem = NULL;

    if (e->deletes != 0 || e->last != 0 || e->skips.count != 0)
        problem = "a .rows file with what only a .entries file has";
    else if (e->time_min > e->time_max)
        problem = "its times end before they begin";
    else if (e->blocks.count > e->data_end || (e->blocks.count == 0) != (e->rows == 0))
        problem = "its blocks can't be its rows'";
    else if (e->blocks.count == 0 && e->data_end != sizeof(struct entry_header))
        problem = "data that belong to no block";
    if (problem)
        return entry_file_damaged(f, e->size - sizeof *e, msg, "%s", problem);
    return 0;
}

static void blocks_close(struct entry_cursor *base)
{
    struct blocks_cursor *c = cursor_of(base);

    if (!c)
        return;
    ZSTD_freeDCtx(c->zstd);
    if (c->window)
        filewindow_close(c->window);
    free(c->frame);
    free(c->here.data);
    free(c->more.data);
    free(c->spots);
    free(c->whole);
    free(c);
}

static int open_parts(struct blocks_cursor *c, struct entry_file *f, struct errmsg *msg)
{
    int r = entry_file_blocks(f, &c->refs, msg);
    if (r < 0)
        return r;
    c->zstd = ZSTD_createDCtx();
    if (!c->zstd)
        return fail(msg, -ENOMEM, "%s: no memory to read it", f->name);
    return filewindow_over(&c->window, f->fd, f->name, f->footer.size, msg);
}

/* Before the first row of file F. */
static void begin_file(struct blocks_cursor *c, const struct entry_file *f)
{
    c->count = f->footer.blocks.count;
    c->next_block = c->base.order == OLDEST_FIRST ? 0 : c->count;
    c->here.valid = c->more.valid = c->large = false;
    filewindow_stop_at(c->window, f->footer.data_end);
}

static int blocks_turn(struct entry_cursor *base, struct entry_file *f, struct errmsg *msg)
{
    struct blocks_cursor *c = cursor_of(base);

    int r = entry_file_blocks(f, &c->refs, msg);
    if (r < 0)
        return r;
    filewindow_turn(c->window, f->fd, f->name, f->footer.size);
    begin_file(c, f);
    return 0;
}

static int blocks_open(struct entry_cursor **ret, struct entry_file *f, enum entry_order order,
                       struct errmsg *msg)
{
    struct blocks_cursor *c = calloc(1, sizeof *c);

    if (!c)
        return fail(msg, -ENOMEM, "%s: no memory to read it", f->name);
    c->base.file = f;
    c->base.order = order;
    int r = open_parts(c, f, msg);
    if (r < 0) {
        blocks_close(&c->base);
        return r;
    }
    begin_file(c, f);
    *ret = &c->base;
    return 0;
}

const struct entry_kind entry_blocks = { .check_footer = blocks_check_footer,
                                         .open = blocks_open,
                                         .close = blocks_close,
                                         .turn = blocks_turn,
                                         .next = blocks_next,
                                         .value_read = blocks_value_read,
                                         .value_check = blocks_value_check,
                                         .seek_number = blocks_seek_number,
                                         .seek_place = blocks_seek_place };
