#include "json_line.h"

#include "iceberg_guard.h"

#include <errno.h>
#include <skade.h>

int json_line(const char *line, size_t len, size_t token_max, const yajl_callbacks *callbacks, void *arg,
              const char **wrong)
{
    struct iceberg_guard guard = { .token_max = token_max };
    const unsigned char *text = (const unsigned char *)line;

    *wrong = iceberg_guard(&guard, text, len);
    if (*wrong)
        return SKADE_EINPUT;
    yajl_handle yajl = yajl_alloc(callbacks, NULL, arg);
    if (!yajl)
        return -ENOMEM;
    yajl_status status = yajl_parse(yajl, text, len);
    if (status == yajl_status_ok)
        status = yajl_complete_parse(yajl);
    yajl_free(yajl);
    return status == yajl_status_ok ? 0 : SKADE_EINPUT;
}
