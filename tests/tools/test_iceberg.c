/*
 * tools/iceberg*.c: metadata files that are right, nearly right, and hostile.
 */
#include "tools/iceberg_files.h"

#include "iceberg.h"
#include "iceberg_ids.h"
#include "iceberg_json.h"
#include "iceberg_text.h"
#include "skade_errors.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

Suite *iceberg_suite(void);

static struct iceberg_error err;
static struct iceberg_metadata m;

static void setup(void)
{
    scratch_make();
    memset(&m, 0, sizeof m);
    err.text[0] = '\0';
}

static void teardown(void)
{
    iceberg_free(&m);
    scratch_remove();
}

static void assert_reads(const char *path)
{
    int r = iceberg_read(path, NULL, &m, &err);
    ck_assert_msg(r == 0, "%s", err.text);
}

/* Refused in one line that names the file and has WHAT in it. */
static void assert_refuses(const char *path, const char *what)
{
    err.text[0] = '\0';
    int r = iceberg_read(path, NULL, &m, &err);
    ck_assert_msg(r < 0, "%s was read", path);
    ck_assert_msg(strncmp(err.text, path, strlen(path)) == 0, "no file: %s", err.text);
    ck_assert_msg(strstr(err.text, what), "no \"%s\": %s", what, err.text);
    ck_assert_ptr_null(strchr(err.text, '\n'));
}

static char *small_json(void)
{
    return spec_json(&(struct spec){ .updated_ms = 3000,
                                     .current = 22,
                                     .snapshots = "11@1000#1 22@2000#2",
                                     .log = "11@1000 22@2000",
                                     .previous = "v1.metadata.json" });
}

/* ---- what is right ------------------------------------------------------------------------------------- */

START_TEST(what_skade_uses_is_read)
{
    static const uint8_t uuid[16] = { 0x9c, 0x12, 0xd4, 0x41, 0x03, 0xfe, 0x46, 0x93,
                                      0x9a, 0x96, 0xa0, 0x70, 0x5d, 0xdf, 0x69, 0xc1 };
    char *json = small_json();
    assert_reads(put_text("a.json", json));
    free(json);
    ck_assert_int_eq(m.format_version, 2);
    ck_assert(m.has_uuid);
    ck_assert_mem_eq(m.uuid, uuid, 16);
    ck_assert_str_eq(m.location, "s3://bucket/t");
    ck_assert_int_eq(m.last_updated_ms, 3000);
    ck_assert(m.has_current);
    ck_assert_int_eq(m.current, 22);
    ck_assert_uint_eq(m.snapshot_count, 2);
    ck_assert_int_eq(m.snapshots[0].id, 11);
    ck_assert_int_eq(m.snapshots[0].timestamp_ms, 1000);
    ck_assert_int_eq(m.snapshots[0].sequence, 1);
    ck_assert_int_eq(m.snapshots[1].id, 22);
    ck_assert_int_eq(m.snapshots[1].sequence, 2);
}
END_TEST

START_TEST(fields_may_come_in_any_order_and_among_anything)
{
    assert_reads(put_text(
        "a.json",
        "\t{\"snapshot-log\":[{\"timestamp-ms\":5,\"x\":[[{}]],\"snapshot-id\":-7}],\r\n"
        "\"current-snapshot-id\":-7,\"schemas\":[{\"snapshots\":[1],\"location\":{\"location\":[null,true]}}]"
        ","
        "\"snapshots\":[{\"summary\":{\"snapshot-id\":\"x\"},\"timestamp-ms\":5,\"snapshot-id\":-7}],"
        "\"properties\":{\"format-version\":9,\"format-version\":\"\\ud83d\\ude00\\u0000\"},\"refs\":7,"
        "\"last-updated-ms\":-1,\"table-uuid\":\"9C12D441-03FE-4693-9A96-A0705DDF69C1\","
        "\"loc\\u0061tion\":\"l\",\"format-version\":3}  \n"));
    ck_assert_int_eq(m.current, -7);
    ck_assert_str_eq(m.location, "l");
    ck_assert(m.snapshots[0].born_current);
    ck_assert_uint_eq(m.uuid[0], 0x9c);
}
END_TEST

START_TEST(ids_and_times_reach_to_the_ends_of_their_range)
{
    assert_reads(put_text("a.json",
                          "{\"format-version\":1,\"location\":\"l\",\"last-updated-ms\":9223372036854775,"
                          "\"snapshots\":[{\"snapshot-id\":9223372036854775807,\"timestamp-ms\":-0},"
                          "{\"snapshot-id\":-9223372036854775808,\"timestamp-ms\":-9223372036854775}],"
                          "\"current-snapshot-id\":-9223372036854775808}"));
    ck_assert_int_eq(m.snapshots[0].id, INT64_MAX);
    ck_assert_int_eq(m.snapshots[1].id, INT64_MIN);
    ck_assert_int_eq(m.current, INT64_MIN);
    ck_assert(!m.has_uuid);
}
END_TEST

static const char *const no_snapshot[] = { "", "\"current-snapshot-id\":-1,", "\"current-snapshot-id\":null,",
                                           "\"snapshots\":null,\"snapshot-log\":null,\"metadata-log\":null,",
                                           "\"current-snapshot-id\":-1,\"snapshots\":[]," };

START_TEST(no_snapshot_is_minus_one_null_or_absent)
{
    char json[256];
    snprintf(json, sizeof json, "{%s\"format-version\":1,\"location\":\"l\",\"last-updated-ms\":0}",
             no_snapshot[_i]);
    assert_reads(put_text("a.json", json));
    ck_assert(!m.has_current);
    ck_assert_uint_eq(m.snapshot_count, 0);
}
END_TEST

START_TEST(snapshot_log_says_when_a_snapshot_became_current)
{
    /* 1 when it was made, 2 later only, 3 never, 4 both; 5 is gone. */
    PUT("a.json", .updated_ms = 9, .current = 1, .snapshots = "1@10 2@20 3@30 4@40",
        .log = "5@5 1@10 4@40 2@25 4@60 1@70");
    assert_reads(iceberg_path("a.json"));
    static const bool logged[] = { true, true, false, true }, born[] = { true, false, false, true };
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(m.snapshots[i].logged, logged[i]);
        ck_assert_int_eq(m.snapshots[i].born_current, born[i]);
    }
}
END_TEST

static int collect(void *arg, const char *file, size_t len)
{
    char *all = arg;
    sprintf(all + strlen(all), "%.*s ", (int)len, file);
    return 0;
}

static int run_out_of_memory(void *arg, const char *file, size_t len)
{
    (void)arg;
    (void)file;
    (void)len;
    return -ENOMEM;
}

START_TEST(metadata_log_is_told_and_its_listener_can_fail)
{
    char all[256] = "";
    const struct iceberg_log_sink log = { collect, all }, failing = { run_out_of_memory, NULL };
    PUT("a.json", .previous = "v1.metadata.json v2.metadata.json");
    ck_assert_int_eq(iceberg_read(iceberg_path("a.json"), &log, &m, &err), 0);
    ck_assert_str_eq(all, "s3://bucket/t/metadata/v1.metadata.json s3://bucket/t/metadata/v2.metadata.json ");
    ck_assert_int_eq(iceberg_read(iceberg_path("a.json"), &failing, &m, &err), -ENOMEM);
}
END_TEST

START_TEST(every_split_of_the_text_reads_the_same)
{
    char *json = small_json();
    size_t len = strlen(json);
    for (size_t cut = 0; cut <= len; cut++) {
        struct iceberg_json *j = NULL;
        struct iceberg_metadata got;
        ck_assert_int_eq(iceberg_json_new("p", NULL, &err, &j), 0);
        ck_assert_int_eq(iceberg_json_feed(j, (unsigned char *)json, cut), 0);
        ck_assert_int_eq(iceberg_json_feed(j, (unsigned char *)json + cut, len - cut), 0);
        ck_assert_int_eq(iceberg_json_end(j, &got), 0);
        ck_assert_uint_eq(got.snapshot_count, 2);
        ck_assert_int_eq(got.current, 22);
        ck_assert_str_eq(got.location, "s3://bucket/t");
        iceberg_free(&got);
        iceberg_json_free(j);
    }
    free(json);
}
END_TEST

/* ---- packings ------------------------------------------------------------------------------------------ */

typedef unsigned char *(*pack_fn)(const void *data, size_t len, size_t *ret);
static const pack_fn packers[] = { packed_gzip, packed_zstd };

START_TEST(packing_is_told_by_content_whatever_the_name)
{
    size_t len;
    char *json = small_json();
    unsigned char *packed = packers[_i](json, strlen(json), &len);
    assert_reads(put("plain.metadata.json", packed, len));
    ck_assert_int_eq(m.current, 22);
    iceberg_free(&m);
    assert_reads(put_text("plain.gz.metadata.json", json));
    ck_assert_int_eq(m.current, 22);
    free(packed);
    free(json);
}
END_TEST

START_TEST(several_members_are_one_text)
{
    size_t a_len, b_len, cut = 30;
    char *json = small_json();
    unsigned char *a = packers[_i](json, cut, &a_len);
    unsigned char *b = packers[_i](json + cut, strlen(json) - cut, &b_len);
    a = realloc(a, a_len + b_len);
    memcpy(a + a_len, b, b_len);
    assert_reads(put("a", a, a_len + b_len));
    ck_assert_int_eq(m.current, 22);
    free(a);
    free(b);
    free(json);
}
END_TEST

START_TEST(a_skippable_frame_is_skipped)
{
    static const unsigned char skippable[] = { 0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c' };
    size_t len;
    char *json = small_json();
    unsigned char *packed = packed_zstd(json, strlen(json), &len);
    unsigned char *both = malloc(sizeof skippable + len);
    memcpy(both, skippable, sizeof skippable);
    memcpy(both + sizeof skippable, packed, len);
    assert_reads(put("a", both, sizeof skippable + len));
    ck_assert_int_eq(m.current, 22);
    free(both);
    free(packed);
    free(json);
}
END_TEST

START_TEST(bytes_behind_packed_data_are_refused)
{
    size_t len;
    char *json = small_json();
    unsigned char *packed = packers[_i](json, strlen(json), &len);
    packed = realloc(packed, len + 8);
    memcpy(packed + len, "trailing", 8);
    assert_refuses(put("a", packed, len + 8), "something behind it");
    memset(packed + len, 0, 8);
    assert_refuses(put("a", packed, len + 8), "a: ");
    free(packed);
    free(json);
}
END_TEST

START_TEST(packed_twice_is_refused)
{
    size_t once_len, twice_len;
    char *json = small_json();
    unsigned char *once = packed_gzip(json, strlen(json), &once_len);
    unsigned char *twice = packers[_i](once, once_len, &twice_len);
    assert_refuses(put("a", twice, twice_len), "is not one JSON object");
    free(twice);
    free(once);
    free(json);
}
END_TEST

START_TEST(a_text_beyond_the_limit_is_refused_while_it_is_unpacked)
{
    size_t len, zeros_len = 1 << 20;
    unsigned char *zeros = calloc(1, zeros_len), buf[1000];
    unsigned char *packed = packers[_i](zeros, zeros_len, &len);
    const char *path = put("bomb", packed, len);
    struct iceberg_text *t = NULL;
    ssize_t n;
    uint64_t total = 0;
    ck_assert_int_eq(iceberg_text_open(path, 5000, &t, &err), 0);
    while ((n = iceberg_text_read(t, buf, sizeof buf, &err)) > 0)
        total += (uint64_t)n;
    ck_assert_int_eq(n, SKADE_EINPUT);
    ck_assert_uint_eq(total, 5000);
    ck_assert_ptr_nonnull(strstr(err.text, "limit of 5000 bytes"));
    iceberg_text_close(t);
    ck_assert_int_eq(iceberg_text_open(path, zeros_len, &t, &err), 0);
    for (total = 0; (n = iceberg_text_read(t, buf, sizeof buf, &err)) > 0; total += (uint64_t)n)
        ck_assert_mem_eq(buf, zeros, (size_t)n);
    ck_assert_int_eq(n, 0);
    ck_assert_uint_eq(total, zeros_len);
    iceberg_text_close(t);
    free(packed);
    free(zeros);
}
END_TEST

/* ---- damage -------------------------------------------------------------------------------------------- */

static unsigned char *packed_not(const void *data, size_t len, size_t *ret)
{
    *ret = len;
    return memcpy(malloc(len), data, len);
}

static const pack_fn all_packers[] = { packed_not, packed_gzip, packed_zstd };

START_TEST(every_prefix_is_refused)
{
    size_t len;
    char *json = small_json();
    size_t json_len =
        strlen(json) - 1; /* without the newline, so that the last prefix lacks the last brace */
    unsigned char *packed = all_packers[_i](json, json_len, &len);
    for (size_t n = 0; n < len; n++)
        assert_refuses(put("a.json", packed, n), ": ");
    assert_reads(put("a.json", packed, len));
    free(packed);
    free(json);
}
END_TEST

START_TEST(every_flipped_bit_gives_an_error_or_a_sound_answer)
{
    size_t len;
    char *json = small_json();
    unsigned char *packed = all_packers[_i](json, strlen(json), &len);
    for (size_t bit = 0; bit < 8 * len; bit++) {
        packed[bit / 8] ^= (unsigned char)(1u << bit % 8);
        const char *path = put("a.json", packed, len);
        if (iceberg_read(path, NULL, &m, &err) < 0) {
            ck_assert_ptr_nonnull(strstr(err.text, path));
        } else {
            ck_assert_uint_le(m.snapshot_count, 2);
            ck_assert_int_ge(m.format_version, 1);
            ck_assert_int_le(m.format_version, 3);
            if (all_packers[_i] == packed_gzip) /* its checksum leaves flips in the header only */
                ck_assert_int_eq(m.current, 22);
            iceberg_free(&m);
        }
        packed[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    free(packed);
    free(json);
}
END_TEST

/* HEAD stands for the required fields, all right. */
#define HEAD "\"format-version\":2,\"location\":\"l\",\"last-updated-ms\":1,\"table-uuid\":\"" UUID "\""
#define UUID "9c12d441-03fe-4693-9a96-a0705ddf69c1"
#define SNAPSHOT(more) "{" HEAD ",\"snapshots\":[{\"snapshot-id\":1,\"timestamp-ms\":1},{" more "}]}"

static const struct {
    const char *json, *what;
} wrong[] = {
    /* documents */
    { "", "is not one JSON object" },
    { "  \n", "is not one JSON object" },
    { "[]", "is not one JSON object" },
    { "[{" HEAD "}]", "is not one JSON object" },
    { "\"x\"", "is not one JSON object" },
    { "12", "is not one JSON object" },
    { "null", "is not one JSON object" },
    { "{" HEAD "}{" HEAD "}", "is not one JSON object" },
    { "{" HEAD "}\n{" HEAD "}", "is not one JSON object" },
    { "{" HEAD "} x", "is not one JSON object" },
    { "{" HEAD "},", "is not one JSON object" },
    { "{" HEAD ",}", "is not one JSON object" },
    { "{" HEAD "]", "is not one JSON object" },
    { "{" HEAD "}]", "is not one JSON object" },
    { "{" HEAD "} // c", "is not one JSON object" },
    { "\xef\xbb\xbf{" HEAD "}", "is not one JSON object" },
    { "{" HEAD ",\"x\":\"\xff\"}", "is not one JSON object" },
    { "{" HEAD ",\"x\":\"\t\"}", "is not one JSON object" },
    { "{" HEAD ",\"x\":NaN}", "is not one JSON object" },
    { "{" HEAD ",\"x\":Infinity}", "is not one JSON object" },
    { "{" HEAD ",\"x\":0x1}", "is not one JSON object" },
    { "{" HEAD ",\"x\":01}", "is not one JSON object" },
    { "{" HEAD ",\"x\":\"\\ud83d\\\\u12\"}", "surrogate" },
    { "{" HEAD ",\"x\":\"\\ud83d\\\\x\"}", "surrogate" },
    { "{" HEAD ",\"x\":\"\\ud83d\"}", "surrogate" },
    { "{" HEAD ",\"x\":\"\\ud83dx\"}", "surrogate" },
    { "{" HEAD ",\"x\":\"\\ud83d\\n\\ude00\"}", "surrogate" },
    { "{" HEAD ",\"x\":\"\\ude00\"}", "surrogate" },
    { "{" HEAD ",\"x\":\"\\ud83d\\ud83d\"}", "surrogate" },
    { "{" HEAD ",\"x\":\"\\u12\"}", "hexadecimal" },
    { "{}", ": format-version: is missing" },
    /* format-version */
    { "{\"format-version\":0}", ": format-version: 0 is not supported" },
    { "{\"format-version\":4}", ": format-version: 4 is not supported" },
    { "{\"format-version\":-1}", ": format-version: -1 is not supported" },
    { "{\"format-version\":\"2\"}", ": format-version: must be an integer, not a string" },
    { "{\"format-version\":2.0}", ": format-version: 2.0 is not written as an integer" },
    { "{\"format-version\":null}", ": format-version: must be an integer, not null" },
    { "{\"format-version\":true}", ": format-version: must be an integer, not a boolean" },
    { "{\"format-version\":{}}", ": format-version: must be an integer, not an object" },
    { "{\"format-version\":[2]}", ": format-version: must be an integer, not a list" },
    { "{" HEAD ",\"format-version\":2}", ": format-version: is there twice" },
    /* table-uuid */
    { "{\"format-version\":2,\"location\":\"l\",\"last-updated-ms\":1}", ": table-uuid: is missing" },
    { "{\"format-version\":3,\"location\":\"l\",\"last-updated-ms\":1,\"table-uuid\":null}",
      ": table-uuid: is missing" },
    { "{\"table-uuid\":\"9c12d441-03fe-4693-9a96-a0705ddf69c\"}",
      ": table-uuid: \"9c12d441-03fe-4693-9a96-" },
    { "{\"table-uuid\":\"9c12d441-03fe-4693-9a96-a0705ddf69cg\"}", "is not a uuid" },
    { "{\"table-uuid\":\"9c12d441-03fe-4693-9a96a-0705ddf69c1\"}", "is not a uuid" },
    { "{\"table-uuid\":\"9c12d44103fe46939a96a0705ddf69c1\"}", "is not a uuid" },
    { "{\"table-uuid\":\"\"}", "is not a uuid" },
    { "{\"table-uuid\":7}", ": table-uuid: must be a string, not an integer" },
    /* location */
    { "{\"format-version\":1,\"last-updated-ms\":1}", ": location: is missing" },
    { "{\"location\":\"\"}", ": location: has 0 bytes" },
    { "{\"location\":null}", ": location: must be a string, not null" },
    { "{\"location\":7}", ": location: must be a string, not an integer" },
    { "{\"location\":\"a\\u0000b\"}", ": location: has a control character" },
    { "{\"location\":\"a\\nb\"}", ": location: has a control character" },
    { "{" HEAD ",\"l\\u006fcation\":\"m\"}", ": location: is there twice" },
    /* last-updated-ms */
    { "{\"format-version\":1,\"location\":\"l\"}", ": last-updated-ms: is missing" },
    { "{\"last-updated-ms\":9223372036854776}", ": last-updated-ms: 9223372036854776 is too far away" },
    { "{\"last-updated-ms\":-9223372036854776}", ": last-updated-ms: -9223372036854776 is too far away" },
    { "{\"last-updated-ms\":1e3}", ": last-updated-ms: 1e3 is not written as an integer" },
    { "{\"last-updated-ms\":1e400}", ": last-updated-ms: 1e400 is not written as an integer" },
    { "{\"last-updated-ms\":\"1\"}", ": last-updated-ms: must be an integer, not a string" },
    { "{\"last-updated-ms\":null}", ": last-updated-ms: must be an integer, not null" },
    /* current-snapshot-id */
    { "{" HEAD ",\"current-snapshot-id\":5}", ": current-snapshot-id: 5 is not among the snapshots" },
    { "{" HEAD ",\"current-snapshot-id\":0,\"snapshots\":[]}",
      ": current-snapshot-id: 0 is not among the snapshots" },
    { "{\"current-snapshot-id\":9876543210123456789}",
      ": current-snapshot-id: 9876543210123456789 is above the signed 64-bit range" },
    { "{\"current-snapshot-id\":-9223372036854775809}", "is below the signed 64-bit range" },
    { "{\"current-snapshot-id\":\"1\"}", ": current-snapshot-id: must be an integer, not a string" },
    { "{\"current-snapshot-id\":1.5}", ": current-snapshot-id: 1.5 is not written as an integer" },
    { "{\"current-snapshot-id\":-1,\"current-snapshot-id\":-1}", ": current-snapshot-id: is there twice" },
    /* snapshots */
    { "{\"snapshots\":{}}", ": snapshots: must be a list, not an object" },
    { "{\"snapshots\":7}", ": snapshots: must be a list, not an integer" },
    { "{\"snapshots\":[7]}", ": snapshots[0]: must be an object, not an integer" },
    { "{\"snapshots\":[null]}", ": snapshots[0]: must be an object, not null" },
    { "{\"snapshots\":[[]]}", ": snapshots[0]: must be an object, not a list" },
    { "{" HEAD ",\"snapshots\":[],\"snapshots\":[]}", ": snapshots: is there twice" },
    { SNAPSHOT(""), ": snapshots[1].snapshot-id: is missing" },
    { SNAPSHOT("\"snapshot-id\":2"), ": snapshots[1].timestamp-ms: is missing" },
    { SNAPSHOT("\"timestamp-ms\":2"), ": snapshots[1].snapshot-id: is missing" },
    { SNAPSHOT("\"snapshot-id\":1,\"timestamp-ms\":2"),
      ": snapshots[1].snapshot-id: 1 is the id of snapshots[0] too" },
    { SNAPSHOT("\"snapshot-id\":9223372036854775808,\"timestamp-ms\":2"),
      ": snapshots[1].snapshot-id: 9223372036854775808 is above the signed 64-bit range" },
    { SNAPSHOT("\"snapshot-id\":99999999999999999999999999999999999999999999999999,\"timestamp-ms\":2"),
      ": snapshots[1].snapshot-id: 9999999999999999999999999999999999999999 is above" },
    { SNAPSHOT("\"snapshot-id\":2e0,\"timestamp-ms\":2"),
      ": snapshots[1].snapshot-id: 2e0 is not written as an integer" },
    { SNAPSHOT("\"snapshot-id\":\"2\",\"timestamp-ms\":2"),
      ": snapshots[1].snapshot-id: must be an integer, not a string" },
    { SNAPSHOT("\"snapshot-id\":null,\"timestamp-ms\":2"),
      ": snapshots[1].snapshot-id: must be an integer, not null" },
    { SNAPSHOT("\"snapshot-id\":2,\"snapshot-id\":2"), ": snapshots[1].snapshot-id: is there twice" },
    { SNAPSHOT("\"snapshot-id\":2,\"timestamp-ms\":9223372036854776"),
      ": snapshots[1].timestamp-ms: 9223372036854776 is" },
    { SNAPSHOT("\"timestamp-ms\":2,\"timestamp-ms\":2"), ": snapshots[1].timestamp-ms: is there twice" },
    { SNAPSHOT("\"sequence-number\":\"1\""),
      ": snapshots[1].sequence-number: must be an integer, not a string" },
    { SNAPSHOT("\"sequence-number\":0.5"),
      ": snapshots[1].sequence-number: 0.5 is not written as an integer" },
    /* logs */
    { "{\"snapshot-log\":3}", ": snapshot-log: must be a list, not an integer" },
    { "{\"snapshot-log\":[\"x\"]}", ": snapshot-log[0]: must be an object, not a string" },
    { "{\"snapshot-log\":[{\"timestamp-ms\":1}]}", ": snapshot-log[0].snapshot-id: is missing" },
    { "{\"snapshot-log\":[{\"snapshot-id\":1}]}", ": snapshot-log[0].timestamp-ms: is missing" },
    { "{\"snapshot-log\":[{\"snapshot-id\":9876543210123456789}]}",
      ": snapshot-log[0].snapshot-id: 9876543210123456789" },
    { "{\"metadata-log\":{}}", ": metadata-log: must be a list, not an object" },
    { "{\"metadata-log\":[{}]}", ": metadata-log[0].metadata-file: is missing" },
    { "{\"metadata-log\":[{\"metadata-file\":1}]}",
      ": metadata-log[0].metadata-file: must be a string, not an integer" },
};

START_TEST(a_wrong_file_is_refused_naming_file_and_field)
{
    assert_refuses(put_text("wrong.metadata.json", wrong[_i].json), wrong[_i].what);
}
END_TEST

START_TEST(utf_16_is_refused)
{
    const char *head = "{" HEAD "}";
    char wide[2 * sizeof "{" HEAD "}" + 2] = "\xff\xfe";
    size_t n = 2;
    for (const char *s = head; *s; s++) {
        wide[n++] = *s;
        wide[n++] = '\0';
    }
    assert_refuses(put("with-mark.json", wide, n), "is not one JSON object");
    assert_refuses(put("without.json", wide + 2, n - 2), "is not one JSON object");
}
END_TEST

/* A file of BEFORE, then COUNT times C, then AFTER. */
static const char *put_run(const char *before, char c, size_t count, const char *after)
{
    size_t before_len = strlen(before), after_len = strlen(after);
    char *text = malloc(before_len + count + after_len);
    memcpy(text, before, before_len);
    memset(text + before_len, c, count);
    memcpy(text + before_len + count, after, after_len);
    const char *path = put("run.json", text, before_len + count + after_len);
    free(text);
    return path;
}

START_TEST(nesting_is_bounded)
{
    assert_refuses(put_run("{\"x\":", '[', 100000, ""), "is nested too deeply");
    assert_refuses(put_run("", '[', 100000, ""), "is n");
    assert_refuses(put_run("{" HEAD ",\"x\":", '[', 999, "]"), "is not one JSON object");
}
END_TEST

START_TEST(strings_and_numbers_are_bounded)
{
    assert_reads(put_run("{" HEAD ",\"x\":\"", 'x', 8 * 1024 * 1024 - 2, "\"}"));
    assert_refuses(put_run("{" HEAD ",\"x\":\"", 'x', 9 * 1024 * 1024, "\"}"), "more than 8 MiB");
    assert_refuses(put_run("{" HEAD ",\"x\":", '1', 9 * 1024 * 1024, "}"), "more than 8 MiB");
    assert_refuses(put_run("{\"", 'k', 9 * 1024 * 1024, "\":1}"), "more than 8 MiB");
    assert_refuses(put_run("{\"last-updated-ms\":", '1', 100000, "}"), "last-updated-ms: 1111111");
    assert_refuses(put_run("{\"location\":\"", 'l', 4097, "\"}"), "location: has 4097 bytes");
    iceberg_free(&m);
    assert_reads(put_run("{\"format-version\":1,\"last-updated-ms\":1,\"location\":\"", 'l', 4096, "\"}"));
    iceberg_free(&m);
    assert_reads(put_run("{" HEAD ",\"x\":1", ' ', 9 * 1024 * 1024, "}"));
}
END_TEST

START_TEST(a_message_is_one_line_whatever_it_quotes)
{
    assert_refuses(put_text("a.json", "{\"table-uuid\":\"a\\nb\\u001b[31mc\"}"), "table-uuid: \"a?b?[31mc\"");
}
END_TEST

/* ---- what is no regular file --------------------------------------------------------------------------- */

START_TEST(only_regular_files_are_read)
{
    ck_assert_int_eq(mkdir(iceberg_path("dir"), 0777), 0);
    ck_assert_int_eq(mkfifo(iceberg_path("fifo"), 0666), 0);
    ck_assert_int_eq(symlink("nowhere", iceberg_path("dangling")), 0);
    assert_refuses(iceberg_path("dir"), "is not a regular file");
    assert_refuses(iceberg_path("fifo"), "is not a regular file");
    assert_refuses("/dev/zero", "is not a regular file");
    assert_refuses(iceberg_path("dangling"), "No such file");
    assert_refuses(iceberg_path("missing"), "No such file");
    put_text("real", "{" HEAD "}");
    ck_assert_int_eq(symlink("real", iceberg_path("link")), 0);
    assert_reads(iceberg_path("link"));
}
END_TEST

/* ---- size ---------------------------------------------------------------------------------------------- */

#define MANY 200000

/* What Spark writes: about a kilobyte per snapshot. */
static void write_many(gzFile f)
{
    gzprintf(f, "{" HEAD ",\"snapshots\":[");
    for (int i = 1; i <= MANY; i++) {
        gzprintf(f, "%s{\"sequence-number\":%d,\"snapshot-id\":%lld,\"timestamp-ms\":%lld,\"summary\":{",
                 i > 1 ? "," : "", i, i * 46116860184273LL, 1700000000000LL + i);
        for (int k = 0; k < 18; k++)
            gzprintf(f, "%s\"added-files-size-of-kind-%d\":\"%d\"", k ? "," : "", k, i * 7919 + k);
        gzprintf(f,
                 "},\"manifest-list\":\"s3://bucket/warehouse/db/table/metadata/snap-%lld-1-"
                 "9c12d441-03fe-4693-9a96-a0705ddf69c1.avro\",\"schema-id\":0}",
                 i * 46116860184273LL);
    }
    gzprintf(f, "],\"snapshot-log\":[");
    for (int i = 1; i <= MANY; i++)
        gzprintf(f, "%s{\"timestamp-ms\":%lld,\"snapshot-id\":%lld}", i > 1 ? "," : "", 1700000000000LL + i,
                 i * 46116860184273LL);
    gzprintf(f, "],\"current-snapshot-id\":%lld}", MANY * 46116860184273LL);
}

static void read_many_in_child(const char *path)
{
    int r = iceberg_read(path, NULL, &m, &err);
    if (r < 0)
        fprintf(stderr, "%s\n", err.text);
    _exit(r == 0 && m.snapshot_count == MANY && m.snapshots[MANY - 1].born_current ? 0 : 1);
}

START_TEST(two_hundred_thousand_snapshots_fit_in_bounded_memory)
{
    struct rusage usage;
    int status = -1;
    const char *path = iceberg_path("many.gz.metadata.json");
    gzFile f = gzopen(path, "w1");
    gzbuffer(f, 1 << 20);
    write_many(f);
    ck_assert_int_eq(gzclose(f), Z_OK);
    pid_t child = fork();
    if (child == 0)
        read_many_in_child(path);
    ck_assert_int_eq(wait4(child, &status, 0, &usage), child);
    ck_assert_int_eq(status, 0);
    if (!SANITIZED)
        ck_assert_int_lt(usage.ru_maxrss, 128 * 1024);
}
END_TEST

/* ---- the map of ids ------------------------------------------------------------------------------------ */

/* Every id differs from every other in all sorts of bits: odd multiples, in both signs. */
static int64_t nth_id(uint32_t i)
{
    return (int64_t)(i * (i % 3 == 0 ? 1u : i % 3 == 1 ? 0x9e3779b97f4a7c15u : 1ull << 44));
}

START_TEST(the_map_of_ids_finds_what_was_added_and_nothing_else)
{
    struct iceberg_ids ids = { 0 };
    uint32_t value;
    ck_assert_int_eq(iceberg_ids_find(&ids, 0, &value), 0);
    for (uint32_t i = 0; i < 30000; i++) {
        ck_assert_int_eq(iceberg_ids_add(&ids, nth_id(i), i), 1);
        ck_assert_int_eq(iceberg_ids_find(&ids, nth_id(i + 1), &value), 0);
    }
    for (uint32_t i = 0; i < 30000; i++) {
        ck_assert_int_eq(iceberg_ids_add(&ids, nth_id(i), 7), 0);
        ck_assert_int_eq(iceberg_ids_find(&ids, nth_id(i), &value), 1);
        ck_assert_uint_eq(value, i);
        ck_assert_int_eq(iceberg_ids_find(&ids, nth_id(i + 30000), &value), 0);
    }
    ck_assert_uint_eq(ids.count, 30000);
    iceberg_ids_free(&ids);
}
END_TEST

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

Suite *iceberg_suite(void)
{
    Suite *s = suite_create("iceberg");
    TCase *t = tcase_create("iceberg");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, what_skade_uses_is_read);
    tcase_add_test(t, fields_may_come_in_any_order_and_among_anything);
    tcase_add_test(t, ids_and_times_reach_to_the_ends_of_their_range);
    tcase_add_loop_test(t, no_snapshot_is_minus_one_null_or_absent, 0, COUNT(no_snapshot));
    tcase_add_test(t, snapshot_log_says_when_a_snapshot_became_current);
    tcase_add_test(t, metadata_log_is_told_and_its_listener_can_fail);
    tcase_add_test(t, every_split_of_the_text_reads_the_same);
    tcase_add_loop_test(t, packing_is_told_by_content_whatever_the_name, 0, COUNT(packers));
    tcase_add_loop_test(t, several_members_are_one_text, 0, COUNT(packers));
    tcase_add_test(t, a_skippable_frame_is_skipped);
    tcase_add_loop_test(t, bytes_behind_packed_data_are_refused, 0, COUNT(packers));
    tcase_add_loop_test(t, packed_twice_is_refused, 0, COUNT(packers));
    tcase_add_loop_test(t, a_text_beyond_the_limit_is_refused_while_it_is_unpacked, 0, COUNT(packers));
    tcase_add_loop_test(t, every_prefix_is_refused, 0, COUNT(all_packers));
    tcase_add_loop_test(t, every_flipped_bit_gives_an_error_or_a_sound_answer, 0, COUNT(all_packers));
    tcase_add_loop_test(t, a_wrong_file_is_refused_naming_file_and_field, 0, COUNT(wrong));
    tcase_add_test(t, utf_16_is_refused);
    tcase_add_test(t, nesting_is_bounded);
    tcase_add_test(t, strings_and_numbers_are_bounded);
    tcase_add_test(t, a_message_is_one_line_whatever_it_quotes);
    tcase_add_test(t, only_regular_files_are_read);
    tcase_add_test(t, two_hundred_thousand_snapshots_fit_in_bounded_memory);
    tcase_add_test(t, the_map_of_ids_finds_what_was_added_and_nothing_else);
    suite_add_tcase(s, t);
    return s;
}
