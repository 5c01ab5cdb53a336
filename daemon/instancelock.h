/*
 * One daemon for each instance of a run directory: flock() on <instance>.lock there.
 *
 * The lock of publisher_lock.c is about shared memory.  Two daemons that share only the run directory would both be
 * right there, and take the socket from each other.
 */
#ifndef SKADE_INSTANCELOCK_H
#define SKADE_INSTANCELOCK_H

#include "config.h"

/* A descriptor that holds the lock, or SKADE_ERUNNING and others with a message. */
int instance_lock(const struct config *c, struct errmsg *msg);

/* Does the file that FD holds still have its name? */
bool instance_lock_is_named(const struct config *c, int fd);

#endif
