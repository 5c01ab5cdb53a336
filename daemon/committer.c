#include "committer.h"

#include "checksum.h"
#include "failpoint.h"
#include "gc.h"
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
    struct uuids *uuids;    /* its members'; they become the ledger's when they are durable. NULL: none yet */
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

/* The same for row I of a change: which one it is matters only when there are several.  skadectl makes a line of a file
 * of the number. */
static int refuse_row(const struct group *g, struct change *c, size_t i, int code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static int refuse_row(const struct group *g, struct change *c, size_t i, int code, const char *format, ...)
{
    const struct ledger *l = g->committer->server->ledger;
    uint32_t table = c->rows[i].event.table;
    struct bytes name = ledger_table(l, table) ? ledger_name_at(l, table, SEQ_MAX) : bytes_of("no table");
    va_list ap;
    int n = c->rows_count > 1
                ? snprintf(c->msg.text, sizeof c->msg.text, "commit %zu of the release (%.*s): ", i + 1,
                           (int)(name.len > 200 ? 200 : name.len), name.data)
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

/* Has it anything in mind, be it only a commit? */
static bool has_pending(const struct group *g, const struct table *t)
{
    return t->pending.group == g->committer->groups;
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

static bool find_uuid(const struct group *g, const struct uuid *uuid, uint64_t *seq, uint64_t *content)
{
    return !uuid_is_zero(uuid) && (uuids_find(g->committer->server->ledger->uuids, uuid, seq, content) ||
                                   (g->uuids && uuids_find(g->uuids, uuid, seq, content)));
}

static int refuse_other_content(struct change *c)
{
    return refuse(c, SKADE_EINPUT,
                  "this uuid came before with other content: make a new one for a new request");
}

/*
 * Did this request come before?  LATER never; 0: no.  A remembered uuid of the same content is answered as the first
 * time, with the sequence number it got: even one of this very group, whose answer waits for the same COMMIT.
 */
static int repeated(struct group *g, struct change *c, const struct event *e, uint64_t *seq)
{
    uint64_t content;

    if (!find_uuid(g, &e->uuid, seq, &content))
        return 0;
    return content == event_content(e) ? 1 : refuse_other_content(c);
}

/* The ledger's uuids must not hear of it yet: they let go of the oldest for each new one, and a refusal brings none
 * back. */
static int remember(struct group *g, const struct event *e, uint64_t content)
{
    uint64_t seq, known;

    if (uuid_is_zero(&e->uuid) || find_uuid(g, &e->uuid, &seq, &known))
        return 0;
    if (!g->uuids)
        g->uuids = uuids_new_growing(g->committer->server->ledger->seed);
    return g->uuids ? uuids_add(g->uuids, &e->uuid, e->seq, content) : -ENOMEM;
}

/* The changes that made the events after number COUNT of the group are refused. */
static void take_back(struct group *g, size_t count)
{
    if (g->uuids)
        uuids_forget_after(g->uuids, g->committer->server->ledger->seq + count);
    g->count = count;
}

/* ---- judging commits --------------------------------------------------------------------------------------------------- */

static int check_row(const struct group *g, struct change *c, const struct change_row *row, size_t i)
{
    const struct event *e = &row->event;
    const char *problem = location_problem(e->text);

    if (problem)
        return refuse_row(g, c, i, SKADE_EINPUT, "location: %s", problem);
    if (!(e->flags & (EVENT_INTRODUCES | EVENT_MOVES_HEAD)))
        return refuse_row(g, c, i, SKADE_EINPUT, "it neither introduces a snapshot nor moves the head");
    if ((e->flags & EVENT_INTRODUCES) && !(e->flags & EVENT_HAS_SNAPSHOT))
        return refuse_row(g, c, i, SKADE_EINPUT, "it introduces a snapshot and names none");
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

/* Commits of a stored table have strictly ascending times, whatever the clock does: the order by time is the table's. */
static int64_t time_after_head(const struct group *g, const struct table *t)
{
    struct event store;
    const struct event *head = head_of(g, t, &store);
    int64_t now = server_now_us();

    return head && head->time_us >= now && head->time_us < INT64_MAX ? head->time_us + 1 : now;
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
        return refuse_row(g, c, i, SKADE_ECONFLICT, "the table has no commit yet");
    return refuse_row(g, c, i, SKADE_ECONFLICT, "the head is %.*s", (int)head->text.len, head->text.data);
}

/* The table of a row, if it takes commits.  0, LATER, or refused. */
static int table_for_commit(struct group *g, struct change *c, uint32_t number, size_t i, struct table **ret)
{
    struct table *t = ledger_table(g->committer->server->ledger, number);

    if (!t || t->dropped_seq != SEQ_MAX)
        return refuse_row(g, c, i, SKADE_ENOTABLE,
                          "there is no table of that number: it was dropped, or never made");
    if (touched(g, t))
        return LATER;
    if (t->kind == TABLE_STORED && c->kind != CHANGE_APPEND)
        return refuse_row(g, c, i, SKADE_EKIND,
                          "skade stores this table's rows: use append; commit is for external tables");
    if (t->kind != TABLE_STORED && c->kind == CHANGE_APPEND)
        return refuse_row(g, c, i, SKADE_EKIND,
                          "others keep this table's rows: use commit; append is for stored tables");
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

    int r = check_row(g, c, row, i);
    if (r == 0)
        r = table_for_commit(g, c, row->event.table, i, &t);
    if (r != 0)
        return r;
    r = repeated(g, c, &row->event, &seq);
    if (r == 1)
        return refuse_row(g, c, i, SKADE_EINPUT,
                          "its uuid came before, but not that of the commits before it");
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
    if (c->kind == CHANGE_APPEND)
        e->time_us = c->time_us = time_after_head(g, t);
    else if (!row->has_time)
        e->time_us = server_now_us();
    if (remember(g, e, event_content(e)) < 0)
        return refuse(c, -ENOMEM, "no memory");

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
            return refuse_row(g, c, i, SKADE_EINPUT, "the uuids before it came before in another request");
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
        take_back(g, count);
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

/* CONTENT: what a request that comes again is known by. */
static int add_asked(struct group *g, struct change *c, struct event *proto, uint64_t content)
{
    struct event *e = add_event(g);
    if (!e)
        return refuse(c, -ENOMEM, "no memory");
    proto->seq = e->seq;
    proto->time_us = server_now_us();
    proto->uuid = c->uuid;
    *e = *proto;
    if (remember(g, e, content) < 0) {
        g->count--;
        return refuse(c, -ENOMEM, "no memory");
    }
    c->first_seq = c->last_seq = e->seq;
    return 0;
}

static int add_single(struct group *g, struct change *c, struct event *proto)
{
    return add_asked(g, c, proto, event_content(proto));
}

static void answer_repeat(struct group *g, struct change *c, uint64_t seq)
{
    counter_add(g->committer->server->page, COUNTER_repeats, 1);
    c->first_seq = c->last_seq = seq;
}

/* 1: answered already; 0: new; negative: refused. */
static int repeated_single(struct group *g, struct change *c, struct event *proto)
{
    uint64_t seq;

    proto->uuid = c->uuid;
    int r = repeated(g, c, proto, &seq);
    if (r == 1)
        answer_repeat(g, c, seq);
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
        return refuse(c, SKADE_EEXISTS, "there is a table '%.*s'; choose another name or drop it",
                      (int)(c->new_name.len > 200 ? 200 : c->new_name.len), c->new_name.data);
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
static uint64_t retirable(const struct ledger *l, const struct generation *g, const struct table *t,
                          uint64_t at)
{
    static struct answer head, a;

    if (ledger_head(l, g, t->number, at, &head) != 1)
        return 0;
    if ((head.flags & EVENT_HAS_SNAPSHOT) && ledger_resolve(l, g, t->number, head.snapshot, at, &a) == 1 &&
        a.seq < head.seq)
        return a.seq - 1;
    return head.seq - 1;
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

/* Did commits arrive while the compaction SEQ of T ran? They come after it in the table, and before it in the log. */
static bool carried_over(const struct table *t, uint64_t seq, const struct generation *g,
                         const struct ledger *l)
{
    static struct history h;
    uint32_t number;
    int error;
    const struct retirement *base = table_base(t, seq, &number);

    history_of(&h, l, g, t->number, seq);
    for (const struct event *e; base && (e = history_next(&h, &error)) && e->seq > base->watermark;)
        if (e->kind == EVENT_COMMIT)
            return true;
    return false;
}

/* What C asks for, as of event AT: commits of T up to RET go.  0 or refused. */
static int find_watermark(struct group *g, struct change *c, const struct table *t, uint64_t at,
                          uint64_t *ret)
{
    const struct server *s = g->committer->server;
    const struct generation *gen = indexer_generation(s->indexer);
    static struct answer a;
    uint64_t by, watermark = table_watermark(t, at, &by), limit = retirable(s->ledger, gen, t, at);

    if (c->by == 1) {
        *ret = run_before(s->ledger, gen, t, c->value, watermark, limit);
        return 0;
    }
    if (c->by != 2)
        return refuse(c, SKADE_EINPUT, "expire takes a time or a snapshot");
    int r = ledger_resolve(s->ledger, gen, t->number, c->value, at, &a);
    if (r != 1 && r != SKADE_EEXPIRED)
        return refuse(c, r, "snapshot %" PRId64 ": %s", c->value, error_text(r));
    if (a.kind == EVENT_COMPACT && carried_over(t, a.seq, gen, s->ledger))
        return refuse(c, SKADE_EINPUT,
                      "snapshot %" PRId64
                      " is a compaction, and commits that came while it ran stand between it "
                      "and its own number; expire one of the commits after it",
                      c->value);
    if (a.seq > limit)
        return refuse(c, SKADE_EINPUT,
                      "snapshot %" PRId64 " is what the head needs; the head is never retired", c->value);
    *ret = a.seq;
    return 0;
}

static uint64_t expire_content(const struct change *c)
{
    struct {
        uint32_t kind, by, table, reserved;
        int64_t value;
    } asked = { EVENT_EXPIRE, c->by, c->table, 0, c->value };

    return checksum(&asked, sizeof asked, 1);
}

/*
 * Did this expiry come before?  The daemon that carried it out knows what was asked.  After a restart the log tells what
 * became of it: it is the same if the table is, and if it would have retired just as much at that moment.
 */
static int repeated_expire(struct group *g, struct change *c)
{
    struct event was = { .kind = EVENT_EXPIRE, .table = c->table, .text = { "", 0 }, .text2 = { "", 0 } };
    struct table *t = ledger_table(g->committer->server->ledger, c->table);
    uint64_t seq, content;

    if (!find_uuid(g, &c->uuid, &seq, &content))
        return 0;
    bool same = content == expire_content(c);
    if (!same && t && seq <= g->committer->server->ledger->seq)
        same = find_watermark(g, c, t, seq - 1, &was.watermark) == 0 && content == event_content(&was);
    if (!same)
        return refuse_other_content(c);
    answer_repeat(g, c, seq);
    return 1;
}

static int judge_expire(struct group *g, struct change *c)
{
    struct server *s = g->committer->server;
    struct event e = { .kind = EVENT_EXPIRE, .text = { "", 0 }, .text2 = { "", 0 } };
    uint64_t by;

    int r = repeated_expire(g, c);
    if (r != 0)
        return r < 0 ? r : 0;
    struct table *t = ledger_table(s->ledger, c->table);
    if (!t || t->dropped_seq != SEQ_MAX)
        return refuse(c, SKADE_ENOTABLE, "there is no table of that number: it was dropped, or never made");
    if (has_pending(g, t)) /* what the head needs may be another commit then */
        return LATER;
    r = find_watermark(g, c, t, SEQ_MAX, &e.watermark);
    if (r < 0)
        return r;
    if (e.watermark <= table_watermark(t, SEQ_MAX, &by))
        return 0; /* nothing to retire: first_seq stays 0 */
    e.table = t->number;
    r = add_asked(g, c, &e, expire_content(c));
    if (r < 0)
        return r;
    touch(g, t);
    g->takes_away = true;
    return 0;
}

static int judge_compact(struct group *g, struct change *c)
{
    struct server *s = g->committer->server;
    uint32_t number;
    uint64_t by;
    struct event e = { .kind = EVENT_COMPACT,
                       .flags = EVENT_INTRODUCES | EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT,
                       .table = c->table,
                       .snapshot = c->compaction.snapshot,
                       .watermark = c->compaction.at,
                       .text = c->location,
                       .text2 = { "", 0 } };

    struct table *t = ledger_table(s->ledger, c->table);
    if (!t || t->dropped_seq != SEQ_MAX)
        return refuse(c, SKADE_ECONFLICT, "the table was dropped meanwhile; nothing was changed");
    if (touched(g, t))
        return LATER;
    const struct retirement *base = table_base(t, SEQ_MAX, &number);
    if ((base ? base->seq : 0) != c->compaction.base_seq)
        return refuse(c, SKADE_ECONFLICT,
                      "the table was compacted by another meanwhile; nothing was changed");
    if (table_watermark(t, SEQ_MAX, &by) > c->compaction.at)
        return refuse(c, SKADE_ECONFLICT,
                      "commits that came after its snapshot were expired meanwhile; compact the table again");
    int r = add_single(g, c, &e);
    if (r < 0)
        return r;
    g->events[g->count - 1].time_us = c->compaction.time_us;
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
    if (g->committer->server->readonly[0]) {
        refuse(c, SKADE_EREADONLY, "%s", g->committer->server->readonly);
        return 0;
    }
    switch (c->kind) {
    case CHANGE_COMMITS:
    case CHANGE_APPEND:
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
    case CHANGE_COMPACT:
        r = judge_compact(g, c);
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
    uuids_free(g->uuids);
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
    uint64_t began = world.clock_ns();

    g->error = record_epoch(g, log);
    if (g->error == 0)
        g->error = commitlog_append(log, g->events, g->count, &g->msg);
    /* Perhaps the write-ahead file took the last room: fold it into the database, and try once more. */
    if (g->error == SKADE_EFULL && commitlog_checkpoint(log, true, NULL, NULL) == 0)
        g->error = commitlog_append(log, g->events, g->count, &g->msg);
    g->micros = (world.clock_ns() - began) / 1000;
}

/* Its uuid is one of a durable event now. */
static void keep_uuid(struct group *g, const struct event *e)
{
    struct uuids *all = g->committer->server->ledger->uuids;
    uint64_t seq, content;

    if (g->uuids && uuids_find(g->uuids, &e->uuid, &seq, &content) && seq == e->seq)
        uuids_add(all, &e->uuid, seq, content);
}

static int apply_group(struct group *g)
{
    struct server *s = g->committer->server;

    for (size_t i = 0; i < g->count; i++) {
        keep_uuid(g, &g->events[i]);
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

/* C came before, and what it asked for was durable before G: its answer doesn't rest on the others. */
static bool is_old_news(const struct group *g, const struct change *c)
{
    return c->error == 0 && c->first_seq && c->last_seq <= g->committer->server->ledger->seq;
}

/* It failed, for all its members: their judgement rested on each other. */
static void fail_group(struct group *g)
{
    struct server *s = g->committer->server;

    for (struct change *c = g->changes; c; c = c->next) {
        if (is_old_news(g, c))
            continue;
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
        for (size_t i = 0; g->takes_away && i < g->count; i++)
            gc_retired(s, &g->events[i]);
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

/* There is no index to judge by any more.  Who waits was hung up on, and asks again. */
static void drop_queue(struct committer *c)
{
    while (c->queue) {
        struct change *change = c->queue;
        c->queue = change->next;
        change->error = SKADE_EUNREACHABLE;
        change->done(change);
        change_free(change);
    }
    c->queue_last = &c->queue;
}

static void start_group(struct committer *c)
{
    if (c->server->damaged)
        drop_queue(c);
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
    world.timer_start(&c->pause, on_pause_over, ms, 0);
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
