#include "part_view.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#define UUID "6f0e4c1d-0123-4567-89ab-cdef00112233"
#define PLAIN "6f0e4c1d0123456789abcdef00112233"

/* ck_assert() notes every call in a file; this one is for loops of millions. */
#define ALWAYS(condition) ((condition) ? (void)0 : ck_abort_msg("%s", #condition))

static uint64_t state = 1;
static uint64_t next_random(void)
{
    state += 0x9e3779b97f4a7c15ull;
    return mix64(state);
}

/* Render by every instruction set; nothing in front or behind may be written. */
static void check_render(const struct template *t, const struct template_values *values,
                         struct bytes expected)
{
    for (enum part_isa isa = PART_SCALAR; isa <= PART_AVX512; isa++) {
        if (!part_isa_has(isa))
            continue;
        char *buf = malloc(expected.len + 128);
        memset(buf, '~', expected.len + 128);
        part_render *render = part_kernel_of(isa)->render;
        if (expected.len > 0)
            ALWAYS(render(t, values->number, values->uuid.b, buf + 64, expected.len - 1) == expected.len);
        ALWAYS(buf[64] == '~');
        ALWAYS(render(t, values->number, values->uuid.b, buf + 64, expected.len) == expected.len);
        ALWAYS(bytes_equal((struct bytes){ buf + 64, expected.len }, expected));
        for (size_t i = 0; i < 64; i++)
            ALWAYS(buf[i] == '~' && buf[64 + expected.len + i] == '~');
        free(buf);
    }
}

static bool fits(const char *made_of, const char *location)
{
    struct template t = template_of(bytes_of(made_of));
    struct template_values values;
    if (!template_fit(&t, bytes_of(location), &values))
        return false;
    check_render(&t, &values, bytes_of(location));
    return true;
}

static struct template look(const char *location, const char *prefix, const char *suffix, unsigned shape)
{
    struct template t = template_of(bytes_of(location));
    ck_assert(bytes_equal((struct bytes){ t.prefix, t.prefix_len }, bytes_of(prefix)));
    ck_assert(bytes_equal((struct bytes){ t.suffix, t.suffix_len }, bytes_of(suffix)));
    ck_assert_uint_eq(t.shape, shape);
    ck_assert(fits(location, location));
    return t;
}

START_TEST(known_looks_are_recognized)
{
    struct template t = look("s3://b/w/t/metadata/00012-" UUID ".metadata.json", "s3://b/w/t/metadata/",
                             ".metadata.json", TEMPLATE_NUMBER | TEMPLATE_SEPARATOR | TEMPLATE_DASHED);
    ck_assert_uint_eq(t.width, 5);
    ck_assert_int_eq(t.separator, '-');
    look("file:///t/metadata/v12.metadata.json", "file:///t/metadata/v", ".metadata.json", TEMPLATE_NUMBER);
    look("/t/" PLAIN ".gz", "/t/", ".gz", TEMPLATE_PLAIN);
    look("/t/7_" PLAIN, "/t/", "", TEMPLATE_NUMBER | TEMPLATE_SEPARATOR | TEMPLATE_PLAIN);
    look("/t/x" UUID ".json", "/t/x", ".json", TEMPLATE_DASHED);
    look("/tbl-" UUID "/v3.json", "/tbl-" UUID "/v", ".json", TEMPLATE_NUMBER);
    look("/t/nothing.json", "/t/nothing.json", "", 0);
    look("/only/folders/", "/only/folders/", "", 0);
    look("", "", "", 0);
    look("12", "", "", TEMPLATE_NUMBER);
    look(UUID, "", "", TEMPLATE_DASHED);
}
END_TEST

START_TEST(later_locations_fit_the_template_of_an_earlier_one)
{
    ck_assert(fits("/m/00012-" UUID ".json", "/m/00013-00000000-0000-0000-0000-000000000000.json"));
    ck_assert(fits("/m/00012-" UUID ".json", "/m/99999-ffffffff-ffff-ffff-ffff-ffffffffffff.json"));
    ck_assert(fits("/m/00012-" UUID ".json", "/m/123456-" UUID ".json"));
    ck_assert(fits("/m/v9.json", "/m/v10.json"));
    ck_assert(fits("/m/v9.json", "/m/v0.json"));
    ck_assert(fits("/m/v9.json", "/m/v7999999.json"));
    ck_assert(fits("/m/same.json", "/m/same.json"));
}
END_TEST

START_TEST(what_would_render_differently_does_not_fit)
{
    ck_assert(!fits("/m/00012-" UUID ".json", "/m/0012-" UUID ".json"));
    ck_assert(!fits("/m/00012-" UUID ".json", "/m/000012-" UUID ".json"));
    ck_assert(!fits("/m/00012-" UUID ".json", "/m/00012_" UUID ".json"));
    ck_assert(!fits("/m/00012-" UUID ".json", "/m/00012-6F0e4c1d-0123-4567-89ab-cdef00112233.json"));
    ck_assert(!fits("/m/00012-" UUID ".json", "/m/00012-" PLAIN ".json"));
    ck_assert(!fits("/m/00012-" UUID ".json", "/m/00012-" UUID ".jsom"));
    ck_assert(!fits("/m/00012-" UUID ".json", "/n/00012-" UUID ".json"));
    ck_assert(!fits("/m/00012-" UUID ".json", "/m/-" UUID ".json"));
    ck_assert(!fits("/m/00012-" UUID ".json", "/m/+0012-" UUID ".json"));
    ck_assert(!fits("/m/00012-" UUID ".json", "/m/.json"));
    ck_assert(!fits("/m/00012-" UUID ".json", ""));
    ck_assert(!fits("/m/v9.json", "/m/v09.json"));
    ck_assert(!fits("/m/v9.json", "/m/v.json"));
    ck_assert(!fits("/m/v9.json", "/m/v8000000.json"));
    ck_assert(!fits("/m/v9.json", "/m/v9999999999999999999999.json"));
    ck_assert(!fits("/m/same.json", "/m/other.json"));
    ck_assert(!fits("aa-" UUID "aa", "aa"));
}
END_TEST

START_TEST(padding_is_learnt_from_whoever_shows_it)
{
    struct template wide = template_of(bytes_of("/m/00012-" UUID ".json"));
    struct template narrow = template_of(bytes_of("/m/12345-" UUID ".json"));
    struct template other = template_of(bytes_of("/n/12345-" UUID ".json"));
    struct template_values values;
    ck_assert(!template_fit(&narrow, bytes_of("/m/00001-" UUID ".json"), &values));
    ck_assert(!template_equal(&narrow, &wide));
    ck_assert(template_join(&narrow, &wide));
    ck_assert(template_equal(&narrow, &wide));
    ck_assert(template_fit(&narrow, bytes_of("/m/00001-" UUID ".json"), &values));
    ck_assert(template_fit(&narrow, bytes_of("/m/12345-" UUID ".json"), &values));
    ck_assert(!template_join(&narrow, &other));
}
END_TEST

static uint32_t digits_of(uint32_t number)
{
    uint32_t digits = 0;
    for (unsigned shift = 0; number; number /= 10, shift += 4)
        digits |= number % 10 << shift;
    return digits;
}

START_TEST(every_number_and_width_renders_as_printf_does)
{
    static const uint32_t numbers[] = {
        0,     1,     9,     10,     99,     100,     999,     1000,           9999,
        10000, 12345, 99999, 100000, 999999, 1000000, 7000000, PART_NUMBER_MAX
    };
    for (unsigned width = 1; width <= 20; width++) {
        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
            for (unsigned shape = TEMPLATE_NUMBER; shape <= (TEMPLATE_NUMBER | TEMPLATE_DASHED);
                 shape += TEMPLATE_DASHED) {
                char expected[100];
                int len = snprintf(expected, sizeof expected, "%0*u%s", (int)width, numbers[i],
                                   shape & TEMPLATE_DASHED ? UUID : "");
                struct template t = {
                    .prefix = "", .suffix = "", .width = (uint8_t)width, .shape = (uint8_t)shape
                };
                struct template_values values;
                ALWAYS(template_fit(&t, (struct bytes){ expected, (size_t)len }, &values));
                ALWAYS(values.number == digits_of(numbers[i]));
                check_render(&t, &values, (struct bytes){ expected, (size_t)len });
            }
        }
    }
    for (uint32_t number = 0; number < 100000; number++) {
        char expected[16];
        int len = snprintf(expected, sizeof expected, "%05u...", number);
        struct template t = {
            .prefix = "", .suffix = "...", .suffix_len = 3, .width = 5, .shape = TEMPLATE_NUMBER
        };
        check_render(&t, &(struct template_values){ .number = digits_of(number) },
                     (struct bytes){ expected, (size_t)len });
    }
}
END_TEST

START_TEST(every_length_of_prefix_and_suffix_is_copied_exactly)
{
    static char text[512];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i % 26);
    for (uint16_t prefix = 0; prefix <= 200; prefix++) {
        for (uint16_t suffix = 0; suffix <= 70; suffix += 5) {
            char expected[512];
            struct template t = { .prefix = text,
                                  .prefix_len = prefix,
                                  .suffix = text + 300,
                                  .suffix_len = suffix,
                                  .width = 5,
                                  .separator = '-',
                                  .shape = TEMPLATE_NUMBER | TEMPLATE_SEPARATOR | TEMPLATE_DASHED };
            int len = snprintf(expected, sizeof expected, "%.*s00042-" UUID "%.*s", prefix, text, suffix,
                               text + 300);
            struct template_values values;
            ALWAYS(template_fit(&t, (struct bytes){ expected, (size_t)len }, &values));
            check_render(&t, &values, (struct bytes){ expected, (size_t)len });
        }
    }
}
END_TEST

/* Whatever a location is: what is said to fit renders to the same bytes. */
START_TEST(random_locations_fit_only_what_renders_the_same)
{
    static const char *const pieces[] = { UUID, PLAIN,      "-",     "/", "0", "00012", "7",
                                          "a",  "metadata", ".json", "F", "_", "\xff" };
    for (int round = 0; round < 200000; round++) {
        char text[2][400];
        for (int k = 0; k < 2; k++) {
            text[k][0] = '\0';
            for (uint64_t n = next_random() % 6; n > 0; n--)
                strcat(text[k], pieces[next_random() % ARRAY_SIZE(pieces)]);
        }
        ALWAYS(fits(text[0], text[0]));
        (void)fits(text[0], text[1]);
    }
}
END_TEST

Suite *template_suite(void);
Suite *template_suite(void)
{
    Suite *suite = suite_create("template");
    TCase *tcase = tcase_create("template");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, known_looks_are_recognized);
    tcase_add_test(tcase, later_locations_fit_the_template_of_an_earlier_one);
    tcase_add_test(tcase, what_would_render_differently_does_not_fit);
    tcase_add_test(tcase, padding_is_learnt_from_whoever_shows_it);
    tcase_add_test(tcase, every_number_and_width_renders_as_printf_does);
    tcase_add_test(tcase, every_length_of_prefix_and_suffix_is_copied_exactly);
    tcase_add_test(tcase, random_locations_fit_only_what_renders_the_same);
    suite_add_tcase(suite, tcase);
    return suite;
}
