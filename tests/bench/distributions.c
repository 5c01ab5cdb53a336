/*
 * Ids of many kinds over the index alone, next to random ones: keys are mixed, so nothing should depend on the kind.
 */
#include "bench.h"

#define RUNS 6
#define QUESTIONS (32 * WINDOW)

struct kind {
    const char *single, *batch; /* names of rows */
    struct history history;
};

static void add(struct rows *rows, const struct kind *k, struct lone_part *part)
{
    struct row single = { .name = k->single,
                          .kind = ROW_OURS,
                          .run = part_single,
                          .arg = part,
                          .n = QUESTIONS / 2,
                          .history = &k->history,
                          .depth = WHOLE_ANSWER };
    struct row batch = single;

    batch.name = k->batch;
    batch.run = part_batch;
    batch.n = QUESTIONS;
    rows_add(rows, single);
    rows_add(rows, batch);
}

void stage_distributions(uint64_t n, int reps)
{
    static struct rows rows;
    uint32_t many = 100000, versions = (uint32_t)(n / 1000), few = (uint32_t)(n / many);
    const struct kind kinds[RUNS] = {
        { "single-random", "batch-random", { 1000, versions, IDS_RANDOM, 1 } },
        { "single-counted", "batch-counted", { 1000, versions, IDS_COUNTED, 1 } },
        { "single-one_table", "batch-one_table", { 1, (uint32_t)n, IDS_COUNTED, 1 } },
        { "single-timed", "batch-timed", { 1000, versions, IDS_TIMED, 1 } },
        { "single-outlier", "batch-outlier", { 1000, versions, IDS_OUTLIER, 1 } },
        { "single-shared", "batch-shared", { many, few, IDS_SHARED, 1 } },
    };
    struct lone_part *parts[RUNS];

    rows = (struct rows){ .count = 0 };
    for (size_t i = 0; i < RUNS; i++) {
        parts[i] = lone_part_build(&kinds[i].history);
        add(&rows, &kinds[i], parts[i]);
    }
    answers_clear();
    rows_run(&rows, reps);
    report_rows("distributions", &rows);
    goals_of_distributions(&rows);
    for (size_t i = 0; i < RUNS; i++)
        lone_part_close(parts[i]);
}
