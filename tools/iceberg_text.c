/*
 * One loop for three packings.  Each packing is two steps: begin a member, and unpack some of it.
 */
#include "iceberg_text.h"

#include "skade_errors.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define PACKED_SIZE (128u * 1024)
#define ZSTD_WINDOW_LOG \
    27 /* 128 MiB: what `zstd --ultra -22` makes.  More would not fit into the memory we promise. */

struct packing;

struct iceberg_text {
    const char *path;
    const struct packing *packing;
    int fd;
    bool in_member; /* begun and not finished: if the file ends now, it was truncated */
    uint64_t limit;
    uint64_t produced;
    z_stream gzip;
    ZSTD_DCtx *zstd;
    size_t packed_len;
    size_t packed_off;
    unsigned char packed[PACKED_SIZE];
};

struct packing {
    const char *name;
    int (*open)(struct iceberg_text *t);
    void (*begin)(struct iceberg_text *t);
    /*
     * Unpack into BUF, set *RET to how much.  1 when the member ends here, 0 when not, -1 when it is damaged.
     */
    int (*unpack)(struct iceberg_text *t, unsigned char *buf, size_t len, size_t *ret);
    void (*close)(struct iceberg_text *t);
};

/* ---- plain: one member that ends with the file --------------------------------------------------------- */

static int plain_open(struct iceberg_text *t)
{
    (void)t;
    return 0;
}

static void plain_begin(struct iceberg_text *t)
{
    (void)t;
}

/* A member is what is in the buffer: any place is a good place for a plain text to end. */
static int plain_unpack(struct iceberg_text *t, unsigned char *buf, size_t len, size_t *ret)
{
    size_t left = t->packed_len - t->packed_off;
    size_t n = left < len ? left : len;
    memcpy(buf, t->packed + t->packed_off, n);
    t->packed_off += n;
    *ret = n;
    return n == left;
}

static void plain_close(struct iceberg_text *t)
{
    (void)t;
}

/* ---- gzip ---------------------------------------------------------------------------------------------- */

static int gzip_open(struct iceberg_text *t)
{
    return inflateInit2(&t->gzip, 16 + MAX_WBITS) == Z_OK ? 0 : -ENOMEM; /* 16: a gzip header, nothing else */
}

static void gzip_begin(struct iceberg_text *t)
{
    inflateReset(&t->gzip);
}

static int gzip_unpack(struct iceberg_text *t, unsigned char *buf, size_t len, size_t *ret)
{
    z_stream *z = &t->gzip;
    z->next_in = t->packed + t->packed_off;
    z->avail_in = (uInt)(t->packed_len - t->packed_off);
    z->next_out = buf;
    z->avail_out = (uInt)len;
    int r = inflate(z, Z_NO_FLUSH);
    t->packed_off = t->packed_len - z->avail_in;
    *ret = len - z->avail_out;
    if (r == Z_STREAM_END)
        return 1;
    return r == Z_OK || r == Z_BUF_ERROR ? 0 : -1; /* Z_BUF_ERROR: nothing to do without more input */
}

static void gzip_close(struct iceberg_text *t)
{
    inflateEnd(&t->gzip);
}

/* ---- zstd ---------------------------------------------------------------------------------------------- */

static int zstd_open(struct iceberg_text *t)
{
    t->zstd = ZSTD_createDCtx();
    if (!t->zstd)
        return -ENOMEM;
    ZSTD_DCtx_setParameter(t->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG);
    return 0;
}

static void zstd_begin(struct iceberg_text *t)
{
    ZSTD_DCtx_reset(t->zstd, ZSTD_reset_session_only);
}

static int zstd_unpack(struct iceberg_text *t, unsigned char *buf, size_t len, size_t *ret)
{
    ZSTD_inBuffer in = { t->packed, t->packed_len, t->packed_off };
    ZSTD_outBuffer out = { buf, len, 0 };
    size_t r = ZSTD_decompressStream(t->zstd, &out, &in);
    t->packed_off = in.pos;
    *ret = out.pos;
    if (ZSTD_isError(r))
        return -1;
    return r == 0;
}

static void zstd_close(struct iceberg_text *t)
{
    ZSTD_freeDCtx(t->zstd);
}

/* -------------------------------------------------------------------------------------------------------- */

static const struct packing plain = { "plain", plain_open, plain_begin, plain_unpack, plain_close };
static const struct packing gzip = { "gzip", gzip_open, gzip_begin, gzip_unpack, gzip_close };
static const struct packing zstd = { "zstd", zstd_open, zstd_begin, zstd_unpack, zstd_close };

static const struct packing *detect(const unsigned char *p, size_t len)
{
    if (len >= 2 && p[0] == 0x1f && p[1] == 0x8b)
        return &gzip;
    if (len >= 4 && memcmp(p, "\x28\xb5\x2f\xfd", 4) == 0)
        return &zstd;
    if (len >= 4 && (p[0] & 0xf0) == 0x50 && memcmp(p + 1, "\x2a\x4d\x18", 3) == 0)
        return &zstd; /* a skippable frame, with which pzstd begins */
    return &plain;
}

/* Refill the used-up buffer, to the brim unless the file ends, so that detect() sees all there is to see. */
static int fill(struct iceberg_text *t, struct iceberg_error *err)
{
    assert(t->packed_off == t->packed_len);
    t->packed_off = t->packed_len = 0;
    while (t->packed_len < PACKED_SIZE) {
        ssize_t n = read(t->fd, t->packed + t->packed_len, PACKED_SIZE - t->packed_len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return iceberg_fail(err, -errno, "%s: %s", t->path, strerror(errno));
        if (n == 0)
            break;
        t->packed_len += (size_t)n;
    }
    return t->packed_len > 0;
}

/* O_NONBLOCK: opening a FIFO that nobody writes to must not wait.  It means nothing to a regular file. */
static int open_regular(const char *path, struct iceberg_error *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return iceberg_fail(err, -errno, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return fd;
    close(fd);
    return iceberg_fail(err, SKADE_EINPUT, "%s: is not a regular file", path);
}

static int open_packing(struct iceberg_text *t, struct iceberg_error *err)
{
    int r = fill(t, err);
    if (r < 0)
        return r;
    const struct packing *p = detect(t->packed, t->packed_len);
    r = p->open(t);
    if (r < 0)
        return iceberg_fail(err, r, "%s: no memory to unpack it", t->path);
    t->packing = p;
    return 0;
}

int iceberg_text_open(const char *path, uint64_t limit, struct iceberg_text **ret, struct iceberg_error *err)
{
    int fd = open_regular(path, err);
    if (fd < 0)
        return fd;
    struct iceberg_text *t = calloc(1, sizeof *t);
    if (!t) {
        close(fd);
        return iceberg_fail(err, -ENOMEM, "%s: no memory to read it", path);
    }
    t->path = path;
    t->fd = fd;
    t->limit = limit;
    int r = open_packing(t, err);
    if (r < 0) {
        iceberg_text_close(t);
        return r;
    }
    *ret = t;
    return 0;
}

static int check_limit(struct iceberg_text *t, size_t n, struct iceberg_error *err)
{
    t->produced += n;
    if (t->produced <= t->limit)
        return 0;
    return iceberg_fail(err, SKADE_EINPUT, "%s: is larger than the limit of %llu bytes", t->path,
                        (unsigned long long)t->limit);
}

/*
 * Make sure that there is a member to unpack and something of it in the buffer.  1 yes, 0 the text ends here.
 */
static int next_bytes(struct iceberg_text *t, struct iceberg_error *err)
{
    if (t->packed_off == t->packed_len) {
        int r = fill(t, err);
        if (r < 0)
            return r;
        if (r == 0 && t->in_member)
            return iceberg_fail(err, SKADE_EINPUT, "%s: %s data ends too early", t->path, t->packing->name);
        if (r == 0)
            return 0;
    }
    if (!t->in_member)
        t->packing->begin(t);
    t->in_member = true;
    return 1;
}

ssize_t iceberg_text_read(struct iceberg_text *t, unsigned char *buf, size_t len, struct iceberg_error *err)
{
    assert(len > 0);
    for (;;) {
        /* Unpack before asking for more: what is left of the last bytes may fill several buffers. */
        if (t->in_member) {
            size_t n = 0;
            int r = t->packing->unpack(t, buf, len, &n);
            if (r < 0)
                return iceberg_fail(err, SKADE_EINPUT, "%s: damaged %s data, or something behind it", t->path,
                                    t->packing->name);
            t->in_member = r == 0;
            r = check_limit(t, n, err);
            if (r < 0)
                return r;
            if (n > 0)
                return (ssize_t)n;
        }
        int r = t->in_member && t->packed_off < t->packed_len ? 1 : next_bytes(t, err);
        if (r <= 0)
            return r;
    }
}

void iceberg_text_close(struct iceberg_text *t)
{
    if (!t)
        return;
    if (t->packing)
        t->packing->close(t);
    close(t->fd);
    free(t);
}
