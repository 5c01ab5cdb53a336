/*
 * What the reader and the writer of a tail must agree on beyond its layout: homes and checksums.
 */
#ifndef SKADE_TAIL_LAYOUT_H
#define SKADE_TAIL_LAYOUT_H

#include "checksum.h"
#include "format_tail.h"
#include "mix.h"

#define TAIL_HEADER_LEN 256u /* what never changes */
#define TAIL_TABLE_FIXED 12u /* the same of a struct tail_table */

_Static_assert(offsetof(struct tail_header, count) == TAIL_HEADER_LEN, "count is behind the header");
_Static_assert(offsetof(struct tail_table, newest) == TAIL_TABLE_FIXED, "words are behind what is fixed");

/* LINK as a word of keys, homes or newest.  A flipped bit of the link changes the product by more than its low 26 bits can
 * hold, since no six bits of the factor in a row are the same; so it changes the check, also to and from 0. */
static inline uint32_t tail_word(uint32_t link)
{
    return link | (link * TAIL_LINK_MIX >> TAIL_LINK_BITS) << TAIL_LINK_BITS;
}

static inline uint32_t tail_word_link(uint32_t word)
{
    return word & ((1u << TAIL_LINK_BITS) - 1);
}

static inline uint64_t tail_slot_check(const struct tail_slot *slot, uint64_t seed, uint32_t line)
{
    return checksum(slot, offsetof(struct tail_slot, check), seed + line);
}

/* Lines that a slot takes with its text of BYTES. */
static inline uint32_t tail_lines_of(size_t bytes)
{
    return 1 + (uint32_t)((bytes + TAIL_LINE - 1) / TAIL_LINE);
}

static inline uint32_t tail_text_check(const char *text, size_t len)
{
    return (uint32_t)checksum(text, len, 0);
}

static inline uint32_t tail_table_check(const struct tail_table *entry, uint64_t seed, uint32_t index)
{
    return (uint32_t)checksum(entry, offsetof(struct tail_table, check), seed + index);
}

static inline uint64_t tail_table_home(uint32_t table, uint32_t homes)
{
    return key_home((int64_t)mix64(table), homes);
}

static inline uint64_t tail_name_hash(struct bytes name, uint64_t seed)
{
    return checksum(name.data, name.len, seed);
}

#endif
