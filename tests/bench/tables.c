/*
 * Tables that skade stores: append, scan, get, compact, next to SQLite and LMDB with the same rows and the same
 * durability, and next to what compaction can't avoid: zstd over the same bytes, writing them, one fsync.
 *
 * A repetition makes everything anew and runs each step of each store once, in turn.  Keys ascend, which is what the
 * peers like best.
 */
#include "bench.h"
#include "tables_limit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define ROWS 1000000u
#define BATCH 1024u
#define KEY_LEN 16
#define VALUE_MAX 200
#define GETS 10000u
#define TINY 10000u /* commits of one row */
#define REPS 3
#define BLOCK (64u << 10)

static size_t value_len;

static double seconds(void)
{
    return now_ns() * 1e-9;
}

/* Of this thread alone: for what asks the memory and the page cache, and waits for nobody. */
static double own_seconds(void)
{
    return processor_ns() * 1e-9;
}

/* ---- rows: the same for everyone ------------------------------------------------------------------------------------ */

static void make_row(uint64_t i, char *key, char *value)
{
    static const char words[] = "the quick brown fox jumps over the lazy dog and runs away from here ";
    char number[24];

    snprintf(number, sizeof number, "%016llx", (unsigned long long)i);
    memcpy(key, number, KEY_LEN);
    uint64_t mixed = (i + 1) * 0x9e3779b97f4a7c15ull;
    memcpy(value, &mixed, sizeof mixed);
    for (size_t at = sizeof mixed; at < value_len; at++)
        value[at] = at % 20 < 4 ? "0123456789abcdef"[mixed >> at % 60 & 15]
                                : words[(at + mixed % 64) % (sizeof words - 1)];
}

static uint64_t sum_of(const char *value)
{
    uint64_t v;
    memcpy(&v, value, sizeof v);
    return v;
}

/* What all values together must give: that nobody lost or invented a row. */
static uint64_t expected_sum(void)
{
    char key[KEY_LEN], value[VALUE_MAX];
    uint64_t sum = 0;

    for (uint64_t i = 0; i < ROWS; i++) {
        make_row(i, key, value);
        sum += sum_of(value);
    }
    return sum;
}

static uint64_t folder_bytes(const char *path)
{
    uint64_t bytes = 0;
    char inner[1024];
    struct stat st;
    DIR *d = opendir(path);

    if (!d)
        die("cannot read %s: %s", path, strerror(errno));
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (lstat(inner, &st) == 0)
            bytes += S_ISDIR(st.st_mode) ? folder_bytes(inner) : (uint64_t)st.st_size;
    }
    closedir(d);
    return bytes;
}

/* ---- skade ---------------------------------------------------------------------------------------------------------- */

static skade_table make_table(skade *s, const char *name)
{
    skade_table t;

    check(skade_create(s, name, NULL, &t, NULL), "create", s);
    return t;
}

/* Where the table's newest file lies, WHERE for its bytes: <table>/<n>. */
static const char *table_folder(skade *s, skade_table t, char where[SKADE_LOCATION_MAX + 1])
{
    struct skade_answer a = SKADE_ANSWER(where, SKADE_LOCATION_MAX + 1);
    const char *scheme = "file://";

    if (skade_head(s, t, &a) != 1 || strncmp(where, scheme, strlen(scheme)) != 0)
        die("table %u has no files", t);
    *strrchr(where, '/') = '\0';
    return where + strlen(scheme);
}

/* Of all its files. */
static uint64_t table_bytes(skade *s, skade_table t)
{
    char where[SKADE_LOCATION_MAX + 1];
    const char *folder = table_folder(s, t, where);

    *strrchr(where, '/') = '\0';
    return folder_bytes(folder);
}

static double skade_append_rows(skade *s, skade_table t, uint64_t rows, uint64_t batch)
{
    char key[KEY_LEN], value[VALUE_MAX];
    double began = seconds();

    for (uint64_t i = 0; i < rows;) {
        check(skade_append_begin(s, t, NULL), "append", s);
        for (uint64_t end = i + batch; i < end && i < rows; i++) {
            make_row(i, key, value);
            check(skade_append_put(s, key, KEY_LEN, value, value_len), "append", s);
        }
        check(skade_append_commit(s, NULL), "append", s);
    }
    return seconds() - began;
}

struct part {
    pthread_t thread;
    skade_scan *scan;
    unsigned part, parts;
    uint64_t rows, sum;
};

static void *scan_part(void *arg)
{
    struct part *p = arg;
    struct skade_row row = { .size = sizeof row };
    skade_cursor *c;
    int r = skade_cursor_open(p->scan, SKADE_OLDEST_FIRST, p->part, p->parts, &c);

    while (r >= 0 && (r = skade_cursor_next(c, &row)) == 1) {
        p->rows++;
        p->sum += sum_of(row.value);
    }
    if (r < 0)
        die("scan: %s", skade_errname(r));
    skade_cursor_close(c);
    return NULL;
}

/* With one thread in its own time, with more by the clock. */
static double skade_scan_rows(skade *s, skade_table t, unsigned threads, uint64_t rows, uint64_t sum)
{
    struct part parts[2] = { 0 };
    double (*elapsed)(void) = threads == 1 ? own_seconds : seconds;
    skade_scan *scan;
    double began = elapsed();

    check(skade_scan_open(s, t, NULL, &scan), "scan", s);
    for (unsigned i = 0; i < threads; i++) {
        parts[i] = (struct part){ .scan = scan, .part = i, .parts = threads };
        if (i && pthread_create(&parts[i].thread, NULL, scan_part, &parts[i]) != 0)
            die("no thread");
    }
    scan_part(&parts[0]);
    for (unsigned i = 1; i < threads; i++)
        pthread_join(parts[i].thread, NULL);
    double took = elapsed() - began;
    if (parts[0].rows + parts[1].rows != rows || (sum && parts[0].sum + parts[1].sum != sum))
        die("a scan gave other rows");
    skade_scan_close(scan);
    return took;
}

/* What no scan of these files can avoid. */
static double limit_of_scan(skade *s, skade_table t)
{
    char where[SKADE_LOCATION_MAX + 1];
    const char *folder = table_folder(s, t, where);
    double began = own_seconds();
    int64_t rows = read_and_check(folder);

    if (rows != ROWS)
        die("%s has %lld whole rows, not %u", folder, (long long)rows, ROWS);
    return own_seconds() - began;
}

static double skade_get_rows(skade *s, skade_table t)
{
    char key[KEY_LEN], value[VALUE_MAX], got[VALUE_MAX];
    size_t len;
    double began = 0;

    for (uint64_t i = 0; i <= GETS; i++) {
        if (i == 1) /* the first learns of the files */
            began = seconds();
        make_row(random_next() % ROWS, key, value);
        int r = skade_get(s, t, NULL, key, KEY_LEN, got, sizeof got, &len);
        if (r != 1 || len != value_len || memcmp(got, value, len) != 0)
            die("get: %s %s", skade_errname(r), skade_errmsg(s));
    }
    return (seconds() - began) / GETS;
}

static double skade_compact_table(skade *s, skade_table t, struct skade_compacted *ret)
{
    double began = seconds();

    *ret = (struct skade_compacted){ .size = sizeof *ret };
    check(skade_compact(s, t, NULL, ret), "compact", s);
    return seconds() - began;
}

/* ---- what compaction can't avoid ------------------------------------------------------------------------------------ */

/* Keys and values in blocks through zstd, into a file, fsync: by the clock, and *WORK in this thread's own time. */
static double zstd_and_write(double *work)
{
    size_t row = KEY_LEN + value_len, per_block = BLOCK / row, bound = ZSTD_compressBound(BLOCK);
    char path[512], *raw = allocate(ROWS * row), *packed = allocate(bound);
    ZSTD_CCtx *z = ZSTD_createCCtx();

    for (uint64_t i = 0; i < ROWS; i++)
        make_row(i, raw + i * row, raw + i * row + KEY_LEN);
    snprintf(path, sizeof path, "%s/zstd", place_folder());
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    double began = seconds(), own = own_seconds();
    for (uint64_t i = 0; i < ROWS; i += per_block) {
        size_t n = (ROWS - i < per_block ? ROWS - i : per_block) * row;
        size_t len = ZSTD_compressCCtx(z, packed, bound, raw + i * row, n, 3);
        if (ZSTD_isError(len) || write(fd, packed, len) != (ssize_t)len)
            die("cannot write %s", path);
    }
    if (fsync(fd) < 0)
        die("cannot write %s: %s", path, strerror(errno));
    double took = seconds() - began;
    *work = own_seconds() - own;
    close(fd);
    unlink(path);
    ZSTD_freeCCtx(z);
    free(raw);
    free(packed);
    return took;
}

/* ---- LMDB ------------------------------------------------------------------------------------------------------------ */

struct peer {
    double append, scan, get;
    uint64_t bytes;
};

static void lmdb_check(int r, const char *what)
{
    if (r != 0)
        die("LMDB, %s: %s", what, mdb_strerror(r));
}

static struct peer run_lmdb(uint64_t sum)
{
    char path[512], key[KEY_LEN], value[VALUE_MAX];
    struct peer p = { 0 };
    MDB_env *env;
    MDB_txn *txn = NULL;
    MDB_dbi dbi;
    MDB_cursor *cursor;
    MDB_val k, v;
    uint64_t rows = 0, got = 0;

    snprintf(path, sizeof path, "%s/rows.lmdb", place_folder());
    lmdb_check(mdb_env_create(&env), "create");
    lmdb_check(mdb_env_set_mapsize(env, 4ull << 30), "map size");
    lmdb_check(mdb_env_open(env, path, MDB_NOSUBDIR, 0600), "open");
    double began = seconds();
    for (uint64_t i = 0; i < ROWS;) {
        lmdb_check(mdb_txn_begin(env, NULL, 0, &txn), "begin");
        lmdb_check(mdb_dbi_open(txn, NULL, 0, &dbi), "open");
        for (uint64_t end = i + BATCH; i < end && i < ROWS; i++) {
            make_row(i, key, value);
            k = (MDB_val){ KEY_LEN, key };
            v = (MDB_val){ value_len, value };
            lmdb_check(mdb_put(txn, dbi, &k, &v, 0), "put");
        }
        lmdb_check(mdb_txn_commit(txn), "commit");
    }
    p.append = seconds() - began;
    lmdb_check(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), "begin");
    began = own_seconds();
    lmdb_check(mdb_cursor_open(txn, dbi, &cursor), "cursor");
    while (mdb_cursor_get(cursor, &k, &v, MDB_NEXT) == 0) {
        rows++;
        got += sum_of(v.mv_data);
    }
    p.scan = own_seconds() - began;
    mdb_cursor_close(cursor);
    if (rows != ROWS || got != sum)
        die("LMDB gave other rows");
    began = seconds();
    for (uint64_t i = 0; i < GETS; i++) {
        make_row(random_next() % ROWS, key, value);
        k = (MDB_val){ KEY_LEN, key };
        lmdb_check(mdb_get(txn, dbi, &k, &v), "get");
        if (v.mv_size != value_len || memcmp(v.mv_data, value, value_len) != 0)
            die("LMDB gave another value");
    }
    p.get = (seconds() - began) / GETS;
    mdb_txn_abort(txn);
    struct stat st;
    p.bytes = stat(path, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
    mdb_env_close(env);
    unlink(path);
    snprintf(path, sizeof path, "%s/rows.lmdb-lock", place_folder());
    unlink(path);
    return p;
}

/* ---- SQLite ----------------------------------------------------------------------------------------------------------- */

static void sql(sqlite3 *db, const char *text)
{
    if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
        die("SQLite, %s: %s", text, sqlite3_errmsg(db));
}

static sqlite3_stmt *statement(sqlite3 *db, const char *text)
{
    sqlite3_stmt *st;
    if (sqlite3_prepare_v2(db, text, -1, &st, NULL) != SQLITE_OK)
        die("SQLite, %s: %s", text, sqlite3_errmsg(db));
    return st;
}

static struct peer run_sqlite(uint64_t sum)
{
    char path[512], key[KEY_LEN], value[VALUE_MAX];
    struct peer p = { 0 };
    sqlite3 *db;
    uint64_t rows = 0, got = 0;

    snprintf(path, sizeof path, "%s/rows.db", place_folder());
    if (sqlite3_open(path, &db) != SQLITE_OK)
        die("SQLite: %s", sqlite3_errmsg(db));
    sql(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
            "CREATE TABLE rows (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID");
    sqlite3_stmt *put = statement(db, "INSERT INTO rows VALUES (?, ?)");
    double began = seconds();
    for (uint64_t i = 0; i < ROWS;) {
        sql(db, "BEGIN");
        for (uint64_t end = i + BATCH; i < end && i < ROWS; i++) {
            make_row(i, key, value);
            sqlite3_bind_blob(put, 1, key, KEY_LEN, SQLITE_STATIC);
            sqlite3_bind_blob(put, 2, value, (int)value_len, SQLITE_STATIC);
            if (sqlite3_step(put) != SQLITE_DONE)
                die("SQLite: %s", sqlite3_errmsg(db));
            sqlite3_reset(put);
        }
        sql(db, "COMMIT");
    }
    p.append = seconds() - began;
    sqlite3_stmt *all = statement(db, "SELECT k, v FROM rows");
    sql(db, "BEGIN");
    began = own_seconds();
    while (sqlite3_step(all) == SQLITE_ROW) {
        rows++;
        got += sum_of(sqlite3_column_blob(all, 1));
    }
    p.scan = own_seconds() - began;
    if (rows != ROWS || got != sum)
        die("SQLite gave other rows");
    sqlite3_stmt *one = statement(db, "SELECT v FROM rows WHERE k = ?");
    began = seconds();
    for (uint64_t i = 0; i < GETS; i++) {
        make_row(random_next() % ROWS, key, value);
        sqlite3_bind_blob(one, 1, key, KEY_LEN, SQLITE_STATIC);
        if (sqlite3_step(one) != SQLITE_ROW || memcmp(sqlite3_column_blob(one, 0), value, value_len) != 0)
            die("SQLite gave another value");
        sqlite3_reset(one);
    }
    p.get = (seconds() - began) / GETS;
    sqlite3_finalize(put);
    sqlite3_finalize(all);
    sqlite3_finalize(one);
    sql(db, "COMMIT; PRAGMA wal_checkpoint(TRUNCATE)");
    sqlite3_close(db);
    struct stat st;
    p.bytes = stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    unlink(path);
    return p;
}

/* ---- the stage ----------------------------------------------------------------------------------------------------------- */

enum figure {
    APPEND,
    APPEND_LMDB,
    APPEND_SQLITE,
    SCAN,
    SCAN_2,
    SCAN_LIMIT,
    SCAN_LMDB,
    SCAN_SQLITE,
    SCAN_COMPACTED,
    GET,
    GET_COMPACTED,
    GET_LMDB,
    GET_SQLITE,
    COMPACT,
    COMPACT_LIMIT,
    COMPACT_WORK,
    COMPACT_WORK_LIMIT,
    BYTES,
    BYTES_COMPACTED,
    BYTES_LMDB,
    BYTES_SQLITE,
    ENTRIES,
    APPEND_GAIN,
    SCAN_GAIN,
    SCAN_GAIN_2,
    SCAN_GAIN_MOST,
    SCAN_COST,
    COMPACT_COST,
    COMPACT_WORK_COST,
    FIGURES
};

static const struct {
    const char *name, *unit;
    enum row_kind kind;
    double scale;
} figures[FIGURES] = {
    [APPEND] = { "append", "ns_per_row", ROW_OURS, 1e9 / ROWS },
    [APPEND_LMDB] = { "append_lmdb", "ns_per_row", ROW_PEER, 1e9 / ROWS },
    [APPEND_SQLITE] = { "append_sqlite", "ns_per_row", ROW_PEER, 1e9 / ROWS },
    [SCAN] = { "scan", "ns_per_row", ROW_OURS, 1e9 / ROWS },
    [SCAN_2] = { "scan_2_threads", "ns_per_row", ROW_OURS, 1e9 / ROWS },
    [SCAN_LIMIT] = { "read_and_check", "ns_per_row", ROW_LIMIT, 1e9 / ROWS },
    [SCAN_LMDB] = { "scan_lmdb", "ns_per_row", ROW_PEER, 1e9 / ROWS },
    [SCAN_SQLITE] = { "scan_sqlite", "ns_per_row", ROW_PEER, 1e9 / ROWS },
    [SCAN_COMPACTED] = { "scan_compacted", "ns_per_row", ROW_OURS, 1e9 / ROWS },
    [GET] = { "get", "us", ROW_OURS, 1e6 },
    [GET_COMPACTED] = { "get_compacted", "us", ROW_OURS, 1e6 },
    [GET_LMDB] = { "get_lmdb", "us", ROW_PEER, 1e6 },
    [GET_SQLITE] = { "get_sqlite", "us", ROW_PEER, 1e6 },
    [COMPACT] = { "compact", "ns_per_row", ROW_OURS, 1e9 / ROWS },
    [COMPACT_LIMIT] = { "zstd_write_fsync", "ns_per_row", ROW_LIMIT, 1e9 / ROWS },
    [COMPACT_WORK] = { "compact_processor", "ns_per_row", ROW_OURS, 1e9 / ROWS },
    [COMPACT_WORK_LIMIT] = { "zstd_write_processor", "ns_per_row", ROW_LIMIT, 1e9 / ROWS },
    [BYTES] = { "bytes", "per_row", ROW_OURS, 1.0 / ROWS },
    [BYTES_COMPACTED] = { "bytes_compacted", "per_row", ROW_OURS, 1.0 / ROWS },
    [BYTES_LMDB] = { "bytes_lmdb", "per_row", ROW_PEER, 1.0 / ROWS },
    [BYTES_SQLITE] = { "bytes_sqlite", "per_row", ROW_PEER, 1.0 / ROWS },
    [ENTRIES] = { "scan_entries", "millions_per_second", ROW_OURS, 1e-6 },
};

/* Beside those that are judged. */
static const struct {
    enum figure figure;
    const char *name;
    enum row_kind kind;
} ratios[] = {
    { SCAN_GAIN_2, "scan_sqlite_by_2_threads", ROW_OURS },
    { SCAN_GAIN_MOST, "scan_sqlite_by_read_and_check", ROW_LIMIT },
    { SCAN_COST, "scan_by_read_and_check", ROW_OURS },
    { COMPACT_WORK_COST, "compact_by_zstd_processor", ROW_OURS },
};

static void run_all(skade *s, uint64_t sum, double figure[FIGURES])
{
    static int number;
    char name[32];
    struct skade_compacted compacted;

    snprintf(name, sizeof name, "bench.rows%d", ++number);
    skade_table t = make_table(s, name);
    struct peer lmdb = run_lmdb(sum);
    figure[APPEND] = skade_append_rows(s, t, ROWS, BATCH);
    struct peer sqlite = run_sqlite(sum);
    figure[BYTES] = (double)table_bytes(s, t);
    figure[SCAN] = skade_scan_rows(s, t, 1, ROWS, sum);
    figure[SCAN_LIMIT] = limit_of_scan(s, t);
    figure[SCAN_2] = skade_scan_rows(s, t, 2, ROWS, sum);
    figure[GET] = skade_get_rows(s, t);
    figure[COMPACT_LIMIT] = zstd_and_write(&figure[COMPACT_WORK_LIMIT]);
    double began = daemon_processor_ns() * 1e-9;
    figure[COMPACT] = skade_compact_table(s, t, &compacted);
    figure[COMPACT_WORK] = daemon_processor_ns() * 1e-9 - began;
    figure[BYTES_COMPACTED] = (double)compacted.bytes_after;
    figure[SCAN_COMPACTED] = skade_scan_rows(s, t, 1, ROWS, sum);
    figure[GET_COMPACTED] = skade_get_rows(s, t);
    figure[APPEND_LMDB] = lmdb.append;
    figure[SCAN_LMDB] = lmdb.scan;
    figure[GET_LMDB] = lmdb.get;
    figure[BYTES_LMDB] = (double)lmdb.bytes;
    figure[APPEND_SQLITE] = sqlite.append;
    figure[SCAN_SQLITE] = sqlite.scan;
    figure[GET_SQLITE] = sqlite.get;
    figure[BYTES_SQLITE] = (double)sqlite.bytes;
    figure[APPEND_GAIN] = lmdb.append / figure[APPEND];
    figure[ENTRIES] = ROWS / figure[SCAN];
    figure[SCAN_GAIN] = sqlite.scan / figure[SCAN];
    figure[SCAN_GAIN_2] = sqlite.scan / figure[SCAN_2];
    figure[SCAN_GAIN_MOST] = sqlite.scan / figure[SCAN_LIMIT];
    figure[SCAN_COST] = figure[SCAN] / figure[SCAN_LIMIT];
    figure[COMPACT_COST] = figure[COMPACT] / figure[COMPACT_LIMIT];
    figure[COMPACT_WORK_COST] = figure[COMPACT_WORK] / figure[COMPACT_WORK_LIMIT];
    check(skade_drop(s, name, NULL), "drop", s);
    check((int)skade_gc(s, 0, SKADE_GC_NOW, NULL, NULL), "gc", s);
}

static struct measure measured(double samples[REPS][FIGURES], int reps, enum figure f, double scale)
{
    double column[REPS];

    for (int i = 0; i < reps; i++)
        column[i] = samples[i][f] * scale;
    return measure_of(column, reps);
}

static void run_size(size_t bytes, int reps)
{
    double samples[REPS][FIGURES];
    char group[32];
    skade *s = daemon_open(0);

    value_len = bytes;
    uint64_t sum = expected_sum();
    snprintf(group, sizeof group, "tables-%zu", bytes);
    for (int i = 0; i < reps; i++) {
        end_if_interrupted();
        run_all(s, sum, samples[i]);
    }
    for (int f = 0; f < APPEND_GAIN; f++)
        report_figure(group, figures[f].name, measured(samples, reps, f, figures[f].scale), figures[f].unit,
                      figures[f].kind);
    for (size_t i = 0; i < ARRAY_SIZE(ratios); i++)
        report_figure(group, ratios[i].name, measured(samples, reps, ratios[i].figure, 1), "times",
                      ratios[i].kind);
    goals_of_tables(bytes, measured(samples, reps, APPEND_GAIN, 1), measured(samples, reps, SCAN_GAIN, 1),
                    measured(samples, reps, COMPACT_COST, 1));
    if (bytes == 8)
        goals_of_small_rows(measured(samples, reps, ENTRIES, 1e-6), measured(samples, reps, COMPACT, 1));
    skade_close(s);
}

/* How many bytes are there for a byte of rows, and what does a scan cost, after many commits of one row? */
static void run_tiny(void)
{
    skade *s = daemon_open(0);
    skade_table t = make_table(s, "bench.tiny");
    struct skade_compacted compacted;

    value_len = 8;
    skade_append_rows(s, t, TINY, 1);
    double bytes = (double)table_bytes(s, t), payload = (double)TINY * (KEY_LEN + 8);
    double before = skade_scan_rows(s, t, 1, TINY, 0);
    skade_compact_table(s, t, &compacted);
    double after = skade_scan_rows(s, t, 1, TINY, 0);
    report_figure("tables-tiny", "bytes_read_by_payload", (struct measure){ bytes / payload, 0 }, "times",
                  ROW_OURS);
    report_figure("tables-tiny", "bytes_read_by_payload_compacted",
                  (struct measure){ (double)compacted.bytes_after / payload, 0 }, "times", ROW_OURS);
    report_figure("tables-tiny", "scan", (struct measure){ before * 1e9 / TINY, 0 }, "ns_per_row", ROW_OURS);
    report_figure("tables-tiny", "scan_compacted", (struct measure){ after * 1e9 / TINY, 0 }, "ns_per_row",
                  ROW_OURS);
    skade_close(s);
}

void stage_tables(int reps)
{
    daemon_start("full");
    run_size(8, reps < REPS ? reps : REPS);
    run_size(200, reps < REPS ? reps : REPS);
    run_tiny();
    daemon_stop();
}
