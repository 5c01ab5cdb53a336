/*
 * The cure for damage of what can be made again: the daemon ends in an orderly way and begins anew in the same process.
 *
 * A start reads the log and makes everything else out of it, so there is one way to rebuild an index and not two.  The
 * process goes on (execv of /proc/self/exe with the arguments that it was given), so it makes no difference whether
 * somebody supervises it.  Damage that comes back within a minute has a cause that a rebuild doesn't cure: then the
 * daemon stops.
 */
#ifndef SKADE_RENEW_H
#define SKADE_RENEW_H

#include "util.h"

/* May this process begin anew?  Not when it did less than a minute ago. */
bool renew_allowed(void);

/* Begin anew with ARGV; everything was closed.  Returns, negative, only when that isn't possible. */
int renew(char **argv);

#endif
