/*
 * Rows into .rows files, one after the other as each reaches its size: what a compaction writes.
 *
 * Files have no names yet; what isn't taken over vanishes with rows_out_fini().  One thread.
 */
#ifndef SKADE_ROWS_OUT_H
#define SKADE_ROWS_OUT_H

#include "rows_writer.h"
#include "store.h"

/* A finished file. */
struct output {
    int fd;
    struct manifest_file entry;
};

struct rows_out {
    /* the caller's */
    struct store *store;
    int dir;
    struct rows_writer_options options; /* of each file */
    uint64_t target_size;
    bool in_memory; /* a sample: files need no disk, and are so small that nothing is spilled to one either */

    /* what came of it */
    struct output *outputs;
    size_t count, cap;
    uint64_t rows, raw_bytes;

    /* in between */
    struct rows_writer *writer;
    uint64_t keyed;                   /* rows with a key, of this file */
    uint64_t rows_before, raw_before; /* it */
    int fd;
};

/* FD must be -1 and the rest zero before the first row.  A row's value is whole, or NULL and then exactly VALUE_LEN
 * bytes by rows_out_piece(). */
int rows_out_put(struct rows_out *out, unsigned flags, struct bytes key, const void *value,
                 uint64_t value_len, int64_t time_us, struct errmsg *msg);
int rows_out_piece(struct rows_out *out, const void *data, size_t len, struct errmsg *msg);

/* Compressed bytes so far. */
uint64_t rows_out_bytes(const struct rows_out *out);

/* No more rows: seal the last file. */
int rows_out_finish(struct rows_out *out, struct errmsg *msg);
/* Close everything; the outputs too. */
void rows_out_fini(struct rows_out *out);

#endif
