#include "key_range.h"

#include "quick.h"

#include <check.h>
#include <stdlib.h>

static struct bytes key_of(const char *data, size_t len)
{
    return (struct bytes){ data, len };
}

static void expect_bound(const struct key_bound *b, const char *data, size_t len)
{
    ck_assert_uint_eq(b->len, len);
    ck_assert(memcmp(b->bytes, data, len) == 0);
    for (size_t i = len; i < KEY_BOUND_MAX; i++)
        ck_assert_uint_eq(b->bytes[i], 0);
}

START_TEST(bounds_are_the_smallest_and_the_largest_key_in_order_of_bytes)
{
    static const char *const keys[] = { "m", "ma", "\x7f", "\xff", "\x01", "zz", "\x80" };
    struct key_range range = { .low = { 0 } };

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        key_range_add(&range, bytes_of(keys[i]), i == 0);
    expect_bound(&range.low, "\x01", 1);
    expect_bound(&range.high, "\xff", 1);
    key_range_add(&range, key_of("\xff\0", 2), false); /* longer is behind */
    expect_bound(&range.high, "\xff\0", 2);
    key_range_add(&range, key_of("", 0), false);
    expect_bound(&range.low, "", 0);
    ck_assert(key_range_valid(&range.low, &range.high, 9));
}
END_TEST

START_TEST(one_key_is_both_bounds)
{
    struct key_range range = { .low = { 0 } };

    key_range_add(&range, key_of("", 0), true);
    expect_bound(&range.low, "", 0);
    expect_bound(&range.high, "", 0);
    ck_assert(key_range_valid(&range.low, &range.high, 1));
    key_range_add(&range, key_of("x", 1), false);
    expect_bound(&range.low, "", 0);
    expect_bound(&range.high, "x", 1);
}
END_TEST

START_TEST(long_keys_are_cut_and_stay_in_order)
{
    static char key[ENTRY_KEY_MAX];
    struct key_range range = { .low = { 0 } };

    memset(key, 0xff, sizeof key);
    for (size_t len = KEY_BOUND_MAX - 1; len <= KEY_BOUND_MAX + 1; len++) {
        range = (struct key_range){ .low = { 0 } };
        key_range_add(&range, key_of(key, len), true);
        expect_bound(&range.high, key, len < KEY_BOUND_MAX ? len : KEY_BOUND_MAX);
    }
    key_range_add(&range, key_of(key, sizeof key), false);
    expect_bound(&range.low, key, KEY_BOUND_MAX);
    expect_bound(&range.high, key, KEY_BOUND_MAX);
    ck_assert(key_range_valid(&range.low, &range.high, 2));
}
END_TEST

/* Whatever the keys: when bounds are apart, so are all keys; and bounds of files that share one aren't. */
START_TEST(bounds_that_are_apart_are_of_keys_that_are_apart)
{
    static char keys[2][8][80];
    size_t lens[2][8];
    uint64_t seed = 5;
    int apart = 0;

    for (int round = 0; round < 20000; round++) {
        struct key_range ranges[2] = { { .low = { 0 } }, { .low = { 0 } } };
        uint64_t common = random_below(&seed, 70);
        for (int side = 0; side < 2; side++)
            for (int i = 0; i < 8; i++) {
                lens[side][i] = common + random_below(&seed, 4);
                memset(keys[side][i], round % 2 ? 0xff : 'c', sizeof keys[side][i]);
                for (size_t at = common; at < lens[side][i]; at++)
                    keys[side][i][at] = (char)(random_below(&seed, 3) + (uint64_t)side * 2 + 0xfa);
                key_range_add(&ranges[side], key_of(keys[side][i], lens[side][i]), i == 0);
            }
        if (key_bound_compare(&ranges[0].high, &ranges[1].low) >= 0)
            continue;
        apart++;
        for (int i = 0; i < 64; i++)
            ck_assert_int_lt(
                key_bytes_compare(keys[0][i / 8], lens[0][i / 8], keys[1][i % 8], lens[1][i % 8]), 0);
    }
    ck_assert_int_gt(apart, 100);
}
END_TEST

START_TEST(bounds_that_no_keys_have_are_not_valid)
{
    const struct key_bound a = { 1, "a" }, b = { 1, "b" }, none = { 0 }, longer = { KEY_BOUND_MAX + 1, "a" },
                           dirty = { 1, "a\0\0x" };

    ck_assert(key_range_valid(&a, &b, 2));
    ck_assert(key_range_valid(&a, &a, 1));
    ck_assert(key_range_valid(&none, &none, 0));
    ck_assert(!key_range_valid(&b, &a, 2));
    ck_assert(!key_range_valid(&a, &b, 0));
    ck_assert(!key_range_valid(&none, &b, 0));
    ck_assert(!key_range_valid(&a, &longer, 2));
    ck_assert(!key_range_valid(&longer, &longer, 2));
    ck_assert(!key_range_valid(&dirty, &b, 2));
    ck_assert(!key_range_valid(&none, &dirty, 2));
}
END_TEST

Suite *key_range_suite(void);
Suite *key_range_suite(void)
{
    Suite *s = suite_create("key_range");
    TCase *c = tcase_create("key_range");

    tcase_add_test(c, bounds_are_the_smallest_and_the_largest_key_in_order_of_bytes);
    tcase_add_test(c, one_key_is_both_bounds);
    tcase_add_test(c, long_keys_are_cut_and_stay_in_order);
    tcase_add_test(c, bounds_that_are_apart_are_of_keys_that_are_apart);
    tcase_add_test(c, bounds_that_no_keys_have_are_not_valid);
    suite_add_tcase(s, c);
    return s;
}
