/*
 * Where the rows of stored tables are: directories, names that appear when a file is whole, and what is found at start.
 *
 *   DATA-DIR/tables/<table>/<n>/   see format_entry.h
 *   DATA-DIR/lost/                 files without a commit, until the grace window is over
 *
 * Files are written without a name.  store_link() gives them their names, the .pending mark first, so that a start
 * can tell a file whose commit never came to be (marked) from one whose commit the log has lost (not marked): then the
 * log is older than the data, and the daemon serves read-only and touches nothing.
 *
 * Threads: opened on the loop; store_dir(), store_temp(), store_link(), store_unlink() may be called by workers.
 */
#ifndef SKADE_STORE_H
#define SKADE_STORE_H

#include "errors.h"
#include "manifest.h"
#include "server.h"

struct store;

/*
 * Open DATA-DIR/tables, making what is missing.  Everything below it may be read by anybody who comes there; who may is
 * decided by its own mode alone, which follows the configuration, so that a change of roles is one chmod().
 */
int store_open(struct store **ret, struct server *s, struct errmsg *msg);
/* The configuration has changed: 0, or negative with the reason. */
int store_admit(struct store *st, struct errmsg *msg);
void store_close(struct store *st);

/* At start, once the log is replayed and before the first commit: compare what is there with the log.  Stray files go
 * to lost/; negative when the directories can't be read.  When one file says that the log is older than the data, or not
 * the one it was written under, server.readonly is set and nothing is touched. */
int store_sweep(struct store *st, struct errmsg *msg);

/* A descriptor of the directory of TABLE's compaction number N, made if missing; the caller closes it. */
int store_dir(struct store *st, uint32_t table, uint32_t n, struct errmsg *msg);

/* Remove that directory if it is empty: for who made it and has no use for it. */
void store_remove_dir(struct store *st, uint32_t table, uint32_t n);

/* The same of DATA-DIR/tables, for files that never get a name. */
int store_root(const struct store *st, struct errmsg *msg);

/* An unnamed file in DIR, for reading and writing, 0444: a descriptor. */
int store_temp(struct store *st, int dir, struct errmsg *msg);

/* Make ready a file that a later store_temp() gives.  For workers that nobody waits for. */
void store_refill(struct store *st);

/* A file to be linked: its descriptor and the name that it gets. */
struct store_file {
    int fd;
    enum entry_name kind;
    uint32_t part;
};

/*
 * Give FILES their names in DIR: the mark first, then the files in order, then the directory is synced.  The last of
 * FILES is the one that the mark belongs to.  -EEXIST: the uuid was used before, and all is as it was.
 */
int store_link(struct store *st, int dir, const struct uuid *uuid, const struct store_file *files, size_t n,
               struct errmsg *msg);

/* The commit was refused: take the names back.  What can't be is swept at the next start. */
void store_unlink(struct store *st, int dir, const struct uuid *uuid, const struct store_file *files,
                  size_t n);

/* The commit is durable: the mark is not needed any more. */
void store_settle(struct store *st, int dir, const struct uuid *uuid);

/* The URI of a file, into RET (LOCATION_MAX + 1 bytes); its length.  SKADE_EINPUT: longer than a location may be. */
int store_location(const struct store *st, char *ret, uint32_t table, uint32_t n, enum entry_name kind,
                   const struct uuid *uuid, struct errmsg *msg);

/* The inverse: table, n and uuid of a location that store_location() made (of this or another data directory); false
 * for anything else. */
bool store_parse(struct bytes location, uint32_t *table, uint32_t *n, enum entry_name *kind,
                 struct uuid *uuid);

/* The path of a file of this store, whatever directory its location names: a data directory may have moved. */
const char *store_file_name(const struct store *st, char *ret, size_t cap, uint32_t table, uint32_t n,
                            enum entry_name kind, const struct uuid *uuid, uint32_t part);

/* DATA-DIR/tables/<table>/<n> as text, into RET; returns RET. */
const char *store_dir_name(const struct store *st, char *ret, size_t cap, uint32_t table, uint32_t n);

/* Called each second: removes from lost/ what has been there for a grace window. */
void store_tick(struct store *st);

#endif
