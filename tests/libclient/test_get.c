/*
 * The value of a key: right at every snapshot, and little is asked when little has changed.
 */
#include "client.h"
#include "rows_kit.h"
#include "world.h"

#include "tools/cli_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static struct skade_scan_options at_snapshot(int64_t id)
{
    return (struct skade_scan_options){ .size = sizeof(struct skade_scan_options),
                                        .by = SKADE_AT_SNAPSHOT,
                                        .value = id };
}

START_TEST(a_key_is_found_at_each_snapshot_as_it_was_then)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    skade_view *v;

    kit_get(s, t, NULL, "k", NULL); /* no commit yet */
    struct skade_appended a = kit_append(s, t, "k=1 other=0");
    kit_get(s, t, NULL, "k", "1");
    kit_ok(s, skade_view_open(s, &v));
    struct skade_appended b = kit_append(s, t, "k=2 k=3");
    kit_get(s, t, NULL, "k", "3");
    struct skade_appended c = kit_append(s, t, "k!");
    kit_get(s, t, NULL, "k", NULL);
    kit_append(s, t, "k=");
    kit_get(s, t, NULL, "k", ""); /* empty is not deleted */
    struct skade_scan_options o = at_snapshot(a.snapshot);
    kit_get(s, t, &o, "k", "1");
    o = at_snapshot(b.snapshot);
    kit_get(s, t, &o, "k", "3");
    o = at_snapshot(c.snapshot);
    kit_get(s, t, &o, "k", NULL);
    kit_get(s, t, &o, "other", "0");
    o = (struct skade_scan_options){ .size = sizeof o, .view = v };
    kit_get(s, t, &o, "k", "1");
    kit_get(s, t, NULL, "k", "");
    skade_view_close(v);
    skade_close(s);
}
END_TEST

START_TEST(a_value_that_does_not_fit_says_how_long_it_is)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    char *value = malloc(3000000), *got = malloc(3000000);
    size_t len = 0, sizes[] = { 10, 1 << 20, (1 << 20) + 1, 3000000 };

    for (size_t i = 0; i < 3000000; i++)
        value[i] = (char)(i * 7 + i / 251);
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        kit_ok(s, skade_append_begin(s, t, NULL));
        kit_ok(s, skade_append_put(s, "k", 1, value, sizes[i]));
        kit_ok(s, skade_append_commit(s, NULL));
        ck_assert_int_eq(skade_get(s, t, NULL, "k", 1, got, sizes[i], &len), 1);
        ck_assert_uint_eq(len, sizes[i]);
        ck_assert_int_eq(memcmp(got, value, len), 0);
        memset(got, 0, 10);
        ck_assert_int_eq(skade_get(s, t, NULL, "k", 1, got, 9, &len), -ERANGE);
        ck_assert_uint_eq(len, sizes[i]);
        ck_assert_int_eq(memcmp(got, value, 9), 0);
        ck_assert_int_eq(got[9], 0);
        ck_assert_int_eq(skade_get(s, t, NULL, "k", 1, NULL, 0, &len), -ERANGE);
    }
    ck_assert_int_eq(skade_get(s, t, NULL, NULL, 0, NULL, 0, &len), SKADE_EINPUT);
    skade_close(s);
    free(value);
    free(got);
}
END_TEST

START_TEST(while_nothing_happens_nothing_is_asked)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t"), other = kit_table(s, "other");

    kit_append(s, t, "k=1");
    kit_get(s, t, NULL, "k", "1");
    kit_get(s, t, NULL, "x", NULL);
    uint64_t before = handle_counter(s, "requests");
    for (int i = 0; i < 10; i++)
        kit_get(s, t, NULL, i % 2 ? "k" : "x", i % 2 ? "1" : NULL);
    ck_assert_uint_eq(handle_counter(s, "requests"), before);
    kit_append(s, other, "k=2");
    before = handle_counter(s, "requests");
    kit_get(s, t, NULL, "k", "1"); /* something happened, elsewhere: one question, and the old lease goes */
    ck_assert_uint_eq(handle_counter(s, "requests"), before + 2);
    kit_get(s, t, NULL, "k", "1");
    ck_assert_uint_eq(handle_counter(s, "requests"), before + 2);
    skade_close(s);
}
END_TEST

START_TEST(without_shared_memory_it_asks_and_is_as_right)
{
    struct skade_options o = { .size = sizeof o, .flags = SKADE_NO_SHM, .timeout_ms = 20000 };
    skade *s, *writer = kit_open();
    skade_table t = kit_table(writer, "t");
    char word[20];

    ck_assert_int_eq(skade_open(&s, &o), 0);
    for (int i = 0; i < 20; i++) {
        snprintf(word, sizeof word, "k=%d", i);
        kit_append(writer, t, word);
        kit_get(s, t, NULL, "k", word + 2);
        kit_get(s, t, NULL, "k", word + 2);
    }
    skade_close(s);
    skade_close(writer);
}
END_TEST

START_TEST(what_another_handle_does_is_seen_at_once)
{
    skade *s = kit_open(), *other = kit_open();
    skade_table t = kit_table(s, "t");
    char word[20];

    for (int i = 0; i < 100; i++) {
        snprintf(word, sizeof word, i % 3 == 2 ? "k!" : "k=%d", i);
        kit_append(other, t, word);
        kit_get(s, t, NULL, "k", i % 3 == 2 ? NULL : word + 2);
        if (i % 20 == 19)
            kit_ok(other, skade_compact(other, t, NULL, NULL));
        kit_get(s, t, NULL, "k", i % 3 == 2 ? NULL : word + 2);
    }
    skade_close(s);
    skade_close(other);
}
END_TEST

START_TEST(a_compaction_expires_old_snapshots_for_gets_and_keeps_the_rows)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");

    struct skade_appended a = kit_append(s, t, "k=1 gone=1");
    kit_append(s, t, "k=2 gone!");
    struct skade_scan_options o = at_snapshot(a.snapshot);
    kit_get(s, t, &o, "k", "1");
    kit_ok(s, skade_compact(s, t, NULL, NULL));
    char value[10];
    size_t len;
    ck_assert_int_eq(skade_get(s, t, &o, "k", 1, value, sizeof value, &len), SKADE_EEXPIRED);
    kit_get(s, t, NULL, "k", "2");
    kit_get(s, t, NULL, "gone", NULL);
    ck_assert_int_eq(skade_gc(s, t, SKADE_GC_NOW, NULL, NULL),
                     0); /* the gets of before hold nothing any more */
    kit_append(s, t, "gone=3");
    kit_get(s, t, NULL, "gone", "3");
    kit_get(s, t, NULL, "k", "2");
    skade_close(s);
}
END_TEST

/* Of a table that is compacted now and then, what one get of long ago had to do with goes, too. */
START_TEST(a_get_of_an_old_moment_does_not_keep_files_for_ever)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_scan_options o = { .size = sizeof o };
    skade_view *v;

    struct skade_appended a = kit_append(s, t, "k=1");
    kit_ok(s, skade_view_open(s, &v));
    if (_i == 0) {
        o = at_snapshot(a.snapshot);
    } else if (_i == 1) {
        o.as_of = a.seq;
    } else {
        o.view = v;
    }
    kit_get(s, t, &o, "k", "1");
    kit_append(s, t, "k=2");
    kit_get(s, t, NULL, "k", "2");
    kit_get(s, t, &o, "k", "1");
    kit_ok(s, skade_compact(s, t, NULL, NULL));
    kit_get(s, t, NULL, "k", "2");
    ck_assert_int_eq(skade_gc(s, t, 0, NULL, NULL), 1);
    skade_view_close(v);
    ck_assert_int_eq(skade_gc(s, t, SKADE_GC_NOW, NULL, NULL), 0);
    skade_close(s);
}
END_TEST

START_TEST(more_tables_than_are_remembered_are_answered_all_the_same)
{
    enum { TABLES = 20 };
    skade *s = kit_open();
    skade_table t[TABLES];
    char text[20];

    for (int i = 0; i < TABLES; i++) {
        snprintf(text, sizeof text, "t%d", i);
        t[i] = kit_table(s, text);
        snprintf(text, sizeof text, "k=%d", i);
        kit_append(s, t[i], text);
    }
    for (int i = 0; i < 3 * TABLES; i++) {
        snprintf(text, sizeof text, "%d", i % TABLES);
        kit_get(s, t[i % TABLES], NULL, "k", text);
    }
    skade_quiesce(s);
    kit_get(s, t[3], NULL, "k", "3");
    skade_close(s);
}
END_TEST

START_TEST(a_lost_connection_is_only_a_slower_get)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");

    kit_append(s, t, "k=1");
    kit_get(s, t, NULL, "k", "1");
    if (_i == 0) {
        shutdown(s->stream.fd, 2);
    } else {
        cli_stop_daemon();
        cli_start_daemon();
    }
    kit_get(s, t, NULL, "k", "1");
    kit_append(s, t, "k=2");
    kit_get(s, t, NULL, "k", "2");
    ck_assert_uint_eq(handle_counter(s, "connects"), 2);
    skade_close(s);
}
END_TEST

START_TEST(a_key_is_the_whole_key)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");

    kit_append(s, t, "a=1 ab=2 abc=3 =4");
    kit_get(s, t, NULL, "ab", "2");
    kit_get(s, t, NULL, "abcd", NULL);
    kit_get(s, t, NULL, "", NULL); /* the empty key isn't no key */
    kit_ok(s, skade_append_begin(s, t, NULL));
    kit_ok(s, skade_append_put(s, "", 0, "5", 1));
    kit_ok(s, skade_append_commit(s, NULL));
    kit_get(s, t, NULL, "", "5");
    skade_close(s);
}
END_TEST

Suite *client_get_suite(void);
Suite *client_get_suite(void)
{
    Suite *suite = suite_create("client_get");
    TCase *t = tcase_create("get");

    if (kit_fixture(t)) {
        tcase_add_test(t, a_key_is_found_at_each_snapshot_as_it_was_then);
        tcase_add_test(t, a_value_that_does_not_fit_says_how_long_it_is);
        tcase_add_test(t, while_nothing_happens_nothing_is_asked);
        tcase_add_test(t, without_shared_memory_it_asks_and_is_as_right);
        tcase_add_test(t, what_another_handle_does_is_seen_at_once);
        tcase_add_test(t, a_compaction_expires_old_snapshots_for_gets_and_keeps_the_rows);
        tcase_add_loop_test(t, a_get_of_an_old_moment_does_not_keep_files_for_ever, 0, 3);
        tcase_add_test(t, more_tables_than_are_remembered_are_answered_all_the_same);
        tcase_add_loop_test(t, a_lost_connection_is_only_a_slower_get, 0, 2);
        tcase_add_test(t, a_key_is_the_whole_key);
        suite_add_tcase(suite, t);
    }
    return suite;
}
