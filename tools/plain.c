#include "plain.h"

#include <stdio.h>
#include <string.h>

size_t utf8_char(const char *p, uint32_t *ret)
{
    static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    unsigned char first = (unsigned char)p[0];
    size_t len = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    uint32_t code = len == 1 ? first : first & (0x7fu >> len);

    if ((first >= 0x80 && first < 0xc2) || first > 0xf4)
        return 0;
    /* The terminating NUL is no continuation byte, so this never reads past it. */
    for (size_t i = 1; i < len; i++) {
        if (((unsigned char)p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | ((unsigned char)p[i] & 0x3f);
    }
    if (code < least[len] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    *ret = code;
    return len;
}

int is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

const char *plain(const char *text, char *ret, size_t size)
{
    size_t n = 0;

    for (const char *p = text; *p;) {
        uint32_t code = 0;
        size_t len = utf8_char(p, &code);
        char piece[8];

        if (len == 0 || is_control(code)) {
            snprintf(piece, sizeof piece, "\\x%02x", (unsigned char)*p);
            p++;
        } else {
            memcpy(piece, p, len);
            piece[len] = 0;
            p += len;
        }
        if (n + strlen(piece) + sizeof "..." > size) {
            memcpy(ret + n, "...", 3);
            n += 3;
            break;
        }
        memcpy(ret + n, piece, strlen(piece));
        n += strlen(piece);
    }
    ret[n] = 0;
    return ret;
}
