/*
 * A row as a line of JSON, in: {"key": ..., "value": ...}, or key_base64, value_base64 for bytes that aren't text, or
 * "delete": true.  Without a key it is a row without key.
 */
#ifndef SKADE_ROW_LINE_H
#define SKADE_ROW_LINE_H

#include <stdbool.h>
#include <stddef.h>

struct row_line {
    bool has_key, has_value, is_delete;
    char *key, *value; /* owned */
    size_t key_len, value_len;
};

/* Parse LEN bytes of LINE.  0 and *RET, to be freed with row_line_fini(); SKADE_EINPUT and the reason in PROBLEM; -ENOMEM. */
int row_line_parse(const char *line, size_t len, struct row_line *ret, char *problem, size_t problem_size);
void row_line_fini(struct row_line *l);

#endif
