/*
 * Templates: how the metadata locations of one table look, so that a location is kept in 20 bytes.
 *
 *      s3://lake/sales/orders/metadata/ 00012 - 6f0e4c1d-...-9b21 .metadata.json
 *      prefix                           number  uuid              suffix
 *                                            separator
 *
 * Only the number and the uuid differ from commit to commit.  Each may be missing: `v12.metadata.json` has no uuid,
 * a constant location neither.  A template is found by looking at a location and is right by construction for no other
 * one: a location *fits* when rendering what was read from it gives the same bytes.  What doesn't fit (uppercase, odd
 * padding, another folder) is no error; it is kept as it is, elsewhere.
 */
#ifndef SKADE_TEMPLATE_H
#define SKADE_TEMPLATE_H

#include "event.h"
#include "format_part.h"

enum template_shape {
    TEMPLATE_NUMBER = 1,
    TEMPLATE_SEPARATOR = 2, /* between number and uuid */
    TEMPLATE_DASHED = 4,    /* a uuid, as 8-4-4-4-12 lowercase hexadecimal digits */
    TEMPLATE_PLAIN = 8,     /* a uuid, as 32 of them */
    TEMPLATE_USUAL = TEMPLATE_NUMBER | TEMPLATE_SEPARATOR | TEMPLATE_DASHED
};

/* Prefix and suffix are borrowed. */
struct template
{
    const char *prefix;
    const char *suffix;
    uint16_t prefix_len;
    uint16_t suffix_len;
    uint8_t shape; /* enum template_shape */
    uint8_t width; /* the number has at least so many digits */
    char separator;
};

/* What differs from location to location.  What the template lacks is zero. */
struct template_values {
    uint32_t number; /* decimal digits, four bits each; <= PART_NUMBER_MAX */
    struct uuid uuid;
};

/* The template that LOCATION suggests; borrows its bytes.  A number without leading zeros says nothing about padding:
 * then the width is 1, and template_join() with others' may widen it. */
struct template template_of(struct bytes location);

/* Are A and B the same but for the width?  Then *A gets the greater width, which fits what fitted either before. */
bool template_join(struct template *a, const struct template *b);

bool template_equal(const struct template *a, const struct template *b);

/* Does LOCATION follow T?  Then *RET is what renders to it. */
bool template_fit(const struct template *t, struct bytes location, struct template_values *ret);

/* Write the location with NUMBER and UUID to DST if CAP is enough for it; nothing behind it is written.  Returns its
 * length in any case: at most 2 * 65535 + 255 + 1 + 36. */
size_t template_render(const struct template *t, uint32_t number, const uint8_t uuid[16], char *dst,
                       size_t cap);

/* How many digits NUMBER has when it is padded to WIDTH. */
static inline unsigned template_digits(uint32_t number, unsigned width)
{
    unsigned digits = (35 - (unsigned)__builtin_clz(number | 1)) / 4;
    return digits > width ? digits : width;
}

/* Eight characters with the digits of NUMBER, the first in the lowest byte. */
static inline uint64_t template_eight_digits(uint32_t number)
{
    uint64_t x = (number | (uint64_t)number << 16) & 0x0000ffff0000ffffull;
    x = (x | x << 8) & 0x00ff00ff00ff00ffull;
    x = (x | x << 4) & 0x0f0f0f0f0f0f0f0full;
    return __builtin_bswap64(x | 0x3030303030303030ull);
}

static inline unsigned template_uuid_len(unsigned shape)
{
    return shape & TEMPLATE_DASHED ? 36 : shape & TEMPLATE_PLAIN ? 32 : 0;
}

/* The length of a location of T, which has SHAPE, and whose number has DIGITS digits. */
static inline size_t template_len(const struct template *t, unsigned shape, unsigned digits)
{
    return (size_t)t->prefix_len + digits + (shape & TEMPLATE_SEPARATOR ? 1 : 0) + template_uuid_len(shape) +
           t->suffix_len;
}

#endif
