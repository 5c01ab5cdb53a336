#include "drive_bytes.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <skade_errors.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* O_NONBLOCK: a pipe that nobody writes to is refused, not waited for. */
static int open_read_only(const char *path)
{
    const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    int fd = open(path, flags | O_NOATIME);

    /* Only the owner may leave the access time alone. */
    return fd < 0 && errno == EPERM ? open(path, flags) : fd;
}

int drive_bytes_open(struct drive_bytes *ret, const char *path)
{
    struct drive_bytes b = { .fd = open_read_only(path) };
    struct stat st;
    int r = 0;

    if (b.fd < 0)
        return -errno;
    if (fstat(b.fd, &st) < 0)
        r = -errno;
    else if (!S_ISREG(st.st_mode))
        r = SKADE_EFOREIGN;
    else if (!(b.window = malloc(DRIVE_WINDOW)))
        r = -ENOMEM;
    if (r < 0) {
        drive_bytes_close(&b);
        return r;
    }
    b.size = (uint64_t)st.st_size;
    *ret = b;
    return 0;
}

void drive_bytes_close(struct drive_bytes *b)
{
    free(b->window);
    close(b->fd);
}

/* Fill the window from AT on. */
static int load(struct drive_bytes *b, uint64_t at)
{
    size_t want = b->size - at < DRIVE_WINDOW ? (size_t)(b->size - at) : DRIVE_WINDOW;

    b->at = at;
    b->len = 0;
    while (b->len < want) {
        ssize_t n = pread(b->fd, b->window + b->len, want - b->len, (off_t)(at + b->len));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : SKADE_EDAMAGED;
        b->len += (size_t)n;
    }
    return 0;
}

int drive_bytes_get(struct drive_bytes *b, uint64_t off, size_t len, enum drive_way way, const uint8_t **ret)
{
    assert(len <= DRIVE_WINDOW && off <= b->size && len <= b->size - off);
    if (off < b->at || off + len > b->at + b->len) {
        uint64_t end = off + len, at = off;
        if (way == DRIVE_BACKWARD)
            at = end > DRIVE_WINDOW ? end - DRIVE_WINDOW : 0;
        int r = load(b, at);
        if (r < 0)
            return r;
    }
    *ret = b->window + (off - b->at);
    return 0;
}
