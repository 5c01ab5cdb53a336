/*
 * Which files may share a key with another one?
 *
 *      newer      |---0---|      |------2------|
 *      newer                |-1-|          |-----3-----|        2 and 3, and 5 because of 3
 *      base         |-4-|                             |--5--|
 *                                                               (and 0 and 4)
 *
 * Each file says between which keys its own lie.  Ordered by their low ends, a file meets one before it when the highest
 * end so far isn't before its own low end, and one behind it when the next one begins before its own end.  Files of a base
 * have no key in common, so they only meet newer ones.  A newer file with a key that may be in it twice meets itself.
 *
 * Keys that ascend from commit to commit are the common case, and then nothing meets and no index is read.
 */
#include "key_range.h"
#include "rowset_inner.h"

#include <errno.h>
#include <stdlib.h>

/* The bounds of a file in as many bytes as they need: first the low one's. */
struct key_span {
    uint8_t low_len, high_len;
    uint8_t bytes[];
};

int key_span_make(struct key_span **ret, const struct key_bound *low, const struct key_bound *high)
{
    struct key_span *s = malloc(sizeof *s + low->len + high->len);

    if (!s)
        return -ENOMEM;
    s->low_len = low->len;
    s->high_len = high->len;
    memcpy(s->bytes, low->bytes, low->len);
    memcpy(s->bytes + low->len, high->bytes, high->len);
    *ret = s;
    return 0;
}

bool key_span_says(const struct key_span *s, const struct key_bound *low, const struct key_bound *high)
{
    return s->low_len == low->len && s->high_len == high->len &&
           memcmp(s->bytes, low->bytes, low->len) == 0 &&
           memcmp(s->bytes + low->len, high->bytes, high->len) == 0;
}

bool key_span_may_have(const struct key_span *s, struct bytes key)
{
    size_t len = key.len < KEY_BOUND_MAX ? key.len : KEY_BOUND_MAX;

    return key_bytes_compare(key.data, len, s->bytes, s->low_len) >= 0 &&
           key_bytes_compare(key.data, len, s->bytes + s->low_len, s->high_len) <= 0;
}

static int compare_lows(const struct key_span *a, const struct key_span *b)
{
    return key_bytes_compare(a->bytes, a->low_len, b->bytes, b->low_len);
}

static int compare_highs(const struct key_span *a, const struct key_span *b)
{
    return key_bytes_compare(a->bytes + a->low_len, a->high_len, b->bytes + b->low_len, b->high_len);
}

bool key_span_before(const struct key_span *a, const struct key_span *b)
{
    return key_bytes_compare(a->bytes + a->low_len, a->high_len, b->bytes, b->low_len) < 0;
}

/* ---- all that lies between the ends of some files ---------------------------------------------------------- */

void key_hull_add(struct key_hull *h, const struct key_span *span)
{
    if (!h->lowest || compare_lows(span, h->lowest) < 0)
        h->lowest = span;
    if (!h->highest || compare_highs(span, h->highest) > 0)
        h->highest = span;
}

bool key_hull_meets(const struct key_hull *h, const struct key_span *span)
{
    return h->lowest && !key_span_before(h->highest, span) && !key_span_before(span, h->lowest);
}

/* ---- the sweep --------------------------------------------------------------------------------------------- */

static int by_low(const void *a, const void *b, void *arg)
{
    const struct data_file *files = arg;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    int r = compare_lows(files[i].keys, files[j].keys);

    return r ? r : (i > j) - (i < j);
}

static bool in_order(const struct data_file *files, const uint32_t *order, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (compare_lows(files[order[i - 1]].keys, files[order[i]].keys) > 0)
            return false;
    return true;
}

static void keep_highest(const struct key_span **highest, const struct key_span *span)
{
    if (!*highest || compare_highs(span, *highest) > 0)
        *highest = span;
}

/* Those that meet one before them in ORDER. */
static void look_back(struct rowset *s, const uint32_t *order, size_t n)
{
    const struct key_span *of_newer = NULL, *of_all = NULL;

    for (size_t i = 0; i < n; i++) {
        struct data_file *d = &s->files[order[i]];
        bool newer = order[i] >= s->base_n;
        const struct key_span *highest = newer ? of_all : of_newer;
        if (highest && !key_span_before(highest, d->keys))
            d->meets = true;
        keep_highest(&of_all, d->keys);
        if (newer)
            keep_highest(&of_newer, d->keys);
    }
}

/* Those that meet one behind them. */
static void look_ahead(struct rowset *s, const uint32_t *order, size_t n)
{
    const struct key_span *next_newer = NULL, *next = NULL;

    for (size_t i = n; i-- > 0;) {
        struct data_file *d = &s->files[order[i]];
        bool newer = order[i] >= s->base_n;
        const struct key_span *behind = newer ? next : next_newer;
        if (behind && !key_span_before(d->keys, behind))
            d->meets = true;
        next = d->keys;
        if (newer)
            next_newer = d->keys;
    }
}

int rowset_find_meeting(struct rowset *s, struct errmsg *msg)
{
    uint32_t *order = malloc((s->n + 1) * sizeof *order);
    size_t n = 0;

    if (!order)
        return fail(msg, -ENOMEM, "no memory for a list of %zu files", s->n);
    for (size_t i = 0; i < s->n; i++) {
        struct data_file *d = &s->files[i];
        assert(d->known);
        d->meets = i >= s->base_n && !d->keys_differ;
        if (d->keyed > 0)
            order[n++] = (uint32_t)i;
    }
    if (!in_order(s->files, order, n))
        qsort_r(order, n, sizeof *order, by_low, s->files);
    look_back(s, order, n);
    look_ahead(s, order, n);
    free(order);
    return 0;
}
