/*
 * libskadeclient: where is the metadata of table T as of snapshot S, of time t, or now?
 *
 *     skade *s;
 *     skade_open(&s, NULL);
 *     skade_table t;
 *     skade_find_table(s, "shop.orders", &t);
 *     char where[SKADE_LOCATION_MAX + 1];
 *     struct skade_answer a = SKADE_ANSWER(where, sizeof where);
 *     if (skade_resolve(s, t, 3952538589859224730, &a) == 1)
 *         puts(where);
 *     skade_close(s);
 *
 * Answers come from the daemon's shared memory, without a system call and without a write that others see;
 * what memory can't prove, and everything that changes something, goes over the daemon's Unix socket.
 * Without shared memory everything does; without the daemon what memory can prove is still answered.
 *
 * Threads.  One handle for each thread that asks: a handle must not be used by two threads at a time.
 * Handles are cheap (a socket, and mappings of pages that all processes share).  After fork() the child may
 * go on using the handle: it keeps the maps and opens a connection of its own.  The library starts no
 * thread, installs no signal handler, and never unlinks or truncates a file.  It isn't disturbed by
 * signals, nor by programs that close or reuse its descriptor.  Thread cancellation waits until a call
 * returns (skade_watch() lets it in while it waits); after that another thread may use the handle.
 *
 * Callbacks run inside the call.  They may not use the handle that they are called by (-EBUSY), but any
 * other, and must return: no longjmp(), no C++ exception.
 *
 * Results.  0 or more is success, negative is an error of skade_errors.h or a negative errno.  Questions
 * return 1 when found and 0 when there is no such thing; the answer's status tells which.  errno is left
 * alone.  Beside what each function lists, whatever needs the daemon may fail with SKADE_EUNREACHABLE,
 * SKADE_ETIMEOUT, SKADE_EDENIED, SKADE_EREPLACED, SKADE_EBUSY, SKADE_EPROTOCOL, -ENOMEM.
 *
 * When the commit log was replaced by another one, by a restored backup or by an older copy of itself, the
 * next call that notices fails with SKADE_EREPLACED, once, and a watch ends with it; then the handle follows
 * the new log.  Table numbers of the old log mean nothing in it: look names up again.  What was committed
 * after the backup is gone, and its sequence numbers are given anew.
 *
 * Structs that cross this line begin with their size, so that they can grow: the caller sets sizeof,
 * callbacks are told it.  What a caller of an earlier version doesn't know is taken as zero, what we don't
 * know is left alone.
 *
 * Environment: SKADE_INSTANCE, SKADE_RUN_DIR, SKADE_SHM=no, and SKADE_SHM_DIR, the directory to look for
 * maps in when neither a daemon nor the note that it leaves beside its socket says where they are.  Ignored
 * in setuid programs.
 *
 * Time.  A call waits for the daemon no longer than the handle's timeout, all in all: connecting, asking,
 * asking again.  skade_open() is one such call, skade_deadline() makes one of several.  Not counted are
 * callbacks and the checking of large maps.
 *
 * Units.  Ids: signed 64-bit, any value.  Times: microseconds since 1970 UTC, signed.  Sequence numbers:
 * dense from 1 for all events of a log.  Table names: UTF-8 `level.level.table`, up to 1024 bytes.  Strings
 * that go in are terminated by NUL; strings lent by callbacks are terminated too, and valid during the
 * callback.
 */
#ifndef SKADE_H
#define SKADE_H

#include <stddef.h>
#include <stdint.h>

#include "skade_errors.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SKADE_API __attribute__((visibility("default")))
#else
#define SKADE_API
#endif

#define SKADE_LOCATION_MAX 4096 /* bytes of a location, the terminating NUL not counted */
#define SKADE_NAME_MAX 1024     /* bytes of a table name, the same */

typedef struct skade skade;           /* one thread's connection to one instance */
typedef struct skade_view skade_view; /* a frozen moment of it */

/* A table: looked up by name once, survives renames, ends with the drop.  Never used for another table.
 * 0: none. */
typedef uint32_t skade_table;

/* ---- handles ------------------------------------------------------------------------------------------- */

enum {
    SKADE_NO_SHM = 1,      /* ask the daemon for everything, as SKADE_SHM=no in the environment does */
    SKADE_ALLOW_STALE = 2, /* with no daemon, answer from a map that may be out of date, marked SKADE_STALE */
    SKADE_VERIFY_MAPS = 4  /* checksum every map whole when it is attached (default: those up to 64 MiB) */
};

struct skade_options {
    size_t size;          /* sizeof(struct skade_options): set by the caller, so that it can grow */
    const char *instance; /* NULL: $SKADE_INSTANCE, else "default" */
    const char *run_dir; /* NULL: $SKADE_RUN_DIR, else the user's if the instance is there, else /run/skade */
    const char *label;   /* what `skadectl clients` shows, up to 63 bytes of it; NULL: the program's name */
    int timeout_ms;      /* how long a call waits for the daemon, all in all; 0: 5000 */
    unsigned flags;      /* SKADE_NO_SHM ... */
};

/*
 * Open the instance that OPTIONS (NULL: all defaults) names.  Succeeds when the daemon answers, or when it
 * doesn't but its shared memory can be attached.
 *
 * The run directory's owner and root are trusted, nobody else: it must be a directory (not a link to one)
 * into which others can't write, the daemon at its socket and the owners of shared-memory files must be one
 * of the two.
 *
 * 0 and gives *RET, to be closed with skade_close(); or SKADE_EUNREACHABLE, SKADE_ETIMEOUT, SKADE_EDENIED,
 * SKADE_EFOREIGN (somebody else's directory or daemon), SKADE_EVERSION, SKADE_EINPUT, SKADE_EBUSY, -ENOMEM,
 * and leaves *RET alone; skade_errmsg(NULL) tells the story.
 */
SKADE_API int skade_open(skade **ret, const struct skade_options *options);

/* Close S (NULL: nothing).  Views of S must be closed before. */
SKADE_API void skade_close(skade *s);

/* What the last failure on S was (and why something wasn't found), naming the thing and the cure; with
 * NULL, of this thread's last skade_open() that failed.  Lent until the next call on S. */
SKADE_API const char *skade_errmsg(const skade *s);

/* Text and name ("ECONFLICT") of an error code.  Any thread; lent for ever. */
SKADE_API const char *skade_strerror(int code);
SKADE_API const char *skade_errname(int code);

/* The library's version, "0.1.0". */
SKADE_API const char *skade_version(void);

/* Let go of all maps and buffers, and of what gets have learned: for a program that will not ask for a long time, whose
 * maps would keep replaced generations in memory, and whose leases files that were retired.  The next question attaches
 * again.  Views keep theirs. */
SKADE_API void skade_quiesce(skade *s);

/* The calls on S from now on wait for the daemon TIMEOUT_MS together: several calls that answer one question
 * get one timeout.  When it is over they still answer what memory can tell, and fail with SKADE_ETIMEOUT
 * where the daemon is needed, without trying.  It ends no answer of many messages that has begun.  0: don't
 * wait at all.  < 0: each call has its own timeout again, as after skade_open(). */
SKADE_API void skade_deadline(skade *s, int timeout_ms);

/* ---- questions ----------------------------------------------------------------------------------------- */

enum {
    SKADE_HAS_SNAPSHOT = 1, /* snapshot means something; a table's first commit may have none */
    SKADE_FROM_MAP = 2,     /* answered from shared memory */
    SKADE_STALE = 4         /* with SKADE_ALLOW_STALE: true some time ago, perhaps no more */
};

/*
 * A question's answer, and the question itself for skade_resolve_many().
 *
 * The caller sets size, location, location_cap (SKADE_ANSWER does).  The location is written with a
 * terminating NUL; when location_cap is too small the call fails with -ERANGE and location_len says what is
 * needed (plus the NUL).
 */
struct skade_answer {
    uint32_t size;         /* in: sizeof(struct skade_answer) */
    uint32_t location_cap; /* in: bytes at location */
    char *location;        /* in: the caller's buffer */
    skade_table table;     /* resolve_many: in */
    int32_t status;        /* 1 found; SKADE_ENOTABLE, SKADE_ENOSNAPSHOT, SKADE_EEXPIRED or another error */
    int64_t snapshot;      /* resolve_many: in */
    uint64_t seq;          /* of the commit */
    int64_t time_us;       /* of the commit */
    uint64_t retired_by;   /* SKADE_EEXPIRED: the newest event that retired commits of the table */
    uint32_t location_len; /* without the NUL */
    uint32_t flags;        /* SKADE_HAS_SNAPSHOT ... */
};

/* Initialises a struct skade_answer; also in C++ and C99. */
#define SKADE_ANSWER(buffer, capacity)                                                      \
    {                                                                                       \
        sizeof(struct skade_answer), (uint32_t)(capacity), (buffer), 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/* The table that bears NAME.  1 and *RET, 0 no such table, negative SKADE_EINPUT (not a name),
 * SKADE_EUNREACHABLE ... */
SKADE_API int skade_find_table(skade *s, const char *name, skade_table *ret);

/*
 * Where is snapshot ID of TABLE: the metadata location of the commit that introduced it.  First location
 * wins and never changes.  1 found, 0 not found (A->status: SKADE_ENOTABLE, SKADE_ENOSNAPSHOT), or
 * negative: SKADE_EEXPIRED (A->retired_by, seq, time_us tell more), -ERANGE, and what else may happen on
 * the way to the daemon.
 *
 * What is found in shared memory needs no daemon.  That something isn't there needs one, or a heartbeat
 * seen to move within the last two seconds: a daemon that died must not be believed when its successor
 * knows more.
 */
SKADE_API int skade_resolve(skade *s, skade_table table, int64_t id, struct skade_answer *a);

/*
 * The same for N pairs at once, of any tables, in one pass over memory; what memory can't prove goes to the
 * daemon in one request (in several when there are more than 4096).  A[i].table and A[i].snapshot ask; each
 * gets its own status, in input order, all as of one moment.  All A[i].size must be equal.
 *
 * The number found, which is 0 or more also when some were not found, expired or didn't fit; negative when
 * the call failed: then every status that isn't an answer says so, too, and those that are answers hold.
 */
SKADE_API int64_t skade_resolve_many(skade *s, struct skade_answer *a, size_t n);

/* The newest commit of TABLE that moved its head.  1, 0 (SKADE_ENOTABLE; SKADE_ENOSNAPSHOT: no commit
 * yet), negative. */
SKADE_API int skade_head(skade *s, skade_table table, struct skade_answer *a);

/* Among the commits that moved the head and have time <= TIME_US the one with the greatest time (of equal
 * times the higher sequence).  1; 0 with SKADE_ENOSNAPSHOT when TIME_US is before the first
 * (skade_errmsg() names the earliest); negative, SKADE_EEXPIRED when that commit was retired. */
SKADE_API int skade_as_of(skade *s, skade_table table, int64_t time_us, struct skade_answer *a);

/* ---- views: every question through one is answered as of the same moment ------------------------------- */

/* Freeze now.  Gives *RET, to be closed before S.  The view keeps its maps: what they cover needs no
 * daemon any more. With no daemon, "now" is the last moment that shared memory knows.  0 or negative. */
SKADE_API int skade_view_open(skade *s, skade_view **ret);
SKADE_API void skade_view_close(skade_view *v);

/* The moment: the sequence number up to which the view sees.  And the log's uuid, 16 bytes into RET: another one
 * after a restore. */
SKADE_API uint64_t skade_view_seq(const skade_view *v);
SKADE_API void skade_view_log(const skade_view *v, unsigned char *ret);

/* As their namesakes; when the log was replaced they fail with SKADE_EREPLACED, every time, for what the
 * maps can't answer. */
SKADE_API int skade_view_find_table(skade_view *v, const char *name, skade_table *ret);
SKADE_API int skade_view_resolve(skade_view *v, skade_table table, int64_t id, struct skade_answer *a);
SKADE_API int64_t skade_view_resolve_many(skade_view *v, struct skade_answer *a, size_t n);
SKADE_API int skade_view_head(skade_view *v, skade_table table, struct skade_answer *a);
SKADE_API int skade_view_as_of(skade_view *v, skade_table table, int64_t time_us, struct skade_answer *a);

/* ---- history, watch, tables ---------------------------------------------------------------------------- */

enum { /* event kinds */
       SKADE_EVENT_COMMIT = 1,
       SKADE_EVENT_CREATE = 2,
       SKADE_EVENT_RENAME = 3,
       SKADE_EVENT_DROP = 4,
       SKADE_EVENT_COMPACT = 5,
       SKADE_EVENT_EXPIRE = 6
};

enum {                          /* event flags */
       SKADE_INTRODUCES = 1,    /* resolve() finds the snapshot at this commit */
       SKADE_MOVES_HEAD = 2,    /* the commit is the table's head; branch, staged snapshots don't move it */
       SKADE_WITH_SNAPSHOT = 4, /* the commit has a snapshot id */
       SKADE_STORED_TABLE = 8   /* create: skade keeps the table's rows */
};

struct skade_event {
    uint32_t size; /* sizeof: later versions append fields */
    uint32_t kind;
    uint32_t flags;
    skade_table table;
    uint64_t seq;
    int64_t snapshot;
    int64_t time_us;
    uint64_t watermark;   /* compact, expire: commits of the table up to here are retired */
    const char *name;     /* the table's name after the event */
    const char *location; /* commit, compact: metadata location; create: of an external table; else "" */
    const char *old_name; /* rename; else "" */
    unsigned char uuid[16];
};

/* Called for each event, whose strings are lent; return 0 to go on, anything else ends the call, which
 * returns it. */
typedef int (*skade_event_fn)(void *arg, const struct skade_event *e);

/* At most LIMIT (0: all) events of TABLE with a sequence number below BEFORE (0: all), newest first.  The
 * daemon is asked page by page.  Number of events, what FN returned, or negative. */
SKADE_API int64_t skade_history(skade *s, skade_table table, uint64_t before, uint64_t limit,
                                skade_event_fn fn, void *arg);

/* At most LIMIT (0: all there are now) events of all tables after AFTER, oldest first.  The same results. */
SKADE_API int64_t skade_commits_since(skade *s, uint64_t after, uint64_t limit, skade_event_fn fn, void *arg);

/*
 * Every event after AFTER, once and in order, as they come, also across restarts of the daemon: reconnects
 * by itself. Ends when FN returns other than 0 (and returns that), when nothing new came for TIMEOUT_MS
 * (returns 0; < 0: waits for ever), or with an error.  What is there at the beginning is delivered in any
 * case, so TIMEOUT_MS 0 delivers that and returns.  A daemon must answer at the beginning; when it can't be
 * reached again later, SKADE_EUNREACHABLE comes when TIMEOUT_MS is over.  SKADE_EINPUT: AFTER is newer than
 * the newest event.
 */
SKADE_API int skade_watch(skade *s, uint64_t after, int timeout_ms, skade_event_fn fn, void *arg);

struct skade_table_info {
    uint32_t size;
    skade_table table;
    const char *name;
    uint32_t stored;    /* 1: skade keeps its rows, 0: external */
    uint32_t flags;     /* of the head: SKADE_HAS_SNAPSHOT */
    uint64_t snapshots; /* that can be resolved */
    int64_t snapshot;   /* of the head */
    uint64_t seq;       /* of the head; 0: no commit yet */
    int64_t time_us;
    const char *location; /* of the head; "" */
};
typedef int (*skade_table_fn)(void *arg, const struct skade_table_info *info);

/* Living tables whose names begin with PREFIX ("": all), by name, a thousand at a time; each thousand as they
 * are when it is asked for.  Number of tables, what FN returned, or negative. */
SKADE_API int64_t skade_tables(skade *s, const char *prefix, skade_table_fn fn, void *arg);

/* ---- changes ------------------------------------------------------------------------------------------- */

enum { SKADE_BASE_ANY = 0, SKADE_BASE_NONE = 1, SKADE_BASE_IS = 2 }; /* skade_commit.base */

struct skade_commit {
    uint32_t size; /* sizeof(struct skade_commit) */
    skade_table table;
    uint32_t flags; /* SKADE_INTRODUCES | SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT */
    uint32_t base;  /* SKADE_BASE_ANY: any head; _NONE: there must be none; _IS: it is base_location */
    int64_t snapshot;
    int64_t time_us;
    int has_time; /* 0: the daemon's clock */
    const char *location;
    const char *base_location;
    unsigned char uuid[16]; /* of the request; all zero: the library makes one */
};

/*
 * One commit.  Durable when this returns 0.  After a lost reply the library asks again with the same uuid
 * until the timeout, and the commit is made once.  0 and *SEQ (may be NULL); SKADE_ECONFLICT when the head
 * isn't the base, and then *HEAD, if not NULL, is what the head is (its status 1, or SKADE_ENOSNAPSHOT for
 * no commit yet); SKADE_ENOTABLE, SKADE_EKIND, SKADE_EINPUT (also: the uuid came before with other
 * content), SKADE_EDENIED, SKADE_EFULL, SKADE_EREADONLY, SKADE_EUNREACHABLE (not made).
 *
 * SKADE_EUNKNOWN and SKADE_ETIMEOUT: it may have been made or not.  Asking again with the same uuid tells,
 * so a caller who must know gives one.  HEAD's buffer may be the one that base_location points to.
 */
SKADE_API int skade_commit(skade *s, const struct skade_commit *c, uint64_t *seq, struct skade_answer *head);

/* N commits, all or none, with consecutive sequence numbers, never half visible.  0 and the first and
 * last number (may be NULL); errors as above, the message names the commit. */
SKADE_API int skade_release(skade *s, const struct skade_commit *c, size_t n, uint64_t *first,
                            uint64_t *last);

/*
 * The same in pieces, for releases larger than memory likes: any number of adds, then the end.  Nothing is
 * visible before skade_release_end() returns 0; an error, skade_release_abort() or a lost connection leaves
 * nothing.
 *
 * One release at a time on a handle; other calls may come in between.  After an error all further adds and
 * the end fail with the same, until skade_release_end() or _abort() was called: half a release can't be
 * ended by oversight. SKADE_EUNKNOWN from the end: the connection broke before the answer;
 * SKADE_EUNREACHABLE: it broke before, and nothing was made.  An abort leaves skade_errmsg() as it is.
 */
SKADE_API int skade_release_add(skade *s, const struct skade_commit *c, size_t n);
SKADE_API int skade_release_end(skade *s, uint64_t *first, uint64_t *last);
SKADE_API void skade_release_abort(skade *s);

/* A new table; LOCATION NULL: skade stores its rows.  0 and *TABLE, *SEQ (may be NULL); SKADE_EEXISTS,
 * SKADE_EINPUT ... */
SKADE_API int skade_create(skade *s, const char *name, const char *location, skade_table *table,
                           uint64_t *seq);
SKADE_API int skade_rename(skade *s, const char *name, const char *new_name, uint64_t *seq);
SKADE_API int skade_drop(skade *s, const char *name, uint64_t *seq);

/* Retire the commits of TABLE from the oldest on: those before TIME_US, or up to the one that introduced
 * snapshot ID. The head is never retired.  0 and *SEQ, 0 when there was nothing to retire. */
SKADE_API int skade_expire_before(skade *s, skade_table table, int64_t time_us, uint64_t *seq);
SKADE_API int skade_expire_snapshot(skade *s, skade_table table, int64_t id, uint64_t *seq);

/* Reindex, verify, backup and the end of a release may take long: for them the timeout runs from the
 * daemon's last sign of life (an answer, a heartbeat; ten minutes where its heartbeat can't be seen).  So it
 * does for answers in many messages: history, tables, large batches; from the last one. */

/* ---- tables that skade stores: rows in -----------------------------------------------------------------
 *
 * A table that was created without a location keeps rows: byte strings, with a key or without one.  A row
 * with a key replaces older rows of that key; a row without is never taken for another.  Keys have up to
 * 65535 bytes and may be empty, values may be anything and of any length.  One append is one commit, one
 * snapshot and one file, which the daemon writes: nothing of it is there before skade_append_commit()
 * returns 0, and then all of it is.
 *
 * One append (or compaction by callback) at a time on a handle; other calls may come in between.  After an
 * error all further calls of the append fail with the same, until it is aborted: half an append can't be
 * committed by oversight.
 */

/* Begin.  UUID (16 bytes, NULL: the library makes one): the same again with the same rows gets the first
 * answer, also when the table was dropped since; if the first is still under way, what comes of that is waited
 * for; with other rows the commit gets SKADE_EINPUT.  SKADE_ENOTABLE, SKADE_EKIND (an external table takes
 * commits, not rows), ... may also come from a later call: nothing is waited for here. */
SKADE_API int skade_append_begin(skade *s, skade_table table, const unsigned char *uuid);

/* A row.  KEY NULL: without a key.  SKADE_EINPUT: the key is too long. */
SKADE_API int skade_append_put(skade *s, const void *key, size_t key_len, const void *value,
                               size_t value_len);
/* From here on KEY has no row.  That it had none is no error. */
SKADE_API int skade_append_delete(skade *s, const void *key, size_t key_len);
/* A row whose value comes in pieces: any number of writes, then the end. */
SKADE_API int skade_append_open_row(skade *s, const void *key, size_t key_len);
SKADE_API int skade_append_write(skade *s, const void *data, size_t len);
SKADE_API int skade_append_close_row(skade *s);

struct skade_appended {
    uint32_t size;
    skade_table table;
    int64_t snapshot;
    uint64_t seq; /* 0: there were no rows, and nothing was committed */
    int64_t time_us;
    uint64_t rows;  /* deletions included */
    uint64_t bytes; /* of the file */
};

/* Commit.  0 and *RET (may be NULL), or what went wrong: SKADE_EFULL, SKADE_EUNREACHABLE (the connection
 * broke and nothing was committed), SKADE_EUNKNOWN (it broke, and the daemon can't be asked). Either way
 * the append is over. */
SKADE_API int skade_append_commit(skade *s, struct skade_appended *ret);
/* Forget it.  Harmless when there is none. */
SKADE_API void skade_append_abort(skade *s);

/* ---- rows out ------------------------------------------------------------------------------------------- */

typedef struct skade_scan skade_scan;     /* a snapshot of a table, held */
typedef struct skade_cursor skade_cursor; /* a way through its rows */

enum { SKADE_AT_HEAD = 0, SKADE_AT_SNAPSHOT = 1, SKADE_AT_TIME = 2, SKADE_AT_SEQ = 3 };

struct skade_scan_options {
    uint32_t size;
    uint32_t by;          /* SKADE_AT_HEAD ... */
    int64_t value;        /* the snapshot id, time or sequence number of the commit */
    skade_view *view;     /* NULL: now.  As of this view */
    size_t memory;        /* bytes that finding replaced rows may take, and skade_get() keep; 0: 64 MiB */
    const char *temp_dir; /* where; NULL: $TMPDIR, else /tmp */
    uint64_t as_of;       /* 0: now.  As of this event of the log; not with VIEW */
    uint32_t flags;       /* SKADE_FILES_ONLY: no rows are looked for; for skade_scan_files() and the lease */
    uint32_t reserved;
};
enum { SKADE_FILES_ONLY = 1 };

struct skade_row {
    uint32_t size;
    uint32_t has_key;
    const void *key;
    uint64_t key_len;
    const void *value;  /* NULL when it is longer than 1 MiB: read it by skade_cursor_read() */
    uint64_t value_len; /* aligned to 64 bytes in memory where the file isn't compressed */
    int64_t time_us;    /* of the commit that wrote it */
};

/*
 * Take a lease on a snapshot of TABLE, so that its files stay, and find out which rows are there.  OPTIONS
 * NULL: the head, now.  0 and *RET; SKADE_ENOTABLE, SKADE_ENOSNAPSHOT, SKADE_EEXPIRED, SKADE_EKIND,
 * SKADE_EDAMAGED.  A table without a commit has no rows.
 *
 * The lease ends with skade_scan_close(), which must come before skade_close(), or with the connection to
 * the daemon: then files may vanish after the grace window, and a scan that needs them gets SKADE_EEXPIRED.
 */
SKADE_API int skade_scan_open(skade *s, skade_table table, const struct skade_scan_options *options,
                              skade_scan **ret);
SKADE_API void skade_scan_close(skade_scan *scan); /* its cursors must be closed before; NULL: nothing */

struct skade_scan_info {
    uint32_t size;
    skade_table table;
    int64_t snapshot;
    uint64_t seq; /* 0: the table has no commit */
    int64_t time_us;
    uint64_t rows;    /* that are there */
    uint64_t entries; /* replaced rows and deletions included */
    uint64_t files, bytes, raw_bytes;
};
SKADE_API int skade_scan_info(skade_scan *scan, struct skade_scan_info *ret);

/* A file that the snapshot's rows are in, or the manifest of a compaction that names others. */
struct skade_scan_file {
    uint32_t size;
    uint32_t base;    /* 1: made by the compaction that the snapshot begins with */
    const char *path; /* absolute; lent until FN returns */
    uint64_t seq;     /* of the commit or compaction */
    int64_t time_us;  /* of its snapshot */
};
typedef int (*skade_scan_file_fn)(void *arg, const struct skade_scan_file *file);
/* All files of the scan's snapshot, the oldest first: with these and a log that knows the snapshot it can be
 * read elsewhere.  They stay as long as the scan is open.  FN may not use the scan's handle.  Number of files,
 * what FN returned when that isn't 0, or negative: SKADE_EEXPIRED when the lease was lost with its connection,
 * SKADE_EDAMAGED. */
SKADE_API int64_t skade_scan_files(skade_scan *scan, skade_scan_file_fn fn, void *arg);

enum { SKADE_OLDEST_FIRST = 1 }; /* default: newest first */

/*
 * Part PART of PARTS of the rows, in order; the parts one after the other are all rows.  Cursors of one scan
 * may be opened and used by different threads at a time, each by one; they need no connection.
 */
SKADE_API int skade_cursor_open(skade_scan *scan, unsigned flags, unsigned part, unsigned parts,
                                skade_cursor **ret);
SKADE_API void skade_cursor_close(skade_cursor *c);
/* The next row: 1 and *ROW (its size set by the caller), lent until the next call; 0 at the end; negative:
 * damage is told after all rows before it, and names file and offset. */
SKADE_API int skade_cursor_next(skade_cursor *c, struct skade_row *row);
/* LEN bytes from OFFSET of the value of the row that came last. */
SKADE_API int skade_cursor_read(skade_cursor *c, uint64_t offset, void *buffer, size_t len);
SKADE_API const char *skade_cursor_errmsg(const skade_cursor *c);

/* The value of KEY at a snapshot (OPTIONS as above): 1, at most CAP bytes of it in BUFFER and its length in
 * *LEN; 0: no such row; -ERANGE: it is longer than CAP, *LEN says how long, BUFFER has its beginning.
 * What a handle learned of a table's files is kept for the next get: where each key is, and files, as far as the
 * memory that OPTIONS gave the table's first get goes (0: 64 MiB).  Of all that the table has in memory a get takes
 * less than a microsecond; beyond that it reads one row of a file.  The newest get of a table has a lease on its
 * snapshot, and one by a view as long as that is open: what was retired since isn't removed until a later get, or until
 * skade_quiesce() or skade_close() for a program that doesn't ask any more. */
SKADE_API int skade_get(skade *s, skade_table table, const struct skade_scan_options *options,
                        const void *key, size_t key_len, void *buffer, size_t cap, size_t *len);

/* ---- compaction ------------------------------------------------------------------------------------------ */

/* Shall the row stay?  1 yes, 0 no, anything negative ends the compaction with that and leaves all as it
 * was. */
typedef int (*skade_prune_fn)(void *arg, const struct skade_row *row);
/* Now and then: ROWS_TOTAL is 0 while it isn't known.  Non-zero ends the compaction with -ECANCELED. */
typedef int (*skade_progress_fn)(void *arg, uint64_t rows_done, uint64_t rows_total, uint64_t bytes_written);

enum {
    SKADE_DRY_RUN = 1, /* only say what it would do; needs no disk, and goes on beside a compaction */
    SKADE_NO_WAIT =
        2 /* begin it, and return at once with figures that are all 0; it goes on without anyone waiting */
};

struct skade_compact_options {
    uint32_t size;
    uint32_t flags;      /* SKADE_DRY_RUN: only say what it would do */
    int has_drop_before; /* drop rows of commits before drop_before_us */
    int64_t drop_before_us;
    const void
        *keep_prefix; /* drop keyed rows whose key doesn't begin so; rows without key stay; NULL: no rule */
    size_t keep_prefix_len;
    const void *drop_from; /* drop keyed rows with drop_from <= key < drop_to; NULL: no rule */
    size_t drop_from_len;
    const void *drop_to; /* NULL: no end */
    size_t drop_to_len;
    uint64_t target_size; /* bytes of a file; 0: the daemon's option, as with the next two */
    uint32_t block_size;
    int level;
    skade_prune_fn
        prune; /* NULL, or called for each row that is there; then the rows go through this process */
    void *prune_arg;
    skade_progress_fn progress;
    void *progress_arg;
    unsigned char uuid[16]; /* all zero: the library makes one */
};

struct skade_compacted {
    uint32_t size;
    uint32_t joined;  /* 1: another request was compacting the table; this is what came of that one */
    uint32_t sampled; /* 1: bytes_after is an estimate (SKADE_DRY_RUN) */
    uint32_t reserved;
    uint64_t seq; /* of the compaction; 0: dry run, or nothing to do */
    int64_t snapshot;
    uint64_t rows, rows_pruned; /* survivors, dropped */
    uint64_t snapshots_before;
    uint64_t carried;                   /* commits that arrived meanwhile */
    uint64_t files_before, files_after; /* data files, without the manifest that names them */
    uint64_t bytes_before, bytes_after; /* of them and the manifest */
    uint64_t raw_bytes;                 /* keys and values of the survivors */
    uint64_t micros;
    /* Where files were retired; "". Not to be removed by hand: commits that were carried over live there. skade_gc() and
     * the daemon remove what was retired, by name, when nobody holds it. */
    char old_data_dir[SKADE_LOCATION_MAX + 1];
};

/*
 * Rewrite TABLE as of now into large compressed files with one snapshot that stands where its history stood.
 * Writers and readers go on; commits that arrive meanwhile stay as they are.  When this returns 0 the
 * snapshots before are expired everywhere.  Holders of old views and scans read on.
 *
 * A second caller joins the compaction that runs.  It goes on while anybody waits for it.  0 and *RET;
 * SKADE_EKIND (external table), SKADE_ECONFLICT (dropped or compacted meanwhile), SKADE_EDAMAGED (a damaged
 * row: nothing is changed), SKADE_EFULL, -ECANCELED, what PRUNE returned; these change nothing.  Who cancels while
 * the swap is under way is too late and gets 0.  SKADE_EUNKNOWN: the connection broke before the end was told, and
 * the table's history says what it was.
 */
SKADE_API int skade_compact(skade *s, skade_table table, const struct skade_compact_options *options,
                            struct skade_compacted *ret);

struct skade_garbage {
    uint32_t size;
    skade_table table;
    const char *name, *dir; /* of the table; of the files */
    uint64_t files, bytes;
    int64_t retired_us, due_us;
    const char *waiting_for; /* "" */
};
typedef int (*skade_garbage_fn)(void *arg, const struct skade_garbage *g);

enum { SKADE_GC_NOW = 1 };
/* What is retired and not removed yet, of TABLE (also of a dropped one; 0: all): when it was retired, when the grace
 * window ends that began then or with the daemon's start, and what it waits for.  "kept: ..." are files that can't be
 * told apart, since a manifest is damaged; they stay until that is mended.  SKADE_GC_NOW: remove now what no lease
 * holds, without waiting for the grace window, and look again at what is kept, then tell what is left.  Number, what FN returned, or negative. */
SKADE_API int64_t skade_gc(skade *s, skade_table table, unsigned flags, skade_garbage_fn fn, void *arg);

/* ---- administration ------------------------------------------------------------------------------------ */

/* Round trip to the daemon in microseconds, or negative. */
SKADE_API int64_t skade_ping(skade *s);

struct skade_reindexed {
    uint32_t size;
    uint64_t old_generation, generation;
    uint64_t micros;
};
/* Merge everything into one part and publish it; returns when the new generation is visible. */
SKADE_API int skade_reindex(skade *s, struct skade_reindexed *ret);

/* One row of what the daemon tells: name, value, unit ("", bytes, microseconds ...), kind "counter" or
 * "gauge", help. */
typedef int (*skade_counter_fn)(void *arg, const char *name, uint64_t value, const char *unit,
                                const char *kind, const char *help);

enum { SKADE_ALIVE = 1, SKADE_STALLED = 0 };
/* All counters of the daemon, from shared memory when it can be seen, also when the daemon is dead.
 * SKADE_ALIVE, SKADE_STALLED (its socket doesn't answer and its heartbeat stands still for 1.2 s, so long
 * does this take then), what FN returned when that isn't 0, or negative. */
SKADE_API int skade_stats(skade *s, skade_counter_fn fn, void *arg);

/* Counters of this handle: lookups from the map and from the daemon, maps attached, failures to attach by
 * reason.  0, or what FN returned. */
SKADE_API int skade_client_stats(skade *s, skade_counter_fn fn, void *arg);

struct skade_segment {
    uint32_t size;
    uint32_t is_root; /* 1: the root; 0: a part */
    uint64_t generation, bytes;
    uint64_t snapshots;        /* commits in it; a root has none */
    uint64_t from_seq, to_seq; /* covers the events in (from_seq, to_seq] */
    uint32_t linked;           /* 1: its name is in the directory */
    const char *file;          /* its name */
};
typedef int (*skade_segment_fn)(void *arg, const struct skade_segment *segment);
/* The root and the parts of the current generation, as they are in shared memory (also with
 * SKADE_NO_SHM); those of a damaged generation, too, as far as its root can be read.  Number, what FN returned, or negative: -ENOENT when shared memory can't be seen,
 * SKADE_EDENIED when this user may not, with the reason in skade_errmsg(). */
SKADE_API int64_t skade_segments(skade *s, skade_segment_fn fn, void *arg);

struct skade_client {
    uint32_t size;
    uint32_t uid, pid;
    const char *label;
    uint64_t generation; /* that it maps, as it told last; 0: none */
    uint64_t lag;        /* how many generations that is behind the current one */
    uint64_t requests;   /* served so far */
};
typedef int (*skade_client_fn)(void *arg, const struct skade_client *client);
SKADE_API int64_t skade_clients(skade *s, skade_client_fn fn, void *arg);

typedef int (*skade_check_fn)(void *arg, const char *object, uint64_t checked, uint64_t damaged,
                              const char *detail);
/* Checksum the files of the current generation, if they can be seen (also with SKADE_NO_SHM), then let
 * the daemon verify the log's chain and the files of stored tables: their heads and ends; FULL: every byte of
 * them, and every location of the index against the log.  FN is told of each object what was looked at (bytes of a file, rows of the log), how much of it is damaged (all
 * of a file whose checksum is wrong), and the first damage in words.  0: nothing damaged, SKADE_EDAMAGED, what FN returned, or negative. */
SKADE_API int skade_verify(skade *s, int full, skade_check_fn fn, void *arg);

/* Write a consistent copy of the log to the descriptor FD.  0 and its newest sequence number and size
 * (may be NULL); negative: what was written is no backup. */
SKADE_API int skade_backup(skade *s, int fd, uint64_t *seq, uint64_t *bytes);

/* ---- small helps --------------------------------------------------------------------------------------- */

/* RFC 3339 with zone, YYYY-MM-DD (midnight UTC), or microseconds, to microseconds.  0 or SKADE_EINPUT.
 * Any thread. */
SKADE_API int skade_time_parse(const char *text, int64_t *ret);
/* Microseconds as RFC 3339 UTC with microseconds ("2026-01-02T03:04:05.000006Z"), or as a number when the
 * year is not within 0000 to 9999.  RET has room for 32 bytes; returns it.  Any thread. */
SKADE_API char *skade_time_format(int64_t time_us, char *ret);
/* Is NAME a table name?  0, or SKADE_EINPUT and, if WHY is not NULL, the reason (lent for ever).  Any
 * thread. */
SKADE_API int skade_name_check(const char *name, const char **why);
/* "8-4-4-4-12" hexadecimal to 16 bytes and back (37 bytes with the NUL).  Any thread. */
SKADE_API int skade_uuid_parse(const char *text, unsigned char *ret);
SKADE_API char *skade_uuid_format(const unsigned char *uuid, char *ret);

#ifdef __cplusplus
}
#endif

#endif
