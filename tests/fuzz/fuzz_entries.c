/*
 * A file of entries from hostile bytes, as they are or with mended checksums; both orders, keys, places, everything.
 */
#include "checksum.h"
#include "entry_file.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEADER sizeof(struct entry_header)
#define TRAILER sizeof(struct entry_trailer)
#define FOOTER sizeof(struct entry_footer)

/* Rows of a .entries file, from the last one on, as far as their links lead. */
static void mend_rows(uint8_t *buf, uint64_t end, uint64_t last, const struct uuid *uuid)
{
    struct entry_trailer t;
    for (uint64_t place = last; place >= HEADER && range_inside(place, TRAILER, end); place = t.prev) {
        memcpy(&t, buf + place, TRAILER);
        uint64_t begin = t.prev ? t.prev + TRAILER : HEADER;
        if (t.prev >= place || begin > place)
            return;
        size_t covered = (size_t)(place - begin) + offsetof(struct entry_trailer, check);
        t.check = checksum_pieces(buf + begin, covered, entry_seed(uuid, begin));
        memcpy(buf + place, &t, TRAILER);
    }
}

static void mend(uint8_t *buf, size_t size)
{
    struct entry_header h;
    struct entry_footer t;
    uint64_t end = size - FOOTER;

    if (size < HEADER + FOOTER)
        return;
    memcpy(&h, buf, HEADER);
    memcpy(h.magic, FORMAT_MAGIC_ENTRIES, sizeof h.magic);
    h.major = FORMAT_MAJOR;
    h.header_len = HEADER;
    h.check = checksum(&h, offsetof(struct entry_header, check), 0);
    memcpy(buf, &h, HEADER);
    memcpy(&t, buf + end, FOOTER);
    memcpy(t.magic, FORMAT_MAGIC_FOOTER, sizeof t.magic);
    t.size = size;
    mend_rows(buf, end, t.last, &h.uuid);
    if (t.data_end <= t.keys_off && t.keys_off <= end) {
        t.map_check = checksum_pieces(buf + t.data_end, (size_t)(t.keys_off - t.data_end), 0);
        t.keys_check = checksum_pieces(buf + t.keys_off, (size_t)(end - t.keys_off), 0);
    }
    t.check = checksum(&t, offsetof(struct entry_footer, check), h.check);
    memcpy(buf + end, &t, FOOTER);
}

static void read_rows(struct entry_cursor *c, int limit)
{
    char buffer[256];
    struct row row;
    while (limit-- > 0 && entry_next(c, &row, NULL) == 1) {
        size_t n = row.value_len < sizeof buffer ? (size_t)row.value_len : sizeof buffer;
        if (entry_value_read(c, 0, buffer, n, NULL) < 0 || entry_value_check(c, NULL) < 0)
            return;
    }
}

static void ask(struct entry_file *f, enum entry_order order)
{
    static const char *const keys[] = { "", "alice", "bob", "k" };
    struct entry_cursor *c;
    struct row row;
    uint64_t rows = entry_file_footer(f)->rows;

    if (entry_cursor_open(&c, f, order, 0, NULL) < 0)
        return;
    read_rows(c, 1000);
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        entry_find(c, bytes_of(keys[i]), &row, NULL);
    for (uint64_t place = 0; place < 1024; place += 56)
        if (entry_seek_place(c, place, NULL) == 0)
            read_rows(c, 2);
    for (uint64_t i = 0; i < 3 && rows > 0; i++)
        if (entry_seek_number(c, rows / 3 * i + i % rows < rows ? rows / 3 * i + i % rows : 0, NULL) == 0)
            read_rows(c, 2);
    entry_cursor_close(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct entry_file *f;

    if (size == 0)
        return 0;
    uint8_t *buf = malloc(size);
    memcpy(buf, data, size);
    bool as_it_is = size > 72 && data[72] & 1; /* padding of the header, 0 in seeds */
    if (!as_it_is)
        mend(buf, size);
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, buf, size) != (ssize_t)size)
        abort();
    if (entry_file_open(&f, fd, "fuzz", NULL, NULL) == 0) {
        ask(f, OLDEST_FIRST);
        ask(f, NEWEST_FIRST);
        entry_file_verify(f, NULL);
        entry_file_close(f);
    }
    free(buf);
    return 0;
}
