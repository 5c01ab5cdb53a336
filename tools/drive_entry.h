/*
 * One entry of a store of simd-r-drive, as store_file.h draws it: found by its end, and judged in a layout.
 */
#ifndef SKADE_DRIVE_ENTRY_H
#define SKADE_DRIVE_ENTRY_H

#include "drive_bytes.h"
#include "store_file.h"

#include <stdbool.h>

#define DRIVE_TRAILER 20u
#define DRIVE_ENTRY_MIN (DRIVE_TRAILER + 1)

struct drive_entry {
    uint64_t begin;   /* where the entry before ended */
    uint64_t payload; /* drive_entry_holds() finds it */
    uint64_t trailer; /* the payload's end */
    uint64_t key_hash;
    uint32_t crc;
    bool is_delete; /* the same */
};

/* Zero bytes between BEGIN and the payload after it. */
uint64_t drive_padding(uint64_t begin, enum drive_layout layout);

/* The entry that ends at END.  1 and *RET, 0 when the bytes before END can't be the end of one, or a negative errno. */
int drive_entry_before(struct drive_bytes *b, uint64_t end, struct drive_entry *ret);

enum drive_flaw { DRIVE_WHOLE, DRIVE_BAD_LINK, DRIVE_BAD_PADDING, DRIVE_BAD_CHECKSUM };

/* Do E's padding and checksum hold in LAYOUT?  enum drive_flaw, and when it is DRIVE_WHOLE E's payload is known; or a
 * negative errno. */
int drive_entry_holds(struct drive_bytes *b, struct drive_entry *e, enum drive_layout layout);

/* How far the way back from the file's end came in a layout. */
struct drive_walk {
    uint64_t whole; /* entries */
    uint64_t end;   /* of the entry that doesn't hold */
    enum drive_flaw flaw;
};

/* No layout held: say why, best for the layout that explains most of the file.  LAYOUTS are those that were tried, a
 * bit each.  SKADE_EDAMAGED, SKADE_EFOREIGN or a negative errno. */
int drive_explain(struct drive_bytes *b, const struct drive_walk walks[DRIVE_LAYOUTS], unsigned layouts,
                  struct drive_problem *why);

/* 0 or more: no problem; else R, with the text of what reading the file gave. */
int drive_read_failed(int r, struct drive_problem *why);

#endif
