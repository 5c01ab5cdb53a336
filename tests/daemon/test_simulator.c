/*
 * The daemon's core under a simulator: from a seed, whatever clocks, workers, disks and kills do, nothing that was
 * acknowledged is lost, nothing that was refused is there, and every answer is the history's.
 *
 * SKADE_STRESS=1 runs many seeds; SKADE_SIM_SEED=N runs that one, or many from there on.
 */
#include "simulator.h"

#include "crowd.h"
#include "failpoint.h"
#include "indexer.h"
#include "ledger_same.h"
#include "onlooker.h"
#include "publisher_fixture.h"
#include "quick.h"
#include "rowstream.h"
#include "tempdir.h"
#include "verdict.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define LIVES 6

/* ---- crowds ------------------------------------------------------------------------------------------------------- */

/* Small figures, so that everything happens often. */
static void busy(struct config *c)
{
    struct errmsg why = { "" };
    static const char *const options_of[][2] = {
        { "rebuild_threshold", "12" }, { "parts_max", "3" },        { "rebuild_idle", "20ms" },
        { "gc_grace", "5s" },          { "compact_auto", "s.*" },   { "compact_commits", "10" },
        { "compact_cooldown", "1s" },  { "index_file_events", "5" }
    };

    for (size_t i = 0; i < ARRAY_SIZE(options_of); i++)
        ck_assert_int_eq(config_set(c, options_of[i][0], options_of[i][1], NULL, &why), 0);
}

static unsigned begun_from_file; /* lives */

static void live_with_crowd(void *arg)
{
    uint64_t turns = 500 + random_below(&sim.random, 4000);

    (void)arg;
    ck_assert_msg(!sim.server->readonly[0], "life %u: %s", (unsigned)sim.lives, sim.server->readonly);
    begun_from_file += sim.server->unchecked > 0;
    server_is_as_from_log(sim.server);
    for (; turns && !sim.killed && !sim.server->stopping; turns--) {
        sim_turn();
        crowd_act(true);
        if (turns % 16 == 0 && !sim.killed)
            onlooker_check();
        if (turns % 8 == 0 && !sim.killed)
            onlooker_ask();
    }
    if (turns == 0 && random_below(&sim.random, 2))
        sim_kill();
    else if (turns == 0)
        sim_stop();
    while (!sim.stopped) {
        sim_turn();
        crowd_act(false);
    }
    crowd_hang_up();
}

/* All events once more, from the log as it is in the end. */
static void hear_all(void *arg)
{
    (void)arg;
    sim.faults = false;
    crowd.origin = sim.server->origin;
    while (crowd.seq < sim.server->ledger->seq) {
        sim_turn();
        crowd_watch();
    }
    sim_stop();
    sim_finish();
    crowd_hang_up();
}

static void compare_histories(const struct past *before, uint64_t seq)
{
    ck_assert_uint_ge(crowd.seq, seq);
    for (uint64_t i = 0; i < seq; i++)
        ck_assert_msg(memcmp(&before[i], &crowd.events[i], sizeof *before) == 0,
                      "event %" PRIu64 " isn't what it was", i + 1);
}

/* A whole history from SEED; the hash of all that was told. */
static uint64_t simulate(uint64_t seed, const char *dir)
{
    sim_begin(seed, dir, true);
    sim.dying = crowd_hang_up;
    crowd_begin();
    for (unsigned i = 0; i < LIVES; i++) {
        sim.killed_in = random_below(&sim.random, 3) ? 1 + (unsigned)random_below(&sim.random, 1500) : 0;
        sim.wall_us += (int64_t)random_below(&sim.random, 20000000) - 10000000; /* somebody sets the clock */
        sim_live(busy, live_with_crowd, NULL);
    }
    struct past *before = crowd.events;
    uint64_t seq = crowd.seq;
    crowd_forget_events();
    sim.killed_in = 0;
    sim_live(busy, hear_all, NULL);
    compare_histories(before, seq);
    verdict();
    if (getenv("SKADE_SIM_TALK") || getenv("SKADE_STRESS") || getenv("SKADE_SIM_SEED"))
        printf("seed %" PRIu64 ": %" PRIu64 " lives, %" PRIu64 " kills, %" PRIu64 " faults, %" PRIu64
               " jobs, %zu requests, %" PRIu64 " events, %" PRIu64 " answers, %" PRIu64
               " from tails, %" PRIu64 " s: %016" PRIx64 "\n",
               seed, sim.lives, sim.kills, sim.failures, sim.jobs, crowd.count, crowd.seq, crowd.answers,
               onlooker_from_tail, sim.now_us / 1000000, crowd.hash);
    uint64_t hash = crowd.hash;
    free(before);
    crowd_end();
    sim_end();
    return hash;
}

static uint64_t seed_of(int n)
{
    const char *first = getenv("SKADE_SIM_SEED");
    return (first ? strtoull(first, NULL, 10) : 1) + (uint64_t)n;
}

START_TEST(whatever_happens_every_answer_is_the_historys)
{
    if (!has_failpoints())
        return;
    simulate(seed_of(_i), tempdir());
    ck_assert_uint_gt(begun_from_file, 0); /* of six lives */
}
END_TEST

START_TEST(the_same_seed_gives_the_same_run)
{
    const char *dir = tempdir();

    if (!has_failpoints())
        return;
    uint64_t first = simulate(seed_of(0), dir), second = simulate(seed_of(0), dir);
    ck_assert_msg(first == second, "%016" PRIx64 ", then %016" PRIx64, first, second);
    ck_assert_uint_ne(first, simulate(seed_of(0) + 1000, dir));
}
END_TEST

/* ---- clocks ----------------------------------------------------------------------------------------------------------- */

static struct uuid nth(unsigned n)
{
    struct uuid u = { { 7 } };
    memcpy(u.b + 1, &n, sizeof n);
    return u;
}

static void tell(struct request *r)
{
    crowd_say(r);
    crowd_hear();
}

static void create(const char *name, const char *location)
{
    static unsigned n;
    struct msg_create m = { .uuid = nth(++n), .name = bytes_of(name), .location = bytes_of(location) };
    struct request *r = crowd_request();

    size_t at = frame_begin(&r->said);
    wire_put_create(&r->said, &m);
    frame_end(&r->said, at, r->type = WIRE_CREATE, 0, 1);
    tell(r);
    ck_assert_int_eq(r->outcome, DONE);
}

/* One commit to table 1, an external one; not said yet. */
static struct request *new_commit(unsigned n, int64_t snapshot)
{
    struct msg_commit m = { .rows.count = 1 };
    struct item_commit_row row = { .table = 1,
                                   .flags = EVENT_INTRODUCES | EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT,
                                   .snapshot = snapshot,
                                   .uuid = nth(1000 + n),
                                   .base_location = bytes_of(""),
                                   .location = bytes_of("s3://b/c") };
    struct request *r = crowd_request();

    size_t at = frame_begin(&r->said);
    wire_put_commit(&r->said, &m);
    wire_put_commit_row(&r->said, &row);
    frame_end(&r->said, at, r->type = WIRE_COMMIT, 0, 1);
    return r;
}

static struct request *commit(unsigned n)
{
    struct request *r = new_commit(n, n);

    tell(r);
    return r;
}

/* One row to table 1, a stored one. */
static void append(unsigned n)
{
    struct msg_append_begin b = { .table = 1, .uuid = nth(2000 + n) };
    struct row_record row = { .value = bytes_of("value") };
    struct wr records = { 0 };
    struct request *r = crowd_request();

    rowstream_put(&records, &row);
    size_t at = frame_begin(&r->said);
    wire_put_append_begin(&r->said, &b);
    frame_end(&r->said, at, WIRE_APPEND_BEGIN, 0, 1);
    at = frame_begin(&r->said);
    wire_put_rows(&r->said, &(struct msg_rows){ .records = { (char *)records.data, records.len } });
    frame_end(&r->said, at, WIRE_ROWS, 0, 1);
    at = frame_begin(&r->said);
    wire_put_append_end(&r->said, &(struct msg_append_end){ .rows = 1 });
    frame_end(&r->said, at, r->type = WIRE_APPEND_END, 0, 1);
    tell(r);
    ck_assert_int_eq(r->outcome, DONE);
    wr_fini(&records);
}

static void compact(void)
{
    struct request *r = crowd_request();

    size_t at = frame_begin(&r->said);
    wire_put_compact(&r->said, &(struct msg_compact){ .uuid = nth(3000), .table = 1 });
    frame_end(&r->said, at, r->type = WIRE_COMPACT, 0, 1);
    tell(r);
    while (r->outcome == WAITING)
        crowd_hear();
    ck_assert_int_eq(r->outcome, DONE);
}

/* A quiet world, in which SCRIPT is the daemon's only life. */
static void quietly(void (*configure)(struct config *c), void (*script)(void *arg))
{
    sim_begin(1, tempdir(), false);
    crowd_begin();
    sim_live(configure, script, NULL);
    crowd_end();
    sim_end();
}

/* The end of a script. */
static void leave(void)
{
    sim_stop();
    sim_finish();
    crowd_hang_up();
}

static void watch_the_heart(void *arg)
{
    uint64_t before = atomic_load(&sim.server->page->heartbeat);

    (void)arg;
    sim_pass(3600 * 1000);
    ck_assert_uint_eq(atomic_load(&sim.server->page->heartbeat) - before, 2 * 3600 + 1); /* one at once */
    leave();
}

START_TEST(the_heart_beats_twice_a_second)
{
    quietly(NULL, watch_the_heart);
}
END_TEST

/* After commits, too, when they are indexed and the file of the index was written. */
static void rest_for_an_hour(void *arg)
{
    (void)arg;
    create("x.t", "s3://b");
    commit(1);
    sim_pass(60 * 1000);
    uint64_t fired = sim.fired, jobs = sim.jobs;
    sim_pass(3600 * 1000);
    ck_assert_uint_le(sim.fired - fired, 2 * 3600);
    ck_assert_uint_eq(sim.jobs, jobs);
    leave();
}

START_TEST(at_rest_it_wakes_up_twice_a_second)
{
    quietly(NULL, rest_for_an_hour);
}
END_TEST

static void wait_for_the_index(void *arg)
{
    (void)arg;
    create("x.t", "s3://b");
    sim_pass(100);
    ck_assert_int_eq(commit(1)->outcome, DONE);
    sim_pass(199);
    ck_assert_uint_lt(indexer_generation(sim.server->indexer)->covered, 2);
    sim_pass(1);
    ck_assert_uint_eq(indexer_generation(sim.server->indexer)->covered, 2);
    leave();
}

START_TEST(an_idle_tail_is_indexed_when_it_is_time)
{
    quietly(NULL, wait_for_the_index);
}
END_TEST

static void note_error(void *arg, int error, uint64_t old_generation, uint64_t generation)
{
    (void)old_generation, (void)generation;
    *(int *)arg = error;
}

/* Connections are read as long as something waits to become durable. */
static void ask_for_an_index_too_late(void *arg)
{
    int told = 1;

    (void)arg;
    create("x.t", "s3://b");
    indexer_stop(sim.server->indexer);
    indexer_reindex(sim.server->indexer, note_error, &told);
    ck_assert_int_eq(told, SKADE_EUNREACHABLE);
    leave();
}

START_TEST(a_reindex_that_comes_while_the_daemon_ends_is_told_so)
{
    quietly(NULL, ask_for_an_index_too_late);
}
END_TEST

/* When something was tried that fails each time. */
static const char *failing;
static uint64_t tries_ms[64];
static size_t tries;

static int fail_and_note(const char *name)
{
    if (strcmp(name, failing) != 0)
        return 0;
    ck_assert_uint_lt(tries, ARRAY_SIZE(tries_ms));
    tries_ms[tries++] = sim.now_us / 1000;
    return -ENOSPC;
}

static void fail_from_now_on(const char *name)
{
    failing = name;
    tries = 0;
    sim.failpoint = fail_and_note;
}

static void watch_the_backoff(void *arg)
{
    (void)arg;
    create("x.t", "s3://b");
    fail_from_now_on("rebuild.begin");
    sim_pass(60000);
    ck_assert_uint_ge(tries, 10);
    for (size_t i = 1; i < tries; i++)
        ck_assert_uint_eq(tries_ms[i] - tries_ms[i - 1], i < 8 ? 100u << (i - 1) : 10000);
    sim.failpoint = NULL;
    sim_pass(10000);
    ck_assert_uint_eq(indexer_generation(sim.server->indexer)->covered, 1);
    leave();
}

START_TEST(a_rebuild_that_fails_is_tried_again_less_and_less_often)
{
    if (has_failpoints())
        quietly(NULL, watch_the_backoff);
}
END_TEST

static unsigned refused_threads;

static int refuse_thread(uv_thread_t *ret, uv_thread_cb run, void *arg)
{
    (void)ret, (void)run, (void)arg;
    refused_threads++;
    return UV_EAGAIN; /* as the kernel says at a limit of threads */
}

static void live_without_threads(void *arg)
{
    int (*usual)(uv_thread_t *, uv_thread_cb, void *) = world.thread;

    (void)arg;
    world.thread = refuse_thread;
    refused_threads = 0;
    create("x.t", "s3://b");
    sim_pass(60000);
    ck_assert_uint_ge(refused_threads, 10);
    ck_assert_uint_le(refused_threads, 20);
    world.thread = usual;
    sim_pass(10000);
    ck_assert_uint_eq(indexer_shown(sim.server->indexer)->covered, 1);
    leave();
}

START_TEST(a_root_that_gets_no_thread_is_tried_again_less_and_less_often)
{
    quietly(NULL, live_without_threads);
}
END_TEST

static int told_of_reindex;

/* The names of shared memory vanish while a worker makes the newest part, and an operator asks for a new index. */
static int lose_the_names(const char *name)
{
    if (strcmp(name, "rebuild.begin") != 0)
        return 0;
    sim.failpoint = NULL;
    indexer_renew_names(sim.server->indexer);
    indexer_reindex(sim.server->indexer, note_error, &told_of_reindex);
    return 0;
}

static void reindex_while_names_vanish(void *arg)
{
    (void)arg;
    create("x.t", "s3://b");
    told_of_reindex = 1;
    sim.failpoint = lose_the_names;
    sim_pass(10000);
    ck_assert_ptr_null(sim.failpoint);
    ck_assert_int_eq(told_of_reindex, 0);
    ck_assert_uint_eq(indexer_shown(sim.server->indexer)->covered, 1);
    leave();
}

START_TEST(a_reindex_waits_for_the_epoch_that_begins)
{
    if (has_failpoints())
        quietly(NULL, reindex_while_names_vanish);
}
END_TEST

static unsigned entry_files(void)
{
    glob_t found;

    int r = glob(sim_path("data/tables/1/0/*.entries"), 0, NULL, &found);
    unsigned n = r == 0 ? (unsigned)found.gl_pathc : 0;
    globfree(&found);
    return n;
}

#define TEN_MINUTES_MS (10 * 60 * 1000)

static void watch_the_collection(void *arg)
{
    (void)arg;
    create("s.t", "");
    for (unsigned i = 0; i < 5; i++)
        append(i);
    ck_assert_uint_eq(entry_files(), 5);
    compact();
    sim_pass(TEN_MINUTES_MS - 1);
    ck_assert_uint_eq(entry_files(), 5);
    sim_pass(1001); /* it is looked at once a second */
    ck_assert_uint_eq(entry_files(), 0);
    leave();
}

START_TEST(retired_files_stay_for_the_grace_window)
{
    quietly(NULL, watch_the_collection);
}
END_TEST

static void by_itself(struct config *c)
{
    struct errmsg why = { "" };
    ck_assert_int_eq(config_set(c, "compact_auto", "s.*", NULL, &why), 0);
    ck_assert_int_eq(config_set(c, "compact_commits", "8", NULL, &why), 0);
}

static void watch_the_cooldown(void *arg)
{
    unsigned n = 0;

    (void)arg;
    create("s.t", "");
    fail_from_now_on("compact.begin");
    for (; n < 7; n++)
        append(n);
    ck_assert_uint_eq(tries, 0);
    append(n++);
    crowd_hear();
    ck_assert_uint_eq(tries, 1);
    sim_pass(TEN_MINUTES_MS - 1);
    append(n++);
    crowd_hear();
    ck_assert_uint_eq(tries, 1);
    sim_pass(1);
    append(n++);
    crowd_hear();
    ck_assert_uint_eq(tries, 2);
    leave();
}

START_TEST(a_compaction_that_failed_by_itself_cools_down)
{
    if (has_failpoints())
        quietly(by_itself, watch_the_cooldown);
}
END_TEST

static void be_killed(void *arg)
{
    (void)arg;
    create("x.t", "s3://b");
    sim_kill();
}

static void wait_for_orphans(void *arg)
{
    (void)arg;
    const struct request *r = commit(1);
    sim_pass(2999);
    crowd_hear();
    ck_assert_int_eq(r->outcome, WAITING);
    sim_pass(1);
    crowd_hear();
    ck_assert_int_eq(r->outcome, DONE);
    leave();
}

/* With its name gone, nobody can tell its readers. */
START_TEST(after_a_kill_whose_page_is_gone_commits_wait_three_seconds)
{
    sim_begin(1, tempdir(), false);
    sim.dying = crowd_hang_up;
    crowd_begin();
    sim_live(NULL, be_killed, NULL);
    remove_tree(sim_path("shm"));
    ck_assert_int_eq(mkdir(sim_path("shm"), 0700), 0);
    sim_live(NULL, wait_for_orphans, NULL);
    crowd_end();
    sim_end();
}
END_TEST

/* ---- what crowds found ------------------------------------------------------------------------------------------------- */

static void ask_again_on_a_full_disk(void *arg)
{
    struct request *again = new_commit(1, 1), *others[] = { new_commit(2, 2), new_commit(3, 3) };

    (void)arg;
    create("x.t", "s3://b");
    ck_assert_int_eq(commit(1)->outcome, DONE);
    fail_from_now_on("log.begin");
    crowd_say(others[0]); /* the next two wait for its group, and make one together */
    crowd_say(others[1]);
    crowd_say(again);
    crowd_hear();
    ck_assert_int_eq(others[0]->code, SKADE_EFULL);
    ck_assert_int_eq(others[1]->code, SKADE_EFULL);
    ck_assert_int_eq(again->outcome, DONE);
    ck_assert_uint_eq(again->first_seq, 2);
    sim.failpoint = NULL;
    leave();
}

START_TEST(a_full_disk_refuses_nothing_that_was_done_before)
{
    if (has_failpoints())
        quietly(NULL, ask_again_on_a_full_disk);
}
END_TEST

static struct request *new_expiry(int64_t snapshot)
{
    struct request *r = crowd_request();

    size_t at = frame_begin(&r->said);
    wire_put_expire(&r->said,
                    &(struct msg_expire){ .uuid = nth(4000), .table = 1, .by = 2, .value = snapshot });
    frame_end(&r->said, at, r->type = WIRE_EXPIRE, 0, 1);
    return r;
}

static void expire_behind_a_commit(void *arg)
{
    struct request *first = new_commit(3, 3), *back = new_commit(4, 1), *expiry = new_expiry(1);

    (void)arg;
    create("x.t", "s3://b");
    ck_assert_int_eq(commit(1)->outcome, DONE);
    ck_assert_int_eq(commit(2)->outcome, DONE);
    crowd_say(first); /* the next two wait for its group, and are judged one after the other */
    crowd_say(back);  /* the head is snapshot 1 again: where it was first is needed */
    crowd_say(expiry);
    crowd_hear();
    ck_assert_int_eq(back->outcome, DONE);
    ck_assert_int_eq(expiry->outcome, REFUSED);
    ck_assert_int_eq(expiry->code, SKADE_EINPUT);
    leave();
}

START_TEST(an_expiry_knows_the_head_that_a_commit_just_before_it_made)
{
    quietly(NULL, expire_behind_a_commit);
}
END_TEST

Suite *simulator_suite(void);
Suite *simulator_suite(void)
{
    Suite *s = suite_create("simulator");
    TCase *c = tcase_create("simulator");
    int seeds = getenv("SKADE_STRESS") ? 500 : getenv("SKADE_SIM_SEED") ? 1 : 10;

    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, whatever_happens_every_answer_is_the_historys, 0, seeds);
    tcase_add_test(c, the_heart_beats_twice_a_second);
    tcase_add_test(c, at_rest_it_wakes_up_twice_a_second);
    tcase_add_test(c, an_idle_tail_is_indexed_when_it_is_time);
    tcase_add_test(c, a_reindex_that_comes_while_the_daemon_ends_is_told_so);
    tcase_add_test(c, a_rebuild_that_fails_is_tried_again_less_and_less_often);
    tcase_add_test(c, a_root_that_gets_no_thread_is_tried_again_less_and_less_often);
    tcase_add_test(c, a_reindex_waits_for_the_epoch_that_begins);
    tcase_add_test(c, retired_files_stay_for_the_grace_window);
    tcase_add_test(c, a_compaction_that_failed_by_itself_cools_down);
    tcase_add_test(c, after_a_kill_whose_page_is_gone_commits_wait_three_seconds);
    tcase_add_test(c, a_full_disk_refuses_nothing_that_was_done_before);
    tcase_add_test(c, an_expiry_knows_the_head_that_a_commit_just_before_it_made);
    tcase_add_test(c, the_same_seed_gives_the_same_run);
    suite_add_tcase(s, c);
    return s;
}
