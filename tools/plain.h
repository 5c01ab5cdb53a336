/*
 * Strangers' bytes made fit for a terminal, a table or JSON: names and locations can't hold control characters, but
 * arguments, labels and damaged answers can.
 */
#ifndef SKADE_PLAIN_H
#define SKADE_PLAIN_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the UTF-8 character at P (terminated by NUL), 1 to 4, or 0 when it isn't one; *RET is its code point. */
size_t utf8_char(const char *p, uint32_t *ret);

/* Would CODE move a cursor or end a line: C0, DEL, C1? */
int is_control(uint32_t code);

/*
 * TEXT for a message: control characters and broken UTF-8 become \xNN, and what doesn't fit SIZE (at least 8) bytes
 * ends in "...".  Returns RET.
 */
const char *plain(const char *text, char *ret, size_t size);

#endif
