/*
 * The commit log on SQLite: opening, appending, checkpoints.
 *
 *     open:    lock the directory -> look at the files -> (make a log) -> look at the database -> settings
 *     append:  BEGIN IMMEDIATE -> rows, meta row -> COMMIT (fsync of the write-ahead log)
 *     close:   meta row "not in use" -> checkpoint -> SQLite removes the write-ahead log
 *
 * One connection both writes and checkpoints, in exclusive locking mode from its first access on.  SQLite
 * up to 3.51.2 can lose pages when one connection writes while another checkpoints; here there is no
 * other.
 *
 * In use.  While a log is written its newest events are in the write-ahead log only.  If someone removes
 * that file, the database file alone looks whole, and is old.  So before its first write a log puts "in
 * use" into the database file itself, and a clean close takes it out again: a file that is in use and has
 * no write-ahead log beside it has lost it.  A file of an older version becomes one of the newest then, too.
 *
 * What a failed write means.  A refusal of bytes (disk full, quota, file size limit) comes before the
 * frame that commits is whole, so the transaction is rolled back and never comes back.  After any other
 * failure of a write or an fsync nothing is certain, least of all a later fsync that succeeds: the kernel
 * may have dropped the pages.  Then the log is failed for this process, and what is on disk decides.
 */
#include "commitlog_file.h"

#include "failpoint.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define WAL_FRAME_BYTES (4096 + 24)
#define LOG_INSERT                                                                                        \
    "INSERT INTO log(seq, kind, flags, table_no, snapshot, time_us, watermark, uuid, text, text2, chain)" \
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

/* ---- opening --------------------------------------------------------------------------------------- */

/* Under a name of its own until it is complete. */
static int make_log(const struct logdir *dir, struct errmsg *msg)
{
    struct logfile f;
    char path[LOG_PATH_MAX];
    int fd = logdir_make_file(dir, LOG_NEW_NAME, msg);

    if (fd < 0)
        return fd;
    close(fd);
    int r = logdir_path(dir, LOG_NEW_NAME, path, msg);
    if (r == 0)
        r = logfile_open(&f, path, LOGFILE_OWN, msg);
    if (r == 0) {
        r = logfile_settle(&f, LOGFILE_SYNC_FULL, msg);
        if (r == 0)
            r = logfile_create(&f, msg);
        logfile_close(&f);
    }
    if (r == 0)
        r = logdir_publish(dir, msg);
    if (r < 0)
        logdir_remove_file(dir, LOG_NEW_NAME);
    return r;
}

/*
 * Without a write-ahead log the database file can be judged before anything takes a lock or makes a file
 * beside it.  In particular an empty write-ahead log must not appear beside a file that has lost its own.
 */
static int look_first(const char *path, struct errmsg *msg)
{
    struct logfile f;
    int r = logfile_open(&f, path, LOGFILE_SEALED, msg);

    if (r < 0)
        return r;
    if (f.wal == WAL_MISSING) {
        r = logfile_inspect(&f, msg);
        if (r == 0)
            r = logfile_check_wal(&f, msg);
    }
    logfile_close(&f);
    return r;
}

static int note_wal(void *arg, sqlite3 *db, const char *name, int frames)
{
    struct commitlog *log = arg;
    (void)db;
    (void)name;
    log->wal_bytes = (uint64_t)frames * WAL_FRAME_BYTES;
    return SQLITE_OK;
}

static int prepare_all(struct commitlog *log, struct errmsg *msg)
{
    int rc = logfile_prepare(&log->file, "BEGIN IMMEDIATE", &log->begin);
    if (rc == SQLITE_OK)
        rc = logfile_prepare(&log->file, "COMMIT", &log->commit);
    if (rc == SQLITE_OK)
        rc = logfile_prepare(&log->file, LOG_INSERT, &log->insert);
    return rc == SQLITE_OK ? 0 : logfile_error(&log->file, rc, msg, "prepare to write");
}

static int open_file(struct commitlog *log, const char *path, bool skip_check, struct errmsg *msg)
{
    int r = look_first(path, msg);
    if (r == 0)
        r = logfile_open_judged(&log->file, path, LOGFILE_OWN, log->sync_full, msg);
    if (r == 0)
        r = logfile_check_mode(&log->file, msg);
    if (r == 0 && !skip_check)
        r = logfile_check_structure(&log->file, LOGFILE_QUICK, msg);
    if (r == 0)
        r = logfile_settle(&log->file, log->sync_full ? LOGFILE_SYNC_FULL : LOGFILE_SYNC_NORMAL, msg);
    if (r == 0)
        r = prepare_all(log, msg);
    if (r < 0)
        return r;
    sqlite3_wal_hook(log->file.db, note_wal, log);
    log->wal_bytes = log->file.wal_bytes; /* at most: only SQLite knows how many of them are whole */
    return 0;
}

int commitlog_open(struct commitlog **ret, const struct commitlog_options *opt, struct errmsg *msg)
{
    char path[LOG_PATH_MAX];
    struct commitlog *log = calloc(1, sizeof *log);

    if (!log)
        return fail(msg, -ENOMEM, "%s: no memory to open the log", opt->dir);
    log->sync_full = opt->sync_full;
    int r = logdir_open(&log->dir, opt->dir, LOGDIR_OWN, msg);
    if (r < 0)
        goto fail;
    r = logdir_path(&log->dir, LOG_NAME, path, msg);
    if (r == 0)
        r = logdir_has_log(&log->dir, msg);
    if (r < 0)
        goto fail;
    if (r == 0 && (r = make_log(&log->dir, msg)) < 0)
        goto fail;
    r = open_file(log, path, opt->skip_check, msg);
    if (r < 0)
        goto fail;
    logdir_remove_file(&log->dir, LOG_NEW_NAME);
    logdir_remove_file(&log->dir, LOG_BACKUP_NAME);
    *ret = log;
    return 0;
fail:
    commitlog_close(log);
    return r;
}

int commitlog_check_structure(struct commitlog *log, struct errmsg *msg)
{
    return logfile_check_structure(&log->file, LOGFILE_QUICK, msg);
}

int commitlog_check_end(struct commitlog *log, struct errmsg *msg)
{
    uint64_t left;

    int r = commitlog_checkpoint(log, true, &left, msg);
    if (r == SKADE_EFULL || (r == 0 && left > 0)) /* the pages are in two files, so SQLite must look */
        return commitlog_check_structure(log, msg);
    return r < 0 ? r : logfile_check_end(&log->file, msg);
}

const struct commitlog_meta *commitlog_meta(const struct commitlog *log)
{
    return &log->file.meta.pub;
}

bool commitlog_failed(const struct commitlog *log)
{
    return log->failed;
}

/* ---- one transaction ------------------------------------------------------------------------------- */

/* What a fail point simulates, as SQLite would say it. */
static int simulated(int failpoint)
{
    return failpoint == 0 ? SQLITE_OK : failpoint == -ENOSPC ? SQLITE_FULL : SQLITE_IOERR;
}

/* Did the system refuse the bytes of a write to PART, for want of room?  Then that write changed
 * nothing that counts. */
static bool refused(const struct commitlog *log, int rc, enum logfile_part part)
{
    if ((rc & 0xff) == SQLITE_FULL)
        return true; /* ENOSPC */
    int error = logfile_errno(&log->file, part);
    return rc == SQLITE_IOERR_WRITE && (error == EDQUOT || error == EFBIG);
}

static int unknown(struct commitlog *log, struct errmsg *msg, const char *why)
{
    log->failed = true;
    return fail(msg, SKADE_EUNKNOWN,
                "%s: a write failed (%s): a restart tells whether it is durable; check the disk",
                log->file.path, why);
}

static int refuse_failed(const struct commitlog *log, struct errmsg *msg)
{
    return fail(msg, SKADE_EUNKNOWN,
                "%s: an earlier write failed, so nothing more is written: restart; check the disk",
                log->file.path);
}

static bool roll_back(struct commitlog *log)
{
    /* Some errors roll back by themselves; asking is the only way to know. */
    if (!sqlite3_get_autocommit(log->file.db))
        logfile_run(&log->file, "ROLLBACK");
    return sqlite3_get_autocommit(log->file.db);
}

/* A transaction failed with RC before or in its COMMIT. */
static int give_up(struct commitlog *log, int rc, bool committing, struct errmsg *msg)
{
    const char *why = sqlite3_errstr(rc);
    bool full = refused(log, rc, LOGFILE_WAL);

    if (!roll_back(log))
        return unknown(log, msg, why);
    if (full)
        return fail(msg, SKADE_EFULL,
                    "%s: no room for a commit (%s): make room, commits go on by themselves then",
                    log->file.path, rc == SQLITE_FULL ? "disk full" : "quota or file size limit");
    if ((rc & 0xff) == SQLITE_NOMEM && !committing)
        return fail(msg, -ENOMEM, "%s: no memory for a commit", log->file.path);
    return unknown(log, msg, why);
}

static int bind_text(sqlite3_stmt *s, int i, struct bytes text)
{
    /* A NULL pointer would bind NULL. */
    return sqlite3_bind_blob(s, i, text.len ? text.data : "", (int)text.len, SQLITE_STATIC);
}

static int insert(struct commitlog *log, const struct event *e, uint64_t chain)
{
    sqlite3_stmt *s = log->insert;
    const int64_t numbers[] = { (int64_t)e->seq,      e->kind, e->flags, e->table, e->snapshot, e->time_us,
                                (int64_t)e->watermark };
    int rc = simulated(FAILPOINT("log.insert"));

    for (int i = 0; rc == SQLITE_OK && i < (int)ARRAY_SIZE(numbers); i++)
        rc = sqlite3_bind_int64(s, i + 1, numbers[i]);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(s, 8, &e->uuid, sizeof e->uuid, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = bind_text(s, 9, e->text);
    if (rc == SQLITE_OK)
        rc = bind_text(s, 10, e->text2);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(s, 11, (int64_t)chain);
    return rc == SQLITE_OK ? logfile_step_once(s) : rc;
}

static int insert_all(struct commitlog *log, const struct event *events, size_t n, struct logfile_meta *meta)
{
    int rc = SQLITE_OK;

    for (size_t i = 0; rc == SQLITE_OK && i < n; i++) {
        assert(events[i].seq == meta->pub.last_seq + 1);
        assert(!commitlog_event_flaw(&events[i]));
        meta->pub.last_seq = events[i].seq;
        meta->pub.last_chain = commitlog_chain(meta->pub.last_chain, &events[i]);
        rc = insert(log, &events[i], meta->pub.last_chain);
    }
    sqlite3_clear_bindings(log->insert); /* they point into the caller's memory */
    return rc;
}

/* Write the N events and META, which is moved on by them.  All or nothing; errors as
 * commitlog_append()'s. */
static int transact(struct commitlog *log, const struct event *events, size_t n, struct logfile_meta meta,
                    struct errmsg *msg)
{
    if (log->failed)
        return refuse_failed(log, msg);
    log->file.keep_wal = true;
    int rc = simulated(FAILPOINT("log.begin"));
    if (rc == SQLITE_OK)
        rc = logfile_step_once(log->begin);
    if (rc == SQLITE_OK && logfile_is_old(&log->file))
        rc = logfile_upgrade(&log->file);
    if (rc == SQLITE_OK)
        rc = insert_all(log, events, n, &meta);
    if (rc == SQLITE_OK)
        rc = logfile_put_meta(&log->file, &meta);
    if (rc == SQLITE_OK)
        rc = simulated(FAILPOINT("log.commit"));
    if (rc != SQLITE_OK)
        return give_up(log, rc, false, msg);
    rc = logfile_step_once(log->commit);
    if (rc != SQLITE_OK)
        return give_up(log, rc, true, msg);
    if (FAILPOINT("log.committed") != 0)
        return unknown(log, msg, "simulated");
    log->file.meta = meta;
    logfile_upgraded(&log->file);
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------------- */

static int checkpoint_failed(struct commitlog *log, int rc, struct errmsg *msg)
{
    if (refused(log, rc, LOGFILE_DATABASE))
        return fail(msg, SKADE_EFULL, "%s: no room for a checkpoint: make room; nothing is lost",
                    log->file.path);
    if ((rc & 0xff) == SQLITE_NOMEM)
        return fail(msg, -ENOMEM, "%s: no memory for a checkpoint; nothing is lost", log->file.path);
    return unknown(log, msg, sqlite3_errstr(rc));
}

int commitlog_checkpoint(struct commitlog *log, bool truncate, uint64_t *wal_bytes, struct errmsg *msg)
{
    int frames = 0, moved = 0;

    if (log->failed)
        return refuse_failed(log, msg);
    log->file.keep_wal = true;
    int rc = simulated(FAILPOINT("log.checkpoint"));
    if (rc == SQLITE_OK)
        rc = sqlite3_wal_checkpoint_v2(log->file.db, "main",
                                       truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE,
                                       &frames, &moved);
    if (rc == SQLITE_OK) {
        log->wal_bytes = frames > moved ? (uint64_t)(frames - moved) * WAL_FRAME_BYTES : 0;
        log->file.meta.pub.bytes = logfile_bytes(&log->file);
    }
    if (wal_bytes)
        *wal_bytes = log->wal_bytes;
    return rc == SQLITE_OK ? 0 : checkpoint_failed(log, rc, msg);
}

uint64_t commitlog_wal_bytes(const struct commitlog *log)
{
    return log->wal_bytes;
}

uint64_t commitlog_room(const struct commitlog *log)
{
    struct statvfs fs;

    if (fstatvfs(log->dir.fd, &fs) < 0 || fs.f_blocks == 0)
        return UINT64_MAX;
    return (uint64_t)fs.f_bavail * fs.f_frsize;
}

/* Before the first write; see the top of this file. */
static int begin_use(struct commitlog *log, struct errmsg *msg)
{
    int r = 0;

    if (log->in_use)
        return 0;
    if (!log->file.meta.in_use || logfile_is_old(&log->file)) {
        struct logfile_meta meta = log->file.meta;
        meta.in_use = true;
        r = transact(log, NULL, 0, meta, msg);
    }
    /* After a crash the write-ahead log may say so, and the file not yet. */
    if (r == 0)
        r = commitlog_checkpoint(log, true, NULL, msg);
    log->in_use = r == 0;
    return r;
}

static void end_use(struct commitlog *log)
{
    struct logfile_meta meta = log->file.meta;

    if (!log->in_use || log->failed)
        return;
    meta.in_use = false;
    if (transact(log, NULL, 0, meta, NULL) == 0 && commitlog_checkpoint(log, true, NULL, NULL) == 0)
        log->file.keep_wal = false;
}

void commitlog_close(struct commitlog *log)
{
    if (!log)
        return;
    assert(!log->has_backup);
    if (log->file.db) {
        end_use(log);
        sqlite3_finalize(log->begin);
        sqlite3_finalize(log->commit);
        sqlite3_finalize(log->insert);
        logfile_close(&log->file);
    }
    logdir_close(&log->dir);
    free(log);
}

int commitlog_append(struct commitlog *log, const struct event *events, size_t n, struct errmsg *msg)
{
    int r = begin_use(log, msg);
    return r == 0 && n > 0 ? transact(log, events, n, log->file.meta, msg) : r;
}

int commitlog_set_epoch(struct commitlog *log, uint64_t epoch, bool clean, struct errmsg *msg)
{
    int r = begin_use(log, msg);

    if (r < 0)
        return r;
    struct logfile_meta meta = log->file.meta;
    meta.pub.last_epoch = epoch;
    meta.pub.clean_stop = clean;
    r = transact(log, NULL, 0, meta, msg);
    /* In mode "normal" a COMMIT is not synced, a checkpoint is. */
    return r == 0 && !log->sync_full ? commitlog_checkpoint(log, false, NULL, msg) : r;
}

/* ---- reading --------------------------------------------------------------------------------------- */

int commitlog_seek(struct commitlog *log, uint64_t seq, struct commitlog_cursor *ret, struct errmsg *msg)
{
    return logfile_seek(&log->file, seq, ret, msg);
}

int commitlog_read(struct commitlog *log, struct commitlog_cursor *cursor, size_t max_rows, size_t max_bytes,
                   commitlog_row_fn fn, void *arg, struct errmsg *msg)
{
    return logfile_read(&log->file, cursor, max_rows, max_bytes, fn, arg, msg);
}
