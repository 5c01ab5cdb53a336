/*
 * The order of events, seen by everybody: one process changes things in a planned order, several others ask all the time,
 * each with a handle of its own kind.
 *
 *     writer:   state[k+1] = plan;  begun = k+1;  do it;  done = k+1
 *     others:   low = done;  ask;  high = begun;  the answer must be that of one of the states low ... high
 *
 * So nothing that was true before a reply is answered after it, nothing is answered before it was asked for, and what is
 * asked at one moment (a batch, a view, a list of tables) belongs to one state: a release is never half visible.  A view
 * even says which: its sequence number must be that of a state.
 *
 *     order OPERATIONS [trouble] [kill] -- DAEMON-OPTIONS
 *
 * trouble: publication fails now and then.  kill: the daemon is killed and started now and then; "unreachable" is an
 * honest answer then, and only then.
 */
#include "stress.h"

#include <sched.h>
#include <stdatomic.h>

#define SLOTS 4
#define NAMES 6
#define STATES 100000
#define POLLERS 4
#define TIMEOUT_MS 60000

/* One table of the plan.  Version v of slot i's table has the id id_of(number, v). */
struct slot {
    uint32_t number;   /* 0: no table */
    uint32_t name;     /* it bears */
    uint32_t versions; /* commits */
    uint32_t retired;  /* versions below are retired */
};

struct state {
    uint64_t seq;
    struct slot slot[SLOTS];
};

struct common {
    atomic_uint begun, done;
    atomic_bool stop;
    atomic_uint away; /* > 0: the daemon may be gone */
    atomic_ullong asked[POLLERS];
    struct state state[STATES];
};

static struct common *common;

static int64_t id_of(uint32_t number, uint32_t v)
{
    return synthetic_id(number, v);
}

static const char *name_of(char *ret, uint32_t name)
{
    snprintf(ret, 32, "order.name%u", name);
    return ret;
}

/* ---- what a state says ------------------------------------------------------------------------------------------ */

/* What a question by table gives. */
struct verdict {
    int status;
    uint32_t version;
};

static const struct slot *slot_of(const struct state *x, uint32_t number)
{
    for (int i = 0; i < SLOTS; i++)
        if (x->slot[i].number == number)
            return &x->slot[i];
    return NULL;
}

static struct verdict says_resolve(const struct state *x, uint32_t number, uint32_t v)
{
    const struct slot *s = slot_of(x, number);

    if (!s)
        return (struct verdict){ SKADE_ENOTABLE, 0 };
    if (v >= s->versions)
        return (struct verdict){ SKADE_ENOSNAPSHOT, 0 };
    return (struct verdict){ v < s->retired ? SKADE_EEXPIRED : 1, v };
}

static struct verdict says_head(const struct state *x, uint32_t number)
{
    const struct slot *s = slot_of(x, number);

    if (!s)
        return (struct verdict){ SKADE_ENOTABLE, 0 };
    if (s->versions == 0)
        return (struct verdict){ SKADE_ENOSNAPSHOT, 0 };
    return (struct verdict){ 1, s->versions - 1 };
}

static struct verdict says_as_of(const struct state *x, uint32_t number, uint32_t v)
{
    const struct slot *s = slot_of(x, number);
    struct verdict head = says_head(x, number);

    if (head.status != 1 || v >= head.version)
        return head;
    return (struct verdict){ v < s->retired ? SKADE_EEXPIRED : 1, v };
}

static uint32_t says_name(const struct state *x, uint32_t name)
{
    for (int i = 0; i < SLOTS; i++)
        if (x->slot[i].number && x->slot[i].name == name)
            return x->slot[i].number;
    return 0;
}

/* ---- one poller --------------------------------------------------------------------------------------------------- */

struct poller {
    unsigned index;
    const char *what;
    skade *s;
    uint64_t random;
    unsigned low, high; /* states that the answer may belong to */
    bool may_be_away;
};

static void begin(struct poller *p)
{
    p->may_be_away = common->away > 0;
    p->low = common->done;
}

static void end(struct poller *p)
{
    p->high = common->begun;
    p->may_be_away |= common->away > 0;
    common->asked[p->index]++;
}

static bool excused(const struct poller *p, int64_t r, const char *question)
{
    if (!is_away(r))
        return false;
    if (!p->may_be_away)
        die("%s: %s: %s: %s, though the daemon is there", p->what, question, skade_errname((int)r),
            skade_errmsg(p->s));
    return true;
}

/* Does the answer A say what a state expects? */
static bool agrees(struct verdict v, uint32_t number, const struct skade_answer *a)
{
    char right[SYNTHETIC_LOCATION_MAX];

    if (v.status != a->status)
        return false;
    if (v.status != 1)
        return true;
    synthetic_location(right, number, v.version);
    return strcmp(a->location, right) == 0 && a->snapshot == id_of(number, v.version) &&
           a->time_us == synthetic_time_us(number, v.version);
}

static void wrong(const struct poller *p, const char *question, uint32_t number, uint32_t v,
                  const struct skade_answer *a)
{
    printf("%s: wrong answer: %s of table %u version %u: status %d %s, snapshot %lld, event %llu, flags %u, "
           "%s\n",
           p->what, question, number, v, a->status, a->status == 1 ? "" : skade_errname(a->status),
           (long long)a->snapshot, (unsigned long long)a->seq, a->flags, a->status == 1 ? a->location : "");
    for (unsigned k = p->low; k <= p->high; k++) {
        const struct slot *s = slot_of(&common->state[k], number);
        printf("  state %u (event %llu): %u versions, %u retired, named %u\n", k,
               (unsigned long long)common->state[k].seq, s ? s->versions : 0, s ? s->retired : 0,
               s ? s->name : 99);
    }
    die("none of the states %u to %u says so", p->low, p->high);
}

/* A table to ask for: one that lives, or that lived. */
static uint32_t some_table(struct poller *p)
{
    const struct state *x = &common->state[roll_below(&p->random, 8) && common->done > 0 ? common->done : 0];
    uint32_t number = x->slot[roll_below(&p->random, SLOTS)].number;
    unsigned back = (unsigned)roll_below(&p->random, 20);

    if (!number && common->done >= back)
        number = common->state[common->done - back].slot[roll_below(&p->random, SLOTS)].number;
    return number ? number : 1;
}

static uint32_t some_version(struct poller *p, uint32_t number)
{
    const struct slot *s = slot_of(&common->state[common->done], number);
    uint32_t versions = s ? s->versions : 3;

    /* The newest ones and those around the watermark are asked for most. */
    switch (roll_below(&p->random, 4)) {
    case 0:
        return (uint32_t)roll_below(&p->random, versions + 2);
    case 1:
        return s && s->retired ? s->retired - (uint32_t)roll_below(&p->random, 2) : 0;
    default:
        return versions ? versions - (uint32_t)roll_below(&p->random, 2) : 0;
    }
}

enum question { RESOLVE, HEAD, AS_OF };

static struct verdict says(const struct state *x, enum question q, uint32_t number, uint32_t v)
{
    return q == RESOLVE ? says_resolve(x, number, v)
           : q == HEAD  ? says_head(x, number)
                        : says_as_of(x, number, v);
}

static void ask_one(struct poller *p)
{
    static const char *const questions[] = { "resolve", "head", "as_of" };
    char where[SYNTHETIC_LOCATION_MAX];
    struct skade_answer a = SKADE_ANSWER(where, sizeof where);
    enum question q = (enum question)roll_below(&p->random, 3);
    uint32_t number = some_table(p), v = some_version(p, number);

    begin(p);
    int r = q == RESOLVE ? skade_resolve(p->s, number, id_of(number, v), &a)
            : q == HEAD  ? skade_head(p->s, number, &a)
                         : skade_as_of(p->s, number, synthetic_time_us(number, v), &a);
    end(p);
    if (excused(p, r, questions[q]))
        return;
    for (unsigned k = p->low; k <= p->high; k++)
        if (agrees(says(&common->state[k], q, number, v), number, &a))
            return;
    wrong(p, questions[q], number, v, &a);
}

static void ask_name(struct poller *p)
{
    uint32_t name = (uint32_t)roll_below(&p->random, NAMES);
    char text[32];
    skade_table number = 0;

    begin(p);
    int r = skade_find_table(p->s, name_of(text, name), &number);
    end(p);
    if (excused(p, r, "find_table"))
        return;
    for (unsigned k = p->low; k <= p->high; k++)
        if (says_name(&common->state[k], name) == (r == 1 ? number : 0) && r >= 0)
            return;
    die("%s: wrong answer: %s is table %u (%d): not in the states %u to %u, which say %u and %u", p->what,
        text, number, r, p->low, p->high, says_name(&common->state[p->low], name),
        says_name(&common->state[p->high], name));
}

#define MANY 24

static void ask_many(struct poller *p)
{
    static char where[MANY][SYNTHETIC_LOCATION_MAX];
    struct skade_answer a[MANY];
    uint32_t number[MANY], v[MANY];

    for (int i = 0; i < MANY; i++) {
        number[i] = some_table(p);
        v[i] = some_version(p, number[i]);
        a[i] = (struct skade_answer)SKADE_ANSWER(where[i], sizeof where[i]);
        a[i].table = number[i];
        a[i].snapshot = id_of(number[i], v[i]);
    }
    begin(p);
    int64_t r = skade_resolve_many(p->s, a, MANY);
    end(p);
    if (excused(p, r, "resolve_many"))
        return;
    for (unsigned k = p->low; k <= p->high; k++) {
        int i = 0;
        while (i < MANY && agrees(says_resolve(&common->state[k], number[i], v[i]), number[i], &a[i]))
            i++;
        if (i == MANY)
            return;
        if (p->low == p->high)
            wrong(p, "resolve_many", number[i], v[i], &a[i]);
    }
    die("%s: a batch belongs to none of the states %u to %u", p->what, p->low, p->high);
}

/* The state whose sequence number is SEQ. */
static const struct state *state_of_view(const struct poller *p, uint64_t seq)
{
    for (unsigned k = p->low; k <= p->high; k++)
        if (common->state[k].seq == seq)
            return &common->state[k];
    die("%s: a view of event %llu, which is no state of %u to %u (events %llu to %llu): half a release?",
        p->what, (unsigned long long)seq, p->low, p->high, (unsigned long long)common->state[p->low].seq,
        (unsigned long long)common->state[p->high].seq);
}

static void ask_in_view(struct poller *p, skade_view *view, const struct state *x)
{
    char where[SYNTHETIC_LOCATION_MAX], text[32];

    for (int i = 0; i < 6; i++) {
        struct skade_answer a = SKADE_ANSWER(where, sizeof where);
        enum question q = (enum question)roll_below(&p->random, 3);
        uint32_t number = some_table(p), v = some_version(p, number), name = (uint32_t)(i % NAMES);
        skade_table found = 0;

        begin(p);
        int r = q == RESOLVE ? skade_view_resolve(view, number, id_of(number, v), &a)
                : q == HEAD  ? skade_view_head(view, number, &a)
                             : skade_view_as_of(view, number, synthetic_time_us(number, v), &a);
        int n = skade_view_find_table(view, name_of(text, name), &found);
        end(p);
        if (!excused(p, r, "a view") && !agrees(says(x, q, number, v), number, &a)) {
            p->low = p->high = (unsigned)(x - common->state);
            wrong(p, q == RESOLVE ? "view_resolve" : q == HEAD ? "view_head" : "view_as_of", number, v, &a);
        }
        if (!excused(p, n, "a view") && (n < 0 || says_name(x, name) != (n == 1 ? found : 0)))
            die("%s: a view of event %llu: %s is table %u (%d) and should be %u", p->what,
                (unsigned long long)x->seq, text, found, n, says_name(x, name));
    }
}

static void ask_view(struct poller *p)
{
    skade_view *view;

    begin(p);
    int r = skade_view_open(p->s, &view);
    end(p);
    if (excused(p, r, "view_open"))
        return;
    if (r < 0)
        die_of(p->s, "view_open", r);
    ask_in_view(p, view, state_of_view(p, skade_view_seq(view)));
    skade_view_close(view);
}

struct list {
    uint32_t count;
    struct skade_table_info row[SLOTS + 1];
    char name[SLOTS + 1][32];
};

static int take_table(void *arg, const struct skade_table_info *info)
{
    struct list *l = arg;

    if (l->count > SLOTS)
        return 1;
    l->row[l->count] = *info;
    snprintf(l->name[l->count++], sizeof l->name[0], "%s", info->name);
    return 0;
}

static bool list_agrees(const struct state *x, const struct list *l)
{
    uint32_t living = 0;

    for (int i = 0; i < SLOTS; i++)
        living += x->slot[i].number != 0;
    if (l->count != living)
        return false;
    for (uint32_t i = 0; i < l->count; i++) {
        const struct slot *s = slot_of(x, l->row[i].table);
        char name[32];
        if (!s || strcmp(l->name[i], name_of(name, s->name)) != 0 ||
            l->row[i].snapshots != s->versions - s->retired ||
            (s->versions && l->row[i].snapshot != id_of(s->number, s->versions - 1)))
            return false;
    }
    return true;
}

static void ask_tables(struct poller *p)
{
    struct list l = { 0 };

    begin(p);
    int64_t r = skade_tables(p->s, "order.", take_table, &l);
    end(p);
    if (excused(p, r, "tables"))
        return;
    for (unsigned k = p->low; k <= p->high; k++)
        if (list_agrees(&common->state[k], &l))
            return;
    for (uint32_t i = 0; i < l.count; i++)
        printf("  %s: table %u, %llu snapshots\n", l.name[i], l.row[i].table,
               (unsigned long long)l.row[i].snapshots);
    die("%s: a list of %u tables (%lld) that belongs to none of the states %u to %u", p->what, l.count,
        (long long)r, p->low, p->high);
}

static void run_poller(struct poller *p)
{
    while (!common->stop) {
        for (int i = 0; i < 8; i++)
            ask_one(p);
        ask_name(p);
        ask_many(p);
        ask_view(p);
        if (roll_below(&p->random, 4) == 0)
            ask_tables(p);
        if (p->index == 3 && roll_below(&p->random, 50) == 0)
            skade_quiesce(p->s);
    }
    skade_close(p->s);
}

/* ---- the writer ----------------------------------------------------------------------------------------------------- */

struct writer {
    struct daemon daemon;
    skade *s;
    uint64_t random;
    uint32_t tables; /* numbers given */
    bool trouble, kill, failing;
    pid_t pollers[POLLERS];
};

/* The plan for the next state, to be changed and carried out. */
static struct state *plan(void)
{
    struct state *next = &common->state[common->done + 1];

    if (common->done + 2 >= STATES)
        die("too many operations");
    *next = common->state[common->done];
    return next;
}

static void carry_out_begins(void)
{
    common->begun = common->done + 1;
}

static void carried_out(struct writer *w, const char *what, int r, uint64_t seq)
{
    if (r < 0)
        die_of(w->s, what, r);
    if (seq && seq != common->state[common->begun].seq)
        die("%s: event %llu instead of %llu", what, (unsigned long long)seq,
            (unsigned long long)common->state[common->begun].seq);
    common->done = common->begun;
}

static void put_commit(struct skade_commit *c, char *location, struct slot *s)
{
    *c = (struct skade_commit){ .size = sizeof *c,
                                .table = s->number,
                                .flags = SKADE_INTRODUCES | SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT,
                                .snapshot = id_of(s->number, s->versions),
                                .time_us = synthetic_time_us(s->number, s->versions),
                                .has_time = 1,
                                .location = location };
    synthetic_location(location, s->number, s->versions);
    s->versions++;
}

static bool do_commit(struct writer *w, int i)
{
    struct state *x = plan();
    char location[SYNTHETIC_LOCATION_MAX];
    struct skade_commit c;
    uint64_t seq;

    if (!x->slot[i].number)
        return false;
    put_commit(&c, location, &x->slot[i]);
    x->seq++;
    carry_out_begins();
    int r = skade_commit(w->s, &c, &seq, NULL);
    carried_out(w, "commit", r, seq);
    return true;
}

/* All heads move together, some of them twice. */
static bool do_release(struct writer *w)
{
    static char locations[SLOTS * 2][SYNTHETIC_LOCATION_MAX];
    struct skade_commit c[SLOTS * 2];
    struct state *x = plan();
    uint64_t last;
    size_t n = 0;

    for (int round = 0; round < 2; round++)
        for (int i = round; i < SLOTS; i++)
            if (x->slot[i].number) {
                put_commit(&c[n], locations[n], &x->slot[i]);
                n++;
            }
    if (n == 0)
        return false;
    x->seq += n;
    carry_out_begins();
    int r = skade_release(w->s, c, n, NULL, &last);
    carried_out(w, "release", r, last);
    return true;
}

static uint32_t free_name(struct writer *w, const struct state *x)
{
    uint32_t name;

    do
        name = (uint32_t)roll_below(&w->random, NAMES);
    while (says_name(x, name));
    return name;
}

static bool do_rename(struct writer *w, int i)
{
    struct state *x = plan();
    char old[32], new[32];
    uint64_t seq;

    if (!x->slot[i].number)
        return false;
    name_of(old, x->slot[i].name);
    x->slot[i].name = free_name(w, x);
    name_of(new, x->slot[i].name);
    x->seq++;
    carry_out_begins();
    int r = skade_rename(w->s, old, new, &seq);
    carried_out(w, "rename", r, seq);
    return true;
}

static bool do_drop(struct writer *w, int i)
{
    struct state *x = plan();
    char name[32];
    uint64_t seq;

    if (!x->slot[i].number)
        return false;
    name_of(name, x->slot[i].name);
    x->slot[i] = (struct slot){ 0 };
    x->seq++;
    carry_out_begins();
    int r = skade_drop(w->s, name, &seq);
    carried_out(w, "drop", r, seq);
    return true;
}

static bool do_create(struct writer *w, int i)
{
    struct state *x = plan();
    skade_table number = 0;
    char name[32];
    uint64_t seq;

    if (x->slot[i].number)
        return false;
    x->slot[i] = (struct slot){ .number = w->tables + 1, .name = free_name(w, x) };
    x->seq++;
    carry_out_begins();
    int r = skade_create(w->s, name_of(name, x->slot[i].name), "s3://lake", &number, &seq);
    if (r == 0 && number != w->tables + 1)
        die("create gave number %u instead of %u", number, w->tables + 1);
    w->tables++;
    carried_out(w, "create", r, seq);
    return true;
}

static bool do_expire(struct writer *w, int i)
{
    struct state *x = plan();
    struct slot *s = &x->slot[i];
    uint64_t seq;

    if (!s->number || s->versions < s->retired + 2)
        return false;
    s->retired += 1 + (uint32_t)roll_below(&w->random, s->versions - s->retired - 1);
    x->seq++;
    carry_out_begins();
    int r = roll_below(&w->random, 2)
                ? skade_expire_snapshot(w->s, s->number, id_of(s->number, s->retired - 1), &seq)
                : skade_expire_before(w->s, s->number, synthetic_time_us(s->number, s->retired), &seq);
    carried_out(w, "expire", r, seq);
    return true;
}

/* Things that change no answer. */
static void disturb(struct writer *w)
{
    struct skade_reindexed reindexed = { .size = sizeof reindexed };

    if (w->trouble && roll_below(&w->random, 2)) {
        w->failing = !w->failing;
        if (w->failing)
            failpoint_set(roll_below(&w->random, 2) ? "publish.reserve" : "publish.link", "fail 28");
        else
            failpoint_clear("publish.reserve"), failpoint_clear("publish.link");
    } else if (w->kill) {
        common->away++;
        if (roll_below(&w->random, 4) == 0 && !w->failing) {
            if (daemon_end(&w->daemon, SIGTERM) != 0)
                die("the daemon did not end cleanly");
        } else {
            daemon_end(&w->daemon, SIGKILL);
        }
        daemon_must_start(&w->daemon);
        common->away--;
    } else if (!w->failing) {
        int r = skade_reindex(w->s, &reindexed);
        if (r < 0)
            die_of(w->s, "reindex", r);
    }
}

/* Until everybody has asked something since the last reply. */
static void let_them_ask(struct writer *w)
{
    for (int i = 0; i < POLLERS; i++) {
        uint64_t asked = common->asked[i];
        while (common->asked[i] < asked + 2) {
            if (has_ended(w->pollers[i]))
                die("poller %d ended with %d", i, reap(w->pollers[i]));
            sched_yield();
        }
    }
}

static void operate(struct writer *w)
{
    int i = (int)roll_below(&w->random, SLOTS);
    uint64_t dice = roll_below(&w->random, 100);

    if (dice < 30)
        do_commit(w, i);
    else if (dice < 45)
        do_release(w);
    else if (dice < 65)
        do_rename(w, i);
    else if (dice < 72)
        do_drop(w, i);
    else if (dice < 84)
        do_create(w, i);
    else if (dice < 97)
        do_expire(w, i);
    else
        disturb(w);
    if (roll_below(&w->random, 6) == 0)
        let_them_ask(w);
}

/* ---- main ----------------------------------------------------------------------------------------------------------- */

/* The last one uses a handle that its parent opened and asked with. */
static void start_pollers(struct writer *w)
{
    static const char *const what[POLLERS] = { "mapped", "without shared memory", "verifying", "forked" };
    static const unsigned flags[POLLERS] = { 0, SKADE_NO_SHM, SKADE_VERIFY_MAPS, 0 };
    skade *inherited = open_handle(0, TIMEOUT_MS);
    struct poller warm = { .what = "parent", .s = inherited, .random = 1 };

    ask_name(&warm);
    ask_one(&warm);
    for (unsigned i = 0; i < POLLERS; i++) {
        w->pollers[i] = fork_child();
        if (w->pollers[i])
            continue;
        struct poller p = { .index = i, .what = what[i], .random = w->random + i };
        p.s = i == POLLERS - 1 ? inherited : open_handle(flags[i], TIMEOUT_MS);
        run_poller(&p);
        exit(0);
    }
    skade_close(inherited);
}

static void end_pollers(struct writer *w)
{
    common->stop = true;
    for (int i = 0; i < POLLERS; i++) {
        int status = reap(w->pollers[i]);
        if (status != 0)
            die("poller %d ended with %d", i, status);
    }
}

int main(int argc, char **argv)
{
    struct writer w = { .daemon = daemon_of(&argc, argv), .random = seed_from_environment() };
    long operations = argc > 1 ? atol(argv[1]) : 1000;
    unsigned long long asked = 0;

    for (int i = 2; i < argc; i++) {
        w.trouble |= strcmp(argv[i], "trouble") == 0;
        w.kill |= strcmp(argv[i], "kill") == 0;
    }
    common = shared_memory(sizeof *common);
    daemon_must_start(&w.daemon);
    w.s = open_handle(0, TIMEOUT_MS);
    for (int i = 0; i < SLOTS; i++)
        do_create(&w, i);
    start_pollers(&w);
    for (long i = 0; i < operations; i++)
        operate(&w);
    let_them_ask(&w);
    failpoint_clear("publish.reserve");
    failpoint_clear("publish.link");
    end_pollers(&w);
    for (int i = 0; i < POLLERS; i++)
        asked += common->asked[i];
    printf("%u changes, %llu questions by %d processes\n", common->done, asked, POLLERS);
    skade_close(w.s);
    return daemon_end(&w.daemon, SIGTERM);
}
