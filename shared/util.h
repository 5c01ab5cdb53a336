/*
 * The few things every file may use: sizes, alignment, byte ranges, uuids.
 */
#ifndef SKADE_UTIL_H
#define SKADE_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define CACHE_LINE 64

/* Borrowed bytes; not terminated. */
struct bytes {
    const char *data;
    size_t len;
};

struct uuid {
    uint8_t b[16];
};

static inline struct bytes bytes_of(const char *s)
{
    return (struct bytes){ s, strlen(s) };
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline bool uuid_equal(const struct uuid *a, const struct uuid *b)
{
    return memcmp(a->b, b->b, sizeof a->b) == 0;
}

static inline bool uuid_is_zero(const struct uuid *u)
{
    static const struct uuid zero;
    return uuid_equal(u, &zero);
}

/* Round N up to a multiple of TO, a power of two.  The caller knows that it can't overflow. */
static inline uint64_t align_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) & ~(to - 1);
}

/* Is [off, off + len) inside [0, size)?  Cannot overflow. */
static inline bool range_inside(uint64_t off, uint64_t len, uint64_t size)
{
    return off <= size && len <= size - off;
}

/* Is an array of COUNT elements of ELEM bytes at OFF inside [0, size)?  Cannot overflow. */
static inline bool array_inside(uint64_t off, uint64_t count, uint64_t elem, uint64_t size)
{
    return off <= size && count <= (size - off) / elem;
}

#endif
