/*
 * Small helps that need no handle: errors, times, names, uuids.  Any thread.
 */
#include "client.h"

#include "timefmt.h"

#include <stdio.h>

const char *skade_version(void)
{
    return SKADE_VERSION;
}

const char *skade_strerror(int code)
{
    return error_text(code);
}

const char *skade_errname(int code)
{
    return error_name(code);
}

int skade_time_parse(const char *text, int64_t *ret)
{
    return time_parse(text, ret);
}

char *skade_time_format(int64_t time_us, char *ret)
{
    return time_format(time_us, ret);
}

int skade_name_check(const char *name, const char **why)
{
    const char *problem = table_name_problem(bytes_of(name));

    if (!problem)
        return 0;
    if (why)
        *why = problem;
    return SKADE_EINPUT;
}

/* ---- uuids: 8-4-4-4-12 (RFC 4122) ---------------------------------------------------------------------- */

static bool dash_before(size_t byte)
{
    return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

/* By value and not by isxdigit(): what is a digit must not depend on the locale. */
static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int skade_uuid_parse(const char *text, unsigned char *ret)
{
    unsigned char uuid[16];

    for (size_t i = 0; i < sizeof uuid; i++) {
        if (dash_before(i) && *text++ != '-')
            return SKADE_EINPUT;
        int high = digit(text[0]);
        int low = high < 0 ? -1 : digit(text[1]);
        if (low < 0)
            return SKADE_EINPUT;
        uuid[i] = (unsigned char)(high << 4 | low);
        text += 2;
    }
    if (*text)
        return SKADE_EINPUT;
    memcpy(ret, uuid, sizeof uuid);
    return 0;
}

char *skade_uuid_format(const unsigned char *uuid, char *ret)
{
    char *to = ret;

    for (size_t i = 0; i < 16; i++) {
        if (dash_before(i))
            *to++ = '-';
        to += snprintf(to, 3, "%02x", uuid[i]);
    }
    return ret;
}
