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

/* The first LEN bytes of a key, in order of bytes, a shorter one first. */
static inline int key_bytes_compare(const void *a, size_t a_len, const void *b, size_t b_len)
{
    size_t shorter = a_len < b_len ? a_len : b_len;
    int r = shorter ? memcmp(a, b, shorter) : 0;

    return r ? r : (a_len > b_len) - (a_len < b_len);
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
