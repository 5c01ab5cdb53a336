/*
 * A row of a stored table, as readers, writers, scans and the compactor hand it on; and what identifies its key.
 */
#ifndef SKADE_ROW_H
#define SKADE_ROW_H

#include "util.h"

enum row_flag { ROW_KEYED = 1, ROW_DELETE = 2 }; /* same bits as enum entry_flag */

/* Values up to here are handed on whole; longer ones are read in pieces. */
#define ROW_WHOLE (1u << 20)

struct row {
    uint32_t flags; /* enum row_flag */
    struct bytes key;
    const char *value; /* NULL when value_len > ROW_WHOLE: read it in pieces */
    uint64_t value_len;
    int64_t time_us; /* of the commit that wrote it */
    uint64_t place;  /* .entries: of the trailer; .rows: number of the block */
    uint64_t number; /* of the row in its file, from 0, oldest first */
};

/* What the indexes find keys by: a filter only, the key itself decides. */
uint64_t entry_hash(struct bytes key);

/* What ties a checksum to its file and its place in it: checksum() of the uuid, plus the place times ENTRY_SEED_STEP. */
#define ENTRY_SEED_STEP 0x9e3779b97f4a7c15ull
uint64_t entry_seed(const struct uuid *uuid, uint64_t place);

/* checksum() of LEN bytes at DATA in pieces of ENTRY_PIECE, chained: the checksum of a long stretch.  A stretch may be
 * given in several calls when all but the last have a multiple of ENTRY_PIECE bytes. */
uint64_t checksum_pieces(const void *data, size_t len, uint64_t seed);

#endif
