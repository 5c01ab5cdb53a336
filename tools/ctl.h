/*
 * What every command of skadectl works with: its arguments, its output, a handle, and the way it fails.
 *
 * A command is a function `int cmd_x(struct ctl *)` that returns an exit code.  It prints rows to c->out, and for what
 * goes wrong one line to standard error, `skadectl: COMMAND: THING: what happened and the cure`.
 */
#ifndef SKADE_CTL_H
#define SKADE_CTL_H

#include "args.h"
#include "output.h"

#include <skade.h>

struct command;

enum ctl_exit { /* exit codes: part of the interface */
                CTL_OK = 0,
                CTL_FAILED = 1,
                CTL_USAGE = 2, /* also: the wrong kind of table */
                CTL_MISSING = 3,
                CTL_CONFLICT = 4, /* also: exists */
                CTL_UNREACHABLE = 5,
                CTL_EXPIRED = 6,
                CTL_TIMED_OUT = 7,
                CTL_DENIED = 8
};

struct ctl {
    const struct command *command; /* NULL before it is known */
    struct args args;
    struct out out;
    struct skade_options options;
    bool timeout_given;
    skade *s;         /* NULL for commands that need none */
    int opened_in_ms; /* what opening it has taken from the time of the first question */
};

/* Every command: see commands.def. */
#define COMMAND(function, name, connects, operands, columns, doc) int cmd_##function(struct ctl *c);
#include "commands.def"

/* ---- failing: each prints one line and returns the exit code ---- */

/* CODE is skade's or a negative errno; the text is that of the handle if the last call on it failed so.  THING, what it is
 * about, may be NULL. */
int ctl_fail(struct ctl *c, const char *thing, int code);

/* The same, in words of the command; the exit code is that of CODE. */
int ctl_fail_with(struct ctl *c, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The command line makes no sense. */
int ctl_usage(struct ctl *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line on standard error that changes no exit code. */
void ctl_note(struct ctl *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- the handle ---- */

/* 0, or has told the problem and returns its exit code. */
int ctl_open(struct ctl *c);
void ctl_close(struct ctl *c);

/* From here on the calls on the handle are one question, and share one --timeout: the first question does so with opening.
 * What runs a command begins it; commands that ask many begin the others, and may begin the first again. */
void ctl_question(struct ctl *c);
void ctl_next_question(struct ctl *c);

/* ---- small steps that many commands share ---- */

/* Tell that no table bears NAME; returns the exit code. */
int ctl_no_table(struct ctl *c, const char *name);

/* Each gives *RET and 0, or has told the problem and returns its exit code. */
int ctl_find_table(struct ctl *c, const char *name, skade_table *ret);
int ctl_int64(struct ctl *c, const char *what, const char *text, int64_t *ret);
int ctl_uint64(struct ctl *c, const char *what, const char *text, uint64_t *ret);
int ctl_time(struct ctl *c, const char *what, const char *text, int64_t *ret);
/* Option NAME as a number; leaves *RET alone when it isn't given. */
int ctl_uint64_option(struct ctl *c, const char *name, uint64_t *ret);

/* Print the row that was begun.  0, or CTL_FAILED: then nobody reads any more and the command should end. */
int ctl_row(struct ctl *c);

/* Does standard output go to a person? */
bool ctl_on_terminal(void);

/* ---- codes ---- */

/* The exit code of an error: skade's or a negative errno. */
enum ctl_exit exit_of(int code);

/* "found", "no_snapshot", "expired" ...: the status column. */
const char *status_word(int code);

/* The exit code of several answers together: unreachable, else other failures, else missing, else expired. */
int exit_worse(int a, int b);

#endif
