#include "committer.h"

#include "failpoint.h"
#include "indexer.h"
#include "listener.h"
#include "log.h"
#include "names.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* A group takes no more once it has this many changes or events: its members wait for each other. */
#define GROUP_CHANGES 4096
#define GROUP_EVENTS 8192

/* ---- changes ---------------------------------------------------------------------------------------------------- */

struct text {
    struct text *next;
    size_t used, cap;
    char data[];
};

struct change *change_new(enum change_kind kind)
{
    struct change *c = calloc(1, sizeof *c);
    if (c)
        c->kind = kind;
    return c;
}

void change_free(struct change *c)
{
    if (!c)
        return;
    while (c->texts) {
        struct text *t = c->texts;
        c->texts = t->next;
        free(t);
    }
    free(c->rows);
    free(c);
}

struct bytes change_text(struct change *c, struct bytes s)
{
    struct text *t = c->texts;

    if (!t || t->cap - t->used < s.len) {
        size_t cap = s.len > 16384 ? s.len : (t ? 16384 : 512);
        if (cap < s.len)
            cap = s.len;
        t = malloc(sizeof *t + cap);
        if (!t)
            return (struct bytes){ NULL, 0 };
        t->next = c->texts;
        t->used = 0;
        t->cap = cap;
        c->texts = t;
        c->texts_bytes += cap;
    }
    char *copy = t->data + t->used;
    if (s.len)
        memcpy(copy, s.data, s.len);
    t->used += s.len;
    return (struct bytes){ copy, s.len };
}

struct change_row *change_row(struct change *c)
{
    if (c->rows_count == c->rows_cap) {
        size_t cap = c->rows_cap ? c->rows_cap * 2 : 1;
        struct change_row *more = realloc(c->rows, cap * sizeof *more);
        if (!more)
            return NULL;
        c->rows = more;
        c->rows_cap = cap;
    }
    struct change_row *row = &c->rows[c->rows_count++];
    memset(row, 0, sizeof *row);
    return row;
}

/* ---- groups -------------------------------------------------------------------------------------------------------- */

/* The transaction under way. */
struct group {
    struct log_job job; /* first: the log thread knows only this */
    struct committer *committer;
    struct change *changes, **changes_last;
    struct event *events;
    size_t count, cap;
    bool takes_away;        /* an answer: publish before it is visible */
    uint64_t epoch;         /* ours, as of its beginning */
    uint32_t tables;        /* created so far */
    struct bytes names[64]; /* created, renamed, dropped in this group */
    size_t names_count;
    int error;
    struct errmsg msg;
    uint64_t micros;
};

struct committer {
    struct server *server;
    struct change *queue, **queue_last;
    struct group *group; /* under way */
    uint64_t groups;     /* number of the group that is judged; see struct table */
    uv_timer_t pause;
    bool paused;
    bool refusing; /* the log had no room for the last group */
};

static int refuse(struct change *c, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int refuse(struct change *c, int code, const char *format, ...)
{
    va_list ap;

    c->error = code;
    va_start(ap, format);
    vsnprintf(c->msg.text, sizeof c->msg.text, format, ap);
    va_end(ap);
    return code;
}

/* The same for row I of a change: which one it is matters only when there are several. */
static int refuse_row(struct change *c, size_t i, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static int refuse_row(struct change *c, size_t i, int code, const char *format, ...)
{
    va_list ap;
    int n = c->rows_count > 1
                ? snprintf(c->msg.text, sizeof c->msg.text, "commit %zu of the release: ", i + 1)
                : 0;

    c->error = code;
    va_start(ap, format);
    vsnprintf(c->msg.text + n, sizeof c->msg.text - (size_t)n, format, ap);
    va_end(ap);
    return code;
}

/* Come again in the next group: it rests on what this one changes. */
#define LATER 1

static struct event *add_event(struct group *g)
{
    if (g->count == g->cap) {
        size_t cap = g->cap ? g->cap * 2 : 16;
        struct event *more = realloc(g->events, cap * sizeof *more);
        if (!more)
            return NULL;
        g->events = more;
        g->cap = cap;
    }
    struct event *e = &g->events[g->count++];
    memset(e, 0, sizeof *e);
    e->seq = g->committer->server->ledger->seq + g->count;
    e->text.data = e->text2.data = "";
    return e;
}

/* What this group has in mind for T. */
static bool touched(const struct group *g, const struct table *t)
{
    return t->pending.group == g->committer->groups && t->pending.changed;
}

static void touch(struct group *g, struct table *t)
{
    if (t->pending.group != g->committer->groups)
        t->pending.head = NULL;
    t->pending.group = g->committer->groups;
    t->pending.changed = true;
}

static bool touched_name(const struct group *g, struct bytes name)
{
    for (size_t i = 0; i < g->names_count; i++)
        if (bytes_equal(g->names[i], name))
            return true;
    return false;
}

/* Only called when there is room: see judge_one(). */
static void touch_name(struct group *g, struct bytes name)
{
    assert(g->names_count < ARRAY_SIZE(g->names));
    g->names[g->names_count++] = name;
}

/*
 * Did this request come before?  LATER never; 0: no.  A remembered uuid of the same content is answered as the first
 * time, with the sequence number it got: even one of this very group, whose answer waits for the same COMMIT.
 */
static int repeated(struct group *g, struct change *c, const struct event *e, uint64_t *seq)
{
    uint64_t content;

    if (uuid_is_zero(&e->uuid) || !uuids_find(g->committer->server->ledger->uuids, &e->uuid, seq, &content))
        return 0;
    if (content != event_content(e))
        return refuse(c, SKADE_EINPUT,
                      "this uuid came before with other content: make a new one for a new request");
    return 1;
}

static void remember(struct group *g, const struct event *e)
{
    if (!uuid_is_zero(&e->uuid))
        uuids_add(g->committer->server->ledger->uuids, &e->uuid, e->seq, event_content(e));
}

/* ---- judging commits --------------------------------------------------------------------------------------------------- */

static int check_row(struct change *c, const struct change_row *row, size_t i)
{
    const struct event *e = &row->event;
    const char *problem = location_problem(e->text);

    if (problem)
        return refuse_row(c, i, SKADE_EINPUT, "location: %s", problem);
    if (!(e->flags & (EVENT_INTRODUCES | EVENT_MOVES_HEAD)))
        return refuse_row(c, i, SKADE_EINPUT, "it neither introduces a snapshot nor moves the head");
    if ((e->flags & EVENT_INTRODUCES) && !(e->flags & EVENT_HAS_SNAPSHOT))
        return refuse_row(c, i, SKADE_EINPUT, "it introduces a snapshot and names none");
    return 0;
}

static const struct event *head_of(const struct group *g, const struct table *t, struct event *store)
{
    if (t->pending.group == g->committer->groups && t->pending.head)
        return t->pending.head;
    if (!t->head.seq)
        return NULL;
    *store = (struct event){ .seq = t->head.seq,
                             .kind = EVENT_COMMIT,
                             .flags = t->head.flags,
                             .table = t->number,
                             .snapshot = t->head.snapshot,
                             .time_us = t->head.time_us,
                             .text = t->head.location,
                             .text2 = { "", 0 } };
    return store;
}

static void tell_head(struct change *c, const struct event *head)
{
    c->has_head = true;
    memset(&c->head, 0, sizeof c->head);
    if (!head)
        return;
    c->head = *head;
    memcpy(c->head_text, head->text.data, head->text.len);
    c->head.text.data = c->head_text;
}

static int check_base(struct group *g, struct change *c, const struct change_row *row, const struct table *t,
                      size_t i)
{
    struct event store;
    const struct event *head = head_of(g, t, &store);

    if (row->base == BASE_ANY || (row->base == BASE_NONE && !head) ||
        (row->base == BASE_IS && head && bytes_equal(head->text, row->base_location)))
        return 0;
    tell_head(c, head);
    counter_add(g->committer->server->page, COUNTER_conflicts, 1);
    if (!head)
        return refuse_row(c, i, SKADE_ECONFLICT, "the table has no commit yet");
    return refuse_row(c, i, SKADE_ECONFLICT, "the head is %.*s", (int)head->text.len, head->text.data);
}

/* The table of a row, if it takes commits.  0, LATER, or refused. */
static int table_for_commit(struct group *g, struct change *c, uint32_t number, size_t i, struct table **ret)
{
    struct table *t = ledger_table(g->committer->server->ledger, number);

    if (!t || t->dropped_seq != SEQ_MAX)
        return refuse_row(c, i, SKADE_ENOTABLE,
                          "there is no table of that number: it was dropped, or never made");
    if (touched(g, t))
        return LATER;
    if (t->kind == TABLE_STORED)
        return refuse_row(c, i, SKADE_EKIND,
                          "skade stores this table's rows: use append; commit is for external tables");
    *ret = t;
    return 0;
}

/* What judging a release changes in tables, so that a refusal leaves nothing. */
struct undo {
    struct table *table;
    uint64_t group;
    bool changed;
    const struct event *head;
};

static int judge_row(struct group *g, struct change *c, size_t i, struct undo *undo)
{
    const struct change_row *row = &c->rows[i];
    struct table *t = NULL;
    uint64_t seq;

    int r = check_row(c, row, i);
    if (r == 0)
        r = table_for_commit(g, c, row->event.table, i, &t);
    if (r != 0)
        return r;
    r = repeated(g, c, &row->event, &seq);
    if (r == 1)
        return refuse_row(c, i, SKADE_EINPUT, "its uuid came before, but not that of the commits before it");
    if (r < 0)
        return r;
    r = check_base(g, c, row, t, i);
    if (r < 0)
        return r;
    struct event *e = add_event(g);
    if (!e)
        return refuse(c, -ENOMEM, "no memory");
    uint64_t own_seq = e->seq;
    *e = row->event;
    e->seq = own_seq;
    e->kind = EVENT_COMMIT;
    if (!row->has_time)
        e->time_us = server_now_us();
    remember(g, e);

    *undo = (struct undo){ t, t->pending.group, t->pending.changed, t->pending.head };
    if (t->pending.group != g->committer->groups) {
        t->pending.group = g->committer->groups;
        t->pending.changed = false;
        t->pending.head = NULL;
    }
    if (e->flags & EVENT_MOVES_HEAD) {
        /* The row's copy stays where it is, the group's array may move. */
        c->rows[i].event.time_us = e->time_us;
        c->rows[i].event.seq = e->seq;
        t->pending.head = &c->rows[i].event;
    }
    return 0;
}

/* All of a change came before, row by row: the first answer again. */
static int judge_repeat(struct group *g, struct change *c, uint64_t first)
{
    uint64_t seq;

    for (size_t i = 1; i < c->rows_count; i++) {
        int r = repeated(g, c, &c->rows[i].event, &seq);
        if (r < 0)
            return r;
        if (r == 0 || seq != first + i)
            return refuse_row(c, i, SKADE_EINPUT, "the uuids before it came before in another request");
    }
    counter_add(g->committer->server->page, COUNTER_repeats, 1);
    c->first_seq = first;
    c->last_seq = first + c->rows_count - 1;
    return 0;
}

static int judge_commits(struct group *g, struct change *c)
{
    uint64_t first, had = g->committer->server->ledger->seq + g->count;
    size_t count = g->count, done = 0;

    if (c->rows_count == 0)
        return 0; /* an empty release changes nothing */
    int r = repeated(g, c, &c->rows[0].event, &first);
    if (r != 0)
        return r < 0 ? r : judge_repeat(g, c, first);
    struct undo *undo = calloc(c->rows_count, sizeof *undo);
    if (!undo)
        return refuse(c, -ENOMEM, "no memory");
    while (r == 0 && done < c->rows_count) {
        r = judge_row(g, c, done, &undo[done]);
        done += r == 0;
    }
    if (r != 0) {
        while (done-- > 0) {
            undo[done].table->pending.group = undo[done].group;
            undo[done].table->pending.changed = undo[done].changed;
            undo[done].table->pending.head = undo[done].head;
        }
        uuids_forget_after(g->committer->server->ledger->uuids, had);
        g->count = count;
    } else {
        c->first_seq = had + 1;
        c->last_seq = had + c->rows_count;
    }
    free(undo);
    return r;
}

/* ---- judging the rest ------------------------------------------------------------------------------------------------------ */

static int check_name(struct change *c, struct bytes name)
{
    const char *problem = table_name_problem(name);
    if (problem)
        return refuse(c, SKADE_EINPUT, "'%.*s' is not a table name: %s",
                      (int)(name.len > 100 ? 100 : name.len), name.data, problem);
    return 0;
}

static int add_single(struct group *g, struct change *c, struct event *proto)
{
    struct event *e = add_event(g);
    if (!e)
        return refuse(c, -ENOMEM, "no memory");
    proto->seq = e->seq;
    proto->time_us = server_now_us();
    proto->uuid = c->uuid;
    *e = *proto;
    remember(g, e);
    c->first_seq = c->last_seq = e->seq;
    return 0;
}

/* 1: answered already; 0: new; negative: refused. */
static int repeated_single(struct group *g, struct change *c, struct event *proto)
{
    uint64_t seq;

    proto->uuid = c->uuid;
    int r = repeated(g, c, proto, &seq);
    if (r == 1) {
        counter_add(g->committer->server->page, COUNTER_repeats, 1);
        c->first_seq = c->last_seq = seq;
    }
    return r;
}

/* The number that the create event SEQ gave: of the log's tables or of this group's. */
static uint32_t created_by(const struct group *g, uint64_t seq)
{
    const struct ledger *l = g->committer->server->ledger;

    if (seq > l->seq)
        return g->events[seq - l->seq - 1].table;
    for (size_t i = 0; i < l->tables_count; i++)
        if (l->tables[i]->created_seq == seq)
            return l->tables[i]->number;
    return 0;
}

static int judge_create(struct group *g, struct change *c)
{
    const struct ledger *l = g->committer->server->ledger;
    struct event e = { .kind = EVENT_CREATE, .text = c->name, .text2 = c->location };

    if (!c->location.len)
        e.flags = EVENT_STORED;
    int r = check_name(c, c->name);
    if (r < 0)
        return r;
    const char *problem = c->location.len ? location_problem(c->location) : NULL;
    if (problem)
        return refuse(c, SKADE_EINPUT, "location: %s", problem);
    r = repeated_single(g, c, &e);
    if (r == 1)
        c->created = created_by(g, c->first_seq);
    if (r != 0)
        return r < 0 ? r : 0;
    if (touched_name(g, c->name))
        return LATER;
    if (ledger_find_name(l, c->name, SEQ_MAX))
        return refuse(c, SKADE_EEXISTS, "there is a table '%.*s'; choose another name or drop it",
                      (int)c->name.len, c->name.data);
    if (l->tables_count + g->tables >= UINT32_MAX - 1)
        return refuse(c, SKADE_EBUSY, "table numbers are used up");
    e.table = (uint32_t)l->tables_count + ++g->tables;
    r = add_single(g, c, &e);
    if (r < 0)
        return r;
    c->created = e.table;
    touch_name(g, c->name);
    return 0;
}

/* The living table of that name.  0, LATER, or refused. */
static int table_of_name(struct group *g, struct change *c, struct bytes name, struct table **ret)
{
    struct ledger *l = g->committer->server->ledger;

    if (touched_name(g, name))
        return LATER;
    struct table *t = ledger_table(l, ledger_find_name(l, name, SEQ_MAX));
    if (!t)
        return refuse(c, SKADE_ENOTABLE, "there is no table '%.*s'", (int)(name.len > 200 ? 200 : name.len),
                      name.data);
    /* Its commits in this group are fine, but an order among changes of the table itself needs a group each. */
    if (touched(g, t))
        return LATER;
    *ret = t;
    return 0;
}

static int judge_rename(struct group *g, struct change *c)
{
    struct ledger *l = g->committer->server->ledger;
    struct event e = { .kind = EVENT_RENAME, .text = c->new_name, .text2 = c->name };
    struct table *t = NULL;

    int r = check_name(c, c->name);
    if (r == 0)
        r = check_name(c, c->new_name);
    if (r < 0)
        return r;
    r = repeated_single(g, c, &e);
    if (r != 0)
        return r < 0 ? r : 0;
    r = table_of_name(g, c, c->name, &t);
    if (r == 0 && touched_name(g, c->new_name))
        r = LATER;
    if (r != 0)
        return r;
    if (ledger_find_name(l, c->new_name, SEQ_MAX))
        return refuse(c, SKADE_EEXISTS, "there is a table '%.*s'", (int)c->new_name.len, c->new_name.data);
    assert(t);
    e.table = t->number;
    r = add_single(g, c, &e);
    if (r < 0)
        return r;
    touch(g, t);
    touch_name(g, c->name);
    touch_name(g, c->new_name);
    g->takes_away = true;
    return 0;
}

static int judge_drop(struct group *g, struct change *c)
{
    struct event e = { .kind = EVENT_DROP, .text = c->name, .text2 = { "", 0 } };
    struct table *t = NULL;

    int r = check_name(c, c->name);
    if (r < 0)
        return r;
    r = repeated_single(g, c, &e);
    if (r != 0)
        return r < 0 ? r : 0;
    r = table_of_name(g, c, c->name, &t);
    if (r != 0)
        return r;
    assert(t);
    e.table = t->number;
    r = add_single(g, c, &e);
    if (r < 0)
        return r;
    touch(g, t);
    touch_name(g, c->name);
    g->takes_away = true;
    return 0;
}

/*
 * The last commit that may be retired: before the head, and before the commit that introduced the head's snapshot, so
 * that after a rollback the current snapshot can still be resolved.
 */
static uint64_t retirable(const struct ledger *l, const struct generation *g, const struct table *t)
{
    static struct answer a;
    uint64_t limit = t->head.seq;

    if (!limit)
        return 0;
    if ((t->head.flags & EVENT_HAS_SNAPSHOT) &&
        ledger_resolve(l, g, t->number, t->head.snapshot, SEQ_MAX, &a) == 1 && a.seq < limit)
        limit = a.seq;
    return limit - 1;
}

/* The longest run of the table's oldest commits that all have a time before BEFORE_US: its last sequence number. */
static uint64_t run_before(const struct ledger *l, const struct generation *g, const struct table *t,
                           int64_t before_us, uint64_t watermark, uint64_t limit)
{
    uint64_t last = watermark;
    struct found f;

    while (g && generation_after(g, t->number, last, &f) == 1 && f.hit.seq <= limit &&
           f.hit.time_us < before_us)
        last = f.hit.seq;
    if (g && generation_after(g, t->number, last, &f) == 1)
        return last;
    for (uint64_t seq = l->floor + 1; seq <= l->seq && seq <= limit; seq++) {
        const struct event *e = ledger_tail_event(l, seq);
        if (seq <= last || e->table != t->number || (e->kind != EVENT_COMMIT && e->kind != EVENT_COMPACT))
            continue;
        if (e->time_us >= before_us)
            break;
        last = seq;
    }
    return last;
}

static int judge_expire(struct group *g, struct change *c)
{
    struct server *s = g->committer->server;
    struct event e = { .kind = EVENT_EXPIRE, .text = { "", 0 }, .text2 = { "", 0 } };
    static struct answer a;
    uint64_t by;

    int r = repeated_single(g, c, &e);
    if (r != 0)
        return r < 0 ? r : 0;
    struct table *t = ledger_table(s->ledger, c->table);
    if (!t || t->dropped_seq != SEQ_MAX)
        return refuse(c, SKADE_ENOTABLE, "there is no table of that number: it was dropped, or never made");
    if (touched(g, t))
        return LATER;
    const struct generation *gen = indexer_generation(s->indexer);
    uint64_t watermark = table_watermark(t, SEQ_MAX, &by), limit = retirable(s->ledger, gen, t);

    if (c->by == 1) {
        e.watermark = run_before(s->ledger, gen, t, c->value, watermark, limit);
    } else if (c->by == 2) {
        r = ledger_resolve(s->ledger, gen, t->number, c->value, SEQ_MAX, &a);
        if (r != 1 && r != SKADE_EEXPIRED)
            return refuse(c, r, "snapshot %" PRId64 ": %s", c->value, error_text(r));
        if (a.seq > limit)
            return refuse(c, SKADE_EINPUT,
                          "snapshot %" PRId64 " is what the head needs; the head is never retired", c->value);
        e.watermark = a.seq;
    } else {
        return refuse(c, SKADE_EINPUT, "expire takes a time or a snapshot");
    }
    if (e.watermark <= watermark)
        return 0; /* nothing to retire: first_seq stays 0 */
    assert(t);
    e.table = t->number;
    r = add_single(g, c, &e);
    if (r < 0)
        return r;
    touch(g, t);
    g->takes_away = true;
    return 0;
}

/* 0: judged, whether refused or not.  LATER: it must wait for the next group. */
static int judge_one(struct group *g, struct change *c)
{
    int r = LATER;

    if (g->names_count + 2 > ARRAY_SIZE(g->names))
        return LATER;
    switch (c->kind) {
    case CHANGE_COMMITS:
        r = judge_commits(g, c);
        break;
    case CHANGE_CREATE:
        r = judge_create(g, c);
        break;
    case CHANGE_RENAME:
        r = judge_rename(g, c);
        break;
    case CHANGE_DROP:
        r = judge_drop(g, c);
        break;
    case CHANGE_EXPIRE:
        r = judge_expire(g, c);
        break;
    }
    assert(r != LATER || g->changes);
    return r == LATER ? LATER : 0;
}

/* ---- a group's life ------------------------------------------------------------------------------------------------------------- */

static void start_group(struct committer *c);

static void finish_changes(struct group *g)
{
    while (g->changes) {
        struct change *change = g->changes;
        g->changes = change->next;
        change->done(change);
        change_free(change);
    }
}

static void group_free(struct group *g)
{
    free(g->events);
    free(g);
}

/* A successor must know of our page before there is a commit that an orphaned reader could miss. */
static int record_epoch(struct group *g, struct commitlog *log)
{
    struct server *s = g->committer->server;

    if (s->epoch_recorded)
        return 0;
    int r = commitlog_set_epoch(log, g->epoch, false, &g->msg);
    s->epoch_recorded = r == 0;
    return r;
}

/* On the log thread. */
static void run_group(struct log_job *job, struct commitlog *log)
{
    struct group *g = (struct group *)job;
    uint64_t began = uv_hrtime();

    g->error = record_epoch(g, log);
    if (g->error == 0)
        g->error = commitlog_append(log, g->events, g->count, &g->msg);
    /* Perhaps the write-ahead file took the last room: fold it into the database, and try once more. */
    if (g->error == SKADE_EFULL && commitlog_checkpoint(log, true, NULL, NULL) == 0)
        g->error = commitlog_append(log, g->events, g->count, &g->msg);
    g->micros = (uv_hrtime() - began) / 1000;
}

static int apply_group(struct group *g)
{
    struct server *s = g->committer->server;

    for (size_t i = 0; i < g->count; i++) {
        struct event *e = event_copy(&g->events[i]);
        int r = e ? ledger_apply(s->ledger, e, false, indexer_generation(s->indexer)) : -ENOMEM;
        if (r < 0) {
            free(e);
            return r;
        }
    }
    return 0;
}

static void count_group(struct group *g)
{
    struct control_page *page = g->committer->server->page;

    counter_add(page, COUNTER_groups, 1);
    counter_max(page, COUNTER_group_max, g->count);
    counter_max(page, COUNTER_log_us_max, g->micros);
    for (size_t i = 0; i < g->count; i++)
        counter_add(page, COUNTER_commits, g->events[i].kind == EVENT_COMMIT);
}

/* It failed, for all its members: their judgement rested on each other. */
static void fail_group(struct group *g)
{
    struct server *s = g->committer->server;

    uuids_forget_after(s->ledger->uuids, s->ledger->seq);
    for (struct change *c = g->changes; c; c = c->next) {
        c->error = g->error;
        c->msg = g->msg;
        c->has_head = false;
    }
    if (g->error == SKADE_EFULL || g->error == -ENOMEM) {
        counter_add(s->page, COUNTER_log_full, 1);
        if (!g->committer->refusing) /* one line for an episode */
            log_warning("commits are refused: %s", g->msg.text);
        g->committer->refusing = true;
        return;
    }
    log_error("the log failed: %s; stopping, to recover from what is on disk", g->msg.text);
    server_stop(s, 1);
}

/* Back on the loop: durable, or not. */
static void group_done(struct log_job *job)
{
    struct group *g = (struct group *)job;
    struct committer *c = g->committer;
    struct server *s = c->server;

    if (g->error == 0 && FAILPOINT("commit.durable") == 0 && apply_group(g) < 0) {
        /* It is durable and we can't show it: only a start from the log gives a state that can be trusted. */
        log_error("no memory for committed events; stopping");
        abort();
    }
    if (g->error < 0) {
        fail_group(g);
    } else {
        count_group(g);
        if (c->refusing)
            log_info("commits are taken again");
        c->refusing = false;
        if (g->takes_away)
            indexer_publish_now(s->indexer);                /* P2 */
        publisher_commit_seq(s->publisher, s->ledger->seq); /* P3 */
        counter_set(s->page, COUNTER_commit_seq, s->ledger->seq);
    }
    c->group = NULL;
    finish_changes(g);
    if (g->error == 0) {
        listener_events(s->listener);
        indexer_poke(s->indexer);
    }
    group_free(g);
    start_group(c);
}

/* Move the queue's changes into a new group, as far as they don't need another one. */
static struct group *judge_group(struct committer *c)
{
    struct group *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    c->groups++;
    g->committer = c;
    g->epoch = publisher_epoch(c->server->publisher);
    g->changes_last = &g->changes;
    g->job.run = run_group;
    g->job.done = group_done;
    for (size_t n = 0; c->queue && n < GROUP_CHANGES && g->count < GROUP_EVENTS; n++) {
        struct change *change = c->queue;
        if (judge_one(g, change) == LATER)
            break;
        c->queue = change->next;
        if (!c->queue)
            c->queue_last = &c->queue;
        change->next = NULL;
        *g->changes_last = change;
        g->changes_last = &change->next;
    }
    return g;
}

static void start_group(struct committer *c)
{
    while (c->queue && !c->group && !c->paused) {
        struct group *g = judge_group(c);
        if (!g)
            return; /* no memory: the next submission tries again */
        if (g->count) {
            c->group = g;
            logthread_post(c->server->log_thread, &g->job, true);
        } else {
            finish_changes(g);
            group_free(g);
        }
    }
}

void committer_submit(struct committer *c, struct change *change)
{
    change->next = NULL;
    *c->queue_last = change;
    c->queue_last = &change->next;
    start_group(c);
}

static void on_pause_over(uv_timer_t *timer)
{
    struct committer *c = timer->data;

    c->paused = false;
    start_group(c);
}

void committer_pause(struct committer *c, uint64_t ms)
{
    c->paused = true;
    uv_timer_start(&c->pause, on_pause_over, ms, 0);
}

struct committer *committer_new(struct server *s)
{
    struct committer *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->server = s;
    c->queue_last = &c->queue;
    uv_timer_init(&s->loop, &c->pause);
    c->pause.data = c;
    return c;
}

bool committer_idle(const struct committer *c)
{
    return !c->queue && !c->group;
}

void committer_free(struct committer *c)
{
    free(c);
}
