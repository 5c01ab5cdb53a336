/*
 * Lines of a file or pipe, one at a time, in bounded memory whatever the file holds.
 */
#ifndef SKADE_LINES_H
#define SKADE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lines {
    int fd;
    size_t max; /* bytes of a line, without its end */
    char *buffer;
    size_t size, start, end;
    bool at_end;
    uint64_t number; /* of the line that was given last, from 1 */
};

/* Read FD (borrowed) in lines of at most MAX bytes.  Gives RET.  0 or -ENOMEM. */
int lines_open(struct lines *ret, int fd, size_t max);
void lines_close(struct lines *l);

/*
 * The next line, terminated by NUL instead of its newline, lent until the next call; *LEN (may be NULL) its bytes, since
 * it may have NULs of its own.  The last may lack the newline.  1, 0 at the end, -E2BIG when it is longer than max
 * (number says which), or another negative errno.
 */
int lines_next(struct lines *l, char **ret, size_t *len);

/* After -E2BIG: skip the rest of the line that was too long.  0, or a negative errno. */
int lines_skip(struct lines *l);

/* Would lines_next() wait for somebody to write?  Then answer first what he asked. */
bool lines_would_wait(const struct lines *l);

#endif
