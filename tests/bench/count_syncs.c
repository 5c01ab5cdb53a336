/*
 * Loaded into the daemon before the C library (LD_PRELOAD): counts the times that it waits for the disk, in a file that the
 * benchmark has mapped.  The daemon itself doesn't know: SQLite makes these calls.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic uint64_t *count;

__attribute__((constructor)) static void map_count(void)
{
    const char *path = getenv("SKADE_BENCH_SYNCS");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

    if (fd < 0)
        return;
    void *base = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    count = base == MAP_FAILED ? NULL : base;
}

static int counted(const char *name, int fd)
{
    int (*call)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);

    if (count)
        atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
    return call(fd);
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    return counted("fsync", fd);
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    return counted("fdatasync", fd);
}
