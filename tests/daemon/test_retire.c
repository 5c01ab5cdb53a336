/*
 * Retiring the older pages without a page of one's own: there is no room for one, or a stranger has its name.
 */
#include "publisher_fixture.h"

#include <stdio.h>
#include <unistd.h>

Suite *retire_suite(void);

/* A daemon came, published, and was killed; a client holds its page.  Its epoch. */
static uint64_t dead_daemon(struct control *ret)
{
    struct publisher *p = start();
    uint64_t epoch = publisher_epoch(p);

    write_root(p, 1);
    take_over(p, 1, 0);
    *ret = attach();
    publisher_close(p, false);
    return epoch;
}

static struct publisher_takeover retire_older(struct publisher *p, uint64_t last_epoch)
{
    struct publisher_takeover t;

    ck_assert_msg(publisher_retire_older(p, last_epoch, &t, &msg) == 0, "%s", msg.text);
    return t;
}

START_TEST(a_page_is_retired_though_a_stranger_has_the_known_name)
{
    struct control c;

    fresh_place();
    uint64_t last = dead_daemon(&c);
    const char *known = shm_path(SHM_CONTROL, 0, 0);
    ck_assert_int_eq(unlink(known), 0);
    if (!squat((enum squatter)_i, known))
        return;
    struct publisher *p = start();
    struct publisher_takeover t = retire_older(p, last);
    ck_assert_uint_eq(t.retired, 1);
    ck_assert(t.saw_epoch);
    ck_assert_uint_eq(control_generation(c.page), CONTROL_RETIRED);
    ck_assert(squats((enum squatter)_i, known));
    ck_assert_uint_eq(count_names(), 2); /* it and the lock */
    ck_assert_uint_eq(publisher_page_epoch(p), 0);
    control_close(&c);
    publisher_close(p, false);
    unsquat(known);
}
END_TEST

START_TEST(a_page_that_lost_its_second_name_is_retired_under_the_known_one)
{
    struct control c;

    fresh_place();
    uint64_t last = dead_daemon(&c);
    ck_assert_int_eq(unlink(shm_path(SHM_CONTROL_ALIAS, last, 0)), 0);
    struct publisher *p = start();
    struct publisher_takeover t = retire_older(p, last);
    ck_assert_uint_eq(t.retired, 1);
    ck_assert(t.saw_epoch);
    ck_assert_uint_eq(control_generation(c.page), CONTROL_RETIRED);
    control_close(&c);
    publisher_close(p, false);
}
END_TEST

START_TEST(a_lost_page_was_not_seen_whatever_else_is_there)
{
    struct control lost, older;

    fresh_place();
    dead_daemon(&older);
    uint64_t last = dead_daemon(&lost);
    ck_assert_int_eq(unlink(shm_path(SHM_CONTROL, 0, 0)), 0);
    ck_assert_int_eq(unlink(shm_path(SHM_CONTROL_ALIAS, last, 0)), 0);
    struct publisher *p = start();
    struct publisher_takeover t = retire_older(p, last);
    ck_assert(!t.saw_epoch);
    ck_assert_uint_eq(control_generation(lost.page), 1);
    control_close(&lost);
    control_close(&older);
    publisher_close(p, false);
}
END_TEST

START_TEST(our_own_page_is_spared_when_a_take_over_is_finished)
{
    struct publisher_takeover t;
    struct control c, own;

    if (!has_failpoints())
        return;
    fresh_place();
    uint64_t last = dead_daemon(&c);
    struct publisher *p = start();
    at_failpoint("takeover.rename", "fail 5");
    ck_assert_int_lt(publisher_take_over(p, CONTROL_NONE, 7, last, &t, &msg), 0);
    at_failpoint("takeover.rename", NULL);
    ck_assert_uint_eq(control_generation(c.page), 1); /* it lives on: no commit may be accepted */
    t = retire_older(p, last);
    ck_assert(t.saw_epoch);
    ck_assert_uint_eq(control_generation(c.page), CONTROL_RETIRED);
    own = attach();
    ck_assert_uint_eq(own.epoch, publisher_epoch(p));
    ck_assert_uint_eq(control_generation(own.page), CONTROL_NONE);
    control_close(&own);
    control_close(&c);
    publisher_close(p, false);
}
END_TEST

Suite *retire_suite(void)
{
    Suite *suite = suite_create("retire");
    TCase *tc = tcase_create("retire");

    tcase_add_loop_test(tc, a_page_is_retired_though_a_stranger_has_the_known_name, 0, SQUAT_END);
    tcase_add_test(tc, a_page_that_lost_its_second_name_is_retired_under_the_known_one);
    tcase_add_test(tc, a_lost_page_was_not_seen_whatever_else_is_there);
    tcase_add_test(tc, our_own_page_is_spared_when_a_take_over_is_finished);
    suite_add_tcase(suite, tc);
    return suite;
}
