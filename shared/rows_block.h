/*
 * What a row in a block of a .rows file begins with, for its writer and its reader.  See format_entry.h.
 *
 * Times are stored as steps, modulo 2^64: from any time to any other there is exactly one, and nothing overflows.
 */
#ifndef SKADE_ROWS_BLOCK_H
#define SKADE_ROWS_BLOCK_H

#include "format_entry.h"
#include "rd.h"

#define BLOCK_SIZE_MIN (4u << 10)
#define BLOCK_SIZE_MAX (4u << 20)
#define ROW_HEAD_MAX 20u /* three varints: of 17, 48 and 64 bits */

/* A block may be larger than its size: by the head and key of a large row. */
#define BLOCK_RAW_MAX (BLOCK_SIZE_MAX + ROW_HEAD_MAX + ENTRY_KEY_MAX)

struct row_head {
    bool keyed;
    uint32_t key_len;
    uint64_t value_len;
    uint64_t time_step; /* row_time_step() */
};

static inline uint64_t row_time_step(int64_t from, int64_t to)
{
    return (uint64_t)to - (uint64_t)from;
}

static inline int64_t row_time_after(int64_t from, uint64_t step)
{
    return (int64_t)((uint64_t)from + step);
}

/* Small steps in either direction become small numbers. */
static inline uint64_t zigzag(uint64_t step)
{
    return step << 1 ^ (step >> 63 ? UINT64_MAX : 0);
}

static inline uint64_t unzigzag(uint64_t z)
{
    return z >> 1 ^ (z & 1 ? UINT64_MAX : 0);
}

/* Seven bits a byte, the lowest first; the last byte has no top bit.  The number of bytes, 10 at most. */
static inline size_t varint_put(uint8_t *p, uint64_t v)
{
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        p[n++] = (uint8_t)(v | 0x80);
    p[n++] = (uint8_t)v;
    return n;
}

static inline uint64_t varint_get(struct rd *r)
{
    uint64_t v = 0;

    if (rd_left(r) > 0 && r->data[r->pos] < 0x80) /* most of them */
        return r->data[r->pos++];
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = rd_u8(r);
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            if (shift == 63 && byte > 1)
                break;
            return v;
        }
    }
    r->error = SKADE_EPROTOCOL; /* longer than any number */
    return 0;
}

/* Write HEAD to P, ROW_HEAD_MAX bytes; how many it took. */
static inline size_t row_head_put(uint8_t *p, const struct row_head *head)
{
    size_t n = varint_put(p, head->keyed ? head->key_len + 1ull : 0);
    n += varint_put(p + n, head->value_len);
    return n + varint_put(p + n, zigzag(head->time_step));
}

/* The next head; what it says is within its limits, or R has an error. */
static inline struct row_head row_head_get(struct rd *r)
{
    uint64_t key = varint_get(r), value_len = varint_get(r), step = varint_get(r);

    if (key > ENTRY_KEY_MAX + 1ull || value_len > ENTRY_VALUE_MAX)
        r->error = SKADE_EPROTOCOL;
    if (r->error)
        return (struct row_head){ .keyed = false };
    return (struct row_head){ .keyed = key > 0,
                              .key_len = key > 0 ? (uint32_t)(key - 1) : 0,
                              .value_len = value_len,
                              .time_step = unzigzag(step) };
}

#endif
