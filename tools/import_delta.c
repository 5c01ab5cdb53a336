#include "import_delta.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    KNOWN_INTRODUCED = 1, /* its snapshot, by whatever location */
    KNOWN_MOVED = 2       /* its location with its snapshot moved the head */
};

/* ---- files by location ---- */

static uint64_t hash_of(uint64_t seed, const char *text)
{
    uint64_t h = seed;

    for (const char *p = text; *p; p++) {
        h = (h ^ (unsigned char)*p) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return h;
}

/* Where the file with LOCATION is, or would be put. */
static uint32_t *slot_of(const struct import_delta *d, const char *location)
{
    size_t at = (size_t)hash_of(d->seed, location) & (d->slots - 1);

    while (d->by_location[at] && strcmp(d->plan->files[d->by_location[at] - 1]->location, location) != 0)
        at = (at + 1) & (d->slots - 1);
    return &d->by_location[at];
}

/* ---- beginning ---- */

/* Rows of one file stand together, files in order, so the ends say which rows are whose. */
static int index_rows(struct import_delta *d)
{
    const struct import_plan *plan = d->plan;

    for (size_t i = 0; i < plan->row_count; i++) {
        const struct import_row *row = &plan->rows[i];
        assert(row->file < plan->file_count && (i == 0 || plan->rows[i - 1].file <= row->file));
        d->file_end[row->file] = (uint32_t)i + 1;
        if (row->introduces && iceberg_ids_add(&d->introducing, row->snapshot, (uint32_t)i) < 0)
            return -ENOMEM;
    }
    for (size_t f = 0; f < plan->file_count; f++)
        *slot_of(d, plan->files[f]->location) = (uint32_t)f + 1;
    return 0;
}

int import_delta_begin(struct import_delta *ret, const struct import_plan *plan, skade_table table)
{
    *ret = (struct import_delta){ .plan = plan, .table = table, .slots = 16 };
    while (ret->slots < 2 * plan->file_count)
        ret->slots *= 2;
    if (getrandom(&ret->seed, sizeof ret->seed, 0) < 0)
        return -errno;
    ret->known = calloc(plan->row_count + 1, sizeof *ret->known);
    ret->file_end = calloc(plan->file_count + 1, sizeof *ret->file_end);
    ret->file_known = calloc(plan->file_count + 1, sizeof *ret->file_known);
    ret->by_location = calloc(ret->slots, sizeof *ret->by_location);
    if (!ret->known || !ret->file_end || !ret->file_known || !ret->by_location)
        return -ENOMEM;
    return index_rows(ret);
}

/* ---- the history ---- */

/* Would our import have made exactly this commit under exactly this uuid? */
static bool is_ours(const struct import_delta *d, const struct skade_event *e)
{
    struct import_row row = {
        .snapshot = e->snapshot,
        .time_us = e->time_us,
        .has_snapshot = e->flags & SKADE_WITH_SNAPSHOT,
        .introduces = e->flags & SKADE_INTRODUCES,
        .moves_head = e->flags & SKADE_MOVES_HEAD,
    };
    char *location = (char *)(uintptr_t)e->location; /* only read */
    const struct import_file file = { .location = location };
    const struct import_file *files[] = { &file };
    struct import_plan one = { .files = files, .file_count = 1, .rows = &row, .row_count = 1 };
    uint8_t uuid[16];

    memcpy(one.uuid, d->plan->uuid, sizeof one.uuid);
    import_row_uuid(&one, 0, e->table, uuid);
    return memcmp(uuid, e->uuid, IMPORT_UUID_SAYS) == 0;
}

static bool is_imported(const struct skade_event *e)
{
    return e->uuid[6] >> 4 == 8; /* version 8 of RFC 9562, which the library's random ones aren't */
}

/* E has the location of FILE: is it what the file's last row would do? */
static void mark_move(struct import_delta *d, const struct skade_event *e, uint32_t file)
{
    if (d->file_end[file] == 0 || !(e->flags & SKADE_MOVES_HEAD))
        return;
    const struct import_row *last = &d->plan->rows[d->file_end[file] - 1];
    bool has_snapshot = e->flags & SKADE_WITH_SNAPSHOT;
    if (last->has_snapshot == has_snapshot && (!has_snapshot || last->snapshot == e->snapshot))
        d->known[d->file_end[file] - 1] |= KNOWN_MOVED;
}

static int keep_head(struct import_delta *d, const struct skade_event *e)
{
    if (d->has_head || !(e->flags & SKADE_MOVES_HEAD))
        return 0;
    d->has_head = true;
    d->head_time_us = e->time_us;
    d->head = strdup(e->location);
    return d->head ? 0 : -ENOMEM;
}

int import_delta_event(struct import_delta *d, const struct skade_event *e)
{
    uint32_t row;

    if (e->kind != SKADE_EVENT_COMMIT && e->kind != SKADE_EVENT_COMPACT)
        return 0;
    d->commits++;
    if (is_imported(e)) {
        bool ours = is_ours(d, e);
        d->proven |= ours;
        d->disproven |= !ours;
    }
    uint32_t file = *slot_of(d, e->location);
    if (file) {
        d->file_known[file - 1] = true;
        mark_move(d, e, file - 1);
    }
    if (e->flags & SKADE_INTRODUCES && iceberg_ids_find(&d->introducing, e->snapshot, &row))
        d->known[row] |= KNOWN_INTRODUCED;
    return keep_head(d, e);
}

/* ---- the end ---- */

static size_t directory_len(const char *location)
{
    const char *slash = strrchr(location, '/');

    return slash ? (size_t)(slash - location) : 0;
}

static bool has_directory_of_head(const struct import_delta *d)
{
    size_t len = directory_len(d->head);

    for (size_t f = 0; f < d->plan->file_count; f++) {
        const char *location = d->plan->files[f]->location;
        if (directory_len(location) == len && memcmp(location, d->head, len) == 0)
            return true;
    }
    return false;
}

static enum import_verdict judge(const struct import_delta *d)
{
    bool common = false;

    for (size_t f = 0; f < d->plan->file_count; f++)
        common |= d->file_known[f];
    if (d->commits == 0)
        return IMPORT_SAME;
    if (!d->proven && (d->disproven || !common))
        return IMPORT_OTHER_TABLE;
    if (!common && d->has_head && !has_directory_of_head(d))
        return IMPORT_OTHER_LOCATIONS;
    return IMPORT_SAME;
}

static bool is_last_of_file(const struct import_delta *d, size_t i)
{
    return d->file_end[d->plan->rows[i].file] == i + 1;
}

/* Rows before this one may not move the head. */
static size_t head_place(const struct import_delta *d)
{
    const struct import_plan *plan = d->plan;

    for (size_t i = plan->row_count; i-- > 0;)
        if (d->known[i] & KNOWN_MOVED)
            return i;
    /* The head is at a file that isn't here: one that was deleted since, or one that was written since? */
    if (d->has_head && plan->row_count > 0 && d->head_time_us > plan->rows[plan->row_count - 1].time_us)
        return plan->row_count;
    return 0;
}

/* ROW without what is known.  Is anything left? */
static bool reduce(struct import_delta *d, size_t i, size_t head, struct import_row *row)
{
    *row = d->plan->rows[i];
    if (d->known[i] & KNOWN_INTRODUCED) {
        row->introduces = false;
        /* Where the head was on its way to the file's own is history of that snapshot, and known with it. */
        if (!is_last_of_file(d, i))
            row->moves_head = false;
    }
    if (d->known[i] & KNOWN_MOVED)
        row->moves_head = false;
    if (row->moves_head && i < head) {
        row->moves_head = false;
        d->held_back++;
    }
    return row->introduces || row->moves_head;
}

static int collect(struct import_delta *d)
{
    size_t head = head_place(d);
    uint32_t last_file = UINT32_MAX;
    struct import_row row;

    d->rows = malloc((d->plan->row_count + 1) * sizeof *d->rows);
    if (!d->rows)
        return -ENOMEM;
    for (size_t i = 0; i < d->plan->row_count; i++) {
        if (!reduce(d, i, head, &row))
            continue;
        d->rows[d->row_count++] = row;
        d->moves_head |= row.moves_head;
        d->new_snapshots += row.introduces;
        d->new_files += row.file != last_file && !d->file_known[row.file];
        last_file = row.file;
    }
    return 0;
}

int import_delta_finish(struct import_delta *d)
{
    enum import_verdict verdict = judge(d);

    if (verdict != IMPORT_SAME)
        return (int)verdict;
    int r = collect(d);
    return r < 0 ? r : (int)IMPORT_SAME;
}

/* The uuid is that of the row as it is committed, so that is_ours() recognises it. */
void import_delta_commit(const struct import_delta *d, size_t i, struct skade_commit *commit)
{
    const struct import_row *row = &d->rows[i];
    struct import_plan reduced = *d->plan;

    reduced.rows = d->rows;
    reduced.row_count = d->row_count;
    *commit = (struct skade_commit){ .size = sizeof *commit, .table = d->table, .has_time = 1 };
    commit->snapshot = row->snapshot;
    commit->time_us = row->time_us;
    commit->location = d->plan->files[row->file]->location;
    commit->flags = (row->has_snapshot ? SKADE_WITH_SNAPSHOT : 0) | (row->introduces ? SKADE_INTRODUCES : 0) |
                    (row->moves_head ? SKADE_MOVES_HEAD : 0);
    import_row_uuid(&reduced, i, d->table, commit->uuid);
    if (i == 0 && d->moves_head)
        memcpy(commit->uuid + IMPORT_UUID_SAYS, &d->seed, sizeof commit->uuid - IMPORT_UUID_SAYS);
}

void import_delta_free(struct import_delta *d)
{
    free(d->known);
    free(d->file_end);
    free(d->file_known);
    free(d->by_location);
    free(d->head);
    free(d->rows);
    iceberg_ids_free(&d->introducing);
    *d = (struct import_delta){ 0 };
}
