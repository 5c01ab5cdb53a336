#include "uuids.h"

#include "quick.h"

#include <check.h>

static struct uuid nth(uint64_t i)
{
    struct uuid u = { { 0 } };
    memcpy(u.b, &i, sizeof i);
    return u;
}

START_TEST(what_was_added_is_found_with_its_answer)
{
    struct uuids *u = uuids_new(7);
    uint64_t seq, content;

    for (uint64_t i = 1; i <= 10000; i++) {
        struct uuid id = nth(i);
        ALWAYS(!uuids_find(u, &id, &seq, &content));
        uuids_add(u, &id, i, i * 3);
    }
    for (uint64_t i = 1; i <= 10000; i++) {
        struct uuid id = nth(i);
        ALWAYS(uuids_find(u, &id, &seq, &content) && seq == i && content == i * 3);
    }
    uuids_free(u);
}
END_TEST

START_TEST(those_of_a_failed_transaction_are_forgotten_and_no_others)
{
    struct uuids *u = uuids_new(7);
    uint64_t seq, content;

    for (uint64_t i = 1; i <= 5000; i++) {
        struct uuid id = nth(i);
        uuids_add(u, &id, i, 0);
    }
    uuids_forget_after(u, 1234);
    for (uint64_t i = 1; i <= 5000; i++) {
        struct uuid id = nth(i);
        ALWAYS(uuids_find(u, &id, &seq, &content) == (i <= 1234));
    }
    /* And what was forgotten can come again. */
    struct uuid again = nth(2000);
    uuids_add(u, &again, 1235, 9);
    ck_assert(uuids_find(u, &again, &seq, &content));
    ck_assert_uint_eq(seq, 1235);
    uuids_free(u);
}
END_TEST

START_TEST(the_oldest_go_when_it_is_full)
{
    struct uuids *u = uuids_new(7);
    uint64_t seq, content, extra = 3000;

    for (uint64_t i = 1; i <= UUIDS_REMEMBERED + extra; i++) {
        struct uuid id = nth(i);
        uuids_add(u, &id, i, 0);
    }
    for (uint64_t i = 1; i <= UUIDS_REMEMBERED + extra; i += 17) {
        struct uuid id = nth(i);
        ALWAYS(uuids_find(u, &id, &seq, &content) == (i > extra));
    }
    uuids_free(u);
}
END_TEST

START_TEST(one_that_grows_forgets_none)
{
    struct uuids *u = uuids_new_growing(7, 0);
    uint64_t seq, content;

    for (uint64_t i = 1; i <= 10000; i++) {
        struct uuid id = nth(i);
        ALWAYS(uuids_add(u, &id, i, i * 3) == 0);
        if (i % 1000 == 0) /* as when changes are refused in between: ten of a thousand */
            uuids_forget_after(u, i - 10);
    }
    for (uint64_t i = 1; i <= 10000; i++) {
        struct uuid id = nth(i);
        bool kept = (i - 1) % 1000 < 990;
        ALWAYS(uuids_find(u, &id, &seq, &content) == kept);
        ALWAYS(!kept || (seq == i && content == i * 3));
    }
    uuids_free(u);
}
END_TEST

Suite *uuids_suite(void);
Suite *uuids_suite(void)
{
    Suite *s = suite_create("uuids");
    TCase *c = tcase_create("uuids");

    tcase_set_timeout(c, 60);
    tcase_add_test(c, what_was_added_is_found_with_its_answer);
    tcase_add_test(c, those_of_a_failed_transaction_are_forgotten_and_no_others);
    tcase_add_test(c, the_oldest_go_when_it_is_full);
    tcase_add_test(c, one_that_grows_forgets_none);
    suite_add_tcase(s, c);
    return s;
}
