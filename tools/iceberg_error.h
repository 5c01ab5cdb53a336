/*
 * What `skadectl import` says when a file or a table can't be imported: one line that names the file and the
 * field.
 */
#ifndef SKADE_ICEBERG_ERROR_H
#define SKADE_ICEBERG_ERROR_H

/* Empty until something fails.  Room for two paths, since a contradiction names both files. */
struct iceberg_error {
    char text[2 * 4096 + 1024];
};

/*
 * Put a formatted message into ERR and return CODE, so that `return iceberg_fail(err, -EIO, ...)` works.
 * Paths and values come from strangers: control characters become '?', so the message stays one harmless
 * line.
 */
int iceberg_fail(struct iceberg_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
