#include "rowset.h"

#include "checksum.h"
#include "manifest.h"
#include "quick.h"
#include "stored.h"
#include "tempdir.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

/* ---- comparing with the model ---------------------------------------------------------------------------- */

static struct rowset *prepared_set(size_t memory)
{
    struct rowset *s = stored_open(&table, memory);

    FINE(rowset_prepare(s, &msg));
    return s;
}

static void check_table(uint32_t keys, size_t memory)
{
    struct rowset *s = prepared_set(memory);

    stored_check(&table, s, keys, 16);
    rowset_close(s);
}

/* ---- what is there --------------------------------------------------------------------------------------- */

START_TEST(an_empty_table_has_no_rows)
{
    check_table(3, 0);
    stored_begin(&table); /* commits of no rows */
    stored_end(&table);
    stored_begin(&table);
    stored_end(&table);
    check_table(3, 0);
    stored_compact(&table, 0);
    check_table(3, 0);
    stored_begin(&table);
    stored_end(&table);
    check_table(3, 0);
}
END_TEST

/* simd-r-drive's test 8 */
START_TEST(counts_agree_after_every_commit)
{
    for (uint32_t k = 0; k < 10; k++) {
        stored_begin(&table);
        stored_put(&table, k);
        stored_end(&table);
        check_table(10, 0);
    }
    for (uint32_t k = 0; k < 10; k++) {
        stored_begin(&table);
        stored_delete(&table, k);
        stored_end(&table);
        check_table(10, 0);
    }
    uint32_t *there;
    ck_assert_uint_eq(stored_there(&table, &there), 0);
    free(there);
    stored_begin(&table);
    stored_put(&table, 4); /* comes back in a new place */
    stored_end(&table);
    check_table(10, 0);
}
END_TEST

/* simd-r-drive's test 37 */
START_TEST(the_last_of_put_and_delete_in_one_commit_wins)
{
    stored_begin(&table);
    stored_put(&table, 1);
    stored_put(&table, 5);
    stored_end(&table);
    stored_begin(&table);
    stored_delete(&table, 1);
    stored_put(&table, 1);
    stored_put(&table, 2);
    stored_delete(&table, 2);
    stored_put(&table, 3);
    stored_put(&table, 3);
    stored_delete(&table, 4); /* was never there */
    stored_delete(&table, 5);
    stored_delete(&table, 5);
    stored_end(&table);
    check_table(6, 0);

    uint32_t *there;
    ck_assert_uint_eq(stored_there(&table, &there), 2);
    free(there);
    stored_compact(&table, 1);
    check_table(6, 0);
}
END_TEST

START_TEST(rows_without_keys_stay_whatever_happens)
{
    for (int commit = 0; commit < 5; commit++) {
        stored_begin(&table);
        for (uint32_t i = 0; i < 300; i++) {
            stored_append(&table);
            if (i % 50 == 0)
                stored_put(&table, 0); /* the empty key is a key */
        }
        stored_end(&table);
    }
    check_table(1, 0);
}
END_TEST

static void random_commit(uint64_t *seed, uint32_t keys)
{
    stored_begin(&table);
    for (uint64_t rows = random_below(seed, 60); rows > 0; rows--) {
        uint32_t key = (uint32_t)random_below(seed, keys);
        uint64_t what = random_below(seed, 10);
        if (what < 2)
            stored_append(&table);
        else if (what < 4)
            stored_delete(&table, key);
        else
            stored_put(&table, key);
    }
    stored_end(&table);
}

static void random_table(uint64_t seed, uint32_t keys, size_t memory)
{
    for (int round = 0; round < 3; round++) {
        for (uint64_t commits = random_below(&seed, 30); commits > 0; commits--)
            random_commit(&seed, keys);
        check_table(keys, memory);
        stored_compact(&table, 1 + (unsigned)random_below(&seed, 3));
        check_table(keys, memory);
    }
    random_commit(&seed, keys);
    check_table(keys, memory);
}

/* simd-r-drive's test 36 */
START_TEST(random_tables_agree_with_the_model_in_1_to_16_parts)
{
    static const uint32_t keys[] = { 1, 7, 100, 5000 };

    random_table((uint64_t)_i * 977, keys[_i % 4], _i % 2 ? 1 : 0);
}
END_TEST

START_TEST(keys_with_one_hash_are_different_keys)
{
    static char key[STORED_KEY_MAX];

    table.keys = KEYS_COLLIDE;
    uint64_t hash = entry_hash((struct bytes){ key, stored_key(&table, 32, key) });
    for (uint32_t k = 32; k < 48; k++)
        ck_assert_uint_eq(entry_hash((struct bytes){ key, stored_key(&table, k, key) }), hash);
    random_table((uint64_t)_i * 31337, 16 + 84 * (uint32_t)_i, _i ? 1 : 0);
}
END_TEST

START_TEST(the_pair_of_keys_that_is_known_to_collide_is_two_keys)
{
    static const uint8_t pair[2][16] = {
        { 0xb9, 0x39, 0x42, 0xea, 0x7b, 0x73, 0x82, 0x67, 0xd5, 0x9f, 0x3d, 0x80, 0x5c, 0xf9, 0x75, 0xae },
        { 0xb8, 0x1a, 0x07, 0x8d, 0xf2, 0xd8, 0x4f, 0x88, 0x3a, 0x52, 0x96, 0x09, 0x3b, 0xbc, 0x56, 0xaf },
    };
    struct bytes a = { (const char *)pair[0], 16 }, b = { (const char *)pair[1], 16 };
    struct row row;

    ck_assert_uint_eq(entry_hash(a), 0xca981008c76b313cull);
    ck_assert_uint_eq(entry_hash(b), 0xca981008c76b313cull);
    stored_begin(&table);
    FINE(entry_begin(table.writer, ENTRY_KEYED, a, &msg));
    FINE(entry_end(table.writer, &msg));
    FINE(entry_begin(table.writer, ENTRY_KEYED, b, &msg));
    FINE(entry_end(table.writer, &msg));
    stored_end(&table);
    stored_begin(&table);
    FINE(entry_begin(table.writer, ENTRY_KEYED | ENTRY_DELETE, a, &msg));
    FINE(entry_end(table.writer, &msg));
    stored_end(&table);

    struct rowset *s = prepared_set(0);
    struct rowset_cursor *c;
    ck_assert_int_eq(rowset_get(s, a, &row, &msg), 0);
    ck_assert_int_eq(rowset_get(s, b, &row, &msg), 1);
    FINE(rowset_cursor_open(&c, s, NEWEST_FIRST, 0, 1, &msg));
    ck_assert_int_eq(rowset_next(c, &row, &msg), 1);
    ck_assert(bytes_equal(row.key, b));
    ck_assert_int_eq(rowset_next(c, &row, &msg), 0);
    rowset_cursor_close(c);
    rowset_close(s);
}
END_TEST

/* Few of them fit into the set of keys, so there are many rounds. */
START_TEST(long_keys_are_settled_in_rounds)
{
    uint64_t seed = 5;

    table.keys = KEYS_LONG;
    for (int commit = 0; commit < 4; commit++) {
        if (commit == 2)
            stored_compact(&table, 2);
        stored_begin(&table);
        for (uint32_t k = 0; k < 20; k++)
            if (random_below(&seed, 4))
                stored_put(&table, k);
            else
                stored_delete(&table, k);
        stored_end(&table);
    }
    struct rowset *s = prepared_set(_i ? 256 << 10 : 1);
    stored_check(&table, s, 20, 3);
    rowset_close(s);
}
END_TEST

START_TEST(long_values_are_read_in_pieces)
{
    table.value_big = 3 << 20;
    for (int commit = 0; commit < 3; commit++) {
        if (commit == 2)
            stored_compact(&table, 1);
        stored_begin(&table);
        for (uint32_t k = 0; k < 8; k++)
            stored_put(&table, k + (uint32_t)commit * 3);
        stored_end(&table);
    }
    struct rowset *s = prepared_set(0);
    stored_check(&table, s, 20, 2);
    rowset_close(s);
}
END_TEST

START_TEST(parts_are_even_inside_files_too)
{
    stored_begin(&table);
    for (int i = 0; i < 1003; i++)
        stored_append(&table);
    stored_end(&table);
    stored_compact(&table, 1);
    stored_begin(&table);
    for (int i = 0; i < 5000; i++)
        stored_append(&table);
    stored_end(&table);
    struct rowset *s = prepared_set(0);
    for (unsigned part = 0; part < 7; part++) {
        struct rowset_cursor *c;
        struct row row;
        size_t n = 0;
        FINE(rowset_cursor_open(&c, s, NEWEST_FIRST, part, 7, &msg));
        while (rowset_next(c, &row, &msg) == 1)
            n++;
        ck_assert_uint_ge(n, 6003 / 7);
        ck_assert_uint_le(n, 6003 / 7 + 1);
        rowset_cursor_close(c);
    }
    rowset_close(s);
}
END_TEST

static void *scan_part(void *arg)
{
    struct rowset_cursor *c = arg;
    struct row row;
    uintptr_t n = 0;
    int r;

    while ((r = rowset_next(c, &row, NULL)) == 1)
        n++;
    return (void *)(r < 0 ? UINTPTR_MAX : n);
}

START_TEST(threads_share_a_set)
{
    pthread_t threads[4];
    struct rowset_cursor *cursors[4];
    uint64_t seed = 3;
    uintptr_t sum = 0;
    uint32_t *there;

    for (int i = 0; i < 40; i++)
        random_commit(&seed, 100);
    size_t n = stored_there(&table, &there);
    struct rowset *s = prepared_set(1);
    for (unsigned i = 0; i < 4; i++) {
        FINE(rowset_cursor_open(&cursors[i], s, i % 2 ? NEWEST_FIRST : OLDEST_FIRST, i / 2, 2, &msg));
        ck_assert_int_eq(pthread_create(&threads[i], NULL, scan_part, cursors[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *count;
        pthread_join(threads[i], &count);
        sum += (uintptr_t)count;
        rowset_cursor_close(cursors[i]);
    }
    ck_assert_uint_eq(sum, 2 * n);
    rowset_close(s);
    free(there);
}
END_TEST

/* ---- going on ---------------------------------------------------------------------------------------------- */

START_TEST(an_extended_set_is_as_a_fresh_one)
{
    uint64_t seed = 11;
    struct rowset_sum sum;

    for (int i = 0; i < 10; i++)
        random_commit(&seed, 50);
    stored_compact(&table, 2);
    struct rowset *s = prepared_set(_i ? 1 : 0);
    for (int i = 0; i < 30; i++) {
        size_t before = table.file_count;
        stored_check(&table, s, 50, 2);
        for (int k = 0; k <= i % 3; k++)
            random_commit(&seed, 50);
        FINE(rowset_extend(s, table.files + before, table.file_count - before, &msg));
        uint32_t *there;
        size_t n = stored_there(&table, &there);
        if (i % 2)
            stored_check_get(&table, s, 50, there, n); /* before the dead rows are found */
        free(there);
        FINE(rowset_sum(s, &sum, &msg));
        ck_assert_uint_eq(sum.entries, table.count);
        FINE(rowset_prepare(s, &msg));
    }
    rowset_close(s);
}
END_TEST

/* Also shows that a get opens no more than it must: the other files are not even there. */
START_TEST(a_second_get_opens_only_the_file_with_the_key)
{
    char key[STORED_KEY_MAX];
    struct row row;

    for (uint32_t k = 0; k < 300; k++) {
        stored_begin(&table);
        stored_put(&table, k);
        stored_end(&table);
    }
    struct rowset *s = stored_open(&table, 0);
    ck_assert_int_eq(rowset_get(s, (struct bytes){ key, stored_key(&table, 0, key) }, &row, &msg), 1);
    for (uint32_t k = 0; k < 300; k++)
        if (k != 250)
            unlink(table.files[k].path);
    ck_assert_int_eq(rowset_get(s, (struct bytes){ key, stored_key(&table, 250, key) }, &row, &msg), 1);
    ck_assert_int_eq(rowset_get(s, (struct bytes){ key, stored_key(&table, 1000, key) }, &row, &msg), 0);
    rowset_close(s);
}
END_TEST

START_TEST(gets_without_memory_for_hints_are_right)
{
    for (uint32_t i = 0; i < 200; i++) {
        stored_begin(&table);
        if (i < 5 || i > 180)
            stored_put(&table, i % 50);
        stored_end(&table);
    }
    check_table(60, 1);
}
END_TEST

START_TEST(a_first_get_goes_no_further_than_it_must)
{
    char key[STORED_KEY_MAX];
    struct row row;

    for (uint32_t k = 0; k < 20; k++) {
        stored_begin(&table);
        stored_put(&table, k);
        stored_end(&table);
    }
    struct rowset *s = stored_open(&table, 0);
    for (uint32_t k = 0; k < 15; k++)
        unlink(table.files[k].path);
    for (uint32_t k = 19; k >= 15; k--)
        ck_assert_int_eq(rowset_get(s, (struct bytes){ key, stored_key(&table, k, key) }, &row, &msg), 1);
    ck_assert_int_eq(rowset_get(s, (struct bytes){ key, stored_key(&table, 3, key) }, &row, &msg),
                     SKADE_EEXPIRED);
    rowset_close(s);
}
END_TEST

/* ---- damage, strangers, limits ----------------------------------------------------------------------------- */

static void flip(const char *path, off_t off)
{
    char byte;
    int fd = open(path, O_RDWR);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pread(fd, &byte, 1, off), 1);
    byte ^= 4;
    ck_assert_int_eq(pwrite(fd, &byte, 1, off), 1);
    close(fd);
}

static void five_commits(void)
{
    for (int commit = 0; commit < 5; commit++) {
        stored_begin(&table);
        for (int i = 0; i < 100; i++)
            stored_append(&table);
        stored_end(&table);
    }
}

/* In the middle of the third file, a row is found damaged after those before it. */
START_TEST(damage_is_an_error_behind_the_rows_before_it)
{
    uint32_t *there;
    struct rowset_cursor *c;
    struct row row;
    enum entry_order order = _i ? NEWEST_FIRST : OLDEST_FIRST;
    struct stat st;
    size_t n = 0;
    int r;

    five_commits();
    size_t all = stored_there(&table, &there);
    ck_assert_int_eq(stat(table.files[2].path, &st), 0);
    flip(table.files[2].path, st.st_size / 2);
    struct rowset *s = prepared_set(0);
    FINE(rowset_cursor_open(&c, s, order, 0, 1, &msg));
    while ((r = rowset_next(c, &row, &msg)) == 1) {
        size_t i = order == OLDEST_FIRST ? n : all - 1 - n;
        ALWAYS(stored_row_says(&table, &row, &table.ops[there[i]]));
        ALWAYS(stored_value_says(&table, row.value, &table.ops[there[i]]));
        n++;
    }
    ck_assert_int_eq(r, SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(msg.text, table.files[2].path));
    ck_assert_uint_gt(n, 200);
    ck_assert_uint_lt(n, 300);
    struct errmsg again = { "" };
    ck_assert_int_eq(rowset_next(c, &row, &again), SKADE_EDAMAGED);
    ck_assert_str_eq(again.text, msg.text);
    rowset_cursor_close(c);
    rowset_close(s);
    free(there);
}
END_TEST

START_TEST(damage_that_hides_keys_stops_the_search_for_dead_rows)
{
    stored_begin(&table);
    for (uint32_t k = 0; k < 100; k++)
        stored_put(&table, k);
    stored_end(&table);
    stored_begin(&table);
    stored_put(&table, 50);
    stored_end(&table);
    struct stat st;
    ck_assert_int_eq(stat(table.files[0].path, &st), 0);
    flip(table.files[0].path, st.st_size - (off_t)sizeof(struct entry_footer) - 64); /* in the index */
    struct rowset *s = stored_open(&table, 0);
    ck_assert_int_eq(rowset_prepare(s, &msg), SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(msg.text, table.files[0].path));
    rowset_close(s);
}
END_TEST

/* Exchange two places in the index of the .entries or .rows file at PATH, and make all checksums right again. */
static void forge_index(const char *path, uint64_t i, uint64_t j)
{
    struct entry_footer footer;
    struct entry_header header;
    struct stat st;
    int fd = open(path, O_RDWR);

    ck_assert_int_eq(fstat(fd, &st), 0);
    uint8_t *bytes = malloc((size_t)st.st_size);
    ck_assert_int_eq(pread(fd, bytes, (size_t)st.st_size, 0), st.st_size);
    size_t end = (size_t)st.st_size - sizeof footer;
    memcpy(&header, bytes, sizeof header);
    memcpy(&footer, bytes + end, sizeof footer);
    uint64_t *places = (uint64_t *)(void *)(bytes + footer.places.off), place = places[i];
    places[i] = places[j];
    places[j] = place;
    footer.keys_check = checksum_pieces(bytes + footer.keys_off, end - footer.keys_off, 0);
    footer.check = checksum(&footer, offsetof(struct entry_footer, check), header.check);
    memcpy(bytes + end, &footer, sizeof footer);
    ck_assert_int_eq(pwrite(fd, bytes, (size_t)st.st_size, 0), st.st_size);
    free(bytes);
    close(fd);
}

START_TEST(an_index_that_lies_is_found_out)
{
    for (int commit = 0; commit < 2; commit++) {
        stored_begin(&table);
        for (uint32_t k = 0; k < 100; k++)
            stored_put(&table, k);
        stored_end(&table);
    }
    forge_index(table.files[0].path, 3, 70);
    struct rowset *s = stored_open(&table, 0);
    ck_assert_int_eq(rowset_prepare(s, &msg), SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(msg.text, table.files[0].path));
    rowset_close(s);
}
END_TEST

static void change_manifest(uint64_t rows_more)
{
    struct manifest m;
    int fd = open(table.files[0].path, O_RDWR);

    FINE(manifest_read(&m, fd, "manifest", &table.log, table.table, &msg));
    m.files[0].rows += rows_more;
    m.header.rows += rows_more;
    close(fd);
    unlink(table.files[0].path);
    fd = open(table.files[0].path, O_RDWR | O_CREAT, 0600);
    FINE(manifest_write(fd, &m, &msg));
    close(fd);
    manifest_fini(&m);
}

START_TEST(a_manifest_that_disagrees_with_its_files_is_damage)
{
    struct rowset_cursor *c;
    struct row row;

    five_commits();
    stored_compact(&table, 1);
    change_manifest(3);
    struct rowset *s = prepared_set(0);
    FINE(rowset_cursor_open(&c, s, OLDEST_FIRST, 0, 1, &msg));
    ck_assert_int_eq(rowset_next(c, &row, &msg), SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(msg.text, ".0001.rows"));
    rowset_cursor_close(c);
    rowset_close(s);
}
END_TEST

/* Rows of S in order: their number if all are as they should be, else the error that came instead of the next one. */
static int64_t read_until_error(struct rowset *s, const uint32_t *there, size_t n)
{
    struct rowset_cursor *c;
    struct row row;
    size_t seen = 0;
    int r;

    FINE(rowset_cursor_open(&c, s, OLDEST_FIRST, 0, 1, &msg));
    while ((r = rowset_next(c, &row, &msg)) == 1) {
        ALWAYS(seen < n);
        ALWAYS(stored_row_says(&table, &row, &table.ops[there[seen]]));
        ALWAYS(stored_value_says(&table, row.value, &table.ops[there[seen]]));
        seen++;
    }
    rowset_cursor_close(c);
    return r < 0 ? r : (int64_t)seen;
}

/* What is read of a table with one bad byte is right, and all of it, or an error says so.  1: an error. */
static int read_damaged(const uint32_t *there, size_t n)
{
    struct rowset_options opt = stored_options(&table, 0);
    struct rowset *s;
    static char key[STORED_KEY_MAX];
    struct row row;

    int r = rowset_open(&s, table.files, table.file_count, &opt, &msg);
    if (r < 0)
        return 1;
    int64_t seen = rowset_prepare(s, &msg) < 0 ? -1 : read_until_error(s, there, n);
    ALWAYS(seen < 0 || seen == (int64_t)n);
    for (size_t i = 0; i < n; i += 7) {
        const struct stored_op *op = &table.ops[there[i]];
        if (op->key == NO_KEY)
            continue;
        r = rowset_get(s, (struct bytes){ key, stored_key(&table, op->key, key) }, &row, &msg);
        ALWAYS(r != 0);
        ALWAYS(r < 0 || stored_row_says(&table, &row, op));
    }
    rowset_close(s);
    return seen < 0;
}

START_TEST(no_flipped_byte_gives_a_wrong_answer)
{
    uint64_t seed = 21;
    uint32_t *there;
    char path[512];
    int errors = 0;

    for (int i = 0; i < 6; i++)
        random_commit(&seed, 60);
    stored_compact(&table, 1);
    snprintf(path, sizeof path, "%s", table.files[0].path);
    strcpy(strrchr(path, '.'), ".0001.rows");
    random_commit(&seed, 60);
    random_commit(&seed, 60);
    size_t n = stored_there(&table, &there);
    const char *paths[] = { table.files[0].path, path, table.files[1].path, table.files[2].path };
    for (size_t file = 0; file < ARRAY_SIZE(paths); file++) {
        struct stat st;
        ck_assert_int_eq(stat(paths[file], &st), 0);
        for (off_t off = 0; off < st.st_size; off += 3) {
            flip(paths[file], off);
            errors += read_damaged(there, n);
            flip(paths[file], off);
        }
    }
    ck_assert_int_gt(errors, 1000);
    ck_assert_int_eq(read_damaged(there, n), 0);
    free(there);
}
END_TEST

START_TEST(a_file_that_is_gone_is_expired)
{
    struct rowset_cursor *c;
    struct row row;
    int r, n = 0;

    five_commits();
    struct rowset *s = prepared_set(0);
    FINE(rowset_cursor_open(&c, s, OLDEST_FIRST, 0, 1, &msg));
    unlink(table.files[3].path);
    while ((r = rowset_next(c, &row, &msg)) == 1)
        n++;
    ck_assert_int_eq(n, 300);
    ck_assert_int_eq(r, SKADE_EEXPIRED);
    ck_assert_ptr_nonnull(strstr(msg.text, table.files[3].path));
    rowset_cursor_close(c);
    rowset_close(s);

    stored_compact(&table, 1);
    unlink(table.files[0].path);
    struct rowset_options opt = stored_options(&table, 0);
    ck_assert_int_eq(rowset_open(&s, table.files, 1, &opt, &msg), SKADE_EEXPIRED);
}
END_TEST

static int prepare_fails(const struct rowset_options *opt)
{
    struct rowset *s;

    FINE(rowset_open(&s, table.files, table.file_count, opt, &msg));
    int r = rowset_prepare(s, &msg);
    rowset_close(s);
    return r;
}

START_TEST(files_that_are_not_the_tables_are_refused)
{
    struct rowset_options opt = stored_options(&table, 0);
    char other[512];

    five_commits();
    opt.table = 8;
    ck_assert_int_eq(prepare_fails(&opt), SKADE_EFOREIGN);
    opt = stored_options(&table, 0);
    opt.log.b[0] ^= 1;
    ck_assert_int_eq(prepare_fails(&opt), SKADE_EFOREIGN);

    opt = stored_options(&table, 0);
    ck_assert_int_eq(prepare_fails(&opt), 0);
    snprintf(other, sizeof other, "%s/other", table.dir);
    rename(table.files[1].path, other);
    ck_assert_int_eq(symlink(other, table.files[1].path), 0);
    ck_assert_int_eq(prepare_fails(&opt), SKADE_EFOREIGN);
    unlink(table.files[1].path);
    ck_assert_int_eq(mkfifo(table.files[1].path, 0600), 0);
    ck_assert_int_eq(prepare_fails(&opt), SKADE_EFOREIGN);
    unlink(table.files[1].path);
    rename(table.files[2].path, table.files[1].path); /* its name says another request */
    ck_assert_int_eq(prepare_fails(&opt), SKADE_EFOREIGN);

    stored_compact(&table, 1);
    char *name = strrchr(table.files[0].path, '.');
    snprintf(other, sizeof other, "%.*s.0001.rows", (int)(name - table.files[0].path), table.files[0].path);
    table.files[0].base = false; /* a .rows file as if it were a commit's */
    ck_assert_int_eq(rename(other, table.files[0].path), 0);
    ck_assert_int_eq(prepare_fails(&opt), SKADE_EFOREIGN);
}
END_TEST

START_TEST(files_of_a_stranger_are_refused)
{
    if (getuid() != 0)
        return; /* only root can give files away */
    struct rowset_options opt = stored_options(&table, 0);
    five_commits();
    ck_assert_int_eq(chown(table.files[4].path, 54321, 0), 0);
    ck_assert_int_eq(prepare_fails(&opt), SKADE_EFOREIGN);
    ck_assert_ptr_nonnull(strstr(msg.text, "54321"));
    opt.owner = 54321;
    ck_assert_int_eq(prepare_fails(&opt), 0);
}
END_TEST

static int say_no(void *arg)
{
    return --*(int *)arg < 0;
}

START_TEST(whoever_cancels_gets_ecanceled_everywhere)
{
    struct rowset_options opt = stored_options(&table, 0);
    struct rowset_cursor *c;
    struct rowset *s;
    struct row row;
    int patience = 3, r;

    five_commits();
    stored_begin(&table);
    stored_put(&table, 1);
    stored_end(&table);
    opt.cancelled = say_no;
    opt.arg = &patience;
    ck_assert_int_eq(prepare_fails(&opt), -ECANCELED);

    FINE(rowset_open(&s, table.files, table.file_count, &opt, &msg));
    patience = 1000;
    FINE(rowset_prepare(s, &msg));
    FINE(rowset_cursor_open(&c, s, NEWEST_FIRST, 0, 1, &msg));
    patience = 2;
    while ((r = rowset_next(c, &row, &msg)) == 1)
        continue;
    ck_assert_int_eq(r, -ECANCELED);
    ck_assert_int_eq(rowset_get(s, (struct bytes){ "x", 1 }, &row, &msg), -ECANCELED);
    rowset_cursor_close(c);
    rowset_close(s);
}
END_TEST

START_TEST(a_missing_temp_dir_hurts_only_who_needs_it)
{
    uint64_t seed = 9;

    for (int i = 0; i < 5; i++)
        random_commit(&seed, 20);
    struct rowset_options opt = stored_options(&table, 0);
    opt.temp_dir = "/does/not/exist";
    ck_assert_int_eq(prepare_fails(&opt), 0);
    stored_begin(&table);
    for (uint32_t k = 0; k < 20000; k++)
        stored_put(&table, k % 5000);
    stored_end(&table);
    opt.memory = 1;
    ck_assert_int_eq(prepare_fails(&opt), -ENOENT);
    ck_assert_ptr_nonnull(strstr(msg.text, "/does/not/exist"));
}
END_TEST

Suite *rowset_suite(void);
Suite *rowset_suite(void)
{
    Suite *s = suite_create("rowset");
    TCase *c = tcase_create("rows");

    suite_add_tcase(s, c);
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, an_empty_table_has_no_rows);
    tcase_add_test(c, counts_agree_after_every_commit);
    tcase_add_test(c, the_last_of_put_and_delete_in_one_commit_wins);
    tcase_add_test(c, rows_without_keys_stay_whatever_happens);
    tcase_add_loop_test(c, random_tables_agree_with_the_model_in_1_to_16_parts, 0, 8);
    tcase_add_loop_test(c, keys_with_one_hash_are_different_keys, 0, 2);
    tcase_add_test(c, the_pair_of_keys_that_is_known_to_collide_is_two_keys);
    tcase_add_loop_test(c, long_keys_are_settled_in_rounds, 0, 2);
    tcase_add_test(c, long_values_are_read_in_pieces);
    tcase_add_test(c, parts_are_even_inside_files_too);
    tcase_add_test(c, threads_share_a_set);
    tcase_add_loop_test(c, an_extended_set_is_as_a_fresh_one, 0, 2);
    tcase_add_test(c, a_second_get_opens_only_the_file_with_the_key);
    tcase_add_test(c, gets_without_memory_for_hints_are_right);
    tcase_add_test(c, a_first_get_goes_no_further_than_it_must);
    tcase_add_loop_test(c, damage_is_an_error_behind_the_rows_before_it, 0, 2);
    tcase_add_test(c, damage_that_hides_keys_stops_the_search_for_dead_rows);
    tcase_add_test(c, an_index_that_lies_is_found_out);
    tcase_add_test(c, a_manifest_that_disagrees_with_its_files_is_damage);
    tcase_add_test(c, no_flipped_byte_gives_a_wrong_answer);
    tcase_add_test(c, a_file_that_is_gone_is_expired);
    tcase_add_test(c, files_that_are_not_the_tables_are_refused);
    tcase_add_test(c, files_of_a_stranger_are_refused);
    tcase_add_test(c, whoever_cancels_gets_ecanceled_everywhere);
    tcase_add_test(c, a_missing_temp_dir_hurts_only_who_needs_it);
    return s;
}
