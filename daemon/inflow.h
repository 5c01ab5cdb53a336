/*
 * Rows that flow in over a session: an append's, or the survivors of a compaction by callback.
 *
 *   BEGIN    opens the session's one inflow
 *   ROWS     are queued and handed to a worker; the session is not read while much is queued, so memory is bounded
 *   END      when the worker has taken all, it finishes what they became, and ops->ended() goes on
 *
 * Messages that arrived together are all looked at before a worker starts, so a short inflow is one job: each further one
 * would cost its sender two threads that have to wake.
 *
 * Whatever ends it earlier (an error, ABORT, the end of the connection) leaves nothing.  After an error the inflow stays
 * open, so that rows already under way are understood, and its end is answered with that error.
 *
 * Belongs to the loop; what is said to be the worker's belongs to it while one runs.
 */
#ifndef SKADE_INFLOW_H
#define SKADE_INFLOW_H

#include "rowstream.h"
#include "session.h"

struct inflow;

struct inflow_ops {
    /* on a worker; 0 or negative with a message */
    int (*record)(struct inflow *in, const struct row_record *r);
    /* All rows are taken, right after the last one: set error if it can't go on.  NULL: nothing to do there. */
    void (*finish)(struct inflow *in);
    void (*drop)(struct inflow *in); /* it failed: free what it holds on disk at once; called once or more */
    /* on the loop */
    void (*ended)(struct inflow *in); /* all is taken and finished: the inflow is the callee's */
    void (*gone)(struct inflow *in);  /* it came to nothing, everyone knows: free it */
};

struct inflow {
    const struct inflow_ops *ops;
    struct server *server;
    struct session *session; /* NULL: it went away, or it has its answer */
    uint64_t request;        /* of the last message: errors answer it */
    bool told;               /* the error was answered */
    bool ending;             /* END came */
    bool over;               /* ops->ended() has it */
    bool cancelled;
    int stop_code; /* why, when we stopped it: a worker only sees that it is to end */
    const char *stop_why;
    uint64_t rows_expected;
    struct wr queue; /* records that no worker has yet */

    uv_work_t work;
    bool working;
    void (*run)(struct inflow *in);  /* on a worker */
    void (*next)(struct inflow *in); /* on the loop, after it */

    /* the worker's */
    struct wr batch;
    bool last; /* no row comes after the batch */
    bool finished;
    bool in_row; /* a value goes on in the next record */
    int error;
    struct errmsg msg;
};

/* Open IN (zero but for ops) as the inflow of S, which has none. */
void inflow_open(struct inflow *in, struct session *s, uint64_t request);

void inflow_rows(struct session *s, uint64_t request, struct bytes records);
/* END of the session's inflow, which must be of the kind OPS.  True: from now on it is ending. */
bool inflow_end(struct session *s, uint64_t request, uint64_t rows, const struct inflow_ops *ops);
void inflow_abort(struct session *s); /* harmless when there is none; answered by the caller */

/* The messages that came are looked at: go on with what they brought.  Harmless when there is no inflow. */
void inflow_go(struct session *s);

/* End it from our side: its session is told CODE and WHY (a constant) when it asks for the end, and the
 * inflow is gone as soon as no worker has it. */
void inflow_stop(struct inflow *in, int code, const char *why);

/* Is so much queued that the session must not be read? */
bool inflow_is_full(const struct session *s);

/* For whoever took it over: do RUN on a worker, then NEXT on the loop. */
void inflow_work(struct inflow *in, void (*run)(struct inflow *in), void (*next)(struct inflow *in));
/* The session has its answer, or needs none: it may begin another. */
void inflow_leave(struct inflow *in);
/* Answer with error and msg, once.  An inflow that can't begin stays open after it, until its end comes. */
void inflow_tell(struct inflow *in);
/* Free the buffers. */
void inflow_fini(struct inflow *in);

#endif
