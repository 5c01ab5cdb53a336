#include "part_view.h"

#include <check.h>
#include <stdlib.h>

/* A tree over a sorted array, with leaves of eight. */
struct fixture {
    struct stree64 tree;
    struct stree64_node *nodes;
    int64_t *keys;
    uint64_t n;
};

/* ck_assert() notes every call in a file; this one is for loops of millions. */
#define ALWAYS(condition) ((condition) ? (void)0 : ck_abort_msg("%s", #condition))

static uint64_t state = 1;
static int64_t next_random(void)
{
    state += 0x9e3779b97f4a7c15ull;
    return (int64_t)mix64(state);
}

static int compare_keys(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Takes KEYS over. */
static struct fixture grow(int64_t *keys, uint64_t n)
{
    struct fixture f = { .keys = keys, .n = n };
    qsort(keys, n, sizeof *keys, compare_keys);
    ck_assert(stree64_shape((n + STREE64_KEYS - 1) / STREE64_KEYS, &f.tree.shape));
    f.nodes = malloc((f.tree.shape.nodes + 1) * sizeof *f.nodes);
    f.tree.nodes = f.nodes;
    stree64_fill(&f.tree.shape, f.nodes, keys + STREE64_KEYS - 1, STREE64_KEYS * sizeof *keys);
    return f;
}

static void fell(struct fixture *f)
{
    free(f->nodes);
    free(f->keys);
}

static uint64_t slow_lower_bound(const int64_t *keys, uint64_t n, int64_t q)
{
    uint64_t low = 0;
    uint64_t high = n;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (keys[middle] < q)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void check_query(const struct fixture *f, int64_t q)
{
    uint64_t expected = slow_lower_bound(f->keys, f->n, q);
    ALWAYS(stree64_lower_bound(&f->tree, f->keys, f->n, q, stree64_leaf) == expected);
    for (enum part_isa isa = PART_SCALAR; isa <= PART_AVX512; isa++) {
        if (part_isa_has(isa))
            ALWAYS(stree64_lower_bound(&f->tree, f->keys, f->n, q, part_kernel_of(isa)->leaf) == expected);
    }
}

static void check_around(const struct fixture *f, int64_t key)
{
    check_query(f, key);
    if (key > INT64_MIN)
        check_query(f, key - 1);
    if (key < INT64_MAX)
        check_query(f, key + 1);
}

/* All keys, their neighbours, the extremes and some random ones. */
static void check_all(const struct fixture *f, uint64_t step)
{
    check_around(f, INT64_MIN);
    check_around(f, INT64_MAX);
    check_around(f, 0);
    for (uint64_t i = 0; i < f->n; i += step)
        check_around(f, f->keys[i]);
    for (int i = 0; i < 100; i++)
        check_query(f, next_random());
}

static int64_t *random_keys(uint64_t n)
{
    int64_t *keys = malloc((n + 1) * sizeof *keys);
    for (uint64_t i = 0; i < n; i++)
        keys[i] = next_random();
    return keys;
}

START_TEST(every_size_up_to_600_finds_every_key)
{
    for (uint64_t n = 0; n <= 600; n++) {
        struct fixture f = grow(random_keys(n), n);
        check_all(&f, 1);
        fell(&f);
    }
}
END_TEST

START_TEST(sizes_around_powers_of_nine_find_every_key)
{
    for (uint64_t power = 9; power <= 59049; power *= 9) {
        for (uint64_t n = power - 1; n <= power + 1; n++) {
            struct fixture in_keys = grow(random_keys(n), n);
            check_all(&in_keys, power > 6561 ? 7 : 1);
            fell(&in_keys);
            struct fixture in_leaves = grow(random_keys(n * STREE64_KEYS), n * STREE64_KEYS);
            check_all(&in_leaves, power > 729 ? 31 : 1);
            fell(&in_leaves);
        }
    }
}
END_TEST

START_TEST(a_million_random_keys_are_found)
{
    struct fixture f = grow(random_keys(1000000), 1000000);
    check_all(&f, 17);
    fell(&f);
}
END_TEST

START_TEST(the_lowest_of_equal_keys_is_found)
{
    for (uint64_t n = 1; n <= 600; n += 7) {
        for (int64_t distinct = 1; distinct <= 5; distinct++) {
            int64_t *keys = malloc(n * sizeof *keys);
            for (uint64_t i = 0; i < n; i++)
                keys[i] = (next_random() & 0xffff) % distinct;
            struct fixture f = grow(keys, n);
            check_all(&f, 1);
            fell(&f);
        }
    }
}
END_TEST

START_TEST(extreme_keys_are_ordinary)
{
    static const int64_t extremes[] = { INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX };
    for (uint64_t n = 1; n <= 300; n++) {
        int64_t *keys = malloc(n * sizeof *keys);
        for (uint64_t i = 0; i < n; i++)
            keys[i] = extremes[(uint64_t)next_random() % (sizeof extremes / sizeof *extremes)];
        struct fixture f = grow(keys, n);
        check_all(&f, 1);
        fell(&f);
    }
}
END_TEST

/* Leaves with gaps, as blocks have them: an empty one repeats the greatest key so far. */
START_TEST(empty_leaves_are_skipped)
{
    enum { LEAVES = 200 };
    for (int round = 0; round < 50; round++) {
        int64_t maxima[LEAVES];
        bool empty[LEAVES];
        int64_t key = -1000;
        for (int i = 0; i < LEAVES; i++) {
            empty[i] = i > 0 && next_random() % 3 == 0;
            maxima[i] = key += empty[i] ? 0 : 1 + (next_random() & 7);
        }
        struct stree64 tree;
        struct stree64_node nodes[LEAVES];
        ck_assert(stree64_shape(LEAVES, &tree.shape));
        stree64_fill(&tree.shape, nodes, maxima, sizeof *maxima);
        tree.nodes = nodes;
        for (int64_t q = -1010; q <= key; q++) {
            uint64_t leaf = stree64_leaf(&tree, q);
            ALWAYS(maxima[leaf] >= q && (leaf == 0 || maxima[leaf - 1] < q) && !empty[leaf]);
        }
    }
}
END_TEST

START_TEST(damaged_nodes_lead_to_some_leaf)
{
    struct fixture f = grow(random_keys(5000), 5000);
    for (int round = 0; round < 20000; round++) {
        uint64_t node = (uint64_t)next_random() % f.tree.shape.nodes;
        f.nodes[node].key[(uint64_t)next_random() % STREE64_KEYS] = next_random();
        for (enum part_isa isa = PART_SCALAR; isa <= PART_AVX512; isa++) {
            if (part_isa_has(isa))
                ALWAYS(part_kernel_of(isa)->leaf(&f.tree, next_random()) < f.tree.shape.leaves);
        }
    }
    fell(&f);
}
END_TEST

START_TEST(a_tree_of_too_many_leaves_is_refused)
{
    struct stree64_shape shape;
    ck_assert(stree64_shape(282429536481ull, &shape)); /* 9^12 */
    ck_assert_uint_eq(shape.height, STREE64_LEVELS);
    ck_assert(!stree64_shape(282429536482ull, &shape));
    ck_assert(!stree64_shape(UINT64_MAX, &shape));
}
END_TEST

Suite *stree64_suite(void);
Suite *stree64_suite(void)
{
    Suite *suite = suite_create("stree64");
    TCase *tcase = tcase_create("stree64");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, every_size_up_to_600_finds_every_key);
    tcase_add_test(tcase, sizes_around_powers_of_nine_find_every_key);
    tcase_add_test(tcase, a_million_random_keys_are_found);
    tcase_add_test(tcase, the_lowest_of_equal_keys_is_found);
    tcase_add_test(tcase, extreme_keys_are_ordinary);
    tcase_add_test(tcase, empty_leaves_are_skipped);
    tcase_add_test(tcase, damaged_nodes_lead_to_some_leaf);
    tcase_add_test(tcase, a_tree_of_too_many_leaves_is_refused);
    suite_add_tcase(suite, tcase);
    return suite;
}
