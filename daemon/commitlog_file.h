/*
 * Private to the commit log (commitlog*.c): its directory, and one database file in it.
 *
 *   <dir>/skade.db          the log; 0600.  Has its name only when it is complete
 *   <dir>/skade.db-wal      SQLite's write-ahead log: while it exists, part of the log
 *   <dir>/skade.db.new      a log that is being made; removed at the next open
 *   <dir>/skade.backup      a copy that is being made; removed at the next open
 *
 * There is never a skade.db-journal (the file is in WAL mode before it has its name) nor a skade.db-shm
 * (the lock is exclusive, so the index of the write-ahead log is on the heap).
 */
#ifndef SKADE_COMMITLOG_FILE_H
#define SKADE_COMMITLOG_FILE_H

#include "commitlog.h"

#include <sqlite3.h>

#define LOG_NAME "skade.db"
#define LOG_NEW_NAME "skade.db.new"
#define LOG_BACKUP_NAME "skade.backup"
#define LOG_PATH_MAX 480 /* SQLite's limit is 512, less what it appends */

/* ---- the directory: commitlog_dir.c, no SQL -------------------------------------------------------- */

/* An open directory and the lock on it, which lasts until it is closed. */
struct logdir {
    int fd; /* -1: closed */
    char path[LOG_PATH_MAX];
};

enum logdir_use {
    LOGDIR_OWN,  /* made when missing, this user's alone, locked against everybody */
    LOGDIR_LOOK, /* anybody's, locked against an owner only */
};

/* 0, or errors as commitlog_open()'s; D is closed then. */
int logdir_open(struct logdir *d, const char *path, enum logdir_use use, struct errmsg *msg);
void logdir_close(struct logdir *d);

/* Path of NAME in D.  0, or SKADE_EINPUT when it is too long for SQLite. */
int logdir_path(const struct logdir *d, const char *name, char ret[LOG_PATH_MAX], struct errmsg *msg);

/*
 * Is there a log in D?  1 and 0; or, before SQLite touches anything, a refusal: what is there isn't plain
 * files of this user's alone, or isn't what a log leaves behind.
 */
int logdir_has_log(const struct logdir *d, struct errmsg *msg);

/* Make the empty file NAME, 0600, after removing what a crash left of an earlier one.  Gives a
 * descriptor, or -errno. */
int logdir_make_file(const struct logdir *d, const char *name, struct errmsg *msg);
void logdir_remove_file(const struct logdir *d, const char *name); /* and what SQLite puts beside it */

/* The system refused bytes for want of room: disk full, quota, file size limit. */
bool logdir_means_full(int error);
/* Our code for ERROR of the system's, with a message. */
int logdir_fail(int error, struct errmsg *msg, const char *path, const char *doing);

/* The finished LOG_NEW_NAME becomes LOG_NAME, durably. */
int logdir_publish(const struct logdir *d, struct errmsg *msg);

/* ---- the write-ahead log as SQLite leaves it: commitlog_wal.c, no SQL --------------------------------- */

enum logwal_state {
    LOGWAL_WHOLE,     /* or there is none, or its end is one that a crash leaves */
    LOGWAL_HOLE,      /* SQLite stops at a bad frame, and commits follow that were synced, with sync_full */
    LOGWAL_NO_HEADER, /* SQLite ignores the file, and the database hasn't what is in it */
};

struct logwal {
    enum logwal_state state;
    uint64_t flaw; /* where it is damaged */
    uint64_t good; /* bytes before that which SQLite takes */
};

/* Judge the write-ahead log of the database at PATH.  Changes nothing; nobody in this process has the database open.
 * 0, -ENOMEM, -errno. */
int logwal_judge(const char *path, struct logwal *ret, struct errmsg *msg);

/* ---- a database file: commitlog_file.c ------------------------------------------------------------- */

enum logfile_use {
    LOGFILE_OWN = 1,    /* read, write, checkpoint; exclusive lock */
    LOGFILE_LOOK = 2,   /* read a file and its write-ahead log, change neither; exclusive lock */
    LOGFILE_SEALED = 4, /* read a file without a write-ahead log that nobody writes; no lock, no new file */
    LOGFILE_COPY = 8,   /* the target of a backup */
};

enum logfile_sync { LOGFILE_SYNC_OFF = 0, LOGFILE_SYNC_NORMAL = 1, LOGFILE_SYNC_FULL = 2 };

enum wal_state { WAL_MISSING, WAL_EMPTY, WAL_USED };

struct logfile_meta {
    struct commitlog_meta pub;
    bool in_use; /* see commitlog.c: a database file that says so without a write-ahead log has lost it */
};

struct logfile {
    sqlite3 *db; /* NULL: closed */
    char path[LOG_PATH_MAX];
    enum logfile_use use;
    enum wal_state wal; /* as found */
    uint64_t wal_bytes; /* as found */
    bool keep_wal;      /* at close: it holds what the database file doesn't */
    int64_t version;    /* of its tables */
    struct logfile_meta meta;
    sqlite3_stmt *select;
    sqlite3_stmt *put_meta;
};

/* Connect to PATH; neither the file's content nor its lock is touched yet.  F is closed after a failure. */
int logfile_open(struct logfile *f, const char *path, enum logfile_use use, struct errmsg *msg);
void logfile_close(struct logfile *f);

/* Is it a log, of a version that we know, and do its ends agree with what it says about itself?
 * Constant time; fills F->meta.  It takes the lock: SKADE_ERUNNING when somebody else has it. */
int logfile_inspect(struct logfile *f, struct errmsg *msg);

/* Open F, inspect it, and refuse it with SKADE_EDAMAGED when its write-ahead log is damaged where durable commits
 * are: after a power cut without SYNC_FULL a hole is none.  F is closed after a failure. */
int logfile_open_judged(struct logfile *f, const char *path, enum logfile_use use, bool sync_full,
                        struct errmsg *msg);

/* SKADE_EDAMAGED when the write-ahead log is missing that must be there, */
int logfile_check_wal(const struct logfile *f, struct errmsg *msg);
/* or when somebody took the file out of write-ahead mode: going back would need a rollback journal.
 * -EROFS when it can't be written. */
int logfile_check_mode(struct logfile *f, struct errmsg *msg);

/* Settings of a file that is written: WAL, how to sync, no checkpoint but our own. */
int logfile_settle(struct logfile *f, enum logfile_sync sync, struct errmsg *msg);

/* Make the tables of the newest version in an empty file, and a new identity. */
int logfile_create(struct logfile *f, struct errmsg *msg);

/* Mark F as a file that needs no write-ahead log, and put everything into it, in tables of the newest version. */
int logfile_seal(struct logfile *f, struct errmsg *msg);

/* Another name for F, which logfile_seal() writes.  0, or -EIO when the system has no random bytes. */
int logfile_rename(struct logfile *f, struct errmsg *msg);

enum logfile_depth { LOGFILE_QUICK, LOGFILE_WHOLE };
int logfile_check_structure(struct logfile *f, enum logfile_depth depth, struct errmsg *msg);

/* The pages that the next append changes; nothing may be in the write-ahead log.  See commitlog_end.c. */
int logfile_check_end(struct logfile *f, struct errmsg *msg);

/* Structure and chain, from end to end. */
int logfile_verify(struct logfile *f, struct errmsg *msg);

/* commitlog_seek() and commitlog_read() of any file. */
int logfile_seek(struct logfile *f, uint64_t seq, struct commitlog_cursor *ret, struct errmsg *msg);
int logfile_read(struct logfile *f, struct commitlog_cursor *cursor, size_t max_rows, size_t max_bytes,
                 commitlog_row_fn fn, void *arg, struct errmsg *msg);

/* Size of the database file, without opening it. */
uint64_t logfile_bytes(const struct logfile *f);

/* The last error of the system's on one of its two files. */
enum logfile_part { LOGFILE_DATABASE, LOGFILE_WAL };
int logfile_errno(const struct logfile *f, enum logfile_part part);

/* Give RC, an error of SQLite's, our code and a message: path, what was being done, why, cure. */
int logfile_error(const struct logfile *f, int rc, struct errmsg *msg, const char *doing);

/* Small steps that give SQLite's codes, for those who decide what a failure means. */
int logfile_prepare(struct logfile *f, const char *sql, sqlite3_stmt **ret); /* unless *RET is */
int logfile_run(struct logfile *f, const char *sql);
int logfile_put_meta(struct logfile *f, const struct logfile_meta *meta);

/* Within a transaction: give an older file the tables of the newest version, empty where the meta row stands;
 * logfile_put_meta() follows.  F->version is set by logfile_upgraded(), when that is committed. */
bool logfile_is_old(const struct logfile *f);
int logfile_upgrade(struct logfile *f);
void logfile_upgraded(struct logfile *f);
int logfile_step_once(sqlite3_stmt *s); /* to the end, and reset */

/* ---- the log: commitlog.c, and commitlog_backup.c copies it ---------------------------------------- */

struct commitlog {
    struct logdir dir;
    struct logfile file;
    sqlite3_stmt *begin;
    sqlite3_stmt *commit;
    sqlite3_stmt *insert;
    uint64_t wal_bytes;
    bool sync_full;
    bool in_use; /* the database file says so */
    bool failed;
    bool has_backup;
};

#endif
