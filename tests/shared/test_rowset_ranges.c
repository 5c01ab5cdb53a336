/*
 * Files whose keys can't meet aren't looked into for dead rows, and those whose keys can are, whatever keys look like.
 */
#include "rowset_inner.h"

#include "checksum.h"
#include "manifest.h"
#include "quick.h"
#include "stored.h"
#include "tempdir.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct errmsg msg;
static struct stored table;

static void setup(void)
{
    stored_init(&table, tempdir());
    table.keys = KEYS_EDGES;
}

static void teardown(void)
{
    stored_fini(&table);
}

static void commit_of(uint32_t from, uint32_t to, uint32_t step)
{
    stored_begin(&table);
    for (uint32_t k = from; k < to; k += step)
        stored_put(&table, k);
    stored_end(&table);
}

static void flip(const char *path, off_t at)
{
    uint8_t byte;
    int fd = open(path, O_RDWR);

    ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
    byte ^= 16;
    ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static struct entry_footer footer_of(const char *path)
{
    struct entry_footer footer;
    struct stat st;
    int fd = open(path, O_RDONLY);

    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_int_eq(pread(fd, &footer, sizeof footer, st.st_size - (off_t)sizeof footer), sizeof footer);
    close(fd);
    return footer;
}

/* Break the index of each .entries file: who looks into one fails. */
static void break_indexes(void)
{
    for (size_t i = 0; i < table.file_count; i++)
        if (!table.files[i].base)
            flip(table.files[i].path, (off_t)footer_of(table.files[i].path).keys_off);
}

static void check_scans(struct rowset *s)
{
    uint32_t *there;
    size_t n = stored_there(&table, &there);

    for (unsigned parts = 1; parts <= 3; parts++) {
        stored_check_scan(&table, s, OLDEST_FIRST, parts, there, n);
        stored_check_scan(&table, s, NEWEST_FIRST, parts, there, n);
    }
    free(there);
}

/* ---- what isn't looked into -------------------------------------------------------------------------------- */

/* In either order of commits; and rows without keys have no place in any order. */
START_TEST(files_that_are_apart_are_scanned_without_their_indexes)
{
    for (uint32_t i = 0; i < 7; i++) {
        uint32_t k = _i ? 6 - i : i;
        stored_begin(&table);
        for (uint32_t j = 0; j < 40; j++)
            stored_put(&table, 8 * (40 * k + j));
        stored_append(&table);
        stored_end(&table);
    }
    break_indexes();
    struct rowset *s = stored_open(&table, 0);
    FINE(rowset_prepare(s, &msg));
    check_scans(s);
    rowset_close(s);
}
END_TEST

START_TEST(a_base_is_not_looked_into_for_keys_behind_it)
{
    commit_of(0, 8 * 100, 8);
    commit_of(8 * 100, 8 * 200, 8);
    stored_compact(&table, 2);
    commit_of(8 * 200, 8 * 300, 8);
    struct rowset *s = stored_open(&table, 0);
    struct entry_footer footer = footer_of(s->files[0].path);
    flip(s->files[0].path, (off_t)footer.keys_off);
    FINE(rowset_prepare(s, &msg));
    check_scans(s);
    rowset_close(s);

    commit_of(0, 8, 8); /* a key of its first file */
    s = stored_open(&table, 0);
    ck_assert_int_eq(rowset_prepare(s, &msg), SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(msg.text, s->files[0].path));
    rowset_close(s);
}
END_TEST

/* ---- what is ------------------------------------------------------------------------------------------------ */

/* Only the edge is in both. */
START_TEST(a_key_at_the_edge_of_two_files_is_found)
{
    commit_of(8 * 10, 8 * 21, 8);
    commit_of(8 * 20, 8 * 31, 8);
    commit_of(8 * 5, 8 * 11, 8);
    struct rowset *s = stored_open(&table, 0);
    FINE(rowset_prepare(s, &msg));
    ck_assert_uint_eq(s->dead.count, 2);
    check_scans(s);
    rowset_close(s);
}
END_TEST

/* What differs is behind what a bound holds. */
START_TEST(keys_that_differ_behind_their_bounds_are_looked_for)
{
    table.keys = KEYS_LONG;
    commit_of(1, 10, 1);
    commit_of(20, 30, 1);
    commit_of(5, 6, 1);
    struct rowset *s = stored_open(&table, 0);
    FINE(rowset_prepare(s, &msg));
    ck_assert(s->files[0].meets && s->files[1].meets && s->files[2].meets);
    ck_assert_uint_eq(s->dead.count, 1);
    check_scans(s);
    rowset_close(s);
}
END_TEST

START_TEST(a_key_that_is_twice_in_a_lonely_file_is_found)
{
    commit_of(0, 8 * 10, 8);
    stored_begin(&table);
    for (uint32_t k = 20; k < 30; k++)
        stored_put(&table, 8 * k);
    stored_put(&table, 8 * 25);
    stored_delete(&table, 8 * 26);
    stored_end(&table);
    struct rowset *s = stored_open(&table, 0);
    FINE(rowset_prepare(s, &msg));
    ck_assert(!s->files[0].meets && s->files[1].meets);
    ck_assert_uint_eq(s->dead.count, 2);
    check_scans(s);
    rowset_close(s);
}
END_TEST

START_TEST(a_deletion_alone_reaches_the_file_that_has_its_key)
{
    commit_of(0, 8 * 10, 8);
    commit_of(8 * 10, 8 * 20, 8);
    if (_i)
        stored_compact(&table, 2);
    commit_of(8 * 20, 8 * 30, 8);
    stored_begin(&table);
    stored_delete(&table, 8 * 9);
    stored_delete(&table, 8 * 29);
    stored_end(&table);
    struct rowset *s = stored_open(&table, 0);
    FINE(rowset_prepare(s, &msg));
    ck_assert_uint_eq(s->dead.count, 2);
    check_scans(s);
    rowset_close(s);
}
END_TEST

/* The set grows: what was apart meets. */
START_TEST(an_extended_set_looks_again)
{
    struct rowset *s;

    for (uint32_t i = 0; i < 6; i++)
        commit_of(80 * i, 80 * i + 80, 8);
    s = stored_open(&table, 0);
    FINE(rowset_prepare(s, &msg));
    ck_assert_uint_eq(s->dead.count, 0);
    commit_of(80, 88, 8);
    FINE(rowset_extend(s, table.files + 6, 1, &msg));
    FINE(rowset_prepare(s, &msg));
    ck_assert_uint_eq(s->dead.count, 1);
    ck_assert(!s->files[0].meets && s->files[1].meets && !s->files[2].meets && s->files[6].meets);
    check_scans(s);
    rowset_close(s);
}
END_TEST

/* ---- against the plainest way ------------------------------------------------------------------------------- */

static bool may_meet(const struct rowset *s, size_t i, size_t j)
{
    const struct data_file *a = &s->files[i], *b = &s->files[j];

    if (i == j)
        return i >= s->base_n && !a->keys_differ;
    if ((i < s->base_n && j < s->base_n) || !a->keys || !b->keys)
        return false;
    return !key_span_before(a->keys, b->keys) && !key_span_before(b->keys, a->keys);
}

static void check_meetings(const struct rowset *s)
{
    for (size_t i = 0; i < s->n; i++) {
        bool meets = false;
        for (size_t j = 0; j < s->n; j++)
            meets = meets || may_meet(s, i, j);
        ck_assert_int_eq(s->files[i].meets, meets);
    }
}

static void random_commit(uint64_t *seed, uint32_t keys)
{
    uint32_t from = (uint32_t)random_below(seed, keys), span = 1 + (uint32_t)random_below(seed, 40);

    stored_begin(&table);
    for (uint64_t rows = random_below(seed, 12); rows > 0; rows--) {
        uint32_t key = from + (uint32_t)random_below(seed, span);
        uint64_t what = random_below(seed, 12);
        if (what == 0)
            stored_append(&table);
        else if (what < 4)
            stored_delete(&table, key);
        else
            stored_put(&table, key);
    }
    stored_end(&table);
}

static void check_all(uint32_t keys, size_t memory)
{
    struct rowset *s = stored_open(&table, memory);

    FINE(rowset_prepare(s, &msg));
    check_meetings(s);
    stored_check(&table, s, keys, 4);
    rowset_close(s);
}

START_TEST(random_ranges_meet_as_all_pairs_of_them_do)
{
    static const uint32_t keys[] = { 60, 400, 3000, 20000 };
    uint64_t seed = 77 + (uint64_t)_i;

    for (int round = 0; round < 3; round++) {
        for (uint64_t commits = random_below(&seed, 40); commits > 0; commits--)
            random_commit(&seed, keys[_i % 4]);
        check_all(keys[_i % 4] + 40, _i % 2 ? 1 : 0);
        stored_compact(&table, 1 + (unsigned)random_below(&seed, 5));
        check_all(keys[_i % 4] + 40, _i % 2 ? 1 : 0);
    }
}
END_TEST

/* ---- bounds that can't be trusted ----------------------------------------------------------------------------- */

/* They could hide that a row is dead. */
START_TEST(a_flipped_bit_in_a_bound_is_damage)
{
    commit_of(0, 80, 8);
    commit_of(40, 120, 8);
    struct stat st;
    ck_assert_int_eq(stat(table.files[1].path, &st), 0);
    off_t footer = st.st_size - (off_t)sizeof(struct entry_footer);
    for (size_t at = offsetof(struct entry_footer, low); at < offsetof(struct entry_footer, check); at++) {
        flip(table.files[1].path, footer + (off_t)at);
        struct rowset *s = stored_open(&table, 0);
        ck_assert_int_eq(rowset_prepare(s, &msg), SKADE_EDAMAGED);
        ck_assert_ptr_nonnull(strstr(msg.text, table.files[1].path));
        rowset_close(s);
        flip(table.files[1].path, footer + (off_t)at);
    }
}
END_TEST

/* The manifest says the bounds, and the file has to say the same. */
START_TEST(a_manifest_with_other_bounds_than_its_files_is_damage)
{
    commit_of(0, 80, 8);
    stored_compact(&table, 1);
    struct manifest m;
    int fd = open(table.files[0].path, O_RDWR);
    FINE(manifest_read(&m, fd, "manifest", &table.log, table.table, &msg));
    m.files[0].high.bytes[0] = 0xff;
    FINE(manifest_write(fd, &m, &msg));
    manifest_fini(&m);
    close(fd);
    struct rowset *s = stored_open(&table, 0);
    struct rowset_cursor *c;
    struct row row;
    FINE(rowset_prepare(s, &msg));
    FINE(rowset_cursor_open(&c, s, OLDEST_FIRST, 0, 1, &msg));
    ck_assert_int_eq(rowset_next(c, &row, &msg), SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(msg.text, ".rows"));
    rowset_cursor_close(c);
    rowset_close(s);
}
END_TEST

Suite *rowset_ranges_suite(void);
Suite *rowset_ranges_suite(void)
{
    Suite *s = suite_create("rowset_ranges");
    TCase *c = tcase_create("ranges");

    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, files_that_are_apart_are_scanned_without_their_indexes, 0, 2);
    tcase_add_test(c, a_base_is_not_looked_into_for_keys_behind_it);
    tcase_add_test(c, a_key_at_the_edge_of_two_files_is_found);
    tcase_add_test(c, keys_that_differ_behind_their_bounds_are_looked_for);
    tcase_add_test(c, a_key_that_is_twice_in_a_lonely_file_is_found);
    tcase_add_loop_test(c, a_deletion_alone_reaches_the_file_that_has_its_key, 0, 2);
    tcase_add_test(c, an_extended_set_looks_again);
    tcase_add_loop_test(c, random_ranges_meet_as_all_pairs_of_them_do, 0, 12);
    tcase_add_test(c, a_flipped_bit_in_a_bound_is_damage);
    tcase_add_test(c, a_manifest_with_other_bounds_than_its_files_is_damage);
    suite_add_tcase(s, c);
    return s;
}
