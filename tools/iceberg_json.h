/*
 * From the JSON text of a metadata file, fed in pieces of any size, to struct iceberg_metadata.
 */
#ifndef SKADE_ICEBERG_JSON_H
#define SKADE_ICEBERG_JSON_H

#include "iceberg.h"

struct iceberg_json;

/*
 * A parser for the file called PATH in messages.  Lends PATH, LOG and ERR until iceberg_json_free().  Gives
 * *RET.
 */
int iceberg_json_new(const char *path, const struct iceberg_log_sink *log, struct iceberg_error *err,
                     struct iceberg_json **ret);

/* The next bytes.  After an error only iceberg_json_free() may follow. */
int iceberg_json_feed(struct iceberg_json *j, const unsigned char *text, size_t len);

/* There are no more.  Gives RET's snapshots; RET is touched on success only. */
int iceberg_json_end(struct iceberg_json *j, struct iceberg_metadata *ret);

/* Takes NULL. */
void iceberg_json_free(struct iceberg_json *j);

#endif
