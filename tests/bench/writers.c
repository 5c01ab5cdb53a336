/*
 * Many processes that each write one SQLite file, a transaction a commit, with the pragmas of skade's log: what PyIceberg's
 * SQL catalog does.  Its table, and the statement by which it commits: the head is replaced where it is what the writer
 * thinks it is.
 *
 * Each process has a table of the catalog for itself, so nobody loses a race; what is left is the file that all of them want.
 */
#include "bench.h"

#include "synthetic.h"

#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define BUSY_MS 60000

/* Shared with all writers; each writes what is of its table. */
struct tally {
    double until_ns;               /* set before they start */
    uint32_t version[WRITERS_MAX]; /* of each table's head */
    uint64_t in_time[WRITERS_MAX]; /* commits of this round that were done before the end */
};

struct writers {
    struct tally *tally;
    char path[512];
};

static void run(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        die("sqlite: %s: %s", sql, sqlite3_errmsg(db));
}

static sqlite3 *open_catalog(const char *path)
{
    sqlite3 *db;

    if (sqlite3_open(path, &db) != SQLITE_OK)
        die("sqlite: %s: %s", path, sqlite3_errmsg(db));
    sqlite3_busy_timeout(db, BUSY_MS);
    run(db, "PRAGMA journal_mode = wal");
    run(db, "PRAGMA synchronous = full");
    run(db, "PRAGMA cache_size = -8192");
    run(db, "PRAGMA journal_size_limit = 67108864");
    return db;
}

/* ---- a writer ---------------------------------------------------------------------------------------------------- */

static void bind(sqlite3_stmt *s, int place, const char *text)
{
    sqlite3_bind_text(s, place, text, -1, SQLITE_STATIC);
}

static void commit_one(sqlite3 *db, sqlite3_stmt *update, uint32_t table, uint32_t version)
{
    char name[32], now[SYNTHETIC_LOCATION_MAX], before[SYNTHETIC_LOCATION_MAX];

    synthetic_table(name, table);
    synthetic_location(now, table, version);
    synthetic_location(before, table, version - 1);
    bind(update, 1, now);
    bind(update, 2, before);
    bind(update, 3, name);
    bind(update, 4, before);
    run(db, "BEGIN");
    if (sqlite3_step(update) != SQLITE_DONE || sqlite3_changes(db) != 1)
        die("sqlite: commit: %s", sqlite3_errmsg(db));
    sqlite3_reset(update);
    run(db, "COMMIT");
}

static sqlite3_stmt *prepare_commit(sqlite3 *db)
{
    sqlite3_stmt *ret;

    if (sqlite3_prepare_v3(
            db,
            "UPDATE iceberg_tables SET metadata_location = ?1, previous_metadata_location = ?2 "
            "WHERE catalog_name = 'lake' AND table_namespace = 'events' AND table_name = ?3 AND "
            "metadata_location = ?4",
            -1, SQLITE_PREPARE_PERSISTENT, &ret, NULL) != SQLITE_OK)
        die("sqlite: %s", sqlite3_errmsg(db));
    return ret;
}

/* Ready, then at work from the moment that the pipe ends.  Leaves without closing: the last one who closes would fold the
 * write-ahead file into the other, which nobody's round should pay for. */
static _Noreturn void be_writer(const struct writers *w, uint32_t table, int ready, int go)
{
    struct tally *tally = w->tally;
    char byte = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sqlite3 *db = open_catalog(w->path);
    sqlite3_stmt *update = prepare_commit(db);
    if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 0)
        _exit(1);
    while (now_ns() < tally->until_ns) {
        commit_one(db, update, table, ++tally->version[table]);
        tally->in_time[table] += now_ns() < tally->until_ns;
    }
    _exit(0);
}

/* ---- all of them --------------------------------------------------------------------------------------------------- */

static void start_writer(const struct writers *w, uint32_t table, const int *ready, const int *go)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        die("fork: %s", strerror(errno));
    if (pid > 0)
        return;
    close(go[1]);
    be_writer(w, table, ready[1], go[0]);
}

static void await_writers(int ready, uint32_t n)
{
    char byte;

    for (uint32_t i = 0; i < n; i++)
        if (read(ready, &byte, 1) != 1)
            die("a process that writes SQLite's file doesn't start");
}

static void bury_writers(uint32_t n)
{
    int status;

    for (uint32_t i = 0; i < n; i++)
        if (waitpid(-getpgrp(), &status, 0) < 0 || status != 0)
            die("a process that writes SQLite's file failed");
}

double writers_rate(struct writers *w, uint32_t n, double seconds)
{
    int ready[2], go[2];
    uint64_t sum = 0;

    if (pipe(ready) < 0 || pipe(go) < 0)
        die("pipe: %s", strerror(errno));
    memset(w->tally->in_time, 0, sizeof w->tally->in_time);
    for (uint32_t i = 0; i < n; i++)
        start_writer(w, i, ready, go);
    close(ready[1]); /* who dies early is missed */
    await_writers(ready[0], n);
    w->tally->until_ns = now_ns() + seconds * 1e9;
    close(go[1]);
    bury_writers(n);
    close(ready[0]);
    close(go[0]);
    for (uint32_t i = 0; i < n; i++)
        sum += w->tally->in_time[i];
    return (double)sum / seconds;
}

static void create_tables(const char *path)
{
    char name[32], location[SYNTHETIC_LOCATION_MAX];
    sqlite3 *db = open_catalog(path);
    sqlite3_stmt *insert;

    run(db, "CREATE TABLE iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) "
            "NOT NULL, "
            "table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), previous_metadata_location "
            "VARCHAR(1000), PRIMARY KEY (catalog_name, table_namespace, table_name))");
    if (sqlite3_prepare_v2(db, "INSERT INTO iceberg_tables VALUES ('lake', 'events', ?1, ?2, NULL)", -1,
                           &insert, NULL) != SQLITE_OK)
        die("sqlite: %s", sqlite3_errmsg(db));
    run(db, "BEGIN");
    for (uint32_t i = 0; i < WRITERS_MAX; i++) {
        bind(insert, 1, synthetic_table(name, i));
        synthetic_location(location, i, 0);
        bind(insert, 2, location);
        if (sqlite3_step(insert) != SQLITE_DONE)
            die("sqlite: insert: %s", sqlite3_errmsg(db));
        sqlite3_reset(insert);
    }
    run(db, "COMMIT");
    sqlite3_finalize(insert);
    sqlite3_close(db);
}

struct writers *writers_open(void)
{
    struct writers *w = allocate(sizeof *w);

    w->tally = mmap(NULL, sizeof *w->tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (w->tally == MAP_FAILED)
        die("no memory for the writers' tally");
    snprintf(w->path, sizeof w->path, "%s/catalog.db", place_folder());
    create_tables(w->path);
    return w;
}

/* Every table's head must be the last that its writer committed.  How many are not. */
static uint64_t judge_heads(const struct writers *w)
{
    char location[SYNTHETIC_LOCATION_MAX], name[32];
    sqlite3 *db = open_catalog(w->path);
    sqlite3_stmt *select;
    uint64_t wrong = 0;

    if (sqlite3_prepare_v2(db, "SELECT metadata_location FROM iceberg_tables WHERE table_name = ?1", -1,
                           &select, NULL) != SQLITE_OK)
        die("sqlite: %s", sqlite3_errmsg(db));
    for (uint32_t i = 0; i < WRITERS_MAX; i++) {
        bind(select, 1, synthetic_table(name, i));
        synthetic_location(location, i, w->tally->version[i]);
        wrong += sqlite3_step(select) != SQLITE_ROW ||
                 strcmp((const char *)sqlite3_column_text(select, 0), location) != 0;
        sqlite3_reset(select);
    }
    sqlite3_finalize(select);
    sqlite3_close(db);
    return wrong;
}

void writers_close(struct writers *w)
{
    if (judge_heads(w) > 0)
        die("SQLite's catalog is not what its writers made of it");
    unlink(w->path);
    munmap(w->tally, sizeof *w->tally);
    free(w);
}
