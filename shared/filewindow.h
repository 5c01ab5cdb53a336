/*
 * Bytes of a file that may be on a bad disk, without ever touching a page that isn't there: an error, not SIGBUS.
 *
 * A window is read, not mapped: the copy is made where the caller's cache wants the bytes anyway, costs a few percent of
 * checking them, and no disk that fails later can take them away.  A window that follows its predecessor is larger, up to
 * half a MiB, so that scans make few system calls and lone looks read little.  The file is immutable, but it may be
 * damaged, shorter than it says, or huge.
 */
#ifndef SKADE_FILEWINDOW_H
#define SKADE_FILEWINDOW_H

#include "errors.h"
#include "util.h"

struct filewindow;

/* A window over FD, which stays the caller's and must outlive it; several windows over one descriptor are fine, one
 * thread each.  NAME, for messages, is lent until close.  0 or negative: -ENOMEM, -errno, SKADE_EFOREIGN (no regular
 * file). */
int filewindow_open(struct filewindow **ret, int fd, const char *name, struct errmsg *msg);
void filewindow_close(struct filewindow *w);

/* The same for a regular file that has SIZE bytes. */
int filewindow_over(struct filewindow **ret, int fd, const char *name, uint64_t size, struct errmsg *msg);

/* W goes on with another such file.  Who reads one file after the other through the same window needs no other memory, and
 * begins each with as large a piece as it read last. */
void filewindow_turn(struct filewindow *w, int fd, const char *name, uint64_t size);

uint64_t filewindow_size(const struct filewindow *w);

/* Only what is asked for is read behind END, nothing ahead. */
void filewindow_stop_at(struct filewindow *w, uint64_t end);

#define FILEWINDOW_MAX ((1u << 20) + (128u << 10))

/* LEN bytes at OFF, lent until the next call: NULL and *ERROR when they aren't there (SKADE_EDAMAGED: beyond the end;
 * -EIO).  The address is OFF modulo 64.  LEN is at most FILEWINDOW_MAX; a hint whether the caller goes BACKWARD. */
const uint8_t *filewindow_get(struct filewindow *w, uint64_t off, size_t len, bool backward, int *error,
                              struct errmsg *msg);

#endif
