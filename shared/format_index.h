/*
 * The index file: what makes a start fast, in DATA-DIR/index.  docs/FORMAT.md copies the blocks marked [doc:...].
 *
 *   index                  the header below; the parts that belong to it; events; uuids
 *   <check>.part           a part as it was in shared memory, by its header_check in 16 hexadecimal digits
 *
 * What is in them is also in the log, up to event `covered`: whatever doesn't fit is thrown away.  Conventions are
 * those of format.h, but sections follow each other without gaps.
 */
#ifndef SKADE_FORMAT_INDEX_H
#define SKADE_FORMAT_INDEX_H

#include "format.h"

#define FORMAT_MAGIC_INDEX "skadindx" /* 8 bytes, not terminated */

/* clang-format off */

/* [doc:index_header] */
struct index_header {
    /*   0 */ char magic[8];          /* FORMAT_MAGIC_INDEX                                 */
    /*   8 */ uint32_t major;         /* FORMAT_MAJOR; any other is thrown away             */
    /*  12 */ uint32_t header_len;    /* sizeof(struct index_header)                        */
    /*  16 */ uint64_t size;          /* whole file                                         */
    /*  24 */ struct uuid log;        /* what the log is published as                       */
    /*  40 */ uint64_t seed;          /* of the log                                         */
    /*  48 */ uint64_t covered;       /* the newest event that is in here                   */
    /*  56 */ uint64_t chain;         /* its chain value in the log                         */
    /*  64 */ struct section parts;   /* struct index_part, oldest first                    */
    /*  80 */ struct section events;  /* struct index_event, each with its texts behind it; count is of bytes */
    /*  96 */ struct section uuids;   /* struct index_uuid, by seq                          */
    /* 112 */ uint64_t check;         /* checksum() of bytes [0, 112) and [120, size)       */
};
/* [end] */
AT(index_header, parts, 64);
AT(index_header, check, 112);
SIZE(index_header, 120);

/* [doc:index_part] A part, in a file of its own. */
struct index_part {
    /*  0 */ uint64_t from_seq;
    /*  8 */ uint64_t to_seq;
    /* 16 */ uint64_t size;
    /* 24 */ uint64_t header_check;   /* of its seg_header: names the file                  */
};
/* [end] */
SIZE(index_part, 32);

/* [doc:index_event] An event that isn't a commit, or of a COMPACT what parts don't have: seq, kind, table, watermark,
 * and as time_us when it came to be, 0 if the log doesn't tell.  Not aligned. */
struct index_event {
    /*  0 */ uint64_t seq;
    /*  8 */ uint32_t kind;           /* enum event_kind                                    */
    /* 12 */ uint32_t flags;
    /* 16 */ uint32_t table;
    /* 20 */ uint32_t text_len;
    /* 24 */ uint32_t text2_len;
    /* 28 */ uint32_t reserved;
    /* 32 */ int64_t snapshot;
    /* 40 */ int64_t time_us;
    /* 48 */ uint64_t watermark;
    /* 56 */ struct uuid uuid;
};
/* [end] */
SIZE(index_event, 72);

/* [doc:index_uuid] A request that is remembered, and a checksum of what it asked for. */
struct index_uuid {
    /*  0 */ struct uuid uuid;
    /* 16 */ uint64_t seq;
    /* 24 */ uint64_t content;
};
/* [end] */
SIZE(index_uuid, 32);

/* clang-format on */

#endif
