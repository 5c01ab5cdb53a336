/*
 * Reading what somebody else may change: once, into a copy that is checked and used.
 */
#ifndef SKADE_ONCE_H
#define SKADE_ONCE_H

#include "util.h"

/* Copy N bytes out of mapped memory.  The barrier keeps the compiler from going back to the source when
 * the copy is used: what was checked must be what is used. */
static inline void copy_once(void *to, const void *from, size_t n)
{
    memcpy(to, from, n);
    __asm__ volatile("" ::: "memory");
}

#endif
