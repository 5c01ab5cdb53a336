/*
 * .rows files: written by rows_writer.c, read through entry_file.h, spoilt by hand.
 */
#include "checksum.h"
#include "entry_file.h"
#include "manifest.h"
#include "quick.h"
#include "rows_block.h"
#include "rows_writer.h"
#include "sealing.h"
#include "tempdir.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define TABLE 7u
#define NAME "x.0001.rows"

static const struct uuid log_uuid = { "the commit log" };
static const struct uuid own_uuid = { "a compaction" };

static int temp_dir(void)
{
    static int dir = -1;
    if (dir < 0)
        dir = open(tempdir(), O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(dir, 0);
    return dir;
}

static int empty_file(void)
{
    int fd = openat(temp_dir(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static int file_of(const void *data, size_t size)
{
    int fd = empty_file();
    ck_assert_int_eq(pwrite(fd, data, size, 0), (ssize_t)size);
    return fd;
}

/* The bytes of FD; free() them. */
static uint8_t *bytes_in(int fd, size_t *size)
{
    off_t end = lseek(fd, 0, SEEK_END);
    uint8_t *data = malloc((size_t)end + 1);
    ck_assert_int_eq(pread(fd, data, (size_t)end, 0), end);
    *size = (size_t)end;
    return data;
}

/* ---- rows of a test ------------------------------------------------------------------------------------ */

/* What a row is.  Its bytes follow from SEED: any text for 0, else noise; zeros when ZEROS. */
struct sample {
    unsigned flags;
    size_t key_len;
    uint64_t value_len;
    int64_t time_us;
    uint64_t seed;
    bool zeros;
};

static void fill(char *buf, size_t len, uint64_t seed, bool zeros)
{
    uint64_t random = seed;

    if (zeros) {
        memset(buf, 0, len);
        return;
    }
    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = random_u64(&random);
        memcpy(buf + i, &word, len - i < 8 ? len - i : 8);
    }
}

/* The key's bytes; its seed isn't the value's. */
static struct bytes key_of(const struct sample *s, char *buf)
{
    fill(buf, s->key_len, ~s->seed, false);
    return (struct bytes){ buf, s->key_len };
}

static char *value_of(const struct sample *s)
{
    char *value = malloc(s->value_len + 8);
    fill(value, s->value_len, s->seed, s->zeros);
    return value;
}

struct samples {
    struct sample *rows;
    size_t n;
};

static const struct rows_writer_options defaults = {
    .log = { "the commit log" }, .uuid = { "a compaction" }, .table = TABLE, .part = 1, .seen_seq = 9
};

static struct rows_writer *writer_of(int fd, uint32_t block_size)
{
    struct rows_writer_options opt = defaults;
    struct errmsg msg = { "" };
    struct rows_writer *w;

    opt.block_size = block_size;
    opt.temp_dir = temp_dir();
    opt.memory = 1; /* the least that there is: sorting spills */
    ck_assert_msg(rows_writer_open(&w, fd, &opt, &msg) == 0, "%s", msg.text);
    return w;
}

/* PIECES: the value comes in some, random ones; else whole. */
static int put_sample(struct rows_writer *w, const struct sample *s, bool pieces, uint64_t *random,
                      struct errmsg *msg)
{
    char key_buf[ENTRY_KEY_MAX + 8];
    char *value = value_of(s);
    struct bytes key = key_of(s, key_buf);

    int r = rows_put(w, s->flags, key, pieces ? NULL : value, s->value_len, s->time_us, msg);
    for (uint64_t off = 0; pieces && r == 0 && off < s->value_len;) {
        uint64_t n = random_below(random, 2 * s->value_len) + 1;
        n = n < s->value_len - off ? n : s->value_len - off;
        r = rows_piece(w, value + off, n, msg);
        off += n;
    }
    free(value);
    return r;
}

/* A sealed file of them. */
static int write_samples(const struct samples *s, uint32_t block_size, struct manifest_file *sum)
{
    struct errmsg msg = { "" };
    uint64_t random = 3;
    int fd = empty_file();

    struct rows_writer *w = writer_of(fd, block_size);
    for (size_t i = 0; i < s->n; i++)
        ck_assert_msg(put_sample(w, &s->rows[i], random_below(&random, 2), &random, &msg) == 0, "%s",
                      msg.text);
    ck_assert_msg(rows_writer_seal(w, sum, &msg) == 0, "%s", msg.text);
    ck_assert_uint_eq(sum->size, (uint64_t)lseek(fd, 0, SEEK_END));
    rows_writer_close(w);
    return fd;
}

static struct entry_file *open_rows(int fd)
{
    struct entry_expect expect = { .log = log_uuid, .uuid = own_uuid, .table = TABLE, .part = 1 };
    struct errmsg msg = { "" };
    struct entry_file *f;

    ck_assert_msg(entry_file_open(&f, fd, NAME, &expect, &msg) == 0, "%s", msg.text);
    return f;
}

static struct entry_file *file_of_samples(const struct samples *s, uint32_t block_size)
{
    struct manifest_file sum;
    return open_rows(write_samples(s, block_size, &sum));
}

static struct entry_cursor *cursor_of(struct entry_file *f, enum entry_order order)
{
    struct errmsg msg = { "" };
    struct entry_cursor *c;

    ck_assert_msg(entry_cursor_open(&c, f, order, 12345, &msg) == 0, "%s", msg.text);
    return c;
}

static void check_value(struct entry_cursor *c, const struct row *row, const struct sample *s,
                        uint64_t *random)
{
    char *want = value_of(s), *got = malloc(s->value_len + 1);

    ALWAYS((row->value != NULL) == (s->value_len <= ROW_WHOLE));
    if (row->value)
        ALWAYS(memcmp(row->value, want, s->value_len) == 0);
    for (uint64_t off = 0; off < s->value_len;) { /* in order */
        uint64_t n = random_below(random, 2 * s->value_len) + 1;
        n = n < s->value_len - off ? n : s->value_len - off;
        ALWAYS(entry_value_read(c, off, got, n, NULL) == 0 && memcmp(got, want + off, n) == 0);
        off += n;
    }
    for (int i = 0; i < 5; i++) { /* anywhere */
        uint64_t off = random_below(random, s->value_len + 1);
        uint64_t n = random_below(random, s->value_len - off + 1);
        ALWAYS(entry_value_read(c, off, got, n, NULL) == 0 && memcmp(got, want + off, n) == 0);
    }
    ALWAYS(entry_value_check(c, NULL) == 0);
    if (row->value)
        ALWAYS(memcmp(row->value, want, s->value_len) == 0);
    free(want);
    free(got);
}

static void check_row(struct entry_cursor *c, const struct row *row, const struct samples *all, uint64_t i,
                      uint64_t *random)
{
    const struct sample *s = &all->rows[i];
    char buf[ENTRY_KEY_MAX + 8];

    ALWAYS(row->number == i && row->flags == s->flags && row->time_us == s->time_us);
    ALWAYS(row->value_len == s->value_len);
    ALWAYS(bytes_equal(row->key, s->flags & ROW_KEYED ? key_of(s, buf) : (struct bytes){ "", 0 }));
    check_value(c, row, s, random);
    ALWAYS(bytes_equal(row->key, s->flags & ROW_KEYED ? key_of(s, buf) : (struct bytes){ "", 0 }));
}

/* Row after row from number FIRST on in the cursor's order, and then the end, twice. */
static void check_rest(struct entry_cursor *c, const struct samples *s, enum entry_order order,
                       uint64_t first)
{
    struct errmsg msg = { "" };
    struct row row;
    uint64_t random = 1, i = first;

    for (; i < s->n; i += order == OLDEST_FIRST ? 1 : UINT64_MAX) { /* newest first it ends below 0 */
        ck_assert_msg(entry_next(c, &row, &msg) == 1, "row %zu: %s", (size_t)i, msg.text);
        check_row(c, &row, s, i, &random);
    }
    ck_assert_int_eq(entry_next(c, &row, &msg), 0);
    ck_assert_int_eq(entry_next(c, &row, &msg), 0);
}

static void check_order(struct entry_file *f, const struct samples *s, enum entry_order order)
{
    struct entry_cursor *c = cursor_of(f, order);
    check_rest(c, s, order, order == OLDEST_FIRST ? 0 : s->n - 1);
    entry_cursor_close(c);
}

static void check_file(struct entry_file *f, const struct samples *s)
{
    struct errmsg msg = { "" };

    check_order(f, s, OLDEST_FIRST);
    check_order(f, s, NEWEST_FIRST);
    ck_assert_msg(entry_file_verify(f, &msg) == 0, "%s", msg.text);
}

/* ---- rows come back ------------------------------------------------------------------------------------ */

/* Mostly small, now and then large. */
static uint64_t random_size(uint64_t *random, uint64_t max)
{
    static const unsigned bits[] = { 0, 3, 3, 5, 5, 7, 8, 11, 14, 17, 24 };
    uint64_t n = random_below(random, (1ull << bits[random_below(random, ARRAY_SIZE(bits))]) + 1);
    return n < max ? n : max;
}

static struct sample random_sample(uint64_t *random, uint64_t value_max)
{
    static const int64_t steps[] = { 0, 0, 0, 1, 1, -1, 1000000, -1000000, INT64_MIN, INT64_MAX };
    static const int64_t starts[] = { 0, -1, 1700000000000000, INT64_MIN, INT64_MAX };
    uint64_t time = (uint64_t)starts[random_below(random, ARRAY_SIZE(starts))];
    struct sample s;

    memset(&s, 0, sizeof s);
    s.flags = random_below(random, 3) ? ROW_KEYED : 0;
    s.value_len = random_size(random, value_max);
    s.time_us = (int64_t)(time + (uint64_t)steps[random_below(random, ARRAY_SIZE(steps))]);
    s.seed = random_u64(random);
    s.zeros = random_below(random, 4) == 0;
    if (s.flags)
        s.key_len = random_size(random, ENTRY_KEY_MAX);
    return s;
}

static struct samples random_samples(size_t n, uint64_t value_max, uint64_t seed)
{
    struct samples s = { calloc(n + 1, sizeof s.rows[0]), n };

    for (size_t i = 0; i < n; i++)
        s.rows[i] = random_sample(&seed, value_max);
    return s;
}

START_TEST(random_rows_come_back_in_both_orders)
{
    static const uint32_t sizes[] = { BLOCK_SIZE_MIN, BLOCK_SIZE_MIN + 1, 64 << 10, 0, BLOCK_SIZE_MAX };

    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct samples s = random_samples(1 + seed * seed, 1 << 18, seed);
        struct entry_file *f = file_of_samples(&s, sizes[seed % ARRAY_SIZE(sizes)]);
        check_file(f, &s);
        entry_file_close(f);
        free(s.rows);
    }
}
END_TEST

START_TEST(values_of_ten_megabytes_come_back_in_both_orders)
{
    struct sample rows[] = {
        { 0, 0, 10, 5, 1, false },
        { ROW_KEYED, 0, 10 << 20, 5, 2, false },
        { ROW_KEYED, ENTRY_KEY_MAX, 10 << 20, -7, 3, true },
        { ROW_KEYED, 3, ROW_WHOLE, 5, 4, false },
        { 0, 0, ROW_WHOLE + 1, 5, 5, false },
        { 0, 0, 0, 5, 6, false },
        { ROW_KEYED, 9, (10 << 20) + 1, 5, 7, true },
    };
    struct samples s = { rows, ARRAY_SIZE(rows) };
    static const uint32_t sizes[] = { BLOCK_SIZE_MIN, 0, BLOCK_SIZE_MAX };

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        struct entry_file *f = file_of_samples(&s, sizes[i]);
        check_file(f, &s);
        entry_file_close(f);
    }
}
END_TEST

START_TEST(rows_of_every_size_around_a_block_come_back)
{
    struct sample rows[3] = { { 0, 0, 100, 1, 1, false }, { 0 }, { ROW_KEYED, 2, 100, 1, 2, false } };
    struct samples s = { rows, 3 };

    for (uint64_t blocks = 1; blocks <= 3; blocks++)
        for (uint64_t len = blocks * BLOCK_SIZE_MIN - 45; len <= blocks * BLOCK_SIZE_MIN + 5; len++) {
            rows[1] = (struct sample){ len & 1, len & 1 ? 7 : 0, len, 1, len, false };
            struct entry_file *f = file_of_samples(&s, BLOCK_SIZE_MIN);
            check_file(f, &s);
            entry_file_close(f);
        }
}
END_TEST

START_TEST(a_key_larger_than_a_block_comes_back)
{
    for (size_t len = 0; len < 4; len++) {
        struct sample rows[] = { { ROW_KEYED, 1, 1, 1, 1, false },
                                 { ROW_KEYED, ENTRY_KEY_MAX, len ? 3000 * len - 2999 : 0, 1, 2, false },
                                 { ROW_KEYED, BLOCK_SIZE_MIN - len, len, 1, 3, false } };
        struct samples s = { rows, ARRAY_SIZE(rows) };
        struct entry_file *f = file_of_samples(&s, BLOCK_SIZE_MIN);
        check_file(f, &s);
        entry_file_close(f);
    }
}
END_TEST

START_TEST(extreme_times_come_back_as_they_were)
{
    static const int64_t times[] = { INT64_MIN, INT64_MAX, INT64_MIN, 0, INT64_MAX, -1, INT64_MIN + 1, 1 };
    struct sample rows[ARRAY_SIZE(times)];
    struct samples s = { rows, ARRAY_SIZE(rows) };
    struct manifest_file sum;

    for (size_t i = 0; i < s.n; i++)
        rows[i] = (struct sample){ .time_us = times[i], .seed = i, .value_len = i };
    struct entry_file *f = open_rows(write_samples(&s, 0, &sum));
    check_file(f, &s);
    ck_assert(sum.time_min == INT64_MIN && sum.time_max == INT64_MAX);
    ck_assert(entry_file_footer(f)->time_min == INT64_MIN && entry_file_footer(f)->time_max == INT64_MAX);
    entry_file_close(f);
}
END_TEST

START_TEST(a_file_without_rows_is_a_file)
{
    struct samples s = { NULL, 0 };
    struct errmsg msg = { "" };
    struct manifest_file sum;
    struct row row;

    struct entry_file *f = open_rows(write_samples(&s, 0, &sum));
    ck_assert_uint_eq(sum.rows, 0);
    ck_assert(sum.time_min == 0 && sum.time_max == 0);
    ck_assert_msg(entry_file_verify(f, &msg) == 0, "%s", msg.text);
    for (enum entry_order order = OLDEST_FIRST; order <= NEWEST_FIRST; order++) {
        struct entry_cursor *c = cursor_of(f, order);
        ck_assert_int_eq(entry_next(c, &row, &msg), 0);
        ck_assert_int_eq(entry_find(c, bytes_of("k"), &row, &msg), 0);
        ck_assert_int_eq(entry_find(c, bytes_of(""), &row, &msg), 0);
        entry_cursor_close(c);
    }
    entry_file_close(f);
}
END_TEST

START_TEST(the_sum_that_goes_into_a_manifest_is_that_of_the_rows)
{
    struct samples s = random_samples(300, 5000, 8);
    struct manifest_file sum, want = { .time_min = INT64_MAX, .time_max = INT64_MIN };

    struct entry_file *f = open_rows(write_samples(&s, BLOCK_SIZE_MIN, &sum));
    for (size_t i = 0; i < s.n; i++) {
        want.rows++;
        want.keyed += s.rows[i].flags & ROW_KEYED;
        want.raw_bytes += s.rows[i].key_len + s.rows[i].value_len;
        want.time_min = s.rows[i].time_us < want.time_min ? s.rows[i].time_us : want.time_min;
        want.time_max = s.rows[i].time_us > want.time_max ? s.rows[i].time_us : want.time_max;
    }
    want.size = entry_file_footer(f)->size;
    want.footer_check = entry_file_footer(f)->check;
    ck_assert_int_eq(entry_file_verify(f, NULL), 0); /* so are its bounds those of the keys */
    want.low = entry_file_footer(f)->low;
    want.high = entry_file_footer(f)->high;
    ck_assert_mem_eq(&sum, &want, sizeof sum);
    ck_assert(entry_file_compacted(f));
    ck_assert_uint_eq(entry_file_header(f)->part, 1);
    ck_assert_uint_eq(entry_file_header(f)->seen_seq, 9);
    entry_file_close(f);
    free(s.rows);
}
END_TEST

/* More than the writer keeps in memory: zeros, so that little is written. */
START_TEST(more_blocks_than_memory_keeps_are_written_and_read)
{
    enum { ROWS = 20000 };
    struct samples s = { calloc(ROWS, sizeof s.rows[0]), ROWS };

    for (size_t i = 0; i < ROWS; i++)
        s.rows[i] = (struct sample){ 0, 0, BLOCK_SIZE_MIN - 30, (int64_t)i, i, true };
    struct entry_file *f = file_of_samples(&s, BLOCK_SIZE_MIN);
    ck_assert_uint_eq(entry_file_footer(f)->blocks.count, ROWS);
    check_file(f, &s);
    entry_file_close(f);
    free(s.rows);
}
END_TEST

START_TEST(every_row_is_found_by_its_number)
{
    struct samples s = random_samples(150, 30000, 21);
    struct errmsg msg = { "" };
    struct row row;
    uint64_t random = 2;

    struct entry_file *f = file_of_samples(&s, BLOCK_SIZE_MIN);
    for (enum entry_order order = OLDEST_FIRST; order <= NEWEST_FIRST; order++) {
        struct entry_cursor *c = cursor_of(f, order);
        for (uint64_t i = 0; i < s.n; i++) {
            ck_assert_msg(entry_seek_number(c, i, &msg) == 0, "%s", msg.text);
            ck_assert_int_eq(entry_next(c, &row, &msg), 1);
            check_row(c, &row, &s, i, &random);
        }
        for (uint64_t i = 0; i < s.n; i += 13) {
            ck_assert_int_eq(entry_seek_number(c, i, &msg), 0);
            check_rest(c, &s, order, i);
        }
        entry_cursor_close(c);
    }
    entry_file_close(f);
    free(s.rows);
}
END_TEST

/* ---- the index ----------------------------------------------------------------------------------------- */

static struct bytes numbered_key(char *buf, size_t i)
{
    return (struct bytes){ buf, (size_t)sprintf(buf, "key %zu", i) };
}

START_TEST(the_index_finds_every_key_and_no_other)
{
    static const size_t counts[] = { 1, 8, 9, 72, 73, 80, 81, 729, 5833, 20000 };
    struct errmsg msg = { "" };
    struct manifest_file sum;
    char buf[32];
    struct row row;

    for (size_t k = 0; k < ARRAY_SIZE(counts); k++) {
        int fd = empty_file();
        struct rows_writer *w = writer_of(fd, BLOCK_SIZE_MIN);
        for (size_t i = 0; i < counts[k]; i++) {
            ALWAYS(rows_put(w, 0, bytes_of(""), "unkeyed", 7, 1, &msg) == 0);
            ALWAYS(rows_put(w, ROW_KEYED, numbered_key(buf, 2 * i), &i, sizeof i, 1, &msg) == 0);
        }
        ck_assert_msg(rows_writer_seal(w, &sum, &msg) == 0, "%s", msg.text);
        rows_writer_close(w);
        struct entry_file *f = open_rows(fd);
        ck_assert_msg(entry_file_verify(f, &msg) == 0, "%s", msg.text);
        struct entry_cursor *c = cursor_of(f, k % 2 ? OLDEST_FIRST : NEWEST_FIRST);
        for (size_t i = 0; i < counts[k]; i += 1 + counts[k] / 1000) {
            ALWAYS(entry_find(c, numbered_key(buf, 2 * i), &row, &msg) == 1);
            ALWAYS(row.number == 2 * i + 1 && memcmp(row.value, &i, sizeof i) == 0);
            ALWAYS(entry_find(c, numbered_key(buf, 2 * i + 1), &row, &msg) == 0);
        }
        entry_cursor_close(c);
        entry_file_close(f);
    }
}
END_TEST

/* XXH3 gives both the hash ca981008c76b313c. */
static const uint8_t colliding[2][16] = {
    { 0xb9, 0x39, 0x42, 0xea, 0x7b, 0x73, 0x82, 0x67, 0xd5, 0x9f, 0x3d, 0x80, 0x5c, 0xf9, 0x75, 0xae },
    { 0xb8, 0x1a, 0x07, 0x8d, 0xf2, 0xd8, 0x4f, 0x88, 0x3a, 0x52, 0x96, 0x09, 0x3b, 0xbc, 0x56, 0xaf },
};

START_TEST(colliding_keys_are_two_keys)
{
    struct errmsg msg = { "" };
    struct manifest_file sum;
    struct row row;
    struct bytes keys[2];

    for (int i = 0; i < 2; i++)
        keys[i] = (struct bytes){ (const char *)colliding[i], sizeof colliding[i] };
    ck_assert_uint_eq(entry_hash(keys[0]), 0xca981008c76b313cull);
    ck_assert_uint_eq(entry_hash(keys[1]), 0xca981008c76b313cull);
    for (int have = 0; have < 8; have++) { /* bit 0, 1: which are there; bit 2: in blocks of their own */
        char *far = calloc(1, BLOCK_SIZE_MIN);
        int fd = empty_file();
        struct rows_writer *w = writer_of(fd, BLOCK_SIZE_MIN);
        for (int i = 0; i < 2; i++) {
            if (have & 4)
                ck_assert_int_eq(rows_put(w, 0, keys[0], far, BLOCK_SIZE_MIN, 1, &msg), 0);
            if (have & 1 << i)
                ck_assert_int_eq(rows_put(w, ROW_KEYED, keys[i], i ? "one" : "zero", 3, 1, &msg), 0);
        }
        ck_assert_int_eq(rows_writer_seal(w, &sum, &msg), 0);
        rows_writer_close(w);
        struct entry_file *f = open_rows(fd);
        struct entry_cursor *c = cursor_of(f, OLDEST_FIRST);
        for (int i = 0; i < 2; i++) {
            ck_assert_int_eq(entry_find(c, keys[i], &row, &msg), have & 1 << i ? 1 : 0);
            if (have & 1 << i)
                ck_assert_mem_eq(row.value, i ? "one" : "zer", 3);
        }
        entry_cursor_close(c);
        entry_file_close(f);
        free(far);
    }
}
END_TEST

/* ---- threads ------------------------------------------------------------------------------------------- */

struct reader {
    pthread_t thread;
    struct entry_file *file;
    enum entry_order order;
    uint64_t rows, bytes;
    int result;
};

static void *read_all(void *arg)
{
    struct reader *r = arg;
    struct entry_cursor *c;
    struct row row;

    r->result = entry_cursor_open(&c, r->file, r->order, 0, NULL);
    if (r->result < 0)
        return NULL;
    while ((r->result = entry_next(c, &row, NULL)) == 1) {
        r->rows++;
        r->bytes += row.key.len + row.value_len;
    }
    if (r->result == 0)
        r->result = entry_find(c, bytes_of("nobody's"), &row, NULL);
    entry_cursor_close(c);
    return NULL;
}

START_TEST(threads_read_one_file_side_by_side)
{
    struct samples s = random_samples(500, 20000, 4);
    struct reader readers[4];

    struct entry_file *f = file_of_samples(&s, BLOCK_SIZE_MIN);
    for (unsigned i = 0; i < ARRAY_SIZE(readers); i++) {
        readers[i] = (struct reader){ .file = f, .order = (enum entry_order)(i % 2) };
        ck_assert_int_eq(pthread_create(&readers[i].thread, NULL, read_all, &readers[i]), 0);
    }
    for (unsigned i = 0; i < ARRAY_SIZE(readers); i++) {
        pthread_join(readers[i].thread, NULL);
        ck_assert_int_eq(readers[i].result, 0);
        ck_assert_uint_eq(readers[i].rows, s.n);
        ck_assert_uint_eq(readers[i].bytes, entry_file_footer(f)->raw_bytes);
    }
    entry_file_close(f);
    free(s.rows);
}
END_TEST

/* ---- for ever ------------------------------------------------------------------------------------------ */

/* tests/fuzz/seeds.c wrote it: row i < 40 has key "key i" unless 3 divides i, value "value i", time -1000 i. */
static void check_golden_row(const struct row *row)
{
    char text[32];
    int64_t i = (int64_t)row->number;

    ck_assert_int_eq(row->time_us, i * -1000);
    ck_assert_uint_eq(row->flags, i % 3 ? ROW_KEYED : 0);
    snprintf(text, sizeof text, "key %d", (int)i);
    ck_assert(bytes_equal(row->key, bytes_of(i % 3 ? text : "")));
    snprintf(text, sizeof text, "value %d", (int)i);
    ck_assert(bytes_equal((struct bytes){ row->value, row->value_len }, bytes_of(text)));
}

static void check_golden_large_row(const struct row *row)
{
    ck_assert(bytes_equal(row->key, bytes_of("large")) && row->time_us == INT64_MAX);
    ck_assert_uint_eq(row->value_len, 10000);
    for (int i = 0; i < 10000; i++)
        ALWAYS(row->value[i] == 'x');
}

START_TEST(a_file_of_version_1_opens_and_answers)
{
    struct errmsg msg = { "" };
    struct entry_file *f;
    struct row row;
    int fd = open("tests/data/golden/v1.rows", O_RDONLY | O_CLOEXEC);

    ck_assert_msg(fd >= 0,
                  "tests/data/golden/v1.rows isn't here: run the suites in the repository's top folder");
    ck_assert_msg(entry_file_open(&f, fd, "v1.rows", NULL, &msg) == 0, "%s", msg.text);
    ck_assert_msg(entry_file_verify(f, &msg) == 0, "%s", msg.text);
    ck_assert_uint_eq(entry_file_footer(f)->rows, 41);
    struct entry_cursor *c = cursor_of(f, NEWEST_FIRST);
    ck_assert_int_eq(entry_next(c, &row, &msg), 1);
    check_golden_large_row(&row);
    for (uint64_t i = 40; i-- > 0;) {
        ck_assert_int_eq(entry_next(c, &row, &msg), 1);
        ck_assert_uint_eq(row.number, i);
        check_golden_row(&row);
    }
    ck_assert_int_eq(entry_next(c, &row, &msg), 0);
    ck_assert_int_eq(entry_find(c, bytes_of("key 7"), &row, &msg), 1);
    check_golden_row(&row);
    ck_assert_int_eq(entry_find(c, bytes_of("large"), &row, &msg), 1);
    check_golden_large_row(&row);
    ck_assert_int_eq(entry_find(c, bytes_of("key 9"), &row, &msg), 0);
    entry_cursor_close(c);
    entry_file_close(f);
}
END_TEST

/* ---- damage -------------------------------------------------------------------------------------------- */

/* A small file with a row of each kind: several blocks, a large row. */
static uint8_t *small_file(struct samples *ret, size_t *size)
{
    static struct sample rows[] = { { ROW_KEYED, 3, 5, 100, 1, false },
                                    { 0, 0, 0, -5, 2, false },
                                    { ROW_KEYED, 5, 3 * BLOCK_SIZE_MIN, 7, 3, true },
                                    { ROW_KEYED, 0, 9, INT64_MAX, 4, false },
                                    { 0, 0, 40, INT64_MIN, 5, false } };
    struct manifest_file sum;

    *ret = (struct samples){ rows, ARRAY_SIZE(rows) };
    int fd = write_samples(ret, BLOCK_SIZE_MIN, &sum);
    uint8_t *data = bytes_in(fd, size);
    close(fd);
    return data;
}

/* Are the rows those of S up to the first error?  Returns it, or 0. */
static int read_rows(struct entry_file *f, const struct samples *s, enum entry_order order,
                     struct errmsg *msg)
{
    struct entry_cursor *c;
    struct row row;
    char key[ENTRY_KEY_MAX + 8];
    uint64_t i = 0;

    int r = entry_cursor_open(&c, f, order, 0, msg);
    if (r < 0)
        return r;
    while ((r = entry_next(c, &row, msg)) == 1) {
        ALWAYS(i < s->n);
        const struct sample *want = &s->rows[order == OLDEST_FIRST ? i : s->n - 1 - i];
        char *value = value_of(want);
        ALWAYS(row.flags == want->flags && row.time_us == want->time_us && row.value_len == want->value_len);
        ALWAYS(!row.flags || bytes_equal(row.key, key_of(want, key)));
        ALWAYS(memcmp(row.value, value, row.value_len) == 0);
        free(value);
        i++;
    }
    ALWAYS(r < 0 || i == s->n);
    entry_cursor_close(c);
    return r;
}

static int read_damaged(const uint8_t *data, size_t size, const struct samples *s)
{
    struct errmsg msg = { "" };
    struct entry_file *f;

    int r = entry_file_open(&f, file_of(data, size), NAME, NULL, &msg);
    if (r < 0) {
        ALWAYS(strstr(msg.text, NAME) != NULL);
        return r;
    }
    r = entry_file_verify(f, &msg);
    ALWAYS(r == 0 || strstr(msg.text, NAME) != NULL);
    read_rows(f, s, OLDEST_FIRST, &msg);
    read_rows(f, s, NEWEST_FIRST, &msg);
    entry_file_close(f);
    return r;
}

START_TEST(every_flipped_bit_is_noticed_and_rows_before_it_are_right)
{
    struct samples s;
    size_t size;
    uint8_t *data = small_file(&s, &size);

    ck_assert_int_eq(read_damaged(data, size, &s), 0);
    for (size_t i = 0; i < size * 8; i++) {
        data[i / 8] ^= (uint8_t)(1u << i % 8);
        int r = read_damaged(data, size, &s);
        ck_assert_msg(r < 0, "bit %zu of byte %zu", i % 8, i / 8);
        data[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    free(data);
}
END_TEST

START_TEST(every_truncation_is_refused)
{
    struct samples s;
    size_t size;
    uint8_t *data = small_file(&s, &size);

    for (size_t n = 0; n < size; n++) {
        struct entry_file *f;
        ALWAYS(entry_file_open(&f, file_of(data, n), NAME, NULL, NULL) < 0);
    }
    free(data);
}
END_TEST

static struct block_ref ref_in(const uint8_t *data, size_t size, size_t block)
{
    struct entry_footer footer;
    struct block_ref ref;

    memcpy(&footer, data + size - sizeof footer, sizeof footer);
    ck_assert_uint_lt(block, footer.blocks.count);
    memcpy(&ref, data + footer.blocks.off + block * sizeof ref, sizeof ref);
    return ref;
}

START_TEST(rows_before_a_damaged_block_are_given_and_the_error_stays)
{
    struct samples s;
    struct errmsg msg = { "" };
    struct row row;
    size_t size;
    uint8_t *data = small_file(&s, &size);

    struct block_ref ref = ref_in(data, size, 2); /* the large row's second block */
    ck_assert_uint_eq(ref.flags, BLOCK_GOES_ON | BLOCK_MORE);
    data[ref.off + ref.len / 2] ^= 1;
    struct entry_file *f = open_rows(file_of(data, size));
    struct entry_cursor *c = cursor_of(f, NEWEST_FIRST);
    ck_assert_int_eq(entry_next(c, &row, &msg), 1);
    ck_assert_int_eq(entry_next(c, &row, &msg), 1);
    ck_assert_int_eq(entry_next(c, &row, &msg), SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(msg.text, NAME));
    ck_assert_int_eq(entry_next(c, &row, &msg), SKADE_EDAMAGED);
    ck_assert_msg(entry_seek_number(c, 1, &msg) == 0, "%s", msg.text);
    ck_assert_int_eq(entry_next(c, &row, &msg), 1);
    ck_assert_uint_eq(row.number, 1);
    entry_cursor_close(c);
    entry_file_close(f);
    free(data);
}
END_TEST

/* ---- files that no writer of ours would write, with right checksums ------------------------------------- */

/* A file that consists of BLOCKS, with what its writer says about them. */
struct forged {
    uint8_t frames[64 << 10];
    size_t frames_len;
    struct block_ref refs[8];
    size_t blocks;
    struct entry_footer footer;
};

/* Add a block: FRAME as it is, whatever is in it. */
static struct block_ref *forge_frame(struct forged *g, const void *frame, size_t len, uint32_t raw_len,
                                     uint32_t rows)
{
    struct block_ref *ref = &g->refs[g->blocks];

    *ref = (struct block_ref){ .off = sizeof(struct entry_header) + g->frames_len,
                               .len = (uint32_t)len,
                               .raw_len = raw_len,
                               .first_row = g->footer.rows,
                               .rows = rows };
    ref->check = checksum(frame, len, entry_seed(&own_uuid, ref->off));
    memcpy(g->frames + g->frames_len, frame, len);
    g->frames_len += len;
    g->footer.rows += rows;
    g->blocks++;
    return ref;
}

static struct block_ref *forge_block(struct forged *g, const void *raw, size_t len, uint32_t rows)
{
    uint8_t frame[8192];
    size_t n = ZSTD_compress(frame, sizeof frame, raw, len, 1);

    ck_assert(!ZSTD_isError(n));
    return forge_frame(g, frame, n, (uint32_t)len, rows);
}

static int forged_file(const struct forged *g)
{
    struct entry_footer footer = g->footer;
    struct entry_header h = { .magic = FORMAT_MAGIC_ROWS,
                              .major = FORMAT_MAJOR,
                              .header_len = sizeof h,
                              .log = log_uuid,
                              .uuid = own_uuid,
                              .table = TABLE,
                              .align = ENTRY_ALIGN,
                              .part = 1 };
    struct sealing s;
    int fd = empty_file();

    h.check = checksum(&h, offsetof(struct entry_header, check), 0);
    ck_assert_int_eq(sealing_open(&s, fd, 1 << 20, temp_dir(), NULL), 0);
    ck_assert_int_eq(sealing_put(&s, &h, sizeof h, NULL), 0);
    ck_assert_int_eq(sealing_put(&s, g->frames, g->frames_len, NULL), 0);
    ck_assert_int_eq(sealing_map_begin(&s, &footer, &footer.blocks, NULL), 0);
    ck_assert_int_eq(sealing_put(&s, g->refs, g->blocks * sizeof g->refs[0], NULL), 0);
    ck_assert_int_eq(sealing_map_end(&s, &footer, &footer.blocks, g->blocks, NULL), 0);
    ck_assert_int_eq(sealing_end(&s, &footer, h.check, NULL), 0);
    sealing_fini(&s);
    return fd;
}

/* What comes of reading it to its end in ORDER; *ROWS: so many came before. */
static int read_forged(const struct forged *g, enum entry_order order, uint64_t *rows, struct errmsg *msg)
{
    struct entry_file *f;
    struct entry_cursor *c;
    struct row row;

    *rows = 0;
    int r = entry_file_open(&f, forged_file(g), NAME, NULL, msg);
    if (r < 0)
        return r;
    c = cursor_of(f, order);
    while ((r = entry_next(c, &row, msg)) == 1 && (r = entry_value_check(c, msg)) == 0)
        ++*rows;
    entry_cursor_close(c);
    entry_file_close(f);
    return r;
}

/* It is refused in both orders,. */
static void refused(const struct forged *g, const char *what)
{
    struct errmsg msg = { "" };
    uint64_t rows;

    for (enum entry_order order = OLDEST_FIRST; order <= NEWEST_FIRST; order++) {
        int r = read_forged(g, order, &rows, &msg);
        ck_assert_msg(r == SKADE_EDAMAGED, "%s: %d", what, r);
        ck_assert_ptr_nonnull(strstr(msg.text, NAME));
    }
}

static void accepted(const struct forged *g, uint64_t want)
{
    struct errmsg msg = { "" };
    uint64_t rows;

    for (enum entry_order order = OLDEST_FIRST; order <= NEWEST_FIRST; order++) {
        ck_assert_msg(read_forged(g, order, &rows, &msg) == 0, "%s", msg.text);
        ck_assert_uint_eq(rows, want);
    }
}

#define ROW_A "\0\3\0abc" /* no key, 3 bytes, the same time */
#define ROW_A_LEN 6u

START_TEST(a_frame_that_gives_more_or_less_than_its_ref_says_is_refused)
{
    uint8_t raw[1 << 12], frame[8192];
    static const uint8_t one[] = ROW_A;

    memset(raw, 0, sizeof raw); /* rows without anything: 0 0 0 */
    size_t len = ZSTD_compress(frame, sizeof frame, raw, 4095, 1);
    struct forged good = { .blocks = 0 };
    forge_frame(&good, frame, len, 4095, 4095 / 3);
    accepted(&good, 4095 / 3);
    for (uint32_t claim = 3; claim < 3 * 4095; claim += 3) {
        struct forged g = { .blocks = 0 };
        forge_frame(&g, frame, len, claim, claim / 3);
        if (claim != 4095)
            refused(&g, "another size");
    }
    struct forged g = { .blocks = 0 };
    forge_block(&g, one, ROW_A_LEN, 1);
    accepted(&g, 1);
    g.refs[0].raw_len = UINT32_MAX;
    refused(&g, "a raw length of 4 GiB");
    g.refs[0].raw_len = BLOCK_RAW_MAX + 1;
    refused(&g, "a block larger than blocks are");
    g.refs[0].raw_len = 0;
    refused(&g, "a block of nothing");
}
END_TEST

/* A megabyte of zeros in a few bytes, whose frame doesn't say how many. */
static size_t frame_without_size(uint8_t *frame, size_t cap, size_t raw_len)
{
    ZSTD_CCtx *z = ZSTD_createCCtx();
    void *zeros = calloc(1, raw_len);

    ZSTD_CCtx_setParameter(z, ZSTD_c_contentSizeFlag, 0);
    size_t n = ZSTD_compress2(z, frame, cap, zeros, raw_len);
    ck_assert(!ZSTD_isError(n));
    free(zeros);
    ZSTD_freeCCtx(z);
    return n;
}

START_TEST(a_decompression_bomb_is_refused)
{
    uint8_t frame[16384], lying[16384];
    static const uint32_t claims[] = { 3, 30, 4095, 1 << 20, (1 << 20) + 3, 3 << 20 };

    size_t len = frame_without_size(frame, sizeof frame, 1 << 20);
    for (size_t i = 0; i < ARRAY_SIZE(claims); i++) {
        struct forged g = { .blocks = 0 };
        forge_frame(&g, frame, len, claims[i], claims[i] / 3);
        refused(&g, "a frame without a size");
    }
    /* The frame says 30, and gives a megabyte.  Its size are 4 bytes behind magic, descriptor and, perhaps, window. */
    uint8_t *zeros = calloc(1, 1 << 20);
    len = ZSTD_compress(lying, sizeof lying, zeros, 1 << 20, 1);
    free(zeros);
    ck_assert_uint_eq(lying[4] >> 6, 2);
    size_t at = lying[4] & 0x20 ? 5 : 6;
    for (size_t i = 0; i < ARRAY_SIZE(claims); i++) {
        struct forged g = { .blocks = 0 };
        memcpy(lying + at, &claims[i], 4);
        forge_frame(&g, lying, len, claims[i], claims[i] / 3);
        if (claims[i] != 1 << 20)
            refused(&g, "a frame that lies about its size");
    }
}
END_TEST

START_TEST(a_window_larger_than_the_block_is_refused)
{
    /* Magic, a size of 4 bytes and a window, the window, the size, one last block of 6 raw bytes. */
    static const uint8_t plain[] = "\x28\xb5\x2f\xfd\x20\x06\x31\0\0" ROW_A;
    static const uint8_t window[] = "\x28\xb5\x2f\xfd\x80\0\x06\0\0\0\x31\0\0" ROW_A;
    struct forged g = { .blocks = 0 };

    forge_frame(&g, plain, sizeof plain - 1, ROW_A_LEN, 1);
    accepted(&g, 1);
    for (unsigned log = 10; log <= 41; log++) {
        uint8_t frame[sizeof window - 1];
        memcpy(frame, window, sizeof frame);
        frame[5] = (uint8_t)(log - 10) << 3;
        g = (struct forged){ .blocks = 0 };
        forge_frame(&g, frame, sizeof frame, ROW_A_LEN, 1);
        refused(&g, "a window of more than the row");
    }
}
END_TEST

START_TEST(what_is_not_exactly_one_frame_is_refused)
{
    static const uint8_t skippable[] = { 0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4 };
    static const uint8_t row[] = ROW_A ROW_A;
    uint8_t frame[300];
    struct forged g = { .blocks = 0 };

    size_t half = ZSTD_compress(frame, sizeof frame, row, ROW_A_LEN, 1);
    size_t two = half + ZSTD_compress(frame + half, sizeof frame - half, row, ROW_A_LEN, 1);
    forge_frame(&g, frame, two, 2 * ROW_A_LEN, 2);
    refused(&g, "two frames");
    g = (struct forged){ .blocks = 0 };
    forge_frame(&g, frame, half + 1, ROW_A_LEN, 1);
    refused(&g, "a byte behind the frame");
    g = (struct forged){ .blocks = 0 };
    forge_frame(&g, frame, half - 1, ROW_A_LEN, 1);
    refused(&g, "a cut frame");
    g = (struct forged){ .blocks = 0 };
    forge_frame(&g, skippable, sizeof skippable, ROW_A_LEN, 1);
    refused(&g, "a frame that is skipped");
    g = (struct forged){ .blocks = 0 };
    memmove(frame + sizeof skippable, frame, half);
    memcpy(frame, skippable, sizeof skippable);
    forge_frame(&g, frame, sizeof skippable + half, ROW_A_LEN, 1);
    refused(&g, "a frame that is skipped, then one");
    g = (struct forged){ .blocks = 0 };
    forge_frame(&g, row, sizeof row, ROW_A_LEN, 1);
    refused(&g, "no frame");
}
END_TEST

/* RAW as the only block. */
static struct forged block_of(const char *raw, size_t len, uint32_t rows)
{
    struct forged g = { .blocks = 0 };
    forge_block(&g, raw, len, rows);
    return g;
}
#define BLOCK(text, rows) block_of(text, sizeof text - 1, rows)

START_TEST(rows_that_contradict_their_block_are_refused)
{
    static const struct {
        const char *what, *raw;
        size_t len;
        uint32_t rows;
    } cases[] = {
#define CASE(text, rows, what) { what, text, sizeof text - 1, rows }
        CASE(ROW_A ROW_A, 1, "a row more than the ref says"),
        CASE(ROW_A ROW_A, 3, "a row less than the ref says"),
        CASE(ROW_A ROW_A, 0, "no row"),
        CASE(ROW_A ROW_A, 5, "more rows than bytes can be"),
        CASE(ROW_A ROW_A, UINT32_MAX, "2^32 - 1 rows"),
        CASE(ROW_A "\0", 1, "a byte behind the rows"),
        CASE("\0\4\0abc", 1, "a value that is cut"),
        CASE("\0\2\0abc", 1, "a value that is shorter"),
        CASE("\5\0\0abc", 1, "a key that is cut"),
        CASE("\xff\xff\xff\0\0abc", 1, "a key longer than keys are"),
        CASE("\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\0abc", 1, "a value of 2^64 - 1 bytes"),
        CASE("\0\3\xff\xff\xff\xff\xff\xff\xff\xff\xff\2abc", 1, "a time of more than 64 bits"),
        CASE("\0\3\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\0abc", 1, "a number of eleven bytes"),
        CASE("\0\0\x80", 1, "a number that is cut"),
        CASE("\0\3\2abc", 1, "a time outside of the file's"),
    };

    struct forged g = BLOCK(ROW_A ROW_A, 2);
    accepted(&g, 2);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        g = block_of(cases[i].raw, cases[i].len, cases[i].rows);
        refused(&g, cases[i].what);
    }
}
END_TEST

/* A row, a large row of three blocks, a row. */
static struct forged good_blocks(void)
{
    struct forged g = { .blocks = 0 };

    forge_block(&g, ROW_A, ROW_A_LEN, 1);
    forge_block(&g, "\0\11\0abc", 6, 1)->flags = BLOCK_GOES_ON;
    forge_block(&g, "def", 3, 0)->flags = BLOCK_GOES_ON | BLOCK_MORE;
    forge_block(&g, "ghi", 3, 0)->flags = BLOCK_MORE;
    forge_block(&g, ROW_A, ROW_A_LEN, 1);
    return g;
}

START_TEST(refs_that_contradict_each_other_are_refused)
{
    struct forged g = good_blocks();

    accepted(&g, 3);
#define SPOILT(statement)        \
    do {                         \
        g = good_blocks();       \
        statement;               \
        refused(&g, #statement); \
    } while (0)
    SPOILT(g.refs[0].off++);
    SPOILT(g.refs[4].off = UINT64_MAX);
    SPOILT(g.refs[4].len++);
    SPOILT(g.refs[4].len--);
    SPOILT(g.refs[0].len = 0);
    SPOILT(g.refs[0].len = UINT32_MAX);
    SPOILT(g.refs[1].first_row = 0);
    SPOILT(g.refs[4].first_row = UINT64_MAX);
    SPOILT(g.refs[2].first_row = 1);
    SPOILT(g.refs[0].flags = 4);
    SPOILT(g.refs[0].flags = BLOCK_MORE);
    SPOILT(g.refs[0].flags = BLOCK_GOES_ON);
    SPOILT(g.refs[1].flags = 0);
    SPOILT(g.refs[1].rows = 2);
    SPOILT(g.refs[1].rows = 0);
    SPOILT(g.refs[2].rows = 1);
    SPOILT(g.refs[2].flags = BLOCK_MORE);
    SPOILT(g.refs[2].flags = 0);
    SPOILT(g.refs[3].flags |= BLOCK_GOES_ON);
    SPOILT(g.refs[3].flags = 0);
    SPOILT(g.refs[4].flags = BLOCK_GOES_ON);
    SPOILT(g.refs[4].flags = BLOCK_MORE);
    SPOILT(g.footer.rows++);
    SPOILT(g.footer.rows--);
    SPOILT(g.footer.rows = 0);
    SPOILT(g.blocks--);
    SPOILT(g.blocks = 0);
    SPOILT(g.footer.deletes = 1);
    SPOILT(g.footer.last = 128);
    SPOILT(g.footer.time_min = 1);
    SPOILT(g.frames_len++);
}
END_TEST

START_TEST(a_large_row_that_has_not_the_bytes_that_it_says_is_refused)
{
    static const char *const heads[] = { "\0\6\0abc", "\0\10\0abc", "\0\12\0abc",
                                         "\0\3\0abc", "\0\2\0abc",  "\0\0\0abc" };

    for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
        struct forged g = { .blocks = 0 };
        forge_block(&g, heads[i], 6, 1)->flags = BLOCK_GOES_ON;
        forge_block(&g, "def", 3, 0)->flags = BLOCK_GOES_ON | BLOCK_MORE;
        forge_block(&g, "ghi", 3, 0)->flags = BLOCK_MORE;
        refused(&g, "a large row of another length");
    }
}
END_TEST

/* ---- places in an index that lead nowhere --------------------------------------------------------------- */

START_TEST(places_where_no_row_begins_are_refused)
{
    static const uint64_t places[] = { 2, 3, 5, 6, UINT64_MAX };
    struct forged g = good_blocks();
    struct errmsg msg = { "" };
    struct row row;

    struct entry_file *f = open_rows(forged_file(&g));
    struct entry_cursor *c = cursor_of(f, OLDEST_FIRST);
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        ck_assert_int_eq(entry_seek_place(c, places[i], &msg), SKADE_EDAMAGED);
        ck_assert_ptr_nonnull(strstr(msg.text, NAME));
    }
    ck_assert_int_eq(entry_seek_place(c, 1, &msg), 0);
    ck_assert_int_eq(entry_next(c, &row, &msg), 1);
    ck_assert(row.number == 1 && row.place == 1 && row.value_len == 9);
    ck_assert_mem_eq(row.value, "abcdefghi", 9);
    ck_assert_int_eq(entry_next(c, &row, &msg), 1);
    ck_assert(row.number == 2 && row.place == 4);
    entry_cursor_close(c);
    entry_file_close(f);
}
END_TEST

/* ---- the writer's own limits and faults ---------------------------------------------------------------- */

START_TEST(a_key_or_value_beyond_the_limits_is_refused_and_so_is_all_that_follows)
{
    static const char key[ENTRY_KEY_MAX + 1];
    struct manifest_file sum;
    struct errmsg msg = { "" };

    for (int i = 0; i < 2; i++) {
        int fd = empty_file();
        struct rows_writer *w = writer_of(fd, 0);
        ck_assert_int_eq(rows_put(w, ROW_KEYED, (struct bytes){ key, sizeof key - 1 }, "v", 1, 0, &msg), 0);
        if (i == 0)
            ck_assert_int_eq(rows_put(w, ROW_KEYED, (struct bytes){ key, sizeof key }, "v", 1, 0, &msg),
                             SKADE_EINPUT);
        else
            ck_assert_int_eq(rows_put(w, 0, bytes_of(""), NULL, ENTRY_VALUE_MAX + 1, 0, &msg), SKADE_EINPUT);
        ck_assert_str_ne(msg.text, "");
        ck_assert_int_eq(rows_put(w, 0, bytes_of(""), "v", 1, 0, &msg), SKADE_EINPUT);
        ck_assert_int_eq(rows_writer_seal(w, &sum, &msg), SKADE_EINPUT);
        rows_writer_close(w);
        close(fd);
    }
    rows_writer_close(NULL);
}
END_TEST

START_TEST(a_full_device_is_full)
{
    struct samples s = random_samples(3000, 1000, 5);
    struct manifest_file sum;
    struct errmsg msg = { "" };
    uint64_t random = 1;
    int fd = open("/dev/full", O_RDWR | O_CLOEXEC), r = 0;

    ck_assert_int_ge(fd, 0);
    struct rows_writer *w = writer_of(fd, 0);
    for (size_t i = 0; i < s.n && r == 0; i++)
        r = put_sample(w, &s.rows[i], false, &random, &msg);
    if (r == 0)
        r = rows_writer_seal(w, &sum, &msg);
    ck_assert_int_eq(r, SKADE_EFULL);
    ck_assert_str_ne(msg.text, "");
    rows_writer_close(w);
    close(fd);
    free(s.rows);
}
END_TEST

/* What writing a file gives when the fail point NAME says WHAT. */
static int write_with(const char *name, const char *what)
{
    static const char value[3 * BLOCK_SIZE_MIN];
    struct manifest_file sum;
    struct errmsg msg = { "" };
    const char *dir = tempdir();
    char path[300];
    int fd = empty_file();

    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    ck_assert_ptr_nonnull(f);
    fputs(what, f);
    fclose(f);
    setenv("SKADE_FAILPOINT_DIR", dir, 1);
    struct rows_writer *w = writer_of(fd, BLOCK_SIZE_MIN);
    int r = rows_put(w, ROW_KEYED, bytes_of("k"), NULL, 2 * sizeof value, 1, &msg);
    for (int i = 0; i < 2 && r == 0; i++)
        r = rows_piece(w, value, sizeof value, &msg);
    if (r == 0)
        r = rows_writer_seal(w, &sum, &msg);
    unsetenv("SKADE_FAILPOINT_DIR");
    if (r < 0) { /* and so it stays, also in the middle of a value */
        ck_assert_str_ne(msg.text, "");
        ck_assert_int_eq(rows_put(w, 0, bytes_of(""), value, 1, 1, &msg), r);
        ck_assert_int_eq(rows_piece(w, value, 1, &msg), r);
        ck_assert_int_eq(rows_writer_seal(w, &sum, &msg), r);
    }
    rows_writer_close(w);
    close(fd);
    return r;
}

START_TEST(a_failing_disk_is_an_error_at_every_step)
{
#ifdef SKADE_FAILPOINTS
    ck_assert_int_eq(write_with("rows.write", "fail 5"), -EIO);
    ck_assert_int_eq(write_with("rows.write", "count 1 fail 28"), SKADE_EFULL);
    ck_assert_int_eq(write_with("rows.write", "count 6 fail 28"), SKADE_EFULL); /* the last block */
    ck_assert_int_eq(write_with("rows.write", "count 100 fail 28"), 0);
    ck_assert_int_eq(write_with("rows.fsync", "fail 5"), -EIO);
#else
    (void)write_with;
    printf("skipped: this build has no fail points\n");
#endif
}
END_TEST

Suite *rows_file_suite(void);
Suite *rows_file_suite(void)
{
    Suite *s = suite_create("rows_file");
    TCase *c = tcase_create("rows");

    tcase_set_timeout(c, 120);
    tcase_add_test(c, random_rows_come_back_in_both_orders);
    tcase_add_test(c, values_of_ten_megabytes_come_back_in_both_orders);
    tcase_add_test(c, rows_of_every_size_around_a_block_come_back);
    tcase_add_test(c, a_key_larger_than_a_block_comes_back);
    tcase_add_test(c, extreme_times_come_back_as_they_were);
    tcase_add_test(c, a_file_without_rows_is_a_file);
    tcase_add_test(c, the_sum_that_goes_into_a_manifest_is_that_of_the_rows);
    tcase_add_test(c, more_blocks_than_memory_keeps_are_written_and_read);
    tcase_add_test(c, every_row_is_found_by_its_number);
    tcase_add_test(c, the_index_finds_every_key_and_no_other);
    tcase_add_test(c, colliding_keys_are_two_keys);
    tcase_add_test(c, threads_read_one_file_side_by_side);
    tcase_add_test(c, a_file_of_version_1_opens_and_answers);
    suite_add_tcase(s, c);
    c = tcase_create("damage");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, every_flipped_bit_is_noticed_and_rows_before_it_are_right);
    tcase_add_test(c, every_truncation_is_refused);
    tcase_add_test(c, rows_before_a_damaged_block_are_given_and_the_error_stays);
    tcase_add_test(c, a_frame_that_gives_more_or_less_than_its_ref_says_is_refused);
    tcase_add_test(c, a_decompression_bomb_is_refused);
    tcase_add_test(c, a_window_larger_than_the_block_is_refused);
    tcase_add_test(c, what_is_not_exactly_one_frame_is_refused);
    tcase_add_test(c, rows_that_contradict_their_block_are_refused);
    tcase_add_test(c, refs_that_contradict_each_other_are_refused);
    tcase_add_test(c, a_large_row_that_has_not_the_bytes_that_it_says_is_refused);
    tcase_add_test(c, places_where_no_row_begins_are_refused);
    suite_add_tcase(s, c);
    c = tcase_create("writer");
    tcase_add_test(c, a_key_or_value_beyond_the_limits_is_refused_and_so_is_all_that_follows);
    tcase_add_test(c, a_full_device_is_full);
    tcase_add_test(c, a_failing_disk_is_an_error_at_every_step);
    suite_add_tcase(s, c);
    return s;
}
