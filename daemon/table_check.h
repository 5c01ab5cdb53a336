/*
 * Are the files of stored tables there and whole?  Table by table: the living ones' files as of now, each opened and its
 * header and footer checked; FULL: every byte.  What is checked is held meanwhile.  Belongs to the loop.
 */
#ifndef SKADE_TABLE_CHECK_H
#define SKADE_TABLE_CHECK_H

#include "filelist.h"
#include "leases.h"

struct table_check {
    /* the caller's */
    struct server *server;
    bool full;
    const bool *cancelled; /* the asker is gone: true ends it early */
    void *owner;
    void (*done)(struct table_check *tc); /* on the loop, once */

    /* what came of it */
    uint64_t files, damaged;
    char detail[512]; /* the first damage */

    /* in between */
    size_t next;
    struct lease hold;
    struct filelist list;
    uv_work_t work;
};

/* Calls done() in the end, perhaps at once. */
void table_check_start(struct table_check *tc);

#endif
