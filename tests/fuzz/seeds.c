/*
 * Writes small valid inputs for the fuzz targets: a corpus to start from.  usage: seeds DIR
 */
#include "part.h"
#include "root.h"
#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

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

static void put_wire(const char *dir)
{
    struct wr w = { 0 };
    struct msg_lookup m = { .at = SEQ_MAX, .name = bytes_of("shop.orders") };

    wr_u8(&w, 2);
    wire_put_lookup(&w, &m);
    put(dir, "wire", "lookup", w.data, w.len);
    wr_fini(&w);
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
    put_wire(argv[1]);
    return 0;
}
