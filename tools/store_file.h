/*
 * A store file of simd-r-drive, checked whole and read: the newest value of each key, oldest entry first.
 *
 *    0      21        64           128          149                                              size
 *    ┌──┬───┬─────────┬───────┬────┬──┬─────────┬─ ─ ─                                         ─ ─┐
 *    │p.│20 │ padding │payload│ 20 │0 │   20    │                                                 │
 *    └──┴───┴─────────┴───────┴────┴──┴─────────┴─ ─ ─                                         ─ ─┘
 *     entry  entry                  a deletion     the last 20: key hash, where the entry before ended, CRC-32
 *
 * Little-endian; the CRC is zlib's, of the payload alone.  There is no header, no length and no key: the file is read from
 * its end, where the last 20 bytes say where the entry before ended, and so on to offset 0.  A payload that is a single zero
 * byte is a deletion, which has no padding.
 *
 * The padding depends on the release that wrote the file (64, before that 16, at first none), and nothing says which.  So
 * a layout is believed when the whole chain, from the file's end to offset 0, and every padding and checksum hold in it;
 * when several are, the caller has to say which.  They would give the same rows: where they differ, one of them takes zero bytes of padding for
 * payload, and the CRC of bytes with up to 63 zero bytes before them is never that of the bytes alone (a CRC's step is
 * one to one, and so few zero bytes don't lead its first state back to itself).
 *
 * The file is never changed (drive_bytes.h).  Memory: a window, 11 to 21 bytes (half as much again for moments) for each
 * key hash in the file and 24 for each live one, at most DRIVE_KEYS_MAX of them.  Not for several threads.
 */
#ifndef SKADE_STORE_FILE_H
#define SKADE_STORE_FILE_H

#include <stddef.h>
#include <stdint.h>

struct drive; /* a store of theirs; "store" is ours */

enum drive_layout { DRIVE_64, DRIVE_16, DRIVE_UNALIGNED, DRIVE_LAYOUTS, DRIVE_ANY = DRIVE_LAYOUTS };

/* "64", "16", "none". */
extern const char *const drive_layout_names[DRIVE_LAYOUTS];

/* A live entry. */
struct drive_row {
    uint64_t key_hash;
    uint64_t offset; /* of the payload */
    uint64_t len;    /* never 0 */
};

struct drive_problem {
    char text[512];
};

/*
 * Open PATH, check all of it in LAYOUT (DRIVE_ANY: in each), and find its live rows.  A file of 0 bytes is a store without
 * entries.
 *
 * 0 and gives *RET; otherwise WHY says what and where: SKADE_EDAMAGED; SKADE_EFOREIGN (no such store at all); SKADE_EINPUT
 * (it holds in more than one layout, and LAYOUT is DRIVE_ANY); -E2BIG (too many keys); a negative errno.
 */
int drive_open(struct drive **ret, const char *path, enum drive_layout layout, struct drive_problem *why);
void drive_close(struct drive *d);

/* Live rows, and all entries with older values and deletions. */
uint64_t drive_row_count(const struct drive *d);
uint64_t drive_entry_count(const struct drive *d);

/* Row I, counted from the oldest entry. */
struct drive_row drive_row(const struct drive *d, uint64_t i);

/* Takes a piece of a payload, lent for the call; 0, or a positive number to end with. */
typedef int (*drive_piece)(void *arg, const void *data, size_t len);

/* ROW's payload, piece by piece.  0; what PIECE returned; SKADE_EDAMAGED and WHY: it isn't any more what was checked, and
 * what was delivered of it must not be used; -EIO ... */
int drive_read(struct drive *d, const struct drive_row *row, drive_piece piece, void *arg,
               struct drive_problem *why);

#endif
