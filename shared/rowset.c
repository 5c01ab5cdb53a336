/*
 * A row set's list of files: made from the log's, extended, counted.
 *
 * The base's .rows files are announced by its manifest with all their counts, so they stay closed until somebody reads
 * them.  A .entries file says its counts in its footer; it is opened once for them, one file after the other.
 */
#include "manifest.h"
#include "rowset_inner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MEMORY_DEFAULT ((size_t)64 << 20)

int rowset_cancelled(struct rowset *s, struct errmsg *msg)
{
    if (s->cancelled && s->cancelled(s->arg) != 0)
        return fail(msg, -ECANCELED, "cancelled");
    return 0;
}

/* ---- the list ------------------------------------------------------------------------------------------ */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Room for N files more. */
static int reserve(struct rowset *s, size_t n, struct errmsg *msg)
{
    if (n > INT32_MAX - s->n)
        return fail(msg, SKADE_EINPUT, "more than %d files in one snapshot", INT32_MAX);
    struct data_file *files = realloc(s->files, (s->n + n + 1) * sizeof *files);
    if (!files)
        return fail(msg, -ENOMEM, "no memory for a list of %zu files", s->n + n);
    s->files = files;
    return 0;
}

static int add_rows_file(struct rowset *s, const char *manifest, const struct manifest *m, uint32_t i,
                         struct errmsg *msg)
{
    const struct manifest_file *f = &m->files[i];
    char name[ENTRY_NAME_MAX];
    struct data_file *d = &s->files[s->n];
    struct key_span *keys = NULL;

    if (f->keyed > 0 && key_span_make(&keys, &f->low, &f->high) < 0)
        return fail(msg, -ENOMEM, "no memory for a path");
    *d = (struct data_file){
        .uuid = m->header.uuid,
        .footer_check = f->footer_check,
        .size = f->size,
        .rows = f->rows,
        .keyed = f->keyed,
        .raw_bytes = f->raw_bytes,
        .part = i + 1,
        .slot = -1,
        .known = true,
        .keys = keys,
    };
    entry_name(name, NAME_ROWS, &m->header.uuid, i + 1);
    if (asprintf(&d->path, "%.*s%s", (int)(base_name(manifest) - manifest), manifest, name) < 0) {
        free(keys);
        return fail(msg, -ENOMEM, "no memory for a path");
    }
    s->n++;
    return 0;
}

static int add_base(struct rowset *s, const struct rowset_file *file, struct errmsg *msg)
{
    struct manifest m;
    struct stat st;

    int fd = rowset_open_path(s, file->path, &st, msg);
    if (fd < 0)
        return fd;
    int r = manifest_read(&m, fd, file->path, &s->log, s->table, msg);
    close(fd);
    if (r < 0)
        return r;
    r = reserve(s, m.header.files, msg);
    for (uint32_t i = 0; r == 0 && i < m.header.files; i++)
        r = add_rows_file(s, file->path, &m, i, msg);
    s->base_n = s->n;
    s->manifest_bytes = m.header.size;
    manifest_fini(&m);
    return r;
}

static int add_entries(struct rowset *s, const struct rowset_file *file, struct errmsg *msg)
{
    struct data_file *d = &s->files[s->n];
    enum entry_name kind;
    struct uuid uuid;
    uint32_t part;

    assert(!file->base);
    *d = (struct data_file){ .time_us = file->time_us, .slot = -1 };
    if (entry_name_parse(base_name(file->path), &kind, &uuid, &part) && kind == NAME_ENTRIES)
        d->uuid = uuid;
    d->path = strdup(file->path);
    if (!d->path)
        return fail(msg, -ENOMEM, "no memory for a path");
    s->n++;
    return 0;
}

/* All of FILES or none. */
static int add_files(struct rowset *s, const struct rowset_file *files, size_t n, struct errmsg *msg)
{
    size_t before = s->n;

    int r = reserve(s, n, msg);
    for (size_t i = 0; r == 0 && i < n; i++)
        r = add_entries(s, &files[i], msg);
    while (r < 0 && s->n > before)
        free(s->files[--s->n].path);
    return r;
}

static int copy_options(struct rowset *s, const struct rowset_options *opt)
{
    const char *temp_dir = opt->temp_dir ? opt->temp_dir : secure_getenv("TMPDIR");

    s->log = opt->log;
    s->table = opt->table;
    s->owner = opt->owner;
    s->memory = opt->memory ? opt->memory : MEMORY_DEFAULT;
    s->cancelled = opt->cancelled;
    s->held = opt->held;
    s->held_arg = opt->held_arg;
    s->arg = opt->arg;
    s->keymap.limit = s->memory / 2;
    s->temp_dir = strdup(temp_dir && *temp_dir ? temp_dir : "/tmp");
    return s->temp_dir ? 0 : -ENOMEM;
}

int rowset_open(struct rowset **ret, const struct rowset_file *files, size_t n,
                const struct rowset_options *opt, struct errmsg *msg)
{
    struct rowset *s = calloc(1, sizeof *s);
    int r = s ? 0 : -ENOMEM;

    if (s)
        s->dead.fd = -1;
    if (r == 0)
        r = copy_options(s, opt);
    if (r < 0) {
        rowset_close(s);
        return fail(msg, r, "no memory for a row set");
    }
    bool base = n > 0 && files[0].base;
    if (base)
        r = add_base(s, &files[0], msg);
    if (r == 0)
        r = add_files(s, base ? files + 1 : files, n - base, msg);
    if (r < 0) {
        rowset_close(s);
        return r;
    }
    s->mapped_from = s->mapped_to = s->n;
    *ret = s;
    return 0;
}

void rowset_close(struct rowset *s)
{
    if (!s)
        return;
    rowset_pool_fini(s);
    keymap_fini(&s->keymap);
    near_fini(&s->near);
    dead_list_fini(&s->dead);
    for (size_t i = 0; i < s->n; i++) {
        free(s->files[i].path);
        free(s->files[i].keys);
    }
    free(s->files);
    free(s->temp_dir);
    free(s);
}

int rowset_extend(struct rowset *s, const struct rowset_file *files, size_t n, struct errmsg *msg)
{
    bool nothing_learned = s->mapped_from == s->n;

    int r = add_files(s, files, n, msg);
    if (r < 0)
        return r;
    if (n > 0)
        s->prepared = false;
    if (nothing_learned)
        s->mapped_from = s->mapped_to = s->n;
    return 0;
}

/* ---- counts -------------------------------------------------------------------------------------------- */

int rowset_learn(struct rowset *s, struct errmsg *msg)
{
    for (size_t i = 0; i < s->n; i++) {
        struct entry_file *f;
        if (s->files[i].known)
            continue;
        int r = rowset_file_open(s, i, &f, msg);
        if (r < 0)
            return r;
        entry_file_close(f);
    }
    return 0;
}

uint64_t rowset_dead_end(const struct rowset *s, size_t file)
{
    return file + 1 < s->n ? s->files[file + 1].dead : s->dead.count;
}

static void count_entries(struct rowset *s)
{
    s->entries = 0;
    for (size_t i = 0; i < s->n; i++) {
        s->files[i].before = s->entries;
        s->entries += s->files[i].rows;
    }
}

int rowset_prepare(struct rowset *s, struct errmsg *msg)
{
    if (s->prepared)
        return 0;
    int r = rowset_find_dead(s, msg);
    if (r < 0)
        return r;
    count_entries(s);
    s->prepared = true;
    return 0;
}

int rowset_sum(struct rowset *s, struct rowset_sum *ret, struct errmsg *msg)
{
    struct rowset_sum sum = { .files = s->n, .bytes = s->manifest_bytes };
    uint64_t deletes = 0;

    int r = rowset_learn(s, msg);
    if (r < 0)
        return r;
    for (size_t i = 0; i < s->n; i++) {
        sum.bytes += s->files[i].size;
        sum.entries += s->files[i].rows;
        sum.raw_bytes += s->files[i].raw_bytes;
        deletes += s->files[i].deletes;
    }
    if (s->prepared)
        sum.rows = sum.entries - deletes - s->dead.count;
    *ret = sum;
    return 0;
}
