/*
 * The part alone, in one process: how long are questions by id, building and merging, next to what memory allows.
 *
 *      bench_part [ROWS [TABLES]]        default 10000 and 1000000 rows, 1000 tables
 *
 * Single questions are fenced: one starts when the one before is answered.  `chase` is a pointer chase through as much
 * memory as the part has: what one dependent line costs.
 */
#include "part_view.h"

#include <immintrin.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define BATCH 1024
#define TEXT_MAX 160
#define QUESTIONS 1000000

static uint64_t state = 1;

static uint64_t next_random(void)
{
    state += 0x9e3779b97f4a7c15ull;
    return mix64(state);
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *map(size_t size)
{
    const size_t huge = 2u << 20;
    size_t rounded = align_up(size, huge);
    char *raw = mmap(NULL, rounded + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED)
        abort();
    char *aligned = (char *)align_up((uintptr_t)raw, huge);
    madvise(aligned, rounded, MADV_HUGEPAGE);
    return aligned;
}

/* ---- rows ------------------------------------------------------------------------------------------------ */

struct rows {
    struct part_info info;
    struct event *events;
    const struct event **list;
    size_t n;
    uint32_t tables;
};

static struct rows make_rows(size_t n, uint32_t tables)
{
    struct rows rows = { .info = { .seed = 99, .to_seq = n }, .n = n, .tables = tables };
    rows.events = map(n * sizeof *rows.events);
    rows.list = map(n * sizeof *rows.list);
    char *texts = map(n * TEXT_MAX);
    for (size_t i = 0; i < n; i++) {
        char *text = texts + i * TEXT_MAX;
        uint64_t a = next_random();
        uint64_t b = next_random();
        uint32_t table = 1 + (uint32_t)(next_random() % tables);
        int len = snprintf(
            text, TEXT_MAX,
            "s3://company-lake/warehouse/namespace/table_%06u/metadata/%05u-%08x-%04x-%04x-%04x-%012llx"
            ".metadata.json",
            table, (unsigned)(i / tables), (unsigned)(a >> 32), (unsigned)(a >> 16) & 0xffff,
            (unsigned)a & 0xffff, (unsigned)(b >> 48), (unsigned long long)b & 0xffffffffffff);
        rows.events[i] = (struct event){ .seq = i + 1,
                                         .kind = EVENT_COMMIT,
                                         .flags = EVENT_INTRODUCES | EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT,
                                         .table = table,
                                         .snapshot = (int64_t)next_random(),
                                         .time_us = 1700000000000000 + (int64_t)i * 1000,
                                         .text = { text, (size_t)len } };
        rows.list[i] = &rows.events[i];
    }
    return rows;
}

static void check(int r, const char *what)
{
    if (r < 0) {
        fprintf(stderr, "bench_part: %s: %s\n", what, error_text(r));
        exit(1);
    }
}

static int compare_pairs(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return (x[0] > y[0]) - (x[0] < y[0]);
}

/* What building is measured by: qsort() of 16 bytes per row. */
static void bench_qsort(size_t n)
{
    uint64_t(*pairs)[2] = map(n * sizeof *pairs);
    for (size_t i = 0; i < n; i++)
        pairs[i][0] = next_random();
    double start = now_ns();
    qsort(pairs, n, sizeof *pairs, compare_pairs);
    printf("  qsort of 16 bytes per row, ms: %.1f\n", (now_ns() - start) / 1e6);
}

/* ---- building -------------------------------------------------------------------------------------------- */

static struct part *open_filled(struct part_plan *plan, size_t *size)
{
    struct part *p;
    *size = part_plan_size(plan);
    void *mem = map(*size);
    memset(mem, 1, *size);
    double start = now_ns();
    check(part_plan_fill(plan, mem, *size), "fill");
    printf(", fill %.1f", (now_ns() - start) / 1e6);
    part_plan_free(plan);
    start = now_ns();
    check(part_open(&p, mem, *size, PART_VERIFY, NULL), "open");
    printf(", open and verify %.1f\n", (now_ns() - start) / 1e6);
    return p;
}

static struct part *build(const struct rows *rows, size_t from, size_t to, size_t *size)
{
    struct part_plan *plan;
    struct part_info info = rows->info;
    info.from_seq = from;
    info.to_seq = to;
    double start = now_ns();
    check(part_plan_rows(&plan, &info, rows->list + from, to - from), "plan");
    printf("  build %zu rows, ms: plan %.1f", to - from, (now_ns() - start) / 1e6);
    return open_filled(plan, size);
}

static void bench_merge(const struct rows *rows)
{
    struct part *parts[2];
    struct part_plan *plan;
    size_t size;
    size_t middle = rows->n > 200000 ? rows->n - 65536 : rows->n / 2;
    parts[0] = build(rows, 0, middle, &size);
    parts[1] = build(rows, middle, rows->n, &size);
    double start = now_ns();
    check(part_plan_merge(&plan, &rows->info, parts, 2), "merge");
    printf("  merge them, ms: plan %.1f", (now_ns() - start) / 1e6);
    open_filled(plan, &size);
}

/* ---- questions ------------------------------------------------------------------------------------------- */

static double chase(size_t size)
{
    size_t n = size / CACHE_LINE;
    uint64_t(*lines)[CACHE_LINE / 8] = map(n * CACHE_LINE);
    uint32_t *cycle = malloc(n * sizeof *cycle);
    for (uint32_t i = 0; i < n; i++)
        cycle[i] = i;
    for (size_t i = n; i > 1; i--) {
        size_t k = next_random() % i;
        uint32_t swap = cycle[i - 1];
        cycle[i - 1] = cycle[k];
        cycle[k] = swap;
    }
    for (size_t i = 0; i < n; i++)
        lines[cycle[i]][0] = cycle[(i + 1) % n];
    uint64_t at = 0;
    double start = now_ns();
    for (int i = 0; i < QUESTIONS; i++)
        at = lines[at][0];
    double ns = (now_ns() - start) / QUESTIONS;
    free(cycle);
    return at == UINT64_MAX ? 0 : ns;
}

struct question {
    int64_t id;
    uint32_t table;
};

/* MISSES of 100 questions ask for ids that aren't there. */
static struct question *make_questions(const struct rows *rows, unsigned misses)
{
    struct question *questions = map(QUESTIONS * sizeof *questions);
    for (size_t i = 0; i < QUESTIONS; i++) {
        const struct event *e = &rows->events[next_random() % rows->n];
        questions[i].table = e->table;
        questions[i].id = next_random() % 100 < misses ? (int64_t)next_random() : e->snapshot;
    }
    return questions;
}

static char answers[BATCH][TEXT_MAX];
static struct part_query queries[BATCH];

static void ask_single(const struct part *p, const struct question *questions)
{
    for (size_t i = 0; i < QUESTIONS; i++) {
        _mm_lfence();
        part_resolve(p, NULL, questions[i].table, questions[i].id, &queries[i % BATCH]);
    }
}

static void ask_tree(const struct part *p, const struct question *questions)
{
    for (size_t i = 0; i < QUESTIONS; i++) {
        _mm_lfence();
        part_resolve_by_tree(p, NULL, questions[i].table, questions[i].id, &queries[i % BATCH]);
    }
}

typedef size_t resolve_many(const struct part *p, struct part_many *m, uint32_t *list, size_t n);

static inline void ask_many(const struct part *p, const struct question *questions, resolve_many *resolve)
{
    static uint32_t list[BATCH], odd[BATCH];
    for (size_t i = 0; i + BATCH <= QUESTIONS; i += BATCH) {
        struct part_many m = { .first = queries, .stride = sizeof queries[0], .odd = odd };
        for (uint32_t k = 0; k < BATCH; k++) {
            queries[k].table = questions[i + k].table;
            queries[k].id = questions[i + k].id;
            list[k] = k;
        }
        resolve(p, &m, list, BATCH);
    }
}

static void ask_batches(const struct part *p, const struct question *questions)
{
    ask_many(p, questions, part_resolve_many);
}

static void ask_tree_batches(const struct part *p, const struct question *questions)
{
    ask_many(p, questions, part_resolve_many_by_tree);
}

typedef void ask_function(const struct part *, const struct question *);

/* The best of a few runs, ns per question: others use the machine too. */
static double best(ask_function *ask, const struct part *p, const struct question *questions)
{
    double least = INFINITY;
    for (int i = 0; i < 5; i++) {
        double start = now_ns();
        ask(p, questions);
        double ns = (now_ns() - start) / QUESTIONS;
        least = ns < least ? ns : least;
    }
    return least;
}

static void bench_questions(struct part *p, const struct rows *rows)
{
    static const char *const names[] = { "scalar", "avx2", "avx512" };
    static const unsigned misses[] = { 0, 50, 100 };
    for (size_t i = 0; i < BATCH; i++)
        queries[i] = (struct part_query){ .location = answers[i], .location_cap = TEXT_MAX };
    for (size_t k = 0; k < ARRAY_SIZE(misses); k++) {
        struct question *questions = make_questions(rows, misses[k]);
        for (enum part_isa isa = PART_SCALAR; isa <= PART_AVX512; isa++) {
            if (!part_isa_has(isa))
                continue;
            part_use_isa(p, isa);
            double single = best(ask_single, p, questions);
            double tree = best(ask_tree, p, questions);
            double batch = best(ask_batches, p, questions);
            double tree_batch = best(ask_tree_batches, p, questions);
            printf("  %3u%% misses, %-6s, ns: single %.0f, by tree %.0f, batch %.1f, by tree %.1f\n",
                   misses[k], names[isa], single, tree, batch, tree_batch);
        }
    }
}

static void bench(size_t n, uint32_t tables)
{
    size_t size;
    printf("%zu rows, %u tables\n", n, tables);
    struct rows rows = make_rows(n, tables);
    struct part *p = build(&rows, 0, n, &size);
    printf("  %.1f bytes/row; reach %u, extras %llu; chase %.0f ns\n", (double)size / (double)n,
           part_header(p)->reach, (unsigned long long)part_header(p)->extras.count, chase(size));
    bench_questions(p, &rows);
    bench_qsort(n);
    bench_merge(&rows);
}

int main(int argc, char **argv)
{
    uint32_t tables = argc > 2 ? (uint32_t)atol(argv[2]) : 1000;
    if (argc > 1) {
        bench(strtoull(argv[1], NULL, 10), tables);
        return 0;
    }
    bench(10000, tables);
    bench(1000000, tables);
    return 0;
}
