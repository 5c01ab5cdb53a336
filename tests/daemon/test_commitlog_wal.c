/*
 * The write-ahead log after a kill or a power cut, when its bytes aren't what was written: what is damaged must
 * be refused, and what a crash leaves must open.
 *
 * Each log here was left by a process that ended without closing it.  Its groups are of a few events each, so
 * the write-ahead log has a row of transactions, and the tests know where each of them ends.
 */
#include "commitlog_fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

Suite *commitlog_wal_suite(void);

#define HEADER 32
#define FRAME_HEAD 24
#define FRAME (FRAME_HEAD + 4096)
#define SECTOR 512
#define GROUPS 8
#define GROUP 3 /* events */

/* ---- logs that were left ----------------------------------------------------------------------------- */

struct left {
    const char *dir;
    const char *db_path;
    const char *wal_path;
    struct blob db;
    struct blob wal;
};

static int leave_groups(void *dir)
{
    struct commitlog *log;
    if (try_open(&log, dir, NULL) < 0)
        return 2;
    for (int i = 0; i < GROUPS; i++)
        if (append_samples(log, GROUP, NULL) < 0)
            return 3;
    return 0;
}

static struct left left_by(int (*work)(void *dir))
{
    struct left l = { .dir = scratch_path("log") };
    struct commitlog *log = must_open(l.dir);
    commitlog_close(log);
    ck_assert_int_eq(in_child(work, (void *)l.dir), 0);
    l.db_path = path_in(l.dir, "skade.db");
    l.wal_path = path_in(l.dir, "skade.db-wal");
    l.db = read_blob(l.db_path);
    l.wal = read_blob(l.wal_path);
    return l;
}

static void forget(struct left *l)
{
    free(l->db.data);
    free(l->wal.data);
}

static uint32_t number_at(const struct blob *b, size_t off)
{
    const unsigned char *p = b->data + off;
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Where the frames end that the last COUNT transactions come after. */
static size_t end_before_last(const struct blob *wal, int count)
{
    size_t end = HEADER + (wal->len - HEADER) / FRAME * FRAME;
    while (end > HEADER && memcmp(wal->data + end - FRAME + 8, wal->data + 16, 8) != 0)
        end -= FRAME; /* of before the file was begun anew */
    for (; count >= 0; end -= FRAME)
        if (number_at(wal, end - FRAME + 4) && count-- == 0)
            return end;
    return 0;
}

/* The log with these bytes: 0 and how many events it has, or the error. */
static int open_with(const struct left *l, const struct blob *wal, uint64_t *events, struct errmsg *msg)
{
    struct commitlog *log;
    int error;

    write_blob(l->db_path, &l->db);
    write_blob(l->wal_path, wal);
    uint64_t before = fingerprint(l->dir);
    int r = try_open(&log, l->dir, msg);
    if (r < 0) {
        ck_assert_uint_eq(fingerprint(l->dir), before); /* what is refused is left as it was */
        return r;
    }
    *events = count_samples(log, &error, msg);
    ck_assert_int_eq(error, 0);
    commitlog_close(log);
    return 0;
}

static void must_have(const struct left *l, const struct blob *wal, uint64_t want, const char *what,
                      size_t off)
{
    struct errmsg msg = { "" };
    uint64_t n = 0;
    int r = open_with(l, wal, &n, &msg);
    ck_assert_msg(r == 0 && n == want, "%s, byte %zu: %s, %llu events, not %llu: %s", what, off,
                  error_name(r), (unsigned long long)n, (unsigned long long)want, msg.text);
}

static void must_refuse(const struct left *l, const struct blob *wal, struct errmsg *msg, size_t off)
{
    uint64_t n = 0;
    int r = open_with(l, wal, &n, msg);
    ck_assert_msg(r == SKADE_EDAMAGED, "byte %zu: %s, and %llu events", off, error_name(r),
                  (unsigned long long)n);
}

/* ---- damage ------------------------------------------------------------------------------------------ */

/* Every byte of the headers, some of the pages. */
static size_t next_byte(size_t off)
{
    size_t in_frame = off < HEADER ? 0 : (off - HEADER) % FRAME;
    if (in_frame < FRAME_HEAD)
        return off + 1;
    return in_frame + 61 < FRAME ? off + 61 : off + FRAME - in_frame;
}

START_TEST(damage_that_commits_follow_is_refused)
{
    struct left l = left_by(leave_groups);
    size_t last = end_before_last(&l.wal, 1);

    ck_assert_uint_gt(last, (GROUPS - 2) * FRAME);
    for (size_t off = 0; off < last; off = next_byte(off)) {
        struct errmsg msg = { "" };
        l.wal.data[off] ^= 0x41;
        must_refuse(&l, &l.wal, &msg, off);
        ck_assert_ptr_nonnull(strstr(msg.text, "skade.db-wal"));
        ck_assert_ptr_nonnull(strstr(msg.text, "restore the newest backup"));
        l.wal.data[off] ^= 0x41;
    }
    must_have(&l, &l.wal, GROUPS * GROUP, "undamaged", 0);
    forget(&l);
}
END_TEST

START_TEST(a_lost_block_that_commits_follow_is_refused)
{
    struct left l = left_by(leave_groups);
    size_t last = end_before_last(&l.wal, 2); /* what shows it is the end of the last but one */
    unsigned char kept[4096];

    for (size_t off = 0; off + sizeof kept < last; off += sizeof kept) {
        struct errmsg msg = { "" };
        memcpy(kept, l.wal.data + off, sizeof kept);
        memset(l.wal.data + off, 0, sizeof kept);
        must_refuse(&l, &l.wal, &msg, off);
        memcpy(l.wal.data + off, kept, sizeof kept);
    }
    forget(&l);
}
END_TEST

START_TEST(the_refusal_tells_what_is_certain_and_how_to_go_on_with_it)
{
    struct left l = left_by(leave_groups);
    struct errmsg msg = { "" };
    unsigned long long certain, size;

    for (int behind = 2; behind < GROUPS; behind++) {
        size_t off = end_before_last(&l.wal, behind) + FRAME_HEAD + 1000;
        l.wal.data[off] ^= 1;
        must_refuse(&l, &l.wal, &msg, off);
        const char *tells = strstr(msg.text, " events are certain"), *cut = strstr(msg.text, "truncate -s ");
        ck_assert(tells && cut);
        while (tells[-1] != ' ')
            tells--;
        ck_assert_int_eq(sscanf(tells, "%llu", &certain), 1);
        ck_assert_int_eq(sscanf(cut, "truncate -s %llu", &size), 1);
        ck_assert_uint_eq(certain, (uint64_t)(GROUPS - behind) * GROUP);
        must_have(&l, &(struct blob){ l.wal.data, size }, certain, "as it was told", off);
        l.wal.data[off] ^= 1;
    }
    forget(&l);
}
END_TEST

START_TEST(a_check_of_the_file_refuses_it_too)
{
    struct left l = left_by(leave_groups);
    struct errmsg msg = { "" };

    ck_assert_int_eq(commitlog_check_file(l.db_path, NULL, &msg), 0);
    l.wal.data[l.wal.len / 3] ^= 1;
    write_blob(l.wal_path, &l.wal);
    ck_assert_int_eq(commitlog_check_file(l.db_path, NULL, &msg), SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(msg.text, "is damaged at byte"));
    forget(&l);
}
END_TEST

/* ---- unfinished ends ----------------------------------------------------------------------------------- */

START_TEST(the_last_commit_cut_anywhere_is_an_unfinished_one)
{
    struct left l = left_by(leave_groups);
    size_t last = end_before_last(&l.wal, 1);

    for (size_t len = last; len < l.wal.len; len++)
        must_have(&l, &(struct blob){ l.wal.data, len }, (GROUPS - 1) * GROUP, "cut", len);
    struct blob zeros = { calloc(1, l.wal.len), l.wal.len };
    ck_assert_ptr_nonnull(zeros.data);
    for (size_t len = last; len < l.wal.len; len = next_byte(len)) {
        memcpy(zeros.data, l.wal.data, len); /* longer each time */
        must_have(&l, &zeros, (GROUPS - 1) * GROUP, "zeros", len);
    }
    free(zeros.data);
    forget(&l);
}
END_TEST

/* What a power cut leaves of the last transaction: any of its sectors, and else zeros, or what stands BEHIND
 * that far in the file: frames of before.  The commit before it is synced, so the sector that both share is as it was at least up to there. */
static void cut_power(const struct left *l, size_t last, size_t behind, uint64_t dice, uint64_t events)
{
    struct blob mix = { malloc(l->wal.len), l->wal.len };
    struct errmsg msg = { "" };
    uint64_t n = 0;

    ck_assert_ptr_nonnull(mix.data);
    memcpy(mix.data, l->wal.data, l->wal.len);
    for (size_t off = last / SECTOR * SECTOR; off < mix.len; off += SECTOR) {
        size_t from = off < last ? last : off, to = off + SECTOR < mix.len ? off + SECTOR : mix.len;
        dice = dice * 6364136223846793005u + 1442695040888963407u;
        if (dice >> 62 != 0)
            continue;
        if (behind && to + behind <= l->wal.len)
            memcpy(mix.data + from, l->wal.data + from + behind, to - from);
        else
            memset(mix.data + from, 0, to - from);
    }
    int r = open_with(l, &mix, &n, &msg);
    ck_assert_msg(r == 0 && (n == events || n == events - GROUP), "%s, %llu events: %s", error_name(r),
                  (unsigned long long)n, msg.text);
    free(mix.data);
}

START_TEST(any_sectors_of_the_last_commit_are_an_unfinished_one)
{
    struct left l = left_by(leave_groups);
    for (uint64_t dice = 0; dice < 300; dice++)
        cut_power(&l, end_before_last(&l.wal, 1), 0, dice, GROUPS * GROUP);
    forget(&l);
}
END_TEST

START_TEST(a_commit_without_its_first_frame_is_an_unfinished_one)
{
    struct left l = left_by(leave_groups);
    size_t last = end_before_last(&l.wal, 1);

    ck_assert_uint_gt(l.wal.len - last, FRAME); /* the frames behind it hang together */
    memset(l.wal.data + last, 0, FRAME);
    must_have(&l, &l.wal, (GROUPS - 1) * GROUP, "no first frame", last);
    forget(&l);
}
END_TEST

/* ---- older frames -------------------------------------------------------------------------------------- */

/* Many groups, then the file is begun anew with a few. */
static int leave_begun_anew(void *dir)
{
    struct commitlog *log;
    if (try_open(&log, dir, NULL) < 0)
        return 2;
    for (int i = 0; i < 4 * GROUPS; i++)
        if (append_samples(log, GROUP, NULL) < 0)
            return 3;
    if (commitlog_checkpoint(log, false, NULL, NULL) < 0)
        return 4;
    for (int i = 0; i < GROUPS; i++)
        if (append_samples(log, GROUP, NULL) < 0)
            return 5;
    return 0;
}

START_TEST(frames_of_before_the_file_was_begun_anew_are_no_commits)
{
    struct left l = left_by(leave_begun_anew);
    size_t last = end_before_last(&l.wal, 1), end = end_before_last(&l.wal, 0);
    uint64_t events = 5 * GROUPS * GROUP;
    struct errmsg msg = { "" };

    ck_assert_uint_gt(l.wal.len, end + 20 * FRAME);
    must_have(&l, &l.wal, events, "undamaged", 0);
    for (uint64_t dice = 0; dice < 300; dice++)
        cut_power(&l, last, end - last, dice, events);
    for (size_t off = 0; off < last; off = next_byte(off) + 400) {
        l.wal.data[off] ^= 0x41;
        must_refuse(&l, &l.wal, &msg, off);
        l.wal.data[off] ^= 0x41;
    }
    forget(&l);
}
END_TEST

static int leave_all_in_the_database(void *dir)
{
    struct commitlog *log;
    if (try_open(&log, dir, NULL) < 0)
        return 2;
    for (int i = 0; i < GROUPS; i++)
        if (append_samples(log, GROUP, NULL) < 0)
            return 3;
    return commitlog_checkpoint(log, false, NULL, NULL) == 0 ? 0 : 4;
}

/* A header that was half written again, when a checkpoint had moved everything. */
START_TEST(a_torn_header_over_what_the_database_has_is_harmless)
{
    struct left l = left_by(leave_all_in_the_database), needed = left_by(leave_groups);

    for (size_t off = 0; off < HEADER; off++) {
        struct errmsg msg = { "" };
        l.wal.data[off] ^= 1;
        needed.wal.data[off] ^= 1;
        must_have(&l, &l.wal, GROUPS * GROUP, "torn header", off);
        must_refuse(&needed, &needed.wal, &msg, off);
        ck_assert_ptr_nonnull(strstr(msg.text, "damaged at byte 0"));
        l.wal.data[off] ^= 1;
        needed.wal.data[off] ^= 1;
    }
    forget(&l);
    forget(&needed);
}
END_TEST

/* Emptied after a checkpoint, and of the old bytes some were still there when the power failed. */
START_TEST(a_file_that_was_being_emptied_is_harmless)
{
    struct left l = left_by(leave_all_in_the_database);
    unsigned char kept[3 * FRAME];

    for (size_t frames = 1; frames <= 3; frames++) {
        memcpy(kept, l.wal.data + HEADER, frames * FRAME);
        memset(l.wal.data + HEADER, 0, frames * FRAME);
        must_have(&l, &l.wal, GROUPS * GROUP, "emptied", frames);
        memcpy(l.wal.data + HEADER, kept, frames * FRAME);
    }
    memset(l.wal.data, 0, SECTOR);
    must_have(&l, &l.wal, GROUPS * GROUP, "no header", 0);
    forget(&l);
}
END_TEST

/* Groups, then one that was given up for want of room, then a last small one over its first frames. */
static int leave_stale_frames(void *dir)
{
    struct commitlog *log;
    struct rlimit limit;

    signal(SIGXFSZ, SIG_IGN);
    if (try_open(&log, dir, NULL) < 0)
        return 2;
    for (int i = 0; i < GROUPS - 1; i++)
        if (append_samples(log, GROUP, NULL) < 0)
            return 3;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = commitlog_wal_bytes(log) + 12 * FRAME + 700;
    if (setrlimit(RLIMIT_FSIZE, &limit) < 0 || append_samples(log, 2000, NULL) != SKADE_EFULL)
        return 4;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_FSIZE, &limit) < 0 || append_samples(log, GROUP, NULL) < 0 ? 5 : 0;
}

START_TEST(frames_that_were_given_up_behind_an_unfinished_end_are_no_commits)
{
    struct left l = left_by(leave_stale_frames);
    size_t end = HEADER + (l.wal.len - HEADER) / FRAME * FRAME;
    size_t last = HEADER;
    int commits = 0;

    /* Of those that were given up none commits. */
    for (size_t off = HEADER; off < end; off += FRAME)
        if (number_at(&l.wal, off + 4) && ++commits == GROUPS - 1)
            last = off + FRAME;
    ck_assert_int_eq(commits, GROUPS);
    ck_assert_uint_gt(l.wal.len, last + 8 * FRAME);
    must_have(&l, &l.wal, GROUPS * GROUP, "undamaged", 0);
    for (uint64_t dice = 0; dice < 200; dice++)
        cut_power(&l, last, 0, dice, GROUPS * GROUP);
    forget(&l);
}
END_TEST

/* ---- mode normal --------------------------------------------------------------------------------------- */

START_TEST(without_sync_full_a_hole_is_what_a_power_cut_leaves)
{
    struct left l = left_by(leave_groups);
    size_t off = end_before_last(&l.wal, 3) + 100;
    struct commitlog_options normal = { .dir = l.dir, .sync_full = false };

    l.wal.data[off] ^= 1;
    write_blob(l.wal_path, &l.wal);
    struct commitlog *log = must_open_with(normal);
    must_hold(log, (GROUPS - 3) * GROUP);
    must_append(log, 1);
    commitlog_close(log);
    reopen_must_hold(l.dir, (GROUPS - 3) * GROUP + 1);
    forget(&l);
}
END_TEST

/* ---- the suite ----------------------------------------------------------------------------------------- */

Suite *commitlog_wal_suite(void)
{
    Suite *s = suite_create("commitlog_wal");
    TCase *damage = tcase_create("damage");
    TCase *ends = tcase_create("ends");

    tcase_add_unchecked_fixture(damage, scratch_setup, scratch_teardown);
    tcase_set_timeout(damage, 60);
    tcase_add_test(damage, damage_that_commits_follow_is_refused);
    tcase_add_test(damage, a_lost_block_that_commits_follow_is_refused);
    tcase_add_test(damage, the_refusal_tells_what_is_certain_and_how_to_go_on_with_it);
    tcase_add_test(damage, a_check_of_the_file_refuses_it_too);
    suite_add_tcase(s, damage);

    tcase_add_unchecked_fixture(ends, scratch_setup, scratch_teardown);
    tcase_set_timeout(ends, 60);
    tcase_add_test(ends, the_last_commit_cut_anywhere_is_an_unfinished_one);
    tcase_add_test(ends, any_sectors_of_the_last_commit_are_an_unfinished_one);
    tcase_add_test(ends, a_commit_without_its_first_frame_is_an_unfinished_one);
    tcase_add_test(ends, frames_of_before_the_file_was_begun_anew_are_no_commits);
    tcase_add_test(ends, a_torn_header_over_what_the_database_has_is_harmless);
    tcase_add_test(ends, a_file_that_was_being_emptied_is_harmless);
    tcase_add_test(ends, frames_that_were_given_up_behind_an_unfinished_end_are_no_commits);
    tcase_add_test(ends, without_sync_full_a_hole_is_what_a_power_cut_leaves);
    suite_add_tcase(s, ends);
    return s;
}
