/*
 * A part from hostile bytes: the checksums are mended, so that the fuzzer gets behind them, then every question is asked.
 */
#include "checksum.h"
#include "part.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mend(uint8_t *buf, size_t size)
{
    struct seg_header h;

    if (size < sizeof(struct part_header))
        return;
    memcpy(&h, buf, sizeof h);
    h.size = size;
    h.header_len = sizeof(struct part_header);
    memcpy(buf, &h, sizeof h);
    size_t after = offsetof(struct seg_header, header_check) + sizeof h.header_check;
    h.content_check = checksum(buf + h.header_len, size - h.header_len, 0);
    memcpy(buf, &h, sizeof h);
    h.header_check = checksum(buf + after, h.header_len - after,
                              checksum(buf, offsetof(struct seg_header, header_check), 0));
    memcpy(buf, &h, sizeof h);
}

static void ask(struct part *p)
{
    char where[LOCATION_MAX];
    struct part_hit hit;
    struct part_query q[16];
    uint32_t list[ARRAY_SIZE(q)], odd[ARRAY_SIZE(q)];

    for (uint32_t table = 0; table < 8; table++) {
        for (int64_t id = -4; id < 4; id++)
            if (part_find(p, table, id, &hit) == 1)
                part_location(p, hit.ref, where, sizeof where, NULL);
        part_find_by_tree(p, table, 1, &hit);
        if (part_head(p, table, SEQ_MAX, &hit) == 1)
            part_location(p, hit.ref, where, sizeof where, NULL);
        part_as_of(p, table, 0, SEQ_MAX, &hit);
        part_earliest(p, table, SEQ_MAX, &hit);
        uint64_t before = SEQ_MAX;
        for (int i = 0; i < 20 && part_before(p, table, before, &hit) == 1 && hit.seq < before; i++)
            before = hit.seq;
        part_after(p, table, 0, &hit);
    }
    for (int by_tree = 0; by_tree < 2; by_tree++) {
        struct part_many m = { .first = q, .stride = sizeof q[0], .odd = odd };
        for (uint32_t i = 0; i < ARRAY_SIZE(q); i++) {
            q[i] = (struct part_query){
                .table = i % 5, .id = (int64_t)i, .location = where, .location_cap = sizeof where
            };
            list[i] = i;
        }
        if (by_tree)
            part_resolve_many_by_tree(p, &m, list, ARRAY_SIZE(q));
        else
            part_resolve_many(p, &m, list, ARRAY_SIZE(q));
    }
    part_resolve(p, NULL, 1, 1, &q[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct part *p;

    if (size == 0)
        return 0;
    uint8_t *buf = aligned_alloc(64, align_up(size, 64));
    memcpy(buf, data, size);
    if (data[0] & 1)
        mend(buf, size);
    memcpy(buf, FORMAT_MAGIC_PART, 8);
    if (part_open(&p, buf, size, 0, NULL) == 0) {
        ask(p);
        part_close(p);
    }
    free(buf);
    return 0;
}
