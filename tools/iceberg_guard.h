/*
 * What must be true of JSON text before libyajl may see it.
 *
 * libyajl grows a buffer to hold one whole string or number, keeps a byte per nested bracket, and its decoder
 * reads past the end of a string that has half of a UTF-16 surrogate pair before a backslash.  The guard
 * looks at each byte first and stops at tokens and nesting beyond any sane metadata, and at half pairs.  It
 * judges nothing else: whether the text is JSON at all is libyajl's to say.
 */
#ifndef SKADE_ICEBERG_GUARD_H
#define SKADE_ICEBERG_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#define ICEBERG_TOKEN_MAX (8u * 1024 * 1024) /* bytes of one string or number as written */
#define ICEBERG_DEPTH_MAX 1000u              /* what Iceberg's own JSON reader allows */

/* Zero before the first byte. */
struct iceberg_guard {
    enum { GUARD_BETWEEN, GUARD_STRING, GUARD_ESCAPE, GUARD_HEX } at;
    unsigned hex_left; /* digits of \uXXXX still to come */
    unsigned unit;     /* the UTF-16 unit so far */
    bool after_high;   /* the first half of a pair was the last thing in this string */
    size_t token;      /* bytes of the current string or number */
    unsigned depth;
    size_t token_max; /* 0: ICEBERG_TOKEN_MAX */
};

/* Look at the next LEN bytes.  NULL, or what is wrong with them (a static string); then don't go on. */
const char *iceberg_guard(struct iceberg_guard *g, const unsigned char *text, size_t len);

#endif
