/*
 * The thread that owns the commit log.  The loop gives it jobs, one runs at a time, and gets them back on the loop.
 *
 * Groups of commits come before everything else; reading, verifying and backups are cut by their owners into bounded
 * slices, so that a group never waits long.  Between jobs the thread moves a grown write-ahead file into the database.
 */
#ifndef SKADE_LOGTHREAD_H
#define SKADE_LOGTHREAD_H

#include "commitlog.h"

#include <uv.h>

struct logthread;

/* Embed it at the start of a job's own struct.  The job belongs to the thread from post until done. */
struct log_job {
    struct log_job *next;
    void (*run)(struct log_job *job, struct commitlog *log); /* on the thread */
    void (*done)(struct log_job *job);                       /* on the loop */
};

/* Start the thread; LOG is the thread's from now on. 0 and gives *RET, or negative. */
int logthread_start(struct logthread **ret, uv_loop_t *loop, struct commitlog *log);

/* From the loop.  URGENT jobs run before all others, among themselves in order. */
void logthread_post(struct logthread *t, struct log_job *job, bool urgent);

/* Figures of the log, as of the last job that ended; from the loop. */
uint64_t logthread_wal_bytes(const struct logthread *t);
uint64_t logthread_checkpoints(const struct logthread *t);

/* Run what is queued, join the thread, give the log back.  Jobs that end meanwhile get their done() before this
 * returns.  The handle is freed when the loop has run once more. */
struct commitlog *logthread_stop(struct logthread *t);

#endif
