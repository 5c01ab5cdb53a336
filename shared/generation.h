/*
 * A generation: a root and its parts, and what they answer together.  The client library and the daemon ask
 * the same code.
 *
 * Parts are probed oldest first, since the first location of a snapshot wins.  An answer is what this
 * generation knows: whether that is enough is for the caller to decide, from covered and the control page.
 */
#ifndef SKADE_GENERATION_H
#define SKADE_GENERATION_H

#include "part.h"
#include "root.h"
#include "segmap.h"

#define GENERATION_PARTS_MAX 64

/* A part and the map that it lives in, counted: generations share parts. */
struct part_map {
    unsigned refs; /* not atomic: belongs to one handle, or to the daemon's loop */
    uint64_t generation;
    uint64_t size;
    uint64_t header_check;
    struct segmap map;
    struct part *part;
};
struct part_map *part_map_ref(struct part_map *p);
void part_map_unref(struct part_map *p); /* unmaps with the last; NULL is fine */

struct generation {
    unsigned refs; /* as above */
    uint64_t number;
    uint64_t epoch;
    uint64_t covered;       /* commits up to here are in the parts */
    uint64_t names_seq;     /* names, drops, watermarks are right up to here */
    struct lifetimes lives; /* of the newest moment; generation_lives() for others */
    struct segmap root_map;
    struct root *root;
    size_t parts_count;
    struct part_map *parts[GENERATION_PARTS_MAX];
    struct tail_map *tail; /* what is newer than the parts, once a reader has mapped it (tailmap.h); owned */
    bool tail_tried;       /* mapping it was tried */
};
struct generation *generation_ref(struct generation *g);
void generation_unref(struct generation *g);

/*
 * Attach generation NUMBER of EPOCH: map and check the root, map and check its parts, taking over those that
 * OLD (may be NULL) already maps.  LOG must be the log's uuid in every header.  VERIFY_MAX: files up to this
 * size are checksummed whole.  0 and gives *RET; -ENOENT when a name is gone; SKADE_EDAMAGED, SKADE_EFOREIGN,
 * SKADE_EVERSION ...
 */
int generation_open(struct generation **ret, const struct shm_place *place, uint64_t epoch, uint64_t number,
                    const struct uuid *log, const struct generation *old, uint64_t verify_max,
                    struct errmsg *msg);

/* Where a commit is. */
struct found {
    int status; /* 1; SKADE_ENOTABLE, _ENOSNAPSHOT, _EEXPIRED; -EAGAIN: this generation can't tell */
    uint32_t part;
    uint64_t retired_by; /* SKADE_EEXPIRED */
    struct part_hit hit; /* also with SKADE_EEXPIRED */
};

/* Questions as of event AT (SEQ_MAX: all this generation knows), by the rules for tables: a table that
 * wasn't there or was dropped is SKADE_ENOTABLE, a commit under the watermark SKADE_EEXPIRED when the
 * retirement is visible at AT, and -EAGAIN when it is younger than AT (an older watermark isn't known
 * here).  They return RET->status, or a negative error for damage. */
int generation_find(const struct generation *g, uint32_t table, int64_t id, uint64_t at, struct found *ret);

/* The rules for tables at AT. */
static inline struct lifetimes generation_lives(const struct generation *g, uint64_t at)
{
    struct lifetimes lives = g->lives;
    lives.at = at;
    lives.plain_count = at >= g->names_seq ? lives.count : 0;
    lives.all_plain = at >= g->names_seq && lives.all_plain;
    return lives;
}

/* generation_find(), and the whole answer to Q when the result is 1, -ERANGE or SKADE_EEXPIRED: see struct part_query.  With
 * another result Q is left alone, but for what stands at its location. */
int generation_resolve(const struct generation *g, uint32_t table, int64_t id, uint64_t at,
                       struct part_query *q);

#define GENERATION_MANY 256

/*
 * generation_resolve() for many, as a pipeline: query I is at FIRST + I * STRIDE bytes; those whose numbers are in LIST
 * are asked, at most GENERATION_MANY.  Statuses are set.  Those that aren't 1, -ERANGE or SKADE_EEXPIRED have no answer:
 * their numbers are left in LIST, in any order, and their count is returned.
 */
size_t generation_resolve_many(const struct generation *g, void *first, size_t stride, uint32_t *list,
                               size_t n, uint64_t at);

int generation_head(const struct generation *g, uint32_t table, uint64_t at, struct found *ret);
int generation_as_of(const struct generation *g, uint32_t table, int64_t time_us, uint64_t at,
                     struct found *ret);
int generation_earliest(const struct generation *g, uint32_t table, uint64_t at, struct found *ret);

/* The same search without the rules for tables (the daemon knows better ones): 1 or 0. */
int generation_search(const struct generation *g, uint32_t table, int64_t id, uint64_t at, struct found *ret);
int generation_search_head(const struct generation *g, uint32_t table, uint64_t at, struct found *ret);
int generation_search_as_of(const struct generation *g, uint32_t table, int64_t time_us, uint64_t at,
                            struct found *ret);
int generation_search_earliest(const struct generation *g, uint32_t table, uint64_t at, struct found *ret);
/* The newest commit of TABLE with seq < BEFORE / the oldest with seq > AFTER. */
int generation_before(const struct generation *g, uint32_t table, uint64_t before, struct found *ret);
int generation_after(const struct generation *g, uint32_t table, uint64_t after, struct found *ret);

/* The location of a found commit to BUF, no NUL.  Its length, -ERANGE (*NEED), negative damage. */
int generation_location(const struct generation *g, const struct found *f, char *buf, size_t cap,
                        size_t *need);

#endif
