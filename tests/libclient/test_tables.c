/*
 * Stored tables as programs see them, over whole lives: what is kept through appends, compactions of every kind,
 * collections and restarts, and what handles that were opened before all that see of it.
 */
#include "client.h"
#include "rows_kit.h"

#include "tools/cli_run.h"

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

static int keep_all(void *arg, const struct skade_row *row)
{
    (void)arg, (void)row;
    return 1;
}

/* By the daemon, or row by row through here. */
static struct skade_compacted compact_some_way(skade *s, skade_table t, bool by_callback)
{
    struct skade_compact_options o = options();

    o.prune = by_callback ? keep_all : NULL;
    return compact(s, t, &o);
}

static void collect(skade *s)
{
    int64_t r = skade_gc(s, 0, SKADE_GC_NOW, NULL, NULL);
    kit_ok(s, r);
    ck_assert_int_eq(r, 0);
}

static char *rows(skade *s, skade_table t, unsigned flags)
{
    skade_scan *scan;

    kit_ok(s, skade_scan_open(s, t, NULL, &scan));
    char *text = kit_part(scan, flags, 0, 1);
    skade_scan_close(scan);
    return text;
}

/* ---- handles from before ------------------------------------------------------------------------------------------- */

/* An append that was begun, and half sent, before the table was compacted and its old files were removed. */
START_TEST(an_append_begun_before_a_compaction_lands_in_the_compacted_table)
{
    skade *writer = kit_open(), *s = kit_open();
    skade_table t = kit_table(s, "t");

    kit_append(writer, t, "a=1 b=1 =x");
    kit_append(writer, t, "a=2");
    kit_ok(writer, skade_append_begin(writer, t, NULL));
    kit_ok(writer, skade_append_put(writer, "b", 1, "late", 4));
    ck_assert_uint_gt(compact_some_way(s, t, _i == 1).seq, 0);
    collect(s);
    kit_ok(writer, skade_append_put(writer, NULL, 0, "late", 4));
    kit_ok(writer, skade_append_commit(writer, NULL));
    kit_rows(s, t, NULL, "=x a=2 b=late =late");
    kit_rows(writer, t, NULL, "=x a=2 b=late =late");
    kit_append(writer, t, "c=3"); /* and again, all on the handle from before */
    compact_some_way(s, t, _i == 1);
    collect(s);
    kit_append(writer, t, "a!");
    kit_rows(s, t, NULL, "=x b=late =late c=3");
    skade_close(writer);
    skade_close(s);
}
END_TEST

/* A handle that has learned of a table's files by gets isn't misled by what it learned. */
START_TEST(gets_of_an_old_handle_are_right_after_compactions_and_collections)
{
    skade *old = kit_open(), *s = kit_open();
    skade_table t = kit_table(s, "t");

    kit_append(s, t, "a=1 b=1 c=1");
    for (int round = 0; round < 4; round++) {
        char word[32], want[16];
        snprintf(want, sizeof want, "%d", round);
        snprintf(word, sizeof word, "a=%d b%s", round, round % 2 ? "=there" : "!");
        kit_append(s, t, word);
        kit_get(old, t, NULL, "a", want);
        compact_some_way(s, t, round % 2);
        if (round % 2) /* what the old handle leased stays */
            kit_ok(s, skade_gc(s, t, SKADE_GC_NOW, NULL, NULL));
        kit_get(old, t, NULL, "a", want);
        kit_get(old, t, NULL, "b", round % 2 ? "there" : NULL);
        kit_get(old, t, NULL, "c", "1");
    }
    skade_close(old);
    kit_ok(s, skade_gc(s, t, SKADE_GC_NOW, NULL, NULL));
    kit_rows(s, t, NULL, "c=1 a=3 b=there");
    skade_close(s);
}
END_TEST

START_TEST(a_renamed_table_keeps_its_rows_and_a_new_one_of_the_old_name_has_none)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "old"), other;

    kit_append(s, t, "a=1 =x");
    compact(s, t, NULL);
    kit_append(s, t, "b=2");
    kit_ok(s, skade_rename(s, "old", "new", NULL));
    other = kit_table(s, "old");
    ck_assert_uint_ne(other, t);
    kit_rows(s, t, NULL, "a=1 =x b=2");
    kit_rows(s, other, NULL, "");
    kit_append(s, other, "a=other");
    ck_assert_uint_eq(compact(s, t, NULL).rows, 3);
    kit_rows(s, t, NULL, "a=1 =x b=2");
    kit_rows(s, other, NULL, "a=other");
    kit_ok(s, skade_drop(s, "new", NULL));
    skade_scan *scan;
    ck_assert_int_eq(skade_scan_open(s, t, NULL, &scan), SKADE_ENOTABLE);
    kit_table(s, "new");
    collect(s);
    kit_rows(s, other, NULL, "a=other");
    ck_assert_uint_eq(kit_files(t), 0);
    skade_close(s);
}
END_TEST

/* ---- rows ------------------------------------------------------------------------------------------------------------ */

/* Both ways, by both kinds of compaction. */
START_TEST(the_order_of_rows_is_the_same_before_and_after_a_compaction)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    char word[64];

    for (int i = 0; i < 60; i++) {
        snprintf(word, sizeof word, "z%d=%d =%d k%d=%d a%d!", i % 7, i, i, 100 - i, i, i % 5);
        kit_append(s, t, word);
    }
    char *newest = rows(s, t, 0), *oldest = rows(s, t, SKADE_OLDEST_FIRST);
    for (int times = 0; times < 2; times++) {
        compact_some_way(s, t, _i == 1);
        char *newest_now = rows(s, t, 0), *oldest_now = rows(s, t, SKADE_OLDEST_FIRST);
        ck_assert_str_eq(newest_now, newest);
        ck_assert_str_eq(oldest_now, oldest);
        free(newest_now);
        free(oldest_now);
    }
    free(newest);
    free(oldest);
    skade_close(s);
}
END_TEST

START_TEST(parts_of_1_to_16_together_are_all_rows_of_every_kind_of_table)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    char word[64];

    if (_i == 1)
        kit_append(s, t, "a! b! c!"); /* deletions alone */
    for (int i = 0; i < 40 && _i >= 2; i++) {
        snprintf(word, sizeof word, "k%d=%d =%d k%d!", i % 11, i, i, (i + 3) % 11);
        kit_append(s, t, word);
    }
    if (_i >= 3)
        compact(s, t, NULL);
    if (_i == 4)
        kit_append(s, t, "k1=after k2! =after");
    for (unsigned flags = 0; flags <= SKADE_OLDEST_FIRST; flags++) {
        skade_scan *scan;
        kit_ok(s, skade_scan_open(s, t, NULL, &scan));
        char *whole = kit_part(scan, flags, 0, 1);
        for (unsigned parts = 2; parts <= 16; parts++) {
            char *all = calloc(1, strlen(whole) + 1);
            for (unsigned part = 0; part < parts; part++) {
                char *piece = kit_part(scan, flags, part, parts);
                ck_assert_uint_le(strlen(all) + strlen(piece), strlen(whole));
                strcat(all, piece);
                free(piece);
            }
            ck_assert_str_eq(all, whole);
            free(all);
        }
        free(whole);
        skade_scan_close(scan);
    }
    skade_close(s);
}
END_TEST

/* What is deleted leaves nothing behind. */
START_TEST(tables_without_rows_are_compacted_to_nothing)
{
    skade *s = kit_open();
    skade_table never = kit_table(s, "never"), emptied = kit_table(s, "emptied");
    char word[32];

    struct skade_compacted c = compact_some_way(s, never, _i == 1);
    ck_assert_uint_eq(c.seq, 0);
    ck_assert_uint_eq(c.rows, 0);
    kit_rows(s, never, NULL, "");
    for (int i = 0; i < 10; i++) {
        snprintf(word, sizeof word, "k%d=%d", i, i);
        kit_append(s, emptied, word);
    }
    kit_append(s, emptied, "k0! k1! k2! k3! k4! k5! k6! k7! k8! k9!");
    c = compact_some_way(s, emptied, _i == 1);
    ck_assert_uint_gt(c.seq, 0);
    ck_assert_uint_eq(c.rows, 0);
    ck_assert_uint_eq(c.files_after, 0);
    kit_rows(s, emptied, NULL, "");
    collect(s);
    ck_assert_uint_eq(kit_files(emptied), 1); /* the manifest */
    kit_get(s, emptied, NULL, "k3", NULL);
    kit_append(s, emptied, "k3=again");
    kit_rows(s, emptied, NULL, "k3=again");
    cli_stop_daemon();
    cli_start_daemon();
    kit_rows(s, emptied, NULL, "k3=again");
    skade_close(s);
}
END_TEST

/* A deletion is a row of a commit. */
START_TEST(deleting_what_is_not_there_changes_no_row_and_is_gone_with_the_next_compaction)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");

    kit_append(s, t, "a=1");
    struct skade_appended a = kit_append(s, t, "missing!");
    ck_assert_uint_eq(a.rows, 1);
    kit_get(s, t, NULL, "missing", NULL);
    kit_rows(s, t, NULL, "a=1");
    struct skade_compacted c = compact(s, t, NULL);
    ck_assert_uint_eq(c.rows, 1);
    ck_assert_uint_eq(c.raw_bytes, 2);
    kit_rows(s, t, NULL, "a=1");
    skade_close(s);
}
END_TEST

/* Live, after a compaction and after a restart. */
START_TEST(the_last_of_several_rows_of_a_key_in_one_commit_counts)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");

    kit_append(s, t, "a=0 b=0 c=0");
    kit_append(s, t, "a=1 a! b! b=2 c=1 c=2 d! d=1 d!");
    for (int stage = 0; stage < 3; stage++) {
        if (stage == 1)
            compact(s, t, NULL);
        if (stage == 2) {
            cli_stop_daemon();
            cli_start_daemon();
        }
        kit_rows(s, t, NULL, "b=2 c=2");
        kit_get(s, t, NULL, "a", NULL);
        kit_get(s, t, NULL, "b", "2");
        kit_get(s, t, NULL, "c", "2");
        kit_get(s, t, NULL, "d", NULL);
    }
    skade_close(s);
}
END_TEST

/* ---- payloads -------------------------------------------------------------------------------------------------------- */

struct payload {
    const char *key;
    char *bytes;
    size_t len;
};

#define BIG (1u << 20)

static struct payload payload(const char *key, const void *bytes, size_t len)
{
    struct payload p = { key, malloc(len + 1), len };
    memcpy(p.bytes, bytes, len);
    return p;
}

/* A whole file of the table itself. */
static struct payload file_of(skade *s, skade_table t)
{
    char location[SKADE_LOCATION_MAX + 1];
    struct skade_answer a = SKADE_ANSWER(location, sizeof location);
    struct payload p = { .key = "file" };

    ck_assert_int_eq(skade_head(s, t, &a), 1);
    FILE *f = fopen(location + strlen("file://"), "r");
    ck_assert_ptr_nonnull(f);
    p.bytes = malloc(BIG);
    p.len = fread(p.bytes, 1, BIG, f);
    ck_assert_uint_gt(p.len, 0);
    fclose(f);
    return p;
}

static void check_payload(skade *s, skade_table t, const struct payload *p)
{
    static char got[BIG + 1];
    size_t len = 0;

    kit_ok(s, skade_get(s, t, NULL, p->key, strlen(p->key), got, sizeof got, &len));
    ck_assert_uint_eq(len, p->len);
    ck_assert_int_eq(memcmp(got, p->bytes, len), 0);
}

/* Every payload is there, with its key and, in the same order, without. */
static void check_payloads(skade *s, skade_table t, const struct payload *p, size_t n)
{
    struct skade_row row = { .size = sizeof row };
    skade_cursor *c;
    skade_scan *scan;

    for (size_t i = 0; i < n; i++)
        check_payload(s, t, &p[i]);
    kit_get(s, t, NULL, "deleted", NULL);
    kit_ok(s, skade_scan_open(s, t, NULL, &scan));
    ck_assert_int_eq(skade_cursor_open(scan, SKADE_OLDEST_FIRST, 0, 1, &c), 0);
    for (size_t i = 0; i < 2 * n; i++) {
        ck_assert_int_eq(skade_cursor_next(c, &row), 1);
        ck_assert_int_eq(row.has_key, i % 2 == 0);
        ck_assert_uint_eq(row.value_len, p[i / 2].len);
        ck_assert_int_eq(memcmp(row.value, p[i / 2].bytes, p[i / 2].len), 0);
    }
    ck_assert_int_eq(skade_cursor_next(c, &row), 0);
    skade_cursor_close(c);
    skade_scan_close(scan);
}

/* None is taken for a deletion, and a deletion for none. */
START_TEST(any_payload_is_the_same_through_append_compaction_callback_and_restart)
{
    static char zeros[BIG];
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");

    struct skade_appended first = kit_append(s, t, "deleted=1 =x");
    struct payload p[] = { payload("empty", "", 0),         payload("zero", "", 1),
                           payload("zeros", zeros, 8),      payload("many", zeros, BIG),
                           payload("bytes", "\xff\xfe", 2), file_of(s, t) };
    struct skade_compact_options o = options();
    o.has_drop_before = 1; /* the first row without a key goes */
    o.drop_before_us = first.time_us + 1;
    kit_append(s, t, "deleted!");
    kit_ok(s, skade_append_begin(s, t, NULL));
    for (size_t i = 0; i < ARRAY_SIZE(p); i++) {
        kit_ok(s, skade_append_put(s, p[i].key, strlen(p[i].key), p[i].bytes, p[i].len));
        kit_ok(s, skade_append_put(s, NULL, 0, p[i].bytes, p[i].len));
    }
    kit_ok(s, skade_append_commit(s, NULL));
    ck_assert_uint_eq(compact(s, t, &o).rows, 2 * ARRAY_SIZE(p));
    check_payloads(s, t, p, ARRAY_SIZE(p));
    kit_append(s, t, "deleted=again"); /* so that there is something to do */
    kit_append(s, t, "deleted!");
    ck_assert_uint_eq(compact_some_way(s, t, true).rows, 2 * ARRAY_SIZE(p));
    check_payloads(s, t, p, ARRAY_SIZE(p));
    cli_stop_daemon();
    cli_start_daemon();
    check_payloads(s, t, p, ARRAY_SIZE(p));
    for (size_t i = 0; i < ARRAY_SIZE(p); i++)
        free(p[i].bytes);
    skade_close(s);
}
END_TEST

/* Both have the XXH3 ca981008c76b313c. */
static const unsigned char twin_a[16] = { 0xb9, 0x39, 0x42, 0xea, 0x7b, 0x73, 0x82, 0x67,
                                          0xd5, 0x9f, 0x3d, 0x80, 0x5c, 0xf9, 0x75, 0xae };
static const unsigned char twin_b[16] = { 0xb8, 0x1a, 0x07, 0x8d, 0xf2, 0xd8, 0x4f, 0x88,
                                          0x3a, 0x52, 0x96, 0x09, 0x3b, 0xbc, 0x56, 0xaf };

static void put_twins(skade *s, skade_table t, const char *a, const char *b)
{
    kit_ok(s, skade_append_begin(s, t, NULL));
    if (a)
        kit_ok(s, a[0] ? skade_append_put(s, twin_a, 16, a, strlen(a)) : skade_append_delete(s, twin_a, 16));
    if (b)
        kit_ok(s, b[0] ? skade_append_put(s, twin_b, 16, b, strlen(b)) : skade_append_delete(s, twin_b, 16));
    kit_ok(s, skade_append_commit(s, NULL));
}

static void check_twin(skade *s, skade_table t, const unsigned char *key, const char *want)
{
    char got[16] = "";
    size_t len = 0;
    int r = skade_get(s, t, NULL, key, 16, got, sizeof got, &len);

    kit_ok(s, r);
    ck_assert_int_eq(r, want != NULL);
    if (want)
        ck_assert(len == strlen(want) && memcmp(got, want, len) == 0);
}

static void check_twins(skade *s, skade_table t, const char *a, const char *b)
{
    struct skade_scan_info info = { .size = sizeof info };
    skade_scan *scan;

    check_twin(s, t, twin_a, a);
    check_twin(s, t, twin_b, b);
    kit_ok(s, skade_scan_open(s, t, NULL, &scan));
    kit_ok(s, skade_scan_info(scan, &info));
    ck_assert_uint_eq(info.rows, (a != NULL) + (b != NULL));
    skade_scan_close(scan);
}

START_TEST(keys_of_the_same_hash_live_and_die_independently)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    bool compacting = _i >= 1, by_callback = _i == 2;

    put_twins(s, t, "a1", "b1");
    check_twins(s, t, "a1", "b1");
    if (compacting)
        compact_some_way(s, t, by_callback);
    check_twins(s, t, "a1", "b1");
    put_twins(s, t, NULL, "b2");
    check_twins(s, t, "a1", "b2");
    put_twins(s, t, "", NULL);
    check_twins(s, t, NULL, "b2");
    if (compacting)
        compact_some_way(s, t, by_callback);
    check_twins(s, t, NULL, "b2");
    put_twins(s, t, "a3", "");
    check_twins(s, t, "a3", NULL);
    if (compacting)
        compact_some_way(s, t, by_callback);
    check_twins(s, t, "a3", NULL);
    skade_close(s);
}
END_TEST

/* ---- the files of a scan ---------------------------------------------------------------------------------------------- */

struct files {
    size_t entries, rows, manifests;
    uint64_t last;
    int end_with;
};

static int note_file(void *arg, const struct skade_scan_file *file)
{
    struct files *to = arg;
    const char *dot = strrchr(file->path, '.');

    ck_assert_int_eq(access(file->path, R_OK), 0);
    ck_assert_uint_ge(file->seq * !file->base, to->last); /* the base's number may be anything */
    to->last = file->base ? 0 : file->seq;
    ck_assert_int_eq(file->base, strcmp(dot, ".entries") != 0);
    to->entries += strcmp(dot, ".entries") == 0;
    to->rows += strcmp(dot, ".rows") == 0;
    to->manifests += strcmp(dot, ".manifest") == 0;
    return to->end_with;
}

START_TEST(the_files_of_a_scan_are_those_of_its_snapshot)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_scan_options o = { .size = sizeof o, .flags = _i ? SKADE_FILES_ONLY : 0 };
    struct files none = { 0 }, early = { 0 }, late = { 0 }, then = { 0 }, one = { .end_with = 7 };
    skade_scan *scan;
    skade_cursor *c;

    kit_ok(s, skade_scan_open(s, t, &o, &scan));
    ck_assert_int_eq(skade_scan_files(scan, note_file, &none), 0);
    skade_scan_close(scan);
    kit_append(s, t, "a=1");
    struct skade_appended before = kit_append(s, t, "b=1");
    kit_ok(s, skade_scan_open(s, t, &o, &scan));
    kit_append(s, t, "c=1");
    compact(s, t, NULL);
    kit_append(s, t, "d=1");
    ck_assert_int_eq(skade_scan_files(scan, note_file, &early), 2);
    ck_assert_uint_eq(early.entries, 2);
    ck_assert_int_eq(skade_scan_files(scan, note_file, &one), 7);
    ck_assert_uint_eq(one.entries, 1);
    ck_assert_int_eq(skade_cursor_open(scan, 0, 0, 1, &c), _i ? SKADE_EINPUT : 0);
    if (!_i)
        skade_cursor_close(c);
    skade_scan_close(scan);
    kit_ok(s, skade_scan_open(s, t, &o, &scan));
    ck_assert_int_eq(skade_scan_files(scan, note_file, &late), 3);
    ck_assert(late.entries == 1 && late.rows == 1 && late.manifests == 1);
    skade_scan_close(scan);
    o.as_of = before.seq;
    kit_ok(s, skade_scan_open(s, t, &o, &scan));
    ck_assert_int_eq(skade_scan_files(scan, note_file, &then), 2);
    if (!_i) {
        char *text = kit_part(scan, SKADE_OLDEST_FIRST, 0, 1);
        ck_assert_str_eq(text, " a=1 b=1");
        free(text);
    }
    skade_scan_close(scan);
    skade_close(s);
}
END_TEST

START_TEST(the_files_of_a_scan_that_lost_its_lease_are_not_told)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct files f = { 0 };
    skade_view *view;
    skade_scan *scan;

    struct skade_appended a = kit_append(s, t, "a=1");
    kit_ok(s, skade_scan_open(s, t, NULL, &scan));
    cli_stop_daemon();
    cli_start_daemon();
    ck_assert_int_eq(skade_scan_files(scan, note_file, &f), SKADE_EEXPIRED);
    ck_assert_uint_eq(f.entries, 0);
    skade_scan_close(scan);
    kit_ok(s, skade_view_open(s, &view));
    struct skade_scan_options both = { .size = sizeof both, .view = view, .as_of = a.seq };
    ck_assert_int_eq(skade_scan_open(s, t, &both, &scan), SKADE_EINPUT);
    both = (struct skade_scan_options){ .size = sizeof both, .flags = 2 };
    ck_assert_int_eq(skade_scan_open(s, t, &both, &scan), SKADE_EINPUT);
    skade_view_close(view);
    skade_close(s);
}
END_TEST

Suite *client_tables_suite(void);
Suite *client_tables_suite(void)
{
    Suite *suite = suite_create("client_tables");
    TCase *t = tcase_create("tables");

    if (kit_fixture(t)) {
        tcase_add_loop_test(t, an_append_begun_before_a_compaction_lands_in_the_compacted_table, 0, 2);
        tcase_add_test(t, gets_of_an_old_handle_are_right_after_compactions_and_collections);
        tcase_add_test(t, a_renamed_table_keeps_its_rows_and_a_new_one_of_the_old_name_has_none);
        tcase_add_loop_test(t, the_order_of_rows_is_the_same_before_and_after_a_compaction, 0, 2);
        tcase_add_loop_test(t, parts_of_1_to_16_together_are_all_rows_of_every_kind_of_table, 0, 5);
        tcase_add_loop_test(t, tables_without_rows_are_compacted_to_nothing, 0, 2);
        tcase_add_test(t, deleting_what_is_not_there_changes_no_row_and_is_gone_with_the_next_compaction);
        tcase_add_test(t, the_last_of_several_rows_of_a_key_in_one_commit_counts);
        tcase_add_test(t, any_payload_is_the_same_through_append_compaction_callback_and_restart);
        tcase_add_loop_test(t, keys_of_the_same_hash_live_and_die_independently, 0, 3);
        tcase_add_loop_test(t, the_files_of_a_scan_are_those_of_its_snapshot, 0, 2);
        tcase_add_test(t, the_files_of_a_scan_that_lost_its_lease_are_not_told);
        suite_add_tcase(suite, t);
    }
    return suite;
}
