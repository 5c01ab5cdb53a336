/*
 * Names are cut down to a stem ("v12", "00012-<uuid>"), and the stem is parsed.
 */
#include "iceberg_names.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#define METADATA_SUFFIX ".metadata.json"

static const char *const packings[] = { ".gz", ".zst", ".zstd" };

static bool ends_with(const char *s, size_t len, const char *suffix)
{
    size_t n = strlen(suffix);
    return len >= n && memcmp(s + len - n, suffix, n) == 0;
}

/* LEN without one of the words for a packing at the end of S. */
static size_t without_packing(const char *s, size_t len)
{
    for (size_t i = 0; i < sizeof packings / sizeof packings[0]; i++)
        if (ends_with(s, len, packings[i]))
            return len - strlen(packings[i]);
    return len;
}

/*
 * Bytes of NAME before ".metadata.json" and the packing on either side of it; all of NAME without that
 * suffix.
 */
static size_t stem_length(const char *name)
{
    size_t len = without_packing(name, strlen(name));
    if (!ends_with(name, len, METADATA_SUFFIX))
        return strlen(name);
    return without_packing(name, len - strlen(METADATA_SUFFIX));
}

bool iceberg_name_counts(const char *name)
{
    return name[0] != '.' && ends_with(name, without_packing(name, strlen(name)), METADATA_SUFFIX);
}

static bool is_uuid(const char *s, size_t len)
{
    if (len != 36)
        return false;
    for (size_t i = 0; i < len; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? s[i] != '-' : !isxdigit((unsigned char)s[i]))
            return false;
    }
    return true;
}

/* Digits at S: how many there are, and their value or ICEBERG_NUMBER_TOO_LARGE. */
static size_t parse_digits(const char *s, size_t len, uint64_t *ret)
{
    size_t n = 0;
    uint64_t v = 0;
    for (; n < len && isdigit((unsigned char)s[n]); n++) {
        uint64_t digit = (uint64_t)(s[n] - '0');
        v = v > (UINT64_MAX - digit) / 10 ? ICEBERG_NUMBER_TOO_LARGE : v * 10 + digit;
    }
    *ret = v;
    return n;
}

/* vN or vN.M, and nothing behind it. */
static bool parse_version(const char *s, size_t len, struct iceberg_name *ret)
{
    uint64_t number = 0, minor = 0;
    if (len == 0 || s[0] != 'v')
        return false;
    size_t n = 1 + parse_digits(s + 1, len - 1, &number);
    if (n == 1)
        return false;
    if (n < len) {
        size_t m = s[n] == '.' ? parse_digits(s + n + 1, len - n - 1, &minor) : 0;
        if (m == 0 || n + 1 + m != len)
            return false;
        if (minor == ICEBERG_NUMBER_TOO_LARGE)
            number = minor;
        minor++;
    }
    *ret = (struct iceberg_name){ SERIES_VERSION, number, minor };
    return true;
}

/* Digits, a dash, something. */
static bool parse_number(const char *s, size_t len, struct iceberg_name *ret)
{
    uint64_t number = 0;
    size_t n = parse_digits(s, len, &number);
    if (n == 0 || n + 1 >= len || s[n] != '-')
        return false;
    *ret = (struct iceberg_name){ SERIES_NUMBER, number, 0 };
    return true;
}

struct iceberg_name iceberg_name_of(const char *name)
{
    struct iceberg_name parsed = { SERIES_OTHER, 0, 0 };
    size_t len = stem_length(name);
    /* First, since one uuid in forty begins with eight decimal digits and a dash. */
    if (is_uuid(name, len))
        parsed.series = SERIES_UUID;
    else if (!parse_version(name, len, &parsed))
        parse_number(name, len, &parsed);
    return parsed;
}

int iceberg_name_compare(const struct iceberg_name *a, const struct iceberg_name *b)
{
    if (a->series != b->series)
        return a->series < b->series ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    if (a->minor != b->minor)
        return a->minor < b->minor ? -1 : 1;
    return 0;
}
