/*
 * Lookups of two processes at a time next to those of one; and next to what the machine gives two: a chase, lines and
 * plain computing, by the same two processes in the same run.  Two processors of a virtual machine may be one core, and
 * two cores share a memory.
 *
 * Each process stands on a processor of its own and draws questions of its own.  In a slice one of them works, or both do,
 * for so many milliseconds from a moment that both wait for.  What they make is counted by their processor's time: others
 * who run on it meanwhile don't count.  That would hide a process that waits for the other, so waits are counted, too: the
 * kernel knows how often a process gave its processor away.  Lookups never do.  By the clock it is printed beside it.
 */
#include "bench.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 2
#define SLICE_NS 25e6
#define START_AFTER_NS 3e6 /* until both have read what to do */
#define CHUNK (4 * WINDOW) /* questions, drawn while nothing is measured */

struct worker {
    pid_t pid;
    int orders, results; /* ours ends of the pipes */
};

struct order {
    size_t task;
    double start_ns;
};

struct result {
    double questions, processor_ns, clock_ns;
    uint64_t waits, wrong, asked;
};

/* What a worker has of its own. */
struct tools {
    const struct history *history;
    struct limits *limits;
    skade *s;
};

/* ---- tasks ------------------------------------------------------------------------------------------------------ */

static void compute(void *arg, const struct question *q, size_t n)
{
    uint64_t x = (uint64_t)(uintptr_t)arg;

    (void)q;
    for (size_t i = 0; i < n; i++) {
        for (int k = 0; k < 16; k++)
            x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9ull;
    }
    __asm__ volatile("" : : "r"(x)); /* so that it isn't optimised away */
}

static const struct task {
    const char *name;
    enum row_kind kind;
    void (*run)(void *arg, const struct question *q, size_t n);
} tasks[] = {
    { "single", ROW_OURS, client_single }, { "batch", ROW_OURS, client_batch },
    { "chase", ROW_LIMIT, limits_chase },  { "line", ROW_LIMIT, limits_lines },
    { "compute", ROW_LIMIT, compute },
};
#define TASKS ARRAY_SIZE(tasks)

static void *argument(const struct tools *t, const struct task *task)
{
    return task->kind == ROW_OURS ? (void *)t->s : (void *)t->limits;
}

/* ---- a worker ----------------------------------------------------------------------------------------------------- */

static uint64_t waits(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_nvcsw;
}

static void measure_chunk(const struct tools *t, const struct task *task, struct result *ret)
{
    static struct question questions[CHUNK];

    ask_at_random(t->history, 0, questions, CHUNK);
    uint64_t waited = waits();
    double clock = now_ns(), processor = processor_ns();
    task->run(argument(t, task), questions, CHUNK);
    ret->processor_ns += processor_ns() - processor;
    ret->clock_ns += now_ns() - clock;
    ret->waits += waits() - waited;
    ret->questions += CHUNK;
    if (task->kind == ROW_OURS)
        ret->wrong += judge_answers(t->history, questions, CHUNK, WHOLE_ANSWER);
}

static struct result work(const struct tools *t, const struct order *o)
{
    struct result ret = { 0 };
    uint64_t asked = client_counter(t->s, "asked_daemon");

    while (now_ns() < o->start_ns)
        ;
    do /* at least one, also when others had the processor for all of the slice */
        measure_chunk(t, &tasks[o->task], &ret);
    while (now_ns() < o->start_ns + SLICE_NS);
    ret.asked = client_counter(t->s, "asked_daemon") - asked;
    return ret;
}

static void stand_on_processor(int which)
{
    cpu_set_t all, one;

    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all) && which-- == 0)
            CPU_SET(cpu, &one);
    }
    sched_setaffinity(0, sizeof one, &one);
}

/* Until nobody has orders any more. */
static _Noreturn void be_worker(struct tools t, int which, int orders, int results)
{
    struct order o;
    char ready = 1;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    stand_on_processor(which);
    random_begin((uint64_t)which + 2);
    answers_clear();
    t.s = daemon_open(0);
    client_see_heartbeat(&t.s, 1);
    limits_chase(t.limits, NULL, (size_t)which * 1000); /* on another way than the other one */
    bool said = write(results, &ready, 1) == 1;
    while (said && read(orders, &o, sizeof o) == (ssize_t)sizeof o) {
        struct result r = work(&t, &o);
        said = write(results, &r, sizeof r) == (ssize_t)sizeof r;
    }
    _exit(0);
}

/* ---- the two of them ------------------------------------------------------------------------------------------------- */

static void worker_start(struct worker *w, struct tools *t, int which)
{
    int orders[2], results[2];
    char ready;

    if (pipe(orders) < 0 || pipe(results) < 0)
        die("pipe: %s", strerror(errno));
    fflush(NULL);
    w->pid = fork();
    if (w->pid < 0)
        die("fork: %s", strerror(errno));
    if (w->pid == 0) {
        close(orders[1]);
        close(results[0]);
        be_worker(*t, which, orders[0], results[1]);
    }
    close(orders[0]);
    close(results[1]);
    w->orders = orders[1];
    w->results = results[0];
    if (read(w->results, &ready, 1) != 1)
        die("process %d of two can't look up", which);
}

/* The second has a copy of the first one's pipe: all are told before any is waited for. */
static void workers_stop(const struct worker *w)
{
    for (int i = 0; i < PROCESSES; i++) {
        close(w[i].orders);
        close(w[i].results);
    }
    for (int i = 0; i < PROCESSES; i++)
        waitpid(w[i].pid, NULL, 0);
}

static void give_order(const struct worker *w, const struct order *o)
{
    if (write(w->orders, o, sizeof *o) != (ssize_t)sizeof *o)
        die("one of two processes is gone");
}

static struct result take_result(const struct worker *w)
{
    struct result r;

    if (read(w->results, &r, sizeof r) != (ssize_t)sizeof r)
        die("one of two processes is gone");
    return r;
}

/* Workers FIRST to LAST do TASK in one slice. */
static void slice(const struct worker *w, size_t task, int first, int last, struct result *ret)
{
    struct order o = { .task = task, .start_ns = now_ns() + START_AFTER_NS };

    end_if_interrupted();
    for (int i = first; i <= last; i++)
        give_order(&w[i], &o);
    for (int i = first; i <= last; i++)
        ret[i] = take_result(&w[i]);
}

/* ---- the stage ----------------------------------------------------------------------------------------------------------- */

struct gains {
    double processor[TASKS][REPS_MAX], clock[TASKS][REPS_MAX];
    uint64_t waits, wrong, asked;
};

static void note_result(struct gains *g, size_t task, const struct result *r)
{
    g->wrong += r->wrong;
    if (tasks[task].kind != ROW_OURS)
        return;
    g->waits += r->waits;
    g->asked += r->asked;
}

/* Both alone, one after the other, and then together: the sum of two rates by the mean of those alone. */
static void measure_task(const struct worker *w, size_t task, int rep, struct gains *g)
{
    struct result alone[PROCESSES], together[PROCESSES];
    double by_processor = 0, by_clock = 0;

    slice(w, task, 0, 0, alone);
    slice(w, task, 0, 1, together);
    slice(w, task, 1, 1, alone);
    for (int i = 0; i < PROCESSES; i++) {
        note_result(g, task, &alone[i]);
        note_result(g, task, &together[i]);
        by_processor +=
            alone[i].processor_ns / alone[i].questions / (together[i].processor_ns / together[i].questions);
        by_clock += alone[i].clock_ns / alone[i].questions / (together[i].clock_ns / together[i].questions);
    }
    g->processor[task][rep] = by_processor;
    g->clock[task][rep] = by_clock;
}

static void report_gains(const struct gains *g, int reps)
{
    char name[48];

    for (size_t i = 0; i < TASKS; i++)
        report_figure("scaling", tasks[i].name, measure_of(g->processor[i], reps), "times", tasks[i].kind);
    for (size_t i = 0; i < TASKS; i++) {
        snprintf(name, sizeof name, "%s_by_clock", tasks[i].name);
        report_figure("scaling", name, measure_of(g->clock[i], reps), "times", tasks[i].kind);
    }
}

static int processors(void)
{
    cpu_set_t all;
    return sched_getaffinity(0, sizeof all, &all) == 0 ? CPU_COUNT(&all) : 1;
}

void stage_scaling(const struct history *h, size_t index_bytes, int reps)
{
    static struct gains gains;
    struct worker w[PROCESSES];
    struct tools t = { .history = h };

    if (processors() < PROCESSES) {
        report_note("one processor: two processes at a time are not measured, and have no goal");
        return;
    }
    t.limits = limits_open(index_bytes, true);
    for (int i = 0; i < PROCESSES; i++)
        worker_start(&w[i], &t, i);
    for (int rep = 0; rep < reps; rep++) {
        for (size_t task = 0; task < TASKS; task++)
            measure_task(w, task, rep, &gains);
    }
    workers_stop(w);
    limits_close(t.limits);
    report_gains(&gains, reps);
    goals_of_scaling(measure_of(gains.processor[0], reps), measure_of(gains.processor[1], reps), gains.waits,
                     gains.wrong, gains.asked);
}
