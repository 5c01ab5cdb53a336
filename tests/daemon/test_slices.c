/*
 * What holds the loop of a daemon that runs: no turn does more than a slice of what is large.
 */
#include "committer.h"

#include "crowd.h"
#include "indexer.h"
#include "onlooker.h"
#include "publisher_fixture.h"
#include "tempdir.h"

#include <stdio.h>

#define COMMITS 20000 /* of a large release */
#define TABLES 3

static void never_by_itself(struct config *c)
{
    struct errmsg why = { "" };
    ck_assert_int_eq(config_set(c, "rebuild_idle", "1h", NULL, &why), 0);
    ck_assert_int_eq(config_set(c, "rebuild_threshold", "1000000", NULL, &why), 0);
}

static void live(void (*script)(void *arg))
{
    sim_begin(1, tempdir(), false);
    crowd_begin();
    sim_live(never_by_itself, script, NULL);
    crowd_end();
    sim_end();
}

static void leave(void)
{
    sim_stop();
    sim_finish();
    crowd_hang_up();
}

static uint64_t counter(enum counter c)
{
    return counter_get(sim.server->page, c);
}

/* ---- requests ------------------------------------------------------------------------------------------ */

static struct uuid uuid_of(uint32_t number)
{
    struct uuid u = { { 9 } };
    memcpy(u.b + 1, &number, sizeof number);
    return u;
}

static void hear(struct request *r, size_t at, enum wire_type type)
{
    frame_end(&r->said, at, r->type = (uint16_t)type, 0, 1);
    crowd_say(r);
    crowd_hear();
}

static void create_tables(void)
{
    for (uint32_t i = 1; i <= TABLES; i++) {
        char name[8];
        snprintf(name, sizeof name, "x.t%u", i);
        struct request *r = crowd_request();
        size_t at = frame_begin(&r->said);
        struct msg_create m = { .uuid = uuid_of(i), .name = bytes_of(name), .location = bytes_of("s3://b") };
        wire_put_create(&r->said, &m);
        hear(r, at, WIRE_CREATE);
        ck_assert_int_eq(r->outcome, DONE);
    }
}

static struct ending {
    bool over;
    int error;
    uint64_t first_seq, last_seq;
} heard;

static void tell(struct change *c)
{
    heard = (struct ending){ true, c->error, c->first_seq, c->last_seq };
}

static void add_row(struct change *c, uint32_t i)
{
    char location[32];
    int len = snprintf(location, sizeof location, "s3://b/%u", i);
    struct change_row *row = change_row(c);

    ck_assert_ptr_nonnull(row);
    row->event = (struct event){ .kind = EVENT_COMMIT,
                                 .table = 1 + i % TABLES,
                                 .flags = EVENT_INTRODUCES | EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT,
                                 .snapshot = i,
                                 .uuid = uuid_of(100 + i),
                                 .text = change_text(c, (struct bytes){ location, (size_t)len }),
                                 .text2 = { "", 0 } };
    row->base_location = bytes_of("");
}

/* A release of COMMITS, as a session submits it: it is more than a socket takes at once.  Its last commit expects a table
 * without a commit if it is to LOSE. */
static struct ending release(bool lose)
{
    struct change *c = change_new(CHANGE_COMMITS);

    ck_assert_ptr_nonnull(c);
    for (uint32_t i = 0; i < COMMITS; i++)
        add_row(c, i);
    if (lose)
        c->rows[COMMITS - 1].base = BASE_NONE;
    c->done = tell;
    heard.over = false;
    committer_submit(sim.server->committer, c);
    for (int turns = 0; !heard.over && turns < 10000; turns++)
        sim_turn();
    ck_assert(heard.over);
    return heard;
}

/* ---- a large release ------------------------------------------------------------------------------------- */

static struct answer answer;

/* What everybody sees of snapshot ID of table 1 and of its head, for which the ledger looks into its tail. */
static int ask(int64_t id)
{
    const struct ledger *l = sim.server->ledger;
    return ledger_resolve(l, indexer_generation(sim.server->indexer), 1, id, SEQ_MAX, &answer);
}

static unsigned half_seen, slices;

static void see_nothing(void)
{
    const struct ledger *l = sim.server->ledger;
    const struct generation *g = indexer_generation(sim.server->indexer);
    struct history h;
    int error;

    ck_assert_uint_eq(l->seq, TABLES);
    ck_assert_uint_eq(control_commit_seq(sim.server->page), TABLES);
    for (uint32_t table = 1; table <= TABLES; table++) {
        ck_assert_int_eq(ledger_head(l, g, table, SEQ_MAX, &answer), SKADE_ENOSNAPSHOT);
        ck_assert_int_eq(ledger_as_of(l, g, table, INT64_MAX, SEQ_MAX, &answer), SKADE_ENOSNAPSHOT);
        ck_assert_int_eq(ledger_earliest(l, g, table, SEQ_MAX, &answer), SKADE_ENOSNAPSHOT);
        ck_assert_uint_eq(ledger_snapshots(l, ledger_table(l, table)), 0);
        history_of(&h, l, g, table, SEQ_MAX);
        ck_assert_uint_eq(history_next(&h, &error)->kind, EVENT_CREATE);
        ck_assert_ptr_null(history_next(&h, &error));
    }
    for (int64_t id = 0; id < COMMITS; id += 3)
        ck_assert_int_eq(ask(id), SKADE_ENOSNAPSHOT);
    half_seen += l->arrived > l->seq;
}

static int at_each_slice(const char *name)
{
    if (strcmp(name, "commit.slice") == 0) {
        slices++;
        see_nothing();
    }
    return 0;
}

static void release_much(void *arg)
{
    const struct ledger *l = sim.server->ledger;

    (void)arg;
    create_tables();
    half_seen = slices = 0;
    sim.failpoint = at_each_slice;
    struct ending r = release(false);
    sim.failpoint = NULL;
    ck_assert_int_eq(r.error, 0);
    ck_assert_uint_eq(r.first_seq, TABLES + 1);
    ck_assert_uint_eq(r.last_seq, TABLES + COMMITS);
    ck_assert_uint_le(counter(COUNTER_commit_slice_max), 2048);
    ck_assert_uint_gt(counter(COUNTER_commit_slice_max), 0);
    if (has_failpoints()) {
        ck_assert_uint_ge(slices, COMMITS / 2048);
        ck_assert_uint_eq(half_seen, slices - 1);
    }
    for (int64_t id = 0; id < COMMITS; id += 3)
        ck_assert_int_eq(ask(id), 1);
    ck_assert_uint_eq(counter(COUNTER_commits), COMMITS);
    for (uint32_t table = 1; table <= TABLES; table++)
        ck_assert_uint_ge(ledger_snapshots(l, ledger_table(l, table)), COMMITS / TABLES);
    struct sight s = look();
    ck_assert_uint_eq(s.commit_seq, TABLES + COMMITS);
    look_away(&s);
    leave();
}

START_TEST(a_large_release_is_taken_in_slices_and_seen_at_once)
{
    live(release_much);
}
END_TEST

static void release_twice(void *arg)
{
    (void)arg;
    create_tables();
    ck_assert_int_eq(release(false).error, 0);
    struct ending again = release(false);
    ck_assert_int_eq(again.error, 0);
    ck_assert_uint_eq(again.first_seq, TABLES + 1);
    ck_assert_uint_eq(sim.server->ledger->seq, TABLES + COMMITS);
    ck_assert_uint_eq(counter(COUNTER_repeats), 1);
    leave();
}

START_TEST(a_large_release_that_comes_again_gets_its_first_answer)
{
    live(release_twice);
}
END_TEST

static void release_in_vain(void *arg)
{
    (void)arg;
    create_tables();
    struct ending r = release(true);
    ck_assert_int_eq(r.error, SKADE_ECONFLICT);
    ck_assert_uint_eq(sim.server->ledger->seq, TABLES);
    ck_assert_int_eq(release(false).error, 0); /* the uuids of one that was refused are free */
    leave();
}

START_TEST(a_large_release_that_is_refused_leaves_nothing)
{
    live(release_in_vain);
}
END_TEST

static void index_much(void *arg)
{
    struct forgotten gone = { NULL, 0 };
    struct ledger *l = sim.server->ledger;

    (void)arg;
    create_tables();
    ck_assert_int_eq(release(false).error, 0);
    ledger_trim(l, l->seq - 10, &gone); /* nobody asks, so that no part needs to have them */
    ck_assert_uint_eq(gone.count, TABLES + COMMITS - 10);
    ck_assert_uint_eq(l->floor, l->seq - 10);
    ck_assert_ptr_null(ledger_tail_event(l, l->floor));
    for (uint64_t seq = l->floor + 1; seq <= l->seq; seq++)
        ck_assert_uint_eq(ledger_tail_event(l, seq)->seq, seq);
    ck_assert_int_eq(ask(COMMITS - 2), 1);
    ck_assert_uint_eq(gone.entries[5].event->seq, 6);
    forgotten_free(&gone);
    ck_assert_ptr_null(gone.entries);
    sim_kill();
    sim_finish();
    crowd_hang_up();
}

START_TEST(what_the_tail_lets_go_of_is_freed_elsewhere_when_it_is_much)
{
    live(index_much);
}
END_TEST

/* ---- the length of a turn --------------------------------------------------------------------------------- */

static int takes_long(const char *name)
{
    if (strcmp(name, "commit.slice") == 0)
        sim.now_us += 1000000;
    return 0;
}

/* Time that passes in a callback of the loop, as it would if that were slow. */
static void be_slow(void *arg)
{
    (void)arg;
    create_tables();
    sim.failpoint = takes_long;
    release(false);
    sim.failpoint = NULL;
    sim_turn();
    ck_assert_uint_ge(counter(COUNTER_loop_us_max), 1000000);
    leave();
}

START_TEST(a_turn_of_the_loop_is_as_long_as_its_callbacks)
{
    if (has_failpoints())
        live(be_slow);
}
END_TEST

Suite *slices_suite(void);
Suite *slices_suite(void)
{
    Suite *s = suite_create("slices");
    TCase *c = tcase_create("slices");

    tcase_set_timeout(c, 60);
    tcase_add_test(c, a_large_release_is_taken_in_slices_and_seen_at_once);
    tcase_add_test(c, a_large_release_that_comes_again_gets_its_first_answer);
    tcase_add_test(c, a_large_release_that_is_refused_leaves_nothing);
    tcase_add_test(c, what_the_tail_lets_go_of_is_freed_elsewhere_when_it_is_much);
    tcase_add_test(c, a_turn_of_the_loop_is_as_long_as_its_callbacks);
    suite_add_tcase(s, c);
    return s;
}
