/*
 * Sorting more records than memory should hold: fixed size, by their first 8 bytes as a signed number, then by all
 * further 8-byte words as unsigned numbers.
 *
 * Runs are sorted in memory and, when the budget is used up, written to unnamed files in a directory; reading merges
 * them.  What fits into the budget never touches the disk.
 */
#ifndef SKADE_SORTER_H
#define SKADE_SORTER_H

#include "errors.h"
#include "util.h"

struct sorter;

/* Records of WORDS 8-byte words (1 to 4); about MEMORY bytes; TEMP_DIR a directory's descriptor, used only when they
 * don't suffice. */
int sorter_open(struct sorter **ret, unsigned words, size_t memory, int temp_dir, struct errmsg *msg);
void sorter_close(struct sorter *s);

int sorter_add(struct sorter *s, const uint64_t *record, struct errmsg *msg);
int sorter_add_many(struct sorter *s, const uint64_t *records, size_t n,
                    struct errmsg *msg); /* one after the other */
uint64_t sorter_count(const struct sorter *s);

/* After the last add: from the smallest on.  1 and *RECORD (lent until the next call), 0 at the end, negative.
 * sorter_rewind() starts again. */
int sorter_next(struct sorter *s, const uint64_t **record, struct errmsg *msg);
int sorter_rewind(struct sorter *s, struct errmsg *msg);

/* Word WORD of the next N records into TO, or of all that are left: how many, 0 at the end, negative. */
int sorter_column(struct sorter *s, unsigned word, uint64_t *to, int n, struct errmsg *msg);

#endif
