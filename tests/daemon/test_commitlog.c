/*
 * The commit log: what it keeps, what it refuses, and whether damage ever becomes an answer.
 *
 * Faults of the disk, full disks and kills are in test_commitlog_faults.c.
 */
#include "commitlog_fixture.h"

#include "checksum.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

Suite *commitlog_suite(void);

static const char *db_of(const char *dir)
{
    return path_in(dir, "skade.db");
}

/* A closed log with N rows. */
static const char *made_log(uint64_t n)
{
    const char *dir = scratch_path("log");
    struct commitlog *log = must_open(dir);
    if (n)
        must_append(log, n);
    commitlog_close(log);
    return dir;
}

/* Opening DIR fails with CODE, the message names the file or directory, and nothing in DIR changes. */
static void must_refuse_saying(const char *dir, int code, const char *says)
{
    struct commitlog *log = NULL;
    struct errmsg msg = { "" };
    uint64_t before = fingerprint(dir);
    int r = try_open(&log, dir, &msg);

    ck_assert_msg(r == code, "%s instead of %s: %s", error_name(r), error_name(code), msg.text);
    ck_assert_ptr_null(log);
    ck_assert_msg(strstr(msg.text, dir), "the message names no path: %s", msg.text);
    ck_assert_msg(strstr(msg.text, says), "the message lacks \"%s\": %s", says, msg.text);
    ck_assert_uint_eq(fingerprint(dir), before);
}

/* ---- keeping --------------------------------------------------------------------------------------- */

START_TEST(a_new_log_is_empty_and_has_an_identity)
{
    struct commitlog *log = must_open(scratch_path("log"));
    const struct commitlog_meta *m = commitlog_meta(log);

    ck_assert(!uuid_is_zero(&m->log));
    ck_assert_uint_ne(m->seed, 0);
    ck_assert_int_gt(m->created_us, 0);
    ck_assert_uint_eq(m->last_seq, 0);
    ck_assert_uint_eq(m->last_chain, commitlog_chain_start(&m->origin, m->seed));
    ck_assert_uint_eq(m->last_epoch, 0);
    ck_assert(!m->clean_stop);
    ck_assert_uint_ge(m->bytes, 4096);
    must_hold(log, 0);
    commitlog_close(log);
}
END_TEST

START_TEST(two_logs_are_never_the_same)
{
    struct commitlog *a = must_open(scratch_path("log")), *b = must_open(scratch_path("log"));
    ck_assert(!uuid_equal(&commitlog_meta(a)->log, &commitlog_meta(b)->log));
    ck_assert_uint_ne(commitlog_meta(a)->seed, commitlog_meta(b)->seed);
    commitlog_close(a);
    commitlog_close(b);
}
END_TEST

START_TEST(reopening_keeps_every_row_and_the_identity)
{
    const char *dir = scratch_path("log");
    uint64_t total = 0;
    struct commitlog_meta first = { 0 };

    for (uint64_t round = 0; round < 6; round++) {
        struct commitlog *log = must_open(dir);
        if (round == 0)
            first = *commitlog_meta(log);
        ck_assert(uuid_equal(&first.log, &commitlog_meta(log)->log));
        ck_assert_uint_eq(first.seed, commitlog_meta(log)->seed);
        ck_assert_int_eq(first.created_us, commitlog_meta(log)->created_us);
        must_hold(log, total);
        for (uint64_t group = 1; group <= 5; group++) {
            must_append(log, group * round);
            total += group * round;
            must_hold(log, total);
        }
        commitlog_close(log);
    }
    reopen_must_hold(dir, total);
}
END_TEST

START_TEST(the_epoch_and_how_it_stopped_are_kept)
{
    const char *dir = scratch_path("log");
    for (uint64_t epoch = UINT64_MAX; epoch > UINT64_MAX - 4; epoch--) {
        struct commitlog *log = must_open(dir);
        ck_assert_int_eq(commitlog_set_epoch(log, epoch, epoch & 1, NULL), 0);
        ck_assert_uint_eq(commitlog_meta(log)->last_epoch, epoch);
        must_append(log, 1);
        commitlog_close(log);
        log = must_open(dir);
        ck_assert_uint_eq(commitlog_meta(log)->last_epoch, epoch);
        ck_assert_int_eq(commitlog_meta(log)->clean_stop, epoch & 1);
        commitlog_close(log);
    }
    reopen_must_hold(dir, 4);
}
END_TEST

START_TEST(extreme_values_come_back_bit_for_bit)
{
    static char long_text[LOCATION_MAX], long_text2[LOCATION_MAX];
    memset(long_text, 0xff, sizeof long_text);
    memset(long_text2, 0, sizeof long_text2);
    const struct event wanted[] = {
        { .seq = 1,
          .kind = 1,
          .table = 1,
          .snapshot = INT64_MIN,
          .time_us = INT64_MAX,
          .watermark = UINT64_MAX },
        { .seq = 2,
          .kind = EVENT_KIND_END - 1,
          .flags = EVENT_FLAGS,
          .table = UINT32_MAX,
          .snapshot = INT64_MAX,
          .time_us = INT64_MIN,
          .text = { long_text, sizeof long_text },
          .text2 = { long_text2, sizeof long_text2 } },
        { .seq = 3, .kind = 1, .table = 1, .snapshot = -1, .time_us = -1, .text = { "\0", 1 } },
        { .seq = 4, .kind = 1, .table = 1, .snapshot = 0, .time_us = 0, .text2 = { "x", 1 } },
    };
    const char *dir = scratch_path("log");
    struct commitlog *log = must_open(dir);
    ck_assert_int_eq(commitlog_append(log, wanted, ARRAY_SIZE(wanted), NULL), 0);
    commitlog_close(log);
    log = must_open(dir);
    struct commitlog_cursor at = commitlog_start(commitlog_meta(log));
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
        at.chain = commitlog_chain(at.chain, &wanted[i]), at.seq++;
    struct commitlog_cursor read = commitlog_start(commitlog_meta(log));
    ck_assert_int_eq(commitlog_read(log, &read, SIZE_MAX, SIZE_MAX, NULL, NULL, NULL), 0);
    ck_assert_uint_eq(read.seq, at.seq);
    ck_assert_uint_eq(read.chain, at.chain);
    commitlog_close(log);
}
END_TEST

/* Anyone must be able to compute the chain from the columns: here by hand, byte by byte. */
START_TEST(the_chain_is_what_its_description_says)
{
    const struct event e = { .seq = 0x0102030405060708,
                             .kind = 1,
                             .flags = 7,
                             .table = 0x11223344,
                             .snapshot = -2,
                             .time_us = 3,
                             .watermark = 9,
                             .uuid = { "0123456789abcde" },
                             .text = { "ab", 2 },
                             .text2 = { "c", 1 } };
    const unsigned char bytes[] = {
        0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01,                /* previous */
        8,    7,    6,    5,    4,    3,    2,    1,                   /* seq */
        1,    0,    0,    0,    7,    0,    0,    0,                   /* kind, flags */
        0x44, 0x33, 0x22, 0x11, 2,    0,    0,    0,                   /* table, length of text */
        1,    0,    0,    0,    0,    0,    0,    0,                   /* length of text2, zero */
        0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,                /* snapshot */
        3,    0,    0,    0,    0,    0,    0,    0,                   /* time */
        9,    0,    0,    0,    0,    0,    0,    0,                   /* watermark */
        '0',  '1',  '2',  '3',  '4',  '5',  '6',  '7',                 /* uuid */
        '8',  '9',  'a',  'b',  'c',  'd',  'e',  0,    'a', 'b', 'c', /* texts */
    };
    ck_assert_uint_eq(commitlog_chain(0x0123456789abcdef, &e), checksum(bytes, sizeof bytes, 0));
}
END_TEST

START_TEST(no_two_events_have_the_same_chain_value)
{
    struct sample s;
    make_sample(&s, 15);
    uint64_t chain = commitlog_chain(1, &s.event);
    struct event e = s.event;
    ck_assert_uint_ne(commitlog_chain(2, &e), chain);
    e.text.len--; /* a byte moves from one text to the other */
    e.text2 = (struct bytes){ s.text, 0 };
    struct event f = e;
    f.text2.data = e.text.data + e.text.len;
    f.text2.len = 1;
    ck_assert_uint_ne(commitlog_chain(1, &e), commitlog_chain(1, &f));
#define CHANGED(field, value)                             \
    do {                                                  \
        e = s.event;                                      \
        e.field = value;                                  \
        ck_assert_uint_ne(commitlog_chain(1, &e), chain); \
    } while (0)
    CHANGED(seq, e.seq + 1);
    CHANGED(kind, e.kind ^ 1);
    CHANGED(flags, e.flags ^ 1);
    CHANGED(table, e.table ^ 1);
    CHANGED(snapshot, e.snapshot ^ 1);
    CHANGED(time_us, e.time_us ^ 1);
    CHANGED(watermark, e.watermark ^ 1);
    CHANGED(uuid.b[15], e.uuid.b[15] ^ 1);
#undef CHANGED
}
END_TEST

/* ---- reading --------------------------------------------------------------------------------------- */

struct slice {
    uint64_t next;
    size_t given;
    int answer;
};

static int take_slice(void *arg, const struct event *e, uint64_t chain)
{
    struct slice *s = arg;
    (void)chain;
    ck_assert_uint_eq(e->seq, s->next);
    ck_assert(is_sample(e));
    s->next++;
    s->given++;
    return s->answer;
}

START_TEST(slices_of_every_size_give_the_whole_log_once)
{
    struct commitlog *log = must_open(scratch_path("log"));
    const uint64_t n = 50;
    must_append(log, n);
    for (size_t rows = 1; rows <= n + 1; rows++) {
        struct commitlog_cursor cursor = commitlog_start(commitlog_meta(log));
        struct slice s = { .next = 1 };
        int r;
        do {
            s.given = 0;
            r = commitlog_read(log, &cursor, rows, SIZE_MAX, take_slice, &s, NULL);
            ck_assert_uint_le(s.given, rows);
            ck_assert_uint_eq(cursor.seq, s.next - 1);
            ck_assert_int_eq(r, cursor.seq < n);
        } while (r == 1);
        ck_assert_uint_eq(s.next, n + 1);
    }
    commitlog_close(log);
}
END_TEST

START_TEST(a_slice_ends_at_its_bytes_but_gives_at_least_one_row)
{
    struct commitlog *log = must_open(scratch_path("log"));
    must_append(log, 20);
    for (size_t bytes = 0; bytes < 300; bytes += 7) {
        struct commitlog_cursor cursor = commitlog_start(commitlog_meta(log));
        struct slice s = { .next = 1 };
        size_t slices = 0;
        for (int r = 1; r == 1; slices++) {
            s.given = 0;
            r = commitlog_read(log, &cursor, SIZE_MAX, bytes, take_slice, &s, NULL);
            ck_assert_int_ge(r, 0);
            ck_assert_uint_ge(s.given, 1);
        }
        ck_assert_uint_eq(s.next, 21);
        ck_assert(bytes > 0 || slices == 20);
    }
    commitlog_close(log);
}
END_TEST

START_TEST(a_callback_may_stop_after_or_before_its_row)
{
    struct commitlog *log = must_open(scratch_path("log"));
    must_append(log, 3);
    struct commitlog_cursor cursor = commitlog_start(commitlog_meta(log));
    struct slice s = { .next = 1, .answer = 1 };
    ck_assert_int_eq(commitlog_read(log, &cursor, SIZE_MAX, SIZE_MAX, take_slice, &s, NULL), 1);
    ck_assert_uint_eq(cursor.seq, 1); /* taken */
    s = (struct slice){ .next = 2, .answer = -ECANCELED };
    ck_assert_int_eq(commitlog_read(log, &cursor, SIZE_MAX, SIZE_MAX, take_slice, &s, NULL), -ECANCELED);
    ck_assert_uint_eq(cursor.seq, 1); /* not taken */
    must_append(log, 1);              /* and nothing is left open */
    must_hold(log, 4);
    commitlog_close(log);
}
END_TEST

START_TEST(seeking_and_reading_on_gives_the_rest)
{
    struct commitlog *log = must_open(scratch_path("log"));
    const uint64_t n = 20;
    must_append(log, n);
    for (uint64_t seq = 0; seq <= n; seq++) {
        struct commitlog_cursor cursor;
        struct slice s = { .next = seq + 1 };
        ck_assert_int_eq(commitlog_seek(log, seq, &cursor, NULL), 0);
        ck_assert_uint_eq(cursor.seq, seq);
        ck_assert_int_eq(commitlog_read(log, &cursor, SIZE_MAX, SIZE_MAX, take_slice, &s, NULL), 0);
        ck_assert_uint_eq(s.next, n + 1);
        ck_assert_uint_eq(cursor.chain, commitlog_meta(log)->last_chain);
    }
    struct commitlog_cursor cursor = { 77, 78 };
    struct errmsg msg = { "" };
    ck_assert_int_eq(commitlog_seek(log, n + 1, &cursor, &msg), -ERANGE);
    ck_assert_uint_eq(cursor.seq, 77); /* untouched */
    cursor.seq = n + 1;
    ck_assert_int_eq(commitlog_read(log, &cursor, 1, 1, NULL, NULL, &msg), -ERANGE);
    commitlog_close(log);
}
END_TEST

START_TEST(a_kept_place_of_another_log_is_noticed)
{
    struct commitlog *log = must_open(scratch_path("log"));
    must_append(log, 5);
    for (uint64_t seq = 0; seq <= 5; seq++) {
        struct commitlog_cursor cursor;
        struct errmsg msg = { "" };
        ck_assert_int_eq(commitlog_seek(log, seq, &cursor, NULL), 0);
        cursor.chain ^= 1;
        ck_assert_int_eq(commitlog_read(log, &cursor, 9, SIZE_MAX, NULL, NULL, &msg), SKADE_EDAMAGED);
        ck_assert_ptr_nonnull(strstr(msg.text, "skade.db: row"));
        ck_assert_uint_eq(cursor.seq, seq);
    }
    commitlog_close(log);
}
END_TEST

/* ---- checkpoints ----------------------------------------------------------------------------------- */

START_TEST(checkpoints_move_the_wal_and_keep_every_row)
{
    const char *dir = scratch_path("log");
    struct commitlog *log = must_open(dir);
    uint64_t left = 1, n = 0;

    for (int round = 0; round < 4; round++) {
        must_append(log, 200);
        n += 200;
        ck_assert_uint_gt(commitlog_wal_bytes(log), 0);
        ck_assert_int_eq(commitlog_checkpoint(log, round & 1, &left, NULL), 0);
        ck_assert_uint_eq(left, 0);
        ck_assert_uint_eq(commitlog_wal_bytes(log), 0);
        struct stat st;
        ck_assert_int_eq(stat(path_in(dir, "skade.db-wal"), &st), 0);
        ck_assert((round & 1) == (st.st_size == 0));
        ck_assert_int_eq(stat(db_of(dir), &st), 0);
        ck_assert_uint_eq(commitlog_meta(log)->bytes, st.st_size);
        must_hold(log, n);
    }
    commitlog_close(log);
    reopen_must_hold(dir, n);
}
END_TEST

START_TEST(without_checkpoints_the_wal_grows_and_with_them_it_does_not)
{
    struct commitlog *log = must_open(scratch_path("log"));
    uint64_t before = 0;
    for (int i = 0; i < 5; i++) {
        must_append(log, 30);
        ck_assert_uint_gt(commitlog_wal_bytes(log), before);
        before = commitlog_wal_bytes(log);
    }
    ck_assert_int_eq(commitlog_checkpoint(log, false, NULL, NULL), 0);
    must_append(log, 1);
    ck_assert_uint_lt(commitlog_wal_bytes(log), before);
    commitlog_close(log);
}
END_TEST

START_TEST(a_clean_close_leaves_the_database_file_alone_there)
{
    const char *dir = made_log(10);
    ck_assert(exists(db_of(dir)));
    ck_assert(!exists(path_in(dir, "skade.db-wal")));
    ck_assert(!exists(path_in(dir, "skade.db-shm")));
    ck_assert(!exists(path_in(dir, "skade.db-journal")));
    ck_assert(!exists(path_in(dir, "skade.db.new")));
}
END_TEST

START_TEST(opening_and_closing_without_a_write_changes_no_byte)
{
    const char *dir = made_log(10);
    uint64_t before = fingerprint(dir);
    struct commitlog *log = must_open(dir);
    must_hold(log, 10);
    commitlog_close(log);
    ck_assert_uint_eq(fingerprint(dir), before);
}
END_TEST

START_TEST(files_are_private_whatever_the_umask)
{
    static const mode_t masks[] = { 0, 022, 077, 0777 };
    for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
        const char *dir = scratch_path("log");
        struct stat st;
        if (masks[i] == 0777) /* mkdir would make a directory that its owner can't use */
            ck_assert_int_eq(mkdir(dir, 0700), 0);
        mode_t old = umask(masks[i]);
        struct commitlog *log = must_open(dir);
        must_append(log, 1);
        umask(old);
        ck_assert_int_eq(stat(dir, &st), 0);
        ck_assert_uint_eq(st.st_mode & 07777, 0700);
        ck_assert_int_eq(stat(db_of(dir), &st), 0);
        ck_assert_uint_eq(st.st_mode & 07777, 0600);
        ck_assert_int_eq(stat(path_in(dir, "skade.db-wal"), &st), 0);
        ck_assert_uint_eq(st.st_mode & 07777, 0600);
        ck_assert(!exists(path_in(dir, "skade.db-shm")));
        commitlog_close(log);
    }
}
END_TEST

/* ---- damage: the heart ----------------------------------------------------------------------------- */

/* Open DIR and read everything.  True when it gave all N true rows; false when it refused on the way.
 * Any other row fails the test. */
static bool opens_or_refuses(const char *dir, uint64_t n, uint64_t log_seed)
{
    struct errmsg msg = { "" };
    struct commitlog *log = NULL;
    int error = try_open(&log, dir, &msg);

    if (error == 0) {
        uint64_t count = count_samples(log, &error, &msg);
        if (error == 0) {
            ck_assert_uint_eq(count, n);
            ck_assert_uint_eq(commitlog_meta(log)->seed, log_seed);
            ck_assert_uint_eq(commitlog_meta(log)->last_epoch, 5);
        }
        commitlog_close(log);
    }
    if (error) {
        ck_assert_msg(error == SKADE_EDAMAGED || error == SKADE_EFOREIGN || error == SKADE_EVERSION ||
                          error == -EROFS,
                      "%s: %s", error_name(error), msg.text);
        ck_assert_ptr_nonnull(strstr(msg.text, "skade.db"));
    }
    return error == 0;
}

static const char *log_to_damage(uint64_t rows, struct blob *whole, uint64_t *seed)
{
    const char *dir = scratch_path("log");
    struct commitlog *log = must_open(dir);
    ck_assert_int_eq(commitlog_set_epoch(log, 5, true, NULL), 0);
    for (uint64_t i = 0; i < rows; i++)
        must_append(log, 1);
    *seed = commitlog_meta(log)->seed;
    commitlog_close(log);
    *whole = read_blob(db_of(dir));
    return dir;
}

static void poke(int fd, size_t off, unsigned char byte)
{
    ck_assert_int_eq(pwrite(fd, &byte, 1, (off_t)off), 1);
}

/* Every byte, one bit of it (all eight with SKADE_STRESS), of the whole file. */
START_TEST(a_flipped_bit_anywhere_gives_a_refusal_or_the_true_rows)
{
    struct blob whole;
    uint64_t seed, refused = 0, flips = 0, n = 40;
    const char *dir = log_to_damage(n, &whole, &seed);
    int all = getenv("SKADE_STRESS") != NULL;

    for (size_t off = 0; off < whole.len; off++) {
        /* Empty space is all alike: a few bytes of each run of zeros will do. */
        bool empty = off >= 64 && off % 64 && whole.data[off] == 0 && whole.data[off - 1] == 0 &&
                     whole.data[off - 32] == 0 && whole.data[off - 63] == 0;
        if (empty && !all)
            continue;
        for (unsigned bit = all ? 0 : off % 8; bit < (all ? 8 : off % 8 + 1); bit++) {
            int fd = open(db_of(dir), O_WRONLY | O_CLOEXEC);
            poke(fd, off, whole.data[off] ^ (unsigned char)(1u << bit));
            close(fd);
            refused += !opens_or_refuses(dir, n, seed);
            flips++;
            struct blob now = read_blob(db_of(dir));
            now.data[off] ^= (unsigned char)(1u << bit);
            ck_assert_msg(now.len == whole.len && memcmp(now.data, whole.data, whole.len) == 0,
                          "flip at %zu: the file was changed by opening it", off);
            free(now.data);
            fd = open(db_of(dir), O_WRONLY | O_CLOEXEC);
            poke(fd, off, whole.data[off]);
            close(fd);
        }
    }
    /* Most bytes of such a file mean something; if few flips were refused, the test looks at nothing. */
    ck_assert_uint_gt(refused * 2, flips / (all ? 4 : 1));
    free(whole.data);
}
END_TEST

/* 1 when the damaged log of N rows in DIR opened, read well, and still had all rows after an append;
 * 0: it refused. */
static int append_to_damaged(const char *dir, uint64_t n)
{
    struct commitlog *log;
    struct errmsg msg;
    int error;

    struct commitlog_options opt = { .dir = dir, .sync_full = true };
    if (commitlog_open(&log, &opt, &msg) < 0)
        return 0;
    count_samples(log, &error, &msg);
    if (error == 0)
        error = append_samples(log, 30, &msg);
    if (error == 0)
        must_hold(log, n + 30);
    commitlog_close(log);
    if (error < 0)
        return 0;
    log = must_open(dir);
    must_hold(log, n + 30);
    commitlog_close(log);
    return 1;
}

/* The same where it hurts most, in the headers of the file and of its pages, and then the log is
 * written to: what SQLite believes of a wrong structure must not make it overwrite rows. */
START_TEST(a_flipped_bit_of_the_structure_never_makes_an_append_destroy_rows)
{
    struct blob whole;
    uint64_t seed, n = 60;
    const char *dir = log_to_damage(n, &whole, &seed);
    int accepted = 0, flips = 0;

    for (size_t off = 0; off < whole.len; off++) {
        if (off % 4096 >= 100 + (off < 4096 ? 16 : 0))
            continue;
        for (unsigned bit = off % 2; bit < 8; bit += 2, flips++) {
            whole.data[off] ^= (unsigned char)(1u << bit);
            write_blob(db_of(dir), &whole);
            whole.data[off] ^= (unsigned char)(1u << bit);
            unlink(path_in(dir, "skade.db-wal"));
            accepted += append_to_damaged(dir, n);
        }
    }
    ck_assert_msg(accepted > 100 && flips - accepted > 100, "%d of %d", accepted, flips);
    free(whole.data);
}
END_TEST

START_TEST(a_truncated_or_longer_file_is_refused)
{
    struct blob whole;
    uint64_t seed, n = 60;
    const char *dir = log_to_damage(n, &whole, &seed);

    for (size_t len = 0; len < whole.len; len += len < 600 ? 37 : 509) {
        struct blob part = { whole.data, len };
        write_blob(db_of(dir), &part);
        ck_assert(!opens_or_refuses(dir, n, seed));
    }
    unsigned char *longer = calloc(2, whole.len);
    memcpy(longer, whole.data, whole.len);
    for (size_t len = whole.len + 1; len < 2 * whole.len; len += 4095) {
        struct blob more = { longer, len };
        write_blob(db_of(dir), &more);
        ck_assert(!opens_or_refuses(dir, n, seed));
    }
    write_blob(db_of(dir), &whole);
    ck_assert(opens_or_refuses(dir, n, seed));
    free(longer);
    free(whole.data);
}
END_TEST

START_TEST(zeroed_and_swapped_pages_are_refused)
{
    struct blob whole;
    uint64_t seed, n = 300;
    const char *dir = log_to_damage(n, &whole, &seed);
    size_t pages = whole.len / 4096;
    unsigned char *copy = malloc(whole.len);

    ck_assert_uint_gt(pages, 5);
    for (size_t i = 0; i < pages; i++)
        for (size_t j = i; j < pages; j++) {
            memcpy(copy, whole.data, whole.len);
            memcpy(copy + i * 4096, whole.data + j * 4096, 4096);
            memcpy(copy + j * 4096, whole.data + i * 4096, 4096);
            if (i == j)
                memset(copy + i * 4096, 0, 4096);
            write_blob(db_of(dir), &(struct blob){ copy, whole.len });
            ck_assert_msg(!opens_or_refuses(dir, n, seed), "pages %zu and %zu", i, j);
        }
    free(copy);
    free(whole.data);
}
END_TEST

/* Somebody edits the closed log with the sqlite3 program. */
START_TEST(edited_rows_are_noticed)
{
    static const char *const edits[] = {
        "UPDATE log SET snapshot = snapshot + 1 WHERE seq = 7",
        "UPDATE log SET kind = 7 WHERE seq = 7",
        "UPDATE log SET kind = kind % 6 + 1 WHERE seq = 7",
        "UPDATE log SET flags = 16 WHERE seq = 7",
        "UPDATE log SET flags = flags | (1 << 32) WHERE seq = 7",
        "UPDATE log SET table_no = 0 WHERE seq = 7",
        "UPDATE log SET time_us = time_us - 1 WHERE seq = 1",
        "UPDATE log SET watermark = watermark + 1 WHERE seq = 12",
        "UPDATE log SET uuid = x'00' WHERE seq = 2",
        "UPDATE log SET uuid = zeroblob(16) WHERE seq = 2",
        "UPDATE log SET text = zeroblob(5000) WHERE seq = 2",
        "UPDATE log SET text = text2, text2 = text WHERE seq = 5",
        "UPDATE log SET chain = chain + 1 WHERE seq = 5",
        "UPDATE log SET chain = 0 WHERE seq = 20",
        "DELETE FROM log WHERE seq = 10",
        "DELETE FROM log WHERE seq = 1",
        "DELETE FROM log WHERE seq < 4",
        "DELETE FROM log WHERE seq = 20", /* the newest: the chain alone would not show it */
        "DELETE FROM log",
        "UPDATE log SET seq = 21 WHERE seq = 20",
        "UPDATE log SET seq = -1 WHERE seq = 1",
        "INSERT INTO log SELECT 0, kind, flags, table_no, snapshot, time_us, watermark, uuid, text, text2, "
        "chain FROM "
        "log WHERE seq = 3",
        "INSERT INTO log SELECT 21, kind, flags, table_no, snapshot, time_us, watermark, uuid, text, text2, "
        "chain FROM "
        "log WHERE seq = 20",
        "UPDATE log SET seq = -5 WHERE seq = 5; UPDATE log SET seq = 5 WHERE seq = 6; UPDATE log SET seq = 6 "
        "WHERE seq "
        "= -5",
        "UPDATE meta SET last_seq = 19",
        "UPDATE meta SET last_epoch = last_epoch + 1",
        "UPDATE meta SET seed = seed + 1",
        "UPDATE meta SET log = zeroblob(16)",
        "UPDATE meta SET incarnation = zeroblob(16)",
        "UPDATE meta SET incarnation = x'00'",
        "UPDATE meta SET clean_stop = 1 - clean_stop",
        "DELETE FROM meta",
        "INSERT INTO meta SELECT 2, log, incarnation, seed, created_us, last_seq, last_chain, last_epoch, "
        "clean_stop, "
        "in_use, "
        "checksum FROM meta",
        "CREATE TABLE mine(x)",
        "CREATE INDEX i ON log(table_no, snapshot)",
        "CREATE VIEW v AS SELECT * FROM log",
        "CREATE TRIGGER t AFTER INSERT ON log BEGIN DELETE FROM meta; END",
        "ALTER TABLE log ADD COLUMN more INTEGER",
        "PRAGMA user_version = 0",
    };
    struct blob whole;
    uint64_t seed;
    const char *dir = log_to_damage(20, &whole, &seed);

    for (size_t i = 0; i < ARRAY_SIZE(edits); i++) {
        write_blob(db_of(dir), &whole);
        raw_sql(db_of(dir), edits[i]);
        ck_assert_msg(!opens_or_refuses(dir, 20, seed), "%s", edits[i]);
    }
    free(whole.data);
}
END_TEST

/* What SQLite would act upon when it writes, and only then. */
START_TEST(a_layout_that_a_log_never_has_is_refused)
{
    static const char *const changes[][2] = {
        { "PRAGMA auto_vacuum = 1; VACUUM", "moves its pages" },
        { "CREATE TABLE t(x); INSERT INTO t VALUES (1); DROP TABLE t", "free pages" },
        { "PRAGMA journal_mode = DELETE; PRAGMA page_size = 8192; VACUUM; PRAGMA journal_mode = WAL",
          "page size" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        const char *dir = made_log(10);
        raw_sql(db_of(dir), changes[i][0]);
        must_refuse_saying(dir, SKADE_EDAMAGED, changes[i][1]);
    }
}
END_TEST

START_TEST(rows_of_another_log_are_noticed)
{
    const char *a = made_log(10), *b = made_log(10);
    char sql[400];
    snprintf(sql, sizeof sql,
             "ATTACH '%s' AS other; DELETE FROM main.log; INSERT INTO main.log SELECT * FROM other.log; "
             "UPDATE meta SET last_chain = (SELECT last_chain FROM other.meta)",
             db_of(b));
    raw_sql(db_of(a), sql);
    must_refuse_saying(a, SKADE_EDAMAGED, "checksum");
}
END_TEST

/* 1: give up in the middle of use, leaving a write-ahead log. */
static int write_and_die(void *dir)
{
    struct commitlog *log;
    struct errmsg msg;
    if (try_open(&log, dir, &msg) < 0 || append_samples(log, 30, &msg) < 0)
        return 2;
    return 1;
}

START_TEST(a_flipped_bit_of_the_wal_loses_a_suffix_at_most)
{
    const char *dir = made_log(10), *wal = path_in(dir, "skade.db-wal");
    ck_assert_int_eq(in_child(write_and_die, (void *)dir), 1);
    struct blob db = read_blob(db_of(dir)), whole = read_blob(wal);
    ck_assert_uint_gt(whole.len, 4096);

    for (size_t off = 0; off < whole.len; off += off < 128 ? 1 : 61) {
        struct commitlog *log;
        struct errmsg msg;
        int error;
        whole.data[off] ^= 16;
        write_blob(db_of(dir), &db);
        write_blob(wal, &whole);
        whole.data[off] ^= 16;
        error = try_open(&log, dir, &msg);
        if (error == 0) {
            uint64_t n = count_samples(log, &error, &msg);
            ck_assert(error < 0 || n == 10 || n == 40);
            commitlog_close(log);
        }
        ck_assert(error == 0 || error == SKADE_EDAMAGED);
    }
    free(db.data);
    free(whole.data);
}
END_TEST

START_TEST(a_missing_wal_of_a_log_in_use_is_noticed)
{
    const char *dir = made_log(10), *wal = path_in(dir, "skade.db-wal");
    ck_assert_int_eq(in_child(write_and_die, (void *)dir), 1);
    struct blob kept = read_blob(wal);
    ck_assert_int_eq(unlink(wal), 0);
    must_refuse_saying(dir, SKADE_EDAMAGED, "skade.db-wal is missing");
    must_refuse_saying(dir, SKADE_EDAMAGED, "skade.db-wal is missing"); /* it doesn't forget */

    struct errmsg msg;
    ck_assert_int_eq(commitlog_check_file(db_of(dir), NULL, &msg), SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(msg.text, "skade.db-wal is missing"));

    write_blob(wal, &kept); /* the one cure */
    reopen_must_hold(dir, 40);
    free(kept.data);
}
END_TEST

START_TEST(what_a_log_without_its_wal_still_has_can_be_restored)
{
    const char *dir = made_log(10), *moved = scratch_path("moved.db");
    ck_assert_int_eq(in_child(write_and_die, (void *)dir), 1);
    ck_assert_int_eq(unlink(path_in(dir, "skade.db-wal")), 0);
    ck_assert_int_eq(rename(db_of(dir), moved), 0);

    struct commitlog_meta meta;
    struct errmsg msg = { "" };
    int r = commitlog_restore(dir, moved, &meta, &msg);
    ck_assert_msg(r == 0, "%s", msg.text);
    ck_assert_uint_eq(meta.last_seq, 10);
    reopen_must_hold(dir, 10);
}
END_TEST

START_TEST(a_crashed_log_is_recovered_by_opening_it)
{
    const char *dir = made_log(10);
    for (int i = 1; i <= 3; i++) {
        ck_assert_int_eq(in_child(write_and_die, (void *)dir), 1);
        reopen_must_hold(dir, 10 + 30 * (uint64_t)i);
    }
    struct commitlog *log = must_open(dir);
    must_append(log, 5);
    commitlog_close(log);
    ck_assert(!exists(path_in(dir, "skade.db-wal")));
    reopen_must_hold(dir, 105);
}
END_TEST

/* ---- foreign files --------------------------------------------------------------------------------- */

static const char *dir_with(const char *content, size_t len)
{
    const char *dir = scratch_path("log");
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    write_blob(db_of(dir), &(struct blob){ (unsigned char *)content, len });
    return dir;
}

static const char *dir_with_database(const char *sql)
{
    const char *dir = scratch_path("log");
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    raw_sql(db_of(dir), sql);
    return dir;
}

START_TEST(what_is_no_database_is_refused_untouched)
{
    static char big[9000];
    memset(big, 'x', sizeof big);
    must_refuse_saying(dir_with("hello\n", 6), SKADE_EFOREIGN, "no database");
    must_refuse_saying(dir_with(big, sizeof big), SKADE_EFOREIGN, "no database");
    must_refuse_saying(dir_with("SQLite format 3", 16), SKADE_EFOREIGN, "no database");
    must_refuse_saying(dir_with("", 0), SKADE_EDAMAGED, "is empty");
}
END_TEST

START_TEST(other_databases_are_refused_untouched)
{
    static const char *const others[] = {
        "CREATE TABLE t(x); INSERT INTO t VALUES (1)",   "PRAGMA application_id = 1; CREATE TABLE t(x)",
        "PRAGMA journal_mode = WAL; CREATE TABLE t(x)",  "PRAGMA page_size = 1024; CREATE TABLE t(x)",
        "CREATE TABLE log(seq); CREATE TABLE meta(x)",   "PRAGMA user_version = 1", /* no tables at all */
        "PRAGMA encoding = 'UTF-16'; CREATE TABLE t(x)",
    };
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        must_refuse_saying(dir_with_database(others[i]), SKADE_EFOREIGN, "not skade's");
    must_refuse_saying(dir_with_database("PRAGMA application_id = 0x736b6164; PRAGMA user_version = 1"),
                       SKADE_EDAMAGED, "tables");
    must_refuse_saying(dir_with_database("PRAGMA application_id = 0x736b6164; CREATE TABLE t(x)"),
                       SKADE_EDAMAGED, "no version");
}
END_TEST

static int leave_foreign_wal(void *path)
{
    sqlite3 *db;
    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(
            db, "PRAGMA journal_mode=WAL; CREATE TABLE t(x); PRAGMA wal_checkpoint; INSERT INTO t VALUES (1)",
            NULL, NULL, NULL) != SQLITE_OK)
        return 2;
    return 1;
}

START_TEST(another_database_with_a_wal_is_refused_with_its_wal)
{
    const char *dir = scratch_path("log");
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    mode_t old = umask(077);
    ck_assert_int_eq(in_child(leave_foreign_wal, (void *)db_of(dir)), 1);
    umask(old);
    ck_assert(exists(path_in(dir, "skade.db-wal")));
    must_refuse_saying(dir, SKADE_EFOREIGN, "not skade's");
    ck_assert_int_eq(raw_number(db_of(dir), "SELECT count(*) FROM t"), 1); /* the row of its WAL */
}
END_TEST

START_TEST(a_newer_version_is_refused_untouched)
{
    const char *dir = made_log(10);
    raw_sql(db_of(dir), "PRAGMA user_version = 99");
    must_refuse_saying(dir, SKADE_EVERSION, "newer skade");
    raw_sql(db_of(dir), "PRAGMA user_version = 2147483647");
    must_refuse_saying(dir, SKADE_EVERSION, "newer skade");
}
END_TEST

static int bump_version_in_wal(void *path)
{
    sqlite3 *db;
    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(db, "PRAGMA user_version = 99", NULL, NULL, NULL) != SQLITE_OK)
        return 2;
    return 1;
}

START_TEST(a_newer_version_in_the_wal_only_is_refused_untouched)
{
    const char *dir = made_log(10);
    ck_assert_int_eq(in_child(bump_version_in_wal, (void *)db_of(dir)), 1);
    ck_assert(exists(path_in(dir, "skade.db-wal")));
    chmod(path_in(dir, "skade.db-wal"), 0600);
    must_refuse_saying(dir, SKADE_EVERSION, "newer skade");
}
END_TEST

START_TEST(a_header_that_forbids_writing_is_refused_at_open)
{
    const char *dir = made_log(10);
    int fd = open(db_of(dir), O_WRONLY | O_CLOEXEC);
    poke(fd, 18, 3); /* written by a later SQLite, it says: this one may only read it */
    close(fd);
    must_refuse_saying(dir, -EROFS, "can't be written");
}
END_TEST

START_TEST(a_log_in_another_journal_mode_is_refused_and_can_be_restored)
{
    const char *dir = made_log(10), *moved = scratch_path("moved.db");
    raw_sql(db_of(dir), "PRAGMA journal_mode = DELETE");
    must_refuse_saying(dir, SKADE_EDAMAGED, "journal mode");
    ck_assert_int_eq(rename(db_of(dir), moved), 0);
    ck_assert_int_eq(commitlog_restore(dir, moved, NULL, NULL), 0);
    reopen_must_hold(dir, 10);
}
END_TEST

/* ---- strangers and their files --------------------------------------------------------------------- */

START_TEST(a_symlink_hard_link_fifo_or_directory_is_refused)
{
    static const char *const names[] = { "skade.db", "skade.db-wal" };
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const char *victim = i == 0 ? db_of(made_log(3)) : scratch_path("victim");
        if (i == 1)
            write_blob(victim, &(struct blob){ (unsigned char *)"x", 1 });
        struct blob before = read_blob(victim);
        for (int how = 0; how < 4; how++) {
            const char *dir = made_log(3), *path = path_in(dir, names[i]);
            static const char *const says[] = { "symbolic link", "FIFO", "directory", "names" };
            unlink(path);
            int r = how == 0   ? symlink(victim, path)
                    : how == 1 ? mkfifo(path, 0600)
                    : how == 2 ? mkdir(path, 0700)
                               : link(victim, path);
            ck_assert_int_eq(r, 0);
            struct commitlog *log;
            struct errmsg msg = { "" };
            r = try_open(&log, dir, &msg); /* fingerprint() would wait for the FIFO */
            ck_assert_msg(r == SKADE_EFOREIGN, "%s: %s: %s", says[how], error_name(r), msg.text);
            ck_assert_msg(strstr(msg.text, path) && strstr(msg.text, says[how]), "%s", msg.text);
            ck_assert(exists(path));
        }
        struct blob after = read_blob(victim);
        ck_assert(before.len == after.len && memcmp(before.data, after.data, after.len) == 0);
        free(before.data);
        free(after.data);
    }
}
END_TEST

START_TEST(a_rollback_journal_beside_the_log_is_refused)
{
    const char *dir = made_log(3);
    write_blob(path_in(dir, "skade.db-journal"), &(struct blob){ (unsigned char *)"x", 1 });
    must_refuse_saying(dir, SKADE_EFOREIGN, "journal");
}
END_TEST

START_TEST(a_wal_without_its_database_is_refused)
{
    const char *dir = made_log(3);
    ck_assert_int_eq(in_child(write_and_die, (void *)dir), 1);
    ck_assert_int_eq(unlink(db_of(dir)), 0);
    must_refuse_saying(dir, SKADE_EDAMAGED, "is missing");
}
END_TEST

START_TEST(files_that_others_may_use_are_refused)
{
    const char *dir = made_log(3);
    ck_assert_int_eq(chmod(db_of(dir), 0640), 0);
    must_refuse_saying(dir, SKADE_EFOREIGN, "chmod 600");
    ck_assert_int_eq(chmod(db_of(dir), 0600), 0);
    ck_assert_int_eq(chmod(dir, 0770), 0);
    must_refuse_saying(dir, SKADE_EFOREIGN, "chmod 700");
    ck_assert_int_eq(chmod(dir, 0700), 0);
    reopen_must_hold(dir, 3);
}
END_TEST

START_TEST(files_of_another_user_are_refused)
{
    if (geteuid() != 0) {
        printf("skipped: files_of_another_user_are_refused: only root can give files away\n");
        return;
    }
    const char *dir = made_log(3);
    ck_assert_int_eq(chown(db_of(dir), 65534, 65534), 0);
    must_refuse_saying(dir, SKADE_EFOREIGN, "65534");
    ck_assert_int_eq(chown(db_of(dir), 0, 0), 0);
    ck_assert_int_eq(chown(dir, 65534, 65534), 0);
    must_refuse_saying(dir, SKADE_EFOREIGN, "65534");
    ck_assert_int_eq(chown(dir, 0, 0), 0);
    reopen_must_hold(dir, 3);
}
END_TEST

START_TEST(a_directory_that_cannot_be_made_or_is_none_is_refused)
{
    struct commitlog *log = NULL;
    struct errmsg msg = { "" };
    const char *missing = scratch_path("missing/log"), *file = scratch_path("file");
    ck_assert_int_eq(try_open(&log, missing, &msg), SKADE_EINPUT);
    ck_assert_ptr_nonnull(strstr(msg.text, "parent"));
    write_blob(file, &(struct blob){ (unsigned char *)"x", 1 });
    ck_assert_int_eq(try_open(&log, file, &msg), -ENOTDIR);
    char *deep = calloc(1, 1200);
    snprintf(deep, 1200, "%s", scratch_path("a"));
    mkdir(deep, 0700);
    while (strlen(deep) < 600) {
        strcat(deep, "/a-directory-with-a-long-name-to-make-the-path-longer-than-SQLite-takes");
        ck_assert_int_eq(mkdir(deep, 0700), 0);
    }
    ck_assert_int_eq(try_open(&log, deep, &msg), SKADE_EINPUT);
    ck_assert_ptr_nonnull(strstr(msg.text, "too long"));
    ck_assert_ptr_null(log);
    free(deep);
}
END_TEST

START_TEST(odd_directory_names_work)
{
    static const char *const names[] = { "with space", "100%41", "a?mode=ro#x", "file:x", "\xc3\xa9&=;'\"" };
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const char *dir = scratch_path(names[i]);
        struct commitlog *log = must_open(dir);
        must_append(log, 3);
        commitlog_close(log);
        reopen_must_hold(dir, 3);
        ck_assert_int_eq(commitlog_check_file(db_of(dir), NULL, NULL), 0);
    }
}
END_TEST

/* ---- one holder ------------------------------------------------------------------------------------ */

static int open_again(void *dir)
{
    struct commitlog *log;
    struct errmsg msg = { "" };
    int r = try_open(&log, dir, &msg);
    /* The holder is named where it can be seen. */
    bool told = strstr(msg.text, "another process") || strstr(msg.text, "has this log open");
    return r == SKADE_ERUNNING && told ? 1 : r == 0 ? 2 : 3;
}

START_TEST(a_second_process_is_refused_by_every_path)
{
    const char *dir = made_log(3), *alias = scratch_path("alias");
    struct commitlog *log = must_open(dir);
    ck_assert_int_eq(symlink(dir, alias), 0);
    ck_assert_int_eq(in_child(open_again, (void *)dir), 1);
    ck_assert_int_eq(in_child(open_again, (void *)alias), 1);
    must_append(log, 3);
    ck_assert_int_eq(in_child(open_again, (void *)dir), 1);
    struct errmsg msg;
    ck_assert_int_eq(commitlog_restore(dir, db_of(made_log(1)), NULL, &msg), SKADE_ERUNNING);
    must_hold(log, 6);
    commitlog_close(log);
    ck_assert_int_eq(in_child(open_again, (void *)dir), 2);
}
END_TEST

static int check_running(void *path)
{
    return commitlog_check_file(path, NULL, NULL) == SKADE_ERUNNING;
}

static int use_with_sqlite(void *path)
{
    sqlite3 *db;
    if (sqlite3_open(path, &db) != SQLITE_OK)
        return 2;
    int r = sqlite3_exec(db, "SELECT count(*) FROM log", NULL, NULL, NULL);
    int w = sqlite3_exec(db, "DELETE FROM log", NULL, NULL, NULL);
    sqlite3_close(db);
    return r == SQLITE_BUSY && w == SQLITE_BUSY;
}

START_TEST(other_programs_find_the_running_log_locked)
{
    const char *dir = made_log(3);
    struct commitlog *log = must_open(dir);
    ck_assert_int_eq(in_child(use_with_sqlite, (void *)db_of(dir)), 1); /* from the first moment */
    must_append(log, 1);
    ck_assert_int_eq(in_child(use_with_sqlite, (void *)db_of(dir)), 1);
    ck_assert_int_eq(commitlog_checkpoint(log, true, NULL, NULL), 0);
    ck_assert_int_eq(in_child(use_with_sqlite, (void *)db_of(dir)), 1);
    ck_assert_int_eq(in_child(check_running, (void *)db_of(dir)), 1);
    must_hold(log, 4);
    must_append(log, 1);
    commitlog_close(log);
    reopen_must_hold(dir, 5);
}
END_TEST

START_TEST(a_log_that_another_program_holds_is_refused)
{
    const char *dir = made_log(3);
    sqlite3 *db;
    ck_assert_int_eq(sqlite3_open(db_of(dir), &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, "BEGIN; SELECT * FROM log", NULL, NULL, NULL), SQLITE_OK);
    ck_assert_int_eq(in_child(open_again, (void *)dir), 1);
    sqlite3_close(db);
    ck_assert_int_eq(in_child(open_again, (void *)dir), 2);
}
END_TEST

/* ---- backup, check, restore ------------------------------------------------------------------------ */

static void save_copy(const struct commitlog_backup *backup, const char *path)
{
    int from = commitlog_backup_fd(backup);
    off_t size = lseek(from, 0, SEEK_END);
    struct blob b = { malloc((size_t)size), (size_t)size };
    ck_assert_int_eq(pread(from, b.data, b.len, 0), size);
    write_blob(path, &b);
    free(b.data);
}

START_TEST(a_backup_while_appending_is_whole_and_opens)
{
    const char *dir = scratch_path("log"), *copy = scratch_path("copy.db");
    struct commitlog *log = must_open(dir);
    struct commitlog_backup *backup, *second;
    struct errmsg msg = { "" };
    uint64_t n = 8000;
    int r, steps = 0;

    must_append(log, n);
    ck_assert_int_eq(commitlog_backup_begin(&backup, log, &msg), 0);
    ck_assert_int_eq(commitlog_backup_begin(&second, log, &msg), SKADE_EBUSY);
    while ((r = commitlog_backup_step(backup, 8, &msg)) == 1) {
        if (steps++ < 10) { /* the copy must not need more steps because of them */
            must_append(log, 7);
            n += 7;
        }
        if (steps % 5 == 0)
            ck_assert_int_eq(commitlog_checkpoint(log, steps % 2, NULL, NULL), 0);
    }
    ck_assert_msg(r == 0, "%s", msg.text);
    ck_assert_int_gt(steps, 20);
    uint64_t copied = commitlog_backup_meta(backup)->last_seq;
    ck_assert_uint_eq(copied, n); /* those ten groups came before the last page was copied */
    ck_assert(uuid_equal(&commitlog_backup_meta(backup)->log, &commitlog_meta(log)->log));
    must_append(log, 1); /* not in it */
    save_copy(backup, copy);
    commitlog_backup_end(backup);
    ck_assert(!exists(path_in(dir, "skade.backup")));
    must_hold(log, n + 1);
    commitlog_close(log);
    reopen_must_hold(dir, n + 1);

    struct commitlog_meta meta;
    ck_assert_int_eq(commitlog_check_file(copy, &meta, &msg), 0);
    ck_assert_uint_eq(meta.last_seq, copied);
    const char *restored = scratch_path("log"), *copied_by_hand = scratch_path("log");
    ck_assert_int_eq(commitlog_restore(restored, copy, &meta, &msg), 0);
    ck_assert_uint_eq(meta.last_seq, copied);
    reopen_must_hold(restored, copied);
    ck_assert_int_eq(mkdir(copied_by_hand, 0700), 0);
    copy_to(copy, db_of(copied_by_hand));
    reopen_must_hold(copied_by_hand, copied);
}
END_TEST

START_TEST(an_abandoned_backup_leaves_nothing)
{
    const char *dir = scratch_path("log");
    struct commitlog *log = must_open(dir);
    must_append(log, 1000);
    for (int steps = 0; steps < 40; steps++) {
        struct commitlog_backup *backup;
        ck_assert_int_eq(commitlog_backup_begin(&backup, log, NULL), 0);
        int r = 1;
        for (int i = 0; r == 1 && i < steps; i++)
            r = commitlog_backup_step(backup, 8, NULL);
        ck_assert_int_ge(r, 0);
        commitlog_backup_end(backup);
        ck_assert(!exists(path_in(dir, "skade.backup")));
        ck_assert(!exists(path_in(dir, "skade.backup-wal")));
        ck_assert(!exists(path_in(dir, "skade.backup-journal")));
    }
    commitlog_backup_end(NULL);
    must_append(log, 1);
    commitlog_close(log);
    reopen_must_hold(dir, 1001);
}
END_TEST

START_TEST(what_a_crash_leaves_of_a_backup_or_a_new_log_is_removed)
{
    static const char *const leftovers[] = { "skade.backup", "skade.backup-wal", "skade.backup-journal",
                                             "skade.db.new", "skade.db.new-wal", "skade.db.new-journal" };
    const char *dirs[] = { made_log(3), scratch_path("log") };
    ck_assert_int_eq(mkdir(dirs[1], 0700), 0);
    for (size_t d = 0; d < 2; d++) {
        for (size_t i = 0; i < ARRAY_SIZE(leftovers); i++)
            write_blob(path_in(dirs[d], leftovers[i]), &(struct blob){ (unsigned char *)"half", 4 });
        reopen_must_hold(dirs[d], d ? 0 : 3);
        for (size_t i = 0; i < ARRAY_SIZE(leftovers); i++)
            ck_assert(!exists(path_in(dirs[d], leftovers[i])));
    }
}
END_TEST

START_TEST(a_damaged_log_gives_no_backup)
{
    const char *dir = made_log(500);
    raw_sql(db_of(dir), "UPDATE log SET snapshot = 0 WHERE seq = 250");
    struct commitlog *log = must_open(dir);
    struct commitlog_backup *backup;
    struct errmsg msg = { "" };
    int r = commitlog_backup_begin(&backup, log, &msg);
    ck_assert_int_eq(r, 0);
    while ((r = commitlog_backup_step(backup, 100, &msg)) == 1)
        ;
    ck_assert_int_eq(r, SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(msg.text, "row 250"));
    commitlog_backup_end(backup);
    commitlog_close(log);
}
END_TEST

START_TEST(checking_a_file_finds_what_reading_it_would)
{
    struct commitlog_meta meta;
    struct errmsg msg = { "" };
    const char *dir = made_log(50);
    uint64_t before = fingerprint(dir);
    ck_assert_int_eq(commitlog_check_file(db_of(dir), &meta, &msg), 0);
    ck_assert_uint_eq(meta.last_seq, 50);
    ck_assert_uint_eq(meta.bytes % 4096, 0);
    ck_assert_uint_gt(meta.bytes, 8192);
    ck_assert_uint_eq(fingerprint(dir), before);

    ck_assert_int_eq(in_child(write_and_die, (void *)dir), 1); /* with a write-ahead log */
    before = fingerprint(dir);
    ck_assert_int_eq(commitlog_check_file(db_of(dir), &meta, &msg), 0);
    ck_assert_uint_eq(meta.last_seq, 80);
    ck_assert_uint_eq(fingerprint(dir), before);
    reopen_must_hold(dir, 80);

    dir = made_log(50);
    raw_sql(db_of(dir), "UPDATE log SET snapshot = 0 WHERE seq = 33");
    ck_assert_int_eq(commitlog_check_file(db_of(dir), &meta, &msg), SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(msg.text, "row 33"));
    ck_assert_int_eq(commitlog_check_file(scratch_path("none"), &meta, &msg), -ENOENT);
    ck_assert_int_eq(commitlog_check_file(dir, &meta, &msg), SKADE_EFOREIGN);
    ck_assert_int_eq(commitlog_check_file(db_of(dir_with("x", 1)), &meta, &msg), SKADE_EFOREIGN);
    ck_assert_int_eq(commitlog_check_file(db_of(dir_with("", 0)), &meta, &msg), SKADE_EDAMAGED);
}
END_TEST

START_TEST(a_restore_never_replaces_a_log_and_never_takes_a_bad_one)
{
    struct errmsg msg = { "" };
    const char *good = db_of(made_log(5)), *there = made_log(7), *bad_dir = made_log(9),
               *empty = scratch_path("log");
    uint64_t before = fingerprint(there);
    ck_assert_int_eq(commitlog_restore(there, good, NULL, &msg), SKADE_EEXISTS);
    ck_assert_uint_eq(fingerprint(there), before);

    raw_sql(db_of(bad_dir), "DELETE FROM log WHERE seq = 4");
    ck_assert_int_eq(commitlog_restore(empty, db_of(bad_dir), NULL, &msg), SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(msg.text, db_of(bad_dir)));
    ck_assert(!exists(db_of(empty)));
    ck_assert(!exists(path_in(empty, "skade.db.new")));

    const char *crashed = made_log(5);
    ck_assert_int_eq(in_child(write_and_die, (void *)crashed), 1);
    ck_assert_int_eq(commitlog_restore(empty, db_of(crashed), NULL, &msg), SKADE_EINPUT);
    ck_assert_ptr_nonnull(strstr(msg.text, "write-ahead log"));
    ck_assert_int_eq(commitlog_restore(empty, good, NULL, &msg), 0);
    reopen_must_hold(empty, 5);
}
END_TEST

START_TEST(an_older_copy_is_noticed_by_a_kept_place)
{
    const char *dir = made_log(10), *copy = scratch_path("old.db");
    copy_to(db_of(dir), copy);
    struct commitlog *log = must_open(dir);
    must_append(log, 5);
    struct commitlog_cursor kept = { 15, commitlog_meta(log)->last_chain }, now;
    commitlog_close(log);
    copy_to(copy, db_of(dir));
    log = must_open(dir);
    must_hold(log, 10); /* by itself it is a good log */
    ck_assert_int_eq(commitlog_seek(log, kept.seq, &now, NULL), -ERANGE);
    struct sample s;
    for (uint64_t seq = 11; seq <= 15; seq++) { /* and goes another way */
        make_sample(&s, seq);
        s.event.snapshot++;
        ck_assert_int_eq(commitlog_append(log, &s.event, 1, NULL), 0);
    }
    ck_assert_int_eq(commitlog_seek(log, kept.seq, &now, NULL), 0);
    ck_assert_uint_ne(now.chain, kept.chain);
    commitlog_close(log);
}
END_TEST

/* ---- our own mistakes ------------------------------------------------------------------------------ */

static int append_with_gap(void *dir)
{
    struct commitlog *log = must_open(dir);
    struct sample s;
    freopen("/dev/null", "w", stderr);
    make_sample(&s, 2);
    commitlog_append(log, &s.event, 1, NULL);
    return 0;
}

START_TEST(a_gap_in_what_is_appended_is_our_mistake_and_stops_the_process)
{
    const char *dir = made_log(0);
    ck_assert_int_eq(in_child(append_with_gap, (void *)dir), -6); /* SIGABRT */
    reopen_must_hold(dir, 0);
}
END_TEST

START_TEST(a_large_group_is_one_transaction)
{
    const char *dir = scratch_path("log");
    struct commitlog *log = must_open(dir);
    must_append(log, 200000);
    commitlog_close(log);
    reopen_must_hold(dir, 200000);
}
END_TEST

Suite *commitlog_suite(void)
{
    Suite *s = suite_create("commitlog");
#define CASE(name)                                                      \
    name = tcase_create(#name);                                         \
    tcase_set_timeout(name, 300);                                       \
    tcase_add_unchecked_fixture(name, scratch_setup, scratch_teardown); \
    suite_add_tcase(s, name)
    TCase *CASE(keeping);
    tcase_add_test(keeping, a_new_log_is_empty_and_has_an_identity);
    tcase_add_test(keeping, two_logs_are_never_the_same);
    tcase_add_test(keeping, reopening_keeps_every_row_and_the_identity);
    tcase_add_test(keeping, the_epoch_and_how_it_stopped_are_kept);
    tcase_add_test(keeping, extreme_values_come_back_bit_for_bit);
    tcase_add_test(keeping, the_chain_is_what_its_description_says);
    tcase_add_test(keeping, no_two_events_have_the_same_chain_value);
    tcase_add_test(keeping, a_large_group_is_one_transaction);
    tcase_add_test(keeping, a_gap_in_what_is_appended_is_our_mistake_and_stops_the_process);

    TCase *CASE(reading);
    tcase_add_test(reading, slices_of_every_size_give_the_whole_log_once);
    tcase_add_test(reading, a_slice_ends_at_its_bytes_but_gives_at_least_one_row);
    tcase_add_test(reading, a_callback_may_stop_after_or_before_its_row);
    tcase_add_test(reading, seeking_and_reading_on_gives_the_rest);
    tcase_add_test(reading, a_kept_place_of_another_log_is_noticed);

    TCase *CASE(checkpoints);
    tcase_add_test(checkpoints, checkpoints_move_the_wal_and_keep_every_row);
    tcase_add_test(checkpoints, without_checkpoints_the_wal_grows_and_with_them_it_does_not);
    tcase_add_test(checkpoints, a_clean_close_leaves_the_database_file_alone_there);
    tcase_add_test(checkpoints, opening_and_closing_without_a_write_changes_no_byte);
    tcase_add_test(checkpoints, files_are_private_whatever_the_umask);

    TCase *CASE(damage);
    tcase_add_test(damage, a_flipped_bit_anywhere_gives_a_refusal_or_the_true_rows);
    tcase_add_test(damage, a_flipped_bit_of_the_structure_never_makes_an_append_destroy_rows);
    tcase_add_test(damage, a_truncated_or_longer_file_is_refused);
    tcase_add_test(damage, zeroed_and_swapped_pages_are_refused);
    tcase_add_test(damage, edited_rows_are_noticed);
    tcase_add_test(damage, a_layout_that_a_log_never_has_is_refused);
    tcase_add_test(damage, rows_of_another_log_are_noticed);
    tcase_add_test(damage, a_flipped_bit_of_the_wal_loses_a_suffix_at_most);
    tcase_add_test(damage, a_missing_wal_of_a_log_in_use_is_noticed);
    tcase_add_test(damage, what_a_log_without_its_wal_still_has_can_be_restored);
    tcase_add_test(damage, a_crashed_log_is_recovered_by_opening_it);

    TCase *CASE(foreign);
    tcase_add_test(foreign, what_is_no_database_is_refused_untouched);
    tcase_add_test(foreign, other_databases_are_refused_untouched);
    tcase_add_test(foreign, another_database_with_a_wal_is_refused_with_its_wal);
    tcase_add_test(foreign, a_newer_version_is_refused_untouched);
    tcase_add_test(foreign, a_newer_version_in_the_wal_only_is_refused_untouched);
    tcase_add_test(foreign, a_header_that_forbids_writing_is_refused_at_open);
    tcase_add_test(foreign, a_log_in_another_journal_mode_is_refused_and_can_be_restored);
    tcase_add_test(foreign, a_symlink_hard_link_fifo_or_directory_is_refused);
    tcase_add_test(foreign, a_rollback_journal_beside_the_log_is_refused);
    tcase_add_test(foreign, a_wal_without_its_database_is_refused);
    tcase_add_test(foreign, files_that_others_may_use_are_refused);
    tcase_add_test(foreign, files_of_another_user_are_refused);
    tcase_add_test(foreign, a_directory_that_cannot_be_made_or_is_none_is_refused);
    tcase_add_test(foreign, odd_directory_names_work);

    TCase *CASE(holders);
    tcase_add_test(holders, a_second_process_is_refused_by_every_path);
    tcase_add_test(holders, other_programs_find_the_running_log_locked);
    tcase_add_test(holders, a_log_that_another_program_holds_is_refused);

    TCase *CASE(copies);
    tcase_add_test(copies, a_backup_while_appending_is_whole_and_opens);
    tcase_add_test(copies, an_abandoned_backup_leaves_nothing);
    tcase_add_test(copies, what_a_crash_leaves_of_a_backup_or_a_new_log_is_removed);
    tcase_add_test(copies, a_damaged_log_gives_no_backup);
    tcase_add_test(copies, checking_a_file_finds_what_reading_it_would);
    tcase_add_test(copies, a_restore_never_replaces_a_log_and_never_takes_a_bad_one);
    tcase_add_test(copies, an_older_copy_is_noticed_by_a_kept_place);
    return s;
}
