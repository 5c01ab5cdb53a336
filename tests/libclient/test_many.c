/*
 * resolve_many and views: many answers as of one moment, from memory, from the daemon, and from both.
 */
#include "client.h"
#include "fake.h"
#include "quick.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TABLES 7
#define COMMITS 600
#define LOCATION 128

static int64_t id_of(uint32_t table, int i)
{
    uint64_t state = (uint64_t)table * 1000003 + (uint64_t)i;
    return (int64_t)random_u64(&state); /* of any sign, and the order says nothing */
}

static void commit_some(struct world *w, int from, int to)
{
    char location[LOCATION];

    for (int i = from; i < to; i++) {
        uint32_t table = 1 + (uint32_t)i % TABLES;
        snprintf(location, sizeof location, "s3://lake/t%u/metadata/%05d-%016llx.json", table, i,
                 (unsigned long long)id_of(table, i));
        world_commit(w, table, id_of(table, i), 1000 + i, location);
    }
}

/* Some commits in a part, more in another, and a tail that only the daemon knows. */
static struct world *layered(void)
{
    struct world *w = world_make();
    char name[32];

    world_new_page(w);
    for (uint32_t t = 1; t <= TABLES; t++) {
        snprintf(name, sizeof name, "lake.t%u", t);
        world_create(w, name);
    }
    commit_some(w, 0, COMMITS / 2);
    world_publish(w);
    world_expire(w, 3, 60);
    commit_some(w, COMMITS / 2, COMMITS - 100);
    world_drop(w, 5);
    world_publish(w);
    commit_some(w, COMMITS - 100, COMMITS);
    return w;
}

struct batch {
    size_t n;
    struct skade_answer *a;
    char (*locations)[LOCATION];
};

static struct batch batch_make(size_t n, uint32_t cap)
{
    struct batch b = { n, calloc(n, sizeof *b.a), calloc(n, LOCATION) };

    for (size_t i = 0; i < n; i++)
        b.a[i] = (struct skade_answer)SKADE_ANSWER(b.locations[i], cap);
    return b;
}

static void batch_free(struct batch *b)
{
    free(b->a);
    free(b->locations);
}

/* Questions about what is there, what isn't, and tables that never were. */
static struct batch mixed(uint64_t seed)
{
    struct batch b = batch_make(2 * COMMITS, LOCATION);

    for (size_t i = 0; i < b.n; i++) {
        int k = (int)random_below(&seed, COMMITS);
        b.a[i].table = 1 + (uint32_t)k % TABLES;
        b.a[i].snapshot = id_of(b.a[i].table, k);
        if (random_below(&seed, 10) == 0)
            b.a[i].snapshot ^= 1;
        if (random_below(&seed, 20) == 0)
            b.a[i].table = 50 + (uint32_t)k;
    }
    return b;
}

/* What the world says as of AT, one by one. */
static void assert_true(struct world *w, const struct batch *b, uint64_t at, int64_t found)
{
    int64_t expected = 0;

    for (size_t i = 0; i < b->n; i++) {
        const struct event *e;
        const struct skade_answer *a = &b->a[i];
        int status = world_resolve(w, a->table, a->snapshot, at, &e);
        ck_assert_msg(a->status == status, "%zu: %s, expected %s", i, skade_errname(a->status),
                      skade_errname(status));
        expected += status == 1;
        if (status == SKADE_EEXPIRED)
            ck_assert_uint_eq(a->retired_by, world_retired_by(w, a->table, at));
        if (status != 1) {
            ALWAYS(a->location[0] == 0 && a->location_len == 0);
            continue;
        }
        ALWAYS(strcmp(a->location, e->text.data) == 0);
        ALWAYS(a->location_len == e->text.len && a->seq == e->seq && a->time_us == e->time_us);
        ALWAYS(a->flags & SKADE_HAS_SNAPSHOT);
    }
    ck_assert_int_eq(found, expected);
}

/* ---- answers ------------------------------------------------------------------------------------------- */

START_TEST(every_pair_gets_its_own_answer_in_order)
{
    struct world *w = layered();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, _i == 1 ? SKADE_NO_SHM : 0);

    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct batch b = mixed(seed);
        assert_true(w, &b, SEQ_MAX, skade_resolve_many(s, b.a, b.n));
        batch_free(&b);
    }
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(what_memory_cannot_tell_goes_into_one_request_as_of_one_moment)
{
    struct world *w = layered();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct batch b = mixed(1);
    uint32_t from_map = 0;

    skade_resolve_many(s, b.a, b.n);
    for (size_t i = 0; i < b.n; i++)
        from_map += (b.a[i].flags & SKADE_FROM_MAP) != 0;
    ck_assert_uint_eq(f->seen[WIRE_RESOLVE], 1);
    ck_assert_uint_eq(f->last_keys, b.n - from_map);
    ck_assert_uint_gt(from_map, b.n / 2);
    ck_assert_uint_gt(f->last_keys, 0);
    ck_assert_uint_eq(f->last_at, w->seq); /* the moment that the map was searched at */
    batch_free(&b);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_commit_that_comes_in_between_is_in_none_of_the_answers)
{
    struct world *w = layered();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct batch b = batch_make(2, LOCATION);
    struct moment m;

    world_commit(w, 1, 777, 5000, "s3://before");
    ck_assert_int_eq(moment_take(s, &m), 0);
    m.at = m.need;
    world_commit(w, 1, 778, 5000, "s3://after");
    b.a[0].table = b.a[1].table = 1;
    b.a[0].snapshot = 777;
    b.a[1].snapshot = 778;
    ck_assert_int_eq(many_answer(s, &m, b.a, b.n), 1);
    ck_assert_int_eq(b.a[0].status, 1);
    ck_assert_int_eq(b.a[1].status, SKADE_ENOSNAPSHOT);
    batch_free(&b);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_handle_without_maps_takes_the_daemons_first_moment_for_all_requests)
{
    struct world *w = layered();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, SKADE_NO_SHM);
    struct batch b = batch_make(10000, LOCATION);

    for (size_t i = 0; i < b.n; i++) {
        int k = (int)(i % COMMITS);
        b.a[i].table = 1 + (uint32_t)k % TABLES;
        b.a[i].snapshot = id_of(b.a[i].table, k);
    }
    assert_true(w, &b, SEQ_MAX, skade_resolve_many(s, b.a, b.n));
    ck_assert_uint_eq(f->seen[WIRE_RESOLVE], 3);
    ck_assert_uint_eq(f->last_keys, 10000 - 2 * 4096);
    ck_assert_uint_eq(f->last_at, w->seq);
    batch_free(&b);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(many_and_one_say_the_same)
{
    struct world *w = layered();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct batch b = mixed(9);

    skade_resolve_many(s, b.a, b.n);
    for (size_t i = 0; i < b.n; i++) {
        struct skade_answer a = answer();
        skade_resolve(s, b.a[i].table, b.a[i].snapshot, &a);
        ck_assert_int_eq(a.status, b.a[i].status);
        ck_assert_str_eq(a.location, b.a[i].location);
        ck_assert_uint_eq(a.seq, b.a[i].seq);
        ck_assert_int_eq(a.time_us, b.a[i].time_us);
        ck_assert_uint_eq(a.retired_by, b.a[i].retired_by);
    }
    batch_free(&b);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- the caller's structs ------------------------------------------------------------------------------ */

START_TEST(locations_that_do_not_fit_are_told_one_by_one)
{
    struct world *w = layered();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, _i == 1 ? SKADE_NO_SHM : 0);
    struct batch b = batch_make(4, LOCATION);

    for (size_t i = 0; i < b.n; i++) {
        b.a[i].table = 1;
        b.a[i].snapshot = id_of(1, 0);
    }
    size_t len = strlen("s3://lake/t1/metadata/00000-0123456789abcdef.json");
    b.a[0].location_cap = 0;
    b.a[0].location = NULL;
    b.a[1].location_cap = 1;
    b.a[2].location_cap = (uint32_t)len;
    b.a[3].location_cap = (uint32_t)len + 1;
    ck_assert_int_eq(skade_resolve_many(s, b.a, b.n), 1);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(b.a[i].status, -ERANGE);
        ck_assert_uint_eq(b.a[i].location_len, len);
    }
    ck_assert_int_eq(b.a[3].status, 1);
    batch_free(&b);
    skade_close(s);
    fake_stop(f);
}
END_TEST

struct later_answer {
    struct skade_answer a;
    uint64_t later[3];
};

START_TEST(structs_of_a_later_version_keep_what_we_do_not_know)
{
    struct world *w = layered();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct later_answer many[100];
    static char locations[100][LOCATION];

    for (int i = 0; i < 100; i++) {
        many[i].a = (struct skade_answer)SKADE_ANSWER(locations[i], LOCATION);
        many[i].a.size = sizeof many[i];
        many[i].a.table = 1 + (uint32_t)i % TABLES;
        many[i].a.snapshot = id_of(many[i].a.table, i);
        memset(many[i].later, 0x5a, sizeof many[i].later);
    }
    skade_resolve_many(s, &many[0].a, 100);
    for (int i = 0; i < 100; i++) {
        const struct event *e;
        ck_assert_int_eq(many[i].a.status,
                         world_resolve(w, many[i].a.table, many[i].a.snapshot, SEQ_MAX, &e));
        for (int k = 0; k < 3; k++)
            ck_assert_uint_eq(many[i].later[k], 0x5a5a5a5a5a5a5a5aull);
    }
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(sizes_that_cannot_be_are_refused)
{
    struct world *w = layered();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct batch b = batch_make(3, LOCATION);

    ck_assert_int_eq(skade_resolve_many(s, NULL, 0), 0);
    b.a[0].size = 0;
    ck_assert_int_eq(skade_resolve_many(s, b.a, b.n), SKADE_EINPUT);
    b.a[0].size = sizeof b.a[0] + 1;
    ck_assert_int_eq(skade_resolve_many(s, b.a, b.n), SKADE_EINPUT);
    b.a[0].size = sizeof b.a[0];
    b.a[2].size = sizeof b.a[0] + 8;
    ck_assert_int_eq(skade_resolve_many(s, b.a, b.n), SKADE_EINPUT);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "element 2"));
    b.a[2].size = sizeof b.a[0];
    b.a[1].location = NULL;
    ck_assert_int_eq(skade_resolve_many(s, b.a, b.n), SKADE_EINPUT);
    batch_free(&b);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* Of a batch with an element that can't be, far behind, no status is left from before. */
START_TEST(a_refused_batch_says_so_in_every_status_that_is_no_answer)
{
    struct world *w = layered();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct batch b = mixed(4);
    size_t bad = b.n - 1, answers = 0;

    for (size_t i = 0; i < b.n; i++)
        b.a[i].status = 1;
    b.a[bad].location = NULL;
    ck_assert_int_eq(skade_resolve_many(s, b.a, b.n), SKADE_EINPUT);
    for (size_t i = 0; i < b.n; i++) {
        const struct event *e;
        if (b.a[i].status == SKADE_EINPUT)
            continue;
        ck_assert_int_eq(b.a[i].status, world_resolve(w, b.a[i].table, b.a[i].snapshot, SEQ_MAX, &e));
        answers++;
    }
    ck_assert_int_eq(b.a[bad].status, SKADE_EINPUT);
    ck_assert_uint_gt(answers, 0);
    b.a[bad].location = b.locations[bad];
    batch_free(&b);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- no daemon ----------------------------------------------------------------------------------------- */

START_TEST(without_a_daemon_hits_are_answered_and_the_rest_says_why_not)
{
    struct world *w = layered();
    skade *s = world_open(w, 0);
    struct batch b = mixed(3);
    size_t hits = 0;

    ck_assert_int_eq(skade_resolve_many(s, b.a, b.n), SKADE_EUNREACHABLE);
    for (size_t i = 0; i < b.n; i++) {
        const struct event *e;
        if (b.a[i].status == SKADE_EUNREACHABLE)
            continue;
        ck_assert_int_eq(b.a[i].status, world_resolve(w, b.a[i].table, b.a[i].snapshot, SEQ_MAX, &e));
        hits += b.a[i].status == 1;
    }
    ck_assert_uint_gt(hits, b.n / 2);
    batch_free(&b);
    skade_close(s);
}
END_TEST

START_TEST(a_handle_that_allows_it_gets_what_the_map_knows)
{
    struct world *w = layered();
    skade *s = world_open(w, SKADE_ALLOW_STALE);
    struct batch b = mixed(3);
    size_t stale = 0;

    uint64_t covered = w->parts[w->parts_count - 1].to_seq;
    assert_true(w, &b, covered, skade_resolve_many(s, b.a, b.n));
    for (size_t i = 0; i < b.n; i++)
        stale += (b.a[i].flags & SKADE_STALE) != 0;
    ck_assert_uint_gt(stale, 0);
    ck_assert_uint_eq(handle_counter(s, "stale_answers"), stale);
    batch_free(&b);
    skade_close(s);
}
END_TEST

/* ---- wrong answers ------------------------------------------------------------------------------------- */

static enum fake_verdict answer_wrongly(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                        struct wr *out)
{
    struct msg_resolve m;
    struct item_key key;
    int which = *(int *)f->arg;

    if (h->type != WIRE_RESOLVE)
        return FAKE_DEFAULT;
    ck_assert_int_eq(wire_read_resolve(payload, h->len, &m), 0);
    uint32_t n = which == 0 ? m.keys.count - 1 : which == 1 ? m.keys.count + 1 : m.keys.count;
    size_t at = frame_begin(out);
    wire_put_answers(out, &(struct msg_answers){ .at = m.at, .answers = { .count = n } });
    for (uint32_t i = 0; i < n; i++) {
        wire_get_key(&m.keys.items, &key);
        struct item_answer item = {
            .status = SKADE_ENOSNAPSHOT, .table = key.table, .snapshot = key.snapshot, .location = { "", 0 }
        };
        item.snapshot += which == 2 && i == 3;
        item.status = which == 3 && i == 3 ? 0 : item.status;
        wire_put_answer(out, &item);
    }
    frame_end(out, at, WIRE_ANSWERS, 0, h->request);
    return FAKE_SENT;
}

START_TEST(answers_must_be_as_many_as_questions_and_to_them)
{
    struct world *w = layered();
    int which = _i;
    struct fake *f = fake_start(w, answer_wrongly, &which);
    skade *s = world_open(w, SKADE_NO_SHM);
    struct batch b = mixed(1);

    ck_assert_int_eq(skade_resolve_many(s, b.a, b.n), SKADE_EPROTOCOL);
    for (size_t i = 0; i < b.n; i++)
        ck_assert_int_ne(b.a[i].status, 0);
    batch_free(&b);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* Answer in messages of seven. */
static enum fake_verdict answer_in_pieces(struct fake *f, const struct frame_header *h,
                                          const uint8_t *payload, struct wr *out)
{
    struct msg_resolve m;
    struct item_key key;

    (void)f;
    if (h->type != WIRE_RESOLVE)
        return FAKE_DEFAULT;
    ck_assert_int_eq(wire_read_resolve(payload, h->len, &m), 0);
    for (uint32_t done = 0; done < m.keys.count;) {
        uint32_t n = m.keys.count - done < 7 ? m.keys.count - done : 7;
        size_t at = frame_begin(out);
        wire_put_answers(out, &(struct msg_answers){ .at = m.at, .answers = { .count = n } });
        for (uint32_t i = 0; i < n; i++) {
            wire_get_key(&m.keys.items, &key);
            struct item_answer item = {
                .status = 1, .table = key.table, .snapshot = key.snapshot, .location = bytes_of("s3://x")
            };
            wire_put_answer(out, &item);
        }
        done += n;
        frame_end(out, at, WIRE_ANSWERS, done < m.keys.count ? FRAME_MORE : 0, h->request);
    }
    return FAKE_SENT;
}

START_TEST(answers_may_come_in_several_messages)
{
    struct world *w = layered();
    struct fake *f = fake_start(w, answer_in_pieces, NULL);
    skade *s = world_open(w, SKADE_NO_SHM);
    struct batch b = mixed(1);

    ck_assert_int_eq(skade_resolve_many(s, b.a, b.n), (int64_t)b.n);
    ck_assert_int_ge(skade_ping(s), 0);
    batch_free(&b);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- views --------------------------------------------------------------------------------------------- */

START_TEST(a_view_stays_where_it_was_opened)
{
    struct world *w = layered();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, _i == 1 ? SKADE_NO_SHM : 0);
    struct skade_answer a = answer();
    unsigned char log[16];
    skade_table t = 0;
    skade_view *v;

    ck_assert_int_eq(skade_view_open(s, &v), 0);
    uint64_t at = w->seq;
    ck_assert_uint_eq(skade_view_seq(v), at);
    skade_view_log(v, log);
    ck_assert_mem_eq(log, w->log.b, sizeof log);
    world_commit(w, 1, 4711, 9000, "s3://later");
    world_rename(w, 2, "lake.renamed");
    world_expire(w, 1, at);
    world_drop(w, 4);
    world_publish(w);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct batch b = mixed(seed);
        assert_true(w, &b, at, skade_view_resolve_many(v, b.a, b.n));
        batch_free(&b);
    }
    ck_assert_int_eq(skade_view_resolve(v, 1, 4711, &a), 0);
    ck_assert_int_eq(skade_view_find_table(v, "lake.t2", &t), 1);
    ck_assert_uint_eq(t, 2);
    ck_assert_int_eq(skade_view_find_table(v, "lake.renamed", &t), 0);
    ck_assert_int_eq(skade_view_find_table(v, "lake.t4", &t), 1);
    ck_assert_int_eq(skade_view_find_table(v, "lake.t5", &t), 0);
    for (uint32_t table = 1; table <= TABLES; table++) {
        const struct event *e;
        int status = world_head(w, table, at, &e);
        ck_assert_int_eq(skade_view_head(v, table, &a), status == SKADE_ENOTABLE ? 0 : status);
        if (status == 1)
            ck_assert_str_eq(a.location, e->text.data);
        status = world_as_of(w, table, 1300, at, &e);
        ck_assert_int_eq(skade_view_as_of(v, table, 1300, &a), status == SKADE_ENOTABLE ? 0 : status);
        if (status == 1)
            ck_assert_int_eq(a.time_us, e->time_us);
    }
    skade_view_close(v);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_view_that_its_maps_cover_needs_no_daemon_for_anything)
{
    struct world *w = layered();
    world_publish(w);
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();
    skade_table t = 0;
    skade_view *v;

    ck_assert_int_eq(skade_view_open(s, &v), 0);
    fake_stop(f);
    skade_quiesce(s); /* the view keeps what it needs */
    struct batch b = mixed(1);
    assert_true(w, &b, w->seq, skade_view_resolve_many(v, b.a, b.n));
    batch_free(&b);
    ck_assert_int_eq(skade_view_head(v, 1, &a), 1);
    ck_assert_int_eq(skade_view_resolve(v, 1, 12345, &a), 0);
    ck_assert_int_eq(skade_view_as_of(v, 1, 0, &a), 0);
    ck_assert_int_eq(skade_view_find_table(v, "nobody", &t), 0);
    skade_view_close(v);
    skade_close(s);
}
END_TEST

START_TEST(a_view_opened_without_a_daemon_is_of_the_pages_moment)
{
    struct world *w = layered();
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();
    skade_view *v;

    ck_assert_int_eq(skade_view_open(s, &v), 0);
    ck_assert_uint_eq(skade_view_seq(v), w->seq);
    ck_assert_int_eq(skade_view_resolve(v, 1, id_of(1, 0), &a), 1);
    ck_assert_int_eq(skade_view_head(v, 1, &a), SKADE_EUNREACHABLE); /* the tail is not in the maps */
    skade_view_close(v);
    skade_close(s);
}
END_TEST

START_TEST(a_view_of_a_replaced_log_answers_from_its_maps_and_nothing_else)
{
    struct world *w = layered();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();
    skade_view *v;
    skade_table t;

    ck_assert_int_eq(skade_view_open(s, &v), 0);
    fake_stop(f);
    world_replace_log(w);
    w->page = NULL;
    w->epoch = 77;
    w->dev = w->ino = 1;
    world_create(w, "other.table");
    f = fake_start(w, NULL, NULL);
    ck_assert_int_eq(skade_view_head(v, 1, &a), SKADE_EREPLACED);
    ck_assert_int_eq(skade_view_head(v, 1, &a), SKADE_EREPLACED); /* for ever */
    ck_assert_int_eq(skade_view_resolve(v, 1, id_of(1, 0), &a), 1);
    struct batch b = mixed(1);
    ck_assert_int_eq(skade_view_resolve_many(v, b.a, b.n), SKADE_EREPLACED);
    batch_free(&b);
    ck_assert_int_eq(skade_find_table(s, "other.table", &t),
                     SKADE_EREPLACED); /* the handle's owner hears it, too */
    ck_assert_int_eq(skade_find_table(s, "other.table", &t), 1);
    skade_view_close(v);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_view_ends_when_its_log_went_back_and_a_new_one_is_good)
{
    struct world *w = layered();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();
    skade_view *v, *later;
    skade_table t;

    ck_assert_int_eq(skade_view_open(s, &v), 0);
    fake_stop(f);
    world_go_back(w, w->seq - 1);
    w->page = NULL;
    w->epoch = 77;
    w->dev = w->ino = 1;
    f = fake_start(w, NULL, NULL);
    ck_assert_int_eq(skade_view_head(v, 1, &a), SKADE_EREPLACED);
    world_create(w, "grown.again"); /* to where the view is */
    ck_assert_int_eq(skade_view_head(v, 1, &a), SKADE_EREPLACED);
    ck_assert_int_eq(skade_view_resolve(v, 1, id_of(1, 0), &a), 1);
    ck_assert_int_eq(skade_find_table(s, "grown.again", &t), SKADE_EREPLACED);
    ck_assert_int_eq(skade_view_open(s, &later), 0);
    ck_assert_int_eq(skade_view_find_table(later, "grown.again", &t), 1);
    unsigned char log[16];
    skade_view_log(later, log);
    ck_assert_mem_eq(log, w->log.b, sizeof log);
    skade_view_close(v);
    skade_view_close(later);
    skade_close(s);
    fake_stop(f);
}
END_TEST

Suite *client_many_suite(void);
Suite *client_many_suite(void)
{
    Suite *suite = suite_create("client_many");
    TCase *t = tcase_create("many");

    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, every_pair_gets_its_own_answer_in_order, 0, 2);
    tcase_add_test(t, what_memory_cannot_tell_goes_into_one_request_as_of_one_moment);
    tcase_add_test(t, a_commit_that_comes_in_between_is_in_none_of_the_answers);
    tcase_add_test(t, a_handle_without_maps_takes_the_daemons_first_moment_for_all_requests);
    tcase_add_test(t, many_and_one_say_the_same);
    tcase_add_loop_test(t, locations_that_do_not_fit_are_told_one_by_one, 0, 2);
    tcase_add_test(t, structs_of_a_later_version_keep_what_we_do_not_know);
    tcase_add_test(t, sizes_that_cannot_be_are_refused);
    tcase_add_test(t, a_refused_batch_says_so_in_every_status_that_is_no_answer);
    tcase_add_test(t, without_a_daemon_hits_are_answered_and_the_rest_says_why_not);
    tcase_add_test(t, a_handle_that_allows_it_gets_what_the_map_knows);
    tcase_add_loop_test(t, answers_must_be_as_many_as_questions_and_to_them, 0, 4);
    tcase_add_test(t, answers_may_come_in_several_messages);
    tcase_add_loop_test(t, a_view_stays_where_it_was_opened, 0, 2);
    tcase_add_test(t, a_view_that_its_maps_cover_needs_no_daemon_for_anything);
    tcase_add_test(t, a_view_opened_without_a_daemon_is_of_the_pages_moment);
    tcase_add_test(t, a_view_of_a_replaced_log_answers_from_its_maps_and_nothing_else);
    tcase_add_test(t, a_view_ends_when_its_log_went_back_and_a_new_one_is_good);
    suite_add_tcase(suite, t);
    return suite;
}
