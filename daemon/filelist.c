#include "filelist.h"

#include "leases.h"
#include "store.h"

#include <errno.h>
#include <stdlib.h>

#define SLICE 500

struct slice {
    struct filelist *list;
    size_t taken;
};

static int take_file(void *arg, const struct event *e)
{
    struct slice *slice = arg;
    struct filelist *l = slice->list;
    char path[LOCATION_MAX + 1];
    uint32_t table, n;
    enum entry_name kind;
    struct uuid uuid;

    if (slice->taken == SLICE)
        return 1;
    if (l->count == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 64;
        struct listed_file *more = realloc(l->files, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        l->files = more;
        l->cap = cap;
    }
    if (!store_parse(e->text, &table, &n, &kind, &uuid))
        return SKADE_EDAMAGED;
    char *copy = strdup(store_file_name(l->server->store, path, sizeof path, table, n, kind, &uuid, 0));
    if (!copy)
        return -ENOMEM;
    l->files[l->count++] = (struct listed_file){ e->seq, e->time_us, e->kind == EVENT_COMPACT, copy };
    slice->taken++;
    if (e->kind == EVENT_COMMIT)
        l->before = e->seq;
    return 0;
}

static void reverse(struct filelist *l)
{
    for (size_t i = 0, j = l->count; i + 1 < j; i++) {
        struct listed_file swap = l->files[i];
        l->files[i] = l->files[--j];
        l->files[j] = swap;
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct filelist *l = handle->data;
    l->done(l);
}

static void on_idle(uv_idle_t *idle)
{
    struct filelist *l = idle->data;
    struct slice slice = { .list = l };

    int r = l->cancelled
                ? -ECANCELED
                : files_of(l->server, l->table, l->after, l->seq, l->base_seq, l->before, take_file, &slice);
    if (r == 1)
        return; /* the next turn goes on */
    l->error = r;
    if (r == 0)
        reverse(l);
    uv_close((uv_handle_t *)idle, on_closed);
}

void filelist_start(struct filelist *l)
{
    l->before = SEQ_MAX;
    uv_idle_init(&l->server->loop, &l->idle);
    l->idle.data = l;
    uv_idle_start(&l->idle, on_idle);
}

void filelist_cancel(struct filelist *l)
{
    l->cancelled = true;
}

void filelist_fini(struct filelist *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->files[i].path);
    free(l->files);
    l->files = NULL;
    l->count = l->cap = 0;
}
