/*
 * The row of a key: the newest file that has it decides.
 *
 *   files    0 .. base_n | .. hint_from |  hint_from .. hint_to  |  hint_to .. n
 *              the base  |  not seen    |  hints say which ones  |  new: hints are taken first
 *
 * Hints are taken as files are opened, from the newest on, and no further down than a question has to go.  In the base
 * a key is in one file at most, and there are few.
 */
#include "rowset_inner.h"

#include <errno.h>

/* Note the hints of file I. */
static int take_hints(struct rowset *s, size_t i, struct errmsg *msg)
{
    struct entry_index index;
    struct pool_slot *slot;

    if (s->files[i].known && s->files[i].keyed == 0)
        return 0;
    int r = rowset_pool_get(s, i, &slot, msg);
    if (r == 0)
        r = entry_file_index(slot->file, &index, msg);
    if (r == 0 && hints_add(&s->hints, (uint32_t)i, &index) < 0)
        r = fail(msg, -ENOMEM, "no memory for hints where keys are");
    return r;
}

/* 1 and the row if file I has KEY, be it a deletion. */
static int look_into(struct rowset *s, size_t i, struct bytes key, struct row *ret, struct errmsg *msg)
{
    struct pool_slot *slot;

    if (s->files[i].known && s->files[i].keyed == 0)
        return 0;
    int r = rowset_pool_get(s, i, &slot, msg);
    if (r < 0)
        return r;
    r = entry_find(slot->cursor, key, ret, msg);
    if (r > 0)
        s->found = slot->cursor;
    return r;
}

static int hint_new_files(struct rowset *s, struct errmsg *msg)
{
    int r = 0;

    while (r == 0 && s->hint_to < s->n) {
        r = take_hints(s, s->hint_to, msg);
        s->hint_to += r == 0;
    }
    return r;
}

static int find_hinted(struct rowset *s, struct bytes key, int64_t hash, struct row *ret, struct errmsg *msg)
{
    int64_t i = (int64_t)s->n;
    int r = 0;

    while (r == 0 && (i = hints_below(&s->hints, hash, (uint64_t)i)) >= 0)
        r = look_into(s, (size_t)i, key, ret, msg);
    return r;
}

static int find_unhinted(struct rowset *s, struct bytes key, struct row *ret, struct errmsg *msg)
{
    int r = 0;

    while (r == 0 && s->hint_from > s->base_n) {
        r = take_hints(s, s->hint_from - 1, msg);
        if (r < 0)
            break;
        s->hint_from--;
        r = look_into(s, s->hint_from, key, ret, msg);
    }
    return r;
}

static int find_in_base(struct rowset *s, struct bytes key, struct row *ret, struct errmsg *msg)
{
    int r = 0;

    for (size_t i = s->base_n; r == 0 && i > 0; i--)
        r = look_into(s, i - 1, key, ret, msg);
    return r;
}

int rowset_get(struct rowset *s, struct bytes key, struct row *ret, struct errmsg *msg)
{
    int64_t hash = (int64_t)entry_hash(key);
    struct row row;

    s->found = NULL;
    int r = hint_new_files(s, msg);
    if (r == 0)
        r = find_hinted(s, key, hash, &row, msg);
    if (r == 0)
        r = find_unhinted(s, key, &row, msg);
    if (r == 0)
        r = find_in_base(s, key, &row, msg);
    if (r <= 0)
        return r;
    if (row.flags & ROW_DELETE)
        return 0;
    *ret = row;
    return 1;
}

int rowset_get_read(struct rowset *s, uint64_t off, void *buffer, size_t len, struct errmsg *msg)
{
    assert(s->found);
    return entry_value_read(s->found, off, buffer, len, msg);
}
