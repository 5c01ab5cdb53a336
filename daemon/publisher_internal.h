/*
 * Inside of the publisher: its state, and what its files share.
 *
 *   publisher.c           opening and closing, words, writing a file, self-healing
 *   publisher_lock.c      one daemon for each instance
 *   publisher_draft.c     files before they have a name
 *   publisher_told.c      what the last daemon told its clients
 *   publisher_takeover.c  from the old control page to the new one, and away with the old files
 */
#ifndef SKADE_PUBLISHER_INTERNAL_H
#define SKADE_PUBLISHER_INTERNAL_H

#include "publisher.h"

#include <pthread.h>
#include <sys/stat.h>

/* A root, part or tail of this epoch that has its name. */
struct linked {
    struct linked *next;
    enum shm_kind kind;
    uint64_t generation;
    uint64_t size;
    dev_t dev;
    ino_t ino;
};

struct publisher {
    struct publisher_options options;
    uint64_t epoch;            /* of files that are written from now on */
    int dir_fd;                /* the shared-memory directory */
    int lock_fd;               /* holds the lock while it is open */
    struct control_page *page; /* mapped for writing; private memory while page_fd is -1 */
    int page_fd;               /* of the linked page: how it is retired when its names are gone */
    uint64_t page_epoch;       /* of the linked page; not epoch from publisher_new_epoch() to the take-over */
    dev_t page_dev;
    ino_t page_ino;
    _Atomic uint64_t temp; /* last number of a temporary name */
    pthread_mutex_t
        mutex; /* guards linked, and epoch, mode and group against workers; no lock is taken while it is held */
    struct linked *linked;
};

/* ---- publisher_lock.c ---------------------------------------------------------------------------------- */

/* Take the lock of P's place.  Its descriptor; SKADE_ERUNNING, SKADE_EFOREIGN, -errno. */
int publisher_lock(const struct publisher *p, struct errmsg *msg);

/* ---- publisher_draft.c --------------------------------------------------------------------------------- */

/* Is ST a regular file that this daemon may write, replace and unlink? */
bool publisher_owns(const struct publisher *p, const struct stat *st);

/* SKADE_EFOREIGN, and in MSG what stands at NAME, whose it is and what to do. */
int publisher_foreign(const struct publisher *p, const char *name, struct errmsg *msg);

/* Open NAME for writing if it is ours.  A descriptor; -ENOENT; SKADE_EFOREIGN; -errno. */
int publisher_open_ours(const struct publisher *p, const char *name, struct errmsg *msg);

/* A file that has no name yet; where the file system can't make such files, a name that no reader parses. */
struct draft {
    int fd;
    char temp[SHM_NAME_MAX]; /* "" when it has none */
};

/* Make a file of SIZE bytes for EPOCH whose memory is reserved, 0600.  -ENOSPC with needed, free and cures
 * in MSG. */
int draft_make(struct draft *ret, struct publisher *p, uint64_t epoch, uint64_t size, struct errmsg *msg);

/* Map it for writing; NULL and errno.  The caller unmaps. */
void *draft_map(const struct draft *d, size_t size);

/* Give it its group, if the mode lets one read, and mode. */
int draft_chmod(const struct draft *d, mode_t mode, gid_t group, struct errmsg *msg);

/* Link it under NAME, in the place of an older file of ours if there is one. */
int draft_link(const struct draft *d, const struct publisher *p, const char *name, struct errmsg *msg);

/* A name of EPOCH that nobody else uses and no reader parses; NAME has SHM_NAME_MAX bytes. */
char *draft_temp_name(char *name, struct publisher *p, uint64_t epoch);

/* Remove its temporary name and give the descriptor. */
int draft_keep(struct draft *d, const struct publisher *p);

/* Close it and remove its temporary name: what wasn't linked is gone. */
void draft_drop(struct draft *d, const struct publisher *p);

#endif
