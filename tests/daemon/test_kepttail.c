/*
 * The mapped tail of a daemon that runs, as clients find it.
 */
#include "kepttail.h"

#include "crowd.h"
#include "indexer.h"
#include "onlooker.h"
#include "publisher_fixture.h"
#include "tempdir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- requests -------------------------------------------------------------------------------------------- */

static unsigned requests;

static struct uuid next_uuid(void)
{
    struct uuid u = { { 9 } };
    requests++;
    memcpy(u.b + 1, &requests, sizeof requests);
    return u;
}

static void hear(struct request *r, size_t at, enum wire_type type)
{
    frame_end(&r->said, at, r->type = (uint16_t)type, 0, 1);
    crowd_say(r);
    crowd_hear();
    ck_assert_int_eq(r->outcome, DONE);
}

static void create(const char *name)
{
    struct request *r = crowd_request();
    size_t at = frame_begin(&r->said);
    struct msg_create m = { .uuid = next_uuid(), .name = bytes_of(name), .location = bytes_of("s3://b") };
    wire_put_create(&r->said, &m);
    hear(r, at, WIRE_CREATE);
}

static void rename_table(const char *from, const char *to)
{
    struct request *r = crowd_request();
    size_t at = frame_begin(&r->said);
    struct msg_rename m = { .uuid = next_uuid(), .name = bytes_of(from), .new_name = bytes_of(to) };
    wire_put_rename(&r->said, &m);
    hear(r, at, WIRE_RENAME);
}

/* A commit of snapshot ID to table 1. */
static void commit(int64_t id, const char *location)
{
    struct request *r = crowd_request();
    struct item_commit_row row = { .table = 1,
                                   .flags = EVENT_INTRODUCES | EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT,
                                   .snapshot = id,
                                   .uuid = next_uuid(),
                                   .base_location = bytes_of(""),
                                   .location = bytes_of(location) };
    size_t at = frame_begin(&r->said);
    wire_put_commit(&r->said, &(struct msg_commit){ .rows.count = 1 });
    wire_put_commit_row(&r->said, &row);
    hear(r, at, WIRE_COMMIT);
}

static void leave(void)
{
    sim_stop();
    sim_finish();
    crowd_hang_up();
}

static void never_by_itself(struct config *c)
{
    struct errmsg why = { "" };
    ck_assert_int_eq(config_set(c, "rebuild_idle", "1h", NULL, &why), 0);
    ck_assert_int_eq(config_set(c, "rebuild_threshold", "1000000", NULL, &why), 0);
}

/* A daemon that indexes when it must, or after an hour; SCRIPT is its only life. */
static void quietly(void (*script)(void *arg))
{
    sim_begin(1, tempdir(), false);
    crowd_begin();
    sim_live(never_by_itself, script, NULL);
    crowd_end();
    sim_end();
}

static uint64_t counter(enum counter c)
{
    return counter_get(sim.server->page, c);
}

/* ---- what is acknowledged is there -------------------------------------------------------------------------- */

static void look_for_commits(void *arg)
{
    struct tail_hit hit;
    uint32_t table;

    (void)arg;
    create("x.t");
    commit(7, "s3://b/7");
    struct sight s = look();
    ck_assert_ptr_nonnull(s.map.base);
    ck_assert_uint_eq(s.commit_seq, 2);
    ck_assert_uint_eq(s.tail.from_seq, 0);
    ck_assert_uint_eq(s.count, 2);
    ck_assert_int_eq(tail_find_name(&s.tail, 2, bytes_of("x.t"), 0, &table), 1);
    ck_assert_int_eq(tail_find(&s.tail, 2, table, 7, &hit), 1);
    commit(8, "s3://b/8"); /* it appears in the map that is there already */
    ck_assert_int_eq(tail_count(&s.tail), 3);
    ck_assert_int_eq(tail_head(&s.tail, 3, table, &hit), 1);
    ck_assert_uint_eq(hit.seq, 3);
    ck_assert_uint_eq(counter(COUNTER_tail_used), 3);
    ck_assert_uint_eq(counter(COUNTER_tail_room), TAIL_ROOM);
    look_away(&s);
    leave();
}

START_TEST(what_was_acknowledged_is_in_the_mapped_tail)
{
    quietly(look_for_commits);
}
END_TEST

static void take_away(void *arg)
{
    (void)arg;
    create("x.t");
    commit(7, "s3://b/7");
    struct sight old = look();
    uint8_t *before = malloc(old.map.size);
    memcpy(before, old.map.base, old.map.size);

    rename_table("x.t", "x.u");
    commit(8, "s3://b/8");
    ck_assert_mem_eq(before, old.map.base, old.map.size);
    struct sight now = look();
    ck_assert_uint_gt(now.generation, old.generation);
    ck_assert_uint_eq(now.tail.from_seq, 0); /* a root needs no part */
    ck_assert_uint_eq(now.count, 4);
    look_away(&now);
    look_away(&old);
    free(before);
    leave();
}

START_TEST(a_tail_is_not_written_after_its_generation_was_replaced)
{
    quietly(take_away);
}
END_TEST

static unsigned count_tails(void)
{
    DIR *dir = opendir(sim_path("shm"));
    unsigned n = 0;

    ck_assert_ptr_nonnull(dir);
    for (const struct dirent *e; (e = readdir(dir));)
        n += strlen(e->d_name) > 5 && strcmp(e->d_name + strlen(e->d_name) - 5, ".tail") == 0;
    closedir(dir);
    return n;
}

static void rename_often(void *arg)
{
    (void)arg;
    create("x.t");
    for (int i = 0; i < 5; i++) {
        rename_table("x.t", "x.u");
        rename_table("x.u", "x.t");
        ck_assert_uint_eq(count_tails(), 2);
    }
    leave();
}

START_TEST(tails_that_no_linked_root_names_are_gone)
{
    quietly(rename_often);
}
END_TEST

static void rename_at_leisure(void *arg)
{
    (void)arg;
    create("x.t");
    uint64_t first = counter(COUNTER_tail_late);
    ck_assert_uint_le(first, 1); /* at the start nobody waits */
    for (int i = 0; i < 5; i++) {
        sim_settle();
        rename_table("x.t", "x.u");
        sim_settle();
        rename_table("x.u", "x.t");
        ck_assert_uint_ne(counter(COUNTER_tail_room), 0);
    }
    ck_assert_uint_eq(counter(COUNTER_tail_late), first);
    leave();
}

START_TEST(the_loop_makes_no_file_for_a_tail)
{
    quietly(rename_at_leisure);
}
END_TEST

/* ---- no room -------------------------------------------------------------------------------------------------- */

static void reindexed(void *arg, int error, uint64_t old_generation, uint64_t generation)
{
    (void)arg;
    ck_assert_int_eq(error, 0);
    ck_assert_uint_gt(generation, old_generation);
}

static void fill_it(void *arg)
{
    char location[4001];
    int64_t id = 0;

    (void)arg;
    memset(location, 'x', sizeof location - 1);
    location[sizeof location - 1] = 0;
    create("x.t");
    while (counter(COUNTER_tail_full) == 0)
        commit(id++, location);
    struct sight s = look();
    ck_assert_uint_lt(s.tail.from_seq + s.count, s.commit_seq);
    ck_assert_uint_eq(s.tail.from_seq + s.count + counter(COUNTER_tail_full), s.commit_seq);
    commit(id, "short"); /* it would fit, but nothing comes behind what didn't */
    ck_assert_int_eq(tail_count(&s.tail), s.count);
    look_away(&s);
    indexer_reindex(sim.server->indexer, reindexed, NULL);
    sim_settle();
    commit(id + 1, "short");
    s = look();
    ck_assert_uint_eq(s.tail.from_seq + s.count, s.commit_seq);
    ck_assert_uint_eq(s.count, 1);
    look_away(&s);
    leave();
}

START_TEST(commits_go_on_when_it_is_full_and_the_next_one_has_room)
{
    quietly(fill_it);
}
END_TEST

static int no_room(const char *name)
{
    return strcmp(name, "tail.room") == 0 ? -ENOSPC : 0;
}

static void go_without(void *arg)
{
    (void)arg;
    create("x.t");
    sim.failpoint = no_room;
    rename_table("x.t", "x.u");
    ck_assert_uint_eq(counter(COUNTER_tail_failed), 1);
    ck_assert_uint_eq(counter(COUNTER_tail_room), 0);
    commit(7, "s3://b/7");
    struct sight s = look();
    ck_assert_ptr_null(s.map.base);
    ck_assert_uint_eq(s.commit_seq, 3);
    look_away(&s);
    sim.failpoint = NULL;
    rename_table("x.u", "x.t");
    s = look();
    ck_assert_ptr_nonnull(s.map.base);
    look_away(&s);
    leave();
}

START_TEST(without_room_for_one_all_goes_on)
{
    if (has_failpoints())
        quietly(go_without);
}
END_TEST

static int no_root(const char *name)
{
    return strcmp(name, "publish.fill") == 0 ? -ENOSPC : 0;
}

static unsigned open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    ck_assert_ptr_nonnull(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* The event is in no map then: nobody may be answered from one. */
static void publish_nothing(void *arg)
{
    (void)arg;
    create("x.t");
    commit(7, "s3://b/7");
    sim_settle();
    unsigned files = open_files(); /* the spare's is one of them */
    struct sight old = look();
    sim.failpoint = no_root;
    rename_table("x.t", "x.u");
    ck_assert_uint_eq(control_generation(sim.server->page), CONTROL_NONE);
    commit(8, "s3://b/8");
    ck_assert_int_eq(tail_count(&old.tail), 2);
    sim.failpoint = NULL;
    sim_pass(11000);
    struct sight now = look();
    ck_assert_ptr_nonnull(now.map.base);
    ck_assert_uint_eq(now.tail.from_seq + now.count, 4);
    onlooker_check();
    look_away(&now);
    look_away(&old);
    sim_settle();
    ck_assert_uint_eq(open_files(), files);
    leave();
}

START_TEST(a_generation_that_is_withdrawn_ends_its_tail)
{
    if (has_failpoints())
        quietly(publish_nothing);
}
END_TEST

Suite *kepttail_suite(void);
Suite *kepttail_suite(void)
{
    Suite *s = suite_create("kepttail");
    TCase *c = tcase_create("kepttail");

    tcase_set_timeout(c, 120);
    tcase_add_test(c, what_was_acknowledged_is_in_the_mapped_tail);
    tcase_add_test(c, a_tail_is_not_written_after_its_generation_was_replaced);
    tcase_add_test(c, tails_that_no_linked_root_names_are_gone);
    tcase_add_test(c, the_loop_makes_no_file_for_a_tail);
    tcase_add_test(c, commits_go_on_when_it_is_full_and_the_next_one_has_room);
    tcase_add_test(c, without_room_for_one_all_goes_on);
    tcase_add_test(c, a_generation_that_is_withdrawn_ends_its_tail);
    suite_add_tcase(s, c);
    return s;
}
