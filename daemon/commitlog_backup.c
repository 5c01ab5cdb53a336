/*
 * Copies of the commit log: backup of a running one, check and restore of a file.
 *
 *     backup:   copy pages (SQLite's own backup, from the one connection) -> seal -> verify rows -> done
 *     restore:  verify the source -> copy bytes -> verify the copy -> another uuid, seal -> give it its file name
 *
 * To seal is to make a database file that needs no write-ahead log and says so.
 *
 * SQLite's backup follows writes of its own connection: pages that are copied already are copied again
 * when an append changes them, so no append makes it start over.  A rolled back one does, since SQLite
 * cannot tell which pages of the copy are good then.
 */
#include "commitlog_file.h"

#include "failpoint.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROWS_PER_PAGE 16 /* that verifying takes for as long as copying a page */

enum stage { COPYING, SEALING, VERIFYING, DONE, BROKEN };

struct commitlog_backup {
    struct commitlog *log;
    enum stage stage;
    int fd; /* of the copy, which nobody else opens but through us */
    struct logfile copy;
    sqlite3_backup *pages;
    struct commitlog_cursor cursor;
};

/* ---- backup ---------------------------------------------------------------------------------------- */

static int copy_error(struct commitlog_backup *b, int rc, struct errmsg *msg)
{
    sqlite3_backup_finish(b->pages); /* tells the target what happened */
    b->pages = NULL;
    return logfile_error(&b->copy, rc, msg, "copy the log");
}

static int start_copy(struct commitlog_backup *b, struct errmsg *msg)
{
    char path[LOG_PATH_MAX];

    b->fd = logdir_make_file(&b->log->dir, LOG_BACKUP_NAME, msg);
    if (b->fd < 0)
        return b->fd;
    int r = logdir_path(&b->log->dir, LOG_BACKUP_NAME, path, msg);
    if (r == 0)
        r = logfile_open(&b->copy, path, LOGFILE_COPY, msg);
    if (r < 0)
        return r;
    b->pages = sqlite3_backup_init(b->copy.db, "main", b->log->file.db, "main");
    return b->pages ? 0 : copy_error(b, sqlite3_errcode(b->copy.db), msg);
}

int commitlog_backup_begin(struct commitlog_backup **ret, struct commitlog *log, struct errmsg *msg)
{
    if (log->has_backup)
        return fail(msg, SKADE_EBUSY, "%s: a backup is under way: try again when it is done", log->file.path);
    struct commitlog_backup *b = calloc(1, sizeof *b);
    if (!b)
        return fail(msg, -ENOMEM, "%s: no memory for a backup", log->file.path);
    b->log = log;
    b->fd = -1;
    log->has_backup = true;
    int r = start_copy(b, msg);
    if (r < 0) {
        commitlog_backup_end(b);
        return r;
    }
    *ret = b;
    return 0;
}

static int copy_some(struct commitlog_backup *b, int pages, struct errmsg *msg)
{
    int simulated = FAILPOINT("log.backup");
    int rc = simulated == 0         ? sqlite3_backup_step(b->pages, pages)
             : simulated == -ENOSPC ? SQLITE_FULL
                                    : SQLITE_IOERR;
    if (rc != SQLITE_OK && rc != SQLITE_DONE)
        return copy_error(b, rc, msg);
    /* Start writing to the disk now, so that the fsync at the end is short. */
    sync_file_range(b->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    if (rc == SQLITE_DONE)
        b->stage = SEALING;
    return 1;
}

static int finish_pages(struct commitlog_backup *b, struct errmsg *msg)
{
    int rc = sqlite3_backup_finish(b->pages);

    b->pages = NULL;
    int r = rc == SQLITE_OK ? 0 : copy_error(b, rc, msg);
    logfile_close(&b->copy);
    return r;
}

/* Open it as a log of its own, seal it, and reopen it for reading. */
static int seal(struct commitlog_backup *b, struct errmsg *msg)
{
    char path[LOG_PATH_MAX];
    int r = finish_pages(b, msg);

    if (r == 0)
        r = logdir_path(&b->log->dir, LOG_BACKUP_NAME, path, msg);
    if (r == 0)
        r = logfile_open(&b->copy, path, LOGFILE_OWN, msg);
    if (r == 0)
        r = logfile_inspect(&b->copy, msg);
    if (r == 0)
        r = logfile_settle(&b->copy, LOGFILE_SYNC_OFF, msg);
    if (r == 0)
        r = logfile_seal(&b->copy, msg);
    logfile_close(&b->copy);
    /* An error of writing back shows here, and not as wrong bytes in somebody's archive. */
    if (r == 0 && fsync(b->fd) < 0)
        r = logdir_fail(errno, msg, path, "sync the copy");
    if (r == 0)
        r = logfile_open(&b->copy, path, LOGFILE_SEALED, msg);
    if (r == 0)
        r = logfile_inspect(&b->copy, msg);
    if (r < 0)
        return r;
    b->cursor = commitlog_start(&b->copy.meta.pub);
    b->stage = VERIFYING;
    return 1;
}

static int verify_some(struct commitlog_backup *b, int pages, struct errmsg *msg)
{
    int r = logfile_read(&b->copy, &b->cursor, (size_t)pages * ROWS_PER_PAGE, SIZE_MAX, NULL, NULL, msg);
    if (r != 0)
        return r;
    logfile_close(&b->copy);
    logdir_remove_file(&b->log->dir, LOG_BACKUP_NAME); /* the descriptor keeps it */
    b->stage = DONE;
    return 0;
}

int commitlog_backup_step(struct commitlog_backup *b, int pages, struct errmsg *msg)
{
    int r;

    assert(pages > 0);
    assert(b->stage != DONE && b->stage != BROKEN);
    if (b->stage == COPYING)
        r = copy_some(b, pages, msg);
    else if (b->stage == SEALING)
        r = seal(b, msg);
    else
        r = verify_some(b, pages, msg);
    if (r < 0)
        b->stage = BROKEN;
    return r;
}

int commitlog_backup_fd(const struct commitlog_backup *b)
{
    assert(b->stage == DONE);
    return b->fd;
}

const struct commitlog_meta *commitlog_backup_meta(const struct commitlog_backup *b)
{
    assert(b->stage == DONE);
    return &b->copy.meta.pub;
}

void commitlog_backup_end(struct commitlog_backup *b)
{
    if (!b)
        return;
    sqlite3_backup_finish(b->pages);
    logfile_close(&b->copy);
    if (b->stage != DONE)
        logdir_remove_file(&b->log->dir, LOG_BACKUP_NAME);
    if (b->fd >= 0)
        close(b->fd);
    b->log->has_backup = false;
    free(b);
}

/* ---- checking a file ------------------------------------------------------------------------------- */

/* Split the real path of FILE into the directory that is locked and the name in it. */
static int find_file(const char *file, struct logdir *dir, char path[LOG_PATH_MAX], struct errmsg *msg)
{
    char *real = realpath(file, NULL);
    struct stat st;

    if (!real || stat(real, &st) < 0) {
        int error = errno;
        free(real);
        return logdir_fail(error, msg, file, "look at it");
    }
    int r = 0;
    char *slash = strrchr(real, '/');
    if (!S_ISREG(st.st_mode))
        r = fail(msg, SKADE_EFOREIGN, "%s: is no plain file", file);
    else if (st.st_size == 0)
        r = fail(msg, SKADE_EDAMAGED, "%s: is empty, which a log never is: take another backup", file);
    else if (strlen(real) >= LOG_PATH_MAX)
        r = fail(msg, SKADE_EINPUT, "the path is too long for SQLite: %s", file);
    if (r == 0) {
        strcpy(path, real);
        *slash = 0;
        r = logdir_open(dir, slash == real ? "/" : real, LOGDIR_LOOK, msg);
    }
    free(real);
    return r;
}

/* A rollback journal beside it would be played back into it. */
static int check_journal(const char *path, struct errmsg *msg)
{
    char journal[LOG_PATH_MAX + 16];
    struct stat st;

    snprintf(journal, sizeof journal, "%s-journal", path);
    if (lstat(journal, &st) == 0)
        return fail(msg, SKADE_EFOREIGN, "%s: skade never makes a rollback journal: move it away", journal);
    return 0;
}

/* Open the file at PATH as if it had no write-ahead log; F->wal tells whether it has one. */
static int open_alone(struct logfile *f, const char *path, struct errmsg *msg)
{
    int r = check_journal(path, msg);
    return r == 0 ? logfile_open(f, path, LOGFILE_SEALED, msg) : r;
}

/* Open the file at PATH for reading, with its write-ahead log if it has one, and inspect it. */
static int open_to_look(struct logfile *f, const char *path, struct errmsg *msg)
{
    int r = open_alone(f, path, msg);

    if (r < 0)
        return r;
    if (f->wal == WAL_USED) {
        logfile_close(f);
        return logfile_open_judged(f, path, LOGFILE_LOOK, true, msg);
    }
    r = logfile_inspect(f, msg);
    if (r < 0)
        logfile_close(f);
    return r;
}

static int check(const char *path, bool wal_may_be_lost, struct commitlog_meta *ret, struct errmsg *msg)
{
    struct logfile f;
    int r = open_to_look(&f, path, msg);

    if (r < 0)
        return r;
    r = wal_may_be_lost ? 0 : logfile_check_wal(&f, msg);
    if (r == 0)
        r = logfile_verify(&f, msg);
    if (r == 0 && ret)
        *ret = f.meta.pub;
    logfile_close(&f);
    return r;
}

int commitlog_check_file(const char *file, struct commitlog_meta *ret, struct errmsg *msg)
{
    struct logdir dir;
    char path[LOG_PATH_MAX];
    int r = find_file(file, &dir, path, msg);

    if (r < 0)
        return r;
    r = check(path, false, ret, msg);
    logdir_close(&dir);
    return r;
}

/* ---- restoring ------------------------------------------------------------------------------------- */

static int copy_bytes(int from, int to, const char *path, struct errmsg *msg)
{
    static const size_t chunk = 1 << 20;
    char *buf = malloc(chunk);
    ssize_t n = buf ? 1 : -1;

    while (n > 0) {
        n = read(from, buf, chunk);
        for (ssize_t done = 0, w = 0; n > 0 && done < n; done += w)
            if ((w = write(to, buf + done, (size_t)(n - done))) < 0)
                n = w;
    }
    if (n == 0)
        n = fsync(to);
    int error = errno;
    free(buf);
    return n < 0 ? logdir_fail(error, msg, path, "copy it") : 0;
}

/* The bytes of PATH become DIR's new log, not yet named.  Nobody in this process has PATH open as a
 * database. */
static int copy_file(const struct logdir *dir, const char *path, struct errmsg *msg)
{
    int from = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (from < 0)
        return logdir_fail(errno, msg, path, "open it");
    int to = logdir_make_file(dir, LOG_NEW_NAME, msg);
    int r = to < 0 ? to : copy_bytes(from, to, path, msg);
    if (to >= 0)
        close(to);
    close(from);
    return r;
}

/* The copy at PATH becomes a log that nobody takes for the one that it was copied from. */
static int renew(const char *path, bool wal_may_be_lost, struct commitlog_meta *ret, struct errmsg *msg)
{
    struct logfile f;
    int r = logfile_open(&f, path, LOGFILE_OWN, msg);

    if (r < 0)
        return r;
    r = logfile_inspect(&f, msg);
    if (r == 0 && !wal_may_be_lost)
        r = logfile_check_wal(&f, msg);
    if (r == 0)
        r = logfile_verify(&f, msg);
    if (r == 0)
        r = logfile_settle(&f, LOGFILE_SYNC_FULL, msg);
    if (r == 0)
        r = logfile_rename(&f, msg);
    if (r == 0)
        r = logfile_seal(&f, msg);
    if (r == 0 && ret)
        *ret = f.meta.pub;
    logfile_close(&f);
    return r;
}

static int renew_new(const struct logdir *dir, struct commitlog_meta *ret, struct errmsg *msg)
{
    char path[LOG_PATH_MAX];
    int r = logdir_path(dir, LOG_NEW_NAME, path, msg);
    return r == 0 ? renew(path, true, ret, msg) : r;
}

static int check_source(const char *path, struct errmsg *msg)
{
    struct logfile f;
    int r = open_alone(&f, path, msg);

    if (r < 0)
        return r;
    bool has_wal = f.wal == WAL_USED;
    logfile_close(&f);
    if (has_wal)
        return fail(msg, SKADE_EINPUT,
                    "%s: has a write-ahead log beside it, so it isn't a backup but a log in use: start a "
                    "daemon on it "
                    "and take a backup",
                    path);
    return check(path, true, NULL, msg);
}

static int restore_into(const struct logdir *dir, const char *path, struct commitlog_meta *ret,
                        struct errmsg *msg)
{
    int r = logdir_has_log(dir, msg);

    if (r > 0)
        r = fail(msg, SKADE_EEXISTS, "%s: has a log already: move it away first", dir->path);
    if (r == 0)
        r = check_source(path, msg);
    if (r == 0)
        r = copy_file(dir, path, msg);
    if (r == 0)
        r = renew_new(dir, ret, msg);
    if (r == 0)
        r = logdir_publish(dir, msg);
    if (r < 0)
        logdir_remove_file(dir, LOG_NEW_NAME);
    return r;
}

int commitlog_restore(const char *dirname, const char *from, struct commitlog_meta *ret, struct errmsg *msg)
{
    struct logdir dir, source;
    char path[LOG_PATH_MAX];
    int r = find_file(from, &source, path, msg);

    if (r < 0)
        return r;
    logdir_close(&source);
    r = logdir_open(&dir, dirname, LOGDIR_OWN, msg);
    if (r < 0)
        return r;
    r = restore_into(&dir, path, ret, msg);
    logdir_close(&dir);
    return r;
}

int commitlog_renew_file(const char *file, struct commitlog_meta *ret, struct errmsg *msg)
{
    struct logdir dir;
    char path[LOG_PATH_MAX];
    int r = find_file(file, &dir, path, msg);

    if (r < 0)
        return r;
    r = check_journal(path, msg);
    if (r == 0)
        r = renew(path, false, ret, msg);
    logdir_close(&dir);
    return r;
}
