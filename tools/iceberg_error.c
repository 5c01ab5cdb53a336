/*
 * A message of one line, whatever the strangers put into it.
 */
#include "iceberg_error.h"

#include <stdarg.h>
#include <stdio.h>

static void replace_control_characters(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            *s = '?';
}

int iceberg_fail(struct iceberg_error *err, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    replace_control_characters(err->text);
    return code;
}
