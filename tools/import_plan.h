/*
 * What `skadectl import` will commit, worked out without the daemon: which tables lie under the arguments,
 * which of their metadata files count and in what order, and which commits that makes.
 *
 *     import_find()        PATH...              -->  tables, each a name and a list of files
 *     import_plan_read()   one of the tables    -->  its plan: files in order, commits in order, or why not
 *
 * One table is planned at a time.  Memory is some 400 bytes per file and 100 per distinct snapshot of that
 * table, whatever the files' size; each file is read once, or twice when names alone don't say the order.
 *
 * TABLES.  PATH is a file (then it is read whatever its name), or a directory in which every directory
 * `metadata` that holds metadata files is a table (the table's directory, that `metadata` itself, or a whole
 * warehouse).  A directory whose own files are metadata files, but that isn't called `metadata`, is a table
 * too if nothing else is below PATH.  Symbolic links to directories are followed for PATH itself and for
 * `metadata`, not while walking, which could go on for ever.  Several files of one table are one table:
 * `metadata/v*.json`, or any files with --table.  The name is --table, or the last two parts of the real path
 * before `metadata/`, without a `.db` at the end of the first.  version-hint.text isn't looked at: no form of
 * it says anything that the files don't.
 *
 * LOCATIONS.  `file://` and the absolute real path, byte for byte: Iceberg's readers take what follows
 * `file://` as a path and undo no percent-encoding, so none is done.  With --base-uri that URI, a slash, and
 * the path below PATH (for a file: its name).
 *
 * ORDER.  vN and vN.M by number; NNNNN-uuid by number; other names by last-updated-ms; and where a table has
 * several of these kinds (it moved from one catalog to another) they are merged by last-updated-ms.  Of two
 * files with one number one is what a failed commit left over: the one that no later file's metadata-log
 * names, and it is left out.  If nothing says which (both are newest, say), the table is refused.  A bare
 * uuid beside vN files is the scratch file of a commit that failed and is left out as well, unless a
 * metadata-log names it.  All files of a table that have a table-uuid have the same.
 *
 * COMMITS.  Each file in turn:
 *   - it brings one new snapshot and that is its current one: one row, introduces | moves head, at the
 *     snapshot's time;
 *   - otherwise a row per new snapshot (by sequence-number, then time, the current one last) that introduces
 *     it at its own time, and then one row that moves the head to the file's current snapshot (or to none),
 *     at last-updated-ms.  An introducing row moves the head as well if snapshot-log says that the snapshot
 *     became current at its own timestamp-ms, or if it is current and snapshot-log doesn't know it: where
 *     only the newest file is left of a long history, as_of still has the answers that Iceberg's readers
 *     give.  A snapshot of a branch moves no head.
 * So the newest row of each file moves the head to that file, and the rows of a file depend on the files
 * before it only: importing again, or after more commits, makes the same rows and more behind them.
 *
 * BAD FILES refuse their table, with one message that names file and field.  With --skip-bad they are left
 * out and told.
 */
#ifndef SKADE_IMPORT_PLAN_H
#define SKADE_IMPORT_PLAN_H

#include "iceberg_error.h"
#include "iceberg_names.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum import_news {
    IMPORT_REFUSED,  /* a path or directory, and with it what may be below */
    IMPORT_SKIPPED,  /* a bad file that --skip-bad left out */
    IMPORT_LEFTOVER, /* a file that a failed commit left behind */
};

struct import_options {
    const char *table;    /* --table, or NULL */
    const char *base_uri; /* --base-uri, or NULL */
    bool skip_bad;        /* --skip-bad */
    /* Told of what is left out, at once, in one line without newline that names the file.  May be NULL. */
    void (*tell)(void *arg, enum import_news news, const char *line);
    void *arg;
};

struct import_file {
    char *path;       /* absolute, links resolved */
    char *location;   /* for the commit log */
    const char *name; /* the last part of path */
    struct iceberg_name key;
    int64_t order_ms; /* what merges the series; known if they had to be merged */
    bool out;         /* bad or left over: not part of the plan */
};

struct import_table {
    char *name;
    char *place; /* the directory of its files, or of the first of them: for messages */
    bool loose;  /* files given by name, more may join */
    struct import_file *files;
    size_t file_count;
};

struct import_tables {
    struct import_table *table;
    size_t count;
    size_t refused; /* paths told as IMPORT_REFUSED: exit code 1 even if all tables go well */
};

/*
 * Find the tables under PATHS, in the order of the arguments and sorted below each.  Paths that can't be used
 * are told and counted, the others are found.  Gives RET (import_tables_free() in any case).  SKADE_EINPUT
 * when the options contradict each other or what was found, -ENOMEM.
 */
int import_find(const char *const *paths, size_t count, const struct import_options *options,
                struct import_tables *ret, struct iceberg_error *err);

void import_tables_free(struct import_tables *tables);

/* One commit to be. */
struct import_row {
    int64_t snapshot; /* 0 unless has_snapshot */
    int64_t time_us;
    uint32_t file; /* index into files: the commit's location is that file's */
    bool has_snapshot;
    bool introduces;
    bool moves_head;
};

struct import_plan {
    const char *name;  /* of the table */
    const char *place; /* the directory of its files: for messages */
    bool has_uuid;     /* version 1 may have none */
    uint8_t uuid[16];  /* table-uuid */
    char *location;    /* of the table, as its newest file says */
    const struct import_file **files;
    size_t file_count; /* 1 or more */
    struct import_row *rows;
    size_t row_count;
    size_t snapshot_count; /* distinct over all files */
    bool has_head;         /* the newest file's current snapshot */
    int64_t head;
};

/*
 * Read TABLE's files and plan its commits.  Borrows TABLE for RET's life and marks in it what is left out.
 * Gives RET, to be freed by import_plan_free(); RET is touched on success only.  SKADE_EINPUT or -errno when
 * the table is refused: ERR says why in one line, nothing of the table may be imported.  After -ENOMEM don't
 * try the next.
 */
int import_plan_read(struct import_table *table, const struct import_options *options,
                     struct import_plan *ret, struct iceberg_error *err);

void import_plan_free(struct import_plan *plan);

/*
 * A uuid for ROW of PLAN as a commit to the skade table TABLE (its number, which is never reused).  The same
 * commit gets the same uuid in every import; another table, row, time or location gets another, in its first
 * IMPORT_UUID_SAYS bytes, too.  RFC 9562's version 8.
 */
#define IMPORT_UUID_SAYS 12
void import_row_uuid(const struct import_plan *plan, size_t row, uint64_t table, uint8_t ret[16]);

#endif
