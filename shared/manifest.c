/*
 * Manifests: one small file, written and read whole; and the names of a table's files.
 *
 * A manifest is believed when its two checksums hold, its size is the one it says, and its numbers agree with each
 * other; then its .rows files are known by name, size and footer checksum, so that none can be exchanged or missing
 * without being noticed.
 */
#include "manifest.h"

#include "checksum.h"
#include "failpoint.h"
#include "key_range.h"
#include "sealing.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_CHECKED offsetof(struct manifest_header, check)

static uint64_t content_checksum(const struct manifest *m)
{
    return checksum(m->files, m->header.files * sizeof m->files[0], 0);
}

/* ---- writing ------------------------------------------------------------------------------------------- */

uint64_t manifest_size(uint64_t files)
{
    return sizeof(struct manifest_header) + files * sizeof(struct manifest_file);
}

static void fill_in(struct manifest *m)
{
    struct manifest_header *h = &m->header;

    memcpy(h->magic, FORMAT_MAGIC_MANIFEST, sizeof h->magic);
    h->major = FORMAT_MAJOR;
    h->header_len = sizeof *h;
    h->size = manifest_size(h->files);
    memset(h->pad, 0, sizeof h->pad);
    h->content_check = content_checksum(m);
    h->check = checksum(h, HEADER_CHECKED, 0);
}

static int write_at(int fd, uint64_t off, const void *data, size_t len, struct errmsg *msg)
{
    int r = FAILPOINT("manifest.write");
    return r < 0 ? write_failed(-r, "writing a manifest", msg)
                 : write_all(fd, data, len, off, "writing a manifest", msg);
}

static const char *numbers_problem(const struct manifest *m);

int manifest_write(int fd, struct manifest *m, struct errmsg *msg)
{
    if (m->header.files > MANIFEST_FILES_MAX)
        return fail(msg, SKADE_EINPUT, "a compaction of %u files: there can be %u; make them larger",
                    m->header.files, MANIFEST_FILES_MAX);
    assert(!numbers_problem(m));
    fill_in(m);
    int r = write_at(fd, 0, &m->header, sizeof m->header, msg);
    if (r == 0)
        r = write_at(fd, sizeof m->header, m->files, m->header.files * sizeof m->files[0], msg);
    if (r < 0)
        return r;
    r = FAILPOINT("manifest.fsync");
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    return r < 0 ? write_failed(-r, "syncing a manifest", msg) : 0;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static int read_at(int fd, uint64_t off, void *buf, size_t len, const char *name, struct errmsg *msg)
{
    while (len > 0) {
        ssize_t n = pread(fd, buf, len, (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(msg, -errno, "%s: can't read at %llu: %s", name, (unsigned long long)off,
                        error_text(-errno));
        if (n == 0)
            return fail(msg, SKADE_EDAMAGED, "%s: damaged: it ends at byte %llu", name,
                        (unsigned long long)off);
        buf = (char *)buf + n;
        off += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

static const char *header_problem(const struct manifest_header *h, uint64_t size)
{
    if (h->check != checksum(h, HEADER_CHECKED, 0))
        return "wrong checksum of the header";
    if (h->header_len != sizeof *h)
        return "a header of another length";
    if (h->files > MANIFEST_FILES_MAX)
        return "more files than there can be";
    if (h->size != size || h->size != sizeof *h + h->files * sizeof(struct manifest_file))
        return "its size is not the one that it says";
    return NULL;
}

static int check_header(const struct manifest_header *h, uint64_t size, const char *name, struct errmsg *msg)
{
    if (memcmp(h->magic, FORMAT_MAGIC_MANIFEST, sizeof h->magic) != 0)
        return fail(msg, SKADE_EFOREIGN, "%s: not a manifest: it doesn't begin with %s", name,
                    FORMAT_MAGIC_MANIFEST);
    if (h->major != FORMAT_MAJOR)
        return fail(msg, SKADE_EVERSION, "%s: has format %u, this program reads %u", name, h->major,
                    FORMAT_MAJOR);
    const char *problem = header_problem(h, size);
    return problem ? fail(msg, SKADE_EDAMAGED, "%s: damaged: %s", name, problem) : 0;
}

static int check_owner(const struct manifest_header *h, const struct uuid *log, uint32_t table,
                       const char *name, struct errmsg *msg)
{
    if (!uuid_equal(&h->log, log))
        return fail(msg, SKADE_EFOREIGN, "%s: belongs to another commit log", name);
    if (h->table != table)
        return fail(msg, SKADE_EFOREIGN, "%s: belongs to table number %u, not %u", name, h->table, table);
    return 0;
}

/* A checksum says that the bytes are the writer's; this, that the writer was right. */
static const char *numbers_problem(const struct manifest *m)
{
    uint64_t rows = 0;

    for (uint32_t i = 0; i < m->header.files; i++) {
        const struct manifest_file *f = &m->files[i];
        if (f->size < sizeof(struct entry_header) + sizeof(struct entry_footer))
            return "a file smaller than its header and footer";
        if (f->keyed > f->rows)
            return "a file with more keys than rows";
        if (f->time_min > f->time_max)
            return "a file that ends before it begins";
        if (!key_range_valid(&f->low, &f->high, f->keyed))
            return "a file whose keys lie nowhere";
        if (f->rows > UINT64_MAX - rows)
            return "more rows than can be counted";
        rows += f->rows;
    }
    return rows == m->header.rows ? NULL : "the rows of its files are not the sum that it says";
}

static int read_files(struct manifest *m, int fd, const char *name, struct errmsg *msg)
{
    size_t len = m->header.files * sizeof m->files[0];

    m->files = malloc(len + 1);
    if (!m->files)
        return fail(msg, -ENOMEM, "%s: no memory for its %u files", name, m->header.files);
    int r = read_at(fd, sizeof m->header, m->files, len, name, msg);
    if (r < 0)
        return r;
    const char *problem = NULL;
    if (m->header.content_check != content_checksum(m))
        problem = "wrong checksum of its files";
    if (!problem)
        problem = numbers_problem(m);
    return problem ? fail(msg, SKADE_EDAMAGED, "%s: damaged: %s", name, problem) : 0;
}

int manifest_read(struct manifest *ret, int fd, const char *name, const struct uuid *log, uint32_t table,
                  struct errmsg *msg)
{
    struct manifest m = { .files = NULL };
    struct stat st;

    if (fstat(fd, &st) < 0)
        return fail(msg, -errno, "%s: %s", name, error_text(-errno));
    if (!S_ISREG(st.st_mode))
        return fail(msg, SKADE_EFOREIGN, "%s: not a regular file", name);
    int r = read_at(fd, 0, &m.header, sizeof m.header, name, msg);
    if (r == 0)
        r = check_header(&m.header, (uint64_t)st.st_size, name, msg);
    if (r == 0)
        r = check_owner(&m.header, log, table, name, msg);
    if (r == 0)
        r = read_files(&m, fd, name, msg);
    if (r < 0) {
        manifest_fini(&m);
        return r;
    }
    *ret = m;
    return 0;
}

void manifest_fini(struct manifest *m)
{
    free(m->files);
    *m = (struct manifest){ .files = NULL };
}

/* ---- names --------------------------------------------------------------------------------------------- */

#define UUID_DIGITS 32

static const char *const endings[] = { [NAME_ENTRIES] = ".entries",
                                       [NAME_ROWS] = ".rows",
                                       [NAME_MANIFEST] = ".manifest",
                                       [NAME_PENDING] = ".pending" };

char *entry_name(char *ret, enum entry_name kind, const struct uuid *uuid, uint32_t part)
{
    char *at = ret;

    assert(kind != NAME_ROWS || (part >= 1 && part <= MANIFEST_FILES_MAX));
    for (size_t i = 0; i < sizeof uuid->b; i++)
        at += sprintf(at, "%02x", uuid->b[i]);
    if (kind == NAME_ROWS)
        at += sprintf(at, ".%04u", part);
    strcpy(at, endings[kind]);
    return ret;
}

/* The value of a digit of those that "%02x" writes, or -1. */
static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_uuid(const char *text, struct uuid *ret)
{
    for (size_t i = 0; i < sizeof ret->b; i++) {
        int high = digit_of(text[2 * i]);
        int low = high < 0 ? -1 : digit_of(text[2 * i + 1]);
        if (low < 0)
            return false;
        ret->b[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* ".0001.rows" */
static bool parse_part(const char *text, uint32_t *ret)
{
    uint32_t part = 0;

    if (*text++ != '.')
        return false;
    for (int i = 0; i < 4; i++, text++) {
        if (*text < '0' || *text > '9')
            return false;
        part = part * 10 + (uint32_t)(*text - '0');
    }
    *ret = part;
    return part > 0 && strcmp(text, endings[NAME_ROWS]) == 0;
}

static bool parse_ending(const char *text, enum entry_name *kind, uint32_t *part)
{
    *part = 0;
    *kind = NAME_ROWS;
    if (parse_part(text, part))
        return true;
    *part = 0;
    for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
        *kind = (enum entry_name)i;
        if (i != NAME_ROWS && strcmp(text, endings[i]) == 0)
            return true;
    }
    return false;
}

bool entry_name_parse(const char *name, enum entry_name *kind, struct uuid *uuid, uint32_t *part)
{
    enum entry_name found;
    struct uuid own;
    uint32_t number;

    if (!parse_uuid(name, &own) || !parse_ending(name + UUID_DIGITS, &found, &number))
        return false;
    *kind = found;
    *uuid = own;
    *part = number;
    return true;
}
