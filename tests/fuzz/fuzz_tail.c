/*
 * A tail from hostile bytes, with mended checksums.
 */
#include "tail.h"
#include "tail_layout.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mend_header(uint8_t *buf, size_t size)
{
    struct seg_header h;
    size_t after = offsetof(struct seg_header, header_check) + sizeof h.header_check;

    memcpy(&h, buf, sizeof h);
    memcpy(h.magic, FORMAT_MAGIC_TAIL, sizeof h.magic);
    h.major = FORMAT_MAJOR;
    h.size = size;
    h.header_len = TAIL_HEADER_LEN;
    memcpy(buf, &h, sizeof h);
    h.header_check = checksum(buf + after, TAIL_HEADER_LEN - after,
                              checksum(buf, offsetof(struct seg_header, header_check), 0));
    memcpy(buf, &h, sizeof h);
}

/* Make checksums of slots and tables right, where they are inside. */
static void mend_content(uint8_t *buf, size_t size)
{
    struct tail_header h;

    memcpy(&h, buf, sizeof h);
    for (uint64_t i = 0; i < h.lines.count && array_inside(h.lines.off, i + 1, TAIL_LINE, size); i++) {
        struct tail_slot slot; /* any line may be taken for one */
        uint8_t *at = buf + h.lines.off + i * TAIL_LINE;
        memcpy(&slot, at, sizeof slot);
        if (slot.text_len <= LOCATION_MAX &&
            array_inside(h.lines.off, i + tail_lines_of(slot.text_len), TAIL_LINE, size))
            slot.text_check = tail_text_check((const char *)at + TAIL_LINE, slot.text_len);
        slot.check = tail_slot_check(&slot, h.seg.header_check, (uint32_t)i);
        memcpy(at, &slot, sizeof slot);
    }
    for (uint64_t i = 0;
         i < h.tables.count && array_inside(h.tables.off, i + 1, sizeof(struct tail_table), size); i++) {
        struct tail_table entry;
        uint8_t *at = buf + h.tables.off + i * sizeof entry;
        memcpy(&entry, at, sizeof entry);
        entry.check = tail_table_check(&entry, h.seg.header_check, (uint32_t)i);
        memcpy(at, &entry, sizeof entry);
    }
}

static void ask(const struct tail *t)
{
    char buf[LOCATION_MAX];
    struct tail_hit hit;
    uint32_t table;

    int64_t count = tail_count(t);
    if (count < 0)
        return;
    uint32_t n = (uint32_t)count;
    for (uint32_t i = 0; i < 5; i++) {
        for (int64_t id = 5; id < 10; id++)
            if (tail_find(t, n, i, id, &hit) == 1)
                tail_location(t, &hit, buf, sizeof buf);
        if (tail_head(t, n, i, &hit) == 1)
            tail_location(t, &hit, buf, sizeof buf);
        tail_as_of(t, n, i, (int64_t)i, &hit);
        tail_earliest(t, n, i, &hit);
        tail_has_table(t, n, i);
    }
    tail_find_name(t, n, bytes_of("shop.new"), 0, &table);
    tail_verify(t, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tail t;

    if (size < sizeof(struct tail_header))
        return 0;
    uint8_t *buf = aligned_alloc(64, align_up(size, 64));
    memcpy(buf, data, size);
    mend_header(buf, size);
    if (tail_open(&t, buf, size, NULL) == 0) {
        ask(&t);
        mend_content(buf, size);
        ask(&t);
    }
    free(buf);
    return 0;
}
