#include "onlooker.h"

#include "quick.h"

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

static void same_event(const struct tail *t, uint32_t i, const struct event *e)
{
    struct tail_slot slot;

    memcpy(&slot, t->slot + i * sizeof slot, sizeof slot);
    ck_assert_uint_eq(slot.kind, e->kind);
    ck_assert_uint_eq(slot.table, e->table);
    ck_assert_int_eq(slot.time_us, e->time_us);
    if (e->kind == EVENT_COMMIT || e->kind == EVENT_COMPACT || e->kind == EVENT_CREATE) {
        ck_assert_uint_eq(slot.text_len, e->text.len);
        ck_assert_mem_eq(t->heap + slot.text_off, e->text.data, e->text.len);
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
        for (uint32_t i = 0; i < s.count; i++) {
            const struct event *e = ledger_tail_event(sim.server->ledger, s.tail.from_seq + 1 + i);
            if (e) /* what parts have by now was trimmed */
                same_event(&s.tail, i, e);
        }
    }
    look_away(&s);
}
