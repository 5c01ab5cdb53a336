#include "generation.h"

#include "tailmap.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define ROOT_BYTES_MAX ((size_t)1 << 40)

/* ---- attaching ----------------------------------------------------------------------------------------- */

struct part_map *part_map_ref(struct part_map *p)
{
    p->refs++;
    return p;
}

void part_map_unref(struct part_map *p)
{
    if (!p || --p->refs > 0)
        return;
    part_close(p->part);
    segmap_close(&p->map);
    free(p);
}

struct generation *generation_ref(struct generation *g)
{
    g->refs++;
    return g;
}

void generation_unref(struct generation *g)
{
    if (!g || --g->refs > 0)
        return;
    for (size_t i = 0; i < g->parts_count; i++)
        part_map_unref(g->parts[i]);
    tail_map_close(g->tail);
    root_close(g->root);
    segmap_close(&g->root_map);
    free(g);
}

/* What attaching needs besides the generation itself. */
struct attach {
    const struct shm_place *place;
    const struct uuid *log;
    const struct generation *old;
    uint64_t verify_max;
    struct errmsg *msg;
};

/* Pass on an error about the file NAME, with WHY in the message. */
static int refuse(const struct attach *a, const char *name, int error, const char *why)
{
    return fail(a->msg, error, "%s/%s: %s", a->place->dir, name, why);
}

static bool is_of(const struct seg_header *h, const struct generation *g, const struct attach *a,
                  uint64_t generation)
{
    return h->epoch == g->epoch && h->generation == generation && uuid_equal(&h->log, a->log);
}

static int attach_root(struct generation *g, const struct attach *a)
{
    char name[SHM_NAME_MAX];
    struct errmsg why = { "" };

    shm_name(name, a->place, SHM_ROOT, g->epoch, g->number);
    int r = segmap_open(&g->root_map, a->place, name, sizeof(struct root_header), ROOT_BYTES_MAX, a->msg);
    if (r < 0)
        return r;
    unsigned flags = g->root_map.size <= a->verify_max ? ROOT_VERIFY : 0;
    r = root_open(&g->root, g->root_map.base, g->root_map.size, flags, &why);
    if (r < 0)
        return refuse(a, name, r, why.text);
    const struct root_header *h = root_header(g->root);
    if (!is_of(&h->seg, g, a, g->number))
        return refuse(a, name, SKADE_EDAMAGED, "the root is of another log, epoch or generation");
    if (h->parts.count > GENERATION_PARTS_MAX)
        return refuse(a, name, SKADE_EDAMAGED, "the root has too many parts");
    g->covered = h->seg.to_seq;
    g->names_seq = h->names_seq;
    g->lives = root_lifetimes(g->root, SEQ_MAX);
    return 0;
}

/* Is it the very part that the root means? */
static bool is_meant(const struct part_map *p, const struct root_part *row, const struct generation *g,
                     const struct attach *a)
{
    const struct seg_header *h = &part_header(p->part)->seg;

    return is_of(h, g, a, row->generation) && h->seed == root_header(g->root)->seg.seed &&
           h->header_check == row->header_check && h->from_seq == row->from_seq && h->to_seq == row->to_seq &&
           part_rows(p->part) == row->rows;
}

/* Map and check the part that ROW names, into P. */
static int map_part(struct part_map *p, const struct root_part *row, const struct generation *g,
                    const struct attach *a)
{
    char name[SHM_NAME_MAX];
    struct errmsg why = { "" };

    shm_name(name, a->place, SHM_PART, g->epoch, row->generation);
    int r = segmap_open(&p->map, a->place, name, p->size, p->size, a->msg);
    if (r < 0)
        return r;
    r = part_open(&p->part, p->map.base, p->map.size, p->size <= a->verify_max ? PART_VERIFY : 0, &why);
    if (r < 0)
        return refuse(a, name, r, why.text);
    return is_meant(p, row, g, a) ? 0
                                  : refuse(a, name, SKADE_EDAMAGED, "it is not the part that the root means");
}

/* The same part in the generation that we come from; NULL when it isn't there. */
static struct part_map *find_mapped(const struct generation *old, uint64_t epoch, const struct root_part *row)
{
    for (size_t i = 0; old && old->epoch == epoch && i < old->parts_count; i++) {
        struct part_map *p = old->parts[i];
        if (p->generation == row->generation && p->size == row->size && p->header_check == row->header_check)
            return p;
    }
    return NULL;
}

static int attach_part(struct generation *g, const struct root_part *row, const struct attach *a)
{
    struct part_map *mapped = find_mapped(a->old, g->epoch, row);

    if (mapped && is_meant(mapped, row, g, a)) {
        g->parts[g->parts_count++] = part_map_ref(mapped);
        return 0;
    }
    struct part_map *p = malloc(sizeof *p);
    if (!p)
        return fail(a->msg, -ENOMEM, "no memory for a part");
    *p = (struct part_map){
        .refs = 1, .generation = row->generation, .size = row->size, .header_check = row->header_check
    };
    int r = map_part(p, row, g, a);
    if (r < 0) {
        part_map_unref(p);
        return r;
    }
    g->parts[g->parts_count++] = p;
    return 0;
}

static int attach_parts(struct generation *g, const struct attach *a)
{
    struct root_part row;
    int r = 0;

    for (size_t i = 0; r == 0 && root_get_part(g->root, i, &row) == 1; i++)
        r = attach_part(g, &row, a);
    return r;
}

int generation_open(struct generation **ret, const struct shm_place *place, uint64_t epoch, uint64_t number,
                    const struct uuid *log, const struct generation *old, uint64_t verify_max,
                    struct errmsg *msg)
{
    const struct attach a = { place, log, old, verify_max, msg };

    struct generation *g = calloc(1, sizeof *g);
    if (!g)
        return fail(msg, -ENOMEM, "no memory for a generation");
    g->refs = 1;
    g->number = number;
    g->epoch = epoch;
    int r = attach_root(g, &a);
    if (r == 0)
        r = attach_parts(g, &a);
    if (r < 0) {
        generation_unref(g);
        return r;
    }
    *ret = g;
    return 0;
}

/* ---- searching: what the parts say --------------------------------------------------------------------- */

/* What a part said, RESULT about HIT, as the answer of the whole; r <= 0: nothing, or damage. */
static int take(struct found *ret, int result, uint32_t part)
{
    if (result == 1) {
        ret->status = 1;
        ret->part = part;
    }
    return result;
}

static void nothing_found(struct found *ret)
{
    ret->status = SKADE_ENOSNAPSHOT;
    ret->part = 0;
    ret->retired_by = 0;
    memset(&ret->hit, 0, sizeof ret->hit);
}

int generation_search(const struct generation *g, uint32_t table, int64_t id, uint64_t at, struct found *ret)
{
    nothing_found(ret);
    for (uint32_t i = 0; i < g->parts_count; i++) {
        int r = part_find(g->parts[i]->part, table, id, &ret->hit);
        if (r < 0)
            return r;
        if (r == 1 && ret->hit.seq <= at)
            return take(ret, 1, i);
        if (r == 1) { /* later parts have later rows */
            nothing_found(ret);
            return 0;
        }
    }
    return 0;
}

int generation_search_head(const struct generation *g, uint32_t table, uint64_t at, struct found *ret)
{
    int r = 0;

    nothing_found(ret);
    for (size_t i = g->parts_count; r == 0 && i-- > 0;)
        r = take(ret, part_head(g->parts[i]->part, table, at, &ret->hit), (uint32_t)i);
    return r;
}

int generation_before(const struct generation *g, uint32_t table, uint64_t before, struct found *ret)
{
    int r = 0;

    nothing_found(ret);
    for (size_t i = g->parts_count; r == 0 && i-- > 0;)
        r = take(ret, part_before(g->parts[i]->part, table, before, &ret->hit), (uint32_t)i);
    return r;
}

int generation_after(const struct generation *g, uint32_t table, uint64_t after, struct found *ret)
{
    int r = 0;

    nothing_found(ret);
    for (uint32_t i = 0; r == 0 && i < g->parts_count; i++)
        r = take(ret, part_after(g->parts[i]->part, table, after, &ret->hit), i);
    return r;
}

/* The order of as_of(): by time, and by sequence where times are equal. */
static bool is_later(const struct part_hit *a, const struct part_hit *b)
{
    return a->time_us != b->time_us ? a->time_us > b->time_us : a->seq > b->seq;
}

int generation_search_as_of(const struct generation *g, uint32_t table, int64_t time_us, uint64_t at,
                            struct found *ret)
{
    nothing_found(ret);
    for (uint32_t i = 0; i < g->parts_count; i++) {
        struct part_hit hit;
        int r = part_as_of(g->parts[i]->part, table, time_us, at, &hit);
        if (r < 0)
            return r;
        if (r == 1 && (ret->status != 1 || is_later(&hit, &ret->hit)))
            *ret = (struct found){ .status = 1, .part = i, .hit = hit };
    }
    return ret->status == 1;
}

int generation_search_earliest(const struct generation *g, uint32_t table, uint64_t at, struct found *ret)
{
    nothing_found(ret);
    for (uint32_t i = 0; i < g->parts_count; i++) {
        struct part_hit hit;
        int r = part_earliest(g->parts[i]->part, table, at, &hit);
        if (r < 0)
            return r;
        if (r == 1 && (ret->status != 1 || is_later(&ret->hit, &hit)))
            *ret = (struct found){ .status = 1, .part = i, .hit = hit };
    }
    return ret->status == 1;
}

/* ---- rules for tables ---------------------------------------------------------------------------------- */

/* R is what a search about the table of ROW returned. */
static int rule(const struct root_table *row, int r, uint64_t at, struct found *ret)
{
    if (r < 0)
        return r;
    if (r == 1)
        ret->status = lifetime_judge(row, ret->hit.seq, at);
    if (ret->status == SKADE_EEXPIRED)
        ret->retired_by = row->retired_by;
    return ret->status;
}

static int no_table(struct found *ret)
{
    nothing_found(ret);
    return ret->status = SKADE_ENOTABLE;
}

int generation_find(const struct generation *g, uint32_t table, int64_t id, uint64_t at, struct found *ret)
{
    struct lifetimes lives = generation_lives(g, at);
    struct root_table row;

    if (!lifetime_row(&lives, table, &row))
        return no_table(ret);
    return rule(&row, generation_search(g, table, id, at, ret), at, ret);
}

int generation_resolve(const struct generation *g, uint32_t table, int64_t id, uint64_t at,
                       struct part_query *q)
{
    struct lifetimes lives = generation_lives(g, at);
    int status = 0;

    for (size_t i = 0; status == 0 && i < g->parts_count; i++)
        status = part_resolve(g->parts[i]->part, &lives, table, id, q);
    if (status != 0)
        return status;
    return lifetime_is_there(&lives, table) ? SKADE_ENOSNAPSHOT : SKADE_ENOTABLE;
}

/* The record that ROW of TABLE names as its head; it must be one. */
static int named_head(const struct generation *g, uint32_t table, const struct root_table *row,
                      struct found *ret)
{
    struct part_hit *hit = &ret->hit;

    nothing_found(ret);
    if (row->head_seq == 0)
        return 0;
    if (row->head_part >= g->parts_count)
        return SKADE_EDAMAGED;
    int r = part_record(g->parts[row->head_part]->part, row->head_ref, hit);
    if (r < 0)
        return r;
    if (hit->table != table || hit->seq != row->head_seq || !(hit->flags & EVENT_MOVES_HEAD))
        return SKADE_EDAMAGED;
    return take(ret, 1, row->head_part);
}

int generation_head(const struct generation *g, uint32_t table, uint64_t at, struct found *ret)
{
    struct lifetimes lives = generation_lives(g, at);
    struct root_table row;

    if (!lifetime_row(&lives, table, &row))
        return no_table(ret);
    if (row.head_seq <= at)
        return rule(&row, named_head(g, table, &row, ret), at, ret);
    int r = generation_search_head(g, table, at, ret);
    if (r == 1 && ret->hit.kind == EVENT_COMPACT)
        return ret->status =
                   -EAGAIN; /* commits that it carried over come after it: who knows them must tell */
    return rule(&row, r, at, ret);
}

int generation_as_of(const struct generation *g, uint32_t table, int64_t time_us, uint64_t at,
                     struct found *ret)
{
    struct lifetimes lives = generation_lives(g, at);
    struct root_table row;

    if (!lifetime_row(&lives, table, &row))
        return no_table(ret);
    return rule(&row, generation_search_as_of(g, table, time_us, at, ret), at, ret);
}

int generation_earliest(const struct generation *g, uint32_t table, uint64_t at, struct found *ret)
{
    struct lifetimes lives = generation_lives(g, at);
    struct root_table row;

    if (!lifetime_row(&lives, table, &row))
        return no_table(ret);
    return rule(&row, generation_search_earliest(g, table, at, ret), at, ret);
}

int generation_location(const struct generation *g, const struct found *f, char *buf, size_t cap,
                        size_t *need)
{
    assert(f->part < g->parts_count);
    return part_location(g->parts[f->part]->part, f->hit.ref, buf, cap, need);
}

/* ---- a batch ------------------------------------------------------------------------------------------- */

static struct part_query *query_at(const struct part_many *m, uint32_t number)
{
    return (struct part_query *)(void *)((char *)m->first + number * m->stride);
}

/* Say of the first N of LIST, which are in no part, why they have no answer. */
static void end_absent(const struct part_many *m, const uint32_t *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct part_query *q = query_at(m, list[i]);
        q->status = lifetime_is_there(m->lives, q->table) ? SKADE_ENOSNAPSHOT : SKADE_ENOTABLE;
    }
}

size_t generation_resolve_many(const struct generation *g, void *first, size_t stride, uint32_t *list,
                               size_t n, uint64_t at)
{
    struct lifetimes lives = generation_lives(g, at);
    uint32_t odd[GENERATION_MANY];
    struct part_many many = { .first = first, .stride = stride, .lives = &lives, .odd = odd };

    assert(n <= GENERATION_MANY);
    for (size_t i = 0; i < g->parts_count && n > 0; i++)
        n = part_resolve_many(g->parts[i]->part, &many, list, n);
    end_absent(&many, list, n);
    if (many.odd_count > 0)
        memcpy(list + n, odd, many.odd_count * sizeof *list);
    return n + many.odd_count;
}
