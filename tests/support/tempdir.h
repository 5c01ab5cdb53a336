/*
 * Temporary directories that go away with the test.
 */
#ifndef SKADE_TEST_TEMPDIR_H
#define SKADE_TEST_TEMPDIR_H

/* A fresh directory, 0700, with all that will be in it removed when the calling process exits.  It is in
 * memory where /dev/shm is there, since that is where shared memory lives.  Lends the path for ever. */
const char *tempdir(void);

/* The same on the disk (TMPDIR or /tmp). */
const char *tempdir_on_disk(void);

/* The same on a tmpfs of its own, mounted with OPTIONS ("size=1m"), which goes away with the process.
 * NULL where that can't be done (it takes root and mount namespaces): then say so and skip. */
const char *tempdir_mounted(const char *options);

/* Change the options of a tempdir_mounted(). */
void tempdir_remount(const char *path, const char *options);

/* Remove PATH and what is in it now. */
void remove_tree(const char *path);

#endif
