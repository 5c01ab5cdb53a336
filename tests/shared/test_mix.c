#include "mix.h"

#include <check.h>
#include <stdlib.h>

/* ck_assert() notes every call in a file; this one is for loops of millions. */
#define ALWAYS(condition) ((condition) ? (void)0 : ck_abort_msg("%s", #condition))

static const int64_t edges[] = { INT64_MIN, INT64_MIN + 1, -2, -1, 0, 1, 2, INT64_MAX - 1, INT64_MAX };
static const uint32_t tables[] = { 0, 1, 2, 77, 0x7fffffff, 0x80000000, UINT32_MAX };
static const uint64_t seeds[] = { 0, 1, 0x9e3779b97f4a7c15ull, UINT64_MAX };

static uint64_t state = 1;
static uint64_t next_random(void)
{
    state += 0x9e3779b97f4a7c15ull;
    return mix64(state);
}

START_TEST(the_id_comes_back_from_the_key)
{
    for (size_t s = 0; s < sizeof seeds / sizeof *seeds; s++) {
        for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
            for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
                int64_t key = key_of(tables[t], edges[i], seeds[s]);
                ck_assert_int_eq(key_id(tables[t], key, seeds[s]), edges[i]);
                ck_assert_int_eq(key_of(tables[t], key_id(tables[t], edges[i], seeds[s]), seeds[s]),
                                 edges[i]);
            }
        }
    }
    for (int i = 0; i < 100000; i++) {
        uint64_t x = next_random();
        ALWAYS(unmix64(mix64(x)) == x);
        ALWAYS(mix64(unmix64(x)) == x);
    }
}
END_TEST

START_TEST(homes_follow_the_order_of_keys_and_stay_inside)
{
    static const uint64_t homes[] = { 1, 2, 3, 7, 1000, 357913941 };
    for (size_t h = 0; h < sizeof homes / sizeof *homes; h++) {
        ck_assert_uint_eq(key_home(INT64_MIN, homes[h]), 0);
        ck_assert_uint_eq(key_home(INT64_MAX, homes[h]), homes[h] - 1);
        for (int i = 0; i < 10000; i++) {
            int64_t a = (int64_t)next_random();
            int64_t b = (int64_t)next_random();
            ALWAYS(a <= b ? key_home(a, homes[h]) <= key_home(b, homes[h])
                          : key_home(a, homes[h]) >= key_home(b, homes[h]));
            ALWAYS(key_home(a, homes[h]) < homes[h]);
        }
    }
}
END_TEST

/* Poor ids must not fill some homes and leave others empty: with 4096 keys in 64 homes each has about 64 (sigma 8). */
static void check_uniform(int64_t (*id)(uint32_t), uint32_t (*table)(uint32_t))
{
    unsigned counts[64] = { 0 };
    for (uint32_t i = 0; i < 4096; i++)
        counts[key_home(key_of(table(i), id(i), 12345), 64)]++;
    for (int h = 0; h < 64; h++)
        ck_assert_msg(counts[h] > 20 && counts[h] < 120, "home %d has %u of 64", h, counts[h]);
}

static int64_t counter(uint32_t i)
{
    return i;
}

static int64_t shifted(uint32_t i)
{
    return (int64_t)((uint64_t)i << 40);
}

static int64_t constant(uint32_t i)
{
    (void)i;
    return 42;
}

static uint32_t one_table(uint32_t i)
{
    (void)i;
    return 1;
}

static uint32_t own_table(uint32_t i)
{
    return i + 1;
}

START_TEST(keys_are_uniform_whatever_the_ids_are)
{
    check_uniform(counter, one_table);
    check_uniform(shifted, one_table);
    check_uniform(constant, own_table);
    check_uniform(counter, own_table);
}
END_TEST

Suite *mix_suite(void);
Suite *mix_suite(void)
{
    Suite *suite = suite_create("mix");
    TCase *tcase = tcase_create("mix");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, the_id_comes_back_from_the_key);
    tcase_add_test(tcase, homes_follow_the_order_of_keys_and_stay_inside);
    tcase_add_test(tcase, keys_are_uniform_whatever_the_ids_are);
    suite_add_tcase(suite, tcase);
    return suite;
}
