/*
 * Load for the demo, as any program would make it: the public header only.  Every answer is judged; each process prints
 * lines `name value` that demo.sh adds up.
 *
 *   load fill TABLES VERSIONS            commit a synthetic history, one release per table
 *   load read SECONDS TABLES VERSIONS    look up random snapshots, one by one and in batches, and ask what memory alone
 *                                        can't prove: heads, snapshots and names that aren't there
 *   load socket SECONDS TABLES VERSIONS  the same, one by one, without shared memory
 *   load write SECONDS TABLES VERSIONS   commit new snapshots, and read each back at once
 *
 * `asked` is how many questions memory could not answer, so that the daemon was asked over the socket.
 *
 * A daemon that is away is no error: what needed it is asked again until it is back, and counted.  The time of lookups is
 * taken without the judging, and as the processor's, so that it is the same whoever else computes.
 */
#include <skade.h>

#include "synthetic.h"

#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define BATCH 1024

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double processor_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
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

/* ---- judging ---- */

#define MISSING 1000000 /* versions from here on are never committed, nor tables */

struct judge {
    uint32_t tables, versions;
    uint64_t state;
    uint32_t *newest;                       /* of each table: the newest version that was seen as its head */
    uint64_t lookups, heads, misses, names; /* answers that were judged */
    uint64_t wrong, errors;
    uint64_t unreachable; /* times that no daemon answered, and the question was asked again */
    double longest;       /* seconds that one question took in all */
};

static uint32_t pick_table(struct judge *j)
{
    j->state = synthetic_mix(j->state);
    return (uint32_t)(j->state % j->tables);
}

static void pick(struct judge *j, uint32_t *t, uint32_t *v)
{
    *t = pick_table(j);
    *v = (uint32_t)(j->state >> 33) % j->versions;
}

/* Until something new is in the run directory, as a daemon's socket is when it comes back. What came since the last call
 * counts; the limit is for a daemon that was already there. */
static void wait_for_daemon(void)
{
    static int changes = -1;
    char events[4096];
    const char *run_dir = getenv("SKADE_RUN_DIR");

    if (changes < 0 && run_dir) {
        changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        inotify_add_watch(changes, run_dir, IN_CREATE | IN_MOVED_TO);
    }
    poll(&(struct pollfd){ .fd = changes, .events = POLLIN }, 1, 50);
    while (changes >= 0 && read(changes, events, sizeof events) > 0)
        ;
}

/* Is R no answer because no daemon is there?  Then it may be asked again, when one may have come. */
static bool is_away(struct judge *j, int r)
{
    if (r != SKADE_EUNREACHABLE)
        return false;
    j->unreachable++;
    wait_for_daemon();
    return true;
}

static void took(struct judge *j, double since)
{
    double seconds = now() - since;
    j->longest = seconds > j->longest ? seconds : j->longest;
}

static void judge_lookup(struct judge *j, int status, const char *where, uint32_t t, uint32_t v)
{
    char right[SYNTHETIC_LOCATION_MAX];

    synthetic_location(right, t, v);
    j->lookups++;
    if (status != 1)
        j->errors++;
    else if (strcmp(where, right) != 0)
        j->wrong++;
}

/* ---- questions ---- */

static int resolve(skade *s, struct judge *j, skade_table table, int64_t id, struct skade_answer *a)
{
    double since = now();
    int r;

    do
        r = skade_resolve(s, table, id, a);
    while (is_away(j, r));
    took(j, since);
    return r;
}

static void ask_snapshot(skade *s, struct judge *j, const skade_table *numbers)
{
    char where[SYNTHETIC_LOCATION_MAX];
    struct skade_answer a = SKADE_ANSWER(where, sizeof where);
    uint32_t t, v;

    pick(j, &t, &v);
    judge_lookup(j, resolve(s, j, numbers[t], synthetic_id(t, v), &a), where, t, v);
}

/* A snapshot that nobody committed must not be there. */
static void ask_missing_snapshot(skade *s, struct judge *j, const skade_table *numbers)
{
    char where[SYNTHETIC_LOCATION_MAX];
    struct skade_answer a = SKADE_ANSWER(where, sizeof where);
    uint32_t t, v;

    pick(j, &t, &v);
    int r = resolve(s, j, numbers[t], synthetic_id(t, MISSING + v), &a);
    j->misses++;
    j->errors += r < 0;
    j->wrong += r == 1 || (r == 0 && a.status != SKADE_ENOSNAPSHOT);
}

/* The version that is the head, which never goes back; at first the last one that `fill` made. */
static void ask_head(skade *s, struct judge *j, const skade_table *numbers, uint32_t t)
{
    char where[SYNTHETIC_LOCATION_MAX], right[SYNTHETIC_LOCATION_MAX];
    struct skade_answer a = SKADE_ANSWER(where, sizeof where);
    uint32_t v = j->newest[t];
    double since = now();
    int r;

    do
        r = skade_head(s, numbers[t], &a);
    while (is_away(j, r));
    took(j, since);
    j->heads++;
    if (r != 1) {
        j->errors++;
        return;
    }
    while (v < MISSING && synthetic_id(t, v) != a.snapshot)
        v++;
    synthetic_location(right, t, v);
    if (v == MISSING || strcmp(where, right) != 0)
        j->wrong++;
    else
        j->newest[t] = v;
}

static int find(skade *s, struct judge *j, uint32_t t, skade_table *ret)
{
    char name[32];
    double since = now();
    int r;

    do
        r = skade_find_table(s, synthetic_table(name, t), ret);
    while (is_away(j, r));
    took(j, since);
    j->names++;
    j->errors += r < 0;
    return r;
}

static void ask_names(skade *s, struct judge *j, const skade_table *numbers)
{
    uint32_t t = pick_table(j);
    skade_table table = 0;

    int r = find(s, j, t, &table);
    j->wrong += r == 0 || (r == 1 && table != numbers[t]);
    j->wrong += find(s, j, MISSING + t, &table) == 1;
}

/* What shared memory can't prove without a daemon, and names. */
static void ask_the_rest(skade *s, struct judge *j, const skade_table *numbers)
{
    for (int i = 0; i < 16; i++) {
        ask_head(s, j, numbers, pick_table(j));
        ask_missing_snapshot(s, j, numbers);
        ask_names(s, j, numbers);
    }
}

/* ---- read ---- */

/* Some lookups one by one; returns the processor's seconds that they took without judging them. */
static double read_singles(skade *s, struct judge *j, const skade_table *numbers,
                           char (*where)[SYNTHETIC_LOCATION_MAX])
{
    uint32_t t[BATCH], v[BATCH];
    int status[BATCH];

    for (int i = 0; i < BATCH; i++)
        pick(j, &t[i], &v[i]);
    double began = processor_now();
    for (int i = 0; i < BATCH; i++) {
        struct skade_answer a = SKADE_ANSWER(where[i], sizeof where[i]);
        status[i] = skade_resolve(s, numbers[t[i]], synthetic_id(t[i], v[i]), &a);
    }
    double seconds = processor_now() - began;
    for (int i = 0; i < BATCH; i++)
        judge_lookup(j, status[i], where[i], t[i], v[i]);
    return seconds;
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
    double began = processor_now();
    skade_resolve_many(s, a, BATCH);
    double seconds = processor_now() - began;
    for (int i = 0; i < BATCH; i++)
        judge_lookup(j, a[i].status, where[i], t[i], v[i]);
    return seconds;
}

static void print_judge(const struct judge *j)
{
    printf("lookups %llu\nheads %llu\nmisses %llu\nnames %llu\nwrong %llu\nerrors %llu\nunreachable "
           "%llu\nlongest_ms %.0f\n",
           (unsigned long long)j->lookups, (unsigned long long)j->heads, (unsigned long long)j->misses,
           (unsigned long long)j->names, (unsigned long long)j->wrong, (unsigned long long)j->errors,
           (unsigned long long)j->unreachable, j->longest * 1e3);
}

static void read_mapped(skade *s, double seconds, struct judge *j, const skade_table *numbers)
{
    char(*where)[SYNTHETIC_LOCATION_MAX] = calloc(BATCH, sizeof *where);
    double single = 0, batch = 0, end = now() + seconds;
    uint64_t rounds = 0;

    for (; now() < end; rounds++) {
        single += read_singles(s, j, numbers, where);
        batch += read_batch(s, j, numbers, where);
        ask_the_rest(s, j, numbers);
    }
    print_judge(j);
    printf("single_ns %.1f\nbatch_ns %.1f\n", single * 1e9 / (double)(rounds * BATCH),
           batch * 1e9 / (double)(rounds * BATCH));
    free(where);
}

static void read_socket(skade *s, double seconds, struct judge *j, const skade_table *numbers)
{
    double asking = 0, end = now() + seconds;
    uint64_t asked = 0;

    while (now() < end) {
        double began = now();
        for (int i = 0; i < 64; i++, asked++)
            ask_snapshot(s, j, numbers);
        asking += now() - began;
        ask_the_rest(s, j, numbers);
    }
    print_judge(j);
    printf("socket_us %.1f\n", asking * 1e6 / (double)asked);
}

/* ---- write ---- */

/* Of this commit and no other: asked again under it after a lost reply, it is made once. */
static void make_uuid(unsigned char *ret)
{
    for (size_t done = 0; done < 16;) {
        ssize_t n = getrandom(ret + done, 16 - done, 0);
        done += n > 0 ? (size_t)n : 0;
    }
}

/* Commit the next version of table T; 0 or negative.  A daemon that is away for longer than the library waits is asked
 * again when one has come. */
static int commit_next(skade *s, struct judge *j, const skade_table *numbers, uint32_t t)
{
    char text[SYNTHETIC_LOCATION_MAX];

    synthetic_location(text, t, j->newest[t] + 1);
    struct skade_commit c = { .size = sizeof c,
                              .table = numbers[t],
                              .flags = SKADE_INTRODUCES | SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT,
                              .snapshot = synthetic_id(t, j->newest[t] + 1),
                              .location = text };
    int r;

    make_uuid(c.uuid);
    while ((r = skade_commit(s, &c, NULL, NULL)) == SKADE_EUNKNOWN || r == SKADE_ETIMEOUT ||
           r == SKADE_EUNREACHABLE) {
        j->unreachable++;
        wait_for_daemon();
    }
    if (r == 0)
        j->newest[t]++;
    return r;
}

static void write_load(skade *s, double seconds, struct judge *j, const skade_table *numbers)
{
    char where[SYNTHETIC_LOCATION_MAX];
    uint64_t commits = 0;
    double committing = 0, longest = 0;

    for (uint32_t t = 0; t < j->tables; t++)
        ask_head(s, j, numbers, t); /* where an earlier run ended */
    double end = now() + seconds;
    for (uint32_t t = 0; now() < end; t = (t + 1) % j->tables) {
        double before = now();
        int r = commit_next(s, j, numbers, t);
        double one = now() - before;
        if (r < 0)
            die(s, "commit", r);
        commits++;
        committing += one;
        longest = one > longest ? one : longest;
        uint32_t v = j->newest[t];
        struct skade_answer a = SKADE_ANSWER(where, sizeof where);
        judge_lookup(j, resolve(s, j, numbers[t], synthetic_id(t, v), &a), where, t, v);
        ask_head(s, j, numbers, t);
        j->wrong += j->newest[t] != v; /* nobody else commits */
    }
    print_judge(j);
    printf("commits %llu\ncommit_seconds %.3f\nlongest_commit_ms %.0f\n", (unsigned long long)commits,
           committing, longest * 1e3);
}

/* ---- main ---- */

static const struct {
    const char *name;
    void (*run)(skade *s, double seconds, struct judge *j, const skade_table *numbers);
    unsigned flags;
} loads[] = { { "read", read_mapped, 0 },
              { "socket", read_socket, SKADE_NO_SHM },
              { "write", write_load, 0 } };

static int take_asked(void *arg, const char *name, uint64_t value, const char *unit, const char *kind,
                      const char *help)
{
    (void)unit, (void)kind, (void)help;
    if (strcmp(name, "asked_daemon") == 0)
        *(uint64_t *)arg = value;
    return 0;
}

/* Questions that memory could not answer. */
static void print_asked(skade *s)
{
    uint64_t asked = 0;

    skade_client_stats(s, take_asked, &asked);
    printf("asked %llu\n", (unsigned long long)asked);
}

static int run(size_t load, double seconds, struct judge *j)
{
    skade *s = open_or_die(loads[load].flags);
    skade_table *numbers = find_tables(s, j->tables);

    j->newest = calloc(j->tables, sizeof *j->newest);
    for (uint32_t t = 0; t < j->tables; t++)
        j->newest[t] = j->versions - 1;
    loads[load].run(s, seconds, j, numbers);
    if (!(loads[load].flags & SKADE_NO_SHM))
        print_asked(s);
    free(j->newest);
    free(numbers);
    skade_close(s);
    return j->wrong || j->errors ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "fill") == 0) {
        fill((uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]));
        return 0;
    }
    for (size_t i = 0; argc == 5 && i < sizeof loads / sizeof loads[0]; i++) {
        struct judge j = { .tables = (uint32_t)atoi(argv[3]),
                           .versions = (uint32_t)atoi(argv[4]),
                           .state = (uint64_t)getpid() };
        if (strcmp(argv[1], loads[i].name) == 0)
            return run(i, atof(argv[2]), &j);
    }
    fprintf(stderr, "usage: load fill TABLES VERSIONS | load read|socket|write SECONDS TABLES VERSIONS\n");
    return 2;
}
