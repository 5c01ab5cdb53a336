/*
 * The files of DATA-DIR/index: written whole, read with every byte checked.  Layout: format_index.h.
 *
 *   write    the parts that have no file yet, then `index`: each under another name, synced, renamed; then what `index`
 *            doesn't name is removed
 *   read     `index` in one piece, by its checksum; parts by the caller, into memory of his own
 *
 * A crash at any step leaves the files of before, those of after, or files that nobody names.  The directory and
 * what is in it belong to this user alone: who may write there may also write checksums.
 *
 * Nothing here knows the daemon: any thread, one at a time.
 */
#ifndef SKADE_INDEXFILE_H
#define SKADE_INDEXFILE_H

#include "errors.h"
#include "event.h"
#include "format_index.h"

/* What goes into `index`. */
struct index_image {
    struct uuid log;
    uint64_t seed;
    uint64_t covered;
    uint64_t chain;
    const struct index_part *parts; /* oldest first */
    size_t parts_count;
    const struct event *const *events; /* by seq: not COMMITs; of COMPACTs what index_event says */
    size_t events_count;
    const struct index_uuid *uuids;
    size_t uuids_count;
};

/* A descriptor of DATA_DIR/index, made if MAKE.  -ENOENT when it isn't there; SKADE_EFOREIGN when it isn't this user's
 * alone; -errno. */
int indexfile_dir(const char *data_dir, bool make, struct errmsg *msg);

/* Write the SIZE bytes at BASE as the part with HEADER_CHECK, unless it is there.  0, SKADE_EFULL, -errno. */
int indexfile_put_part(int dir, const void *base, size_t size, uint64_t header_check, struct errmsg *msg);

/* Write `index`, whose parts are there, and remove the files that it doesn't name.  0, SKADE_EFULL, -ENOMEM, -errno:
 * then the old one stays.  Fail points: index.write, index.fsync, index.rename, index.renamed. */
int indexfile_write(int dir, const struct index_image *image, struct errmsg *msg);

/* Does the file system have room for BYTES more, and for what a log needs beside them? */
bool indexfile_has_room(int dir, uint64_t bytes);

/* `index` as it was read. */
struct index_file {
    void *data; /* owned */
    struct index_header header;
    const struct index_part *parts;
    const uint8_t *events;
    const struct index_uuid *uuids;
};

/* 1 and *RET; 0 when there is none; SKADE_EDAMAGED, SKADE_EVERSION, -ENOMEM, -errno. */
int indexfile_read(int dir, struct index_file *ret, struct errmsg *msg);
void indexfile_fini(struct index_file *f);

/* The event at *PLACE (0 at first), lent, and *PLACE behind it.  1; 0 at the end; SKADE_EDAMAGED. */
int indexfile_event(const struct index_file *f, size_t *place, struct event *ret);

/* Read the part of ROW into BUF, row->size bytes.  Its header is as it was; the content is for the caller to verify.
 * 0, SKADE_EDAMAGED, -errno. */
int indexfile_read_part(int dir, const struct index_part *row, void *buf, struct errmsg *msg);

/* Remove all files of DIR. */
void indexfile_remove(int dir);

#endif
