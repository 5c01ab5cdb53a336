/*
 * How long building takes, next to qsort() of the same rows and to the memory that is written: rows to a tree of keys, and
 * commits to a whole part, in which each location was rendered and compared.
 *
 * All in processor time of this thread; the daemon's own copies and checks come on top.
 */
#include "bench.h"

#include "part_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LARGE 10000000
#define BUILDS_MAX 5 /* repetitions: qsort of 10^7 rows is slow */

struct times {
    double sort[REPS_MAX], tree[REPS_MAX], index[REPS_MAX], write[REPS_MAX]; /* ns */
};

static int compare_items(const void *a, const void *b)
{
    const struct plan_item *x = a, *y = b;

    return (x->key > y->key) - (x->key < y->key);
}

static void draw_items(struct plan_item *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        items[i] = (struct plan_item){ .key = random_next(), .src = i };
}

static double time_qsort(struct plan_item *items, size_t n)
{
    double began = processor_ns();

    qsort(items, n, sizeof *items, compare_items);
    return processor_ns() - began;
}

/* Sorted, and the nodes above leaves of eight keys. */
static double time_tree(struct plan_item *items, size_t n)
{
    double began = processor_ns();
    struct plan_item *scratch = plan_alloc_room(n, sizeof *scratch);
    struct stree64_shape shape;

    if (!scratch || !stree64_shape((n + STREE64_KEYS - 1) / STREE64_KEYS, &shape))
        die("no memory for a tree of %zu keys", n);
    plan_sort(items, n, scratch);
    struct stree64_node *nodes = plan_alloc_room(shape.nodes, sizeof *nodes);
    if (!nodes)
        die("no memory for a tree of %zu keys", n);
    stree64_fill(&shape, nodes, &items[STREE64_KEYS - 1].key, STREE64_KEYS * sizeof *items);
    double ns = processor_ns() - began;
    if (n > 1 && items[0].key > items[n - 1].key)
        die("the keys aren't sorted");
    free(nodes);
    free(scratch);
    return ns;
}

static double time_index(const struct history *h, const struct commits *c, size_t *size)
{
    double began = processor_ns();

    struct lone_part *p = lone_part_of(h, c);
    double ns = processor_ns() - began;
    *size = lone_part_size(p);
    lone_part_close(p);
    return ns;
}

/* Reserved and written once. */
static double time_write(size_t size)
{
    double began = processor_ns();

    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        die("no memory for %zu bytes", size);
    memset(memory, 1, size);
    double ns = processor_ns() - began;
    munmap(memory, size);
    return ns;
}

static struct measure ms_of(const double *ns, int reps)
{
    double ms[REPS_MAX];

    for (int i = 0; i < reps; i++)
        ms[i] = ns[i] * 1e-6;
    return measure_of(ms, reps);
}

static void judge(const char *name, const char *size, enum sense sense, double goal, struct measure m)
{
    struct goal g = { .sense = sense, .floor = goal, .target = goal };

    snprintf(g.name, sizeof g.name, "speed.%s.%s", name, size);
    goal_check(&g, m);
}

static void report_builds(const struct times *t, uint64_t n, const char *size, int reps)
{
    char group[48];

    snprintf(group, sizeof group, "build-%s", size);
    report_figure(group, "qsort", ms_of(t->sort, reps), "ms", ROW_LIMIT);
    report_figure(group, "rows to key tree", ms_of(t->tree, reps), "ms", ROW_OURS);
    report_figure(group, "commits to index", ms_of(t->index, reps), "ms", ROW_OURS);
    report_figure(group, "write its bytes", ms_of(t->write, reps), "ms", ROW_LIMIT);
    judge("build_tree_qsort", size, AT_LEAST, n >= LARGE ? 7 : 6, measure_ratio(t->sort, t->tree, reps));
    judge("build_index_qsort", size, AT_LEAST, 1, measure_ratio(t->sort, t->index, reps));
    judge("build_index_write", size, AT_MOST, 3, measure_ratio(t->index, t->write, reps));
}

void stage_build(uint64_t n, const char *size, int reps)
{
    struct history h = {
        .tables = TABLES, .versions = (uint32_t)(n / TABLES), .ids = IDS_RANDOM, .first_seq = 1
    };
    struct plan_item *items = allocate(n * sizeof *items);
    struct commits c = commits_make(&h);
    static struct times t;
    size_t bytes;

    if (reps > BUILDS_MAX)
        reps = BUILDS_MAX;
    for (int i = 0; i < reps; i++) {
        end_if_interrupted();
        draw_items(items, n);
        t.sort[i] = time_qsort(items, n);
        draw_items(items, n);
        t.tree[i] = time_tree(items, n);
        t.index[i] = time_index(&h, &c, &bytes);
        t.write[i] = time_write(bytes);
    }
    report_builds(&t, n, size, reps);
    commits_free(&c);
    free(items);
}
