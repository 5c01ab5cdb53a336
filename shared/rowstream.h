/*
 * Rows on their way from a client to the daemon: records in the payload of ROWS messages.
 *
 * Each message holds whole records.  A long value is cut into several: the first says ROW_GOES_ON, the following ones
 * are ROW_MORE and say ROW_GOES_ON but for the last.
 *
 *      flags u8 | 0 u8 | key_len u16 | len u32 | time i64 if ROW_TIMED | key | len bytes of the value
 *
 * Survivors of a compaction are ROW_TIMED.  One that is cut begins with its length: the first record says ROW_GOES_ON
 * and its 8 bytes of value are the whole value's length (u64); the value follows in ROW_MORE records.  Values up to
 * ROW_WHOLE come in one record.
 */
#ifndef SKADE_ROWSTREAM_H
#define SKADE_ROWSTREAM_H

#include "rd.h"
#include "row.h"
#include "wr.h"

enum rowstream_flag {
    /* ROW_KEYED = 1, ROW_DELETE = 2 */
    ROW_GOES_ON = 4, /* the value goes on in the next record */
    ROW_MORE = 8,    /* nothing but further bytes of the value before */
    ROW_TIMED = 16,  /* a survivor of a compaction: it keeps the time of its commit */
    ROW_RECORD_FLAGS = 31
};

#define ROW_RECORD_HEAD 8u

struct row_record {
    unsigned flags;
    struct bytes key;
    struct bytes value; /* or a piece of it */
    int64_t time_us;    /* with ROW_TIMED */
};

/* Lengths are within their fields: the caller has checked them. */
static inline void rowstream_put(struct wr *w, const struct row_record *r)
{
    wr_u8(w, (uint8_t)r->flags);
    wr_u8(w, 0);
    wr_u16(w, (uint16_t)r->key.len);
    wr_u32(w, (uint32_t)r->value.len);
    if (r->flags & ROW_TIMED)
        wr_i64(w, r->time_us);
    wr_bytes(w, r->key.data, r->key.len);
    wr_bytes(w, r->value.data, r->value.len);
}

/* The next record, lent from the reader's data: 1, 0 at the end, SKADE_EPROTOCOL.  Whether the flags make sense one
 * after the other is for whoever applies them. */
static inline int rowstream_next(struct rd *r, struct row_record *ret)
{
    if (rd_left(r) == 0)
        return r->error ? r->error : 0;
    ret->flags = rd_u8(r);
    uint8_t reserved = rd_u8(r);
    uint16_t key_len = rd_u16(r);
    uint32_t len = rd_u32(r);
    ret->time_us = ret->flags & ROW_TIMED ? rd_i64(r) : 0;
    const uint8_t *key = rd_take(r, key_len), *value = rd_take(r, len);
    if (r->error || reserved || (ret->flags & ~(unsigned)ROW_RECORD_FLAGS))
        return SKADE_EPROTOCOL;
    ret->key = (struct bytes){ (const char *)key, key_len };
    ret->value = (struct bytes){ (const char *)value, len };
    return 1;
}

#endif
