/*
 * file:// URIs of absolute paths, and back: locations of files that skade itself keeps.
 */
#ifndef SKADE_FILEURI_H
#define SKADE_FILEURI_H

#include "util.h"

/* "file://" and PATH with what isn't plain percent-encoded, to RET (CAP bytes, NUL included): its length, or -ERANGE. */
int file_uri(char *ret, size_t cap, const char *path);

/* The path of a file URI, decoded, to RET: its length; SKADE_EINPUT: not such a URI; -ERANGE. */
int file_uri_path(char *ret, size_t cap, struct bytes uri);

#endif
