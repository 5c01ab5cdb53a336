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

#include "part_kernel.h"

const struct part_kernel part_kernel_avx512 = PART_KERNEL(PART_AVX512);
