/*
 * kill -9 under load: the daemon dies again and again, at any moment and at chosen places, while writers commit and
 * readers ask.
 *
 *     writers --- each acknowledged commit ---> parent: remembers, kills, starts again, and judges in the end
 *     readers --- every answer by formula, heads that never go back, nothing missing that was seen
 *
 * What must hold: no acknowledged commit is lost, none is made twice, and no answer is wrong at any time.  "Unreachable"
 * is an honest answer.
 *
 *     kill9 CYCLES [term] -- DAEMON-OPTIONS          term: an orderly end instead, which must succeed
 */
#include "stress.h"

#include <stdatomic.h>

#define WRITERS 3
#define TABLES_EACH 2
#define TABLES (WRITERS * TABLES_EACH)
#define READERS 3
#define TIMEOUT_MS 60000
#define BATCH 32

struct ack {
    uint32_t table, version;
    uint64_t seq;
};

/* What all processes see. */
struct common {
    atomic_bool stop;
    atomic_ullong answers, away;
};

static struct common *common;
static skade_table numbers[TABLES];

/* ---- commits as a formula ------------------------------------------------------------------------------------- */

static struct skade_commit commit_of(uint32_t t, uint32_t v, char *location, char *base)
{
    struct skade_commit c = { .size = sizeof c,
                              .table = numbers[t],
                              .flags = SKADE_INTRODUCES | SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT,
                              .base = v ? SKADE_BASE_IS : SKADE_BASE_NONE,
                              .snapshot = synthetic_id(t, v),
                              .time_us = synthetic_time_us(t, v),
                              .has_time = 1,
                              .location = location,
                              .base_location = base };
    uint64_t a = synthetic_mix((uint64_t)t << 40 | v), b = synthetic_mix(a);

    memcpy(c.uuid, &a, 8);
    memcpy(c.uuid + 8, &b, 8);
    synthetic_location(location, t, v);
    if (v)
        synthetic_location(base, t, v - 1);
    return c;
}

/* Is A, found with status 1, version V of T? */
static void judge(const struct skade_answer *a, uint32_t t, uint32_t v, const char *who)
{
    char right[SYNTHETIC_LOCATION_MAX];

    synthetic_location(right, t, v);
    if (strcmp(a->location, right) != 0 || a->snapshot != synthetic_id(t, v) ||
        a->time_us != synthetic_time_us(t, v))
        die("%s: wrong answer for table %u version %u: %s (snapshot %lld)", who, t, v, a->location,
            (long long)a->snapshot);
    atomic_fetch_add(&common->answers, 1);
}

/* R is what a question about something that must be there gave: 1, or the daemon is away. */
static bool must_be_found(int r, skade *s, const char *who, uint32_t t, uint32_t v)
{
    if (r == 1)
        return true;
    if (!is_away(r))
        die("%s: table %u version %u was acknowledged and is missing: %d %s (%s)", who, t, v, r,
            skade_errname(r), skade_errmsg(s));
    atomic_fetch_add(&common->away, 1);
    return false;
}

/* ---- writers ---------------------------------------------------------------------------------------------------- */

/* Commit until the daemon says what became of it; the uuid makes asking again harmless. */
static uint64_t commit(skade *s, uint32_t t, uint32_t v)
{
    char location[SYNTHETIC_LOCATION_MAX], base[SYNTHETIC_LOCATION_MAX];
    struct skade_commit c = commit_of(t, v, location, base);
    uint64_t seq;
    int r;

    while ((r = skade_commit(s, &c, &seq, NULL)) < 0) {
        if (!is_away(r))
            die("writer: table %u version %u: %s: %s", t, v, skade_errname(r), skade_errmsg(s));
        poll(NULL, 0, 1); /* the daemon is being restarted: leave it the processor */
    }
    return seq;
}

static void read_own_write(skade *s, uint32_t t, uint32_t v, uint64_t seq)
{
    char where[SYNTHETIC_LOCATION_MAX];
    struct skade_answer a = SKADE_ANSWER(where, sizeof where), head = SKADE_ANSWER(where, sizeof where);

    if (must_be_found(skade_resolve(s, numbers[t], synthetic_id(t, v), &a), s, "own write", t, v)) {
        judge(&a, t, v, "own write");
        if (a.seq != seq)
            die("own write: table %u version %u is event %llu, was acknowledged as %llu", t, v,
                (unsigned long long)a.seq, (unsigned long long)seq);
    }
    if (must_be_found(skade_head(s, numbers[t], &head), s, "own head", t, v))
        judge(&head, t, v, "own head");
}

static void run_writer(uint32_t writer, int acks)
{
    skade *s = open_handle(0, TIMEOUT_MS), *other = open_handle(writer % 2 ? SKADE_NO_SHM : 0, TIMEOUT_MS);

    for (uint32_t i = 0; !common->stop; i++) {
        struct ack a = { .table = writer * TABLES_EACH + i % TABLES_EACH, .version = i / TABLES_EACH };
        a.seq = commit(s, a.table, a.version);
        if (write(acks, &a, sizeof a) != (ssize_t)sizeof a)
            die("writer: pipe: %s", strerror(errno));
        read_own_write(i & 2 ? s : other, a.table, a.version, a.seq);
    }
    skade_close(s);
    skade_close(other);
}

/* ---- readers ---------------------------------------------------------------------------------------------------- */

/* What a reader has seen of a table. */
struct seen {
    uint64_t seq;
    uint32_t versions; /* [0, versions) are there */
};

static void look_at_head(skade *s, uint32_t t, struct seen *seen, const char *who)
{
    char where[SYNTHETIC_LOCATION_MAX];
    struct skade_answer a = SKADE_ANSWER(where, sizeof where);

    int r = skade_head(s, numbers[t], &a);
    if (r == 0 && a.status == SKADE_ENOSNAPSHOT && seen->versions == 0)
        return;
    if (!must_be_found(r, s, who, t, seen->versions))
        return;
    uint32_t v = (uint32_t)((a.time_us - synthetic_time_us(t, 0)) / 60000000);
    judge(&a, t, v, who);
    if (v + 1 < seen->versions || a.seq < seen->seq)
        die("%s: the head of table %u went back from version %u to %u (event %llu to %llu)", who, t,
            seen->versions - 1, v, (unsigned long long)seen->seq, (unsigned long long)a.seq);
    seen->versions = v + 1;
    seen->seq = a.seq;
}

static void look_up(skade *s, uint64_t *state, uint32_t t, const struct seen *seen, const char *who)
{
    char where[SYNTHETIC_LOCATION_MAX];
    struct skade_answer a = SKADE_ANSWER(where, sizeof where);
    uint32_t v = (uint32_t)roll_below(state, seen->versions + 3);

    int r = skade_resolve(s, numbers[t], synthetic_id(t, v), &a);
    if (r == 0 && a.status == SKADE_ENOSNAPSHOT && v >= seen->versions)
        return;
    if (must_be_found(r, s, who, t, v))
        judge(&a, t, v, who);
}

static void look_up_many(skade *s, uint64_t *state, const struct seen *seen, const char *who)
{
    static char where[BATCH][SYNTHETIC_LOCATION_MAX];
    struct skade_answer a[BATCH];
    uint32_t t[BATCH], v[BATCH];

    for (int i = 0; i < BATCH; i++) {
        t[i] = (uint32_t)roll_below(state, TABLES);
        v[i] = (uint32_t)roll_below(state, seen[t[i]].versions + 1);
        a[i] = (struct skade_answer)SKADE_ANSWER(where[i], sizeof where[i]);
        a[i].table = numbers[t[i]];
        a[i].snapshot = synthetic_id(t[i], v[i]);
    }
    skade_resolve_many(s, a, BATCH);
    for (int i = 0; i < BATCH; i++)
        if (!(a[i].status == SKADE_ENOSNAPSHOT && v[i] >= seen[t[i]].versions) &&
            must_be_found(a[i].status, s, who, t[i], v[i]))
            judge(&a[i], t[i], v[i], who);
}

static void look_back(skade *s, uint64_t *state, uint32_t t, const struct seen *seen, const char *who)
{
    char where[SYNTHETIC_LOCATION_MAX];
    struct skade_answer a = SKADE_ANSWER(where, sizeof where);

    if (seen->versions == 0)
        return;
    uint32_t v = (uint32_t)roll_below(state, seen->versions);
    if (v + 1 == seen->versions) /* there may be a newer one, but not before its time */
        return;
    if (must_be_found(skade_as_of(s, numbers[t], synthetic_time_us(t, v) + 1, &a), s, who, t, v))
        judge(&a, t, v, who);
}

static void find_again(skade *s, uint32_t t, const char *who)
{
    char name[32];
    skade_table found;

    int r = skade_find_table(s, synthetic_table(name, t), &found);
    if (must_be_found(r, s, who, t, 0) && found != numbers[t])
        die("%s: table %u has number %u instead of %u", who, t, found, numbers[t]);
}

static void run_reader(uint32_t reader, uint64_t state)
{
    static const char *const names[READERS] = { "mapped reader", "reader without shared memory",
                                                "verifying reader" };
    static const unsigned flags[READERS] = { 0, SKADE_NO_SHM, SKADE_VERIFY_MAPS };
    struct seen seen[TABLES] = { { 0 } };
    skade *s = open_handle(flags[reader], TIMEOUT_MS);

    while (!common->stop) {
        uint32_t t = (uint32_t)roll_below(&state, TABLES);
        look_at_head(s, t, &seen[t], names[reader]);
        for (int i = 0; i < 8; i++)
            look_up(s, &state, t, &seen[t], names[reader]);
        look_back(s, &state, t, &seen[t], names[reader]);
        look_up_many(s, &state, seen, names[reader]);
        find_again(s, t, names[reader]);
        if (roll_below(&state, 500) == 0)
            skade_quiesce(s);
    }
    skade_close(s);
}

/* ---- the parent ------------------------------------------------------------------------------------------------- */

struct parent {
    struct daemon daemon;
    uint64_t state;
    int acks_fd;
    struct ack *acks;
    size_t acks_count, acks_cap;
    pid_t children[WRITERS + READERS];
    unsigned died_at_place, died_at_start;
    bool orderly;
};

static void take_ack(struct parent *p)
{
    if (p->acks_count == p->acks_cap) {
        p->acks_cap = p->acks_cap ? p->acks_cap * 2 : 4096;
        p->acks = realloc(p->acks, p->acks_cap * sizeof *p->acks);
    }
    if (!p->acks || read(p->acks_fd, &p->acks[p->acks_count], sizeof *p->acks) != (ssize_t)sizeof *p->acks)
        die("a writer is gone");
    p->acks_count++;
}

static void check_children(const struct parent *p)
{
    for (int i = 0; i < WRITERS + READERS; i++)
        if (has_ended(p->children[i]))
            die("process %d of the load ended with %d", i, reap(p->children[i]));
}

/* Take acknowledgements until there are N more, or the daemon is dead. */
static void take_acks(struct parent *p, uint64_t n)
{
    struct pollfd fds[2] = { { p->acks_fd, POLLIN, 0 }, { pid_descriptor(p->daemon.pid), POLLIN, 0 } };
    bool dead = false;

    check_children(p);
    for (uint64_t i = 0; i < n && !dead;) {
        if (poll(fds, 2, 60000) == 0)
            die("no commit was acknowledged for a minute");
        if (fds[0].revents & POLLIN) {
            take_ack(p);
            i++;
        } else {
            dead = (fds[1].revents & POLLIN) != 0;
        }
    }
    close(fds[1].fd);
}

/* Places that a daemon under load comes by, and those that it comes by at its start. */
static const char *const places[] = { "log.insert",     "log.begin",     "log.commit",      "log.committed",
                                      "commit.durable", "rebuild.begin", "publish.reserve", "publish.fill",
                                      "publish.verify", "publish.link",  "publish.linked" };
static const char *const start_places[] = { "takeover.alias",  "takeover.temp",  "takeover.rename",
                                            "takeover.retire", "takeover.sweep", "publish.linked",
                                            "lock.opened" };

static void kill_at_a_place(struct parent *p)
{
    const char *place = places[roll_below(&p->state, sizeof places / sizeof places[0])];
    char what[32];

    snprintf(what, sizeof what, "count %u kill", (unsigned)roll_below(&p->state, 4));
    failpoint_set(place, what);
    take_acks(p, UINT64_MAX);
    int status = reap(p->daemon.pid);
    if (status != 128 + SIGKILL)
        die("the daemon ended with %d at %s", status, place);
    daemon_forget(&p->daemon);
    failpoint_clear(place);
    p->died_at_place++;
}

static void start_again(struct parent *p)
{
    if (!p->orderly && roll_below(&p->state, 3) == 0) {
        const char *place = start_places[roll_below(&p->state, sizeof start_places / sizeof start_places[0])];
        failpoint_set(place, "kill");
        if (daemon_start(&p->daemon)) /* takeover.retire: there was nothing to retire */
            daemon_end(&p->daemon, SIGKILL);
        failpoint_clear(place);
        p->died_at_start++;
    }
    daemon_must_start(&p->daemon);
}

static void end_orderly(struct parent *p)
{
    char path[512];

    int status = daemon_end(&p->daemon, SIGTERM);
    if (status != 0)
        die("the daemon ended with %d on SIGTERM", status);
    snprintf(path, sizeof path, "%s/default.sock", getenv("SKADE_RUN_DIR"));
    if (access(path, F_OK) == 0)
        die("the daemon left its socket");
}

static void cycle(struct parent *p)
{
    take_acks(p, 1 + roll_below(&p->state, 60));
    if (p->orderly)
        end_orderly(p);
    else if (roll_below(&p->state, 5) < 2)
        kill_at_a_place(p);
    else if (daemon_end(&p->daemon, SIGKILL) != 128 + SIGKILL)
        die("the daemon ended by itself");
    start_again(p);
}

static void start_children(struct parent *p)
{
    int ends[2];

    if (pipe(ends) < 0)
        die("pipe: %s", strerror(errno));
    p->acks_fd = ends[0];
    for (uint32_t i = 0; i < WRITERS + READERS; i++) {
        p->children[i] = fork_child();
        if (p->children[i] == 0) {
            close(ends[0]);
            if (i < WRITERS)
                run_writer(i, ends[1]);
            else
                run_reader(i - WRITERS, p->state + i);
            exit(0);
        }
    }
    close(ends[1]);
}

static void end_children(struct parent *p)
{
    struct pollfd fd = { p->acks_fd, POLLIN, 0 };

    common->stop = true;
    while (poll(&fd, 1, -1) > 0 && (fd.revents & POLLIN))
        take_ack(p);
    for (int i = 0; i < WRITERS + READERS; i++) {
        int status = reap(p->children[i]);
        if (status != 0)
            die("process %d of the load ended with %d", i, status);
    }
}

/* ---- the verdict ------------------------------------------------------------------------------------------------ */

struct history {
    const struct parent *p;
    uint32_t table;
    int64_t version; /* expected next, downwards */
};

static uint64_t acknowledged(const struct parent *p, uint32_t t, uint32_t v)
{
    for (size_t i = p->acks_count; i-- > 0;)
        if (p->acks[i].table == t && p->acks[i].version == v)
            return p->acks[i].seq;
    return 0;
}

static int check_event(void *arg, const struct skade_event *e)
{
    struct history *h = arg;
    char right[SYNTHETIC_LOCATION_MAX];

    if (e->kind == SKADE_EVENT_CREATE && h->version == -1)
        return 0;
    if (e->kind != SKADE_EVENT_COMMIT || h->version < 0)
        die("history of table %u: event %llu is too much", h->table, (unsigned long long)e->seq);
    synthetic_location(right, h->table, (uint32_t)h->version);
    if (strcmp(e->location, right) != 0)
        die("history of table %u: %s where version %lld should be: lost or made twice", h->table, e->location,
            (long long)h->version);
    if (acknowledged(h->p, h->table, (uint32_t)h->version) != e->seq)
        die("table %u version %lld is event %llu and was acknowledged as %llu", h->table,
            (long long)h->version, (unsigned long long)e->seq,
            (unsigned long long)acknowledged(h->p, h->table, (uint32_t)h->version));
    h->version--;
    return 0;
}

static void check_all(const struct parent *p, unsigned flags)
{
    skade *s = open_handle(flags, TIMEOUT_MS);

    for (size_t i = 0; i < p->acks_count; i++) {
        char where[SYNTHETIC_LOCATION_MAX];
        struct skade_answer a = SKADE_ANSWER(where, sizeof where);
        uint32_t t = p->acks[i].table, v = p->acks[i].version;
        if (skade_resolve(s, numbers[t], synthetic_id(t, v), &a) != 1)
            die("lost: table %u version %u, event %llu: %s", t, v, (unsigned long long)p->acks[i].seq,
                skade_errmsg(s));
        judge(&a, t, v, "the end");
    }
    for (uint32_t t = 0; t < TABLES; t++) {
        struct history h = { .p = p, .table = t, .version = -1 };
        for (size_t i = 0; i < p->acks_count; i++)
            h.version += p->acks[i].table == t;
        int64_t r = skade_history(s, numbers[t], 0, 0, check_event, &h);
        if (r < 0 || h.version != -1)
            die("history of table %u: %lld versions are missing (%lld)", t, (long long)(h.version + 1),
                (long long)r);
    }
    skade_close(s);
}

/* ---- main --------------------------------------------------------------------------------------------------------- */

static void make_tables(void)
{
    skade *s = open_handle(0, TIMEOUT_MS);
    char name[32];

    for (uint32_t t = 0; t < TABLES; t++) {
        int r = skade_create(s, synthetic_table(name, t), "s3://lake", &numbers[t], NULL);
        if (r < 0)
            die_of(s, "create", r);
    }
    skade_close(s);
}

int main(int argc, char **argv)
{
    struct parent p = { .daemon = daemon_of(&argc, argv), .state = seed_from_environment() };
    long cycles = argc > 1 ? atol(argv[1]) : 50;

    p.orderly = argc == 3 && strcmp(argv[2], "term") == 0;

    common = shared_memory(sizeof *common);
    daemon_must_start(&p.daemon);
    make_tables();
    start_children(&p);
    for (long i = 0; i < cycles; i++)
        cycle(&p);
    end_children(&p);
    check_all(&p, 0);
    check_all(&p, SKADE_NO_SHM);
    if (daemon_end(&p.daemon, SIGTERM) != 0)
        die("the daemon did not end cleanly");
    daemon_must_start(&p.daemon);
    check_all(&p, 0);
    printf("%ld ends, %u of them at a fail point; %u failed starts; %zu commits, %llu answers, %llu times "
           "unreachable\n",
           cycles, p.died_at_place, p.died_at_start, p.acks_count, (unsigned long long)common->answers,
           (unsigned long long)common->away);
    daemon_end(&p.daemon, SIGTERM);
    return 0;
}
