/*
 * A map from snapshot ids to small numbers, for "is this id known already?" in time that doesn't depend on
 * how many are known.  Ids are untrusted: places are drawn with a seed of the process, so that nobody can
 * prepare ids that meet.
 */
#ifndef SKADE_ICEBERG_IDS_H
#define SKADE_ICEBERG_IDS_H

#include <stddef.h>
#include <stdint.h>

struct iceberg_id_slot {
    int64_t id;
    uint32_t value_plus_1; /* 0: the slot is free */
};

/* Zero is an empty map. */
struct iceberg_ids {
    struct iceberg_id_slot *slots;
    size_t size; /* 0 or a power of two, at least twice the count */
    size_t count;
    uint64_t seed;
};

/* Add ID with VALUE (below UINT32_MAX).  1 added, 0 it was there already and stays as it was, -ENOMEM. */
int iceberg_ids_add(struct iceberg_ids *ids, int64_t id, uint32_t value);

/* 1 and the value of ID, or 0. */
int iceberg_ids_find(const struct iceberg_ids *ids, int64_t id, uint32_t *ret);

void iceberg_ids_free(struct iceberg_ids *ids);

#endif
