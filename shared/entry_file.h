/*
 * Reading a .entries or a .rows file: its rows from either end, and the rows of a key.
 *
 * Opening checks header, footer and, when the index is first used, its checksum; each row is checked when it is read.
 * Nothing of a file is believed that wasn't checked, and damage is an error that names file and offset, never a silent
 * end.  Deletions are rows here: what hides what is rowset.h's business.
 *
 * A struct entry_file is immutable after open and may be shared by threads; each cursor belongs to one.
 */
#ifndef SKADE_ENTRY_FILE_H
#define SKADE_ENTRY_FILE_H

#include "errors.h"
#include "format_entry.h"
#include "row.h"

#include <sys/stat.h>

struct entry_file;
struct entry_cursor;
struct entry_run; /* entry_run.h */

struct entry_expect { /* what the file must say; what is zero isn't compared */
    struct uuid log, uuid;
    uint32_t table;
    uint64_t part;
    uint64_t footer_check;
    uint64_t size;
    const struct stat *st; /* what fstat() said of it; NULL: is asked */
};

/* Open the sealed file FD (taken over, also on failure).  NAME, for messages, is copied.  0 or SKADE_EDAMAGED,
 * SKADE_EVERSION, SKADE_EFOREIGN (no file of skade's, or of another table or log), -ENOMEM, -errno. */
int entry_file_open(struct entry_file **ret, int fd, const char *name, const struct entry_expect *expect,
                    struct errmsg *msg);
void entry_file_close(struct entry_file *f);

const struct entry_header *entry_file_header(const struct entry_file *f);
const struct entry_footer *entry_file_footer(const struct entry_file *f); /* checked */
const char *entry_file_name(const struct entry_file *f);
bool entry_file_compacted(const struct entry_file *f); /* .rows */

/* ---- rows in order ---- */

enum entry_order { OLDEST_FIRST, NEWEST_FIRST };

/* A cursor over all rows.  TIME_US is what rows of a .entries file get. */
int entry_cursor_open(struct entry_cursor **ret, struct entry_file *f, enum entry_order order,
                      int64_t time_us, struct errmsg *msg);
void entry_cursor_close(struct entry_cursor *c);

/* The next row, lent until the next call.  1, 0 at the end, or negative; then always the same, and *RET says nothing.
 * Its number tells which row of the file it is. */
int entry_next(struct entry_cursor *c, struct row *ret, struct errmsg *msg);

/* The rows that are in memory and checked already: entry_run_next() gives what entry_next() would, until none is left.
 * Lent as long as C is open. */
struct entry_run *entry_cursor_run(struct entry_cursor *c);

/* *C, whose file may be closed by now, goes on with F in its order as if it were opened for it; it keeps its memory if it
 * can.  After a failure it is closed, and *C is NULL. */
int entry_cursor_turn(struct entry_cursor **c, struct entry_file *f, int64_t time_us, struct errmsg *msg);

/* Bytes [off, off + len) of the value of the row that entry_next() or entry_find() gave last, into BUFFER.  Row checks
 * of long values are complete when its last byte was read in order; entry_check_value() does it at once. */
int entry_value_read(struct entry_cursor *c, uint64_t off, void *buffer, size_t len, struct errmsg *msg);
int entry_value_check(struct entry_cursor *c, struct errmsg *msg);

/* Jump, so that the next entry_next() gives the row with this NUMBER, which the file has, then its neighbours in the
 * cursor's order.  A jump may follow a failure: rows behind a damage can be read that way. */
int entry_seek_number(struct entry_cursor *c, uint64_t number, struct errmsg *msg);
/* The row at PLACE of a .entries file, or the rows of the block PLACE of a .rows file begin there. */
int entry_seek_place(struct entry_cursor *c, uint64_t place, struct errmsg *msg);

/* ---- a file in memory ---- */

/* The rows of a .entries file as they are on disk: bytes [0, end). */
struct entry_bytes {
    const uint8_t *data;
    uint64_t end;
    uint64_t seed; /* of its rows' checksums */
    uint32_t align;
};

/* Read them, unchecked, into MEMORY, which has room for as many as the footer's data_end, is aligned to 64 and stays the
 * caller's.  F is a .entries file.  0, -errno, SKADE_EDAMAGED. */
int entry_file_bytes(const struct entry_file *f, void *memory, struct entry_bytes *ret, struct errmsg *msg);

/* The row that ends at PLACE, any number: true and *RET without its time, lent as long as the bytes are, whole, whatever its
 * length; false: no row does, or it is damaged.  Any thread. */
bool entry_row_in(const struct entry_bytes *b, uint64_t place, struct row *ret);

/* A block of a .rows file, unpacked, in which rows are found by their keys. */
struct entry_block;

/* Unpack block NUMBER, any number, by the cursor C of a .rows file, which must jump before it goes on.  1 and *RET, which is
 * given; 0: it can't be had so (no memory, or a row goes on in the next block); negative. */
int entry_block_take(struct entry_cursor *c, uint64_t number, struct entry_block **ret, struct errmsg *msg);
/* It is one stretch from malloc(), of so many bytes. */
size_t entry_block_bytes(const struct entry_block *b);
/* Move it to MEMORY, which has room for it and is aligned to 8. */
struct entry_block *entry_block_move(struct entry_block *b, void *memory);

/* The row of KEY, whose hash is HASH: true and *RET, lent as long as the block is.  Any thread. */
bool entry_block_find(const struct entry_block *b, uint64_t hash, struct bytes key, struct row *ret);

/* ---- the index ---- */

/* The index, verified: COUNT hashes ascending (signed) and their places; NULL arrays when there is no keyed row.
 * Lent as long as F is open.  Thread-safe. */
struct entry_index {
    const int64_t *hashes;
    const uint64_t *places;
    uint64_t count;
    struct stree64 tree;
};
int entry_file_index(struct entry_file *f, struct entry_index *ret, struct errmsg *msg);

/* The rows whose hash is HASH end before this position. */
uint64_t entry_index_end(const struct entry_index *x, int64_t hash);

/* The newest row of KEY in this file, deletions included: 1 and *RET (lent until C's next call), 0 not in it, negative.
 * The full key is compared.  After 1 the cursor goes on behind that row; after 0 it must jump before it goes on. */
int entry_find(struct entry_cursor *c, struct bytes key, struct row *ret, struct errmsg *msg);

/* The same at PLACE alone, one of those that the index has. */
int entry_find_at(struct entry_cursor *c, uint64_t place, struct bytes key, struct row *ret,
                  struct errmsg *msg);

/* Everything of it: every row's, block's and the index's checksum, order and agreement of index and rows.  0 or
 * negative, with the first damage in MSG. */
int entry_file_verify(struct entry_file *f, struct errmsg *msg);

#endif
