/*
 * Who holds a lock: to tell people, and to decide nothing.
 */
#ifndef SKADE_LOCKHOLDER_H
#define SKADE_LOCKHOLDER_H

#include <sys/stat.h>

/* The process that holds a flock() on the file ST, as /proc/locks tells; 0 when it can't be seen from here (another
 * container, no /proc). */
long lock_holder(const struct stat *st);

#endif
