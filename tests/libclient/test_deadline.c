/*
 * A daemon that hangs takes its socket's connections and never says a word.  A call waits for it once: one
 * deadline, one connection, one request, whatever the call has to do in between.
 *
 * Nothing here looks at a clock.  The handle counts the deadlines that it began and what it tried; when this
 * process was kept waiting itself, that is less than usual, but never more.
 */
#include "client.h"
#include "fake.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PATIENCE_MS 20 /* of handles whose daemon hangs: what they wait for doesn't come */

enum mood {
    AWAKE,
    HANGS,           /* never answers */
    HANGS_AT_WORK,   /* says WELCOME and nothing else */
    BREAKS_AND_HANGS /* hangs up on the first request, then hangs */
};

struct sleeper {
    atomic_int mood;  /* enum mood */
    atomic_int pages; /* with HANGS: that are answered first */
};

static enum fake_verdict sleep_or_answer(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                         struct wr *out)
{
    struct sleeper *sleeper = f->arg;

    (void)payload, (void)out;
    switch ((enum mood)sleeper->mood) {
    case AWAKE:
        return FAKE_DEFAULT;
    case HANGS:
        return sleeper->pages-- > 0 ? FAKE_DEFAULT : FAKE_SILENT;
    case HANGS_AT_WORK:
        return h->type == WIRE_HELLO ? FAKE_DEFAULT : FAKE_SILENT;
    case BREAKS_AND_HANGS:
        sleeper->mood = HANGS;
        return FAKE_CLOSE;
    }
    return FAKE_DEFAULT;
}

/* A published world, and one commit more, so that what isn't there can't be told from the map. */
static struct world *half_published(void)
{
    struct world *w = world_make();

    world_new_page(w);
    world_create(w, "shop.orders");
    world_commit(w, 1, 10, 100, "s3://orders/10");
    world_publish(w);
    world_commit(w, 1, 11, 200, "s3://orders/11");
    return w;
}

/* What a handle has tried so far. */
struct tried {
    uint64_t deadlines, timeouts, connections, requests;
};

static struct tried tried(skade *s)
{
    return (struct tried){
        .deadlines = s->deadlines,
        .timeouts = handle_counter(s, "timeouts"),
        .connections = handle_counter(s, "connects") + handle_counter(s, "connects_failed"),
        .requests = handle_counter(s, "requests"),
    };
}

/* Since BEFORE exactly so many deadlines and timeouts, and at most so much for them. */
static void assert_tried(skade *s, struct tried before, struct tried want)
{
    struct tried now = tried(s);

    ck_assert_uint_eq(now.deadlines - before.deadlines, want.deadlines);
    ck_assert_uint_eq(now.timeouts - before.timeouts, want.timeouts);
    ck_assert_uint_le(now.connections - before.connections, want.connections);
    ck_assert_uint_le(now.requests - before.requests, want.requests);
}

/* ---- every call that may need the daemon --------------------------------------------------------------- */

static int no_event(void *arg, const struct skade_event *e)
{
    (void)e;
    ++*(int *)arg;
    return 0;
}

static int no_table(void *arg, const struct skade_table_info *t)
{
    (void)arg, (void)t;
    return 0;
}

static int no_client(void *arg, const struct skade_client *c)
{
    (void)arg, (void)c;
    return 0;
}

static int no_check(void *arg, const char *object, uint64_t checked, uint64_t damaged, const char *detail)
{
    (void)arg, (void)object, (void)checked, (void)damaged, (void)detail;
    return 0;
}

enum {
    PING,
    FIND,
    RESOLVE,
    MANY,
    HEAD,
    AS_OF,
    HISTORY,
    SINCE,
    WATCH,
    TABLES,
    COMMIT,
    RELEASE,
    CREATE,
    RENAME,
    DROP,
    EXPIRE,
    REINDEX,
    CLIENTS,
    VERIFY,
    BACKUP,
    CALLS
};

static int64_t call(skade *s, int which)
{
    struct skade_answer a = answer();
    struct skade_commit c = { .size = sizeof c, .table = 1, .location = "s3://x" };
    struct skade_reindexed reindexed = { .size = sizeof reindexed };
    skade_table t;
    int n = 0;

    a.table = 1;
    a.snapshot = 99;
    switch (which) {
    case PING:
        return skade_ping(s);
    case FIND:
        return skade_find_table(s, "shop.nobody", &t);
    case RESOLVE:
        return skade_resolve(s, 1, 99, &a);
    case MANY:
        return skade_resolve_many(s, &a, 1);
    case HEAD:
        return skade_head(s, 1, &a);
    case AS_OF:
        return skade_as_of(s, 1, 300, &a);
    case HISTORY:
        return skade_history(s, 1, 0, 0, no_event, &n);
    case SINCE:
        return skade_commits_since(s, 0, 0, no_event, &n);
    case WATCH:
        return skade_watch(s, 0, -1, no_event, &n);
    case TABLES:
        return skade_tables(s, "", no_table, NULL);
    case COMMIT:
        return skade_commit(s, &c, NULL, NULL);
    case RELEASE:
        return skade_release(s, &c, 1, NULL, NULL);
    case CREATE:
        return skade_create(s, "a", NULL, NULL, NULL);
    case RENAME:
        return skade_rename(s, "a", "b", NULL);
    case DROP:
        return skade_drop(s, "a", NULL);
    case EXPIRE:
        return skade_expire_before(s, 1, 100, NULL);
    case REINDEX:
        return skade_reindex(s, &reindexed);
    case CLIENTS:
        return skade_clients(s, no_client, NULL);
    case VERIFY:
        return skade_verify(s, 0, no_check, NULL);
    case BACKUP:
        return skade_backup(s, -1, NULL, NULL);
    }
    return 0;
}

/* What isn't waiting: a release begins its deadline anew with each piece that the socket took, verify after
 * it has verified the maps by itself. */
static uint64_t more_deadlines(int which, bool connected)
{
    return (which == RELEASE || which == VERIFY) && connected;
}

/* A release of one commit is a piece and an end. */
static uint64_t requests_of(int which)
{
    return which == RELEASE ? 2 : 1;
}

START_TEST(a_call_that_connects_to_a_hung_daemon_waits_once)
{
    struct world *w = half_published();
    struct sleeper sleeper = { .mood = AWAKE };
    struct fake *f = fake_start(w, sleep_or_answer, &sleeper);
    skade *s = world_open_impatient(w, PATIENCE_MS);

    ask_hang_up(s);
    sleeper.mood = HANGS;
    struct tried before = tried(s);
    ck_assert_int_eq(call(s, _i), SKADE_ETIMEOUT);
    assert_tried(s, before, (struct tried){ 1 + more_deadlines(_i, false), 1, 1, 0 });
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_call_on_a_connection_whose_daemon_hangs_waits_once)
{
    struct world *w = half_published();
    struct sleeper sleeper = { .mood = AWAKE };
    struct fake *f = fake_start(w, sleep_or_answer, &sleeper);
    skade *s = world_open(w, 0);

    sleeper.mood = HANGS_AT_WORK;
    s->timeout_ms = PATIENCE_MS;
    struct tried before = tried(s);
    ck_assert_int_eq(call(s, _i), SKADE_ETIMEOUT);
    assert_tried(s, before, (struct tried){ 1 + more_deadlines(_i, true), 1, 0, requests_of(_i) });
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(asking_again_has_no_time_of_its_own)
{
    struct world *w = half_published();
    struct sleeper sleeper = { .mood = AWAKE };
    struct fake *f = fake_start(w, sleep_or_answer, &sleeper);
    skade *s = world_open_impatient(w, PATIENCE_MS);

    sleeper.mood = BREAKS_AND_HANGS;
    struct tried before = tried(s);
    ck_assert_int_eq(call(s, _i), SKADE_ETIMEOUT);
    ck_assert_uint_eq(s->deadlines - before.deadlines, 1);
    ck_assert_uint_eq(tried(s).timeouts - before.timeouts, 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* Another page than the daemon's: it is asked whose it is, and then the question isn't asked in vain again. */
START_TEST(finding_out_whose_page_it_is_counts_as_asking)
{
    struct world *w = half_published();
    struct sleeper sleeper = { .mood = AWAKE };
    struct fake *f = fake_start(w, sleep_or_answer, &sleeper);
    skade *s = world_open_impatient(w, PATIENCE_MS);

    world_new_page(w);
    sleeper.mood = HANGS;
    struct tried before = tried(s);
    ck_assert_int_eq(call(s, HEAD), SKADE_ETIMEOUT);
    ck_assert_uint_eq(s->deadlines - before.deadlines, 1);
    ck_assert_uint_le(tried(s).connections - before.connections, 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- signs of life ------------------------------------------------------------------------------------- */

START_TEST(each_page_of_a_listing_has_its_own_time_and_a_hung_daemon_no_more)
{
    struct world *w = world_make();
    struct sleeper sleeper = { .mood = AWAKE };
    int n = 0;

    world_new_page(w);
    world_create(w, "shop.orders");
    for (int i = 1; i < 2500; i++)
        world_commit(w, 1, i, i, "s3://x");
    struct fake *f = fake_start(w, sleep_or_answer, &sleeper);
    skade *s = world_open(w, 0);
    struct tried before = tried(s);
    ck_assert_int_eq(skade_commits_since(s, 0, 0, no_event, &n), 2500);
    ck_assert_uint_ge(s->deadlines - before.deadlines, 3);

    n = 0;
    sleeper.pages = 2;
    sleeper.mood = HANGS;
    s->timeout_ms = 200;
    before = tried(s);
    ck_assert_int_eq(skade_commits_since(s, 0, 0, no_event, &n), SKADE_ETIMEOUT);
    ck_assert_int_le(n, 2000);
    ck_assert_int_eq(n % 1000, 0);
    assert_tried(s, before, (struct tried){ 1 + (uint64_t)n / 1000, 1, 0, 3 });
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- opening, and several calls together --------------------------------------------------------------- */

START_TEST(opening_waits_once_and_then_the_map_answers)
{
    struct world *w = half_published();
    struct sleeper sleeper = { .mood = HANGS };
    struct fake *f = fake_start(w, sleep_or_answer, &sleeper);
    struct skade_answer a = answer();
    skade_table table = 0;
    skade *s;

    ck_assert_int_eq(world_try_open(w, 0, PATIENCE_MS, &s), 0);
    assert_tried(s, (struct tried){ 0 }, (struct tried){ 1, 1, 1, 0 });
    skade_deadline(s, 0);
    struct tried before = tried(s);
    ck_assert_int_eq(skade_find_table(s, "shop.orders", &table), 1);
    ck_assert_int_eq(skade_resolve(s, table, 10, &a), 1);
    ck_assert_int_eq(skade_resolve_many(s, &a, 1), 1);
    ck_assert_uint_eq(tried(s).connections, before.connections);
    ck_assert_uint_eq(tried(s).requests, before.requests);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(calls_with_a_deadline_together_wait_together_until_they_have_their_own_again)
{
    struct world *w = half_published();
    struct sleeper sleeper = { .mood = HANGS };
    struct fake *f = fake_start(w, sleep_or_answer, &sleeper);
    skade *s;

    ck_assert_int_eq(world_try_open(w, 0, PATIENCE_MS, &s), 0);
    s->timeout_ms = 1000000; /* whoever waited for that would still be waiting */
    skade_deadline(s, PATIENCE_MS);
    struct tried before = tried(s);
    for (int which = 0; which < CALLS; which++) {
        if (which == VERIFY) /* which works first, and is given its time then */
            continue;
        ck_assert_int_eq(call(s, which), SKADE_ETIMEOUT);
        ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "did not answer"));
    }
    ck_assert_uint_le(tried(s).connections - before.connections, 1);
    ck_assert_uint_eq(tried(s).requests, before.requests);
    sleeper.mood = AWAKE;
    ck_assert_int_eq(skade_ping(s), SKADE_ETIMEOUT);
    skade_deadline(s, -1);
    ck_assert_int_ge(skade_ping(s), 0);
    ck_assert_uint_le(f->connections, 3); /* opening, the first call, and now */
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* A change that is not sent is not made, and nobody is told that it may have been. */
START_TEST(nothing_is_changed_when_the_time_is_over_before_it_is_sent)
{
    struct world *w = half_published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct skade_commit c = { .size = sizeof c, .table = 1, .location = "s3://x" };

    skade_deadline(s, 0);
    ck_assert_int_eq(skade_commit(s, &c, NULL, NULL), SKADE_ETIMEOUT);
    ck_assert_ptr_null(strstr(skade_errmsg(s), "uuid"));
    skade_deadline(s, -1);
    ck_assert_int_ge(skade_ping(s), 0);
    ck_assert_uint_eq(f->seen[WIRE_COMMIT], 0);
    ck_assert_uint_eq(f->connections, 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

Suite *client_deadline_suite(void);
Suite *client_deadline_suite(void)
{
    Suite *suite = suite_create("client_deadline");
    TCase *t = tcase_create("deadline");

    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, a_call_that_connects_to_a_hung_daemon_waits_once, 0, CALLS);
    tcase_add_loop_test(t, a_call_on_a_connection_whose_daemon_hangs_waits_once, 0, CALLS);
    tcase_add_loop_test(t, asking_again_has_no_time_of_its_own, PING, HISTORY + 1);
    tcase_add_test(t, finding_out_whose_page_it_is_counts_as_asking);
    tcase_add_test(t, each_page_of_a_listing_has_its_own_time_and_a_hung_daemon_no_more);
    tcase_add_test(t, opening_waits_once_and_then_the_map_answers);
    tcase_add_test(t, calls_with_a_deadline_together_wait_together_until_they_have_their_own_again);
    tcase_add_test(t, nothing_is_changed_when_the_time_is_over_before_it_is_sent);
    suite_add_tcase(suite, t);
    return suite;
}
