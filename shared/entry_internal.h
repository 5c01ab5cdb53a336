/*
 * What the readers of .entries and of .rows have in common, inside.
 *
 *      entry_file.c    opens, checks header and footer, loads map and keys; find and verify; hands on to its kind
 *      entry_plain.c   the cursor over .entries        entry_blocks.c   the cursor over .rows
 *
 * Writers have in common what is in sealing.h: buffered output with checksums on the way, keys, footer, sync.
 *
 * Between a file's data and its footer stand two stretches with a checksum each.  The map says where rows are (skips
 * or blocks) and is small; the keys say where the rows of a key are (hashes, places, nodes).  Each is loaded, checked
 * and kept when it is first needed, by whichever thread comes first.
 */
#ifndef SKADE_ENTRY_INTERNAL_H
#define SKADE_ENTRY_INTERNAL_H

#include "entry_file.h"
#include "entry_run.h"
#include "filewindow.h"

#include <pthread.h>

/* A stretch of a file in memory: read, or mapped when it is large. */
struct entry_stretch {
    _Atomic bool here; /* then the rest doesn't change */
    uint64_t off;
    const uint8_t *data; /* the byte at OFF; aligned like OFF modulo 64 */
    void *base;          /* what to free, or to unmap */
    size_t mapped;       /* bytes, 0: freed */
};

struct entry_file {
    int fd;
    char *name;
    struct entry_header header;
    struct entry_footer footer; /* checked: every section lies in its stretch */
    uint64_t seed;              /* row_uuid_seed() of its uuid */
    const struct entry_kind *kind;
    pthread_mutex_t lock; /* while a stretch is loaded */
    struct entry_stretch map;
    struct entry_stretch keys;
};

/* The map's array, checked by its checksum but no further: skips of a .entries, blocks of a .rows file.  Lent as long
 * as F is open.  Any thread. */
int entry_file_skips(struct entry_file *f, const uint64_t **ret, struct errmsg *msg);
int entry_file_blocks(struct entry_file *f, const struct block_ref **ret, struct errmsg *msg);

/* A damage at OFF of F: names both in MSG, returns SKADE_EDAMAGED. */
int entry_file_damaged(const struct entry_file *f, uint64_t off, struct errmsg *msg, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* What both cursors begin with: a kind's own struct has it as first member, allocates it in open() and frees it in
 * close().  Errors are made sticky by entry_file.c, which doesn't call a failed cursor again until it is sought.  A row that
 * the run gave last is entry_file.c's matter as well. */
struct entry_cursor {
    const struct entry_kind *kind;
    struct entry_run run; /* rows before those that next() will give; made by next(), forgotten by a seek */
    struct entry_file *file;
    enum entry_order order;
    int64_t time_us; /* for rows of a .entries file */
    int failed;      /* 0, or what next() returned; then MSG has why */
    struct errmsg why;
    bool has_row; /* next() gave a row last: value_read() and value_check() are about it */
    struct {      /* what they need of it */
        const char *value;
        uint64_t value_len, number;
    } row;
};

/* A cursor starts before its first row: before row 0, or for NEWEST_FIRST before row rows - 1.  Each function has the
 * contract of its namesake in entry_file.h; here C has not failed, the row is there, ranges are inside the value, and
 * numbers are less than the file's rows.  A seek may follow a failure: it starts anew.  open() fills in FILE and ORDER,
 * its caller TIME_US; MSG is never NULL. */
struct entry_kind {
    /* Does the footer say what a file of this kind may?  Sections, data_end and keys_off were checked already. */
    int (*check_footer)(const struct entry_file *f, struct errmsg *msg);
    int (*open)(struct entry_cursor **ret, struct entry_file *f, enum entry_order order, struct errmsg *msg);
    void (*close)(struct entry_cursor *c);
    /* As if it were newly opened, over F, in its order; the memory that it has stays. */
    int (*turn)(struct entry_cursor *c, struct entry_file *f, struct errmsg *msg);
    /* Nothing is left of the run.  May make another one and give its first row. */
    int (*next)(struct entry_cursor *c, struct row *ret, struct errmsg *msg);
    int (*value_read)(struct entry_cursor *c, uint64_t off, void *buffer, size_t len, struct errmsg *msg);
    int (*value_check)(struct entry_cursor *c, struct errmsg *msg);
    int (*seek_number)(struct entry_cursor *c, uint64_t number, struct errmsg *msg);
    /* The run is forgotten.  PLACE is any number.  In a .rows file the next row is the first in order of those that begin in block PLACE. */
    int (*seek_place)(struct entry_cursor *c, uint64_t place, struct errmsg *msg);
};

/* entry_block_take() for a cursor of the kind entry_blocks that has not failed. */
int entry_blocks_take(struct entry_cursor *base, uint64_t number, struct entry_block **ret,
                      struct errmsg *msg);

extern const struct entry_kind entry_plain;  /* entry_plain.c */
extern const struct entry_kind entry_blocks; /* entry_blocks.c */

#endif
