/*
 * A terminal that a program has for itself: its second screen, no cursor, keys one by one.
 *
 * However the program ends, by a key, exit(), SIGINT, SIGTERM, SIGHUP or SIGQUIT, the terminal is what it was before.
 * Ctrl-Z stops the program with the terminal restored, and it goes on when the shell lets it.
 */
#ifndef SKADE_TERMINAL_H
#define SKADE_TERMINAL_H

#include <stddef.h>

/* Standard output must be a terminal; keys come from standard input if that is one, too.  0 or -errno.  Once. */
int terminal_begin(void);
void terminal_end(void); /* also without a beginning, and twice */

/* Of standard output; 80 by 24 when it doesn't tell. */
void terminal_size(size_t *width, size_t *height);

/* Wait up to MS milliseconds: a key (1 to 255); TERMINAL_TIME: it is over; TERMINAL_RESIZED; TERMINAL_GONE. */
enum { TERMINAL_TIME = 0, TERMINAL_RESIZED = 256, TERMINAL_GONE = 257 };
int terminal_wait(int ms);

/* All of it, also when a signal interrupts.  0 or -errno. */
int terminal_write(const char *text, size_t len);

#endif
