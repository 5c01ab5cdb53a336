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
    bool denied = s->shm.failed == -EACCES || s->shm.failed == -EPERM;
    return fail(&s->msg, denied ? SKADE_EDENIED : -ENOENT, "shared memory can't be seen: %s",
                s->shm.why.text);
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

/* ---- what can't be attached, since it is damaged: file by file ----------------------------------------- */

struct lone_file {
    enum shm_kind kind;
    char name[SHM_NAME_MAX];
    uint64_t generation, bytes, snapshots, from_seq, to_seq;
    bool linked;
    int error; /* 0: it is sound */
    struct errmsg why;
};
typedef int (*lone_fn)(skade *s, void *arg, const struct lone_file *f);

/* Is damage why there is no map? */
static bool is_damage(const skade *s, int r)
{
    return r == -ENOENT && s->shm.failed == SKADE_EDAMAGED;
}

static void look_at_name(const skade *s, struct lone_file *f, enum shm_kind kind, uint64_t generation)
{
    char path[SHM_DIR_MAX + SHM_NAME_MAX];
    struct stat st;

    *f = (struct lone_file){ .kind = kind, .generation = generation };
    shm_name(f->name, &s->place, kind, s->shm.control.epoch, generation);
    snprintf(path, sizeof path, "%s/%s", s->place.dir, f->name);
    f->linked = lstat(path, &st) == 0;
    f->bytes = f->linked ? (uint64_t)st.st_size : 0;
}

static int check_root(const struct segmap *map, struct errmsg *why)
{
    struct root *root;

    int r = root_open(&root, map->base, map->size, ROOT_VERIFY, why);
    if (r == 0)
        root_close(root);
    return r;
}

static int check_part(const struct segmap *map, struct errmsg *why)
{
    struct part *part;

    int r = part_open(&part, map->base, map->size, PART_VERIFY, why);
    if (r == 0)
        part_close(part);
    return r;
}

static int visit_lone_part(skade *s, const struct root_part *row, lone_fn fn, void *arg)
{
    struct segmap map = { .base = NULL };
    struct lone_file f;

    look_at_name(s, &f, SHM_PART, row->generation);
    f.snapshots = row->rows;
    f.from_seq = row->from_seq;
    f.to_seq = row->to_seq;
    f.error = segmap_open(&map, &s->place, f.name, row->size, row->size, &f.why);
    if (f.error == 0)
        f.error = check_part(&map, &f.why);
    segmap_close(&map);
    return fn(s, arg, &f);
}

/* FN for the root and for each part that it names, unless they are replaced by now. */
static int visit_lone_files(skade *s, lone_fn fn, void *arg)
{
    uint64_t word = control_generation(s->shm.control.page); /* P2 */
    struct segmap map = { .base = NULL };
    struct root *root = NULL;
    struct root_part row;
    struct lone_file f;

    if (word == CONTROL_NONE || word == CONTROL_RETIRED)
        return 0;
    look_at_name(s, &f, SHM_ROOT, word);
    f.error = segmap_open(&map, &s->place, f.name, sizeof(struct root_header), SIZE_MAX, &f.why);
    if (f.error == 0)
        f.error = root_open(&root, map.base, map.size, 0, &f.why);
    if (f.error == 0) { /* its rows are checked one by one, so they can be read even so */
        f.to_seq = root_header(root)->seg.to_seq;
        f.error = check_root(&map, &f.why);
    }
    bool gone = f.error == -ENOENT && control_generation(s->shm.control.page) != word; /* P2 */
    int r = gone ? 0 : fn(s, arg, &f);
    for (size_t i = 0; r == 0 && root && root_get_part(root, i, &row) == 1; i++)
        r = visit_lone_part(s, &row, fn, arg);
    root_close(root);
    segmap_close(&map);
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

static int tell_segment(skade *s, struct segment_listing *l, struct skade_segment *segment)
{
    segment->size = sizeof *segment;
    l->count++;
    s->lent = true;
    int r = l->fn(l->arg, segment);
    s->lent = false;
    return r;
}

static int tell(skade *s, struct segment_listing *l, struct skade_segment segment, enum shm_kind kind,
                const struct segmap *map)
{
    char name[SHM_NAME_MAX];

    shm_name(name, &s->place, kind, s->shm.gen->epoch, segment.generation);
    segment.is_root = kind == SHM_ROOT;
    segment.bytes = map->size;
    segment.linked = is_linked(s, name, map);
    segment.file = name;
    return tell_segment(s, l, &segment);
}

static int tell_lone(skade *s, void *arg, const struct lone_file *f)
{
    struct skade_segment segment = { .is_root = f->kind == SHM_ROOT,
                                     .generation = f->generation,
                                     .bytes = f->bytes,
                                     .snapshots = f->snapshots,
                                     .from_seq = f->from_seq,
                                     .to_seq = f->to_seq,
                                     .linked = f->linked,
                                     .file = f->name };

    return tell_segment(s, arg, &segment);
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
    if (is_damage(s, r) && s->shm.control.page) {
        r = visit_lone_files(s, tell_lone, l);
        return r != 0 ? r : l->count;
    }
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

/* A file that isn't sound as a whole: no part of it is to be believed. */
static int report_file(skade *s, struct verification *v, const char *name, uint64_t bytes, int error,
                       const char *why)
{
    return report(s, v, name, bytes, error == 0 ? 0 : bytes ? bytes : 1, why);
}

static int verify_lone(skade *s, void *arg, const struct lone_file *f)
{
    return report_file(s, arg, f->name, f->bytes, f->error, f->why.text);
}

static int verify_root(skade *s, struct verification *v)
{
    const struct generation *g = s->shm.gen;
    struct errmsg why = { "" };
    char name[SHM_NAME_MAX];

    int r = check_root(&g->root_map, &why);
    shm_name(name, &s->place, SHM_ROOT, g->epoch, g->number);
    return report_file(s, v, name, g->root_map.size, r, why.text);
}

static int verify_part(skade *s, struct verification *v, const struct part_map *p)
{
    struct errmsg why = { "" };
    char name[SHM_NAME_MAX];

    int r = check_part(&p->map, &why);
    shm_name(name, &s->place, SHM_PART, s->shm.gen->epoch, p->generation);
    return report_file(s, v, name, p->map.size, r, why.text);
}

/* What can't be mapped because it is damaged is a finding; what can't be seen is nothing to verify. */
static int64_t verify_maps(skade *s, void *arg)
{
    struct verification *v = arg;

    int r = look(s);
    if (is_damage(s, r) && s->shm.control.page)
        return visit_lone_files(s, verify_lone, v);
    if (is_damage(s, r))
        return report_file(s, v, "control page", CONTROL_SIZE, r, s->shm.why.text);
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
    if (stream_is_alive(&s->stream)) /* so far we were at work, and not the daemon */
        deadline_renew(s);
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
