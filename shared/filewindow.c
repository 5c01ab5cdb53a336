#include "filewindow.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 4096u /* windows begin and end at multiples of it */
#define CHUNK_MAX (512u << 10)
#define CHUNK_GROWTH 4

struct filewindow {
    int fd;
    const char *name;
    uint64_t size;
    uint64_t stop; /* for reading ahead; at most SIZE */
    uint8_t *buffer;
    size_t capacity;
    uint64_t off; /* the window: LEN bytes from here on */
    size_t len;
    size_t chunk; /* bytes that the last window was to have */
    bool turned;  /* nothing of this file was read yet, and others were before it */
};

int filewindow_open(struct filewindow **ret, int fd, const char *name, struct errmsg *msg)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return fail(msg, -errno, "%s: %s", name, error_text(-errno));
    if (!S_ISREG(st.st_mode))
        return fail(msg, SKADE_EFOREIGN, "%s: not a regular file", name);
    return filewindow_over(ret, fd, name, (uint64_t)st.st_size, msg);
}

int filewindow_over(struct filewindow **ret, int fd, const char *name, uint64_t size, struct errmsg *msg)
{
    struct filewindow *w = calloc(1, sizeof *w);
    if (!w)
        return fail(msg, -ENOMEM, "%s: no memory to read it", name);
    filewindow_turn(w, fd, name, size);
    w->turned = false;
    *ret = w;
    return 0;
}

void filewindow_turn(struct filewindow *w, int fd, const char *name, uint64_t size)
{
    w->fd = fd;
    w->name = name;
    w->size = w->stop = size;
    w->off = 0;
    w->len = 0;
    w->turned = true;
}

void filewindow_close(struct filewindow *w)
{
    if (!w)
        return;
    free(w->buffer);
    free(w);
}

uint64_t filewindow_size(const struct filewindow *w)
{
    return w->size;
}

void filewindow_stop_at(struct filewindow *w, uint64_t end)
{
    w->stop = end < w->size ? end : w->size;
}

static int reserve(struct filewindow *w, size_t need)
{
    if (w->capacity >= need)
        return 0;
    free(w->buffer);
    w->len = 0;
    w->capacity = 0;
    w->buffer = aligned_alloc(BLOCK, align_up(need, BLOCK));
    if (!w->buffer)
        return -ENOMEM;
    w->capacity = align_up(need, BLOCK);
    return 0;
}

static int fill(struct filewindow *w, uint64_t off, size_t len, struct errmsg *msg)
{
    int r = reserve(w, len);
    if (r < 0)
        return fail(msg, r, "%s: no memory to read %zu bytes of it", w->name, len);
    w->off = off;
    w->len = 0;
    while (w->len < len) {
        ssize_t n = pread(w->fd, w->buffer + w->len, len - w->len, (off_t)off + w->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            r = -errno;
            return fail(msg, r, "%s: reading at byte %" PRIu64 ": %s", w->name, off + w->len, error_text(r));
        }
        if (n == 0)
            return fail(msg, SKADE_EDAMAGED, "%s: ends at byte %" PRIu64 ", shorter than it was", w->name,
                        off + w->len);
        w->len += (size_t)n;
    }
    return 0;
}

/* Does the range touch or overlap the window, so that a caller who goes on may want still more? */
static bool goes_on(const struct filewindow *w, uint64_t off, size_t len)
{
    return w->turned || (w->len > 0 && off <= w->off + w->len && off + len >= w->off);
}

/* A lone look reads the pages that it touches, one that goes on a larger chunk in its direction. */
static int move(struct filewindow *w, uint64_t off, size_t len, bool backward, struct errmsg *msg)
{
    uint64_t begin = off, end = off + len;
    if (w->chunk < w->len)
        w->chunk = w->len;
    w->chunk = goes_on(w, off, len) ? w->chunk * CHUNK_GROWTH : BLOCK;
    if (w->chunk > CHUNK_MAX)
        w->chunk = CHUNK_MAX;
    w->turned = false;
    if (w->chunk > BLOCK && w->chunk > len && backward)
        begin = end > w->chunk ? end - w->chunk : 0;
    else if (w->chunk > BLOCK && w->chunk > len && begin < w->stop)
        end = w->stop - begin < w->chunk ? w->stop : begin + w->chunk;
    if (end < off + len)
        end = off + len;
    begin &= ~(uint64_t)(BLOCK - 1);
    end = align_up(end, BLOCK);
    return fill(w, begin, (size_t)((end < w->size ? end : w->size) - begin), msg);
}

const uint8_t *filewindow_get(struct filewindow *w, uint64_t off, size_t len, bool backward, int *error,
                              struct errmsg *msg)
{
    if (off >= w->off && range_inside(off - w->off, len, w->len))
        return w->buffer + (off - w->off);
    assert(len <= FILEWINDOW_MAX);
    if (!range_inside(off, len, w->size)) {
        *error =
            fail(msg, SKADE_EDAMAGED,
                 "%s: ends at byte %" PRIu64 ", but bytes from %" PRIu64 " to %" PRIu64 " should be there",
                 w->name, w->size, off, off + len);
        return NULL;
    }
    int r = move(w, off, len, backward, msg);
    if (r < 0) {
        w->len = 0;
        *error = r;
        return NULL;
    }
    return w->buffer + (off - w->off);
}
