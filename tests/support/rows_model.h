/*
 * What stored tables must hold, in the plainest way that can be: a list of events with the rows that came with them, and
 * every question answered by walking over it.  Slow and obviously right.
 *
 * A row's key is a number into a small pool, so that keys meet; its value is a seed and a length.  Every question takes
 * the moment AT: only events 1 ... AT have happened.
 */
#ifndef SKADE_TEST_ROWS_MODEL_H
#define SKADE_TEST_ROWS_MODEL_H

#include <skade.h>

#include "synthetic.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define KEYS 60 /* in the pool: 1 ... KEYS; 0 is a row without a key */
#define KEY_LONGEST 65535

struct mrow {
    uint32_t key;
    bool deletion;
    uint64_t seed, len; /* of the value */
    int64_t time_us;    /* of the commit that wrote it */
};

struct mrows {
    struct mrow *row;
    size_t count, cap;
};

struct mevent {
    uint32_t kind, flags;
    skade_table table;
    uint64_t seq, watermark;
    int64_t snapshot, time_us;
    char *location;
    struct mrows rows; /* commit: as they were appended; compaction: survivors, oldest first */
};

struct rows_model {
    struct mevent *event; /* index: seq - 1 */
    uint64_t seq, cap;
    uint32_t tables;
};

/* ---- keys and values ---------------------------------------------------------------------------------------------- */

static inline size_t model_key(uint32_t key, const void **ret)
{
    /* The two that follow the empty one have the same XXH3 hash. */
    static const char pair[2][17] = { "\xb9\x39\x42\xea\x7b\x73\x82\x67\xd5\x9f\x3d\x80\x5c\xf9\x75\xae",
                                      "\xb8\x1a\x07\x8d\xf2\xd8\x4f\x88\x3a\x52\x96\x09\x3b\xbc\x56\xaf" };
    static char longest[KEY_LONGEST], plain[KEYS + 1][8];

    switch (key) {
    case 1:
        *ret = "";
        return 0;
    case 2:
    case 3:
        *ret = pair[key - 2];
        return 16;
    case 4:
    case 5:
        *ret = "\0\0";
        return key - 3;
    case 6:
        memset(longest, 'l', sizeof longest);
        *ret = longest;
        return sizeof longest;
    default:
        *ret = plain[key];
        return (size_t)snprintf(plain[key], sizeof plain[key], "k%02u", key);
    }
}

/* Bytes OFF ... OFF + LEN of a row's value.  Some are zeros only. */
static inline void model_value(const struct mrow *row, uint64_t off, uint8_t *ret, size_t len)
{
    for (size_t i = 0; i < len;) {
        uint64_t at = off + i, word = row->seed % 5 ? synthetic_mix(row->seed + at / 8) : 0;
        size_t from = at % 8, n = 8 - from < len - i ? 8 - from : len - i;
        memcpy(ret + i, (uint8_t *)&word + from, n);
        i += n;
    }
}

/* ---- rows ----------------------------------------------------------------------------------------------------------- */

static inline void mrows_add(struct mrows *rows, const struct mrow *row)
{
    if (rows->count == rows->cap) {
        rows->cap = rows->cap ? rows->cap * 2 : 16;
        rows->row = realloc(rows->row, rows->cap * sizeof *rows->row);
        if (!rows->row)
            abort();
    }
    rows->row[rows->count++] = *row;
}

static inline void mrows_free(struct mrows *rows)
{
    free(rows->row);
    *rows = (struct mrows){ 0 };
}

/* ---- events ----------------------------------------------------------------------------------------------------------- */

static inline struct mevent *mevent_at(const struct rows_model *m, uint64_t seq)
{
    return &m->event[seq - 1];
}

static inline struct mevent *mevent_add(struct rows_model *m)
{
    if (m->seq == m->cap) {
        m->cap = m->cap ? m->cap * 2 : 1024;
        m->event = realloc(m->event, m->cap * sizeof *m->event);
        if (!m->event)
            abort();
    }
    struct mevent *e = &m->event[m->seq++];
    *e = (struct mevent){ .seq = m->seq };
    return e;
}

static inline bool has_rows(const struct mevent *e, skade_table table)
{
    return e->table == table && (e->kind == SKADE_EVENT_COMMIT || e->kind == SKADE_EVENT_COMPACT);
}

static inline bool mtable_is_there(const struct rows_model *m, skade_table table, uint64_t at)
{
    bool there = false;

    for (uint64_t seq = 1; seq <= at; seq++)
        if (mevent_at(m, seq)->table == table && mevent_at(m, seq)->kind == SKADE_EVENT_CREATE)
            there = true;
        else if (mevent_at(m, seq)->table == table && mevent_at(m, seq)->kind == SKADE_EVENT_DROP)
            there = false;
    return there;
}

/* The newest event of KIND of TABLE up to AT; NULL: none. */
static inline struct mevent *mevent_newest(const struct rows_model *m, skade_table table, unsigned kind,
                                           uint64_t at)
{
    for (uint64_t seq = at; seq > 0; seq--)
        if (mevent_at(m, seq)->table == table && mevent_at(m, seq)->kind == kind)
            return mevent_at(m, seq);
    return NULL;
}

static inline struct mevent *mtable_base(const struct rows_model *m, skade_table table, uint64_t at)
{
    return mevent_newest(m, table, SKADE_EVENT_COMPACT, at);
}

/* Commits up to here are retired. */
static inline uint64_t mtable_watermark(const struct rows_model *m, skade_table table, uint64_t at)
{
    const struct mevent *c = mtable_base(m, table, at), *e = mevent_newest(m, table, SKADE_EVENT_EXPIRE, at);
    uint64_t a = c ? c->watermark : 0, b = e ? e->watermark : 0;

    return a > b ? a : b;
}

/* The newest commit, though a compaction that it outlived may have a higher number; else the compaction. */
static inline struct mevent *mtable_head(const struct rows_model *m, skade_table table, uint64_t at)
{
    struct mevent *base = mtable_base(m, table, at),
                  *commit = mevent_newest(m, table, SKADE_EVENT_COMMIT, at);

    return base && (!commit || commit->seq <= base->watermark) ? base : commit;
}

static inline struct mevent *mtable_by_id(const struct rows_model *m, skade_table table, int64_t id,
                                          uint64_t at)
{
    for (uint64_t seq = 1; seq <= at; seq++)
        if (has_rows(mevent_at(m, seq), table) && mevent_at(m, seq)->snapshot == id)
            return mevent_at(m, seq);
    return NULL;
}

static inline struct mevent *mtable_by_time(const struct rows_model *m, skade_table table, int64_t time_us,
                                            uint64_t at)
{
    struct mevent *best = NULL;

    for (uint64_t seq = 1; seq <= at; seq++) {
        struct mevent *e = mevent_at(m, seq);
        if (has_rows(e, table) && e->time_us <= time_us && (!best || e->time_us >= best->time_us))
            best = e;
    }
    return best;
}

/* ---- what a snapshot holds ---------------------------------------------------------------------------------------------- */

static inline void take_live(struct mrows *all, const struct mevent *e)
{
    for (size_t i = 0; i < e->rows.count; i++)
        mrows_add(all, &e->rows.row[i]);
}

/* The rows of snapshot K of its table as of AT, oldest first.  K NULL: none. */
static inline struct mrows model_content(const struct rows_model *m, const struct mevent *k, uint64_t at)
{
    struct mrows all = { 0 }, live = { 0 };
    size_t newest[KEYS + 1] = { 0 };

    if (!k)
        return live;
    const struct mevent *base = mtable_base(m, k->table, at);
    if (base)
        take_live(&all, base);
    for (uint64_t seq = base ? base->watermark + 1 : 1; seq <= k->seq && k != base; seq++)
        if (mevent_at(m, seq)->table == k->table && mevent_at(m, seq)->kind == SKADE_EVENT_COMMIT)
            take_live(&all, mevent_at(m, seq));
    for (size_t i = 0; i < all.count; i++)
        newest[all.row[i].key] = i;
    for (size_t i = 0; i < all.count; i++)
        if (!all.row[i].key || (newest[all.row[i].key] == i && !all.row[i].deletion))
            mrows_add(&live, &all.row[i]);
    mrows_free(&all);
    return live;
}

#endif
