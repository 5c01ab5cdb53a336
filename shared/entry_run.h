/*
 * Rows at hand: those of a stretch of a file that was read and checked at once, noted so that a loop gives them to its
 * caller without a call for each.
 *
 *      spots   [0][1][2] ... [high)          data   |key value|key value| ...
 *                  ^low                               ^ offsets of the spots
 *
 * A cursor makes a run when it has looked through a block of entries or unpacked one of rows; who reads takes rows from
 * either end, and the cursor goes on where both ends met.  Nothing about a row of a run can fail any more.
 */
#ifndef SKADE_ENTRY_RUN_H
#define SKADE_ENTRY_RUN_H

#include "row.h"

struct entry_spot {
    uint32_t key_off, value_off; /* in the run's data */
    uint32_t value_len;
    uint16_t key_len, flags;
    uint64_t place; /* as a row's */
    int64_t time_us;
};

struct entry_run {
    const struct entry_spot *spots;
    const uint8_t *data; /* as long as the cursor isn't used otherwise */
    uint64_t first;      /* number of the row of spots[0] */
    uint32_t low, high;  /* what is left: spots[low, high) */
    uint32_t given;      /* 1 + index of the row that was given last; 0: that one was none of these */
};

/* The next row of the run; false when none is left.  Field by field: who reads what was written by other pieces just
 * before waits for it, ten times as long as for anything else here. */
static inline bool entry_run_next(struct entry_run *run, bool forward, struct row *ret)
{
    if (run->low == run->high)
        return false;
    uint32_t i = forward ? run->low++ : --run->high;
    const struct entry_spot *s = &run->spots[i];
    run->given = i + 1;
    ret->flags = s->flags;
    ret->key.data = (const char *)run->data + s->key_off;
    ret->key.len = s->key_len;
    ret->value = s->value_len <= ROW_WHOLE ? (const char *)run->data + s->value_off : NULL;
    ret->value_len = s->value_len;
    ret->time_us = s->time_us;
    ret->place = s->place;
    ret->number = run->first + i;
    return true;
}

#endif
