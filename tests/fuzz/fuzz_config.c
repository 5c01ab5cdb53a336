/*
 * An option and its value, divided at the first '='; names and times on the way.
 */
#include "config.h"
#include "names.h"
#include "timefmt.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct config c;
    struct errmsg msg;
    int64_t time_us;
    char *text = malloc(size + 1);

    memcpy(text, data, size);
    text[size] = 0;
    table_name_problem((struct bytes){ text, size });
    location_problem((struct bytes){ text, size });
    time_parse(text, &time_us);
    config_defaults(&c);
    char *value = strchr(text, '=');
    if (value) {
        *value++ = 0;
        config_set(&c, text, value, "input", &msg);
    }
    free(text);
    return 0;
}
