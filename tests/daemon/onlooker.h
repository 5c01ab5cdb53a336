/*
 * Somebody who looks at the shared memory of a simulated daemon, as clients do, and knows what must be there.
 */
#ifndef SKADE_TEST_ONLOOKER_H
#define SKADE_TEST_ONLOOKER_H

#include "control.h"
#include "simulator.h"
#include "tail.h"

/* What clients find now; to be let go. */
struct sight {
    struct control control; /* page NULL: nothing is attached, or nothing published */
    uint64_t generation;
    uint64_t commit_seq;
    struct segmap map; /* of the tail; base NULL: there is none */
    struct tail tail;
    uint32_t count;
};

/* P4, T3: commit_seq, then the word, then the tail's count. */
struct sight look(void);
void look_away(struct sight *s);

/* Ask something at random of parts and tail, as clients do, and leave what memory could tell to the verdict. */
void onlooker_ask(void);
extern uint64_t onlooker_from_tail; /* answers that were in a tail */

/* The tail has what the ledger has, in order and up to commit_seq, or it is full. */
void onlooker_check(void);

#endif
