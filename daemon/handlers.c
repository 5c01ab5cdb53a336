#include "handlers.h"

#include "inflow.h"
#include "compactions.h"
#include "gc.h"
#include "handle_tables.h"
#include "indexer.h"
#include "jobs.h"
#include "leases.h"
#include "listener.h"
#include "names.h"
#include "timefmt.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* A page of events or tables: longer ones are asked for page by page. */
#define PAGE_MAX 1000
/* A frame of answers is ended when it has so many bytes; the next one goes on. */
#define FRAME_FULL (512u << 10)

static const struct generation *generation_of(const struct session *s)
{
    return indexer_generation(s->server->indexer);
}

/* The moment that an answer is given for. */
static uint64_t moment(const struct session *s, uint64_t at)
{
    return at < s->server->ledger->seq ? at : s->server->ledger->seq;
}

/* ---- hello, ping ------------------------------------------------------------------------------------------------------ */

static void copy_label(struct session *s, struct bytes label)
{
    size_t n = label.len < sizeof s->label - 1 ? label.len : sizeof s->label - 1;

    for (size_t i = 0; i < n; i++)
        s->label[i] = label.data[i] >= 32 && label.data[i] < 127 ? label.data[i] : '?';
    s->label[n] = 0;
}

/* One that was never made is mapped by nobody. */
static void take_generation(struct session *s, uint64_t epoch, uint64_t generation)
{
    const struct generation *newest = indexer_shown(s->server->indexer);

    if (generation > (newest ? newest->number : 0))
        return;
    s->epoch = epoch;
    s->generation = generation;
}

static void handle_hello(struct session *s, uint64_t request, const struct msg_hello *m)
{
    struct server *server = s->server;
    const struct shm_place *place = publisher_place(server->publisher);

    if (m->protocol_min > WIRE_PROTOCOL_MAX || m->protocol_max < WIRE_PROTOCOL_MIN) {
        answer_error(s, request, SKADE_EVERSION,
                     "skaded %s speaks protocol %u to %u; use a library of the same version", SKADE_VERSION,
                     WIRE_PROTOCOL_MIN, WIRE_PROTOCOL_MAX);
        session_flush(s);
        session_drain(s);
        return;
    }
    s->greeted = true;
    take_generation(s, m->epoch, m->generation);
    copy_label(s, m->label);
    struct msg_welcome w = { .protocol =
                                 m->protocol_max < WIRE_PROTOCOL_MAX ? m->protocol_max : WIRE_PROTOCOL_MAX,
                             .epoch = indexer_epoch(server->indexer),
                             .log = server->ledger->log,
                             .origin = server->origin,
                             .commit_seq = server->ledger->seq,
                             .roles = s->roles,
                             .uid = place->uid,
                             .frame_max = WIRE_FRAME_MAX,
                             .shm_dir = bytes_of(place->dir),
                             .version = bytes_of(SKADE_VERSION) };
    publisher_page_id(server->publisher, &w.control_dev, &w.control_ino);
    size_t at = answer_begin(s);
    wire_put_welcome(&s->out, &w);
    answer_end(s, at, WIRE_WELCOME, 0, request);
}

/* No handle answers more between two tallies, and no sum comes near its end, whatever is told. */
#define TOLD_MAX (UINT64_C(1) << 40)
#define TOLD_SUM_MAX (UINT64_C(1) << 62)

static void add_told(struct session *s, enum counter c, uint64_t told)
{
    uint64_t sum = counter_get(s->server->page, c);
    uint64_t room = sum < TOLD_SUM_MAX ? TOLD_SUM_MAX - sum : 0;

    if (told > TOLD_MAX)
        told = TOLD_MAX;
    counter_add(s->server->page, c, told < room ? told : room);
}

/* Whoever sends it doesn't look for an answer. */
static void handle_tally(struct session *s, uint64_t request, const struct msg_tally *m)
{
    (void)request;
    take_generation(s, m->epoch, m->generation);
    add_told(s, COUNTER_lookups_map, m->map);
    add_told(s, COUNTER_lookups_tail, m->tail);
}

static void handle_ping(struct session *s, uint64_t request, const struct msg_ping *m)
{
    (void)m;
    struct msg_pong pong = { .commit_seq = s->server->ledger->seq };
    size_t at = answer_begin(s);
    wire_put_pong(&s->out, &pong);
    answer_end(s, at, WIRE_PONG, 0, request);
}

/* ---- questions ----------------------------------------------------------------------------------------------------------- */

static void handle_lookup(struct session *s, uint64_t request, const struct msg_lookup *m)
{
    const struct ledger *l = s->server->ledger;
    const char *problem = table_name_problem(m->name);

    if (problem) {
        answer_error(s, request, SKADE_EINPUT, "not a table name: %s", problem);
        return;
    }
    counter_add(s->server->page, COUNTER_questions, 1);
    struct table *t = ledger_table(l, ledger_find_name(l, m->name, m->at));
    if (!t) {
        answer_error(s, request, SKADE_ENOTABLE, "there is no table '%.*s'",
                     (int)(m->name.len > 300 ? 300 : m->name.len), m->name.data);
        return;
    }
    struct msg_table table = { .at = moment(s, m->at), .table = t->number, .kind = t->kind };
    size_t at = answer_begin(s);
    wire_put_table(&s->out, &table);
    answer_end(s, at, WIRE_TABLE, 0, request);
}

static void put_answer(struct session *s, const struct answer *a)
{
    bool known = a->status == 1 || a->status == SKADE_EEXPIRED;
    struct item_answer item = { .status = a->status,
                                .table = a->table,
                                .flags =
                                    a->flags & (EVENT_HAS_SNAPSHOT | EVENT_INTRODUCES | EVENT_MOVES_HEAD),
                                .snapshot = a->snapshot,
                                .seq = known ? a->seq : 0,
                                .time_us = known ? a->time_us : 0,
                                .retired_by = a->retired_by,
                                .location = a->status == 1 ? a->location : (struct bytes){ "", 0 } };
    wire_put_answer(&s->out, &item);
}

/* The mapped tail is meant to spare clients these. */
static void count_tail(struct session *s, const struct answer *a)
{
    counter_add(s->server->page, COUNTER_tail_answers, a->status == 1 && a->seq > generation_of(s)->covered);
}

/* A list whose length is known when it is full: the count is filled in afterwards. */
struct list {
    size_t frame, count_at;
    uint32_t count;
};

static bool list_full(const struct session *s, const struct list *l)
{
    return s->out.len - l->frame > FRAME_FULL;
}

static struct list answers_begin(struct session *s, uint64_t at)
{
    struct list l = { .frame = answer_begin(s) };
    struct msg_answers m = { .at = at };

    wire_put_answers(&s->out, &m);
    l.count_at = s->out.len - sizeof(uint32_t);
    return l;
}

static void answers_end(struct session *s, struct list *l, uint16_t flags, uint64_t request)
{
    wr_patch_u32(&s->out, l->count_at, l->count);
    answer_end(s, l->frame, WIRE_ANSWERS, flags, request);
}

/* A RESOLVE of many keys: its answer is made as the peer takes it, frame by frame, all as of one moment. */
struct resolving {
    uint64_t request, at;
    uint32_t next, count;
    struct item_key keys[];
};

static void answer_frame(struct session *s, struct resolving *job)
{
    static struct answer a; /* large; the loop is one thread */
    struct list l = answers_begin(s, job->at);

    for (; job->next < job->count && !list_full(s, &l); l.count++) {
        const struct item_key *key = &job->keys[job->next++];
        ledger_resolve(s->server->ledger, generation_of(s), key->table, key->snapshot, job->at, &a);
        count_tail(s, &a);
        put_answer(s, &a);
    }
    answers_end(s, &l, job->next < job->count ? FRAME_MORE : 0, job->request);
}

static void resolve_go_on(struct session *s)
{
    struct resolving *job = s->resolving;

    do
        answer_frame(s, job);
    while (job->next < job->count && session_owed(s) < SESSION_OWED_MAX);
    if (job->next < job->count)
        return;
    free(job);
    s->resolving = NULL;
    s->inflight--;
}

static void handle_resolve(struct session *s, uint64_t request, const struct msg_resolve *m)
{
    struct rd keys = m->keys.items;

    if (m->keys.count > WIRE_KEYS_MAX) {
        answer_error(s, request, SKADE_EINPUT, "%u snapshots in one request; at most %u", m->keys.count,
                     WIRE_KEYS_MAX);
        return;
    }
    counter_add(s->server->page, COUNTER_questions, m->keys.count);
    struct resolving *job = malloc(sizeof *job + m->keys.count * sizeof *job->keys);
    if (!job) {
        answer_error(s, request, -ENOMEM, "no memory");
        return;
    }
    *job = (struct resolving){ .request = request, .at = moment(s, m->at), .count = m->keys.count };
    for (uint32_t i = 0; i < job->count; i++)
        wire_get_key(&keys, &job->keys[i]);
    s->resolving = job;
    s->inflight++;
    resolve_go_on(s);
}

static void answer_one(struct session *s, uint64_t request, uint64_t at, const struct answer *a)
{
    struct list l = answers_begin(s, moment(s, at));

    counter_add(s->server->page, COUNTER_questions, 1);
    count_tail(s, a);
    put_answer(s, a);
    l.count = 1;
    answers_end(s, &l, 0, request);
}

static void handle_head(struct session *s, uint64_t request, const struct msg_head *m)
{
    static struct answer a;

    ledger_head(s->server->ledger, generation_of(s), m->table, m->at, &a);
    answer_one(s, request, m->at, &a);
}

/* Before a table's first commit there is nothing; the message names the first one. */
static void answer_too_early(struct session *s, uint64_t request, const struct msg_as_of *m)
{
    static struct answer first;
    char text[96], when[32];
    struct msg_error e = { .code = SKADE_ENOSNAPSHOT, .message = bytes_of("the table has no commit yet") };

    if (ledger_earliest(s->server->ledger, generation_of(s), m->table, m->at, &first) == 1) {
        snprintf(text, sizeof text, "the earliest commit is of %s", time_format(first.time_us, when));
        e.message = bytes_of(text);
        e.heads.count = 1;
    }
    size_t at = answer_begin(s);
    wire_put_error(&s->out, &e);
    if (e.heads.count)
        put_answer(s, &first);
    answer_end(s, at, WIRE_ERROR, 0, request);
}

static void handle_as_of(struct session *s, uint64_t request, const struct msg_as_of *m)
{
    static struct answer a;

    if (ledger_as_of(s->server->ledger, generation_of(s), m->table, m->time_us, m->at, &a) ==
        SKADE_ENOSNAPSHOT)
        answer_too_early(s, request, m);
    else
        answer_one(s, request, m->at, &a);
}

/* ---- events ------------------------------------------------------------------------------------------------------------------ */

static void put_event(struct session *s, const struct event *e)
{
    const struct ledger *l = s->server->ledger;
    struct bytes name = ledger_name_at(l, e->table, e->seq);
    bool is_told = e->kind == EVENT_CREATE || e->kind == EVENT_RENAME; /* see messages.def */
    struct item_event item = { .seq = e->seq,
                               .kind = e->kind,
                               .flags = e->flags,
                               .table = e->table,
                               .snapshot = e->snapshot,
                               .time_us = e->time_us,
                               .watermark = e->watermark,
                               .uuid = e->uuid,
                               .name = name,
                               .text = e->text,
                               .text2 = is_told ? e->text2 : (struct bytes){ "", 0 } };
    wire_put_event(&s->out, &item);
}

static struct list events_begin(struct session *s)
{
    struct list l = { .frame = answer_begin(s) };
    struct msg_events m = { .at = s->server->ledger->seq };

    wire_put_events(&s->out, &m);
    l.count_at = s->out.len - sizeof(uint32_t);
    return l;
}

static void events_end(struct session *s, struct list *l, bool more, uint16_t flags, uint64_t request)
{
    wr_patch_u32(&s->out, l->count_at, l->count);
    if (!s->out.error)
        s->out.data[l->count_at - 1] = more; /* the byte before the count; see messages.def */
    answer_end(s, l->frame, WIRE_EVENTS, flags, request);
}

static void handle_history(struct session *s, uint64_t request, const struct msg_history *m)
{
    static struct history h; /* large */
    const struct event *e;
    uint32_t limit = m->limit && m->limit < PAGE_MAX ? m->limit : PAGE_MAX;
    uint64_t before = m->at == SEQ_MAX || m->before <= m->at ? m->before : m->at + 1;
    int error = 0;

    if (!ledger_table(s->server->ledger, m->table)) {
        answer_error(s, request, SKADE_ENOTABLE,
                     "there is no table number %" PRIu32 ": look it up by its name", m->table);
        return;
    }
    history_of(&h, s->server->ledger, generation_of(s), m->table, before);
    struct list l = events_begin(s);
    while ((e = history_next(&h, &error)) && l.count < limit && !list_full(s, &l)) {
        put_event(s, e);
        l.count++;
    }
    if (error < 0) {
        s->out.len = l.frame;
        answer_error(s, request, error, "the index is damaged: run skadectl reindex");
        return;
    }
    events_end(s, &l, e != NULL, 0, request);
}

/* Events after AFTER from the tail, if it reaches that far back. */
static bool events_from_tail(struct session *s, uint64_t request, uint64_t *after, uint32_t limit,
                             uint16_t flags)
{
    const struct ledger *ledger = s->server->ledger;

    if (*after < ledger->floor)
        return false;
    struct list l = events_begin(s);
    while (*after < ledger->seq && l.count < limit && !list_full(s, &l)) {
        put_event(s, ledger_tail_event(ledger, ++*after));
        l.count++;
    }
    events_end(s, &l, *after < ledger->seq, flags, request);
    return true;
}

static void put_slice(struct slice_job *job)
{
    struct session *s = job->session;
    struct list l = events_begin(s);

    for (size_t i = 0; i < job->count; i++) {
        put_event(s, job->events[i]);
        l.count++;
    }
    if (job->count)
        job->after = job->events[job->count - 1]->seq;
    events_end(s, &l, job->after < s->server->ledger->seq, job->watch ? FRAME_MORE : 0, job->request);
}

static void watch_ends(struct session *s)
{
    s->watch.on = false;
    counter_add(s->server->page, COUNTER_watchers, (uint64_t)-1);
}

/* A slice that the log thread read for SINCE. */
static void since_done(struct slice_job *job)
{
    struct session *s = job->session;

    s->inflight--;
    if (!s->closing && job->error < 0)
        answer_error(s, job->request, job->error, "%s", job->msg.text);
    else if (!s->closing)
        put_slice(job);
    session_flush(s);
    session_resume(s);
}

/* One for a watch.  Meanwhile that may have ended, and another one begun: then this slice is nobody's. */
static void watch_slice_done(struct slice_job *job)
{
    struct session *s = job->session;

    s->watch.reading = false;
    if (s->closing || !s->watch.on)
        return;
    if (job->watch == s->watch.number) {
        if (job->error < 0) {
            answer_error(s, job->request, job->error, "%s", job->msg.text);
            watch_ends(s);
        } else {
            put_slice(job);
            s->watch.after = job->after;
        }
    }
    handlers_push_watch(s);
    session_resume(s);
}

static void handle_since(struct session *s, uint64_t request, const struct msg_since *m)
{
    uint32_t limit = m->limit && m->limit < PAGE_MAX ? m->limit : PAGE_MAX;
    uint64_t after = m->after;

    if (after >= s->server->ledger->seq) {
        struct list l = events_begin(s);
        events_end(s, &l, false, 0, request);
    } else if (!events_from_tail(s, request, &after, limit, 0)) {
        int r = slice_job_start(s, request, after, limit, 0, since_done);
        if (r < 0)
            answer_error(s, request, r, "no memory");
        else
            s->inflight++;
    }
}

void handlers_push_watch(struct session *s)
{
    const struct ledger *ledger = s->server->ledger;

    while (s->watch.on && !s->closing && !s->watch.reading && s->watch.after < ledger->seq &&
           session_owed(s) < SESSION_OWED_MAX) {
        if (events_from_tail(s, s->watch.request, &s->watch.after, PAGE_MAX, FRAME_MORE))
            continue;
        if (slice_job_start(s, s->watch.request, s->watch.after, PAGE_MAX, s->watch.number,
                            watch_slice_done) < 0) {
            session_close(s, "no memory for its watch");
            return;
        }
        s->watch.reading = true;
    }
    session_flush(s);
}

static void handle_watch(struct session *s, uint64_t request, const struct msg_watch *m)
{
    if (s->watch.on) {
        answer_error(s, request, SKADE_EINPUT, "this connection watches already: one watch a connection");
        return;
    }
    if (m->after > s->server->ledger->seq) {
        answer_error(s, request, SKADE_EINPUT, "event %" PRIu64 " is not there yet: the newest is %" PRIu64,
                     m->after, s->server->ledger->seq);
        return;
    }
    s->watch.on = true;
    s->watch.number++;
    s->watch.request = request;
    s->watch.after = m->after;
    counter_add(s->server->page, COUNTER_watchers, 1);
    /* An empty frame at once tells the client that the watch is on. */
    struct list l = events_begin(s);
    events_end(s, &l, m->after < s->server->ledger->seq, FRAME_MORE, request);
    handlers_push_watch(s);
}

static void handle_cancel(struct session *s, uint64_t request, const struct msg_cancel *m)
{
    (void)request;
    if (s->watch.on && s->watch.request == m->request)
        watch_ends(s);
    if (!compaction_leave(s, m->request))
        return;
    struct msg_done done = { .end_ = 0 };
    size_t at = answer_begin(s);
    wire_put_done(&s->out, &done);
    answer_end(s, at, WIRE_DONE, 0, m->request);
}

/* ---- tables -------------------------------------------------------------------------------------------------------------------- */

static bool has_prefix(struct bytes name, struct bytes prefix)
{
    return name.len >= prefix.len && (!prefix.len || memcmp(name.data, prefix.data, prefix.len) == 0);
}

static void put_table(struct session *s, const struct name_row *row)
{
    static struct answer head;
    const struct ledger *ledger = s->server->ledger;
    const struct table *t = ledger_table(ledger, row->table);
    struct item_table_row item = { .table = t->number,
                                   .kind = t->kind,
                                   .snapshots = ledger_snapshots(ledger, t),
                                   .name = row->name,
                                   .location = { "", 0 } };

    if (ledger_head(ledger, generation_of(s), t->number, SEQ_MAX, &head) == 1) {
        item.flags = head.flags;
        item.snapshot = head.snapshot;
        item.seq = head.seq;
        item.time_us = head.time_us;
        item.location = head.location;
    }
    wire_put_table_row(&s->out, &item);
}

static void handle_tables(struct session *s, uint64_t request, const struct msg_tables *m)
{
    const struct ledger *ledger = s->server->ledger;
    uint32_t limit = m->limit && m->limit < PAGE_MAX ? m->limit : PAGE_MAX;
    struct msg_table_list head = { .at = ledger->seq };
    size_t i = ledger_sorted_from(ledger, m->prefix);

    if (m->after.len) {
        size_t behind = ledger_sorted_from(ledger, m->after);
        if (behind < ledger->sorted_count &&
            bytes_equal(ledger->names[ledger->sorted[behind]].name, m->after))
            behind++;
        i = behind > i ? behind : i;
    }
    struct list l = { .frame = answer_begin(s) };
    wire_put_table_list(&s->out, &head);
    l.count_at = s->out.len - sizeof(uint32_t);
    bool more = false;
    for (; i < ledger->sorted_count; i++) {
        const struct name_row *row = &ledger->names[ledger->sorted[i]];
        if (!has_prefix(row->name, m->prefix))
            break;
        more = l.count == limit || list_full(s, &l);
        if (more)
            break;
        put_table(s, row);
        l.count++;
    }
    wr_patch_u32(&s->out, l.count_at, l.count);
    if (!s->out.error)
        s->out.data[l.count_at - 1] = more;
    answer_end(s, l.frame, WIRE_TABLE_LIST, 0, request);
}

/* ---- changes ------------------------------------------------------------------------------------------------------------------------ */

/* What the committer made of it, on the way back. */
static void change_done(struct change *c)
{
    struct session *s = c->owner;

    s->inflight--;
    if (!s->closing) {
        if (c->error < 0) {
            struct msg_error m = { .code = c->error,
                                   .message = bytes_of(c->msg.text),
                                   .heads.count = c->has_head };
            if (!c->msg.text[0])
                m.message = bytes_of(error_text(c->error));
            size_t at = answer_begin(s);
            wire_put_error(&s->out, &m);
            if (c->has_head) {
                struct item_answer head = { .status = c->head.seq ? 1 : SKADE_ENOSNAPSHOT,
                                            .table = c->head.table,
                                            .flags = c->head.flags,
                                            .snapshot = c->head.snapshot,
                                            .seq = c->head.seq,
                                            .time_us = c->head.time_us,
                                            .location = { c->head_text, c->head.text.len } };
                wire_put_answer(&s->out, &head);
            }
            answer_end(s, at, WIRE_ERROR, 0, c->request);
        } else if (c->kind == CHANGE_CREATE) {
            struct msg_created m = { .seq = c->first_seq, .table = c->created };
            size_t at = answer_begin(s);
            wire_put_created(&s->out, &m);
            answer_end(s, at, WIRE_CREATED, 0, c->request);
        } else {
            struct msg_committed m = { .first_seq = c->first_seq, .last_seq = c->last_seq };
            size_t at = answer_begin(s);
            wire_put_committed(&s->out, &m);
            answer_end(s, at, WIRE_COMMITTED, 0, c->request);
        }
        session_flush(s);
        session_resume(s);
        if (s->draining && !s->inflight)
            session_drain(s);
    }
    session_unref(s);
}

static void submit(struct session *s, uint64_t request, struct change *c)
{
    c->owner = session_ref(s);
    c->request = request;
    c->done = change_done;
    s->inflight++;
    committer_submit(s->server->committer, c);
}

static struct change *begin_change(struct session *s, uint64_t request, enum change_kind kind)
{
    struct change *c = change_new(kind);
    if (!c)
        answer_error(s, request, -ENOMEM, "no memory");
    return c;
}

/* Append the rows of LIST to C.  0, -ENOMEM, SKADE_EINPUT. */
static int take_rows(struct change *c, const struct wire_list *list)
{
    struct rd items = list->items;
    struct item_commit_row item;

    for (uint32_t i = 0; i < list->count; i++) {
        wire_get_commit_row(&items, &item);
        struct change_row *row = change_row(c);
        if (!row)
            return -ENOMEM;
        if (item.base > BASE_IS ||
            (item.flags & ~(uint32_t)(EVENT_INTRODUCES | EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT | 16)) ||
            item.location.len > LOCATION_MAX || item.base_location.len > LOCATION_MAX)
            return SKADE_EINPUT;
        row->event =
            (struct event){ .kind = EVENT_COMMIT,
                            .flags = item.flags & (EVENT_INTRODUCES | EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT),
                            .table = item.table,
                            .snapshot = item.flags & EVENT_HAS_SNAPSHOT ? item.snapshot : 0,
                            .time_us = item.time_us,
                            .uuid = item.uuid,
                            .text = change_text(c, item.location),
                            .text2 = { "", 0 } };
        row->has_time = item.flags & 16;
        row->base = item.base;
        row->base_location = change_text(c, item.base_location);
        if (!row->event.text.data || !row->base_location.data)
            return -ENOMEM;
    }
    return 0;
}

static const char *rows_problem(int r)
{
    return r == -ENOMEM ? "no memory"
                        : "a commit has unknown flags, an unknown base, or a location over 4096 bytes";
}

static void handle_commit(struct session *s, uint64_t request, const struct msg_commit *m)
{
    if (m->rows.count != 1) {
        answer_error(s, request, SKADE_EINPUT, "COMMIT takes one commit; RELEASE_ADD takes many");
        return;
    }
    struct change *c = begin_change(s, request, CHANGE_COMMITS);
    if (!c)
        return;
    int r = take_rows(c, &m->rows);
    if (r < 0) {
        answer_error(s, request, r, "%s", rows_problem(r));
        change_free(c);
        return;
    }
    submit(s, request, c);
}

static void end_release(struct session *s)
{
    change_free(s->release);
    s->release = NULL;
}

static void handle_release_add(struct session *s, uint64_t request, const struct msg_release_add *m)
{
    int r = 0;

    if (s->release_error < 0)
        return; /* told already; the rest is skipped until the end */
    if (!s->release)
        s->release = change_new(CHANGE_COMMITS);
    r = s->release ? take_rows(s->release, &m->rows) : -ENOMEM;
    int64_t held = s->release
                       ? (int64_t)(s->release->texts_bytes + s->release->rows_cap * sizeof(struct change_row))
                       : 0;
    if (r == 0 && held <= s->server->config.release_max)
        return;
    if (r < 0)
        answer_error(s, request, r, "%s", rows_problem(r));
    else
        answer_error(s, request, SKADE_EBUSY,
                     "the release is larger than release_max (%" PRId64 " bytes) allows",
                     s->server->config.release_max);
    s->release_error = r < 0 ? r : SKADE_EBUSY;
    end_release(s);
}

static void handle_release_end(struct session *s, uint64_t request, const struct msg_release_end *m)
{
    struct change *c = s->release ? s->release : change_new(CHANGE_COMMITS);
    int error = s->release_error;

    s->release = NULL;
    s->release_error = 0;
    if (error < 0 || !c || c->rows_count != m->count) {
        answer_error(s, request, error < 0 ? error : (c ? SKADE_EINPUT : -ENOMEM),
                     "the release failed before its end, or has another count of commits than its end says");
        change_free(c);
        return;
    }
    submit(s, request, c);
}

static void handle_create(struct session *s, uint64_t request, const struct msg_create *m)
{
    struct change *c = begin_change(s, request, CHANGE_CREATE);
    if (!c)
        return;
    c->uuid = m->uuid;
    c->name = change_text(c, m->name);
    c->location = change_text(c, m->location);
    submit(s, request, c);
}

static void handle_rename(struct session *s, uint64_t request, const struct msg_rename *m)
{
    struct change *c = begin_change(s, request, CHANGE_RENAME);
    if (!c)
        return;
    c->uuid = m->uuid;
    c->name = change_text(c, m->name);
    c->new_name = change_text(c, m->new_name);
    submit(s, request, c);
}

static void handle_drop(struct session *s, uint64_t request, const struct msg_drop *m)
{
    struct change *c = begin_change(s, request, CHANGE_DROP);
    if (!c)
        return;
    c->uuid = m->uuid;
    c->name = change_text(c, m->name);
    submit(s, request, c);
}

static void handle_expire(struct session *s, uint64_t request, const struct msg_expire *m)
{
    struct change *c = begin_change(s, request, CHANGE_EXPIRE);
    if (!c)
        return;
    c->uuid = m->uuid;
    c->table = m->table;
    c->by = m->by;
    c->value = m->value;
    submit(s, request, c);
}

/* ---- administration ------------------------------------------------------------------------------------------------------------------ */

struct reindex_wait {
    struct session *session;
    uint64_t request;
    uint64_t began_ns;
};

static void reindexed(void *arg, int error, uint64_t old_generation, uint64_t generation)
{
    struct reindex_wait *w = arg;
    struct session *s = w->session;

    s->inflight--;
    if (!s->closing && s->server->damaged) {
        answer_error(s, w->request, error,
                     "the index was damaged: the daemon builds it anew from the log, as its log says");
    } else if (!s->closing && error < 0) {
        answer_error(s, w->request, error, "the index could not be published: %s; skaded's log says why",
                     error_text(error));
    } else if (!s->closing) {
        struct msg_reindexed m = { .old_generation = old_generation,
                                   .generation = generation,
                                   .micros = (world.clock_ns() - w->began_ns) / 1000 };
        size_t at = answer_begin(s);
        wire_put_reindexed(&s->out, &m);
        answer_end(s, at, WIRE_REINDEXED, 0, w->request);
    }
    session_flush(s);
    session_resume(s);
    session_unref(s);
    free(w);
}

static void handle_reindex(struct session *s, uint64_t request, const struct msg_reindex *m)
{
    struct reindex_wait *w = calloc(1, sizeof *w);

    (void)m;
    if (!w) {
        answer_error(s, request, -ENOMEM, "no memory");
        return;
    }
    *w = (struct reindex_wait){ session_ref(s), request, world.clock_ns() };
    s->inflight++;
    indexer_reindex(s->server->indexer, reindexed, w);
}

static void handle_clients(struct session *s, uint64_t request, const struct msg_clients *m)
{
    struct list l = { .frame = answer_begin(s) };
    struct msg_client_list head = { .generation = control_generation(s->server->page) };

    uint64_t epoch = indexer_epoch(s->server->indexer);

    (void)m;
    wire_put_client_list(&s->out, &head);
    l.count_at = s->out.len - sizeof(uint32_t);
    for (struct session *c = listener_first(s->server->listener); c && !list_full(s, &l); c = c->next) {
        struct item_client_row row = { .label = bytes_of(c->label),
                                       .uid = (uint32_t)c->uid,
                                       .pid = (uint32_t)c->pid,
                                       .generation = c->epoch == epoch ? c->generation : 0,
                                       .requests = c->requests };
        if (c->closing || !c->greeted)
            continue;
        wire_put_client_row(&s->out, &row);
        l.count++;
    }
    wr_patch_u32(&s->out, l.count_at, l.count);
    answer_end(s, l.frame, WIRE_CLIENT_LIST, 0, request);
}

static void handle_stats(struct session *s, uint64_t request, const struct msg_stats *m)
{
    struct msg_counters head = { .counters.count = COUNTER_END };
    size_t at = answer_begin(s);

    (void)m;
    wire_put_counters(&s->out, &head);
    for (size_t i = 0; i < COUNTER_END; i++) {
        struct item_counter_row row = { .name = bytes_of(counter_rows[i].name),
                                        .value = counter_get(s->server->page, (enum counter)i),
                                        .unit = bytes_of(counter_rows[i].unit) };
        wire_put_counter_row(&s->out, &row);
    }
    answer_end(s, at, WIRE_COUNTERS, 0, request);
}

static void verified(struct verify_job *job)
{
    struct session *s = job->session;

    s->inflight--;
    if (!s->closing) {
        size_t at = answer_begin(s);
        struct msg_verified m = { .rows.count = job->full ? 3 : 2 };
        struct item_check_row log = { .object = bytes_of("log"),
                                      .checked = job->rows,
                                      .damaged = job->log_damaged,
                                      .detail = bytes_of(job->msg.text) };
        struct item_check_row index = { .object = bytes_of("index"),
                                        .checked = job->compared,
                                        .damaged = job->index_damaged,
                                        .detail = bytes_of(job->index_detail) };
        struct item_check_row tables = { .object = bytes_of("entry files"),
                                         .checked = job->tables.files,
                                         .damaged = job->tables.damaged,
                                         .detail = bytes_of(job->tables.detail) };
        wire_put_verified(&s->out, &m);
        wire_put_check_row(&s->out, &log);
        wire_put_check_row(&s->out, &tables);
        if (job->full)
            wire_put_check_row(&s->out, &index);
        answer_end(s, at, WIRE_VERIFIED, 0, job->request);
        session_flush(s);
        session_resume(s);
    }
}

static void handle_verify(struct session *s, uint64_t request, const struct msg_verify *m)
{
    int r = verify_job_start(s, request, m->full, verified);
    if (r < 0)
        answer_error(s, request, r, "no memory");
    else
        s->inflight++;
}

static void handle_backup(struct session *s, uint64_t request, const struct msg_backup *m)
{
    (void)m;
    int r = s->backup ? SKADE_EBUSY : backup_start(s, request);
    if (r < 0)
        answer_error(s, request, r, "a backup can't begin: %s", error_text(r));
    else
        s->inflight++;
}

void handlers_session_ends(struct session *s)
{
    free(s->resolving);
    s->resolving = NULL;
    if (s->backup)
        backup_cancel(s->backup);
    inflow_abort(s);
    lease_end_all(s);
    compaction_leave(s, 0);
    gc_leave(s);
}

void handlers_session_writable(struct session *s)
{
    if (s->resolving && session_owed(s) < SESSION_OWED_MAX) {
        resolve_go_on(s);
        session_flush(s);
    }
    if (s->backup)
        backup_go_on(s->backup);
    if (s->watch.on)
        handlers_push_watch(s);
}

/* ---- dispatch ------------------------------------------------------------------------------------------------------------------------- */

static const char *role_name(unsigned role)
{
    return role == ROLE_READ ? "read" : role == ROLE_WRITE ? "write" : "admin";
}

/* Decode and serve: one small function per message, from the table. */
#define HANDLERS(X)                                               \
    X(HELLO, hello, 0, "say hello")                               \
    X(PING, ping, ROLE_READ, "ask")                               \
    X(LOOKUP, lookup, ROLE_READ, "look tables up")                \
    X(RESOLVE, resolve, ROLE_READ, "resolve snapshots")           \
    X(HEAD, head, ROLE_READ, "ask for heads")                     \
    X(AS_OF, as_of, ROLE_READ, "ask for heads of a time")         \
    X(HISTORY, history, ROLE_READ, "read histories")              \
    X(SINCE, since, ROLE_READ, "read events")                     \
    X(WATCH, watch, ROLE_READ, "watch events")                    \
    X(CANCEL, cancel, ROLE_READ, "cancel requests")               \
    X(TABLES, tables, ROLE_READ, "list tables")                   \
    X(COMMIT, commit, ROLE_WRITE, "commit")                       \
    X(RELEASE_ADD, release_add, ROLE_WRITE, "commit releases")    \
    X(RELEASE_END, release_end, ROLE_WRITE, "commit releases")    \
    X(CREATE, create, ROLE_WRITE, "create tables")                \
    X(RENAME, rename, ROLE_WRITE, "rename tables")                \
    X(DROP, drop, ROLE_WRITE, "drop tables")                      \
    X(EXPIRE, expire, ROLE_WRITE, "expire commits")               \
    X(REINDEX, reindex, ROLE_ADMIN, "rebuild the index")          \
    X(CLIENTS, clients, ROLE_ADMIN, "list clients")               \
    X(VERIFY, verify, ROLE_ADMIN, "verify the log")               \
    X(BACKUP, backup, ROLE_ADMIN, "back the log up")              \
    X(STATS, stats, ROLE_READ, "read counters")                   \
    X(APPEND_BEGIN, append_begin, ROLE_WRITE, "append rows")      \
    X(ROWS, rows, ROLE_WRITE, "send rows")                        \
    X(APPEND_END, append_end, ROLE_WRITE, "append rows")          \
    X(APPEND_ABORT, append_abort, ROLE_WRITE, "append rows")      \
    X(APPEND_ASK, append_ask, ROLE_WRITE, "ask for appends")      \
    X(LEASE, lease, ROLE_READ, "scan tables or get rows")         \
    X(LEASE_END, lease_end, ROLE_READ, "scan tables")             \
    X(FILES, files, ROLE_READ, "scan tables")                     \
    X(COMPACT, compact, ROLE_WRITE, "compact tables")             \
    X(COMPACT_BEGIN, compact_begin, ROLE_WRITE, "compact tables") \
    X(COMPACT_END, compact_end, ROLE_WRITE, "compact tables")     \
    X(GC, gc, ROLE_READ, "list retired files")                    \
    X(TALLY, tally, 0, "tell what it looked up")

#define SERVE(NAME, name, role, words)                                                            \
    static int serve_##name(struct session *s, uint64_t request, const void *payload, size_t len) \
    {                                                                                             \
        struct msg_##name m;                                                                      \
        int r = wire_read_##name(payload, len, &m);                                               \
        if (r == 0)                                                                               \
            handle_##name(s, request, &m);                                                        \
        return r;                                                                                 \
    }
HANDLERS(SERVE)
#undef SERVE

static const struct {
    unsigned role;
    const char *words; /* what who asks it wants to do */
    int (*serve)(struct session *s, uint64_t request, const void *payload, size_t len);
} handlers[] = {
#define ROW(NAME, name, role, words) [WIRE_##NAME] = { role, words, serve_##name },
    HANDLERS(ROW)
#undef ROW
};

const char *frame_problem(const struct session *s, const struct frame_header *h)
{
    if (wire_sender(h->type) == 0)
        return NULL; /* of a later version: it is refused, and the connection goes on */
    if (wire_sender(h->type) == 'D')
        return "a message that only the daemon sends";
    if (h->request == 0)
        return "a request without a number";
    if (h->type == WIRE_HELLO)
        return s->greeted ? "a second HELLO" : NULL;
    return s->greeted ? NULL : "a request before HELLO";
}

int handle_frame(struct session *s, const struct frame_header *h, const void *payload)
{
    if (h->type >= ARRAY_SIZE(handlers) || !handlers[h->type].serve) {
        answer_error(s, h->request, SKADE_EVERSION, "this daemon (%s) doesn't know message %u", SKADE_VERSION,
                     h->type);
        return 0;
    }
    if ((s->roles & handlers[h->type].role) != handlers[h->type].role) {
        counter_add(s->server->page, COUNTER_denied, 1);
        answer_error(s, h->request, SKADE_EDENIED,
                     "uid %u may not %s: that takes the role %s, which skaded's option %s gives",
                     (unsigned)s->uid, handlers[h->type].words, role_name(handlers[h->type].role),
                     role_name(handlers[h->type].role));
        return 0;
    }
    return handlers[h->type].serve(s, h->request, payload, h->len);
}
