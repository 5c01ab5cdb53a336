/*
 * The work of a compaction that needs no loop: scan a snapshot's files, drop rows by rules, write the rest.
 *
 * Runs on a thread of its own, with helpers for the parts of the scan.  Everything it needs is copied into struct
 * rewrite; what others may look at meanwhile is atomic.
 */
#ifndef SKADE_REWRITE_H
#define SKADE_REWRITE_H

#include "errors.h"
#include "filelist.h"
#include "format_entry.h"
#include "rows_out.h"
#include "rowset.h"

#include <stdatomic.h>

enum prune_rule { PRUNE_BEFORE = 1, PRUNE_PREFIX = 2, PRUNE_RANGE = 3 };

/* Which rows to drop; see PRUNE_ROW in messages.def. */
struct prune {
    enum prune_rule rule;
    int64_t time_us;
    char *key, *key_to; /* owned */
    size_t key_len, key_to_len;
};

/* Does one of the rules drop ROW? */
bool prune_drops(const struct prune *rules, size_t n, const struct row *row);

struct rewrite {
    /* what to do; nothing changes while it runs */
    struct store *store;
    struct uuid log, uuid;
    uint32_t table;
    int dir; /* where unnamed files are made */
    uint64_t seen_seq;
    const struct listed_file *files; /* oldest first */
    size_t files_count;
    const struct prune *rules;
    size_t rules_count;
    uint64_t target_size;
    uint32_t block_size;
    int level;
    unsigned threads;
    size_t memory;
    bool dry_run;

    _Atomic bool cancelled;
    _Atomic uint64_t rows_done, rows_total, bytes_written;

    /* what came of it */
    int error;
    struct errmsg msg;
    struct output *outputs; /* in order */
    size_t outputs_count;
    uint64_t rows, rows_pruned, raw_bytes;
    uint64_t files_before, bytes_before; /* bytes: with the manifest's */
    uint64_t files_after, bytes_after;   /* dry run: estimated */
    bool sampled;
};

/* Do it; sets error and the rest.  On any thread, without the loop. */
void rewrite_run(struct rewrite *rw);

/* The same for rows that come from elsewhere: OUT's settings from RW; and when all are in OUT, take its files over,
 * verify them, find out what there was before. */
void rewrite_settings(const struct rewrite *rw, struct rows_out *ret);
void rewrite_take(struct rewrite *rw, struct rows_out *out);

/* Close the outputs: what has no name vanishes. */
void rewrite_fini(struct rewrite *rw);

#endif
