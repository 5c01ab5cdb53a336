/*
 * The bytes of somebody else's file, through a window: read, never written, in memory that doesn't grow with it.
 *
 * Opened read-only, and without touching its access time where the kernel allows that.  Read and not mapped, so that a
 * file that is cut meanwhile, or a bad disk, is an error and no SIGBUS.
 */
#ifndef SKADE_DRIVE_BYTES_H
#define SKADE_DRIVE_BYTES_H

#include <stddef.h>
#include <stdint.h>

#define DRIVE_WINDOW (256u << 10)

struct drive_bytes {
    int fd;
    uint64_t size; /* as it was opened; what is appended later isn't looked at */
    uint8_t *window;
    uint64_t at; /* the window's first byte in the file */
    size_t len;
};

/* Gives *RET.  0; SKADE_EFOREIGN (no regular file) or a negative errno: then there is nothing to close. */
int drive_bytes_open(struct drive_bytes *ret, const char *path);
void drive_bytes_close(struct drive_bytes *b);

enum drive_way { DRIVE_BACKWARD, DRIVE_FORWARD };

/* LEN bytes (at most DRIVE_WINDOW, and within the size) at OFF, lent until the next call; WAY is where the reader goes.
 * 0 and *RET; SKADE_EDAMAGED when the file has become shorter, -EIO ... */
int drive_bytes_get(struct drive_bytes *b, uint64_t off, size_t len, enum drive_way way, const uint8_t **ret);

/* How many bytes at OFF, that of the last call, were lent by it in truth: as far as the window goes. */
static inline size_t drive_bytes_ahead(const struct drive_bytes *b, uint64_t off)
{
    return (size_t)(b->at + b->len - off);
}

static inline uint32_t drive_le32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t drive_le64(const uint8_t *p)
{
    return drive_le32(p) | (uint64_t)drive_le32(p + 4) << 32;
}

#endif
