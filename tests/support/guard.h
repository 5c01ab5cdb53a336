/*
 * Memory between two pages that can't be touched: what reads one byte too far crashes here and now.
 */
#ifndef SKADE_TEST_GUARD_H
#define SKADE_TEST_GUARD_H

#include <stddef.h>
#include <stdint.h>

struct guard {
    uint8_t *data; /* the bytes; they end at the guard page, but for what ALIGN takes */
    size_t size;
    uint8_t *map;
    size_t mapped;
};

/* SIZE bytes at a multiple of ALIGN (a power of two, at most a page).  Bytes between the end and the guard
 * page, fewer than ALIGN, are poisoned for AddressSanitizer. */
struct guard guard_make(size_t size, size_t align);

/* The same with a copy of DATA, which can only be read then. */
struct guard guard_copy(const void *data, size_t size, size_t align);

void guard_free(struct guard *g);

#endif
