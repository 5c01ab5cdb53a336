/*
 * Opening data files: whose they are, what they must say, and a pool of few that stay open.
 */
#include "rowset_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a file by its path ---------------------------------------------------------------------------------- */

static int explain(const struct rowset *s, int error, const char *path, struct errmsg *msg)
{
    switch (error) {
    case ENOENT:
        if (s->held && s->held(s->held_arg))
            return fail(
                msg, SKADE_EDAMAGED,
                "%s is missing, and nothing retired it: look for who removed it, and put it back from a copy",
                path);
        return fail(msg, SKADE_EEXPIRED,
                    "%s is gone: the table was compacted or dropped since, and its old files were collected",
                    path);
    case ELOOP:
        return fail(msg, SKADE_EFOREIGN, "%s is a symbolic link", path);
    case EMFILE:
    case ENFILE:
        return fail(msg, -error, "cannot open %s: %s; raise the limit (ulimit -n)", path,
                    strerrordesc_np(error));
    default:
        return fail(msg, -error, "cannot open %s: %s", path, strerrordesc_np(error));
    }
}

static int check_owner(const struct rowset *s, int fd, const char *path, struct stat *st, struct errmsg *msg)
{
    if (fstat(fd, st) < 0)
        return fail(msg, -errno, "cannot look at %s: %s", path, strerrordesc_np(errno));
    if (!S_ISREG(st->st_mode))
        return fail(msg, SKADE_EFOREIGN, "%s is not a regular file", path);
    if (st->st_uid != 0 && st->st_uid != s->owner)
        return fail(msg, SKADE_EFOREIGN, "%s belongs to uid %u; only uid %u and root are trusted", path,
                    st->st_uid, s->owner);
    return 0;
}

int rowset_open_path(const struct rowset *s, const char *path, struct stat *st, struct errmsg *msg)
{
    /* O_NONBLOCK: a FIFO in the file's place must not hold us. */
    int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;

    int fd = open(path, flags | O_NOATIME);
    if (fd < 0 && errno == EPERM)
        fd = open(path, flags); /* O_NOATIME is for the owner only */
    if (fd < 0)
        return explain(s, errno, path, msg);
    int r = check_owner(s, fd, path, st, msg);
    if (r < 0) {
        close(fd);
        return r;
    }
    return fd;
}

/* ---- a data file ----------------------------------------------------------------------------------------- */

static int learn(struct data_file *d, const struct entry_footer *footer, struct errmsg *msg)
{
    if (footer->keyed > 0 && key_span_make(&d->keys, &footer->low, &footer->high) < 0)
        return fail(msg, -ENOMEM, "%s: no memory for what its footer says", d->path);
    d->size = footer->size;
    d->rows = footer->rows;
    d->keyed = footer->keyed;
    d->deletes = footer->deletes;
    d->raw_bytes = footer->raw_bytes;
    d->footer_check = footer->check;
    d->keys_differ = footer->facts & KEYS_DIFFER;
    d->known = true;
    return 0;
}

/* Cursors rely on the counts, so a file whose footer disagrees with them is none of ours. */
static int agree(struct data_file *d, const struct entry_file *f, struct errmsg *msg)
{
    const struct entry_footer *footer = entry_file_footer(f);

    if (entry_file_compacted(f) != (d->part != 0))
        return fail(msg, SKADE_EFOREIGN, "%s: offset 0: %s file in the place of %s one", d->path,
                    d->part ? "a .entries" : "a .rows", d->part ? "a .rows" : "a .entries");
    int r = d->known ? 0 : learn(d, footer, msg);
    if (r < 0)
        return r;
    if (footer->rows != d->rows || footer->keyed != d->keyed || footer->deletes != d->deletes)
        return fail(msg, SKADE_EDAMAGED, "%s: offset %llu: the footer counts %llu rows, %llu were announced",
                    d->path, (unsigned long long)(footer->size - sizeof *footer),
                    (unsigned long long)footer->rows, (unsigned long long)d->rows);
    if (d->keys && !key_span_says(d->keys, &footer->low, &footer->high))
        return fail(msg, SKADE_EDAMAGED, "%s: offset %llu: the footer says other keys than were announced",
                    d->path, (unsigned long long)(footer->size - sizeof *footer));
    return 0;
}

int rowset_file_open(struct rowset *s, size_t i, struct entry_file **ret, struct errmsg *msg)
{
    struct data_file *d = &s->files[i];
    struct entry_file *f;
    struct stat st;

    int r = rowset_cancelled(s, msg);
    if (r < 0)
        return r;
    int fd = rowset_open_path(s, d->path, &st, msg);
    if (fd < 0)
        return fd;
    struct entry_expect expect = {
        .log = s->log,
        .table = s->table,
        .uuid = d->uuid,
        .part = d->part,
        .footer_check = d->footer_check,
        .size = d->size,
        .st = &st,
    };
    r = entry_file_open(&f, fd, d->path, &expect, msg);
    if (r < 0)
        return r;
    r = agree(d, f, msg);
    if (r < 0) {
        entry_file_close(f);
        return r;
    }
    *ret = f;
    return 0;
}

/* ---- the pool -------------------------------------------------------------------------------------------- */

/* A quarter of what this process may open, since it has other uses for descriptors too. */
static unsigned pool_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / 4 >= POOL_SLOTS)
        return POOL_SLOTS;
    return limit.rlim_cur / 4 < 2 ? 2 : (unsigned)(limit.rlim_cur / 4);
}

static void empty_slot(struct rowset *s, struct pool_slot *slot)
{
    if (!slot->file)
        return; /* opening failed after another one had to leave */
    entry_cursor_close(slot->cursor);
    entry_file_close(slot->file);
    s->files[slot->ordinal].slot = -1;
    *slot = (struct pool_slot){ 0 };
}

void rowset_pool_fini(struct rowset *s)
{
    while (s->pool_count)
        empty_slot(s, &s->pool[--s->pool_count]);
    s->found = NULL;
}

static struct pool_slot *free_slot(struct rowset *s)
{
    struct pool_slot *oldest = &s->pool[0];

    if (s->pool_limit == 0)
        s->pool_limit = pool_limit();
    if (s->pool_count < s->pool_limit)
        return &s->pool[s->pool_count++];
    for (unsigned i = 1; i < s->pool_count; i++)
        if (s->pool[i].used < oldest->used)
            oldest = &s->pool[i];
    empty_slot(s, oldest);
    return oldest;
}

static int fill_slot(struct rowset *s, size_t i, struct pool_slot *slot, struct errmsg *msg)
{
    struct entry_file *f;
    struct entry_cursor *c;

    int r = rowset_file_open(s, i, &f, msg);
    if (r < 0)
        return r;
    r = entry_cursor_open(&c, f, NEWEST_FIRST, s->files[i].time_us, msg);
    if (r < 0) {
        entry_file_close(f);
        return r;
    }
    *slot = (struct pool_slot){ .file = f, .cursor = c, .ordinal = i };
    s->files[i].slot = (int32_t)(slot - s->pool);
    return 0;
}

int rowset_pool_get(struct rowset *s, size_t i, struct pool_slot **ret, struct errmsg *msg)
{
    struct pool_slot *slot;

    if (s->files[i].slot >= 0) {
        slot = &s->pool[s->files[i].slot];
    } else {
        slot = free_slot(s);
        int r = fill_slot(s, i, slot, msg);
        if (r == -EMFILE) { /* others in this process took the descriptors: go on with those we have */
            rowset_pool_fini(s);
            slot = free_slot(s);
            r = fill_slot(s, i, slot, msg);
        }
        if (r < 0) {
            s->pool_count -= slot == &s->pool[s->pool_count - 1];
            return r;
        }
    }
    slot->used = ++s->pool_uses;
    *ret = slot;
    return 0;
}
