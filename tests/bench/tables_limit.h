#ifndef SKADE_BENCH_TABLES_LIMIT_H
#define SKADE_BENCH_TABLES_LIMIT_H

#include <stdint.h>

/* Read the .entries files of FOLDER and check each row, and nothing else.  The number of rows; negative if one is damaged or
 * can't be read. */
int64_t read_and_check(const char *folder);

#endif
