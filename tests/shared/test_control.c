#include "control.h"

#include "checksum.h"
#include "guard.h"
#include "quick.h"
#include "tempdir.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD 80 /* bytes of a page that never change */

static struct shm_place place;
static struct errmsg msg;

static void fresh_dir(void)
{
    place = (struct shm_place){ .instance = "test", .uid = getuid() };
    snprintf(place.dir, sizeof place.dir, "%s", tempdir());
}

static void seal(struct control_page *page)
{
    page->check = checksum(page, offsetof(struct control_page, check), 0);
}

static struct control_page *good_page(void)
{
    struct control_page *page = calloc(1, sizeof *page);
    memcpy(page->magic, FORMAT_MAGIC_CONTROL, sizeof page->magic);
    page->major = FORMAT_MAJOR;
    page->size = CONTROL_SIZE;
    page->epoch = 0x1234;
    memset(&page->log, 7, sizeof page->log);
    page->seed = 99;
    page->created_us = 1767323045000006;
    page->pid = 4711;
    page->counters = 3;
    seal(page);
    atomic_store(&page->generation, 5);
    atomic_store(&page->commit_seq, 6);
    atomic_store(&page->heartbeat, 7);
    return page;
}

static const char *path(void)
{
    static char text[512];
    char name[SHM_NAME_MAX];
    snprintf(text, sizeof text, "%s/%s", place.dir, shm_name(name, &place, SHM_CONTROL, 0, 0));
    return text;
}

/* Put SIZE bytes where the control page is looked for. */
static void put(const void *data, size_t size)
{
    unlink(path());
    int fd = open(path(), O_WRONLY | O_CREAT | O_EXCL, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, data, size), (ssize_t)size);
    close(fd);
}

static int open_put(const void *data, size_t size)
{
    struct control c = { .epoch = 42 };
    put(data, size);
    int r = control_open(&c, &place, &msg);
    if (r < 0)
        ck_assert_uint_eq(c.epoch, 42);
    else
        control_close(&c);
    return r;
}

START_TEST(a_page_is_attached_and_its_words_are_live)
{
    struct control_page *page = good_page();
    struct control c;
    struct stat st;

    fresh_dir();
    put(page, sizeof *page);
    ck_assert_msg(control_open(&c, &place, &msg) == 0, "%s", msg.text);
    ck_assert_uint_eq(c.epoch, 0x1234);
    ck_assert(uuid_equal(&c.log, &page->log));
    ck_assert_uint_eq(c.seed, 99);
    ck_assert_uint_eq(c.created_us, 1767323045000006);
    ck_assert_uint_eq(c.pid, 4711);
    ck_assert_uint_eq(c.counters, 3);
    ck_assert_uint_eq(control_generation(c.page), 5);
    ck_assert_uint_eq(control_commit_seq(c.page), 6);
    ck_assert_uint_eq(control_heartbeat(c.page), 7);
    ck_assert_int_eq(stat(path(), &st), 0);
    ck_assert_uint_eq(c.map.ino, st.st_ino);

    int fd = open(path(), O_RDWR);
    struct control_page *written = mmap(NULL, CONTROL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    atomic_store(&written->generation, CONTROL_RETIRED);
    ck_assert_uint_eq(control_generation(c.page), CONTROL_RETIRED);
    munmap(written, CONTROL_SIZE);
    control_close(&c);
    control_close(&c); /* harmless */
    free(page);
}
END_TEST

START_TEST(a_missing_page_is_enoent)
{
    struct control c;
    fresh_dir();
    ck_assert_int_eq(control_open(&c, &place, &msg), -ENOENT);
}
END_TEST

START_TEST(every_flipped_bit_of_the_block_is_refused)
{
    struct control_page *page = good_page();
    struct control c = { .epoch = 42 };

    for (unsigned bit = 0; bit < HEAD * 8; bit++) {
        uint8_t *byte = (uint8_t *)page + bit / 8;
        *byte ^= (uint8_t)(1u << bit % 8);
        int r = control_check(page, &c);
        bool major = bit / 32 == 2;
        ck_assert_msg(r == (major ? SKADE_EVERSION : SKADE_EDAMAGED), "bit %u: %d", bit, r);
        *byte ^= (uint8_t)(1u << bit % 8);
    }
    ck_assert_uint_eq(c.epoch, 42);
    ck_assert_int_eq(control_check(page, &c), 0);
    ck_assert_uint_eq(c.epoch, 0x1234);
    free(page);
}
END_TEST

START_TEST(nothing_but_the_block_is_looked_at)
{
    struct guard g = guard_make(HEAD, 8);
    struct control_page *page = good_page();
    struct control c;

    memcpy(g.data, page, HEAD);
    ck_assert_int_eq(control_check((const struct control_page *)(void *)g.data, &c), 0);
    guard_free(&g);
    free(page);
}
END_TEST

START_TEST(an_impossible_block_is_refused_though_its_checksum_is_right)
{
    struct control_page *page = good_page();
    struct control c;

    page->epoch = 0;
    seal(page);
    ck_assert_int_eq(control_check(page, &c), SKADE_EDAMAGED);
    page->epoch = 1;
    page->counters = CONTROL_COUNTERS;
    seal(page);
    ck_assert_int_eq(control_check(page, &c), 0);
    page->counters++;
    seal(page);
    ck_assert_int_eq(control_check(page, &c), SKADE_EDAMAGED);
    page->counters = 0;
    page->size = CONTROL_SIZE - 1;
    seal(page);
    ck_assert_int_eq(control_check(page, &c), SKADE_EDAMAGED);
    free(page);
}
END_TEST

START_TEST(another_major_version_is_told_apart_from_damage)
{
    struct control_page *page = good_page();

    fresh_dir();
    page->major = FORMAT_MAJOR + 1;
    page->epoch = 0; /* nothing else is known about it */
    ck_assert_int_eq(open_put(page, sizeof *page), SKADE_EVERSION);
    ck_assert_ptr_nonnull(strstr(msg.text, "format 2"));
    free(page);
}
END_TEST

START_TEST(files_of_the_wrong_size_are_refused)
{
    static const size_t sizes[] = {
        0, 1, HEAD, 100, 4096, CONTROL_SIZE - 1, CONTROL_SIZE + 1, 2 * CONTROL_SIZE
    };
    struct control_page *page = calloc(2, sizeof *page);
    struct control_page *good = good_page();

    fresh_dir();
    memcpy(page, good, sizeof *page);
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        ck_assert_int_eq(open_put(page, sizes[i]), SKADE_EDAMAGED);
    ck_assert_int_eq(open_put(page, CONTROL_SIZE), 0);
    free(good);
    free(page);
}
END_TEST

START_TEST(a_file_of_zeros_or_of_something_else_is_refused)
{
    char *bytes = calloc(1, CONTROL_SIZE);

    fresh_dir();
    ck_assert_int_eq(open_put(bytes, CONTROL_SIZE), SKADE_EDAMAGED);
    memcpy(bytes, FORMAT_MAGIC_CONTROL, 8); /* begun and not finished */
    bytes[8] = FORMAT_MAJOR;
    ck_assert_int_eq(open_put(bytes, CONTROL_SIZE), SKADE_EDAMAGED);
    memset(bytes, 0xff, CONTROL_SIZE);
    ck_assert_int_eq(open_put(bytes, CONTROL_SIZE), SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(msg.text, "skade."));
    free(bytes);
}
END_TEST

START_TEST(squatted_names_are_refused_at_once)
{
    struct control c;

    fresh_dir();
    alarm(5);
    ck_assert_int_eq(mkfifo(path(), 0400), 0);
    ck_assert_int_eq(control_open(&c, &place, &msg), SKADE_EFOREIGN);
    unlink(path());
    ck_assert_int_eq(mkdir(path(), 0700), 0);
    ck_assert_int_eq(control_open(&c, &place, &msg), SKADE_EFOREIGN);
    rmdir(path());
    ck_assert_int_eq(symlink("/etc/passwd", path()), 0);
    ck_assert_int_eq(control_open(&c, &place, &msg), SKADE_EFOREIGN);
    alarm(0);
}
END_TEST

/* What is checked is what is used, also while somebody writes: never a mix that passes. */
struct mutation {
    struct control_page *page;
    _Atomic bool stop;
};

static void *mutate(void *arg)
{
    struct mutation *m = arg;
    for (unsigned i = 0; !atomic_load(&m->stop); i++)
        *(volatile uint32_t *)&m->page->counters = i % 2 ? 3 : UINT32_MAX;
    return NULL;
}

START_TEST(a_block_that_changes_meanwhile_is_whole_or_refused)
{
    struct mutation m = { .page = good_page() };
    unsigned whole = 0, refused = 0;
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, mutate, &m), 0);
    while (whole < 10000 || refused < 10000) {
        struct control c;
        int r = control_check(m.page, &c);
        ALWAYS(r == 0 ? c.counters == 3 : r == SKADE_EDAMAGED);
        whole += r == 0;
        refused += r < 0;
    }
    atomic_store(&m.stop, true);
    pthread_join(thread, NULL);
    free(m.page);
}
END_TEST

Suite *control_suite(void);
Suite *control_suite(void)
{
    Suite *s = suite_create("control");
    TCase *t = tcase_create("control");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_page_is_attached_and_its_words_are_live);
    tcase_add_test(t, a_missing_page_is_enoent);
    tcase_add_test(t, every_flipped_bit_of_the_block_is_refused);
    tcase_add_test(t, nothing_but_the_block_is_looked_at);
    tcase_add_test(t, an_impossible_block_is_refused_though_its_checksum_is_right);
    tcase_add_test(t, another_major_version_is_told_apart_from_damage);
    tcase_add_test(t, files_of_the_wrong_size_are_refused);
    tcase_add_test(t, a_file_of_zeros_or_of_something_else_is_refused);
    tcase_add_test(t, squatted_names_are_refused_at_once);
    if (!HAS_TSAN)
        tcase_add_test(t, a_block_that_changes_meanwhile_is_whole_or_refused);
    suite_add_tcase(s, t);
    return s;
}
