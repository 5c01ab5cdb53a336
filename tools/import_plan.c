/*
 * From a table's files to its commits.
 */
#include "import_plan.h"

#include "iceberg.h"
#include "iceberg_ids.h"
#include "import_order.h"
#include "plain.h"
#include "skade_errors.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

struct planner {
    const struct import_options *options;
    struct iceberg_error *err;
    struct import_file **files; /* those of plan.files, for writing */
    struct import_plan plan;
    size_t row_room;
    struct iceberg_ids seen;           /* snapshots of earlier files */
    const struct import_file *uuid_of; /* the first file that has a table-uuid */
};

static int no_memory(struct planner *p)
{
    return iceberg_fail(p->err, -ENOMEM, "%s: no memory to plan its import", p->plan.name);
}

int import_bad_file(struct import_file *file, int r, const struct import_options *options,
                    const struct iceberg_error *err)
{
    if (r == -ENOMEM || !options->skip_bad)
        return r;
    file->out = true;
    import_tell(options, IMPORT_SKIPPED, "%s", err->text);
    return 0;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static int make_row_room(struct planner *p, size_t more)
{
    size_t need = p->plan.row_count + more;
    if (need <= p->row_room)
        return 0;
    size_t room = need > 2 * p->row_room ? need : 2 * p->row_room;
    struct import_row *rows = reallocarray(p->plan.rows, room, sizeof *rows);
    if (!rows)
        return no_memory(p);
    p->plan.rows = rows;
    p->row_room = room;
    return 0;
}

static int64_t microseconds(int64_t ms)
{
    return ms * 1000; /* iceberg_read() has checked that it fits */
}

static void add_introduction(struct planner *p, const struct iceberg_snapshot *s, bool moves_head)
{
    p->plan.rows[p->plan.row_count++] = (struct import_row){
        .snapshot = s->id,
        .time_us = microseconds(s->timestamp_ms),
        .file = (uint32_t)p->plan.file_count,
        .has_snapshot = true,
        .introduces = true,
        .moves_head = moves_head,
    };
}

static void add_head_move(struct planner *p, const struct iceberg_metadata *m)
{
    p->plan.rows[p->plan.row_count++] = (struct import_row){
        .snapshot = m->has_current ? m->current : 0,
        .time_us = microseconds(m->last_updated_ms),
        .file = (uint32_t)p->plan.file_count,
        .has_snapshot = m->has_current,
        .moves_head = true,
    };
}

static bool is_current(const struct iceberg_metadata *m, const struct iceberg_snapshot *s)
{
    return m->has_current && s->id == m->current;
}

/* Did the head move to S at S's own time? */
static bool was_head(const struct iceberg_metadata *m, const struct iceberg_snapshot *s)
{
    return s->born_current || (is_current(m, s) && !s->logged);
}

/* By sequence-number, time, place in the file; the current one last. */
static int by_history(const void *a, const void *b, void *arg)
{
    const struct iceberg_metadata *m = arg;
    const struct iceberg_snapshot *x = *(struct iceberg_snapshot *const *)a,
                                  *y = *(struct iceberg_snapshot *const *)b;
    if (is_current(m, x) != is_current(m, y))
        return is_current(m, x) ? 1 : -1;
    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? -1 : 1;
    if (x->timestamp_ms != y->timestamp_ms)
        return x->timestamp_ms < y->timestamp_ms ? -1 : 1;
    return (x > y) - (x < y);
}

/* Collect in FRESH the snapshots of M that no earlier file had.  Their number, or -ENOMEM. */
static ssize_t find_fresh(struct planner *p, const struct iceberg_metadata *m,
                          const struct iceberg_snapshot **fresh)
{
    size_t n = 0;
    for (size_t i = 0; i < m->snapshot_count; i++) {
        int r = iceberg_ids_add(&p->seen, m->snapshots[i].id, 0);
        if (r < 0)
            return no_memory(p);
        if (r > 0)
            fresh[n++] = &m->snapshots[i];
    }
    return (ssize_t)n;
}

static int add_rows_of(struct planner *p, struct iceberg_metadata *m, const struct iceberg_snapshot **fresh)
{
    ssize_t n = find_fresh(p, m, fresh);
    if (n < 0)
        return (int)n;
    int r = make_row_room(p, (size_t)n + 1);
    if (r < 0)
        return r;
    if (n == 1 && is_current(m, fresh[0])) {
        add_introduction(p, fresh[0], true);
        return 0;
    }
    qsort_r(fresh, (size_t)n, sizeof *fresh, by_history, m);
    for (ssize_t i = 0; i < n; i++)
        add_introduction(p, fresh[i], was_head(m, fresh[i]));
    add_head_move(p, m);
    return 0;
}

static int add_rows(struct planner *p, struct iceberg_metadata *m)
{
    const struct iceberg_snapshot **fresh = malloc((m->snapshot_count + 1) * sizeof *fresh);
    if (!fresh)
        return no_memory(p);
    int r = add_rows_of(p, m, fresh);
    free(fresh);
    return r;
}

/* ---- files --------------------------------------------------------------------------------------------- */

static const char *character_fault(const char *location)
{
    uint32_t c = 0;
    for (size_t len; *location; location += len) {
        len = utf8_char(location, &c);
        if (len == 0)
            return "is not UTF-8";
        if (is_control(c))
            return "has a control character";
    }
    return NULL;
}

/* What its name says that no other file's content can mend. */
static int check_name(struct planner *p, const struct import_file *f)
{
    const char *fault = character_fault(f->location);
    size_t len = strlen(f->location);
    if (len > ICEBERG_LOCATION_MAX)
        return iceberg_fail(p->err, SKADE_EINPUT, "%s: its location has %zu bytes, %d are allowed", f->path,
                            len, ICEBERG_LOCATION_MAX);
    if (fault)
        return iceberg_fail(p->err, SKADE_EINPUT, "%s: its location %s", f->path, fault);
    if (f->key.number == ICEBERG_NUMBER_TOO_LARGE)
        return iceberg_fail(p->err, SKADE_EINPUT, "%s: the number in its name is too large to be compared",
                            f->path);
    return 0;
}

#define UUID_TEXT 37

static const char *uuid_text(const uint8_t u[16], char text[UUID_TEXT])
{
    char *s = text;
    for (int i = 0; i < 16; i++)
        s += sprintf(s, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", u[i]);
    return text;
}

/* Not a matter for --skip-bad: who could say which of the two files is the stranger? */
static int check_uuid(struct planner *p, const struct import_file *f, const struct iceberg_metadata *m)
{
    char a[UUID_TEXT], b[UUID_TEXT];
    if (!m->has_uuid)
        return 0;
    if (!p->uuid_of) {
        p->uuid_of = f;
        p->plan.has_uuid = true;
        memcpy(p->plan.uuid, m->uuid, sizeof m->uuid);
        return 0;
    }
    if (memcmp(p->plan.uuid, m->uuid, sizeof m->uuid) == 0)
        return 0;
    return iceberg_fail(p->err, SKADE_EINPUT, "%s: table-uuid: %s is another table's than %s of %s", f->path,
                        uuid_text(m->uuid, a), uuid_text(p->plan.uuid, b), p->uuid_of->path);
}

static int keep_newest(struct planner *p, const struct iceberg_metadata *m)
{
    char *location = strdup(m->location);
    if (!location)
        return no_memory(p);
    free(p->plan.location);
    p->plan.location = location;
    p->plan.has_head = m->has_current;
    p->plan.head = m->current;
    return 0;
}

static int add_metadata(struct planner *p, struct import_file *f, struct iceberg_metadata *m)
{
    int r = check_uuid(p, f, m);
    if (r == 0)
        r = add_rows(p, m);
    if (r == 0)
        r = keep_newest(p, m);
    if (r == 0)
        p->plan.files[p->plan.file_count++] = f;
    return r;
}

static int add_file(struct planner *p, struct import_file *f)
{
    struct iceberg_metadata m;
    int r = iceberg_read(f->path, NULL, &m, p->err);
    if (r < 0)
        return import_bad_file(f, r, p->options, p->err);
    r = add_metadata(p, f, &m);
    iceberg_free(&m);
    return r;
}

static int add_files(struct planner *p, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int r = add_file(p, p->files[i]);
        if (r < 0)
            return r;
    }
    if (p->plan.file_count == 0)
        return iceberg_fail(p->err, SKADE_EINPUT, "%s: none of its metadata files is left", p->plan.name);
    p->plan.snapshot_count = p->seen.count;
    return 0;
}

/* The table's files, but for those whose names refuse them, into p->files. */
static int take_files(struct planner *p, struct import_table *t, size_t *count)
{
    for (size_t i = 0; i < t->file_count; i++) {
        struct import_file *f = &t->files[i];
        f->out = false;
        int r = check_name(p, f);
        if (r < 0)
            r = import_bad_file(f, r, p->options, p->err);
        if (r < 0)
            return r;
        if (!f->out)
            p->files[(*count)++] = f;
    }
    return 0;
}

static int plan_table(struct planner *p, struct import_table *t)
{
    size_t room = t->file_count + 1, count = 0;
    p->plan.name = t->name;
    p->plan.place = t->place;
    p->files = calloc(room, sizeof *p->files);
    p->plan.files = calloc(room, sizeof *p->plan.files);
    if (!p->files || !p->plan.files)
        return no_memory(p);
    int r = take_files(p, t, &count);
    if (r == 0)
        r = import_order(p->files, &count, p->options, p->err);
    return r < 0 ? r : add_files(p, count);
}

int import_plan_read(struct import_table *table, const struct import_options *options,
                     struct import_plan *ret, struct iceberg_error *err)
{
    struct planner p = { .options = options, .err = err };
    int r = plan_table(&p, table);
    free(p.files);
    iceberg_ids_free(&p.seen);
    if (r < 0)
        import_plan_free(&p.plan);
    else
        *ret = p.plan;
    return r;
}

void import_plan_free(struct import_plan *plan)
{
    free(plan->files);
    free(plan->rows);
    free(plan->location);
    *plan = (struct import_plan){ 0 };
}

/* ---- uuids --------------------------------------------------------------------------------------------- */

/* All that makes one row another commit than its neighbour.  No padding: its bytes are hashed. */
struct row_identity {
    uint8_t table_uuid[16];
    uint64_t table;
    int64_t snapshot;
    int64_t time_us;
    uint64_t flags;
};
_Static_assert(sizeof(struct row_identity) == 48, "no padding");

void import_row_uuid(const struct import_plan *plan, size_t row, uint64_t table, uint8_t ret[16])
{
    assert(row < plan->row_count);
    const struct import_row *r = &plan->rows[row];
    const char *location = plan->files[r->file]->location;
    struct row_identity id = {
        .table = table,
        .snapshot = r->snapshot,
        .time_us = r->time_us,
        .flags = r->has_snapshot | r->introduces << 1 | r->moves_head << 2,
    };
    memcpy(id.table_uuid, plan->uuid, sizeof id.table_uuid);
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, &id, sizeof id);
    XXH3_128bits_update(&state, location, strlen(location));
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
    memcpy(ret, canonical.digest, 16);
    ret[6] = (uint8_t)((ret[6] & 0x0f) | 0x80); /* version 8: made by rules of our own */
    ret[8] = (uint8_t)((ret[8] & 0x3f) | 0x80);
}
