#include "instancelock.h"

#include "lockholder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#define LOCK_TRIES 100
#define PATH_SIZE (OPTION_TEXT_MAX * 2 + 16)

static const char *lock_path(const struct config *c, char path[PATH_SIZE])
{
    snprintf(path, PATH_SIZE, "%s/%s.lock", c->run_dir.text, c->instance.text);
    return path;
}

bool instance_lock_is_named(const struct config *c, int fd)
{
    char path[PATH_SIZE];
    struct stat held, named;

    return fstat(fd, &held) == 0 && lstat(lock_path(c, path), &named) == 0 && named.st_dev == held.st_dev &&
           named.st_ino == held.st_ino;
}

static int running(const struct config *c, int fd, struct errmsg *msg)
{
    struct stat st;
    char process[32] = "out of sight";
    long pid = fstat(fd, &st) == 0 ? lock_holder(&st) : 0;

    if (pid)
        snprintf(process, sizeof process, "process %ld", pid);
    return fail(
        msg, SKADE_ERUNNING,
        "a daemon of instance %s already has the run directory %s (%s); choose another instance or run_dir",
        c->instance.text, c->run_dir.text, process);
}

/* 0, SKADE_ERUNNING, -errno. */
static int lock(const struct config *c, int fd, struct errmsg *msg)
{
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK)
            return running(c, fd, msg);
        if (errno != EINTR)
            return fail(msg, -errno, "cannot lock %s/%s.lock: %s", c->run_dir.text, c->instance.text,
                        strerror(errno));
    }
    return 0;
}

int instance_lock(const struct config *c, struct errmsg *msg)
{
    char path[PATH_SIZE];

    /* Whoever removed it between open() and flock() made our lock worth nothing: try again. */
    for (int i = 0; i < LOCK_TRIES; i++) {
        int fd = open(lock_path(c, path), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        if (fd < 0)
            return fail(msg, -errno, "cannot open %s: %s", path, strerror(errno));
        int r = lock(c, fd, msg);
        if (r == 0 && instance_lock_is_named(c, fd))
            return fd;
        close(fd);
        if (r < 0)
            return r;
    }
    return fail(msg, -EAGAIN, "%s is replaced again and again", path);
}
