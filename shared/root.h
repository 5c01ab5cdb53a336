/*
 * A root: which tables and names there are, who is retired, and which parts hold the commits.
 *
 * Immutable; one per generation.  Bytes of a root are never trusted: every offset and length is checked
 * before use.  What is damaged gives SKADE_EDAMAGED or, where only the checksum could tell, "there is none":
 * never a crash, an endless walk, or a table that doesn't bear the name.
 *
 *      header   parts   tables         names                            buckets         plain    heap
 *     +--------+-------+--------------+--------------------------------+---------------+--------+-------------+
 *     |        | p p p | 1 2 3 4 ...  | sorted by hash, then from_seq  | 0 2 2 3 ... n | 1 1 0  | name name.. |
 *     +--------+-------+--------------+--------------------------------+---------------+--------+-------------+
 *                                       a bucket is the names whose hashes begin with the same bits:
 *                                       about one
 */
#ifndef SKADE_ROOT_H
#define SKADE_ROOT_H

#include "errors.h"
#include "event.h"
#include "format.h"
#include "lifetime.h"

enum root_open_flag { ROOT_VERIFY = 1 /* checksum the content */ };

struct root;

/* Check the SIZE bytes at BASE (64-byte aligned) and make *RET a view of them; they must outlive it.  The
 * parts are checked here: contiguous from 0 to the root's to_seq.  0, SKADE_EDAMAGED, SKADE_EVERSION,
 * -ENOMEM.  Gives *RET; root_close() it.  A root is read-only afterwards: any thread. */
int root_open(struct root **ret, const void *base, size_t size, unsigned flags, struct errmsg *msg);
void root_close(struct root *r); /* NULL is fine */

const struct root_header *root_header(const struct root *r); /* the checked copy */

/* The table that bore NAME just after event AT (SEQ_MAX: the newest it knows).  1, 0, SKADE_EDAMAGED. */
int root_find_table(const struct root *r, struct bytes name, uint64_t at, uint32_t *ret);

/* Copies of rows.  1, 0 when there is no such number or index. */
int root_get_table(const struct root *r, uint32_t table, struct root_table *ret);
int root_get_part(const struct root *r, size_t i, struct root_part *ret);

/* The rules for its tables, as of event AT; they must not outlive it. */
struct lifetimes root_lifetimes(const struct root *r, uint64_t at);

/* The newest name of TABLE, lent.  1, 0, SKADE_EDAMAGED. */
int root_table_name(const struct root *r, uint32_t table, struct bytes *ret);

/* ---- building ------------------------------------------------------------------------------------------ */

struct root_name_row {
    struct bytes name;
    uint64_t from_seq;
    uint64_t to_seq;
    uint32_t table;
};

struct root_input {
    struct uuid log;
    uint64_t seed;
    uint64_t epoch;
    uint64_t generation;
    uint64_t covered;   /* the last part's to_seq; 0 without parts */
    uint64_t names_seq; /* >= covered */
    const struct root_part *parts;
    size_t parts_count;
    const struct root_table *tables; /* index = number - 1; name_off and name_len are ignored */
    size_t tables_count;
    /* Any order; of a table the row with the greatest from_seq is its newest name.  Every table has one. */
    const struct root_name_row *names;
    size_t names_count;
};

/* Bytes that the root needs; 0 when they don't fit into 2^40. */
uint64_t root_size(const struct root_input *in);
/* Write it to BUF, root_size() bytes, 64-byte aligned; whatever was there is overwritten, padding with zeros.
 * 0 or -ENOMEM. */
int root_fill(const struct root_input *in, void *buf, size_t size);

#endif
