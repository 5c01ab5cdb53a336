/*
 * stats: the daemon's counters, once, again and again, or for Prometheus.
 *
 * Whether the daemon is alive is known only after its counters were read, and is said first, so they are kept.
 */
#include "ctl.h"
#include "plain.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct counter {
    char *name, *unit, *help;
    bool grows; /* a counter, not a gauge: its change per second means something */
    uint64_t value;
};

/* All counters at one moment. */
struct reading {
    struct counter *counters;
    size_t count, room;
    bool alive;
    struct timespec when;
};

/* ---- reading ---- */

static void reading_free(struct reading *r)
{
    for (size_t i = 0; i < r->count; i++) {
        free(r->counters[i].name);
        free(r->counters[i].unit);
        free(r->counters[i].help);
    }
    free(r->counters);
    *r = (struct reading){ 0 };
}

static int keep(void *arg, const char *name, uint64_t value, const char *unit, const char *kind,
                const char *help)
{
    struct reading *r = arg;

    if (r->count == r->room) {
        size_t room = r->room ? r->room * 2 : 64;
        struct counter *more = realloc(r->counters, room * sizeof *more);
        if (!more)
            return -ENOMEM;
        r->counters = more;
        r->room = room;
    }
    struct counter *c = &r->counters[r->count++];
    *c = (struct counter){ .name = strdup(name), .unit = strdup(unit), .help = strdup(help), .value = value };
    c->grows = strcmp(kind, "counter") == 0;
    return c->name && c->unit && c->help ? 0 : -ENOMEM;
}

/* Gives *RET.  0, or an exit code. */
static int take(struct ctl *c, struct reading *ret)
{
    struct reading reading = { 0 };
    int r = skade_stats(c->s, keep, &reading);

    if (r < 0) {
        reading_free(&reading);
        return r == -ENOMEM ? ctl_fail_with(c, r, "%s", strerror(ENOMEM)) : ctl_fail(c, NULL, r);
    }
    reading.alive = r == SKADE_ALIVE;
    clock_gettime(CLOCK_MONOTONIC, &reading.when);
    *ret = reading;
    return 0;
}

/* ---- choosing ---- */

static bool is_wanted(const struct ctl *c, const struct counter *counter)
{
    for (int i = 0; i < c->args.count; i++)
        if (fnmatch(c->args.operands[i], counter->name, 0) == 0)
            return true;
    return c->args.count == 0;
}

static int check_globs(struct ctl *c, const struct reading *r)
{
    char shown[128];

    for (int i = 0; i < c->args.count; i++) {
        size_t k = 0;
        while (k < r->count && fnmatch(c->args.operands[i], r->counters[k].name, 0) != 0)
            k++;
        if (k == r->count && fnmatch(c->args.operands[i], "alive", 0) != 0)
            return ctl_fail_with(c, SKADE_ENOTABLE, "no counter is called %s",
                                 plain(c->args.operands[i], shown, sizeof shown));
    }
    return 0;
}

/* ---- rows ---- */

static double seconds_between(const struct timespec *a, const struct timespec *b)
{
    return (double)(b->tv_sec - a->tv_sec) + (double)(b->tv_nsec - a->tv_nsec) / 1e9;
}

/* The same counter in an earlier reading; the daemon may have been replaced by one that counts other things. */
static const struct counter *counterpart(const struct reading *before, size_t place, const char *name)
{
    if (place >= before->count || strcmp(before->counters[place].name, name) != 0)
        return NULL;
    return &before->counters[place];
}

static void print_rate(struct ctl *c, const struct reading *before, const struct reading *now, size_t place)
{
    const struct counter *counter = &now->counters[place];
    const struct counter *old = counterpart(before, place, counter->name);
    double seconds = seconds_between(&before->when, &now->when);

    /* A counter that went back belongs to a daemon that was started since. */
    if (!counter->grows || !old || counter->value < old->value || seconds <= 0)
        out_absent(&c->out);
    else
        out_number(&c->out, (double)(counter->value - old->value) / seconds, 1);
}

/* BEFORE is NULL when rates aren't wanted. */
static int print_rows(struct ctl *c, const struct reading *before, const struct reading *now)
{
    out_text(&c->out, "alive");
    out_count(&c->out, now->alive);
    out_absent(&c->out);
    if (before)
        out_absent(&c->out);
    int r = ctl_row(c);
    for (size_t i = 0; r == 0 && i < now->count; i++) {
        if (!is_wanted(c, &now->counters[i]))
            continue;
        out_text(&c->out, now->counters[i].name);
        out_count(&c->out, now->counters[i].value);
        out_text(&c->out, now->counters[i].unit);
        if (before)
            print_rate(c, before, now, i);
        r = ctl_row(c);
    }
    return r;
}

/* ---- Prometheus ---- */

/* Metric names are [a-zA-Z0-9_]; counters end in _total, as its conventions want. */
static void print_metric_name(FILE *f, const struct counter *c)
{
    size_t len = strlen(c->name);
    bool total = c->grows && !(len > 6 && strcmp(c->name + len - 6, "_total") == 0);

    fputs("skade_", f);
    for (const char *p = c->name; *p; p++)
        fputc(isalnum((unsigned char)*p) ? *p : '_', f);
    fputs(total ? "_total" : "", f);
}

static void print_metric(FILE *f, const struct counter *c)
{
    fputs("# HELP ", f);
    print_metric_name(f, c);
    fputc(' ', f);
    for (const char *p = c->help; *p; p++) {
        if (*p == '\\' || *p == '\n')
            fputc('\\', f);
        fputc(*p == '\n' ? 'n' : *p, f);
    }
    if (*c->unit)
        fprintf(f, " (%s)", c->unit);
    fputs("\n# TYPE ", f);
    print_metric_name(f, c);
    fprintf(f, " %s\n", c->grows ? "counter" : "gauge");
    print_metric_name(f, c);
    fprintf(f, " %" PRIu64 "\n", c->value);
}

static int print_prometheus(struct ctl *c, const struct reading *r)
{
    char name[] = "alive", unit[] = "", help[] = "1 when the daemon lives, 0 when it is hung or gone";
    struct counter alive = { .name = name, .unit = unit, .help = help, .value = r->alive };

    print_metric(c->out.file, &alive);
    for (size_t i = 0; i < r->count; i++)
        if (is_wanted(c, &r->counters[i]))
            print_metric(c->out.file, &r->counters[i]);
    return out_flush(&c->out) < 0 ? CTL_FAILED : CTL_OK;
}

/* ---- again and again ---- */

static void wait_ms(int ms)
{
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

    while (nanosleep(&t, &t) < 0 && errno == EINTR)
        ;
}

static int show_again(struct ctl *c, struct reading *before, bool terminal)
{
    struct reading now = { 0 };
    int r = take(c, &now);

    if (r != 0)
        return r;
    if (terminal && !c->out.json) {
        fputs("\033[H\033[2J", c->out.file);
        c->out.header = true;
    }
    r = print_rows(c, before, &now);
    reading_free(before);
    *before = now;
    return out_flush(&c->out) < 0 ? CTL_FAILED : r;
}

/* Ends by a signal, or when nobody reads any more. */
static int watch(struct ctl *c, struct reading *before)
{
    const char *text = args_value(&c->args, "watch");
    bool terminal = ctl_on_terminal();
    int ms = 1000;

    if (*text && parse_seconds(text, &ms) < 0)
        return ctl_usage(c, "--watch %s is not a number of seconds above 0", text);
    out_begin(&c->out, stdout, "name value unit per_second", c->out.json, terminal);
    int r = 0;
    while (r == 0) {
        wait_ms(ms);
        ctl_next_question(c);
        r = show_again(c, before, terminal);
    }
    return r;
}

int cmd_stats(struct ctl *c)
{
    struct reading first = { 0 };
    bool prometheus = args_flag(&c->args, "prometheus");
    bool again = args_flag(&c->args, "watch");

    if (prometheus && (again || c->out.json))
        return ctl_usage(c, "--prometheus goes with neither --watch nor --json");
    int r = take(c, &first);
    if (r != 0)
        return r;
    r = check_globs(c, &first);
    if (r == 0 && prometheus)
        r = print_prometheus(c, &first);
    else if (r == 0 && again)
        r = watch(c, &first);
    else if (r == 0)
        r = print_rows(c, NULL, &first);
    reading_free(&first);
    return r;
}
