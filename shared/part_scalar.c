/*
 * The part kernel for any processor, and the reference for the others.
 */
#include "part_view.h"

static inline unsigned node_rank(const struct stree64_node *node, int64_t q)
{
    unsigned rank = 0;
    for (unsigned i = 0; i < STREE64_KEYS; i++)
        rank += node->key[i] < q;
    return rank;
}

static inline unsigned equal_keys(const struct part_block *block, int64_t key)
{
    unsigned equal = 0;
    for (unsigned i = 0; i < PART_SLOTS; i++)
        equal |= (unsigned)(block->key[i] == key) << i;
    return equal;
}

static inline size_t render(const struct template *t, uint32_t number, const uint8_t uuid[16], char *dst,
                            size_t cap)
{
    return template_render(t, number, uuid, dst, cap);
}

/* Nothing is usual without vectors. */
static inline size_t put_usual(const struct part_table *t, uint32_t table, uint32_t number,
                               const uint8_t uuid[16], char *dst, size_t cap)
{
    (void)t, (void)table, (void)number, (void)uuid, (void)dst, (void)cap;
    return 0;
}

#include "part_kernel.h"

const struct part_kernel part_kernel_scalar = PART_KERNEL(PART_SCALAR);
