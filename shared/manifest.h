/*
 * A .manifest file: what a compaction left of a table's history up to one commit.
 */
#ifndef SKADE_MANIFEST_H
#define SKADE_MANIFEST_H

#include "errors.h"
#include "format_entry.h"

/* Parts are counted with four digits. */
#define MANIFEST_FILES_MAX 9999u

struct manifest {
    struct manifest_header header;
    struct manifest_file *files; /* header.files of them */
};

/* Bytes of a manifest that names so many files. */
uint64_t manifest_size(uint64_t files);

/* Write M (magic, sizes and checksums are filled in) to FD, an empty file without a name, and sync it.  0, SKADE_EFULL
 * (no room), SKADE_EINPUT (more than MANIFEST_FILES_MAX files), -errno. */
int manifest_write(int fd, struct manifest *m, struct errmsg *msg);

/* Read and check a manifest; NAME for messages; TABLE and LOG must agree.  0 and *RET, to be freed with manifest_fini();
 * SKADE_EDAMAGED, SKADE_EVERSION, SKADE_EFOREIGN, -ENOMEM, -errno.  FD stays the caller's. */
int manifest_read(struct manifest *ret, int fd, const char *name, const struct uuid *log, uint32_t table,
                  struct errmsg *msg);
void manifest_fini(struct manifest *m);

/* Names of files, without directory, into RET (ENTRY_NAME_MAX bytes); returns RET. */
#define ENTRY_NAME_MAX 64
enum entry_name { NAME_ENTRIES, NAME_ROWS, NAME_MANIFEST, NAME_PENDING };
char *entry_name(char *ret, enum entry_name kind, const struct uuid *uuid, uint32_t part);
/* Strictly the inverse: true when entry_name() would have made exactly NAME.  *PART is 0 where there is none. */
bool entry_name_parse(const char *name, enum entry_name *kind, struct uuid *uuid, uint32_t *part);

#endif
