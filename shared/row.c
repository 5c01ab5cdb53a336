#include "row.h"
#include "checksum.h"
#include "format_entry.h"
#include "row_sum.h"

_Static_assert(ROW_KEYED == (int)ENTRY_KEYED && ROW_DELETE == (int)ENTRY_DELETE,
               "flags go through as they are");

uint64_t entry_hash(struct bytes key)
{
    return key.len <= ROW_SUM_SHORT ? row_sum(key.data, key.len, 0) : checksum(key.data, key.len, 0);
}

uint64_t entry_seed(const struct uuid *uuid, uint64_t place)
{
    return row_seed(row_uuid_seed(uuid), place);
}

uint64_t checksum_pieces(const void *data, size_t len, uint64_t seed)
{
    const char *at = data;
    for (; len > ENTRY_PIECE; at += ENTRY_PIECE, len -= ENTRY_PIECE)
        seed = checksum(at, ENTRY_PIECE, seed);
    return len ? checksum(at, len, seed) : seed;
}
