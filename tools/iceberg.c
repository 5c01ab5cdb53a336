/*
 * A pump between the unpacker and the JSON parser.
 */
#include "iceberg.h"

#include "iceberg_json.h"
#include "iceberg_text.h"

#include <stdlib.h>

/* libyajl scans an unfinished string anew with each piece, so pieces are large. */
#define PIECE (256u * 1024)

static int pump(struct iceberg_text *text, struct iceberg_json *json, struct iceberg_error *err)
{
    unsigned char piece[PIECE];
    for (;;) {
        ssize_t n = iceberg_text_read(text, piece, sizeof piece, err);
        if (n <= 0)
            return (int)n;
        int r = iceberg_json_feed(json, piece, (size_t)n);
        if (r < 0)
            return r;
    }
}

int iceberg_read(const char *path, const struct iceberg_log_sink *log, struct iceberg_metadata *ret,
                 struct iceberg_error *err)
{
    struct iceberg_text *text = NULL;
    struct iceberg_json *json = NULL;
    int r = iceberg_text_open(path, ICEBERG_TEXT_MAX, &text, err);
    if (r < 0)
        return r;
    r = iceberg_json_new(path, log, err, &json);
    if (r < 0)
        goto out;
    r = pump(text, json, err);
    if (r < 0)
        goto out;
    r = iceberg_json_end(json, ret);
out:
    iceberg_json_free(json);
    iceberg_text_close(text);
    return r;
}

void iceberg_free(struct iceberg_metadata *m)
{
    free(m->snapshots);
    m->snapshots = NULL;
    m->snapshot_count = 0;
}
