#include "indexer.h"

#include "build.h"
#include "kepttail.h"
#include "listener.h"
#include "log.h"
#include "replay.h"
#include "rootmaker.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* Rows of tables and names that one turn of the loop takes for a root. */
#define ROOT_SLICE 8192
#define BACKOFF_MIN_MS 100
#define BACKOFF_MAX_MS 10000

struct linked_root {
    uint64_t number;
    size_t parts_count;
    uint64_t parts[GENERATION_PARTS_MAX];
};

struct waiter {
    struct waiter *next;
    indexer_done_fn done;
    void *arg;
    uint64_t old_generation;
};

struct indexer {
    struct server *server;
    struct generation *current; /* always set: what the loop answers from; its root isn't asked for */
    struct generation *shown;   /* the newest that was published in this epoch; NULL: none */
    struct rootjob *root;       /* the root that is being made */
    bool wanted;                /* another one is to be made after it */
    uint64_t taken_seq; /* the newest event that took an answer away: older roots aren't shown any more */
    struct {
        const struct event *events; /* lent; NULL: nobody wants to take something away */
        size_t count;
        indexer_fn apply, done;
        void *arg;
    } taking;
    struct kept_tail tail;   /* of the generation whose word is stored, which may be an older one */
    struct tail_spare spare; /* for the next one */
    bool tail_failing;       /* the last one could not be made */
    bool retired_last;       /* the page of the daemon before us was found and retired */
    uint64_t last_number;    /* generation numbers given so far in this epoch */
    struct build *delta, *merge;
    bool healing;     /* names are worth nothing: merge everything under a new epoch, then take over again */
    bool unpublished; /* the generation word is 0 or the root is behind: publish when possible */
    bool damaged;     /* a part is: nothing is published any more, the daemon begins anew */
    bool stopping;
    struct waiter *waiters;  /* for the merge under way */
    struct waiter *waiting;  /* for the next one */
    struct waiter *for_root; /* merged: for the next root */
    struct waiter *on_root;  /* for the one that is being made */
    struct linked_root roots[2];
    size_t roots_count;
    uint64_t linked_parts[GENERATION_PARTS_MAX * 4]; /* part files of this epoch that have a name */
    size_t linked_parts_count;
    uv_timer_t idle, retry;
    bool failing;     /* the last rebuild or publication failed */
    bool backing_off; /* nothing is started until the retry timer fires */
    uint64_t backoff_ms;
    uint64_t poked_ms;
};

static void want_root(struct indexer *ix);
static void start_root(struct indexer *ix);
static void consider(struct indexer *ix);

static struct part_info info_of(struct indexer *ix, uint64_t from_seq, uint64_t to_seq)
{
    return (struct part_info){ .log = ix->server->ledger->log,
                               .seed = ix->server->ledger->seed,
                               .epoch = publisher_epoch(ix->server->publisher),
                               .generation = ++ix->last_number,
                               .from_seq = from_seq,
                               .to_seq = to_seq };
}

/* ---- parts that have names ------------------------------------------------------------------------------------------ */

static void part_linked(struct indexer *ix, uint64_t generation)
{
    assert(ix->linked_parts_count < ARRAY_SIZE(ix->linked_parts));
    ix->linked_parts[ix->linked_parts_count++] = generation;
}

static bool has_part(const struct generation *g, uint64_t generation)
{
    for (size_t i = 0; i < g->parts_count; i++)
        if (g->parts[i]->generation == generation)
            return true;
    return false;
}

static bool names_part(const struct indexer *ix, uint64_t generation)
{
    for (size_t r = 0; r < ix->roots_count; r++)
        for (size_t i = 0; i < ix->roots[r].parts_count; i++)
            if (ix->roots[r].parts[i] == generation)
                return true;
    return has_part(ix->current, generation) || (ix->root && has_part(ix->root->made, generation));
}

/* Unlink the parts that neither a linked root, nor one that is being made, nor the current list names. */
static void sweep_parts(struct indexer *ix)
{
    size_t kept = 0;

    for (size_t i = 0; i < ix->linked_parts_count; i++) {
        uint64_t generation = ix->linked_parts[i];
        if (names_part(ix, generation))
            ix->linked_parts[kept++] = generation;
        else
            publisher_unlink(ix->server->publisher, SHM_PART, generation);
    }
    ix->linked_parts_count = kept;
}

/* Two roots stay linked: a reader that loaded the word just before the switch still finds its names. */
static void root_linked(struct indexer *ix, const struct generation *g)
{
    if (ix->roots_count == ARRAY_SIZE(ix->roots)) {
        publisher_unlink(ix->server->publisher, SHM_ROOT, ix->roots[0].number);
        publisher_unlink(ix->server->publisher, SHM_TAIL, ix->roots[0].number);
        ix->roots[0] = ix->roots[1];
        ix->roots_count = 1;
    }
    struct linked_root *root = &ix->roots[ix->roots_count++];
    root->number = g->number;
    root->parts_count = g->parts_count;
    for (size_t i = 0; i < g->parts_count; i++)
        root->parts[i] = g->parts[i]->generation;
    sweep_parts(ix);
}

/* ---- publication -------------------------------------------------------------------------------------------------------- */

/* A generation over PARTS, without a root yet.  Takes a reference of each part. */
static struct generation *assemble(struct indexer *ix, struct part_map *const *parts, size_t count)
{
    struct generation *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->refs = 1;
    g->epoch = publisher_epoch(ix->server->publisher);
    g->parts_count = count;
    for (size_t i = 0; i < count; i++) {
        g->parts[i] = part_map_ref(parts[i]);
        g->covered = part_header(parts[i]->part)->seg.to_seq;
    }
    return g;
}

static bool all_shared(const struct indexer *ix, const struct generation *g)
{
    for (size_t i = 0; i < g->parts_count; i++)
        if (!g->parts[i]->generation ||
            part_header(g->parts[i]->part)->seg.epoch != publisher_epoch(ix->server->publisher))
            return false;
    return true;
}

static void set_gauges(struct indexer *ix)
{
    struct control_page *page = ix->server->page;
    const struct generation *g = ix->current;
    uint64_t bytes = ix->shown ? ix->shown->root_map.size : 0;

    for (size_t i = 0; i < g->parts_count; i++)
        bytes += g->parts[i]->size;
    counter_set(page, COUNTER_covered_seq, g->covered);
    counter_set(page, COUNTER_generation, control_generation(page));
    counter_set(page, COUNTER_parts, g->parts_count);
    counter_set(page, COUNTER_index_bytes, bytes);
    counter_set(page, COUNTER_linked_bytes, publisher_linked_bytes(ix->server->publisher));
    counter_set(page, COUNTER_rebuild_failing, ix->failing);
}

/* Is everything published and nothing under way? */
static bool is_complete(const struct indexer *ix)
{
    return !ix->delta && !ix->merge && !ix->root && !ix->wanted && !ix->unpublished && !ix->healing &&
           !ix->waiting && ix->current->covered == ix->server->ledger->seq && all_shared(ix, ix->current);
}

static void recovered(struct indexer *ix)
{
    if (ix->failing)
        log_info("the index is published again");
    ix->failing = false;
    ix->backoff_ms = 0;
}

static void on_retry(uv_timer_t *timer)
{
    struct indexer *ix = timer->data;

    ix->backing_off = false;
    consider(ix);
    if (ix->failing && is_complete(ix)) { /* a reindex failed that somebody had asked for, and he was told */
        recovered(ix);
        set_gauges(ix);
    }
}

static void failed(struct indexer *ix, const char *what, const struct errmsg *msg)
{
    if (ix->damaged) /* that was told */
        return;
    counter_add(ix->server->page, COUNTER_publish_failed, 1);
    /* One line for an episode, not one for each try. */
    if (!ix->failing)
        log_warning("%s: %s; trying again", what, msg->text);
    tail_spare_drop(&ix->spare); /* what is missing may be just that room */
    ix->failing = ix->backing_off = true;
    ix->backoff_ms = ix->backoff_ms ? ix->backoff_ms * 2 : BACKOFF_MIN_MS;
    if (ix->backoff_ms > BACKOFF_MAX_MS)
        ix->backoff_ms = BACKOFF_MAX_MS;
    if (!ix->stopping)
        world.timer_start(&ix->retry, on_retry, ix->backoff_ms, 0);
    set_gauges(ix);
}

/* Very many events that the ledger let go of. */
struct forgetting {
    uv_work_t work;
    struct server *server;
    struct forgotten what;
};

static void forget_on_worker(uv_work_t *work)
{
    struct forgetting *f = work->data;
    forgotten_free(&f->what);
}

static void forget(struct forgetting *f)
{
    forgotten_free(&f->what);
    free(f);
}

static void forgot(uv_work_t *work, int status)
{
    struct forgetting *f = work->data;

    (void)status;
    f->server->workers--;
    forget(f);
}

/* Let go of events that parts have.  A delta borrows them, and the generation whose root is being made begins its mapped
 * tail with those behind its own parts. */
static void trim(struct indexer *ix)
{
    struct server *s = ix->server;
    uint64_t covered = ix->current->covered;

    if (ix->root && ix->root->made->covered < covered)
        covered = ix->root->made->covered;
    if (ix->delta)
        return;
    struct forgetting *f = calloc(1, sizeof *f);
    ledger_trim(s->ledger, covered, f ? &f->what : NULL);
    if (!f || !f->what.entries) {
        free(f);
        return;
    }
    f->server = s;
    f->work.data = f;
    if (world.work(&s->loop, &f->work, forget_on_worker, forgot) == 0)
        s->workers++;
    else
        forget(f);
}

/* G answers from now on, for us and, once SHARED, for everybody. */
static void install(struct indexer *ix, struct generation *g)
{
    generation_unref(ix->current);
    ix->current = g;
    trim(ix);
}

/* The control page is made at the first publication of an epoch, which is when the instance is taken over. */
static int take_over(struct indexer *ix, uint64_t generation, struct errmsg *msg)
{
    struct server *s = ix->server;
    struct publisher_takeover takeover = { .saw_epoch = false };
    uint64_t last_epoch = indexer_epoch(ix) ? indexer_epoch(ix) : s->last_epoch;

    int r = publisher_take_over(s->publisher, generation, s->ledger->seq, last_epoch, &takeover, msg);
    bool linked = indexer_epoch(ix) == publisher_epoch(s->publisher);
    if (r < 0 && linked) /* it failed behind the rename */
        r = publisher_retire_older(s->publisher, last_epoch, &takeover, msg);
    ix->retired_last |= takeover.saw_epoch;
    s->page = publisher_page(s->publisher);
    return r;
}

/* The tail of G, or none: it isn't worth to fail for. */
static void make_tail(struct indexer *ix, const struct generation *g, struct kept_tail *ret)
{
    struct errmsg msg = { "" };

    int r = kept_tail_make(ret, &ix->spare, ix->server, g, &msg);
    if (r < 0 && !ix->tail_failing) /* one line for an episode */
        log_warning("no mapped tail: %s; clients ask for the newest commits over the socket", msg.text);
    ix->tail_failing = r < 0;
}

static int switch_to(struct indexer *ix, const struct generation *g, struct errmsg *msg)
{
    struct kept_tail tail;
    int r = 0;

    make_tail(ix, g, &tail); /* T4 */
    if (indexer_epoch(ix) != g->epoch)
        r = take_over(ix, g->number, msg);
    else
        publisher_switch(ix->server->publisher, g->number); /* P2 */
    if (r < 0) {
        kept_tail_drop(&tail, ix->server);
        return r;
    }
    kept_tail_end(&ix->tail, &ix->spare, ix->server);
    ix->tail = tail;
    kept_tail_gauges(&ix->tail, ix->server);
    tail_spare_want(&ix->spare, ix->server);
    return 0;
}

/* Everyone asks over the socket, until something is published. */
static void switch_to_none(struct indexer *ix)
{
    publisher_switch(ix->server->publisher, CONTROL_NONE); /* P2 */
    kept_tail_end(&ix->tail, &ix->spare, ix->server);      /* T4 */
}

/*
 * The index can't be published, and this is a start: the older page must not be believed any more all the same.  A page
 * that sends everyone to the socket takes its place, and the older files make room; if there is no room for a page, the
 * older ones are retired and nothing takes their place.
 */
static int take_over_without_index(struct indexer *ix, struct errmsg *msg)
{
    struct server *s = ix->server;
    struct publisher_takeover takeover = { .saw_epoch = false };
    struct errmsg why = { "" };

    if (take_over(ix, CONTROL_NONE, &why) == 0)
        return 0;
    int r = publisher_retire_older(s->publisher, s->last_epoch, &takeover, msg);
    ix->retired_last |= takeover.saw_epoch;
    return r;
}

/* Answer from the parts of the list PARTS from now on.  0 or -ENOMEM: then the old list goes on, with the tail. */
static int take_over_parts(struct indexer *ix, struct part_map *const *parts, size_t count)
{
    struct generation *g = assemble(ix, parts, count);
    if (!g)
        return -ENOMEM;
    install(ix, g);
    return 0;
}

static void tell_waiters(struct waiter *list, int error, uint64_t generation)
{
    while (list) {
        struct waiter *w = list;
        list = w->next;
        w->done(w->arg, error, w->old_generation, generation);
        free(w);
    }
}

static void append_waiters(struct waiter **list, struct waiter *more)
{
    while (*list)
        list = &(*list)->next;
    *list = more;
}

/* ---- roots ---------------------------------------------------------------------------------------------------------------- */

/* G's root is linked: all ask it from now on. */
static int show(struct indexer *ix, struct generation *g, struct errmsg *msg)
{
    assert(g->root);
    int r = switch_to(ix, g, msg);

    if (r < 0) {
        publisher_unlink(ix->server->publisher, SHM_ROOT, g->number);
        return r;
    }
    generation_unref(ix->shown);
    ix->shown = generation_ref(g);
    root_linked(ix, g);
    ix->unpublished = false;
    counter_add(ix->server->page, COUNTER_published, 1);
    recovered(ix);
    set_gauges(ix);
    return 0;
}

/* What takes an answer away can't be shown, says MSG: P3: no map may answer any more as if the event had not been. */
static void hide(struct indexer *ix, const struct errmsg *msg)
{
    switch_to_none(ix);
    ix->unpublished = true;
    failed(ix, "publication", msg);
}

/* The events of those who wait for it become true, and are visible by G at the same moment; NULL: by nobody's map. */
static void take_away(struct indexer *ix, struct generation *g, struct errmsg *msg)
{
    indexer_fn done = ix->taking.done;
    void *arg = ix->taking.arg;

    ix->taking.apply(arg);
    ix->taking.events = NULL;
    ix->taken_seq = ix->server->ledger->seq;
    if (!g || show(ix, g, msg) < 0) /* P2 */
        hide(ix, msg);
    done(arg);
}

/* WAITERS are told when a root is made that doesn't exist yet. */
static void await_root(struct indexer *ix, struct waiter *waiters)
{
    if (ix->stopping) {
        tell_waiters(waiters, SKADE_EUNREACHABLE, 0);
        return;
    }
    append_waiters(&ix->for_root, waiters);
    ix->wanted = true;
}

static void free_root(uv_handle_t *idle)
{
    rootjob_free(idle->data);
}

static void close_idle(uv_handle_t *wake)
{
    struct rootjob *j = wake->data;
    uv_close((uv_handle_t *)&j->idle, free_root);
}

/* A root that nobody is to see: of another epoch, or from before an event that took something away. */
static bool is_stale(const struct indexer *ix, const struct generation *g)
{
    return g->epoch != publisher_epoch(ix->server->publisher) || g->names_seq < ix->taken_seq;
}

static void root_done(struct rootjob *j)
{
    struct indexer *ix = j->owner;
    struct generation *g = j->made;
    struct waiter *waiters = ix->on_root;
    struct errmsg msg = j->msg;
    bool stale = is_stale(ix, g);
    int r = j->error;

    ix->root = NULL;
    ix->on_root = NULL;
    if (r == 0 && (ix->damaged || stale)) {
        if (g->epoch == publisher_epoch(ix->server->publisher))
            publisher_unlink(ix->server->publisher, SHM_ROOT, g->number);
        r = fail(&msg, ix->damaged ? SKADE_EDAMAGED : -EAGAIN, "the root is of the past");
    }
    if (j->pending_count)
        take_away(ix, r == 0 ? g : NULL, &msg);
    else if (r == 0)
        r = show(ix, g, &msg);
    if (r < 0 && !j->pending_count && !stale) {
        failed(ix, "publication", &msg);
        ix->unpublished = true;
    }
    if (stale && !ix->damaged) /* the next one is theirs */
        await_root(ix, waiters);
    else
        tell_waiters(waiters, r, g->number);
    sweep_parts(ix);
    trim(ix);
    uv_close((uv_handle_t *)&j->wake, close_idle);
    start_root(ix);
    consider(ix);
}

static void make_on_thread(void *arg)
{
    struct rootjob *j = arg;

    rootjob_make(j);
    uv_async_send(&j->wake); /* the last deed: j is the loop's again */
}

static void on_made(uv_async_t *wake)
{
    struct rootjob *j = wake->data;

    world.join(&j->thread);
    root_done(j);
}

static void on_capture(uv_idle_t *idle)
{
    struct rootjob *j = idle->data;
    struct indexer *ix = j->owner;

    size_t n = rootjob_capture(j, ROOT_SLICE);
    counter_max(ix->server->page, COUNTER_root_slice_max, n);
    if (n == ROOT_SLICE)
        return;
    uv_idle_stop(idle);
    /* A thread of its own: those of the pool are of low priority for ever once they have built a part, and commits may
     * wait for this. */
    int r = world.thread(&j->thread, make_on_thread, j);
    if (r == 0)
        return;
    j->error = fail(&j->msg, r, "no thread to make a root: %s", error_text(r));
    root_done(j);
}

/* A root over the current list, with what is to be taken away; NULL: no memory. */
static struct rootjob *new_root(struct indexer *ix)
{
    struct generation *g = assemble(ix, ix->current->parts, ix->current->parts_count);
    if (!g)
        return NULL;
    g->number = ++ix->last_number;
    struct rootjob *j = rootjob_new(ix->server->ledger, ix->server->publisher, g, ix->shown,
                                    ix->taking.events, ix->taking.events ? ix->taking.count : 0);
    if (!j)
        generation_unref(g);
    return j;
}

/* Can a root of the current list be shown to anybody? */
static bool can_show(const struct indexer *ix)
{
    return !ix->damaged && !ix->healing && all_shared(ix, ix->current);
}

/* Begin the next root, when one is wanted and none is being made. */
static void start_root(struct indexer *ix)
{
    struct errmsg msg = { "" };

    if (ix->root || (!ix->taking.events && (!ix->wanted || ix->stopping || !can_show(ix))))
        return;
    struct rootjob *j = NULL;
    if (ix->taking.events && !(can_show(ix) && indexer_epoch(ix) == publisher_epoch(ix->server->publisher)))
        fail(&msg, -EAGAIN, "the index isn't in shared memory");
    else if (!(j = new_root(ix)))
        fail(&msg, -ENOMEM, "no memory for a root");
    if (!j && ix->taking.events) {
        take_away(ix, NULL, &msg);
        consider(ix);
        return;
    }
    ix->wanted = false;
    if (!j) {
        failed(ix, "publication", &msg);
        ix->unpublished = true;
        return;
    }
    j->owner = ix;
    ix->root = j;
    ix->on_root = ix->for_root;
    ix->for_root = NULL;
    uv_idle_init(&ix->server->loop, &j->idle);
    uv_async_init(&ix->server->loop, &j->wake, on_made);
    j->idle.data = j->wake.data = j;
    uv_idle_start(&j->idle, on_capture);
}

static void want_root(struct indexer *ix)
{
    ix->wanted = true;
    start_root(ix);
}

void indexer_take_away(struct indexer *ix, const struct event *events, size_t count, indexer_fn apply,
                       indexer_fn done, void *arg)
{
    assert(!ix->taking.events && count > 0);
    ix->taking.events = events;
    ix->taking.count = count;
    ix->taking.apply = apply;
    ix->taking.done = done;
    ix->taking.arg = arg;
    start_root(ix);
}

/* At start, when there is nobody to wait. */
static int show_now(struct indexer *ix, struct errmsg *msg)
{
    struct rootjob *j = new_root(ix);
    if (!j)
        return fail(msg, -ENOMEM, "no memory for a root");
    rootjob_capture(j, SIZE_MAX);
    rootjob_make(j);
    *msg = j->msg;
    int r = j->error;
    if (r == 0)
        r = show(ix, j->made, msg);
    rootjob_free(j);
    return r;
}

/* Keep PARTS as what we answer from, though nobody else can. */
static void keep_private(struct indexer *ix, struct part_map *const *parts, size_t count)
{
    if (take_over_parts(ix, parts, count) < 0)
        return; /* the old list goes on, with the tail */
    ix->unpublished = true;
    set_gauges(ix);
}

/* ---- deltas ------------------------------------------------------------------------------------------------------------------ */

static struct build *new_delta(struct indexer *ix)
{
    const struct ledger *l = ix->server->ledger;
    uint64_t from = ix->current->covered;
    struct build *b = calloc(1, sizeof *b);

    if (!b)
        return NULL;
    b->owner = ix;
    b->work.data = b;
    b->publisher = ix->server->publisher;
    b->info = info_of(ix, from, l->seq);
    b->events = calloc(l->seq - from + 1, sizeof *b->events);
    if (!b->events) {
        free(b);
        return NULL;
    }
    for (uint64_t seq = from + 1; seq <= l->seq;
         seq++) /* they aren't looked at here: there may be very many */
        b->events[b->events_count++] = ledger_tail_event(l, seq);
    return b;
}

/* MADE comes behind the current parts. */
static int add_part(struct indexer *ix, struct part_map *made)
{
    struct part_map *parts[GENERATION_PARTS_MAX];
    size_t n = ix->current->parts_count;

    assert(n < GENERATION_PARTS_MAX);
    memcpy(parts, ix->current->parts, n * sizeof *parts);
    parts[n++] = made;
    part_linked(ix, made->generation);
    return take_over_parts(ix, parts, n);
}

static void discard(struct indexer *ix, struct part_map *made)
{
    /* Of an older epoch: the take-over swept it, or will. */
    if (made && part_header(made->part)->seg.epoch == publisher_epoch(ix->server->publisher))
        publisher_unlink(ix->server->publisher, SHM_PART, made->generation);
    part_map_unref(made);
}

/* Those who wait for an index that can't be made are told, and may ask again. */
static void fail_waiting(struct indexer *ix, int error)
{
    struct waiter *waiting = ix->waiting;

    ix->waiting = NULL;
    tell_waiters(waiting, error, ix->current->number);
}

static void delta_done(uv_work_t *work, int status)
{
    struct build *b = work->data;
    struct indexer *ix = b->owner;
    struct errmsg msg = b->msg;

    (void)status;
    ix->delta = NULL;
    bool over = b->info.epoch != publisher_epoch(ix->server->publisher);
    if (b->error < 0 && !over) {
        failed(ix, "index of the newest commits", &msg);
        fail_waiting(ix, b->error);
    } else if (ix->healing || over || b->info.from_seq != ix->current->covered ||
               !all_shared(ix, ix->current)) {
        discard(ix, b->made); /* somebody published meanwhile; those who wait do so for the next one */
    } else {
        counter_add(ix->server->page, COUNTER_deltas_built, 1);
        counter_max(ix->server->page, COUNTER_build_us_max, b->micros);
        if (add_part(ix, b->made) < 0) {
            fail(&msg, -ENOMEM, "no memory for another part");
            failed(ix, "index of the newest commits", &msg);
            fail_waiting(ix, -ENOMEM);
            sweep_parts(ix);
        } else {
            want_root(ix);
        }
        part_map_unref(b->made);
    }
    trim(ix);
    build_free(b);
    consider(ix);
}

static void start_delta(struct indexer *ix)
{
    ix->delta = new_delta(ix);
    if (!ix->delta)
        return;
    int r = world.work(&ix->server->loop, &ix->delta->work, build_on_worker, delta_done);
    if (r < 0) {
        build_free(ix->delta);
        ix->delta = NULL;
    }
}

/* ---- merges -------------------------------------------------------------------------------------------------------------------- */

/* Where the merged parts begin in the current list; -1 when they aren't there any more. */
static int64_t find_run(const struct generation *g, const struct build *b)
{
    for (size_t at = 0; at + b->parts_count <= g->parts_count; at++)
        if (memcmp(&g->parts[at], b->parts, b->parts_count * sizeof *b->parts) == 0)
            return (int64_t)at;
    return -1;
}

/* What B made stands for the parts that it merged, at AT of the current list. */
static int replace_parts(struct indexer *ix, const struct build *b, size_t at)
{
    struct part_map *parts[GENERATION_PARTS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < at; i++)
        parts[n++] = ix->current->parts[i];
    parts[n++] = b->made;
    for (size_t i = at + b->parts_count; i < ix->current->parts_count; i++)
        parts[n++] = ix->current->parts[i];
    part_linked(ix, b->made->generation);

    struct generation probe = { .parts_count = n };
    memcpy(probe.parts, parts, n * sizeof *parts);
    if (all_shared(ix, &probe))
        return take_over_parts(ix, parts, n);
    keep_private(ix, parts, n);
    return 1;
}

/*
 * A part of ours is damaged, says MSG.  From here on nobody is answered from it: maps aren't current any more, no
 * request is read any more, and connections end.  Those who wait for a reindex get what they want, and are told how.
 */
static void give_up(struct indexer *ix, struct waiter *waiters, const struct errmsg *msg)
{
    struct waiter *waiting = ix->waiting;

    ix->damaged = true;
    ix->waiting = NULL;
    switch_to_none(ix);
    ix->server->damaged = true;
    listener_drain(ix->server->listener);
    tell_waiters(waiters, SKADE_EDAMAGED, 0);
    tell_waiters(waiting, SKADE_EDAMAGED, 0);
    server_renew(ix->server, msg->text);
}

static void merge_done(uv_work_t *work, int status)
{
    struct build *b = work->data;
    struct indexer *ix = b->owner;
    struct waiter *waiters = ix->waiters;
    struct errmsg msg = b->msg;
    int r = b->error;

    (void)status;
    ix->merge = NULL;
    ix->waiters = NULL;
    if (b->damaged) {
        discard(ix, b->made);
        build_free(b);
        give_up(ix, waiters, &msg);
        return;
    }
    if (r < 0) {
        failed(ix, "merging parts", &msg);
    } else {
        int64_t at = find_run(ix->current, b);
        bool stale = at < 0 || b->info.epoch != publisher_epoch(ix->server->publisher);
        counter_add(ix->server->page, COUNTER_merges, 1);
        counter_max(ix->server->page, COUNTER_build_us_max, b->micros);
        if (stale) {
            discard(ix, b->made);
            r = -EAGAIN;
        } else {
            bool all = b->parts_count == ix->current->parts_count;
            r = replace_parts(ix, b, (size_t)at);
            if (r < 0) {
                fail(&msg, r, "no memory for another part");
                failed(ix, "merging parts", &msg);
                sweep_parts(ix);
            } else if (all) {
                ix->healing = false;
            }
            part_map_unref(b->made);
        }
    }
    build_free(b);
    if (r == 0) { /* they wait for its root */
        await_root(ix, waiters);
        want_root(ix);
    } else if (r == -EAGAIN && !ix->stopping) { /* they wait for the next one */
        append_waiters(&ix->waiting, waiters);
    } else {
        tell_waiters(waiters, r < 0 ? r : 0, ix->current->number);
    }
    consider(ix);
}

/* Merge the parts [FIRST, FIRST + COUNT) of the current list. */
static void start_merge(struct indexer *ix, size_t first, size_t count)
{
    const struct generation *g = ix->current;
    struct build *b = calloc(1, sizeof *b);

    if (!b)
        return;
    b->owner = ix;
    b->work.data = b;
    b->publisher = ix->server->publisher;
    uint64_t from = count ? part_header(g->parts[first]->part)->seg.from_seq : 0;
    uint64_t to = count ? part_header(g->parts[first + count - 1]->part)->seg.to_seq : 0;
    b->info = info_of(ix, from, to);
    for (size_t i = 0; i < count; i++)
        b->parts[b->parts_count++] = part_map_ref(g->parts[first + i]);
    ix->merge = b;
    if (world.work(&ix->server->loop, &b->work, build_on_worker, merge_done) < 0) {
        ix->merge = NULL;
        build_free(b);
    }
}

/* ---- when ------------------------------------------------------------------------------------------------------------------------- */

static bool tail_is_due(struct indexer *ix)
{
    const struct server *s = ix->server;
    uint64_t tail = s->ledger->seq - ix->current->covered;

    if (!tail)
        return false;
    return tail >= (uint64_t)s->config.rebuild_threshold || ix->waiting ||
           world.now_ms(&s->loop) - ix->poked_ms >= (uint64_t)s->config.rebuild_idle;
}

/* Deltas that are many are merged; with main when they are a few per cent of it, or it is small itself. */
static void consider_merge(struct indexer *ix)
{
    const struct generation *g = ix->current;
    uint64_t rows = 0;

    if (!all_shared(ix, g) || ix->healing) {
        start_merge(ix, 0, g->parts_count);
        return;
    }
    if (ix->waiting && ix->current->covered == ix->server->ledger->seq && g->parts_count > 0) {
        ix->waiters = ix->waiting;
        ix->waiting = NULL;
        start_merge(ix, 0, g->parts_count);
        if (!ix->merge) {
            tell_waiters(ix->waiters, -ENOMEM, 0);
            ix->waiters = NULL;
        }
        return;
    }
    if (g->parts_count <= (size_t)ix->server->config.parts_max)
        return;
    for (size_t i = 1; i < g->parts_count; i++)
        rows += part_rows(g->parts[i]->part);
    uint64_t main_rows = part_rows(g->parts[0]->part);
    if (main_rows < 65536 || rows * 100 >= main_rows * (uint64_t)ix->server->config.main_percent)
        start_merge(ix, 0, g->parts_count);
    else
        start_merge(ix, 1, g->parts_count - 1);
}

/* Start what is due.  Nothing is, once a part is damaged: a second merge would only find it again. */
static void consider(struct indexer *ix)
{
    if (ix->stopping || ix->damaged || ix->backing_off)
        return;
    if ((ix->unpublished || ix->wanted) && !ix->root)
        want_root(ix);
    if (ix->waiting && !ix->merge && ix->current->parts_count == 0 &&
        ix->server->ledger->seq == ix->current->covered) {
        await_root(ix, ix->waiting); /* an empty log: there is nothing to merge */
        ix->waiting = NULL;
        start_root(ix);
    }
    /* A list that is full waits for the merge; the tail is answered meanwhile as ever. */
    if (!ix->delta && !ix->healing && all_shared(ix, ix->current) && tail_is_due(ix) &&
        ix->current->parts_count < GENERATION_PARTS_MAX - 1)
        start_delta(ix);
    if (!ix->merge && (ix->current->parts_count || ix->healing))
        consider_merge(ix);
}

static void on_idle(uv_timer_t *timer)
{
    consider(timer->data);
}

void indexer_poke(struct indexer *ix)
{
    const struct server *s = ix->server;

    ix->poked_ms = world.now_ms(&s->loop);
    if (s->ledger->seq - ix->current->covered >= (uint64_t)s->config.rebuild_threshold)
        consider(ix);
    world.timer_start(&ix->idle, on_idle, (uint64_t)s->config.rebuild_idle, 0);
}

/* ---- what others ask for ------------------------------------------------------------------------------------------------- */

void indexer_reindex(struct indexer *ix, indexer_done_fn done, void *arg)
{
    struct waiter *w = ix->stopping ? NULL : calloc(1, sizeof *w);
    if (!w) {
        done(arg, ix->stopping ? SKADE_EUNREACHABLE : -ENOMEM, 0, 0);
        return;
    }
    *w = (struct waiter){ NULL, done, arg, control_generation(ix->server->page) };
    w->next = ix->waiting;
    ix->waiting = w;
    consider(ix);
}

/* Clients go on with the page that they have, which is retired when all is there anew. */
void indexer_renew_names(struct indexer *ix)
{
    publisher_new_epoch(ix->server->publisher);
    generation_unref(ix->shown);
    ix->shown = NULL;
    ix->roots_count = 0;
    ix->linked_parts_count = 0;
    ix->healing = ix->current->parts_count > 0;
    ix->unpublished = !ix->healing;
    consider(ix);
}

/* Our names are gone. */
static void heal(struct indexer *ix)
{
    struct server *s = ix->server;

    log_warning(
        "names of shared-memory files in %s are gone; making them anew (is something cleaning up there?)",
        publisher_place(s->publisher)->dir);
    counter_add(s->page, COUNTER_self_heals, 1);
    indexer_renew_names(ix);
}

void indexer_tick(struct indexer *ix)
{
    struct server *s = ix->server;
    uint64_t parts[GENERATION_PARTS_MAX];

    counter_set(s->page, COUNTER_shm_free_bytes, publisher_room(s->publisher));
    const struct generation *g = ix->shown;
    for (size_t i = 0; g && i < g->parts_count; i++)
        parts[i] = g->parts[i]->generation;
    if (indexer_epoch(ix) && g && !ix->healing && !ix->unpublished && !ix->stopping) {
        int r = publisher_check(s->publisher, g->number, parts, g->parts_count);
        if (r == SKADE_ERUNNING) {
            log_error("another daemon has taken this instance over while its lock was gone; stopping");
            server_stop(s, 1);
        } else if (r == 0) {
            heal(ix);
        }
    }
    consider(ix);
}

/* ---- start and end ------------------------------------------------------------------------------------------ */

static int load(struct indexer *ix, struct errmsg *msg)
{
    struct replayed *all = calloc(1, sizeof *all);
    struct generation *g = NULL;

    if (!all)
        return -ENOMEM;
    int r = replay_log(ix->server, all, msg);
    ix->last_number = all->last_number;
    if (r == 0)
        g = assemble(ix, all->parts, all->parts_count);
    if (r == 0 && !g)
        r = -ENOMEM;
    if (r == 0) {
        for (size_t i = 0; i < all->parts_count; i++)
            if (all->parts[i]->generation)
                part_linked(ix, all->parts[i]->generation);
        install(ix, g);
        ix->unpublished = true;
        if (all->not_shared.text[0])
            failed(ix, "index", &all->not_shared);
    }
    for (size_t i = 0; i < all->parts_count; i++)
        part_map_unref(all->parts[i]);
    free(all);
    return r;
}

int indexer_start(struct indexer **ret, struct server *s, struct errmsg *msg)
{
    struct indexer *ix = calloc(1, sizeof *ix);
    if (!ix)
        return -ENOMEM;
    ix->server = s;
    uv_timer_init(&s->loop, &ix->idle);
    uv_timer_init(&s->loop, &ix->retry);
    ix->idle.data = ix->retry.data = ix;
    ix->current = assemble(ix, NULL, 0);
    int r = ix->current ? load(ix, msg) : -ENOMEM;
    if (r < 0) {
        generation_unref(ix->current);
        free(ix); /* the process ends: its timers are never run */
        return r;
    }
    ledger_count_snapshots(s->ledger, ix->current);
    if (all_shared(ix, ix->current)) {
        struct errmsg why = { "" };
        if (show_now(ix, &why) < 0)
            failed(ix, "publication", &why);
    }
    if (ix->unpublished) {
        r = take_over_without_index(ix, msg);
        if (r < 0)
            return r; /* an older page may be believed: serve nothing */
    }
    *ret = ix;
    return 0;
}

void indexer_follow(struct indexer *ix)
{
    kept_tail_follow(&ix->tail, ix->server);
}

const struct generation *indexer_generation(const struct indexer *ix)
{
    return ix->current;
}

const struct generation *indexer_shown(const struct indexer *ix)
{
    return ix->shown;
}

uint64_t indexer_epoch(const struct indexer *ix)
{
    return publisher_page_epoch(ix->server->publisher);
}

bool indexer_retired_last(const struct indexer *ix)
{
    return ix->retired_last;
}

bool indexer_stop(struct indexer *ix)
{
    if (!ix->stopping) {
        ix->stopping = true;
        world.timer_stop(&ix->idle);
        world.timer_stop(&ix->retry);
        tell_waiters(ix->waiting, SKADE_EUNREACHABLE, 0);
        tell_waiters(ix->for_root, SKADE_EUNREACHABLE, 0);
        ix->waiting = ix->for_root = NULL;
    }
    return !ix->delta && !ix->merge && !ix->root && !ix->taking.events && !ix->spare.busy;
}

void indexer_free(struct indexer *ix)
{
    if (!ix)
        return;
    assert(!ix->delta && !ix->merge && !ix->root && !ix->spare.busy);
    kept_tail_free(&ix->tail);
    tail_spare_drop(&ix->spare);
    generation_unref(ix->shown);
    generation_unref(ix->current);
    free(ix);
}
