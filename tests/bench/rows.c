/*
 * Rows side by side: repetitions, medians, ratios.
 */
#include "bench.h"

#include <stdlib.h>

#define QUESTIONS_MAX ((size_t)1 << 18)

static struct question questions[QUESTIONS_MAX];

struct row *rows_add(struct rows *rows, struct row row)
{
    if (rows->count == ARRAY_SIZE(rows->row) || row.n > QUESTIONS_MAX)
        die("row %s doesn't fit", row.name);
    rows->row[rows->count] = row;
    return &rows->row[rows->count++];
}

/* ---- repetitions ------------------------------------------------------------------------------------------------ */

static void ask(const struct row *row, size_t n)
{
    if (row->heads)
        ask_for_heads(row->history, questions, n);
    else if (row->history)
        ask_at_random(row->history, row->misses, questions, n);
}

/* Others used the caches meanwhile.  What a row that runs all day has in them (upper levels of trees, templates,
 * code), it has again after some questions; what it then asks for are other ids. */
static void warm_up(const struct row *row)
{
    size_t n = align_up(row->n / 4, WINDOW);

    ask(row, n);
    row->run(row->arg, questions, n);
}

static uint64_t judge(const struct row *row)
{
    if (!row->history || row->depth == NO_ANSWER)
        return 0;
    return judge_answers(row->history, questions, row->n, row->depth);
}

/* What asks memory alone is measured in the processor's time, so that others who run on this processor meanwhile don't
 * count; what waits for another process, by the clock. */
static double time_of(const struct row *row)
{
    return row->waits ? now_ns() : processor_ns();
}

static uint64_t run_once(struct row *row, int rep)
{
    end_if_interrupted();
    warm_up(row);
    ask(row, row->n);
    answers_clear();
    double began = time_of(row);
    row->run(row->arg, questions, row->n);
    row->ns[rep] = (time_of(row) - began) / (double)row->n;
    return judge(row);
}

/* In another order each time: a row finds the caches as the one before left them. */
static void shuffle(size_t *order, size_t n)
{
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = n; i > 1; i--) {
        size_t k = random_next() % i, swap = order[i - 1];
        order[i - 1] = order[k];
        order[k] = swap;
    }
}

void rows_run(struct rows *rows, int reps)
{
    size_t order[ROWS_MAX];

    rows->reps = reps;
    for (int rep = 0; rep < reps; rep++) {
        shuffle(order, rows->count);
        for (size_t i = 0; i < rows->count; i++)
            rows->wrong += run_once(&rows->row[order[i]], rep);
    }
}

/* ---- medians ------------------------------------------------------------------------------------------------------ */

static int compare_doubles(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The value below which SHARE of the sorted samples are, between two samples if need be. */
static double quantile(const double *sorted, int n, double share)
{
    double at = share * (n - 1);
    int below = (int)at;

    return below + 1 < n ? sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]) : sorted[below];
}

struct measure measure_of(const double *samples, int n)
{
    double sorted[REPS_MAX];

    memcpy(sorted, samples, (size_t)n * sizeof *samples);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_doubles);
    return (struct measure){ quantile(sorted, n, 0.5),
                             (quantile(sorted, n, 0.75) - quantile(sorted, n, 0.25)) / 2 };
}

struct measure measure_ratio(const double *over, const double *under, int n)
{
    double ratio[REPS_MAX];

    for (int i = 0; i < n; i++)
        ratio[i] = over[i] / under[i];
    return measure_of(ratio, n);
}

static bool is_named(const struct row *row, const char *name)
{
    size_t len = strlen(name);
    return len > 0 && name[len - 1] == '.' ? strncmp(row->name, name, len) == 0
                                           : strcmp(row->name, name) == 0;
}

const struct row *rows_find(const struct rows *rows, const char *name)
{
    const struct row *best = NULL;
    double least = 0;

    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->row[i];
        if (!is_named(row, name))
            continue;
        double median = measure_of(row->ns, rows->reps).median;
        if (!best || median < least) {
            best = row;
            least = median;
        }
    }
    return best;
}

struct measure row_ns(const struct rows *rows, const char *name)
{
    return measure_of(rows_find(rows, name)->ns, rows->reps);
}

struct measure row_ratio(const struct rows *rows, const char *over, const char *under, double factor)
{
    const struct row *a = rows_find(rows, over), *b = rows_find(rows, under);
    double ratio[REPS_MAX];

    for (int rep = 0; rep < rows->reps; rep++)
        ratio[rep] = a->ns[rep] / b->ns[rep] * factor;
    return measure_of(ratio, rows->reps);
}
