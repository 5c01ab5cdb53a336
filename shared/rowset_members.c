/*
 * Rows that may kill each other: (hash, file, place) of keyed rows, by hash.
 *
 *   files   whose keys may be those of another one too: rowset_ranges.c
 *   prints  of every keyed row in them committed after the base: upper bits of its hash, file; 8 bytes together
 *             |  sorted: which meet each other, or a row of the base?
 *   wanted  (file, upper bits) of those
 *             |  by file: only files with one are opened again
 *   newer   their (hash, file, place)
 *   older   the same of the base's rows that a print meets; a base alone has no two rows of one key
 *
 * Most rows meet nobody, and for them 8 bytes are sorted instead of 24.  That upper bits meet is no proof: members with a
 * hash of their own may be among the others, and are harmless.  Indexes are sorted already, so a base's is not sorted
 * again, however long it is: it is joined with the prints.  One file is open at a time.
 */
#include "rowset_inner.h"

#include <assert.h>

#define SOME 512 /* numbers that go from hand to hand together */
#define SIGN (1ull << 63)

static int step(struct members *m, struct errmsg *msg)
{
    return ++m->steps % 1024 == 0 ? rowset_cancelled(m->set, msg) : 0;
}

static int open_sorter(struct members *m, struct sorter **ret, unsigned words, enum share share,
                       struct errmsg *msg)
{
    return sorter_open(ret, words, rowset_share(m->set, share), m->temp_dir, msg);
}

static void drop_sorter(struct sorter **s)
{
    sorter_close(*s);
    *s = NULL;
}

/* ---- prints ------------------------------------------------------------------------------------------------ */

/* One bit more than ordinals need, so that a wanted one is never negative. */
static unsigned bits_for(size_t files)
{
    unsigned bits = 2;

    while (files >> (bits - 1))
        bits++;
    return bits;
}

/* The upper bits of a hash: ascending, as hashes are. */
static uint64_t upper(const struct members *m, int64_t hash)
{
    return ((uint64_t)hash ^ SIGN) >> m->file_bits;
}

/* The smallest hash with these upper bits. */
static int64_t hash_of(const struct members *m, uint64_t bits)
{
    return (int64_t)(bits << m->file_bits ^ SIGN);
}

/* Sorters sort signed numbers. */
static uint64_t make_print(const struct members *m, int64_t hash, uint64_t file)
{
    return (upper(m, hash) << m->file_bits | file) ^ SIGN;
}

static uint64_t print_upper(const struct members *m, uint64_t print)
{
    return (print ^ SIGN) >> m->file_bits;
}

static uint64_t print_file(const struct members *m, uint64_t print)
{
    return print & ((1ull << m->file_bits) - 1);
}

static int add_prints(struct members *m, struct entry_file *f, size_t i, struct errmsg *msg)
{
    struct entry_index index;
    uint64_t prints[SOME];

    int r = entry_file_index(f, &index, msg);
    for (uint64_t at = 0; r == 0 && at < index.count;) {
        size_t n = 0;
        for (; n < SOME && at < index.count; n++)
            prints[n] = make_print(m, index.hashes[at++], i);
        r = sorter_add_many(m->prints, prints, n, msg);
        if (r == 0)
            r = rowset_cancelled(m->set, msg);
    }
    return r;
}

static int open_prints(struct members *m, size_t i, struct errmsg *msg)
{
    struct entry_file *f;

    int r = rowset_file_open(m->set, i, &f, msg);
    if (r < 0)
        return r;
    r = add_prints(m, f, i, msg);
    entry_file_close(f);
    return r;
}

/* A file that has to be opened to be known, and lies among those before it, most likely meets one of them: then it needn't
 * be opened again for its prints. */
static int learn_file(struct members *m, size_t i, struct key_hull *hull, struct errmsg *msg)
{
    struct data_file *d = &m->set->files[i];
    struct entry_file *f;

    int r = rowset_file_open(m->set, i, &f, msg);
    if (r < 0)
        return r;
    d->printed = d->keyed > 0 && (!d->keys_differ || key_hull_meets(hull, d->keys));
    if (d->printed)
        r = add_prints(m, f, i, msg);
    entry_file_close(f);
    return r;
}

/* All files become known, and some of them printed. */
static int learn_files(struct members *m, struct errmsg *msg)
{
    struct key_hull hull = { NULL, NULL };
    int r = 0;

    for (size_t i = 0; r == 0 && i < m->set->n; i++) {
        struct data_file *d = &m->set->files[i];
        d->printed = false;
        if (!d->known)
            r = learn_file(m, i, &hull, msg);
        if (r == 0 && d->keyed > 0)
            key_hull_add(&hull, d->keys);
    }
    return r;
}

static int gather_prints(struct members *m, struct errmsg *msg)
{
    struct rowset *s = m->set;

    int r = open_sorter(m, &m->prints, 1, SHARE_PRINTS, msg);
    if (r == 0)
        r = learn_files(m, msg);
    if (r == 0)
        r = rowset_find_meeting(s, msg);
    for (size_t i = s->base_n; r == 0 && i < s->n; i++)
        if (s->files[i].meets && !s->files[i].printed)
            r = open_prints(m, i, msg);
    return r;
}

/* ---- which of them meet ------------------------------------------------------------------------------------ */

/* The same may be wanted more than once. */
static int want(struct members *m, uint64_t print, struct errmsg *msg)
{
    uint64_t wanted = print_file(m, print) << (64 - m->file_bits) | print_upper(m, print);

    return sorter_add(m->wanted, &wanted, msg);
}

/* Each other. */
static int meet_newer(struct members *m, struct errmsg *msg)
{
    uint64_t prints[SOME], before = 0;
    bool any = false, before_wanted = false;
    int n, r = sorter_rewind(m->prints, msg);

    while (r == 0 && (n = sorter_column(m->prints, 0, prints, SOME, msg)) != 0) {
        r = n < 0 ? n : rowset_cancelled(m->set, msg);
        for (int i = 0; r == 0 && i < n; i++) {
            bool meet = any && print_upper(m, prints[i]) == print_upper(m, before);
            if (meet && !before_wanted)
                r = want(m, before, msg);
            if (meet && r == 0)
                r = want(m, prints[i], msg);
            before = prints[i];
            before_wanted = meet;
            any = true;
        }
    }
    return r;
}

/* The first position from AT on with a hash >= HASH.  Steps double, so that few questions to a long index are as
 * cheap as many to a short one. */
static uint64_t gallop(const struct entry_index *index, uint64_t at, int64_t hash)
{
    uint64_t stride = 1, end = at;

    while (end < index->count && index->hashes[end] < hash) {
        at = end + 1;
        end = stride < index->count - end ? end + stride : index->count;
        stride *= 2;
    }
    while (at < end) {
        uint64_t middle = at + (end - at) / 2;
        if (index->hashes[middle] < hash)
            at = middle + 1;
        else
            end = middle;
    }
    return at;
}

/* The rows of file I from *AT on with these upper bits: 1 if there are any.  *AT goes behind them. */
static int add_rows(struct members *m, struct sorter *to, const struct entry_index *index, uint64_t *at,
                    uint64_t bits, size_t i, struct errmsg *msg)
{
    int r = step(m, msg);

    *at = gallop(index, *at, hash_of(m, bits));
    for (; r >= 0 && *at < index->count && upper(m, index->hashes[*at]) == bits; ++*at) {
        uint64_t record[3] = { (uint64_t)index->hashes[*at], i, index->places[*at] };
        r = sorter_add(to, record, msg);
        if (r == 0)
            r = 1;
    }
    return r < 0 ? r : r > 0;
}

static int join_index(struct members *m, struct entry_file *f, size_t i, struct errmsg *msg)
{
    struct entry_index index;
    uint64_t prints[SOME], at = 0, before = UINT64_MAX;
    bool met = false;

    int n, r = entry_file_index(f, &index, msg);
    if (r == 0)
        r = sorter_rewind(m->prints, msg);
    while (r == 0 && (at < index.count || met) && (n = sorter_column(m->prints, 0, prints, SOME, msg)) != 0) {
        r = n < 0 ? n : 0;
        for (int k = 0; r == 0 && k < n; k++) {
            uint64_t bits = print_upper(m, prints[k]);
            if (bits != before)
                r = add_rows(m, m->older, &index, &at, bits, i, msg);
            if (bits != before && r >= 0)
                met = r > 0;
            before = bits;
            if (r >= 0)
                r = met ? want(m, prints[k], msg) : 0;
        }
    }
    return r;
}

static int join_file(struct members *m, size_t i, struct errmsg *msg)
{
    struct entry_file *f;

    int r = rowset_file_open(m->set, i, &f, msg);
    if (r < 0)
        return r;
    r = join_index(m, f, i, msg);
    entry_file_close(f);
    return r;
}

/* Rows of the base. */
static int meet_older(struct members *m, struct errmsg *msg)
{
    struct rowset *s = m->set;

    int r = open_sorter(m, &m->older, 3, SHARE_OLDER, msg);
    for (size_t i = 0; r == 0 && i < s->base_n; i++)
        if (s->files[i].meets)
            r = join_file(m, i, msg);
    return r;
}

/* ---- the rows that are wanted ------------------------------------------------------------------------------ */

/* Those of file I; *WANTED is the first, becomes the first of the next file.  1 if there is one. */
static int add_wanted(struct members *m, struct entry_file *f, size_t i, const uint64_t **wanted,
                      struct errmsg *msg)
{
    unsigned upper_bits = 64 - m->file_bits;
    struct entry_index index;
    uint64_t at = 0;

    int r = entry_file_index(f, &index, msg);
    if (r < 0)
        return r;
    do { /* again for the same one: finds no more */
        assert(*wanted);
        uint64_t bits = **wanted & ((1ull << upper_bits) - 1);
        r = add_rows(m, m->newer, &index, &at, bits, i, msg);
        if (r >= 0)
            r = sorter_next(m->wanted, wanted, msg);
    } while (r > 0 && **wanted >> upper_bits == i);
    return r;
}

static int gather_newer(struct members *m, struct errmsg *msg)
{
    const uint64_t *wanted = NULL;

    int r = open_sorter(m, &m->newer, 3, SHARE_NEWER, msg);
    if (r == 0)
        r = sorter_next(m->wanted, &wanted, msg);
    while (r > 0) {
        struct entry_file *f;
        assert(wanted);
        size_t i = *wanted >> (64 - m->file_bits);
        r = rowset_file_open(m->set, i, &f, msg);
        if (r < 0)
            return r;
        r = add_wanted(m, f, i, &wanted, msg);
        entry_file_close(f);
    }
    return r;
}

/* ---- both, by hash ----------------------------------------------------------------------------------------- */

static int advance(struct sorter *sorter, const uint64_t **head, struct errmsg *msg)
{
    int r = sorter_next(sorter, head, msg);

    if (r == 0)
        *head = NULL;
    return r < 0 ? r : 0;
}

static int start_merge(struct members *m, struct errmsg *msg)
{
    int r = advance(m->newer, &m->newer_head, msg);

    return r < 0 ? r : advance(m->older, &m->older_head, msg);
}

int members_next(struct members *m, struct member *ret, struct errmsg *msg)
{
    const uint64_t *newer = m->newer_head, *older = m->older_head;

    if (!newer && !older)
        return 0;
    bool take_newer = !older || (newer && (int64_t)newer[0] <= (int64_t)older[0]);
    const uint64_t *head = take_newer ? newer : older;
    *ret = (struct member){ .hash = (int64_t)head[0], .file = head[1], .place = head[2] };
    int r = take_newer ? advance(m->newer, &m->newer_head, msg) : advance(m->older, &m->older_head, msg);
    return r < 0 ? r : 1;
}

static int find_meetings(struct members *m, struct errmsg *msg)
{
    int r = gather_prints(m, msg);

    if (r < 0 || sorter_count(m->prints) == 0)
        return r;
    r = open_sorter(m, &m->wanted, 1, SHARE_WANTED, msg);
    if (r == 0)
        r = meet_newer(m, msg);
    return r < 0 ? r : meet_older(m, msg);
}

int members_open(struct members *m, struct rowset *s, int temp_dir, struct errmsg *msg)
{
    *m = (struct members){ .set = s, .temp_dir = temp_dir, .file_bits = bits_for(s->n) };
    int r = find_meetings(m, msg);
    if (r < 0 || !m->wanted || sorter_count(m->wanted) == 0)
        return r;
    drop_sorter(&m->prints);
    r = gather_newer(m, msg);
    drop_sorter(&m->wanted);
    if (r == 0)
        r = start_merge(m, msg);
    return r < 0 ? r : 1;
}

void members_close(struct members *m)
{
    drop_sorter(&m->prints);
    drop_sorter(&m->wanted);
    drop_sorter(&m->newer);
    drop_sorter(&m->older);
}
