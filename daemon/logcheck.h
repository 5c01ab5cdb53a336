/*
 * After a start from the index file: the chain of the rows that it stood for is verified while the daemon serves.
 *
 * In bounded slices on the log thread, between groups of commits, with pauses, so that a commit waits for one slice at
 * most.  Damage has the consequence that it has at a start from the log: there is no daemon on a log that isn't whole.
 * It ends with the message, the index file goes, and the next start reads the log, all of it.
 */
#ifndef SKADE_LOGCHECK_H
#define SKADE_LOGCHECK_H

#include "server.h"

/* Begin, if server.unchecked says that there is something to do.  When the log thread runs. */
void logcheck_start(struct server *s);

/* Begin no further slice.  True when none is under way. */
bool logcheck_stop(struct server *s);
void logcheck_free(struct server *s);

#endif
