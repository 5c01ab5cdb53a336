/*
 * What memory allows, in the same run and over as much memory as the index has.
 *
 * chase: each line says which line is next, so that nothing overlaps: what one access that depends on another costs.
 * lines: 32 lines are asked for before the first is read: what a line costs when the processor has as many in flight
 * as it can.
 */
#include "bench.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

#define HUGE_PAGE ((size_t)2 << 20)
#define IN_FLIGHT 32

struct line {
    uint64_t next; /* index of a line */
    uint64_t rest[7];
};

struct limits {
    struct line *lines;
    size_t count;
    uint64_t at;
    volatile uint64_t sum; /* so that reading isn't optimised away */
};

/* Shared memory, as the index is, at a huge page's boundary. */
static void *map_shared(size_t bytes, bool huge)
{
    int fd = memfd_create("skade-bench", MFD_CLOEXEC);
    char *room = mmap(NULL, bytes + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0 || room == MAP_FAILED)
        die("no shared memory to measure");
    char *base = (char *)align_up((uintptr_t)room, HUGE_PAGE);
    if (mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        die("no shared memory to measure");
    close(fd);
    for (size_t i = 0; i < bytes; i += 4096)
        base[i] = 1;
    if (huge)
        madvise(base, bytes, MADV_COLLAPSE);
    return base;
}

/* One cycle through all lines (Sattolo's shuffle). */
static void make_cycle(struct limits *l)
{
    uint32_t *order = allocate(l->count * sizeof *order);

    for (size_t i = 0; i < l->count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = l->count - 1; i > 0; i--) {
        size_t k = random_next() % i;
        uint32_t swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
    for (size_t i = 0; i < l->count; i++)
        l->lines[order[i]].next = order[(i + 1) % l->count];
    free(order);
}

struct limits *limits_open(size_t bytes, bool huge)
{
    struct limits *l = allocate(sizeof *l);

    l->count = bytes / sizeof(struct line);
    l->lines = map_shared(align_up(bytes, HUGE_PAGE), huge);
    make_cycle(l);
    return l;
}

void limits_close(struct limits *l)
{
    munmap(l->lines, align_up(l->count * sizeof(struct line), HUGE_PAGE));
    free(l);
}

void limits_chase(void *arg, const struct question *q, size_t n)
{
    struct limits *l = arg;
    uint64_t at = l->at;

    (void)q;
    for (size_t i = 0; i < n; i++)
        at = l->lines[at].next;
    l->at = at;
}

void limits_lines(void *arg, const struct question *q, size_t n)
{
    struct limits *l = arg;
    uint64_t state = random_next(), sum = 0;
    const struct line *flight[IN_FLIGHT];

    (void)q;
    for (size_t i = 0; i < IN_FLIGHT; i++)
        flight[i] = l->lines;
    for (size_t i = 0; i < n; i++) {
        const struct line *line = &l->lines[(state >> 32) * l->count >> 32];
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        __builtin_prefetch(line);
        sum += flight[i % IN_FLIGHT]->next;
        flight[i % IN_FLIGHT] = line;
    }
    l->sum = sum;
}

uint64_t huge_bytes(const void *base)
{
    char text[512];
    unsigned long from = 0, to = 0, kb = 0, found = 0;
    FILE *f = fopen("/proc/self/smaps", "re");

    while (f && fgets(text, sizeof text, f)) {
        unsigned long a, b;
        if (sscanf(text, "%lx-%lx ", &a, &b) == 2) {
            from = a;
            to = b;
        } else if (sscanf(text, "ShmemPmdMapped: %lu kB", &kb) == 1 && from <= (uintptr_t)base &&
                   (uintptr_t)base < to) {
            found = kb;
        }
    }
    if (f)
        fclose(f);
    return (uint64_t)found << 10;
}
