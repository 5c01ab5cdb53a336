/*
 * Sorting, against qsort(), in memory and through files.
 */
#include "sorter.h"
#include "quick.h"
#include "tempdir.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned compared_words;

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    if (x[0] != y[0])
        return (int64_t)x[0] < (int64_t)y[0] ? -1 : 1;
    for (unsigned i = 1; i < compared_words; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static void expect_all(struct sorter *s, const uint64_t *want, size_t n, unsigned words)
{
    const uint64_t *record;
    struct errmsg msg = { "" };
    for (size_t i = 0; i < n; i++) {
        int r = sorter_next(s, &record, &msg);
        if (r != 1)
            ck_abort_msg("%d at %zu: %s", r, i, msg.text);
        ALWAYS(memcmp(record, want + i * words, words * sizeof *record) == 0);
    }
    ck_assert_int_eq(sorter_next(s, &record, &msg), 0);
    ck_assert_int_eq(sorter_next(s, &record, &msg), 0);
}

/* Word WORD of all of them, some at a time. */
static void expect_column(struct sorter *s, const uint64_t *want, size_t n, unsigned words, unsigned word)
{
    uint64_t some[100];
    size_t at = 0;
    int got;
    ck_assert_int_eq(sorter_rewind(s, NULL), 0);
    while ((got = sorter_column(s, word, some, 1 + (int)(at % 100), NULL)) > 0)
        for (int i = 0; i < got; i++, at++)
            ALWAYS(at < n && some[i] == want[at * words + word]);
    ck_assert_int_eq(got, 0);
    ck_assert_uint_eq(at, n);
}

/* How records are drawn. */
enum draw { UNIFORM, FEW_VALUES, ALL_EQUAL, ASCENDING, DESCENDING, NEAR_ZERO, CLUSTERED, SMALL, DRAWS };

static uint64_t draw(enum draw how, uint64_t i, uint64_t *seed)
{
    switch (how) {
    case UNIFORM:
        return random_u64(seed);
    case FEW_VALUES:
        return random_below(seed, 5) << 61;
    case ALL_EQUAL:
        return 42;
    case ASCENDING:
        return i * 64;
    case DESCENDING:
        return UINT64_MAX - i;
    case CLUSTERED: /* 12 bits behind the first 8 have few values */
        return (random_u64(seed) & ~(0xfffull << 44)) | random_below(seed, 3) << 44;
    case SMALL:
        return random_below(seed, 65536);
    default:
        return random_below(seed, 9) - 4;
    }
}

static void sort_and_compare(enum draw how, size_t n, unsigned words, size_t memory)
{
    uint64_t seed = n + words, *records = malloc(n * words * sizeof *records + 1);
    int dir = open(tempdir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct sorter *s;
    ck_assert_int_eq(sorter_open(&s, words, memory, dir, NULL), 0);
    for (size_t i = 0; i < n * words; i++)
        records[i] = draw(how, i / words, &seed);
    for (size_t i = 0; i < n / 2; i++)
        ALWAYS(sorter_add(s, records + i * words, NULL) == 0);
    ck_assert_int_eq(sorter_add_many(s, records + n / 2 * words, n - n / 2, NULL), 0);
    ck_assert_uint_eq(sorter_count(s), n);
    compared_words = words;
    qsort(records, n, words * sizeof *records, compare);
    expect_all(s, records, n, words);
    ck_assert_int_eq(sorter_rewind(s, NULL), 0);
    expect_all(s, records, n, words);
    for (unsigned word = 0; word < words; word++)
        expect_column(s, records, n, words, word);
    sorter_close(s);
    close(dir);
    free(records);
}

START_TEST(records_come_in_order_from_memory)
{
    static const size_t sizes[] = { 0, 1, 2, 24, 25, 1000, 20000 };
    for (int how = 0; how < DRAWS; how++)
        for (unsigned words = 1; words <= 4; words++)
            for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
                sort_and_compare((enum draw)how, sizes[i], words, 1 << 20);
}
END_TEST

/* So many that buckets of the first digit have a wide second one. */
START_TEST(very_many_records_come_in_order_from_memory)
{
    for (unsigned words = 1; words <= 3; words++)
        sort_and_compare((enum draw)_i, 300000, words, 64 << 20);
}
END_TEST

START_TEST(records_come_in_order_from_many_runs)
{
    for (int how = 0; how < DRAWS; how++)
        for (unsigned words = 1; words <= 4; words++)
            sort_and_compare((enum draw)how, 100001, words, 0);
}
END_TEST

START_TEST(what_fits_into_memory_needs_no_directory)
{
    struct sorter *s;
    uint64_t record[2] = { 0, 0 };
    ck_assert_int_eq(sorter_open(&s, 2, 64 << 10, -1, NULL), 0);
    for (size_t i = 0; i < (64 << 10) / sizeof record; i++)
        ck_assert_int_eq(sorter_add(s, record, NULL), 0);
    ck_assert_int_lt(sorter_add(s, record, NULL), 0);
    sorter_close(s);
}
END_TEST

Suite *sorter_suite(void);
Suite *sorter_suite(void)
{
    Suite *s = suite_create("sorter");
    TCase *c = tcase_create("sorter");

    tcase_set_timeout(c, 60);
    tcase_add_test(c, records_come_in_order_from_memory);
    tcase_add_loop_test(c, very_many_records_come_in_order_from_memory, 0, DRAWS);
    tcase_add_test(c, records_come_in_order_from_many_runs);
    tcase_add_test(c, what_fits_into_memory_needs_no_directory);
    suite_add_tcase(s, c);
    return s;
}
