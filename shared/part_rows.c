/*
 * Building a part from commits: group them by table, choose templates, encode, mix the keys and sort them.
 *
 * Nothing compares rows with each other: all sorting is by radix, in linear time.  Events are read in order of their
 * sequence, as they came into memory; only what was encoded is read in order of keys.
 */
#include "part_plan.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* What is kept of a row between planning and filling; 40 bytes. */
struct kept_row {
    int64_t time_us;
    uint32_t table; /* index */
    uint32_t word;
    uint32_t seq;
    uint32_t ref; /* once it has one */
    uint8_t tail[16];
};

struct rows {
    const struct event *const *events;
    size_t count;
    struct kept_row *kept;
    uint32_t *by_table;    /* events by table, then by seq */
    uint32_t *table_index; /* by number - first_number; NULL when numbers are spread too widely */
    uint32_t first_number;
};

static const struct rows *rows_of(const struct part_plan *plan)
{
    return plan->state;
}

/* ---- as a source ----------------------------------------------------------------------------------------- */

static int rows_row(struct part_plan *plan, uint64_t src, bool whole, struct plan_row *ret)
{
    const struct kept_row *kept = &rows_of(plan)->kept[src];
    ret->table = kept->table;
    ret->word = kept->word;
    ret->seq = kept->seq;
    ret->time_us = kept->time_us;
    memcpy(ret->tail, kept->tail, sizeof ret->tail);
    if (whole) {
        ret->snapshot = rows_of(plan)->events[src]->snapshot;
        ret->text = rows_of(plan)->events[src]->text;
    }
    return 0;
}

static void rows_prefetch(const struct part_plan *plan, uint64_t src)
{
    __builtin_prefetch(&rows_of(plan)->kept[src], 1);
}

static int rows_order(struct part_plan *plan, uint32_t index, uint32_t *order, int64_t *times,
                      uint32_t *heads, uint32_t *newest)
{
    const struct rows *rows = rows_of(plan);
    const struct plan_table *t = &plan->tables[index];
    const uint32_t *by_table = rows->by_table + t->order_first;
    uint32_t moved = 0;
    for (uint32_t i = 0; i < t->order_count; i++) {
        const struct kept_row *kept = &rows->kept[by_table[i]];
        if (i + PLAN_PREFETCH < t->order_count)
            rows_prefetch(plan, by_table[i + PLAN_PREFETCH]);
        order[i] = kept->ref;
        if (kept->word & PART_MOVES_HEAD) {
            times[moved] = kept->time_us;
            heads[moved++] = *newest = order[i];
        }
    }
    assert(moved == t->heads_count);
    return 0;
}

static int rows_sample(struct part_plan *plan, uint64_t i, uint64_t n, int64_t *ret)
{
    const struct rows *rows = rows_of(plan);
    if (rows->count == 0)
        return 0;
    *ret = rows->kept[i * rows->count / n].time_us;
    return 1;
}

static void rows_free(struct part_plan *plan)
{
    struct rows *rows = plan->state;
    if (!rows)
        return;
    free(rows->kept);
    free(rows->by_table);
    free(rows->table_index);
    free(rows);
}

static const struct plan_source rows_source = {
    .row = rows_row, .order = rows_order, .sample = rows_sample, .prefetch = rows_prefetch, .free = rows_free
};

/* ---- tables ---------------------------------------------------------------------------------------------- */

/* Sort the events by table; items and scratch are free for it. */
static void group_by_table(struct part_plan *plan, struct rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        plan->items[i] = (struct plan_item){ .key = rows->events[i]->table, .src = i };
    plan_sort(plan->items, rows->count, plan->scratch);
    for (size_t i = 0; i < rows->count; i++) {
        plan->table_count += i == 0 || plan->items[i].key != plan->items[i - 1].key;
        rows->by_table[i] = (uint32_t)plan->items[i].src;
    }
}

static int make_tables(struct part_plan *plan, const struct rows *rows)
{
    struct plan_table *t = NULL;
    plan->tables = plan_alloc(plan->table_count, sizeof *plan->tables);
    if (!plan->tables)
        return -ENOMEM;
    for (size_t i = 0; i < rows->count; i++) {
        if (i == 0 || plan->items[i].key != plan->items[i - 1].key) {
            t = t ? t + 1 : plan->tables;
            t->number = (uint32_t)plan->items[i].key;
            t->order_first = (uint32_t)i;
        }
        t->order_count++;
    }
    return 0;
}

/* Numbers that aren't spread too widely get a list of indices, as every row asks for its table's. */
static int index_tables(const struct part_plan *plan, struct rows *rows)
{
    if (plan->table_count == 0)
        return 0;
    rows->first_number = plan->tables[0].number;
    uint64_t numbers = plan->tables[plan->table_count - 1].number - rows->first_number + 1ull;
    if (numbers > rows->count * 4ull)
        return 0;
    rows->table_index = plan_alloc(numbers, sizeof *rows->table_index);
    if (!rows->table_index)
        return -ENOMEM;
    for (size_t i = 0; i < plan->table_count; i++)
        rows->table_index[plan->tables[i].number - rows->first_number] = (uint32_t)i;
    return 0;
}

static int compare_numbers(const void *number, const void *table)
{
    uint32_t a = *(const uint32_t *)number;
    uint32_t b = ((const struct plan_table *)table)->number;
    return (a > b) - (a < b);
}

static uint32_t table_index(const struct part_plan *plan, uint32_t number)
{
    const struct rows *rows = rows_of(plan);
    if (rows->table_index)
        return rows->table_index[number - rows->first_number];
    const struct plan_table *t =
        bsearch(&number, plan->tables, plan->table_count, sizeof *plan->tables, compare_numbers);
    return (uint32_t)(t - plan->tables);
}

/* ---- templates: the most common look of some rows of the table, the newest of equally common ones -------- */

#define TEMPLATE_SAMPLES 8

struct candidate {
    struct template template;
    unsigned votes;
};

static void vote(struct candidate *candidates, size_t *count, struct template t)
{
    size_t i = 0;
    while (i < *count && !template_join(&candidates[i].template, &t))
        i++;
    if (i == *count)
        candidates[(*count)++] = (struct candidate){ .template = t };
    candidates[i].votes++;
}

static struct template choose_template(const struct rows *rows, const struct plan_table *t)
{
    struct candidate candidates[TEMPLATE_SAMPLES];
    size_t count = 0;
    uint32_t samples = t->order_count < TEMPLATE_SAMPLES ? t->order_count : TEMPLATE_SAMPLES;
    for (uint32_t i = 0; i < samples; i++) {
        /* From the newest to the very oldest, whose number shows the padding. */
        uint32_t back = samples > 1 ? (uint32_t)((uint64_t)i * (t->order_count - 1) / (samples - 1)) : 0;
        uint32_t src = rows->by_table[t->order_first + t->order_count - 1 - back];
        vote(candidates, &count, template_of(rows->events[src]->text));
    }
    size_t best = 0;
    for (size_t i = 1; i < count; i++) {
        if (candidates[i].votes > candidates[best].votes)
            best = i;
    }
    return candidates[best].template;
}

static void choose_templates(struct part_plan *plan, const struct rows *rows)
{
    for (size_t i = 0; i < plan->table_count; i++)
        plan->tables[i].template = choose_template(rows, &plan->tables[i]);
}

/* ---- rows ------------------------------------------------------------------------------------------------ */

static bool is_indexed(const struct event *e)
{
    return e->flags & EVENT_INTRODUCES && e->flags & EVENT_HAS_SNAPSHOT;
}

static void check_event(const struct part_plan *plan, const struct rows *rows, size_t i)
{
    const struct event *e = rows->events[i];
    assert(e->kind == EVENT_COMMIT || e->kind == EVENT_COMPACT);
    assert(e->seq > plan->info.from_seq && e->seq <= plan->info.to_seq);
    assert(i == 0 || rows->events[i - 1]->seq < e->seq);
    assert(e->text.len <= LOCATION_MAX);
    (void)plan, (void)rows, (void)e;
}

static uint32_t word_of(const struct event *e)
{
    uint32_t flags = e->flags & (EVENT_INTRODUCES | EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT);
    return flags << PART_NUMBER_BITS | (e->kind == EVENT_COMPACT ? PART_COMPACT : 0);
}

static void note_time(struct part_header *h, bool first, int64_t time_us)
{
    if (first || time_us < h->time_min)
        h->time_min = time_us;
    if (first || time_us > h->time_max)
        h->time_max = time_us;
}

static void keep_row(struct part_plan *plan, struct rows *rows, size_t src)
{
    const struct event *e = rows->events[src];
    struct kept_row *kept = &rows->kept[src];
    struct plan_row row = { .table = table_index(plan, e->table), .word = word_of(e) };
    plan_encode(plan, e->text, &row);
    note_time(&plan->header, src == 0, e->time_us);
    plan->may_escape |= (row.word & PART_ESCAPE) != 0;
    plan->tables[row.table].heads_count += (e->flags & EVENT_MOVES_HEAD) != 0;
    kept->table = row.table;
    kept->word = row.word;
    kept->seq = (uint32_t)(e->seq - plan->info.from_seq);
    kept->time_us = e->time_us;
    memcpy(kept->tail, row.tail, sizeof kept->tail);
}

/* Encode every row; those with an id become items, the rest extras. */
static int keep_rows(struct part_plan *plan, struct rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct event *e = rows->events[i];
        check_event(plan, rows, i);
        keep_row(plan, rows, i);
        if (is_indexed(e)) {
            uint64_t key = (uint64_t)key_of(e->table, e->snapshot, plan->info.seed) ^ MIX_SIGN;
            plan->items[plan->item_count++] = (struct plan_item){ .key = key, .src = i };
        } else if (plan_add_extra(plan, rows->kept[i].seq, i) < 0) {
            return -ENOMEM;
        }
    }
    return 0;
}

/* ---- equal keys: the same id again, or another table by chance ------------------------------------------- */

/* Put a run of equal keys in order of their table, then of sequence, in which it is. */
static void sort_run(struct part_plan *plan, const struct rows *rows, struct plan_item *run, size_t n)
{
    uint64_t key = run->key;
    for (size_t i = 0; i < n; i++)
        run[i].key = rows->kept[run[i].src].table;
    plan_sort(run, n, plan->scratch);
    for (size_t i = 0; i < n; i++)
        run[i].key = key;
}

/* Keep the first row of each table in a run of equal keys; the others are history only. */
static int keep_first(struct part_plan *plan, const struct rows *rows, const struct plan_item *run, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct kept_row *kept = &rows->kept[run[i].src];
        if (i > 0 && kept->table == rows->kept[run[i - 1].src].table) {
            if (plan_add_extra(plan, kept->seq, run[i].src) < 0)
                return -ENOMEM;
        } else {
            plan->items[plan->item_count++] = run[i];
        }
    }
    return 0;
}

static int drop_repeats(struct part_plan *plan, const struct rows *rows)
{
    size_t count = plan->item_count;
    plan->item_count = 0;
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && plan->items[end].key == plan->items[i].key)
            end++;
        if (end - i > 1)
            sort_run(plan, rows, &plan->items[i], end - i);
        if (keep_first(plan, rows, &plan->items[i], end - i) < 0)
            return -ENOMEM;
        i = end;
    }
    return 0;
}

static int sort_extras(struct part_plan *plan)
{
    struct plan_item *scratch = plan_alloc(plan->extra_count, sizeof *scratch);
    if (!scratch)
        return -ENOMEM;
    plan_sort(plan->extras, plan->extra_count, scratch);
    free(scratch);
    return 0;
}

/* ---- the plan -------------------------------------------------------------------------------------------- */

static int make_room(struct part_plan *plan, size_t n)
{
    static const uint64_t first_ref[1] = { 0 };
    struct rows *rows = calloc(1, sizeof *rows);
    plan->state = rows;
    if (!rows)
        return -ENOMEM;
    rows->count = n;
    rows->kept = plan_alloc_room(n, sizeof *rows->kept);
    rows->by_table = plan_alloc_room(n, sizeof *rows->by_table);
    plan->items = plan_alloc_room(n, sizeof *plan->items);
    plan->scratch = plan_alloc_room(n, sizeof *plan->scratch);
    if (!rows->kept || !rows->by_table || !plan->items || !plan->scratch)
        return -ENOMEM;
    plan->refs = (char *)rows->kept + offsetof(struct kept_row, ref);
    plan->ref_stride = sizeof *rows->kept;
    plan->first_ref = first_ref;
    return 0;
}

static int plan_events(struct part_plan *plan, const struct event *const *events, size_t n)
{
    int r = make_room(plan, n);
    if (r < 0)
        return r;
    struct rows *rows = plan->state;
    rows->events = events;
    group_by_table(plan, rows);
    r = make_tables(plan, rows);
    if (r < 0)
        return r;
    r = index_tables(plan, rows);
    if (r < 0)
        return r;
    choose_templates(plan, rows);
    r = keep_rows(plan, rows);
    if (r < 0)
        return r;
    plan_sort(plan->items, plan->item_count, plan->scratch);
    r = drop_repeats(plan, rows);
    if (r < 0)
        return r;
    r = sort_extras(plan);
    return r < 0 ? r : plan_layout(plan);
}

int part_plan_rows(struct part_plan **ret, const struct part_info *info, const struct event *const *events,
                   size_t n)
{
    struct part_plan *plan;
    int r = plan_new(&plan, info, &rows_source, n);
    if (r < 0)
        return r;
    r = plan_events(plan, events, n);
    if (r < 0) {
        part_plan_free(plan);
        return r;
    }
    *ret = plan;
    return 0;
}
