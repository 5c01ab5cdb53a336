/*
 * A ring of the newest uuids and an open-addressing table of ring places beside it.  The table is twice the ring's
 * size, so probes are short; a place is removed by shifting its followers back, so there are no tombstones.
 */
#include "uuids.h"

#include "checksum.h"

#include <assert.h>
#include <stdlib.h>

#define SLOTS (UUIDS_REMEMBERED * 2)
#define EMPTY UINT32_MAX

struct entry {
    struct uuid uuid;
    uint64_t seq;
    uint64_t content;
};

struct uuids {
    uint64_t seed;
    uint64_t first, next; /* ring positions, ever growing; next - first <= UUIDS_REMEMBERED */
    struct entry *ring;
    uint32_t *slots;
};

struct uuids *uuids_new(uint64_t seed)
{
    struct uuids *u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    u->seed = seed;
    u->ring = calloc(UUIDS_REMEMBERED, sizeof *u->ring);
    u->slots = malloc(SLOTS * sizeof *u->slots);
    if (!u->ring || !u->slots) {
        uuids_free(u);
        return NULL;
    }
    memset(u->slots, 0xff, SLOTS * sizeof *u->slots);
    return u;
}

void uuids_free(struct uuids *u)
{
    if (!u)
        return;
    free(u->ring);
    free(u->slots);
    free(u);
}

static struct entry *entry_at(const struct uuids *u, uint64_t position)
{
    return &u->ring[position % UUIDS_REMEMBERED];
}

static uint32_t home_of(const struct uuids *u, const struct uuid *uuid)
{
    return (uint32_t)checksum(uuid->b, sizeof uuid->b, u->seed) & (SLOTS - 1);
}

/* The slot that holds UUID, or the empty one where it would go. */
static uint32_t probe(const struct uuids *u, const struct uuid *uuid)
{
    uint32_t slot = home_of(u, uuid);

    while (u->slots[slot] != EMPTY && !uuid_equal(&u->ring[u->slots[slot]].uuid, uuid))
        slot = (slot + 1) & (SLOTS - 1);
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
        slot = (slot + 1) & (SLOTS - 1);
        if (u->slots[slot] == EMPTY)
            break;
        uint32_t home = home_of(u, &u->ring[u->slots[slot]].uuid);
        /* May it move into the hole?  Only if its home is not between the hole and itself. */
        if (((slot - home) & (SLOTS - 1)) >= ((slot - hole) & (SLOTS - 1))) {
            u->slots[hole] = u->slots[slot];
            hole = slot;
        }
    }
    u->slots[hole] = EMPTY;
}

void uuids_add(struct uuids *u, const struct uuid *uuid, uint64_t seq, uint64_t content)
{
    if (u->next - u->first == UUIDS_REMEMBERED) {
        remove_slot(u, probe(u, &entry_at(u, u->first)->uuid));
        u->first++;
    }
    uint32_t slot = probe(u, uuid);
    assert(u->slots[slot] == EMPTY);
    *entry_at(u, u->next) = (struct entry){ *uuid, seq, content };
    u->slots[slot] = (uint32_t)(u->next % UUIDS_REMEMBERED);
    u->next++;
}

void uuids_forget_after(struct uuids *u, uint64_t seq)
{
    while (u->next > u->first && entry_at(u, u->next - 1)->seq > seq) {
        remove_slot(u, probe(u, &entry_at(u, u->next - 1)->uuid));
        u->next--;
    }
}
