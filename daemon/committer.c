#include "committer_internal.h"

#include "compactions.h"
#include "failpoint.h"
#include "gc.h"
#include "listener.h"
#include "log.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* A group takes no more once it has this many changes or events: its members wait for each other. */
#define GROUP_CHANGES 4096
#define GROUP_EVENTS 8192

/* ---- a group's life ------------------------------------------------------------------------------------------------------------- */

static void start_group(struct committer *c);

static void free_contents(struct group *g)
{
    while (g->changes) {
        struct change *change = g->changes;
        g->changes = change->next;
        change_free(change);
    }
    uuids_free(g->uuids);
    free(g->events);
}

static void group_free(struct group *g)
{
    free_contents(g);
    free(g);
}

static void free_on_worker(uv_work_t *work)
{
    free_contents(work->data);
}

static void freed(uv_work_t *work, int status)
{
    struct group *g = work->data;

    (void)status;
    g->committer->server->workers--;
    free(g);
}

/* The memory of a large one goes on a worker. */
static void dispose(struct group *g)
{
    struct server *s = g->committer->server;

    g->work.data = g;
    if (g->large && world.work(&s->loop, &g->work, free_on_worker, freed) == 0)
        s->workers++;
    else
        group_free(g);
}

/* Its members are told. */
static void finish_group(struct group *g)
{
    for (struct change *c = g->changes; c; c = c->next)
        c->done(c);
    group_free(g);
}

/* A successor must know of our page before there is a commit that an orphaned reader could miss. */
static int record_epoch(struct group *g, struct commitlog *log)
{
    struct server *s = g->committer->server;

    if (s->epoch_recorded)
        return 0;
    int r = commitlog_set_epoch(log, g->epoch, false, &g->msg);
    s->epoch_recorded = r == 0;
    return r;
}

/* On the log thread. */
static void run_group(struct log_job *job, struct commitlog *log)
{
    struct group *g = (struct group *)job;
    uint64_t began = world.clock_ns();

    g->error = record_epoch(g, log);
    if (g->error == 0)
        g->error = commitlog_append(log, g->events, g->count, &g->msg);
    /* Perhaps the write-ahead file took the last room: fold it into the database, and try once more. */
    if (g->error == SKADE_EFULL && commitlog_checkpoint(log, true, NULL, NULL) == 0)
        g->error = commitlog_append(log, g->events, g->count, &g->msg);
    g->micros = (world.clock_ns() - began) / 1000;
}

/* Its uuid is one of a durable event now. */
static void keep_uuid(struct group *g, const struct event *e)
{
    struct uuids *all = g->committer->server->ledger->uuids;
    uint64_t seq, content;

    if (g->uuids && uuids_find(g->uuids, &e->uuid, &seq, &content) && seq == e->seq)
        uuids_add(all, &e->uuid, seq, content);
}

static int apply_event(struct group *g, const struct event *event)
{
    struct server *s = g->committer->server;
    const struct generation *generation = indexer_generation(s->indexer);

    keep_uuid(g, event);
    struct event *e = event_copy(event);
    int r = -ENOMEM;
    if (e)
        r = g->large ? ledger_arrive(s->ledger, e, generation)
                     : ledger_apply(s->ledger, e, false, generation);
    if (r < 0)
        free(e);
    g->commits += event->kind == EVENT_COMMIT;
    return r;
}

/* MAX events more. */
static void apply_events(struct group *g, size_t max)
{
    size_t end = g->count - g->applied > max ? g->applied + max : g->count;

    for (; g->applied < end; g->applied++)
        if (apply_event(g, &g->events[g->applied]) < 0) {
            /* It is durable and we can't show it: only a start from the log gives a state that can be trusted. */
            log_error("no memory for committed events; stopping");
            abort();
        }
}

static void count_group(struct group *g)
{
    struct control_page *page = g->committer->server->page;

    counter_add(page, COUNTER_groups, 1);
    counter_max(page, COUNTER_group_max, g->count);
    counter_max(page, COUNTER_log_us_max, g->micros);
    counter_add(page, COUNTER_commits, g->commits);
}

/* C came before, and what it asked for was durable before G: its answer doesn't rest on the others. */
static bool is_old_news(const struct group *g, const struct change *c)
{
    return c->error == 0 && c->first_seq && c->last_seq <= g->committer->server->ledger->seq;
}

/* It failed, for all its members: their judgement rested on each other. */
static void fail_group(struct group *g)
{
    struct server *s = g->committer->server;

    for (struct change *c = g->changes; c; c = c->next) {
        if (is_old_news(g, c))
            continue;
        c->error = g->error;
        c->msg = g->msg;
        c->has_head = false;
    }
    if (g->error == SKADE_EFULL || g->error == -ENOMEM) {
        counter_add(s->page, COUNTER_log_full, 1);
        if (!g->committer->refusing) /* one line for an episode */
            log_warning("commits are refused: %s", g->msg.text);
        g->committer->refusing = true;
        return;
    }
    log_error("the log failed: %s; stopping, to recover from what is on disk", g->msg.text);
    server_stop(s, 1);
}

/* E took an answer away, and everyone knows. */
static void taken_away(struct server *s, const struct event *e)
{
    gc_retired(s, e);
    if (e->kind == EVENT_DROP)
        compaction_table_dropped(s, e->table);
}

/* What is durable becomes true. */
static void apply(void *arg)
{
    struct group *g = arg;

    if (FAILPOINT("commit.durable") == 0)
        apply_events(g, g->count);
    count_group(g);
}

/* The group's fate is known to everyone who has to know it before its members do. */
static void end_group(void *arg)
{
    struct group *g = arg;
    struct committer *c = g->committer;
    struct server *s = c->server;

    if (g->error == 0) {
        if (c->refusing)
            log_info("commits are taken again");
        c->refusing = false;
        if (!g->takes_away)
            indexer_follow(s->indexer);                     /* T2 */
        publisher_commit_seq(s->publisher, s->ledger->seq); /* P3 */
        counter_set(s->page, COUNTER_commit_seq, s->ledger->seq);
    }
    c->group = NULL;
    for (struct change *change = g->changes; change; change = change->next)
        change->done(change);
    if (g->error == 0) {
        for (size_t i = 0; g->takes_away && i < g->count; i++)
            taken_away(s, &g->events[i]);
        listener_events(s->listener);
        indexer_poke(s->indexer);
    }
    dispose(g);
    start_group(c);
}

/* ---- large groups ----------------------------------------------------------------------------------------------------------------
 *
 * A release of very many commits holds the loop for no longer than a slice of it takes.  It is judged in slices, while no
 * other group is under way; and it is applied in slices, while the ledger shows nothing of it. */

static void on_apply(uv_idle_t *slices)
{
    struct committer *c = slices->data;
    struct group *g = c->group;

    (void)FAILPOINT("commit.slice");
    apply_events(g, COMMIT_SLICE);
    if (g->applied < g->count)
        return;
    uv_idle_stop(slices);
    ledger_show(c->server->ledger);
    count_group(g);
    end_group(g);
}

static void apply_in_slices(struct group *g)
{
    struct committer *c = g->committer;

    (void)FAILPOINT("commit.durable");
    if (ledger_reserve(c->server->ledger, g->count) < 0) {
        log_error("no memory for committed events; stopping");
        abort();
    }
    uv_idle_start(&c->slices, on_apply);
}

static void on_judge(uv_idle_t *slices)
{
    struct committer *c = slices->data;
    struct group *g = c->group;

    if (c->server->damaged) /* there is no index to judge by any more */
        refuse(g->changes, SKADE_EUNREACHABLE, "the daemon begins anew");
    else if (judge_slice(g, g->changes) == LATER)
        return;
    uv_idle_stop(slices);
    if (g->changes->error == 0 && g->count) {
        logthread_post(c->server->log_thread, &g->job, true);
        return;
    }
    c->group = NULL;
    g->changes->done(g->changes);
    dispose(g);
    start_group(c);
}

static bool is_large(const struct change *c)
{
    return c->kind == CHANGE_COMMITS && c->rows_count > GROUP_EVENTS;
}

/* ---- groups --------------------------------------------------------------------------------------------------------------------- */

/* Back on the loop: durable, or not.  What takes an answer away isn't applied before everyone can see it. */
static void group_done(struct log_job *job)
{
    struct group *g = (struct group *)job;

    if (g->error == 0 && g->takes_away) {
        indexer_take_away(g->committer->server->indexer, g->events, g->count, apply, end_group, g); /* P2 */
        return;
    }
    if (g->error == 0 && g->large) {
        apply_in_slices(g);
        return;
    }
    if (g->error == 0)
        apply(g);
    else
        fail_group(g);
    end_group(g);
}

/* Move the queue's changes into a new group, as far as they don't need another one. */
static struct group *judge_group(struct committer *c)
{
    struct group *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    c->groups++;
    g->committer = c;
    g->epoch = publisher_epoch(c->server->publisher);
    g->changes_last = &g->changes;
    g->job.run = run_group;
    g->job.done = group_done;
    for (size_t n = 0; c->queue && n < GROUP_CHANGES && g->count < GROUP_EVENTS; n++) {
        struct change *change = c->queue;
        bool large = is_large(change) && !c->server->readonly[0];
        if (large ? g->changes != NULL : judge_one(g, change) == LATER)
            break;
        c->queue = change->next;
        if (!c->queue)
            c->queue_last = &c->queue;
        change->next = NULL;
        *g->changes_last = change;
        g->changes_last = &change->next;
        g->large = large;
        if (large)
            break;
    }
    return g;
}

/* There is no index to judge by any more.  Who waits was hung up on, and asks again. */
static void drop_queue(struct committer *c)
{
    while (c->queue) {
        struct change *change = c->queue;
        c->queue = change->next;
        change->error = SKADE_EUNREACHABLE;
        change->done(change);
        change_free(change);
    }
    c->queue_last = &c->queue;
}

static void start_group(struct committer *c)
{
    if (c->server->damaged)
        drop_queue(c);
    while (c->queue && !c->group && !c->paused) {
        struct group *g = judge_group(c);
        if (!g)
            return; /* no memory: the next submission tries again */
        if (g->large) {
            c->group = g;
            uv_idle_start(&c->slices, on_judge);
        } else if (g->count) {
            c->group = g;
            logthread_post(c->server->log_thread, &g->job, true);
        } else {
            finish_group(g);
        }
    }
}

void committer_submit(struct committer *c, struct change *change)
{
    change->next = NULL;
    *c->queue_last = change;
    c->queue_last = &change->next;
    start_group(c);
}

static void on_pause_over(uv_timer_t *timer)
{
    struct committer *c = timer->data;

    c->paused = false;
    start_group(c);
}

void committer_pause(struct committer *c, uint64_t ms)
{
    c->paused = true;
    world.timer_start(&c->pause, on_pause_over, ms, 0);
}

struct committer *committer_new(struct server *s)
{
    struct committer *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->server = s;
    c->queue_last = &c->queue;
    uv_timer_init(&s->loop, &c->pause);
    uv_idle_init(&s->loop, &c->slices);
    c->pause.data = c->slices.data = c;
    return c;
}

bool committer_idle(const struct committer *c)
{
    return !c->queue && !c->group;
}

void committer_free(struct committer *c)
{
    free(c);
}
