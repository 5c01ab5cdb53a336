/*
 * History, events since a moment, watching: every event once and in order, whatever happens to the
 * connection.
 */
#include "client.h"
#include "fake.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define EVENTS 2500

/* Two tables that take turns; more events than a page has. */
static struct world *eventful(int events)
{
    struct world *w = world_make();
    char location[64];

    world_create(w, "shop.orders");
    world_create(w, "shop.items");
    for (int i = 2; i < events; i++) {
        snprintf(location, sizeof location, "s3://t%d/%d", 1 + i % 2, i);
        world_commit(w, 1 + (uint32_t)i % 2, 1000 + i, i, location);
    }
    return w;
}

struct seen {
    struct world *w;
    uint64_t seqs[WORLD_EVENTS];
    size_t n;
    size_t stop_after; /* 0: never */
    int result;        /* what stopping returns */
    struct fake *push; /* a commit is made and pushed at each event while it is set */
};

/* What a callback gets must be what the world has. */
static int see(void *arg, const struct skade_event *e)
{
    struct seen *seen = arg;

    ck_assert_uint_eq(e->size, sizeof *e);
    ck_assert_uint_lt(seen->n, WORLD_EVENTS);
    const struct event *truth = &seen->w->events[e->seq - 1];
    ck_assert_uint_eq(e->kind, truth->kind);
    ck_assert_uint_eq(e->table, truth->table);
    ck_assert_int_eq(e->snapshot, truth->snapshot);
    ck_assert_int_eq(e->time_us, truth->time_us);
    ck_assert_uint_eq(e->flags, truth->flags);
    if (e->kind == SKADE_EVENT_COMMIT)
        ck_assert_str_eq(e->location, truth->text.data);
    if (e->kind == SKADE_EVENT_CREATE) {
        ck_assert_str_eq(e->name, truth->text.data);
        ck_assert_str_eq(e->location, truth->text2.data);
    }
    if (e->kind == SKADE_EVENT_RENAME) {
        ck_assert_str_eq(e->name, truth->text.data);
        ck_assert_str_eq(e->old_name, truth->text2.data);
    }
    seen->seqs[seen->n++] = e->seq;
    return seen->n == seen->stop_after ? seen->result : 0;
}

static void assert_consecutive(const struct seen *seen, uint64_t from, uint64_t to)
{
    ck_assert_uint_eq(seen->n, to - from + 1);
    for (size_t i = 0; i < seen->n; i++)
        ck_assert_uint_eq(seen->seqs[i], from + i);
}

/* ---- pages --------------------------------------------------------------------------------------------- */

START_TEST(events_since_a_moment_come_in_order_over_all_pages)
{
    struct world *w = eventful(EVENTS);
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct seen seen = { .w = w };

    ck_assert_int_eq(skade_commits_since(s, 0, 0, see, &seen), EVENTS);
    assert_consecutive(&seen, 1, EVENTS);
    ck_assert_uint_eq(f->seen[WIRE_SINCE], 3);
    seen.n = 0;
    ck_assert_int_eq(skade_commits_since(s, 100, 1500, see, &seen), 1500);
    assert_consecutive(&seen, 101, 1600);
    ck_assert_int_eq(skade_commits_since(s, EVENTS, 0, see, &seen), 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(history_goes_back_from_the_newest)
{
    struct world *w = eventful(EVENTS);
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct seen seen = { .w = w };

    ck_assert_int_eq(skade_history(s, 1, 0, 0, see, &seen), EVENTS / 2);
    for (size_t i = 0; i + 1 < seen.n; i++)
        ck_assert_uint_gt(seen.seqs[i], seen.seqs[i + 1]);
    ck_assert_uint_eq(seen.seqs[seen.n - 1], 1);
    seen.n = 0;
    ck_assert_int_eq(skade_history(s, 2, 100, 7, see, &seen), 7);
    ck_assert_uint_eq(seen.seqs[0], 98);
    ck_assert_int_eq(skade_history(s, 99, 0, 0, see, &seen), 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(what_a_callback_returns_ends_the_call_and_is_returned)
{
    struct world *w = eventful(50);
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    static const int results[] = { 1, 77, -1, -77, SKADE_ETIMEOUT, -ECONNRESET };

    for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
        struct seen seen = { .w = w, .stop_after = 5, .result = results[i] };
        ck_assert_int_eq(skade_commits_since(s, 0, 0, see, &seen), results[i]);
        ck_assert_uint_eq(seen.n, 5);
        seen.n = 0;
        ck_assert_int_eq(skade_watch(s, 0, 10000, see, &seen), results[i]);
        ck_assert_uint_eq(seen.n, 5);
        ck_assert_int_ge(skade_ping(s), 0);
    }
    ck_assert_uint_eq(f->connections, 1); /* a watch is cancelled, not broken off */
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* Events that a client must not believe. */
static enum fake_verdict answer_disorder(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                         struct wr *out)
{
    static const uint64_t orders[][3] = { { 1, 2, 2 }, { 1, 3, 4 }, { 2, 3, 4 }, { 3, 2, 1 }, { 0, 1, 2 } };
    int which = *(int *)f->arg;

    (void)payload;
    if (h->type != WIRE_SINCE && h->type != WIRE_HISTORY)
        return FAKE_DEFAULT;
    size_t at = frame_begin(out);
    wire_put_events(out, &(struct msg_events){ .events = { .count = 3 } });
    for (int i = 0; i < 3; i++) {
        struct item_event e = { .seq = which < 5 ? orders[which][i] : (uint64_t)i + 1,
                                .kind = which == 5 ? 7 : 1,
                                .name = { "", 0 },
                                .text = { "", 0 },
                                .text2 = { "", 0 } };
        if (which == 6)
            e.kind = 0;
        wire_put_event(out, &e);
    }
    frame_end(out, at, WIRE_EVENTS, 0, h->request);
    return FAKE_SENT;
}

static int count_event(void *arg, const struct skade_event *e)
{
    (void)e;
    ++*(int *)arg;
    return 0;
}

START_TEST(events_out_of_order_are_refused)
{
    struct world *w = eventful(50);
    int which = _i, n = 0;
    struct fake *f = fake_start(w, answer_disorder, &which);
    skade *s = world_open(w, 0);

    ck_assert_int_eq(skade_commits_since(s, 0, 0, count_event, &n), SKADE_EPROTOCOL);
    ck_assert_int_lt(n, 3);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* A page that says there is more and has nothing. */
static enum fake_verdict answer_empty_pages(struct fake *f, const struct frame_header *h,
                                            const uint8_t *payload, struct wr *out)
{
    (void)f, (void)payload;
    if (h->type != WIRE_SINCE && h->type != WIRE_TABLES)
        return FAKE_DEFAULT;
    size_t at = frame_begin(out);
    if (h->type == WIRE_SINCE)
        wire_put_events(out, &(struct msg_events){ .more = 1 });
    else
        wire_put_table_list(out, &(struct msg_table_list){ .more = 1 });
    frame_end(out, at, h->type == WIRE_SINCE ? WIRE_EVENTS : WIRE_TABLE_LIST, 0, h->request);
    return FAKE_SENT;
}

static int count_table(void *arg, const struct skade_table_info *t)
{
    (void)t;
    ++*(int *)arg;
    return 0;
}

START_TEST(pages_that_never_end_are_refused)
{
    struct world *w = eventful(50);
    struct fake *f = fake_start(w, answer_empty_pages, NULL);
    skade *s = world_open(w, 0);
    struct seen seen = { .w = w };
    int tables = 0;

    ck_assert_int_eq(skade_commits_since(s, 0, 0, see, &seen), SKADE_EPROTOCOL);
    ck_assert_int_eq(skade_tables(s, "", count_table, &tables), SKADE_EPROTOCOL);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- tables -------------------------------------------------------------------------------------------- */

#define NAMES 25

/* Tables "t00" to "t24" in pages of ten, or, with ARG, the same page for ever. */
static enum fake_verdict answer_tables(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                       struct wr *out)
{
    struct msg_tables m;
    uint32_t n = 0;
    char names[NAMES][8];

    if (h->type != WIRE_TABLES)
        return FAKE_DEFAULT;
    ck_assert_int_eq(wire_read_tables(payload, h->len, &m), 0);
    size_t at = frame_begin(out);
    wire_put_table_list(out, &(struct msg_table_list){ .at = 42 });
    size_t count_at = out->len - sizeof(uint32_t);
    bool more = false;
    for (uint32_t i = 0; i < NAMES && !more; i++) {
        snprintf(names[i], sizeof names[i], "t%02u", i);
        if (!f->arg && m.after.len && memcmp(names[i], m.after.data, 3) <= 0)
            continue;
        more = n == 10;
        if (more)
            break;
        wire_put_table_row(out, &(struct item_table_row){ .table = i + 1,
                                                          .kind = 1 + i % 2,
                                                          .flags = 4,
                                                          .snapshots = i,
                                                          .snapshot = -5,
                                                          .seq = i,
                                                          .time_us = 7,
                                                          .name = bytes_of(names[i]),
                                                          .location = bytes_of("s3://x") });
        n++;
    }
    wr_patch_u32(out, count_at, n);
    out->data[count_at - 1] = more;
    frame_end(out, at, WIRE_TABLE_LIST, 0, h->request);
    return FAKE_SENT;
}

static int see_table(void *arg, const struct skade_table_info *t)
{
    int *n = arg;
    char name[8];

    snprintf(name, sizeof name, "t%02d", *n);
    ck_assert_str_eq(t->name, name);
    ck_assert_uint_eq(t->size, sizeof *t);
    ck_assert_uint_eq(t->table, (uint32_t)*n + 1);
    ck_assert_uint_eq(t->stored, (uint32_t)*n % 2);
    ck_assert_uint_eq(t->flags, SKADE_HAS_SNAPSHOT);
    ck_assert_int_eq(t->snapshot, -5);
    ck_assert_str_eq(t->location, "s3://x");
    ++*n;
    return *n == 17 ? -17 : 0;
}

START_TEST(tables_come_by_name_page_by_page)
{
    struct world *w = eventful(5);
    struct fake *f = fake_start(w, answer_tables, NULL);
    skade *s = world_open(w, 0);
    int n = 0;

    ck_assert_int_eq(skade_tables(s, "t", count_table, &n), NAMES);
    ck_assert_int_eq(n, NAMES);
    ck_assert_uint_eq(f->seen[WIRE_TABLES], 3);
    n = 0;
    ck_assert_int_eq(skade_tables(s, "t", see_table, &n), -17);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(tables_that_come_again_are_refused)
{
    struct world *w = eventful(5);
    struct fake *f = fake_start(w, answer_tables, w);
    skade *s = world_open(w, 0);
    int n = 0;

    ck_assert_int_eq(skade_tables(s, "t", count_table, &n), SKADE_EPROTOCOL);
    ck_assert_int_eq(n, 10);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- watch --------------------------------------------------------------------------------------------- */

START_TEST(a_watch_without_patience_delivers_what_is_there)
{
    struct world *w = eventful(50);
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct seen seen = { .w = w };

    ck_assert_int_eq(skade_watch(s, 10, 0, see, &seen), 0);
    assert_consecutive(&seen, 11, 50);
    seen.n = 0;
    ck_assert_int_eq(skade_watch(s, 50, 0, see, &seen), 0);
    ck_assert_uint_eq(seen.n, 0);
    ck_assert_int_ge(skade_ping(s), 0);
    ck_assert_uint_eq(f->connections, 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* At each event one more is made, until there are enough. */
static int see_and_commit(void *arg, const struct skade_event *e)
{
    struct seen *seen = arg;

    if (seen->w->seq < 200) {
        world_commit(seen->w, 1, (int64_t)seen->w->seq * 7, 1, "s3://more");
        fake_push(seen->push);
    }
    return see(arg, e);
}

START_TEST(a_watch_delivers_what_comes_while_it_runs)
{
    struct world *w = eventful(20);
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct seen seen = { .w = w, .push = f, .stop_after = 200, .result = 1 };

    ck_assert_int_eq(skade_watch(s, 0, 20000, see_and_commit, &seen), 1);
    assert_consecutive(&seen, 1, 200);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* Hang up at every third watch message. */
static enum fake_verdict break_watches(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                       struct wr *out)
{
    struct msg_watch m;
    struct world *w = f->world;

    if (h->type != WIRE_WATCH)
        return FAKE_DEFAULT;
    ck_assert_int_eq(wire_read_watch(payload, h->len, &m), 0);
    for (uint64_t i = m.after; i < m.after + 3 && i < w->seq; i++) {
        size_t at = frame_begin(out);
        wire_put_events(out, &(struct msg_events){ .at = w->seq, .events = { .count = 1 } });
        wire_put_event(out, &(struct item_event){ .seq = i + 1,
                                                  .kind = w->events[i].kind,
                                                  .flags = w->events[i].flags,
                                                  .table = w->events[i].table,
                                                  .snapshot = w->events[i].snapshot,
                                                  .time_us = w->events[i].time_us,
                                                  .name = world_name(w, w->events[i].table, i + 1),
                                                  .text = w->events[i].text,
                                                  .text2 = w->events[i].text2 });
        frame_end(out, at, WIRE_EVENTS, FRAME_MORE, h->request);
    }
    if (out->len > 10)
        out->len -= 10; /* the last one is cut in the middle */
    return FAKE_CLOSE;
}

START_TEST(a_watch_goes_on_over_broken_connections_without_loss_or_repetition)
{
    struct world *w = eventful(50);
    struct fake *f = fake_start(w, break_watches, NULL);
    skade *s = world_open(w, 0);
    struct seen seen = { .w = w, .stop_after = 48, .result = 3 };

    ck_assert_int_eq(skade_watch(s, 0, 20000, see, &seen), 3);
    assert_consecutive(&seen, 1, 48);
    ck_assert_uint_ge(f->connections, 20);
    skade_close(s);
    fake_stop(f);
}
END_TEST

struct watcher {
    skade *s;
    struct seen seen;
    int result;
};

static void *watch_in_a_thread(void *arg)
{
    struct watcher *watcher = arg;
    watcher->result = skade_watch(watcher->s, 0, -1, see, &watcher->seen);
    return NULL;
}

START_TEST(a_watch_survives_a_restart_of_the_daemon)
{
    struct world *w = eventful(20);
    struct fake *f = fake_start(w, NULL, NULL);
    struct watcher watcher = { .s = world_open(w, 0), .seen = { .w = w, .stop_after = 40, .result = 9 } };
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, watch_in_a_thread, &watcher), 0);
    while (f->seen[WIRE_WATCH] == 0)
        sched_yield();
    fake_stop(f);
    for (int i = 0; i < 20; i++)
        world_commit(w, 1, 5000 + i, 1, "s3://meanwhile");
    f = fake_start(w, NULL, NULL);
    pthread_join(thread, NULL);
    ck_assert_int_eq(watcher.result, 9);
    assert_consecutive(&watcher.seen, 1, 40);
    skade_close(watcher.s);
    fake_stop(f);
}
END_TEST

/* Hang up on a watch and listen no more. */
static enum fake_verdict leave(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                               struct wr *out)
{
    (void)payload, (void)out;
    if (h->type != WIRE_WATCH)
        return FAKE_DEFAULT;
    close(f->listening);
    f->listening = -1;
    return FAKE_CLOSE;
}

START_TEST(a_watch_that_lost_its_daemon_fails_when_its_time_is_up)
{
    struct world *w = eventful(20);
    struct fake *f = fake_start(w, leave, NULL);
    skade *s = world_open(w, 0);
    struct seen seen = { .w = w };

    ck_assert_int_eq(skade_watch(s, 0, 50, see, &seen), SKADE_EUNREACHABLE);
    ck_assert_uint_ge(handle_counter(s, "connects_failed"), 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_watch_without_a_daemon_fails_at_once)
{
    struct world *w = eventful(20);
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct seen seen = { .w = w };

    fake_stop(f);
    ck_assert_int_eq(skade_watch(s, 0, -1, see, &seen), SKADE_EUNREACHABLE);
    ck_assert_uint_eq(seen.n, 0);
    skade_close(s);
}
END_TEST

START_TEST(a_watch_notices_that_the_log_was_replaced)
{
    struct world *w = eventful(20);
    struct fake *f = fake_start(w, NULL, NULL);
    struct watcher watcher = { .s = world_open(w, 0), .seen = { .w = w } };
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, watch_in_a_thread, &watcher), 0);
    while (f->seen[WIRE_WATCH] == 0)
        sched_yield();
    fake_stop(f);
    world_replace_log(w);
    f = fake_start(w, NULL, NULL);
    pthread_join(thread, NULL);
    ck_assert_int_eq(watcher.result, SKADE_EREPLACED);
    ck_assert_int_ge(skade_ping(watcher.s), 0);
    skade_close(watcher.s);
    fake_stop(f);
}
END_TEST

START_TEST(a_watch_ends_when_the_log_went_back)
{
    struct world *w = eventful(20);
    struct fake *f = fake_start(w, NULL, NULL);
    struct watcher watcher = { .s = world_open(w, SKADE_NO_SHM), .seen = { .w = w } };
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, watch_in_a_thread, &watcher), 0);
    while (f->seen[WIRE_WATCH] == 0)
        sched_yield();
    fake_stop(f);
    world_go_back(w, 15);
    f = fake_start(w, NULL, NULL);
    pthread_join(thread, NULL);
    ck_assert_int_eq(watcher.result, SKADE_EREPLACED);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(watcher.s), "went back"));
    ck_assert_int_ge(skade_ping(watcher.s), 0);
    skade_close(watcher.s);
    fake_stop(f);
}
END_TEST

START_TEST(a_waiting_watch_can_be_cancelled_and_the_handle_lives)
{
    struct world *w = eventful(20);
    struct fake *f = fake_start(w, NULL, NULL);
    struct watcher watcher = { .s = world_open(w, 0), .seen = { .w = w } };
    pthread_t thread;
    void *result;

    ck_assert_int_eq(pthread_create(&thread, NULL, watch_in_a_thread, &watcher), 0);
    while (f->seen[WIRE_WATCH] == 0)
        sched_yield();
    pthread_cancel(thread);
    pthread_join(thread, &result);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
    world_commit(w, 1, 5000, 1, "s3://meanwhile");
    fake_push(f); /* to a watch that nobody reads */
    ck_assert_int_ge(skade_ping(watcher.s), 0);
    ck_assert_uint_eq(f->connections, 2);
    skade_close(watcher.s);
    fake_stop(f);
}
END_TEST

Suite *client_history_suite(void);
Suite *client_history_suite(void)
{
    Suite *suite = suite_create("client_history");
    TCase *t = tcase_create("history");

    tcase_set_timeout(t, 300);
    tcase_add_test(t, events_since_a_moment_come_in_order_over_all_pages);
    tcase_add_test(t, history_goes_back_from_the_newest);
    tcase_add_test(t, what_a_callback_returns_ends_the_call_and_is_returned);
    tcase_add_loop_test(t, events_out_of_order_are_refused, 0, 7);
    tcase_add_test(t, pages_that_never_end_are_refused);
    tcase_add_test(t, tables_come_by_name_page_by_page);
    tcase_add_test(t, tables_that_come_again_are_refused);
    tcase_add_test(t, a_watch_without_patience_delivers_what_is_there);
    tcase_add_test(t, a_watch_delivers_what_comes_while_it_runs);
    tcase_add_test(t, a_watch_goes_on_over_broken_connections_without_loss_or_repetition);
    tcase_add_test(t, a_watch_survives_a_restart_of_the_daemon);
    tcase_add_test(t, a_watch_that_lost_its_daemon_fails_when_its_time_is_up);
    tcase_add_test(t, a_watch_without_a_daemon_fails_at_once);
    tcase_add_test(t, a_watch_notices_that_the_log_was_replaced);
    tcase_add_test(t, a_watch_ends_when_the_log_went_back);
    if (!HAS_ASAN)
        tcase_add_test(t, a_waiting_watch_can_be_cancelled_and_the_handle_lives);
    suite_add_tcase(suite, t);
    return suite;
}
