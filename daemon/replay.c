#include "replay.h"

#include "build.h"
#include "indexload.h"

#include <errno.h>
#include <stdlib.h>

/* A stretch of the log that is indexed at once, in commits; and how much is read from it at a time. */
#define CHUNK_ROWS (1u << 20)
#define LOG_SLICE_ROWS 65536
/* So many chunks are merged into one, so that a log of any length fits. */
#define CHUNKS_MAX 24
_Static_assert(CHUNKS_MAX + INDEXLOAD_PARTS_MAX < GENERATION_PARTS_MAX,
               "what is loaded and what is read fit");

struct replay {
    struct server *server;
    uint64_t last_number; /* of generations */
    struct event **events;
    size_t count, cap;
    uint64_t from_seq;
    uint64_t loaded_seq; /* what came from the index file, as it is */
    size_t loaded;       /* parts of it, before those that are made of the log */
    struct part_map *parts[GENERATION_PARTS_MAX];
    size_t parts_count;
    struct commitlog_cursor cursor;
};

static struct part_info info_of(struct replay *rp, uint64_t from_seq, uint64_t to_seq)
{
    return (struct part_info){ .log = rp->server->ledger->log,
                               .seed = rp->server->ledger->seed,
                               .epoch = publisher_epoch(rp->server->publisher),
                               .generation = ++rp->last_number,
                               .from_seq = from_seq,
                               .to_seq = to_seq };
}

static struct build replay_build(struct replay *rp, uint64_t to_seq)
{
    return (struct build){ .publisher = rp->server->publisher,
                           .info = info_of(rp, rp->from_seq, to_seq),
                           .events = (const struct event **)rp->events,
                           .events_count = rp->count };
}

static void forget_events(struct replay *rp)
{
    for (size_t i = 0; i < rp->count; i++)
        free(rp->events[i]);
    rp->count = 0;
}

/* The stretch that was read becomes a part in private memory. */
static int index_chunk(struct replay *rp, uint64_t to_seq, struct errmsg *msg)
{
    struct part_plan *plan = NULL;
    struct build b = replay_build(rp, to_seq);

    if (rp->parts_count == GENERATION_PARTS_MAX)
        return fail(msg, SKADE_EFULL, "the log is longer than this version can index");
    int r = build_plan(&b, &plan);
    if (r == 0)
        r = build_private(plan, &rp->parts[rp->parts_count], msg);
    if (r == 0)
        rp->parts_count++;
    part_plan_free(plan);
    forget_events(rp);
    rp->from_seq = to_seq;
    return r;
}

static size_t chunks(const struct replay *rp)
{
    return rp->parts_count - rp->loaded;
}

/* B is to merge the chunks. */
static void take_chunks(const struct replay *rp, struct build *b)
{
    b->info.from_seq = rp->loaded_seq;
    b->parts_count = chunks(rp);
    memcpy(b->parts, rp->parts + rp->loaded, b->parts_count * sizeof *b->parts);
}

/* MADE stands for the chunks. */
static void replace_chunks(struct replay *rp, struct part_map *made)
{
    for (size_t i = rp->loaded; i < rp->parts_count; i++)
        part_map_unref(rp->parts[i]);
    rp->parts[rp->loaded] = made;
    rp->parts_count = rp->loaded + 1;
}

/* Many chunks are merged into one, so that a log of any length fits the list. */
static int merge_chunks(struct replay *rp, struct errmsg *msg)
{
    struct part_plan *plan = NULL;
    struct part_map *merged;
    struct build b = replay_build(rp, part_header(rp->parts[rp->parts_count - 1]->part)->seg.to_seq);

    take_chunks(rp, &b);
    int r = build_plan(&b, &plan);
    if (r == 0)
        r = build_private(plan, &merged, msg);
    part_plan_free(plan);
    if (r == 0)
        replace_chunks(rp, merged);
    return r;
}

static int take_row(void *arg, const struct event *event, uint64_t chain)
{
    struct replay *rp = arg;

    (void)chain;
    int r = ledger_apply(rp->server->ledger, (struct event *)event, true, NULL);
    if (r < 0)
        return r;
    if (event->kind != EVENT_COMMIT && event->kind != EVENT_COMPACT)
        return 0;
    if (rp->count == rp->cap) {
        size_t cap = rp->cap ? rp->cap * 2 : 1024;
        struct event **more = realloc(rp->events, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        rp->events = more;
        rp->cap = cap;
    }
    rp->events[rp->count] = event_copy(event);
    if (!rp->events[rp->count])
        return -ENOMEM;
    rp->count++;
    return 0;
}

static int read_log(struct replay *rp, struct errmsg *msg)
{
    struct server *s = rp->server;
    int r;

    do {
        r = commitlog_read(s->log, &rp->cursor, LOG_SLICE_ROWS, SIZE_MAX, take_row, rp, msg);
        if (r >= 0 && rp->count >= CHUNK_ROWS) {
            int built = index_chunk(rp, s->ledger->seq, msg);
            if (built == 0 && chunks(rp) == CHUNKS_MAX)
                built = merge_chunks(rp, msg);
            r = built < 0 ? built : r;
        }
    } while (r == 1);
    return r;
}

/* What the index file has, or a structure that is sound enough to read everything. */
static int begin(struct replay *rp, struct errmsg *not_shared, struct errmsg *msg)
{
    struct server *s = rp->server;
    struct index_loaded loaded = { .parts_count = 0 };

    rp->cursor = commitlog_start(commitlog_meta(s->log));
    int r = index_load(s, &loaded);
    rp->last_number = loaded.last_number;
    if (r == 0)
        return commitlog_check_structure(s->log, msg);
    rp->cursor = loaded.cursor;
    rp->from_seq = rp->loaded_seq = loaded.cursor.seq;
    rp->parts_count = rp->loaded = loaded.parts_count;
    memcpy(rp->parts, loaded.parts, loaded.parts_count * sizeof *rp->parts);
    *not_shared = loaded.not_shared;
    s->unchecked = s->on_file = loaded.cursor.seq;
    return commitlog_check_end(s->log, msg);
}

/* What was read becomes one part in shared memory, if there is room. */
static int index_log(struct replay *rp, struct errmsg *not_shared, struct errmsg *msg)
{
    struct part_plan *plan = NULL;
    struct part_map *made = NULL;
    uint64_t to_seq = rp->server->ledger->seq;

    if (to_seq == rp->loaded_seq)
        return 0;
    if (chunks(rp) && rp->from_seq < to_seq) {
        int r = index_chunk(rp, to_seq, msg);
        if (r < 0)
            return r;
    }
    struct build b = replay_build(rp, to_seq);
    if (chunks(rp))
        take_chunks(rp, &b);
    int r = build_plan(&b, &plan);
    if (r < 0)
        return fail(msg, r, "building the index: %s", error_text(r));
    r = build_shared(plan, rp->server->publisher, &b.info, &made, not_shared);
    if (r < 0) /* chunks that are parts already can be asked as they are */
        r = chunks(rp) ? 0 : build_private(plan, &made, msg);
    part_plan_free(plan);
    if (made)
        replace_chunks(rp, made);
    return r;
}

int replay_log(struct server *s, struct replayed *ret, struct errmsg *msg)
{
    struct replay rp = { .server = s };

    int r = begin(&rp, &ret->not_shared, msg);
    if (r == 0)
        r = read_log(&rp, msg);
    if (r == 0)
        r = index_log(&rp, &ret->not_shared, msg);
    forget_events(&rp);
    free(rp.events);
    ret->parts_count = rp.parts_count;
    ret->last_number = rp.last_number;
    memcpy(ret->parts, rp.parts, sizeof ret->parts);
    return r;
}
