/*
 * Every byte that processes share through memory: the control page, roots and what roots and parts have in common.
 * The layout of parts is in format_part.h.  docs/FORMAT.md explains both and copies the blocks marked [doc:...].
 *
 * Conventions.  Little-endian, 64-bit; offsets from the start of the file, never pointers; 0 means none; padding is
 * spelled out and zero; what is reserved is written 0 and ignored when read.  A file is immutable from the moment it
 * has a name: readers need no lock and no retry.  The only words that change are in the control page, and each is an
 * aligned 64-bit atomic; and in tails.
 *
 * Names in the shared-memory directory (one flat directory, names that shm_open() can open):
 *
 *   skade.<uid>.<instance>.v1.ctl                 the control page, replaced by rename at each start
 *   skade.<uid>.<instance>.v1.<epoch>.ctl         a second link of it, by which a later daemon finds and retires it
 *   skade.<uid>.<instance>.v1.<epoch>.<gen>.root  a root
 *   skade.<uid>.<instance>.v1.<epoch>.<gen>.part  a part, made by generation <gen>
 *   skade.<uid>.<instance>.v1.<epoch>.<gen>.tail  the tail of generation <gen>; see format_tail.h
 *   skade.<uid>.<instance>.v1.<epoch>.<n>.tmp     on its way to one of these names
 *   skade.<uid>.<instance>.v1.lock                the daemon's lock, never removed
 *
 * <uid> is the decimal uid of the run directory's owner, <epoch> and <gen> are 16 hexadecimal digits.
 */
#ifndef SKADE_FORMAT_H
#define SKADE_FORMAT_H

#include "util.h"

#include <stdatomic.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "skade's formats are little-endian"
#endif
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "64-bit atomics must be lock-free");
_Static_assert(sizeof(_Atomic uint64_t) == 8, "64-bit atomics must have no lock word");

#define AT(type, field, off) _Static_assert(offsetof(struct type, field) == (off), #type "." #field)
#define SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), "sizeof " #type)

#define FORMAT_MAJOR 1u
#define FORMAT_MAGIC_CONTROL "skadectl" /* 8 bytes, not terminated */
#define FORMAT_MAGIC_ROOT "skadroot"
#define FORMAT_MAGIC_PART "skadpart"

/* clang-format off */

/* [doc:section] An array inside a file. */
struct section {
    /*  0 */ uint64_t off;            /* from the start of the file; a multiple of 64       */
    /*  8 */ uint64_t count;          /* elements                                           */
};
/* [end] */
SIZE(section, 16);

/* [doc:seg_header] What every root, part and tail begins with. */
struct seg_header {
    /*   0 */ char magic[8];          /* FORMAT_MAGIC_ROOT, _PART or _TAIL                  */
    /*   8 */ uint32_t major;         /* FORMAT_MAJOR; readers refuse any other             */
    /*  12 */ uint32_t header_len;    /* bytes of the whole header, sections included       */
    /*  16 */ uint64_t size;          /* whole file                                         */
    /*  24 */ uint64_t epoch;         /* of the daemon that made it                         */
    /*  32 */ uint64_t generation;    /* that it was made for                               */
    /*  40 */ struct uuid log;        /* of the commit log that it was made from            */
    /*  56 */ uint64_t seed;          /* of the log: mixes keys and names                   */
    /*  64 */ uint64_t from_seq;      /* covers the events in (from_seq, to_seq]            */
    /*  72 */ uint64_t to_seq;
    /*  80 */ uint64_t content_check; /* checksum() of bytes [header_len, size)             */
    /*  88 */ uint64_t header_check;  /* checksum() of bytes [0, 88) and [96, header_len)   */
};
/* [end] */
AT(seg_header, log, 40);
AT(seg_header, header_check, 88);
SIZE(seg_header, 96);

/* [doc:control_page] 16 KiB: what never changes, the words that do, counters. */
#define CONTROL_SIZE 16384u
#define CONTROL_NONE 0ull             /* generation word: nothing published, ask the socket */
#define CONTROL_RETIRED UINT64_MAX    /* generation word: this page is dead, attach anew    */
#define CONTROL_COUNTERS 512u         /* room for counters                                  */

struct control_page {
    /*     0 */ char magic[8];        /* FORMAT_MAGIC_CONTROL                               */
    /*     8 */ uint32_t major;
    /*    12 */ uint32_t size;        /* CONTROL_SIZE                                       */
    /*    16 */ uint64_t epoch;       /* random, new at every start, never 0                */
    /*    24 */ struct uuid log;
    /*    40 */ uint64_t seed;
    /*    48 */ uint64_t created_us;  /* wall clock, for people                             */
    /*    56 */ uint64_t pid;         /* for people: nothing is decided by it               */
    /*    64 */ uint32_t counters;    /* how many counters this daemon writes               */
    /*    68 */ uint32_t reserved;
    /*    72 */ uint64_t check;       /* checksum() of bytes [0, 72)                        */
    /*    80 */ uint8_t pad0[176];
    /* Each word that changes has two cache lines to itself: the adjacent-line prefetcher pairs lines. */
    /*   256 */ _Atomic uint64_t generation; /* CONTROL_NONE, a generation, CONTROL_RETIRED */
    /*   264 */ uint8_t pad1[120];
    /*   384 */ _Atomic uint64_t commit_seq; /* newest durable and visible event            */
    /*   392 */ uint8_t pad2[120];
    /*   512 */ _Atomic uint64_t heartbeat;  /* grows twice a second while the daemon lives */
    /*   520 */ _Atomic uint64_t state;      /* enum control_state, for people              */
    /*   528 */ uint8_t pad3[496];
    /*  1024 */ _Atomic uint64_t counter[CONTROL_COUNTERS]; /* order of counters.def        */
    /*  5120 */ uint8_t pad4[CONTROL_SIZE - 5120];
};
/* [end] */
AT(control_page, check, 72);
AT(control_page, generation, 256);
AT(control_page, commit_seq, 384);
AT(control_page, heartbeat, 512);
AT(control_page, counter, 1024);
SIZE(control_page, CONTROL_SIZE);

enum control_state { CONTROL_STARTING = 1, CONTROL_RUNNING = 2, CONTROL_DRAINING = 3, CONTROL_STOPPED = 4 };

/* [doc:root_header] The root of a generation: names, tables, and the parts that hold the commits. */
struct root_header {
    /*   0 */ struct seg_header seg;  /* from_seq 0; to_seq: what the parts cover together  */
    /*  96 */ uint64_t names_seq;     /* names and watermarks are right up to here, >= to_seq */
    /* 104 */ uint32_t bucket_bits;   /* 2^bits buckets                                     */
    /* 108 */ uint32_t reserved;
    /* 112 */ struct section parts;   /* struct root_part, oldest first                     */
    /* 128 */ struct section tables;  /* struct root_table, index = number - 1              */
    /* 144 */ struct section names;   /* struct root_name, by hash, then by from_seq        */
    /* 160 */ struct section buckets; /* u32[2^bits + 1]: first name of each bucket         */
    /* 176 */ struct section plain;   /* u64: a bit for each table that lives and has no watermark */
    /* 192 */ struct section heap;    /* bytes: names and table locations                   */
};
/* [end] */
AT(root_header, parts, 112);
SIZE(root_header, 208);

/* [doc:root_part] */
struct root_part {
    /*  0 */ uint64_t generation;     /* in its file's name                                 */
    /*  8 */ uint64_t from_seq;       /* parts are contiguous: from_seq is the last one's to_seq */
    /* 16 */ uint64_t to_seq;
    /* 24 */ uint64_t size;
    /* 32 */ uint64_t header_check;   /* of its seg_header: names the file's content        */
    /* 40 */ uint64_t rows;
};
/* [end] */
SIZE(root_part, 48);

/* [doc:root_table] One table, alive or dropped. */
struct root_table {
    /*  0 */ uint64_t created_seq;
    /*  8 */ uint64_t dropped_seq;    /* SEQ_MAX while it lives                             */
    /* 16 */ uint64_t watermark;      /* commits up to here are retired; 0: none            */
    /* 24 */ uint64_t retired_by;     /* the event that set the watermark; 0: none          */
    /* 32 */ uint64_t head_seq;       /* 0: no commit moved the head yet                    */
    /* 40 */ uint32_t head_part;      /* index into parts                                   */
    /* 44 */ uint32_t head_ref;       /* the record in that part                            */
    /* 48 */ uint32_t kind;           /* enum root_kind                                     */
    /* 52 */ uint32_t name_len;       /* the newest name                                    */
    /* 56 */ uint64_t name_off;       /* into the heap                                      */
};
/* [end] */
enum root_kind { TABLE_EXTERNAL = 1, TABLE_STORED = 2 };
SIZE(root_table, 64);

/* [doc:root_name] A name and the table that bore it in [from_seq, to_seq). */
struct root_name {
    /*  0 */ uint64_t hash;           /* checksum() of the name, seeded                     */
    /*  8 */ uint64_t from_seq;
    /* 16 */ uint64_t to_seq;         /* SEQ_MAX while it is so                             */
    /* 24 */ uint64_t off;            /* into the heap                                      */
    /* 32 */ uint32_t len;
    /* 36 */ uint32_t table;
};
/* [end] */
SIZE(root_name, 40);

/* clang-format on */

#endif
