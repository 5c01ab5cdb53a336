/*
 * What is mapped, and is it sound: the files of the current generation.
 *
 * Both calls are about shared memory, so they look at it even for a handle that goes without.
 */
#include "client.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

/* ---- looking at shared memory -------------------------------------------------------------------------- */

/* Have the current generation mapped.  0; negative with the reason. */
static int look(skade *s)
{
    struct moment m;

    s->shm.backoff.wait = 0; /* a person asks: try now */
    int r = moment_take(s, &m);
    if (r < 0 || m.gen)
        return r;
    if (s->shm.control.page && control_generation(s->shm.control.page) == CONTROL_NONE)
        return fail(&s->msg, -ENOENT,
                    "the daemon has published nothing: see rebuild_failing in its counters");
    return fail(&s->msg, -ENOENT, "shared memory can't be seen: %s", s->shm.why.text);
}

/* Run WORK with shared memory, whatever the handle's flags say. */
static int64_t with_shm(skade *s, int64_t (*work)(skade *s, void *arg), void *arg)
{
    bool off = s->shm.off;

    s->shm.off = false;
    int64_t r = work(s, arg);
    s->shm.off = off;
    if (off)
        attach_drop(s);
    return r;
}

/* ---- segments ------------------------------------------------------------------------------------------ */

struct segment_listing {
    skade_segment_fn fn;
    void *arg;
    int64_t count;
};

/* Does the name in the directory still mean the file that is mapped? */
static bool is_linked(const skade *s, const char *name, const struct segmap *map)
{
    char path[SHM_DIR_MAX + SHM_NAME_MAX];
    struct stat st;

    snprintf(path, sizeof path, "%s/%s", s->place.dir, name);
    return lstat(path, &st) == 0 && st.st_dev == map->dev && st.st_ino == map->ino;
}

static int tell(skade *s, struct segment_listing *l, struct skade_segment segment, enum shm_kind kind,
                const struct segmap *map)
{
    char name[SHM_NAME_MAX];

    shm_name(name, &s->place, kind, s->shm.gen->epoch, segment.generation);
    segment.size = sizeof segment;
    segment.is_root = kind == SHM_ROOT;
    segment.bytes = map->size;
    segment.linked = is_linked(s, name, map);
    segment.file = name;
    l->count++;
    s->lent = true;
    int r = l->fn(l->arg, &segment);
    s->lent = false;
    return r;
}

static int tell_root(skade *s, struct segment_listing *l)
{
    const struct generation *g = s->shm.gen;
    struct skade_segment segment = { .generation = g->number, .to_seq = g->covered };

    return tell(s, l, segment, SHM_ROOT, &g->root_map);
}

static int tell_part(skade *s, struct segment_listing *l, const struct part_map *p)
{
    const struct part_header *h = part_header(p->part);
    struct skade_segment segment = {
        .generation = p->generation,
        .snapshots = part_rows(p->part),
        .from_seq = h->seg.from_seq,
        .to_seq = h->seg.to_seq,
    };

    return tell(s, l, segment, SHM_PART, &p->map);
}

static int64_t list_segments(skade *s, void *arg)
{
    struct segment_listing *l = arg;

    int r = look(s);
    if (r == 0)
        r = tell_root(s, l);
    for (size_t i = 0; r == 0 && i < s->shm.gen->parts_count; i++)
        r = tell_part(s, l, s->shm.gen->parts[i]);
    return r != 0 ? r : l->count;
}

int64_t skade_segments(skade *s, skade_segment_fn fn, void *arg)
{
    struct call c;
    struct segment_listing l = { .fn = fn, .arg = arg };

    int64_t r = call_begin(&c, s);
    if (r == 0)
        r = with_shm(s, list_segments, &l);
    return call_end(&c, r);
}

/* ---- verify -------------------------------------------------------------------------------------------- */

struct verification {
    skade_check_fn fn;
    void *arg;
    bool full;
    bool damaged;
};

static int report(skade *s, struct verification *v, const char *object, uint64_t checked, uint64_t damaged,
                  const char *detail)
{
    v->damaged |= damaged != 0;
    s->lent = true;
    int r = v->fn(v->arg, object, checked, damaged, detail);
    s->lent = false;
    return r;
}

static int verify_root(skade *s, struct verification *v)
{
    const struct generation *g = s->shm.gen;
    struct errmsg why = { "" };
    struct root *root = NULL;
    char name[SHM_NAME_MAX];

    int r = root_open(&root, g->root_map.base, g->root_map.size, ROOT_VERIFY, &why);
    if (r == 0)
        root_close(root);
    shm_name(name, &s->place, SHM_ROOT, g->epoch, g->number);
    return report(s, v, name, g->root_map.size, r < 0, why.text);
}

static int verify_part(skade *s, struct verification *v, const struct part_map *p)
{
    struct errmsg why = { "" };
    struct part *part = NULL;
    char name[SHM_NAME_MAX];

    int r = part_open(&part, p->map.base, p->map.size, PART_VERIFY, &why);
    if (r == 0)
        part_close(part);
    shm_name(name, &s->place, SHM_PART, s->shm.gen->epoch, p->generation);
    return report(s, v, name, p->map.size, r < 0, why.text);
}

/* What can't be mapped because it is damaged is a finding; what can't be seen is nothing to verify. */
static int64_t verify_maps(skade *s, void *arg)
{
    struct verification *v = arg;

    int r = look(s);
    if (r == -ENOENT && s->shm.failed == SKADE_EDAMAGED)
        return report(s, v, "maps", 0, 1, s->shm.why.text);
    if (r < 0)
        return r == SKADE_EREPLACED ? r : 0;
    r = verify_root(s, v);
    for (size_t i = 0; r == 0 && i < s->shm.gen->parts_count; i++)
        r = verify_part(s, v, s->shm.gen->parts[i]);
    return r;
}

#define OBJECT_MAX 256u

static int report_row(skade *s, struct verification *v, const struct item_check_row *row)
{
    char object[OBJECT_MAX], detail[sizeof(struct errmsg)];

    snprintf(object, sizeof object, "%.*s", (int)row->object.len, row->object.data);
    snprintf(detail, sizeof detail, "%.*s", (int)row->detail.len, row->detail.data);
    return report(s, v, object, row->checked, row->damaged, detail);
}

static int verify_log(skade *s, struct verification *v)
{
    struct frame f;
    struct msg_verified m;
    struct item_check_row row;

    wire_put_verify(ask_begin(s), &(struct msg_verify){ .full = v->full });
    int r = ask(s, ASK_LONG, WIRE_VERIFY, WIRE_VERIFIED, &f);
    if (r < 0)
        return r;
    if (wire_read_verified(f.payload, f.head.len, &m) < 0)
        return ask_broken(s, "a malformed verification");
    for (uint32_t i = 0; i < m.rows.count && r == 0; i++) {
        wire_get_check_row(&m.rows.items, &row);
        r = report_row(s, v, &row);
    }
    return r;
}

static int verify(skade *s, struct verification *v)
{
    int r = (int)with_shm(s, verify_maps, v);
    if (r == 0)
        r = verify_log(s, v);
    if (r != 0)
        return r;
    return v->damaged ? fail(&s->msg, SKADE_EDAMAGED, "something is damaged: see what was reported") : 0;
}

int skade_verify(skade *s, int full, skade_check_fn fn, void *arg)
{
    struct call c;
    struct verification v = { .fn = fn, .arg = arg, .full = full != 0 };

    int r = call_begin(&c, s);
    if (r == 0)
        r = verify(s, &v);
    return (int)call_end(&c, r);
}
