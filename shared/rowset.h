/*
 * The rows of a table at one snapshot: a base and the files committed after it, with what hides what.
 *
 * A row without a key is always there.  Of the rows with one key only the newest is, and none if that is a deletion.
 * Keys decide, hashes only filter.  Which rows are dead is found once, from the indexes of the files, within a budget
 * of memory; then any number of cursors read, in either order and in n parts side by side, all with the same result.
 *
 *     rowset_open(&set, files, n, &opt, msg);       opens nothing yet but the base's manifest
 *     rowset_prepare(set, msg);                     finds the dead rows; before the first cursor
 *     rowset_cursor_open(&c, set, NEWEST_FIRST, 0, 1, msg);
 *     while ((r = rowset_next(c, &row, msg)) == 1) ...
 *
 * A struct rowset may be shared by threads once it is prepared; each cursor belongs to one.  Descriptors are opened as
 * they are needed and only few are held, however many files there are.
 */
#ifndef SKADE_ROWSET_H
#define SKADE_ROWSET_H

#include "entry_file.h"

#include <sys/types.h>

struct rowset;
struct rowset_cursor;

struct rowset_file {
    const char *path; /* of a .entries file; of the base: its .manifest.  Copied. */
    uint64_t seq;     /* of the commit */
    int64_t time_us;
    bool base; /* only the first may be */
};

struct rowset_options {
    struct uuid log;
    uint32_t table;
    uid_t owner;   /* files must belong to this user or to root */
    size_t memory; /* budget for finding the dead rows, and as much for what rowset_get() keeps; 0: 64 MiB */
    const char *temp_dir; /* for unnamed files when the budget isn't enough; NULL: $TMPDIR, else /tmp */
    int (*cancelled)(
        void *
            arg); /* NULL, or asked now and then, by whichever thread works: non-zero ends it with -ECANCELED */
    void *arg;
    /* Are the files held, so that one that is missing is damage? NULL: nobody knows, and it was collected (EXPIRED). */
    bool (*held)(void *arg);
    void *held_arg;
};

/* FILES oldest first. */
int rowset_open(struct rowset **ret, const struct rowset_file *files, size_t n,
                const struct rowset_options *opt, struct errmsg *msg);
void rowset_close(struct rowset *s);

int rowset_prepare(struct rowset *s, struct errmsg *msg);

struct rowset_sum {
    uint64_t files;     /* data files, without the manifest */
    uint64_t bytes;     /* of them and the manifest on disk */
    uint64_t entries;   /* all, dead ones and deletions included */
    uint64_t rows;      /* that are there; after rowset_prepare() */
    uint64_t raw_bytes; /* keys and payloads of all entries */
};
int rowset_sum(struct rowset *s, struct rowset_sum *ret, struct errmsg *msg);

/* Part PART of PARTS of the rows: each row is in exactly one part, the parts one after the other are the whole in
 * order (for NEWEST_FIRST from the newest part 0 on).  Parts have the same number of entries, give
 * or take one; dead ones count. */
int rowset_cursor_open(struct rowset_cursor **ret, struct rowset *s, enum entry_order order, unsigned part,
                       unsigned parts, struct errmsg *msg);
void rowset_cursor_close(struct rowset_cursor *c);

/* The next row, lent until the next call: 1, 0 at the end, negative (then always the same): damage names file and
 * offset, and all rows before it were delivered. */
int rowset_next(struct rowset_cursor *c, struct row *ret, struct errmsg *msg);

/* The same if that row is in memory and checked already: 1, or 0 and rowset_next() has to be asked.  No system call, no
 * failure. */
int rowset_next_at_hand(struct rowset_cursor *c, struct row *ret);

/* Bytes [off, off + len) of the value of the row that rowset_next() gave last.  A call on C like others: what the row
 * lent, its key above all, is gone. */
int rowset_value_read(struct rowset_cursor *c, uint64_t off, void *buffer, size_t len, struct errmsg *msg);

/* The row of KEY: 1 and *RET (lent until the next call on S, whose one finder this is), 0 none, negative.  Needs no
 * rowset_prepare(); goes from the newest file to the oldest and opens only those whose index it has to look into. */
int rowset_get(struct rowset *s, struct bytes key, struct row *ret, struct errmsg *msg);
/* The same if all it takes is in memory: 1, 0, or -EAGAIN and rowset_get() has to be asked.  No system call. */
int rowset_get_at_hand(struct rowset *s, struct bytes key, struct row *ret);
/* Bytes of a value that came without it: it is longer than ROW_WHOLE. */
int rowset_get_read(struct rowset *s, uint64_t off, void *buffer, size_t len, struct errmsg *msg);

/* The table went on: FILES are newer than all that S has.  What is known of the others is kept, but dead rows have to be
 * found again by rowset_prepare().  Not while cursors are open.  On failure S is as it was. */
int rowset_extend(struct rowset *s, const struct rowset_file *files, size_t n, struct errmsg *msg);

#endif
