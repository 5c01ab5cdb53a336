/*
 * The index file as a file: what was written is read, whatever is wrong with it is noticed, and a write that fails leaves
 * the one before.
 */
#include "indexfile.h"

#include "part.h"
#include "publisher_fixture.h"
#include "quick.h"
#include "tempdir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *data_dir;
static int dir;

static const char *file(const char *name)
{
    static char path[4][300];
    static unsigned turn;
    char *ret = path[turn++ % 4];

    snprintf(ret, sizeof path[0], "%s/index/%s", data_dir, name);
    return ret;
}

static void place(void)
{
    struct errmsg why = { "" };

    data_dir = tempdir();
    dir = indexfile_dir(data_dir, true, &why);
    ck_assert_msg(dir >= 0, "%s", why.text);
}

/* ---- an image ------------------------------------------------------------------------------------------------------ */

static const struct index_part parts[] = { { 0, 7, sizeof(struct part_header), 0xabc },
                                           { 7, 9, sizeof(struct part_header) + 64, 0xdef } };
static const struct index_uuid uuids[] = { { { { 1 } }, 1, 11 }, { { { 2 } }, 3, 33 }, { { { 3 } }, 9, 99 } };

static const struct event *event_of(size_t i)
{
    static struct event events[3];

    events[0] = (struct event){ .seq = 1,
                                .kind = EVENT_CREATE,
                                .flags = EVENT_STORED,
                                .table = 1,
                                .time_us = -5,
                                .uuid = { { 1 } },
                                .text = bytes_of("a.b"),
                                .text2 = bytes_of("") };
    events[1] = (struct event){ .seq = 4,
                                .kind = EVENT_COMPACT,
                                .table = 1,
                                .watermark = 3,
                                .text = bytes_of(""),
                                .text2 = bytes_of("") };
    events[2] = (struct event){ .seq = 6,
                                .kind = EVENT_RENAME,
                                .table = 1,
                                .snapshot = 7,
                                .text = bytes_of("a.c"),
                                .text2 = bytes_of("a.b") };
    return &events[i];
}

static struct index_image image_of(void)
{
    static const struct event *events[3];

    for (size_t i = 0; i < 3; i++)
        events[i] = event_of(i);
    return (struct index_image){ .log = { { 42 } },
                                 .seed = 5,
                                 .covered = 9,
                                 .chain = 0x1234,
                                 .parts = parts,
                                 .parts_count = ARRAY_SIZE(parts),
                                 .events = events,
                                 .events_count = 3,
                                 .uuids = uuids,
                                 .uuids_count = ARRAY_SIZE(uuids) };
}

static void must_write(const struct index_image *image)
{
    struct errmsg why = { "" };
    ck_assert_msg(indexfile_write(dir, image, &why) == 0, "%s", why.text);
}

static void is_image(const struct index_file *f, const struct index_image *image)
{
    struct event e;
    size_t place_of = 0;

    ck_assert_uint_eq(f->header.covered, image->covered);
    ck_assert_uint_eq(f->header.chain, image->chain);
    ck_assert_uint_eq(f->header.seed, image->seed);
    ck_assert(uuid_equal(&f->header.log, &image->log));
    ck_assert_uint_eq(f->header.parts.count, image->parts_count);
    if (image->parts_count)
        ck_assert_mem_eq(f->parts, image->parts, image->parts_count * sizeof *image->parts);
    ck_assert_uint_eq(f->header.uuids.count, image->uuids_count);
    if (image->uuids_count)
        ck_assert_mem_eq(f->uuids, image->uuids, image->uuids_count * sizeof *image->uuids);
    for (size_t i = 0; i < image->events_count; i++) {
        const struct event *want = image->events[i];
        ck_assert_int_eq(indexfile_event(f, &place_of, &e), 1);
        ck_assert(e.seq == want->seq && e.kind == want->kind && e.flags == want->flags &&
                  e.table == want->table && e.snapshot == want->snapshot && e.time_us == want->time_us &&
                  e.watermark == want->watermark && uuid_equal(&e.uuid, &want->uuid) &&
                  bytes_equal(e.text, want->text) && bytes_equal(e.text2, want->text2));
    }
    ck_assert_int_eq(indexfile_event(f, &place_of, &e), 0);
}

static void holds(const struct index_image *image)
{
    struct index_file f;
    struct errmsg why = { "" };

    ck_assert_msg(indexfile_read(dir, &f, &why) == 1, "%s", why.text);
    is_image(&f, image);
    indexfile_fini(&f);
}

START_TEST(what_was_written_is_read)
{
    struct index_image image = image_of(), empty = { .log = { { 1 } } };
    struct index_file f;

    place();
    ck_assert_int_eq(indexfile_read(dir, &f, NULL), 0); /* none yet */
    must_write(&image);
    holds(&image);
    must_write(&empty);
    holds(&empty);
    indexfile_remove(dir);
    ck_assert_int_eq(indexfile_read(dir, &f, NULL), 0);
}
END_TEST

static void write_file(const char *path, const void *data, size_t len)
{
    FILE *out = fopen(path, "we");

    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(data, 1, len, out), len);
    ck_assert_int_eq(fclose(out), 0);
}

/* ---- damage ---------------------------------------------------------------------------------------------------------- */

static uint8_t bytes[4096];
static size_t size;

static void load_bytes(void)
{
    FILE *in = fopen(file("index"), "re");

    ck_assert_ptr_nonnull(in);
    size = fread(bytes, 1, sizeof bytes, in);
    ck_assert_uint_lt(size, sizeof bytes);
    fclose(in);
}

static void is_refused(const void *data, size_t len, const char *what, size_t at)
{
    struct index_file f;
    struct errmsg why = { "" };

    write_file(file("index"), data, len);
    int r = indexfile_read(dir, &f, &why);
    ck_assert_msg(r < 0 && why.text[0], "%s at %zu is not noticed", what, at);
}

START_TEST(every_damaged_byte_is_noticed)
{
    struct index_image image = image_of();

    place();
    must_write(&image);
    load_bytes();
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1 << bit);
            is_refused(bytes, size, "a flipped bit", i);
            bytes[i] ^= (uint8_t)(1 << bit);
        }
}
END_TEST

START_TEST(every_truncation_and_a_byte_too_many_are_noticed)
{
    struct index_image image = image_of();

    place();
    must_write(&image);
    load_bytes();
    for (size_t len = 0; len < size; len++)
        is_refused(bytes, len, "an end", len);
    is_refused(bytes, size + 1, "a byte more", size);
}
END_TEST

/* As long as no memory is: it isn't read to its end. */
START_TEST(a_file_that_is_much_longer_than_it_says_is_damaged)
{
    struct index_image image = image_of();
    struct errmsg why = { "" };
    struct index_file f;

    place();
    must_write(&image);
    ck_assert_int_eq(truncate(file("index"), (off_t)1 << 42), 0);
    ck_assert_int_eq(indexfile_read(dir, &f, &why), SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(why.text, "another length"));
}
END_TEST

START_TEST(parts_that_do_not_follow_each_other_are_refused)
{
    struct index_image image = image_of();
    struct index_part wrong[2];
    struct index_file f;

    place();
    image.parts = wrong;
    for (int i = 0; i < 4; i++) {
        memcpy(wrong, parts, sizeof wrong);
        if (i == 0)
            wrong[1].from_seq++;
        else if (i == 1)
            wrong[1].to_seq++;
        else if (i == 2)
            wrong[0].from_seq = 1;
        else
            wrong[1].size = sizeof(struct part_header) - 1;
        must_write(&image);
        ck_assert_int_eq(indexfile_read(dir, &f, NULL), SKADE_EDAMAGED);
    }
}
END_TEST

/* Whoever has the checksum right may still lie about lengths. */
START_TEST(an_event_never_leaves_its_file)
{
    struct index_image image = image_of();
    struct index_file f;
    struct index_event row;
    struct event e;
    size_t at = 0;

    place();
    must_write(&image);
    ck_assert_int_eq(indexfile_read(dir, &f, NULL), 1);
    memcpy(&row, f.events, sizeof row);
    row.text_len = (uint32_t)f.header.events.count;
    memcpy((void *)f.events, &row, sizeof row);
    ck_assert_int_eq(indexfile_event(&f, &at, &e), SKADE_EDAMAGED);
    row.text_len = UINT32_MAX;
    row.text2_len = 4;
    memcpy((void *)f.events, &row, sizeof row);
    ck_assert_int_eq(indexfile_event(&f, &at, &e), SKADE_EDAMAGED);
    for (at = f.header.events.count - sizeof row + 1; at < f.header.events.count; at++) {
        size_t copy = at;
        ck_assert_int_eq(indexfile_event(&f, &copy, &e), SKADE_EDAMAGED);
    }
    indexfile_fini(&f);
}
END_TEST

/* ---- strangers ------------------------------------------------------------------------------------------------------ */

START_TEST(what_is_not_ours_alone_is_not_read)
{
    struct index_image image = image_of();
    struct errmsg why = { "" };
    struct index_file f;

    place();
    must_write(&image);
    ck_assert_int_eq(chmod(file("."), 0720), 0);
    ck_assert_int_eq(indexfile_dir(data_dir, true, &why), SKADE_EFOREIGN);
    ck_assert_ptr_nonnull(strstr(why.text, "mode 0720"));
    ck_assert_int_eq(chmod(file("."), 0700), 0);
    ck_assert_int_eq(rename(file("index"), file("elsewhere")), 0);
    for (enum squatter what = 0; what < SQUAT_END; what++) {
        if (!squat(what, file("index")))
            continue;
        ck_assert_int_lt(indexfile_read(dir, &f, NULL), 0);
        unsquat(file("index"));
    }
}
END_TEST

/* ---- writing ---------------------------------------------------------------------------------------------------------- */

START_TEST(files_that_nobody_names_go_with_the_next_write)
{
    struct index_image image = image_of();

    place();
    ck_assert_int_eq(indexfile_put_part(dir, "part", 4, 0xabc, NULL), 0);
    ck_assert_int_eq(indexfile_put_part(dir, "other", 5, 0x123, NULL), 0);
    write_file(file("new"), "x", 1);
    must_write(&image);
    ck_assert(place_has(file("0000000000000abc.part")));
    ck_assert(!place_has(file("0000000000000123.part")));
    ck_assert(!place_has(file("new")));
}
END_TEST

START_TEST(an_empty_directory_makes_way_and_another_one_is_named)
{
    static const char *const names[] = { "new", "index" };
    struct index_image image = image_of();
    struct errmsg why = { "" };

    place();
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        unlink(file(names[i]));
        ck_assert_int_eq(mkdir(file(names[i]), 0700), 0);
        must_write(&image);
        holds(&image);
        unlink(file(names[i]));
        ck_assert_int_eq(mkdir(file(names[i]), 0700), 0);
        write_file(file(i == 0 ? "new/x" : "index/x"), "x", 1);
        ck_assert_int_lt(indexfile_write(dir, &image, &why), 0);
        ck_assert_ptr_nonnull(strstr(why.text, i == 0 ? "index/new is a directory: remove it"
                                                      : "index/index is a directory: remove it"));
        ck_assert_int_eq(unlink(file(i == 0 ? "new/x" : "index/x")), 0);
    }
    indexfile_remove(dir);
    ck_assert(!place_has(file("index")));
}
END_TEST

START_TEST(a_part_is_written_once_and_read_whole)
{
    const struct index_part row = { 0, 7, 4, 0xabc };
    struct stat first, second;
    char got[4];

    place();
    ck_assert_int_eq(indexfile_put_part(dir, "part", 4, 0xabc, NULL), 0);
    ck_assert_int_eq(stat(file("0000000000000abc.part"), &first), 0);
    ck_assert_int_eq(indexfile_put_part(dir, "part", 4, 0xabc, NULL), 0);
    ck_assert_int_eq(stat(file("0000000000000abc.part"), &second), 0);
    ck_assert_uint_eq(first.st_ino, second.st_ino);
    ck_assert_int_eq(indexfile_read_part(dir, &row, got, NULL), 0);
    ck_assert_mem_eq(got, "part", 4);
    ck_assert_int_eq(truncate(file("0000000000000abc.part"), 3), 0);
    ck_assert_int_eq(indexfile_read_part(dir, &row, got, NULL), SKADE_EDAMAGED);
    ck_assert_int_eq(indexfile_put_part(dir, "part", 4, 0xabc, NULL), 0); /* another length: it isn't there */
    ck_assert_int_eq(indexfile_read_part(dir, &row, got, NULL), 0);
    ck_assert_int_eq(unlink(file("0000000000000abc.part")), 0);
    ck_assert_int_eq(indexfile_read_part(dir, &row, got, NULL), -ENOENT);
}
END_TEST

START_TEST(a_write_that_fails_leaves_the_file_of_before)
{
    static const char *const places[] = { "index.write", "index.fsync", "index.rename" };
    struct index_image image = image_of(), other = { .log = { { 1 } } };
    struct errmsg why = { "" };

    place();
    if (!has_failpoints())
        return;
    must_write(&image);
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        at_failpoint(places[i], "fail 28");
        ck_assert_int_eq(indexfile_write(dir, &other, &why), SKADE_EFULL);
        at_failpoint(places[i], NULL);
        holds(&image);
        ck_assert(!place_has(file("new")));
    }
}
END_TEST

Suite *index_file_suite(void);
Suite *index_file_suite(void)
{
    Suite *s = suite_create("index_file");
    TCase *c = tcase_create("file");

    tcase_set_timeout(c, 60);
    tcase_add_test(c, what_was_written_is_read);
    tcase_add_test(c, every_damaged_byte_is_noticed);
    tcase_add_test(c, every_truncation_and_a_byte_too_many_are_noticed);
    tcase_add_test(c, a_file_that_is_much_longer_than_it_says_is_damaged);
    tcase_add_test(c, parts_that_do_not_follow_each_other_are_refused);
    tcase_add_test(c, an_event_never_leaves_its_file);
    tcase_add_test(c, what_is_not_ours_alone_is_not_read);
    tcase_add_test(c, files_that_nobody_names_go_with_the_next_write);
    tcase_add_test(c, an_empty_directory_makes_way_and_another_one_is_named);
    tcase_add_test(c, a_part_is_written_once_and_read_whole);
    tcase_add_test(c, a_write_that_fails_leaves_the_file_of_before);
    suite_add_tcase(s, c);
    return s;
}
