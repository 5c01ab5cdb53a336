/*
 * A handle on every commit: as many commits as are wished, and for each of them a view and a lease that stay, and now and
 * then an open scan with a cursor in the middle.  Descriptors and maps, here and in the daemon, must not become more with
 * them; what is held is there in the end, though the table was compacted and its old files are wanted gone; and goes when
 * it is let go.
 *
 *     held_commits COMMITS DAEMON-PID
 */
#include "stress.h"

#include <dirent.h>
#include <sys/resource.h>

#define TIMEOUT_MS 120000
#define SCANS 8
#define KEYS 100

/* What a handle, scans and threads may need, whatever the number of commits is.  A view keeps the generation that it was
 * opened with, so each of these may have its maps, too. */
#define MORE_DESCRIPTORS 48
#define MORE_MAPS 256
#define COMMITS_PER_GENERATION 512 /* at least, while they come without a pause */

struct held {
    skade_view *view;
    skade_scan *lease;
};

static skade *s;
static skade_table table;

/* ---- counting ----------------------------------------------------------------------------------------------------- */

struct use {
    long descriptors, maps;
};

static long entries_of(const char *pid, const char *what)
{
    char path[64];
    long n = 0;

    snprintf(path, sizeof path, "/proc/%s/%s", pid, what);
    DIR *d = opendir(path);
    if (!d)
        die("%s: %s", path, strerror(errno));
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static long lines_of(const char *pid, const char *what)
{
    char path[64];
    long n = 0;
    int c;

    snprintf(path, sizeof path, "/proc/%s/%s", pid, what);
    FILE *f = fopen(path, "r");
    if (!f)
        die("%s: %s", path, strerror(errno));
    while ((c = getc(f)) != EOF)
        n += c == '\n';
    fclose(f);
    return n;
}

static struct use use_of(const char *pid)
{
    return (struct use){ entries_of(pid, "fd"), lines_of(pid, "maps") };
}

static void check_use(const char *who, const char *pid, const struct use *before, uint64_t commits)
{
    struct use now = use_of(pid);

    printf("%s: descriptors %ld, then %ld; maps %ld, then %ld\n", who, before->descriptors, now.descriptors,
           before->maps, now.maps);
    if (now.descriptors > before->descriptors + MORE_DESCRIPTORS)
        die("%s has too many descriptors", who);
    if (now.maps > before->maps + MORE_MAPS + (long)(commits / COMMITS_PER_GENERATION))
        die("%s has too many maps", who);
}

/* ---- commits --------------------------------------------------------------------------------------------------------- */

static void must(const char *what, int64_t r)
{
    if (r < 0)
        die_of(s, what, r);
}

static void commit(uint64_t n)
{
    char key[32], value[32];

    snprintf(key, sizeof key, "k%u", (unsigned)(n % KEYS));
    snprintf(value, sizeof value, "%llu", (unsigned long long)n);
    must("begin", skade_append_begin(s, table, NULL));
    must("put", skade_append_put(s, key, strlen(key), value, strlen(value)));
    must("commit", skade_append_commit(s, NULL));
}

static void hold(struct held *h)
{
    struct skade_scan_options o = { .size = sizeof o, .flags = SKADE_FILES_ONLY };

    must("view", skade_view_open(s, &h->view));
    must("lease", skade_scan_open(s, table, &o, &h->lease));
}

/* ---- what is held ------------------------------------------------------------------------------------------------------ */

static int count_file(void *arg, const struct skade_scan_file *file)
{
    (void)file;
    ++*(uint64_t *)arg;
    return 0;
}

/* The table as of commit N: its files, and the value of the key that it wrote. */
static void check_held(const struct held *h, uint64_t n)
{
    struct skade_scan_options o = { .size = sizeof o, .view = h->view };
    char key[32], value[32], want[32];
    uint64_t files = 0;
    size_t len = 0;

    must("files", skade_scan_files(h->lease, count_file, &files));
    if (files != n + 1)
        die("commit %llu has %llu files", (unsigned long long)n, (unsigned long long)files);
    snprintf(key, sizeof key, "k%u", (unsigned)(n % KEYS));
    snprintf(want, sizeof want, "%llu", (unsigned long long)n);
    int r = skade_get(s, table, &o, key, strlen(key), value, sizeof value, &len);
    must("get", r);
    if (r != 1 || len != strlen(want) || memcmp(value, want, len) != 0)
        die("key %s as of commit %llu is another", key, (unsigned long long)n);
}

/* The rest of a scan that was opened when N commits were there. */
static void check_scan(skade_cursor *c, uint64_t n, uint64_t seen)
{
    struct skade_row row = { .size = sizeof row };
    int r;

    while ((r = skade_cursor_next(c, &row)) == 1)
        seen++;
    if (r < 0)
        die("next: %s: %s", skade_errname(r), skade_cursor_errmsg(c));
    if (seen != (n < KEYS ? n : KEYS))
        die("a scan of %llu commits has %llu rows", (unsigned long long)n, (unsigned long long)seen);
}

struct open_scan {
    skade_scan *scan;
    skade_cursor *cursor;
    uint64_t commits;
};

static void open_scan(struct open_scan *to, uint64_t commits)
{
    struct skade_row row = { .size = sizeof row };

    must("scan", skade_scan_open(s, table, NULL, &to->scan));
    must("cursor", skade_cursor_open(to->scan, 0, 0, 1, &to->cursor));
    if (skade_cursor_next(to->cursor, &row) != 1)
        die("a scan without a row");
    to->commits = commits;
}

static void close_scan(struct open_scan *scan)
{
    check_scan(scan->cursor, scan->commits, 1);
    skade_cursor_close(scan->cursor);
    skade_scan_close(scan->scan);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        die("usage: %s COMMITS DAEMON-PID", argv[0]);
    uint64_t commits = strtoull(argv[1], NULL, 10), some = commits / SCANS;
    struct rlimit few = { 128, 128 };
    struct open_scan scans[SCANS];
    struct held *held = calloc(commits, sizeof *held);

    setrlimit(RLIMIT_NOFILE, &few);
    s = open_handle(0, TIMEOUT_MS);
    must("create", skade_create(s, "held", NULL, &table, NULL));
    struct use mine = use_of("self"), daemons = use_of(argv[2]);
    for (uint64_t n = 0; n < commits; n++) {
        commit(n);
        hold(&held[n]);
        if (n % some == some - 1 && n / some < SCANS)
            open_scan(&scans[n / some], n + 1);
    }
    check_use("the client", "self", &mine, commits);
    check_use("the daemon", argv[2], &daemons, commits);
    must("compact", skade_compact(s, table, NULL, NULL));
    if (skade_gc(s, table, SKADE_GC_NOW, NULL, NULL) != 1)
        die("what is held was collected");
    for (uint64_t n = 0; n < commits; n += n + 1 < commits ? (commits / 50) + 1 : 1)
        check_held(&held[n], n);
    for (int i = 0; i < SCANS; i++)
        close_scan(&scans[i]);
    check_use("the client, when all was looked at", "self", &mine, commits);
    for (uint64_t n = 0; n < commits; n++) {
        skade_view_close(held[n].view);
        skade_scan_close(held[n].lease);
    }
    skade_close(s); /* what gets have learned is leased, too */
    s = open_handle(0, TIMEOUT_MS);
    while (skade_gc(s, table, SKADE_GC_NOW, NULL, NULL) != 0)
        ;
    commit(commits);
    check_use("the daemon, when all was let go", argv[2], &daemons, commits);
    skade_close(s);
    free(held);
    return 0;
}
