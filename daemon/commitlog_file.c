/*
 * One database file of the commit log: connecting, settings, tables, looking it over, reading it.
 *
 * Two tables. `log` has a row per event and no index but its key, so every insert lands on the last page
 * and a scan is sequential. `meta` has one row with what the log says about itself, a checksum over it,
 * and the newest event's sequence number and chain value, written in the same transaction as the event:
 * so the newest rows can't vanish unnoticed either, which the chain alone would not show.
 *
 * Version 1 had no `incarnation`: there it is the origin.  Such a file is read as it is, and gets the newest
 * tables in the transaction that first writes to it.
 *
 * SQLite trusts what it reads of a file's structure.  Where a wrong bit would make it overwrite good
 * pages later (the page count, a free list, auto-vacuum), logfile_inspect() looks, in constant time.
 *
 * 64-bit numbers are kept as the same bits in SQLite's signed ones.
 */
#include "commitlog_file.h"

#include "checksum.h"
#include "format.h"
#include "world.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define APPLICATION_ID 0x736b6164 /* "skad" */
#define PAGE_SIZE 4096

/* ---- errors ---------------------------------------------------------------------------------------- */

static const struct {
    int rc;
    int code;
    const char *cure;
} meanings[] = {
    { SQLITE_FULL, SKADE_EFULL, "make room" },
    { SQLITE_NOMEM, -ENOMEM, "give it more memory" },
    { SQLITE_BUSY, SKADE_ERUNNING, "another process has it open: stop that first" },
    { SQLITE_LOCKED, SKADE_ERUNNING, "another process has it open: stop that first" },
    { SQLITE_NOTADB, SKADE_EFOREIGN, "it is no database: move it away, or restore a backup if it was a log" },
    { SQLITE_CORRUPT, SKADE_EDAMAGED, "see whether the disk is well, then restore a backup" },
    { SQLITE_TOOBIG, SKADE_EDAMAGED, "see whether the disk is well, then restore a backup" },
    { SQLITE_ERROR, SKADE_EDAMAGED, "see whether the disk is well, then restore a backup" },
    { SQLITE_CONSTRAINT, SKADE_EDAMAGED, "see whether the disk is well, then restore a backup" },
};

int logfile_errno(const struct logfile *f, enum logfile_part part)
{
    sqlite3_file *file = NULL;
    int error = 0;

    if (part == LOGFILE_DATABASE)
        sqlite3_file_control(f->db, "main", SQLITE_FCNTL_LAST_ERRNO, &error);
    else if (sqlite3_file_control(f->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file) == SQLITE_OK && file &&
             file->pMethods)
        file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &error);
    return error;
}

/* What the system said when SQLite gave RC.  sqlite3_system_errno() knows only some of it. */
static int system_error(const struct logfile *f, int rc)
{
    struct statvfs fs;
    int error = sqlite3_system_errno(f->db);

    if ((rc & 0xff) == SQLITE_IOERR && error == 0)
        error = logfile_errno(f, LOGFILE_DATABASE);
    if ((rc & 0xff) == SQLITE_IOERR && error == 0)
        error = logfile_errno(f, LOGFILE_WAL);
    /* When a file can't be made SQLite tries to open one for reading, and the first error is gone. */
    if ((rc & 0xff) == SQLITE_CANTOPEN && statvfs(f->path, &fs) == 0 && fs.f_files > 0 && fs.f_favail == 0)
        error = ENOSPC;
    return error ? error : EIO;
}

int logfile_error(const struct logfile *f, int rc, struct errmsg *msg, const char *doing)
{
    const char *why = f->db ? sqlite3_errmsg(f->db) : sqlite3_errstr(rc);
    int error = f->db ? system_error(f, rc) : EIO;

    if (logdir_means_full(error))
        rc = SQLITE_FULL;
    for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
        if ((rc & 0xff) == meanings[i].rc)
            return fail(msg, meanings[i].code, "%s: can't %s: %s; %s", f->path, doing, why, meanings[i].cure);
    return fail(msg, -error, "%s: can't %s: %s (%s)", f->path, doing, why, error_text(-error));
}

static int damaged(const struct logfile *f, struct errmsg *msg, const char *what)
{
    return fail(msg, SKADE_EDAMAGED, "%s: %s: see whether the disk is well, then restore a backup", f->path,
                what);
}

/* ---- small steps ----------------------------------------------------------------------------------- */

int logfile_prepare(struct logfile *f, const char *sql, sqlite3_stmt **ret)
{
    if (*ret)
        return SQLITE_OK;
    return sqlite3_prepare_v3(f->db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL);
}

int logfile_run(struct logfile *f, const char *sql)
{
    return sqlite3_exec(f->db, sql, NULL, NULL, NULL);
}

int logfile_step_once(sqlite3_stmt *s)
{
    int rc = sqlite3_step(s);
    int reset = sqlite3_reset(s);
    if (rc == SQLITE_DONE || rc == SQLITE_ROW)
        return reset;
    return rc;
}

/* The one row that SQL gives; the caller finalizes.  SQLITE_ROW, SQLITE_DONE when there is none, or an
 * error. */
static int query(struct logfile *f, const char *sql, sqlite3_stmt **ret)
{
    *ret = NULL;
    int rc = sqlite3_prepare_v2(f->db, sql, -1, ret, NULL);
    return rc == SQLITE_OK ? sqlite3_step(*ret) : rc;
}

/* The value of the first column as text; "" when there is none. */
static int query_text(struct logfile *f, const char *sql, char *ret, size_t cap)
{
    sqlite3_stmt *s;
    int rc = query(f, sql, &s);
    const char *text = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;

    snprintf(ret, cap, "%s", text ? text : "");
    sqlite3_finalize(s);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* ---- settings -------------------------------------------------------------------------------------- */

/*
 * In this order.  The first table is for a connection that has not touched the file yet: the lock must be
 * exclusive from the first access on, and what protects from a hostile file must come before its first
 * page is read.  The second is for a file that turned out to be a log and is written.
 */
struct setting {
    const char *name;
    const char *value;
    const char *reads; /* what the setting reads as afterwards */
    unsigned uses;     /* enum logfile_use */
};

#define ALL (LOGFILE_OWN | LOGFILE_LOOK | LOGFILE_SEALED | LOGFILE_COPY)

static const struct setting settings_before[] = {
    { "locking_mode", "EXCLUSIVE", "exclusive", LOGFILE_OWN | LOGFILE_LOOK | LOGFILE_COPY },
    { "mmap_size", "0", "0", ALL }, /* a bad disk must be an error, not SIGBUS */
    { "trusted_schema", "OFF", "0", ALL },
    { "cell_size_check", "ON", "1", ALL },
    { "temp_store", "MEMORY", "2", ALL },
    { "busy_timeout", "0", "0", ALL },
    { "query_only", "ON", "1", LOGFILE_LOOK | LOGFILE_SEALED },
    { "page_size", "4096", "4096", LOGFILE_OWN }, /* of a new file; an old one's is looked at later */
    { "journal_mode", "MEMORY", "memory", LOGFILE_COPY },
    { "synchronous", "OFF", "0", LOGFILE_COPY },
};

static const struct setting settings_own[] = {
    { "journal_mode", "WAL", "wal", LOGFILE_OWN },
    { "wal_autocheckpoint", "0", "0", LOGFILE_OWN },
    { "journal_size_limit", "67108864", "67108864", LOGFILE_OWN },
    { "cache_size", "-8192", "-8192", LOGFILE_OWN },
};

static const struct setting settings_sync[] = {
    [LOGFILE_SYNC_OFF] = { "synchronous", "OFF", "0", LOGFILE_OWN },
    [LOGFILE_SYNC_NORMAL] = { "synchronous", "NORMAL", "1", LOGFILE_OWN },
    [LOGFILE_SYNC_FULL] = { "synchronous", "FULL", "2", LOGFILE_OWN },
};

/* Make the setting, then ask: a library that was built otherwise ignores some of them without a word. */
static int set(struct logfile *f, const struct setting *s, struct errmsg *msg)
{
    char sql[80], reads[32];

    snprintf(sql, sizeof sql, "PRAGMA %s=%s", s->name, s->value);
    int rc = logfile_run(f, sql);
    if (rc == SQLITE_OK) {
        snprintf(sql, sizeof sql, "PRAGMA %s", s->name);
        rc = query_text(f, sql, reads, sizeof reads);
    }
    if (rc != SQLITE_OK)
        return logfile_error(f, rc, msg, sql);
    if (strcmp(reads, s->reads) != 0)
        return fail(msg, -ENOTSUP,
                    "%s: this SQLite (%s) doesn't take %s=%s, it says \"%s\": use another build of it",
                    f->path, sqlite3_libversion(), s->name, s->value, reads);
    return 0;
}

static int set_all(struct logfile *f, const struct setting *settings, size_t n, struct errmsg *msg)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++)
        if (settings[i].uses & f->use)
            r = set(f, &settings[i], msg);
    return r;
}

/* What our few statements and rows need, and not more. */
static void set_limits(sqlite3 *db)
{
    static const struct {
        int id;
        int value;
    } limits[] = {
        { SQLITE_LIMIT_LENGTH, 65536 },
        { SQLITE_LIMIT_SQL_LENGTH, 4096 },
        { SQLITE_LIMIT_COLUMN, 32 },
        { SQLITE_LIMIT_EXPR_DEPTH, 16 },
        { SQLITE_LIMIT_COMPOUND_SELECT, 2 },
        { SQLITE_LIMIT_FUNCTION_ARG, 8 },
        { SQLITE_LIMIT_ATTACHED, 0 },
        { SQLITE_LIMIT_VARIABLE_NUMBER, 16 },
        { SQLITE_LIMIT_TRIGGER_DEPTH, 1 },
        { SQLITE_LIMIT_WORKER_THREADS, 0 },
        { SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 64 },
    };
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
        sqlite3_limit(db, limits[i].id, limits[i].value);
}

static int set_switches(struct logfile *f, struct errmsg *msg)
{
    static const struct {
        int id;
        int on;
    } switches[] = {
        { SQLITE_DBCONFIG_DEFENSIVE, 1 },
        { SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
        { SQLITE_DBCONFIG_ENABLE_TRIGGER, 0 },
        { SQLITE_DBCONFIG_ENABLE_VIEW, 0 },
        { SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0 },
    };
    for (size_t i = 0; i < ARRAY_SIZE(switches); i++) {
        int now = -1;
        int rc = sqlite3_db_config(f->db, switches[i].id, switches[i].on, &now);
        if (rc != SQLITE_OK || now != switches[i].on)
            return fail(msg, -ENOTSUP,
                        "%s: this SQLite (%s) lacks a safety switch (%d): use another build of it", f->path,
                        sqlite3_libversion(), switches[i].id);
    }
    return 0;
}

/* ---- connecting ------------------------------------------------------------------------------------ */

/* "file:" and PATH with everything escaped that means something in a URI. */
static void path_to_uri(const char *path, char *uri)
{
    uri = stpcpy(uri, "file:");
    for (; *path; path++) {
        unsigned char c = (unsigned char)*path;
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("/._-", c))
            *uri++ = (char)c;
        else
            uri += sprintf(uri, "%%%02X", c);
    }
    strcpy(uri, "?immutable=1");
}

static void look_for_wal(struct logfile *f)
{
    char wal[LOG_PATH_MAX + 8];
    struct stat st;

    snprintf(wal, sizeof wal, "%s-wal", f->path);
    if (lstat(wal, &st) < 0)
        return;
    f->wal = st.st_size == 0 ? WAL_EMPTY : WAL_USED;
    f->wal_bytes = (uint64_t)st.st_size;
    f->keep_wal = true;
}

static int connect_to(struct logfile *f)
{
    char uri[3 * LOG_PATH_MAX + 32];
    int flags = SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;

    assert(f->path[0] == '/'); /* a path that begins with "file:" would be a URI */
    if (f->use == LOGFILE_SEALED) {
        path_to_uri(f->path, uri);
        return sqlite3_open_v2(uri, &f->db, flags | SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    }
    return sqlite3_open_v2(f->path, &f->db, flags | SQLITE_OPEN_READWRITE, NULL);
}

/* SQLite opens for reading what it can't open for writing, and takes a header that asks for a later
 * SQLite so too. */
static int check_writable(const struct logfile *f, struct errmsg *msg)
{
    if (f->use == LOGFILE_SEALED || !sqlite3_db_readonly(f->db, "main"))
        return 0;
    return fail(msg, -EROFS,
                "%s: can't be written to: see whether its file system is read-only, and its mode", f->path);
}

int logfile_open(struct logfile *f, const char *path, enum logfile_use use, struct errmsg *msg)
{
    *f = (struct logfile){ .use = use, .wal = WAL_MISSING };
    snprintf(f->path, sizeof f->path, "%s", path);
    look_for_wal(f);
    if (sqlite3_libversion_number() < 3037000 || !sqlite3_threadsafe())
        return fail(msg, -ENOTSUP, "%s: SQLite %s is too old or not made for threads: skade needs 3.37", path,
                    sqlite3_libversion());

    int rc = connect_to(f);
    int r = rc == SQLITE_OK ? set_switches(f, msg) : logfile_error(f, rc, msg, "open it");
    if (r == 0)
        r = check_writable(f, msg);
    if (r == 0) {
        set_limits(f->db);
        r = set_all(f, settings_before, ARRAY_SIZE(settings_before), msg);
    }
    if (r < 0)
        logfile_close(f);
    return r;
}

void logfile_close(struct logfile *f)
{
    if (!f->db)
        return;
    sqlite3_finalize(f->select);
    sqlite3_finalize(f->put_meta);
    /* Otherwise the last connection writes the write-ahead log into the database file and removes it. */
    sqlite3_db_config(f->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, f->keep_wal, NULL);
    int rc = sqlite3_close(f->db);
    assert(rc == SQLITE_OK); /* else a statement was forgotten */
    (void)rc;
    f->db = NULL;
    f->select = f->put_meta = NULL;
}

int logfile_settle(struct logfile *f, enum logfile_sync sync, struct errmsg *msg)
{
    int r = set_all(f, settings_own, ARRAY_SIZE(settings_own), msg);
    return r == 0 ? set_all(f, &settings_sync[sync], 1, msg) : r;
}

uint64_t logfile_bytes(const struct logfile *f)
{
    struct stat st;
    return stat(f->path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* ---- tables ---------------------------------------------------------------------------------------- */

/* Kept by SQLite word for word: a changed space makes another version. */
#define LOG_TABLE                                                                               \
    "CREATE TABLE log(seq INTEGER PRIMARY KEY, kind INTEGER NOT NULL, flags INTEGER NOT NULL, " \
    "table_no INTEGER NOT NULL, snapshot INTEGER NOT NULL, time_us INTEGER NOT NULL, "          \
    "watermark INTEGER NOT NULL, uuid BLOB NOT NULL, text BLOB NOT NULL, text2 BLOB NOT NULL, " \
    "chain INTEGER NOT NULL) STRICT"
#define META_TABLE_1                                                                        \
    "CREATE TABLE meta(one INTEGER PRIMARY KEY, log BLOB NOT NULL, seed INTEGER NOT NULL, " \
    "created_us INTEGER NOT NULL, last_seq INTEGER NOT NULL, last_chain INTEGER NOT NULL, " \
    "last_epoch INTEGER NOT NULL, clean_stop INTEGER NOT NULL, in_use INTEGER NOT NULL, "   \
    "checksum INTEGER NOT NULL) STRICT"
#define META_TABLE_2                                                                            \
    "CREATE TABLE meta(one INTEGER PRIMARY KEY, log BLOB NOT NULL, incarnation BLOB NOT NULL, " \
    "seed INTEGER NOT NULL, created_us INTEGER NOT NULL, last_seq INTEGER NOT NULL, "           \
    "last_chain INTEGER NOT NULL, last_epoch INTEGER NOT NULL, clean_stop INTEGER NOT NULL, "   \
    "in_use INTEGER NOT NULL, checksum INTEGER NOT NULL) STRICT"

#define META_NUMBERS "seed, created_us, last_seq, last_chain, last_epoch, clean_stop, in_use, checksum"
#define META_COLUMNS 11
#define META_REPLACE \
    "REPLACE INTO meta(one, log, incarnation, " META_NUMBERS ") VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
#define ROWS_SELECT                                                                             \
    "SELECT seq, kind, flags, table_no, snapshot, time_us, watermark, uuid, text, text2, chain" \
    " FROM log WHERE seq > ? AND seq <= ? ORDER BY seq"

/* Each version: the statements that make it of the one before (0 is an empty file), what `meta` is then, and
 * how its row is read. */
static const struct {
    const char *steps[3];
    const char *meta;
    const char *select;
} versions[] = {
    [1] = { { LOG_TABLE, META_TABLE_1, "PRAGMA application_id=1936417124" },
            META_TABLE_1,
            "SELECT one, log, log, " META_NUMBERS " FROM meta" },
    /* The row is written again anyway: in memory we have it. */
    [2] = { { "DROP TABLE meta", META_TABLE_2 },
            META_TABLE_2,
            "SELECT one, log, incarnation, " META_NUMBERS " FROM meta" },
};
_Static_assert(APPLICATION_ID == 1936417124, "as in the first step");
#define NEWEST_VERSION ((int64_t)ARRAY_SIZE(versions) - 1)

bool logfile_is_old(const struct logfile *f)
{
    return f->version < NEWEST_VERSION;
}

int logfile_upgrade(struct logfile *f)
{
    char sql[64];
    int rc = SQLITE_OK;

    for (int64_t v = f->version + 1; v <= NEWEST_VERSION; v++)
        for (size_t i = 0; rc == SQLITE_OK && i < ARRAY_SIZE(versions[v].steps); i++)
            if (versions[v].steps[i])
                rc = logfile_run(f, versions[v].steps[i]);
    snprintf(sql, sizeof sql, "PRAGMA user_version=%d", (int)NEWEST_VERSION);
    return rc == SQLITE_OK ? logfile_run(f, sql) : rc;
}

void logfile_upgraded(struct logfile *f)
{
    f->version = NEWEST_VERSION;
}

/* ---- the meta row ---------------------------------------------------------------------------------- */

/* What the row's checksum is over; in version 1 without the last field. */
struct meta_image {
    struct uuid origin;
    uint64_t seed;
    int64_t created_us;
    uint64_t last_seq;
    uint64_t last_chain;
    uint64_t last_epoch;
    uint64_t clean_stop;
    uint64_t in_use;
    struct uuid incarnation;
};
AT(meta_image, incarnation, 72);
SIZE(meta_image, 88);

static uint64_t meta_checksum(const struct logfile_meta *m, int64_t version)
{
    struct meta_image image = {
        .origin = m->pub.origin,
        .seed = m->pub.seed,
        .created_us = m->pub.created_us,
        .last_seq = m->pub.last_seq,
        .last_chain = m->pub.last_chain,
        .last_epoch = m->pub.last_epoch,
        .clean_stop = m->pub.clean_stop,
        .in_use = m->in_use,
        .incarnation = m->pub.log,
    };
    return checksum(&image, version == 1 ? offsetof(struct meta_image, incarnation) : sizeof image, 0);
}

int logfile_put_meta(struct logfile *f, const struct logfile_meta *m)
{
    int rc = logfile_prepare(f, META_REPLACE, &f->put_meta);
    if (rc != SQLITE_OK)
        return rc;
    const int64_t numbers[] = {
        (int64_t)m->pub.seed,
        m->pub.created_us,
        (int64_t)m->pub.last_seq,
        (int64_t)m->pub.last_chain,
        (int64_t)m->pub.last_epoch,
        m->pub.clean_stop,
        m->in_use,
        (int64_t)meta_checksum(m, NEWEST_VERSION),
    };
    rc = sqlite3_bind_blob(f->put_meta, 1, &m->pub.origin, sizeof m->pub.origin, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(f->put_meta, 2, &m->pub.log, sizeof m->pub.log, SQLITE_STATIC);
    for (int i = 0; rc == SQLITE_OK && i < (int)ARRAY_SIZE(numbers); i++)
        rc = sqlite3_bind_int64(f->put_meta, i + 3, numbers[i]);
    return rc == SQLITE_OK ? logfile_step_once(f->put_meta) : rc;
}

static bool take_uuid(sqlite3_stmt *s, int column, struct uuid *ret)
{
    const void *bytes = sqlite3_column_blob(s, column); /* before its length, says SQLite's manual */

    if (sqlite3_column_bytes(s, column) != sizeof *ret)
        return false;
    memcpy(ret, bytes, sizeof *ret);
    return true;
}

/* Take the row that S stands on; false when it isn't one that logfile_put_meta() of VERSION wrote. */
static bool take_meta(sqlite3_stmt *s, int64_t version, struct logfile_meta *ret)
{
    struct logfile_meta m = { 0 };

    for (int i = 0; i < META_COLUMNS; i++)
        if (sqlite3_column_type(s, i) != (i == 1 || i == 2 ? SQLITE_BLOB : SQLITE_INTEGER))
            return false;
    if (sqlite3_column_int64(s, 0) != 1 || !take_uuid(s, 1, &m.pub.origin) || !take_uuid(s, 2, &m.pub.log))
        return false;
    m.pub.seed = (uint64_t)sqlite3_column_int64(s, 3);
    m.pub.created_us = sqlite3_column_int64(s, 4);
    m.pub.last_seq = (uint64_t)sqlite3_column_int64(s, 5);
    m.pub.last_chain = (uint64_t)sqlite3_column_int64(s, 6);
    m.pub.last_epoch = (uint64_t)sqlite3_column_int64(s, 7);
    m.pub.clean_stop = sqlite3_column_int64(s, 8) != 0;
    m.in_use = sqlite3_column_int64(s, 9) != 0;
    *ret = m;
    return meta_checksum(&m, version) == (uint64_t)sqlite3_column_int64(s, 10) && m.pub.last_seq <= INT64_MAX;
}

static int load_meta(struct logfile *f, struct errmsg *msg)
{
    sqlite3_stmt *s;
    int rc = query(f, versions[f->version].select, &s);
    int r = 0;

    if (rc == SQLITE_ROW) {
        if (!take_meta(s, f->version, &f->meta) || (rc = sqlite3_step(s)) == SQLITE_ROW)
            r = damaged(f, msg, "what it says about itself doesn't fit its checksum");
    } else if (rc == SQLITE_DONE) {
        r = damaged(f, msg, "it says nothing about itself");
    }
    if (r == 0 && rc != SQLITE_DONE)
        r = logfile_error(f, rc, msg, "read what it says about itself");
    sqlite3_finalize(s);
    f->meta.pub.bytes = logfile_bytes(f);
    return r;
}

/* A random UUID, RFC 4122. */
static int new_uuid(struct uuid *ret, struct errmsg *msg)
{
    if (world.random(ret, sizeof *ret) < 0)
        return fail(msg, -EIO, "the system gives no random bytes for a new log");
    ret->b[6] = (ret->b[6] & 0x0f) | 0x40;
    ret->b[8] = (ret->b[8] & 0x3f) | 0x80;
    return 0;
}

static int new_identity(struct logfile_meta *ret, struct errmsg *msg)
{
    struct logfile_meta m = { 0 };

    int r = new_uuid(&m.pub.origin, msg);
    if (r < 0)
        return r;
    if (world.random(&m.pub.seed, sizeof m.pub.seed) < 0)
        return fail(msg, -EIO, "the system gives no random bytes for a new log");
    m.pub.log = m.pub.origin;
    m.pub.created_us = world.wall_us();
    m.pub.last_chain = commitlog_chain_start(&m.pub.origin, m.pub.seed);
    *ret = m;
    return 0;
}

int logfile_rename(struct logfile *f, struct errmsg *msg)
{
    return new_uuid(&f->meta.pub.log, msg);
}

/* ---- making and sealing ---------------------------------------------------------------------------- */

int logfile_seal(struct logfile *f, struct errmsg *msg)
{
    f->meta.in_use = false;
    int rc = logfile_run(f, "BEGIN IMMEDIATE");
    if (rc == SQLITE_OK && logfile_is_old(f))
        rc = logfile_upgrade(f);
    if (rc == SQLITE_OK)
        rc = logfile_put_meta(f, &f->meta);
    if (rc == SQLITE_OK)
        rc = logfile_run(f, "COMMIT");
    if (rc == SQLITE_OK)
        rc = sqlite3_wal_checkpoint_v2(f->db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    if (rc != SQLITE_OK)
        return logfile_error(f, rc, msg, "write what it says about itself");
    f->keep_wal = false;
    logfile_upgraded(f);
    return 0;
}

int logfile_create(struct logfile *f, struct errmsg *msg)
{
    int r = new_identity(&f->meta, msg);
    return r == 0 ? logfile_seal(f, msg) : r;
}

/* ---- looking it over ------------------------------------------------------------------------------- */

/* The number that SQL gives; 0 when it gives no row or NULL. */
static int query_number(struct logfile *f, const char *sql, int64_t *ret)
{
    sqlite3_stmt *s;
    int rc = query(f, sql, &s);

    *ret = rc == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
    sqlite3_finalize(s);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int check_identity(struct logfile *f, struct errmsg *msg)
{
    int64_t application = 0, version = 0;
    int rc = query_number(f, "PRAGMA application_id", &application);

    if (rc == SQLITE_OK)
        rc = query_number(f, "PRAGMA user_version", &version);
    if (rc != SQLITE_OK)
        return logfile_error(f, rc, msg, "read it");
    if (application != APPLICATION_ID)
        return fail(msg, SKADE_EFOREIGN,
                    "%s: is a database, but not skade's: move it away or use another directory", f->path);
    if (version > NEWEST_VERSION)
        return fail(msg, SKADE_EVERSION,
                    "%s: has version %lld, this skade knows up to %lld: use a newer skade", f->path,
                    (long long)version, (long long)NEWEST_VERSION);
    if (version < 1)
        return damaged(f, msg, "it has no version");
    f->version = version;
    return 0;
}

/* Settings that are in the file and that SQLite acts upon when it writes. */
static int check_header(struct logfile *f, struct errmsg *msg)
{
    static const struct {
        const char *sql;
        int64_t value;
        const char *wrong;
    } facts[] = {
        { "PRAGMA page_size", PAGE_SIZE, "its page size isn't a log's" },
        { "PRAGMA auto_vacuum", 0, "it says that it moves its pages about, which a log never does" },
        { "PRAGMA freelist_count", 0, "it has free pages, which a log never has" },
    };
    int64_t value, pages = 0;
    int rc = SQLITE_OK;

    for (size_t i = 0; i < ARRAY_SIZE(facts) && rc == SQLITE_OK; i++) {
        rc = query_number(f, facts[i].sql, &value);
        if (rc == SQLITE_OK && value != facts[i].value)
            return damaged(f, msg, facts[i].wrong);
    }
    if (rc == SQLITE_OK)
        rc = query_number(f, "PRAGMA page_count", &pages);
    if (rc != SQLITE_OK)
        return logfile_error(f, rc, msg, "read its header");
    /* With a write-ahead log the count is that log's, and the file may still be shorter or longer. */
    if (f->wal != WAL_USED && (uint64_t)pages * PAGE_SIZE != logfile_bytes(f))
        return damaged(f, msg, "its size isn't what it says");
    return 0;
}

/* Exactly our tables: no trigger, view or index that somebody added, no flipped bit in a definition. */
static int check_tables(struct logfile *f, struct errmsg *msg)
{
    const char *const tables[][2] = { { "log", LOG_TABLE }, { "meta", versions[f->version].meta } };
    sqlite3_stmt *s;
    int rc = query(f, "SELECT name, sql FROM sqlite_schema ORDER BY rowid", &s);
    size_t n = 0;
    bool ours = true;

    for (; rc == SQLITE_ROW && ours; rc = sqlite3_step(s), n++) {
        const char *name = (const char *)sqlite3_column_text(s, 0);
        const char *sql = (const char *)sqlite3_column_text(s, 1);
        ours = n < ARRAY_SIZE(tables) && name && sql && strcmp(name, tables[n][0]) == 0 &&
               strcmp(sql, tables[n][1]) == 0;
    }
    int r = 0;
    if (rc != SQLITE_DONE && rc != SQLITE_ROW)
        r = logfile_error(f, rc, msg, "read its tables");
    else if (!ours || n != ARRAY_SIZE(tables))
        r = damaged(f, msg, "its tables aren't a log's");
    sqlite3_finalize(s);
    return r;
}

static int end_of_log(struct logfile *f, const char *sql, uint64_t *seq, uint64_t *chain, struct errmsg *msg)
{
    sqlite3_stmt *s;
    int rc = query(f, sql, &s);

    *seq = rc == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(s, 0) : 0;
    *chain = rc == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(s, 1) : f->meta.pub.last_chain;
    sqlite3_finalize(s);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : logfile_error(f, rc, msg, "read its ends");
}

/* The first row is 1 and the last one is what the meta row says. */
static int check_ends(struct logfile *f, struct errmsg *msg)
{
    uint64_t first, last, chain;
    int r = end_of_log(f, "SELECT seq, chain FROM log ORDER BY seq LIMIT 1", &first, &chain, msg);

    if (r == 0)
        r = end_of_log(f, "SELECT seq, chain FROM log ORDER BY seq DESC LIMIT 1", &last, &chain, msg);
    if (r < 0)
        return r;
    if (first != (f->meta.pub.last_seq ? 1 : 0))
        return damaged(f, msg, "its first row is missing");
    if (last != f->meta.pub.last_seq || chain != f->meta.pub.last_chain)
        return fail(msg, SKADE_EDAMAGED,
                    "%s: its last row is %llu, but it says %llu: rows vanished, were added or changed; "
                    "restore a backup",
                    f->path, (unsigned long long)last, (unsigned long long)f->meta.pub.last_seq);
    return 0;
}

int logfile_inspect(struct logfile *f, struct errmsg *msg)
{
    static int (*const checks[])(struct logfile *, struct errmsg *) = { check_identity, check_header,
                                                                        check_tables, load_meta, check_ends };
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(checks); i++)
        r = checks[i](f, msg);
    return r;
}

static int refuse_wal(const struct logfile *f, const struct logwal *wal, bool counted, struct errmsg *msg)
{
    char count[64] = "";

    if (counted)
        snprintf(count, sizeof count, "; %llu events are certain", (unsigned long long)f->meta.pub.last_seq);
    return fail(
        msg, SKADE_EDAMAGED,
        "%s-wal: is damaged at byte %llu, with durable commits behind that%s: see whether the disk is well, "
        "then restore the newest backup; or, to go on without those commits, truncate -s %llu it",
        f->path, (unsigned long long)wal->flaw, count, (unsigned long long)wal->good);
}

int logfile_open_judged(struct logfile *f, const char *path, enum logfile_use use, bool sync_full,
                        struct errmsg *msg)
{
    struct logwal wal;

    /* Before it is opened: to close another descriptor of it later would drop the lock. */
    int r = logwal_judge(path, &wal, msg);
    if (r == 0)
        r = logfile_open(f, path, use, msg);
    if (r < 0)
        return r;
    r = logfile_inspect(f, msg);
    bool damaged = wal.state == LOGWAL_NO_HEADER || (wal.state == LOGWAL_HOLE && sync_full);
    if (damaged && (r == 0 || r == SKADE_EDAMAGED)) /* the rest may be good, or no log at all */
        r = refuse_wal(f, &wal, r == 0, msg);
    if (r < 0)
        logfile_close(f);
    return r;
}

int logfile_check_wal(const struct logfile *f, struct errmsg *msg)
{
    if (!f->meta.in_use || f->wal != WAL_MISSING)
        return 0;
    return fail(
        msg, SKADE_EDAMAGED,
        "%s: %s-wal is missing, and with it perhaps the newest events: put it back, or move this file "
        "elsewhere and restore from it or from a backup",
        f->path, strrchr(f->path, '/') + 1);
}

int logfile_check_mode(struct logfile *f, struct errmsg *msg)
{
    char mode[16];
    int r = check_writable(f, msg);
    if (r < 0)
        return r;
    int rc = query_text(f, "PRAGMA journal_mode", mode, sizeof mode);

    if (rc != SQLITE_OK)
        return logfile_error(f, rc, msg, "read its journal mode");
    if (strcmp(mode, "wal") != 0)
        return fail(msg, SKADE_EDAMAGED,
                    "%s: is in journal mode \"%s\", so another program changed it: move it elsewhere and "
                    "restore from "
                    "it, or from a backup",
                    f->path, mode);
    return 0;
}

int logfile_check_structure(struct logfile *f, enum logfile_depth depth, struct errmsg *msg)
{
    char answer[200], what[256];
    int rc = query_text(f, depth == LOGFILE_QUICK ? "PRAGMA quick_check(1)" : "PRAGMA integrity_check(1)",
                        answer, sizeof answer);

    if (rc != SQLITE_OK)
        return logfile_error(f, rc, msg, "check its structure");
    if (strcmp(answer, "ok") == 0)
        return 0;
    for (char *newline = answer; (newline = strchr(newline, '\n'));)
        *newline = ' ';
    snprintf(what, sizeof what, "its structure is broken (%s)", answer);
    return damaged(f, msg, what);
}

int logfile_verify(struct logfile *f, struct errmsg *msg)
{
    struct commitlog_cursor cursor = commitlog_start(&f->meta.pub);
    int r = logfile_check_structure(f, LOGFILE_WHOLE, msg);
    return r < 0 ? r : logfile_read(f, &cursor, SIZE_MAX, SIZE_MAX, NULL, NULL, msg);
}

/* ---- reading --------------------------------------------------------------------------------------- */

enum column { SEQ, KIND, FLAGS, TABLE_NO, SNAPSHOT, TIME_US, WATERMARK, UUID, TEXT, TEXT2, CHAIN, COLUMNS };

static uint64_t column_u64(sqlite3_stmt *s, enum column c)
{
    return (uint64_t)sqlite3_column_int64(s, (int)c);
}

static struct bytes column_bytes(sqlite3_stmt *s, enum column c)
{
    const char *data = sqlite3_column_blob(s, (int)c); /* before its length, says SQLite's manual */
    int len = sqlite3_column_bytes(s, (int)c);
    return data ? (struct bytes){ data, (size_t)len } : (struct bytes){ "", 0 };
}

static bool columns_have_their_types(sqlite3_stmt *s)
{
    /* STRICT is checked when a row is written; a flipped bit in a record makes an integer a float or a
     * NULL. */
    for (int c = 0; c < COLUMNS; c++) {
        bool blob = c == UUID || c == TEXT || c == TEXT2;
        if (sqlite3_column_type(s, c) != (blob ? SQLITE_BLOB : SQLITE_INTEGER))
            return false;
    }
    return sqlite3_column_bytes(s, UUID) == sizeof(struct uuid);
}

/* Take the row that S stands on, if it follows CURSOR; what is wrong with it, or NULL. */
static const char *take_row(sqlite3_stmt *s, const struct commitlog_cursor *cursor, struct event *ret,
                            uint64_t *chain)
{
    if (!columns_have_their_types(s))
        return "a column has another type";
    if (column_u64(s, SEQ) != cursor->seq + 1)
        return "is missing";
    if ((column_u64(s, KIND) | column_u64(s, FLAGS) | column_u64(s, TABLE_NO)) > UINT32_MAX)
        return "a value is out of range";
    *ret = (struct event){
        .seq = column_u64(s, SEQ),
        .kind = (uint32_t)column_u64(s, KIND),
        .flags = (uint32_t)column_u64(s, FLAGS),
        .table = (uint32_t)column_u64(s, TABLE_NO),
        .snapshot = sqlite3_column_int64(s, SNAPSHOT),
        .time_us = sqlite3_column_int64(s, TIME_US),
        .watermark = column_u64(s, WATERMARK),
        .text = column_bytes(s, TEXT),
        .text2 = column_bytes(s, TEXT2),
    };
    memcpy(&ret->uuid, sqlite3_column_blob(s, UUID), sizeof ret->uuid);
    const char *flaw = commitlog_event_flaw(ret);
    if (flaw)
        return flaw;
    *chain = commitlog_chain(cursor->chain, ret);
    return *chain == column_u64(s, CHAIN) ? NULL : "its checksum doesn't fit it and the rows before";
}

static int bad_row(const struct logfile *f, uint64_t seq, const char *flaw, struct errmsg *msg)
{
    return fail(msg, SKADE_EDAMAGED, "%s: row %llu: %s; the rows before it are good: restore a backup",
                f->path, (unsigned long long)seq, flaw);
}

static int bind_range(struct logfile *f, uint64_t after)
{
    int rc = logfile_prepare(f, ROWS_SELECT, &f->select);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(f->select, 1, (int64_t)after);
    /* Bounded, because after a failed rollback there may be rows behind it that nobody was told of. */
    return rc == SQLITE_OK ? sqlite3_bind_int64(f->select, 2, (int64_t)f->meta.pub.last_seq) : rc;
}

/* Is the cursor at the end, and does the chain agree there?  0, 1 when it isn't at the end yet, or
 * damaged. */
static int check_cursor(const struct logfile *f, const struct commitlog_cursor *cursor, struct errmsg *msg)
{
    if (cursor->seq > f->meta.pub.last_seq)
        return fail(msg, -ERANGE, "%s: ends at %llu, before %llu", f->path,
                    (unsigned long long)f->meta.pub.last_seq, (unsigned long long)cursor->seq);
    if (cursor->seq < f->meta.pub.last_seq)
        return 1;
    if (cursor->chain != f->meta.pub.last_chain)
        return bad_row(f, cursor->seq, "its chain value isn't the log's last", msg);
    return 0;
}

/* 0 goes on, 1 enough, negative. */
static int give_row(struct logfile *f, struct commitlog_cursor *cursor, size_t *bytes, commitlog_row_fn fn,
                    void *arg, struct errmsg *msg)
{
    struct event event;
    uint64_t chain;
    const char *flaw = take_row(f->select, cursor, &event, &chain);

    if (flaw)
        return bad_row(f, cursor->seq + 1, flaw, msg);
    *bytes += event.text.len + event.text2.len;
    int r = fn ? fn(arg, &event, chain) : 0;
    if (r >= 0)
        *cursor = (struct commitlog_cursor){ event.seq, chain };
    return r;
}

int logfile_read(struct logfile *f, struct commitlog_cursor *cursor, size_t max_rows, size_t max_bytes,
                 commitlog_row_fn fn, void *arg, struct errmsg *msg)
{
    size_t rows = 0, bytes = 0;
    int r = check_cursor(f, cursor, msg);

    if (r <= 0)
        return r;
    int rc = bind_range(f, cursor->seq);
    r = 0;
    while (rc == SQLITE_OK && r == 0 && rows < max_rows && (rows == 0 || bytes < max_bytes)) {
        if ((rc = sqlite3_step(f->select)) != SQLITE_ROW)
            break;
        rc = SQLITE_OK;
        rows++;
        r = give_row(f, cursor, &bytes, fn, arg, msg);
    }
    if (rc == SQLITE_DONE && cursor->seq < f->meta.pub.last_seq)
        r = bad_row(f, cursor->seq + 1, "is missing", msg);
    else if (rc != SQLITE_OK && rc != SQLITE_DONE)
        r = logfile_error(f, rc, msg, "read its rows");
    sqlite3_reset(f->select);
    return r < 0 ? r : check_cursor(f, cursor, msg);
}

int logfile_seek(struct logfile *f, uint64_t seq, struct commitlog_cursor *ret, struct errmsg *msg)
{
    struct commitlog_cursor cursor = commitlog_start(&f->meta.pub);
    sqlite3_stmt *s = NULL;

    if (seq > f->meta.pub.last_seq)
        return check_cursor(f, &(struct commitlog_cursor){ seq, 0 }, msg);
    if (seq == 0) {
        *ret = cursor;
        return 0;
    }
    int rc = sqlite3_prepare_v2(f->db, "SELECT chain FROM log WHERE seq = ?", -1, &s, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(s, 1, (int64_t)seq);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    int r = 0;
    if (rc == SQLITE_ROW)
        *ret = (struct commitlog_cursor){ seq, (uint64_t)sqlite3_column_int64(s, 0) };
    else if (rc == SQLITE_DONE)
        r = bad_row(f, seq, "is missing", msg);
    else
        r = logfile_error(f, rc, msg, "find a row");
    sqlite3_finalize(s);
    return r;
}
