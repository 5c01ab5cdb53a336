/*
 * tools/top_frame.c and tools/top_sample.c: what a picture shows, and that it fits.
 */
#include <check.h>

#include "plain.h"
#include "top_frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct top_sample now, before;
static struct top_frame frame;

static struct top_view view(size_t width, size_t height)
{
    return (struct top_view){ .instance = "default",
                              .now = &now,
                              .before = &before,
                              .width = width,
                              .height = height,
                              .utf8 = true,
                              .keys = true };
}

static void setup(void)
{
    top_sample_clear(&now);
    top_sample_clear(&before);
    before.state = now.state = TOP_ALIVE;
    before.seconds = 100;
    now.seconds = 102;
    now.time_us = 1700000000000000;
    before.counters.uptime = 10;
    now.counters.uptime = 12;
}

static void teardown(void)
{
    top_sample_clear(&now);
    top_sample_clear(&before);
}

/* The line that has TEXT, or NULL. */
static const struct top_line *line_with(const char *text)
{
    for (size_t i = 0; i < frame.count; i++)
        if (strstr(frame.lines[i].text, text))
            return &frame.lines[i];
    return NULL;
}

static void assert_shows(const char *text)
{
    if (line_with(text))
        return;
    for (size_t i = 0; i < frame.count; i++)
        fprintf(stderr, "|%s|\n", frame.lines[i].text);
    ck_abort_msg("'%s' isn't shown", text);
}

static size_t columns_of(const char *text)
{
    size_t sum = 0;

    while (*text) {
        uint32_t code;
        size_t len = utf8_char(text, &code);
        ck_assert_msg(len > 0 && !is_control(code), "a byte that no terminal should see");
        sum += (size_t)top_columns(code);
        text += len;
    }
    return sum;
}

static void assert_fits(size_t width, size_t height)
{
    ck_assert_uint_le(frame.count, height);
    for (size_t i = 0; i < frame.count; i++)
        ck_assert_uint_le(columns_of(frame.lines[i].text), width);
}

static void draw(size_t width, size_t height)
{
    struct top_view v = view(width, height);

    top_draw(&v, &frame);
    assert_fits(width, height);
}

/* ---- numbers ------------------------------------------------------------------------------------------------------- */

START_TEST(rates_are_changes_by_seconds)
{
    before.counters.commits = 1000;
    now.counters.commits = 1500;
    before.counters.questions = 0;
    now.counters.questions = 3000000;
    before.counters.lookups_map = 500000;
    now.counters.lookups_map = 900000;
    before.counters.lookups_tail = 100;
    now.counters.lookups_tail = 105;
    before.counters.groups = 7;
    now.counters.groups = 12;
    draw(80, 24);
    assert_shows("250/s in 2.5 transactions/s");
    assert_shows("by map 200 k/s, tail 2.5/s, socket 1.50 M/s; 3.90 M in all");
}
END_TEST

START_TEST(without_a_sample_before_there_are_no_rates)
{
    struct top_view v = view(80, 24);

    now.counters.commits = 1500;
    v.before = NULL;
    top_draw(&v, &frame);
    assert_shows("-/s in -");
    assert_shows("1500 in all");
}
END_TEST

START_TEST(another_daemon_s_counters_make_no_rate)
{
    before.counters.uptime = 500;
    before.counters.commits = 10;
    now.counters.commits = 1000;
    draw(80, 24);
    assert_shows("-/s in -");
}
END_TEST

START_TEST(a_counter_that_an_older_daemon_does_not_have_is_absent)
{
    draw(80, 24);
    assert_shows("- connections");
    ck_assert_ptr_null(line_with("mapped"));
    before.counters.tail_used = before.counters.tail_room = 0;
    now.counters.tail_used = 17;
    now.counters.tail_room = 8192;
    draw(80, 24);
    assert_shows("mapped 17 of 8192");
}
END_TEST

START_TEST(large_numbers_are_short)
{
    now.counters.generation = 7;
    now.counters.commits = UINT64_MAX - 1;
    now.counters.index_bytes = (uint64_t)3 << 40;
    now.counters.commit_seq = 99999;
    draw(80, 24);
    assert_shows("18.4 E in all");
    assert_shows("3.00 TiB");
    assert_shows("of 99999");
}
END_TEST

/* ---- states -------------------------------------------------------------------------------------------------------- */

START_TEST(no_daemon_is_said_with_the_reason_and_the_cure)
{
    now.state = TOP_NO_DAEMON;
    strcpy(now.problem, "no daemon at /run/skade/default.sock: start skaded");
    draw(80, 24);
    assert_shows("no daemon");
    assert_shows("start skaded");
    ck_assert_int_eq(frame.lines[0].look, TOP_ALARM);
    ck_assert_ptr_null(line_with("commits"));
    ck_assert_uint_eq(frame.count, 24);
    assert_shows("q quit");
}
END_TEST

START_TEST(a_dead_daemon_s_counters_are_shown_as_such)
{
    now.state = TOP_STALLED;
    now.counters.commits = 5;
    draw(80, 24);
    ck_assert_int_eq(frame.lines[0].look, TOP_ALARM);
    assert_shows("no daemon: gone or hung");
    assert_shows("5 in all");
}
END_TEST

START_TEST(what_is_wrong_is_an_alarm)
{
    now.counters.generation = 0;
    now.counters.log_full = 3;
    draw(80, 24);
    ck_assert_int_eq(line_with("EVERYONE ASKS THE SOCKET")->look, TOP_ALARM);
    ck_assert_int_eq(line_with("DISK FULL 3 times")->look, TOP_ALARM);
    now.counters.generation = 4;
    now.counters.rebuild_failing = 1;
    draw(80, 24);
    ck_assert_int_eq(line_with("A REBUILD FAILED")->look, TOP_ALARM);
    now.counters.rebuild_failing = now.counters.log_full = 0;
    draw(80, 24);
    ck_assert_ptr_null(line_with("FAILED"));
    ck_assert_ptr_null(line_with("DISK FULL"));
}
END_TEST

/* ---- tables and clients ---------------------------------------------------------------------------------------------- */

static void add_tables(enum top_table_order order)
{
    top_sample_table(&now, order, "shop.few", false, 3, 900);
    top_sample_table(&now, order, "shop.many", true, 70, 20);
    top_sample_table(&now, order, "shop.none", false, 0, 0);
}

START_TEST(tables_come_in_their_order)
{
    static const char *const first[] = {
        [TOP_BY_SNAPSHOTS] = "shop.many", [TOP_BY_CHANGE] = "shop.few", [TOP_BY_NAME] = "shop.few"
    };

    add_tables((enum top_table_order)_i);
    ck_assert_str_eq(now.tables[0].name, first[_i]);
    ck_assert_str_eq(now.tables[2].name, "shop.none");
    draw(80, 24);
    assert_shows("shop.many");
    assert_shows("stored            70            20");
    assert_shows("external           0             -");
}
END_TEST

START_TEST(of_many_tables_the_first_are_kept)
{
    char name[32];

    for (unsigned i = 0; i < 1000; i++) {
        unsigned n = i * 7919 % 1000; /* in no order */
        snprintf(name, sizeof name, "t.%03u", n);
        top_sample_table(&now, TOP_BY_SNAPSHOTS, name, false, n, 1);
    }
    ck_assert_uint_eq(now.tables_count, TOP_TABLES);
    for (unsigned i = 0; i < TOP_TABLES; i++)
        ck_assert_uint_eq(now.tables[i].snapshots, 999 - i);
    for (unsigned i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "c%u", i);
        ck_assert_int_eq(top_sample_client(&now, name, i, i, 1, 0, i), 0);
    }
    top_sample_group(&now);
    draw(80, 24);
    ck_assert_uint_eq(frame.count, 24);
    assert_shows("t.999");
    assert_shows("CLIENT");
}
END_TEST

START_TEST(connections_of_a_process_are_one_client)
{
    ck_assert_int_eq(top_sample_client(&before, "spark", 1000, 77, 5, 0, 100), 0);
    top_sample_group(&before);
    ck_assert_int_eq(top_sample_client(&now, "spark", 1000, 77, 5, 0, 100), 0);
    ck_assert_int_eq(top_sample_client(&now, "duck", 1000, 9, 0, 0, 1), 0);
    ck_assert_int_eq(top_sample_client(&now, "spark", 1000, 77, 3, 2, 100), 0);
    ck_assert_int_eq(top_sample_client(&now, "spark", 1000, 78, 5, 0, 7), 0);
    top_sample_group(&now);
    ck_assert_uint_eq(now.clients_count, 3);
    const struct top_client *c = &now.clients[1];
    ck_assert_str_eq(c->label, "spark");
    ck_assert_uint_eq(c->connections, 2);
    ck_assert_uint_eq(c->requests, 200);
    ck_assert_uint_eq(c->lag, 2);
    ck_assert_uint_eq(c->generation, 3);
    draw(80, 24);
    assert_shows("1000       77      2           3     2        50.0");
    assert_shows("1000       78      1           5     0           -");
    assert_shows("1000        9      1           -     -           -");
}
END_TEST

START_TEST(clients_come_in_their_order)
{
    static const char *const first[] = {
        [TOP_BY_REQUESTS] = "busy", [TOP_BY_LAG] = "late", [TOP_BY_LABEL] = "able"
    };
    struct top_view v = view(80, 24);

    ck_assert_int_eq(top_sample_client(&now, "late", 1, 1, 2, 9, 5), 0);
    ck_assert_int_eq(top_sample_client(&now, "busy", 1, 2, 11, 0, 900), 0);
    ck_assert_int_eq(top_sample_client(&now, "able", 1, 3, 11, 0, 4), 0);
    top_sample_group(&now);
    v.clients = (enum top_client_order)_i;
    top_draw(&v, &frame);
    const struct top_line *head = line_with("CLIENT");
    ck_assert_ptr_nonnull(head);
    ck_assert_int_eq(strncmp(head[1].text, first[_i], 4), 0);
}
END_TEST

START_TEST(why_there_are_no_clients_is_said)
{
    strcpy(now.clients_problem, "needs the admin role");
    draw(80, 24);
    assert_shows("needs the admin role");
}
END_TEST

/* ---- names and sizes ---------------------------------------------------------------------------------------------------- */

static const char *const hostile[] = {
    "\033[2J\033[Hgone",
    "a\tb\nc\rd",
    "\x7f\xc2\x9b"
    "31m",
    "broken \xff\xc3(",
    "\xe2\x80\xae"
    "txt.exe",
    "\xe2\x80\x8b",
};

START_TEST(hostile_names_move_nothing)
{
    ck_assert_int_eq(top_sample_client(&now, hostile[_i], 1, 1, 1, 0, 1), 0);
    top_sample_group(&now);
    top_sample_table(&now, TOP_BY_NAME, hostile[_i], false, 1, 1);
    strcpy(now.clients_problem, hostile[_i]);
    struct top_view v = view(120, 24);
    v.instance = hostile[_i];
    top_draw(&v, &frame);
    assert_fits(120, 24);
    for (size_t i = 0; i < frame.count; i++) {
        ck_assert_ptr_null(strchr(frame.lines[i].text, '\033'));
        ck_assert_ptr_null(strstr(frame.lines[i].text, "\xe2\x80\xae"));
        ck_assert_ptr_null(strstr(frame.lines[i].text, "\xe2\x80\x8b"));
    }
    assert_shows("\\x");
}
END_TEST

START_TEST(wide_and_combining_names_keep_their_columns)
{
    char long_name[TOP_NAME_MAX + 1] = "";

    for (size_t i = 0; i + 3 <= TOP_NAME_MAX; i += 3)
        memcpy(long_name + i, "\xe8\xa1\xa8", 4); /* two columns each */
    top_sample_table(&now, TOP_BY_NAME, long_name, true, 12, 34);
    top_sample_table(&now, TOP_BY_NAME,
                     "e\xcc\x81"
                     "e\xcc\x81.t",
                     true, 56, 78); /* four columns */
    for (size_t width = 60; width < 200; width++) {
        draw(width, 24);
        const struct top_line *wide = line_with("\xe8\xa1\xa8"), *combining = line_with("e\xcc\x81");
        ck_assert_uint_eq(columns_of(wide->text), width);
        ck_assert_uint_eq(columns_of(combining->text), width);
        ck_assert_ptr_nonnull(strstr(wide->text, "\xe2\x80\xa6"));
        ck_assert_str_eq(wide->text + strlen(wide->text) - 4, "  34");
    }
}
END_TEST

START_TEST(a_terminal_without_utf8_gets_ascii)
{
    struct top_view v = view(80, 24);

    v.utf8 = false;
    top_sample_table(&now, TOP_BY_NAME,
                     "gr\xc3\xb6\xc3\x9f"
                     "e.t",
                     false, 1, 1);
    top_draw(&v, &frame);
    assert_shows("gr\\xc3\\xb6\\xc3\\x9f"
                 "e.t");
    for (size_t i = 0; i < frame.count; i++)
        for (const char *p = frame.lines[i].text; *p; p++)
            ck_assert_int_lt((unsigned char)*p, 0x80);
}
END_TEST

/* Every size of screen, with much to show: nothing is wider or higher than it. */
START_TEST(every_size_of_screen_fits)
{
    char name[TOP_NAME_MAX];

    for (unsigned i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "lake.\xe8\xa1\xa8.%0*u", (int)(i % 100) + 1, i);
        top_sample_table(&now, TOP_BY_NAME, name, i % 2, i, UINT64_MAX - i);
        ck_assert_int_eq(top_sample_client(&now, name, UINT32_MAX, UINT32_MAX - i, UINT64_MAX, UINT64_MAX, i),
                         0);
    }
    top_sample_group(&now);
    memset(&now.counters, 0xfe, sizeof now.counters);
    for (size_t height = 0; height < 60; height++)
        draw(80, height);
    for (size_t width = 0; width < 120; width++)
        draw(width, 24);
    draw(TOP_WIDTH_MAX, TOP_HEIGHT_MAX);
    struct top_view v = view(10000, 10000);
    top_draw(&v, &frame);
    assert_fits(TOP_WIDTH_MAX, TOP_HEIGHT_MAX);
}
END_TEST

START_TEST(a_screen_of_80_by_24_shows_everything)
{
    add_tables(TOP_BY_NAME);
    ck_assert_int_eq(top_sample_client(&now, "spark", 1000, 77, 5, 0, 100), 0);
    top_sample_group(&now);
    draw(80, 24);
    static const char *const words[] = { "lookups",     "commits", "tail",  "index",    "rows",
                                         "compactions", "clients", "TABLE", "CLIENT",   "shop.none",
                                         "spark",       "q quit",  "LAG",   "SNAPSHOTS" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_shows(words[i]);
    for (size_t i = 0; i < frame.count; i++)
        if (!strstr(frame.lines[i].text, "shop."))
            ck_assert_ptr_null(strstr(frame.lines[i].text, "\xe2\x80\xa6"));
}
END_TEST

Suite *top_suite(void);
Suite *top_suite(void)
{
    Suite *suite = suite_create("top");
    TCase *t = tcase_create("frame");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, rates_are_changes_by_seconds);
    tcase_add_test(t, without_a_sample_before_there_are_no_rates);
    tcase_add_test(t, another_daemon_s_counters_make_no_rate);
    tcase_add_test(t, a_counter_that_an_older_daemon_does_not_have_is_absent);
    tcase_add_test(t, large_numbers_are_short);
    tcase_add_test(t, no_daemon_is_said_with_the_reason_and_the_cure);
    tcase_add_test(t, a_dead_daemon_s_counters_are_shown_as_such);
    tcase_add_test(t, what_is_wrong_is_an_alarm);
    tcase_add_loop_test(t, tables_come_in_their_order, 0, TOP_TABLE_ORDERS);
    tcase_add_test(t, of_many_tables_the_first_are_kept);
    tcase_add_test(t, connections_of_a_process_are_one_client);
    tcase_add_loop_test(t, clients_come_in_their_order, 0, TOP_CLIENT_ORDERS);
    tcase_add_test(t, why_there_are_no_clients_is_said);
    tcase_add_loop_test(t, hostile_names_move_nothing, 0, sizeof hostile / sizeof *hostile);
    tcase_add_test(t, wide_and_combining_names_keep_their_columns);
    tcase_add_test(t, a_terminal_without_utf8_gets_ascii);
    tcase_add_test(t, every_size_of_screen_fits);
    tcase_add_test(t, a_screen_of_80_by_24_shows_everything);
    suite_add_tcase(suite, t);
    return suite;
}
