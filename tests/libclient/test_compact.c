/*
 * Compaction: the same rows in few files, old snapshots gone, and nothing changed by one that didn't come to its end.
 */
#include "client.h"
#include "fake.h"
#include "rows_kit.h"

#include "tools/cli_run.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct skade_compact_options options(void)
{
    return (struct skade_compact_options){ .size = sizeof(struct skade_compact_options) };
}

static struct skade_compacted compact(skade *s, skade_table t, const struct skade_compact_options *o)
{
    struct skade_compacted c = { .size = sizeof c };
    kit_ok(s, skade_compact(s, t, o, &c));
    return c;
}

static void append_numbers(skade *s, skade_table t, int from, int to)
{
    char word[40];

    for (int i = from; i < to; i++) {
        snprintf(word, sizeof word, "k%d=%d =%d", i % 10, i, i);
        kit_append(s, t, word);
    }
}

/* ---- by the daemon --------------------------------------------------------------------------------------------- */

START_TEST(a_compaction_keeps_the_rows_and_expires_the_snapshots_before)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    char buffer[SKADE_LOCATION_MAX + 1];
    struct skade_answer a = SKADE_ANSWER(buffer, sizeof buffer);

    struct skade_appended first = kit_append(s, t, "a=1 b=1 =x");
    struct skade_appended last = kit_append(s, t, "a=2 b! =y");
    struct skade_compacted c = compact(s, t, NULL);
    ck_assert_uint_eq(c.seq, last.seq + 1);
    ck_assert_uint_eq(c.rows, 3);
    ck_assert_uint_eq(c.rows_pruned, 0);
    ck_assert_uint_eq(c.snapshots_before, 2);
    ck_assert_uint_eq(c.files_before, 2);
    ck_assert_uint_eq(c.files_after, 1);
    ck_assert_uint_eq(c.joined, 0);
    ck_assert_uint_gt(c.bytes_before, 0);
    ck_assert_ptr_nonnull(strstr(c.old_data_dir, "/tables/"));
    kit_rows(s, t, NULL, "=x a=2 =y");
    ck_assert_int_eq(skade_resolve(s, t, first.snapshot, &a), SKADE_EEXPIRED);
    ck_assert_int_eq(skade_resolve(s, t, last.snapshot, &a), SKADE_EEXPIRED);
    ck_assert_int_eq(skade_head(s, t, &a), 1);
    ck_assert_int_eq(a.snapshot, c.snapshot);
    ck_assert_int_eq(a.time_us, last.time_us);
    ck_assert_int_eq(skade_resolve(s, t, c.snapshot, &a), 1);
    append_numbers(s, t, 0, 2);
    kit_rows(s, t, NULL, "=x a=2 =y k0=0 =0 k1=1 =1");
    c = compact(s, t, NULL);
    ck_assert_uint_eq(c.rows, 7);
    kit_rows(s, t, NULL, "=x a=2 =y k0=0 =0 k1=1 =1");
    c = compact(s, t, NULL); /* there is nothing to do */
    ck_assert_uint_eq(c.seq, 0);
    skade_close(s);
}
END_TEST

START_TEST(rules_drop_rows)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_compact_options o = options();

    struct skade_appended old = kit_append(s, t, "a1=1 =x b1=1");
    kit_append(s, t, "a2=2 =y b2=2 c=2");
    switch (_i % 4) {
    case 0:
        o.has_drop_before = 1;
        o.drop_before_us = old.time_us + 1;
        break;
    case 1:
        o.keep_prefix = "b";
        o.keep_prefix_len = 1;
        break;
    case 2:
        o.drop_from = "a2";
        o.drop_from_len = 2;
        o.drop_to = "b2";
        o.drop_to_len = 2;
        break;
    case 3:
        o.drop_from = "b1";
        o.drop_from_len = 2;
        break;
    }
    static const char *want[] = { "a2=2 =y b2=2 c=2", "=x b1=1 =y b2=2", "a1=1 =x =y b2=2 c=2",
                                  "a1=1 =x a2=2 =y" };
    if (_i >= 4)
        o.flags = SKADE_DRY_RUN;
    struct skade_compacted c = compact(s, t, &o);
    ck_assert_uint_eq(c.seq != 0, _i < 4);
    ck_assert_uint_eq(c.rows + c.rows_pruned, 7);
    ck_assert_uint_eq(c.rows_pruned, _i % 4 < 1 || _i % 4 == 1 || _i % 4 == 3 ? 3 : 2);
    kit_rows(s, t, NULL, _i >= 4 ? "a1=1 =x b1=1 a2=2 =y b2=2 c=2" : want[_i % 4]);
    skade_close(s);
}
END_TEST

START_TEST(a_dry_run_changes_nothing)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_compact_options o = options();

    append_numbers(s, t, 0, 20);
    o.flags = SKADE_DRY_RUN;
    struct skade_compacted c = compact(s, t, &o);
    ck_assert_uint_eq(c.seq, 0);
    ck_assert_uint_eq(c.rows, 30);
    ck_assert_uint_eq(c.files_before, 20);
    ck_assert_uint_eq(kit_files(t), 20);
    skade_close(s);
}
END_TEST

static void append_long(skade *s, skade_table t, const char *key, size_t len)
{
    char *value = malloc(len);

    for (size_t i = 0; i < len; i++)
        value[i] = (char)((i * 2654435761u) >> 27);
    kit_ok(s, skade_append_begin(s, t, NULL));
    kit_ok(s, skade_append_put(s, key, strlen(key), value, len));
    kit_ok(s, skade_append_commit(s, NULL));
    free(value);
}

/* Its sample is in memory, a long row's beginning and some files one after the other. */
START_TEST(a_dry_run_needs_no_disk)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_compact_options o = options();
    char key[20];

    append_numbers(s, t, 0, 20);
    for (int i = 0; i < 30; i++) {
        snprintf(key, sizeof key, "long%d", i);
        append_long(s, t, key, i < 29 ? 1000000 : 9000000);
    }
    o.flags = SKADE_DRY_RUN;
    kit_point("store.temp", "fail 28");
    int r = skade_compact(s, t, &o, &(struct skade_compacted){ .size = sizeof(struct skade_compacted) });
    struct skade_compacted told = { .size = sizeof told };
    if (r == 0)
        r = skade_compact(s, t, &o, &told);
    kit_point("store.temp", NULL);
    kit_ok(s, r);
    struct skade_compacted done = compact(s, t, NULL);
    ck_assert_uint_eq(told.rows, done.rows);
    ck_assert_uint_eq(told.raw_bytes, done.raw_bytes);
    ck_assert_uint_eq(told.bytes_before, done.bytes_before);
    ck_assert_uint_eq(told.sampled, 1);
    ck_assert_uint_gt(told.bytes_after * 10, done.bytes_after * 8);
    ck_assert_uint_lt(told.bytes_after * 10, done.bytes_after * 12);
    skade_close(s);
}
END_TEST

START_TEST(the_same_uuid_gets_the_same_compaction)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_compact_options o = options();

    append_numbers(s, t, 0, 5);
    memset(o.uuid, 7, sizeof o.uuid);
    o.keep_prefix = "k";
    o.keep_prefix_len = 1;
    struct skade_compacted a = compact(s, t, &o);
    append_numbers(s, t, 5, 6);
    struct skade_compacted b = compact(s, t, &o);
    ck_assert_uint_gt(a.seq, 0);
    ck_assert_uint_eq(b.seq, a.seq);
    ck_assert_int_eq(b.snapshot, a.snapshot);
    skade_close(s);
}
END_TEST

START_TEST(what_no_compaction_can_be_is_refused)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_compact_options o = options();
    struct skade_compacted c = { .size = 3 };

    ck_assert_int_eq(skade_compact(s, 99, NULL, NULL), SKADE_ENOTABLE);
    ck_assert_int_eq(skade_compact(s, t, &o, &c), SKADE_EINPUT);
    o.size = 8;
    ck_assert_int_eq(skade_compact(s, t, &o, NULL), SKADE_EINPUT);
    o = options();
    o.flags = 64;
    ck_assert_int_eq(skade_compact(s, t, &o, NULL), SKADE_EINPUT);
    o = options();
    o.level = 100;
    ck_assert_int_eq(skade_compact(s, t, &o, NULL), SKADE_EINPUT);
    kit_ok(s, skade_compact(s, t, NULL, NULL)); /* without a commit there is nothing to do */
    skade_close(s);
}
END_TEST

/* ---- joining, cancelling --------------------------------------------------------------------------------------------- */

struct compactor {
    skade *s;
    skade_table t;
    struct skade_compact_options o;
    struct skade_compacted c;
    int result;
    pthread_t thread;
};

static void *run_compactor(void *arg)
{
    struct compactor *c = arg;
    c->c.size = sizeof c->c;
    c->result = skade_compact(c->s, c->t, &c->o, &c->c);
    return NULL;
}

static void start_compactor(struct compactor *c, skade_table t, const struct skade_compact_options *o,
                            const char *label)
{
    *c = (struct compactor){ .s = kit_open_as(label), .t = t, .o = *o };
    ck_assert_int_eq(pthread_create(&c->thread, NULL, run_compactor, c), 0);
}

static void end_compactor(struct compactor *c)
{
    pthread_join(c->thread, NULL);
    skade_close(c->s);
}

static int keep_all(void *arg, const struct skade_row *row)
{
    (void)row;
    ++*(int *)arg;
    return 1;
}

/* The daemon has served N requests of the other client than this one. */
struct wanted_client {
    uint64_t most;
};

static int note_client(void *arg, const struct skade_client *c)
{
    struct wanted_client *w = arg;
    if (strcmp(c->label, "second") == 0 && c->requests > w->most)
        w->most = c->requests;
    return 0;
}

static void await_requests(skade *s, uint64_t n)
{
    struct wanted_client w = { .most = 0 };
    while (w.most < n)
        kit_ok(s, skade_clients(s, note_client, &w));
}

/* Commits go on, and the second caller gets what comes of the first: he asks by the daemon or by a callback. */
START_TEST(a_second_caller_joins_and_commits_go_on_meanwhile)
{
    if (!kit_has_failpoints())
        return;

    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_compact_options o = options();
    struct compactor first, second;
    int seen = 0;

    append_numbers(s, t, 0, 10);
    kit_hold("compact.scanned");
    start_compactor(&first, t, &o, "first");
    kit_await("compact.scanned");
    struct skade_appended carried = kit_append(s, t, "k0=new carried=1");
    kit_get(s, t, NULL, "k0", "new");
    if (_i == 1) {
        o.prune = keep_all;
        o.prune_arg = &seen;
    }
    start_compactor(&second, t, &o, "second");
    /* HELLO, COMPACT; or HELLO, LEASE, FILES, COMPACT_BEGIN, ROWS, COMPACT_END, LEASE_END, COMPACT. */
    await_requests(s, _i == 0 ? 2 : 8);
    kit_let_go("compact.scanned");
    end_compactor(&first);
    end_compactor(&second);
    ck_assert_int_eq(first.result, 0);
    ck_assert_uint_eq(first.c.joined, 0);
    ck_assert_uint_eq(first.c.carried, 1);
    ck_assert_int_eq(second.result, 0);
    ck_assert_uint_eq(second.c.joined, 1);
    ck_assert_uint_eq(second.c.seq, first.c.seq);
    ck_assert_int_eq(seen, _i == 0 ? 0 : 21);
    kit_get(s, t, NULL, "k0", "new");
    kit_get(s, t, NULL, "carried", "1");
    struct skade_scan_options at = { .size = sizeof at, .by = SKADE_AT_SNAPSHOT, .value = carried.snapshot };
    kit_get(s, t, &at, "carried", "1");
    skade_close(s);
}
END_TEST

struct progress {
    int calls, end_after;
    uint64_t total;
};

static int note_progress(void *arg, uint64_t done, uint64_t total, uint64_t written)
{
    struct progress *p = arg;

    (void)done, (void)written;
    p->total = total;
    return ++p->calls >= p->end_after;
}

START_TEST(a_cancelled_compaction_changes_nothing)
{
    if (!kit_has_failpoints())
        return;

    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_compact_options o = options();
    struct progress p = { .end_after = 1 };
    struct compactor c;

    append_numbers(s, t, 0, 10);
    o.progress = note_progress;
    o.progress_arg = &p;
    kit_hold("compact.scanned");
    start_compactor(&c, t, &o, "first");
    kit_await("compact.scanned");
    end_compactor(&c);
    ck_assert_int_eq(c.result, -ECANCELED);
    kit_let_go("compact.scanned");
    kit_await_files(t, 10);
    kit_await_no_dir(t, 1);
    kit_get(s, t, NULL, "k3", "3");
    struct skade_compacted made = compact(s, t, NULL);
    ck_assert_uint_eq(made.rows, 20);
    skade_close(s);
}
END_TEST

static void compacted_bytes_are_the_files(skade *s, skade_table t, const struct skade_compact_options *o,
                                          unsigned from, unsigned to)
{
    int64_t before = kit_bytes(t, from);
    struct skade_compacted c = compact(s, t, o);

    ck_assert_int_eq((int64_t)c.bytes_before, before);
    ck_assert_int_eq((int64_t)c.bytes_after, kit_bytes(t, to));
}

/* Of the manifest, too: before and after are what the directories hold. */
START_TEST(bytes_before_and_after_are_those_on_disk)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_compact_options o = options();
    int seen = 0;

    o.prune = _i == 1 ? keep_all : NULL;
    o.prune_arg = &seen;
    append_numbers(s, t, 0, 5);
    compacted_bytes_are_the_files(s, t, &o, 0, 1);
    append_numbers(s, t, 5, 9);
    compacted_bytes_are_the_files(s, t, &o, 1, 2);
    o.prune = NULL;
    compacted_bytes_are_the_files(s, t, &o, 2, 2); /* nothing to do */
    o.flags = SKADE_DRY_RUN;
    o.target_size = 1 << 20;
    struct skade_compacted c = compact(s, t, &o);
    ck_assert_int_eq((int64_t)c.bytes_before, kit_bytes(t, 2));
    ck_assert_uint_eq(c.files_after, 1);
    ck_assert_int_eq((int64_t)c.bytes_after, kit_bytes(t, 2));
    skade_close(s);
}
END_TEST

/* One that can't write, or name its files, or whose callback ends it: its directory is gone when that is told. */
START_TEST(a_compaction_that_came_to_nothing_leaves_no_directory)
{
    static const char *points[] = { "rows.write", "compact.link", "store.link", "log.commit" };
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");

    append_numbers(s, t, 0, 5);
    kit_point(points[_i], "fail 28");
    int r = skade_compact(s, t, NULL, NULL);
    int64_t left = kit_bytes(t, 1);
    kit_point(points[_i], NULL);
    ck_assert_int_eq(r, _i == 1 ? -ENOSPC : SKADE_EFULL);
    ck_assert_int_eq(left, -1);
    ck_assert_uint_eq(compact(s, t, NULL).rows, 10);
    ck_assert_int_gt(kit_bytes(t, 1), 0);
    skade_close(s);
}
END_TEST

/* A value larger than any memory isn't written to its end when nobody wants it: 16 pieces were to come. */
START_TEST(a_compaction_is_cancelled_in_the_middle_of_a_row)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_compact_options o = options();
    struct progress p = { .end_after = 1 };
    struct compactor c;

    append_long(s, t, "k", 16 << 20);
    o.progress = note_progress;
    o.progress_arg = &p;
    kit_hold("compact.piece");
    start_compactor(&c, t, &o, "first");
    kit_await("compact.piece");
    end_compactor(&c);
    ck_assert_int_eq(c.result, -ECANCELED);
    int held = kit_keep("compact.piece");
    kit_point("compact.piece", "count 1000 fail 5");
    close(held);
    kit_await_no_dir(t, 1);
    char *left = kit_point_text("compact.piece");
    kit_point("compact.piece", NULL);
    ck_assert_str_eq(left, "count 1000 fail 5"); /* nobody came by any more */
    free(left);
    skade_close(s);
}
END_TEST

START_TEST(a_dry_run_goes_on_beside_a_compaction)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_compact_options o = options();
    struct compactor c;

    append_numbers(s, t, 0, 10);
    kit_hold("compact.link");
    start_compactor(&c, t, &o, "first");
    kit_await("compact.link");
    o.flags = SKADE_DRY_RUN;
    struct skade_compacted told = compact(s, t, &o);
    kit_let_go("compact.link");
    end_compactor(&c);
    ck_assert_int_eq(c.result, 0);
    ck_assert_uint_eq(told.joined, 0);
    ck_assert_uint_eq(told.seq, 0);
    ck_assert_uint_eq(told.rows, 20);
    ck_assert_uint_eq(c.c.rows, 20);
    skade_close(s);
}
END_TEST

/* What it reads is held for it, whatever is swapped and collected meanwhile. */
START_TEST(a_compaction_goes_on_beside_a_dry_run)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_compact_options o = options();
    struct compactor dry;

    append_numbers(s, t, 0, 10);
    kit_hold("compact.begin");
    o.flags = SKADE_DRY_RUN;
    start_compactor(&dry, t, &o, "first");
    kit_await("compact.begin");
    int held = kit_keep("compact.begin");
    ck_assert_uint_eq(compact(s, t, NULL).rows, 20);
    ck_assert_int_eq(skade_gc(s, t, SKADE_GC_NOW, NULL, NULL), 1);
    ck_assert_uint_eq(kit_files(t), 10 + 2);
    close(held);
    end_compactor(&dry);
    ck_assert_int_eq(dry.result, 0);
    ck_assert_uint_eq(dry.c.rows, 20);
    ck_assert_uint_eq(dry.c.files_before, 10);
    ck_assert_int_eq(skade_gc(s, t, SKADE_GC_NOW, NULL, NULL), 0);
    skade_close(s);
}
END_TEST

/* The progress of a compaction that is cancelled as soon as it is told to. */
static int end_when_told(void *arg, uint64_t done, uint64_t total, uint64_t written)
{
    (void)done, (void)total, (void)written;
    return atomic_load((atomic_int *)arg);
}

/* The daemon holds in the middle of the swap, or behind it. */
START_TEST(a_cancel_during_the_swap_is_too_late_and_says_so)
{
    if (!kit_has_failpoints())
        return;

    static const char *points[] = { "log.commit", "store.settle" };
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_compact_options o = options();
    atomic_int end = 0;
    struct compactor c;

    append_numbers(s, t, 0, 10);
    o.progress = end_when_told;
    o.progress_arg = &end;
    kit_await_settled(t); /* no append comes by there any more */
    kit_hold(points[_i]);
    start_compactor(&c, t, &o, "second");
    kit_await(points[_i]);
    atomic_store(&end, 1);
    await_requests(s, 3); /* HELLO, COMPACT, CANCEL */
    kit_let_go(points[_i]);
    end_compactor(&c);
    ck_assert_msg(c.result == 0, "%s", skade_errname(c.result));
    ck_assert_uint_gt(c.c.seq, 0);
    ck_assert_uint_eq(c.c.rows, 20);
    kit_get(s, t, NULL, "k3", "3");
    skade_close(s);
}
END_TEST

START_TEST(it_goes_on_while_anybody_waits_and_not_longer)
{
    if (!kit_has_failpoints())
        return;

    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_compact_options o = options();
    struct progress p = { .end_after = 1 };
    struct compactor c;

    append_numbers(s, t, 0, 10);
    kit_hold("compact.scanned");
    if (_i == 1)
        o.flags = SKADE_NO_WAIT; /* then nobody has to */
    start_compactor(&c, t, &o, "first");
    kit_await("compact.scanned");
    struct skade_compact_options join = options();
    join.progress = note_progress;
    join.progress_arg = &p;
    ck_assert_int_eq(skade_compact(s, t, &join, NULL), -ECANCELED);
    kit_let_go("compact.scanned");
    end_compactor(&c);
    ck_assert_int_eq(c.result, 0);
    if (_i == 0) {
        ck_assert_uint_eq(c.c.rows, 20);
        ck_assert_uint_gt(c.c.seq, 0);
    }
    kit_await_files(t, 12);
    skade_close(s);
}
END_TEST

/* ---- by a callback ------------------------------------------------------------------------------------------------- */

struct pruning {
    skade *s;
    int seen, end_at, end_with;
    char drop; /* rows whose value begins so */
    int64_t last_time;
};

static int prune(void *arg, const struct skade_row *row)
{
    struct pruning *p = arg;

    ck_assert_uint_eq(row->size, sizeof *row);
    ck_assert_int_ge(row->time_us, p->last_time); /* oldest first */
    ck_assert_int_eq(skade_ping(p->s), -EBUSY);
    p->last_time = row->time_us;
    if (++p->seen == p->end_at)
        return p->end_with;
    return row->value_len == 0 || !row->value || *(const char *)row->value != p->drop;
}

START_TEST(a_callback_decides_row_by_row)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct pruning p = { .s = s, .drop = '-' };
    struct skade_compact_options o = options();

    struct skade_appended old = kit_append(s, t, "a=- =- b=1 =x gone=1");
    kit_append(s, t, "c=2 d=- =y gone! e=");
    o.prune = prune;
    o.prune_arg = &p;
    o.has_drop_before = _i == 1;
    o.drop_before_us = old.time_us + 1;
    o.flags = _i == 2 ? SKADE_DRY_RUN : 0;
    struct skade_compacted c = compact(s, t, &o);
    ck_assert_int_eq(p.seen, _i == 1 ? 4 : 8);
    ck_assert_uint_eq(c.rows, _i == 1 ? 3 : 5);
    ck_assert_uint_eq(c.rows_pruned, _i == 1 ? 5 : 3);
    ck_assert_uint_eq(c.files_before, 2);
    ck_assert_uint_eq(c.sampled, _i == 2);
    static const char *want[] = { "b=1 =x c=2 =y e=", "c=2 =y e=", "a=- =- b=1 =x c=2 d=- =y e=" };
    kit_rows(s, t, NULL, want[_i]);
    kit_append(s, t, "b=3");
    kit_get(s, t, NULL, "b", "3");
    ck_assert_uint_eq(handle_counter(s, "connects"), 1);
    skade_close(s);
}
END_TEST

START_TEST(rows_of_every_length_go_through_a_callback_as_they_are)
{
    static const size_t sizes[] = { 0, 1, 262100, 262144, 900000, 1 << 20, (1 << 20) + 1, 5000000 };
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct pruning p = { .s = s, .drop = '-' };
    struct skade_compact_options o = options();
    char *value = malloc(5000000), *got = malloc(5000000), *key = malloc(65535);
    size_t len;

    memset(key, 'k', 65535);
    for (size_t i = 0; i < 5000000; i++)
        value[i] = (char)('a' + (i * 31 + i / 1000) % 23);
    kit_ok(s, skade_append_begin(s, t, NULL));
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        key[0] = (char)i;
        kit_ok(s, skade_append_put(s, key, 65535, value, sizes[i]));
    }
    kit_ok(s, skade_append_commit(s, NULL));
    o.prune = prune;
    o.prune_arg = &p;
    struct skade_compacted c = compact(s, t, &o);
    ck_assert_uint_eq(c.rows, ARRAY_SIZE(sizes));
    ck_assert_str_ne(c.old_data_dir, "");
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        key[0] = (char)i;
        ck_assert_int_eq(skade_get(s, t, NULL, key, 65535, got, 5000000, &len), 1);
        ck_assert_uint_eq(len, sizes[i]);
        ck_assert_int_eq(memcmp(got, value, len), 0);
    }
    skade_close(s);
    free(value);
    free(got);
    free(key);
}
END_TEST

static int open_and_close_another(void *arg, const struct skade_row *row)
{
    (void)row;
    skade *other = kit_open();
    struct progress p = { .end_after = 1 };
    struct skade_compact_options o = options();

    o.progress = note_progress;
    o.progress_arg = &p;
    /* A joiner who leaves again, or a client that was never there: both are no reason to end it. */
    if (++*(int *)arg % 2)
        ck_assert_int_eq(skade_compact(other, 1, &o, NULL), -ECANCELED);
    skade_close(other);
    return 1;
}

START_TEST(others_come_and_go_while_a_callback_decides)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_compact_options o = options();
    char *value = calloc(1, 300000);
    int calls = 0;

    for (int i = 0; i < 4; i++) { /* each row is more than one message: the daemon knows of the compaction */
        kit_ok(s, skade_append_begin(s, t, NULL));
        kit_ok(s, skade_append_put(s, NULL, 0, value, 300000));
        kit_ok(s, skade_append_commit(s, NULL));
    }
    ck_assert_uint_eq(t, 1);
    o.prune = open_and_close_another;
    o.prune_arg = &calls;
    calls = 1; /* the first time there is nothing to join yet */
    struct skade_compacted c = compact(s, t, &o);
    ck_assert_uint_eq(c.rows, 4);
    ck_assert_uint_gt(c.seq, 0);
    skade_close(s);
    free(value);
}
END_TEST

static int note_compacting(void *arg, const char *name, uint64_t value, const char *unit, const char *kind,
                           const char *help)
{
    (void)unit, (void)kind, (void)help;
    if (strcmp(name, "compacting") == 0)
        *(uint64_t *)arg = value;
    return 0;
}

static uint64_t compacting(skade *s)
{
    uint64_t n = 0;
    kit_ok(s, skade_stats(s, note_compacting, &n));
    return n;
}

struct dropper {
    skade *other;
    bool dropped;
};

/* When the daemon knows of the compaction, drop its table, and go on when the daemon has ended it: no further row comes
 * before. */
static int drop_meanwhile(void *arg, const struct skade_row *row)
{
    struct dropper *d = arg;

    (void)row;
    if (d->dropped || !compacting(d->other))
        return 1;
    kit_ok(d->other, skade_drop(d->other, "t", NULL));
    d->dropped = true;
    while (compacting(d->other))
        poll(NULL, 0, 1);
    return 1;
}

START_TEST(a_callback_whose_table_is_dropped_is_not_waited_for)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_compact_options o = options();
    struct dropper d = { .other = kit_open() };
    char *value = calloc(1, 300000);

    for (int i = 0; i < 4; i++) {
        kit_ok(s, skade_append_begin(s, t, NULL));
        kit_ok(s, skade_append_put(s, NULL, 0, value, 300000));
        kit_ok(s, skade_append_commit(s, NULL));
    }
    o.prune = drop_meanwhile;
    o.prune_arg = &d;
    ck_assert_int_eq(skade_compact(s, t, &o, NULL), SKADE_ECONFLICT);
    ck_assert(d.dropped);
    skade_close(d.other);
    skade_close(s);
    free(value);
}
END_TEST

/* The worker that has a row of it in its hands only sees that it is to end: the caller still hears why. */
START_TEST(a_callback_whose_table_is_dropped_while_a_worker_takes_its_rows_hears_so)
{
    if (!kit_has_failpoints())
        return;

    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_compact_options o = options();
    struct compactor c;
    int seen = 0;

    append_numbers(s, t, 0, 10);
    o.prune = keep_all;
    o.prune_arg = &seen;
    kit_hold("compact.take");
    start_compactor(&c, t, &o, "first");
    kit_await("compact.take");
    kit_ok(s, skade_drop(s, "t", NULL));
    kit_let_go("compact.take");
    end_compactor(&c);
    ck_assert_int_eq(c.result, SKADE_ECONFLICT);
    skade_close(s);
}
END_TEST

START_TEST(a_callback_that_ends_it_changes_nothing)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct pruning p = { .s = s, .end_at = 15, .end_with = -77 };
    struct skade_compact_options o = options();
    struct progress progress = { .end_after = 1 };

    append_numbers(s, t, 0, 10);
    o.prune = prune;
    o.prune_arg = &p;
    if (_i == 1) {
        o.progress = note_progress;
        o.progress_arg = &progress;
    }
    ck_assert_int_eq(skade_compact(s, t, &o, NULL), _i == 1 ? -ECANCELED : -77);
    kit_await_files(t, 10);
    kit_await_no_dir(t, 1);
    ck_assert_uint_eq(handle_counter(s, "connects"), 1);
    kit_get(s, t, NULL, "k3", "3");
    struct skade_compacted c = compact(s, t, NULL);
    ck_assert_uint_eq(c.rows, 20);
    skade_close(s);
}
END_TEST

/* ---- what was left ----------------------------------------------------------------------------------------------- */

struct garbage {
    uint64_t files, bytes;
    skade_table table;
    char name[50], waiting[100];
    int result;
};

static int note_garbage(void *arg, const struct skade_garbage *g)
{
    struct garbage *to = arg;

    to->files += g->files;
    to->bytes += g->bytes;
    to->table = g->table;
    snprintf(to->name, sizeof to->name, "%s", g->name);
    snprintf(to->waiting, sizeof to->waiting, "%s", g->waiting_for);
    ck_assert_int_gt(g->due_us, g->retired_us);
    return to->result;
}

START_TEST(what_waits_to_be_removed_is_told_and_removed_on_demand)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t"), other = kit_table(s, "other");
    struct garbage g = { .result = 0 };

    append_numbers(s, t, 0, 5);
    append_numbers(s, other, 0, 5);
    ck_assert_int_eq(skade_gc(s, 0, 0, note_garbage, &g), 0);
    struct skade_compacted c = compact(s, t, NULL);
    ck_assert_int_eq(skade_gc(s, t, 0, note_garbage, &g), 1);
    ck_assert_uint_eq(g.files, 5);
    ck_assert_uint_eq(g.bytes, c.bytes_before);
    ck_assert_uint_eq(g.table, t);
    ck_assert_str_eq(g.name, "t");
    ck_assert_str_eq(g.waiting, "grace window");
    ck_assert_int_eq(skade_gc(s, other, 0, note_garbage, &g), 0);
    g.result = 7;
    ck_assert_int_eq(skade_gc(s, 0, 0, note_garbage, &g), 7);
    ck_assert_int_eq(skade_gc(s, 0, 2, note_garbage, &g), SKADE_EINPUT);
    ck_assert_int_eq(skade_gc(s, other, SKADE_GC_NOW, note_garbage, &g), 0);
    ck_assert_uint_eq(kit_files(t), 5 + 2);
    ck_assert_int_eq(skade_gc(s, 0, SKADE_GC_NOW, note_garbage, &g), 0);
    ck_assert_uint_eq(kit_files(t), 2);
    ck_assert_uint_eq(kit_files(other), 5);
    skade_close(s);
}
END_TEST

/* ---- a fake daemon: signs of life, broken connections ------------------------------------------------------------- */

struct script {
    int progress; /* PROGRESS messages before the answer; < 0: none, and no answer */
    int lose;     /* COMPACTs that are hung up on after their PROGRESS */
    bool late;    /* the answer comes when it is cancelled, just before the DONE */
    bool rude;    /* hangs up when it is cancelled */
    struct uuid uuid[2];
};

static void put_progress(struct wr *out, uint64_t request, uint64_t done)
{
    size_t at = frame_begin(out);
    wire_put_progress(out, &(struct msg_progress){ .rows_done = done, .rows_total = 100 });
    frame_end(out, at, WIRE_PROGRESS, FRAME_MORE, request);
}

static void put_compacted(struct wr *out, uint64_t request)
{
    size_t at = frame_begin(out);
    wire_put_compacted(out, &(struct msg_compacted){ .seq = 55, .old_data_dir = { "/x", 2 } });
    frame_end(out, at, WIRE_COMPACTED, 0, request);
}

static enum fake_verdict play(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                              struct wr *out)
{
    struct script *script = f->arg;
    struct msg_compact m;
    struct msg_cancel cancel;

    if (h->type == WIRE_COMPACT) {
        ck_assert_int_eq(wire_read_compact(payload, h->len, &m), 0);
        script->uuid[f->seen[WIRE_COMPACT] != 0] = m.uuid;
        for (int i = 0; i < script->progress; i++)
            put_progress(out, h->request, (uint64_t)i);
        if (script->lose-- > 0)
            return FAKE_CLOSE;
        if (script->progress < 0 || script->late)
            return FAKE_SENT;
        put_compacted(out, h->request);
        return FAKE_SENT;
    }
    if (h->type != WIRE_CANCEL)
        return FAKE_DEFAULT;
    ck_assert_int_eq(wire_read_cancel(payload, h->len, &cancel), 0);
    if (script->rude)
        return FAKE_CLOSE;
    put_progress(out, cancel.request, 99);
    if (script->late)
        put_compacted(out, cancel.request);
    fake_frame(out, WIRE_DONE, 0, cancel.request, NULL, 0);
    return FAKE_SENT;
}

static struct world *one_table(void)
{
    struct world *w = world_make();
    world_create(w, "t");
    return w;
}

START_TEST(progress_is_told_message_by_message)
{
    struct script script = { .progress = 5 };
    struct fake *f = fake_start(one_table(), play, &script);
    skade *s = world_open(f->world, 0);
    struct progress p = { .end_after = 1000 };
    struct skade_compact_options o = options();

    o.progress = note_progress;
    o.progress_arg = &p;
    struct skade_compacted c = compact(s, 1, &o);
    ck_assert_uint_eq(c.seq, 55);
    ck_assert_str_eq(c.old_data_dir, "/x");
    ck_assert_int_ge(p.calls, 5);
    ck_assert_uint_eq(p.total, 100);
    ck_assert_int_ge(skade_ping(s), 0);
    ck_assert_uint_eq(f->connections, 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(to_cancel_takes_no_word_from_the_daemon)
{
    struct script script = { .progress = _i == 0 ? 2 : -1 };
    struct fake *f = fake_start(one_table(), play, &script);
    skade *s = world_open(f->world, 0);
    struct progress p = { .end_after = 1 };
    struct skade_compact_options o = options();

    script.late = _i == 0;
    o.progress = note_progress;
    o.progress_arg = &p;
    /* An answer that was already on its way counts. */
    ck_assert_int_eq(skade_compact(s, 1, &o, NULL), _i == 0 ? 0 : -ECANCELED);
    ck_assert_int_eq(p.calls, 1);
    ck_assert_uint_eq(f->seen[WIRE_CANCEL], 1);
    ck_assert_int_ge(skade_ping(s), 0); /* on the same connection: nothing is left on it */
    ck_assert_uint_eq(f->connections, 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(without_an_answer_to_the_cancel_nobody_knows)
{
    struct script script = { .progress = 1, .late = true, .rude = true };
    struct fake *f = fake_start(one_table(), play, &script);
    skade *s = world_open(f->world, 0);
    struct progress p = { .end_after = 1 };
    struct skade_compact_options o = options();

    o.progress = note_progress;
    o.progress_arg = &p;
    ck_assert_int_eq(skade_compact(s, 1, &o, NULL), SKADE_EUNKNOWN);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "history"));
    ck_assert_uint_eq(f->seen[WIRE_COMPACT], 1); /* and it isn't asked for again */
    ck_assert_int_ge(skade_ping(s), 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_compaction_is_asked_for_again_with_its_uuid)
{
    struct script script = { .progress = 3, .lose = 2 };
    struct fake *f = fake_start(one_table(), play, &script);
    skade *s = world_open(f->world, 0);

    struct skade_compacted c = compact(s, 1, NULL);
    ck_assert_uint_eq(c.seq, 55);
    ck_assert_uint_eq(f->connections, 3);
    ck_assert(!uuid_is_zero(&script.uuid[0]) && uuid_equal(&script.uuid[0], &script.uuid[1]));
    skade_close(s);
    fake_stop(f);
}
END_TEST

static enum fake_verdict leave(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                               struct wr *out)
{
    if (h->type != WIRE_COMPACT)
        return play(f, h, payload, out);
    close(f->listening);
    f->listening = -1;
    return FAKE_CLOSE;
}

START_TEST(a_compaction_whose_daemon_never_comes_back_is_unknown)
{
    struct script script = { .progress = 0 };
    struct fake *f = fake_start(one_table(), leave, &script);
    skade *s = world_open_impatient(f->world, 300);

    ck_assert_int_eq(skade_compact(s, 1, NULL, NULL), SKADE_EUNKNOWN);
    ck_assert_int_eq(skade_compact(s, 1, NULL, NULL), SKADE_EUNREACHABLE); /* this one was never sent */
    skade_close(s);
    fake_stop(f);
}
END_TEST

static void *beat(void *arg)
{
    struct fake *f = arg;
    while (f->seen[WIRE_CANCEL] == 0) {
        world_beat(f->world);
        sched_yield();
    }
    return NULL;
}

struct stamina {
    skade *s;
    uint64_t deadlines;
};

/* Ends it when the deadline was renewed often enough: only heartbeats do that here. */
static int end_after_renewals(void *arg, uint64_t done, uint64_t total, uint64_t written)
{
    struct stamina *p = arg;

    (void)done, (void)total, (void)written;
    return p->s->deadlines > p->deadlines + 3;
}

START_TEST(heartbeats_are_signs_of_life)
{
    struct script script = { .progress = -1 };
    struct world *w = one_table();
    world_new_page(w);
    world_publish(w);
    struct fake *f = fake_start(w, play, &script);
    skade *s = world_open_impatient(w, 1500);
    struct stamina stamina = { s, s->deadlines };
    struct skade_compact_options o = options();
    pthread_t thread;

    o.progress = end_after_renewals;
    o.progress_arg = &stamina;
    ck_assert_int_eq(pthread_create(&thread, NULL, beat, f), 0);
    ck_assert_int_eq(skade_compact(s, 1, &o, NULL), -ECANCELED);
    pthread_join(thread, NULL);
    ck_assert_int_eq(skade_compact(s, 1, NULL, NULL), SKADE_ETIMEOUT); /* now its heart stands still */
    skade_close(s);
    fake_stop(f);
}
END_TEST

Suite *client_compact_suite(void);
Suite *client_compact_suite(void)
{
    Suite *suite = suite_create("client_compact");
    TCase *real = tcase_create("real"), *fake = tcase_create("fake");

    if (kit_fixture(real)) {
        tcase_add_test(real, a_compaction_keeps_the_rows_and_expires_the_snapshots_before);
        tcase_add_loop_test(real, rules_drop_rows, 0, 8);
        tcase_add_test(real, a_dry_run_changes_nothing);
        tcase_add_test(real, a_dry_run_needs_no_disk);
        tcase_add_test(real, a_compaction_is_cancelled_in_the_middle_of_a_row);
        tcase_add_test(real, a_dry_run_goes_on_beside_a_compaction);
        tcase_add_test(real, a_compaction_goes_on_beside_a_dry_run);
        tcase_add_test(real, the_same_uuid_gets_the_same_compaction);
        tcase_add_test(real, what_no_compaction_can_be_is_refused);
        tcase_add_loop_test(real, a_second_caller_joins_and_commits_go_on_meanwhile, 0, 2);
        tcase_add_test(real, a_cancelled_compaction_changes_nothing);
        tcase_add_loop_test(real, a_cancel_during_the_swap_is_too_late_and_says_so, 0, 2);
        tcase_add_loop_test(real, it_goes_on_while_anybody_waits_and_not_longer, 0, 2);
        tcase_add_loop_test(real, a_callback_decides_row_by_row, 0, 3);
        tcase_add_test(real, rows_of_every_length_go_through_a_callback_as_they_are);
        tcase_add_test(real, others_come_and_go_while_a_callback_decides);
        tcase_add_loop_test(real, bytes_before_and_after_are_those_on_disk, 0, 2);
        tcase_add_loop_test(real, a_compaction_that_came_to_nothing_leaves_no_directory, 0, 4);
        tcase_add_test(real, a_callback_whose_table_is_dropped_is_not_waited_for);
        tcase_add_test(real, a_callback_whose_table_is_dropped_while_a_worker_takes_its_rows_hears_so);
        tcase_add_loop_test(real, a_callback_that_ends_it_changes_nothing, 0, 2);
        tcase_add_test(real, what_waits_to_be_removed_is_told_and_removed_on_demand);
        suite_add_tcase(suite, real);
    }
    tcase_set_timeout(fake, 120);
    tcase_add_test(fake, progress_is_told_message_by_message);
    tcase_add_loop_test(fake, to_cancel_takes_no_word_from_the_daemon, 0, 2);
    tcase_add_test(fake, without_an_answer_to_the_cancel_nobody_knows);
    tcase_add_test(fake, a_compaction_is_asked_for_again_with_its_uuid);
    tcase_add_test(fake, a_compaction_whose_daemon_never_comes_back_is_unknown);
    tcase_add_test(fake, heartbeats_are_signs_of_life);
    suite_add_tcase(suite, fake);
    return suite;
}
