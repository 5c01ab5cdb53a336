/*
 * The index file is kept so new that a start from it reads little of the log.
 *
 *   capture   on the loop, in slices: what the ledger knows and parts don't (events that aren't commits, uuids), up to
 *             the event that the published parts cover.  All of it only grows at the end, so that a slice needs no
 *             moment of its own
 *   chain     on the log thread: the chain value of that event
 *   write     on a worker: the parts that have no file yet, then the rest
 *
 * It is written when a thirty-second of the events is newer than it, and at an orderly end.  What can't be written is a
 * counter and a line of log; the old file stays, and the log has everything.  Belongs to the loop.
 */
#ifndef SKADE_INDEXKEEPER_H
#define SKADE_INDEXKEEPER_H

#include "server.h"

struct indexkeeper;

struct indexkeeper *indexkeeper_new(struct server *s); /* NULL: no memory */

/* Each second. */
void indexkeeper_tick(struct indexkeeper *k);

/* The end, when nothing changes any more: write what is due, if WRITE.  True when nothing is under way. */
bool indexkeeper_stop(struct indexkeeper *k, bool write);

/* The log isn't what the file stands for: it goes, and none is written any more. */
void indexkeeper_forget(struct indexkeeper *k);

void indexkeeper_free(struct indexkeeper *k); /* NULL is fine */

#endif
