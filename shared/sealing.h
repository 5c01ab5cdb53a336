/*
 * Writing a sealed file from its first byte to its last, for entry_writer.c and rows_writer.c.
 *
 *      header, data        sealing_put(), sealing_zeros(); the caller's layout
 *      map                 sealing_map_begin(), the caller's array, sealing_map_end()
 *      keys, footer        sealing_key() for each keyed row on the way; sealing_end()
 *
 * Output goes through one buffer and leaves in large writes.  Checksums are taken from the buffer: a struct sum that is
 * registered keeps the bytes that it hasn't seen yet from leaving.  After a failure everything fails.
 */
#ifndef SKADE_SEALING_H
#define SKADE_SEALING_H

#include "errors.h"
#include "format_entry.h"
#include "sorter.h"

#include <sys/types.h>

/* checksum_pieces() of the bytes from a place in the file on, as they are put. */
struct sum {
    uint64_t value;
    uint64_t at; /* offset of the first byte that it hasn't seen; UINT64_MAX: it isn't taken at the moment */
};

enum { SUM_ROW, SUM_CONTENT, SUMS }; /* a file's stretches are summed with SUM_ROW */

struct sealing {
    int fd;
    int failed;
    uint8_t *buffer;
    size_t capacity;
    uint64_t base; /* offset in the file of the buffer's first byte */
    uint64_t end;  /* offset behind the last byte that was put */
    struct sum sum[SUMS];
    struct sorter *keys;
};

/* MEMORY for buffer and sorting; TEMP_DIR as for a sorter.  FD stays the caller's. */
int sealing_open(struct sealing *s, int fd, size_t memory, int temp_dir, struct errmsg *msg);
void sealing_fini(struct sealing *s); /* also when it is zeroed */

int sealing_put(struct sealing *s, const void *data, size_t len, struct errmsg *msg);
int sealing_zeros(struct sealing *s, uint64_t len, struct errmsg *msg);
int sealing_align(struct sealing *s, uint64_t align, struct errmsg *msg); /* zeros up to a multiple */

/* N bytes at the end to be filled in, lent until the next call; NULL after a failure.  N is at most SEALING_ROOM. */
#define SEALING_ROOM 65536u
uint8_t *sealing_room(struct sealing *s, size_t n, struct errmsg *msg);

/* Take sum WHICH from the end on; its value up to the end. */
void sealing_sum_begin(struct sealing *s, unsigned which, uint64_t seed);
uint64_t sealing_sum_end(struct sealing *s, unsigned which);

/* A keyed row. */
int sealing_key(struct sealing *s, uint64_t hash, uint64_t place, struct errmsg *msg);

/* Between them the caller puts its array; begin gives its section an offset.  Fills in data_end, keys_off, map_check. */
int sealing_map_begin(struct sealing *s, struct entry_footer *footer, struct section *section,
                      struct errmsg *msg);
int sealing_map_end(struct sealing *s, struct entry_footer *footer, struct section *section, uint64_t count,
                    struct errmsg *msg);

/* Keys and footer, then everything to the disk.  The caller has filled in FOOTER but for magic, size, sections,
 * checksums and facts of keys, and its own check. */
int sealing_end(struct sealing *s, struct entry_footer *footer, uint64_t header_check, struct errmsg *msg);

/* A failed write or fsync: SKADE_EFULL when there is no room, else -ERROR. */
int write_failed(int error, const char *what, struct errmsg *msg);

/* pwrite() all of it: 0, SKADE_EFULL, -errno. */
int write_all(int fd, const void *data, size_t len, uint64_t off, const char *what, struct errmsg *msg);

#endif
