/*
 * Scans: a snapshot's rows, in order, by any number of cursors.
 *
 * The handle is needed to begin and to end.  In between a cursor touches the row set and itself only, so that each may
 * belong to a thread of its own.
 */
#include "client.h"

#include "manifest.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct skade_scan {
    skade *s;
    struct hold hold;
    struct rowset *set; /* NULL: SKADE_FILES_ONLY */
    struct rowset_sum sum;
};

struct skade_cursor {
    struct rowset_cursor *rows;
    bool on_row;
    uint64_t value_len; /* of that row */
    struct errmsg msg;
};

/* ---- scans ------------------------------------------------------------------------------------------------ */

static void scan_free(struct skade_scan *scan)
{
    rowset_close(scan->set);
    hold_end(scan->s, &scan->hold);
    free(scan);
}

static int find_rows(skade *s, struct skade_scan *scan, const struct hold_question *q,
                     const struct rowset_options *opt)
{
    int r = hold_open(s, q, opt, &scan->hold, &scan->set);
    int64_t since = clock_ms();
    if (r == 0)
        r = rowset_prepare(scan->set, &s->msg);
    if (r == 0)
        r = rowset_sum(scan->set, &scan->sum, &s->msg);
    deadline_leave_out(s, since);
    return r;
}

static int open_scan(skade *s, skade_table table, const struct skade_scan_options *options, skade_scan **ret)
{
    struct rowset_options opt = { .memory = 0 };
    struct hold_question q;

    int r = hold_ask(s, table, options, &q);
    if (r < 0)
        return r;
    if (options) {
        opt.memory = options->memory;
        opt.temp_dir = options->temp_dir;
    }
    struct skade_scan *scan = calloc(1, sizeof *scan);
    if (!scan)
        return fail(&s->msg, -ENOMEM, "out of memory for a scan");
    scan->s = s;
    r = options && options->flags & SKADE_FILES_ONLY ? hold_take(s, &q, &scan->hold)
                                                     : find_rows(s, scan, &q, &opt);
    if (r < 0)
        scan_free(scan);
    else
        *ret = scan;
    return r;
}

int skade_scan_open(skade *s, skade_table table, const struct skade_scan_options *options, skade_scan **ret)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0)
        r = open_scan(s, table, options, ret);
    return (int)call_end(&c, r);
}

void skade_scan_close(skade_scan *scan)
{
    struct call c;

    if (!scan)
        return;
    int r = call_begin_frozen(&c, scan->s);
    if (r < 0)
        scan->hold.serial = 0; /* a callback closes it: the lease ends with the connection */
    scan_free(scan);
    call_end(&c, r);
}

int skade_scan_info(skade_scan *scan, struct skade_scan_info *ret)
{
    const struct rowset_sum *sum = &scan->sum;
    struct skade_scan_info info = { .size = ret->size,
                                    .table = scan->hold.table,
                                    .snapshot = scan->hold.snapshot,
                                    .seq = scan->hold.seq,
                                    .time_us = scan->hold.time_us,
                                    .rows = sum->rows,
                                    .entries = sum->entries,
                                    .files = sum->files,
                                    .bytes = sum->bytes,
                                    .raw_bytes = sum->raw_bytes };

    if (ret->size < sizeof info)
        return SKADE_EINPUT;
    copy_sized(ret, ret->size, &info, sizeof info);
    return 0;
}

/* ---- files ------------------------------------------------------------------------------------------------ */

struct telling {
    skade *s;
    skade_scan_file_fn fn;
    void *arg;
    int64_t told;
};

static int tell_file(struct telling *t, const struct rowset_file *f, const char *path)
{
    struct skade_scan_file file = {
        .size = sizeof file, .base = f->base, .path = path, .seq = f->seq, .time_us = f->time_us
    };

    t->s->lent = true;
    int r = t->fn(t->arg, &file);
    t->s->lent = false;
    t->told += r == 0;
    return r;
}

static int read_manifest(skade *s, const struct hold *h, const char *path, struct manifest *ret)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0)
        return fail(&s->msg, errno == ENOENT ? SKADE_EEXPIRED : -errno, "%s: %s", path,
                    strerrordesc_np(errno));
    int r = manifest_read(ret, fd, path, &h->origin, h->table, &s->msg);
    close(fd);
    return r;
}

/* The .rows files that the manifest names, which are beside it, and the manifest. */
static int tell_base(struct telling *t, const struct hold *h, const struct rowset_file *f)
{
    char path[SKADE_LOCATION_MAX + 1 + ENTRY_NAME_MAX], name[ENTRY_NAME_MAX];
    int dir = (int)(strrchr(f->path, '/') - f->path);
    struct manifest m;

    int r = read_manifest(t->s, h, f->path, &m);
    if (r < 0)
        return r;
    for (uint32_t i = 0; r == 0 && i < m.header.files; i++) {
        snprintf(path, sizeof path, "%.*s/%s", dir, f->path,
                 entry_name(name, NAME_ROWS, &m.header.uuid, i + 1));
        r = tell_file(t, f, path);
    }
    manifest_fini(&m);
    return r != 0 ? r : tell_file(t, f, f->path);
}

static int64_t tell_files(skade_scan *scan, skade_scan_file_fn fn, void *arg)
{
    struct telling t = { scan->s, fn, arg, 0 };
    struct hold_files files = { .n = 0 };
    int r = hold_is_held(scan->s, &scan->hold) ? hold_files(scan->s, &scan->hold, 0, &files) : 1;

    if (r == 1)
        return fail(&scan->s->msg, SKADE_EEXPIRED,
                    "the connection broke since the scan was opened, and its lease ended: open another");
    for (size_t i = 0; r == 0 && i < files.n; i++)
        r = files.files[i].base ? tell_base(&t, &scan->hold, &files.files[i])
                                : tell_file(&t, &files.files[i], files.files[i].path);
    hold_files_fini(&files);
    return r != 0 ? r : t.told;
}

int64_t skade_scan_files(skade_scan *scan, skade_scan_file_fn fn, void *arg)
{
    struct call c;

    int64_t r = call_begin(&c, scan->s);
    if (r == 0)
        r = tell_files(scan, fn, arg);
    return call_end(&c, r);
}

/* ---- cursors: no handle from here on ---------------------------------------------------------------------- */

/* What the host program must not notice; call.c does the same for handles. */
struct quiet {
    int saved_errno;
    int cancel_state;
};

static struct quiet quiet_begin(void)
{
    struct quiet q = { .saved_errno = errno };

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &q.cancel_state);
    return q;
}

static int quiet_end(const struct quiet *q, int r)
{
    pthread_setcancelstate(q->cancel_state, NULL);
    errno = q->saved_errno;
    return r;
}

static int open_cursor(skade_scan *scan, unsigned flags, unsigned part, unsigned parts, skade_cursor **ret)
{
    enum entry_order order = flags & SKADE_OLDEST_FIRST ? OLDEST_FIRST : NEWEST_FIRST;

    if (!scan->set || part >= parts || (flags & ~(unsigned)SKADE_OLDEST_FIRST))
        return SKADE_EINPUT;
    struct skade_cursor *c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    int r = rowset_cursor_open(&c->rows, scan->set, order, part, parts, &c->msg);
    if (r < 0)
        free(c);
    else
        *ret = c;
    return r;
}

int skade_cursor_open(skade_scan *scan, unsigned flags, unsigned part, unsigned parts, skade_cursor **ret)
{
    struct quiet q = quiet_begin();

    return quiet_end(&q, open_cursor(scan, flags, part, parts, ret));
}

void skade_cursor_close(skade_cursor *c)
{
    struct quiet q = quiet_begin();

    if (c)
        rowset_cursor_close(c->rows);
    free(c);
    quiet_end(&q, 0);
}

/* Field by field: a struct that is copied right after it was made waits for its stores. */
static int tell(skade_cursor *c, const struct row *row, struct skade_row *ret)
{
    c->on_row = true;
    c->value_len = row->value_len;
    ret->has_key = (row->flags & ROW_KEYED) != 0;
    ret->key = row->flags & ROW_KEYED ? row->key.data : NULL;
    ret->key_len = row->key.len;
    ret->value = row->value_len == 0 ? "" : row->value;
    ret->value_len = row->value_len;
    ret->time_us = row->time_us;
    if (ret->size > sizeof *ret)
        memset(ret + 1, 0, ret->size - sizeof *ret);
    return 1;
}

static int next(skade_cursor *c, struct skade_row *ret)
{
    struct row row;

    if (ret->size < sizeof *ret)
        return fail(&c->msg, SKADE_EINPUT, "skade_row.size is not set");
    int r = rowset_next(c->rows, &row, &c->msg);
    c->on_row = false;
    return r <= 0 ? r : tell(c, &row, ret);
}

int skade_cursor_next(skade_cursor *c, struct skade_row *row)
{
    struct row at_hand;

    /* Nothing to hide from the program then, and hiding would be half of what a row costs. */
    if (row->size >= sizeof *row && rowset_next_at_hand(c->rows, &at_hand))
        return tell(c, &at_hand, row);
    struct quiet q = quiet_begin();
    return quiet_end(&q, next(c, row));
}

static int read_value(skade_cursor *c, uint64_t offset, void *buffer, size_t len)
{
    if (!c->on_row)
        return fail(&c->msg, SKADE_EINPUT, "the cursor stands on no row");
    if (offset > c->value_len || len > c->value_len - offset)
        return fail(&c->msg, SKADE_EINPUT, "%zu bytes from %llu on are more than the value's %llu", len,
                    (unsigned long long)offset, (unsigned long long)c->value_len);
    return len == 0 ? 0 : rowset_value_read(c->rows, offset, buffer, len, &c->msg);
}

int skade_cursor_read(skade_cursor *c, uint64_t offset, void *buffer, size_t len)
{
    struct quiet q = quiet_begin();

    return quiet_end(&q, read_value(c, offset, buffer, len));
}

const char *skade_cursor_errmsg(const skade_cursor *c)
{
    return c->msg.text;
}
