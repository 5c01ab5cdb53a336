/*
 * Names and texts of error codes, and a message that grows on the way up.
 */
#ifndef SKADE_ERRORS_INTERNAL_H
#define SKADE_ERRORS_INTERNAL_H

#include "skade_errors.h"

#include <stdarg.h>

/* A failure's story for the person who reads it: names the thing and the cure.  Empty until something fails. */
struct errmsg {
    char text[512];
};

/* Text of CODE: one of ours, or strerror's for a negative errno.  Any thread; lends a static string. */
const char *error_text(int code);

/* Name of CODE: "ECONFLICT", "ENOENT"; "E?" when unknown.  Any thread; lends a static string. */
const char *error_name(int code);

/* Put a formatted message into MSG (NULL: nowhere), made printable, and return CODE, so that `return fail(msg, -EIO, ...)` works. */
int fail(struct errmsg *msg, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
