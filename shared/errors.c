#include "errors.h"

#include "names.h"

#include <stdio.h>
#include <string.h>

const char *error_text(int code)
{
    switch (code) {
#define TEXT(name, number, text) \
    case number:                 \
        return text;
        SKADE_ERROR_MAP(TEXT)
#undef TEXT
    }
    const char *text = code < 0 && code > -4096 ? strerrordesc_np(-code) : NULL;
    return text ? text : "unknown error";
}

const char *error_name(int code)
{
    switch (code) {
#define NAME(name, number, text) \
    case number:                 \
        return #name;
        SKADE_ERROR_MAP(NAME)
#undef NAME
    }
    const char *name = code < 0 && code > -4096 ? strerrorname_np(-code) : NULL;
    return name ? name : "E?";
}

int fail(struct errmsg *msg, int code, const char *format, ...)
{
    if (msg) {
        va_list ap;
        va_start(ap, format);
        vsnprintf(msg->text, sizeof msg->text, format, ap);
        va_end(ap);
        text_make_printable(msg->text); /* it may quote anything: a line of a file, a name, a path */
    }
    return code;
}
