#include "commitlog_fixture.h"

#include "checksum.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char base[128];

void scratch_setup(void)
{
    /* In memory if there is any: thousands of fsyncs cost nothing there, and no test depends on a
     * disk's. */
    const char *tmp = getenv("TMPDIR");
    if (!tmp || !*tmp)
        tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(base, sizeof base, "%s/skade-commitlog-XXXXXX", tmp);
    if (!mkdtemp(base)) {
        perror(base);
        exit(1);
    }
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    remove(path); /* what can't be removed stays, and is no failure of a test */
    return 0;
}

void scratch_teardown(void)
{
    nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* All paths that were lent, so that a leak checker sees that they are not lost. */
static struct kept {
    struct kept *next;
    char path[];
} * kept;

const char *path_in(const char *dir, const char *name)
{
    struct kept *k = malloc(sizeof *k + strlen(dir) + strlen(name) + 2);
    ck_assert_ptr_nonnull(k);
    sprintf(k->path, "%s/%s", dir, name);
    k->next = kept;
    kept = k;
    return k->path;
}

const char *scratch_path(const char *name)
{
    char dir[sizeof base + 8];
    sprintf(dir, "%s/XXXXXX", base);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    return path_in(dir, name);
}

/* ---- samples --------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t n)
{
    return checksum(&n, sizeof n, 42);
}

void make_sample(struct sample *s, uint64_t seq)
{
    uint64_t r = mix(seq), tail = mix(r);
    int len = 0, len2 = 0;

    if (seq % 7 != 3)
        len = snprintf(s->text, sizeof s->text, "file:///w/t%u/%05llu-%08llx.json", (unsigned)(r % 3),
                       (unsigned long long)seq, (unsigned long long)(r >> 32));
    if (seq % 5 == 0)
        len2 = snprintf(s->text2, sizeof s->text2, "name%llu%c", (unsigned long long)seq, 0);
    s->event = (struct event){
        .seq = seq,
        .kind = 1 + (uint32_t)(r % (EVENT_KIND_END - 1)),
        .flags = (uint32_t)(r >> 8) & EVENT_FLAGS,
        .table = 1 + (uint32_t)(r >> 40),
        .snapshot = (int64_t)tail,
        .time_us = seq % 4 == 0 ? -(int64_t)(r >> 20) : (int64_t)(r >> 20),
        .watermark = seq % 3 ? 0 : seq - 1,
        .text = { s->text, (size_t)len },
        .text2 = { s->text2, (size_t)len2 },
    };
    memcpy(s->event.uuid.b, &r, 8);
    memcpy(s->event.uuid.b + 8, &tail, 8);
}

bool is_sample(const struct event *e)
{
    struct sample s;
    make_sample(&s, e->seq);
    const struct event *w = &s.event;
    return e->kind == w->kind && e->flags == w->flags && e->table == w->table && e->snapshot == w->snapshot &&
           e->time_us == w->time_us && e->watermark == w->watermark && uuid_equal(&e->uuid, &w->uuid) &&
           bytes_equal(e->text, w->text) && bytes_equal(e->text2, w->text2);
}

/* ---- logs ------------------------------------------------------------------------------------------ */

int try_open(struct commitlog **ret, const char *dir, struct errmsg *msg)
{
    struct commitlog_options opt = { .dir = dir, .sync_full = true, .skip_check = true };
    return commitlog_open(ret, &opt, msg);
}

struct commitlog *must_open_with(struct commitlog_options opt)
{
    struct errmsg msg = { "" };
    struct commitlog *log = NULL;
    int r = commitlog_open(&log, &opt, &msg);
    ck_assert_msg(r == 0, "open: %s: %s", error_name(r), msg.text);
    return log;
}

struct commitlog *must_open(const char *dir)
{
    return must_open_with((struct commitlog_options){ .dir = dir, .sync_full = true });
}

int append_samples(struct commitlog *log, uint64_t n, struct errmsg *msg)
{
    struct sample *samples = calloc(n, sizeof *samples);
    struct event *events = calloc(n, sizeof *events);
    uint64_t next = commitlog_meta(log)->last_seq + 1;

    ck_assert(samples && events);
    for (uint64_t i = 0; i < n; i++) {
        make_sample(&samples[i], next + i);
        events[i] = samples[i].event;
    }
    int r = commitlog_append(log, events, n, msg);
    free(samples);
    free(events);
    return r;
}

void must_append(struct commitlog *log, uint64_t n)
{
    struct errmsg msg = { "" };
    int r = append_samples(log, n, &msg);
    ck_assert_msg(r == 0, "append: %s: %s", error_name(r), msg.text);
}

static int count_one(void *arg, const struct event *e, uint64_t chain)
{
    uint64_t *n = arg;
    (void)chain;
    if (e->seq != *n + 1 || !is_sample(e))
        return -EPROTO;
    *n = e->seq;
    return 0;
}

uint64_t count_samples(struct commitlog *log, int *error, struct errmsg *msg)
{
    struct commitlog_cursor cursor = commitlog_start(commitlog_meta(log));
    uint64_t n = 0;
    int r = commitlog_read(log, &cursor, SIZE_MAX, SIZE_MAX, count_one, &n, msg);

    ck_assert_msg(r != -EPROTO, "the log gives another row for %llu", (unsigned long long)n + 1);
    ck_assert_int_le(r, 0);
    *error = r;
    return n;
}

void must_hold(struct commitlog *log, uint64_t n)
{
    struct errmsg msg = { "" };
    int error;
    uint64_t count = count_samples(log, &error, &msg);
    ck_assert_msg(error == 0, "read: %s: %s", error_name(error), msg.text);
    ck_assert_uint_eq(count, n);
    ck_assert_uint_eq(commitlog_meta(log)->last_seq, n);
}

void reopen_must_hold(const char *dir, uint64_t n)
{
    struct commitlog *log = must_open_with((struct commitlog_options){ .dir = dir });
    must_hold(log, n);
    commitlog_close(log);
}

/* ---- files ----------------------------------------------------------------------------------------- */

struct blob read_blob(const char *path)
{
    struct blob b = { NULL, 0 };
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    ck_assert_msg(fd >= 0 && fstat(fd, &st) == 0, "%s: %m", path);
    b.len = (size_t)st.st_size;
    b.data = malloc(b.len + 1);
    ck_assert_ptr_nonnull(b.data);
    ck_assert_int_eq(read(fd, b.data, b.len), (ssize_t)b.len);
    close(fd);
    return b;
}

void write_blob(const char *path, const struct blob *b)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_msg(fd >= 0, "%s: %m", path);
    ck_assert_int_eq(write(fd, b->data, b->len), (ssize_t)b->len);
    close(fd);
}

void copy_to(const char *from, const char *to)
{
    struct blob b = read_blob(from);
    write_blob(to, &b);
    free(b.data);
}

bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static sqlite3 *raw_open(const char *path)
{
    sqlite3 *db;
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

void raw_sql(const char *path, const char *sql)
{
    char *why = NULL;
    sqlite3 *db = raw_open(path);
    int rc = sqlite3_exec(db, sql, NULL, NULL, &why);
    ck_assert_msg(rc == SQLITE_OK, "%s: %s", sql, why);
    ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
    chmod(path, 0600);
}

int64_t raw_number(const char *path, const char *sql)
{
    sqlite3_stmt *s;
    sqlite3 *db = raw_open(path);
    ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(s), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return n;
}

static uint64_t fingerprint_file(const char *path, const char *name, uint64_t sum)
{
    struct stat st;

    ck_assert_int_eq(lstat(path, &st), 0);
    sum = checksum(name, strlen(name), sum);
    sum = checksum(&st.st_mode, sizeof st.st_mode, sum);
    if (S_ISREG(st.st_mode)) {
        struct blob b = read_blob(path);
        sum = checksum(b.data, b.len, sum);
        free(b.data);
    }
    return sum;
}

uint64_t fingerprint(const char *dir)
{
    struct dirent **entries;
    uint64_t sum = 0;
    int n = scandir(dir, &entries, NULL, alphasort);

    ck_assert_msg(n >= 2, "%s: %m", dir);
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.') {
            sum = fingerprint_file(path_in(dir, entries[i]->d_name), entries[i]->d_name, sum);
        }
        free(entries[i]);
    }
    free(entries);
    return sum;
}

int in_child(int (*fn)(void *arg), void *arg)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        _exit(fn(arg));
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}
