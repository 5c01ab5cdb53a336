/*
 * Programs that may not do everything: a sandbox forbids maps, sockets or any other single system call, the address space
 * is used up, the daemon has no descriptor left for us.
 *
 * What memory proves is answered all the same, for the rest the daemon is asked, and what neither can tell is refused by
 * a status that says why.  Nothing is answered wrongly, nobody hangs, nobody is accused of damage.
 *
 *     sandbox maps | sockets | full | strict | each | memory
 *                         the table shop.orders has snapshot 11 at s3://lake/orders/v1, and nothing is indexed but by reindex
 *     sandbox crowd N     N connections are more than the daemon can have
 *
 * There is no way out of a sandbox, so each is a child.  The parent stays free and commits what the child is to see:
 * snapshot 11 + N at location v(1 + N).
 */
#include "stress.h"

#include "deny.h"

#include <malloc.h>
#include <sys/resource.h>

#define FIRST_ID 11
#define TIMEOUT_MS 500 /* of a handle; only calls that end in a refusal take so long */
#define HANGS_AFTER_S 60

static skade *free_handle; /* the parent's */
static skade_table table;
static int64_t newest = FIRST_ID; /* the head */

/* ---- history ------------------------------------------------------------------------------------------------------ */

static const char *location_of(int64_t id)
{
    static char text[64];
    snprintf(text, sizeof text, "s3://lake/orders/v%lld", (long long)(id - FIRST_ID + 1));
    return text;
}

static void commit_next(void)
{
    newest++;
    struct skade_commit c = { .size = sizeof c,
                              .table = table,
                              .flags = SKADE_INTRODUCES | SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT,
                              .snapshot = newest,
                              .location = location_of(newest) };
    int r = skade_commit(free_handle, &c, NULL, NULL);
    if (r < 0)
        die_of(free_handle, "commit", r);
}

static void publish(void)
{
    struct skade_reindexed done = { .size = sizeof done };
    int r = skade_reindex(free_handle, &done);
    if (r < 0)
        die_of(free_handle, "reindex", r);
}

/* An earlier run may have committed, too. */
static int64_t head_of(skade *s)
{
    char where[64];
    struct skade_answer a = SKADE_ANSWER(where, sizeof where);
    int r = skade_head(s, table, &a);
    if (r != 1)
        die_of(s, "head", r);
    return a.snapshot;
}

static void commit_and_publish(void)
{
    commit_next();
    publish();
}

/* ---- questions ------------------------------------------------------------------------------------------------------ */

enum kind { HIT, MISS, HEAD };

static const char *const kind_names[] = { "a hit", "a miss", "the head" };

struct reply {
    int r;
    unsigned flags;
    char where[64];
};

static struct reply question(skade *s, enum kind kind, int64_t id)
{
    struct reply reply = { .where = "" };
    struct skade_answer a = SKADE_ANSWER(reply.where, sizeof reply.where);

    reply.r = kind == HEAD ? skade_head(s, table, &a) : skade_resolve(s, table, kind == MISS ? -1 : id, &a);
    reply.flags = a.flags;
    return reply;
}

static bool is_right(const struct reply *reply, enum kind kind, int64_t id)
{
    return kind == MISS ? reply->r == 0 : reply->r == 1 && strcmp(reply->where, location_of(id)) == 0;
}

/* It says why, and blames nobody for what the sandbox did. */
static bool is_refusal(skade *s, int r)
{
    return r < 0 && r != SKADE_EDAMAGED && r != SKADE_EPROTOCOL && r != SKADE_EREPLACED && skade_errmsg(s)[0];
}

static void must(skade *s, const char *when, enum kind kind, int64_t id, bool may_refuse)
{
    struct reply reply = question(s, kind, id);

    if (!is_right(&reply, kind, id) && !(may_refuse && is_refusal(s, reply.r)))
        die("%s: %s is answered with %d '%s': %s", when, kind_names[kind], reply.r, reply.where,
            skade_errmsg(s));
}

static void must_refuse(skade *s, const char *when, enum kind kind, int64_t id)
{
    struct reply reply = question(s, kind, id);

    if (!is_refusal(s, reply.r))
        die("%s: %s that only the daemon knows is answered with %d '%s'", when, kind_names[kind], reply.r,
            reply.where);
}

static void all_right(skade *s, const char *when)
{
    for (enum kind kind = HIT; kind <= HEAD; kind++)
        must(s, when, kind, newest, false);
}

/* Until the page is seen to live; the child's alarm ends the wait. */
static void await_head(skade *s, const char *when)
{
    struct reply reply;

    do
        reply = question(s, HEAD, newest);
    while (is_refusal(s, reply.r) && (poll(NULL, 0, 10), true));
    if (!is_right(&reply, HEAD, newest))
        die("%s: the head is %d '%s': %s", when, reply.r, reply.where, skade_errmsg(s));
}

static void must_be_from(skade *s, const char *when, bool from_map)
{
    struct reply reply = question(s, HIT, FIRST_ID);

    if (!is_right(&reply, HIT, FIRST_ID) || ((reply.flags & SKADE_FROM_MAP) != 0) != from_map)
        die("%s: a hit is answered with %d '%s' from the %s: %s", when, reply.r, reply.where,
            reply.flags & SKADE_FROM_MAP ? "map" : "daemon", skade_errmsg(s));
}

/* ---- counters of a handle ---------------------------------------------------------------------------------------------- */

struct wanted {
    const char *name;
    uint64_t value;
};

static int take_counter(void *arg, const char *name, uint64_t value, const char *unit, const char *kind,
                        const char *help)
{
    struct wanted *w = arg;

    (void)unit, (void)kind, (void)help;
    if (strcmp(name, w->name) == 0)
        w->value = value;
    return 0;
}

static void must_count(skade *s, const char *when, const char *name)
{
    struct wanted w = { .name = name };

    skade_client_stats(s, take_counter, &w);
    if (w.value == 0)
        die("%s: the handle's counter %s is 0", when, name);
}

/* ---- children and their parent --------------------------------------------------------------------------------------- */

/* What a child forbids itself. */
struct ban {
    const char *name;
    int number;
    int arg; /* only when argument ARG, masked by MASK, is 0; MASK 0: always */
    uint32_t mask;
    int error;
    const char *counter; /* of failures to map that it must show up in */
};

struct child {
    pid_t pid;
    int up[2], down[2]; /* a byte is a turn */
};

static void forbid(const struct ban *b)
{
    if (!deny_syscall(b->number, b->arg, b->mask, 0, b->error))
        die("%s: the system calls can't be filtered", b->name);
}

static void give_turn(int fd)
{
    if (write(fd, "", 1) != 1)
        die("the other side is gone");
}

static void await_turn(int fd)
{
    char byte;
    if (read(fd, &byte, 1) != 1)
        die("the other side is gone");
}

/* In a child: the parent does what comes next. */
static void let_parent(struct child *c)
{
    give_turn(c->up[1]);
    await_turn(c->down[0]);
}

/* In the parent: do DO_IT when the child says so. */
static void when_asked(struct child *c, void (*do_it)(void))
{
    char byte;
    if (read(c->up[0], &byte, 1) != 1)
        return; /* it died; reaping it tells */
    do_it();
    give_turn(c->down[1]);
}

typedef void (*child_fn)(struct child *c, const struct ban *b);

static struct child begin_child(child_fn body, const struct ban *b)
{
    struct child c;

    if (pipe2(c.up, O_CLOEXEC) < 0 || pipe2(c.down, O_CLOEXEC) < 0)
        die("pipe: %s", strerror(errno));
    c.pid = fork_child();
    if (c.pid == 0) {
        alarm(HANGS_AFTER_S);
        body(&c, b);
        fflush(stdout);
        _exit(0);
    }
    close(c.up[1]);
    close(c.down[0]);
    return c;
}

static void end_child(struct child *c, const struct ban *b)
{
    close(c->up[0]);
    close(c->down[1]);
    int status = reap(c->pid);
    if (status != 0)
        die("%s, error %d: the program ended with %d%s", b->name, b->error, status,
            status == 128 + SIGALRM ? ": it hung" : "");
}

static void done(const char *what)
{
    printf("%s: well\n", what);
    fflush(stdout);
}

/* ---- no maps of files ------------------------------------------------------------------------------------------------ */

static const struct ban map_bans[] = {
    { "mmap of files", SYS_mmap, 3, MAP_ANONYMOUS, EPERM, "failed_denied" },
    { "mmap of files", SYS_mmap, 3, MAP_ANONYMOUS, EACCES, "failed_denied" },
    { "mmap of files", SYS_mmap, 3, MAP_ANONYMOUS, ENOMEM, "failed_resources" },
    { "mmap of files", SYS_mmap, 3, MAP_ANONYMOUS, ENODEV, "failed_other" },
};

static void without_maps_from_the_start(struct child *c, const struct ban *b)
{
    (void)c;
    forbid(b);
    skade *s = open_handle(0, TIMEOUT_MS);
    all_right(s, b->name);
    must_be_from(s, b->name, false);
    must_count(s, b->name, b->counter);
    skade_close(s);
}

/* An older map must not stand in for the one that can't be had. */
static void without_maps_later(struct child *c, const struct ban *b)
{
    skade *s = open_handle(0, TIMEOUT_MS);

    all_right(s, "before");
    must_be_from(s, "before", true);
    let_parent(c);
    newest++;
    forbid(b);
    all_right(s, b->name);
    must_be_from(s, b->name, false);
    must_count(s, b->name, b->counter);
    skade_close(s);
}

static void maps(void)
{
    for (size_t i = 0; i < sizeof map_bans / sizeof map_bans[0]; i++) {
        struct child c = begin_child(without_maps_from_the_start, &map_bans[i]);
        end_child(&c, &map_bans[i]);
        c = begin_child(without_maps_later, &map_bans[i]);
        when_asked(&c, commit_and_publish);
        end_child(&c, &map_bans[i]);
    }
    done("without maps");
}

/* ---- no sockets -------------------------------------------------------------------------------------------------------- */

static const struct ban socket_bans[] = {
    { "socket", SYS_socket, 0, 0, EPERM, NULL },          { "socket", SYS_socket, 0, 0, EACCES, NULL },
    { "socket", SYS_socket, 0, 0, EAFNOSUPPORT, NULL },   { "socket", SYS_socket, 0, 0, ENOSYS, NULL },
    { "connect", SYS_connect, 0, 0, EPERM, NULL },        { "connect", SYS_connect, 0, 0, EACCES, NULL },
    { "connect", SYS_connect, 0, 0, ECONNREFUSED, NULL },
};

/* Memory alone: everything while it covers every commit. */
static void without_sockets(struct child *c, const struct ban *b)
{
    forbid(b);
    skade *s = open_handle(0, TIMEOUT_MS);
    must(s, b->name, HIT, newest, false);
    await_head(s, b->name);
    all_right(s, b->name);
    must_be_from(s, b->name, true);

    let_parent(c); /* it commits, and the mapped tail has it */
    must(s, b->name, HIT, newest, false);
    newest++;
    must(s, b->name, HIT, newest, false);
    await_head(s, b->name);
    all_right(s, b->name);
    must_be_from(s, b->name, true);
    if (skade_rename(s, "shop.orders", "shop.mine", NULL) >= 0 || skade_ping(s) >= 0)
        die("%s: without a connection something was done", b->name);

    let_parent(c); /* it publishes */
    must(s, b->name, HIT, newest, false);
    await_head(s, b->name);
    skade_close(s);
}

static void sockets(void)
{
    for (size_t i = 0; i < sizeof socket_bans / sizeof socket_bans[0]; i++) {
        struct child c = begin_child(without_sockets, &socket_bans[i]);
        when_asked(&c, commit_next);
        when_asked(&c, publish);
        end_child(&c, &socket_bans[i]);
    }
    done("without sockets");
}

/* ---- no sockets, and the newest commits stand behind a full tail ------------------------------------------------------- */

#define FILLERS 1000 /* that fill a tail of 3 MiB with their locations */

/* Other commits, so that the tail has no room for what comes behind them. */
static void fill_tail(void)
{
    static char location[SKADE_LOCATION_MAX + 1];
    static struct skade_commit list[FILLERS];
    skade_table filler;

    int r = skade_find_table(free_handle, "shop.filler", &filler);
    if (r == 0)
        r = skade_create(free_handle, "shop.filler", "s3://lake/filler", &filler, NULL);
    if (r < 0)
        die_of(free_handle, "create", r);
    memset(location, 'x', SKADE_LOCATION_MAX);
    memcpy(location, "s3://", 5);
    for (size_t i = 0; i < FILLERS; i++)
        list[i] = (struct skade_commit){ .size = sizeof list[i],
                                         .table = filler,
                                         .flags = SKADE_INTRODUCES | SKADE_WITH_SNAPSHOT,
                                         .snapshot = (int64_t)i,
                                         .location = location };
    for (size_t i = 0; i < FILLERS; i += 100) { /* a request has an end */
        r = skade_release(free_handle, list + i, 100, NULL, NULL);
        if (r < 0)
            die_of(free_handle, "release", r);
    }
}

static void fill_and_commit(void)
{
    fill_tail();
    commit_next();
}

/* Hits at any time, and never an old head for a new one. */
static void behind_a_full_tail(struct child *c, const struct ban *b)
{
    forbid(b);
    skade *s = open_handle(0, TIMEOUT_MS);
    await_head(s, b->name);
    all_right(s, b->name);

    let_parent(c); /* it fills the tail, and commits */
    must(s, b->name, HIT, newest, false);
    must_refuse(s, b->name, HEAD, newest);
    must_refuse(s, b->name, MISS, 0);
    must_refuse(s, b->name, HIT, newest + 1);
    newest++;

    let_parent(c); /* it publishes */
    await_head(s, b->name);
    all_right(s, b->name);
    must_be_from(s, b->name, true);
    skade_close(s);
}

static void full(void)
{
    static const struct ban b = { .name = "behind a full tail", .number = SYS_connect, .error = EPERM };
    struct child c = begin_child(behind_a_full_tail, &b);
    when_asked(&c, fill_and_commit);
    when_asked(&c, publish);
    end_child(&c, &b);
    done(b.name);
}

/* ---- no system calls at all ------------------------------------------------------------------------------------------ */

/* The kernel kills whoever makes a system call other than read, write and exit, and whoever looks at the clock by
 * himself. */
static void hits_only(struct child *c, const struct ban *b)
{
    skade *s = open_handle(0, TIMEOUT_MS);

    (void)c;
    must_be_from(s, b->name, true);
    if (prctl(PR_SET_SECCOMP, 1 /* SECCOMP_MODE_STRICT */) < 0)
        die("%s: %s", b->name, strerror(errno));
    bool right = true;
    for (int i = 0; i < 100000; i++) {
        struct reply reply = question(s, HIT, FIRST_ID);
        right &= is_right(&reply, HIT, FIRST_ID);
    }
    syscall(SYS_exit, right ? 0 : 1); /* _exit() ends all threads, which is another system call */
}

static void strict(void)
{
    static const struct ban b = { .name = "without system calls" };
    struct child c = begin_child(hits_only, &b);
    end_child(&c, &b);
    done(b.name);
}

/* ---- each system call alone -------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int number;
} calls[] = {
#define CALL(name)        \
    {                     \
#name, SYS_##name \
    }
    CALL(openat),  CALL(fstat),      CALL(newfstatat),       CALL(close),     CALL(read),
    CALL(mmap),    CALL(munmap),     CALL(madvise),          CALL(socket),    CALL(connect),
    CALL(fcntl),   CALL(getsockopt), CALL(sendto),           CALL(recvfrom),  CALL(getpid),
    CALL(geteuid), CALL(ppoll),      CALL(process_vm_readv), CALL(getrandom), CALL(clock_gettime),
#ifdef SYS_poll
    CALL(poll),
#endif
#ifdef SYS_lstat
    CALL(lstat),
#endif
#undef CALL
};

static void all_right_or_refused(skade *s, const char *when)
{
    for (int round = 0; round < 3; round++)
        for (enum kind kind = HIT; kind <= HEAD; kind++)
            must(s, when, kind, newest, true);
    skade_quiesce(s);
    must(s, when, HIT, newest, true);
}

static void without_one_from_the_start(struct child *c, const struct ban *b)
{
    struct skade_options o = { .size = sizeof o, .timeout_ms = TIMEOUT_MS };
    skade *s;

    (void)c;
    forbid(b);
    int r = skade_open(&s, &o);
    if (r < 0 && !is_refusal(NULL, r))
        die_of(NULL, b->name, r);
    if (r == 0)
        all_right_or_refused(s, b->name);
    if (r == 0)
        skade_close(s);
}

static void without_one_later(struct child *c, const struct ban *b)
{
    skade *s = open_handle(0, TIMEOUT_MS);

    all_right(s, "before");
    forbid(b);
    must(s, b->name, HIT, newest, false);
    let_parent(c); /* a new generation: the map is to be replaced */
    newest++;
    all_right_or_refused(s, b->name);
    skade_close(s);
}

static void each(void)
{
    static const int errors[] = { EPERM, ENOSYS };

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        for (int e = 0; e < 2; e++) {
            struct ban b = { calls[i].name, calls[i].number, 0, 0, errors[e], NULL };
            struct child c = begin_child(without_one_from_the_start, &b);
            end_child(&c, &b);
            if (b.number == SYS_read) /* by which a child takes its turn */
                continue;
            c = begin_child(without_one_later, &b);
            when_asked(&c, commit_and_publish);
            end_child(&c, &b);
        }
    done("each system call");
}

/* ---- no address space ------------------------------------------------------------------------------------------------- */

#ifndef __SANITIZE_ADDRESS__
static uint64_t address_space(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (!f || fscanf(f, "%lu", &pages) != 1)
        die("/proc/self/statm can't be read");
    fclose(f);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Small things can be had from malloc(), but no map. */
static void use_up_address_space(void)
{
    struct rlimit limit;

    mallopt(M_TRIM_THRESHOLD, INT32_MAX);
    mallopt(M_MMAP_THRESHOLD, 16 << 20);
    char *volatile room = malloc(4 << 20);
    free(room);
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = address_space();
    if (setrlimit(RLIMIT_AS, &limit) < 0)
        die("setrlimit: %s", strerror(errno));
}

static void without_memory(struct child *c, const struct ban *b)
{
    struct rlimit limit;
    skade *s = open_handle(0, TIMEOUT_MS);

    all_right(s, "before");
    must_be_from(s, "before", true);
    let_parent(c);
    newest++;
    use_up_address_space();
    all_right(s, b->name);
    must_be_from(s, b->name, false);
    must_count(s, b->name, b->counter);

    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_AS, &limit);
    while (!(question(s, HIT, newest).flags & SKADE_FROM_MAP)) /* it doesn't try again at once */
        poll(NULL, 0, 1);
    all_right(s, "there is room again");
    skade_close(s);
}
#endif

static void memory(void)
{
#ifdef __SANITIZE_ADDRESS__
    printf("without address space: not under AddressSanitizer, which needs it itself\n");
#else
    static const struct ban b = { .name = "without address space", .counter = "failed_resources" };
    struct child c = begin_child(without_memory, &b);
    when_asked(&c, commit_and_publish);
    end_child(&c, &b);
    done(b.name);
#endif
}

/* ---- a daemon that can't have more connections --------------------------------------------------------------------- */

static int open_socket_handle(skade **ret)
{
    struct skade_options o = {
        .size = sizeof o, .label = "crowd", .timeout_ms = TIMEOUT_MS, .flags = SKADE_NO_SHM
    };
    return skade_open(ret, &o);
}

/* Who is in is answered rightly, who isn't is told so. */
static void crowd(int n)
{
    skade **handles = calloc((size_t)n, sizeof *handles);
    int in = 0;

    if (!handles)
        die("no memory");
    for (int i = 0; i < n; i++) {
        int r = open_socket_handle(&handles[in]);
        if (r < 0 && r != SKADE_EUNREACHABLE && r != SKADE_EBUSY && r != SKADE_ETIMEOUT)
            die_of(NULL, "one too many", r);
        in += r == 0;
    }
    printf("%d of %d are connected\n", in, n);
    if (in == 0 || in == n)
        die("the crowd proves nothing");
    for (int i = 0; i < in; i++)
        all_right(handles[i], "in a crowd");
    all_right(free_handle, "beside a crowd");
    commit_next();
    for (int i = 0; i < in; i++)
        all_right(handles[i], "in a crowd, after a commit");
    struct skade_reindexed reindexed = { .size = sizeof reindexed };
    skade_reindex(free_handle, &reindexed); /* with a descriptor or without */
    all_right(free_handle, "beside a crowd, after reindex");
    for (int i = 0; i < in; i++)
        skade_close(handles[i]);
    free(handles);

    skade *s;
    while (open_socket_handle(&s) < 0) /* it hears of those who left one by one */
        poll(NULL, 0, 1);
    all_right(s, "after a crowd");
    skade_close(s);
    commit_and_publish();
    all_right(free_handle, "after a crowd");
    done("a crowd");
}

/* ---- which ------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(void);
} scenes[] = {
    { "maps", maps },     { "sockets", sockets }, { "full", full },
    { "strict", strict }, { "each", each },       { "memory", memory },
};

int main(int argc, char **argv)
{
    free_handle = open_handle(0, 60000);
    int r = skade_find_table(free_handle, "shop.orders", &table);
    if (r != 1)
        die_of(free_handle, "find_table", r);
    newest = head_of(free_handle);
    all_right(free_handle, "at first");
    if (argc == 3 && strcmp(argv[1], "crowd") == 0) {
        crowd(atoi(argv[2]));
        skade_close(free_handle);
        return 0;
    }
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++)
        if (argc == 2 && strcmp(argv[1], scenes[i].name) == 0) {
            scenes[i].run();
            skade_close(free_handle);
            return 0;
        }
    die("usage: sandbox maps | sockets | full | strict | each | memory | crowd N");
}
