/*
 * Appends by one and by several writers at a time, and what the disk alone takes for them; point reads of a warm handle.
 *
 * Writers append by batches of 1024 rows, each batch durable, each writer with a handle and a table of its own; LMDB's
 * writers, as many threads, commit the same batches to one database and wait for its one lock.  Rows run one after the
 * other in each repetition, ours and LMDB's in turn.  `syncs` is what an append can't avoid: a file of its size, written
 * and synced, two names, their folder synced, a page written over in another file and synced, in this order.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define BATCH 1024u
#define BATCHES 192u /* of all writers together */
#define KEY_LEN 16
#define VALUE_LEN 8
#define FILE_BYTES 83520u /* of a batch */
#define APPENDERS_MAX 8
#define REPS 7

#define ROWS 1000000u
#define GETS 500000u
#define WARM_MEMORY ((size_t)512 << 20)

/* ---- rows -------------------------------------------------------------------------------------------------------------- */

/* Sixteen hexadecimal digits: printf() would be a third of an append. */
static void make_row(uint64_t i, char *key, char *value)
{
    uint64_t mixed = (i + 1) * 0x9e3779b97f4a7c15ull;

    for (int at = KEY_LEN; at-- > 0; i >>= 4)
        key[at] = "0123456789abcdef"[i & 15];
    memcpy(value, &mixed, VALUE_LEN);
}

static void append_batch(skade *s, skade_table t, uint64_t first)
{
    char key[KEY_LEN], value[VALUE_LEN];

    check(skade_append_begin(s, t, NULL), "append", s);
    for (uint64_t i = first; i < first + BATCH; i++) {
        make_row(i, key, value);
        check(skade_append_put(s, key, KEY_LEN, value, VALUE_LEN), "append", s);
    }
    check(skade_append_commit(s, NULL), "append", s);
}

static void lmdb_check(int r, const char *what)
{
    if (r != 0)
        die("LMDB, %s: %s", what, mdb_strerror(r));
}

static void lmdb_batch(MDB_env *env, MDB_dbi dbi, uint64_t first)
{
    char key[KEY_LEN], value[VALUE_LEN];
    MDB_txn *txn;

    lmdb_check(mdb_txn_begin(env, NULL, 0, &txn), "begin");
    for (uint64_t i = first; i < first + BATCH; i++) {
        make_row(i, key, value);
        MDB_val k = { KEY_LEN, key }, v = { VALUE_LEN, value };
        lmdb_check(mdb_put(txn, dbi, &k, &v, 0), "put");
    }
    lmdb_check(mdb_txn_commit(txn), "commit");
}

/* ---- writers ----------------------------------------------------------------------------------------------------------- */

struct writer {
    pthread_t thread;
    skade *s; /* NULL: LMDB's */
    skade_table table;
    MDB_env *env;
    MDB_dbi dbi;
    uint64_t first; /* row */
    unsigned batches;
};

static void *write_batches(void *arg)
{
    struct writer *w = arg;

    for (unsigned i = 0; i < w->batches; i++)
        if (w->s)
            append_batch(w->s, w->table, w->first + i * (uint64_t)BATCH);
        else
            lmdb_batch(w->env, w->dbi, w->first + i * (uint64_t)BATCH);
    return NULL;
}

/* Nanoseconds per row of all writers together. */
static double run_writers(struct writer *w, unsigned n)
{
    double began = now_ns();

    for (unsigned i = 0; i < n; i++) {
        w[i].first = (uint64_t)i << 32;
        w[i].batches = BATCHES / n;
        if (pthread_create(&w[i].thread, NULL, write_batches, &w[i]) != 0)
            die("no thread");
    }
    for (unsigned i = 0; i < n; i++)
        pthread_join(w[i].thread, NULL);
    return (now_ns() - began) / BATCHES / BATCH;
}

static double run_ours(unsigned n)
{
    static int number;
    struct writer w[APPENDERS_MAX] = { 0 };
    char name[32];

    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof name, "bench.writers%d", ++number);
        w[i].s = daemon_open(0);
        check(skade_create(w[i].s, name, NULL, &w[i].table, NULL), "create", w[i].s);
    }
    double ns = run_writers(w, n);
    for (unsigned i = 0; i < n; i++)
        skade_close(w[i].s);
    return ns;
}

static MDB_env *lmdb_open(char path[512], MDB_dbi *dbi)
{
    MDB_env *env;
    MDB_txn *txn;

    snprintf(path, 512, "%s/writers.lmdb", place_folder());
    lmdb_check(mdb_env_create(&env), "create");
    lmdb_check(mdb_env_set_mapsize(env, 4ull << 30), "map size");
    lmdb_check(mdb_env_open(env, path, MDB_NOSUBDIR, 0600), "open");
    lmdb_check(mdb_txn_begin(env, NULL, 0, &txn), "begin");
    lmdb_check(mdb_dbi_open(txn, NULL, 0, dbi), "open");
    lmdb_check(mdb_txn_commit(txn), "commit");
    return env;
}

static void lmdb_remove(MDB_env *env, char path[512])
{
    mdb_env_close(env);
    unlink(path);
    strcat(path, "-lock");
    unlink(path);
}

static double run_lmdb(unsigned n)
{
    struct writer w[APPENDERS_MAX] = { 0 };
    char path[512];
    MDB_dbi dbi;
    MDB_env *env = lmdb_open(path, &dbi);

    for (unsigned i = 0; i < n; i++) {
        w[i].env = env;
        w[i].dbi = dbi;
    }
    double ns = run_writers(w, n);
    lmdb_remove(env, path);
    return ns;
}

/* ---- the disk alone ------------------------------------------------------------------------------------------------------ */

static void must(int r, const char *what)
{
    if (r < 0)
        die("cannot %s: %s", what, strerror(errno));
}

static void give_name(int fd, int dir, const char *name)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    must(linkat(AT_FDCWD, path, dir, name, AT_SYMLINK_FOLLOW), "link");
}

static double run_syncs(void)
{
    static char bytes[FILE_BYTES];
    char path[512], name[32];

    snprintf(path, sizeof path, "%s/fsyncs", place_folder());
    mkdir(path, 0700);
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(dir, "open a folder");
    int log = openat(dir, "log", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(log, "make a file");
    for (int i = 0; i < 64; i++)
        must((int)pwrite(log, bytes, 8240, i * 8240L), "write");
    must(fsync(log), "sync");
    double began = now_ns();
    for (unsigned i = 0; i < BATCHES; i++) {
        int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        must(fd, "make a file");
        must((int)pwrite(fd, bytes, sizeof bytes, 0), "write");
        must(fsync(fd), "sync");
        snprintf(name, sizeof name, "%u.pending", i);
        give_name(fd, dir, name);
        snprintf(name, sizeof name, "%u.entries", i);
        give_name(fd, dir, name);
        must(fsync(dir), "sync");
        must((int)pwrite(log, bytes, 8240, i % 64 * 8240L), "write");
        must(fdatasync(log), "sync");
        close(fd);
    }
    double ns = (now_ns() - began) / BATCHES / BATCH;
    for (unsigned i = 0; i < BATCHES; i++) {
        snprintf(name, sizeof name, "%u.pending", i);
        unlinkat(dir, name, 0);
        snprintf(name, sizeof name, "%u.entries", i);
        unlinkat(dir, name, 0);
    }
    close(log);
    close(dir);
    return ns;
}

/* ---- appends ------------------------------------------------------------------------------------------------------------- */

enum { ONE, FOUR, EIGHT, SIZES };

static const unsigned writers[SIZES] = { 1, 4, 8 };

struct append_samples {
    double ours[SIZES][REPS], lmdb[SIZES][REPS], gain[SIZES][REPS];
    double syncs[REPS], by_syncs[REPS];
};

static void append_repetition(struct append_samples *all, int rep)
{
    for (int i = 0; i < SIZES; i++) {
        end_if_interrupted();
        all->ours[i][rep] = run_ours(writers[i]);
        all->lmdb[i][rep] = run_lmdb(writers[i]);
        all->gain[i][rep] = all->lmdb[i][rep] / all->ours[i][rep];
    }
    all->syncs[rep] = run_syncs();
    all->by_syncs[rep] = all->ours[ONE][rep] / all->syncs[rep];
}

static void report_appends(const struct append_samples *all, int reps)
{
    char name[64];

    for (int i = 0; i < SIZES; i++) {
        struct goal goal = { .sense = AT_LEAST, .floor = 1, .target = 1 };
        snprintf(name, sizeof name, "append_%u", writers[i]);
        report_figure("appends", name, measure_of(all->ours[i], reps), "ns_per_row", ROW_OURS);
        snprintf(name, sizeof name, "append_%u_lmdb", writers[i]);
        report_figure("appends", name, measure_of(all->lmdb[i], reps), "ns_per_row", ROW_PEER);
        snprintf(goal.name, sizeof goal.name, "speed.append_writers_%u", writers[i]);
        goal_check(&goal, measure_of(all->gain[i], reps));
    }
    report_figure("appends", "append_syncs", measure_of(all->syncs, reps), "ns_per_row", ROW_LIMIT);
    report_figure("appends", "append_1_by_syncs", measure_of(all->by_syncs, reps), "times", ROW_LIMIT);
}

void stage_appends(int reps)
{
    static struct append_samples all;

    reps = reps < REPS ? reps : REPS;
    daemon_start("full");
    for (int i = 0; i < reps; i++)
        append_repetition(&all, i);
    report_appends(&all, reps);
    daemon_stop();
}

/* ---- point reads: in the thread's processor time, as lookups are ----------------------------------------------------------------------------------------------------------- */

struct reader {
    pthread_t thread;
    skade *s;
    skade_table table;
    uint64_t state;
    double ns; /* per get */
};

static uint64_t next_row(struct reader *r)
{
    r->state = r->state * 6364136223846793005ull + 1442695040888963407ull;
    return (r->state >> 33) % ROWS;
}

static void get_rows(struct reader *r, unsigned n)
{
    struct skade_scan_options o = { .size = sizeof o, .memory = WARM_MEMORY };
    char key[KEY_LEN], value[VALUE_LEN], got[VALUE_LEN];
    size_t len;

    for (unsigned i = 0; i < n; i++) {
        make_row(next_row(r), key, value);
        int found = skade_get(r->s, r->table, &o, key, KEY_LEN, got, sizeof got, &len);
        if (found != 1 || len != VALUE_LEN || memcmp(got, value, len) != 0)
            die("get: %s %s", skade_errname(found), skade_errmsg(r->s));
    }
}

static void *read_rows(void *arg)
{
    struct reader *r = arg;
    double began = processor_ns();

    get_rows(r, GETS);
    r->ns = (processor_ns() - began) / GETS;
    return NULL;
}

static double lmdb_gets(MDB_env *env, MDB_dbi dbi, struct reader *r)
{
    char key[KEY_LEN], value[VALUE_LEN];
    MDB_txn *txn;

    lmdb_check(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), "begin");
    double began = processor_ns();
    for (unsigned i = 0; i < GETS; i++) {
        make_row(next_row(r), key, value);
        MDB_val k = { KEY_LEN, key }, v;
        lmdb_check(mdb_get(txn, dbi, &k, &v), "get");
        if (v.mv_size != VALUE_LEN || memcmp(v.mv_data, value, VALUE_LEN) != 0)
            die("LMDB gave another value");
    }
    double ns = (processor_ns() - began) / GETS;
    mdb_txn_abort(txn);
    return ns;
}

/* How many times as many gets as one thread's do two make? */
static double gain_of_two(struct reader *r)
{
    read_rows(&r[0]);
    double one = r[0].ns;
    if (pthread_create(&r[1].thread, NULL, read_rows, &r[1]) != 0)
        die("no thread");
    read_rows(&r[0]);
    pthread_join(r[1].thread, NULL);
    return one / r[0].ns + one / r[1].ns;
}

struct get_samples {
    double million[REPS], us[REPS], two[REPS], lmdb[REPS];
};

static void measure_gets(struct reader *r, MDB_env *env, MDB_dbi dbi, struct get_samples *all, int reps)
{
    for (int i = 0; i < 2; i++) /* learns of the files, and brings them near */
        get_rows(&r[i], GETS);
    for (int i = 0; i < reps; i++) {
        end_if_interrupted();
        read_rows(&r[0]);
        all->us[i] = r[0].ns / 1000;
        all->million[i] = 1000 / r[0].ns;
        all->lmdb[i] = lmdb_gets(env, dbi, &r[0]) / 1000;
        all->two[i] = gain_of_two(r);
    }
}

static void report_gets(const char *group, const struct get_samples *all, int reps)
{
    struct goal goals[] = { { .sense = AT_LEAST, .floor = 2, .target = 2 },
                            { .sense = AT_LEAST, .floor = 1.7, .target = 1.7 } };

    report_figure(group, "get", measure_of(all->us, reps), "us", ROW_OURS);
    report_figure(group, "get_lmdb", measure_of(all->lmdb, reps), "us", ROW_PEER);
    snprintf(goals[0].name, sizeof goals[0].name, "speed.%s.million_a_second", group);
    goal_check(&goals[0], measure_of(all->million, reps));
    snprintf(goals[1].name, sizeof goals[1].name, "speed.%s.2_threads", group);
    goal_check(&goals[1], measure_of(all->two, reps));
}

void stage_gets(int reps)
{
    static struct get_samples all;
    struct reader r[2] = { { .state = 1 }, { .state = 2 } };
    char path[512];
    MDB_dbi dbi;

    reps = reps < REPS ? reps : REPS;
    daemon_start("normal");
    MDB_env *env = lmdb_open(path, &dbi);
    skade_table t;
    for (int i = 0; i < 2; i++)
        r[i].s = daemon_open(0);
    check(skade_create(r[0].s, "bench.gets", NULL, &t, NULL), "create", r[0].s);
    r[0].table = r[1].table = t;
    for (uint64_t i = 0; i < ROWS; i += BATCH) {
        append_batch(r[0].s, t, i);
        lmdb_batch(env, dbi, i);
    }
    client_see_heartbeat((skade *const[]){ r[0].s, r[1].s }, 2);
    measure_gets(r, env, dbi, &all, reps);
    report_gets("gets", &all, reps);
    check(skade_compact(r[0].s, t, NULL, NULL), "compact", r[0].s);
    measure_gets(r, env, dbi, &all, reps);
    report_gets("gets-compacted", &all, reps);
    for (int i = 0; i < 2; i++)
        skade_close(r[i].s);
    lmdb_remove(env, path);
    daemon_stop();
}
