/*
 * Puts a table's files in the order in which they were committed, and leaves out what failed commits left
 * behind.  The rules stand in import_plan.h.
 */
#ifndef SKADE_IMPORT_ORDER_H
#define SKADE_IMPORT_ORDER_H

#include "import_plan.h"

/*
 * Order FILES[0..*COUNT) and shorten the list to those that were committed.  Reads the files if their names
 * don't say the order.  0, or an error that refuses the table.
 */
int import_order(struct import_file **files, size_t *count, const struct import_options *options,
                 struct iceberg_error *err);

/* Tell the user, if anybody listens. */
void import_tell(const struct import_options *options, enum import_news news, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * FILE failed with R and ERR.  0 when --skip-bad leaves it out (told, and marked out), R when it refuses the
 * table.
 */
int import_bad_file(struct import_file *file, int r, const struct import_options *options,
                    const struct iceberg_error *err);

#endif
