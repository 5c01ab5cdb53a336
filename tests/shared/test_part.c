/*
 * Parts against a model that looks through the list of events, for every instruction set; and parts that are damaged.
 */
#include "part_plan.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* ck_assert() notes every call in a file; this one is for loops of millions. */
#define ALWAYS(condition) ((condition) ? (void)0 : ck_abort_msg("%s", #condition))

static uint64_t state = 1;

static uint64_t next_random(void)
{
    state += 0x9e3779b97f4a7c15ull;
    return mix64(state);
}

static uint64_t below(uint64_t n)
{
    return next_random() % n;
}

/* ---- a world: commits, and what is asked about them ------------------------------------------------------ */

struct world {
    struct part_info info;
    struct event *events;
    const struct event **list;
    size_t n;
    size_t capacity;
};

static struct world world_new(size_t capacity)
{
    struct world w = { .info = { .seed = next_random(), .epoch = 7, .generation = 3 }, .capacity = capacity };
    w.events = calloc(capacity + 1, sizeof *w.events);
    w.list = calloc(capacity + 1, sizeof *w.list);
    w.info.log.b[0] = 42;
    w.info.from_seq = w.info.to_seq = 1000;
    return w;
}

static void world_free(struct world *w)
{
    for (size_t i = 0; i < w->n; i++)
        free((char *)w->events[i].text.data);
    free(w->events);
    free(w->list);
}

/* Append a commit of one of the next sequence numbers. */
static struct event *add(struct world *w, uint32_t table, int64_t id, int64_t time_us, uint32_t flags,
                         const char *text, size_t len)
{
    ck_assert(w->n < w->capacity);
    struct event *e = &w->events[w->n];
    char *copy = malloc(len + 1);
    memcpy(copy, text, len);
    w->info.to_seq += 1 + below(3);
    *e = (struct event){ .seq = w->info.to_seq,
                         .kind = EVENT_COMMIT,
                         .flags = flags,
                         .table = table,
                         .snapshot = id,
                         .time_us = time_us,
                         .text = { copy, len } };
    w->list[w->n++] = e;
    return e;
}

#define PLAIN_COMMIT (EVENT_INTRODUCES | EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT)

static void random_uuid(char ret[37])
{
    uint64_t a = next_random();
    uint64_t b = next_random();
    snprintf(ret, 37, "%08x-%04x-%04x-%04x-%012llx", (unsigned)(a >> 32), (unsigned)(a >> 16) & 0xffff,
             (unsigned)a & 0xffff, (unsigned)(b >> 48), (unsigned long long)b & 0xffffffffffff);
}

/* What a catalog would call the commit. */
static void add_templated(struct world *w, uint32_t table, int64_t id, int64_t time_us, uint32_t flags)
{
    char uuid[37];
    char text[200];
    random_uuid(uuid);
    int len = snprintf(text, sizeof text, "s3://lake/warehouse/sales/t%u/metadata/%05u-%s.metadata.json",
                       table, (unsigned)w->n, uuid);
    add(w, table, id, time_us, flags, text, (size_t)len);
}

static void add_hadoop(struct world *w, uint32_t table, int64_t id, int64_t time_us, uint32_t flags)
{
    char text[200];
    int len = snprintf(text, sizeof text, "hdfs://n/t%u/metadata/v%u.metadata.json", table, (unsigned)w->n);
    add(w, table, id, time_us, flags, text, (size_t)len);
}

static void add_odd(struct world *w, uint32_t table, int64_t id, int64_t time_us, uint32_t flags)
{
    char text[LOCATION_MAX];
    size_t len = below(4) ? below(100) : below(2) ? LOCATION_MAX : LOCATION_MAX - below(100);
    for (size_t i = 0; i < len; i++)
        text[i] = (char)next_random();
    add(w, table, id, time_us, flags, text, len);
}

/* N commits of all kinds in TABLES tables: repeated ids, missing ids, staged commits, times that go back. */
static struct world random_world(size_t n, uint32_t tables, uint64_t ids)
{
    struct world w = world_new(n);
    int64_t time_us = 1700000000000000;
    for (size_t i = 0; i < n; i++) {
        uint32_t table = 1 + (uint32_t)below(tables);
        int64_t id = ids ? (int64_t)below(ids) - (int64_t)ids / 2 : (int64_t)next_random();
        uint32_t flags = below(4) ? PLAIN_COMMIT : (uint32_t)below(8);
        time_us += (int64_t)below(2000000) - (below(10) ? 0 : 3000000);
        int64_t time = below(50)  ? time_us
                       : below(2) ? (int64_t)next_random()
                       : below(2) ? INT64_MIN
                                  : INT64_MAX;
        uint64_t look = below(20);
        if (look == 0)
            add_odd(&w, table, id, time, flags);
        else if (look < 4)
            add_hadoop(&w, table, id, time, flags);
        else
            add_templated(&w, table, id, time, flags);
        w.events[i].kind = below(20) ? EVENT_COMMIT : EVENT_COMPACT;
    }
    w.info.to_seq += below(3);
    return w;
}

/* ---- the model ------------------------------------------------------------------------------------------- */

static const struct event *model_find(const struct world *w, uint32_t table, int64_t id)
{
    const uint32_t both = EVENT_INTRODUCES | EVENT_HAS_SNAPSHOT;
    for (size_t i = 0; i < w->n; i++) {
        const struct event *e = &w->events[i];
        if (e->snapshot == id && e->table == table && (e->flags & both) == both)
            return e;
    }
    return NULL;
}

static bool counts(const struct event *e, uint32_t table, uint64_t max_seq)
{
    return e->table == table && e->flags & EVENT_MOVES_HEAD && e->seq <= max_seq;
}

static const struct event *model_head(const struct world *w, uint32_t table, uint64_t max_seq)
{
    const struct event *best = NULL;
    for (size_t i = 0; i < w->n; i++)
        best = counts(&w->events[i], table, max_seq) ? &w->events[i] : best;
    return best;
}

static const struct event *model_as_of(const struct world *w, uint32_t table, int64_t t_us, uint64_t max_seq)
{
    const struct event *best = NULL;
    for (size_t i = 0; i < w->n; i++) {
        const struct event *e = &w->events[i];
        if (counts(e, table, max_seq) && e->time_us <= t_us && (!best || e->time_us >= best->time_us))
            best = e;
    }
    return best;
}

static const struct event *model_earliest(const struct world *w, uint32_t table, uint64_t max_seq)
{
    const struct event *best = NULL;
    for (size_t i = 0; i < w->n; i++) {
        const struct event *e = &w->events[i];
        if (counts(e, table, max_seq) && (!best || e->time_us < best->time_us))
            best = e;
    }
    return best;
}

static const struct event *model_before(const struct world *w, uint32_t table, uint64_t before)
{
    const struct event *best = NULL;
    for (size_t i = 0; i < w->n; i++)
        best = w->events[i].table == table && w->events[i].seq < before ? &w->events[i] : best;
    return best;
}

static const struct event *model_after(const struct world *w, uint32_t table, uint64_t after)
{
    for (size_t i = 0; i < w->n; i++) {
        if (w->events[i].table == table && w->events[i].seq > after)
            return &w->events[i];
    }
    return NULL;
}

/* ---- building -------------------------------------------------------------------------------------------- */

struct built {
    void *mem;
    size_t size;
    struct part *part;
};

/* Takes the plan over.  The memory is dirty before, and has nothing behind it. */
static struct built fill(struct part_plan *plan)
{
    struct built b = { .size = part_plan_size(plan) };
    struct errmsg msg = { "" };
    ck_assert_int_eq(posix_memalign(&b.mem, CACHE_LINE, b.size), 0);
    memset(b.mem, 0xa5, b.size);
    ck_assert_int_eq(part_plan_fill(plan, b.mem, b.size), 0);
    part_plan_free(plan);
    ck_assert_msg(part_open(&b.part, b.mem, b.size, PART_VERIFY, &msg) == 0, "%s", msg.text);
    return b;
}

/* The rows [FROM, TO) of W, as a part over (FROM_SEQ, TO_SEQ]. */
static struct built build_slice(const struct world *w, size_t from, size_t to, uint64_t from_seq,
                                uint64_t to_seq)
{
    struct part_plan *plan;
    struct part_info info = w->info;
    info.from_seq = from_seq;
    info.to_seq = to_seq;
    ck_assert_int_eq(part_plan_rows(&plan, &info, w->list + from, to - from), 0);
    return fill(plan);
}

static struct built build(const struct world *w)
{
    return build_slice(w, 0, w->n, w->info.from_seq, w->info.to_seq);
}

static void built_free(struct built *b)
{
    part_close(b->part);
    free(b->mem);
}

/* ---- comparing ------------------------------------------------------------------------------------------- */

static void check_hit(const struct event *e, int r, const struct part_hit *hit)
{
    ALWAYS(r == (e ? 1 : 0));
    if (e)
        ALWAYS(hit->seq == e->seq && hit->table == e->table && hit->kind == e->kind &&
               hit->flags == (e->flags & 7) && hit->snapshot == e->snapshot && hit->time_us == e->time_us);
}

/* The location is written to the byte, and only if there is room. */
static void check_location(const struct part *p, uint32_t ref, const struct event *e)
{
    static char buf[LOCATION_MAX + 64];
    size_t len = e->text.len;
    size_t need = 12345;
    memset(buf, '~', len + 64);
    ALWAYS(part_location(p, ref, buf, len, &need) == (int)len);
    ALWAYS(need == len && memcmp(buf, e->text.data, len) == 0);
    for (size_t i = len; i < len + 64; i++)
        ALWAYS(buf[i] == '~');
    if (len > 0) {
        buf[0] = '~';
        ALWAYS(part_location(p, ref, buf, len - 1, &need) == -ERANGE && need == len && buf[0] == '~');
    }
    ALWAYS(part_location(p, ref, buf, sizeof buf, NULL) == (int)len);
}

static void check_found(const struct part *p, const struct event *e, int r, const struct part_hit *hit)
{
    struct part_hit again;
    check_hit(e, r, hit);
    if (!e)
        return;
    check_location(p, hit->ref, e);
    check_hit(e, part_record(p, hit->ref, &again), &again);
    ALWAYS(again.ref == hit->ref);
}

/* ---- whole answers --------------------------------------------------------------------------------------- */

#define UNTOUCHED 4711u
#define BEHIND 64 /* bytes that are watched behind a buffer */

static struct part_query query_of(uint32_t table, int64_t id, char *text, size_t cap)
{
    return (struct part_query){ .size = UNTOUCHED,
                                .location_cap = (uint32_t)cap,
                                .location = text,
                                .table = table,
                                .status = 1234,
                                .id = id,
                                .seq = UNTOUCHED,
                                .retired_by = UNTOUCHED,
                                .location_len = UNTOUCHED,
                                .flags = UNTOUCHED };
}

static bool is_filled(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] != '~')
            return false;
    }
    return true;
}

/* Q, which had the rest of query_of(), was answered by commit E (NULL: not at all), and nothing else was written.  There
 * are ROOM bytes at its location, which were filled with '~'. */
static void check_whole(const struct part_query *q, const struct event *e, size_t room)
{
    ALWAYS(q->size == UNTOUCHED);
    if (!e) {
        ALWAYS(q->seq == UNTOUCHED && q->retired_by == UNTOUCHED && q->location_len == UNTOUCHED &&
               q->flags == UNTOUCHED && is_filled(q->location, room));
        return;
    }
    bool fits = e->text.len < q->location_cap;
    unsigned snapshot = e->flags & EVENT_HAS_SNAPSHOT ? PART_WITH_SNAPSHOT : 0;
    ALWAYS(q->status == (fits ? 1 : -ERANGE) && q->seq == e->seq && q->time_us == e->time_us &&
           q->retired_by == 0 && q->location_len == e->text.len && q->flags == (PART_FROM_MAP | snapshot));
    size_t written = fits ? e->text.len + 1 : q->location_cap > 0;
    if (fits)
        ALWAYS(memcmp(q->location, e->text.len ? e->text.data : "", e->text.len) == 0);
    if (written)
        ALWAYS(q->location[written - 1] == 0);
    ALWAYS(is_filled(q->location + written, room - written));
}

static void check_resolve_into(const struct part *p, const struct event *e, uint32_t table, int64_t id,
                               size_t cap)
{
    static char text[LOCATION_MAX + 2 * BEHIND];
    for (int by_tree = 0; by_tree < 2; by_tree++) {
        memset(text, '~', cap + BEHIND);
        struct part_query q = query_of(table, id, text, cap);
        int r = by_tree ? part_resolve_by_tree(p, NULL, table, id, &q) : part_resolve(p, NULL, table, id, &q);
        ALWAYS(r == (e ? q.status : 0));
        check_whole(&q, e, cap + BEHIND);
    }
}

/* The same answers, whatever room there is. */
static void check_resolve(const struct part *p, const struct event *e, uint32_t table, int64_t id)
{
    check_resolve_into(p, e, table, id, 0);
    check_resolve_into(p, e, table, id, 1);
    if (!e)
        return;
    check_resolve_into(p, e, table, id, e->text.len);
    check_resolve_into(p, e, table, id, e->text.len + 1);
    check_resolve_into(p, e, table, id, e->text.len + 60);
}

static void check_find(const struct part *p, const struct world *w, uint32_t table, int64_t id)
{
    struct part_hit hit;
    const struct event *e = model_find(w, table, id);
    int r = part_find(p, table, id, &hit);
    check_found(p, e, r, &hit);
    check_resolve(p, e, table, id);
    r = part_find_by_tree(p, table, id, &hit);
    check_found(p, e, r, &hit);
}

/* ---- batches --------------------------------------------------------------------------------------------- */

#define BATCH_TEXT 256

struct batch {
    struct part_query *queries;
    const struct event **expected;
    char *texts;
    uint32_t *list, *odd;
    size_t n;
};

static struct batch batch_new(size_t n)
{
    struct batch b = { .n = n };
    b.queries = calloc(n + 1, sizeof *b.queries);
    b.expected = calloc(n + 1, sizeof *b.expected);
    b.list = calloc(n + 1, sizeof *b.list);
    b.odd = calloc(n + 1, sizeof *b.odd);
    b.texts = malloc(n * BATCH_TEXT + 1);
    memset(b.texts, '~', n * BATCH_TEXT + 1);
    return b;
}

static void batch_free(struct batch *b)
{
    free(b->queries);
    free(b->expected);
    free(b->list);
    free(b->odd);
    free(b->texts);
}

/* Query I asks for an id of the world, a neighbour of one, or of another table. */
static void ask_something(struct batch *b, size_t i, const struct world *w)
{
    const struct event *e = w->n ? &w->events[below(w->n)] : &(struct event){ .table = 3 };
    uint32_t table = below(5) ? e->table : (uint32_t)below(50);
    int64_t id = below(3)            ? e->snapshot
                 : (int64_t)below(2) ? (int64_t)next_random()
                                     : (int64_t)((uint64_t)e->snapshot + 1);
    b->queries[i] = query_of(table, id, b->texts + i * BATCH_TEXT, below(20) ? BATCH_TEXT : below(100));
    b->expected[i] = model_find(w, table, id);
}

/* Put most of the numbers into the list, in some order; the others aren't asked. */
static size_t list_most(struct batch *b)
{
    size_t count = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        if (!below(10)) {
            b->expected[i] = NULL;
            continue;
        }
        size_t at = below(++count);
        b->list[count - 1] = b->list[at];
        b->list[at] = i;
    }
    return count;
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Is the list, of ABSENT numbers, what was asked (ASKED, sorted) and isn't expected? */
static void check_list(const struct batch *b, size_t absent, const uint32_t *asked, size_t n)
{
    size_t at = 0;
    qsort(b->list, absent, sizeof *b->list, compare_numbers);
    for (size_t i = 0; i < n; i++) {
        if (!b->expected[asked[i]])
            ALWAYS(at < absent && b->list[at++] == asked[i]);
    }
    ALWAYS(at == absent);
}

static void check_batch_by(const struct part *p, const struct world *w, size_t n, bool by_tree)
{
    struct batch b = batch_new(n);
    for (size_t i = 0; i < n; i++)
        ask_something(&b, i, w);
    size_t listed = list_most(&b);
    uint32_t *asked = calloc(n + 1, sizeof *asked);
    memcpy(asked, b.list, listed * sizeof *asked);
    qsort(asked, listed, sizeof *asked, compare_numbers);
    struct part_many m = { .first = b.queries, .stride = sizeof *b.queries, .odd = b.odd };
    size_t absent =
        by_tree ? part_resolve_many_by_tree(p, &m, b.list, listed) : part_resolve_many(p, &m, b.list, listed);
    ALWAYS(m.odd_count == 0);
    check_list(&b, absent, asked, listed);
    for (size_t i = 0; i < n; i++)
        check_whole(&b.queries[i], b.expected[i], BATCH_TEXT);
    free(asked);
    batch_free(&b);
}

/* A ref is that of the first row in the blocks with the key, whatever its table. */
static void check_keys(const struct part *p, const struct world *w, size_t n)
{
    int64_t *keys = calloc(n + 1, sizeof *keys);
    uint32_t *refs = calloc(n + 1, sizeof *refs);
    for (size_t i = 0; i < n; i++) {
        const struct event *e = w->n ? &w->events[below(w->n)] : &(struct event){ .table = 3 };
        keys[i] = (int64_t)((uint64_t)key_of(e->table, e->snapshot, w->info.seed) + below(2));
    }
    refs[n] = 4711;
    part_find_keys_by_tree(p, keys, refs, n);
    for (size_t i = 0; i < n; i++) {
        uint32_t expected = PART_NO_REF;
        for (uint64_t slot = p->header.blocks.count * PART_SLOTS; slot-- > 0;) {
            const struct part_block *block = &p->blocks[slot / PART_SLOTS];
            if (block->marks & 1u << slot % PART_SLOTS && block->key[slot % PART_SLOTS] == keys[i])
                expected = (uint32_t)slot;
        }
        ALWAYS(refs[i] == expected);
    }
    ALWAYS(refs[n] == 4711);
    free(keys);
    free(refs);
}

static void check_batch(const struct part *p, const struct world *w, size_t n)
{
    check_keys(p, w, n < 100 ? n : 100);
    check_batch_by(p, w, n, false);
    check_batch_by(p, w, n, true);
}

/* ---- everything that can be asked ------------------------------------------------------------------------ */

static void check_by_id(const struct part *p, const struct world *w, size_t step)
{
    for (size_t i = 0; i < w->n; i += step) {
        const struct event *e = &w->events[i];
        check_find(p, w, e->table, e->snapshot);
        check_find(p, w, e->table + 1, e->snapshot);
        check_find(p, w, e->table, (int64_t)((uint64_t)e->snapshot + 1));
    }
    check_find(p, w, 0, 0);
    check_find(p, w, UINT32_MAX, INT64_MAX);
    check_find(p, w, 1, INT64_MIN);
}

static void check_heads(const struct part *p, const struct world *w, uint32_t table, uint64_t max_seq)
{
    struct part_hit hit;
    int r = part_head(p, table, max_seq, &hit);
    check_hit(model_head(w, table, max_seq), r, &hit);
    r = part_earliest(p, table, max_seq, &hit);
    check_found(p, model_earliest(w, table, max_seq), r, &hit);
    r = part_as_of(p, table, INT64_MAX, max_seq, &hit);
    check_hit(model_as_of(w, table, INT64_MAX, max_seq), r, &hit);
    r = part_as_of(p, table, INT64_MIN, max_seq, &hit);
    check_hit(model_as_of(w, table, INT64_MIN, max_seq), r, &hit);
}

static void check_as_of(const struct part *p, const struct world *w, uint32_t table, int64_t t_us,
                        uint64_t max_seq)
{
    struct part_hit hit;
    int r = part_as_of(p, table, t_us, max_seq, &hit);
    check_found(p, model_as_of(w, table, t_us, max_seq), r, &hit);
}

static void check_history(const struct part *p, const struct world *w, uint32_t table, uint64_t seq)
{
    struct part_hit hit;
    int r = part_before(p, table, seq, &hit);
    check_found(p, model_before(w, table, seq), r, &hit);
    r = part_after(p, table, seq, &hit);
    check_found(p, model_after(w, table, seq), r, &hit);
}

static void check_by_order(const struct part *p, const struct world *w, size_t step)
{
    static const uint64_t seqs[] = { 0, 1, 999, 1000, 1001, UINT64_MAX - 1, SEQ_MAX };
    for (size_t i = 0; i < w->n; i += step) {
        const struct event *e = &w->events[i];
        uint64_t max_seq = below(2) ? SEQ_MAX : w->events[below(w->n)].seq;
        check_heads(p, w, e->table, e->seq - below(2));
        check_as_of(p, w, e->table, e->time_us, max_seq);
        check_as_of(p, w, e->table, (int64_t)((uint64_t)e->time_us - 1), max_seq);
        check_history(p, w, e->table, e->seq);
    }
    for (size_t i = 0; i < ARRAY_SIZE(seqs); i++) {
        for (uint32_t table = 0; table < 4; table++) {
            check_heads(p, w, table, seqs[i]);
            check_history(p, w, table, seqs[i]);
        }
    }
}

static void check_extras(const struct part *p)
{
    for (uint64_t i = 1; i < p->header.extras.count; i++)
        ALWAYS(p->extras[i - 1].seq < p->extras[i].seq);
}

static void check_world(struct part *p, const struct world *w, size_t step)
{
    ALWAYS(part_rows(p) == w->n);
    check_extras(p);
    for (enum part_isa isa = PART_SCALAR; isa <= PART_AVX512; isa++) {
        if (!part_isa_has(isa))
            continue;
        part_use_isa(p, isa);
        check_by_id(p, w, step);
        for (size_t n = 0; n < 20; n++)
            check_batch(p, w, n);
        check_batch(p, w, 500);
    }
    check_by_order(p, w, step);
}

static void check_and_free(struct world *w, size_t step)
{
    struct built b = build(w);
    check_world(b.part, w, step);
    built_free(&b);
    world_free(w);
}

/* ---- tests: answers -------------------------------------------------------------------------------------- */

START_TEST(an_empty_part_answers_nothing)
{
    struct world w = world_new(1);
    check_and_free(&w, 1);
}
END_TEST

START_TEST(every_small_number_of_rows_is_answered_as_by_the_model)
{
    for (size_t n = 1; n < 60; n++) {
        struct world w = random_world(n, 1 + (uint32_t)below(4), below(2) ? 0 : 20);
        check_and_free(&w, 1);
    }
}
END_TEST

START_TEST(random_rows_are_answered_as_by_the_model)
{
    struct world many_ids = random_world(1500, 40, 0);
    check_and_free(&many_ids, 1);
    struct world few_ids = random_world(1500, 3, 300);
    check_and_free(&few_ids, 1);
    struct world one_table = random_world(1500, 1, 0);
    check_and_free(&one_table, 1);
}
END_TEST

START_TEST(extreme_ids_are_ordinary)
{
    static const int64_t ids[] = { INT64_MIN, INT64_MIN + 1, -2, -1, 0, 1, 2, INT64_MAX - 1, INT64_MAX };
    struct world w = world_new(ARRAY_SIZE(ids) * 4);
    for (uint32_t table = 1; table <= 4; table++) {
        for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
            add_templated(&w, table, ids[i], (int64_t)i, PLAIN_COMMIT);
    }
    check_and_free(&w, 1);
}
END_TEST

/* Prefix and suffix of every length around those at which the way of writing changes: vectors, the room in a table. */
static void add_framed(struct world *w, uint32_t table, size_t prefix, size_t suffix, const char *digits)
{
    char text[400];
    char uuid[37];
    random_uuid(uuid);
    memset(text, 'p', prefix);
    int len = snprintf(text + prefix, sizeof text - prefix, "/%s-%s", digits, uuid);
    memset(text + prefix + (size_t)len, 's', suffix);
    add(w, table, (int64_t)w->n, 0, PLAIN_COMMIT, text, prefix + (size_t)len + suffix);
}

START_TEST(locations_of_every_length_are_rendered_alike)
{
    static const size_t suffixes[] = { 0, 1, 15, 16, 17, 31, 40 };
    static const char *const digits[] = {
        "1", "00007", "1234567", "00000089", "000000091", "0000000000000003"
    };
    struct world w = world_new(120 * ARRAY_SIZE(suffixes) * 2);
    for (size_t prefix = 0; prefix < 120; prefix++) {
        for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
            uint32_t table = 1 + (uint32_t)(prefix * ARRAY_SIZE(suffixes) + i);
            add_framed(&w, table, prefix, suffixes[i], digits[table % ARRAY_SIZE(digits)]);
            add_framed(&w, table, prefix, suffixes[i], digits[table % ARRAY_SIZE(digits)]);
        }
    }
    check_and_free(&w, 1);
}
END_TEST

/* Ids whose keys are the lowest and the greatest there are: the first home, the last, the ends of the tree. */
START_TEST(extreme_keys_are_ordinary)
{
    static const int64_t keys[] = { INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX };
    struct world w = world_new(1000);
    for (uint32_t table = 1; table <= 30; table++) {
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
            add_templated(&w, table, key_id(table, keys[i], w.info.seed), (int64_t)i, PLAIN_COMMIT);
    }
    check_and_free(&w, 1);
}
END_TEST

START_TEST(one_id_in_ten_thousand_tables_is_told_apart)
{
    struct world w = world_new(10000);
    for (uint32_t table = 1; table <= 10000; table++)
        add_templated(&w, table, 42, table, PLAIN_COMMIT);
    check_and_free(&w, 97);
}
END_TEST

START_TEST(sequential_ids_stay_near_their_homes)
{
    struct world w = world_new(20000);
    for (size_t i = 0; i < 20000; i++)
        add_templated(&w, 1, (int64_t)i, (int64_t)i, PLAIN_COMMIT);
    struct built b = build(&w);
    ck_assert_uint_le(part_header(b.part)->reach, PART_PROBE_REACH);
    check_world(b.part, &w, 199);
    built_free(&b);
    world_free(&w);
}
END_TEST

START_TEST(tables_of_widely_spread_numbers_are_found)
{
    static const uint32_t tables[] = { 1, 2, 64, 65, 1000000, 0x80000000, UINT32_MAX - 1, UINT32_MAX };
    struct world w = world_new(200);
    for (size_t i = 0; i < 200; i++)
        add_templated(&w, tables[i % ARRAY_SIZE(tables)], (int64_t)next_random(), (int64_t)i, PLAIN_COMMIT);
    struct built b = build(&w);
    ck_assert_uint_eq(part_header(b.part)->ranks.count, 0);
    ck_assert_uint_lt(b.size, 100000);
    check_world(b.part, &w, 1);
    built_free(&b);
    world_free(&w);
}
END_TEST

START_TEST(a_repeated_id_stays_with_its_first_location)
{
    struct world w = world_new(300);
    for (size_t i = 0; i < 300; i++)
        add_templated(&w, 1 + i % 2, (int64_t)(i % 5), (int64_t)i, PLAIN_COMMIT);
    struct built b = build(&w);
    ck_assert_uint_eq(part_header(b.part)->extras.count, 290);
    check_world(b.part, &w, 1);
    built_free(&b);
    world_free(&w);
}
END_TEST

START_TEST(odd_locations_and_far_times_are_kept_as_they_are)
{
    struct world w = world_new(600);
    for (size_t i = 0; i < 300; i++)
        add_odd(&w, 1 + i % 3, (int64_t)next_random(), (int64_t)next_random(), PLAIN_COMMIT);
    for (size_t i = 0; i < 300; i++)
        add_templated(&w, 1 + i % 5, (int64_t)next_random(), 1700000000000000 + (int64_t)i, PLAIN_COMMIT);
    check_and_free(&w, 1);
}
END_TEST

/* A few rows of the wrong century must not move the base from where the others are. */
START_TEST(outliers_in_time_cost_only_themselves)
{
    struct world w = world_new(1000);
    for (size_t i = 0; i < 1000; i++)
        add_templated(&w, 1, (int64_t)i,
                      i % 100   ? 1700000000000000 + (int64_t)i
                      : i % 200 ? INT64_MIN
                                : INT64_MAX,
                      PLAIN_COMMIT);
    struct built b = build(&w);
    ck_assert_uint_lt(part_header(b.part)->heap.count, 10 * 110);
    check_world(b.part, &w, 1);
    built_free(&b);
    world_free(&w);
}
END_TEST

/* Ids that have the KEY in each of N tables, among others. */
static void add_equal_keys(struct world *w, int64_t key, uint32_t tables)
{
    for (uint32_t table = 1; table <= tables; table++)
        add_templated(w, table, key_id(table, key, w->info.seed), table, PLAIN_COMMIT);
}

START_TEST(equal_keys_of_different_tables_are_told_apart)
{
    static const uint32_t runs[] = { 2, 5, 6, 7, 12, 13, 30, 53, 54, 55, 100, 300 };
    for (size_t r = 0; r < ARRAY_SIZE(runs); r++) {
        struct world w = world_new(3000);
        for (size_t i = 0; i < 500; i++)
            add_templated(&w, 1 + (uint32_t)below(400), (int64_t)next_random(), (int64_t)i, PLAIN_COMMIT);
        add_equal_keys(&w, (int64_t)next_random(), runs[r]);
        add_equal_keys(&w, INT64_MIN, runs[r]);
        add_equal_keys(&w, INT64_MAX, runs[r]);
        check_and_free(&w, 1);
    }
}
END_TEST

/* Near keys overflow homes in both directions, without being equal. */
START_TEST(crowded_homes_overflow_and_all_is_found)
{
    for (int crowd = 5; crowd <= 80; crowd += 5) {
        struct world w = world_new(2000);
        for (size_t i = 0; i < 700; i++)
            add_templated(&w, 1 + (uint32_t)below(4), (int64_t)next_random(), (int64_t)i, PLAIN_COMMIT);
        for (int k = 0; k < 4; k++) {
            int64_t key = (int64_t)next_random();
            for (int i = 0; i < crowd; i++)
                add_templated(&w, 1, key_id(1, key + i * 3, w.info.seed), i, PLAIN_COMMIT);
        }
        check_and_free(&w, 3);
    }
}
END_TEST

/* The invariant that probing relies on: who isn't at home has a home that is full and says so. */
START_TEST(rows_leave_only_homes_that_are_full)
{
    struct world w = world_new(30000);
    for (size_t i = 0; i < 30000; i++)
        add(&w, 1, (int64_t)next_random(), 0, PLAIN_COMMIT, "x", 1);
    struct built b = build(&w);
    const struct part_header *h = part_header(b.part);
    int64_t last = INT64_MIN;
    size_t back = 0;
    size_t astray = 0;
    for (uint64_t block = 0; block < h->blocks.count; block++) {
        const struct part_block *at = &b.part->blocks[block];
        for (unsigned slot = 0; at->marks & 1u << slot & PART_USED; slot++) {
            uint64_t home = key_home(at->key[slot], h->homes);
            ALWAYS(at->key[slot] >= last);
            last = at->key[slot];
            back += home == block + 1;
            astray += home != block;
            ALWAYS(home <= block + 1 && block <= home + h->reach);
            if (home == block + 1)
                ALWAYS(b.part->blocks[home].marks & PART_BACK);
            for (uint64_t full = home; full < block; full++)
                ALWAYS((at[(int64_t)(full - block)].marks & PART_USED) == PART_USED &&
                       at[(int64_t)(full - block)].marks & PART_AHEAD);
        }
        ALWAYS(at->key[PART_SLOTS - 1] == last);
    }
    ck_assert_uint_le(h->reach, PART_PROBE_REACH);
    ck_assert_uint_gt(back, 0);
    ck_assert_uint_gt(astray - back, 0);
    ck_assert_uint_lt(astray, w.n / 7);
    built_free(&b);
    world_free(&w);
}
END_TEST

START_TEST(a_snapshot_costs_at_most_76_bytes)
{
    struct world w = world_new(100000);
    for (size_t i = 0; i < 100000; i++)
        add_templated(&w, 1 + (uint32_t)(i % 100), (int64_t)next_random(), 1700000000000000 + (int64_t)i,
                      PLAIN_COMMIT);
    struct built b = build(&w);
    ck_assert_msg(b.size <= 76 * w.n, "%.1f bytes", (double)b.size / (double)w.n);
    built_free(&b);
    world_free(&w);
}
END_TEST

START_TEST(the_same_rows_give_the_same_bytes)
{
    struct world w = random_world(1000, 10, 400);
    struct built a = build(&w);
    struct built b = build(&w);
    ck_assert_uint_eq(a.size, b.size);
    ck_assert_int_eq(memcmp(a.mem, b.mem, a.size), 0);
    built_free(&a);
    built_free(&b);
    world_free(&w);
}
END_TEST

START_TEST(more_than_a_part_can_hold_is_refused)
{
    struct part_plan *plan;
    struct part_info info = { .to_seq = UINT32_MAX };
    const struct event *none = NULL;
    ck_assert_int_eq(part_plan_rows(&plan, &info, &none, PART_ROWS_MAX + 1ull), SKADE_EFULL);
    info.to_seq = UINT32_MAX + 1ull;
    ck_assert_int_eq(part_plan_rows(&plan, &info, &none, 0), SKADE_EFULL);
}
END_TEST

START_TEST(the_instruction_set_can_be_named)
{
    static const char *const names[] = { "scalar", "avx2", "avx512" };
    for (enum part_isa isa = PART_SCALAR; isa <= PART_AVX512; isa++) {
        setenv("SKADE_ISA", names[isa], 1);
        if (part_isa_has(isa))
            ck_assert_int_eq(part_isa_best(), isa);
        else
            ck_assert(part_isa_has(part_isa_best()));
    }
    setenv("SKADE_ISA", "abacus", 1);
    enum part_isa best = part_isa_best();
    unsetenv("SKADE_ISA");
    ck_assert_int_eq(part_isa_best(), best);
    ck_assert(part_isa_has(PART_SCALAR));
}
END_TEST

static int compare_items(const void *a, const void *b)
{
    const struct plan_item *x = a;
    const struct plan_item *y = b;
    int by_key = (x->key > y->key) - (x->key < y->key);
    return by_key ? by_key : (x->src > y->src) - (x->src < y->src);
}

static void check_sort(size_t n, uint64_t mask)
{
    struct plan_item *items = calloc(n + 1, sizeof *items);
    struct plan_item *expected = calloc(n + 1, sizeof *expected);
    struct plan_item *scratch = calloc(n + 1, sizeof *scratch);
    for (size_t i = 0; i < n; i++)
        items[i] = (struct plan_item){ .key = next_random() & mask, .src = i };
    memcpy(expected, items, n * sizeof *items);
    qsort(expected, n, sizeof *expected, compare_items);
    plan_sort(items, n, scratch);
    ALWAYS(memcmp(items, expected, n * sizeof *items) == 0);
    plan_sort(items, n, scratch);
    ALWAYS(memcmp(items, expected, n * sizeof *items) == 0);
    free(items);
    free(expected);
    free(scratch);
}

START_TEST(sorting_is_right_and_stable_whatever_the_keys_are)
{
    static const uint64_t masks[] = {
        UINT64_MAX,        0, 1, 0xff, 0xffff, 0xffffff, UINT32_MAX, 0xff00000000000000, 0xff000000000000ff,
        0xffffff0000000007
    };
    for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
        for (size_t n = 0; n < 200; n++)
            check_sort(n, masks[i]);
        check_sort(5000, masks[i]);
    }
}
END_TEST

/* ---- tests: merging -------------------------------------------------------------------------------------- */

/* Cut W into COUNT parts at random places; each covers up to the sequence before the next one's first row. */
static void build_pieces(const struct world *w, struct built *pieces, size_t count)
{
    size_t from = 0;
    uint64_t from_seq = w->info.from_seq;
    for (size_t i = 0; i < count; i++) {
        size_t to = i + 1 == count ? w->n : from + below(w->n - from + 1);
        uint64_t to_seq = to == w->n ? w->info.to_seq : w->events[to].seq - 1;
        if (to == w->n && i + 1 < count)
            to_seq = w->n ? w->events[w->n - 1].seq : from_seq;
        pieces[i] = build_slice(w, from, to, from_seq, to_seq);
        from = to;
        from_seq = to_seq;
    }
}

static struct built merge(const struct world *w, const struct built *pieces, size_t count)
{
    struct part *parts[16];
    struct part_plan *plan;
    for (size_t i = 0; i < count; i++)
        parts[i] = pieces[i].part;
    ck_assert_int_eq(part_plan_merge(&plan, &w->info, parts, count), 0);
    return fill(plan);
}

static void check_merge(struct world *w, size_t count, size_t step)
{
    struct built pieces[16];
    build_pieces(w, pieces, count);
    struct built merged = merge(w, pieces, count);
    for (size_t i = 0; i < count; i++)
        built_free(&pieces[i]);
    check_world(merged.part, w, step);
    struct built alone = build(w);
    ck_assert_uint_eq(part_header(merged.part)->extras.count, part_header(alone.part)->extras.count);
    ck_assert_uint_eq(part_header(merged.part)->blocks.count, part_header(alone.part)->blocks.count);
    built_free(&alone);
    built_free(&merged);
}

START_TEST(merged_parts_answer_as_one_that_was_built_at_once)
{
    for (size_t count = 1; count <= 9; count++) {
        struct world w = random_world(1 + below(700), 1 + (uint32_t)below(20), below(2) ? 0 : 100);
        check_merge(&w, count, 1);
        world_free(&w);
    }
}
END_TEST

START_TEST(a_merge_of_nothing_is_an_empty_part)
{
    struct world w = world_new(1);
    struct built none = merge(&w, NULL, 0);
    check_world(none.part, &w, 1);
    struct built two[2];
    build_pieces(&w, two, 2);
    struct built empty = merge(&w, two, 2);
    check_world(empty.part, &w, 1);
    built_free(&none);
    built_free(&empty);
    built_free(&two[0]);
    built_free(&two[1]);
    world_free(&w);
}
END_TEST

START_TEST(equal_keys_survive_a_merge)
{
    struct world w = world_new(2000);
    for (size_t i = 0; i < 300; i++)
        add_templated(&w, 1 + (uint32_t)below(90), (int64_t)next_random(), (int64_t)i, PLAIN_COMMIT);
    for (int k = 0; k < 5; k++)
        add_equal_keys(&w, k == 0 ? INT64_MIN : k == 1 ? INT64_MAX : 5, 100);
    check_merge(&w, 4, 1);
    world_free(&w);
}
END_TEST

/* The common case: a delta's rows look like main's; nothing may be kept as an escape, and no byte more be used. */
START_TEST(merging_uniform_parts_needs_no_heap)
{
    struct world w = world_new(5000);
    for (size_t i = 0; i < 5000; i++)
        add_templated(&w, 1 + (uint32_t)(i % 7), (int64_t)next_random(), (int64_t)i, PLAIN_COMMIT);
    struct built pieces[5];
    build_pieces(&w, pieces, 5);
    struct built merged = merge(&w, pieces, 5);
    struct built alone = build(&w);
    ck_assert_uint_eq(part_header(merged.part)->heap.count, 0);
    ck_assert_uint_eq(merged.size, alone.size);
    ck_assert_int_eq(memcmp(merged.mem, alone.mem, alone.size), 0);
    check_world(merged.part, &w, 97);
    built_free(&merged);
    built_free(&alone);
    for (size_t i = 0; i < 5; i++)
        built_free(&pieces[i]);
    world_free(&w);
}
END_TEST

/* A table that moved: its older rows look different, and the template of the many is kept. */
START_TEST(a_table_that_moved_keeps_all_locations)
{
    struct world w = world_new(1000);
    for (size_t i = 0; i < 1000; i++) {
        if (i < 100)
            add_hadoop(&w, 1, (int64_t)i, (int64_t)i, PLAIN_COMMIT);
        else
            add_templated(&w, 1, (int64_t)i, (int64_t)i, PLAIN_COMMIT);
    }
    check_merge(&w, 6, 1);
    world_free(&w);
}
END_TEST

START_TEST(merged_parts_can_be_merged_again)
{
    struct world w = random_world(600, 10, 200);
    struct built pieces[4];
    build_pieces(&w, pieces, 4);
    struct world front = w;
    front.info.to_seq = part_header(pieces[1].part)->seg.to_seq;
    struct world back = w;
    back.info.from_seq = front.info.to_seq;
    struct built halves[2] = { merge(&front, pieces, 2), merge(&back, pieces + 2, 2) };
    struct built whole = merge(&w, halves, 2);
    check_world(whole.part, &w, 1);
    built_free(&whole);
    for (size_t i = 0; i < 2; i++)
        built_free(&halves[i]);
    for (size_t i = 0; i < 4; i++)
        built_free(&pieces[i]);
    world_free(&w);
}
END_TEST

START_TEST(parts_that_do_not_follow_each_other_are_not_merged)
{
    struct world w = random_world(200, 3, 0);
    struct built pieces[2];
    build_pieces(&w, pieces, 2);
    struct part *parts[2] = { pieces[1].part, pieces[0].part };
    struct part_plan *plan;
    ck_assert_int_eq(part_plan_merge(&plan, &w.info, parts, 2), SKADE_EDAMAGED);
    struct part_info other_seed = w.info;
    other_seed.seed++;
    ck_assert_int_eq(part_plan_merge(&plan, &other_seed, parts, 1), SKADE_EDAMAGED);
    struct part_info other_log = w.info;
    other_log.log.b[3]++;
    ck_assert_int_eq(part_plan_merge(&plan, &other_log, parts, 1), SKADE_EDAMAGED);
    for (size_t i = 0; i < 2; i++)
        built_free(&pieces[i]);
    world_free(&w);
}
END_TEST

/* All rows of a large part, by batches and alone; the next id is asked for too and isn't there. */
static void check_large(const struct part *p, const struct world *w, bool by_tree)
{
    struct batch b = batch_new(1024);
    for (size_t first = 0; first < w->n; first += b.n / 2) {
        size_t n = w->n - first < b.n / 2 ? w->n - first : b.n / 2;
        for (size_t i = 0; i < 2 * n; i++) {
            const struct event *e = &w->events[first + i / 2];
            b.queries[i] = query_of(e->table, (int64_t)((uint64_t)e->snapshot + i % 2),
                                    b.texts + i * BATCH_TEXT, BATCH_TEXT);
            b.list[i] = (uint32_t)i;
        }
        memset(b.texts, '~', b.n * BATCH_TEXT);
        struct part_many m = { .first = b.queries, .stride = sizeof *b.queries, .odd = b.odd };
        ALWAYS((by_tree ? part_resolve_many_by_tree(p, &m, b.list, 2 * n)
                        : part_resolve_many(p, &m, b.list, 2 * n)) == n);
        for (size_t i = 0; i < 2 * n; i++) {
            const struct event *e = &w->events[first + i / 2];
            struct part_hit hit;
            check_whole(&b.queries[i], i % 2 ? NULL : e, BATCH_TEXT);
            if (i % 2)
                continue;
            check_hit(e, part_find(p, e->table, e->snapshot, &hit), &hit);
            check_hit(e, part_find_by_tree(p, e->table, e->snapshot, &hit), &hit);
        }
    }
    batch_free(&b);
}

/* SKADE_STRESS=1: two million rows. */
START_TEST(large_parts_and_their_merges_lose_nothing)
{
    size_t n = getenv("SKADE_STRESS") ? 2000000 : 30000;
    struct world w = world_new(n);
    for (size_t i = 0; i < n; i++)
        add_templated(&w, 1 + (uint32_t)below(300), (int64_t)next_random(), (int64_t)(i * i), PLAIN_COMMIT);
    struct built pieces[3];
    build_pieces(&w, pieces, 3);
    struct built merged = merge(&w, pieces, 3);
    struct built alone = build(&w);
    ck_assert_uint_eq(merged.size, alone.size);
    ck_assert_int_eq(memcmp(merged.mem, alone.mem, alone.size), 0);
    for (enum part_isa isa = PART_SCALAR; isa <= PART_AVX512; isa++) {
        if (!part_isa_has(isa))
            continue;
        part_use_isa(alone.part, isa);
        check_large(alone.part, &w, false);
        check_large(alone.part, &w, true);
    }
    built_free(&merged);
    built_free(&alone);
    for (size_t i = 0; i < 3; i++)
        built_free(&pieces[i]);
    world_free(&w);
}
END_TEST

/* ---- tests: damage --------------------------------------------------------------------------------------- */

/* Memory whose last byte is followed, and whose first is preceded, by pages that nobody may touch. */
struct guarded {
    char *map;
    size_t map_size;
    char *base;
};

static struct guarded guarded_new(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t inside = align_up(size ? size : 1, page);
    struct guarded g = { .map_size = inside + 2 * page };
    g.map = mmap(NULL, g.map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(g.map != MAP_FAILED);
    ck_assert_int_eq(mprotect(g.map + page, inside, PROT_READ | PROT_WRITE), 0);
    g.base = g.map + page + inside - align_up(size, CACHE_LINE);
    return g;
}

static void guarded_free(struct guarded *g)
{
    munmap(g->map, g->map_size);
}

/* R is no error of a kind that damage can't explain, and a hit is at least one of the table and of the part. */
static void check_damaged(const struct part *p, int r, const struct part_hit *hit, uint32_t table)
{
    ALWAYS(r == 0 || r == SKADE_EDAMAGED || r == 1);
    if (r == 1)
        ALWAYS(hit->table == table && hit->seq - p->header.seg.from_seq <= p->span);
}

static void check_damaged_answer(const struct part *p, const struct event *e)
{
    static char text[LOCATION_MAX + 1];
    struct part_query q = query_of(e->table, e->snapshot, text, sizeof text);
    int r = part_resolve(p, NULL, e->table, e->snapshot, &q);
    ALWAYS(r == 0 || r == SKADE_EDAMAGED || r == 1);
    if (r == 1)
        ALWAYS(q.seq - p->header.seg.from_seq <= p->span && q.location_len <= LOCATION_MAX);
}

/* Ask everything; whatever comes back, nothing outside is touched and it comes back. */
static void ask_everything(struct part *p, const struct world *w)
{
    static char buf[200000];
    for (size_t i = 0; i < w->n; i++) {
        const struct event *e = &w->events[i];
        struct part_hit hit;
        if (part_find(p, e->table, e->snapshot, &hit) == 1)
            ALWAYS(part_location(p, hit.ref, buf, sizeof buf, NULL) <= LOCATION_MAX);
        check_damaged(p, part_find_by_tree(p, e->table, e->snapshot, &hit), &hit, e->table);
        check_damaged_answer(p, e);
        check_damaged(p, part_head(p, e->table, e->seq, &hit), &hit, e->table);
        check_damaged(p, part_as_of(p, e->table, e->time_us, e->seq, &hit), &hit, e->table);
        check_damaged(p, part_earliest(p, e->table, e->seq, &hit), &hit, e->table);
        check_damaged(p, part_before(p, e->table, e->seq, &hit), &hit, e->table);
        check_damaged(p, part_after(p, e->table, e->seq, &hit), &hit, e->table);
    }
}

static void ask_batch(struct part *p, const struct world *w, bool by_tree)
{
    struct batch b = batch_new(w->n);
    for (size_t i = 0; i < w->n; i++) {
        b.queries[i] =
            query_of(w->events[i].table, w->events[i].snapshot, b.texts + i * BATCH_TEXT, BATCH_TEXT);
        b.list[i] = (uint32_t)i;
    }
    struct part_many m = { .first = b.queries, .stride = sizeof *b.queries, .odd = b.odd };
    size_t absent =
        by_tree ? part_resolve_many_by_tree(p, &m, b.list, w->n) : part_resolve_many(p, &m, b.list, w->n);
    ALWAYS(absent + m.odd_count <= w->n);
    int64_t *keys = calloc(w->n + 1, sizeof *keys);
    for (size_t i = 0; i < w->n; i++)
        keys[i] = key_of(w->events[i].table, w->events[i].snapshot, w->info.seed);
    part_find_keys_by_tree(p, keys, b.odd, w->n);
    free(keys);
    for (size_t i = 0; i < w->n; i++)
        ALWAYS(b.queries[i].status != 1 || b.queries[i].location_len < BATCH_TEXT);
    batch_free(&b);
}

/* Merging a damaged part fails or gives a part that opens; neither may touch what is outside. */
static void try_merge(struct part *p, const struct world *w)
{
    struct part_plan *plan;
    struct part *merged;
    if (part_plan_merge(&plan, &w->info, &p, 1) < 0)
        return;
    size_t size = part_plan_size(plan);
    struct guarded g = guarded_new(size);
    if (part_plan_fill(plan, g.base, size) == 0) {
        ALWAYS(part_open(&merged, g.base, size, PART_VERIFY, NULL) == 0);
        ask_everything(merged, w);
        part_close(merged);
    }
    part_plan_free(plan);
    guarded_free(&g);
}

static void try_damaged(const void *base, size_t size, const struct world *w, enum part_isa isa)
{
    struct part *p;
    if (part_open(&p, base, size, 0, NULL) < 0)
        return;
    if (part_isa_has(isa))
        part_use_isa(p, isa);
    ask_everything(p, w);
    ask_batch(p, w, false);
    ask_batch(p, w, true);
    try_merge(p, w);
    part_close(p);
}

/* A small part that has one of everything. */
static struct world small_world(void)
{
    struct world w = world_new(60);
    for (size_t i = 0; i < 16; i++)
        add_templated(&w, 1 + (uint32_t)(i % 3), (int64_t)(i * i), 100 - (int64_t)i, PLAIN_COMMIT);
    add_equal_keys(&w, 17, 10);
    add_hadoop(&w, 2, 1, 5, EVENT_MOVES_HEAD);
    add_odd(&w, 2, 777, 5, PLAIN_COMMIT);
    add_templated(&w, 1, 778, INT64_MIN, PLAIN_COMMIT);
    add_templated(&w, 1, 778, 7, PLAIN_COMMIT);
    add(&w, 5, 3, 7, PLAIN_COMMIT, "", 0);
    return w;
}

START_TEST(every_truncation_is_refused)
{
    struct world w = small_world();
    struct built b = build(&w);
    for (size_t size = 0; size < b.size; size++) {
        struct part *p = NULL;
        struct errmsg msg = { "" };
        struct guarded g = guarded_new(size);
        memcpy(g.base, b.mem, size);
        ALWAYS(part_open(&p, g.base, size, 0, &msg) == SKADE_EDAMAGED && !p && msg.text[0] != '\0');
        guarded_free(&g);
    }
    built_free(&b);
    world_free(&w);
}
END_TEST

START_TEST(another_format_or_another_file_is_refused)
{
    struct world w = small_world();
    struct built b = build(&w);
    struct seg_header *h = b.mem;
    struct part *p;
    struct errmsg msg;
    h->major++;
    ck_assert_int_eq(part_open(&p, b.mem, b.size, 0, &msg), SKADE_EVERSION);
    h->major--;
    h->magic[0] ^= 1;
    ck_assert_int_eq(part_open(&p, b.mem, b.size, 0, &msg), SKADE_EDAMAGED);
    built_free(&b);
    world_free(&w);
}
END_TEST

START_TEST(every_flipped_bit_is_noticed_when_verified)
{
    struct world w = small_world();
    struct built b = build(&w);
    uint8_t *bytes = b.mem;
    for (size_t bit = 0; bit < b.size * 8; bit++) {
        struct part *p = NULL;
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ALWAYS(part_open(&p, b.mem, b.size, PART_VERIFY, NULL) < 0);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    built_free(&b);
    world_free(&w);
}
END_TEST

/* Without verification the header is checked still; what stands behind it may be anything. */
START_TEST(no_flipped_bit_leads_outside)
{
    struct world w = small_world();
    struct built b = build(&w);
    struct guarded g = guarded_new(b.size);
    memcpy(g.base, b.mem, b.size);
    size_t start = (size_t)_i * b.size * 8 / 4;
    size_t end = (size_t)(_i + 1) * b.size * 8 / 4;
    for (size_t bit = start; bit < end; bit++) {
        g.base[bit / 8] = (char)(g.base[bit / 8] ^ 1 << bit % 8);
        try_damaged(g.base, b.size, &w, (enum part_isa)(bit % 3));
        g.base[bit / 8] = (char)(g.base[bit / 8] ^ 1 << bit % 8);
    }
    guarded_free(&g);
    built_free(&b);
    world_free(&w);
}
END_TEST

/* Blocks that are the last thing in the file, and marks that say that rows stand outside of them. */
START_TEST(no_mark_leads_out_of_the_blocks)
{
    struct world w = small_world();
    struct built b = build(&w);
    size_t blocks_size = part_header(b.part)->blocks.count * sizeof(struct part_block);
    size_t size = b.size + blocks_size;
    struct guarded g = guarded_new(size);
    memcpy(g.base, b.mem, b.size);
    struct part_header *h = (void *)g.base;
    struct part_block *blocks = (void *)(g.base + b.size);
    memcpy(blocks, b.part->blocks, blocks_size);
    h->blocks.off = b.size;
    h->seg.size = size;
    for (uint64_t i = 0; i < h->blocks.count; i++) {
        blocks[i].marks |= PART_BACK | PART_AHEAD;
        for (unsigned slot = 0; slot < PART_SLOTS; slot++)
            blocks[i].key[slot] = i == 0 ? INT64_MAX : INT64_MIN;
    }
    h->seg.header_check = part_header_check(g.base, sizeof *h);
    for (enum part_isa isa = PART_SCALAR; isa <= PART_AVX512; isa++)
        try_damaged(g.base, size, &w, isa);
    guarded_free(&g);
    built_free(&b);
    world_free(&w);
}
END_TEST

static uint64_t odd_number(void)
{
    static const uint64_t odd[] = { 0,          1,          5,          63,        64,        255,
                                    0x7fffffff, 0x80000000, UINT32_MAX, INT64_MAX, UINT64_MAX };
    return below(3) ? odd[below(ARRAY_SIZE(odd))] : next_random() >> below(64);
}

/* Words of random places replaced by numbers that are often one too many. */
START_TEST(no_garbage_leads_outside)
{
    struct world w = small_world();
    struct built b = build(&w);
    struct guarded g = guarded_new(b.size);
    for (int round = 0; round < 20000; round++) {
        memcpy(g.base, b.mem, b.size);
        for (uint64_t n = 1 + below(4); n > 0; n--) {
            uint64_t value = odd_number();
            size_t len = 1u << below(4);
            memcpy(g.base + sizeof(struct part_header) + below(b.size - sizeof(struct part_header) - 8),
                   &value, len);
        }
        try_damaged(g.base, b.size, &w, (enum part_isa)(round % 3));
    }
    guarded_free(&g);
    built_free(&b);
    world_free(&w);
}
END_TEST

static void spoil_a_word(struct guarded *g)
{
    const size_t first = offsetof(struct part_header, rows);
    size_t at = first + below(sizeof(struct part_header) - first) / 8 * 8;
    uint64_t value = below(4) ? odd_number() : load_u64(g->base + at) + below(3) - 1;
    memcpy(g->base + at, &value, below(2) ? 8 : 4);
}

/* Move a section to the end of the file, where hardly anything of it has room. */
static void spoil_a_section(struct guarded *g, size_t size)
{
    struct section s = { .off = size - CACHE_LINE * below(3), .count = below(20) };
    const size_t first = offsetof(struct part_header, blocks);
    const size_t sections = (offsetof(struct part_header, level) - first) / sizeof s;
    memcpy(g->base + first + below(sections) * sizeof s, &s, sizeof s);
}

/* The same in the header, whose checksum is made right again: its numbers are checked, not believed. */
START_TEST(no_header_leads_outside)
{
    struct world w = small_world();
    struct built b = build(&w);
    struct guarded g = guarded_new(b.size);
    for (int round = 0; round < 100000; round++) {
        memcpy(g.base, b.mem, b.size);
        for (uint64_t n = 1 + below(2); n > 0; n--)
            spoil_a_word(&g);
        if (below(3) == 0) {
            memcpy(g.base, b.mem, b.size);
            spoil_a_section(&g, b.size);
        }
        struct part_header *h = (void *)g.base;
        h->seg.from_seq = below(10) ? h->seg.from_seq : odd_number();
        h->seg.to_seq = below(10) ? h->seg.to_seq : odd_number();
        h->seg.header_check = part_header_check(g.base, sizeof *h);
        try_damaged(g.base, b.size, &w, (enum part_isa)(round % 3));
    }
    guarded_free(&g);
    built_free(&b);
    world_free(&w);
}
END_TEST

START_TEST(a_ref_that_is_no_row_is_damage)
{
    struct world w = small_world();
    struct built b = build(&w);
    const struct part_header *h = part_header(b.part);
    struct part_hit hit;
    char buf[LOCATION_MAX];
    uint32_t refs[] = { (uint32_t)(h->blocks.count * PART_SLOTS), PART_EXTRA | (uint32_t)h->extras.count,
                        PART_EXTRA - 1, PART_NO_REF };
    for (size_t i = 0; i < ARRAY_SIZE(refs); i++) {
        ck_assert_int_eq(part_record(b.part, refs[i], &hit), SKADE_EDAMAGED);
        ck_assert_int_eq(part_location(b.part, refs[i], buf, sizeof buf, NULL), SKADE_EDAMAGED);
    }
    unsigned rows = 0;
    for (uint32_t ref = 0; ref < h->blocks.count * PART_SLOTS; ref++)
        rows += part_record(b.part, ref, &hit) == 1;
    ck_assert_uint_eq(rows + h->extras.count, w.n);
    built_free(&b);
    world_free(&w);
}
END_TEST

Suite *part_suite(void);
Suite *part_suite(void)
{
    Suite *suite = suite_create("part");
    TCase *answers = tcase_create("answers");
    tcase_set_timeout(answers, 300);
    tcase_add_test(answers, an_empty_part_answers_nothing);
    tcase_add_test(answers, every_small_number_of_rows_is_answered_as_by_the_model);
    tcase_add_test(answers, random_rows_are_answered_as_by_the_model);
    tcase_add_test(answers, extreme_ids_are_ordinary);
    tcase_add_test(answers, extreme_keys_are_ordinary);
    tcase_add_test(answers, locations_of_every_length_are_rendered_alike);
    tcase_add_test(answers, one_id_in_ten_thousand_tables_is_told_apart);
    tcase_add_test(answers, sequential_ids_stay_near_their_homes);
    tcase_add_test(answers, tables_of_widely_spread_numbers_are_found);
    tcase_add_test(answers, a_repeated_id_stays_with_its_first_location);
    tcase_add_test(answers, odd_locations_and_far_times_are_kept_as_they_are);
    tcase_add_test(answers, outliers_in_time_cost_only_themselves);
    tcase_add_test(answers, equal_keys_of_different_tables_are_told_apart);
    tcase_add_test(answers, crowded_homes_overflow_and_all_is_found);
    tcase_add_test(answers, rows_leave_only_homes_that_are_full);
    tcase_add_test(answers, a_snapshot_costs_at_most_76_bytes);
    tcase_add_test(answers, the_same_rows_give_the_same_bytes);
    tcase_add_test(answers, more_than_a_part_can_hold_is_refused);
    tcase_add_test(answers, the_instruction_set_can_be_named);
    tcase_add_test(answers, sorting_is_right_and_stable_whatever_the_keys_are);
    suite_add_tcase(suite, answers);
    TCase *merges = tcase_create("merges");
    tcase_set_timeout(merges, 300);
    tcase_add_test(merges, merged_parts_answer_as_one_that_was_built_at_once);
    tcase_add_test(merges, a_merge_of_nothing_is_an_empty_part);
    tcase_add_test(merges, equal_keys_survive_a_merge);
    tcase_add_test(merges, merging_uniform_parts_needs_no_heap);
    tcase_add_test(merges, a_table_that_moved_keeps_all_locations);
    tcase_add_test(merges, merged_parts_can_be_merged_again);
    tcase_add_test(merges, parts_that_do_not_follow_each_other_are_not_merged);
    tcase_add_test(merges, large_parts_and_their_merges_lose_nothing);
    suite_add_tcase(suite, merges);
    TCase *damage = tcase_create("damage");
    tcase_set_timeout(damage, 300);
    tcase_add_test(damage, every_truncation_is_refused);
    tcase_add_test(damage, another_format_or_another_file_is_refused);
    tcase_add_test(damage, every_flipped_bit_is_noticed_when_verified);
    tcase_add_loop_test(damage, no_flipped_bit_leads_outside, 0, 4);
    tcase_add_test(damage, no_mark_leads_out_of_the_blocks);
    tcase_add_test(damage, no_garbage_leads_outside);
    tcase_add_test(damage, no_header_leads_outside);
    tcase_add_test(damage, a_ref_that_is_no_row_is_damage);
    suite_add_tcase(suite, damage);
    return suite;
}
