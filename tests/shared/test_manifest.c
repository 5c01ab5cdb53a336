#include "checksum.h"
#include "manifest.h"
#include "quick.h"
#include "tempdir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TABLE 7u

static const struct uuid log_uuid = { "the commit log" };
static const struct uuid own_uuid = { "a compaction" };

static int empty_file(void)
{
    static const char *dir;
    if (!dir)
        dir = tempdir();
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static struct manifest make(uint32_t files)
{
    struct manifest m = { .header = { .log = log_uuid,
                                      .uuid = own_uuid,
                                      .table = TABLE,
                                      .files = files,
                                      .seen_seq = 90,
                                      .base_seq = 80,
                                      .base_time_us = -5,
                                      .rows_pruned = 3,
                                      .snapshots_before = 12 } };

    m.files = calloc(files + 1, sizeof m.files[0]);
    for (uint32_t i = 0; i < files; i++) {
        m.files[i] = (struct manifest_file){ .size = 1000 + i,
                                             .rows = 10 + i,
                                             .keyed = i,
                                             .raw_bytes = 100 * i,
                                             .time_min = INT64_MIN + i,
                                             .time_max = INT64_MAX - i,
                                             .footer_check = i * 0x9e3779b97f4a7c15ull };
        m.header.rows += m.files[i].rows;
    }
    return m;
}

static int read_it(struct manifest *ret, int fd, struct errmsg *msg)
{
    return manifest_read(ret, fd, "x.manifest", &log_uuid, TABLE, msg);
}

/* A file of SIZE bytes at DATA. */
static int file_of(const void *data, size_t size)
{
    int fd = empty_file();
    ck_assert_int_eq(pwrite(fd, data, size, 0), (ssize_t)size);
    return fd;
}

static int read_bytes(const void *data, size_t size)
{
    struct manifest m;
    struct errmsg msg = { "" };
    int fd = file_of(data, size);

    int r = read_it(&m, fd, &msg);
    if (r == 0)
        manifest_fini(&m);
    else
        ALWAYS(strstr(msg.text, "x.manifest") != NULL);
    close(fd);
    return r;
}

/* The bytes of a manifest of FILES files. */
static size_t bytes_of_one(uint8_t *buf, size_t cap, uint32_t files)
{
    struct manifest m = make(files);
    int fd = empty_file();

    ck_assert_int_eq(manifest_write(fd, &m, NULL), 0);
    ssize_t n = pread(fd, buf, cap, 0);
    ck_assert_int_gt(n, 0);
    manifest_fini(&m);
    close(fd);
    return (size_t)n;
}

START_TEST(what_is_written_is_read)
{
    static const uint32_t counts[] = { 0, 1, 2, 9, 1000, MANIFEST_FILES_MAX };

    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        struct manifest m = make(counts[i]), got;
        struct errmsg msg = { "" };
        int fd = empty_file();
        ck_assert_msg(manifest_write(fd, &m, &msg) == 0, "%s", msg.text);
        ck_assert_msg(read_it(&got, fd, &msg) == 0, "%s", msg.text);
        ck_assert_mem_eq(&got.header, &m.header, sizeof m.header);
        ck_assert_uint_eq(got.header.size, lseek(fd, 0, SEEK_END));
        ck_assert_int_eq(memcmp(got.files, m.files, counts[i] * sizeof m.files[0]), 0);
        manifest_fini(&got);
        manifest_fini(&m);
        close(fd);
    }
}
END_TEST

START_TEST(more_files_than_names_can_count_are_refused)
{
    struct manifest m = make(MANIFEST_FILES_MAX + 1);
    struct errmsg msg = { "" };
    int fd = empty_file();

    ck_assert_int_eq(manifest_write(fd, &m, &msg), SKADE_EINPUT);
    ck_assert_str_ne(msg.text, "");
    manifest_fini(&m);
    close(fd);
}
END_TEST

START_TEST(every_flipped_bit_is_refused)
{
    uint8_t buf[1024];
    size_t size = bytes_of_one(buf, sizeof buf, 3);

    ck_assert_int_eq(read_bytes(buf, size), 0);
    for (size_t i = 0; i < size * 8; i++) {
        buf[i / 8] ^= (uint8_t)(1u << i % 8);
        ALWAYS(read_bytes(buf, size) < 0);
        buf[i / 8] ^= (uint8_t)(1u << i % 8);
    }
}
END_TEST

START_TEST(every_truncation_and_every_excess_is_refused)
{
    uint8_t buf[1025] = { 0 };
    size_t size = bytes_of_one(buf, 1024, 3);

    for (size_t n = 0; n < size; n++)
        ALWAYS(read_bytes(buf, n) == SKADE_EDAMAGED);
    ck_assert_int_eq(read_bytes(buf, size), 0);
    ck_assert_int_eq(read_bytes(buf, size + 1), SKADE_EDAMAGED);
}
END_TEST

START_TEST(another_log_or_table_or_version_or_format_has_its_own_error)
{
    static const struct uuid other = { "another log" };
    struct manifest m = make(1), got;
    struct errmsg msg = { "" };
    uint8_t buf[1024];
    int fd = empty_file();

    ck_assert_int_eq(manifest_write(fd, &m, NULL), 0);
    ck_assert_int_eq(manifest_read(&got, fd, "x", &other, TABLE, &msg), SKADE_EFOREIGN);
    ck_assert_int_eq(manifest_read(&got, fd, "x", &log_uuid, TABLE + 1, &msg), SKADE_EFOREIGN);
    manifest_fini(&m);
    close(fd);
    size_t size = bytes_of_one(buf, sizeof buf, 1);
    buf[offsetof(struct manifest_header, major)]++;
    ck_assert_int_eq(read_bytes(buf, size), SKADE_EVERSION);
    memcpy(buf, FORMAT_MAGIC_ROWS, 8);
    ck_assert_int_eq(read_bytes(buf, size), SKADE_EFOREIGN);
}
END_TEST

/* What a writer gone wrong could seal with right checksums. */
static int read_mended(void (*spoil)(struct manifest_header *, struct manifest_file *))
{
    struct {
        struct manifest_header header;
        struct manifest_file files[3];
    } m;

    ck_assert_uint_eq(bytes_of_one((uint8_t *)&m, sizeof m, 3), sizeof m);
    spoil(&m.header, m.files);
    m.header.content_check = checksum(m.files, sizeof m.files, 0);
    m.header.check = checksum(&m.header, offsetof(struct manifest_header, check), 0);
    return read_bytes(&m, sizeof m);
}

static void nothing(struct manifest_header *h, struct manifest_file *f)
{
    (void)h, (void)f;
}
static void one_file_less(struct manifest_header *h, struct manifest_file *f)
{
    (void)f;
    h->files--;
}
static void files_beyond_the_end(struct manifest_header *h, struct manifest_file *f)
{
    (void)f;
    h->files = UINT32_MAX;
}
static void another_header_len(struct manifest_header *h, struct manifest_file *f)
{
    (void)f;
    h->header_len++;
}
static void another_size(struct manifest_header *h, struct manifest_file *f)
{
    (void)f;
    h->size += sizeof *f;
}
static void another_sum_of_rows(struct manifest_header *h, struct manifest_file *f)
{
    (void)f;
    h->rows++;
}
static void rows_that_overflow(struct manifest_header *h, struct manifest_file *f)
{
    f[0].rows = UINT64_MAX;
    h->rows = f[0].rows + f[1].rows + f[2].rows;
}
static void more_keys_than_rows(struct manifest_header *h, struct manifest_file *f)
{
    (void)h;
    f[1].keyed = f[1].rows + 1;
}
static void times_the_wrong_way_round(struct manifest_header *h, struct manifest_file *f)
{
    (void)h;
    f[2].time_min = 2;
    f[2].time_max = 1;
}
static void bounds_the_wrong_way_round(struct manifest_header *h, struct manifest_file *f)
{
    (void)h;
    f[1].keyed = 1;
    f[1].low = (struct key_bound){ 1, "b" };
    f[1].high = (struct key_bound){ 1, "a" };
}
static void bounds_of_no_keys(struct manifest_header *h, struct manifest_file *f)
{
    (void)h;
    f[1].keyed = 0;
    f[1].high = (struct key_bound){ 1, "a" };
}
static void a_tiny_file(struct manifest_header *h, struct manifest_file *f)
{
    (void)h;
    f[0].size = sizeof(struct entry_header) + sizeof(struct entry_footer) - 1;
}

START_TEST(numbers_that_contradict_each_other_are_refused_in_spite_of_right_checksums)
{
    static void (*const spoil[])(struct manifest_header *, struct manifest_file *) = {
        one_file_less,       files_beyond_the_end,       another_header_len,  another_size,
        another_sum_of_rows, rows_that_overflow,         more_keys_than_rows, times_the_wrong_way_round,
        a_tiny_file,         bounds_the_wrong_way_round, bounds_of_no_keys
    };

    ck_assert_int_eq(read_mended(nothing), 0);
    for (size_t i = 0; i < ARRAY_SIZE(spoil); i++)
        ck_assert_msg(read_mended(spoil[i]) == SKADE_EDAMAGED, "spoilt in way %zu", i);
}
END_TEST

START_TEST(what_is_no_regular_file_is_refused)
{
    struct manifest m;
    struct errmsg msg = { "" };
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(read_it(&m, fd, &msg), SKADE_EFOREIGN);
    close(fd);
    ck_assert_int_eq(read_it(&m, -1, &msg), -EBADF);
}
END_TEST

/* tests/fuzz/seeds.c wrote it, for the rows of v1.rows. */
START_TEST(a_manifest_of_version_1_is_read)
{
    static const struct uuid log = { "log" }, uuid = { "rows" };
    struct manifest m;
    struct errmsg msg = { "" };
    int fd = open("tests/data/golden/v1.manifest", O_RDONLY | O_CLOEXEC);

    ck_assert_msg(fd >= 0,
                  "tests/data/golden/v1.manifest isn't here: run the suites in the repository's top folder");
    ck_assert_msg(manifest_read(&m, fd, "v1.manifest", &log, 7, &msg) == 0, "%s", msg.text);
    ck_assert(uuid_equal(&m.header.uuid, &uuid));
    ck_assert(m.header.seen_seq == 9 && m.header.base_seq == 8 && m.header.base_time_us == -5);
    ck_assert(m.header.rows == 41 && m.header.rows_pruned == 2 && m.header.snapshots_before == 3);
    ck_assert_uint_eq(m.header.files, 1);
    ck_assert(m.files[0].rows == 41 && m.files[0].keyed == 27 && m.files[0].size == 1472);
    ck_assert(m.files[0].low.len == 5 && memcmp(m.files[0].low.bytes, "key 1", 5) == 0);
    ck_assert(m.files[0].high.len == 5 && memcmp(m.files[0].high.bytes, "large", 5) == 0);
    ck_assert(m.files[0].time_min == -39000 && m.files[0].time_max == INT64_MAX);
    manifest_fini(&m);
    close(fd);
}
END_TEST

/* ---- faults -------------------------------------------------------------------------------------------- */

/* What manifest_write() gives when the fail point NAME says WHAT. */
static int write_with(const char *name, const char *what)
{
    struct manifest m = make(2);
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
    int r = manifest_write(fd, &m, &msg);
    unsetenv("SKADE_FAILPOINT_DIR");
    ck_assert(r == 0 || msg.text[0]);
    manifest_fini(&m);
    close(fd);
    return r;
}

START_TEST(a_failing_disk_is_an_error_at_every_step)
{
#ifdef SKADE_FAILPOINTS
    ck_assert_int_eq(write_with("manifest.write", "fail 5"), -EIO);
    ck_assert_int_eq(write_with("manifest.write", "count 1 fail 28"), SKADE_EFULL);
    ck_assert_int_eq(write_with("manifest.fsync", "fail 5"), -EIO);
    ck_assert_int_eq(write_with("manifest.fsync", "count 1 fail 5"), 0);
#else
    (void)write_with;
    printf("skipped: this build has no fail points\n");
#endif
}
END_TEST

START_TEST(a_full_device_is_full)
{
    struct manifest m = make(2);
    struct errmsg msg = { "" };
    int fd = open("/dev/full", O_RDWR | O_CLOEXEC);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(manifest_write(fd, &m, &msg), SKADE_EFULL);
    manifest_fini(&m);
    close(fd);
}
END_TEST

/* ---- names --------------------------------------------------------------------------------------------- */

START_TEST(names_are_as_documented)
{
    static const struct uuid u = { { 0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb,
                                     0xcc, 0xdd, 0xee, 0xff } };
    char name[ENTRY_NAME_MAX];

    ck_assert_str_eq(entry_name(name, NAME_ENTRIES, &u, 0), "00112233445566778899aabbccddeeff.entries");
    ck_assert_str_eq(entry_name(name, NAME_ROWS, &u, 1), "00112233445566778899aabbccddeeff.0001.rows");
    ck_assert_str_eq(entry_name(name, NAME_ROWS, &u, 9999), "00112233445566778899aabbccddeeff.9999.rows");
    ck_assert_str_eq(entry_name(name, NAME_MANIFEST, &u, 0), "00112233445566778899aabbccddeeff.manifest");
    ck_assert_str_eq(entry_name(name, NAME_PENDING, &u, 0), "00112233445566778899aabbccddeeff.pending");
}
END_TEST

/* NAME parses only when it is what entry_name() makes of what was parsed. */
static bool parses_strictly(const char *name)
{
    enum entry_name kind;
    struct uuid u;
    uint32_t part;
    char again[ENTRY_NAME_MAX];

    if (!entry_name_parse(name, &kind, &u, &part))
        return false;
    ALWAYS(strcmp(entry_name(again, kind, &u, part), name) == 0);
    ALWAYS((kind == NAME_ROWS) == (part != 0));
    return true;
}

START_TEST(every_name_parses_to_what_it_was_made_from)
{
    uint64_t random = 5;
    char name[ENTRY_NAME_MAX];

    for (uint32_t i = 0; i < 4 * MANIFEST_FILES_MAX; i++) {
        enum entry_name kind = (enum entry_name)(i % 4), found;
        uint32_t part = kind == NAME_ROWS ? 1 + i / 4 : 0, number = 99;
        struct uuid made, parsed;
        for (size_t b = 0; b < sizeof made.b; b++)
            made.b[b] = (uint8_t)random_u64(&random);
        ALWAYS(entry_name_parse(entry_name(name, kind, &made, part), &found, &parsed, &number));
        ALWAYS(found == kind && uuid_equal(&parsed, &made) && number == part);
    }
}
END_TEST

START_TEST(no_lookalike_of_a_name_parses)
{
    static const char *const wrong[] = {
        "",
        ".entries",
        "00112233445566778899aabbccddeeff",
        "00112233445566778899aabbccddeeff.",
        "00112233445566778899AABBCCDDEEFF.entries",
        "00112233445566778899aabbccddeef.entries",
        "00112233445566778899aabbccddeeff0.entries",
        "00112233445566778899aabbccddeeff.entries~",
        "00112233445566778899aabbccddeeff.entries ",
        " 00112233445566778899aabbccddeeff.entries",
        "00112233445566778899aabbccddeeff.Entries",
        "00112233445566778899aabbccddeefg.entries",
        "00112233445566778899aabbccddeeff.rows",
        "00112233445566778899aabbccddeeff.0000.rows",
        "00112233445566778899aabbccddeeff.001.rows",
        "00112233445566778899aabbccddeeff.00001.rows",
        "00112233445566778899aabbccddeeff.-001.rows",
        "00112233445566778899aabbccddeeff.+001.rows",
        "00112233445566778899aabbccddeeff. 001.rows",
        "00112233445566778899aabbccddeeff.0x01.rows",
        "00112233445566778899aabbccddeeff.0001.entries",
        "00112233445566778899aabbccddeeff.0001.rows.rows",
        "00112233-4455-6677-8899-aabbccddeeff.entries",
    };

    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        ck_assert_msg(!parses_strictly(wrong[i]), "%s", wrong[i]);
}
END_TEST

START_TEST(a_name_with_one_byte_changed_parses_only_as_itself)
{
    static const struct uuid u = { "0123456789abcde" };
    char name[ENTRY_NAME_MAX];

    for (int kind = NAME_ENTRIES; kind <= NAME_PENDING; kind++) {
        entry_name(name, (enum entry_name)kind, &u, kind == NAME_ROWS ? 42 : 0);
        size_t len = strlen(name);
        for (size_t i = 0; i < len * 256; i++) {
            char before = name[i / 256];
            name[i / 256] = (char)(i % 256);
            parses_strictly(name);
            name[i / 256] = before;
        }
        for (size_t i = 0; i < len; i++) {
            char cut[ENTRY_NAME_MAX];
            memcpy(cut, name, i);
            cut[i] = 0;
            ALWAYS(!parses_strictly(cut));
        }
    }
}
END_TEST

START_TEST(a_failed_parse_touches_nothing)
{
    enum entry_name kind = NAME_MANIFEST;
    struct uuid u = own_uuid;
    uint32_t part = 77;

    ck_assert(!entry_name_parse("00112233445566778899aabbccddeeff.0001.rowz", &kind, &u, &part));
    ck_assert(kind == NAME_MANIFEST && uuid_equal(&u, &own_uuid) && part == 77);
}
END_TEST

Suite *manifest_suite(void);
Suite *manifest_suite(void)
{
    Suite *s = suite_create("manifest");
    TCase *c = tcase_create("files");

    tcase_add_test(c, what_is_written_is_read);
    tcase_add_test(c, more_files_than_names_can_count_are_refused);
    tcase_add_test(c, every_flipped_bit_is_refused);
    tcase_add_test(c, every_truncation_and_every_excess_is_refused);
    tcase_add_test(c, another_log_or_table_or_version_or_format_has_its_own_error);
    tcase_add_test(c, numbers_that_contradict_each_other_are_refused_in_spite_of_right_checksums);
    tcase_add_test(c, what_is_no_regular_file_is_refused);
    tcase_add_test(c, a_manifest_of_version_1_is_read);
    tcase_add_test(c, a_failing_disk_is_an_error_at_every_step);
    tcase_add_test(c, a_full_device_is_full);
    suite_add_tcase(s, c);
    c = tcase_create("names");
    tcase_add_test(c, names_are_as_documented);
    tcase_add_test(c, every_name_parses_to_what_it_was_made_from);
    tcase_add_test(c, no_lookalike_of_a_name_parses);
    tcase_add_test(c, a_name_with_one_byte_changed_parses_only_as_itself);
    tcase_add_test(c, a_failed_parse_touches_nothing);
    suite_add_tcase(s, c);
    return s;
}
