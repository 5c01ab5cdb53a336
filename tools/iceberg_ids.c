/*
 * Open addressing, linear probing, at most half full.
 */
#include "iceberg_ids.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define FIRST_SIZE 64

/* Each step is a bijection of 64-bit words, so different ids differ; the multipliers spread every bit. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

/* The slot of ID, or the free slot where it belongs. */
static struct iceberg_id_slot *slot_of(const struct iceberg_ids *ids, int64_t id)
{
    size_t i = (size_t)mix((uint64_t)id ^ ids->seed) & (ids->size - 1);
    while (ids->slots[i].value_plus_1 && ids->slots[i].id != id)
        i = (i + 1) & (ids->size - 1);
    return &ids->slots[i];
}

static int grow(struct iceberg_ids *ids)
{
    struct iceberg_ids bigger = { .size = ids->size ? ids->size * 2 : FIRST_SIZE, .count = ids->count };
    bigger.slots = calloc(bigger.size, sizeof *bigger.slots);
    if (!bigger.slots)
        return -ENOMEM;
    bigger.seed = ids->seed;
    if (!bigger.seed && getrandom(&bigger.seed, sizeof bigger.seed, GRND_NONBLOCK) < 0)
        bigger.seed =
            (uintptr_t)bigger.slots; /* before the kernel has randomness: still not for a stranger to know */
    for (size_t i = 0; i < ids->size; i++)
        if (ids->slots[i].value_plus_1)
            *slot_of(&bigger, ids->slots[i].id) = ids->slots[i];
    free(ids->slots);
    *ids = bigger;
    return 0;
}

int iceberg_ids_add(struct iceberg_ids *ids, int64_t id, uint32_t value)
{
    assert(value < UINT32_MAX);
    if (2 * (ids->count + 1) > ids->size) {
        int r = grow(ids);
        if (r < 0)
            return r;
    }
    struct iceberg_id_slot *slot = slot_of(ids, id);
    if (slot->value_plus_1)
        return 0;
    *slot = (struct iceberg_id_slot){ id, value + 1 };
    ids->count++;
    return 1;
}

int iceberg_ids_find(const struct iceberg_ids *ids, int64_t id, uint32_t *ret)
{
    if (ids->size == 0)
        return 0;
    const struct iceberg_id_slot *slot = slot_of(ids, id);
    if (!slot->value_plus_1)
        return 0;
    *ret = slot->value_plus_1 - 1;
    return 1;
}

void iceberg_ids_free(struct iceberg_ids *ids)
{
    free(ids->slots);
    *ids = (struct iceberg_ids){ 0 };
}
