/*
 * Metadata files made up for tests: a scratch directory, files in it, JSON, gzip and zstd.
 */
#ifndef SKADE_TEST_ICEBERG_FILES_H
#define SKADE_TEST_ICEBERG_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A scratch directory of this test's own (real path, no slash at the end); the functions below work in it. */
extern char scratch[256];
void scratch_make(void);
void scratch_remove(void);

/* NAME below the scratch directory.  Lends one of eight buffers in turn. */
const char *iceberg_path(const char *name);

/* Write LEN bytes to NAME below the scratch directory, making directories on the way.  Lends its path. */
const char *put(const char *name, const void *data, size_t len);
const char *put_text(const char *name, const char *text);

/* Packed DATA; the caller frees it. */
unsigned char *packed_gzip(const void *data, size_t len, size_t *ret);
unsigned char *packed_zstd(const void *data, size_t len, size_t *ret);

/* What a metadata file of a test says.  Zero fields take defaults or stay away. */
struct spec {
    int version;           /* 0: 2 */
    const char *uuid;      /* NULL: a fixed one; "": left out */
    const char *location;  /* NULL: s3://bucket/t */
    int64_t updated_ms;    /* last-updated-ms */
    int64_t current;       /* 0: left out */
    const char *snapshots; /* "ID@MS#SEQUENCE ..." or "ID@MS ..." */
    const char *log;       /* "ID@MS ..." */
    const char *previous;  /* "NAME ...": metadata-log, below s3://bucket/t/metadata/ */
};

/* Its JSON; the caller frees it. */
char *spec_json(const struct spec *spec);
const char *put_spec(const char *name, const struct spec *spec);

#define PUT(name, ...) put_spec(name, &(struct spec){ __VA_ARGS__ })

/* The folder of real metadata from other projects, or NULL and a reason on standard error. */
const char *real_data(void);

#endif
