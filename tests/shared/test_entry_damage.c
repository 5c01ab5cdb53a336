/*
 * Files of entries that aren't what they were: every change is an error that says where, or changes nothing.
 */
#include "checksum.h"
#include "entries.h"
#include "quick.h"
#include "tempdir.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER sizeof(struct entry_header)
#define FOOTER sizeof(struct entry_footer)

static const struct put three[] = { PUT("alice", "hello"), KEYLESS("a row without a key"), DELETE("alice") };

/* Read everything there is to read of FD: 0 when it is exactly ROWS, or the first error, with right rows before it. */
static int read_all(int fd, const struct put *rows, size_t n, struct errmsg *msg)
{
    struct entry_file *f;
    int r = entries_open(&f, fd, msg);
    if (r < 0)
        return r;
    for (int order = OLDEST_FIRST; order <= NEWEST_FIRST && r == 0; order++)
        r = entries_compare(f, (enum entry_order)order, rows, n, NULL, msg);
    if (r == 0)
        r = entry_file_verify(f, msg);
    entry_file_close(f);
    return r;
}

static void expect_error(int fd, const struct put *rows, size_t n)
{
    struct errmsg msg = { "" };
    int r = read_all(fd, rows, n, &msg);
    ALWAYS(r == SKADE_EDAMAGED || r == SKADE_EFOREIGN || r == SKADE_EVERSION);
    ALWAYS(strstr(msg.text, "here.entries") != NULL);
    ALWAYS(r == SKADE_EFOREIGN || strstr(msg.text, "byte ") != NULL);
}

static void expect_refused(int fd)
{
    struct errmsg msg = { "" };
    struct entry_file *f;
    int r = entries_open(&f, fd, &msg);
    ALWAYS(r == SKADE_EDAMAGED || r == SKADE_EFOREIGN || r == SKADE_EVERSION);
    ALWAYS(strstr(msg.text, "here.entries") != NULL);
}

START_TEST(every_flipped_bit_is_noticed)
{
    size_t size;
    int fd = entries_make(three, ARRAY_SIZE(three));
    uint8_t *bytes = entries_bytes(fd, &size);
    for (size_t at = 0; at < size; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            uint8_t flipped = bytes[at] ^ (uint8_t)(1u << bit);
            ALWAYS(pwrite(fd, &flipped, 1, (off_t)at) == 1);
            expect_error(fd, three, ARRAY_SIZE(three));
        }
        ALWAYS(pwrite(fd, bytes + at, 1, (off_t)at) == 1);
        struct stat st;
        ALWAYS(fstat(fd, &st) == 0 && (size_t)st.st_size == size);
    }
    ck_assert_int_eq(read_all(fd, three, ARRAY_SIZE(three), NULL), 0);
    free(bytes);
    close(fd);
}
END_TEST

START_TEST(every_truncation_is_refused)
{
    static const size_t lens[] = { 1, 10, 44, 100, 200, 1000, 70000 };
    static char data[70000];
    for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
        const struct put rows[] = { PUT("a", "1"), { ENTRY_KEYED, { "bb", i % 3 }, { data, lens[i] } } };
        size_t size;
        int fd = entries_make(rows, 2);
        uint8_t *bytes = entries_bytes(fd, &size);
        for (size_t cut = size; cut-- > 0;) {
            if (cut > 2000 && cut + 2000 < size)
                cut -= 97; /* in the middle of a long payload it is all the same */
            ALWAYS(ftruncate(fd, (off_t)cut) == 0);
            expect_refused(fd);
        }
        free(bytes);
        close(fd);
    }
}
END_TEST

static uint8_t tail_byte(int kind, uint64_t *seed)
{
    return kind == 0 ? 0 : kind == 1 ? 0xff : (uint8_t)random_u64(seed);
}

START_TEST(appended_bytes_are_refused)
{
    size_t size;
    uint64_t seed = 9;
    int whole = entries_make(three, ARRAY_SIZE(three));
    uint8_t *bytes = entries_bytes(whole, &size);
    for (int kind = 0; kind < 3; kind++) {
        int fd = entries_of_bytes(bytes, size);
        for (size_t n = 0; n < 8192; n++) {
            uint8_t byte = tail_byte(kind, &seed);
            ALWAYS(pwrite(fd, &byte, 1, (off_t)(size + n)) == 1);
            expect_refused(fd);
        }
        ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
        ck_assert_int_eq(read_all(fd, three, ARRAY_SIZE(three), NULL), 0);
        close(fd);
    }
    free(bytes);
    close(whole);
}
END_TEST

START_TEST(appended_metadata_is_refused)
{
    size_t size;
    int whole = entries_make(three, ARRAY_SIZE(three));
    uint8_t *bytes = entries_bytes(whole, &size);
    /* Copies of everything from each place on, up to the whole file: trailers and footers among them. */
    for (size_t from = 0; from < size; from += 8) {
        int fd = entries_of_bytes(bytes, size);
        ALWAYS(pwrite(fd, bytes + from, size - from, (off_t)size) == (ssize_t)(size - from));
        expect_refused(fd);
        close(fd);
    }
    free(bytes);
    close(whole);
}
END_TEST

/* A value that is a file of entries: cut anywhere, nothing of it is taken for the outer file. */
START_TEST(a_nested_file_is_never_taken_for_the_outer)
{
    size_t inner_size, size;
    int inner = entries_make(three, ARRAY_SIZE(three));
    uint8_t *file = entries_bytes(inner, &inner_size);
    const struct put rows[] = { PUT("a", "1"), { ENTRY_KEYED, { "file", 4 }, { (char *)file, inner_size } } };
    int fd = entries_make(rows, 2);
    uint8_t *bytes = entries_bytes(fd, &size);
    ck_assert_int_eq(read_all(fd, rows, 2, NULL), 0);
    for (size_t cut = size; cut-- > 0;) {
        ALWAYS(ftruncate(fd, (off_t)cut) == 0);
        expect_refused(fd);
    }
    free(bytes);
    free(file);
    close(inner);
    close(fd);
}
END_TEST

/* ---- files that aren't ours ---- */

static void expect_refused_and_left_alone(const void *data, size_t size, int error)
{
    char path[512];
    struct entry_file *f;
    struct stat before, after;
    struct errmsg msg = { "" };
    snprintf(path, sizeof path, "%s/foreign", tempdir());
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_eq(write(fd, data, size), (ssize_t)size);
    ck_assert_int_eq(fstat(fd, &before), 0);
    ck_assert_int_eq(entry_file_open(&f, dup(fd), path, NULL, &msg), error);
    ck_assert_ptr_nonnull(strstr(msg.text, path));
    ck_assert_int_eq(fstat(fd, &after), 0);
    ck_assert_int_eq(before.st_size, after.st_size);
    ck_assert_mem_eq(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim);
    close(fd);
}

static void mend_header(uint8_t *bytes, size_t size)
{
    struct entry_header h;
    struct entry_footer t;
    memcpy(&h, bytes, sizeof h);
    h.check = checksum(&h, offsetof(struct entry_header, check), 0);
    memcpy(bytes, &h, sizeof h);
    memcpy(&t, bytes + size - sizeof t, sizeof t);
    t.check = checksum(&t, offsetof(struct entry_footer, check), h.check);
    memcpy(bytes + size - sizeof t, &t, sizeof t);
}

START_TEST(foreign_and_other_files_are_refused_and_left_alone)
{
    static const char text[] =
        "Dear reader, this is a text and has nothing to do with rows of tables, however long "
        "it goes on and whatever a program that expects rows may find in it: it is a text.";
    static const char png[200] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    struct entry_header h;
    size_t size;
    int fd = entries_make(three, ARRAY_SIZE(three));
    uint8_t *bytes = entries_bytes(fd, &size);

    expect_refused_and_left_alone("", 0, SKADE_EFOREIGN);
    expect_refused_and_left_alone(text, sizeof text, SKADE_EFOREIGN);
    expect_refused_and_left_alone(png, sizeof png, SKADE_EFOREIGN);
    expect_refused_and_left_alone(bytes, 300, SKADE_EDAMAGED);
    memcpy(&h, bytes, sizeof h);
    h.major = FORMAT_MAJOR + 1;
    memcpy(bytes, &h, sizeof h);
    mend_header(bytes, size);
    expect_refused_and_left_alone(bytes, size, SKADE_EVERSION);
    static const uint32_t aligns[] = { 0, 4, 48, 8192, 1u << 31 };
    for (size_t i = 0; i < ARRAY_SIZE(aligns); i++) {
        h.major = FORMAT_MAJOR;
        h.align = aligns[i];
        memcpy(bytes, &h, sizeof h);
        mend_header(bytes, size);
        expect_refused_and_left_alone(bytes, size, SKADE_EDAMAGED);
    }
    free(bytes);
    close(fd);
}
END_TEST

/* A whole row of another file at the same place, or of this file at another place, is no row here. */
START_TEST(a_row_from_elsewhere_is_damage)
{
    static const struct put mine[] = { PUT("k", "one"), PUT("k", "two") };
    struct entry_writer_options opt = entries_options();
    struct entry_sum sum;
    size_t size;
    int fd = entries_make(mine, 2), other = entries_of_bytes("", 0);
    opt.uuid.b[0] = 55;
    ck_assert_int_eq(entries_write(other, &opt, mine, 2, 0, &sum, NULL), 0);
    uint8_t *bytes = entries_bytes(fd, &size), *foreign = entries_bytes(other, &size);
    struct entry_footer t;
    memcpy(&t, bytes + size - sizeof t, sizeof t);

    ck_assert_int_eq(pwrite(fd, foreign + HEADER, t.data_end - HEADER, HEADER),
                     (ssize_t)(t.data_end - HEADER));
    expect_error(fd, mine, 2);
    size_t row = (t.data_end - HEADER) / 2;
    ck_assert_int_eq(pwrite(fd, bytes + HEADER, t.data_end - HEADER, HEADER), (ssize_t)(t.data_end - HEADER));
    ck_assert_int_eq(read_all(fd, mine, 2, NULL), 0);
    ck_assert_int_eq(pwrite(fd, bytes + HEADER, row, (off_t)(HEADER + row)), (ssize_t)row);
    expect_error(fd, mine, 2);
    free(bytes);
    free(foreign);
    close(fd);
    close(other);
}
END_TEST

/* ---- one damage among many rows ---- */

enum { MANY = 100000, SOME = 600 };

/* Row i has i as its value; keys every tenth. */
static struct put *numbered(size_t n)
{
    struct put *rows = malloc(n * sizeof *rows);
    uint64_t *values = malloc(n * sizeof *values);
    for (size_t i = 0; i < n; i++) {
        values[i] = i;
        struct bytes value = { (char *)&values[i], sizeof values[i] };
        rows[i] = (struct put){ i % 10 ? 0 : ENTRY_KEYED, value, value };
    }
    return rows;
}

static void free_numbered(struct put *rows)
{
    free((char *)rows[0].value.data);
    free(rows);
}

static void flip(int fd, uint64_t at, unsigned bit)
{
    uint8_t byte;
    ALWAYS(pread(fd, &byte, 1, (off_t)at) == 1);
    byte ^= (uint8_t)(1u << bit);
    ALWAYS(pwrite(fd, &byte, 1, (off_t)at) == 1);
}

static uint64_t place_of(struct entry_file *f, uint64_t number)
{
    struct entry_cursor *c;
    struct row row;
    ck_assert_int_eq(entry_cursor_open(&c, f, NEWEST_FIRST, 0, NULL), 0);
    ck_assert_int_eq(entry_seek_number(c, number, NULL), 0);
    ck_assert_int_eq(entry_next(c, &row, NULL), 1);
    ck_assert_uint_eq(row.number, number);
    entry_cursor_close(c);
    return row.place;
}

/* All rows but BAD can be had by their numbers, in either order; going over BAD is an error. */
static void expect_others(struct entry_file *f, uint64_t n, uint64_t bad, uint64_t step)
{
    struct entry_cursor *c;
    struct row row;
    for (int order = OLDEST_FIRST; order <= NEWEST_FIRST; order++) {
        ck_assert_int_eq(entry_cursor_open(&c, f, (enum entry_order)order, 0, NULL), 0);
        for (uint64_t i = 0; i < n; i += step) {
            int r = entry_seek_number(c, i, NULL);
            if (r == 0)
                r = entry_next(c, &row, NULL);
            ALWAYS(i == bad ? r == SKADE_EDAMAGED
                            : r == 1 && row.number == i && memcmp(row.value, &i, sizeof i) == 0);
        }
        entry_cursor_close(c);
    }
}

START_TEST(a_flipped_bit_among_100000_rows_costs_one_row)
{
    enum { BAD = 10 };
    struct errmsg msg = { "" };
    struct entry_file *f;
    size_t count, size, size_after;
    char where[64];
    struct put *rows = numbered(MANY);
    int fd = entries_make(rows, MANY);
    free(entries_bytes(fd, &size));
    ck_assert_int_eq(entries_open(&f, fd, NULL), 0);
    uint64_t place = place_of(f, BAD), begin = place_of(f, BAD - 1) + sizeof(struct entry_trailer);
    flip(fd, align_up(begin, ENTRY_ALIGN), 3);
    snprintf(where, sizeof where, "byte %llu:", (unsigned long long)begin);

    ck_assert_int_eq(entry_file_verify(f, &msg), SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(msg.text, where));
    ck_assert_int_eq(entries_compare(f, OLDEST_FIRST, rows, MANY, &count, &msg), SKADE_EDAMAGED);
    ck_assert_uint_eq(count, BAD);
    ck_assert_int_eq(entries_compare(f, NEWEST_FIRST, rows, MANY, &count, &msg), SKADE_EDAMAGED);
    ck_assert_uint_eq(count, MANY - 1 - BAD);
    ck_assert_ptr_nonnull(strstr(msg.text, where));
    expect_others(f, MANY, BAD, 97);
    expect_others(f, 300, BAD, 1);
    ck_assert_uint_gt(place, begin);
    entry_file_close(f);
    free(entries_bytes(fd, &size_after));
    ck_assert_uint_eq(size, size_after);
    close(fd);
    free_numbered(rows);
}
END_TEST

/* Whatever bit of a trailer is wrong, its links included: oldest first all rows before it come, newest first all
 * behind it. */
START_TEST(a_broken_trailer_hides_no_row_before_it)
{
    static const uint64_t bads[] = { 0, 1, 100, 254, 255, 256, 300, SOME - 1 };
    struct put *rows = numbered(SOME);
    int fd = entries_make(rows, SOME);
    struct entry_file *f;
    size_t count;
    ck_assert_int_eq(entries_open(&f, fd, NULL), 0);
    for (size_t i = 0; i < ARRAY_SIZE(bads); i++) {
        uint64_t place = place_of(f, bads[i]);
        for (unsigned bit = 0; bit < 8 * sizeof(struct entry_trailer); bit += i % 2 ? 5 : 1) {
            flip(fd, place + bit / 8, bit % 8);
            ALWAYS(entries_compare(f, OLDEST_FIRST, rows, SOME, &count, NULL) == SKADE_EDAMAGED);
            ALWAYS(count == bads[i]);
            ALWAYS(entries_compare(f, NEWEST_FIRST, rows, SOME, &count, NULL) == SKADE_EDAMAGED);
            ALWAYS(count == SOME - 1 - bads[i]);
            if (bit % 16 == 0)
                expect_others(f, SOME, bads[i], 1);
            flip(fd, place + bit / 8, bit % 8);
        }
    }
    ck_assert_int_eq(read_all(fd, rows, SOME, NULL), 0);
    entry_file_close(f);
    close(fd);
    free_numbered(rows);
}
END_TEST

/* A long value is handed on in pieces; the last one, or a check, tells. */
START_TEST(damage_in_a_long_value_is_told_with_its_end)
{
    enum { LEN = 3 << 20 };
    static char data[LEN];
    const struct put rows[] = { PUT("a", "1"), { ENTRY_KEYED, { "long", 4 }, { data, LEN } }, PUT("b", "2") };
    struct errmsg msg = { "" };
    struct entry_cursor *c;
    struct entry_file *f;
    struct row row;
    int fd = entries_make(rows, 3);
    ck_assert_int_eq(entries_open(&f, fd, NULL), 0);
    uint64_t begin = place_of(f, 0) + sizeof(struct entry_trailer);
    static const uint64_t at[] = { 0, 100, 65536, LEN / 2, LEN, LEN + 60 };
    for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
        flip(fd, begin + at[i], 0);
        ck_assert_int_eq(entries_compare(f, OLDEST_FIRST, rows, 3, NULL, &msg), SKADE_EDAMAGED);
        ck_assert_ptr_nonnull(strstr(msg.text, "row 1"));
        ck_assert_int_eq(entry_cursor_open(&c, f, OLDEST_FIRST, 0, NULL), 0);
        ck_assert_int_eq(entry_next(c, &row, NULL), 1);
        ck_assert_int_eq(entry_next(c, &row, NULL), 1);
        ck_assert_int_eq(entry_value_check(c, NULL), SKADE_EDAMAGED);
        ck_assert_int_eq(entry_next(c, &row, NULL), SKADE_EDAMAGED);
        ck_assert_int_eq(entry_seek_number(c, 2, NULL), 0);
        ck_assert_int_eq(entry_next(c, &row, NULL), 1);
        entry_cursor_close(c);
        flip(fd, begin + at[i], 0);
    }
    ck_assert_int_eq(read_all(fd, rows, 3, NULL), 0);
    entry_file_close(f);
    close(fd);
}
END_TEST

START_TEST(damage_in_the_index_is_told_when_it_is_used)
{
    struct put *rows = numbered(SOME);
    int fd = entries_make(rows, SOME);
    struct entry_file *f;
    struct entry_footer t;
    size_t size;
    uint8_t *bytes = entries_bytes(fd, &size);
    memcpy(&t, bytes + size - FOOTER, FOOTER);
    for (uint64_t at = t.data_end; at < size - FOOTER; at += 7) {
        struct entry_index x;
        size_t count;
        flip(fd, at, at % 8);
        ck_assert_int_eq(entries_open(&f, fd, NULL), 0);
        bool map = at < t.keys_off;
        ALWAYS(entry_file_index(f, &x, NULL) == (map ? 0 : SKADE_EDAMAGED));
        ALWAYS(entries_compare(f, OLDEST_FIRST, rows, SOME, &count, NULL) == (map ? SKADE_EDAMAGED : 0));
        ALWAYS(entries_compare(f, NEWEST_FIRST, rows, SOME, &count, NULL) == 0);
        ALWAYS(entry_file_verify(f, NULL) == SKADE_EDAMAGED);
        entry_file_close(f);
        flip(fd, at, at % 8);
    }
    free(bytes);
    close(fd);
    free_numbered(rows);
}
END_TEST

/* Sums that are right over an index that is wrong: verify sees it, and no question does harm. */
START_TEST(an_index_that_lies_is_seen_by_verify)
{
    struct put *rows = numbered(SOME);
    int whole = entries_make(rows, SOME);
    size_t size;
    uint8_t *bytes = entries_bytes(whole, &size);
    struct entry_footer t;
    memcpy(&t, bytes + size - FOOTER, FOOTER);
    const uint64_t lies[] = { t.hashes.off, t.hashes.off + 80, t.places.off + 16, t.nodes.off,
                              t.nodes.off + 56 };
    for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
        struct entry_file *f;
        struct entry_cursor *c;
        struct row row;
        uint8_t *copy = malloc(size);
        memcpy(copy, bytes, size);
        copy[lies[i] + 5] ^= 0x40;
        struct entry_footer mended = t;
        mended.keys_check = checksum_pieces(copy + t.keys_off, size - FOOTER - t.keys_off, 0);
        memcpy(copy + size - FOOTER, &mended, FOOTER);
        mend_header(copy, size);
        int fd = entries_of_bytes(copy, size);
        ck_assert_int_eq(entries_open(&f, fd, NULL), 0);
        ck_assert_int_eq(entry_file_verify(f, NULL), SKADE_EDAMAGED);
        ck_assert_int_eq(entry_cursor_open(&c, f, NEWEST_FIRST, 0, NULL), 0);
        for (size_t k = 0; k < SOME; k++) {
            int r = entry_find(c, rows[k].key, &row, NULL);
            ALWAYS(r == 0 || r == SKADE_EDAMAGED || (r == 1 && row.number == k));
        }
        entry_cursor_close(c);
        entry_file_close(f);
        free(copy);
        close(fd);
    }
    free(bytes);
    close(whole);
    free_numbered(rows);
}
END_TEST

START_TEST(a_footer_that_miscounts_is_damage)
{
    static const int off_by[] = { -1, 1 };
    size_t size;
    int whole = entries_make(three, ARRAY_SIZE(three));
    uint8_t *bytes = entries_bytes(whole, &size);
    for (size_t i = 0; i < ARRAY_SIZE(off_by); i++) {
        struct entry_footer t;
        struct entry_file *f;
        memcpy(&t, bytes + size - FOOTER, FOOTER);
        t.rows += (uint64_t)off_by[i];
        memcpy(bytes + size - FOOTER, &t, FOOTER);
        mend_header(bytes, size);
        int fd = entries_of_bytes(bytes, size);
        ck_assert_int_eq(entries_open(&f, fd, NULL), 0);
        for (int order = OLDEST_FIRST; order <= NEWEST_FIRST; order++) {
            struct entry_cursor *c;
            struct row row;
            int r;
            ck_assert_int_eq(entry_cursor_open(&c, f, (enum entry_order)order, 0, NULL), 0);
            while ((r = entry_next(c, &row, NULL)) == 1)
                ;
            ck_assert_int_eq(r, SKADE_EDAMAGED);
            entry_cursor_close(c);
        }
        ck_assert_int_eq(entry_file_verify(f, NULL), SKADE_EDAMAGED);
        entry_file_close(f);
        close(fd);
        t.rows -= (uint64_t)off_by[i];
        memcpy(bytes + size - FOOTER, &t, FOOTER);
    }
    free(bytes);
    close(whole);
}
END_TEST

/* With a right checksum: bounds that no keys have are refused, and others are seen by verify. */
START_TEST(a_footer_that_lies_about_keys_is_found_out)
{
    static const struct put rows[] = { PUT("bb", "1"), PUT("cc", "2"), PUT("cc", "3"), KEYLESS("4") };
    size_t size;
    int whole = entries_make(rows, ARRAY_SIZE(rows));
    uint8_t *bytes = entries_bytes(whole, &size);
    struct entry_footer right;
    memcpy(&right, bytes + size - FOOTER, FOOTER);
    ck_assert_uint_eq(right.facts, 0);
    for (int lie = 0; lie < 7; lie++) {
        struct entry_footer t = right;
        struct entry_file *f;
        switch (lie) {
        case 0: /* nothing */
            break;
        case 1:
            t.low.bytes[1] = 'c';
            break;
        case 2:
            t.high.bytes[0] = 'd';
            break;
        case 3:
            t.facts = KEYS_DIFFER;
            break;
        case 4:
            t.facts = KEY_FACTS + 1;
            break;
        case 5:
            t.high.bytes[0] = 'a';
            break;
        default:
            t.low.len = KEY_BOUND_MAX + 1;
        }
        memcpy(bytes + size - FOOTER, &t, FOOTER);
        mend_header(bytes, size);
        int fd = entries_of_bytes(bytes, size);
        int r = entries_open(&f, fd, NULL);
        ck_assert_int_eq(r, lie < 4 ? 0 : SKADE_EDAMAGED);
        if (r == 0) {
            ck_assert_int_eq(entry_file_verify(f, NULL), lie ? SKADE_EDAMAGED : 0);
            entry_file_close(f);
        }
        close(fd);
    }
    free(bytes);
    close(whole);
}
END_TEST

Suite *entry_damage_suite(void);
Suite *entry_damage_suite(void)
{
    Suite *s = suite_create("entry_damage");
    TCase *c = tcase_create("entry_damage");

    tcase_set_timeout(c, 60);
    tcase_add_test(c, every_flipped_bit_is_noticed);
    tcase_add_test(c, every_truncation_is_refused);
    tcase_add_test(c, appended_bytes_are_refused);
    tcase_add_test(c, appended_metadata_is_refused);
    tcase_add_test(c, a_nested_file_is_never_taken_for_the_outer);
    tcase_add_test(c, foreign_and_other_files_are_refused_and_left_alone);
    tcase_add_test(c, a_row_from_elsewhere_is_damage);
    tcase_add_test(c, a_flipped_bit_among_100000_rows_costs_one_row);
    tcase_add_test(c, a_broken_trailer_hides_no_row_before_it);
    tcase_add_test(c, damage_in_a_long_value_is_told_with_its_end);
    tcase_add_test(c, damage_in_the_index_is_told_when_it_is_used);
    tcase_add_test(c, an_index_that_lies_is_seen_by_verify);
    tcase_add_test(c, a_footer_that_miscounts_is_damage);
    tcase_add_test(c, a_footer_that_lies_about_keys_is_found_out);
    suite_add_tcase(s, c);
    return s;
}
