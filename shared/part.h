/*
 * A part: an immutable index over a contiguous range of commits, and the records themselves.
 *
 * Questions by id cost one memory latency: the key is mixed, so its home block follows from the key alone, and the
 * block holds sorted keys and the records beside them.  The STree64 over the same blocks is the guaranteed path and
 * the order.  Per table there is an order by time and one by sequence.  Locations are rebuilt from a per-table
 * template; what doesn't fit it stands in a heap.  Layout: format_part.h.
 *
 * Only commits (EVENT_COMMIT, EVENT_COMPACT) are in parts.  Among the rows of one (table, id) that have
 * EVENT_INTRODUCES the one with the lowest sequence answers find(); the others are history only.
 *
 * A struct part is read-only after part_open(): any number of threads may ask it.  Nothing here allocates except
 * part_open() and the plans.  Bytes of a part are never trusted: every offset and length is checked before use, so
 * damage gives SKADE_EDAMAGED or, where only a checksum could tell (PART_VERIFY), a wrong answer; never a crash, an
 * endless loop or a look outside.
 */
#ifndef SKADE_PART_H
#define SKADE_PART_H

#include "errors.h"
#include "event.h"
#include "format_part.h"

/* ---- reading ------------------------------------------------------------------------------------------------ */

/* A checked view of a part's bytes.  Private fields: copies of the header, pointers to sections. */
struct part;

enum part_open_flag { PART_VERIFY = 1 /* checksum the whole content, not the header alone */ };

/*
 * Check the SIZE bytes at BASE (64-byte aligned) and make *RET a view of them; they must outlive it.  Without
 * PART_VERIFY only the header and the table numbers are read.
 * 0, or SKADE_EDAMAGED / SKADE_EVERSION / -ENOMEM with the reason in MSG.  Gives *RET; part_close() it.
 */
int part_open(struct part **ret, const void *base, size_t size, unsigned flags, struct errmsg *msg);
void part_close(struct part *p);

const struct part_header *part_header(const struct part *p); /* the checked copy */
uint64_t part_rows(const struct part *p);

/* How many snapshots of TABLE find() finds that were introduced after AFTER.  Reads 4 bytes a row.  Negative: damaged. */
int64_t part_snapshots(const struct part *p, uint32_t table, uint64_t after);

/* How many rows of TABLE have seq > AFTER, whatever they are.  Negative: damaged. */
int64_t part_rows_after(const struct part *p, uint32_t table, uint64_t after);

/* A commit in a part. */
struct part_hit {
    uint32_t ref; /* the record, for part_location() */
    uint32_t table;
    uint32_t flags; /* enum event_flag */
    uint32_t kind;  /* EVENT_COMMIT or EVENT_COMPACT */
    int64_t snapshot;
    uint64_t seq;
    int64_t time_us;
};

/* The commit that introduced ID of TABLE.  1 found, 0 not in this part, negative damaged. */
int part_find(const struct part *p, uint32_t table, int64_t id, struct part_hit *ret);

/* part_find() and part_location() in one go, so that what the location needs is fetched while the row is.  1 and *LEN, the
 * location's length; when that is more than CAP nothing is written to BUF.  0, negative. */
int part_resolve(const struct part *p, uint32_t table, int64_t id, struct part_hit *ret, char *buf,
                 size_t cap, size_t *len);

/* part_find() through the tree alone; for tests and the benchmark. */
int part_find_by_tree(const struct part *p, uint32_t table, int64_t id, struct part_hit *ret);

/* The newest commit of TABLE that moved the head, with seq <= MAX_SEQ.  1, 0, negative.  One row is read when MAX_SEQ
 * takes in the whole part, else a binary search's. */
int part_head(const struct part *p, uint32_t table, uint64_t max_seq, struct part_hit *ret);

/* Among the commits of TABLE that moved the head, have time <= T_US and seq <= MAX_SEQ: the one with the greatest
 * (time, seq).  1, 0, negative.  Rows that are later than MAX_SEQ are stepped over one by one. */
int part_as_of(const struct part *p, uint32_t table, int64_t t_us, uint64_t max_seq, struct part_hit *ret);

/* The earliest of them by (time, seq): what a message names when as_of() finds nothing.  1, 0, negative. */
int part_earliest(const struct part *p, uint32_t table, uint64_t max_seq, struct part_hit *ret);

/* History: the newest commit of TABLE with seq < BEFORE / the oldest with seq > AFTER, of all that are in the part,
 * whether they moved the head or have an id or not.  1, 0, negative. */
int part_before(const struct part *p, uint32_t table, uint64_t before, struct part_hit *ret);
int part_after(const struct part *p, uint32_t table, uint64_t after, struct part_hit *ret);

/* The record REF as a hit: for refs that a root keeps (heads).  1, or negative when REF isn't a record. */
int part_record(const struct part *p, uint32_t ref, struct part_hit *ret);

/* Write the location of record REF to BUF (CAP bytes, no terminator); nothing behind it is touched.  Its length, or
 * -ERANGE when CAP is too small (*NEED, if not NULL, is the length), or negative damaged. */
int part_location(const struct part *p, uint32_t ref, char *buf, size_t cap, size_t *need);

/* One question of a batch: in: table, id, location/cap (a buffer of the caller's); out: the rest.  Questions whose
 * status is not PART_ASK are skipped, so that a batch can go from part to part. */
enum part_status { PART_ASK = 0, PART_FOUND = 1, PART_ERROR = 2 /* error says which */ };
struct part_query {
    uint32_t table;
    int32_t status; /* enum part_status */
    int64_t id;
    char *location;
    uint32_t location_cap;
    uint32_t location_len; /* also with error -ERANGE: what is needed */
    int32_t error;
    uint32_t part; /* the caller's: which part found it; set to PART_NO by part_find_many() */
    struct part_hit hit;
};

/* Answer the N queries that still have PART_ASK, as a software pipeline over the whole lookup, location included.  A
 * query whose id isn't in P keeps PART_ASK.  One query alone is answered faster than by part_find() and
 * part_location(). */
void part_find_many(const struct part *p, struct part_query *queries, size_t n, uint32_t part_no);

/* ---- instruction sets ------------------------------------------------------------------------------------------ */

enum part_isa { PART_SCALAR = 0, PART_AVX2 = 1, PART_AVX512 = 2 };

/* The best that this processor has, or what SKADE_ISA=scalar|avx2|avx512 names if the processor has it.  part_open()
 * decides by it, once for the part; any thread. */
enum part_isa part_isa_best(void);
bool part_isa_has(enum part_isa isa);
/* Use ISA for P from now on (tests, benchmark): not while others ask P. */
void part_use_isa(struct part *p, enum part_isa isa);

/* ---- building ---------------------------------------------------------------------------------------------- */

/* What the header of a new part says. */
struct part_info {
    struct uuid log;
    uint64_t seed;
    uint64_t epoch;
    uint64_t generation;
    uint64_t from_seq; /* covers (from_seq, to_seq]; every row's seq is inside */
    uint64_t to_seq;
};

/*
 * A part that is about to be written: sorted, placed, its size known.
 *
 *     part_plan_rows() or part_plan_merge()  ->  part_plan_size()  ->  part_plan_fill()  ->  part_plan_free()
 */
struct part_plan;

/* Plan a part over N commits in sequence order.  The events and their texts are borrowed until part_plan_free().
 * Every location is rendered from what will be stored and compared byte by byte; what differs goes to the heap.
 * 0, -ENOMEM, or SKADE_EFULL when a part can't hold that many. */
int part_plan_rows(struct part_plan **ret, const struct part_info *info, const struct event *const *events,
                   size_t n);

/* Plan the merge of N parts that follow each other in sequence (oldest first): by merging sorted runs, without a
 * full sort.  The parts are borrowed until part_plan_free().  Rows of a table whose template stays are copied as they
 * are; the others are rendered, encoded anew and compared as in part_plan_rows().
 * 0, -ENOMEM, SKADE_EFULL, or SKADE_EDAMAGED when parts don't belong together or one is damaged. */
int part_plan_merge(struct part_plan **ret, const struct part_info *info, struct part *const *parts,
                    size_t n);

uint64_t part_plan_size(const struct part_plan *plan);

/* BUF holds a part of SIZE bytes that part_open() takes: say in its header that it was made by EPOCH for GENERATION. */
void part_readdress(void *buf, size_t size, uint64_t epoch, uint64_t generation);

/* Write the part to BUF, part_plan_size() bytes, 64-byte aligned; whatever was there is overwritten, padding with
 * zeros.  The same plan gives the same bytes.  0, or SKADE_EDAMAGED when a part that is merged is. */
int part_plan_fill(struct part_plan *plan, void *buf, size_t size);
void part_plan_free(struct part_plan *plan);

#endif
