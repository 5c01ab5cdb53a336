/*
 * What 200 attached clients that do nothing cost when a generation is published: a release of 1024 commits, until the
 * index has them, with and without them in turn.  Clients find out by themselves, at their next question, so it should be
 * nothing.
 *
 * It is told in the processor time of the daemon's loop, which is the thread that has clients: whoever else computes
 * meanwhile, and merges of parts on its workers, which come at some publications and not at others, don't count.
 */
#include "bench.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLIENTS 200
#define PUBLICATIONS 4 /* of one measurement */

/* ---- the clients, in a process of their own ------------------------------------------------------------------------ */

/* Each has asked once, and so has mapped the generation. */
static void attach_all(skade **clients)
{
    static char locations[LOCATION_ROOM];

    for (int i = 0; i < CLIENTS; i++) {
        struct skade_answer a = SKADE_ANSWER(locations, sizeof locations);
        clients[i] = daemon_open(0);
        check(skade_resolve(clients[i], 1, 0, &a), "resolve", clients[i]);
    }
}

static void leave_all(skade **clients)
{
    for (int i = 0; i < CLIENTS; i++)
        skade_close(clients[i]);
}

/* 'a': attach, 'l': leave; each is answered when it is done. */
static _Noreturn void be_clients(int orders, int answers_fd)
{
    skade *clients[CLIENTS];
    char order;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(orders, &order, 1) == 1) {
        if (order == 'a')
            attach_all(clients);
        else
            leave_all(clients);
        if (write(answers_fd, &order, 1) != 1)
            break;
    }
    _exit(0);
}

struct crowd {
    pid_t pid;
    int orders, answers;
};

static struct crowd crowd_start(void)
{
    int orders[2], back[2];
    struct crowd c;

    if (pipe(orders) < 0 || pipe(back) < 0)
        die("pipe: %s", strerror(errno));
    fflush(NULL);
    c.pid = fork();
    if (c.pid < 0)
        die("fork: %s", strerror(errno));
    if (c.pid == 0) {
        close(orders[1]);
        close(back[0]);
        be_clients(orders[0], back[1]);
    }
    close(orders[0]);
    close(back[1]);
    c.orders = orders[1];
    c.answers = back[0];
    return c;
}

static void crowd_do(const struct crowd *c, char order)
{
    char done;

    if (write(c->orders, &order, 1) != 1 || read(c->answers, &done, 1) != 1)
        die("the idle clients are gone");
}

static void crowd_stop(const struct crowd *c)
{
    close(c->orders);
    close(c->answers);
    waitpid(c->pid, NULL, 0);
}

/* ---- publications --------------------------------------------------------------------------------------------------- */

static int take_covered(void *arg, const struct skade_segment *segment)
{
    uint64_t *covered = arg;

    *covered = segment->is_root ? segment->to_seq : *covered;
    return 0;
}

/* Wake up when files of shared memory come or go. */
static int watch_files(void)
{
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

    if (fd < 0 || inotify_add_watch(fd, place_shm_dir(), IN_CREATE | IN_MOVED_TO | IN_DELETE) < 0)
        die("inotify of %s: %s", place_shm_dir(), strerror(errno));
    return fd;
}

/* Looks at shared memory: a question would cost the daemon something.  A new generation's files come before its word and
 * those of an old one go after it, so there is something to wake up for; if there is nothing old, the poll's end does. */
static void await_covered(skade *s, int files, uint64_t seq)
{
    char events[4096];
    uint64_t covered = 0;

    while (skade_segments(s, take_covered, &covered) < 0 || covered < seq) {
        poll(&(struct pollfd){ .fd = files, .events = POLLIN }, 1, 50);
        while (read(files, events, sizeof events) > 0)
            ;
    }
}

/* Milliseconds of the loop's processor time for each of N publications of 1024 commits. */
static double publish(skade *s, const struct history *h, uint64_t *from, int n)
{
    int files = watch_files();
    double began = daemon_loop_ns();

    for (int i = 0; i < n; i++, *from += WINDOW)
        await_covered(s, files, history_release(s, h, *from, WINDOW));
    double took = (daemon_loop_ns() - began) * 1e-6 / n;
    close(files);
    return took;
}

/* They come or go, and the daemon is done with that. */
static void change_crowd(const struct crowd *c, char order, skade *s, const struct history *h, uint64_t *from)
{
    crowd_do(c, order);
    publish(s, h, from, 1);
}

void stage_idle(const struct history *h, int reps)
{
    double without[REPS_MAX], with[REPS_MAX];
    uint64_t from = history_rows(h);
    struct crowd c = crowd_start();
    skade *s = daemon_open(0);

    publish(s, h, &from, 1);
    for (int rep = 0; rep < reps; rep++) {
        end_if_interrupted();
        if (rep % 2 == 0) /* in turns: which comes first may matter */
            without[rep] = publish(s, h, &from, PUBLICATIONS);
        change_crowd(&c, 'a', s, h, &from);
        with[rep] = publish(s, h, &from, PUBLICATIONS);
        change_crowd(&c, 'l', s, h, &from);
        if (rep % 2 == 1)
            without[rep] = publish(s, h, &from, PUBLICATIONS);
    }
    crowd_stop(&c);
    skade_close(s);
    report_figure("idle", "alone", measure_of(without, reps), "ms", ROW_OURS);
    report_figure("idle", "idle_200", measure_of(with, reps), "ms", ROW_OURS);
    goals_of_idle(measure_ratio(with, without, reps));
}
