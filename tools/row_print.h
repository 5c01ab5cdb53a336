/*
 * Rows as text, out: the formats of append.  What a format can't carry is refused, so that what was printed can be
 * appended again and is the same.
 */
#ifndef SKADE_ROW_PRINT_H
#define SKADE_ROW_PRINT_H

#include <skade.h>
#include <stdio.h>

enum row_format { ROWS_LINES, ROWS_TSV, ROWS_JSON };

/* "lines", "tsv", "jsonl": 0 or -1. */
int row_format_parse(const char *text, enum row_format *ret);

/* Print ROW, which CURSOR gave last.  0; SKADE_EINPUT: the format can't carry it, WHY says why; what reading gave. */
int row_print(FILE *file, enum row_format format, skade_cursor *cursor, const struct skade_row *row,
              const char **why);

/* The bytes as JSON: "NAME": a string when they are UTF-8, else "NAME_base64". */
void json_bytes(FILE *file, const char *name, const void *data, size_t len);

#endif
