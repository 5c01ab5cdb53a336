#include "publisher_fixture.h"

#include "part.h"
#include "root.h"
#include "tempdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct publisher_options options;
struct errmsg msg;

/* ---- the place ----------------------------------------------------------------------------------------- */

void use_place(const char *dir)
{
    options = (struct publisher_options){ .mode = 0444, .group = (gid_t)-1, .log = { { 4, 2 } }, .seed = 17 };
    options.place.uid = geteuid();
    snprintf(options.place.instance, sizeof options.place.instance, "test");
    snprintf(options.place.dir, sizeof options.place.dir, "%s", dir);
}

void fresh_place(void)
{
    use_place(tempdir());
}

const char *in_place(const char *name)
{
    static char paths[4][512];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", options.place.dir, name);
    return path;
}

const char *shm_path(enum shm_kind kind, uint64_t epoch, uint64_t generation)
{
    char name[SHM_NAME_MAX];
    return in_place(shm_name(name, &options.place, kind, epoch, generation));
}

unsigned count_names(void)
{
    unsigned n = 0;
    DIR *dir = opendir(options.place.dir);
    ck_assert_ptr_nonnull(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 2; /* . and .. */
}

bool place_has(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

unsigned count_descriptors(void)
{
    unsigned n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* ---- daemons ------------------------------------------------------------------------------------------- */

struct publisher *start(void)
{
    struct publisher *p = NULL;
    ck_assert_msg(publisher_open(&p, &options, &msg) == 0, "%s", msg.text);
    return p;
}

static int fill_root(void *arg, void *buf, size_t size)
{
    return root_fill(arg, buf, size);
}

/* A root of TABLES tables with a name each; free both arrays. */
static struct root_input root_of(uint32_t tables)
{
    static char names[100000][12];
    struct root_table *rows = calloc(tables + 1, sizeof *rows);
    struct root_name_row *named = calloc(tables + 1, sizeof *named);

    ck_assert_uint_le(tables, 100000);
    for (uint32_t i = 0; i < tables; i++) {
        snprintf(names[i], sizeof names[i], "t%u", i % 1000000);
        rows[i] = (struct root_table){ .created_seq = i + 1, .dropped_seq = SEQ_MAX, .kind = TABLE_EXTERNAL };
        named[i] = (struct root_name_row){ bytes_of(names[i]), i + 1, SEQ_MAX, i + 1 };
    }
    return (struct root_input){ .log = options.log,
                                .seed = options.seed,
                                .names_seq = tables,
                                .tables = rows,
                                .tables_count = tables,
                                .names = named,
                                .names_count = tables };
}

static void free_root(struct root_input *in)
{
    free((void *)in->tables);
    free((void *)in->names);
}

uint64_t root_bytes(uint32_t tables)
{
    struct root_input in = root_of(tables);
    uint64_t size = root_size(&in);
    free_root(&in);
    return size;
}

int try_root(struct publisher *p, uint64_t generation, uint64_t epoch, uint32_t tables)
{
    struct root_input in = root_of(tables);
    struct segmap map = { .size = 42 };

    in.epoch = epoch;
    in.generation = generation;
    int r = publisher_write(p, SHM_ROOT, generation, root_size(&in), fill_root, &in, &map, &msg);
    if (r == 0) {
        ck_assert_uint_eq(map.size, root_size(&in));
        segmap_close(&map);
    } else {
        ck_assert_uint_eq(map.size, 42); /* untouched */
    }
    free_root(&in);
    return r;
}

void write_root(struct publisher *p, uint64_t generation)
{
    ck_assert_msg(try_root(p, generation, publisher_epoch(p), 3) == 0, "%s", msg.text);
}

static int fill_part(void *arg, void *buf, size_t size)
{
    return part_plan_fill(arg, buf, size);
}

void write_part(struct publisher *p, uint64_t generation, uint64_t from_seq, uint64_t to_seq)
{
    struct part_info info = { options.log, options.seed, publisher_epoch(p), generation, from_seq, to_seq };
    struct event event = { .seq = from_seq + 1,
                           .kind = EVENT_COMMIT,
                           .flags = EVENT_INTRODUCES | EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT,
                           .table = 1,
                           .snapshot = (int64_t)generation,
                           .text = bytes_of("file:///1.json") };
    const struct event *events[] = { &event };
    struct part_plan *plan;
    struct segmap map;

    ck_assert_int_eq(part_plan_rows(&plan, &info, events, 1), 0);
    int r = publisher_write(p, SHM_PART, generation, part_plan_size(plan), fill_part, plan, &map, &msg);
    ck_assert_msg(r == 0, "%s", msg.text);
    segmap_close(&map);
    part_plan_free(plan);
}

struct publisher_takeover take_over(struct publisher *p, uint64_t generation, uint64_t last_epoch)
{
    struct publisher_takeover t;
    ck_assert_msg(publisher_take_over(p, generation, 100 + generation, last_epoch, &t, &msg) == 0, "%s",
                  msg.text);
    return t;
}

struct control attach(void)
{
    struct control c;
    ck_assert_msg(control_open(&c, &options.place, &msg) == 0, "%s", msg.text);
    return c;
}

/* ---- strangers ----------------------------------------------------------------------------------------- */

void put_file(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    ck_assert_msg(fd >= 0, "%s", path);
    ck_assert_int_eq(write(fd, data, len), (ssize_t)len);
    close(fd);
}

bool squat(enum squatter what, const char *path)
{
    switch (what) {
    case SQUAT_FIFO:
        ck_assert_int_eq(mkfifo(path, 0666), 0);
        return true;
    case SQUAT_DIRECTORY:
        ck_assert_int_eq(mkdir(path, 0700), 0);
        return true;
    case SQUAT_SYMLINK:
        ck_assert_int_eq(symlink("precious", path), 0);
        return true;
    default:
        if (geteuid() != 0)
            return false;
        put_file(path, "stranger", 8);
        ck_assert_int_eq(chown(path, STRANGER, STRANGER), 0);
        return true;
    }
}

bool squats(enum squatter what, const char *path)
{
    static const mode_t types[] = { S_IFIFO, S_IFDIR, S_IFLNK, S_IFREG };
    struct stat st;
    return lstat(path, &st) == 0 && (st.st_mode & S_IFMT) == types[what] &&
           (what != SQUAT_STRANGER || (st.st_uid == STRANGER && st.st_size == 8));
}

void unsquat(const char *path)
{
    ck_assert_int_eq(remove(path), 0);
}

/* ---- fail points --------------------------------------------------------------------------------------- */

static const char *failpoint_dir(void)
{
    static const char *dir;
    if (!dir) {
        dir = tempdir_on_disk();
        setenv("SKADE_FAILPOINT_DIR", dir, 1);
    }
    return dir;
}

const char *failpoint_path(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", failpoint_dir(), name);
    return path;
}

void at_failpoint(const char *name, const char *what)
{
    unlink(failpoint_path(name));
    if (what)
        put_file(failpoint_path(name), what, strlen(what));
}

bool has_failpoints(void)
{
#ifdef SKADE_FAILPOINTS
    return true;
#else
    printf("skipped: built without fail points\n");
    return false;
#endif
}

/* ---- processes ----------------------------------------------------------------------------------------- */

int wait_child(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        ck_assert_int_eq(errno, EINTR);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int run_in_child(int (*fn)(void *), void *arg)
{
    fflush(NULL);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        _exit(fn(arg));
    return wait_child(pid);
}

bool become_stranger(void)
{
    return setgroups(0, NULL) == 0 && setresgid(STRANGER, STRANGER, STRANGER) == 0 &&
           setresuid(STRANGER, STRANGER, STRANGER) == 0;
}
