#include "rootmaker.h"

#include "failpoint.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct rootjob *rootjob_new(const struct ledger *l, struct publisher *publisher, struct generation *made,
                            struct generation *known, const struct event *pending, size_t count)
{
    struct rootjob *j = calloc(1, sizeof *j);
    if (!j)
        return NULL;
    *j = (struct rootjob){ .ledger = l,
                           .publisher = publisher,
                           .pending = pending,
                           .pending_count = count,
                           .tables_count = l->tables_count,
                           .names_count = l->names_count };
    j->tables = malloc((j->tables_count + count + 1) * sizeof *j->tables);
    j->names = malloc((j->names_count + count + 1) * sizeof *j->names);
    j->bases = calloc(j->tables_count + count + 1, sizeof *j->bases);
    if (!j->tables || !j->names || !j->bases) {
        rootjob_free(j);
        return NULL;
    }
    j->made = made;
    j->made->names_seq = l->seq + count;
    j->known = known ? generation_ref(known) : NULL;
    return j;
}

void rootjob_free(struct rootjob *j)
{
    if (!j)
        return;
    generation_unref(j->made);
    generation_unref(j->known);
    free(j->tables);
    free(j->names);
    free(j->bases);
    free(j);
}

/* ---- on the loop ----------------------------------------------------------------------------------------------------- */

/* The newest event that the ledger knows for it. */
static uint64_t moment(const struct rootjob *j)
{
    return j->made->names_seq - j->pending_count;
}

/* What ends at TO, as of AT. */
static uint64_t end_as_of(uint64_t to, uint64_t at)
{
    return to > at ? SEQ_MAX : to;
}

static void capture_table(const struct rootjob *j, size_t i)
{
    const struct table *t = j->ledger->tables[i];
    struct root_table *row = &j->tables[i];
    uint32_t number;

    *row = (struct root_table){ .created_seq = t->created_seq,
                                .dropped_seq = end_as_of(t->dropped_seq, moment(j)),
                                .kind = t->kind,
                                .head_seq = t->head.seq };
    row->watermark = table_watermark(t, moment(j), &row->retired_by);
    const struct retirement *base = table_base(t, j->made->covered, &number);
    if (base)
        j->bases[i] = (struct rootjob_base){ base->seq, base->watermark };
}

/* The bytes of a name stay where they are as long as the ledger. */
static void capture_name(const struct rootjob *j, size_t i)
{
    const struct name_row *n = &j->ledger->names[i];

    j->names[i] = (struct root_name_row){ n->name, n->from_seq, end_as_of(n->to_seq, moment(j)), n->table };
}

size_t rootjob_capture(struct rootjob *j, size_t max)
{
    size_t n = 0;

    for (; n < max && j->tables_done < j->tables_count; n++)
        capture_table(j, j->tables_done++);
    for (; n < max && j->names_done < j->names_count; n++)
        capture_name(j, j->names_done++);
    return n;
}

/* ---- events that are not applied yet ------------------------------------------------------------------------------- */

/* NEWEST: of each table the row of its newest name. */
static void end_name(struct rootjob *j, const uint32_t *newest, const struct event *e)
{
    j->names[newest[e->table - 1]].to_seq = e->seq;
}

static void begin_name(struct rootjob *j, uint32_t *newest, const struct event *e)
{
    newest[e->table - 1] = (uint32_t)j->names_count;
    j->names[j->names_count++] = (struct root_name_row){ e->text, e->seq, SEQ_MAX, e->table };
}

static void add_event(struct rootjob *j, uint32_t *newest, const struct event *e)
{
    struct root_table *row = &j->tables[e->table - 1];

    switch (e->kind) {
    case EVENT_CREATE:
        assert(e->table == j->tables_count + 1);
        *row = (struct root_table){ .created_seq = e->seq,
                                    .dropped_seq = SEQ_MAX,
                                    .kind = e->flags & EVENT_STORED ? TABLE_STORED : TABLE_EXTERNAL };
        j->tables_count++;
        begin_name(j, newest, e);
        break;
    case EVENT_RENAME:
        end_name(j, newest, e);
        begin_name(j, newest, e);
        break;
    case EVENT_DROP:
        end_name(j, newest, e);
        row->dropped_seq = e->seq;
        break;
    case EVENT_COMPACT:
    case EVENT_EXPIRE:
        row->watermark = e->watermark;
        row->retired_by = e->seq;
        break;
    default: /* a commit: parts don't have it yet */
        break;
    }
}

static int add_pending(struct rootjob *j)
{
    if (!j->pending_count)
        return 0;
    uint32_t *newest = calloc(j->tables_count + j->pending_count, sizeof *newest);
    if (!newest)
        return -ENOMEM;
    for (size_t i = 0; i < j->names_count; i++) /* rows stand in the order of their events */
        newest[j->names[i].table - 1] = (uint32_t)i;
    for (size_t i = 0; i < j->pending_count; i++)
        add_event(j, newest, &j->pending[i]);
    free(newest);
    return 0;
}

/* ---- heads -------------------------------------------------------------------------------------------------------------- */

/* The head of table NUMBER as KNOWN has it, if it is WANT and its part is one of G's. */
static bool head_is_known(const struct rootjob *j, uint32_t number, uint64_t want, struct root_table *row)
{
    const struct generation *g = j->made, *known = j->known;
    struct root_table old;

    if (!known || root_get_table(known->root, number, &old) != 1 || old.head_seq != want ||
        old.head_part >= known->parts_count)
        return false;
    for (size_t i = 0; i < g->parts_count; i++)
        if (g->parts[i] == known->parts[old.head_part]) {
            row->head_seq = want;
            row->head_part = (uint32_t)i;
            row->head_ref = old.head_ref;
            return true;
        }
    return false;
}

/* A commit in the parts of a generation. */
struct place {
    uint32_t part;
    struct part_hit hit;
};

/* The newest commit of table NUMBER up to AT that moved the head, in order of sequence. */
static bool newest_mover(const struct generation *g, uint32_t number, uint64_t at, struct place *ret)
{
    for (size_t i = g->parts_count; i-- > 0;)
        if (part_head(g->parts[i]->part, number, at, &ret->hit) == 1) {
            ret->part = (uint32_t)i;
            return true;
        }
    return false;
}

/* The head of table NUMBER as of what is covered.  Commits that a compaction carried over come after it in the table, though
 * before it in the log. */
static bool find_head(const struct rootjob *j, uint32_t number, struct place *ret)
{
    const struct rootjob_base *base = &j->bases[number - 1];
    struct place carried;

    if (!newest_mover(j->made, number, j->made->covered, ret))
        return false;
    if (ret->hit.kind == EVENT_COMPACT && base->seq == ret->hit.seq &&
        newest_mover(j->made, number, base->seq - 1, &carried) && carried.hit.seq > base->watermark)
        *ret = carried;
    return true;
}

/* Where the newest head up to what is covered is, in the parts. */
static void locate_head(const struct rootjob *j, uint32_t number, struct root_table *row)
{
    const struct generation *g = j->made;
    uint64_t newest = row->head_seq;
    struct place head;

    row->head_part = row->head_ref = 0;
    row->head_seq = 0;
    if (!newest || (newest <= g->covered && head_is_known(j, number, newest, row)) ||
        !find_head(j, number, &head))
        return;
    row->head_seq = head.hit.seq;
    row->head_part = head.part;
    row->head_ref = head.hit.ref;
}

/* ---- the file ------------------------------------------------------------------------------------------------------------ */

static int fill_root(void *arg, void *buf, size_t size)
{
    return root_fill(arg, buf, size);
}

static int write_root(struct rootjob *j)
{
    struct generation *g = j->made;
    struct root_part parts[GENERATION_PARTS_MAX];

    for (size_t i = 0; i < g->parts_count; i++) {
        const struct seg_header *h = &part_header(g->parts[i]->part)->seg;
        parts[i] =
            (struct root_part){ g->parts[i]->generation, h->from_seq,     h->to_seq,
                                g->parts[i]->size,       h->header_check, part_rows(g->parts[i]->part) };
    }
    struct root_input in = { .log = j->ledger->log, /* which never changes */
                             .seed = j->ledger->seed,
                             .epoch = g->epoch,
                             .generation = g->number,
                             .covered = g->covered,
                             .names_seq = g->names_seq,
                             .parts = parts,
                             .parts_count = g->parts_count,
                             .tables = j->tables,
                             .tables_count = j->tables_count,
                             .names = j->names,
                             .names_count = j->names_count };
    int r = publisher_write(j->publisher, SHM_ROOT, g->number, root_size(&in), fill_root, &in, &g->root_map,
                            &j->msg);
    return r < 0 ? r : root_open(&g->root, g->root_map.base, g->root_map.size, 0, &j->msg);
}

void rootjob_make(struct rootjob *j)
{
    assert(j->tables_done == j->tables_count && j->names_done == j->names_count);
    j->error = FAILPOINT("root.begin");
    if (j->error == 0)
        j->error = add_pending(j);
    if (j->error < 0) {
        fail(&j->msg, j->error, "making a root: %s", error_text(j->error));
        return;
    }
    for (size_t i = 0; i < j->tables_count; i++)
        locate_head(j, (uint32_t)i + 1, &j->tables[i]);
    j->error = write_root(j);
}
