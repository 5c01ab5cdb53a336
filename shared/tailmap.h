/*
 * A mapped tail, and what a generation and its tail answer together.
 *
 * Parts are asked first, since the first location of a snapshot wins; what is newer is in the tail.  The rules for tables
 * are the root's, and tables that the root doesn't know were created in the tail.
 */
#ifndef SKADE_TAILMAP_H
#define SKADE_TAILMAP_H

#include "generation.h"
#include "tail.h"

struct tail_map {
    struct segmap map;
    struct tail tail;
};

/* Map the tail of G, of the log LOG.  0 and gives *RET; -ENOENT: it has none, or its name is gone; SKADE_EDAMAGED,
 * SKADE_EFOREIGN, SKADE_EVERSION ... */
int tail_map_open(struct tail_map **ret, const struct shm_place *place, const struct generation *g,
                  const struct uuid *log, struct errmsg *msg);
void tail_map_close(struct tail_map *m); /* NULL is fine */

/* A generation and so much of its tail as there was, up to a moment. */
struct fresh {
    const struct generation *g;
    const struct tail *t;
    uint32_t n;       /* slots up to the moment */
    uint64_t at;      /* the moment; SEQ_MAX: all there is */
    uint64_t covered; /* every event up to here is in parts or tail, or in neither because it isn't there */
};

/* T3: after G's word was loaded.  G has a tail.  0 or SKADE_EDAMAGED. */
int fresh_begin(struct fresh *ret, const struct generation *g, uint64_t at);

struct fresh_found {
    int status; /* as in struct found */
    bool in_tail;
    uint64_t retired_by;
    struct tail_hit hit; /* IN_TAIL: with status 1 and SKADE_EEXPIRED */
    struct found part;   /* otherwise */
};

/* As generation_find() and its sisters.  Of fresh_resolve() the parts were asked before, and don't have the snapshot. */
int fresh_resolve(const struct fresh *f, uint32_t table, int64_t id, struct fresh_found *ret);
int fresh_head(const struct fresh *f, uint32_t table, struct fresh_found *ret);
int fresh_as_of(const struct fresh *f, uint32_t table, int64_t time_us, struct fresh_found *ret);
int fresh_earliest(const struct fresh *f, uint32_t table, struct fresh_found *ret);

/* The table that bears NAME and is too new for the root.  1, 0, SKADE_EDAMAGED. */
int fresh_find_name(const struct fresh *f, struct bytes name, uint32_t *ret);

#endif
