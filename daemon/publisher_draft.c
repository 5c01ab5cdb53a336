/*
 * Files before they have a name, and what may be done to a name.
 *
 * A file is made without a name (O_TMPFILE), its memory reserved, filled, and linked when it is complete: so
 * a reader never sees half of it and a crash leaves nothing behind.  Reserving comes before mapping: on a
 * full file system ftruncate() succeeds and the first touch is SIGBUS, while posix_fallocate() says so.
 */
#include "publisher_internal.h"

#include "failpoint.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RESERVE_STEP ((uint64_t)64 << 20)
#define LINK_TRIES 10

/* ---- whose is it? -------------------------------------------------------------------------------------- */

bool publisher_owns(const struct publisher *p, const struct stat *st)
{
    uid_t me = geteuid();
    return S_ISREG(st->st_mode) && (st->st_uid == me || (me == 0 && st->st_uid == p->options.place.uid));
}

static const char *kind_of_file(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return "a file";
    case S_IFDIR:
        return "a directory";
    case S_IFLNK:
        return "a symbolic link";
    case S_IFIFO:
        return "a FIFO";
    case S_IFSOCK:
        return "a socket";
    default:
        return "a device";
    }
}

int publisher_foreign(const struct publisher *p, const char *name, struct errmsg *msg)
{
    const char *dir = p->options.place.dir;
    struct stat st;

    if (fstatat(p->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return fail(msg, SKADE_EFOREIGN, "%s/%s was replaced by something that is not this daemon's", dir,
                    name);
    return fail(msg, SKADE_EFOREIGN,
                "%s/%s is %s of uid %u, mode %04o, and not a file of this daemon's (uid %u): remove it, or "
                "use another "
                "--shm-dir or --instance",
                dir, name, kind_of_file(st.st_mode), st.st_uid, st.st_mode & 07777, geteuid());
}

/* Opening failed with ERROR: because the file is somebody else's? */
static int open_failed(const struct publisher *p, const char *name, int error, struct errmsg *msg)
{
    struct stat st;

    if (error == ENOENT)
        return -ENOENT;
    if (fstatat(p->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !publisher_owns(p, &st))
        return publisher_foreign(p, name, msg);
    return fail(msg, -error, "cannot open %s/%s: %s; it must be readable and writable by uid %u",
                p->options.place.dir, name, strerrordesc_np(error), geteuid());
}

int publisher_open_ours(const struct publisher *p, const char *name, struct errmsg *msg)
{
    struct stat st;

    int fd = openat(p->dir_fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return open_failed(p, name, errno, msg);
    /* The descriptor decides and not the path, which may name something else by now. */
    if (fstat(fd, &st) < 0 || !publisher_owns(p, &st)) {
        close(fd);
        return publisher_foreign(p, name, msg);
    }
    return fd;
}

/* ---- making -------------------------------------------------------------------------------------------- */

static int no_room(const struct publisher *p, uint64_t size, struct errmsg *msg)
{
    return fail(msg, -ENOSPC,
                "no room for %llu bytes in %s, %llu are free: make it larger (docker --shm-size, mount -o "
                "remount,size=), or use another --shm-dir",
                (unsigned long long)size, p->options.place.dir, (unsigned long long)publisher_room(p));
}

/* A tmpfs limits the number of its files, too, and of their links. */
static int no_more_files(const struct publisher *p, struct errmsg *msg)
{
    return fail(msg, -ENOSPC,
                "no room for another file in %s: allow more (mount -o remount,nr_inodes=), or use another "
                "--shm-dir",
                p->options.place.dir);
}

/* Step by step: a signal makes the kernel undo a whole step, and a small one gets done before the next
 * signal. */
static int reserve_steps(int fd, uint64_t size)
{
    for (uint64_t off = 0; off < size;) {
        uint64_t step = size - off < RESERVE_STEP ? size - off : RESERVE_STEP;
        int error = posix_fallocate(fd, (off_t)off, (off_t)step);
        if (error == 0)
            off += step;
        else if (error != EINTR)
            return -error;
    }
    return 0;
}

static int reserve(const struct publisher *p, int fd, uint64_t size, struct errmsg *msg)
{
    int r = FAILPOINT("publish.reserve");

    /* Asked beforehand, since trying takes all memory that is left before it fails. */
    if (r == 0 && publisher_room(p) < size)
        r = -ENOSPC;
    if (r == 0)
        r = reserve_steps(fd, size);
    if (r == -ENOSPC || r == -EDQUOT)
        return no_room(p, size, msg);
    if (r < 0)
        return fail(msg, r, "cannot reserve %llu bytes in %s: %s", (unsigned long long)size,
                    p->options.place.dir, strerrordesc_np(-r));
    return 0;
}

char *draft_temp_name(char *name, struct publisher *p, uint64_t epoch)
{
    return shm_name(name, &p->options.place, SHM_TEMP, epoch, atomic_fetch_add(&p->temp, 1) + 1);
}

static bool lacks_unnamed_files(int error)
{
    return error == EOPNOTSUPP || error == EISDIR;
}

static int create(struct draft *d, struct publisher *p, uint64_t epoch)
{
    d->temp[0] = 0;
    d->fd = openat(p->dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (d->fd < 0 && lacks_unnamed_files(errno)) {
        draft_temp_name(d->temp, p, epoch);
        d->fd = openat(p->dir_fd, d->temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    }
    return d->fd < 0 ? -errno : 0;
}

int draft_make(struct draft *ret, struct publisher *p, uint64_t epoch, uint64_t size, struct errmsg *msg)
{
    struct draft d;

    int r = create(&d, p, epoch);
    if (r == -ENOSPC)
        return no_more_files(p, msg);
    if (r < 0)
        return fail(msg, r, "cannot make a file in %s: %s", p->options.place.dir, strerrordesc_np(-r));
    r = reserve(p, d.fd, size, msg);
    if (r < 0) {
        draft_drop(&d, p);
        return r;
    }
    *ret = d;
    return 0;
}

/* Pages of 2 MiB where the kernel gives them, whatever it was told about shared memory: a lookup that misses the cache
 * then doesn't wait for the address translation, too.  Only whole ones, so that no memory is lost; before the content
 * comes, since it would be copied.  Without them everything is as right. */
static void ask_for_huge_pages(void *base, size_t size)
{
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif
    size_t whole = size - size % SEGMAP_HUGE_PAGE;

    for (size_t off = 0; off < whole; off += SEGMAP_HUGE_PAGE)
        if (madvise((uint8_t *)base + off, SEGMAP_HUGE_PAGE, MADV_COLLAPSE) < 0 && errno != EAGAIN)
            return;
}

void *draft_map(const struct draft *d, size_t size)
{
    void *base = segmap_map(d->fd, size, PROT_READ | PROT_WRITE);

    if (base)
        ask_for_huge_pages(base, size);
    return base;
}

int draft_chmod(const struct draft *d, mode_t mode, gid_t group, struct errmsg *msg)
{
    if (mode & S_IRGRP && group != (gid_t)-1 && fchown(d->fd, (uid_t)-1, group) < 0)
        return fail(msg, -errno,
                    "cannot give shared memory to group %u: %s; the daemon's user must be a member", group,
                    strerrordesc_np(errno));
    if (fchmod(d->fd, mode) <
        0) /* not open()'s mode, which the umask cuts, and the umask is the whole process's */
        return fail(msg, -errno, "cannot set the mode of shared memory: %s", strerrordesc_np(errno));
    return 0;
}

/* ---- naming -------------------------------------------------------------------------------------------- */

/* Without /proc an unnamed file can be linked through its descriptor, which older kernels allow to root
 * only. */
static int link_unnamed(const struct draft *d, const struct publisher *p, const char *name)
{
    char self[40];

    snprintf(self, sizeof self, "/proc/self/fd/%d", d->fd);
    if (linkat(AT_FDCWD, self, p->dir_fd, name, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    if (errno != ENOENT)
        return -errno;
    return linkat(d->fd, "", p->dir_fd, name, AT_EMPTY_PATH) == 0 ? 0 : -errno;
}

static int link_as(const struct draft *d, const struct publisher *p, const char *name)
{
    if (!d->temp[0])
        return link_unnamed(d, p, name);
    return linkat(p->dir_fd, d->temp, p->dir_fd, name, 0) == 0 ? 0 : -errno;
}

/* Make room for a name that we want to give.  Nobody else may remove a file of ours from a sticky
 * directory, so what was looked at is what is unlinked. */
static int unlink_ours(const struct publisher *p, const char *name, struct errmsg *msg)
{
    struct stat st;

    if (fstatat(p->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (!publisher_owns(p, &st))
        return publisher_foreign(p, name, msg);
    if (unlinkat(p->dir_fd, name, 0) < 0 && errno != ENOENT)
        return fail(msg, -errno, "cannot remove %s/%s: %s", p->options.place.dir, name,
                    strerrordesc_np(errno));
    return 0;
}

int draft_link(const struct draft *d, const struct publisher *p, const char *name, struct errmsg *msg)
{
    int r = -EEXIST;

    for (int i = 0; i < LINK_TRIES && r == -EEXIST; i++) {
        r = link_as(d, p, name);
        int removed = r == -EEXIST ? unlink_ours(p, name, msg) : 0;
        if (removed < 0)
            return removed;
    }
    if (r == -ENOSPC)
        return no_more_files(p, msg);
    return r < 0 ? fail(msg, r, "cannot link %s/%s: %s", p->options.place.dir, name, strerrordesc_np(-r)) : 0;
}

int draft_keep(struct draft *d, const struct publisher *p)
{
    int fd = d->fd;

    if (d->temp[0])
        unlinkat(p->dir_fd, d->temp, 0);
    d->fd = -1;
    return fd;
}

void draft_drop(struct draft *d, const struct publisher *p)
{
    if (d->fd >= 0)
        close(draft_keep(d, p));
}
