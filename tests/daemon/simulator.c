#include "simulator.h"

#include "log.h"
#include "quick.h"
#include "tempdir.h"

#include "failpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOBS_MAX 64
#define TIMERS_MAX 16

struct sim sim;

static char place[128];
static struct world real;

/* Loops have handles that their owners free without closing, as a process that ends may: so they are kept, and nothing
 * of them is run again. */
static struct kept {
    struct server server;
    struct kept *before;
} * kept;

static struct job {
    uv_work_t *work; /* NULL: a thread */
    uv_work_cb run;
    uv_after_work_cb done;
    uv_thread_cb thread;
    void *arg;
    bool ran;
} jobs[JOBS_MAX];
static size_t jobs_count;

static struct timer {
    uv_timer_t *timer;
    uv_timer_cb fire;
    uint64_t due_us, repeat_us;
} timers[TIMERS_MAX];
static size_t timers_count;

static bool chance(unsigned percent)
{
    return random_below(&sim.random, 100) < percent;
}

/* ---- clocks, random bytes ---------------------------------------------------------------------------------------- */

static int64_t wall_us(void)
{
    return sim.wall_us + (int64_t)sim.now_us;
}

static uint64_t clock_ns(void)
{
    return sim.now_us * 1000;
}

static uint64_t now_ms(const uv_loop_t *loop)
{
    (void)loop;
    return sim.now_us / 1000;
}

static int random_bytes(void *ret, size_t len)
{
    uint8_t *bytes = ret;

    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)random_u64(&sim.random);
    return 0;
}

/* ---- timers -------------------------------------------------------------------------------------------------------- */

static int timer_stop(uv_timer_t *timer)
{
    for (size_t i = 0; i < timers_count; i++)
        if (timers[i].timer == timer) {
            memmove(&timers[i], &timers[i + 1], (--timers_count - i) * sizeof *timers);
            break;
        }
    return 0;
}

static int timer_start(uv_timer_t *timer, uv_timer_cb fire, uint64_t ms, uint64_t repeat_ms)
{
    timer_stop(timer);
    ck_assert_uint_lt(timers_count, TIMERS_MAX);
    timers[timers_count++] = (struct timer){ timer, fire, sim.now_us + ms * 1000, repeat_ms * 1000 };
    return 0;
}

static struct timer *next_timer(void)
{
    struct timer *next = NULL;

    for (size_t i = 0; i < timers_count; i++)
        if (!next || timers[i].due_us < next->due_us)
            next = &timers[i];
    return next;
}

/* Time goes on to UNTIL_US, and every timer fires when it is due. */
static void pass_until(uint64_t until_us)
{
    for (struct timer *t; !sim.stopped && (t = next_timer()) && t->due_us <= until_us;) {
        struct timer fired = *t;
        if (sim.now_us < fired.due_us)
            sim.now_us = fired.due_us;
        if (fired.repeat_us)
            t->due_us = sim.now_us + fired.repeat_us;
        else
            timer_stop(fired.timer);
        sim.fired++;
        fired.fire(fired.timer);
    }
    if (sim.now_us < until_us)
        sim.now_us = until_us;
}

/* Mostly little, often to the very next timer, now and then long. */
static void pass_some_time(void)
{
    const struct timer *next = next_timer();

    if (chance(70))
        pass_until(sim.now_us + random_below(&sim.random, 5000));
    else if (chance(80) && next)
        pass_until(next->due_us);
    else
        pass_until(sim.now_us + random_below(&sim.random, 3000000));
}

/* ---- workers, threads, the log's turns ------------------------------------------------------------------------------- */

static struct job *add_job(void)
{
    ck_assert_uint_lt(jobs_count, JOBS_MAX);
    jobs[jobs_count] = (struct job){ .work = NULL };
    return &jobs[jobs_count++];
}

static int add_work(uv_loop_t *loop, uv_work_t *work, uv_work_cb run, uv_after_work_cb done)
{
    work->loop = loop;
    *add_job() = (struct job){ .work = work, .run = run, .done = done };
    return 0;
}

static int add_thread(uv_thread_t *ret, uv_thread_cb run, void *arg)
{
    (void)ret;
    *add_job() = (struct job){ .thread = run, .arg = arg };
    return 0;
}

static int join(uv_thread_t *thread)
{
    (void)thread; /* it has woken the loop, so it has ended */
    return 0;
}

static void drop_job(size_t i)
{
    memmove(&jobs[i], &jobs[i + 1], (--jobs_count - i) * sizeof *jobs);
}

/* Job I goes on: it runs, or its end comes to the loop.  Other things may happen in between. */
static void advance_job(size_t i)
{
    struct job job = jobs[i];

    sim.jobs++;
    if (job.thread) {
        drop_job(i);
        job.thread(job.arg);
    } else if (!job.ran) {
        jobs[i].ran = true;
        job.run(job.work);
    } else {
        drop_job(i);
        job.done(job.work, 0);
    }
}

/* ---- faults ------------------------------------------------------------------------------------------------------------ */

#ifdef SKADE_FAILPOINTS

/* What may fail at run time, and how: N no room, I input or output error.  Those that aren't here would be our own
 * mistakes if they failed, or happen at a start, which then ends the process. */
static const struct {
    const char *name;
    const char *how;
} faults[] = {
    { "log.begin", "NI" },      { "log.insert", "NI" },    { "log.commit", "NI" },
    { "log.committed", "I" },   { "log.checkpoint", "N" }, { "rebuild.begin", "N" },
    { "publish.reserve", "N" }, { "publish.fill", "I" },   { "publish.link", "N" },
    { "publish.linked", "I" },  { "gc.measure", "I" },     { "gc.remove", "I" },
    { "compact.begin", "I" },   { "compact.take", "I" },   { "compact.link", "N" },
    { "compact.scanned", "I" }, { "store.mark", "N" },     { "store.link", "N" },
    { "store.dirsync", "I" },   { "store.linked", "I" },   { "store.temp", "N" },
    { "entries.write", "N" },   { "entries.fsync", "I" },  { "rows.write", "N" },
    { "rows.fsync", "I" },      { "manifest.write", "N" }, { "manifest.fsync", "I" },
    { "index.write", "N" },     { "index.fsync", "I" },    { "index.rename", "I" },
    { "index.renamed", "I" },
};

static int fault_at(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
        if (strcmp(faults[i].name, name) == 0) {
            sim.failures++;
            return faults[i].how[random_below(&sim.random, strlen(faults[i].how))] == 'N' ? -ENOSPC : -EIO;
        }
    return 0;
}

static int at_failpoint(const char *name)
{
    int r = sim.failpoint ? sim.failpoint(name) : 0;

    if (r != 0 || !sim.faults || sim.killed || sim.stopped)
        return r;
    if (sim.killed_in && --sim.killed_in == 0) {
        sim_kill();
        return 0;
    }
    /* A start that fails ends the process, so nothing fails before the script runs. */
    return sim.server->listener && random_below(&sim.random, 300) == 0 ? fault_at(name) : 0;
}

static void take_failpoints(bool take)
{
    failpoint_answer = take ? at_failpoint : NULL;
}

#else

static void take_failpoints(bool take)
{
    (void)take;
}

#endif

/* ---- lives --------------------------------------------------------------------------------------------------------------- */

const char *sim_path(const char *name)
{
    static char paths[4][512];
    static unsigned turn;
    char *path = paths[turn++ % 4];

    snprintf(path, sizeof paths[0], "%s/now%s%s", place, *name ? "/" : "", name);
    return path;
}

static const char *next_place(void)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/next", place);
    return path;
}

void sim_kill(void)
{
    char command[600];

    if (sim.killed)
        return;
    sim.killed = true;
    sim.kills++;
    if (sim.dying)
        sim.dying();
    snprintf(command, sizeof command, "cp -a '%s' '%s'", sim_path(""), next_place());
    ck_assert_int_eq(system(command), 0);
}

void sim_stop(void)
{
    server_stop(sim.server, sim.killed);
}

void sim_turn(void)
{
    uv_run(&sim.server->loop, UV_RUN_NOWAIT);
    if (jobs_count && chance(60))
        advance_job(random_below(&sim.random, jobs_count));
    else
        pass_some_time();
    if (sim.killed && !sim.server->stopping)
        sim_stop();
}

void sim_finish(void)
{
    while (!sim.stopped)
        sim_turn();
}

void sim_settle(void)
{
    for (unsigned quiet = 0; quiet < 4; quiet++) {
        uv_run(&sim.server->loop, UV_RUN_NOWAIT);
        for (; jobs_count; quiet = 0)
            advance_job(0);
    }
}

/* In steps, so that what timers begin is done when it is begun. */
void sim_pass(uint64_t ms)
{
    uint64_t end_us = sim.now_us + ms * 1000;

    sim_settle();
    for (const struct timer *t; !sim.stopped && (t = next_timer()) && t->due_us <= end_us; sim_settle())
        pass_until(t->due_us);
    pass_until(end_us);
    sim_settle();
}

static void stop(uv_loop_t *loop)
{
    (void)loop;
    sim.stopped = true;
}

static struct {
    void (*script)(void *arg);
    void *arg;
} life;

/* world.run: the daemon serves. */
static void run(uv_loop_t *loop)
{
    (void)loop;
    life.script(life.arg);
    sim_finish();
    while (jobs_count) /* a last turn of the log */
        advance_job(0);
}

static void set(struct config *c, const char *name, const char *value)
{
    struct errmsg msg = { "" };
    ck_assert_msg(config_set(c, name, value, NULL, &msg) == 0, "%s", msg.text);
}

static void configure_server(struct server *s, void (*configure)(struct config *c))
{
    struct errmsg msg = { "" };

    config_defaults(&s->config);
    set(&s->config, "data_dir", sim_path("data"));
    set(&s->config, "run_dir", sim_path("run"));
    set(&s->config, "shm_dir", sim_path("shm"));
    if (configure)
        configure(&s->config);
    ck_assert_msg(config_finish(&s->config, &msg) == 0, "%s", msg.text);
}

/* The daemon's own words, of which a crash makes many; SKADE_SIM_TALK=1 lets them through. */
static void hush(bool on)
{
    static int out = -1, err = -1;

    if (getenv("SKADE_SIM_TALK"))
        return;
    fflush(NULL);
    if (on) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
        err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        close(null);
    } else {
        dup2(out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        close(out);
        close(err);
    }
}

int sim_live(void (*configure)(struct config *c), void (*script)(void *arg), void *arg)
{
    struct errmsg msg = { "" };
    struct kept *k = calloc(1, sizeof *k);

    ck_assert_ptr_nonnull(k);
    k->before = kept;
    kept = k;
    struct server *s = sim.server = &k->server;
    sim.lives++;
    sim.stopped = sim.killed = false;
    jobs_count = timers_count = 0;
    life.script = script;
    life.arg = arg;
    configure_server(s, configure);
    ck_assert_int_eq(uv_loop_init(&s->loop), 0);
    hush(true);
    int r = server_start(s, &msg);
    if (r == 0)
        r = server_run(s);
    hush(false);
    ck_assert_msg(s->listener != NULL, "life %u: the daemon doesn't start: %s", (unsigned)sim.lives,
                  msg.text);
    sim.server = NULL;
    if (sim.killed) {
        remove_tree(sim_path(""));
        ck_assert_int_eq(rename(next_place(), sim_path("")), 0);
    }
    return r;
}

void sim_begin(uint64_t seed, const char *dir, bool with_faults)
{
    sim = (struct sim){ .random = seed, .faults = with_faults, .wall_us = 1700000000000000 };
    snprintf(place, sizeof place, "%s", dir);
    remove_tree(place);
    ck_assert_int_eq(mkdir(place, 0700), 0);
    ck_assert_int_eq(mkdir(sim_path(""), 0700), 0);
    ck_assert_int_eq(mkdir(sim_path("shm"), 0700), 0);
    signal(SIGPIPE, SIG_IGN); /* as main() does */
    log_set_level(getenv("SKADE_SIM_TALK") ? LOG_DEBUG : LOG_ERROR);
    real = world;
    world = (struct world){ .wall_us = wall_us,
                            .clock_ns = clock_ns,
                            .now_ms = now_ms,
                            .random = random_bytes,
                            .timer_start = timer_start,
                            .timer_stop = timer_stop,
                            .work = add_work,
                            .thread = add_thread,
                            .join = join,
                            .log_takes_turns = true,
                            .run = run,
                            .stop = stop };
    take_failpoints(true);
}

void sim_end(void)
{
    take_failpoints(false);
    world = real;
}
