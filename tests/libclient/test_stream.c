/*
 * One connection in a process that isn't ours: bytes in any pieces, deadlines, signals, and descriptors
 * that the host program closes or uses for something else.
 */
#include "stream.h"

#include "client.h"
#include "fake.h"
#include "tempdir.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- both ends in the test's hands --------------------------------------------------------------------- */

struct pair {
    struct stream s;
    int other;
};

static int listen_at(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_uint_lt(strlen(path), sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path));
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    return fd;
}

static struct pair connected(void)
{
    char path[300];
    struct errmsg msg;
    struct pair p = { .s = { .fd = -1 } };

    snprintf(path, sizeof path, "%s/s", tempdir());
    int fd = listen_at(path);
    ck_assert_int_eq(stream_open(&p.s, path, geteuid(), deadline_in(20000), &msg), 0);
    p.other = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(p.other, 0);
    close(fd);
    return p;
}

static void disconnect(struct pair *p)
{
    stream_close(&p->s);
    stream_shrink(&p->s);
    close(p->other);
}

static struct wr pong(uint64_t request)
{
    struct wr w = { .error = 0 };
    size_t at = frame_begin(&w);

    wire_put_pong(&w, &(struct msg_pong){ .commit_seq = 7 });
    frame_end(&w, at, WIRE_PONG, 0, request);
    return w;
}

/* ---- frames -------------------------------------------------------------------------------------------- */

START_TEST(a_frame_arrives_whole_however_it_is_cut)
{
    struct pair p = connected();
    struct wr w = pong(1);
    struct frame f;

    for (size_t cut = 1; cut < w.len; cut++) {
        ck_assert_int_eq(send(p.other, w.data, cut, 0), (ssize_t)cut);
        ck_assert_int_eq(stream_receive(&p.s, deadline_in(0), &f), SKADE_ETIMEOUT);
        ck_assert_int_eq(send(p.other, w.data + cut, w.len - cut, 0), (ssize_t)(w.len - cut));
        ck_assert_int_eq(stream_receive(&p.s, deadline_in(20000), &f), 0);
        ck_assert_uint_eq(f.head.type, WIRE_PONG);
        ck_assert_mem_eq(f.payload, w.data + sizeof f.head, f.head.len);
    }
    wr_fini(&w);
    disconnect(&p);
}
END_TEST

START_TEST(frames_that_come_together_are_given_one_by_one)
{
    struct pair p = connected();
    struct wr all = { .error = 0 };
    struct frame f;

    for (uint64_t i = 1; i <= 2000; i++) {
        struct wr w = pong(i);
        wr_bytes(&all, w.data, w.len);
        wr_fini(&w);
    }
    ck_assert_int_eq(send(p.other, all.data, all.len, 0), (ssize_t)all.len);
    for (uint64_t i = 1; i <= 2000; i++) {
        ck_assert_int_eq(stream_receive(&p.s, deadline_in(20000), &f), 0);
        ck_assert_uint_eq(f.head.request, i);
    }
    ck_assert(!stream_has_input(&p.s));
    wr_fini(&all);
    disconnect(&p);
}
END_TEST

START_TEST(every_flipped_bit_of_a_frame_is_noticed)
{
    struct wr w = pong(1);
    struct frame f;

    for (size_t bit = 0; bit < w.len * 8; bit++) {
        struct pair p = connected();
        w.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ck_assert_int_eq(send(p.other, w.data, w.len, 0), (ssize_t)w.len);
        close(p.other); /* a length that became longer must not wait for ever */
        int r = stream_receive(&p.s, deadline_in(20000), &f);
        ck_assert(r == SKADE_EPROTOCOL || r == STREAM_LOST);
        w.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        stream_close(&p.s);
        stream_shrink(&p.s);
    }
    wr_fini(&w);
}
END_TEST

START_TEST(a_frame_longer_than_allowed_is_refused_at_its_header)
{
    struct pair p = connected();
    struct frame_header h = { .len = WIRE_FRAME_MAX + 1, .type = WIRE_PONG };
    struct frame f;

    ck_assert_int_eq(send(p.other, &h, sizeof h, 0), sizeof h);
    ck_assert_int_eq(stream_receive(&p.s, deadline_in(20000), &f), SKADE_EPROTOCOL);
    disconnect(&p);
}
END_TEST

START_TEST(the_longest_frame_arrives)
{
    struct pair p = connected();
    struct wr w = { .error = 0 };
    struct frame f;
    size_t at = frame_begin(&w);

    uint8_t *room = wr_room(&w, WIRE_FRAME_MAX);
    for (size_t i = 0; i < WIRE_FRAME_MAX; i++)
        room[i] = (uint8_t)(i * 7);
    frame_end(&w, at, WIRE_CHUNK, 0, 9);
    if (fork() == 0) {
        for (size_t sent = 0; sent < w.len;)
            sent += (size_t)send(p.other, w.data + sent, w.len - sent, 0);
        _exit(0);
    }
    ck_assert_int_eq(stream_receive(&p.s, deadline_in(10000), &f), 0);
    ck_assert_uint_eq(f.head.len, WIRE_FRAME_MAX);
    ck_assert_mem_eq(f.payload, w.data + sizeof f.head, f.head.len);
    wait(NULL);
    wr_fini(&w);
    disconnect(&p);
}
END_TEST

START_TEST(a_peer_that_leaves_is_lost_and_what_it_said_last_is_heard)
{
    struct pair p = connected();
    struct wr w = pong(1);
    struct frame f;

    ck_assert(stream_is_alive(&p.s));
    ck_assert_int_eq(send(p.other, w.data, w.len, 0), (ssize_t)w.len);
    close(p.other);
    ck_assert(!stream_is_alive(&p.s));
    ck_assert_int_eq(stream_send(&p.s, w.data, w.len, deadline_in(20000)), 1);
    ck_assert_int_eq(stream_receive(&p.s, deadline_in(20000), &f), 0);
    ck_assert_int_eq(stream_receive(&p.s, deadline_in(20000), &f), STREAM_LOST);
    wr_fini(&w);
    stream_close(&p.s);
    stream_shrink(&p.s);
}
END_TEST

/* ---- deadlines ----------------------------------------------------------------------------------------- */

START_TEST(a_peer_that_does_not_read_times_out_and_the_stream_is_cut)
{
    struct pair p = connected();
    static uint8_t much[8 << 20];

    ck_assert_int_eq(stream_send(&p.s, much, sizeof much, deadline_in(20)), SKADE_ETIMEOUT);
    ck_assert(p.s.cut);
    ck_assert(!stream_is_alive(&p.s));
    disconnect(&p);
}
END_TEST

START_TEST(a_peer_that_speaks_while_we_send_is_listened_to)
{
    struct pair p = connected();
    static uint8_t much[8 << 20];
    struct wr w = pong(1);
    struct frame f;

    ck_assert_int_eq(send(p.other, w.data, w.len, 0), (ssize_t)w.len);
    ck_assert_int_eq(stream_send(&p.s, much, sizeof much, deadline_in(10000)), 1);
    ck_assert(p.s.cut);
    ck_assert_int_eq(stream_receive(&p.s, deadline_in(20000), &f), 0);
    wr_fini(&w);
    disconnect(&p);
}
END_TEST

static void on_alarm(int signal)
{
    (void)signal;
}

/* Interrupt everything a thousand times a second, without SA_RESTART. */
static void storm(bool on)
{
    struct itimerval each = { { 0, on ? 1000 : 0 }, { 0, on ? 1000 : 0 } };
    struct sigaction action = { .sa_handler = on_alarm };

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &each, NULL);
}

START_TEST(signals_neither_shorten_nor_lengthen_a_deadline)
{
    struct pair p = connected();
    struct frame f;

    storm(true);
    int64_t before = clock_ms();
    ck_assert_int_eq(stream_receive(&p.s, deadline_in(100), &f), SKADE_ETIMEOUT);
    int64_t took = clock_ms() - before;
    storm(false);
    ck_assert_int_ge(took, 100);
    disconnect(&p);
}
END_TEST

START_TEST(a_full_backlog_is_waited_for)
{
    char path[300];
    struct errmsg msg;
    struct stream waiting[8];
    int r = 0, n = 0;

    snprintf(path, sizeof path, "%s/s", tempdir());
    int fd = listen_at(path);
    for (; n < 8 && r == 0; n++) { /* until nobody accepts any more */
        waiting[n] = (struct stream){ .fd = -1 };
        r = stream_open(&waiting[n], path, geteuid(), deadline_in(10), &msg);
    }
    ck_assert_int_eq(r, SKADE_ETIMEOUT);
    ck_assert_ptr_nonnull(strstr(msg.text, "accepts no connection"));
    pid_t child = fork();
    if (child == 0) {
        poll(NULL, 0, 20); /* long enough that the parent finds the backlog full; right either way */
        for (;;)
            accept(fd, NULL, NULL);
    }
    ck_assert_int_eq(stream_open(&waiting[n - 1], path, geteuid(), deadline_in(10000), &msg), 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    for (int i = 0; i < n; i++)
        stream_close(&waiting[i]);
    close(fd);
}
END_TEST

/* ---- who is there? ------------------------------------------------------------------------------------- */

START_TEST(a_path_that_a_socket_cannot_have_is_refused)
{
    struct stream s = { .fd = -1 };
    struct errmsg msg;
    char path[300];

    for (size_t len = 108; len < sizeof path; len++) {
        memset(path, 'x', len);
        path[0] = '/';
        path[len] = 0;
        ck_assert_int_eq(stream_open(&s, path, 0, deadline_in(10), &msg), SKADE_EINPUT);
        ck_assert_ptr_nonnull(strstr(msg.text, "107 bytes"));
        path[107] = 0;
        ck_assert_int_eq(stream_open(&s, path, 0, deadline_in(10), &msg), SKADE_EUNREACHABLE);
    }
}
END_TEST

START_TEST(what_is_not_a_socket_is_unreachable)
{
    struct stream s = { .fd = -1 };
    struct errmsg msg;
    char path[300];

    snprintf(path, sizeof path, "%s/file", tempdir());
    ck_assert_int_eq(stream_open(&s, path, 0, deadline_in(10), &msg), SKADE_EUNREACHABLE);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    ck_assert_int_eq(stream_open(&s, path, 0, deadline_in(10), &msg), SKADE_EUNREACHABLE);
}
END_TEST

/* A stranger listens at PATH; returns when he does. */
static pid_t stranger(const char *dir, const char *path)
{
    int ready[2];
    char byte;

    ck_assert_int_eq(chmod(dir, 0777), 0);
    ck_assert_int_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        if (setresuid(65500, 65500, 65500) < 0)
            _exit(1);
        int fd = listen_at(path);
        chmod(path, 0777);
        if (write(ready[1], "", 1) != 1 || accept(fd, NULL, NULL) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    return child;
}

START_TEST(a_stranger_at_the_socket_is_refused)
{
    struct stream s = { .fd = -1 };
    struct errmsg msg;
    char path[300];

    if (geteuid() != 0)
        return; /* only root can be a stranger, too */
    const char *dir = tempdir();
    snprintf(path, sizeof path, "%s/s", dir);
    pid_t child = stranger(dir, path);
    ck_assert_int_eq(stream_open(&s, path, 0, deadline_in(20000), &msg), SKADE_EFOREIGN);
    ck_assert_ptr_nonnull(strstr(msg.text, "65500"));
    ck_assert_int_eq(s.fd, -1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}
END_TEST

/* ---- the host program ---------------------------------------------------------------------------------- */

START_TEST(the_socket_never_gets_a_standard_number)
{
    char path[300];
    struct errmsg msg;
    struct stream s = { .fd = -1 };

    snprintf(path, sizeof path, "%s/s", tempdir());
    int fd = fcntl(listen_at(path), F_DUPFD_CLOEXEC, 10);
    int standard[3];
    for (int i = 0; i < 3; i++) {
        standard[i] = fcntl(i, F_DUPFD_CLOEXEC, 20);
        close(i);
    }
    int r = stream_open(&s, path, geteuid(), deadline_in(20000), &msg);
    int number = s.fd;
    bool free_again = fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0 && fcntl(2, F_GETFD) < 0;
    for (int i = 0; i < 3; i++)
        dup2(standard[i], i);
    ck_assert_int_eq(r, 0);
    ck_assert_int_ge(number, 3);
    ck_assert(free_again);
    ck_assert_int_ne(fcntl(number, F_GETFD) & FD_CLOEXEC, 0);
    stream_close(&s);
    close(fd);
}
END_TEST

/* What the host program does to our number: 0 closes it, 1 a pipe takes it, 2 a socket of its own. */
static int take_number(int number, int what, int *other)
{
    int pair[2] = { -1, -1 };

    close(number);
    if (what == 1)
        ck_assert_int_eq(pipe2(pair, O_CLOEXEC | O_NONBLOCK), 0);
    if (what == 2)
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    if (what == 0)
        return -1;
    int mine = what == 1 ? 1 : 0;
    *other = pair[1 - mine];
    if (pair[mine] != number) {
        if (*other == number)
            *other = fcntl(*other, F_DUPFD_CLOEXEC, number + 1);
        ck_assert_int_eq(dup2(pair[mine], number), number);
        close(pair[mine]);
    }
    return number;
}

START_TEST(a_number_that_became_somebody_elses_is_neither_written_nor_read_nor_closed)
{
    struct pair p = connected();
    struct wr w = pong(1);
    struct frame f;
    char byte;
    int other = -1;

    int theirs = take_number(p.s.fd, _i / 4, &other);
    switch (_i % 4) {
    case 0:
        ck_assert_int_eq(stream_send(&p.s, w.data, w.len, deadline_in(20000)), STREAM_LOST);
        break;
    case 1:
        ck_assert_int_eq(stream_receive(&p.s, deadline_in(20000), &f), STREAM_LOST);
        break;
    case 2:
        ck_assert(!stream_is_alive(&p.s));
        break;
    case 3:
        break;
    }
    stream_close(&p.s);
    ck_assert_int_eq(p.s.fd, -1);
    ck_assert_uint_eq(p.s.foreign, 1);
    if (theirs >= 0) {
        ck_assert_int_ge(fcntl(theirs, F_GETFD), 0);
        ck_assert_int_lt(read(other, &byte, 1), 0);
        ck_assert_int_eq(errno, EAGAIN); /* open, and nobody wrote to it */
    }
    wr_fini(&w);
    stream_shrink(&p.s);
    close(p.other);
}
END_TEST

Suite *client_stream_suite(void);
Suite *client_stream_suite(void)
{
    Suite *suite = suite_create("client_stream");
    TCase *t = tcase_create("stream");

    tcase_set_timeout(t, 300);
    tcase_add_test(t, a_frame_arrives_whole_however_it_is_cut);
    tcase_add_test(t, frames_that_come_together_are_given_one_by_one);
    tcase_add_test(t, every_flipped_bit_of_a_frame_is_noticed);
    tcase_add_test(t, a_frame_longer_than_allowed_is_refused_at_its_header);
    tcase_add_test(t, the_longest_frame_arrives);
    tcase_add_test(t, a_peer_that_leaves_is_lost_and_what_it_said_last_is_heard);
    tcase_add_test(t, a_peer_that_does_not_read_times_out_and_the_stream_is_cut);
    tcase_add_test(t, a_peer_that_speaks_while_we_send_is_listened_to);
    tcase_add_test(t, signals_neither_shorten_nor_lengthen_a_deadline);
    tcase_add_test(t, a_full_backlog_is_waited_for);
    tcase_add_test(t, a_path_that_a_socket_cannot_have_is_refused);
    tcase_add_test(t, what_is_not_a_socket_is_unreachable);
    tcase_add_test(t, a_stranger_at_the_socket_is_refused);
    tcase_add_test(t, the_socket_never_gets_a_standard_number);
    tcase_add_loop_test(t, a_number_that_became_somebody_elses_is_neither_written_nor_read_nor_closed, 0, 12);
    suite_add_tcase(suite, t);
    return suite;
}
