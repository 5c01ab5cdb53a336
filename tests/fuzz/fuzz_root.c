/*
 * A root from hostile bytes, with mended checksums.
 */
#include "checksum.h"
#include "root.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mend(uint8_t *buf, size_t size)
{
    struct seg_header h;

    if (size < sizeof(struct root_header))
        return;
    memcpy(&h, buf, sizeof h);
    h.major = FORMAT_MAJOR;
    h.size = size;
    h.header_len = sizeof(struct root_header);
    size_t after = offsetof(struct seg_header, header_check) + sizeof h.header_check;
    h.content_check = checksum(buf + h.header_len, size - h.header_len, 0);
    memcpy(buf, &h, sizeof h);
    h.header_check = checksum(buf + after, h.header_len - after,
                              checksum(buf, offsetof(struct seg_header, header_check), 0));
    memcpy(buf, &h, sizeof h);
}

static void ask(struct root *r)
{
    struct root_table t;
    struct root_part p;
    struct bytes name;
    uint32_t number;

    root_find_table(r, bytes_of("shop.orders"), SEQ_MAX, &number);
    root_find_table(r, bytes_of("a"), 5, &number);
    for (uint32_t i = 0; i < 10; i++) {
        root_get_table(r, i, &t);
        root_get_part(r, i, &p);
        if (root_table_name(r, i, &name) == 1 && name.len)
            root_find_table(r, name, SEQ_MAX, &number);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct root *r;

    if (size == 0)
        return 0;
    uint8_t *buf = aligned_alloc(64, align_up(size, 64));
    memcpy(buf, data, size);
    memcpy(buf, FORMAT_MAGIC_ROOT, size < 8 ? size : 8);
    mend(buf, size);
    if (root_open(&r, buf, size, 0, NULL) == 0) {
        ask(r);
        root_close(r);
    }
    free(buf);
    return 0;
}
