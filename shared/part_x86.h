/*
 * Rendering a location with 128-bit instructions: what the AVX2 and the AVX-512 kernel share.
 *
 * They differ in copy_text(dst, src, len), copy_32() and copy_64(), which each defines before it includes this file,
 * and in eight_digits() and put_dashed(), which it defines after.  Nothing behind the
 * location is written: buffers may lie side by side.
 */
#ifndef SKADE_PART_X86_H
#define SKADE_PART_X86_H

#include "part_view.h"

#include <immintrin.h>

/* Write the number; ROOM bytes from DST on may be overwritten, as what belongs there is written later. */
static inline char *put_number(char *dst, uint32_t number, unsigned digits, size_t room)
{
    uint64_t eight = template_eight_digits(number);
    if (digits <= 8 && room >= 8) {
        eight >>= 64 - 8 * digits;
        memcpy(dst, &eight, sizeof eight);
        return dst + digits;
    }
    for (unsigned i = 0; i < digits; i++)
        dst[i] = digits - i > 8 ? '0' : (char)(eight >> (64 - 8 * (digits - i)));
    return dst + digits;
}

/* Each byte of V, whose low half is the digit, as a hexadecimal digit. */
static inline __m128i hex_digits(__m128i v)
{
    const __m128i digits =
        _mm_setr_epi8('0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f');
    return _mm_shuffle_epi8(digits, v);
}

static inline char *put_uuid(char *dst, const uint8_t uuid[16], bool dashed)
{
    const __m128i half = _mm_set1_epi8(15);
    __m128i bytes = _mm_loadu_si128((const void *)uuid);
    __m128i high = _mm_and_si128(_mm_srli_epi16(bytes, 4), half);
    __m128i low = _mm_and_si128(bytes, half);
    __m128i first = hex_digits(_mm_unpacklo_epi8(high, low));
    __m128i second = hex_digits(_mm_unpackhi_epi8(high, low));
    if (!dashed) {
        _mm_storeu_si128((void *)dst, first);
        _mm_storeu_si128((void *)(dst + 16), second);
        return dst + 32;
    }
    /* Digits 0-13 with dashes at 8 and 13; digits 14-27 with dashes at 18 and 23; the last four. -1 gives a zero. */
    const __m128i place0 = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -1, 8, 9, 10, 11, -1, 12, 13);
    const __m128i dash0 = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, '-', 0, 0, 0, 0, '-', 0, 0);
    const __m128i place1 = _mm_setr_epi8(0, 1, -1, 2, 3, 4, 5, -1, 6, 7, 8, 9, 10, 11, 12, 13);
    const __m128i dash1 = _mm_setr_epi8(0, 0, '-', 0, 0, 0, 0, '-', 0, 0, 0, 0, 0, 0, 0, 0);
    __m128i middle = _mm_alignr_epi8(second, first, 14);
    uint32_t last = (uint32_t)_mm_extract_epi32(second, 3);
    _mm_storeu_si128((void *)dst, _mm_or_si128(_mm_shuffle_epi8(first, place0), dash0));
    _mm_storeu_si128((void *)(dst + 16), _mm_or_si128(_mm_shuffle_epi8(middle, place1), dash1));
    memcpy(dst + 32, &last, sizeof last);
    return dst + 36;
}

static inline __attribute__((always_inline)) size_t render_shape(const struct template *t, unsigned shape,
                                                                 uint32_t number, const uint8_t uuid[16],
                                                                 char *dst, size_t cap)
{
    unsigned digits = shape & TEMPLATE_NUMBER ? template_digits(number, t->width) : 0;
    size_t len = template_len(t, shape, digits);
    if (len > cap)
        return len;
    char *end = copy_text(dst, t->prefix, t->prefix_len);
    if (digits)
        end = put_number(end, number, digits, (size_t)(dst + len - end));
    if (shape & TEMPLATE_SEPARATOR)
        *end++ = t->separator;
    if (template_uuid_len(shape))
        end = put_uuid(end, uuid, shape & TEMPLATE_DASHED);
    copy_text(end, t->suffix, t->suffix_len);
    return len;
}

/* The usual shape is compiled for itself. */
static inline __attribute__((always_inline)) size_t render(const struct template *t, uint32_t number,
                                                           const uint8_t uuid[16], char *dst, size_t cap)
{
    if (__builtin_expect(t->shape == TEMPLATE_USUAL, 1))
        return render_shape(t, TEMPLATE_USUAL, number, uuid, dst, cap);
    return render_shape(t, t->shape, number, uuid, dst, cap);
}

/* As template_eight_digits(); as put_uuid() with dashes. */
static inline uint64_t eight_digits(uint32_t number);
static inline void put_dashed(char *dst, const uint8_t uuid[16]);

/* Can the location of T, of LEN bytes and a NUL, be put together from overlapping pieces? */
static inline bool is_usual(const struct part_table *t, size_t len, unsigned suffix_len)
{
    return t->shape == TEMPLATE_USUAL && suffix_len <= 16 && len >= 63;
}

/*
 * The usual location: number, separator, dashed uuid, with prefix and suffix in the table itself.  Writes it to DST if that
 * has more than LEN bytes, and returns LEN; 0 when it isn't one of these, or T isn't TABLE.
 *
 * Pieces are copied at their greatest length, and what they wrote too much is overwritten by the next: 64 bytes of prefix
 * in front, 16 that end with the suffix, then number and uuid between them.
 */
static inline __attribute__((always_inline)) size_t put_usual(const struct part_table *t, uint32_t table,
                                                              uint32_t number, const uint8_t uuid[16],
                                                              char *dst, size_t cap)
{
    unsigned prefix_len = t->prefix_len;
    unsigned suffix_len = t->suffix_len;
    unsigned digits = template_digits(number, t->width);
    size_t len = (size_t)prefix_len + digits + 1 + 36 + suffix_len;
    if (__builtin_expect(t->number != table || !part_text_fits((uint16_t)prefix_len, (uint16_t)suffix_len) ||
                             !is_usual(t, len, suffix_len) || digits > 8 || len >= cap,
                         0))
        return 0;
    copy_64(dst, t->text);
    if (prefix_len > 64)
        copy_32(dst + PART_TEXT - 32, t->text + PART_TEXT - 32);
    __m128i last = _mm_loadu_si128((const void *)(t->text + prefix_len + suffix_len - 16));
    _mm_storeu_si128((void *)(dst + len - 16), last);
    uint64_t eight = eight_digits(number) >> (64 - 8 * digits);
    char *end = dst + prefix_len;
    memcpy(end, &eight, sizeof eight);
    end[digits] = (char)t->separator;
    put_dashed(end + digits + 1, uuid);
    return len;
}

#endif
