/*
 * What of a plan the log lacks: a table's history, event by event, is held against the plan, and what remains is to be
 * committed.  Knows nothing of the daemon, so that tests can tell it any history.
 *
 * SAME TABLE?  The log keeps no table-uuid, but the uuid of every row that an import made is a hash of the table-uuid
 * with what the row says (import_row_uuid()), and history gives both.  So each commit of the history whose uuid is of
 * that making either proves that the plan's table wrote it, or that another one did.  Where no import wrote anything,
 * a common metadata location is the proof.  An empty table is nobody's yet.
 *
 * SAME PLACE?  If the table is known but all the plan's locations are new, while its head lies in a directory that the
 * plan doesn't have, then these are the same files seen under another URI or a copy of them.  Importing would repeat all
 * of history there, so it is refused.  (The same directory with none of the old files left is fine: Iceberg deletes old
 * metadata files.)
 *
 * WHAT IS KNOWN?  A snapshot that was introduced, wherever, needs no introduction.  A move of the head is known if that
 * location with that snapshot moved it before.  A row all of which is known is left out.
 *
 * NEVER BACK.  The head is the newest commit that moved it, so rows that are older than what moved it already (a bad
 * file that was repaired since, a table whose writer was faster than the directory listing) must not move it again:
 * they introduce their snapshots and leave the head alone.
 */
#ifndef SKADE_IMPORT_DELTA_H
#define SKADE_IMPORT_DELTA_H

#include "iceberg_ids.h"
#include "import_plan.h"

#include <skade.h>

enum import_verdict {
    IMPORT_SAME,        /* go on */
    IMPORT_OTHER_TABLE, /* the name belongs to another table-uuid, or to commits that have nothing to do with this */
    IMPORT_OTHER_LOCATIONS /* this table, under other locations */
};

struct import_delta {
    const struct import_plan *plan;
    skade_table table;
    uint8_t *known;        /* for each row, what is known of it */
    uint32_t *file_end;    /* for each file, the index behind its last row */
    bool *file_known;      /* for each file, whether its location occurs in the history */
    uint32_t *by_location; /* hash table of file indexes + 1 */
    size_t slots;
    uint64_t seed;
    struct iceberg_ids introducing; /* snapshot to the row that introduces it */
    bool proven, disproven;         /* by uuids */
    uint64_t commits;               /* of the history */
    bool has_head;
    char *head; /* location of the newest commit that moved it */
    int64_t head_time_us;

    /* results, by import_delta_finish() */
    struct import_row *rows; /* to be committed, in order */
    size_t row_count;
    bool moves_head; /* one of them does */
    size_t new_files, new_snapshots;
    size_t held_back; /* rows that would have moved the head back */
};

/* Begin to compare PLAN (borrowed) with the history of TABLE.  Gives RET, to be freed in any case.  0 or -ENOMEM, or
 * another negative errno. */
int import_delta_begin(struct import_delta *ret, const struct import_plan *plan, skade_table table);

/* One event of the history, the newest first.  0 or -ENOMEM. */
int import_delta_event(struct import_delta *d, const struct skade_event *e);

/* The history is over.  A verdict, and with IMPORT_SAME the rows; or -ENOMEM. */
int import_delta_finish(struct import_delta *d);

/*
 * Fill COMMIT with row I of D->rows; it borrows the location from the plan.  Its uuid is that of the row, so that the same
 * commit isn't made twice.  But the first of a release that moves the head has bytes of this delta's own in it: otherwise
 * another import's same release would be answered as if it were ours, and both would say that they added it.
 */
void import_delta_commit(const struct import_delta *d, size_t i, struct skade_commit *commit);

void import_delta_free(struct import_delta *d);

#endif
