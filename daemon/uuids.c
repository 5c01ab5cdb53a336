/*
 * A ring of the newest uuids and an open-addressing table of ring places beside it.  The table is twice the ring's
 * size, so probes are short; a place is removed by shifting its followers back, so there are no tombstones.
 *
 * A full ring forgets its oldest, or becomes one of twice the size.
 */
#include "uuids.h"

#include "checksum.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define GROWING_FIRST 64
#define EMPTY UINT32_MAX

struct uuids {
    uint64_t seed;
    bool grows;
    uint64_t first, next; /* ring positions, ever growing; next - first <= cap */
    uint32_t cap;         /* a power of two */
    uint32_t mask;        /* of the slots: twice as many */
    struct index_uuid *ring;
    uint32_t *slots;
};

/* Room for CAP.  0 or -ENOMEM. */
static int make_room(struct uuids *u, uint32_t cap)
{
    u->ring = calloc(cap, sizeof *u->ring);
    u->slots = malloc((size_t)cap * 2 * sizeof *u->slots);
    if (!u->ring || !u->slots)
        return -ENOMEM;
    memset(u->slots, 0xff, (size_t)cap * 2 * sizeof *u->slots);
    u->cap = cap;
    u->mask = cap * 2 - 1;
    return 0;
}

static struct uuids *create(uint64_t seed, uint32_t cap, bool grows)
{
    struct uuids *u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    u->seed = seed;
    u->grows = grows;
    if (make_room(u, cap) < 0) {
        uuids_free(u);
        return NULL;
    }
    return u;
}

struct uuids *uuids_new(uint64_t seed)
{
    return create(seed, UUIDS_REMEMBERED, false);
}

struct uuids *uuids_new_growing(uint64_t seed, size_t count)
{
    uint32_t cap = GROWING_FIRST;

    while (cap < count && cap <= UINT32_MAX / 4)
        cap *= 2;
    return create(seed, cap, true);
}

void uuids_free(struct uuids *u)
{
    if (!u)
        return;
    free(u->ring);
    free(u->slots);
    free(u);
}

static struct index_uuid *entry_at(const struct uuids *u, uint64_t position)
{
    return &u->ring[position & (u->cap - 1)];
}

static uint32_t home_of(const struct uuids *u, const struct uuid *uuid)
{
    return (uint32_t)checksum(uuid->b, sizeof uuid->b, u->seed) & u->mask;
}

/* The slot that holds UUID, or the empty one where it would go. */
static uint32_t probe(const struct uuids *u, const struct uuid *uuid)
{
    uint32_t slot = home_of(u, uuid);

    while (u->slots[slot] != EMPTY && !uuid_equal(&u->ring[u->slots[slot]].uuid, uuid))
        slot = (slot + 1) & u->mask;
    return slot;
}

bool uuids_find(const struct uuids *u, const struct uuid *uuid, uint64_t *seq, uint64_t *content)
{
    uint32_t slot = probe(u, uuid);

    if (u->slots[slot] == EMPTY)
        return false;
    *seq = u->ring[u->slots[slot]].seq;
    *content = u->ring[u->slots[slot]].content;
    return true;
}

static void remove_slot(struct uuids *u, uint32_t hole)
{
    uint32_t slot = hole;

    for (;;) {
        slot = (slot + 1) & u->mask;
        if (u->slots[slot] == EMPTY)
            break;
        uint32_t home = home_of(u, &u->ring[u->slots[slot]].uuid);
        /* May it move into the hole?  Only if its home is not between the hole and itself. */
        if (((slot - home) & u->mask) >= ((slot - hole) & u->mask)) {
            u->slots[hole] = u->slots[slot];
            hole = slot;
        }
    }
    u->slots[hole] = EMPTY;
}

static void put(struct uuids *u, const struct index_uuid *e)
{
    uint32_t slot = probe(u, &e->uuid);

    assert(u->slots[slot] == EMPTY);
    *entry_at(u, u->next) = *e;
    u->slots[slot] = (uint32_t)(u->next & (u->cap - 1));
    u->next++;
}

static void forget_oldest(struct uuids *u)
{
    remove_slot(u, probe(u, &entry_at(u, u->first)->uuid));
    u->first++;
}

/* Twice the size, with the same in it. */
static int grow(struct uuids *u)
{
    struct uuids old = *u;

    if (old.cap > UINT32_MAX / 4 || make_room(u, old.cap * 2) < 0) {
        if (u->ring != old.ring)
            free(u->ring);
        if (u->slots != old.slots)
            free(u->slots);
        *u = old;
        return -ENOMEM;
    }
    u->next = u->first;
    while (u->next < old.next)
        put(u, entry_at(&old, u->next));
    free(old.ring);
    free(old.slots);
    return 0;
}

int uuids_add(struct uuids *u, const struct uuid *uuid, uint64_t seq, uint64_t content)
{
    bool full = u->next - u->first == u->cap;

    if (full && u->grows && grow(u) < 0)
        return -ENOMEM;
    if (full && !u->grows)
        forget_oldest(u);
    put(u, &(struct index_uuid){ *uuid, seq, content });
    return 0;
}

void uuids_forget_after(struct uuids *u, uint64_t seq)
{
    while (u->next > u->first && entry_at(u, u->next - 1)->seq > seq) {
        remove_slot(u, probe(u, &entry_at(u, u->next - 1)->uuid));
        u->next--;
    }
}

size_t uuids_copy(const struct uuids *u, uint64_t seq, uint64_t *place, struct index_uuid *ret, size_t max)
{
    size_t n = 0;

    if (*place < u->first)
        *place = u->first;
    while (n < max && *place < u->next && entry_at(u, *place)->seq <= seq)
        ret[n++] = *entry_at(u, (*place)++);
    return n;
}

size_t uuids_count(const struct uuids *u)
{
    return u->next - u->first;
}
