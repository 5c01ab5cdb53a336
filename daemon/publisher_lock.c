/*
 * One daemon for each instance: flock() on skade.<uid>.<instance>.v1.lock in the shared-memory directory.
 *
 * It is there and not in the run directory, so that two containers that share /dev/shm but not /run can't
 * both win.  flock() and not fcntl(): a POSIX lock is lost as soon as the process closes any other descriptor
 * of the file.  The file is never removed by us; if somebody else removed it, the lock on what has no name
 * any more is worth nothing: so after locking the name is looked up again.  Pids are told to people and
 * decide nothing.
 */
#include "publisher_internal.h"

#include "failpoint.h"
#include "lockholder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define LOCK_TRIES 100

/* With O_EXCL and never with O_CREAT alone: fs.protected_regular makes that fail on another user's file in
 * a sticky directory with a misleading EACCES. */
static int create_lock(const struct publisher *p, const char *name, struct errmsg *msg)
{
    int fd = openat(p->dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return -EAGAIN;
    if (fd < 0)
        return fail(msg, -errno, "cannot create %s/%s: %s", p->options.place.dir, name,
                    strerrordesc_np(errno));
    fchmod(fd, 0600); /* whatever the umask is */
    return fd;
}

/* The lock file's descriptor; -EAGAIN when it came or went meanwhile. */
static int open_lock(const struct publisher *p, const char *name, struct errmsg *msg)
{
    int fd = publisher_open_ours(p, name, msg);
    return fd == -ENOENT ? create_lock(p, name, msg) : fd;
}

static int running(const struct publisher *p, const struct stat *st, struct errmsg *msg)
{
    const struct shm_place *place = &p->options.place;
    long pid = lock_holder(st);

    if (pid)
        return fail(msg, SKADE_ERUNNING, "a daemon of instance %s is already running in %s: process %ld",
                    place->instance, place->dir, pid);
    return fail(msg, SKADE_ERUNNING,
                "a daemon of instance %s is already running in %s, in a container or out of sight",
                place->instance, place->dir);
}

/* Lock FD and see whether it still has the name.  0; -EAGAIN when it hasn't; SKADE_ERUNNING. */
static int lock_file(const struct publisher *p, int fd, const char *name, struct errmsg *msg)
{
    struct stat held, named;

    if (fstat(fd, &held) < 0)
        return fail(msg, -errno, "cannot look at %s/%s: %s", p->options.place.dir, name,
                    strerrordesc_np(errno));
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK)
            return running(p, &held, msg);
        if (errno != EINTR)
            return fail(msg, -errno, "cannot lock %s/%s: %s", p->options.place.dir, name,
                        strerrordesc_np(errno));
    }
    bool same = fstatat(p->dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_dev == held.st_dev &&
                named.st_ino == held.st_ino;
    return same ? 0 : -EAGAIN;
}

int publisher_lock(const struct publisher *p, struct errmsg *msg)
{
    char name[SHM_NAME_MAX];

    shm_name(name, &p->options.place, SHM_LOCK, 0, 0);
    for (int i = 0; i < LOCK_TRIES; i++) {
        int fd = open_lock(p, name, msg);
        if (fd == -EAGAIN)
            continue;
        if (fd < 0)
            return fd;
        int r = FAILPOINT("lock.opened");
        if (r == 0)
            r = lock_file(p, fd, name, msg);
        if (r == 0)
            return fd;
        close(fd);
        if (r != -EAGAIN)
            return r;
    }
    return fail(msg, -EAGAIN, "%s/%s is replaced again and again", p->options.place.dir, name);
}
