/*
 * tools/store_file.c: stores that the engine wrote, and small ones made here in each layout, whole and damaged.
 */
#include <check.h>

#include "drive_keys.h"
#include "skade_errors.h"
#include "store_file.h"
#include "tempdir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static struct drive_problem why;
static char path[PATH_MAX];

static void setup(void)
{
    snprintf(path, sizeof path, "%s/store.bin", tempdir());
    memset(&why, 0, sizeof why);
}

static void write_file(const uint8_t *data, size_t len)
{
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, len, f), len);
    ck_assert_int_eq(fclose(f), 0);
}

/* ---- stores made here ---- */

#define ENTRIES_MAX 64

struct made_entry {
    uint64_t hash;
    size_t payload, len, end; /* len 0: a deletion */
};

struct made {
    enum drive_layout layout;
    uint8_t *bytes;
    size_t len;
    struct made_entry entries[ENTRIES_MAX];
    size_t count;
};

static const unsigned alignments[DRIVE_LAYOUTS] = { 64, 16, 1 };

static void add_bytes(struct made *m, const void *data, size_t len)
{
    m->bytes = realloc(m->bytes, m->len + len + 1);
    ck_assert_ptr_nonnull(m->bytes);
    memcpy(m->bytes + m->len, data, len);
    m->len += len;
}

static void add_trailer(struct made *m, uint64_t hash, uint64_t prev, uint32_t crc)
{
    uint8_t t[20];

    for (int i = 0; i < 8; i++) {
        t[i] = (uint8_t)(hash >> 8 * i);
        t[8 + i] = (uint8_t)(prev >> 8 * i);
    }
    for (int i = 0; i < 4; i++)
        t[16 + i] = (uint8_t)(crc >> 8 * i);
    add_bytes(m, t, sizeof t);
}

static void add_entry(struct made *m, uint64_t hash, const void *data, size_t len, unsigned alignment,
                      bool is_delete)
{
    static const uint8_t zeros[64];
    size_t prev = m->len, padding = -prev & (alignment - 1);

    ck_assert_uint_lt(m->count, ENTRIES_MAX);
    add_bytes(m, zeros, padding);
    size_t payload = m->len;
    add_bytes(m, data, len);
    add_trailer(m, hash, prev, (uint32_t)crc32(0, data, (uInt)len));
    m->entries[m->count++] = (struct made_entry){ hash, payload, is_delete ? 0 : len, m->len };
}

static void put(struct made *m, uint64_t hash, const void *data, size_t len)
{
    add_entry(m, hash, data, len, alignments[m->layout], false);
}

static void put_text(struct made *m, uint64_t hash, const char *text)
{
    put(m, hash, text, strlen(text));
}

static void erase(struct made *m, uint64_t hash)
{
    add_entry(m, hash, "", 1, 1, true);
}

/* A deletion with the padding that values have. */
static void erase_padded(struct made *m, uint64_t hash)
{
    add_entry(m, hash, "", 1, alignments[m->layout], true);
}

/* Each kind of entry once. */
static struct made make_mixed(enum drive_layout layout)
{
    struct made m = { .layout = layout };

    put_text(&m, 0x1111111111111111, "the first value, which will be replaced");
    put(&m, 0x2222222222222222, "\0\0\0\0\0\0\0\0", 8);
    put_text(&m, 0x3333333333333333, "x");
    erase(&m, 0x2222222222222222);
    put_text(&m, 0x1111111111111111, "the second value");
    put_text(&m, 0, "a key whose hash is zero");
    erase(&m, 0x3333333333333333);
    erase(&m, 0x4444444444444444);
    put_text(&m, 0x2222222222222222,
             "back again, after its deletion, with a value that is longer than before");
    erase_padded(&m, 0x5555555555555555);
    put(&m, 0xffffffffffffffff, "\0\0\0 begins and ends with zeros \0\0\0\0", 36);
    return m;
}

static void free_made(struct made *m)
{
    free(m->bytes);
}

/* Is entry I of the first COUNT its key's newest, and a value? */
static bool is_live(const struct made *m, size_t i, size_t count)
{
    for (size_t j = i + 1; j < count; j++)
        if (m->entries[j].hash == m->entries[i].hash)
            return false;
    return m->entries[i].len != 0;
}

/* ---- reading and comparing ---- */

struct sink {
    uint8_t *data;
    size_t len;
};

static int take_piece(void *arg, const void *data, size_t len)
{
    struct sink *s = arg;

    memcpy(s->data + s->len, data, len);
    s->len += len;
    return 0;
}

/* The row's payload; the caller frees it. */
static uint8_t *payload_of(struct drive *d, const struct drive_row *row)
{
    struct sink s = { .data = malloc(row->len) };

    ck_assert_ptr_nonnull(s.data);
    ck_assert_msg(drive_read(d, row, take_piece, &s, &why) == 0, "%s", why.text);
    ck_assert_uint_eq(s.len, row->len);
    return s.data;
}

static void assert_row(struct drive *d, uint64_t i, const struct made *m, const struct made_entry *e)
{
    ck_assert_uint_lt(i, drive_row_count(d));
    struct drive_row row = drive_row(d, i);
    uint8_t *payload = payload_of(d, &row);

    ck_assert_uint_eq(row.key_hash, e->hash);
    ck_assert_uint_eq(row.len, e->len);
    ck_assert_mem_eq(payload, m->bytes + e->payload, e->len);
    free(payload);
}

/* The rows of D are those of the first COUNT entries of M. */
static void assert_rows(struct drive *d, const struct made *m, size_t count)
{
    uint64_t rows = 0;

    ck_assert_uint_eq(drive_entry_count(d), count);
    for (size_t i = 0; i < count; i++)
        if (is_live(m, i, count))
            assert_row(d, rows++, m, &m->entries[i]);
    ck_assert_uint_eq(drive_row_count(d), rows);
}

static void assert_opens(const struct made *m, enum drive_layout layout, size_t count)
{
    struct drive *d = NULL;

    ck_assert_msg(drive_open(&d, path, layout, &why) == 0, "%s", why.text);
    assert_rows(d, m, count);
    drive_close(d);
}

static void assert_refused(enum drive_layout layout, int code, const char *reason)
{
    struct drive *d = NULL;

    ck_assert_int_eq(drive_open(&d, path, layout, &why), code);
    ck_assert_ptr_null(d);
    ck_assert_msg(strstr(why.text, reason) != NULL, "no \"%s\" in: %s", reason, why.text);
}

START_TEST(a_store_of_each_layout_gives_its_live_rows_oldest_first)
{
    struct made m = make_mixed((enum drive_layout)_i);

    write_file(m.bytes, m.len);
    assert_opens(&m, DRIVE_ANY, m.count);
    assert_opens(&m, m.layout, m.count);
    free_made(&m);
}
END_TEST

START_TEST(a_layout_that_is_given_and_does_not_hold_is_refused)
{
    struct made m = make_mixed((enum drive_layout)_i);

    write_file(m.bytes, m.len);
    for (int other = 0; other < DRIVE_LAYOUTS; other++)
        if (other != _i) {
            char name[32];
            snprintf(name, sizeof name, "(layout %s)", drive_layout_names[other]);
            assert_refused((enum drive_layout)other, SKADE_EDAMAGED, name);
        }
    free_made(&m);
}
END_TEST

START_TEST(a_store_that_fits_every_layout_is_read_in_the_one_that_is_named)
{
    struct made m = { .layout = DRIVE_64 };
    char value[44];

    /* 44 and 20 bytes are 64: there is never any padding. */
    for (int i = 0; i < 9; i++) {
        memset(value, i % 3 ? i : 0, sizeof value);
        put(&m, (uint64_t)i % 5, value, sizeof value);
    }
    erase(&m, 1);
    write_file(m.bytes, m.len);
    for (int layout = 0; layout < DRIVE_LAYOUTS; layout++)
        assert_opens(&m, (enum drive_layout)layout, m.count);
    assert_refused(DRIVE_ANY, SKADE_EINPUT, "say which: --layout 64, --layout 16, --layout none");
    free_made(&m);
}
END_TEST

START_TEST(zero_bytes_before_a_payload_always_change_its_checksum)
{
    static const uint8_t zeros[63];

    /* A CRC's step is linear: if up to 63 zero bytes change the first state, they change what any payload makes of it.  So
     * two layouts that pad differently can't both hold. */
    for (unsigned n = 1; n <= sizeof zeros; n++)
        ck_assert_uint_ne(crc32(0, zeros, n), crc32(0, zeros, 0));
}
END_TEST

START_TEST(nothing_and_deletions_alone_are_stores_without_rows)
{
    struct made m = { .layout = DRIVE_64 };

    write_file((const uint8_t *)"", 0);
    assert_opens(&m, DRIVE_ANY, 0);
    put_text(&m, 7, "value");
    erase(&m, 7);
    erase(&m, 7);
    erase_padded(&m, 8);
    write_file(m.bytes, m.len);
    assert_opens(&m, DRIVE_ANY, m.count);
    free_made(&m);
}
END_TEST

/* ---- large payloads ---- */

/* Values around the size of a window and far above it, between small ones. */
static struct made make_large(enum drive_layout layout)
{
    static const size_t sizes[] = { 262144, 262143, 262124, 10, 262145, 700001, 20 };
    struct made m = { .layout = layout };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t *value = malloc(sizes[i]);
        for (size_t j = 0; j < sizes[i]; j++)
            value[j] = (uint8_t)(j * 31 + j / 251 + i);
        put(&m, i, value, sizes[i]);
        free(value);
    }
    return m;
}

START_TEST(values_larger_than_the_window_are_read_in_pieces)
{
    struct made m = make_large((enum drive_layout)_i);

    write_file(m.bytes, m.len);
    assert_opens(&m, DRIVE_ANY, m.count);
    m.bytes[m.entries[5].payload + 350000] ^= 1;
    write_file(m.bytes, m.len);
    char where[64];
    snprintf(where, sizeof where, "entry 6, key hash %016x", 5);
    assert_refused(DRIVE_ANY, SKADE_EDAMAGED, where);
    ck_assert_ptr_nonnull(strstr(why.text, "5 whole entries before and 1 behind"));
    m.bytes[m.entries[5].payload + 350000] ^= 1;
    write_file(m.bytes, m.len - 21);
    snprintf(where, sizeof where, "the first %zu bytes", m.entries[5].end);
    assert_refused(DRIVE_ANY, SKADE_EDAMAGED, where);
    free_made(&m);
}
END_TEST

/* ---- damage ---- */

/* How many of M's entries end at or before LEN. */
static size_t entries_within(const struct made *m, size_t len)
{
    size_t n = 0;

    while (n < m->count && m->entries[n].end <= len)
        n++;
    return n;
}

START_TEST(every_truncation_is_refused_unless_an_entry_ends_there)
{
    struct made m = make_mixed((enum drive_layout)_i);

    for (size_t len = 1; len < m.len; len++) {
        size_t whole = entries_within(&m, len), end = whole ? m.entries[whole - 1].end : 0;
        char said[64];
        write_file(m.bytes, len);
        /* A store says nowhere how long it is: one that ends with an entry is a store as it once was. */
        if (end == len) {
            assert_opens(&m, m.layout, whole);
            continue;
        }
        snprintf(said, sizeof said, "the first %zu bytes (", end);
        assert_refused(DRIVE_ANY, whole ? SKADE_EDAMAGED : SKADE_EFOREIGN, whole ? said : "no store");
    }
    free_made(&m);
}
END_TEST

/* Is byte AT of M one of a key hash? */
static bool in_key_hash(const struct made *m, size_t at)
{
    for (size_t i = 0; i < m->count; i++)
        if (at >= m->entries[i].end - 20 && at < m->entries[i].end - 12)
            return true;
    return false;
}

START_TEST(every_flipped_bit_is_refused_but_in_a_key_hash)
{
    struct made m = make_mixed((enum drive_layout)_i);

    for (size_t bit = 0; bit < m.len * 8; bit++) {
        struct drive *d = NULL;
        m.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        write_file(m.bytes, m.len);
        int r = drive_open(&d, path, DRIVE_ANY, &why);
        /* Nothing in the file protects the key hashes: such a store is as good as any. */
        ck_assert_msg(r == (in_key_hash(&m, bit / 8) ? 0 : SKADE_EDAMAGED), "bit %zu of byte %zu: %d, %s",
                      bit % 8, bit / 8, r, why.text);
        drive_close(d);
        m.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    free_made(&m);
}
END_TEST

START_TEST(a_tail_of_any_length_is_refused_and_what_is_before_it_is_named)
{
    struct made m = make_mixed((enum drive_layout)(_i / 2));
    size_t whole = m.len;
    char said[64];

    snprintf(said, sizeof said, "%zu whole entries before, which are the first %zu bytes", m.count, whole);
    for (size_t n = 1; n <= 300; n++) {
        add_bytes(&m, _i % 2 ? "\xff" : "\0", 1);
        write_file(m.bytes, m.len);
        assert_refused(DRIVE_ANY, SKADE_EDAMAGED, said);
        ck_assert_int_eq(strstr(why.text, "are zero") != NULL, _i % 2 == 0);
    }
    free_made(&m);
}
END_TEST

START_TEST(padding_that_is_not_zero_is_refused)
{
    struct made m = make_mixed(DRIVE_64);

    ck_assert_uint_gt(m.entries[4].payload, m.entries[3].end);
    m.bytes[m.entries[3].end] = 1;
    write_file(m.bytes, m.len);
    assert_refused(DRIVE_ANY, SKADE_EDAMAGED, "entry 5, key hash 1111111111111111");
    ck_assert_ptr_nonnull(strstr(why.text, "padding"));
    free_made(&m);
}
END_TEST

START_TEST(a_broken_link_names_the_bytes_between_what_is_whole)
{
    struct made m = make_mixed(DRIVE_64);
    char said[128];

    memset(m.bytes + m.entries[4].end - 12, 0xee, 8);
    write_file(m.bytes, m.len);
    snprintf(said, sizeof said,
             "the %zu bytes at offset %zu are no whole entry; 4 whole entries before and 6 behind",
             m.entries[4].end - m.entries[3].end, m.entries[3].end);
    assert_refused(DRIVE_ANY, SKADE_EDAMAGED, said);
    free_made(&m);
}
END_TEST

START_TEST(what_is_no_store_is_refused)
{
    static const uint8_t zeros[4096];

    write_file((const uint8_t *)"x", 1);
    assert_refused(DRIVE_ANY, SKADE_EFOREIGN, "no store");
    write_file(zeros, sizeof zeros);
    assert_refused(DRIVE_ANY, SKADE_EFOREIGN, "no store");
    write_file((const uint8_t *)"a text file that was never a store of anything\n", 47);
    assert_refused(DRIVE_ANY, SKADE_EFOREIGN, "ends where the file does, at 47");
}
END_TEST

START_TEST(what_is_no_regular_file_is_refused_and_not_waited_for)
{
    assert_refused(DRIVE_ANY, -ENOENT, "No such file");
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    assert_refused(DRIVE_ANY, SKADE_EFOREIGN, "no regular file");
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    assert_refused(DRIVE_ANY, SKADE_EFOREIGN, "no regular file");
}
END_TEST

/* ---- the source ---- */

START_TEST(the_source_is_not_changed_nor_its_times)
{
    const struct timespec times[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1100000000 } };
    struct made m = make_mixed(DRIVE_16);
    struct stat before, after;

    write_file(m.bytes, m.len - 3);
    ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    ck_assert_int_eq(chmod(path, 0400), 0);
    ck_assert_int_eq(stat(path, &before), 0);
    assert_refused(DRIVE_ANY, SKADE_EDAMAGED, "");
    ck_assert_int_eq(stat(path, &after), 0);
    ck_assert_int_eq(after.st_size, before.st_size);
    ck_assert_int_eq(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
    ck_assert_int_eq(after.st_atim.tv_sec, before.st_atim.tv_sec);
    ck_assert_int_eq(after.st_ctim.tv_nsec, before.st_ctim.tv_nsec);
    free_made(&m);
}
END_TEST

START_TEST(a_source_that_changes_while_it_is_read_is_noticed)
{
    struct made m = make_large(DRIVE_64);
    struct drive *d = NULL;
    uint8_t *room = malloc(m.len), other = 0;

    write_file(m.bytes, m.len);
    ck_assert_int_eq(drive_open(&d, path, DRIVE_ANY, &why), 0);
    struct drive_row row = drive_row(d, 5);
    int fd = open(path, O_WRONLY);
    ck_assert_int_eq(pwrite(fd, &other, 1, (off_t)row.offset), 1);
    struct sink s = { .data = room };
    ck_assert_int_eq(drive_read(d, &row, take_piece, &s, &why), SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(why.text, "changed"));
    ck_assert_int_eq(ftruncate(fd, (off_t)row.offset + 5), 0);
    s.len = 0;
    ck_assert_int_eq(drive_read(d, &row, take_piece, &s, &why), SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(why.text, "shorter"));
    close(fd);
    drive_close(d);
    free(room);
    free_made(&m);
}
END_TEST

static int refuse_piece(void *arg, const void *data, size_t len)
{
    (void)data, (void)len;
    ++*(int *)arg;
    return 42;
}

START_TEST(who_takes_the_pieces_may_end_it)
{
    struct made m = make_large(DRIVE_64);
    struct drive *d = NULL;
    int calls = 0;

    write_file(m.bytes, m.len);
    ck_assert_int_eq(drive_open(&d, path, DRIVE_ANY, &why), 0);
    struct drive_row row = drive_row(d, 5);
    ck_assert_int_eq(drive_read(d, &row, refuse_piece, &calls, &why), 42);
    ck_assert_int_eq(calls, 1);
    drive_close(d);
    free_made(&m);
}
END_TEST

/* ---- the set of key hashes ---- */

START_TEST(each_key_is_new_once)
{
    struct drive_keys keys = { 0 };

    for (int round = 1; round >= 0; round--)
        for (uint64_t i = 0; i < 50000; i++) {
            ck_assert_int_eq(drive_keys_add(&keys, i << 40), round);
            ck_assert_int_eq(drive_keys_add(&keys, ~i), round);
        }
    drive_keys_free(&keys);
}
END_TEST

/* ---- stores that the engine wrote ---- */

/* The folder of the engine's stores, or NULL and a reason on standard error. */
static const char *real_stores(void)
{
    static char folder[PATH_MAX];
    const char *dir = getenv("SKADE_TEST_DATA");

    snprintf(folder, sizeof folder, "%s/simd-r-drive", dir ? dir : "../shared/data");
    if (access(folder, R_OK | X_OK) == 0)
        return folder;
    fprintf(stderr, "skipped: no stores of simd-r-drive at %s (SKADE_TEST_DATA says where)\n", folder);
    return NULL;
}

static void assert_hex(const uint8_t *data, size_t len, const char *hex)
{
    for (size_t i = 0; i < len; i++) {
        unsigned byte;
        ck_assert_int_eq(sscanf(hex + 2 * i, "%2x", &byte), 1);
        ck_assert_uint_eq(data[i], byte);
    }
}

/* LINE is what the engine's iterator gave for ROW. */
static void assert_expected(struct drive *d, const struct drive_row *row, const char *line)
{
    const char *hex = strstr(line, "\"payload_hex\": \"");
    uint64_t hash, len;

    ck_assert_int_eq(sscanf(line, "{\"key_hash\": \"%" SCNx64 "\", \"payload_len\": %" SCNu64, &hash, &len),
                     2);
    ck_assert_uint_eq(row->key_hash, hash);
    ck_assert_uint_eq(row->len, len);
    uint8_t *payload = payload_of(d, row);
    ck_assert_int_eq(hex != NULL, len <= 64);
    if (hex)
        assert_hex(payload, len, hex + strlen("\"payload_hex\": \""));
    free(payload);
}

static const char *const good[] = { "basic", "overwrites", "tombstones", "large",
                                    "batch", "empty",      "compacted",  "v0_13_layout" };

START_TEST(each_store_of_the_engine_gives_what_its_iterator_gave)
{
    const char *folder = real_stores();
    char line[4096], listing[PATH_MAX + 64], store[PATH_MAX + 64];
    struct drive *d = NULL;

    if (!folder)
        return;
    snprintf(store, sizeof store, "%s/%s.bin", folder, good[_i]);
    snprintf(listing, sizeof listing, "%s/%s.expected.jsonl", folder, good[_i]);
    ck_assert_msg(drive_open(&d, store, DRIVE_ANY, &why) == 0, "%s: %s", good[_i], why.text);
    FILE *f = fopen(listing, "r");
    ck_assert_ptr_nonnull(f);
    uint64_t rows = drive_row_count(d);
    while (fgets(line, sizeof line, f)) {
        ck_assert_uint_gt(rows, 0);
        struct drive_row row = drive_row(d, --rows);
        assert_expected(d, &row, line);
    }
    ck_assert_uint_eq(rows, 0);
    fclose(f);
    drive_close(d);
}
END_TEST

START_TEST(each_damaged_store_is_refused_with_what_its_readme_says)
{
    static const struct {
        const char *name, *said;
        int code;
    } bad[] = {
        { "torn_tail", "last 250 bytes at offset 987 are no whole entry; 9 whole entries before",
          SKADE_EDAMAGED },
        { "zero_tail", "last 64 bytes at offset 1244 are zero, and no entry; 10 whole entries before",
          SKADE_EDAMAGED },
        { "bit_flip",
          "entry 7, key hash 55b8da70178442d5: the checksum of its 128 bytes of payload at offset 448",
          SKADE_EDAMAGED },
        { "foreign", "no store", SKADE_EFOREIGN },
    };
    const char *folder = real_stores();

    for (size_t i = 0; folder && i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(path, sizeof path, "%s/%s.bin", folder, bad[i].name);
        assert_refused(DRIVE_ANY, bad[i].code, bad[i].said);
    }
}
END_TEST

Suite *store_file_suite(void);

Suite *store_file_suite(void)
{
    Suite *s = suite_create("store_file");
    TCase *whole = tcase_create("whole"), *damage = tcase_create("damage"), *source = tcase_create("source"),
          *real = tcase_create("engine");

    tcase_add_checked_fixture(whole, setup, NULL);
    tcase_add_loop_test(whole, a_store_of_each_layout_gives_its_live_rows_oldest_first, 0, DRIVE_LAYOUTS);
    tcase_add_loop_test(whole, a_layout_that_is_given_and_does_not_hold_is_refused, 0, DRIVE_LAYOUTS);
    tcase_add_test(whole, a_store_that_fits_every_layout_is_read_in_the_one_that_is_named);
    tcase_add_test(whole, zero_bytes_before_a_payload_always_change_its_checksum);
    tcase_add_test(whole, nothing_and_deletions_alone_are_stores_without_rows);
    tcase_add_loop_test(whole, values_larger_than_the_window_are_read_in_pieces, 0, DRIVE_LAYOUTS);
    tcase_add_test(whole, each_key_is_new_once);
    suite_add_tcase(s, whole);

    tcase_add_checked_fixture(damage, setup, NULL);
    tcase_set_timeout(damage, 60);
    tcase_add_loop_test(damage, every_truncation_is_refused_unless_an_entry_ends_there, 0, DRIVE_LAYOUTS);
    tcase_add_loop_test(damage, every_flipped_bit_is_refused_but_in_a_key_hash, 0, DRIVE_LAYOUTS);
    tcase_add_loop_test(damage, a_tail_of_any_length_is_refused_and_what_is_before_it_is_named, 0,
                        2 * DRIVE_LAYOUTS);
    tcase_add_test(damage, padding_that_is_not_zero_is_refused);
    tcase_add_test(damage, a_broken_link_names_the_bytes_between_what_is_whole);
    tcase_add_test(damage, what_is_no_store_is_refused);
    tcase_add_test(damage, what_is_no_regular_file_is_refused_and_not_waited_for);
    suite_add_tcase(s, damage);

    tcase_add_checked_fixture(source, setup, NULL);
    tcase_add_test(source, the_source_is_not_changed_nor_its_times);
    tcase_add_test(source, a_source_that_changes_while_it_is_read_is_noticed);
    tcase_add_test(source, who_takes_the_pieces_may_end_it);
    suite_add_tcase(s, source);

    tcase_add_checked_fixture(real, setup, NULL);
    tcase_add_loop_test(real, each_store_of_the_engine_gives_what_its_iterator_gave, 0,
                        sizeof good / sizeof good[0]);
    tcase_add_test(real, each_damaged_store_is_refused_with_what_its_readme_says);
    suite_add_tcase(s, real);
    return s;
}
