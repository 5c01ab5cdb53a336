#include "tempdir.h"

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* Kept in a list until exit.  A forked child has the list too, but not the right to remove. */
struct dir {
    struct dir *next;
    pid_t maker;
    char path[256];
};

static struct dir *dirs;

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    remove(path);
    return 0;
}

void remove_tree(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void remove_all(void)
{
    for (struct dir *d = dirs; d; d = d->next) {
        if (d->maker != getpid())
            continue;
        umount2(d->path, MNT_DETACH); /* if something is mounted there */
        remove_tree(d->path);
    }
}

static const char *make_in(const char *parent)
{
    if (!dirs)
        atexit(remove_all);
    struct dir *d = calloc(1, sizeof *d);
    ck_assert_ptr_nonnull(d);
    snprintf(d->path, sizeof d->path, "%s/skade-test-XXXXXX", parent);
    ck_assert_msg(mkdtemp(d->path) != NULL, "cannot make %s", d->path);
    d->maker = getpid();
    d->next = dirs;
    dirs = d;
    return d->path;
}

const char *tempdir(void)
{
    return access("/dev/shm", W_OK | X_OK) == 0 ? make_in("/dev/shm") : tempdir_on_disk();
}

const char *tempdir_on_disk(void)
{
    const char *parent = getenv("TMPDIR");
    return make_in(parent && *parent ? parent : "/tmp");
}

/* In a mount namespace of the process's own, and private, so that nothing outside changes. */
const char *tempdir_mounted(const char *options)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return NULL;
    const char *path = tempdir();
    if (mount("skade-test", path, "tmpfs", 0, options) < 0)
        return NULL;
    ck_assert_int_eq(chmod(path, 0700), 0);
    return path;
}

void tempdir_remount(const char *path, const char *options)
{
    ck_assert_int_eq(mount("skade-test", path, "tmpfs", MS_REMOUNT, options), 0);
}
