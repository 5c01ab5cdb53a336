/*
 * Building a part by merging others that follow each other in sequence.
 *
 * Their blocks are read front to back, all at once, always taking the lowest key: no sort.  A row whose table keeps
 * its template is copied as it stands; others are rendered by the old template and encoded by the new one.  The older
 * part wins where a table repeats an id; the younger row becomes an extra.  Nothing in the parts is trusted: what would
 * break the order or lead outside makes the merge fail.
 */
#include "part_plan.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct input {
    const struct part *part;
    uint64_t slots;      /* of its blocks: extras are numbered behind */
    uint32_t *table;     /* of each of its tables: the index in the plan */
    bool *same_template; /* ... and does the plan have the same template? */
    uint64_t next_table; /* while tables are merged */
};

struct merge {
    struct input *inputs;
    size_t count;
    uint64_t *first_ref;
    uint64_t places;             /* of all inputs */
    uint32_t *refs;              /* of the row at each place; PART_NO_REF until it has one */
    char rendered[LOCATION_MAX]; /* the text of the row that was read last */
};

static struct merge *merge_of(const struct part_plan *plan)
{
    return plan->state;
}

static uint64_t src_of(size_t input, uint64_t place)
{
    return (uint64_t)input << 32 | place;
}

/* ---- as a source ----------------------------------------------------------------------------------------- */

/* Read the row at PLACE of an input and find its table.  0 or damaged. */
static int read_row(const struct input *in, uint64_t place, struct record *ret, uint32_t *table)
{
    uint32_t ref = (uint32_t)(place < in->slots ? place : PART_EXTRA | (place - in->slots));
    if (!part_record_at(in->part, ref, ret))
        return SKADE_EDAMAGED;
    uint32_t index = part_table_index(in->part, ret->table);
    if (index == PART_NO_TABLE || in->part->tables[index].number != ret->table)
        return SKADE_EDAMAGED;
    *table = index;
    return 0;
}

/* The location of a row: where it stands in the input's heap, or rendered. */
static int read_text(struct merge *m, const struct input *in, const struct record *record, uint32_t table,
                     struct bytes *ret)
{
    size_t len;
    int r = part_record_location(in->part, record, table, m->rendered, sizeof m->rendered, &len,
                                 in->part->kernel->render);
    if (r < 0)
        return SKADE_EDAMAGED;
    *ret = (struct bytes){ m->rendered, len };
    return 0;
}

static int merge_row(struct part_plan *plan, uint64_t src, bool whole, struct plan_row *ret)
{
    struct merge *m = merge_of(plan);
    const struct input *in = &m->inputs[src >> 32];
    struct record record;
    uint32_t table;
    int r = read_row(in, (uint32_t)src, &record, &table);
    if (r < 0)
        return r;
    ret->table = in->table[table];
    ret->word = record.word;
    ret->seq = (uint32_t)(in->part->header.seg.from_seq + record.seq - plan->info.from_seq);
    ret->time_us = record.time_us;
    ret->snapshot = record.snapshot;
    memcpy(ret->tail, record.tail, sizeof ret->tail);
    bool as_it_stands = in->same_template[table] && !(record.word & PART_ESCAPE);
    if (as_it_stands && !whole)
        return 0;
    r = read_text(m, in, &record, table, &ret->text);
    if (r == 0 && !as_it_stands)
        plan_encode(plan, ret->text, ret);
    return r;
}

/* Append the refs of ORDER[COUNT] of an input, as they are in the plan. */
static int append_refs(struct part_plan *plan, size_t input, const uint32_t *order, uint32_t count,
                       uint32_t *ret)
{
    const struct input *in = &merge_of(plan)->inputs[input];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t ref = order[i];
        uint64_t place = ref & PART_EXTRA ? in->slots + (ref & ~PART_EXTRA) : ref;
        if (ref & PART_EXTRA ? place - in->slots >= in->part->header.extras.count : place >= in->slots)
            return SKADE_EDAMAGED;
        ret[i] = *plan_ref(plan, src_of(input, place));
        if (ret[i] == PART_NO_REF)
            return SKADE_EDAMAGED;
    }
    return 0;
}

static int merge_order(struct part_plan *plan, uint32_t index, uint32_t *order, int64_t *times,
                       uint32_t *heads, uint32_t *newest)
{
    const struct merge *m = merge_of(plan);
    for (size_t i = 0; i < m->count; i++) {
        const struct part *p = m->inputs[i].part;
        struct part_table t;
        int r = part_table_load(p, plan->tables[index].number, &t);
        if (r == 0)
            continue;
        if (r > 0)
            r = append_refs(plan, i, p->order + t.order_first, t.order_count, order);
        if (r == 0)
            r = append_refs(plan, i, p->heads + t.heads_first, t.heads_count, heads);
        if (r == 0 && t.heads_count)
            r = append_refs(plan, i, &t.head, 1, newest);
        if (r < 0)
            return r;
        memcpy(times, p->times + t.heads_first, t.heads_count * sizeof *times);
        order += t.order_count;
        heads += t.heads_count;
        times += t.heads_count;
    }
    return 0;
}

/* Sample by part in proportion to its heads. */
static int merge_sample(struct part_plan *plan, uint64_t i, uint64_t n, int64_t *ret)
{
    const struct merge *m = merge_of(plan);
    uint64_t all = 0;
    for (size_t k = 0; k < m->count; k++)
        all += m->inputs[k].part->header.times.count;
    uint64_t at = i * all / n;
    for (size_t k = 0; k < m->count; k++) {
        const struct part *p = m->inputs[k].part;
        if (at < p->header.times.count) {
            *ret = p->times[at];
            return 1;
        }
        at -= p->header.times.count;
    }
    return 0;
}

static void merge_free(struct part_plan *plan)
{
    struct merge *m = plan->state;
    if (!m)
        return;
    for (size_t i = 0; m->inputs && i < m->count; i++) {
        free(m->inputs[i].table);
        free(m->inputs[i].same_template);
    }
    free(m->inputs);
    free(m->first_ref);
    free(m->refs);
    free(m);
}

static const struct plan_source merge_source = {
    .row = merge_row, .order = merge_order, .sample = merge_sample, .free = merge_free
};

/* ---- tables: the union, each with the template that most of its rows had --------------------------------- */

/* The lowest table number that an input has next.  false: all are through. */
static bool next_number(const struct merge *m, uint32_t *ret)
{
    bool found = false;
    for (size_t i = 0; i < m->count; i++) {
        const struct input *in = &m->inputs[i];
        if (in->next_table == in->part->header.tables.count)
            continue;
        uint32_t number = in->part->tables[in->next_table].number;
        if (!found || number < *ret)
            *ret = number;
        found = true;
    }
    return found;
}

static bool has_next(const struct input *in, uint32_t number)
{
    return in->next_table < in->part->header.tables.count &&
           in->part->tables[in->next_table].number == number;
}

/* Of equally common templates the newest wins.  The votes are cast again for every candidate: parts are few. */
static int choose_template(const struct merge *m, uint32_t number, struct template *ret)
{
    uint64_t most = 0;
    for (size_t i = m->count; i-- > 0;) {
        struct template candidate;
        uint64_t votes = 0;
        if (!has_next(&m->inputs[i], number))
            continue;
        if (!part_template(m->inputs[i].part, m->inputs[i].next_table, number, &candidate))
            return SKADE_EDAMAGED;
        for (size_t k = 0; k < m->count; k++) {
            struct template other;
            const struct input *in = &m->inputs[k];
            if (has_next(in, number) && part_template(in->part, in->next_table, number, &other) &&
                template_join(&candidate, &other))
                votes += in->part->tables[in->next_table].order_count;
        }
        if (votes > most)
            *ret = candidate;
        most = votes > most ? votes : most;
    }
    return 0;
}

/* Make table INDEX of the plan out of the inputs' next tables that have its number. */
static int join_table(struct part_plan *plan, uint32_t index, uint64_t *rows)
{
    const struct merge *m = merge_of(plan);
    struct plan_table *t = &plan->tables[index];
    int r = choose_template(m, t->number, &t->template);
    if (r < 0)
        return r;
    for (size_t i = 0; i < m->count; i++) {
        struct input *in = &m->inputs[i];
        struct part_table old;
        struct template template;
        if (!has_next(in, t->number))
            continue;
        if (part_table_load(in->part, t->number, &old) != 1 || old.order_count == 0 ||
            old.heads_count > old.order_count || *rows + old.order_count > plan->header.rows)
            return SKADE_EDAMAGED;
        *rows += old.order_count;
        t->order_count += old.order_count;
        t->heads_count += old.heads_count;
        in->table[in->next_table] = index;
        in->same_template[in->next_table] = part_template(in->part, in->next_table, t->number, &template) &&
                                            template_equal(&template, &t->template);
        plan->may_escape |= !in->same_template[in->next_table];
        in->next_table++;
    }
    return 0;
}

static int count_tables(const struct merge *m, size_t *ret)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct part *p = m->inputs[i].part;
        for (uint64_t k = 1; k < p->header.tables.count; k++) {
            if (p->tables[k - 1].number >= p->tables[k].number)
                return SKADE_EDAMAGED;
        }
        *ret += p->header.tables.count;
    }
    return 0;
}

static int join_tables(struct part_plan *plan)
{
    const struct merge *m = merge_of(plan);
    size_t most = 0;
    uint64_t rows = 0;
    uint32_t number = 0;
    int r = count_tables(m, &most);
    if (r < 0)
        return r;
    plan->tables = plan_alloc(most, sizeof *plan->tables);
    if (!plan->tables)
        return -ENOMEM;
    while (next_number(m, &number)) {
        plan->tables[plan->table_count].number = number;
        r = join_table(plan, (uint32_t)plan->table_count++, &rows);
        if (r < 0)
            return r;
    }
    return rows == plan->header.rows ? 0 : SKADE_EDAMAGED;
}

/* ---- rows ------------------------------------------------------------------------------------------------ */

/* Where the merge stands in the blocks of one input. */
struct cursor {
    const struct part *part;
    uint64_t place; /* slot of all blocks */
    uint64_t slots;
    uint64_t key;
    uint32_t table;
};

/* Move to the used slot at or behind the place.  false: there is none. */
static bool settle(struct cursor *c)
{
    for (; c->place < c->slots; c->place++) {
        const struct part_block *block = &c->part->blocks[c->place / PART_SLOTS];
        unsigned slot = c->place % PART_SLOTS;
        if (block->marks & 1u << slot) {
            c->key = (uint64_t)block->key[slot] ^ MIX_SIGN;
            c->table = load_u32(block->row[slot].table);
            return true;
        }
    }
    return false;
}

/* The cursor with the lowest (key, table); the oldest of equals.  -1: all are at their end. */
static int lowest(const struct cursor *cursors, size_t count)
{
    int best = -1;
    for (size_t i = 0; i < count; i++) {
        const struct cursor *c = &cursors[i];
        if (c->place < c->slots && (best < 0 || c->key < cursors[best].key ||
                                    (c->key == cursors[best].key && c->table < cursors[best].table)))
            best = (int)i;
    }
    return best;
}

static int demote(struct part_plan *plan, uint64_t src)
{
    struct plan_row row;
    int r = merge_row(plan, src, false, &row);
    return r < 0 ? r : plan_add_extra(plan, row.seq, src);
}

/* Take the row of a cursor: as an item, or as an extra when the table has the id already. */
static int take(struct part_plan *plan, const struct cursor *c, size_t input, uint32_t *last_table)
{
    uint64_t src = src_of(input, c->place);
    uint64_t last_key = plan->item_count ? plan->items[plan->item_count - 1].key : 0;
    bool again = plan->item_count > 0 && c->key == last_key;
    if (plan->item_count == plan->header.rows || c->key < last_key || (again && c->table < *last_table))
        return SKADE_EDAMAGED;
    if (again && c->table == *last_table)
        return demote(plan, src);
    plan->items[plan->item_count++] = (struct plan_item){ .key = c->key, .src = src };
    *last_table = c->table;
    return 0;
}

static int merge_blocks(struct part_plan *plan, struct cursor *cursors)
{
    const struct merge *m = merge_of(plan);
    uint32_t last_table = 0;
    for (size_t i = 0; i < m->count; i++) {
        cursors[i] = (struct cursor){ .part = m->inputs[i].part, .slots = m->inputs[i].slots };
        settle(&cursors[i]);
    }
    for (int i = lowest(cursors, m->count); i >= 0; i = lowest(cursors, m->count)) {
        int r = take(plan, &cursors[i], (size_t)i, &last_table);
        if (r < 0)
            return r;
        cursors[i].place++;
        settle(&cursors[i]);
    }
    return 0;
}

/* The extras of the inputs, and the rows that became extras now, by sequence. */
static int merge_extras(struct part_plan *plan)
{
    const struct merge *m = merge_of(plan);
    for (size_t i = 0; i < m->count; i++) {
        const struct input *in = &m->inputs[i];
        for (uint64_t k = 0; k < in->part->header.extras.count; k++) {
            int r = demote(plan, src_of(i, in->slots + k));
            if (r < 0)
                return r;
        }
    }
    struct plan_item *scratch = plan_alloc(plan->extra_count, sizeof *scratch);
    if (!scratch)
        return -ENOMEM;
    plan_sort(plan->extras, plan->extra_count, scratch);
    free(scratch);
    return plan->item_count + plan->extra_count == plan->header.rows ? 0 : SKADE_EDAMAGED;
}

static int merge_rows(struct part_plan *plan)
{
    plan->items = plan_alloc_room(plan->header.rows, sizeof *plan->items);
    struct cursor *cursors = plan_alloc(merge_of(plan)->count, sizeof *cursors);
    int r = plan->items && cursors ? merge_blocks(plan, cursors) : -ENOMEM;
    free(cursors);
    return r < 0 ? r : merge_extras(plan);
}

/* ---- the plan -------------------------------------------------------------------------------------------- */

static int add_input(struct merge *m, size_t i, const struct part *part)
{
    struct input *in = &m->inputs[i];
    in->part = part;
    in->slots = part->header.blocks.count * PART_SLOTS;
    in->table = plan_alloc(part->header.tables.count, sizeof *in->table);
    in->same_template = plan_alloc(part->header.tables.count, sizeof *in->same_template);
    m->first_ref[i] = m->places;
    m->places += in->slots + part->header.extras.count;
    return in->table && in->same_template ? 0 : -ENOMEM;
}

static int make_room(struct part_plan *plan, struct part *const *parts, size_t n)
{
    struct merge *m = calloc(1, sizeof *m);
    plan->state = m;
    if (!m)
        return -ENOMEM;
    m->count = n;
    m->inputs = plan_alloc(n, sizeof *m->inputs);
    m->first_ref = plan_alloc(n, sizeof *m->first_ref);
    plan->first_ref = m->first_ref;
    if (!m->inputs || !m->first_ref)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (add_input(m, i, parts[i]) < 0)
            return -ENOMEM;
    }
    m->refs = plan_alloc_room(m->places, sizeof *m->refs);
    if (!m->refs)
        return -ENOMEM;
    memset(m->refs, 0xff, m->places * sizeof *m->refs);
    plan->refs = (char *)m->refs;
    plan->ref_stride = sizeof *m->refs;
    return 0;
}

/* Do the parts belong together, in this order, and into this part? */
static bool parts_follow(const struct part_info *info, struct part *const *parts, size_t n)
{
    uint64_t seq = info->from_seq;
    for (size_t i = 0; i < n; i++) {
        const struct seg_header *seg = &parts[i]->header.seg;
        if (seg->from_seq < seq || seg->seed != info->seed || !uuid_equal(&seg->log, &info->log))
            return false;
        seq = seg->to_seq;
    }
    return seq <= info->to_seq;
}

static void join_times(struct part_header *h, struct part *const *parts, size_t n)
{
    bool first = true;
    for (size_t i = 0; i < n; i++) {
        const struct part_header *old = &parts[i]->header;
        if (old->rows == 0)
            continue;
        h->time_min = first || old->time_min < h->time_min ? old->time_min : h->time_min;
        h->time_max = first || old->time_max > h->time_max ? old->time_max : h->time_max;
        first = false;
    }
}

static int plan_parts(struct part_plan *plan, struct part *const *parts, size_t n)
{
    int r = make_room(plan, parts, n);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++)
        plan->may_escape |= parts[i]->header.heap.count > 0;
    join_times(&plan->header, parts, n);
    r = join_tables(plan);
    if (r < 0)
        return r;
    r = merge_rows(plan);
    return r < 0 ? r : plan_layout(plan);
}

int part_plan_merge(struct part_plan **ret, const struct part_info *info, struct part *const *parts, size_t n)
{
    struct part_plan *plan;
    uint64_t rows = 0;
    if (!parts_follow(info, parts, n))
        return SKADE_EDAMAGED;
    for (size_t i = 0; i < n; i++)
        rows += parts[i]->header.rows;
    int r = plan_new(&plan, info, &merge_source, rows);
    if (r < 0)
        return r;
    r = plan_parts(plan, parts, n);
    if (r < 0) {
        part_plan_free(plan);
        return r;
    }
    *ret = plan;
    return 0;
}
