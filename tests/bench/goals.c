/*
 * The goals, and how they are judged.
 *
 * pass: the figure reaches the target.  floor: it reaches the floor only.  fail: it doesn't.  A failure counts for the
 * exit code when it is larger than the spread that was measured.  Speed of lookups was agreed upon with AVX-512: on a
 * processor without it those goals are printed and don't count.
 */
#include "bench.h"

#include "part.h"

#include <stdlib.h>

/* ---- judging ---------------------------------------------------------------------------------------------------- */

static int failed;

static bool reaches(enum sense sense, double figure, double bound)
{
    return sense == AT_LEAST ? figure >= bound : figure <= bound;
}

enum verdict goal_judge(const struct goal *g, struct measure m)
{
    if (reaches(g->sense, m.median, g->target))
        return PASS;
    return reaches(g->sense, m.median, g->floor) ? FLOOR : FAIL;
}

bool goal_counts_as_failed(const struct goal *g, struct measure m)
{
    double favourable = m.median + (g->sense == AT_LEAST ? m.spread : -m.spread);

    if (g->avx512 && part_isa_best() != PART_AVX512)
        return false;
    return goal_judge(g, m) == FAIL && !reaches(g->sense, favourable, g->floor);
}

void goal_check(const struct goal *g, struct measure m)
{
    failed += goal_counts_as_failed(g, m);
    report_goal(g, m, goal_judge(g, m));
}

int goals_failed(void)
{
    return failed;
}

/* ---- lookups by size ------------------------------------------------------------------------------------------------ */

enum { SMALL, MIDDLE, LARGE, SIZES }; /* 10^4, 10^6, 10^7 */

/* Row OVER by row UNDER; floors and targets by size, 0 where nothing is judged. */
struct ratio_goal {
    const char *name, *over, *under;
    enum sense sense;
    struct {
        double floor, target;
    } size[SIZES];
};

static const struct ratio_goal lookup_goals[] = {
    { "single_lmdb", "lmdb.", "single", AT_LEAST, { { 3, 3.7 }, { 3.5, 4.3 }, { 4.2, 5.2 } } },
    { "single_sqlite", "sqlite.", "single", AT_LEAST, { { 10, 12.5 }, { 5.6, 7 }, { 6.5, 8 } } },
    { "batch_lmdb", "lmdb.", "batch", AT_LEAST, { { 8.5, 10.8 }, { 20, 25 }, { 25, 31 } } },
    { "batch_sqlite", "sqlite.", "batch", AT_LEAST, { { 29, 36 }, { 34, 42 }, { 37, 46 } } },
    { "tree_single_lmdb", "lmdb.", "tree-single", AT_LEAST, { { 2.5, 2.5 }, { 2.2, 2.2 }, { 1.8, 1.8 } } },
    { "tree_batch_lmdb", "lmdb.", "tree-batch", AT_LEAST, { { 9, 9 }, { 15, 15 }, { 18, 18 } } },
    { "tree_share", "keys-hash", "keys-tree", AT_LEAST, { { .4, .45 }, { .55, .65 }, { .45, .55 } } },
    { "single_chase", "single", "chase", AT_MOST, { { 0, 0 }, { 1.6, 1.4 }, { 1.6, 1.45 } } },
    { "single_half_misses",
      "single-half",
      "single",
      AT_MOST,
      { { 1.15, 1.15 }, { 1.15, 1.15 }, { 1.15, 1.15 } } },
    { "batch_half_misses",
      "batch-half",
      "batch",
      AT_MOST,
      { { 1.15, 1.15 }, { 1.15, 1.15 }, { 1.15, 1.15 } } },
    { "as_of_resolve", "as_of", "single", AT_MOST, { { 2, 2 }, { 2, 2 }, { 2, 2 } } },
    { "by_name_resolve", "by_name", "single", AT_MOST, { { 2, 2 }, { 2, 2 }, { 2, 2 } } },
};

/* Where the target is on the plot: at the time that ours would need with the other as it is. */
static void mark_target(const struct rows *rows, const struct ratio_goal *r, double target,
                        const char *size_name)
{
    char group[48];

    snprintf(group, sizeof group, "lookups-%s", size_name);
    if (r->sense == AT_LEAST)
        report_mark(group, r->under, row_ns(rows, r->over).median / target);
    else
        report_mark(group, r->over, row_ns(rows, r->under).median * target);
}

static void check_ratio(const struct rows *rows, const struct ratio_goal *r, int size, const char *size_name)
{
    struct goal g = {
        .sense = r->sense, .floor = r->size[size].floor, .target = r->size[size].target, .avx512 = true
    };

    if (g.target == 0 || !rows_find(rows, r->over) || !rows_find(rows, r->under))
        return;
    snprintf(g.name, sizeof g.name, "speed.%s.%s", r->name, size_name);
    goal_check(&g, row_ratio(rows, r->over, r->under, 1));
    mark_target(rows, r, g.target, size_name);
}

/* Not judged in the small index, which is in the cache. */
static void check_lines(const struct rows *rows, int size, const char *size_name, double lines)
{
    struct goal g = { .sense = AT_MOST,
                      .floor = size == LARGE ? 2.3 : 2.2,
                      .target = size == LARGE ? 2.0 : 1.8,
                      .avx512 = true };

    if (size == SMALL)
        return;
    snprintf(g.name, sizeof g.name, "speed.batch_lines.%s", size_name);
    goal_check(&g, row_ratio(rows, "batch", "line", 1 / lines));
}

void goals_of_lookups(const struct rows *rows, const char *size_name, uint64_t n, double lines)
{
    int size = n < 1000000 ? SMALL : n < 10000000 ? MIDDLE : LARGE;

    for (size_t i = 0; i < ARRAY_SIZE(lookup_goals); i++)
        check_ratio(rows, &lookup_goals[i], size, size_name);
    check_lines(rows, size, size_name, lines);
}

/* ---- the others ------------------------------------------------------------------------------------------------------- */

static void check_kind(const struct rows *rows, const char *how, const char *kind, double most)
{
    struct goal g = { .sense = AT_MOST, .floor = most, .target = most };
    char over[32], under[32];

    snprintf(over, sizeof over, "%s-%s", how, kind);
    snprintf(under, sizeof under, "%s-random", how);
    snprintf(g.name, sizeof g.name, "speed.ids_%s.%s", kind, how);
    goal_check(&g, row_ratio(rows, over, under, 1));
}

void goals_of_distributions(const struct rows *rows)
{
    static const char *const kinds[] = { "counted", "one_table", "timed", "outlier" };
    struct goal wrong = { .name = "index.wrong_answers.ids", .sense = AT_MOST };

    goal_check(&wrong, (struct measure){ (double)rows->wrong, 0 });
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        check_kind(rows, "single", kinds[i], 1.3);
        check_kind(rows, "batch", kinds[i], 1.3);
    }
    check_kind(rows, "single", "shared", 1.6);
    check_kind(rows, "batch", "shared", 1.6);
}

void goals_of_commits(struct measure gain)
{
    static const struct goal concurrent = {
        .name = "speed.commits_64", .sense = AT_LEAST, .floor = 10, .target = 10
    };

    goal_check(&concurrent, gain);
}

void goals_of_writers(struct measure sqlite, struct measure syncs)
{
    static const struct goal gain = {
        .name = "speed.commits_sqlite_64", .sense = AT_LEAST, .floor = 10, .target = 10
    };
    static const struct goal one = {
        .name = "index.syncs_per_commit", .sense = AT_MOST, .floor = 1, .target = 1
    };

    goal_check(&gain, sqlite);
    goal_check(&one, syncs);
}

/* A count of what must never be. */
static void check_none(const char *name, uint64_t count)
{
    struct goal g = { .sense = AT_MOST };

    snprintf(g.name, sizeof g.name, "%s", name);
    goal_check(&g, (struct measure){ (double)count, 0 });
}

void goals_of_scaling(struct measure single, struct measure batch, uint64_t waits, uint64_t wrong,
                      uint64_t asked)
{
    static const struct goal of_single = {
        .name = "speed.two_processes.single", .sense = AT_LEAST, .floor = 1.8, .target = 1.8
    };
    static const struct goal of_batch = {
        .name = "speed.two_processes.batch", .sense = AT_LEAST, .floor = 1.8, .target = 1.8
    };

    goal_check(&of_single, single);
    goal_check(&of_batch, batch);
    report_mark("scaling", "single", of_single.target);
    report_mark("scaling", "batch", of_batch.target);
    check_none("index.waits.two_processes", waits);
    check_none("index.wrong_answers.two_processes", wrong);
    check_none("index.socket_requests.two_processes", asked);
}

/* Nothing measurable: what is within 3 % can't be told from nothing here. */
void goals_of_idle(struct measure ratio)
{
    static const struct goal idle = {
        .name = "speed.idle_200_publication", .sense = AT_MOST, .floor = 1.03, .target = 1.03
    };

    goal_check(&idle, ratio);
}

/* What is on the page is the same; that its events are elsewhere in memory may cost a little. */
void goals_of_pages(struct measure oldest, struct measure longer, uint64_t wrong)
{
    static const struct goal by_newest = {
        .name = "speed.history_page.oldest_newest", .sense = AT_MOST, .floor = 1.3, .target = 1.3
    };
    static const struct goal by_short = {
        .name = "speed.history_page.long_short", .sense = AT_MOST, .floor = 1.3, .target = 1.3
    };

    goal_check(&by_newest, oldest);
    goal_check(&by_short, longer);
    check_none("index.wrong_answers.history", wrong);
}

void goal_of_tail(const char *name, const char *how, struct measure ratio, double most)
{
    struct goal g = { .sense = AT_MOST, .floor = most, .target = most };

    snprintf(g.name, sizeof g.name, "speed.%s.%s", name, how);
    goal_check(&g, ratio);
}

void goals_of_tail(uint64_t wrong, uint64_t asked)
{
    check_none("index.wrong_answers.tail", wrong);
    check_none("index.socket_requests.tail", asked);
}

void goals_of_tables(size_t bytes, struct measure append, struct measure scan, struct measure compact)
{
    struct goal goals[] = { { .sense = AT_LEAST, .floor = 1, .target = 1 },
                            { .sense = AT_LEAST, .floor = 5, .target = 5 },
                            { .sense = AT_MOST, .floor = 2, .target = 2 } };
    static const char *const names[] = { "append_lmdb", "scan_sqlite", "compact_zstd" };
    const struct measure measures[] = { append, scan, compact };

    for (size_t i = 0; i < ARRAY_SIZE(goals); i++) {
        snprintf(goals[i].name, sizeof goals[i].name, "speed.%s.%zu", names[i], bytes);
        goal_check(&goals[i], measures[i]);
    }
}

/* What the seed's engine was measured to do, and asked to do. */
void goals_of_small_rows(struct measure entries, struct measure compact)
{
    static const struct goal scanned = {
        .name = "speed.scan_entries.8", .sense = AT_LEAST, .floor = 11, .target = 11
    };
    static const struct goal compacted = {
        .name = "speed.compact_seconds.8", .sense = AT_MOST, .floor = 1, .target = 1
    };

    goal_check(&scanned, entries);
    goal_check(&compacted, compact);
}
