/*
 * Point reads from memory: they are right in any budget and keep it, whatever versions, collisions and damage there are.
 */
#include "rowset_inner.h"

#include "quick.h"
#include "stored.h"
#include "tempdir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct errmsg msg;
static struct stored table;

static void setup(void)
{
    stored_init(&table, tempdir());
}

static void teardown(void)
{
    stored_fini(&table);
}

/* FILES commits of ROWS rows each, over KEYS keys. */
static void fill(uint32_t files, uint32_t rows, uint32_t keys)
{
    uint64_t seed = 5;

    for (uint32_t i = 0; i < files; i++) {
        stored_begin(&table);
        for (uint32_t k = 0; k < rows; k++)
            if (random_u64(&seed) % 8)
                stored_put(&table, (uint32_t)(random_u64(&seed) % keys));
            else
                stored_delete(&table, (uint32_t)(random_u64(&seed) % keys));
        stored_end(&table);
    }
}

static void check_gets(struct rowset *s, uint32_t keys)
{
    uint32_t *there;
    size_t n = stored_there(&table, &there);

    stored_check_get(&table, s, keys, there, n);
    free(there);
}

static size_t items_near(const struct rowset *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->near.count; i++)
        for (const struct near_item *item = s->near.chunks[i]->items; item; item = item->next)
            n++;
    return n;
}

static const size_t budgets[] = { 1, 20000, 100000, 300000, 20 << 20, 64 << 20 };

START_TEST(gets_are_right_in_any_budget_and_keep_it)
{
    size_t memory = budgets[_i];

    table.value_max = 100;
    fill(100, 60, 500);
    struct rowset *s = stored_open(&table, memory);
    for (int i = 0; i < 4; i++) {
        check_gets(s, 520);
        ck_assert_uint_le(keymap_bytes(&s->keymap) + s->near.used, memory);
    }
    size_t before = table.file_count;
    fill(20, 60, 500);
    FINE(rowset_extend(s, table.files + before, table.file_count - before, &msg));
    check_gets(s, 520);
    ck_assert_uint_le(keymap_bytes(&s->keymap) + s->near.used, memory);
    if (memory >= 20 << 20)
        ck_assert_uint_gt(items_near(s), 50);
    rowset_close(s);
}
END_TEST

/* 1000 keys want 2048 slots of 16 bytes, which is half of the budget; what they grow from is gone by then. */
START_TEST(a_keymap_may_have_its_half_of_the_budget)
{
    size_t memory = 2 * 2048 * sizeof(struct keymap_slot);
    struct row row;
    char key[STORED_KEY_MAX];

    table.value_max = 20;
    for (uint32_t k = 0; k < 1000; k++) {
        if (k % 100 == 0)
            stored_begin(&table);
        stored_put(&table, k);
        if (k % 100 == 99)
            stored_end(&table);
    }
    struct rowset *s = stored_open(&table, memory);
    for (uint32_t k = 1000; k-- > 0;) {
        ck_assert_int_eq(rowset_get(s, (struct bytes){ key, stored_key(&table, k, key) }, &row, &msg), 1);
        ck_assert_uint_le(keymap_bytes(&s->keymap) + s->near.used, memory);
    }
    ck_assert_ptr_null(s->keymap.unlisted);
    rowset_close(s);
}
END_TEST

/* Files of about 20 KiB: a few rows from each are no reason to read them whole and to send others away. */
START_TEST(rows_from_everywhere_send_nothing_away)
{
    bool near[40];
    size_t there = 0;

    table.value_max = 4000;
    for (uint32_t k = 0; k < 40; k++) {
        stored_begin(&table);
        for (uint32_t i = 0; i < 10; i++)
            stored_put(&table, k * 10 + i);
        stored_end(&table);
    }
    struct rowset *s = stored_open(&table, 400000);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t k = 0; k < 40; k++) {
            char key[STORED_KEY_MAX];
            struct row row;
            ck_assert_int_eq(
                rowset_get(s, (struct bytes){ key, stored_key(&table, k * 10, key) }, &row, &msg), 1);
        }
        for (size_t i = 0; i < 40; i++) {
            if (round > 0)
                ck_assert_int_eq(near_whole(&s->near, i) != NULL, near[i]);
            near[i] = near_whole(&s->near, i) != NULL;
            there += near[i];
        }
    }
    ck_assert(there > 0 && there < 3 * 40);
    rowset_close(s);
}
END_TEST

START_TEST(files_come_near_and_go_when_others_are_asked_for)
{
    struct row row;
    char key[STORED_KEY_MAX];

    table.value_max = 4000;
    for (uint32_t k = 0; k < 40; k++) {
        stored_begin(&table);
        for (uint32_t i = 0; i < 10; i++)
            stored_put(&table, k * 10 + i);
        stored_end(&table);
    }
    struct rowset *s = stored_open(&table, 400000);
    for (uint32_t round = 0; round < 20; round++)
        for (uint32_t k = 0; k < 400; k++)
            ck_assert_int_eq(rowset_get(s, (struct bytes){ key, stored_key(&table, k, key) }, &row, &msg), 1);
    ck_assert_uint_gt(items_near(s), 2);
    ck_assert_uint_lt(items_near(s), 40);
    for (uint32_t round = 0; round < 100; round++) /* only the first four files, until they are near */
        for (uint32_t k = 0; k < 40; k++)
            ck_assert_int_eq(rowset_get(s, (struct bytes){ key, stored_key(&table, k, key) }, &row, &msg), 1);
    for (uint32_t k = 0; k < 40; k++)
        ck_assert_int_eq(rowset_get_at_hand(s, (struct bytes){ key, stored_key(&table, k, key) }, &row), 1);
    rowset_close(s);
}
END_TEST

/* A base, and commits after it. */
START_TEST(gets_from_unpacked_blocks_are_right_in_any_budget_and_keep_it)
{
    size_t memory = budgets[_i];

    table.value_max = 300;
    fill(40, 60, 2000);
    stored_begin(&table);
    stored_append(&table);
    stored_end(&table);
    stored_compact(&table, 3);
    struct rowset *s = stored_open(&table, memory);
    for (int i = 0; i < 3; i++) {
        check_gets(s, 2020);
        ck_assert_uint_le(keymap_bytes(&s->keymap) + s->near.used, memory);
    }
    size_t before = table.file_count;
    fill(20, 60, 2000);
    FINE(rowset_extend(s, table.files + before, table.file_count - before, &msg));
    for (int i = 0; i < 2; i++)
        check_gets(s, 2020);
    ck_assert_uint_le(keymap_bytes(&s->keymap) + s->near.used, memory);
    bool blocks = false;
    for (size_t i = 0; i < s->near.count; i++)
        for (const struct near_item *item = s->near.chunks[i]->items; item; item = item->next)
            blocks |= item->block != NULL;
    ck_assert(blocks == (memory >= 100000));
    rowset_close(s);
}
END_TEST

START_TEST(versions_of_a_key_take_one_slot)
{
    fill(300, 10, 7);
    struct rowset *s = stored_open(&table, 0);
    check_gets(s, 8);
    ck_assert_uint_le(s->keymap.used, 7);
    rowset_close(s);
}
END_TEST

START_TEST(keys_with_the_same_hash_are_told_apart)
{
    table.keys = KEYS_COLLIDE;
    fill(60, 20, 100);
    if (_i > 1)
        stored_compact(&table, 2);
    struct rowset *s = stored_open(&table, _i % 2 ? 1 : 0);
    for (int i = 0; i < 2; i++)
        check_gets(s, 110);
    rowset_close(s);
}
END_TEST

START_TEST(what_is_at_hand_is_what_a_get_finds)
{
    char key[STORED_KEY_MAX];
    struct row row, same;

    fill(30, 20, 50);
    struct rowset *s = stored_open(&table, 0);
    ck_assert_int_eq(rowset_get_at_hand(s, (struct bytes){ key, stored_key(&table, 1, key) }, &row), -EAGAIN);
    check_gets(s, 60);
    for (uint32_t k = 0; k < 60; k++) {
        struct bytes wanted = { key, stored_key(&table, k, key) };
        int r = rowset_get(s, wanted, &same, &msg);
        ck_assert_int_eq(rowset_get_at_hand(s, wanted, &row), r);
        if (r == 1) {
            ck_assert_int_eq(row.time_us, same.time_us);
            ck_assert_ptr_eq(row.value, same.value);
        }
    }
    size_t before = table.file_count;
    fill(1, 1, 1);
    FINE(rowset_extend(s, table.files + before, 1, &msg)); /* what is new may have any key */
    ck_assert_int_eq(rowset_get_at_hand(s, (struct bytes){ key, stored_key(&table, 1, key) }, &row), -EAGAIN);
    rowset_close(s);
}
END_TEST

static void flip(const char *path, off_t at)
{
    uint8_t byte;
    int fd = open(path, O_RDWR);

    ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* Each byte of the rows in turn. */
START_TEST(a_damaged_row_is_an_error_that_names_its_file_and_the_others_are_read)
{
    char key[STORED_KEY_MAX];
    struct row row;

    table.value_max = 20;
    stored_begin(&table);
    for (uint32_t k = 0; k < 3; k++)
        stored_put(&table, k);
    stored_end(&table);
    chmod(table.files[0].path, 0600);
    struct rowset *s = stored_open(&table, 0);
    struct pool_slot *slot;
    FINE(rowset_pool_get(s, 0, &slot, &msg));
    uint64_t end = entry_file_footer(slot->file)->data_end;
    rowset_close(s);
    for (uint64_t at = sizeof(struct entry_header); at < end; at++) {
        int bad = 0;
        flip(table.files[0].path, (off_t)at);
        s = stored_open(&table, 0);
        for (uint32_t k = 0; k < 3; k++) {
            struct bytes wanted = { key, stored_key(&table, k, key) };
            int first = rowset_get(s, wanted, &row, &msg); /* by the file's index; then by the keymap */
            int r = rowset_get(s, wanted, &row, &msg);
            ck_assert_int_eq(r, first);
            if (r == SKADE_EDAMAGED)
                ck_assert_ptr_nonnull(strstr(msg.text, table.files[0].path));
            else
                ck_assert(r == 1 && stored_row_says(&table, &row, &table.ops[k]));
            bad += r == SKADE_EDAMAGED;
            ck_assert_int_eq(rowset_get_at_hand(s, wanted, &row), r == 1 ? 1 : -EAGAIN);
        }
        ck_assert_int_eq(bad, 1);
        rowset_close(s);
        flip(table.files[0].path, (off_t)at);
    }
}
END_TEST

Suite *rowset_near_suite(void);
Suite *rowset_near_suite(void)
{
    Suite *s = suite_create("rowset_near");
    TCase *c = tcase_create("near");

    suite_add_tcase(s, c);
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, gets_are_right_in_any_budget_and_keep_it, 0, ARRAY_SIZE(budgets));
    tcase_add_test(c, a_keymap_may_have_its_half_of_the_budget);
    tcase_add_test(c, rows_from_everywhere_send_nothing_away);
    tcase_add_test(c, files_come_near_and_go_when_others_are_asked_for);
    tcase_add_test(c, versions_of_a_key_take_one_slot);
    tcase_add_loop_test(c, keys_with_the_same_hash_are_told_apart, 0, 4);
    tcase_add_loop_test(c, gets_from_unpacked_blocks_are_right_in_any_budget_and_keep_it, 0,
                        ARRAY_SIZE(budgets));
    tcase_add_test(c, what_is_at_hand_is_what_a_get_finds);
    tcase_add_test(c, a_damaged_row_is_an_error_that_names_its_file_and_the_others_are_read);
    return s;
}
