#include "new_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static const int deadly[] = { SIGINT, SIGTERM, SIGHUP };

/* What the signal handler removes; both are set before the handler is, and only then read. */
static struct new_file *volatile unfinished;

static void remove_and_die(int signal_number)
{
    struct new_file *f = unfinished;

    if (f && f->part[0])
        unlinkat(f->dir, f->part, 0);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void guard(struct new_file *f)
{
    unfinished = f;
    for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++)
        signal(deadly[i], f ? remove_and_die : SIG_DFL);
}

/* PATH's directory, opened, and the name in it. */
static int split(struct new_file *f, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    char dir[PATH_MAX];

    if (strlen(path) >= sizeof dir || strlen(name) > sizeof f->name - sizeof ".part-0123456789abcdef")
        return -ENAMETOOLONG;
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return -EISDIR;
    strcpy(f->name, name);
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    f->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return f->dir < 0 ? -errno : 0;
}

static int create(struct new_file *f)
{
    struct stat st;
    uint64_t random;

    /* Only to say so early; what counts is that publishing replaces nothing. */
    if (fstatat(f->dir, f->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return -EEXIST;
    if (getrandom(&random, sizeof random, 0) < 0)
        return -errno;
    snprintf(f->part, sizeof f->part, ".%.*s.part-%016" PRIx64, (int)strlen(f->name), f->name, random);
    f->fd = openat(f->dir, f->part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (f->fd >= 0)
        return 0;
    f->part[0] = 0;
    return -errno;
}

int new_file_begin(struct new_file *ret, const char *path)
{
    *ret = (struct new_file){ .dir = -1, .fd = -1 };
    int r = split(ret, path);
    if (r == 0)
        r = create(ret);
    if (r < 0) {
        int dir = ret->dir;
        *ret = (struct new_file){ .dir = -1, .fd = -1 };
        if (dir >= 0)
            close(dir);
        return r;
    }
    guard(ret);
    return 0;
}

/* Rename without replacing; where the file system can't, by a second name, which can't replace either. */
static int rename_anew(struct new_file *f)
{
    if (renameat2(f->dir, f->part, f->dir, f->name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    if (linkat(f->dir, f->part, f->dir, f->name, 0) < 0)
        return -errno;
    unlinkat(f->dir, f->part, 0);
    return 0;
}

int new_file_publish(struct new_file *f)
{
    if (fsync(f->fd) < 0)
        return -errno;
    int r = rename_anew(f);
    if (r < 0)
        return r;
    f->part[0] = 0;
    return fsync(f->dir) < 0 ? -errno : 0;
}

void new_file_end(struct new_file *f)
{
    guard(NULL);
    if (f->part[0])
        unlinkat(f->dir, f->part, 0);
    if (f->fd >= 0)
        close(f->fd);
    if (f->dir >= 0)
        close(f->dir);
    *f = (struct new_file){ .dir = -1, .fd = -1 };
}
