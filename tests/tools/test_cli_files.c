/*
 * tools/lines.c, tools/new_file.c and tools/name_cache.c.
 */
#include <check.h>

#include "lines.h"
#include "name_cache.h"
#include "new_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- lines ---- */

/* A file without a name that holds LEN bytes of TEXT, to be read from the start. */
static int file_of(const char *text, size_t len)
{
    FILE *f = tmpfile();
    ck_assert_ptr_nonnull(f);
    int fd = dup(fileno(f));

    fclose(f);
    ck_assert_int_eq(write(fd, text, len), (ssize_t)len);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

START_TEST(lines_of_every_length_come_back)
{
    static char text[400000], line[1001];
    size_t len = 0;

    for (size_t n = 0; n <= 800; n++) {
        memset(text + len, 'a' + (int)(n % 26), n);
        text[len + n] = '\n';
        len += n + 1;
    }
    int fd = file_of(text, len);
    struct lines l;
    ck_assert_int_eq(lines_open(&l, fd, 800), 0);
    for (size_t n = 0; n <= 800; n++) {
        char *got;
        size_t got_len;
        ck_assert_int_eq(lines_next(&l, &got, &got_len), 1);
        memset(line, 'a' + (int)(n % 26), n);
        line[n] = 0;
        ck_assert_uint_eq(got_len, n);
        ck_assert_str_eq(got, line);
        ck_assert_uint_eq(l.number, n + 1);
    }
    char *end;
    ck_assert_int_eq(lines_next(&l, &end, NULL), 0);
    lines_close(&l);
    close(fd);
}
END_TEST

START_TEST(the_last_line_may_lack_its_newline_and_a_line_may_have_nuls)
{
    int fd = file_of("a\0b\nlast", 8);
    struct lines l;
    char *got;
    size_t len;

    ck_assert_int_eq(lines_open(&l, fd, 10), 0);
    ck_assert_int_eq(lines_next(&l, &got, &len), 1);
    ck_assert_uint_eq(len, 3);
    ck_assert_int_eq(lines_next(&l, &got, &len), 1);
    ck_assert_str_eq(got, "last");
    ck_assert_int_eq(lines_next(&l, &got, &len), 0);
    lines_close(&l);
    close(fd);
}
END_TEST

START_TEST(a_line_that_is_too_long_is_refused_with_and_without_an_end)
{
    for (int newline = 0; newline < 2; newline++) {
        size_t len = newline ? 12 : 200000;
        char *text = malloc(len);
        memset(text, 'x', len);
        if (newline)
            text[len - 1] = '\n';
        int fd = file_of(text, len);
        struct lines l;
        char *got;
        ck_assert_int_eq(lines_open(&l, fd, 10), 0);
        ck_assert_int_eq(lines_next(&l, &got, NULL), -E2BIG);
        ck_assert_uint_eq(l.number, 1);
        lines_close(&l);
        close(fd);
        free(text);
    }
}
END_TEST

START_TEST(a_silent_pipe_would_wait_and_one_with_a_line_would_not)
{
    int fds[2];
    struct lines l;
    char *got;

    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_int_eq(lines_open(&l, fds[0], 10), 0);
    ck_assert(lines_would_wait(&l));
    ck_assert_int_eq(write(fds[1], "a\nb\nhalf", 8), 8);
    ck_assert(!lines_would_wait(&l));
    ck_assert_int_eq(lines_next(&l, &got, NULL), 1);
    ck_assert(!lines_would_wait(&l));
    ck_assert_int_eq(lines_next(&l, &got, NULL), 1);
    ck_assert(lines_would_wait(&l));
    close(fds[1]);
    ck_assert(!lines_would_wait(&l));
    lines_close(&l);
    close(fds[0]);
}
END_TEST

/* ---- new files ---- */

static char directory[] = "/tmp/skade-cli-files-XXXXXX";

static void make_directory(void)
{
    ck_assert_ptr_nonnull(mkdtemp(directory));
}

static void remove_directory(void)
{
    char command[sizeof directory + 16];

    snprintf(command, sizeof command, "rm -rf %s", directory);
    ck_assert_int_eq(system(command), 0);
}

static const char *path_of(const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static int entries(void)
{
    DIR *d = opendir(directory);
    int n = -2; /* . and .. */

    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

START_TEST(a_new_file_appears_whole_and_private)
{
    struct new_file f;
    struct stat st;

    ck_assert_int_eq(new_file_begin(&f, path_of("new")), 0);
    ck_assert_int_eq(write(f.fd, "hello", 5), 5);
    ck_assert_int_eq(access(path_of("new"), F_OK), -1);
    ck_assert_int_eq(new_file_publish(&f), 0);
    new_file_end(&f);
    ck_assert_int_eq(stat(path_of("new"), &st), 0);
    ck_assert_int_eq(st.st_size, 5);
    ck_assert_uint_eq(st.st_mode & 07777, 0600);
    ck_assert_int_eq(entries(), 1);
}
END_TEST

START_TEST(a_new_file_that_is_given_up_leaves_nothing)
{
    struct new_file f;

    ck_assert_int_eq(new_file_begin(&f, path_of("new")), 0);
    ck_assert_int_eq(entries(), 1);
    new_file_end(&f);
    ck_assert_int_eq(entries(), 0);
}
END_TEST

START_TEST(nothing_is_ever_replaced)
{
    struct new_file f;

    ck_assert_int_eq(symlink("/nowhere", path_of("link")), 0);
    ck_assert_int_eq(new_file_begin(&f, path_of("link")), -EEXIST);
    new_file_end(&f);
    ck_assert_int_eq(new_file_begin(&f, path_of("late")), 0);
    close(open(path_of("late"), O_WRONLY | O_CREAT, 0644));
    ck_assert_int_eq(new_file_publish(&f), -EEXIST);
    new_file_end(&f);
    ck_assert_int_eq(entries(), 2);
}
END_TEST

START_TEST(a_new_file_needs_a_name_and_a_directory)
{
    struct new_file f;
    char endless[6000];

    ck_assert_int_eq(new_file_begin(&f, path_of("no/file")), -ENOENT);
    ck_assert_int_eq(new_file_begin(&f, path_of("")), -EISDIR);
    ck_assert_int_eq(new_file_begin(&f, path_of("..")), -EISDIR);
    ck_assert_int_eq(new_file_begin(&f, ""), -EISDIR);
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = 0;
    ck_assert_int_eq(new_file_begin(&f, endless), -ENAMETOOLONG);
    endless[250] = 0;
    ck_assert_int_eq(new_file_begin(&f, endless), -ENAMETOOLONG);
    ck_assert_int_eq(f.fd, -1);
}
END_TEST

/* ---- names ---- */

static int count_lookups(void *counter, const char *name, skade_table *ret)
{
    ++*(int *)counter;
    *ret = (skade_table)strlen(name);
    return name[0] == 'n' ? 0 : 1;
}

START_TEST(each_name_is_looked_up_once_until_forgotten)
{
    struct name_cache c = { 0 };
    int lookups = 0;
    skade_table table;
    char name[32];

    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 1000; i++) {
            snprintf(name, sizeof name, "%c%0*d", i % 2 ? 'n' : 'y', 1 + i % 20, i);
            ck_assert_int_eq(name_cache_find(&c, name, count_lookups, &lookups, &table), i % 2 ? 0 : 1);
            ck_assert_uint_eq(table, strlen(name));
        }
    ck_assert_int_eq(lookups, 1000);
    name_cache_clear(&c);
    ck_assert_int_eq(name_cache_find(&c, "y", count_lookups, &lookups, &table), 1);
    ck_assert_int_eq(lookups, 1001);
    name_cache_clear(&c);
}
END_TEST

Suite *cli_files_suite(void);

Suite *cli_files_suite(void)
{
    Suite *s = suite_create("cli_files");
    TCase *lines = tcase_create("lines"), *files = tcase_create("new_file"),
          *names = tcase_create("name_cache");

    tcase_add_test(lines, lines_of_every_length_come_back);
    tcase_add_test(lines, the_last_line_may_lack_its_newline_and_a_line_may_have_nuls);
    tcase_add_test(lines, a_line_that_is_too_long_is_refused_with_and_without_an_end);
    tcase_add_test(lines, a_silent_pipe_would_wait_and_one_with_a_line_would_not);
    suite_add_tcase(s, lines);
    tcase_add_checked_fixture(files, make_directory, remove_directory);
    tcase_add_test(files, a_new_file_appears_whole_and_private);
    tcase_add_test(files, a_new_file_that_is_given_up_leaves_nothing);
    tcase_add_test(files, nothing_is_ever_replaced);
    tcase_add_test(files, a_new_file_needs_a_name_and_a_directory);
    suite_add_tcase(s, files);
    tcase_add_test(names, each_name_is_looked_up_once_until_forgotten);
    suite_add_tcase(s, names);
    return s;
}
