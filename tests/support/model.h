/*
 * What skade must answer, in the plainest way that can be: a list of events, and every question answered by walking over
 * it.  Slow, small, and obviously right; nothing of skade's is used but its numbers.
 *
 * Every question takes the moment AT: only events 1 ... AT have happened.
 */
#ifndef SKADE_TEST_MODEL_H
#define SKADE_TEST_MODEL_H

#include <skade.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct model_event {
    uint32_t kind, flags, table;
    int64_t snapshot, time_us;
    uint64_t watermark;
    const char *location, *name, *old_name; /* as in struct skade_event; kept for ever */
    unsigned char uuid[16];                 /* zero: not known here */
};

struct model {
    struct model_event *events; /* index: seq - 1 */
    uint64_t seq, cap;
    uint32_t tables;
};

/* What became of a question. */
struct model_answer {
    int status;          /* 1 or an error */
    uint64_t seq;        /* 1, SKADE_EEXPIRED: of the commit */
    uint64_t retired_by; /* SKADE_EEXPIRED */
};

static inline struct model_event *model_at(const struct model *m, uint64_t seq)
{
    return &m->events[seq - 1];
}

static inline struct model_event *model_add(struct model *m)
{
    if (m->seq == m->cap) {
        m->cap = m->cap ? m->cap * 2 : 1024;
        m->events = realloc(m->events, m->cap * sizeof *m->events);
        if (!m->events)
            abort();
    }
    struct model_event *e = &m->events[m->seq++];
    memset(e, 0, sizeof *e);
    e->location = e->name = e->old_name = "";
    return e;
}

/* Bears TABLE a name just after AT?  NULL: it isn't there. */
static inline const char *model_name(const struct model *m, uint32_t table, uint64_t at)
{
    const char *name = NULL;

    for (uint64_t seq = 1; seq <= at && seq <= m->seq; seq++) {
        const struct model_event *e = model_at(m, seq);
        if (e->table != table || e->kind == SKADE_EVENT_COMMIT || e->kind == SKADE_EVENT_EXPIRE)
            continue;
        name = e->kind == SKADE_EVENT_DROP ? NULL : e->name;
    }
    return name;
}

static inline uint32_t model_find(const struct model *m, const char *name, uint64_t at)
{
    for (uint32_t t = 1; t <= m->tables; t++) {
        const char *own = model_name(m, t, at);
        if (own && strcmp(own, name) == 0)
            return t;
    }
    return 0;
}

static inline bool model_is_stored(const struct model *m, uint32_t table)
{
    for (uint64_t seq = 1; seq <= m->seq; seq++)
        if (model_at(m, seq)->kind == SKADE_EVENT_CREATE && model_at(m, seq)->table == table)
            return (model_at(m, seq)->flags & SKADE_STORED_TABLE) != 0;
    return false;
}

static inline uint64_t model_watermark(const struct model *m, uint32_t table, uint64_t at, uint64_t *by)
{
    uint64_t watermark = 0;

    *by = 0;
    for (uint64_t seq = 1; seq <= at && seq <= m->seq; seq++)
        if (model_at(m, seq)->table == table && model_at(m, seq)->kind == SKADE_EVENT_EXPIRE) {
            watermark = model_at(m, seq)->watermark;
            *by = seq;
        }
    return watermark;
}

/* Is the commit SEQ retired as of AT? */
static inline struct model_answer model_judge(const struct model *m, uint32_t table, uint64_t seq,
                                              uint64_t at)
{
    struct model_answer a = { .status = 1, .seq = seq };

    if (seq <= model_watermark(m, table, at, &a.retired_by))
        a.status = SKADE_EEXPIRED;
    else
        a.retired_by = 0;
    return a;
}

static inline struct model_answer model_none(const struct model *m, uint32_t table, uint64_t at)
{
    return (struct model_answer){ .status = model_name(m, table, at) ? SKADE_ENOSNAPSHOT : SKADE_ENOTABLE };
}

static inline bool model_is_commit_of(const struct model_event *e, uint32_t table)
{
    return e->kind == SKADE_EVENT_COMMIT && e->table == table;
}

/* First location wins. */
static inline struct model_answer model_resolve(const struct model *m, uint32_t table, int64_t id,
                                                uint64_t at)
{
    struct model_answer none = model_none(m, table, at);

    for (uint64_t seq = 1; none.status != SKADE_ENOTABLE && seq <= at && seq <= m->seq; seq++) {
        const struct model_event *e = model_at(m, seq);
        if (model_is_commit_of(e, table) && (e->flags & SKADE_INTRODUCES) && e->snapshot == id)
            return model_judge(m, table, seq, at);
    }
    return none;
}

static inline struct model_answer model_head(const struct model *m, uint32_t table, uint64_t at)
{
    struct model_answer none = model_none(m, table, at);

    for (uint64_t seq = at < m->seq ? at : m->seq; none.status != SKADE_ENOTABLE && seq > 0; seq--)
        if (model_is_commit_of(model_at(m, seq), table) && (model_at(m, seq)->flags & SKADE_MOVES_HEAD))
            return model_judge(m, table, seq, at);
    return none;
}

static inline struct model_answer model_as_of(const struct model *m, uint32_t table, int64_t time_us,
                                              uint64_t at)
{
    struct model_answer none = model_none(m, table, at);
    uint64_t best = 0;

    for (uint64_t seq = 1; none.status != SKADE_ENOTABLE && seq <= at && seq <= m->seq; seq++) {
        const struct model_event *e = model_at(m, seq);
        if (model_is_commit_of(e, table) && (e->flags & SKADE_MOVES_HEAD) && e->time_us <= time_us &&
            (!best || e->time_us >= model_at(m, best)->time_us))
            best = seq;
    }
    return best ? model_judge(m, table, best, at) : none;
}

/* How many snapshots of TABLE can be resolved now. */
static inline uint64_t model_snapshots(const struct model *m, uint32_t table)
{
    uint64_t by, watermark = model_watermark(m, table, m->seq, &by), count = 0;

    for (uint64_t seq = watermark + 1; seq <= m->seq; seq++) {
        const struct model_event *e = model_at(m, seq);
        if (model_is_commit_of(e, table) && (e->flags & SKADE_INTRODUCES))
            count += model_resolve(m, table, e->snapshot, m->seq).seq == seq;
    }
    return count;
}

/* The last commit that may be retired: before the head and before what introduced the head's snapshot. */
static inline uint64_t model_retirable(const struct model *m, uint32_t table)
{
    struct model_answer head = model_head(m, table, m->seq);
    uint64_t limit = head.status == 1 ? head.seq : 0;

    if (limit && (model_at(m, limit)->flags & SKADE_WITH_SNAPSHOT)) {
        struct model_answer first = model_resolve(m, table, model_at(m, limit)->snapshot, m->seq);
        if (first.status == 1 && first.seq < limit)
            limit = first.seq;
    }
    return limit ? limit - 1 : 0;
}

/* The longest run of oldest commits that are all before TIME_US and may be retired. */
static inline uint64_t model_run_before(const struct model *m, uint32_t table, int64_t time_us)
{
    uint64_t by, last = model_watermark(m, table, m->seq, &by), limit = model_retirable(m, table);

    for (uint64_t seq = last + 1; seq <= limit; seq++) {
        if (!model_is_commit_of(model_at(m, seq), table))
            continue;
        if (model_at(m, seq)->time_us >= time_us)
            break;
        last = seq;
    }
    return last;
}

#endif
