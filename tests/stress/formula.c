/*
 * A synthetic history (tests/support/synthetic.h) made and checked through the public interface: every version of every
 * table is where the formula says, nothing else is there.
 *
 *     formula create TABLES              tables 1 ... TABLES of an empty log
 *     formula commit TABLES FROM TO      versions [FROM, TO) of each table, one commit each
 *     formula release TABLES FROM TO     the same, one release for each version
 *     formula stream TABLES FROM TO      as commit, but goes on when commits are refused for want of room, and prints the
 *                                        number of those made, a line each
 *     formula verify TABLES VERSIONS     judge all answers: one by one, in batches, heads, times, history; mapped and not
 */
#include "stress.h"

#define TIMEOUT_MS 60000
#define BEYOND 20 /* versions that aren't there and are asked for */

static skade_table *numbers;

static void find_tables(skade *s, uint32_t tables)
{
    char name[32];

    numbers = calloc(tables, sizeof *numbers);
    for (uint32_t t = 0; t < tables; t++) {
        int r = skade_find_table(s, synthetic_table(name, t), &numbers[t]);
        if (r != 1)
            die("%s: %d %s", name, r, skade_errmsg(s));
    }
}

static void create(skade *s, uint32_t tables)
{
    char name[32];

    for (uint32_t t = 0; t < tables; t++) {
        int r = skade_create(s, synthetic_table(name, t), "s3://lake", NULL, NULL);
        if (r < 0)
            die_of(s, name, r);
    }
}

static struct skade_commit commit_of(uint32_t t, uint32_t v, char *location)
{
    synthetic_location(location, t, v);
    return (struct skade_commit){ .size = sizeof(struct skade_commit),
                                  .table = numbers[t],
                                  .flags = SKADE_INTRODUCES | SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT,
                                  .snapshot = synthetic_id(t, v),
                                  .time_us = synthetic_time_us(t, v),
                                  .has_time = 1,
                                  .location = location };
}

static void commit(skade *s, uint32_t tables, uint32_t from, uint32_t to)
{
    char location[SYNTHETIC_LOCATION_MAX];

    for (uint32_t v = from; v < to; v++)
        for (uint32_t t = 0; t < tables; t++) {
            struct skade_commit c = commit_of(t, v, location);
            int r = skade_commit(s, &c, NULL, NULL);
            if (r < 0)
                die_of(s, "commit", r);
        }
}

static void release(skade *s, uint32_t tables, uint32_t from, uint32_t to)
{
    struct skade_commit *c = calloc(tables, sizeof *c);
    char(*locations)[SYNTHETIC_LOCATION_MAX] = calloc(tables, sizeof *locations);

    for (uint32_t v = from; v < to; v++) {
        for (uint32_t t = 0; t < tables; t++)
            c[t] = commit_of(t, v, locations[t]);
        int r = skade_release(s, c, tables, NULL, NULL);
        if (r < 0)
            die_of(s, "release", r);
    }
    free(c);
    free(locations);
}

static void stream(skade *s, uint32_t tables, uint32_t from, uint32_t to)
{
    char location[SYNTHETIC_LOCATION_MAX];
    int r;

    for (uint32_t v = from; v < to; v++)
        for (uint32_t t = 0; t < tables; t++) {
            struct skade_commit c = commit_of(t, v, location);
            while ((r = skade_commit(s, &c, NULL, NULL)) == SKADE_EFULL)
                poll(NULL, 0, 5); /* somebody has to make room */
            if (r < 0)
                die_of(s, "commit", r);
            printf("%u\n", (v - from) * tables + t + 1);
            fflush(stdout);
        }
}

/* ---- verify ----------------------------------------------------------------------------------------------------- */

static void judge(const char *question, skade *s, int r, const struct skade_answer *a, uint32_t t, uint32_t v)
{
    char right[SYNTHETIC_LOCATION_MAX];

    synthetic_location(right, t, v);
    if (r != 1 || strcmp(a->location, right) != 0 || a->snapshot != synthetic_id(t, v) ||
        a->time_us != synthetic_time_us(t, v))
        die("%s of table %u version %u: %d %s %s (%s)", question, t, v, r, r < 0 ? skade_errname(r) : "",
            a->location, r == 1 ? "" : skade_errmsg(s));
}

static void verify_table(skade *s, uint32_t t, uint32_t versions)
{
    char where[SYNTHETIC_LOCATION_MAX];

    for (uint32_t v = 0; v < versions + BEYOND; v++) {
        struct skade_answer a = SKADE_ANSWER(where, sizeof where), b = SKADE_ANSWER(where, sizeof where);
        int r = skade_resolve(s, numbers[t], synthetic_id(t, v), &a);
        if (v >= versions && (r != 0 || a.status != SKADE_ENOSNAPSHOT))
            die("table %u version %u isn't there and gives %d, status %d: %s", t, v, r, a.status,
                skade_errmsg(s));
        if (v >= versions)
            continue;
        judge("resolve", s, r, &a, t, v);
        judge("as_of", s, skade_as_of(s, numbers[t], synthetic_time_us(t, v) + 1, &b), &b, t, v);
    }
    struct skade_answer head = SKADE_ANSWER(where, sizeof where);
    if (versions)
        judge("head", s, skade_head(s, numbers[t], &head), &head, t, versions - 1);
}

static void verify_batch(skade *s, uint32_t tables, uint32_t v)
{
    struct skade_answer *a = calloc(tables, sizeof *a);
    char(*where)[SYNTHETIC_LOCATION_MAX] = calloc(tables, sizeof *where);

    for (uint32_t t = 0; t < tables; t++) {
        a[t] = (struct skade_answer)SKADE_ANSWER(where[t], sizeof where[t]);
        a[t].table = numbers[t];
        a[t].snapshot = synthetic_id(t, v);
    }
    int64_t r = skade_resolve_many(s, a, tables);
    if (r != tables)
        die_of(s, "resolve_many", r);
    for (uint32_t t = 0; t < tables; t++)
        judge("resolve_many", s, a[t].status, &a[t], t, v);
    free(a);
    free(where);
}

struct past {
    uint32_t table;
    int64_t version; /* expected next */
};

static int check_event(void *arg, const struct skade_event *e)
{
    struct past *p = arg;
    char right[SYNTHETIC_LOCATION_MAX];

    if (e->kind != SKADE_EVENT_COMMIT)
        return 0;
    if (p->version >= 0)
        synthetic_location(right, p->table, (uint32_t)p->version);
    if (p->version < 0 || strcmp(e->location, right) != 0)
        die("history of table %u has %s where version %lld should be", p->table, e->location,
            (long long)p->version);
    p->version--;
    return 0;
}

static void verify(skade *s, uint32_t tables, uint32_t versions)
{
    for (uint32_t t = 0; t < tables; t++) {
        struct past p = { t, (int64_t)versions - 1 };
        verify_table(s, t, versions);
        int64_t r = skade_history(s, numbers[t], 0, 0, check_event, &p);
        if (r < 0)
            die_of(s, "history", r);
        if (p.version != -1)
            die("history of table %u lacks %lld versions", t, (long long)p.version + 1);
    }
    for (uint32_t v = 0; v < versions; v++)
        verify_batch(s, tables, v);
}

int main(int argc, char **argv)
{
    uint32_t tables = argc > 2 ? (uint32_t)atol(argv[2]) : 0, from = argc > 3 ? (uint32_t)atol(argv[3]) : 0,
             to = argc > 4 ? (uint32_t)atol(argv[4]) : 0;
    skade *s = open_handle(0, TIMEOUT_MS);

    if (strcmp(argv[1], "create") == 0) {
        create(s, tables);
        return 0;
    }
    find_tables(s, tables);
    if (strcmp(argv[1], "commit") == 0) {
        commit(s, tables, from, to);
    } else if (strcmp(argv[1], "release") == 0) {
        release(s, tables, from, to);
    } else if (strcmp(argv[1], "stream") == 0) {
        stream(s, tables, from, to);
    } else {
        skade *other = open_handle(SKADE_NO_SHM, TIMEOUT_MS);
        verify(s, tables, from);
        verify(other, tables, from);
        skade_close(other);
    }
    skade_close(s);
    return 0;
}
