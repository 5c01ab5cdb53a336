#include "jobs.h"

#include "indexer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- old events -------------------------------------------------------------------------------------------------- */

#define SLICE_BYTES (256u << 10)

static int take_event(void *arg, const struct event *event, uint64_t chain)
{
    struct slice_job *job = arg;

    (void)chain;
    struct event *copy = event_copy(event);
    if (!copy)
        return -ENOMEM;
    job->events[job->count++] = copy;
    return 0;
}

static void run_slice(struct log_job *base, struct commitlog *log)
{
    struct slice_job *job = (struct slice_job *)base;
    struct commitlog_cursor cursor;

    int r = commitlog_seek(log, job->after, &cursor, &job->msg);
    if (r == 0)
        r = commitlog_read(log, &cursor, job->limit, SLICE_BYTES, take_event, job, &job->msg);
    job->error = r < 0 ? r : 0;
}

/* The log has events that are durable and not visible yet: nobody is told of them here. */
static void drop_invisible(struct slice_job *job)
{
    uint64_t visible = job->session->server->ledger->seq;

    while (job->count > 0 && job->events[job->count - 1]->seq > visible)
        free(job->events[--job->count]);
}

static void slice_finished(struct log_job *base)
{
    struct slice_job *job = (struct slice_job *)base;

    drop_invisible(job);
    job->done(job);
    for (size_t i = 0; i < job->count; i++)
        free(job->events[i]);
    session_unref(job->session);
    free(job->events);
    free(job);
}

int slice_job_start(struct session *s, uint64_t request, uint64_t after, uint32_t limit, uint64_t watch,
                    void (*done)(struct slice_job *job))
{
    struct slice_job *job = calloc(1, sizeof *job);
    if (!job)
        return -ENOMEM;
    job->events = calloc(limit, sizeof *job->events);
    if (!job->events) {
        free(job);
        return -ENOMEM;
    }
    job->job.run = run_slice;
    job->job.done = slice_finished;
    job->session = session_ref(s);
    job->request = request;
    job->after = after;
    job->limit = limit;
    job->watch = watch;
    job->done = done;
    logthread_post(s->server->log_thread, &job->job, false);
    return 0;
}

/* ---- verification ---------------------------------------------------------------------------------------------------- */

#define VERIFY_ROWS 16384

static void index_differs(struct verify_job *job, const struct event *e, const char *what)
{
    if (!job->index_damaged++)
        snprintf(job->index_detail, sizeof job->index_detail, "event %" PRIu64 ": %s; run skadectl reindex",
                 e->seq, what);
}

/* Is E in the index exactly as the log has it, by history and, if it introduced its snapshot, by id? */
static void compare(struct verify_job *job, const struct event *e)
{
    const struct generation *g = job->generation;
    char location[LOCATION_MAX];
    struct found f;

    job->compared++;
    if (generation_before(g, e->table, e->seq + 1, &f) != 1 || f.hit.seq != e->seq) {
        index_differs(job, e, "the index lacks it");
        return;
    }
    int len = generation_location(g, &f, location, sizeof location, NULL);
    if (len < 0 || !bytes_equal((struct bytes){ location, (size_t)len }, e->text) ||
        f.hit.time_us != e->time_us)
        index_differs(job, e, "the index has another location or time");
    else if ((e->flags & EVENT_INTRODUCES) &&
             (generation_search(g, e->table, e->snapshot, SEQ_MAX, &f) != 1 || f.hit.seq > e->seq))
        index_differs(job, e, "the index doesn't find its snapshot");
}

static int verify_row(void *arg, const struct event *e, uint64_t chain)
{
    struct verify_job *job = arg;

    (void)chain;
    job->rows++;
    if (job->full && (e->kind == EVENT_COMMIT || e->kind == EVENT_COMPACT) &&
        e->seq <= job->generation->covered)
        compare(job, e);
    return 0;
}

static void run_verify(struct log_job *base, struct commitlog *log)
{
    struct verify_job *job = (struct verify_job *)base;

    int r = commitlog_read(log, &job->cursor, VERIFY_ROWS, SIZE_MAX, verify_row, job, &job->msg);
    if (r < 0)
        job->log_damaged = 1;
    job->more = r == 1;
}

static void tables_checked(struct table_check *tc)
{
    struct verify_job *job = tc->owner;

    job->done(job);
    generation_unref(job->generation);
    session_unref(job->session);
    free(job);
}

static void verify_finished(struct log_job *base)
{
    struct verify_job *job = (struct verify_job *)base;

    if (job->more && !job->session->closing && !job->session->server->stopping) {
        logthread_post(job->session->server->log_thread, &job->job, false);
        return;
    }
    job->tables = (struct table_check){ .server = job->session->server,
                                        .full = job->full,
                                        .cancelled = &job->session->closing,
                                        .owner = job,
                                        .done = tables_checked };
    table_check_start(&job->tables);
}

int verify_job_start(struct session *s, uint64_t request, bool full, void (*done)(struct verify_job *job))
{
    struct verify_job *job = calloc(1, sizeof *job);
    if (!job)
        return -ENOMEM;
    job->job.run = run_verify;
    job->job.done = verify_finished;
    job->session = session_ref(s);
    job->request = request;
    job->full = full;
    job->generation = generation_ref((struct generation *)indexer_generation(s->server->indexer));
    job->cursor = commitlog_start(commitlog_meta(s->server->log)); /* uuid and seed never change */
    job->done = done;
    logthread_post(s->server->log_thread, &job->job, false);
    return 0;
}

/* ---- backup ---------------------------------------------------------------------------------------------------------------- */

#define BACKUP_PAGES 512
#define BACKUP_CHUNK (256u << 10)

enum backup_stage { BACKUP_COPYING, BACKUP_READING, BACKUP_ENDING, BACKUP_OVER };

struct backup {
    struct log_job job;
    struct session *session;
    uint64_t request;
    enum backup_stage stage;
    bool running; /* on the log thread */
    bool cancelled;
    struct commitlog_backup *copy;
    char *chunk;
    ssize_t chunk_len;
    uint64_t sent;
    struct commitlog_meta meta;
    int error;
    struct errmsg msg;
};

static void copy_some(struct backup *b, struct commitlog *log)
{
    int r = b->copy ? 0 : commitlog_backup_begin(&b->copy, log, &b->msg);

    if (r == 0)
        r = commitlog_backup_step(b->copy, BACKUP_PAGES, &b->msg);
    if (r < 0) {
        b->error = r;
        b->stage = BACKUP_ENDING;
    } else if (r == 0) {
        b->meta = *commitlog_backup_meta(b->copy);
        b->stage = BACKUP_READING;
    }
}

static void read_some(struct backup *b)
{
    b->chunk_len = pread(commitlog_backup_fd(b->copy), b->chunk, BACKUP_CHUNK, (off_t)b->sent);
    if (b->chunk_len < 0)
        b->error = fail(&b->msg, -errno, "reading the copy: %s", error_text(-errno));
    if (b->chunk_len <= 0)
        b->stage = BACKUP_ENDING;
}

static void run_backup(struct log_job *base, struct commitlog *log)
{
    struct backup *b = (struct backup *)base;

    b->chunk_len = 0;
    switch (b->stage) {
    case BACKUP_COPYING:
        copy_some(b, log);
        break;
    case BACKUP_READING:
        read_some(b);
        break;
    case BACKUP_ENDING:
        commitlog_backup_end(b->copy);
        b->copy = NULL;
        b->stage = BACKUP_OVER;
        break;
    case BACKUP_OVER:
        break;
    }
}

static void send_chunk(struct backup *b)
{
    struct session *s = b->session;
    struct msg_chunk m = { .data = { b->chunk, (size_t)b->chunk_len } };
    size_t at = answer_begin(s);

    wire_put_chunk(&s->out, &m);
    answer_end(s, at, WIRE_CHUNK, FRAME_MORE, b->request);
    b->sent += (size_t)b->chunk_len;
    session_flush(s);
}

static void send_end(struct backup *b)
{
    struct session *s = b->session;

    if (b->error < 0) {
        answer_error(s, b->request, b->error, "%s", b->msg.text);
    } else {
        struct msg_backup_end m = { .seq = b->meta.last_seq, .bytes = b->sent };
        size_t at = answer_begin(s);
        wire_put_backup_end(&s->out, &m);
        answer_end(s, at, WIRE_BACKUP_END, 0, b->request);
    }
    s->inflight--;
    session_flush(s);
    session_resume(s);
}

void backup_go_on(struct backup *b)
{
    if (b->running || (!b->cancelled && session_owed(b->session) >= SESSION_OWED_MAX))
        return;
    if (b->cancelled && b->stage < BACKUP_ENDING)
        b->stage = BACKUP_ENDING;
    b->running = true;
    logthread_post(b->session->server->log_thread, &b->job, false);
}

static void backup_stepped(struct log_job *base)
{
    struct backup *b = (struct backup *)base;
    struct session *s = b->session;

    b->running = false;
    if (s->server->stopping)
        b->cancelled = true;
    if (b->chunk_len > 0 && !b->cancelled)
        send_chunk(b);
    if (b->stage != BACKUP_OVER) {
        backup_go_on(b);
        return;
    }
    s->backup = NULL;
    if (!s->closing)
        send_end(b);
    session_unref(s);
    free(b->chunk);
    free(b);
}

int backup_start(struct session *s, uint64_t request)
{
    struct backup *b = calloc(1, sizeof *b);
    if (!b)
        return -ENOMEM;
    b->chunk = malloc(BACKUP_CHUNK);
    if (!b->chunk) {
        free(b);
        return -ENOMEM;
    }
    b->job.run = run_backup;
    b->job.done = backup_stepped;
    b->session = session_ref(s);
    b->request = request;
    s->backup = b;
    backup_go_on(b);
    return 0;
}

void backup_cancel(struct backup *b)
{
    b->cancelled = true;
    backup_go_on(b);
}
