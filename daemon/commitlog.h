/*
 * The durable commit log: every event of skade in sequence order, behind one interface.
 *
 * Nothing else of skade is the truth: parts, roots, tails and index files are made from the log and can
 * be made again.  The log is kept by SQLite, and nothing of SQLite shows here, so that another keeper can
 * take its place.
 *
 *   promise                        how
 *   an appended event stays        0 is returned only after COMMIT and, with sync_full, after its fsync
 *   all of a group or none         one transaction
 *   sequence numbers are gapless   given by the caller, asserted when written, checked when read
 *   nothing is read that was not   each row's checksum is chained to the row before, and the newest is kept
 *   written                        twice: edited, vanished, swapped and added rows are noticed
 *   no second writer               the directory is locked, and the database inside it is locked too
 *   no guess after an I/O error    the log refuses to write until it is opened again from what is on disk
 *   never a middle lost            without sync_full a power cut may take a suffix, and leaves no hole
 *   no end that is none            with sync_full, a write-ahead log that is damaged where later commits follow
 *                                  is refused, which SQLite would take for its end (commitlog_wal.c)
 *
 * Going back.  A restore makes the log an older one, and what was told of the events after that isn't true
 * any more.  So it gets another name: `log`, under which everything about it is published, is new after each
 * restore, while `origin`, from which the chain and the files of stored tables come, stays.
 *
 * What cannot be noticed here: a whole log that was replaced by an older copy of itself by hand, and a
 * write-ahead log that is shorter than it was, or damaged in its last commit, which looks like one that was never
 * finished.  The daemon notices it by the last one's control page, if that is still there, and refuses to start
 * (publisher_last_told()); whoever keeps a (seq, chain) elsewhere with commitlog_seek(); and a client that was told
 * of a later event.
 *
 * Threads: all functions that take a struct commitlog belong to one thread, the log thread.
 * commitlog_open() may run on another one that hands the result over.  commitlog_check_file() and
 * commitlog_restore() may run on any thread.  Nothing may fork between commitlog_open() and
 * commitlog_close().
 *
 * Nothing else in the process may open the database file, not even to read it: closing any descriptor of
 * a file drops the process's locks on it.  The file is copied with commitlog_backup_begin().
 */
#ifndef SKADE_COMMITLOG_H
#define SKADE_COMMITLOG_H

#include "errors.h"
#include "event.h"

struct commitlog;

struct commitlog_options {
    const char *dir; /* made with mode 0700 when missing; its parent must exist */
    bool sync_full;  /* fsync at each append; if not ("normal") a power cut may take the newest rows */
    bool skip_check; /* don't look the structure over at open: 0.2 s for a million events */
};

/* What the log says about itself. */
struct commitlog_meta {
    struct uuid log;    /* what it is published as: the origin until a restore, then another each time */
    struct uuid origin; /* of this log, for ever: the chain begins with it, files of stored tables carry it */
    uint64_t seed;      /* random; mixes the keys and names of everything that is made from the log */
    int64_t created_us; /* microseconds since 1970 UTC */
    uint64_t last_seq;  /* the newest event; 0: none yet */
    uint64_t last_chain; /* its chain value */
    uint64_t last_epoch; /* see commitlog_set_epoch(); 0: never set */
    bool clean_stop;
    uint64_t bytes; /* of the database file, as of open or the last checkpoint */
};

/* ---- opening --------------------------------------------------------------------------------------- */

/*
 * Open the log in OPT->dir, or make one when there is none.  Making is atomic: a crash leaves a log or
 * none.  The log in use is written to by the first append or set_epoch, not by this.
 *
 * Reading is safe on whatever is there, since the chain tells.  Writing is not: a flipped bit in a page's
 * header can make an append overwrite good rows.  So the structure is looked over first, unless the
 * caller knows better.
 *
 * 0 and gives *RET, or, with a message that names path and cure, and the files left as they were:
 *   SKADE_ERUNNING  another process has it
 *   SKADE_EFOREIGN  not skade's, or not this user's alone: owner, mode, link, kind of file, application id
 *   SKADE_EVERSION  made by a newer skade
 *   SKADE_EDAMAGED  not whole; also when the write-ahead log, and with it the newest events, is missing or damaged
 *   SKADE_EFULL     no room to make a new log; an existing one needs one inode, and no bytes
 *   SKADE_EINPUT    the directory can't hold a log: missing parent, network file system
 *   -ENOMEM, -errno
 */
int commitlog_open(struct commitlog **ret, const struct commitlog_options *opt, struct errmsg *msg);

/*
 * For who opened with skip_check, before the first write: the structure is looked over as commitlog_open() does, or
 * only the few pages that appending changes, which takes no longer for a long log.  After that the chain is to be
 * verified soon, in slices: a page elsewhere may be broken.  0, SKADE_EDAMAGED, -errno; and commitlog_checkpoint()'s.
 */
int commitlog_check_structure(struct commitlog *log, struct errmsg *msg);
int commitlog_check_end(struct commitlog *log, struct errmsg *msg);

/* Write what is pending into the database file and close.  What can't be written is kept for the next
 * open, which recovers it.  LOG may be NULL.  Backups are ended before. */
void commitlog_close(struct commitlog *log);

/* Lends; always up to date with the last successful call. */
const struct commitlog_meta *commitlog_meta(const struct commitlog *log);

/* Did a write fail in a way that leaves its outcome unknown?  Then every further write is refused with
 * SKADE_EUNKNOWN; reading goes on.  The caller stops the process: only what a new one finds on disk is
 * certain. */
bool commitlog_failed(const struct commitlog *log);

/* ---- writing --------------------------------------------------------------------------------------- */

/*
 * Append N events, whose seq continue last_seq without a gap, as one transaction.
 *
 *   0               all are durable
 *   SKADE_EFULL     disk, quota or file size limit refused the bytes: none is in the log, now or after a
 *                   crash; works again when there is room
 *   -ENOMEM         none is in the log
 *   SKADE_EUNKNOWN  all or none are in the log; see commitlog_failed()
 */
int commitlog_append(struct commitlog *log, const struct event *events, size_t n, struct errmsg *msg);

/* Record the daemon's epoch and whether it stopped cleanly; durable with 0 in every mode.  Errors as
 * append's, but in mode "normal" SKADE_EFULL may mean that it is recorded and not yet durable: call
 * again. */
int commitlog_set_epoch(struct commitlog *log, uint64_t epoch, bool clean, struct errmsg *msg);

/*
 * Move what the write-ahead log holds into the database file; TRUNCATE also frees its room.  Takes time
 * in proportion to commitlog_wal_bytes(), so it is for the pauses between groups.  *WAL_BYTES, if not
 * NULL, becomes what is left.  A failure loses nothing.
 *
 *   0, or SKADE_EFULL, -ENOMEM: try later
 *   SKADE_EUNKNOWN  an fsync or a write failed; as no later one can be believed the log is failed now
 */
int commitlog_checkpoint(struct commitlog *log, bool truncate, uint64_t *wal_bytes, struct errmsg *msg);

/* Bytes in the write-ahead log that a checkpoint would move. */
uint64_t commitlog_wal_bytes(const struct commitlog *log);

/* Free bytes of the log's file system; UINT64_MAX when nobody can tell. */
uint64_t commitlog_room(const struct commitlog *log);

/* ---- reading --------------------------------------------------------------------------------------- */

/* A place between two events: after SEQ, whose chain value is CHAIN. */
struct commitlog_cursor {
    uint64_t seq;
    uint64_t chain;
};

/* The place before the first event. */
struct commitlog_cursor commitlog_start(const struct commitlog_meta *meta);

/*
 * The place after event SEQ, by the chain value that the log has there.  Compare it with a kept one to
 * know whether the log still is what it was.
 * 0, or -ERANGE (SEQ is beyond last_seq), SKADE_EDAMAGED, -errno.
 */
int commitlog_seek(struct commitlog *log, uint64_t seq, struct commitlog_cursor *ret, struct errmsg *msg);

/*
 * Takes one event and its chain value.  The event and its texts are lent for the call; the callback must
 * not call the log.  0 goes on; positive stops after this event; negative stops with that error.
 */
typedef int (*commitlog_row_fn)(void *arg, const struct event *event, uint64_t chain);

/*
 * Give FN (NULL: only verify) the events after *CURSOR in sequence order, and move *CURSOR behind those
 * that it took: at most MAX_ROWS, and no more once MAX_BYTES of texts are given (at least one event;
 * SIZE_MAX: no limit).  Whole rows are verified before FN sees them.  So a start streams the log with few
 * calls, and the log thread reads old history in bounded slices between groups.
 *
 *   1               there are more
 *   0               the cursor is at last_seq and the chain agrees
 *   SKADE_EDAMAGED  a gap, a wrong chain, an impossible value; MSG names the file and the sequence number,
 *                   and *CURSOR is behind the last good event
 *   -ERANGE         the cursor is beyond the log
 *   -errno, FN's
 */
int commitlog_read(struct commitlog *log, struct commitlog_cursor *cursor, size_t max_rows, size_t max_bytes,
                   commitlog_row_fn fn, void *arg, struct errmsg *msg);

/*
 * The chain value of EVENT when that of the event before is PREVIOUS; commitlog_chain_start() comes before
 * the first.  commitlog_chain.c says over which bytes, so that anyone can compute it from the columns.
 */
uint64_t commitlog_chain(uint64_t previous, const struct event *event);
uint64_t commitlog_chain_start(const struct uuid *origin, uint64_t seed);

/* What makes EVENT impossible as a row of the log (a static text), or NULL. */
const char *commitlog_event_flaw(const struct event *event);

/* ---- backup, check, restore ------------------------------------------------------------------------ */

/*
 * A consistent copy of the log, made in bounded steps between groups.  Events that are appended meanwhile
 * are in it when they come before the last step of copying; nothing starts over.  The copy is a file in
 * the log's directory that vanishes with the backup or at the next open; whoever wants it elsewhere reads
 * it from commitlog_backup_fd().
 */
struct commitlog_backup;

/* 0 and gives *RET, which ends before LOG does; SKADE_EBUSY (one is under way); SKADE_EFULL; -errno. */
int commitlog_backup_begin(struct commitlog_backup **ret, struct commitlog *log, struct errmsg *msg);

/*
 * Copy at most PAGES pages of 4 KiB or, when all are copied, verify as much.
 *
 *   1         call again
 *   0         the copy is whole, on disk, and its chain was verified from the first to the last event
 *   negative  it came to nothing and the log is as before; end it
 */
int commitlog_backup_step(struct commitlog_backup *backup, int pages, struct errmsg *msg);

/* After step returned 0: lends a descriptor of the copy, for pread(), and what the copy says of itself. */
int commitlog_backup_fd(const struct commitlog_backup *backup);
const struct commitlog_meta *commitlog_backup_meta(const struct commitlog_backup *backup);

/* Remove the copy, finished or not.  May be NULL. */
void commitlog_backup_end(struct commitlog_backup *backup);

/*
 * Verify the database file FILE, a backup or the log of a daemon that is not running, from end to end:
 * structure and chain.  Changes nothing.  Takes about a second for a million events.  A write-ahead log is judged as
 * with sync_full: without, what a power cut left may be refused here and yet be opened.
 * 0 and fills *RET (may be NULL); errors as commitlog_open()'s.
 */
int commitlog_check_file(const char *file, struct commitlog_meta *ret, struct errmsg *msg);

/*
 * Make the log of directory DIR from the file FROM, verified like above.  A log whose write-ahead log was
 * lost may be restored from its own database file, moved elsewhere: what that holds is kept.  The log gets
 * another name (see the top), by which those who knew the one before notice.  Atomic: a crash leaves a log
 * or none.  SKADE_EEXISTS: DIR has a log; move it away first.  Other errors as commitlog_open()'s.  RET may
 * be NULL.
 */
int commitlog_restore(const char *dir, const char *from, struct commitlog_meta *ret, struct errmsg *msg);

/*
 * The same to FILE, a copy of a backup that isn't a log's name yet: verify it and write another name into it,
 * durably.  FILE is the caller's alone.  After a failure it is good for nothing.
 */
int commitlog_renew_file(const char *file, struct commitlog_meta *ret, struct errmsg *msg);

#endif
