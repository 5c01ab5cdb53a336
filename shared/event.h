/*
 * One event of the commit log, as every part of skade passes it on: the log writes it, the tail keeps it, the
 * builder indexes it, history and watch show it.
 *
 * Everything that changes what a question may be answered is an event with a sequence number of its own.  The kind
 * says which fields mean something; the others are zero or empty.
 *
 *   kind     table        text            text2            watermark          flags
 *   COMMIT   the table    location        -                -                  INTRODUCES, MOVES_HEAD, HAS_SNAPSHOT
 *   CREATE   a new number name            URI or empty     -                  STORED when text2 is empty
 *   RENAME   the table    new name        old name         -                  -
 *   DROP     the table    name            -                -                  -
 *   COMPACT  the table    location        when (RFC 3339)  last retired seq   INTRODUCES, MOVES_HEAD, HAS_SNAPSHOT
 *   EXPIRE   the table    -               -                last retired seq   -
 *
 * The time of a COMPACT is that of the snapshot whose place it takes; when it came to be, only text2 says.
 */
#ifndef SKADE_EVENT_H
#define SKADE_EVENT_H

#include "util.h"

enum event_kind {
    EVENT_COMMIT = 1,
    EVENT_CREATE = 2,
    EVENT_RENAME = 3,
    EVENT_DROP = 4,
    EVENT_COMPACT = 5,
    EVENT_EXPIRE = 6,
    EVENT_KIND_END
};

enum event_flag {
    EVENT_INTRODUCES = 1,   /* snapshot `snapshot` is first known by this commit: resolve() finds it here */
    EVENT_MOVES_HEAD = 2,   /* the table's head is this commit; branch and staged snapshots don't move it */
    EVENT_HAS_SNAPSHOT = 4, /* `snapshot` means something; without it a commit has a location only */
    EVENT_STORED = 8,       /* CREATE: skade keeps the rows; otherwise others do and the table is external */
    EVENT_FLAGS = 15        /* all that are known */
};

/* Sequence numbers are dense from 1; 0 means "none", and this means "the end of time". */
#define SEQ_MAX UINT64_MAX

#define LOCATION_MAX 4096 /* bytes of a metadata location */
#define NAME_MAX_LEN 1024 /* bytes of a table name */

struct event {
    uint64_t seq;       /* from 1, without gaps */
    uint32_t kind;      /* enum event_kind */
    uint32_t flags;     /* enum event_flag */
    uint32_t table;     /* table number, from 1, never reused */
    int64_t snapshot;   /* any value; see EVENT_HAS_SNAPSHOT */
    int64_t time_us;    /* microseconds since 1970 UTC, signed, any value */
    uint64_t watermark; /* COMPACT, EXPIRE: events of the table up to here are retired */
    struct uuid uuid;   /* the request's; the same uuid again gets the first answer again */
    struct bytes text;  /* see the table above */
    struct bytes text2;
};

#endif
