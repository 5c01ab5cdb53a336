#include "rootmaker.h"

#include <errno.h>
#include <stdlib.h>

/* A commit in the parts of a generation. */
struct place {
    uint32_t part;
    struct part_hit hit;
};

/* T's newest commit up to AT that moved the head, in order of sequence. */
static bool newest_mover(const struct table *t, const struct generation *g, uint64_t at, struct place *ret)
{
    for (size_t i = g->parts_count; i-- > 0;)
        if (part_head(g->parts[i]->part, t->number, at, &ret->hit) == 1) {
            ret->part = (uint32_t)i;
            return true;
        }
    return false;
}

/* T's head as of what G covers.  Commits that a compaction carried over come after it in the table, though before it in the
 * log. */
static bool find_head(const struct table *t, const struct generation *g, struct place *ret)
{
    struct place carried;
    uint32_t number;

    if (!newest_mover(t, g, g->covered, ret))
        return false;
    if (ret->hit.kind != EVENT_COMPACT)
        return true;
    const struct retirement *base = table_base(t, ret->hit.seq, &number);
    if (base && base->seq == ret->hit.seq && newest_mover(t, g, ret->hit.seq - 1, &carried) &&
        carried.hit.seq > base->watermark)
        *ret = carried;
    return true;
}

/* Where T's newest head up to COVERED is, in the parts of G. */
static void locate_head(struct table *t, const struct generation *g, struct root_table *row)
{
    uint64_t want = t->head.seq <= g->covered ? t->head.seq : 0;
    struct place head;

    row->head_part = row->head_ref = 0;
    row->head_seq = 0;
    if (!t->head.seq)
        return;
    /* Usually the head that was looked up last time is in a part that is still there. */
    if (t->indexed_head.seq && t->indexed_head.seq == want)
        for (size_t i = 0; i < g->parts_count; i++)
            if (g->parts[i] == t->indexed_head.part) {
                row->head_seq = want;
                row->head_part = (uint32_t)i;
                row->head_ref = t->indexed_head.ref;
                return;
            }
    if (!find_head(t, g, &head))
        return;
    row->head_seq = head.hit.seq;
    row->head_part = head.part;
    row->head_ref = head.hit.ref;
    t->indexed_head.part = g->parts[head.part];
    t->indexed_head.ref = head.hit.ref;
    t->indexed_head.seq = head.hit.seq;
}

static void table_rows(struct ledger *l, const struct generation *g, struct root_table *rows)
{
    for (size_t i = 0; i < l->tables_count; i++) {
        struct table *t = l->tables[i];
        memset(&rows[i], 0, sizeof rows[i]);
        rows[i].created_seq = t->created_seq;
        rows[i].dropped_seq = t->dropped_seq;
        rows[i].watermark = table_watermark(t, SEQ_MAX, &rows[i].retired_by);
        rows[i].kind = t->kind;
        locate_head(t, g, &rows[i]);
    }
}

static int fill_root(void *arg, void *buf, size_t size)
{
    return root_fill(arg, buf, size);
}

int make_root(struct ledger *l, struct publisher *publisher, struct generation *g, struct errmsg *msg)
{
    struct root_part parts[GENERATION_PARTS_MAX];
    struct root_table *tables = calloc(l->tables_count + 1, sizeof *tables);
    struct root_name_row *names = calloc(l->names_count + 1, sizeof *names);
    int r = tables && names ? 0 : -ENOMEM;

    for (size_t i = 0; i < g->parts_count; i++) {
        const struct seg_header *h = &part_header(g->parts[i]->part)->seg;
        parts[i] =
            (struct root_part){ g->parts[i]->generation, h->from_seq,     h->to_seq,
                                g->parts[i]->size,       h->header_check, part_rows(g->parts[i]->part) };
    }
    if (r == 0) {
        table_rows(l, g, tables);
        for (size_t i = 0; i < l->names_count; i++)
            names[i] = (struct root_name_row){ l->names[i].name, l->names[i].from_seq, l->names[i].to_seq,
                                               l->names[i].table };
        struct root_input in = { .log = l->log,
                                 .seed = l->seed,
                                 .epoch = g->epoch,
                                 .generation = g->number,
                                 .covered = g->covered,
                                 .names_seq = l->seq,
                                 .parts = parts,
                                 .parts_count = g->parts_count,
                                 .tables = tables,
                                 .tables_count = l->tables_count,
                                 .names = names,
                                 .names_count = l->names_count };
        r = publisher_write(publisher, SHM_ROOT, g->number, root_size(&in), fill_root, &in, &g->root_map,
                            msg);
    }
    if (r == 0)
        r = root_open(&g->root, g->root_map.base, g->root_map.size, 0, msg);
    free(tables);
    free(names);
    return r;
}
