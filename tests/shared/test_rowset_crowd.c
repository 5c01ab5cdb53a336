/*
 * Writers of .entries files, a compactor and readers of row sets, all in threads of one process: what libskadeclient and
 * skaded do with the same sources, without the socket between them, so that ThreadSanitizer sees both sides.
 *
 * Commit n of writer w is a row without key "w n" and the keys wW.count and wW.twin, both n: so a set must have the rows
 * 1..n of each writer, in order, and both keys with the same n.
 */
#include "manifest.h"
#include "quick.h"
#include "rows_writer.h"
#include "rowset.h"
#include "tempdir.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WRITERS 2
#define READERS 3
#define PARTS 2
#define TABLE 7

static const struct uuid log_uuid = { "the log's uuid." };
static const char *dir;
static int dirfd;

/* The list of files that the log would be: taken and changed under the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rowset_file *list;
static size_t list_count;
static uint64_t last_seq;
static uint64_t durable[WRITERS]; /* commits in the list */

static atomic_uint next_name, writing;
static _Atomic uint64_t scans, compactions, gets, gone;

/* CALL must go well, in a thread with a message of its own. */
#define fine(msg, call)                               \
    do {                                              \
        int fine_ = (call);                           \
        ck_assert_msg(fine_ >= 0, "%s", (msg)->text); \
    } while (0)

static struct uuid make_uuid(void)
{
    struct uuid uuid = { { 0xcd } };
    uint32_t n = 1 + atomic_fetch_add(&next_name, 1);

    memcpy(uuid.b + 8, &n, sizeof n);
    return uuid;
}

static int make_unnamed(void)
{
    int fd = openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static void give_name(int fd, enum entry_name kind, const struct uuid *uuid, uint32_t part)
{
    char name[ENTRY_NAME_MAX], self[64];

    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    entry_name(name, kind, uuid, part);
    ck_assert_int_eq(linkat(AT_FDCWD, self, dirfd, name, AT_SYMLINK_FOLLOW), 0);
    close(fd);
}

static char *path_of(enum entry_name kind, const struct uuid *uuid)
{
    char name[ENTRY_NAME_MAX], *path;

    ck_assert_int_gt(asprintf(&path, "%s/%s", dir, entry_name(name, kind, uuid, 0)), 0);
    return path;
}

/* ---- writers ---------------------------------------------------------------------------------------------------- */

static void put(struct entry_writer *w, const char *key, const char *value)
{
    struct errmsg msg = { "" };

    fine(&msg, entry_begin(w, key ? ENTRY_KEYED : 0, bytes_of(key ? key : ""), &msg));
    fine(&msg, entry_piece(w, value, strlen(value), &msg));
    fine(&msg, entry_end(w, &msg));
}

static void put_commit(struct entry_writer *w, unsigned who, uint64_t n)
{
    char value[32], key[32];

    snprintf(value, sizeof value, "%u %llu", who, (unsigned long long)n);
    put(w, NULL, value);
    snprintf(value, sizeof value, "%llu", (unsigned long long)n);
    snprintf(key, sizeof key, "w%u.count", who);
    put(w, key, value);
    snprintf(key, sizeof key, "w%u.twin", who);
    put(w, key, value);
}

static void append_to_list(unsigned who, const struct uuid *uuid)
{
    pthread_mutex_lock(&lock);
    list = realloc(list, (list_count + 1) * sizeof *list);
    last_seq++;
    list[list_count++] = (struct rowset_file){ .path = path_of(NAME_ENTRIES, uuid),
                                               .seq = last_seq,
                                               .time_us = (int64_t)last_seq };
    durable[who]++;
    pthread_mutex_unlock(&lock);
}

static void commit(unsigned who, uint64_t n)
{
    struct errmsg msg = { "" };
    struct entry_writer *w;
    struct entry_sum sum;
    struct entry_writer_options o = {
        .log = log_uuid, .uuid = make_uuid(), .table = TABLE, .memory = 1 << 16, .temp_dir = dirfd
    };
    int fd = make_unnamed();

    fine(&msg, entry_writer_open(&w, fd, &o, &msg));
    put_commit(w, who, n);
    fine(&msg, entry_writer_seal(w, &sum, &msg));
    entry_writer_close(w);
    give_name(fd, NAME_ENTRIES, &o.uuid, 0);
    append_to_list(who, &o.uuid);
}

/* The others keep up: not more than so many files. */
static void wait_for_room(void)
{
    for (size_t count = SIZE_MAX; count > 64; sched_yield()) {
        pthread_mutex_lock(&lock);
        count = list_count;
        pthread_mutex_unlock(&lock);
    }
}

/* So many, and until readers and the compactor had their turns beside it. */
static void *write_all(void *arg)
{
    unsigned who = *(unsigned *)arg;
    uint64_t commits = getenv("SKADE_STRESS") ? 5000 : 400;

    for (uint64_t n = 1; n <= commits || atomic_load(&scans) < 50 || atomic_load(&compactions) < 5; n++) {
        wait_for_room();
        commit(who, n);
    }
    atomic_fetch_sub(&writing, 1);
    return NULL;
}

/* ---- a look at the list ------------------------------------------------------------------------------------------- */

struct look {
    struct rowset_file *files;
    size_t count;
    uint64_t durable[WRITERS];
};

static struct look take_look(void)
{
    struct look l = { 0 };

    pthread_mutex_lock(&lock);
    l.files = malloc((list_count + 1) * sizeof *l.files);
    l.count = list_count;
    for (size_t i = 0; i < list_count; i++) {
        l.files[i] = list[i];
        l.files[i].path = strdup(list[i].path);
    }
    memcpy(l.durable, durable, sizeof durable);
    pthread_mutex_unlock(&lock);
    return l;
}

static void look_fini(struct look *l)
{
    for (size_t i = 0; i < l->count; i++)
        free((char *)l->files[i].path);
    free(l->files);
}

/* Nothing leases files here: what a compaction replaced may be gone.  Then NULL. */
static struct rowset *open_set(const struct look *l, size_t memory)
{
    struct rowset_options o = {
        .log = log_uuid, .table = TABLE, .owner = getuid(), .memory = memory, .temp_dir = dir
    };
    struct errmsg msg = { "" };
    struct rowset *set = NULL;

    int r = rowset_open(&set, l->files, l->count, &o, &msg);
    if (r == 0)
        r = rowset_prepare(set, &msg);
    if (r == SKADE_EEXPIRED) {
        atomic_fetch_add(&gone, 1);
        rowset_close(set);
        return NULL;
    }
    ck_assert_msg(r == 0, "%s", msg.text);
    return set;
}

/* ---- readers ------------------------------------------------------------------------------------------------------ */

struct seen {
    uint64_t unkeyed, first, last, count, twin;
};

struct part {
    struct rowset *set;
    unsigned number;
    struct seen seen[WRITERS];
    bool gone;
    pthread_t thread;
};

static uint64_t number_in(const char *text, size_t len)
{
    char copy[32] = "";

    ck_assert_uint_lt(len, sizeof copy);
    memcpy(copy, text, len);
    return strtoull(copy, NULL, 10);
}

static void see(struct seen *seen, const struct row *row)
{
    if (!(row->flags & ROW_KEYED)) {
        struct seen *of = &seen[row->value[0] - '0'];
        uint64_t n = number_in(row->value + 2, row->value_len - 2);
        ck_assert(of->unkeyed == 0 || n == of->last + 1);
        of->first = of->unkeyed++ ? of->first : n;
        of->last = n;
        return;
    }
    struct seen *of = &seen[row->key.data[1] - '0'];
    uint64_t *place = row->key.data[3] == 'c' ? &of->count : &of->twin;
    ck_assert_uint_eq(*place, 0);
    *place = number_in(row->value, row->value_len);
}

static void *read_part(void *arg)
{
    struct part *p = arg;
    struct errmsg msg = { "" };
    struct rowset_cursor *c;
    struct row row;
    int r = rowset_cursor_open(&c, p->set, OLDEST_FIRST, p->number, PARTS, &msg);

    ck_assert_msg(r == 0, "%s", msg.text);
    while ((r = rowset_next(c, &row, &msg)) == 1)
        see(p->seen, &row);
    rowset_cursor_close(c);
    ck_assert_msg(r == 0 || r == SKADE_EEXPIRED, "%s", msg.text);
    p->gone = r != 0;
    return NULL;
}

static void judge(const struct part *parts, const struct look *l)
{
    for (unsigned w = 0; w < WRITERS; w++) {
        uint64_t unkeyed = 0, count = 0, twin = 0, last = 0;
        for (unsigned i = 0; i < PARTS; i++) {
            const struct seen *seen = &parts[i].seen[w];
            ck_assert(seen->unkeyed == 0 || seen->first == last + 1);
            last = seen->unkeyed ? seen->last : last;
            unkeyed += seen->unkeyed;
            count += seen->count;
            twin += seen->twin;
        }
        ck_assert_uint_eq(unkeyed, l->durable[w]);
        ck_assert_uint_eq(count, l->durable[w]);
        ck_assert_uint_eq(twin, l->durable[w]);
    }
}

/* The value of a key that the set has, or 0: its file is gone. */
static void get_both(struct rowset *set, const struct look *l)
{
    struct errmsg msg = { "" };
    struct row row;
    char key[32];

    for (unsigned w = 0; w < WRITERS; w++) {
        snprintf(key, sizeof key, "w%u.count", w);
        int r = rowset_get(set, bytes_of(key), &row, &msg);
        if (r == SKADE_EEXPIRED)
            return;
        ck_assert_msg(r >= 0, "%s", msg.text);
        ck_assert_uint_eq(r == 0 ? 0 : number_in(row.value, row.value_len), l->durable[w]);
        atomic_fetch_add(&gets, 1);
    }
}

static void read_once(size_t memory)
{
    struct look l = take_look();
    struct rowset *set = open_set(&l, memory);
    struct part parts[PARTS] = { { 0 } };
    bool all = set != NULL;

    for (unsigned i = 0; set && i < PARTS; i++) {
        parts[i] = (struct part){ .set = set, .number = i };
        ck_assert_int_eq(pthread_create(&parts[i].thread, NULL, read_part, &parts[i]), 0);
    }
    if (set)
        get_both(set, &l); /* the one finder, beside the cursors */
    for (unsigned i = 0; set && i < PARTS; i++) {
        pthread_join(parts[i].thread, NULL);
        all &= !parts[i].gone;
    }
    if (all) {
        judge(parts, &l);
        atomic_fetch_add(&scans, 1);
    }
    rowset_close(set);
    look_fini(&l);
}

static void *read_all(void *arg)
{
    while (atomic_load(&writing))
        read_once(*(unsigned *)arg ? 1 << 16 : 0); /* some must write to files what they find */
    return NULL;
}

/* ---- the compactor -------------------------------------------------------------------------------------------------- */

static void write_rows(struct rowset *set, struct manifest *m)
{
    struct errmsg msg = { "" };
    struct rows_writer_options o = { .log = log_uuid,
                                     .uuid = m->header.uuid,
                                     .table = TABLE,
                                     .part = 1,
                                     .block_size = 4096,
                                     .temp_dir = dirfd };
    struct rowset_cursor *c;
    struct rows_writer *w;
    struct row row;
    int r, fd = make_unnamed();

    fine(&msg, rows_writer_open(&w, fd, &o, &msg));
    fine(&msg, rowset_cursor_open(&c, set, OLDEST_FIRST, 0, 1, &msg));
    while ((r = rowset_next(c, &row, &msg)) == 1) {
        fine(&msg, rows_put(w, row.flags & ROW_KEYED, row.key, row.value, row.value_len, row.time_us, &msg));
        m->header.rows++;
    }
    fine(&msg, r);
    rowset_cursor_close(c);
    fine(&msg, rows_writer_seal(w, &m->files[0], &msg));
    rows_writer_close(w);
    give_name(fd, NAME_ROWS, &m->header.uuid, 1);
}

/* The first COUNT files of the list become BASE; they are removed. */
static void swap(size_t count, const struct manifest *m)
{
    pthread_mutex_lock(&lock);
    struct rowset_file base = { .path = path_of(NAME_MANIFEST, &m->header.uuid),
                                .seq = list[count - 1].seq,
                                .time_us = list[count - 1].time_us,
                                .base = true };
    for (size_t i = 0; i < count; i++) {
        unlink(list[i].path);
        free((char *)list[i].path);
    }
    list[0] = base;
    memmove(list + 1, list + count, (list_count - count) * sizeof *list);
    list_count -= count - 1;
    pthread_mutex_unlock(&lock);
}

static void compact_once(void)
{
    struct look l = take_look();
    struct errmsg msg = { "" };
    struct manifest_file file;
    struct manifest m = { .header = { .log = log_uuid, .uuid = make_uuid(), .table = TABLE, .files = 1 },
                          .files = &file };

    if (l.count > 1) {
        struct rowset *set = open_set(&l, 0);
        ck_assert_ptr_nonnull(set); /* nobody else removes files */
        m.header.base_seq = l.files[l.count - 1].seq;
        write_rows(set, &m);
        rowset_close(set);
        int fd = make_unnamed();
        fine(&msg, manifest_write(fd, &m, &msg));
        give_name(fd, NAME_MANIFEST, &m.header.uuid, 0);
        swap(l.count, &m);
        atomic_fetch_add(&compactions, 1);
    }
    look_fini(&l);
}

static void *compact_all(void *arg)
{
    uint64_t then = 0;

    (void)arg;
    while (atomic_load(&writing)) {
        uint64_t now = atomic_load(&scans);
        if (now >=
            then + 3) { /* nobody holds files here: with no pause all readers would always come too late */
            compact_once();
            then = now;
        }
        sched_yield();
    }
    return NULL;
}

/* ---- all together -------------------------------------------------------------------------------------------------- */

START_TEST(writers_readers_and_a_compactor_never_see_a_half)
{
    static unsigned number[] = { 0, 1, 2 };
    pthread_t writer[WRITERS], reader[READERS], compactor;

    dir = tempdir();
    dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    atomic_store(&writing, WRITERS);
    for (int i = 0; i < WRITERS; i++)
        ck_assert_int_eq(pthread_create(&writer[i], NULL, write_all, &number[i]), 0);
    for (int i = 0; i < READERS; i++)
        ck_assert_int_eq(pthread_create(&reader[i], NULL, read_all, &number[i]), 0);
    ck_assert_int_eq(pthread_create(&compactor, NULL, compact_all, NULL), 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writer[i], NULL);
    for (int i = 0; i < READERS; i++)
        pthread_join(reader[i], NULL);
    pthread_join(compactor, NULL);
    uint64_t meanwhile = atomic_load(&scans);
    compact_once();
    read_once(0);
    ck_assert_uint_eq(atomic_load(&scans), meanwhile + 1);
    for (size_t i = 0; i < list_count; i++)
        free((char *)list[i].path);
    free(list);
    close(dirfd);
}
END_TEST

Suite *rowset_crowd_suite(void);
Suite *rowset_crowd_suite(void)
{
    Suite *suite = suite_create("rowset_crowd");
    TCase *t = tcase_create("crowd");

    tcase_set_timeout(t, 300);
    tcase_add_test(t, writers_readers_and_a_compactor_never_see_a_half);
    suite_add_tcase(suite, t);
    return suite;
}
