/*
 * Is there such a table, does it live, and does skade keep its rows?  Asked before every append, scan and compaction, and
 * answered here for all of them, in the same words.  Belongs to the loop.
 */
#ifndef SKADE_STORED_TABLE_H
#define SKADE_STORED_TABLE_H

#include "server.h"

enum stored_use { TO_READ, TO_APPEND, TO_COMPACT };

/* Table NUMBER as of event AT (SEQ_MAX: now), of whatever kind: 0 and *RET, lent; SKADE_ENOTABLE with MSG, which says
 * whether it was dropped, when, and what it was called. */
int living_table(const struct server *s, uint32_t number, uint64_t at, struct table **ret,
                 struct errmsg *msg);

/* The same for a stored table that is to be used so: SKADE_EKIND, too, and but for TO_READ also SKADE_EREADONLY. */
int stored_table(const struct server *s, uint32_t number, uint64_t at, enum stored_use use,
                 struct table **ret, struct errmsg *msg);

#endif
