/*
 * What the daemon is told of lookups that memory answered: everything once, at moments that are slow anyway, and never by
 * waiting.
 */
#include "client.h"
#include "fake.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct world *published(void)
{
    struct world *w = world_make();

    w->tails = true;
    world_new_page(w);
    world_create(w, "shop.orders");
    world_commit(w, 1, 10, 100, "s3://orders/10");
    world_publish(w);
    return w;
}

static skade *open_still(struct world *w)
{
    skade *s = world_open(w, 0);

    test_clock_ms = 100000;
    handle_clock(s);
    s->told_at = test_clock_ms;
    return s;
}

static void look(skade *s, int64_t id, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        struct skade_answer a = answer();
        ck_assert_int_eq(skade_resolve(s, 1, id, &a), 1);
        ck_assert(a.flags & SKADE_FROM_MAP);
    }
}

/* The daemon has taken all that was sent before. */
static void ping(skade *s)
{
    ck_assert_int_ge(skade_ping(s), 0);
}

static void await_told(struct fake *f, uint64_t map)
{
    while (f->told_map < map)
        sched_yield();
    ck_assert_uint_eq(f->told_map, map);
}

/* ---- when --------------------------------------------------------------------------------------------------- */

START_TEST(a_new_generation_tells_of_itself_and_of_the_lookups_before)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = open_still(w);

    look(s, 10, 5);
    ping(s);
    ck_assert_uint_eq(f->told_generation, 1);
    ck_assert_uint_eq(f->told_map, 0);
    world_commit(w, 1, 20, 200, "s3://orders/20");
    look(s, 20, 3);
    look(s, 10, 1);
    ping(s);
    ck_assert_uint_eq(f->seen[WIRE_TALLY], 1);
    world_publish(w);
    look(s, 20, 1);
    ping(s);
    ck_assert_uint_eq(f->told_map, 6);
    ck_assert_uint_eq(f->told_tail, 3);
    ck_assert_uint_eq(f->told_generation, 2);
    ck_assert_uint_eq(f->seen[WIRE_TALLY], 2);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_request_tells_at_most_once_a_second)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = open_still(w);

    look(s, 10, 3);
    test_clock_ms += 999;
    ping(s);
    ping(s);
    ck_assert_uint_eq(f->told_map, 0);
    test_clock_ms += 1;
    ping(s); /* which tells */
    ping(s);
    ck_assert_uint_eq(f->told_map, 3);
    test_clock_ms += 5000;
    unsigned tallies = f->seen[WIRE_TALLY];
    ping(s); /* nothing new */
    ping(s);
    ck_assert_uint_eq(f->seen[WIRE_TALLY], tallies);
    ck_assert_uint_eq(handle_counter(s, "tallies"), tallies);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(the_end_tells_the_rest)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = open_still(w);

    look(s, 10, 7);
    skade_close(s);
    await_told(f, 7);
    fake_stop(f);
}
END_TEST

START_TEST(who_lets_go_of_its_maps_tells_that_it_has_none)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = open_still(w);

    look(s, 10, 2);
    skade_quiesce(s);
    ping(s);
    ck_assert_uint_eq(f->told_map, 2);
    ck_assert_uint_eq(f->told_generation, 0);
    look(s, 10, 1);
    ping(s);
    ck_assert_uint_eq(f->told_generation, 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* A batch that is refused in its middle has counted answers of the tail, and no answers. */
START_TEST(a_batch_that_was_refused_halfway_tells_what_it_answered)
{
    static struct skade_answer a[GENERATION_MANY + 1];
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = open_still(w);

    look(s, 10, 1);
    world_commit(w, 1, 20, 200, "s3://orders/20");
    for (size_t i = 0; i < GENERATION_MANY; i++) {
        a[i] = (struct skade_answer)SKADE_ANSWER(NULL, 0);
        a[i].table = 1;
        a[i].snapshot = 20;
    }
    ck_assert_int_eq(skade_resolve_many(s, a, GENERATION_MANY + 1), SKADE_EINPUT);
    world_publish(w);
    look(s, 10, 1);
    ping(s);
    ck_assert_uint_eq(f->told_map, 1);
    ck_assert_uint_eq(f->told_tail, GENERATION_MANY);
    look(s, 10, 3);
    skade_close(s);
    while (f->seen[WIRE_TALLY] < 3)
        sched_yield();
    ck_assert_uint_eq(f->told_map, 5);
    fake_stop(f);
}
END_TEST

/* ---- to whom ------------------------------------------------------------------------------------------------ */

START_TEST(a_daemon_that_does_not_know_it_is_told_nothing)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);

    f->protocol = WIRE_PROTOCOL_TALLY - 1;
    skade *s = open_still(w);
    look(s, 10, 5);
    world_publish(w);
    look(s, 10, 5);
    test_clock_ms += 5000;
    ping(s);
    ping(s);
    skade_quiesce(s);
    ping(s);
    ck_assert_uint_eq(f->seen[WIRE_TALLY], 0);
    ck_assert_uint_eq(f->connections, 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(the_next_daemon_is_told_what_the_last_one_was_not)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = open_still(w);

    look(s, 10, 5);
    test_clock_ms += 1000;
    ping(s);
    ping(s);
    ck_assert_uint_eq(f->told_map, 5);
    fake_stop(f);
    look(s, 10, 2);
    f = fake_start(w, NULL, NULL);
    test_clock_ms += 1000;
    ping(s);
    ping(s);
    ck_assert_uint_eq(f->told_map, 2);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_child_does_not_tell_for_its_parent)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = open_still(w);
    int status;

    look(s, 10, 5);
    pid_t child = fork();
    if (child == 0) {
        bool ok = skade_ping(s) >= 0;
        look(s, 10, 2);
        skade_close(s);
        _exit(ok ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    await_told(f, 2);
    skade_close(s);
    await_told(f, 7);
    fake_stop(f);
}
END_TEST

/* ---- never by waiting --------------------------------------------------------------------------------------- */

/* The handle's connection is a socket that nobody reads but the test.  The test's end. */
static int take_connection(skade *s)
{
    struct stat st;
    int ends[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    ck_assert_int_eq(fstat(ends[0], &st), 0);
    close(s->stream.fd);
    s->stream.fd = ends[0];
    s->stream.dev = st.st_dev;
    s->stream.ino = st.st_ino;
    return ends[1];
}

static size_t fill(int fd, size_t piece)
{
    static const char zeros[4096];
    size_t sum = 0;
    ssize_t n;

    while ((n = send(fd, zeros, piece, MSG_DONTWAIT)) > 0)
        sum += (size_t)n;
    ck_assert_int_eq(errno, EAGAIN);
    return sum;
}

static size_t drain(int fd)
{
    char bytes[4096];
    size_t sum = 0;
    ssize_t n;

    while ((n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        sum += (size_t)n;
    return sum;
}

START_TEST(a_full_socket_holds_no_lookup_up_and_gets_no_half_a_frame)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = open_still(w);
    uint8_t bytes[512];
    struct frame_header h;
    struct msg_tally m;

    look(s, 10, 5);
    uint64_t tallies = handle_counter(s, "tallies");
    int peer = take_connection(s);
    size_t filled = fill(s->stream.fd, 4096);
    filled += fill(s->stream.fd, 1);
    world_publish(w);
    look(s, 10, 4);
    ck_assert_uint_eq(handle_counter(s, "refreshes"), 2);
    ck_assert_uint_eq(handle_counter(s, "tallies"), tallies);
    ck_assert_uint_eq(drain(peer), filled);
    world_publish(w);
    look(s, 10, 1);
    ck_assert_uint_eq(handle_counter(s, "tallies"), tallies + 1);
    ssize_t n = recv(peer, bytes, sizeof bytes, MSG_DONTWAIT);
    ck_assert_int_gt(n, 0);
    ck_assert_int_eq(frame_check(bytes, (size_t)n, &h), 0);
    ck_assert_int_eq(wire_read_tally(bytes + sizeof h, h.len, &m), 0);
    ck_assert_uint_eq(m.map, 9);
    ck_assert_uint_eq(m.epoch, w->epoch);
    ck_assert_uint_eq(m.generation, 3);
    close(peer);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_connection_that_is_gone_is_told_nothing_and_nobody_notices)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = open_still(w);

    look(s, 10, 5);
    close(take_connection(s));
    world_publish(w);
    look(s, 10, 4);
    ck_assert_uint_eq(f->told_map, 0);
    ping(s); /* on another connection, with what was not told */
    test_clock_ms += 1000;
    ping(s);
    ping(s);
    ck_assert_uint_eq(f->told_map, 9);
    ck_assert_uint_eq(f->told_generation, 2);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* A release in the making has the connection for itself: what is told in between is none of its pieces. */
START_TEST(what_is_told_amid_a_release_is_no_piece_of_it)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = open_still(w);
    struct skade_commit c = {
        .size = sizeof c, .table = 1, .flags = SKADE_MOVES_HEAD, .location = "s3://orders/x"
    };
    uint64_t first = 0, last = 0;

    for (unsigned i = 0; i < 5000; i++)
        ck_assert_int_eq(skade_release_add(s, &c, 1), 0);
    look(s, 10, 5);
    world_publish(w);
    look(s, 10, 4);
    for (unsigned i = 0; i < 5000; i++)
        ck_assert_int_eq(skade_release_add(s, &c, 1), 0);
    ck_assert_int_eq(skade_release_end(s, &first, &last), 0);
    ck_assert_uint_eq(last - first, 9999);
    ck_assert_uint_eq(f->told_map, 5);
    skade_close(s);
    fake_stop(f);
}
END_TEST

Suite *client_tally_suite(void);
Suite *client_tally_suite(void)
{
    Suite *suite = suite_create("client_tally");
    TCase *when = tcase_create("when");
    TCase *whom = tcase_create("to whom");
    TCase *waiting = tcase_create("never by waiting");

    tcase_add_test(when, a_new_generation_tells_of_itself_and_of_the_lookups_before);
    tcase_add_test(when, a_request_tells_at_most_once_a_second);
    tcase_add_test(when, the_end_tells_the_rest);
    tcase_add_test(when, who_lets_go_of_its_maps_tells_that_it_has_none);
    tcase_add_test(when, a_batch_that_was_refused_halfway_tells_what_it_answered);
    tcase_add_test(whom, a_daemon_that_does_not_know_it_is_told_nothing);
    tcase_add_test(whom, the_next_daemon_is_told_what_the_last_one_was_not);
    tcase_add_test(whom, a_child_does_not_tell_for_its_parent);
    tcase_add_test(waiting, a_full_socket_holds_no_lookup_up_and_gets_no_half_a_frame);
    tcase_add_test(waiting, a_connection_that_is_gone_is_told_nothing_and_nobody_notices);
    tcase_add_test(waiting, what_is_told_amid_a_release_is_no_piece_of_it);
    suite_add_tcase(suite, when);
    suite_add_tcase(suite, whom);
    suite_add_tcase(suite, waiting);
    return suite;
}
