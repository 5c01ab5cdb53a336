#include "ledger_same.h"

#include "indexer.h"
#include "quick.h"

#include <stdlib.h>

static bool same_event(const struct event *a, const struct event *b)
{
    return a->seq == b->seq && a->kind == b->kind && a->flags == b->flags && a->table == b->table &&
           a->snapshot == b->snapshot && a->time_us == b->time_us && a->watermark == b->watermark &&
           uuid_equal(&a->uuid, &b->uuid) && bytes_equal(a->text, b->text) && bytes_equal(a->text2, b->text2);
}

static void heads_are_same(const struct head *a, const struct head *b)
{
    ALWAYS(a->seq == b->seq && a->flags == b->flags && a->snapshot == b->snapshot &&
           a->time_us == b->time_us && bytes_equal(a->location, b->location));
}

static void tables_are_same(const struct table *a, const struct table *b)
{
    ALWAYS(a->number == b->number && a->kind == b->kind && a->created_seq == b->created_seq &&
           a->dropped_seq == b->dropped_seq);
    ALWAYS(a->snapshots == b->snapshots);
    ALWAYS(a->since_compaction == b->since_compaction);
    ALWAYS(a->name == b->name && a->events_last == b->events_last && a->tail_last == b->tail_last);
    ALWAYS(a->retirements_count == b->retirements_count);
    for (size_t i = 0; i < a->retirements_count; i++)
        ALWAYS(a->retirements[i].seq == b->retirements[i].seq &&
               a->retirements[i].watermark == b->retirements[i].watermark &&
               a->retirements[i].compaction == b->retirements[i].compaction &&
               a->retirements[i].time_us == b->retirements[i].time_us);
    heads_are_same(&a->head, &b->head);
}

static void names_are_same(const struct ledger *a, const struct ledger *b)
{
    ALWAYS(a->names_count == b->names_count && a->sorted_count == b->sorted_count);
    for (size_t i = 0; i < a->names_count; i++) {
        const struct name_row *x = &a->names[i], *y = &b->names[i];
        ALWAYS(bytes_equal(x->name, y->name) && x->from_seq == y->from_seq && x->to_seq == y->to_seq &&
               x->table == y->table && x->older == y->older);
        ALWAYS(ledger_find_name(a, x->name, SEQ_MAX) == ledger_find_name(b, x->name, SEQ_MAX));
    }
    for (size_t i = 0; i < a->sorted_count; i++)
        ALWAYS(a->sorted[i] == b->sorted[i]);
}

static void others_are_same(const struct ledger *a, const struct ledger *b)
{
    ALWAYS(a->others_count == b->others_count && a->compactions_count == b->compactions_count);
    for (size_t i = 0; i < a->others_count; i++)
        ALWAYS(same_event(a->others[i].event, b->others[i].event) &&
               a->others[i].table_prev == b->others[i].table_prev);
    for (size_t i = 0; i < a->compactions_count; i++) {
        const struct compacted *x = &a->compactions[i], *y = &b->compactions[i];
        ALWAYS(x->seq == y->seq && x->watermark == y->watermark && x->table == y->table);
    }
}

static void uuids_are_same(const struct ledger *a, const struct ledger *b)
{
    uint64_t at_a = 0, at_b = 0, seq, content;
    struct index_uuid x, y;
    size_t n;

    while ((n = uuids_copy(a->uuids, SEQ_MAX, &at_a, &x, 1)) == uuids_copy(b->uuids, SEQ_MAX, &at_b, &y, 1) &&
           n) {
        ALWAYS(uuid_equal(&x.uuid, &y.uuid) && x.seq == y.seq && x.content == y.content);
        ALWAYS(uuids_find(b->uuids, &x.uuid, &seq, &content) && seq == x.seq && content == x.content);
    }
    ALWAYS(n == 0 && uuids_copy(b->uuids, SEQ_MAX, &at_b, &y, 1) == 0);
}

void ledgers_are_same(const struct ledger *a, const struct ledger *b)
{
    ALWAYS(uuid_equal(&a->log, &b->log) && a->seed == b->seed);
    ALWAYS(a->seq == b->seq && a->floor == b->floor);
    ALWAYS(a->tables_count == b->tables_count && a->living == b->living);
    for (size_t i = 0; i < a->tables_count; i++)
        tables_are_same(a->tables[i], b->tables[i]);
    names_are_same(a, b);
    others_are_same(a, b);
    uuids_are_same(a, b);
}

struct reading {
    struct ledger *ledger;
    const struct generation *generation;
};

/* The parts have E as it is, where it belongs in its table. */
static void is_in_parts(const struct generation *g, const struct event *e)
{
    char where[LOCATION_MAX];
    struct found f;

    ALWAYS(generation_before(g, e->table, e->seq + 1, &f) == 1);
    ALWAYS(f.hit.seq == e->seq && f.hit.kind == e->kind && f.hit.flags == e->flags &&
           f.hit.time_us == e->time_us && f.hit.snapshot == e->snapshot);
    int len = generation_location(g, &f, where, sizeof where, NULL);
    ALWAYS(len >= 0 && bytes_equal((struct bytes){ where, (size_t)len }, e->text));
    if (e->flags & EVENT_INTRODUCES)
        ALWAYS(generation_search(g, e->table, e->snapshot, SEQ_MAX, &f) == 1 && f.hit.seq <= e->seq);
}

static int take_row(void *arg, const struct event *e, uint64_t chain)
{
    const struct reading *r = arg;

    (void)chain;
    if (e->kind == EVENT_COMMIT || e->kind == EVENT_COMPACT)
        is_in_parts(r->generation, e);
    return ledger_apply(r->ledger, (struct event *)e, true, NULL);
}

void server_is_as_from_log(struct server *s)
{
    struct commitlog_cursor cursor = commitlog_start(commitlog_meta(s->log));
    struct errmsg why = { "" };
    struct reading r = { ledger_new(&s->ledger->log, s->ledger->seed), indexer_generation(s->indexer) };

    ck_assert_ptr_nonnull(r.ledger);
    ALWAYS(r.generation->covered == s->ledger->seq);
    int error = commitlog_read(s->log, &cursor, SIZE_MAX, SIZE_MAX, take_row, &r, &why);
    ck_assert_msg(error == 0, "%s", why.text);
    ledger_count_snapshots(r.ledger, r.generation);
    ledgers_are_same(s->ledger, r.ledger);
    ledger_free(r.ledger);
}
