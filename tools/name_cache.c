#include "name_cache.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static size_t hash_of(size_t seed, const char *name)
{
    uint64_t h = seed;

    for (const char *p = name; *p; p++) {
        h = (h ^ (unsigned char)*p) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return (size_t)h;
}

/* The slot that has NAME, or the free one where it belongs. */
static struct name_slot *slot_of(const struct name_cache *c, size_t hash, const char *name)
{
    size_t at = hash & (c->size - 1);

    while (c->slots[at].name && (c->slots[at].hash != hash || strcmp(c->slots[at].name, name) != 0))
        at = (at + 1) & (c->size - 1);
    return &c->slots[at];
}

static int grow(struct name_cache *c)
{
    struct name_cache bigger = { .size = c->size ? c->size * 2 : 64, .count = c->count, .seed = c->seed };

    if (!c->seed && getrandom(&bigger.seed, sizeof bigger.seed, 0) < 0)
        return -errno;
    bigger.slots = calloc(bigger.size, sizeof *bigger.slots);
    if (!bigger.slots)
        return -ENOMEM;
    for (size_t i = 0; i < c->size; i++)
        if (c->slots[i].name)
            *slot_of(&bigger, c->slots[i].hash, c->slots[i].name) = c->slots[i];
    free(c->slots);
    *c = bigger;
    return 0;
}

int name_cache_find(struct name_cache *c, const char *name, name_lookup lookup, void *from, skade_table *ret)
{
    if (2 * (c->count + 1) > c->size) {
        int r = grow(c);
        if (r < 0)
            return r;
    }
    size_t hash = hash_of(c->seed, name);
    struct name_slot *slot = slot_of(c, hash, name);
    if (!slot->name) {
        char *copy = strdup(name);
        if (!copy)
            return -ENOMEM;
        *slot = (struct name_slot){ .name = copy, .hash = hash };
        slot->result = lookup(from, name, &slot->table);
        c->count++;
    }
    *ret = slot->table;
    return slot->result;
}

void name_cache_clear(struct name_cache *c)
{
    for (size_t i = 0; i < c->size; i++)
        free(c->slots[i].name);
    free(c->slots);
    *c = (struct name_cache){ .seed = c->seed };
}
