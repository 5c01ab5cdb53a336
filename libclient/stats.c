/*
 * Counters: the daemon's, from its control page, so that they can be read when it is dead or hangs; and the
 * handle's own.
 */
#include "client.h"

#include "counters.h"

#define ALIVE_MS 1200 /* more than twice the time between two heartbeats */
#define ALIVE_STEP_MS 50

/* ---- is it alive? -------------------------------------------------------------------------------------- */

static bool answers(skade *s)
{
    uint64_t newest;

    s->deadline = deadline_sooner(s->deadline, ALIVE_MS);
    return ask_newest(s, &newest) == 0;
}

static bool beats(skade *s, uint64_t before, int64_t deadline)
{
    const struct control_page *page = s->shm.control.page;

    if (!page)
        return false;
    while (control_heartbeat(page) == before) { /* P6 */
        if (!deadline_pause(deadline, ALIVE_STEP_MS))
            return false;
    }
    return true;
}

/* One that answers is alive; one that doesn't may be alive and not for us.  BEFORE was read at the
 * beginning. */
static int liveness(skade *s, uint64_t before, int64_t deadline)
{
    return answers(s) || beats(s, before, deadline) ? SKADE_ALIVE : SKADE_STALLED;
}

/* ---- the daemon's -------------------------------------------------------------------------------------- */

static int tell(skade *s, skade_counter_fn fn, void *arg, const struct counter_row *row, uint64_t value)
{
    s->lent = true;
    int r = fn(arg, row->name, value, row->unit, row->kind, row->help);
    s->lent = false;
    return r;
}

/* An older daemon has fewer counters than we know; of a newer one we know the first. */
static int tell_page(skade *s, const uint64_t *values, size_t n, skade_counter_fn fn, void *arg)
{
    for (size_t i = 0; i < n; i++) {
        int r = tell(s, fn, arg, &counter_rows[i], values[i]);
        if (r != 0)
            return r;
    }
    return 0;
}

static size_t copy_counters(const struct control *c, uint64_t *values)
{
    size_t n = c->counters < COUNTER_END ? c->counters : COUNTER_END;

    for (size_t i = 0; i < n; i++)
        values[i] = counter_get(c->page, (enum counter)i);
    return n;
}

/* The page is copied before the daemon is pinged: that may find out that the page is not its page. */
static int stats_from_page(skade *s, skade_counter_fn fn, void *arg)
{
    uint64_t values[COUNTER_END];
    uint64_t before = control_heartbeat(s->shm.control.page); /* P6 */
    int64_t deadline = deadline_in(ALIVE_MS);

    size_t n = copy_counters(&s->shm.control, values);
    int alive = liveness(s, before, deadline);
    int r = tell_page(s, values, n, fn, arg);
    return r != 0 ? r : alive;
}

static const struct counter_row *known_counter(const char *name)
{
    for (size_t i = 0; i < COUNTER_END; i++)
        if (strcmp(counter_rows[i].name, name) == 0)
            return &counter_rows[i];
    return NULL;
}

#define TEXT_MAX 64u

static void take_text(char *to, struct bytes from)
{
    size_t len = from.len < TEXT_MAX - 1 ? from.len : TEXT_MAX - 1;

    memcpy(to, from.data, len);
    to[len] = 0;
}

/* What is a name here is a row there, if it is one that we know. */
static int tell_item(skade *s, const struct item_counter_row *item, skade_counter_fn fn, void *arg)
{
    char name[TEXT_MAX], unit[TEXT_MAX];

    take_text(name, item->name);
    take_text(unit, item->unit);
    const struct counter_row *known = known_counter(name);
    struct counter_row row = { name, known ? known->kind : "counter", unit, known ? known->help : "" };
    return tell(s, fn, arg, &row, item->value);
}

static int stats_from_socket(skade *s, skade_counter_fn fn, void *arg)
{
    struct frame f;
    struct msg_counters m;
    struct item_counter_row item;

    wire_put_stats(ask_begin(s), &(struct msg_stats){ .end_ = 0 });
    int r = ask(s, ASK_READ, WIRE_STATS, WIRE_COUNTERS, &f);
    if (r < 0)
        return r;
    if (wire_read_counters(f.payload, f.head.len, &m) < 0)
        return ask_broken(s, "malformed counters");
    for (uint32_t i = 0; i < m.counters.count; i++) {
        wire_get_counter_row(&m.counters.items, &item);
        r = tell_item(s, &item, fn, arg);
        if (r != 0)
            return r;
    }
    return SKADE_ALIVE;
}

static int stats(skade *s, skade_counter_fn fn, void *arg)
{
    int r = attach_page(s);
    if (r == SKADE_EREPLACED)
        return r;
    return r == 0 ? stats_from_page(s, fn, arg) : stats_from_socket(s, fn, arg);
}

int skade_stats(skade *s, skade_counter_fn fn, void *arg)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0)
        r = stats(s, fn, arg);
    return (int)call_end(&c, r);
}

/* ---- the handle's -------------------------------------------------------------------------------------- */

static const struct counter_row client_rows[] = {
#define ROW(name, help) { #name, "counter", "", help },
    CLIENT_COUNTERS(ROW)
#undef ROW
};

int skade_client_stats(skade *s, skade_counter_fn fn, void *arg)
{
    s->counters[CLIENT_foreign_fds] = s->stream.foreign;
    for (size_t i = 0; i < CLIENT_COUNTER_END; i++) {
        const struct counter_row *row = &client_rows[i];
        int r = fn(arg, row->name, s->counters[i], row->unit, row->kind, row->help);
        if (r != 0)
            return r;
    }
    return 0;
}
