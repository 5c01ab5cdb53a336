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

/* Open addressing, a power of two of lines of eight keys, at most half full; no key is 0.  One line answers. */
struct ideal {
    uint64_t (*lines)[8];
    uint64_t mask;
};

struct lone_part {
    struct part *part;
    struct segmap map; /* of the daemon's file */
    void *memory;      /* or our own */
    size_t size;
    struct ideal ideal; /* of the same keys; lone_part_add_hash() */
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

struct commits commits_make(const struct history *h)
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

void commits_free(struct commits *c)
{
    free(c->events);
    free(c->list);
    free(c->texts);
}

struct lone_part *lone_part_of(const struct history *h, const struct commits *c)
{
    struct part_info info = { .seed = 99,
                              .from_seq = h->first_seq - 1,
                              .to_seq = h->first_seq - 1 + history_rows(h) };
    struct lone_part *p = allocate(sizeof *p);
    struct part_plan *plan;

    check(part_plan_rows(&plan, &info, c->list, history_rows(h)), "plan of a part", NULL);
    size_t size = part_plan_size(plan);
    p->memory = map_private(size);
    check(part_plan_fill(plan, p->memory, size), "fill of a part", NULL);
    part_plan_free(plan);
    return open_part(p, p->memory, size);
}

struct lone_part *lone_part_build(const struct history *h)
{
    struct commits c = commits_make(h);
    struct lone_part *p = lone_part_of(h, &c);

    commits_free(&c);
    return p;
}

size_t lone_part_size(const struct lone_part *p)
{
    return p->size;
}

void lone_part_close(struct lone_part *p)
{
    part_close(p->part);
    if (p->ideal.lines)
        munmap(p->ideal.lines, (p->ideal.mask + 1) * sizeof *p->ideal.lines);
    segmap_close(&p->map);
    if (p->memory)
        munmap(p->memory, p->size);
    free(p);
}

/* ---- rows ------------------------------------------------------------------------------------------------------------ */

static struct part_query *query_at(size_t i)
{
    return (struct part_query *)(void *)&answers[i % WINDOW];
}

static inline void take(int found, size_t i)
{
    if (found != 1)
        answers[i % WINDOW].status = SKADE_ENOSNAPSHOT;
}

void part_single(void *arg, const struct question *q, size_t n)
{
    const struct part *p = ((struct lone_part *)arg)->part;

    for (size_t i = 0; i < n; i++) {
        fence();
        take(part_resolve(p, NULL, q[i].table, q[i].id, query_at(i)), i);
    }
}

void part_tree(void *arg, const struct question *q, size_t n)
{
    const struct part *p = ((struct lone_part *)arg)->part;

    for (size_t i = 0; i < n; i++) {
        fence();
        take(part_resolve_by_tree(p, NULL, q[i].table, q[i].id, query_at(i)), i);
    }
}

void part_tree_loop(void *arg, const struct question *q, size_t n)
{
    const struct part *p = ((struct lone_part *)arg)->part;

    for (size_t i = 0; i < n; i++)
        take(part_resolve_by_tree(p, NULL, q[i].table, q[i].id, query_at(i)), i);
}

typedef size_t resolve_many(const struct part *p, struct part_many *m, uint32_t *list, size_t n);

/* Questions are written to where the answers go; those that have none are marked. */
static inline void batches(const struct part *p, const struct question *q, size_t n, resolve_many *resolve)
{
    static uint32_t list[WINDOW], odd[WINDOW];

    for (size_t i = 0; i < n; i += WINDOW) {
        struct part_many m = { .first = answers, .stride = sizeof answers[0], .odd = odd };
        for (uint32_t k = 0; k < WINDOW; k++) {
            answers[k].table = q[i + k].table;
            answers[k].snapshot = q[i + k].id;
            list[k] = k;
        }
        size_t absent = resolve(p, &m, list, WINDOW);
        for (size_t k = 0; k < absent; k++)
            take(0, list[k]);
    }
}

void part_batch(void *arg, const struct question *q, size_t n)
{
    batches(((struct lone_part *)arg)->part, q, n, part_resolve_many);
}

void part_tree_batch(void *arg, const struct question *q, size_t n)
{
    batches(((struct lone_part *)arg)->part, q, n, part_resolve_many_by_tree);
}

/* ---- the index alone, next to an ideal hash table ------------------------------------------------------------------------ */

static void ideal_put(struct ideal *h, uint64_t key)
{
    for (uint64_t line = key & h->mask;; line = (line + 1) & h->mask)
        for (int i = 0; i < 8; i++)
            if (h->lines[line][i] == 0) {
                h->lines[line][i] = key;
                return;
            }
}

static struct ideal ideal_make(const struct part *p)
{
    struct ideal h = { .mask = 1 };

    while ((h.mask + 1) * 8 < 2 * part_rows(p))
        h.mask = h.mask * 2 + 1;
    h.lines = map_private((h.mask + 1) * sizeof *h.lines);
    madvise(h.lines, (h.mask + 1) * sizeof *h.lines, MADV_HUGEPAGE);
    for (uint64_t block = 0; block < p->header.blocks.count; block++)
        for (unsigned slot = 0; slot < PART_SLOTS; slot++)
            if (p->blocks[block].marks & 1u << slot)
                ideal_put(&h, (uint64_t)p->blocks[block].key[slot]);
    return h;
}

#define HASH_AHEAD 16

typedef bool line_has(const uint64_t line[8], uint64_t key);

static inline bool has_plain(const uint64_t line[8], uint64_t key)
{
    unsigned found = 0;
    for (int i = 0; i < 8; i++)
        found |= line[i] == key;
    return found;
}

/* How many of the WINDOW keys are there. */
static inline __attribute__((always_inline)) uint64_t hash_window(const struct ideal *h, const int64_t *keys,
                                                                  line_has *has)
{
    uint64_t found = 0;

    for (size_t k = 0; k < WINDOW + HASH_AHEAD; k++) {
        if (k < WINDOW)
            __builtin_prefetch(h->lines[(uint64_t)keys[k] & h->mask]);
        if (k < HASH_AHEAD)
            continue;
        uint64_t key = (uint64_t)keys[k - HASH_AHEAD], line = key & h->mask;
        while (!has(h->lines[line], key) && h->lines[line][7] != 0)
            line = (line + 1) & h->mask;
        found += has(h->lines[line], key);
    }
    return found;
}

static uint64_t hash_plain(const struct ideal *h, const int64_t *keys)
{
    return hash_window(h, keys, has_plain);
}

#if defined(__x86_64__)
/* The compiler's default is an old processor; the index is compared with what this one can. */
static inline __attribute__((target("avx512f"))) bool has_avx512(const uint64_t line[8], uint64_t key)
{
    return _mm512_cmpeq_epi64_mask(_mm512_loadu_si512(line), _mm512_set1_epi64((long long)key)) != 0;
}

static __attribute__((target("avx512f"))) uint64_t hash_avx512(const struct ideal *h, const int64_t *keys)
{
    return hash_window(h, keys, has_avx512);
}
#else
#define hash_avx512 hash_plain
#endif

static void make_keys(const struct part *p, const struct question *q, int64_t keys[WINDOW])
{
    for (size_t k = 0; k < WINDOW; k++)
        keys[k] = key_of(q[k].table, q[k].id, p->header.seg.seed);
}

/* The index gave its answer: whether the key is there.  What the row says isn't looked at. */
static void found_all(uint64_t found, size_t n)
{
    if (found != n)
        die("the index alone finds %llu of %zu keys", (unsigned long long)found, n);
}

void keys_hash(void *arg, const struct question *q, size_t n)
{
    const struct lone_part *p = arg;
    static int64_t keys[WINDOW];
    uint64_t found = 0;
    bool best = part_isa_best() == PART_AVX512;

    for (size_t i = 0; i < n; i += WINDOW) {
        make_keys(p->part, q + i, keys);
        found += best ? hash_avx512(&p->ideal, keys) : hash_plain(&p->ideal, keys);
    }
    found_all(found, n);
}

void keys_tree(void *arg, const struct question *q, size_t n)
{
    const struct lone_part *p = arg;
    static int64_t keys[WINDOW];
    static uint32_t refs[WINDOW];
    uint64_t found = 0;

    for (size_t i = 0; i < n; i += WINDOW) {
        make_keys(p->part, q + i, keys);
        part_find_keys_by_tree(p->part, keys, refs, WINDOW);
        for (size_t k = 0; k < WINDOW; k++)
            found += refs[k] != PART_NO_REF;
    }
    found_all(found, n);
}

void lone_part_add_hash(struct lone_part *p)
{
    p->ideal = ideal_make(p->part);
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
