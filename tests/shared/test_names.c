#include "names.h"

#include "quick.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct shm_place place = { .dir = "/dev/shm", .instance = "default", .uid = 1000 };

static bool is_table_name(const char *name)
{
    return table_name_problem(bytes_of(name)) == NULL;
}

/* An encoder of our own: what it makes of a character, by the table of RFC 3629. */
static size_t encode(uint32_t c, char *to)
{
    if (c < 0x80)
        return to[0] = (char)c, 1;
    if (c < 0x800)
        return to[0] = (char)(0xc0 | c >> 6), to[1] = (char)(0x80 | (c & 0x3f)), 2;
    if (c < 0x10000)
        return to[0] = (char)(0xe0 | c >> 12), to[1] = (char)(0x80 | (c >> 6 & 0x3f)),
               to[2] = (char)(0x80 | (c & 0x3f)), 3;
    return to[0] = (char)(0xf0 | c >> 18), to[1] = (char)(0x80 | (c >> 12 & 0x3f)),
           to[2] = (char)(0x80 | (c >> 6 & 0x3f)), to[3] = (char)(0x80 | (c & 0x3f)), 4;
}

static bool is_allowed(uint32_t c)
{
    return c <= 0x10ffff && !(c >= 0xd800 && c <= 0xdfff) && c >= 0x20 && !(c >= 0x7f && c <= 0x9f);
}

START_TEST(ordinary_table_names_are_names)
{
    ck_assert(is_table_name("t"));
    ck_assert(is_table_name("warehouse.sales.orders"));
    ck_assert(is_table_name("a.b.c.d.e.f"));
    ck_assert(is_table_name("Umsätze.2026.Straße"));
    ck_assert(is_table_name("with blank.and-dash_and:colon\\backslash"));
    ck_assert(is_table_name("\xf0\x9f\xa6\x86.lake"));
}
END_TEST

START_TEST(what_is_no_table_name_is_told_why)
{
    ck_assert_str_eq(table_name_problem(bytes_of("")), "it is empty");
    ck_assert_str_eq(table_name_problem(bytes_of(".")), "it has an empty level");
    ck_assert_str_eq(table_name_problem(bytes_of(".a")), "it has an empty level");
    ck_assert_str_eq(table_name_problem(bytes_of("a.")), "it has an empty level");
    ck_assert_str_eq(table_name_problem(bytes_of("a..b")), "it has an empty level");
    ck_assert_str_eq(table_name_problem(bytes_of("a/b")), "it has a '/'");
    ck_assert_str_eq(table_name_problem(bytes_of("a\nb")), "it has a control character");
    ck_assert_str_eq(table_name_problem((struct bytes){ "a\0b", 3 }), "it has a control character");
    ck_assert_str_eq(table_name_problem(bytes_of("a\xff")), "it is not valid UTF-8");
}
END_TEST

START_TEST(length_is_counted_in_bytes)
{
    char name[1026];
    memset(name, 'x', sizeof name);
    ck_assert_ptr_null(table_name_problem((struct bytes){ name, 1024 }));
    ck_assert_str_eq(table_name_problem((struct bytes){ name, 1025 }), "it is longer than 1024 bytes");
    memcpy(name + 1022, "\xe2\x82\xac", 3); /* a character across the limit */
    ck_assert_str_eq(table_name_problem((struct bytes){ name, 1025 }), "it is longer than 1024 bytes");
}
END_TEST

START_TEST(locations_are_up_to_4096_bytes_of_text)
{
    static char location[4097];
    memset(location, 'x', sizeof location);
    ck_assert_ptr_null(location_problem((struct bytes){ location, 4096 }));
    ck_assert_str_eq(location_problem((struct bytes){ location, 4097 }), "it is longer than 4096 bytes");
    ck_assert_ptr_null(location_problem(bytes_of("s3://bucket/a b/../%20/00001-ä.metadata.json")));
    ck_assert_str_eq(location_problem(bytes_of("")), "it is empty");
    ck_assert_str_eq(location_problem((struct bytes){ "a\0", 2 }), "it has a control character");
    ck_assert_str_eq(location_problem(bytes_of("a\x7f")), "it has a control character");
    ck_assert_str_eq(location_problem(bytes_of("\xc2\x85")), "it has a control character");
    ck_assert_str_eq(location_problem(bytes_of("\xed\xa0\x80")), "it is not valid UTF-8");
}
END_TEST

START_TEST(every_character_is_judged_by_its_number)
{
    for (uint32_t c = 0; c < 0x200000; c++) {
        char text[6] = "x";
        size_t len = 1 + encode(c, text + 1);
        text[len++] = 'y';
        ALWAYS(!location_problem((struct bytes){ text, len }) == is_allowed(c));
    }
}
END_TEST

/* Every valid text of three bytes is counted, by arithmetic and by trying all of them: so nothing but the
 * encodings of allowed characters passes, whatever stands beside it. */
START_TEST(exactly_the_valid_texts_of_three_bytes_pass)
{
    const unsigned ascii = 0x7f - 0x20, two = 0x800 - 0x80 - 32, three = 0x10000 - 0x800 - 0x800;
    unsigned valid = 0;

    for (unsigned i = 0; i < 1u << 24; i++) {
        char text[3] = { (char)(i >> 16), (char)(i >> 8), (char)i };
        valid += !location_problem((struct bytes){ text, 3 });
    }
    ck_assert_uint_eq(valid, ascii * ascii * ascii + 2 * ascii * two + three);
}
END_TEST

START_TEST(a_text_that_ends_inside_a_character_is_refused)
{
    const char text[] = "\xf0\x9f\xa6\x86";
    for (size_t len = 1; len < 4; len++)
        ck_assert_str_eq(location_problem((struct bytes){ text, len }), "it is not valid UTF-8");
    ck_assert_ptr_null(location_problem((struct bytes){ text, 4 }));
}
END_TEST

START_TEST(instance_names_are_short_and_plain)
{
    ck_assert_ptr_null(instance_name_problem("default"));
    ck_assert_ptr_null(instance_name_problem("a-b_9"));
    ck_assert_ptr_null(instance_name_problem("01234567890123456789012345678901"));
    ck_assert_ptr_nonnull(instance_name_problem("012345678901234567890123456789012"));
    ck_assert_ptr_nonnull(instance_name_problem(""));
    for (int c = 1; c < 256; c++) {
        char name[] = { 'a', (char)c, 0 };
        bool allowed = strchr("abcdefghijklmnopqrstuvwxyz0123456789_-", c) != NULL;
        ck_assert_int_eq(instance_name_problem(name) == NULL, allowed);
    }
}
END_TEST

static void check_name(enum shm_kind kind, uint64_t epoch, uint64_t generation, const char *expected)
{
    char name[SHM_NAME_MAX];
    enum shm_kind k = SHM_KIND_END;
    uint64_t e = 1, g = 1;

    ck_assert_str_eq(shm_name(name, &place, kind, epoch, generation), expected);
    ck_assert(shm_name_parse(name, &place, &k, &e, &g));
    ck_assert_int_eq(k, kind);
    ck_assert_uint_eq(e, epoch);
    ck_assert_uint_eq(g, generation);
}

START_TEST(names_of_files_say_what_they_are)
{
    check_name(SHM_CONTROL, 0, 0, "skade.1000.default.v1.ctl");
    check_name(SHM_LOCK, 0, 0, "skade.1000.default.v1.lock");
    check_name(SHM_CONTROL_ALIAS, 0xabc, 0, "skade.1000.default.v1.0000000000000abc.ctl");
    check_name(SHM_ROOT, UINT64_MAX, 7, "skade.1000.default.v1.ffffffffffffffff.0000000000000007.root");
    check_name(SHM_PART, 1, UINT64_MAX, "skade.1000.default.v1.0000000000000001.ffffffffffffffff.part");
    check_name(SHM_TEMP, 1, 2, "skade.1000.default.v1.0000000000000001.0000000000000002.tmp");
}
END_TEST

START_TEST(look_alikes_are_not_parsed)
{
    static const char *const names[] = {
        "",
        "skade",
        "skade.1000.default.v1.",
        "skade.1000.default.v1.ctl ",
        " skade.1000.default.v1.ctl",
        "skade.1000.default.v1.ctl.",
        "skade.1000.default.v1.CTL",
        "skade.1000.default.v1.root",
        "skade.1000.default.v1.tmp",
        "skade.1000.default.v2.ctl",
        "skade.1000.default.v01.ctl",
        "skade.01000.default.v1.ctl",
        "skade.1001.default.v1.ctl",
        "skade.1000.default2.v1.ctl",
        "skade.1000.other.v1.ctl",
        "skade.1000.default.v1.lock.lock",
        "skade.1000.default.v1.0000000000000000.ctl",
        "skade.1000.default.v1.000000000000abc.ctl",
        "skade.1000.default.v1.0000000000000ABC.ctl",
        "skade.1000.default.v1.0x00000000000abc.ctl",
        "skade.1000.default.v1.0000000000000abg.ctl",
        "skade.1000.default.v1.00000000000000abc.ctl",
        "skade.1000.default.v1.0000000000000abc.root",
        "skade.1000.default.v1.0000000000000abc.lock",
        "skade.1000.default.v1.0000000000000abc..root",
        "skade.1000.default.v1.0000000000000abc.0000000000000000.root",
        "skade.1000.default.v1.0000000000000abc.0000000000000001.ctl",
        "skade.1000.default.v1.0000000000000abc.0000000000000001.root.bak",
        "skade.1000.default.v1.0000000000000abc.0000000000000001.0000000000000001.root",
        "skade.1000.default.v1.0000000000000abc.0000000000000001/root",
    };
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        enum shm_kind kind;
        uint64_t epoch, generation;
        ck_assert_msg(!shm_name_parse(names[i], &place, &kind, &epoch, &generation), "%s", names[i]);
    }
}
END_TEST

/* Whatever is parsed is what shm_name() makes of the results, so no other name means the same file. */
START_TEST(a_changed_name_is_another_name_or_none)
{
    uint64_t state = 1;

    for (int i = 0; i < 300000; i++) {
        char name[SHM_NAME_MAX], again[SHM_NAME_MAX];
        enum shm_kind kind = (enum shm_kind)random_below(&state, SHM_KIND_END);
        uint64_t epoch = random_u64(&state) | 1, generation = random_u64(&state) | 1;
        shm_name(name, &place, kind, epoch, generation);
        size_t at = random_below(&state, strlen(name));
        if (i % 2)
            name[at] = "0a.glrtx"[random_below(&state, 8)];
        else
            memmove(name + at, name + at + 1, strlen(name + at));
        if (shm_name_parse(name, &place, &kind, &epoch, &generation))
            ALWAYS(strcmp(shm_name(again, &place, kind, epoch ? epoch : 1, generation ? generation : 1),
                          name) == 0);
    }
}
END_TEST

START_TEST(the_longest_name_can_be_opened_by_shm_open)
{
    struct shm_place longest = { .uid = UINT32_MAX };
    char name[SHM_NAME_MAX + 1] = "/";

    memset(longest.instance, 'x', INSTANCE_MAX);
    shm_name(name + 1, &longest, SHM_PART, UINT64_MAX, UINT64_MAX);
    ck_assert_uint_lt(strlen(name), SHM_NAME_MAX);
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 && access("/dev/shm", W_OK) < 0) {
        printf("skipped: /dev/shm can't be written\n");
        return;
    }
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(shm_unlink(name), 0);
}
END_TEST

Suite *names_suite(void);
Suite *names_suite(void)
{
    Suite *s = suite_create("names");
    TCase *t = tcase_create("names");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, ordinary_table_names_are_names);
    tcase_add_test(t, what_is_no_table_name_is_told_why);
    tcase_add_test(t, length_is_counted_in_bytes);
    tcase_add_test(t, locations_are_up_to_4096_bytes_of_text);
    tcase_add_test(t, every_character_is_judged_by_its_number);
    tcase_add_test(t, exactly_the_valid_texts_of_three_bytes_pass);
    tcase_add_test(t, a_text_that_ends_inside_a_character_is_refused);
    tcase_add_test(t, instance_names_are_short_and_plain);
    tcase_add_test(t, names_of_files_say_what_they_are);
    tcase_add_test(t, look_alikes_are_not_parsed);
    tcase_add_test(t, a_changed_name_is_another_name_or_none);
    tcase_add_test(t, the_longest_name_can_be_opened_by_shm_open);
    suite_add_tcase(s, t);
    return s;
}
