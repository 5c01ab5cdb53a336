/*
 * One line of a release.
 */
#include "release_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct release_line line;
    char problem[512];

    release_line_parse((const char *)data, size, &line, problem, sizeof problem);
    return 0;
}
