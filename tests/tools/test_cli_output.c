/*
 * tools/output.c and tools/plain.c.
 */
#include <check.h>

#include "output.h"
#include "plain.h"

#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

struct capture {
    struct out out;
    FILE *file;
    char *text;
    size_t len;
};

static struct capture *capture(const char *columns, bool json, bool terminal)
{
    struct capture *c = calloc(1, sizeof *c);

    c->file = open_memstream(&c->text, &c->len);
    out_begin(&c->out, c->file, columns, json, terminal);
    return c;
}

static void assert_printed(struct capture *c, const char *wanted)
{
    fclose(c->file);
    ck_assert_str_eq(c->text, wanted);
    free(c->text);
    free(c);
}

static void print_all_kinds(struct out *o)
{
    out_text(o, "shop.orders");
    out_id(o, INT64_MIN);
    out_seq(o, UINT64_MAX);
    out_time(o, 5);
    out_count(o, UINT64_MAX);
    out_number(o, 1.25, 2);
    out_flag(o, true);
    out_absent(o);
    ck_assert_int_eq(out_row(o), 0);
}

START_TEST(text_is_columns_between_tabs)
{
    struct capture *c = capture("a b c d e f g h", false, false);

    print_all_kinds(&c->out);
    assert_printed(c, "shop.orders\t-9223372036854775808\t18446744073709551615\t1970-01-01T00:00:00.000005Z\t"
                      "18446744073709551615\t1.25\tyes\t-\n");
}
END_TEST

START_TEST(json_has_64_bit_values_as_strings_and_counts_as_numbers)
{
    struct capture *c = capture("a b c d e f g h", true, true);

    print_all_kinds(&c->out);
    assert_printed(
        c, "{\"a\":\"shop.orders\",\"b\":\"-9223372036854775808\",\"c\":\"18446744073709551615\",\"d\":\"5\","
           "\"e\":18446744073709551615,\"f\":1.25,\"g\":true,\"h\":null}\n");
}
END_TEST

START_TEST(a_header_is_printed_once_and_on_a_terminal_only)
{
    struct capture *c = capture("name +hidden value", false, true);

    for (int i = 0; i < 2; i++) {
        out_text(&c->out, "n");
        out_text(&c->out, "h");
        out_count(&c->out, 1);
        out_row(&c->out);
    }
    assert_printed(c, "name\tvalue\nn\t1\nn\t1\n");
}
END_TEST

START_TEST(a_plus_column_is_in_json_only)
{
    struct capture *c = capture("name +more", true, false);

    out_text(&c->out, "n");
    out_seq(&c->out, 0);
    out_row(&c->out);
    assert_printed(c, "{\"name\":\"n\",\"more\":null}\n");
}
END_TEST

START_TEST(nothing_is_printed_without_rows)
{
    assert_printed(capture("name value", false, true), "");
}
END_TEST

START_TEST(text_keeps_its_columns_whatever_a_value_holds)
{
    struct capture *c = capture("a b", false, false);

    out_text(&c->out,
             "tab\tnewline\nesc\x1b\x7f c1\xc2\x85 bad\xff\xc3 back\\slash \"q\" \xc3\xa4\xf0\x9f\x98\x80");
    out_text(&c->out, "");
    out_row(&c->out);
    assert_printed(c, "tab\\x09newline\\x0aesc\\x1b\\x7f c1\\xc2\\x85 bad\\xff\\xc3 back\\slash \"q\" "
                      "\xc3\xa4\xf0\x9f\x98\x80\t-\n");
}
END_TEST

START_TEST(json_escapes_what_must_be)
{
    struct capture *c = capture("a", true, false);

    out_text(&c->out, "\t\n\x01\x7f\" \\ / \xc2\x85 \xff \xed\xa0\x80 \xc3\xa4");
    out_row(&c->out);
    assert_printed(c, "{\"a\":\"\\u0009\\u000a\\u0001\\u007f\\\" \\\\ / \\u0085 \\ufffd "
                      "\\ufffd\\ufffd\\ufffd \xc3\xa4\"}\n");
}
END_TEST

/* The strings that yajl found. */
struct found {
    char text[4096];
    size_t len;
};

static int keep_string(void *arg, const unsigned char *text, size_t len)
{
    struct found *f = arg;

    memcpy(f->text, text, len);
    f->len = len;
    return 1;
}

static void parse(const char *json, size_t len, struct found *found)
{
    yajl_callbacks callbacks = { .yajl_string = keep_string };
    yajl_handle y = yajl_alloc(&callbacks, NULL, found);

    ck_assert_int_eq(yajl_parse(y, (const unsigned char *)json, len), yajl_status_ok);
    ck_assert_int_eq(yajl_complete_parse(y), yajl_status_ok);
    yajl_free(y);
}

static bool is_valid(const char *text)
{
    uint32_t code;

    for (size_t n; *text; text += n)
        if ((n = utf8_char(text, &code)) == 0)
            return false;
    return true;
}

START_TEST(any_bytes_become_json_that_parses_and_valid_text_comes_back)
{
    unsigned random = 12345;

    for (int round = 0; round < 3000; round++) {
        char text[64];
        size_t len = 1 + (size_t)round % 60;
        for (size_t i = 0; i < len; i++) {
            random = random * 1103515245 + 12345;
            text[i] = (char)(random >> 16 | ((random >> 16 & 0xff) == 0));
        }
        text[len] = 0;
        struct capture *c = capture("a", true, false);
        struct found found = { .len = 0 };
        out_text(&c->out, text);
        out_row(&c->out);
        fflush(c->file);
        parse(c->text, c->len, &found);
        if (is_valid(text)) {
            ck_assert_uint_eq(found.len, len);
            ck_assert_mem_eq(found.text, text, len);
        }
        fclose(c->file);
        free(c->text);
        free(c);
    }
}
END_TEST

START_TEST(every_ascii_character_comes_back_from_json)
{
    for (int b = 1; b < 0x80; b++) {
        char text[] = { 'a', (char)b, 'z', 0 };
        struct capture *c = capture("a", true, false);
        struct found found = { .len = 0 };
        out_text(&c->out, text);
        out_row(&c->out);
        fflush(c->file);
        parse(c->text, c->len, &found);
        ck_assert_uint_eq(found.len, 3);
        ck_assert_mem_eq(found.text, text, 3);
        fclose(c->file);
        free(c->text);
        free(c);
    }
}
END_TEST

START_TEST(a_row_that_can_not_be_written_is_an_error)
{
    struct out o;
    FILE *full = fopen("/dev/full", "we");

    ck_assert_ptr_nonnull(full);
    out_begin(&o, full, "a", false, false);
    out_text(&o, "x");
    out_row(&o);
    ck_assert_int_lt(out_flush(&o), 0);
    ck_assert_int_lt(o.error, 0);
    out_text(&o, "x");
    ck_assert_int_lt(out_row(&o), 0);
    fclose(full);
}
END_TEST

START_TEST(utf8_is_taken_as_the_standard_says)
{
    static const struct {
        const char *text;
        size_t len;
        uint32_t code;
    } cases[] = {
        { "a", 1, 'a' },
        { "\xc2\x80", 2, 0x80 },
        { "\xdf\xbf", 2, 0x7ff },
        { "\xe0\xa0\x80", 3, 0x800 },
        { "\xef\xbf\xbf", 3, 0xffff },
        { "\xf0\x90\x80\x80", 4, 0x10000 },
        { "\xf4\x8f\xbf\xbf", 4, 0x10ffff },
        { "\xc1\xbf", 0, 0 },         /* too long for its value */
        { "\xe0\x9f\xbf", 0, 0 },     /* too long */
        { "\xf0\x8f\xbf\xbf", 0, 0 }, /* too long */
        { "\xed\xa0\x80", 0, 0 },     /* half of a pair */
        { "\xf4\x90\x80\x80", 0, 0 }, /* beyond Unicode */
        { "\xf8\x90\x80\x80", 0, 0 },
        { "\xc3", 0, 0 }, /* cut off */
        { "\xe2\x82", 0, 0 },
        { "\x80", 0, 0 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t code = 0;
        ck_assert_uint_eq(utf8_char(cases[i].text, &code), cases[i].len);
        ck_assert_uint_eq(code, cases[i].code);
    }
}
END_TEST

START_TEST(a_message_never_overflows_and_ends_in_dots)
{
    char text[300], shown[64];

    for (size_t len = 0; len < sizeof text; len++) {
        memset(text, len % 2 ? 'x' : '\x01', len);
        text[len] = 0;
        memset(shown, 'S', sizeof shown);
        plain(text, shown, 40);
        ck_assert_uint_lt(strlen(shown), 40);
        ck_assert_int_eq(shown[40], 'S');
        if (len > 40)
            ck_assert_str_eq(shown + strlen(shown) - 3, "...");
    }
}
END_TEST

Suite *cli_output_suite(void);

Suite *cli_output_suite(void)
{
    Suite *s = suite_create("cli_output");
    TCase *t = tcase_create("cli_output");

    tcase_add_test(t, text_is_columns_between_tabs);
    tcase_add_test(t, json_has_64_bit_values_as_strings_and_counts_as_numbers);
    tcase_add_test(t, a_header_is_printed_once_and_on_a_terminal_only);
    tcase_add_test(t, a_plus_column_is_in_json_only);
    tcase_add_test(t, nothing_is_printed_without_rows);
    tcase_add_test(t, text_keeps_its_columns_whatever_a_value_holds);
    tcase_add_test(t, json_escapes_what_must_be);
    tcase_add_test(t, any_bytes_become_json_that_parses_and_valid_text_comes_back);
    tcase_add_test(t, every_ascii_character_comes_back_from_json);
    tcase_add_test(t, a_row_that_can_not_be_written_is_an_error);
    tcase_add_test(t, utf8_is_taken_as_the_standard_says);
    tcase_add_test(t, a_message_never_overflows_and_ends_in_dots);
    suite_add_tcase(s, t);
    return s;
}
