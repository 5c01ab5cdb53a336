/*
 * A progress line on standard error for what takes longer than a second, when a person looks on.
 *
 * A thread of its own draws it, so that the work needs to say nothing but how far it is, and may block.
 */
#ifndef SKADE_PROGRESS_H
#define SKADE_PROGRESS_H

#include <stdint.h>

/* Begin to show LABEL and `DONE of TOTAL UNIT` (borrowed until the end), or go on with another label.  Does nothing when
 * standard error is no terminal.  One at a time. */
void progress_begin(const char *label, const char *unit);

/* How far it is; TOTAL 0: unknown.  Any thread. */
void progress_set(uint64_t done, uint64_t total);

/* Bytes written to FD so far count as progress, from now on until the end. */
void progress_follow(int fd);

/* Take the line away, so that other text can stand there, and keep it away until it may come back.  In pairs. */
void progress_pause(void);
void progress_resume(void);

/* Takes an end without a beginning. */
void progress_end(void);

#endif
