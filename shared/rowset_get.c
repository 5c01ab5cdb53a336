/*
 * The row of a key: the newest file that has it decides.
 *
 *   files    0 .. mapped_from |  mapped_from .. mapped_to  |  mapped_to .. n
 *              not seen       |  the keymap says where     |  new: taken in first
 *
 * Files are taken in from the newest on, and no further down than a question has to go.  What the keymap finds is looked at
 * in the file, and the full key compared: in memory, if it is near.
 */
#include "rowset_inner.h"

#include <errno.h>
#include <inttypes.h>

/* ---- at a place ------------------------------------------------------------------------------------------ */

static bool has_key(const struct row *row, struct bytes key)
{
    return (row->flags & ROW_KEYED) && bytes_equal(row->key, key);
}

/* A place of file I: of a .entries file its row's end, of a .rows file its row's block. */
struct where {
    size_t file;
    uint64_t place;
};

static struct near_item *near_item(const struct rowset *s, const struct where *at)
{
    if (s->files[at->file].part)
        return near_block(&s->near, at->file, at->place);
    return near_whole(&s->near, at->file);
}

/* In ITEM, which is what is near of AT: 1, 0 when KEY isn't there. */
static int look_near(const struct rowset *s, const struct where *at, struct near_item *item, struct bytes key,
                     uint64_t hash, struct row *ret, struct errmsg *msg)
{
    const struct data_file *d = &s->files[at->file];

    item->chunk->used = true;
    if (item->block)
        return entry_block_find(item->block, hash, key, ret);
    if (!entry_row_in(&item->whole, at->place, ret))
        return fail(msg, SKADE_EDAMAGED, "%s: damaged at byte %" PRIu64 ": no whole row ends here", d->path,
                    at->place);
    ret->time_us = d->time_us;
    return has_key(ret, key);
}

static int look_on_disk(struct rowset *s, const struct where *at, struct bytes key, struct row *ret,
                        struct errmsg *msg)
{
    struct pool_slot *slot;

    int r = rowset_pool_get(s, at->file, &slot, msg);
    if (r == 0)
        r = entry_find_at(slot->cursor, at->place, key, ret, msg);
    if (r == 1)
        s->found = slot->cursor;
    return r;
}

static int bring_near(struct rowset *s, const struct where *at, struct errmsg *msg)
{
    if (s->files[at->file].part)
        return rowset_bring_block_near(s, at->file, at->place, msg);
    return rowset_bring_near(s, at->file, msg);
}

static int look_at(struct rowset *s, const struct where *at, struct bytes key, uint64_t hash, struct row *ret,
                   struct errmsg *msg)
{
    struct near_item *item = near_item(s, at);

    if (!item) {
        int r = bring_near(s, at, msg);
        if (r < 0)
            return r;
        item = near_item(s, at);
    }
    return item ? look_near(s, at, item, key, hash, ret, msg) : look_on_disk(s, at, key, ret, msg);
}

/* ---- in a file, by its own index ---------------------------------------------------------------------------- */

/* 1 and the row if file I has KEY, be it a deletion. */
static int look_into(struct rowset *s, size_t i, struct bytes key, uint64_t hash, struct row *ret,
                     struct errmsg *msg)
{
    const struct data_file *d = &s->files[i];
    struct entry_index x;
    struct pool_slot *slot;

    if (d->known && (d->keyed == 0 || (d->keys && !key_span_may_have(d->keys, key))))
        return 0;
    int r = rowset_pool_get(s, i, &slot, msg);
    if (r == 0)
        r = entry_file_index(slot->file, &x, msg);
    if (r < 0)
        return r;
    uint64_t at = entry_index_end(&x, (int64_t)hash);
    for (; r == 0 && at > 0 && x.hashes[at - 1] == (int64_t)hash; at--)
        r = look_at(s, &(struct where){ i, x.places[at - 1] }, key, hash, ret, msg);
    return r;
}

/* ---- by the keymap --------------------------------------------------------------------------------------- */

static unsigned unit_of(const struct data_file *d)
{
    return d->part ? 1 : 8;
}

/* Take in the keys of file I. */
static int take_in(struct rowset *s, size_t i, struct errmsg *msg)
{
    const struct data_file *d = &s->files[i];
    struct entry_index index;
    struct pool_slot *slot;

    if (d->known && d->keyed == 0)
        return 0;
    int r = rowset_pool_get(s, i, &slot, msg);
    if (r == 0)
        r = entry_file_index(slot->file, &index, msg);
    if (r == 0)
        near_make_way(s, keymap_needs(&s->keymap, index.count));
    if (r == 0 && keymap_add(&s->keymap, (uint32_t)i, d->size, unit_of(d), &index) < 0)
        r = fail(msg, -ENOMEM, "no memory to note where keys are");
    return r;
}

static int map_new_files(struct rowset *s, struct errmsg *msg)
{
    int r = 0;

    while (r == 0 && s->mapped_to < s->n) {
        r = take_in(s, s->mapped_to, msg);
        s->mapped_to += r == 0;
    }
    return r;
}

/* Each file by its own index: another key has the hash of this one, and hides in the keymap where this one is. */
static int find_one_by_one(struct rowset *s, struct bytes key, uint64_t hash, struct row *ret,
                           struct errmsg *msg)
{
    int r = 0;

    for (size_t i = s->mapped_to; r == 0 && i > s->mapped_from; i--)
        r = look_into(s, i - 1, key, hash, ret, msg);
    return r;
}

static bool find_place(const struct rowset *s, uint64_t hash, struct where *ret)
{
    uint32_t file;

    if (!keymap_find(&s->keymap, (int64_t)hash, &file, &ret->place))
        return false;
    ret->file = file;
    ret->place *= unit_of(&s->files[file]);
    return true;
}

static int find_mapped(struct rowset *s, struct bytes key, uint64_t hash, struct row *ret, struct errmsg *msg)
{
    struct where at = { 0, 0 };
    bool there = find_place(s, hash, &at);
    int64_t i = (int64_t)s->n;
    int r = 0;

    while (r == 0 && (i = keymap_unlisted_below(&s->keymap, (uint64_t)i)) >= 0 &&
           (!there || (size_t)i > at.file))
        r = look_into(s, (size_t)i, key, hash, ret, msg);
    if (r != 0 || !there)
        return r;
    r = look_at(s, &at, key, hash, ret, msg);
    return r != 0 ? r : find_one_by_one(s, key, hash, ret, msg);
}

/* ---- what wasn't taken in yet --------------------------------------------------------------------------------- */

static int find_unmapped(struct rowset *s, struct bytes key, uint64_t hash, struct row *ret,
                         struct errmsg *msg)
{
    int r = 0;

    while (r == 0 && s->mapped_from > 0) {
        r = take_in(s, s->mapped_from - 1, msg);
        if (r < 0)
            break;
        s->mapped_from--;
        r = look_into(s, s->mapped_from, key, hash, ret, msg);
    }
    return r;
}

int rowset_get(struct rowset *s, struct bytes key, struct row *ret, struct errmsg *msg)
{
    uint64_t hash = entry_hash(key);
    struct row row;

    s->found = NULL;
    int r = map_new_files(s, msg);
    if (r == 0)
        r = find_mapped(s, key, hash, &row, msg);
    if (r == 0)
        r = find_unmapped(s, key, hash, &row, msg);
    if (r <= 0)
        return r;
    if (row.flags & ROW_DELETE)
        return 0;
    *ret = row;
    return 1;
}

int rowset_get_at_hand(struct rowset *s, struct bytes key, struct row *ret)
{
    uint64_t hash = entry_hash(key);
    struct where at;

    if (s->mapped_to < s->n || s->keymap.unlisted)
        return -EAGAIN;
    if (!find_place(s, hash, &at))
        return s->mapped_from == 0 ? 0 : -EAGAIN;
    struct near_item *item = near_item(s, &at);
    if (!item || look_near(s, &at, item, key, hash, ret, NULL) != 1)
        return -EAGAIN;
    s->found = NULL;
    return (ret->flags & ROW_DELETE) == 0;
}

int rowset_get_read(struct rowset *s, uint64_t off, void *buffer, size_t len, struct errmsg *msg)
{
    assert(s->found);
    return entry_value_read(s->found, off, buffer, len, msg);
}
