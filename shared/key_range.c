#include "key_range.h"

static void set_bound(struct key_bound *b, const char *key, size_t len)
{
    if (len)
        memcpy(b->bytes, key, len);
    if (len < b->len)
        memset(b->bytes + len, 0, b->len - len);
    b->len = (uint8_t)len;
}

/* Ascending keys are the common case: one comparison for each. */
void key_range_add(struct key_range *range, struct bytes key, bool first)
{
    struct key_bound *low = &range->low, *high = &range->high;
    size_t len = key.len < KEY_BOUND_MAX ? key.len : KEY_BOUND_MAX;

    if (first || key_bytes_compare(key.data, len, high->bytes, high->len) > 0)
        set_bound(high, key.data, len);
    else if (key_bytes_compare(key.data, len, low->bytes, low->len) < 0)
        set_bound(low, key.data, len);
    if (first)
        set_bound(low, key.data, len);
}

static bool bound_valid(const struct key_bound *b)
{
    uint8_t rest = 0;

    if (b->len > KEY_BOUND_MAX)
        return false;
    for (size_t i = b->len; i < KEY_BOUND_MAX; i++)
        rest |= b->bytes[i];
    return rest == 0;
}

bool key_range_valid(const struct key_bound *low, const struct key_bound *high, uint64_t keyed)
{
    if (!bound_valid(low) || !bound_valid(high))
        return false;
    return keyed ? key_bound_compare(low, high) <= 0 : low->len == 0 && high->len == 0;
}
