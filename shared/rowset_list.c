/*
 * The list of dead rows: 8 bytes each, read in order by any number of cursors.
 *
 * What fits into the budget stays in memory.  Otherwise the numbers are written once, in order, to a file without a name,
 * and each reader looks at it through a small window that begins at a multiple of its size: so it is read once in
 * either direction.
 */
#include "rowset_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

void dead_list_fini(struct dead_list *l)
{
    free(l->numbers);
    if (l->fd >= 0)
        close(l->fd);
    *l = (struct dead_list){ .fd = -1 };
}

/* ---- building ------------------------------------------------------------------------------------------ */

struct list_writer {
    struct dead_list *list;
    size_t pending;
    uint64_t buffer[DEAD_WINDOW];
};

static int write_whole(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

static int flush(struct list_writer *w, struct errmsg *msg)
{
    int r = write_whole(w->list->fd, w->buffer, w->pending * sizeof w->buffer[0]);

    if (r < 0)
        return fail(msg, r, "cannot write the list of dead rows: %s", error_text(r));
    w->pending = 0;
    return 0;
}

static int append(struct list_writer *w, uint64_t number, struct errmsg *msg)
{
    struct dead_list *l = w->list;

    if (l->numbers) {
        l->numbers[l->count++] = number;
        return 0;
    }
    w->buffer[w->pending++] = number;
    l->count++;
    return w->pending == DEAD_WINDOW ? flush(w, msg) : 0;
}

static int make_room(struct dead_list *l, uint64_t count, size_t memory, int temp_dir, struct errmsg *msg)
{
    if (count <= memory / sizeof *l->numbers) {
        l->numbers = malloc((count + 1) * sizeof *l->numbers);
        return l->numbers ? 0 : fail(msg, -ENOMEM, "no memory for a list of dead rows");
    }
    l->fd = openat(temp_dir, ".", O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
    if (l->fd < 0)
        return fail(msg, -errno, "cannot make an unnamed file for the list of dead rows: %s",
                    strerrordesc_np(errno));
    return 0;
}

static int copy_all(struct list_writer *w, struct sorter *sorted, struct data_file *files, size_t n,
                    struct errmsg *msg)
{
    const uint64_t *record;
    size_t file = 0;
    int r;

    while ((r = sorter_next(sorted, &record, msg)) > 0) {
        assert(record[0] < n);
        while (file <= record[0])
            files[file++].dead = w->list->count;
        r = append(w, record[1], msg);
        if (r < 0)
            return r;
    }
    while (file < n)
        files[file++].dead = w->list->count;
    return r < 0 || w->pending == 0 ? r : flush(w, msg);
}

int dead_list_build(struct dead_list *l, struct sorter *sorted, struct data_file *files, size_t n,
                    size_t memory, int temp_dir, struct errmsg *msg)
{
    struct list_writer w = { .list = l };

    dead_list_fini(l);
    int r = make_room(l, sorter_count(sorted), memory, temp_dir, msg);
    if (r == 0)
        r = copy_all(&w, sorted, files, n, msg);
    if (r < 0)
        dead_list_fini(l);
    return r;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static int load_window(struct dead_view *v, uint64_t index, struct errmsg *msg)
{
    uint64_t from = index - index % DEAD_WINDOW;
    uint64_t count = v->list->count - from < DEAD_WINDOW ? v->list->count - from : DEAD_WINDOW;
    size_t len = count * sizeof v->window[0], got = 0;

    v->count = 0;
    while (got < len) {
        ssize_t n =
            pread(v->list->fd, (char *)v->window + got, len - got, (off_t)(from * sizeof v->window[0] + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail(msg, n < 0 ? -errno : -EIO, "cannot read the list of dead rows: %s",
                        n < 0 ? strerrordesc_np(errno) : "it got shorter");
        got += (size_t)n;
    }
    v->from = from;
    v->count = count;
    return 0;
}

int dead_list_at(struct dead_view *v, uint64_t index, uint64_t *ret, struct errmsg *msg)
{
    assert(index < v->list->count);
    if (v->list->numbers) {
        *ret = v->list->numbers[index];
        return 0;
    }
    if (index - v->from >= v->count) {
        int r = load_window(v, index, msg);
        if (r < 0)
            return r;
    }
    *ret = v->window[index - v->from];
    return 0;
}

int dead_list_find(struct dead_view *v, uint64_t from, uint64_t to, uint64_t number, uint64_t *ret,
                   struct errmsg *msg)
{
    while (from < to) {
        uint64_t middle = from + (to - from) / 2, there;
        int r = dead_list_at(v, middle, &there, msg);
        if (r < 0)
            return r;
        if (there < number)
            from = middle + 1;
        else
            to = middle;
    }
    *ret = from;
    return 0;
}
