#include "logcheck.h"

#include "indexkeeper.h"
#include "log.h"

#include <stdlib.h>

/* About two milliseconds of reading, and a pause of four times as much. */
#define SLICE_ROWS 2048
#define SLICE_BYTES (512u << 10)
#define PAUSE_MS 8

struct logcheck {
    struct log_job job;
    struct server *server;
    struct commitlog_cursor cursor;
    uv_timer_t pause;
    bool running;
    int error;
    struct errmsg msg;
};

static void run_slice(struct log_job *job, struct commitlog *log)
{
    struct logcheck *c = (struct logcheck *)job;

    c->error = commitlog_read(log, &c->cursor, SLICE_ROWS, SLICE_BYTES, NULL, NULL, &c->msg);
}

static void give_up(struct logcheck *c)
{
    log_error("%s; found after the start from the index file, so the daemon stops", c->msg.text);
    indexkeeper_forget(c->server->indexkeeper); /* the next start is to find what we found */
    server_stop(c->server, 1);
}

static void post(struct logcheck *c)
{
    c->running = true;
    logthread_post(c->server->log_thread, &c->job, false);
}

static void on_pause_over(uv_timer_t *timer)
{
    post(timer->data);
}

static void slice_done(struct log_job *job)
{
    struct logcheck *c = (struct logcheck *)job;
    struct server *s = c->server;

    c->running = false;
    if (c->error < 0) {
        give_up(c);
        return;
    }
    uint64_t left = s->unchecked > c->cursor.seq ? s->unchecked - c->cursor.seq : 0;
    counter_set(s->page, COUNTER_log_unchecked, left);
    counter_add(s->page, COUNTER_log_check_slices, 1);
    if (left == 0)
        s->unchecked = 0;
    else if (!s->stopping)
        world.timer_start(&c->pause, on_pause_over, PAUSE_MS, 0);
}

void logcheck_start(struct server *s)
{
    struct logcheck *c;

    counter_set(s->page, COUNTER_log_unchecked, s->unchecked);
    if (!s->unchecked)
        return;
    c = s->logcheck = calloc(1, sizeof *c);
    if (!c) /* unlikely, and each start checks anew; skadectl verify does the same */
        return;
    c->server = s;
    c->job.run = run_slice;
    c->job.done = slice_done;
    c->cursor = commitlog_start(commitlog_meta(s->log)); /* what it reads there never changes */
    uv_timer_init(&s->loop, &c->pause);
    c->pause.data = c;
    post(c);
}

bool logcheck_stop(struct server *s)
{
    if (!s->logcheck)
        return true;
    world.timer_stop(&s->logcheck->pause);
    return !s->logcheck->running;
}

void logcheck_free(struct server *s)
{
    free(s->logcheck);
    s->logcheck = NULL;
}
