#include "top_sample.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void top_sample_clear(struct top_sample *s)
{
    free(s->clients);
    memset(s, 0, sizeof *s);
    memset(&s->counters, 0xff, sizeof s->counters); /* TOP_ABSENT */
}

void top_sample_counter(struct top_sample *s, const char *name, uint64_t value)
{
#define TAKE(field)                \
    if (strcmp(name, #field) == 0) \
        s->counters.field = value;
    TOP_COUNTERS(TAKE)
#undef TAKE
}

/* ---- tables ---------------------------------------------------------------------------------------------------- */

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Does A come before B?  Names decide between equals, so that rows don't jump. */
static bool table_precedes(const struct top_table *a, const struct top_table *b, enum top_table_order order)
{
    int c = order == TOP_BY_SNAPSHOTS ? compare_numbers(b->snapshots, a->snapshots)
            : order == TOP_BY_CHANGE  ? compare_numbers(b->seq, a->seq)
                                      : 0;
    return c != 0 ? c < 0 : strcmp(a->name, b->name) < 0;
}

static void copy_text(char *to, size_t size, const char *from)
{
    size_t len = strnlen(from, size - 1);

    memcpy(to, from, len);
    to[len] = 0;
}

void top_sample_table(struct top_sample *s, enum top_table_order order, const char *name, bool stored,
                      uint64_t snapshots, uint64_t seq)
{
    struct top_table t = { .stored = stored, .snapshots = snapshots, .seq = seq };
    size_t at = s->tables_count;

    copy_text(t.name, sizeof t.name, name);
    while (at > 0 && table_precedes(&t, &s->tables[at - 1], order))
        at--;
    if (at == TOP_TABLES)
        return;
    if (s->tables_count < TOP_TABLES)
        s->tables_count++;
    memmove(&s->tables[at + 1], &s->tables[at], (s->tables_count - at - 1) * sizeof t);
    s->tables[at] = t;
}

/* ---- clients --------------------------------------------------------------------------------------------------- */

int top_sample_client(struct top_sample *s, const char *label, uint32_t uid, uint32_t pid,
                      uint64_t generation, uint64_t lag, uint64_t requests)
{
    /* Powers of two are where the room ends. */
    if ((s->clients_count & (s->clients_count - 1)) == 0) {
        size_t room = s->clients_count ? s->clients_count * 2 : 1;
        struct top_client *more = realloc(s->clients, room * sizeof *more);
        if (!more)
            return -ENOMEM;
        s->clients = more;
    }
    struct top_client *c = &s->clients[s->clients_count++];
    *c = (struct top_client){
        .uid = uid, .pid = pid, .connections = 1, .generation = generation, .lag = lag, .requests = requests
    };
    copy_text(c->label, sizeof c->label, label);
    return 0;
}

static int compare_clients(const void *a, const void *b)
{
    const struct top_client *x = a, *y = b;
    int c = strcmp(x->label, y->label);

    if (c == 0)
        c = compare_numbers(x->uid, y->uid);
    return c != 0 ? c : compare_numbers(x->pid, y->pid);
}

static void add_to(struct top_client *group, const struct top_client *c)
{
    group->connections += c->connections;
    group->requests += c->requests;
    if (c->lag > group->lag) {
        group->lag = c->lag;
        group->generation = c->generation;
    }
}

void top_sample_group(struct top_sample *s)
{
    size_t groups = 0;

    if (s->clients_count == 0)
        return;
    qsort(s->clients, s->clients_count, sizeof *s->clients, compare_clients);
    for (size_t i = 1; i < s->clients_count; i++) {
        if (compare_clients(&s->clients[groups], &s->clients[i]) == 0)
            add_to(&s->clients[groups], &s->clients[i]);
        else
            s->clients[++groups] = s->clients[i];
    }
    s->clients_count = groups + 1;
}

const struct top_client *top_sample_find(const struct top_sample *s, const struct top_client *c)
{
    if (s->clients_count == 0)
        return NULL;
    return bsearch(c, s->clients, s->clients_count, sizeof *c, compare_clients);
}
