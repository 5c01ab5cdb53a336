#include "logthread.h"

#include "log.h"
#include "prompt.h"
#include "world.h"

#include <errno.h>
#include <stdlib.h>

/* Above this the write-ahead file is folded into the database between two jobs; above the second also in a busy time. */
#define WAL_LAZY (4u << 20)
#define WAL_BUSY (32u << 20)

struct queue {
    struct log_job *first, **last;
};

struct logthread {
    struct commitlog *log; /* the thread's */
    uv_loop_t *loop;
    uv_thread_t thread;
    uv_work_t turn; /* instead of the thread: see world.log_takes_turns */
    bool turn_is_on;
    uv_async_t wake_loop;
    uv_mutex_t mutex; /* guards everything below */
    uv_cond_t wake_thread;
    struct queue urgent, normal, finished;
    bool stopping;
    uint64_t wal_bytes, checkpoints;
    bool checkpoint_failing; /* the thread's */
};

static void queue_init(struct queue *q)
{
    q->first = NULL;
    q->last = &q->first;
}

static void queue_push(struct queue *q, struct log_job *job)
{
    job->next = NULL;
    *q->last = job;
    q->last = &job->next;
}

static struct log_job *queue_pop(struct queue *q)
{
    struct log_job *job = q->first;

    if (job) {
        q->first = job->next;
        if (!q->first)
            q->last = &q->first;
    }
    return job;
}

/* ---- on the thread ---- */

static struct log_job *next_job(struct logthread *t)
{
    struct log_job *job = queue_pop(&t->urgent);
    return job ? job : queue_pop(&t->normal);
}

static void checkpoint(struct logthread *t, bool truncate, uint64_t *left)
{
    struct errmsg msg = { "" };

    int r = commitlog_checkpoint(t->log, truncate, left, &msg);
    if (r < 0 && !t->checkpoint_failing) /* one line for an episode */
        log_warning("checkpoint of the log: %s", msg.text);
    t->checkpoint_failing = r < 0;
}

/*
 * With the mutex held; lets go of it while the log works.  ROOM is what the disk has left.  Folding the write-ahead file
 * takes at most its own size again, and gives that back: were the last room the file's, nothing could be folded and no
 * commit taken until somebody makes room.
 *
 * Otherwise the file keeps its size and is written over from its start: a commit that makes it longer has to wait for the
 * file system's own journal, too, which is a third of its time.
 */
static void checkpoint_if_due(struct logthread *t, uint64_t room)
{
    bool idle = !t->urgent.first && !t->normal.first, scarce = t->wal_bytes > room;
    bool truncate = scarce || (idle && t->wal_bytes >= WAL_BUSY);
    uint64_t left = 0;

    if (!scarce && t->wal_bytes < (idle ? WAL_LAZY : WAL_BUSY))
        return;
    uv_mutex_unlock(&t->mutex);
    checkpoint(t, truncate, &left);
    uv_mutex_lock(&t->mutex);
    t->wal_bytes = left;
    t->checkpoints += !t->checkpoint_failing;
}

/* With the mutex held; lets go of it while the log works. */
static void do_job(struct logthread *t, struct log_job *job)
{
    uv_mutex_unlock(&t->mutex);
    job->run(job, t->log);
    uint64_t wal = commitlog_wal_bytes(t->log), room = commitlog_room(t->log);
    uv_mutex_lock(&t->mutex);
    t->wal_bytes = wal;
    queue_push(&t->finished, job);
    uv_async_send(&t->wake_loop);
    checkpoint_if_due(t, room);
}

static void thread_main(void *arg)
{
    struct logthread *t = arg;

    thread_be_prompt();
    uv_mutex_lock(&t->mutex);
    for (;;) {
        struct log_job *job = next_job(t);
        if (!job && t->stopping)
            break;
        if (job)
            do_job(t, job);
        else
            uv_cond_wait(&t->wake_thread, &t->mutex);
    }
    uv_mutex_unlock(&t->mutex);
}

/* ---- on the loop ---- */

static void finish_jobs(struct logthread *t)
{
    for (;;) {
        uv_mutex_lock(&t->mutex);
        struct log_job *job = queue_pop(&t->finished);
        uv_mutex_unlock(&t->mutex);
        if (!job)
            return;
        job->done(job);
    }
}

static void on_wake(uv_async_t *handle)
{
    finish_jobs(handle->data);
}

/* ---- without a thread: a turn is one job ---- */

static void run_turn(uv_work_t *turn)
{
    struct logthread *t = turn->data;

    uv_mutex_lock(&t->mutex);
    struct log_job *job = next_job(t);
    if (job)
        do_job(t, job);
    uv_mutex_unlock(&t->mutex);
}

static void take_turn(struct logthread *t);

static void turn_done(uv_work_t *turn, int status)
{
    struct logthread *t = turn->data;

    (void)status;
    t->turn_is_on = false;
    finish_jobs(t);
    take_turn(t);
}

static void take_turn(struct logthread *t)
{
    if (t->turn_is_on || (!t->urgent.first && !t->normal.first))
        return;
    t->turn_is_on = true;
    world.work(t->loop, &t->turn, run_turn, turn_done);
}

/* ---- on the loop, again ---- */

int logthread_start(struct logthread **ret, uv_loop_t *loop, struct commitlog *log)
{
    struct logthread *t = calloc(1, sizeof *t);
    if (!t)
        return -ENOMEM;
    t->log = log;
    t->loop = loop;
    t->turn.data = t;
    queue_init(&t->urgent);
    queue_init(&t->normal);
    queue_init(&t->finished);
    uv_mutex_init(&t->mutex);
    uv_cond_init(&t->wake_thread);
    uv_async_init(loop, &t->wake_loop, on_wake);
    t->wake_loop.data = t;
    int r = world.log_takes_turns ? 0 : uv_thread_create(&t->thread, thread_main, t);
    if (r < 0)
        return r; /* at start only: the process ends */
    *ret = t;
    return 0;
}

void logthread_post(struct logthread *t, struct log_job *job, bool urgent)
{
    uv_mutex_lock(&t->mutex);
    queue_push(urgent ? &t->urgent : &t->normal, job);
    uv_cond_signal(&t->wake_thread);
    uv_mutex_unlock(&t->mutex);
    if (world.log_takes_turns)
        take_turn(t);
}

uint64_t logthread_wal_bytes(const struct logthread *t)
{
    struct logthread *m = (struct logthread *)t; /* the mutex is what changes */

    uv_mutex_lock(&m->mutex);
    uint64_t n = m->wal_bytes;
    uv_mutex_unlock(&m->mutex);
    return n;
}

uint64_t logthread_checkpoints(const struct logthread *t)
{
    struct logthread *m = (struct logthread *)t;

    uv_mutex_lock(&m->mutex);
    uint64_t n = m->checkpoints;
    uv_mutex_unlock(&m->mutex);
    return n;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

struct commitlog *logthread_stop(struct logthread *t)
{
    struct commitlog *log = t->log;

    uv_mutex_lock(&t->mutex);
    t->stopping = true;
    uv_cond_signal(&t->wake_thread);
    uv_mutex_unlock(&t->mutex);
    if (!world.log_takes_turns)
        uv_thread_join(&t->thread);
    finish_jobs(t);
    /* Jobs that end may have posted their last step: there is nobody but us to take it. */
    for (struct log_job *job; (job = next_job(t));) {
        job->run(job, log);
        job->done(job);
    }
    uv_cond_destroy(&t->wake_thread);
    uv_mutex_destroy(&t->mutex);
    uv_close((uv_handle_t *)&t->wake_loop, on_closed);
    return log;
}
