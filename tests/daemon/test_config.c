#include "config.h"

#include "tempdir.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static struct config config;
static struct errmsg msg;

static void fresh(void)
{
    config_defaults(&config);
    msg.text[0] = 0;
}

static const char *write_file(const char *content)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/skaded.conf", tempdir());
    FILE *f = fopen(path, "w");
    fputs(content, f);
    fclose(f);
    return path;
}

START_TEST(a_value_replaces_the_default)
{
    fresh();
    ck_assert_int_eq(config.rebuild_threshold, 1024);
    ck_assert_int_eq(config_set(&config, "rebuild_threshold", "7", "--", &msg), 0);
    ck_assert_int_eq(config.rebuild_threshold, 7);
    ck_assert_int_eq(config_set(&config, "rebuild_idle", "3s", "--", &msg), 0);
    ck_assert_int_eq(config.rebuild_idle, 3000);
    ck_assert_int_eq(config_set(&config, "sync", "normal", "--", &msg), 0);
    ck_assert_int_eq(config.sync, SYNC_NORMAL);
}
END_TEST

static const char *const bad[][2] = {
    { "rebuild_threshold", "0" },
    { "rebuild_threshold", "1048577" },
    { "rebuild_threshold", "12x" },
    { "rebuild_threshold", "" },
    { "rebuild_idle", "5" },
    { "rebuild_idle", "-1s" },
    { "rebuild_idle", "999999999h" },
    { "sync", "sometimes" },
    { "sync", "" },
    { "sync", "full|normal" },
    { "read", "nobody-of-that-name" },
    { "read", "@no-such-group" },
    { "read", "-1" },
    { "read", "4294967295" },
    { "read", "4295032830" },
    { "read", "@4295032830" },
    { "read", "+1" },
    { "no_such_option", "1" },
    { "idle_timeout", "1ms" },
};

START_TEST(a_bad_value_is_refused_with_the_option_s_name)
{
    fresh();
    struct config before = config;
    ck_assert_int_eq(config_set(&config, bad[_i][0], bad[_i][1], "here", &msg), SKADE_EINPUT);
    ck_assert_ptr_nonnull(strstr(msg.text, bad[_i][0]));
    ck_assert_ptr_nonnull(strstr(msg.text, "here"));
    ck_assert_mem_eq(&before, &config, sizeof config);
}
END_TEST

START_TEST(a_file_is_read_and_errors_name_file_and_line)
{
    fresh();
    ck_assert_int_eq(
        config_read(&config, write_file("# comment\nrebuild_threshold = 99\n\nsync = normal ; why\n"), &msg),
        0);
    ck_assert_int_eq(config.rebuild_threshold, 99);
    fresh();
    ck_assert_int_lt(config_read(&config, write_file("sync = full\nbogus = 1\n"), &msg), 0);
    ck_assert_ptr_nonnull(strstr(msg.text, "line 2"));
    ck_assert_ptr_nonnull(strstr(msg.text, "skaded.conf"));
    fresh();
    ck_assert_int_lt(config_read(&config, write_file("[daemon]\nsync = full\n"), &msg), 0);
    ck_assert_int_eq(config_read(&config, "/nowhere/skaded.conf", &msg), -2);
}
END_TEST

static const char *write_bytes(const char *content, size_t len)
{
    const char *path = write_file("");
    FILE *f = fopen(path, "w");
    ck_assert_uint_eq(fwrite(content, 1, len, f), len);
    fclose(f);
    return path;
}

/* What the parser would cut at 200 bytes, or join. */
START_TEST(lines_that_would_be_read_as_others_are_refused)
{
    char comment[400], longest[200];

    snprintf(comment, sizeof comment, "parts_max = 3\n#%0198dwrite = *\n", 0);
    fresh();
    struct config before = config;
    ck_assert_int_eq(config_read(&config, write_file(comment), &msg), SKADE_EINPUT);
    ck_assert_ptr_nonnull(strstr(msg.text, "skaded.conf:2"));
    ck_assert_int_eq(config_read(&config, write_file("\nread = root,\n  nobody\n"), &msg), SKADE_EINPUT);
    ck_assert_ptr_nonnull(strstr(msg.text, "skaded.conf:3"));
    ck_assert_int_eq(config_read(&config, write_file("read = root,\n\tnobody"), &msg), SKADE_EINPUT);
    ck_assert_mem_eq(&before, &config, sizeof config);

    snprintf(longest, sizeof longest, "parts_max = %0186d", 3);
    ck_assert_uint_eq(strlen(longest), 198);
    ck_assert_int_eq(config_read(&config, write_file(longest), &msg), 0);
    ck_assert_int_eq(config_read(&config, write_file("   # a comment\n\t\n  \r\nparts_max = 4\r\n"), &msg),
                     0);
    ck_assert_int_eq(config.parts_max, 4);
}
END_TEST

START_TEST(what_is_no_text_file_is_refused)
{
    static char much[(1 << 20) + 1];

    fresh();
    struct config before = config;
    ck_assert_int_eq(config_read(&config, write_bytes("sync = full\nparts_max = 7\0 9\n", 29), &msg),
                     SKADE_EINPUT);
    ck_assert_ptr_nonnull(strstr(msg.text, "skaded.conf:2"));
    const char *dir = tempdir();
    ck_assert_int_eq(config_read(&config, dir, &msg), -EISDIR);
    ck_assert_ptr_nonnull(strstr(msg.text, dir));
    ck_assert_int_eq(config_read(&config, "/dev/zero", &msg), SKADE_EINPUT);
    memset(much, '\n', sizeof much);
    ck_assert_int_eq(config_read(&config, write_bytes(much, sizeof much), &msg), SKADE_EINPUT);
    ck_assert_ptr_nonnull(strstr(msg.text, "skaded.conf"));
    ck_assert_int_eq(config_read(&config, write_bytes(much, sizeof much - 1), &msg), 0);
    ck_assert_mem_eq(&before, &config, sizeof config);
}
END_TEST

START_TEST(what_is_printed_is_read_again)
{
    static char printed[65536];
    struct config again;

    fresh();
    ck_assert_int_eq(config_set(&config, "rebuild_idle", "90s", "--", &msg), 0);
    ck_assert_int_eq(config_set(&config, "read", "*", "--", &msg), 0);
    FILE *f = fmemopen(printed, sizeof printed, "w");
    config_print(&config, f);
    fclose(f);
    config_defaults(&again);
    ck_assert_msg(config_read(&again, write_file(printed), &msg) == 0, "%s", msg.text);
    ck_assert_mem_eq(&again, &config, sizeof config);
}
END_TEST

START_TEST(roles_come_from_users_groups_and_the_daemon_s_own_uid)
{
    fresh();
    gid_t groups[] = { 4000, 5000 };
    ck_assert_uint_eq(config_roles(&config, geteuid(), 1, NULL, 0), ROLE_READ | ROLE_WRITE | ROLE_ADMIN);
    ck_assert_uint_eq(config_roles(&config, 0, 0, NULL, 0), ROLE_READ | ROLE_WRITE | ROLE_ADMIN);
    ck_assert_uint_eq(config_roles(&config, 12345, 12345, groups, 2), 0);
    config_set(&config, "read", "@5000", "--", &msg);
    config_set(&config, "write", "12346", "--", &msg);
    ck_assert_uint_eq(config_roles(&config, 12345, 12345, groups, 2), ROLE_READ);
    ck_assert_uint_eq(config_roles(&config, 12345, 5000, NULL, 0), ROLE_READ);
    ck_assert_uint_eq(config_roles(&config, 12345, 12345, groups, 1), 0);
    ck_assert_uint_eq(config_roles(&config, 12346, 1, NULL, 0), ROLE_READ | ROLE_WRITE);
}
END_TEST

START_TEST(shared_memory_is_as_open_as_the_read_role)
{
    gid_t group;

    fresh();
    ck_assert_uint_eq(config_shm_mode(&config, &group), 0400);
    config_set(&config, "read", "@5000", "--", &msg);
    ck_assert_uint_eq(config_shm_mode(&config, &group), 0440);
    ck_assert_uint_eq(group, 5000);
    config_set(&config, "read", "*", "--", &msg);
    ck_assert_uint_eq(config_shm_mode(&config, &group), 0444);
}
END_TEST

START_TEST(paths_are_checked)
{
    fresh();
    config_set(&config, "run_dir", "relative", "--", &msg);
    ck_assert_int_eq(config_finish(&config, &msg), SKADE_EINPUT);
    fresh();
    config_set(&config, "instance", "Not Good", "--", &msg);
    ck_assert_int_eq(config_finish(&config, &msg), SKADE_EINPUT);
    fresh();
    config_set(&config, "run_dir",
               "/a-path-that-is-a-good-deal-longer-than-what-fits-into-the-address-of-a-socket-with-its-one-"
               "hundred-and-seven",
               "--", &msg);
    ck_assert_int_eq(config_finish(&config, &msg), SKADE_EINPUT);
    fresh();
    config_set(&config, "instance", "two", "--", &msg);
    config_set(&config, "data_dir", "/d", "--", &msg);
    ck_assert_int_eq(config_finish(&config, &msg), 0);
    ck_assert_str_eq(config.data_dir.text, "/d/two");
}
END_TEST

START_TEST(a_reload_changes_what_may_change)
{
    struct config running;

    config_defaults(&running);
    fresh();
    config_set(&config, "rebuild_threshold", "5", "--", &msg);
    ck_assert_uint_eq(config_reload(&running, &config, &msg), 0);
    ck_assert_str_eq(msg.text, "");
    ck_assert_int_eq(running.rebuild_threshold, 5);
    config_set(&config, "shm_dir", "/elsewhere", "--", &msg);
    config_set(&config, "sync", "normal", "--", &msg);
    ck_assert_uint_eq(config_reload(&running, &config, &msg), 2);
    ck_assert_str_eq(msg.text, "shm_dir, sync");
    ck_assert_str_eq(running.shm_dir.text, "/dev/shm");
}
END_TEST

Suite *config_suite(void);
Suite *config_suite(void)
{
    Suite *s = suite_create("config");
    TCase *c = tcase_create("config");

    tcase_add_test(c, a_value_replaces_the_default);
    tcase_add_loop_test(c, a_bad_value_is_refused_with_the_option_s_name, 0, (int)ARRAY_SIZE(bad));
    tcase_add_test(c, a_file_is_read_and_errors_name_file_and_line);
    tcase_add_test(c, lines_that_would_be_read_as_others_are_refused);
    tcase_add_test(c, what_is_no_text_file_is_refused);
    tcase_add_test(c, what_is_printed_is_read_again);
    tcase_add_test(c, roles_come_from_users_groups_and_the_daemon_s_own_uid);
    tcase_add_test(c, shared_memory_is_as_open_as_the_read_role);
    tcase_add_test(c, paths_are_checked);
    tcase_add_test(c, a_reload_changes_what_may_change);
    suite_add_tcase(s, c);
    return s;
}
