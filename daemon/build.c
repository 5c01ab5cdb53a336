#include "build.h"

#include "failpoint.h"
#include "world.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static int fill_part(void *arg, void *buf, size_t size)
{
    return part_plan_fill(arg, buf, size);
}

/* A map of a part becomes a part_map; takes MAP over, also when it fails. */
static int adopt(struct part_map **ret, struct segmap *map, uint64_t generation, struct errmsg *msg)
{
    struct part_map *p = calloc(1, sizeof *p);
    if (!p) {
        segmap_close(map);
        return -ENOMEM;
    }
    int r = part_open(&p->part, map->base, map->size, 0, msg);
    if (r < 0) {
        segmap_close(map);
        free(p);
        return r;
    }
    p->refs = 1;
    p->generation = generation;
    p->size = map->size;
    p->header_check = part_header(p->part)->seg.header_check;
    p->map = *map;
    *ret = p;
    return 0;
}

/* Where questions are answered from while shared memory has no room. */
int part_into_private(size_t size, publisher_fill_fn fill, void *arg, struct part_map **ret,
                      struct errmsg *msg)
{
    void *buf = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (buf == MAP_FAILED)
        return fail(msg, -ENOMEM, "no memory for %zu bytes of index", size);
    int r = fill(arg, buf, size);
    struct segmap map = { .base = buf, .size = size };
    if (r < 0) {
        segmap_close(&map);
        return r;
    }
    return adopt(ret, &map, 0, msg);
}

int part_into_shared(struct publisher *publisher, uint64_t generation, size_t size, publisher_fill_fn fill,
                     void *arg, struct part_map **ret, struct errmsg *msg)
{
    struct segmap map;

    int r = publisher_write(publisher, SHM_PART, generation, size, fill, arg, &map, msg);
    return r < 0 ? r : adopt(ret, &map, generation, msg);
}

int build_private(struct part_plan *plan, struct part_map **ret, struct errmsg *msg)
{
    return part_into_private(part_plan_size(plan), fill_part, plan, ret, msg);
}

int build_shared(struct part_plan *plan, struct publisher *publisher, const struct part_info *info,
                 struct part_map **ret, struct errmsg *msg)
{
    return part_into_shared(publisher, info->generation, part_plan_size(plan), fill_part, plan, ret, msg);
}

int build_plan(const struct build *b, struct part_plan **ret)
{
    struct part *parts[GENERATION_PARTS_MAX];

    if (!b->parts_count)
        return part_plan_rows(ret, &b->info, b->events, b->events_count);
    for (size_t i = 0; i < b->parts_count; i++)
        parts[i] = b->parts[i]->part;
    return part_plan_merge(ret, &b->info, parts, b->parts_count);
}

/* Is the part P as it was when it was published?  0; SKADE_EDAMAGED with its file's name in MSG. */
static int check_part(const struct build *b, const struct part_map *p, struct errmsg *msg)
{
    const struct shm_place *place = publisher_place(b->publisher);
    char name[SHM_NAME_MAX] = "a part in the daemon's own memory";
    struct errmsg why = { "" };
    struct part *part;

    int r = part_open(&part, p->map.base, p->map.size, PART_VERIFY, &why);
    if (r < 0 && r != SKADE_EDAMAGED && r != SKADE_EVERSION)
        return r;
    bool same = r == 0 && part_header(part)->seg.header_check == p->header_check;
    if (r == 0)
        part_close(part);
    if (same)
        return 0;
    if (p->generation)
        shm_name(name, place, SHM_PART, part_header(p->part)->seg.epoch, p->generation);
    return fail(msg, SKADE_EDAMAGED, "%s/%s is damaged: %s", place->dir, name,
                r == 0 ? "another header" : why.text);
}

/* Looked at when the merge has read them, so that what happened to them meanwhile is found, too. */
static int check_inputs(const struct build *b, struct errmsg *msg)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < b->parts_count; i++)
        r = check_part(b, b->parts[i], msg);
    return r;
}

/* Parts have no other events. */
static void keep_commits(struct build *b)
{
    size_t kept = 0;

    for (size_t i = 0; i < b->events_count; i++)
        if (b->events[i]->kind == EVENT_COMMIT || b->events[i]->kind == EVENT_COMPACT)
            b->events[kept++] = b->events[i];
    b->events_count = kept;
}

/* On a worker, or on the loop when it can't wait. */
void build_run(struct build *b)
{
    struct part_plan *plan = NULL;
    uint64_t began = world.clock_ns();

    keep_commits(b);
    b->error = build_plan(b, &plan);
    if (b->error == 0)
        b->error = build_shared(plan, b->publisher, &b->info, &b->made, &b->msg);
    int sound = check_inputs(b, &b->msg);
    b->damaged = sound == SKADE_EDAMAGED;
    if (sound < 0)
        b->error = sound;
    if (b->error < 0 && !b->msg.text[0])
        fail(&b->msg, b->error, "building the index: %s", error_text(b->error));
    part_plan_free(plan);
    b->micros = (world.clock_ns() - began) / 1000;
}

void build_free(struct build *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->parts_count; i++)
        part_map_unref(b->parts[i]);
    free(b->events);
    free(b);
}

static void run_nicely(void *arg)
{
    struct build *b = arg;

    /* Nice values belong to threads on Linux.  A refusal costs nothing. */
    setpriority(PRIO_PROCESS, (id_t)gettid(), 10);
    b->error = FAILPOINT("rebuild.begin");
    if (b->error == 0)
        build_run(b);
    else
        fail(&b->msg, b->error, "building the index: %s", error_text(b->error));
}

/* On a thread that ends with it: the pool's threads make appends durable, too, and who is nice once must stay so.
 * In a world of one thread it stays there. */
void build_on_worker(uv_work_t *work)
{
    uv_thread_t thread;

    if (world.log_takes_turns || uv_thread_create(&thread, run_nicely, work->data) < 0)
        run_nicely(work->data);
    else
        uv_thread_join(&thread);
}
