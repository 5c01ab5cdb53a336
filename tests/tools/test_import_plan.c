/*
 * tools/import_*.c and iceberg_names.c: which tables, which files, which order, which commits.
 */
#include "tools/iceberg_files.h"

#include "import_order.h"
#include "import_plan.h"
#include "skade_errors.h"

#include <check.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

Suite *import_plan_suite(void);

static struct import_options options;
static struct import_tables tables;
static struct import_plan plan;
static struct iceberg_error err;
static char told[1 << 16]; /* what the importer told: "refused: LINE\n", ... */

static void on_news(void *arg, enum import_news news, const char *line)
{
    static const char *const names[] = { "refused", "skipped", "leftover" };
    size_t len = strlen(told);
    (void)arg;
    ck_assert_ptr_null(strchr(line, '\n'));
    snprintf(told + len, sizeof told - len, "%s: %s\n", names[news], line);
}

static void setup(void)
{
    scratch_make();
    options = (struct import_options){ .tell = on_news };
    memset(&tables, 0, sizeof tables);
    memset(&plan, 0, sizeof plan);
    told[0] = err.text[0] = '\0';
}

static void reset(void)
{
    import_plan_free(&plan);
    import_tables_free(&tables);
    told[0] = err.text[0] = '\0';
}

static void teardown(void)
{
    reset();
    scratch_remove();
}

static int find(const char *path)
{
    return import_find(&path, 1, &options, &tables, &err);
}

/* Find the one table at PATH and plan it. */
static int plan_at(const char *path)
{
    reset();
    int r = find(path);
    if (r < 0)
        return r;
    ck_assert_msg(tables.count == 1, "%zu tables at %s, told: %s", tables.count, path, told);
    return import_plan_read(&tables.table[0], &options, &plan, &err);
}

static void assert_plan(const char *path)
{
    int r = plan_at(path);
    ck_assert_msg(r == 0, "%s", err.text);
}

/* The plan of PATH fails, and the message has A and B in it. */
static void assert_refused(const char *path, const char *a, const char *b)
{
    int r = plan_at(path);
    ck_assert_msg(r < 0, "%s was planned", path);
    ck_assert_msg(strstr(err.text, a) && strstr(err.text, b), "no \"%s\" or no \"%s\": %s", a, b, err.text);
}

static void assert_told(const char *what)
{
    ck_assert_msg(strstr(told, what), "not told \"%s\", but: %s", what, told);
}

/* The plan's files are NAMES, divided by blanks. */
static void assert_files(const char *names)
{
    char got[4096] = "";
    for (size_t i = 0; i < plan.file_count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i ? " " : "", plan.files[i]->name);
    ck_assert_str_eq(got, names);
}

/* "FILE FLAGS SNAPSHOT@MS; ...": flags i introduces, h moves the head. */
static void assert_rows(const char *rows)
{
    char got[4096] = "", *p = got;
    for (size_t i = 0; i < plan.row_count; i++) {
        const struct import_row *r = &plan.rows[i];
        p += sprintf(p, "%s%u %s%s ", i ? "; " : "", r->file, r->introduces ? "i" : "",
                     r->moves_head ? "h" : "");
        p += r->has_snapshot ? sprintf(p, "%" PRId64, r->snapshot) : sprintf(p, "-");
        p += sprintf(p, "@%" PRId64, r->time_us / 1000);
        ck_assert_int_eq(r->time_us % 1000, 0);
    }
    ck_assert_str_eq(got, rows);
}

static const char *table_dir(void)
{
    return iceberg_path("w/db/t");
}

#define FILE_IN_TABLE(name) "w/db/t/metadata/" name

/* ---- names of files ------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    bool counts;
    enum iceberg_series series;
    uint64_t number, minor;
} file_names[] = {
    { "v1.metadata.json", true, SERIES_VERSION, 1, 0 },
    { "v0.metadata.json", true, SERIES_VERSION, 0, 0 },
    { "v00012.metadata.json", true, SERIES_VERSION, 12, 0 },
    { "v1749025517.metadata.json", true, SERIES_VERSION, 1749025517, 0 },
    { "v2.gz.metadata.json", true, SERIES_VERSION, 2, 0 },
    { "v2.metadata.json.gz", true, SERIES_VERSION, 2, 0 },
    { "v2.zst.metadata.json", true, SERIES_VERSION, 2, 0 },
    { "v2.metadata.json.zst", true, SERIES_VERSION, 2, 0 },
    { "v2.zstd.metadata.json", true, SERIES_VERSION, 2, 0 },
    { "v2.metadata.json.zstd", true, SERIES_VERSION, 2, 0 },
    { "v2.0.metadata.json", true, SERIES_VERSION, 2, 1 },
    { "v2.11.metadata.json", true, SERIES_VERSION, 2, 12 },
    { "v2.11.gz.metadata.json", true, SERIES_VERSION, 2, 12 },
    { "v999999999999999999.metadata.json", true, SERIES_VERSION, 999999999999999999, 0 },
    { "v18446744073709551614.metadata.json", true, SERIES_VERSION, UINT64_MAX - 1, 0 },
    { "v18446744073709551615.metadata.json", true, SERIES_VERSION, ICEBERG_NUMBER_TOO_LARGE, 0 },
    { "v18446744073709551616.metadata.json", true, SERIES_VERSION, ICEBERG_NUMBER_TOO_LARGE, 0 },
    { "v00000000000000000000000012.metadata.json", true, SERIES_VERSION, 12, 0 },
    { "v2.18446744073709551616.metadata.json", true, SERIES_VERSION, ICEBERG_NUMBER_TOO_LARGE, 0 },
    { "99999999999999999999-x.metadata.json", true, SERIES_NUMBER, ICEBERG_NUMBER_TOO_LARGE, 0 },
    { "vfinal.metadata.json", true, SERIES_OTHER, 0, 0 },
    { "v.metadata.json", true, SERIES_OTHER, 0, 0 },
    { "v1x.metadata.json", true, SERIES_OTHER, 0, 0 },
    { "v1.x.metadata.json", true, SERIES_OTHER, 0, 0 },
    { "v1..metadata.json", true, SERIES_OTHER, 0, 0 },
    { "v1.2.3.metadata.json", true, SERIES_OTHER, 0, 0 },
    { "V1.metadata.json", true, SERIES_OTHER, 0, 0 },
    { "00003-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json", true, SERIES_NUMBER, 3, 0 },
    { "00003-9c12d441-03fe-4693-9a96-a0705ddf69c1.gz.metadata.json", true, SERIES_NUMBER, 3, 0 },
    { "100000-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json", true, SERIES_NUMBER, 100000, 0 },
    { "00002-legacy-bare-dv.metadata.json", true, SERIES_NUMBER, 2, 0 },
    { "7-x.metadata.json", true, SERIES_NUMBER, 7, 0 },
    { "7-.metadata.json", true, SERIES_OTHER, 0, 0 },
    { "7.metadata.json", true, SERIES_OTHER, 0, 0 },
    { "-7-x.metadata.json", true, SERIES_OTHER, 0, 0 },
    { "12345678-1234-1234-1234-123456789012.metadata.json", true, SERIES_UUID, 0, 0 },
    { "9c12d441-03fe-4693-9a96-a0705ddf69c1.gz.metadata.json", true, SERIES_UUID, 0, 0 },
    { "a.metadata.json", true, SERIES_OTHER, 0, 0 },
    { "TableMetadataV2Valid.json", false, SERIES_OTHER, 0, 0 },
    { "v1.json", false, SERIES_OTHER, 0, 0 },
    { "v1.metadata.json.crc", false, SERIES_OTHER, 0, 0 },
    { ".v1.metadata.json", false, SERIES_OTHER, 0, 0 },
    { ".v1.metadata.json.crc", false, SERIES_OTHER, 0, 0 },
    { "v1.metadata.json.tmp", false, SERIES_OTHER, 0, 0 },
    { "version-hint.text", false, SERIES_OTHER, 0, 0 },
    { "snap-1-1-9c12d441.avro", false, SERIES_OTHER, 0, 0 },
    { "1-9c12d441.stats", false, SERIES_OTHER, 0, 0 },
    { "metadata.json", false, SERIES_OTHER, 0, 0 },
    { ".metadata.json", false, SERIES_OTHER, 0, 0 },
    { "", false, SERIES_OTHER, 0, 0 },
};

START_TEST(a_name_says_whether_it_counts_and_its_number)
{
    struct iceberg_name n = iceberg_name_of(file_names[_i].name);
    ck_assert_msg(iceberg_name_counts(file_names[_i].name) == file_names[_i].counts, "%s",
                  file_names[_i].name);
    if (!file_names[_i].counts)
        return;
    ck_assert_msg(n.series == file_names[_i].series, "%s: series %d", file_names[_i].name, n.series);
    ck_assert_uint_eq(n.number, file_names[_i].number);
    ck_assert_uint_eq(n.minor, file_names[_i].minor);
}
END_TEST

/* ---- finding tables ------------------------------------------------------------------------------------ */

/* What import_find() found: "NAME(FILE FILE) NAME(...)". */
static const char *found(void)
{
    static char text[4096];
    char *p = text;
    *p = '\0';
    for (size_t i = 0; i < tables.count; i++) {
        p += sprintf(p, "%s%s(", i ? " " : "", tables.table[i].name);
        for (size_t k = 0; k < tables.table[i].file_count; k++)
            p += sprintf(p, "%s%s", k ? " " : "", tables.table[i].files[k].name);
        p += sprintf(p, ")");
    }
    return text;
}

static void make_warehouse(void)
{
    PUT("w/sales.db/orders/metadata/v1.metadata.json", .updated_ms = 1);
    PUT("w/sales.db/orders/metadata/v2.metadata.json", .updated_ms = 2);
    put_text("w/sales.db/orders/metadata/version-hint.text", "nonsense");
    put_text("w/sales.db/orders/metadata/.v2.metadata.json.crc", "crc");
    put_text("w/sales.db/orders/metadata/snap-1.avro", "Obj");
    put_text("w/sales.db/orders/data/metadata.json", "[]");
    PUT("w/ops/nested.db/events/metadata/00000-x.gz.metadata.json", .updated_ms = 1);
    PUT("w/ops/metadata/metadata/v1.metadata.json", .updated_ms = 1);
    put_text("w/ops/empty/metadata/readme", "");
}

START_TEST(every_metadata_directory_of_a_tree_is_a_table)
{
    make_warehouse();
    ck_assert_int_eq(find(iceberg_path("w")), 0);
    ck_assert_str_eq(found(), "ops.metadata(v1.metadata.json) nested.events(00000-x.gz.metadata.json) "
                              "sales.orders(v1.metadata.json v2.metadata.json)");
    ck_assert_uint_eq(tables.refused, 0);
    ck_assert_str_eq(told, "");
}
END_TEST

static const char *const one_table[] = { "w/sales.db/orders", "w/sales.db/orders/metadata", "w/sales.db",
                                         "w/sales.db/../sales.db/orders/.", "w/sales.db/orders/metadata/" };

START_TEST(a_table_may_be_given_by_any_of_its_directories)
{
    make_warehouse();
    ck_assert_int_eq(find(iceberg_path(one_table[_i])), 0);
    ck_assert_str_eq(found(), "sales.orders(v1.metadata.json v2.metadata.json)");
}
END_TEST

START_TEST(a_relative_path_is_as_good)
{
    make_warehouse();
    ck_assert_int_eq(chdir(iceberg_path("w/sales.db/orders")), 0);
    ck_assert_int_eq(find("."), 0);
    ck_assert_str_eq(found(), "sales.orders(v1.metadata.json v2.metadata.json)");
    import_tables_free(&tables);
    ck_assert_int_eq(find("metadata/v2.metadata.json"), 0);
    ck_assert_str_eq(found(), "sales.orders(v2.metadata.json)");
}
END_TEST

static const struct {
    const char *dir, *name;
} table_names[] = {
    { "w/a.db/t/metadata", "a.t" },
    { "w/a/t.db/metadata", "a.t.db" },
    { "w/a.db.db/t/metadata", "a.db.t" },
    { "w/x/y/z/t/metadata", "z.t" },
    { "w/b.dbx/t/metadata", "b.dbx.t" },
    { "w/a b/t-1_\xc3\xa4/metadata", "a b.t-1_\xc3\xa4" },
    { "w/metadata/t/metadata", "metadata.t" },
};

START_TEST(a_table_is_named_by_the_last_two_parts_before_metadata)
{
    char file[300];
    snprintf(file, sizeof file, "%s/v1.metadata.json", table_names[_i].dir);
    PUT(file, .updated_ms = 1);
    ck_assert_int_eq(find(iceberg_path("w")), 0);
    ck_assert_uint_eq(tables.count, 1);
    ck_assert_str_eq(tables.table[0].name, table_names[_i].name);
}
END_TEST

static const char *const nameless[] = { "w/.db/.t/metadata", "w/a../t/metadata", "w/a/t./metadata",
                                        "w/a\nb/t/metadata" };

START_TEST(a_path_that_makes_no_name_is_refused_with_the_advice_table)
{
    char file[300];
    snprintf(file, sizeof file, "%s/v1.metadata.json", nameless[_i]);
    PUT(file, .updated_ms = 1);
    PUT("w/good/t/metadata/v1.metadata.json", .updated_ms = 1);
    ck_assert_int_eq(find(iceberg_path("w")), 0);
    ck_assert_str_eq(found(), "good.t(v1.metadata.json)");
    ck_assert_uint_eq(tables.refused, 1);
    assert_told("give --table");
    import_tables_free(&tables);
    options.table = "x.y";
    ck_assert_int_eq(find(iceberg_path(nameless[_i])), 0);
    ck_assert_str_eq(found(), "x.y(v1.metadata.json)");
}
END_TEST

START_TEST(a_loose_file_needs_a_name_and_may_have_any_suffix)
{
    PUT("loose/some.file", .updated_ms = 5);
    ck_assert_int_eq(find(iceberg_path("loose/some.file")), 0);
    ck_assert_uint_eq(tables.count, 0);
    ck_assert_uint_eq(tables.refused, 1);
    assert_told("give --table");
    options.table = "a.b.c";
    assert_plan(iceberg_path("loose/some.file"));
    ck_assert_str_eq(plan.name, "a.b.c");
    assert_files("some.file");
    assert_rows("0 h -@5");
}
END_TEST

START_TEST(files_given_by_name_are_one_table)
{
    PUT(FILE_IN_TABLE("v9.metadata.json"), .updated_ms = 1);
    PUT(FILE_IN_TABLE("v10.metadata.json"), .updated_ms = 2);
    PUT("w/db/u/metadata/v1.metadata.json", .updated_ms = 2);
    const char *paths[] = { iceberg_path(FILE_IN_TABLE("v10.metadata.json")),
                            iceberg_path("w/db/u/metadata/v1.metadata.json"),
                            iceberg_path(FILE_IN_TABLE("v9.metadata.json")),
                            iceberg_path(FILE_IN_TABLE("v10.metadata.json")) };
    ck_assert_int_eq(import_find(paths, 4, &options, &tables, &err), 0);
    ck_assert_str_eq(found(),
                     "db.t(v10.metadata.json v9.metadata.json v10.metadata.json) db.u(v1.metadata.json)");
    ck_assert_int_eq(import_plan_read(&tables.table[0], &options, &plan, &err), 0);
    assert_files("v9.metadata.json v10.metadata.json");
}
END_TEST

START_TEST(with_table_loose_files_of_several_directories_are_one_table)
{
    PUT("a/x.json", .updated_ms = 2);
    PUT("b/y.json", .updated_ms = 1);
    options.table = "t";
    const char *paths[] = { iceberg_path("a/x.json"), iceberg_path("b/y.json") };
    ck_assert_int_eq(import_find(paths, 2, &options, &tables, &err), 0);
    ck_assert_str_eq(found(), "t(x.json y.json)");
    ck_assert_int_eq(import_plan_read(&tables.table[0], &options, &plan, &err), 0);
    assert_files("y.json x.json");
}
END_TEST

START_TEST(table_names_one_table_only)
{
    make_warehouse();
    options.table = "x.y";
    ck_assert_int_eq(find(iceberg_path("w")), SKADE_EINPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "--table names one table"));
    import_tables_free(&tables);
    PUT("loose/x.json", .updated_ms = 1);
    const char *paths[] = { iceberg_path("w/sales.db"), iceberg_path("loose/x.json") };
    ck_assert_int_eq(import_find(paths, 2, &options, &tables, &err), SKADE_EINPUT);
}
END_TEST

static const char *const bad_names[] = { "", ".", "a..b", ".a", "a.", "a/b", "a\tb" };

START_TEST(a_bad_table_option_is_refused)
{
    make_warehouse();
    options.table = bad_names[_i];
    ck_assert_int_eq(find(iceberg_path("w/sales.db/orders")), SKADE_EINPUT);
    ck_assert_uint_eq(tables.count, 0);
    ck_assert_ptr_nonnull(strstr(err.text, "--table"));
}
END_TEST

START_TEST(a_name_of_1024_bytes_is_the_longest)
{
    char name[1026];
    make_warehouse();
    memset(name, 'n', sizeof name - 1);
    name[1025] = '\0';
    options.table = name;
    ck_assert_int_eq(find(iceberg_path("w/sales.db/orders")), SKADE_EINPUT);
    options.table = name + 1;
    ck_assert_int_eq(find(iceberg_path("w/sales.db/orders")), 0);
}
END_TEST

START_TEST(a_directory_of_metadata_files_by_another_name_needs_table)
{
    PUT("custom/meta/v1.metadata.json", .updated_ms = 1);
    ck_assert_int_eq(find(iceberg_path("custom/meta")), 0);
    ck_assert_uint_eq(tables.refused, 1);
    assert_told("give --table");
    import_tables_free(&tables);
    options.table = "c.m";
    ck_assert_int_eq(find(iceberg_path("custom/meta")), 0);
    ck_assert_str_eq(found(), "c.m(v1.metadata.json)");
}
END_TEST

START_TEST(paths_that_cannot_be_used_are_told_and_the_others_found)
{
    make_warehouse();
    ck_assert_int_eq(mkfifo(iceberg_path("fifo"), 0666), 0);
    ck_assert_int_eq(mkdir(iceberg_path("nothing"), 0777), 0);
    const char *paths[] = { iceberg_path("missing"), iceberg_path("fifo"), iceberg_path("nothing"),
                            iceberg_path("w/sales.db") };
    ck_assert_int_eq(import_find(paths, 4, &options, &tables, &err), 0);
    ck_assert_str_eq(found(), "sales.orders(v1.metadata.json v2.metadata.json)");
    ck_assert_uint_eq(tables.refused, 3);
    assert_told("missing: No such file");
    assert_told("fifo: is neither");
    assert_told("nothing: no metadata file");
}
END_TEST

START_TEST(links_are_followed_where_a_walk_can_not_go_in_circles)
{
    make_warehouse();
    /* metadata elsewhere: followed; a directory elsewhere: not; circles: end. */
    ck_assert_int_eq(mkdir(iceberg_path("l"), 0777), 0);
    ck_assert_int_eq(mkdir(iceberg_path("l/db"), 0777), 0);
    ck_assert_int_eq(mkdir(iceberg_path("l/db/linked"), 0777), 0);
    ck_assert_int_eq(symlink("../../../w/sales.db/orders/metadata", iceberg_path("l/db/linked/metadata")), 0);
    ck_assert_int_eq(symlink("../w", iceberg_path("l/walk")), 0);
    for (int i = 0; i < 8; i++) {
        char name[64];
        snprintf(name, sizeof name, "l/c%d", i);
        ck_assert_int_eq(mkdir(iceberg_path(name), 0777), 0);
        strcat(name, "/metadata");
        ck_assert_int_eq(symlink("..", iceberg_path(name)), 0);
    }
    ck_assert_int_eq(find(iceberg_path("l")), 0);
    ck_assert_str_eq(found(), "db.linked(v1.metadata.json v2.metadata.json)");
    ck_assert_int_eq(symlink("w/sales.db/orders", iceberg_path("argument")), 0);
    import_tables_free(&tables);
    ck_assert_int_eq(find(iceberg_path("argument")), 0);
    ck_assert_str_eq(found(), "sales.orders(v1.metadata.json v2.metadata.json)");
}
END_TEST

/* ---- locations ----------------------------------------------------------------------------------------- */

START_TEST(a_location_is_the_file_uri_of_the_real_path_byte_for_byte)
{
    char expected[PATH_MAX];
    PUT("w/a%20 b?#c.db/t/metadata/v1.metadata.json", .updated_ms = 1);
    assert_plan(iceberg_path("w"));
    snprintf(expected, sizeof expected, "file://%s",
             iceberg_path("w/a%20 b?#c.db/t/metadata/v1.metadata.json"));
    ck_assert_str_eq(plan.files[0]->location, expected);
    ck_assert_str_eq(plan.location, "s3://bucket/t");
}
END_TEST

static const struct {
    const char *path, *base, *location;
} based[] = {
    { "w", "s3://b/w", "s3://b/w/db/t/metadata/v1.metadata.json" },
    { "w/", "s3://b/w/", "s3://b/w/db/t/metadata/v1.metadata.json" },
    { "w/db/t", "s3://b/x", "s3://b/x/metadata/v1.metadata.json" },
    { "w/db/t/metadata", "s3://b/x", "s3://b/x/v1.metadata.json" },
    { "w/db/t/metadata/v1.metadata.json", "s3://b/x", "s3://b/x/v1.metadata.json" },
};

START_TEST(base_uri_stands_for_the_argument)
{
    PUT(FILE_IN_TABLE("v1.metadata.json"), .updated_ms = 1);
    options.base_uri = based[_i].base;
    assert_plan(iceberg_path(based[_i].path));
    ck_assert_str_eq(plan.files[0]->location, based[_i].location);
}
END_TEST

START_TEST(a_location_that_the_log_would_not_take_is_refused)
{
    static char base[4200];
    PUT(FILE_IN_TABLE("v1.metadata.json"), .updated_ms = 1);
    PUT(FILE_IN_TABLE("v2.metadata.json"), .updated_ms = 2);
    memset(base, 'b', 4096 - strlen("/v1.metadata.json"));
    options.base_uri = base;
    assert_plan(iceberg_path("w/db/t/metadata"));
    strcat(base, "b");
    assert_refused(iceberg_path("w/db/t/metadata"), "v1.metadata.json: ", "4097 bytes");
    options.base_uri = NULL;
    PUT(FILE_IN_TABLE("a\n.metadata.json"), .updated_ms = 3);
    assert_refused(table_dir(), "a?.metadata.json: ", "control character");
    options.skip_bad = true;
    assert_plan(table_dir());
    assert_files("v1.metadata.json v2.metadata.json");
}
END_TEST

/* ---- order --------------------------------------------------------------------------------------------- */

static void put_in_table(const char *name, const struct spec *spec)
{
    char path[400];
    snprintf(path, sizeof path, "w/db/t/metadata/%s", name);
    put_spec(path, spec);
}

#define IN_TABLE(name, ...) put_in_table(name, &(struct spec){ __VA_ARGS__ })

START_TEST(numbers_order_files_whatever_their_times_and_spelling)
{
    IN_TABLE("v10.metadata.json", .updated_ms = 1);
    IN_TABLE("v9.gz.metadata.json", .updated_ms = 2);
    IN_TABLE("v9.1.metadata.json", .updated_ms = 0);
    IN_TABLE("v9.0.metadata.json", .updated_ms = 7);
    IN_TABLE("v02.metadata.json.gz", .updated_ms = 5);
    assert_plan(table_dir());
    assert_files(
        "v02.metadata.json.gz v9.gz.metadata.json v9.0.metadata.json v9.1.metadata.json v10.metadata.json");
    ck_assert_str_eq(told, "");
}
END_TEST

START_TEST(other_names_are_ordered_by_last_updated_ms)
{
    IN_TABLE("c.metadata.json", .updated_ms = 1);
    IN_TABLE("b.metadata.json", .updated_ms = 3);
    IN_TABLE("a.metadata.json", .updated_ms = 3);
    IN_TABLE("d.metadata.json", .updated_ms = -2);
    IN_TABLE("12345678-1234-1234-1234-123456789012.metadata.json", .updated_ms = 2);
    assert_plan(table_dir());
    assert_files("d.metadata.json c.metadata.json 12345678-1234-1234-1234-123456789012.metadata.json "
                 "a.metadata.json b.metadata.json");
}
END_TEST

START_TEST(kinds_of_names_are_merged_by_time_and_keep_their_own_order)
{
    IN_TABLE("v1.metadata.json", .updated_ms = 50); /* its clock was ahead */
    IN_TABLE("v2.metadata.json", .updated_ms = 10);
    IN_TABLE("00000-a.metadata.json", .updated_ms = 60);
    IN_TABLE("00001-b.metadata.json", .updated_ms = 80);
    IN_TABLE("by-hand.metadata.json", .updated_ms = 70);
    IN_TABLE("early.metadata.json", .updated_ms = 20);
    assert_plan(table_dir());
    assert_files("early.metadata.json v1.metadata.json v2.metadata.json 00000-a.metadata.json "
                 "by-hand.metadata.json 00001-b.metadata.json");
}
END_TEST

START_TEST(of_one_number_the_one_that_a_later_file_names_wins)
{
    IN_TABLE("00000-a.metadata.json", .updated_ms = 1);
    IN_TABLE("00001-b.metadata.json", .updated_ms = 2, .previous = "00000-a.metadata.json");
    IN_TABLE("00001-c.metadata.json", .updated_ms = 3, .previous = "00000-a.metadata.json");
    IN_TABLE("00002-d.metadata.json", .updated_ms = 4);
    IN_TABLE("00003-e.metadata.json", .updated_ms = 5,
             .previous = "00000-a.metadata.json 00001-b.metadata.json 00002-d.metadata.json");
    assert_plan(table_dir());
    assert_files("00000-a.metadata.json 00001-b.metadata.json 00002-d.metadata.json 00003-e.metadata.json");
    assert_told("leftover: ");
    assert_told("00001-c.metadata.json: left over by a failed commit");
}
END_TEST

START_TEST(two_newest_of_one_number_refuse_the_table_naming_both)
{
    IN_TABLE("00000-a.metadata.json", .updated_ms = 1);
    IN_TABLE("00001-b.metadata.json", .updated_ms = 2, .previous = "00000-a.metadata.json");
    IN_TABLE("00001-c.metadata.json", .updated_ms = 3,
             .previous = "00000-a.metadata.json 00001-b.metadata.json");
    assert_refused(table_dir(), "00001-b.metadata.json", "00001-c.metadata.json");
    options.skip_bad = true;
    assert_refused(table_dir(), "00001-b.metadata.json", "00001-c.metadata.json");
}
END_TEST

START_TEST(two_spellings_of_one_version_are_two_files_of_one_number)
{
    IN_TABLE("v1.metadata.json", .updated_ms = 1);
    IN_TABLE("v1.gz.metadata.json", .updated_ms = 1);
    assert_refused(table_dir(), "/v1.metadata.json", "/v1.gz.metadata.json");
    IN_TABLE("v2.metadata.json", .updated_ms = 2, .previous = "v1.gz.metadata.json");
    assert_plan(table_dir());
    assert_files("v1.gz.metadata.json v2.metadata.json");
}
END_TEST

START_TEST(what_a_left_over_file_names_does_not_count)
{
    /* 3b and 2b are a branch of history that failed; 4 knows 3a, 3a knows 2a. */
    IN_TABLE("00002-a.metadata.json", .updated_ms = 1);
    IN_TABLE("00002-b.metadata.json", .updated_ms = 1);
    IN_TABLE("00003-a.metadata.json", .updated_ms = 2, .previous = "00002-a.metadata.json");
    IN_TABLE("00003-b.metadata.json", .updated_ms = 2, .previous = "00002-b.metadata.json");
    IN_TABLE("00004-a.metadata.json", .updated_ms = 3, .previous = "00003-a.metadata.json");
    assert_plan(table_dir());
    assert_files("00002-a.metadata.json 00003-a.metadata.json 00004-a.metadata.json");
    assert_told("00003-b.metadata.json: left over");
    assert_told("00002-b.metadata.json: left over");
}
END_TEST

START_TEST(a_later_file_that_names_both_or_none_decides_nothing)
{
    IN_TABLE("00001-b.metadata.json", .updated_ms = 2);
    IN_TABLE("00001-c.metadata.json", .updated_ms = 3);
    IN_TABLE("00002-d.metadata.json", .updated_ms = 4);
    assert_refused(table_dir(), "00001-b.metadata.json", "00001-c.metadata.json");
    IN_TABLE("00002-d.metadata.json", .updated_ms = 4,
             .previous = "00001-b.metadata.json 00001-c.metadata.json");
    assert_refused(table_dir(), "00001-b.metadata.json", "00001-c.metadata.json");
}
END_TEST

START_TEST(names_that_begin_alike_are_not_taken_for_each_other)
{
    IN_TABLE("1-a.metadata.json", .updated_ms = 1);
    IN_TABLE("1-ab.metadata.json", .updated_ms = 1);
    IN_TABLE("2-c.metadata.json", .updated_ms = 2,
             .previous = "1-a.metadata.jso 1-a.metadata.json.x 1-ab.metadata.json");
    assert_plan(table_dir());
    assert_files("1-ab.metadata.json 2-c.metadata.json");
}
END_TEST

START_TEST(a_bare_uuid_beside_versions_is_a_scratch_file)
{
    IN_TABLE("v1.metadata.json", .updated_ms = 1);
    IN_TABLE("9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json", .updated_ms = 2,
             .previous = "v1.metadata.json");
    assert_plan(table_dir());
    assert_files("v1.metadata.json");
    assert_told("9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json: left over");
    IN_TABLE("v2.metadata.json", .updated_ms = 3,
             .previous = "9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json");
    assert_plan(table_dir());
    assert_files("v1.metadata.json 9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json v2.metadata.json");
}
END_TEST

/* ---- rows ---------------------------------------------------------------------------------------------- */

START_TEST(one_new_current_snapshot_is_one_row_at_its_own_time)
{
    IN_TABLE("v1.metadata.json", .updated_ms = 5);
    IN_TABLE("v2.metadata.json", .updated_ms = 15, .current = 1, .snapshots = "1@10#1", .log = "1@10");
    IN_TABLE("v3.metadata.json", .updated_ms = 25, .current = 2, .snapshots = "1@10#1 2@20#2",
             .log = "1@10 2@20");
    assert_plan(table_dir());
    assert_rows("0 h -@5; 1 ih 1@10; 2 ih 2@20");
    ck_assert_uint_eq(plan.snapshot_count, 2);
    ck_assert(plan.has_head);
    ck_assert_int_eq(plan.head, 2);
}
END_TEST

START_TEST(a_file_without_new_snapshot_moves_the_head_at_last_updated_ms)
{
    IN_TABLE("v1.metadata.json", .updated_ms = 10, .current = 1, .snapshots = "1@10#1");
    IN_TABLE("v2.metadata.json", .updated_ms = 20, .current = 1, .snapshots = "1@10#1"); /* a property */
    IN_TABLE("v3.metadata.json", .updated_ms = 30, .current = 2, .snapshots = "1@10#1 2@30#2");
    IN_TABLE("v4.metadata.json", .updated_ms = 40, .current = 1,
             .snapshots = "1@10#1 2@30#2");                                              /* a rollback */
    IN_TABLE("v5.metadata.json", .updated_ms = 50, .current = 1, .snapshots = "1@10#1"); /* expired */
    IN_TABLE("v6.metadata.json", .updated_ms = 60, .current = -1, .snapshots = "");      /* truncated */
    assert_plan(table_dir());
    assert_rows("0 ih 1@10; 1 h 1@20; 2 ih 2@30; 3 h 1@40; 4 h 1@50; 5 h -@60");
    ck_assert_uint_eq(plan.snapshot_count, 2);
    ck_assert(!plan.has_head);
}
END_TEST

START_TEST(a_snapshot_that_comes_back_is_not_introduced_again)
{
    IN_TABLE("v1.metadata.json", .updated_ms = 10, .current = 1, .snapshots = "1@10");
    IN_TABLE("v2.metadata.json", .updated_ms = 20, .current = 2, .snapshots = "2@20");
    IN_TABLE("v3.metadata.json", .updated_ms = 30, .current = 1, .snapshots = "1@10");
    assert_plan(table_dir());
    assert_rows("0 ih 1@10; 1 ih 2@20; 2 h 1@30");
}
END_TEST

START_TEST(a_snapshot_of_a_branch_moves_no_head)
{
    IN_TABLE("v1.metadata.json", .updated_ms = 10, .current = 1, .snapshots = "1@10#1", .log = "1@10");
    IN_TABLE("v2.metadata.json", .updated_ms = 20, .current = 1, .snapshots = "1@10#1 7@19#2", .log = "1@10");
    assert_plan(table_dir());
    assert_rows("0 ih 1@10; 1 i 7@19; 1 h 1@20");
}
END_TEST

START_TEST(several_new_snapshots_are_a_row_each_and_one_for_the_head)
{
    IN_TABLE("v1.metadata.json", .updated_ms = 5);
    IN_TABLE("v2.metadata.json", .updated_ms = 40, .current = 3, .snapshots = "3@30#3 1@10#1 2@20#2",
             .log = "3@30");
    assert_plan(table_dir());
    assert_rows("0 h -@5; 1 i 1@10; 1 i 2@20; 1 ih 3@30; 1 h 3@40");
}
END_TEST

START_TEST(where_one_file_is_left_its_snapshot_log_still_says_who_was_head)
{
    /* 1 and 3 were head at their own times; 2 is a branch's; 4 was published later than it was made. */
    IN_TABLE("v9.metadata.json", .updated_ms = 60, .current = 3, .snapshots = "1@10#1 2@20#2 3@30#3 4@40#4",
             .log = "9@5 1@10 3@30 4@50 3@60");
    assert_plan(table_dir());
    assert_rows("0 ih 1@10; 0 i 2@20; 0 i 4@40; 0 ih 3@30; 0 h 3@60");
}
END_TEST

START_TEST(a_current_snapshot_that_the_log_does_not_know_was_head_since_it_was_made)
{
    IN_TABLE("v9.metadata.json", .updated_ms = 60, .current = 3, .snapshots = "1@10 3@30", .log = "1@10");
    assert_plan(table_dir());
    assert_rows("0 ih 1@10; 0 ih 3@30; 0 h 3@60");
    IN_TABLE("v9.metadata.json", .updated_ms = 60, .current = 3, .snapshots = "1@10 3@30",
             .log = "1@10 3@50");
    assert_plan(table_dir());
    assert_rows("0 ih 1@10; 0 i 3@30; 0 h 3@60");
}
END_TEST

START_TEST(new_snapshots_are_ordered_by_sequence_then_time_then_place)
{
    IN_TABLE("v9.metadata.json", .updated_ms = 60, .current = 8,
             .snapshots = "8@1#1 5@9#3 4@2#4 3@7#2 2@7#2 1@6#2");
    assert_plan(table_dir());
    assert_rows("0 i 1@6; 0 i 3@7; 0 i 2@7; 0 i 5@9; 0 i 4@2; 0 ih 8@1; 0 h 8@60");
}
END_TEST

static uint64_t digest_of_rows(size_t count, uint64_t table)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t half[2];
        import_row_uuid(&plan, i, table, (uint8_t *)half);
        sum = sum * 31 + half[0] * 7 + half[1];
    }
    return sum;
}

static void put_history(int files)
{
    IN_TABLE("v1.metadata.json", .updated_ms = 5);
    IN_TABLE("v2.metadata.json", .updated_ms = 30, .current = 3, .snapshots = "3@30#3 1@10#1 2@20#2",
             .log = "3@30");
    if (files > 2)
        IN_TABLE("v3.metadata.json", .updated_ms = 50, .current = 4, .snapshots = "3@30#3 4@45#4",
                 .log = "3@30");
}

START_TEST(the_same_files_make_the_same_rows_and_later_files_add_to_them)
{
    put_history(2);
    assert_plan(table_dir());
    size_t rows = plan.row_count;
    uint64_t digest = digest_of_rows(rows, 1);
    assert_plan(table_dir());
    ck_assert_uint_eq(plan.row_count, rows);
    ck_assert_uint_eq(digest_of_rows(rows, 1), digest);
    put_history(3);
    assert_plan(iceberg_path("w"));
    ck_assert_uint_eq(plan.row_count, rows + 1);
    ck_assert_uint_eq(digest_of_rows(rows, 1), digest);
}
END_TEST

START_TEST(each_row_has_a_uuid_of_its_own)
{
    uint8_t uuids[32][16];
    size_t n = 0;
    put_history(3); /* rows that differ in flags only, and then two that differ in location only */
    IN_TABLE("v4.metadata.json", .updated_ms = 60, .current = 3, .snapshots = "3@30#3 4@45#4");
    IN_TABLE("v5.metadata.json", .updated_ms = 60, .current = 3, .snapshots = "3@30#3 4@45#4");
    assert_plan(table_dir());
    for (size_t i = 0; i < plan.row_count; i++)
        for (uint64_t table = 1; table <= 2; table++)
            import_row_uuid(&plan, i, table, uuids[n++]);
    plan.uuid[0] ^= 1;
    import_row_uuid(&plan, 0, 1, uuids[n++]);
    plan.rows[0].time_us++;
    import_row_uuid(&plan, 0, 1, uuids[n++]);
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_eq(uuids[i][6] >> 4, 8);
        ck_assert_uint_eq(uuids[i][8] >> 6, 2);
        for (size_t k = 0; k < i; k++)
            ck_assert_mem_ne(uuids[i], uuids[k], 16);
    }
}
END_TEST

/* As catalogs write them: each file has all snapshots so far. */
START_TEST(many_files_of_many_snapshots_are_planned)
{
    enum { FILES = 300 };
    char snapshots[FILES * 16] = "", name[64];
    for (int i = 1; i <= FILES; i++) {
        snprintf(snapshots + strlen(snapshots), sizeof snapshots - strlen(snapshots), "%d@%d ", i, i);
        snprintf(name, sizeof name, "v%d.metadata.json", i);
        IN_TABLE(name, .updated_ms = i, .current = i, .snapshots = snapshots);
    }
    assert_plan(table_dir());
    ck_assert_uint_eq(plan.row_count, FILES);
    ck_assert_uint_eq(plan.snapshot_count, FILES);
    for (uint32_t i = 0; i < FILES; i++) {
        ck_assert_int_eq(plan.rows[i].snapshot, i + 1);
        ck_assert_uint_eq(plan.rows[i].file, i);
    }
}
END_TEST

/* ---- bad files ----------------------------------------------------------------------------------------- */

START_TEST(one_bad_file_refuses_its_table_unless_bad_ones_are_skipped)
{
    put_history(3);
    put_text(FILE_IN_TABLE("v2.metadata.json"), "{\"format-version\": 7}");
    assert_refused(table_dir(), "v2.metadata.json: format-version", "7");
    ck_assert_str_eq(told, "");
    options.skip_bad = true;
    assert_plan(table_dir());
    assert_files("v1.metadata.json v3.metadata.json");
    assert_told("skipped: ");
    assert_told("v2.metadata.json: format-version: 7 is not supported");
    assert_rows("0 h -@5; 1 ih 3@30; 1 ih 4@45; 1 h 4@50");
}
END_TEST

START_TEST(a_bad_file_among_suspects_is_no_suspect)
{
    IN_TABLE("00001-b.metadata.json", .updated_ms = 2);
    put_text(FILE_IN_TABLE("00001-c.metadata.json"), "{");
    assert_refused(table_dir(), "00001-c.metadata.json", "not one JSON object");
    options.skip_bad = true;
    assert_plan(table_dir());
    assert_files("00001-b.metadata.json");
}
END_TEST

START_TEST(running_out_of_memory_is_not_the_files_fault)
{
    struct import_file file = { 0 };
    options.skip_bad = true;
    ck_assert_int_eq(import_bad_file(&file, -ENOMEM, &options, &err), -ENOMEM);
    ck_assert(!file.out);
    ck_assert_int_eq(import_bad_file(&file, -EIO, &options, &err), 0);
    ck_assert(file.out);
}
END_TEST

START_TEST(a_table_of_bad_files_only_is_refused)
{
    options.skip_bad = true;
    put_text(FILE_IN_TABLE("v1.metadata.json"), "{}");
    put_text(FILE_IN_TABLE("a.metadata.json"), "{}");
    assert_refused(table_dir(), "db.t", "none of its metadata files is left");
    assert_told("v1.metadata.json: ");
    assert_told("a.metadata.json: ");
}
END_TEST

START_TEST(what_is_no_file_is_a_bad_file)
{
    put_history(2);
    ck_assert_int_eq(mkfifo(iceberg_path(FILE_IN_TABLE("v3.metadata.json")), 0666), 0);
    assert_refused(table_dir(), "v3.metadata.json", "is not a regular file");
    ck_assert_int_eq(unlink(iceberg_path(FILE_IN_TABLE("v3.metadata.json"))), 0);
    ck_assert_int_eq(mkdir(iceberg_path(FILE_IN_TABLE("v3.metadata.json")), 0777), 0);
    assert_refused(table_dir(), "v3.metadata.json", "is not a regular file");
    ck_assert_int_eq(symlink("nowhere", iceberg_path(FILE_IN_TABLE("v4.metadata.json"))), 0);
    options.skip_bad = true;
    assert_plan(table_dir());
    assert_files("v1.metadata.json v2.metadata.json");
}
END_TEST

START_TEST(another_tables_file_refuses_the_table_naming_both)
{
    IN_TABLE("v1.metadata.json", .version = 1, .uuid = "", .updated_ms = 1); /* has none: no contradiction */
    IN_TABLE("v2.metadata.json", .updated_ms = 2);
    IN_TABLE("v3.metadata.json", .updated_ms = 3);
    assert_plan(table_dir());
    ck_assert(plan.has_uuid);
    ck_assert_uint_eq(plan.uuid[0], 0x9c);
    IN_TABLE("v3.metadata.json", .updated_ms = 3, .uuid = "00000000-03fe-4693-9a96-a0705ddf69c1");
    assert_refused(table_dir(), "v3.metadata.json: table-uuid: 00000000-03fe-4693-9a96-a0705ddf69c1",
                   "v2.metadata.json");
    options.skip_bad = true;
    assert_refused(table_dir(), "v3.metadata.json", "v2.metadata.json");
}
END_TEST

START_TEST(a_table_without_any_uuid_is_planned)
{
    IN_TABLE("v1.metadata.json", .version = 1, .uuid = "", .updated_ms = 1);
    assert_plan(table_dir());
    ck_assert(!plan.has_uuid);
}
END_TEST

/* ---- our own real tables: tests/data/iceberg ----------------------------------------------------------- */

static const struct import_plan *plan_named(const char *name)
{
    for (size_t i = 0; i < tables.count; i++) {
        if (strcmp(tables.table[i].name, name) != 0)
            continue;
        import_plan_free(&plan);
        int r = import_plan_read(&tables.table[i], &options, &plan, &err);
        ck_assert_msg(r == 0, "%s", err.text);
        return &plan;
    }
    ck_abort_msg("no table %s", name);
    return NULL;
}

static void assert_head(const char *head)
{
    char got[32] = "-";
    if (plan.has_head)
        snprintf(got, sizeof got, "%" PRId64, plan.head);
    ck_assert_str_eq(got, head);
}

START_TEST(our_tables_have_the_expected_files_snapshots_and_heads)
{
    char line[300], name[100], head[32];
    size_t files, snapshots, lines = 0;
    FILE *f = fopen("tests/data/iceberg/EXPECTED.tsv", "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(find("tests/data/iceberg"), 0);
    for (; fgets(line, sizeof line, f); lines++) {
        ck_assert_int_eq(sscanf(line, "%99s %zu %zu %31s", name, &files, &snapshots, head), 4);
        plan_named(name);
        ck_assert_uint_eq(plan.file_count, files);
        ck_assert_uint_eq(plan.snapshot_count, snapshots);
        assert_head(head);
    }
    fclose(f);
    ck_assert_uint_gt(lines, 0);
    ck_assert_uint_eq(lines, tables.count);
}
END_TEST

/* The row that introduces ID, NULL if none does.  More than one is a failure. */
static const struct import_row *introduction(int64_t id)
{
    const struct import_row *found_row = NULL;
    for (size_t i = 0; i < plan.row_count; i++) {
        if (!plan.rows[i].introduces || plan.rows[i].snapshot != id)
            continue;
        ck_assert_ptr_null(found_row);
        found_row = &plan.rows[i];
    }
    return found_row;
}

START_TEST(our_snapshots_are_introduced_by_the_first_file_that_has_them)
{
    char line[400], name[100] = "", now[100], file[200];
    int64_t id, ms;
    size_t lines = 0;
    FILE *f = fopen("tests/data/iceberg/EXPECTED_SNAPSHOTS.tsv", "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(find("tests/data/iceberg"), 0);
    for (; fgets(line, sizeof line, f); lines++) {
        ck_assert_int_eq(sscanf(line, "%99s %" SCNd64 " %199s %" SCNd64, now, &id, file, &ms), 4);
        if (strcmp(now, name) != 0)
            plan_named(strcpy(name, now));
        const struct import_row *r = introduction(id);
        ck_assert_ptr_nonnull(r);
        ck_assert_str_eq(plan.files[r->file]->name, file);
        ck_assert_int_eq(r->time_us, ms * 1000);
    }
    fclose(f);
    ck_assert_uint_gt(lines, 0);
}
END_TEST

/* ---- other projects' real tables ----------------------------------------------------------------------- */

/*
 * Rows of the outcome tables of the README beside the data: | `PATH` | `NAME` | OUTCOME |, without NAME for
 * files.
 */
struct outcome {
    char path[PATH_MAX];
    char name[200]; /* "" for a loose file */
    char text[400];
};

static bool parse_outcome(const char *line, const char *data, struct outcome *o)
{
    char path[1000], a[400], b[400];
    int n = sscanf(line, "| `%999[^`]` | %399[^|]| %399[^|]|", path, a, b);
    if (n < 2 || strchr(path, '/') == NULL)
        return false;
    snprintf(o->path, sizeof o->path, "%s/%s", data, path);
    o->name[0] = '\0';
    bool is_table = a[0] == '`';
    if (is_table && sscanf(a, "`%199[^`]`", o->name) != 1)
        return false;
    snprintf(o->text, sizeof o->text, "%s", is_table ? b : a);
    if (is_table)
        return n == 3;
    return strncmp(o->text, "refused", 7) == 0 || (o->text[0] == 'v' && isdigit((unsigned char)o->text[1]));
}

static void assert_counts(const struct outcome *o, size_t snapshots, const char *head)
{
    ck_assert_msg(plan.snapshot_count == snapshots, "%s: %zu snapshots", o->path, plan.snapshot_count);
    assert_head(strcmp(head, "none") == 0 ? "-" : head);
}

static void assert_outcome(const struct outcome *o)
{
    size_t files, snapshots;
    int version;
    char head[32];
    options.table = *o->name ? NULL : "loose.file";
    int r = plan_at(o->path);
    if (strncmp(o->text, "refused", 7) == 0) {
        ck_assert_msg(r < 0, "%s was planned", o->path);
        return;
    }
    ck_assert_msg(r == 0, "%s", err.text);
    ck_assert_str_eq(plan.name, *o->name ? o->name : "loose.file");
    if (sscanf(o->text, "%zu files, %zu snapshots, head %31s", &files, &snapshots, head) == 3)
        ck_assert_uint_eq(plan.file_count, files);
    else
        ck_assert_int_eq(sscanf(o->text, "v%d, %zu snapshots, head %31s", &version, &snapshots, head), 3);
    assert_counts(o, snapshots, head);
}

START_TEST(real_tables_and_files_have_the_outcomes_of_their_readme)
{
    char path[PATH_MAX], line[2000];
    struct outcome o;
    int table_count = 0, file_count = 0;
    const char *data = real_data();
    if (!data)
        return;
    snprintf(path, sizeof path, "%s/README.md", data);
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f)) {
        if (!parse_outcome(line, data, &o))
            continue;
        assert_outcome(&o);
        if (*o.name)
            table_count++;
        else
            file_count++;
    }
    fclose(f);
    ck_assert_int_ge(table_count, 29);
    ck_assert_int_ge(file_count, 18);
}
END_TEST

static const struct {
    const char *path, *a, *b;
} refusals[] = {
    { "duckdb/big_query_error", "/v0.metadata.json: format-version:", "is missing" },
    { "duckdb/equality_delete_extra_column/warehouse/ns/t",
      "/vfinal.metadata.json: ", "9876543210123456789 is above the signed 64-bit range" },
    { "apache-iceberg/TableMetadataUnsupportedVersion.json",
      "UnsupportedVersion.json: format-version: ", "42" },
    { "duckdb/bad_data/bad_iceberg_metadata.json", "bad_iceberg_metadata.json: ", "not one JSON object" },
};

START_TEST(real_broken_files_are_refused_naming_file_and_field)
{
    char path[PATH_MAX];
    const char *data = real_data();
    if (!data)
        return;
    snprintf(path, sizeof path, "%s/%s", data, refusals[_i].path);
    options.table = "x";
    assert_refused(path, refusals[_i].a, refusals[_i].b);
}
END_TEST

START_TEST(a_real_table_with_a_bad_file_is_planned_without_it)
{
    char path[PATH_MAX];
    const char *data = real_data();
    if (!data)
        return;
    options.skip_bad = true;
    snprintf(path, sizeof path, "%s/duckdb/big_query_error", data);
    assert_plan(path);
    assert_files("v1749025517.metadata.json");
    ck_assert_uint_eq(plan.snapshot_count, 1);
    assert_told("skipped: ");
    assert_told("/v0.metadata.json: format-version: is missing");
}
END_TEST

START_TEST(the_whole_folder_of_real_data_is_a_tree)
{
    size_t planned = 0, refused = 0;
    const char *data = real_data();
    if (!data)
        return;
    ck_assert_int_eq(find(data), 0);
    for (size_t i = 0; i < tables.count; i++) {
        int r = import_plan_read(&tables.table[i], &options, &plan, &err);
        planned += r == 0;
        refused += r < 0;
        import_plan_free(&plan);
    }
    ck_assert_uint_ge(planned, 27);
    ck_assert_uint_eq(refused, 2);
}
END_TEST

static void add_finding(TCase *t)
{
    tcase_add_loop_test(t, a_name_says_whether_it_counts_and_its_number, 0, COUNT(file_names));
    tcase_add_test(t, every_metadata_directory_of_a_tree_is_a_table);
    tcase_add_loop_test(t, a_table_may_be_given_by_any_of_its_directories, 0, COUNT(one_table));
    tcase_add_test(t, a_relative_path_is_as_good);
    tcase_add_loop_test(t, a_table_is_named_by_the_last_two_parts_before_metadata, 0, COUNT(table_names));
    tcase_add_loop_test(t, a_path_that_makes_no_name_is_refused_with_the_advice_table, 0, COUNT(nameless));
    tcase_add_test(t, a_loose_file_needs_a_name_and_may_have_any_suffix);
    tcase_add_test(t, files_given_by_name_are_one_table);
    tcase_add_test(t, with_table_loose_files_of_several_directories_are_one_table);
    tcase_add_test(t, table_names_one_table_only);
    tcase_add_loop_test(t, a_bad_table_option_is_refused, 0, COUNT(bad_names));
    tcase_add_test(t, a_name_of_1024_bytes_is_the_longest);
    tcase_add_test(t, a_directory_of_metadata_files_by_another_name_needs_table);
    tcase_add_test(t, paths_that_cannot_be_used_are_told_and_the_others_found);
    tcase_add_test(t, links_are_followed_where_a_walk_can_not_go_in_circles);
    tcase_add_test(t, a_location_is_the_file_uri_of_the_real_path_byte_for_byte);
    tcase_add_loop_test(t, base_uri_stands_for_the_argument, 0, COUNT(based));
    tcase_add_test(t, a_location_that_the_log_would_not_take_is_refused);
}

static void add_order(TCase *t)
{
    tcase_add_test(t, numbers_order_files_whatever_their_times_and_spelling);
    tcase_add_test(t, other_names_are_ordered_by_last_updated_ms);
    tcase_add_test(t, kinds_of_names_are_merged_by_time_and_keep_their_own_order);
    tcase_add_test(t, of_one_number_the_one_that_a_later_file_names_wins);
    tcase_add_test(t, two_newest_of_one_number_refuse_the_table_naming_both);
    tcase_add_test(t, two_spellings_of_one_version_are_two_files_of_one_number);
    tcase_add_test(t, what_a_left_over_file_names_does_not_count);
    tcase_add_test(t, a_later_file_that_names_both_or_none_decides_nothing);
    tcase_add_test(t, names_that_begin_alike_are_not_taken_for_each_other);
    tcase_add_test(t, a_bare_uuid_beside_versions_is_a_scratch_file);
}

static void add_rows(TCase *t)
{
    tcase_add_test(t, one_new_current_snapshot_is_one_row_at_its_own_time);
    tcase_add_test(t, a_file_without_new_snapshot_moves_the_head_at_last_updated_ms);
    tcase_add_test(t, a_snapshot_that_comes_back_is_not_introduced_again);
    tcase_add_test(t, a_snapshot_of_a_branch_moves_no_head);
    tcase_add_test(t, several_new_snapshots_are_a_row_each_and_one_for_the_head);
    tcase_add_test(t, where_one_file_is_left_its_snapshot_log_still_says_who_was_head);
    tcase_add_test(t, a_current_snapshot_that_the_log_does_not_know_was_head_since_it_was_made);
    tcase_add_test(t, new_snapshots_are_ordered_by_sequence_then_time_then_place);
    tcase_add_test(t, the_same_files_make_the_same_rows_and_later_files_add_to_them);
    tcase_add_test(t, each_row_has_a_uuid_of_its_own);
    tcase_add_test(t, many_files_of_many_snapshots_are_planned);
}

static void add_bad_and_real(TCase *t)
{
    tcase_add_test(t, one_bad_file_refuses_its_table_unless_bad_ones_are_skipped);
    tcase_add_test(t, a_bad_file_among_suspects_is_no_suspect);
    tcase_add_test(t, running_out_of_memory_is_not_the_files_fault);
    tcase_add_test(t, a_table_of_bad_files_only_is_refused);
    tcase_add_test(t, what_is_no_file_is_a_bad_file);
    tcase_add_test(t, another_tables_file_refuses_the_table_naming_both);
    tcase_add_test(t, a_table_without_any_uuid_is_planned);
    tcase_add_test(t, our_tables_have_the_expected_files_snapshots_and_heads);
    tcase_add_test(t, our_snapshots_are_introduced_by_the_first_file_that_has_them);
    tcase_add_test(t, real_tables_and_files_have_the_outcomes_of_their_readme);
    tcase_add_loop_test(t, real_broken_files_are_refused_naming_file_and_field, 0, COUNT(refusals));
    tcase_add_test(t, a_real_table_with_a_bad_file_is_planned_without_it);
    tcase_add_test(t, the_whole_folder_of_real_data_is_a_tree);
}

Suite *import_plan_suite(void)
{
    Suite *s = suite_create("import_plan");
    TCase *t = tcase_create("import_plan");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    add_finding(t);
    add_order(t);
    add_rows(t);
    add_bad_and_real(t);
    suite_add_tcase(s, t);
    return s;
}
