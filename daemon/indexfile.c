#include "indexfile.h"

#include "checksum.h"
#include "failpoint.h"
#include "part.h"
#include "sealing.h"
#include "wr.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define INDEX_NAME "index"
#define NEW_NAME "new"
#define PART_NAME "%016" PRIx64 ".part"
#define NAME_SIZE 32
/* What is left to the log on a disk that is nearly full. */
#define ROOM_LEFT (64u << 20)
#define WRITE_BYTES (4u << 20)
#define READ_BYTES (1u << 30) /* read() takes no more than 2^31 at once */

/* ---- the directory ------------------------------------------------------------------------------------------------- */

int indexfile_dir(const char *data_dir, bool make, struct errmsg *msg)
{
    char path[600];
    struct stat st;

    snprintf(path, sizeof path, "%s/index", data_dir);
    if (make && mkdir(path, 0700) < 0 && errno != EEXIST)
        return fail(msg, -errno, "cannot make %s: %s", path, error_text(-errno));
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return fail(msg, -errno, "cannot open %s: %s%s", path, error_text(-errno),
                    errno == ENOTDIR ? "; remove it, and a directory will be made" : "");
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH)))
        return fd;
    close(fd);
    return fail(
        msg, SKADE_EFOREIGN,
        "%s belongs to uid %u, mode %04o: it must be this daemon's alone; remove it, or chmod and chown it",
        path, st.st_uid, st.st_mode & 07777);
}

bool indexfile_has_room(int dir, uint64_t bytes)
{
    struct statvfs fs;

    if (fstatvfs(dir, &fs) < 0 || fs.f_blocks == 0)
        return true;
    return (uint64_t)fs.f_bavail * fs.f_frsize / 2 >= bytes / 2 + ROOM_LEFT / 2;
}

static const char *part_name(char ret[NAME_SIZE], uint64_t header_check)
{
    snprintf(ret, NAME_SIZE, PART_NAME, header_check);
    return ret;
}

static bool is_named(const struct index_part *parts, size_t n, const char *name)
{
    char part[NAME_SIZE];

    for (size_t i = 0; i < n; i++)
        if (strcmp(part_name(part, parts[i].header_check), name) == 0)
            return true;
    return strcmp(name, INDEX_NAME) == 0;
}

/* A directory that isn't empty stays: whoever needs the name says so. */
static void remove_name(int dir, const char *name)
{
    if (unlinkat(dir, name, 0) < 0 && errno == EISDIR)
        unlinkat(dir, name, AT_REMOVEDIR);
}

/* Remove what is neither `index`, if KEEP, nor one of its parts. */
static void sweep(int dir, bool keep, const struct index_part *parts, size_t n)
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *entry;

    if (!list) {
        if (copy >= 0)
            close(copy);
        return;
    }
    while ((entry = readdir(list)))
        if (entry->d_name[0] != '.' && !(keep && is_named(parts, n, entry->d_name)))
            remove_name(dir, entry->d_name);
    closedir(list);
}

void indexfile_remove(int dir)
{
    /* The name first: what it names goes after it. */
    remove_name(dir, INDEX_NAME);
    sweep(dir, false, NULL, 0);
}

/* ---- writing ----------------------------------------------------------------------------------------------------------- */

static int cannot_write(int error, const char *name, struct errmsg *msg)
{
    char path[NAME_SIZE + sizeof "index/"];

    if (error == EISDIR || error == EEXIST || error == ENOTEMPTY)
        return fail(msg, -error, "index/%s is a directory: remove it", name);
    snprintf(path, sizeof path, "index/%s", name);
    return write_failed(error, path, msg);
}

/* Bytes to be written one after the other. */
struct piece {
    const void *data;
    size_t len;
};

static int write_pieces(int fd, const struct piece *pieces, size_t n, const char *name, struct errmsg *msg)
{
    uint64_t off = 0;

    for (size_t i = 0; i < n; i++)
        for (size_t done = 0; done < pieces[i].len;) {
            size_t len = pieces[i].len - done < WRITE_BYTES ? pieces[i].len - done : WRITE_BYTES;
            int r = FAILPOINT("index.write");
            if (r < 0)
                return cannot_write(-r, name, msg);
            r = write_all(fd, (const char *)pieces[i].data + done, len, off, name, msg);
            if (r < 0)
                return r;
            done += len;
            off += len;
        }
    return 0;
}

static int sync_file(int fd, const char *name, struct errmsg *msg)
{
    int r = FAILPOINT("index.fsync");

    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    return r < 0 ? cannot_write(-r, name, msg) : 0;
}

static int rename_file(int dir, const char *name, struct errmsg *msg)
{
    int r = FAILPOINT("index.rename");

    if (r == 0 && (renameat(dir, NEW_NAME, dir, name) < 0 || fsync(dir) < 0))
        r = -errno;
    if (r == 0)
        r = FAILPOINT("index.renamed");
    return r < 0 ? cannot_write(-r, name, msg) : 0;
}

/* The pieces become NAME, whole or not at all. */
static int put_file(int dir, const char *name, const struct piece *pieces, size_t n, struct errmsg *msg)
{
    remove_name(dir, NEW_NAME);
    unlinkat(dir, name, AT_REMOVEDIR); /* a file stays until it is replaced */
    int fd = openat(dir, NEW_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return cannot_write(errno, NEW_NAME, msg);
    int r = write_pieces(fd, pieces, n, name, msg);
    if (r == 0)
        r = sync_file(fd, name, msg);
    close(fd);
    if (r == 0)
        r = rename_file(dir, name, msg);
    if (r < 0)
        unlinkat(dir, NEW_NAME, 0);
    return r;
}

int indexfile_put_part(int dir, const void *base, size_t size, uint64_t header_check, struct errmsg *msg)
{
    struct piece piece = { base, size };
    char name[NAME_SIZE];
    struct stat st;

    if (fstatat(dir, part_name(name, header_check), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
        (uint64_t)st.st_size == size)
        return 0;
    return put_file(dir, name, &piece, 1, msg);
}

static void put_event(struct wr *w, const struct event *e)
{
    bool compact = e->kind == EVENT_COMPACT;
    struct index_event row = {
        .seq = e->seq, .kind = e->kind, .table = e->table, .time_us = e->time_us, .watermark = e->watermark
    };

    if (!compact) {
        row.flags = e->flags;
        row.text_len = (uint32_t)e->text.len;
        row.text2_len = (uint32_t)e->text2.len;
        row.snapshot = e->snapshot;
        row.uuid = e->uuid;
    }
    wr_bytes(w, &row, sizeof row);
    wr_bytes(w, e->text.data, row.text_len);
    wr_bytes(w, e->text2.data, row.text2_len);
}

static struct index_header header_of(const struct index_image *image, uint64_t event_bytes)
{
    struct index_header h = { .major = FORMAT_MAJOR,
                              .header_len = sizeof h,
                              .log = image->log,
                              .seed = image->seed,
                              .covered = image->covered,
                              .chain = image->chain };

    memcpy(h.magic, FORMAT_MAGIC_INDEX, sizeof h.magic);
    h.parts = (struct section){ sizeof h, image->parts_count };
    h.uuids = (struct section){ h.parts.off + h.parts.count * sizeof(struct index_part), image->uuids_count };
    h.events = (struct section){ h.uuids.off + h.uuids.count * sizeof(struct index_uuid), event_bytes };
    h.size = h.events.off + h.events.count;
    return h;
}

int indexfile_write(int dir, const struct index_image *image, struct errmsg *msg)
{
    struct wr events = { 0 };

    for (size_t i = 0; i < image->events_count; i++)
        put_event(&events, image->events[i]);
    int r = events.error;
    if (r == 0) {
        struct index_header h = header_of(image, events.len);
        struct piece pieces[] = { { &h, sizeof h },
                                  { image->parts, image->parts_count * sizeof *image->parts },
                                  { image->uuids, image->uuids_count * sizeof *image->uuids },
                                  { events.data, events.len } };
        h.check = checksum(&h, offsetof(struct index_header, check), 0);
        for (size_t i = 1; i < ARRAY_SIZE(pieces); i++)
            h.check = checksum(pieces[i].data, pieces[i].len, h.check);
        r = put_file(dir, INDEX_NAME, pieces, ARRAY_SIZE(pieces), msg);
    } else {
        fail(msg, r, "no memory to write the index file");
    }
    wr_fini(&events);
    if (r == 0)
        sweep(dir, true, image->parts, image->parts_count);
    return r;
}

/* ---- reading ------------------------------------------------------------------------------------------------------------- */

/* Open NAME, which must be a file of ours; *SIZE becomes its length. */
static int open_file(int dir, const char *name, uint64_t *size, struct errmsg *msg)
{
    struct stat st;

    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return fail(msg, -errno, "cannot open index/%s: %s", name, error_text(-errno));
    int r = fstat(fd, &st) < 0 ? -errno : 0;
    if (r == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid()) {
        *size = (uint64_t)st.st_size;
        return fd;
    }
    close(fd);
    return fail(msg, SKADE_EFOREIGN, "index/%s is no file of this daemon's: remove it", name);
}

static int read_all(int fd, void *buf, uint64_t size, const char *name, struct errmsg *msg)
{
    for (uint64_t done = 0; done < size;) {
        size_t want = size - done < READ_BYTES ? (size_t)(size - done) : READ_BYTES;
        ssize_t n = read(fd, (char *)buf + done, want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(msg, -errno, "cannot read index/%s: %s", name, error_text(-errno));
        if (n == 0)
            return fail(msg, SKADE_EDAMAGED, "index/%s is cut short", name);
        done += (uint64_t)n;
    }
    return 0;
}

/* Before there is memory for it: a file that was made longer may be longer than that. */
static int check_length(int fd, const char *name, uint64_t size, struct errmsg *msg)
{
    struct index_header h;

    ssize_t n = pread(fd, &h, sizeof h, 0);
    if (n == (ssize_t)sizeof h && h.size != size)
        return fail(msg, SKADE_EDAMAGED, "index/%s has another length than it says", name);
    return 0;
}

/* NAME in one allocation. */
static int read_whole(int dir, const char *name, void **ret, uint64_t *size, struct errmsg *msg)
{
    int fd = open_file(dir, name, size, msg);
    if (fd < 0)
        return fd;
    int r = check_length(fd, name, *size, msg);
    *ret = r == 0 ? malloc(*size + 1) : NULL;
    if (r == 0)
        r = *ret ? read_all(fd, *ret, *size, name, msg) : fail(msg, -ENOMEM, "no memory for index/%s", name);
    close(fd);
    if (r < 0)
        free(*ret);
    return r;
}

/* Each section begins where the one before ends, so every byte is somebody's. */
static bool sections_agree(const struct index_header *h)
{
    uint64_t at = sizeof *h;

    if (h->parts.off != at || !array_inside(at, h->parts.count, sizeof(struct index_part), h->size))
        return false;
    at += h->parts.count * sizeof(struct index_part);
    if (h->uuids.off != at || !array_inside(at, h->uuids.count, sizeof(struct index_uuid), h->size))
        return false;
    at += h->uuids.count * sizeof(struct index_uuid);
    return h->events.off == at && h->events.count == h->size - at;
}

static bool parts_agree(const struct index_file *f)
{
    uint64_t seq = 0;

    for (uint64_t i = 0; i < f->header.parts.count; i++) {
        const struct index_part *p = &f->parts[i];
        if (p->from_seq != seq || p->to_seq <= seq || p->size < sizeof(struct part_header))
            return false;
        seq = p->to_seq;
    }
    return seq == f->header.covered;
}

static uint64_t check_of(const struct index_file *f)
{
    const struct index_header *h = &f->header;
    uint64_t sum = checksum(h, offsetof(struct index_header, check), 0);

    sum = checksum(f->parts, h->parts.count * sizeof *f->parts, sum);
    sum = checksum(f->uuids, h->uuids.count * sizeof *f->uuids, sum);
    return checksum(f->events, h->events.count, sum);
}

/* What is wrong with the SIZE bytes that were read, or NULL. */
static const char *look_at(struct index_file *f, uint64_t size)
{
    const struct index_header *h = &f->header;

    if (size < sizeof *h)
        return "it is shorter than its header";
    assert(f->data);
    memcpy(&f->header, f->data, sizeof *h);
    if (memcmp(h->magic, FORMAT_MAGIC_INDEX, sizeof h->magic) != 0 || h->header_len != sizeof *h)
        return "it isn't an index file";
    if (h->size != size || !sections_agree(h))
        return "its header contradicts itself";
    f->parts = (const void *)((const char *)f->data + h->parts.off);
    f->uuids = (const void *)((const char *)f->data + h->uuids.off);
    f->events = (const uint8_t *)f->data + h->events.off;
    if (check_of(f) != h->check)
        return "wrong checksum";
    return parts_agree(f) ? NULL : "its parts don't follow each other";
}

int indexfile_read(int dir, struct index_file *ret, struct errmsg *msg)
{
    struct index_file f = { .data = NULL };
    uint64_t size = 0;

    int r = read_whole(dir, INDEX_NAME, &f.data, &size, msg);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    const char *flaw = look_at(&f, size);
    if (flaw)
        r = fail(msg, SKADE_EDAMAGED, "index/index: %s", flaw);
    else if (f.header.major != FORMAT_MAJOR)
        r = fail(msg, SKADE_EVERSION, "index/index has format %u, this program reads %u", f.header.major,
                 FORMAT_MAJOR);
    if (r < 0) {
        free(f.data);
        return r;
    }
    *ret = f;
    return 1;
}

void indexfile_fini(struct index_file *f)
{
    free(f->data);
    f->data = NULL;
}

int indexfile_event(const struct index_file *f, size_t *place, struct event *ret)
{
    uint64_t left = f->header.events.count - *place;
    const uint8_t *at = f->events + *place;
    struct index_event row;

    if (left == 0)
        return 0;
    if (left < sizeof row)
        return SKADE_EDAMAGED;
    memcpy(&row, at, sizeof row);
    if (row.text_len > LOCATION_MAX || row.text2_len > LOCATION_MAX ||
        (uint64_t)row.text_len + row.text2_len > left - sizeof row)
        return SKADE_EDAMAGED;
    const char *text = (const char *)at + sizeof row;
    *ret = (struct event){ .seq = row.seq,
                           .kind = row.kind,
                           .flags = row.flags,
                           .table = row.table,
                           .snapshot = row.snapshot,
                           .time_us = row.time_us,
                           .watermark = row.watermark,
                           .uuid = row.uuid,
                           .text = { text, row.text_len },
                           .text2 = { text + row.text_len, row.text2_len } };
    *place += sizeof row + row.text_len + row.text2_len;
    return 1;
}

int indexfile_read_part(int dir, const struct index_part *row, void *buf, struct errmsg *msg)
{
    char name[NAME_SIZE];
    uint64_t size = 0;

    int fd = open_file(dir, part_name(name, row->header_check), &size, msg);
    if (fd < 0)
        return fd;
    int r = size == row->size ? read_all(fd, buf, size, name, msg)
                              : fail(msg, SKADE_EDAMAGED, "index/%s has another length", name);
    close(fd);
    return r;
}
