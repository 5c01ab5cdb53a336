/*
 * commit, create, rename, drop, expire: one change each, and the sequence number it got.
 */
#include "ctl.h"
#include "plain.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

static int print_seq(struct ctl *c, uint64_t seq)
{
    out_seq(&c->out, seq);
    return ctl_row(c);
}

/* R is what a change of THING returned. */
static int conclude(struct ctl *c, const char *thing, int r, uint64_t seq)
{
    return r < 0 ? ctl_fail(c, thing, r) : print_seq(c, seq);
}

/* ---- commit ---- */

static int read_snapshot(struct ctl *c, struct skade_commit *commit)
{
    const char *snapshot = args_value(&c->args, "snapshot");
    bool side = args_flag(&c->args, "side");

    if (!snapshot && side)
        return ctl_usage(
            c, "--side needs --snapshot: a commit that neither moves the head nor brings a snapshot "
               "would be found by nobody");
    commit->flags = side ? 0 : SKADE_MOVES_HEAD;
    if (!snapshot)
        return 0;
    commit->flags |= SKADE_WITH_SNAPSHOT | SKADE_INTRODUCES;
    return ctl_int64(c, "--snapshot", snapshot, &commit->snapshot);
}

/* A uuid of our own making, so that it can be told if the outcome stays unknown. */
static int make_uuid(struct ctl *c, unsigned char *ret)
{
    if (getrandom(ret, 16, 0) != 16)
        return ctl_fail_with(c, -errno, "no random numbers: %s", strerror(errno));
    ret[6] = (unsigned char)((ret[6] & 0x0f) | 0x40); /* version 4 of RFC 9562 */
    ret[8] = (unsigned char)((ret[8] & 0x3f) | 0x80);
    return 0;
}

static int read_options(struct ctl *c, struct skade_commit *commit)
{
    const char *base = args_value(&c->args, "base");
    const char *time = args_value(&c->args, "time");
    const char *uuid = args_value(&c->args, "uuid");
    char shown[128];

    if (base) {
        commit->base = strcmp(base, "-") == 0 ? SKADE_BASE_NONE : SKADE_BASE_IS;
        commit->base_location = base;
    }
    if (uuid && skade_uuid_parse(uuid, commit->uuid) < 0)
        return ctl_usage(c, "--uuid %s is not a uuid", plain(uuid, shown, sizeof shown));
    commit->has_time = time != NULL;
    int r = uuid ? 0 : make_uuid(c, commit->uuid);
    if (r != 0)
        return r;
    return time ? ctl_time(c, "--time", time, &commit->time_us) : 0;
}

/* Committed or not?  The uuid tells, when it comes again. */
static int tell_unknown(struct ctl *c, const char *table, int code, const unsigned char *uuid)
{
    char shown[256], text[37];

    return ctl_fail_with(c, code, "%s: %s; with --uuid %s it is committed once",
                         plain(table, shown, sizeof shown), skade_errmsg(c->s),
                         skade_uuid_format(uuid, text));
}

/* The race was lost: say to whom. */
static int tell_conflict(struct ctl *c, const char *table, const struct skade_answer *head)
{
    char shown[256], where[SKADE_LOCATION_MAX + 1], snapshot[40] = "";

    plain(table, shown, sizeof shown);
    if (head->status != 1)
        return ctl_fail_with(c, SKADE_ECONFLICT,
                             "%s: the head is not the expected one: there is no commit yet", shown);
    if (head->flags & SKADE_HAS_SNAPSHOT)
        snprintf(snapshot, sizeof snapshot, "snapshot %" PRId64 ", ", head->snapshot);
    return ctl_fail_with(c, SKADE_ECONFLICT,
                         "%s: the head is not the expected one: it is %s (%sseq %" PRIu64
                         "); begin again from there",
                         shown, plain(head->location, where, sizeof where), snapshot, head->seq);
}

int cmd_commit(struct ctl *c)
{
    char where[SKADE_LOCATION_MAX + 1];
    struct skade_answer head = SKADE_ANSWER(where, sizeof where);
    struct skade_commit commit = { .size = sizeof commit, .location = c->args.operands[1] };
    const char *name = c->args.operands[0];
    uint64_t seq = 0;

    int r = read_snapshot(c, &commit);
    if (r == 0)
        r = read_options(c, &commit);
    if (r == 0)
        r = ctl_find_table(c, name, &commit.table);
    if (r != 0)
        return r;
    r = skade_commit(c->s, &commit, &seq, &head);
    if (r == SKADE_ECONFLICT)
        return tell_conflict(c, name, &head);
    if (r == SKADE_EUNKNOWN || r == SKADE_ETIMEOUT)
        return tell_unknown(c, name, r, commit.uuid);
    return conclude(c, name, r, seq);
}

/* ---- tables ---- */

int cmd_create(struct ctl *c)
{
    const char *location = args_value(&c->args, "location");
    uint64_t seq = 0;

    if (location && !*location)
        return ctl_usage(c, "--location is empty: leave it out for a table that skade stores");
    int r = skade_create(c->s, c->args.operands[0], location, NULL, &seq);
    return conclude(c, c->args.operands[0], r, seq);
}

int cmd_rename(struct ctl *c)
{
    uint64_t seq = 0;
    int r = skade_rename(c->s, c->args.operands[0], c->args.operands[1], &seq);

    return conclude(c, r == SKADE_EEXISTS ? c->args.operands[1] : c->args.operands[0], r, seq);
}

int cmd_drop(struct ctl *c)
{
    uint64_t seq = 0;
    int r = skade_drop(c->s, c->args.operands[0], &seq);

    return conclude(c, c->args.operands[0], r, seq);
}

/* The commits are retired from the oldest on, in the order of the log, whatever their times. */
static void tell_nothing_retired(struct ctl *c, const char *name, bool by_time)
{
    char shown[256];

    ctl_note(c, "%s: nothing was retired: %s", plain(name, shown, sizeof shown),
             by_time ? "the oldest commit that is left isn't before that time, or the head needs it"
                     : "that snapshot was retired before");
}

int cmd_expire(struct ctl *c)
{
    const char *before = args_value(&c->args, "before");
    const char *snapshot = args_value(&c->args, "snapshot");
    const char *name = c->args.operands[0];
    skade_table table;
    uint64_t seq = 0;
    int64_t limit;

    if (!before == !snapshot)
        return ctl_usage(c, "it needs either --before TIME or --snapshot ID");
    int r = before ? ctl_time(c, "--before", before, &limit) : ctl_int64(c, "--snapshot", snapshot, &limit);
    if (r == 0)
        r = ctl_find_table(c, name, &table);
    if (r != 0)
        return r;
    r = before ? skade_expire_before(c->s, table, limit, &seq)
               : skade_expire_snapshot(c->s, table, limit, &seq);
    if (r == 0 && seq == 0)
        tell_nothing_retired(c, name, before != NULL);
    return conclude(c, name, r, seq);
}
