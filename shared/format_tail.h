/*
 * The layout of mapped tails: the events that are newer than a generation's parts.  docs/FORMAT.md explains it and copies
 * the blocks marked [doc:...].  Conventions and names are format.h's.
 *
 * A tail is made for one generation and has a fixed size:
 *
 *      header        keys             homes            tables              slots, each with its text behind it
 *     +-------------+----------------+----------------+-------------------+--------------------------------------------+
 *     |       count | slot of a key  | entry of a     | newest slot of    | an event each, by seq: 1 2 3 ... count     |
 *     |             | or a name      | table number   | each table        | [slot|location..] [slot|name] [slot|loc... |
 *     +-------------+----------------+----------------+-------------------+--------------------------------------------+
 *                       |               |                 |                  ^      ^      |
 *                       |               +---------------->+----------------->|      | key_next, table_prev, head: back
 *                       +----------------------------------------------------+------+------+
 *
 * A slot is one cache line, and its text begins with the next one: all of an answer is fetched together.
 *
 * Like the control page, and unlike roots and parts, it is written after it has a name, by the daemon only.  The words that
 * change are count, keys, homes, newest, time_min and its twin, each an aligned atomic; everything else is written once,
 * before a word that leads to it is stored.  No checksum has those words, so each has a check in itself: no flipped bit of
 * one hides an event, or gives an older one for it.
 */
#ifndef SKADE_FORMAT_TAIL_H
#define SKADE_FORMAT_TAIL_H

#include "format.h"

#define FORMAT_MAGIC_TAIL "skadtail"

#define TAIL_LINK_BITS 26 /* of a word that leads somewhere; the other six are its check */
#define TAIL_LINK_MIX 0x9E3779B1u
#define TAIL_ROOM 8192u /* events of the tails that a daemon makes */
#define TAIL_LINE 64u
#define TAIL_BYTES (3u << 20) /* and the size of their files */
#define TAIL_ROOM_MAX (1u << 20)
#define TAIL_LINES_MAX ((1u << TAIL_LINK_BITS) - 1)
#define TAIL_BYTES_MAX ((size_t)1 << 33)

_Static_assert(sizeof(_Atomic uint32_t) == 4, "32-bit atomics must have no lock word");

/* clang-format off */

/* [doc:tail_header] The tail of a generation: the events after from_seq, which is what its parts cover. */
struct tail_header {
    /*   0 */ struct seg_header seg;  /* to_seq and content_check are 0: the content grows  */
    /*  96 */ struct section keys;    /* word: the newest slot with a key of this home, line + 1 */
    /* 112 */ struct section homes;   /* word: the newest entry of a table of this home, index + 1 */
    /* 128 */ struct section tables;  /* struct tail_table; as many as there is room for events */
    /* 144 */ struct section lines;   /* of 64 bytes: struct tail_slot and texts            */
    /* 160 */ uint8_t pad0[96];       /* header_len is 256                                  */
    /* 256 */ _Atomic uint64_t count; /* events that are there, and above them ~events; only grows */
    /* 264 */ uint8_t pad1[248];
};
/* [end] */
AT(tail_header, keys, 96);
AT(tail_header, count, 256);
SIZE(tail_header, 512);

/* [doc:tail_slot] An event; its text begins with the next line.  Links go back only, and are line + 1; 0: none. */
struct tail_slot {
    /*  0 */ int64_t snapshot;        /* of a creation: the hash of the name                */
    /*  8 */ int64_t time_us;
    /* 16 */ int64_t earlier_max;     /* no older one of its table that moved the head is later than this */
    /* 24 */ uint32_t table;
    /* 28 */ uint16_t flags;          /* enum event_flag, enum tail_flag                    */
    /* 30 */ uint16_t kind;           /* enum event_kind                                    */
    /* 32 */ uint32_t number;         /* its seq is from_seq + number: 1, 2, 3 ...          */
    /* 36 */ uint32_t text_len;       /* of the location, or the name of a new table        */
    /* 40 */ uint32_t text_check;     /* checksum() of the text, cut to 32 bits             */
    /* 44 */ uint32_t key_next;       /* the slot before with a key of the same home        */
    /* 48 */ uint32_t table_prev;     /* the slot before of the same table                  */
    /* 52 */ uint32_t head;           /* the newest one of the table that moved the head; it may be this one */
    /* 56 */ uint64_t check;          /* checksum() of [0, 56), seeded with header_check + line */
};
/* [end] */
enum tail_flag { TAIL_KEYED = 0x8000 /* it is in the chain of its key */ };
AT(tail_slot, table, 24);
AT(tail_slot, head, 52);
SIZE(tail_slot, 64);

/* [doc:tail_table] A table with slots. */
struct tail_table {
    /*  0 */ uint32_t number;
    /*  4 */ uint32_t next;           /* the entry before of the same home, index + 1; smaller */
    /*  8 */ uint32_t check;          /* checksum() of [0, 8), seeded as a slot's, cut to 32 bits */
    /* 12 */ _Atomic uint32_t newest; /* word: its newest slot, line + 1; only grows      */
    /* 16 */ _Atomic int64_t time_min; /* none of its slots that moved the head is earlier  */
    /* 24 */ _Atomic int64_t time_twin; /* ~time_min; another value: time_min says nothing  */
};
/* [end] */
AT(tail_table, newest, 12);
AT(tail_table, time_min, 16);
AT(tail_table, time_twin, 24);
SIZE(tail_table, 32);

/* clang-format on */

#endif
