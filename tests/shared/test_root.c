#include "root.h"

#include "checksum.h"
#include "guard.h"
#include "quick.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- a world of tables and names, and what is true in it ----------------------------------------------- */

#define POOL_MAX 30000

struct world {
    struct root_input in;
    struct root_table *tables;
    struct root_name_row *names;
    size_t *bearer; /* for each name of the pool: its open row + 1; 0: nobody has it */
    size_t pool;
    uint64_t seq;
};

static struct bytes pool_name(size_t i)
{
    static char names[POOL_MAX][32];
    if (!names[i][0])
        snprintf(names[i], sizeof names[i], "ns.t%zu", i);
    return bytes_of(names[i]);
}

static void give_name(struct world *w, size_t name, uint32_t table)
{
    w->bearer[name] = w->in.names_count + 1;
    w->names[w->in.names_count++] = (struct root_name_row){ pool_name(name), w->seq, SEQ_MAX, table };
}

static void create(struct world *w, size_t name)
{
    w->tables[w->in.tables_count++] =
        (struct root_table){ .created_seq = w->seq, .dropped_seq = SEQ_MAX, .kind = TABLE_EXTERNAL };
    give_name(w, name, (uint32_t)w->in.tables_count);
}

static uint32_t take_name(struct world *w, size_t name)
{
    struct root_name_row *row = &w->names[w->bearer[name] - 1];
    row->to_seq = w->seq;
    w->bearer[name] = 0;
    return row->table;
}

/* One event: a free name is given to a new table, a taken one to nobody or away. */
static void happen(struct world *w, uint64_t *state)
{
    size_t name = random_below(state, w->pool), other = random_below(state, w->pool);

    w->seq++;
    if (!w->bearer[name])
        create(w, name);
    else if (w->bearer[other])
        w->tables[take_name(w, name) - 1].dropped_seq = w->seq;
    else
        give_name(w, other, take_name(w, name));
}

static struct world make_world(size_t events, size_t pool, uint64_t seed)
{
    static const struct root_part parts[] = { { 1, 0, 10, 4096, 1, 5 }, { 2, 10, 12, 4096, 2, 1 } };
    struct world w = { .pool = pool };

    w.tables = calloc(events + 1, sizeof *w.tables);
    w.names = calloc(events + 1, sizeof *w.names);
    w.bearer = calloc(pool, sizeof *w.bearer);
    w.in = (struct root_input){ .log = { { 1, 2, 3 } }, .seed = seed * 77, .epoch = 0xe, .generation = 3 };
    w.in.parts = parts;
    w.in.parts_count = events > 12 ? 2 : 0;
    w.in.covered = events > 12 ? 12 : 0;
    for (size_t i = 0; i < events; i++)
        happen(&w, &seed);
    w.in.names_seq = w.seq;
    w.in.tables = w.tables;
    w.in.names = w.names;
    return w;
}

static void free_world(struct world *w)
{
    free(w->tables);
    free(w->names);
    free(w->bearer);
}

/* What is true, by looking at every row. */
static uint32_t bearer_of(const struct world *w, struct bytes name, uint64_t at)
{
    for (size_t i = 0; i < w->in.names_count; i++) {
        const struct root_name_row *row = &w->names[i];
        if (bytes_equal(row->name, name) && row->from_seq <= at &&
            (row->to_seq == SEQ_MAX || at < row->to_seq))
            return row->table;
    }
    return 0;
}

static struct bytes newest_name(const struct world *w, uint32_t table)
{
    struct bytes name = { "", 0 };
    for (size_t i = 0; i < w->in.names_count; i++) /* rows are made in order */
        if (w->names[i].table == table)
            name = w->names[i].name;
    return name;
}

/* ---- roots of it --------------------------------------------------------------------------------------- */

static struct errmsg msg;

/* A file: what root_fill() makes of the input, on top of bytes that have another value. */
static uint8_t *fill(const struct root_input *in, uint8_t canary, size_t *size)
{
    *size = root_size(in);
    ck_assert_uint_gt(*size, 0);
    uint8_t *buf = aligned_alloc(64, *size);
    memset(buf, canary, *size);
    ck_assert_int_eq(root_fill(in, buf, *size), 0);
    return buf;
}

static void seal(uint8_t *file, size_t size)
{
    struct seg_header *h = (struct seg_header *)(void *)file;
    uint32_t len = sizeof(struct root_header);
    h->content_check = checksum(file + len, size - len, 0);
    h->header_check = checksum(file + sizeof *h, len - sizeof *h,
                               checksum(file, offsetof(struct seg_header, header_check), 0));
}

static struct root *must_open(const void *file, size_t size)
{
    struct root *r = NULL;
    ck_assert_msg(root_open(&r, file, size, ROOT_VERIFY, &msg) == 0, "%s", msg.text);
    return r;
}

static uint32_t find(const struct root *r, struct bytes name, uint64_t at)
{
    uint32_t table = 0;
    int found = root_find_table(r, name, at, &table);
    ALWAYS(found == (table != 0));
    return table;
}

static void check_names_at(const struct root *r, const struct world *w, uint64_t at)
{
    for (size_t i = 0; i < w->pool; i++)
        ALWAYS(find(r, pool_name(i), at) == bearer_of(w, pool_name(i), at));
}

START_TEST(names_are_found_as_of_every_event)
{
    static const size_t sizes[] = { 0, 1, 2, 3, 8, 9, 10, 80, 81, 82, 300 };
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        struct world w = make_world(sizes[i], 1 + sizes[i] / 6, 5 + i);
        size_t size;
        uint8_t *file = fill(&w.in, 0xa5, &size);
        struct root *r = must_open(file, size);
        for (uint64_t at = 0; at <= w.seq + 1; at++)
            check_names_at(r, &w, at);
        check_names_at(r, &w, SEQ_MAX);
        check_names_at(r, &w, SEQ_MAX - 1);
        ck_assert_uint_eq(find(r, bytes_of("ns.nobody"), SEQ_MAX), 0);
        ck_assert_uint_eq(find(r, bytes_of(""), SEQ_MAX), 0);
        root_close(r);
        free(file);
        free_world(&w);
    }
}
END_TEST

/* What the rules say of a table just after event AT. */
static void check_lifetime(const struct root *r, const struct world *w, uint32_t table, uint64_t at)
{
    struct lifetimes lives = root_lifetimes(r, at);
    const struct root_table *t = table - 1 < w->in.tables_count ? &w->tables[table - 1] : NULL;
    bool there = t && t->created_seq <= at && (t->dropped_seq == SEQ_MAX || t->dropped_seq > at);

    ALWAYS(lifetime_is_there(&lives, table) == there);
    /* What is plain is there, and nothing of it was retired; it may be that it isn't known to be plain, at an old
     * moment. */
    bool plain = there && t->dropped_seq == SEQ_MAX && t->watermark == 0;
    ALWAYS(lifetime_is_plain(&lives, table) == (plain && at >= w->in.names_seq));
}

START_TEST(plain_tables_are_those_that_live_and_lost_nothing)
{
    static const size_t sizes[] = { 0, 1, 63, 64, 65, 300 };
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        struct world w = make_world(sizes[i], 1 + sizes[i] / 6, 5 + i);
        size_t size;
        for (size_t k = 0; k < w.in.tables_count; k++) {
            w.tables[k].watermark = k % 3 ? 0 : w.tables[k].created_seq + 1;
            w.tables[k].dropped_seq = k % 7 ? SEQ_MAX : w.seq;
        }
        uint8_t *file = fill(&w.in, 0xa5, &size);
        struct root *r = must_open(file, size);
        for (uint64_t at = 0; at <= w.seq + 1; at++) {
            for (uint32_t table = 0; table < w.in.tables_count + 70; table++)
                check_lifetime(r, &w, table, at);
        }
        check_lifetime(r, &w, UINT32_MAX, SEQ_MAX);
        root_close(r);
        free(file);
        free_world(&w);
    }
}
END_TEST

START_TEST(many_names_are_found)
{
    struct world w = make_world(60000, POOL_MAX, 3);
    uint64_t state = 1;
    size_t size;
    uint8_t *file = fill(&w.in, 0, &size);
    struct root *r = must_open(file, size);

    for (int i = 0; i < 2000; i++) {
        uint64_t at = random_below(&state, 4) ? random_below(&state, w.seq) : SEQ_MAX;
        struct bytes name = pool_name(random_below(&state, w.pool));
        ALWAYS(find(r, name, at) == bearer_of(&w, name, at));
    }
    root_close(r);
    free(file);
    free_world(&w);
}
END_TEST

START_TEST(a_name_that_went_back_and_forth_is_found)
{
    struct world w = make_world(0, 1, 1);
    size_t count = 200001, size;

    free(w.names);
    free(w.tables);
    w.tables = calloc(2, sizeof *w.tables);
    w.names = calloc(count, sizeof *w.names);
    for (size_t i = 0; i < count; i++) /* table 1 and 2 have it by turns, for ten events each */
        w.names[i] = (struct root_name_row){ bytes_of("it"), 10 * i + 5,
                                             i + 1 < count ? 10 * i + 15 : SEQ_MAX, 1 + i % 2 };
    w.in.names = w.names;
    w.in.names_count = count;
    w.in.tables = w.tables;
    w.in.tables_count = 2;
    w.in.names_seq = 10 * count;
    uint8_t *file = fill(&w.in, 0, &size);
    struct root *r = must_open(file, size);
    ck_assert_uint_eq(find(r, bytes_of("it"), 4), 0);
    for (size_t i = 0; i < count; i++) {
        ALWAYS(find(r, bytes_of("it"), 10 * i + 5) == 1 + i % 2);
        ALWAYS(find(r, bytes_of("it"), 10 * i + 14) == 1 + i % 2);
    }
    ck_assert_uint_eq(find(r, bytes_of("it"), SEQ_MAX), 1);
    root_close(r);
    free(file);
    free_world(&w);
}
END_TEST

/* Nobody can make two names with the same hash, but two have it one day: make a file that has been there. */
START_TEST(names_with_the_same_hash_are_told_apart)
{
    struct root_name_row rows[] = {
        { bytes_of("a"), 1, 3, 1 },
        { bytes_of("b"), 2, SEQ_MAX, 2 },
        { bytes_of("a"), 4, 6, 3 },
        { bytes_of("c"), 5, SEQ_MAX, 4 },
    };
    struct root_table tables[4] = { { .created_seq = 1 } };
    struct root_input in = { .epoch = 1, .generation = 1, .seed = 9, .names_seq = 9 };
    size_t size;

    in.names = rows;
    in.names_count = 4;
    in.tables = tables;
    in.tables_count = 4;
    uint8_t *file = fill(&in, 0, &size);
    struct root_header *h = (struct root_header *)(void *)file;
    struct root_name *names = (struct root_name *)(void *)(file + h->names.off);
    uint64_t heap = 0;
    for (size_t i = 0; i < 4; i++) { /* all with the hash of "a", in the order that they would have then */
        names[i] = (struct root_name){ checksum("a", 1, 9), rows[i].from_seq, rows[i].to_seq, heap, 1,
                                       rows[i].table };
        file[h->heap.off + heap++] = (uint8_t)rows[i].name.data[0];
    }
    h->bucket_bits = 0;
    h->buckets.count = 2;
    memcpy(file + h->buckets.off, (uint32_t[]){ 0, 4 }, 8);
    seal(file, size);

    struct root *r = must_open(file, size);
    static const uint32_t of_a[] = { 0, 1, 1, 0, 3, 3, 0, 0 };
    for (uint64_t at = 0; at < ARRAY_SIZE(of_a); at++)
        ck_assert_uint_eq(find(r, bytes_of("a"), at), of_a[at]);
    ck_assert_uint_eq(find(r, bytes_of("d"), SEQ_MAX), 0);
    root_close(r);
    free(file);
}
END_TEST

START_TEST(rows_are_what_was_put_in)
{
    struct world w = make_world(200, 20, 7);
    size_t size;
    w.tables[0].watermark = 11;
    w.tables[0].retired_by = 12;
    w.tables[0].head_seq = 9;
    w.tables[0].head_part = 1;
    w.tables[0].head_ref = 33;
    uint8_t *file = fill(&w.in, 0xa5, &size);
    struct root *r = must_open(file, size);
    const struct root_header *h = root_header(r);
    struct root_table row;
    struct root_part part;
    struct bytes name;

    ck_assert_uint_eq(h->seg.generation, 3);
    ck_assert_uint_eq(h->seg.epoch, 0xe);
    ck_assert_uint_eq(h->seg.to_seq, 12);
    ck_assert_uint_eq(h->names_seq, 200);
    ck_assert(uuid_equal(&h->seg.log, &w.in.log));
    for (uint32_t table = 1; table <= w.in.tables_count; table++) {
        ck_assert_int_eq(root_get_table(r, table, &row), 1);
        ck_assert_uint_eq(row.created_seq, w.tables[table - 1].created_seq);
        ck_assert_uint_eq(row.dropped_seq, w.tables[table - 1].dropped_seq);
        ck_assert_int_eq(root_table_name(r, table, &name), 1);
        ck_assert(bytes_equal(name, newest_name(&w, table)));
    }
    ck_assert_int_eq(root_get_table(r, 1, &row), 1);
    ck_assert_uint_eq(row.watermark, 11);
    ck_assert_uint_eq(row.retired_by, 12);
    ck_assert_uint_eq(row.head_seq, 9);
    ck_assert_uint_eq(row.head_part, 1);
    ck_assert_uint_eq(row.head_ref, 33);
    ck_assert_int_eq(root_get_table(r, 0, &row), 0);
    ck_assert_int_eq(root_get_table(r, (uint32_t)w.in.tables_count + 1, &row), 0);
    ck_assert_int_eq(root_get_table(r, UINT32_MAX, &row), 0);
    ck_assert_int_eq(root_table_name(r, 0, &name), 0);
    ck_assert_int_eq(root_get_part(r, 1, &part), 1);
    ck_assert_int_eq(memcmp(&part, &w.in.parts[1], sizeof part), 0);
    ck_assert_int_eq(root_get_part(r, 2, &part), 0);
    ck_assert_int_eq(root_get_part(r, SIZE_MAX, &part), 0);
    root_close(r);
    free(file);
    free_world(&w);
}
END_TEST

START_TEST(every_byte_of_the_file_is_written)
{
    for (size_t events = 0; events < 100; events += 9) {
        struct world w = make_world(events, 1 + events / 3, events);
        size_t size, again;
        uint8_t *a = fill(&w.in, 0xa5, &size), *b = fill(&w.in, 0x5a, &again);
        ck_assert_uint_eq(size, again);
        ck_assert_int_eq(memcmp(a, b, size), 0);
        free(a);
        free(b);
        free_world(&w);
    }
}
END_TEST

START_TEST(what_doesnt_fit_has_no_size)
{
    struct root_input in = { .parts_count = (size_t)UINT32_MAX + 1 };
    ck_assert_uint_eq(root_size(&in), 0);
    in = (struct root_input){ .tables_count = SIZE_MAX };
    ck_assert_uint_eq(root_size(&in), 0);
    in = (struct root_input){ .names_count = SIZE_MAX / 2 };
    ck_assert_uint_eq(root_size(&in), 0);
    in = (struct root_input){ .tables_count = UINT32_MAX }; /* 256 GiB of rows are nothing to count */
    ck_assert_uint_gt(root_size(&in), 1ull << 38);
}
END_TEST

/* ---- damage -------------------------------------------------------------------------------------------- */

static volatile uint64_t sink;

static void touch(struct bytes b)
{
    for (size_t i = 0; i < b.len; i++)
        sink += (uint8_t)b.data[i];
}

/* Is there a row in FILE that says so?  Whatever is damaged, an answer is never made up. */
static bool stands_in(const uint8_t *file, const struct root_header *h, struct bytes name, uint64_t at,
                      uint32_t table)
{
    for (uint64_t i = 0; i < h->names.count; i++) {
        struct root_name row;
        memcpy(&row, file + h->names.off + i * sizeof row, sizeof row);
        if (row.table == table && row.from_seq <= at && (row.to_seq == SEQ_MAX || at < row.to_seq) &&
            range_inside(row.off, row.len, h->heap.count) &&
            bytes_equal((struct bytes){ (const char *)file + h->heap.off + row.off, row.len }, name))
            return true;
    }
    return false;
}

/* Ask everything: it must end, and stay inside.  FILE: what it was opened from, if that doesn't change. */
static void ask_everything(const struct root *r, const struct world *w, const uint8_t *file)
{
    static const uint64_t moments[] = { 0, 1, 7, 20, 33, SEQ_MAX };
    uint64_t tables = root_header(r)->tables.count;
    struct root_table row;
    struct root_part part;
    struct bytes name;
    uint32_t table;

    for (size_t i = 0; i < w->pool; i++) {
        for (size_t k = 0; k < ARRAY_SIZE(moments); k++) {
            int found = root_find_table(r, pool_name(i), moments[k], &table);
            ALWAYS(found == 0 || found == SKADE_EDAMAGED || (found == 1 && table >= 1 && table <= tables));
            ALWAYS(found != 1 || !file || stands_in(file, root_header(r), pool_name(i), moments[k], table));
        }
    }
    for (uint32_t i = 0; i <= tables + 1 && i < 100; i++) {
        int found = root_table_name(r, i, &name);
        ALWAYS(found == 0 || found == 1 || found == SKADE_EDAMAGED);
        if (found == 1)
            touch(name);
        root_get_table(r, i, &row);
        root_get_part(r, i, &part);
    }
}

/* Open the copy of a file at a guard page and ask it; how did that go? */
static int open_guarded(const uint8_t *file, size_t size, unsigned flags, const struct world *w)
{
    struct guard g = guard_copy(file, size, 64);
    struct root *r = NULL;

    int result = root_open(&r, g.data, size, flags, &msg);
    ALWAYS(result == 0 || result == SKADE_EDAMAGED || result == SKADE_EVERSION);
    ALWAYS((result == 0) == (r != NULL));
    if (r)
        ask_everything(r, w, g.data);
    root_close(r);
    guard_free(&g);
    return result;
}

START_TEST(every_truncation_is_refused)
{
    struct world w = make_world(30, 8, 4);
    size_t size;
    uint8_t *file = fill(&w.in, 0, &size);

    ck_assert_int_eq(open_guarded(file, size, ROOT_VERIFY, &w), 0);
    for (size_t len = 0; len < size; len++) {
        ALWAYS(open_guarded(file, len, ROOT_VERIFY, &w) == SKADE_EDAMAGED);
        ALWAYS(open_guarded(file, len, 0, &w) == SKADE_EDAMAGED);
    }
    uint8_t *longer = calloc(1, size + 64);
    memcpy(longer, file, size);
    ck_assert_int_eq(open_guarded(longer, size + 64, 0, &w), SKADE_EDAMAGED);
    free(longer);
    free(file);
    free_world(&w);
}
END_TEST

START_TEST(every_truncation_that_its_header_admits_is_refused_or_harmless)
{
    struct world w = make_world(30, 8, 4);
    size_t size;
    uint8_t *file = fill(&w.in, 0, &size);

    for (size_t len = sizeof(struct root_header); len < size; len++) {
        ((struct seg_header *)(void *)file)->size = len;
        seal(file, len);
        open_guarded(file, len, ROOT_VERIFY, &w);
    }
    free(file);
    free_world(&w);
}
END_TEST

START_TEST(every_flipped_bit_is_refused_when_verified)
{
    struct world w = make_world(30, 8, 4);
    size_t size;
    uint8_t *file = fill(&w.in, 0, &size);

    for (size_t bit = 0; bit < size * 8; bit++) {
        file[bit / 8] ^= (uint8_t)(1u << bit % 8);
        struct root *r;
        int result = root_open(&r, file, size, ROOT_VERIFY, NULL);
        ALWAYS(result == (bit / 32 == 2 ? SKADE_EVERSION : SKADE_EDAMAGED));
        file[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    ck_assert_int_eq(open_guarded(file, size, ROOT_VERIFY, &w), 0);
    free(file);
    free_world(&w);
}
END_TEST

START_TEST(every_flipped_bit_is_harmless_when_not_verified)
{
    struct world w = make_world(30, 8, 4);
    size_t size, content = 0;
    uint8_t *file = fill(&w.in, 0, &size);

    for (size_t bit = 0; bit < size * 8; bit++) {
        file[bit / 8] ^= (uint8_t)(1u << bit % 8);
        int result = open_guarded(file, size, 0, &w);
        ALWAYS(result < 0 || bit / 8 >= sizeof(struct root_header));
        content += result == 0;
        file[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    ck_assert_uint_gt(content, 0);
    free(file);
    free_world(&w);
}
END_TEST

/* Values at which additions and products overflow. */
static uint64_t evil(uint64_t *state, uint64_t near)
{
    static const uint64_t values[] = {
        0,          1,          UINT32_MAX,      1ull << 32,          (1ull << 32) + 1,    INT64_MAX,
        1ull << 63, UINT64_MAX, UINT64_MAX - 63, UINT64_MAX / 40 + 1, UINT64_MAX / 64 + 1, UINT64_MAX / 48 + 1
    };
    uint64_t which = random_below(state, ARRAY_SIZE(values) + 4);
    return which < ARRAY_SIZE(values) ? values[which] + random_below(state, 2) * near
                                      : near + random_below(state, 256) - 128;
}

/* Damage that the checksums cover up: as if by a hostile writer. */
static void damage(uint8_t *file, size_t size, uint64_t *state)
{
    size_t header = sizeof(struct root_header);
    unsigned changes = 1 + (unsigned)random_below(state, 3);

    for (unsigned i = 0; i < changes; i++) {
        bool in_header = random_below(state, 2);
        size_t at = in_header ? 16 + random_below(state, header / 8 - 2) * 8
                              : header + random_below(state, (size - header) / 4) * 4;
        uint64_t value;
        memcpy(&value, file + at, in_header ? 8 : 4);
        value = in_header || random_below(state, 2) ? evil(state, value) : random_u64(state);
        memcpy(file + at, &value, in_header ? 8 : 4);
    }
    seal(file, size);
}

START_TEST(forged_files_are_refused_or_harmless)
{
    int rounds = getenv("SKADE_TEST_LONG") ? 3000000 : 60000;
    struct world w = make_world(40, 10, 4);
    size_t size, opened = 0;
    uint8_t *file = fill(&w.in, 0, &size), *forged = malloc(size);
    uint64_t state = 1;

    for (int i = 0; i < rounds; i++) {
        memcpy(forged, file, size);
        damage(forged, size, &state);
        opened += open_guarded(forged, size, i % 2 ? ROOT_VERIFY : 0, &w) == 0;
    }
    ck_assert_uint_gt(opened, (size_t)rounds / 10);
    free(forged);
    free(file);
    free_world(&w);
}
END_TEST

/* Change one value in the header of a good file; is it refused then? */
#define CHECK_REFUSED(field, value)                                                                        \
    do {                                                                                                   \
        memcpy(forged, file, size);                                                                        \
        ((struct root_header *)(void *)forged)->field = (value);                                           \
        seal(forged, size);                                                                                \
        ck_assert_msg(open_guarded(forged, size, ROOT_VERIFY, &w) == SKADE_EDAMAGED, #field " = " #value); \
    } while (0)

START_TEST(impossible_headers_are_refused)
{
    struct world w = make_world(30, 8, 4);
    size_t size;
    uint8_t *file = fill(&w.in, 0, &size), *forged = malloc(size);
    struct root_header h;
    memcpy(&h, file, sizeof h);

    CHECK_REFUSED(seg.size, size + 64);
    CHECK_REFUSED(seg.size, 0);
    CHECK_REFUSED(seg.from_seq, 1);
    CHECK_REFUSED(seg.to_seq, 13);
    CHECK_REFUSED(seg.to_seq, 11);
    CHECK_REFUSED(names_seq, 11);
    CHECK_REFUSED(bucket_bits, h.bucket_bits + 1);
    CHECK_REFUSED(bucket_bits, 32);
    CHECK_REFUSED(bucket_bits, UINT32_MAX);
    CHECK_REFUSED(buckets.count, h.buckets.count + 1);
    CHECK_REFUSED(plain.count, h.plain.count + 1);
    CHECK_REFUSED(plain.count, h.plain.count - 1);
    CHECK_REFUSED(plain.off, size);
    CHECK_REFUSED(tables.count, h.plain.count * 64 + 1); /* more than there are bits */
    CHECK_REFUSED(parts.count, 3);
    CHECK_REFUSED(parts.count, UINT64_MAX);
    CHECK_REFUSED(tables.count, UINT64_MAX / 64 + 2);
    CHECK_REFUSED(names.count, UINT64_MAX / 40 + 2);
    CHECK_REFUSED(heap.count, size);
    CHECK_REFUSED(parts.off, h.parts.off + 1);
    CHECK_REFUSED(parts.off, 128);
    CHECK_REFUSED(heap.off, h.heap.off + 1);
    CHECK_REFUSED(heap.off, 64); /* the header itself */
    CHECK_REFUSED(seg.header_len, sizeof h - 8);
    CHECK_REFUSED(seg.header_len, 1024);
    CHECK_REFUSED(seg.header_len, UINT32_MAX);
    CHECK_REFUSED(names.off, UINT64_MAX - 63);
    CHECK_REFUSED(heap.off, size + 64);
    CHECK_REFUSED(seg.generation, 1); /* a part is of generation 2 */
    ck_assert_uint_lt(h.heap.off + h.heap.count,
                      size); /* or heap.off + 1 would have been out of bounds anyway */
    free(forged);
    free(file);
    free_world(&w);
}
END_TEST

/* Reverse the N elements of SIZE bytes at OFF. */
static void reverse(uint8_t *file, uint64_t off, uint64_t n, size_t size)
{
    for (uint64_t i = 0; i < n / 2; i++) {
        uint8_t a[64], *x = file + off + i * size, *y = file + off + (n - 1 - i) * size;
        memcpy(a, x, size);
        memcpy(x, y, size);
        memcpy(y, a, size);
    }
}

START_TEST(rows_out_of_order_give_no_wrong_answer)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct world w = make_world(60, 1 + seed % 2, seed);
        size_t size;
        uint8_t *file = fill(&w.in, 0, &size);
        struct root_header h;
        memcpy(&h, file, sizeof h);
        reverse(file, h.names.off, h.names.count, sizeof(struct root_name));
        seal(file, size);
        ck_assert_int_eq(open_guarded(file, size, ROOT_VERIFY, &w), 0);
        free(file);
        free_world(&w);
    }
}
END_TEST

START_TEST(buckets_out_of_order_are_damage)
{
    struct world w = make_world(300, 100, 4);
    struct root_header h;
    struct root *r;
    size_t size, damaged = 0;
    uint8_t *file = fill(&w.in, 0, &size);

    memcpy(&h, file, sizeof h);
    reverse(file, h.buckets.off, h.buckets.count, sizeof(uint32_t));
    seal(file, size);
    r = must_open(file, size);
    for (size_t i = 0; i < w.pool; i++) {
        uint32_t table;
        int found = root_find_table(r, pool_name(i), SEQ_MAX, &table);
        ck_assert(found == SKADE_EDAMAGED || found == 0); /* an empty bucket stays one */
        damaged += found < 0;
    }
    ck_assert_uint_gt(damaged, 20);
    root_close(r);
    free(file);
    free_world(&w);
}
END_TEST

START_TEST(parts_must_follow_each_other)
{
    static const struct root_part bad[][2] = {
        { { 1, 1, 10, 1, 1, 1 }, { 2, 10, 12, 1, 1, 1 } }, /* doesn't begin at 0 */
        { { 1, 0, 9, 1, 1, 1 }, { 2, 10, 12, 1, 1, 1 } },  /* a gap */
        { { 1, 0, 11, 1, 1, 1 }, { 2, 10, 12, 1, 1, 1 } }, /* an overlap */
        { { 1, 0, 15, 1, 1, 1 }, { 2, 15, 12, 1, 1, 1 } }, /* backwards */
        { { 0, 0, 10, 1, 1, 1 }, { 2, 10, 12, 1, 1, 1 } }, /* of no generation */
        { { 1, 0, 10, 1, 1, 1 }, { 4, 10, 12, 1, 1, 1 } }, /* of a later one */
    };
    struct world w = make_world(30, 8, 4);
    size_t size;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        w.in.parts = bad[i];
        uint8_t *file = fill(&w.in, 0, &size);
        ck_assert_msg(open_guarded(file, size, ROOT_VERIFY, &w) == SKADE_EDAMAGED, "%zu", i);
        free(file);
    }
    free_world(&w);
}
END_TEST

START_TEST(other_files_are_refused)
{
    uint8_t file[4096] = { 0 };
    struct world w = make_world(0, 1, 1);

    ck_assert_int_eq(open_guarded(file, sizeof file, 0, &w), SKADE_EDAMAGED);
    memset(file, 0xff, sizeof file);
    ck_assert_int_eq(open_guarded(file, sizeof file, 0, &w), SKADE_EDAMAGED);
    memcpy(file, FORMAT_MAGIC_PART, 8);
    ck_assert_int_eq(open_guarded(file, sizeof file, 0, &w), SKADE_EDAMAGED);
    memcpy(file, FORMAT_MAGIC_ROOT, 8);
    memcpy(file + 8, (uint32_t[]){ FORMAT_MAJOR + 1 }, 4);
    ck_assert_int_eq(open_guarded(file, sizeof file, 0, &w), SKADE_EVERSION);
    free_world(&w);
}
END_TEST

/* A header may grow at its end: what stands there is in the checksum and otherwise ignored. */
START_TEST(a_longer_header_of_this_format_is_read)
{
    struct world w = make_world(30, 8, 4);
    size_t size;
    uint8_t *file = fill(&w.in, 0, &size), *longer = calloc(1, size + 64);
    size_t old = sizeof(struct root_header);
    struct root_header *h = (struct root_header *)(void *)longer;

    memcpy(longer, file, old);
    memset(longer + old, 9, 64);
    memcpy(longer + old + 64, file + old, size - old);
    h->seg.size = size + 64;
    h->seg.header_len = (uint32_t)old + 64;
    struct section *const sections[] = { &h->parts, &h->tables, &h->names, &h->buckets, &h->heap };
    for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
        sections[i]->off += 64;
    h->seg.content_check = checksum(longer + old + 64, size - old, 0);
    h->seg.header_check = checksum(longer + sizeof h->seg, old + 64 - sizeof h->seg,
                                   checksum(longer, offsetof(struct seg_header, header_check), 0));
    struct root *r = must_open(longer, size + 64);
    check_names_at(r, &w, 20);
    root_close(r);
    longer[old] ^= 1;
    ck_assert_int_eq(root_open(&r, longer, size + 64, 0, NULL), SKADE_EDAMAGED);
    free(longer);
    free(file);
    free_world(&w);
}
END_TEST

/* ---- double fetches ------------------------------------------------------------------------------------ */

struct mutation {
    uint8_t *file;
    size_t size;
    _Atomic bool stop;
};

static void *mutate(void *arg)
{
    struct mutation *m = arg;
    uint64_t state = 7;
    while (!atomic_load(&m->stop)) {
        size_t at =
            sizeof(struct root_header) + random_below(&state, (m->size - sizeof(struct root_header)) / 4) * 4;
        volatile uint32_t *word = (volatile uint32_t *)(void *)(m->file + at);
        uint32_t good = *word;
        *word = (uint32_t)random_u64(&state);
        *word = good;
    }
    return NULL;
}

START_TEST(content_that_changes_meanwhile_is_harmless)
{
    struct world w = make_world(40, 10, 4);
    struct mutation m = { .size = 0 };
    uint8_t *file = fill(&w.in, 0, &m.size);
    struct guard g = guard_make(m.size, 64);
    struct root *r;
    pthread_t thread;

    memcpy(g.data, file, m.size);
    m.file = g.data;
    ck_assert_int_eq(root_open(&r, g.data, m.size, 0, &msg), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, mutate, &m), 0);
    for (int i = 0; i < 20000; i++)
        ask_everything(r, &w, NULL);
    atomic_store(&m.stop, true);
    pthread_join(thread, NULL);
    root_close(r);
    guard_free(&g);
    free(file);
    free_world(&w);
}
END_TEST

Suite *root_suite(void);
Suite *root_suite(void)
{
    Suite *s = suite_create("root");
    TCase *t = tcase_create("root");
    tcase_set_timeout(t, getenv("SKADE_TEST_LONG") ? 600 : 60);
    tcase_add_test(t, names_are_found_as_of_every_event);
    tcase_add_test(t, many_names_are_found);
    tcase_add_test(t, plain_tables_are_those_that_live_and_lost_nothing);
    tcase_add_test(t, a_name_that_went_back_and_forth_is_found);
    tcase_add_test(t, names_with_the_same_hash_are_told_apart);
    tcase_add_test(t, rows_are_what_was_put_in);
    tcase_add_test(t, every_byte_of_the_file_is_written);
    tcase_add_test(t, what_doesnt_fit_has_no_size);
    tcase_add_test(t, every_truncation_is_refused);
    tcase_add_test(t, every_truncation_that_its_header_admits_is_refused_or_harmless);
    tcase_add_test(t, every_flipped_bit_is_refused_when_verified);
    tcase_add_test(t, every_flipped_bit_is_harmless_when_not_verified);
    tcase_add_test(t, forged_files_are_refused_or_harmless);
    tcase_add_test(t, impossible_headers_are_refused);
    tcase_add_test(t, rows_out_of_order_give_no_wrong_answer);
    tcase_add_test(t, buckets_out_of_order_are_damage);
    tcase_add_test(t, parts_must_follow_each_other);
    tcase_add_test(t, other_files_are_refused);
    tcase_add_test(t, a_longer_header_of_this_format_is_read);
    if (!HAS_TSAN)
        tcase_add_test(t, content_that_changes_meanwhile_is_harmless);
    suite_add_tcase(s, t);
    return s;
}
