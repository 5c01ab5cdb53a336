/*
 * The mapped tail of the generation that is published, as the loop keeps it: shared/tail.h.
 *
 * It belongs to the generation word: made before the word is stored, followed by every event while it stands, ended when
 * another one is stored.  Without one (no room in shared memory) all goes on, and clients ask over the socket; counters
 * say so.
 *
 * Its file is made ahead, by a worker, so that a publication doesn't hold the loop for the memory.
 */
#ifndef SKADE_KEPTTAIL_H
#define SKADE_KEPTTAIL_H

#include "server.h"
#include "tail.h"

struct kept_tail {
    void *base; /* NULL: there is none */
    uint64_t generation;
    uint64_t seen; /* the ledger's newest event when it was looked at last */
    struct tail_writer writer;
};

/* The file of the next tail. */
struct tail_spare {
    uv_work_t work;
    struct server *server;
    bool busy;   /* a worker has it */
    bool wanted; /* the worker makes one */
    bool keep;   /* it is wanted still */
    void *old;   /* lent to the worker: the map of a tail that ended, to be unmapped */
    struct publisher_spare *ready, *made;
};

/* Let a worker make one, if there is room and none is ready. */
void tail_spare_want(struct tail_spare *spare, struct server *s);

/* Give its memory back. */
void tail_spare_drop(struct tail_spare *spare);

/* T4: make the tail of G, with everything in it that the ledger has and G's parts don't.  0; negative is counted, and leaves
 * *RET without one.  Uses SPARE, if it is ready.  Fail points: tail.room, and those of publisher_write(). */
int kept_tail_make(struct kept_tail *ret, struct tail_spare *spare, struct server *s,
                   const struct generation *g, struct errmsg *msg);

/* Append what the ledger has by now, and show it: after the COMMIT, before commit_seq (P3). */
void kept_tail_follow(struct kept_tail *t, struct server *s);

/* Set the counters that say how full it is. */
void kept_tail_gauges(const struct kept_tail *t, struct server *s);

/* Another word was stored, or none is: nothing is written to it any more.  Its name stays.  SPARE's worker lets go of the
 * memory, if it is idle. */
void kept_tail_end(struct kept_tail *t, struct tail_spare *spare, struct server *s);

/* The end of the daemon: let go of the memory. */
void kept_tail_free(struct kept_tail *t);

/* It never was published: its name goes, too. */
void kept_tail_drop(struct kept_tail *t, struct server *s);

#endif
