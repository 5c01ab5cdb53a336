/*
 * Command-line arguments by table: the options that a table knows, then what is left.
 *
 * Not getopt, because snapshot ids are signed: an argument of `-` and digits is a number and never an option.  Options
 * may stand before and behind operands, as `--name VALUE` or `--name=VALUE`; `--` ends them.  The same option twice is
 * an error, since with two snapshots given nobody knows which one was meant.
 */
#ifndef SKADE_ARGS_H
#define SKADE_ARGS_H

#include <stdbool.h>
#include <stdint.h>

struct option_spec {
    const char *name; /* without the dashes; NULL ends a table */
    const char
        *value; /* NULL: a flag; "[X]": the next argument if it is a number; else what it needs is called */
    const char *doc;
};

#define ARGS_OPTIONS 24 /* in both tables together */

/* Zero, with the two tables set; gives nothing: all strings are the caller's arguments. */
struct args {
    const struct option_spec *common;  /* or NULL */
    const struct option_spec *special; /* or NULL */
    const char *values[ARGS_OPTIONS];  /* NULL: absent; a flag, or an optional value that is absent: "" */
    char **operands; /* what isn't an option, in order; they are moved to the front of argv */
    int count;
    char problem[256]; /* why parsing failed */
};

/*
 * Parse ARGC arguments at ARGV (without the program's name), rearranging them.  With STOP_AT_OPERAND the first operand
 * ends the options and all that follows is an operand.  May be called again with more arguments.  0, or -EINVAL and
 * A->problem.
 */
int args_parse(struct args *a, int argc, char **argv, bool stop_at_operand);

/* The value of option NAME, "" for a flag, NULL when it isn't there.  NAME must be in one of the tables. */
const char *args_value(const struct args *a, const char *name);
bool args_flag(const struct args *a, const char *name);

/* How many operands SYNOPSIS ("TABLE ID...", "[FILE]") allows; *MAX is INT32_MAX for "...". */
void args_arity(const char *synopsis, int *min, int *max);

/* Is TEXT `-` (or nothing) and digits only? */
bool args_is_number(const char *text);

/* Whole texts only: 0, -EINVAL (not a decimal number), or -ERANGE. */
int parse_int64(const char *text, int64_t *ret);
int parse_uint64(const char *text, uint64_t *ret);
/* Seconds as "2" or "0.25", more than 0 and at most some weeks, to milliseconds. */
int parse_seconds(const char *text, int *ret_ms);

#endif
