/*
 * Roots are made beside everything else: in slices on the loop, then by a worker.  And what takes an answer away is seen by
 * nobody before everybody can see it.
 */
#include "rootmaker.h"

#include "crowd.h"
#include "failpoint.h"
#include "indexer.h"
#include "publisher_fixture.h"
#include "quick.h"
#include "simulator.h"
#include "tempdir.h"
#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* ---- a log of many tables ------------------------------------------------------------------------------------------- */

static struct bytes name_of(char ret[32], uint64_t table)
{
    snprintf(ret, 32, "lake.t%08u", (unsigned)table);
    return bytes_of(ret);
}

static void write_tables(uint64_t count)
{
    struct errmsg why = { "" };
    struct commitlog *log;
    struct commitlog_options opt = { .dir = sim_path("data/log"), .sync_full = false };
    static struct event events[4096];
    static char names[4096][32];
    size_t n = 0;

    mkdir(sim_path("data"), 0700);
    ck_assert_msg(commitlog_open(&log, &opt, &why) == 0, "%s", why.text);
    for (uint64_t i = 1; i <= count; i++) {
        events[n] = (struct event){ .seq = i,
                                    .kind = EVENT_CREATE,
                                    .table = (uint32_t)i,
                                    .text = name_of(names[n], i),
                                    .text2 = bytes_of("s3://b") };
        if (++n < ARRAY_SIZE(events) && i < count)
            continue;
        ck_assert_msg(commitlog_append(log, events, n, &why) == 0, "%s", why.text);
        n = 0;
    }
    commitlog_close(log);
}

static void rename_table(const char *from, const char *to)
{
    struct msg_rename m = { .uuid = { { 9 } }, .name = bytes_of(from), .new_name = bytes_of(to) };
    struct request *r = crowd_request();

    size_t at = frame_begin(&r->said);
    wire_put_rename(&r->said, &m);
    frame_end(&r->said, at, r->type = WIRE_RENAME, 0, 1);
    crowd_say(r);
    while (r->outcome == WAITING)
        crowd_hear();
    ck_assert_int_eq(r->outcome, DONE);
}

static void live(uint64_t tables, void (*script)(void *arg))
{
    sim_begin(1, tempdir(), false);
    crowd_begin();
    write_tables(tables);
    sim_live(NULL, script, NULL);
    crowd_end();
    sim_end();
}

static void leave(void)
{
    sim_stop();
    sim_finish();
    crowd_hang_up();
}

/* ---- slices ------------------------------------------------------------------------------------------------------------- */

#define MANY 100000

static void rename_among_many(void *arg)
{
    struct server *s = sim.server;

    (void)arg;
    rename_table("lake.t00050000", "lake.renamed");
    ck_assert_uint_eq(control_generation(s->page), indexer_shown(s->indexer)->number);
    ck_assert_uint_eq(indexer_shown(s->indexer)->names_seq, MANY + 1);
    uint64_t slice = counter_get(s->page, COUNTER_root_slice_max);
    ck_assert_uint_gt(slice, 0);
    ck_assert_uint_le(slice, 8192);
    leave();
}

START_TEST(a_turn_of_the_loop_takes_a_bounded_part_of_100000_tables)
{
    live(MANY, rename_among_many);
}
END_TEST

/* ---- order ---------------------------------------------------------------------------------------------------------------- */

static unsigned looked;
static int root_fails;

/* The rename is durable; a root that has it is about to be made. */
static int look_before(const char *name)
{
    const struct server *s = sim.server;
    uint32_t table;

    if (strcmp(name, "root.begin") != 0 || !s->listener)
        return 0;
    looked++;
    ck_assert_uint_eq(commitlog_meta(s->log)->last_seq, 4);
    ck_assert_uint_eq(s->ledger->seq, 3);
    ck_assert_uint_eq(atomic_load(&s->page->commit_seq), 3);
    ck_assert_uint_eq(ledger_find_name(s->ledger, bytes_of("lake.renamed"), SEQ_MAX), 0);
    ck_assert_uint_eq(ledger_find_name(s->ledger, bytes_of("lake.t00000002"), SEQ_MAX), 2);
    ck_assert_int_eq(
        root_find_table(indexer_shown(s->indexer)->root, bytes_of("lake.t00000002"), SEQ_MAX, &table), 1);
    return root_fails;
}

static void rename_and_look(void *arg)
{
    const struct server *s = sim.server;
    uint32_t table;

    (void)arg;
    rename_table("lake.t00000002", "lake.renamed");
    ck_assert_uint_eq(looked, 1);
    ck_assert_uint_eq(ledger_find_name(s->ledger, bytes_of("lake.renamed"), SEQ_MAX), 2);
    if (root_fails) {
        ck_assert_uint_eq(control_generation(s->page), CONTROL_NONE);
    } else {
        const struct root *root = indexer_shown(s->indexer)->root;
        ck_assert_uint_eq(control_generation(s->page), indexer_shown(s->indexer)->number);
        ck_assert_int_eq(root_find_table(root, bytes_of("lake.renamed"), SEQ_MAX, &table), 1);
        ck_assert_uint_eq(table, 2);
        ck_assert_int_eq(root_find_table(root, bytes_of("lake.t00000002"), SEQ_MAX, &table), 0);
        ck_assert_int_eq(root_find_table(root, bytes_of("lake.t00000002"), 3, &table), 1);
    }
    sim.failpoint = NULL;
    leave();
}

START_TEST(what_takes_away_is_seen_by_nobody_before_all_can_see_it)
{
    static const int ends[] = { 0, -ENOMEM, -ENOSPC };

    if (!has_failpoints())
        return;
    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        looked = 0;
        root_fails = ends[i];
        sim_begin(1, tempdir(), false);
        crowd_begin();
        write_tables(3);
        sim.failpoint = look_before;
        sim_live(NULL, rename_and_look, NULL);
        crowd_end();
        sim_end();
    }
}
END_TEST

/* ---- rows as of a moment -------------------------------------------------------------------------------------------------- */

/* What happens while the rows are taken is left out; what is durable and not applied is put on top. */
START_TEST(a_root_is_of_one_moment_whatever_happens_meanwhile)
{
    struct uuid log = { { 1 } };
    struct ledger *l = ledger_new(&log, 7);
    struct event events[] = {
        { .seq = 1, .kind = EVENT_CREATE, .table = 1, .text = bytes_of("a.a"), .text2 = bytes_of("x") },
        { .seq = 2, .kind = EVENT_CREATE, .table = 2, .text = bytes_of("a.b"), .text2 = bytes_of("x") },
        { .seq = 3, .kind = EVENT_RENAME, .table = 1, .text = bytes_of("a.c"), .text2 = bytes_of("a.a") },
        { .seq = 4, .kind = EVENT_DROP, .table = 2, .text = bytes_of("a.b"), .text2 = bytes_of("") },
        { .seq = 5, .kind = EVENT_CREATE, .table = 3, .text = bytes_of("a.d"), .text2 = bytes_of("x") },
        { .seq = 6,
          .kind = EVENT_EXPIRE,
          .table = 1,
          .watermark = 2,
          .text = bytes_of(""),
          .text2 = bytes_of("") },
    };
    fresh_place();
    options.seed = 7;
    options.log = log;
    struct publisher *p = start();

    for (int applied = 2; applied <= 6; applied++) {
        struct ledger *now = ledger_new(&log, 7);
        for (int i = 0; i < applied; i++)
            ck_assert_int_eq(ledger_apply(now, &events[i], true, NULL), 0);
        for (int pending = 0; applied + pending <= 6; pending++) {
            struct generation *g = calloc(1, sizeof *g);
            struct root_table row;
            uint32_t table = 0;
            *g = (struct generation){ .refs = 1,
                                      .epoch = publisher_epoch(p),
                                      .number = 100 + (uint64_t)applied * 10 + (uint64_t)pending };
            struct rootjob *j = rootjob_new(now, p, g, NULL, events + applied, (size_t)pending);
            while (rootjob_capture(j, 1) == 1) {
            }
            rootjob_make(j);
            ck_assert_msg(j->error == 0, "%s", j->msg.text);
            uint64_t seq = (uint64_t)(applied + pending);
            ck_assert_uint_eq(g->names_seq, seq);
            ck_assert_uint_eq(root_header(g->root)->tables.count, seq >= 5 ? 3 : 2);
            ck_assert_int_eq(root_find_table(g->root, bytes_of("a.a"), SEQ_MAX, &table), seq < 3);
            ck_assert_int_eq(root_find_table(g->root, bytes_of("a.c"), SEQ_MAX, &table), seq >= 3);
            ck_assert_int_eq(root_find_table(g->root, bytes_of("a.b"), SEQ_MAX, &table), seq < 4);
            ck_assert_int_eq(root_find_table(g->root, bytes_of("a.a"), 2, &table), 1);
            ck_assert_int_eq(root_get_table(g->root, 2, &row), 1);
            ck_assert_uint_eq(row.dropped_seq, seq >= 4 ? 4 : SEQ_MAX);
            ck_assert_int_eq(root_get_table(g->root, 1, &row), 1);
            ck_assert_uint_eq(row.watermark, seq >= 6 ? 2 : 0);
            ck_assert_uint_eq(row.retired_by, seq >= 6 ? 6 : 0);
            rootjob_free(j);
        }
        ledger_free(now);
    }
    publisher_close(p, true);

    /* The same while later events are applied between two slices. */
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(ledger_apply(l, &events[i], true, NULL), 0);
    struct generation *g = calloc(1, sizeof *g);
    fresh_place();
    options.seed = 7;
    options.log = log;
    p = start();
    *g = (struct generation){ .refs = 1, .epoch = publisher_epoch(p), .number = 1 };
    struct rootjob *j = rootjob_new(l, p, g, NULL, NULL, 0);
    for (int i = 2; i < 6; i++) {
        rootjob_capture(j, 1);
        ck_assert_int_eq(ledger_apply(l, &events[i], true, NULL), 0);
    }
    rootjob_capture(j, SIZE_MAX);
    rootjob_make(j);
    ck_assert_msg(j->error == 0, "%s", j->msg.text);
    uint32_t table;
    ck_assert_uint_eq(root_header(g->root)->tables.count, 2);
    ck_assert_int_eq(root_find_table(g->root, bytes_of("a.a"), SEQ_MAX, &table), 1);
    ck_assert_int_eq(root_find_table(g->root, bytes_of("a.b"), SEQ_MAX, &table), 1);
    ck_assert_int_eq(root_find_table(g->root, bytes_of("a.c"), SEQ_MAX, &table), 0);
    rootjob_free(j);
    publisher_close(p, true);
    ledger_free(l);
}
END_TEST

Suite *rootmaker_suite(void);
Suite *rootmaker_suite(void)
{
    Suite *s = suite_create("rootmaker");
    TCase *c = tcase_create("roots");

    tcase_set_timeout(c, 120);
    tcase_add_test(c, a_root_is_of_one_moment_whatever_happens_meanwhile);
    tcase_add_test(c, what_takes_away_is_seen_by_nobody_before_all_can_see_it);
    tcase_add_test(c, a_turn_of_the_loop_takes_a_bounded_part_of_100000_tables);
    suite_add_tcase(s, c);
    return s;
}
