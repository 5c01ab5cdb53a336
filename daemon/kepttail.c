#include "kepttail.h"

#include "failpoint.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

/* Append the ledger's events from where the tail ends. */
static void append_newer(struct tail_writer *w, const struct ledger *l)
{
    while (!w->full && tail_seq(w) < l->seq) {
        const struct event *e = ledger_tail_event(l, tail_seq(w) + 1);
        if (!e)
            w->full = true; /* parts have it that this tail's generation hasn't */
        else
            tail_append(w, e);
    }
}

void kept_tail_gauges(const struct kept_tail *t, struct server *s)
{
    counter_set(s->page, COUNTER_tail_used, t->base ? t->writer.slots : 0);
    counter_set(s->page, COUNTER_tail_room, t->base ? t->writer.info.room : 0);
}

/* ---- spares -------------------------------------------------------------------------------------------- */

/* A tail is a luxury: it must not take the room that the next part needs.  HELD: bytes that are taken for it already. */
static int check_room(const struct server *s, uint64_t held, struct errmsg *msg)
{
    int r = FAILPOINT("tail.room");

    if (r == 0 && publisher_room(s->publisher) < 2ull * TAIL_BYTES - held)
        r = -ENOSPC;
    return r < 0 ? fail(msg, r, "there is no room for one in %s", publisher_place(s->publisher)->dir) : 0;
}

/* On a worker. */
static void make_spare(uv_work_t *work)
{
    struct tail_spare *spare = work->data;
    struct errmsg msg;

    if (spare->old)
        munmap(spare->old, TAIL_BYTES);
    spare->old = NULL;
    if (spare->wanted && publisher_spare_make(&spare->made, spare->server->publisher, TAIL_BYTES, &msg) < 0)
        spare->made = NULL; /* the publication tries again, and tells */
}

static void spare_made(uv_work_t *work, int status)
{
    struct tail_spare *spare = work->data;

    (void)status;
    spare->busy = false;
    if (spare->made) {
        assert(!spare->ready);
        spare->ready = spare->made;
        spare->made = NULL;
    }
    if (!spare->keep)
        tail_spare_drop(spare);
}

static void give_work(struct tail_spare *spare, struct server *s, bool wanted, void *old)
{
    spare->server = s;
    spare->work.data = spare;
    spare->wanted = wanted;
    spare->keep = wanted || spare->ready; /* the worker may be for OLD alone */
    spare->old = old;
    spare->busy = world.work(&s->loop, &spare->work, make_spare, spare_made) == 0;
    if (!spare->busy && old)
        munmap(old, TAIL_BYTES);
}

void tail_spare_want(struct tail_spare *spare, struct server *s)
{
    if (!spare->busy && !spare->ready && check_room(s, 0, NULL) == 0)
        give_work(spare, s, true, NULL);
}

void tail_spare_drop(struct tail_spare *spare)
{
    spare->keep = false;
    if (spare->ready)
        publisher_spare_free(spare->server->publisher, spare->ready);
    spare->ready = NULL;
}

/* ---- making -------------------------------------------------------------------------------------------- */

struct filling {
    struct tail_info info;
    const struct ledger *ledger;
    struct tail_writer writer;
};

static int fill(void *arg, void *buf, size_t size)
{
    struct filling *f = arg;

    assert(size == tail_size(f->info.room, f->info.lines));
    tail_begin(&f->writer, &f->info, buf);
    append_newer(&f->writer, f->ledger);
    tail_show(&f->writer); /* T2: nobody sees it yet */
    return 0;
}

int kept_tail_make(struct kept_tail *ret, struct tail_spare *spare, struct server *s,
                   const struct generation *g, struct errmsg *msg)
{
    struct filling f = { .ledger = s->ledger,
                         .info = { .log = s->ledger->log,
                                   .seed = s->ledger->seed,
                                   .epoch = g->epoch,
                                   .generation = g->number,
                                   .from_seq = g->covered,
                                   .room = TAIL_ROOM,
                                   .lines = tail_lines_usual() } };

    *ret = (struct kept_tail){ .generation = g->number, .seen = s->ledger->seq };
    int r = check_room(s, spare->ready ? TAIL_BYTES : 0, msg);
    if (r < 0)
        tail_spare_drop(spare);
    if (r == 0) {
        counter_add(s->page, COUNTER_tail_late, !spare->ready);
        r = publisher_write_tail(s->publisher, spare->ready, g->number, TAIL_BYTES, fill, &f, &ret->base,
                                 msg);
        spare->ready = NULL;
    }
    if (r < 0)
        counter_add(s->page, COUNTER_tail_failed, 1);
    else
        ret->writer = f.writer;
    return r;
}

/* ---- keeping ------------------------------------------------------------------------------------------- */

void kept_tail_follow(struct kept_tail *t, struct server *s)
{
    if (!t->base)
        return;
    append_newer(&t->writer, s->ledger);
    tail_show(&t->writer); /* T2: pairs with tail_count() */
    uint64_t tried = t->seen > tail_seq(&t->writer) ? t->seen : tail_seq(&t->writer);
    counter_add(s->page, COUNTER_tail_full, s->ledger->seq - tried);
    t->seen = s->ledger->seq;
    kept_tail_gauges(t, s);
}

void kept_tail_free(struct kept_tail *t)
{
    if (t->base)
        munmap(t->base, TAIL_BYTES);
    *t = (struct kept_tail){ .base = NULL };
}

void kept_tail_end(struct kept_tail *t, struct tail_spare *spare, struct server *s)
{
    if (t->base && !spare->busy) {
        give_work(spare, s, !spare->ready && check_room(s, 0, NULL) == 0, t->base);
        t->base = NULL;
    }
    kept_tail_free(t);
    kept_tail_gauges(t, s);
}

void kept_tail_drop(struct kept_tail *t, struct server *s)
{
    publisher_unlink(s->publisher, SHM_TAIL, t->generation);
    kept_tail_free(t);
}
