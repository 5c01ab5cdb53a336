/*
 * A line of JSON through libyajl, once the guard has looked at it.
 */
#ifndef SKADE_JSON_LINE_H
#define SKADE_JSON_LINE_H

#include <stddef.h>
#include <yajl/yajl_parse.h>

/* Let CALLBACKS, with ARG, see the LEN bytes of LINE; strings and numbers of up to TOKEN_MAX bytes (0: as in Iceberg's
 * metadata).  0; SKADE_EINPUT when a callback stopped it or the text is wrong, and then *WRONG, if not NULL, says what
 * the guard didn't like (static); -ENOMEM. */
int json_line(const char *line, size_t len, size_t token_max, const yajl_callbacks *callbacks, void *arg,
              const char **wrong);

#endif
