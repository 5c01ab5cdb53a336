/*
 * The committer: changes wait here, are judged, become durable, then visible, then answered, in this order.
 *
 *   submitted -> queue -> judged as a group, in arrival order, against what the earlier ones of the group leave
 *             -> one transaction on the log thread                              (COMMIT)
 *             -> applied to the ledger                                          (tail)
 *             -> published, if one of them takes an answer away                 (P2)
 *             -> commit_seq stored                                              (P3)
 *             -> every member of the group answered, refusals too: they may rest on members that were not durable yet
 *
 * One group is under way at a time; what arrives meanwhile makes the next one, so that many committers share an fsync.
 * Belongs to the loop.
 */
#ifndef SKADE_COMMITTER_H
#define SKADE_COMMITTER_H

#include "server.h"
#include "wire.h"

struct committer;

/* One commit of a change. Texts are lent by the change's text. */
struct change_row {
    struct event event;
    uint8_t base; /* BASE_ANY ... */
    bool has_time;
    struct bytes base_location;
};
enum { BASE_ANY = 0, BASE_NONE = 1, BASE_IS = 2 };

enum change_kind {
    CHANGE_COMMITS,
    CHANGE_APPEND, /* one row, to a stored table */
    CHANGE_CREATE,
    CHANGE_RENAME,
    CHANGE_DROP,
    CHANGE_EXPIRE,
    CHANGE_COMPACT
};

/* A request to change something, and what became of it. */
struct change {
    struct change *next;
    enum change_kind kind;
    void *owner;      /* whoever waits for it */
    uint64_t request; /* owner's number */
    void (*done)(struct change *c);

    /* what is asked */
    struct change_row *rows; /* CHANGE_COMMITS: all or none */
    size_t rows_count, rows_cap;
    struct uuid uuid; /* the others' */
    struct bytes name, new_name, location;
    uint32_t table; /* CHANGE_EXPIRE, CHANGE_COMPACT */
    uint8_t by;     /* 1: commits before time `value`; 2: up to snapshot `value` */
    int64_t value;
    struct {
        uint64_t
            base_seq; /* the compaction that the rows began with: still the newest, or it is a conflict */
        uint64_t at;  /* the moment that was compacted: commits after it are carried over */
        int64_t snapshot;
        int64_t time_us; /* of the snapshot whose place it takes */
    } compaction;
    struct text *texts; /* owned storage of all bytes above */
    size_t texts_bytes;

    /* what became of it */
    int error;
    struct errmsg msg;
    uint64_t first_seq, last_seq;
    int64_t time_us; /* CHANGE_APPEND: of the commit */
    uint32_t created;
    bool has_head;     /* a conflict says which head there is */
    struct event head; /* its location is in head_text */
    char head_text[LOCATION_MAX];
};

/* A new change, and its end; change_free() lets go of all its texts. */
struct change *change_new(enum change_kind kind);
void change_free(struct change *c);
/* A copy of S that lives as long as C; data NULL: no memory. */
struct bytes change_text(struct change *c, struct bytes s);
/* Room for one more row, zeroed; NULL: no memory. */
struct change_row *change_row(struct change *c);

struct committer *committer_new(struct server *s); /* NULL: no memory */

/* Take C over; its done() is called on the loop, then C is freed. */
void committer_submit(struct committer *c, struct change *change);

/* Judge nothing before MS from now: a dead daemon's readers may still believe its page. */
void committer_pause(struct committer *c, uint64_t ms);

/* True when nothing is queued or under way. */
bool committer_idle(const struct committer *c);
void committer_free(struct committer *c);

#endif
