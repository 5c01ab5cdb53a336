/*
 * tools/release_line.c: lines of strangers.
 */
#include <check.h>

#include "release_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char full_line[] =
    "{\"table\":\"shop.orders\",\"location\":\"s3://b/m.json\",\"snapshot\":\"-5\",\"base\":null,"
    "\"time\":\"1970-01-01T00:00:01Z\",\"uuid\":\"00112233-4455-6677-8899-aabbccddeeff\","
    "\"side\":true}";

static struct release_line line;
static char problem[256];

/* From a copy of exactly its size, so that a read beyond the end is seen by sanitizers. */
static int parse_bytes(const char *text, size_t len)
{
    char *copy = malloc(len ? len : 1);

    memcpy(copy, text, len);
    int r = release_line_parse(copy, len, &line, problem, sizeof problem);
    free(copy);
    return r;
}

static int parse(const char *text)
{
    return parse_bytes(text, strlen(text));
}

START_TEST(a_full_line_says_a_commit)
{
    ck_assert_int_eq(parse(full_line), 0);
    ck_assert_str_eq(line.table, "shop.orders");
    ck_assert_str_eq(line.location, "s3://b/m.json");
    ck_assert_int_eq(line.commit.snapshot, -5);
    ck_assert_uint_eq(line.commit.flags, SKADE_WITH_SNAPSHOT | SKADE_INTRODUCES);
    ck_assert_uint_eq(line.commit.base, SKADE_BASE_NONE);
    ck_assert_int_eq(line.commit.has_time, 1);
    ck_assert_int_eq(line.commit.time_us, 1000000);
    ck_assert_uint_eq(line.commit.uuid[0], 0);
    ck_assert_uint_eq(line.commit.uuid[15], 0xff);
}
END_TEST

START_TEST(a_short_line_moves_the_head_to_no_snapshot)
{
    ck_assert_int_eq(parse(" { \"location\" : \"x\", \"table\":\"t\" } "), 0);
    ck_assert_uint_eq(line.commit.flags, SKADE_MOVES_HEAD);
    ck_assert_uint_eq(line.commit.base, SKADE_BASE_ANY);
    ck_assert_int_eq(line.commit.has_time, 0);
    ck_assert_uint_eq(line.commit.size, sizeof line.commit);
}
END_TEST

/* As our own JSON says it.  Only base gives null a meaning. */
START_TEST(null_is_as_if_the_field_were_not_there)
{
    ck_assert_int_eq(
        parse("{\"table\":\"t\",\"location\":\"x\",\"snapshot\":null,\"time\":null,\"uuid\":null,"
              "\"side\":null}"),
        0);
    ck_assert_uint_eq(line.commit.flags, SKADE_MOVES_HEAD);
    ck_assert_uint_eq(line.commit.base, SKADE_BASE_ANY);
    ck_assert_int_eq(line.commit.has_time, 0);
    ck_assert_int_eq(parse("{\"table\":\"t\",\"location\":\"x\",\"base\":null}"), 0);
    ck_assert_uint_eq(line.commit.base, SKADE_BASE_NONE);
}
END_TEST

START_TEST(ids_are_integers_or_strings_in_their_full_range)
{
    static const struct {
        const char *value;
        int64_t id;
    } cases[] = {
        { "9223372036854775807", INT64_MAX },
        { "-9223372036854775808", INT64_MIN },
        { "\"9223372036854775807\"", INT64_MAX },
        { "\"-9223372036854775808\"", INT64_MIN },
        { "9007199254740993", 9007199254740993 }, /* no double is this */
        { "0", 0 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"table\":\"t\",\"location\":\"x\",\"snapshot\":%s}", cases[i].value);
        ck_assert_int_eq(parse(text), 0);
        ck_assert_int_eq(line.commit.snapshot, cases[i].id);
        ck_assert_uint_eq(line.commit.flags, SKADE_WITH_SNAPSHOT | SKADE_INTRODUCES | SKADE_MOVES_HEAD);
    }
}
END_TEST

START_TEST(times_are_integers_or_texts)
{
    static const struct {
        const char *value;
        int64_t time_us;
    } cases[] = {
        { "1500000", 1500000 },
        { "\"1500000\"", 1500000 },
        { "-1", -1 },
        { "\"1970-01-02\"", 86400000000 },
        { "\"1970-01-01T01:00:00+01:00\"", 0 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"table\":\"t\",\"location\":\"x\",\"time\":%s}", cases[i].value);
        ck_assert_int_eq(parse(text), 0);
        ck_assert_int_eq(line.commit.time_us, cases[i].time_us);
        ck_assert_int_eq(line.commit.has_time, 1);
    }
}
END_TEST

START_TEST(what_is_wrong_is_named)
{
    static const struct {
        const char *line, *word;
    } cases[] = {
        { "", "JSON" },
        { "[]", "object" },
        { "5", "object" },
        { "\"x\"", "object" },
        { "{}", "table is missing" },
        { "{\"table\":\"t\"}", "location is missing" },
        { "{\"location\":\"x\"}", "table is missing" },
        { "{\"table\":\"t\",\"location\":\"x\"} {}", "JSON" },
        { "{\"table\":\"t\",\"location\":\"x\"}x", "JSON" },
        { "{\"table\":\"t\",\"location\":\"x\",}", "JSON" },
        { "{\"table\":\"t\",\"location\":\"x\",\"tabel\":1}", "unknown field tabel" },
        { "{\"table\":\"t\",\"location\":\"x\",\"\":1}", "unknown field" },
        { "{\"table\":\"t\",\"table\":\"t\",\"location\":\"x\"}", "table is given twice" },
        { "{\"table\":5,\"location\":\"x\"}", "table is not a string" },
        { "{\"table\":\"a..b\",\"location\":\"x\"}", "table" },
        { "{\"table\":\"t\",\"location\":null}", "location is not a string" },
        { "{\"table\":\"t\",\"location\":\"\"}", "location is empty" },
        { "{\"table\":\"t\",\"location\":\"x\\u0000y\"}", "location has a NUL" },
        { "{\"table\":\"t\",\"location\":\"\xff\"}", "JSON" },
        { "{\"table\":\"t\",\"location\":\"x\",\"snapshot\":9223372036854775808}", "snapshot is outside" },
        { "{\"table\":\"t\",\"location\":\"x\",\"snapshot\":\"9876543210123456789\"}",
          "snapshot is outside" },
        { "{\"table\":\"t\",\"location\":\"x\",\"snapshot\":1.0}", "snapshot is not an integer" },
        { "{\"table\":\"t\",\"location\":\"x\",\"snapshot\":1e3}", "snapshot is not an integer" },
        { "{\"table\":\"t\",\"location\":\"x\",\"snapshot\":\"\"}", "snapshot is not an integer" },
        { "{\"table\":null,\"location\":\"x\"}", "table is not a string" },
        { "{\"table\":\"t\",\"location\":\"x\",\"snapshot\":null,\"snapshot\":1}",
          "snapshot is given twice" },
        { "{\"table\":\"t\",\"location\":\"x\",\"snapshot\":null,\"side\":true}", "side needs a snapshot" },
        { "{\"table\":\"t\",\"location\":\"x\",\"snapshot\":true}", "snapshot is neither" },
        { "{\"table\":\"t\",\"location\":\"x\",\"snapshot\":{}}", "snapshot is an object" },
        { "{\"table\":\"t\",\"location\":\"x\",\"snapshot\":[1]}", "snapshot is an array" },
        { "{\"table\":\"t\",\"location\":\"x\",\"base\":5}", "base is not a string" },
        { "{\"table\":\"t\",\"location\":\"x\",\"time\":1.5}", "time is not an integer" },
        { "{\"table\":\"t\",\"location\":\"x\",\"time\":\"yesterday\"}", "time is neither" },
        { "{\"table\":\"t\",\"location\":\"x\",\"time\":99999999999999999999}", "time is neither" },
        { "{\"table\":\"t\",\"location\":\"x\",\"uuid\":\"5\"}", "uuid is not" },
        { "{\"table\":\"t\",\"location\":\"x\",\"uuid\":5}", "uuid is not" },
        { "{\"table\":\"t\",\"location\":\"x\",\"side\":1}", "side is neither" },
        { "{\"table\":\"t\",\"location\":\"x\",\"side\":true}", "side needs a snapshot" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_int_eq(parse(cases[i].line), SKADE_EINPUT);
        ck_assert_msg(strstr(problem, cases[i].word) != NULL, "%s: %s", cases[i].line, problem);
    }
}
END_TEST

/* A line with a table name, location and base of these lengths. */
static int parse_lengths(size_t table, size_t location, size_t base)
{
    static char name[8000], where[8000], before[8000], text[30000];

    memset(name, 'n', table);
    memset(where, 'w', location);
    memset(before, 'b', base);
    name[table] = where[location] = before[base] = 0;
    snprintf(text, sizeof text, "{\"table\":\"%s\",\"location\":\"%s\",\"base\":\"%s\"}", name, where,
             before);
    return parse(text);
}

START_TEST(the_longest_strings_fit_and_longer_ones_are_refused)
{
    ck_assert_int_eq(parse_lengths(SKADE_NAME_MAX, SKADE_LOCATION_MAX, SKADE_LOCATION_MAX), 0);
    ck_assert_uint_eq(strlen(line.location), SKADE_LOCATION_MAX);
    ck_assert_uint_eq(line.commit.base, SKADE_BASE_IS);
    ck_assert_int_eq(parse_lengths(SKADE_NAME_MAX + 1, 1, 1), SKADE_EINPUT);
    ck_assert_int_eq(parse_lengths(1, SKADE_LOCATION_MAX + 1, 1), SKADE_EINPUT);
    ck_assert_int_eq(parse_lengths(1, 1, SKADE_LOCATION_MAX + 1), SKADE_EINPUT);
}
END_TEST

START_TEST(every_truncation_is_refused)
{
    for (size_t len = 0; len < sizeof full_line - 1; len++)
        ck_assert_int_eq(parse_bytes(full_line, len), SKADE_EINPUT);
}
END_TEST

START_TEST(every_flipped_byte_is_an_error_or_another_commit)
{
    char text[sizeof full_line];

    for (size_t i = 0; i < sizeof full_line - 1; i++)
        for (int b = 0; b < 256; b++) {
            memcpy(text, full_line, sizeof text);
            text[i] = (char)b;
            int r = parse_bytes(text, sizeof text - 1);
            ck_assert(r == 0 || (r == SKADE_EINPUT && *problem));
            if (r == 0)
                ck_assert(*line.table && *line.location);
        }
}
END_TEST

START_TEST(deep_nesting_and_half_pairs_are_refused)
{
    static char deep[60000];

    memset(deep, '[', sizeof deep - 1);
    ck_assert_int_eq(parse(deep), SKADE_EINPUT);
    ck_assert_int_eq(parse("{\"table\":\"t\",\"location\":\"\\ud800\\"), SKADE_EINPUT);
    ck_assert_int_eq(parse("{\"table\":\"t\",\"location\":\"\\ud800\"}"), SKADE_EINPUT);
}
END_TEST

Suite *cli_release_suite(void);

Suite *cli_release_suite(void)
{
    Suite *s = suite_create("cli_release");
    TCase *t = tcase_create("cli_release");

    tcase_add_test(t, a_full_line_says_a_commit);
    tcase_add_test(t, a_short_line_moves_the_head_to_no_snapshot);
    tcase_add_test(t, null_is_as_if_the_field_were_not_there);
    tcase_add_test(t, ids_are_integers_or_strings_in_their_full_range);
    tcase_add_test(t, times_are_integers_or_texts);
    tcase_add_test(t, what_is_wrong_is_named);
    tcase_add_test(t, the_longest_strings_fit_and_longer_ones_are_refused);
    tcase_add_test(t, every_truncation_is_refused);
    tcase_add_test(t, every_flipped_byte_is_an_error_or_another_commit);
    tcase_add_test(t, deep_nesting_and_half_pairs_are_refused);
    suite_add_tcase(s, t);
    return s;
}
