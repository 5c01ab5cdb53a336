/*
 * Compaction: by the daemon alone, or row by row through this process when the caller wants to choose.
 *
 *     no callback     COMPACT ------------------------------------------> PROGRESS ... COMPACTED
 *     a callback      lease, scan, COMPACT_BEGIN, survivors as ROWS, COMPACT_END ----> COMPACTED
 *
 * A compaction goes on while anybody waits for it.  To end it is to say that we don't wait any more.  It changes no
 * row that anybody sees but what the rules drop, and carries a uuid, so it can be asked for again when the answer was
 * lost.
 */
#include "client.h"

#include "rowstream.h"

#include <stdlib.h>

#define CANCEL_MS 1000    /* patience with the end of a wait; then the connection is closed */
#define PROGRESS_MS 250   /* between two calls of the progress callback */
#define PIECE (64u << 10) /* of a value too long to be in memory */

enum { RULE_BEFORE = 1, RULE_PREFIX = 2, RULE_RANGE = 3 }; /* PRUNE_ROW */
enum { RUN, DRY_RUN, JOIN_ONLY, BEGIN_ONLY };              /* COMPACT.mode */

struct job {
    skade *s;
    skade_table table;
    struct skade_compact_options o;
    struct uuid uuid;
    uint8_t mode;
    uint64_t rows_done, rows_total, bytes_written;
    int64_t told; /* progress, when */
    struct skade_compacted out;
};

/* ---- progress ----------------------------------------------------------------------------------------------- */

/* Other than 0: the caller wants no more. */
static int tell_progress(void *arg)
{
    struct job *j = arg;

    if (!j->o.progress)
        return 0;
    j->s->lent = true;
    int r = j->o.progress(j->o.progress_arg, j->rows_done, j->rows_total, j->bytes_written);
    j->s->lent = false;
    j->told = clock_ms();
    return r;
}

static int cancelled(skade *s)
{
    return fail(&s->msg, -ECANCELED, "the compaction was cancelled; nothing was changed");
}

/* ---- answers -------------------------------------------------------------------------------------------------- */

static int take_progress(struct job *j, const struct frame *f)
{
    struct msg_progress m;

    if (wire_read_progress(f->payload, f->head.len, &m) < 0 || !j->s->unfinished)
        return ask_broken(j->s, "a malformed word about a compaction");
    j->rows_done = m.rows_done;
    j->rows_total = m.rows_total;
    j->bytes_written = m.bytes_written;
    return 0;
}

static int take_compacted(struct job *j, const struct frame *f)
{
    struct msg_compacted m;
    struct skade_compacted *out = &j->out;

    if (wire_read_compacted(f->payload, f->head.len, &m) < 0 || m.old_data_dir.len > SKADE_LOCATION_MAX)
        return ask_broken(j->s, "a malformed answer to a compaction");
    *out = (struct skade_compacted){ .joined = m.joined,
                                     .sampled = m.sampled,
                                     .seq = m.seq,
                                     .snapshot = m.snapshot,
                                     .rows = m.rows,
                                     .rows_pruned = m.rows_pruned,
                                     .snapshots_before = m.snapshots_before,
                                     .carried = m.carried,
                                     .files_before = m.files_before,
                                     .files_after = m.files_after,
                                     .bytes_before = m.bytes_before,
                                     .bytes_after = m.bytes_after,
                                     .raw_bytes = m.raw_bytes,
                                     .micros = m.micros };
    memcpy(out->old_data_dir, m.old_data_dir.data, m.old_data_dir.len);
    return 0;
}

/* ---- waiting, and waiting no more ------------------------------------------------------------------------------- */

static int send_cancel(skade *s, uint64_t number)
{
    wire_put_cancel(ask_begin(s), &(struct msg_cancel){ .request = number });
    if (ask_finish(s, WIRE_CANCEL) == 0)
        return -ENOMEM;
    s->deadline = deadline_sooner(deadline_in(s->timeout_ms), CANCEL_MS);
    return ask_send(s);
}

/* Without the DONE nobody knows whether it came in time. */
static int left_early(skade *s)
{
    return fail(&s->msg, SKADE_EUNKNOWN,
                "the daemon at %s didn't say whether the compaction was cancelled in time: see the table's "
                "history",
                s->socket_path);
}

/* The answer may have been on its way: then it counts, and the caller was late.  The end is a DONE in any case. */
static int stop_waiting(struct job *j, uint64_t number)
{
    skade *s = j->s;
    struct frame f = { .head = { .type = 0 } };
    bool made = false;

    int r = send_cancel(s, number);
    while (r == 0 && f.head.type != WIRE_DONE) {
        r = ask_receive(s, number, ANY_ANSWER, &f);
        if (r < 0 && s->refusal.code != 0)
            r = 0;
        else if (r == 0 && f.head.type == WIRE_COMPACTED)
            made = (r = take_compacted(j, &f)) == 0;
        else if (r == 0 && f.head.type == WIRE_PROGRESS) /* it can't be ended any more, and we shall hear */
            deadline_renew(s);
    }
    if (r != 0)
        ask_hang_up(s);
    return made ? 0 : r == 0 ? cancelled(s) : left_early(s);
}

/* Wait for the answer to request NUMBER. */
static int await_compacted(struct job *j, uint64_t number)
{
    skade *s = j->s;
    struct frame f;

    for (;;) {
        int r = ask_await_long(s, tell_progress, j);
        if (r == -ECANCELED)
            return stop_waiting(j, number);
        if (r == 0)
            r = ask_receive(s, number, ANY_ANSWER, &f);
        if (r < 0)
            return r;
        deadline_renew(s);
        if (f.head.type == WIRE_COMPACTED)
            return take_compacted(j, &f);
        if (f.head.type != WIRE_PROGRESS)
            return ask_broken(s, "an answer of the wrong type");
        r = take_progress(j, &f);
        if (r < 0)
            return r;
        if (tell_progress(j) != 0)
            return stop_waiting(j, number);
    }
}

/* ---- by the daemon ------------------------------------------------------------------------------------------------ */

static struct bytes bytes_at(const void *data, size_t len)
{
    return (struct bytes){ data ? data : "", data ? len : 0 };
}

/* The rules, as they are sent and as they are applied here; their number. */
static uint32_t rules_of(const struct skade_compact_options *o, struct item_prune_row ret[3])
{
    const struct bytes none = { "", 0 };
    uint32_t n = 0;

    if (o->has_drop_before)
        ret[n++] = (struct item_prune_row){
            .rule = RULE_BEFORE, .time_us = o->drop_before_us, .key = none, .key_to = none
        };
    if (o->keep_prefix)
        ret[n++] = (struct item_prune_row){ .rule = RULE_PREFIX,
                                            .key = bytes_at(o->keep_prefix, o->keep_prefix_len),
                                            .key_to = none };
    if (o->drop_from)
        ret[n++] = (struct item_prune_row){ .rule = RULE_RANGE,
                                            .key = bytes_at(o->drop_from, o->drop_from_len),
                                            .key_to = bytes_at(o->drop_to, o->drop_to_len) };
    return n;
}

static void put_compact(struct job *j, struct wr *w)
{
    struct item_prune_row rules[3];
    struct msg_compact m = { .uuid = j->uuid,
                             .table = j->table,
                             .mode = j->mode,
                             .target_size = j->o.target_size,
                             .block_size = j->o.block_size,
                             .level = j->o.level };

    m.prune.count = rules_of(&j->o, rules);
    wire_put_compact(w, &m);
    for (uint32_t i = 0; i < m.prune.count; i++)
        wire_put_prune_row(w, &rules[i]);
}

struct attempt {
    bool connected;  /* this time */
    bool sent;       /* any time */
    int64_t give_up; /* the deadline of all further tries; 0: the connection hasn't broken yet */
};

static int try_compact(struct job *j, struct attempt *a)
{
    skade *s = j->s;

    a->connected = false;
    if (attach_page(s) == SKADE_EREPLACED) /* its heartbeat is wanted */
        return SKADE_EREPLACED;
    int r = ask_connect(s);
    if (r < 0)
        return r;
    a->connected = true;
    put_compact(j, ask_begin(s));
    uint64_t number = ask_finish(s, WIRE_COMPACT);
    if (number == 0)
        return -ENOMEM;
    r = ask_send(s);
    if (r < 0)
        return r;
    a->sent = true;
    return await_compacted(j, number);
}

/* As with a release: a broken connection is one more try, and a daemon that is away is waited for.  So is a compaction
 * that can't be joined since it was cancelled. */
static bool try_again(struct job *j, struct attempt *a, int r)
{
    skade *s = j->s;
    bool busy = a->connected && r == SKADE_EBUSY && s->refusal.code == r;

    if (a->connected ? r != STREAM_LOST && !busy : !a->sent || r == SKADE_EREPLACED)
        return false;
    if ((a->connected && !busy) || a->give_up == 0) {
        deadline_renew(s);
        a->give_up = s->deadline;
    }
    s->deadline = a->give_up;
    count(s, CLIENT_requests_again);
    return tell_progress(j) == 0 && deadline_pause(a->give_up, 50);
}

static int compact_there(struct job *j)
{
    struct attempt a = { .sent = false };
    skade *s = j->s;
    int r;

    do
        r = try_compact(j, &a);
    while (r < 0 && try_again(j, &a, r));
    if (r < 0 && a.sent && (r == STREAM_LOST || !a.connected) && r != SKADE_EREPLACED)
        return fail(
            &s->msg, SKADE_EUNKNOWN,
            "the connection to %s broke before the compaction was done: see its history for what became "
            "of it",
            s->socket_path);
    return r;
}

/* ---- row by row ------------------------------------------------------------------------------------------------- */

static int compare(struct bytes a, struct bytes b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int r = n ? memcmp(a.data, b.data, n) : 0;

    return r != 0 ? r : (a.len > b.len) - (a.len < b.len);
}

static bool rule_drops(const struct item_prune_row *rule, const struct row *row)
{
    bool keyed = row->flags & ROW_KEYED;
    size_t n = rule->key.len;

    if (rule->rule == RULE_BEFORE)
        return row->time_us < rule->time_us;
    if (rule->rule == RULE_PREFIX)
        return keyed && (row->key.len < n || (n && memcmp(row->key.data, rule->key.data, n) != 0));
    return keyed && compare(row->key, rule->key) >= 0 &&
           (rule->key_to.len == 0 || compare(row->key, rule->key_to) < 0);
}

/* 1: the row stays; 0; or what the callback ended it with. */
static int judge(struct job *j, const struct row *row)
{
    struct item_prune_row rules[3];
    uint32_t n = rules_of(&j->o, rules);

    for (uint32_t i = 0; i < n; i++)
        if (rule_drops(&rules[i], row))
            return 0;
    struct skade_row told = row_told(row, sizeof told);
    j->s->lent = true;
    int r = j->o.prune(j->o.prune_arg, &told);
    j->s->lent = false;
    return r < 0 ? fail(&j->s->msg, r, "the callback ended the compaction; nothing was changed") : r > 0;
}

static int send_long(struct job *j, struct rowset_cursor *c, const struct row *row)
{
    char piece[PIECE];
    skade *s = j->s;

    int r = upload_long_survivor(s, row);
    for (uint64_t off = 0; r == 0 && off < row->value_len;) {
        size_t n = row->value_len - off < PIECE ? (size_t)(row->value_len - off) : PIECE;
        r = rowset_value_read(c, off, piece, n, &s->msg);
        if (r == 0)
            r = upload_write(s, piece, n);
        if (r == 0 && clock_ms() - j->told >= PROGRESS_MS && tell_progress(j) != 0)
            r = cancelled(s);
        off += n;
    }
    return r < 0 ? r : upload_row_end(s);
}

static int send_row(struct job *j, struct rowset_cursor *c, const struct row *row)
{
    return row->value_len > ROW_WHOLE ? send_long(j, c, row) : upload_survivor(j->s, row);
}

static int pass(struct job *j, struct rowset_cursor *c, const struct row *row)
{
    int r = judge(j, row);
    j->rows_done++;
    if (r == 0)
        j->out.rows_pruned++;
    if (r <= 0)
        return r;
    j->out.rows++;
    j->out.raw_bytes += row->key.len + row->value_len;
    if (j->mode == DRY_RUN)
        return 0;
    j->bytes_written += row->key.len + row->value_len;
    return send_row(j, c, row);
}

static int pass_all(struct job *j, struct rowset *set)
{
    struct rowset_cursor *c;
    struct row row;
    skade *s = j->s;

    int r = rowset_cursor_open(&c, set, OLDEST_FIRST, 0, 1, &s->msg);
    if (r < 0)
        return r;
    while ((r = rowset_next(c, &row, &s->msg)) == 1) {
        r = pass(j, c, &row);
        if (r == 0 && clock_ms() - j->told >= PROGRESS_MS && tell_progress(j) != 0)
            r = cancelled(s);
        if (r < 0)
            break;
    }
    rowset_cursor_close(c);
    deadline_renew(s); /* all that was our own work */
    return r;
}

/* The pieces go where the lease is: on another connection its number means nothing. */
static int begin_upload(struct job *j, const struct hold *h)
{
    struct msg_compact_begin m = { .uuid = j->uuid,
                                   .lease = h->number,
                                   .target_size = j->o.target_size,
                                   .block_size = j->o.block_size,
                                   .level = j->o.level };
    struct wr *w;

    int r = upload_begin(j->s, &w);
    if (r < 0)
        return r;
    j->s->upload.serial = h->serial;
    j->s->upload.sent = true;
    wire_put_compact_begin(w, &m);
    upload_begun(j->s, WIRE_COMPACT_BEGIN);
    return 0;
}

/* *ENDED: from now on the daemon may have made it. */
static int end_upload(struct job *j, bool *ended)
{
    struct msg_compact_end m = { .rows = j->out.rows, .rows_pruned = j->out.rows_pruned };
    skade *s = j->s;
    uint64_t number;

    wire_put_compact_end(upload_last(s), &m);
    int r = upload_send_last(s, WIRE_COMPACT_END, &number);
    if (r < 0)
        return r;
    *ended = true;
    return await_compacted(j, number);
}

static int upload_survivors(struct job *j, const struct hold *h, struct rowset *set)
{
    skade *s = j->s;
    bool ended = false;

    int r = begin_upload(j, h);
    if (r < 0)
        return r;
    r = pass_all(j, set);
    if (r == 0)
        r = end_upload(j, &ended);
    r = r < 0 ? upload_reason(s, r) : 0;
    if (r == 0 || (ended && s->refusal.code != 0))
        upload_close(s);
    else
        upload_forget(s);
    if (r == STREAM_LOST)
        return fail(
            &s->msg, ended ? SKADE_EUNKNOWN : SKADE_EUNREACHABLE,
            ended ? "the connection to %s broke before the compaction was done: see its history for what "
                    "became of it"
                  : "the connection to %s broke: nothing was compacted",
            s->socket_path);
    return r;
}

/* As much smaller as its rows are fewer. */
static void estimate(struct job *j, const struct rowset_sum *sum)
{
    double share = sum->raw_bytes ? (double)j->out.raw_bytes / (double)sum->raw_bytes : 0;

    j->out.sampled = 1;
    j->out.files_before = sum->files;
    j->out.bytes_before = sum->bytes;
    j->out.bytes_after = (uint64_t)((double)sum->bytes * share);
}

static int choose_rows(struct job *j, const struct hold *h, struct rowset *set)
{
    skade *s = j->s;
    struct rowset_sum sum;

    int r = rowset_prepare(set, &s->msg);
    if (r == 0)
        r = rowset_sum(set, &sum, &s->msg);
    if (r < 0)
        return r;
    j->rows_total = sum.rows;
    if (j->mode != DRY_RUN)
        return upload_survivors(j, h, set);
    r = pass_all(j, set);
    estimate(j, &sum);
    return r;
}

static int compact_here(struct job *j)
{
    struct hold_question q = { .table = j->table, .at = SEQ_MAX };
    struct rowset_options opt = { .cancelled = tell_progress, .arg = j };
    struct rowset *set;
    struct hold h;
    skade *s = j->s;

    int r = hold_open(s, &q, &opt, &h, &set);
    if (r < 0)
        return r;
    if (h.seq != 0)
        r = choose_rows(j, &h, set);
    rowset_close(set);
    hold_end(s, &h);
    return r;
}

/* ---- the call ----------------------------------------------------------------------------------------------------- */

static int compact(struct job *j)
{
    if (!j->o.prune)
        return compact_there(j);
    int64_t since = clock_ms();
    int r = compact_here(j);
    if (r == SKADE_EBUSY &&
        j->mode == RUN) { /* another one compacts the table: what comes of that is the answer */
        j->mode = JOIN_ONLY;
        return compact_there(j);
    }
    if (j->mode == DRY_RUN)
        j->out.micros = (uint64_t)(clock_ms() - since) * 1000;
    return r;
}

static int choose_mode(skade *s, struct job *j)
{
    switch (j->o.flags) {
    case 0:
        j->mode = RUN;
        return 0;
    case SKADE_DRY_RUN:
        j->mode = DRY_RUN;
        return 0;
    case SKADE_NO_WAIT:
        j->mode = BEGIN_ONLY;
        return j->o.prune ? fail(&s->msg, SKADE_EINPUT, "a callback can't run when nobody waits for it") : 0;
    default:
        return fail(&s->msg, SKADE_EINPUT, "a compaction has no flags %#x: 0, SKADE_DRY_RUN or SKADE_NO_WAIT",
                    j->o.flags);
    }
}

static int prepare(skade *s, struct job *j, const struct skade_compact_options *options,
                   const struct skade_compacted *ret)
{
    if (ret && ret->size < sizeof *ret)
        return fail(&s->msg, SKADE_EINPUT, "skade_compacted.size is not set");
    if (options && options->size < sizeof *options)
        return fail(&s->msg, SKADE_EINPUT, "skade_compact_options.size is not set");
    if (options)
        j->o = *options;
    int r = choose_mode(s, j);
    if (r < 0)
        return r;
    memcpy(j->uuid.b, j->o.uuid, sizeof j->uuid.b);
    return uuid_is_zero(&j->uuid) ? ask_uuid(s, &j->uuid) : 0;
}

int skade_compact(skade *s, skade_table table, const struct skade_compact_options *options,
                  struct skade_compacted *ret)
{
    struct call c;
    struct job j = { .s = s, .table = table };

    int r = call_begin(&c, s);
    if (r == 0)
        r = prepare(s, &j, options, ret);
    if (r == 0)
        r = compact(&j);
    if (r == 0 && ret) {
        j.out.size = ret->size;
        copy_sized(ret, ret->size, &j.out, sizeof j.out);
    }
    return (int)call_end(&c, r);
}
