/*
 * Writing a .entries file: rows in, a sealed file out, in memory that doesn't grow with it.
 *
 *     entry_writer_open(&w, fd, &opt);
 *     entry_begin(w, flags, key);                        a row:
 *     entry_piece(w, data, len);                             any number of pieces of its value
 *     entry_end(w);
 *     entry_writer_seal(w, &sum);                        skips, keys, footer, fsync
 *
 * FD is a file without a name, empty, opened for reading and writing; it stays the caller's.  Writes are sequential
 * and large.  The index is sorted at the end by a sorter (sorter.h) that spills to unnamed files beside.
 * After an error the writer refuses everything; the file is worthless and vanishes with FD.
 */
#ifndef SKADE_ENTRY_WRITER_H
#define SKADE_ENTRY_WRITER_H

#include "errors.h"
#include "format_entry.h"
#include "row.h"

struct entry_writer;

struct entry_writer_options {
    struct uuid log, uuid;
    uint32_t table;
    uint32_t align; /* 0: ENTRY_ALIGN */
    uint64_t seen_seq;
    size_t memory; /* bytes for buffers and sorting; 0: 8 MiB */
    int temp_dir;  /* descriptor of a directory for unnamed files that sorting may need */
};

struct entry_sum { /* what was written */
    uint64_t size, rows, keyed, deletes, raw_bytes;
    uint64_t content; /* what the rows say, not where they stand: content_sum.h */
    uint64_t footer_check;
};

int entry_writer_open(struct entry_writer **ret, int fd, const struct entry_writer_options *opt,
                      struct errmsg *msg);
void entry_writer_close(struct entry_writer *w); /* NULL: nothing */

/* Begin a row: FLAGS enum entry_flag, KEY ignored without ENTRY_KEYED.  Then any number of its value's pieces, then end.
 * 0, SKADE_EINPUT (key too long, a deletion with a payload), SKADE_EFULL (no room), -errno. */
int entry_begin(struct entry_writer *w, unsigned flags, struct bytes key, struct errmsg *msg);
int entry_piece(struct entry_writer *w, const void *data, size_t len, struct errmsg *msg);
int entry_end(struct entry_writer *w, struct errmsg *msg);

/* Index, footer, everything to the disk (fsync).  Then the file may be linked. */
int entry_writer_seal(struct entry_writer *w, struct entry_sum *ret, struct errmsg *msg);

#endif
