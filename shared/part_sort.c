/*
 * Sorting by 64-bit keys: least significant digit first, a byte at a time.
 *
 * Mixed keys are told apart by their upper digits, so the lower ones are left out at first; what then stands side by
 * side with equal upper digits is sorted by all of them.  Digits that are the same in all keys cost nothing, so that
 * small numbers (tables, sequences) sort in two or three passes.
 */
#include "part_plan.h"

#define DIGITS 8
#define VALUES 256
#define LOWER 3 /* digits that are left out at first */
#define FEW 48  /* below, clearing the histograms would cost more than insertion */

static void insertion_sort(struct plan_item *items, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct plan_item item = items[i];
        size_t at = i;
        for (; at > 0 && items[at - 1].key > item.key; at--)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

static unsigned digit_of(uint64_t key, unsigned digit)
{
    return key >> (8 * digit) & (VALUES - 1);
}

/* Count every digit of every key.  false: the items are sorted already. */
static bool count_digits(const struct plan_item *items, size_t n, size_t counts[DIGITS][VALUES])
{
    uint64_t before = 0;
    bool sorted = true;
    for (size_t i = 0; i < n; i++) {
        uint64_t key = items[i].key;
        sorted &= before <= key;
        before = key;
        for (unsigned digit = 0; digit < DIGITS; digit++)
            counts[digit][digit_of(key, digit)]++;
    }
    return !sorted;
}

static void scatter(const struct plan_item *from, struct plan_item *to, size_t n, unsigned digit,
                    size_t counts[VALUES])
{
    size_t start = 0;
    for (unsigned value = 0; value < VALUES; value++) {
        size_t count = counts[value];
        counts[value] = start;
        start += count;
    }
    for (size_t i = 0; i < n; i++)
        to[counts[digit_of(from[i].key, digit)]++] = from[i];
}

/* Sort by the digits from FIRST on. */
static void sort_from(struct plan_item *items, size_t n, struct plan_item *scratch, unsigned first)
{
    size_t counts[DIGITS][VALUES] = { 0 };
    if (!count_digits(items, n, counts))
        return;
    struct plan_item *from = items;
    struct plan_item *to = scratch;
    for (unsigned digit = first; digit < DIGITS; digit++) {
        if (counts[digit][digit_of(from[0].key, digit)] == n)
            continue;
        scatter(from, to, n, digit, counts[digit]);
        struct plan_item *swap = from;
        from = to;
        to = swap;
    }
    if (from != items)
        memcpy(items, from, n * sizeof *items);
}

static uint64_t upper_digits(uint64_t key)
{
    return key >> (8 * LOWER);
}

/* Items with equal upper digits stand side by side: sort each such run. */
static void sort_runs(struct plan_item *items, size_t n, struct plan_item *scratch)
{
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && upper_digits(items[end].key) == upper_digits(items[i].key);)
            end++;
        if (end - i <= FEW)
            insertion_sort(items + i, end - i);
        else
            sort_from(items + i, end - i, scratch, 0);
    }
}

void plan_sort(struct plan_item *items, size_t n, struct plan_item *scratch)
{
    if (n <= FEW) {
        insertion_sort(items, n);
        return;
    }
    sort_from(items, n, scratch, LOWER);
    sort_runs(items, n, scratch);
}
