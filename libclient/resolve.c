/*
 * One question: resolve, head, as_of, find_table.
 *
 * Memory is asked first, and what it says holds by itself when it can't go out of date: a location that was
 * found (the first one wins and never changes), a retirement (watermarks only grow), a dropped table
 * (numbers are not used again), a name that is borne (renames and drops are published before they are
 * visible).  Everything else, also that something isn't there, holds only when the map covers all that is
 * committed and the page is the present one.  Otherwise the daemon is asked.
 */
#include "client.h"

#include <inttypes.h>

/* ---- what memory can tell ------------------------------------------------------------------------------ */

/* A snapshot's answer is written to A at once: what a single question costs is mostly what it waits for memory, and row
 * and location are fetched together. */
static int search(const struct generation *g, const struct question *q, uint64_t at, struct skade_answer *a,
                  struct found *ret)
{
    switch (q->kind) {
    case QUESTION_RESOLVE:
        return generation_resolve(g, q->table, q->value, at, answer_query(a));
    case QUESTION_HEAD:
        return generation_head(g, q->table, at, ret);
    case QUESTION_AS_OF:
        return generation_as_of(g, q->table, q->value, at, ret);
    }
    return -EINVAL;
}

static bool was_dropped(const struct moment *m, uint32_t table)
{
    struct root_table row;
    return root_get_table(m->gen->root, table, &row) == 1 && row.dropped_seq != SEQ_MAX &&
           row.dropped_seq <= m->at;
}

/* Is STATUS what a question can end with, and not "this map can't tell" or damage? */
bool question_is_outcome(int status)
{
    return status == 1 || status == SKADE_ENOTABLE || status == SKADE_ENOSNAPSHOT || status == SKADE_EEXPIRED;
}

bool moment_settles(skade *s, const struct moment *m, const struct question *q, int status,
                    is_current_fn is_current)
{
    if (q->kind == QUESTION_RESOLVE && (status == 1 || status == SKADE_EEXPIRED))
        return true;
    if (status == SKADE_ENOTABLE && was_dropped(m, q->table))
        return true;
    uint64_t covered = status == SKADE_ENOTABLE ? m->gen->names_seq : m->gen->covered;
    return covered >= m->need && (m->proved || is_current(s));
}

/* Note why there is no location; of a time before the first commit also when that was. */
static void note(skade *s, const struct moment *m, const struct question *q, const struct skade_answer *a)
{
    struct found first = { .status = 0 };

    answer_note(s, q, a);
    if (q->kind != QUESTION_AS_OF || a->status != SKADE_ENOSNAPSHOT)
        return;
    int r = generation_earliest(m->gen, q->table, m->at, &first);
    if (r == 1 || r == SKADE_EEXPIRED) /* a retired commit was the head of its time, too */
        answer_note_first(s, first.hit.time_us, first.hit.seq);
}

/* The index has answered Q, and written to A all but what was asked. */
static bool take_whole(skade *s, const struct question *q, struct skade_answer *a)
{
    a->table = q->table;
    a->snapshot = q->value;
    count(s, CLIENT_hits_map);
    if (a->status != 1)
        answer_note(s, q, a);
    return true;
}

bool question_settle(skade *s, const struct moment *m, const struct question *q, struct skade_answer *a,
                     is_current_fn is_current, int *result)
{
    struct found f = { .status = 0 };

    if (!m->gen)
        return false;
    if (q->kind != QUESTION_RESOLVE && moment_has_tail(m))
        return fresh_settle(s, m, q, a, is_current, result);
    if (moment_has_tail(m)) /* while the parts are waited for */
        fresh_prefetch(m, q->table, q->value);
    f.status = search(m->gen, q, m->at, a, &f);
    if (q->kind == QUESTION_RESOLVE && answer_is_whole(f.status)) {
        *result = f.status;
        return take_whole(s, q, a);
    }
    if ((f.status == SKADE_ENOSNAPSHOT || f.status == SKADE_ENOTABLE) && moment_has_tail(m))
        return fresh_settle(s, m, q, a, is_current, result);
    if (a->location_cap > 0)
        a->location[0] = 0;
    if (!question_is_outcome(f.status)) {
        s->counters[CLIENT_damage_seen] += f.status != -EAGAIN;
        return false;
    }
    if (!moment_settles(s, m, q, f.status, is_current))
        return false;
    int r = answer_from_map(a, m->gen, &f);
    if (r == SKADE_EDAMAGED) {
        count(s, CLIENT_damage_seen);
        return false;
    }
    count(s, CLIENT_hits_map);
    if (r != 1)
        note(s, m, q, a);
    *result = r;
    return true;
}

/* ---- what the daemon tells ----------------------------------------------------------------------------- */

static unsigned put_question(struct wr *w, const struct question *q, uint64_t at)
{
    switch (q->kind) {
    case QUESTION_RESOLVE:
        wire_put_resolve(w, &(struct msg_resolve){ .at = at, .keys = { .count = 1 } });
        wire_put_key(w, &(struct item_key){ .table = q->table, .snapshot = q->value });
        return WIRE_RESOLVE;
    case QUESTION_HEAD:
        wire_put_head(w, &(struct msg_head){ .at = at, .table = q->table });
        return WIRE_HEAD;
    case QUESTION_AS_OF:
        wire_put_as_of(w, &(struct msg_as_of){ .at = at, .table = q->table, .time_us = q->value });
        return WIRE_AS_OF;
    }
    return 0;
}

static bool is_answer_to(const struct item_answer *item, const struct question *q)
{
    return item->table == q->table && (q->kind != QUESTION_RESOLVE || item->snapshot == q->value);
}

static int take_answer(skade *s, const struct frame *f, const struct question *q, struct skade_answer *a)
{
    struct msg_answers m;
    struct item_answer item;

    if (wire_read_answers(f->payload, f->head.len, &m) < 0 || m.answers.count != 1)
        return ask_broken(s, "not one answer to one question");
    wire_get_answer(&m.answers.items, &item);
    if (!is_answer_to(&item, q) || answer_from_wire(a, &item) < 0)
        return ask_broken(s, "an answer to another question");
    heard(s, item.seq);
    if (a->status != 1)
        answer_note(s, q, a);
    return answer_result(a->status);
}

/* The daemon refused with R.  "No such table" is an answer, too.  A time before the first commit comes
 * with that one. */
static int take_refusal(skade *s, const struct question *q, struct skade_answer *a, int r)
{
    struct item_answer first;

    a->status = r;
    if (r == SKADE_ENOSNAPSHOT && s->refusal.code == r) {
        answer_note(s, q, a);
        if (s->refusal.heads.count > 0) {
            wire_get_answer(&s->refusal.heads.items, &first);
            answer_note_first(s, first.time_us, first.seq);
        }
    }
    return answer_result(r);
}

static int ask_question(skade *s, const struct moment *m, const struct question *q, struct skade_answer *a)
{
    struct frame f;

    int r = moment_check_log(s, m);
    if (r < 0)
        return answer_status(a, r);
    count(s, CLIENT_asked_daemon);
    unsigned type = put_question(ask_begin(s), q, m->at);
    r = ask(s, ASK_READ, type, WIRE_ANSWERS, &f);
    if (r < 0)
        return take_refusal(s, q, a, r);
    r = take_answer(s, &f, q, a);
    return r == SKADE_EPROTOCOL ? answer_status(a, r) : r;
}

/* ---- both ---------------------------------------------------------------------------------------------- */

/* No daemon that answers us: there is none, or it hangs, or it has no connection left. */
static bool is_out_of_reach(int64_t r)
{
    return r == SKADE_EUNREACHABLE || r == SKADE_ETIMEOUT || r == SKADE_EBUSY;
}

bool question_may_be_stale(const skade *s, int64_t r)
{
    return is_out_of_reach(r) && (s->flags & SKADE_ALLOW_STALE) != 0 && s->shm.gen;
}

/* The daemon is away and the handle takes what was true once. */
static bool settle_stale(skade *s, const struct moment *m, const struct question *q, struct skade_answer *a,
                         int *result)
{
    struct moment past = { .gen = s->shm.gen, .at = m->at, .proved = true, .past = true };

    if (!question_settle(s, &past, q, a, attach_is_current, result))
        return false;
    a->flags |= SKADE_STALE;
    count(s, CLIENT_stale_answers);
    return true;
}

int question_answer(skade *s, const struct moment *m, const struct question *q, struct skade_answer *a)
{
    int result;

    if (question_settle(s, m, q, a, attach_is_current, &result))
        return result;
    int r = ask_question(s, m, q, a);
    if (question_may_be_stale(s, r) && settle_stale(s, m, q, a, &result))
        return result;
    return r;
}

static int slowly(skade *s, const struct question *q, struct skade_answer *a)
{
    struct call c;
    struct moment m;

    int r = call_begin(&c, s);
    if (r == 0)
        r = moment_take(s, &m);
    r = r == 0 ? question_answer(s, &m, q, a) : answer_status(a, r);
    return (int)call_end(&c, r);
}

static int question(skade *s, const struct question *q, struct skade_answer *a)
{
    struct moment m;
    int result;

    int r = answer_clear(s, a);
    if (r < 0)
        return r;
    if (moment_at_hand(s, &m) && question_settle(s, &m, q, a, attach_is_beating, &result))
        return result;
    return slowly(s, q, a);
}

int skade_resolve(skade *s, skade_table table, int64_t id, struct skade_answer *a)
{
    struct question q = { .kind = QUESTION_RESOLVE, .table = table, .value = id };
    return question(s, &q, a);
}

int skade_head(skade *s, skade_table table, struct skade_answer *a)
{
    struct question q = { .kind = QUESTION_HEAD, .table = table };
    return question(s, &q, a);
}

int skade_as_of(skade *s, skade_table table, int64_t time_us, struct skade_answer *a)
{
    struct question q = { .kind = QUESTION_AS_OF, .table = table, .value = time_us };
    return question(s, &q, a);
}

/* ---- names --------------------------------------------------------------------------------------------- */

static void explain_no_name(skade *s, struct bytes name)
{
    fail(&s->msg, 0, "there is no table %.*s", (int)name.len, name.data);
}

bool find_settle(skade *s, const struct moment *m, struct bytes name, is_current_fn is_current,
                 skade_table *ret, int *result)
{
    if (!m->gen)
        return false;
    int r = root_find_table(m->gen->root, name, m->at, ret);
    if (r < 0) {
        count(s, CLIENT_damage_seen);
        return false;
    }
    bool known = r == 1 || m->gen->names_seq >= m->need;
    if (r == 0 && moment_has_tail(m)) {
        r = fresh_find(s, m, name, ret);
        known = r >= 0;
    }
    if (!known || !(m->proved || is_current(s)))
        return false;
    count(s, CLIENT_hits_map);
    if (r == 0)
        explain_no_name(s, name);
    *result = r;
    return true;
}

static int ask_find(skade *s, const struct moment *m, struct bytes name, skade_table *ret)
{
    struct frame f;
    struct msg_table t;

    int r = moment_check_log(s, m);
    if (r < 0)
        return r;
    count(s, CLIENT_asked_daemon);
    wire_put_lookup(ask_begin(s), &(struct msg_lookup){ .at = m->at, .name = name });
    r = ask(s, ASK_READ, WIRE_LOOKUP, WIRE_TABLE, &f);
    if (r < 0)
        return answer_result(r);
    if (wire_read_table(f.payload, f.head.len, &t) < 0 || t.table == 0)
        return ask_broken(s, "a malformed table");
    *ret = t.table;
    return 1;
}

static bool is_borne(skade *s, const struct moment *m, struct bytes name, skade_table *ret)
{
    return root_find_table(m->gen->root, name, m->at, ret) == 1 ||
           (moment_has_tail(m) && fresh_find(s, m, name, ret) == 1);
}

/*
 * No daemon answers us (R).  A name that the last one published is borne still, since only a daemon could change that, and
 * one that lives publishes such a change before anyone hears of it: if the page is the one that stands under the well-known
 * name, and not one that a successor replaced unheard.
 */
static int find_without_daemon(skade *s, struct bytes name, skade_table *ret, int r)
{
    struct moment m = { .gen = NULL };
    struct errmsg story = s->msg;

    attach_leave_unless_linked(s);
    if (moment_take(s, &m) == 0 && m.gen && is_borne(s, &m, name, ret)) {
        count(s, CLIENT_hits_map);
        return 1;
    }
    s->msg = story;
    return r;
}

int find_answer(skade *s, const struct moment *m, struct bytes name, skade_table *ret)
{
    int result;

    if (find_settle(s, m, name, attach_is_current, ret, &result))
        return result;
    int r = ask_find(s, m, name, ret);
    if (is_out_of_reach(r) && m->at == SEQ_MAX)
        r = find_without_daemon(s, name, ret, r);
    struct moment past = { .gen = s->shm.gen, .at = m->at, .proved = true, .past = true };
    if (!question_may_be_stale(s, r) || !find_settle(s, &past, name, attach_is_current, ret, &result))
        return r;
    count(s, CLIENT_stale_answers);
    return result;
}

int find_check(skade *s, const char *name)
{
    const char *problem = name ? table_name_problem(bytes_of(name)) : "it is NULL";
    return problem ? fail(&s->msg, SKADE_EINPUT, "\"%.200s\" is no table name: %s", name ? name : "", problem)
                   : 0;
}

static int find_slowly(skade *s, struct bytes name, skade_table *ret)
{
    struct call c;
    struct moment m;

    int r = call_begin(&c, s);
    if (r == 0)
        r = moment_take(s, &m);
    if (r == 0)
        r = find_answer(s, &m, name, ret);
    return (int)call_end(&c, r);
}

/* A name that a root has needs no check: half the time of a lookup by name went into it. */
static bool find_hit(skade *s, const struct moment *m, const char *name, skade_table *ret)
{
    uint32_t table;

    if (!name || !m->gen || root_find_table(m->gen->root, bytes_of(name), m->at, &table) != 1 ||
        !(m->proved || attach_is_beating(s)))
        return false;
    count(s, CLIENT_hits_map);
    *ret = table;
    return true;
}

int skade_find_table(skade *s, const char *name, skade_table *ret)
{
    struct moment m;
    int result;

    bool at_hand = moment_at_hand(s, &m);
    if (at_hand && find_hit(s, &m, name, ret))
        return 1;
    int r = find_check(s, name);
    if (r < 0)
        return r;
    if (at_hand && find_settle(s, &m, bytes_of(name), attach_is_beating, ret, &result))
        return result;
    return find_slowly(s, bytes_of(name), ret);
}
