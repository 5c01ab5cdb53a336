/*
 * Collection: files that a compaction or a drop took out of use are removed, by name, once nobody can want them.
 *
 * A retirement waits for the grace window (option gc_grace) and for the last lease on the table whose moment is before
 * it.  Which files it retired follows from the log: those of the commits that it covers and of the base before.  Only
 * these names are ever removed.  After a start the retirements of the log are looked at again: a full grace window
 * passes before anything is removed.  When a manifest doesn't tell which files it names, all of its retirement are kept
 * and listed with the reason, until somebody mends it and asks for a collection, or the next start.
 *
 * Belongs to the loop; names are removed by a worker.
 */
#ifndef SKADE_GC_H
#define SKADE_GC_H

#include "session.h"
#include "wire.h"

/* Find what earlier daemons left; after the replay. */
int gc_start(struct server *s, struct errmsg *msg);

/* E, a COMPACT or the DROP of a stored table, is visible. */
void gc_retired(struct server *s, const struct event *e);

/* GC: remove what may be removed (NOW: without waiting for the grace window), then tell what is left. */
void gc_ask(struct session *s, uint64_t request, const struct msg_gc *m);

/* The session that asked is gone. */
void gc_leave(struct session *s);

/* Each second. */
void gc_tick(struct server *s);

/* No further work; true when none is under way. */
bool gc_stop(struct server *s);
void gc_free(struct server *s);

#endif
