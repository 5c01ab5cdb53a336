/*
 * The files of a snapshot of a stored table, collected in slices so that the loop never stalls, however many there are.
 */
#ifndef SKADE_FILELIST_H
#define SKADE_FILELIST_H

#include "server.h"

/* One file: an .entries file, or the .manifest that the rows begin with. */
struct listed_file {
    uint64_t seq;
    int64_t time_us;
    bool base;
    char *path; /* owned */
};

struct filelist {
    struct server *server;
    uint32_t table;
    uint64_t after, seq, base_seq; /* commits in (after, seq], and this compaction; 0: none */
    struct listed_file *files;     /* when done: oldest first, the base before all */
    size_t count, cap;
    int error; /* 0, or why the list isn't complete */
    void *owner;
    void (*done)(struct filelist *l); /* on the loop, once; the list stays the owner's */
    uv_idle_t idle;
    uint64_t before;
    bool cancelled;
};

/* Begin; L is zero but for server, table, after, seq, base_seq, owner, done.  Always calls done(), later. */
void filelist_start(struct filelist *l);

/* Let done() come soon, with -ECANCELED. */
void filelist_cancel(struct filelist *l);

/* Free the files (not L). */
void filelist_fini(struct filelist *l);

#endif
