/*
 * Threads that others wait for run soon when they wake.
 *
 * The loop and the log thread work in bursts of microseconds. On a machine whose processors are all busy (readers that
 * look up without a pause) the kernel would let each burst wait for a whole time slice of somebody else. Asking for short
 * slices of their own gives them an early deadline instead, and takes nothing from anybody: no priority, no privilege.
 */
#ifndef SKADE_PROMPT_H
#define SKADE_PROMPT_H

/* For the calling thread. A kernel that doesn't know of it (before 6.12) leaves things as they are. */
void thread_be_prompt(void);

#endif
