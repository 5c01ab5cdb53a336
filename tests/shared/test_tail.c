#include "tail.h"

#include "guard.h"
#include "quick.h"
#include "tail_layout.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define FROM 100 /* the parts of these tests cover so many events */
#define EVENTS_MAX 600

/* ---- a tail, and the events that it was made of --------------------------------------------------------- */

struct maker {
    struct tail_info info;
    struct tail_writer writer;
    struct guard file;
    struct tail tail;
    struct event events[EVENTS_MAX];
    char texts[EVENTS_MAX][64];
    size_t count;
};

static struct tail_info info_for(uint32_t room, uint32_t lines)
{
    return (struct tail_info){ .log = { { 1, 2, 3 } },
                               .seed = 0x123456789abcdef,
                               .epoch = 0xe,
                               .generation = 7,
                               .from_seq = FROM,
                               .room = room,
                               .lines = lines };
}

static struct maker *make(uint32_t room, uint32_t lines)
{
    struct maker *m = calloc(1, sizeof *m);
    struct errmsg why = { "" };

    ck_assert_ptr_nonnull(m);
    m->info = info_for(room, lines);
    m->file = guard_make(tail_size(room, lines), 64);
    memset(m->file.data, 0, m->file.size);
    tail_begin(&m->writer, &m->info, m->file.data);
    ck_assert_msg(tail_open(&m->tail, m->file.data, m->file.size, &why) == 0, "%s", why.text);
    return m;
}

static void unmake(struct maker *m)
{
    guard_free(&m->file);
    free(m);
}

static bool add(struct maker *m, struct event e)
{
    char *text = m->texts[m->count];

    ck_assert_uint_lt(m->count, EVENTS_MAX);
    ck_assert_uint_lt(e.text.len, sizeof m->texts[0]);
    if (e.text.len)
        memcpy(text, e.text.data, e.text.len);
    e.text.data = text;
    e.seq = FROM + 1 + m->count;
    m->events[m->count] = e;
    if (!tail_append(&m->writer, &e))
        return false;
    m->count++;
    return true;
}

static struct event a_commit(uint32_t table, int64_t id, int64_t time_us, uint32_t flags,
                             const char *location)
{
    return (struct event){ .kind = EVENT_COMMIT,
                           .flags = flags,
                           .table = table,
                           .snapshot = id,
                           .time_us = time_us,
                           .text = bytes_of(location) };
}

#define ALL_FLAGS (EVENT_INTRODUCES | EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT)

static bool commit(struct maker *m, uint32_t table, int64_t id, const char *location)
{
    return add(m, a_commit(table, id, (int64_t)m->count, ALL_FLAGS, location));
}

static bool create(struct maker *m, uint32_t table, const char *name)
{
    return add(m, (struct event){ .kind = EVENT_CREATE, .table = table, .text = bytes_of(name) });
}

/* ---- the truth ------------------------------------------------------------------------------------------- */

static bool is_commit(const struct event *e)
{
    return e->kind == EVENT_COMMIT || e->kind == EVENT_COMPACT;
}

static const struct event *first_of(const struct maker *m, size_t n, uint32_t table, int64_t id)
{
    for (size_t i = 0; i < n; i++) {
        const struct event *e = &m->events[i];
        if (is_commit(e) && e->table == table && e->snapshot == id && e->flags & EVENT_INTRODUCES &&
            e->flags & EVENT_HAS_SNAPSHOT)
            return e;
    }
    return NULL;
}

static bool moves(const struct event *e, uint32_t table)
{
    return is_commit(e) && e->table == table && e->flags & EVENT_MOVES_HEAD;
}

static const struct event *head_of(const struct maker *m, size_t n, uint32_t table)
{
    for (size_t i = n; i-- > 0;)
        if (moves(&m->events[i], table))
            return &m->events[i];
    return NULL;
}

static const struct event *by_time(const struct maker *m, size_t n, uint32_t table, int64_t time_us,
                                   bool latest)
{
    const struct event *best = NULL;

    for (size_t i = 0; i < n; i++) {
        const struct event *e = &m->events[i];
        if (!moves(e, table) || (latest && e->time_us > time_us))
            continue;
        if (!best || (latest ? e->time_us >= best->time_us : e->time_us < best->time_us))
            best = e;
    }
    return best;
}

static bool has_table(const struct maker *m, size_t n, uint32_t table)
{
    for (size_t i = 0; i < n; i++)
        if (m->events[i].table == table && (is_commit(&m->events[i]) || m->events[i].kind == EVENT_CREATE))
            return true;
    return false;
}

/* R and HIT say what E (NULL: nothing) says. */
static void same(const struct tail *t, int r, const struct tail_hit *hit, const struct event *e)
{
    char where[LOCATION_MAX];

    ALWAYS(r == (e != NULL));
    if (!e)
        return;
    ALWAYS(hit->seq == e->seq && hit->snapshot == e->snapshot && hit->time_us == e->time_us);
    ALWAYS(hit->table == e->table && hit->flags == e->flags && hit->kind == e->kind);
    int len = tail_location(t, hit, where, sizeof where);
    ALWAYS(len == (int)e->text.len && memcmp(where, e->text.data, e->text.len) == 0);
}

/* ---- chains and counts ------------------------------------------------------------------------------------ */

START_TEST(what_was_shown_is_found_and_what_was_not_is_not)
{
    struct maker *m = make(16, 32);
    struct tail_hit hit;
    uint32_t table;

    create(m, 3, "a.b");
    commit(m, 3, 7, "here");
    ck_assert_int_eq(tail_count(&m->tail), 0);
    ck_assert_int_eq(tail_find(&m->tail, 0, 3, 7, &hit), 0);
    ck_assert_int_eq(tail_head(&m->tail, 0, 3, &hit), 0);
    ck_assert_int_eq(tail_has_table(&m->tail, 0, 3), 0);
    ck_assert_int_eq(tail_find_name(&m->tail, 0, bytes_of("a.b"), FROM, &table), 0);
    tail_show(&m->writer);
    ck_assert_int_eq(tail_count(&m->tail), 2);
    same(&m->tail, tail_find(&m->tail, 2, 3, 7, &hit), &hit, &m->events[1]);
    same(&m->tail, tail_head(&m->tail, 2, 3, &hit), &hit, &m->events[1]);
    ck_assert_int_eq(tail_find_name(&m->tail, 2, bytes_of("a.b"), FROM, &table), 1);
    ck_assert_uint_eq(table, 3);
    ck_assert_int_eq(tail_find_name(&m->tail, 2, bytes_of("a.c"), FROM, &table), 0);
    ck_assert_int_eq(tail_has_table(&m->tail, 1, 3), 1);
    ck_assert_int_eq(tail_has_table(&m->tail, 2, 4), 0);
    ck_assert_uint_eq(tail_seq(&m->writer), FROM + 2);
    unmake(m);
}
END_TEST

START_TEST(the_first_commit_of_a_snapshot_wins)
{
    struct maker *m = make(64, 128);
    struct tail_hit hit;

    commit(m, 1, 5, "first");
    for (int i = 0; i < 40; i++)
        commit(m, 1, 5, "later");
    commit(m, 2, 5, "another table");
    tail_show(&m->writer);
    same(&m->tail, tail_find(&m->tail, 42, 1, 5, &hit), &hit, &m->events[0]);
    same(&m->tail, tail_find(&m->tail, 42, 2, 5, &hit), &hit, &m->events[41]);
    same(&m->tail, tail_head(&m->tail, 42, 1, &hit), &hit, &m->events[40]);
    unmake(m);
}
END_TEST

START_TEST(a_commit_that_introduces_nothing_is_found_by_its_table_only)
{
    struct maker *m = make(16, 32);
    struct tail_hit hit;

    add(m, a_commit(1, 5, 1, EVENT_MOVES_HEAD, "without"));
    add(m, a_commit(1, 5, 2, EVENT_HAS_SNAPSHOT | EVENT_MOVES_HEAD, "again"));
    add(m, a_commit(1, 5, 3, EVENT_INTRODUCES | EVENT_HAS_SNAPSHOT, "staged"));
    tail_show(&m->writer);
    same(&m->tail, tail_find(&m->tail, 3, 1, 5, &hit), &hit, &m->events[2]);
    ck_assert_int_eq(tail_find(&m->tail, 2, 1, 5, &hit), 0);
    same(&m->tail, tail_head(&m->tail, 3, 1, &hit), &hit, &m->events[1]);
    unmake(m);
}
END_TEST

START_TEST(a_compaction_is_no_head_that_a_tail_can_vouch_for)
{
    struct maker *m = make(16, 32);
    struct tail_hit hit;
    struct event e = a_commit(1, 6, 2, ALL_FLAGS, "compacted");

    commit(m, 1, 5, "before");
    e.kind = EVENT_COMPACT;
    add(m, e);
    tail_show(&m->writer);
    ck_assert_int_eq(tail_head(&m->tail, 2, 1, &hit), -EAGAIN);
    same(&m->tail, tail_head(&m->tail, 1, 1, &hit), &hit, &m->events[0]);
    same(&m->tail, tail_find(&m->tail, 2, 1, 6, &hit), &hit, &m->events[1]);
    commit(m, 1, 7, "after");
    tail_show(&m->writer);
    same(&m->tail, tail_head(&m->tail, 3, 1, &hit), &hit, &m->events[2]);
    unmake(m);
}
END_TEST

START_TEST(a_creation_that_the_root_knows_does_not_count)
{
    struct maker *m = make(16, 32);
    uint32_t table;

    create(m, 1, "a");
    add(m, (struct event){ .kind = EVENT_DROP, .table = 1, .text = bytes_of("a") });
    tail_show(&m->writer);
    ck_assert_int_eq(tail_find_name(&m->tail, 2, bytes_of("a"), FROM + 2, &table), 0);
    create(m, 2, "a");
    tail_show(&m->writer);
    ck_assert_int_eq(tail_find_name(&m->tail, 3, bytes_of("a"), FROM + 2, &table), 1);
    ck_assert_uint_eq(table, 2);
    unmake(m);
}
END_TEST

START_TEST(numbers_have_no_gap)
{
    struct maker *m = make(16, 32);
    struct tail_hit hit;

    commit(m, 1, 1, "x");
    add(m, (struct event){
               .kind = EVENT_RENAME, .table = 1, .text = bytes_of("new"), .text2 = bytes_of("old") });
    add(m, (struct event){ .kind = EVENT_EXPIRE, .table = 1, .watermark = 3 });
    commit(m, 1, 2, "y");
    tail_show(&m->writer);
    same(&m->tail, tail_find(&m->tail, 4, 1, 2, &hit), &hit, &m->events[3]);
    ck_assert_uint_eq(hit.seq, FROM + 4);
    ck_assert_uint_eq(tail_limit(&m->tail, 4, FROM + 3), 3);
    ck_assert_uint_eq(tail_limit(&m->tail, 4, FROM), 0);
    ck_assert_uint_eq(tail_limit(&m->tail, 4, 5), 0);
    ck_assert_uint_eq(tail_limit(&m->tail, 4, SEQ_MAX), 4);
    unmake(m);
}
END_TEST

/* Everything that can be asked of the first N events. */
static void compare(const struct maker *m, uint32_t n, uint32_t tables, int64_t ids)
{
    struct tail_hit hit;

    for (uint32_t table = 1; table <= tables; table++) {
        for (int64_t id = 0; id < ids; id++)
            same(&m->tail, tail_find(&m->tail, n, table, id, &hit), &hit, first_of(m, n, table, id));
        same(&m->tail, tail_head(&m->tail, n, table, &hit), &hit, head_of(m, n, table));
        same(&m->tail, tail_earliest(&m->tail, n, table, &hit), &hit, by_time(m, n, table, 0, false));
        for (int64_t time_us = -2; time_us < 22; time_us++)
            same(&m->tail, tail_as_of(&m->tail, n, table, time_us, &hit), &hit,
                 by_time(m, n, table, time_us, true));
        ALWAYS(tail_has_table(&m->tail, n, table) == has_table(m, n, table));
    }
}

static void random_event(struct maker *m, uint64_t *state, uint32_t tables, int64_t ids)
{
    char text[64];
    uint32_t table = 1 + (uint32_t)random_below(state, tables);

    int64_t id = (int64_t)random_below(state, (uint64_t)ids), time_us = (int64_t)random_below(state, 20);
    uint32_t flags = (uint32_t)random_below(state, ALL_FLAGS + 1);

    snprintf(text, sizeof text, "s3://b/%llu", (unsigned long long)random_u64(state));
    add(m, a_commit(table, id, time_us, flags, text));
}

START_TEST(a_tail_says_what_its_events_say_at_every_count)
{
    uint64_t state = (uint64_t)_i;
    uint32_t tables = 1 + (uint32_t)random_below(&state, 9);
    int64_t ids = 1 + (int64_t)random_below(&state, 40);
    struct maker *m = make(120, 240);

    for (size_t i = 0; i < 120; i++)
        random_event(m, &state, tables, ids);
    ck_assert_uint_eq(m->count, 120);
    tail_show(&m->writer);
    ck_assert_int_eq(tail_verify(&m->tail, NULL), 0);
    for (uint32_t n = 0; n <= 120; n += 1 + (uint32_t)random_below(&state, 9))
        compare(m, n, tables + 1, ids + 1);
    unmake(m);
}
END_TEST

START_TEST(as_of_stops_where_nothing_older_can_be_later)
{
    struct maker *m = make(512, 1024);
    struct tail_hit hit;

    for (int i = 0; i < 500; i++)
        add(m, a_commit(1, i, i < 3 ? 1000 - i : i, ALL_FLAGS, "x"));
    tail_show(&m->writer);
    for (int64_t t = -1; t < 1010; t += 7)
        same(&m->tail, tail_as_of(&m->tail, 500, 1, t, &hit), &hit, by_time(m, 500, 1, t, true));
    unmake(m);
}
END_TEST

/* ---- room ------------------------------------------------------------------------------------------------ */

START_TEST(a_full_tail_takes_nothing_more)
{
    struct maker *m = make(3, 100);
    struct tail_hit hit;

    for (int i = 0; i < 3; i++)
        ck_assert(commit(m, 1, i, "x"));
    ck_assert(!commit(m, 1, 3, "x"));
    ck_assert(!commit(m, 1, 3, ""));
    tail_show(&m->writer);
    ck_assert_int_eq(tail_count(&m->tail), 3);
    ck_assert_int_eq(tail_find(&m->tail, 3, 1, 3, &hit), 0);
    same(&m->tail, tail_find(&m->tail, 3, 1, 2, &hit), &hit, &m->events[2]);
    ck_assert_uint_eq(tail_seq(&m->writer), FROM + 3);
    unmake(m);
}
END_TEST

START_TEST(a_location_that_does_not_fit_fills_it_and_none_comes_behind)
{
    struct maker *m = make(16, 3);

    ck_assert(commit(m, 1, 1, "123456"));
    ck_assert(!commit(m, 1, 2, "12345"));
    ck_assert(!commit(m, 1, 2, "")); /* it would fit, but its number isn't the next one */
    tail_show(&m->writer);
    ck_assert_int_eq(tail_count(&m->tail), 1);
    unmake(m);
}
END_TEST

START_TEST(the_usual_tail_has_the_usual_size)
{
    uint32_t lines = tail_lines_usual();

    ck_assert_uint_eq(tail_size(TAIL_ROOM, lines), TAIL_BYTES);
    ck_assert_uint_ge(lines / TAIL_ROOM, tail_lines_of(256)); /* bytes of a location */
}
END_TEST

START_TEST(a_buffer_that_is_too_small_is_left_alone)
{
    struct maker *m = make(4, 8);
    char buf[8] = "1234567";
    struct tail_hit hit;

    commit(m, 1, 1, "location");
    tail_show(&m->writer);
    ck_assert_int_eq(tail_find(&m->tail, 1, 1, 1, &hit), 1);
    ck_assert_int_eq(tail_location(&m->tail, &hit, buf, 7), -ERANGE);
    ck_assert_str_eq(buf, "1234567");
    ck_assert_int_eq(tail_location(&m->tail, &hit, buf, 8), 8);
    unmake(m);
}
END_TEST

/* ---- hostile bytes ----------------------------------------------------------------------------------------- */

static struct maker *small(void)
{
    struct maker *m = make(12, 24);
    uint64_t state = 1;

    create(m, 1, "t.one");
    create(m, 2, "t.two");
    commit(m, 1, 2, "s3://one/2");
    commit(m, 2, 3, "s3://two/3");
    for (int i = 0; i < 7; i++)
        random_event(m, &state, 2, 4);
    tail_show(&m->writer);
    return m;
}

START_TEST(every_truncation_is_refused)
{
    struct maker *m = small();
    struct tail t;

    for (size_t size = 0; size < m->file.size; size++) {
        struct guard g = guard_copy(m->file.data, size, 64);
        ALWAYS(tail_open(&t, g.data, size, NULL) == SKADE_EDAMAGED);
        guard_free(&g);
    }
    unmake(m);
}
END_TEST

/* R is right, or says damage or that there is none: never another answer than E. */
static void never_wrong(const struct tail *t, int r, const struct tail_hit *hit, const struct event *e)
{
    char where[LOCATION_MAX];

    ALWAYS(r == 1 || r == 0 || r == SKADE_EDAMAGED || r == -EAGAIN);
    if (r != 1)
        return;
    int len = tail_location(t, hit, where, sizeof where);
    ALWAYS(len == SKADE_EDAMAGED ||
           (e && len == (int)e->text.len && memcmp(where, e->text.data, e->text.len) == 0));
}

/* Whatever is asked of damaged bytes. */
static void ask_all(const struct maker *m, const struct tail *t)
{
    struct tail_hit hit;
    uint32_t table = 0;

    int64_t count = tail_count(t);
    if (count < 0)
        return;
    for (uint32_t n = 1; n <= 3; n++) {
        for (int64_t id = 0; id < 5; id++)
            never_wrong(t, tail_find(t, (uint32_t)count, n, id, &hit), &hit, first_of(m, m->count, n, id));
        int r = tail_head(t, (uint32_t)count, n, &hit);
        ALWAYS(r != 1 || moves(&m->events[hit.seq - FROM - 1], n));
        r = tail_as_of(t, (uint32_t)count, n, 10, &hit);
        ALWAYS(r != 1 || moves(&m->events[hit.seq - FROM - 1], n));
        r = tail_earliest(t, (uint32_t)count, n, &hit);
        ALWAYS(r != 1 || moves(&m->events[hit.seq - FROM - 1], n));
        tail_has_table(t, (uint32_t)count, n);
    }
    int r = tail_find_name(t, (uint32_t)count, bytes_of("t.two"), FROM, &table);
    ALWAYS(r != 1 || table == 2);
    tail_verify(t, NULL);
}

/* Of damaged bytes the answer is the right one or none, and so is that something isn't there. */
static void ask_for_all(const struct maker *m, const struct tail *t)
{
    struct tail_hit hit, was;

    int64_t count = tail_count(t);
    if (count < 0)
        return;
    ALWAYS(count == (int64_t)m->count);
    for (uint32_t n = 1; n <= 3; n++) {
        for (int64_t id = 0; id < 5; id++) {
            int r = tail_find(t, (uint32_t)count, n, id, &hit);
            ALWAYS(r < 0 || r == (first_of(m, m->count, n, id) != NULL));
        }
        int r = tail_head(t, (uint32_t)count, n, &hit), right = tail_head(&m->tail, (uint32_t)count, n, &was);
        ALWAYS(r == SKADE_EDAMAGED || (r == right && (r != 1 || hit.seq == was.seq)));
        for (int64_t time = -1; time < 21; time++) {
            r = tail_as_of(t, (uint32_t)count, n, time, &hit);
            right = tail_as_of(&m->tail, (uint32_t)count, n, time, &was);
            ALWAYS(r == SKADE_EDAMAGED || (r == right && (r != 1 || hit.seq == was.seq)));
        }
        r = tail_has_table(t, (uint32_t)count, n);
        ALWAYS(r < 0 || r == (n <= 2));
    }
    uint32_t table = 0;
    int r = tail_find_name(t, (uint32_t)count, bytes_of("t.two"), FROM, &table);
    ALWAYS(r < 0 || (r == 1 && table == 2));
}

START_TEST(no_flipped_bit_hides_an_event_or_gives_an_older_one)
{
    struct maker *m = small();
    struct guard g = guard_make(m->file.size, 64);
    struct tail t;

    memcpy(g.data, m->file.data, g.size);
    ck_assert_int_eq(tail_open(&t, g.data, g.size, NULL), 0);
    ask_for_all(m, &t);
    for (size_t at = TAIL_HEADER_LEN; at < g.size; at++)
        for (int bit = 0; bit < 8; bit++) {
            g.data[at] ^= (uint8_t)(1 << bit);
            ask_for_all(m, &t);
            g.data[at] ^= (uint8_t)(1 << bit);
        }
    guard_free(&g);
    unmake(m);
}
END_TEST

START_TEST(words_that_lead_differ_in_more_than_a_bit)
{
    for (uint32_t link = 0; link < 1u << TAIL_LINK_BITS; link = link < 70000 ? link + 1 : link * 2 + 1) {
        ck_assert_uint_eq(tail_word_link(tail_word(link)), link);
        for (int bit = 0; bit < 32; bit++) {
            uint32_t flipped = tail_word(link) ^ (1u << bit);
            ck_assert_uint_ne(flipped, tail_word(tail_word_link(flipped)));
        }
    }
}
END_TEST

START_TEST(every_flipped_byte_is_noticed_or_does_no_harm)
{
    struct maker *m = small();
    size_t refused = 0;

    for (size_t at = 0; at < m->file.size; at++)
        for (int bit = 0; bit < 8; bit += 3) {
            struct guard g = guard_make(m->file.size, 64);
            struct tail t;
            memcpy(g.data, m->file.data, g.size);
            g.data[at] ^= (uint8_t)(1 << bit);
            if (tail_open(&t, g.data, g.size, NULL) < 0)
                refused++;
            else
                ask_all(m, &t);
            guard_free(&g);
        }
    ck_assert_uint_eq(refused, 3 * (size_t)TAIL_HEADER_LEN);
    unmake(m);
}
END_TEST

/* Where the slot of event I begins. */
static uint8_t *slot_place(const struct maker *m, uint32_t i)
{
    const struct tail_header *h = (const void *)m->file.data;
    struct tail_slot slot;
    uint32_t line = 0;

    for (uint32_t next; i > 0; i--, line = next)
        ck_assert_int_eq(tail_slot_at(&m->tail, line, &slot, &next), 0);
    return m->file.data + h->lines.off + line * TAIL_LINE;
}

START_TEST(a_damaged_slot_is_damage_and_not_another_answer)
{
    struct maker *m = small();
    struct tail_hit hit;
    int damaged = 0, asked = 0;

    for (uint32_t i = 2; i < m->count; i++) {
        const struct event *e = &m->events[i];
        if (first_of(m, m->count, e->table, e->snapshot) != e)
            continue;
        uint8_t *byte = slot_place(m, i) + 8;
        *byte ^= 1;
        asked++;
        damaged += tail_find(&m->tail, (uint32_t)m->count, e->table, e->snapshot, &hit) == SKADE_EDAMAGED;
        ck_assert_int_eq(tail_verify(&m->tail, NULL), SKADE_EDAMAGED);
        *byte ^= 1;
    }
    ck_assert_int_gt(asked, 1);
    ck_assert_int_eq(damaged, asked);
    unmake(m);
}
END_TEST

START_TEST(a_damaged_location_is_damage)
{
    struct maker *m = make(4, 8);
    const struct tail_header *h = (const void *)m->file.data;
    char buf[LOCATION_MAX];
    struct tail_hit hit;

    commit(m, 1, 1, "location");
    tail_show(&m->writer);
    m->file.data[h->lines.off + TAIL_LINE + 3] ^= 1;
    ck_assert_int_eq(tail_find(&m->tail, 1, 1, 1, &hit), 1);
    ck_assert_int_eq(tail_location(&m->tail, &hit, buf, sizeof buf), SKADE_EDAMAGED);
    ck_assert_int_eq(tail_verify(&m->tail, NULL), SKADE_EDAMAGED);
    unmake(m);
}
END_TEST

START_TEST(a_count_beyond_the_room_is_damage)
{
    struct maker *m = small();
    struct tail_header *h = (void *)m->file.data;

    atomic_store(&h->count, 13 | (uint64_t)~13u << 32);
    ck_assert_int_eq(tail_count(&m->tail), SKADE_EDAMAGED);
    atomic_store(&h->count, UINT64_MAX);
    ck_assert_int_eq(tail_count(&m->tail), SKADE_EDAMAGED);
    ck_assert_int_eq(tail_verify(&m->tail, NULL), SKADE_EDAMAGED);
    unmake(m);
}
END_TEST

START_TEST(a_ring_of_slots_is_walked_once_at_most)
{
    struct maker *m = make(4, 8);
    const struct tail_header *h = (const void *)m->file.data;
    struct tail_slot *slot = (void *)(m->file.data + h->lines.off);
    struct tail_hit hit;

    commit(m, 1, 1, "x");
    tail_show(&m->writer);
    slot->key_next = slot->table_prev = 1; /* to itself */
    slot->flags = EVENT_INTRODUCES | EVENT_HAS_SNAPSHOT;
    slot->snapshot = 2;
    slot->check = tail_slot_check(slot, m->tail.slot_seed, 0);
    ck_assert_int_le(tail_find(&m->tail, 1, 1, 1, &hit), 0);
    ck_assert_int_eq(tail_as_of(&m->tail, 1, 1, 5, &hit), SKADE_EDAMAGED);
    ck_assert_int_eq(tail_earliest(&m->tail, 1, 1, &hit), SKADE_EDAMAGED);
    unmake(m);
}
END_TEST

/* ---- a writer and readers over the same bytes -------------------------------------------------------------- */

#define RACE_ROOM 8192u
#define RACE_TABLES 7u

struct race {
    struct tail tail;
    _Atomic uint64_t told; /* as commit_seq: what everybody may have heard of */
};

static void race_location(char *to, size_t size, uint64_t seq)
{
    snprintf(to, size, "s3://bucket/table/metadata/%08llu.json", (unsigned long long)seq);
}

/* Event SEQ: of table SEQ % RACE_TABLES + 1, with snapshot SEQ. */
static void race_hit(const struct tail *t, const struct tail_hit *hit, uint64_t seq)
{
    char where[LOCATION_MAX], want[64];

    race_location(want, sizeof want, seq);
    int len = tail_location(t, hit, where, sizeof where - 1);
    ALWAYS(hit->seq == seq && hit->snapshot == (int64_t)seq && len == (int)strlen(want) &&
           memcmp(where, want, (size_t)len) == 0);
}

/* Everything that was told is found; nothing is found that wasn't counted. */
static void *race_reader(void *arg)
{
    struct race *race = arg;
    struct tail_hit hit;
    uint64_t last = 0, state = 5;

    while (last < FROM + RACE_ROOM) {
        uint64_t told = atomic_load_explicit(&race->told, memory_order_acquire);
        int64_t count = tail_count(&race->tail);
        ALWAYS(count >= 0 && told <= FROM + (uint64_t)count && told >= last);
        last = told;
        uint64_t seq = FROM + 1 + random_below(&state, RACE_ROOM);
        uint32_t table = (uint32_t)(seq % RACE_TABLES) + 1;
        int r = tail_find(&race->tail, (uint32_t)count, table, (int64_t)seq, &hit);
        ALWAYS(r == (seq <= FROM + (uint64_t)count));
        if (r == 1)
            race_hit(&race->tail, &hit, seq);
        if (count < RACE_TABLES)
            continue;
        ALWAYS(tail_head(&race->tail, (uint32_t)count, table, &hit) == 1);
        ALWAYS(hit.seq <= FROM + (uint64_t)count && hit.seq + RACE_TABLES > FROM + (uint64_t)count);
        race_hit(&race->tail, &hit, hit.seq);
        ALWAYS(tail_as_of(&race->tail, (uint32_t)count, table, INT64_MAX, &hit) == 1);
        ALWAYS(hit.seq + RACE_TABLES > FROM + (uint64_t)count);
    }
    return NULL;
}

START_TEST(readers_see_whole_slots_while_the_writer_appends)
{
    struct tail_info info = info_for(RACE_ROOM, 2 * RACE_ROOM);
    struct tail_writer w;
    struct race race;
    pthread_t readers[3];
    uint64_t size = tail_size(info.room, info.lines), state = 9;
    uint8_t *base = aligned_alloc(64, size);

    memset(base, 0, size);
    tail_begin(&w, &info, base);
    ck_assert_int_eq(tail_open(&race.tail, base, size, NULL), 0);
    atomic_init(&race.told, 0);
    for (size_t i = 0; i < ARRAY_SIZE(readers); i++)
        ck_assert_int_eq(pthread_create(&readers[i], NULL, race_reader, &race), 0);
    for (uint64_t seq = FROM + 1; seq <= FROM + RACE_ROOM;) {
        for (uint64_t group = 1 + random_below(&state, 6); group > 0 && seq <= FROM + RACE_ROOM;
             group--, seq++) {
            char where[64];
            race_location(where, sizeof where, seq);
            struct event e =
                a_commit((uint32_t)(seq % RACE_TABLES) + 1, (int64_t)seq, (int64_t)seq, ALL_FLAGS, where);
            e.seq = seq;
            ALWAYS(tail_append(&w, &e));
        }
        tail_show(&w);
        atomic_store_explicit(&race.told, tail_seq(&w), memory_order_release);
    }
    for (size_t i = 0; i < ARRAY_SIZE(readers); i++)
        ck_assert_int_eq(pthread_join(readers[i], NULL), 0);
    free(base);
}
END_TEST

Suite *tail_suite(void);
Suite *tail_suite(void)
{
    Suite *s = suite_create("tail");
    TCase *c = tcase_create("events");

    tcase_add_test(c, what_was_shown_is_found_and_what_was_not_is_not);
    tcase_add_test(c, the_first_commit_of_a_snapshot_wins);
    tcase_add_test(c, a_commit_that_introduces_nothing_is_found_by_its_table_only);
    tcase_add_test(c, a_compaction_is_no_head_that_a_tail_can_vouch_for);
    tcase_add_test(c, a_creation_that_the_root_knows_does_not_count);
    tcase_add_test(c, numbers_have_no_gap);
    tcase_add_loop_test(c, a_tail_says_what_its_events_say_at_every_count, 0, 30);
    tcase_add_test(c, as_of_stops_where_nothing_older_can_be_later);
    suite_add_tcase(s, c);
    c = tcase_create("room");
    tcase_add_test(c, a_full_tail_takes_nothing_more);
    tcase_add_test(c, a_location_that_does_not_fit_fills_it_and_none_comes_behind);
    tcase_add_test(c, the_usual_tail_has_the_usual_size);
    tcase_add_test(c, a_buffer_that_is_too_small_is_left_alone);
    suite_add_tcase(s, c);
    c = tcase_create("hostile");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, every_truncation_is_refused);
    tcase_add_test(c, every_flipped_byte_is_noticed_or_does_no_harm);
    tcase_add_test(c, no_flipped_bit_hides_an_event_or_gives_an_older_one);
    tcase_add_test(c, words_that_lead_differ_in_more_than_a_bit);
    tcase_add_test(c, a_damaged_slot_is_damage_and_not_another_answer);
    tcase_add_test(c, a_damaged_location_is_damage);
    tcase_add_test(c, a_count_beyond_the_room_is_damage);
    tcase_add_test(c, a_ring_of_slots_is_walked_once_at_most);
    suite_add_tcase(s, c);
    c = tcase_create("threads");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, readers_see_whole_slots_while_the_writer_appends);
    suite_add_tcase(s, c);
    return s;
}
