/*
 * skade against its model (tests/support/model.h): random operations, and after each of them random questions through
 * handles of every kind, whose answers must be those of the model, to the last field.
 *
 *     handles   mapped; without shared memory; verifying; one that is seldom used and holds an old map; one of a process
 *               that was forked with a handle in use; views of earlier moments; a watcher that sees every event once and
 *               in order, whatever becomes of the daemon
 *     trouble   restarts, kill -9, kill at a fail point within a change, a full disk, publication and rebuilds that fail,
 *               no daemon at all for a while
 *
 *     model STEPS -- DAEMON-OPTIONS          SKADE_SEED repeats a run
 */
#include "stress.h"

#include "model.h"

#include <sys/socket.h>

#define TIMEOUT_MS 60000
#define VIEWS 6
#define BATCH 40
#define RELEASE_MAX 12
#define LATEST UINT64_MAX

/* ---- the keeper: a process that starts the daemon, ends it, and starts it again when it dies ---------------------- */

struct keeper {
    pid_t pid;
    int fd; /* one letter each way */
};

/* What the keeper does on a letter; 0: it was the last. */
static char obey(struct daemon *d, char order, bool *automatic)
{
    switch (order) {
    case 's':
        return daemon_start(d) ? 's' : '!';
    case 't':
        return daemon_end(d, SIGTERM) == 0 ? 't' : '!';
    case 'k':
        return daemon_end(d, SIGKILL) == 128 + SIGKILL ? 'k' : '!';
    case 'a':
        *automatic = true;
        return 'a';
    case 'm':
        *automatic = false;
        return 'm';
    default:
        return 0;
    }
}

/* The daemon died.  If that was expected, its fail point is over and it starts again. */
static void revive(struct daemon *d, bool automatic, const char *place)
{
    int status = reap(d->pid);

    daemon_forget(d);
    if (!automatic || status != 128 + SIGKILL)
        die("the daemon ended by itself, with %d", status);
    failpoint_clear(place);
    daemon_must_start(d);
}

static void keep(struct daemon *d, int fd)
{
    char order, place[64] = "";
    bool automatic = false;

    for (;;) {
        struct pollfd fds[2] = { { fd, POLLIN, 0 }, { d->pid ? pid_descriptor(d->pid) : -1, POLLIN, 0 } };
        poll(fds, 2, -1);
        if (fds[1].fd >= 0)
            close(fds[1].fd);
        if (fds[1].revents & POLLIN) {
            revive(d, automatic, place);
            continue;
        }
        char message[64] = { 0 };
        if (read(fd, message, sizeof message - 1) <= 0)
            exit(0);
        if (message[0] == 'a')
            memcpy(place, message + 1, sizeof message - 1);
        order = obey(d, message[0], &automatic);
        if (write(fd, &order, 1) != 1 || order == 0)
            exit(0);
    }
}

static struct keeper keeper_start(struct daemon *d)
{
    struct keeper k;
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        die("socketpair: %s", strerror(errno));
    k.pid = fork_child();
    if (k.pid == 0) {
        close(ends[0]);
        keep(d, ends[1]);
    }
    close(ends[1]);
    k.fd = ends[0];
    return k;
}

static void order(const struct keeper *k, const char *message)
{
    char answer = 0;

    if (send(k->fd, message, strlen(message) + 1, MSG_NOSIGNAL) < 0 || read(k->fd, &answer, 1) != 1 ||
        answer != message[0])
        die("the daemon did not do '%s' as it should", message);
}

/* ---- handles --------------------------------------------------------------------------------------------------------- */

enum handle { MAPPED, SOCKET, VERIFYING, SELDOM, FORKED, HANDLES };
static const char *const handle_names[HANDLES] = { "mapped", "without shared memory", "verifying",
                                                   "seldom used", "forked" };

enum kind { RESOLVE, HEAD, AS_OF, FIND, KINDS };
static const char *const kind_names[KINDS] = { "resolve", "head", "as_of", "find_table" };

struct question {
    enum kind kind;
    uint32_t table;
    int64_t value;
    char name[SKADE_NAME_MAX + 1];
};

struct reply {
    int result;
    skade_table found;
    struct skade_answer a;
    char location[SKADE_LOCATION_MAX + 1];
};

static void ask_handle(skade *s, skade_view *v, const struct question *q, struct reply *r)
{
    r->a = (struct skade_answer)SKADE_ANSWER(r->location, sizeof r->location);
    r->found = 0;
    switch (q->kind) {
    case RESOLVE:
        r->result = v ? skade_view_resolve(v, q->table, q->value, &r->a)
                      : skade_resolve(s, q->table, q->value, &r->a);
        break;
    case HEAD:
        r->result = v ? skade_view_head(v, q->table, &r->a) : skade_head(s, q->table, &r->a);
        break;
    case AS_OF:
        r->result =
            v ? skade_view_as_of(v, q->table, q->value, &r->a) : skade_as_of(s, q->table, q->value, &r->a);
        break;
    default:
        r->result =
            v ? skade_view_find_table(v, q->name, &r->found) : skade_find_table(s, q->name, &r->found);
        break;
    }
}

/* The forked process: it goes on with its parent's handle. */
static void serve_questions(skade *inherited, int fd)
{
    struct question q;
    struct reply r;

    while (read(fd, &q, sizeof q) == (ssize_t)sizeof q) {
        ask_handle(inherited, NULL, &q, &r);
        if (write(fd, &r, sizeof r) != (ssize_t)sizeof r)
            break;
    }
    exit(0);
}

/* ---- the world --------------------------------------------------------------------------------------------------------- */

struct view {
    skade_view *view;
    uint64_t seq;
    enum handle handle;
};

/* A release that was made, to be asked for again. */
struct made {
    uint64_t first;
    size_t count;
};

/* A process that watches and passes on what it sees. */
struct watcher {
    pid_t pid;
    int fd;
    uint64_t next; /* what it must see next */
};

struct world {
    struct daemon daemon;
    struct keeper keeper;
    struct model model;
    uint64_t random;
    skade *handle[HANDLES]; /* FORKED: NULL */
    int forked_fd;
    struct watcher watcher;
    struct view view[VIEWS];
    bool down;     /* no daemon: "unreachable" is honest */
    bool crashing; /* the daemon may die within a change */
    bool publish_failing, rebuild_failing;
    uint64_t uuids;   /* made so far */
    struct made made; /* the last release with uuids */
    uint64_t questions, unreachable, crashes, restarts;
};

static const char *keep_text(const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        die("no memory");
    return copy;
}

static uint64_t below(struct world *w, uint64_t n)
{
    return roll_below(&w->random, n);
}

static bool chance(struct world *w, unsigned in)
{
    return below(w, in) == 0;
}

/* ---- what to ask and to do: small pools, so that things meet --------------------------------------------------------- */

static const char *random_name(struct world *w)
{
    static char longest[SKADE_NAME_MAX + 1];
    static const char *const names[] = { "a",
                                         "a.b",
                                         "a.b.c",
                                         "a.bc",
                                         "shop.orders",
                                         "shop.orders2",
                                         "lager.gr\xc3\xb6\xc3\x9f"
                                         "e",
                                         "z",
                                         "with space.t",
                                         "UPPER.lower",
                                         longest };

    if (!longest[0])
        memset(longest, 'n', SKADE_NAME_MAX);
    return names[below(w, sizeof names / sizeof names[0])];
}

static uint32_t random_table(struct world *w)
{
    if (chance(w, 20) || w->model.tables == 0)
        return (uint32_t)below(w, w->model.tables + 3);
    /* The newest tables are asked for most: the others are mostly dropped. */
    uint64_t last = w->model.tables < 8 ? w->model.tables : 8;
    return w->model.tables - (uint32_t)below(w, chance(w, 4) ? w->model.tables : last);
}

static int64_t random_id(struct world *w)
{
    static const int64_t odd[] = { 0, -1, 1, INT64_MIN, INT64_MAX, INT64_MIN + 1, INT64_MAX - 1, 42 };

    switch (below(w, 4)) {
    case 0:
        return odd[below(w, sizeof odd / sizeof odd[0])];
    case 1:
        return synthetic_id(0, (uint32_t)below(w, 20)); /* the same in all tables */
    case 2:
        return (int64_t)below(w, 60) - 30;
    default:
        return synthetic_id(7, (uint32_t)below(w, 400));
    }
}

static int64_t random_time(struct world *w)
{
    static const int64_t odd[] = { 0, -1, INT64_MIN, INT64_MAX, 1700000000000000, -62135596800000000 };

    if (chance(w, 6))
        return odd[below(w, sizeof odd / sizeof odd[0])];
    return 1700000000000000 + (int64_t)below(w, 50) * 1000000;
}

static const char *random_location(struct world *w)
{
    static char text[SKADE_LOCATION_MAX + 1];
    uint32_t n = (uint32_t)below(w, 4000);

    switch (below(w, 12)) {
    case 0:
        snprintf(text, sizeof text, "s3://bucket/t/metadata/v%u.metadata.json", n);
        break;
    case 1:
        snprintf(text, sizeof text, "file:///odd/%u/\xc3\xa4/metadata.json", n);
        break;
    case 2:
        memset(text, 'l', SKADE_LOCATION_MAX);
        text[chance(w, 2) ? SKADE_LOCATION_MAX : n + 1] = 0;
        text[0] = (char)('a' + n % 26);
        break;
    case 3:
        snprintf(text, sizeof text, "x");
        break;
    default:
        synthetic_location(text, n % 5, n);
        break;
    }
    return text;
}

/* ---- comparing ------------------------------------------------------------------------------------------------------------ */

static void show_table(const struct model *m, uint32_t table)
{
    uint64_t shown = 0;

    for (uint64_t seq = m->seq; seq > 0 && shown < 25; seq--) {
        const struct model_event *e = model_at(m, seq);
        if (e->table != table)
            continue;
        printf("  event %llu kind %u flags %u snapshot %lld time %lld watermark %llu %.60s %.90s\n",
               (unsigned long long)seq, e->kind, e->flags, (long long)e->snapshot, (long long)e->time_us,
               (unsigned long long)e->watermark, e->name, e->location);
        shown++;
    }
}

static struct model_answer expected(const struct model *m, const struct question *q, uint64_t at)
{
    switch (q->kind) {
    case RESOLVE:
        return model_resolve(m, q->table, q->value, at);
    case HEAD:
        return model_head(m, q->table, at);
    default:
        return model_as_of(m, q->table, q->value, at);
    }
}

/* What differs; NULL: nothing. */
static const char *difference(const struct model *m, const struct model_answer *want,
                              const struct skade_answer *got, int result)
{
    int right = want->status == 1                                                     ? 1
                : want->status == SKADE_ENOTABLE || want->status == SKADE_ENOSNAPSHOT ? 0
                                                                                      : want->status;

    if (got->status != want->status)
        return "the status";
    if (result != right)
        return "the result";
    if (want->status == SKADE_EEXPIRED && got->retired_by != want->retired_by)
        return "retired_by";
    if (want->status != 1 && want->status != SKADE_EEXPIRED)
        return NULL;
    const struct model_event *e = model_at(m, want->seq);
    if (got->seq != want->seq)
        return "the sequence number";
    if (got->time_us != e->time_us)
        return "the time";
    if (want->status != 1)
        return NULL;
    if (strcmp(got->location, e->location) != 0 || got->location_len != strlen(e->location))
        return "the location";
    if (((got->flags & SKADE_HAS_SNAPSHOT) != 0) != ((e->flags & SKADE_WITH_SNAPSHOT) != 0))
        return "the flag HAS_SNAPSHOT";
    if ((e->flags & SKADE_WITH_SNAPSHOT) && got->snapshot != e->snapshot)
        return "the snapshot";
    return got->flags & SKADE_STALE ? "the flag STALE" : NULL;
}

static void check_answer(struct world *w, const char *who, const struct question *q, uint64_t at,
                         struct reply *r)
{
    struct model_answer want = expected(&w->model, q, at);

    r->a.location = r->location; /* it may come from another process */
    const char *what = difference(&w->model, &want, &r->a, r->result);
    if (!what)
        return;
    printf("%s: %s of table %u, %lld, as of %lld: %s is wrong\n", who, kind_names[q->kind], q->table,
           (long long)q->value, (long long)at, what);
    printf("  expected status %d event %llu retired by %llu\n", want.status, (unsigned long long)want.seq,
           (unsigned long long)want.retired_by);
    printf("  got      status %d event %llu retired by %llu result %d flags %u time %lld snapshot %lld %s\n",
           r->a.status, (unsigned long long)r->a.seq, (unsigned long long)r->a.retired_by, r->result,
           r->a.flags, (long long)r->a.time_us, (long long)r->a.snapshot, r->location);
    show_table(&w->model, q->table);
    for (int h = 0; h < FORKED; h++)
        if (strcmp(who, handle_names[h]) == 0)
            printf("  it says: %s\n", skade_errmsg(w->handle[h]));
    die("the model has %llu events%s", (unsigned long long)w->model.seq,
        w->publish_failing ? ", publication is failing" : "");
}

static void check_found(struct world *w, const char *who, const struct question *q, uint64_t at,
                        const struct reply *r)
{
    uint32_t want = model_find(&w->model, q->name, at);

    if (r->result != (want != 0) || (want && r->found != want))
        die("%s: %s as of %lld is table %u (%d) and should be %u; the model has %llu events%s", who, q->name,
            (long long)at, r->found, r->result, want, (unsigned long long)w->model.seq,
            w->publish_failing ? ", publication is failing" : "");
}

static bool excused(struct world *w, int64_t r)
{
    if (!w->down || !is_away(r))
        return false;
    w->unreachable++;
    return true;
}

static void check_reply(struct world *w, const char *who, const struct question *q, uint64_t at,
                        struct reply *r)
{
    w->questions++;
    if (excused(w, r->result))
        return;
    if (q->kind == FIND)
        check_found(w, who, q, at, r);
    else
        check_answer(w, who, q, at, r);
}

/* ---- questions --------------------------------------------------------------------------------------------------------------- */

static struct question random_question(struct world *w)
{
    struct question q = { .kind = (enum kind)below(w, KINDS), .table = random_table(w) };

    if (q.kind == FIND)
        snprintf(q.name, sizeof q.name, "%s", random_name(w));
    else
        q.value = q.kind == RESOLVE ? random_id(w) : random_time(w);
    /* Half of the questions about snapshots are about what was committed lately. */
    if (q.kind != FIND && w->model.seq && chance(w, 2)) {
        uint64_t back = below(w, w->model.seq < 60 ? w->model.seq : 60);
        const struct model_event *e = model_at(&w->model, w->model.seq - back);
        q.table = e->table;
        q.value = q.kind == RESOLVE ? e->snapshot : e->time_us;
    }
    return q;
}

static enum handle random_handle(struct world *w)
{
    if (chance(w, 60))
        return SELDOM;
    static const enum handle often[] = { MAPPED, MAPPED, SOCKET, VERIFYING, FORKED };
    return often[below(w, 5)];
}

static void ask_one(struct world *w)
{
    static struct question q;
    static struct reply r;
    enum handle h = random_handle(w);

    q = random_question(w);
    if (h == FORKED) {
        if (write(w->forked_fd, &q, sizeof q) != (ssize_t)sizeof q ||
            read(w->forked_fd, &r, sizeof r) != (ssize_t)sizeof r)
            die("the forked process is gone");
    } else {
        ask_handle(w->handle[h], NULL, &q, &r);
    }
    check_reply(w, handle_names[h], &q, LATEST, &r);
}

static void ask_many(struct world *w, skade *s, skade_view *v, uint64_t at, const char *who)
{
    static char where[BATCH][SKADE_LOCATION_MAX + 1];
    struct skade_answer a[BATCH];
    size_t n = 1 + below(w, BATCH);

    for (size_t i = 0; i < n; i++) {
        struct question q = random_question(w);
        a[i] = (struct skade_answer)SKADE_ANSWER(where[i], sizeof where[i]);
        a[i].table = q.table;
        a[i].snapshot = q.kind == RESOLVE ? q.value : random_id(w);
    }
    skade_table tables[BATCH];
    int64_t ids[BATCH];
    for (size_t i = 0; i < n; i++) {
        tables[i] = a[i].table;
        ids[i] = a[i].snapshot;
    }
    int64_t right = 0, found = v ? skade_view_resolve_many(v, a, n) : skade_resolve_many(s, a, n);
    for (size_t i = 0; i < n; i++) {
        struct question q = { .kind = RESOLVE, .table = tables[i], .value = ids[i] };
        static struct reply r;
        w->questions++;
        if (excused(w, a[i].status))
            continue;
        r.a = a[i];
        r.result = a[i].status == 1 ? 1 : a[i].status == SKADE_EEXPIRED ? a[i].status : 0;
        memcpy(r.location, where[i], sizeof r.location);
        check_answer(w, who, &q, at, &r);
        right += a[i].status == 1;
    }
    if (!excused(w, found) && found != right)
        die("%s: resolve_many counted %lld instead of %lld", who, (long long)found, (long long)right);
}

/* ---- lists -------------------------------------------------------------------------------------------------------------------- */

struct walk {
    struct world *w;
    const char *who;
    uint32_t table; /* 0: all */
    uint64_t next;  /* downwards: the newest that may come; upwards: the next */
    uint64_t left;
    bool up;
};

static void check_event(const struct walk *k, const struct skade_event *e)
{
    struct model *m = &k->w->model;
    const struct model_event *want = e->seq >= 1 && e->seq <= m->seq ? model_at(m, e->seq) : NULL;
    static const unsigned char none[16];

    if (!want || e->kind != want->kind || e->flags != want->flags || e->table != want->table ||
        ((e->flags & SKADE_WITH_SNAPSHOT) && e->snapshot != want->snapshot) ||
        e->watermark != want->watermark || (e->kind == SKADE_EVENT_COMMIT && e->time_us != want->time_us) ||
        strcmp(e->location, want->location) != 0 || strcmp(e->name, want->name) != 0 ||
        strcmp(e->old_name, want->old_name) != 0 ||
        (memcmp(want->uuid, none, 16) != 0 && k->up && memcmp(e->uuid, want->uuid, 16) != 0)) {
        printf("%s: event %llu kind %u flags %u table %u snapshot %lld time %lld watermark %llu '%s' '%s' "
               "'%s'\n",
               k->who, (unsigned long long)e->seq, e->kind, e->flags, e->table, (long long)e->snapshot,
               (long long)e->time_us, (unsigned long long)e->watermark, e->name, e->location, e->old_name);
        show_table(m, e->table);
        die("is not that of the model");
    }
}

static int walk_event(void *arg, const struct skade_event *e)
{
    struct walk *k = arg;
    uint64_t next = k->next;

    while (k->table && next >= 1 && next <= k->w->model.seq &&
           model_at(&k->w->model, next)->table != k->table)
        next = k->up ? next + 1 : next - 1;
    if (e->seq != next || k->left == 0)
        die("%s: a list of events has %llu where %llu comes", k->who, (unsigned long long)e->seq,
            (unsigned long long)next);
    check_event(k, e);
    k->next = k->up ? next + 1 : next - 1;
    k->left--;
    return 0;
}

static void ask_history(struct world *w, enum handle h)
{
    uint32_t table = random_table(w);
    uint64_t before = chance(w, 2) ? 0 : below(w, w->model.seq + 2),
             limit = chance(w, 3) ? 0 : 1 + below(w, 30);
    struct walk k = {
        w, handle_names[h], table, (before ? before - 1 : w->model.seq), limit ? limit : UINT64_MAX, false
    };
    uint64_t want = 0;

    for (uint64_t seq = k.next < w->model.seq ? k.next : w->model.seq; seq > 0 && want < k.left; seq--)
        want += model_at(&w->model, seq)->table == table;
    if (k.next > w->model.seq)
        k.next = w->model.seq;
    int64_t r = skade_history(w->handle[h], table, before, limit, walk_event, &k);
    bool known = table >= 1 && table <= w->model.tables;
    if (!excused(w, r) && r != (known ? (int64_t)want : SKADE_ENOTABLE))
        die("%s: history of table %u before %llu limit %llu: %lld events instead of %llu: %s", k.who, table,
            (unsigned long long)before, (unsigned long long)limit, (long long)r, (unsigned long long)want,
            skade_errmsg(w->handle[h]));
}

static void ask_since(struct world *w, enum handle h)
{
    uint64_t after = chance(w, 8) ? 0 : w->model.seq - below(w, w->model.seq < 50 ? w->model.seq + 1 : 50);
    uint64_t limit = chance(w, 3) ? 0 : 1 + below(w, 30), there = w->model.seq - after;
    struct walk k = { w, handle_names[h], 0, after + 1, limit ? limit : UINT64_MAX, true };

    int64_t r = skade_commits_since(w->handle[h], after, limit, walk_event, &k);
    if (!excused(w, r) && r != (int64_t)(limit && limit < there ? limit : there))
        die("%s: %lld events after %llu, limit %llu, of %llu: %s", k.who, (long long)r,
            (unsigned long long)after, (unsigned long long)limit, (unsigned long long)there,
            skade_errmsg(w->handle[h]));
}

/* ---- watching -------------------------------------------------------------------------------------------------------------------- */

#define WATCH_ENDS 37 /* events after which the watcher ends its watch and begins another one */

/* An event on its way from the watcher, its texts with it. */
struct seen {
    struct skade_event e;
    char name[SKADE_NAME_MAX + 1], old_name[SKADE_NAME_MAX + 1], location[SKADE_LOCATION_MAX + 1];
};

struct watching {
    int fd;
    uint64_t last; /* seen and passed on */
};

/* Whoever asks decides how fast it goes: a full socket makes it a slow watcher. */
static int pass_on(void *arg, const struct skade_event *e)
{
    struct watching *t = arg;
    static struct seen m;

    m.e = *e;
    snprintf(m.name, sizeof m.name, "%s", e->name);
    snprintf(m.old_name, sizeof m.old_name, "%s", e->old_name);
    snprintf(m.location, sizeof m.location, "%s", e->location);
    if (send(t->fd, &m, sizeof m, MSG_NOSIGNAL) != (ssize_t)sizeof m)
        exit(0);
    t->last = e->seq;
    return e->seq % WATCH_ENDS == 0;
}

static void watch_for_ever(int fd)
{
    struct watching t = { .fd = fd };
    skade *s = open_handle(0, TIMEOUT_MS);

    for (;;) {
        int r = skade_watch(s, t.last, -1, pass_on, &t);
        if (r < 0 && !is_away(r)) /* a watch begins only when there is a daemon */
            die_of(s, "watch", r);
    }
}

static void watcher_start(struct watcher *k)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        die("socketpair: %s", strerror(errno));
    k->next = 1;
    k->pid = fork_child();
    if (k->pid == 0) {
        close(ends[0]);
        watch_for_ever(ends[1]);
    }
    close(ends[1]);
    k->fd = ends[0];
}

/* The next event that it saw is the next one of the model.  False: with FLAGS there is none. */
static bool watcher_saw(struct world *w, int flags)
{
    static struct seen m;
    struct walk k = { w, "watcher", 0, w->watcher.next, UINT64_MAX, true };

    ssize_t n = recv(w->watcher.fd, &m, sizeof m, flags);
    if (n <= 0 && flags)
        return false;
    if (n != (ssize_t)sizeof m)
        die("the watcher is gone");
    m.e.name = m.name; /* they were another process's */
    m.e.old_name = m.old_name;
    m.e.location = m.location;
    walk_event(&k, &m.e);
    w->watcher.next++;
    return true;
}

/* It sees everything that has happened. */
static void watch(struct world *w)
{
    while (w->watcher.next <= w->model.seq)
        watcher_saw(w, 0);
}

/* And nothing else. */
static void watcher_end(struct world *w)
{
    watch(w);
    kill(w->watcher.pid, SIGKILL);
    reap(w->watcher.pid);
    while (watcher_saw(w, MSG_DONTWAIT))
        ;
    close(w->watcher.fd);
}

struct listing {
    struct world *w;
    const char *who;
    char last[SKADE_NAME_MAX + 1];
};

static int check_table(void *arg, const struct skade_table_info *t)
{
    struct listing *l = arg;
    struct model *m = &l->w->model;
    struct model_answer head = model_head(m, t->table, LATEST);
    const char *name = model_name(m, t->table, LATEST);
    const struct model_event *e = head.status == 1 ? model_at(m, head.seq) : NULL;

    if (!name || strcmp(t->name, name) != 0 || strcmp(l->last, name) >= 0 ||
        t->stored != model_is_stored(m, t->table))
        die("%s: tables: '%s' (table %u, stored %u) after '%s'", l->who, t->name, t->table, t->stored,
            l->last);
    if (t->seq != (e ? head.seq : 0) || strcmp(t->location, e ? e->location : "") != 0 ||
        (e && t->time_us != e->time_us))
        die("%s: tables: '%s' has head %llu %s", l->who, t->name, (unsigned long long)t->seq, t->location);
    if (t->snapshots != model_snapshots(m, t->table)) {
        show_table(m, t->table);
        die("%s: tables: '%s' (table %u) has %llu snapshots instead of %llu", l->who, t->name, t->table,
            (unsigned long long)t->snapshots, (unsigned long long)model_snapshots(m, t->table));
    }
    snprintf(l->last, sizeof l->last, "%s", t->name);
    return 0;
}

static void ask_tables(struct world *w, enum handle h)
{
    static const char *const prefixes[] = { "", "", "a", "a.b", "shop.", "shop.orders", "nothing", "z" };
    const char *prefix = prefixes[below(w, 8)];
    struct listing l = { .w = w, .who = handle_names[h] };
    int64_t want = 0;

    for (uint32_t t = 1; t <= w->model.tables; t++) {
        const char *name = model_name(&w->model, t, LATEST);
        want += name && strncmp(name, prefix, strlen(prefix)) == 0;
    }
    int64_t r = skade_tables(w->handle[h], prefix, check_table, &l);
    if (!excused(w, r) && r != want)
        die("%s: %lld tables begin with '%s', not %lld", l.who, (long long)want, prefix, (long long)r);
}

/* ---- views ------------------------------------------------------------------------------------------------------------------------ */

static void open_view(struct world *w, struct view *v)
{
    static const enum handle kinds[] = { MAPPED, MAPPED, SOCKET, VERIFYING };

    v->handle = kinds[below(w, 4)];
    int r = skade_view_open(w->handle[v->handle], &v->view);
    if (r < 0) {
        v->view = NULL;
        if (!excused(w, r))
            die_of(w->handle[v->handle], "view_open", r);
        return;
    }
    v->seq = skade_view_seq(v->view);
    /* With no daemon it is a moment that was: the newest that the page knows. */
    if (w->down ? v->seq > w->model.seq : v->seq != w->model.seq)
        die("%s: a view as of %llu and not %llu", handle_names[v->handle], (unsigned long long)v->seq,
            (unsigned long long)w->model.seq);
}

static void use_view(struct world *w)
{
    struct view *v = &w->view[below(w, VIEWS)];
    static struct question q;
    static struct reply r;
    char who[64];

    if (!v->view) {
        open_view(w, v);
        return;
    }
    snprintf(who, sizeof who, "view, %s", handle_names[v->handle]);
    for (int i = 0; i < 4; i++) {
        q = random_question(w);
        ask_handle(NULL, v->view, &q, &r);
        check_reply(w, who, &q, v->seq, &r);
    }
    ask_many(w, NULL, v->view, v->seq, who);
    if (chance(w, 10)) {
        skade_view_close(v->view);
        v->view = NULL;
    }
}

static void ask_something(struct world *w)
{
    static const enum handle own[] = { MAPPED, SOCKET, VERIFYING };
    enum handle h = own[below(w, 3)];

    for (int i = 0; i < 5; i++)
        ask_one(w);
    switch (below(w, 6)) {
    case 0:
        ask_many(w, w->handle[h], NULL, LATEST, handle_names[h]);
        break;
    case 1:
        ask_history(w, h);
        break;
    case 2:
        ask_since(w, h);
        break;
    case 3:
        ask_tables(w, h);
        break;
    default:
        use_view(w);
        break;
    }
}

/* ---- changes -------------------------------------------------------------------------------------------------------------------------- */

static skade *random_changer(struct world *w)
{
    return w->handle[chance(w, 2) ? MAPPED : SOCKET];
}

/* R is what a change gave; ERRORS (ends with 0) are the right ones, none: it had to succeed.  True: it was made. */
static bool outcome(struct world *w, skade *s, const char *what, int r, const int *errors)
{
    if (errors[0] == 0 && r == 0)
        return true;
    for (; *errors; errors++)
        if (r == *errors)
            return false;
    die("%s: %d %s: %s; the model has %llu events", what, r, r < 0 ? skade_errname(r) : "",
        r < 0 ? skade_errmsg(s) : "", (unsigned long long)w->model.seq);
}

static void check_seq(struct world *w, const char *what, uint64_t seq)
{
    if (seq != w->model.seq)
        die("%s: event %llu instead of %llu", what, (unsigned long long)seq,
            (unsigned long long)w->model.seq);
}

static void do_create(struct world *w)
{
    const char *name = random_name(w), *location = chance(w, 4) ? NULL : "s3://bucket/a/table";
    int errors[2] = { model_find(&w->model, name, LATEST) ? SKADE_EEXISTS : 0, 0 };
    skade *s = random_changer(w);
    skade_table table = 0;
    uint64_t seq;

    int r = skade_create(s, name, location, &table, &seq);
    if (!outcome(w, s, "create", r, errors))
        return;
    struct model_event *e = model_add(&w->model);
    *e = (struct model_event){ .kind = SKADE_EVENT_CREATE,
                               .flags = location ? 0 : SKADE_STORED_TABLE,
                               .table = ++w->model.tables,
                               .name = keep_text(name),
                               .location = location ? location : "",
                               .old_name = "" };
    check_seq(w, "create", seq);
    if (table != e->table)
        die("create: table %u instead of %u", table, e->table);
}

static void do_rename(struct world *w)
{
    const char *name = random_name(w), *to = random_name(w);
    uint32_t table = model_find(&w->model, name, LATEST);
    int errors[3] = { 0 }, n = 0;
    skade *s = random_changer(w);
    uint64_t seq;

    if (!table)
        errors[n++] = SKADE_ENOTABLE;
    else if (model_find(&w->model, to, LATEST))
        errors[n++] = SKADE_EEXISTS;
    int r = skade_rename(s, name, to, &seq);
    if (!outcome(w, s, "rename", r, errors))
        return;
    struct model_event *e = model_add(&w->model);
    e->kind = SKADE_EVENT_RENAME;
    e->table = table;
    e->name = keep_text(to);
    e->old_name = keep_text(name);
    check_seq(w, "rename", seq);
}

static void do_drop(struct world *w)
{
    const char *name = random_name(w);
    uint32_t table = model_find(&w->model, name, LATEST);
    int errors[2] = { table ? 0 : SKADE_ENOTABLE, 0 };
    skade *s = random_changer(w);
    uint64_t seq;

    int r = skade_drop(s, name, &seq);
    if (!outcome(w, s, "drop", r, errors))
        return;
    struct model_event *e = model_add(&w->model);
    e->kind = SKADE_EVENT_DROP;
    e->table = table;
    e->name = keep_text(name);
    check_seq(w, "drop", seq);
}

static void add_expiry(struct world *w, uint32_t table, uint64_t watermark)
{
    const char *name = model_name(&w->model, table, LATEST);
    struct model_event *e = model_add(&w->model);

    e->kind = SKADE_EVENT_EXPIRE;
    e->table = table;
    e->watermark = watermark;
    e->name = name;
}

static void do_expire(struct world *w)
{
    uint32_t table = random_table(w);
    struct model *m = &w->model;
    int64_t id = random_id(w), time_us = random_time(w);
    bool by_time = chance(w, 2);
    uint64_t by, mark = model_watermark(m, table, LATEST, &by), watermark = 0, seq;
    struct model_answer a = model_resolve(m, table, id, LATEST);
    int errors[2] = { 0 };
    skade *s = random_changer(w);

    if (!model_name(m, table, LATEST))
        errors[0] = SKADE_ENOTABLE;
    else if (by_time)
        watermark = model_run_before(m, table, time_us);
    else if (a.status != 1 && a.status != SKADE_EEXPIRED)
        errors[0] = a.status;
    else if (a.seq > model_retirable(m, table))
        errors[0] = SKADE_EINPUT;
    else
        watermark = a.seq;
    int r =
        by_time ? skade_expire_before(s, table, time_us, &seq) : skade_expire_snapshot(s, table, id, &seq);
    if (!outcome(w, s, by_time ? "expire_before" : "expire_snapshot", r, errors))
        return;
    if (watermark > mark)
        add_expiry(w, table, watermark);
    if (seq != (watermark > mark ? m->seq : 0)) {
        show_table(m, table);
        die("%s of table %u (%lld, %lld) gave event %llu; expected watermark %llu above %llu",
            by_time ? "expire_before" : "expire_snapshot", table, (long long)time_us, (long long)id,
            (unsigned long long)seq, (unsigned long long)watermark, (unsigned long long)mark);
    }
}

/* ---- commits ------------------------------------------------------------------------------------------------------------------------ */

static void next_uuid(struct world *w, unsigned char *ret)
{
    uint64_t a = synthetic_mix(++w->uuids), b = synthetic_mix(a);

    memcpy(ret, &a, 8);
    memcpy(ret + 8, &b, 8);
}

static struct skade_commit random_commit(struct world *w)
{
    static const unsigned flags[] = { SKADE_INTRODUCES | SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT,
                                      SKADE_INTRODUCES | SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT,
                                      SKADE_INTRODUCES | SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT,
                                      SKADE_INTRODUCES | SKADE_WITH_SNAPSHOT,
                                      SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT,
                                      SKADE_MOVES_HEAD };
    struct skade_commit c = { .size = sizeof c, .table = random_table(w) };

    c.flags = flags[below(w, 6)];
    c.snapshot = random_id(w);
    c.has_time = !chance(w, 5);
    c.location = keep_text(random_location(w));
    if (c.has_time)
        c.time_us = random_time(w);
    if (!(c.flags & SKADE_WITH_SNAPSHOT))
        c.snapshot = 0;
    if (chance(w, 2))
        next_uuid(w, c.uuid);
    return c;
}

/* Give C a base that fits what M has, or doesn't. */
static void put_base(struct world *w, const struct model *m, struct skade_commit *c)
{
    struct model_answer head = model_head(m, c->table, LATEST);

    c->base = (uint32_t)below(w, 3);
    if (c->base != SKADE_BASE_IS)
        return;
    c->base_location =
        head.status == 1 && !chance(w, 6) ? model_at(m, head.seq)->location : "s3://not/the/head";
}

/* Why the model refuses C; 0: it doesn't. */
static int refusal(const struct model *m, const struct skade_commit *c)
{
    struct model_answer head = model_head(m, c->table, LATEST);

    if (head.status == SKADE_ENOTABLE)
        return SKADE_ENOTABLE;
    if (model_is_stored(m, c->table))
        return SKADE_EKIND;
    if ((c->base == SKADE_BASE_NONE && head.status == 1) ||
        (c->base == SKADE_BASE_IS &&
         (head.status != 1 || strcmp(c->base_location, model_at(m, head.seq)->location) != 0)))
        return SKADE_ECONFLICT;
    return 0;
}

static void add_commit(struct model *m, const struct skade_commit *c)
{
    const char *name = model_name(m, c->table, LATEST);
    struct model_event *e = model_add(m);

    *e = (struct model_event){ .kind = SKADE_EVENT_COMMIT,
                               .flags = c->flags,
                               .table = c->table,
                               .snapshot = c->snapshot,
                               .time_us = c->time_us,
                               .location = c->location,
                               .name = name,
                               .old_name = "" };
    memcpy(e->uuid, c->uuid, 16);
}

static int learn_time(void *arg, const struct skade_event *e)
{
    struct model *m = arg;
    model_at(m, e->seq)->time_us = e->time_us;
    return 0;
}

/* The daemon gave the events from FIRST on a time: it is what it says, and stays so. */
static void learn_times(struct world *w, uint64_t first)
{
    uint64_t count = w->model.seq - first + 1;
    int64_t r;

    do /* it may die at a place that comes after the answer */
        r = skade_commits_since(w->handle[SOCKET], first - 1, count, learn_time, &w->model);
    while (r < 0 && w->crashing && is_away((int)r));
    if (r != (int64_t)count)
        die_of(w->handle[SOCKET], "commits_since", (int)r);
}

static void check_conflict(struct world *w, uint32_t table, const struct skade_answer *head)
{
    struct model_answer want = model_head(&w->model, table, LATEST);

    if (head->status != want.status ||
        (want.status == 1 &&
         (head->seq != want.seq || strcmp(head->location, model_at(&w->model, want.seq)->location) != 0)))
        die("a conflict on table %u says status %d, event %llu, %s; the head is event %llu", table,
            head->status, (unsigned long long)head->seq, head->location, (unsigned long long)want.seq);
}

static void do_commit(struct world *w)
{
    struct skade_commit c = random_commit(w);
    char where[SKADE_LOCATION_MAX + 1];
    struct skade_answer head = SKADE_ANSWER(where, sizeof where);
    skade *s = random_changer(w);
    uint64_t seq;

    put_base(w, &w->model, &c);
    int errors[2] = { refusal(&w->model, &c), 0 };
    int r = skade_commit(s, &c, &seq, &head);
    if (r == SKADE_ECONFLICT && errors[0] == r)
        check_conflict(w, c.table, &head);
    if (!outcome(w, s, "commit", r, errors))
        return;
    add_commit(&w->model, &c);
    check_seq(w, "commit", seq);
    if (!c.has_time)
        learn_times(w, seq);
}

/* A uuid that came before: with the same content the first answer comes again, with other content it is refused. */
static void do_repeat(struct world *w)
{
    static const unsigned char none[16];
    uint64_t old = 1 + below(w, w->model.seq);
    const struct model_event *e = model_at(&w->model, old);
    skade *s = random_changer(w);
    bool other = chance(w, 3);
    uint64_t seq;

    if (e->kind != SKADE_EVENT_COMMIT || memcmp(e->uuid, none, 16) == 0 ||
        (w->made.count && old >= w->made.first && old < w->made.first + w->made.count))
        return;
    struct skade_commit c = { .size = sizeof c,
                              .table = e->table,
                              .flags = e->flags,
                              .snapshot = e->snapshot,
                              .location = other ? "s3://other/content" : e->location,
                              .base = (uint32_t)below(w, 2) };
    memcpy(c.uuid, e->uuid, 16);
    int errors[2] = { other ? SKADE_EINPUT : 0, 0 };
    int r = skade_commit(s, &c, &seq, NULL);
    if (outcome(w, s, "commit again", r, errors) && seq != old)
        die("commit again: event %llu instead of %llu", (unsigned long long)seq, (unsigned long long)old);
}

static int send_release(struct world *w, skade *s, const struct skade_commit *c, size_t n, uint64_t *first,
                        uint64_t *last)
{
    if (w->crashing || chance(w, 2)) /* pieces are not sent again by themselves */
        return skade_release(s, c, n, first, last);
    for (size_t i = 0; i < n;) {
        size_t some = 1 + below(w, n - i);
        int r = skade_release_add(s, c + i, some);
        if (r < 0) {
            skade_release_abort(s);
            return r;
        }
        i += some;
    }
    return skade_release_end(s, first, last);
}

static void release_again(struct world *w)
{
    struct skade_commit c[RELEASE_MAX];
    skade *s = random_changer(w);
    uint64_t first, last;

    for (size_t i = 0; i < w->made.count; i++) {
        const struct model_event *e = model_at(&w->model, w->made.first + i);
        c[i] = (struct skade_commit){ .size = sizeof c[i],
                                      .table = e->table,
                                      .flags = e->flags,
                                      .snapshot = e->snapshot,
                                      .location = e->location };
        memcpy(c[i].uuid, e->uuid, 16);
    }
    int r = send_release(w, s, c, w->made.count, &first, &last);
    if (r < 0)
        die_of(s, "release again", r);
    if (first != w->made.first || last != w->made.first + w->made.count - 1)
        die("release again: events %llu to %llu instead of %llu", (unsigned long long)first,
            (unsigned long long)last, (unsigned long long)w->made.first);
}

/* Rows are judged one after the other, as the earlier ones leave things; one that is refused takes all with it. */
static void do_release(struct world *w)
{
    struct skade_commit c[RELEASE_MAX];
    struct model after = w->model;
    size_t n = 1 + below(w, RELEASE_MAX);
    bool with_uuids = chance(w, 2), unclocked = false;
    skade *s = random_changer(w);
    uint64_t first, last;
    int errors[2] = { 0 };

    after.events = malloc((after.seq + n + 1) * sizeof *after.events);
    after.cap = after.seq + n + 1;
    if (!after.events)
        die("no memory");
    memcpy(after.events, w->model.events, after.seq * sizeof *after.events);
    for (size_t i = 0; i < n; i++) {
        c[i] = random_commit(w);
        memset(c[i].uuid, 0, 16);
        if (with_uuids)
            next_uuid(w, c[i].uuid);
        if (!chance(w, 3)) /* mostly of a table that takes it */
            for (int tries = 0; tries < 10 && refusal(&after, &c[i]) != 0; tries++)
                c[i].table = random_table(w);
        put_base(w, &after, &c[i]);
        if (refusal(&after, &c[i]) == SKADE_ECONFLICT && !chance(w, 5))
            c[i].base = SKADE_BASE_ANY;
        if (errors[0] == 0)
            errors[0] = refusal(&after, &c[i]);
        if (errors[0] == 0)
            add_commit(&after, &c[i]);
        unclocked |= !c[i].has_time;
    }
    int r = send_release(w, s, c, n, &first, &last);
    if (!outcome(w, s, "release", r, errors)) {
        free(after.events);
        return;
    }
    uint64_t had = w->model.seq;
    free(w->model.events);
    w->model = after;
    if (first != had + 1 || last != had + n)
        die("release: events %llu to %llu instead of %llu", (unsigned long long)first,
            (unsigned long long)last, (unsigned long long)had + 1);
    if (unclocked)
        learn_times(w, first);
    if (with_uuids)
        w->made = (struct made){ first, n };
}

/* ---- trouble ------------------------------------------------------------------------------------------------------------------------ */

static void do_change(struct world *w);

static void toggle_publication(struct world *w)
{
    w->publish_failing = !w->publish_failing;
    if (w->publish_failing)
        failpoint_set("publish.reserve", "fail 28");
    else
        failpoint_clear("publish.reserve");
}

static void toggle_rebuilds(struct world *w)
{
    w->rebuild_failing = !w->rebuild_failing;
    if (w->rebuild_failing)
        failpoint_set("rebuild.begin", "fail 12");
    else
        failpoint_clear("rebuild.begin");
}

/* Until no job is under way that was begun before: one of them may have seen the fail point. */
static void settle(struct world *w)
{
    struct skade_reindexed reindexed = { .size = sizeof reindexed };
    int r;

    if (w->rebuild_failing)
        toggle_rebuilds(w);
    while ((r = skade_reindex(w->handle[MAPPED], &reindexed)) < 0)
        if (!is_away(r))
            die_of(w->handle[MAPPED], "reindex", r);
}

/* The daemon dies within a change and comes back: the change is made once. */
static void crash_within(struct world *w)
{
    static const char *const places[] = { "log.begin",      "log.insert",     "log.commit",
                                          "log.committed",  "commit.durable", "publish.link",
                                          "publish.linked", "publish.reserve" };
    const char *place = places[below(w, 8)];
    char message[64];

    if (w->publish_failing)
        return;
    snprintf(message, sizeof message, "a%s", place);
    order(&w->keeper, message);
    failpoint_set(place, "kill");
    w->crashing = true;
    for (int i = 0; i < 3; i++)
        do_change(w);
    w->crashing = false;
    failpoint_clear(place);
    settle(w);
    order(&w->keeper, "m");
    w->crashes++;
}

static void restart(struct world *w)
{
    order(&w->keeper, chance(w, 2) ? "k" : "t");
    order(&w->keeper, "s");
    w->restarts++;
}

/* No daemon: what was published is answered, the rest is unreachable, nothing is wrong. */
static void be_down(struct world *w)
{
    order(&w->keeper, chance(w, 2) ? "k" : "t");
    w->down = true;
    for (int i = 0; i < 10; i++)
        ask_something(w);
    w->down = false;
    order(&w->keeper, "s");
    w->restarts++;
}

static void reindex(struct world *w)
{
    struct skade_reindexed r = { .size = sizeof r };

    if (w->publish_failing || w->rebuild_failing)
        return;
    int result = skade_reindex(w->handle[MAPPED], &r);
    if (result < 0)
        die_of(w->handle[MAPPED], "reindex", result);
}

static void fill_disk(struct world *w)
{
    struct skade_commit c = random_commit(w);
    skade *s = random_changer(w);

    c.base = SKADE_BASE_ANY;
    if (refusal(&w->model, &c) != 0)
        return;
    failpoint_set(chance(w, 2) ? "log.commit" : "log.insert", "fail 28");
    int r = skade_commit(s, &c, NULL, NULL);
    failpoint_clear("log.commit");
    failpoint_clear("log.insert");
    if (r != SKADE_EFULL)
        die("a commit on a full disk: %d %s: %s", r, skade_errname(r), skade_errmsg(s));
}

/* ---- steps -------------------------------------------------------------------------------------------------------------------------- */

static void do_change(struct world *w)
{
    uint64_t dice = below(w, 100);

    if (dice < 12 || w->model.tables == 0)
        do_create(w);
    else if (dice < 20)
        do_rename(w);
    else if (dice < 23)
        do_drop(w);
    else if (dice < 33)
        do_expire(w);
    else if (dice < 40)
        do_repeat(w);
    else if (dice < 43 && w->made.count)
        release_again(w);
    else if (dice < 60)
        do_release(w);
    else
        do_commit(w);
}

static void disturb(struct world *w)
{
    switch (below(w, 8)) {
    case 0:
        restart(w);
        break;
    case 1:
        be_down(w);
        break;
    case 2:
    case 3:
        crash_within(w);
        break;
    case 4:
        toggle_publication(w);
        break;
    case 5:
        toggle_rebuilds(w);
        break;
    case 6:
        fill_disk(w);
        break;
    default:
        reindex(w);
        break;
    }
}

static void step(struct world *w)
{
    if (chance(w, 25))
        disturb(w);
    else
        do_change(w);
    ask_something(w);
    if (chance(w, 10))
        watch(w);
}

/* ---- main --------------------------------------------------------------------------------------------------------------------------- */

static void open_handles(struct world *w)
{
    static const unsigned flags[HANDLES] = { 0, SKADE_NO_SHM, SKADE_VERIFY_MAPS, 0, 0 };
    int ends[2];

    for (int h = 0; h < FORKED; h++)
        w->handle[h] = open_handle(flags[h], TIMEOUT_MS);
    skade *inherited = open_handle(0, TIMEOUT_MS);
    if (skade_ping(inherited) < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        die_of(inherited, "ping", 0);
    if (fork_child() == 0) {
        close(ends[0]);
        serve_questions(inherited, ends[1]);
    }
    close(ends[1]);
    w->forked_fd = ends[0];
    skade_close(inherited);
}

static void close_handles(struct world *w)
{
    for (int i = 0; i < VIEWS; i++)
        skade_view_close(w->view[i].view);
    for (int h = 0; h < HANDLES; h++)
        skade_close(w->handle[h]);
}

int main(int argc, char **argv)
{
    static struct world w;
    w.daemon = daemon_of(&argc, argv);
    w.random = seed_from_environment();
    long steps = argc > 1 ? atol(argv[1]) : 1000;

    w.keeper = keeper_start(&w.daemon);
    order(&w.keeper, "s");
    watcher_start(&w.watcher);
    open_handles(&w);
    for (long i = 0; i < steps; i++)
        step(&w);
    failpoint_clear("publish.reserve");
    failpoint_clear("rebuild.begin");
    order(&w.keeper, "t");
    order(&w.keeper, "s");
    for (int i = 0; i < 100; i++)
        ask_something(&w);
    watcher_end(&w);
    close_handles(&w);
    order(&w.keeper, "t");
    printf("%ld steps, %llu events, %llu questions, %llu unreachable, %llu crashes, %llu restarts\n", steps,
           (unsigned long long)w.model.seq, (unsigned long long)w.questions,
           (unsigned long long)w.unreachable, (unsigned long long)w.crashes, (unsigned long long)w.restarts);
    return 0;
}
