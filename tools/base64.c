#include "base64.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int value_of(char c)
{
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

long base64_decode(char *ret, const char *text, size_t len)
{
    size_t done = 0, padding = 0;
    uint32_t bits = 0;

    if (len % 4)
        return -EINVAL;
    while (padding < 2 && len > padding && text[len - 1 - padding] == '=')
        padding++;
    for (size_t i = 0; i < len - padding; i++) {
        int v = value_of(text[i]);
        if (v < 0)
            return -EINVAL;
        bits = bits << 6 | (uint32_t)v;
        if (i % 4 == 1)
            ret[done++] = (char)(bits >> 4);
        else if (i % 4 == 2)
            ret[done++] = (char)(bits >> 2);
        else if (i % 4 == 3)
            ret[done++] = (char)bits;
    }
    /* What the last character says beyond the last byte must be nothing. */
    if ((padding == 1 && bits & 3) || (padding == 2 && bits & 15))
        return -EINVAL;
    return (long)done;
}

void base64_print(FILE *file, const void *data, size_t len)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < len; i += 3) {
        size_t n = len - i < 3 ? len - i : 3;
        uint32_t bits = (uint32_t)p[i] << 16 | (n > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (n > 2 ? p[i + 2] : 0);
        char out[4] = { digits[bits >> 18], digits[bits >> 12 & 63], n > 1 ? digits[bits >> 6 & 63] : '=',
                        n > 2 ? digits[bits & 63] : '=' };
        fwrite(out, 1, 4, file);
    }
}
