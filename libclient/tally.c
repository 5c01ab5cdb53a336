/*
 * The daemon is told how many lookups memory answered, and which generation is mapped, so that operators see them.
 *
 * A lookup that memory answers does no more for it: it counts for its handle, as ever.  What the handle counted is told
 * when it is slow anyway: after it mapped another generation, with a request, before it lets go of its maps or ends.
 * So a handle that only looks, while nothing is published, tells nothing until one of these.
 *
 * Told are differences, so that it makes none when the next connection is another daemon's.  What could not be sent,
 * since the socket is full or there is no connection, is told another time.  Nothing waits for it, and nothing is answered.
 */
#include "client.h"

#define EVERY_MS 1000 /* with requests, at most so often */

/* All that there is to tell. */
static struct told count_up(const skade *s)
{
    const struct generation *g = s->shm.current;
    uint64_t tail = s->counters[CLIENT_hits_tail];

    return (struct told){ .map = s->counters[CLIENT_hits_map] - tail,
                          .tail = tail,
                          .epoch = g ? g->epoch : 0,
                          .generation = g ? g->number : 0 };
}

static bool may_tell(const skade *s)
{
    return s->stream.fd >= 0 && s->welcome.protocol >= WIRE_PROTOCOL_TALLY;
}

static bool maps_another(const skade *s, const struct told *t)
{
    return t->epoch != s->told.epoch || t->generation != s->told.generation;
}

static bool is_news(const skade *s, const struct told *t)
{
    return t->map != s->told.map || t->tail != s->told.tail || maps_another(s, t);
}

static void put(skade *s, struct wr *w, const struct told *t)
{
    struct msg_tally m = { .epoch = t->epoch,
                           .generation = t->generation,
                           .map = t->map - s->told.map,
                           .tail = t->tail - s->told.tail };

    size_t at = frame_begin(w);
    wire_put_tally(w, &m);
    frame_end(w, at, WIRE_TALLY, 0, s->next_request++);
}

void tally_told(skade *s, const struct told *t)
{
    s->told = *t;
    s->told_at = s->coarse_ms();
    count(s, CLIENT_tallies);
}

void tally_tell(skade *s)
{
    struct told t = count_up(s);
    struct wr w = { .error = 0 };

    if (!may_tell(s) || !is_news(s, &t))
        return;
    put(s, &w, &t);
    if (w.error == 0 && stream_try(&s->stream, w.data, w.len))
        tally_told(s, &t);
    wr_fini(&w);
}

bool tally_put(skade *s, struct wr *w, struct told *ret)
{
    struct told t = count_up(s);
    size_t len = w->len;

    if (!may_tell(s) || !is_news(s, &t))
        return false;
    if (!maps_another(s, &t) && s->coarse_ms() - s->told_at < EVERY_MS)
        return false;
    put(s, w, &t);
    if (w->error != 0) { /* the request itself is there */
        w->error = 0;
        w->len = len;
        return false;
    }
    *ret = t;
    return true;
}

/* What a child looked up before it found out that it is one can't be told from its parent's. */
void tally_skip(skade *s)
{
    s->told = count_up(s);
}
