/*
 * Questions by id, compiled once for each instruction set.
 *
 * part_scalar.c, part_avx2.c and part_avx512.c define the three things that differ, then include this file:
 *
 *      static unsigned node_rank(const struct stree64_node *node, int64_t q);         number of keys < q
 *      static unsigned equal_keys(const struct part_block *block, int64_t key);       a bit for each slot with KEY
 *      static size_t render(...);                                                     as template_render()
 *
 * and export a struct part_kernel of what is here.  All give the same answers.  Everything is static: code that was
 * compiled for a better processor must not be taken by the linker for another file's.
 */
#ifndef SKADE_PART_KERNEL_H
#define SKADE_PART_KERNEL_H

#include "part_view.h"

/* Queries per stage of a batch.  More lines than a core keeps in flight (about 20) would only wait for each other;
 * found by bench_part. */
#define GROUP 8

/* Fewer queries than this aren't worth a pipeline. */
#define FEW 4

/* ---- one block ------------------------------------------------------------------------------------------- */

static inline void prefetch_block(const struct part_block *block)
{
    for (size_t i = 0; i < sizeof *block; i += CACHE_LINE)
        __builtin_prefetch((const char *)block + i);
}

/* The slot of BLOCK that has KEY and TABLE, or -1.  Other tables may have the same key. */
static inline int find_slot(const struct part_block *block, uint32_t marks, int64_t key, uint32_t table)
{
    for (unsigned equal = equal_keys(block, key) & marks & PART_USED; equal; equal &= equal - 1) {
        int slot = __builtin_ctz(equal);
        if (load_u32(block->row[slot].table) == table)
            return slot;
    }
    return -1;
}

static inline uint32_t find_in(const struct part *p, uint64_t block, int64_t key, uint32_t table)
{
    int slot = find_slot(&p->blocks[block], p->blocks[block].marks, key, table);
    return slot < 0 ? PART_NO_REF : (uint32_t)(block * PART_SLOTS + (unsigned)slot);
}

/* ---- the tree: the guaranteed path ----------------------------------------------------------------------- */

static uint64_t tree_leaf(const struct stree64 *tree, int64_t q)
{
    const struct stree64_shape *shape = &tree->shape;
    uint64_t index = 0;
    for (uint32_t level = 0; level < shape->height; level++)
        index = stree64_child(shape, level, index, node_rank(&tree->nodes[shape->first[level] + index], q));
    return index;
}

/* Rows of equal keys may go on in the next blocks; a block's last key says whether they do. */
static uint32_t find_by_tree(const struct part *p, int64_t key, uint32_t table)
{
    for (uint64_t block = tree_leaf(&p->tree, key); block < p->header.blocks.count; block++) {
        uint32_t ref = find_in(p, block, key, table);
        if (ref != PART_NO_REF || p->blocks[block].key[PART_SLOTS - 1] != key)
            return ref;
    }
    return PART_NO_REF;
}

/* ---- the direct probe ------------------------------------------------------------------------------------ */

/* 0 or 1, without a branch. */
static inline unsigned may_be_before(const struct part_block *block, uint32_t marks, int64_t key)
{
    return marks / PART_BACK & (unsigned)(key <= block->key[0]);
}

static inline unsigned may_be_ahead(const struct part_block *block, uint32_t marks, int64_t key)
{
    return marks / PART_AHEAD & (unsigned)(key >= block->key[PART_SLOTS - 1]);
}

/* KEY isn't in its home, and the home's marks say that rows of it stand elsewhere. */
static __attribute__((noinline)) uint32_t find_around(const struct part *p, uint64_t home, int64_t key,
                                                      uint32_t table)
{
    const struct part_block *block = &p->blocks[home];
    uint32_t ref = PART_NO_REF;
    if (may_be_before(block, block->marks, key) && home > 0)
        ref = find_in(p, home - 1, key, table);
    uint64_t at = home;
    while (ref == PART_NO_REF && may_be_ahead(&p->blocks[at], p->blocks[at].marks, key)) {
        if (++at == p->header.blocks.count)
            break;
        if (at > home + PART_PROBE_REACH)
            return find_by_tree(p, key, table);
        ref = find_in(p, at, key, table);
    }
    return ref;
}

static inline uint32_t find_ref(const struct part *p, int64_t key, uint32_t table)
{
    uint64_t home = key_home(key, p->header.homes);
    const struct part_block *block = &p->blocks[home];
    prefetch_block(block);
    uint32_t marks = block->marks;
    int slot = find_slot(block, marks, key, table);
    if (slot >= 0)
        return (uint32_t)(home * PART_SLOTS + (unsigned)slot);
    if (may_be_before(block, marks, key) || may_be_ahead(block, marks, key))
        return find_around(p, home, key, table);
    return PART_NO_REF;
}

/* ---- one question ---------------------------------------------------------------------------------------- */

static inline int answer_one(const struct part *p, uint32_t ref, int64_t id, struct part_hit *ret)
{
    struct record record;
    if (ref == PART_NO_REF)
        return 0;
    if (!part_block_record(p, &p->blocks[ref / PART_SLOTS], ref % PART_SLOTS, id, &record))
        return SKADE_EDAMAGED;
    part_hit_of(p, ref, &record, ret);
    return 1;
}

static int kernel_find(const struct part *p, uint32_t table, int64_t id, struct part_hit *ret)
{
    if (part_table_index(p, table) == PART_NO_TABLE)
        return 0;
    return answer_one(p, find_ref(p, key_of(table, id, p->header.seg.seed), table), id, ret);
}

/* Once more without functions between, since nearly every question is this one. */
static int kernel_resolve(const struct part *p, uint32_t table, int64_t id, struct part_hit *ret, char *buf,
                          size_t cap, size_t *len)
{
    struct record record;
    uint32_t index = part_table_index(p, table);
    if (index == PART_NO_TABLE)
        return 0;
    __builtin_prefetch(&p->tables[index]);
    uint32_t ref = find_ref(p, key_of(table, id, p->header.seg.seed), table);
    if (ref == PART_NO_REF)
        return 0;
    if (!part_block_record(p, &p->blocks[ref / PART_SLOTS], ref % PART_SLOTS, id, &record))
        return SKADE_EDAMAGED;
    part_hit_of(p, ref, &record, ret);
    int r = part_record_location(p, &record, index, buf, cap, len, render);
    return r < 0 && r != -ERANGE ? r : 1;
}

static int kernel_find_by_tree(const struct part *p, uint32_t table, int64_t id, struct part_hit *ret)
{
    if (part_table_index(p, table) == PART_NO_TABLE)
        return 0;
    return answer_one(p, find_by_tree(p, key_of(table, id, p->header.seg.seed), table), id, ret);
}

/* ---- a batch --------------------------------------------------------------------------------------------------
 *
 * Queries go through three stages, a group at a time, and each stage asks memory for what the next one reads:
 *
 *      ask      key, home           ->  the line of the home's keys, the table
 *      match    slot                ->  the lines of the row, the table's prefix; or the neighbour, for the few whose
 *                                       row may stand there
 *      finish   row, location
 *
 * While one group waits for memory the next is worked on.  What goes on to the next stage is appended without a
 * branch (write, then count or don't), so that a mix of hits and misses costs no mispredictions.
 */

struct lane {
    struct part_query *query;
    const struct part_block *block; /* the home, or its neighbour */
    int64_t key;
    uint32_t table; /* index */
    uint32_t slot;
};

struct group {
    struct lane lane[GROUP];
    size_t asked;
    size_t found;
    size_t astray;
    struct lane *found_lane[GROUP];
    struct lane *astray_lane[GROUP];
};

static inline __attribute__((always_inline)) void finish_query(const struct part *p, struct part_query *q,
                                                               const struct part_block *block, unsigned slot,
                                                               uint32_t table, uint32_t part_no)
{
    struct record record;
    size_t len = 0;
    int r = SKADE_EDAMAGED;
    if (part_block_record(p, block, slot, q->id, &record)) {
        part_hit_of(p, (uint32_t)((uint64_t)(block - p->blocks) * PART_SLOTS + slot), &record, &q->hit);
        r = part_record_location(p, &record, table, q->location, q->location_cap, &len, render);
    }
    q->part = part_no;
    q->location_len = (uint32_t)len;
    q->status = r < 0 ? PART_ERROR : PART_FOUND;
    q->error = r < 0 ? r : 0;
}

/* Take up to a group of queries that still ask; returns the first one that wasn't looked at. */
static inline size_t ask(const struct part *p, struct part_query *queries, size_t at, size_t n,
                         struct group *g)
{
    size_t count = 0;
    for (; at < n && count < GROUP; at++) {
        struct part_query *q = &queries[at];
        struct lane *lane = &g->lane[count];
        lane->query = q;
        lane->table = part_table_index(p, q->table);
        lane->key = key_of(q->table, q->id, p->header.seg.seed);
        lane->block = &p->blocks[key_home(lane->key, p->header.homes)];
        __builtin_prefetch(lane->block);
        /* There may be no such table; asking for memory that isn't there is harmless, pointing at it isn't. */
        __builtin_prefetch((const void *)((uintptr_t)p->tables + lane->table * sizeof(struct part_table)));
        count += (unsigned)(q->status == PART_ASK) & (unsigned)(lane->table != PART_NO_TABLE);
    }
    g->asked = count;
    return at;
}

static inline void prefetch_prefix(const struct part *p, uint32_t table)
{
    uintptr_t prefix = (uintptr_t)p->texts + p->tables[table].prefix_off;
    __builtin_prefetch((const void *)prefix);
    __builtin_prefetch((const void *)(prefix + CACHE_LINE));
}

static inline void prefetch_row(const struct part_row *row)
{
    __builtin_prefetch(row);
    __builtin_prefetch((const char *)(row + 1) - 1);
}

/* Where the row may be that isn't at home: before it if the key is low, else ahead. */
static inline void go_astray(const struct part *p, struct lane *lane)
{
    unsigned before = may_be_before(lane->block, lane->block->marks, lane->key);
    uint64_t neighbour = (uint64_t)(lane->block - p->blocks) + (before ? UINT64_MAX : 1);
    if (neighbour < p->header.blocks.count) /* else the marks are damaged */
        lane->block = &p->blocks[neighbour];
    prefetch_block(lane->block);
}

static inline void match(const struct part *p, struct group *g)
{
    size_t found = 0;
    size_t astray = 0;
    for (size_t i = 0; i < g->asked; i++) {
        struct lane *lane = &g->lane[i];
        const struct part_block *block = lane->block;
        uint32_t marks = block->marks;
        unsigned equal = equal_keys(block, lane->key) & marks & PART_USED;
        lane->slot = (uint32_t)__builtin_ctz(equal | 1u << (PART_SLOTS - 1));
        prefetch_row(&block->row[lane->slot]);
        prefetch_prefix(p, lane->table);
        g->found_lane[found] = lane;
        found += equal != 0;
        g->astray_lane[astray] = lane;
        unsigned elsewhere = may_be_before(block, marks, lane->key) | may_be_ahead(block, marks, lane->key);
        astray += elsewhere & (unsigned)(equal == 0);
    }
    for (size_t i = 0; i < astray; i++)
        go_astray(p, g->astray_lane[i]);
    g->found = found;
    g->astray = astray;
}

/* Search alone, from the home on. */
static __attribute__((noinline)) void finish_alone(const struct part *p, struct part_query *q, uint32_t table,
                                                   uint32_t part_no)
{
    uint32_t ref = find_ref(p, key_of(q->table, q->id, p->header.seg.seed), q->table);
    if (ref != PART_NO_REF)
        finish_query(p, q, &p->blocks[ref / PART_SLOTS], ref % PART_SLOTS, table, part_no);
}

/* A row of another table has the same key, or the neighbour isn't the place either: then search from the home on. */
static inline void finish(const struct part *p, const struct group *g, uint32_t part_no)
{
    for (size_t i = 0; i < g->found; i++) {
        const struct lane *lane = g->found_lane[i];
        if (load_u32(lane->block->row[lane->slot].table) == lane->query->table)
            finish_query(p, lane->query, lane->block, lane->slot, lane->table, part_no);
        else
            finish_alone(p, lane->query, lane->table, part_no);
    }
    for (size_t i = 0; i < g->astray; i++) {
        const struct lane *lane = g->astray_lane[i];
        int slot = find_slot(lane->block, lane->block->marks, lane->key, lane->query->table);
        if (slot >= 0)
            finish_query(p, lane->query, lane->block, (unsigned)slot, lane->table, part_no);
        else
            finish_alone(p, lane->query, lane->table, part_no);
    }
}

/* Too few to overlap: answer one after the other. */
static void find_few(const struct part *p, struct part_query *queries, size_t n, uint32_t part_no)
{
    for (struct part_query *q = queries; q < queries + n; q++) {
        uint32_t table = part_table_index(p, q->table);
        if (q->status != PART_ASK || table == PART_NO_TABLE)
            continue;
        prefetch_prefix(p, table);
        finish_alone(p, q, table, part_no);
    }
}

static void kernel_find_many(const struct part *p, struct part_query *queries, size_t n, uint32_t part_no)
{
    if (n < FEW) {
        find_few(p, queries, n, part_no);
        return;
    }
    struct group groups[3];
    struct group *asked = &groups[0];
    struct group *matched = &groups[1];
    struct group *finished = &groups[2];
    asked->asked = matched->found = matched->astray = 0;
    size_t at = 0;
    do {
        /* Who was finished is asked next. */
        struct group *free = finished;
        finished = matched;
        matched = asked;
        asked = free;
        finish(p, finished, part_no);
        match(p, matched);
        at = ask(p, queries, at, n, asked);
    } while (at < n || asked->asked + matched->found + matched->astray > 0);
}

#define PART_KERNEL(which)                                                                                 \
    {                                                                                                      \
        .isa = which, .find = kernel_find, .resolve = kernel_resolve, .find_by_tree = kernel_find_by_tree, \
        .find_many = kernel_find_many, .render = render, .leaf = tree_leaf                                 \
    }

#endif
