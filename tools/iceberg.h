/*
 * Reads one Iceberg table metadata file: what skade uses of it, and nothing else.
 *
 * The file is untrusted and may be large (200 MB of JSON with 200,000 snapshots is real).  It is read as a
 * stream: of what skade doesn't use (schemas, summaries, properties) nothing is kept, so memory is about 60
 * bytes per snapshot, 16 per entry of snapshot-log, and what iceberg_text.h and iceberg_guard.h say.  Plain,
 * gzip and zstd are told apart by content.  Either the whole file is read and right, or the error is one line
 * "PATH: FIELD: what is wrong".
 *
 * What is checked, for format versions 1 to 3 (https://iceberg.apache.org/spec, "Table Metadata Fields"):
 *   - the text is one JSON object of at most ICEBERG_TEXT_MAX bytes, no field that skade uses stands twice in
 *     one object;
 *   - format-version 1 to 3, location (1 to 4096 bytes), last-updated-ms; table-uuid, which version 1 may
 *     leave out;
 *   - each element of snapshots has snapshot-id and timestamp-ms, and no id is there twice;
 *   - current-snapshot-id is among the snapshots, or means none: -1, null, absent;
 *   - elements of snapshot-log have snapshot-id and timestamp-ms, those of metadata-log have metadata-file;
 *   - integers are written as integers and fit 64 bits, times fit in microseconds.
 * A snapshot-log may name snapshots that are gone.  Everything else in the file may be as it likes.
 */
#ifndef SKADE_ICEBERG_H
#define SKADE_ICEBERG_H

#include "iceberg_error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ICEBERG_TEXT_MAX (4ull << 30) /* of unpacked JSON: twenty times the largest file met so far */
#define ICEBERG_LOCATION_MAX 4096

struct iceberg_snapshot {
    int64_t id;
    int64_t timestamp_ms;
    int64_t sequence;  /* sequence-number; 0 in version 1, which has none */
    bool logged;       /* snapshot-log has it */
    bool born_current; /* snapshot-log says that it became current at its own timestamp-ms */
};

struct iceberg_metadata {
    int format_version;
    bool has_uuid;
    uint8_t uuid[16];
    char location[ICEBERG_LOCATION_MAX + 1];
    int64_t last_updated_ms;
    bool has_current;
    int64_t current;
    struct iceberg_snapshot *snapshots; /* in the file's order */
    size_t snapshot_count;
};

/*
 * Told of each metadata-file of metadata-log while the file is read.  FILE is not terminated.  0 or -errno.
 */
struct iceberg_log_sink {
    int (*previous)(void *arg, const char *file, size_t len);
    void *arg;
};

/*
 * Read the file at PATH.  LOG may be NULL.  Gives RET's snapshots, to be freed by iceberg_free(); RET is
 * touched on success only.  SKADE_EINPUT when the file is not what it should be, -errno when it can't be
 * read, -ENOMEM.
 */
int iceberg_read(const char *path, const struct iceberg_log_sink *log, struct iceberg_metadata *ret,
                 struct iceberg_error *err);

void iceberg_free(struct iceberg_metadata *m);

#endif
