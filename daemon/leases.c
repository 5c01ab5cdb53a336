#include "leases.h"

#include "indexer.h"
#include "stored_table.h"
#include "timefmt.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Of one connection. */
#define LEASES_MAX 131072u

static const struct generation *generation_of(const struct server *s)
{
    return indexer_generation(s->indexer);
}

/* The commit with sequence number SEQ of TABLE, as an answer. */
static int find_commit(const struct server *s, uint32_t table, uint64_t seq, uint64_t at, struct answer *ret)
{
    static struct history h;
    int error = 0;
    uint64_t by;

    ret->status = SKADE_ENOSNAPSHOT;
    if (seq == 0 || seq > at)
        return ret->status;
    history_of(&h, s->ledger, generation_of(s), table, seq + 1);
    const struct event *e = history_next(&h, &error);
    while (e && e->kind != EVENT_COMMIT && e->kind != EVENT_COMPACT && e->seq == seq)
        e = history_next(&h, &error);
    if (!e)
        return error < 0 ? ret->status = error : ret->status;
    if (e->seq != seq || (e->kind != EVENT_COMMIT && e->kind != EVENT_COMPACT))
        return ret->status;
    ret->seq = e->seq;
    ret->snapshot = e->snapshot;
    ret->time_us = e->time_us;
    bool retired = e->seq <= table_watermark(ledger_table(s->ledger, table), at, &by);
    return ret->status = retired ? SKADE_EEXPIRED : 1;
}

/* Which snapshot: see LEASE in messages.def. */
struct question {
    uint32_t table;
    uint64_t at;
    unsigned by;
    int64_t value;
};

static int find_snapshot(const struct server *s, const struct question *q, struct answer *ret)
{
    switch (q->by) {
    case 0:
        return ledger_head(s->ledger, generation_of(s), q->table, q->at, ret);
    case 1:
        return ledger_resolve(s->ledger, generation_of(s), q->table, q->value, q->at, ret);
    case 2:
        return ledger_as_of(s->ledger, generation_of(s), q->table, q->value, q->at, ret);
    case 3:
        return find_commit(s, q->table, (uint64_t)q->value, q->at, ret);
    default:
        return SKADE_EINPUT;
    }
}

/* There was nothing yet at TIME_US. */
static int explain_time(struct errmsg *msg, const struct server *s, const struct question *q)
{
    static struct answer first;
    char asked[TIME_FORMAT_MAX], earliest[TIME_FORMAT_MAX];

    time_format(q->value, asked);
    if (ledger_earliest(s->ledger, generation_of(s), q->table, q->at, &first) != 1)
        return fail(msg, SKADE_ENOSNAPSHOT, "as of %s: the table has no commit yet", asked);
    return fail(msg, SKADE_ENOSNAPSHOT, "as of %s: the table had no commit then; its earliest is of %s",
                asked, time_format(first.time_us, earliest));
}

static int explain(struct errmsg *msg, const struct server *s, int code, const struct question *q)
{
    char what[64] = "the head", time[TIME_FORMAT_MAX];

    if (q->by == 2 && code == SKADE_ENOSNAPSHOT)
        return explain_time(msg, s, q);
    if (q->by == 1)
        snprintf(what, sizeof what, "snapshot %" PRId64, q->value);
    else if (q->by == 2)
        snprintf(what, sizeof what, "as of %s", time_format(q->value, time));
    else if (q->by == 3)
        snprintf(what, sizeof what, "event %" PRId64, q->value);
    if (code == SKADE_EINPUT)
        return fail(msg, code, "a snapshot is named by head, id, time or sequence number, not in way %u",
                    q->by);
    if (code == SKADE_ENOSNAPSHOT)
        return fail(msg, code, "%s: the table has no such snapshot: its history lists those it has", what);
    if (code == SKADE_EEXPIRED)
        return fail(msg, code, "%s: it was retired by a compaction or expire: take a newer one", what);
    return fail(msg, code, "%s: %s", what, error_text(code));
}

/* What the snapshot's rows are: a base, and the commits in (after, seq]. */
static void describe(struct lease *lease, const struct table *t, const struct answer *a)
{
    uint32_t number;
    const struct retirement *base = table_base(t, lease->at, &number);

    lease->seq = a->seq;
    lease->snapshot = a->snapshot;
    lease->time_us = a->time_us;
    lease->base_seq = base ? base->seq : 0;
    lease->after = base ? base->watermark : 0;
    if (base && a->seq == base->seq)
        lease->after = base->seq; /* the compacted snapshot itself: nothing but the base */
}

void lease_pin(struct server *s, struct lease *lease)
{
    struct table *t = ledger_table(s->ledger, lease->table);

    struct lease *newer = NULL, *older = t->leases;

    /* By age: nearly all begin with the newest moment, those of old views stand further back. */
    while (older && older->at > lease->at) {
        newer = older;
        older = older->table_next;
    }
    lease->table_prev = newer;
    lease->table_next = older;
    *(newer ? &newer->table_next : &t->leases) = lease;
    *(older ? &older->table_prev : &t->leases_end) = lease;
}

void lease_unpin(struct server *s, struct lease *lease)
{
    struct table *t = ledger_table(s->ledger, lease->table);

    *(lease->table_prev ? &lease->table_prev->table_next : &t->leases) = lease->table_next;
    *(lease->table_next ? &lease->table_next->table_prev : &t->leases_end) = lease->table_prev;
}

static int make_room(struct session *s)
{
    if (s->leases_count < s->leases_cap)
        return 0;
    size_t cap = s->leases_cap ? s->leases_cap * 2 : 8;
    struct lease **more = realloc(s->leases, cap * sizeof *more);
    if (!more)
        return -ENOMEM;
    s->leases = more;
    s->leases_cap = cap;
    return 0;
}

int lease_take(struct session *s, uint32_t table, uint64_t at, unsigned by, int64_t value, struct lease **ret,
               struct errmsg *msg)
{
    static struct answer a;
    struct server *server = s->server;
    struct table *t = NULL;

    if (at > server->ledger->seq)
        at = server->ledger->seq;
    int r = stored_table(server, table, at, TO_READ, &t, msg);
    if (r < 0)
        return r;
    struct question q = { table, at, by, value };
    r = find_snapshot(server, &q, &a);
    if (r != 1 && !(r == SKADE_ENOSNAPSHOT && by == 0))
        return explain(msg, server, r, &q);
    if (at < t->collected_seq)
        return fail(msg, SKADE_EEXPIRED,
                    "its files were removed, since event %" PRIu64 " retired them: take a newer "
                    "snapshot",
                    t->collected_seq);
    if (s->leases_count >= LEASES_MAX)
        return fail(msg, SKADE_EBUSY,
                    "this connection holds %u leases, as many as one may: close scans first", LEASES_MAX);
    struct lease *lease = make_room(s) < 0 ? NULL : calloc(1, sizeof *lease);
    if (!lease)
        return fail(msg, -ENOMEM, "no memory");
    lease->number = ++server->last_lease;
    lease->at = at;
    lease->table = table;
    if (r == 1)
        describe(lease, t, &a);
    s->leases[s->leases_count++] = lease;
    lease_pin(server, lease);
    counter_add(server->page, COUNTER_leases, 1);
    *ret = lease;
    return 0;
}

/* Where lease NUMBER is among the session's, or would be: numbers ascend. */
static size_t place_of(const struct session *s, uint64_t number)
{
    size_t low = 0, high = s->leases_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->leases[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct lease *lease_find(const struct session *s, uint64_t number)
{
    size_t i = place_of(s, number);

    return i < s->leases_count && s->leases[i]->number == number ? s->leases[i] : NULL;
}

static void forget(struct server *s, struct lease *lease)
{
    lease_unpin(s, lease);
    counter_add(s->page, COUNTER_leases, (uint64_t)-1);
    free(lease);
}

static void free_list(struct session *s)
{
    free(s->leases);
    s->leases = NULL;
    s->leases_count = s->leases_cap = 0;
}

void lease_end(struct session *s, struct lease *lease)
{
    size_t i = place_of(s, lease->number);

    assert(s->leases[i] == lease);
    memmove(&s->leases[i], &s->leases[i + 1], (--s->leases_count - i) * sizeof *s->leases);
    if (s->leases_count == 0)
        free_list(s);
    forget(s->server, lease);
}

void lease_end_all(struct session *s)
{
    for (size_t i = 0; i < s->leases_count; i++)
        forget(s->server, s->leases[i]);
    free_list(s);
}

size_t leases_before(const struct server *s, uint32_t table, uint64_t seq)
{
    const struct table *t = ledger_table(s->ledger, table);
    size_t count = 0;

    for (const struct lease *l = t ? t->leases_end : NULL; l && l->at < seq; l = l->table_prev)
        count++;
    return count;
}

uint64_t leases_oldest(const struct server *s, uint32_t table)
{
    const struct table *t = ledger_table(s->ledger, table);
    return t && t->leases_end ? t->leases_end->at : SEQ_MAX;
}

bool snapshot_is_free(const struct server *s, uint32_t table, int64_t id)
{
    static struct answer taken;

    int r = ledger_resolve(s->ledger, generation_of(s), table, id, SEQ_MAX, &taken);
    return r != 1 && r != SKADE_EEXPIRED;
}

int files_of(const struct server *s, uint32_t table, uint64_t after, uint64_t seq, uint64_t base_seq,
             uint64_t before, int (*fn)(void *arg, const struct event *e), void *arg)
{
    static struct history h;
    const struct event *e;
    int error = 0, r = 0;

    history_of(&h, s->ledger, generation_of(s), table, before <= seq ? before : seq + 1);
    while (r == 0 && (e = history_next(&h, &error)) && e->seq > after)
        if (e->kind == EVENT_COMMIT)
            r = fn(arg, e);
    if (r != 0 || error < 0 || !base_seq)
        return r != 0 ? r : error;
    history_of(&h, s->ledger, generation_of(s), table, base_seq + 1);
    while ((e = history_next(&h, &error)) && e->seq == base_seq)
        if (e->kind == EVENT_COMPACT)
            return fn(arg, e);
    return error < 0 ? error : SKADE_EDAMAGED;
}
