/*
 * What a scan of uncompressed files can't avoid: their bytes are read, and each row's checksum is taken.
 *
 * One thread, one file after the other, in one piece into memory that stays; rows are followed by the trailers' links and
 * nothing about them is looked at but how far they go.  A scan that takes as long would do nothing else.
 */
#include "tables_limit.h"

#include "format_entry.h"
#include "row_sum.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct limit {
    uint8_t *buffer;
    size_t room;
    uint64_t rows;
};

static bool read_at(int fd, void *data, size_t len, uint64_t off)
{
    return pread(fd, data, len, (off_t)off) == (ssize_t)len;
}

static bool check_rows(struct limit *l, const struct entry_footer *footer)
{
    const struct entry_header *header = (const void *)l->buffer;
    uint64_t seed = row_uuid_seed(&header->uuid);
    struct entry_trailer t;

    for (uint64_t place = footer->last; place; place = t.prev) {
        memcpy(&t, l->buffer + place, sizeof t);
        uint64_t begin = t.prev ? t.prev + sizeof t : sizeof *header;
        size_t covered = (size_t)(place - begin) + offsetof(struct entry_trailer, check);
        if (row_sum(l->buffer + begin, covered, row_seed(seed, begin)) != t.check)
            return false;
        l->rows++;
    }
    return true;
}

static bool reserve(struct limit *l, size_t need)
{
    if (need > l->room) {
        free(l->buffer);
        l->room = need * 2;
        l->buffer = aligned_alloc(CACHE_LINE, align_up(l->room, CACHE_LINE));
    }
    return l->buffer != NULL;
}

static bool check_file(struct limit *l, int dir, const char *name)
{
    struct entry_footer footer;
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);

    bool good = fd >= 0 && fstat(fd, &st) == 0 && st.st_size > (off_t)sizeof footer &&
                read_at(fd, &footer, sizeof footer, (uint64_t)st.st_size - sizeof footer) &&
                reserve(l, footer.data_end) && read_at(fd, l->buffer, footer.data_end, 0) &&
                check_rows(l, &footer);
    if (fd >= 0)
        close(fd);
    return good;
}

static bool check_folder(struct limit *l, DIR *d)
{
    for (struct dirent *e; (e = readdir(d));) {
        const char *dot = strrchr(e->d_name, '.');
        if (dot && strcmp(dot, ".entries") == 0 && !check_file(l, dirfd(d), e->d_name))
            return false;
    }
    return true;
}

int64_t read_and_check(const char *folder)
{
    struct limit l = { .rows = 0 };
    DIR *d = opendir(folder);

    bool good = d && check_folder(&l, d);
    if (d)
        closedir(d);
    free(l.buffer);
    return good ? (int64_t)l.rows : -1;
}
