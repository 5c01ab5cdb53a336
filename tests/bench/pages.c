/*
 * A page of a table's history: what it costs at the beginning, in the middle and at the end of a long one, next to a page
 * that is all that its table has.  It should cost what is on the page, wherever it is.
 *
 * Told in processor time, the daemon's and ours together: the daemon looks the page up, and others compute meanwhile.
 */
#include "bench.h"

#include "synthetic.h"

#include <stdlib.h>

#define VERSIONS 200000 /* of the long history */
#define PAGE 100
#define PAGES 32 /* of one measurement */
#define RELEASE 4096

enum where { SHORT, NEWEST, MIDDLE, OLDEST, LARGE, KINDS };

static const char *const names[KINDS] = {
    [SHORT] = "short_history", [NEWEST] = "newest",      [MIDDLE] = "middle",
    [OLDEST] = "oldest",       [LARGE] = "page_of_1000",
};

static uint64_t wrong;

/* ---- the two tables ----------------------------------------------------------------------------------------------- */

struct tables {
    skade_table longer;
    skade_table shorter[PAGES]; /* a page of each: nothing is read twice */
    uint64_t first_seq; /* of the longer one, which has the sequence numbers from there on for itself */
};

static void commit_many(skade *s, skade_table table, uint32_t from, uint32_t n, uint64_t *first)
{
    static struct skade_commit rows[RELEASE];
    static char texts[RELEASE][SYNTHETIC_LOCATION_MAX];

    for (uint32_t i = 0; i < n; i++) {
        synthetic_location(texts[i], table, from + i);
        rows[i] = (struct skade_commit){ .size = sizeof rows[i],
                                         .table = table,
                                         .flags = SKADE_INTRODUCES | SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT,
                                         .snapshot = synthetic_id(table, from + i),
                                         .location = texts[i] };
    }
    check(skade_release(s, rows, n, first, NULL), "release", s);
}

static skade_table create(skade *s, uint32_t number)
{
    char name[32];
    skade_table ret;

    check(skade_create(s, synthetic_table(name, number), "s3://lake-production/warehouse/events.db", &ret,
                       NULL),
          "create", s);
    return ret;
}

static struct tables fill(skade *s)
{
    struct tables t = { .longer = create(s, 1) };
    struct skade_reindexed done = { .size = sizeof done };

    for (uint32_t i = 0; i < PAGES; i++) {
        t.shorter[i] = create(s, 2 + i);
        commit_many(s, t.shorter[i], 0, PAGE - 1, NULL); /* and its creation: a page */
    }
    for (uint32_t at = 0; at < VERSIONS; at += RELEASE) {
        uint64_t first;
        commit_many(s, t.longer, at, VERSIONS - at < RELEASE ? VERSIONS - at : RELEASE, &first);
        if (at == 0)
            t.first_seq = first;
    }
    check(skade_reindex(s, &done), "reindex", s);
    return t;
}

/* ---- pages ---------------------------------------------------------------------------------------------------------- */

struct page {
    uint64_t last, count;
    bool gapless;
};

static int take(void *arg, const struct skade_event *e)
{
    struct page *p = arg;

    if (p->gapless && e->seq != p->last - 1)
        wrong++;
    p->last = e->seq;
    p->count++;
    return 0;
}

static double spent_ns(void)
{
    return processor_ns() + daemon_processor_ns();
}

static void read_page(skade *s, skade_table table, uint64_t before, uint64_t limit, bool gapless)
{
    struct page p = { .last = before, .gapless = gapless };
    int64_t n = skade_history(s, table, before, limit, take, &p);

    check((int)n, "history", s);
    wrong += (uint64_t)n != limit || p.count != limit;
}

/* Pages that follow each other, as somebody reads on. */
static void read_on(skade *s, const struct tables *t, uint64_t before, uint64_t limit)
{
    for (int i = 0; i < PAGES; i++, before -= limit)
        read_page(s, t->longer, before, limit, true);
}

static void read_short(skade *s, const struct tables *t)
{
    for (int i = 0; i < PAGES; i++)
        read_page(s, t->shorter[i], 0, PAGE, false);
}

/* Microseconds of a page. */
static double measure(skade *s, const struct tables *t, enum where where)
{
    uint64_t end = t->first_seq + VERSIONS;
    double began = spent_ns();

    if (where == SHORT)
        read_short(s, t);
    else if (where == LARGE)
        read_on(s, t, end, 1000);
    else
        read_on(s, t, where == NEWEST ? end : t->first_seq + (where == MIDDLE ? VERSIONS / 2 : PAGE * PAGES),
                PAGE);
    return (spent_ns() - began) * 1e-3 / PAGES;
}

void stage_pages(int reps)
{
    static double us[KINDS][REPS_MAX];
    double oldest[REPS_MAX], longer[REPS_MAX];

    daemon_start("normal");
    skade *s = daemon_open(0);
    struct tables t = fill(s);
    for (int rep = 0; rep < reps; rep++) {
        end_if_interrupted();
        for (int k = 0; k < KINDS; k++)
            us[(k + rep) % KINDS][rep] = measure(s, &t, (enum where)((k + rep) % KINDS));
        oldest[rep] = us[OLDEST][rep] / us[NEWEST][rep];
        longer[rep] = us[NEWEST][rep] / us[SHORT][rep];
    }
    for (int k = 0; k < KINDS; k++)
        report_figure("history", names[k], measure_of(us[k], reps), "us", ROW_OURS);
    goals_of_pages(measure_of(oldest, reps), measure_of(longer, reps), wrong);
    skade_close(s);
    daemon_stop();
}
