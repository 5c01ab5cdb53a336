/*
 * Keys: a snapshot id, mixed with the number of its table, as a uniform 64-bit number.
 *
 * Whatever the ids look like (random, times, counters, the same in 100,000 tables), the keys of a part are uniform, so
 * that a record's place follows from its key alone.  Per table the mix is a bijection: nothing collides inside a
 * table, two tables share a key by chance only, and the id is recovered from key and table, so it isn't stored.
 * It is no secret and no defence: who may commit may also choose ids that collide; that costs time, never truth.
 *
 * Keys are kept with the sign bit flipped, so that signed compares (all that AVX2 has) order them as unsigned.
 */
#ifndef SKADE_MIX_H
#define SKADE_MIX_H

#include <stdint.h>

/* The finalizer that David Stafford found for 64 bits ("Mix13") and its multipliers' inverses modulo 2^64. */
#define MIX_A 0xbf58476d1ce4e5b9ull
#define MIX_B 0x94d049bb133111ebull
#define MIX_A_INVERSE 0x96de1b173f119089ull
#define MIX_B_INVERSE 0x319642b2d24d8ec3ull
_Static_assert(MIX_A *MIX_A_INVERSE == 1 && MIX_B * MIX_B_INVERSE == 1, "the multipliers must be invertible");

#define MIX_SIGN (1ull << 63)

static inline uint64_t mix64(uint64_t x)
{
    x = (x ^ x >> 30) * MIX_A;
    x = (x ^ x >> 27) * MIX_B;
    return x ^ x >> 31;
}

static inline uint64_t unmix64(uint64_t x)
{
    x = (x ^ x >> 31 ^ x >> 62) * MIX_B_INVERSE;
    x = (x ^ x >> 27 ^ x >> 54) * MIX_A_INVERSE;
    return x ^ x >> 30 ^ x >> 60;
}

/* What the ids of TABLE are combined with in a log of SEED.  Multiples of the golden ratio: any two differ in their upper
 * bits, so that neither equal ids nor counted ones of different tables meet before they are mixed. */
static inline uint64_t mix_table(uint32_t table, uint64_t seed)
{
    return seed + (table + 1ull) * 0x9e3779b97f4a7c15ull;
}

static inline int64_t key_of(uint32_t table, int64_t id, uint64_t seed)
{
    return (int64_t)(mix64((uint64_t)id ^ mix_table(table, seed)) ^ MIX_SIGN);
}

/* The id whose key in TABLE is KEY. */
static inline int64_t key_id(uint32_t table, int64_t key, uint64_t seed)
{
    return (int64_t)(unmix64((uint64_t)key ^ MIX_SIGN) ^ mix_table(table, seed));
}

/* Which of HOMES (below 2^32) equal intervals of the key space KEY is in: monotone in KEY, < HOMES.  By the upper half of
 * the key, so that vectors of two words' products can do it. */
static inline uint64_t key_home(int64_t key, uint64_t homes)
{
    return (((uint64_t)key ^ MIX_SIGN) >> 32) * (uint32_t)homes >> 32;
}

#endif
