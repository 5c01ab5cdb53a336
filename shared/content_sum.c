#include "content_sum.h"

#include "checksum.h"
#include "format_entry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

struct content_sum {
    XXH3_state_t *piece;
    size_t filled;  /* of the piece */
    uint64_t value; /* up to the piece */
    uint64_t value_len;
    unsigned flags;
    size_t key_len;
    char key[ENTRY_KEY_MAX];
};

uint64_t content_sum_chain(uint64_t sum, uint64_t value_len, size_t key_len, unsigned flags)
{
    struct {
        uint64_t value_len;
        uint32_t key_len, flags;
    } says = { value_len, (uint32_t)key_len, flags };
    return checksum(&says, sizeof says, sum);
}

int64_t content_snapshot(const struct uuid *uuid, uint64_t content)
{
    return (int64_t)(checksum(uuid->b, sizeof uuid->b, content) & INT64_MAX);
}

struct content_sum *content_sum_make(void)
{
    struct content_sum *sum = calloc(1, sizeof *sum);

    if (sum)
        sum->piece = XXH3_createState();
    if (!sum || !sum->piece) {
        free(sum);
        return NULL;
    }
    return sum;
}

void content_sum_free(struct content_sum *sum)
{
    if (!sum)
        return;
    XXH3_freeState(sum->piece);
    free(sum);
}

static void end_piece(struct content_sum *sum)
{
    if (sum->filled)
        sum->value = XXH3_64bits_digest(sum->piece);
    sum->filled = 0;
}

static void add(struct content_sum *sum, const void *data, size_t len)
{
    for (const char *at = data; len > 0;) {
        size_t n = ENTRY_PIECE - sum->filled < len ? ENTRY_PIECE - sum->filled : len;
        if (sum->filled == 0)
            XXH3_64bits_reset_withSeed(sum->piece, sum->value);
        XXH3_64bits_update(sum->piece, at, n);
        sum->filled += n;
        at += n;
        len -= n;
        if (sum->filled == ENTRY_PIECE)
            end_piece(sum);
    }
}

void content_sum_row(struct content_sum *sum, unsigned flags, struct bytes key)
{
    assert(key.len <= sizeof sum->key);
    sum->flags = flags;
    sum->value_len = 0;
    sum->key_len = flags & ENTRY_KEYED ? key.len : 0;
    if (sum->key_len)
        memcpy(sum->key, key.data, sum->key_len);
}

void content_sum_piece(struct content_sum *sum, const void *data, size_t len)
{
    add(sum, data, len);
    sum->value_len += len;
}

void content_sum_row_end(struct content_sum *sum)
{
    add(sum, sum->key, sum->key_len);
    end_piece(sum);
    sum->value = content_sum_chain(sum->value, sum->value_len, sum->key_len, sum->flags);
}

uint64_t content_sum_value(const struct content_sum *sum)
{
    return sum->value;
}
