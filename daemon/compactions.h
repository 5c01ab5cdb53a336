/*
 * Compactions: a table's rows as of a moment become a few large files with one snapshot, beside readers and writers.
 *
 *   listing      the files of the head, in slices on the loop
 *   rewriting    threads of their own, at low priority: scan, drop what the rules drop, write unnamed files
 *   linking      a worker gives the files their names
 *   judging      the committer swaps, or says what came in between
 *
 * One job per table, and one dry run beside it, which has a hold of its own on the files and changes nothing.  Whoever
 * asks for a table that is being compacted joins and gets the same answer.  A job ends when its last waiter leaves;
 * nothing of it was ever visible.  The rows come from the job's own scan or, for COMPACT_BEGIN, from the session that
 * runs the callback.
 *
 * Belongs to the loop; the rewriting threads work on what struct rewrite gives them.
 */
#ifndef SKADE_COMPACTIONS_H
#define SKADE_COMPACTIONS_H

#include "session.h"
#include "wire.h"

struct compaction;

/* COMPACT: begin or join. */
void compaction_ask(struct session *s, uint64_t request, const struct msg_compact *m);

/* COMPACT_BEGIN, COMPACT_END: the rows come from the session. */
void compaction_begin_stream(struct session *s, uint64_t request, const struct msg_compact_begin *m);
void compaction_end_stream(struct session *s, uint64_t request, const struct msg_compact_end *m);

/* The session doesn't wait any more for REQUEST (0: for anything).  False when it has to: the swap is under way, and the
 * answer comes with a DONE behind it. */
bool compaction_leave(struct session *s, uint64_t request);

/* A commit to T: is it time to compact it by itself? */
void compaction_consider(struct server *s, struct table *t);

/* TABLE was dropped: what compacts it need not go on. */
void compaction_table_dropped(const struct server *s, uint32_t table);

/* Each second: tell progress; begin what is to be done by itself. */
void compactions_tick(struct server *s);

/* Let all jobs end soon: the daemon stops.  True when none is left. */
bool compactions_stop(struct server *s);

#endif
