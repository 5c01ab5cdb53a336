/*
 * Writes small valid inputs for the fuzz targets: a corpus to start from.  usage: seeds DIR
 */
#include "entry_writer.h"
#include "manifest.h"
#include "part.h"
#include "root.h"
#include "tail.h"
#include "rows_writer.h"
#include "wire.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void put(const char *dir, const char *target, const char *name, const void *data, size_t size)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", dir, target);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/%s/%s", dir, target, name);
    FILE *f = fopen(path, "we");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

static void put_part(const char *dir, size_t rows)
{
    struct event *events = calloc(rows + 1, sizeof *events);
    const struct event **list = calloc(rows + 1, sizeof(const struct event *));
    char(*texts)[128] = calloc(rows + 1, sizeof *texts);
    struct part_info info = { .seed = 3, .epoch = 1, .generation = 1, .to_seq = rows };
    struct part_plan *plan;
    char name[32];

    for (size_t i = 0; i < rows; i++) {
        snprintf(texts[i], sizeof texts[i],
                 i % 5 ? "s3://b/t/metadata/%05zu-00112233-4455-6677-8899-aabbccddeeff.metadata.json"
                       : "odd %zu",
                 i);
        events[i] = (struct event){ .seq = i + 1,
                                    .kind = EVENT_COMMIT,
                                    .flags = EVENT_INTRODUCES | EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT,
                                    .table = 1 + (uint32_t)(i % 4),
                                    .snapshot = (int64_t)(i % 3),
                                    .time_us = (int64_t)i,
                                    .text = bytes_of(texts[i]) };
        list[i] = &events[i];
    }
    if (part_plan_rows(&plan, &info, list, rows) < 0)
        exit(1);
    size_t size = part_plan_size(plan);
    void *buf = aligned_alloc(64, align_up(size, 64));
    if (part_plan_fill(plan, buf, size) < 0)
        exit(1);
    snprintf(name, sizeof name, "rows%zu", rows);
    put(dir, "part", name, buf, size);
    part_plan_free(plan);
    free(buf);
    free(events);
    free(list);
    free(texts);
}

static void put_root(const char *dir)
{
    struct root_table tables[2] = { { .created_seq = 1, .dropped_seq = SEQ_MAX, .kind = TABLE_EXTERNAL },
                                    { .created_seq = 2, .dropped_seq = 9, .kind = TABLE_STORED } };
    struct root_name_row names[2] = { { bytes_of("shop.orders"), 1, SEQ_MAX, 1 },
                                      { bytes_of("a"), 2, 9, 2 } };
    struct root_input in = { .epoch = 1,
                             .generation = 1,
                             .names_seq = 9,
                             .tables = tables,
                             .tables_count = 2,
                             .names = names,
                             .names_count = 2 };
    size_t size = root_size(&in);
    void *buf = aligned_alloc(64, align_up(size, 64));

    if (root_fill(&in, buf, size) < 0)
        exit(1);
    put(dir, "root", "two-tables", buf, size);
    free(buf);
}

/* Room for 4 events: a creation, a commit, one that repeats it, one that has no room. */
static void put_tail(const char *dir)
{
    static const uint32_t all = EVENT_INTRODUCES | EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT;
    struct tail_info info = { .epoch = 1, .generation = 3, .seed = 5, .from_seq = 9, .room = 4, .lines = 9 };
    struct event events[] = {
        { .seq = 10, .kind = EVENT_CREATE, .table = 3, .text = bytes_of("shop.new") },
        { .seq = 11,
          .kind = EVENT_COMMIT,
          .flags = all,
          .table = 3,
          .snapshot = 7,
          .time_us = 5,
          .text = bytes_of("first") },
        { .seq = 12,
          .kind = EVENT_COMMIT,
          .flags = all,
          .table = 3,
          .snapshot = 7,
          .time_us = 4,
          .text = bytes_of("again") },
        { .seq = 13, .kind = EVENT_DROP, .table = 2, .text = bytes_of("a") },
        { .seq = 14,
          .kind = EVENT_COMMIT,
          .flags = all,
          .table = 3,
          .snapshot = 8,
          .text = bytes_of("late") },
    };
    size_t size = tail_size(info.room, info.lines);
    struct tail_writer w;
    void *buf = aligned_alloc(64, align_up(size, 64));

    memset(buf, 0, size);
    tail_begin(&w, &info, buf);
    for (size_t i = 0; i < ARRAY_SIZE(events); i++)
        tail_append(&w, &events[i]);
    tail_show(&w);
    put(dir, "tail", "four", buf, size);
    free(buf);
}

static void put_wire(const char *dir)
{
    struct wr w = { 0 };
    struct msg_lookup m = { .at = SEQ_MAX, .name = bytes_of("shop.orders") };

    wr_u8(&w, 2);
    wire_put_lookup(&w, &m);
    put(dir, "wire", "lookup", w.data, w.len);
    wr_fini(&w);
}

/* What is in FD, which is closed. */
static void put_file(const char *dir, const char *target, const char *name, int fd)
{
    static char buf[1 << 16];
    ssize_t size = pread(fd, buf, sizeof buf, 0);

    if (size < 0)
        exit(1);
    put(dir, target, name, buf, (size_t)size);
    close(fd);
}

static int unnamed_file(const char *dir)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        perror(dir);
        exit(1);
    }
    return fd;
}

/* Row i: key "key i" unless 3 divides i, value "value i", time -1000 i; the last one is larger than a block. */
static int write_rows(struct rows_writer *w)
{
    static char large[10000];
    char key[16], value[16];

    for (int i = 0; i < 40; i++) {
        struct bytes k = { key, (size_t)sprintf(key, "key %d", i) };
        size_t len = (size_t)sprintf(value, "value %d", i);
        if (rows_put(w, i % 3 ? ROW_KEYED : 0, k, value, len, i * -1000, NULL) < 0)
            return -1;
    }
    memset(large, 'x', sizeof large);
    return rows_put(w, ROW_KEYED, bytes_of("large"), large, sizeof large, INT64_MAX, NULL);
}

static void put_rows(const char *dir)
{
    struct rows_writer_options opt = { .log = { "log" },
                                       .uuid = { "rows" },
                                       .table = 7,
                                       .part = 1,
                                       .seen_seq = 9,
                                       .block_size = 4096,
                                       .temp_dir = AT_FDCWD };
    struct manifest m = { .header = { .log = { "log" },
                                      .uuid = { "rows" },
                                      .table = 7,
                                      .files = 1,
                                      .seen_seq = 9,
                                      .base_seq = 8,
                                      .base_time_us = -5,
                                      .rows_pruned = 2,
                                      .snapshots_before = 3 } };
    struct manifest_file file;
    struct rows_writer *w;

    int rows = unnamed_file(dir), manifest = unnamed_file(dir);
    if (rows_writer_open(&w, rows, &opt, NULL) < 0 || write_rows(w) < 0 ||
        rows_writer_seal(w, &file, NULL) < 0)
        exit(1);
    rows_writer_close(w);
    m.header.rows = file.rows;
    m.files = &file;
    if (manifest_write(manifest, &m, NULL) < 0)
        exit(1);
    put_file(dir, "rows", "file", rows);
    put_file(dir, "rows", "manifest", manifest);
    /* For the target's other mode: blocks as flags, rows, length and bytes. */
    put(dir, "rows", "blocks", "\0\1\6\0\0\3\0abc\1\1\6\0\0\11\0abc\3\0\3\0def\2\0\3\0ghi", 34);
}

/* N rows: every third without a key, every fifth a deletion, the last one larger than a piece. */
static void put_entries(const char *dir, int n)
{
    static char large[40000];
    struct entry_writer_options opt = {
        .log = { "log" }, .uuid = { "entries" }, .table = 7, .temp_dir = AT_FDCWD
    };
    struct entry_sum sum;
    struct entry_writer *w;
    char name[32];
    int fd = unnamed_file(dir);

    if (entry_writer_open(&w, fd, &opt, NULL) < 0)
        exit(1);
    for (int i = 0; i < n; i++) {
        struct bytes key = { name, (size_t)sprintf(name, "key %d", i % 7) };
        unsigned flags = i % 3 == 0 ? 0 : i % 5 == 0 ? ENTRY_KEYED | ENTRY_DELETE : ENTRY_KEYED;
        size_t len = flags & ENTRY_DELETE ? 0 : i + 1 == n ? sizeof large : (size_t)i % 9;
        if (entry_begin(w, flags, key, NULL) < 0 || entry_piece(w, large, len, NULL) < 0 ||
            entry_end(w, NULL) < 0)
            exit(1);
    }
    if (entry_writer_seal(w, &sum, NULL) < 0)
        exit(1);
    entry_writer_close(w);
    sprintf(name, "rows%d", n);
    put_file(dir, "entries", name, fd);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    mkdir(argv[1], 0755);
    put_part(argv[1], 0);
    put_part(argv[1], 1);
    put_part(argv[1], 40);
    put_root(argv[1]);
    put_tail(argv[1]);
    put_wire(argv[1]);
    put_rows(argv[1]);
    put_entries(argv[1], 0);
    put_entries(argv[1], 4);
    put_entries(argv[1], 300);
    return 0;
}
