/*
 * Between which keys those of a file lie, so that who looks for rows of one key in several files needs no index of files
 * that can't meet.
 *
 * A bound is a key's first KEY_BOUND_MAX bytes.  Cutting keeps the order, so the bounds of two files tell for sure when no
 * key can be in both, whatever was cut off: then one's high is before the other's low.  Equal bounds say nothing.
 */
#ifndef SKADE_KEY_RANGE_H
#define SKADE_KEY_RANGE_H

#include "format_entry.h"

#include <string.h>

struct key_range { /* of no key: both of no bytes, and so is that of one empty key */
    struct key_bound low, high;
};

/* Eight bytes as a number that is in order as they are. */
static inline uint64_t key_word(const uint8_t *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof word);
    return __builtin_bswap64(word);
}

/* In order of bytes, a shorter one first.  A word at a time: most keys are compared sooner than memcmp() is called. */
static inline int key_bytes_compare(const void *a, size_t a_len, const void *b, size_t b_len)
{
    size_t shorter = a_len < b_len ? a_len : b_len, at = 0;
    const uint8_t *x = a, *y = b;

    for (; shorter - at >= 8; at += 8) {
        uint64_t v = key_word(x + at), w = key_word(y + at);
        if (v != w)
            return v < w ? -1 : 1;
    }
    for (; at < shorter; at++)
        if (x[at] != y[at])
            return x[at] < y[at] ? -1 : 1;
    return (a_len > b_len) - (a_len < b_len);
}

static inline int key_bound_compare(const struct key_bound *a, const struct key_bound *b)
{
    return key_bytes_compare(a->bytes, a->len, b->bytes, b->len);
}

/* Take KEY in; it is the FIRST. */
void key_range_add(struct key_range *range, struct bytes key, bool first);

/* May a file with KEYED keys say so?  What is behind a bound's bytes is zero. */
bool key_range_valid(const struct key_bound *low, const struct key_bound *high, uint64_t keyed);

#endif
