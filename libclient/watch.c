/*
 * Watching: every event once and in order, as they come, over as many connections as it takes.
 *
 *     start ---> wait for events ---> deliver ---> wait ...      until the callback, the timeout or an error
 *       ^             |
 *       +- connect <--+ the connection broke: go on after the last event delivered
 *
 * Until what was there at the beginning is delivered, the daemon is at work and gets the handle's patience;
 * after that the caller's timeout runs from the last event.  A thread may be cancelled while it waits:
 * nothing is half done then.
 */
#include "client.h"

#include <pthread.h>

#define CANCEL_MS 1000 /* patience with the end of a watch; then the connection is closed */
#define PAUSE_FIRST_MS 10
#define PAUSE_LAST_MS 1000

struct watch {
    skade *s;
    struct events ev;
    struct call *call;
    int timeout_ms;
    int64_t idle;    /* the caller's deadline, from the last event on */
    uint64_t there;  /* newest event when the watch began */
    uint64_t number; /* of the WATCH request */
    bool idle_over;  /* nothing came for the caller's timeout */
};

/* ---- waiting, the only place where cancellation is let in ---------------------------------------------- */

static int wait_for_input(struct watch *w, int64_t deadline)
{
    pthread_setcancelstate(w->call->cancel_state, NULL);
    int r = stream_await(&w->s->stream, deadline);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return r;
}

static bool pause_before_retry(struct watch *w, unsigned ms)
{
    pthread_setcancelstate(w->call->cancel_state, NULL);
    bool time_left = deadline_pause(w->idle, ms);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return time_left;
}

/* ---- starting ------------------------------------------------------------------------------------------ */

static int start(struct watch *w)
{
    skade *s = w->s;

    wire_put_watch(ask_begin(s), &(struct msg_watch){ .after = w->ev.last });
    w->number = ask_finish(s, WIRE_WATCH);
    if (w->number == 0)
        return -ENOMEM;
    int r = ask_send(s);
    return r < 0 ? r : 0;
}

/* The daemon may be restarting: try until the caller's time is up. */
static int reconnect(struct watch *w)
{
    unsigned pause = PAUSE_FIRST_MS;

    for (;;) {
        deadline_renew(w->s);
        int r = ask_connect(w->s);
        if (r == 0)
            w->there = w->s->welcome.commit_seq;
        if (r != SKADE_EUNREACHABLE && r != SKADE_ETIMEOUT && r != SKADE_EBUSY)
            return r;
        if (!pause_before_retry(w, pause))
            return r;
        pause = pause * 2 < PAUSE_LAST_MS ? pause * 2 : PAUSE_LAST_MS;
    }
}

/* ---- going on ------------------------------------------------------------------------------------------ */

static bool is_catching_up(const struct watch *w)
{
    return w->ev.last < w->there;
}

static int receive(struct watch *w)
{
    struct frame f;
    uint64_t had = w->ev.count;

    deadline_renew(w->s);
    int r = ask_receive(w->s, w->number, WIRE_EVENTS, &f);
    if (r < 0)
        return r;
    w->s->unfinished = true; /* a watch has no last answer */
    r = events_deliver(w->s, &f, &w->ev);
    if (w->ev.count > had)
        w->idle = deadline_in(w->timeout_ms);
    return r;
}

/* What waiting for input ended with, other than input. */
static int waited_in_vain(struct watch *w, int r)
{
    skade *s = w->s;

    if (r == STREAM_LOST) {
        count(s, CLIENT_connections_lost);
        return r;
    }
    w->idle_over = r == SKADE_ETIMEOUT && !is_catching_up(w);
    if (w->idle_over)
        return r;
    ask_hang_up(s);
    return fail(&s->msg, r, "the daemon at %s sends nothing, though it has newer events", s->socket_path);
}

/* Wait for one message and deliver it. */
static int next(struct watch *w)
{
    int r = wait_for_input(w, is_catching_up(w) ? deadline_in(w->s->timeout_ms) : w->idle);
    return r < 0 ? waited_in_vain(w, r) : receive(w);
}

/* ---- ending -------------------------------------------------------------------------------------------- */

static int send_cancel(struct watch *w)
{
    skade *s = w->s;

    wire_put_cancel(ask_begin(s), &(struct msg_cancel){ .request = w->number });
    uint64_t number = ask_finish(s, WIRE_CANCEL);
    s->deadline = deadline_sooner(deadline_in(s->timeout_ms), CANCEL_MS);
    if (number == 0 || ask_send(s) < 0)
        return -1;
    return 0;
}

/* Events that are on their way are left alone: nobody was told of them, so the next watch gets them. */
static bool is_over(struct watch *w)
{
    struct frame f;

    while (stream_receive(&w->s->stream, w->s->deadline, &f) == 0) {
        if (f.head.type == WIRE_DONE)
            return true;
        if (f.head.type != WIRE_EVENTS)
            return false;
    }
    return false;
}

/* Keep the connection if that is quickly done. */
static void finish(struct watch *w)
{
    skade *s = w->s;
    struct errmsg story = s->msg;

    if (s->stream.fd >= 0 && send_cancel(w) == 0 && is_over(w))
        s->unfinished = false;
    else
        ask_hang_up(s);
    s->msg = story;
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

static int run(struct watch *w)
{
    int r = start(w);

    for (;;) {
        while (r == 0)
            r = next(w);
        if (w->ev.stopped || r != STREAM_LOST)
            return r;
        ask_hang_up(w->s);
        r = reconnect(w);
        if (r < 0)
            return r;
        r = start(w);
    }
}

/* A connection that was there before has an old WELCOME: what is there now is what a new one says. */
static int find_newest(struct watch *w)
{
    int r = ask_newest(w->s, &w->there);
    w->idle = deadline_in(w->timeout_ms);
    return r;
}

int skade_watch(skade *s, uint64_t after, int timeout_ms, skade_event_fn fn, void *arg)
{
    struct call c;
    struct watch w = {
        .s = s,
        .call = &c,
        .timeout_ms = timeout_ms,
        .ev = { .fn = fn, .arg = arg, .last = after, .follows = events_follow_closely },
    };

    int r = call_begin(&c, s);
    if (r == 0)
        r = find_newest(&w);
    if (r == 0) {
        r = run(&w);
        finish(&w);
        if (w.idle_over)
            r = 0;
    }
    return (int)call_end(&c, r);
}
