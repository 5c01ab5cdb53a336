#include "segmap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

/* ---- whose is it? -------------------------------------------------------------------------------------- */

#define OVERFLOW_UID 65534

/* Every uid that a user namespace doesn't map looks like the overflow uid, so two strangers look the same.
 * It is a real uid only where all uids are mapped to themselves. */
static bool overflow_uid_is_real(void)
{
    char map[64] = "";
    unsigned long first, to, count;

    int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, map, sizeof map - 1);
    close(fd);
    return n > 0 && sscanf(map, "%lu %lu %lu", &first, &to, &count) == 3 && first == 0 && to == 0 &&
           count == UINT32_MAX;
}

static bool owner_is_trusted(const struct shm_place *place, uid_t owner)
{
    if (owner != 0 && owner != place->uid)
        return false;
    return owner != OVERFLOW_UID || overflow_uid_is_real();
}

static int check_file(const struct stat *st, const struct shm_place *place, const char *name, size_t min_size,
                      size_t max_size, struct errmsg *msg)
{
    if (!S_ISREG(st->st_mode))
        return fail(msg, SKADE_EFOREIGN, "%s/%s is not a regular file", place->dir, name);
    if (!owner_is_trusted(place, st->st_uid))
        return fail(msg, SKADE_EFOREIGN, "%s/%s belongs to uid %u; only uid %u and root are trusted",
                    place->dir, name, st->st_uid, place->uid);
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return fail(msg, SKADE_EFOREIGN, "%s/%s can be written by others (mode %04o)", place->dir, name,
                    st->st_mode & 07777);
    if (st->st_size < 0 || (uint64_t)st->st_size < min_size || (uint64_t)st->st_size > max_size)
        return fail(msg, SKADE_EDAMAGED, "%s/%s has %lld bytes, expected %zu to %zu", place->dir, name,
                    (long long)st->st_size, min_size, max_size);
    return 0;
}

/* ---- mapping ------------------------------------------------------------------------------------------- */

/* Map at a 2 MiB boundary, so that the kernel can use huge pages: reserve more addresses than needed, put
 * the file into them, give the rest back. */
static void *map_aligned(int fd, size_t size, int protection)
{
    size_t pages = align_up(size, (uint64_t)sysconf(_SC_PAGESIZE));
    size_t reserved = pages + SEGMAP_HUGE_PAGE;

    uint8_t *room = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return MAP_FAILED;
    size_t before = (size_t) - (uintptr_t)room % SEGMAP_HUGE_PAGE;
    void *base = mmap(room + before, size, protection, MAP_SHARED | MAP_FIXED, fd, 0);
    if (base == MAP_FAILED) {
        int error = errno;
        munmap(room, reserved);
        errno = error;
        return MAP_FAILED;
    }
    if (before)
        munmap(room, before);
    munmap(room + before + pages, SEGMAP_HUGE_PAGE - before);
    return base;
}

void *segmap_map(int fd, size_t size, int protection)
{
    void *base = size < SEGMAP_HUGE_PAGE ? mmap(NULL, size, protection, MAP_SHARED, fd, 0)
                                         : map_aligned(fd, size, protection);
    return base == MAP_FAILED ? NULL : base;
}

/* Before Linux 5.14: let the kernel read a byte of each page on our behalf.  Where we would get SIGBUS it
 * gets EFAULT.  (mincore() says that all is well, and read(2) doesn't go through the map.)  A sandbox may
 * forbid that; the writer reserved and verified every page, so then we go without. */
static int touch_pages(const uint8_t *base, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char byte;

    for (size_t off = 0; off < size; off += page) {
        struct iovec to = { &byte, 1 };
        struct iovec from = { (void *)(base + off), 1 };
        if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) < 0)
            return errno == EFAULT ? -EFAULT : 0;
    }
    return 0;
}

static int populate(const uint8_t *base, size_t size)
{
    int r;

    do
        r = madvise((void *)base, size, MADV_POPULATE_READ);
    while (r < 0 && errno == EINTR);
    if (r == 0)
        return 0;
    return errno == EINVAL ? touch_pages(base, size) : -errno;
}

int segmap_fd(struct segmap *ret, int fd, const struct shm_place *place, const char *name, size_t min_size,
              size_t max_size, struct errmsg *msg)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return fail(msg, -errno, "cannot look at %s/%s: %s", place->dir, name, strerrordesc_np(errno));
    int r = check_file(&st, place, name, min_size, max_size, msg);
    if (r < 0)
        return r;
    struct segmap m = { .size = (size_t)st.st_size, .dev = st.st_dev, .ino = st.st_ino };
    void *base = segmap_map(fd, m.size, PROT_READ);
    if (!base)
        return fail(msg, -errno, "cannot map %s/%s: %s", place->dir, name, strerrordesc_np(errno));
    m.base = base;
    r = populate(m.base, m.size);
    if (r < 0) {
        segmap_close(&m);
        return fail(msg, r == -ENOMEM ? r : SKADE_EDAMAGED, "%s/%s has pages that cannot be read: %s",
                    place->dir, name, strerrordesc_np(-r));
    }
    madvise(base, m.size, MADV_DONTDUMP); /* advice: a core file that is too large is no reason to fail */
    *ret = m;
    return 0;
}

/* What open() fails with when something that is no file stands at the name. */
static bool is_no_file(int error)
{
    return error == ELOOP || error == ENXIO || error == ENODEV;
}

static int open_failed(int error, const char *path, struct errmsg *msg)
{
    if (error == ENOENT)
        return fail(msg, -ENOENT, "there is no %s", path);
    if (is_no_file(error))
        return fail(msg, SKADE_EFOREIGN, "%s is not a regular file", path);
    return fail(msg, -error, "cannot open %s: %s", path, strerrordesc_np(error));
}

int segmap_open(struct segmap *ret, const struct shm_place *place, const char *name, size_t min_size,
                size_t max_size, struct errmsg *msg)
{
    char path[SHM_DIR_MAX + SHM_NAME_MAX];

    snprintf(path, sizeof path, "%s/%s", place->dir, name);
    /* O_NONBLOCK: a FIFO that somebody put there must not make us wait for its writer. */
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return open_failed(errno, path, msg);
    int r = segmap_fd(ret, fd, place, name, min_size, max_size, msg);
    close(fd);
    return r;
}

void segmap_close(struct segmap *m)
{
    if (m->base)
        munmap((void *)m->base, m->size);
    m->base = NULL;
}
