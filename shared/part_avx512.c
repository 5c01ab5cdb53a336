/*
 * The part kernel with AVX-512.  Only run when part_isa_has(PART_AVX512).
 */
#include "part_view.h"

#include <immintrin.h>

static inline unsigned node_rank(const struct stree64_node *node, int64_t q)
{
    __m512i keys = _mm512_loadu_si512((const void *)node);
    return (unsigned)__builtin_popcount(_mm512_cmplt_epi64_mask(keys, _mm512_set1_epi64(q)));
}

/* Reads two words more than there are keys; they are of the same block, and their bits aren't slots. */
static inline unsigned equal_keys(const struct part_block *block, int64_t key)
{
    __m512i keys = _mm512_loadu_si512((const void *)block);
    return _mm512_cmpeq_epi64_mask(keys, _mm512_set1_epi64(key));
}

/* Masked: neither reads nor writes outside. */
static inline char *copy_text(char *dst, const char *src, size_t len)
{
    size_t done = 0;
    for (; len - done > 64; done += 64)
        _mm512_storeu_si512((void *)(dst + done), _mm512_loadu_si512((const void *)(src + done)));
    __mmask64 rest = _bzhi_u64(UINT64_MAX, (unsigned)(len - done));
    _mm512_mask_storeu_epi8(dst + done, rest, _mm512_maskz_loadu_epi8(rest, src + done));
    return dst + len;
}

static inline void copy_32(char *dst, const char *src)
{
    _mm256_storeu_si256((void *)dst, _mm256_loadu_si256((const void *)src));
}

static inline void copy_64(char *dst, const char *src)
{
    _mm512_storeu_si512((void *)dst, _mm512_loadu_si512((const void *)src));
}

#include "part_x86.h"

/* Processors that have AVX-512 deposit bits fast. */
static inline uint64_t eight_digits(uint32_t number)
{
    return __builtin_bswap64(_pdep_u64(number, 0x0f0f0f0f0f0f0f0full) | 0x3030303030303030ull);
}

/*
 * The 36 characters at once.  Character C is half a byte of the uuid, or a dash: PLACE says which byte, HIGH which half.
 *
 *      0011 2233 - 4455 - 6677 - 8899 - aabb | ccdd eeff         | a lane of the vector ends every 16 characters
 */
static inline void put_dashed(char *dst, const uint8_t uuid[16])
{
    static const uint8_t place[64]
        __attribute__((aligned(64))) = { 0,  0,  1,  1, 2, 2, 3, 3, 0,  4,  4,  5,  5,  0,  6,  6,  /* */
                                         7,  7,  0,  8, 8, 9, 9, 0, 10, 10, 11, 11, 12, 12, 13, 13, /* */
                                         14, 14, 15, 15 };
    const __mmask64 dash = 1ull << 8 | 1ull << 13 | 1ull << 18 | 1ull << 23;
    const __mmask64 high = 0x555294a55ull;
    __m512i bytes = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)uuid));
    __m512i spread = _mm512_shuffle_epi8(bytes, _mm512_load_si512(place));
    __m512i half = _mm512_mask_blend_epi8(high, spread, _mm512_srli_epi16(spread, 4));
    const __m512i digits = _mm512_broadcast_i32x4(
        _mm_setr_epi8('0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'));
    half = _mm512_and_si512(half, _mm512_set1_epi8(15));
    __m512i text = _mm512_mask_mov_epi8(_mm512_shuffle_epi8(digits, half), dash, _mm512_set1_epi8('-'));
    uint32_t last = (uint32_t)_mm_cvtsi128_si32(_mm512_extracti32x4_epi32(text, 2));
    _mm256_storeu_si256((void *)dst, _mm512_castsi512_si256(text));
    memcpy(dst + 32, &last, sizeof last);
}

#include "part_kernel.h"

const struct part_kernel part_kernel_avx512 = PART_KERNEL(PART_AVX512);
