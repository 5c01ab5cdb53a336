/*
 * Judging changes: what is refused leaves no trace.  Refused changes need no log, so there is none here.
 */
#include "committer.h"

#include "ledger.h"
#include "publisher_fixture.h"

#include <stdlib.h>

static struct server server;
static unsigned answered;
static int answer;
static uint64_t answer_seq;

static void setup(void)
{
    fresh_place();
    ck_assert_int_eq(uv_loop_init(&server.loop), 0);
    server.publisher = start();
    server.page = publisher_page(server.publisher);
    server.ledger = ledger_new(&options.log, options.seed);
    server.committer = committer_new(&server);
    answered = 0;
}

static void teardown(void)
{
    committer_free(server.committer);
    ledger_free(server.ledger);
    publisher_close(server.publisher, false);
}

static struct uuid nth(uint64_t n)
{
    struct uuid u = { { 0 } };
    memcpy(u.b, &n, sizeof n);
    return u;
}

static void on_done(struct change *c)
{
    answered++;
    answer = c->error;
    answer_seq = c->first_seq;
}

static void add_row(struct change *c, uint32_t table, uint64_t uuid)
{
    struct change_row *row = change_row(c);

    row->event = (struct event){ .kind = EVENT_COMMIT,
                                 .flags = EVENT_MOVES_HEAD,
                                 .table = table,
                                 .uuid = nth(uuid),
                                 .text = { "s3://x", 6 },
                                 .text2 = { "", 0 } };
}

static void submit(struct change *c)
{
    c->done = on_done;
    committer_submit(server.committer, c);
}

static void make_table(void)
{
    struct event e = {
        .seq = 1, .kind = EVENT_CREATE, .table = 1, .text = { "a.a", 3 }, .text2 = { "s3://x", 6 }
    };
    ck_assert_int_eq(ledger_apply(server.ledger, event_copy(&e), false, NULL), 0);
}

/* The ledger remembers as many uuids as it can: any new one would let go of number 1. */
static void remember_all(uint64_t content_of_first)
{
    for (uint64_t i = 1; i <= UUIDS_REMEMBERED; i++) {
        struct uuid u = nth(i);
        uuids_add(server.ledger->uuids, &u, 1, i == 1 ? content_of_first : 0);
    }
}

START_TEST(a_refused_release_forgets_no_answer)
{
    struct change *first = change_new(CHANGE_COMMITS), *bad = change_new(CHANGE_COMMITS);

    make_table();
    add_row(first, 1, 1);
    remember_all(event_content(&first->rows[0].event));
    for (uint64_t i = 1; i <= 1000; i++)
        add_row(bad, 1, UUIDS_REMEMBERED + i);
    add_row(bad, 99, UUIDS_REMEMBERED + 1001); /* there is no such table */
    submit(bad);
    ck_assert_uint_eq(answered, 1);
    ck_assert_int_eq(answer, SKADE_ENOTABLE);
    submit(first);
    ck_assert_uint_eq(answered, 2);
    ck_assert_int_eq(answer, 0);
    ck_assert_uint_eq(answer_seq, 1);
}
END_TEST

START_TEST(a_uuid_twice_in_one_release_is_refused)
{
    struct change *c = change_new(CHANGE_COMMITS);

    make_table();
    add_row(c, 1, 5);
    add_row(c, 1, 5);
    submit(c);
    ck_assert_uint_eq(answered, 1);
    ck_assert_int_eq(answer, SKADE_EINPUT);
}
END_TEST

Suite *committer_suite(void);
Suite *committer_suite(void)
{
    Suite *s = suite_create("committer");
    TCase *c = tcase_create("committer");

    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, a_refused_release_forgets_no_answer);
    tcase_add_test(c, a_uuid_twice_in_one_release_is_refused);
    suite_add_tcase(s, c);
    return s;
}
