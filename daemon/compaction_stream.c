/*
 * A compaction whose rows come from a client: it scans a leased snapshot, drops what its callback drops, and sends the
 * rest.  From there on it is a compaction like any other.
 */
#include "compaction_internal.h"
#include "failpoint.h"
#include "indexer.h"
#include "inflow.h"
#include "stored_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

struct stream {
    struct inflow in; /* first: ops get a pointer to it */
    struct compaction *job;
    struct rows_out out;
    uint64_t value_left; /* of the row that goes on */
    uint64_t rows_pruned;
};

static struct stream *stream_of(struct inflow *in)
{
    return (struct stream *)in;
}

/* ---- on a worker ---------------------------------------------------------------------------------------------------- */

static int open_out(struct stream *st)
{
    struct compaction *c = st->job;

    if (c->dir >= 0)
        return 0;
    c->dir = store_dir(c->server->store, c->table, c->number + 1, &st->in.msg);
    if (c->dir < 0)
        return c->dir;
    c->rewrite.dir = c->dir;
    rewrite_settings(&c->rewrite, &st->out);
    return 0;
}

/* A row that comes in pieces says its length first: see ROWS in docs/PROTOCOL.md. */
static int begin_long(struct stream *st, const struct row_record *r)
{
    uint64_t len;

    if (r->value.len != sizeof len)
        return fail(&st->in.msg, SKADE_EPROTOCOL, "a long row of a compaction begins with its length");
    memcpy(&len, r->value.data, sizeof len);
    if (len <= ROW_WHOLE || len > ENTRY_VALUE_MAX)
        return fail(&st->in.msg, SKADE_EPROTOCOL, "a row of %" PRIu64 " bytes doesn't come in pieces", len);
    st->value_left = len;
    return rows_out_put(&st->out, r->flags & ROW_KEYED, r->key, NULL, len, r->time_us, &st->in.msg);
}

static int take_piece(struct stream *st, const struct row_record *r)
{
    if (r->value.len > st->value_left || (!(r->flags & ROW_GOES_ON) && r->value.len != st->value_left))
        return fail(&st->in.msg, SKADE_EPROTOCOL, "a row has another length than it said");
    st->value_left -= r->value.len;
    return rows_out_piece(&st->out, r->value.data, r->value.len, &st->in.msg);
}

static int take_record(struct inflow *in, const struct row_record *r)
{
    struct stream *st = stream_of(in);
    int result = FAILPOINT("compact.take");

    if (result < 0)
        return fail(&in->msg, result, "the survivors can't be taken: %s", error_text(result));
    if (atomic_load_explicit(&st->job->rewrite.cancelled, memory_order_relaxed))
        return fail(&in->msg, -ECANCELED, "the compaction was cancelled");
    if (r->flags & ROW_MORE)
        return take_piece(st, r);
    if (!(r->flags & ROW_TIMED) || (r->flags & ROW_DELETE))
        return fail(&in->msg, SKADE_EPROTOCOL, "survivors of a compaction have a time and are no deletions");
    result = open_out(st);
    if (result == 0 && r->flags & ROW_GOES_ON)
        result = begin_long(st, r);
    else if (result == 0)
        result = rows_out_put(&st->out, r->flags & ROW_KEYED, r->key, r->value.data, r->value.len, r->time_us,
                              &in->msg);
    atomic_fetch_add_explicit(&st->job->rewrite.rows_done, 1, memory_order_relaxed);
    return result;
}

static void drop(struct inflow *in)
{
    rows_out_fini(&stream_of(in)->out);
}

static void run_take(struct inflow *in)
{
    struct stream *st = stream_of(in);
    struct rewrite *rw = &st->job->rewrite;

    in->error = open_out(st);
    if (in->error == 0 && st->out.rows != in->rows_expected)
        in->error = fail(&in->msg, SKADE_EPROTOCOL, "%" PRIu64 " rows arrived of %" PRIu64, st->out.rows,
                         in->rows_expected);
    if (in->error < 0)
        return;
    rewrite_take(rw, &st->out);
    rw->rows_pruned = st->rows_pruned;
    in->error = rw->error;
    in->msg = rw->msg;
}

/* ---- on the loop --------------------------------------------------------------------------------------------------------- */

static void free_stream(struct inflow *in)
{
    inflow_fini(in);
    free(stream_of(in));
}

static void run_close(struct inflow *in)
{
    rows_out_fini(&stream_of(in)->out); /* the kernel takes its time to free long files */
}

/* The stream came to nothing: so does the job, for those who joined it, too. */
static void gone(struct inflow *in)
{
    struct stream *st = stream_of(in);
    struct compaction *c = st->job;

    if (c) {
        c->error = in->error;
        c->msg = in->msg;
        if (c->dropped)
            c->error = compaction_was_stopped(c);
        compaction_finish(c);
    }
    inflow_work(in, run_close, free_stream);
}

static void taken(struct inflow *in)
{
    struct stream *st = stream_of(in);
    struct compaction *c = st->job;

    c->rewrite.error = in->error;
    c->rewrite.msg = in->msg;
    inflow_leave(in);
    inflow_work(in, run_close, free_stream);
    compaction_rewritten(c);
}

static void listed(struct filelist *l)
{
    struct compaction *c = l->owner;
    struct stream *st = c->stream;

    if (l->error < 0) {
        st->in.error =
            fail(&st->in.msg, l->error, "the table's files can't be listed: %s", error_text(l->error));
        inflow_tell(&st->in);
        inflow_leave(&st->in);
        gone(&st->in);
        return;
    }
    c->rewrite.files = l->files;
    c->rewrite.files_count = l->count;
    inflow_work(&st->in, run_take, taken);
}

/* All rows are here.  Whoever sent them waits for the job like anyone who joined. */
static void ended(struct inflow *in)
{
    struct stream *st = stream_of(in);
    struct compaction *c = st->job;

    if (in->session && compaction_add_waiter(c, in->session, in->request, false) < 0) {
        in->error = fail(&in->msg, -ENOMEM, "skaded has no memory for this compaction: try again");
        inflow_tell(in);
        inflow_leave(in);
        gone(in);
        return;
    }
    c->arriving = false;
    in->told = true; /* the waiter gets the answer */
    c->list = (struct filelist){ .server = c->server,
                                 .table = c->table,
                                 .after = c->hold.after,
                                 .seq = c->hold.seq,
                                 .base_seq = c->hold.base_seq,
                                 .owner = c,
                                 .done = listed };
    filelist_start(&c->list);
}

void compaction_stream_stop(struct compaction *c, int code, const char *why)
{
    struct inflow *in = &c->stream->in;

    if (in->session)
        inflow_stop(in, code, why);
}

static const struct inflow_ops ops = { .record = take_record, .drop = drop, .ended = ended, .gone = gone };

/* ---- messages -------------------------------------------------------------------------------------------------------------- */

/* The lease must be on what is compacted: the head as of its moment, with the base that is still the newest. */
static int check_lease(const struct server *s, const struct lease *lease, uint64_t number, struct errmsg *msg)
{
    static struct answer head;

    if (!lease)
        return fail(msg, SKADE_EINPUT, "lease %" PRIu64 " isn't held by this connection: scan again", number);
    ledger_head(s->ledger, indexer_generation(s->indexer), lease->table, lease->at, &head);
    if ((head.status == 1 ? head.seq : 0) != lease->seq)
        return fail(msg, SKADE_EINPUT,
                    "a compaction needs a scan of the table's head: take lease %" PRIu64 " of that", number);
    return 0;
}

/* The snapshot is the lease's, not the one of this moment. */
static void adopt(struct compaction *c, const struct lease *lease)
{
    c->hold.at = lease->at;
    c->hold.seq = lease->seq;
    c->hold.snapshot = lease->snapshot;
    c->hold.time_us = lease->time_us;
    c->hold.base_seq = lease->base_seq;
    c->hold.after = lease->after;
}

static int open_job(struct session *s, const struct msg_compact_begin *m, struct stream *st)
{
    struct server *server = s->server;
    const struct lease *lease = lease_find(s, m->lease);
    struct table *t = NULL;
    struct errmsg *msg = &st->in.msg;

    int r = check_lease(server, lease, m->lease, msg);
    if (r == 0)
        r = stored_table(server, lease->table, SEQ_MAX, TO_COMPACT, &t, msg);
    if (r == 0)
        r = compaction_check_sizes(m->target_size, m->block_size, m->level, msg);
    if (r == 0 && uuid_is_zero(&m->uuid))
        r = fail(msg, SKADE_EINPUT, "a compaction needs a uuid");
    if (r == 0 && compaction_find(server, lease->table, false))
        r = fail(msg, SKADE_EBUSY, "the table is being compacted: join that, or try again when it is done");
    if (r == 0)
        st->job = compaction_make(server, t, &m->uuid, NULL, &r, msg);
    if (r < 0)
        return r;
    adopt(st->job, lease);
    st->job->stream = st;
    st->job->arriving = true;
    st->job->rewrite.target_size = m->target_size;
    st->job->rewrite.block_size = m->block_size;
    st->job->rewrite.level = m->level;
    compaction_prepare(st->job);
    return 0;
}

void compaction_begin_stream(struct session *s, uint64_t request, const struct msg_compact_begin *m)
{
    struct stream *st = s->inflow ? NULL : calloc(1, sizeof *st);

    if (!st) {
        answer_error(s, request, s->inflow ? SKADE_EBUSY : -ENOMEM,
                     s->inflow ? "this connection has an append or compaction open: end it first"
                               : "skaded has no memory for this compaction: try again");
        return;
    }
    st->in.ops = &ops;
    st->out.fd = -1;
    inflow_open(&st->in, s, request);
    st->in.error = open_job(s, m, st);
    if (st->in.error < 0)
        inflow_tell(&st->in);
}

void compaction_end_stream(struct session *s, uint64_t request, const struct msg_compact_end *m)
{
    struct inflow *in = s->inflow;

    if (in && in->ops == &ops)
        stream_of(in)->rows_pruned = m->rows_pruned;
    inflow_end(s, request, m->rows, &ops);
}
