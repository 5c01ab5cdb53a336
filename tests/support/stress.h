/*
 * What the programs in tests/stress share: a daemon of their own, fail points, random numbers from a seed, and words
 * for what must hold.  They are users' programs: of skade they see skade.h only.
 *
 * A program gets the daemon's options behind `--` on its command line and starts `skaded` from the PATH.
 */
#ifndef SKADE_STRESS_H
#define SKADE_STRESS_H

#include <skade.h>

#include "synthetic.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- words ---------------------------------------------------------------------------------------------------- */

static inline void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static inline void die(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vprintf(format, ap);
    va_end(ap);
    printf("\n");
    fflush(stdout);
    exit(1);
}

static inline void die_of(skade *s, const char *what, int64_t code) __attribute__((noreturn));
static inline void die_of(skade *s, const char *what, int64_t code)
{
    die("%s: %s: %s", what, skade_errname((int)code), skade_errmsg(s));
}

/* The daemon is away: an honest answer while it is being restarted. */
static inline bool is_away(int64_t r)
{
    return r == SKADE_EUNREACHABLE || r == SKADE_ETIMEOUT || r == SKADE_EUNKNOWN;
}

/* ---- random numbers ------------------------------------------------------------------------------------------- */

static inline uint64_t roll(uint64_t *state)
{
    return *state = synthetic_mix(*state);
}

/* A number below N. */
static inline uint64_t roll_below(uint64_t *state, uint64_t n)
{
    return (roll(state) >> 11) % n;
}

static inline uint64_t seed_from_environment(void)
{
    const char *text = getenv("SKADE_SEED");
    uint64_t seed = text && text[0] ? strtoull(text, NULL, 10) : (uint64_t)getpid();

    printf("seed %llu (SKADE_SEED repeats it)\n", (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

/* ---- memory that processes share ------------------------------------------------------------------------------ */

static inline void *shared_memory(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        die("no memory to share");
    return p;
}

/* ---- processes ------------------------------------------------------------------------------------------------ */

/* fork() whose child ends with its parent. */
static inline pid_t fork_child(void)
{
    pid_t parent = getpid();
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0)
        die("fork: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
    }
    return pid;
}

/* What became of PID: its exit code, or 128 + the signal. */
static inline int reap(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            die("waitpid: %s", strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Has PID ended?  It stays to be reaped. */
static inline bool has_ended(pid_t pid)
{
    siginfo_t info = { .si_pid = 0 };
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/* Becomes readable when PID ends. */
static inline int pid_descriptor(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        die("pidfd_open: %s", strerror(errno));
    return fd;
}

/* ---- the daemon ----------------------------------------------------------------------------------------------- */

struct daemon {
    char **options; /* ends with NULL */
    pid_t pid;      /* 0: none runs */
    int out;        /* its standard output */
};

/* The options behind `--`; ARGC is cut there. */
static inline struct daemon daemon_of(int *argc, char **argv)
{
    struct daemon d = { .out = -1 };

    for (int i = 1; i < *argc; i++)
        if (strcmp(argv[i], "--") == 0) {
            d.options = argv + i; /* the `--` becomes the name */
            *argc = i;
            return d;
        }
    die("usage: %s ... -- DAEMON-OPTIONS", argv[0]);
}

static inline void daemon_forget(struct daemon *d)
{
    close(d->out);
    d->out = -1;
    d->pid = 0;
}

/* Start it; true when it is ready, false when it died before (a fail point, say). */
static inline bool daemon_start(struct daemon *d)
{
    int ends[2];
    char line[256];

    if (pipe2(ends, O_CLOEXEC) < 0)
        die("pipe: %s", strerror(errno));
    d->pid = fork_child();
    if (d->pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        d->options[0] = (char[]){ "skaded" };
        execvp("skaded", d->options);
        _exit(127);
    }
    close(ends[1]);
    d->out = ends[0];
    ssize_t n = read(d->out, line, sizeof line);
    if (n > 0 && strncmp(line, "skaded: ready", 13) == 0)
        return true;
    reap(d->pid);
    daemon_forget(d);
    return false;
}

/* End it by SIGNAL; its status as reap() says. */
static inline int daemon_end(struct daemon *d, int signal)
{
    kill(d->pid, signal);
    int status = reap(d->pid);
    daemon_forget(d);
    return status;
}

static inline void daemon_must_start(struct daemon *d)
{
    if (!daemon_start(d))
        die("skaded did not become ready");
}

/* ---- fail points ------------------------------------------------------------------------------------------------ */

static inline char *failpoint_path(char *ret, size_t size, const char *name)
{
    const char *dir = getenv("SKADE_FAILPOINT_DIR");
    if (!dir)
        die("SKADE_FAILPOINT_DIR is not set");
    snprintf(ret, size, "%s/%s", dir, name);
    return ret;
}

/* See shared/failpoint.h: "kill", "fail 28", "count 3 kill". */
static inline void failpoint_set(const char *name, const char *what)
{
    char path[512], temporary[512];

    FILE *f = fopen(failpoint_path(temporary, sizeof temporary, "new"), "w");
    if (!f)
        die("%s: %s", temporary, strerror(errno));
    fprintf(f, "%s\n", what);
    fclose(f);
    rename(temporary, failpoint_path(path, sizeof path, name));
}

static inline void failpoint_clear(const char *name)
{
    char path[512];
    unlink(failpoint_path(path, sizeof path, name));
}

/* ---- handles ---------------------------------------------------------------------------------------------------- */

static inline skade *open_handle(unsigned flags, int timeout_ms)
{
    struct skade_options o = {
        .size = sizeof o, .label = "stress", .timeout_ms = timeout_ms, .flags = flags
    };
    skade *s;
    int r = skade_open(&s, &o);
    if (r < 0)
        die_of(NULL, "open", r);
    return s;
}

#endif
