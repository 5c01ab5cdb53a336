/*
 * Inside of parts: the checked view of a part's bytes, and the reading of single rows and tables.
 *
 * part_open() checks what the header says once, so sections are what they claim to be.  What stands inside them may
 * still be damaged: everything here copies a value, checks the copy and uses the copy.  Functions that read a ref, an
 * index or an offset out of the part take care that it is inside.
 */
#ifndef SKADE_PART_VIEW_H
#define SKADE_PART_VIEW_H

#include "lifetime.h"
#include "mix.h"
#include "part.h"
#include "template.h"

#include <errno.h>

/* How many blocks after the home are probed before the tree is asked; by chance rows are 3 or 4 away at most. */
#define PART_PROBE_REACH 8

/* As template_render(). */
typedef size_t part_render(const struct template *t, uint32_t number, const uint8_t uuid[16], char *dst,
                           size_t cap);

/* What is compiled once for each instruction set; see part_kernel.h. */
struct part_kernel {
    enum part_isa isa;
    int (*find)(const struct part *p, uint32_t table, int64_t id, struct part_hit *ret);
    int (*find_by_tree)(const struct part *p, uint32_t table, int64_t id, struct part_hit *ret);
    int (*resolve)(const struct part *p, const struct lifetimes *lives, uint32_t table, int64_t id,
                   struct part_query *q);
    int (*resolve_by_tree)(const struct part *p, const struct lifetimes *lives, uint32_t table, int64_t id,
                           struct part_query *q);
    size_t (*resolve_many)(const struct part *p, struct part_many *m, uint32_t *list, size_t n);
    size_t (*resolve_many_by_tree)(const struct part *p, struct part_many *m, uint32_t *list, size_t n);
    void (*find_keys_by_tree)(const struct part *p, const int64_t *keys, uint32_t *refs, size_t n);
    part_render *render;
    uint64_t (*leaf)(const struct stree64 *tree, int64_t q);
};

extern const struct part_kernel part_kernel_scalar;
extern const struct part_kernel part_kernel_avx2;
extern const struct part_kernel part_kernel_avx512;
const struct part_kernel *part_kernel_of(enum part_isa isa);

struct part {
    const struct part_kernel *kernel;
    const struct part_block *blocks;
    const struct stree64_node *nodes;
    const struct part_extra *extras;
    const struct part_rank *ranks;
    const struct part_table *tables;
    const int64_t *times;
    const uint32_t *heads;
    const int64_t *fences;
    const uint32_t *order;
    const char *texts;
    const char *heap;
    uint64_t span;  /* greatest relative seq */
    uint32_t dense; /* so many table numbers from the first one on are all there */
    struct stree64 tree;
    struct part_header header;
};

/* A row, wherever it stands. */
struct record {
    uint32_t table;
    uint32_t word; /* enum part_word */
    uint32_t seq;  /* relative */
    int64_t snapshot;
    int64_t time_us;
    const uint8_t *tail; /* 16 bytes in the part */
};

static inline uint32_t load_u32(const void *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline uint64_t load_u64(const void *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

/* ---- tables ---------------------------------------------------------------------------------------------- */

/* No such table. */
#define PART_NO_TABLE UINT32_MAX

/* Few tables of widely spread numbers have no ranks. */
static inline uint32_t part_table_search(const struct part *p, uint32_t number)
{
    uint64_t low = 0;
    for (uint64_t n = p->header.tables.count; n > 0; n /= 2) {
        uint64_t middle = low + n / 2;
        if (p->tables[middle].number < number) {
            low = middle + 1;
            n--;
        }
    }
    return low < p->header.tables.count && p->tables[low].number == number ? (uint32_t)low : PART_NO_TABLE;
}

/* The index of table NUMBER in this part; part_open() has checked that ranks lead to tables. */
static inline uint32_t part_table_index(const struct part *p, uint32_t number)
{
    uint32_t offset = number - p->header.table_first;
    if (offset < p->dense)
        return offset;
    if (offset / 64 >= p->header.ranks.count)
        return p->header.ranks.count ? PART_NO_TABLE : part_table_search(p, number);
    const struct part_rank *rank = &p->ranks[offset / 64];
    uint64_t above = rank->bits >> offset % 64;
    uint64_t below = rank->bits & ((1ull << offset % 64) - 1);
    return above & 1 ? rank->rank + (uint32_t)__builtin_popcountll(below) : PART_NO_TABLE;
}

static inline int part_table_load(const struct part *p, uint32_t number, struct part_table *ret)
{
    uint32_t index = part_table_index(p, number);
    if (index == PART_NO_TABLE)
        return 0;
    *ret = p->tables[index];
    if (ret->number != number || !range_inside(ret->order_first, ret->order_count, p->header.order.count) ||
        !range_inside(ret->heads_first, ret->heads_count, p->header.heads.count))
        return SKADE_EDAMAGED;
    return 1;
}

/* The template of table NUMBER, which has INDEX; borrows the part's bytes.  false when it is damaged. */
static inline bool part_template(const struct part *p, uint64_t index, uint32_t number, struct template *ret)
{
    const struct part_table *t = &p->tables[index];
    uint32_t prefix_off = t->prefix_off;
    uint32_t suffix_off = t->suffix_off;
    ret->prefix_len = t->prefix_len;
    ret->suffix_len = t->suffix_len;
    ret->shape = t->shape;
    ret->width = t->width;
    ret->separator = (char)t->separator;
    if (part_text_fits(ret->prefix_len, ret->suffix_len)) {
        ret->prefix = t->text;
        ret->suffix = t->text + ret->prefix_len;
        return t->number == number;
    }
    ret->prefix = p->texts + prefix_off;
    ret->suffix = p->texts + suffix_off;
    return t->number == number && (uint64_t)prefix_off + ret->prefix_len <= p->header.texts.count &&
           (uint64_t)suffix_off + ret->suffix_len <= p->header.texts.count;
}

/* ---- rows ------------------------------------------------------------------------------------------------ */

/* The location and the time of a row that has PART_ESCAPE. */
static inline bool part_escaped(const struct part *p, const uint8_t tail[16], struct bytes *location,
                                int64_t *time_us)
{
    struct part_escape e;
    memcpy(&e, tail, sizeof e);
    if (e.len > LOCATION_MAX || !range_inside(e.off, sizeof *time_us + (uint64_t)e.len, p->header.heap.count))
        return false;
    memcpy(time_us, p->heap + e.off, sizeof *time_us);
    *location = (struct bytes){ p->heap + e.off + sizeof *time_us, e.len };
    return true;
}

/* Read a used slot of a block; the caller knows or works out the SNAPSHOT.  false when the row is damaged. */
static inline bool part_block_record(const struct part *p, const struct part_block *block, unsigned slot,
                                     int64_t snapshot, struct record *ret)
{
    const uint8_t *row = (const uint8_t *)&block->row[slot];
    ret->table = load_u32(row + offsetof(struct part_row, table));
    ret->word = load_u32(row + offsetof(struct part_row, word));
    ret->seq = load_u32(row + offsetof(struct part_row, seq));
    uint64_t time = load_u64(row + offsetof(struct part_row, time)) & PART_TIME_MAX;
    ret->time_us = (int64_t)((uint64_t)p->header.time_base + time);
    ret->tail = row + offsetof(struct part_row, tail);
    ret->snapshot = snapshot;
    struct bytes location;
    return ret->seq <= p->span &&
           (!(ret->word & PART_ESCAPE) || part_escaped(p, ret->tail, &location, &ret->time_us));
}

static inline bool part_extra_record(const struct part *p, uint64_t index, struct record *ret)
{
    if (index >= p->header.extras.count)
        return false;
    const struct part_extra *extra = &p->extras[index];
    *ret = (struct record){ .table = extra->table,
                            .word = extra->word,
                            .seq = extra->seq,
                            .snapshot = extra->snapshot,
                            .time_us = extra->time_us,
                            .tail = extra->tail };
    return ret->seq <= p->span;
}

/* Read the row that REF names.  false when there is none or it is damaged. */
static inline bool part_record_at(const struct part *p, uint32_t ref, struct record *ret)
{
    if (ref & PART_EXTRA)
        return part_extra_record(p, ref & ~PART_EXTRA, ret);
    const struct part_block *block = &p->blocks[ref / PART_SLOTS];
    unsigned slot = ref % PART_SLOTS;
    if (ref / PART_SLOTS >= p->header.blocks.count || !(block->marks & 1u << slot))
        return false;
    uint32_t table = load_u32(block->row[slot].table);
    return part_block_record(p, block, slot, key_id(table, block->key[slot], p->header.seg.seed), ret);
}

static inline void part_hit_of(const struct part *p, uint32_t ref, const struct record *r,
                               struct part_hit *ret)
{
    *ret = (struct part_hit){ .ref = ref,
                              .table = r->table,
                              .flags = r->word >> PART_NUMBER_BITS &
                                       (EVENT_INTRODUCES | EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT),
                              .kind = r->word & PART_COMPACT ? EVENT_COMPACT : EVENT_COMMIT,
                              .snapshot = r->snapshot,
                              .seq = p->header.seg.from_seq + r->seq,
                              .time_us = r->time_us };
}

/* ---- locations ------------------------------------------------------------------------------------------- */

static inline int part_copy_location(struct bytes location, char *buf, size_t cap, size_t *need)
{
    *need = location.len;
    if (location.len > cap)
        return -ERANGE;
    if (location.len)
        memcpy(buf, location.data, location.len);
    return (int)location.len;
}

/* Write the location of row R, whose table has INDEX, to BUF and its length to NEED.  The length, -ERANGE, damaged. */
static inline __attribute__((always_inline)) int part_record_location(const struct part *p,
                                                                      const struct record *r, uint64_t index,
                                                                      char *buf, size_t cap, size_t *need,
                                                                      part_render *render)
{
    struct template t;
    if (r->word & PART_ESCAPE) {
        struct bytes location;
        int64_t time_us;
        bool there = part_escaped(p, r->tail, &location, &time_us);
        return there ? part_copy_location(location, buf, cap, need) : SKADE_EDAMAGED;
    }
    if (!part_template(p, index, r->table, &t))
        return SKADE_EDAMAGED;
    size_t len = render(&t, r->word & PART_NUMBER, r->tail, buf, cap);
    if (len > LOCATION_MAX)
        return SKADE_EDAMAGED;
    *need = len;
    return len <= cap ? (int)len : -ERANGE;
}

/* What a header's header_check must be.  HEADER_LEN bytes at BASE are there. */
uint64_t part_header_check(const void *base, uint32_t header_len);

#endif
