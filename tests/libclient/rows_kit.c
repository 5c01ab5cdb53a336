#include "rows_kit.h"

#include "tools/cli_run.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char points[64];

/* ---- the daemon ------------------------------------------------------------------------------------------ */

static void begin(void)
{
    cli_begin();
    strcpy(points, "/tmp/skade-points-XXXXXX");
    if (!mkdtemp(points))
        abort();
    setenv("SKADE_FAILPOINT_DIR", points, 1);
}

static void end(void)
{
    cli_end();
    DIR *d = opendir(points);
    for (struct dirent *e; d && (e = readdir(d));)
        unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(points);
}

bool kit_fixture(TCase *t)
{
    if (!cli_is_built())
        return false;
    tcase_set_timeout(t, 120);
    tcase_add_unchecked_fixture(t, begin, end);
    tcase_add_checked_fixture(t, cli_setup, cli_teardown);
    return true;
}

skade *kit_open(void)
{
    return kit_open_as("test");
}

skade *kit_open_as(const char *label)
{
    struct skade_options o = { .size = sizeof o, .timeout_ms = 20000, .label = label };
    skade *s = NULL;

    int r = skade_open(&s, &o);
    ck_assert_msg(r == 0, "%s: %s", skade_errname(r), skade_errmsg(NULL));
    return s;
}

skade_table kit_table(skade *s, const char *name)
{
    skade_table t = 0;

    kit_ok(s, skade_create(s, name, NULL, &t, NULL));
    return t;
}

skade_table kit_external(skade *s, const char *name)
{
    skade_table t = 0;

    kit_ok(s, skade_create(s, name, "s3://bucket/table", &t, NULL));
    return t;
}

/* ---- rows in ------------------------------------------------------------------------------------------------ */

static void put_word(skade *s, const char *word)
{
    const char *value = strchr(word, '=');
    size_t len = strlen(word);

    if (!value) {
        ck_assert_int_eq(word[len - 1], '!');
        kit_ok(s, skade_append_delete(s, word, len - 1));
        return;
    }
    size_t key_len = (size_t)(value - word);
    kit_ok(s, skade_append_put(s, key_len ? word : NULL, key_len, value + 1, strlen(value + 1)));
}

struct skade_appended kit_append(skade *s, skade_table t, const char *text)
{
    struct skade_appended a = { .size = sizeof a };
    char *copy = strdup(text), *rest = copy;

    kit_ok(s, skade_append_begin(s, t, NULL));
    for (char *word; (word = strsep(&rest, " "));)
        put_word(s, word);
    kit_ok(s, skade_append_commit(s, &a));
    free(copy);
    return a;
}

/* ---- rows out ------------------------------------------------------------------------------------------------ */

char *kit_part(skade_scan *scan, unsigned flags, unsigned part, unsigned parts)
{
    struct skade_row row = { .size = sizeof row };
    skade_cursor *c;
    char *text = NULL;
    size_t size;
    int r;

    FILE *f = open_memstream(&text, &size);
    ck_assert_int_eq(skade_cursor_open(scan, flags, part, parts, &c), 0);
    while ((r = skade_cursor_next(c, &row)) == 1)
        fprintf(f, " %.*s=%.*s", (int)row.key_len, row.has_key ? (const char *)row.key : "",
                (int)row.value_len, (const char *)row.value);
    ck_assert_msg(r == 0, "%s: %s", skade_errname(r), skade_cursor_errmsg(c));
    skade_cursor_close(c);
    fclose(f);
    return text;
}

void kit_rows(skade *s, skade_table t, const struct skade_scan_options *options, const char *want)
{
    skade_scan *scan;

    kit_ok(s, skade_scan_open(s, t, options, &scan));
    char *text = kit_part(scan, SKADE_OLDEST_FIRST, 0, 1);
    ck_assert_str_eq(text[0] ? text + 1 : text, want);
    free(text);
    skade_scan_close(scan);
}

void kit_get(skade *s, skade_table t, const struct skade_scan_options *options, const char *key,
             const char *want)
{
    char value[200] = "";
    size_t len = 0;

    int r = skade_get(s, t, options, key, strlen(key), value, sizeof value - 1, &len);
    kit_ok(s, r);
    ck_assert_int_eq(r, want != NULL);
    if (want) {
        ck_assert_uint_eq(len, strlen(want));
        ck_assert_str_eq(value, want);
    }
}

/* ---- files ---------------------------------------------------------------------------------------------------- */

/* Marks go after the answer, some time: they count only when they are asked for. */
static size_t count_names(const char *path, bool marks)
{
    char inner[512];
    size_t n = 0;
    struct stat st;

    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (lstat(inner, &st) == 0)
            n += S_ISDIR(st.st_mode) ? count_names(inner, marks)
                                     : (strstr(e->d_name, ".pending") != NULL) == marks;
    }
    if (d)
        closedir(d);
    return n;
}

static size_t count_of(skade_table t, bool marks)
{
    char path[256];

    snprintf(path, sizeof path, "%s/data/tables/%u", cli_dir(), t);
    return count_names(path, marks);
}

size_t kit_files(skade_table t)
{
    return count_of(t, false);
}

void kit_await_settled(skade_table t)
{
    while (count_of(t, true) != 0)
        poll(NULL, 0, 1);
}

int64_t kit_bytes(skade_table t, unsigned n)
{
    char path[256];
    struct stat st;
    int64_t bytes = 0;

    snprintf(path, sizeof path, "%s/data/tables/%u/%u", cli_dir(), t, n);
    DIR *d = opendir(path);
    if (!d)
        return -1;
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.' && !strstr(e->d_name, ".pending") &&
            fstatat(dirfd(d), e->d_name, &st, 0) == 0)
            bytes += st.st_size;
    closedir(d);
    return bytes;
}

void kit_await_no_dir(skade_table t, unsigned n)
{
    while (kit_bytes(t, n) >= 0)
        poll(NULL, 0, 1);
}

void kit_await_files(skade_table t, size_t n)
{
    while (kit_files(t) != n)
        poll(NULL, 0, 1);
}

/* ---- fail points ---------------------------------------------------------------------------------------------- */

bool kit_has_failpoints(void)
{
#ifdef SKADE_FAILPOINTS
    return true;
#else
    printf("skipped: built without fail points\n");
    return false;
#endif
}

static const char *point_path(const char *point)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/%s", points, point);
    return path;
}

void kit_hold(const char *point)
{
    ck_assert_int_eq(mkfifo(point_path(point), 0600), 0);
}

void kit_await(const char *point)
{
    int fd = open(point_path(point), O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

int kit_keep(const char *point)
{
    int fd = open(point_path(point), O_WRONLY | O_CLOEXEC); /* returns when who is held reads */
    ck_assert_int_ge(fd, 0);
    unlink(point_path(point));
    return fd;
}

void kit_let_go(const char *point)
{
    close(kit_keep(point));
}

void kit_point(const char *point, const char *text)
{
    char fresh[128];

    if (!text) {
        ck_assert_int_eq(unlink(point_path(point)), 0);
        return;
    }
    snprintf(fresh, sizeof fresh, "%s/.new", points);
    FILE *f = fopen(fresh, "we");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
    ck_assert_int_eq(rename(fresh, point_path(point)), 0); /* there is no moment with half of it */
}

char *kit_point_text(const char *point)
{
    char text[128] = "";

    FILE *f = fopen(point_path(point), "re");
    ck_assert_ptr_nonnull(f);
    ck_assert_ptr_nonnull(fgets(text, sizeof text, f));
    fclose(f);
    return strdup(text);
}
