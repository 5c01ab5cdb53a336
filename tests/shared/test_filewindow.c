/*
 * Windows over files: the right bytes wherever one looks, errors where there are none.
 */
#include "filewindow.h"
#include "quick.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE (3u << 20)

static uint8_t byte_of(uint64_t off)
{
    return (uint8_t)(off * 0x9e3779b97f4a7c15ull >> 56);
}

static int patterned(size_t size)
{
    uint8_t *data = malloc(size + 1);
    int fd = memfd_create("pattern", MFD_CLOEXEC);
    for (size_t i = 0; i < size; i++)
        data[i] = byte_of(i);
    ck_assert_int_eq(write(fd, data, size), (ssize_t)size);
    free(data);
    return fd;
}

static void look(struct filewindow *w, uint64_t off, size_t len, bool backward)
{
    struct errmsg msg = { "" };
    int error = 0;
    const uint8_t *at = filewindow_get(w, off, len, backward, &error, &msg);
    if (!at)
        ck_abort_msg("%d %s", error, msg.text);
    ALWAYS((uintptr_t)at % 64 == off % 64);
    for (size_t i = 0; i < len; i += i + 257 < len ? 257 : 1)
        ALWAYS(at[i] == byte_of(off + i));
}

START_TEST(any_look_gives_the_bytes_that_are_there)
{
    uint64_t seed = 1, off = 0;
    int fd = patterned(SIZE);
    struct filewindow *w;
    ck_assert_int_eq(filewindow_open(&w, fd, "pattern", NULL), 0);
    ck_assert_uint_eq(filewindow_size(w), SIZE);
    for (int i = 0; i < 3000; i++) {
        size_t len = 1 + random_below(&seed, i % 50 ? 5000 : FILEWINDOW_MAX);
        if (i % 7 == 0)
            off = random_below(&seed, SIZE);
        if (off + len > SIZE)
            off = SIZE - len;
        if (i % 100 == 50) /* what isn't read ahead is there all the same */
            filewindow_stop_at(w, random_below(&seed, SIZE * 2));
        bool backward = random_below(&seed, 2);
        look(w, off, len, backward);
        off = backward ? (off > 5000 ? off - 5000 : 0) : off + len;
    }
    look(w, SIZE - 1, 1, false);
    look(w, 0, FILEWINDOW_MAX, true);
    look(w, SIZE, 0, false);
    filewindow_close(w);
    close(fd);
}
END_TEST

START_TEST(what_lies_beyond_the_end_is_damage_with_a_name)
{
    static const uint64_t bad[][2] = {
        { 100, 1 }, { 99, 2 }, { 0, 101 }, { UINT64_MAX, 1 }, { UINT64_MAX - 4, 10 }, { 1ull << 63, 8 }
    };
    int fd = patterned(100);
    struct filewindow *w;
    ck_assert_int_eq(filewindow_open(&w, fd, "pattern", NULL), 0);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct errmsg msg = { "" };
        int error = 0;
        look(w, 20, 80, false);
        ck_assert_ptr_null(filewindow_get(w, bad[i][0], (size_t)bad[i][1], i % 2, &error, &msg));
        ck_assert_int_eq(error, SKADE_EDAMAGED);
        ck_assert_ptr_nonnull(strstr(msg.text, "pattern"));
    }
    filewindow_close(w);
    close(fd);
}
END_TEST

START_TEST(a_file_that_was_cut_since_is_damage)
{
    int fd = patterned(SIZE), error = 0;
    struct errmsg msg = { "" };
    struct filewindow *w;
    ck_assert_int_eq(filewindow_open(&w, fd, "pattern", NULL), 0);
    look(w, 0, 100, false);
    ck_assert_int_eq(ftruncate(fd, 1 << 20), 0);
    ck_assert_ptr_null(filewindow_get(w, 2 << 20, 100, false, &error, &msg));
    ck_assert_int_eq(error, SKADE_EDAMAGED);
    look(w, 4096, 100, false);
    filewindow_close(w);
    close(fd);
}
END_TEST

START_TEST(a_read_that_fails_is_that_error)
{
    int fd = patterned(SIZE), error = 0;
    struct errmsg msg = { "" };
    struct filewindow *w;
    ck_assert_int_eq(filewindow_open(&w, fd, "pattern", NULL), 0);
    close(fd);
    ck_assert_ptr_null(filewindow_get(w, 0, 100, false, &error, &msg));
    ck_assert_int_eq(error, -EBADF);
    filewindow_close(w);
}
END_TEST

START_TEST(what_is_no_file_is_refused)
{
    struct filewindow *w;
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_int_eq(filewindow_open(&w, fds[0], "a pipe", NULL), SKADE_EFOREIGN);
    close(fds[0]);
    close(fds[1]);
    ck_assert_int_eq(filewindow_open(&w, -1, "nothing", NULL), -EBADF);
}
END_TEST

START_TEST(an_empty_file_has_no_bytes)
{
    int fd = patterned(0), error = 0;
    struct filewindow *w;
    ck_assert_int_eq(filewindow_open(&w, fd, "empty", NULL), 0);
    ck_assert_ptr_null(filewindow_get(w, 0, 1, false, &error, NULL));
    ck_assert_int_eq(error, SKADE_EDAMAGED);
    filewindow_close(w);
    close(fd);
}
END_TEST

START_TEST(a_window_that_goes_on_with_another_file_gives_that_ones_bytes)
{
    static const char text[] = "another file";
    int fd = patterned(SIZE), other = memfd_create("other", MFD_CLOEXEC), error = 0;
    struct errmsg msg = { "" };
    struct filewindow *w;
    ck_assert_int_eq(write(other, text, sizeof text), sizeof text);
    ck_assert_int_eq(filewindow_over(&w, fd, "pattern", SIZE, NULL), 0);
    look(w, 0, 5000, false);
    filewindow_stop_at(w, 5000);
    filewindow_turn(w, other, "other", sizeof text);
    ck_assert_mem_eq(filewindow_get(w, 0, sizeof text, false, &error, NULL), text, sizeof text);
    ck_assert_ptr_null(filewindow_get(w, 0, sizeof text + 1, false, &error, &msg));
    ck_assert_int_eq(error, SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(msg.text, "other"));
    filewindow_turn(w, fd, "pattern", SIZE);
    for (uint64_t off = 0; off + 5000 < SIZE; off += 5000)
        look(w, off, 5000, false);
    filewindow_turn(w, fd, "pattern", SIZE);
    for (uint64_t off = SIZE - 5000; off >= 5000; off -= 5000)
        look(w, off, 5000, true);
    filewindow_close(w);
    close(fd);
    close(other);
}
END_TEST

Suite *filewindow_suite(void);
Suite *filewindow_suite(void)
{
    Suite *s = suite_create("filewindow");
    TCase *c = tcase_create("filewindow");

    tcase_add_test(c, any_look_gives_the_bytes_that_are_there);
    tcase_add_test(c, what_lies_beyond_the_end_is_damage_with_a_name);
    tcase_add_test(c, a_file_that_was_cut_since_is_damage);
    tcase_add_test(c, a_read_that_fails_is_that_error);
    tcase_add_test(c, what_is_no_file_is_refused);
    tcase_add_test(c, an_empty_file_has_no_bytes);
    tcase_add_test(c, a_window_that_goes_on_with_another_file_gives_that_ones_bytes);
    suite_add_tcase(s, c);
    return s;
}
