/*
 * Changes of tables: create, rename, drop, expire.  Each carries a uuid made here, so that it can be asked
 * for again.
 */
#include "client.h"

/* Send what was built and take the sequence number of the one event that it makes. */
static int change(skade *s, unsigned type, uint64_t *seq)
{
    struct frame f;
    struct msg_committed m;

    int r = ask(s, ASK_CHANGE, type, WIRE_COMMITTED, &f);
    if (r < 0)
        return r;
    if (wire_read_committed(f.payload, f.head.len, &m) < 0)
        return ask_broken(s, "a malformed answer to a change");
    if (seq)
        *seq = m.first_seq;
    heard(s, m.last_seq);
    return 0;
}

/* ---- create -------------------------------------------------------------------------------------------- */

static int check_location(skade *s, const char *location)
{
    const char *problem = location ? location_problem(bytes_of(location)) : NULL;
    return problem ? fail(&s->msg, SKADE_EINPUT, "\"%.200s\" is no location: %s", location, problem) : 0;
}

static int take_created(skade *s, const struct frame *f, skade_table *table, uint64_t *seq)
{
    struct msg_created m;

    if (wire_read_created(f->payload, f->head.len, &m) < 0 || m.table == 0)
        return ask_broken(s, "a malformed answer to a create");
    if (table)
        *table = m.table;
    if (seq)
        *seq = m.seq;
    heard(s, m.seq);
    return 0;
}

static int create(skade *s, const char *name, const char *location, skade_table *table, uint64_t *seq)
{
    struct msg_create m = { .name = bytes_of(name), .location = bytes_of(location ? location : "") };
    struct frame f;

    int r = ask_uuid(s, &m.uuid);
    if (r < 0)
        return r;
    wire_put_create(ask_begin(s), &m);
    r = ask(s, ASK_CHANGE, WIRE_CREATE, WIRE_CREATED, &f);
    return r < 0 ? r : take_created(s, &f, table, seq);
}

int skade_create(skade *s, const char *name, const char *location, skade_table *table, uint64_t *seq)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0)
        r = find_check(s, name);
    if (r == 0)
        r = check_location(s, location);
    if (r == 0)
        r = create(s, name, location, table, seq);
    return (int)call_end(&c, r);
}

/* ---- rename, drop -------------------------------------------------------------------------------------- */

static int rename_table(skade *s, const char *name, const char *new_name, uint64_t *seq)
{
    struct msg_rename m = { .name = bytes_of(name), .new_name = bytes_of(new_name) };

    int r = ask_uuid(s, &m.uuid);
    if (r < 0)
        return r;
    wire_put_rename(ask_begin(s), &m);
    return change(s, WIRE_RENAME, seq);
}

int skade_rename(skade *s, const char *name, const char *new_name, uint64_t *seq)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0)
        r = find_check(s, name);
    if (r == 0)
        r = find_check(s, new_name);
    if (r == 0)
        r = rename_table(s, name, new_name, seq);
    return (int)call_end(&c, r);
}

static int drop_table(skade *s, const char *name, uint64_t *seq)
{
    struct msg_drop m = { .name = bytes_of(name) };

    int r = ask_uuid(s, &m.uuid);
    if (r < 0)
        return r;
    wire_put_drop(ask_begin(s), &m);
    return change(s, WIRE_DROP, seq);
}

int skade_drop(skade *s, const char *name, uint64_t *seq)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0)
        r = find_check(s, name);
    if (r == 0)
        r = drop_table(s, name, seq);
    return (int)call_end(&c, r);
}

/* ---- expire -------------------------------------------------------------------------------------------- */

enum { BEFORE_TIME = 1, UP_TO_SNAPSHOT = 2 };

static int expire(skade *s, struct msg_expire *m, uint64_t *seq)
{
    int r = ask_uuid(s, &m->uuid);
    if (r < 0)
        return r;
    wire_put_expire(ask_begin(s), m);
    return change(s, WIRE_EXPIRE, seq);
}

static int expire_call(skade *s, struct msg_expire m, uint64_t *seq)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0)
        r = expire(s, &m, seq);
    return (int)call_end(&c, r);
}

int skade_expire_before(skade *s, skade_table table, int64_t time_us, uint64_t *seq)
{
    return expire_call(s, (struct msg_expire){ .table = table, .by = BEFORE_TIME, .value = time_us }, seq);
}

int skade_expire_snapshot(skade *s, skade_table table, int64_t id, uint64_t *seq)
{
    return expire_call(s, (struct msg_expire){ .table = table, .by = UP_TO_SNAPSHOT, .value = id }, seq);
}
