/*
 * The indexer: from the log's events to published generations.
 *
 *   start      the log's rows -> one part -> root -> control page
 *   delta      what the tail holds -> a small part, on a worker, when the tail is long or has been idle for a moment
 *   merge      several parts -> one, on a worker, by merging sorted runs
 *   now        an event takes an answer away: the loop itself indexes the tail and publishes, before anyone sees it
 *
 * A worker borrows events of the tail, or parts, and gives back one new part; root and generation word are the loop's.
 * One delta and one merge at a time.  What can't be published (a full /dev/shm) is a visible state: counters, one line
 * of log, a back-off; the generation word stays, or becomes 0 when the old generation would answer wrongly.
 *
 * Parts that can't get a place in shared memory are kept in private memory, so that the daemon always has an index.
 */
#ifndef SKADE_INDEXER_H
#define SKADE_INDEXER_H

#include "generation.h"
#include "server.h"

struct indexer;

/* Read the whole log into the ledger and the index, publish it and take the instance over.  Before the log thread
 * runs.  0 and gives *RET, or negative with a message: the log is damaged, or no memory. */
int indexer_start(struct indexer **ret, struct server *s, struct errmsg *msg);

/* What is indexed so far, for questions; lent until the loop's next turn.  Never NULL. */
const struct generation *indexer_generation(const struct indexer *ix);

/* The epoch of the linked control page; 0 while there is none. */
uint64_t indexer_epoch(const struct indexer *ix);

/* Did taking over retire the page of the last daemon? */
bool indexer_retired_last(const struct indexer *ix);

/* Events were applied: index them when it is time. */
void indexer_poke(struct indexer *ix);

/* Plain events were applied: put them into the mapped tail, before commit_seq says that they are there (P3, T2). */
void indexer_follow(struct indexer *ix);

/* Index and publish everything applied, before this returns.  When that isn't possible the generation word is 0
 * afterwards: either way nobody is answered by a map that lacks it. */
void indexer_publish_now(struct indexer *ix);

/* Merge everything into one part and publish it; DONE gets the generations before and after, or an error. */
typedef void (*indexer_done_fn)(void *arg, int error, uint64_t old_generation, uint64_t generation);
void indexer_reindex(struct indexer *ix, indexer_done_fn done, void *arg);

/* Make everything in shared memory anew, under names of another epoch: for a new mode of the files. */
void indexer_renew_names(struct indexer *ix);

/* Once a second: are the names still there, is there something to try again? */
void indexer_tick(struct indexer *ix);

/* True when no job is under way; stop() asks for none to be started any more. */
bool indexer_stop(struct indexer *ix);
void indexer_free(struct indexer *ix);

#endif
