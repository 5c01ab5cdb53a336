/*
 * Requests and answers when things go wrong in between: lost connections, late and wrong answers, forks,
 * cancellation, host programs that close what isn't theirs.
 */
#include "client.h"
#include "fake.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* A world without files: everything goes over the socket. */
static struct world *unpublished(void)
{
    struct world *w = world_make();
    world_create(w, "shop.orders");
    world_commit(w, 1, 10, 100, "s3://orders/10");
    return w;
}

static int resolve(skade *s, int64_t id)
{
    struct skade_answer a = answer();
    return skade_resolve(s, 1, id, &a);
}

/* ---- broken connections -------------------------------------------------------------------------------- */

/* Hang up on the first *ARG requests that aren't hello. */
static enum fake_verdict hang_up_first(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                       struct wr *out)
{
    int *times = f->arg;

    (void)payload, (void)out;
    if (h->type == WIRE_HELLO || *times == 0)
        return FAKE_DEFAULT;
    --*times;
    return FAKE_CLOSE;
}

START_TEST(a_question_is_asked_once_more_when_the_connection_breaks)
{
    struct world *w = unpublished();
    int times = 1;
    struct fake *f = fake_start(w, hang_up_first, &times);
    skade *s = world_open(w, 0);

    ck_assert_int_eq(resolve(s, 10), 1);
    ck_assert_uint_eq(f->connections, 2);
    ck_assert_uint_eq(handle_counter(s, "requests_again"), 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_question_that_breaks_two_connections_is_given_up)
{
    struct world *w = unpublished();
    int times = 2;
    struct fake *f = fake_start(w, hang_up_first, &times);
    skade *s = world_open(w, 0);

    ck_assert_int_eq(resolve(s, 10), SKADE_EUNREACHABLE);
    ck_assert_uint_eq(f->connections, 2);
    ck_assert_int_eq(resolve(s, 10), 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_connection_that_the_daemon_closed_meanwhile_is_replaced_unseen)
{
    struct world *w = unpublished();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);

    fake_stop(f);
    f = fake_start(w, NULL, NULL);
    ck_assert_int_eq(resolve(s, 10), 1);
    ck_assert_uint_eq(handle_counter(s, "requests_again"), 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* Answer half a frame, then hang up. */
static enum fake_verdict half_an_answer(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                        struct wr *out)
{
    int *times = f->arg;

    (void)payload;
    if (h->type == WIRE_HELLO || *times == 0)
        return FAKE_DEFAULT;
    --*times;
    fake_frame(out, WIRE_PONG, 0, h->request, "12345678", 8);
    out->len -= 3;
    return FAKE_CLOSE;
}

START_TEST(a_refusal_does_not_colour_what_comes_after_it)
{
    struct world *w = unpublished();
    int times = 0;
    struct fake *f = fake_start(w, hang_up_first, &times);
    skade *s = world_open(w, 0);
    skade_table t;

    ck_assert_int_eq(skade_find_table(s, "shop.nobody", &t), 0); /* an ERROR message */
    ck_assert_int_ne(s->refusal.code, 0);
    times = 2;
    ck_assert_int_eq(resolve(s, 10), SKADE_EUNREACHABLE);
    ck_assert_int_eq(skade_find_table(s, "shop.nobody", &t), 0);
    close(s->stream.fd); /* lost before a byte was sent, and after the last look at it */
    s->stream.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(resolve(s, 10), 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(half_an_answer_is_no_answer)
{
    struct world *w = unpublished();
    int times = 1;
    struct fake *f = fake_start(w, half_an_answer, &times);
    skade *s = world_open(w, 0);

    ck_assert_int_ge(skade_ping(s), 0);
    ck_assert_uint_eq(f->connections, 2);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- late answers -------------------------------------------------------------------------------------- */

/* Hold back the answer to the first question and send it before that to the second, if the client lets us. */
static enum fake_verdict answer_late(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                     struct wr *out)
{
    uint64_t *held = f->arg;

    (void)payload;
    if (h->type == WIRE_HELLO)
        return FAKE_DEFAULT;
    if (*held == 0) {
        *held = h->request;
        return FAKE_SILENT;
    }
    fake_frame(out, WIRE_PONG, 0, *held, "late....", 8);
    uint64_t newest = 7;
    fake_frame(out, WIRE_PONG, 0, h->request, &newest, sizeof newest);
    return FAKE_SENT;
}

START_TEST(a_timeout_ends_the_connection_so_that_a_late_answer_answers_nothing)
{
    struct world *w = unpublished();
    uint64_t held = 0;
    struct fake *f = fake_start(w, answer_late, &held);
    skade *s = world_open_impatient(w, 30);

    ck_assert_int_eq(resolve(s, 10), SKADE_ETIMEOUT);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "30 ms"));
    ck_assert_int_eq(s->stream.fd, -1);
    ck_assert_uint_eq(handle_counter(s, "timeouts"), 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(an_answer_to_another_request_breaks_the_connection)
{
    struct world *w = unpublished();
    uint64_t held = 123456;
    struct fake *f = fake_start(w, answer_late, &held);
    skade *s = world_open(w, 0);

    ck_assert_int_eq(skade_ping(s), SKADE_EPROTOCOL);
    ck_assert_int_eq(s->stream.fd, -1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- wrong answers ------------------------------------------------------------------------------------- */

/* What the fake answers with: a type, and the first LEN of these bytes. */
struct scripted {
    uint16_t type;
    uint16_t flags;
    const uint8_t *data;
    size_t len;
};

static enum fake_verdict answer_scripted(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                         struct wr *out)
{
    const struct scripted *a = f->arg;

    (void)payload;
    if (h->type == WIRE_HELLO)
        return FAKE_DEFAULT;
    fake_frame(out, a->type, a->flags, h->request, a->data, a->len);
    return FAKE_SENT;
}

static int ignore_event(void *arg, const struct skade_event *e)
{
    (void)arg, (void)e;
    return 0;
}

static int ignore_table(void *arg, const struct skade_table_info *t)
{
    (void)arg, (void)t;
    return 0;
}

static int ignore_client(void *arg, const struct skade_client *c)
{
    (void)arg, (void)c;
    return 0;
}

static int ignore_counter(void *arg, const char *name, uint64_t value, const char *unit, const char *kind,
                          const char *help)
{
    (void)arg, (void)name, (void)value, (void)unit, (void)kind, (void)help;
    return 0;
}

static int ignore_check(void *arg, const char *object, uint64_t checked, uint64_t damaged, const char *detail)
{
    (void)arg, (void)object, (void)checked, (void)damaged, (void)detail;
    return 0;
}

/* Every call that receives something, by the type that it wants. */
static int64_t call_for(skade *s, uint16_t type)
{
    struct skade_answer a = answer();
    struct skade_commit c = { .size = sizeof c, .table = 1, .location = "s3://x" };
    struct skade_reindexed reindexed = { .size = sizeof reindexed };
    skade_table t;

    switch (type) {
    case WIRE_PONG:
        return skade_ping(s);
    case WIRE_TABLE:
        return skade_find_table(s, "shop.orders", &t);
    case WIRE_ANSWERS:
        return skade_resolve(s, 1, 10, &a);
    case WIRE_EVENTS:
        return skade_commits_since(s, 0, 0, ignore_event, NULL);
    case WIRE_TABLE_LIST:
        return skade_tables(s, "", ignore_table, NULL);
    case WIRE_COMMITTED:
        return skade_commit(s, &c, NULL, NULL);
    case WIRE_CREATED:
        return skade_create(s, "a", NULL, NULL, NULL);
    case WIRE_REINDEXED:
        return skade_reindex(s, &reindexed);
    case WIRE_CLIENT_LIST:
        return skade_clients(s, ignore_client, NULL);
    case WIRE_VERIFIED:
        return skade_verify(s, 0, ignore_check, NULL);
    case WIRE_COUNTERS:
        return skade_stats(s, ignore_counter, NULL);
    case WIRE_BACKUP_END:
        return skade_backup(s, -1, NULL, NULL);
    default:
        return SKADE_EPROTOCOL;
    }
}

/* A good answer of each kind. */
static struct wr good_answer(uint16_t type)
{
    struct wr w = { .error = 0 };
    struct item_answer item = {
        .status = 1, .table = 1, .flags = 4, .snapshot = 10, .seq = 2, .location = bytes_of("s3://x")
    };
    struct item_event event = { .seq = 1,
                                .kind = 2,
                                .table = 1,
                                .name = bytes_of("a"),
                                .text = bytes_of("a"),
                                .text2 = bytes_of("s3://x") };
    struct item_table_row row = {
        .table = 1, .kind = 1, .name = bytes_of("a"), .location = bytes_of("s3://x")
    };
    struct item_client_row client = { .label = bytes_of("somebody") };
    struct item_check_row check = { .object = bytes_of("log"), .detail = bytes_of("") };
    struct item_counter_row counter = { .name = bytes_of("commits"), .value = 1, .unit = bytes_of("") };

    switch (type) {
    case WIRE_PONG:
        wire_put_pong(&w, &(struct msg_pong){ .commit_seq = 1 });
        break;
    case WIRE_TABLE:
        wire_put_table(&w, &(struct msg_table){ .table = 1, .kind = 1 });
        break;
    case WIRE_ANSWERS:
        wire_put_answers(&w, &(struct msg_answers){ .answers = { .count = 1 } });
        wire_put_answer(&w, &item);
        break;
    case WIRE_EVENTS:
        wire_put_events(&w, &(struct msg_events){ .events = { .count = 1 } });
        wire_put_event(&w, &event);
        break;
    case WIRE_TABLE_LIST:
        wire_put_table_list(&w, &(struct msg_table_list){ .tables = { .count = 1 } });
        wire_put_table_row(&w, &row);
        break;
    case WIRE_COMMITTED:
        wire_put_committed(&w, &(struct msg_committed){ .first_seq = 1, .last_seq = 1 });
        break;
    case WIRE_CREATED:
        wire_put_created(&w, &(struct msg_created){ .seq = 1, .table = 1 });
        break;
    case WIRE_REINDEXED:
        wire_put_reindexed(&w, &(struct msg_reindexed){ .generation = 1 });
        break;
    case WIRE_CLIENT_LIST:
        wire_put_client_list(&w, &(struct msg_client_list){ .clients = { .count = 1 } });
        wire_put_client_row(&w, &client);
        break;
    case WIRE_VERIFIED:
        wire_put_verified(&w, &(struct msg_verified){ .rows = { .count = 1 } });
        wire_put_check_row(&w, &check);
        break;
    case WIRE_COUNTERS:
        wire_put_counters(&w, &(struct msg_counters){ .counters = { .count = 1 } });
        wire_put_counter_row(&w, &counter);
        break;
    case WIRE_BACKUP_END:
        wire_put_backup_end(&w, &(struct msg_backup_end){ .seq = 1 });
        break;
    }
    return w;
}

static const uint16_t answer_types[] = { WIRE_PONG,        WIRE_TABLE,     WIRE_ANSWERS,  WIRE_EVENTS,
                                         WIRE_TABLE_LIST,  WIRE_COMMITTED, WIRE_CREATED,  WIRE_REINDEXED,
                                         WIRE_CLIENT_LIST, WIRE_VERIFIED,  WIRE_COUNTERS, WIRE_BACKUP_END };

START_TEST(every_truncation_of_every_answer_is_refused)
{
    struct world *w = unpublished();
    uint16_t type = answer_types[_i];
    struct wr good = good_answer(type);
    struct scripted a = { .type = type, .data = good.data, .len = good.len };
    struct fake *f = fake_start(w, answer_scripted, &a);
    skade *s = world_open(w, 0);

    int64_t r = call_for(s, type);
    ck_assert_msg(r >= 0, "%s: %s", skade_errname((int)r), skade_errmsg(s));
    for (a.len = 0; a.len < good.len; a.len++) {
        r = call_for(s, type);
        ck_assert_msg(r == SKADE_EPROTOCOL, "%zu of %zu bytes: %lld", a.len, good.len, (long long)r);
    }
    ck_assert_uint_eq(handle_counter(s, "protocol_errors"), good.len);
    skade_close(s);
    fake_stop(f);
    wr_fini(&good);
}
END_TEST

START_TEST(an_answer_of_another_type_is_refused)
{
    struct world *w = unpublished();
    struct scripted a = { .flags = 0 };
    struct fake *f = fake_start(w, answer_scripted, &a);
    skade *s = world_open(w, 0);

    for (size_t i = 0; i < ARRAY_SIZE(answer_types); i++) {
        if (answer_types[i] == answer_types[_i])
            continue;
        struct wr other = good_answer(answer_types[i]);
        a = (struct scripted){ .type = answer_types[i], .data = other.data, .len = other.len };
        ck_assert_int_eq(call_for(s, answer_types[_i]), SKADE_EPROTOCOL);
        wr_fini(&other);
    }
    skade_close(s);
    fake_stop(f);
}
END_TEST

static int error_code(int code, const char *message)
{
    struct world *w = unpublished();
    struct wr e = { .error = 0 };
    struct scripted a = { .type = WIRE_ERROR };

    wire_put_error(&e, &(struct msg_error){ .code = code, .message = bytes_of(message) });
    a.data = e.data;
    a.len = e.len;
    struct fake *f = fake_start(w, answer_scripted, &a);
    skade *s = world_open(w, 0);
    int r = (int)skade_ping(s);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), r == SKADE_EPROTOCOL ? "protocol" : message));
    ck_assert(skade_errmsg(s)[0]);
    skade_close(s);
    fake_stop(f);
    wr_fini(&e);
    return r;
}

START_TEST(an_error_must_have_a_code_that_is_one)
{
    static const int good[] = { SKADE_ENOTABLE, SKADE_EFOREIGN, -ENOSPC, -1, -4095 };
    static const int bad[] = { 0, 1, 5001, -5000, -5021, -4096, INT32_MIN, INT32_MAX, -ECONNRESET };

    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        ck_assert_int_eq(error_code(good[i], i % 2 ? "because" : ""), good[i]);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ck_assert_int_eq(error_code(bad[i], "because"), SKADE_EPROTOCOL);
}
END_TEST

static enum fake_verdict answer_strangely(struct fake *f, const struct frame_header *h,
                                          const uint8_t *payload, struct wr *out)
{
    struct item_answer item = { .status = 1, .table = 1, .snapshot = 10, .location = bytes_of("s3://x") };
    char long_location[LOCATION_MAX + 1];
    uint32_t count = 1;

    (void)payload;
    if (h->type == WIRE_HELLO)
        return FAKE_DEFAULT;
    memset(long_location, 'x', sizeof long_location);
    switch (*(int *)f->arg) {
    case 0:
        item.table = 2;
        break;
    case 1:
        item.snapshot = 11;
        break;
    case 2:
        item.status = 2;
        break;
    case 3:
        item.status = 0;
        break;
    case 4:
        item.status = -1;
        break;
    case 5:
        item.location = (struct bytes){ long_location, sizeof long_location };
        break;
    case 6:
        count = 0;
        break;
    case 7:
        count = 2;
        break;
    }
    size_t at = frame_begin(out);
    wire_put_answers(out, &(struct msg_answers){ .answers = { .count = count } });
    for (uint32_t i = 0; i < count; i++)
        wire_put_answer(out, &item);
    frame_end(out, at, WIRE_ANSWERS, 0, h->request);
    return FAKE_SENT;
}

START_TEST(an_answer_must_be_to_the_question)
{
    struct world *w = unpublished();
    int which = _i;
    struct fake *f = fake_start(w, answer_strangely, &which);
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();

    ck_assert_int_eq(skade_resolve(s, 1, 10, &a), SKADE_EPROTOCOL);
    ck_assert_int_eq(a.status, SKADE_EPROTOCOL);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- fork ---------------------------------------------------------------------------------------------- */

START_TEST(a_child_opens_a_connection_of_its_own)
{
    struct world *w = unpublished();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    int status;

    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            int r = resolve(s, 10);
            bool own = handle_counter(s, "forks") == 1 && handle_counter(s, "connects") == 2;
            skade_close(s);
            _exit(r == 1 && own ? 0 : 1);
        }
        ck_assert_int_eq(resolve(s, 10), 1); /* at the same time as the child */
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
        ck_assert_int_eq(resolve(s, 10), 1);
    }
    ck_assert_uint_eq(handle_counter(s, "connects"), 1);
    ck_assert_uint_eq(handle_counter(s, "requests_again"), 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_child_that_only_closes_leaves_the_parents_connection_alone)
{
    struct world *w = unpublished();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);

    pid_t child = fork();
    if (child == 0) {
        skade_close(s);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    ck_assert_int_eq(resolve(s, 10), 1);
    ck_assert_uint_eq(f->connections, 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_grandchild_is_noticed_too)
{
    struct world *w = unpublished();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    int status;

    pid_t child = fork();
    if (child == 0) {
        bool ok = resolve(s, 10) == 1;
        pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(resolve(s, 10) == 1 && handle_counter(s, "forks") == 2 ? 0 : 1);
        waitpid(grandchild, &status, 0);
        _exit(ok && status == 0 && resolve(s, 10) == 1 ? 0 : 1);
    }
    waitpid(child, &status, 0);
    ck_assert_int_eq(status, 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- the host program ---------------------------------------------------------------------------------- */

START_TEST(a_host_that_closes_everything_loses_nothing)
{
    struct world *w = unpublished();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    int number = s->stream.fd, pair[2];
    char byte;

    close(number);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    int theirs = pair[0] == number || pair[1] == number ? number : dup2(pair[0], number);
    int other = pair[1] == number ? pair[0] : pair[1];
    ck_assert_int_eq(resolve(s, 10), 1);
    ck_assert_uint_eq(handle_counter(s, "foreign_fds"), 1);
    ck_assert_int_ge(fcntl(theirs, F_GETFD), 0);
    ck_assert_int_lt(recv(other, &byte, 1, 0), 0);
    ck_assert_int_eq(errno, EAGAIN);
    skade_close(s);
    ck_assert_int_ge(fcntl(theirs, F_GETFD), 0);
    fake_stop(f);
}
END_TEST

static void on_alarm(int signal)
{
    (void)signal;
}

START_TEST(signals_and_errno_do_not_disturb)
{
    struct world *w = unpublished();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct itimerval each = { { 0, 500 }, { 0, 500 } }, none = { { 0, 0 }, { 0, 0 } };
    struct sigaction action = { .sa_handler = on_alarm };

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &each, NULL);
    errno = 4242;
    for (int i = 0; i < 500; i++) {
        ck_assert_int_eq(resolve(s, 10), 1);
        ck_assert_int_eq(resolve(s, 11), 0);
    }
    ck_assert_int_eq(errno, 4242);
    setitimer(ITIMER_REAL, &none, NULL);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(no_sigpipe_is_raised)
{
    struct world *w = unpublished();
    int times = 1;
    struct fake *f = fake_start(w, hang_up_first, &times);
    skade *s = world_open(w, 0);

    signal(SIGPIPE, SIG_DFL);
    ck_assert_int_eq(resolve(s, 10), 1);
    fake_stop(f);
    ck_assert_int_eq(resolve(s, 10), SKADE_EUNREACHABLE);
    skade_close(s);
}
END_TEST

/* ---- cancellation -------------------------------------------------------------------------------------- */

static enum fake_verdict tell_and_wait(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                       struct wr *out)
{
    int *reached = f->arg;

    (void)payload, (void)out;
    if (h->type == WIRE_HELLO)
        return FAKE_DEFAULT;
    char go;
    if (reached[1] >= 0 && write(reached[1], "", 1) == 1 && read(reached[2], &go, 1) == 1)
        reached[1] = -1;
    return FAKE_DEFAULT;
}

static void *resolve_in_a_thread(void *arg)
{
    int r = resolve(arg, 10);
    pthread_testcancel();
    return (void *)(intptr_t)r;
}

START_TEST(a_cancelled_thread_finishes_its_call_first)
{
    struct world *w = unpublished();
    int reached[4], go[2];
    char byte;
    void *result;
    pthread_t thread;

    ck_assert_int_eq(pipe2(reached, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(go, O_CLOEXEC), 0);
    reached[2] = go[0];
    struct fake *f = fake_start(w, tell_and_wait, reached);
    skade *s = world_open(w, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, resolve_in_a_thread, s), 0);
    ck_assert_int_eq(read(reached[0], &byte, 1),
                     1); /* the request is there: the thread waits for its answer */
    pthread_cancel(thread);
    ck_assert_int_eq(write(go[1], "", 1), 1);
    pthread_join(thread, &result);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
    ck_assert_int_eq(resolve(s, 10), 1);
    ck_assert_uint_eq(f->connections, 1); /* nothing was left on the connection */
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- busy handles -------------------------------------------------------------------------------------- */

static int use_the_handle(void *arg, const struct skade_event *e)
{
    (void)e;
    return (int)skade_ping(arg);
}

START_TEST(a_callback_may_not_use_its_handle)
{
    struct world *w = unpublished();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);

    ck_assert_int_eq(skade_commits_since(s, 0, 0, use_the_handle, s), -EBUSY);
    ck_assert_int_ge(skade_ping(s), 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_replaced_log_fails_one_call)
{
    struct world *w = unpublished();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);

    ck_assert_int_eq(resolve(s, 10), 1);
    fake_stop(f);
    world_replace_log(w);
    world_create(w, "other");
    world_commit(w, 1, 11, 100, "s3://other/11");
    f = fake_start(w, NULL, NULL);
    ck_assert_int_eq(resolve(s, 11), SKADE_EREPLACED);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "look tables up again"));
    ck_assert_int_eq(resolve(s, 11), 1);
    ck_assert_int_eq(resolve(s, 10), 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* Without shared memory: what the daemon told in its answers counts, and not only its hello. */
START_TEST(an_older_copy_is_noticed_by_what_the_daemon_told)
{
    for (int told_by = 0; told_by < 3; told_by++) {
        struct world *w = unpublished();
        struct fake *f = fake_start(w, NULL, NULL);
        skade *s = world_open(w, SKADE_NO_SHM);
        uint64_t before = w->seq;
        struct skade_answer a = answer();

        world_commit(w, 1, 77, 100, "s3://later");
        if (told_by == 0)
            ck_assert_int_eq(resolve(s, 77), 1);
        else if (told_by == 1)
            ck_assert_int_eq(skade_head(s, 1, &a), 1);
        else
            ck_assert_int_ge(skade_ping(s), 0);
        fake_stop(f);
        world_go_back(w, before);
        f = fake_start(w, NULL, NULL);
        ck_assert_int_eq(resolve(s, 77), SKADE_EREPLACED);
        ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "look tables up again"));
        ck_assert_int_eq(resolve(s, 77), 0);
        skade_close(s);
        fake_stop(f);
    }
}
END_TEST

Suite *client_ask_suite(void);
Suite *client_ask_suite(void)
{
    Suite *suite = suite_create("client_ask");
    TCase *t = tcase_create("ask");
    int types = (int)ARRAY_SIZE(answer_types);

    tcase_set_timeout(t, 300);
    tcase_add_test(t, a_question_is_asked_once_more_when_the_connection_breaks);
    tcase_add_test(t, a_question_that_breaks_two_connections_is_given_up);
    tcase_add_test(t, a_connection_that_the_daemon_closed_meanwhile_is_replaced_unseen);
    tcase_add_test(t, a_refusal_does_not_colour_what_comes_after_it);
    tcase_add_test(t, half_an_answer_is_no_answer);
    tcase_add_test(t, a_timeout_ends_the_connection_so_that_a_late_answer_answers_nothing);
    tcase_add_test(t, an_answer_to_another_request_breaks_the_connection);
    tcase_add_loop_test(t, every_truncation_of_every_answer_is_refused, 0, types);
    tcase_add_loop_test(t, an_answer_of_another_type_is_refused, 0, types);
    tcase_add_test(t, an_error_must_have_a_code_that_is_one);
    tcase_add_loop_test(t, an_answer_must_be_to_the_question, 0, 8);
    tcase_add_test(t, a_child_opens_a_connection_of_its_own);
    tcase_add_test(t, a_child_that_only_closes_leaves_the_parents_connection_alone);
    tcase_add_test(t, a_grandchild_is_noticed_too);
    tcase_add_test(t, a_host_that_closes_everything_loses_nothing);
    tcase_add_test(t, signals_and_errno_do_not_disturb);
    tcase_add_test(t, no_sigpipe_is_raised);
    if (!HAS_ASAN)
        tcase_add_test(t, a_cancelled_thread_finishes_its_call_first);
    tcase_add_test(t, a_callback_may_not_use_its_handle);
    tcase_add_test(t, a_replaced_log_fails_one_call);
    tcase_add_test(t, an_older_copy_is_noticed_by_what_the_daemon_told);
    suite_add_tcase(suite, t);
    return suite;
}
