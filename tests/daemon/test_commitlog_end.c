/*
 * The pages that an append changes: when they are as SQLite left them the log is taken, and no flipped bit in what
 * SQLite trusts there goes unnoticed.
 */
#include "commitlog_fixture.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 4096

static struct commitlog *open_unchecked(const char *dir)
{
    return must_open_with((struct commitlog_options){ .dir = dir, .sync_full = true, .skip_check = true });
}

static int check_end(const char *dir, struct errmsg *msg)
{
    struct commitlog *log;

    /* Damage that opening notices is noticed, too. */
    int r = commitlog_open(
        &log, &(struct commitlog_options){ .dir = dir, .sync_full = true, .skip_check = true }, msg);
    if (r < 0)
        return r;
    r = commitlog_check_end(log, msg);
    commitlog_close(log);
    return r;
}

static const char *log_of(uint64_t events)
{
    const char *dir = scratch_path("log");
    struct commitlog *log = must_open(dir);

    must_append(log, events);
    commitlog_close(log);
    return dir;
}

/* From a log of one page to one whose tree has three levels. */
START_TEST(a_log_of_any_length_is_sound)
{
    static const uint64_t lengths[] = { 0, 1, 20, 21, 40, 400, 5000, 60000 };
    struct errmsg why = { "" };

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        ck_assert_msg(check_end(log_of(lengths[i]), &why) == 0, "%d events: %s", (int)lengths[i], why.text);
}
END_TEST

START_TEST(a_log_with_a_write_ahead_log_is_sound)
{
    const char *dir = log_of(300);
    struct commitlog *log = open_unchecked(dir);
    struct errmsg why = { "" };

    must_append(log, 50);
    ck_assert_msg(commitlog_check_end(log, &why) == 0, "%s", why.text);
    must_append(log, 50);
    ck_assert_msg(commitlog_check_end(log, &why) == 0, "%s", why.text);
    commitlog_close(log);
    reopen_must_hold(dir, 400);
}
END_TEST

static uint32_t u32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The pages from the root of `log` down to its last row. */
static size_t spine(const char *db, const struct blob *b, uint32_t ret[16])
{
    size_t n = 0;
    uint32_t page = (uint32_t)raw_number(db, "SELECT rootpage FROM sqlite_schema WHERE name = 'log'");

    for (; n < 16; page = u32(b->data + (size_t)(page - 1) * PAGE + 8)) {
        ret[n++] = page;
        if (b->data[(size_t)(page - 1) * PAGE] == 13)
            break;
    }
    return n;
}

static bool is_noticed(const char *dir, const char *db, struct blob *b, size_t at, int bit)
{
    struct errmsg why = { "" };

    b->data[at] ^= (unsigned char)(1 << bit);
    write_blob(db, b);
    int r = check_end(dir, &why);
    b->data[at] ^= (unsigned char)(1 << bit);
    return r < 0;
}

/* Type, first free block, number of cells, where cells begin, fragments; of inner pages the rightmost child. */
START_TEST(no_flipped_bit_in_a_header_on_the_way_to_the_last_row_goes_unnoticed)
{
    const char *dir = log_of(60000);
    const char *db = path_in(dir, "skade.db");
    struct blob b = read_blob(db);
    uint32_t pages[17];
    size_t n = spine(db, &b, pages);

    ck_assert_uint_ge(n, 3);
    for (size_t i = 0; i < n; i++) {
        size_t page = (size_t)(pages[i] - 1) * PAGE;
        size_t header = b.data[page] == 13 ? 8 : 12;
        for (size_t at = 0; at < header; at++)
            for (int bit = 0; bit < 8; bit++)
                ck_assert_msg(is_noticed(dir, db, &b, page + at, bit), "level %zu, byte %zu, bit %d", i, at,
                              bit);
        /* The places of the last two cells: another place than its own overlaps or leaves a gap. */
        size_t cells = (size_t)b.data[page + 3] << 8 | b.data[page + 4];
        for (size_t at = header + (cells - 1) * 2; at < header + cells * 2; at++)
            for (int bit = 0; bit < 8; bit++)
                ck_assert_msg(is_noticed(dir, db, &b, page + at, bit), "level %zu, cell at %zu, bit %d", i,
                              at, bit);
    }
    write_blob(db, &b);
    ck_assert_int_eq(check_end(dir, NULL), 0);
    free(b.data);
}
END_TEST

START_TEST(pages_to_the_left_that_sqlite_would_spread_over_are_looked_at)
{
    const char *dir = log_of(60000);
    const char *db = path_in(dir, "skade.db");
    struct blob b = read_blob(db);
    uint32_t pages[17];

    spine(db, &b, pages);
    /* The inner page before the rightmost one: the left child in the root's last cell. */
    size_t root = (size_t)(pages[0] - 1) * PAGE;
    size_t cells = (size_t)b.data[root + 3] << 8 | b.data[root + 4];
    ck_assert_uint_ge(cells, 1);
    size_t place = root + 12 + (cells - 1) * 2;
    size_t cell = root + ((size_t)b.data[place] << 8 | b.data[place + 1]);
    size_t left = (size_t)(u32(b.data + cell) - 1) * PAGE;
    for (int bit = 0; bit < 8; bit++)
        ck_assert(is_noticed(dir, db, &b, left + 6, bit)); /* where cells begin */
    free(b.data);
}
END_TEST

Suite *commitlog_end_suite(void);
Suite *commitlog_end_suite(void)
{
    Suite *s = suite_create("commitlog_end");
    TCase *c = tcase_create("end");

    tcase_set_timeout(c, 120);
    tcase_add_unchecked_fixture(c, scratch_setup, scratch_teardown);
    tcase_add_test(c, a_log_of_any_length_is_sound);
    tcase_add_test(c, a_log_with_a_write_ahead_log_is_sound);
    tcase_add_test(c, no_flipped_bit_in_a_header_on_the_way_to_the_last_row_goes_unnoticed);
    tcase_add_test(c, pages_to_the_left_that_sqlite_would_spread_over_are_looked_at);
    suite_add_tcase(s, c);
    return s;
}
