/*
 * Row sets that are large in one direction: many files, many versions, many deletions; in little memory, with little
 * stack and few descriptors.  SKADE_STRESS makes them larger.
 */
#include "rowset.h"

#include "quick.h"
#include "stored.h"
#include "tempdir.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || HAS_TSAN
#define COUNTS_MEMORY 0 /* sanitizers reserve more addresses than any limit */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define COUNTS_MEMORY 0
#endif
#endif
#ifndef COUNTS_MEMORY
#define COUNTS_MEMORY 1
#endif

#define MIB ((size_t)1 << 20)

static struct errmsg msg;
static struct stored table;

static void setup(void)
{
    /* What is freed goes back to the system, so that a limit on addresses is one on memory. */
    mallopt(M_MMAP_THRESHOLD, 64 << 10);
    stored_init(&table, tempdir());
}

static void teardown(void)
{
    stored_fini(&table);
}

static bool stress(void)
{
    return getenv("SKADE_STRESS") != NULL;
}

/* ---- many files, few descriptors ----------------------------------------------------------------------------- */

static void limit(int what, rlim_t to)
{
    struct rlimit l;

    ck_assert_int_eq(getrlimit(what, &l), 0);
    l.rlim_cur = to < l.rlim_max ? to : l.rlim_max;
    ck_assert_int_eq(setrlimit(what, &l), 0);
}

START_TEST(thousands_of_tiny_files_are_read_with_few_descriptors)
{
    uint32_t files = stress() ? 100000 : 5000;

    for (uint32_t i = 0; i < files; i++) {
        stored_begin(&table);
        stored_put(&table, i % 1000);
        if (i % 3 == 0)
            stored_append(&table);
        if (i % 100 == 7)
            stored_delete(&table, i % 1000 / 2);
        stored_end(&table);
    }
    limit(RLIMIT_NOFILE, 32);
    struct rowset *s = stored_open(&table, 0);
    FINE(rowset_prepare(s, &msg));
    stored_check(&table, s, 1100, 3);
    rowset_close(s);
}
END_TEST

/* Others in the process have the descriptors that the pool hoped for. */
START_TEST(a_get_goes_on_with_the_descriptors_that_are_left)
{
    uint32_t *there;
    int taken[64], n = 0;
    struct row row;

    for (uint32_t k = 0; k < 100; k++) {
        stored_begin(&table);
        stored_put(&table, k);
        stored_end(&table);
    }
    size_t rows = stored_there(&table, &there);
    struct rowset *s = stored_open(&table, 0);
    ck_assert_int_eq(rowset_get(s, bytes_of("k99"), &row, &msg), 1);
    limit(RLIMIT_NOFILE, 64);
    while (n < 64 && (taken[n] = dup(0)) >= 0)
        n++;
    ck_assert_int_gt(n, 0);
    stored_check_get(&table, s, 100, there, rows);
    while (n > 0)
        close(taken[--n]);
    rowset_close(s);
    free(there);
}
END_TEST

/* ---- little memory, little stack ------------------------------------------------------------------------------- */

/* How much address space this process has. */
static size_t addresses(void)
{
    size_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%zu", &pages), 1);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

struct frugal {
    size_t memory;
    const uint32_t *there;
    size_t n;
};

static void *read_all(void *arg)
{
    const struct frugal *f = arg;
    struct rowset *s = stored_open(&table, f->memory);

    FINE(rowset_prepare(s, &msg));
    stored_check_scan(&table, s, NEWEST_FIRST, 1, f->there, f->n);
    stored_check_scan(&table, s, OLDEST_FIRST, 3, f->there, f->n);
    rowset_close(s);
    return NULL;
}

/* Find the dead rows with a budget of MEMORY, and read everything, with at most ROOM bytes of addresses more than now
 * and a stack of 256 KiB. */
static void read_frugally(size_t memory, size_t room)
{
    uint32_t *there;
    struct frugal f = { .memory = memory, .n = stored_there(&table, &there) };
    pthread_attr_t attr;
    pthread_t thread;

    f.there = there;
    mallopt(M_ARENA_MAX, 1); /* a second one would reserve more than all of this */
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 << 10);
    malloc_trim(0);
    if (COUNTS_MEMORY) {
        limit(RLIMIT_AS, addresses() + room);
        void *volatile too_much = malloc(room);
        ck_assert_ptr_null(too_much);
    }
    ck_assert_int_eq(pthread_create(&thread, &attr, read_all, &f), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    free(there);
}

/* simd-r-drive's test 28 */
START_TEST(memory_is_bounded_with_many_versions_of_many_keys)
{
    uint64_t seed = 1;
    uint32_t keys = stress() ? 1000000 : 30000, files = 20;

    table.value_max = 8;
    for (uint32_t i = 0; i < files; i++) {
        if (i == files / 2)
            stored_compact(&table, 2);
        stored_begin(&table);
        for (uint32_t k = 0; k < keys / 2; k++)
            stored_put(&table, (uint32_t)random_below(&seed, keys));
        stored_end(&table);
    }
    read_frugally(MIB, (stress() ? 32 : 5) * MIB);
}
END_TEST

START_TEST(memory_is_bounded_with_many_versions_of_one_key)
{
    uint32_t versions = stress() ? 1000000 : 100000;

    table.value_max = 8;
    for (uint32_t i = 0; i < 10; i++) {
        stored_begin(&table);
        for (uint32_t k = 0; k < versions / 10; k++)
            stored_put(&table, 1);
        stored_end(&table);
    }
    read_frugally(MIB / 4, (stress() ? 8 : 3) * MIB);
}
END_TEST

START_TEST(memory_is_bounded_with_many_deletions_in_a_row)
{
    uint32_t deletions = stress() ? 1000000 : 100000;

    table.value_max = 8;
    stored_begin(&table);
    for (uint32_t k = 0; k < deletions; k++)
        stored_put(&table, k);
    stored_end(&table);
    stored_begin(&table);
    for (uint32_t k = 1; k < deletions; k++)
        stored_delete(&table, k);
    stored_end(&table);
    read_frugally(MIB / 2, (stress() ? 40 : 6) * MIB);
}
END_TEST

/* ---- speed in CPU time, for people ----------------------------------------------------------------------------------------- */

static double cpu_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static size_t count_rows(struct rowset *s, enum entry_order order)
{
    struct rowset_cursor *c;
    struct row row;
    size_t n = 0;
    int r;

    FINE(rowset_cursor_open(&c, s, order, 0, 1, &msg));
    while ((r = rowset_next(c, &row, &msg)) == 1)
        n++;
    FINE(r);
    rowset_cursor_close(c);
    return n;
}

static void report(const char *what)
{
    double t0 = cpu_s();
    struct rowset *s = stored_open(&table, 0);

    FINE(rowset_prepare(s, &msg));
    double t1 = cpu_s();
    size_t forward = count_rows(s, OLDEST_FIRST);
    double t2 = cpu_s();
    size_t backward = count_rows(s, NEWEST_FIRST);
    double t3 = cpu_s();
    ck_assert_uint_eq(forward, backward);
    printf("%-34s %8zu rows there, prepare %.3f s, oldest first %.2f M/s, newest first %.2f M/s\n", what,
           forward, t1 - t0, (double)forward / (t2 - t1) / 1e6, (double)backward / (t3 - t2) / 1e6);
    rowset_close(s);
}

static void fill(uint32_t files, uint32_t rows, uint32_t keys)
{
    uint64_t seed = 4;

    for (uint32_t i = 0; i < files; i++) {
        stored_begin(&table);
        for (uint32_t k = 0; k < rows; k++)
            if (keys == 0)
                stored_append(&table);
            else
                stored_put(&table, (uint32_t)random_below(&seed, keys));
        stored_end(&table);
    }
}

START_TEST(scans_of_a_million_rows_are_timed)
{
    static const struct {
        const char *what;
        uint32_t files, rows, keys;
    } shapes[] = {
        { "1 file, no keys", 1, 1000000, 0 },
        { "10,000 files, no keys", 10000, 100, 0 },
        { "1 file, 1 M puts of 1 M keys", 1, 1000000, 1000000 },
        { "10,000 files, 1 M puts of 1 M keys", 10000, 100, 1000000 },
        { "10,000 files, 1 M puts of 1000 keys", 10000, 100, 1000 },
    };

    if (!stress())
        return;
    table.value_max = 8;
    fill(shapes[_i].files, shapes[_i].rows, shapes[_i].keys);
    report(shapes[_i].what);
    stored_compact(&table, 1);
    report("  compacted");
    fill(100, 100, shapes[_i].keys);
    report("  and 10,000 puts in 100 files");
}
END_TEST

Suite *rowset_limits_suite(void);
Suite *rowset_limits_suite(void)
{
    Suite *s = suite_create("rowset_limits");
    TCase *c = tcase_create("limits");

    suite_add_tcase(s, c);
    tcase_set_timeout(c, stress() ? 900 : 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, thousands_of_tiny_files_are_read_with_few_descriptors);
    tcase_add_test(c, a_get_goes_on_with_the_descriptors_that_are_left);
    tcase_add_test(c, memory_is_bounded_with_many_versions_of_many_keys);
    tcase_add_test(c, memory_is_bounded_with_many_versions_of_one_key);
    tcase_add_test(c, memory_is_bounded_with_many_deletions_in_a_row);
    tcase_add_loop_test(c, scans_of_a_million_rows_are_timed, 0, 5);
    return s;
}
