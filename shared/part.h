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

/*
 * A question by id and its answer, in the caller's own memory: what users of libskadeclient know as struct skade_answer,
 * so that nothing is copied on the way from a row to them.
 *
 * Answers are complete: the location ends with a NUL, for which location_cap has room too, and what a status has no
 * value for is 0.  Nothing behind the NUL is written.  Statuses:
 *
 *      1                    seq, time_us, flags, location, location_len
 *      -ERANGE              the same, but the location doesn't fit: location_len is its length
 *      SKADE_EEXPIRED       seq, time_us, flags, retired_by
 *
 * With any other outcome the answer is left alone, but for what stands at location.
 */
struct part_query {
    uint32_t size; /* the caller's */
    uint32_t location_cap;
    char *location;
    uint32_t table;
    int32_t status;
    int64_t id;
    uint64_t seq;
    int64_t time_us;
    uint64_t retired_by;
    uint32_t location_len;
    uint32_t flags; /* enum part_answer_flag */
} __attribute__((may_alias));
SIZE(part_query, 64);

enum part_answer_flag { PART_WITH_SNAPSHOT = 1, PART_FROM_MAP = 2 };

struct lifetimes;

/*
 * Answer Q: where is ID of TABLE, by the rules LIVES for its tables (NULL: there are none; lifetime.h).  Row and location
 * are fetched together.  Returns what Q's status is then; or, with Q left alone, 0 not in this part,
 * SKADE_ENOSNAPSHOT (it is younger than the moment, and so are the rows of later parts), SKADE_ENOTABLE, -EAGAIN (the
 * rules can't tell), SKADE_EDAMAGED.
 */
int part_resolve(const struct part *p, const struct lifetimes *lives, uint32_t table, int64_t id,
                 struct part_query *q);

/* Many questions: query I is at FIRST + I * STRIDE bytes. */
struct part_many {
    void *first;
    size_t stride;
    const struct lifetimes *lives; /* as in part_resolve() */
    uint32_t *odd; /* room for all: numbers of queries whose status is set, but none that has an answer */
    size_t odd_count;
};

/*
 * part_resolve() for the N queries of M whose numbers are in LIST, as a software pipeline over the whole lookup.  Statuses
 * are set, but for the queries that aren't in P: their numbers are put into LIST, in any order, and their count is
 * returned, so that a batch can go from part to part.  Those that end without an answer are appended to M's odd ones.
 */
size_t part_resolve_many(const struct part *p, struct part_many *m, uint32_t *list, size_t n);

/* The same two through the tree alone; for tests and the benchmark. */
int part_resolve_by_tree(const struct part *p, const struct lifetimes *lives, uint32_t table, int64_t id,
                         struct part_query *q);
size_t part_resolve_many_by_tree(const struct part *p, struct part_many *m, uint32_t *list, size_t n);

/* The index alone: for each of N keys (mix.h) a ref whose row has it, through the tree, or PART_NO_REF.  Of rows with equal
 * keys it is the first one's.  For tests and the benchmark. */
void part_find_keys_by_tree(const struct part *p, const int64_t *keys, uint32_t *refs, size_t n);

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
