/*
 * Publication: the daemon's side of shared memory.  The only code of skade that makes, links and unlinks
 * files there.
 *
 *   write a file:   unnamed -> reserve -> map -> fill -> unmap -> map read-only and verify -> chmod -> link
 *   write a tail:   unnamed -> reserve -> map, all ahead on a worker; fill -> verify -> chmod -> link; the map is kept
 *   switch:         link everything, then store the generation word (P1, P2)
 *   take over:      new control page renamed over the old one, every older page RETIRED, old files unlinked
 *
 * Nothing that has a name is ever written (but the control page's words and the current tail), truncated or reused.  A crash at
 * any step leaves at most a file that nobody names; the next start sweeps it.
 *
 * "Ours" is a regular file that the daemon's own uid owns; for a daemon that runs as root, also one that the
 * run directory's owner does.  What is not ours is never opened for writing, replaced or unlinked: it is
 * SKADE_EFOREIGN, with path, owner, mode and cure in the message.
 *
 * All calls belong to the loop, but publisher_write() and those for spares, which may run on a worker.
 */
#ifndef SKADE_PUBLISHER_H
#define SKADE_PUBLISHER_H

#include "control.h"
#include "errors.h"
#include "format.h"
#include "names.h"
#include "segmap.h"

#include <sys/types.h>

struct publisher;

struct publisher_options {
    struct shm_place place; /* uid: the run directory's owner */
    mode_t mode; /* of roots and parts: 0400, 0440 or 0444; the control page is writable by its owner too */
    gid_t group; /* chown to it when mode is 0440; (gid_t)-1: leave */
    struct uuid log;
    uint64_t seed;
};

/*
 * Take the instance's lock in the shared-memory directory and choose an epoch.  Touches nothing of a running
 * daemon's.  0 and gives *RET; SKADE_ERUNNING with the holder's pid in MSG when it can be seen;
 * SKADE_EFOREIGN when the lock or the directory belongs to somebody else (path, owner, mode, cure in MSG).
 * Fail point: lock.opened.
 */
int publisher_open(struct publisher **ret, const struct publisher_options *options, struct errmsg *msg);

uint64_t publisher_epoch(const struct publisher *p);
const struct shm_place *publisher_place(const struct publisher *p);

/* How to fill a new file: write all SIZE bytes at BUF; 0 or negative. */
typedef int (*publisher_fill_fn)(void *arg, void *buf, size_t size);

/*
 * Make and link the root or part of GENERATION and map it read-only into *RET.  May be called on a worker
 * thread while the loop uses P, one call at a time for each generation and kind.  What was filled in is
 * opened as a client would, checksums and all, before it gets its name.
 *
 * -ENOSPC: no room (MSG says needed, free, and the cures).  SKADE_EDAMAGED: what was filled in isn't a root
 * or part of this log and generation.  -EAGAIN: it is of an epoch that is over, since the loop called
 * publisher_new_epoch().  Nothing is left behind by a failure.
 *
 * Fail points: publish.reserve (a take-over comes by, too), publish.fill, publish.verify, publish.link,
 * publish.linked.
 */
int publisher_write(struct publisher *p, enum shm_kind kind, uint64_t generation, size_t size,
                    publisher_fill_fn fill, void *arg, struct segmap *ret, struct errmsg *msg);

/*
 * What a tail costs is its memory: to reserve it, to ask for large pages, to touch them.  A spare is a file of SIZE zeroed
 * bytes for which all of that was done.  It has no name yet, and no daemon's end leaves it behind.  Both calls may be made
 * on a worker; NULL is fine to free.  Errors and fail point of publisher_spare_make(): those of reserving.
 */
struct publisher_spare;
int publisher_spare_make(struct publisher_spare **ret, struct publisher *p, size_t size, struct errmsg *msg);
void publisher_spare_free(struct publisher *p, struct publisher_spare *spare);

/*
 * Make and link the tail of GENERATION (shared/tail.h), filled by FILL, of SPARE, which is gone then; NULL: of one that is
 * made now.  Unlike a root or part it may be written from then on: *RET is its writable map of SIZE bytes, which the caller
 * unmaps, and by which it was verified before it got its name.  Else as publisher_write().
 */
int publisher_write_tail(struct publisher *p, struct publisher_spare *spare, uint64_t generation, size_t size,
                         publisher_fill_fn fill, void *arg, void **ret, struct errmsg *msg);

/*
 * The newest event that the last daemon told of, by the control page under the well-known name.  1 and *RET; 0 when
 * there is none, or it isn't one of this log.  To be asked before the take-over.
 */
int publisher_last_told(const struct publisher *p, uint64_t *ret);

struct publisher_takeover {
    unsigned retired; /* older control pages that were retired by this call */
    bool saw_epoch;   /* the page of last_epoch was there, and is retired now */
    unsigned swept;   /* files removed */
};

/*
 * Make the control page with the generation word GENERATION and commit_seq, link it under its alias, rename
 * it over the well-known name, retire all older pages of this instance, sweep the older epochs' files.  Once
 * for each epoch.  GENERATION may be CONTROL_NONE: then clients ask the socket, and the older files make room
 * for new ones.  When it fails before the rename all is as it was; later, the new page is in place but an
 * older one may live on, so no commit may be accepted.
 *
 * Fail points, in this order: takeover.alias (the alias is linked), takeover.temp (the second link too),
 * takeover.rename (the new page is in place), takeover.retire (each time a page was retired, before it is
 * unlinked), takeover.sweep (all are retired).
 */
int publisher_take_over(struct publisher *p, uint64_t generation, uint64_t commit_seq, uint64_t last_epoch,
                        struct publisher_takeover *ret, struct errmsg *msg);

/*
 * Without a page of our own, since there is no room for one: retire all older pages of this instance and sweep the older
 * epochs' files.  Also what finishes a take-over that failed behind its rename.
 */
int publisher_retire_older(struct publisher *p, uint64_t last_epoch, struct publisher_takeover *ret,
                           struct errmsg *msg);

/* The epoch of the linked control page; 0 while there is none. */
uint64_t publisher_page_epoch(const struct publisher *p);

/* The mapped control page: its words and counters are the daemon's to write.  Valid from publisher_open()
 * on (a private page until the take-over) and at the same address all the time; counters and state move
 * into the new page with each take-over. */
struct control_page *publisher_page(struct publisher *p);
/* Device and inode of the linked control page; 0, 0 before the take-over. */
void publisher_page_id(const struct publisher *p, uint64_t *dev, uint64_t *ino);

/* P2: store the generation word.  P3: store commit_seq.  In the page that clients see: after
 * publisher_new_epoch() that is the old one until the next take-over. */
void publisher_switch(struct publisher *p, uint64_t generation);
void publisher_commit_seq(struct publisher *p, uint64_t seq);

/* Unlink a root, part or tail of this epoch.  A name that is gone already is fine. */
void publisher_unlink(struct publisher *p, enum shm_kind kind, uint64_t generation);

/*
 * Self-healing, once a second: are our names still ours?  1 when all is well; 0 when a name was gone or
 * replaced: then the caller publishes everything anew under publisher_new_epoch().  ROOT and PARTS are the
 * generations that must be linked, and so is ROOT's tail if there was one.  A lost lock is taken anew here, in a directory that was replaced as well;
 * SKADE_ERUNNING when another daemon has it by now: then stop.
 */
int publisher_check(struct publisher *p, uint64_t root, const uint64_t *parts, size_t parts_count);

/* A new epoch for this daemon: after it write all files again and take over again.  Until then clients go
 * on with the old page, which is retired by the take-over. */
void publisher_new_epoch(struct publisher *p);

/* Who may read has changed: files that are written from now on get this mode and group.  False: they have them already.
 * Else the caller publishes everything anew under publisher_new_epoch(), since what has a name is left as it is. */
bool publisher_set_mode(struct publisher *p, mode_t mode, gid_t group);

/* Free bytes of the shared-memory file system; UINT64_MAX when it has no limit. */
uint64_t publisher_room(const struct publisher *p);

/* Bytes of this epoch's linked files, as publisher_write() and _unlink() counted them. */
uint64_t publisher_linked_bytes(const struct publisher *p);

/* Leave: state STOPPED when CLEAN; names stay, so that maps can be attached while no daemon runs; the lock
 * goes.  NULL is fine. */
void publisher_close(struct publisher *p, bool clean);

#endif
