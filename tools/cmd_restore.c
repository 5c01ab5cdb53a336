/*
 * restore: a backup becomes the log of an empty data directory that no daemon has.
 *
 *     look          no daemon holds the log directory, nothing is in it, no tables beside it
 *     copy          into a file that isn't the log yet
 *     renew         that copy, by `skaded --renew-log`: the structure and the whole chain are verified, and it gets
 *                   another uuid, by which clients notice that the log went back
 *     name it       without replacing anything, then sync the directory
 *
 * The copy is verified and not the original, so that what was verified is what the daemon will read.  The lock on the
 * log directory is held, shared, all the while: skaded takes it exclusively, so none can start in between, and the one
 * that renews takes it shared.  A restore that is refused leaves no directory that wasn't there.
 */
#include "ctl.h"
#include "new_file.h"
#include "plain.h"
#include "progress.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOG_FILE "skade.db"
#define COPY_AT_ONCE (1 << 20)

struct restore {
    struct ctl *c;
    const char *from;
    char data_dir[PATH_MAX / 2]; /* of the instance */
    char log_dir[PATH_MAX / 2 + 8];
    char log_file[PATH_MAX];
    size_t made; /* length of the shortest part of LOG_DIR that was made; 0: none */
    int lock;    /* the log directory, locked */
    struct new_file file;
    uint64_t seq, bytes;
};

static int fail_at(struct restore *r, int code, const char *path)
{
    char shown[512];

    return ctl_fail_with(r->c, code, "%s: %s", plain(path, shown, sizeof shown), strerror(-code));
}

/* ---- where ---- */

/* skaded's default: see its --help. */
static const char *default_data_dir(char *ret, size_t size)
{
    const char *xdg = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");

    if (geteuid() == 0)
        return "/var/lib/skade";
    if (xdg && xdg[0] == '/')
        snprintf(ret, size, "%s/skade", xdg);
    else
        snprintf(ret, size, "%s/.local/share/skade", home && home[0] == '/' ? home : "/tmp");
    return ret;
}

static const char *instance_of(const struct ctl *c)
{
    const char *name = c->options.instance ? c->options.instance : getenv("SKADE_INSTANCE");

    return name && *name ? name : "default";
}

static int find_directories(struct restore *r)
{
    char room[PATH_MAX];
    const char *given = args_value(&r->c->args, "data-dir");
    const char *dir = given ? given : default_data_dir(room, sizeof room);
    const char *instance = instance_of(r->c);
    bool subfolder = strcmp(instance, "default") != 0;

    if (instance[strspn(instance, "abcdefghijklmnopqrstuvwxyz0123456789_-")])
        return ctl_usage(r->c, "--instance %s is not a name: a-z 0-9 _ - are", instance);
    int len = snprintf(r->data_dir, sizeof r->data_dir, "%s%s%s", dir, subfolder ? "/" : "",
                       subfolder ? instance : "");
    if (len < 0 || (size_t)len >= sizeof r->data_dir || !*dir)
        return ctl_usage(r->c, "--data-dir is not a path");
    snprintf(r->log_dir, sizeof r->log_dir, "%s/log", r->data_dir);
    snprintf(r->log_file, sizeof r->log_file, "%s/" LOG_FILE, r->log_dir);
    return 0;
}

static int make_directory(struct restore *r, const char *path, mode_t mode)
{
    if (mkdir(path, mode) < 0)
        return errno == EEXIST ? 0 : -errno;
    if (r->made == 0)
        r->made = strlen(path);
    return 0;
}

/* Make the log directory and what is missing above it. */
static int make_directories(struct restore *r)
{
    char *path = r->log_dir;

    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int code = make_directory(r, path, 0755);
        *slash = '/';
        if (code < 0)
            return code;
    }
    return make_directory(r, path, 0700);
}

static void unmake_directories(struct restore *r)
{
    char *path = r->log_dir;

    while (r->made > 0 && strlen(path) >= r->made && rmdir(path) == 0) {
        char *slash = strrchr(path, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

/* ---- looking ---- */

/* A directory that is named is asked for by its lock.  The default one may be another than the daemon's, and then
 * it is hardly what is meant. */
static int check_no_daemon(struct restore *r)
{
    if (args_flag(&r->c->args, "data-dir"))
        return 0;
    struct skade_options options = r->c->options;
    skade *s;

    options.flags = SKADE_NO_SHM;
    if (skade_open(&s, &options) < 0)
        return 0; /* the lock tells of one that is hung */
    skade_close(s);
    return ctl_fail_with(
        r->c, SKADE_ERUNNING,
        "a daemon of instance %s answers: stop it first, or say with --data-dir where to restore",
        instance_of(r->c));
}

/* Does DIR hold anything?  What an earlier restore left half done doesn't count.  1, 0 (also: no such directory), or
 * a negative errno. */
static int holds_something(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int found = 0;

    if (!d)
        return errno == ENOENT ? 0 : -errno;
    while (!found && (e = readdir(d)))
        found = strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
                strncmp(e->d_name, "." LOG_FILE ".part-", sizeof LOG_FILE ".part-") != 0;
    closedir(d);
    return found;
}

/* Entry files of another log, or a newer state of this one, must not meet an older log. */
static int check_empty(struct restore *r)
{
    static const char *const parts[] = { "log", "tables", "lost" };
    char path[PATH_MAX], shown[512];

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", r->data_dir, parts[i]);
        int found = holds_something(path);
        if (found < 0)
            return fail_at(r, found, path);
        if (found)
            return ctl_fail_with(r->c, SKADE_EEXISTS, "%s: is not empty: move it away, or restore elsewhere",
                                 plain(path, shown, sizeof shown));
    }
    return 0;
}

static int lock_log(struct restore *r)
{
    char shown[512];

    int code = make_directories(r);
    if (code < 0)
        return fail_at(r, code, r->log_dir);
    r->lock = open(r->log_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->lock < 0)
        return fail_at(r, -errno, r->log_dir);
    if (flock(r->lock, LOCK_SH | LOCK_NB) == 0)
        return 0;
    if (errno != EWOULDBLOCK)
        return fail_at(r, -errno, r->log_dir);
    return ctl_fail_with(r->c, SKADE_ERUNNING, "%s: a daemon has it open: stop it first",
                         plain(r->log_dir, shown, sizeof shown));
}

/* ---- copying ---- */

/* A regular file that begins as SQLite's do, and isn't a log in use. */
static int open_backup(struct restore *r, uint64_t *size)
{
    static const char magic[] = "SQLite format 3";
    char head[sizeof magic], wal[PATH_MAX], shown[512];
    struct stat st;

    plain(r->from, shown, sizeof shown);
    int fd = open(r->from, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -fail_at(r, -errno, r->from);
    int code = 0;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || pread(fd, head, sizeof head, 0) != sizeof head ||
        memcmp(head, magic, sizeof magic) != 0)
        code = ctl_fail_with(r->c, SKADE_EFOREIGN, "%s: is not a backup of skade's", shown);
    snprintf(wal, sizeof wal, "%s-wal", r->from);
    if (code == 0 && access(wal, F_OK) == 0)
        code =
            ctl_fail_with(r->c, SKADE_EFOREIGN,
                          "%s: has a write-ahead log beside it, so it is a log and no backup: make one with "
                          "`skadectl backup`",
                          shown);
    if (code != 0) {
        close(fd);
        return -code;
    }
    *size = (uint64_t)st.st_size;
    return fd;
}

static int write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* All of FROM to TO.  The number of bytes, or a negative errno. */
static int64_t copy_bytes(int from, int to, uint64_t size)
{
    char *buffer = malloc(COPY_AT_ONCE);
    int64_t copied = 0, r = buffer ? 0 : -ENOMEM;

    while (r == 0) {
        ssize_t n = read(from, buffer, COPY_AT_ONCE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            r = n < 0 ? -errno : 0;
            break;
        }
        r = write_all(to, buffer, (size_t)n);
        copied += n;
        progress_set((uint64_t)copied, size);
    }
    free(buffer);
    return r < 0 ? r : copied;
}

static int copy(struct restore *r)
{
    uint64_t size = 0;
    int from = open_backup(r, &size);

    if (from < 0)
        return -from;
    int code = new_file_begin(&r->file, r->log_file);
    if (code < 0) {
        close(from);
        return fail_at(r, code, r->log_file);
    }
    progress_begin("restore", "bytes");
    int64_t copied = copy_bytes(from, r->file.fd, size);
    progress_end();
    close(from);
    if (copied < 0)
        return fail_at(r, (int)copied, r->log_file);
    r->bytes = (uint64_t)copied;
    return 0;
}

/* ---- verifying, and another uuid ---- */

/* skaded beside skadectl if it is there, else by PATH. */
static const char *find_skaded(char *ret, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", ret, size - 1);

    if (n <= 0)
        return "skaded";
    ret[n] = 0;
    char *slash = strrchr(ret, '/');
    if (!slash || (size_t)(slash - ret) + sizeof "/skaded" > size)
        return "skaded";
    strcpy(slash, "/skaded");
    return access(ret, X_OK) == 0 ? ret : "skaded";
}

/* What skaded says to standard output goes to *OUTPUT, its messages where ours go. */
static int spawn_skaded(const char *skaded, const char *file, int *output, pid_t *pid)
{
    char *argv[] = { (char *)(uintptr_t)skaded, (char *)(uintptr_t) "--renew-log", (char *)(uintptr_t)file,
                     NULL };
    posix_spawn_file_actions_t actions;
    int pipe_fds[2];

    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return -errno;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
    int error = posix_spawnp(pid, skaded, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_fds[1]);
    if (error) {
        close(pipe_fds[0]);
        return -error;
    }
    *output = pipe_fds[0];
    return 0;
}

/* skaded says `file TAB seq TAB bytes`; the file's name may hold anything. */
static uint64_t find_seq(char *text)
{
    char *bytes = strrchr(text, '\t');

    if (bytes)
        *bytes = 0;
    char *seq = strrchr(text, '\t');
    return bytes && seq ? strtoull(seq + 1, NULL, 10) : 0;
}

static int read_verdict(struct restore *r, int output, pid_t pid)
{
    char text[4096], shown[512];
    size_t len = 0;
    ssize_t n;
    int status = 0;

    while ((n = read(output, text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    text[len] = 0;
    close(output);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    r->seq = find_seq(text);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return ctl_fail_with(r->c, SKADE_EDAMAGED,
                         "%s: skaded --renew-log doesn't accept it: nothing is restored",
                         plain(r->from, shown, sizeof shown));
}

static int renew(struct restore *r)
{
    char room[PATH_MAX], path[2 * PATH_MAX], shown[512];
    const char *skaded = find_skaded(room, sizeof room);
    int output = -1;
    pid_t pid = -1;

    char *dir = realpath(r->log_dir, NULL); /* absolute, so that it doesn't look like an option */
    if (!dir)
        return fail_at(r, -errno, r->log_dir);
    snprintf(path, sizeof path, "%s/%s", dir, r->file.part);
    free(dir);
    int code = spawn_skaded(skaded, path, &output, &pid);
    if (code < 0)
        return ctl_fail_with(r->c, code, "%s, which verifies the backup, can't be started: %s",
                             plain(skaded, shown, sizeof shown), strerror(-code));
    return read_verdict(r, output, pid);
}

/* ---- all of it ---- */

/* Root restores for the user whose data directory it is. */
static int give_away(struct restore *r)
{
    struct stat st;

    if (geteuid() != 0)
        return 0;
    if (stat(r->data_dir, &st) < 0 || fchown(r->file.fd, st.st_uid, st.st_gid) < 0 ||
        fchown(r->lock, st.st_uid, st.st_gid) < 0)
        return fail_at(r, -errno, r->log_file);
    return 0;
}

static int publish(struct restore *r)
{
    int code = give_away(r);

    if (code != 0)
        return code;
    code = new_file_publish(&r->file);
    return code < 0 ? fail_at(r, code, r->log_file) : 0;
}

static int restore(struct restore *r)
{
    int code = find_directories(r);

    if (code == 0)
        code = check_no_daemon(r);
    if (code == 0)
        code = lock_log(r);
    if (code == 0)
        code = check_empty(r);
    if (code == 0)
        code = copy(r);
    if (code == 0)
        code = renew(r);
    if (code == 0)
        code = publish(r);
    new_file_end(&r->file);
    if (code != 0)
        unmake_directories(r);
    if (r->lock >= 0)
        close(r->lock);
    return code;
}

int cmd_restore(struct ctl *c)
{
    struct restore r = { .c = c, .from = c->args.operands[0], .lock = -1, .file = { .dir = -1, .fd = -1 } };

    int code = restore(&r);
    if (code != 0)
        return code;
    out_text(&c->out, r.log_file);
    out_seq(&c->out, r.seq);
    out_count(&c->out, r.bytes);
    return ctl_row(c);
}
