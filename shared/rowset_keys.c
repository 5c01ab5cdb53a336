/*
 * A set of keys in fixed memory.
 *
 * Keys stand one after the other in one array; a table of slots, probed in line, points at them.  Its hash is seeded
 * anew for each set, so that keys which were made to collide in the files don't collide here.
 */
#include "checksum.h"
#include "rowset_inner.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

/* The longest key fits into any set. */
#define WORDS_MIN ((ENTRY_KEY_MAX + 3) / 4 + 1)

static uint64_t make_seed(const void *somewhere)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed = (uintptr_t)somewhere;
    return seed;
}

int key_set_init(struct key_set *set, size_t memory)
{
    uint64_t slots = 64;

    while (slots * 2 * sizeof *set->slots <= memory / 4)
        slots *= 2;
    uint64_t words = memory / sizeof *set->words;
    words -= words < slots * 2 ? words : slots * 2;
    if (words < WORDS_MIN)
        words = WORDS_MIN;
    if (words > UINT32_MAX - 1)
        words = UINT32_MAX - 1;
    *set = (struct key_set){ .slot_count = slots, .word_count = words };
    set->slots = calloc(slots, sizeof *set->slots);
    set->words = malloc(words * sizeof *set->words);
    if (!set->slots || !set->words) {
        key_set_fini(set);
        return -ENOMEM;
    }
    set->seed = make_seed(set->slots);
    return 0;
}

void key_set_fini(struct key_set *set)
{
    free(set->slots);
    free(set->words);
    *set = (struct key_set){ 0 };
}

void key_set_clear(struct key_set *set)
{
    if (set->count)
        memset(set->slots, 0, set->slot_count * sizeof *set->slots);
    set->used = set->count = 0;
    set->full = false;
}

static bool key_stands_at(const struct key_set *set, uint32_t at, struct bytes key)
{
    struct bytes there = { (const char *)&set->words[at + 1], set->words[at] };

    return bytes_equal(there, key);
}

/* The slot that has KEY, or the empty one where it would go.  There is always an empty one. */
static uint64_t *slot_of(const struct key_set *set, uint64_t hash, struct bytes key)
{
    uint64_t mask = set->slot_count - 1;

    for (uint64_t i = hash & mask;; i = (i + 1) & mask) {
        uint64_t slot = set->slots[i];
        if (slot == 0)
            return &set->slots[i];
        if (slot >> 32 == hash >> 32 && key_stands_at(set, (uint32_t)slot - 1, key))
            return &set->slots[i];
    }
}

static bool has_room(const struct key_set *set, uint64_t words)
{
    return set->count < set->slot_count - set->slot_count / 4 && words <= set->word_count - set->used;
}

enum key_verdict key_set_add(struct key_set *set, struct bytes key)
{
    uint64_t hash = checksum(key.data, key.len, set->seed);
    uint64_t words = 1 + (key.len + 3) / 4;

    assert(key.len <= ENTRY_KEY_MAX);
    uint64_t *slot = slot_of(set, hash, key);
    if (*slot != 0)
        return KEY_KNOWN;
    if (set->full || !has_room(set, words)) {
        set->full = true;
        return KEY_LEFT;
    }
    set->words[set->used] = (uint32_t)key.len;
    if (key.len)
        memcpy(&set->words[set->used + 1], key.data, key.len);
    *slot = hash >> 32 << 32 | (set->used + 1);
    set->used += words;
    set->count++;
    return KEY_NEW;
}

bool key_set_has(const struct key_set *set, struct bytes key)
{
    return *slot_of(set, checksum(key.data, key.len, set->seed), key) != 0;
}
