/*
 * What a rebuild of the whole index does to those who ask and commit meanwhile: each lookup and each commit by the clock, in
 * turn without and beside a program that commits a few snapshots and has everything merged into one part, again and again.
 *
 * The slowest of a hundred is judged.  The slowest of all is printed: it is what a switch of maps costs, and what else the
 * machine does.
 */
#include "bench.h"

#include "synthetic.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SECONDS_EACH 0.5
#define NEWS 16 /* commits, so that there is something to merge */
#define SAMPLES_MAX 4000000
#define ASKED (1u << 18) /* questions, again and again: more than fit into the caches with their answers */

struct samples {
    uint32_t *ns;
    size_t count;
};

struct rebuilder {
    pthread_t thread;
    skade *s;
    const struct history *h;
    uint64_t from; /* of what is committed next */
    unsigned rebuilt;
    atomic_bool stop;
};

static void *rebuild(void *arg)
{
    struct rebuilder *r = arg;

    while (!atomic_load(&r->stop)) {
        struct skade_reindexed done = { .size = sizeof done };
        history_release(r->s, r->h, r->from, NEWS);
        r->from += NEWS;
        check(skade_reindex(r->s, &done), "reindex", r->s);
        r->rebuilt++;
    }
    return NULL;
}

static void add_sample(struct samples *s, double ns)
{
    if (s->count < SAMPLES_MAX)
        s->ns[s->count++] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

static void ask_all_the_time(skade *s, const struct question *q, struct samples *ret)
{
    double began = now_ns(), before = began;

    for (size_t i = 0; before < began + SECONDS_EACH * 1e9; i++) {
        client_single(s, &q[i % ASKED], 1);
        double now = now_ns();
        add_sample(ret, now - before);
        before = now;
    }
}

static void commit_all_the_time(skade *s, skade_table table, uint32_t *version, struct samples *ret)
{
    double began = now_ns(), before = began;
    char text[SYNTHETIC_LOCATION_MAX];

    while (before < began + SECONDS_EACH * 1e9) {
        struct skade_commit row = { .size = sizeof row,
                                    .table = table,
                                    .flags = SKADE_INTRODUCES | SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT,
                                    .snapshot = synthetic_id(table, *version),
                                    .location = text };
        synthetic_location(text, table, (*version)++);
        check(skade_commit(s, &row, NULL, NULL), "commit", s);
        double now = now_ns();
        add_sample(ret, now - before);
        before = now;
    }
}

static int compare_ns(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* The slowest of a hundred, and of all, in ns; S is empty then. */
static void take_worst(struct samples *s, double *p99, double *longest)
{
    if (s->count < 100)
        die("only %zu answers in %g s", s->count, SECONDS_EACH);
    qsort(s->ns, s->count, sizeof *s->ns, compare_ns);
    *p99 = s->ns[s->count - 1 - s->count / 100];
    *longest = s->ns[s->count - 1];
    s->count = 0;
}

struct worst {
    double ask[REPS_MAX], ask_longest[REPS_MAX], commit[REPS_MAX], commit_longest[REPS_MAX];
};

struct stage {
    skade *s;
    skade_table table; /* that is committed to */
    uint32_t version;
    struct question *questions;
    struct samples samples;
    struct rebuilder rebuilder;
};

static void measure_once(struct stage *st, struct worst *w, int rep)
{
    ask_all_the_time(st->s, st->questions, &st->samples);
    take_worst(&st->samples, &w->ask[rep], &w->ask_longest[rep]);
    commit_all_the_time(st->s, st->table, &st->version, &st->samples);
    take_worst(&st->samples, &w->commit[rep], &w->commit_longest[rep]);
}

static void measure_beside(struct stage *st, struct worst *w, int rep)
{
    struct rebuilder *r = &st->rebuilder;
    unsigned before = r->rebuilt;

    atomic_store(&r->stop, false);
    if (pthread_create(&r->thread, NULL, rebuild, r) != 0)
        die("no thread");
    measure_once(st, w, rep);
    atomic_store(&r->stop, true);
    pthread_join(r->thread, NULL);
    if (r->rebuilt == before)
        die("nothing was rebuilt in %g s", 2 * SECONDS_EACH);
}

static void report_pair(const char *what, const double *quiet, const double *beside, double by,
                        const char *unit, int reps)
{
    double scaled[2][REPS_MAX];
    char name[64];

    for (int i = 0; i < reps; i++) {
        scaled[0][i] = quiet[i] / by;
        scaled[1][i] = beside[i] / by;
    }
    snprintf(name, sizeof name, "%s, quiet", what);
    report_figure("rebuild", name, measure_of(scaled[0], reps), unit, ROW_OURS);
    snprintf(name, sizeof name, "%s, beside", what);
    report_figure("rebuild", name, measure_of(scaled[1], reps), unit, ROW_OURS);
}

static void judge(const char *name, const double *beside, const double *quiet, int reps)
{
    struct goal g = { .sense = AT_MOST, .floor = 2, .target = 2 };

    snprintf(g.name, sizeof g.name, "%s", name);
    goal_check(&g, measure_ratio(beside, quiet, reps));
}

void stage_rebuild(int reps)
{
    struct history h = { .tables = TABLES, .versions = 1000, .ids = IDS_RANDOM };
    static struct worst quiet, beside;
    struct stage *st = allocate(sizeof *st);

    daemon_start("full");
    history_fill(&h);
    st->s = daemon_open(0);
    st->questions = allocate(ASKED * sizeof *st->questions);
    st->samples.ns = allocate(SAMPLES_MAX * sizeof *st->samples.ns);
    st->rebuilder = (struct rebuilder){ .s = daemon_open(0), .h = &h, .from = history_rows(&h) };
    check(skade_create(st->s, "bench.commits", "s3://lake-production/warehouse/events.db", &st->table, NULL),
          "create", st->s);
    ask_at_random(&h, 0, st->questions, ASKED);
    client_see_heartbeat(&st->s, 1);
    for (int rep = 0; rep < reps; rep++) {
        end_if_interrupted();
        measure_once(st, &quiet, rep);
        measure_beside(st, &beside, rep);
    }
    report_pair("slowest lookup of a hundred", quiet.ask, beside.ask, 1, "ns", reps);
    report_pair("longest lookup", quiet.ask_longest, beside.ask_longest, 1e3, "us", reps);
    report_pair("slowest commit of a hundred", quiet.commit, beside.commit, 1e3, "us", reps);
    report_pair("longest commit", quiet.commit_longest, beside.commit_longest, 1e3, "us", reps);
    judge("speed.rebuild_lookup_p99", beside.ask, quiet.ask, reps);
    judge("speed.rebuild_commit_p99", beside.commit, quiet.commit, reps);
    skade_close(st->rebuilder.s);
    skade_close(st->s);
    daemon_stop();
    free(st->questions);
    free(st->samples.ns);
    free(st);
}
