#include "whereabouts.h"

#include "tempdir.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static struct whereabouts note = { "/dev/shm", { { 1, 2, 3, 0xab, 0xff } } };
static char path[600];

static const char *place(void)
{
    const char *dir = tempdir();
    snprintf(path, sizeof path, "%s/one.shm", dir);
    return dir;
}

static void put(const char *text, size_t len)
{
    unlink(path);
    FILE *f = fopen(path, "w");
    fwrite(text, 1, len, f);
    fclose(f);
    chmod(path, 0444);
}

START_TEST(what_was_written_is_read)
{
    struct whereabouts got;
    struct errmsg msg;
    const char *dir = place();

    ck_assert_int_eq(whereabouts_read(dir, "one", geteuid(), &got, &msg), -ENOENT);
    ck_assert_int_eq(whereabouts_write(dir, "one", &note, &msg), 0);
    ck_assert_int_eq(whereabouts_write(dir, "one", &note, &msg), 0);
    ck_assert_int_eq(whereabouts_read(dir, "one", geteuid(), &got, &msg), 0);
    ck_assert_str_eq(got.shm_dir, note.shm_dir);
    ck_assert(uuid_equal(&got.log, &note.log));
    ck_assert_int_eq(whereabouts_read(dir, "two", geteuid(), &got, &msg), -ENOENT);
}
END_TEST

START_TEST(every_truncation_and_a_longer_one_are_refused)
{
    struct whereabouts got;
    struct errmsg msg;
    char text[600];
    const char *dir = place();

    ck_assert_int_eq(whereabouts_write(dir, "one", &note, &msg), 0);
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    for (ssize_t len = 0; len < n; len++) {
        put(text, (size_t)len);
        ck_assert_int_eq(whereabouts_read(dir, "one", geteuid(), &got, &msg), SKADE_EDAMAGED);
    }
    text[n] = 'x';
    put(text, (size_t)n + 1);
    ck_assert_int_eq(whereabouts_read(dir, "one", geteuid(), &got, &msg), SKADE_EDAMAGED);
    text[n] = 0;
    text[25] = 0; /* a NUL inside */
    put(text, (size_t)n);
    ck_assert_int_eq(whereabouts_read(dir, "one", geteuid(), &got, &msg), SKADE_EDAMAGED);
}
END_TEST

START_TEST(what_isn_t_the_daemon_s_file_is_foreign_and_never_blocks)
{
    struct whereabouts got;
    struct errmsg msg;
    const char *dir = place();

    ck_assert_int_eq(mkfifo(path, 0644), 0);
    ck_assert_int_eq(whereabouts_read(dir, "one", geteuid(), &got, &msg), SKADE_EFOREIGN);
    unlink(path);
    ck_assert_int_eq(symlink("/etc/passwd", path), 0);
    ck_assert_int_eq(whereabouts_read(dir, "one", geteuid(), &got, &msg), -ELOOP);
    unlink(path);
    ck_assert_int_eq(whereabouts_write(dir, "one", &note, &msg), 0);
    chmod(path, 0666);
    ck_assert_int_eq(whereabouts_read(dir, "one", geteuid(), &got, &msg), SKADE_EFOREIGN);
    chmod(path, 0444);
    if (geteuid() != 0)
        ck_assert_int_eq(whereabouts_read(dir, "one", geteuid() + 1, &got, &msg), SKADE_EFOREIGN);
}
END_TEST

Suite *whereabouts_suite(void);
Suite *whereabouts_suite(void)
{
    Suite *s = suite_create("whereabouts");
    TCase *c = tcase_create("note");

    tcase_add_test(c, what_was_written_is_read);
    tcase_add_test(c, every_truncation_and_a_longer_one_are_refused);
    tcase_add_test(c, what_isn_t_the_daemon_s_file_is_foreign_and_never_blocks);
    suite_add_tcase(s, c);
    return s;
}
