/*
 * Lookups over N snapshots of 1000 tables: ours from shared memory, the index alone, LMDB, SQLite, the socket, and what
 * memory allows; all in turn.
 */
#include "bench.h"

#include "format_tail.h"
#include "part.h"
#include "synthetic.h"

#include <stdlib.h>

/* Questions of a repetition: as many as fast rows need to be long compared with the clock. */
#define MANY (48 * WINDOW)
#define SOME (16 * WINDOW)

/* Everything that the rows ask. */
struct subjects {
    struct history history;
    skade *mapped;
    skade *scalar, *avx2; /* NULL: the processor has nothing better, or hasn't got it */
    skade *socket;
    struct by_name by_name;
    struct lone_part *part;
    struct limits *limits;
    struct lmdb *lmdb;
    struct sqlite *sqlite;
};

/* ---- subjects --------------------------------------------------------------------------------------------------- */

static void open_names(struct subjects *s)
{
    s->by_name = (struct by_name){ .s = s->mapped, .names = allocate(TABLES * sizeof *s->by_name.names) };
    for (uint32_t t = 1; t <= TABLES; t++)
        synthetic_table(s->by_name.names[t - 1], t);
}

static void open_subjects(struct subjects *s, uint64_t n)
{
    s->history = (struct history){ .tables = TABLES, .versions = (uint32_t)(n / TABLES), .ids = IDS_RANDOM };
    daemon_start("normal");
    history_fill(&s->history);
    answers_clear();
    s->mapped = daemon_open(0);
    s->scalar = part_isa_best() > PART_SCALAR ? client_with_isa("scalar") : NULL;
    s->avx2 = part_isa_best() > PART_AVX2 ? client_with_isa("avx2") : NULL;
    s->socket = daemon_open(SKADE_NO_SHM);
    open_names(s);
    s->part = lone_part_open_largest(s->mapped);
    lone_part_add_hash(s->part);
    struct part_facts facts = lone_part_facts(s->part);
    s->limits = limits_open(facts.block_bytes, facts.huge_bytes > facts.bytes / 2);
    s->lmdb = lmdb_fill(&s->history);
    s->sqlite = sqlite_fill(&s->history);
}

static void close_subjects(struct subjects *s)
{
    sqlite_close(s->sqlite);
    lmdb_close(s->lmdb);
    limits_close(s->limits);
    lone_part_close(s->part);
    free(s->by_name.names);
    skade_close(s->mapped);
    skade_close(s->scalar);
    skade_close(s->avx2);
    skade_close(s->socket);
}

/* ---- rows ----------------------------------------------------------------------------------------------------------- */

static void add_limits(struct rows *rows, struct limits *l)
{
    rows_add(rows,
             (struct row){ .name = "chase", .kind = ROW_LIMIT, .run = limits_chase, .arg = l, .n = SOME });
    rows_add(rows,
             (struct row){ .name = "line", .kind = ROW_LIMIT, .run = limits_lines, .arg = l, .n = MANY });
}

static struct row ours(const struct subjects *s, const char *name,
                       void (*run)(void *, const struct question *, size_t), void *arg, size_t n)
{
    return (struct row){ .name = name,
                         .kind = ROW_OURS,
                         .run = run,
                         .arg = arg,
                         .n = n,
                         .history = &s->history,
                         .depth = WHOLE_ANSWER };
}

static void add_misses(struct rows *rows, struct row row, const char *half, const char *all)
{
    rows_add(rows, row);
    row.name = half;
    row.misses = 50;
    rows_add(rows, row);
    row.name = all;
    row.misses = 100;
    rows_add(rows, row);
}

static void add_client(struct rows *rows, const struct subjects *s)
{
    struct row head = ours(s, "head", client_head, s->mapped, SOME);
    struct row socket = ours(s, "socket", client_single, s->socket, WINDOW);

    head.heads = true;
    socket.waits = true;
    add_misses(rows, ours(s, "single", client_single, s->mapped, SOME), "single-half", "single-miss");
    add_misses(rows, ours(s, "batch", client_batch, s->mapped, MANY), "batch-half", "batch-miss");
    rows_add(rows, head);
    rows_add(rows, ours(s, "as_of", client_as_of, s->mapped, SOME));
    rows_add(rows, ours(s, "by_name", client_by_name, (void *)&s->by_name, SOME));
    if (s->avx2) {
        rows_add(rows, ours(s, "single-avx2", client_single, s->avx2, SOME));
        rows_add(rows, ours(s, "batch-avx2", client_batch, s->avx2, MANY));
    }
    if (s->scalar) {
        rows_add(rows, ours(s, "single-scalar", client_single, s->scalar, SOME));
        rows_add(rows, ours(s, "batch-scalar", client_batch, s->scalar, MANY));
    }
    rows_add(rows, socket);
}

/* Keys alone: these rows judge themselves. */
static struct row keys(const struct subjects *s, const char *name,
                       void (*run)(void *, const struct question *, size_t), enum row_kind kind)
{
    struct row row = ours(s, name, run, s->part, MANY);

    row.kind = kind;
    row.depth = NO_ANSWER;
    return row;
}

static void add_part(struct rows *rows, const struct subjects *s)
{
    rows_add(rows, ours(s, "part-single", part_single, s->part, SOME));
    rows_add(rows, ours(s, "part-batch", part_batch, s->part, MANY));
    rows_add(rows, ours(s, "tree-single", part_tree, s->part, SOME));
    rows_add(rows, ours(s, "tree-batch", part_tree_batch, s->part, MANY));
    rows_add(rows, ours(s, "tree-loop", part_tree_loop, s->part, SOME));
    rows_add(rows, keys(s, "keys-tree", keys_tree, ROW_OURS));
    rows_add(rows, keys(s, "keys-hash", keys_hash, ROW_LIMIT));
}

static void add_peer(struct rows *rows, const struct subjects *s, const char *name,
                     void (*run)(void *, const struct question *, size_t), void *arg)
{
    rows_add(rows, (struct row){ .name = name,
                                 .kind = ROW_PEER,
                                 .run = run,
                                 .arg = arg,
                                 .n = SOME,
                                 .history = &s->history,
                                 .depth = LOCATION_ONLY });
}

static void add_peers(struct rows *rows, const struct subjects *s)
{
    add_peer(rows, s, "lmdb.bytes", lmdb_bytes, s->lmdb);
    add_peer(rows, s, "lmdb.bytes-fenced", lmdb_bytes_fenced, s->lmdb);
    add_peer(rows, s, "lmdb.mixed", lmdb_mixed, s->lmdb);
    add_peer(rows, s, "lmdb.mixed-fenced", lmdb_mixed_fenced, s->lmdb);
    add_peer(rows, s, "sqlite.pair", sqlite_pair, s->sqlite);
    add_peer(rows, s, "sqlite.mixed", sqlite_mixed, s->sqlite);
}

/* ---- the stage --------------------------------------------------------------------------------------------------------- */

static struct measure exactly(double value)
{
    return (struct measure){ value, 0 };
}

/*
 * What a table takes beside its snapshots: of two sizes with as many tables, by the two equations N * snapshot + T * table
 * = bytes.  Printed with the larger one.
 */
static void report_bytes_of_table(const char *group, const struct history *h, uint64_t index_bytes)
{
    static double n, bytes; /* of the size before */
    double more = (double)history_rows(h);

    if (n > 0 && more > n) {
        double snapshot = ((double)index_bytes - bytes) / (more - n);
        report_figure(group, "bytes_per_table", exactly((bytes - n * snapshot) / h->tables), "bytes",
                      ROW_OURS);
    }
    n = more;
    bytes = (double)index_bytes;
}

static void report_facts(const char *group, const struct subjects *s, const struct part_facts *f,
                         uint64_t index_bytes, uint64_t tail_bytes)
{
    double n = (double)history_rows(&s->history);

    report_figure(group, "bytes_per_snapshot", exactly((double)(index_bytes + tail_bytes) / n), "bytes",
                  ROW_OURS);
    report_figure(group, "bytes_without_tail", exactly((double)index_bytes / n), "bytes", ROW_OURS);
    report_bytes_of_table(group, &s->history, index_bytes);
    report_figure(group, "blocks_bytes", exactly((double)f->block_bytes), "bytes", ROW_OURS);
    report_figure(group, "huge_pages", exactly(100.0 * (double)f->huge_bytes / (double)f->bytes), "percent",
                  ROW_OURS);
    report_figure(group, "locations_in_heap", exactly(100 * f->in_heap), "percent", ROW_OURS);
    report_figure(group, "displaced_rows", exactly(100 * f->displaced), "percent", ROW_OURS);
    report_figure(group, "farthest_row", exactly(f->reach), "blocks", ROW_OURS);
    report_figure(group, "lines_per_lookup", exactly(f->lines), "lines", ROW_OURS);
}

static void report_socket(const char *group, const struct rows *rows)
{
    report_figure(group, "socket_by_mapped", row_ratio(rows, "socket", "single", 1), "times", ROW_OURS);
}

/* What a lookup costs as the log grows. */
static void plot_by_size(const struct rows *rows, uint64_t n)
{
    static const struct {
        const char *row, *name;
    } lines[] = { { "single", "skade" },   { "batch", "skade, batch" }, { "lmdb.", "LMDB" },
                  { "sqlite.", "SQLite" }, { "chase", "one access" },   { "line", "one line" } };

    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        const struct row *row = rows_find(rows, lines[i].row);
        report_point("lookup_by_size", lines[i].name, row->kind, (double)n, measure_of(row->ns, rows->reps));
    }
}

/* What was mapped must have been answered from the map. */
static uint64_t asked_daemon(const struct subjects *s)
{
    uint64_t asked = client_counter(s->mapped, "asked_daemon");

    asked += s->avx2 ? client_counter(s->avx2, "asked_daemon") : 0;
    asked += s->scalar ? client_counter(s->scalar, "asked_daemon") : 0;
    return asked;
}

static void judge_index(const char *size, const struct rows *rows, uint64_t asked, double bytes_per_snapshot,
                        uint64_t n)
{
    struct goal wrong = { .sense = AT_MOST }, socket = { .sense = AT_MOST };
    struct goal bytes = { .sense = AT_MOST, .floor = 76, .target = 71 };

    snprintf(wrong.name, sizeof wrong.name, "index.wrong_answers.%s", size);
    snprintf(socket.name, sizeof socket.name, "index.socket_requests.%s", size);
    snprintf(bytes.name, sizeof bytes.name, "index.bytes_per_snapshot.%s", size);
    goal_check(&wrong, exactly((double)rows->wrong));
    goal_check(&socket, exactly((double)asked));
    if (n >= 1000000) /* names and tables are a share of small indexes */
        goal_check(&bytes, exactly(bytes_per_snapshot));
}

void stage_lookups(uint64_t n, const char *size, int reps)
{
    static struct rows rows;
    struct subjects s = { 0 };
    char group[32];

    snprintf(group, sizeof group, "lookups-%s", size);
    rows = (struct rows){ .count = 0 };
    open_subjects(&s, n);
    add_limits(&rows, s.limits);
    add_client(&rows, &s);
    add_part(&rows, &s);
    add_peers(&rows, &s);
    client_see_heartbeat((skade *const[]){ s.mapped, s.avx2, s.scalar }, 3);
    rows_run(&rows, reps);

    struct part_facts facts = lone_part_facts(s.part);
    uint64_t index_bytes = daemon_counter(s.mapped, "index_bytes");
    uint64_t tail_bytes = daemon_counter(s.mapped, "tail_room") ? TAIL_BYTES : 0;
    report_rows(group, &rows);
    plot_by_size(&rows, n);
    report_socket(group, &rows);
    report_facts(group, &s, &facts, index_bytes, tail_bytes);
    judge_index(size, &rows, asked_daemon(&s), (double)(index_bytes + tail_bytes) / (double)n, n);
    goals_of_lookups(&rows, size, n, facts.lines);
    close_subjects(&s);
    stage_publication(&s.history, size, reps);
    daemon_stop();
}
