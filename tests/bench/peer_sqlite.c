/*
 * SQLite by a prepared statement inside a read transaction, its pages mapped and in its cache.
 *
 * Two schemas that tell equal ids of two tables apart; the goals take whichever is faster.  `pair`: WITHOUT ROWID,
 * primary key (table, id).  `mixed`: table and id mixed into the rowid, the table beside it and compared.  Locations are
 * blobs, which spares SQLite the copy that terminates a text.
 */
#include "bench.h"

#include "mix.h"
#include "synthetic.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

struct sqlite {
    sqlite3 *db;
    sqlite3_stmt *pair, *mixed;
};

static void run(struct sqlite *l, const char *sql)
{
    if (sqlite3_exec(l->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        die("sqlite: %s: %s", sql, sqlite3_errmsg(l->db));
}

static sqlite3_stmt *prepare(struct sqlite *l, const char *sql)
{
    sqlite3_stmt *ret;

    if (sqlite3_prepare_v3(l->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &ret, NULL) != SQLITE_OK)
        die("sqlite: %s: %s", sql, sqlite3_errmsg(l->db));
    return ret;
}

static void path_of(char *ret, size_t size)
{
    snprintf(ret, size, "%s/sqlite", place_folder());
}

/* ---- loading ------------------------------------------------------------------------------------------------------ */

/* Both tables have (number, table, location); keys ascend as SQLite compares them. */
static void load(struct sqlite *l, const char *sql, struct sorted_key *keys, uint64_t n, uint64_t flip)
{
    char text[SYNTHETIC_LOCATION_MAX];
    sqlite3_stmt *insert = prepare(l, sql);

    run(l, "BEGIN");
    for (uint64_t i = 0; i < n; i++) {
        int len = synthetic_location(text, keys[i].table, keys[i].version);
        sqlite3_bind_int64(insert, 1, (int64_t)(keys[i].key ^ flip));
        sqlite3_bind_int64(insert, 2, keys[i].table);
        sqlite3_bind_blob(insert, 3, text, len, SQLITE_STATIC);
        if (sqlite3_step(insert) != SQLITE_DONE)
            die("sqlite: insert: %s", sqlite3_errmsg(l->db));
        sqlite3_reset(insert);
    }
    run(l, "COMMIT");
    sqlite3_finalize(insert);
    free(keys);
}

static void create(struct sqlite *l)
{
    run(l, "PRAGMA journal_mode = off");
    run(l, "PRAGMA synchronous = off");
    run(l, "PRAGMA mmap_size = 8589934592");
    run(l, "PRAGMA cache_size = -3000000");
    run(l, "CREATE TABLE pair (id INTEGER NOT NULL, tbl INTEGER NOT NULL, location BLOB NOT NULL, "
           "PRIMARY KEY (tbl, id)) WITHOUT ROWID");
    run(l, "CREATE TABLE mixed (k INTEGER PRIMARY KEY, tbl INTEGER NOT NULL, location BLOB NOT NULL)");
}

/* The transaction that stays open; the first read begins it. */
static void begin_reading(struct sqlite *l)
{
    l->pair = prepare(l, "SELECT location FROM pair WHERE tbl = ?1 AND id = ?2");
    l->mixed = prepare(l, "SELECT location FROM mixed WHERE k = ?2 AND tbl = ?1");
    run(l, "BEGIN; SELECT count(*) FROM (SELECT 1 FROM pair LIMIT 1)");
}

struct sqlite *sqlite_fill(const struct history *h)
{
    struct sqlite *l = allocate(sizeof *l);
    char path[512];

    path_of(path, sizeof path);
    if (sqlite3_open(path, &l->db) != SQLITE_OK)
        die("sqlite: %s: %s", path, sqlite3_errmsg(l->db));
    create(l);
    load(l, "INSERT INTO pair VALUES (?1, ?2, ?3)", history_by_id(h), history_rows(h), 0);
    load(l, "INSERT INTO mixed VALUES (?1, ?2, ?3)", history_by_mixed_key(h), history_rows(h), MIX_SIGN);
    begin_reading(l);
    return l;
}

void sqlite_close(struct sqlite *l)
{
    char path[512];

    sqlite3_finalize(l->pair);
    sqlite3_finalize(l->mixed);
    sqlite3_close(l->db);
    path_of(path, sizeof path);
    unlink(path);
    free(l);
}

/* ---- rows ------------------------------------------------------------------------------------------------------------ */

static inline void look_up(sqlite3_stmt *select, uint32_t table, int64_t number, struct skade_answer *a)
{
    a->status = 0;
    sqlite3_bind_int64(select, 1, table);
    sqlite3_bind_int64(select, 2, number);
    if (sqlite3_step(select) == SQLITE_ROW) {
        const void *text = sqlite3_column_blob(select, 0);
        size_t len = (size_t)sqlite3_column_bytes(select, 0);
        memcpy(a->location, text, len);
        a->location[len] = 0;
        a->location_len = (uint32_t)len;
        a->status = 1;
    }
    sqlite3_reset(select);
}

void sqlite_pair(void *arg, const struct question *q, size_t n)
{
    const struct sqlite *l = arg;

    for (size_t i = 0; i < n; i++)
        look_up(l->pair, q[i].table, q[i].id, &answers[i % WINDOW]);
}

void sqlite_mixed(void *arg, const struct question *q, size_t n)
{
    const struct sqlite *l = arg;

    for (size_t i = 0; i < n; i++) {
        int64_t key = (int64_t)(mixed_key(q[i].table, q[i].id) ^ MIX_SIGN);
        look_up(l->mixed, q[i].table, key, &answers[i % WINDOW]);
    }
}
