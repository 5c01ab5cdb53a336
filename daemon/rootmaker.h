/*
 * From the ledger to a root: the rows of tables and names, and where heads are in the parts.
 *
 *   capture   on the loop, in slices: rows of tables and names as of one event.  What the ledger knows of later events
 *             is left out, and events that are durable but not applied yet are put on top; so it may go on meanwhile
 *   make      on a worker: find the heads, sort the names, write, verify, link
 *
 *     rootjob_new() -> rootjob_capture() until it is done -> rootjob_make() -> rootjob_free()
 */
#ifndef SKADE_ROOTMAKER_H
#define SKADE_ROOTMAKER_H

#include "ledger.h"
#include "publisher.h"

#include <uv.h>

/* Belongs to the loop, and while rootjob_make() runs to its thread. */
struct rootjob {
    uv_thread_t thread; /* the owner's, as are the next */
    uv_async_t wake;
    uv_idle_t idle;
    void *owner;
    const struct ledger *ledger;
    struct publisher *publisher;
    struct generation *made; /* parts, coverage and number are set; the root comes */
    struct generation
        *known; /* one that has a root: heads that didn't move are taken from there; may be NULL */
    const struct event
        *pending; /* lent: the events behind the ledger's newest, which the root knows already */
    size_t pending_count;
    size_t tables_count, names_count; /* rows that there will be, without those of pending events */
    size_t tables_done, names_done;
    struct root_table *tables; /* head_seq is the newest head's until it is looked up */
    struct root_name_row *names;
    struct rootjob_base {
        uint64_t seq, watermark;
    } * bases; /* of each table the newest compaction that is covered; seq 0: none */
    int error;
    struct errmsg msg;
};

/* A root for MADE (its reference is taken over) as of the newest event of L and the COUNT events behind it.  KNOWN may be
 * NULL.  NULL: no memory. */
struct rootjob *rootjob_new(const struct ledger *l, struct publisher *publisher, struct generation *made,
                            struct generation *known, const struct event *pending, size_t count);

/* Take at most MAX rows more.  How many it took; less than MAX: that was all. */
size_t rootjob_capture(struct rootjob *j, size_t max);

/* Make, link and map it into j->made.  Any thread; the ledger isn't looked at.  Result in j->error, j->msg. */
void rootjob_make(struct rootjob *j);

/* Its references of generations are given back on the loop. */
void rootjob_free(struct rootjob *j);

#endif
