/*
 * history and watch: the events of one table backwards, of all tables as they come.
 */
#include "ctl.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- an event as a row ---- */

/* A side commit is one that doesn't move the head. */
static const char *event_word(const struct skade_event *e)
{
    switch (e->kind) {
    case SKADE_EVENT_COMMIT:
        return e->flags & SKADE_MOVES_HEAD ? "commit" : "side";
    case SKADE_EVENT_CREATE:
        return "create";
    case SKADE_EVENT_RENAME:
        return "rename";
    case SKADE_EVENT_DROP:
        return "drop";
    case SKADE_EVENT_COMPACT:
        return "compact";
    case SKADE_EVENT_EXPIRE:
        return "expire";
    }
    return "unknown"; /* of a later daemon */
}

static void print_moment(struct out *o, const struct skade_event *e)
{
    out_seq(o, e->seq);
    out_time(o, e->time_us);
    out_text(o, event_word(e));
}

static void print_place(struct out *o, const struct skade_event *e)
{
    if (e->flags & SKADE_WITH_SNAPSHOT)
        out_id(o, e->snapshot);
    else
        out_absent(o);
    /* The plain columns have no other room for what a rename is about. */
    out_text(o, e->kind == SKADE_EVENT_RENAME && !o->json ? e->old_name : e->location);
}

static void print_rest(struct out *o, const struct skade_event *e)
{
    char uuid[37];

    out_text(o, e->old_name);
    out_seq(o, e->watermark);
    out_text(o, skade_uuid_format(e->uuid, uuid));
}

/* ---- history ---- */

static int print_history_event(void *arg, const struct skade_event *e)
{
    struct ctl *c = arg;

    print_moment(&c->out, e);
    print_place(&c->out, e);
    out_text(&c->out, e->name);
    print_rest(&c->out, e);
    return ctl_row(c);
}

int cmd_history(struct ctl *c)
{
    const char *name = c->args.operands[0];
    uint64_t limit = 0, before = 0;
    skade_table table;

    int r = ctl_uint64_option(c, "limit", &limit);
    if (r == 0)
        r = ctl_uint64_option(c, "before", &before);
    if (r == 0)
        r = ctl_find_table(c, name, &table);
    if (r != 0)
        return r;
    /* To the library 0 means "all", but who asks for none, or for what is before the first event, gets none, as --help
     * says. */
    if ((limit == 0 && args_flag(&c->args, "limit")) || (before == 0 && args_flag(&c->args, "before")))
        return CTL_OK;
    int64_t n = skade_history(c->s, table, before, limit, print_history_event, c);
    if (c->out.error)
        return CTL_FAILED;
    return n < 0 ? ctl_fail(c, name, (int)n) : CTL_OK;
}

/* ---- watch ---- */

#define LOOK_AROUND_MS 2000 /* how long a reader who went away may stay unnoticed while nothing happens */

struct watch {
    struct ctl *c;
    const char *name;  /* --table, or NULL: all */
    skade_table table; /* the one that bears, or last bore, that name */
    uint64_t last;     /* the newest event seen */
    uint64_t left;     /* rows to print before the end; UINT64_MAX: no end */
    int64_t since_ms;  /* when the last event came, by now_ms() */
};

enum { WATCH_ENOUGH = 1 };

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Is E about the table that is watched?  Follows the number through renames and takes up a new table of the name. */
static bool is_watched(struct watch *w, const struct skade_event *e)
{
    if (!w->name)
        return true;
    if (strcmp(e->name, w->name) == 0)
        w->table = e->table;
    return e->table == w->table || strcmp(e->old_name, w->name) == 0;
}

static int print_watched(void *arg, const struct skade_event *e)
{
    struct watch *w = arg;
    struct out *o = &w->c->out;

    w->last = e->seq;
    w->since_ms = now_ms();
    if (!is_watched(w, e))
        return 0;
    print_moment(o, e);
    out_text(o, e->name);
    print_place(o, e);
    print_rest(o, e);
    if (out_row(o) < 0 || out_flush(o) < 0)
        return WATCH_ENOUGH;
    if (w->left != UINT64_MAX)
        w->left--;
    return w->left == 0 ? WATCH_ENOUGH : 0;
}

/* Nothing has to be put in order: each row is flushed, and the daemon notices a closed connection. */
static void stop_at_once(int signal_number)
{
    (void)signal_number;
    _exit(CTL_OK);
}

static bool reader_went_away(void)
{
    struct pollfd p = { .fd = STDOUT_FILENO };

    return poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLNVAL));
}

/* How long to wait for events before looking around; 0: nothing came for so long as --timeout allows. */
static int next_slice(const struct watch *w)
{
    if (!w->c->timeout_given)
        return LOOK_AROUND_MS;
    int64_t left = w->since_ms + w->c->options.timeout_ms - now_ms();
    return left <= 0 ? 0 : left < LOOK_AROUND_MS ? (int)left : LOOK_AROUND_MS;
}

static int watch_slices(struct watch *w)
{
    int slice;

    w->since_ms = now_ms();
    while ((slice = next_slice(w)) > 0) {
        int r = skade_watch(w->c->s, w->last, slice, print_watched, w);
        if (r < 0)
            return ctl_fail(w->c, NULL, r);
        ctl_next_question(w->c);
        if (r == WATCH_ENOUGH || reader_went_away())
            return CTL_OK;
    }
    return ctl_fail_with(w->c, SKADE_ETIMEOUT, "nothing came");
}

/* Where to begin: --since, or now, the moment of a view. */
static int find_beginning(struct watch *w)
{
    skade_view *now;

    if (args_flag(&w->c->args, "since"))
        return ctl_uint64_option(w->c, "since", &w->last);
    int r = skade_view_open(w->c->s, &now);
    if (r < 0)
        return ctl_fail(w->c, NULL, r);
    w->last = skade_view_seq(now);
    skade_view_close(now);
    return 0;
}

/* A name that nobody bears is a typing error, unless the past is asked for, where it may occur. */
static int find_watched(struct watch *w)
{
    w->name = args_value(&w->c->args, "table");
    if (!w->name)
        return 0;
    if (!args_flag(&w->c->args, "since"))
        return ctl_find_table(w->c, w->name, &w->table);
    int r = skade_find_table(w->c->s, w->name, &w->table);
    return r < 0 ? ctl_fail(w->c, w->name, r) : 0;
}

int cmd_watch(struct ctl *c)
{
    struct watch w = { .c = c, .left = UINT64_MAX };

    int r = ctl_uint64_option(c, "count", &w.left);
    if (r == 0)
        r = find_beginning(&w);
    if (r == 0)
        r = find_watched(&w);
    if (r != 0 || w.left == 0)
        return r;
    signal(SIGINT, stop_at_once);
    signal(SIGTERM, stop_at_once);
    r = watch_slices(&w);
    /* A reader who has seen enough ends a watch, which has no other end, as it should. */
    if (c->out.error == -EPIPE)
        _exit(CTL_OK);
    return r;
}
