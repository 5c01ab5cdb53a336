/*
 * The JSON of table metadata, fed in pieces: the first byte says how long they are.
 */
#include "iceberg_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct iceberg_error err = { "" };
    struct iceberg_metadata m;
    struct iceberg_json *j;
    int r = 0;

    if (size < 1 || iceberg_json_new("input", NULL, &err, &j) < 0)
        return 0;
    size_t piece = data[0] % 64 + 1;
    for (size_t at = 1; at < size && r == 0; at += piece)
        r = iceberg_json_feed(j, data + at, size - at < piece ? size - at : piece);
    if (r == 0 && iceberg_json_end(j, &m) == 0)
        iceberg_free(&m);
    iceberg_json_free(j);
    return 0;
}
