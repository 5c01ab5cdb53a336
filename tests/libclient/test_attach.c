/*
 * What may be answered from shared memory, and what becomes of it when the daemon, its files or its log
 * change.
 */
#include "client.h"
#include "fake.h"
#include "tempdir.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND 1000

/* One table with three commits, published. */
static struct world *published(void)
{
    struct world *w = world_make();
    world_new_page(w);
    world_create(w, "shop.orders");
    world_commit(w, 1, 10, 100, "s3://orders/10");
    world_commit(w, 1, 20, 200, "s3://orders/20");
    world_commit(w, 1, 30, 300, "s3://orders/30");
    world_publish(w);
    return w;
}

static void assert_resolves(skade *s, uint32_t table, int64_t id, const char *location)
{
    struct skade_answer a = answer();
    int r = skade_resolve(s, table, id, &a);
    ck_assert_msg(r == 1, "%s: %s", skade_errname(r), skade_errmsg(s));
    ck_assert_str_eq(a.location, location);
    ck_assert_int_eq(a.status, 1);
}

static int resolve(skade *s, uint32_t table, int64_t id)
{
    struct skade_answer a = answer();
    int r = skade_resolve(s, table, id, &a);
    ck_assert_int_eq(r, a.status == SKADE_ENOTABLE || a.status == SKADE_ENOSNAPSHOT ? 0 : a.status);
    return a.status;
}

/* ---- hits ---------------------------------------------------------------------------------------------- */

START_TEST(a_hit_needs_no_daemon)
{
    struct world *w = published();
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();

    ck_assert_int_eq(skade_resolve(s, 1, 20, &a), 1);
    ck_assert_str_eq(a.location, "s3://orders/20");
    ck_assert_uint_eq(a.location_len, 14);
    ck_assert_uint_eq(a.seq, 3);
    ck_assert_int_eq(a.time_us, 200);
    ck_assert_int_eq(a.snapshot, 20);
    ck_assert_uint_eq(a.table, 1);
    ck_assert_uint_eq(a.flags, SKADE_HAS_SNAPSHOT | SKADE_FROM_MAP);
    skade_close(s);
}
END_TEST

START_TEST(a_hit_holds_while_newer_commits_wait_in_the_tail)
{
    struct world *w = published();
    skade *s = world_open(w, 0);

    world_commit(w, 1, 40, 400, "s3://orders/40");
    assert_resolves(s, 1, 20, "s3://orders/20");
    skade_close(s);
}
END_TEST

START_TEST(a_name_that_is_borne_needs_no_daemon)
{
    struct world *w = published();
    skade *s = world_open(w, 0);
    skade_table t = 0;

    ck_assert_int_eq(skade_find_table(s, "shop.orders", &t), 1);
    ck_assert_uint_eq(t, 1);
    skade_close(s);
}
END_TEST

static enum fake_verdict have_no_place(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                       struct wr *out)
{
    (void)f, (void)h, (void)payload;
    fake_error(out, 0, SKADE_EBUSY, "as many as max_connections allows");
    return FAKE_CLOSE;
}

START_TEST(a_daemon_without_a_free_connection_leaves_names_and_hits)
{
    struct world *w = published();
    struct fake *f = fake_start(w, have_no_place, NULL);
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();
    skade_table t = 0;

    ck_assert_int_eq(skade_find_table(s, "shop.orders", &t), 1);
    ck_assert_uint_eq(t, 1);
    assert_resolves(s, t, 20, "s3://orders/20");
    /* What could have changed is not said, and the refusal is quoted. */
    ck_assert_int_eq(skade_find_table(s, "shop.none", &t), SKADE_EBUSY);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "max_connections"));
    ck_assert_int_eq(skade_head(s, 1, &a), SKADE_EBUSY);
    skade_close(s);
    s = world_open(w, SKADE_ALLOW_STALE);
    ck_assert_int_eq(skade_head(s, 1, &a), 1);
    ck_assert(a.flags & SKADE_STALE);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(retired_snapshots_and_dropped_tables_need_no_daemon)
{
    struct world *w = published();
    world_create(w, "shop.old");
    world_expire(w, 1, 2);
    world_drop(w, 2);
    world_publish(w);
    world_commit(w, 1, 40, 400, "s3://orders/40"); /* so the map doesn't cover all */
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();

    ck_assert_int_eq(skade_resolve(s, 1, 10, &a), SKADE_EEXPIRED);
    ck_assert_uint_eq(a.retired_by, 6);
    ck_assert_uint_eq(a.location_len, 0);
    ck_assert_str_eq(a.location, "");
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "event 6"));
    ck_assert_int_eq(resolve(s, 2, 10), SKADE_ENOTABLE);
    ck_assert_int_eq(skade_head(s, 2, &a), 0);
    ck_assert_int_eq(a.status, SKADE_ENOTABLE);
    skade_close(s);
}
END_TEST

START_TEST(a_location_that_does_not_fit_says_how_long_it_is)
{
    struct world *w = published();
    skade *s = world_open(w, 0);
    char buffer[32];

    for (uint32_t cap = 0; cap <= 14; cap++) {
        struct skade_answer a = SKADE_ANSWER(buffer, cap);
        ck_assert_int_eq(skade_resolve(s, 1, 20, &a), -ERANGE);
        ck_assert_uint_eq(a.location_len, 14);
        ck_assert_int_eq(a.status, -ERANGE);
    }
    struct skade_answer a = SKADE_ANSWER(buffer, 15);
    ck_assert_int_eq(skade_resolve(s, 1, 20, &a), 1);
    skade_close(s);
}
END_TEST

/* ---- what can go out of date --------------------------------------------------------------------------- */

/* Every question whose answer can go out of date; all of them have one that the map knows. */
static int ask_perishable(skade *s, int which, struct skade_answer *a)
{
    skade_table t;

    switch (which) {
    case 0:
        return skade_resolve(s, 1, 99, a);
    case 1:
        return skade_head(s, 1, a);
    case 2:
        return skade_as_of(s, 1, 250, a);
    case 3:
        return skade_find_table(s, "shop.nobody", &t);
    default:
        return skade_resolve(s, 99, 1, a);
    }
}
static const int perishable_result[] = { 0, 1, 1, 0, 0 };
#define PERISHABLE 5

START_TEST(without_a_daemon_nothing_perishable_is_answered)
{
    struct world *w = published();
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();

    int r = ask_perishable(s, _i, &a);
    ck_assert_int_eq(r, SKADE_EUNREACHABLE);
    ck_assert(_i == 3 || a.status == SKADE_EUNREACHABLE);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "skaded running"));
    skade_close(s);
}
END_TEST

START_TEST(a_handle_that_allows_it_gets_a_stale_answer)
{
    struct world *w = published();
    skade *s = world_open(w, SKADE_ALLOW_STALE);
    struct skade_answer a = answer();

    ck_assert_int_eq(ask_perishable(s, _i, &a), perishable_result[_i]);
    ck_assert(_i == 3 || (a.flags & SKADE_STALE));
    ck_assert_uint_eq(handle_counter(s, "stale_answers"), 1);
    skade_close(s);
}
END_TEST

START_TEST(a_connection_that_lives_proves_the_page)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();

    ck_assert_int_eq(ask_perishable(s, _i, &a), perishable_result[_i]);
    ck_assert(_i == 3 || (a.flags & SKADE_FROM_MAP));
    ck_assert_uint_eq(handle_counter(s, "asked_daemon"), 0);
    fake_stop(f);
    ck_assert_int_eq(ask_perishable(s, _i, &a), SKADE_EUNREACHABLE);
    skade_close(s);
}
END_TEST

START_TEST(a_heartbeat_seen_to_move_proves_the_page_for_two_seconds)
{
    struct world *w = published();
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();

    handle_clock(s);
    skade_quiesce(s); /* attach by the test's clock */
    ck_assert_int_eq(ask_perishable(s, _i, &a), SKADE_EUNREACHABLE);
    world_beat(w);
    test_clock_ms += SECOND;
    ck_assert_int_eq(ask_perishable(s, _i, &a), perishable_result[_i]); /* moved between the two looks */
    test_clock_ms += SECOND; /* two seconds after the look that it moved after */
    ck_assert_int_eq(ask_perishable(s, _i, &a), perishable_result[_i]);
    test_clock_ms += 1;
    ck_assert_int_eq(ask_perishable(s, _i, &a), SKADE_EUNREACHABLE);
    skade_close(s);
}
END_TEST

START_TEST(a_heartbeat_that_moved_some_time_in_a_long_pause_proves_nothing)
{
    struct world *w = published();
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();

    handle_clock(s);
    skade_quiesce(s);
    ck_assert_int_eq(ask_perishable(s, _i, &a), SKADE_EUNREACHABLE);
    world_beat(w); /* the daemon died right after this one */
    test_clock_ms += 3600 * SECOND;
    ck_assert_int_eq(ask_perishable(s, _i, &a), SKADE_EUNREACHABLE);
    skade_close(s);
}
END_TEST

START_TEST(what_the_map_does_not_cover_is_asked)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();

    world_commit(w, 1, 99, 400, "s3://orders/99");
    ck_assert_int_eq(skade_resolve(s, 1, 99, &a), 1);
    ck_assert_uint_eq(a.flags & SKADE_FROM_MAP, 0);
    ck_assert_str_eq(a.location, "s3://orders/99");
    ck_assert_int_eq(skade_head(s, 1, &a), 1);
    ck_assert_int_eq(a.snapshot, 99);
    ck_assert_int_eq(skade_as_of(s, 1, 1000, &a), 1);
    ck_assert_int_eq(a.snapshot, 99);
    ck_assert_uint_eq(handle_counter(s, "asked_daemon"), 3);
    ck_assert_uint_eq(f->last_at, SEQ_MAX);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_time_before_the_first_commit_names_the_earliest)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();

    ck_assert_int_eq(skade_as_of(s, 1, 99, &a), 0);
    ck_assert_int_eq(a.status, SKADE_ENOSNAPSHOT);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "1970-01-01T00:00:00.000100Z"));
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- generations --------------------------------------------------------------------------------------- */

START_TEST(a_new_generation_is_mapped_at_the_next_question)
{
    struct world *w = published();
    skade *s = world_open(w, 0);

    assert_resolves(s, 1, 10, "s3://orders/10");
    const struct part_map *first = s->shm.gen->parts[0];
    world_commit(w, 1, 40, 400, "s3://orders/40");
    world_publish(w);
    assert_resolves(s, 1, 40, "s3://orders/40");
    ck_assert_uint_eq(s->shm.gen->parts_count, 2);
    ck_assert_ptr_eq(s->shm.gen->parts[0], first); /* not mapped again */
    ck_assert_uint_eq(handle_counter(s, "refreshes"), 2);
    skade_close(s);
}
END_TEST

START_TEST(an_old_map_never_answers_for_a_generation_that_cannot_be_mapped)
{
    struct world *w = published();
    skade *s = world_open(w, 0);

    handle_clock(s);
    assert_resolves(s, 1, 10, "s3://orders/10");
    world_expire(w, 1, 2);
    uint64_t generation = world_make_files(w);
    ck_assert_int_eq(unlink(world_file(w, SHM_ROOT, generation)), 0);
    atomic_store(&w->page->generation, generation);
    ck_assert_int_eq(resolve(s, 1, 10), SKADE_EUNREACHABLE);
    struct fake *f = fake_start(w, NULL, NULL);
    ck_assert_int_eq(resolve(s, 1, 10), SKADE_EEXPIRED);
    ck_assert_uint_eq(handle_counter(s, "failed_missing"), 1); /* and not tried again at once */
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_failed_map_is_tried_again_after_a_while_and_ever_less_often)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    int64_t waited = 0;
    char hidden[300];

    handle_clock(s);
    snprintf(hidden, sizeof hidden, "%s/hidden", w->place.dir);
    uint64_t generation = world_make_files(w);
    ck_assert_int_eq(rename(world_file(w, SHM_ROOT, generation), hidden), 0);
    atomic_store(&w->page->generation, generation);
    for (uint64_t tries = 1; tries <= 12; tries++) {
        ck_assert_int_eq(resolve(s, 1, 10), 1);
        ck_assert_uint_eq(handle_counter(s, "failed_missing"), tries);
        int64_t wait = s->shm.backoff.until - test_clock_ms;
        int64_t most = tries <= 10 ? 10 << (tries - 1) : 10000;
        ck_assert_int_le(wait, most);
        ck_assert_int_gt(wait, most / 2);
        test_clock_ms += wait - 1;
        ck_assert_int_eq(resolve(s, 1, 10), 1);
        ck_assert_uint_eq(handle_counter(s, "failed_missing"), tries);
        test_clock_ms += 1;
        waited += wait;
    }
    ck_assert_int_eq(rename(hidden, world_file(w, SHM_ROOT, generation)), 0);
    struct skade_answer a = answer();
    ck_assert_int_eq(skade_resolve(s, 1, 10, &a), 1);
    ck_assert_uint_ne(a.flags & SKADE_FROM_MAP, 0);
    ck_assert_int_eq(s->shm.backoff.wait, 0);
    ck_assert_int_gt(waited, 10000);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(another_daemon_is_a_reason_to_try_again_at_once)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();

    handle_clock(s);
    ck_assert_int_eq(unlink(world_file(w, SHM_CONTROL, 0)), 0);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(skade_resolve(s, 1, 10, &a), 1);
        test_clock_ms += 20 * SECOND;
    }
    ck_assert_int_gt(s->shm.backoff.wait, 5 * SECOND);
    fake_stop(f);
    world_new_page(w);
    world_publish(w);
    f = fake_start(w, NULL, NULL);
    ck_assert_int_eq(skade_resolve(s, 1, 10, &a), 1); /* over the socket: so the new daemon is noticed */
    ck_assert_int_eq(skade_resolve(s, 1, 10, &a), 1);
    ck_assert_uint_ne(a.flags & SKADE_FROM_MAP, 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(while_nothing_is_published_the_daemon_is_asked)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();

    assert_resolves(s, 1, 10, "s3://orders/10");
    atomic_store(&w->page->generation, CONTROL_NONE);
    ck_assert_int_eq(skade_resolve(s, 1, 10, &a), 1);
    ck_assert_uint_eq(a.flags & SKADE_FROM_MAP, 0);
    world_publish(w);
    ck_assert_int_eq(skade_resolve(s, 1, 10, &a), 1);
    ck_assert_uint_ne(a.flags & SKADE_FROM_MAP, 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- control pages ------------------------------------------------------------------------------------- */

START_TEST(a_retired_page_is_left_for_its_successor)
{
    struct world *w = published();
    skade *s = world_open(w, 0);
    struct control_page *old = w->page;

    assert_resolves(s, 1, 10, "s3://orders/10");
    world_new_page(w);
    world_commit(w, 1, 40, 400, "s3://orders/40");
    world_publish(w);
    assert_resolves(s, 1, 10, "s3://orders/10"); /* of the old page, which nobody has retired yet */
    ck_assert_uint_eq(handle_counter(s, "attaches"), 1);
    atomic_store(&old->generation, CONTROL_RETIRED);
    assert_resolves(s, 1, 40, "s3://orders/40");
    ck_assert_uint_eq(handle_counter(s, "attaches"), 2);
    ck_assert_uint_eq(handle_counter(s, "retired_seen"), 1);
    skade_close(s);
}
END_TEST

START_TEST(a_retired_page_without_successor_is_not_opened_at_every_question)
{
    struct world *w = published();
    skade *s = world_open(w, SKADE_ALLOW_STALE);
    struct skade_answer a = answer();

    handle_clock(s);
    world_retire_page(w);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(skade_resolve(s, 1, 10, &a), 1);
        ck_assert_uint_ne(a.flags & SKADE_STALE, 0);
    }
    ck_assert_uint_eq(handle_counter(s, "failed_other"), 1);
    skade_close(s);
}
END_TEST

START_TEST(a_page_under_a_new_epoch_of_the_same_daemon_is_taken)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct control_page *old = w->page;
    struct skade_answer a = answer();

    ck_assert_int_eq(skade_head(s, 1, &a), 1);
    world_new_page(w); /* the daemon's names were deleted: it makes new ones and keeps its connections */
    world_publish(w);
    atomic_store(&old->generation, CONTROL_RETIRED);
    ck_assert_int_eq(skade_head(s, 1, &a), 1);
    ck_assert_uint_ne(a.flags & SKADE_FROM_MAP, 0);
    ck_assert_uint_eq(f->connections, 2); /* a new hello told that it is right */
    ck_assert_uint_eq(handle_counter(s, "strayed"), 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(the_page_of_another_daemon_is_never_believed)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    f->epoch = 4711; /* the daemon that answers has a page that we can't see */
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();

    handle_clock(s);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(skade_resolve(s, 1, 10, &a), 1);
        ck_assert_uint_eq(a.flags & SKADE_FROM_MAP, 0);
    }
    ck_assert_uint_eq(handle_counter(s, "strayed"), 1);
    ck_assert_uint_le(f->connections, 2);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_page_attached_before_the_daemon_answered_is_dropped_when_it_is_not_its)
{
    struct world *w = published();
    skade *s = world_open(w, 0);

    assert_resolves(s, 1, 10, "s3://orders/10");
    struct fake *f = fake_start(w, NULL, NULL);
    f->epoch = 4711;
    struct skade_answer a = answer();
    ck_assert_int_eq(skade_head(s, 1, &a), 1); /* perishable: so the daemon is asked */
    ck_assert_ptr_null(s->shm.control.page);
    ck_assert_int_eq(skade_resolve(s, 1, 10, &a), 1);
    ck_assert_uint_eq(a.flags & SKADE_FROM_MAP, 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(the_daemon_says_where_its_files_are)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    struct skade_options o = { .size = sizeof o, .run_dir = w->run };
    struct skade_answer a = answer();
    skade *s;

    setenv("SKADE_SHM_DIR", "/nonexistent", 1);
    ck_assert_int_eq(skade_open(&s, &o), 0);
    ck_assert_int_eq(skade_resolve(s, 1, 10, &a), 1);
    ck_assert_uint_ne(a.flags & SKADE_FROM_MAP, 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- files that are not what they should be ------------------------------------------------------------ */

enum damage {
    MISSING,
    EMPTY,
    SHORT,
    ZEROS,
    FLIPPED,
    WRITABLE,
    DIRECTORY,
    FIFO,
    SYMLINK,
    LINK_TO_NOTHING,
    DAMAGES
};
static const char *const damage_counter[DAMAGES] = {
    [MISSING] = "failed_missing",         [EMPTY] = "failed_damaged",   [SHORT] = "failed_damaged",
    [ZEROS] = "failed_damaged",           [FLIPPED] = "failed_damaged", [WRITABLE] = "failed_foreign",
    [DIRECTORY] = "failed_foreign",       [FIFO] = "failed_foreign",    [SYMLINK] = "failed_foreign",
    [LINK_TO_NOTHING] = "failed_foreign",
};

static void overwrite(const char *path, const void *data, size_t size, off_t off)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, data, size, off), (ssize_t)size);
    close(fd);
}

static void flip_last_byte(const char *path)
{
    struct stat st;
    char byte;

    ck_assert_int_eq(stat(path, &st), 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_eq(pread(fd, &byte, 1, 20), 1);
    byte = (char)~byte;
    ck_assert_int_eq(pwrite(fd, &byte, 1, 20), 1);
    close(fd);
}

static void do_damage(const char *path, enum damage damage)
{
    static const char zeros[CONTROL_SIZE];
    struct stat st;
    char aside[600];

    ck_assert_int_eq(stat(path, &st), 0);
    snprintf(aside, sizeof aside, "%s.aside", path);
    ck_assert_int_eq(chmod(path, 0600), 0);
    switch (damage) {
    case EMPTY:
        ck_assert_int_eq(truncate(path, 0), 0);
        return;
    case SHORT:
        ck_assert_int_eq(truncate(path, st.st_size / 2), 0);
        return;
    case ZEROS:
        overwrite(path, zeros, (size_t)st.st_size, 0);
        return;
    case FLIPPED:
        flip_last_byte(path);
        return;
    case WRITABLE:
        ck_assert_int_eq(chmod(path, 0620), 0);
        return;
    default:
        ck_assert_int_eq(rename(path, aside), 0);
    }
    if (damage == DIRECTORY)
        ck_assert_int_eq(mkdir(path, 0700), 0);
    if (damage == FIFO)
        ck_assert_int_eq(mkfifo(path, 0400), 0);
    if (damage == SYMLINK)
        ck_assert_int_eq(symlink(aside, path), 0);
    if (damage == LINK_TO_NOTHING)
        ck_assert_int_eq(symlink("/nonexistent", path), 0);
}

/* _i: which file times which damage. */
START_TEST(a_file_that_is_not_right_is_counted_and_the_daemon_asked)
{
    struct world *w = published();
    const enum shm_kind kinds[] = { SHM_CONTROL, SHM_ROOT, SHM_PART };
    enum damage damage = (enum damage)(_i % DAMAGES);
    struct skade_answer a = answer();

    do_damage(world_file(w, kinds[_i / DAMAGES], w->generation), damage);
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    ck_assert_int_eq(skade_resolve(s, 1, 10, &a), 1);
    ck_assert_str_eq(a.location, "s3://orders/10");
    ck_assert_uint_eq(a.flags & SKADE_FROM_MAP, 0);
    ck_assert_uint_eq(handle_counter(s, damage_counter[damage]), 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_damaged_file_and_no_daemon_say_so_at_open)
{
    struct world *w = published();
    skade *s = NULL;

    do_damage(world_file(w, SHM_CONTROL, 0), ZEROS);
    ck_assert_int_eq(world_try_open(w, 0, 1000, &s), SKADE_EUNREACHABLE);
    ck_assert_ptr_null(s);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(NULL), "skaded running"));
    ck_assert_ptr_nonnull(strstr(skade_errmsg(NULL), "ctl"));
}
END_TEST

/* ---- another log --------------------------------------------------------------------------------------- */

START_TEST(a_replaced_log_fails_one_call_and_is_followed_then)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct control_page *old = w->page;
    struct skade_answer a = answer();

    assert_resolves(s, 1, 10, "s3://orders/10");
    fake_stop(f);
    world_replace_log(w);
    world_new_page(w);
    world_create(w, "other.table");
    world_commit(w, 1, 10, 100, "s3://other/10");
    world_publish(w);
    atomic_store(&old->generation, CONTROL_RETIRED);
    f = fake_start(w, NULL, NULL);
    ck_assert_int_eq(skade_resolve(s, 1, 10, &a), SKADE_EREPLACED);
    ck_assert_int_eq(a.status, SKADE_EREPLACED);
    assert_resolves(s, 1, 10, "s3://other/10");
    ck_assert_uint_eq(handle_counter(s, "logs_replaced"), 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_replaced_log_is_noticed_without_a_daemon_too)
{
    struct world *w = published();
    skade *s = world_open(w, 0);
    struct control_page *old = w->page;

    world_replace_log(w);
    world_new_page(w);
    world_create(w, "other.table");
    world_commit(w, 1, 10, 100, "s3://other/10");
    world_publish(w);
    atomic_store(&old->generation, CONTROL_RETIRED);
    ck_assert_int_eq(resolve(s, 1, 10), SKADE_EREPLACED);
    assert_resolves(s, 1, 10, "s3://other/10");
    skade_close(s);
}
END_TEST

START_TEST(the_old_log_s_leftover_page_is_not_mistaken_for_a_replacement)
{
    struct world *w = published(); /* its page stays and is never retired */
    world_replace_log(w);
    uint64_t old_dev = w->dev, old_ino = w->ino;
    w->dev = w->ino = 1; /* the new daemon's page is in another place */
    struct fake *f = fake_start(w, NULL, NULL);
    f->epoch = 99;
    world_create(w, "other.table");
    world_add(w, &(struct event){ .kind = EVENT_COMMIT,
                                  .flags = 7,
                                  .table = 1,
                                  .snapshot = 10,
                                  .text = bytes_of("s3://other/10") });
    skade *s = world_open(w, 0);
    for (int i = 0; i < 10; i++)
        assert_resolves(s, 1, 10, "s3://other/10");
    ck_assert_uint_eq(handle_counter(s, "logs_replaced"), 0);
    ck_assert(old_dev != 1 && old_ino != 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- an older copy of the same log --------------------------------------------------------------------- */

/* W, which is published, becomes an older copy of itself that ends at SEQ, with another third commit; its
 * daemon makes a new page. */
static void go_back(struct world *w, uint64_t seq)
{
    struct control_page *old = w->page;

    world_go_back(w, seq);
    world_new_page(w);
    world_publish(w);
    atomic_store(&old->generation, CONTROL_RETIRED);
}

START_TEST(a_log_that_went_back_fails_one_call_and_is_followed_then)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();

    assert_resolves(s, 1, 30, "s3://orders/30");
    fake_stop(f);
    go_back(w, 3);
    f = fake_start(w, NULL, NULL);
    ck_assert_int_eq(skade_resolve(s, 1, 30, &a), SKADE_EREPLACED);
    ck_assert_int_eq(a.status, SKADE_EREPLACED);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "went back"));
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "event 4"));
    ck_assert_int_eq(resolve(s, 1, 30), SKADE_ENOSNAPSHOT);
    world_commit(w, 1, 30, 300, "s3://orders/other");
    world_publish(w);
    assert_resolves(s, 1, 30, "s3://orders/other");
    ck_assert_uint_eq(handle_counter(s, "logs_replaced"), 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* Nobody asked the page for its newest event before it was gone; the handle knows all the same. */
START_TEST(what_a_page_came_to_know_after_it_was_attached_counts)
{
    struct world *w = published();
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();

    assert_resolves(s, 1, 10, "s3://orders/10");
    world_commit(w, 1, 40, 400, "s3://orders/40"); /* event 5 */
    struct fake *f = fake_start(w, NULL, NULL);
    go_back(w, 4); /* what the handle saw when it attached */
    ck_assert_int_eq(skade_resolve(s, 1, 10, &a), SKADE_EREPLACED);
    assert_resolves(s, 1, 10, "s3://orders/10");
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_page_that_is_behind_is_left_alone_until_a_daemon_vouches_for_it)
{
    struct world *w = published();
    skade *s = world_open(w, 0);

    assert_resolves(s, 1, 30, "s3://orders/30");
    go_back(w, 3);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(resolve(s, 1, 30), SKADE_EUNREACHABLE);
    ck_assert_uint_eq(handle_counter(s, "logs_replaced"), 0);
    ck_assert_uint_ge(handle_counter(s, "strayed"), 1);
    struct fake *f = fake_start(w, NULL, NULL);
    ck_assert_int_eq(resolve(s, 1, 30), SKADE_EREPLACED);
    ck_assert_int_eq(resolve(s, 1, 30), SKADE_ENOSNAPSHOT);
    assert_resolves(s, 1, 20, "s3://orders/20");
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* A page of before, in another /dev/shm, beside a daemon that can be reached only now and then. */
START_TEST(an_old_page_is_no_reason_to_believe_that_the_log_went_back)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    uint64_t dev = w->dev, ino = w->ino;

    w->page = NULL; /* it stays as it is: nobody writes it any more */
    w->dev = w->ino = 1;
    f->epoch = 99;
    world_commit(w, 1, 40, 400, "s3://orders/40");
    skade *s = world_open(w, 0);
    assert_resolves(s, 1, 40, "s3://orders/40");
    fake_stop(f);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(resolve(s, 1, 50), SKADE_EUNREACHABLE);
    f = fake_start(w, NULL, NULL);
    f->epoch = 99;
    assert_resolves(s, 1, 40, "s3://orders/40");
    ck_assert_uint_eq(handle_counter(s, "logs_replaced"), 0);
    ck_assert(dev != 1 && ino != 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(restarts_of_a_daemon_are_no_reason_either)
{
    struct world *w = published();
    skade *s = world_open(w, 0);

    for (int i = 0; i < 20; i++) {
        struct fake *f = fake_start(w, NULL, NULL);
        struct control_page *old = w->page;
        assert_resolves(s, 1, 30, "s3://orders/30");
        world_commit(w, 1, 100 + i, 1000 + i, "s3://orders/more");
        assert_resolves(s, 1, 100 + i, "s3://orders/more");
        if (i % 3 == 0)
            fake_stop(f);
        world_new_page(w);
        if (i % 2 == 0)
            world_publish(w);
        atomic_store(&old->generation, CONTROL_RETIRED);
        if (i % 3 != 0)
            fake_stop(f);
    }
    ck_assert_uint_eq(handle_counter(s, "logs_replaced"), 0);
    skade_close(s);
}
END_TEST

/* ---- letting go ---------------------------------------------------------------------------------------- */

static int maps_of(const struct world *w)
{
    char line[1024];
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "re");

    while (fgets(line, sizeof line, f)) {
        if (strstr(line, w->place.dir) && strstr(line, "r--s"))
            n++;
    }
    fclose(f);
    return n;
}

START_TEST(a_quiet_handle_maps_nothing_and_comes_back)
{
    struct world *w = published();
    skade *s = world_open(w, 0);

    assert_resolves(s, 1, 10, "s3://orders/10");
    ck_assert_int_eq(maps_of(w), 3);
    skade_quiesce(s);
    ck_assert_int_eq(maps_of(w), 0);
    assert_resolves(s, 1, 10, "s3://orders/10");
    skade_close(s);
    ck_assert_int_eq(maps_of(w), 0);
}
END_TEST

static int open_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

START_TEST(no_descriptor_is_kept_but_the_socket)
{
    struct world *w = published();
    int before = open_descriptors();
    skade *s = world_open(w, 0);

    assert_resolves(s, 1, 10, "s3://orders/10");
    ck_assert_int_eq(open_descriptors(), before);
    struct fake *f = fake_start(w, NULL, NULL);
    int with_fake = open_descriptors();
    ck_assert_int_ge(skade_ping(s), 0);
    ck_assert_int_eq(open_descriptors(), with_fake + 2); /* both ends are in this process */
    skade_close(s);
    fake_stop(f);
    ck_assert_int_eq(open_descriptors(), before);
}
END_TEST

START_TEST(a_handle_without_shared_memory_asks_everything)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    struct skade_answer a = answer();
    skade_table t;

    if (_i == 1)
        setenv("SKADE_SHM", "no", 1);
    skade *s = world_open(w, _i == 0 ? SKADE_NO_SHM : 0);
    ck_assert_int_eq(skade_find_table(s, "shop.orders", &t), 1);
    ck_assert_int_eq(skade_resolve(s, t, 10, &a), 1);
    ck_assert_uint_eq(a.flags, SKADE_HAS_SNAPSHOT);
    ck_assert_int_eq(skade_head(s, t, &a), 1);
    ck_assert_int_eq(skade_resolve(s, t, 11, &a), 0);
    ck_assert_int_eq(a.status, SKADE_ENOSNAPSHOT);
    ck_assert_int_eq(maps_of(w), 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

Suite *client_attach_suite(void);
Suite *client_attach_suite(void)
{
    Suite *suite = suite_create("client_attach");
    TCase *t = tcase_create("attach");

    tcase_set_timeout(t, 300);
    tcase_add_test(t, a_hit_needs_no_daemon);
    tcase_add_test(t, a_hit_holds_while_newer_commits_wait_in_the_tail);
    tcase_add_test(t, a_name_that_is_borne_needs_no_daemon);
    tcase_add_test(t, a_daemon_without_a_free_connection_leaves_names_and_hits);
    tcase_add_test(t, retired_snapshots_and_dropped_tables_need_no_daemon);
    tcase_add_test(t, a_location_that_does_not_fit_says_how_long_it_is);
    tcase_add_loop_test(t, without_a_daemon_nothing_perishable_is_answered, 0, PERISHABLE);
    tcase_add_loop_test(t, a_handle_that_allows_it_gets_a_stale_answer, 0, PERISHABLE);
    tcase_add_loop_test(t, a_connection_that_lives_proves_the_page, 0, PERISHABLE);
    tcase_add_loop_test(t, a_heartbeat_seen_to_move_proves_the_page_for_two_seconds, 0, PERISHABLE);
    tcase_add_loop_test(t, a_heartbeat_that_moved_some_time_in_a_long_pause_proves_nothing, 0, PERISHABLE);
    tcase_add_test(t, what_the_map_does_not_cover_is_asked);
    tcase_add_test(t, a_time_before_the_first_commit_names_the_earliest);
    tcase_add_test(t, a_new_generation_is_mapped_at_the_next_question);
    tcase_add_test(t, an_old_map_never_answers_for_a_generation_that_cannot_be_mapped);
    tcase_add_test(t, a_failed_map_is_tried_again_after_a_while_and_ever_less_often);
    tcase_add_test(t, another_daemon_is_a_reason_to_try_again_at_once);
    tcase_add_test(t, while_nothing_is_published_the_daemon_is_asked);
    tcase_add_test(t, a_retired_page_is_left_for_its_successor);
    tcase_add_test(t, a_retired_page_without_successor_is_not_opened_at_every_question);
    tcase_add_test(t, a_page_under_a_new_epoch_of_the_same_daemon_is_taken);
    tcase_add_test(t, the_page_of_another_daemon_is_never_believed);
    tcase_add_test(t, a_page_attached_before_the_daemon_answered_is_dropped_when_it_is_not_its);
    tcase_add_test(t, the_daemon_says_where_its_files_are);
    tcase_add_loop_test(t, a_file_that_is_not_right_is_counted_and_the_daemon_asked, 0, 3 * DAMAGES);
    tcase_add_test(t, a_damaged_file_and_no_daemon_say_so_at_open);
    tcase_add_test(t, a_replaced_log_fails_one_call_and_is_followed_then);
    tcase_add_test(t, a_replaced_log_is_noticed_without_a_daemon_too);
    tcase_add_test(t, a_log_that_went_back_fails_one_call_and_is_followed_then);
    tcase_add_test(t, what_a_page_came_to_know_after_it_was_attached_counts);
    tcase_add_test(t, a_page_that_is_behind_is_left_alone_until_a_daemon_vouches_for_it);
    tcase_add_test(t, an_old_page_is_no_reason_to_believe_that_the_log_went_back);
    tcase_add_test(t, restarts_of_a_daemon_are_no_reason_either);
    tcase_add_test(t, the_old_log_s_leftover_page_is_not_mistaken_for_a_replacement);
    tcase_add_test(t, a_quiet_handle_maps_nothing_and_comes_back);
    tcase_add_test(t, no_descriptor_is_kept_but_the_socket);
    tcase_add_loop_test(t, a_handle_without_shared_memory_asks_everything, 0, 2);
    suite_add_tcase(suite, t);
    return suite;
}
