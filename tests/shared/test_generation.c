#include "generation.h"

#include "checksum.h"
#include "deny.h"
#include "quick.h"
#include "tempdir.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define EPOCH 0xe0c4ull
#define SEED 23

static struct shm_place place;
static struct errmsg msg;

/* ---- a log, and what is true in it --------------------------------------------------------------------- */

#define TABLES_MAX 12
#define EVENTS_MAX 2000

struct history {
    size_t count; /* events, seq 1 .. count */
    uint32_t tables;
    uint64_t covered; /* what parts are made of */
    struct event events[EVENTS_MAX + 1];
    char texts[EVENTS_MAX + 1][48];
};

static const struct uuid log_uuid = { { 3, 1, 4 } };

static bool is_commit(const struct event *e)
{
    return e->kind == EVENT_COMMIT || e->kind == EVENT_COMPACT;
}

/* Few ids and few times, so that both repeat. */
static struct event random_event(struct history *h, uint64_t *state)
{
    struct event e = { .seq = h->count + 1, .table = 1 + (uint32_t)random_below(state, h->tables) };
    uint64_t dice = random_below(state, 100);

    e.kind = dice < 90 ? EVENT_COMMIT : dice < 94 ? EVENT_COMPACT : dice < 97 ? EVENT_EXPIRE : EVENT_DROP;
    e.snapshot = (int64_t)random_below(state, 40) - 20;
    if (random_below(state, 10) == 0)
        e.snapshot = e.snapshot < 0 ? INT64_MIN : INT64_MAX;
    e.time_us = 8000 * (int64_t)((e.seq + random_below(state, 30)) / 8);
    if (random_below(state, 100) == 0)
        e.time_us = e.snapshot < 0 ? INT64_MIN : INT64_MAX;
    if (e.kind == EVENT_COMMIT)
        e.flags = (uint32_t)random_below(state, 8);
    if (e.kind == EVENT_COMPACT)
        e.flags = EVENT_INTRODUCES | EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT;
    if (!(e.flags & EVENT_HAS_SNAPSHOT))
        e.flags &= ~(uint32_t)EVENT_INTRODUCES;
    if (e.kind == EVENT_COMPACT || e.kind == EVENT_EXPIRE)
        e.watermark = e.seq - 1 - random_below(state, e.seq < 30 ? e.seq : 30);
    return e;
}

static uint64_t dropped_at(const struct history *h, uint32_t table)
{
    for (size_t i = 1; i <= h->count; i++)
        if (h->events[i].kind == EVENT_DROP && h->events[i].table == table)
            return h->events[i].seq;
    return SEQ_MAX;
}

/* The newest retirement of TABLE up to AT, or NULL.  Watermarks only rise. */
static const struct event *retirement(const struct history *h, uint32_t table, uint64_t at)
{
    for (size_t i = h->count; i > 0; i--) {
        const struct event *e = &h->events[i];
        if (e->seq <= at && e->table == table && e->watermark)
            return e;
    }
    return NULL;
}

/* Is it an event that the log would have accepted? */
static bool makes_sense(const struct history *h, const struct event *e)
{
    const struct event *last = retirement(h, e->table, SEQ_MAX);
    if (dropped_at(h, e->table) != SEQ_MAX || (e->kind == EVENT_DROP && e->table > 3))
        return false;
    return !e->watermark || !last || e->watermark > last->watermark;
}

static struct history *make_history(size_t count, uint32_t tables, uint64_t covered, uint64_t seed)
{
    struct history *h = calloc(1, sizeof *h);

    h->tables = tables;
    h->covered = covered;
    for (uint32_t table = 1; table <= tables; table++)
        h->events[++h->count] = (struct event){ .seq = h->count, .kind = EVENT_CREATE, .table = table };
    while (h->count < count) {
        struct event e = random_event(h, &seed);
        if (!makes_sense(h, &e))
            continue;
        char *text = h->texts[e.seq];
        snprintf(text, sizeof h->texts[0], "s3://bucket/%u/metadata/%05u.json", e.table, (unsigned)e.seq);
        e.text = bytes_of(text);
        h->events[++h->count] = e;
    }
    return h;
}

/* ---- files of it --------------------------------------------------------------------------------------- */

static const char *path_of(enum shm_kind kind, uint64_t generation)
{
    static char path[512];
    char name[SHM_NAME_MAX];
    snprintf(path, sizeof path, "%s/%s", place.dir, shm_name(name, &place, kind, EPOCH, generation));
    return path;
}

static void put(enum shm_kind kind, uint64_t generation, const void *data, size_t size)
{
    const char *path = path_of(kind, generation);
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0400);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, data, size), (ssize_t)size);
    close(fd);
}

/* The parts and rows that a root is made of. */
struct files {
    struct root_part parts[GENERATION_PARTS_MAX + 2];
    size_t parts_count;
    struct root_table tables[TABLES_MAX];
    struct root_name_row names[TABLES_MAX];
    char name[TABLES_MAX][8];
};

/* Note the heads that are in this part. */
static void note_heads(struct files *f, const struct history *h, const struct part *part)
{
    for (uint32_t table = 1; table <= h->tables; table++) {
        struct part_hit hit;
        if (part_head(part, table, SEQ_MAX, &hit) != 1)
            continue;
        f->tables[table - 1].head_seq = hit.seq;
        f->tables[table - 1].head_part = (uint32_t)f->parts_count;
        f->tables[table - 1].head_ref = hit.ref;
    }
}

static void put_part(struct files *f, const struct history *h, uint64_t from, uint64_t to)
{
    uint64_t generation = f->parts_count + 1;
    struct part_info info = { log_uuid, SEED, EPOCH, generation, from, to };
    const struct event **events = calloc(h->count + 1, sizeof *events);
    struct part_plan *plan;
    struct part *part;
    size_t n = 0;

    for (uint64_t seq = from + 1; seq <= to; seq++)
        if (is_commit(&h->events[seq]))
            events[n++] = &h->events[seq];
    ck_assert_int_eq(part_plan_rows(&plan, &info, events, n), 0);
    size_t size = part_plan_size(plan);
    void *buf = aligned_alloc(64, align_up(size, 64));
    ck_assert_int_eq(part_plan_fill(plan, buf, size), 0);
    put(SHM_PART, generation, buf, size);
    ck_assert_int_eq(part_open(&part, buf, size, PART_VERIFY, &msg), 0);
    note_heads(f, h, part);
    f->parts[f->parts_count++] = (struct root_part){
        generation, from, to, size, part_header(part)->seg.header_check, part_rows(part)
    };
    part_close(part);
    part_plan_free(plan);
    free(buf);
    free(events);
}

static void note_tables(struct files *f, const struct history *h)
{
    for (uint32_t table = 1; table <= h->tables; table++) {
        struct root_table *row = &f->tables[table - 1];
        const struct event *last = retirement(h, table, SEQ_MAX);
        row->created_seq = table;
        row->dropped_seq = dropped_at(h, table);
        row->watermark = last ? last->watermark : 0;
        row->retired_by = last ? last->seq : 0;
        row->kind = TABLE_EXTERNAL;
        snprintf(f->name[table - 1], sizeof f->name[0], "t%u", table % 100);
        f->names[table - 1] =
            (struct root_name_row){ bytes_of(f->name[table - 1]), table, row->dropped_seq, table };
    }
}

static void put_root(const struct files *f, const struct history *h, uint64_t generation)
{
    struct root_input in = { .log = log_uuid,
                             .seed = SEED,
                             .epoch = EPOCH,
                             .generation = generation,
                             .covered = f->parts_count ? f->parts[f->parts_count - 1].to_seq : 0,
                             .names_seq = h->count,
                             .parts = f->parts,
                             .parts_count = f->parts_count,
                             .tables = f->tables,
                             .tables_count = h->tables,
                             .names = f->names,
                             .names_count = h->tables };
    size_t size = root_size(&in);
    void *buf = aligned_alloc(64, size);
    ck_assert_int_eq(root_fill(&in, buf, size), 0);
    put(SHM_ROOT, generation, buf, size);
    free(buf);
}

/* Files of H in COUNT parts of random length, and a root over them as generation 100. */
static struct files *put_files(const struct history *h, size_t count, uint64_t seed)
{
    struct files *f = calloc(1, sizeof *f);
    uint64_t from = 0;

    place = (struct shm_place){ .instance = "test", .uid = getuid() };
    snprintf(place.dir, sizeof place.dir, "%s", tempdir());
    for (size_t i = 0; i < count; i++) {
        uint64_t left = h->covered - from, reserve = count - 1 - i;
        uint64_t len = i + 1 == count ? left : 1 + random_below(&seed, (left - reserve) / (reserve ? 2 : 1));
        put_part(f, h, from, from + len);
        from += len;
    }
    note_tables(f, h);
    put_root(f, h, 100);
    return f;
}

static struct generation *open_old(uint64_t number, const struct generation *old)
{
    struct generation *g = NULL;
    int r = generation_open(&g, &place, EPOCH, number, &log_uuid, old, UINT64_MAX, &msg);
    ck_assert_msg(r == 0, "%s", msg.text);
    return g;
}

static int try_open(uint64_t verify_max)
{
    struct generation *g = NULL;
    int r = generation_open(&g, &place, EPOCH, 100, &log_uuid, NULL, verify_max, &msg);
    ck_assert((r == 0) == (g != NULL));
    generation_unref(g);
    return r;
}

/* ---- the same answers, from the log -------------------------------------------------------------------- */

struct truth {
    int status;
    const struct event *event;
    uint64_t retired_by;
};

/* The rules for tables, about what a search found. */
static struct truth by_rules(const struct history *h, uint32_t table, const struct event *found, uint64_t at)
{
    const struct event *newest = retirement(h, table, SEQ_MAX);

    if (table == 0 || table > h->tables || table > at ||
        (dropped_at(h, table) != SEQ_MAX && dropped_at(h, table) <= at))
        return (struct truth){ SKADE_ENOTABLE, NULL, 0 };
    if (!found)
        return (struct truth){ SKADE_ENOSNAPSHOT, NULL, 0 };
    if (!newest || found->seq > newest->watermark)
        return (struct truth){ 1, found, 0 };
    if (newest->seq > at)
        return (struct truth){ -EAGAIN, found, 0 };
    return (struct truth){ SKADE_EEXPIRED, found, newest->seq };
}

/* An answer must hold for the moment that was asked about, not only by the newest watermark. */
static void check_moment(const struct history *h, const struct truth *t, uint32_t table, uint64_t at)
{
    const struct event *then = retirement(h, table, at);
    bool retired = t->event && then && t->event->seq <= then->watermark;
    ALWAYS(t->status != 1 || !retired);
    ALWAYS(t->status != SKADE_EEXPIRED || retired);
}

static const struct event *first_of(const struct history *h, uint32_t table, int64_t id, uint64_t at)
{
    for (uint64_t seq = 1; seq <= h->covered && seq <= at; seq++) {
        const struct event *e = &h->events[seq];
        if (is_commit(e) && e->table == table && e->flags & EVENT_INTRODUCES && e->snapshot == id)
            return e;
    }
    return NULL;
}

typedef bool (*better_fn)(const struct event *a, const struct event *b);

static bool later(const struct event *a, const struct event *b)
{
    return a->time_us > b->time_us || (a->time_us == b->time_us && a->seq > b->seq);
}

static bool earlier(const struct event *a, const struct event *b)
{
    return later(b, a);
}

static bool newer(const struct event *a, const struct event *b)
{
    return a->seq > b->seq;
}

/* The best by BETTER of those that moved the head, up to TIME_US and AT. */
static const struct event *best_head(const struct history *h, uint32_t table, int64_t time_us, uint64_t at,
                                     better_fn better)
{
    const struct event *best = NULL;
    for (uint64_t seq = 1; seq <= h->covered && seq <= at; seq++) {
        const struct event *e = &h->events[seq];
        if (is_commit(e) && e->table == table && e->flags & EVENT_MOVES_HEAD && e->time_us <= time_us &&
            (!best || better(e, best)))
            best = e;
    }
    return best;
}

static const struct event *neighbour(const struct history *h, uint32_t table, uint64_t seq, int step)
{
    for (seq += (uint64_t)step; seq >= 1 && seq <= h->count; seq += (uint64_t)step)
        if (seq <= h->covered && is_commit(&h->events[seq]) && h->events[seq].table == table)
            return &h->events[seq];
    return NULL;
}

/* ---- comparing ----------------------------------------------------------------------------------------- */

static void check_location(const struct generation *g, const struct found *f, const struct event *e)
{
    char buf[LOCATION_MAX];
    size_t need = 0;

    ALWAYS(generation_location(g, f, buf, sizeof buf, NULL) == (int)e->text.len);
    ALWAYS(memcmp(buf, e->text.data, e->text.len) == 0);
    ALWAYS(generation_location(g, f, buf, e->text.len - 1, &need) == -ERANGE && need == e->text.len);
}

static void check_hit(const struct part_hit *hit, const struct event *e)
{
    ALWAYS(hit->table == e->table && hit->seq == e->seq && hit->time_us == e->time_us &&
           hit->kind == e->kind);
    ALWAYS(hit->flags == e->flags);
    ALWAYS(!(e->flags & EVENT_HAS_SNAPSHOT) || hit->snapshot == e->snapshot);
}

static void check_search(const struct generation *g, int r, const struct found *f, const struct event *e)
{
    ALWAYS(r == (e != NULL));
    ALWAYS(f->status == (e ? 1 : SKADE_ENOSNAPSHOT));
    if (e) {
        check_hit(&f->hit, e);
        check_location(g, f, e);
    }
}

/* Answers of each kind that were compared: a test that never sees one proves nothing about it. */
static struct {
    unsigned found, no_table, no_snapshot, expired, again;
} seen;

static void count_answer(int status)
{
    seen.found += status == 1;
    seen.no_table += status == SKADE_ENOTABLE;
    seen.no_snapshot += status == SKADE_ENOSNAPSHOT;
    seen.expired += status == SKADE_EEXPIRED;
    seen.again += status == -EAGAIN;
}

static void check_answer(const struct generation *g, int r, const struct found *f, const struct truth *t)
{
    count_answer(r);
    ALWAYS(r == t->status && f->status == t->status && f->retired_by == t->retired_by);
    if (t->event) {
        check_hit(&f->hit, t->event);
        check_location(g, f, t->event);
    }
}

/* Q was answered, or left alone, as T demands. */
static void check_whole(const struct part_query *q, const struct truth *t)
{
    bool fits = t->event && t->event->text.len < q->location_cap;

    ALWAYS(q->status == (t->status == 1 && !fits ? -ERANGE : t->status));
    if (t->status != 1 && t->status != SKADE_EEXPIRED) {
        ALWAYS(q->seq == 0 && q->flags == 0 && q->retired_by == 0 && q->location_len == 0);
        return;
    }
    ALWAYS(q->seq == t->event->seq && q->time_us == t->event->time_us && q->retired_by == t->retired_by &&
           q->flags & PART_FROM_MAP && q->location_len == (t->status == 1 ? t->event->text.len : 0));
    const char *expected = t->status == 1 && fits ? t->event->text.data : "";
    size_t len = t->status == 1 && fits ? t->event->text.len : 0;
    ALWAYS(memcmp(q->location, expected, len) == 0 && q->location[len] == 0);
}

static void check_id(const struct generation *g, const struct history *h, uint32_t table, int64_t id,
                     uint64_t at)
{
    const struct event *e = first_of(h, table, id, at);
    struct truth t = by_rules(h, table, e, at);
    struct found f;

    check_moment(h, &t, table, at);
    check_search(g, generation_search(g, table, id, at, &f), &f, e);
    check_answer(g, generation_find(g, table, id, at, &f), &f, &t);

    char location[LOCATION_MAX + 1];
    struct part_query q = { .location = location, .location_cap = sizeof location };
    q.status = generation_resolve(g, table, id, at, &q);
    check_whole(&q, &t);
}

static void check_time(const struct generation *g, const struct history *h, uint32_t table, int64_t time_us,
                       uint64_t at)
{
    const struct event *e = best_head(h, table, time_us, at, later);
    struct truth t = by_rules(h, table, e, at);
    struct found f;

    check_search(g, generation_search_as_of(g, table, time_us, at, &f), &f, e);
    check_answer(g, generation_as_of(g, table, time_us, at, &f), &f, &t);
}

static void check_heads(const struct generation *g, const struct history *h, uint32_t table, uint64_t at)
{
    const struct event *e = best_head(h, table, INT64_MAX, at, newer);
    struct truth t = by_rules(h, table, e, at);
    struct found f;

    const struct event *last = best_head(h, table, INT64_MAX, SEQ_MAX, newer);
    if (e && e->kind == EVENT_COMPACT && last->seq > at && t.status != SKADE_ENOTABLE)
        t = (struct truth){ -EAGAIN, e, 0 }; /* what it carried over, the daemon knows */
    check_search(g, generation_search_head(g, table, at, &f), &f, e);
    check_answer(g, generation_head(g, table, at, &f), &f, &t);
    e = best_head(h, table, INT64_MAX, at, earlier);
    t = by_rules(h, table, e, at);
    check_search(g, generation_search_earliest(g, table, at, &f), &f, e);
    check_answer(g, generation_earliest(g, table, at, &f), &f, &t);
    if (at == SEQ_MAX)
        return;
    check_search(g, generation_before(g, table, at, &f), &f, neighbour(h, table, at, -1));
    check_search(g, generation_after(g, table, at, &f), &f, neighbour(h, table, at, 1));
}

static void check_table(const struct generation *g, const struct history *h, uint32_t table, uint64_t at)
{
    check_heads(g, h, table, at);
    for (int64_t id = -22; id <= 21; id++)
        check_id(g, h, table, id, at);
    check_id(g, h, table, INT64_MIN, at);
    check_id(g, h, table, INT64_MAX, at);
    for (int64_t t = 0; t <= 5; t++)
        check_time(g, h, table, 1000 * (int64_t)h->count * t / 4 - t % 2, at);
    check_time(g, h, table, INT64_MIN, at);
    check_time(g, h, table, INT64_MAX, at);
}

/* Just before and just after each event that changes the rules, also those that no part covers. */
static void check_turns(const struct generation *g, const struct history *h)
{
    for (size_t i = 1; i <= h->count; i++) {
        const struct event *e = &h->events[i];
        if (e->kind == EVENT_COMMIT)
            continue;
        check_table(g, h, e->table, e->seq - 1);
        check_table(g, h, e->table, e->seq);
    }
}

static void check_moments(size_t parts, size_t events, uint64_t covered, uint64_t seed)
{
    struct history *h = make_history(events, 7, covered, seed);
    struct files *f = put_files(h, parts, seed);
    struct generation *g = open_old(100, NULL);

    ck_assert_uint_eq(g->parts_count, parts);
    ck_assert_uint_eq(g->covered, parts ? covered : 0);
    ck_assert_uint_eq(g->names_seq, h->count);
    if (!parts)
        h->covered = 0;
    for (uint64_t at = 0; at <= h->count + 1; at += 1 + h->count / 50)
        for (uint32_t table = 0; table <= h->tables + 1; table++)
            check_table(g, h, table, at);
    for (uint32_t table = 0; table <= h->tables + 1; table++)
        check_table(g, h, table, SEQ_MAX);
    check_turns(g, h);
    generation_unref(g);
    free(f);
    free(h);
}

START_TEST(answers_are_those_of_the_log)
{
    check_moments(0, 50, 50, 1);
    check_moments(1, 1, 1, 2);
    check_moments(1, 60, 60, 3);
    check_moments(1, 400, 300, 4);
    check_moments(2, 60, 59, 5);
    check_moments(3, 700, 700, 6);
    check_moments(9, 700, 640, 7);
    check_moments(GENERATION_PARTS_MAX, 700, 690, 8);
    ck_assert(seen.found > 1000 && seen.no_table > 1000 && seen.no_snapshot > 1000 && seen.expired > 1000 &&
              seen.again > 1000);
}
END_TEST

/* ---- batches ------------------------------------------------------------------------------------------- */

/* As users of the library have them: with something of their own behind each. */
struct asked {
    struct part_query query;
    uint64_t theirs;
};

struct batch {
    size_t n;
    struct asked *queries;
    uint32_t *list;
    char (*buffers)[64];
};

static struct batch make_batch(const struct history *h, size_t n, uint64_t *state)
{
    struct batch b = { .n = n };

    b.queries = calloc(n + 1, sizeof *b.queries);
    b.list = calloc(n + 1, sizeof *b.list);
    b.buffers = calloc(n + 1, sizeof *b.buffers);
    for (size_t i = 0; i < n; i++) {
        struct part_query *q = &b.queries[i].query;
        q->table = (uint32_t)random_below(state, h->tables + 2);
        q->id = (int64_t)random_below(state, 42) - 21;
        q->location = b.buffers[i];
        q->location_cap = random_below(state, 8) ? sizeof b.buffers[0] : 10;
        q->status = 77;
        b.queries[i].theirs = i;
    }
    return b;
}

static void free_batch(struct batch *b)
{
    free(b->queries);
    free(b->list);
    free(b->buffers);
}

/* Ask all but every seventh. */
static size_t list_asked(struct batch *b)
{
    size_t count = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        if (i % 7)
            b->list[count++] = i;
    }
    return count;
}

static bool is_listed(const struct batch *b, size_t listed, size_t number)
{
    size_t count = 0;
    for (size_t i = 0; i < listed; i++)
        count += b->list[i] == number;
    ALWAYS(count < 2);
    return count == 1;
}

static void check_batch(const struct generation *g, const struct history *h, size_t n, uint64_t at,
                        uint64_t *state)
{
    struct batch b = make_batch(h, n, state);
    size_t asked = list_asked(&b);
    size_t absent = generation_resolve_many(g, b.queries, sizeof *b.queries, b.list, asked, at);

    ALWAYS(absent <= asked);
    for (size_t i = 0; i < n; i++) {
        const struct part_query *q = &b.queries[i].query;
        struct truth t = by_rules(h, q->table, first_of(h, q->table, q->id, at), at);
        ALWAYS(b.queries[i].theirs == i);
        if (i % 7)
            check_whole(q, &t);
        else
            ALWAYS(q->status == 77 && q->seq == 0);
        ALWAYS(is_listed(&b, absent, i) == (i % 7 && t.status != 1 && t.status != SKADE_EEXPIRED));
    }
    free_batch(&b);
}

START_TEST(a_batch_gives_the_same_answers)
{
    static const size_t sizes[] = { 0, 1, 2, 4, 5, 63, 64, 65, 255, 256, 297 };
    struct history *h = make_history(500, 6, 450, 11);
    struct files *f = put_files(h, 5, 3);
    struct generation *g = open_old(100, NULL);
    uint64_t state = 5;

    for (size_t i = 0; i < ARRAY_SIZE(sizes) * 12; i++)
        check_batch(g, h, sizes[i / 12], i % 3 == 0 ? SEQ_MAX : random_below(&state, h->count + 2), &state);
    generation_unref(g);
    free(f);
    free(h);
}
END_TEST

/* ---- maps ---------------------------------------------------------------------------------------------- */

/* How many maps of files in this place there are. */
static unsigned count_maps(void)
{
    char line[1024];
    unsigned n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, f))
        n += strstr(line, place.dir) != NULL;
    fclose(f);
    return n;
}

START_TEST(the_next_generation_shares_the_parts_that_stay)
{
    struct history *h = make_history(300, 4, 250, 2);
    struct files *f = put_files(h, 3, 1);
    struct generation *old = open_old(100, NULL);

    put_part(f, h, 250, 300);
    note_tables(f, h);
    put_root(f, h, 101);
    ck_assert_uint_eq(count_maps(), 4);
    struct generation *g = open_old(101, old);
    ck_assert_uint_eq(g->parts_count, 4);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_ptr_eq(g->parts[i], old->parts[i]);
        ck_assert_uint_eq(g->parts[i]->refs, 2);
    }
    ck_assert_uint_eq(count_maps(), 6); /* one more root, one more part */
    ck_assert_ptr_eq(generation_ref(g), g);
    generation_unref(old);
    generation_unref(g);
    h->covered = 300;
    check_table(g, h, 1, SEQ_MAX);
    ck_assert_uint_eq(count_maps(), 5);
    generation_unref(g);
    ck_assert_uint_eq(count_maps(), 0);
    generation_unref(NULL);
    part_map_unref(NULL);
    free(f);
    free(h);
}
END_TEST

START_TEST(parts_of_another_epoch_or_content_are_not_shared)
{
    struct history *h = make_history(100, 4, 100, 2);
    struct files *f = put_files(h, 1, 1);
    struct generation *old = open_old(100, NULL);

    old->epoch++;
    struct generation *g = open_old(100, old);
    ck_assert_ptr_ne(g->parts[0], old->parts[0]);
    generation_unref(g);
    old->epoch--;
    old->parts[0]->header_check++;
    g = open_old(100, old);
    ck_assert_ptr_ne(g->parts[0], old->parts[0]);
    generation_unref(g);
    generation_unref(old);
    ck_assert_uint_eq(count_maps(), 0);
    free(f);
    free(h);
}
END_TEST

START_TEST(a_missing_name_is_enoent_and_leaves_nothing)
{
    struct history *h = make_history(100, 4, 100, 2);
    struct files *f = put_files(h, 3, 1);

    for (uint64_t part = 1; part <= 3; part++) {
        char path[512], away[520];
        snprintf(path, sizeof path, "%s", path_of(SHM_PART, part));
        snprintf(away, sizeof away, "%s.away", path);
        ck_assert_int_eq(rename(path, away), 0);
        ck_assert_int_eq(try_open(UINT64_MAX), -ENOENT);
        ck_assert_uint_eq(count_maps(), 0);
        ck_assert_int_eq(rename(away, path), 0);
    }
    ck_assert_int_eq(try_open(UINT64_MAX), 0);
    unlink(path_of(SHM_ROOT, 100));
    ck_assert_int_eq(try_open(UINT64_MAX), -ENOENT);
    free(f);
    free(h);
}
END_TEST

START_TEST(a_map_that_is_refused_leaves_nothing)
{
    struct history *h = make_history(200, 4, 200, 2);
    struct files *f = put_files(h, 2, 1);
    struct stat st;

    ck_assert_int_eq(stat(path_of(SHM_PART, 2), &st), 0);
    if (!deny_syscall(SYS_mmap, 1, UINT32_MAX, (uint32_t)st.st_size, ENOMEM)) { /* by its length */
        printf("skipped: no seccomp here\n");
        return;
    }
    ck_assert_int_eq(try_open(UINT64_MAX), -ENOMEM);
    ck_assert_uint_eq(count_maps(), 0);
    free(f);
    free(h);
}
END_TEST

/* ---- files that don't fit together --------------------------------------------------------------------- */

START_TEST(a_part_that_the_root_doesnt_mean_is_refused)
{
    struct history *h = make_history(110, 4, 100, 2);
    struct files *f = put_files(h, 2, 1);
    const struct root_part good = f->parts[1];
    struct root_part bad[] = { good, good, good, good, good };

    bad[0].header_check ^= 1;
    bad[1].size += 64;
    bad[2].rows++;
    bad[3].to_seq--;
    bad[4].to_seq++;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        f->parts[1] = bad[i];
        put_root(f, h, 100);
        ck_assert_msg(try_open(UINT64_MAX) == SKADE_EDAMAGED, "%zu", i);
        ck_assert_ptr_nonnull(strstr(msg.text, ".part"));
        ck_assert_int_eq(try_open(0), SKADE_EDAMAGED);
    }
    f->parts[1] = good;
    put_root(f, h, 100);
    ck_assert_int_eq(try_open(UINT64_MAX), 0);

    char path[512]; /* a part of another generation, under the name of this one */
    snprintf(path, sizeof path, "%s", path_of(SHM_PART, 2));
    ck_assert_int_eq(rename(path, path_of(SHM_PART, 3)), 0);
    f->parts[1].generation = 3;
    put_root(f, h, 100);
    ck_assert_int_eq(try_open(UINT64_MAX), SKADE_EDAMAGED);
    free(f);
    free(h);
}
END_TEST

START_TEST(files_of_another_log_epoch_or_generation_are_refused)
{
    struct history *h = make_history(100, 4, 100, 2);
    struct files *f = put_files(h, 1, 1);
    struct generation *g = NULL;
    struct uuid other = log_uuid;
    char path[512], name[SHM_NAME_MAX];

    other.b[15] = 1;
    ck_assert_int_eq(generation_open(&g, &place, EPOCH, 100, &other, NULL, UINT64_MAX, &msg), SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(msg.text, ".root"));
    snprintf(path, sizeof path, "%s", path_of(SHM_ROOT, 101));
    ck_assert_int_eq(link(path_of(SHM_ROOT, 100), path), 0);
    ck_assert_int_eq(generation_open(&g, &place, EPOCH, 101, &log_uuid, NULL, UINT64_MAX, &msg),
                     SKADE_EDAMAGED);
    snprintf(path, sizeof path, "%s/%s", place.dir, shm_name(name, &place, SHM_ROOT, EPOCH + 1, 100));
    ck_assert_int_eq(link(path_of(SHM_ROOT, 100), path), 0);
    ck_assert_int_eq(generation_open(&g, &place, EPOCH + 1, 100, &log_uuid, NULL, UINT64_MAX, &msg),
                     SKADE_EDAMAGED);
    ck_assert_ptr_null(g);
    ck_assert_uint_eq(count_maps(), 0);
    free(f);
    free(h);
}
END_TEST

START_TEST(more_parts_than_a_generation_has_are_refused)
{
    struct history *h = make_history(200, 4, 100, 2);
    struct files *f = put_files(h, GENERATION_PARTS_MAX, 1);

    ck_assert_int_eq(try_open(UINT64_MAX), 0);
    put_part(f, h, 100, 101);
    put_root(f, h, 100);
    ck_assert_int_eq(try_open(UINT64_MAX), SKADE_EDAMAGED);
    free(f);
    free(h);
}
END_TEST

START_TEST(a_head_that_is_none_is_damage)
{
    struct history *h = make_history(300, 5, 300, 2);
    struct files *f = put_files(h, 2, 1);
    const struct root_table good = f->tables[3], other = f->tables[4];
    struct root_table bad[] = { good, good, good, good, good };
    struct part_hit earlier_head;
    struct found found;
    struct generation *g = open_old(100, NULL);

    ck_assert_uint_gt(good.head_seq, 0);
    ck_assert_int_eq(generation_head(g, 4, SEQ_MAX, &found), 1);
    ck_assert_int_eq(part_head(g->parts[good.head_part]->part, 4, good.head_seq - 1, &earlier_head), 1);
    generation_unref(g);
    bad[0].head_part = 2;
    bad[1].head_part = UINT32_MAX;
    bad[2].head_ref = UINT32_MAX;
    bad[3].head_ref = other.head_ref; /* another table's */
    bad[3].head_part = other.head_part;
    bad[4].head_ref = earlier_head.ref; /* of another time */
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        f->tables[3] = bad[i];
        put_root(f, h, 100);
        g = open_old(100, NULL);
        ck_assert_msg(generation_head(g, 4, SEQ_MAX, &found) == SKADE_EDAMAGED, "%zu", i);
        ck_assert_int_eq(generation_head(g, 5, SEQ_MAX, &found), 1);
        generation_unref(g);
    }
    free(f);
    free(h);
}
END_TEST

/* ---- damage -------------------------------------------------------------------------------------------- */

struct file {
    size_t size;
    uint8_t *bytes;
};

static struct file get(enum shm_kind kind, uint64_t generation)
{
    struct stat st;
    ck_assert_int_eq(stat(path_of(kind, generation), &st), 0);
    struct file f = { (size_t)st.st_size, malloc((size_t)st.st_size) };
    int fd = open(path_of(kind, generation), O_RDONLY);
    ck_assert_int_eq(read(fd, f.bytes, f.size), (ssize_t)f.size);
    close(fd);
    return f;
}

static bool is_answer(int r)
{
    return r == 1 || r == 0 || r == SKADE_ENOTABLE || r == SKADE_ENOSNAPSHOT || r == SKADE_EEXPIRED ||
           r == -EAGAIN || r == SKADE_EDAMAGED;
}

static void ask_everything(const struct generation *g)
{
    char buf[LOCATION_MAX];
    struct found f;

    for (uint32_t table = 0; table < 6; table++) {
        for (int64_t id = -20; id < 20; id++) {
            int r = generation_find(g, table, id, SEQ_MAX, &f);
            ALWAYS(is_answer(r));
            if (r == 1)
                generation_location(g, &f, buf, sizeof buf, NULL);
        }
        for (uint64_t at = 0; at < 120; at += 40) {
            ALWAYS(is_answer(generation_head(g, table, at, &f)));
            ALWAYS(is_answer(generation_as_of(g, table, (int64_t)at * 1000, SEQ_MAX - at, &f)));
            ALWAYS(is_answer(generation_earliest(g, table, at, &f)));
            ALWAYS(is_answer(generation_before(g, table, at, &f)));
            ALWAYS(is_answer(generation_after(g, table, at, &f)));
        }
    }
}

START_TEST(every_damaged_byte_is_refused_when_verified_and_harmless_otherwise)
{
    struct history *h = make_history(100, 4, 90, 2);
    struct files *f = put_files(h, 2, 1);
    const struct {
        enum shm_kind kind;
        uint64_t generation;
    } files[] = { { SHM_ROOT, 100 }, { SHM_PART, 1 }, { SHM_PART, 2 } };

    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        struct file file = get(files[i].kind, files[i].generation);
        for (size_t at = 0; at < file.size; at += 1 + at / 64 % 5) {
            struct generation *g = NULL;
            file.bytes[at] ^= (uint8_t)(1u << at % 8);
            put(files[i].kind, files[i].generation, file.bytes, file.size);
            ALWAYS(try_open(UINT64_MAX) == (at / 4 == 2 ? SKADE_EVERSION : SKADE_EDAMAGED));
            if (generation_open(&g, &place, EPOCH, 100, &log_uuid, NULL, 0, &msg) == 0)
                ask_everything(g);
            generation_unref(g);
            file.bytes[at] ^= (uint8_t)(1u << at % 8);
        }
        put(files[i].kind, files[i].generation, file.bytes, file.size);
        free(file.bytes);
    }
    ck_assert_int_eq(try_open(UINT64_MAX), 0);
    free(f);
    free(h);
}
END_TEST

START_TEST(truncated_zeroed_and_longer_files_are_refused)
{
    struct history *h = make_history(100, 4, 90, 2);
    struct files *f = put_files(h, 1, 1);
    struct file file = get(SHM_PART, 1);
    uint8_t *changed = calloc(1, file.size + 4096);

    for (size_t size = 0; size < file.size; size += size < 700 ? 7 : 509) {
        put(SHM_PART, 1, file.bytes, size);
        ck_assert_int_eq(try_open(UINT64_MAX), SKADE_EDAMAGED);
    }
    put(SHM_PART, 1, changed, file.size); /* zeros, as a grown or punched file has */
    ck_assert_int_eq(try_open(0), SKADE_EDAMAGED);
    memcpy(changed, file.bytes, file.size);
    put(SHM_PART, 1, changed, file.size + 4096);
    ck_assert_int_eq(try_open(UINT64_MAX), SKADE_EDAMAGED);
    memset(changed + file.size / 2, 0, file.size - file.size / 2); /* a page of zeros in the content */
    put(SHM_PART, 1, changed, file.size);
    ck_assert_int_eq(try_open(UINT64_MAX), SKADE_EDAMAGED);
    free(changed);
    free(file.bytes);
    free(f);
    free(h);
}
END_TEST

/* ---- the fast path ------------------------------------------------------------------------------------- */

/* In strict seccomp any system call but read, write and exit is death. */
static int find_strictly(const struct generation *g)
{
    struct found f;
    char buf[256];
    long found = 0;

    size_t before = mallinfo2().uordblks;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) < 0)
        return 77;
    for (int i = 0; i < 2000; i++) {
        generation_find(g, 1 + (uint32_t)i % 4, i % 40 - 20, SEQ_MAX, &f);
        if (generation_head(g, 4, SEQ_MAX, &f) == 1)
            found += generation_location(g, &f, buf, sizeof buf, NULL);
        generation_as_of(g, 1, i * 100, SEQ_MAX, &f);
    }
    if (found == 0)
        return 1;
    return mallinfo2().uordblks == before ? 0 : 2;
}

START_TEST(questions_make_no_system_call_and_keep_no_memory)
{
    struct history *h = make_history(300, 4, 300, 2);
    struct files *f = put_files(h, 3, 1);
    struct generation *g = open_old(100, NULL);
    int status;

    pid_t pid = fork();
    if (pid == 0)
        syscall(SYS_exit, find_strictly(g));
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        printf("skipped: no seccomp here\n");
    else
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x", (unsigned)status);
    generation_unref(g);
    free(f);
    free(h);
}
END_TEST

Suite *generation_suite(void);
Suite *generation_suite(void)
{
    Suite *s = suite_create("generation");
    TCase *t = tcase_create("generation");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, answers_are_those_of_the_log);
    tcase_add_test(t, a_batch_gives_the_same_answers);
    tcase_add_test(t, the_next_generation_shares_the_parts_that_stay);
    tcase_add_test(t, parts_of_another_epoch_or_content_are_not_shared);
    tcase_add_test(t, a_missing_name_is_enoent_and_leaves_nothing);
    tcase_add_test(t, a_map_that_is_refused_leaves_nothing);
    tcase_add_test(t, a_part_that_the_root_doesnt_mean_is_refused);
    tcase_add_test(t, files_of_another_log_epoch_or_generation_are_refused);
    tcase_add_test(t, more_parts_than_a_generation_has_are_refused);
    tcase_add_test(t, a_head_that_is_none_is_damage);
    tcase_add_test(t, every_damaged_byte_is_refused_when_verified_and_harmless_otherwise);
    tcase_add_test(t, truncated_zeroed_and_longer_files_are_refused);
    if (!HAS_TSAN) /* which makes system calls of its own */
        tcase_add_test(t, questions_make_no_system_call_and_keep_no_memory);
    suite_add_tcase(s, t);
    return s;
}
