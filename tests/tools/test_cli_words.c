/*
 * What skadectl and skaded say: the thing, what is wrong with it, and the cure; with shared memory and without the same.
 */
#include <check.h>

#include "cli_run.h"

#include <stdio.h>
#include <string.h>

static void assert_said(int exit, const char *words)
{
    ck_assert_msg(cli.exit == exit, "exit code %d, not %d: %s%s", cli.exit, exit, cli.out, cli.err);
    ck_assert_msg(strstr(cli.err, words) != NULL, "no \"%s\" in: %s", words, cli.err);
}

static void assert_not_said(const char *words)
{
    ck_assert_msg(strstr(cli.err, words) == NULL, "\"%s\" in: %s", words, cli.err);
}

/* As the manual's ways to ask: through the map, and over the socket. */
static const char *const ways[] = { "", "SKADE_SHM=no " };

/* Commits of snapshots 1..N at s3://b/1.json ..., of 1..N seconds after 1970. */
static void make_table(const char *name, int n)
{
    ck_assert_int_eq(ctl("create '%s' --location s3://b", name), 0);
    for (int i = 1; i <= n; i++)
        ck_assert_int_eq(ctl("commit %s s3://b/%d.json --snapshot %d --time %d000000", name, i, i, i), 0);
}

/* ---- questions ---------------------------------------------------------------------------------------------------------- */

START_TEST(a_time_before_the_first_commit_names_it_also_when_it_is_retired)
{
    make_table("f.f", 2);
    ck_assert_int_eq(ctl("expire f.f --snapshot 1"), 0);
    ck_assert_int_eq(ctl("reindex"), 0);
    cli_shell("%s$CTL as-of f.f 5", ways[_i]);
    assert_said(3, "as-of: f.f: no commit up to 1970-01-01T00:00:00.000005Z: its earliest is of "
                   "1970-01-01T00:00:01.000000Z (sequence number 2)");
}
END_TEST

START_TEST(a_time_in_a_table_without_commits_is_told_alike)
{
    make_table("f.f", 0);
    ck_assert_int_eq(ctl("reindex"), 0);
    cli_shell("%s$CTL as-of f.f 5", ways[_i]);
    assert_said(3, "as-of: f.f: no commit up to 1970-01-01T00:00:00.000005Z\n");
}
END_TEST

START_TEST(what_is_expired_says_by_which_event)
{
    make_table("t", 3);
    ck_assert_int_eq(ctl("expire t --snapshot 2"), 0);
    cli_shell("%s$CTL resolve t 1 --json", ways[_i]);
    assert_said(6, "resolve: t 1: it was retired, by event 5 or one before it\n");
    ck_assert_ptr_nonnull(strstr(cli.out, "\"seq\":\"2\",\"retired_by\":\"5\""));
    cli_shell("%s$CTL as-of t 1500000", ways[_i]);
    assert_said(6, "as-of: t: snapshot 1 was retired, by event 5 or one before it\n");
}
END_TEST

START_TEST(what_is_missing_comes_with_a_cure)
{
    make_table("t", 1);
    make_table("empty", 0);
    ctl("resolve nobody 1");
    assert_said(3, "resolve: nobody: no such table: `skadectl tables` lists them\n");
    ctl("head nobody");
    assert_said(3, "head: nobody: no such table: `skadectl tables` lists them\n");
    ctl("drop nobody");
    assert_said(3, "drop: nobody: no such table: `skadectl tables` lists them\n");
    ctl("resolve t 7");
    assert_said(3, "resolve: t 7: no such snapshot: `skadectl history t` lists them\n");
    ctl("head empty");
    assert_said(3, "head: empty: no commit yet: `skadectl commit`");
    ctl("rename empty t");
    assert_said(4, "choose another name or drop it");
    ctl("commit t s3://b/2.json --base s3://b/7.json");
    assert_said(4, "begin again from there");
    ctl("backup copy && $CTL backup copy");
    assert_said(4, "copy: File exists: choose another name");
}
END_TEST

START_TEST(without_a_daemon_resolve_names_its_socket)
{
    char socket[128];

    snprintf(socket, sizeof socket, "%s/run/default.sock", cli_dir());
    make_table("t", 1);
    cli_stop_daemon();
    cli_shell("SKADE_SHM=no $CTL resolve t 1");
    assert_said(5, socket);
    cli_shell("printf 't 1\\nt 2\\n' | SKADE_SHM=no $CTL resolve --stdin");
    assert_said(5, socket);
    cli_shell("$CTL resolve t 1 9"); /* the map still knows one of them */
    assert_said(5, socket);
    cli_start_daemon();
}
END_TEST

/* ---- changes ------------------------------------------------------------------------------------------------------------ */

START_TEST(a_bad_commit_is_named_by_its_table_alone)
{
    make_table("a.b", 0);
    ctl("commit a.b ''");
    assert_said(2, "commit: a.b: location: it is empty\n");
}
END_TEST

START_TEST(a_refused_release_names_line_and_table)
{
    make_table("t", 1);
    make_table("a.b", 1);
    ctl("printf '\\n{\"table\":\"t\",\"location\":\"x\"}\\n "
        "\\n\\n{\"table\":\"a.b\",\"location\":\"y\",\"base\":\"z\"}\\n' "
        "| release");
    assert_said(4, "release: line 5 (a.b): the head is s3://b/1.json\n");
    ctl("printf '\\n{\"table\":\"a.b\",\"location\":\"y\",\"base\":\"z\"}\\n' | release");
    assert_said(4, "release: line 2 (a.b): the head is s3://b/1.json\n");
    ctl("printf '{\"table\":\"nobody\",\"location\":\"y\"}\\n' | release");
    assert_said(3, "release: line 1: nobody: no such table: `skadectl tables` lists them\n");
}
END_TEST

START_TEST(an_expiry_of_nothing_says_why)
{
    make_table("t", 0);
    for (int i = 3; i > 0; i--) /* the oldest commit has the newest time */
        ck_assert_int_eq(ctl("commit t s3://b/%d --snapshot %d --time %d000000", i, i, i), 0);
    ctl("expire t --before 2500000");
    assert_said(0, "expire: t: nothing was retired: the oldest commit that is left isn't before that time");
    ck_assert_str_eq(cli.out, "-\n");
    ck_assert_int_eq(ctl("expire t --snapshot 3"), 0);
    ck_assert_str_eq(cli.err, "");
    ctl("expire t --snapshot 3");
    assert_said(0, "expire: t: nothing was retired: that snapshot was retired before\n");
}
END_TEST

/* ---- import ------------------------------------------------------------------------------------------------------------- */

/* Version V of a table with snapshots 11, 22 ... in DIR/metadata/NAME; the file before it, if any, is LOGGED. */
static void write_metadata(const char *dir, const char *name, int v, int uuid, const char *logged)
{
    char text[4096], path[256], log[256] = "";
    int n;

    if (logged)
        snprintf(log, sizeof log, "\"metadata-log\":[{\"timestamp-ms\":1,\"metadata-file\":\"s3://x/%s\"}],",
                 logged);
    n = snprintf(text, sizeof text,
                 "{\"format-version\":2,\"table-uuid\":\"9c12d441-03fe-4693-9a96-a0705ddf69%02d\","
                 "\"location\":\"s3://x\","
                 "\"last-updated-ms\":%d,\"current-snapshot-id\":%d,%s\"snapshots\":[",
                 uuid, v * 1000, v * 11, log);
    for (int i = 1; i <= v; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s{\"snapshot-id\":%d,\"timestamp-ms\":%d}",
                      i > 1 ? "," : "", i * 11, i * 1000);
    snprintf(text + n, sizeof text - (size_t)n, "]}");
    cli_shell("mkdir -p %s/metadata", dir);
    snprintf(path, sizeof path, "%s/metadata/%s", dir, name);
    cli_write(path, text);
}

START_TEST(imports_at_once_add_each_file_once)
{
    for (int v = 1; v <= 9; v++) {
        char name[32];
        snprintf(name, sizeof name, "v%d.metadata.json", v);
        write_metadata("shop/orders", name, v, 10, NULL);
    }
    for (int round = 0; round < 4; round++) {
        cli_shell("for i in 1 2 3 4 5 6; do $CTL import shop/orders --table t%d >out.$i & done; wait; "
                  "cat out.* | awk '{ n += $3; m += $4 } END { print NR, n, m }'",
                  round);
        ck_assert_msg(strcmp(cli.out, "6 9 9\n") == 0, "%s%s", cli.out, cli.err);
        cli_shell("$CTL history t%d | grep -c commit", round);
        ck_assert_str_eq(cli.out, "9\n");
    }
}
END_TEST

START_TEST(what_an_import_refuses_is_named_with_its_place)
{
    write_metadata("shop/orders", "v1.metadata.json", 1, 10, NULL);
    write_metadata("x/shop/orders", "v1.metadata.json", 1, 11, NULL);
    ck_assert_int_eq(ctl("import shop/orders"), 0);
    ctl("import x");
    assert_said(1, "x/shop/orders/metadata: this name is taken by another table");
    cli_shell("cp shop/orders/metadata/v1.metadata.json loose.json; $CTL import loose.json");
    assert_said(1, "/loose.json: only what is in a table's metadata/");
}
END_TEST

START_TEST(a_leftover_is_told_once)
{
    write_metadata("s/t", "00001-a.metadata.json", 1, 10, NULL);
    write_metadata("s/t", "00001-b.metadata.json", 1, 10, NULL);
    ctl("import s");
    assert_said(1, "move the other one away");
    write_metadata("s/t", "00002-c.metadata.json", 2, 10, "00001-a.metadata.json");
    ctl("import s");
    assert_said(0, "00001-b.metadata.json: left over by a failed commit");
    assert_not_said("leftover");
}
END_TEST

START_TEST(a_file_name_that_is_no_text_is_named)
{
    write_metadata("s/t", "v1.metadata.json", 1, 10, NULL);
    cli_shell("cp s/t/metadata/v1.metadata.json \"$(printf 's/t/metadata/v2.\\377.metadata.json')\"; $CTL "
              "import s");
    assert_said(1, "v2.\\xff.metadata.json: its location is not UTF-8\n");
    ctl("import s --skip-bad");
    assert_said(0, "left out: ");
    ck_assert_str_eq(cli.out, "s.t\t1\t1\t1\t11\n");
}
END_TEST

START_TEST(a_version_beyond_64_bits_makes_no_older_file_the_head)
{
    write_metadata("s/t", "v1.metadata.json", 1, 10, NULL);
    write_metadata("s/t", "v18446744073709551616.metadata.json", 2, 10, NULL);
    ctl("import s");
    assert_said(1, "v18446744073709551616.metadata.json: the number in its name is too large");
    ctl("head s.t");
    ck_assert_int_eq(cli.exit, 3);
}
END_TEST

/* ---- skaded ------------------------------------------------------------------------------------------------------------- */

START_TEST(skaded_names_what_it_does_not_understand_once)
{
    cli_shell("${CTL%%ctl}d --bogus");
    assert_said(2, "skaded: there is no option --bogus; skaded --help lists them\n");
    cli_shell("${CTL%%ctl}d --bogus=1");
    assert_said(2, "skaded: there is no option --bogus; skaded --help lists them\n");
    cli_shell("${CTL%%ctl}d --rebuild-threshold");
    assert_said(2, "--rebuild-threshold needs a value");
    cli_shell("${CTL%%ctl}d --rebuild-threshold=abc");
    assert_said(2, "skaded: rebuild_threshold: 'abc' is not a number");
}
END_TEST

START_TEST(bytes_of_a_configuration_file_are_shown_harmless)
{
    cli_shell("printf 'bogus\\033[2J\\377 = 1\\n' >bad.conf; ${CTL%%ctl}d --config bad.conf --check-config");
    assert_said(2, "there is no option 'bogus?[2J?'");
}
END_TEST

Suite *cli_words_suite(void);
Suite *cli_words_suite(void)
{
    Suite *s = suite_create("cli_words");
    TCase *t = tcase_create("cli_words");

    if (!cli_is_built()) {
        puts("skipped: skadectl and skaded aren't built");
        return s;
    }
    tcase_set_timeout(t, 120);
    tcase_add_unchecked_fixture(t, cli_begin, cli_end);
    tcase_add_checked_fixture(t, cli_setup, cli_teardown);
    tcase_add_loop_test(t, a_time_before_the_first_commit_names_it_also_when_it_is_retired, 0, 2);
    tcase_add_loop_test(t, a_time_in_a_table_without_commits_is_told_alike, 0, 2);
    tcase_add_loop_test(t, what_is_expired_says_by_which_event, 0, 2);
    tcase_add_test(t, what_is_missing_comes_with_a_cure);
    tcase_add_test(t, without_a_daemon_resolve_names_its_socket);
    tcase_add_test(t, a_bad_commit_is_named_by_its_table_alone);
    tcase_add_test(t, a_refused_release_names_line_and_table);
    tcase_add_test(t, an_expiry_of_nothing_says_why);
    tcase_add_test(t, imports_at_once_add_each_file_once);
    tcase_add_test(t, what_an_import_refuses_is_named_with_its_place);
    tcase_add_test(t, a_leftover_is_told_once);
    tcase_add_test(t, a_file_name_that_is_no_text_is_named);
    tcase_add_test(t, a_version_beyond_64_bits_makes_no_older_file_the_head);
    tcase_add_test(t, skaded_names_what_it_does_not_understand_once);
    tcase_add_test(t, bytes_of_a_configuration_file_are_shown_harmless);
    suite_add_tcase(s, t);
    return s;
}
