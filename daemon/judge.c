#include "committer_internal.h"

#include "checksum.h"
#include "stored_table.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* ---- what all judgements share ------------------------------------------------------------------------------------------ */

int refuse(struct change *c, int code, const char *format, ...)
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
bool touched(const struct group *g, const struct table *t)
{
    return t->pending.group == g->committer->groups && t->pending.changed;
}

/* Has it anything in mind, be it only a commit? */
bool has_pending(const struct group *g, const struct table *t)
{
    return t->pending.group == g->committer->groups;
}

void touch(struct group *g, struct table *t)
{
    if (t->pending.group != g->committer->groups)
        t->pending.head = NULL;
    t->pending.group = g->committer->groups;
    t->pending.changed = true;
}

bool touched_name(const struct group *g, struct bytes name)
{
    for (size_t i = 0; i < g->names_count; i++)
        if (bytes_equal(g->names[i], name))
            return true;
    return false;
}

/* Only called when there is room: see judge_one(). */
void touch_name(struct group *g, struct bytes name)
{
    assert(g->names_count < ARRAY_SIZE(g->names));
    g->names[g->names_count++] = name;
}

bool find_uuid(const struct group *g, const struct uuid *uuid, uint64_t *seq, uint64_t *content)
{
    return !uuid_is_zero(uuid) && (uuids_find(g->committer->server->ledger->uuids, uuid, seq, content) ||
                                   (g->uuids && uuids_find(g->uuids, uuid, seq, content)));
}

int refuse_other_content(struct change *c)
{
    return refuse(c, SKADE_EINPUT,
                  "this uuid came before with other content: make a new one for a new request");
}

/*
 * Did this request come before?  LATER never; 0: no.  A remembered uuid of the same content is answered as the first
 * time, with the sequence number it got: even one of this very group, whose answer waits for the same COMMIT.
 */
int repeated(const struct group *g, struct change *c, const struct event *e, uint64_t *seq)
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
        g->uuids =
            uuids_new_growing(g->committer->server->ledger->seed, g->large ? g->changes->rows_count : 0);
    return g->uuids ? uuids_add(g->uuids, &e->uuid, e->seq, content) : -ENOMEM;
}

/* The changes that made the events after number COUNT of the group are refused. */
void take_back(struct group *g, size_t count)
{
    if (g->uuids)
        uuids_forget_after(g->uuids, g->committer->server->ledger->seq + count);
    g->count = count;
}

/* CONTENT: what a request that comes again is known by. */
int add_asked(struct group *g, struct change *c, struct event *proto, uint64_t content)
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

int add_single(struct group *g, struct change *c, struct event *proto)
{
    return add_asked(g, c, proto, event_content(proto));
}

void answer_repeat(struct group *g, struct change *c, uint64_t seq)
{
    counter_add(g->committer->server->page, COUNTER_repeats, 1);
    c->first_seq = c->last_seq = seq;
}

/* 1: answered already; 0: new; negative: refused. */
int repeated_single(struct group *g, struct change *c, struct event *proto)
{
    uint64_t seq;

    proto->uuid = c->uuid;
    int r = repeated(g, c, proto, &seq);
    if (r == 1)
        answer_repeat(g, c, seq);
    return r;
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
    assert(t);
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
    struct errmsg why;
    struct table *t = NULL;

    if (living_table(g->committer->server, number, SEQ_MAX, &t, &why) < 0)
        return refuse_row(g, c, i, SKADE_ENOTABLE, "%s", why.text);
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

/* Row I of a change whose first row came before, as event FIRST. */
static int judge_repeated_row(const struct group *g, struct change *c, size_t i, uint64_t first)
{
    uint64_t seq;

    int r = repeated(g, c, &c->rows[i].event, &seq);
    if (r < 0)
        return r;
    if (r == 0 || seq != first + i)
        return refuse_row(g, c, i, SKADE_EINPUT, "the uuids before it came before in another request");
    return 0;
}

/* All of a change came before, row by row: the first answer again. */
static void answer_repeats(struct group *g, struct change *c, uint64_t first)
{
    counter_add(g->committer->server->page, COUNTER_repeats, 1);
    c->first_seq = first;
    c->last_seq = first + c->rows_count - 1;
}

static int judge_repeat(struct group *g, struct change *c, uint64_t first)
{
    for (size_t i = 1; i < c->rows_count; i++) {
        int r = judge_repeated_row(g, c, i, first);
        if (r < 0)
            return r;
    }
    answer_repeats(g, c, first);
    return 0;
}

int judge_commits(struct group *g, struct change *c)
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

/* ---- large ones -------------------------------------------------------------------------------------------------------- */

/* No other change is in its group, so that nothing has to be undone: nobody looks at what a group that ended had in mind. */
int judge_slice(struct group *g, struct change *c)
{
    struct undo undo;
    size_t end = c->rows_count - g->judged > COMMIT_SLICE ? g->judged + COMMIT_SLICE : c->rows_count;

    int r = 0;
    if (g->judged == 0)
        r = repeated(g, c, &c->rows[0].event, &g->repeat_from);
    if (r == 0 && g->judged == 0)
        g->repeat_from = 0;
    counter_max(g->committer->server->page, COUNTER_commit_slice_max, end - g->judged);
    for (r = r < 0 ? r : 0; r == 0 && g->judged < end; g->judged += r == 0)
        r = g->repeat_from ? judge_repeated_row(g, c, g->judged, g->repeat_from)
                           : judge_row(g, c, g->judged, &undo);
    assert(r != LATER);
    if (r < 0) {
        g->count = 0;
        return r;
    }
    if (g->judged < c->rows_count)
        return LATER;
    if (g->repeat_from) {
        answer_repeats(g, c, g->repeat_from);
        return 0;
    }
    c->first_seq = g->committer->server->ledger->seq + 1;
    c->last_seq = g->committer->server->ledger->seq + c->rows_count;
    return 0;
}

/* ---- a change ------------------------------------------------------------------------------------------------------------- */

/* 0: judged, whether refused or not.  LATER: it must wait for the next group. */
int judge_one(struct group *g, struct change *c)
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
