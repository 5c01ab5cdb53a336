/*
 * Rows in: what is committed is there whole, what isn't leaves nothing, and who isn't sure can ask again.
 */
#include "client.h"
#include "content_sum.h"
#include "fake.h"
#include "rows_kit.h"
#include "rowstream.h"

#include "tools/cli_run.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a real daemon: what comes out --------------------------------------------------------------------------- */

START_TEST(rows_of_every_kind_come_out_as_they_went_in)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_appended a = { .size = sizeof a };

    kit_ok(s, skade_append_begin(s, t, NULL));
    kit_ok(s, skade_append_put(s, "", 0, "the empty key", 13));
    kit_ok(s, skade_append_put(s, NULL, 0, "no key", 6));
    kit_ok(s, skade_append_put(s, "empty", 5, NULL, 0));
    kit_ok(s, skade_append_put(s, "twice", 5, "old", 3));
    kit_ok(s, skade_append_put(s, "twice", 5, "new", 3));
    kit_ok(s, skade_append_put(s, "gone", 4, "x", 1));
    kit_ok(s, skade_append_delete(s, "gone", 4));
    kit_ok(s, skade_append_delete(s, "never was", 9));
    kit_ok(s, skade_append_open_row(s, "pieces", 6));
    for (int i = 0; i < 5; i++)
        kit_ok(s, skade_append_write(s, "ab", 2));
    kit_ok(s, skade_append_close_row(s));
    kit_ok(s, skade_append_open_row(s, NULL, 0));
    kit_ok(s, skade_append_close_row(s));
    kit_ok(s, skade_append_commit(s, &a));
    ck_assert_uint_eq(a.rows, 10);
    ck_assert_uint_eq(a.table, t);
    ck_assert_uint_eq(a.seq, 2);
    ck_assert_int_gt(a.snapshot, 0);
    ck_assert_uint_gt(a.bytes, 0);
    kit_rows(s, t, NULL, "=the empty key =no key empty= twice=new pieces=ababababab =");
    skade_close(s);
}
END_TEST

START_TEST(commits_of_one_handle_follow_each_other)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");

    struct skade_appended a = kit_append(s, t, "a=1 b=1 =x");
    struct skade_appended b = kit_append(s, t, "a=2 c! =y b!");
    ck_assert_uint_eq(b.seq, a.seq + 1);
    ck_assert_int_gt(b.time_us, a.time_us);
    kit_rows(s, t, NULL, "=x a=2 =y");
    ck_assert_uint_eq(kit_files(t), 2);
    skade_close(s);
}
END_TEST

START_TEST(an_append_without_rows_commits_nothing)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_appended a = { .size = sizeof a, .seq = 7 };

    kit_ok(s, skade_append_begin(s, t, NULL));
    kit_ok(s, skade_append_commit(s, &a));
    ck_assert_uint_eq(a.seq, 0);
    ck_assert_uint_eq(kit_files(t), 0);
    kit_rows(s, t, NULL, "");
    skade_close(s);
}
END_TEST

static char pattern(uint64_t at)
{
    return (char)(at * 2654435761u >> 13);
}

START_TEST(a_value_of_100_mb_goes_through_in_pieces_and_little_memory)
{
    enum { SIZE = 100000000, CHUNK = 700001 };
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    char *chunk = malloc(CHUNK);
    struct skade_row row = { .size = sizeof row };
    skade_scan *scan;
    skade_cursor *c;

    kit_ok(s, skade_append_begin(s, t, NULL));
    kit_ok(s, skade_append_open_row(s, "big", 3));
    for (uint64_t at = 0; at < SIZE; at += CHUNK) {
        size_t n = SIZE - at < CHUNK ? (size_t)(SIZE - at) : CHUNK;
        for (size_t i = 0; i < n; i++)
            chunk[i] = pattern(at + i);
        kit_ok(s, skade_append_write(s, chunk, n));
        ck_assert_uint_le(s->upload.out.cap, 1 << 20);
    }
    kit_ok(s, skade_append_close_row(s));
    kit_ok(s, skade_append_put(s, "small", 5, "s", 1));
    kit_ok(s, skade_append_commit(s, NULL));
    kit_ok(s, skade_scan_open(s, t, NULL, &scan));
    ck_assert_int_eq(skade_cursor_open(scan, SKADE_OLDEST_FIRST, 0, 1, &c), 0);
    ck_assert_int_eq(skade_cursor_next(c, &row), 1);
    ck_assert_uint_eq(row.value_len, SIZE);
    ck_assert_ptr_null(row.value);
    for (uint64_t at = 0; at < SIZE; at += CHUNK) {
        size_t n = SIZE - at < CHUNK ? (size_t)(SIZE - at) : CHUNK, wrong = 0;
        ck_assert_int_eq(skade_cursor_read(c, at, chunk, n), 0);
        for (size_t i = 0; i < n; i++)
            wrong += chunk[i] != pattern(at + i);
        ck_assert_uint_eq(wrong, 0);
    }
    ck_assert_int_eq(skade_cursor_read(c, SIZE, chunk, 1), SKADE_EINPUT);
    ck_assert_int_eq(skade_cursor_next(c, &row), 1);
    ck_assert_uint_eq(row.value_len, 1);
    skade_cursor_close(c);
    skade_scan_close(scan);
    skade_close(s);
    free(chunk);
}
END_TEST

START_TEST(keys_have_up_to_65535_bytes_and_the_longest_fit_side_by_side)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    char *key = malloc(65536), value[4];
    size_t len;

    memset(key, 'k', 65536);
    kit_ok(s, skade_append_begin(s, t, NULL));
    for (int i = 0; i < 20; i++) {
        key[65534] = (char)('a' + i);
        kit_ok(s, skade_append_put(s, key, 65535, &key[65534], 1));
    }
    kit_ok(s, skade_append_commit(s, NULL));
    key[65534] = 'f';
    ck_assert_int_eq(skade_get(s, t, NULL, key, 65535, value, sizeof value, &len), 1);
    ck_assert_int_eq(value[0], 'f');
    kit_ok(s, skade_append_begin(s, t, NULL));
    ck_assert_int_eq(skade_append_put(s, key, 65536, "x", 1), SKADE_EINPUT);
    ck_assert_int_eq(skade_append_put(s, "k", 1, "x", 1), SKADE_EINPUT); /* it stays failed */
    ck_assert_int_eq(skade_append_commit(s, NULL), SKADE_EINPUT);
    ck_assert_int_eq(skade_append_commit(s, NULL), SKADE_EINPUT); /* and now it is over */
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "no append is open"));
    ck_assert_uint_eq(kit_files(t), 1);
    skade_close(s);
    free(key);
}
END_TEST

/* ---- a real daemon: what is not committed leaves nothing ------------------------------------------------------- */

static void put_much(skade *s, size_t bytes)
{
    static char value[100000];

    for (size_t i = 0; i < bytes; i += sizeof value)
        kit_ok(s, skade_append_put(s, "k", 1, value, sizeof value));
}

START_TEST(an_aborted_append_leaves_nothing_and_the_handle_as_it_was)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");

    skade_append_abort(s); /* there is none */
    for (size_t bytes = 0; bytes <= 3000000; bytes += 1500000) {
        kit_ok(s, skade_append_begin(s, t, NULL));
        put_much(s, bytes);
        skade_append_abort(s);
        ck_assert_int_eq(skade_append_put(s, "k", 1, "v", 1), SKADE_EINPUT);
        ck_assert_int_eq(skade_append_commit(s, NULL), SKADE_EINPUT);
    }
    ck_assert_uint_eq(handle_counter(s, "connects"), 1);
    kit_append(s, t, "k=v");
    kit_rows(s, t, NULL, "k=v");
    ck_assert_uint_eq(kit_files(t), 1);
    skade_close(s);
}
END_TEST

START_TEST(an_append_whose_handle_goes_away_leaves_nothing)
{
    skade *s = kit_open(), *other = kit_open();
    skade_table t = kit_table(s, "t");

    kit_ok(s, skade_append_begin(s, t, NULL));
    put_much(s, 3000000);
    skade_close(s);
    kit_append(other, t, "k=v");
    kit_rows(other, t, NULL, "k=v");
    ck_assert_uint_eq(kit_files(t), 1);
    skade_close(other);
}
END_TEST

START_TEST(misuse_fails_the_append_until_it_is_aborted)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");

    ck_assert_int_eq(skade_append_put(s, "k", 1, "v", 1), SKADE_EINPUT);
    kit_ok(s, skade_append_begin(s, t, NULL));
    ck_assert_int_eq(skade_append_begin(s, t, NULL), SKADE_EINPUT); /* the open one goes on */
    kit_ok(s, skade_append_put(s, "k", 1, "v", 1));
    switch (_i) {
    case 0:
        ck_assert_int_eq(skade_append_write(s, "x", 1), SKADE_EINPUT);
        break;
    case 1:
        ck_assert_int_eq(skade_append_close_row(s), SKADE_EINPUT);
        break;
    case 2:
        kit_ok(s, skade_append_open_row(s, "k", 1));
        ck_assert_int_eq(skade_append_put(s, "k", 1, "v", 1), SKADE_EINPUT);
        break;
    case 3:
        ck_assert_int_eq(skade_append_delete(s, NULL, 0), SKADE_EINPUT);
        break;
    case 4:
        kit_ok(s, skade_append_open_row(s, "k", 1));
        ck_assert_int_eq(skade_append_commit(s, NULL), SKADE_EINPUT);
        kit_ok(s, skade_append_begin(s, t, NULL)); /* a commit ends it either way */
        ck_assert_int_eq(skade_append_close_row(s), SKADE_EINPUT);
        break;
    }
    ck_assert_int_eq(skade_append_put(s, "k", 1, "v", 1), SKADE_EINPUT);
    skade_append_abort(s);
    kit_rows(s, t, NULL, "");
    kit_append(s, t, "a=1");
    kit_rows(s, t, NULL, "a=1");
    skade_close(s);
}
END_TEST

START_TEST(a_fork_takes_no_part_in_what_was_sent)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");

    kit_ok(s, skade_append_begin(s, t, NULL));
    put_much(s, 600000);
    pid_t child = fork();
    if (child == 0) {
        int r = skade_append_commit(s, NULL);
        _exit(r == SKADE_EUNREACHABLE ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &(int){ 0 }, 0), child);
    kit_ok(s, skade_append_commit(s, NULL));
    ck_assert_uint_eq(kit_files(t), 1);
    skade_close(s);
}
END_TEST

/* ---- a real daemon: kinds, uuids ------------------------------------------------------------------------------- */

START_TEST(each_kind_of_table_refuses_the_others_way_in)
{
    skade *s = kit_open();
    skade_table stored = kit_table(s, "stored"), external = kit_external(s, "external");
    struct skade_commit c = {
        .size = sizeof c, .table = stored, .location = "s3://x", .flags = 7, .snapshot = 1
    };
    skade_scan *scan;
    size_t len;

    ck_assert_int_eq(skade_commit(s, &c, NULL, NULL), SKADE_EKIND);
    kit_ok(s, skade_append_begin(s, external, NULL));
    kit_ok(s, skade_append_put(s, "k", 1, "v", 1));
    ck_assert_int_eq(skade_append_commit(s, NULL), SKADE_EKIND);
    kit_ok(s, skade_append_begin(s, 77, NULL));
    ck_assert_int_eq(skade_append_commit(s, NULL), SKADE_ENOTABLE); /* even if there are no rows */
    ck_assert_int_eq(skade_scan_open(s, external, NULL, &scan), SKADE_EKIND);
    ck_assert_int_eq(skade_scan_open(s, 77, NULL, &scan), SKADE_ENOTABLE);
    ck_assert_int_eq(skade_get(s, external, NULL, "k", 1, NULL, 0, &len), SKADE_EKIND);
    ck_assert_int_eq(skade_compact(s, external, NULL, NULL), SKADE_EKIND);
    ck_assert_uint_eq(handle_counter(s, "connects"), 1);
    skade_close(s);
}
END_TEST

START_TEST(a_refusal_is_heard_long_before_the_end)
{
    skade *s = kit_open();
    skade_table external = kit_external(s, "external");
    static char value[100000];
    int r = 0;

    kit_ok(s, skade_append_begin(s, external, NULL));
    while (r == 0)
        r = skade_append_put(s, "k", 1, value, sizeof value);
    ck_assert_int_eq(r, SKADE_EKIND);
    ck_assert_int_eq(skade_append_commit(s, NULL), SKADE_EKIND);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "append is for tables made without"));
    ck_assert_uint_eq(handle_counter(s, "connects"), 1);
    skade_close(s);
}
END_TEST

static int append_as(skade *s, skade_table t, const char *uuid, const char *value, struct skade_appended *ret)
{
    unsigned char bytes[16];

    ck_assert_int_eq(skade_uuid_parse(uuid, bytes), 0);
    *ret = (struct skade_appended){ .size = sizeof *ret };
    kit_ok(s, skade_append_begin(s, t, bytes));
    kit_ok(s, skade_append_put(s, "k", 1, value, strlen(value)));
    return skade_append_commit(s, ret);
}

START_TEST(the_same_uuid_with_the_same_rows_gets_the_first_answer)
{
    static const char *uuid = "12345678-1234-4321-8888-123456789abc";
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_appended a, b, c;

    ck_assert_int_eq(append_as(s, t, uuid, "v", &a), 0);
    ck_assert_int_eq(append_as(s, t, uuid, "v", &b), 0);
    ck_assert_mem_eq(&a, &b, sizeof a);
    ck_assert_int_eq(append_as(s, t, uuid, "w", &c), SKADE_EINPUT);
    ck_assert_int_eq(append_as(s, t, "12345678-1234-4321-8888-123456789abd", "v", &c), 0);
    ck_assert_int_ne(c.snapshot, a.snapshot);
    ck_assert_uint_eq(kit_files(t), 2);
    skade_close(s);
}
END_TEST

/* What was committed stays committed, whatever became of its table: the answer is about the commit. */
START_TEST(an_append_sent_again_gets_its_first_answer_though_its_table_was_dropped)
{
    static const char *uuid = "12345678-1234-4321-8888-123456789abc";
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct skade_appended a, b, c;

    ck_assert_int_eq(append_as(s, t, uuid, "v", &a), 0);
    kit_ok(s, skade_drop(s, "t", NULL));
    if (_i > 0) {
        ck_assert_int_eq(skade_gc(s, t, SKADE_GC_NOW, NULL, NULL), 0);
        ck_assert_uint_eq(kit_files(t), 0);
    }
    if (_i > 1) {
        cli_stop_daemon();
        cli_start_daemon();
    }
    kit_ok(s, append_as(s, t, uuid, "v", &b));
    ck_assert_mem_eq(&a, &b, sizeof a);
    ck_assert_int_eq(append_as(s, t, uuid, "w", &c), SKADE_EINPUT);
    ck_assert_int_eq(append_as(s, t, "12345678-1234-4321-8888-123456789abd", "v", &c), SKADE_ENOTABLE);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "last called t, was dropped by event"));
    ck_assert_uint_eq(kit_files(t), _i > 0 ? 0 : 1);
    skade_close(s);
}
END_TEST

struct appender {
    skade *s;
    skade_table t;
    const char *value;
    struct skade_appended a;
    int result;
    pthread_t thread;
};

static void *run_appender(void *arg)
{
    struct appender *a = arg;
    a->result = append_as(a->s, a->t, "12345678-1234-4321-8888-123456789abc", a->value, &a->a);
    return NULL;
}

static void start_appender(struct appender *a, skade_table t, const char *label, const char *value)
{
    *a = (struct appender){ .s = kit_open_as(label), .t = t, .value = value };
    ck_assert_int_eq(pthread_create(&a->thread, NULL, run_appender, a), 0);
}

static void end_appender(struct appender *a)
{
    pthread_join(a->thread, NULL);
    skade_close(a->s);
}

static int note_second(void *arg, const struct skade_client *c)
{
    if (strcmp(c->label, "second") == 0)
        *(uint64_t *)arg = c->requests;
    return 0;
}

/* HELLO, APPEND_BEGIN, ROWS, APPEND_END: the daemon has all that the second will send. */
static void await_second(skade *s)
{
    uint64_t requests = 0;
    while (requests < 4)
        kit_ok(s, skade_clients(s, note_second, &requests));
}

/* The first holds before its commit; meanwhile the table may be compacted, which gives appends another directory. */
START_TEST(an_append_sent_again_while_it_is_under_way_gets_its_first_answer)
{
    static const char *points[] = { "store.linked", "log.commit", "store.linked", "store.linked" };
    bool compacted = _i == 2, other_rows = _i == 3;
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct appender first, second;

    kit_append(s, t, "a=1");
    kit_hold(points[_i]);
    start_appender(&first, t, "first", "v");
    kit_await(points[_i]);
    int held = kit_keep(points[_i]);
    if (compacted)
        kit_ok(s, skade_compact(s, t, NULL, NULL));
    start_appender(&second, t, "second", other_rows ? "w" : "v");
    await_second(s);
    close(held);
    end_appender(&first);
    end_appender(&second);
    ck_assert_int_eq(first.result, 0);
    ck_assert_int_eq(second.result, other_rows ? SKADE_EINPUT : 0);
    if (!other_rows)
        ck_assert_mem_eq(&first.a, &second.a, sizeof first.a);
    kit_rows(s, t, NULL, "a=1 k=v");
    skade_close(s);
}
END_TEST

/* The first comes to nothing: then the second is the first. */
START_TEST(an_append_that_waited_for_one_that_failed_takes_its_place)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t");
    struct appender first, second;

    kit_hold("store.mark");
    kit_hold("store.unlink");
    start_appender(&first, t, "first", "v");
    kit_await("store.mark");
    int held = kit_keep("store.mark");
    start_appender(&second, t, "second", "v");
    await_second(s);
    kit_point("store.link", "fail 28");
    close(held);
    kit_await("store.unlink");
    kit_point("store.link", NULL);
    kit_let_go("store.unlink");
    end_appender(&first);
    end_appender(&second);
    ck_assert_int_eq(first.result, SKADE_EFULL);
    ck_assert_int_eq(second.result, 0);
    kit_rows(s, t, NULL, "k=v");
    ck_assert_uint_eq(kit_files(t), 1);
    skade_close(s);
}
END_TEST

static void *commit(void *arg)
{
    static int result;
    result = skade_append_commit(arg, NULL);
    return &result;
}

/* The daemon is at work with the end when the connection breaks: as long as it is, it can't say what came of it. */
START_TEST(an_append_whose_connection_breaks_at_the_end_is_not_called_undone_too_early)
{
    if (!kit_has_failpoints())
        return;

    skade *s = kit_open(), *other = kit_open();
    skade_table t = kit_table(other, "t");
    pthread_t thread;
    void *result;

    kit_hold("store.link");
    kit_ok(s, skade_append_begin(s, t, NULL));
    kit_ok(s, skade_append_put(s, "k", 1, "v", 1));
    int fd = s->stream.fd; /* the handle is the thread's from here on */
    ck_assert_int_eq(pthread_create(&thread, NULL, commit, s), 0);
    kit_await("store.link");
    shutdown(fd, SHUT_RDWR);
    ck_assert_int_ge(skade_ping(other), 0);
    kit_let_go("store.link");
    pthread_join(thread, &result);
    int r = *(int *)result;
    ck_assert_msg(r == 0 || r == SKADE_EUNREACHABLE, "%s", skade_errname(r));
    kit_rows(other, t, NULL, r == 0 ? "k=v" : "");
    skade_close(s);
    skade_close(other);
}
END_TEST

START_TEST(other_calls_come_in_between)
{
    skade *s = kit_open();
    skade_table t = kit_table(s, "t"), found;
    char location[] = "s3://x", buffer[100];
    skade_table external = kit_external(s, "external");
    struct skade_commit c = { .size = sizeof c, .table = external, .location = location, .flags = 7 };
    struct skade_answer a = SKADE_ANSWER(buffer, sizeof buffer);
    static char value[30000];

    kit_append(s, t, "first=1");
    kit_ok(s, skade_append_begin(s, t, NULL));
    for (int i = 0; i < 60; i++) {
        c.snapshot = i;
        kit_ok(s, skade_append_put(s, "k", 1, value, sizeof value));
        kit_ok(s, skade_release_add(s, &c, 1));
        kit_ok(s, skade_find_table(s, "t", &found));
        kit_get(s, t, NULL, "first", "1");
        kit_get(s, t, NULL, "k", NULL);
    }
    kit_ok(s, skade_release_end(s, NULL, NULL));
    kit_ok(s, skade_append_commit(s, NULL));
    ck_assert_int_eq(skade_resolve(s, external, 59, &a), 1);
    kit_append(s, t, "k=v");
    kit_get(s, t, NULL, "k", "v");
    ck_assert_uint_eq(handle_counter(s, "connects"), 1);
    skade_close(s);
}
END_TEST

/* ---- a fake daemon: lost answers, hung daemons ------------------------------------------------------------------- */

struct script {
    int lose;             /* APPEND_ENDs that are hung up on */
    bool made;            /* what APPEND_ASK answers */
    bool silent;          /* APPEND_END gets no answer */
    unsigned refuse_rows; /* the ROWS message that is refused, from 1; 0: none */
    struct uuid uuid, asked;
    uint64_t begun; /* request number of APPEND_BEGIN and the ROWS */
    uint64_t rows, bytes;
    int64_t snapshot; /* of what was made; 0: any */
};

static enum fake_verdict answer_appended(struct fake *f, const struct frame_header *h, struct wr *out)
{
    const struct script *script = f->arg;
    size_t at = frame_begin(out);

    wire_put_appended(out, &(struct msg_appended){ .seq = 9,
                                                   .snapshot = script->snapshot ? script->snapshot : 99,
                                                   .rows = script->rows });
    frame_end(out, at, WIRE_APPENDED, 0, h->request);
    return FAKE_SENT;
}

static enum fake_verdict take_rows(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                   struct wr *out)
{
    struct script *script = f->arg;
    struct msg_rows m;
    struct row_record record;

    ck_assert_uint_eq(h->request, script->begun);
    ck_assert_int_eq(wire_read_rows(payload, h->len, &m), 0);
    ck_assert_uint_le(h->len, 256 << 10);
    struct rd r = rd_of(m.records.data, m.records.len);
    while (rowstream_next(&r, &record) == 1) {
        script->rows += !(record.flags & ROW_GOES_ON);
        script->bytes += record.value.len;
    }
    ck_assert_int_eq(rd_done(&r), 0);
    if (f->seen[WIRE_ROWS] + 1 != script->refuse_rows)
        return FAKE_SILENT;
    fake_error(out, h->request, SKADE_EFULL, "no room for rows");
    return FAKE_SENT;
}

static enum fake_verdict play(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                              struct wr *out)
{
    struct script *script = f->arg;
    struct msg_append_begin begin;
    struct msg_append_ask ask;

    switch (h->type) {
    case WIRE_APPEND_BEGIN:
        ck_assert_int_eq(wire_read_append_begin(payload, h->len, &begin), 0);
        script->uuid = begin.uuid;
        script->begun = h->request;
        return FAKE_SILENT;
    case WIRE_ROWS:
        return take_rows(f, h, payload, out);
    case WIRE_APPEND_END:
        if (script->silent)
            return FAKE_SILENT;
        return script->lose-- > 0 ? FAKE_CLOSE : answer_appended(f, h, out);
    case WIRE_APPEND_ASK:
        ck_assert_int_eq(wire_read_append_ask(payload, h->len, &ask), 0);
        script->asked = ask.uuid;
        if (script->made)
            return answer_appended(f, h, out);
        fake_error(out, h->request, SKADE_ENOSNAPSHOT, "no commit has this uuid");
        return FAKE_SENT;
    case WIRE_APPEND_ABORT:
        fake_frame(out, WIRE_DONE, 0, h->request, NULL, 0);
        return FAKE_SENT;
    default:
        return FAKE_DEFAULT;
    }
}

static struct world *one_table(void)
{
    struct world *w = world_make();
    world_create(w, "t");
    return w;
}

START_TEST(a_small_append_is_one_message_of_rows_with_one_number)
{
    struct script script = { .lose = 0 };
    struct fake *f = fake_start(one_table(), play, &script);
    skade *s = world_open(f->world, 0);
    struct skade_appended a = { .size = sizeof a };

    kit_ok(s, skade_append_begin(s, 1, NULL));
    for (int i = 0; i < 1000; i++)
        kit_ok(s, skade_append_put(s, "key", 3, "value", 5));
    ck_assert_uint_eq(f->seen[WIRE_APPEND_BEGIN], 0); /* nothing is sent before there is much of it */
    kit_ok(s, skade_append_commit(s, &a));
    ck_assert_uint_eq(script.rows, 1000);
    ck_assert_uint_eq(script.bytes, 5000);
    ck_assert_uint_eq(f->seen[WIRE_ROWS], 1);
    ck_assert_uint_eq(a.seq, 9);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_long_value_travels_in_pieces_that_fit)
{
    struct script script = { .lose = 0 };
    struct fake *f = fake_start(one_table(), play, &script);
    skade *s = world_open(f->world, 0);
    size_t size = 1500000 + (size_t)_i;
    char *value = calloc(1, size);

    kit_ok(s, skade_append_begin(s, 1, NULL));
    kit_ok(s, skade_append_put(s, "a", 1, value, size));
    kit_ok(s, skade_append_put(s, "b", 1, value, (256 << 10) * 2));
    kit_ok(s, skade_append_commit(s, NULL));
    ck_assert_uint_eq(script.rows, 2);
    ck_assert_uint_eq(script.bytes, size + (256 << 10) * 2);
    skade_close(s);
    fake_stop(f);
    free(value);
}
END_TEST

START_TEST(a_lost_answer_is_asked_for_by_the_uuid)
{
    struct script script = { .lose = 1, .made = _i == 1 };
    struct fake *f = fake_start(one_table(), play, &script);
    skade *s = world_open(f->world, 0);
    struct skade_appended a = { .size = sizeof a };

    kit_ok(s, skade_append_begin(s, 1, NULL));
    kit_ok(s, skade_append_put(s, "k", 1, "v", 1));
    ck_assert_int_eq(skade_append_commit(s, &a), script.made ? 0 : SKADE_EUNREACHABLE);
    ck_assert(uuid_equal(&script.uuid, &script.asked) && !uuid_is_zero(&script.uuid));
    if (script.made) {
        ck_assert_uint_eq(a.seq, 9);
        ck_assert_int_eq(a.snapshot, 99);
        ck_assert_uint_eq(a.rows, 1);
    } else {
        ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "nothing of the append was committed"));
    }
    kit_ok(s, skade_append_begin(s, 1, NULL)); /* the handle is as good as before */
    kit_ok(s, skade_append_commit(s, NULL));
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* The commit that the uuid names may be of other rows, which came before. */
START_TEST(a_lost_answer_to_other_rows_with_the_same_uuid_is_no_success)
{
    static const unsigned char uuid[16] = "sixteen letters";
    struct content_sum *sum = content_sum_make();
    struct script script = { .lose = 3, .made = true };
    struct fake *f = fake_start(one_table(), play, &script);
    skade *s = world_open(f->world, 0);

    content_sum_row(sum, ROW_KEYED, bytes_of("k"));
    content_sum_piece(sum, "v", 1);
    content_sum_row_end(sum);
    memcpy(script.uuid.b, uuid, sizeof uuid);
    script.snapshot = content_snapshot(&script.uuid, content_sum_value(sum));
    for (int i = 0; i < 3; i++) {
        struct skade_appended a = { .size = sizeof a };
        kit_ok(s, skade_append_begin(s, 1, uuid));
        if (i == 1) { /* the same row, otherwise told */
            kit_ok(s, skade_append_open_row(s, "k", 1));
            kit_ok(s, skade_append_write(s, "", 0));
            kit_ok(s, skade_append_write(s, "v", 1));
            kit_ok(s, skade_append_close_row(s));
        } else {
            kit_ok(s, skade_append_put(s, "k", 1, i == 0 ? "v" : "w", 1));
        }
        ck_assert_int_eq(skade_append_commit(s, &a), i < 2 ? 0 : SKADE_EINPUT);
        if (i < 2)
            ck_assert_int_eq(a.snapshot, script.snapshot);
        else
            ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "other rows"));
    }
    kit_ok(s, skade_append_begin(s, 1, uuid)); /* one that is left open goes with its handle */
    kit_ok(s, skade_append_put(s, "k", 1, "v", 1));
    skade_close(s);
    fake_stop(f);
    content_sum_free(sum);
}
END_TEST

static enum fake_verdict leave_at_end(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                      struct wr *out)
{
    if (h->type != WIRE_APPEND_END)
        return play(f, h, payload, out);
    close(f->listening);
    f->listening = -1;
    return FAKE_CLOSE;
}

START_TEST(an_append_whose_daemon_is_gone_or_hung_is_unknown)
{
    struct script script = { .silent = true };
    struct fake *f = fake_start(one_table(), _i == 0 ? leave_at_end : play, &script);
    skade *s = world_open_impatient(f->world, 300);

    world_new_page(f->world); /* its heart doesn't beat */
    world_publish(f->world);
    skade_find_table(s, "t", &(skade_table){ 0 });
    kit_ok(s, skade_append_begin(s, 1, NULL));
    kit_ok(s, skade_append_put(s, "k", 1, "v", 1));
    ck_assert_int_eq(skade_append_commit(s, NULL), SKADE_EUNKNOWN);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "same uuid"));
    ck_assert_int_eq(skade_append_put(s, "k", 1, "v", 1), SKADE_EINPUT); /* it is over */
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_connection_lost_before_the_end_made_nothing)
{
    struct script script = { .lose = 0 };
    struct fake *f = fake_start(one_table(), play, &script);
    struct world *w = f->world;
    skade *s = world_open(w, 0);
    char *value = calloc(1, 300000);

    kit_ok(s, skade_append_begin(s, 1, NULL));
    kit_ok(s, skade_append_put(s, "k", 1, value, 300000));
    fake_stop(f);
    f = fake_start(w, play, &script);
    if (_i == 1)
        ck_assert_int_ge(skade_ping(s), 0); /* reconnects: the handle is fine, the append isn't */
    ck_assert_int_eq(skade_append_put(s, "k", 1, value, 300000), SKADE_EUNREACHABLE);
    ck_assert_int_eq(skade_append_commit(s, NULL), SKADE_EUNREACHABLE);
    ck_assert_uint_eq(f->seen[WIRE_ROWS] + f->seen[WIRE_APPEND_END], 0);
    skade_close(s);
    fake_stop(f);
    free(value);
}
END_TEST

START_TEST(rows_that_were_not_sent_survive_the_connection)
{
    struct script script = { .lose = 0 };
    struct fake *f = fake_start(one_table(), play, &script);
    struct world *w = f->world;
    skade *s = world_open(w, 0);

    kit_ok(s, skade_append_begin(s, 1, NULL));
    kit_ok(s, skade_append_put(s, "k", 1, "v", 1));
    fake_stop(f);
    f = fake_start(w, play, &script);
    kit_ok(s, skade_append_commit(s, NULL));
    ck_assert_uint_eq(script.rows, 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_refused_piece_fails_all_that_follows)
{
    struct script script = { .refuse_rows = 2 };
    struct fake *f = fake_start(one_table(), play, &script);
    skade *s = world_open(f->world, 0);
    static char value[100000];
    int r = 0;

    kit_ok(s, skade_append_begin(s, 1, NULL));
    for (int i = 0; r == 0 && i < 50; i++) {
        r = skade_append_put(s, "k", 1, value, sizeof value);
        skade_ping(s); /* the word about the piece may come in between */
    }
    ck_assert_int_eq(r, SKADE_EFULL);
    ck_assert_int_eq(skade_append_close_row(s), SKADE_EFULL);
    ck_assert_str_eq(skade_errmsg(s), "no room for rows");
    ck_assert_int_eq(skade_append_commit(s, NULL), SKADE_EFULL);
    ck_assert_int_ge(skade_ping(s), 0);
    ck_assert_uint_eq(f->seen[WIRE_APPEND_END], 0);
    ck_assert_uint_eq(f->seen[WIRE_APPEND_ABORT], 1);
    ck_assert_uint_eq(f->connections, 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

Suite *client_append_suite(void);
Suite *client_append_suite(void)
{
    Suite *suite = suite_create("client_append");
    TCase *real = tcase_create("real"), *fake = tcase_create("fake");

    if (kit_fixture(real)) {
        tcase_add_test(real, rows_of_every_kind_come_out_as_they_went_in);
        tcase_add_test(real, commits_of_one_handle_follow_each_other);
        tcase_add_test(real, an_append_without_rows_commits_nothing);
        tcase_add_test(real, a_value_of_100_mb_goes_through_in_pieces_and_little_memory);
        tcase_add_test(real, keys_have_up_to_65535_bytes_and_the_longest_fit_side_by_side);
        tcase_add_test(real, an_aborted_append_leaves_nothing_and_the_handle_as_it_was);
        tcase_add_test(real, an_append_whose_handle_goes_away_leaves_nothing);
        tcase_add_loop_test(real, misuse_fails_the_append_until_it_is_aborted, 0, 5);
        tcase_add_test(real, a_fork_takes_no_part_in_what_was_sent);
        tcase_add_test(real, each_kind_of_table_refuses_the_others_way_in);
        tcase_add_test(real, a_refusal_is_heard_long_before_the_end);
        tcase_add_test(real, the_same_uuid_with_the_same_rows_gets_the_first_answer);
        tcase_add_loop_test(real, an_append_sent_again_gets_its_first_answer_though_its_table_was_dropped, 0,
                            3);
        tcase_add_loop_test(real, an_append_sent_again_while_it_is_under_way_gets_its_first_answer, 0, 4);
        tcase_add_test(real, an_append_that_waited_for_one_that_failed_takes_its_place);
        tcase_add_test(real, an_append_whose_connection_breaks_at_the_end_is_not_called_undone_too_early);
        tcase_add_test(real, other_calls_come_in_between);
        suite_add_tcase(suite, real);
    }
    tcase_set_timeout(fake, 120);
    tcase_add_test(fake, a_small_append_is_one_message_of_rows_with_one_number);
    tcase_add_loop_test(fake, a_long_value_travels_in_pieces_that_fit, 0, 3);
    tcase_add_loop_test(fake, a_lost_answer_is_asked_for_by_the_uuid, 0, 2);
    tcase_add_test(fake, a_lost_answer_to_other_rows_with_the_same_uuid_is_no_success);
    tcase_add_loop_test(fake, an_append_whose_daemon_is_gone_or_hung_is_unknown, 0, 2);
    tcase_add_loop_test(fake, a_connection_lost_before_the_end_made_nothing, 0, 2);
    tcase_add_test(fake, rows_that_were_not_sent_survive_the_connection);
    tcase_add_test(fake, a_refused_piece_fails_all_that_follows);
    suite_add_tcase(suite, fake);
    return suite;
}
