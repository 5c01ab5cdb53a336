#include "inflow.h"

#include "prompt.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* A session is not read while so much of its rows waits for a worker. */
#define QUEUE_MAX (1u << 20)

/* ---- workers ------------------------------------------------------------------------------------------------------- */

/* Somebody waits for its end. */
static void be_prompt(void)
{
    static _Thread_local bool done;

    if (!done)
        thread_be_prompt();
    done = true;
}

static void on_worker(uv_work_t *work)
{
    struct inflow *in = work->data;

    be_prompt();
    in->run(in);
}

static void worker_done(uv_work_t *work, int status)
{
    struct inflow *in = work->data;

    (void)status;
    in->working = false;
    in->server->workers--;
    in->next(in);
}

void inflow_work(struct inflow *in, void (*run)(struct inflow *in), void (*next)(struct inflow *in))
{
    assert(!in->working);
    in->run = run;
    in->next = next;
    in->working = true;
    in->work.data = in;
    in->server->workers++;
    if (world.work(&in->server->loop, &in->work, on_worker, worker_done) < 0)
        abort(); /* only for a NULL callback */
}

static int take(struct inflow *in, const struct row_record *r)
{
    bool more = r->flags & ROW_MORE;

    if (more != in->in_row || (more && (r->flags & (ROW_KEYED | ROW_DELETE | ROW_TIMED))))
        return fail(&in->msg, SKADE_EPROTOCOL, "records of rows don't follow each other");
    in->in_row = r->flags & ROW_GOES_ON;
    return in->ops->record(in, r);
}

static void run_take(struct inflow *in)
{
    struct rd records = rd_of(in->batch.data, in->batch.len);
    struct row_record r;
    int more = 1;

    while (in->error == 0 && (more = rowstream_next(&records, &r)) == 1)
        in->error = take(in, &r);
    if (in->error == 0 && more < 0)
        in->error = fail(&in->msg, more, "malformed rows");
    if (in->error == 0 && in->last && in->in_row)
        in->error = fail(&in->msg, SKADE_EINPUT, "the last row isn't complete");
    if (in->error == 0 && in->last && in->ops->finish)
        in->ops->finish(in);
    in->finished = in->last;
    if (in->error < 0)
        in->ops->drop(in);
    in->batch.len = 0;
}

/* ---- the session ---------------------------------------------------------------------------------------------------- */

void inflow_tell(struct inflow *in)
{
    if (in->session && !in->session->closing && !in->told)
        answer_error(in->session, in->request, in->error, "%s",
                     in->msg.text[0] ? in->msg.text : error_text(in->error));
    in->told = true;
}

void inflow_leave(struct inflow *in)
{
    struct session *s = in->session;

    in->session = NULL;
    if (!s)
        return;
    if (in->ending)
        s->inflight--;
    s->inflow = NULL;
    session_flush(s);
    session_resume(s);
    if (s->draining && !s->inflight)
        session_drain(s);
    session_unref(s);
}

void inflow_fini(struct inflow *in)
{
    wr_fini(&in->queue);
    wr_fini(&in->batch);
}

static void give_up(struct inflow *in)
{
    inflow_tell(in);
    inflow_leave(in);
    in->ops->gone(in);
}

/* What is next, now that no worker is busy with it? */
static void go_on(struct inflow *in)
{
    struct session *s = in->session;

    if (in->cancelled && (!in->error || in->error == -ECANCELED))
        in->error = in->stop_code ? fail(&in->msg, in->stop_code, "%s", in->stop_why)
                                  : fail(&in->msg, -ECANCELED, "it was given up");
    if (in->error < 0) {
        inflow_tell(in);
        in->queue.len = 0;
        if (in->ending || in->cancelled) {
            give_up(in);
            return;
        }
    } else if (in->finished) {
        in->over = true;
        in->ops->ended(in);
        return; /* IN may be gone */
    } else if (in->queue.len || in->ending) {
        struct wr empty = in->batch;
        in->batch = in->queue;
        in->queue = empty;
        in->last = in->ending;
        inflow_work(in, run_take, go_on);
    }
    if (s) {
        session_flush(s);
        session_resume(s);
    }
}

/* ---- messages ------------------------------------------------------------------------------------------------------------ */

void inflow_open(struct inflow *in, struct session *s, uint64_t request)
{
    assert(!s->inflow);
    in->server = s->server;
    in->session = session_ref(s);
    in->request = request;
    s->inflow = in;
}

void inflow_rows(struct session *s, uint64_t request, struct bytes records)
{
    struct inflow *in = s->inflow;

    if (!in || in->ending) {
        answer_error(s, request, SKADE_EPROTOCOL, "rows without an open append or compaction");
        return;
    }
    if (!in->working && in->error < 0)
        return; /* told already */
    in->request = request;
    wr_bytes(&in->queue, records.data, records.len);
    if (in->queue.error)
        session_close(s, "no memory for its rows");
}

bool inflow_end(struct session *s, uint64_t request, uint64_t rows, const struct inflow_ops *ops)
{
    struct inflow *in = s->inflow;

    if (!in || in->ending || in->ops != ops) {
        answer_error(s, request, SKADE_EPROTOCOL, "the end of what wasn't begun");
        return false;
    }
    in->request = request;
    in->told = false; /* the end is answered in any case */
    in->ending = true;
    in->rows_expected = rows;
    s->inflight++;
    return true;
}

void inflow_go(struct session *s)
{
    struct inflow *in = s->inflow;

    if (in && !in->working && !in->over && (in->queue.len || in->ending))
        go_on(in);
}

void inflow_abort(struct session *s)
{
    struct inflow *in = s->inflow;

    if (!in)
        return;
    in->told = true;
    in->cancelled = true;
    in->session = NULL;
    s->inflow = NULL;
    if (in->ending)
        s->inflight--;
    if (!in->working && !in->over)
        give_up(in);
    session_unref(s);
}

void inflow_stop(struct inflow *in, int code, const char *why)
{
    in->stop_code = code;
    in->stop_why = why;
    in->cancelled = true;
    if (in->working)
        return;
    if (!in->error)
        in->error = fail(&in->msg, code, "%s", why);
    if (!in->ending)
        give_up(in);
}

bool inflow_is_full(const struct session *s)
{
    return s->inflow && s->inflow->queue.len >= QUEUE_MAX;
}
