/*
 * Mapping a shared-memory file that somebody else made: trust nothing but its owner, keep no descriptor.
 *
 * The client library and the daemon's self-check use the same code.  It never unlinks, truncates or writes.
 */
#ifndef SKADE_SEGMAP_H
#define SKADE_SEGMAP_H

#include "errors.h"
#include "names.h"

#include <sys/types.h>

struct segmap {
    const uint8_t *base; /* NULL: nothing mapped */
    size_t size;         /* of the file */
    dev_t dev;
    ino_t ino;
};

/*
 * Map the file NAME of PLACE read-only.  Everything is checked on the opened descriptor: regular file, owned
 * by PLACE's uid or root, not writable by group or others, size within [min_size, max_size].  Never blocks on
 * a FIFO, never follows a symlink.  Large files are mapped at a 2 MiB boundary.  The pages are populated, so
 * that a hole or a bad page is an error here and not SIGBUS later; they are left out of core dumps.  The
 * descriptor is closed.
 *
 * 0; -ENOENT (no such name); SKADE_EFOREIGN (another's file, or not a file); SKADE_EDAMAGED (size, unreadable
 * pages); -EACCES and what else the system says.
 */
int segmap_open(struct segmap *ret, const struct shm_place *place, const char *name, size_t min_size,
                size_t max_size, struct errmsg *msg);

/* The same for an open descriptor, which stays the caller's. */
int segmap_fd(struct segmap *ret, int fd, const struct shm_place *place, const char *name, size_t min_size,
              size_t max_size, struct errmsg *msg);

void segmap_close(struct segmap *m); /* harmless when nothing is mapped */

/* Map FD shared, at a boundary of huge pages when it is large enough to have one: NULL and errno. */
#define SEGMAP_HUGE_PAGE ((size_t)2 << 20)
void *segmap_map(int fd, size_t size, int protection);

#endif
