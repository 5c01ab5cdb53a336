/*
 * The value of a key, and what a handle learns of a table's files on the way.
 *
 * Each table that is asked for has a lease and a row set that stay.  While the log's newest event is the one that the
 * lease was taken at, nothing has happened, and no word is said to the daemon.  Otherwise one request tells whether the
 * snapshot is still made of the same files:
 *
 *     the same            the new lease takes the old one's place
 *     it went on          the newer files are added to the row set, which keeps what it knows of the others
 *     another base        a new row set
 *
 * A lease on an older moment keeps all that was retired since from being removed.  So with a new one the others end that
 * would be asked for again in any case, and with a view those of its moment.
 */
#include "client.h"

#include <stdlib.h>

#define WARM_MAX 8 /* least recently used go */
#define KEY_MAX 65535u
#define TRIES 3

struct warm {
    struct warm *next;
    struct hold_question q; /* without its log: that is the lease's */
    struct hold hold;
    struct rowset *set; /* NULL: nothing learned yet */
    bool of_view;       /* its moment is a view's, until that is closed */
};

/* ---- what is known ---------------------------------------------------------------------------------------- */

static void warm_free(skade *s, struct warm *w)
{
    rowset_close(w->set);
    hold_end(s, &w->hold);
    free(w);
}

static void forget(skade *s, struct warm *w)
{
    struct warm **link = &s->warm;

    while (*link != w)
        link = &(*link)->next;
    *link = w->next;
    warm_free(s, w);
}

void gets_forget(skade *s)
{
    while (s->warm)
        forget(s, s->warm);
}

void gets_forget_view(skade *s, uint64_t at)
{
    struct warm *next;

    for (struct warm *w = s->warm; w; w = next) {
        next = w->next;
        if (w->of_view && w->q.at == at)
            forget(s, w);
    }
}

static void forget_oldest(skade *s)
{
    struct warm *w = s->warm;
    unsigned n = 0;

    for (; w && w->next; w = w->next)
        n++;
    if (n >= WARM_MAX)
        forget(s, w);
}

static const struct uuid *log_of(const skade *s, const struct hold_question *q)
{
    return q->log ? q->log : &s->log;
}

static bool is_about(const skade *s, const struct warm *w, const struct hold_question *q)
{
    return w->q.table == q->table && w->q.by == q->by && w->q.value == q->value && w->q.at == q->at &&
           uuid_equal(&w->hold.log, log_of(s, q));
}

/* What is known for Q, now the newest; made if need be.  NULL: no memory. */
static struct warm *find(skade *s, const struct hold_question *q)
{
    struct warm **link = &s->warm;

    while (*link && !is_about(s, *link, q))
        link = &(*link)->next;
    struct warm *w = *link;
    if (w) {
        *link = w->next;
    } else {
        w = calloc(1, sizeof *w);
        if (!w)
            return NULL;
        w->q = *q;
        w->q.log = NULL;
        w->hold.log = *log_of(s, q);
    }
    w->of_view = q->log != NULL;
    w->next = s->warm;
    s->warm = w;
    forget_oldest(s);
    return w;
}

/* ---- is it still so? ---------------------------------------------------------------------------------------- */

/* 1: what is known of W holds without asking.  0: ask.  SKADE_EREPLACED. */
static int is_settled(skade *s, const struct warm *w)
{
    if (!w->set || !hold_is_held(s, &w->hold))
        return 0;
    if (w->q.at != SEQ_MAX) /* a view's moment never changes, and the lease keeps its files */
        return stream_is_alive(&s->stream);
    if (s->shm.off)
        return 0;
    int r = attach_page(s);
    if (r < 0)
        return r == SKADE_EREPLACED ? r : 0;
    return attach_is_connected(s) && control_commit_seq(s->shm.control.page) == w->hold.at &&
           attach_is_current(s);
}

static bool is_same(const struct hold *a, const struct hold *b)
{
    return a->seq == b->seq && a->base_seq == b->base_seq && a->after == b->after;
}

static bool has_gone_on(const struct hold *then, const struct hold *now)
{
    return now->seq > then->seq && now->base_seq == then->base_seq && now->after == then->after;
}

static int extend(skade *s, struct warm *w, const struct hold *now)
{
    struct hold_files files;

    int r = hold_files(s, now, w->hold.seq, &files);
    if (r == 0)
        r = rowset_extend(w->set, files.files, files.n, &s->msg);
    hold_files_fini(&files);
    return r;
}

static int replace(skade *s, struct warm *w, const struct hold *now, const struct rowset_options *opt)
{
    struct rowset_options options = *opt;
    struct hold_files files;
    struct rowset *set = NULL;

    options.log = now->origin;
    options.table = now->table;
    options.owner = s->place.uid;
    options.held = hold_stands;
    options.held_arg = &w->hold; /* what NOW becomes, when all is well */
    int r = hold_files(s, now, 0, &files);
    if (r == 0)
        r = rowset_open(&set, files.files, files.n, &options, &s->msg);
    hold_files_fini(&files);
    if (r != 0)
        return r;
    rowset_close(w->set);
    w->set = set;
    return 0;
}

/* What was learned with them stays. */
static void end_older(skade *s, uint64_t at)
{
    for (struct warm *w = s->warm; w; w = w->next)
        if (!w->of_view && w->hold.at < at)
            hold_end(s, &w->hold);
}

/* 0; 1 when the connection broke in between: again. */
static int ask_again(skade *s, struct warm *w, const struct hold_question *q,
                     const struct rowset_options *opt)
{
    struct hold now;

    int r = hold_take(s, q, &now);
    if (r < 0)
        return r;
    if (w->set && is_same(&w->hold, &now))
        r = 0;
    else if (w->set && has_gone_on(&w->hold, &now))
        r = extend(s, w, &now);
    else
        r = replace(s, w, &now, opt);
    hold_end(s, r == 0 ? &w->hold : &now);
    if (r == 0) {
        w->hold = now;
        end_older(s, now.at);
    }
    return r;
}

static int bring_up_to_date(skade *s, struct warm *w, const struct hold_question *q,
                            const struct rowset_options *opt)
{
    int r = is_settled(s, w);
    if (r != 0)
        return r < 0 ? r : 0;
    for (int i = 0; i < TRIES; i++) {
        r = ask_again(s, w, q, opt);
        if (r <= 0)
            return r;
    }
    return fail(&s->msg, SKADE_EUNREACHABLE,
                "the daemon at %s closes every connection in the middle of an answer", s->socket_path);
}

/* ---- the value -------------------------------------------------------------------------------------------------- */

static int take_value(skade *s, struct warm *w, const struct row *row, void *buffer, size_t cap, size_t *len)
{
    size_t n = row->value_len < cap ? (size_t)row->value_len : cap;
    int r = 0;

    if (n > 0 && row->value)
        memcpy(buffer, row->value, n);
    else if (n > 0)
        r = rowset_get_read(w->set, 0, buffer, n, &s->msg);
    if (r < 0)
        return r;
    *len = (size_t)row->value_len;
    if (row->value_len > cap)
        return fail(&s->msg, -ERANGE,
                    "the value has %llu bytes, more than the buffer: ask again with as much room",
                    (unsigned long long)row->value_len);
    return 1;
}

struct wanted {
    struct bytes key;
    void *buffer;
    size_t cap;
    size_t *len;
};

/* What takes its time doesn't count: the daemon had no part in it. */
static int look_up(skade *s, struct warm *w, const struct wanted *wanted, struct row *row)
{
    int r = rowset_get_at_hand(w->set, wanted->key, row);
    if (r == 0 || r == 1)
        return r == 0 ? 0 : take_value(s, w, row, wanted->buffer, wanted->cap, wanted->len);
    int64_t since = clock_ms();
    r = rowset_get(w->set, wanted->key, row, &s->msg);
    if (r == 1)
        r = take_value(s, w, row, wanted->buffer, wanted->cap, wanted->len);
    deadline_leave_out(s, since);
    return r;
}

static int get_once(skade *s, const struct hold_question *q, const struct rowset_options *opt,
                    const struct wanted *wanted)
{
    struct row row;

    struct warm *w = find(s, q);
    if (!w)
        return fail(&s->msg, -ENOMEM, "out of memory for a table's files");
    int r = bring_up_to_date(s, w, q, opt);
    if (r == 0)
        r = look_up(s, w, wanted, &row);
    if (r < 0 && r != -ERANGE)
        forget(s, w);
    return r;
}

static int get(skade *s, skade_table table, const struct skade_scan_options *options,
               const struct wanted *wanted)
{
    struct hold_question q;
    struct rowset_options opt = { .memory = 0 };

    int r = hold_ask(s, table, options, &q);
    if (r == 0 && (!wanted->key.data || wanted->key.len > KEY_MAX))
        r = fail(&s->msg, SKADE_EINPUT, "a key has 0 to %u bytes", KEY_MAX);
    if (r < 0)
        return r;
    if (options) {
        opt.memory = options->memory;
        opt.temp_dir = options->temp_dir;
    }
    r = get_once(s, &q, &opt, wanted);
    if (r == SKADE_EEXPIRED &&
        s->refusal.code == 0) /* a file is gone: its lease had ended with its connection */
        r = get_once(s, &q, &opt, wanted);
    return r;
}

int skade_get(skade *s, skade_table table, const struct skade_scan_options *options, const void *key,
              size_t key_len, void *buffer, size_t cap, size_t *len)
{
    struct call c;
    struct wanted wanted = { .key = { key, key_len }, .buffer = buffer, .cap = cap, .len = len };

    int r = call_begin(&c, s);
    if (r == 0) {
        s->refusal.code = 0;
        r = get(s, table, options, &wanted);
    }
    return (int)call_end(&c, r);
}
