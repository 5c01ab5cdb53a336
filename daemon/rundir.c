#include "rundir.h"

#include "log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MADE ".made-by-skaded"
#define OPEN_MODE 0755
#define CLOSED_MODE 0700

static const char *marker(const struct config *c, char *ret, size_t cap)
{
    snprintf(ret, cap, "%s/" MADE, c->run_dir.text);
    return ret;
}

static mode_t wanted_mode(const struct config *c)
{
    return c->read.text[0] || c->write.text[0] || c->admin.text[0] ? OPEN_MODE : CLOSED_MODE;
}

/* Is it as skaded made it?  If somebody gave it another mode, he had a reason. */
static bool is_ours(const struct config *c, const struct stat *st)
{
    char path[OPTION_TEXT_MAX + sizeof MADE + 1];
    struct stat mark;
    mode_t mode = st->st_mode & 0777;

    return st->st_uid == geteuid() && (mode == OPEN_MODE || mode == CLOSED_MODE) &&
           lstat(marker(c, path, sizeof path), &mark) == 0 && S_ISREG(mark.st_mode) &&
           mark.st_uid == geteuid();
}

/* NAME is the note or the socket of an instance other than C's. */
static bool is_of_another(const struct config *c, const char *name)
{
    size_t len = strlen(c->instance.text);
    const char *dot = strrchr(name, '.');

    if (!dot || dot == name || (strcmp(dot, ".sock") != 0 && strcmp(dot, ".shm") != 0))
        return false;
    return (size_t)(dot - name) != len || memcmp(name, c->instance.text, len) != 0;
}

/* Other instances in the same directory may have given roles.  When we can't tell, they have. */
static bool is_shared(const struct config *c)
{
    bool shared = false;
    DIR *dir = opendir(c->run_dir.text);

    if (!dir)
        return true;
    for (struct dirent *e = readdir(dir); e && !shared; e = readdir(dir))
        shared = is_of_another(c, e->d_name);
    closedir(dir);
    return shared;
}

void rundir_admit(const struct config *c)
{
    const char *dir = c->run_dir.text;
    mode_t want = wanted_mode(c);
    struct stat st;

    if (lstat(dir, &st) < 0 || (st.st_mode & 0777) == want)
        return;
    if (is_ours(c, &st) && (want == OPEN_MODE || !is_shared(c)) && chmod(dir, want) == 0)
        return;
    if (want == OPEN_MODE && !(st.st_mode & (S_IXGRP | S_IXOTH)))
        log_warning("the run directory %s is not one that skaded made and lets in nobody but uid %u (mode "
                    "%04o), though read, write or admin name others: chmod %04o %s",
                    dir, (unsigned)st.st_uid, (unsigned)(st.st_mode & 07777), OPEN_MODE, dir);
}

/* Make it with its marker. 0, -EEXIST, negative. */
static int make(const struct config *c)
{
    char path[OPTION_TEXT_MAX + sizeof MADE + 1];

    if (mkdir(c->run_dir.text, CLOSED_MODE) < 0)
        return -errno;
    int fd = open(marker(c, path, sizeof path), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    close(fd);
    return chmod(c->run_dir.text, CLOSED_MODE) < 0 ? -errno : 0; /* whatever the umask is */
}

int rundir_make(const struct config *c, struct errmsg *msg)
{
    const char *dir = c->run_dir.text;
    struct stat st;

    int r = make(c);
    if (r < 0 && r != -EEXIST)
        return fail(msg, r, "cannot make the run directory %s: %s; make it or set run_dir", dir,
                    strerror(-r));
    if (lstat(dir, &st) < 0)
        return fail(msg, -errno, "%s: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode) || (st.st_uid != geteuid() && geteuid() != 0) ||
        (st.st_mode & (S_IWGRP | S_IWOTH)))
        return fail(msg, SKADE_EFOREIGN,
                    "the run directory %s must be a directory of uid %u that nobody else can write to (it is "
                    "uid %u's, mode %04o)",
                    dir, (unsigned)geteuid(), (unsigned)st.st_uid, (unsigned)(st.st_mode & 07777));
    rundir_admit(c);
    return 0;
}
