/*
 * resolve: where is the metadata of tables as of snapshots, asked by arguments or line by line.
 *
 * Questions go to the library in batches: one for a whole command line, and of a pipe what has come when it pauses.  All
 * answers of a batch are of one moment.  Names are looked up once per batch, just before; a table's number is never
 * given to another, so a rename in between does no harm.  Not through a view: without a daemon a view may be of some
 * time ago, and "no such snapshot" would be an answer of the past.
 */
#include "ctl.h"
#include "lines.h"
#include "name_cache.h"
#include "plain.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIPE_BATCH 1024
#define LINE_MAX_BYTES 2048 /* a name, a blank, a number, and some room to see what else it is */

struct question {
    char table[SKADE_NAME_MAX + 1];
    int64_t id;
    int status;                        /* of the name: 1 found, 0 no such table, or an error */
    const struct skade_answer *answer; /* NULL when the name has no table */
};

struct batch {
    struct ctl *c;
    struct name_cache names;
    size_t room, count;
    struct question *questions; /* of these, each with room for ROOM */
    struct skade_answer *answers;
    char (*locations)[SKADE_LOCATION_MAX + 1];
    size_t asked;      /* answers in use: those whose table is known */
    bool asked_before; /* this is not the first batch */
    size_t bad_lines;
    int exit;
};

/* 0 or -ENOMEM; to be closed in any case. */
static int batch_open(struct batch *b, struct ctl *c, size_t room)
{
    *b = (struct batch){ .c = c, .room = room };
    b->questions = calloc(room, sizeof *b->questions);
    b->answers = calloc(room, sizeof *b->answers);
    b->locations = calloc(room, sizeof *b->locations);
    return b->questions && b->answers && b->locations ? 0 : -ENOMEM;
}

static void batch_close(struct batch *b)
{
    name_cache_clear(&b->names);
    free(b->questions);
    free(b->answers);
    free(b->locations);
}

static int lookup(void *s, const char *name, skade_table *ret)
{
    return skade_find_table(s, name, ret);
}

/* Names to tables; what has one is put into the list of answers to be. */
static void look_up_names(struct batch *b)
{
    b->asked = 0;
    for (size_t i = 0; i < b->count; i++) {
        struct question *q = &b->questions[i];
        skade_table table = 0;

        q->answer = NULL;
        q->status = name_cache_find(&b->names, q->table, lookup, b->c->s, &table);
        if (q->status <= 0)
            continue;
        struct skade_answer *a = &b->answers[b->asked];
        *a = (struct skade_answer)SKADE_ANSWER(b->locations[b->asked], sizeof b->locations[0]);
        a->table = table;
        a->snapshot = q->id;
        q->answer = a;
        b->asked++;
    }
    name_cache_clear(&b->names);
}

static int status_of(const struct question *q)
{
    if (q->answer)
        return q->answer->status;
    return q->status == 0 ? SKADE_ENOTABLE : q->status;
}

static int print_answer(struct batch *b, const struct question *q)
{
    struct out *o = &b->c->out;
    int status = status_of(q);

    out_text(o, q->table);
    out_id(o, q->id);
    out_text(o, status == 1 ? q->answer->location : NULL);
    out_text(o, status_word(status));
    bool existed = q->answer && (status == 1 || status == SKADE_EEXPIRED);
    out_seq(o, existed ? q->answer->seq : 0);
    out_seq(o, existed && status == SKADE_EEXPIRED ? q->answer->retired_by : 0);
    return ctl_row(b->c);
}

/* Why there is no location, and what to do about it. */
static void tell_why(struct batch *b, const struct question *q, int status)
{
    char shown[256];
    const char *text = skade_errmsg(b->c->s);

    plain(q->table, shown, sizeof shown);
    switch (status) {
    case SKADE_ENOTABLE:
        ctl_no_table(b->c, q->table);
        break;
    case SKADE_ENOSNAPSHOT:
        ctl_note(b->c, "%s %" PRId64 ": %s: `skadectl history %s` lists them", shown, q->id,
                 skade_strerror(status), shown);
        break;
    case SKADE_EEXPIRED:
        ctl_note(b->c, "%s %" PRId64 ": it was retired, by event %" PRIu64 " or one before it", shown, q->id,
                 q->answer ? q->answer->retired_by : 0);
        break;
    default:
        ctl_note(b->c, "%s %" PRId64 ": %s", shown, q->id, text && *text ? text : skade_strerror(status));
    }
}

/* Missing and expired ids are told one by one; a failure of the whole batch once is enough. */
static void tell(struct batch *b, const struct question *q, bool *told_failure)
{
    int status = status_of(q);
    bool expected = exit_of(status) == CTL_MISSING || exit_of(status) == CTL_EXPIRED;

    if (status == 1)
        return;
    b->exit = exit_worse(b->exit, exit_of(status));
    if (!expected && *told_failure)
        return;
    *told_failure |= !expected;
    tell_why(b, q, status);
}

/* Every answer has a status of its own, also when the whole call fails; what was refused unread has that of the call. */
static void ask_library(struct batch *b)
{
    int64_t r = b->asked > 0 ? skade_resolve_many(b->c->s, b->answers, b->asked) : 0;

    for (size_t i = 0; r < 0 && i < b->asked; i++)
        if (b->answers[i].status == 0)
            b->answers[i].status = (int32_t)r;
}

/* Before the first batch was there its writer may have taken his time: that is not the daemon's. */
static void begin_question(struct batch *b)
{
    if (b->asked_before)
        ctl_next_question(b->c);
    else
        ctl_question(b->c);
    b->asked_before = true;
}

/* Ask what has gathered and print the answers.  0, or the exit code with which the command ends. */
static int ask(struct batch *b)
{
    bool told_failure = false;
    int r = 0;

    if (b->count == 0)
        return 0;
    begin_question(b);
    look_up_names(b);
    ask_library(b);
    for (size_t i = 0; r == 0 && i < b->count; i++) {
        r = print_answer(b, &b->questions[i]);
        tell(b, &b->questions[i], &told_failure);
    }
    b->count = 0;
    return out_flush(&b->c->out) < 0 ? CTL_FAILED : r;
}

static void add(struct batch *b, const char *table, int64_t id)
{
    struct question *q = &b->questions[b->count++];

    assert(strlen(table) < sizeof q->table);
    strcpy(q->table, table);
    q->id = id;
}

static int check_name(struct ctl *c, const char *where, const char *name)
{
    char shown[256];
    const char *why = NULL;

    if (skade_name_check(name, &why) == 0)
        return 0;
    return ctl_fail_with(c, SKADE_EINPUT, "%s%s: not a table name: %s", where,
                         plain(name, shown, sizeof shown), why ? why : "");
}

/* TABLE ID...: all ids are read before any is asked, so that a typing error answers nothing. */
static int resolve_arguments(struct batch *b)
{
    struct args *args = &b->c->args;
    int r = check_name(b->c, "", args->operands[0]);

    for (int i = 1; r == 0 && i < args->count; i++) {
        int64_t id = 0;
        r = ctl_int64(b->c, "the id", args->operands[i], &id);
        if (r == 0)
            add(b, args->operands[0], id);
    }
    return r == 0 ? ask(b) : r;
}

/* `TABLE ID`, divided at the last blank, since a name may hold blanks. */
static int parse_line(struct batch *b, const struct lines *l, char *line, size_t len)
{
    char where[48], shown[128];
    char *blank = NULL;
    int64_t id;

    snprintf(where, sizeof where, "line %" PRIu64 ": ", l->number);
    for (char *p = line; *p; p++)
        if (*p == ' ' || *p == '\t')
            blank = p;
    if (!blank || strlen(line) != len)
        return ctl_fail_with(b->c, SKADE_EINPUT, "%s%s is not `TABLE ID`", where,
                             plain(line, shown, sizeof shown));
    *blank = 0;
    int r = parse_int64(blank + 1, &id);
    if (r < 0)
        return ctl_fail_with(b->c, SKADE_EINPUT, "%s%s is %s", where, plain(blank + 1, shown, sizeof shown),
                             r == -ERANGE ? "outside the signed 64-bit range" : "not a number");
    r = check_name(b->c, where, line);
    if (r == 0)
        add(b, line, id);
    return r;
}

/* A line that was longer than a question can be. */
static int skip_line(struct batch *b, struct lines *l)
{
    ctl_note(b->c, "line %" PRIu64 " is too long for `TABLE ID`", l->number);
    return lines_skip(l);
}

/* Read a question.  1, also when it was a bad line, which is told and counted; 0 at the end, or a negative errno. */
static int take_line(struct batch *b, struct lines *l)
{
    char *line;
    size_t len;

    int r = lines_next(l, &line, &len);
    if (r == 0 || (r < 0 && r != -E2BIG))
        return r;
    if (r == 1 && parse_line(b, l, line, len) == 0)
        return 1;
    b->bad_lines++;
    r = r == 1 ? 0 : skip_line(b, l);
    return r < 0 ? r : 1;
}

/* What has come is answered before more is waited for.  A bad line keeps nobody from being answered, but the command
 * ends with its exit code. */
static int resolve_lines(struct batch *b, struct lines *l)
{
    int r;

    while ((r = take_line(b, l)) > 0) {
        if (b->count < b->room && !lines_would_wait(l))
            continue;
        r = ask(b);
        if (r != 0)
            return r;
    }
    int last = ask(b);
    if (r < 0)
        return ctl_fail_with(b->c, r, "standard input: %s", strerror(-r));
    return last == 0 && b->bad_lines > 0 ? CTL_USAGE : last;
}

static int resolve_stdin(struct batch *b)
{
    struct lines l;

    int r = lines_open(&l, STDIN_FILENO, LINE_MAX_BYTES);
    if (r < 0)
        return ctl_fail_with(b->c, r, "%s", strerror(-r));
    r = resolve_lines(b, &l);
    lines_close(&l);
    return r;
}

int cmd_resolve(struct ctl *c)
{
    bool from_stdin = args_flag(&c->args, "stdin");
    struct batch b;

    if (from_stdin && c->args.count > 0)
        return ctl_usage(c, "with --stdin the questions come from standard input only");
    if (!from_stdin && c->args.count < 2)
        return ctl_usage(c, "it needs TABLE ID..., or --stdin");
    int r = batch_open(&b, c, from_stdin ? PIPE_BATCH : (size_t)c->args.count - 1);
    if (r < 0)
        r = ctl_fail_with(c, r, "%s", strerror(-r));
    else
        r = from_stdin ? resolve_stdin(&b) : resolve_arguments(&b);
    if (r == 0)
        r = b.exit;
    batch_close(&b);
    return r;
}
