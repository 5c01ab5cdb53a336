/*
 * top: what the daemon does, as a picture that is drawn again and again; or once, as text.
 *
 * Counters come from shared memory, clients from the daemon, every second.  All tables are listed to know which are the
 * largest, and that costs the daemon something, so it is done seldom: as seldom as it takes long.
 */
#include "ctl.h"
#include "terminal.h"
#include "top_frame.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MS 2000    /* that a question may take, unless --timeout says so */
#define LISTING_SECONDS 5 /* between two lists of tables, and */
#define LISTING_SHARE 20  /* so many times as long as one took */

struct top {
    struct ctl *c;
    struct top_sample samples[2];
    struct top_sample *now, *before; /* before: NULL */
    struct top_view view;
    double listed, listing_took; /* seconds: when tables were listed, how long that took */
    bool clients_denied;         /* then it isn't asked for again: each time would be counted, and logged */
    int interval_ms;
    int error;
};

static double clock_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int64_t wall_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- a sample ---------------------------------------------------------------------------------------------------- */

static int take_counter(void *arg, const char *name, uint64_t value, const char *unit, const char *kind,
                        const char *help)
{
    (void)unit, (void)kind, (void)help;
    top_sample_counter(arg, name, value);
    return 0;
}

static int take_client(void *arg, const struct skade_client *c)
{
    return top_sample_client(arg, c->label, c->uid, c->pid, c->generation, c->lag, c->requests);
}

static int take_table(void *arg, const struct skade_table_info *t)
{
    struct top *top = arg;

    top_sample_table(top->now, top->view.tables, t->name, t->stored != 0, t->snapshots, t->seq);
    return 0;
}

static void note_problem(char *ret, size_t size, const char *text, int code)
{
    snprintf(ret, size, "%s", text && *text ? text : skade_strerror(code));
}

/* A handle that was opened finds the next daemon by itself. */
static int open_handle(struct top *t)
{
    if (t->c->s)
        return 0;
    int r = skade_open(&t->c->s, &t->c->options);
    if (r < 0)
        note_problem(t->now->problem, sizeof t->now->problem, skade_errmsg(NULL), r);
    return r;
}

static void sample_counters(struct top *t)
{
    struct top_sample *s = t->now;

    if (open_handle(t) < 0)
        return;
    int r = skade_stats(t->c->s, take_counter, s);
    if (r < 0)
        note_problem(s->problem, sizeof s->problem, skade_errmsg(t->c->s), r);
    else
        s->state = r == SKADE_ALIVE ? TOP_ALIVE : TOP_STALLED;
}

static void sample_clients(struct top *t)
{
    struct top_sample *s = t->now;

    if (t->clients_denied && t->before && *t->before->clients_problem) {
        memcpy(s->clients_problem, t->before->clients_problem, sizeof s->clients_problem);
        return;
    }
    int64_t r = skade_clients(t->c->s, take_client, s);
    if (r < 0)
        note_problem(s->clients_problem, sizeof s->clients_problem, skade_errmsg(t->c->s), (int)r);
    t->clients_denied = r == SKADE_EDENIED;
    top_sample_group(s);
}

/* Those of the sample before, when they are new enough. */
static void keep_tables(struct top_sample *to, const struct top_sample *from)
{
    memcpy(to->tables, from->tables, from->tables_count * sizeof *from->tables);
    to->tables_count = from->tables_count;
}

static void sample_tables(struct top *t)
{
    double began = clock_seconds(), wait = t->listing_took * LISTING_SHARE;

    wait = wait > LISTING_SECONDS ? wait : LISTING_SECONDS;
    if (t->before && t->listed > 0 && began < t->listed + wait) {
        keep_tables(t->now, t->before);
        return;
    }
    if (skade_tables(t->c->s, "", take_table, t) < 0 && t->before)
        keep_tables(t->now, t->before);
    t->listed = clock_seconds();
    t->listing_took = t->listed - began;
}

static void take_sample(struct top *t)
{
    struct top_sample *next = t->now == &t->samples[0] ? &t->samples[1] : &t->samples[0];

    t->before = t->now;
    t->now = next;
    top_sample_clear(next);
    next->seconds = clock_seconds();
    next->time_us = wall_us();
    sample_counters(t);
    if (next->state == TOP_ALIVE) {
        sample_clients(t);
        sample_tables(t);
    } else if (t->before) {
        keep_tables(next, t->before);
    }
    t->view.now = t->now;
    t->view.before = t->before;
}

/* ---- pictures -------------------------------------------------------------------------------------------------------- */

static const char *paint_of(enum top_look look)
{
    static const char *const paints[] = { [TOP_PLAIN] = "",
                                          [TOP_TITLE] = "\033[1m",
                                          [TOP_HEADING] = "\033[7m",
                                          [TOP_ALARM] = "\033[1;31m",
                                          [TOP_FAINT] = "\033[2m" };
    return paints[look];
}

/* From the first line to the last, each cleared behind its end, and the rest of the screen too: nothing flickers. */
static int show(struct top *t)
{
    static struct top_frame frame;
    char *text = NULL;
    size_t len = 0;

    terminal_size(&t->view.width, &t->view.height);
    top_draw(&t->view, &frame);
    FILE *f = open_memstream(&text, &len);
    if (!f)
        return -ENOMEM;
    fputs("\033[H", f);
    for (size_t i = 0; i < frame.count; i++)
        fprintf(f, "%s%s\033[0m\033[K%s", paint_of(frame.lines[i].look), frame.lines[i].text,
                i + 1 < frame.count ? "\r\n" : "");
    fputs("\033[J", f);
    int r = fclose(f) == 0 ? terminal_write(text, len) : -ENOMEM;
    free(text);
    return r;
}

static void print_once(struct top *t)
{
    static struct top_frame frame;

    top_draw(&t->view, &frame);
    for (size_t i = 0; i < frame.count; i++) {
        size_t len = strlen(frame.lines[i].text);
        while (len > 0 && frame.lines[i].text[len - 1] == ' ')
            len--;
        fprintf(t->c->out.file, "%.*s\n", (int)len, frame.lines[i].text);
    }
}

/* ---- keys ------------------------------------------------------------------------------------------------------------ */

/* Does it go on? */
static bool obey(struct top *t, int key)
{
    if (key == 'q' || key == 'Q' || key == TERMINAL_GONE)
        return false;
    if (key == 't') {
        t->view.tables = (t->view.tables + 1) % TOP_TABLE_ORDERS;
        t->listed = 0; /* those that come first now may be others */
    }
    if (key == 'c')
        t->view.clients = (t->view.clients + 1) % TOP_CLIENT_ORDERS;
    return true;
}

static int64_t clock_ms(void)
{
    return (int64_t)(clock_seconds() * 1e3);
}

/* Until the next sample is due.  Does it go on? */
static bool wait_for_next(struct top *t)
{
    int64_t due = clock_ms() + t->interval_ms, left;

    while ((left = due - clock_ms()) > 0) {
        int what = terminal_wait((int)left);
        if (!obey(t, what))
            return false;
        if (what == 't')
            return true;
        if (what != TERMINAL_TIME)
            t->error = show(t);
        if (t->error < 0)
            return false;
    }
    return true;
}

static int watch(struct top *t)
{
    int r = terminal_begin();

    if (r < 0)
        return ctl_fail_with(t->c, r, "the terminal: %s", strerror(-r));
    t->view.keys = true;
    do {
        take_sample(t);
        t->error = show(t);
    } while (t->error == 0 && wait_for_next(t));
    terminal_end();
    return t->error == 0 ? CTL_OK : CTL_FAILED;
}

/* Two samples, so that there are rates. */
static int once(struct top *t)
{
    struct timespec wait = { .tv_sec = t->interval_ms / 1000, .tv_nsec = t->interval_ms % 1000 * 1000000L };
    const char *columns = getenv("COLUMNS");
    uint64_t width = 80;

    if (columns && parse_uint64(columns, &width) == 0 && width > TOP_WIDTH_MAX)
        width = TOP_WIDTH_MAX;
    t->view.width = width >= 20 ? (size_t)width : 80;
    t->view.height = 24;
    take_sample(t);
    if (t->now->state == TOP_ALIVE) {
        while (nanosleep(&wait, &wait) < 0 && errno == EINTR)
            ;
        take_sample(t);
    }
    print_once(t);
    return t->now->state == TOP_ALIVE ? CTL_OK : CTL_UNREACHABLE;
}

/* A terminal that knows no escapes. */
static bool is_dumb(void)
{
    const char *term = getenv("TERM");
    return term && strcmp(term, "dumb") == 0;
}

int cmd_top(struct ctl *c)
{
    static struct top t; /* samples are large */
    const char *interval = args_value(&c->args, "interval");

    t = (struct top){ .c = c, .interval_ms = 1000 };
    if (c->out.json)
        return ctl_usage(c, "--json: this is for people; `skadectl stats --watch --json` is for programs");
    if (interval && parse_seconds(interval, &t.interval_ms) < 0)
        return ctl_usage(c, "--interval %s is not a number of seconds above 0", interval);
    setlocale(LC_CTYPE, "");
    t.view.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    t.view.instance = c->options.instance ? c->options.instance : getenv("SKADE_INSTANCE");
    if (!t.view.instance || !*t.view.instance)
        t.view.instance = "default";
    if (!c->timeout_given)
        c->options.timeout_ms = ANSWER_MS;
    bool live = !args_flag(&c->args, "once") && ctl_on_terminal() && !is_dumb();
    int r = live ? watch(&t) : once(&t);
    ctl_close(c);
    top_sample_clear(&t.samples[0]);
    top_sample_clear(&t.samples[1]);
    return r;
}
