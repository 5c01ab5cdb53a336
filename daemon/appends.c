#include "appends.h"

#include "compactions.h"
#include "content_sum.h"
#include "entry_writer.h"
#include "indexer.h"
#include "inflow.h"
#include "leases.h"
#include "store.h"
#include "stored_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

/* For the writing and the sorting of keys of one append: a connection may have one, and there are many connections. */
#define APPEND_MEMORY (2u << 20)

struct append {
    struct inflow in; /* first: ops get a pointer to it */
    struct append *next;
    uint32_t table, n;
    uint64_t seen_seq; /* the log's newest event when it began */
    struct uuid uuid;
    bool repeats; /* it was committed before it began: its file gets no name */
    bool
        claims; /* its file gets the uuid's name: who comes with the same uuid waits for what becomes of it */
    bool waits;
    int64_t snapshot;
    char location[LOCATION_MAX + 1];

    /* the worker's */
    int dir, fd;
    struct entry_writer *writer;
    struct entry_sum sum;
    bool linked;
};

/* All there are, also those whose session is gone: what becomes of them isn't settled yet. */
static struct append *appends;

static struct append *append_of(struct inflow *in)
{
    return (struct append *)in;
}

/* ---- on a worker --------------------------------------------------------------------------------------------------- */

static void close_file(struct append *a)
{
    entry_writer_close(a->writer);
    a->writer = NULL;
    if (a->fd >= 0)
        close(a->fd);
    a->fd = -1;
}

static int open_file(struct append *a)
{
    struct store *store = a->in.server->store;
    struct entry_writer_options options = { .log = a->in.server->origin, /* never changes */
                                            .uuid = a->uuid,
                                            .table = a->table,
                                            .seen_seq = a->seen_seq,
                                            .memory = APPEND_MEMORY };
    a->dir = a->repeats ? store_root(store, &a->in.msg) : store_dir(store, a->table, a->n, &a->in.msg);
    if (a->dir < 0)
        return a->dir;
    a->fd = store_temp(store, a->dir, &a->in.msg);
    if (a->fd < 0)
        return a->fd;
    options.temp_dir = a->dir;
    return entry_writer_open(&a->writer, a->fd, &options, &a->in.msg);
}

static int take_record(struct inflow *in, const struct row_record *r)
{
    struct append *a = append_of(in);
    bool more = r->flags & ROW_MORE;

    if (r->flags & ROW_TIMED)
        return fail(&in->msg, SKADE_EPROTOCOL, "an append's rows get the time of its commit");
    int result = a->writer ? 0 : open_file(a);
    if (result == 0 && !more)
        result = entry_begin(a->writer, r->flags & (ROW_KEYED | ROW_DELETE), r->key, &in->msg);
    if (result == 0 && r->value.len)
        result = entry_piece(a->writer, r->value.data, r->value.len, &in->msg);
    if (result == 0 && !(r->flags & ROW_GOES_ON))
        result = entry_end(a->writer, &in->msg);
    return result;
}

static void drop_file(struct inflow *in)
{
    close_file(append_of(in)); /* its room is free again at once */
}

static int seal(struct append *a)
{
    struct inflow *in = &a->in;
    int r = a->writer ? entry_writer_seal(a->writer, &a->sum, &in->msg) : 0; /* or no rows came at all */

    if (r == 0 && a->sum.rows != in->rows_expected)
        r = fail(&in->msg, SKADE_EPROTOCOL, "%" PRIu64 " rows arrived of %" PRIu64, a->sum.rows,
                 in->rows_expected);
    entry_writer_close(a->writer);
    a->writer = NULL;
    return r;
}

static struct store_file named_file(const struct append *a)
{
    return (struct store_file){ .fd = a->fd, .kind = NAME_ENTRIES };
}

static int give_names(struct append *a)
{
    struct store_file file = named_file(a);

    int r = store_link(a->in.server->store, a->dir, &a->uuid, &file, 1, &a->in.msg);
    a->linked = r == 0;
    if (r == -EEXIST)
        r = fail(&a->in.msg, SKADE_EINPUT,
                 "this uuid was used for an append that is too long ago to be answered again: make a new one "
                 "for a new append");
    return r;
}

/* Everything up to the commit, in one go: with the log that is three waits for the disk, and each step to another thread
 * would be a fourth. */
static void finish(struct inflow *in)
{
    struct append *a = append_of(in);

    in->error = seal(a);
    if (in->error == 0 && a->sum.rows > 0 && a->claims)
        in->error = give_names(a);
}

static void run_link(struct inflow *in)
{
    in->error = give_names(append_of(in));
}

static void run_unlink(struct inflow *in)
{
    struct append *a = append_of(in);
    struct store_file file = named_file(a);

    store_unlink(in->server->store, a->dir, &a->uuid, &file, 1);
    close_file(a);
}

static void run_settle(struct inflow *in)
{
    store_settle(in->server->store, append_of(in)->dir, &append_of(in)->uuid);
    store_refill(in->server->store);
}

/* ---- the end of it -------------------------------------------------------------------------------------------------------- */

static void ended(struct inflow *in);

static struct append *find_append(const struct append *twin, bool claims)
{
    struct append *a = appends;

    while (a && (a == twin || (claims ? !a->claims : !a->waits) || a->table != twin->table ||
                 !uuid_equal(&a->uuid, &twin->uuid)))
        a = a->next;
    return a;
}

/* What became of A is the answer to all that came with its uuid meanwhile; if it is nothing, the next one tries. */
static void wake_twins(const struct append *a)
{
    struct append *twin;

    while (!find_append(a, true) && (twin = find_append(a, false))) {
        twin->waits = false;
        if (a->in.error == SKADE_EUNKNOWN) {
            twin->in.error = a->in.error;
            twin->in.msg = a->in.msg;
        }
        ended(&twin->in);
    }
}

static void free_append(struct inflow *in)
{
    struct append *a = append_of(in), **link = &appends;

    while (*link != a)
        link = &(*link)->next;
    *link = a->next;
    if (a->claims)
        wake_twins(a);
    close_file(a);
    if (a->dir >= 0)
        close(a->dir);
    inflow_fini(in);
    free(a);
}

static void run_close(struct inflow *in)
{
    close_file(append_of(in)); /* the kernel takes its time to free a long one */
}

static void gone(struct inflow *in)
{
    counter_add(in->server->page, COUNTER_append_failed, 1);
    inflow_work(in, append_of(in)->linked ? run_unlink : run_close, free_append);
}

static void give_up(struct append *a)
{
    inflow_tell(&a->in);
    inflow_leave(&a->in);
    gone(&a->in);
}

static void put_appended(struct session *s, uint64_t request, const struct msg_appended *m)
{
    if (!s || s->closing)
        return;
    size_t at = answer_begin(s);
    wire_put_appended(&s->out, m);
    answer_end(s, at, WIRE_APPENDED, 0, request);
}

/* ---- judging ---------------------------------------------------------------------------------------------------------------- */

/* What the committer made of it. */
static void judged(struct change *c)
{
    struct append *a = c->owner;
    struct control_page *page = a->in.server->page;
    struct msg_appended m = { .seq = c->first_seq,
                              .snapshot = a->snapshot,
                              .time_us = c->time_us,
                              .rows = a->sum.rows,
                              .bytes = a->sum.size,
                              .location = bytes_of(a->location) };

    if (c->error < 0) {
        a->in.error = c->error;
        a->in.msg = c->msg;
        if (c->error == SKADE_EUNKNOWN) /* the next start finds out: its names stay */
            a->linked = false;
        give_up(a);
        return;
    }
    counter_add(page, COUNTER_appends, 1);
    counter_add(page, COUNTER_append_rows, a->sum.rows);
    counter_add(page, COUNTER_append_bytes, a->sum.size);
    put_appended(a->in.session, a->in.request, &m);
    inflow_leave(&a->in);
    compaction_consider(a->in.server, ledger_table(a->in.server->ledger, a->table));
    inflow_work(&a->in, run_settle, free_append);
}

static int submit(struct append *a)
{
    struct change *c = change_new(CHANGE_APPEND);
    struct change_row *row = c ? change_row(c) : NULL;

    if (row)
        row->event = (struct event){ .kind = EVENT_COMMIT,
                                     .flags = EVENT_INTRODUCES | EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT,
                                     .table = a->table,
                                     .snapshot = a->snapshot,
                                     .uuid = a->uuid,
                                     .text = change_text(c, bytes_of(a->location)),
                                     .text2 = { "", 0 } };
    if (!row || !row->event.text.data) {
        change_free(c);
        return fail(&a->in.msg, -ENOMEM, "skaded has no memory for this append: try again");
    }
    c->owner = a;
    c->done = judged;
    committer_submit(a->in.server->committer, c);
    return 0;
}

/* The same request with the same rows has the same id; another one, with all likelihood, another. */
static int64_t make_snapshot(const struct append *a)
{
    int64_t id = content_snapshot(&a->uuid, a->sum.content);

    while (id == 0 || !snapshot_is_free(a->in.server, a->table, id))
        id = content_snapshot(&a->uuid, (uint64_t)id + 1);
    return id;
}

/* The commit that UUID made in TABLE: 1 and its answer, 0 none. */
static int find_by_uuid(const struct server *s, uint32_t table, const struct uuid *uuid,
                        struct msg_appended *ret, char *location)
{
    static struct history h;
    uint64_t seq, content;
    int error;

    if (!uuids_find(s->ledger->uuids, uuid, &seq, &content) || seq > s->ledger->seq ||
        !ledger_table(s->ledger, table))
        return 0;
    history_of(&h, s->ledger, indexer_generation(s->indexer), table, seq + 1);
    const struct event *e = history_next(&h, &error);
    if (!e || e->seq != seq || e->kind != EVENT_COMMIT)
        return 0;
    memcpy(location, e->text.data, e->text.len);
    *ret = (struct msg_appended){
        .seq = e->seq, .snapshot = e->snapshot, .time_us = e->time_us, .location = { location, e->text.len }
    };
    return 1;
}

/* It came before, or there is nothing to commit: M is the answer, and nothing is made. */
static void answer_only(struct append *a, const struct msg_appended *m)
{
    put_appended(a->in.session, a->in.request, m);
    inflow_leave(&a->in);
    free_append(&a->in);
}

static void answer_again(struct append *a, struct msg_appended *m)
{
    if (content_snapshot(&a->uuid, a->sum.content) != m->snapshot) {
        a->in.error = fail(&a->in.msg, SKADE_EINPUT,
                           "this uuid came before with other rows: make a new one for a new append");
        give_up(a);
        return;
    }
    m->rows = a->sum.rows;
    m->bytes = a->sum.size;
    counter_add(a->in.server->page, COUNTER_repeats, 1);
    answer_only(a, m);
}

static void commit(struct append *a)
{
    a->snapshot = make_snapshot(a);
    a->in.error = submit(a);
    if (a->in.error < 0)
        give_up(a);
}

/* It wasn't the first that ended with its uuid. */
static void claim(struct append *a)
{
    a->waits = find_append(a, true) != NULL;
    if (a->waits)
        return;
    a->claims = true;
    inflow_work(&a->in, run_link, ended);
}

/* Sealed; and named, if the uuid was its own. */
static void ended(struct inflow *in)
{
    static char location[LOCATION_MAX];
    struct append *a = append_of(in);
    struct msg_appended m = { 0 };
    bool known = a->sum.rows > 0 && find_by_uuid(in->server, a->table, &a->uuid, &m, location);

    if (in->error == 0 && in->cancelled)
        in->error = -ECANCELED;
    if (in->error < 0) {
        give_up(a);
    } else if (known && !a->linked) {
        answer_again(a, &m);
    } else if (a->sum.rows == 0) {
        answer_only(a, &m);
    } else if (a->repeats) {
        in->error = fail(&in->msg, SKADE_EINPUT,
                         "so much was committed while its rows came that the first answer to this uuid is "
                         "forgotten; its rows are in the table");
        give_up(a);
    } else if (a->linked) {
        commit(a);
    } else {
        claim(a);
    }
}

static const struct inflow_ops ops = {
    .record = take_record, .finish = finish, .drop = drop_file, .ended = ended, .gone = gone
};

/* ---- messages --------------------------------------------------------------------------------------------------------------- */

/* What was committed already needs no table any more: it gets its first answer. */
static int check_begin(struct append *a)
{
    static char location[LOCATION_MAX];
    const struct server *s = a->in.server;
    struct msg_appended first;
    struct table *t = NULL;

    if (uuid_is_zero(&a->uuid))
        return fail(&a->in.msg, SKADE_EINPUT, "an append needs a uuid that isn't zero");
    a->repeats = find_by_uuid(s, a->table, &a->uuid, &first, location);
    int r = a->repeats ? 0 : stored_table(s, a->table, SEQ_MAX, TO_APPEND, &t, &a->in.msg);
    if (t)
        table_base(t, SEQ_MAX, &a->n);
    return r;
}

/* Where its file will be. */
static int place(struct append *a)
{
    int r =
        store_location(a->in.server->store, a->location, a->table, a->n, NAME_ENTRIES, &a->uuid, &a->in.msg);
    return r < 0 ? r : 0;
}

void append_begin(struct session *s, uint64_t request, const struct msg_append_begin *m)
{
    struct append *a = s->inflow ? NULL : calloc(1, sizeof *a);

    if (!a) {
        answer_error(s, request, s->inflow ? SKADE_EBUSY : -ENOMEM,
                     s->inflow ? "this connection has an append or compaction open: end it first"
                               : "skaded has no memory for this append: try again");
        return;
    }
    a->next = appends;
    appends = a;
    a->in.ops = &ops;
    a->table = m->table;
    a->uuid = m->uuid;
    a->dir = a->fd = -1;
    a->seen_seq = s->server->ledger->seq;
    inflow_open(&a->in, s, request);
    a->in.error = check_begin(a);
    if (a->in.error == 0)
        a->in.error = place(a);
    if (a->in.error < 0)
        inflow_tell(&a->in);
}

void append_end(struct session *s, uint64_t request, const struct msg_append_end *m)
{
    static char location[LOCATION_MAX];
    struct msg_appended answer;

    if (!inflow_end(s, request, m->rows, &ops))
        return;
    struct append *a = append_of(s->inflow);
    a->claims = !a->repeats && !find_by_uuid(s->server, a->table, &a->uuid, &answer, location) &&
                !find_append(a, true);
}

void append_ask(struct session *s, uint64_t request, const struct msg_append_ask *m)
{
    static char location[LOCATION_MAX];
    struct msg_appended answer;
    const struct append *a = appends;

    while (a && !uuid_equal(&a->uuid, &m->uuid))
        a = a->next;
    if (find_by_uuid(s->server, m->table, &m->uuid, &answer, location))
        put_appended(s, request, &answer);
    else if (a)
        answer_error(s, request, SKADE_EBUSY, "the append with this uuid is still under way; ask again");
    else
        answer_error(s, request, SKADE_ENOSNAPSHOT, "no commit has this uuid");
}
