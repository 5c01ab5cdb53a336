/*
 * .rows files and manifests from hostile bytes, with mended checksums; and blocks from hostile rows, since a fuzzer
 * finds no valid zstd frames by itself.
 */
#include "checksum.h"
#include "entry_file.h"
#include "manifest.h"
#include "rows_block.h"
#include "sealing.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct uuid own_uuid = { "rows" };

static int memory_file(const void *data, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    return fd;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static void read_all(struct entry_file *f, enum entry_order order)
{
    struct entry_cursor *c;
    struct row row;
    char piece[100];

    if (entry_cursor_open(&c, f, order, 0, NULL) < 0)
        return;
    while (entry_next(c, &row, NULL) == 1) {
        uint64_t off = row.value_len / 2;
        size_t len = row.value_len - off < sizeof piece ? (size_t)(row.value_len - off) : sizeof piece;
        if (entry_value_read(c, off, piece, len, NULL) < 0 || entry_value_check(c, NULL) < 0)
            break;
    }
    for (uint64_t i = 0; i < 4 && i < entry_file_footer(f)->rows; i++) {
        entry_seek_number(c, entry_file_footer(f)->rows - 1 - i, NULL);
        entry_next(c, &row, NULL);
        entry_seek_place(c, i, NULL);
        entry_next(c, &row, NULL);
    }
    entry_find(c, bytes_of("key 1"), &row, NULL);
    entry_find(c, bytes_of("k"), &row, NULL);
    entry_cursor_close(c);
}

static void ask(int fd)
{
    struct entry_file *f;
    struct errmsg msg;

    if (entry_file_open(&f, fd, "fuzz", NULL, &msg) < 0)
        return;
    read_all(f, OLDEST_FIRST);
    read_all(f, NEWEST_FIRST);
    entry_file_verify(f, &msg);
    entry_file_close(f);
}

/* ---- files with mended checksums ----------------------------------------------------------------------- */

static void mend_refs(uint8_t *buf, size_t size, const struct section *blocks)
{
    struct entry_header h;

    memcpy(&h, buf, sizeof h);
    if (!array_inside(blocks->off, blocks->count, sizeof(struct block_ref), size))
        return;
    for (uint64_t i = 0; i < blocks->count; i++) {
        uint8_t *at = buf + blocks->off + i * sizeof(struct block_ref);
        struct block_ref ref;
        memcpy(&ref, at, sizeof ref);
        if (range_inside(ref.off, ref.len, size))
            ref.check = checksum(buf + ref.off, ref.len, entry_seed(&h.uuid, ref.off));
        memcpy(at, &ref, sizeof ref);
    }
}

static void mend_rows(uint8_t *buf, size_t size)
{
    struct entry_header h;
    struct entry_footer f;

    if (size < sizeof h + sizeof f)
        return;
    uint64_t footer = size - sizeof f;
    memcpy(&h, buf, sizeof h);
    h.major = FORMAT_MAJOR;
    h.header_len = sizeof h;
    h.align = ENTRY_ALIGN;
    h.check = checksum(&h, offsetof(struct entry_header, check), 0);
    memcpy(buf, &h, sizeof h);
    memcpy(&f, buf + footer, sizeof f);
    memcpy(f.magic, FORMAT_MAGIC_FOOTER, sizeof f.magic);
    f.size = size;
    mend_refs(buf, footer, &f.blocks);
    if (f.data_end <= f.keys_off && f.keys_off <= footer) {
        f.map_check = checksum_pieces(buf + f.data_end, f.keys_off - f.data_end, 0);
        f.keys_check = checksum_pieces(buf + f.keys_off, footer - f.keys_off, 0);
    }
    f.check = checksum(&f, offsetof(struct entry_footer, check), h.check);
    memcpy(buf + footer, &f, sizeof f);
}

static void ask_manifest(uint8_t *buf, size_t size)
{
    struct manifest_header h;
    struct manifest m;
    struct errmsg msg;

    if (size >= sizeof h) {
        memcpy(&h, buf, sizeof h);
        h.major = FORMAT_MAJOR;
        h.content_check = checksum(buf + sizeof h, size - sizeof h, 0);
        h.check = checksum(&h, offsetof(struct manifest_header, check), 0);
        memcpy(buf, &h, sizeof h);
    }
    int fd = memory_file(buf, size);
    if (manifest_read(&m, fd, "fuzz", &h.log, size >= sizeof h ? h.table : 0, &msg) == 0)
        manifest_fini(&m);
    close(fd);
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

/* flags u8, rows u8, length u16, the bytes: a block.  Its ref follows those before, which is as far as order goes; the
 * index says that key "k" is in it. */
static bool put_block(struct sealing *s, struct rd *r, struct entry_footer *f, struct block_ref *ref,
                      uint64_t place)
{
    static uint8_t frame[ZSTD_COMPRESSBOUND(UINT16_MAX)];
    uint8_t flags = rd_u8(r), rows = rd_u8(r);
    uint16_t len = rd_u16(r);
    const uint8_t *raw = rd_take(r, len);

    if (!raw)
        return false;
    size_t n = ZSTD_compress(frame, sizeof frame, raw, len, 1);
    *ref = (struct block_ref){
        .off = s->end, .len = (uint32_t)n, .raw_len = len, .first_row = f->rows, .rows = rows, .flags = flags
    };
    ref->check = checksum(frame, n, entry_seed(&own_uuid, ref->off));
    f->rows += rows;
    return sealing_put(s, frame, n, NULL) == 0 && sealing_key(s, entry_hash(bytes_of("k")), place, NULL) == 0;
}

static void put_file(struct sealing *s, struct rd *r)
{
    struct entry_header h = { .magic = FORMAT_MAGIC_ROWS,
                              .major = FORMAT_MAJOR,
                              .header_len = sizeof h,
                              .uuid = own_uuid,
                              .align = ENTRY_ALIGN };
    struct entry_footer f = { .time_min = INT64_MIN, .time_max = INT64_MAX };
    struct block_ref refs[64];
    size_t blocks = 0;

    h.check = checksum(&h, offsetof(struct entry_header, check), 0);
    sealing_put(s, &h, sizeof h, NULL);
    while (blocks < ARRAY_SIZE(refs) && put_block(s, r, &f, &refs[blocks], blocks))
        blocks++;
    f.keyed = sorter_count(s->keys);
    f.rows += f.rows < f.keyed ? f.keyed - f.rows : 0;
    sealing_map_begin(s, &f, &f.blocks, NULL);
    sealing_put(s, refs, blocks * sizeof refs[0], NULL);
    sealing_map_end(s, &f, &f.blocks, blocks, NULL);
    sealing_end(s, &f, h.check, NULL);
}

static void ask_blocks(const uint8_t *data, size_t size)
{
    struct rd r = rd_of(data, size);
    struct sealing s;
    int fd = memory_file("", 0);

    if (sealing_open(&s, fd, 1 << 20, AT_FDCWD, NULL) < 0)
        abort();
    put_file(&s, &r);
    sealing_fini(&s);
    ask(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool file = size >= 8 && memcmp(data, FORMAT_MAGIC_ROWS, 8) == 0;
    bool manifest = size >= 8 && memcmp(data, FORMAT_MAGIC_MANIFEST, 8) == 0;

    if (!file && !manifest) {
        ask_blocks(data, size);
        return 0;
    }
    uint8_t *buf = malloc(size);
    memcpy(buf, data, size);
    if (manifest) {
        ask_manifest(buf, size);
    } else {
        mend_rows(buf, size);
        ask(memory_file(buf, size));
    }
    free(buf);
    return 0;
}
