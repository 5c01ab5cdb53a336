/*
 * Requests that were answered: so that one that comes again after a lost reply gets its first answer.
 *
 * Remembers the last 2^20 events' uuids with their sequence number and a checksum of the content.  Only what is durable
 * is remembered here: each one that comes lets go of an older one for good.  What a group has in mind is kept in a set of
 * its own, which grows instead, until its fate is known.  Belongs to the loop.
 */
#ifndef SKADE_UUIDS_H
#define SKADE_UUIDS_H

#include "format_index.h"

#define UUIDS_REMEMBERED (1u << 20)

struct uuids;

struct uuids *uuids_new(uint64_t seed); /* NULL: no memory */
/* One that forgets none by itself, with room for COUNT at first.  NULL: no memory. */
struct uuids *uuids_new_growing(uint64_t seed, size_t count);
void uuids_free(struct uuids *u);

/* True and the first answer when UUID is remembered. */
bool uuids_find(const struct uuids *u, const struct uuid *uuid, uint64_t *seq, uint64_t *content);

/* Remember UUID (unknown so far, not zero) as event SEQ, newer than all before; forgets the oldest when full.  0, or
 * -ENOMEM from one that grows. */
int uuids_add(struct uuids *u, const struct uuid *uuid, uint64_t seq, uint64_t content);

/* Forget those newer than SEQ: they were refused. */
void uuids_forget_after(struct uuids *u, uint64_t seq);

/* Copy at most MAX of those that are not newer than SEQ to RET, oldest first, and move *PLACE (0 at first) behind them;
 * what was forgotten between two calls is stepped over.  How many; 0: that was all. */
size_t uuids_copy(const struct uuids *u, uint64_t seq, uint64_t *place, struct index_uuid *ret, size_t max);

/* How many are remembered. */
size_t uuids_count(const struct uuids *u);

#endif
