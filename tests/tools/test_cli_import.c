/*
 * tools/import_delta.c: plans against histories of every kind, without a daemon.
 */
#include <check.h>

#include "import_delta.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 64

/* A plan that tests write row by row, and a history, oldest first. */
static struct import_file file_store[MANY];
static const struct import_file *files[MANY];
static struct import_row rows[MANY];
static struct import_plan plan;
static struct skade_event history[2 * MANY];
static size_t events;
static struct import_delta delta;

static void begin_plan(uint8_t table_uuid)
{
    plan = (struct import_plan){ .files = files, .rows = rows, .has_uuid = true };
    memset(plan.uuid, table_uuid, sizeof plan.uuid);
}

static void setup(void)
{
    events = 0;
    memset(&delta, 0, sizeof delta);
    begin_plan(1);
}

static void teardown(void)
{
    import_delta_free(&delta);
}

static void add_file(const char *location)
{
    file_store[plan.file_count] = (struct import_file){ .location = (char *)(uintptr_t)location };
    files[plan.file_count] = &file_store[plan.file_count];
    plan.file_count++;
}

/* WHAT: i introduces, m moves the head, - no snapshot. */
static void add_row(const char *what, int64_t snapshot, int64_t time_us)
{
    rows[plan.row_count++] = (struct import_row){ .snapshot = snapshot,
                                                  .time_us = time_us,
                                                  .file = (uint32_t)plan.file_count - 1,
                                                  .has_snapshot = !strchr(what, '-'),
                                                  .introduces = strchr(what, 'i') != NULL,
                                                  .moves_head = strchr(what, 'm') != NULL };
}

/* v1 without a snapshot, then one snapshot each: rows 0, 1, 2 ... */
static void plan_versions(const char *const *locations, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        add_file(locations[i]);
        add_row(i ? "im" : "m-", (int64_t)i * 100, (int64_t)i * 1000);
    }
}

static const char *const versions[] = { "file:///t/v1", "file:///t/v2", "file:///t/v3", "file:///t/v4" };

static void happened(const struct skade_commit *c)
{
    history[events] =
        (struct skade_event){ .kind = SKADE_EVENT_COMMIT, .flags = c->flags, .table = c->table };
    history[events].seq = events + 1;
    history[events].snapshot = c->snapshot;
    history[events].time_us = c->time_us;
    history[events].location = c->location;
    memcpy(history[events].uuid, c->uuid, sizeof c->uuid);
    events++;
}

/* A commit by somebody who doesn't import. */
static void somebody_commits(const char *location, int64_t snapshot, unsigned flags, int64_t time_us)
{
    struct skade_commit c = {
        .table = 7, .flags = flags, .snapshot = snapshot, .time_us = time_us, .location = location
    };

    memset(c.uuid, 0x41, sizeof c.uuid); /* version 4 */
    happened(&c);
}

static int compare(void)
{
    import_delta_free(&delta);
    ck_assert_int_eq(import_delta_begin(&delta, &plan, 7), 0);
    for (size_t i = events; i-- > 0;)
        ck_assert_int_eq(import_delta_event(&delta, &history[i]), 0);
    return import_delta_finish(&delta);
}

/* Compare, and let what is lacking happen. */
static void import(void)
{
    ck_assert_int_eq(compare(), IMPORT_SAME);
    for (size_t i = 0; i < delta.row_count; i++) {
        struct skade_commit c;
        import_delta_commit(&delta, i, &c);
        happened(&c);
    }
}

START_TEST(a_first_import_is_the_whole_plan)
{
    plan_versions(versions, 4);
    import();
    ck_assert_uint_eq(delta.row_count, 4);
    ck_assert_uint_eq(delta.new_files, 4);
    ck_assert_uint_eq(delta.new_snapshots, 3);
    ck_assert(!delta.has_head);
    for (size_t i = 0; i < 4; i++)
        ck_assert_str_eq(history[i].location, versions[i]);
}
END_TEST

START_TEST(a_second_import_adds_nothing)
{
    plan_versions(versions, 4);
    import();
    import();
    ck_assert_uint_eq(delta.row_count, 0);
    ck_assert_uint_eq(delta.new_files, 0);
    ck_assert_uint_eq(delta.new_snapshots, 0);
    ck_assert_str_eq(delta.head, versions[3]);
}
END_TEST

START_TEST(a_file_with_many_snapshots_is_not_added_twice)
{
    add_file("file:///t/v1");
    for (int i = 1; i <= 5; i++)
        add_row(i % 2 ? "im" : "i", i, i * 10);
    add_row("m", 5, 1000);
    import();
    ck_assert_uint_eq(delta.row_count, 6);
    ck_assert_uint_eq(delta.new_files, 1);
    ck_assert_uint_eq(delta.new_snapshots, 5);
    import();
    ck_assert_uint_eq(delta.row_count, 0);
}
END_TEST

START_TEST(only_what_came_since_is_added)
{
    for (size_t known = 1; known <= 4; known++) {
        setup();
        plan_versions(versions, known);
        import();
        begin_plan(1);
        plan_versions(versions, 4);
        import();
        ck_assert_uint_eq(delta.row_count, 4 - known);
        ck_assert_uint_eq(delta.new_files, 4 - known);
        ck_assert_uint_eq(events, 4);
        ck_assert_str_eq(delta.head, versions[known - 1]);
        teardown();
    }
}
END_TEST

START_TEST(another_table_uuid_under_the_name_is_refused_even_with_the_same_locations)
{
    plan_versions(versions, 2);
    import();
    begin_plan(2);
    plan_versions(versions, 2);
    ck_assert_int_eq(compare(), IMPORT_OTHER_TABLE);
}
END_TEST

START_TEST(commits_that_have_nothing_to_do_with_it_are_another_table)
{
    somebody_commits("s3://elsewhere/1", 5, SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT | SKADE_INTRODUCES, 1);
    plan_versions(versions, 2);
    ck_assert_int_eq(compare(), IMPORT_OTHER_TABLE);
}
END_TEST

START_TEST(a_table_that_a_writer_committed_to_is_completed_without_repeating)
{
    plan_versions(versions, 4);
    somebody_commits(versions[0], 0, SKADE_MOVES_HEAD, 5);
    somebody_commits(versions[1], 100, SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT | SKADE_INTRODUCES, 6);
    import();
    ck_assert_uint_eq(delta.row_count, 2);
    ck_assert_str_eq(delta.head, versions[1]);
    ck_assert_str_eq(history[2].location, versions[2]);
}
END_TEST

START_TEST(the_same_files_under_another_uri_are_refused)
{
    static const char *const moved[] = { "s3://b/t/v1", "s3://b/t/v2", "s3://b/t/v3" };

    plan_versions(versions, 3);
    import();
    begin_plan(1);
    plan_versions(moved, 3);
    ck_assert_int_eq(compare(), IMPORT_OTHER_LOCATIONS);
}
END_TEST

START_TEST(files_may_have_been_deleted_since)
{
    plan_versions(versions, 3);
    import();
    begin_plan(1);
    add_file(versions[3]); /* the only one left: it says all snapshots anew */
    add_row("im", 100, 1000);
    add_row("im", 200, 2000);
    add_row("im", 300, 3000);
    add_row("m", 300, 3500);
    import();
    ck_assert_uint_eq(delta.row_count, 2);
    ck_assert_uint_eq(delta.new_snapshots, 1);
    ck_assert_int_eq(history[3].snapshot, 300);
    ck_assert_uint_eq(history[4].flags, SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT);
    import();
    ck_assert_uint_eq(delta.row_count, 0);
}
END_TEST

START_TEST(a_file_that_was_left_out_comes_later_and_leaves_the_head)
{
    const char *const without[] = { versions[0], versions[1], versions[3] };

    add_file(without[0]);
    add_row("m-", 0, 0);
    add_file(without[1]);
    add_row("im", 100, 1000);
    add_file(without[2]);
    add_row("im", 300, 3000);
    import();
    begin_plan(1);
    plan_versions(versions, 4);
    import();
    ck_assert_uint_eq(delta.row_count, 1);
    ck_assert_uint_eq(delta.held_back, 1);
    ck_assert_uint_eq(delta.new_snapshots, 1);
    ck_assert_str_eq(history[3].location, versions[2]);
    ck_assert_uint_eq(history[3].flags, SKADE_INTRODUCES | SKADE_WITH_SNAPSHOT);
    import();
    ck_assert_uint_eq(delta.row_count, 0);
    ck_assert(delta.proven);
}
END_TEST

START_TEST(a_head_that_is_newer_than_all_files_stays)
{
    plan_versions(versions, 2);
    import();
    somebody_commits("file:///t/v9", 900, SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT | SKADE_INTRODUCES, 9000);
    begin_plan(1);
    add_file(versions[0]);
    add_row("m-", 0, 0);
    add_file("file:///t/other");
    add_row("im", 150, 500);
    add_file(versions[1]);
    add_row("im", 100, 1000);
    import();
    ck_assert_uint_eq(delta.row_count, 1);
    ck_assert(!(history[events - 1].flags & SKADE_MOVES_HEAD));
}
END_TEST

START_TEST(a_head_beyond_the_files_stays_when_nothing_of_the_plan_moved_it)
{
    somebody_commits(versions[0], 5, SKADE_WITH_SNAPSHOT | SKADE_INTRODUCES, 1);
    somebody_commits("file:///t/v9", 900, SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT | SKADE_INTRODUCES, 9000);
    plan_versions(versions, 3);
    import();
    ck_assert_uint_eq(delta.row_count, 2); /* v1 has no snapshot to introduce */
    ck_assert_uint_eq(delta.held_back, 3);
    for (size_t i = 2; i < events; i++)
        ck_assert(!(history[i].flags & SKADE_MOVES_HEAD));
}
END_TEST

START_TEST(a_rollback_moves_the_head_back_once)
{
    plan_versions(versions, 3);
    add_file("file:///t/v3b");
    add_row("m", 100, 9000); /* back to the snapshot of v2 */
    import();
    ck_assert_uint_eq(delta.row_count, 4);
    ck_assert_uint_eq(history[3].flags, SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT);
    import();
    ck_assert_uint_eq(delta.row_count, 0);
}
END_TEST

START_TEST(a_snapshot_known_from_elsewhere_still_moves_the_head)
{
    plan_versions(versions, 2);
    somebody_commits(versions[0], 0, SKADE_MOVES_HEAD, 1);
    somebody_commits("file:///t/staged", 100, SKADE_WITH_SNAPSHOT | SKADE_INTRODUCES, 2);
    import();
    ck_assert_uint_eq(delta.row_count, 1);
    ck_assert_uint_eq(history[2].flags, SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT);
    ck_assert_uint_eq(delta.new_snapshots, 0);
    ck_assert_uint_eq(delta.new_files, 1);
}
END_TEST

START_TEST(every_import_after_every_prefix_ends_alike)
{
    for (size_t cut = 0; cut <= 6; cut++) {
        setup();
        static const char *const more[] = { "file:///t/1", "file:///t/2", "file:///t/3",
                                            "file:///t/4", "file:///t/5", "file:///t/6" };
        plan_versions(more, cut);
        import();
        begin_plan(1);
        plan_versions(more, 6);
        import();
        ck_assert_uint_eq(events, 6);
        for (size_t i = 0; i < 6; i++) {
            uint8_t uuid[16];
            import_row_uuid(&plan, i, 7, uuid);
            ck_assert_mem_eq(uuid, history[i].uuid, IMPORT_UUID_SAYS);
            ck_assert_int_eq(history[i].time_us, rows[i].time_us);
        }
        teardown();
    }
}
END_TEST

/* The uuid of the first row that another import of the same would send. */
static void first_uuid(uint8_t ret[16], bool *moves_head)
{
    struct skade_commit c;

    ck_assert_int_eq(compare(), IMPORT_SAME);
    ck_assert_uint_gt(delta.row_count, 0);
    import_delta_commit(&delta, 0, &c);
    memcpy(ret, c.uuid, 16);
    *moves_head = delta.moves_head;
}

START_TEST(of_two_imports_at_once_each_has_a_release_of_its_own_if_it_moves_the_head)
{
    uint8_t a[16], b[16];
    bool moves;

    plan_versions(versions, 2);
    first_uuid(a, &moves);
    first_uuid(b, &moves);
    ck_assert(moves);
    ck_assert_mem_ne(a, b, 16);
    somebody_commits("file:///t/v9", 900, SKADE_WITH_SNAPSHOT | SKADE_INTRODUCES | SKADE_MOVES_HEAD, 1 << 20);
    somebody_commits(versions[0], 0, 0, 0);
    first_uuid(a, &moves);
    first_uuid(b, &moves);
    ck_assert(!moves);
    ck_assert_mem_eq(a, b, 16);
}
END_TEST

START_TEST(a_thousand_files_are_told_apart)
{
    enum { N = 1000 };
    static struct import_file store[N];
    static const struct import_file *list[N];
    static struct import_row many[N];
    static char names[N][32];

    plan = (struct import_plan){ .files = list, .rows = many, .file_count = N, .row_count = N };
    for (size_t i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "file:///t/v%zu", i);
        store[i].location = names[i];
        list[i] = &store[i];
        many[i] = (struct import_row){ .snapshot = (int64_t)(i * 0x9e3779b97f4a7c15u),
                                       .file = (uint32_t)i,
                                       .has_snapshot = true,
                                       .introduces = true,
                                       .moves_head = true };
    }
    ck_assert_int_eq(import_delta_begin(&delta, &plan, 7), 0);
    for (size_t i = N; i-- > 0;) {
        struct skade_event e = {
            .kind = SKADE_EVENT_COMMIT, .table = 7, .location = names[i], .snapshot = many[i].snapshot
        };
        e.flags = SKADE_MOVES_HEAD | SKADE_INTRODUCES | SKADE_WITH_SNAPSHOT;
        if (i % 2)
            ck_assert_int_eq(import_delta_event(&delta, &e), 0);
    }
    ck_assert_int_eq(import_delta_finish(&delta), IMPORT_SAME);
    ck_assert_uint_eq(delta.row_count, N / 2);
    ck_assert_uint_eq(delta.held_back, N / 2);
    for (size_t i = 0; i < delta.row_count; i++)
        ck_assert_uint_eq(delta.rows[i].file, 2 * i);
}
END_TEST

Suite *cli_import_suite(void);

Suite *cli_import_suite(void)
{
    Suite *s = suite_create("cli_import");
    TCase *t = tcase_create("cli_import");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_first_import_is_the_whole_plan);
    tcase_add_test(t, a_second_import_adds_nothing);
    tcase_add_test(t, a_file_with_many_snapshots_is_not_added_twice);
    tcase_add_test(t, only_what_came_since_is_added);
    tcase_add_test(t, another_table_uuid_under_the_name_is_refused_even_with_the_same_locations);
    tcase_add_test(t, commits_that_have_nothing_to_do_with_it_are_another_table);
    tcase_add_test(t, a_table_that_a_writer_committed_to_is_completed_without_repeating);
    tcase_add_test(t, the_same_files_under_another_uri_are_refused);
    tcase_add_test(t, files_may_have_been_deleted_since);
    tcase_add_test(t, a_file_that_was_left_out_comes_later_and_leaves_the_head);
    tcase_add_test(t, a_head_that_is_newer_than_all_files_stays);
    tcase_add_test(t, a_head_beyond_the_files_stays_when_nothing_of_the_plan_moved_it);
    tcase_add_test(t, a_rollback_moves_the_head_back_once);
    tcase_add_test(t, a_snapshot_known_from_elsewhere_still_moves_the_head);
    tcase_add_test(t, every_import_after_every_prefix_ends_alike);
    tcase_add_test(t, of_two_imports_at_once_each_has_a_release_of_its_own_if_it_moves_the_head);
    tcase_add_test(t, a_thousand_files_are_told_apart);
    suite_add_tcase(s, t);
    return s;
}
