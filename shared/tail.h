/*
 * A mapped tail: the events that are newer than a generation's parts, where every process can read them.
 *
 * The daemon appends, anybody reads meanwhile, nobody waits.  Slot i has event from_seq + 1 + i, so COUNT slots are every
 * event up to from_seq + COUNT: whoever has acquired a count knows of each table and snapshot whether it is among them.
 *
 * Of (table, id) only the first commit here that introduced it is found; an older one in the parts goes before that, so
 * parts are asked first.  Of events other than commits and creations a slot is there, so that numbers have no gap, and says
 * nothing: what they did, the root of the generation knows.
 *
 * Bytes of a tail are never trusted: each slot has a checksum, each word that changes a check of its own, links and lengths
 * are compared with the room, chains lead back only.  What is damaged is SKADE_EDAMAGED: ask elsewhere.
 *
 *   T1  A slot, its text and a new table's entry are written before keys, homes or newest lead to them (release).
 *   T2  count is stored (release) after all of its slots are found, and before commit_seq (P3).
 *   T3  A reader loads the generation, then count (acquire), and then searches; what it meets past its count it only walks
 *       through, back, by a link that it has acquired (T1).
 *   T4  A tail is complete up to commit_seq, or full, before its generation is stored (P2), and not written after another
 *       word is.
 */
#ifndef SKADE_TAIL_H
#define SKADE_TAIL_H

#include "errors.h"
#include "event.h"
#include "format_tail.h"

/* ---- reading ------------------------------------------------------------------------------------------- */

/* A view of a tail; the bytes must outlive it.  Read-only, any thread. */
struct tail {
    const uint8_t *base;
    const struct tail_header *words; /* mapped: only count may be read */
    uint64_t epoch, generation, seed, from_seq;
    uint64_t slot_seed;
    struct uuid log;
    uint32_t room;
    uint32_t keys, homes, lines; /* how many there are */
    const _Atomic uint32_t *key, *home;
    const struct tail_table *table;
    const uint8_t *line;
};

/* Check the SIZE bytes at BASE (64-byte aligned).  0; SKADE_EVERSION, SKADE_EDAMAGED. */
int tail_open(struct tail *ret, const void *base, size_t size, struct errmsg *msg);

/* T3: how many events there are; SKADE_EDAMAGED. */
static inline int64_t tail_count(const struct tail *t)
{
    uint64_t word =
        atomic_load_explicit(&t->words->count, memory_order_acquire); /* T3: pairs with tail_show() */
    uint32_t count = (uint32_t)word;
    return count <= t->room && count == ~(uint32_t)(word >> 32) ? (int64_t)count : SKADE_EDAMAGED;
}

/* How many of the first COUNT events are up to AT. */
static inline uint32_t tail_limit(const struct tail *t, uint32_t count, uint64_t at)
{
    if (at <= t->from_seq)
        return 0;
    return at - t->from_seq < count ? (uint32_t)(at - t->from_seq) : count;
}

/* A commit that was found. */
struct tail_hit {
    uint64_t seq;
    int64_t snapshot;
    int64_t time_us;
    uint32_t table;
    uint32_t flags;
    uint32_t kind;
    uint32_t line; /* of its slot */
    uint32_t text_len, text_check;
};

/* Questions about the first COUNT events, a count that was acquired or less.  1 and *RET; 0: there is none here;
 * SKADE_EDAMAGED. */
int tail_find(const struct tail *t, uint32_t count, uint32_t table, int64_t id, struct tail_hit *ret);
/* Creations up to AFTER don't count: the root knows what became of them. */
int tail_find_name(const struct tail *t, uint32_t count, struct bytes name, uint64_t after, uint32_t *ret);
int tail_has_table(const struct tail *t, uint32_t count, uint32_t table);
/* -EAGAIN: a compaction, which only who knows the commits before can tell to be the head or not. */
int tail_head(const struct tail *t, uint32_t count, uint32_t table, struct tail_hit *ret);
/* Of the commits that moved the head: the one with the greatest (time, seq) up to TIME_US; the one with the least. */
int tail_as_of(const struct tail *t, uint32_t count, uint32_t table, int64_t time_us, struct tail_hit *ret);
int tail_earliest(const struct tail *t, uint32_t count, uint32_t table, struct tail_hit *ret);

/* The location of HIT to BUF, no NUL.  Its length; -ERANGE, nothing written, when it is longer than CAP; SKADE_EDAMAGED. */
int tail_location(const struct tail *t, const struct tail_hit *hit, char *buf, size_t cap);

/* For batches: ask memory for what the next step of tail_find() reads.  tail_home() is where it begins. */
uint32_t tail_home(const struct tail *t, uint32_t table, int64_t id);
void tail_prefetch_home(const struct tail *t, uint32_t home);
void tail_prefetch_slot(const struct tail *t, uint32_t home);

/* The slot in LINE, or of number I + 1 when LINE is where the one before ended: *NEXT is where this one does.  0;
 * SKADE_EDAMAGED. */
int tail_slot_at(const struct tail *t, uint32_t line, struct tail_slot *ret, uint32_t *next);

/* Check all slots that are there.  0; SKADE_EDAMAGED. */
int tail_verify(const struct tail *t, struct errmsg *msg);

/* ---- writing ------------------------------------------------------------------------------------------- */

struct tail_info {
    struct uuid log;
    uint64_t seed;
    uint64_t epoch;
    uint64_t generation;
    uint64_t from_seq; /* what the generation's parts cover */
    uint32_t room;     /* events: 1 to TAIL_ROOM_MAX */
    uint32_t lines;    /* for slots and texts: 1 to TAIL_LINES_MAX */
};

/* Bytes of the file. */
uint64_t tail_size(uint32_t room, uint32_t lines);

/* With TAIL_ROOM, so many lines that the file has TAIL_BYTES. */
uint32_t tail_lines_usual(void);

/* The one who writes; its caller's thread's alone. */
struct tail_writer {
    uint8_t *base; /* borrowed */
    struct tail_info info;
    uint64_t slot_seed;
    uint32_t slots;  /* appended so far */
    uint32_t tables; /* entries used */
    uint32_t lines;  /* used */
    bool full;       /* an event didn't fit: none comes behind it */
};

/* Make an empty tail of the zeroed bytes at BASE, tail_size() of them, 64-byte aligned. */
void tail_begin(struct tail_writer *w, const struct tail_info *info, void *base);

/* Append the event that follows the last one; nobody sees it before tail_show().  False: it is full, from here on. */
bool tail_append(struct tail_writer *w, const struct event *e);

/* T2: readers may see what was appended. */
void tail_show(struct tail_writer *w);

/* The last event in it. */
static inline uint64_t tail_seq(const struct tail_writer *w)
{
    return w->info.from_seq + w->slots;
}

#endif
