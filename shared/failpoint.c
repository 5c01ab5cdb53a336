#include "failpoint.h"

#ifdef SKADE_FAILPOINTS

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* See failpoint.h: first tell, then wait.  A FIFO that vanishes lets us go. */
static int hold(const char *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    close(fd);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    char byte;
    while (read(fd, &byte, 1) < 0 && errno == EINTR)
        ;
    close(fd);
    return 0;
}

static int act(const char *what)
{
    int number;

    if (strncmp(what, "kill", 4) == 0)
        kill(getpid(), SIGKILL);
    if (sscanf(what, "fail %d", &number) == 1)
        return -number;
    return 0;
}

static void rewrite(const char *path, int count, const char *rest)
{
    FILE *f = fopen(path, "we");
    if (!f)
        return;
    fprintf(f, "count %d %s", count, rest);
    fclose(f);
}

int (*failpoint_answer)(const char *name);

int failpoint(const char *name)
{
    if (failpoint_answer)
        return failpoint_answer(name);
    const char *dir = getenv("SKADE_FAILPOINT_DIR");
    char path[512], what[128] = "", rest[100] = "";
    struct stat st;
    int count;

    if (!dir)
        return 0;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (stat(path, &st) < 0)
        return 0;
    if (S_ISFIFO(st.st_mode))
        return hold(path);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    if (!fgets(what, sizeof what, f))
        what[0] = 0;
    fclose(f);
    if (sscanf(what, "count %d %99[^\n]", &count, rest) == 2) {
        if (count > 0) {
            rewrite(path, count - 1, rest);
            return 0;
        }
        return act(rest);
    }
    return act(what);
}

#else

typedef int failpoints_are_compiled_out; /* ISO C wants something in every file */

#endif
