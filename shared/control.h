/*
 * The control page as a reader sees it: a checked copy of what never changes, and the words that do.
 *
 * Publication rules (docs/FORMAT.md):
 *   P1  A root or part is complete, verified and linked before its generation is stored; nothing is written
 *       to it after.
 *   P2  generation: store-release by the daemon, load-acquire by readers.  It decides alone which files are
 *       current.
 *   P3  commit_seq: stored (release) after COMMIT, after the tail has the rows, and, for an event that takes
 *       an answer away, after P2 of a generation that contains it; before the reply.
 *   P4  A reader loads commit_seq, then generation, both with acquire, then searches.
 *   P5  CONTROL_RETIRED is stored in a page that is replaced, before its successor's daemon accepts a commit.
 *   P6  heartbeat: relaxed; readers compare it with what they saw before, by their own clock.
 *   P7  state and counters: relaxed; they are for people, and nothing is concluded from them.
 */
#ifndef SKADE_CONTROL_H
#define SKADE_CONTROL_H

#include "format.h"
#include "segmap.h"

struct control {
    struct segmap map;
    const struct control_page *page; /* mapped: only the atomics may be read */
    uint64_t epoch;                  /* the rest: copies that were checked */
    struct uuid log;
    uint64_t seed;
    uint64_t created_us;
    uint64_t pid;
    uint32_t counters; /* <= CONTROL_COUNTERS */
};

/* Attach PLACE's control page.  Errors as segmap_open(), and SKADE_EVERSION, SKADE_EDAMAGED; *RET is
 * untouched then. */
int control_open(struct control *ret, const struct shm_place *place, struct errmsg *msg);
void control_close(struct control *c); /* harmless when nothing is attached */

/* Check a page's immutable block by copying it once, for the daemon's take-over too: fills in all of *RET
 * but the map.  0; SKADE_EVERSION, SKADE_EDAMAGED. */
int control_check(const struct control_page *page, struct control *ret);

static inline uint64_t control_generation(const struct control_page *page)
{
    return atomic_load_explicit(&page->generation, memory_order_acquire); /* P2 */
}

static inline uint64_t control_commit_seq(const struct control_page *page)
{
    return atomic_load_explicit(&page->commit_seq, memory_order_acquire); /* P3, P4 */
}

static inline uint64_t control_heartbeat(const struct control_page *page)
{
    return atomic_load_explicit(&page->heartbeat, memory_order_relaxed); /* P6 */
}

#endif
