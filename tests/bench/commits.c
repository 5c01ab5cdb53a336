/*
 * Commits by one program and by 64 at a time, next to what the disk takes for one durable write; and how soon new commits
 * are in the index that everybody has mapped.
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
#define SECONDS_EACH 0.4
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

static void *commit_until_stopped(void *arg)
{
    while (seconds() < until)
        commit_one(arg);
    return NULL;
}

static uint64_t count_commits(const struct committer *c, int n)
{
    uint64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += c[i].version;
    return sum;
}

/* Commits per second by the first N of C. */
static double commit_rate(struct committer *c, int n)
{
    uint64_t before = count_commits(c, n);
    double began = seconds();

    until = began + SECONDS_EACH;
    for (int i = 0; i < n; i++) {
        if (pthread_create(&c[i].thread, NULL, commit_until_stopped, &c[i]) != 0)
            die("no thread");
    }
    for (int i = 0; i < n; i++)
        pthread_join(c[i].thread, NULL);
    return (double)(count_commits(c, n) - before) / (seconds() - began);
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

void stage_commits(int reps)
{
    static struct committer committers[COMMITTERS];
    double one[REPS_MAX], many[REPS_MAX], disk[REPS_MAX], gain[REPS_MAX], cost[REPS_MAX];

    daemon_start("full");
    open_committers(committers);
    for (int rep = 0; rep < reps; rep++) {
        end_if_interrupted();
        disk[rep] = disk_rate();
        one[rep] = commit_rate(committers, 1);
        many[rep] = commit_rate(committers, COMMITTERS);
        gain[rep] = many[rep] / one[rep];
        cost[rep] = disk[rep] / one[rep];
    }
    report_figure("commits", "durable_page_writes", measure_of(disk, reps), "per_second", ROW_LIMIT);
    report_figure("commits", "committers_1", measure_of(one, reps), "per_second", ROW_OURS);
    report_figure("commits", "committers_64", measure_of(many, reps), "per_second", ROW_OURS);
    report_figure("commits", "commit_by_page_write", measure_of(cost, reps), "times", ROW_OURS);
    goals_of_commits(measure_of(gain, reps));
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
