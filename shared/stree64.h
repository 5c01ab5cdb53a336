/*
 * STree64: a static search tree over sorted leaves, eight signed 64-bit keys per node, one cache line per level.
 *
 *                     [ m0 m1 m2 m3 m4 m5 m6 m7 ]                    level 0, the root
 *                     /  |  |  |  |  |  |  |  \
 *           [.. .. ..]   |   nine children ..  [.. .. ..]            level 1, nodes side by side
 *            /  |  \                              |
 *          leaf leaf leaf ...                    leaf                not part of the tree: the caller's
 *
 * Children are found by counting, not by pointers: child = 9 * node + number of keys < q.  Key j of a node is the
 * greatest key under its child j (left-max), so that q goes to the first leaf whose greatest key is >= q: a run of
 * equal keys is entered at its first one, and an empty leaf, which repeats the greatest key so far, is never entered
 * unless all are.  Keys of children that don't exist are INT64_MAX: nothing is greater, so nothing is led there, and
 * INT64_MAX itself is an ordinary key.  Levels are contiguous, root first.
 *
 * The leaves can be anything with a greatest key at a fixed stride: blocks of a part, eight keys of a sorted array.
 */
#ifndef SKADE_STREE64_H
#define SKADE_STREE64_H

#include "format.h"

#define STREE64_KEYS 8
#define STREE64_FANOUT 9
#define STREE64_LEVELS 12 /* 9^12 leaves */

/* [doc:stree64_node] */
struct stree64_node {
    int64_t key[STREE64_KEYS]; /* greatest key under children 0..7; INT64_MAX: no child after it */
};
/* [end] */
SIZE(stree64_node, 64);

/* How many nodes each level has and where it starts.  Follows from the number of leaves alone. */
struct stree64_shape {
    uint64_t leaves;
    uint64_t nodes; /* all levels together */
    uint32_t height;
    uint64_t first[STREE64_LEVELS]; /* index of the level's first node */
    uint64_t count[STREE64_LEVELS];
};

struct stree64 {
    const struct stree64_node *nodes;
    struct stree64_shape shape;
};

/* The shape of a tree over LEAVES leaves; up to one leaf needs no node.  false: too many leaves. */
bool stree64_shape(uint64_t leaves, struct stree64_shape *ret);

/* Write the nodes.  The greatest key up to and in leaf i is the int64_t at MAXIMA + i * STRIDE bytes; the last leaf's
 * isn't read, so that it may be shorter. */
void stree64_fill(const struct stree64_shape *shape, struct stree64_node *nodes, const void *maxima,
                  size_t stride);

/* The first leaf whose greatest key is >= Q, or the last leaf.  Any thread.  Whatever the nodes' bytes are, the answer
 * is a leaf (of a tree with leaves). */
uint64_t stree64_leaf(const struct stree64 *tree, int64_t q);

/* A tree over the sorted array KEYS[N], leaves of eight: the lowest position whose key is >= Q, N if none is.  LEAF is
 * stree64_leaf() or an equivalent of it with other instructions. */
uint64_t stree64_lower_bound(const struct stree64 *tree, const int64_t *keys, uint64_t n, int64_t q,
                             uint64_t (*leaf)(const struct stree64 *, int64_t));

/* The child of node INDEX of LEVEL by its RANK.  Damaged nodes may lead beyond the last child: then the last one. */
static inline uint64_t stree64_child(const struct stree64_shape *shape, uint32_t level, uint64_t index,
                                     unsigned rank)
{
    uint64_t child = index * STREE64_FANOUT + rank;
    uint64_t last = (level + 1 < shape->height ? shape->count[level + 1] : shape->leaves) - 1;
    return child < last ? child : last;
}

#endif
