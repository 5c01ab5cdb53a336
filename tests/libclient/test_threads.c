/*
 * Many readers, one writer: each thread with a handle of its own over the same files, while generations
 * come and go.
 */
#include "client.h"
#include "fake.h"
#include "quick.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define READERS 4
#define ROUNDS 60 /* generations; a part each, so fewer than WORLD_PARTS between two pages */

struct readers {
    struct world *w;
    atomic_bool stop;
    atomic_uint answers;
};

/* Commit N of table 1: everything about it follows from its id. */
static void location_of(int64_t id, char *ret, size_t size)
{
    snprintf(ret, size, "s3://orders/metadata/%08lld.json", (long long)id);
}

static void check_one(skade *s, int64_t newest)
{
    struct skade_answer a = answer();
    char expected[64];

    for (int64_t id = 1; id <= newest; id++) {
        int r = skade_resolve(s, 1, id, &a);
        if (r != 1)
            ck_abort_msg("%lld: %s: %s", (long long)id, skade_errname(a.status), skade_errmsg(s));
        location_of(id, expected, sizeof expected);
        ALWAYS(strcmp(expected, a.location) == 0);
        ALWAYS(a.seq == (uint64_t)id + 1);
    }
}

/* The head never goes back. */
static int64_t check_head(skade *s, int64_t before)
{
    struct skade_answer a = answer();
    char expected[64];

    int r = skade_head(s, 1, &a);
    if (r != 1)
        ck_abort_msg("%s: %s", skade_errname(r), skade_errmsg(s));
    location_of(a.snapshot, expected, sizeof expected);
    ALWAYS(strcmp(expected, a.location) == 0);
    ALWAYS(a.snapshot >= before);
    return a.snapshot;
}

static void *read_on(void *arg)
{
    struct readers *r = arg;
    skade *s = world_open(r->w, 0);
    int64_t newest = 0;

    while (!r->stop) {
        newest = check_head(s, newest);
        check_one(s, newest);
        if (newest % 7 == 0)
            skade_quiesce(s);
        r->answers++;
    }
    skade_close(s);
    return NULL;
}

static void commit_next(struct world *w)
{
    char location[64];
    int64_t id = (int64_t)w->seq;

    location_of(id, location, sizeof location);
    world_commit(w, 1, id, id, location);
}

/* What a daemon does: the older files go, a page is retired when its successor is there. */
static void publish_next(struct world *w, int round)
{
    struct control_page *old = w->page;

    commit_next(w);
    if (round % 10 == 9) {
        world_new_page(w);
        world_publish(w);
        atomic_store(&old->generation, CONTROL_RETIRED);
    } else {
        uint64_t generation = world_publish(w);
        if (generation > 2 && round % 10 > 1)
            unlink(world_file(w, SHM_ROOT, generation - 1));
    }
    commit_next(w); /* and one for the tail */
    world_beat(w);
}

START_TEST(readers_see_every_commit_and_never_go_back_while_generations_change)
{
    struct readers r = { .w = world_make() };
    pthread_t threads[READERS];

    world_new_page(r.w);
    world_create(r.w, "shop.orders");
    commit_next(r.w);
    world_publish(r.w);
    struct fake *f = fake_start(r.w, NULL, NULL);
    for (int i = 0; i < READERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, read_on, &r), 0);
    for (int round = 0; round < ROUNDS; round++) {
        unsigned before = r.answers;
        publish_next(r.w, round);
        while (r.answers < before + READERS)
            sched_yield();
    }
    r.stop = true;
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    fake_stop(f);
}
END_TEST

Suite *client_threads_suite(void);
Suite *client_threads_suite(void)
{
    Suite *suite = suite_create("client_threads");
    TCase *t = tcase_create("threads");

    tcase_set_timeout(t, 300);
    tcase_add_test(t, readers_see_every_commit_and_never_go_back_while_generations_change);
    suite_add_tcase(suite, t);
    return suite;
}
