/*
 * The cursor over a .entries file.
 *
 * Trailers link backward, and a lone row newest first is a step along the links.  Who goes on goes a block at a time,
 * ENTRY_SKIP rows whose ends the skips tell: a walk backward notes where the block's trailers are and checks its rows, then
 * they are a run (entry_run.h) for the cursor's order.
 *
 *      skips:          255                     511
 *      entries:  0 1 2 ... 255 | 256 257 ...   511 | 512 ... last
 *                begin <──walk── end
 *
 * Rows of a block that the window can't hold, or that isn't whole, are checked one by one when they are given: oldest first
 * by the places of the block, newest first along the links.
 *
 * Links are believed because the rows are checked: each row must begin where the one before ended, and its checksum,
 * seeded with that place, proves it.  Where a link is broken the rows between the block's begin and the damage are found
 * by trying each place where a trailer could be, so that all rows before a damage are delivered in either order.
 */
#include "entry_internal.h"
#include "checksum.h"
#include "row_sum.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define NONE UINT64_MAX
#define HEADER sizeof(struct entry_header)
#define TRAILER sizeof(struct entry_trailer)
#define SEARCH_TRIES 64
#define SPAN_MAX (1u << 20) /* of a block that is walked inside the window */

struct plain_cursor {
    struct entry_cursor base;
    struct filewindow *window;
    struct filewindow *links; /* over trailers of blocks that the window can't hold; made when it is needed */
    uint64_t number;          /* of the next row; the file's rows, or NONE when NEWEST_FIRST, at the end */
    uint64_t place;           /* of its trailer; 0: follows from the block */
    bool goes_on;             /* it is a neighbour of the one before */

    struct {            /* the rows whose places are known */
        uint64_t index; /* rows [index * ENTRY_SKIP, ... + count); NONE: no block yet */
        uint64_t begin; /* of the first row */
        uint64_t last;  /* trailer of the last one */
        unsigned count;
        unsigned front; /* places[0, front) and places[back, count) are known */
        unsigned back;
        bool checked;        /* all its rows are whole, and as long as no other row was looked at: */
        const uint8_t *data; /* where they are in the window, from BEGIN on */
        bool given;          /* as the run; NUMBER and PLACE are behind */
        struct entry_spot spots[ENTRY_SKIP]; /* when it isn't checked, only places are known */
    } block;

    struct {                          /* the current row's value, when it is long */
        uint64_t begin, payload, end; /* of the row, its payload, what its checksum covers */
        uint64_t check;
        uint64_t sum;    /* of [begin, summed) */
        uint64_t summed; /* a whole number of pieces behind begin, until it is end */
        uint64_t read;   /* offset up to which the value was read in order */
    } value;
};

static struct plain_cursor *plain(struct entry_cursor *c)
{
    return (struct plain_cursor *)c;
}

/* ---- one row ---- */

static uint64_t end_of(uint64_t place)
{
    return place ? place + TRAILER : HEADER;
}

static bool place_possible(const struct entry_file *f, uint64_t place)
{
    return place % 8 == 0 && place >= HEADER && place <= f->footer.data_end - TRAILER;
}

static uint64_t payload_at(const struct entry_file *f, uint64_t begin)
{
    return align_up(begin, f->header.align);
}

static uint64_t key_at(const struct entry_file *f, uint64_t begin, const struct entry_trailer *t)
{
    return payload_at(f, begin) + t->payload_len;
}

/* Can T at PLACE be the trailer of row NUMBER, beginning at BEGIN?  PLACE is possible. */
static bool fits(const struct entry_file *f, const struct entry_trailer *t, uint64_t begin, uint64_t place,
                 uint64_t number)
{
    if (t->number != (uint32_t)number || (t->prev == 0) != (number == 0) || end_of(t->prev) != begin)
        return false;
    if (begin > place || t->payload_len > place || (t->flags & ~ENTRY_FLAGS) != 0)
        return false;
    if (!(t->flags & ENTRY_KEYED) && (t->key_len || t->flags & ENTRY_DELETE))
        return false;
    if (t->flags & ENTRY_DELETE && t->payload_len)
        return false;
    return align_up(key_at(f, begin, t) + t->key_len, 8) == place;
}

static int link_at(struct plain_cursor *c, struct filewindow *w, uint64_t place, bool backward,
                   struct entry_trailer *ret, struct errmsg *msg)
{
    int error;
    if (!place_possible(c->base.file, place))
        return entry_file_damaged(c->base.file, place, msg, "a row can't end here");
    const uint8_t *at = filewindow_get(w, place, TRAILER, backward, &error, msg);
    if (!at)
        return error;
    memcpy(ret, at, TRAILER);
    return 0;
}

/* What T says of row NUMBER.  Field by field, see entry_run_next(). */
static void describe(struct plain_cursor *c, uint64_t number, uint64_t place, const struct entry_trailer *t,
                     const uint8_t *value, const uint8_t *key, struct row *ret)
{
    ret->flags = t->flags;
    ret->key.data = (const char *)key;
    ret->key.len = t->key_len;
    ret->value = c->base.row.value = (const char *)value;
    ret->value_len = c->base.row.value_len = t->payload_len;
    ret->time_us = c->base.time_us;
    ret->place = place;
    ret->number = c->base.row.number = number;
}

/* A long row: only its key and trailer are in memory; the checksum follows with its value. */
static int take_long(struct plain_cursor *c, uint64_t number, uint64_t begin, uint64_t place,
                     const struct entry_trailer *t, struct row *ret, struct errmsg *msg)
{
    const struct entry_file *f = c->base.file;
    uint64_t key = key_at(f, begin, t);
    int error;
    const uint8_t *at = filewindow_get(c->window, key, (size_t)(place - key), false, &error, msg);
    if (!at)
        return error;
    describe(c, number, place, t, NULL, at, ret);
    c->value.begin = c->value.summed = begin;
    c->value.payload = c->value.read = payload_at(f, begin);
    c->value.end = place + offsetof(struct entry_trailer, check);
    c->value.check = t->check;
    c->value.sum = row_seed(f->seed, begin);
    return 0;
}

static int take_short(struct plain_cursor *c, uint64_t number, uint64_t begin, uint64_t place,
                      const struct entry_trailer *t, struct row *ret, struct errmsg *msg)
{
    const struct entry_file *f = c->base.file;
    size_t covered = (size_t)(place - begin) + offsetof(struct entry_trailer, check);
    bool backward = c->base.order == NEWEST_FIRST;
    int error;
    const uint8_t *at = filewindow_get(c->window, begin, covered, backward, &error, msg);
    if (!at)
        return error;
    if (checksum_pieces(at, covered, row_seed(f->seed, begin)) != t->check)
        return entry_file_damaged(f, begin, msg, "the checksum of row %" PRIu64 " is wrong", number);
    at += payload_at(f, begin) - begin;
    describe(c, number, place, t, at, at + t->payload_len, ret);
    return 0;
}

/* Row NUMBER, from BEGIN to the trailer at PLACE, which is T. */
static int take(struct plain_cursor *c, uint64_t number, uint64_t begin, uint64_t place,
                const struct entry_trailer *t, struct row *ret, struct errmsg *msg)
{
    const struct entry_file *f = c->base.file;
    if (!fits(f, t, begin, place, number))
        return entry_file_damaged(f, place, msg, "no trailer of row %" PRIu64, number);
    if (t->payload_len > ROW_WHOLE)
        return take_long(c, number, begin, place, t, ret, msg);
    return take_short(c, number, begin, place, t, ret, msg);
}

/* ---- a row in memory ---- */

/* All that the trailer T at PLACE says of its own row: where it begins, and that it ends here. */
static bool is_trailer(const struct entry_bytes *b, const struct entry_trailer *t, uint64_t place)
{
    uint64_t begin = end_of(t->prev);

    if (t->prev >= place || begin > place || t->payload_len > place || (t->flags & ~ENTRY_FLAGS) != 0)
        return false;
    return align_up(align_up(begin, b->align) + t->payload_len + t->key_len, 8) == place;
}

bool entry_row_in(const struct entry_bytes *b, uint64_t place, struct row *ret)
{
    struct entry_trailer t;

    if (place % 8 != 0 || place < HEADER || b->end < TRAILER || place > b->end - TRAILER)
        return false;
    __builtin_prefetch(b->data + place - CACHE_LINE); /* its key and value, or the end of them */
    memcpy(&t, b->data + place, sizeof t);
    if (!is_trailer(b, &t, place))
        return false;
    uint64_t begin = end_of(t.prev);
    size_t covered = (size_t)(place - begin) + offsetof(struct entry_trailer, check);
    if (row_sum(b->data + begin, covered, row_seed(b->seed, begin)) != t.check)
        return false;
    const char *value = (const char *)b->data + align_up(begin, b->align);
    *ret = (struct row){ .flags = t.flags,
                         .key = { value + t.payload_len, t.key_len },
                         .value = value,
                         .value_len = t.payload_len,
                         .place = place,
                         .number = t.number };
    return true;
}

/* ---- long values ---- */

/* Take the sum up to OFF, or as far as whole pieces go. */
static int sum_up_to(struct plain_cursor *c, uint64_t off, struct errmsg *msg)
{
    int error;
    while (c->value.summed < off) {
        uint64_t left = c->value.end - c->value.summed;
        size_t n = left < ENTRY_PIECE ? (size_t)left : ENTRY_PIECE;
        if (off - c->value.summed < n)
            return 0;
        const uint8_t *at = filewindow_get(c->window, c->value.summed, n, false, &error, msg);
        if (!at)
            return error;
        c->value.sum = checksum(at, n, c->value.sum);
        c->value.summed += n;
    }
    return 0;
}

static int finish_sum(struct plain_cursor *c, struct errmsg *msg)
{
    int r = sum_up_to(c, c->value.end, msg);
    if (r < 0 || c->value.sum == c->value.check)
        return r;
    return entry_file_damaged(c->base.file, c->value.begin, msg, "the checksum of row %" PRIu64 " is wrong",
                              c->base.row.number);
}

/* What was read in order is in the window still when its sum is taken. */
static int note_read(struct plain_cursor *c, uint64_t off, uint64_t end, struct errmsg *msg)
{
    if (off > c->value.read)
        return 0;
    if (end > c->value.read)
        c->value.read = end;
    if (end == c->value.payload + c->base.row.value_len)
        return finish_sum(c, msg);
    return sum_up_to(c, c->value.read, msg);
}

static int read_long(struct plain_cursor *c, uint64_t off, char *buffer, size_t len, struct errmsg *msg)
{
    int r = 0, error;
    off += c->value.payload;
    while (len > 0 && r == 0) {
        size_t n = len < ENTRY_PIECE ? len : ENTRY_PIECE;
        const uint8_t *at = filewindow_get(c->window, off, n, false, &error, msg);
        if (!at)
            return error;
        memcpy(buffer, at, n);
        r = note_read(c, off, off + n, msg);
        buffer += n;
        off += n;
        len -= n;
    }
    return r;
}

static int plain_value_read(struct entry_cursor *base, uint64_t off, void *buffer, size_t len,
                            struct errmsg *msg)
{
    if (base->row.value_len > ROW_WHOLE)
        return read_long(plain(base), off, buffer, len, msg);
    if (base->row.value)
        memcpy(buffer, base->row.value + off, len);
    return 0;
}

static int plain_value_check(struct entry_cursor *base, struct errmsg *msg)
{
    return base->row.value_len > ROW_WHOLE ? finish_sum(plain(base), msg) : 0;
}

/* ---- blocks of rows ---- */

/* Begin and last place of block INDEX; both are believed as far as they fit. */
static int block_ends(struct plain_cursor *c, uint64_t index, uint64_t *begin, uint64_t *last,
                      struct errmsg *msg)
{
    struct entry_file *f = c->base.file;
    const uint64_t *skips;
    int r = entry_file_skips(f, &skips, msg);
    if (r < 0)
        return r;
    uint64_t before = index ? skips[index - 1] : 0;
    *last = index < f->footer.skips.count ? skips[index] : f->footer.last;
    if ((index && !place_possible(f, before)) || !place_possible(f, *last) || end_of(before) > *last)
        return entry_file_damaged(f, f->footer.skips.off, msg,
                                  "rows %" PRIu64 " to %" PRIu64 " have no place", index * ENTRY_SKIP,
                                  index * ENTRY_SKIP + ENTRY_SKIP - 1);
    *begin = end_of(before);
    return 0;
}

static int links_window(struct plain_cursor *c, struct errmsg *msg)
{
    if (c->links)
        return 0;
    return filewindow_over(&c->links, c->base.file->fd, c->base.file->name, c->base.file->footer.size, msg);
}

/* The block's trailer at PLACE, which it may have: from the block's DATA, or by the window of links. */
static int block_link(struct plain_cursor *c, const uint8_t *data, uint64_t place, struct entry_trailer *ret)
{
    if (!data)
        return link_at(c, c->links, place, true, ret, NULL);
    if (place % 8 != 0 || place > c->block.last)
        return SKADE_EDAMAGED;
    memcpy(ret, data + (place - c->block.begin), sizeof *ret);
    return 0;
}

/* Has T the flags that it may have, and lengths that go with them? */
static inline bool flags_fit(const struct entry_trailer *t)
{
    if (t->flags == ENTRY_KEYED) /* most of them */
        return true;
    if ((t->flags & ~ENTRY_FLAGS) != 0)
        return false;
    if (!(t->flags & ENTRY_KEYED))
        return t->key_len == 0 && !(t->flags & ENTRY_DELETE);
    return t->payload_len == 0;
}

/* Where the row that begins at BEGIN and ends with its trailer T at PLACE is in a block that begins at BASE; false if it
 * can't be there.  The lengths are less than SPAN_MAX then, so nothing overflows. */
static inline bool find_spot(const struct entry_trailer *t, uint64_t begin, uint64_t place, uint64_t base,
                             uint64_t align, struct entry_spot *spot)
{
    uint64_t value = align_up(begin, align), key = value + t->payload_len;
    if (t->payload_len > place - begin || align_up(key + t->key_len, 8) != place || !flags_fit(t))
        return false;
    spot->value_off = (uint32_t)(value - base);
    spot->key_off = (uint32_t)(key - base);
    spot->value_len = (uint32_t)t->payload_len;
    spot->key_len = t->key_len;
    spot->flags = t->flags;
    spot->place = place;
    return true;
}

/* Are all rows of the block whole, whose bytes are DATA?  They are its spots then.  From the last trailer backward, each
 * row with its checksum: no sum waits for another, so that this takes half the time of checking rows one by one. */
static bool check_block(struct plain_cursor *c, const uint8_t *data)
{
    const struct entry_file *f = c->base.file;
    const uint64_t base = c->block.begin, align = f->header.align, seed = f->seed;
    const uint32_t first = (uint32_t)(c->block.index * ENTRY_SKIP);
    uint64_t place = c->block.last;
    struct entry_trailer t;
    for (unsigned i = c->block.count; i-- > 0; place = t.prev) {
        if (place % 8 != 0 || place < base)
            return false;
        memcpy(&t, data + (place - base), TRAILER);
        uint64_t begin = end_of(t.prev);
        if (t.number != first + i || t.prev >= place || begin > place || begin < base ||
            (i == 0) != (begin == base) || !find_spot(&t, begin, place, base, align, &c->block.spots[i]))
            return false;
        size_t covered = (size_t)(place - begin) + offsetof(struct entry_trailer, check);
        c->block.spots[i].time_us = c->base.time_us;
        if (row_sum(data + (begin - base), covered, row_seed(seed, begin)) != t.check)
            return false;
    }
    /* Only the file's first row has none before it. */
    return (t.prev == 0) == (c->block.index == 0);
}

/* Note the places of the block's trailers from the last one backward, up to its first or as far as links look right.
 * No error here: what is wrong is found and told when that row's turn comes. */
static void follow_links(struct plain_cursor *c, const uint8_t *data)
{
    struct entry_trailer t;
    uint64_t place = c->block.last, first = c->block.index * ENTRY_SKIP;
    for (unsigned i = c->block.count; i-- > 0; place = t.prev) {
        if (place < c->block.begin || block_link(c, data, place, &t) < 0)
            return;
        if (t.number != (uint32_t)(first + i))
            return;
        c->block.spots[i].place = place;
        c->block.back = i;
        if (t.prev >= place || (i == 0) != (end_of(t.prev) == c->block.begin))
            return;
    }
}

/* All of the block at once, so that the walk doesn't push the window to and fro; NULL if it is too long. */
static const uint8_t *block_data(struct plain_cursor *c)
{
    uint64_t span = end_of(c->block.last) - c->block.begin;
    bool backward = c->base.order == NEWEST_FIRST;
    int error;
    if (span > SPAN_MAX)
        return NULL;
    return filewindow_get(c->window, c->block.begin, (size_t)span, backward, &error, NULL);
}

/* Where are the rows of the block? */
static int explore(struct plain_cursor *c, struct errmsg *msg)
{
    const uint8_t *data = block_data(c);
    int r = data ? 0 : links_window(c, msg);
    if (r < 0)
        return r;
    c->block.data = data;
    c->block.checked = data && check_block(c, data);
    if (c->block.checked) {
        c->block.back = 0;
        return 0;
    }
    follow_links(c, data);
    return links_window(c, msg);
}

static int load_block(struct plain_cursor *c, uint64_t index, struct errmsg *msg)
{
    uint64_t left = c->base.file->footer.rows - index * ENTRY_SKIP;

    c->block.index = NONE;
    c->block.checked = false;
    int r = block_ends(c, index, &c->block.begin, &c->block.last, msg);
    if (r < 0)
        return r;
    c->block.index = index;
    c->block.count = left < ENTRY_SKIP ? (unsigned)left : ENTRY_SKIP;
    c->block.front = 0;
    c->block.back = c->block.count;
    r = explore(c, msg);
    if (r < 0)
        c->block.index = NONE;
    return r;
}

/* Is the row from BEGIN to its trailer T at PLACE whole?  It may move the window. */
static bool is_whole(struct plain_cursor *c, uint64_t number, uint64_t begin, uint64_t place,
                     const struct entry_trailer *t)
{
    struct row row;
    if (take(c, number, begin, place, t, &row, NULL) < 0)
        return false;
    return t->payload_len <= ROW_WHOLE || finish_sum(c, NULL) == 0;
}

/* The trailer of row NUMBER, which begins at BEGIN, by trying all places before LIMIT; 0: none.  Who made a payload
 * of things that look like its trailer doesn't make us sum it up for each of them. */
static uint64_t trailer_between(struct plain_cursor *c, uint64_t number, uint64_t begin, uint64_t limit)
{
    struct entry_trailer t;
    unsigned tries = SEARCH_TRIES;
    for (uint64_t place = payload_at(c->base.file, begin); place < limit; place += 8) {
        if (link_at(c, c->links, place, false, &t, NULL) < 0)
            return 0;
        if (!fits(c->base.file, &t, begin, place, number))
            continue;
        if (is_whole(c, number, begin, place, &t))
            return place;
        if (--tries == 0)
            return 0;
    }
    return 0;
}

/* Find the first row that isn't known from the front.  Where the last one must end is known, whatever is there. */
static int search(struct plain_cursor *c, struct errmsg *msg)
{
    unsigned i = c->block.front, back = c->block.back;
    uint64_t number = c->block.index * ENTRY_SKIP + i;
    uint64_t begin = i ? end_of(c->block.spots[i - 1].place) : c->block.begin;
    uint64_t limit = back < c->block.count ? c->block.spots[back].place : c->block.last;
    uint64_t place = i + 1 == c->block.count ? limit : trailer_between(c, number, begin, limit);
    if (place == 0)
        return entry_file_damaged(c->base.file, begin, msg, "row %" PRIu64 ", which begins here, is damaged",
                                  number);
    c->block.spots[i].place = place;
    c->block.front++;
    return 0;
}

/* Where row I of the block begins and has its trailer. */
static int ends_of_row(struct plain_cursor *c, unsigned i, uint64_t *begin, uint64_t *place,
                       struct errmsg *msg)
{
    /* Behind a break the row before is known, or this is the first behind it: then its link says. */
    while (i >= c->block.front && i < c->block.back) {
        int r = search(c, msg);
        if (r < 0)
            return r;
    }
    *place = c->block.spots[i].place;
    bool before_known = i > 0 && (i - 1 < c->block.front || i - 1 >= c->block.back);
    *begin = i == 0 ? c->block.begin : before_known ? end_of(c->block.spots[i - 1].place) : 0;
    return 0;
}

/* ---- order ---- */

static int next_by_place(struct plain_cursor *c, struct row *ret, struct errmsg *msg)
{
    struct entry_trailer t;
    c->block.checked = false;
    int r = link_at(c, c->window, c->place, true, &t, msg);
    if (r < 0)
        return r;
    if (t.prev >= c->place)
        return entry_file_damaged(c->base.file, c->place, msg, "no trailer of row %" PRIu64, c->number);
    r = take(c, c->number, end_of(t.prev), c->place, &t, ret, msg);
    if (r < 0)
        return r;
    c->place = c->base.order == NEWEST_FIRST ? t.prev : 0;
    return 1;
}

/* The trailer at PLACE; a row that fits into the window gets there as a whole, for who goes forward. */
static int link_forward(struct plain_cursor *c, uint64_t begin, uint64_t place, struct entry_trailer *ret,
                        struct errmsg *msg)
{
    int error;
    if (begin && end_of(place) - begin <= FILEWINDOW_MAX) {
        if (!filewindow_get(c->window, begin, (size_t)(end_of(place) - begin), false, &error, msg))
            return error;
        return link_at(c, c->window, place, false, ret, msg);
    }
    return link_at(c, c->links, place, false, ret, msg);
}

static int next_by_block(struct plain_cursor *c, struct row *ret, struct errmsg *msg)
{
    struct entry_trailer t;
    uint64_t begin, place;
    c->block.checked = false;
    int r = ends_of_row(c, (unsigned)(c->number % ENTRY_SKIP), &begin, &place, msg);
    if (r < 0)
        return r;
    r = link_forward(c, begin, place, &t, msg);
    if (r < 0)
        return r;
    r = take(c, c->number, begin ? begin : end_of(t.prev), place, &t, ret, msg);
    return r < 0 ? r : 1;
}

static bool is_checked(const struct plain_cursor *c)
{
    return c->block.checked && c->number / ENTRY_SKIP == c->block.index;
}

/* The block's rows from the next one on are the run. */
static int give_block(struct plain_cursor *c, struct row *ret)
{
    uint32_t i = (uint32_t)(c->number % ENTRY_SKIP);
    bool forward = c->base.order == OLDEST_FIRST;
    c->base.run = (struct entry_run){ .spots = c->block.spots,
                                      .data = c->block.data,
                                      .first = c->block.index * ENTRY_SKIP,
                                      .low = forward ? i : 0,
                                      .high = forward ? c->block.count : i + 1 };
    c->block.given = true;
    return entry_run_next(&c->base.run, forward, ret);
}

/* All of the block was given: go on where it ends. */
static void leave_block(struct plain_cursor *c)
{
    c->block.given = false;
    c->goes_on = true;
    if (c->base.order == OLDEST_FIRST) {
        c->number = c->block.index * ENTRY_SKIP + c->block.count;
        c->place = 0;
    } else {
        c->number = c->block.index * ENTRY_SKIP - 1; /* 0 - 1 is NONE */
        c->place = c->block.begin > HEADER ? c->block.begin - TRAILER : 0;
    }
}

/* Newest first a block is a shortcut: unless it leads to the same rows, the links are followed. */
static void try_block(struct plain_cursor *c)
{
    if (load_block(c, c->number / ENTRY_SKIP, NULL) < 0)
        c->block.index = c->number / ENTRY_SKIP; /* not again for its other rows */
    else if (c->block.checked && c->block.spots[c->number % ENTRY_SKIP].place != c->place)
        c->block.checked = false;
}

/* The block of the next row, if it is to be read by its block. */
static int enter_block(struct plain_cursor *c, struct errmsg *msg)
{
    if (c->number / ENTRY_SKIP == c->block.index)
        return 0;
    if (c->place == 0)
        return load_block(c, c->number / ENTRY_SKIP, msg);
    if (c->goes_on)
        try_block(c);
    return 0;
}

static int next_row(struct plain_cursor *c, struct row *ret, struct errmsg *msg)
{
    if (!is_checked(c)) {
        int r = enter_block(c, msg);
        if (r < 0)
            return r;
    }
    if (is_checked(c))
        return give_block(c, ret);
    return c->place ? next_by_place(c, ret, msg) : next_by_block(c, ret, msg);
}

static int plain_next(struct entry_cursor *base, struct row *ret, struct errmsg *msg)
{
    struct plain_cursor *c = plain(base);
    if (c->block.given)
        leave_block(c);
    if (c->number >= base->file->footer.rows)
        return 0;
    int r = next_row(c, ret, msg);
    if (r == 1 && !c->block.given)
        c->number += base->order == NEWEST_FIRST ? NONE : 1; /* 0 - 1 is NONE */
    c->goes_on = r == 1;
    return r;
}

static int plain_seek_number(struct entry_cursor *base, uint64_t number, struct errmsg *msg)
{
    struct plain_cursor *c = plain(base);
    uint64_t begin;
    c->number = number;
    c->place = 0;
    c->goes_on = c->block.given = false;
    if (base->order == OLDEST_FIRST)
        return 0;
    if (number == base->file->footer.rows - 1) {
        c->place = base->file->footer.last;
        return 0;
    }
    int r = load_block(c, number / ENTRY_SKIP, msg);
    return r < 0 ? r : ends_of_row(c, (unsigned)(number % ENTRY_SKIP), &begin, &c->place, msg);
}

/* The block of the row that ends at PLACE, by the skips. */
static uint64_t block_of(const uint64_t *skips, uint64_t count, uint64_t place)
{
    uint64_t low = 0, high = count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (skips[middle] < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int plain_seek_place(struct entry_cursor *base, uint64_t place, struct errmsg *msg)
{
    struct plain_cursor *c = plain(base);
    struct entry_file *f = base->file;
    struct entry_trailer t;
    const uint64_t *skips;

    c->block.checked = c->block.given = false;
    c->goes_on = false;
    int r = entry_file_skips(f, &skips, msg);
    if (r < 0)
        return r;
    r = link_at(c, c->window, place, true, &t, msg);
    if (r < 0)
        return r;
    /* The block says which row it can be, the trailer which of the block's; its checksum will prove both. */
    uint64_t number = block_of(skips, f->footer.skips.count, place) * ENTRY_SKIP + t.number % ENTRY_SKIP;
    if (number >= f->footer.rows)
        return entry_file_damaged(f, place, msg, "no trailer of a row");
    c->number = number;
    c->place = place;
    return 0;
}

/* ---- made and unmade ---- */

static void plain_close(struct entry_cursor *base)
{
    struct plain_cursor *c = plain(base);
    filewindow_close(c->window);
    filewindow_close(c->links);
    free(c);
}

/* Before the first row of file F. */
static void begin_file(struct plain_cursor *c, const struct entry_file *f)
{
    bool forward = c->base.order == OLDEST_FIRST;
    c->number = forward ? 0 : f->footer.rows - 1; /* of no rows: NONE, the end */
    c->place = forward ? 0 : f->footer.last;
    c->goes_on = c->block.given = c->block.checked = false;
    c->block.index = NONE;
    filewindow_stop_at(c->window, f->footer.data_end);
}

static int plain_open(struct entry_cursor **ret, struct entry_file *f, enum entry_order order,
                      struct errmsg *msg)
{
    struct plain_cursor *c = calloc(1, sizeof *c);
    if (!c)
        return fail(msg, -ENOMEM, "%s: no memory for a cursor", f->name);
    c->base.file = f;
    c->base.order = order;
    int r = filewindow_over(&c->window, f->fd, f->name, f->footer.size, msg);
    if (r < 0) {
        plain_close(&c->base);
        return r;
    }
    begin_file(c, f);
    *ret = &c->base;
    return 0;
}

static int plain_turn(struct entry_cursor *base, struct entry_file *f, struct errmsg *msg)
{
    struct plain_cursor *c = plain(base);
    (void)msg;
    filewindow_close(c->links);
    c->links = NULL;
    filewindow_turn(c->window, f->fd, f->name, f->footer.size);
    begin_file(c, f);
    return 0;
}

static int plain_check_footer(const struct entry_file *f, struct errmsg *msg)
{
    const struct entry_footer *t = &f->footer;
    bool empty = t->rows == 0;
    if (t->blocks.count || t->skips.count != t->rows / ENTRY_SKIP || f->header.part ||
        empty != (t->last == 0) || end_of(t->last) != t->data_end || t->rows > t->data_end / TRAILER)
        return entry_file_damaged(f, t->size - sizeof *t, msg, "the footer is not that of a file of entries");
    if (!empty && !place_possible(f, t->last))
        return entry_file_damaged(f, t->size - sizeof *t, msg, "the last row has no place");
    return 0;
}

const struct entry_kind entry_plain = {
    .check_footer = plain_check_footer,
    .open = plain_open,
    .close = plain_close,
    .turn = plain_turn,
    .next = plain_next,
    .value_read = plain_value_read,
    .value_check = plain_value_check,
    .seek_number = plain_seek_number,
    .seek_place = plain_seek_place,
};
