/*
 * Files of entries in memory, made from lists of rows, and what must come out of them again.
 */
#ifndef SKADE_TEST_ENTRIES_H
#define SKADE_TEST_ENTRIES_H

#include "entry_file.h"
#include "entry_writer.h"

struct put { /* a row to write */
    unsigned flags;
    struct bytes key;
    struct bytes value;
};

#define PUT(k, v)                            \
    {                                        \
        ENTRY_KEYED, { (k), sizeof(k) - 1 }, \
        {                                    \
            (v), sizeof(v) - 1               \
        }                                    \
    }
#define DELETE(k)                                           \
    {                                                       \
        ENTRY_KEYED | ENTRY_DELETE, { (k), sizeof(k) - 1 }, \
        {                                                   \
            NULL, 0                                         \
        }                                                   \
    }
#define KEYLESS(v)             \
    {                          \
        0, { NULL, 0 },        \
        {                      \
            (v), sizeof(v) - 1 \
        }                      \
    }

/* Log 1, request 2, table 7, seen_seq 99; everything else by default. */
struct entry_writer_options entries_options(void);

/* Write ROWS in pieces of at most PIECE bytes (0: whole).  The first error, or 0 and *SUM. */
int entries_write(int fd, const struct entry_writer_options *opt, const struct put *rows, size_t n,
                  size_t piece, struct entry_sum *sum, struct errmsg *msg);

/* A memory file of ROWS; it must come to be. */
int entries_make(const struct put *rows, size_t n);

/* A memory file of these bytes; the bytes of a file (to be freed). */
int entries_of_bytes(const void *data, size_t size);
uint8_t *entries_bytes(int fd, size_t *size);

/* Open a duplicate of FD as "here.entries". */
int entries_open(struct entry_file **ret, int fd, struct errmsg *msg);

/* Every row of F in ORDER is that of ROWS: 0, or the error that ended it early, after right rows only; *COUNT (or NULL) is
 * how many came.  A wrong row ends the test. */
int entries_compare(struct entry_file *f, enum entry_order order, const struct put *rows, size_t n,
                    size_t *count, struct errmsg *msg);

#endif
