/*
 * Many processes commit, and read at once what each of them committed a moment ago: nothing that was acknowledged to
 * anybody is missing anywhere, no head is older than one that was acknowledged, no answer is another's.
 *
 *     fresh PROCESSES COMMITS      prints what they did, and how much of it needed the socket
 *
 * Each process makes a table of its own, lake.t<number>, whose version V is synthetic.h's snapshot and location.
 * A daemon that is away is waited for.
 */
#include "stress.h"

#include <stdatomic.h>

#define PROCESSES_MAX 16
#define MANY 64
#define TIMEOUT_MS 120000

struct shared {
    _Atomic uint32_t table[PROCESSES_MAX]; /* its number; 0: not made yet */
    _Atomic uint32_t acked[PROCESSES_MAX]; /* versions [0, ACKED) of the table were acknowledged */
    _Atomic uint64_t questions, asked, tail;
};

static struct shared *all;
static uint32_t processes, commits;
static skade *s;
static uint64_t state, questions;
static uint32_t newest_seen[PROCESSES_MAX]; /* versions of the heads */

/* ---- writing ---------------------------------------------------------------------------------------------- */

static void make_table(uint32_t me)
{
    char name[32];
    skade_table table;

    int r = skade_create(s, synthetic_table(name, me), "s3://lake", &table, NULL);
    if (r < 0)
        die_of(s, "create", r);
    atomic_store_explicit(&all->table[me], table, memory_order_release);
}

static void commit(uint32_t me, uint32_t version)
{
    char where[SYNTHETIC_LOCATION_MAX];
    struct skade_commit c = { .size = sizeof c,
                              .table = all->table[me],
                              .flags = SKADE_INTRODUCES | SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT,
                              .snapshot = synthetic_id(me, version),
                              .time_us = synthetic_time_us(me, version),
                              .has_time = 1,
                              .location = where,
                              .uuid = { 'f', (unsigned char)me } };
    int r;

    synthetic_location(where, me, version);
    memcpy(c.uuid + 2, &version, sizeof version);
    do
        r = skade_commit(s, &c, NULL, NULL);
    while (is_away(r));
    if (r < 0)
        die_of(s, "commit", r);
    atomic_store_explicit(&all->acked[me], version + 1, memory_order_release);
}

/* ---- judging ---------------------------------------------------------------------------------------------- */

static void must_be(const struct skade_answer *a, int64_t r, const char *what, uint32_t t, uint32_t version)
{
    char right[SYNTHETIC_LOCATION_MAX];

    synthetic_location(right, t, version);
    if (r != 1 || a->snapshot != synthetic_id(t, version) || strcmp(a->location, right) != 0)
        die("%s of lake.t%05u, version %u: %s, %s (%s)", what, t, version, skade_errname((int)r),
            r == 1 ? a->location : "", skade_errmsg(s));
}

/* A process that has acknowledged commits, and how many. */
static uint32_t somebody(uint32_t *acked)
{
    uint32_t t = (uint32_t)roll_below(&state, processes);

    *acked = atomic_load_explicit(&all->acked[t], memory_order_acquire);
    return t;
}

static void ask_head(uint32_t t, uint32_t acked)
{
    char where[SYNTHETIC_LOCATION_MAX];
    struct skade_answer a = SKADE_ANSWER(where, sizeof where);
    int r;

    do
        r = skade_head(s, all->table[t], &a);
    while (is_away(r));
    questions++;
    uint32_t version = acked - 1 > newest_seen[t] ? acked - 1 : newest_seen[t];
    while (r == 1 && version < commits && synthetic_id(t, version) != a.snapshot)
        version++;
    must_be(&a, r, "the head", t, version);
    newest_seen[t] = version;
}

static void ask_snapshots(uint32_t t, uint32_t acked)
{
    char where[SYNTHETIC_LOCATION_MAX];
    struct skade_answer a = SKADE_ANSWER(where, sizeof where);
    int r;

    do
        r = skade_resolve(s, all->table[t], synthetic_id(t, acked - 1), &a);
    while (is_away(r));
    must_be(&a, r, "the newest", t, acked - 1);
    do
        r = skade_as_of(s, all->table[t], synthetic_time_us(t, acked - 1), &a);
    while (is_away(r));
    must_be(&a, r, "the time", t, acked - 1);
    do
        r = skade_resolve(s, all->table[t], synthetic_id(t, commits + acked), &a);
    while (is_away(r));
    if (r != 0 || a.status != SKADE_ENOSNAPSHOT)
        die("a snapshot that nobody made: %s", skade_errname(r));
    questions += 3;
}

static void ask_many(void)
{
    static char where[MANY][SYNTHETIC_LOCATION_MAX];
    struct skade_answer a[MANY];
    uint32_t t[MANY], version[MANY];
    int64_t r;

    for (int i = 0; i < MANY; i++) {
        uint32_t acked;
        do
            t[i] = somebody(&acked);
        while (acked == 0);
        version[i] = acked - 1 - (uint32_t)roll_below(&state, acked < 8 ? acked : 8);
    }
    do {
        for (int i = 0; i < MANY; i++) {
            a[i] = (struct skade_answer)SKADE_ANSWER(where[i], sizeof where[i]);
            a[i].table = all->table[t[i]];
            a[i].snapshot = synthetic_id(t[i], version[i]);
        }
        r = skade_resolve_many(s, a, MANY);
    } while (is_away(r));
    for (int i = 0; i < MANY; i++)
        must_be(&a[i], a[i].status, "one of many", t[i], version[i]);
    questions += MANY;
}

static void ask_name(uint32_t t)
{
    char name[32];
    skade_table table = 0;
    int r;

    do
        r = skade_find_table(s, synthetic_table(name, t), &table);
    while (is_away(r));
    if (r != 1 || table != all->table[t])
        die("the name %s: %s", name, skade_errname(r));
    questions++;
}

static void ask_all(void)
{
    uint32_t acked, t = somebody(&acked);

    if (atomic_load_explicit(&all->table[t], memory_order_acquire) != 0)
        ask_name(t);
    if (acked == 0)
        return;
    ask_head(t, acked);
    ask_snapshots(t, acked);
    ask_many();
}

/* ---- one process ------------------------------------------------------------------------------------------- */

static int take_counter(void *arg, const char *name, uint64_t value, const char *unit, const char *kind,
                        const char *help)
{
    (void)arg, (void)unit, (void)kind, (void)help;
    if (strcmp(name, "asked_daemon") == 0)
        atomic_fetch_add(&all->asked, value);
    if (strcmp(name, "hits_tail") == 0)
        atomic_fetch_add(&all->tail, value);
    return 0;
}

static void live(uint32_t me)
{
    s = open_handle(0, TIMEOUT_MS);
    state += me;
    make_table(me);
    for (uint32_t version = 0; version < commits; version++) {
        commit(me, version);
        ask_head(me, version + 1);
        ask_all();
    }
    skade_client_stats(s, take_counter, NULL);
    atomic_fetch_add(&all->questions, questions);
    skade_close(s);
}

int main(int argc, char **argv)
{
    pid_t pids[PROCESSES_MAX];
    int failed = 0;

    if (argc != 3)
        die("usage: fresh PROCESSES COMMITS");
    processes = (uint32_t)atoi(argv[1]);
    commits = (uint32_t)atoi(argv[2]);
    if (processes < 1 || processes > PROCESSES_MAX)
        die("1 to %d processes", PROCESSES_MAX);
    state = seed_from_environment();
    all = shared_memory(sizeof *all);
    for (uint32_t i = 0; i < processes; i++) {
        pids[i] = fork_child();
        if (pids[i] == 0) {
            live(i);
            exit(0);
        }
    }
    for (uint32_t i = 0; i < processes; i++)
        failed |= reap(pids[i]) != 0;
    printf("questions %llu\nasked %llu\ntail %llu\n", (unsigned long long)all->questions,
           (unsigned long long)all->asked, (unsigned long long)all->tail);
    return failed;
}
