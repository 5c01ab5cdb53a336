/*
 * The part kernel with AVX2.  Only run when part_isa_has(PART_AVX2).
 */
#include "part_view.h"

#include <immintrin.h>

static inline unsigned node_rank(const struct stree64_node *node, int64_t q)
{
    const __m256i wanted = _mm256_set1_epi64x(q);
    __m256i low = _mm256_cmpgt_epi64(wanted, _mm256_loadu_si256((const void *)&node->key[0]));
    __m256i high = _mm256_cmpgt_epi64(wanted, _mm256_loadu_si256((const void *)&node->key[4]));
    unsigned mask = (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(low)) |
                    (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(high)) << 4;
    return (unsigned)__builtin_popcount(mask);
}

/* Reads two words more than there are keys; they are of the same block, and their bits aren't slots. */
static inline unsigned equal_keys(const struct part_block *block, int64_t key)
{
    const __m256i wanted = _mm256_set1_epi64x(key);
    const __m256i *keys = (const void *)block;
    __m256i low = _mm256_cmpeq_epi64(wanted, _mm256_loadu_si256(keys));
    __m256i high = _mm256_cmpeq_epi64(wanted, _mm256_loadu_si256(keys + 1));
    return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(low)) |
           (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(high)) << 4;
}

/* Copies the first and the last 2^k bytes, which overlap: no loop up to 64 bytes, and nothing outside is touched. */
static inline char *copy_text(char *dst, const char *src, size_t len)
{
    size_t done = 0;
    for (; len - done > 64; done += 32)
        _mm256_storeu_si256((void *)(dst + done), _mm256_loadu_si256((const void *)(src + done)));
    char *to = dst + done;
    const char *from = src + done;
    size_t rest = len - done;
    if (rest >= 32) {
        __m256i last = _mm256_loadu_si256((const void *)(from + rest - 32));
        _mm256_storeu_si256((void *)to, _mm256_loadu_si256((const void *)from));
        _mm256_storeu_si256((void *)(to + rest - 32), last);
    } else if (rest >= 16) {
        __m128i last = _mm_loadu_si128((const void *)(from + rest - 16));
        _mm_storeu_si128((void *)to, _mm_loadu_si128((const void *)from));
        _mm_storeu_si128((void *)(to + rest - 16), last);
    } else if (rest >= 8) {
        uint64_t last = load_u64(from + rest - 8);
        memcpy(to, from, 8);
        memcpy(to + rest - 8, &last, 8);
    } else {
        for (size_t i = 0; i < rest; i++)
            to[i] = from[i];
    }
    return dst + len;
}

static inline void copy_32(char *dst, const char *src)
{
    _mm256_storeu_si256((void *)dst, _mm256_loadu_si256((const void *)src));
}

static inline void copy_64(char *dst, const char *src)
{
    copy_32(dst, src);
    copy_32(dst + 32, src + 32);
}

#include "part_x86.h"

static inline uint64_t eight_digits(uint32_t number)
{
    return template_eight_digits(number);
}

static inline void put_dashed(char *dst, const uint8_t uuid[16])
{
    put_uuid(dst, uuid, true);
}

#include "part_kernel.h"

const struct part_kernel part_kernel_avx2 = PART_KERNEL(PART_AVX2);
