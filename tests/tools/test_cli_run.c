/*
 * skadectl against a real daemon: columns, exit codes, pipes, what goes wrong.
 */
#include <check.h>

#include "cli_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last run ended so and printed just this. */
static void assert_ran(int exit, const char *out)
{
    ck_assert_msg(cli.exit == exit, "exit code %d, not %d: %s%s", cli.exit, exit, cli.out, cli.err);
    ck_assert_str_eq(cli.out, out);
}

/* It failed so, printed nothing, and said one line with WORDS. */
static void assert_failed(int exit, const char *words)
{
    assert_ran(exit, "");
    ck_assert_msg(strstr(cli.err, words) != NULL, "no \"%s\" in: %s", words, cli.err);
    ck_assert_msg(strncmp(cli.err, "skadectl: ", 10) == 0, "not from skadectl: %s", cli.err);
    ck_assert_msg(strchr(cli.err, '\n') == cli.err + strlen(cli.err) - 1, "not one line: %s", cli.err);
}

/* An external table with commits of snapshots 1..N at s3://b/1.json ..., of 1..N seconds after 1970. */
static void make_table(const char *name, int n)
{
    ck_assert_int_eq(ctl("create '%s' --location s3://b", name), 0);
    for (int i = 1; i <= n; i++)
        ck_assert_int_eq(ctl("commit %s s3://b/%d.json --snapshot %d --time %d000000", name, i, i, i), 0);
}

START_TEST(a_commit_is_resolved_and_is_the_head)
{
    make_table("shop.orders", 2);
    ctl("resolve shop.orders 2 1");
    assert_ran(0, "shop.orders\t2\ts3://b/2.json\nshop.orders\t1\ts3://b/1.json\n");
    ctl("head shop.orders");
    assert_ran(0, "shop.orders\t2\t3\t1970-01-01T00:00:02.000000Z\ts3://b/2.json\n");
    ctl("as-of shop.orders 1970-01-01T00:00:01.5Z");
    assert_ran(0, "shop.orders\t1\t2\t1970-01-01T00:00:01.000000Z\ts3://b/1.json\n");
    ctl("tables");
    assert_ran(0, "shop.orders\texternal\t2\t2\t3\ts3://b/2.json\n");
    ctl("history shop.orders --limit 2");
    assert_ran(0, "3\t1970-01-01T00:00:02.000000Z\tcommit\t2\ts3://b/2.json\n"
                  "2\t1970-01-01T00:00:01.000000Z\tcommit\t1\ts3://b/1.json\n");
}
END_TEST

START_TEST(json_has_the_columns_as_keys)
{
    make_table("t", 1);
    ctl("--json resolve t 1 7");
    assert_ran(
        3, "{\"table\":\"t\",\"snapshot\":\"1\",\"location\":\"s3://b/"
           "1.json\",\"status\":\"found\",\"seq\":\"2\","
           "\"retired_by\":null}\n"
           "{\"table\":\"t\",\"snapshot\":\"7\",\"location\":null,\"status\":\"no_snapshot\",\"seq\":null,"
           "\"retired_by\":null}\n");
    ctl("head t --json");
    assert_ran(0, "{\"table\":\"t\",\"snapshot\":\"1\",\"seq\":\"2\",\"time\":\"1000000\",\"location\":\"s3:/"
                  "/b/1.json\"}\n");
    ctl("tables --json");
    assert_ran(0, "{\"table\":\"t\",\"kind\":\"external\",\"snapshots\":1,\"snapshot\":\"1\",\"seq\":\"2\","
                  "\"location\":\"s3://b/1.json\",\"time\":\"1000000\"}\n");
    ctl("drop t --json");
    assert_ran(0, "{\"seq\":\"3\"}\n");
}
END_TEST

START_TEST(ids_are_signed_and_have_their_full_range)
{
    make_table("t", 0);
    ctl("commit t s3://b/min --snapshot -9223372036854775808");
    assert_ran(0, "2\n");
    ctl("commit t s3://b/max --snapshot=9223372036854775807");
    assert_ran(0, "3\n");
    ctl("resolve t -9223372036854775808 9223372036854775807");
    assert_ran(0, "t\t-9223372036854775808\ts3://b/min\nt\t9223372036854775807\ts3://b/max\n");
    ctl("resolve t 9223372036854775808");
    assert_failed(2, "9223372036854775808 is outside the signed 64-bit range");
    ctl("commit t s3://b/x --snapshot 9876543210123456789");
    assert_failed(2, "--snapshot 9876543210123456789 is outside");
    ctl("resolve t 12x");
    assert_failed(2, "12x is not a number");
}
END_TEST

START_TEST(a_lost_race_is_a_conflict_and_says_the_head)
{
    make_table("t", 1);
    ctl("commit t s3://b/2.json --base s3://b/1.json --snapshot 2");
    assert_ran(0, "3\n");
    ctl("commit t s3://b/3.json --base s3://b/1.json --snapshot 3");
    ck_assert_int_eq(cli.exit, 4);
    ck_assert_ptr_nonnull(strstr(cli.err, "s3://b/2.json"));
    ctl("commit t s3://b/3.json --base - --snapshot 3");
    ck_assert_int_eq(cli.exit, 4);
    ctl("create u --location s3://u");
    ctl("commit u s3://b/u.json --base s3://b/1.json");
    ck_assert_int_eq(cli.exit, 4);
    ck_assert_ptr_nonnull(strstr(cli.err, "no commit yet"));
    ctl("commit u s3://b/u.json --base -");
    assert_ran(0, "5\n");
    ctl("head u");
    ck_assert_int_eq(cli.exit, 0);
    ck_assert_int_eq(strncmp(cli.out, "u\t-\t5\t", 6), 0);
}
END_TEST

START_TEST(a_side_commit_is_resolved_and_leaves_the_head)
{
    make_table("t", 1);
    ctl("commit t s3://b/side --snapshot 9 --side");
    assert_ran(0, "3\n");
    ctl("resolve t 9");
    assert_ran(0, "t\t9\ts3://b/side\n");
    ctl("head t");
    ck_assert_int_eq(strncmp(cli.out, "t\t1\t2\t", 6), 0);
    ctl("history t --limit 1 --json");
    ck_assert_ptr_nonnull(strstr(cli.out, "\"event\":\"side\""));
    ctl("commit t s3://b/side --side");
    assert_failed(2, "--side needs --snapshot");
}
END_TEST

START_TEST(a_uuid_commits_once)
{
    make_table("t", 0);
    for (int i = 0; i < 2; i++) {
        ctl("commit t s3://b/1 --snapshot 1 --time 5 --uuid 12345678-1234-4321-8888-123456789abc");
        assert_ran(0, "2\n");
    }
    ctl("commit t s3://b/other --snapshot 1 --time 5 --uuid 12345678-1234-4321-8888-123456789abc");
    ck_assert_int_eq(cli.exit, 2);
    ctl("commit t s3://b/1 --uuid 1234");
    assert_failed(2, "--uuid 1234 is not a uuid");
}
END_TEST

START_TEST(what_is_missing_exists_or_is_expired_has_its_exit_code)
{
    make_table("t", 3);
    ctl("resolve nosuch 1");
    ck_assert_int_eq(cli.exit, 3);
    ck_assert_str_eq(cli.out, "nosuch\t1\t-\n");
    ctl("head nosuch");
    assert_failed(3, "nosuch");
    ctl("commit nosuch s3://x");
    assert_failed(3, "nosuch");
    ctl("as-of t 1969-12-31");
    ck_assert_int_eq(cli.exit, 3);
    ck_assert_ptr_nonnull(strstr(cli.err, "1970-01-01T00:00:01"));
    ctl("create t");
    assert_failed(4, "t");
    ctl("expire t --snapshot 2");
    assert_ran(0, "5\n");
    ctl("expire t --snapshot 2");
    assert_ran(0, "-\n");
    ctl("--json resolve t 1 3");
    ck_assert_int_eq(cli.exit, 6);
    ck_assert_ptr_nonnull(
        strstr(cli.out, "\"location\":null,\"status\":\"expired\",\"seq\":\"2\",\"retired_by\":\"5\""));
    ctl("resolve t 1 3 4");
    ck_assert_int_eq(cli.exit, 3);
    ck_assert_str_eq(cli.out, "t\t1\t-\nt\t3\ts3://b/3.json\nt\t4\t-\n");
}
END_TEST

START_TEST(rename_and_drop_say_their_sequence_number)
{
    make_table("a", 1);
    make_table("b", 0);
    ctl("rename a b");
    ck_assert_int_eq(cli.exit, 4);
    ctl("rename a 'name with blanks'");
    assert_ran(0, "4\n");
    ctl("resolve 'name with blanks' 1");
    assert_ran(0, "name with blanks\t1\ts3://b/1.json\n");
    ctl("history 'name with blanks' --json --limit 1");
    ck_assert_ptr_nonnull(strstr(cli.out, "\"event\":\"rename\""));
    ck_assert_ptr_nonnull(strstr(cli.out, "\"old_name\":\"a\""));
    ctl("drop 'name with blanks'");
    assert_ran(0, "5\n");
    ctl("resolve 'name with blanks' 1");
    ck_assert_int_eq(cli.exit, 3);
}
END_TEST

START_TEST(a_stored_table_takes_no_commit)
{
    ctl("create stored");
    assert_ran(0, "1\n");
    ctl("tables");
    assert_ran(0, "stored\tstored\t0\t-\t-\t-\n");
    ctl("commit stored s3://x");
    ck_assert_int_eq(cli.exit, 2);
    ctl("head stored");
    assert_failed(3, "no commit yet");
}
END_TEST

/* ---- pipes ---- */

START_TEST(a_pipe_of_questions_is_answered_in_order)
{
    make_table("t", 3);
    make_table("name with blanks", 0);
    ctl("commit 'name with blanks' s3://blanks --snapshot -5");
    ctl("printf 't 2\\nname with blanks -5\\nt\\t1\\nnosuch 1\\nt 3' | resolve --stdin");
    ck_assert_int_eq(cli.exit, 3);
    ck_assert_str_eq(cli.out, "t\t2\ts3://b/2.json\nname with blanks\t-5\ts3://blanks\nt\t1\ts3://b/1.json\n"
                              "nosuch\t1\t-\nt\t3\ts3://b/3.json\n");
    ctl("printf '' | resolve --stdin");
    assert_ran(0, "");
}
END_TEST

START_TEST(a_pipe_longer_than_many_batches_keeps_its_order)
{
    make_table("t", 3);
    ctl("awk 'BEGIN { for (i = 0; i < 5000; i++) print \"t \" 1 + i %% 4 }' | resolve --stdin");
    ck_assert_int_eq(cli.exit, 3);
    const char *p = cli.out;
    for (int i = 0; i < 5000; i++) {
        char line[64];
        int id = 1 + i % 4;
        int len = id == 4 ? snprintf(line, sizeof line, "t\t4\t-\n")
                          : snprintf(line, sizeof line, "t\t%d\ts3://b/%d.json\n", id, id);
        ck_assert_msg(strncmp(p, line, (size_t)len) == 0, "line %d: %.40s", i, p);
        p += len;
    }
    ck_assert_str_eq(p, "");
}
END_TEST

START_TEST(a_bad_line_is_named_and_the_others_are_answered)
{
    static const char *const bad[] = { "t", "t x", "t 9223372036854775808", "a..b 1", "", " 5", "t 1 " };

    make_table("t", 1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ctl("printf 't 1\\n%s\\nt 1\\n' | resolve --stdin", bad[i]);
        assert_ran(2, "t\t1\ts3://b/1.json\nt\t1\ts3://b/1.json\n");
        ck_assert_msg(strstr(cli.err, "line 2") != NULL, "%s", cli.err);
        ck_assert_ptr_null(strstr(cli.err, "line 1"));
    }
    ctl("head -c 100000 /dev/zero | resolve --stdin");
    assert_failed(2, "line 1");
}
END_TEST

START_TEST(a_line_too_long_is_skipped_wherever_it_ends)
{
    static const int lengths[] = { 2049, 2050, 65531, 65536, 67580, 67584, 67585, 67586, 200000 };

    make_table("t", 1);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        ctl("{ echo t 1; head -c %d /dev/zero; echo; echo t 9; echo x; echo t 1; } | resolve --stdin",
            lengths[i]);
        ck_assert_int_eq(cli.exit, 2);
        ck_assert_str_eq(cli.out, "t\t1\ts3://b/1.json\nt\t9\t-\nt\t1\ts3://b/1.json\n");
        ck_assert_msg(strstr(cli.err, "line 2 is too long") && strstr(cli.err, "line 4: x"), "%s", cli.err);
    }
}
END_TEST

START_TEST(an_answer_comes_before_the_next_question_is_asked)
{
    make_table("t", 2);
    cli_shell("mkfifo in out; $CTL resolve --stdin <in >out & exec 3>in 4<out; "
              "echo t 1 >&3; read -r a <&4; echo t 2 >&3; read -r b <&4; exec 3>&-; wait; echo \"$b $a\"");
    assert_ran(0, "t\t2\ts3://b/2.json t\t1\ts3://b/1.json\n");
}
END_TEST

START_TEST(a_reader_who_went_away_ends_it_quietly)
{
    make_table("t", 1);
    cli_shell("{ yes 't 1' | $CTL resolve --stdin; echo $? >code; } | head -1; cat code");
    assert_ran(0, "t\t1\ts3://b/1.json\n1\n");
    ck_assert_str_eq(cli.err, "");
    cli_shell("{ $CTL watch --since 0; echo $? >code; } | true; cat code");
    ck_assert_str_eq(cli.out, "0\n");
    ck_assert_str_eq(cli.err, "");
}
END_TEST

START_TEST(a_full_disk_is_noticed)
{
    make_table("t", 1);
    ctl("resolve t 1 >/dev/full");
    ck_assert_int_eq(cli.exit, 1);
    ck_assert_ptr_nonnull(strstr(cli.err, "No space left"));
    ctl("resolve t 1 >&-");
    ck_assert_int_eq(cli.exit, 1);
    ctl("tables <&- 2>&-");
    ck_assert_int_eq(cli.exit, 0);
}
END_TEST

/* ---- release ---- */

START_TEST(a_release_is_all_or_none)
{
    make_table("a", 0);
    make_table("b", 0);
    cli_write("good", "{\"table\":\"a\",\"location\":\"s3://a1\",\"snapshot\":\"1\",\"base\":null}\n\n"
                      "{\"table\":\"b\",\"location\":\"s3://b1\",\"snapshot\":-1,\"time\":7}\n"
                      "{\"table\":\"a\",\"location\":\"s3://a2\",\"snapshot\":2,\"base\":\"s3://a1\"}");
    ctl("release good");
    assert_ran(0, "3\t5\t3\n");
    ctl("cat good | release");
    ck_assert_int_eq(cli.exit, 4);
    cli_write(
        "bad",
        "{\"table\":\"a\",\"location\":\"s3://a3\",\"snapshot\":3}\n{\"table\":\"a\",\"locatoin\":\"x\"}\n");
    ctl("release bad");
    assert_failed(2, "line 2: unknown field locatoin");
    cli_write(
        "missing",
        "{\"table\":\"a\",\"location\":\"s3://a3\",\"snapshot\":3}\n{\"table\":\"c\",\"location\":\"x\"}\n");
    ctl("release missing");
    assert_failed(3, "line 2: c");
    ctl("printf '' | release -");
    assert_ran(0, "-\t-\t0\n");
    ctl("release nosuchfile");
    assert_failed(1, "nosuchfile");
    ctl("head a");
    ck_assert_int_eq(strncmp(cli.out, "a\t2\t5\t", 6), 0);
    ctl("resolve a 3");
    ck_assert_int_eq(cli.exit, 3);
}
END_TEST

START_TEST(a_release_of_many_pieces_has_consecutive_numbers)
{
    make_table("t", 0);
    ctl("awk 'BEGIN { for (i = 1; i <= 5000; i++) printf "
        "\"{\\\"table\\\":\\\"t\\\",\\\"location\\\":\\\"s3://%%d\\\","
        "\\\"snapshot\\\":%%d}\\n\", i, i * 7 }' | release");
    assert_ran(0, "2\t5001\t5000\n");
    ctl("resolve t 7 35000");
    assert_ran(0, "t\t7\ts3://1\nt\t35000\ts3://5000\n");
    cli_shell("$CTL history t | awk -F '\\t' '$1 != 5001 - NR + 1 { exit 1 } END { print NR }'");
    assert_ran(0, "5001\n");
    cli_shell("$CTL history t --before 100 --limit 2000 | awk -F '\\t' '$1 != 100 - NR { exit 1 } END { "
              "print NR }'");
    assert_ran(0, "99\n");
}
END_TEST

/* ---- watch ---- */

START_TEST(watch_shows_every_event_from_where_it_is_told)
{
    make_table("a", 1);
    make_table("b", 1);
    ctl("rename a c");
    ctl("drop b");
    ctl("watch --since 0 --count 6 --json");
    ck_assert_int_eq(cli.exit, 0);
    static const char *const words[] = { "create", "commit", "create", "commit", "rename", "drop" };
    const char *p = cli.out;
    for (int i = 0; i < 6; i++) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "{\"seq\":\"%d\",", i + 1);
        ck_assert_msg(strncmp(p, wanted, strlen(wanted)) == 0, "%s", p);
        snprintf(wanted, sizeof wanted, "\"event\":\"%s\"", words[i]);
        ck_assert_msg(strstr(p, wanted) != NULL, "%s", p);
        p = strchr(p, '\n') + 1;
    }
    cli_shell("$CTL watch --since 0 --count 3 --table c | cut -f 1,3,4");
    assert_ran(0, "1\tcreate\ta\n2\tcommit\ta\n5\trename\tc\n");
    ctl("watch --since 2 --count 0");
    assert_ran(0, "");
    ctl("watch --table nosuch --count 1");
    assert_failed(3, "nosuch");
    ctl("watch --timeout 0.1");
    assert_failed(7, "nothing came");
}
END_TEST

START_TEST(watch_follows_events_as_they_come)
{
    make_table("t", 1);
    cli_shell("mkfifo out; $CTL watch --since 2 >out & exec 4<out; "
              "for i in 5 6 7; do $CTL commit t s3://b/$i --snapshot $i >/dev/null; read -r line <&4; echo "
              "\"$line\"; done "
              "| cut -f 1,3-6; kill -INT $!; wait $!");
    ck_assert_str_eq(cli.out,
                     "3\tcommit\tt\t5\ts3://b/5\n4\tcommit\tt\t6\ts3://b/6\n5\tcommit\tt\t7\ts3://b/7\n");
    ck_assert_str_eq(cli.err, "");
}
END_TEST

/* ---- administration ---- */

START_TEST(the_daemon_is_looked_after)
{
    make_table("t", 3);
    ctl("ping");
    ck_assert_int_eq(cli.exit, 0);
    ck_assert_int_gt(atoi(cli.out), 0);
    ctl("reindex --json");
    ck_assert_int_eq(cli.exit, 0);
    ck_assert_int_eq(strncmp(cli.out, "{\"old_generation\":\"", 19), 0);
    cli_shell("$CTL segments | awk -F '\\t' '{ print NF, $7; s += $4 } END { print (s >= 3) }'");
    ck_assert_int_eq(cli.exit, 0);
    ck_assert_ptr_nonnull(strstr(cli.out, "7 yes\n"));
    ck_assert_ptr_nonnull(strstr(cli.out, "\n1\n"));
    cli_shell("$CTL clients | cut -f 1,2");
    ck_assert_ptr_nonnull(strstr(cli.out, "skadectl\t"));
    ctl("verify --full");
    ck_assert_int_eq(cli.exit, 0);
    ck_assert_str_eq(cli.err, "");
    ck_assert_str_ne(cli.out, "");
}
END_TEST

START_TEST(stats_say_first_whether_it_is_alive)
{
    make_table("t", 3);
    ctl("stats");
    ck_assert_int_eq(cli.exit, 0);
    ck_assert_int_eq(strncmp(cli.out, "alive\t1\t-\n", 10), 0);
    ck_assert_ptr_nonnull(strstr(cli.out, "\ncommits\t3\t"));
    ctl("stats 'commit*' uptime --json");
    ck_assert_ptr_nonnull(strstr(cli.out, "{\"name\":\"commits\",\"value\":3,"));
    ck_assert_ptr_null(strstr(cli.out, "connections"));
    ctl("stats nosuch");
    assert_failed(3, "nosuch");
    ctl("stats --prometheus commits");
    ck_assert_ptr_nonnull(strstr(cli.out, "# TYPE skade_commits_total counter\nskade_commits_total 3\n"));
    ck_assert_ptr_nonnull(strstr(cli.out, "\nskade_alive 1\n"));
    cli_shell("$CTL stats --watch 0.05 commits | head -4");
    assert_ran(0, "alive\t1\t-\t-\ncommits\t3\t-\t0.0\nalive\t1\t-\t-\ncommits\t3\t-\t0.0\n");
    ctl("stats --watch 0");
    assert_failed(2, "--watch 0");
}
END_TEST

START_TEST(a_rename_says_the_name_before_in_plain_rows_too)
{
    make_table("t", 1);
    ctl("rename t u");
    cli_shell("$CTL history u --limit 1 | cut -f 3-");
    assert_ran(0, "rename\t-\tt\n");
    cli_shell("$CTL watch --since 2 --count 1 | cut -f 3-");
    assert_ran(0, "rename\tu\t-\tt\n");
    ctl("history u --limit 1 --json");
    ck_assert_ptr_nonnull(strstr(cli.out, "\"location\":null"));
    ck_assert_ptr_nonnull(strstr(cli.out, "\"old_name\":\"t\""));
}
END_TEST

START_TEST(help_says_what_no_rows_at_all_are)
{
    make_table("t", 1);
    ctl("history t --limit 0");
    assert_ran(0, "");
    ctl("watch --since 0 --count 0");
    assert_ran(0, "");
    ctl("history --help");
    ck_assert_ptr_nonnull(strstr(cli.out, "0: none"));
    ctl("watch --help");
    ck_assert_ptr_nonnull(strstr(cli.out, "0: at once"));
}
END_TEST

START_TEST(without_a_daemon_verify_looks_at_the_maps)
{
    make_table("t", 3);
    ctl("reindex");
    cli_stop_daemon();
    ctl("verify");
    ck_assert_int_eq(cli.exit, 5);
    ck_assert_msg(strstr(cli.out, ".root\t") && strstr(cli.out, ".part\t"), "%s", cli.out);
    cli_start_daemon();
    ctl("verify");
    ck_assert_int_eq(cli.exit, 0);
}
END_TEST

START_TEST(without_a_daemon_it_is_unreachable)
{
    make_table("t", 1);
    cli_stop_daemon();
    ctl("ping");
    assert_failed(5, "");
    ctl("commit t s3://x");
    ck_assert_int_eq(cli.exit, 5);
    ctl("--run-dir /nowhere/at/all ping");
    assert_failed(5, "/nowhere/at/all");
    ctl("--instance other ping");
    assert_failed(5, "other");
    ctl("--instance '../x' ping");
    assert_failed(2, "../x");
    cli_start_daemon();
    ctl("resolve t 1");
    assert_ran(0, "t\t1\ts3://b/1.json\n");
}
END_TEST

START_TEST(a_backup_is_restored_into_an_empty_directory)
{
    make_table("t", 3);
    ctl("backup copy");
    ck_assert_int_eq(cli.exit, 0);
    ck_assert_int_eq(strncmp(cli.out, "copy\t4\t", 7), 0);
    ctl("backup copy");
    assert_failed(4, "copy: File exists");
    ctl("restore copy --data-dir %s/data", cli_dir());
    assert_failed(1, "stop it first");
    ctl("restore copy --data-dir %s/other", cli_dir()); /* a daemon runs, but that is not its directory */
    ck_assert_int_eq(cli.exit, 0);
    cli_stop_daemon();
    ctl("restore copy --data-dir %s/data", cli_dir());
    ck_assert_int_eq(cli.exit, 4);
    cli_shell("mv data old; head -c 9000 copy >cut; echo hello >text");
    ctl("restore cut --data-dir %s/data", cli_dir());
    ck_assert_int_eq(cli.exit, 1);
    ctl("restore text --data-dir %s/data", cli_dir());
    assert_failed(1, "text");
    ctl("restore nosuch --data-dir %s/data", cli_dir());
    assert_failed(1, "nosuch");
    ctl("restore copy --data-dir %s/data", cli_dir());
    ck_assert_int_eq(cli.exit, 0);
    ck_assert_ptr_nonnull(strstr(cli.out, "/data/log/skade.db\t4\t"));
    cli_shell("ls -A data/log");
    assert_ran(0, "skade.db\n");
    cli_start_daemon();
    ctl("resolve t 1 2 3");
    assert_ran(0, "t\t1\ts3://b/1.json\nt\t2\ts3://b/2.json\nt\t3\ts3://b/3.json\n");
}
END_TEST

START_TEST(a_damaged_backup_is_refused)
{
    make_table("t", 3);
    ctl("backup copy");
    cli_stop_daemon();
    cli_shell("mv data old; off=$(grep -abo 's3://b/2.json' copy | head -1 | cut -d: -f1); "
              "printf X | dd of=copy bs=1 seek=$((off + 8)) conv=notrunc 2>/dev/null");
    ck_assert_int_eq(cli.exit, 0);
    ctl("restore copy --data-dir %s/data", cli_dir());
    ck_assert_int_eq(cli.exit, 1);
    ck_assert_str_eq(cli.out, "");
    cli_shell("ls -A data 2>&1 >/dev/null | grep -c 'No such file'"); /* not even its directory */
    assert_ran(0, "1\n");
    cli_start_daemon();
}
END_TEST

/* ---- import ---- */

/* A version-2 metadata file V of table-uuid UUID with snapshots 1..V at V seconds each. */
static void write_metadata(const char *dir, int v, int uuid)
{
    char text[4096], name[64];
    int n = 0;

    n += snprintf(
        text + n, sizeof text - (size_t)n,
        "{\"format-version\":2,\"table-uuid\":\"00000000-0000-4000-8000-%012d\",\"location\":\"file:///w/t\","
        "\"last-updated-ms\":%d,\"current-snapshot-id\":%d,\"snapshots\":[",
        uuid, v * 1000, v * 11);
    for (int i = 1; i <= v; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s{\"snapshot-id\":%d,\"timestamp-ms\":%d}",
                      i > 1 ? "," : "", i * 11, i * 1000);
    snprintf(text + n, sizeof text - (size_t)n, "]}");
    cli_shell("mkdir -p %s/metadata", dir);
    snprintf(name, sizeof name, "%s/metadata/v%d.metadata.json", dir, v);
    cli_write(name, text);
}

START_TEST(an_import_adds_what_is_new)
{
    write_metadata("shop.db/orders", 1, 1);
    write_metadata("shop.db/orders", 2, 1);
    ctl("import shop.db/orders");
    assert_ran(0, "shop.orders\t2\t2\t2\t22\n");
    ctl("import shop.db/orders");
    assert_ran(0, "shop.orders\t2\t0\t0\t22\n");
    write_metadata("shop.db/orders", 3, 1);
    ctl("import .");
    assert_ran(0, "shop.orders\t3\t1\t1\t33\n");
    ctl("resolve shop.orders 11 33");
    ck_assert_int_eq(cli.exit, 0);
    char wanted[256];
    snprintf(wanted, sizeof wanted, "shop.orders\t11\tfile://%s/shop.db/orders/metadata/v1.metadata.json\n",
             cli_dir());
    ck_assert_int_eq(strncmp(cli.out, wanted, strlen(wanted)), 0);
    ctl("as-of shop.orders 1970-01-01T00:00:02.5Z");
    ck_assert_ptr_nonnull(strstr(cli.out, "\t22\t"));
    cli_shell("$CTL history shop.orders | wc -l");
    assert_ran(0, "4\n");
}
END_TEST

START_TEST(an_import_refuses_another_table_and_other_locations)
{
    write_metadata("shop/orders", 1, 1);
    write_metadata("x/shop/orders", 1, 2);
    ctl("import shop/orders");
    assert_ran(0, "shop.orders\t1\t1\t1\t11\n");
    ctl("import x/shop/orders");
    assert_failed(1, "--table");
    ctl("import x/shop/orders --table x.orders");
    assert_ran(0, "x.orders\t1\t1\t1\t11\n");
    ctl("import shop/orders --base-uri s3://bucket");
    assert_failed(1, "--base-uri");
    ctl("import shop/orders --base-uri s3://bucket --table copy");
    assert_ran(0, "copy\t1\t1\t1\t11\n");
    ctl("resolve copy 11");
    assert_ran(0, "copy\t11\ts3://bucket/metadata/v1.metadata.json\n");
}
END_TEST

START_TEST(a_bad_file_refuses_its_table_only)
{
    write_metadata("w/a/good", 1, 1);
    write_metadata("w/a/bad", 1, 2);
    write_metadata("w/a/bad", 2, 2);
    cli_write("w/a/bad/metadata/v1.metadata.json", "{\"format-version\":42}");
    ctl("import w");
    ck_assert_int_eq(cli.exit, 1);
    ck_assert_str_eq(cli.out, "a.good\t1\t1\t1\t11\n");
    ck_assert_ptr_nonnull(strstr(cli.err, "v1.metadata.json"));
    ctl("head a.bad");
    ck_assert_int_eq(cli.exit, 3);
    ctl("import --skip-bad w");
    assert_ran(0, "a.bad\t1\t1\t2\t22\na.good\t1\t0\t0\t11\n");
    ck_assert_ptr_nonnull(strstr(cli.err, "v1.metadata.json"));
    write_metadata("w/a/bad", 1, 2); /* repaired: the head stays where it is */
    ctl("import w/a/bad");
    ck_assert_int_eq(cli.exit, 0);
    ctl("head a.bad");
    ck_assert_ptr_nonnull(strstr(cli.out, "v2.metadata.json"));
    ctl("import nosuch");
    ck_assert_int_eq(cli.exit, 1);
    ctl("import --table 'a..b' w");
    assert_failed(2, "a..b");
}
END_TEST

/* ---- hostile arguments ---- */

START_TEST(no_argument_makes_it_stumble)
{
    static const char *const commands[] = { "head %s",
                                            "resolve %s 1",
                                            "create %s",
                                            "drop %s",
                                            "history %s",
                                            "rename %s x",
                                            "tables %s",
                                            "commit t %s",
                                            "as-of t %s",
                                            "expire t --before %s",
                                            "watch --since %s",
                                            "stats %s",
                                            "import --table %s nosuch" };
    static const char *const words[] = {
        "\"$(printf 'a\\377b')\"", "\"$(printf '\\033[2J\\n')\"", "''", "..", "a/b",
        "\"$(printf x%05000d 0)\""
    };

    make_table("t", 1);
    for (size_t c = 0; c < sizeof commands / sizeof commands[0]; c++)
        for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
            char command[256];
            snprintf(command, sizeof command, commands[c], words[w]);
            ctl("%s", command);
            /* Any text may be a prefix or a location, and be right. */
            bool may_work = strncmp(command, "tables", 6) == 0 || strncmp(command, "commit", 6) == 0;
            ck_assert_msg(cli.exit >= !may_work && cli.exit <= 8, "%s: exit code %d %s", command, cli.exit,
                          cli.out);
            for (const char *p = cli.err; *p; p++)
                ck_assert_msg(*p == '\n' || (unsigned char)*p >= 0x20, "%s: a control character: %s", command,
                              cli.err);
            ck_assert_uint_lt(strlen(cli.err), 1500);
        }
}
END_TEST

START_TEST(usage_errors_are_2)
{
    static const char *const wrong[] = {
        "",
        "nosuch",
        "head",
        "head a b",
        "--nosuch ping",
        "ping --nosuch",
        "commit t",
        "expire t",
        "resolve t",
        "resolve",
        "--timeout 0 ping",
        "--timeout x ping",
        "help nosuch",
        "resolve --stdin t 1",
        "create t --location ''",
        "expire t --before 1 --snapshot 1",
        "stats --prometheus --json",
        "as-of t yesterday",
        "history t --limit -1",
        "import",
    };

    make_table("t", 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ctl("%s", wrong[i]);
        ck_assert_msg(cli.exit == 2, "%s: exit code %d, %s", wrong[i], cli.exit, cli.err);
        ck_assert_str_eq(cli.out, "");
    }
    ctl("--version");
    ck_assert_int_eq(cli.exit, 0);
    ctl("head --help");
    ck_assert_int_eq(cli.exit, 0);
    ck_assert_ptr_nonnull(strstr(cli.out, "table snapshot seq time location"));
}
END_TEST

Suite *cli_run_suite(void);

Suite *cli_run_suite(void)
{
    Suite *s = suite_create("cli_run");
    TCase *t = tcase_create("cli_run");

    if (!cli_is_built()) {
        puts("skipped: skadectl and skaded aren't built");
        return s;
    }
    tcase_set_timeout(t, 60);
    tcase_add_unchecked_fixture(t, cli_begin, cli_end);
    tcase_add_checked_fixture(t, cli_setup, cli_teardown);
    tcase_add_test(t, a_commit_is_resolved_and_is_the_head);
    tcase_add_test(t, json_has_the_columns_as_keys);
    tcase_add_test(t, ids_are_signed_and_have_their_full_range);
    tcase_add_test(t, a_lost_race_is_a_conflict_and_says_the_head);
    tcase_add_test(t, a_side_commit_is_resolved_and_leaves_the_head);
    tcase_add_test(t, a_uuid_commits_once);
    tcase_add_test(t, what_is_missing_exists_or_is_expired_has_its_exit_code);
    tcase_add_test(t, rename_and_drop_say_their_sequence_number);
    tcase_add_test(t, a_stored_table_takes_no_commit);
    tcase_add_test(t, a_pipe_of_questions_is_answered_in_order);
    tcase_add_test(t, a_pipe_longer_than_many_batches_keeps_its_order);
    tcase_add_test(t, a_bad_line_is_named_and_the_others_are_answered);
    tcase_add_test(t, a_line_too_long_is_skipped_wherever_it_ends);
    tcase_add_test(t, an_answer_comes_before_the_next_question_is_asked);
    tcase_add_test(t, a_reader_who_went_away_ends_it_quietly);
    tcase_add_test(t, a_full_disk_is_noticed);
    tcase_add_test(t, a_release_is_all_or_none);
    tcase_add_test(t, a_release_of_many_pieces_has_consecutive_numbers);
    tcase_add_test(t, watch_shows_every_event_from_where_it_is_told);
    tcase_add_test(t, watch_follows_events_as_they_come);
    tcase_add_test(t, the_daemon_is_looked_after);
    tcase_add_test(t, stats_say_first_whether_it_is_alive);
    tcase_add_test(t, a_rename_says_the_name_before_in_plain_rows_too);
    tcase_add_test(t, help_says_what_no_rows_at_all_are);
    tcase_add_test(t, without_a_daemon_verify_looks_at_the_maps);
    tcase_add_test(t, without_a_daemon_it_is_unreachable);
    tcase_add_test(t, a_backup_is_restored_into_an_empty_directory);
    tcase_add_test(t, a_damaged_backup_is_refused);
    tcase_add_test(t, an_import_adds_what_is_new);
    tcase_add_test(t, an_import_refuses_another_table_and_other_locations);
    tcase_add_test(t, a_bad_file_refuses_its_table_only);
    tcase_add_test(t, no_argument_makes_it_stumble);
    tcase_add_test(t, usage_errors_are_2);
    suite_add_tcase(s, t);
    return s;
}
