/*
 * Views: a frozen moment (log, sequence number V) and the maps that were current then.
 *
 * What the maps cover up to V is final: nothing about V can change any more, so no page has to be proved
 * current and no daemon has to be there.  The rest is asked as of V.
 */
#include "client.h"

struct skade_view {
    skade *s;
    struct generation *gen; /* NULL: the daemon is asked for everything */
    uint64_t seq;
    struct uuid log; /* the handle's history */
    struct uuid public_log;
};

/* ---- opening ------------------------------------------------------------------------------------------- */

/* A map has the present moment beside it.  If the page can't be proved current, the daemon's word counts;
 * if there is none, the page's moment is one that was, and everything that the view says about it is
 * true. */
static int choose_moment(skade *s, struct moment *m, uint64_t *seq)
{
    int r = moment_take(s, m);
    if (r < 0)
        return r;
    *seq = m->need;
    if (m->gen && attach_is_current(s))
        return 0;
    bool had_map = m->gen != NULL;
    r = ask_newest(s, seq);
    if (r < 0)
        return had_map && s->shm.current && (r == SKADE_EUNREACHABLE || r == SKADE_ETIMEOUT) ? 0 : r;
    r = moment_take(s, m); /* again: what was published before the daemon's answer must be in the map */
    if (r == 0 && m->gen)
        *seq = m->need;
    return r;
}

static int open_view(skade *s, skade_view **ret)
{
    struct moment m;
    uint64_t seq;

    int r = choose_moment(s, &m, &seq);
    if (r < 0)
        return r;
    skade_view *v = calloc(1, sizeof *v);
    if (!v)
        return fail(&s->msg, -ENOMEM, "out of memory for a view");
    v->s = s;
    v->seq = seq;
    v->log = s->history;
    v->public_log = s->log;
    v->gen = m.gen ? generation_ref(s->shm.gen) : NULL;
    *ret = v;
    return 0;
}

int skade_view_open(skade *s, skade_view **ret)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0)
        r = open_view(s, ret);
    return (int)call_end(&c, r);
}

void skade_view_close(skade_view *v)
{
    struct call c;

    if (!v)
        return;
    int r = call_begin_frozen(&c, v->s);
    if (r == 0) /* else a callback is at work, maybe with what a get knows */
        gets_forget_view(v->s, v->seq);
    generation_unref(v->gen);
    call_end(&c, r);
    free(v);
}

uint64_t skade_view_seq(const skade_view *v)
{
    return v->seq;
}

void skade_view_log(const skade_view *v, unsigned char *ret)
{
    memcpy(ret, v->public_log.b, sizeof v->public_log.b);
}

const struct uuid *view_log(const skade_view *v)
{
    return &v->log;
}

/* ---- asking -------------------------------------------------------------------------------------------- */

static struct moment moment_of(const skade_view *v)
{
    return (struct moment){ .gen = v->gen, .at = v->seq, .need = v->seq, .proved = true, .log = &v->log };
}

static int slowly(skade_view *v, const struct moment *m, const struct question *q, struct skade_answer *a)
{
    struct call c;

    int r = call_begin_frozen(&c, v->s);
    r = r == 0 ? question_answer(v->s, m, q, a) : answer_status(a, r);
    return (int)call_end(&c, r);
}

static int question(skade_view *v, const struct question *q, struct skade_answer *a)
{
    struct moment m = moment_of(v);
    int result;

    int r = answer_clear(v->s, a);
    if (r < 0)
        return r;
    if (question_settle(v->s, &m, q, a, attach_is_current, &result))
        return result;
    return slowly(v, &m, q, a);
}

int skade_view_resolve(skade_view *v, skade_table table, int64_t id, struct skade_answer *a)
{
    struct question q = { .kind = QUESTION_RESOLVE, .table = table, .value = id };
    return question(v, &q, a);
}

int skade_view_head(skade_view *v, skade_table table, struct skade_answer *a)
{
    struct question q = { .kind = QUESTION_HEAD, .table = table };
    return question(v, &q, a);
}

int skade_view_as_of(skade_view *v, skade_table table, int64_t time_us, struct skade_answer *a)
{
    struct question q = { .kind = QUESTION_AS_OF, .table = table, .value = time_us };
    return question(v, &q, a);
}

int skade_view_find_table(skade_view *v, const char *name, skade_table *ret)
{
    struct call c;
    struct moment m = moment_of(v);
    int result;

    int r = find_check(v->s, name);
    if (r < 0)
        return r;
    if (find_settle(v->s, &m, bytes_of(name), attach_is_current, ret, &result))
        return result;
    r = call_begin_frozen(&c, v->s);
    if (r == 0)
        r = find_answer(v->s, &m, bytes_of(name), ret);
    return (int)call_end(&c, r);
}

int64_t skade_view_resolve_many(skade_view *v, struct skade_answer *a, size_t n)
{
    struct call c;
    struct moment m = moment_of(v);

    if (n == 0)
        return 0;
    int64_t r = call_begin_frozen(&c, v->s);
    return call_end(&c, r < 0 ? many_fail(v->s, a, n, r) : many_answer(v->s, &m, a, n));
}
