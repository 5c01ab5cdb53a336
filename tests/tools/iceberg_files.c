#include "tools/iceberg_files.h"

#include <check.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

char scratch[256];

void scratch_make(void)
{
    char made[PATH_MAX], real[PATH_MAX];
    const char *tmp = getenv("TMPDIR");
    snprintf(made, sizeof made, "%s/skade-iceberg-XXXXXX", tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(made));
    ck_assert_ptr_nonnull(realpath(made, real));
    ck_assert_uint_lt(strlen(real), sizeof scratch);
    memcpy(scratch, real, strlen(real) + 1);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void scratch_remove(void)
{
    nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *iceberg_path(const char *name)
{
    static char buffers[8][PATH_MAX];
    static unsigned next;
    char *path = buffers[next++ % 8];
    snprintf(path, PATH_MAX, "%s/%s", scratch, name);
    return path;
}

static void make_parents(const char *path)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%s", path);
    for (char *p = dir + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        ck_assert(mkdir(dir, 0777) == 0 || errno == EEXIST);
        *p = '/';
    }
}

const char *put(const char *name, const void *data, size_t len)
{
    const char *path = iceberg_path(name);
    make_parents(path);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, len, f), len);
    ck_assert_int_eq(fclose(f), 0);
    return path;
}

const char *put_text(const char *name, const char *text)
{
    return put(name, text, strlen(text));
}

unsigned char *packed_gzip(const void *data, size_t len, size_t *ret)
{
    z_stream z = { 0 };
    ck_assert_int_eq(deflateInit2(&z, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t bound = deflateBound(&z, len);
    unsigned char *out = malloc(bound);
    z.next_in = (unsigned char *)(uintptr_t)data;
    z.avail_in = (uInt)len;
    z.next_out = out;
    z.avail_out = (uInt)bound;
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    *ret = bound - z.avail_out;
    deflateEnd(&z);
    return out;
}

unsigned char *packed_zstd(const void *data, size_t len, size_t *ret)
{
    size_t bound = ZSTD_compressBound(len);
    unsigned char *out = malloc(bound);
    *ret = ZSTD_compress(out, bound, data, len, 1);
    ck_assert(!ZSTD_isError(*ret));
    return out;
}

/* "ID@MS#SEQUENCE ID@MS ..." as list NAME. */
static void write_snapshots(FILE *f, const char *name, const char *list)
{
    fprintf(f, ", \"%s\": [", name);
    for (const char *sep = ""; *list; sep = ", ") {
        int n = 0, more = 0;
        int64_t id, ms, sequence;
        ck_assert_int_eq(sscanf(list, "%" SCNd64 "@%" SCNd64 "%n", &id, &ms, &n), 2);
        fprintf(f, "%s{\"snapshot-id\": %" PRId64 ", \"timestamp-ms\": %" PRId64, sep, id, ms);
        if (sscanf(list + n, "#%" SCNd64 "%n", &sequence, &more) == 1)
            fprintf(f, ", \"sequence-number\": %" PRId64, sequence);
        fprintf(f, ", \"summary\": {\"operation\": \"append\"}}");
        list += n + more;
        list += strspn(list, " ");
    }
    fprintf(f, "]");
}

static void write_previous(FILE *f, const char *list)
{
    fprintf(f, ", \"metadata-log\": [");
    for (const char *sep = ""; *list; sep = ", ") {
        int n = (int)strcspn(list, " ");
        fprintf(f, "%s{\"metadata-file\": \"s3://bucket/t/metadata/%.*s\", \"timestamp-ms\": 1}", sep, n,
                list);
        list += n;
        list += strspn(list, " ");
    }
    fprintf(f, "]");
}

char *spec_json(const struct spec *spec)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    const char *uuid = spec->uuid ? spec->uuid : "9c12d441-03fe-4693-9a96-a0705ddf69c1";
    fprintf(f, "{\"format-version\": %d, \"location\": \"%s\", \"last-updated-ms\": %" PRId64,
            spec->version ? spec->version : 2, spec->location ? spec->location : "s3://bucket/t",
            spec->updated_ms);
    if (*uuid)
        fprintf(f, ", \"table-uuid\": \"%s\"", uuid);
    fprintf(f, ", \"schemas\": [{\"type\": \"struct\", \"fields\": []}]");
    if (spec->current)
        fprintf(f, ", \"current-snapshot-id\": %" PRId64, spec->current);
    if (spec->snapshots)
        write_snapshots(f, "snapshots", spec->snapshots);
    if (spec->log)
        write_snapshots(f, "snapshot-log", spec->log);
    if (spec->previous)
        write_previous(f, spec->previous);
    fprintf(f, "}\n");
    ck_assert_int_eq(fclose(f), 0);
    return text;
}

const char *put_spec(const char *name, const struct spec *spec)
{
    char *text = spec_json(spec);
    const char *path = put_text(name, text);
    free(text);
    return path;
}

const char *real_data(void)
{
    static char path[PATH_MAX];
    const char *dir = getenv("SKADE_TEST_DATA");
    snprintf(path, sizeof path, "%s/iceberg", dir ? dir : "../shared/data");
    if (access(path, R_OK | X_OK) == 0)
        return path;
    fprintf(stderr, "skipped: there is no folder %s; SKADE_TEST_DATA is the folder that has iceberg/ in it\n",
            path);
    return NULL;
}
