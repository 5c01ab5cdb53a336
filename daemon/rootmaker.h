/*
 * From the ledger to a root: the rows of tables and names, and where heads are in the parts.
 */
#ifndef SKADE_ROOTMAKER_H
#define SKADE_ROOTMAKER_H

#include "ledger.h"
#include "publisher.h"

/* Make the root of G, whose number, parts and coverage are set; link it and map it into G.  0 or negative. On the loop:
 * it costs a walk over the tables and names. */
int make_root(struct ledger *l, struct publisher *publisher, struct generation *g, struct errmsg *msg);

#endif
