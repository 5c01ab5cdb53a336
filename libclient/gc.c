/*
 * What compactions and drops left behind: files that wait to be removed.
 */
#include "client.h"

#include <stdio.h>

#define WAITING_MAX 640u

static const char *copy_text(char *to, size_t cap, struct bytes from)
{
    snprintf(to, cap, "%.*s", (int)(from.len < cap ? from.len : cap - 1), from.data);
    return to;
}

static int tell_row(skade *s, const struct item_gc_row *row, skade_garbage_fn fn, void *arg)
{
    char name[SKADE_NAME_MAX + 1], dir[SKADE_LOCATION_MAX + 1], waiting[WAITING_MAX];
    struct skade_garbage g = {
        .size = sizeof g,
        .table = row->table,
        .name = copy_text(name, sizeof name, row->name),
        .dir = copy_text(dir, sizeof dir, row->dir),
        .files = row->files,
        .bytes = row->bytes,
        .retired_us = row->retired_us,
        .due_us = row->due_us,
        .waiting_for = copy_text(waiting, sizeof waiting, row->waiting_for),
    };

    s->lent = true;
    int r = fn(arg, &g);
    s->lent = false;
    return r;
}

static int tell_rows(skade *s, const struct frame *f, skade_garbage_fn fn, void *arg, int64_t *count)
{
    struct msg_gc_list m;
    struct item_gc_row row;

    if (wire_read_gc_list(f->payload, f->head.len, &m) < 0)
        return ask_broken(s, "a malformed list of retired files");
    for (uint32_t i = 0; i < m.rows.count; i++) {
        wire_get_gc_row(&m.rows.items, &row);
        int r = fn ? tell_row(s, &row, fn, arg) : 0;
        if (r != 0)
            return r;
        ++*count;
    }
    return 0;
}

static int64_t collect(skade *s, skade_table table, unsigned flags, skade_garbage_fn fn, void *arg)
{
    struct msg_gc m = { .table = table, .now = (flags & SKADE_GC_NOW) != 0 };
    struct frame f;
    int64_t count = 0;

    if (flags & ~(unsigned)SKADE_GC_NOW)
        return fail(&s->msg, SKADE_EINPUT, "a collection has no flag %#x: 0, or SKADE_GC_NOW", flags);
    wire_put_gc(ask_begin(s), &m);
    int r = ask(s, ASK_LONG, WIRE_GC, WIRE_GC_LIST, &f);
    while (r == 0) {
        bool more = (f.head.flags & FRAME_MORE) != 0;
        r = tell_rows(s, &f, fn, arg, &count);
        if (r != 0 || !more)
            break;
        r = ask_more(s, &f, WIRE_GC_LIST, &f);
    }
    return r != 0 ? r : count;
}

int64_t skade_gc(skade *s, skade_table table, unsigned flags, skade_garbage_fn fn, void *arg)
{
    struct call c;

    int64_t r = call_begin(&c, s);
    if (r == 0)
        r = collect(s, table, flags, fn, arg);
    return call_end(&c, r);
}
