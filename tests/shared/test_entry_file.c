/*
 * Files of entries: what was written comes out again, from either end and by key.  Damage is in test_entry_damage.c.
 */
#include "checksum.h"
#include "content_sum.h"
#include "entries.h"
#include "quick.h"
#include "rows_writer.h"
#include "tempdir.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct entry_file *opened(int fd)
{
    struct errmsg msg = { "" };
    struct entry_file *f;
    int r = entries_open(&f, fd, &msg);
    ck_assert_msg(r == 0, "%d %s", r, msg.text);
    return f;
}

/* ROWS come out of F in both orders, and everything about it is right. */
static void expect_rows(struct entry_file *f, const struct put *rows, size_t n)
{
    struct errmsg msg = { "" };
    for (int order = OLDEST_FIRST; order <= NEWEST_FIRST; order++) {
        int r = entries_compare(f, (enum entry_order)order, rows, n, NULL, &msg);
        ck_assert_msg(r == 0, "%d %s", r, msg.text);
    }
    int r = entry_file_verify(f, &msg);
    ck_assert_msg(r == 0, "%d %s", r, msg.text);
}

static void expect_round_trip(const struct put *rows, size_t n)
{
    int fd = entries_make(rows, n);
    struct entry_file *f = opened(fd);
    expect_rows(f, rows, n);
    entry_file_close(f);
    close(fd);
}

/* ---- layout ---- */

static void check_alignment(const struct put *rows, size_t n, uint32_t align)
{
    struct entry_writer_options opt = entries_options();
    struct entry_sum sum;
    struct entry_cursor *c;
    struct row row;
    size_t size;
    opt.align = align;
    int fd = entries_of_bytes("", 0);
    ck_assert_int_eq(entries_write(fd, &opt, rows, n, 3, &sum, NULL), 0);
    uint8_t *bytes = entries_bytes(fd, &size);
    struct entry_file *f = opened(fd);
    ck_assert_uint_eq(entry_file_header(f)->align, align);
    ck_assert_int_eq(entry_cursor_open(&c, f, OLDEST_FIRST, 0, NULL), 0);
    uint64_t begin = sizeof(struct entry_header);
    while (entry_next(c, &row, NULL) == 1) {
        uint64_t payload = align_up(begin, align), key = payload + row.value_len, end = key + row.key.len;
        for (uint64_t i = begin; i < payload; i++)
            ALWAYS(bytes[i] == 0);
        ALWAYS(row.value_len == 0 || memcmp(bytes + payload, row.value, row.value_len) == 0);
        ALWAYS((uintptr_t)row.value % 64 == payload % 64);
        ALWAYS(row.key.len == 0 || memcmp(bytes + key, row.key.data, row.key.len) == 0);
        for (uint64_t i = end; i < row.place; i++)
            ALWAYS(bytes[i] == 0);
        ALWAYS(row.place == align_up(end, 8));
        begin = row.place + sizeof(struct entry_trailer);
    }
    ck_assert_uint_eq(begin, entry_file_footer(f)->data_end);
    entry_cursor_close(c);
    entry_file_close(f);
    free(bytes);
    close(fd);
}

START_TEST(every_payload_is_aligned_and_pads_are_zero)
{
    static char filler[256];
    struct put rows[400];
    memset(filler, 0xa5, sizeof filler);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        rows[i] = i % 2 ? (struct put){ ENTRY_KEYED | ENTRY_DELETE, { filler, i % 23 }, { NULL, 0 } }
                        : (struct put){ i % 3 ? ENTRY_KEYED : 0, { filler, i % 17 }, { filler, i / 2 + 1 } };
    for (uint32_t align = 8; align <= 4096; align *= 2)
        check_alignment(rows, ARRAY_SIZE(rows), align);
    expect_round_trip(rows, ARRAY_SIZE(rows));
}
END_TEST

static const struct put golden[] = { PUT("alice", "hello"), PUT("bob", ""),    DELETE("alice"),
                                     KEYLESS("no key"),     PUT("", "\0\1\2"), PUT("carol", "x") };
#define GOLDEN "tests/data/golden/v1.entries"

/* With SKADE_GOLDEN set it writes the file, which is then to be committed; otherwise it compares. */
START_TEST(a_fixed_sequence_makes_the_golden_file)
{
    size_t size, want_size;
    int fd = entries_make(golden, ARRAY_SIZE(golden));
    uint8_t *bytes = entries_bytes(fd, &size);
    int file = open(
        GOLDEN, getenv("SKADE_GOLDEN") ? O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0644);
    ck_assert_msg(file >= 0, "%s isn't here: run the suites in the repository's top folder", GOLDEN);
    if (getenv("SKADE_GOLDEN"))
        ck_assert_int_eq(write(file, bytes, size), (ssize_t)size);
    uint8_t *want = entries_bytes(file, &want_size);
    ck_assert_uint_eq(size, want_size);
    ck_assert_mem_eq(bytes, want, size);
    struct entry_file *f = opened(file);
    expect_rows(f, golden, ARRAY_SIZE(golden));
    entry_file_close(f);
    free(want);
    free(bytes);
    close(file);
    close(fd);
}
END_TEST

START_TEST(a_file_says_what_it_is)
{
    struct entry_writer_options opt = entries_options();
    struct entry_sum sum;
    int fd = entries_of_bytes("", 0);
    ck_assert_int_eq(entries_write(fd, &opt, golden, ARRAY_SIZE(golden), 0, &sum, NULL), 0);
    struct entry_file *f = opened(fd);
    const struct entry_footer *t = entry_file_footer(f);
    ck_assert(uuid_equal(&entry_file_header(f)->log, &opt.log));
    ck_assert(uuid_equal(&entry_file_header(f)->uuid, &opt.uuid));
    ck_assert_uint_eq(entry_file_header(f)->table, 7);
    ck_assert_uint_eq(entry_file_header(f)->seen_seq, 99);
    ck_assert_uint_eq(t->rows, 6);
    ck_assert_uint_eq(t->keyed, 5);
    ck_assert_uint_eq(t->deletes, 1);
    ck_assert_uint_eq(t->raw_bytes, 5 + 5 + 3 + 5 + 6 + 3 + 5 + 1);
    ck_assert_uint_eq(t->size, sum.size);
    ck_assert_uint_eq(t->check, sum.footer_check);
    ck_assert_uint_eq(sum.rows, 6);
    ck_assert_uint_eq(sum.raw_bytes, t->raw_bytes);
    ck_assert(!entry_file_compacted(f));
    entry_file_close(f);
    close(fd);
}
END_TEST

/* ---- rows of all kinds ---- */

START_TEST(a_file_may_be_empty)
{
    struct entry_cursor *c;
    struct row row;
    int fd = entries_make(NULL, 0);
    struct entry_file *f = opened(fd);
    expect_rows(f, NULL, 0);
    ck_assert_int_eq(entry_cursor_open(&c, f, NEWEST_FIRST, 0, NULL), 0);
    ck_assert_int_eq(entry_find(c, bytes_of("alice"), &row, NULL), 0);
    ck_assert_int_eq(entry_seek_place(c, 0, NULL), SKADE_EDAMAGED);
    entry_cursor_close(c);
    entry_file_close(f);
    close(fd);
}
END_TEST

START_TEST(any_payload_is_legal)
{
    static char zeros[1 << 20], key[ENTRY_KEY_MAX];
    size_t size;
    int inner = entries_make(golden, ARRAY_SIZE(golden));
    uint8_t *file = entries_bytes(inner, &size);
    memset(key, 'k', sizeof key);
    struct put rows[] = { PUT("empty", ""),
                          PUT("zero", "\0"),
                          PUT("eight", "\0\0\0\0\0\0\0\0"),
                          { ENTRY_KEYED, bytes_of("mega"), { zeros, sizeof zeros } },
                          PUT("fffe", "\xff\xfe"),
                          { ENTRY_KEYED, bytes_of("file"), { (char *)file, size } },
                          KEYLESS(""),
                          DELETE("zero"),
                          { ENTRY_KEYED, { key, sizeof key }, { zeros, 1 } } };
    expect_round_trip(rows, ARRAY_SIZE(rows));
    free(file);
    close(inner);
}
END_TEST

/* As a client takes it, from pieces of PIECE bytes; 0: whole. */
static uint64_t content_of(const struct put *rows, size_t n, size_t piece)
{
    struct content_sum *sum = content_sum_make();

    for (size_t i = 0; i < n; i++) {
        content_sum_row(sum, rows[i].flags, rows[i].key);
        for (size_t at = 0, len; at < rows[i].value.len; at += len) {
            len = piece && piece < rows[i].value.len - at ? piece : rows[i].value.len - at;
            content_sum_piece(sum, rows[i].value.data + at, len);
        }
        content_sum_row_end(sum);
    }
    uint64_t ret = content_sum_value(sum);
    content_sum_free(sum);
    return ret;
}

START_TEST(values_of_any_length_come_in_any_pieces)
{
    static const size_t lens[] = {
        1, 63, 64, 65535, 65536, 65537, 3 * 65536 - 40, ROW_WHOLE, ROW_WHOLE + 1, 5 << 20
    };
    static const size_t pieces[] = { 0, 7777, 65536, 1 << 20 };
    struct put rows[ARRAY_SIZE(lens)];
    struct entry_writer_options opt = entries_options();
    struct entry_sum sum, first = { 0 };
    char *data = malloc(6 << 20);
    uint64_t seed = 5;
    for (size_t i = 0; i < 6 << 20; i++)
        data[i] = (char)random_u64(&seed);
    for (size_t i = 0; i < ARRAY_SIZE(lens); i++)
        rows[i] = (struct put){ ENTRY_KEYED, { data, i * 5000 }, { data + i, lens[i] - i % 2 } };
    for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
        int fd = entries_of_bytes("", 0);
        opt.memory = i % 2 ? 1 : 0;
        ck_assert_int_eq(entries_write(fd, &opt, rows, ARRAY_SIZE(rows), pieces[i], &sum, NULL), 0);
        struct entry_file *f = opened(fd);
        expect_rows(f, rows, ARRAY_SIZE(rows));
        entry_file_close(f);
        close(fd);
        if (i == 0)
            first = sum;
        ck_assert_mem_eq(&first, &sum, sizeof sum);
        ck_assert_uint_eq(content_of(rows, ARRAY_SIZE(rows), pieces[i]), sum.content);
    }
    free(data);
}
END_TEST

START_TEST(the_content_is_that_of_the_rows_alone)
{
    static const struct put same[] = { PUT("a", "1"), PUT("b", "2") };
    static const struct put others[][2] = {
        { PUT("b", "2"), PUT("a", "1") }, { PUT("a", "1"), PUT("b", "3") }, { PUT("a", "1"), PUT("c", "2") },
        { PUT("a1", ""), PUT("b", "2") }, { PUT("", "1a"), PUT("b", "2") }, { PUT("a", "1"), KEYLESS("2b") },
        { PUT("a", "1"), DELETE("2b") }
    };
    struct entry_writer_options opt = entries_options();
    struct entry_sum want, sum;
    int fd = entries_of_bytes("", 0);
    ck_assert_int_eq(entries_write(fd, &opt, same, 2, 0, &want, NULL), 0);
    opt.uuid.b[0] = 77;
    opt.align = 512;
    opt.seen_seq = 3;
    ck_assert_int_eq(ftruncate(fd, 0), 0);
    ck_assert_int_eq(entries_write(fd, &opt, same, 2, 0, &sum, NULL), 0);
    ck_assert_uint_eq(sum.content, want.content);
    ck_assert_uint_eq(content_of(same, 2, 0), want.content);
    ck_assert_uint_ne(sum.footer_check, want.footer_check);
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        ck_assert_int_eq(ftruncate(fd, 0), 0);
        ck_assert_int_eq(entries_write(fd, &opt, others[i], 2, 0, &sum, NULL), 0);
        ck_assert_uint_ne(sum.content, want.content);
        ck_assert_uint_eq(content_of(others[i], 2, 0), sum.content);
    }
    close(fd);
}
END_TEST

/* ---- keys ---- */

static void expect_found(struct entry_cursor *c, struct bytes key, const struct put *want, uint64_t number)
{
    struct errmsg msg = { "" };
    struct row row;
    int r = entry_find(c, key, &row, &msg);
    if (r != (want ? 1 : 0))
        ck_abort_msg("%d %s", r, msg.text);
    if (!want)
        return;
    ALWAYS(row.number == number && row.flags == want->flags && bytes_equal(row.key, key));
    ALWAYS(bytes_equal((struct bytes){ row.value, row.value_len }, want->value));
}

START_TEST(deleted_and_empty_differ)
{
    static const struct put rows[] = { PUT("a", "1"), PUT("b", "2"), DELETE("a"), PUT("b", "") };
    struct entry_cursor *c;
    for (int again = 0; again < 2; again++) {
        int fd = entries_make(rows, ARRAY_SIZE(rows));
        struct entry_file *f = opened(fd);
        ck_assert_int_eq(entry_cursor_open(&c, f, NEWEST_FIRST, 0, NULL), 0);
        expect_found(c, bytes_of("a"), &rows[2], 2);
        expect_found(c, bytes_of("b"), &rows[3], 3);
        expect_found(c, bytes_of("c"), NULL, 0);
        expect_found(c, bytes_of(""), NULL, 0);
        entry_cursor_close(c);
        entry_file_close(f);
        close(fd);
    }
}
END_TEST

/* Two keys whose XXH3 is ca981008c76b313c. */
static const char twin_a[] = "\xb9\x39\x42\xea\x7b\x73\x82\x67\xd5\x9f\x3d\x80\x5c\xf9\x75\xae";
static const char twin_b[] = "\xb8\x1a\x07\x8d\xf2\xd8\x4f\x88\x3a\x52\x96\x09\x3b\xbc\x56\xaf";

START_TEST(colliding_keys_are_kept_apart)
{
    const struct bytes a = { twin_a, 16 }, b = { twin_b, 16 };
    const struct put rows[] = { { ENTRY_KEYED, a, { "A", 1 } },
                                { ENTRY_KEYED, b, { "B", 1 } },
                                PUT("x", "y"),
                                { ENTRY_KEYED | ENTRY_DELETE, b, { NULL, 0 } } };
    struct entry_cursor *c;
    ck_assert_uint_eq(entry_hash(a), 0xca981008c76b313c);
    ck_assert_uint_eq(entry_hash(b), 0xca981008c76b313c);
    for (size_t n = 0; n <= ARRAY_SIZE(rows); n++) {
        int fd = entries_make(rows, n);
        struct entry_file *f = opened(fd);
        expect_rows(f, rows, n);
        for (int order = OLDEST_FIRST; order <= NEWEST_FIRST; order++) {
            ck_assert_int_eq(entry_cursor_open(&c, f, (enum entry_order)order, 0, NULL), 0);
            expect_found(c, a, n > 0 ? &rows[0] : NULL, 0);
            expect_found(c, b, n > 3 ? &rows[3] : n > 1 ? &rows[1] : NULL, n > 3 ? 3 : 1);
            entry_cursor_close(c);
        }
        entry_file_close(f);
        close(fd);
    }
}
END_TEST

START_TEST(the_last_row_after_a_deletion_is_a_deletion)
{
    static const struct put rows[] = { PUT("a", "1"), DELETE("a") };
    struct entry_cursor *c;
    struct row row;
    int fd = entries_make(rows, 2);
    struct entry_file *f = opened(fd);
    ck_assert_int_eq(entry_cursor_open(&c, f, NEWEST_FIRST, 0, NULL), 0);
    ck_assert_int_eq(entry_next(c, &row, NULL), 1);
    ck_assert_uint_eq(row.flags, ROW_KEYED | ROW_DELETE);
    ck_assert_uint_eq(row.value_len, 0);
    entry_cursor_close(c);
    entry_file_close(f);
    close(fd);
}
END_TEST

/* ---- many rows ---- */

#define KEYS 700u

/* N rows with KEYS distinct keys, some without, some deletions.  NEWEST[k] is the last row of key k, or -1. */
static struct put *many_rows(size_t n, long newest[KEYS])
{
    struct put *rows = malloc((n + 1) * sizeof *rows);
    char(*texts)[24] = calloc(1, (n + 1) * sizeof *texts);
    uint64_t seed = n;
    for (size_t k = 0; k < KEYS; k++)
        newest[k] = -1;
    rows[n].value.data = (char *)texts; /* for free_rows() */
    for (size_t i = 0; i < n; i++) {
        size_t k = random_below(&seed, KEYS);
        snprintf(texts[i], sizeof texts[i], "key%zu", k);
        struct bytes key = bytes_of(texts[i]);
        rows[i] = (struct put){ ENTRY_KEYED, key, { texts[i], random_below(&seed, 23) } };
        if (i % 11 == 0)
            rows[i] = (struct put){ 0, { NULL, 0 }, rows[i].value };
        else if (i % 13 == 0)
            rows[i] = (struct put){ ENTRY_KEYED | ENTRY_DELETE, key, { NULL, 0 } };
        if (rows[i].flags)
            newest[k] = (long)i;
    }
    return rows;
}

static void free_rows(struct put *rows, size_t n)
{
    free((char *)rows[n].value.data);
    free(rows);
}

static void expect_newest(struct entry_file *f, const struct put *rows, const long newest[KEYS])
{
    struct entry_cursor *c;
    char text[24];
    ck_assert_int_eq(entry_cursor_open(&c, f, NEWEST_FIRST, 0, NULL), 0);
    for (size_t k = 0; k < KEYS; k++) {
        snprintf(text, sizeof text, "key%zu", k);
        expect_found(c, bytes_of(text), newest[k] < 0 ? NULL : &rows[newest[k]], (uint64_t)newest[k]);
    }
    entry_cursor_close(c);
}

static void expect_seeks(struct entry_file *f, size_t n)
{
    struct entry_cursor *c;
    struct row row;
    uint64_t seed = 1;
    for (int order = OLDEST_FIRST; order <= NEWEST_FIRST; order++) {
        ck_assert_int_eq(entry_cursor_open(&c, f, (enum entry_order)order, 0, NULL), 0);
        for (int i = 0; i < 300 && n > 0; i++) {
            uint64_t number = i == 0 ? 0 : i == 1 ? n - 1 : random_below(&seed, n);
            ALWAYS(entry_seek_number(c, number, NULL) == 0);
            for (int steps = 0; steps < 3 && number < n; steps++) {
                ALWAYS(entry_next(c, &row, NULL) == 1 && row.number == number);
                if (i % 2 && steps == 0) { /* the same again by its place */
                    ALWAYS(entry_seek_place(c, row.place, NULL) == 0);
                    ALWAYS(entry_next(c, &row, NULL) == 1 && row.number == number);
                }
                number += order == OLDEST_FIRST ? 1 : UINT64_MAX;
            }
            ALWAYS(number < n || entry_next(c, &row, NULL) == 0);
        }
        entry_cursor_close(c);
    }
}

START_TEST(any_number_of_rows_can_be_read_sought_and_found)
{
    static const size_t counts[] = { 1,   2,   7,   8,   9,   10,  63,  64,  72,   73,   81,
                                     255, 256, 257, 511, 512, 513, 648, 649, 5000, 20000 };
    long newest[KEYS];
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        struct put *rows = many_rows(counts[i], newest);
        int fd = entries_make(rows, counts[i]);
        struct entry_file *f = opened(fd);
        expect_rows(f, rows, counts[i]);
        expect_newest(f, rows, newest);
        expect_seeks(f, counts[i]);
        entry_file_close(f);
        close(fd);
        free_rows(rows, counts[i]);
    }
}
END_TEST

/* The writer's and the index's ways through temporary files, and an index that is mapped. */
START_TEST(a_file_is_the_same_however_little_memory_there_was)
{
    enum { N = 60000 };
    long newest[KEYS];
    struct put *rows = many_rows(N, newest);
    struct entry_writer_options opt = entries_options();
    struct entry_sum much, little;
    int dir = open(tempdir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int a = entries_of_bytes("", 0), b = entries_of_bytes("", 0);
    size_t size_a, size_b;
    ck_assert_int_eq(entries_write(a, &opt, rows, N, 0, &much, NULL), 0);
    opt.memory = 1;
    opt.temp_dir = dir;
    ck_assert_int_eq(entries_write(b, &opt, rows, N, 0, &little, NULL), 0);
    uint8_t *bytes_a = entries_bytes(a, &size_a), *bytes_b = entries_bytes(b, &size_b);
    ck_assert_uint_eq(size_a, size_b);
    ck_assert(memcmp(bytes_a, bytes_b, size_a) == 0);
    struct entry_file *f = opened(b);
    expect_rows(f, rows, N);
    expect_newest(f, rows, newest);
    entry_file_close(f);
    free(bytes_a);
    free(bytes_b);
    free_rows(rows, N);
    close(a);
    close(b);
    close(dir);
}
END_TEST

/* Blocks that no window holds, between others. */
START_TEST(large_and_small_rows_mix)
{
    static char data[300000];
    struct put rows[600];
    uint64_t seed = 3;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)random_u64(&seed);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        rows[i] = (struct put){ ENTRY_KEYED,
                                { data + i, 8 },
                                { data + i, i > 256 && i % 9 == 0 ? random_below(&seed, 200000) : i % 40 } };
    rows[300].value = (struct bytes){ data, sizeof data };
    int fd = entries_make(rows, ARRAY_SIZE(rows));
    struct entry_file *f = opened(fd);
    expect_rows(f, rows, ARRAY_SIZE(rows));
    expect_seeks(f, ARRAY_SIZE(rows));
    entry_file_close(f);
    close(fd);
}
END_TEST

/* ---- writers ---- */

static void expect_refused(const struct put *row)
{
    struct entry_writer_options opt = entries_options();
    struct errmsg msg = { "" };
    struct entry_writer *w;
    struct entry_sum sum;
    struct entry_file *f;
    int fd = entries_of_bytes("", 0);
    ck_assert_int_eq(entry_writer_open(&w, fd, &opt, NULL), 0);
    int r = entry_begin(w, row->flags, row->key, &msg);
    if (r == 0)
        r = entry_piece(w, row->value.data, row->value.len, &msg);
    ck_assert_int_eq(r, SKADE_EINPUT);
    ck_assert_str_ne(msg.text, "");
    ck_assert_int_eq(entry_piece(w, "x", 1, NULL), SKADE_EINPUT);
    ck_assert_int_eq(entry_end(w, NULL), SKADE_EINPUT);
    ck_assert_int_eq(entry_writer_seal(w, &sum, NULL), SKADE_EINPUT);
    entry_writer_close(w);
    ck_assert_int_lt(entries_open(&f, fd, NULL), 0);
    close(fd);
}

START_TEST(a_row_that_cannot_be_spoils_its_file)
{
    static char key[ENTRY_KEY_MAX + 1];
    expect_refused(&(struct put){ ENTRY_KEYED, { key, sizeof key }, { "x", 1 } });
    expect_refused(&(struct put){ ENTRY_KEYED | ENTRY_DELETE, { "k", 1 }, { "x", 1 } });
    expect_refused(&(struct put){ ENTRY_DELETE, { "k", 1 }, { NULL, 0 } });
}
END_TEST

START_TEST(a_source_that_stops_leaves_no_file)
{
    struct entry_writer_options opt = entries_options();
    struct entry_writer *w;
    struct entry_file *f;
    static char data[3 << 20];
    int fd = entries_of_bytes("", 0);
    ck_assert_int_eq(entry_writer_open(&w, fd, &opt, NULL), 0);
    ck_assert_int_eq(entry_begin(w, ENTRY_KEYED, bytes_of("k"), NULL), 0);
    ck_assert_int_eq(entry_piece(w, data, sizeof data, NULL), 0);
    entry_writer_close(w); /* in the middle of a row, with some of it in the file */
    ck_assert_int_eq(entries_open(&f, fd, NULL), SKADE_EDAMAGED);
    close(fd);
}
END_TEST

START_TEST(a_full_disk_is_told_and_spoils_only_the_new_file)
{
    static char data[8192];
    const char *dir = tempdir_mounted("size=2m");
    struct entry_writer_options opt = entries_options();
    struct put rows[400];
    struct entry_sum sum;
    if (!dir) {
        printf("skipped: no tmpfs can be mounted here\n");
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        rows[i] = (struct put){ ENTRY_KEYED, bytes_of("k"), { data, sizeof data } };
    int good = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600),
        bad = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    ck_assert_int_eq(entries_write(good, &opt, rows, 20, 0, &sum, NULL), 0);
    ck_assert_int_eq(entries_write(bad, &opt, rows, ARRAY_SIZE(rows), 0, &sum, NULL), SKADE_EFULL);
    close(bad);
    bad = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    ck_assert_int_eq(entries_write(bad, &opt, rows, 20, 0, &sum, NULL), 0);
    struct entry_file *f = opened(good);
    expect_rows(f, rows, 20);
    entry_file_close(f);
    close(good);
    close(bad);
}
END_TEST

#ifdef SKADE_FAILPOINTS
static void point(const char *dir, const char *name, const char *what)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    fputs(what, file);
    fclose(file);
}

static int write_with(const char *dir, const char *name, const char *what, int fd)
{
    static char data[100000];
    struct entry_writer_options opt = entries_options();
    struct put rows[10];
    struct entry_sum sum;
    char path[512];
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        rows[i] = (struct put){ ENTRY_KEYED, bytes_of("k"), { data, sizeof data } };
    opt.memory = 1;
    point(dir, name, what);
    int r = entries_write(fd, &opt, rows, ARRAY_SIZE(rows), 0, &sum, NULL);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    unlink(path);
    return r;
}

START_TEST(a_write_that_fails_anywhere_leaves_no_file)
{
    const char *dir = tempdir();
    char what[64];
    int r = -1;
    setenv("SKADE_FAILPOINT_DIR", dir, 1);
    for (int n = 0; r < 0; n++) {
        struct entry_file *f;
        int fd = entries_of_bytes("", 0);
        snprintf(what, sizeof what, "count %d fail %d", n, n % 2 ? EIO : ENOSPC);
        r = write_with(dir, "entries.write", what, fd);
        ck_assert_int_eq(r, r == 0 ? 0 : n % 2 ? -EIO : SKADE_EFULL);
        if (r == 0)
            ck_assert_int_gt(n, 3);
        ck_assert(entries_open(&f, fd, NULL) < 0 || r == 0);
        if (r == 0)
            entry_file_close(f);
        close(fd);
    }
    int fd = entries_of_bytes("", 0);
    ck_assert_int_eq(write_with(dir, "entries.fsync", "fail 5", fd), -EIO);
    ck_assert_int_eq(ftruncate(fd, 0), 0);
    ck_assert_int_eq(write_with(dir, "entries.fsync", "fail 28", fd), SKADE_EFULL);
    close(fd);
    unsetenv("SKADE_FAILPOINT_DIR");
}
END_TEST
#endif

/* ---- readers ---- */

START_TEST(reading_never_writes)
{
    char path[512];
    struct stat before, after;
    snprintf(path, sizeof path, "%s/a.entries", tempdir());
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct entry_writer_options opt = entries_options();
    struct entry_sum sum;
    ck_assert_int_eq(entries_write(fd, &opt, golden, ARRAY_SIZE(golden), 0, &sum, NULL), 0);
    close(fd);
    ck_assert_int_eq(chmod(path, 0444), 0);
    ck_assert_int_eq(stat(path, &before), 0);
    struct entry_file *f = opened(open(path, O_RDONLY | O_CLOEXEC));
    expect_rows(f, golden, ARRAY_SIZE(golden));
    entry_file_close(f);
    ck_assert_int_eq(stat(path, &after), 0);
    ck_assert_int_eq(before.st_size, after.st_size);
    ck_assert_mem_eq(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim);
    ck_assert_mem_eq(&before.st_ctim, &after.st_ctim, sizeof before.st_ctim);
}
END_TEST

START_TEST(the_expected_file_and_no_other_is_opened)
{
    struct entry_writer_options opt = entries_options();
    struct entry_file *f;
    int fd = entries_make(golden, ARRAY_SIZE(golden));
    f = opened(fd);
    const struct entry_expect right = { .log = opt.log,
                                        .uuid = opt.uuid,
                                        .table = 7,
                                        .footer_check = entry_file_footer(f)->check,
                                        .size = entry_file_footer(f)->size };
    entry_file_close(f);
    ck_assert_int_eq(entry_file_open(&f, dup(fd), "x", &right, NULL), 0);
    entry_file_close(f);
    struct entry_expect wrong[6] = { right, right, right, right, right, right };
    wrong[0].log.b[3] = 1;
    wrong[1].uuid.b[3] = 1;
    wrong[2].table = 8;
    wrong[3].part = 1;
    wrong[4].footer_check++;
    wrong[5].size++;
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        ck_assert_int_eq(entry_file_open(&f, dup(fd), "x", &wrong[i], NULL),
                         i < 4 ? SKADE_EFOREIGN : SKADE_EDAMAGED);
    close(fd);
}
END_TEST

/* Each thread is the first to need the map or the keys, or isn't. */
static void *read_beside_others(void *arg)
{
    struct entry_file *f = arg;
    struct entry_cursor *c;
    struct row row;
    uint64_t rows = 0, found = 0;
    ALWAYS(entry_cursor_open(&c, f, OLDEST_FIRST, 0, NULL) == 0);
    while (entry_next(c, &row, NULL) == 1)
        rows++;
    for (int i = 0; i < 50; i++)
        found += entry_find(c, bytes_of("key1"), &row, NULL) == 1;
    entry_cursor_close(c);
    ALWAYS(rows == 2000 && found == 50);
    return NULL;
}

START_TEST(threads_share_a_file)
{
    long newest[KEYS];
    struct put *rows = many_rows(2000, newest);
    ck_assert_int_ge(newest[1], 0);
    int fd = entries_make(rows, 2000);
    for (int round = 0; round < 20; round++) {
        struct entry_file *f = opened(fd);
        pthread_t threads[4];
        for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, read_beside_others, f), 0);
        for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
            pthread_join(threads[i], NULL);
        entry_file_close(f);
    }
    close(fd);
    free_rows(rows, 2000);
}
END_TEST

/* ---- one cursor over several files ---- */

enum { TURN_ROWS = 700 };

static char turn_keys[TURN_ROWS][8];

/* Row i has the key and the value "TAG i"; those that 7 divides are long. */
static int turn_file(char tag, bool compacted)
{
    static char large[3 * 4096];
    struct rows_writer_options opt = { .table = 7, .block_size = 4096, .temp_dir = AT_FDCWD };
    struct put rows[TURN_ROWS];
    struct manifest_file sum;
    struct rows_writer *w;
    for (int i = 0; i < TURN_ROWS; i++) {
        size_t len = (size_t)snprintf(turn_keys[i], sizeof turn_keys[i], "%c%d", tag, i);
        rows[i] = (struct put){ ENTRY_KEYED, { turn_keys[i], len }, { turn_keys[i], len } };
        if (i % 7 == 0)
            rows[i].value = (struct bytes){ large, sizeof large };
    }
    if (!compacted)
        return entries_make(rows, TURN_ROWS);
    int fd = entries_of_bytes("", 0);
    ck_assert_int_eq(rows_writer_open(&w, fd, &opt, NULL), 0);
    for (int i = 0; i < TURN_ROWS; i++)
        ck_assert_int_eq(rows_put(w, ROW_KEYED, rows[i].key, rows[i].value.data, rows[i].value.len, 0, NULL),
                         0);
    ck_assert_int_eq(rows_writer_seal(w, &sum, NULL), 0);
    rows_writer_close(w);
    return fd;
}

/* N rows of a file of turn_file(); values are read as well. */
static void expect_turn_rows(struct entry_cursor *c, enum entry_order order, char tag, int n)
{
    char key[8], value[8];
    struct row row;
    for (int i = 0; i < n; i++) {
        int number = order == OLDEST_FIRST ? i : TURN_ROWS - 1 - i;
        size_t len = (size_t)snprintf(key, sizeof key, "%c%d", tag, number);
        ck_assert_int_eq(entry_next(c, &row, NULL), 1);
        ck_assert_uint_eq(row.number, (uint64_t)number);
        ck_assert(bytes_equal(row.key, (struct bytes){ key, len }));
        if (number % 7 == 0)
            continue;
        ck_assert_uint_eq(row.value_len, len);
        ck_assert_int_eq(entry_value_read(c, 1, value, len - 1, NULL), 0);
        ck_assert_mem_eq(value, key + 1, len - 1);
        ck_assert_int_eq(entry_value_check(c, NULL), 0);
    }
    if (n == TURN_ROWS)
        ck_assert_int_eq(entry_next(c, &row, NULL), 0);
}

/* From each kind to each, whatever of the one before was read, and after its damage. */
START_TEST(a_cursor_goes_on_with_another_file)
{
    static const char tags[] = "abcd";
    enum entry_order order = _i % 2 ? NEWEST_FIRST : OLDEST_FIRST;
    static const int reads[] = { 0, 1, 300, TURN_ROWS };
    struct entry_cursor *c = NULL;
    struct row row;
    for (unsigned step = 0; step < 64; step++) {
        char tag = tags[step % 4];
        int fd = turn_file(tag, step / 4 % 2 ^ step % 2), r = 1;
        bool broken = step % 9 == 8;
        if (broken)
            ck_assert_int_eq(pwrite(fd, "#", 1, 3000), 1);
        struct entry_file *f = opened(fd);
        ck_assert_int_eq(c ? entry_cursor_turn(&c, f, 5, NULL) : entry_cursor_open(&c, f, order, 5, NULL), 0);
        if (broken)
            while ((r = entry_next(c, &row, NULL)) == 1)
                ;
        else
            expect_turn_rows(c, order, tag, reads[step % 5 % 4]);
        ck_assert_int_eq(r, broken ? SKADE_EDAMAGED : 1);
        entry_file_close(f); /* before the cursor turns to the next */
        close(fd);
    }
    entry_cursor_close(c);
}
END_TEST

Suite *entry_file_suite(void);
Suite *entry_file_suite(void)
{
    Suite *s = suite_create("entry_file");
    TCase *c = tcase_create("entry_file");

    tcase_set_timeout(c, 60);
    tcase_add_test(c, every_payload_is_aligned_and_pads_are_zero);
    tcase_add_test(c, a_fixed_sequence_makes_the_golden_file);
    tcase_add_test(c, a_file_says_what_it_is);
    tcase_add_test(c, a_file_may_be_empty);
    tcase_add_test(c, any_payload_is_legal);
    tcase_add_loop_test(c, a_cursor_goes_on_with_another_file, 0, 2);
    tcase_add_test(c, values_of_any_length_come_in_any_pieces);
    tcase_add_test(c, the_content_is_that_of_the_rows_alone);
    tcase_add_test(c, deleted_and_empty_differ);
    tcase_add_test(c, colliding_keys_are_kept_apart);
    tcase_add_test(c, the_last_row_after_a_deletion_is_a_deletion);
    tcase_add_test(c, any_number_of_rows_can_be_read_sought_and_found);
    tcase_add_test(c, a_file_is_the_same_however_little_memory_there_was);
    tcase_add_test(c, large_and_small_rows_mix);
    tcase_add_test(c, a_row_that_cannot_be_spoils_its_file);
    tcase_add_test(c, a_source_that_stops_leaves_no_file);
    tcase_add_test(c, a_full_disk_is_told_and_spoils_only_the_new_file);
#ifdef SKADE_FAILPOINTS
    tcase_add_test(c, a_write_that_fails_anywhere_leaves_no_file);
#endif
    tcase_add_test(c, reading_never_writes);
    tcase_add_test(c, threads_share_a_file);
    tcase_add_test(c, the_expected_file_and_no_other_is_opened);
    suite_add_tcase(s, c);
    return s;
}
