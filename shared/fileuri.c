#include "fileuri.h"

#include "skade_errors.h"

#include <errno.h>

static const char scheme[] = "file://";
#define SCHEME_LEN (sizeof scheme - 1)

/* Characters of a path that stand for themselves in a URI. */
static bool plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("/-._~!$&'()*+,;=:@", c));
}

int file_uri(char *ret, size_t cap, const char *path)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t len = SCHEME_LEN;

    if (cap <= len)
        return -ERANGE;
    memcpy(ret, scheme, len);
    for (const char *c = path; *c; c++) {
        if (cap - len <= 3)
            return -ERANGE;
        if (plain(*c)) {
            ret[len++] = *c;
        } else {
            ret[len++] = '%';
            ret[len++] = digits[(unsigned char)*c >> 4];
            ret[len++] = digits[(unsigned char)*c & 15];
        }
    }
    ret[len] = 0;
    return (int)len;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

int file_uri_path(char *ret, size_t cap, struct bytes uri)
{
    size_t len = 0;

    if (uri.len <= SCHEME_LEN || memcmp(uri.data, scheme, SCHEME_LEN) != 0 || uri.data[SCHEME_LEN] != '/')
        return SKADE_EINPUT;
    for (size_t i = SCHEME_LEN; i < uri.len; i++) {
        char c = uri.data[i];
        if (c == '%') {
            if (uri.len - i < 3 || hex(uri.data[i + 1]) < 0 || hex(uri.data[i + 2]) < 0)
                return SKADE_EINPUT;
            c = (char)(hex(uri.data[i + 1]) * 16 + hex(uri.data[i + 2]));
            i += 2;
        }
        if (!c)
            return SKADE_EINPUT;
        if (len + 1 >= cap)
            return -ERANGE;
        ret[len++] = c;
    }
    ret[len] = 0;
    return (int)len;
}
