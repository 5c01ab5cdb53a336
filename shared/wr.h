/*
 * A growing buffer to write into, with a sticky error: the mirror of rd.h.
 *
 *     struct wr w = { 0 };
 *     wr_u32(&w, 1);  wr_str(&w, name);
 *     if (w.error) ...                   -ENOMEM, once, at the end
 *     wr_fini(&w);
 */
#ifndef SKADE_WR_H
#define SKADE_WR_H

#include "util.h"

#include <errno.h>
#include <stdlib.h>

struct wr {
    uint8_t *data;
    size_t len;
    size_t cap;
    int error; /* 0 or -ENOMEM */
};

/* Room for N more bytes at the end, counted as written; NULL and a sticky error when memory is out. */
static inline uint8_t *wr_room(struct wr *w, size_t n)
{
    if (w->error)
        return NULL;
    if (n > w->cap - w->len) {
        size_t cap = w->cap ? w->cap : 256;
        while (cap - w->len < n)
            cap *= 2;
        uint8_t *data = realloc(w->data, cap);
        if (!data) {
            w->error = -ENOMEM;
            return NULL;
        }
        w->data = data;
        w->cap = cap;
    }
    uint8_t *p = w->data + w->len;
    w->len += n;
    return p;
}

static inline void wr_bytes(struct wr *w, const void *data, size_t n)
{
    uint8_t *p = wr_room(w, n);
    if (p && n)
        memcpy(p, data, n);
}

#define WR_INTEGER(type, name)                         \
    static inline void wr_##name(struct wr *w, type v) \
    {                                                  \
        wr_bytes(w, &v, sizeof v);                     \
    }
WR_INTEGER(uint8_t, u8)
WR_INTEGER(uint16_t, u16)
WR_INTEGER(uint32_t, u32)
WR_INTEGER(uint64_t, u64)
WR_INTEGER(int32_t, i32)
WR_INTEGER(int64_t, i64)
#undef WR_INTEGER

static inline void wr_uuid(struct wr *w, struct uuid u)
{
    wr_bytes(w, u.b, sizeof u.b);
}

static inline void wr_str(struct wr *w, struct bytes s)
{
    wr_u32(w, (uint32_t)s.len);
    wr_bytes(w, s.data, s.len);
}

/* Overwrite the u32 at OFF, which was written before. */
static inline void wr_patch_u32(struct wr *w, size_t off, uint32_t v)
{
    if (!w->error)
        memcpy(w->data + off, &v, sizeof v);
}

static inline void wr_fini(struct wr *w)
{
    free(w->data);
    *w = (struct wr){ 0 };
}

#endif
