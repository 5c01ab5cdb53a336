/*
 * Leases: a snapshot of a stored table whose files stay while we read them, and which files these are.
 *
 * A lease is the connection's.  When that breaks, files stay for the grace window, and whoever wants more takes another
 * lease.  Nobody waits for the end of one.
 */
#include "client.h"

#include "fileuri.h"

#include <poll.h>
#include <stdlib.h>

#define PAGE 1000u /* files that one request asks for */
#define TRIES 3    /* with a connection that breaks between lease and files */

/* ---- the question -------------------------------------------------------------------------------------- */

int hold_ask(skade *s, skade_table table, const struct skade_scan_options *options, struct hold_question *ret)
{
    *ret = (struct hold_question){ .table = table, .at = SEQ_MAX };
    if (!options)
        return 0;
    if (options->size < sizeof *options)
        return fail(&s->msg, SKADE_EINPUT, "skade_scan_options.size is not set");
    if (options->by > SKADE_AT_SEQ)
        return fail(&s->msg, SKADE_EINPUT, "skade_scan_options.by is none of SKADE_AT_...");
    if (options->flags & ~(uint32_t)SKADE_FILES_ONLY)
        return fail(&s->msg, SKADE_EINPUT, "skade_scan_options.flags has a flag that isn't known");
    if (options->view && options->as_of)
        return fail(&s->msg, SKADE_EINPUT, "skade_scan_options has a view and as_of: two moments");
    ret->by = options->by;
    ret->value = options->by == SKADE_AT_HEAD ? 0 : options->value;
    if (options->as_of)
        ret->at = options->as_of;
    if (options->view) {
        ret->at = skade_view_seq(options->view);
        ret->log = view_log(options->view);
    }
    return 0;
}

/* ---- taking and letting go ------------------------------------------------------------------------------- */

static int take_leased(skade *s, const struct frame *f, const struct hold_question *q, struct hold *ret)
{
    struct msg_leased m;

    if (wire_read_leased(f->payload, f->head.len, &m) < 0 || m.table != q->table)
        return ask_broken(s, "a malformed lease");
    *ret = (struct hold){ .log = s->log,
                          .origin = s->welcome.origin,
                          .serial = s->stream.serial,
                          .number = m.lease,
                          .at = m.at,
                          .table = m.table,
                          .snapshot = m.snapshot,
                          .seq = m.seq,
                          .time_us = m.time_us,
                          .base_seq = m.base_seq,
                          .after = m.after,
                          .fd = s->stream.fd,
                          .dev = s->stream.dev,
                          .ino = s->stream.ino };
    return 0;
}

int hold_take(skade *s, const struct hold_question *q, struct hold *ret)
{
    struct moment m = { .log = q->log };
    struct msg_lease lease = { .at = q->at, .table = q->table, .by = (uint8_t)q->by, .value = q->value };
    struct frame f;

    int r = moment_check_log(s, &m);
    if (r < 0)
        return r;
    wire_put_lease(ask_begin(s), &lease);
    r = ask(s, ASK_READ, WIRE_LEASE, WIRE_LEASED, &f);
    return r < 0 ? r : take_leased(s, &f, q, ret);
}

bool hold_is_held(const skade *s, const struct hold *h)
{
    return h->serial != 0 && s->stream.fd >= 0 && s->stream.serial == h->serial;
}

bool hold_stands(void *arg)
{
    const struct hold *h = arg;
    struct pollfd p = { .fd = h->fd, .events = POLLRDHUP };

    return h->serial != 0 && stream_is_socket(h->fd, h->dev, h->ino) && poll(&p, 1, 0) >= 0 &&
           !(p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}

void hold_end(skade *s, struct hold *h)
{
    if (hold_is_held(s, h) && !s->unfinished && !s->stream.cut) {
        wire_put_lease_end(ask_begin(s), &(struct msg_lease_end){ .lease = h->number });
        ask_unwaited(s, WIRE_LEASE_END);
    }
    h->serial = 0;
}

/* ---- files ------------------------------------------------------------------------------------------------ */

void hold_files_fini(struct hold_files *f)
{
    for (size_t i = 0; i < f->n; i++)
        free((char *)f->files[i].path);
    free(f->files);
    *f = (struct hold_files){ .n = 0 };
}

static int add_file(skade *s, const struct item_file_row *row, struct hold_files *to)
{
    char path[SKADE_LOCATION_MAX + 1];

    if (file_uri_path(path, sizeof path, row->location) < 0)
        return ask_broken(s, "a file that is at no path");
    if (to->n == to->cap) {
        size_t cap = to->cap ? to->cap * 2 : 64;
        struct rowset_file *files = realloc(to->files, cap * sizeof *files);
        if (!files)
            return fail(&s->msg, -ENOMEM, "out of memory for a list of files");
        to->files = files;
        to->cap = cap;
    }
    char *copy = strdup(path);
    if (!copy)
        return fail(&s->msg, -ENOMEM, "out of memory for a list of files");
    to->files[to->n++] =
        (struct rowset_file){ .path = copy, .seq = row->seq, .time_us = row->time_us, .base = row->base };
    return 0;
}

/* How far the list has come, from the newest file on. */
struct listing {
    const struct hold *hold;
    uint64_t newer_than;
    uint64_t before; /* the last file's number */
    bool end;
};

/* The base comes last, whatever its number is. */
static bool follows(const struct listing *l, const struct item_file_row *row)
{
    if (l->end)
        return false;
    if (row->base)
        return row->seq == l->hold->base_seq;
    return row->seq < l->before && row->seq > l->hold->after;
}

static int take_page(skade *s, const struct frame *f, struct listing *l, struct hold_files *to)
{
    struct msg_file_list m;
    struct item_file_row row;
    int r = 0;

    if (wire_read_file_list(f->payload, f->head.len, &m) < 0 || (m.more && m.files.count == 0))
        return ask_broken(s, "a malformed list of files");
    for (uint32_t i = 0; r == 0 && i < m.files.count; i++) {
        wire_get_file_row(&m.files.items, &row);
        if (!follows(l, &row))
            return ask_broken(s, "files out of order");
        l->end = row.base || row.seq <= l->newer_than;
        if (l->newer_than != 0 && l->end)
            return 0;
        l->before = row.base ? l->before : row.seq;
        r = add_file(s, &row, to);
    }
    l->end |= !m.more;
    return r;
}

static int list_files(skade *s, const struct hold *h, uint64_t newer_than, struct hold_files *to)
{
    struct listing l = { .hold = h, .newer_than = newer_than, .before = SEQ_MAX, .end = h->seq == 0 };
    struct frame f;
    int r = 0;

    while (r == 0 && !l.end) {
        struct msg_files m = { .lease = h->number, .before = l.before, .limit = PAGE };
        wire_put_files(ask_begin(s), &m);
        r = ask(s, ASK_READ, WIRE_FILES, WIRE_FILE_LIST, &f);
        if (s->stream.serial != h->serial) /* asked on another connection, where the number means nothing */
            return 1;
        if (r == 0)
            r = take_page(s, &f, &l, to);
        deadline_renew(s);
    }
    return r;
}

static void reverse(struct hold_files *f)
{
    for (size_t i = 0; i < f->n / 2; i++) {
        struct rowset_file file = f->files[i];
        f->files[i] = f->files[f->n - 1 - i];
        f->files[f->n - 1 - i] = file;
    }
}

int hold_files(skade *s, const struct hold *h, uint64_t newer_than, struct hold_files *ret)
{
    *ret = (struct hold_files){ .n = 0 };
    int r = list_files(s, h, newer_than, ret);
    if (r != 0)
        hold_files_fini(ret);
    reverse(ret);
    return r;
}

/* ---- both -------------------------------------------------------------------------------------------------- */

static int open_once(skade *s, const struct hold_question *q, const struct rowset_options *opt,
                     struct hold *h, struct rowset **ret)
{
    struct rowset_options options = *opt;
    struct hold_files files;

    int r = hold_take(s, q, h);
    if (r < 0)
        return r;
    r = hold_files(s, h, 0, &files);
    options.log = h->origin;
    options.table = h->table;
    options.owner = s->place.uid;
    options.held = hold_stands;
    options.held_arg = h;
    if (r == 0)
        r = rowset_open(ret, files.files, files.n, &options, &s->msg);
    hold_files_fini(&files);
    if (r != 0)
        hold_end(s, h);
    return r;
}

int hold_open(skade *s, const struct hold_question *q, const struct rowset_options *opt, struct hold *h,
              struct rowset **ret)
{
    for (int i = 0; i < TRIES; i++) {
        int r = open_once(s, q, opt, h, ret);
        if (r <= 0)
            return r;
    }
    return fail(&s->msg, SKADE_EUNREACHABLE,
                "the daemon at %s closes every connection in the middle of an answer", s->socket_path);
}

struct skade_row row_told(const struct row *row, uint32_t size)
{
    return (struct skade_row){ .size = size,
                               .has_key = (row->flags & ROW_KEYED) != 0,
                               .key = row->flags & ROW_KEYED ? row->key.data : NULL,
                               .key_len = row->key.len,
                               .value = row->value_len == 0 ? "" : row->value,
                               .value_len = row->value_len,
                               .time_us = row->time_us };
}
