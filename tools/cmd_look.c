/*
 * head, as-of, tables: what is there now, or was at a time.
 */
#include "ctl.h"
#include "plain.h"

#include <string.h>

static int print_commit(struct ctl *c, const char *table, const struct skade_answer *a)
{
    out_text(&c->out, table);
    if (a->flags & SKADE_HAS_SNAPSHOT)
        out_id(&c->out, a->snapshot);
    else
        out_absent(&c->out);
    out_seq(&c->out, a->seq);
    out_time(&c->out, a->time_us);
    out_text(&c->out, a->location);
    return ctl_row(c);
}

/* R is what a question about TABLE returned: print the answer, or tell why there is none. */
static int conclude(struct ctl *c, const char *table, int r, const struct skade_answer *a)
{
    if (r > 0)
        return print_commit(c, table, a);
    return ctl_fail(c, table, r < 0 ? r : a->status);
}

int cmd_head(struct ctl *c)
{
    char where[SKADE_LOCATION_MAX + 1], shown[256];
    struct skade_answer a = SKADE_ANSWER(where, sizeof where);
    const char *name = c->args.operands[0];
    skade_table table;

    int r = ctl_find_table(c, name, &table);
    if (r != 0)
        return r;
    r = skade_head(c->s, table, &a);
    if (r == 0 && a.status == SKADE_ENOSNAPSHOT)
        return ctl_fail_with(
            c, a.status,
            "%s: no commit yet: `skadectl commit` makes the first (append, where skade stores the rows)",
            plain(name, shown, sizeof shown));
    return conclude(c, name, r, &a);
}

int cmd_as_of(struct ctl *c)
{
    char where[SKADE_LOCATION_MAX + 1];
    struct skade_answer a = SKADE_ANSWER(where, sizeof where);
    const char *name = c->args.operands[0];
    skade_table table;
    int64_t time_us;

    int r = ctl_time(c, "TIME", c->args.operands[1], &time_us);
    if (r == 0)
        r = ctl_find_table(c, name, &table);
    if (r != 0)
        return r;
    return conclude(c, name, skade_as_of(c->s, table, time_us, &a), &a);
}

static int print_table(void *arg, const struct skade_table_info *t)
{
    struct ctl *c = arg;

    out_text(&c->out, t->name);
    out_text(&c->out, t->stored ? "stored" : "external");
    out_count(&c->out, t->snapshots);
    if (t->flags & SKADE_HAS_SNAPSHOT)
        out_id(&c->out, t->snapshot);
    else
        out_absent(&c->out);
    out_seq(&c->out, t->seq);
    out_text(&c->out, t->location);
    if (t->seq)
        out_time(&c->out, t->time_us);
    else
        out_absent(&c->out);
    return ctl_row(c);
}

int cmd_tables(struct ctl *c)
{
    const char *prefix = c->args.count ? c->args.operands[0] : "";
    int64_t r = skade_tables(c->s, prefix, print_table, c);

    if (c->out.error)
        return CTL_FAILED;
    return r < 0 ? ctl_fail(c, *prefix ? prefix : NULL, (int)r) : CTL_OK;
}
