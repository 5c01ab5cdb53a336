/*
 * A scanner with four states: between strings, in a string, after a backslash, in the digits of \uXXXX.
 */
#include "iceberg_guard.h"

#include <ctype.h>

static const char half_pair[] = "a string has half of a UTF-16 surrogate pair";

static bool is_high(unsigned unit)
{
    return unit >= 0xd800 && unit <= 0xdbff;
}

static bool is_low(unsigned unit)
{
    return unit >= 0xdc00 && unit <= 0xdfff;
}

static const char *between(struct iceberg_guard *g, unsigned char c)
{
    switch (c) {
    case '"':
        g->at = GUARD_STRING;
        g->token = 0;
        break;
    case '{':
    case '[':
        g->token = 0;
        if (++g->depth > ICEBERG_DEPTH_MAX)
            return "is nested too deeply";
        break;
    case '}':
    case ']':
        g->token = 0;
        g->depth -= g->depth > 0; /* one too many is libyajl's to refuse */
        break;
    case ',':
    case ':':
    case ' ':
    case '\t':
    case '\r':
    case '\n':
        g->token = 0;
        break;
    default:
        g->token++;
    }
    return NULL;
}

static const char *in_string(struct iceberg_guard *g, unsigned char c)
{
    if (c == '\\') {
        g->at = GUARD_ESCAPE;
        return NULL;
    }
    if (g->after_high)
        return half_pair;
    if (c == '"') {
        g->at = GUARD_BETWEEN;
        g->token = 0;
    }
    return NULL;
}

static const char *in_escape(struct iceberg_guard *g, unsigned char c)
{
    if (c == 'u') {
        g->at = GUARD_HEX;
        g->hex_left = 4;
        g->unit = 0;
        return NULL;
    }
    g->at = GUARD_STRING;
    return g->after_high ? half_pair : NULL;
}

static const char *end_of_unit(struct iceberg_guard *g)
{
    g->at = GUARD_STRING;
    if (is_low(g->unit) != g->after_high)
        return half_pair;
    g->after_high = is_high(g->unit);
    return NULL;
}

static const char *in_hex(struct iceberg_guard *g, unsigned char c)
{
    if (!isxdigit(c))
        return "a string has \\u without four hexadecimal digits";
    int digit = isdigit(c) ? c - '0' : tolower(c) - 'a' + 10;
    g->unit = g->unit << 4 | (unsigned)digit;
    return --g->hex_left == 0 ? end_of_unit(g) : NULL;
}

static const char *step(struct iceberg_guard *g, unsigned char c)
{
    switch (g->at) {
    case GUARD_BETWEEN:
        return between(g, c);
    case GUARD_STRING:
        return in_string(g, c);
    case GUARD_ESCAPE:
        return in_escape(g, c);
    case GUARD_HEX:
        return in_hex(g, c);
    }
    return NULL;
}

/* Most bytes are plain ones inside strings. */
static size_t plain_bytes(const struct iceberg_guard *g, const unsigned char *text, size_t len)
{
    if (g->at != GUARD_STRING || g->after_high)
        return 0;
    size_t n = 0;
    while (n < len && text[n] != '"' && text[n] != '\\')
        n++;
    return n;
}

const char *iceberg_guard(struct iceberg_guard *g, const unsigned char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t plain = plain_bytes(g, text + i, len - i);
        i += plain;
        g->token += plain;
        if (g->token > (g->token_max ? g->token_max : ICEBERG_TOKEN_MAX))
            return "has a string or number of more than 8 MiB";
        if (i == len)
            break;
        g->token += g->at != GUARD_BETWEEN;
        const char *why = step(g, text[i++]);
        if (why)
            return why;
    }
    return NULL;
}
