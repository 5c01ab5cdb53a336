#include "log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static _Atomic int wanted = LOG_INFO;

static const char *const names[] = { "error", "warning", "info", "debug" };

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&wanted, level, memory_order_relaxed);
}

void log_line(enum log_level level, const char *format, ...)
{
    char line[1024];
    va_list ap;

    if ((int)level > atomic_load_explicit(&wanted, memory_order_relaxed))
        return;
    int n = snprintf(line, sizeof line, "skaded: %s: ", names[level]);
    va_start(ap, format);
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, format, ap);
    va_end(ap);
    if (m < 0)
        return;
    n = n + m < (int)sizeof line - 1 ? n + m : (int)sizeof line - 2;
    line[n++] = '\n';
    /* Nothing useful can be done when standard error is gone. */
    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        return;
}
