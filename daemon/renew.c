#include "renew.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define APART_S 60
/* When it happened last.  The environment is all that goes along besides the arguments, which are the user's. */
#define MARK "SKADED_RENEWED"

/* Goes on over execv(), and nobody sets it. */
static int64_t clock_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

bool renew_allowed(void)
{
    const char *mark = getenv(MARK);
    int64_t now = clock_s(), last = mark ? strtoll(mark, NULL, 10) : 0;

    return !mark || last > now || now - last >= APART_S;
}

int renew(char **argv)
{
    char mark[24];

    snprintf(mark, sizeof mark, "%" PRId64, clock_s());
    /* Until the new start listens for it: the configuration is read anyway.  A signal to stop ends the process, of
     * which nothing is open any more. */
    signal(SIGHUP, SIG_IGN);
    if (setenv(MARK, mark, 1) < 0)
        return -errno;
    execv("/proc/self/exe", argv);
    return -errno;
}
