#include "drive_keys.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#define FIRST_SIZE 1024u

static uint64_t draw_seed(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == sizeof seed)
        return seed;
    return (uint64_t)time(NULL);
}

/* The slot of HASH, or the free one where it belongs. */
static uint64_t *slot_of(const struct drive_keys *k, uint64_t hash)
{
    uint64_t mixed = (hash ^ k->seed) * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(mixed ^ mixed >> 32) & (k->size - 1);

    while (k->slots[i] && k->slots[i] != hash)
        i = (i + 1) & (k->size - 1);
    return &k->slots[i];
}

static int grow(struct drive_keys *k)
{
    struct drive_keys larger = *k;

    if (!k->size)
        larger.seed = draw_seed();
    larger.size = k->size ? k->size * 2 : FIRST_SIZE;
    larger.slots = calloc(larger.size, sizeof *larger.slots);
    if (!larger.slots)
        return -ENOMEM;
    for (size_t i = 0; i < k->size; i++)
        if (k->slots[i])
            *slot_of(&larger, k->slots[i]) = k->slots[i];
    free(k->slots);
    *k = larger;
    return 0;
}

static int add_zero(struct drive_keys *k)
{
    bool was_there = k->has_zero;

    k->has_zero = true;
    return !was_there;
}

int drive_keys_add(struct drive_keys *k, uint64_t hash)
{
    if (hash == 0)
        return add_zero(k);
    if (k->count >= k->size / 4 * 3) {
        int r = grow(k);
        if (r < 0)
            return r;
    }
    uint64_t *slot = slot_of(k, hash);
    if (*slot)
        return 0;
    if (k->count == DRIVE_KEYS_MAX)
        return -E2BIG;
    *slot = hash;
    k->count++;
    return 1;
}

void drive_keys_free(struct drive_keys *k)
{
    free(k->slots);
}
