/*
 * Everything the daemon owns, as a tree of owners.  All of it belongs to the loop thread but where it says otherwise.
 *
 *   server
 *   ├── config
 *   ├── log, log_thread     the durable log; owned by its thread while that runs
 *   ├── ledger              what is true now (memory)
 *   ├── publisher           files in shared memory, the control page
 *   ├── indexer             parts and roots: built by workers, published by the loop
 *   ├── indexkeeper         writes the index file, from which a start is fast
 *   ├── logcheck            verifies what a start from that file didn't
 *   ├── committer           changes wait here, are judged in groups, become durable, visible, answered: in this order
 *   ├── store               directories of stored tables
 *   └── listener, sessions  connections
 */
#ifndef SKADE_SERVER_H
#define SKADE_SERVER_H

#include "commitlog.h"
#include "config.h"
#include "counters.h"
#include "ledger.h"
#include "logthread.h"
#include "publisher.h"
#include "world.h"

#include <uv.h>

struct server {
    uv_loop_t loop;
    struct config config;
    int (*configure)(struct config *fresh, struct errmsg *msg); /* reads file and command line again */

    struct commitlog *log;
    struct logthread *log_thread;
    struct uuid origin; /* of the log: files of stored tables carry it; never changes */
    struct ledger *ledger;
    struct publisher *publisher;
    struct control_page *page; /* the publisher's: where counters and words are */
    struct indexer *indexer;
    struct indexkeeper *indexkeeper;
    struct logcheck *logcheck; /* NULL: nothing to verify */
    struct committer *committer;
    struct listener *listener;
    struct store *store;
    unsigned workers; /* jobs of appends and compactions that run: an orderly end waits for them */
    struct compaction *compactions; /* that run */
    struct gc *gc;
    uint64_t last_lease; /* numbers of leases are never used again */

    char readonly[256]; /* not empty: why no change is taken */
    uint64_t on_file;   /* events up to here are in the index file; indexkeeper.c's */
    uint64_t
        unchecked; /* events up to here came from the index file: the chain of their rows is logcheck.c's */
    uint64_t last_epoch; /* of the daemon before us; 0: none */
    bool
        epoch_recorded; /* ours, in the log: before the first commit. Set before the log thread runs, then its own */
    uint64_t started_ms;
    bool stopping;
    bool damaged; /* the index is: nothing is answered from it any more */
    int exit_code;
    uv_timer_t beat;
    uint64_t beats;
    uv_signal_t sigterm, sigint, sighup;
    uv_prepare_t loop_turned;
    uint64_t turn_began_ns, turn_slept_ns;
};

/* Microseconds since 1970 UTC, for events whose client gave no time. */
int64_t server_now_us(void);

/* Open, load, take over, listen. 0, or negative with a message. */
int server_start(struct server *s, struct errmsg *msg);

/* Say that it is ready, serve until stopped, close everything.  The exit code, or SERVER_RENEW. */
int server_run(struct server *s);
#define SERVER_RENEW (-1)

/* End in an orderly way: no new connections, what was acknowledged is finished, then out with CODE. */
void server_stop(struct server *s, int code);

/* WHY: what is shared is damaged.  Hang up at once, so that those who wait ask again, and end with SERVER_RENEW: a start
 * makes it anew.  With 1 instead, if that was done a moment ago. */
void server_renew(struct server *s, const char *why);

#endif
