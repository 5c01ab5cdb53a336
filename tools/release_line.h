/*
 * One line of a release: a JSON object that says one commit.
 *
 *   {"table": "shop.orders", "location": "s3://...", "snapshot": 42, "base": null, "time": "2026-01-02T03:04:05Z",
 *    "uuid": "...", "side": false}
 *
 * Table and location must be there.  Ids and times in microseconds are integers or strings of digits; integers in their
 * full 64-bit range.  `base` null: the table must have no commit yet.  Lines are untrusted: an unknown or repeated
 * field, a value of another kind, a NUL in a string, are errors that name the field.
 */
#ifndef SKADE_RELEASE_LINE_H
#define SKADE_RELEASE_LINE_H

#include <skade.h>
#include <stddef.h>

#define RELEASE_LINE_MAX \
    65536 /* bytes: each of two locations may be written as six bytes a byte, and have some room */

struct release_line {
    char table[SKADE_NAME_MAX + 1];
    char location[SKADE_LOCATION_MAX + 1];
    char base_location[SKADE_LOCATION_MAX + 1];
    struct skade_commit
        commit; /* all but its table, location and base_location, which are the strings above */
};

/* Parse the LEN bytes at LINE.  0 and RET, or SKADE_EINPUT or -ENOMEM and the reason in PROBLEM. */
int release_line_parse(const char *line, size_t len, struct release_line *ret, char *problem,
                       size_t problem_size);

#endif
