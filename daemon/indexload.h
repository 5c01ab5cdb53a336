/*
 * A fast start: the ledger and the parts as of an event, from the index file.
 *
 * The file is believed when its checksum is right, it is of this log, and the log has the same chain value at that event.
 * What is not believed is thrown away, and everything comes from the log, which is the truth.  One thing is more than
 * that: a sound file of this log that knows of an event which the log doesn't have.  Then the log is older than what was
 * made from it: server.readonly is set, and nothing is touched.
 */
#ifndef SKADE_INDEXLOAD_H
#define SKADE_INDEXLOAD_H

#include "generation.h"
#include "server.h"

/* A log is begun with so many parts at most. */
#define INDEXLOAD_PARTS_MAX 36

struct index_loaded {
    struct commitlog_cursor cursor;              /* what is loaded ends here */
    struct part_map *parts[INDEXLOAD_PARTS_MAX]; /* gives a reference of each */
    size_t parts_count;
    uint64_t last_number;     /* in: generation numbers that were used before; out: and by this */
    struct errmsg not_shared; /* why parts are in private memory; empty: all are shared */
};

/* Before the log thread runs.  1: S's ledger is replaced by one as of RET->cursor.  0: nothing is changed but perhaps
 * server.readonly; what was wrong was logged. */
int index_load(struct server *s, struct index_loaded *ret);

#endif
