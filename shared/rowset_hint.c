/*
 * Hints: which files may have a key.
 *
 * A file's index is sorted, so its hashes are a run as they come.  Runs are merged when the newer of two is at least
 * half as long, so that there are never more than a few dozen, and each hint is moved a few dozen times at most.
 */
#include "rowset_inner.h"

#include <errno.h>
#include <stdlib.h>

void hints_fini(struct hints *h)
{
    while (h->run_count)
        free(h->runs[--h->run_count].at);
    free(h->unlisted);
    *h = (struct hints){ .limit = h->limit };
}

/* Upper half of the hash, in the order of signed hashes. */
static uint64_t prefix_of(int64_t hash)
{
    return ((uint64_t)hash ^ 1ull << 63) >> 32;
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

static void merge_runs(uint64_t *to, const struct hint_run *a, const struct hint_run *b)
{
    size_t i = 0, j = 0;

    while (i < a->n || j < b->n)
        *to++ = j == b->n || (i < a->n && a->at[i] <= b->at[j]) ? a->at[i++] : b->at[j++];
}

/* Make one run of the last two. */
static int join_last(struct hints *h)
{
    struct hint_run *a = &h->runs[h->run_count - 2], *b = a + 1;
    uint64_t *both = malloc((a->n + b->n) * sizeof *both);

    if (!both)
        return -ENOMEM;
    merge_runs(both, a, b);
    free(a->at);
    free(b->at);
    *a = (struct hint_run){ both, a->n + b->n };
    h->run_count--;
    return 0;
}

static int settle_runs(struct hints *h)
{
    int r = 0;

    while (r == 0 && h->run_count > 1 && h->runs[h->run_count - 1].n >= h->runs[h->run_count - 2].n / 2)
        r = join_last(h);
    return r;
}

static int add_run(struct hints *h, uint32_t file, const struct entry_index *index)
{
    /* Runs shrink by half, so there are too many only where memory for joining them was refused. */
    uint64_t *at = h->run_count < ARRAY_SIZE(h->runs) ? malloc(index->count * sizeof *at) : NULL;

    if (!at)
        return -ENOMEM;
    for (uint64_t i = 0; i < index->count; i++)
        at[i] = prefix_of(index->hashes[i]) << 32 | file;
    h->runs[h->run_count++] = (struct hint_run){ at, index->count };
    h->used += index->count;
    return settle_runs(h);
}

/* The greatest hint below LIMIT in a run, or NULL. */
static const uint64_t *run_below(const struct hint_run *run, uint64_t limit)
{
    size_t from = 0, to = run->n;

    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (run->at[middle] < limit)
            from = middle + 1;
        else
            to = middle;
    }
    return from ? &run->at[from - 1] : NULL;
}

/* ---- files that aren't in a run: a bit each ----------------------------------------------------------------- */

static int add_unlisted(struct hints *h, uint32_t file)
{
    size_t words = file / 64 + 1;

    if (words > h->unlisted_words) {
        uint64_t *unlisted = realloc(h->unlisted, words * 2 * sizeof *unlisted);
        if (!unlisted)
            return -ENOMEM;
        memset(unlisted + h->unlisted_words, 0, (words * 2 - h->unlisted_words) * sizeof *unlisted);
        h->unlisted = unlisted;
        h->unlisted_words = words * 2;
    }
    h->unlisted[file / 64] |= 1ull << file % 64;
    return 0;
}

static int64_t unlisted_below(const struct hints *h, uint64_t below)
{
    uint64_t end = h->unlisted_words * 64;

    if (below > end)
        below = end;
    if (below == 0)
        return -1;
    size_t i = (below - 1) / 64;
    uint64_t word = h->unlisted[i] & UINT64_MAX >> (63 - (below - 1) % 64);
    while (word == 0 && i > 0)
        word = h->unlisted[--i];
    return word ? (int64_t)(i * 64 + 63 - (unsigned)__builtin_clzll(word)) : -1;
}

/* ---- both ---------------------------------------------------------------------------------------------- */

/* A file that would take more than this part of the budget isn't worth it: it is one of few, and has a tree. */
#define FILE_SHARE 16

int hints_add(struct hints *h, uint32_t file, const struct entry_index *index)
{
    if (index->count == 0)
        return 0;
    if (index->count > h->limit / FILE_SHARE || index->count > h->limit - h->used)
        return add_unlisted(h, file);
    return add_run(h, file, index);
}

int64_t hints_below(const struct hints *h, int64_t hash, uint64_t below)
{
    int64_t best = unlisted_below(h, below);

    for (unsigned i = 0; i < h->run_count; i++) {
        const uint64_t *hint = run_below(&h->runs[i], prefix_of(hash) << 32 | below);
        if (hint && *hint >> 32 == prefix_of(hash) && (int64_t)(uint32_t)*hint > best)
            best = (uint32_t)*hint;
    }
    return best;
}
