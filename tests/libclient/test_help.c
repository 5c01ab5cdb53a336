/*
 * Small helps, and the header itself: it must compile as C99 and as C++.
 */
#include "client.h"
#include "tempdir.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(uuids_are_read_as_they_are_written)
{
    unsigned char uuid[16], back[16];
    char text[37];

    for (int i = 0; i < 16; i++)
        uuid[i] = (unsigned char)(i * 17);
    ck_assert_str_eq(skade_uuid_format(uuid, text), "00112233-4455-6677-8899-aabbccddeeff");
    ck_assert_int_eq(skade_uuid_parse(text, back), 0);
    ck_assert_mem_eq(uuid, back, 16);
    ck_assert_int_eq(skade_uuid_parse("00112233-4455-6677-8899-AABBCCDDEEFF", back), 0);
    ck_assert_mem_eq(uuid, back, 16);
}
END_TEST

START_TEST(what_is_almost_a_uuid_is_none)
{
    const char good[] = "00112233-4455-6677-8899-aabbccddeeff";
    unsigned char ret[16] = { 1, 2, 3 };
    char text[40];

    for (size_t i = 0; i < sizeof good - 1; i++) {
        memcpy(text, good, sizeof good);
        text[i] = text[i] == '-' ? '0' : '-';
        ck_assert_int_eq(skade_uuid_parse(text, ret), SKADE_EINPUT);
        text[i] = 'g';
        ck_assert_int_eq(skade_uuid_parse(text, ret), SKADE_EINPUT);
        text[i] = 0;
        ck_assert_int_eq(skade_uuid_parse(text, ret), SKADE_EINPUT);
    }
    snprintf(text, sizeof text, "%s0", good);
    ck_assert_int_eq(skade_uuid_parse(text, ret), SKADE_EINPUT);
    ck_assert_int_eq(ret[2], 3);
}
END_TEST

START_TEST(names_and_times_and_errors_have_words)
{
    const char *why = NULL;
    int64_t t = 0;
    char text[32];

    ck_assert_int_eq(skade_name_check("shop.orders", &why), 0);
    ck_assert_ptr_null(why);
    ck_assert_int_eq(skade_name_check("shop..orders", &why), SKADE_EINPUT);
    ck_assert_ptr_nonnull(why);
    ck_assert_int_eq(skade_name_check("", NULL), SKADE_EINPUT);
    ck_assert_int_eq(skade_time_parse("2026-01-02T03:04:05.000006Z", &t), 0);
    ck_assert_str_eq(skade_time_format(t, text), "2026-01-02T03:04:05.000006Z");
    ck_assert_str_eq(skade_errname(SKADE_ECONFLICT), "ECONFLICT");
    ck_assert_str_eq(skade_errname(-ENOENT), "ENOENT");
    ck_assert(skade_strerror(SKADE_EEXPIRED)[0]);
    ck_assert_str_eq(skade_version(), SKADE_VERSION);
}
END_TEST

/* ---- the header ---------------------------------------------------------------------------------------- */

static const char user[] = "#include <skade.h>\n"
                           "int main(void)\n"
                           "{\n"
                           "    char where[SKADE_LOCATION_MAX + 1];\n"
                           "    struct skade_answer a = SKADE_ANSWER(where, sizeof where);\n"
                           "    struct skade_options o = { sizeof(struct skade_options), 0, 0, 0, 0, 0 };\n"
                           "    skade *s = 0;\n"
                           "    if (skade_open(&s, &o) < 0)\n"
                           "        return 1;\n"
                           "    int r = skade_resolve(s, 1, -1, &a);\n"
                           "    skade_close(s);\n"
                           "    return r == 1 ? 0 : SKADE_ENOSNAPSHOT == -5002;\n"
                           "}\n";

/* The directory with the public headers, beside the test program's build. */
static void include_dir(char *ret, size_t size)
{
    char self[400];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    ck_assert_int_gt(n, 0);
    self[n] = 0;
    for (int i = 0; i < 3; i++) { /* B/tests/check, or deeper: the first include/ on the way up */
        char *slash = strrchr(self, '/');
        ck_assert_ptr_nonnull(slash);
        *slash = 0;
        snprintf(ret, size, "%s/include/skade.h", self);
        if (access(ret, R_OK) == 0) {
            *strrchr(ret, '/') = 0;
            return;
        }
    }
    ck_abort_msg("no include/skade.h beside the test program");
}

static bool has_compiler(const char *name)
{
    char command[200];
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", name);
    return system(command) == 0;
}

static void compile(const char *compiler, const char *flags, const char *suffix)
{
    char dir[500], path[600], command[2000];

    if (!has_compiler(compiler)) {
        fprintf(stderr, "no %s here: the header was not tried with it\n", compiler);
        return;
    }
    include_dir(dir, sizeof dir);
    snprintf(path, sizeof path, "%s/user.%s", tempdir(), suffix);
    FILE *f = fopen(path, "we");
    ck_assert_ptr_nonnull(f);
    fputs(user, f);
    fclose(f);
    snprintf(command, sizeof command, "%s %s -Wall -Wextra -Werror -pedantic -fsyntax-only -I'%s' '%s'",
             compiler, flags, dir, path);
    ck_assert_msg(system(command) == 0, "%s", command);
}

START_TEST(the_header_is_c99)
{
    compile("cc", "-std=c99", "c");
    compile("clang", "-std=c99", "c");
}
END_TEST

START_TEST(the_header_is_cpp)
{
    compile("c++", "-std=c++11", "cc");
    compile("clang++", "-std=c++17", "cc");
}
END_TEST

Suite *client_help_suite(void);
Suite *client_help_suite(void)
{
    Suite *suite = suite_create("client_help");
    TCase *t = tcase_create("help");

    tcase_set_timeout(t, 300);
    tcase_add_test(t, uuids_are_read_as_they_are_written);
    tcase_add_test(t, what_is_almost_a_uuid_is_none);
    tcase_add_test(t, names_and_times_and_errors_have_words);
    tcase_add_test(t, the_header_is_c99);
    tcase_add_test(t, the_header_is_cpp);
    suite_add_tcase(suite, t);
    return suite;
}
