/*
 * Questions by id, compiled once for each instruction set.
 *
 * part_scalar.c, part_avx2.c and part_avx512.c define the three things that differ, then include this file:
 *
 *      static unsigned node_rank(const struct stree64_node *node, int64_t q);         number of keys < q
 *      static unsigned equal_keys(const struct part_block *block, int64_t key);       a bit for each slot with KEY
 *      static size_t render(...);                                                     as template_render()
 *      static size_t put_usual(...);                                                  the usual location, see below
 *
 * and export a struct part_kernel of what is here.  All give the same answers.  Everything is static: code that was
 * compiled for a better processor must not be taken by the linker for another file's.
 */
#ifndef SKADE_PART_KERNEL_H
#define SKADE_PART_KERNEL_H

#include "part_view.h"

/* Queries per stage of a batch.  More lines than a core keeps in flight (about 20) would only wait for each other;
 * found by bench_part. */
#define GROUP 16

/* Fewer queries than this aren't worth a pipeline. */
#define FEW 4

/* ---- one block ------------------------------------------------------------------------------------------- */

static inline void prefetch_block(const struct part_block *block)
{
    for (size_t i = 0; i < sizeof *block; i += CACHE_LINE)
        __builtin_prefetch((const char *)block + i);
}

/* The table of INDEX, which needs not be one. */
static inline void prefetch_table(const struct part *p, uint32_t index)
{
    uintptr_t table = (uintptr_t)p->tables + index * sizeof(struct part_table);
    __builtin_prefetch((const void *)table);
    __builtin_prefetch((const void *)(table + CACHE_LINE));
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
    if (may_be_before(block, block->marks, key) && home > 0) {
        prefetch_block(block - 1); /* the row with the keys, not after them */
        ref = find_in(p, home - 1, key, table);
    }
    uint64_t at = home;
    while (ref == PART_NO_REF && may_be_ahead(&p->blocks[at], p->blocks[at].marks, key)) {
        if (++at == p->header.blocks.count)
            break;
        if (at > home + PART_PROBE_REACH)
            return find_by_tree(p, key, table);
        prefetch_block(&p->blocks[at]);
        ref = find_in(p, at, key, table);
    }
    return ref;
}

/* Whoever asks has asked memory for the home. */
static inline uint32_t find_ref(const struct part *p, int64_t key, uint32_t table)
{
    uint64_t home = key_home(key, p->header.homes);
    const struct part_block *block = &p->blocks[home];
    uint32_t marks = block->marks;
    int slot = find_slot(block, marks, key, table);
    if (slot >= 0)
        return (uint32_t)(home * PART_SLOTS + (unsigned)slot);
    if (may_be_before(block, marks, key) || may_be_ahead(block, marks, key))
        return find_around(p, home, key, table);
    return PART_NO_REF;
}

/* ---- a row as an answer ------------------------------------------------------------------------------------- */

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

/* What the batch or the question is about, besides the query. */
struct asking {
    const struct part *part;
    const struct lifetimes *lives; /* NULL: none */
    bool ruled;                    /* some table isn't plain */
    uint64_t newest;               /* relative sequence that rows may have, from 1 */
};

static inline struct asking asking_of(const struct part *p, const struct lifetimes *lives)
{
    uint64_t from = p->header.seg.from_seq;
    uint64_t at = lives ? lives->at : SEQ_MAX;
    /* If all rows are younger than the moment, each is found to be so by itself. */
    uint64_t span = at - from < p->span ? at - from : p->span;
    return (struct asking){ p, lives, lives && !lives->all_plain, at >= from ? span : 0 };
}

static inline bool is_plain(const struct asking *a, uint32_t table)
{
    return !a->ruled || lifetime_is_plain(a->lives, table);
}

static int judge(const struct lifetimes *lives, uint32_t table, uint64_t seq, uint64_t *retired_by)
{
    struct root_table row;
    if (!lives)
        return 1;
    if (!lifetime_row(lives, table, &row))
        return SKADE_ENOTABLE;
    int status = lifetime_judge(&row, seq, lives->at);
    *retired_by = status == SKADE_EEXPIRED ? row.retired_by : 0;
    return status;
}

static inline uint32_t answer_flags(uint32_t word)
{
    _Static_assert(PART_HAS_SNAPSHOT >> 29 == PART_WITH_SNAPSHOT, "the bit is moved");
    return PART_FROM_MAP | (word & PART_HAS_SNAPSHOT) >> 29;
}

/* Write the location of R to Q.  1, -ERANGE, damaged. */
static int answer_location(const struct part *p, const struct record *r, uint32_t index, struct part_query *q,
                           size_t *len)
{
    size_t room = q->location_cap > 0 ? q->location_cap - 1 : 0;
    int written = part_record_location(p, r, index, q->location, room, len, render);
    if (written < 0)
        return written;
    return q->location_cap > 0 ? 1 : -ERANGE;
}

/* The row that SLOT of BLOCK is, any row at all, answers Q. */
static __attribute__((noinline)) int answer_any(const struct asking *a, const struct part_block *block,
                                                unsigned slot, uint32_t index, struct part_query *q)
{
    const struct part *p = a->part;
    struct record record;
    uint64_t retired_by = 0;
    size_t len = 0;
    if (!part_block_record(p, block, slot, 0, &record))
        return SKADE_EDAMAGED;
    uint64_t seq = p->header.seg.from_seq + record.seq;
    int status = judge(a->lives, record.table, seq, &retired_by);
    if (status == 1)
        status = answer_location(p, &record, index, q, &len);
    if (status != 1 && status != -ERANGE && status != SKADE_EEXPIRED)
        return status;
    q->status = status;
    q->seq = seq;
    q->time_us = record.time_us;
    q->retired_by = retired_by;
    q->location_len = (uint32_t)len;
    q->flags = answer_flags(record.word);
    if (q->location_cap > 0)
        q->location[status == 1 ? len : 0] = 0;
    return status;
}

/* The row in SLOT of BLOCK, of TABLE, which has INDEX, answers Q.  Nearly all rows are young enough, of tables without
 * retirements, and have locations of the usual kind that fit. */
static inline __attribute__((always_inline)) int answer_row(const struct asking *a,
                                                            const struct part_block *block, unsigned slot,
                                                            uint32_t table, uint32_t index, bool plain,
                                                            struct part_query *q)
{
    const struct part *p = a->part;
    const uint8_t *row = (const uint8_t *)&block->row[slot];
    uint32_t word = load_u32(row + offsetof(struct part_row, word));
    uint32_t seq = load_u32(row + offsetof(struct part_row, seq));
    uint64_t time = load_u64(row + offsetof(struct part_row, time)) & PART_TIME_MAX;
    if (__builtin_expect(!plain || seq - 1 >= a->newest || word & PART_ESCAPE, 0))
        return answer_any(a, block, slot, index, q);
    size_t len = put_usual(&p->tables[index], table, word & PART_NUMBER,
                           row + offsetof(struct part_row, tail), q->location, q->location_cap);
    if (__builtin_expect(len == 0, 0))
        return answer_any(a, block, slot, index, q);
    q->location[len] = 0;
    q->status = 1;
    q->seq = p->header.seg.from_seq + seq;
    q->time_us = (int64_t)((uint64_t)p->header.time_base + time);
    q->retired_by = 0;
    q->location_len = (uint32_t)len;
    q->flags = answer_flags(word);
    return 1;
}

/* ---- one question ---------------------------------------------------------------------------------------- */

static int kernel_find(const struct part *p, uint32_t table, int64_t id, struct part_hit *ret)
{
    int64_t key = key_of(table, id, p->header.seg.seed);
    if (part_table_index(p, table) == PART_NO_TABLE)
        return 0;
    prefetch_block(&p->blocks[key_home(key, p->header.homes)]);
    return answer_one(p, find_ref(p, key, table), id, ret);
}

static int kernel_find_by_tree(const struct part *p, uint32_t table, int64_t id, struct part_hit *ret)
{
    if (part_table_index(p, table) == PART_NO_TABLE)
        return 0;
    return answer_one(p, find_by_tree(p, key_of(table, id, p->header.seg.seed), table), id, ret);
}

static inline __attribute__((always_inline)) int resolve(const struct part *p, const struct lifetimes *lives,
                                                         uint32_t table, int64_t id, struct part_query *q,
                                                         bool by_tree)
{
    struct asking a = asking_of(p, lives);
    int64_t key = key_of(table, id, p->header.seg.seed);
    if (!by_tree)
        prefetch_block(&p->blocks[key_home(key, p->header.homes)]);
    uint32_t index = part_table_index(p, table);
    if (index == PART_NO_TABLE)
        return 0;
    prefetch_table(p, index);
    uint32_t ref = by_tree ? find_by_tree(p, key, table) : find_ref(p, key, table);
    if (ref == PART_NO_REF)
        return 0;
    return answer_row(&a, &p->blocks[ref / PART_SLOTS], ref % PART_SLOTS, table, index, is_plain(&a, table),
                      q);
}

static int kernel_resolve(const struct part *p, const struct lifetimes *lives, uint32_t table, int64_t id,
                          struct part_query *q)
{
    return resolve(p, lives, table, id, q, false);
}

static int kernel_resolve_by_tree(const struct part *p, const struct lifetimes *lives, uint32_t table,
                                  int64_t id, struct part_query *q)
{
    return resolve(p, lives, table, id, q, true);
}

/* ---- a batch --------------------------------------------------------------------------------------------------
 *
 * Queries go through three stages, a group at a time, and each stage asks memory for what the next one reads:
 *
 *      ask      key, home           ->  the line of the home's keys, the table; its rules, if it has any
 *      match    slot                ->  the lines of the row; or the neighbour, for the few whose row may stand there
 *      finish   row, location, straight into the caller's memory
 *
 * While one group waits for memory the next is worked on.  What goes on to the next stage is appended without a
 * branch (write, then count or don't), so that a mix of hits and misses costs no mispredictions.  What isn't here is
 * appended to the list that the numbers were taken from: behind where they are read there is always room.
 */

struct group {
    struct part_query *query[GROUP];
    const struct part_block *block[GROUP]; /* the home, or its neighbour; by the tree, the leaf */
    int64_t key[GROUP];
    uint32_t table[GROUP]; /* number */
    uint32_t index[GROUP]; /* of the table */
    uint32_t slot[GROUP];
    bool plain[GROUP];
    uint32_t count;
    uint32_t found_count;
    uint32_t astray_count;
    uint32_t found[GROUP];
    uint32_t astray[GROUP];
    uint32_t number[GROUP]; /* of the query */
};

struct batch {
    struct asking asking;
    struct part_many *many;
    uint32_t *list;
    size_t n;
    size_t read;   /* of the list */
    size_t absent; /* written to it */
};

/* Where queries of tables that have no rows look. */
static const struct part_block nowhere;

/* Keys and homes of all lanes, needed or not: a loop of constant length becomes vectors. */
static inline void mix_keys(const struct part *p, struct group *g, const int64_t id[GROUP],
                            uint64_t home[GROUP])
{
    uint64_t seed = p->header.seg.seed;
    uint64_t homes = p->header.homes;
    for (size_t i = 0; i < GROUP; i++) {
        g->key[i] = key_of(g->table[i], id[i], seed);
        home[i] = key_home(g->key[i], homes);
    }
}

/* The leaves of COUNT keys, at most GROUP: a level at a time, so that memory works for all of them. */
static inline __attribute__((always_inline)) void descend(const struct part *p, const int64_t *keys,
                                                          size_t count, uint64_t at[GROUP])
{
    const struct stree64_shape *shape = &p->tree.shape;
    memset(at, 0, GROUP * sizeof *at);
    for (uint32_t level = 0; level < shape->height; level++) {
        const struct stree64_node *nodes = &p->tree.nodes[shape->first[level]];
        bool last = level + 1 == shape->height;
        uint64_t end = (last ? shape->leaves : shape->count[level + 1]) - 1;
        const char *below =
            last ? (const char *)p->blocks : (const char *)&p->tree.nodes[shape->first[level + 1]];
        size_t stride = last ? sizeof(struct part_block) : sizeof(struct stree64_node);
        for (size_t i = 0; i < count; i++) {
            uint64_t child = at[i] * STREE64_FANOUT + node_rank(&nodes[at[i]], keys[i]);
            at[i] = child < end ? child : end; /* as stree64_child() */
            __builtin_prefetch(below + at[i] * stride);
        }
    }
}

static inline void descend_group(const struct part *p, struct group *g)
{
    uint64_t at[GROUP];
    descend(p, g->key, g->count, at);
    for (size_t i = 0; i < g->count; i++)
        g->block[i] = g->index[i] == PART_NO_TABLE ? &nowhere : &p->blocks[at[i]];
}

/* The refs of COUNT keys, of which AT says the leaves. */
static inline void match_keys(const struct part *p, const int64_t *keys, uint32_t *refs, size_t count,
                              const uint64_t at[GROUP])
{
    for (size_t i = 0; i < count; i++) {
        const struct part_block *block = &p->blocks[at[i]];
        unsigned equal = equal_keys(block, keys[i]) & block->marks & PART_USED;
        uint32_t ref = (uint32_t)(at[i] * PART_SLOTS) + (unsigned)__builtin_ctz(equal | 1u << PART_SLOTS);
        refs[i] = equal ? ref : PART_NO_REF;
    }
}

static inline size_t group_of(size_t rest)
{
    return rest < GROUP ? rest : GROUP;
}

/* While the leaves of one group are on their way, the next one descends. */
static void kernel_find_keys_by_tree(const struct part *p, const int64_t *keys, uint32_t *refs, size_t n)
{
    uint64_t leaves[2][GROUP];
    descend(p, keys, group_of(n), leaves[0]);
    for (size_t i = 0; i < n; i += GROUP) {
        size_t count = group_of(n - i);
        if (i + count < n)
            descend(p, keys + i + GROUP, group_of(n - i - GROUP), leaves[(i / GROUP + 1) % 2]);
        match_keys(p, keys + i, refs + i, count, leaves[i / GROUP % 2]);
    }
}

/* Where rows of lane I stand, and its table and rules: asked for. */
static inline __attribute__((always_inline)) void ask_lane(const struct asking *a, struct group *g, size_t i,
                                                           const struct part_block *block)
{
    const struct part *p = a->part;
    uint32_t table = g->table[i];
    uint32_t index = part_table_index(p, table);
    g->index[i] = index;
    g->block[i] = index == PART_NO_TABLE ? &nowhere : block;
    prefetch_table(p, index); /* if there is none: asking for memory that isn't there is harmless */
    g->plain[i] = is_plain(a, table);
    if (!g->plain[i])
        lifetime_prefetch(a->lives, table);
}

/* Take up a group of queries. */
static __attribute__((noinline)) void ask(struct batch *b, struct group *g, bool by_tree)
{
    const struct part *p = b->asking.part;
    const uint32_t *list = b->list + b->read;
    size_t count = b->n - b->read < GROUP ? b->n - b->read : GROUP;
    int64_t id[GROUP];
    uint64_t home[GROUP];
    for (size_t i = 0; i < count; i++) {
        struct part_query *q =
            (struct part_query *)(void *)((char *)b->many->first + list[i] * b->many->stride);
        g->number[i] = list[i];
        g->query[i] = q;
        g->table[i] = q->table;
        id[i] = q->id;
    }
    for (size_t i = count; i < GROUP; i++) {
        g->table[i] = 0;
        id[i] = 0;
    }
    mix_keys(p, g, id, home);
    for (size_t i = 0; i < count; i++) {
        const struct part_block *block = &p->blocks[home[i]];
        if (!by_tree)
            __builtin_prefetch(block);
        ask_lane(&b->asking, g, i, block);
    }
    b->read += count;
    g->count = (uint32_t)count;
    if (by_tree)
        descend_group(p, g);
}

static inline void prefetch_row(const struct part_row *row)
{
    __builtin_prefetch(row);
    __builtin_prefetch((const char *)(row + 1) - 1);
}

/* Where the row may be that isn't at home: before it if the key is low, else ahead. */
static inline void go_astray(const struct part *p, struct group *g, uint32_t i)
{
    const struct part_block *home = g->block[i];
    unsigned before = may_be_before(home, home->marks, g->key[i]);
    uint64_t neighbour = (uint64_t)(home - p->blocks) + (before ? UINT64_MAX : 1);
    if (neighbour < p->header.blocks.count) /* else the marks are damaged */
        g->block[i] = &p->blocks[neighbour];
    prefetch_block(g->block[i]);
}

/* Of the COUNT lanes in LOST the key isn't at home.  A key that isn't in its leaf is nowhere. */
static inline __attribute__((always_inline)) void
match_lost(struct batch *b, struct group *g, const uint32_t *lost, uint32_t count, bool by_tree)
{
    uint32_t astray = 0;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t i = lost[k];
        const struct part_block *block = g->block[i];
        uint32_t marks = block->marks;
        uint32_t elsewhere =
            by_tree ? 0 : may_be_before(block, marks, g->key[i]) | may_be_ahead(block, marks, g->key[i]);
        g->astray[astray] = i;
        astray += elsewhere;
        b->list[b->absent] = g->number[i];
        b->absent += elsewhere ^ 1;
    }
    for (uint32_t k = 0; k < astray; k++)
        go_astray(b->asking.part, g, g->astray[k]);
    g->astray_count = astray;
}

static __attribute__((noinline)) void match(struct batch *b, struct group *g, bool by_tree)
{
    uint32_t lost[GROUP];
    uint32_t found = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct part_block *block = g->block[i];
        unsigned equal = equal_keys(block, g->key[i]) & block->marks & PART_USED;
        unsigned slot = (unsigned)__builtin_ctz(equal | 1u << (PART_SLOTS - 1));
        prefetch_row(&block->row[slot]);
        g->slot[i] = slot;
        g->found[found] = i;
        lost[i - found] = i;
        found += equal != 0;
    }
    g->found_count = found;
    match_lost(b, g, lost, g->count - found, by_tree);
}

/* STATUS is what lane I's row made of its query; 0: there was none. */
static inline void settle(struct batch *b, const struct group *g, uint32_t i, int status)
{
    if (__builtin_expect(status == 1, 1))
        return;
    if (status == 0) {
        b->list[b->absent++] = g->number[i];
        return;
    }
    g->query[i]->status = status;
    if (status != -ERANGE && status != SKADE_EEXPIRED)
        b->many->odd[b->many->odd_count++] = g->number[i];
}

static inline __attribute__((always_inline)) void finish_row(struct batch *b, const struct group *g,
                                                             uint32_t i, unsigned slot)
{
    settle(b, g, i,
           answer_row(&b->asking, g->block[i], slot, g->table[i], g->index[i], g->plain[i], g->query[i]));
}

/* Search alone, from the home on: a row of another table has the same key, or the neighbour isn't the place either. */
static __attribute__((noinline)) void finish_alone(struct batch *b, const struct group *g, uint32_t i,
                                                   bool by_tree)
{
    const struct part *p = b->asking.part;
    uint32_t ref = by_tree ? find_by_tree(p, g->key[i], g->table[i]) : find_ref(p, g->key[i], g->table[i]);
    const struct part_block *block = &p->blocks[ref / PART_SLOTS];
    settle(b, g, i,
           ref == PART_NO_REF ? 0
                              : answer_any(&b->asking, block, ref % PART_SLOTS, g->index[i], g->query[i]));
}

static __attribute__((noinline)) void finish(struct batch *b, const struct group *g, bool by_tree)
{
    for (uint32_t k = 0; k < g->found_count; k++) {
        uint32_t i = g->found[k];
        if (__builtin_expect(load_u32(g->block[i]->row[g->slot[i]].table) == g->table[i], 1))
            finish_row(b, g, i, g->slot[i]);
        else
            finish_alone(b, g, i, by_tree);
    }
    for (uint32_t k = 0; k < g->astray_count; k++) {
        uint32_t i = g->astray[k];
        int slot = find_slot(g->block[i], g->block[i]->marks, g->key[i], g->table[i]);
        if (slot >= 0)
            finish_row(b, g, i, (unsigned)slot);
        else
            finish_alone(b, g, i, by_tree);
    }
}

/* Too few to overlap: answer one after the other. */
static void resolve_few(struct batch *b, bool by_tree)
{
    const struct asking *a = &b->asking;
    for (; b->read < b->n; b->read++) {
        struct group g;
        g.number[0] = b->list[b->read];
        g.query[0] = (struct part_query *)(void *)((char *)b->many->first + g.number[0] * b->many->stride);
        const struct part_query *q = g.query[0];
        settle(b, &g, 0, resolve(a->part, a->lives, q->table, q->id, g.query[0], by_tree));
    }
}

static inline __attribute__((always_inline)) void roll(struct batch *b, bool by_tree)
{
    struct group groups[3];
    struct group *asked = &groups[0];
    struct group *matched = &groups[1];
    struct group *finished = &groups[2];
    asked->count = matched->found_count = matched->astray_count = 0;
    do {
        /* Who was finished is asked next. */
        struct group *free = finished;
        finished = matched;
        matched = asked;
        asked = free;
        finish(b, finished, by_tree);
        match(b, matched, by_tree);
        ask(b, asked, by_tree);
    } while (asked->count + matched->found_count + matched->astray_count > 0);
}

static inline __attribute__((always_inline)) size_t resolve_many(const struct part *p, struct part_many *m,
                                                                 uint32_t *list, size_t n, bool by_tree)
{
    struct batch b = { .asking = asking_of(p, m->lives), .many = m, .list = list, .n = n };
    if (n < FEW)
        resolve_few(&b, by_tree);
    else
        roll(&b, by_tree);
    return b.absent;
}

static size_t kernel_resolve_many(const struct part *p, struct part_many *m, uint32_t *list, size_t n)
{
    return resolve_many(p, m, list, n, false);
}

static size_t kernel_resolve_many_by_tree(const struct part *p, struct part_many *m, uint32_t *list, size_t n)
{
    return resolve_many(p, m, list, n, true);
}

#define PART_KERNEL(which)                                                                                  \
    {                                                                                                       \
        .isa = which, .find = kernel_find, .find_by_tree = kernel_find_by_tree, .resolve = kernel_resolve,  \
        .resolve_by_tree = kernel_resolve_by_tree, .resolve_many = kernel_resolve_many,                     \
        .resolve_many_by_tree = kernel_resolve_many_by_tree, .find_keys_by_tree = kernel_find_keys_by_tree, \
        .render = render, .leaf = tree_leaf                                                                 \
    }

#endif
