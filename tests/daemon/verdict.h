/*
 * What a crowd was told, judged by the history: a list of events, and every question answered by walking over it.
 *
 *   acknowledged    is in the history, where it was said to be, as it was asked
 *   refused         isn't there
 *   unknown         is there once and whole, or isn't there
 *   files           of commits that aren't retired are there, and no others are but retired ones
 *   expiries        leave the head and its snapshot
 *   rows            of a stored table are what its appends leave
 *   questions       have the answer that the history had at that moment; of a snapshot, the first location
 */
#ifndef SKADE_TEST_VERDICT_H
#define SKADE_TEST_VERDICT_H

#include "crowd.h"

/* Judge all requests; fails the test. */
void verdict(void);

#endif
