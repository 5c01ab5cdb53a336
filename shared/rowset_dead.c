/*
 * Finding the dead rows: those with a key for which a newer row or deletion exists.
 *
 *   members (hash, file, place) of all that could matter, by hash: rowset_members.c
 *             |  what is alone with its hash is alive, the rest are suspects
 *   batch   suspects of as many whole groups as fit, sorted from the newest row to the oldest
 *             |  keys are read in that order, each file is opened once
 *   keys    the first of a key is its newest row; every later one is dead
 *
 * So hashes choose whom to look at and keys decide.  When the set of keys is full, rows whose key is not in it are left
 * for another round: nothing was decided about them, and what is in the set has been settled.  All sorting spills, so
 * memory is bounded whatever the table is; files are read in order, never one for each key.
 *
 * Deletions are skipped by their flag wherever rows are read, so they are not listed.
 */
#include "rowset_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct suspect {  /* as sorted: newest first; of one block by hash */
    uint64_t age; /* 0: the newest file */
    uint64_t place_down;
    uint64_t hash;
};

struct finder {
    struct rowset *set;
    int temp_dir, temp_error;
    struct members members;
    struct sorter *dead;
    struct key_set keys;
    size_t at; /* which file is open, if one is */
    struct entry_file *file;
    struct entry_cursor *cursor;
    uint64_t *hashes; /* of one block's suspects */
    size_t hash_room;
    unsigned steps;
};

static int step(struct finder *f, struct errmsg *msg)
{
    return ++f->steps % 1024 == 0 ? rowset_cancelled(f->set, msg) : 0;
}

/* ---- sorters ------------------------------------------------------------------------------------------- */

static int open_sorter(struct finder *f, struct sorter **ret, unsigned words, enum share share,
                       struct errmsg *msg)
{
    return sorter_open(ret, words, rowset_share(f->set, share), f->temp_dir, msg);
}

/* Only who spills needs the directory, so its absence is reported then. */
static int blame_temp_dir(struct finder *f, int r, struct errmsg *msg)
{
    if (r != -EBADF || f->temp_dir >= 0)
        return r;
    return fail(msg, f->temp_error, "no directory for temporary files: %s: %s", f->set->temp_dir,
                error_text(f->temp_error));
}

static void open_temp_dir(struct finder *f)
{
    f->temp_dir = open(f->set->temp_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    f->temp_error = f->temp_dir < 0 ? -errno : 0;
}

/* ---- the file that is open ------------------------------------------------------------------------------- */

static void close_file(struct finder *f)
{
    entry_cursor_close(f->cursor);
    entry_file_close(f->file);
    f->cursor = NULL;
    f->file = NULL;
}

/* Suspects come newest first, but the rows of a block are read as they stand. */
static int open_file(struct finder *f, size_t i, struct errmsg *msg)
{
    if (f->cursor && f->at == i)
        return 0;
    close_file(f);
    f->at = i;
    int r = rowset_file_open(f->set, i, &f->file, msg);
    if (r < 0)
        return r;
    return entry_cursor_open(&f->cursor, f->file, i < f->set->base_n ? OLDEST_FIRST : NEWEST_FIRST, 0, msg);
}

/* ---- batches of suspects ----------------------------------------------------------------------------------- */

static int add_suspect(struct finder *f, struct sorter *to, size_t file, uint64_t place, int64_t hash,
                       struct errmsg *msg)
{
    struct suspect suspect = { f->set->n - 1 - file, ~place, (uint64_t)hash };
    uint64_t record[3] = { suspect.age, suspect.place_down, suspect.hash };

    return sorter_add(to, record, msg);
}

static int add_member(struct finder *f, struct sorter *batch, const struct member *m, struct errmsg *msg)
{
    int r = add_suspect(f, batch, m->file, m->place, m->hash, msg);

    return r < 0 ? r : step(f, msg);
}

/* Add the group that FIRST begins, unless it is alone.  *NEXT: the first of the next group.  1 if there is one. */
static int add_group(struct finder *f, struct sorter *batch, const struct member *first, struct member *next,
                     struct errmsg *msg)
{
    bool alone = true;
    int r;

    while ((r = members_next(&f->members, next, msg)) > 0 && next->hash == first->hash) {
        if (alone)
            r = add_member(f, batch, first, msg);
        alone = false;
        if (r >= 0)
            r = add_member(f, batch, next, msg);
        if (r < 0)
            return r;
    }
    return r;
}

/* Whole groups, from the one that *FIRST begins, as many as the batch's memory holds.  1 while there are more. */
static int fill_batch(struct finder *f, struct sorter *batch, struct member *first, struct errmsg *msg)
{
    uint64_t limit = rowset_share(f->set, SHARE_BATCH) / sizeof(struct suspect);
    struct member next;
    int r;

    do {
        r = add_group(f, batch, first, &next, msg);
        if (r > 0)
            *first = next;
    } while (r > 0 && sorter_count(batch) < limit);
    return r;
}

/* ---- a round: who is dead? --------------------------------------------------------------------------------- */

static int lies(struct finder *f, uint64_t place, struct errmsg *msg)
{
    struct data_file *d = &f->set->files[f->at];

    return fail(msg, SKADE_EDAMAGED, "%s: %s %llu: the index names a key that isn't there", d->path,
                d->part ? "block" : "offset", (unsigned long long)place);
}

static int note_dead(struct finder *f, uint64_t number, struct errmsg *msg)
{
    uint64_t record[2] = { f->at, number };

    return sorter_add(f->dead, record, msg);
}

/* A suspect in a .entries file. */
static int judge_entry(struct finder *f, uint64_t place, int64_t hash, struct sorter *left,
                       struct errmsg *msg)
{
    struct row row;

    int r = entry_seek_place(f->cursor, place, msg);
    if (r == 0)
        r = entry_next(f->cursor, &row, msg);
    if (r < 0)
        return r;
    if (r == 0 || !(row.flags & ROW_KEYED) || row.place != place || entry_hash(row.key) != (uint64_t)hash)
        return lies(f, place, msg);
    switch (key_set_add(&f->keys, row.key)) {
    case KEY_KNOWN:
        return row.flags & ROW_DELETE ? 0 : note_dead(f, row.number, msg);
    case KEY_LEFT:
        return add_suspect(f, left, f->at, place, hash, msg);
    default:
        return 0;
    }
}

static bool has_hash(const uint64_t *hashes, size_t n, uint64_t hash)
{
    size_t from = 0, to = n;

    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (hashes[middle] < hash)
            from = middle + 1;
        else
            to = middle;
    }
    return from < n && hashes[from] == hash;
}

/* The suspects of one block, whose N hashes are known.  Keys of a base are all different, so they aren't added. */
static int judge_block(struct finder *f, uint64_t block, size_t n, struct sorter *left, struct errmsg *msg)
{
    struct row row;
    size_t met = 0;

    int r = entry_seek_place(f->cursor, block, msg);
    while (r >= 0 && (r = entry_next(f->cursor, &row, msg)) > 0 && row.place == block) {
        uint64_t hash = row.flags & ROW_KEYED ? entry_hash(row.key) : 0;
        if (!(row.flags & ROW_KEYED) || !has_hash(f->hashes, n, hash))
            continue;
        met++;
        if (key_set_has(&f->keys, row.key))
            r = note_dead(f, row.number, msg);
        else if (f->keys.full)
            r = add_suspect(f, left, f->at, block, (int64_t)hash, msg);
    }
    if (r < 0)
        return r;
    return met < n ? lies(f, block, msg) : 0;
}

static int push_hash(struct finder *f, size_t n, uint64_t hash, struct errmsg *msg)
{
    if (n == f->hash_room) {
        size_t room = f->hash_room ? f->hash_room * 2 : 256;
        uint64_t *hashes = realloc(f->hashes, room * sizeof *hashes);
        if (!hashes)
            return fail(msg, -ENOMEM, "no memory for the keys of a block");
        f->hashes = hashes;
        f->hash_room = room;
    }
    f->hashes[n] = hash;
    return 0;
}

/* Collect the hashes of all suspects in the block of SUSPECT.  *RECORD: the one after, NULL at the end. */
static int collect_block(struct finder *f, struct sorter *in, const struct suspect *suspect, size_t *n,
                         const uint64_t **record, struct errmsg *msg)
{
    int r = push_hash(f, (*n)++, suspect->hash, msg);

    while (r >= 0 && (r = sorter_next(in, record, msg)) > 0 && (*record)[0] == suspect->age &&
           (*record)[1] == suspect->place_down)
        r = push_hash(f, (*n)++, (*record)[2], msg);
    if (r == 0)
        *record = NULL;
    return r < 0 ? r : 0;
}

/* *RECORD: the next of IN, NULL at the end. */
static int next_suspect(struct sorter *in, const uint64_t **record, struct errmsg *msg)
{
    int r = sorter_next(in, record, msg);

    if (r == 0)
        *record = NULL;
    return r < 0 ? r : 0;
}

/* Judge SUSPECT, and all others of its block.  *RECORD becomes the one after. */
static int judge(struct finder *f, struct sorter *in, const struct suspect *suspect, struct sorter *left,
                 const uint64_t **record, struct errmsg *msg)
{
    size_t file = f->set->n - 1 - suspect->age, n = 0;
    uint64_t place = ~suspect->place_down;

    int r = open_file(f, file, msg);
    if (r == 0)
        r = step(f, msg);
    if (r < 0)
        return r;
    if (file >= f->set->base_n) {
        r = judge_entry(f, place, (int64_t)suspect->hash, left, msg);
        return r < 0 ? r : next_suspect(in, record, msg);
    }
    r = collect_block(f, in, suspect, &n, record, msg);
    return r < 0 ? r : judge_block(f, place, n, left, msg);
}

static int run_round(struct finder *f, struct sorter *in, struct sorter *left, struct errmsg *msg)
{
    const uint64_t *record;

    key_set_clear(&f->keys);
    int r = next_suspect(in, &record, msg);
    while (r == 0 && record) {
        struct suspect suspect = { record[0], record[1], record[2] };
        r = judge(f, in, &suspect, left, &record, msg);
    }
    return r;
}

/* Takes BATCH over. */
static int settle(struct finder *f, struct sorter *batch, struct errmsg *msg)
{
    int r = 0;

    while (r == 0 && sorter_count(batch) > 0) {
        struct sorter *left;
        r = open_sorter(f, &left, 3, SHARE_LEFT, msg);
        if (r < 0)
            break;
        r = run_round(f, batch, left, msg);
        sorter_close(batch);
        batch = left;
    }
    sorter_close(batch);
    return r;
}

static int settle_all(struct finder *f, struct errmsg *msg)
{
    struct member first;

    int r = members_next(&f->members, &first, msg);
    while (r > 0) {
        struct sorter *batch;
        r = open_sorter(f, &batch, 3, SHARE_BATCH, msg);
        if (r < 0)
            return r;
        int more = fill_batch(f, batch, &first, msg);
        if (more < 0)
            sorter_close(batch);
        r = more < 0 ? more : settle(f, batch, msg);
        if (r == 0)
            r = more;
    }
    close_file(f);
    return r;
}

/* ---- all of it --------------------------------------------------------------------------------------------- */

static int find(struct finder *f, struct errmsg *msg)
{
    int r = members_open(&f->members, f->set, f->temp_dir, msg);

    if (r <= 0)
        return r;
    r = 0;
    if (key_set_init(&f->keys, rowset_share(f->set, SHARE_KEYS)) < 0)
        r = fail(msg, -ENOMEM, "no memory for a set of keys");
    if (r == 0)
        r = open_sorter(f, &f->dead, 2, SHARE_DEAD, msg);
    return r < 0 ? r : settle_all(f, msg);
}

static void free_work(struct finder *f)
{
    close_file(f);
    members_close(&f->members);
    key_set_fini(&f->keys);
    free(f->hashes);
    f->hashes = NULL;
}

/* No row of any file is dead. */
static void list_nothing(struct rowset *s)
{
    dead_list_fini(&s->dead);
    for (size_t i = 0; i < s->n; i++)
        s->files[i].dead = 0;
}

int rowset_find_dead(struct rowset *s, struct errmsg *msg)
{
    struct finder f = { .set = s };

    list_nothing(s);
    open_temp_dir(&f);
    int r = find(&f, msg);
    free_work(&f);
    if (r == 0 && f.dead)
        r = dead_list_build(&s->dead, f.dead, s->files, s->n, rowset_share(s, SHARE_LIST), f.temp_dir, msg);
    r = blame_temp_dir(&f, r, msg);
    sorter_close(f.dead);
    if (f.temp_dir >= 0)
        close(f.temp_dir);
    return r;
}
