/*
 * The text of a metadata file, whatever it is packed with: plain, gzip or zstd, told apart by content.
 *
 * Files are untrusted.  Only a regular file is read, so that a FIFO or device can't block or flood the
 * reader.  Memory is bounded by one buffer and the unpacker's window (128 MiB at most for zstd, 32 KiB for
 * gzip), whatever the text unpacks to, and the text by a limit.  Several gzip members or zstd frames in a row
 * are one text.  A file that ends in the middle of one, and bytes that are neither, are errors: half of a
 * text is never taken for a whole one.
 */
#ifndef SKADE_ICEBERG_TEXT_H
#define SKADE_ICEBERG_TEXT_H

#include "iceberg_error.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct iceberg_text;

/*
 * Open PATH; a text of more than LIMIT bytes, unpacked, will be an error.  Lends PATH until
 * iceberg_text_close().  Gives *RET.  -errno when it can't be opened or read, SKADE_EINPUT when it isn't a
 * regular file.
 */
int iceberg_text_open(const char *path, uint64_t limit, struct iceberg_text **ret, struct iceberg_error *err);

/*
 * The next 1..LEN bytes; 0 at the end of a whole text; SKADE_EINPUT when it is damaged or too large; -errno.
 */
ssize_t iceberg_text_read(struct iceberg_text *t, unsigned char *buf, size_t len, struct iceberg_error *err);

/* Takes NULL. */
void iceberg_text_close(struct iceberg_text *t);

#endif
