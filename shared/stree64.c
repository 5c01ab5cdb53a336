#include "stree64.h"

static uint64_t divide_up(uint64_t n, uint64_t by)
{
    return n / by + (n % by != 0);
}

bool stree64_shape(uint64_t leaves, struct stree64_shape *ret)
{
    struct stree64_shape shape = { .leaves = leaves };
    uint64_t bottom_up[STREE64_LEVELS];
    for (uint64_t count = leaves; count > 1; shape.height++) {
        if (shape.height == STREE64_LEVELS)
            return false;
        count = divide_up(count, STREE64_FANOUT);
        bottom_up[shape.height] = count;
    }
    for (uint32_t level = 0; level < shape.height; level++) {
        shape.first[level] = shape.nodes;
        shape.count[level] = bottom_up[shape.height - 1 - level];
        shape.nodes += shape.count[level];
    }
    *ret = shape;
    return true;
}

static int64_t maximum_at(const void *maxima, size_t stride, uint64_t leaf)
{
    int64_t key;
    memcpy(&key, (const char *)maxima + leaf * stride, sizeof key);
    return key;
}

/* One level, whose children have SPAN leaves each: their last leaf holds their greatest key. */
static void fill_level(struct stree64_node *nodes, uint64_t count, uint64_t leaves, uint64_t span,
                       const void *maxima, size_t stride)
{
    for (uint64_t i = 0; i < count; i++) {
        for (uint64_t j = 0; j < STREE64_KEYS; j++) {
            uint64_t end = (i * STREE64_FANOUT + j + 1) * span;
            nodes[i].key[j] = end < leaves ? maximum_at(maxima, stride, end - 1) : INT64_MAX;
        }
    }
}

void stree64_fill(const struct stree64_shape *shape, struct stree64_node *nodes, const void *maxima,
                  size_t stride)
{
    uint64_t span = 1;
    for (uint32_t level = shape->height; level-- > 0; span *= STREE64_FANOUT)
        fill_level(nodes + shape->first[level], shape->count[level], shape->leaves, span, maxima, stride);
}

static unsigned rank_in(const int64_t *keys, uint64_t n, int64_t q)
{
    unsigned rank = 0;
    for (uint64_t i = 0; i < n; i++)
        rank += keys[i] < q;
    return rank;
}

uint64_t stree64_leaf(const struct stree64 *tree, int64_t q)
{
    const struct stree64_shape *shape = &tree->shape;
    uint64_t index = 0;
    for (uint32_t level = 0; level < shape->height; level++) {
        const struct stree64_node *node = &tree->nodes[shape->first[level] + index];
        index = stree64_child(shape, level, index, rank_in(node->key, STREE64_KEYS, q));
    }
    return index;
}

uint64_t stree64_lower_bound(const struct stree64 *tree, const int64_t *keys, uint64_t n, int64_t q,
                             uint64_t (*leaf)(const struct stree64 *, int64_t))
{
    if (n == 0)
        return 0;
    uint64_t first = leaf(tree, q) * STREE64_KEYS;
    uint64_t here = n - first < STREE64_KEYS ? n - first : STREE64_KEYS;
    return first + rank_in(keys + first, here, q);
}
