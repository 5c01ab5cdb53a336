/*
 * Host programs that aren't nice to the library inside them: they close all descriptors and use the numbers for their
 * own, fork with a handle in use, cancel threads in a call, come and go with threads, exec, interrupt every system call,
 * run without standard descriptors or without any descriptor left.
 *
 * The library's answers stay right, the host's descriptors, errno and signals stay its own.
 *
 *     host          the table shop.orders has snapshot 11 at s3://lake/orders/v1
 *     host fds      (exec'd by itself) how many descriptors above 2 are open
 */
#include "stress.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

static const unsigned kinds[] = { 0, SKADE_NO_SHM };
static const char *const kind_names[] = { "mapped", "socket" };

static int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = -3; /* . and .. and its own */

    if (!dir)
        die("/proc/self/fd: %s", strerror(errno));
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static skade_table find(skade *s)
{
    skade_table table;
    int r = skade_find_table(s, "shop.orders", &table);
    if (r != 1)
        die("find_table: %d %s", r, skade_errmsg(s));
    return table;
}

/* A hit, a miss and a head: what memory knows and what only the daemon knows. */
static void ask(skade *s, skade_table table, const char *when)
{
    char where[64];
    struct skade_answer a = SKADE_ANSWER(where, sizeof where), miss = SKADE_ANSWER(where, sizeof where),
                        head = SKADE_ANSWER(where, sizeof where);

    errno = 1234;
    int r = skade_resolve(s, table, 11, &a);
    if (r != 1 || strcmp(where, "s3://lake/orders/v1") != 0)
        die("%s: a hit gives %d %s: %s", when, r, where, skade_errmsg(s));
    r = skade_resolve(s, table, 99, &miss);
    if (r != 0 || miss.status != SKADE_ENOSNAPSHOT)
        die("%s: a miss gives %d: %s", when, r, skade_errmsg(s));
    r = skade_head(s, table, &head);
    if (r != 1 || strcmp(where, "s3://lake/orders/v1") != 0)
        die("%s: the head is %d %s: %s", when, r, where, skade_errmsg(s));
    int64_t rtt = skade_ping(s);
    if (rtt < 0)
        die_of(s, when, rtt);
    if (errno != 1234)
        die("%s: errno was changed to %d", when, errno);
}

static void done(const char *what)
{
    printf("%s: well\n", what);
    fflush(stdout);
}

/* ---- descriptors --------------------------------------------------------------------------------------------------- */

/* The host's own descriptors, on the lowest free numbers. */
struct own {
    int pair[2]; /* a socket: what is written by mistake can be read at the other end */
    int file;
    struct stat file_stat;
};

static struct own open_own(void)
{
    struct own o;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, o.pair) < 0)
        die("socketpair: %s", strerror(errno));
    o.file = open("/dev/null", O_RDWR);
    fstat(o.file, &o.file_stat);
    return o;
}

static void check_own(const struct own *o, const char *when)
{
    struct stat st;
    char byte;

    for (int i = 0; i < 2; i++)
        if (recv(o->pair[i], &byte, 1, MSG_DONTWAIT) != -1 || errno != EAGAIN)
            die("%s: the library wrote to the host's socket, or closed it", when);
    if (fstat(o->file, &st) < 0 || st.st_ino != o->file_stat.st_ino || st.st_rdev != o->file_stat.st_rdev)
        die("%s: the library closed the host's file", when);
}

static void close_all(void)
{
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
}

static void host_closes_everything(int kind)
{
    skade *s = open_handle(kinds[kind], 5000);
    skade_table table = find(s);

    for (int round = 0; round < 50; round++) {
        close_all();
        struct own o = open_own();
        ask(s, table, "the host closed everything");
        check_own(&o, "the host closed everything");
        if (round % 3 == 0) { /* a socket of the host's where ours is */
            for (int fd = 3; fd < 16; fd++)
                if (fd != o.pair[0] && fd != o.pair[1] && fd != o.file)
                    dup2(o.pair[0], fd);
            ask(s, table, "the host took our number");
            check_own(&o, "the host took our number");
        }
        if (round % 7 == 0)
            skade_quiesce(s);
    }
    close_all();
    struct own o = open_own();
    skade_close(s);
    check_own(&o, "close");
    close_all();
    done(kind_names[kind]);
}

static void no_descriptor_left(int kind)
{
    struct rlimit limit, few;
    skade *s = open_handle(kinds[kind], 2000);
    skade_table table = find(s);
    char where[64];
    struct skade_answer a = SKADE_ANSWER(where, sizeof where);

    getrlimit(RLIMIT_NOFILE, &limit);
    few = limit;
    few.rlim_cur = 3;
    close_all();
    setrlimit(RLIMIT_NOFILE, &few);
    skade_quiesce(s);
    int r = skade_resolve(s, table, 11, &a);
    setrlimit(RLIMIT_NOFILE, &limit);
    if (r >= 0)
        die("without a descriptor a question is answered with %d", r);
    while (skade_resolve(s, table, 11, &a) != 1) /* it doesn't try again at once */
        poll(NULL, 0, 1);
    ask(s, table, "descriptors are there again");
    skade_close(s);
    done("no descriptor left");
}

static void no_standard_descriptors(int kind)
{
    pid_t child = fork_child();

    if (child == 0) {
        for (int fd = 0; fd < 3; fd++)
            close(fd);
        skade *s = open_handle(kinds[kind], 5000);
        ask(s, find(s), "no standard descriptors");
        for (int fd = 0; fd < 3; fd++)
            if (fcntl(fd, F_GETFD) >= 0)
                _exit(2);
        skade_close(s);
        _exit(0);
    }
    int status = reap(child);
    if (status != 0)
        die("without standard descriptors: status %d", status);
    done("no standard descriptors");
}

static void exec_inherits_nothing(int kind)
{
    skade *s = open_handle(kinds[kind], 5000);
    ask(s, find(s), "before exec");

    pid_t child = fork_child();
    if (child == 0) {
        execl("/proc/self/exe", "host", "fds", (char *)NULL);
        _exit(99);
    }
    int status = reap(child);
    if (status != 0)
        die("an exec'd program has %d of our descriptors", status);
    skade_close(s);
    done("exec");
}

/* ---- fork ------------------------------------------------------------------------------------------------------------ */

static void fork_and_use(skade *s, skade_table table, int depth)
{
    pid_t child = fork_child();

    if (child == 0) {
        if (depth > 0)
            fork_and_use(s, table, depth - 1);
        for (int i = 0; i < 50; i++)
            ask(s, table, "in a child");
        skade_close(s);
        _exit(0);
    }
    for (int i = 0; i < 50; i++)
        ask(s, table, "in a parent, while the child asks");
    int status = reap(child);
    if (status != 0)
        die("a child ended with %d", status);
    ask(s, table, "in a parent, after the child");
}

static void fork_with_a_handle(int kind)
{
    skade *s = open_handle(kinds[kind], 5000);
    skade_table table = find(s);
    skade_view *view;
    char where[64];

    if (skade_view_open(s, &view) < 0)
        die_of(s, "view_open", 0);
    for (int i = 0; i < 5; i++)
        fork_and_use(s, table, 2);
    pid_t child = fork_child();
    struct skade_answer a = SKADE_ANSWER(where, sizeof where);
    if (skade_view_resolve(view, table, 11, &a) != 1)
        die("a view after fork, %s", child ? "parent" : "child");
    skade_view_close(view);
    skade_close(s);
    if (child == 0)
        _exit(0);
    if (reap(child) != 0)
        die("the child's view");
    done("fork");
}

/* ---- threads ----------------------------------------------------------------------------------------------------------- */

struct work {
    skade *s;
    skade_table table;
};

#ifndef __SANITIZE_ADDRESS__
static void *ask_for_ever(void *arg)
{
    struct work *w = arg;
    for (;;) {
        ask(w->s, w->table, "in a thread to be cancelled");
        pthread_testcancel();
    }
    return NULL;
}
#endif

static int never_stop(void *arg, const struct skade_event *e)
{
    (void)arg, (void)e;
    return 0;
}

#ifndef __SANITIZE_ADDRESS__
static void *watch_for_ever(void *arg)
{
    struct work *w = arg;
    skade_watch(w->s, 0, -1, never_stop, NULL);
    return NULL;
}

static void cancel_threads(int kind)
{
    struct work w = { .s = open_handle(kinds[kind], 5000) };
    uint64_t state = 5;
    int before;

    w.table = find(w.s);
    ask(w.s, w.table, "before");
    before = count_descriptors();
    for (int round = 0; round < 150; round++) {
        pthread_t thread;
        void *result;
        if (pthread_create(&thread, NULL, round % 3 ? ask_for_ever : watch_for_ever, &w) != 0)
            die("no thread");
        for (uint64_t spin = roll_below(&state, 300000); spin > 0; spin--)
            __asm__ volatile("");
        pthread_cancel(thread);
        pthread_join(thread, &result);
        if (result != PTHREAD_CANCELED)
            die("the thread was not cancelled");
        ask(w.s, w.table, "after a thread was cancelled");
    }
    if (count_descriptors() != before)
        die("after cancelled threads %d descriptors instead of %d", count_descriptors(), before);
    skade_close(w.s);
    done("cancelled threads");
}
#endif

static void *ask_once(void *arg)
{
    skade *s = open_handle(*(const unsigned *)arg, 5000);
    ask(s, find(s), "in a short thread");
    skade_close(s);
    return NULL;
}

static void short_threads(int kind)
{
    int before = count_descriptors();

    for (int round = 0; round < 50; round++) {
        pthread_t thread[4];
        for (int i = 0; i < 4; i++)
            if (pthread_create(&thread[i], NULL, ask_once, (void *)(uintptr_t)&kinds[kind]) != 0)
                die("no thread");
        for (int i = 0; i < 4; i++)
            pthread_join(thread[i], NULL);
    }
    if (count_descriptors() != before)
        die("after 200 threads %d descriptors instead of %d", count_descriptors(), before);
    done("200 short threads");
}

/* ---- signals -------------------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
    (void)signal;
    alarms++;
}

static void interrupted(int kind)
{
    struct sigaction action = { .sa_handler = on_alarm }; /* no SA_RESTART */
    struct itimerval often = { { 0, 500 }, { 0, 500 } }, never = { { 0, 0 }, { 0, 0 } };
    skade *s = open_handle(kinds[kind], 5000);
    skade_table table = find(s);

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; alarms < 500; i++) {
        ask(s, table, "interrupted");
        if (i % 100 == 0) {
            skade_close(s);
            s = open_handle(kinds[kind], 5000);
        }
        int r = skade_watch(s, 0, 1, never_stop, NULL);
        if (r != 0)
            die_of(s, "watch, interrupted", r);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    alarms = 0;
    skade_close(s);
    done("interrupted");
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "fds") == 0)
        return count_descriptors() - 3;
    close_all(); /* whatever the shell left */
    for (int kind = 0; kind < 2; kind++) {
        host_closes_everything(kind);
        no_descriptor_left(kind);
        no_standard_descriptors(kind);
        exec_inherits_nothing(kind);
        fork_with_a_handle(kind);
#ifdef __SANITIZE_ADDRESS__
        /* AddressSanitizer trips over the forced unwinding of a cancelled thread's stack. */
        printf("cancelled threads: not under AddressSanitizer\n");
#else
        cancel_threads(kind);
#endif
        short_threads(kind);
        interrupted(kind);
    }
    return 0;
}
