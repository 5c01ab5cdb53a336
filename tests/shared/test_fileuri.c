#include "fileuri.h"
#include "skade_errors.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>

static void check_back(const char *path, const char *uri)
{
    char made[256], back[256];

    ck_assert_int_eq(file_uri(made, sizeof made, path), (int)strlen(uri));
    ck_assert_str_eq(made, uri);
    ck_assert_int_eq(file_uri_path(back, sizeof back, bytes_of(made)), (int)strlen(path));
    ck_assert_str_eq(back, path);
}

START_TEST(paths_become_uris_and_paths_again)
{
    check_back("/data/tables/7/0/x.entries", "file:///data/tables/7/0/x.entries");
    check_back("/a b/100%/\xc3\xa4?#[", "file:///a%20b/100%25/%C3%A4%3F%23%5B");
    check_back("/", "file:///");
}
END_TEST

START_TEST(what_is_no_file_uri_is_refused)
{
    static const char *const bad[] = {
        "",           "file://",     "file://host/x", "s3://b/x",  "/x",          "file:///%",
        "file:///%4", "file:///%zz", "file:///%00",   "FILE:///x", "file:///a%0",
    };
    char path[64];

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ck_assert_msg(file_uri_path(path, sizeof path, bytes_of(bad[i])) == SKADE_EINPUT, "%s", bad[i]);
    ck_assert_int_eq(file_uri_path(path, sizeof path, (struct bytes){ "file:///a\0b", 11 }), SKADE_EINPUT);
}
END_TEST

START_TEST(a_buffer_that_is_too_small_is_said)
{
    char exact[sizeof "file:///ab"], path[sizeof "/ab"];

    for (size_t cap = 0; cap < sizeof exact; cap++)
        ck_assert_int_eq(file_uri(exact, cap, "/a\x01"), -ERANGE);
    for (size_t cap = 0; cap < sizeof path; cap++)
        ck_assert_int_eq(file_uri_path(path, cap, bytes_of("file:///ab")), -ERANGE);
    ck_assert_int_eq(file_uri_path(path, sizeof path, bytes_of("file:///ab")), 3);
}
END_TEST

Suite *fileuri_suite(void);
Suite *fileuri_suite(void)
{
    Suite *s = suite_create("fileuri");
    TCase *t = tcase_create("fileuri");

    tcase_add_test(t, paths_become_uris_and_paths_again);
    tcase_add_test(t, what_is_no_file_uri_is_refused);
    tcase_add_test(t, a_buffer_that_is_too_small_is_said);
    suite_add_tcase(s, t);
    return s;
}
