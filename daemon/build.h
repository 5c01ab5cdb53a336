/*
 * One new part: planned from events or from older parts, written, mapped.
 *
 * The work can be done on a worker, so a build holds what it needs: events of the tail or parts, borrowed from the loop
 * until it is back.
 */
#ifndef SKADE_BUILD_H
#define SKADE_BUILD_H

#include "generation.h"
#include "publisher.h"

#include <uv.h>

/* One new part.  Belongs to the worker from queue to after_work, but for what it borrows. */
struct build {
    uv_work_t work;
    void *owner; /* who queued it */
    struct part_info info;
    const struct event **events; /* a delta: events of the tail, borrowed */
    size_t events_count;
    struct part_map *parts[GENERATION_PARTS_MAX]; /* a merge: referenced by the loop until the job is back */
    size_t parts_count;
    struct publisher *publisher;
    /* results */
    int error;
    struct errmsg msg;
    bool damaged; /* a part that was merged is; MSG names it */
    struct part_map *made;
    uint64_t micros;
};

/* Plan, write into shared memory under info.generation, map.  Parts that are merged are checksummed whole: damage is
 * never copied into a part with a right checksum.  Results are in B.  Any thread. */
void build_run(struct build *b);

/* The same as a uv_work_cb, at low priority. */
void build_on_worker(uv_work_t *work);

/* The plan alone. 0 and gives *RET, or negative. */
int build_plan(const struct build *b, struct part_plan **ret);

/* Write PLAN into shared memory / into private memory (generation 0), and map it. */
int build_shared(struct part_plan *plan, struct publisher *publisher, const struct part_info *info,
                 struct part_map **ret, struct errmsg *msg);
int build_private(struct part_plan *plan, struct part_map **ret, struct errmsg *msg);

/* The same of a part of SIZE bytes that FILL writes: publisher_write() and map; into private memory unverified. */
int part_into_shared(struct publisher *publisher, uint64_t generation, size_t size, publisher_fill_fn fill,
                     void *arg, struct part_map **ret, struct errmsg *msg);
int part_into_private(size_t size, publisher_fill_fn fill, void *arg, struct part_map **ret,
                      struct errmsg *msg);

/* Let go of what it borrowed; what it made is the caller's. NULL is fine. */
void build_free(struct build *b);

#endif
