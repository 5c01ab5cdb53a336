/*
 * A handle on a string: one process with one handle, which does what it is told on standard input, a line each, and
 * answers each line with one.  So a script can hold an old map in one process while things happen in another.
 *
 *     find NAME                    1 NUMBER | 0 | ENAME
 *     resolve TABLE ID             1 LOCATION | ENAME
 *     head TABLE                   1 LOCATION | ENAME
 *     as_of TABLE TIME             1 LOCATION | ENAME
 *     commit TABLE ID LOCATION     1 SEQ | ENAME
 *     create NAME | rename NAME NAME | drop NAME | expire TABLE ID      1 SEQ | ENAME
 *     view                         1 SEQ: from now on questions are asked through a view;  noview ends it
 *     counter NAME                 a counter of the handle
 *     message                      what skade_errmsg() says
 *     quiesce | ping               1
 *     close                        1: and that was the last line
 *     from                         map or daemon: where the last answer came from; stale when it is
 *
 * ENAME: an error's name.  `ask [socket] [stale] [TIMEOUT_MS]`
 */
#include "stress.h"

struct asker {
    skade *s;
    skade_view *view;
    unsigned flags; /* of the last answer */
    const char *counter;
    uint64_t value;
};

static void say(int64_t r, const char *text)
{
    if (r > 0)
        printf("%lld %s\n", (long long)r, text);
    else
        printf("%s\n", r == 0 ? "0" : skade_errname((int)r)[0] ? skade_errname((int)r) : strerror((int)-r));
    fflush(stdout);
}

static void say_number(int64_t r, uint64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    say(r, text);
}

/* A question's answer; what isn't there says why. */
static void say_answer(struct asker *k, int r, const struct skade_answer *a)
{
    k->flags = a->flags;
    say(r == 0 ? a->status : r, a->location);
}

static void find(struct asker *k, const char *name)
{
    skade_table table = 0;
    int r = k->view ? skade_view_find_table(k->view, name, &table) : skade_find_table(k->s, name, &table);
    say_number(r, table);
}

static void question(struct asker *k, const char *what, uint32_t table, int64_t value)
{
    char where[SKADE_LOCATION_MAX + 1];
    struct skade_answer a = SKADE_ANSWER(where, sizeof where);
    int r;

    if (strcmp(what, "resolve") == 0)
        r = k->view ? skade_view_resolve(k->view, table, value, &a) : skade_resolve(k->s, table, value, &a);
    else if (strcmp(what, "head") == 0)
        r = k->view ? skade_view_head(k->view, table, &a) : skade_head(k->s, table, &a);
    else
        r = k->view ? skade_view_as_of(k->view, table, value, &a) : skade_as_of(k->s, table, value, &a);
    say_answer(k, r, &a);
}

static void commit(struct asker *k, uint32_t table, int64_t id, const char *location)
{
    struct skade_commit c = { .size = sizeof c,
                              .table = table,
                              .flags = SKADE_INTRODUCES | SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT,
                              .snapshot = id,
                              .location = location };
    uint64_t seq = 0;
    int r = skade_commit(k->s, &c, &seq, NULL);
    say_number(r == 0 ? 1 : r, seq);
}

static void change(struct asker *k, const char *what, const char *a, const char *b)
{
    uint64_t seq = 0;
    int r;

    if (strcmp(what, "create") == 0)
        r = skade_create(k->s, a, "s3://lake", NULL, &seq);
    else if (strcmp(what, "rename") == 0)
        r = skade_rename(k->s, a, b, &seq);
    else if (strcmp(what, "drop") == 0)
        r = skade_drop(k->s, a, &seq);
    else
        r = skade_expire_snapshot(k->s, (uint32_t)atol(a), atoll(b), &seq);
    say_number(r == 0 ? 1 : r, seq);
}

static int take_counter(void *arg, const char *name, uint64_t value, const char *unit, const char *kind,
                        const char *help)
{
    struct asker *k = arg;

    (void)unit, (void)kind, (void)help;
    if (strcmp(name, k->counter) == 0)
        k->value = value;
    return 0;
}

static void counter(struct asker *k, const char *name)
{
    k->counter = name;
    k->value = 0;
    skade_client_stats(k->s, take_counter, k);
    printf("%llu\n", (unsigned long long)k->value);
    fflush(stdout);
}

static void open_view(struct asker *k)
{
    int r = skade_view_open(k->s, &k->view);
    if (r < 0)
        k->view = NULL;
    say_number(r == 0 ? 1 : r, k->view ? skade_view_seq(k->view) : 0);
}

static void obey(struct asker *k, const char *what, const char *a, const char *b, const char *c)
{
    if (strcmp(what, "find") == 0) {
        find(k, a);
    } else if (strcmp(what, "resolve") == 0 || strcmp(what, "head") == 0 || strcmp(what, "as_of") == 0) {
        question(k, what, (uint32_t)atol(a), atoll(b));
    } else if (strcmp(what, "commit") == 0) {
        commit(k, (uint32_t)atol(a), atoll(b), c);
    } else if (strcmp(what, "counter") == 0) {
        counter(k, a);
    } else if (strcmp(what, "view") == 0) {
        open_view(k);
    } else if (strcmp(what, "noview") == 0) {
        skade_view_close(k->view);
        k->view = NULL;
        say(1, "");
    } else if (strcmp(what, "quiesce") == 0) {
        skade_quiesce(k->s);
        say(1, "");
    } else if (strcmp(what, "ping") == 0) {
        int64_t r = skade_ping(k->s);
        say(r < 0 ? r : 1, "");
    } else if (strcmp(what, "close") == 0) {
        skade_view_close(k->view);
        skade_close(k->s);
        *k = (struct asker){ .s = NULL };
        say(1, "");
    } else if (strcmp(what, "message") == 0) {
        say(1, skade_errmsg(k->s));
    } else if (strcmp(what, "from") == 0) {
        say(1, k->flags & SKADE_STALE ? "stale" : k->flags & SKADE_FROM_MAP ? "map" : "daemon");
    } else {
        change(k, what, a, b);
    }
}

int main(int argc, char **argv)
{
    struct asker k = { .s = NULL };
    unsigned flags = 0;
    int timeout_ms = 5000;
    char line[8192], what[32], a[2048], b[2048], c[4100];

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "socket") == 0)
            flags |= SKADE_NO_SHM;
        else if (strcmp(argv[i], "stale") == 0)
            flags |= SKADE_ALLOW_STALE;
        else
            timeout_ms = atoi(argv[i]);
    }
    k.s = open_handle(flags, timeout_ms);
    while (k.s && fgets(line, sizeof line, stdin)) {
        what[0] = a[0] = b[0] = c[0] = 0;
        if (sscanf(line, "%31s %2047s %2047s %4099s", what, a, b, c) >= 1)
            obey(&k, what, a, b, c);
    }
    skade_view_close(k.view);
    skade_close(k.s);
    return 0;
}
