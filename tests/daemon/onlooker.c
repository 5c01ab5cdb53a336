#include "onlooker.h"

#include "crowd.h"
#include "quick.h"
#include "tailmap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct shm_place place(void)
{
    struct shm_place p = *publisher_place(sim.server->publisher);
    snprintf(p.dir, sizeof p.dir, "%s", sim_path("shm"));
    return p;
}

static void look_at_tail(struct sight *s, const struct shm_place *where)
{
    struct errmsg why = { "" };
    char name[SHM_NAME_MAX];

    shm_name(name, where, SHM_TAIL, s->control.epoch, s->generation);
    if (segmap_open(&s->map, where, name, 1, SIZE_MAX, NULL) < 0)
        return;
    ck_assert_msg(tail_open(&s->tail, s->map.base, s->map.size, &why) == 0, "%s", why.text);
    int64_t count = tail_count(&s->tail); /* T3 */
    ck_assert_int_ge(count, 0);
    s->count = (uint32_t)count;
}

struct sight look(void)
{
    struct sight s = { .generation = 0 };
    struct shm_place where = place();

    if (control_open(&s.control, &where, NULL) < 0)
        return s;
    s.commit_seq = control_commit_seq(s.control.page); /* P4 */
    s.generation = control_generation(s.control.page); /* P4 */
    if (s.generation != CONTROL_NONE && s.generation != CONTROL_RETIRED)
        look_at_tail(&s, &where);
    return s;
}

void look_away(struct sight *s)
{
    segmap_close(&s->map);
    if (s->control.page)
        control_close(&s->control);
}

static void same_event(const struct tail *t, uint32_t line, const struct tail_slot *slot,
                       const struct event *e)
{
    ck_assert_uint_eq(slot->kind, e->kind);
    ck_assert_uint_eq(slot->table, e->table);
    ck_assert_int_eq(slot->time_us, e->time_us);
    if (e->kind == EVENT_COMMIT || e->kind == EVENT_COMPACT || e->kind == EVENT_CREATE) {
        ck_assert_uint_eq(slot->text_len, e->text.len);
        ck_assert_mem_eq(t->line + (line + 1) * TAIL_LINE, e->text.data, e->text.len);
    }
}

static bool is_full(const struct sight *s)
{
    return s->count == s->tail.room || counter_get(sim.server->page, COUNTER_tail_full) > 0;
}

void onlooker_check(void)
{
    struct errmsg why = { "" };
    struct sight s = look();

    if (s.map.base) {
        ck_assert_msg(tail_verify(&s.tail, &why) == 0, "%s", why.text);
        ck_assert(s.tail.from_seq + s.count >= s.commit_seq || is_full(&s));
        for (uint32_t i = 0, line = 0, next; i < s.count; i++, line = next) {
            struct tail_slot slot;
            ck_assert_int_eq(tail_slot_at(&s.tail, line, &slot, &next), 0);
            const struct event *e = ledger_tail_event(sim.server->ledger, s.tail.from_seq + 1 + i);
            if (e) /* what parts have by now was trimmed */
                same_event(&s.tail, line, &slot, e);
        }
    }
    look_away(&s);
}

/* ---- asking ------------------------------------------------------------------------------------------------ */

uint64_t onlooker_from_tail;

/* What is mapped for one question. */
struct maps {
    struct generation *g;
    struct fresh f;
    bool newer; /* more than the parts have is needed, and the tail is there */
};

static void map_all(struct maps *m, const struct sight *s)
{
    struct shm_place where = place();
    struct errmsg why = { "" };

    m->newer = false;
    int r = generation_open(&m->g, &where, s->control.epoch, s->generation, &s->control.log, NULL, 0, &why);
    ck_assert_msg(r == 0, "%s", why.text);
    if (s->commit_seq <= m->g->covered || !s->map.base)
        return;
    r = tail_map_open(&m->g->tail, &where, m->g, &s->control.log, &why);
    ck_assert_msg(r == 0, "%s", why.text);
    ck_assert_int_eq(fresh_begin(&m->f, m->g, SEQ_MAX), 0);
    m->newer = true;
}

static uint64_t any(uint64_t n)
{
    return random_below(&sim.random, n);
}

static void choose(struct request *r)
{
    static const uint16_t types[] = { WIRE_RESOLVE, WIRE_HEAD, WIRE_AS_OF, WIRE_LOOKUP };
    const struct past *e = crowd.seq > 40 && any(2) ? &crowd.events[crowd.seq - 1 - any(30)]
                           : crowd.seq              ? &crowd.events[any(crowd.seq)]
                                                    : NULL;

    r->type = types[any(ARRAY_SIZE(types))];
    r->at = SEQ_MAX;
    r->table = e ? e->table : 1;
    r->values[0] = e && r->type == WIRE_AS_OF ? e->time_us - (int64_t)any(2) : e ? e->snapshot : 0;
    snprintf(r->name, sizeof r->name, "%s", e ? e->name : "x.y");
}

/* One question of parts, then of the tail. */
static int search(struct maps *m, const struct request *r, struct fresh_found *ret)
{
    int status = 0;

    if (r->type == WIRE_RESOLVE)
        status = generation_find(m->g, r->table, r->values[0], SEQ_MAX, &ret->part);
    else if (!m->newer)
        status = r->type == WIRE_HEAD ? generation_head(m->g, r->table, SEQ_MAX, &ret->part)
                                      : generation_as_of(m->g, r->table, r->values[0], SEQ_MAX, &ret->part);
    else
        return r->type == WIRE_HEAD ? fresh_head(&m->f, r->table, ret)
                                    : fresh_as_of(&m->f, r->table, r->values[0], ret);
    if (m->newer && (status == SKADE_ENOSNAPSHOT || status == SKADE_ENOTABLE))
        return fresh_resolve(&m->f, r->table, r->values[0], ret);
    ret->in_tail = false;
    ret->retired_by = ret->part.retired_by;
    return ret->status = status;
}

static void tell_location(const struct maps *m, const struct fresh_found *found, struct told *t)
{
    int len = found->in_tail
                  ? tail_location(m->f.t, &found->hit, t->location, sizeof t->location - 1)
                  : generation_location(m->g, &found->part, t->location, sizeof t->location - 1, NULL);
    ck_assert_int_ge(len, 0);
    t->location[len] = 0;
}

static struct told told_of(const struct maps *m, const struct fresh_found *found)
{
    struct told t = { .status = found->status };

    if (t.status != 1 && t.status != SKADE_EEXPIRED)
        return t;
    t.seq = found->in_tail ? found->hit.seq : found->part.hit.seq;
    t.retired_by = t.status == 1 ? 0 : found->retired_by;
    tell_location(m, found, &t);
    onlooker_from_tail += found->in_tail;
    return t;
}

/* The table that bears the name, as LOOKUP is answered. */
static struct told told_name(const struct maps *m, const struct request *r)
{
    uint32_t table = 0;

    int found = root_find_table(m->g->root, bytes_of(r->name), SEQ_MAX, &table);
    if (found == 0 && m->newer) {
        found = fresh_find_name(&m->f, bytes_of(r->name), &table);
        onlooker_from_tail += found == 1;
    }
    ck_assert_int_ge(found, 0);
    return (struct told){ .status = found ? 1 : SKADE_ENOTABLE, .seq = table };
}

/* Can't the maps tell?  Then nothing was asked. */
static bool is_settled(const struct maps *m, const struct sight *s, const struct request *r)
{
    int status = r->told[0].status;
    uint64_t covered = m->newer ? m->f.covered : m->g->covered;

    if (r->type == WIRE_RESOLVE && (status == 1 || status == SKADE_EEXPIRED))
        return true;
    ck_assert(status == 1 || status == SKADE_EEXPIRED || status == SKADE_ENOTABLE ||
              status == SKADE_ENOSNAPSHOT || status == -EAGAIN);
    return status != -EAGAIN && covered >= s->commit_seq;
}

static void ask(struct maps *m, const struct sight *s)
{
    struct fresh_found found = { .status = 0 };
    struct request r = { .type = 0 };

    choose(&r);
    if (r.type == WIRE_LOOKUP) {
        r.told[0] = told_name(m, &r);
    } else {
        found.status = search(m, &r, &found);
        r.told[0] = found.status == -EAGAIN ? (struct told){ .status = -EAGAIN } : told_of(m, &found);
    }
    r.told_count = 1;
    r.outcome = DONE;
    r.from = r.to = s->commit_seq;
    if (is_settled(m, s, &r))
        *crowd_request() = r;
}

void onlooker_ask(void)
{
    struct sight s = look();
    struct maps m;

    if (s.generation != CONTROL_NONE && s.generation != CONTROL_RETIRED && s.control.page) {
        map_all(&m, &s);
        for (int i = 0; i < 4; i++)
            ask(&m, &s);
        generation_unref(m.g);
    }
    look_away(&s);
}
