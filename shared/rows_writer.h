/*
 * Writing .rows files: surviving rows in, oldest first; zstd blocks out.  See format_entry.h for the layout.
 *
 * As entry_writer.h: FD is an empty file without a name, memory is bounded, an error leaves a worthless file.
 */
#ifndef SKADE_ROWS_WRITER_H
#define SKADE_ROWS_WRITER_H

#include "entry_writer.h"

struct rows_writer;

struct rows_writer_options {
    struct uuid log, uuid;
    uint32_t table;
    uint32_t part; /* its number in the manifest, from 1 */
    uint64_t seen_seq;
    uint32_t block_size; /* raw bytes of a block, 4 KiB to 4 MiB; 0: 64 KiB */
    int level;           /* of zstd; 0: 3 */
    size_t memory;       /* for sorting the index; 0: 8 MiB */
    int temp_dir;
};

int rows_writer_open(struct rows_writer **ret, int fd, const struct rows_writer_options *opt,
                     struct errmsg *msg);
void rows_writer_close(struct rows_writer *w);

/* A row: FLAGS ROW_KEYED or 0 (deletions have no place in a base).  VALUE whole, or NULL and then exactly VALUE_LEN bytes
 * by rows_piece(). */
int rows_put(struct rows_writer *w, unsigned flags, struct bytes key, const void *value, uint64_t value_len,
             int64_t time_us, struct errmsg *msg);
int rows_piece(struct rows_writer *w, const void *data, size_t len, struct errmsg *msg);

/* Compressed bytes written so far: the caller starts the next file when they reach its target. */
uint64_t rows_writer_bytes(const struct rows_writer *w);

/* Last block, index, footer, fsync.  *RET may then go into a manifest. */
int rows_writer_seal(struct rows_writer *w, struct manifest_file *ret, struct errmsg *msg);

#endif
