/*
 * The bytes of a part: an immutable index over the commits of a range of sequence numbers, and the commits themselves.
 * Conventions and the common header are in format.h; docs/FORMAT.md copies the blocks marked [doc:...].
 *
 *      header   blocks                                     tree, orders, tables, texts, heap
 *     +------+ +-----+-----+-----+-----+-----+- - - -+-----+
 *     |      | |k k k|k k  |k k k|     |k    |       |k k  |   sorted in each block and from block to block,
 *     +------+ |r r r|r r  |r r r|     |r    |       |r r  |   with gaps; k a key, r the record beside it
 *              +-----+-----+-----+-----+-----+- - - -+-----+
 *
 * A row is a commit.  Rows that introduced a snapshot stand in the blocks, at a place that follows from their key
 * (mix.h): block key_home(key, homes).  Keys are uniform, so few blocks overflow; what doesn't fit goes into the gap
 * of the block before (the smallest keys), else to the next block.  Rows leave their home only when it is full, and
 * the home says so in its marks.  Rows of equal keys, which different tables may have, stand in order of their table.
 * All other rows (no snapshot, or an id that the table had before) are extras, in order of sequence.
 *
 * A `ref` names a row: block * 6 + slot, or PART_EXTRA + index.
 */
#ifndef SKADE_FORMAT_PART_H
#define SKADE_FORMAT_PART_H

#include "format.h"
#include "stree64.h"

/* clang-format off */

#define PART_SLOTS 6u                 /* rows in a block                                    */
#define PART_EXTRA 0x80000000u        /* ref of an extra                                    */
#define PART_NO_REF UINT32_MAX        /* no row: one more than the last extra may have      */
#define PART_ROWS_MAX 0x7fffff00u     /* slots of all blocks, and extras, of a part         */

/* The word of a row: the number in its location, as up to seven decimal digits of four bits (so that writing it takes
 * no division), and flags. */
#define PART_NUMBER_BITS 27
#define PART_NUMBER ((1u << PART_NUMBER_BITS) - 1)
#define PART_NUMBER_MAX 7999999u
enum part_word {
    PART_INTRODUCES = 1 << 27,        /* EVENT_INTRODUCES and so on, same order             */
    PART_MOVES_HEAD = 1 << 28,
    PART_HAS_SNAPSHOT = 1 << 29,
    PART_COMPACT = 1 << 30,           /* EVENT_COMPACT, else EVENT_COMMIT                   */
};
#define PART_ESCAPE (1u << 31)        /* time and location are in the heap                  */

/* [doc:part_row] A row in a block; unaligned, so bytes. */
struct part_row {
    /*  0 */ uint8_t table[4];        /* u32                                                */
    /*  4 */ uint8_t word[4];         /* u32, enum part_word                                */
    /*  8 */ uint8_t seq[4];          /* u32, seq - from_seq                                */
    /* 12 */ uint8_t time[6];         /* u48, time - time_base                              */
    /* 18 */ uint8_t tail[16];        /* uuid of the location, or struct part_escape        */
};
/* [end] */
AT(part_row, time, 12);
AT(part_row, tail, 18);
SIZE(part_row, 34);

#define PART_TIME_MAX ((1ull << 48) - 1)

/* [doc:part_block] Keys in ascending order from slot 0; unused slots repeat the greatest key up to here. */
struct part_block {
    /*   0 */ int64_t key[PART_SLOTS];
    /*  48 */ uint32_t marks;         /* enum part_mark                                     */
    /*  52 */ struct part_row row[PART_SLOTS];
};
/* [end] */
AT(part_block, marks, 48);
AT(part_block, row, 52);
SIZE(part_block, 256);

enum part_mark {
    PART_USED = 0x3f,                 /* a bit for each used slot                           */
    PART_BACK = 1 << 8,               /* rows of this home stand in the block before        */
    PART_AHEAD = 1 << 9               /* rows of this or an earlier home stand in the next  */
};

/* [doc:part_extra] A row that no question by id finds. */
struct part_extra {
    /*  0 */ int64_t snapshot;
    /*  8 */ int64_t time_us;
    /* 16 */ uint32_t table;
    /* 20 */ uint32_t word;           /* enum part_word; PART_ESCAPE: only the location     */
    /* 24 */ uint32_t seq;            /* seq - from_seq                                     */
    /* 28 */ uint32_t reserved;
    /* 32 */ uint8_t tail[16];
};
/* [end] */
AT(part_extra, tail, 32);
SIZE(part_extra, 48);

/* [doc:part_escape] The tail of a row whose location doesn't follow its table's template, or whose time is too far
 * from time_base.  The heap has the time (i64) there and LEN bytes of location behind it. */
struct part_escape {
    /*  0 */ uint64_t off;            /* into the heap                                      */
    /*  8 */ uint32_t len;            /* of the location                                    */
    /* 12 */ uint32_t reserved;
};
/* [end] */
SIZE(part_escape, 16);

/* [doc:part_rank] 64 table numbers: which have rows, and the index of the first of them in `tables`. */
struct part_rank {
    /*  0 */ uint64_t bits;
    /*  8 */ uint32_t rank;
    /* 12 */ uint32_t reserved;
};
/* [end] */
SIZE(part_rank, 16);

#define PART_TEXT 88u                 /* bytes of text in a table                           */

/* [doc:part_table] A table with rows: how its locations look and where its orders are.  Two cache lines, which a lookup
 * can ask for as soon as it knows the table's number. */
struct part_table {
    /*  0 */ uint32_t number;
    /*  4 */ uint32_t prefix_off;     /* into texts; unused if both stand in text           */
    /*  8 */ uint32_t suffix_off;
    /* 12 */ uint16_t prefix_len;
    /* 14 */ uint16_t suffix_len;
    /* 16 */ uint8_t shape;           /* enum template_shape                                */
    /* 17 */ uint8_t width;           /* of the number, padded with zeros                   */
    /* 18 */ uint8_t separator;       /* between number and uuid                            */
    /* 19 */ uint8_t reserved;
    /* 20 */ uint32_t order_first;    /* into order: all rows                               */
    /* 24 */ uint32_t order_count;
    /* 28 */ uint32_t heads_first;    /* into times and heads: the rows that moved the head */
    /* 32 */ uint32_t heads_count;
    /* 36 */ uint32_t head;           /* ref of the newest of them; PART_NO_REF: none       */
    /* 40 */ char text[PART_TEXT];    /* prefix, then suffix, if they fit together          */
};
/* [end] */
AT(part_table, shape, 16);
AT(part_table, head, 36);
AT(part_table, text, 40);
SIZE(part_table, 128);

/* Do a prefix and a suffix of so many bytes stand in the table itself? */
static inline bool part_text_fits(uint16_t prefix_len, uint16_t suffix_len)
{
    return (unsigned)prefix_len + suffix_len <= PART_TEXT;
}

#define PART_FENCE 64u                /* times from one fence to the next                   */

/* [doc:part_header] */
struct part_header {
    /*   0 */ struct seg_header seg;
    /*  96 */ uint64_t rows;          /* in blocks and extras                               */
    /* 104 */ uint64_t homes;         /* blocks that are homes; more follow if the last overflow */
    /* 112 */ int64_t time_base;      /* of the rows in blocks                              */
    /* 120 */ int64_t time_min;       /* of all rows; both 0 if there are none              */
    /* 128 */ int64_t time_max;
    /* 136 */ uint32_t table_first;   /* of rank 0                                          */
    /* 140 */ uint32_t reach;         /* farthest that a row stands behind its home, blocks */
    /* 144 */ uint32_t height;        /* of the tree                                        */
    /* 148 */ uint32_t reserved;
    /* 152 */ struct section blocks;  /* struct part_block                                  */
    /* 168 */ struct section nodes;   /* struct stree64_node over the blocks, root first    */
    /* 184 */ struct section extras;  /* struct part_extra, by seq                          */
    /* 200 */ struct section ranks;   /* struct part_rank, or none: search in tables        */
    /* 216 */ struct section tables;  /* struct part_table, by number                       */
    /* 232 */ struct section times;   /* i64 of heads, per table by time, then by seq       */
    /* 248 */ struct section heads;   /* u32 ref, side by side with times                   */
    /* 264 */ struct section fences;  /* i64: every PART_FENCE-th of times                  */
    /* 280 */ struct section order;   /* u32 ref, per table by seq                          */
    /* 296 */ struct section texts;   /* bytes: long prefixes and suffixes, each once       */
    /* 312 */ struct section heap;    /* bytes: see part_escape                             */
    /* 328 */ uint64_t level[STREE64_LEVELS]; /* first node of each level of the tree       */
    /* 424 */ uint8_t pad[88];
};
/* [end] */
AT(part_header, blocks, 152);
AT(part_header, level, 328);
SIZE(part_header, 512);

/* How many of TIMES times are fences: those at multiples of PART_FENCE. */
static inline uint64_t part_fences(uint64_t times)
{
    return times / PART_FENCE + (times % PART_FENCE != 0);
}

/* Every section once, in the order of the file: name, element. */
#define PART_SECTIONS(X)            \
    X(blocks, struct part_block)    \
    X(nodes, struct stree64_node)   \
    X(extras, struct part_extra)    \
    X(ranks, struct part_rank)      \
    X(tables, struct part_table)    \
    X(times, int64_t)               \
    X(heads, uint32_t)              \
    X(fences, int64_t)              \
    X(order, uint32_t)              \
    X(texts, char)                  \
    X(heap, char)

/* clang-format on */

#endif
