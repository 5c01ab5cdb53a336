/*
 * Access lists of directories: what mode bits can't say, several groups and single users.
 *
 * The kernel keeps a list as an attribute of the directory (acl(5)); ext4, XFS, btrfs and tmpfs do.  Everything below
 * tables/ may be read by whoever comes there, so this one list decides who reads rows.
 */
#ifndef SKADE_ACL_H
#define SKADE_ACL_H

#include "config.h"

/* Directory FD may be read and searched by its owner, by the users and groups of the roles of C, and by GROUP ((gid_t)-1:
 * none), its own.  1: it was so already; 0; -EOPNOTSUPP: the file system keeps no such lists; -errno. */
int acl_admit(int fd, const struct config *c, gid_t group);

/* Away with the list, if there is one: mode bits decide alone.  As above. */
int acl_drop(int fd);

/* Do the roles of C need a list? */
bool acl_is_needed(const struct config *c, gid_t group);

#endif
