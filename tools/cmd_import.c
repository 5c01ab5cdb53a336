/*
 * import: Iceberg table metadata into the log, table by table.
 *
 *     import_find()        which tables lie under the arguments
 *     import_plan_read()   what commits a table's files make
 *     import_delta_*()     which of them the log lacks, by the table's history
 *     release              those, all or none, in pieces
 *
 * One table's failure is told in one line and leaves the others alone, unless the daemon is what failed.  A release that
 * moves the head demands, with its first row, the head that the history showed.  So a writer in between isn't run over,
 * and of two imports at once one finds that the other was there: then the history is read again, a few times.
 */
#include "ctl.h"
#include "import_delta.h"
#include "plain.h"
#include "progress.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PIECE 1024
#define TRIES 3

struct import {
    struct ctl *c;
    struct import_options options;
    struct iceberg_error err; /* large */
    struct skade_commit piece[PIECE];
    bool refused;    /* something was: exit code 1 */
    bool wrong_kind; /* the name of a single table is one that skade stores: exit code 2 */
};

/* What became of a table. */
enum {
    TABLE_DONE = 0,
    TABLE_REFUSED = -1,
    TABLE_AGAIN = -2
}; /* more than 0: exit code, and no more tables */

/* ---- telling ---- */

static void tell_news(void *arg, enum import_news news, const char *line)
{
    static const char *const words[] = {
        [IMPORT_REFUSED] = "", [IMPORT_SKIPPED] = "left out: ", [IMPORT_LEFTOVER] = "left out: "
    };
    struct import *im = arg;

    im->refused |= news == IMPORT_REFUSED;
    ctl_note(im->c, "%s%s", words[news], line);
}

static int refuse(struct import *im, const struct import_plan *plan, const char *why)
{
    char shown[256], place[1024];

    ctl_note(im->c, "%s, from %s: %s", plain(plan->name, shown, sizeof shown),
             plain(plan->place, place, sizeof place), why);
    return TABLE_REFUSED;
}

/* CODE came from the daemon.  Some of its errors will be the next table's as well. */
static int failed(struct import *im, const struct import_plan *plan, int code)
{
    int exit = ctl_fail(im->c, plan->name, code);

    switch (code) {
    case SKADE_EINPUT:
    case SKADE_EKIND:
    case SKADE_EEXISTS:
    case SKADE_ECONFLICT:
    case SKADE_ENOTABLE:
        return TABLE_REFUSED;
    }
    return exit;
}

/* ---- one table against the log ---- */

struct kind {
    skade_table table;
    bool stored;
};

static int note_kind(void *arg, const struct skade_table_info *info)
{
    struct kind *k = arg;

    k->stored |= info->table == k->table && info->stored;
    return 0;
}

/* Others keep the rows of a table whose metadata is imported. */
static int refuse_stored(struct import *im, const struct import_plan *plan, skade_table table)
{
    struct kind k = { .table = table };
    int64_t n = skade_tables(im->c->s, plan->name, note_kind, &k);

    if (n < 0)
        return failed(im, plan, (int)n);
    if (!k.stored)
        return TABLE_DONE;
    im->wrong_kind = true;
    return refuse(
        im, plan,
        "skade stores this table's rows: use append for rows, or --table to give the metadata another name");
}

/* The table of the plan's name, made if it isn't there. */
static int find_or_create(struct import *im, const struct import_plan *plan, skade_table *ret)
{
    int r = skade_find_table(im->c->s, plan->name, ret);

    if (r == 0) {
        r = skade_create(im->c->s, plan->name, plan->location, ret, NULL);
        if (r == SKADE_EEXISTS) /* somebody was faster */
            r = skade_find_table(im->c->s, plan->name, ret) > 0 ? 0 : SKADE_ENOTABLE;
    }
    return r < 0 ? failed(im, plan, r) : refuse_stored(im, plan, *ret);
}

static int on_event(void *arg, const struct skade_event *e)
{
    return import_delta_event(arg, e);
}

static int judge(struct import *im, struct import_delta *d)
{
    int verdict = import_delta_finish(d);

    if (verdict == IMPORT_OTHER_TABLE)
        return refuse(im, d->plan,
                      "this name is taken by another table: give this one a name of its own with --table");
    if (verdict == IMPORT_OTHER_LOCATIONS)
        return refuse(
            im, d->plan,
            "its snapshots are known under other locations: use the same --base-uri or path as before, "
            "or import this copy as another table with --table");
    return verdict < 0 ? ctl_fail_with(im->c, verdict, "%s", strerror(-verdict)) : TABLE_DONE;
}

/* Hold the plan against the table's history. */
static int compare(struct import *im, const struct import_plan *plan, skade_table table,
                   struct import_delta *ret)
{
    int r = import_delta_begin(ret, plan, table);

    if (r < 0)
        return ctl_fail_with(im->c, r, "%s", strerror(-r));
    int64_t n = skade_history(im->c->s, table, 0, 0, on_event, ret);
    return n < 0 ? failed(im, plan, (int)n) : judge(im, ret);
}

static void demand_head(const struct import_delta *d, struct skade_commit *commit)
{
    commit->base = d->has_head ? SKADE_BASE_IS : SKADE_BASE_NONE;
    commit->base_location = d->head;
}

static int send(struct import *im, const struct import_delta *d)
{
    int r = 0;

    progress_begin("import", "commits");
    for (size_t at = 0; r == 0 && at < d->row_count;) {
        size_t n = 0;
        for (; n < PIECE && at < d->row_count; n++, at++) {
            import_delta_commit(d, at, &im->piece[n]);
            if (at == 0 && d->moves_head)
                demand_head(d, &im->piece[n]);
        }
        r = skade_release_add(im->c->s, im->piece, n);
        progress_set(at, d->row_count);
    }
    if (r == 0)
        return skade_release_end(im->c->s, NULL, NULL);
    skade_release_abort(im->c->s);
    return r;
}

static void print_row(struct out *o, const struct import_delta *d)
{
    const struct import_plan *plan = d->plan;

    out_text(o, plan->name);
    out_count(o, plan->file_count);
    out_count(o, d->new_files);
    out_count(o, d->new_snapshots);
    if (plan->has_head)
        out_id(o, plan->head);
    else
        out_absent(o);
    out_row(o);
}

/* At once, since the next table may take a while. */
static int print_result(struct import *im, const struct import_delta *d)
{
    progress_pause();
    print_row(&im->c->out, d);
    int r = out_flush(&im->c->out);
    progress_resume();
    return r < 0 ? CTL_FAILED : TABLE_DONE;
}

static void tell_held_back(struct import *im, const struct import_delta *d)
{
    char shown[256];

    if (d->held_back)
        ctl_note(im->c, "%s: %zu commits are older than the head, which stays where it is",
                 plain(d->plan->name, shown, sizeof shown), d->held_back);
}

/* Compare and commit once.  TABLE_AGAIN: somebody committed meanwhile. */
static int attempt(struct import *im, const struct import_plan *plan, skade_table table, bool last)
{
    struct import_delta d;
    int r = compare(im, plan, table, &d);

    if (r == TABLE_DONE && d.row_count > 0) {
        int code = send(im, &d);
        if (code == SKADE_ECONFLICT && !last)
            r = TABLE_AGAIN;
        else if (code < 0)
            r = failed(im, plan, code);
    }
    if (r == TABLE_DONE) {
        tell_held_back(im, &d);
        r = print_result(im, &d);
    }
    import_delta_free(&d);
    return r;
}

static int commit_plan(struct import *im, const struct import_plan *plan)
{
    skade_table table;
    int r = find_or_create(im, plan, &table);

    if (r != TABLE_DONE)
        return r;
    for (int i = 1; (r = attempt(im, plan, table, i == TRIES)) == TABLE_AGAIN; i++)
        ;
    return r;
}

static int import_table(struct import *im, struct import_table *table)
{
    struct import_plan plan;

    progress_begin("import: reading a table of", "files");
    progress_set(table->file_count, 0);
    int r = import_plan_read(table, &im->options, &plan, &im->err);
    if (r == -ENOMEM)
        return ctl_fail_with(im->c, r, "%s", im->err.text);
    if (r < 0) {
        ctl_note(im->c, "%s", im->err.text);
        return TABLE_REFUSED;
    }
    r = commit_plan(im, &plan);
    import_plan_free(&plan);
    return r;
}

/* ---- all of them ---- */

static int import_tables(struct import *im, struct import_tables *tables)
{
    for (size_t i = 0; i < tables->count; i++) {
        int r = import_table(im, &tables->table[i]);
        if (r > 0)
            return r;
        im->refused |= r == TABLE_REFUSED;
    }
    if (im->wrong_kind && tables->count == 1)
        return CTL_USAGE;
    return im->refused || tables->refused ? CTL_FAILED : CTL_OK;
}

static int run(struct import *im)
{
    struct args *args = &im->c->args;
    struct import_tables tables = { 0 };

    int r = import_find((const char *const *)args->operands, (size_t)args->count, &im->options, &tables,
                        &im->err);
    if (r < 0)
        r = ctl_fail_with(im->c, r, "%s", im->err.text);
    else if (tables.count == 0 && !tables.refused)
        r = ctl_fail_with(im->c, -ENOENT, "no table metadata is there");
    else
        r = import_tables(im, &tables);
    import_tables_free(&tables);
    return r;
}

int cmd_import(struct ctl *c)
{
    const char *table = args_value(&c->args, "table");
    const char *why = NULL;

    if (table && skade_name_check(table, &why) < 0)
        return ctl_usage(c, "--table %s is not a table name: %s", table, why ? why : "");
    struct import *im = calloc(1, sizeof *im);
    if (!im)
        return ctl_fail_with(c, -ENOMEM, "%s", strerror(ENOMEM));
    im->c = c;
    im->options = (struct import_options){ .table = table, .tell = tell_news, .arg = im };
    im->options.base_uri = args_value(&c->args, "base-uri");
    im->options.skip_bad = args_flag(&c->args, "skip-bad");
    int r = run(im);
    progress_end();
    free(im);
    return r;
}
