/*
 * The commit log's directory: who may use it, and which files in it SQLite may touch.
 *
 * SQLite follows what it finds: a symlink, a second link, a rollback journal that somebody put beside the
 * database.  So everything is looked at first, with stat() and never with open(): closing a descriptor of
 * the database file would drop the lock that SQLite holds on it in this process.
 *
 * The lock is flock() on the directory itself.  It is the same for every path that leads there (symlinks,
 * bind mounts), it needs no file, dies with the process, and no stray close() of a database file can drop
 * it.
 */
#include "commitlog_file.h"

#include "lockholder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

bool logdir_means_full(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

int logdir_fail(int error, struct errmsg *msg, const char *path, const char *doing)
{
    return fail(msg, logdir_means_full(error) ? SKADE_EFULL : -error, "%s: can't %s: %s", path, doing,
                error_text(-error));
}

/* 1 made, 0 was there. */
static int make_directory(const char *path, struct errmsg *msg)
{
    if (mkdir(path, 0700) == 0)
        return 1;
    if (errno == EEXIST)
        return 0;
    if (errno == ENOENT || errno == ENOTDIR)
        return fail(msg, SKADE_EINPUT,
                    "%s: can't make the log directory, its parent is missing: make that first", path);
    return logdir_fail(errno, msg, path, "make the log directory");
}

/* A new directory is durable when its parent is. */
static int sync_parent(const struct logdir *d, struct errmsg *msg)
{
    int fd = openat(d->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return logdir_fail(errno, msg, d->path, "open the parent of the log directory");
    int r = fsync(fd);
    if (r < 0)
        r = logdir_fail(errno, msg, d->path, "sync the parent of the log directory");
    close(fd);
    return r;
}

/* Locks and fsync of a network file system don't hold what the log promises. */
static int check_file_system(const struct logdir *d, struct errmsg *msg)
{
    static const struct {
        unsigned long type;
        const char *name;
    } network[] = {
        { 0x6969, "NFS" },     { 0x517b, "SMB" },     { 0xff534d42, "CIFS" },
        { 0xfe534d42, "SMB" }, { 0x5346414f, "AFS" },
    };
    struct statfs fs;

    if (fstatfs(d->fd, &fs) < 0)
        return logdir_fail(errno, msg, d->path, "look at the file system");
    for (size_t i = 0; i < ARRAY_SIZE(network); i++)
        if (((unsigned long)fs.f_type & 0xffffffff) == network[i].type)
            return fail(msg, SKADE_EINPUT,
                        "%s: is on a network file system (%s): put the log on a local disk", d->path,
                        network[i].name);
    return 0;
}

static int check_directory(const struct logdir *d, struct errmsg *msg)
{
    struct stat st;

    if (fstat(d->fd, &st) < 0)
        return logdir_fail(errno, msg, d->path, "look at the log directory");
    if (st.st_uid != geteuid())
        return fail(msg, SKADE_EFOREIGN, "%s: belongs to uid %u, not to %u: chown it, or run as its owner",
                    d->path, (unsigned)st.st_uid, (unsigned)geteuid());
    if (st.st_mode & 022)
        return fail(msg, SKADE_EFOREIGN, "%s: others may write to it (mode %04o): chmod 700 it", d->path,
                    (unsigned)st.st_mode & 07777);
    return check_file_system(d, msg);
}

static int running(const struct logdir *d, struct errmsg *msg)
{
    struct stat st;
    long pid = fstat(d->fd, &st) == 0 ? lock_holder(&st) : 0;

    if (pid)
        return fail(msg, SKADE_ERUNNING, "%s: process %ld has this log open: stop it first", d->path, pid);
    return fail(msg, SKADE_ERUNNING,
                "%s: another process, in a container or out of sight, has this log open: stop it first",
                d->path);
}

static int lock_directory(const struct logdir *d, enum logdir_use use, struct errmsg *msg)
{
    while (flock(d->fd, (use == LOGDIR_OWN ? LOCK_EX : LOCK_SH) | LOCK_NB) < 0) {
        if (errno == EINTR)
            continue;
        if (errno == EWOULDBLOCK)
            return running(d, msg);
        return logdir_fail(errno, msg, d->path, "lock the log directory");
    }
    return 0;
}

/* SQLite refuses symlinks anywhere in a path (it is told to), so it gets the path behind them. */
static int resolve(const char *path, char ret[LOG_PATH_MAX], struct errmsg *msg)
{
    char real[PATH_MAX];

    if (!realpath(path, real))
        return logdir_fail(errno, msg, path, "find the directory");
    if (strlen(real) + sizeof LOG_NEW_NAME + 1 > LOG_PATH_MAX)
        return fail(msg, SKADE_EINPUT,
                    "the log directory's path is too long for SQLite (%zu bytes, at most %zu): %s",
                    strlen(real), LOG_PATH_MAX - sizeof LOG_NEW_NAME - 1, path);
    strcpy(ret, real);
    return 0;
}

int logdir_open(struct logdir *d, const char *path, enum logdir_use use, struct errmsg *msg)
{
    int made = 0;

    d->fd = -1;
    if (use == LOGDIR_OWN && (made = make_directory(path, msg)) < 0)
        return made;
    int r = resolve(path, d->path, msg);
    if (r < 0)
        return r;
    d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->fd < 0)
        return logdir_fail(errno, msg, d->path, "open the directory");
    r = use == LOGDIR_OWN ? check_directory(d, msg) : 0;
    if (r == 0)
        r = lock_directory(d, use, msg);
    if (r == 0 && made)
        r = sync_parent(d, msg);
    if (r < 0)
        logdir_close(d);
    return r;
}

void logdir_close(struct logdir *d)
{
    if (d->fd >= 0)
        close(d->fd);
    d->fd = -1;
}

int logdir_path(const struct logdir *d, const char *name, char ret[LOG_PATH_MAX], struct errmsg *msg)
{
    int len = snprintf(ret, LOG_PATH_MAX, "%s%s%s", d->path, d->path[1] ? "/" : "", name);
    if (len < 0 || len >= LOG_PATH_MAX)
        return fail(msg, SKADE_EINPUT, "the path is too long for SQLite: %s/%s", d->path, name);
    return 0;
}

static const char *kind_of_file(mode_t mode)
{
    return S_ISDIR(mode)    ? "a directory"
           : S_ISLNK(mode)  ? "a symbolic link"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

/* 1: NAME is a plain file of this user's alone, *RET says more; 0: there is none; negative: it is
 * something else. */
static int look_at(const struct logdir *d, const char *name, struct stat *ret, struct errmsg *msg)
{
    if (fstatat(d->fd, name, ret, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno == ENOENT)
            return 0;
        return logdir_fail(errno, msg, d->path, "look at the log's files");
    }
    if (!S_ISREG(ret->st_mode))
        return fail(msg, SKADE_EFOREIGN, "%s/%s: is %s, not a file: move it away", d->path, name,
                    kind_of_file(ret->st_mode));
    if (ret->st_uid != geteuid())
        return fail(msg, SKADE_EFOREIGN, "%s/%s: belongs to uid %u, not to %u: chown it, or run as its owner",
                    d->path, name, (unsigned)ret->st_uid, (unsigned)geteuid());
    if (ret->st_nlink != 1)
        return fail(msg, SKADE_EFOREIGN,
                    "%s/%s: has %lu names, each with a write-ahead log of its own: remove the other links",
                    d->path, name, (unsigned long)ret->st_nlink);
    if (ret->st_mode & 077)
        return fail(msg, SKADE_EFOREIGN, "%s/%s: others may use it (mode %04o): chmod 600 it", d->path, name,
                    (unsigned)ret->st_mode & 07777);
    return 1;
}

int logdir_has_log(const struct logdir *d, struct errmsg *msg)
{
    struct stat db, wal, journal;
    int has_db = look_at(d, LOG_NAME, &db, msg);
    int has_wal = has_db < 0 ? has_db : look_at(d, LOG_NAME "-wal", &wal, msg);
    int has_journal = has_wal < 0 ? has_wal : look_at(d, LOG_NAME "-journal", &journal, msg);

    if (has_journal < 0)
        return has_journal;
    if (has_journal)
        return fail(msg, SKADE_EFOREIGN,
                    "%s/%s-journal: skade never makes one, and this would change the log: move it away",
                    d->path, LOG_NAME);
    if (has_wal && !has_db)
        return fail(msg, SKADE_EDAMAGED,
                    "%s/%s: is missing, but %s-wal is there: put it back, or move that away too", d->path,
                    LOG_NAME, LOG_NAME);
    if (has_db && db.st_size == 0)
        return fail(msg, SKADE_EDAMAGED,
                    "%s/%s: is empty, which a log never is: restore a backup, or remove it to begin anew",
                    d->path, LOG_NAME);
    return has_db;
}

void logdir_remove_file(const struct logdir *d, const char *name)
{
    static const char *const beside[] = { "", "-wal", "-journal", "-shm" };
    char file[64];

    for (size_t i = 0; i < ARRAY_SIZE(beside); i++) {
        snprintf(file, sizeof file, "%s%s", name, beside[i]);
        unlinkat(d->fd, file, 0); /* usually there is none */
    }
}

int logdir_make_file(const struct logdir *d, const char *name, struct errmsg *msg)
{
    logdir_remove_file(d, name);
    int fd = openat(d->fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && fchmod(fd, 0600) == 0) /* whatever the umask is */
        return fd;
    int r = logdir_fail(errno, msg, d->path, "make a new file");
    if (fd >= 0) {
        close(fd);
        logdir_remove_file(d, name);
    }
    return r;
}

int logdir_publish(const struct logdir *d, struct errmsg *msg)
{
    if (renameat(d->fd, LOG_NEW_NAME, d->fd, LOG_NAME) < 0)
        return logdir_fail(errno, msg, d->path, "name the new log");
    if (fsync(d->fd) < 0)
        return logdir_fail(errno, msg, d->path, "sync the log directory");
    return 0;
}
