#include "whereabouts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORM "skade whereabouts 1\n"

static int path_of(char *ret, size_t size, const char *run_dir, const char *instance, const char *suffix)
{
    int n = snprintf(ret, size, "%s/%s.shm%s", run_dir, instance, suffix);
    return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

static void put_uuid(char *ret, const struct uuid *u)
{
    for (size_t i = 0; i < sizeof u->b; i++)
        snprintf(ret + 2 * i, 3, "%02x", u->b[i]);
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool get_uuid(const char *text, struct uuid *ret)
{
    for (size_t i = 0; i < sizeof ret->b; i++) {
        int high = hex(text[2 * i]), low = high < 0 ? -1 : hex(text[2 * i + 1]);
        if (low < 0)
            return false;
        ret->b[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

int whereabouts_write(const char *run_dir, const char *instance, const struct whereabouts *w,
                      struct errmsg *msg)
{
    char path[1400], temporary[1400], text[512], log[33];

    if (path_of(path, sizeof path, run_dir, instance, "") < 0 ||
        path_of(temporary, sizeof temporary, run_dir, instance, "~") < 0)
        return fail(msg, -ENAMETOOLONG, "%s: the path is too long", run_dir);
    put_uuid(log, &w->log);
    int n = snprintf(text, sizeof text, FORM "%s\n%s\n", log, w->shm_dir);
    unlink(temporary);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 ? -errno : 0;
    if (r == 0 && write(fd, text, (size_t)n) != n)
        r = errno ? -errno : -EIO;
    if (r == 0 && fchmod(fd, 0444) < 0)
        r = -errno;
    if (fd >= 0)
        close(fd);
    if (r == 0 && rename(temporary, path) < 0)
        r = -errno;
    return r < 0 ? fail(msg, r, "cannot write %s: %s", path, error_text(r)) : 0;
}

/* The two lines behind the form: 32 hexadecimal digits, a path. */
static bool parse(const char *text, struct whereabouts *ret)
{
    const char *log = text + strlen(FORM);

    if (strncmp(text, FORM, strlen(FORM)) != 0 || strlen(log) < 35 || log[32] != '\n' ||
        !get_uuid(log, &ret->log))
        return false;
    struct bytes dir = { log + 33, strcspn(log + 33, "\n") };
    if (strcmp(dir.data + dir.len, "\n") != 0 || dir.len == 0 || dir.len >= sizeof ret->shm_dir ||
        dir.data[0] != '/')
        return false;
    snprintf(ret->shm_dir, sizeof ret->shm_dir, "%.*s", (int)dir.len, dir.data);
    return true;
}

/* The text of an opened note.  Its length, or negative. */
static int read_note(int fd, uint32_t uid, char *text, size_t size)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || (st.st_uid != uid && st.st_uid != 0) || (st.st_mode & (S_IWGRP | S_IWOTH)))
        return SKADE_EFOREIGN;
    ssize_t n = read(fd, text, size - 1);
    if (n < 0)
        return -errno;
    text[n] = 0;
    return (int)n;
}

int whereabouts_read(const char *run_dir, const char *instance, uint32_t uid, struct whereabouts *ret,
                     struct errmsg *msg)
{
    char path[1400], text[513];
    struct whereabouts w;

    if (path_of(path, sizeof path, run_dir, instance, "") < 0)
        return fail(msg, -ENAMETOOLONG, "%s: the path is too long", run_dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return fail(msg, -errno, "%s: %s", path, error_text(-errno));
    int n = read_note(fd, uid, text, sizeof text);
    close(fd);
    if (n < 0)
        return fail(msg, n, "%s: %s", path, error_text(n));
    if (strlen(text) != (size_t)n || !parse(text, &w))
        return fail(msg, SKADE_EDAMAGED, "%s is damaged; a start of skaded writes it anew", path);
    *ret = w;
    return 0;
}
