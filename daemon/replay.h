/*
 * From the log to memory, at start: the ledger, and parts over all commits.
 *
 * What the index file has comes from there (indexload.h), and only what is newer from the log.  The log is read in stretches, each becomes a part in private memory, and those are merged: no more than one stretch of
 * events is in memory at a time.
 */
#ifndef SKADE_REPLAY_H
#define SKADE_REPLAY_H

#include "generation.h"
#include "server.h"

struct replayed {
    struct part_map *parts[GENERATION_PARTS_MAX]; /* gives a reference of each */
    size_t parts_count;
    uint64_t last_number;     /* generation numbers that were used */
    struct errmsg not_shared; /* why the parts are in private memory; empty: they are shared */
};

/* Read S's log into S's ledger and index it; the log was opened with skip_check.  Events up to server.unchecked are those
 * whose chain is still to be verified.  0, or negative: the log is damaged, or no memory. */
int replay_log(struct server *s, struct replayed *ret, struct errmsg *msg);

#endif
