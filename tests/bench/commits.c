/*
 * Commits by one program and by 64 at a time, next to what the disk takes for one durable write and what the processors
 * take for as many questions that need no disk; and how soon new commits are in the index that everybody has mapped.
 */
#include "bench.h"

#include "synthetic.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#define COMMITTERS 64
#define SECONDS_EACH 0.25
#define COUNTED 100 /* commits, each by itself */
#define PAGE 4096

static double seconds(void)
{
    return now_ns() * 1e-9;
}

/* ---- what the disk takes ------------------------------------------------------------------------------------------- */

/* Durable writes of a page, one after the other, per second. */
static double disk_rate(void)
{
    static const char page[PAGE];
    char path[512];
    uint64_t n = 0;

    snprintf(path, sizeof path, "%s/page", place_folder());
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || posix_fallocate(fd, 0, 64 * PAGE) != 0 || fsync(fd) < 0)
        die("cannot write %s: %s", path, strerror(errno));
    double began = seconds();
    for (; seconds() < began + SECONDS_EACH; n++) {
        if (pwrite(fd, page, PAGE, (off_t)(n % 64) * PAGE) != PAGE || fdatasync(fd) < 0)
            die("cannot write %s: %s", path, strerror(errno));
    }
    double rate = (double)n / (seconds() - began);
    close(fd);
    unlink(path);
    return rate;
}

/* ---- committers ---------------------------------------------------------------------------------------------------------- */

struct committer {
    pthread_t thread;
    skade *s;
    skade_table table;
    uint32_t version; /* the next */
    uint64_t in_time; /* commits of this round that were acknowledged before its end */
};

static double until; /* set before the threads start */

static void commit_one(struct committer *c)
{
    char text[SYNTHETIC_LOCATION_MAX];
    struct skade_commit row = { .size = sizeof row,
                                .table = c->table,
                                .flags = SKADE_INTRODUCES | SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT,
                                .snapshot = synthetic_id(c->table, c->version),
                                .location = text };

    synthetic_location(text, c->table, c->version++);
    check(skade_commit(c->s, &row, NULL, NULL), "commit", c->s);
}

/* A question that the daemon answers at once: what a commit costs beside the log and the disk. */
static void ping_one(struct committer *c)
{
    check(skade_ping(c->s), "ping", c->s);
}

static void (*do_one)(struct committer *c); /* set before the threads start */

static void *go_on_until_stopped(void *arg)
{
    struct committer *c = arg;

    for (c->in_time = 0; seconds() < until; c->in_time += seconds() < until)
        do_one(c);
    return NULL;
}

/* How often per second the first N of C do ONE. */
static double rate_of(struct committer *c, int n, void (*one)(struct committer *c))
{
    uint64_t sum = 0;

    do_one = one;
    until = seconds() + SECONDS_EACH;
    for (int i = 0; i < n; i++) {
        if (pthread_create(&c[i].thread, NULL, go_on_until_stopped, &c[i]) != 0)
            die("no thread");
    }
    for (int i = 0; i < n; i++) {
        pthread_join(c[i].thread, NULL);
        sum += c[i].in_time;
    }
    return (double)sum / SECONDS_EACH;
}

/* How often the daemon waits for the disk, by commit, when one follows the other. */
static double syncs_per_commit(struct committer *c)
{
    uint64_t before = daemon_syncs();

    for (int i = 0; i < COUNTED; i++)
        commit_one(c);
    return (double)(daemon_syncs() - before) / COUNTED;
}

static void open_committers(struct committer *c)
{
    char name[32];

    for (uint32_t i = 0; i < COMMITTERS; i++) {
        c[i] = (struct committer){ .s = daemon_open(0) };
        check(skade_create(c[i].s, synthetic_table(name, i), "s3://lake-production/warehouse/events.db",
                           &c[i].table, NULL),
              "create", c[i].s);
    }
}

/* At so many at a time. */
static const int crowds[] = { 1, 4, 16, COMMITTERS };
#define CROWDS ARRAY_SIZE(crowds)

struct commit_rates {
    double disk[REPS_MAX], syncs[REPS_MAX], pings[REPS_MAX];
    double skade[CROWDS][REPS_MAX], sqlite[CROWDS][REPS_MAX];
};

static void measure_commits(struct committer *c, struct writers *w, int rep, struct commit_rates *r)
{
    end_if_interrupted();
    r->disk[rep] = disk_rate();
    r->syncs[rep] = syncs_per_commit(c);
    r->pings[rep] = rate_of(c, COMMITTERS, ping_one);
    for (size_t i = 0; i < CROWDS; i++) {
        r->skade[i][rep] = rate_of(c, crowds[i], commit_one);
        r->sqlite[i][rep] = writers_rate(w, (uint32_t)crowds[i], SECONDS_EACH);
    }
}

static void report_commits(const struct commit_rates *r, int reps)
{
    char name[48];

    report_figure("commits", "durable_page_writes", measure_of(r->disk, reps), "per_second", ROW_LIMIT);
    for (size_t i = 0; i < CROWDS; i++) {
        snprintf(name, sizeof name, "committers_%d", crowds[i]);
        report_figure("commits", name, measure_of(r->skade[i], reps), "per_second", ROW_OURS);
        snprintf(name, sizeof name, "sqlite_%d", crowds[i]);
        report_figure("commits", name, measure_of(r->sqlite[i], reps), "per_second", ROW_PEER);
        report_point("commits_by_committers", "skade", ROW_OURS, crowds[i], measure_of(r->skade[i], reps));
        report_point("commits_by_committers", "SQLite", ROW_PEER, crowds[i], measure_of(r->sqlite[i], reps));
    }
    report_figure("commits", "pings_64", measure_of(r->pings, reps), "per_second", ROW_LIMIT);
    report_figure("commits", "pings_64_by_sqlite_64", measure_ratio(r->pings, r->sqlite[CROWDS - 1], reps),
                  "times", ROW_LIMIT);
    report_figure("commits", "commit_by_page_write", measure_ratio(r->disk, r->skade[0], reps), "times",
                  ROW_OURS);
    report_mark("commits", "committers_64", 10 * measure_of(r->skade[0], reps).median);
    report_mark("commits", "committers_64", 10 * measure_of(r->sqlite[CROWDS - 1], reps).median);
}

void stage_commits(int reps)
{
    static struct committer committers[COMMITTERS];
    static struct commit_rates r;

    if (!daemon_count_syncs())
        die("cannot count the daemon's fsyncs: count_syncs.so must stand beside this program");
    daemon_start("full");
    open_committers(committers);
    struct writers *writers = writers_open();
    for (int rep = 0; rep < reps; rep++)
        measure_commits(committers, writers, rep, &r);
    report_commits(&r, reps);
    goals_of_commits(measure_ratio(r.skade[CROWDS - 1], r.skade[0], reps));
    goals_of_writers(measure_ratio(r.skade[CROWDS - 1], r.sqlite[CROWDS - 1], reps),
                     measure_of(r.syncs, reps));
    writers_close(writers);
    for (int i = 0; i < COMMITTERS; i++)
        skade_close(committers[i].s);
    daemon_stop();
}

/* ---- publication ------------------------------------------------------------------------------------------------------------ */

/* Milliseconds from the reply until the published index has event SEQ. */
static double publication_ms(skade *s, uint64_t seq)
{
    double began = now_ns();

    while (daemon_counter(s, "covered_seq") < seq)
        sched_yield();
    return (now_ns() - began) * 1e-6;
}

void stage_publication(const struct history *h, const char *size, int reps)
{
    double release[REPS_MAX], publish[REPS_MAX];
    char group[32];
    skade *s = daemon_open(0);

    snprintf(group, sizeof group, "publication-%s", size);
    for (int rep = 0; rep < reps; rep++) {
        double began = now_ns();
        uint64_t seq = history_release(s, h, history_rows(h) + (uint64_t)rep * WINDOW, WINDOW);
        release[rep] = (now_ns() - began) * 1e-6;
        publish[rep] = publication_ms(s, seq);
    }
    report_figure(group, "release_1024", measure_of(release, reps), "ms", ROW_OURS);
    report_figure(group, "published_after", measure_of(publish, reps), "ms", ROW_OURS);
    skade_close(s);
}
