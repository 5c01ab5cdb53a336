/*
 * Most tables are ordered by their files' names alone.  If two files have one number, or there are names
 * without number, or two ways of numbering, every file is read once for its last-updated-ms and for what its
 * metadata-log says of the files in doubt (the suspects).
 */
#include "import_order.h"

#include "iceberg.h"
#include "skade_errors.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NOBODY UINT32_MAX

/* The metadata-log of one file names another.  Indexes into files. */
struct mention {
    uint32_t named, by;
};

struct sorter {
    struct import_file **files; /* by key, then path */
    size_t count;
    const struct import_options *options;
    struct iceberg_error *err;
    uint32_t *suspects; /* by name */
    size_t suspect_count;
    uint32_t *last_by; /* per file: who was the last to name it */
    struct mention *mentions;
    size_t mention_count, mention_room;
    uint32_t reading; /* the file that is being read */
};

/* ---- by names ------------------------------------------------------------------------------------------ */

static int by_key(const void *a, const void *b)
{
    const struct import_file *x = *(struct import_file *const *)a, *y = *(struct import_file *const *)b;
    int c = iceberg_name_compare(&x->key, &y->key);
    return c ? c : strcmp(x->path, y->path);
}

static bool same_number(const struct import_file *a, const struct import_file *b)
{
    return iceberg_series_numbered(a->key.series) && iceberg_name_compare(&a->key, &b->key) == 0;
}

static void drop_repeated_paths(struct sorter *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++)
        if (kept == 0 || strcmp(s->files[kept - 1]->path, s->files[i]->path) != 0)
            s->files[kept++] = s->files[i];
    s->count = kept;
}

static bool names_say_it_all(const struct sorter *s)
{
    for (size_t i = 1; i < s->count; i++) {
        const struct import_file *a = s->files[i - 1], *b = s->files[i];
        if (a->key.series != b->key.series || !iceberg_series_numbered(b->key.series) || same_number(a, b))
            return false;
    }
    return true;
}

/* ---- suspects: files that may be left over ------------------------------------------------------------- */

/* Sorted by key, so that files of one number are neighbours and those with a version come first. */
static bool is_suspect(const struct sorter *s, size_t i)
{
    if (s->files[i]->key.series == SERIES_UUID)
        return s->files[0]->key.series == SERIES_VERSION;
    return (i > 0 && same_number(s->files[i - 1], s->files[i])) ||
           (i + 1 < s->count && same_number(s->files[i], s->files[i + 1]));
}

static int by_name(const void *a, const void *b, void *arg)
{
    const struct sorter *s = arg;
    return strcmp(s->files[*(const uint32_t *)a]->name, s->files[*(const uint32_t *)b]->name);
}

static int find_suspects(struct sorter *s)
{
    s->suspects = malloc(s->count * sizeof *s->suspects);
    s->last_by = malloc(s->count * sizeof *s->last_by);
    if (!s->suspects || !s->last_by)
        return -ENOMEM;
    for (size_t i = 0; i < s->count; i++) {
        s->last_by[i] = NOBODY;
        if (is_suspect(s, i))
            s->suspects[s->suspect_count++] = (uint32_t)i;
    }
    qsort_r(s->suspects, s->suspect_count, sizeof *s->suspects, by_name, s);
    return 0;
}

static int compare_name(const char *name, const char *other, size_t other_len)
{
    int c = strncmp(name, other, other_len);
    return c ? c : name[other_len] != '\0';
}

/* The first suspect whose name isn't less than NAME. */
static size_t first_suspect(const struct sorter *s, const char *name, size_t len)
{
    size_t low = 0, high = s->suspect_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (compare_name(s->files[s->suspects[mid]]->name, name, len) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int add_mention(struct sorter *s, uint32_t named)
{
    if (s->last_by[named] == s->reading)
        return 0; /* said already: a log that repeats itself doesn't grow the list */
    if (s->mention_count == s->mention_room) {
        size_t room = s->mention_room ? s->mention_room * 2 : 64;
        struct mention *m = reallocarray(s->mentions, room, sizeof *m);
        if (!m)
            return -ENOMEM;
        s->mentions = m;
        s->mention_room = room;
    }
    s->last_by[named] = s->reading;
    s->mentions[s->mention_count++] = (struct mention){ named, s->reading };
    return 0;
}

/* Tables get moved, so of the locations in a metadata-log the last part counts. */
static int on_previous(void *arg, const char *file, size_t len)
{
    struct sorter *s = arg;
    const char *slash = memrchr(file, '/', len);
    const char *name = slash ? slash + 1 : file;
    size_t name_len = len - (size_t)(name - file);
    int r = 0;
    for (size_t i = first_suspect(s, name, name_len); r == 0 && i < s->suspect_count; i++) {
        if (compare_name(s->files[s->suspects[i]]->name, name, name_len) != 0)
            break;
        r = add_mention(s, s->suspects[i]);
    }
    return r;
}

static int read_file(struct sorter *s, size_t i)
{
    struct iceberg_metadata m;
    const struct iceberg_log_sink log = { on_previous, s };
    s->reading = (uint32_t)i;
    int r = iceberg_read(s->files[i]->path, s->suspect_count ? &log : NULL, &m, s->err);
    if (r < 0)
        return import_bad_file(s->files[i], r, s->options, s->err);
    s->files[i]->order_ms = m.last_updated_ms;
    iceberg_free(&m);
    return 0;
}

static int by_named(const void *a, const void *b)
{
    const struct mention *x = a, *y = b;
    if (x->named != y->named)
        return x->named < y->named ? -1 : 1;
    return (x->by > y->by) - (x->by < y->by);
}

static int read_files(struct sorter *s)
{
    int r = find_suspects(s);
    if (r < 0)
        return iceberg_fail(s->err, r, "no memory to order the files");
    for (size_t i = 0; r == 0 && i < s->count; i++)
        r = read_file(s, i);
    if (s->mention_count)
        qsort(s->mentions, s->mention_count, sizeof *s->mentions, by_named);
    return r;
}

/* ---- judging the suspects ------------------------------------------------------------------------------ */

/* Could A's metadata-log rightly name B?  Between different kinds of names nobody can say, so it counts. */
static bool is_later(const struct import_file *a, const struct import_file *b)
{
    return a->key.series != b->key.series || iceberg_name_compare(&a->key, &b->key) > 0;
}

/* Where the mentions of file NAMED begin, or would. */
static size_t first_mention(const struct sorter *s, size_t named)
{
    size_t low = 0, high = s->mention_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (s->mentions[mid].named < named)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* A later, committed file that names file I, or NULL. */
static const struct import_file *witness(const struct sorter *s, size_t i)
{
    for (size_t m = first_mention(s, i); m < s->mention_count && s->mentions[m].named == i; m++) {
        const struct import_file *by = s->files[s->mentions[m].by];
        if (!by->out && is_later(by, s->files[i]))
            return by;
    }
    return NULL;
}

static int undecided(struct sorter *s, const struct import_file *a, const struct import_file *b)
{
    return iceberg_fail(s->err, SKADE_EINPUT,
                        "%s and %s have one number, and no later file's metadata-log says which of them was "
                        "committed: move the other "
                        "one away",
                        a->path, b->path);
}

/* Files of one number. */
struct group {
    const struct import_file *first, *second; /* not left out so far */
    const struct import_file *kept, *by;      /* named, and by whom */
    const struct import_file *rival;          /* named as well */
};

static void consider(const struct sorter *s, size_t i, struct group *g)
{
    const struct import_file *f = s->files[i];
    if (f->out)
        return;
    if (!g->first)
        g->first = f;
    else if (!g->second)
        g->second = f;
    const struct import_file *by = witness(s, i);
    if (by && g->kept) {
        g->rival = f;
    } else if (by) {
        g->kept = f;
        g->by = by;
    }
}

static void leave_out(struct sorter *s, size_t from, size_t to, const struct group *g)
{
    for (size_t i = from; i < to; i++) {
        struct import_file *f = s->files[i];
        if (f->out || f == g->kept)
            continue;
        f->out = true;
        import_tell(s->options, IMPORT_LEFTOVER, "%s: left over by a failed commit: %s names %s", f->path,
                    g->by->path, g->kept->name);
    }
}

/* Of the files [FROM, TO), which have one number, one stays. */
static int judge_group(struct sorter *s, size_t from, size_t to)
{
    struct group g = { 0 };
    for (size_t i = from; i < to; i++)
        consider(s, i, &g);
    if (!g.second)
        return 0;
    if (g.rival)
        return undecided(s, g.kept, g.rival);
    if (!g.kept)
        return undecided(s, g.first, g.second);
    leave_out(s, from, to, &g);
    return 0;
}

/* From the newest to the oldest, so that what a left-over file names doesn't count. */
static int judge_numbers(struct sorter *s)
{
    int r = 0;
    for (size_t to = s->count; r == 0 && to > 0;) {
        size_t from = to - 1;
        while (from > 0 && same_number(s->files[from - 1], s->files[from]))
            from--;
        if (to - from > 1)
            r = judge_group(s, from, to);
        to = from;
    }
    return r;
}

static void judge_scratch_files(struct sorter *s)
{
    for (size_t i = 0; i < s->suspect_count; i++) {
        struct import_file *f = s->files[s->suspects[i]];
        if (f->out || f->key.series != SERIES_UUID || witness(s, s->suspects[i]))
            continue;
        f->out = true;
        import_tell(s->options, IMPORT_LEFTOVER, "%s: left over by a failed commit: no metadata-log names it",
                    f->path);
    }
}

/* ---- one order ----------------------------------------------------------------------------------------- */

static void drop_out(struct sorter *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++)
        if (!s->files[i]->out)
            s->files[kept++] = s->files[i];
    s->count = kept;
}

static int by_time(const void *a, const void *b)
{
    const struct import_file *x = *(struct import_file *const *)a, *y = *(struct import_file *const *)b;
    if (x->order_ms != y->order_ms)
        return x->order_ms < y->order_ms ? -1 : 1;
    return by_key(a, b);
}

/*
 * Numbers count for more than clocks: a file can't come before one with a lower number, so it gets at least
 * its time.  After that sorting by time merges the series and keeps each one's order.
 */
static void merge_series(struct sorter *s)
{
    for (size_t i = 1; i < s->count; i++) {
        const struct import_file *before = s->files[i - 1];
        struct import_file *f = s->files[i];
        if (f->key.series == before->key.series && iceberg_series_numbered(f->key.series) &&
            f->order_ms < before->order_ms)
            f->order_ms = before->order_ms;
    }
    qsort(s->files, s->count, sizeof *s->files, by_time);
}

static int order_by_content(struct sorter *s)
{
    int r = read_files(s);
    if (r == 0)
        r = judge_numbers(s);
    if (r < 0)
        return r;
    judge_scratch_files(s);
    drop_out(s);
    merge_series(s);
    return 0;
}

int import_order(struct import_file **files, size_t *count, const struct import_options *options,
                 struct iceberg_error *err)
{
    struct sorter s = { .files = files, .count = *count, .options = options, .err = err };
    assert(*count < NOBODY);
    qsort(files, *count, sizeof *files, by_key);
    drop_repeated_paths(&s);
    int r = names_say_it_all(&s) ? 0 : order_by_content(&s);
    *count = s.count;
    free(s.suspects);
    free(s.last_by);
    free(s.mentions);
    return r;
}
