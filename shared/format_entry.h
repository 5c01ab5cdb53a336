/*
 * The files of tables that skade stores: rows on disk.  docs/FORMAT.md copies the blocks marked [doc:...].
 *
 *   DATA-DIR/tables/<table>/<n>/<uuid>.entries       one commit: its rows as they came, payloads aligned
 *   DATA-DIR/tables/<table>/<n>/<uuid>.<i>.rows      a compacted stretch: rows in zstd blocks
 *   DATA-DIR/tables/<table>/<n>/<uuid>.manifest      the compacted base: which .rows files, in which order
 *   DATA-DIR/tables/<table>/<n>/<uuid>.pending       a second link of .entries or .manifest until its commit is known
 *   DATA-DIR/lost/<table>.<n>.<name>                 files whose commit never came to be
 *
 * <table> is the table's number, <n> counts its compactions, <uuid> is that of the request (32 hexadecimal digits),
 * <i> four decimal digits from 0001.
 *
 * A file is written without a name, sealed by its footer, verified, synced and then linked; from then on nobody writes
 * into it.  So a file with a name is whole, or damaged: there is no recovery of half a file, because a torn one was
 * never committed.  Conventions (byte order, sections, checksums) are those of format.h.
 *
 *      header | entry entry entry ... | skips  | keys | footer     .entries
 *      header | block block block ... | blocks | keys | footer     .rows
 *
 * Every byte belongs to exactly one checksum, padding included, so that any flipped bit is noticed.
 */
#ifndef SKADE_FORMAT_ENTRY_H
#define SKADE_FORMAT_ENTRY_H

#include "format.h"
#include "stree64.h"

#define FORMAT_MAGIC_ENTRIES "skadentr"
#define FORMAT_MAGIC_ROWS "skadrows"
#define FORMAT_MAGIC_MANIFEST "skadmani"
#define FORMAT_MAGIC_FOOTER "skadfoot"

#define ENTRY_ALIGN 64u              /* of payloads, unless a file says otherwise          */
#define ENTRY_KEY_MAX 65535u         /* bytes of a key; a key may be empty                 */
#define ENTRY_SKIP 256u              /* entries from one of the skips to the next          */
#define ENTRY_PIECE 65536u           /* checksums of long stretches are chained over pieces of this size */
#define ENTRY_VALUE_MAX (1ull << 47) /* bytes of a payload                                 */
#define KEY_BOUND_MAX 59u            /* bytes of a bound, see struct key_bound             */

/* clang-format off */

/* [doc:entry_header] What .entries and .rows files begin with. */
struct entry_header {
    /*   0 */ char magic[8];          /* FORMAT_MAGIC_ENTRIES or FORMAT_MAGIC_ROWS          */
    /*   8 */ uint32_t major;         /* FORMAT_MAJOR; readers refuse any other             */
    /*  12 */ uint32_t header_len;    /* sizeof(struct entry_header)                        */
    /*  16 */ struct uuid log;        /* of the commit log                                  */
    /*  32 */ struct uuid uuid;       /* of the request that wrote it                       */
    /*  48 */ uint32_t table;         /* table number                                       */
    /*  52 */ uint32_t align;         /* of payloads: a power of two, 8 to 4096             */
    /*  56 */ uint64_t seen_seq;      /* the log's newest event when it was written         */
    /*  64 */ uint64_t part;          /* .rows: its number in the manifest, or 0; else 0     */
    /*  72 */ uint8_t pad[48];
    /* 120 */ uint64_t check;         /* checksum() of bytes [0, 120)                       */
};
/* [end] */
AT(entry_header, table, 48);
AT(entry_header, check, 120);
SIZE(entry_header, 128);

/* [doc:entry_trailer] Behind each entry's payload and key.
 *
 *   ... trailer of the entry before | zeros | payload | key | zeros | trailer
 *       (or the header)             ^begin  ^aligned           ^multiple of 8
 *
 * begin is the end of what comes before, so everything follows from the trailer's place, prev and the lengths.  check
 * covers [begin, check), in pieces of ENTRY_PIECE bytes from begin on, each chained to the one before; the first is
 * seeded with entry_seed(uuid, begin).
 */
struct entry_trailer {
    /*  0 */ uint64_t hash;           /* entry_hash(key); 0 without a key                   */
    /*  8 */ uint64_t prev;           /* place of the trailer before; 0: the first entry    */
    /* 16 */ uint64_t payload_len;
    /* 24 */ uint16_t key_len;
    /* 26 */ uint16_t flags;          /* enum entry_flag                                    */
    /* 28 */ uint32_t number;         /* of the entry in its file, from 0; wraps            */
    /* 32 */ uint64_t check;
};
/* [end] */
AT(entry_trailer, check, 32);
SIZE(entry_trailer, 40);

enum entry_flag {
    ENTRY_KEYED = 1,                  /* it has a key, perhaps of no bytes, and replaces older rows of that key */
    ENTRY_DELETE = 2,                 /* the key has no row from here on; no payload; always keyed */
    ENTRY_FLAGS = 3
};

/* [doc:block_ref] A block of a .rows file: one zstd frame. */
struct block_ref {
    /*  0 */ uint64_t off;            /* of the frame; blocks follow each other without gaps */
    /*  8 */ uint32_t len;            /* bytes of the frame                                 */
    /* 12 */ uint32_t raw_len;        /* bytes in it                                        */
    /* 16 */ uint64_t first_row;      /* number of its first row in the file, from 0        */
    /* 24 */ int64_t time_us;         /* what its rows' times are counted from              */
    /* 32 */ uint64_t check;          /* checksum() of the frame, seeded with entry_seed(uuid, off) */
    /* 40 */ uint32_t rows;           /* that begin in it                                   */
    /* 44 */ uint32_t flags;          /* enum block_flag                                    */
};
/* [end] */
AT(block_ref, check, 32);
SIZE(block_ref, 48);

/*
 * A row in a block: varint key length + 1 (0: no key), varint payload length, zigzag varint time - (time of the row
 * before in the block, or time_us), key, payload.  A row whose payload doesn't fit into a block is alone: its first
 * block has the head and the first bytes, the following ones only further bytes; all but the last say BLOCK_GOES_ON.
 */
enum block_flag {
    BLOCK_GOES_ON = 1,                /* its (only) row goes on in the next block           */
    BLOCK_MORE = 2,                   /* nothing but further bytes of the row before        */
    BLOCK_FLAGS = 3
};

/* [doc:key_bound] The smallest or the largest key of a file, cut to its first KEY_BOUND_MAX bytes: keys of two files whose
 * bounds are apart, in order of bytes, are all different.  Zeros behind its bytes; no bytes when no row has a key. */
struct key_bound {
    /*  0 */ uint8_t len;
    /*  1 */ uint8_t bytes[KEY_BOUND_MAX];
};
/* [end] */
SIZE(key_bound, 60);

enum key_fact {
    KEYS_DIFFER = 1,                  /* no two hashes are equal, so no key is there twice   */
    KEY_FACTS = 1
};

/* [doc:entry_footer] The last bytes of a .entries or .rows file. */
struct entry_footer {
    /*   0 */ char magic[8];          /* FORMAT_MAGIC_FOOTER                                */
    /*   8 */ uint64_t size;          /* of the whole file                                  */
    /*  16 */ uint64_t rows;          /* entries, deletions included                        */
    /*  24 */ uint64_t keyed;         /* of them with a key                                 */
    /*  32 */ uint64_t deletes;       /* of them deletions                                  */
    /*  40 */ uint64_t raw_bytes;     /* keys and payloads                                  */
    /*  48 */ uint64_t data_end;      /* end of the last entry or block; skips or blocks follow */
    /*  56 */ uint64_t last;          /* .entries: place of the last trailer; 0: no entry   */
    /*  64 */ int64_t time_min;       /* .rows: of all rows; both 0 if there are none       */
    /*  72 */ int64_t time_max;
    /*  80 */ struct section blocks;  /* .rows: struct block_ref                            */
    /*  96 */ struct section hashes;  /* i64: hashes of the keyed rows, ascending as signed, then by place */
    /* 112 */ struct section places;  /* u64 beside each: place of the trailer (.entries), or number of the block (.rows) */
    /* 128 */ struct section nodes;   /* struct stree64_node over hashes, leaves of eight   */
    /* 144 */ struct section skips;   /* .entries: u64 place of the trailer of entry 255, 511, ... */
    /* 160 */ uint64_t keys_off;      /* where hashes, places and nodes begin; a multiple of 64 */
    /* 168 */ uint64_t map_check;     /* checksum() of [data_end, keys_off), in pieces as above, seed 0 */
    /* 176 */ uint64_t keys_check;    /* the same of [keys_off, start of the footer)        */
    /* 184 */ struct key_bound low;   /* of the keys of all rows, deletions included        */
    /* 244 */ struct key_bound high;
    /* 304 */ uint64_t facts;         /* enum key_fact                                      */
    /* 312 */ uint64_t check;         /* checksum() of bytes [0, 312), seeded with the header's check */
};
/* [end] */
AT(entry_footer, blocks, 80);
AT(entry_footer, keys_check, 176);
AT(entry_footer, high, 244);
AT(entry_footer, check, 312);
SIZE(entry_footer, 320);

/* [doc:manifest_header] A .manifest file: this, then one manifest_file for each .rows file, oldest rows first. */
struct manifest_header {
    /*   0 */ char magic[8];          /* FORMAT_MAGIC_MANIFEST                              */
    /*   8 */ uint32_t major;
    /*  12 */ uint32_t header_len;    /* sizeof(struct manifest_header)                     */
    /*  16 */ uint64_t size;          /* of the whole file                                  */
    /*  24 */ struct uuid log;
    /*  40 */ struct uuid uuid;       /* of the compaction                                  */
    /*  56 */ uint32_t table;
    /*  60 */ uint32_t files;
    /*  64 */ uint64_t seen_seq;      /* the log's newest event when it was written         */
    /*  72 */ uint64_t base_seq;      /* the commit S that was compacted: everything up to it is in here */
    /*  80 */ int64_t base_time_us;   /* S's time                                           */
    /*  88 */ uint64_t rows;          /* in all files                                       */
    /*  96 */ uint64_t rows_pruned;
    /* 104 */ uint64_t snapshots_before;
    /* 112 */ uint8_t pad[64];
    /* 176 */ uint64_t content_check; /* checksum() of bytes [header_len, size)             */
    /* 184 */ uint64_t check;         /* checksum() of bytes [0, 184)                       */
};
/* [end] */
AT(manifest_header, base_seq, 72);
AT(manifest_header, check, 184);
SIZE(manifest_header, 192);

/* [doc:manifest_file] A .rows file of a manifest; its name follows from the manifest's uuid and its number. */
struct manifest_file {
    /*   0 */ uint64_t size;
    /*   8 */ uint64_t rows;
    /*  16 */ uint64_t keyed;
    /*  24 */ uint64_t raw_bytes;
    /*  32 */ int64_t time_min;
    /*  40 */ int64_t time_max;
    /*  48 */ uint64_t footer_check;  /* the file's footer's check: it is that file and no other */
    /*  56 */ struct key_bound low;   /* the file's footer's                                */
    /* 116 */ struct key_bound high;
    /* 176 */ uint64_t reserved[2];
};
/* [end] */
AT(manifest_file, high, 116);
SIZE(manifest_file, 192);

/* clang-format on */

#endif
