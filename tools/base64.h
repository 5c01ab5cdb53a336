/*
 * Base64 of RFC 4648, with padding: how bytes that aren't text travel in JSON.
 */
#ifndef SKADE_BASE64_H
#define SKADE_BASE64_H

#include <stddef.h>
#include <stdio.h>

/* Decode LEN characters at TEXT to RET, which may be TEXT itself: the number of bytes, or -EINVAL. */
long base64_decode(char *ret, const char *text, size_t len);

/* Print LEN bytes; pieces of one value have a multiple of 3 but for the last. */
void base64_print(FILE *file, const void *data, size_t len);

#endif
