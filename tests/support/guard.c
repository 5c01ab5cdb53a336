#include "guard.h"

#include <check.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif

#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(from, n) ASAN_POISON_MEMORY_REGION(from, n)
#define UNPOISON(from, n) ASAN_UNPOISON_MEMORY_REGION(from, n)
#else
#define POISON(from, n) ((void)(from), (void)(n))
#define UNPOISON(from, n) ((void)(from), (void)(n))
#endif

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

struct guard guard_make(size_t size, size_t align)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t pages = round_up(size ? size : 1, page);
    struct guard g = { .size = size, .mapped = pages + 2 * page };

    g.map = mmap(NULL, g.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(g.map != MAP_FAILED);
    ck_assert_int_eq(mprotect(g.map, page, PROT_NONE), 0);
    ck_assert_int_eq(mprotect(g.map + page + pages, page, PROT_NONE), 0);
    uint8_t *end = g.map + page + pages;
    g.data = end - round_up(size, align);
    POISON(g.data + size, (size_t)(end - g.data) - size);
    return g;
}

struct guard guard_copy(const void *data, size_t size, size_t align)
{
    struct guard g = guard_make(size, align);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (size)
        memcpy(g.data, data, size);
    ck_assert_int_eq(mprotect(g.map + page, g.mapped - 2 * page, PROT_READ), 0);
    return g;
}

void guard_free(struct guard *g)
{
    UNPOISON(g->map, g->mapped);
    munmap(g->map, g->mapped);
    g->map = NULL;
}
