/*
 * The ledger: what is true now, in memory.
 *
 * The log is the truth on disk, the parts are the truth about old commits; the ledger holds the rest: tables, names,
 * heads, retirements, and the tail, that is every event newer than the published parts.  It changes only by
 * ledger_apply(), event by event in sequence order, and forgets only by ledger_trim(), when a published generation
 * covers a stretch of the tail.
 *
 *        log (SQLite)       1 .................................................. seq
 *        parts (shm)        1 ........................ covered
 *        tail (here)                                   covered+1 ................ seq
 *
 * Commits of a large group arrive in slices: they are in the tail, behind seq, and no question hears of them before
 * ledger_show().
 *
 * Belongs to the loop.  A worker may read events of the tail that it was given: they stay until the loop trims them,
 * and the loop doesn't while a job borrows them.
 */
#ifndef SKADE_LEDGER_H
#define SKADE_LEDGER_H

#include "event.h"
#include "generation.h"
#include "uuids.h"

struct lease;

/* A name and the table that bore it in [from_seq, to_seq). */
struct name_row {
    struct bytes name; /* owned */
    uint64_t from_seq;
    uint64_t to_seq;
    uint32_t table;
    uint32_t older; /* the row that bore this name before, + 1; 0: none */
};

/* Commits of a table up to `watermark` are retired since event `seq`.  A compaction also made a new base of them. */
struct retirement {
    uint64_t seq;
    uint64_t watermark;
    bool compaction;
    int64_t time_us; /* when that was, by the clock; 0: the log doesn't tell */
};

/* A compaction: of a COMPACT event what parts don't tell. */
struct compacted {
    uint64_t seq;
    uint64_t watermark;
    uint32_t table;
    int64_t when_us; /* when it came to be; 0: the log doesn't tell */
};

struct head {
    uint64_t seq; /* 0: no commit moved the head yet */
    uint32_t flags;
    int64_t snapshot;
    int64_t time_us;
    struct bytes location; /* owned */
};

struct table {
    uint32_t number;
    uint32_t kind; /* enum root_kind */
    uint64_t created_seq;
    uint64_t dropped_seq; /* SEQ_MAX while it lives */
    int64_t dropped_us;
    struct head head;
    uint64_t snapshots; /* that can be resolved */
    uint64_t tail_last; /* its newest commit in the tail; 0: none */
    struct {
        uint64_t since; /* the ledger's seq then: another one, and there are none */
        uint64_t tail_last, snapshots;
    } arriving;           /* what it was before commits arrived that nobody sees yet */
    uint32_t name;        /* index of its newest name row */
    uint32_t events_last; /* its newest event that isn't a commit, index + 1 into the ledger's others */
    struct retirement *retirements; /* ascending */
    size_t retirements_count;
    /* The committer's: what the group under judgement has in mind for this table; see committer.c. */
    struct {
        uint64_t group;           /* meaningful only for the group of this number */
        bool changed;             /* created, renamed, dropped or retired in it */
        const struct event *head; /* NULL: as it is */
    } pending;
    uint64_t since_compaction;         /* commits */
    struct lease *leases, *leases_end; /* leases.c's: newest moment first */
    uint64_t cooldown_ms;              /* compactions.c's: not by itself before this */
    uint64_t collected_seq;            /* gc.c's: files that events up to here retired are gone, or going */
};

/* An event in the tail. */
struct tail_entry {
    struct event *event; /* owned */
    uint64_t table_prev; /* seq of the table's commit before it, perhaps not in the tail any more */
    uint32_t hash_next;  /* entry of the tail with the same hash: seq - floor; 0: none */
};

struct ledger {
    struct uuid log;
    uint64_t seed;
    uint64_t seq;     /* newest event that is true for everybody */
    uint64_t arrived; /* the newest in the tail: more than seq while a large group arrives */
    uint64_t floor;   /* the tail holds (floor, arrived] */
    struct tail_entry *tail;
    size_t tail_cap;
    uint32_t *tail_hash; /* (table, id) -> newest entry, seq - floor */
    size_t tail_hash_mask;

    struct table **tables; /* index: number - 1 */
    size_t tables_count, tables_cap;
    uint64_t living; /* tables that aren't dropped */
    struct name_row *names;
    size_t names_count, names_cap;
    uint32_t *name_hash; /* name -> newest row, + 1 */
    size_t name_hash_mask;
    uint32_t *sorted; /* rows of living names, by name */
    size_t sorted_count, sorted_cap;

    struct other {
        struct event *event; /* owned; stays as it is as long as the ledger */
        uint32_t table_prev; /* the same table's before, + 1 */
    } * others;              /* every event that isn't a commit, for history */
    size_t others_count, others_cap;
    struct compacted *compactions; /* every COMPACT, by seq */
    size_t compactions_count, compactions_cap;

    struct uuids *uuids;
};

struct ledger *ledger_new(const struct uuid *log, uint64_t seed); /* NULL: no memory */
void ledger_free(struct ledger *l);

/* A copy of E with its texts in one allocation; free() it. NULL: no memory. */
struct event *event_copy(const struct event *e);

/* A checksum of what a request asked for: the same for the same request, whenever it comes. */
uint64_t event_content(const struct event *e);

/*
 * E happened.  Its seq is ledger's + 1.  The tail keeps it (takes E over) unless REPLAY: then E is borrowed, the parts
 * will hold it, and snapshots are counted later by ledger_count_snapshots().  GENERATION (may be NULL): where to look
 * whether a snapshot is new.  0, -ENOMEM, or SKADE_EDAMAGED when the event doesn't fit what was before (from a log
 * whose chain is right that would be our own mistake).
 */
int ledger_apply(struct ledger *l, struct event *e, bool replay, const struct generation *generation);

/*
 * The same in slices, for commits only and without a replay: room for COUNT events, each of them, and then all are true at
 * once.  No other event is applied meanwhile.
 */
int ledger_reserve(struct ledger *l, size_t count);
int ledger_arrive(struct ledger *l, struct event *e, const struct generation *generation);
void ledger_show(struct ledger *l);

/*
 * Begin again from an index file: into a fresh ledger all events that aren't commits, and of each COMPACT its table and
 * watermark, in order; then the uuids, oldest first; then, with G, whose parts cover the log up to its event COVERED,
 * ledger_restore_end(), which finds heads and counts there.  After it the ledger is as if it had applied everything up
 * to COVERED in a replay.  0, -ENOMEM, or SKADE_EDAMAGED when these don't fit together: the ledger is good for nothing
 * then.
 */
int ledger_restore(struct ledger *l, const struct event *e);
int ledger_restore_uuid(struct ledger *l, const struct index_uuid *u);
int ledger_restore_end(struct ledger *l, const struct generation *g, uint64_t covered);

/* The parts cover events up to COVERED: let go of them.  Very many are given to *RET (may be NULL), for a worker to free. */
struct forgotten {
    struct tail_entry *entries; /* NULL: none */
    size_t count;
};
void ledger_trim(struct ledger *l, uint64_t covered, struct forgotten *ret);
void forgotten_free(struct forgotten *f);

/* After a replay: how many snapshots of each table can be resolved. */
void ledger_count_snapshots(struct ledger *l, const struct generation *generation);

struct table *ledger_table(const struct ledger *l, uint32_t number); /* NULL: there is none */

/* The table that bears NAME just after event AT; 0: none. */
uint32_t ledger_find_name(const struct ledger *l, struct bytes name, uint64_t at);

/* The name that TABLE has just after event AT, lent; after its drop the last one. */
struct bytes ledger_name_at(const struct ledger *l, uint32_t table, uint64_t at);

/* Index into sorted of the first living name >= NAME. */
size_t ledger_sorted_from(const struct ledger *l, struct bytes name);

/* The event SEQ when it is in the tail. */
const struct event *ledger_tail_event(const struct ledger *l, uint64_t seq);

/* The watermark of T as of AT, and the event that set it. */
uint64_t table_watermark(const struct table *t, uint64_t at, uint64_t *retired_by);

/* The compaction that T's rows begin with as of AT: its rows up to the watermark are in that event's files.  NULL: none
 * yet.  And how many compactions there were by then. */
const struct retirement *table_base(const struct table *t, uint64_t at, uint32_t *number);

/* ---- questions: the parts, then the tail ---- */

struct answer {
    int status; /* 1, SKADE_ENOTABLE, SKADE_ENOSNAPSHOT, SKADE_EEXPIRED, or an error */
    uint32_t table;
    uint32_t flags;
    uint32_t kind;
    int64_t snapshot;
    uint64_t seq;
    int64_t time_us;
    uint64_t retired_by;
    struct bytes location; /* in buffer, or lent by the tail */
    char buffer[LOCATION_MAX];
};

/* Each returns RET->status.  AT: as of that event; SEQ_MAX: now. */
int ledger_resolve(const struct ledger *l, const struct generation *g, uint32_t table, int64_t id,
                   uint64_t at, struct answer *ret);
int ledger_head(const struct ledger *l, const struct generation *g, uint32_t table, uint64_t at,
                struct answer *ret);
int ledger_as_of(const struct ledger *l, const struct generation *g, uint32_t table, int64_t time_us,
                 uint64_t at, struct answer *ret);
/* How many snapshots of T can be resolved. */
uint64_t ledger_snapshots(const struct ledger *l, const struct table *t);
/* The first head by time: what to name when as_of() is before it. */
int ledger_earliest(const struct ledger *l, const struct generation *g, uint32_t table, uint64_t at,
                    struct answer *ret);

/* History of one table, newest first.  Start with history_of(); the event is lent until the next call. */
struct history {
    const struct ledger *ledger;
    const struct generation *generation;
    uint32_t table;
    uint64_t before;
    uint64_t tail_seq;  /* candidate in the tail; 0: none left */
    uint32_t other;     /* candidate among the others, index + 1 */
    struct event event; /* a commit from the parts, rebuilt */
    char buffer[LOCATION_MAX];
};
void history_of(struct history *h, const struct ledger *l, const struct generation *g, uint32_t table,
                uint64_t before);
const struct event *history_next(struct history *h, int *error); /* NULL: the end, or *error < 0 */

#endif
