/*
 * The commit log when the world fails: every write and fsync in turn, every allocation, full disks, power
 * cuts, kills.
 *
 * The disk of these tests is a layer below SQLite.  It can fail or kill at the n-th operation that
 * changes something, and it remembers of each file what was synced, so that a power cut can leave any
 * mixture of that and what was written since, sector by sector.  Each loop goes on with the next n until
 * the work gets through.
 */
#include "commitlog_fixture.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

Suite *commitlog_faults_suite(void);

/* ---- a disk that fails ----------------------------------------------------------------------------- */

#define FILES_MAX 16
#define SECTOR 512

struct tracked {
    char path[600];
    struct blob synced; /* what a power cut leaves for certain */
    bool survives;      /* there would be a file at all */
};

enum op { OP_WRITE = 1, OP_SYNC = 2, OP_TRUNCATE = 4, OP_DELETE = 8, OP_ALL = 15 };

static struct {
    sqlite3_vfs layer;
    sqlite3_vfs *below;
    struct tracked files[FILES_MAX];
    size_t count;
    long ops;     /* that change something, so far */
    long chances; /* those of them of a kind that fails */
    long at;      /* the first of these that does; 0: none */
    bool once;    /* it alone */
    unsigned on;  /* enum op: the kinds that fail */
    int error;    /* as the system would say it; 0: kill */
    bool struck;
} disk;

struct disk_file {
    sqlite3_file base;
    int error; /* the last that was made up */
    struct tracked *tracked;
    sqlite3_file *below;
};

static sqlite3_file *below(sqlite3_file *f)
{
    return ((struct disk_file *)f)->below;
}

/* Does this operation fail?  Then errno is set. */
static bool strikes(enum op op)
{
    disk.ops++;
    if (!disk.at || !(op & disk.on))
        return false;
    disk.chances++;
    if (disk.once ? disk.chances != disk.at : disk.chances < disk.at)
        return false;
    disk.struck = true;
    if (disk.error == 0)
        raise(SIGKILL);
    errno = disk.error;
    return true;
}

static void remember(struct tracked *t, sqlite3_file *file)
{
    sqlite3_int64 size = 0;
    free(t->synced.data);
    file->pMethods->xFileSize(file, &size);
    t->synced = (struct blob){ malloc((size_t)size + 1), (size_t)size };
    ck_assert_ptr_nonnull(t->synced.data);
    if (size)
        file->pMethods->xRead(file, t->synced.data, (int)size, 0);
    t->survives = true;
}

static int disk_close(sqlite3_file *f)
{
    return below(f)->pMethods->xClose(below(f));
}
static int disk_read(sqlite3_file *f, void *buf, int n, sqlite3_int64 off)
{
    return below(f)->pMethods->xRead(below(f), buf, n, off);
}
static int disk_write(sqlite3_file *f, const void *buf, int n, sqlite3_int64 off)
{
    if (strikes(OP_WRITE)) {
        below(f)->pMethods->xWrite(below(f), buf, n / 2, off); /* a short write comes before the error */
        ((struct disk_file *)f)->error = disk.error;
        return disk.error == ENOSPC ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    }
    return below(f)->pMethods->xWrite(below(f), buf, n, off);
}
static int disk_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    return strikes(OP_TRUNCATE) ? SQLITE_IOERR_TRUNCATE : below(f)->pMethods->xTruncate(below(f), size);
}
static int disk_sync(sqlite3_file *f, int flags)
{
    if (strikes(OP_SYNC))
        return SQLITE_IOERR_FSYNC;
    int rc = below(f)->pMethods->xSync(below(f), flags);
    if (rc == SQLITE_OK)
        remember(((struct disk_file *)f)->tracked, below(f));
    return rc;
}
static int disk_size(sqlite3_file *f, sqlite3_int64 *size)
{
    return below(f)->pMethods->xFileSize(below(f), size);
}
static int disk_lock(sqlite3_file *f, int level)
{
    return below(f)->pMethods->xLock(below(f), level);
}
static int disk_unlock(sqlite3_file *f, int level)
{
    return below(f)->pMethods->xUnlock(below(f), level);
}
static int disk_check_lock(sqlite3_file *f, int *ret)
{
    return below(f)->pMethods->xCheckReservedLock(below(f), ret);
}
static int disk_control(sqlite3_file *f, int op, void *arg)
{
    if (op == SQLITE_FCNTL_LAST_ERRNO && ((struct disk_file *)f)->error) {
        *(int *)arg = ((struct disk_file *)f)->error;
        return SQLITE_OK;
    }
    return below(f)->pMethods->xFileControl(below(f), op, arg);
}
static int disk_sector(sqlite3_file *f)
{
    return below(f)->pMethods->xSectorSize(below(f));
}
static int disk_device(sqlite3_file *f)
{
    return below(f)->pMethods->xDeviceCharacteristics(below(f));
}

static const sqlite3_io_methods disk_methods = {
    1,
    disk_close,
    disk_read,
    disk_write,
    disk_truncate,
    disk_sync,
    disk_size,
    disk_lock,
    disk_unlock,
    disk_check_lock,
    disk_control,
    disk_sector,
    disk_device,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
};

static struct tracked *track(const char *path)
{
    for (size_t i = 0; i < disk.count; i++)
        if (strcmp(disk.files[i].path, path) == 0)
            return &disk.files[i];
    ck_assert_uint_lt(disk.count, FILES_MAX);
    struct tracked *t = &disk.files[disk.count++];
    *t = (struct tracked){ .survives = exists(path) };
    snprintf(t->path, sizeof t->path, "%s", path);
    if (t->survives)
        t->synced = read_blob(path); /* it was closed before the power failed */
    return t;
}

static int disk_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *out)
{
    struct disk_file *f = (struct disk_file *)file;
    (void)vfs;
    f->below = (sqlite3_file *)(f + 1);
    f->error = 0;
    f->tracked = track(path ? path : "");
    int rc = disk.below->xOpen(disk.below, path, f->below, flags, out);
    f->base.pMethods = rc == SQLITE_OK ? &disk_methods : NULL;
    return rc;
}

static int disk_delete(sqlite3_vfs *vfs, const char *path, int sync)
{
    (void)vfs;
    if (strikes(OP_DELETE))
        return SQLITE_IOERR_DELETE;
    return disk.below->xDelete(disk.below, path, sync);
}

static void disk_insert(void)
{
    disk.below = sqlite3_vfs_find(NULL);
    disk.layer = *disk.below;
    disk.layer.zName = "failing-disk";
    disk.layer.szOsFile = (int)sizeof(struct disk_file) + disk.below->szOsFile;
    disk.layer.xOpen = disk_open;
    disk.layer.xDelete = disk_delete;
    ck_assert_int_eq(sqlite3_vfs_register(&disk.layer, 1), SQLITE_OK);
}

static void disk_remove(void)
{
    sqlite3_vfs_unregister(&disk.layer);
}

static void disk_forget(void)
{
    for (size_t i = 0; i < disk.count; i++)
        free(disk.files[i].synced.data);
    disk.count = 0;
}

/* From now on the AT-th operation fails. */
static void disk_fail(long at, bool once, unsigned on, int error)
{
    disk.ops = disk.chances = 0;
    disk.at = at;
    disk.once = once;
    disk.on = on;
    disk.error = error;
    disk.struck = false;
}

/* ---- work to be disturbed -------------------------------------------------------------------------- */

struct work {
    const char *dir;
    bool sync_full;
    int (*append)(struct commitlog *log, uint64_t n, struct errmsg *msg);
    void (*acked_fn)(uint64_t seq); /* told of each acknowledgement */
    uint64_t acked;                 /* rows that were acknowledged */
    uint64_t pending;               /* rows of the group whose append failed */
    bool epoch_set;                 /* acknowledged too */
    int error;                      /* the last */
};

static int acknowledge(struct work *w, struct commitlog *log, int r)
{
    if (r == 0) {
        w->acked = commitlog_meta(log)->last_seq;
        if (w->acked_fn)
            w->acked_fn(w->acked);
    }
    return r;
}

/* Append N rows; a refusal for want of room that was a passing one must pass. */
static int append_or_retry(struct work *w, struct commitlog *log, uint64_t n)
{
    struct errmsg msg = { "" };
    w->pending = n;
    int r = acknowledge(w, log, append_samples(log, n, &msg));
    if ((r == SKADE_EFULL || r == -ENOMEM) && disk.once)
        r = acknowledge(w, log, append_samples(log, n, &msg));
    if (r == 0)
        w->pending = 0;
    return r;
}

/* A failed log refuses all writes and touches nothing any more. */
static void must_be_dead(struct commitlog *log)
{
    long ops = disk.ops;
    ck_assert(commitlog_failed(log));
    ck_assert_int_eq(append_samples(log, 1, NULL), SKADE_EUNKNOWN);
    ck_assert_int_eq(commitlog_set_epoch(log, 9, true, NULL), SKADE_EUNKNOWN);
    ck_assert_int_eq(commitlog_checkpoint(log, true, NULL, NULL), SKADE_EUNKNOWN);
    commitlog_close(log);
    ck_assert_int_eq(disk.ops, ops);
}

static int do_work(struct work *w)
{
    struct commitlog_options opt = { .dir = w->dir, .sync_full = w->sync_full, .skip_check = true };
    struct commitlog *log;
    struct errmsg msg;

    w->error = commitlog_open(&log, &opt, &msg);
    if (w->error < 0)
        return w->error;
    int r = commitlog_set_epoch(log, 1, false, &msg);
    w->epoch_set = r == 0;
    for (uint64_t group = 1; r == 0 && group <= 6; group++) {
        r = append_or_retry(w, log, group * 4);
        if (r == 0 && group % 2 == 0)
            r = commitlog_checkpoint(log, group == 4, NULL, &msg);
        if (r == SKADE_EFULL) /* of the checkpoint: work goes on */
            r = w->pending ? r : 0;
    }
    w->error = r;
    if (r == SKADE_EUNKNOWN)
        must_be_dead(log);
    else
        commitlog_close(log);
    return r;
}

/* Without faults: everything acknowledged is there, and of the group that failed all or nothing. */
static void must_have_kept(const struct work *w)
{
    struct commitlog *log = must_open(w->dir);
    uint64_t n = commitlog_meta(log)->last_seq;
    must_hold(log, n);
    bool whole_group = w->error == SKADE_EUNKNOWN && n == w->acked + w->pending;
    ck_assert_msg(n == w->acked || whole_group,
                  "%llu acknowledged, %llu pending, error %s, but %llu are there",
                  (unsigned long long)w->acked, (unsigned long long)w->pending, error_name(w->error),
                  (unsigned long long)n);
    must_append(log, 3);
    commitlog_close(log);
    reopen_must_hold(w->dir, n + 3);
}

/* Disturb the work at its 1st, 2nd, ... operation until nothing is left to disturb. */
static void disturb_everywhere(bool once, unsigned on, int error, int allowed)
{
    long at = 1;
    for (bool struck = true; struck; at++) {
        struct work w = { .dir = scratch_path("log"), .sync_full = at % 2 };
        disk_fail(at, once, on, error);
        do_work(&w);
        struck = disk.struck;
        ck_assert_msg(w.error == 0 || w.error == allowed || w.acked == 0, "operation %ld: %s", at,
                      error_name(w.error));
        disk_fail(0, false, 0, 0);
        must_have_kept(&w);
        disk_forget();
    }
    ck_assert_int_gt(at, 15);
}

START_TEST(an_io_error_anywhere_loses_nothing_acknowledged)
{
    disk_insert();
    disturb_everywhere(true, OP_ALL, EIO, SKADE_EUNKNOWN);
    disturb_everywhere(false, OP_ALL, EIO, SKADE_EUNKNOWN);
    disk_remove();
}
END_TEST

START_TEST(a_failed_fsync_stops_the_log_though_the_next_would_succeed)
{
    disk_insert();
    disturb_everywhere(true, OP_SYNC, EIO, SKADE_EUNKNOWN);
    disk_remove();
}
END_TEST

START_TEST(a_refusal_of_bytes_anywhere_is_survived)
{
    static const int refusals[] = { ENOSPC, EDQUOT, EFBIG };
    disk_insert();
    for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
        disturb_everywhere(true, OP_WRITE, refusals[i], 0); /* a passing one isn't even noticed outside */
        disturb_everywhere(false, OP_WRITE, refusals[i], SKADE_EFULL);
    }
    disk_remove();
}
END_TEST

/* ---- power cuts ------------------------------------------------------------------------------------ */

static uint64_t dice;
static unsigned roll(unsigned sides)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(dice >> 33) % sides;
}

/* What the disk holds of T after the power cut: sectors as synced or as written since, the size
 * likewise. */
static void cut_file(const struct tracked *t)
{
    bool written = exists(t->path);
    struct blob now = written ? read_blob(t->path) : (struct blob){ calloc(1, 1), 0 };

    if ((!written || !t->survives) && roll(2) == 0) { /* its name, or its removal, was not durable */
        if (written)
            unlink(t->path);
        else if (t->survives)
            write_blob(t->path, &t->synced);
        free(now.data);
        return;
    }
    if (written) {
        size_t len = roll(2) ? now.len : t->synced.len;
        struct blob mix = { calloc(1, len + 1), len };
        for (size_t off = 0; off < len; off += SECTOR) {
            const struct blob *from = roll(3) ? &t->synced : &now;
            size_t n = len - off < SECTOR ? len - off : SECTOR;
            if (off < from->len)
                memcpy(mix.data + off, from->data + off, n < from->len - off ? n : from->len - off);
        }
        write_blob(t->path, &mix);
        free(mix.data);
    }
    free(now.data);
}

static void cut_power(void)
{
    for (size_t i = 0; i < disk.count; i++)
        if (disk.files[i].path[0])
            cut_file(&disk.files[i]);
}

/* Cut at every operation, several mixtures each; how often acknowledged rows were gone. */
static int cut_everywhere(bool sync_full)
{
    int lost = 0;
    bool struck = true;

    disk_insert();
    for (long at = 1; struck; at++)
        for (unsigned mixture = 0; mixture < 6; mixture++) {
            const char *dir = scratch_path("log");
            struct commitlog *log = must_open(dir); /* making a log has its own test */
            must_append(log, 5);
            commitlog_close(log);
            disk_forget();

            struct work w = { .dir = dir, .sync_full = sync_full, .acked = 5 };
            disk_fail(at, false, OP_ALL, EIO);
            do_work(&w);
            struck = disk.struck;
            disk_fail(0, false, 0, 0);
            dice = (uint64_t)at * 100 + mixture;
            cut_power();
            log = must_open(dir);
            uint64_t n = commitlog_meta(log)->last_seq;
            must_hold(log, n); /* never a hole, never another row */
            ck_assert(!w.epoch_set || commitlog_meta(log)->last_epoch == 1);
            ck_assert_uint_ge(n, 5);
            lost += n < w.acked;
            ck_assert_uint_le(n, w.acked + w.pending);
            must_append(log, 2);
            commitlog_close(log);
            reopen_must_hold(dir, n + 2);
            disk_forget();
        }
    disk_remove();
    return lost;
}

START_TEST(a_power_cut_anywhere_loses_nothing_acknowledged)
{
    ck_assert_int_eq(cut_everywhere(true), 0);
}
END_TEST

START_TEST(in_mode_normal_a_power_cut_takes_a_suffix_only)
{
    ck_assert_int_gt(cut_everywhere(false), 10); /* if it takes none, these cuts show nothing */
}
END_TEST

/* ---- kills ----------------------------------------------------------------------------------------- */

static int ack_pipe[2];

static void tell_parent(uint64_t seq)
{
    if (write(ack_pipe[1], &seq, sizeof seq) != sizeof seq)
        _exit(3);
}

/* The last acknowledgement in the pipe, when at most AT_MOST are read. */
static uint64_t read_acks(unsigned at_most)
{
    uint64_t seq, last = 0;
    while (at_most-- > 0 && read(ack_pipe[0], &seq, sizeof seq) == sizeof seq)
        last = seq;
    return last;
}

static int work_to_death(void *arg)
{
    struct work w = *(struct work *)arg;
    disk_insert();
    w.acked_fn = tell_parent;
    return do_work(&w) == 0 ? 0 : 2;
}

/* Kill a process at every operation; then another one at each of the first operations of its recovery. */
START_TEST(a_kill_at_any_write_or_sync_loses_nothing_acknowledged)
{
    int status = -SIGKILL;
    long at;

    for (at = 1; status == -SIGKILL; at++) {
        struct work w = { .dir = scratch_path("log"), .sync_full = at % 2 };
        ck_assert_int_eq(pipe2(ack_pipe, O_CLOEXEC), 0);
        disk_fail(at, false, OP_ALL, 0);
        status = in_child(work_to_death, &w);
        for (long again = 1; again <= 3; again++) {
            disk_fail(again, false, OP_ALL, 0);
            ck_assert_int_le(in_child(work_to_death, &w), 0);
        }
        close(ack_pipe[1]);
        w.acked = read_acks(1000);
        close(ack_pipe[0]);
        disk_fail(0, false, 0, 0);

        struct commitlog *log = must_open(w.dir);
        uint64_t n = commitlog_meta(log)->last_seq;
        must_hold(log, n);
        ck_assert_uint_ge(n, w.acked);
        ck_assert_uint_le(n, w.acked + 24); /* one unacknowledged group */
        commitlog_close(log);
        reopen_must_hold(w.dir, n);
    }
    ck_assert_int_eq(status, 0);
    ck_assert_int_gt(at, 40);
}
END_TEST

static int append_for_ever(void *dir)
{
    struct commitlog *log;
    struct errmsg msg;
    if (try_open(&log, dir, &msg) < 0)
        return 2;
    for (uint64_t i = 1;; i++) {
        if (append_samples(log, 1 + i % 5, &msg) < 0)
            return 3;
        tell_parent(commitlog_meta(log)->last_seq);
        if (i % 40 == 0 && commitlog_checkpoint(log, i % 80 == 0, NULL, &msg) < 0)
            return 4;
    }
}

START_TEST(kill_9_at_any_moment_loses_nothing_acknowledged)
{
    const char *dir = scratch_path("log");
    uint64_t before = 0;
    int rounds = getenv("SKADE_STRESS") ? 500 : 25;

    for (int i = 0; i < rounds; i++) {
        ck_assert_int_eq(pipe2(ack_pipe, O_CLOEXEC), 0);
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0)
            _exit(append_for_ever((void *)dir));
        close(ack_pipe[1]);
        uint64_t acked = read_acks(1 + (unsigned)(i * 37) % 200);
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        uint64_t rest = read_acks(100000);
        acked = rest > acked ? rest : acked;
        close(ack_pipe[0]);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        ck_assert_uint_gt(acked, before);
        struct commitlog *log = must_open(dir);
        before = commitlog_meta(log)->last_seq;
        ck_assert_uint_ge(before, acked);
        must_hold(log, before);
        commitlog_close(log);
    }
}
END_TEST

/* ---- full disks ------------------------------------------------------------------------------------ */

/* Append groups until there is no room.  How many rows are in the log. */
static uint64_t fill(struct commitlog *log)
{
    struct errmsg msg = { "" };
    int r;
    while ((r = append_samples(log, 20, &msg)) == 0)
        ck_assert_uint_lt(commitlog_meta(log)->last_seq, 1000000);
    ck_assert_msg(r == SKADE_EFULL, "%s: %s", error_name(r), msg.text);
    ck_assert_ptr_nonnull(strstr(msg.text, "skade.db"));
    ck_assert(!commitlog_failed(log));
    return commitlog_meta(log)->last_seq;
}

/* Full, still full, room, full again, opened while full, room. */
static void live_through_full(const char *dir, void (*take)(void *arg), void (*give)(void *arg), void *arg)
{
    struct commitlog *log = must_open(dir);
    take(arg);
    uint64_t n = fill(log);
    must_hold(log, n);
    ck_assert_int_eq(append_samples(log, 1000, NULL), SKADE_EFULL);
    must_hold(log, n);
    give(arg);
    must_append(log, 5);
    must_hold(log, n + 5);
    take(arg);
    n = fill(log);
    commitlog_close(log);
    log = must_open(dir);
    must_hold(log, n);
    n = fill(log); /* closing may have made a little room */
    must_hold(log, n);
    give(arg);
    must_append(log, 5);
    ck_assert_int_eq(commitlog_checkpoint(log, true, NULL, NULL), 0);
    commitlog_close(log);
    reopen_must_hold(dir, n + 5);
}

static void take_room(void *path)
{
    static char block[4096];
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    for (int i = 0; i < 128 && write(fd, block, sizeof block) == sizeof block; i++)
        ;
    close(fd);
}

static void give_room(void *path)
{
    ck_assert_int_eq(unlink(path), 0);
}

/* A small file system of our own, gone with this process.  False and a word about it where that isn't
 * allowed. */
static bool mount_small(const char *dir, const char *options, const char *test)
{
    mkdir(dir, 0700);
    if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount("tmpfs", dir, "tmpfs", 0, options) == 0)
        return true;
    printf("skipped: %s: can't mount a tmpfs (%m)\n", test);
    return false;
}

START_TEST(a_full_disk_refuses_commits_and_nothing_else)
{
    const char *mountpoint = scratch_path("small");
    if (mount_small(mountpoint, "size=2m,mode=700", "a_full_disk_refuses_commits_and_nothing_else"))
        live_through_full(path_in(mountpoint, "log"), take_room, give_room,
                          (void *)path_in(mountpoint, "ballast"));
}
END_TEST

START_TEST(a_log_on_a_read_only_disk_is_refused_but_can_be_checked)
{
    const char *mountpoint = scratch_path("small"), *dir = path_in(mountpoint, "log");
    struct commitlog *log;
    struct errmsg msg = { "" };
    if (!mount_small(mountpoint, "size=2m,mode=700",
                     "a_log_on_a_read_only_disk_is_refused_but_can_be_checked"))
        return;
    log = must_open(dir);
    must_append(log, 10);
    commitlog_close(log);
    ck_assert_int_eq(mount("none", mountpoint, "none", MS_REMOUNT | MS_RDONLY, NULL), 0);
    uint64_t before = fingerprint(dir);
    int r = try_open(&log, dir, &msg);
    ck_assert_msg(r == -EROFS && strstr(msg.text, dir), "%s: %s", error_name(r), msg.text);
    struct commitlog_meta meta;
    ck_assert_int_eq(commitlog_check_file(path_in(dir, "skade.db"), &meta, &msg),
                     0); /* reading needs no more */
    ck_assert_uint_eq(meta.last_seq, 10);
    ck_assert_uint_eq(fingerprint(dir), before);
    ck_assert_int_eq(mount("none", mountpoint, "none", MS_REMOUNT, NULL), 0);
    reopen_must_hold(dir, 10);
}
END_TEST

START_TEST(without_room_for_a_new_log_none_is_made)
{
    const char *mountpoint = scratch_path("small"), *dir = path_in(mountpoint, "log");
    struct commitlog *log = NULL;
    struct errmsg msg = { "" };
    if (!mount_small(mountpoint, "size=2m,nr_inodes=8,mode=700", "without_room_for_a_new_log_none_is_made"))
        return;
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    for (int i = 0; i < 8; i++) { /* bytes */
        take_room((void *)path_in(mountpoint, "ballast"));
    }
    ck_assert_int_eq(try_open(&log, dir, &msg), SKADE_EFULL);
    ck_assert_ptr_nonnull(strstr(msg.text, dir));
    ck_assert(!exists(path_in(dir, "skade.db")) && !exists(path_in(dir, "skade.db.new")));
    give_room((void *)path_in(mountpoint, "ballast"));
    int files = 0;
    for (; files < 8; files++) { /* inodes, but one for the file without its write-ahead log */
        char name[16];
        snprintf(name, sizeof name, "f%d", files);
        if (mknod(path_in(mountpoint, name), S_IFREG | 0600, 0) < 0)
            break;
    }
    ck_assert_int_eq(try_open(&log, dir, &msg), SKADE_EFULL);
    ck_assert_int_eq(unlink(path_in(mountpoint, "f0")), 0);
    ck_assert_int_eq(try_open(&log, dir, &msg), SKADE_EFULL);
    ck_assert(!exists(path_in(dir, "skade.db")) && !exists(path_in(dir, "skade.db.new")));
    ck_assert_int_eq(unlink(path_in(mountpoint, "f1")), 0);
    log = must_open(dir);
    must_append(log, 3);
    commitlog_close(log);
    reopen_must_hold(dir, 3);
}
END_TEST

static void take_limit(void *dir)
{
    struct rlimit limit;
    (void)dir;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 600000;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void give_limit(void *dir)
{
    struct rlimit limit;
    (void)dir;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

START_TEST(a_file_size_limit_is_like_a_full_disk)
{
    signal(SIGXFSZ, SIG_IGN);
    live_through_full(scratch_path("log"), take_limit, give_limit, NULL);
}
END_TEST

START_TEST(a_backup_without_room_fails_alone)
{
    signal(SIGXFSZ, SIG_IGN);
    const char *dir = scratch_path("log");
    struct commitlog *log = must_open(dir);
    struct commitlog_backup *backup;
    struct errmsg msg = { "" };
    uint64_t n = 0;

    while (commitlog_meta(log)->bytes < 1000000) {
        must_append(log, 1000);
        n += 1000;
        ck_assert_int_eq(commitlog_checkpoint(log, true, NULL, NULL), 0);
    }
    ck_assert_int_eq(commitlog_backup_begin(&backup, log, &msg), 0);
    take_limit(NULL);
    int r;
    while ((r = commitlog_backup_step(backup, 8, &msg)) == 1)
        ;
    ck_assert_msg(r == SKADE_EFULL, "%s: %s", error_name(r), msg.text);
    commitlog_backup_end(backup);
    ck_assert(!exists(path_in(dir, "skade.backup")));
    ck_assert_int_eq(commitlog_restore(scratch_path("log"), path_in(dir, "skade.db"), NULL, &msg),
                     SKADE_ERUNNING);
    must_append(log, 10);
    give_limit(NULL);
    commitlog_close(log);
    reopen_must_hold(dir, n + 10);

    const char *to = scratch_path("log");
    take_limit(NULL);
    ck_assert_int_eq(commitlog_restore(to, path_in(dir, "skade.db"), NULL, &msg), SKADE_EFULL);
    ck_assert(!exists(path_in(to, "skade.db")) && !exists(path_in(to, "skade.db.new")));
    give_limit(NULL);
    ck_assert_int_eq(commitlog_restore(to, path_in(dir, "skade.db"), NULL, &msg), 0);
    reopen_must_hold(to, n + 10);
}
END_TEST

/* ---- no memory ------------------------------------------------------------------------------------- */

static sqlite3_mem_methods real_memory;
static long allocations, fail_allocation;
static bool fail_once;

static bool no_memory(void)
{
    allocations++;
    return fail_allocation && (fail_once ? allocations == fail_allocation : allocations >= fail_allocation);
}
static void *failing_malloc(int n)
{
    return no_memory() ? NULL : real_memory.xMalloc(n);
}
static void *failing_realloc(void *p, int n)
{
    return no_memory() ? NULL : real_memory.xRealloc(p, n);
}

static void insert_failing_memory(void)
{
    sqlite3_shutdown();
    ck_assert_int_eq(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory), SQLITE_OK);
    sqlite3_mem_methods memory = real_memory;
    memory.xMalloc = failing_malloc;
    memory.xRealloc = failing_realloc;
    ck_assert_int_eq(sqlite3_config(SQLITE_CONFIG_MALLOC, &memory), SQLITE_OK);
    ck_assert_int_eq(sqlite3_initialize(), SQLITE_OK);
}

START_TEST(running_out_of_memory_anywhere_loses_nothing_acknowledged)
{
    long stride = getenv("SKADE_STRESS") ? 1 : 5, at = 1, failures = 0;

    insert_failing_memory();
    for (bool through = false; !through; at += stride) {
        struct work w = { .dir = scratch_path("log") };
        fail_allocation = at;
        fail_once = at % 2;
        allocations = 0;
        do_work(&w);
        through = allocations < at;
        failures += w.error != 0;
        fail_allocation = 0;
        must_have_kept(&w);
    }
    ck_assert_int_gt(failures, 20);
}
END_TEST

/* ---- fail points ----------------------------------------------------------------------------------- */

#ifdef SKADE_FAILPOINTS

static const char *points;

static void arm(const char *name, const char *what)
{
    if (!points) {
        points = scratch_path("points");
        ck_assert_int_eq(mkdir(points, 0700), 0);
        setenv("SKADE_FAILPOINT_DIR", points, 1);
    }
    write_blob(path_in(points, name), &(struct blob){ (unsigned char *)what, strlen(what) });
}

static void disarm(const char *name)
{
    ck_assert_int_eq(unlink(path_in(points, name)), 0);
}

static const char *const before_commit[] = { "log.begin", "log.insert", "log.commit" };

START_TEST(a_simulated_full_disk_refuses_the_group_and_passes)
{
    const char *dir = scratch_path("log");
    struct commitlog *log = must_open(dir);
    uint64_t n = 4;
    must_append(log, n);
    for (size_t i = 0; i < ARRAY_SIZE(before_commit); i++) {
        arm(before_commit[i], i == 1 ? "count 3 fail 28" : "fail 28");
        ck_assert_int_eq(append_samples(log, 7, NULL), SKADE_EFULL);
        disarm(before_commit[i]);
        must_hold(log, n);
        must_append(log, 7);
        must_hold(log, n += 7);
    }
    arm("log.checkpoint", "fail 28");
    ck_assert_int_eq(commitlog_checkpoint(log, false, NULL, NULL), SKADE_EFULL);
    disarm("log.checkpoint");
    ck_assert_int_eq(commitlog_checkpoint(log, false, NULL, NULL), 0);
    commitlog_close(log);
    reopen_must_hold(dir, n);
}
END_TEST

START_TEST(a_simulated_io_error_stops_the_log_and_the_group_is_not_there)
{
    for (size_t i = 0; i < ARRAY_SIZE(before_commit); i++) {
        const char *dir = scratch_path("log");
        struct commitlog *log = must_open(dir);
        must_append(log, 4);
        arm(before_commit[i], i == 1 ? "count 3 fail 5" : "fail 5");
        ck_assert_int_eq(append_samples(log, 7, NULL), SKADE_EUNKNOWN);
        disarm(before_commit[i]);
        must_hold(log, 4);
        must_be_dead(log);
        reopen_must_hold(dir, 4);
    }
}
END_TEST

START_TEST(an_error_after_the_commit_is_unknown_and_the_group_is_there)
{
    const char *dir = scratch_path("log");
    struct commitlog *log = must_open(dir);
    must_append(log, 4);
    arm("log.committed", "fail 5");
    ck_assert_int_eq(append_samples(log, 7, NULL), SKADE_EUNKNOWN);
    disarm("log.committed");
    must_hold(log, 4); /* this process was not told of them */
    must_be_dead(log);
    reopen_must_hold(dir, 11);
}
END_TEST

START_TEST(a_failed_checkpoint_stops_the_log_and_loses_nothing)
{
    const char *dir = scratch_path("log");
    struct commitlog *log = must_open(dir);
    must_append(log, 4);
    arm("log.checkpoint", "fail 5");
    ck_assert_int_eq(commitlog_checkpoint(log, true, NULL, NULL), SKADE_EUNKNOWN);
    disarm("log.checkpoint");
    must_be_dead(log);
    reopen_must_hold(dir, 4);
}
END_TEST

START_TEST(a_simulated_error_of_a_backup_leaves_the_log_alone)
{
    const char *dir = scratch_path("log");
    struct commitlog *log = must_open(dir);
    struct commitlog_backup *backup;
    must_append(log, 4);
    ck_assert_int_eq(commitlog_backup_begin(&backup, log, NULL), 0);
    arm("log.backup", "fail 5");
    ck_assert_int_lt(commitlog_backup_step(backup, 1, NULL), 0);
    disarm("log.backup");
    commitlog_backup_end(backup);
    must_append(log, 1);
    commitlog_close(log);
    reopen_must_hold(dir, 5);
}
END_TEST

static int append_seven(void *dir)
{
    struct commitlog *log;
    struct errmsg msg;
    return try_open(&log, dir, &msg) == 0 && append_samples(log, 7, &msg) == 0 ? 0 : 2;
}

START_TEST(a_kill_at_a_fail_point_leaves_all_of_the_group_or_nothing)
{
    static const struct {
        const char *name, *what;
        uint64_t kept;
    } kills[] = {
        { "log.begin", "count 1 kill", 0 },  { "log.insert", "count 3 kill", 0 },
        { "log.commit", "count 1 kill", 0 }, { "log.committed", "count 1 kill", 7 },
        { "log.committed", "kill", 0 },      { "log.checkpoint", "kill", 0 },
    };
    for (size_t i = 0; i < ARRAY_SIZE(kills); i++) {
        const char *dir = scratch_path("log");
        arm(kills[i].name, kills[i].what);
        ck_assert_int_eq(in_child(append_seven, (void *)dir), -SIGKILL);
        disarm(kills[i].name);
        reopen_must_hold(dir, kills[i].kept);
    }
}
END_TEST

#endif

Suite *commitlog_faults_suite(void)
{
    Suite *s = suite_create("commitlog_faults");
#define CASE(name)                                                      \
    name = tcase_create(#name);                                         \
    tcase_set_timeout(name, 600);                                       \
    tcase_add_unchecked_fixture(name, scratch_setup, scratch_teardown); \
    suite_add_tcase(s, name)
    TCase *CASE(errors);
    tcase_add_test(errors, an_io_error_anywhere_loses_nothing_acknowledged);
    tcase_add_test(errors, a_failed_fsync_stops_the_log_though_the_next_would_succeed);
    tcase_add_test(errors, a_refusal_of_bytes_anywhere_is_survived);
    tcase_add_test(errors, running_out_of_memory_anywhere_loses_nothing_acknowledged);

    TCase *CASE(crashes);
    tcase_add_test(crashes, a_power_cut_anywhere_loses_nothing_acknowledged);
    tcase_add_test(crashes, in_mode_normal_a_power_cut_takes_a_suffix_only);
    tcase_add_test(crashes, a_kill_at_any_write_or_sync_loses_nothing_acknowledged);
    tcase_add_test(crashes, kill_9_at_any_moment_loses_nothing_acknowledged);

    TCase *CASE(full);
    tcase_add_test(full, a_full_disk_refuses_commits_and_nothing_else);
    tcase_add_test(full, a_log_on_a_read_only_disk_is_refused_but_can_be_checked);
    tcase_add_test(full, without_room_for_a_new_log_none_is_made);
    tcase_add_test(full, a_file_size_limit_is_like_a_full_disk);
    tcase_add_test(full, a_backup_without_room_fails_alone);

#ifdef SKADE_FAILPOINTS
    TCase *CASE(failpoints);
    tcase_add_test(failpoints, a_simulated_full_disk_refuses_the_group_and_passes);
    tcase_add_test(failpoints, a_simulated_io_error_stops_the_log_and_the_group_is_not_there);
    tcase_add_test(failpoints, an_error_after_the_commit_is_unknown_and_the_group_is_there);
    tcase_add_test(failpoints, a_failed_checkpoint_stops_the_log_and_loses_nothing);
    tcase_add_test(failpoints, a_simulated_error_of_a_backup_leaves_the_log_alone);
    tcase_add_test(failpoints, a_kill_at_a_fail_point_leaves_all_of_the_group_or_nothing);
#endif
    return s;
}
