#include "committer_internal.h"

#include <assert.h>
#include <inttypes.h>

static int check_name(struct change *c, struct bytes name)
{
    const char *problem = table_name_problem(name);
    if (problem)
        return refuse(c, SKADE_EINPUT, "'%.*s' is not a table name: %s",
                      (int)(name.len > 100 ? 100 : name.len), name.data, problem);
    return 0;
}

/* The number that the create event SEQ gave: of the log's tables or of this group's. */
static uint32_t created_by(const struct group *g, uint64_t seq)
{
    const struct ledger *l = g->committer->server->ledger;

    if (seq > l->seq)
        return g->events[seq - l->seq - 1].table;
    for (size_t i = 0; i < l->tables_count; i++)
        if (l->tables[i]->created_seq == seq)
            return l->tables[i]->number;
    return 0;
}

int judge_create(struct group *g, struct change *c)
{
    const struct ledger *l = g->committer->server->ledger;
    struct event e = { .kind = EVENT_CREATE, .text = c->name, .text2 = c->location };

    if (!c->location.len)
        e.flags = EVENT_STORED;
    int r = check_name(c, c->name);
    if (r < 0)
        return r;
    const char *problem = c->location.len ? location_problem(c->location) : NULL;
    if (problem)
        return refuse(c, SKADE_EINPUT, "location: %s", problem);
    r = repeated_single(g, c, &e);
    if (r == 1)
        c->created = created_by(g, c->first_seq);
    if (r != 0)
        return r < 0 ? r : 0;
    if (touched_name(g, c->name))
        return LATER;
    if (ledger_find_name(l, c->name, SEQ_MAX))
        return refuse(c, SKADE_EEXISTS, "there is a table '%.*s'; choose another name or drop it",
                      (int)c->name.len, c->name.data);
    if (l->tables_count + g->tables >= UINT32_MAX - 1)
        return refuse(c, SKADE_EBUSY, "table numbers are used up");
    e.table = (uint32_t)l->tables_count + ++g->tables;
    r = add_single(g, c, &e);
    if (r < 0)
        return r;
    c->created = e.table;
    touch_name(g, c->name);
    return 0;
}

/* The living table of that name.  0, LATER, or refused. */
static int table_of_name(struct group *g, struct change *c, struct bytes name, struct table **ret)
{
    struct ledger *l = g->committer->server->ledger;

    if (touched_name(g, name))
        return LATER;
    struct table *t = ledger_table(l, ledger_find_name(l, name, SEQ_MAX));
    if (!t)
        return refuse(c, SKADE_ENOTABLE, "there is no table '%.*s'", (int)(name.len > 200 ? 200 : name.len),
                      name.data);
    /* Its commits in this group are fine, but an order among changes of the table itself needs a group each. */
    if (touched(g, t))
        return LATER;
    *ret = t;
    return 0;
}

int judge_rename(struct group *g, struct change *c)
{
    struct ledger *l = g->committer->server->ledger;
    struct event e = { .kind = EVENT_RENAME, .text = c->new_name, .text2 = c->name };
    struct table *t = NULL;

    int r = check_name(c, c->name);
    if (r == 0)
        r = check_name(c, c->new_name);
    if (r < 0)
        return r;
    r = repeated_single(g, c, &e);
    if (r != 0)
        return r < 0 ? r : 0;
    r = table_of_name(g, c, c->name, &t);
    if (r == 0 && touched_name(g, c->new_name))
        r = LATER;
    if (r != 0)
        return r;
    if (ledger_find_name(l, c->new_name, SEQ_MAX))
        return refuse(c, SKADE_EEXISTS, "there is a table '%.*s'; choose another name or drop it",
                      (int)(c->new_name.len > 200 ? 200 : c->new_name.len), c->new_name.data);
    assert(t);
    e.table = t->number;
    r = add_single(g, c, &e);
    if (r < 0)
        return r;
    touch(g, t);
    touch_name(g, c->name);
    touch_name(g, c->new_name);
    g->takes_away = true;
    return 0;
}

int judge_drop(struct group *g, struct change *c)
{
    struct event e = { .kind = EVENT_DROP, .text = c->name, .text2 = { "", 0 } };
    struct table *t = NULL;

    int r = check_name(c, c->name);
    if (r < 0)
        return r;
    r = repeated_single(g, c, &e);
    if (r != 0)
        return r < 0 ? r : 0;
    r = table_of_name(g, c, c->name, &t);
    if (r != 0)
        return r;
    assert(t);
    e.table = t->number;
    r = add_single(g, c, &e);
    if (r < 0)
        return r;
    touch(g, t);
    touch_name(g, c->name);
    g->takes_away = true;
    return 0;
}
