/*
 * A daemon in a temporary place, filled through its own socket as any program would do it.
 */
#include "bench.h"

#include "synthetic.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_MS 120000
#define RELEASE_MAX 4096 /* commits */

static char program[512];
static char folder[256];
static char instance[32];
static char shm_dir[64];
static char run_dir[300], data_dir[300];
static pid_t daemon_pid;
static pid_t our_pid;

/* ---- the place -------------------------------------------------------------------------------------------------- */

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type;
    return ftw->level > 0 ? remove(path) : 0;
}

static void empty_folder(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void remove_tree(const char *path)
{
    empty_folder(path);
    rmdir(path);
}

/* At exit, whatever the reason: no daemon, no file. */
static void place_end(void)
{
    if (getpid() != our_pid)
        return;
    daemon_stop();
    remove_tree(folder);
    remove_tree(shm_dir);
}

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

void end_if_interrupted(void)
{
    if (interrupted)
        die("interrupted");
}

/* The first signal ends us when the row that runs is done, with everything removed; the second one at once. */
static void catch_signals(void)
{
    struct sigaction action = { .sa_handler = interrupt, .sa_flags = SA_RESTART | (int)SA_RESETHAND };

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void make_folder(char *template)
{
    if (!mkdtemp(template))
        die("cannot make %s: %s", template, strerror(errno));
}

void place_begin(const char *skaded)
{
    const char *parent = getenv("TMPDIR");

    our_pid = getpid();
    atexit(place_end);
    catch_signals();
    snprintf(program, sizeof program, "%s", skaded);
    snprintf(instance, sizeof instance, "bench-%d", (int)our_pid);
    snprintf(folder, sizeof folder, "%s/skade-bench-XXXXXX", parent && *parent ? parent : "/tmp");
    make_folder(folder);
    snprintf(run_dir, sizeof run_dir, "%s/run", folder);
    snprintf(data_dir, sizeof data_dir, "%s/data", folder);
    /* A folder of its own: a daemon that stops leaves its files there, for those who have them mapped. */
    snprintf(shm_dir, sizeof shm_dir, "/dev/shm/skade-bench-XXXXXX");
    make_folder(shm_dir);
}

const char *place_folder(void)
{
    return folder;
}

const char *place_shm_dir(void)
{
    return shm_dir;
}

/* ---- what the daemon does ------------------------------------------------------------------------------------------ */

static char syncs_path[300], preload[600];
static const _Atomic uint64_t *syncs;

/* The library that counts stands beside us. */
bool daemon_count_syncs(void)
{
    char self[512];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);

    if (syncs)
        return true;
    if (len <= 0)
        return false;
    self[len] = 0;
    *strrchr(self, '/') = 0;
    snprintf(preload, sizeof preload, "%s/count_syncs.so", self);
    snprintf(syncs_path, sizeof syncs_path, "%s/syncs", folder);
    int fd = open(syncs_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *syncs) < 0 || access(preload, R_OK) < 0)
        return false;
    void *base = mmap(NULL, sizeof *syncs, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    syncs = base == MAP_FAILED ? NULL : base;
    return syncs != NULL;
}

uint64_t daemon_syncs(void)
{
    return atomic_load(syncs);
}

double daemon_processor_ns(void)
{
    struct timespec t;
    clockid_t clock;

    if (clock_getcpuclockid(daemon_pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
        die("cannot read the daemon's processor time");
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The kernel tells it of the first thread, which is the loop. */
double daemon_loop_ns(void)
{
    char path[64];
    double ns;

    snprintf(path, sizeof path, "/proc/%d/schedstat", (int)daemon_pid);
    FILE *f = fopen(path, "re");
    if (!f || fscanf(f, "%lf", &ns) != 1)
        die("cannot read %s: the kernel must be built with SCHED_INFO", path);
    fclose(f);
    return ns;
}

/* ---- the daemon --------------------------------------------------------------------------------------------------- */

static bool held; /* the index is */

void daemon_hold_index(bool hold)
{
    held = hold;
}

static _Noreturn void become_daemon(int out, const char *sync)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0); /* a signal from the terminal is for us */
    dup2(out, STDOUT_FILENO);
    if (syncs) {
        setenv("LD_PRELOAD", preload, 1);
        setenv("SKADE_BENCH_SYNCS", syncs_path, 1);
    }
    execl(program, program, "--instance", instance, "--run-dir", run_dir, "--data-dir", data_dir, "--shm-dir",
          shm_dir, "--sync", sync, "--log-level", "error", held ? "--rebuild-threshold" : (char *)NULL,
          "1048576", "--rebuild-idle", "1h", (char *)NULL);
    _exit(127);
}

/* It says so when it serves. */
static void await_ready(int in)
{
    char line[256];
    FILE *f = fdopen(in, "r");

    if (!f || !fgets(line, sizeof line, f) || strncmp(line, "skaded: ready", 13) != 0)
        die("%s doesn't start", program);
    fclose(f);
}

void daemon_start(const char *sync)
{
    remove_tree(data_dir);
    empty_folder(shm_dir);
    daemon_start_again(sync);
}

void daemon_forget_index(void)
{
    char path[400];

    snprintf(path, sizeof path, "%s/%s/index", data_dir, instance);
    if (access(path, F_OK) < 0)
        die("the daemon left no index file in %s", path);
    remove_tree(path);
}

/* The lines of /proc/PID/task/TID/status that end with "ctxt_switches:\tN". */
static uint64_t switches_of(const char *tid)
{
    char path[320], line[128];
    uint64_t sum = 0;

    snprintf(path, sizeof path, "/proc/%d/task/%s/status", (int)daemon_pid, tid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        const char *at = strstr(line, "ctxt_switches:");
        if (at)
            sum += strtoull(at + strlen("ctxt_switches:"), NULL, 10);
    }
    if (f)
        fclose(f);
    return sum;
}

uint64_t daemon_switches(void)
{
    char path[64];
    uint64_t sum = 0;

    snprintf(path, sizeof path, "/proc/%d/task", (int)daemon_pid);
    DIR *d = opendir(path);
    if (!d)
        die("cannot read %s: %s", path, strerror(errno));
    for (const struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.')
            sum += switches_of(e->d_name);
    closedir(d);
    return sum;
}

void daemon_start_again(const char *sync)
{
    int out[2];

    if (pipe(out) < 0)
        die("pipe: %s", strerror(errno));
    daemon_pid = fork();
    if (daemon_pid < 0)
        die("fork: %s", strerror(errno));
    if (daemon_pid == 0)
        become_daemon(out[1], sync);
    close(out[1]);
    await_ready(out[0]);
}

void daemon_stop(void)
{
    if (daemon_pid <= 0)
        return;
    kill(daemon_pid, SIGTERM);
    waitpid(daemon_pid, NULL, 0);
    daemon_pid = 0;
}

skade *daemon_open(unsigned flags)
{
    struct skade_options o = { .size = sizeof o,
                               .instance = instance,
                               .run_dir = run_dir,
                               .label = "bench",
                               .timeout_ms = TIMEOUT_MS,
                               .flags = flags };
    skade *s;

    check(skade_open(&s, &o), "open", NULL);
    return s;
}

struct wanted {
    const char *name;
    uint64_t value;
};

static int take_counter(void *arg, const char *name, uint64_t value, const char *unit, const char *kind,
                        const char *help)
{
    struct wanted *w = arg;

    (void)unit, (void)kind, (void)help;
    if (strcmp(name, w->name) == 0)
        w->value = value;
    return 0;
}

uint64_t daemon_counter(skade *s, const char *name)
{
    struct wanted w = { .name = name };
    check(skade_stats(s, take_counter, &w), "stats", s);
    return w.value;
}

uint64_t client_counter(skade *s, const char *name)
{
    struct wanted w = { .name = name };
    check(skade_client_stats(s, take_counter, &w), "client stats", s);
    return w.value;
}

/* ---- filling it ----------------------------------------------------------------------------------------------------- */

static void create_tables(skade *s, struct history *h)
{
    char name[32];
    skade_table number;

    for (uint32_t t = 1; t <= h->tables; t++) {
        check(skade_create(s, synthetic_table(name, t), "s3://lake-production/warehouse/events.db", &number,
                           NULL),
              "create", s);
        if (number != t)
            die("table %s has the number %u", name, number);
    }
    h->first_seq = h->tables + 1;
}

uint64_t history_release(skade *s, const struct history *h, uint64_t from, size_t n)
{
    static struct skade_commit rows[RELEASE_MAX];
    static char texts[RELEASE_MAX][SYNTHETIC_LOCATION_MAX];
    uint64_t last;

    end_if_interrupted();
    for (size_t i = 0; i < n; i++) {
        uint32_t table = 1 + (uint32_t)((from + i) % h->tables), version = (uint32_t)((from + i) / h->tables);
        synthetic_location(texts[i], table, version);
        rows[i] = (struct skade_commit){ .size = sizeof rows[i],
                                         .table = table,
                                         .flags = SKADE_INTRODUCES | SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT,
                                         .snapshot = history_id(h, table, version),
                                         .time_us = synthetic_time_us(table, version),
                                         .has_time = 1,
                                         .location = texts[i] };
    }
    check(skade_release(s, rows, n, NULL, &last), "release", s);
    return last;
}

void history_fill(struct history *h)
{
    skade *s = daemon_open(0);
    uint64_t total = history_rows(h);
    struct skade_reindexed done = { .size = sizeof done };

    create_tables(s, h);
    for (uint64_t i = 0; i < total; i += RELEASE_MAX)
        history_release(s, h, i, total - i < RELEASE_MAX ? total - i : RELEASE_MAX);
    check(skade_reindex(s, &done), "reindex", s);
    skade_close(s);
}
