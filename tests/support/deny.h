/*
 * System calls that fail, by a seccomp filter: what an old kernel lacks or a sandbox forbids.
 */
#ifndef SKADE_TEST_DENY_H
#define SKADE_TEST_DENY_H

#include <stdbool.h>
#include <stdint.h>

/* From now on NUMBER (an __NR_ constant) fails with ERROR in this process when its argument ARG, lower 32
 * bits and masked by MASK, is VALUE.  With MASK 0 and VALUE 0: always.  There is no way back, so this
 * belongs into a child or into a test that runs in a process of its own.  False where it can't be done:
 * then say so and skip. */
bool deny_syscall(int number, int arg, uint32_t mask, uint32_t value, int error);

#endif
