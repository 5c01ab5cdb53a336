/*
 * The one checksum of skade: XXH3, 64 bits, from libxxhash's header.
 *
 * It guards against damage, not against forgery: who may write our files may also write their checksums.
 */
#ifndef SKADE_CHECKSUM_H
#define SKADE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Checksum of LEN bytes at DATA, chained to SEED (0 for a fresh one).  Any thread. */
uint64_t checksum(const void *data, size_t len, uint64_t seed);

#endif
