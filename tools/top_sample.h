/*
 * What `skadectl top` shows, as it was at one moment: collected by cmd_top.c, drawn by top_frame.c.
 *
 * Which lookups are answered from shared memory nobody but the clients knows: they write nothing there.  They tell the daemon
 * when they are slow anyway, so those rates come in steps: with a new generation, a request, or a client's end.
 */
#ifndef SKADE_TOP_SAMPLE_H
#define SKADE_TOP_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The daemon's counters that are shown, by their names in docs/COUNTERS.md. */
#define TOP_COUNTERS(X) \
    X(uptime)           \
    X(commit_seq)       \
    X(covered_seq)      \
    X(generation)       \
    X(tables)           \
    X(commits)          \
    X(conflicts)        \
    X(groups)           \
    X(log_us_max)       \
    X(log_full)         \
    X(wal_bytes)        \
    X(published)        \
    X(publish_failed)   \
    X(rebuild_failing)  \
    X(merges)           \
    X(parts)            \
    X(index_bytes)      \
    X(shm_free_bytes)   \
    X(connections)      \
    X(requests)         \
    X(questions)        \
    X(watchers)         \
    X(loop_us_max)      \
    X(appends)          \
    X(append_rows)      \
    X(leases)           \
    X(compacting)       \
    X(compacted_rows)   \
    X(compactions)      \
    X(retired_bytes)    \
    X(tail_used)        \
    X(tail_room)        \
    X(lookups_map)      \
    X(lookups_tail)

/* Of a daemon that doesn't have it. */
#define TOP_ABSENT UINT64_MAX

struct top_counters {
#define FIELD(name) uint64_t name;
    TOP_COUNTERS(FIELD)
#undef FIELD
};

#define TOP_NAME_MAX 1024 /* bytes of a table's name */
#define TOP_LABEL_MAX 255 /* bytes of a client's label */
#define TOP_TABLES 64     /* that are kept: the first in their order */

struct top_table {
    char name[TOP_NAME_MAX + 1];
    bool stored;
    uint64_t snapshots, seq; /* seq: of the head, 0: no commit yet */
};

enum top_table_order { TOP_BY_SNAPSHOTS, TOP_BY_CHANGE, TOP_BY_NAME, TOP_TABLE_ORDERS };

/* The connections of one process under one label. */
struct top_client {
    char label[TOP_LABEL_MAX + 1];
    uint32_t uid, pid;
    uint64_t connections, generation, lag, requests; /* generation, lag: of the one that is farthest behind */
};

enum top_client_order { TOP_BY_REQUESTS, TOP_BY_LAG, TOP_BY_LABEL, TOP_CLIENT_ORDERS };

enum top_state { TOP_NO_DAEMON, TOP_STALLED, TOP_ALIVE };

struct top_sample {
    enum top_state state;
    char problem[256]; /* no daemon: why */
    double seconds;    /* of a clock that never goes back */
    int64_t time_us;   /* since 1970 UTC */
    struct top_counters counters;
    struct top_table tables[TOP_TABLES];
    size_t tables_count;
    struct top_client *clients; /* owned; grouped and sorted by label, uid, pid */
    size_t clients_count;
    char clients_problem[128]; /* "" */
};

void top_sample_clear(struct top_sample *s);

/* A counter that isn't shown is left out. */
void top_sample_counter(struct top_sample *s, const char *name, uint64_t value);
/* Keep the first TOP_TABLES in ORDER, sorted.  Names longer than TOP_NAME_MAX are cut. */
void top_sample_table(struct top_sample *s, enum top_table_order order, const char *name, bool stored,
                      uint64_t snapshots, uint64_t seq);
/* A connection.  0 or -ENOMEM.  After the last one: group. */
int top_sample_client(struct top_sample *s, const char *label, uint32_t uid, uint32_t pid,
                      uint64_t generation, uint64_t lag, uint64_t requests);
void top_sample_group(struct top_sample *s);

/* The same client in another sample, or NULL. */
const struct top_client *top_sample_find(const struct top_sample *s, const struct top_client *c);

#endif
