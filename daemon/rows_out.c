#include "rows_out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What the index will take for a row with a key: hash, place, and its share of the tree above. */
#define INDEX_BYTES 17

/* Of the file, were it sealed now; nearly. */
static uint64_t size_so_far(const struct rows_out *out)
{
    return rows_writer_bytes(out->writer) + out->keyed * INDEX_BYTES;
}

/* A writer spills what it knows of blocks when there are 8192.  So many rows, or bytes, are fewer: of the smallest
 * blocks, and with rows that leave most of a block empty. */
#define SAMPLE_FILE_ROWS (1u << 20)
#define SAMPLE_FILE_RAW (8u << 20)

static bool is_full(const struct rows_out *out)
{
    return size_so_far(out) >= out->target_size ||
           (out->in_memory && (out->rows - out->rows_before >= SAMPLE_FILE_ROWS ||
                               out->raw_bytes - out->raw_before >= SAMPLE_FILE_RAW));
}

static int open_memory(struct errmsg *msg)
{
    int fd = memfd_create("skade-sample", MFD_CLOEXEC);
    return fd < 0 ? fail(msg, -errno, "no memory for a sample: %s", strerror(errno)) : fd;
}

static int open_file(struct rows_out *out, struct errmsg *msg)
{
    out->keyed = 0;
    out->rows_before = out->rows;
    out->raw_before = out->raw_bytes;
    out->fd = out->in_memory ? open_memory(msg) : store_temp(out->store, out->dir, msg);
    return out->fd < 0 ? out->fd : rows_writer_open(&out->writer, out->fd, &out->options, msg);
}

static int seal_file(struct rows_out *out, struct errmsg *msg)
{
    struct output done = { .fd = out->fd };

    int r = rows_writer_seal(out->writer, &done.entry, msg);
    rows_writer_close(out->writer);
    out->writer = NULL;
    if (r < 0)
        return r;
    if (out->count == out->cap) {
        size_t cap = out->cap ? out->cap * 2 : 4;
        struct output *more = realloc(out->outputs, cap * sizeof *more);
        if (!more)
            return fail(msg, -ENOMEM,
                        "skaded has no memory for this compaction: compact_memory and compact_threads bound "
                        "what it takes");
        out->outputs = more;
        out->cap = cap;
    }
    out->outputs[out->count++] = done;
    out->fd = -1;
    return 0;
}

int rows_out_put(struct rows_out *out, unsigned flags, struct bytes key, const void *value,
                 uint64_t value_len, int64_t time_us, struct errmsg *msg)
{
    int r = 0;

    /* Looked at before a row, not behind it: its value may still be coming. */
    if (out->writer && is_full(out))
        r = seal_file(out, msg);
    if (r == 0 && !out->writer)
        r = open_file(out, msg);
    if (r == 0)
        r = rows_put(out->writer, flags, key, value, value_len, time_us, msg);
    out->rows++;
    out->keyed += (flags & ROW_KEYED) != 0;
    out->raw_bytes += (flags & ROW_KEYED ? key.len : 0) + value_len;
    return r;
}

int rows_out_piece(struct rows_out *out, const void *data, size_t len, struct errmsg *msg)
{
    return rows_piece(out->writer, data, len, msg);
}

uint64_t rows_out_bytes(const struct rows_out *out)
{
    uint64_t bytes = out->writer ? rows_writer_bytes(out->writer) : 0;

    for (size_t i = 0; i < out->count; i++)
        bytes += out->outputs[i].entry.size;
    return bytes;
}

int rows_out_finish(struct rows_out *out, struct errmsg *msg)
{
    return out->writer ? seal_file(out, msg) : 0;
}

void rows_out_fini(struct rows_out *out)
{
    rows_writer_close(out->writer);
    out->writer = NULL;
    if (out->fd >= 0)
        close(out->fd);
    out->fd = -1;
    for (size_t i = 0; i < out->count; i++)
        close(out->outputs[i].fd);
    free(out->outputs);
    out->outputs = NULL;
    out->count = out->cap = 0;
}
