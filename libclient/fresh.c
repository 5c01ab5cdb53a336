/*
 * What is newer than the parts: answers from the mapped tail.
 *
 * A commit is in the tail before anyone is told of it, so whoever has loaded commit_seq, then the generation, then the
 * tail's count (T3) knows everything up to there, and whether something isn't there.  The tail is mapped when a question
 * needs it for the first time, once for each generation; when that fails, or when it was full, the daemon is asked.
 */
#include "client.h"

#include <errno.h>

/* ---- mapping ------------------------------------------------------------------------------------------- */

void fresh_map(skade *s)
{
    struct generation *g = s->shm.gen;
    struct errmsg why; /* the daemon answers, so nobody asks for it */

    g->tail_tried = true;
    int r = tail_map_open(&g->tail, &s->place, g, &s->shm.control.log, &why);
    count(s, r == 0 ? CLIENT_tails : CLIENT_tails_missing);
    if (r == SKADE_EDAMAGED)
        count(s, CLIENT_damage_seen);
}

/* Of the tail, what M needs and no more: what commit_seq didn't tell of yet would be from the future of a view that is
 * opened next. */
static int begin(struct fresh *f, const struct moment *m)
{
    int r = fresh_begin(f, m->gen, m->at);
    if (r == 0 && !m->past)
        f->n = tail_limit(f->t, f->n, m->need);
    return r;
}

/* ---- one question -------------------------------------------------------------------------------------- */

static int search(const struct fresh *f, const struct question *q, struct fresh_found *ret)
{
    switch (q->kind) {
    case QUESTION_RESOLVE:
        return fresh_resolve(f, q->table, q->value, ret);
    case QUESTION_HEAD:
        return fresh_head(f, q->table, ret);
    case QUESTION_AS_OF:
        return fresh_as_of(f, q->table, q->value, ret);
    }
    return -EINVAL;
}

/* Does STATUS hold?  As moment_settles(), with what the tail covers. */
static bool holds(skade *s, const struct moment *m, const struct question *q, const struct fresh *f,
                  int status, is_current_fn is_current)
{
    if (moment_settles(s, m, q, status, is_current))
        return true;
    uint64_t covered = f->covered;
    if (status == SKADE_ENOTABLE && m->gen->names_seq > covered)
        covered = m->gen->names_seq;
    return covered >= m->need && (m->proved || is_current(s));
}

static void note(skade *s, const struct question *q, const struct fresh *f, const struct skade_answer *a)
{
    struct fresh_found first = { .status = 0 };

    answer_note(s, q, a);
    if (q->kind != QUESTION_AS_OF || a->status != SKADE_ENOSNAPSHOT)
        return;
    int r = fresh_earliest(f, q->table, &first);
    if (r != 1 && r != SKADE_EEXPIRED)
        return;
    if (first.in_tail)
        answer_note_first(s, first.hit.time_us, first.hit.seq);
    else
        answer_note_first(s, first.part.hit.time_us, first.part.hit.seq);
}

/* Put what was found into A.  False: it is damaged. */
static bool put(skade *s, const struct fresh *f, const struct fresh_found *found, struct skade_answer *a,
                int *result)
{
    int r = found->in_tail ? answer_from_tail(a, f->t, found) : answer_from_map(a, f->g, &found->part);
    if (r == SKADE_EDAMAGED) {
        count(s, CLIENT_damage_seen);
        return false;
    }
    count(s, CLIENT_hits_map);
    s->counters[CLIENT_hits_tail] += found->in_tail;
    *result = r;
    return true;
}

bool fresh_settle(skade *s, const struct moment *m, const struct question *q, struct skade_answer *a,
                  is_current_fn is_current, int *result)
{
    struct fresh_found found = { .status = 0 };
    struct fresh f;

    if (a->location_cap > 0)
        a->location[0] = 0;
    int r = begin(&f, m);
    if (r == 0)
        r = search(&f, q, &found);
    if (!question_is_outcome(r)) {
        s->counters[CLIENT_damage_seen] += r != -EAGAIN;
        return false;
    }
    if (!holds(s, m, q, &f, r, is_current) || !put(s, &f, &found, a, result))
        return false;
    if (*result != 1)
        note(s, q, &f, a);
    return true;
}

/* ---- many ---------------------------------------------------------------------------------------------- */

static bool settle_one(skade *s, const struct moment *m, const struct fresh *f, struct skade_answer *a)
{
    struct question q = { .kind = QUESTION_RESOLVE, .table = a->table, .value = a->snapshot };
    struct fresh_found found = { .status = 0 };

    int r = fresh_resolve(f, a->table, a->snapshot, &found);
    if (!question_is_outcome(r)) {
        s->counters[CLIENT_damage_seen] += r != -EAGAIN;
        return false;
    }
    if (!holds(s, m, &q, f, r, attach_is_current))
        return false;
    if (!found.in_tail) {
        a->flags = SKADE_FROM_MAP;
        a->status = r;
        return true;
    }
    if (answer_from_tail(a, f->t, &found) == SKADE_EDAMAGED) {
        count(s, CLIENT_damage_seen);
        a->status = 0;
        return false;
    }
    count(s, CLIENT_hits_tail);
    return true;
}

/* Memory is asked for all of them before the first one waits. */
static void prefetch(const struct tail *t, struct skade_answer *const *a, size_t n)
{
    uint32_t homes[FRESH_MANY];

    for (size_t i = 0; i < n; i++) {
        homes[i] = tail_home(t, a[i]->table, a[i]->snapshot);
        tail_prefetch_home(t, homes[i]);
    }
    for (size_t i = 0; i < n; i++)
        tail_prefetch_slot(t, homes[i]);
}

size_t fresh_settle_many(skade *s, const struct moment *m, struct skade_answer *const *a, size_t n)
{
    struct fresh f;
    size_t settled = 0;

    if (n == 0)
        return 0;
    if (begin(&f, m) < 0) {
        count(s, CLIENT_damage_seen);
        return 0;
    }
    prefetch(f.t, a, n);
    for (size_t i = 0; i < n; i++)
        settled += settle_one(s, m, &f, a[i]);
    return settled;
}

/* ---- names --------------------------------------------------------------------------------------------- */

int fresh_find(skade *s, const struct moment *m, struct bytes name, skade_table *ret)
{
    struct fresh f;

    int r = begin(&f, m);
    if (r == 0)
        r = fresh_find_name(&f, name, ret);
    if (r < 0) {
        count(s, CLIENT_damage_seen);
        return r;
    }
    uint64_t covered = f.covered > m->gen->names_seq ? f.covered : m->gen->names_seq;
    return r == 0 && covered < m->need ? -EAGAIN : r;
}
