/*
 * The keymap: where the newest row with a hash is, in which file and at which place.
 *
 *      slots   hash | file + 1, place            one for each hash, probed in line; the newest file's row stays
 *      unlisted                                  a bit for each file that wasn't taken in
 *
 * One look finds a row among any number of files and versions.  Two keys with one hash, which take luck or malice, share
 * a slot: who finds another key there asks the files' own indexes.  Where a hash is looked for is seeded, since keys are
 * strangers' and could be made to meet.
 */
#include "rowset_inner.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>

#define CAPACITY_MIN 1024u
#define FILE_BITS 24
#define PLACE_BITS 40
#define HUGE (2u << 20)

static size_t bytes_of_slots(uint64_t capacity)
{
    return (size_t)capacity * sizeof(struct keymap_slot);
}

static void free_slots(struct keymap_slot *slots, uint64_t capacity)
{
    if (slots)
        munmap(slots, bytes_of_slots(capacity));
}

/* Empty ones; in large pages if the kernel has them, as every look goes to another place. */
static struct keymap_slot *make_slots(uint64_t capacity)
{
    size_t bytes = bytes_of_slots(capacity);
    void *slots = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (slots == MAP_FAILED)
        return NULL;
    if (bytes >= HUGE)
        madvise(slots, bytes, MADV_HUGEPAGE);
    return slots;
}

void keymap_fini(struct keymap *m)
{
    free_slots(m->slots, m->capacity);
    free(m->unlisted);
    *m = (struct keymap){ .limit = m->limit };
}

size_t keymap_bytes(const struct keymap *m)
{
    return bytes_of_slots(m->capacity);
}

/* ---- slots --------------------------------------------------------------------------------------------- */

static uint64_t home_of(const struct keymap *m, int64_t hash)
{
    return (((uint64_t)hash ^ m->seed) * 0x9e3779b97f4a7c15ull) >> m->shift;
}

/* The slot of HASH, or the free one where it would be. */
static struct keymap_slot *slot_of(const struct keymap *m, int64_t hash)
{
    uint64_t i = home_of(m, hash);

    while (m->slots[i].where != 0 && m->slots[i].hash != hash)
        i = (i + 1) & (m->capacity - 1);
    return &m->slots[i];
}

static void move_slots(struct keymap *m, const struct keymap_slot *from, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (from[i].where != 0)
            *slot_of(m, from[i].hash) = from[i];
}

static uint64_t make_seed(const void *somewhere)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed = (uintptr_t)somewhere;
    return seed;
}

/* Slots for COUNT more, three quarters full at most. */
static uint64_t capacity_for(const struct keymap *m, uint64_t count)
{
    uint64_t capacity = m->capacity ? m->capacity : CAPACITY_MIN;

    while (m->used + count > capacity / 4 * 3)
        capacity *= 2;
    return capacity;
}

static bool may_have(const struct keymap *m, uint64_t count)
{
    return count <= m->limit / sizeof(struct keymap_slot) &&
           bytes_of_slots(capacity_for(m, count)) <= m->limit;
}

size_t keymap_needs(const struct keymap *m, uint64_t count)
{
    if (count == 0 || !may_have(m, count) || capacity_for(m, count) == m->capacity)
        return keymap_bytes(m);
    return keymap_bytes(m) + bytes_of_slots(capacity_for(m, count));
}

/* Room for COUNT more.  -ENOMEM: beyond the limit, or the system has none. */
static int make_room(struct keymap *m, uint64_t count)
{
    if (!may_have(m, count))
        return -ENOMEM;
    uint64_t capacity = capacity_for(m, count);
    if (capacity == m->capacity)
        return 0;
    struct keymap_slot *slots = make_slots(capacity);
    if (!slots)
        return -ENOMEM;
    struct keymap old = *m;
    if (m->capacity == 0)
        m->seed = make_seed(slots);
    m->slots = slots;
    m->capacity = capacity;
    m->shift = 64 - (unsigned)__builtin_ctzll(capacity);
    move_slots(m, old.slots, old.capacity);
    free_slots(old.slots, old.capacity);
    return 0;
}

static uint64_t pack(uint32_t file, uint64_t place)
{
    return (uint64_t)(file + 1) << PLACE_BITS | place;
}

static void put(struct keymap *m, int64_t hash, uint64_t where)
{
    struct keymap_slot *slot = slot_of(m, hash);

    m->used += slot->where == 0;
    if (slot->where < where) /* a newer file, or a later place of the same */
        *slot = (struct keymap_slot){ hash, where };
}

/* ---- files that aren't in it: a bit each ------------------------------------------------------------------- */

static int add_unlisted(struct keymap *m, uint32_t file)
{
    size_t words = file / 64 + 1;

    if (words > m->unlisted_words) {
        uint64_t *unlisted = realloc(m->unlisted, words * 2 * sizeof *unlisted);
        if (!unlisted)
            return -ENOMEM;
        memset(unlisted + m->unlisted_words, 0, (words * 2 - m->unlisted_words) * sizeof *unlisted);
        m->unlisted = unlisted;
        m->unlisted_words = words * 2;
    }
    m->unlisted[file / 64] |= 1ull << file % 64;
    return 0;
}

int64_t keymap_unlisted_below(const struct keymap *m, uint64_t below)
{
    uint64_t end = m->unlisted_words * 64;

    if (below > end)
        below = end;
    if (below == 0)
        return -1;
    size_t i = (below - 1) / 64;
    uint64_t word = m->unlisted[i] & UINT64_MAX >> (63 - (below - 1) % 64);
    while (word == 0 && i > 0)
        word = m->unlisted[--i];
    return word ? (int64_t)(i * 64 + 63 - (unsigned)__builtin_clzll(word)) : -1;
}

/* ---- both ---------------------------------------------------------------------------------------------- */

int keymap_add(struct keymap *m, uint32_t file, uint64_t size, unsigned unit, const struct entry_index *index)
{
    if (index->count == 0)
        return 0;
    if (file >= (1u << FILE_BITS) - 1 || size / unit >= 1ull << PLACE_BITS || make_room(m, index->count) < 0)
        return add_unlisted(m, file);
    for (uint64_t i = 0; i < index->count; i++)
        put(m, index->hashes[i], pack(file, index->places[i] / unit));
    return 0;
}

bool keymap_find(const struct keymap *m, int64_t hash, uint32_t *file, uint64_t *place)
{
    if (m->capacity == 0)
        return false;
    const struct keymap_slot *slot = slot_of(m, hash);
    if (slot->where == 0)
        return false;
    *file = (uint32_t)(slot->where >> PLACE_BITS) - 1;
    *place = slot->where & ((1ull << PLACE_BITS) - 1);
    return true;
}
