/*
 * The ledger and the parts beneath it against a model that keeps every event in an array and looks at all of them.
 *
 * Random events; at random moments the tail becomes a part, parts are merged, or everything is replayed as a start
 * would.  After each step random questions, as of random moments, must have the model's answers.  The seed is printed
 * when a test fails: SKADE_SEED=n repeats it.
 */
#include "ledger.h"

#include "quick.h"

#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define TABLES 12
#define IDS 40
#define EVENTS 3000

struct world {
    uint64_t seed, random;
    struct event *events[EVENTS + 1]; /* the model: index is seq */
    uint64_t seq;
    uint32_t tables;
    struct ledger *ledger;
    struct generation g;
    struct part_map maps[GENERATION_PARTS_MAX];
    void *buffers[GENERATION_PARTS_MAX];
};

static uint64_t roll(struct world *w, uint64_t n)
{
    return random_below(&w->random, n);
}

/* ---- the model ---- */

static const struct event *creation(const struct world *w, uint32_t table, uint64_t at)
{
    for (uint64_t s = 1; s <= w->seq && s <= at; s++)
        if (w->events[s]->kind == EVENT_CREATE && w->events[s]->table == table)
            return w->events[s];
    return NULL;
}

static bool model_alive(const struct world *w, uint32_t table, uint64_t at)
{
    if (!creation(w, table, at))
        return false;
    for (uint64_t s = 1; s <= w->seq && s <= at; s++)
        if (w->events[s]->kind == EVENT_DROP && w->events[s]->table == table)
            return false;
    return true;
}

static struct bytes model_name(const struct world *w, uint32_t table, uint64_t at)
{
    struct bytes name = { "", 0 };
    for (uint64_t s = 1; s <= w->seq && s <= at; s++)
        if (w->events[s]->table == table &&
            (w->events[s]->kind == EVENT_CREATE || w->events[s]->kind == EVENT_RENAME))
            name = w->events[s]->text;
    return name;
}

static uint32_t model_find_name(const struct world *w, struct bytes name, uint64_t at)
{
    for (uint32_t t = 1; t <= w->tables; t++)
        if (model_alive(w, t, at) && bytes_equal(model_name(w, t, at), name))
            return t;
    return 0;
}

static uint64_t model_watermark(const struct world *w, uint32_t table, uint64_t at, uint64_t *by)
{
    uint64_t mark = 0;
    *by = 0;
    for (uint64_t s = 1; s <= w->seq && s <= at; s++)
        if (w->events[s]->kind == EVENT_EXPIRE && w->events[s]->table == table) {
            mark = w->events[s]->watermark;
            *by = s;
        }
    return mark;
}

static const struct event *model_resolve(const struct world *w, uint32_t table, int64_t id, uint64_t at)
{
    for (uint64_t s = 1; s <= w->seq && s <= at; s++) {
        const struct event *e = w->events[s];
        if (e->kind == EVENT_COMMIT && e->table == table && e->flags & EVENT_INTRODUCES && e->snapshot == id)
            return e;
    }
    return NULL;
}

static const struct event *model_head(const struct world *w, uint32_t table, uint64_t at, int64_t limit_us,
                                      bool by_time, bool earliest)
{
    const struct event *best = NULL;
    for (uint64_t s = 1; s <= w->seq && s <= at; s++) {
        const struct event *e = w->events[s];
        if (e->kind != EVENT_COMMIT || e->table != table || !(e->flags & EVENT_MOVES_HEAD) ||
            e->time_us > limit_us)
            continue;
        if (!best || (!by_time) || (!earliest && e->time_us >= best->time_us) ||
            (earliest && e->time_us < best->time_us))
            best = e;
    }
    return best;
}

/* ---- comparing ---- */

static void same(const struct world *w, const char *what, int status, const struct answer *a, uint32_t table,
                 uint64_t at, const struct event *e)
{
    uint64_t by;
    int want = 1;

    if (!model_alive(w, table, at))
        want = SKADE_ENOTABLE;
    else if (!e)
        want = SKADE_ENOSNAPSHOT;
    else if (e->seq <= model_watermark(w, table, at, &by))
        want = SKADE_EEXPIRED;
    if (status != want)
        ck_abort_msg("seed %" PRIu64 ": %s of table %u at %" PRIu64 ": %d, not %d", w->seed, what, table, at,
                     status, want);
    if (want == 1 && (a->seq != e->seq || a->time_us != e->time_us || !bytes_equal(a->location, e->text)))
        ck_abort_msg("seed %" PRIu64 ": %s of table %u at %" PRIu64 ": event %" PRIu64 ", not %" PRIu64,
                     w->seed, what, table, at, a->seq, e->seq);
    if (want == SKADE_EEXPIRED)
        ALWAYS(a->retired_by == by);
}

static struct answer answer;

static void ask(struct world *w)
{
    uint32_t table = 1 + (uint32_t)roll(w, w->tables + 1);
    uint64_t at = roll(w, 3) ? SEQ_MAX : roll(w, w->seq + 1);
    int64_t id = (int64_t)roll(w, IDS) - IDS / 2, t = (int64_t)roll(w, 1200) - 100;

    int r = ledger_resolve(w->ledger, &w->g, table, id, at, &answer);
    same(w, "resolve", r, &answer, table, at, model_resolve(w, table, id, at));
    r = ledger_head(w->ledger, &w->g, table, at, &answer);
    /* A head is never retired, so a view before a retirement and one after it agree. */
    same(w, "head", r, &answer, table, at, model_head(w, table, at, INT64_MAX, false, false));
    r = ledger_as_of(w->ledger, &w->g, table, t, at, &answer);
    same(w, "as_of", r, &answer, table, at, model_head(w, table, at, t, true, false));
    r = ledger_earliest(w->ledger, &w->g, table, at, &answer);
    const struct event *first = model_head(w, table, at, INT64_MAX, true, true);
    ALWAYS(!model_alive(w, table, at) ||
           (first ? r == 1 && answer.seq == first->seq : r == SKADE_ENOSNAPSHOT));

    char name[32];
    snprintf(name, sizeof name, "ns.t%d", (int)roll(w, TABLES * 2));
    ALWAYS(ledger_find_name(w->ledger, bytes_of(name), at) == model_find_name(w, bytes_of(name), at));
    if (model_alive(w, table, at))
        ALWAYS(bytes_equal(ledger_name_at(w->ledger, table, at), model_name(w, table, at)));
}

static void ask_history(struct world *w)
{
    struct history h;
    uint32_t table = 1 + (uint32_t)roll(w, w->tables);
    uint64_t before = roll(w, 2) ? SEQ_MAX : roll(w, w->seq + 2);
    const struct event *e;
    int error;

    history_of(&h, w->ledger, &w->g, table, before);
    uint64_t s = before > w->seq ? w->seq : before - 1;
    for (; s > 0 && before > 0; s--) {
        if (w->events[s]->table != table)
            continue;
        e = history_next(&h, &error);
        ALWAYS(e && e->seq == s && e->kind == w->events[s]->kind && e->snapshot == w->events[s]->snapshot);
        ALWAYS(bytes_equal(e->text, w->events[s]->text) && e->time_us == w->events[s]->time_us);
    }
    ALWAYS(!history_next(&h, &error) && error == 0);
}

static void check_counts(struct world *w)
{
    for (uint32_t t = 1; t <= w->tables; t++) {
        uint64_t by, mark = model_watermark(w, t, SEQ_MAX, &by), count = 0;
        for (int64_t id = -IDS; id < IDS; id++) {
            const struct event *e = model_resolve(w, t, id, SEQ_MAX);
            count += e && e->seq > mark;
        }
        if (ledger_table(w->ledger, t)->snapshots != count)
            ck_abort_msg("seed %" PRIu64 ": table %u has %" PRIu64 " snapshots, not %" PRIu64, w->seed, t,
                         ledger_table(w->ledger, t)->snapshots, count);
    }
}

static void check_sorted(const struct world *w)
{
    const struct ledger *l = w->ledger;
    uint64_t alive = 0;

    for (uint32_t t = 1; t <= w->tables; t++)
        alive += model_alive(w, t, SEQ_MAX);
    ALWAYS(l->sorted_count == alive && l->living == alive);
    for (size_t i = 1; i < l->sorted_count; i++) {
        struct bytes a = l->names[l->sorted[i - 1]].name, b = l->names[l->sorted[i]].name;
        int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
        ALWAYS(order < 0 || (order == 0 && a.len < b.len));
    }
}

/* ---- events ---- */

static void happen(struct world *w, struct event e)
{
    e.seq = ++w->seq;
    if (!e.text.data)
        e.text.data = "";
    e.text2.data = "";
    for (size_t i = 0; i < sizeof e.uuid.b; i++)
        e.uuid.b[i] = (uint8_t)(e.seq >> i % 8 * 8);
    w->events[e.seq] = event_copy(&e);
    ck_assert_int_eq(ledger_apply(w->ledger, event_copy(&e), false, &w->g), 0);
}

static void random_event(struct world *w)
{
    char text[128];
    uint32_t table = w->tables ? 1 + (uint32_t)roll(w, w->tables) : 0;
    uint64_t by;

    if (w->tables < TABLES && (!table || roll(w, 40) == 0)) {
        snprintf(text, sizeof text, "ns.t%d", (int)roll(w, TABLES * 2));
        if (!model_find_name(w, bytes_of(text), SEQ_MAX))
            happen(w, (struct event){ .kind = EVENT_CREATE,
                                      .table = ++w->tables,
                                      .flags = EVENT_STORED,
                                      .text = bytes_of(text) });
        return;
    }
    if (!model_alive(w, table, SEQ_MAX))
        return;
    switch (roll(w, 60)) {
    case 0:
        snprintf(text, sizeof text, "ns.t%d", (int)roll(w, TABLES * 2));
        if (!model_find_name(w, bytes_of(text), SEQ_MAX))
            happen(w, (struct event){ .kind = EVENT_RENAME, .table = table, .text = bytes_of(text) });
        return;
    case 1:
        if (roll(w, 4) == 0)
            happen(w, (struct event){
                          .kind = EVENT_DROP, .table = table, .text = model_name(w, table, SEQ_MAX) });
        return;
    case 2: {
        const struct event *head = model_head(w, table, SEQ_MAX, INT64_MAX, false, false);
        uint64_t low = model_watermark(w, table, SEQ_MAX, &by);
        if (!head || head->seq <= low + 1)
            return;
        /* Mostly a commit of the table: that is where the rule says "up to here". */
        uint64_t mark = low + roll(w, head->seq - low);
        while (mark > low && roll(w, 20) &&
               (w->events[mark]->table != table || w->events[mark]->kind != EVENT_COMMIT))
            mark--;
        happen(w, (struct event){ .kind = EVENT_EXPIRE, .table = table, .watermark = mark });
        return;
    }
    default:
        break;
    }
    struct event e = { .kind = EVENT_COMMIT, .table = table, .time_us = (int64_t)roll(w, 1000) };
    uint64_t what = roll(w, 10);
    e.flags = what == 0 ? EVENT_MOVES_HEAD
                        : (what < 3 ? EVENT_INTRODUCES | EVENT_HAS_SNAPSHOT
                                    : (what < 4 ? EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT
                                                : EVENT_INTRODUCES | EVENT_HAS_SNAPSHOT | EVENT_MOVES_HEAD));
    if (e.flags & EVENT_HAS_SNAPSHOT)
        e.snapshot = (int64_t)roll(w, IDS) - IDS / 2;
    uint64_t a = random_u64(&w->random);
    if (roll(w, 5))
        snprintf(text, sizeof text,
                 "s3://b/t%u/metadata/%05d-%08x-1111-2222-3333-%012" PRIx64 ".metadata.json", table,
                 (int)roll(w, 1000), (unsigned)a, a & 0xffffffffffff);
    else
        snprintf(text, sizeof text, "odd %" PRIx64, a);
    e.text = bytes_of(text);
    happen(w, e);
}

/* ---- parts ---- */

static struct part_info info_of(struct world *w, uint64_t from, uint64_t to)
{
    return (struct part_info){ .log = w->ledger->log,
                               .seed = w->ledger->seed,
                               .epoch = 1,
                               .generation = 1,
                               .from_seq = from,
                               .to_seq = to };
}

static void set_part(struct world *w, size_t i, struct part_plan *plan)
{
    size_t size = part_plan_size(plan);
    struct errmsg msg = { "" };

    w->buffers[i] = aligned_alloc(64, align_up(size, 64));
    ck_assert_int_eq(part_plan_fill(plan, w->buffers[i], size), 0);
    part_plan_free(plan);
    w->maps[i] = (struct part_map){ .refs = 1, .size = size };
    ck_assert_msg(part_open(&w->maps[i].part, w->buffers[i], size, PART_VERIFY, &msg) == 0, "%s", msg.text);
    w->g.parts[i] = &w->maps[i];
}

static void tail_to_part(struct world *w)
{
    const struct event *events[EVENTS];
    struct part_info info = info_of(w, w->g.covered, w->seq);
    struct part_plan *plan;
    size_t n = 0;

    if (w->seq == w->g.covered || w->g.parts_count == 20)
        return;
    for (uint64_t s = w->g.covered + 1; s <= w->seq; s++)
        if (w->events[s]->kind == EVENT_COMMIT)
            events[n++] = ledger_tail_event(w->ledger, s);
    ck_assert_int_eq(part_plan_rows(&plan, &info, events, n), 0);
    set_part(w, w->g.parts_count, plan);
    w->g.parts_count++;
    w->g.covered = w->seq;
    ledger_trim(w->ledger, w->seq, NULL);
}

static void drop_parts(struct world *w, size_t from)
{
    for (size_t i = from; i < w->g.parts_count; i++) {
        part_close(w->maps[i].part);
        free(w->buffers[i]);
    }
    w->g.parts_count = from;
}

static void merge_parts(struct world *w, size_t from)
{
    struct part *parts[GENERATION_PARTS_MAX];
    struct part_plan *plan;
    size_t n = w->g.parts_count - from, size;
    struct part_info info;

    if (n < 1)
        return;
    for (size_t i = 0; i < n; i++)
        parts[i] = w->g.parts[from + i]->part;
    info = info_of(w, part_header(parts[0])->seg.from_seq, part_header(parts[n - 1])->seg.to_seq);
    ck_assert_int_eq(part_plan_merge(&plan, &info, parts, n), 0);
    size = part_plan_size(plan);
    void *buffer = aligned_alloc(64, align_up(size, 64));
    ck_assert_int_eq(part_plan_fill(plan, buffer, size), 0);
    part_plan_free(plan);
    drop_parts(w, from);
    w->buffers[from] = buffer;
    w->maps[from] = (struct part_map){ .refs = 1, .size = size };
    ck_assert_int_eq(part_open(&w->maps[from].part, buffer, size, PART_VERIFY, NULL), 0);
    w->g.parts[from] = &w->maps[from];
    w->g.parts_count = from + 1;
}

/* As a start does: everything from the log, one part. */
static void restart(struct world *w)
{
    const struct event *events[EVENTS];
    struct uuid log = w->ledger->log;
    uint64_t seed = w->ledger->seed, to = w->seq;
    struct part_plan *plan;
    size_t n = 0;

    drop_parts(w, 0);
    ledger_free(w->ledger);
    w->ledger = ledger_new(&log, seed);
    for (uint64_t s = 1; s <= to; s++) {
        ck_assert_int_eq(ledger_apply(w->ledger, w->events[s], true, NULL), 0);
        if (w->events[s]->kind == EVENT_COMMIT)
            events[n++] = w->events[s];
    }
    struct part_info info = info_of(w, 0, to);
    ck_assert_int_eq(part_plan_rows(&plan, &info, events, n), 0);
    set_part(w, 0, plan);
    w->g.parts_count = 1;
    w->g.covered = to;
    ledger_count_snapshots(w->ledger, &w->g);
}

static void live(struct world *w)
{
    struct uuid log = { { 1, 2, 3 } };

    w->random = w->seed;
    w->ledger = ledger_new(&log, w->seed);
    for (int step = 0; w->seq < EVENTS && step < EVENTS * 3; step++) {
        if (w->seq < EVENTS)
            random_event(w);
        switch (roll(w, 100)) {
        case 0:
        case 1:
        case 2:
            tail_to_part(w);
            break;
        case 3:
            merge_parts(w, roll(w, w->g.parts_count + 1));
            break;
        case 4:
            if (roll(w, 5) == 0 && w->seq)
                restart(w);
            break;
        case 5:
            if (w->seq && w->tables)
                ask_history(w);
            break;
        default:
            break;
        }
        if (w->seq)
            ask(w);
        if (step % 200 == 0) {
            check_counts(w);
            check_sorted(w);
        }
    }
    check_counts(w);
}

static void end(struct world *w)
{
    drop_parts(w, 0);
    ledger_free(w->ledger);
    for (uint64_t s = 1; s <= w->seq; s++)
        free(w->events[s]);
    free(w);
}

START_TEST(random_lives_are_the_model_s)
{
    const char *given = getenv("SKADE_SEED");
    struct world *w = calloc(1, sizeof *w);

    w->seed = given ? strtoull(given, NULL, 10) : (uint64_t)_i + 1;
    live(w);
    end(w);
}
END_TEST

START_TEST(the_same_content_has_the_same_checksum_and_another_has_not)
{
    struct event a = { .kind = EVENT_COMMIT,
                       .table = 1,
                       .flags = EVENT_MOVES_HEAD,
                       .text = bytes_of("x"),
                       .text2 = bytes_of("") };
    struct event b = a;

    b.seq = 99;
    b.time_us = 12345;
    ck_assert_uint_eq(event_content(&a), event_content(&b)); /* the daemon gives number and time */
    b.table = 2;
    ck_assert_uint_ne(event_content(&a), event_content(&b));
    b = a;
    b.text = bytes_of("y");
    ck_assert_uint_ne(event_content(&a), event_content(&b));
    b = a;
    b.snapshot = 1;
    ck_assert_uint_ne(event_content(&a), event_content(&b));
}
END_TEST

START_TEST(an_event_that_does_not_fit_is_refused_and_changes_nothing)
{
    struct uuid log = { { 9 } };
    struct ledger *l = ledger_new(&log, 1);
    struct event create = {
        .seq = 1, .kind = EVENT_CREATE, .table = 1, .text = bytes_of("a.b"), .text2 = bytes_of("")
    };
    struct event e = create;

    e.table = 2;
    ck_assert_int_eq(ledger_apply(l, &e, true, NULL), SKADE_EDAMAGED);
    e = create;
    e.seq = 2;
    ck_assert_int_eq(ledger_apply(l, &e, true, NULL), SKADE_EDAMAGED);
    ck_assert_int_eq(ledger_apply(l, &create, true, NULL), 0);
    e = create;
    e.seq = 2;
    e.table = 2;
    ck_assert_int_eq(ledger_apply(l, &e, true, NULL), SKADE_EDAMAGED); /* the name is taken */
    struct event commit = {
        .seq = 2, .kind = EVENT_COMMIT, .table = 7, .text = bytes_of("x"), .text2 = bytes_of("")
    };
    ck_assert_int_eq(ledger_apply(l, &commit, true, NULL), SKADE_EDAMAGED);
    ck_assert_uint_eq(l->seq, 1);
    ledger_free(l);
}
END_TEST

Suite *ledger_suite(void);
Suite *ledger_suite(void)
{
    Suite *s = suite_create("ledger");
    TCase *c = tcase_create("model");

    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, random_lives_are_the_model_s, 0, getenv("SKADE_STRESS") ? 200 : 8);
    tcase_add_test(c, the_same_content_has_the_same_checksum_and_another_has_not);
    tcase_add_test(c, an_event_that_does_not_fit_is_refused_and_changes_nothing);
    suite_add_tcase(s, c);
    return s;
}
