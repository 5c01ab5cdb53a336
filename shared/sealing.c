#include "sealing.h"
#include "checksum.h"
#include "failpoint.h"
#include "filewindow.h"
#include "row.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define BUFFER_MIN (4 * ENTRY_PIECE) /* two sums keep less than a piece each, room takes one more */
#define BUFFER_MAX (1u << 20)

int write_failed(int error, const char *what, struct errmsg *msg)
{
    if (error == ENOSPC || error == EDQUOT)
        return fail(msg, SKADE_EFULL, "%s: no space left", what);
    return fail(msg, -error, "%s: %s", what, error_text(-error));
}

int write_all(int fd, const void *data, size_t len, uint64_t off, const char *what, struct errmsg *msg)
{
    const char *at = data;
    while (len > 0) {
        ssize_t n = pwrite(fd, at, len, (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return write_failed(n < 0 ? errno : EIO, what, msg);
        at += n;
        len -= (size_t)n;
        off += (uint64_t)n;
    }
    return 0;
}

int sealing_open(struct sealing *s, int fd, size_t memory, int temp_dir, struct errmsg *msg)
{
    *s = (struct sealing){ .fd = fd, .sum = { { 0, UINT64_MAX }, { 0, UINT64_MAX } } };
    s->capacity = align_up(memory / 8, 4096);
    if (s->capacity < BUFFER_MIN)
        s->capacity = BUFFER_MIN;
    if (s->capacity > BUFFER_MAX)
        s->capacity = BUFFER_MAX;
    s->buffer = aligned_alloc(CACHE_LINE, s->capacity);
    if (!s->buffer)
        return fail(msg, -ENOMEM, "no memory to write a file");
    size_t rest = memory > s->capacity ? memory - s->capacity : 0;
    int r = sorter_open(&s->keys, 2, rest, temp_dir, msg);
    if (r < 0)
        sealing_fini(s);
    return r;
}

void sealing_fini(struct sealing *s)
{
    free(s->buffer);
    sorter_close(s->keys);
    s->buffer = NULL;
    s->keys = NULL;
}

static int broken(struct sealing *s, int error)
{
    s->failed = error;
    return error;
}

/* ---- the buffer ---- */

static const uint8_t *byte_at(const struct sealing *s, uint64_t off)
{
    return s->buffer + (off - s->base);
}

/* Whole pieces only: the bytes of the one that isn't full yet stay in the buffer. */
static void sum_advance(const struct sealing *s, struct sum *sum)
{
    for (; sum->at <= s->end && s->end - sum->at >= ENTRY_PIECE; sum->at += ENTRY_PIECE)
        sum->value = checksum(byte_at(s, sum->at), ENTRY_PIECE, sum->value);
}

void sealing_sum_begin(struct sealing *s, unsigned which, uint64_t seed)
{
    s->sum[which] = (struct sum){ seed, s->end };
}

uint64_t sealing_sum_end(struct sealing *s, unsigned which)
{
    struct sum sum = s->sum[which];
    s->sum[which].at = UINT64_MAX;
    return s->failed ? 0 : checksum_pieces(byte_at(s, sum.at), s->end - sum.at, sum.value);
}

/* Write out what no sum waits for. */
static int flush(struct sealing *s, struct errmsg *msg)
{
    uint64_t until = s->end;
    for (unsigned i = 0; i < SUMS; i++) {
        sum_advance(s, &s->sum[i]);
        if (s->sum[i].at < until)
            until = s->sum[i].at;
    }
    int r = FAILPOINT("entries.write");
    if (r < 0)
        return broken(s, write_failed(-r, "writing rows", msg));
    r = write_all(s->fd, s->buffer, until - s->base, s->base, "writing rows", msg);
    if (r < 0)
        return broken(s, r);
    memmove(s->buffer, byte_at(s, until), s->end - until);
    s->base = until;
    return 0;
}

/* Write out on the way.  The disk begins with it at once, so that fsync() finds little to wait for at the end; what went
 * wrong is said then. */
static int flush_early(struct sealing *s, struct errmsg *msg)
{
    uint64_t from = s->base;
    int r = flush(s, msg);
    if (r == 0)
        sync_file_range(s->fd, (off_t)from, (off_t)(s->base - from), SYNC_FILE_RANGE_WRITE);
    return r;
}

static size_t space(const struct sealing *s)
{
    return s->capacity - (s->end - s->base);
}

static int refuse(const struct sealing *s, struct errmsg *msg)
{
    return fail(msg, s->failed, "writing rows failed before: %s", error_text(s->failed));
}

uint8_t *sealing_room(struct sealing *s, size_t n, struct errmsg *msg)
{
    assert(n <= SEALING_ROOM);
    if (s->failed) {
        refuse(s, msg);
        return NULL;
    }
    if (space(s) < n && flush_early(s, msg) < 0)
        return NULL;
    uint8_t *room = s->buffer + (s->end - s->base);
    s->end += n;
    return room;
}

int sealing_put(struct sealing *s, const void *data, size_t len, struct errmsg *msg)
{
    const char *at = data;
    if (s->failed)
        return refuse(s, msg);
    while (len > 0) {
        if (space(s) == 0 && flush_early(s, msg) < 0)
            return s->failed;
        size_t n = len < space(s) ? len : space(s);
        memcpy(s->buffer + (s->end - s->base), at, n);
        s->end += n;
        at += n;
        len -= n;
    }
    return 0;
}

int sealing_zeros(struct sealing *s, uint64_t len, struct errmsg *msg)
{
    if (s->failed)
        return refuse(s, msg);
    while (len > 0) {
        size_t n = len < SEALING_ROOM ? (size_t)len : SEALING_ROOM;
        uint8_t *room = sealing_room(s, n, msg);
        if (!room)
            return s->failed;
        memset(room, 0, n);
        len -= n;
    }
    return 0;
}

int sealing_align(struct sealing *s, uint64_t align, struct errmsg *msg)
{
    return sealing_zeros(s, align_up(s->end, align) - s->end, msg);
}

/* ---- map, keys, footer ---- */

int sealing_key(struct sealing *s, uint64_t hash, uint64_t place, struct errmsg *msg)
{
    uint64_t record[2] = { hash, place };
    int r = sorter_add(s->keys, record, msg);
    return r < 0 ? broken(s, r) : 0;
}

int sealing_map_begin(struct sealing *s, struct entry_footer *footer, struct section *section,
                      struct errmsg *msg)
{
    footer->data_end = s->end;
    sealing_sum_begin(s, SUM_ROW, 0);
    int r = sealing_align(s, CACHE_LINE, msg);
    section->off = s->end;
    return r;
}

int sealing_map_end(struct sealing *s, struct entry_footer *footer, struct section *section, uint64_t count,
                    struct errmsg *msg)
{
    int r = sealing_align(s, CACHE_LINE, msg);
    section->count = count;
    if (count == 0)
        section->off = 0;
    footer->keys_off = s->end;
    footer->map_check = sealing_sum_end(s, SUM_ROW);
    return r;
}

/* Hashes in order, going on behind *LAST: are all different? */
static bool all_differ(const uint64_t *hashes, int n, uint64_t *last, bool first)
{
    uint64_t same = !first && hashes[0] == *last;
    for (int i = 1; i < n; i++)
        same |= hashes[i] == hashes[i - 1];
    *last = hashes[n - 1];
    return !same;
}

/* The sorted hashes: a section, and what they tell. */
static int put_hashes(struct sealing *s, struct entry_footer *footer, struct errmsg *msg)
{
    uint64_t some[512], last = 0, met = 0;
    footer->hashes = (struct section){ sorter_count(s->keys) ? s->end : 0, sorter_count(s->keys) };
    footer->facts = KEYS_DIFFER;
    int n, r = sorter_rewind(s->keys, msg);
    while (r == 0 && (n = sorter_column(s->keys, 0, some, 512, msg)) != 0) {
        if (n > 0 && !all_differ(some, n, &last, met == 0))
            footer->facts = 0;
        met += n > 0 ? (uint64_t)n : 0;
        r = n < 0 ? n : sealing_put(s, some, (size_t)n * sizeof some[0], msg);
    }
    if (r < 0)
        return broken(s, r);
    return sealing_align(s, CACHE_LINE, msg);
}

/* The place of each, in the same order: a section. */
static int put_places(struct sealing *s, struct section *ret, struct errmsg *msg)
{
    uint64_t some[512];
    *ret = (struct section){ sorter_count(s->keys) ? s->end : 0, sorter_count(s->keys) };
    int n, r = sorter_rewind(s->keys, msg);
    while (r == 0 && (n = sorter_column(s->keys, 1, some, 512, msg)) != 0)
        r = n < 0 ? n : sealing_put(s, some, (size_t)n * sizeof some[0], msg);
    if (r < 0)
        return broken(s, r);
    return sealing_align(s, CACHE_LINE, msg);
}

/* Hashes that were put.  Those that left the buffer are read back from the file, so that memory doesn't grow with them. */
struct put_hashes {
    uint64_t off;
    struct filewindow *window; /* NULL: all of them are in the buffer */
};

static int put_hash(struct sealing *s, const struct put_hashes *h, uint64_t index, int64_t *ret,
                    struct errmsg *msg)
{
    uint64_t off = h->off + index * sizeof *ret;
    int error = 0;
    const uint8_t *at =
        h->window ? filewindow_get(h->window, off, sizeof *ret, false, &error, msg) : byte_at(s, off);
    if (!at)
        return broken(s, error);
    memcpy(ret, at, sizeof *ret);
    return 0;
}

static int put_node(struct sealing *s, const struct put_hashes *hashes, uint64_t leaves, uint64_t span,
                    uint64_t index, struct errmsg *msg)
{
    struct stree64_node node;
    for (uint64_t j = 0; j < STREE64_KEYS; j++) {
        uint64_t end = (index * STREE64_FANOUT + j + 1) * span;
        node.key[j] = INT64_MAX;
        if (end >= leaves)
            continue;
        int r = put_hash(s, hashes, end * STREE64_KEYS - 1, &node.key[j], msg);
        if (r < 0)
            return r;
    }
    return sealing_put(s, &node, sizeof node, msg);
}

static int put_levels(struct sealing *s, const struct put_hashes *hashes, const struct stree64_shape *shape,
                      struct errmsg *msg)
{
    for (uint32_t level = 0; level < shape->height; level++) {
        uint64_t span = 1;
        for (uint32_t below = level + 1; below < shape->height; below++)
            span *= STREE64_FANOUT;
        for (uint64_t i = 0; i < shape->count[level]; i++) {
            int r = put_node(s, hashes, shape->leaves, span, i, msg);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

/* What was put so far is in the file then, though sums may keep it in the buffer. */
static int push(struct sealing *s, struct errmsg *msg)
{
    if (s->failed)
        return refuse(s, msg);
    int r = write_all(s->fd, s->buffer, s->end - s->base, s->base, "writing rows", msg);
    return r < 0 ? broken(s, r) : 0;
}

static int put_nodes(struct sealing *s, const struct section *hashes, struct section *ret, struct errmsg *msg)
{
    struct stree64_shape shape;
    struct put_hashes put = { .off = hashes->off };

    if (!stree64_shape((hashes->count + STREE64_KEYS - 1) / STREE64_KEYS, &shape))
        return broken(s, fail(msg, SKADE_EINPUT, "more keys than a file may have"));
    *ret = (struct section){ shape.nodes ? s->end : 0, shape.nodes };
    if (shape.nodes == 0)
        return 0;
    /* Of a short file everything is in the buffer still, and stays. */
    if (hashes->off >= s->base && space(s) >= (shape.nodes + 1) * sizeof(struct stree64_node))
        return put_levels(s, &put, &shape, msg);
    int r = push(s, msg);
    if (r < 0)
        return r;
    r = filewindow_open(&put.window, s->fd, "the file being written", msg);
    if (r < 0)
        return broken(s, r);
    r = put_levels(s, &put, &shape, msg);
    filewindow_close(put.window);
    return r;
}

static int put_keys(struct sealing *s, struct entry_footer *footer, struct errmsg *msg)
{
    sealing_sum_begin(s, SUM_ROW, 0);
    int r = put_hashes(s, footer, msg);
    if (r < 0)
        return r;
    r = put_places(s, &footer->places, msg);
    if (r < 0)
        return r;
    r = put_nodes(s, &footer->hashes, &footer->nodes, msg);
    if (r < 0)
        return r;
    footer->keys_check = sealing_sum_end(s, SUM_ROW);
    return 0;
}

static int sync_file(struct sealing *s, struct errmsg *msg)
{
    int r = FAILPOINT("entries.fsync");
    if (r == 0 && fsync(s->fd) < 0)
        r = -errno;
    return r < 0 ? broken(s, write_failed(-r, "syncing rows", msg)) : 0;
}

int sealing_end(struct sealing *s, struct entry_footer *footer, uint64_t header_check, struct errmsg *msg)
{
    if (s->failed)
        return refuse(s, msg);
    int r = put_keys(s, footer, msg);
    if (r < 0)
        return r;
    memcpy(footer->magic, FORMAT_MAGIC_FOOTER, sizeof footer->magic);
    footer->size = s->end + sizeof *footer;
    footer->check = checksum(footer, offsetof(struct entry_footer, check), header_check);
    r = sealing_put(s, footer, sizeof *footer, msg);
    if (r < 0)
        return r;
    r = flush(s, msg);
    return r < 0 ? r : sync_file(s, msg);
}
