/*
 * tools/args.c, tools/exits.c and the table of commands.
 */
#include <check.h>

#include "args.h"
#include "command.h"
#include "ctl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct option_spec common[] = { { "json", NULL, "" },
                                             { "timeout", "SECONDS", "" },
                                             { NULL, NULL, NULL } };
static const struct option_spec special[] = {
    { "snapshot", "ID", "" }, { "base", "LOCATION|-", "" }, { "watch", "[SECONDS]", "" }, { NULL, NULL, NULL }
};

#define PARSE(a, ...) parse(a, (const char *const[]){ __VA_ARGS__, NULL })

/* A's operands live until the next call. */
static int parse(struct args *a, const char *const *arguments)
{
    static char *argv[16];
    int n = 0;

    for (; arguments[n]; n++)
        argv[n] = (char *)(uintptr_t)arguments[n];
    *a = (struct args){ .common = common, .special = special };
    return args_parse(a, n, argv, false);
}

static void assert_operands(const struct args *a, const char *joined)
{
    char text[256] = "";

    for (int i = 0; i < a->count; i++) {
        strcat(text, i ? " " : "");
        strcat(text, a->operands[i]);
    }
    ck_assert_str_eq(text, joined);
}

START_TEST(a_dash_and_digits_is_an_operand)
{
    struct args a;

    ck_assert_int_eq(PARSE(&a, "-5", "t", "-9223372036854775808", "-"), 0);
    assert_operands(&a, "-5 t -9223372036854775808 -");
}
END_TEST

START_TEST(options_stand_anywhere_and_take_values_both_ways)
{
    struct args a;

    ck_assert_int_eq(PARSE(&a, "t", "--snapshot", "-7", "where", "--base=-", "--json"), 0);
    assert_operands(&a, "t where");
    ck_assert_str_eq(args_value(&a, "snapshot"), "-7");
    ck_assert_str_eq(args_value(&a, "base"), "-");
    ck_assert(args_flag(&a, "json"));
    ck_assert_ptr_null(args_value(&a, "timeout"));
}
END_TEST

START_TEST(a_value_may_look_like_an_option_or_be_empty)
{
    struct args a;

    ck_assert_int_eq(PARSE(&a, "--base", "--json", "--snapshot="), 0);
    ck_assert_str_eq(args_value(&a, "base"), "--json");
    ck_assert_str_eq(args_value(&a, "snapshot"), "");
    ck_assert(!args_flag(&a, "json"));
}
END_TEST

START_TEST(two_dashes_end_the_options)
{
    struct args a;

    ck_assert_int_eq(PARSE(&a, "--json", "--", "--snapshot", "--", "-x"), 0);
    assert_operands(&a, "--snapshot -- -x");
}
END_TEST

START_TEST(an_optional_value_is_taken_when_it_is_a_number)
{
    struct args a;

    ck_assert_int_eq(PARSE(&a, "--watch", "0.5", "x"), 0);
    ck_assert_str_eq(args_value(&a, "watch"), "0.5");
    assert_operands(&a, "x");
    ck_assert_int_eq(PARSE(&a, "--watch", "commits*"), 0);
    ck_assert_str_eq(args_value(&a, "watch"), "");
    assert_operands(&a, "commits*");
    ck_assert_int_eq(PARSE(&a, "--watch"), 0);
    ck_assert(args_flag(&a, "watch"));
}
END_TEST

START_TEST(what_makes_no_sense_is_named)
{
    static const struct {
        const char *args[3]; /* NULL ends them */
        const char *problem;
    } cases[] = {
        { { "--snapshots", "1" }, "unknown option --snapshots" },
        { { "-s" }, "unknown option -s" },
        { { "-1x" }, "unknown option -1x" },
        { { "---" }, "unknown option ---" },
        { { "--=5" }, "unknown option --=5" },
        { { "--a\x01\xff" }, "unknown option --a\\x01\\xff" },
        { { "--snapshot" }, "--snapshot needs a value: --snapshot ID" },
        { { "--json=yes" }, "--json takes no value" },
        { { "--json", "--json" }, "--json is given twice" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct args a;
        ck_assert_int_eq(parse(&a, cases[i].args), -EINVAL);
        ck_assert_str_eq(a.problem, cases[i].problem);
    }
}
END_TEST

START_TEST(an_endless_option_is_shown_cut_off)
{
    struct args a;
    char *endless = malloc(10000);

    memset(endless, '-', 9999);
    endless[9999] = 0;
    ck_assert_int_eq(PARSE(&a, endless), -EINVAL);
    ck_assert_uint_lt(strlen(a.problem), 200);
    ck_assert_str_eq(a.problem + strlen(a.problem) - 3, "...");
    free(endless);
}
END_TEST

START_TEST(the_first_operand_stops_when_told_to)
{
    struct args a = { .common = common };
    char *argv[] = { (char *)(uintptr_t) "--json", (char *)(uintptr_t) "head",
                     (char *)(uintptr_t) "--whatever" };

    ck_assert_int_eq(args_parse(&a, 3, argv, true), 0);
    assert_operands(&a, "head --whatever");
    ck_assert(args_flag(&a, "json"));
}
END_TEST

START_TEST(arity_comes_from_the_synopsis)
{
    static const struct {
        const char *synopsis;
        int min, max;
    } cases[] = {
        { "", 0, 0 },
        { "TABLE", 1, 1 },
        { "[FILE]", 0, 1 },
        { "A B", 2, 2 },
        { "PATH...", 1, INT32_MAX },
        { "[GLOB...]", 0, INT32_MAX },
        { "T ID...", 2, INT32_MAX },
        { "[T ID...]", 0, INT32_MAX },
        { "A [B]", 1, 2 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int min, max;
        args_arity(cases[i].synopsis, &min, &max);
        ck_assert_int_eq(min, cases[i].min);
        ck_assert_int_eq(max, cases[i].max);
    }
}
END_TEST

START_TEST(int64_is_taken_in_its_full_range_and_no_further)
{
    static const struct {
        const char *text;
        int result;
        int64_t value;
    } cases[] = {
        { "0", 0, 0 },
        { "-0", 0, 0 },
        { "007", 0, 7 },
        { "9223372036854775807", 0, INT64_MAX },
        { "-9223372036854775808", 0, INT64_MIN },
        { "9223372036854775808", -ERANGE, 0 },
        { "-9223372036854775809", -ERANGE, 0 },
        { "9876543210123456789", -ERANGE, 0 },
        { "99999999999999999999999999", -ERANGE, 0 },
        { "", -EINVAL, 0 },
        { "-", -EINVAL, 0 },
        { "+1", -EINVAL, 0 },
        { " 1", -EINVAL, 0 },
        { "1 ", -EINVAL, 0 },
        { "1e3", -EINVAL, 0 },
        { "0x10", -EINVAL, 0 },
        { "--1", -EINVAL, 0 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t value = 4711;
        ck_assert_int_eq(parse_int64(cases[i].text, &value), cases[i].result);
        ck_assert_int_eq(value, cases[i].result == 0 ? cases[i].value : 4711);
    }
}
END_TEST

START_TEST(uint64_is_taken_in_its_full_range_and_no_further)
{
    uint64_t value = 0;

    ck_assert_int_eq(parse_uint64("18446744073709551615", &value), 0);
    ck_assert_uint_eq(value, UINT64_MAX);
    ck_assert_int_eq(parse_uint64("18446744073709551616", &value), -ERANGE);
    ck_assert_int_eq(parse_uint64("-1", &value), -ERANGE);
    ck_assert_int_eq(parse_uint64("-", &value), -EINVAL);
    ck_assert_int_eq(parse_uint64("", &value), -EINVAL);
}
END_TEST

START_TEST(seconds_may_have_a_fraction)
{
    static const struct {
        const char *text;
        int result, ms;
    } cases[] = {
        { "5", 0, 5000 },
        { "0.25", 0, 250 },
        { "2.0009", 0, 2000 },
        { "0.001", 0, 1 },
        { "0", -ERANGE, 0 },
        { "0.0", -ERANGE, 0 },
        { "1.", -EINVAL, 0 },
        { ".5", -EINVAL, 0 },
        { "1,5", -EINVAL, 0 },
        { "", -EINVAL, 0 },
        { "-1", -EINVAL, 0 },
        { "1.2.3", -EINVAL, 0 },
        { "99999999999999999999", -ERANGE, 0 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int ms = 0;
        ck_assert_int_eq(parse_seconds(cases[i].text, &ms), cases[i].result);
        ck_assert_int_eq(ms, cases[i].ms);
    }
}
END_TEST

START_TEST(every_error_has_the_exit_code_that_is_promised)
{
    static const struct {
        int code, exit;
    } cases[] = {
        { 0, 0 },
        { 1, 0 },
        { -EIO, 1 },
        { SKADE_EDAMAGED, 1 },
        { SKADE_EINPUT, 2 },
        { SKADE_EKIND, 2 },
        { SKADE_ENOTABLE, 3 },
        { SKADE_ENOSNAPSHOT, 3 },
        { SKADE_ECONFLICT, 4 },
        { SKADE_EEXISTS, 4 },
        { SKADE_EUNREACHABLE, 5 },
        { SKADE_EEXPIRED, 6 },
        { SKADE_ETIMEOUT, 7 },
        { SKADE_EDENIED, 8 },
        { -EACCES, 8 },
        { -123456, 1 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_int_eq(exit_of(cases[i].code), cases[i].exit);
}
END_TEST

START_TEST(of_several_answers_unreachable_then_missing_then_expired_counts)
{
    static const int order[] = { CTL_OK, CTL_EXPIRED, CTL_MISSING, CTL_UNREACHABLE };

    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            ck_assert_int_eq(exit_worse(order[a], order[b]), order[a > b ? a : b]);
}
END_TEST

START_TEST(help_tells_every_command_and_option)
{
    char *text;
    size_t len;
    FILE *f = open_memstream(&text, &len);

    commands_help(f);
    for (const struct command *c = commands; c->name; c++)
        command_help(f, c);
    fclose(f);
    for (const struct command *c = commands; c->name; c++) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "\n  %s ", c->name);
        ck_assert_msg(strstr(text, wanted) != NULL, "%s isn't listed", c->name);
        snprintf(wanted, sizeof wanted, "Usage: skadectl %s", c->name);
        ck_assert_msg(strstr(text, wanted) != NULL, "%s isn't explained", c->name);
        for (const struct option_spec *o = c->options; o->name; o++) {
            snprintf(wanted, sizeof wanted, "\n  --%s ", o->name);
            ck_assert_msg(strstr(text, wanted) != NULL, "%s --%s isn't explained", c->name, o->name);
        }
    }
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
        ck_assert_msg(end - line <= 140, "too wide: %.*s", (int)(end - line), line);
    free(text);
}
END_TEST

START_TEST(no_option_of_a_command_hides_a_global_one)
{
    for (const struct command *c = commands; c->name; c++)
        for (const struct option_spec *o = c->options; o->name; o++)
            for (const struct option_spec *g = global_options; g->name; g++)
                ck_assert_str_ne(o->name, g->name);
}
END_TEST

Suite *cli_args_suite(void);

Suite *cli_args_suite(void)
{
    Suite *s = suite_create("cli_args");
    TCase *t = tcase_create("cli_args");

    tcase_add_test(t, a_dash_and_digits_is_an_operand);
    tcase_add_test(t, options_stand_anywhere_and_take_values_both_ways);
    tcase_add_test(t, a_value_may_look_like_an_option_or_be_empty);
    tcase_add_test(t, two_dashes_end_the_options);
    tcase_add_test(t, an_optional_value_is_taken_when_it_is_a_number);
    tcase_add_test(t, what_makes_no_sense_is_named);
    tcase_add_test(t, an_endless_option_is_shown_cut_off);
    tcase_add_test(t, the_first_operand_stops_when_told_to);
    tcase_add_test(t, arity_comes_from_the_synopsis);
    tcase_add_test(t, int64_is_taken_in_its_full_range_and_no_further);
    tcase_add_test(t, uint64_is_taken_in_its_full_range_and_no_further);
    tcase_add_test(t, seconds_may_have_a_fraction);
    tcase_add_test(t, every_error_has_the_exit_code_that_is_promised);
    tcase_add_test(t, of_several_answers_unreachable_then_missing_then_expired_counts);
    tcase_add_test(t, help_tells_every_command_and_option);
    tcase_add_test(t, no_option_of_a_command_hides_a_global_one);
    suite_add_tcase(s, t);
    return s;
}
