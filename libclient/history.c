/*
 * Answers that come in pages: history of a table, events since a moment, tables by name.
 *
 * A page is one request; the next one starts where the last ended, so that nothing is lost or told twice
 * when the connection breaks in between.  What the daemon sends is checked for order: a callback never sees
 * an event twice.
 */
#include "client.h"

#include "event.h"

#define PAGE 1000u /* rows that one request asks for */

/* ---- events -------------------------------------------------------------------------------------------- */

static bool is_event(const struct item_event *e)
{
    return e->kind >= EVENT_COMMIT && e->kind < EVENT_KIND_END && e->name.len <= NAME_MAX_LEN &&
           e->text.len <= LOCATION_MAX && e->text2.len <= LOCATION_MAX;
}

/* What the two texts of an event mean: event.h. */
static void name_texts(const struct item_event *e, struct bytes *location, struct bytes *old_name)
{
    *location = *old_name = (struct bytes){ "", 0 };
    if (e->kind == EVENT_COMMIT || e->kind == EVENT_COMPACT)
        *location = e->text;
    if (e->kind == EVENT_CREATE)
        *location = e->text2;
    if (e->kind == EVENT_RENAME)
        *old_name = e->text2;
}

static const char *terminate(char *to, struct bytes from)
{
    memcpy(to, from.data, from.len);
    to[from.len] = 0;
    return to;
}

static int call_back(skade *s, const struct item_event *e, skade_event_fn fn, void *arg)
{
    char name[NAME_MAX_LEN + 1], location_text[LOCATION_MAX + 1], old_text[LOCATION_MAX + 1];
    struct bytes location, old_name;

    name_texts(e, &location, &old_name);
    struct skade_event event = {
        .size = sizeof event,
        .kind = e->kind,
        .flags = e->flags,
        .table = e->table,
        .seq = e->seq,
        .snapshot = e->snapshot,
        .time_us = e->time_us,
        .watermark = e->watermark,
        .name = terminate(name, e->name),
        .location = terminate(location_text, location),
        .old_name = terminate(old_text, old_name),
    };
    memcpy(event.uuid, e->uuid.b, sizeof event.uuid);
    s->lent = true;
    int r = fn(arg, &event);
    s->lent = false;
    return r;
}

int events_deliver(skade *s, const struct frame *f, struct events *ev)
{
    struct msg_events m;
    struct item_event e;

    ev->end = false;
    if (wire_read_events(f->payload, f->head.len, &m) < 0)
        return ask_broken(s, "malformed events");
    for (uint32_t i = 0; i < m.events.count; i++) {
        wire_get_event(&m.events.items, &e);
        if (!is_event(&e) || !ev->follows(ev->last, e.seq))
            return ask_broken(s, "events out of order, or not events");
        ev->last = e.seq;
        ev->count++;
        heard(s, e.seq);
        int r = call_back(s, &e, ev->fn, ev->arg);
        if (r != 0) {
            ev->stopped = true;
            return r;
        }
    }
    ev->at = m.at;
    ev->end = m.more == 0;
    return 0;
}

/* Sequence numbers have no gaps, so neither has what tells all events. */
bool events_follow_closely(uint64_t last, uint64_t seq)
{
    return seq == last + 1;
}

static bool goes_back(uint64_t last, uint64_t seq)
{
    return seq < last && seq > 0;
}

/* Receive the messages of one page and deliver them; *BEFORE is the first. */
static int take_page(skade *s, const struct frame *first, struct events *ev)
{
    struct frame f = *first;

    for (;;) {
        bool more = (f.head.flags & FRAME_MORE) != 0;
        int r = events_deliver(s, &f, ev);
        if (r != 0 || !more)
            return r;
        r = ask_more(s, &f, WIRE_EVENTS, &f);
        if (r < 0)
            return r;
    }
}

/* ---- pages of events ----------------------------------------------------------------------------------- */

struct listing {
    struct events ev;
    uint64_t limit; /* 0: all */
    uint32_t table; /* history */
    uint64_t at;
};

/* How many the next page may have; 0: enough. */
static uint32_t page_size(const struct listing *l)
{
    if (l->limit == 0)
        return PAGE;
    uint64_t left = l->limit - l->ev.count;
    return left < PAGE ? (uint32_t)left : PAGE;
}

static unsigned put_history(skade *s, const struct listing *l, uint32_t n)
{
    wire_put_history(ask_begin(s), &(struct msg_history){ l->at, l->table, l->ev.last, n, 0 });
    return WIRE_HISTORY;
}

static unsigned put_since(skade *s, const struct listing *l, uint32_t n)
{
    wire_put_since(ask_begin(s), &(struct msg_since){ l->ev.last, n, 0 });
    return WIRE_SINCE;
}

typedef unsigned (*put_page_fn)(skade *s, const struct listing *l, uint32_t n);

/* Page by page until there is no more, there is enough, or the callback has had enough. */
static int64_t list_events(skade *s, struct listing *l, put_page_fn put)
{
    struct frame f;

    for (uint32_t n = page_size(l); n > 0 && !l->ev.end; n = page_size(l)) {
        uint64_t had = l->ev.count;
        unsigned type = put(s, l, n);
        int r = ask(s, ASK_READ, type, WIRE_EVENTS, &f);
        if (r == 0)
            r = take_page(s, &f, &l->ev);
        if (r != 0)
            return r;
        if (l->ev.count - had > n || (l->ev.count == had && !l->ev.end))
            return ask_broken(s, "a page of events with too many, or with none and more to come");
        l->at = l->ev.at;
        deadline_renew(s);
    }
    return (int64_t)l->ev.count;
}

int64_t skade_history(skade *s, skade_table table, uint64_t before, uint64_t limit, skade_event_fn fn,
                      void *arg)
{
    struct call c;
    struct listing l = {
        .ev = { .fn = fn, .arg = arg, .last = before ? before : SEQ_MAX, .follows = goes_back },
        .limit = limit,
        .table = table,
        .at = SEQ_MAX,
    };

    int64_t r = call_begin(&c, s);
    if (r == 0)
        r = list_events(s, &l, put_history);
    return call_end(&c, r);
}

int64_t skade_commits_since(skade *s, uint64_t after, uint64_t limit, skade_event_fn fn, void *arg)
{
    struct call c;
    struct listing l = {
        .ev = { .fn = fn, .arg = arg, .last = after, .follows = events_follow_closely },
        .limit = limit,
        .at = SEQ_MAX,
    };

    int64_t r = call_begin(&c, s);
    if (r == 0)
        r = list_events(s, &l, put_since);
    return call_end(&c, r);
}

/* ---- pages of tables ----------------------------------------------------------------------------------- */

struct table_listing {
    skade *s;
    skade_table_fn fn;
    void *arg;
    int64_t count;
    bool more;
    size_t after_len;
    char after[NAME_MAX_LEN]; /* the last name that was told */
};

static bool is_behind(struct bytes name, const struct table_listing *l)
{
    size_t common = name.len < l->after_len ? name.len : l->after_len;
    int order = memcmp(name.data, l->after, common);
    return order > 0 || (order == 0 && name.len > l->after_len);
}

static int tell_table(struct table_listing *l, const struct item_table_row *row)
{
    char name[NAME_MAX_LEN + 1], location[LOCATION_MAX + 1];
    struct skade_table_info info = {
        .size = sizeof info,
        .table = row->table,
        .name = terminate(name, row->name),
        .stored = row->kind == TABLE_STORED,
        .flags = row->flags & EVENT_HAS_SNAPSHOT ? SKADE_HAS_SNAPSHOT : 0,
        .snapshots = row->snapshots,
        .snapshot = row->snapshot,
        .seq = row->seq,
        .time_us = row->time_us,
        .location = terminate(location, row->location),
    };

    memcpy(l->after, row->name.data, row->name.len);
    l->after_len = row->name.len;
    l->count++;
    l->s->lent = true;
    int r = l->fn(l->arg, &info);
    l->s->lent = false;
    return r;
}

static int tell_tables(struct table_listing *l, const struct frame *f)
{
    struct msg_table_list m;
    struct item_table_row row;

    if (wire_read_table_list(f->payload, f->head.len, &m) < 0)
        return ask_broken(l->s, "a malformed list of tables");
    for (uint32_t i = 0; i < m.tables.count; i++) {
        wire_get_table_row(&m.tables.items, &row);
        if (row.name.len > NAME_MAX_LEN || row.location.len > LOCATION_MAX || !is_behind(row.name, l))
            return ask_broken(l->s, "tables out of order, or not tables");
        int r = tell_table(l, &row);
        if (r != 0)
            return r;
    }
    l->more = m.more != 0;
    return 0;
}

static int ask_tables(struct table_listing *l, struct bytes prefix)
{
    struct frame f;
    struct msg_tables m = { .prefix = prefix, .after = { l->after, l->after_len }, .limit = PAGE };

    wire_put_tables(ask_begin(l->s), &m);
    int r = ask(l->s, ASK_READ, WIRE_TABLES, WIRE_TABLE_LIST, &f);
    while (r == 0) {
        bool more = (f.head.flags & FRAME_MORE) != 0;
        r = tell_tables(l, &f);
        if (r != 0 || !more)
            return r;
        r = ask_more(l->s, &f, WIRE_TABLE_LIST, &f);
    }
    return r;
}

static int64_t list_tables(struct table_listing *l, struct bytes prefix)
{
    do {
        int64_t had = l->count;
        int r = ask_tables(l, prefix);
        if (r != 0)
            return r;
        if (l->more && l->count == had)
            return ask_broken(l->s, "a page without tables and more to come");
        deadline_renew(l->s);
    } while (l->more);
    return l->count;
}

int64_t skade_tables(skade *s, const char *prefix, skade_table_fn fn, void *arg)
{
    struct call c;
    struct table_listing l = { .s = s, .fn = fn, .arg = arg };

    int64_t r = call_begin(&c, s);
    if (r == 0 && strlen(prefix) > NAME_MAX_LEN)
        r = fail(&s->msg, SKADE_EINPUT, "the prefix is longer than a table name can be");
    if (r == 0)
        r = list_tables(&l, bytes_of(prefix));
    return call_end(&c, r);
}
