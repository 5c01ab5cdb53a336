/*
 * Load for the demo, as any program would make it: the public header only.  Every answer is judged; each process prints
 * lines `name value` that demo.sh adds up.
 *
 *   load fill TABLES VERSIONS          commit a synthetic history, one release per table
 *   load read SECONDS TABLES VERSIONS  look up random snapshots: one by one and in batches
 *   load socket SECONDS TABLES VERSIONS  the same, one by one, without shared memory
 *   load write SECONDS TABLES VERSIONS   commit new snapshots, and read each back at once
 */
#include <skade.h>

#include "synthetic.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BATCH 1024

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(skade *s, const char *what, int code)
{
    fprintf(stderr, "load: %s: %s: %s\n", what, skade_errname(code), skade_errmsg(s));
    exit(1);
}

static skade *open_or_die(unsigned flags)
{
    struct skade_options o = { .size = sizeof o, .label = "demo load", .timeout_ms = 20000, .flags = flags };
    skade *s;
    int r = skade_open(&s, &o);
    if (r < 0)
        die(NULL, "open", r);
    return s;
}

static skade_table *find_tables(skade *s, uint32_t tables)
{
    skade_table *numbers = calloc(tables, sizeof *numbers);
    char name[32];

    for (uint32_t t = 0; t < tables; t++) {
        int r = skade_find_table(s, synthetic_table(name, t), &numbers[t]);
        if (r != 1)
            die(s, name, r);
    }
    return numbers;
}

/* ---- fill ---- */

static void fill_table(skade *s, uint32_t t, uint32_t versions, struct skade_commit *rows,
                       char (*texts)[SYNTHETIC_LOCATION_MAX])
{
    char name[32];
    skade_table number;

    int r =
        skade_create(s, synthetic_table(name, t), "s3://lake-production/warehouse/events.db", &number, NULL);
    for (uint32_t v = 0; r == 0 && v < versions; v++) {
        synthetic_location(texts[v], t, v);
        rows[v] = (struct skade_commit){ .size = sizeof rows[v],
                                         .table = number,
                                         .flags = SKADE_INTRODUCES | SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT,
                                         .snapshot = synthetic_id(t, v),
                                         .time_us = synthetic_time_us(t, v),
                                         .has_time = 1,
                                         .location = texts[v] };
    }
    if (r == 0)
        r = skade_release(s, rows, versions, NULL, NULL);
    if (r < 0)
        die(s, name, r);
}

static void fill(uint32_t tables, uint32_t versions)
{
    skade *s = open_or_die(0);
    struct skade_commit *rows = calloc(versions, sizeof *rows);
    char(*texts)[SYNTHETIC_LOCATION_MAX] = calloc(versions, sizeof *texts);
    double began = now();

    for (uint32_t t = 0; t < tables; t++)
        fill_table(s, t, versions, rows, texts);
    printf("filled %llu\nfill_seconds %.3f\n", (unsigned long long)tables * versions, now() - began);
    free(rows);
    free(texts);
    skade_close(s);
}

/* ---- read ---- */

struct judge {
    uint32_t tables, versions;
    uint64_t state;
    uint64_t answers, wrong, errors;
};

static void pick(struct judge *j, uint32_t *t, uint32_t *v)
{
    j->state = synthetic_mix(j->state);
    *t = (uint32_t)(j->state % j->tables);
    *v = (uint32_t)(j->state >> 33) % j->versions;
}

static void judge(struct judge *j, int status, const char *where, uint32_t t, uint32_t v)
{
    char right[SYNTHETIC_LOCATION_MAX];

    synthetic_location(right, t, v);
    j->answers++;
    if (status != 1)
        j->errors++;
    else if (strcmp(where, right) != 0)
        j->wrong++;
}

/* Some lookups one by one; returns the seconds that they took without judging them. */
static double read_singles(skade *s, struct judge *j, const skade_table *numbers,
                           char (*where)[SYNTHETIC_LOCATION_MAX])
{
    uint32_t t[BATCH], v[BATCH];
    int status[BATCH];

    for (int i = 0; i < BATCH; i++)
        pick(j, &t[i], &v[i]);
    double began = now();
    for (int i = 0; i < BATCH; i++) {
        struct skade_answer a = SKADE_ANSWER(where[i], sizeof where[i]);
        status[i] = skade_resolve(s, numbers[t[i]], synthetic_id(t[i], v[i]), &a);
    }
    double took = now() - began;
    for (int i = 0; i < BATCH; i++)
        judge(j, status[i], where[i], t[i], v[i]);
    return took;
}

static double read_batch(skade *s, struct judge *j, const skade_table *numbers,
                         char (*where)[SYNTHETIC_LOCATION_MAX])
{
    static struct skade_answer a[BATCH];
    uint32_t t[BATCH], v[BATCH];

    for (int i = 0; i < BATCH; i++) {
        pick(j, &t[i], &v[i]);
        a[i] = (struct skade_answer)SKADE_ANSWER(where[i], sizeof where[i]);
        a[i].table = numbers[t[i]];
        a[i].snapshot = synthetic_id(t[i], v[i]);
    }
    double began = now();
    skade_resolve_many(s, a, BATCH);
    double took = now() - began;
    for (int i = 0; i < BATCH; i++)
        judge(j, a[i].status, where[i], t[i], v[i]);
    return took;
}

static void print_judge(const char *what, const struct judge *j)
{
    printf("%s_answers %llu\nwrong %llu\nerrors %llu\n", what, (unsigned long long)j->answers,
           (unsigned long long)j->wrong, (unsigned long long)j->errors);
}

static int count_counter(void *arg, const char *name, uint64_t value, const char *unit, const char *kind,
                         const char *help)
{
    (void)arg, (void)unit, (void)kind, (void)help;
    printf("client_%s %llu\n", name, (unsigned long long)value);
    return 0;
}

static void read_mapped(double seconds, struct judge *j)
{
    skade *s = open_or_die(0);
    skade_table *numbers = find_tables(s, j->tables);
    char(*where)[SYNTHETIC_LOCATION_MAX] = calloc(BATCH, sizeof *where);
    double single = 0, batch = 0, end = now() + seconds;
    uint64_t rounds = 0;

    for (; now() < end; rounds++) {
        single += read_singles(s, j, numbers, where);
        batch += read_batch(s, j, numbers, where);
    }
    print_judge("read", j);
    printf("single_ns %.1f\nbatch_ns %.1f\n", single * 1e9 / (double)(rounds * BATCH),
           batch * 1e9 / (double)(rounds * BATCH));
    skade_client_stats(s, count_counter, NULL);
    free(where);
    free(numbers);
    skade_close(s);
}

static void read_socket(double seconds, struct judge *j)
{
    skade *s = open_or_die(SKADE_NO_SHM);
    skade_table *numbers = find_tables(s, j->tables);
    char where[SYNTHETIC_LOCATION_MAX];
    double began = now();

    while (now() < began + seconds) {
        uint32_t t, v;
        pick(j, &t, &v);
        struct skade_answer a = SKADE_ANSWER(where, sizeof where);
        judge(j, skade_resolve(s, numbers[t], synthetic_id(t, v), &a), where, t, v);
    }
    print_judge("socket", j);
    printf("socket_us %.1f\n", (now() - began) * 1e6 / (double)j->answers);
    free(numbers);
    skade_close(s);
}

/* ---- write ---- */

static void write_load(double seconds, struct judge *j)
{
    skade *s = open_or_die(0);
    skade_table *numbers = find_tables(s, j->tables);
    char where[SYNTHETIC_LOCATION_MAX], text[SYNTHETIC_LOCATION_MAX];
    uint64_t commits = 0, longest_us = 0;
    double end = now() + seconds, began = now();

    for (uint32_t v = j->versions; now() < end; v++)
        for (uint32_t t = 0; t < j->tables && now() < end; t++) {
            synthetic_location(text, t, v);
            struct skade_commit c = { .size = sizeof c,
                                      .table = numbers[t],
                                      .flags = SKADE_INTRODUCES | SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT,
                                      .snapshot = synthetic_id(t, v),
                                      .location = text };
            double before = now();
            int r = skade_commit(s, &c, NULL, NULL);
            uint64_t took = (uint64_t)((now() - before) * 1e6);
            longest_us = took > longest_us ? took : longest_us;
            if (r < 0)
                die(s, "commit", r);
            commits++;
            struct skade_answer a = SKADE_ANSWER(where, sizeof where);
            judge(j, skade_resolve(s, numbers[t], synthetic_id(t, v), &a), where, t, v);
            struct skade_answer head = SKADE_ANSWER(where, sizeof where);
            judge(j, skade_head(s, numbers[t], &head), where, t, v);
        }
    print_judge("write", j);
    printf("commits %llu\ncommit_seconds %.3f\nlongest_commit_us %llu\n", (unsigned long long)commits,
           now() - began, (unsigned long long)longest_us);
    free(numbers);
    skade_close(s);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "fill") == 0) {
        fill((uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]));
        return 0;
    }
    if (argc != 5) {
        fprintf(stderr,
                "usage: load fill TABLES VERSIONS | load read|socket|write SECONDS TABLES VERSIONS\n");
        return 2;
    }
    struct judge j = { .tables = (uint32_t)atoi(argv[3]),
                       .versions = (uint32_t)atoi(argv[4]),
                       .state = (uint64_t)getpid() };
    double seconds = atof(argv[2]);
    if (strcmp(argv[1], "read") == 0)
        read_mapped(seconds, &j);
    else if (strcmp(argv[1], "socket") == 0)
        read_socket(seconds, &j);
    else
        write_load(seconds, &j);
    return j.wrong ? 1 : 0;
}
