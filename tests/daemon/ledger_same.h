/*
 * Two ledgers, field by field: one that began with an index file, and one that the log made from its first event.
 */
#ifndef SKADE_TEST_LEDGER_SAME_H
#define SKADE_TEST_LEDGER_SAME_H

#include "server.h"

/* Fails the test at the first field that differs. */
void ledgers_are_same(const struct ledger *a, const struct ledger *b);

/* S has just started and nothing happened yet: its ledger is what its log makes, and its parts have every commit of it.
 * Reads the log, so only where that has no thread. */
void server_is_as_from_log(struct server *s);

#endif
