/*
 * Leases: who reads which snapshot's files, so that they aren't removed under him.
 *
 * A lease is (table, moment), held by a connection and gone with it.  It protects every file that a retirement
 * younger than the moment took out of use.  Belongs to the loop.
 */
#ifndef SKADE_LEASES_H
#define SKADE_LEASES_H

#include "session.h"

struct lease {
    struct lease *table_prev, *table_next;
    uint64_t number;
    uint64_t at; /* as of this event */
    uint32_t table;
    /* the snapshot: a base and the commits in (after, seq] */
    uint64_t seq; /* 0: the table had no commit */
    int64_t snapshot;
    int64_t time_us;
    uint64_t base_seq; /* the compaction; 0: none */
    uint64_t after;
};

/* A lease for S on the snapshot that BY and VALUE name (messages.def, LEASE).  0 and *RET, lent; SKADE_ENOTABLE,
 * SKADE_EKIND, SKADE_ENOSNAPSHOT, SKADE_EEXPIRED, -ENOMEM. */
int lease_take(struct session *s, uint32_t table, uint64_t at, unsigned by, int64_t value, struct lease **ret,
               struct errmsg *msg);
struct lease *lease_find(const struct session *s, uint64_t number);
void lease_end(struct session *s, struct lease *lease);
void lease_end_all(struct session *s);

/* The daemon itself holds a snapshot: LEASE, with table and at set, is the caller's and stays where it is. */
void lease_pin(struct server *s, struct lease *lease);
void lease_unpin(struct server *s, struct lease *lease);

/* How many leases on TABLE are on a moment before event SEQ. */
/* The oldest moment that is leased of TABLE; SEQ_MAX: none. */
uint64_t leases_oldest(const struct server *s, uint32_t table);
size_t leases_before(const struct server *s, uint32_t table, uint64_t seq);

/*
 * The files of (AFTER, SEQ] and the base BASE_SEQ of TABLE, newest first: FN is called for each with an event that is
 * lent (the base is an EVENT_COMPACT), beginning below BEFORE (SEQ_MAX: all); a result of 0 goes on, anything else ends
 * and is returned.  0 at the end.
 */
int files_of(const struct server *s, uint32_t table, uint64_t after, uint64_t seq, uint64_t base_seq,
             uint64_t before, int (*fn)(void *arg, const struct event *e), void *arg);

/* Has TABLE no snapshot ID, nor ever had?  Of a table that was dropped meanwhile nothing is taken: who commits to it is
 * refused then. */
bool snapshot_is_free(const struct server *s, uint32_t table, int64_t id);

#endif
