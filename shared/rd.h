/*
 * A reader over bytes that may lie: it never runs over the end and remembers the first error.
 *
 *     struct rd r = rd_of(data, len);
 *     a = rd_u32(&r);  s = rd_str(&r, 1024);
 *     if (rd_done(&r) < 0) ...          every byte read, nothing missing, nothing left
 *
 * After an error every read gives zero, so that a decoder is a list of reads and one check.
 */
#ifndef SKADE_RD_H
#define SKADE_RD_H

#include "skade_errors.h"
#include "util.h"

struct rd {
    const uint8_t *data;
    size_t len;
    size_t pos;
    int error; /* 0, or the first error */
};

static inline struct rd rd_of(const void *data, size_t len)
{
    return (struct rd){ data, len, 0, 0 };
}

static inline size_t rd_left(const struct rd *r)
{
    return r->error ? 0 : r->len - r->pos;
}

/* The next N bytes, or NULL and a sticky error. */
static inline const uint8_t *rd_take(struct rd *r, size_t n)
{
    if (r->error || n > r->len - r->pos) {
        r->error = SKADE_EPROTOCOL;
        return NULL;
    }
    const uint8_t *p = r->data + r->pos;
    r->pos += n;
    return p;
}

#define RD_INTEGER(type, name)                   \
    static inline type rd_##name(struct rd *r)   \
    {                                            \
        type v = 0;                              \
        const uint8_t *p = rd_take(r, sizeof v); \
        if (p)                                   \
            memcpy(&v, p, sizeof v);             \
        return v;                                \
    }
RD_INTEGER(uint8_t, u8)
RD_INTEGER(uint16_t, u16)
RD_INTEGER(uint32_t, u32)
RD_INTEGER(uint64_t, u64)
RD_INTEGER(int32_t, i32)
RD_INTEGER(int64_t, i64)
#undef RD_INTEGER

static inline struct uuid rd_uuid(struct rd *r)
{
    struct uuid u = { { 0 } };
    const uint8_t *p = rd_take(r, sizeof u.b);
    if (p)
        memcpy(u.b, p, sizeof u.b);
    return u;
}

/* A string: u32 length and bytes, lent from the reader's data. */
static inline struct bytes rd_str(struct rd *r)
{
    uint32_t len = rd_u32(r);
    const uint8_t *p = rd_take(r, len);
    return p ? (struct bytes){ (const char *)p, len } : (struct bytes){ "", 0 };
}

/* All that is left, as a reader of its own. */
static inline struct rd rd_rest(struct rd *r)
{
    size_t left = rd_left(r);
    const uint8_t *p = rd_take(r, left);
    return rd_of(p, p ? left : 0);
}

/* 0 when everything was read and nothing was missing; otherwise the error. */
static inline int rd_done(const struct rd *r)
{
    if (r->error)
        return r->error;
    return r->pos == r->len ? 0 : SKADE_EPROTOCOL;
}

#endif
