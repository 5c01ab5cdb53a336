/*
 * A file that appears whole under its name, or not at all: written under another name in the same directory, synced,
 * then given the name if nobody has it.  Nothing is ever replaced.
 *
 * If the process is killed while it writes, the half file stays under the other name (`.NAME.part-...`); SIGINT, SIGTERM
 * and SIGHUP remove it first.  One at a time.
 */
#ifndef SKADE_NEW_FILE_H
#define SKADE_NEW_FILE_H

#include <limits.h>

struct new_file {
    int dir;
    int fd;                  /* to write to; mode 0600 */
    char part[NAME_MAX + 1]; /* the name while it is written; "" when there is no such file any more */
    char name[NAME_MAX + 1];
};

/* Begin the file PATH.  Gives RET.  0, -EEXIST when PATH is there already, or another negative errno. */
int new_file_begin(struct new_file *ret, const char *path);

/* Sync it and give it its name.  0; -EEXIST when the name was taken meanwhile; another negative errno.  Ends in any
 * case with new_file_end(). */
int new_file_publish(struct new_file *f);

/* Remove what has no name and close everything.  Takes what new_file_begin() left when it failed, too. */
void new_file_end(struct new_file *f);

#endif
