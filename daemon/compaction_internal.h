/*
 * A compaction that runs, for the two files that make one: compactions.c, by its own scan, and compaction_stream.c, by
 * the rows that a client sends.
 */
#ifndef SKADE_COMPACTION_INTERNAL_H
#define SKADE_COMPACTION_INTERNAL_H

#include "compactions.h"
#include "leases.h"
#include "rewrite.h"

enum { COMPACT_NOW, COMPACT_DRY_RUN, COMPACT_JOIN, COMPACT_BEGIN_ONLY }; /* msg_compact.mode */

/* Whoever wants to know what becomes of a job. */
struct waiter {
    struct waiter *next;
    struct session *session;
    uint64_t request;
    bool joined;
    bool late; /* it wanted to leave when the swap was under way already */
};

struct compaction {
    struct compaction *next;
    struct server *server;
    struct waiter *waiters;
    bool automatic; /* goes on without anyone waiting */
    bool arriving;  /* its rows still come from a session, which will wait for it */
    uint32_t table, number;
    struct uuid uuid;
    uint64_t began_ns;

    /* the snapshot */
    struct lease hold; /* keeps its files; not a session's */
    uint64_t snapshots_before;

    struct filelist list;
    struct rewrite rewrite;
    struct prune *rules;
    size_t rules_count;

    uv_thread_t thread;
    uv_async_t rewritten;
    uv_work_t work;
    struct store_file *named; /* outputs and manifest, once they are linked */
    size_t named_count;
    int manifest_fd;
    int dir;
    char location[LOCATION_MAX + 1];
    int64_t snapshot;
    uint64_t seq;
    int error;
    struct errmsg msg;
    bool cancelled;
    bool submitted; /* to the committer: from here on what becomes of it is not ours to decide */
    bool rewriting;
    bool dropped;          /* the table, meanwhile */
    bool unchanged;        /* there was nothing to do */
    struct stream *stream; /* compaction_stream.c's */
};

/* A job for T as it is now, registered; nothing is done yet.  RULES NULL: none.  NULL with *ERROR and MSG. */
struct compaction *compaction_make(struct server *s, struct table *t, const struct uuid *uuid,
                                   const struct wire_list *rules, int *error, struct errmsg *msg);

/* The job that runs for TABLE, or the dry run, or NULL. */
struct compaction *compaction_find(const struct server *s, uint32_t table, bool dry_run);

int compaction_check_sizes(uint64_t target_size, uint32_t block_size, int32_t level, struct errmsg *msg);

int compaction_add_waiter(struct compaction *c, struct session *s, uint64_t request, bool joined);

/* What rewrite.h needs to know of C, but for the files. */
void compaction_prepare(struct compaction *c);

/* The rewrite is over, well or not: swap, or end. */
void compaction_rewritten(struct compaction *c);

/* The rows of C that still come from a session need not come any more. */
void compaction_stream_stop(struct compaction *c, int code, const char *why);

/* It was cancelled: sets msg, and returns what that is. */
int compaction_was_stopped(struct compaction *c);

/* End it with what error and msg say: everyone is told, everything freed, now or soon; C is not the caller's any more. */
void compaction_finish(struct compaction *c);

#endif
