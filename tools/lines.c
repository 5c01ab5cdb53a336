#include "lines.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_AT_ONCE 65536

int lines_open(struct lines *ret, int fd, size_t max)
{
    *ret = (struct lines){ .fd = fd, .max = max, .size = max + 1 + READ_AT_ONCE };
    ret->buffer = malloc(ret->size);
    return ret->buffer ? 0 : -ENOMEM;
}

void lines_close(struct lines *l)
{
    free(l->buffer);
    l->buffer = NULL;
}

/* More bytes behind those that are there.  0, or a negative errno. */
static int fill(struct lines *l)
{
    memmove(l->buffer, l->buffer + l->start, l->end - l->start);
    l->end -= l->start;
    l->start = 0;
    ssize_t n;
    do
        n = read(l->fd, l->buffer + l->end, l->size - l->end - 1);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    l->at_end = n == 0;
    l->end += (size_t)n;
    return 0;
}

static int give(struct lines *l, size_t len, size_t newline, char **ret, size_t *ret_len)
{
    if (len > l->max)
        return -E2BIG;
    *ret = l->buffer + l->start;
    (*ret)[len] = 0;
    if (ret_len)
        *ret_len = len;
    l->start += len + newline;
    return 1;
}

int lines_next(struct lines *l, char **ret, size_t *len)
{
    l->number++;
    for (;;) {
        size_t have = l->end - l->start;
        char *newline = memchr(l->buffer + l->start, '\n', have);
        if (newline)
            return give(l, (size_t)(newline - l->buffer) - l->start, 1, ret, len);
        if (have > l->max)
            return -E2BIG;
        if (l->at_end)
            return have ? give(l, have, 0, ret, len) : 0;
        int r = fill(l);
        if (r < 0)
            return r;
    }
}

int lines_skip(struct lines *l)
{
    for (;;) {
        char *newline = memchr(l->buffer + l->start, '\n', l->end - l->start);
        l->start = newline ? (size_t)(newline + 1 - l->buffer) : l->end;
        if (newline || l->at_end)
            return 0;
        int r = fill(l);
        if (r < 0)
            return r;
    }
}

bool lines_would_wait(const struct lines *l)
{
    struct pollfd p = { .fd = l->fd, .events = POLLIN };

    if (l->at_end || memchr(l->buffer + l->start, '\n', l->end - l->start))
        return false;
    return poll(&p, 1, 0) == 0;
}
