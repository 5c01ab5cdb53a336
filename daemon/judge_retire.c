#include "committer_internal.h"

#include "checksum.h"
#include "stored_table.h"
#include "timefmt.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>

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

int judge_expire(struct group *g, struct change *c)
{
    struct server *s = g->committer->server;
    struct event e = { .kind = EVENT_EXPIRE, .text = { "", 0 }, .text2 = { "", 0 } };
    uint64_t by;

    int r = repeated_expire(g, c);
    if (r != 0)
        return r < 0 ? r : 0;
    struct table *t = NULL;
    r = living_table(s, c->table, SEQ_MAX, &t, &c->msg);
    if (r < 0)
        return c->error = r;
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

int judge_compact(struct group *g, struct change *c)
{
    struct server *s = g->committer->server;
    uint32_t number;
    uint64_t by;
    char when[TIME_FORMAT_MAX];
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
    e.text2 = change_text(c, bytes_of(time_format(server_now_us(), when)));
    int r = e.text2.data ? add_single(g, c, &e) : refuse(c, -ENOMEM, "no memory");
    if (r < 0)
        return r;
    g->events[g->count - 1].time_us = c->compaction.time_us;
    touch(g, t);
    g->takes_away = true;
    return 0;
}
