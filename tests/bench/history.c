/*
 * What was committed, as a function of table and version, so that nobody has to remember it: ids of several kinds,
 * locations and times as tests/support/synthetic.h makes them.  And questions about it, and whether the answers are
 * right.
 */
#include "bench.h"

#include "mix.h"
#include "synthetic.h"

#include <stdlib.h>

#define OUTLIER_ID INT64_MAX
#define MIX_SEED 7 /* of the peers' keys */

static char where[WINDOW][LOCATION_ROOM];
struct skade_answer answers[WINDOW];

/* ---- commits --------------------------------------------------------------------------------------------------- */

static uint64_t ordinal(const struct history *h, uint32_t table, uint32_t version)
{
    return (uint64_t)version * h->tables + (table - 1);
}

uint64_t history_seq(const struct history *h, uint32_t table, uint32_t version)
{
    return h->first_seq + ordinal(h, table, version);
}

int64_t history_id(const struct history *h, uint32_t table, uint32_t version)
{
    uint64_t n = ordinal(h, table, version);

    switch (h->ids) {
    case IDS_RANDOM:
        return synthetic_id(table, version);
    case IDS_COUNTED:
        return (int64_t)n;
    case IDS_TIMED: /* milliseconds, and a little noise below them */
        return (int64_t)((1700000000000 + n) << 20 | (synthetic_mix(n) & 0xfff));
    case IDS_OUTLIER:
        return n + 1 == history_rows(h) ? OUTLIER_ID : (int64_t)n;
    case IDS_SHARED: /* cloned tables */
        return (int64_t)synthetic_mix(version);
    }
    return 0;
}

/* ---- in the order of the peers' keys --------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
    const struct sorted_key *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

static int compare_table_then_key(const void *a, const void *b)
{
    const struct sorted_key *x = a, *y = b;
    return x->table != y->table ? (x->table > y->table) - (x->table < y->table) : compare_keys(a, b);
}

uint64_t mixed_key(uint32_t table, int64_t id)
{
    return (uint64_t)key_of(table, id, MIX_SEED) ^ MIX_SIGN;
}

static struct sorted_key *sorted(const struct history *h, bool mixed)
{
    size_t n = 0;
    struct sorted_key *keys = allocate(history_rows(h) * sizeof *keys);

    for (uint32_t version = 0; version < h->versions; version++)
        for (uint32_t table = 1; table <= h->tables; table++) {
            int64_t id = history_id(h, table, version);
            keys[n++] = (struct sorted_key){ mixed ? mixed_key(table, id) : (uint64_t)id, table, version };
        }
    qsort(keys, n, sizeof *keys, mixed ? compare_keys : compare_table_then_key);
    return keys;
}

struct sorted_key *history_by_mixed_key(const struct history *h)
{
    struct sorted_key *keys = sorted(h, true);

    /* Then a peer that finds the key has found the row, and need not look for another. */
    for (uint64_t i = 1; i < history_rows(h); i++) {
        if (keys[i].key == keys[i - 1].key)
            die("two rows have the same mixed key: choose another MIX_SEED");
    }
    return keys;
}

struct sorted_key *history_by_id(const struct history *h)
{
    return sorted(h, false);
}

/* ---- questions ------------------------------------------------------------------------------------------------- */

void ask_at_random(const struct history *h, unsigned misses, struct question *ret, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t r = random_next();
        uint32_t table = 1 + (uint32_t)((r & UINT32_MAX) * h->tables >> 32);
        uint32_t version = (uint32_t)((r >> 32) * h->versions >> 32);
        bool missing = misses > 0 && random_next() % 100 < misses;
        ret[i] = (struct question){ .id = missing ? (int64_t)random_next() : history_id(h, table, version),
                                    .table = table,
                                    .version = missing ? NOT_THERE : version };
    }
}

void ask_for_heads(const struct history *h, struct question *ret, size_t n)
{
    ask_at_random(h, 0, ret, n);
    for (size_t i = 0; i < n; i++)
        ret[i].version = h->versions - 1;
}

/* ---- answers ------------------------------------------------------------------------------------------------------ */

static bool is_right(const struct history *h, const struct question *q, const struct skade_answer *a,
                     enum answer_depth depth)
{
    char text[LOCATION_ROOM];

    if (q->version == NOT_THERE)
        return a->status != 1;
    int len = synthetic_location(text, q->table, q->version);
    if (a->status != 1 || a->location_len != (uint32_t)len || memcmp(a->location, text, (size_t)len + 1) != 0)
        return false;
    return depth == LOCATION_ONLY || (a->seq == history_seq(h, q->table, q->version) &&
                                      a->time_us == synthetic_time_us(q->table, q->version));
}

uint64_t judge_answers(const struct history *h, const struct question *q, size_t n, enum answer_depth depth)
{
    uint64_t wrong = 0;

    for (size_t i = n > WINDOW ? n - WINDOW : 0; i < n; i++)
        wrong += !is_right(h, &q[i], &answers[i % WINDOW], depth);
    return wrong;
}

void answers_clear(void)
{
    for (size_t i = 0; i < WINDOW; i++) {
        memset(where[i], 0, sizeof where[i]);
        answers[i] = (struct skade_answer)SKADE_ANSWER(where[i], sizeof where[i]);
    }
}
