/*
 * Rows out: at any snapshot, by one cursor or by many, in threads, and held as long as the scan is open.
 */
#include "client.h"
#include "rows_kit.h"
#include "world.h"

#include "tools/cli_run.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static struct skade_scan_options at(uint32_t by, int64_t value)
{
    return (struct skade_scan_options){ .size = sizeof(struct skade_scan_options), .by = by, .value = value };
}

START_TEST(a_scan_is_of_a_snapshot_a_time_a_commit_or_a_view)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    skade_view *v;

    struct skade_scan_options o = at(SKADE_AT_HEAD, 12345); /* no value is needed */
    kit_rows(s, t, &o, "");
    struct skade_appended a = kit_append(s, t, "a=1 =x");
    kit_ok(s, skade_view_open(s, &v));
    struct skade_appended b = kit_append(s, t, "a=2 b=2");
    struct skade_appended c = kit_append(s, t, "a! =y");
    kit_rows(s, t, NULL, "=x b=2 =y");
    o = at(SKADE_AT_SNAPSHOT, a.snapshot);
    kit_rows(s, t, &o, "a=1 =x");
    o = at(SKADE_AT_SNAPSHOT, b.snapshot);
    kit_rows(s, t, &o, "=x a=2 b=2");
    o = at(SKADE_AT_TIME, b.time_us);
    kit_rows(s, t, &o, "=x a=2 b=2");
    o = at(SKADE_AT_TIME, c.time_us - 1);
    kit_rows(s, t, &o, "=x a=2 b=2");
    o = at(SKADE_AT_SEQ, (int64_t)a.seq);
    kit_rows(s, t, &o, "a=1 =x");
    o = at(SKADE_AT_HEAD, 0);
    o.view = v;
    kit_rows(s, t, &o, "a=1 =x");
    skade_view_close(v);
    skade_close(s);
}
END_TEST

START_TEST(what_is_no_snapshot_is_refused_by_name)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    skade_scan *scan;
    skade_view *v;

    kit_ok(s, skade_view_open(s, &v));
    struct skade_appended a = kit_append(s, t, "a=1");
    struct skade_scan_options o = at(SKADE_AT_SNAPSHOT, a.snapshot + 1);
    ck_assert_int_eq(skade_scan_open(s, t, &o, &scan), SKADE_ENOSNAPSHOT);
    o = at(SKADE_AT_SNAPSHOT, a.snapshot);
    o.view = v;
    ck_assert_int_eq(skade_scan_open(s, t, &o, &scan), SKADE_ENOSNAPSHOT);
    o = at(SKADE_AT_TIME, a.time_us - 1);
    ck_assert_int_eq(skade_scan_open(s, t, &o, &scan), SKADE_ENOSNAPSHOT);
    o = at(SKADE_AT_SEQ, 1);
    ck_assert_int_eq(skade_scan_open(s, t, &o, &scan), SKADE_ENOSNAPSHOT);
    o = at(4, 0);
    ck_assert_int_eq(skade_scan_open(s, t, &o, &scan), SKADE_EINPUT);
    o.size = 8;
    ck_assert_int_eq(skade_scan_open(s, t, &o, &scan), SKADE_EINPUT);
    kit_append(s, t, "a=2");
    kit_ok(s, skade_expire_snapshot(s, t, a.snapshot, NULL));
    o = at(SKADE_AT_SNAPSHOT, a.snapshot);
    ck_assert_int_eq(skade_scan_open(s, t, &o, &scan), SKADE_EEXPIRED);
    kit_rows(s, t, NULL, "a=2");
    skade_view_close(v);
    skade_close(s);
}
END_TEST

START_TEST(a_scan_says_what_it_is_of)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    skade_scan *scan;
    struct skade_scan_info info = { .size = sizeof info };

    kit_append(s, t, "a=1 b=1 =x");
    struct skade_appended last = kit_append(s, t, "a=2 b!");
    kit_ok(s, skade_scan_open(s, t, NULL, &scan));
    ck_assert_int_eq(skade_scan_info(scan, &info), 0);
    ck_assert_uint_eq(info.table, t);
    ck_assert_int_eq(info.snapshot, last.snapshot);
    ck_assert_uint_eq(info.seq, last.seq);
    ck_assert_int_eq(info.time_us, last.time_us);
    ck_assert_uint_eq(info.rows, 2);
    ck_assert_uint_eq(info.entries, 5);
    ck_assert_uint_eq(info.files, 2);
    ck_assert_uint_gt(info.bytes, info.raw_bytes);
    info.size = 4;
    ck_assert_int_eq(skade_scan_info(scan, &info), SKADE_EINPUT);
    skade_scan_close(scan);
    skade_scan_close(NULL);
    skade_close(s);
}
END_TEST

START_TEST(a_row_says_its_commits_time_and_whether_it_has_a_key)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_row row = { .size = sizeof row };
    skade_scan *scan;
    skade_cursor *c;

    struct skade_appended a = kit_append(s, t, "k=v");
    struct skade_appended b = kit_append(s, t, "=w");
    kit_ok(s, skade_scan_open(s, t, NULL, &scan));
    ck_assert_int_eq(skade_cursor_open(scan, 0, 0, 1, &c), 0); /* newest first */
    char none[1];
    ck_assert_int_eq(skade_cursor_read(c, 0, none, 1), SKADE_EINPUT);
    ck_assert_int_eq(skade_cursor_next(c, &row), 1);
    ck_assert_uint_eq(row.has_key, 0);
    ck_assert_int_eq(row.time_us, b.time_us);
    ck_assert_uint_eq(row.size, sizeof row);
    ck_assert_int_eq(skade_cursor_next(c, &row), 1);
    ck_assert_uint_eq(row.has_key, 1);
    ck_assert_int_eq(row.time_us, a.time_us);
    ck_assert_int_eq(skade_cursor_read(c, 0, none, 1), 0);
    ck_assert_int_eq(none[0], 'v');
    ck_assert_int_eq(skade_cursor_next(c, &row), 0);
    ck_assert_int_eq(skade_cursor_next(c, &row), 0);
    ck_assert_int_eq(skade_cursor_read(c, 0, none, 1), SKADE_EINPUT);
    skade_cursor_close(c);
    skade_cursor_close(NULL);
    ck_assert_int_eq(skade_cursor_open(scan, 0, 1, 1, &c), SKADE_EINPUT);
    ck_assert_int_eq(skade_cursor_open(scan, 2, 0, 1, &c), SKADE_EINPUT);
    skade_scan_close(scan);
    skade_close(s);
}
END_TEST

/* ---- many cursors ------------------------------------------------------------------------------------------------ */

/* COMMITS commits of ten rows: keys that come again, keys that go, rows without. */
static void make_rows(skade *s, skade_table t, int commits)
{
    char text[1000];

    for (int i = 0; i < commits; i++) {
        int len = 0;
        for (int k = 0; k < 7; k++)
            len += sprintf(text + len, "k%d=%d.%d ", (i * 3 + k) % 97, i, k);
        sprintf(text + len, "=%d k%d! k%d!", i, i % 97, (i * 5) % 97);
        kit_append(s, t, text);
    }
}

struct work {
    skade_scan *scan;
    unsigned flags, part, parts;
    char *text;
    pthread_t thread;
};

static void *scan_part(void *arg)
{
    struct work *w = arg;
    w->text = kit_part(w->scan, w->flags, w->part, w->parts);
    return NULL;
}

START_TEST(cursors_in_threads_are_together_what_one_cursor_is)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    skade_scan *scan;
    struct work work[7];

    make_rows(s, t, 60);
    kit_ok(s, skade_scan_open(s, t, NULL, &scan));
    for (unsigned flags = 0; flags <= SKADE_OLDEST_FIRST; flags++) {
        char *whole = kit_part(scan, flags, 0, 1), *together = calloc(1, strlen(whole) + 1);
        ck_assert_uint_gt(strlen(whole), 500);
        for (unsigned i = 0; i < 7; i++) {
            work[i] = (struct work){ .scan = scan, .flags = flags, .part = i, .parts = 7 };
            ck_assert_int_eq(pthread_create(&work[i].thread, NULL, scan_part, &work[i]), 0);
        }
        kit_append(s, t, "meanwhile=1"); /* the handle is free for others */
        for (unsigned i = 0; i < 7; i++) {
            pthread_join(work[i].thread, NULL);
            ck_assert_uint_le(strlen(together) + strlen(work[i].text), strlen(whole));
            strcat(together, work[i].text);
            free(work[i].text);
        }
        ck_assert_str_eq(together, whole);
        free(together);
        free(whole);
    }
    skade_scan_close(scan);
    skade_close(s);
}
END_TEST

START_TEST(files_come_in_pages_and_in_order)
{
    enum { COMMITS = 1100 }; /* a page has a thousand */
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    char *want = calloc(COMMITS, 8);

    for (int i = 0, len = 0; i < COMMITS; i++) {
        char word[8];
        snprintf(word, sizeof word, "=%d", i);
        kit_append(s, t, word);
        len += sprintf(want + len, "%s%s", i ? " " : "", word);
    }
    kit_rows(s, t, NULL, want);
    free(want);
    skade_close(s);
}
END_TEST

START_TEST(little_memory_gives_the_same_rows)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_scan_options o = at(SKADE_AT_HEAD, 0);
    skade_scan *a, *b;

    make_rows(s, t, 60);
    o.memory = 1;
    o.temp_dir = cli_dir();
    kit_ok(s, skade_scan_open(s, t, NULL, &a));
    kit_ok(s, skade_scan_open(s, t, &o, &b));
    char *want = kit_part(a, 0, 0, 1), *got = kit_part(b, 0, 0, 1);
    ck_assert_str_eq(got, want);
    free(want);
    free(got);
    skade_scan_close(a);
    skade_scan_close(b);
    skade_close(s);
}
END_TEST

/* ---- leases ------------------------------------------------------------------------------------------------------- */

START_TEST(an_open_scan_keeps_its_files_from_the_collector)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    skade_scan *scan;

    kit_append(s, t, "a=1 b=1");
    kit_append(s, t, "a=2");
    kit_ok(s, skade_scan_open(s, t, NULL, &scan));
    kit_ok(s, skade_compact(s, t, NULL, NULL));
    ck_assert_int_eq(skade_gc(s, t, SKADE_GC_NOW, NULL, NULL), 1);
    char *text = kit_part(scan, SKADE_OLDEST_FIRST, 0, 1);
    ck_assert_str_eq(text, " b=1 a=2");
    free(text);
    ck_assert_uint_eq(kit_files(t), 4);
    skade_scan_close(scan);
    ck_assert_int_eq(skade_gc(s, t, SKADE_GC_NOW, NULL, NULL), 0);
    ck_assert_uint_eq(kit_files(t), 2);
    kit_rows(s, t, NULL, "b=1 a=2");
    ck_assert_uint_eq(handle_counter(s, "connects"), 1);
    skade_close(s);
}
END_TEST

START_TEST(a_scan_whose_connection_is_lost_reads_on_until_its_files_go)
{
    skade *s = kit_open(), *other = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_row row = { .size = sizeof row };
    skade_scan *scan;
    skade_cursor *c;

    kit_append(s, t, "a=1");
    kit_ok(s, skade_scan_open(s, t, NULL, &scan));
    shutdown(s->stream.fd, 2);
    char *text = kit_part(scan, 0, 0, 1);
    ck_assert_str_eq(text, " a=1");
    free(text);
    kit_ok(other, skade_compact(other, t, NULL, NULL));
    while (skade_gc(other, t, SKADE_GC_NOW, NULL, NULL) > 0) /* the daemon may not have noticed yet */
        ;
    ck_assert_int_eq(skade_cursor_open(scan, 0, 0, 1, &c), 0);
    ck_assert_int_eq(skade_cursor_next(c, &row), SKADE_EEXPIRED);
    ck_assert_ptr_nonnull(strstr(skade_cursor_errmsg(c), ".entries is gone"));
    skade_cursor_close(c);
    skade_scan_close(scan);
    kit_rows(s, t, NULL, "a=1");
    skade_close(s);
    skade_close(other);
}
END_TEST

START_TEST(a_dropped_table_is_read_on_by_whoever_has_it_open)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    skade_scan *scan, *none;

    kit_append(s, t, "a=1");
    kit_ok(s, skade_scan_open(s, t, NULL, &scan));
    kit_ok(s, skade_drop(s, "t", NULL));
    ck_assert_int_eq(skade_scan_open(s, t, NULL, &none), SKADE_ENOTABLE);
    ck_assert_int_eq(skade_gc(s, 0, SKADE_GC_NOW, NULL, NULL), 1);
    char *text = kit_part(scan, 0, 0, 1);
    ck_assert_str_eq(text, " a=1");
    free(text);
    skade_scan_close(scan);
    ck_assert_int_eq(skade_gc(s, 0, SKADE_GC_NOW, NULL, NULL), 0);
    ck_assert_uint_eq(kit_files(t), 0);
    skade_close(s);
}
END_TEST

START_TEST(a_restart_of_the_daemon_is_not_noticed_between_scans)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    skade_scan *scan;

    kit_append(s, t, "a=1");
    kit_ok(s, skade_scan_open(s, t, NULL, &scan));
    cli_stop_daemon();
    cli_start_daemon();
    skade_scan_close(scan);
    kit_rows(s, t, NULL, "a=1");
    kit_append(s, t, "b=1");
    kit_rows(s, t, NULL, "a=1 b=1");
    skade_close(s);
}
END_TEST

Suite *client_scan_suite(void);
Suite *client_scan_suite(void)
{
    Suite *suite = suite_create("client_scan");
    TCase *t = tcase_create("scan");

    if (kit_fixture(t)) {
        tcase_add_test(t, a_scan_is_of_a_snapshot_a_time_a_commit_or_a_view);
        tcase_add_test(t, what_is_no_snapshot_is_refused_by_name);
        tcase_add_test(t, a_scan_says_what_it_is_of);
        tcase_add_test(t, a_row_says_its_commits_time_and_whether_it_has_a_key);
        tcase_add_test(t, cursors_in_threads_are_together_what_one_cursor_is);
        tcase_add_test(t, files_come_in_pages_and_in_order);
        tcase_add_test(t, little_memory_gives_the_same_rows);
        tcase_add_test(t, an_open_scan_keeps_its_files_from_the_collector);
        tcase_add_test(t, a_scan_whose_connection_is_lost_reads_on_until_its_files_go);
        tcase_add_test(t, a_dropped_table_is_read_on_by_whoever_has_it_open);
        tcase_add_test(t, a_restart_of_the_daemon_is_not_noticed_between_scans);
        suite_add_tcase(suite, t);
    }
    return suite;
}
