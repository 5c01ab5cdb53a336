/*
 * Work that the log thread does for connections, in slices between groups: old events, verification, backup.
 *
 * Each job holds its session, so that the session's memory stays; a session that closes meanwhile makes the job end
 * early.  All functions are called on the loop.
 */
#ifndef SKADE_JOBS_H
#define SKADE_JOBS_H

#include "session.h"
#include "table_check.h"

/* ---- a slice of old events ---- */

struct slice_job {
    struct log_job job;
    struct session *session;
    uint64_t request;
    uint64_t after;
    uint32_t limit;
    uint64_t watch;        /* number of the session's watch that it is for; 0: SINCE */
    struct event **events; /* owned */
    size_t count;
    int error;
    struct errmsg msg;
    void (*done)(struct slice_job *job);
};
int slice_job_start(struct session *s, uint64_t request, uint64_t after, uint32_t limit, uint64_t watch,
                    void (*done)(struct slice_job *job));

/* ---- verification: the chain, every indexed commit against the log, the files of stored tables ---- */

struct verify_job {
    struct log_job job;
    struct session *session;
    uint64_t request;
    bool full;
    struct generation *generation; /* referenced by the loop until the job is done */
    struct commitlog_cursor cursor;
    bool more;
    uint64_t rows, log_damaged;
    uint64_t compared, index_damaged;
    struct errmsg msg;
    char index_detail[256];
    struct table_check tables;
    void (*done)(struct verify_job *job);
};
int verify_job_start(struct session *s, uint64_t request, bool full, void (*done)(struct verify_job *job));

/* ---- backup: copy in steps, then send in chunks as the peer takes them ---- */

struct backup;
int backup_start(struct session *s, uint64_t request);
void backup_go_on(struct backup *b);  /* the peer took something */
void backup_cancel(struct backup *b); /* the session ends */

#endif
