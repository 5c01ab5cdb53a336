/*
 * A crowd at one stored table: appenders, one who replaces and deletes, scanners, getters, a compactor and a collector,
 * all in processes of their own and as fast as they can, while scanners are killed and replaced.  Nobody may meet an
 * error, miss a row, or see two commits mixed.
 *
 *     crowd_tables SECONDS COMPACTIONS SCANNERS -- DAEMON-OPTIONS
 *
 * It goes on so long, and until so many compactions are done.
 *
 * What is there can be told from a few numbers.  Commit n of writer w is
 *
 *     a row without key, "w n"           so all of 1..n are there, in order
 *     wW.count = n and wW.twin = n       so the two are never different
 *     wW.kI = n, where I is n mod 50     so each has the last n of its kind
 *
 * and commit n of the mover deletes tmp.(n-1) and puts tmp.n: there is always exactly one of these.  Before a scan is
 * opened n was acknowledged at least as far as `acked` says, and after it begun at most as far as `begun`.
 */
#include "stress.h"

#include <stdatomic.h>
#include <time.h>

#define WRITERS 2
#define MOVER WRITERS /* the third that commits */
#define COMMITTERS (WRITERS + 1)
#define SCANNERS_MAX 64
#define GETTERS 2
#define KINDS 50
#define TIMEOUT_MS 120000

struct shared {
    _Atomic uint64_t begun[COMMITTERS], acked[COMMITTERS];
    _Atomic uint64_t scans, rows, gets, compactions, carried, collections, kills;
    _Atomic bool stop;
};

static struct shared *crowd;
static skade_table table;
static unsigned scanners = 8;

static bool goes_on(void)
{
    return !atomic_load(&crowd->stop);
}

static uint64_t number_of(const void *text, size_t len)
{
    char copy[32] = "";

    if (len >= sizeof copy)
        die("a value of %zu bytes", len);
    memcpy(copy, text, len);
    return strtoull(copy, NULL, 10);
}

/* ---- those who commit ------------------------------------------------------------------------------------------- */

static void put(skade *s, const char *key, const char *value)
{
    int r = skade_append_put(s, key, key ? strlen(key) : 0, value, strlen(value));
    if (r < 0)
        die_of(s, "put", r);
}

static void put_number(skade *s, unsigned w, const char *what, uint64_t n)
{
    char key[32], value[32];

    snprintf(key, sizeof key, "w%u.%s", w, what);
    snprintf(value, sizeof value, "%llu", (unsigned long long)n);
    put(s, key, value);
}

static void put_commit(skade *s, unsigned w, uint64_t n)
{
    char text[48];

    snprintf(text, sizeof text, "%u %llu", w, (unsigned long long)n);
    put(s, NULL, text);
    put_number(s, w, "count", n);
    snprintf(text, sizeof text, "k%u", (unsigned)(n % KINDS));
    put_number(s, w, text, n);
    put_number(s, w, "twin", n);
}

static void put_move(skade *s, uint64_t n)
{
    char key[32];

    snprintf(key, sizeof key, "tmp.%llu", (unsigned long long)n - 1);
    int r = skade_append_delete(s, key, strlen(key));
    if (r < 0)
        die_of(s, "delete", r);
    snprintf(key, sizeof key, "tmp.%llu", (unsigned long long)n);
    put(s, key, "");
}

/* One handle from the first commit to the last, over all compactions. */
static void commit(skade *s, unsigned who)
{
    uint64_t n = atomic_load(&crowd->begun[who]) + 1;

    atomic_store(&crowd->begun[who], n);
    int r = skade_append_begin(s, table, NULL);
    if (r < 0)
        die_of(s, "append", r);
    if (who == MOVER)
        put_move(s, n);
    else
        put_commit(s, who, n);
    r = skade_append_commit(s, NULL);
    if (r < 0)
        die_of(s, "commit", r);
    atomic_store(&crowd->acked[who], n);
}

static void run_committer(unsigned who)
{
    skade *s = open_handle(0, TIMEOUT_MS);

    while (goes_on())
        commit(s, who);
    skade_close(s);
}

/* ---- those who scan --------------------------------------------------------------------------------------------- */

/* What a scan saw of a writer. */
struct seen {
    uint64_t count, twin, kind[KINDS];
    uint64_t unkeyed, first, last; /* rows without key, the first and last that came */
    int step;                      /* from one to the next: 1 oldest first, -1 newest first */
};

struct sight {
    struct seen writer[WRITERS];
    uint64_t tmp_count, tmp;
};

static void see_unkeyed(struct sight *sight, const struct skade_row *row, int step)
{
    unsigned w = (unsigned)(*(const char *)row->value - '0');
    uint64_t n = number_of((const char *)row->value + 2, (size_t)row->value_len - 2);

    if (w >= WRITERS)
        die("a row of writer %u", w);
    struct seen *seen = &sight->writer[w];
    if (seen->unkeyed++ == 0)
        seen->first = n;
    else if (n != seen->last + (uint64_t)(int64_t)step)
        die("row %llu of writer %u comes after row %llu", (unsigned long long)n, w,
            (unsigned long long)seen->last);
    seen->last = n;
    seen->step = step;
}

static void see_number(struct sight *sight, const char *key, uint64_t n)
{
    struct seen *seen = &sight->writer[(unsigned)(key[1] - '0') % WRITERS];
    uint64_t *place = strcmp(key + 3, "count") == 0  ? &seen->count
                      : strcmp(key + 3, "twin") == 0 ? &seen->twin
                                                     : &seen->kind[strtoul(key + 4, NULL, 10) % KINDS];

    if (*place != 0)
        die("the key %s is there twice, with %llu and %llu", key, (unsigned long long)*place,
            (unsigned long long)n);
    *place = n;
}

static void see(struct sight *sight, const struct skade_row *row, int step)
{
    char key[32] = "";

    if (!row->has_key) {
        see_unkeyed(sight, row, step);
        return;
    }
    if (row->key_len >= sizeof key)
        die("a key of %llu bytes", (unsigned long long)row->key_len);
    memcpy(key, row->key, (size_t)row->key_len);
    if (strncmp(key, "tmp.", 4) == 0) {
        sight->tmp_count++;
        sight->tmp = strtoull(key + 4, NULL, 10);
    } else if (strcmp(key, "always") != 0) {
        see_number(sight, key, number_of(row->value, (size_t)row->value_len));
    }
}

/* The largest number up to N that is KIND mod KINDS; 0: none. */
static uint64_t last_of_kind(uint64_t n, unsigned kind)
{
    uint64_t back = (n + KINDS - kind) % KINDS;

    return n > back ? n - back : 0;
}

static void judge_writer(unsigned w, const struct seen *seen, uint64_t acked, uint64_t begun)
{
    uint64_t n = seen->count, oldest = seen->step > 0 ? seen->first : seen->last,
             newest = seen->step > 0 ? seen->last : seen->first;

    if (n < acked || n > begun)
        die("writer %u: commit %llu is the newest of a scan, acknowledged were %llu, begun %llu", w,
            (unsigned long long)n, (unsigned long long)acked, (unsigned long long)begun);
    if (seen->twin != n)
        die("writer %u: a scan of two commits, %llu and %llu", w, (unsigned long long)n,
            (unsigned long long)seen->twin);
    if (seen->unkeyed != n || (n && (oldest != 1 || newest != n)))
        die("writer %u: %llu rows without key, %llu to %llu, of %llu commits", w,
            (unsigned long long)seen->unkeyed, (unsigned long long)oldest, (unsigned long long)newest,
            (unsigned long long)n);
    for (unsigned kind = 0; kind < KINDS; kind++)
        if (seen->kind[kind] != last_of_kind(n, kind))
            die("writer %u: key k%u is %llu, not %llu", w, kind, (unsigned long long)seen->kind[kind],
                (unsigned long long)last_of_kind(n, kind));
}

static void read_part(skade_scan *scan, struct sight *sight, unsigned flags, unsigned part, unsigned parts)
{
    struct skade_row row = { .size = sizeof row };
    skade_cursor *cursor;
    int r = skade_cursor_open(scan, flags, part, parts, &cursor);

    if (r < 0)
        die("cursor: %s", skade_errname(r));
    while ((r = skade_cursor_next(cursor, &row)) == 1) {
        see(sight, &row, flags & SKADE_OLDEST_FIRST ? 1 : -1);
        atomic_fetch_add_explicit(&crowd->rows, 1, memory_order_relaxed);
    }
    if (r < 0)
        die("next: %s: %s", skade_errname(r), skade_cursor_errmsg(cursor));
    skade_cursor_close(cursor);
}

static void scan_once(skade *s, uint64_t *random)
{
    uint64_t acked[COMMITTERS], begun[COMMITTERS];
    struct sight sight = { .tmp_count = 0 };
    unsigned flags = roll_below(random, 2) ? SKADE_OLDEST_FIRST : 0,
             parts = 1 + (unsigned)roll_below(random, 4);
    skade_scan *scan;

    for (int i = 0; i < COMMITTERS; i++)
        acked[i] = atomic_load(&crowd->acked[i]);
    int r = skade_scan_open(s, table, NULL, &scan);
    if (r < 0)
        die_of(s, "scan", r);
    for (int i = 0; i < COMMITTERS; i++)
        begun[i] = atomic_load(&crowd->begun[i]);
    for (unsigned part = 0; part < parts; part++)
        read_part(scan, &sight, flags, part, parts);
    skade_scan_close(scan);
    for (unsigned w = 0; w < WRITERS; w++)
        judge_writer(w, &sight.writer[w], acked[w], begun[w]);
    if (sight.tmp_count != 1 || sight.tmp < acked[MOVER] || sight.tmp > begun[MOVER])
        die("%llu keys tmp.N are there, one is %llu; %llu to %llu was possible",
            (unsigned long long)sight.tmp_count, (unsigned long long)sight.tmp,
            (unsigned long long)acked[MOVER], (unsigned long long)begun[MOVER]);
    atomic_fetch_add(&crowd->scans, 1);
}

static void run_scanner(unsigned who)
{
    skade *s = open_handle(who % 4 == 0 ? SKADE_NO_SHM : 0, TIMEOUT_MS);
    uint64_t random = who + 1;

    while (goes_on())
        scan_once(s, &random);
    skade_close(s);
}

/* ---- those who get ---------------------------------------------------------------------------------------------- */

/* The number under KEY of writer W; -1: the view's files were removed, which no lease kept. */
static int64_t get_number(skade *s, skade_view *view, unsigned w, const char *what)
{
    struct skade_scan_options o = { .size = sizeof o, .view = view };
    char key[32], value[32];
    size_t len = 0;

    snprintf(key, sizeof key, "w%u.%s", w, what);
    int r = skade_get(s, table, &o, key, strlen(key), value, sizeof value, &len);
    if (r == SKADE_EEXPIRED && view)
        return -1;
    if (r < 0)
        die_of(s, key, r);
    return r == 0 ? 0 : (int64_t)number_of(value, len);
}

static void get_newest(skade *s, unsigned w)
{
    uint64_t acked = atomic_load(&crowd->acked[w]);
    uint64_t n = (uint64_t)get_number(s, NULL, w, "count");
    uint64_t begun = atomic_load(&crowd->begun[w]);

    if (n < acked || n > begun)
        die("writer %u: a get found %llu, acknowledged were %llu, begun %llu", w, (unsigned long long)n,
            (unsigned long long)acked, (unsigned long long)begun);
}

static void get_both(skade *s, unsigned w)
{
    skade_view *view;
    int r = skade_view_open(s, &view);

    if (r < 0)
        die_of(s, "view", r);
    int64_t count = get_number(s, view, w, "count"), twin = get_number(s, view, w, "twin");
    if (count != twin && count >= 0 && twin >= 0)
        die("writer %u: at one view count is %lld and twin %lld", w, (long long)count, (long long)twin);
    skade_view_close(view);
}

/* The name leads to the table, and the table to a head, at every instant. */
static void find_head(skade *s)
{
    char location[SKADE_LOCATION_MAX + 1];
    struct skade_answer a = SKADE_ANSWER(location, sizeof location);
    skade_table found = 0;

    if (skade_find_table(s, "crowd", &found) != 1 || found != table || skade_head(s, table, &a) != 1)
        die_of(s, "the table, or its head, isn't there", 0);
}

static void run_getter(unsigned who)
{
    skade *s = open_handle(who % 2 ? SKADE_NO_SHM : 0, TIMEOUT_MS);
    char value[8];
    size_t len;

    for (uint64_t i = 0; goes_on(); i++) {
        get_newest(s, (unsigned)(i % WRITERS));
        find_head(s);
        if (skade_get(s, table, NULL, "always", 6, value, sizeof value, &len) != 1)
            die_of(s, "a key that is always there is absent", 0);
        if (i % 16 == 0)
            get_both(s, (unsigned)(i / 16 % WRITERS));
        atomic_fetch_add(&crowd->gets, 1);
    }
    skade_close(s);
}

/* ---- those who tidy up ------------------------------------------------------------------------------------------ */

static int keep(void *arg, const struct skade_row *row)
{
    (void)arg, (void)row;
    return 1;
}

static void run_compactor(unsigned who)
{
    skade *s = open_handle(0, TIMEOUT_MS);

    (void)who;
    for (int i = 0; goes_on(); i++) {
        struct skade_compact_options o = { .size = sizeof o, .prune = i % 4 == 3 ? keep : NULL };
        struct skade_compacted done = { .size = sizeof done };
        int r = skade_compact(s, table, &o, &done);
        if (r < 0)
            die_of(s, "compact", r);
        atomic_fetch_add(&crowd->compactions, done.seq != 0);
        atomic_fetch_add(&crowd->carried, done.carried);
    }
    skade_close(s);
}

static void run_collector(unsigned who)
{
    skade *s = open_handle(0, TIMEOUT_MS);

    (void)who;
    while (goes_on()) {
        int64_t r = skade_gc(s, table, SKADE_GC_NOW, NULL, NULL);
        if (r < 0)
            die_of(s, "gc", r);
        atomic_fetch_add(&crowd->collections, 1);
        poll(NULL, 0, 5); /* the daemon has others to serve */
    }
    skade_close(s);
}

/* ---- the crowd -------------------------------------------------------------------------------------------------- */

struct role {
    void (*run)(unsigned who);
    unsigned who;
    pid_t pid;
};

static struct role roles[COMMITTERS + SCANNERS_MAX + GETTERS + 2];
static unsigned roles_count;

static void start(struct role *role)
{
    role->pid = fork_child();
    if (role->pid == 0) {
        role->run(role->who);
        exit(0);
    }
}

static void add(void (*run)(unsigned who), unsigned count)
{
    for (unsigned who = 0; who < count; who++) {
        roles[roles_count] = (struct role){ run, who, 0 };
        start(&roles[roles_count++]);
    }
}

/* Whoever has ended by himself has told why. */
static void check_all(void)
{
    for (unsigned i = 0; i < roles_count; i++)
        if (has_ended(roles[i].pid))
            die("one of the crowd ended with %d", reap(roles[i].pid));
}

static void kill_a_scanner(uint64_t *random)
{
    struct role *role = &roles[COMMITTERS + roll_below(random, scanners)];

    kill(role->pid, SIGKILL);
    int status = reap(role->pid);
    if (status != 128 + SIGKILL)
        die("a scanner ended with %d", status);
    start(role);
    atomic_fetch_add(&crowd->kills, 1);
}

/* A killed process's lease goes with its connection, so in the end there is nothing that keeps a file. */
static void check_nothing_is_held(skade *s)
{
    int64_t left;

    while ((left = skade_gc(s, 0, SKADE_GC_NOW, NULL, NULL)) >
           0) /* the daemon may not have seen the last hang up yet */
        ;
    if (left < 0)
        die_of(s, "gc", left);
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void run_crowd(long seconds, unsigned compactions)
{
    int64_t end = now_ms() + seconds * 1000;
    uint64_t random = 1, at_last_kill = 0;

    add(run_committer, COMMITTERS);
    add(run_scanner, scanners);
    add(run_getter, scanners < GETTERS ? scanners : GETTERS);
    add(run_compactor, 1);
    add(run_collector, 1);
    while (now_ms() < end || atomic_load(&crowd->compactions) < compactions ||
           atomic_load(&crowd->kills) < 3) {
        poll(NULL, 0, 20); /* only so as not to take the processor from the crowd */
        check_all();
        if (atomic_load(&crowd->compactions) >= at_last_kill + 5) {
            kill_a_scanner(&random);
            at_last_kill = atomic_load(&crowd->compactions);
        }
    }
    atomic_store(&crowd->stop, true);
    for (unsigned i = 0; i < roles_count; i++) {
        int status = reap(roles[i].pid);
        if (status != 0)
            die("one of the crowd ended with %d", status);
    }
}

static int look_at_check(void *arg, const char *object, uint64_t checked, uint64_t damaged,
                         const char *detail)
{
    (void)arg, (void)checked;
    if (damaged)
        die("%s is damaged: %s", object, detail);
    return 0;
}

static void finish(struct daemon *d)
{
    skade *s = open_handle(0, TIMEOUT_MS);
    uint64_t random = 1;

    scan_once(s, &random);
    check_nothing_is_held(s);
    int r = skade_verify(s, 1, look_at_check, NULL);
    if (r < 0)
        die_of(s, "verify", r);
    skade_close(s);
    if (daemon_end(d, SIGTERM) != 0)
        die("the daemon didn't end as it should");
}

static void begin(struct daemon *d)
{
    daemon_must_start(d);
    skade *s = open_handle(0, TIMEOUT_MS);
    int r = skade_create(s, "crowd", NULL, &table, NULL);
    if (r == 0)
        r = skade_append_begin(s, table, NULL);
    if (r < 0)
        die_of(s, "create", r);
    put(s, "always", "here");
    put(s, "tmp.0", "");
    r = skade_append_commit(s, NULL);
    if (r < 0)
        die_of(s, "commit", r);
    skade_close(s);
}

int main(int argc, char **argv)
{
    struct daemon d = daemon_of(&argc, argv);
    long seconds = argc > 1 ? atol(argv[1]) : 5;
    unsigned compactions = argc > 2 ? (unsigned)atol(argv[2]) : 20;

    if (argc > 3)
        scanners = (unsigned)atol(argv[3]);
    if (scanners < 1 || scanners > SCANNERS_MAX)
        die("1 to %d scanners", SCANNERS_MAX);
    crowd = shared_memory(sizeof *crowd);
    begin(&d);
    run_crowd(seconds, compactions);
    finish(&d);
    printf("%llu + %llu + %llu commits, %llu compactions, %llu commits carried, %llu collections, %llu "
           "scans, %llu "
           "rows, %llu gets, %llu scanners killed\n",
           (unsigned long long)crowd->acked[0], (unsigned long long)crowd->acked[1],
           (unsigned long long)crowd->acked[MOVER], (unsigned long long)crowd->compactions,
           (unsigned long long)crowd->carried, (unsigned long long)crowd->collections,
           (unsigned long long)crowd->scans, (unsigned long long)crowd->rows, (unsigned long long)crowd->gets,
           (unsigned long long)crowd->kills);
    return 0;
}
