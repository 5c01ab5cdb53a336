/*
 * Rows into zstd blocks.
 *
 *     rows_put --> block (raw) --zstd--> frame --> file      rows, up to block_size bytes of them
 *              --> hash, block ------------------> keys      of keyed rows; sealing.h sorts them
 *                  refs (block_ref) -------------> map       in memory, then in a temporary file
 *
 * A block ends before the row that wouldn't fit.  A row that fits into no block has its own ones: each is filled up and
 * the last one ends with the row, so that every block begins with a row or belongs to one.  Nothing that is kept grows
 * with the number or the length of rows.
 */
#include "rows_writer.h"

#include "checksum.h"
#include "failpoint.h"
#include "key_range.h"
#include "rows_block.h"
#include "sealing.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <zstd.h>

/* A get decodes a block: half the block is half the time.  128 KiB would make files of 200-byte rows 3 % smaller, and
 * level 1 5 % larger for 15 % less time; level 6 takes twice the time for 2 %. */
#define BLOCK_DEFAULT (64u << 10)
#define LEVEL_DEFAULT 3
#define MEMORY_DEFAULT (8u << 20)
#define REFS_KEPT 8192u /* block_refs in memory: 384 KiB */

struct rows_writer {
    struct rows_writer_options opt;
    int error; /* the first one, for ever */
    struct sealing file;
    uint64_t header_check;
    struct entry_footer footer; /* what is known so far */
    struct key_range range;
    ZSTD_CCtx *zstd;
    uint8_t *frame; /* a compressed block */
    size_t frame_cap;

    /* The block that is being filled. */
    uint8_t *block;
    size_t block_len;
    size_t block_limit; /* of this one: block_size, or what a large row's head and key take */
    struct block_ref ref;
    int64_t last_time_us; /* of the row before in it */

    /* The row that is being written. */
    uint64_t value_left;
    bool large; /* has blocks of its own */

    /* Finished blocks: the last REFS_KEPT or fewer here, those before in a file. */
    struct block_ref *refs;
    size_t refs_len;
    uint64_t refs_spilled;
    int refs_fd;
};

/* ---- blocks -------------------------------------------------------------------------------------------- */

static int spill_refs(struct rows_writer *w, struct errmsg *msg)
{
    if (w->refs_fd < 0)
        w->refs_fd = openat(w->opt.temp_dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (w->refs_fd < 0)
        return write_failed(errno, "a temporary file", msg);
    int r = write_all(w->refs_fd, w->refs, w->refs_len * sizeof w->refs[0],
                      w->refs_spilled * sizeof w->refs[0], "a temporary file", msg);
    if (r < 0)
        return r;
    w->refs_spilled += w->refs_len;
    w->refs_len = 0;
    return 0;
}

static int keep_ref(struct rows_writer *w, struct errmsg *msg)
{
    if (w->refs_len == REFS_KEPT) {
        int r = spill_refs(w, msg);
        if (r < 0)
            return r;
    }
    w->refs[w->refs_len++] = w->ref;
    return 0;
}

static uint64_t block_number(const struct rows_writer *w)
{
    return w->refs_spilled + w->refs_len;
}

static int put_frame(struct rows_writer *w, struct errmsg *msg)
{
    size_t len = ZSTD_compress2(w->zstd, w->frame, w->frame_cap, w->block, w->block_len);
    if (ZSTD_isError(len))
        return fail(msg, -ENOMEM, "can't compress a block: %s", ZSTD_getErrorName(len));
    w->ref.off = w->file.end;
    w->ref.len = (uint32_t)len;
    w->ref.raw_len = (uint32_t)w->block_len;
    w->ref.check = checksum(w->frame, len, entry_seed(&w->opt.uuid, w->ref.off));
    int r = FAILPOINT("rows.write");
    return r < 0 ? write_failed(-r, "writing a block", msg) : sealing_put(&w->file, w->frame, len, msg);
}

/* FLAGS and TIME_US of the block that begins. */
static void begin_block(struct rows_writer *w, uint32_t flags, int64_t time_us)
{
    w->block_len = 0;
    w->block_limit = w->opt.block_size;
    w->last_time_us = time_us;
    w->ref = (struct block_ref){ .first_row = w->footer.rows, .time_us = time_us, .flags = flags };
}

static int end_block(struct rows_writer *w, struct errmsg *msg)
{
    int r = put_frame(w, msg);
    if (r == 0)
        r = keep_ref(w, msg);
    w->block_len = 0;
    return r;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static void append(struct rows_writer *w, const void *data, size_t len)
{
    if (len)
        memcpy(w->block + w->block_len, data, len);
    w->block_len += len;
}

/* The first row decides about the block's time, and a large one about its limit. */
static int make_room(struct rows_writer *w, unsigned flags, struct bytes key, uint64_t value_len,
                     int64_t time_us, struct errmsg *msg)
{
    size_t fixed = ROW_HEAD_MAX + (flags & ROW_KEYED ? key.len : 0);
    bool fits = fixed <= w->opt.block_size && value_len <= w->opt.block_size - fixed;

    if (w->block_len > 0 && (!fits || fixed + value_len > w->opt.block_size - w->block_len)) {
        int r = end_block(w, msg);
        if (r < 0)
            return r;
    }
    if (w->block_len == 0)
        begin_block(w, 0, time_us);
    w->large = !fits;
    if (w->block_limit < fixed)
        w->block_limit = fixed;
    return 0;
}

static void put_head(struct rows_writer *w, unsigned flags, struct bytes key, uint64_t value_len,
                     int64_t time_us)
{
    struct row_head fields = { .keyed = flags & ROW_KEYED,
                               .key_len = flags & ROW_KEYED ? (uint32_t)key.len : 0,
                               .value_len = value_len,
                               .time_step = row_time_step(w->last_time_us, time_us) };

    w->block_len += row_head_put(w->block + w->block_len, &fields);
    append(w, key.data, fields.key_len);
    w->last_time_us = time_us;
    w->ref.rows++;
}

static void count(struct rows_writer *w, unsigned flags, struct bytes key, uint64_t value_len,
                  int64_t time_us)
{
    struct entry_footer *f = &w->footer;

    if (f->rows == 0 || time_us < f->time_min)
        f->time_min = time_us;
    if (f->rows == 0 || time_us > f->time_max)
        f->time_max = time_us;
    f->rows++;
    f->raw_bytes += value_len;
    if (flags & ROW_KEYED) {
        key_range_add(&w->range, key, f->keyed == 0);
        f->keyed++;
        f->raw_bytes += key.len;
    }
}

/* Bytes of the value into the block, and into as many more as they fill. */
static int put_bytes(struct rows_writer *w, const char *data, size_t len, struct errmsg *msg)
{
    w->value_left -= len;
    while (len > 0) {
        if (w->block_len == w->block_limit) {
            w->ref.flags |= BLOCK_GOES_ON;
            int r = end_block(w, msg);
            if (r < 0)
                return r;
            begin_block(w, BLOCK_MORE, w->last_time_us);
        }
        size_t room = w->block_limit - w->block_len;
        size_t n = len < room ? len : room;
        append(w, data, n);
        data += n;
        len -= n;
    }
    return 0;
}

/* Nobody shares a block with a large row. */
static int end_row(struct rows_writer *w, struct errmsg *msg)
{
    return w->large ? end_block(w, msg) : 0;
}

static int begin_row(struct rows_writer *w, unsigned flags, struct bytes key, uint64_t value_len,
                     int64_t time_us, struct errmsg *msg)
{
    int r = make_room(w, flags, key, value_len, time_us, msg);
    if (r < 0)
        return r;
    if (flags & ROW_KEYED) {
        r = sealing_key(&w->file, entry_hash(key), block_number(w), msg);
        if (r < 0)
            return r;
    }
    put_head(w, flags, key, value_len, time_us);
    count(w, flags, key, value_len, time_us);
    w->value_left = value_len;
    return 0;
}

static int put_row(struct rows_writer *w, unsigned flags, struct bytes key, const void *value,
                   uint64_t value_len, int64_t time_us, struct errmsg *msg)
{
    if (flags & ROW_KEYED && key.len > ENTRY_KEY_MAX)
        return fail(msg, SKADE_EINPUT, "a key of %zu bytes: at most %u", key.len, ENTRY_KEY_MAX);
    if (value_len > ENTRY_VALUE_MAX)
        return fail(msg, SKADE_EINPUT, "a value of %llu bytes: at most %llu", (unsigned long long)value_len,
                    ENTRY_VALUE_MAX);
    int r = begin_row(w, flags, key, value_len, time_us, msg);
    if (r == 0 && value)
        r = put_bytes(w, value, value_len, msg);
    if (r == 0 && w->value_left == 0)
        r = end_row(w, msg);
    return r;
}

static int refuse(const struct rows_writer *w, struct errmsg *msg)
{
    return fail(msg, w->error, "writing this .rows file failed before: %s", error_text(w->error));
}

int rows_put(struct rows_writer *w, unsigned flags, struct bytes key, const void *value, uint64_t value_len,
             int64_t time_us, struct errmsg *msg)
{
    if (w->error)
        return refuse(w, msg);
    assert((flags & ~(unsigned)ROW_KEYED) == 0 && w->value_left == 0);
    return w->error = put_row(w, flags, key, value, value_len, time_us, msg);
}

int rows_piece(struct rows_writer *w, const void *data, size_t len, struct errmsg *msg)
{
    if (w->error)
        return refuse(w, msg);
    assert(len <= w->value_left);
    if (len == 0)
        return 0;
    int r = put_bytes(w, data, len, msg);
    if (r == 0 && w->value_left == 0)
        r = end_row(w, msg);
    return w->error = r;
}

uint64_t rows_writer_bytes(const struct rows_writer *w)
{
    return w->file.end;
}

/* ---- the end ------------------------------------------------------------------------------------------- */

static int put_spilled_refs(struct rows_writer *w, struct errmsg *msg)
{
    uint64_t end = w->refs_spilled * sizeof w->refs[0];
    char buf[8192];

    for (uint64_t off = 0; off < end;) {
        size_t want = end - off < sizeof buf ? (size_t)(end - off) : sizeof buf;
        ssize_t n = pread(w->refs_fd, buf, want, (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail(msg, n < 0 ? -errno : -EIO, "can't read a temporary file");
        int r = sealing_put(&w->file, buf, (size_t)n, msg);
        if (r < 0)
            return r;
        off += (uint64_t)n;
    }
    return 0;
}

static int put_map(struct rows_writer *w, struct errmsg *msg)
{
    struct section *blocks = &w->footer.blocks;

    int r = sealing_map_begin(&w->file, &w->footer, blocks, msg);
    if (r == 0)
        r = put_spilled_refs(w, msg);
    if (r == 0)
        r = sealing_put(&w->file, w->refs, w->refs_len * sizeof w->refs[0], msg);
    return r < 0 ? r : sealing_map_end(&w->file, &w->footer, blocks, block_number(w), msg);
}

static int seal(struct rows_writer *w, struct errmsg *msg)
{
    int r = w->block_len > 0 ? end_block(w, msg) : 0;
    if (r == 0)
        r = put_map(w, msg);
    if (r < 0)
        return r;
    r = FAILPOINT("rows.fsync");
    if (r < 0)
        return write_failed(-r, "syncing rows", msg);
    w->footer.low = w->range.low;
    w->footer.high = w->range.high;
    return sealing_end(&w->file, &w->footer, w->header_check, msg);
}

int rows_writer_seal(struct rows_writer *w, struct manifest_file *ret, struct errmsg *msg)
{
    const struct entry_footer *f = &w->footer;

    if (w->error)
        return refuse(w, msg);
    assert(w->value_left == 0);
    int r = seal(w, msg);
    w->error = r < 0 ? r : -EBADF; /* a sealed file takes no more rows */
    if (r < 0)
        return r;
    *ret = (struct manifest_file){ .size = f->size,
                                   .rows = f->rows,
                                   .keyed = f->keyed,
                                   .raw_bytes = f->raw_bytes,
                                   .time_min = f->time_min,
                                   .time_max = f->time_max,
                                   .footer_check = f->check,
                                   .low = f->low,
                                   .high = f->high };
    return 0;
}

/* ---- the writer ---------------------------------------------------------------------------------------- */

static struct rows_writer_options with_defaults(const struct rows_writer_options *opt)
{
    struct rows_writer_options o = *opt;

    if (o.block_size == 0)
        o.block_size = BLOCK_DEFAULT;
    if (o.level == 0)
        o.level = LEVEL_DEFAULT;
    if (o.memory == 0)
        o.memory = MEMORY_DEFAULT;
    return o;
}

static int open_zstd(struct rows_writer *w)
{
    w->zstd = ZSTD_createCCtx();
    if (!w->zstd || ZSTD_isError(ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, w->opt.level)))
        return -ENOMEM;
    return 0;
}

static int open_buffers(struct rows_writer *w)
{
    size_t block_cap = (size_t)w->opt.block_size + ROW_HEAD_MAX + ENTRY_KEY_MAX;

    w->frame_cap = ZSTD_compressBound(block_cap);
    w->block = malloc(block_cap);
    w->frame = malloc(w->frame_cap);
    w->refs = malloc(REFS_KEPT * sizeof w->refs[0]);
    return w->block && w->frame && w->refs ? 0 : -ENOMEM;
}

static int put_header(struct rows_writer *w, struct errmsg *msg)
{
    struct entry_header h = { .magic = FORMAT_MAGIC_ROWS,
                              .major = FORMAT_MAJOR,
                              .header_len = sizeof h,
                              .log = w->opt.log,
                              .uuid = w->opt.uuid,
                              .table = w->opt.table,
                              .align = ENTRY_ALIGN,
                              .seen_seq = w->opt.seen_seq,
                              .part = w->opt.part };

    h.check = w->header_check = checksum(&h, offsetof(struct entry_header, check), 0);
    return sealing_put(&w->file, &h, sizeof h, msg);
}

int rows_writer_open(struct rows_writer **ret, int fd, const struct rows_writer_options *opt,
                     struct errmsg *msg)
{
    struct rows_writer *w = calloc(1, sizeof *w);

    if (!w)
        return fail(msg, -ENOMEM, "no memory to write a .rows file");
    w->opt = with_defaults(opt);
    w->refs_fd = -1;
    assert(w->opt.block_size >= BLOCK_SIZE_MIN && w->opt.block_size <= BLOCK_SIZE_MAX);
    assert(w->opt.level <= ZSTD_maxCLevel());
    int r = open_zstd(w);
    if (r == 0)
        r = open_buffers(w);
    if (r < 0)
        fail(msg, r, "no memory to write a .rows file");
    else
        r = sealing_open(&w->file, fd, w->opt.memory, w->opt.temp_dir, msg);
    if (r == 0)
        r = put_header(w, msg);
    if (r < 0) {
        rows_writer_close(w);
        return r;
    }
    *ret = w;
    return 0;
}

void rows_writer_close(struct rows_writer *w)
{
    if (!w)
        return;
    ZSTD_freeCCtx(w->zstd);
    sealing_fini(&w->file);
    if (w->refs_fd >= 0)
        close(w->refs_fd);
    free(w->block);
    free(w->frame);
    free(w->refs);
    free(w);
}
