/*
 * A set of 64-bit key hashes: which keys has the way back through a store met?
 *
 * 8 bytes a slot, of which three to six eighths are in use: 11 to 21 bytes a key, half as much again while it grows.
 */
#ifndef SKADE_DRIVE_KEYS_H
#define SKADE_DRIVE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DRIVE_KEYS_MAX (1u << 27)

/* Zero is an empty set. */
struct drive_keys {
    uint64_t *slots; /* 0: free; key 0 is told by has_zero */
    size_t size;     /* 0 or a power of two */
    size_t count;
    uint64_t seed; /* the hashes come from strangers, who shouldn't know which ones meet */
    bool has_zero;
};

/* 1: HASH is new; 0: it was there; -ENOMEM; -E2BIG: it would be one more than DRIVE_KEYS_MAX. */
int drive_keys_add(struct drive_keys *k, uint64_t hash);
void drive_keys_free(struct drive_keys *k);

#endif
