/*
 * Requests that were answered: so that one that comes again after a lost reply gets its first answer.
 *
 * Remembers the last 2^20 events' uuids with their sequence number and a checksum of the content.  Belongs to the loop.
 */
#ifndef SKADE_UUIDS_H
#define SKADE_UUIDS_H

#include "util.h"

#define UUIDS_REMEMBERED (1u << 20)

struct uuids;

struct uuids *uuids_new(uint64_t seed); /* NULL: no memory */
void uuids_free(struct uuids *u);

/* True and the first answer when UUID is remembered. */
bool uuids_find(const struct uuids *u, const struct uuid *uuid, uint64_t *seq, uint64_t *content);

/* Remember UUID (unknown so far, not zero) as event SEQ, newer than all before; forgets the oldest when full. */
void uuids_add(struct uuids *u, const struct uuid *uuid, uint64_t seq, uint64_t content);

/* Forget those newer than SEQ: their transaction failed. */
void uuids_forget_after(struct uuids *u, uint64_t seq);

#endif
