/*
 * What the name of a metadata file says: whether it is one, and its number among its table's files.
 *
 *     v12.metadata.json  v12.3.metadata.json  the file-system catalog, and copies of it: version 12, minor 3
 *     00012-<uuid>.metadata.json              other catalogs: number 12, behind the dash may be anything
 *     <uuid>.metadata.json                    the file-system catalog's scratch file, not yet renamed
 *     any-other-name.metadata.json            by hand: nothing to learn from it
 *
 * Each with or without a word for the packing: .gz, .zst, .zstd before .metadata.json, or behind .json.
 */
#ifndef SKADE_ICEBERG_NAMES_H
#define SKADE_ICEBERG_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/* A number that 64 bits don't hold, of a file or its minor version. */
#define ICEBERG_NUMBER_TOO_LARGE UINT64_MAX

enum iceberg_series { SERIES_VERSION, SERIES_NUMBER, SERIES_UUID, SERIES_OTHER };

struct iceberg_name {
    enum iceberg_series series;
    uint64_t number;
    uint64_t minor; /* of vN.M: M + 1; 0 for vN, which comes before vN.0 */
};

/*
 * Is NAME (without folder) that of a metadata file?  Checksum files, manifests, hints, hidden files are none.
 */
bool iceberg_name_counts(const char *name);

/* What NAME says; a file given by hand may have any name. */
struct iceberg_name iceberg_name_of(const char *name);

/* Has this series numbers that order it and of which a committed history has each once? */
static inline bool iceberg_series_numbered(enum iceberg_series s)
{
    return s == SERIES_VERSION || s == SERIES_NUMBER;
}

/* By series, then number, then minor: negative, 0, positive. */
int iceberg_name_compare(const struct iceberg_name *a, const struct iceberg_name *b);

#endif
