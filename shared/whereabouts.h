/*
 * The note beside the socket: where an instance's shared memory is, and of which log it must be.
 *
 * A client learns both from the daemon's hello.  When no daemon answers, this note is what tells the pages of this
 * instance from those of another one that has the same name and user but another run directory.  The daemon writes it
 * (RUN-DIR/INSTANCE.shm) before it takes connections; it stays when the daemon ends, as the maps do.
 */
#ifndef SKADE_WHEREABOUTS_H
#define SKADE_WHEREABOUTS_H

#include "errors.h"
#include "util.h"

struct whereabouts {
    char shm_dir[256];
    struct uuid log;
};

/* Write the note of INSTANCE in RUN_DIR, complete or not at all.  0 or negative with the path in MSG. */
int whereabouts_write(const char *run_dir, const char *instance, const struct whereabouts *w,
                      struct errmsg *msg);

/* Read it.  0; -ENOENT: there is none; SKADE_EFOREIGN when it isn't a file of UID's or root's that only they can write;
 * SKADE_EDAMAGED. */
int whereabouts_read(const char *run_dir, const char *instance, uint32_t uid, struct whereabouts *ret,
                     struct errmsg *msg);

#endif
