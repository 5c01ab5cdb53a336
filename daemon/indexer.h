/*
 * The indexer: from the log's events to published generations.
 *
 *   start      the log's rows -> one part -> root -> control page
 *   delta      what the tail holds -> a small part, on a worker, when the tail is long or has been idle for a moment
 *   merge      several parts -> one, on a worker, by merging sorted runs
 *   root       what the ledger says of tables and names -> a root over the parts, on a thread; then the generation word
 *   away       an event takes an answer away: it is applied when a root that has it is made, and shown at once
 *
 * A worker borrows events of the tail, or parts, and gives back one new part; the generation word is the loop's.
 * One delta, one merge and one root at a time.  What can't be published (a full /dev/shm) is a visible state: counters, one line
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

/* The newest generation that was published; lent until the loop's next turn.  NULL: none in this epoch. */
const struct generation *indexer_shown(const struct indexer *ix);

/* The epoch of the linked control page; 0 while there is none. */
uint64_t indexer_epoch(const struct indexer *ix);

/* Did taking over retire the page of the last daemon? */
bool indexer_retired_last(const struct indexer *ix);

/* Events were applied: index them when it is time. */
void indexer_poke(struct indexer *ix);

/* Plain events were applied: put them into the mapped tail, before commit_seq says that they are there (P3, T2). */
void indexer_follow(struct indexer *ix);

/*
 * The COUNT events, the next ones of the log and durable, take an answer away.  A root that has them is made while
 * everything goes on as before.  Then, in one turn of the loop, APPLY is called, which applies them to the ledger, the
 * generation is shown, and DONE is called.  When it can't be made or shown the generation word is 0 before DONE: either way
 * nobody is answered by a map that lacks them.  EVENTS are lent until DONE; no event is applied but these; DONE may come
 * before this returns.
 */
typedef void (*indexer_fn)(void *arg);
void indexer_take_away(struct indexer *ix, const struct event *events, size_t count, indexer_fn apply,
                       indexer_fn done, void *arg);

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
