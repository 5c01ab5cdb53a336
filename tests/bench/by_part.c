/*
 * The index alone: a part's functions, without generations, tables' lifetimes and moments.  What libskadeclient takes
 * longer than this is its own.  Over the part that the daemon published, or one that is built here.
 */
#include "bench.h"

#include "part_view.h"
#include "segmap.h"
#include "synthetic.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)

struct lone_part {
    struct part *part;
    struct segmap map; /* of the daemon's file */
    void *memory;      /* or our own */
    size_t size;
    struct part_query queries[WINDOW];
};

/* ---- the daemon's part ------------------------------------------------------------------------------------------- */

struct largest {
    char name[SHM_NAME_MAX];
    uint64_t bytes;
};

static int take_segment(void *arg, const struct skade_segment *segment)
{
    struct largest *l = arg;

    if (!segment->is_root && segment->bytes > l->bytes) {
        l->bytes = segment->bytes;
        snprintf(l->name, sizeof l->name, "%s", segment->file);
    }
    return 0;
}

static struct lone_part *open_part(struct lone_part *p, const void *base, size_t size)
{
    struct errmsg msg = { "" };

    p->size = size;
    if (part_open(&p->part, base, size, 0, &msg) < 0)
        die("%s", msg.text);
    return p;
}

struct lone_part *lone_part_open_largest(skade *s)
{
    struct shm_place place = { .uid = geteuid() };
    struct lone_part *p = allocate(sizeof *p);
    struct largest l = { .bytes = 0 };
    struct errmsg msg = { "" };

    snprintf(place.dir, sizeof place.dir, "%s", place_shm_dir());
    check((int)skade_segments(s, take_segment, &l), "segments", s);
    if (segmap_open(&p->map, &place, l.name, 0, SIZE_MAX / 2, &msg) < 0)
        die("%s", msg.text);
    return open_part(p, p->map.base, p->map.size);
}

/* ---- one of our own ------------------------------------------------------------------------------------------------- */

static void *map_private(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        die("no memory for %zu bytes", size);
    return memory;
}

struct commits {
    struct event *events;
    const struct event **list;
    char (*texts)[SYNTHETIC_LOCATION_MAX];
};

static void make_event(const struct history *h, uint32_t table, uint32_t version, struct event *e, char *text)
{
    int len = synthetic_location(text, table, version);

    *e = (struct event){ .seq = history_seq(h, table, version),
                         .kind = EVENT_COMMIT,
                         .flags = EVENT_INTRODUCES | EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT,
                         .table = table,
                         .snapshot = history_id(h, table, version),
                         .time_us = synthetic_time_us(table, version),
                         .text = { text, (size_t)len } };
}

static struct commits make_commits(const struct history *h)
{
    uint64_t total = history_rows(h), n = 0;
    struct commits c = { .events = allocate(total * sizeof *c.events),
                         .list = allocate(total * sizeof *c.list),
                         .texts = allocate(total * sizeof *c.texts) };

    for (uint32_t version = 0; version < h->versions; version++)
        for (uint32_t table = 1; table <= h->tables; table++, n++) {
            make_event(h, table, version, &c.events[n], c.texts[n]);
            c.list[n] = &c.events[n];
        }
    return c;
}

struct lone_part *lone_part_build(const struct history *h)
{
    struct commits c = make_commits(h);
    struct part_info info = { .seed = 99,
                              .from_seq = h->first_seq - 1,
                              .to_seq = h->first_seq - 1 + history_rows(h) };
    struct lone_part *p = allocate(sizeof *p);
    struct part_plan *plan;

    check(part_plan_rows(&plan, &info, c.list, history_rows(h)), "plan of a part", NULL);
    size_t size = part_plan_size(plan);
    p->memory = map_private(size);
    check(part_plan_fill(plan, p->memory, size), "fill of a part", NULL);
    part_plan_free(plan);
    free(c.events);
    free(c.list);
    free(c.texts);
    return open_part(p, p->memory, size);
}

void lone_part_close(struct lone_part *p)
{
    part_close(p->part);
    segmap_close(&p->map);
    if (p->memory)
        munmap(p->memory, p->size);
    free(p);
}

/* ---- rows ------------------------------------------------------------------------------------------------------------ */

static inline void give(const struct part *p, int found, const struct part_hit *hit, struct skade_answer *a)
{
    a->status = found;
    if (found != 1)
        return;
    int len = part_location(p, hit->ref, a->location, a->location_cap - 1, NULL);
    if (len < 0) {
        a->status = len;
        return;
    }
    a->location[len] = 0;
    a->location_len = (uint32_t)len;
    a->seq = hit->seq;
    a->time_us = hit->time_us;
}

void part_single(void *arg, const struct question *q, size_t n)
{
    const struct part *p = ((struct lone_part *)arg)->part;
    struct part_hit hit;

    for (size_t i = 0; i < n; i++) {
        fence();
        give(p, part_find(p, q[i].table, q[i].id, &hit), &hit, &answers[i % WINDOW]);
    }
}

void part_tree(void *arg, const struct question *q, size_t n)
{
    const struct part *p = ((struct lone_part *)arg)->part;
    struct part_hit hit;

    for (size_t i = 0; i < n; i++) {
        fence();
        give(p, part_find_by_tree(p, q[i].table, q[i].id, &hit), &hit, &answers[i % WINDOW]);
    }
}

void part_tree_loop(void *arg, const struct question *q, size_t n)
{
    const struct part *p = ((struct lone_part *)arg)->part;
    struct part_hit hit;

    for (size_t i = 0; i < n; i++)
        give(p, part_find_by_tree(p, q[i].table, q[i].id, &hit), &hit, &answers[i % WINDOW]);
}

void part_batch(void *arg, const struct question *q, size_t n)
{
    struct lone_part *p = arg;

    for (size_t i = 0; i < WINDOW; i++) {
        p->queries[i].location = answers[i].location;
        p->queries[i].location_cap = answers[i].location_cap - 1;
    }
    for (size_t i = 0; i < n; i += WINDOW) {
        for (size_t k = 0; k < WINDOW; k++) {
            p->queries[k].table = q[i + k].table;
            p->queries[k].id = q[i + k].id;
            p->queries[k].status = PART_ASK;
        }
        part_find_many(p->part, p->queries, WINDOW, 0);
    }
}

/* The batch's answers stand in its queries. */
void part_settle(void *arg)
{
    const struct lone_part *p = arg;

    for (size_t i = 0; i < WINDOW; i++) {
        const struct part_query *from = &p->queries[i];
        answers[i].status = from->status == PART_FOUND ? 1 : SKADE_ENOSNAPSHOT;
        answers[i].seq = from->hit.seq;
        answers[i].time_us = from->hit.time_us;
        answers[i].location_len = from->location_len;
        answers[i].location[from->status == PART_FOUND ? from->location_len : 0] = 0;
    }
}

/* ---- what the part is like --------------------------------------------------------------------------------------------- */

/* Lines of a block that a lookup reads for the row in SLOT: that of the keys, and those of the row. */
static unsigned lines_of(unsigned slot)
{
    size_t from = offsetof(struct part_block, row) + slot * sizeof(struct part_row);
    size_t first = from / CACHE_LINE, last = (from + sizeof(struct part_row) - 1) / CACHE_LINE;

    return 1 + (unsigned)(last - first + 1) - (first == 0);
}

struct count {
    uint64_t rows, displaced, in_heap, lines;
};

static void count_row(const struct part *p, uint64_t block, unsigned slot, struct count *c)
{
    const struct part_block *b = &p->blocks[block];
    bool displaced = key_home(b->key[slot], p->header.homes) != block;

    c->rows++;
    c->in_heap += (load_u32(b->row[slot].word) & PART_ESCAPE) != 0;
    c->displaced += displaced;
    c->lines += displaced ? 1 + sizeof *b / CACHE_LINE : lines_of(slot);
}

struct part_facts lone_part_facts(const struct lone_part *row)
{
    const struct part *p = row->part;
    struct count c = { 0 };

    for (uint64_t block = 0; block < p->header.blocks.count; block++)
        for (unsigned slot = 0; slot < PART_SLOTS; slot++)
            if (p->blocks[block].marks & 1u << slot)
                count_row(p, block, slot, &c);
    return (struct part_facts){ .rows = part_rows(p),
                                .bytes = row->size,
                                .block_bytes = p->header.blocks.count * sizeof(struct part_block),
                                .huge_bytes = row->map.base ? huge_bytes(row->map.base) : 0,
                                .lines = (double)c.lines / (double)c.rows,
                                .displaced = (double)c.displaced / (double)c.rows,
                                .in_heap = (double)c.in_heap / (double)c.rows,
                                .reach = p->header.reach };
}
