/*
 * resolve_many: n questions as of one moment, one pass over memory, one request for the rest.
 *
 * The moment is fixed before the first search, so that what the map answers and what the daemon answers
 * belong together. The caller's array is where the state lives: a status of 0 means "not answered yet".
 */
#include "client.h"

#define KEY_SIZE 12u
#define KEYS_HEAD 12u /* bytes before the keys in a RESOLVE message */

/* The caller's array: its elements are as large as the first one says. */
struct many {
    struct skade_answer *first;
    size_t n;
    size_t stride;
    size_t open; /* not answered yet */
};

static struct skade_answer *many_at(const struct many *q, size_t i)
{
    return (struct skade_answer *)(void *)((char *)q->first + i * q->stride);
}

static size_t next_open(const struct many *q, size_t i)
{
    while (i < q->n && many_at(q, i)->status != 0)
        i++;
    return i;
}

static struct question question_of(const struct skade_answer *a)
{
    return (struct question){ .kind = QUESTION_RESOLVE, .table = a->table, .value = a->snapshot };
}

/* Are elements [from, from + n) usable? */
static int check(skade *s, const struct many *q, size_t from, size_t n)
{
    for (size_t i = from; i < from + n; i++) {
        const struct skade_answer *a = many_at(q, i);
        if (a->size != q->stride || (!a->location && a->location_cap > 0))
            return fail(&s->msg, SKADE_EINPUT,
                        "element %zu is no struct skade_answer, or of another size than the first", i);
    }
    return 0;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

/* What the map says without an answer, STATUS about A, holds; or not. */
static bool is_settled(skade *s, const struct moment *m, const struct skade_answer *a, int status)
{
    struct question q = question_of(a);

    if (!question_is_outcome(status)) {
        s->counters[CLIENT_damage_seen] += status != -EAGAIN;
        return false;
    }
    return moment_settles(s, m, &q, status, attach_is_current);
}

/* A has no answer.  If that is all that there is to say, say it; else A stays open. */
static void take_absent(skade *s, const struct moment *m, struct many *q, struct skade_answer *a, int status)
{
    if (!is_settled(s, m, a, status))
        return;
    a->status = status;
    a->flags = SKADE_FROM_MAP;
    q->open--;
}

_Static_assert(GENERATION_MANY <= FRESH_MANY, "a piece is as large as either takes");

/* The COUNT elements of LIST, which the parts have no answer for, are empty again; the tail may know more. */
static void search_further(skade *s, const struct moment *m, struct many *q, size_t from,
                           const uint32_t *list, size_t count)
{
    struct skade_answer *fresh[GENERATION_MANY];
    size_t fresh_count = 0;

    for (size_t i = 0; i < count; i++) {
        struct skade_answer *a = many_at(q, from + list[i]);
        int status = a->status;
        answer_empty(a);
        if ((status == SKADE_ENOSNAPSHOT || status == SKADE_ENOTABLE) && moment_has_tail(m))
            fresh[fresh_count++] = a;
        else
            take_absent(s, m, q, a, status);
    }
    q->open -= fresh_settle_many(s, m, fresh, fresh_count);
}

/* Elements [from, from + n).  The index writes answers into the caller's array, so only those without are looked at. */
static void search_piece(skade *s, const struct moment *m, struct many *q, size_t from, size_t n)
{
    uint32_t list[GENERATION_MANY];

    for (uint32_t i = 0; i < n; i++)
        list[i] = i;
    size_t absent = generation_resolve_many(m->gen, many_at(q, from), q->stride, list, n, m->at);
    q->open -= n - absent;
    search_further(s, m, q, from, list, absent);
}

/* Nothing is known of elements from FROM on. */
static void give_up_from(const struct many *q, size_t from, int r)
{
    for (size_t i = 0; i < q->n && many_at(q, i)->size == q->stride; i++) {
        if (i >= from || many_at(q, i)->status == 0)
            many_at(q, i)->status = r;
    }
}

static int search_all(skade *s, const struct moment *m, struct many *q)
{
    struct moment now = *m;

    if (m->gen && !m->proved)
        now.proved = attach_is_current(s); /* once for all of them */
    for (size_t i = 0; i < q->n; i += GENERATION_MANY) {
        size_t n = q->n - i < GENERATION_MANY ? q->n - i : GENERATION_MANY;
        int r = check(s, q, i, n);
        if (r < 0) {
            give_up_from(q, i, r);
            return r;
        }
        size_t open = q->open;
        if (m->gen)
            search_piece(s, &now, q, i, n);
        for (size_t k = i; !m->gen && k < i + n; k++)
            answer_empty(many_at(q, k));
        s->counters[CLIENT_hits_map] += open - q->open;
    }
    return 0;
}

/* ---- the daemon ---------------------------------------------------------------------------------------- */

/* One RESOLVE message with the COUNT open questions from FROM on. */
static void put_keys(skade *s, const struct many *q, size_t from, size_t n, uint64_t at)
{
    struct wr *w = ask_begin(s);

    wire_put_resolve(w, &(struct msg_resolve){ .at = at, .keys = { .count = (uint32_t)n } });
    for (size_t i = from; n > 0; i++, n--) {
        i = next_open(q, i);
        const struct skade_answer *a = many_at(q, i);
        wire_put_key(w, &(struct item_key){ .table = a->table, .snapshot = a->snapshot });
    }
}

/* The answers of one message to the next open questions.  How many, or negative; *NEXT moves on. */
static int64_t take_answers(skade *s, struct many *q, const struct frame *f, size_t limit, size_t *next,
                            uint64_t *at)
{
    struct msg_answers m;
    struct item_answer item;

    if (wire_read_answers(f->payload, f->head.len, &m) < 0 || m.answers.count > limit)
        return ask_broken(s, "more answers than questions, or malformed ones");
    for (uint32_t i = 0; i < m.answers.count; i++) {
        *next = next_open(q, *next);
        struct skade_answer *a = many_at(q, *next);
        wire_get_answer(&m.answers.items, &item);
        if (item.table != a->table || item.snapshot != a->snapshot || answer_from_wire(a, &item) < 0)
            return ask_broken(s, "an answer to another question");
        heard(s, item.seq);
        q->open--;
    }
    *at = m.at;
    return m.answers.count;
}

/* Ask the COUNT open questions from *NEXT on. */
static int ask_some(skade *s, struct many *q, size_t n, size_t *next, uint64_t *at)
{
    struct frame f;

    put_keys(s, q, *next, n, *at);
    int r = ask(s, ASK_READ, WIRE_RESOLVE, WIRE_ANSWERS, &f);
    while (r == 0) {
        int64_t taken = take_answers(s, q, &f, n, next, at);
        if (taken < 0)
            return (int)taken;
        n -= (size_t)taken;
        if (!(f.head.flags & FRAME_MORE))
            break;
        r = ask_more(s, &f, WIRE_ANSWERS, &f);
    }
    if (r == 0 && n > 0)
        return ask_broken(s, "fewer answers than questions");
    return r;
}

static size_t keys_in_one(const skade *s, size_t open)
{
    size_t most = (s->welcome.frame_max - KEYS_HEAD) / KEY_SIZE;

    if (most > WIRE_KEYS_MAX)
        most = WIRE_KEYS_MAX;
    return open < most ? open : most;
}

/* As many requests as frames need; the first one fixes the moment if nothing has yet. */
static int ask_rest(skade *s, const struct moment *m, struct many *q)
{
    size_t next = 0;
    uint64_t at = m->at;

    if (q->open == 0)
        return 0;
    int r = moment_check_log(s, m);
    if (r == 0)
        r = ask_connect(s); /* which learns how long a frame may be */
    s->counters[CLIENT_asked_daemon] += q->open;
    while (r == 0 && q->open > 0) {
        r = ask_some(s, q, keys_in_one(s, q->open), &next, &at);
        if (r == 0)
            deadline_renew(s);
    }
    return r;
}

/* ---- both ---------------------------------------------------------------------------------------------- */

/* The daemon is away: what the map says, however old it is. */
static void settle_stale(skade *s, const struct moment *m, struct many *q)
{
    struct moment past = { .gen = s->shm.gen, .at = m->at, .proved = true, .past = true };
    int result;

    for (size_t i = next_open(q, 0); i < q->n; i = next_open(q, i + 1)) {
        struct skade_answer *a = many_at(q, i);
        struct question ask = question_of(a);
        if (!question_settle(s, &past, &ask, a, attach_is_current, &result))
            continue;
        a->flags |= SKADE_STALE;
        count(s, CLIENT_stale_answers);
        q->open--;
    }
}

static int64_t count_found(const struct many *q)
{
    int64_t found = 0;
    for (size_t i = 0; i < q->n; i++)
        found += many_at(q, i)->status == 1;
    return found;
}

static int64_t give_up(const struct many *q, int64_t r)
{
    for (size_t i = next_open(q, 0); i < q->n; i = next_open(q, i + 1))
        many_at(q, i)->status = (int32_t)r;
    return r;
}

static int many_of(skade *s, struct skade_answer *a, size_t n, struct many *ret)
{
    *ret = (struct many){ .first = a, .n = n, .stride = a[0].size, .open = n };
    if (ret->stride < ANSWER_SIZE_MIN || ret->stride % _Alignof(struct skade_answer) != 0)
        return fail(&s->msg, SKADE_EINPUT, "skade_answer.size is not set: initialise it with SKADE_ANSWER");
    return 0;
}

int64_t many_fail(skade *s, struct skade_answer *a, size_t n, int64_t r)
{
    struct many q;
    struct errmsg story = s->msg;

    if (many_of(s, a, n, &q) == 0) {
        for (size_t i = 0; i < n && many_at(&q, i)->size == q.stride; i++)
            many_at(&q, i)->status = (int32_t)r;
    }
    s->msg = story;
    return r;
}

int64_t many_answer(skade *s, const struct moment *m, struct skade_answer *a, size_t n)
{
    struct many q;

    int r = many_of(s, a, n, &q);
    if (r == 0)
        r = search_all(s, m, &q);
    if (r < 0)
        return r;
    r = ask_rest(s, m, &q);
    if (question_may_be_stale(s, r)) {
        settle_stale(s, m, &q);
        r = q.open > 0 ? r : 0;
    }
    return r < 0 ? give_up(&q, r) : count_found(&q);
}

int64_t skade_resolve_many(skade *s, struct skade_answer *a, size_t n)
{
    struct call c;
    struct moment m;

    if (n == 0)
        return 0;
    int64_t r = call_begin(&c, s);
    if (r == 0)
        r = moment_take(s, &m);
    if (r < 0)
        return call_end(&c, many_fail(s, a, n, r));
    if (m.gen)
        m.at = m.need; /* what the map answers and what the daemon answers: both as of now */
    return call_end(&c, many_answer(s, &m, a, n));
}
