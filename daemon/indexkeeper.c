#include "indexkeeper.h"

#include "indexer.h"
#include "indexfile.h"
#include "indexload.h"
#include "log.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* This share of all events may be read from the log by a start without being missed. */
#define NEWER_SHARE 32
/* Items of one turn of the loop. */
#define SLICE 16384
#define BACKOFF_MIN_MS 10000
#define BACKOFF_MAX_MS 600000

struct saving {
    struct log_job job;
    uv_work_t work;
    uv_idle_t idle;
    struct indexkeeper *keeper;
    struct generation *generation; /* its parts are written */
    struct index_part parts[GENERATION_PARTS_MAX];
    struct index_image image;
    /* What the image points to. */
    const struct event **events;
    size_t events_max;
    struct event *compactions;
    size_t compactions_count;
    struct index_uuid *uuids;
    size_t uuids_max;
    size_t next_other; /* of the ledger */
    uint64_t next_uuid;
    int error;
    struct errmsg msg;
};

struct indexkeeper {
    struct server *server;
    struct saving *saving;
    bool failing, stopping;
    bool forgotten; /* what is on the disk is to go, and nothing comes */
    uint64_t not_before_ms, backoff_ms;
};

/* ---- on the loop: what the ledger knows -------------------------------------------------------------------------------- */

static void saving_free(uv_handle_t *idle)
{
    struct saving *s = idle->data;

    free(s->events);
    free(s->compactions);
    free(s->uuids);
    free(s);
}

/* The next event up to the end, in order; NULL: that was all. */
static const struct event *next_event(struct saving *s, const struct ledger *l)
{
    const struct event *other = NULL;
    const struct compacted *c = NULL;

    if (s->next_other < l->others_count)
        other = l->others[s->next_other].event;
    if (s->compactions_count < l->compactions_count)
        c = &l->compactions[s->compactions_count];
    if (c && c->seq <= s->image.covered && (!other || c->seq < other->seq)) {
        struct event *e = &s->compactions[s->compactions_count++];
        *e = (struct event){ .seq = c->seq,
                             .kind = EVENT_COMPACT,
                             .table = c->table,
                             .time_us = c->when_us,
                             .watermark = c->watermark };
        return e;
    }
    if (!other || other->seq > s->image.covered)
        return NULL;
    s->next_other++;
    return other;
}

/* At most SLICE items more; false when nothing is left. */
static bool capture(struct saving *s, const struct ledger *l)
{
    size_t n = 0;

    for (const struct event *e; n < SLICE && s->image.events_count < s->events_max && (e = next_event(s, l));
         n++)
        s->events[s->image.events_count++] = e;
    if (n < SLICE) {
        size_t room = s->uuids_max - s->image.uuids_count;
        size_t got = uuids_copy(l->uuids, s->image.covered, &s->next_uuid, s->uuids + s->image.uuids_count,
                                room < SLICE - n ? room : SLICE - n);
        s->image.uuids_count += got;
        n += got;
    }
    counter_max(s->keeper->server->page, COUNTER_index_file_slice_max, n);
    return n == SLICE;
}

/* ---- the end ---------------------------------------------------------------------------------------------------------- */

static void backoff(struct indexkeeper *k)
{
    k->backoff_ms = k->backoff_ms ? k->backoff_ms * 2 : BACKOFF_MIN_MS;
    if (k->backoff_ms > BACKOFF_MAX_MS)
        k->backoff_ms = BACKOFF_MAX_MS;
    k->not_before_ms = world.now_ms(&k->server->loop) + k->backoff_ms;
}

static void remove_files(const struct indexkeeper *k)
{
    int dir = indexfile_dir(k->server->config.data_dir.text, false, NULL);

    if (dir < 0)
        return;
    indexfile_remove(dir);
    close(dir);
}

static void saved(struct saving *s)
{
    struct indexkeeper *k = s->keeper;

    k->saving = NULL;
    if (k->forgotten) {
        remove_files(k);
    } else if (s->error < 0) {
        counter_add(k->server->page, COUNTER_index_file_failed, 1);
        if (!k->failing) /* one line for an episode */
            log_warning(
                "the index file could not be written: %s; the next start takes longer unless a later try "
                "succeeds",
                s->msg.text[0] ? s->msg.text : error_text(s->error));
        backoff(k);
    } else {
        k->server->on_file = s->image.covered;
        counter_set(k->server->page, COUNTER_index_file_seq, s->image.covered);
        k->backoff_ms = 0;
    }
    k->failing = s->error < 0;
    generation_unref(s->generation);
    uv_close((uv_handle_t *)&s->idle, saving_free);
}

/* ---- on a worker: files ----------------------------------------------------------------------------------------------- */

static uint64_t bytes_of_image(const struct saving *s)
{
    uint64_t bytes =
        s->image.uuids_count * sizeof *s->uuids + s->image.events_count * sizeof(struct index_event);

    for (size_t i = 0; i < s->image.parts_count; i++)
        bytes += s->parts[i].size;
    return bytes;
}

/* Only what is as it was when it was published. */
static int put_part(struct saving *s, int dir, const struct part_map *p)
{
    struct part *part;

    int r = part_open(&part, p->map.base, p->size, PART_VERIFY, &s->msg);
    if (r < 0)
        return r;
    part_close(part);
    return indexfile_put_part(dir, p->map.base, p->size, p->header_check, &s->msg);
}

static int write_files(struct saving *s)
{
    const struct generation *g = s->generation;

    int dir = indexfile_dir(s->keeper->server->config.data_dir.text, true, &s->msg);
    if (dir < 0)
        return dir;
    int r = indexfile_has_room(dir, bytes_of_image(s))
                ? 0
                : fail(&s->msg, SKADE_EFULL, "the disk of index/ has no room for it");
    for (size_t i = 0; r == 0 && i < g->parts_count; i++)
        r = put_part(s, dir, g->parts[i]);
    if (r == 0)
        r = indexfile_write(dir, &s->image, &s->msg);
    close(dir);
    return r;
}

static void write_on_worker(uv_work_t *work)
{
    struct saving *s = work->data;

    setpriority(PRIO_PROCESS, (id_t)gettid(), 10); /* as build.c does */
    s->error = write_files(s);
}

static void written(uv_work_t *work, int status)
{
    (void)status;
    saved(work->data);
}

/* ---- on the log thread: the chain --------------------------------------------------------------------------------------- */

static void find_chain(struct log_job *job, struct commitlog *log)
{
    struct saving *s = (struct saving *)job;
    struct commitlog_cursor cursor;

    s->error = commitlog_seek(log, s->image.covered, &cursor, &s->msg);
    s->image.chain = s->error == 0 ? cursor.chain : 0;
    /* In mode "normal" a power cut may take the newest events: not those that the file has. */
    if (s->error == 0 && s->keeper->server->config.sync == SYNC_NORMAL)
        s->error = commitlog_checkpoint(log, false, NULL, &s->msg);
}

static void chain_found(struct log_job *job)
{
    struct saving *s = (struct saving *)job;

    s->work.data = s;
    /* Not into s->error: that is the worker's from here on. */
    int r =
        s->error < 0 ? s->error : world.work(&s->keeper->server->loop, &s->work, write_on_worker, written);
    if (r == 0)
        return;
    s->error = r;
    saved(s);
}

static void on_idle(uv_idle_t *idle)
{
    struct saving *s = idle->data;
    struct server *server = s->keeper->server;

    if (capture(s, server->ledger))
        return;
    uv_idle_stop(idle);
    s->job.run = find_chain;
    s->job.done = chain_found;
    logthread_post(server->log_thread, &s->job, false);
}

/* ---- when ---------------------------------------------------------------------------------------------------------------- */

static void begin_image(struct saving *s, const struct ledger *l)
{
    const struct generation *g = s->generation;

    s->image = (struct index_image){ .log = l->log,
                                     .seed = l->seed,
                                     .covered = g->covered,
                                     .parts = s->parts,
                                     .parts_count = g->parts_count,
                                     .events = s->events,
                                     .uuids = s->uuids };
    for (size_t i = 0; i < g->parts_count; i++) {
        const struct seg_header *h = &part_header(g->parts[i]->part)->seg;
        s->parts[i] =
            (struct index_part){ h->from_seq, h->to_seq, g->parts[i]->size, g->parts[i]->header_check };
    }
}

static void begin(struct indexkeeper *k)
{
    const struct ledger *l = k->server->ledger;
    struct saving *s = calloc(1, sizeof *s);

    if (!s)
        return;
    s->keeper = k;
    s->events_max = l->others_count + l->compactions_count;
    s->uuids_max = uuids_count(l->uuids);
    s->events = malloc((s->events_max + 1) * sizeof(struct event *));
    s->compactions = malloc((l->compactions_count + 1) * sizeof *s->compactions);
    s->uuids = malloc((s->uuids_max + 1) * sizeof *s->uuids);
    s->generation = generation_ref((struct generation *)indexer_generation(k->server->indexer));
    begin_image(s, l);
    k->saving = s;
    uv_idle_init(&k->server->loop, &s->idle);
    s->idle.data = s;
    if (s->events && s->compactions && s->uuids) {
        uv_idle_start(&s->idle, on_idle);
        return;
    }
    s->error = fail(&s->msg, -ENOMEM, "no memory");
    saved(s);
}

static uint64_t newer(const struct indexkeeper *k)
{
    const struct generation *g = indexer_generation(k->server->indexer);

    if (k->forgotten || k->server->readonly[0] || k->server->damaged || g->parts_count > INDEXLOAD_PARTS_MAX)
        return 0;
    return g->covered - k->server->on_file;
}

void indexkeeper_tick(struct indexkeeper *k)
{
    const struct generation *g = indexer_generation(k->server->indexer);

    if (k->saving || k->stopping || world.now_ms(&k->server->loop) < k->not_before_ms)
        return;
    if (newer(k) >= (uint64_t)k->server->config.index_file_events && newer(k) >= g->covered / NEWER_SHARE)
        begin(k);
}

bool indexkeeper_stop(struct indexkeeper *k, bool write)
{
    bool first = !k->stopping;

    if (k->saving)
        return false;
    k->stopping = true;
    if (first && write && newer(k) > 0)
        begin(k);
    return !k->saving;
}

void indexkeeper_forget(struct indexkeeper *k)
{
    k->forgotten = true;
    if (!k->saving) /* which would write beside us, and last */
        remove_files(k);
}

struct indexkeeper *indexkeeper_new(struct server *s)
{
    struct indexkeeper *k = calloc(1, sizeof *k);

    if (k) {
        k->server = s;
        counter_set(s->page, COUNTER_index_file_seq, s->on_file);
    }
    return k;
}

void indexkeeper_free(struct indexkeeper *k)
{
    free(k);
}
