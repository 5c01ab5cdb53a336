/*
 * Checksums of short rows, for loops over many of them: compiled into the loop, where a call would take as long as the
 * sum.  The results are those of checksum() and entry_seed().
 */
#ifndef SKADE_ROW_SUM_H
#define SKADE_ROW_SUM_H

#include "row.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define ROW_SUM_SHORT 240u /* bytes; the sum of longer ones takes longer than a call */

/* Of a whole file, for row_seed(). */
static inline uint64_t row_uuid_seed(const struct uuid *uuid)
{
    return XXH3_64bits_withSeed(uuid, sizeof *uuid, 0);
}

static inline uint64_t row_seed(uint64_t uuid_seed, uint64_t place)
{
    return uuid_seed + place * ENTRY_SEED_STEP;
}

static inline uint64_t row_sum(const void *data, size_t len, uint64_t seed)
{
    return len <= ROW_SUM_SHORT ? XXH3_64bits_withSeed(data, len, seed) : checksum_pieces(data, len, seed);
}

#endif
