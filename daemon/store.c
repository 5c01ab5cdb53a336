#include "store.h"

#include "acl.h"
#include "checksum.h"
#include "failpoint.h"
#include "fileuri.h"
#include "indexer.h"
#include "log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* So many unnamed files are kept ready. */
#define SPARES 4

struct store {
    struct server *server;
    char root[OPTION_TEXT_MAX + 16]; /* DATA-DIR/tables, absolute */
    int dir;                         /* of it */
    int lost;                        /* DATA-DIR/lost; -1: not there yet */
    dev_t device;                    /* of dir */
    pthread_mutex_t lock;            /* of the spare files: workers take and make them */
    int spares[SPARES];
    unsigned spares_count;
    uint64_t lost_due_ms; /* when lost/ is emptied; 0: nothing is in it */
};

/* ---- directories ------------------------------------------------------------------------------------------------- */

#define FILE_MODE 0444
#define DIR_MODE 0755

/* FD is NAME in DIR, just MADE or not. */
static int set_up_dir(int dir, int fd, mode_t mode, bool made)
{
    struct stat st;
    int r = made ? FAILPOINT("store.dir") : 0;

    if (r < 0 || fstat(fd, &st) < 0)
        return r < 0 ? r : -errno;
    if (!made && (st.st_mode & 07777) == mode)
        return 0;
    /* Also when it was there: who made it may have died before this. */
    return fchmod(fd, mode) < 0 || fsync(dir) < 0 ? -errno : 0;
}

/* Make NAME in DIR unless it is there, with MODE; a descriptor of it. */
static int open_dir(const struct store *st, int dir, const char *name, mode_t mode, struct errmsg *msg)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    bool made = false;
    int fd = openat(dir, name, flags); /* first: it is there but once */

    if (fd < 0 && errno == ENOENT) {
        made = mkdirat(dir, name, 0700) == 0;
        if (!made && errno != EEXIST)
            return fail(msg, -errno, "cannot make the directory %s of %s: %s", name, st->root,
                        strerror(errno));
        fd = openat(dir, name, flags);
    }
    if (fd < 0)
        return fail(msg, -errno, "%s of %s is no directory that can be used: %s", name, st->root,
                    strerror(errno));
    int r = set_up_dir(dir, fd, mode, made);
    if (r < 0) {
        close(fd);
        return fail(msg, r, "cannot set up the directory %s of %s: %s", name, st->root, strerror(-r));
    }
    return fd;
}

static int cannot_admit(const struct store *st, mode_t mode, struct errmsg *msg)
{
    return fail(msg, -errno, "cannot set who may read %s (mode %04o): %s", st->root, (unsigned)mode,
                strerror(errno));
}

/* What mode bits can say: its owner, one group, or everyone. */
static int admit_by_mode(const struct store *st, mode_t mode, gid_t group, struct errmsg *msg)
{
    struct stat now;

    bool had_list = acl_drop(st->dir) <= 0;
    if (!had_list && fstat(st->dir, &now) == 0 && (now.st_mode & 0777) == mode &&
        (mode != 0750 || now.st_gid == group))
        return 0;
    /* Closed before it changes hands. */
    if (fchmod(st->dir, 0700) < 0 || (mode == 0750 && fchown(st->dir, (uid_t)-1, group) < 0) ||
        fchmod(st->dir, mode) < 0)
        return cannot_admit(st, mode, msg);
    return 0;
}

/* The others by a list.  The group of its own is admitted by mode, so that it is where there are no lists, too. */
static int admit_by_list(const struct store *st, gid_t group, struct errmsg *msg)
{
    struct stat now;
    bool fits = group == (gid_t)-1 || (fstat(st->dir, &now) == 0 && now.st_gid == group);

    if (!fits && (fchmod(st->dir, 0700) < 0 || fchown(st->dir, (uid_t)-1, group) < 0))
        return cannot_admit(st, 0700, msg);
    int r = acl_admit(st->dir, &st->server->config, group);
    if (r >= 0)
        return 0;
    log_warning(
        "%s: the file system keeps no access lists (%s): of the roles that name single users or several "
        "groups, only %s can read rows of stored tables; name one @group or *, or put data_dir elsewhere",
        st->root, strerror(-r), group == (gid_t)-1 ? "root and the daemon's user" : "its own group");
    return admit_by_mode(st, group == (gid_t)-1 ? 0700 : 0750, group, msg);
}

int store_admit(struct store *st, struct errmsg *msg)
{
    gid_t group;
    mode_t files = config_shm_mode(&st->server->config, &group);

    if (acl_is_needed(&st->server->config, group))
        return admit_by_list(st, group, msg);
    return admit_by_mode(st, files == 0444 ? 0755 : files == 0440 ? 0750 : 0700, group, msg);
}

int store_open(struct store **ret, struct server *s, struct errmsg *msg)
{
    char *data_dir = realpath(s->config.data_dir.text, NULL);
    struct store *st = calloc(1, sizeof *st);
    struct stat about;

    if (!st || !data_dir) {
        free(st);
        free(data_dir);
        return fail(msg, -ENOMEM, "no memory, or %s is gone", s->config.data_dir.text);
    }
    st->server = s;
    pthread_mutex_init(&st->lock, NULL);
    st->lost = -1;
    snprintf(st->root, sizeof st->root, "%s/tables", data_dir);
    int data = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = data < 0 ? fail(msg, -errno, "cannot open %s: %s", data_dir, strerror(errno))
                     : open_dir(st, data, "tables", 0700, msg);
    st->dir = r;
    if (r >= 0)
        r = store_admit(st, msg);
    if (r == 0 && fstat(st->dir, &about) == 0)
        st->device = about.st_dev;
    if (r == 0)
        st->lost = openat(data, "lost", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (data >= 0)
        close(data);
    free(data_dir);
    *ret = st;
    return r;
}

void store_close(struct store *st)
{
    if (!st)
        return;
    if (st->dir >= 0)
        close(st->dir);
    if (st->lost >= 0)
        close(st->lost);
    while (st->spares_count)
        close(st->spares[--st->spares_count]);
    pthread_mutex_destroy(&st->lock);
    free(st);
}

const char *store_dir_name(const struct store *st, char *ret, size_t cap, uint32_t table, uint32_t n)
{
    snprintf(ret, cap, "%s/%" PRIu32 "/%" PRIu32, st->root, table, n);
    return ret;
}

int store_dir(struct store *st, uint32_t table, uint32_t n, struct errmsg *msg)
{
    char name[16];

    snprintf(name, sizeof name, "%" PRIu32, table);
    int outer = open_dir(st, st->dir, name, DIR_MODE, msg);
    if (outer < 0)
        return outer;
    snprintf(name, sizeof name, "%" PRIu32, n);
    int inner = open_dir(st, outer, name, DIR_MODE, msg);
    close(outer);
    return inner;
}

void store_remove_dir(struct store *st, uint32_t table, uint32_t n)
{
    char path[sizeof st->root + 32];

    rmdir(store_dir_name(st, path, sizeof path, table, n));
}

int store_root(const struct store *st, struct errmsg *msg)
{
    int fd = fcntl(st->dir, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? fail(msg, -errno, "cannot open %s again: %s", st->root, strerror(errno)) : fd;
}

/* ---- files ------------------------------------------------------------------------------------------------------------ */

/* A new one.  On a busy disk this waits for what is being written, so appends use spare ones. */
static int make_temp(int dir)
{
    int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd >= 0 && fchmod(fd, FILE_MODE) < 0) { /* not open()'s mode, which the umask cuts */
        int r = -errno;
        close(fd);
        return r;
    }
    return fd < 0 ? -errno : fd;
}

/* A spare file, if it can get a name in DIR; -1: none. */
static int take_spare(struct store *st, int dir)
{
    struct stat there;
    int fd = -1;

    if (fstat(dir, &there) < 0 || there.st_dev != st->device)
        return -1;
    pthread_mutex_lock(&st->lock);
    if (st->spares_count)
        fd = st->spares[--st->spares_count];
    pthread_mutex_unlock(&st->lock);
    return fd;
}

void store_refill(struct store *st)
{
    int fd = 0;

    pthread_mutex_lock(&st->lock);
    bool full = st->spares_count == SPARES;
    pthread_mutex_unlock(&st->lock);
    if (full || (fd = make_temp(st->dir)) < 0)
        return; /* whoever needs one tries himself, and tells */
    pthread_mutex_lock(&st->lock);
    if (st->spares_count < SPARES) {
        st->spares[st->spares_count++] = fd;
        fd = -1;
    }
    pthread_mutex_unlock(&st->lock);
    if (fd >= 0)
        close(fd);
}

int store_temp(struct store *st, int dir, struct errmsg *msg)
{
    int r = FAILPOINT("store.temp");
    int fd = r < 0 ? r : take_spare(st, dir);

    if (r == 0 && fd < 0)
        fd = r = make_temp(dir);
    if (fd >= 0)
        return fd;
    if (r == -EOPNOTSUPP || r == -EISDIR)
        return fail(msg, SKADE_EINPUT,
                    "the file system of %s has no unnamed files (O_TMPFILE); put data_dir on ext4, "
                    "XFS, btrfs or tmpfs",
                    st->root);
    if (r == -ENOSPC || r == -EDQUOT)
        return fail(msg, SKADE_EFULL, "no room for a file in %s; free some and try again", st->root);
    return fail(msg, r, "cannot make a file in %s: %s", st->root, strerror(-r));
}

static int link_fd(int fd, int dir, const char *name)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, path, dir, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int sync_dir(int dir)
{
    int r = FAILPOINT("store.dirsync");
    return r < 0 ? r : fsync(dir) < 0 ? -errno : 0;
}

int store_link(struct store *st, int dir, const struct uuid *uuid, const struct store_file *files, size_t n,
               struct errmsg *msg)
{
    char name[ENTRY_NAME_MAX];
    size_t done = 0;

    int r = FAILPOINT("store.mark");
    if (r == 0)
        r = link_fd(files[n - 1].fd, dir, entry_name(name, NAME_PENDING, uuid, 0));
    if (r < 0)
        return fail(msg, r == -ENOSPC || r == -EDQUOT ? SKADE_EFULL : r, "cannot name a file in %s: %s",
                    st->root, strerror(-r));
    for (; r == 0 && done < n; done++) {
        r = FAILPOINT("store.link");
        if (r == 0)
            r = link_fd(files[done].fd, dir, entry_name(name, files[done].kind, uuid, files[done].part));
        if (r < 0)
            break;
    }
    if (r == 0)
        r = sync_dir(dir);
    if (r == 0)
        r = FAILPOINT("store.linked");
    if (r == 0)
        return 0;
    store_unlink(st, dir, uuid, files, done);
    return fail(msg, r == -ENOSPC || r == -EDQUOT ? SKADE_EFULL : r, "cannot name a file in %s: %s", st->root,
                strerror(-r));
}

void store_unlink(struct store *st, int dir, const struct uuid *uuid, const struct store_file *files,
                  size_t n)
{
    char name[ENTRY_NAME_MAX];

    (void)st;
    for (size_t i = 0; i < n; i++) {
        (void)FAILPOINT("store.unlink");
        unlinkat(dir, entry_name(name, files[i].kind, uuid, files[i].part), 0);
    }
    (void)FAILPOINT("store.unlink");
    unlinkat(dir, entry_name(name, NAME_PENDING, uuid, 0), 0);
}

void store_settle(struct store *st, int dir, const struct uuid *uuid)
{
    char name[ENTRY_NAME_MAX];

    /* A log that isn't synced at each commit may lose this one to a power cut: then the mark tells why. */
    if (st->server->config.sync != SYNC_FULL)
        return;
    if (FAILPOINT("store.settle") == 0)
        unlinkat(dir, entry_name(name, NAME_PENDING, uuid, 0), 0);
}

/* ---- locations -------------------------------------------------------------------------------------------------------- */

const char *store_file_name(const struct store *st, char *ret, size_t cap, uint32_t table, uint32_t n,
                            enum entry_name kind, const struct uuid *uuid, uint32_t part)
{
    char name[ENTRY_NAME_MAX];

    snprintf(ret, cap, "%s/%" PRIu32 "/%" PRIu32 "/%s", st->root, table, n,
             entry_name(name, kind, uuid, part));
    return ret;
}

int store_location(const struct store *st, char *ret, uint32_t table, uint32_t n, enum entry_name kind,
                   const struct uuid *uuid, struct errmsg *msg)
{
    char path[sizeof st->root + ENTRY_NAME_MAX + 32];

    int len =
        file_uri(ret, LOCATION_MAX + 1, store_file_name(st, path, sizeof path, table, n, kind, uuid, 0));
    return len < 0
               ? fail(
                     msg, SKADE_EINPUT,
                     "the path of data_dir, %s, is too long for locations of files: move it to a shorter one",
                     st->root)
               : len;
}

/* The number that ends before END, preceded by a '/': its start, or NULL. */
static const char *number_before(const char *begin, const char *end, uint32_t *ret)
{
    uint64_t v = 0, scale = 1;
    const char *c = end;

    while (c > begin && c[-1] >= '0' && c[-1] <= '9' && end - c < 10) {
        v += (uint64_t)(c[-1] - '0') * scale;
        scale *= 10;
        c--;
    }
    if (c == end || c == begin || c[-1] != '/' || v > UINT32_MAX || (*c == '0' && end - c > 1))
        return NULL;
    *ret = (uint32_t)v;
    return c;
}

bool store_parse(struct bytes location, uint32_t *table, uint32_t *n, enum entry_name *kind,
                 struct uuid *uuid)
{
    char name[ENTRY_NAME_MAX];
    uint32_t part;
    const char *end = location.data + location.len, *slash = end;

    while (slash > location.data && slash[-1] != '/')
        slash--;
    if (slash == location.data || (size_t)(end - slash) >= sizeof name)
        return false;
    memcpy(name, slash, (size_t)(end - slash));
    name[end - slash] = 0;
    if (!entry_name_parse(name, kind, uuid, &part))
        return false;
    const char *inner = number_before(location.data, slash - 1, n);
    return inner && number_before(location.data, inner - 1, table);
}

/* ---- what is found at start --------------------------------------------------------------------------------------------- */

/* First everything is only looked at, since one file tells that nothing may be touched. */
enum sweep_pass { SWEEP_JUDGE, SWEEP_MOVE, SWEEP_UNMARK };

struct sweep {
    struct store *store;
    enum sweep_pass pass;
    uint32_t table, n;
    struct uuid *known; /* of the table's commits, ascending */
    size_t known_count;
    size_t found; /* files without a commit, and marks */
    size_t moved;
    struct errmsg *msg;
};

static int compare_uuids(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct uuid));
}

/* The uuids of all commits of TABLE, whether their files are still there or not. */
static int load_known(struct sweep *w, uint32_t table)
{
    const struct generation *g = indexer_generation(w->store->server->indexer);
    char location[LOCATION_MAX];
    struct found f;
    size_t cap = 0;
    uint64_t after = 0;

    w->known_count = 0;
    while (g && generation_after(g, table, after, &f) == 1) {
        uint32_t number, n;
        enum entry_name kind;
        struct uuid uuid;
        int len = generation_location(g, &f, location, sizeof location, NULL);
        after = f.hit.seq;
        if (len < 0 || !store_parse((struct bytes){ location, (size_t)len }, &number, &n, &kind, &uuid))
            continue;
        if (w->known_count == cap) {
            cap = cap ? cap * 2 : 64;
            struct uuid *more = realloc(w->known, cap * sizeof *more);
            if (!more)
                return -ENOMEM;
            w->known = more;
        }
        w->known[w->known_count++] = uuid;
    }
    if (w->known_count)
        qsort(w->known, w->known_count, sizeof *w->known, compare_uuids);
    return 0;
}

/* From here on nothing is touched. */
static void set_readonly(struct sweep *w, const char *name, bool foreign)
{
    struct server *s = w->store->server;

    if (s->readonly[0])
        return;
    snprintf(s->readonly, sizeof s->readonly,
             foreign ? "the data belongs to another log: tables/%" PRIu32 "/%" PRIu32
                       "/%s was not written under this one; restore the log that belongs to it, or move that "
                       "file away"
                     : "the log is older than the data: tables/%" PRIu32 "/%" PRIu32
                       "/%s belongs to a commit that the log doesn't have; restore the newest backup of the "
                       "log, or move that file away",
             w->table, w->n, name);
    log_error("%s; serving read-only", s->readonly);
}

/* What the header of a file says: the log that it was written under, and the newest event then.  false: it can't be
 * read. */
static bool read_origin(int dir, const char *name, enum entry_name kind, struct uuid *log, uint64_t *seen)
{
    union {
        struct entry_header entries;
        struct manifest_header manifest;
    } u;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return false;
    ssize_t got = pread(fd, &u, sizeof u, 0);
    close(fd);
    if (kind == NAME_MANIFEST) {
        *log = u.manifest.log;
        *seen = u.manifest.seen_seq;
        return got >= (ssize_t)sizeof u.manifest &&
               checksum(&u, offsetof(struct manifest_header, check), 0) == u.manifest.check;
    }
    *log = u.entries.log;
    *seen = u.entries.seen_seq;
    return got >= (ssize_t)sizeof u.entries &&
           checksum(&u, offsetof(struct entry_header, check), 0) == u.entries.check;
}

static int move_to_lost(struct sweep *w, int dir, const char *name)
{
    struct store *st = w->store;
    char to[ENTRY_NAME_MAX + 40];

    if (st->lost < 0) {
        int data = openat(st->dir, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (data < 0)
            return fail(w->msg, -errno, "cannot open the directory of %s: %s", st->root, strerror(errno));
        st->lost = open_dir(st, data, "lost", 0700, w->msg);
        close(data);
        if (st->lost < 0)
            return st->lost;
    }
    snprintf(to, sizeof to, "%" PRIu32 ".%" PRIu32 ".%s", w->table, w->n, name);
    if (FAILPOINT("store.lost") < 0 || renameat(dir, name, st->lost, to) < 0)
        return fail(w->msg, -errno, "cannot move %s to lost/: %s", name, strerror(errno));
    log_warning("tables/%" PRIu32 "/%" PRIu32 "/%s has no commit: moved to lost/%s", w->table, w->n, name,
                to);
    w->moved++;
    return 0;
}

static bool marked(int dir, const struct uuid *uuid)
{
    char name[ENTRY_NAME_MAX];
    struct stat st;

    return fstatat(dir, entry_name(name, NAME_PENDING, uuid, 0), &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A data file without a commit: did one of this log never come to be, or is this the wrong log? */
static void judge_stray(struct sweep *w, int dir, const char *name, enum entry_name kind,
                        const struct uuid *uuid)
{
    const struct server *s = w->store->server;
    struct uuid log;
    uint64_t seen;
    bool readable = read_origin(dir, name, kind, &log, &seen);

    if (readable && !uuid_equal(&log, &s->origin))
        set_readonly(w, name, true);
    else if (!marked(dir, uuid) || (readable && seen > s->ledger->seq && s->config.sync == SYNC_FULL))
        set_readonly(w, name,
                     false); /* mode `normal` may lose the newest commits, and leaves their marks to tell */
}

/* One name of a directory of a table.  Data files go before marks: a mark is needed as long as its files are there. */
static int sweep_name(struct sweep *w, int dir, const char *name)
{
    enum entry_name kind;
    struct uuid uuid;
    uint32_t part;

    if (!entry_name_parse(name, &kind, &uuid, &part))
        return 0; /* not ours: untouched */
    bool mark = kind == NAME_PENDING;
    bool known = w->known_count && bsearch(&uuid, w->known, w->known_count, sizeof uuid, compare_uuids);
    if (known && !mark)
        return 0;
    w->found++;
    if (w->pass == SWEEP_JUDGE && !mark)
        judge_stray(w, dir, name, kind, &uuid);
    if (w->pass == SWEEP_MOVE && !mark)
        return move_to_lost(w, dir, name);
    if (w->pass == SWEEP_UNMARK && mark && FAILPOINT("store.unmark") == 0)
        unlinkat(dir, name, 0);
    return 0;
}

/* FN for each name in DIR but . and ..; the names are collected first, since FN may remove them. */
static int each_name(int dir, int (*fn)(void *arg, const char *name), void *arg)
{
    char **names = NULL;
    size_t count = 0, cap = 0;
    int r = 0, fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (!d) {
        r = -errno;
        if (fd >= 0)
            close(fd);
        return r;
    }
    for (struct dirent *e; r == 0 && (errno = 0, e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (count == cap) {
            cap = cap ? cap * 2 : 64;
            char **more = realloc(names, cap * sizeof *more);
            if (!more) {
                r = -ENOMEM;
                break;
            }
            names = more;
        }
        names[count] = strdup(e->d_name);
        if (!names[count])
            r = -ENOMEM;
        else
            count++;
    }
    if (r == 0 && errno)
        r = -errno;
    closedir(d);
    for (size_t i = 0; i < count; i++) {
        if (r == 0)
            r = fn(arg, names[i]);
        free(names[i]);
    }
    free(names);
    return r;
}

struct sweep_dir {
    struct sweep *sweep;
    int dir;
};

static int sweep_file(void *arg, const char *name)
{
    struct sweep_dir *d = arg;
    return sweep_name(d->sweep, d->dir, name);
}

/* What is not needed goes: the files, durably, and then their marks. */
static int sweep_away(struct sweep_dir *d)
{
    struct sweep *w = d->sweep;
    size_t moved = w->moved;

    w->pass = SWEEP_MOVE;
    int r = each_name(d->dir, sweep_file, d);
    if (r == 0 && w->moved > moved && (fsync(w->store->lost) < 0 || fsync(d->dir) < 0))
        r = -errno;
    w->pass = SWEEP_UNMARK;
    return r == 0 ? each_name(d->dir, sweep_file, d) : r;
}

static bool parse_number(const char *name, uint32_t *ret)
{
    char *end;

    if (name[0] < '0' || name[0] > '9' || (name[0] == '0' && name[1]))
        return false;
    errno = 0;
    unsigned long long v = strtoull(name, &end, 10);
    *ret = (uint32_t)v;
    return !*end && !errno && v <= UINT32_MAX;
}

static int sweep_compaction(void *arg, const char *name)
{
    struct sweep_dir *outer = arg;
    struct sweep *w = outer->sweep;
    struct sweep_dir inner = { .sweep = w };

    if (!parse_number(name, &w->n))
        return 0;
    inner.dir = openat(outer->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner.dir < 0)
        return errno == ENOTDIR || errno == ELOOP
                   ? 0
                   : fail(w->msg, -errno, "cannot read tables/%" PRIu32 "/%s: %s", w->table, name,
                          strerror(errno));
    int r = w->pass == SWEEP_JUDGE ? each_name(inner.dir, sweep_file, &inner) : sweep_away(&inner);
    close(inner.dir);
    return r;
}

static int sweep_table(void *arg, const char *name)
{
    struct sweep *w = arg;
    struct sweep_dir outer = { .sweep = w };

    if (!parse_number(name, &w->table))
        return 0;
    outer.dir = openat(w->store->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (outer.dir < 0)
        return errno == ENOTDIR || errno == ELOOP
                   ? 0
                   : fail(w->msg, -errno, "cannot read tables/%s: %s", name, strerror(errno));
    int r = load_known(w, w->table);
    if (r == 0)
        r = each_name(outer.dir, sweep_compaction, &outer);
    close(outer.dir);
    return r;
}

/* <table>.<n>.<name>, as move_to_lost() names them. */
static bool is_lost_name(const char *name)
{
    enum entry_name kind;
    struct uuid uuid;
    uint32_t part;

    for (int i = 0; i < 2; i++) {
        size_t digits = strspn(name, "0123456789");
        if (digits == 0 || name[digits] != '.')
            return false;
        name += digits + 1;
    }
    return entry_name_parse(name, &kind, &uuid, &part);
}

static int remove_lost(void *arg, const char *name)
{
    struct store *st = arg;
    if (is_lost_name(name))
        unlinkat(st->lost, name, 0);
    return 0;
}

static int any_lost(void *arg, const char *name)
{
    (void)arg;
    return is_lost_name(name);
}

int store_sweep(struct store *st, struct errmsg *msg)
{
    struct sweep w = { .store = st, .msg = msg };
    struct server *s = st->server;

    int r = each_name(st->dir, sweep_table, &w);
    if (r == 0 && w.found && !s->readonly[0]) {
        w.pass = SWEEP_MOVE;
        r = each_name(st->dir, sweep_table, &w);
    }
    free(w.known);
    if (r < 0 && !msg->text[0])
        fail(msg, r, "cannot read %s: %s", st->root, strerror(-r));
    if (r == 0 && st->lost >= 0 && each_name(st->lost, any_lost, NULL) == 1)
        st->lost_due_ms = world.now_ms(&s->loop) + (uint64_t)s->config.gc_grace;
    return r;
}

void store_tick(struct store *st)
{
    if (!st->lost_due_ms || world.now_ms(&st->server->loop) < st->lost_due_ms || st->server->readonly[0])
        return;
    st->lost_due_ms = 0;
    if (each_name(st->lost, remove_lost, st) == 0)
        log_info("lost/ was there for a grace window: emptied");
}
