/*
 * A thousand processes at one daemon, all at once: each attaches and looks up, and stays until all of them have; then
 * each looks up again, and goes.  Nobody may be refused, and every answer must be right.
 *
 *     thousand N TABLE LOCATION       TABLE's snapshot 1 has that location, and its head too
 *
 * Prints "there" when all are attached and waits for a line (or the end) of its input; then lets them go.  Nothing here
 * waits by the clock, but for the timeout of a question.
 */
#include "stress.h"

#define TIMEOUT_MS 120000

static const char *table_name, *wanted;

static void must_answer(skade *s, const char *what, int r, const struct skade_answer *a)
{
    if (r < 0)
        die_of(s, what, r);
    if (r != 1 || strcmp(a->location, wanted) != 0)
        die("%s: not %s", what, wanted);
}

/* From memory, by the socket, and by name. */
static void look_up(skade *s)
{
    char location[4097];
    struct skade_answer a = SKADE_ANSWER(location, sizeof location);
    skade_table table;

    if (skade_find_table(s, table_name, &table) != 1)
        die("there is no table %s", table_name);
    must_answer(s, "resolve", skade_resolve(s, table, 1, &a), &a);
    must_answer(s, "head", skade_head(s, table, &a), &a);
}

static void attend(int there, int go)
{
    struct skade_options o = { .size = sizeof o, .label = "thousand", .timeout_ms = TIMEOUT_MS };
    skade *s;
    char byte = 1;

    int r = skade_open(&s, &o);
    if (r < 0)
        die("open: %s", skade_errname(r));
    look_up(s);
    if (skade_ping(s) < 0) /* so that the daemon has heard of each */
        die("ping: %s", skade_errmsg(s));
    if (write(there, &byte, 1) != 1 || read(go, &byte, 1) != 0)
        die("the others are gone");
    look_up(s);
    skade_close(s);
}

/* Every child has a copy of nothing but what it needs: the pipe's end comes when the parent closes its own. */
static pid_t start(int *there, int *go)
{
    pid_t pid = fork_child();

    if (pid > 0)
        return pid;
    close(there[0]);
    close(go[1]);
    attend(there[1], go[0]);
    exit(0);
}

static void await_all(int there, long n)
{
    char byte;

    for (long i = 0; i < n; i++)
        if (read(there, &byte, 1) != 1)
            die("only %ld of %ld could attach", i, n);
}

int main(int argc, char **argv)
{
    int there[2], go[2];
    long n = argc == 4 ? strtol(argv[1], NULL, 10) : 0;
    char line[16];

    if (n < 1 || n > 100000)
        die("usage: thousand N TABLE LOCATION");
    table_name = argv[2];
    wanted = argv[3];
    pid_t *pids = calloc((size_t)n, sizeof *pids);
    if (!pids || pipe(there) < 0 || pipe(go) < 0)
        die("no memory, or no pipe");
    for (long i = 0; i < n; i++)
        pids[i] = start(there, go);
    close(there[1]); /* who dies early is missed */
    await_all(there[0], n);
    printf("there\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        clearerr(stdin);
    close(go[1]);
    for (long i = 0; i < n; i++)
        if (reap(pids[i]) != 0)
            die("client %ld of %ld failed", i, n);
    free(pids);
    return 0;
}
