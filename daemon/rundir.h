/*
 * The run directory: made for those who have a role, and opened or closed when roles change.
 *
 * Its mode lets others come as far as the socket; who may do what is decided there.  A directory that skaded made (it
 * leaves the file .made-by-skaded in it) and that still has one of skaded's modes follows the options read, write, admin:
 * 0755 when one of them names anybody, else 0700.  Any other directory is its owner's and stays as it is: when it keeps
 * out those who have a role, one line of log says so.
 */
#ifndef SKADE_RUNDIR_H
#define SKADE_RUNDIR_H

#include "config.h"

/* Make it unless it is there, and see that nobody else can put a socket into it.  0, or negative with path and cure. */
int rundir_make(const struct config *c, struct errmsg *msg);

/* Let in who has a role by now. */
void rundir_admit(const struct config *c);

#endif
