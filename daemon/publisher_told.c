/*
 * What the last daemon told its clients.
 *
 * Its control page outlives it, a kill too, until the machine starts anew.  The commit_seq there was stored when
 * that event was durable (P3), so a log of the same name that ends before it has lost something.
 */
#include "publisher_internal.h"

#include <errno.h>
#include <unistd.h>

/* With pread() and not mapped: a page whose memory is missing would be SIGBUS in a full file system. */
static bool read_page(int fd, struct control_page *ret)
{
    struct stat st;
    ssize_t n;

    if (fstat(fd, &st) < 0 || st.st_size != CONTROL_SIZE)
        return false;
    do
        n = pread(fd, ret, sizeof *ret, 0);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof *ret;
}

int publisher_last_told(const struct publisher *p, uint64_t *ret)
{
    char name[SHM_NAME_MAX];
    struct control_page page;
    struct control c;

    int fd = publisher_open_ours(p, shm_name(name, &p->options.place, SHM_CONTROL, 0, 0), NULL);
    if (fd < 0)
        return 0; /* if that is somebody else's file, the take-over says so */
    bool ours = read_page(fd, &page) && control_check(&page, &c) == 0 && uuid_equal(&c.log, &p->options.log);
    close(fd);
    if (ours)
        *ret = control_commit_seq(&page);
    return ours;
}
