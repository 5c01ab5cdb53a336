/*
 * The two names of a log: the origin, which it has for ever, and the one that it is published as, which a restore
 * changes.  And files of version 1, which had only the first.
 *
 * tests/data/golden/v1.log was closed in order, v1.used-log (with its write-ahead log) was killed: a table created, three
 * commits, a rename.  A daemon of version 1 made both.
 */
#include "commitlog_fixture.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define GOLDEN "tests/data/golden/"
#define GOLDEN_EVENTS 5

Suite *lineage_suite(void);

static const char *db_of(const char *dir)
{
    return path_in(dir, "skade.db");
}

/* A file that is a backup: a closed log with N samples. */
static const char *made_backup(uint64_t n)
{
    const char *dir = scratch_path("log"), *file = scratch_path("backup");
    struct commitlog *log = must_open(dir);

    must_append(log, n);
    commitlog_close(log);
    copy_to(db_of(dir), file);
    return file;
}

static struct commitlog_meta meta_of(const char *dir)
{
    struct commitlog *log = must_open(dir);
    struct commitlog_meta meta = *commitlog_meta(log);

    commitlog_close(log);
    return meta;
}

static struct commitlog_meta must_restore(const char *dir, const char *from)
{
    struct commitlog_meta meta;
    struct errmsg msg = { "" };
    int r = commitlog_restore(dir, from, &meta, &msg);

    ck_assert_msg(r == 0, "%s", msg.text);
    return meta;
}

/* ---- restoring ------------------------------------------------------------------------------------- */

START_TEST(a_new_log_bears_its_origin)
{
    struct commitlog_meta meta = meta_of(scratch_path("log"));

    ck_assert(!uuid_is_zero(&meta.origin));
    ck_assert(uuid_equal(&meta.origin, &meta.log));
}
END_TEST

START_TEST(each_restore_gives_another_name_and_keeps_origin_seed_and_rows)
{
    const char *backup = made_backup(50), *dir[3];
    struct commitlog_meta before, meta[3];

    ck_assert_int_eq(commitlog_check_file(backup, &before, NULL), 0);
    for (int i = 0; i < 3; i++) {
        dir[i] = scratch_path("log");
        meta[i] = must_restore(dir[i], i < 2 ? backup : db_of(dir[0])); /* also what was restored before */
        ck_assert(uuid_equal(&meta[i].origin, &before.origin));
        ck_assert_uint_eq(meta[i].seed, before.seed);
        ck_assert(!uuid_equal(&meta[i].log, &before.log));
        for (int j = 0; j < i; j++)
            ck_assert(!uuid_equal(&meta[i].log, &meta[j].log));
        reopen_must_hold(dir[i], 50);
        struct commitlog_meta opened = meta_of(dir[i]);
        ck_assert(uuid_equal(&opened.log, &meta[i].log));
        ck_assert(uuid_equal(&opened.origin, &before.origin));
    }
}
END_TEST

START_TEST(a_restored_log_keeps_its_name_through_writing_and_backup)
{
    const char *dir = scratch_path("log");
    struct commitlog_meta meta = must_restore(dir, made_backup(10));
    struct commitlog_backup *backup;
    struct commitlog *log = must_open(dir);
    int r;

    must_append(log, 30);
    ck_assert_int_eq(commitlog_set_epoch(log, 7, true, NULL), 0);
    ck_assert_int_eq(commitlog_backup_begin(&backup, log, NULL), 0);
    while ((r = commitlog_backup_step(backup, 8, NULL)) == 1)
        ;
    ck_assert_int_eq(r, 0);
    ck_assert(uuid_equal(&commitlog_backup_meta(backup)->log, &meta.log));
    ck_assert(uuid_equal(&commitlog_backup_meta(backup)->origin, &meta.origin));
    commitlog_backup_end(backup);
    commitlog_close(log);
    struct commitlog_meta after = meta_of(dir);
    ck_assert(uuid_equal(&after.log, &meta.log));
    ck_assert_uint_eq(after.last_seq, 40);
    reopen_must_hold(dir, 40);
}
END_TEST

START_TEST(a_copy_is_renewed_in_its_place)
{
    const char *file = made_backup(20);
    struct commitlog_meta before, meta, after;
    struct errmsg msg = { "" };
    char wal[600];

    ck_assert_int_eq(commitlog_check_file(file, &before, NULL), 0);
    int r = commitlog_renew_file(file, &meta, &msg);
    ck_assert_msg(r == 0, "%s", msg.text);
    ck_assert_int_eq(commitlog_check_file(file, &after, NULL), 0);
    ck_assert(uuid_equal(&after.log, &meta.log));
    ck_assert(!uuid_equal(&after.log, &before.log));
    ck_assert(uuid_equal(&after.origin, &before.origin));
    ck_assert_uint_eq(after.last_seq, 20);
    snprintf(wal, sizeof wal, "%s-wal", file);
    ck_assert(!exists(wal));
}
END_TEST

START_TEST(a_copy_that_is_not_whole_is_not_renewed)
{
    const char *file = made_backup(20);
    struct blob whole = read_blob(file);
    struct errmsg msg;

    for (size_t at = 4096 + 100; at < whole.len; at += 977) {
        struct blob bad = { malloc(whole.len), whole.len };
        memcpy(bad.data, whole.data, whole.len);
        bad.data[at] ^= 0x10;
        write_blob(file, &bad);
        int r = commitlog_renew_file(file, NULL, &msg);
        /* A byte that nothing uses is no damage; then it is the log that it was. */
        struct commitlog_meta meta;
        if (r == 0) {
            ck_assert_int_eq(commitlog_check_file(file, &meta, NULL), 0);
            ck_assert_uint_eq(meta.last_seq, 20);
        } else {
            ck_assert_ptr_nonnull(strstr(msg.text, file));
        }
        free(bad.data);
    }
    write_blob(file, &(struct blob){ whole.data, whole.len - 4096 });
    ck_assert_int_eq(commitlog_renew_file(file, NULL, &msg), SKADE_EDAMAGED);
    write_blob(file, &whole);
    raw_sql(file, "UPDATE log SET snapshot = snapshot + 1 WHERE seq = 7");
    ck_assert_int_eq(commitlog_renew_file(file, NULL, &msg), SKADE_EDAMAGED);
    free(whole.data);
}
END_TEST

/* ---- version 1 ------------------------------------------------------------------------------------- */

/* A directory with a log of version 1: "v1.log" or "v1.used-log". */
static const char *golden_log(const char *name)
{
    const char *dir = scratch_path("log");
    char from[100];

    ck_assert_int_eq(mkdir(dir, 0700), 0);
    snprintf(from, sizeof from, GOLDEN "%s", name);
    ck_assert_msg(exists(from), "%s isn't here: run the suites in the repository's top folder", from);
    copy_to(from, db_of(dir));
    snprintf(from, sizeof from, GOLDEN "%s-wal", name);
    if (exists(from))
        copy_to(from, path_in(dir, "skade.db-wal"));
    return dir;
}

static int count_event(void *arg, const struct event *e, uint64_t chain)
{
    (void)chain;
    if (e->seq == 2)
        ck_assert(bytes_equal(e->text, bytes_of("s3://lake/orders/v1")));
    ++*(int *)arg;
    return 0;
}

static void must_have_events(struct commitlog *log, int n)
{
    struct commitlog_cursor cursor = commitlog_start(commitlog_meta(log));
    struct errmsg msg = { "" };
    int count = 0;

    int r = commitlog_read(log, &cursor, SIZE_MAX, SIZE_MAX, count_event, &count, &msg);
    ck_assert_msg(r == 0, "%s", msg.text);
    ck_assert_int_eq(count, n);
}

static int append_one(struct commitlog *log, struct errmsg *msg)
{
    struct sample sample;

    make_sample(&sample, commitlog_meta(log)->last_seq + 1);
    return commitlog_append(log, &sample.event, 1, msg);
}

static const char *const golden[] = { "v1.log", "v1.used-log" };

START_TEST(a_log_of_version_1_opens_and_its_name_is_its_origin)
{
    const char *dir = golden_log(golden[_i]);
    struct commitlog *log = must_open(dir);
    const struct commitlog_meta *meta = commitlog_meta(log);

    ck_assert(!uuid_is_zero(&meta->origin));
    ck_assert(uuid_equal(&meta->origin, &meta->log));
    ck_assert_uint_eq(meta->last_seq, GOLDEN_EVENTS);
    must_have_events(log, GOLDEN_EVENTS);
    commitlog_close(log);
}
END_TEST

START_TEST(a_log_of_version_1_that_nobody_writes_to_stays_as_it_is)
{
    const char *dir = golden_log("v1.log");
    uint64_t before = fingerprint(dir);

    commitlog_close(must_open(dir));
    ck_assert_uint_eq(fingerprint(dir), before);
}
END_TEST

START_TEST(the_first_write_makes_version_1_the_newest)
{
    const char *dir = golden_log(golden[_i]);
    struct uuid origin = meta_of(dir).origin;
    struct commitlog *log = must_open(dir);

    ck_assert_int_eq(_i == 0 ? append_one(log, NULL) : commitlog_set_epoch(log, 9, false, NULL), 0);
    int n = GOLDEN_EVENTS + (_i == 0);
    must_have_events(log, n);
    commitlog_close(log);
    ck_assert_int_eq(raw_number(db_of(dir), "PRAGMA user_version"), 2);
    ck_assert_int_eq(raw_number(db_of(dir), "PRAGMA freelist_count"), 0);
    log = must_open_with((struct commitlog_options){ .dir = dir, .sync_full = true });
    ck_assert(uuid_equal(&commitlog_meta(log)->origin, &origin));
    ck_assert(uuid_equal(&commitlog_meta(log)->log, &origin));
    ck_assert_int_eq(append_one(log, NULL), 0);
    must_have_events(log, n + 1);
    commitlog_close(log);
}
END_TEST

START_TEST(a_backup_of_a_log_of_version_1_is_whole)
{
    const char *dir = golden_log(golden[_i]);
    struct commitlog *log = must_open(dir);
    struct commitlog_backup *backup;
    int r;

    ck_assert_int_eq(commitlog_backup_begin(&backup, log, NULL), 0);
    while ((r = commitlog_backup_step(backup, 8, NULL)) == 1)
        ;
    ck_assert_int_eq(r, 0);
    ck_assert_uint_eq(commitlog_backup_meta(backup)->last_seq, GOLDEN_EVENTS);
    commitlog_backup_end(backup);
    must_have_events(log, GOLDEN_EVENTS);
    commitlog_close(log);
}
END_TEST

START_TEST(a_backup_of_version_1_is_restored_under_another_name)
{
    struct uuid origin = meta_of(golden_log("v1.log")).origin;
    const char *dir = scratch_path("log");
    struct commitlog_meta meta = must_restore(dir, db_of(golden_log("v1.log")));

    ck_assert(uuid_equal(&meta.origin, &origin));
    ck_assert(!uuid_equal(&meta.log, &origin));
    struct commitlog *log = must_open(dir);
    must_have_events(log, GOLDEN_EVENTS);
    ck_assert_int_eq(append_one(log, NULL), 0);
    commitlog_close(log);
}
END_TEST

START_TEST(a_version_and_tables_that_do_not_fit_are_refused)
{
    const char *dir = golden_log("v1.log"), *other = scratch_path("log");
    struct commitlog *log = NULL;
    struct errmsg msg;

    raw_sql(db_of(dir), "PRAGMA user_version = 2");
    ck_assert_int_eq(try_open(&log, dir, &msg), SKADE_EDAMAGED);
    commitlog_close(must_open(other));
    raw_sql(db_of(other), "PRAGMA user_version = 1");
    ck_assert_int_eq(try_open(&log, other, &msg), SKADE_EDAMAGED);
}
END_TEST

#ifdef SKADE_FAILPOINTS
static void fail_at(const char *points, const char *name, const char *what)
{
    write_blob(path_in(points, name), &(struct blob){ (unsigned char *)what, strlen(what) });
}

START_TEST(a_renewal_that_finds_no_room_leaves_version_1_and_works_later)
{
    const char *dir = golden_log(golden[_i]), *points = scratch_path("points");
    struct errmsg msg;

    ck_assert_int_eq(mkdir(points, 0700), 0);
    setenv("SKADE_FAILPOINT_DIR", points, 1);
    struct commitlog *log = must_open(dir);
    fail_at(points, "log.commit", "fail 28");
    ck_assert_int_eq(append_one(log, &msg), SKADE_EFULL);
    ck_assert_int_eq(unlink(path_in(points, "log.commit")), 0);
    must_have_events(log, GOLDEN_EVENTS);
    ck_assert_int_eq(append_one(log, NULL), 0);
    must_have_events(log, GOLDEN_EVENTS + 1);
    commitlog_close(log);
    ck_assert_int_eq(raw_number(db_of(dir), "PRAGMA user_version"), 2);
}
END_TEST

static int append_and_die(void *dir)
{
    struct commitlog *log;
    struct errmsg msg;

    if (try_open(&log, dir, &msg) < 0)
        return 2;
    append_one(log, &msg);
    return 3;
}

START_TEST(a_kill_within_the_renewal_leaves_a_whole_log_of_either_version)
{
    static const char *const places[] = { "log.begin", "log.commit", "log.committed", "log.checkpoint" };
    const char *dir = golden_log("v1.log"), *points = scratch_path("points");

    ck_assert_int_eq(mkdir(points, 0700), 0);
    setenv("SKADE_FAILPOINT_DIR", points, 1);
    fail_at(points, places[_i], "kill");
    ck_assert_int_eq(in_child(append_and_die, (void *)dir), -9);
    ck_assert_int_eq(unlink(path_in(points, places[_i])), 0);
    struct commitlog *log = must_open(dir);
    must_have_events(log, GOLDEN_EVENTS);
    ck_assert_int_eq(append_one(log, NULL), 0);
    must_have_events(log, GOLDEN_EVENTS + 1);
    commitlog_close(log);
}
END_TEST
#endif

Suite *lineage_suite(void)
{
    Suite *s = suite_create("lineage");
    TCase *t = tcase_create("lineage");

    tcase_set_timeout(t, 120);
    tcase_add_unchecked_fixture(t, scratch_setup, scratch_teardown);
    tcase_add_test(t, a_new_log_bears_its_origin);
    tcase_add_test(t, each_restore_gives_another_name_and_keeps_origin_seed_and_rows);
    tcase_add_test(t, a_restored_log_keeps_its_name_through_writing_and_backup);
    tcase_add_test(t, a_copy_is_renewed_in_its_place);
    tcase_add_test(t, a_copy_that_is_not_whole_is_not_renewed);
    tcase_add_loop_test(t, a_log_of_version_1_opens_and_its_name_is_its_origin, 0, 2);
    tcase_add_test(t, a_log_of_version_1_that_nobody_writes_to_stays_as_it_is);
    tcase_add_loop_test(t, the_first_write_makes_version_1_the_newest, 0, 2);
    tcase_add_loop_test(t, a_backup_of_a_log_of_version_1_is_whole, 0, 2);
    tcase_add_test(t, a_backup_of_version_1_is_restored_under_another_name);
    tcase_add_test(t, a_version_and_tables_that_do_not_fit_are_refused);
#ifdef SKADE_FAILPOINTS
    tcase_add_loop_test(t, a_renewal_that_finds_no_room_leaves_version_1_and_works_later, 0, 2);
    tcase_add_loop_test(t, a_kill_within_the_renewal_leaves_a_whole_log_of_either_version, 0, 4);
#endif
    suite_add_tcase(s, t);
    return s;
}
