#include "timefmt.h"

#include "quick.h"
#include "skade_errors.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define SECOND_US 1000000ll
#define FIRST_S (-62167219200ll) /* 0000-01-01T00:00:00Z */
#define END_S 253402300800ll     /* 10000-01-01T00:00:00Z */

static int64_t parsed(const char *text)
{
    int64_t us = -1;
    ck_assert_msg(time_parse(text, &us) == 0, "%s", text);
    return us;
}

static void check_refused(const char *text)
{
    int64_t us = 42;
    ck_assert_msg(time_parse(text, &us) == SKADE_EINPUT, "%s", text);
    ck_assert_int_eq(us, 42);
}

static const char *formatted(int64_t us)
{
    static char text[TIME_FORMAT_MAX];
    return time_format(us, text);
}

START_TEST(rfc_3339_is_read)
{
    ck_assert_int_eq(parsed("1970-01-01T00:00:00Z"), 0);
    ck_assert_int_eq(parsed("2026-01-02T03:04:05Z"), 1767323045 * SECOND_US);
    ck_assert_int_eq(parsed("2026-01-02t03:04:05z"), 1767323045 * SECOND_US);
    ck_assert_int_eq(parsed("2026-01-02 03:04:05Z"), 1767323045 * SECOND_US);
    ck_assert_int_eq(parsed("2026-01-02T03:04:05.678901Z"), 1767323045 * SECOND_US + 678901);
    ck_assert_int_eq(parsed("1985-04-12T23:20:50.52Z"), 482196050 * SECOND_US + 520000);
    ck_assert_int_eq(parsed("1996-12-19T16:39:57-08:00"), parsed("1996-12-20T00:39:57Z"));
    ck_assert_int_eq(parsed("1937-01-01T12:00:27.87+00:20"), parsed("1937-01-01T11:40:27.87Z"));
    ck_assert_int_eq(parsed("2026-01-01T00:00:00+23:59"), parsed("2025-12-31T00:01:00Z"));
    ck_assert_int_eq(parsed("2026-01-01T00:00:00-00:00"), parsed("2026-01-01T00:00:00Z"));
    ck_assert_int_eq(parsed("0000-01-01T00:00:00Z"), FIRST_S * SECOND_US);
    ck_assert_int_eq(parsed("9999-12-31T23:59:59.999999Z"), END_S * SECOND_US - 1);
}
END_TEST

START_TEST(a_date_is_its_midnight_utc)
{
    ck_assert_int_eq(parsed("1970-01-01"), 0);
    ck_assert_int_eq(parsed("1969-12-31"), -86400 * SECOND_US);
    ck_assert_int_eq(parsed("2024-02-29"), parsed("2024-02-29T00:00:00Z"));
}
END_TEST

START_TEST(numbers_are_microseconds)
{
    ck_assert_int_eq(parsed("0"), 0);
    ck_assert_int_eq(parsed("-0"), 0);
    ck_assert_int_eq(parsed("+5"), 5);
    ck_assert_int_eq(parsed("2026"), 2026);
    ck_assert_int_eq(parsed("-1767323045678901"), -1767323045678901);
    ck_assert_int_eq(parsed("00000000000000000000000000000000000001"), 1);
    ck_assert_int_eq(parsed("9223372036854775807"), INT64_MAX);
    ck_assert_int_eq(parsed("-9223372036854775808"), INT64_MIN);
    check_refused("9223372036854775808");
    check_refused("-9223372036854775809");
    check_refused("18446744073709551616");
    check_refused("99999999999999999999999999999999999999");
}
END_TEST

START_TEST(digits_behind_the_microsecond_are_cut_off_towards_the_past)
{
    ck_assert_int_eq(parsed("1970-01-01T00:00:00.1Z"), 100000);
    ck_assert_int_eq(parsed("1970-01-01T00:00:00.000001Z"), 1);
    ck_assert_int_eq(parsed("1970-01-01T00:00:00.0000019Z"), 1);
    ck_assert_int_eq(parsed("1970-01-01T00:00:00.999999999Z"), 999999);
    ck_assert_int_eq(parsed("1969-12-31T23:59:59.999999999Z"), -1);
    ck_assert_int_eq(parsed("1969-12-31T23:59:59.0000009Z"), -SECOND_US);
    check_refused("1970-01-01T00:00:00.Z");
    check_refused("1970-01-01T00:00:00.0000000001Z");
}
END_TEST

START_TEST(what_is_no_time_is_refused)
{
    static const char *const texts[] = {
        "",
        " ",
        "-",
        "+",
        "--1",
        "1.5",
        "1e6",
        "0x10",
        " 1",
        "1 ",
        "now",
        "yesterday",
        "2026-1-2",
        "2026-01-02T",
        "2026-01-02Z",
        "26-01-02",
        "12026-01-02",
        "-2026-01-02",
        "2026/01/02",
        "2026-00-02",
        "2026-13-02",
        "2026-01-00",
        "2026-01-32",
        "2026-02-29",
        "1900-02-29",
        "2100-02-29",
        "2026-04-31",
        "2026-06-31",
        "2026-09-31",
        "2026-11-31",
        "2026-01-02T03:04:05",
        "2026-01-02T03:04Z",
        "2026-01-02T3:04:05Z",
        "2026-01-02T24:00:00Z",
        "2026-01-02T03:60:05Z",
        "2026-01-02T03:04:61Z",
        "2016-12-31T23:59:60Z",
        "2026-01-02T03:04:05+1:00",
        "2026-01-02T03:04:05+0100",
        "2026-01-02T03:04:05+24:00",
        "2026-01-02T03:04:05+01:60",
        "2026-01-02T03:04:05+01",
        "2026-01-02T03:04:05ZZ",
        "2026-01-02T03:04:05Z ",
        "2026-01-02T03:04:05 Z",
        "2026-01-02T03:04:05,5Z",
        "2026-01-02_03:04:05Z",
        "20260102T030405Z",
        "2026-01-02T03:04:05UTC",
        "\xd9\xa2-01-02",
    };
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        check_refused(texts[i]);
}
END_TEST

START_TEST(every_truncation_is_a_date_or_refused)
{
    const char whole[] = "2026-01-02T03:04:05.678901+05:30";
    for (size_t len = 0; len < sizeof whole - 1; len++) {
        char text[sizeof whole] = "";
        int64_t us;
        memcpy(text, whole, len);
        bool number = len >= 1 && len <= 4; /* "2026" is a number */
        ck_assert_msg((time_parse(text, &us) == 0) == (number || len == 10), "%s", text);
    }
}
END_TEST

START_TEST(times_are_written_in_rfc_3339)
{
    ck_assert_str_eq(formatted(0), "1970-01-01T00:00:00.000000Z");
    ck_assert_str_eq(formatted(-1), "1969-12-31T23:59:59.999999Z");
    ck_assert_str_eq(formatted(1767323045000006), "2026-01-02T03:04:05.000006Z");
    ck_assert_str_eq(formatted(FIRST_S * SECOND_US), "0000-01-01T00:00:00.000000Z");
    ck_assert_str_eq(formatted(END_S * SECOND_US - 1), "9999-12-31T23:59:59.999999Z");
}
END_TEST

START_TEST(a_year_that_doesnt_fit_is_written_as_a_number)
{
    ck_assert_str_eq(formatted(FIRST_S * SECOND_US - 1), "-62167219200000001");
    ck_assert_str_eq(formatted(END_S * SECOND_US), "253402300800000000");
    ck_assert_str_eq(formatted(INT64_MAX), "9223372036854775807");
    ck_assert_str_eq(formatted(INT64_MIN), "-9223372036854775808");
    ck_assert_int_eq(parsed("0000-01-01T00:00:00+00:01"), (FIRST_S - 60) * SECOND_US);
    ck_assert_int_eq(parsed("9999-12-31T23:59:59-00:01"), (END_S + 59) * SECOND_US);
}
END_TEST

START_TEST(what_is_written_is_read_back)
{
    uint64_t state = 1;

    for (int i = 0; i < 300000; i++) {
        char text[TIME_FORMAT_MAX];
        int64_t us = (int64_t)random_u64(&state), back = 0;
        if (i % 2) /* within the years that have a form */
            us = FIRST_S * SECOND_US + (int64_t)random_below(&state, (uint64_t)(END_S - FIRST_S) * SECOND_US);
        ALWAYS(time_parse(time_format(us, text), &back) == 0 && back == us);
    }
}
END_TEST

/* The C library's calendar is the same, and by other arithmetic. */
static void check_day(int64_t seconds)
{
    char expected[TIME_FORMAT_MAX + 40], text[TIME_FORMAT_MAX];
    time_t t = (time_t)seconds;
    struct tm tm;

    ALWAYS(gmtime_r(&t, &tm) != NULL);
    snprintf(expected, sizeof expected, "%04d-%02d-%02dT%02d:%02d:%02d.000000Z", tm.tm_year + 1900,
             tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
    ALWAYS(strcmp(time_format(seconds * SECOND_US, text), expected) == 0);
}

START_TEST(the_calendar_is_that_of_the_c_library)
{
    uint64_t state = 2;

    for (int64_t year = 0; year < 10000; year++) { /* a day each side of February's end and of New Year */
        char text[TIME_FORMAT_MAX];
        int64_t us = 0;
        snprintf(text, sizeof text, "%04" PRId64 "-03-01", year);
        ALWAYS(time_parse(text, &us) == 0);
        check_day(us / SECOND_US);
        check_day(us / SECOND_US - 86400);
        snprintf(text, sizeof text, "%04" PRId64 "-01-01", year);
        ALWAYS(time_parse(text, &us) == 0);
        check_day(us / SECOND_US);
        if (year > 0)
            check_day(us / SECOND_US - 1);
    }
    for (int64_t day = 0; day < 366 * 400; day++) /* and every day of a whole cycle */
        check_day(FIRST_S + day * 86400 + (int64_t)random_below(&state, 86400));
    for (int i = 0; i < 100000; i++)
        check_day(FIRST_S + (int64_t)random_below(&state, (uint64_t)(END_S - FIRST_S)));
}
END_TEST

Suite *timefmt_suite(void);
Suite *timefmt_suite(void)
{
    Suite *s = suite_create("timefmt");
    TCase *t = tcase_create("timefmt");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, rfc_3339_is_read);
    tcase_add_test(t, a_date_is_its_midnight_utc);
    tcase_add_test(t, numbers_are_microseconds);
    tcase_add_test(t, digits_behind_the_microsecond_are_cut_off_towards_the_past);
    tcase_add_test(t, what_is_no_time_is_refused);
    tcase_add_test(t, every_truncation_is_a_date_or_refused);
    tcase_add_test(t, times_are_written_in_rfc_3339);
    tcase_add_test(t, a_year_that_doesnt_fit_is_written_as_a_number);
    tcase_add_test(t, what_is_written_is_read_back);
    tcase_add_test(t, the_calendar_is_that_of_the_c_library);
    suite_add_tcase(s, t);
    return s;
}
