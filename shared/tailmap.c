#include "tailmap.h"

#include <errno.h>
#include <stdlib.h>

/* ---- mapping ------------------------------------------------------------------------------------------- */

static bool is_of(const struct tail *t, const struct generation *g, const struct uuid *log)
{
    return t->epoch == g->epoch && t->generation == g->number && t->from_seq == g->covered &&
           t->seed == root_header(g->root)->seg.seed && uuid_equal(&t->log, log);
}

int tail_map_open(struct tail_map **ret, const struct shm_place *place, const struct generation *g,
                  const struct uuid *log, struct errmsg *msg)
{
    char name[SHM_NAME_MAX];
    struct errmsg why = { "" };

    struct tail_map *m = calloc(1, sizeof *m);
    if (!m)
        return fail(msg, -ENOMEM, "no memory for a tail");
    shm_name(name, place, SHM_TAIL, g->epoch, g->number);
    int r = segmap_open(&m->map, place, name, sizeof(struct tail_header), TAIL_BYTES_MAX, msg);
    if (r == 0) {
        r = tail_open(&m->tail, m->map.base, m->map.size, &why);
        if (r == 0 && !is_of(&m->tail, g, log))
            r = fail(&why, SKADE_EDAMAGED, "it is of another log, epoch or generation");
        if (r < 0)
            fail(msg, r, "%s/%s: %s", place->dir, name, why.text);
    }
    if (r < 0) {
        tail_map_close(m);
        return r;
    }
    *ret = m;
    return 0;
}

void tail_map_close(struct tail_map *m)
{
    if (!m)
        return;
    segmap_close(&m->map);
    free(m);
}

int fresh_begin(struct fresh *ret, const struct generation *g, uint64_t at)
{
    const struct tail *t = &g->tail->tail;

    int64_t count = tail_count(t); /* T3 */
    if (count < 0)
        return (int)count;
    *ret = (struct fresh){ .g = g,
                           .t = t,
                           .n = tail_limit(t, (uint32_t)count, at),
                           .at = at,
                           .covered = t->from_seq + (uint64_t)count };
    return 0;
}

/* ---- rules for tables ---------------------------------------------------------------------------------- */

/* Is TABLE there?  1 and what the root knows of it, which is nothing when it is in the tail only; 0; SKADE_EDAMAGED. */
static int table_of(const struct fresh *f, uint32_t table, struct root_table *ret)
{
    if (root_get_table(f->g->root, table, ret) == 1)
        return lifetime_spans(ret, f->at);
    *ret = (struct root_table){ .dropped_seq = SEQ_MAX };
    return tail_has_table(f->t, f->n, table);
}

static int nothing(struct fresh_found *ret, int status)
{
    ret->in_tail = false;
    ret->retired_by = 0;
    ret->part.status = status;
    memset(&ret->part.hit, 0, sizeof ret->part.hit);
    return ret->status = status;
}

/* What a commit in the tail is worth. */
static int judge(const struct fresh *f, const struct root_table *row, struct fresh_found *ret)
{
    ret->in_tail = true;
    ret->status = lifetime_judge(row, ret->hit.seq, f->at);
    ret->retired_by = ret->status == SKADE_EEXPIRED ? row->retired_by : 0;
    return ret->status;
}

/* A search of the tail about the table of ROW gave R. */
static int tell(const struct fresh *f, const struct root_table *row, int r, struct fresh_found *ret)
{
    if (r == 1)
        return judge(f, row, ret);
    return r < 0 ? (ret->status = r) : nothing(ret, SKADE_ENOSNAPSHOT);
}

/* The parts gave R. */
static int tell_part(int r, struct fresh_found *ret)
{
    ret->in_tail = false;
    ret->retired_by = ret->part.retired_by;
    return ret->status = r;
}

/* ---- questions ----------------------------------------------------------------------------------------- */

int fresh_resolve(const struct fresh *f, uint32_t table, int64_t id, struct fresh_found *ret)
{
    struct root_table row;

    int r = table_of(f, table, &row);
    if (r != 1)
        return r < 0 ? (ret->status = r) : nothing(ret, SKADE_ENOTABLE);
    return tell(f, &row, tail_find(f->t, f->n, table, id, &ret->hit), ret);
}

/* Does the root know TABLE, so that parts can be asked by its rules? */
static bool is_rooted(const struct fresh *f, uint32_t table)
{
    struct root_table row;
    return root_get_table(f->g->root, table, &row) == 1;
}

int fresh_head(const struct fresh *f, uint32_t table, struct fresh_found *ret)
{
    struct root_table row;

    int r = table_of(f, table, &row);
    if (r != 1)
        return r < 0 ? (ret->status = r) : nothing(ret, SKADE_ENOTABLE);
    r = tail_head(f->t, f->n, table, &ret->hit);
    if (r == 0 && is_rooted(f, table))
        return tell_part(generation_head(f->g, table, f->at, &ret->part), ret);
    return tell(f, &row, r, ret);
}

/* What is in the tail is later in sequence: at equal times it is the one. */
int fresh_as_of(const struct fresh *f, uint32_t table, int64_t time_us, struct fresh_found *ret)
{
    struct root_table row;

    int r = table_of(f, table, &row);
    if (r != 1)
        return r < 0 ? (ret->status = r) : nothing(ret, SKADE_ENOTABLE);
    r = tail_as_of(f->t, f->n, table, time_us, &ret->hit);
    if (r < 0 || !is_rooted(f, table))
        return tell(f, &row, r, ret);
    int old = generation_as_of(f->g, table, time_us, f->at, &ret->part);
    bool has_old = old == 1 || old == SKADE_EEXPIRED || old == -EAGAIN;
    if (old < 0 && old != SKADE_ENOSNAPSHOT && !has_old)
        return tell_part(old, ret);
    if (r == 1 && !(has_old && ret->part.hit.time_us > ret->hit.time_us))
        return tell(f, &row, r, ret);
    return tell_part(old, ret);
}

int fresh_earliest(const struct fresh *f, uint32_t table, struct fresh_found *ret)
{
    struct root_table row;

    int r = table_of(f, table, &row);
    if (r != 1)
        return r < 0 ? (ret->status = r) : nothing(ret, SKADE_ENOTABLE);
    r = tail_earliest(f->t, f->n, table, &ret->hit);
    if (r < 0 || !is_rooted(f, table))
        return tell(f, &row, r, ret);
    int old = generation_earliest(f->g, table, f->at, &ret->part);
    bool has_old = old == 1 || old == SKADE_EEXPIRED || old == -EAGAIN;
    if (r == 1 && !(has_old && ret->part.hit.time_us <= ret->hit.time_us))
        return tell(f, &row, r, ret);
    return tell_part(old, ret);
}

int fresh_find_name(const struct fresh *f, struct bytes name, uint32_t *ret)
{
    return tail_find_name(f->t, f->n, name, f->g->names_seq, ret);
}
