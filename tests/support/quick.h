/*
 * For loops of millions: an assertion that costs a branch, and repeatable random numbers.
 */
#ifndef SKADE_TEST_QUICK_H
#define SKADE_TEST_QUICK_H

#include <check.h>
#include <stdint.h>

/* Tests that race on purpose leave ThreadSanitizer alone. */
#if defined(__SANITIZE_THREAD__)
#define HAS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#endif
#endif
#ifndef HAS_TSAN
#define HAS_TSAN 0
#endif

/* ck_assert() notes every call in a file; this one only a failure. */
#define ALWAYS(condition) ((condition) ? (void)0 : ck_abort_msg("%s", #condition))

/* Start with any value.  Two draws in one expression come in an order that each compiler chooses: take a statement for
 * each, or the test isn't the same test everywhere. */
static inline uint64_t random_u64(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* A number below N, which is not 0. */
static inline uint64_t random_below(uint64_t *state, uint64_t n)
{
    return random_u64(state) % n;
}

#endif
