#include "ctl.h"

#include "command.h"
#include "plain.h"
#include "progress.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SHOWN_MAX 256 /* of a name or argument in a message: names can be 1024 bytes, arguments anything */

/* ---- failing ---- */

static void begin_line(struct ctl *c)
{
    /* Rows that were asked for before stay before the message where both go to one place. */
    if (c->out.file)
        fflush(c->out.file);
    progress_pause();
    fprintf(stderr, "skadectl: %s%s", c->command ? c->command->name : "", c->command ? ": " : "");
}

static void end_line(void)
{
    fputc('\n', stderr);
    progress_resume();
}

static void print_line(struct ctl *c, const char *format, va_list ap)
{
    char text[4096], shown[4096 + SHOWN_MAX];

    vsnprintf(text, sizeof text, format, ap);
    begin_line(c);
    fputs(plain(text, shown, sizeof shown), stderr);
    end_line();
}

int ctl_no_table(struct ctl *c, const char *name)
{
    char shown[SHOWN_MAX];

    return ctl_fail_with(c, SKADE_ENOTABLE, "%s: %s: `skadectl tables` lists them",
                         plain(name, shown, sizeof shown), skade_strerror(SKADE_ENOTABLE));
}

/* The library calls tables by their numbers; whoever reads this has just seen the name. */
static const char *without_number(const char *text)
{
    unsigned number;
    int len = 0;

    return sscanf(text, "table %u: %n", &number, &len) == 1 ? text + len : text;
}

int ctl_fail(struct ctl *c, const char *thing, int code)
{
    char shown_thing[SHOWN_MAX], shown[4096];
    const char *text = skade_errmsg(c->s);

    if (thing && code == SKADE_ENOTABLE)
        return ctl_no_table(c, thing);
    text = text && *text ? text : skade_strerror(code);
    plain(thing ? without_number(text) : text, shown, sizeof shown);
    begin_line(c);
    if (thing)
        fprintf(stderr, "%s: ", plain(thing, shown_thing, sizeof shown_thing));
    fputs(shown, stderr);
    end_line();
    return exit_of(code);
}

int ctl_fail_with(struct ctl *c, int code, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    print_line(c, format, ap);
    va_end(ap);
    return exit_of(code);
}

void ctl_note(struct ctl *c, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    print_line(c, format, ap);
    va_end(ap);
}

int ctl_usage(struct ctl *c, const char *format, ...)
{
    char text[1024], shown[1024 + SHOWN_MAX];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    begin_line(c);
    fprintf(stderr, "%s (see `skadectl %s%s--help`)", plain(text, shown, sizeof shown),
            c->command ? c->command->name : "", c->command ? " " : "");
    end_line();
    return CTL_USAGE;
}

/* ---- the handle ---- */

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int ctl_open(struct ctl *c)
{
    int64_t before = now_ms();
    int r = skade_open(&c->s, &c->options);
    int64_t took = now_ms() - before;

    c->opened_in_ms = took < c->options.timeout_ms ? (int)took : c->options.timeout_ms;
    return r < 0 ? ctl_fail(c, NULL, r) : 0;
}

void ctl_close(struct ctl *c)
{
    skade_close(c->s);
    c->s = NULL;
}

void ctl_question(struct ctl *c)
{
    skade_deadline(c->s, c->options.timeout_ms - c->opened_in_ms);
}

void ctl_next_question(struct ctl *c)
{
    c->opened_in_ms = 0;
    ctl_question(c);
}

/* ---- small steps ---- */

int ctl_find_table(struct ctl *c, const char *name, skade_table *ret)
{
    int r = skade_find_table(c->s, name, ret);

    if (r > 0)
        return 0;
    return r == 0 ? ctl_no_table(c, name) : ctl_fail(c, name, r);
}

/* A number that can't be taken, with what it should be. */
static int bad_number(struct ctl *c, const char *what, const char *text, int code, const char *range)
{
    char shown[SHOWN_MAX];

    plain(text, shown, sizeof shown);
    if (code == -ERANGE)
        return ctl_usage(c, "%s %s is outside %s", what, shown, range);
    return ctl_usage(c, "%s %s is not a number", what, shown);
}

int ctl_int64(struct ctl *c, const char *what, const char *text, int64_t *ret)
{
    int r = parse_int64(text, ret);

    return r < 0 ? bad_number(c, what, text, r, "the signed 64-bit range") : 0;
}

int ctl_uint64(struct ctl *c, const char *what, const char *text, uint64_t *ret)
{
    int r = parse_uint64(text, ret);

    return r < 0 ? bad_number(c, what, text, r, "0 to 18446744073709551615") : 0;
}

int ctl_uint64_option(struct ctl *c, const char *name, uint64_t *ret)
{
    char what[32];
    const char *text = args_value(&c->args, name);

    snprintf(what, sizeof what, "--%s", name);
    return text ? ctl_uint64(c, what, text, ret) : 0;
}

int ctl_time(struct ctl *c, const char *what, const char *text, int64_t *ret)
{
    char shown[SHOWN_MAX];

    if (skade_time_parse(text, ret) == 0)
        return 0;
    return ctl_usage(c,
                     "%s %s is not a time: write 2026-01-02T03:04:05Z, 2026-01-02 or microseconds since 1970",
                     what, plain(text, shown, sizeof shown));
}

int ctl_row(struct ctl *c)
{
    return out_row(&c->out) < 0 ? CTL_FAILED : 0;
}

bool ctl_on_terminal(void)
{
    return isatty(STDOUT_FILENO) == 1;
}
