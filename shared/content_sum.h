/*
 * What the rows of an append say, as a checksum that is taken while they pass: the same that entry_writer.h takes of the
 * rows that it writes, wherever either cuts them.
 *
 * The daemon makes an append's snapshot id of it.  A client that chose its uuid itself can so tell whether the commit
 * with this uuid is of its rows or of others that came with the same uuid.
 */
#ifndef SKADE_CONTENT_SUM_H
#define SKADE_CONTENT_SUM_H

#include "util.h"

struct content_sum;

struct content_sum *content_sum_make(void);     /* of no rows; NULL: no memory */
void content_sum_free(struct content_sum *sum); /* NULL: nothing */

/* A row: FLAGS of enum row_flag that stay with it, KEY, any number of pieces of its value, the end.  A key has at most
 * 65535 bytes. */
void content_sum_row(struct content_sum *sum, unsigned flags, struct bytes key);
void content_sum_piece(struct content_sum *sum, const void *data, size_t len);
void content_sum_row_end(struct content_sum *sum);

uint64_t content_sum_value(const struct content_sum *sum); /* of the rows that ended */

/* CONTENT after a row that had VALUE_LEN bytes and a key of KEY_LEN; SUM is of these bytes, chained to the content before. */
uint64_t content_sum_chain(uint64_t sum, uint64_t value_len, size_t key_len, unsigned flags);

/* The snapshot that an append gets: positive, or 0, which is none. */
int64_t content_snapshot(const struct uuid *uuid, uint64_t content);

#endif
