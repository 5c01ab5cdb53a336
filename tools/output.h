/*
 * What a command prints: rows of named columns, as text for people and scripts or as JSON.
 *
 *     out_begin(&o, stdout, "table snapshot location +seq", json, terminal);
 *     out_text(&o, "shop.orders");
 *     out_id(&o, 42);
 *     out_text(&o, NULL);             absent: `-`, in JSON null
 *     out_seq(&o, 7);                 a column with `+` is in JSON only
 *     r = out_row(&o);
 *
 * Text: one TAB between columns, times RFC 3339, a header line only on a terminal.  JSON: one object a line; ids,
 * sequence numbers and times in microseconds are strings, since many readers of JSON have no 64-bit numbers; counts and
 * bytes are numbers.  Every row gives every column, in order: that is asserted.
 */
#ifndef SKADE_OUTPUT_H
#define SKADE_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct out {
    FILE *file;
    const char *columns;
    bool json;
    bool header;      /* still to be printed */
    const char *next; /* the column that comes next */
    uint64_t rows;
    int error; /* the first failure to write, a negative errno */
};

/* Borrows FILE and COLUMNS. */
void out_begin(struct out *o, FILE *file, const char *columns, bool json, bool terminal);

void out_text(struct out *o, const char *text); /* NULL or "": absent */
void out_id(struct out *o, int64_t id);         /* any value */
void out_seq(struct out *o, uint64_t seq);      /* 0: absent */
void out_time(struct out *o, int64_t time_us);  /* any value */
void out_count(struct out *o, uint64_t count);  /* also bytes */
void out_number(struct out *o, double number, int decimals);
void out_flag(struct out *o, bool flag); /* yes or no, in JSON true or false */
void out_absent(struct out *o);

/* End the row.  0, or a negative errno when it couldn't be written: then more rows are pointless. */
int out_row(struct out *o);

/* All that was printed is with the reader, not in a buffer.  0 or a negative errno. */
int out_flush(struct out *o);

#endif
