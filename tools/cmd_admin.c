/*
 * segments, clients, reindex, verify, ping: looking after the daemon.
 */
#include "ctl.h"
#include "progress.h"

#include <inttypes.h>

static int conclude(struct ctl *c, int64_t r)
{
    if (c->out.error)
        return CTL_FAILED;
    return r < 0 ? ctl_fail(c, NULL, (int)r) : CTL_OK;
}

static int print_segment(void *arg, const struct skade_segment *s)
{
    struct ctl *c = arg;

    out_seq(&c->out, s->generation);
    out_text(&c->out, s->file);
    out_count(&c->out, s->bytes);
    out_count(&c->out, s->snapshots);
    out_seq(&c->out, s->from_seq);
    out_seq(&c->out, s->to_seq);
    out_flag(&c->out, s->linked);
    out_text(&c->out, s->is_root ? "root" : "part");
    return ctl_row(c);
}

int cmd_segments(struct ctl *c)
{
    return conclude(c, skade_segments(c->s, print_segment, c));
}

static int print_client(void *arg, const struct skade_client *client)
{
    struct ctl *c = arg;

    out_text(&c->out, client->label);
    out_count(&c->out, client->uid);
    if (client->pid)
        out_count(&c->out, client->pid);
    else
        out_absent(&c->out); /* of another pid namespace */
    out_seq(&c->out, client->generation);
    out_count(&c->out, client->lag);
    out_count(&c->out, client->requests);
    return ctl_row(c);
}

int cmd_clients(struct ctl *c)
{
    return conclude(c, skade_clients(c->s, print_client, c));
}

int cmd_reindex(struct ctl *c)
{
    struct skade_reindexed done = { .size = sizeof done };
    int r = skade_reindex(c->s, &done);

    if (r < 0)
        return ctl_fail(c, NULL, r);
    out_seq(&c->out, done.old_generation);
    out_seq(&c->out, done.generation);
    out_number(&c->out, (double)done.micros / 1e6, 6);
    return ctl_row(c);
}

static int print_check(void *arg, const char *object, uint64_t checked, uint64_t damaged, const char *detail)
{
    struct ctl *c = arg;

    out_text(&c->out, object);
    out_count(&c->out, checked);
    out_count(&c->out, damaged);
    out_text(&c->out, detail);
    int r = ctl_row(c);
    if (damaged)
        ctl_note(c, "%s: %" PRIu64 " of %" PRIu64 " damaged%s%s", object, damaged, checked,
                 detail && *detail ? ": " : "", detail ? detail : "");
    return r;
}

int cmd_verify(struct ctl *c)
{
    int r = skade_verify(c->s, args_flag(&c->args, "full"), print_check, c);

    /* What is damaged was told row by row. */
    return r == SKADE_EDAMAGED && c->out.rows > 0 ? CTL_FAILED : conclude(c, r);
}

int cmd_ping(struct ctl *c)
{
    int64_t rtt_us = skade_ping(c->s);

    if (rtt_us < 0)
        return ctl_fail(c, NULL, (int)rtt_us);
    out_count(&c->out, (uint64_t)rtt_us);
    return ctl_row(c);
}
