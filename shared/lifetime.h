/*
 * The rules for tables: whether a table is there at a moment, and what a commit of it is worth then.
 *
 * A root has a row for each table, and a bit that says that there is nothing to be looked up in it: the table lives and
 * no commit of it was retired.  Nearly all tables are so, and a lookup then reads the bit, which is in the cache, and
 * not the row.  The bits tell the newest state, so they serve moments that are not older than the root.
 */
#ifndef SKADE_LIFETIME_H
#define SKADE_LIFETIME_H

#include "errors.h"
#include "event.h"
#include "format.h"
#include "once.h"

#include <errno.h>

/* Borrowed from a root; questions as of event AT. */
struct lifetimes {
    const struct root_table *rows;
    const uint64_t *plain;
    uint32_t count;
    uint32_t plain_count; /* that PLAIN tells of: COUNT, or none when AT is older than the root */
    uint64_t at;
    bool all_plain; /* every table is, so that none needs to be looked at */
};

/* Is TABLE there, and every commit of it up to AT worth what it says? */
static inline bool lifetime_is_plain(const struct lifetimes *l, uint32_t table)
{
    uint32_t index = table - 1;
    return index < l->plain_count && (l->plain[index / 64] >> index % 64 & 1);
}

static inline void lifetime_prefetch(const struct lifetimes *l, uint32_t table)
{
    uint32_t index = table - 1;
    if (index < l->count)
        __builtin_prefetch(&l->rows[index]);
}

/* Is the table of ROW there just after event AT? */
static inline bool lifetime_spans(const struct root_table *row, uint64_t at)
{
    return row->created_seq <= at && (row->dropped_seq == SEQ_MAX || row->dropped_seq > at);
}

/* The table's row, when it is there just after event AT. */
static inline bool lifetime_row(const struct lifetimes *l, uint32_t table, struct root_table *ret)
{
    uint32_t index = table - 1;
    if (index >= l->count)
        return false;
    copy_once(ret, &l->rows[index], sizeof *ret);
    return lifetime_spans(ret, l->at);
}

/* Is there such a table? */
static inline bool lifetime_is_there(const struct lifetimes *l, uint32_t table)
{
    struct root_table row;
    return lifetime_is_plain(l, table) || lifetime_row(l, table, &row);
}

/*
 * What commit SEQ of the table of ROW is worth at AT: 1, SKADE_EEXPIRED, SKADE_ENOSNAPSHOT when it is younger, or -EAGAIN
 * when that can't be told.  Watermarks only rise: what is above the newest one was never retired; what is below it, before
 * that retirement, may have been under an older one that the root doesn't know.
 */
static inline int lifetime_judge(const struct root_table *row, uint64_t seq, uint64_t at)
{
    if (seq > at)
        return SKADE_ENOSNAPSHOT;
    if (seq > row->watermark)
        return 1;
    return row->retired_by <= at ? SKADE_EEXPIRED : -EAGAIN;
}

#endif
