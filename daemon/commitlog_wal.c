/*
 * Is the write-ahead log beside a database damaged where commits are that were durable?
 *
 * SQLite reads that file as far as its checksums hold and takes what follows for the unfinished end that a
 * crash leaves.  Mostly that is so.  But one flipped bit looks the same to it, and every commit behind the bit
 * is gone without a word.  So we read the file ourselves before it does, and look behind the end:
 *
 *     header | frame frame COMMIT | frame COMMIT | fr#me COMMIT | frame COMMIT | older frames
 *            └── what SQLite will take ──────────┘ └ bad       └── was begun when the one before it was durable
 *
 * Each frame's checksum goes on from the one before it.  A frame that goes on from a frame which commits was
 * written after that commit, and with sync_full a commit is synced before anything is written after it.  So
 * one such pair behind the end, or with its first half there, proves that the end is none.  No other sign
 * does: of an unfinished transaction a power cut may leave any sectors, the last frame and not the first, say;
 * behind it may be frames of one that was given up for want of room; and behind all, frames of before the file
 * was begun anew, with other salts.
 *
 * The header is synced before the first frame is written.  So where frames follow a bad header they are ones
 * that SQLite won't read, and the only harmless reason is that the header was just being written again: then
 * the database holds all of them already.  That is looked up, too, where the first commit is bad, as SQLite takes
 * nothing then; a file that was being emptied may look so.  Where there are several flaws we believe SQLite.
 *
 * What no reading can tell is damage to the last transaction, or of all that the last frame before it says, or a
 * file that became shorter: that is what an unfinished one looks like.  Whoever knows how many events there were
 * notices it (check_last_told() in server.c).
 *
 * The format is SQLite's, section 4 of https://sqlite.org/fileformat2.html.  Numbers are big-endian, but for
 * those that are summed: the magic says.
 */
#include "commitlog_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x377f0682u /* and 1: sums are over big-endian words */
#define PAGE 4096
#define HEADER 32
#define FRAME_HEAD 24
#define FRAME (FRAME_HEAD + PAGE)

struct sum {
    uint32_t a, b;
};

struct salt {
    uint32_t a, b;
};

enum header {
    HEADER_NONE,
    HEADER_GOOD,
    HEADER_OTHER, /* a good one of another page size: no log of ours */
    HEADER_BAD,
};

struct wal {
    int fd; /* -1: there is none */
    enum header header;
    bool big_endian;
    struct salt salt;
    struct sum sum;
    uint64_t frames; /* whole ones that the file has room for */
};

struct frame {
    uint32_t page;
    uint32_t commits; /* pages of the database then; 0: the transaction goes on */
    struct salt salt;
    struct sum sum; /* as it stands there */
    unsigned char bytes[FRAME];
};

/* ---- bytes ----------------------------------------------------------------------------------------- */

static uint32_t big(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t little(const unsigned char *p)
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static bool same_sum(struct sum x, struct sum y)
{
    return x.a == y.a && x.b == y.b;
}

static bool same_salt(struct salt x, struct salt y)
{
    return x.a == y.a && x.b == y.b;
}

static struct sum go_on(struct sum s, bool big_endian, const unsigned char *p, size_t len)
{
    for (const unsigned char *end = p + len; p < end; p += 8) {
        s.a += (big_endian ? big(p) : little(p)) + s.b;
        s.b += (big_endian ? big(p + 4) : little(p + 4)) + s.a;
    }
    return s;
}

/* LEN bytes at OFF.  1; 0 when the file ends before; -errno. */
static int read_at(int fd, void *buf, size_t len, uint64_t off)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = pread(fd, (char *)buf + done, len - done, (off_t)(off + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        done += (size_t)n;
    }
    return 1;
}

/* ---- the file -------------------------------------------------------------------------------------- */

static int read_header(struct wal *w)
{
    unsigned char h[HEADER];
    int r = read_at(w->fd, h, sizeof h, 0);

    if (r <= 0)
        return r;
    w->big_endian = (big(h) & 1) != 0;
    w->salt = (struct salt){ big(h + 16), big(h + 20) };
    w->sum = (struct sum){ big(h + 24), big(h + 28) };
    bool good =
        (big(h) | 1) == (MAGIC | 1) && same_sum(go_on((struct sum){ 0, 0 }, w->big_endian, h, 24), w->sum);
    w->header = !good ? HEADER_BAD : big(h + 8) == PAGE ? HEADER_GOOD : HEADER_OTHER;
    return 0;
}

static int open_wal(struct wal *w, const char *path)
{
    struct stat st;

    w->fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (w->fd < 0)
        return errno == ENOENT ? 0 : -errno;
    if (fstat(w->fd, &st) < 0)
        return -errno;
    w->frames = st.st_size > HEADER ? ((uint64_t)st.st_size - HEADER) / FRAME : 0;
    return read_header(w);
}

static uint64_t place_of(uint64_t frame)
{
    return HEADER + frame * FRAME;
}

/* 1; 0 when the file ends before frame I does; -errno. */
static int read_frame(const struct wal *w, uint64_t i, struct frame *ret)
{
    int r = i < w->frames ? read_at(w->fd, ret->bytes, FRAME, place_of(i)) : 0;

    if (r <= 0)
        return r;
    ret->page = big(ret->bytes);
    ret->commits = big(ret->bytes + 4);
    ret->salt = (struct salt){ big(ret->bytes + 8), big(ret->bytes + 12) };
    ret->sum = (struct sum){ big(ret->bytes + 16), big(ret->bytes + 20) };
    return 1;
}

/* What the sum of F must be after one that is BEFORE. */
static struct sum sum_after(const struct wal *w, struct sum before, const struct frame *f)
{
    return go_on(go_on(before, w->big_endian, f->bytes, 8), w->big_endian, f->bytes + FRAME_HEAD, PAGE);
}

static bool follows(const struct wal *w, struct sum before, const struct frame *f)
{
    return f->page != 0 && same_sum(sum_after(w, before, f), f->sum);
}

/* ---- a hole ---------------------------------------------------------------------------------------- */

/* Where a commit stands again to fill the sector up, as some builds of SQLite do, nothing new begins. */
static bool repeats(const struct frame *f, const struct frame *before)
{
    return f->page == before->page && memcmp(f->bytes + FRAME_HEAD, before->bytes + FRAME_HEAD, PAGE) == 0;
}

/* Read as SQLite does.  *END becomes the first frame that it won't take, *GOOD the first that it won't keep,
 * as what is before that commits; *SUM the sum up to END. */
static int find_end(const struct wal *w, uint64_t *end, uint64_t *good, struct sum *sum, struct frame *f)
{
    uint64_t i = 0;
    int r;

    *good = 0;
    *sum = w->sum;
    while ((r = read_frame(w, i, f)) == 1 && same_salt(f->salt, w->salt) && follows(w, *sum, f)) {
        *sum = f->sum;
        i++;
        if (f->commits)
            *good = i;
    }
    *end = i;
    return r < 0 ? r : 0;
}

/*
 * Does a transaction begin behind frame END, where SQLite stops?  TWO are for frames to be read into.  The sum
 * at END itself may be what is damaged, so what it should be, after SUM, is good enough there.
 */
static int begins_behind(const struct wal *w, uint64_t end, struct sum sum, struct frame two[2])
{
    struct frame *before = &two[0], *f = &two[1];
    int r = read_frame(w, end, before);

    if (r <= 0)
        return r;
    sum = sum_after(w, sum, before);
    for (uint64_t i = end + 1; (r = read_frame(w, i, f)) == 1; i++) {
        bool may_begin = before->commits && same_salt(f->salt, w->salt) && !repeats(f, before);
        if (may_begin && (follows(w, before->sum, f) || (i == end + 1 && follows(w, sum, f))))
            return 1;
        struct frame *next = before;
        before = f;
        f = next;
    }
    return r;
}

/* ---- what the database has already ------------------------------------------------------------------ */

/* Frames that were written together: each goes on from the one before.  The last one commits. */
struct run {
    struct salt salt;
    uint64_t first, last;
};

/* The first run from frame I on, which comes after the sum BEFORE.  1 and *RET, or 0 when there is none, or commits
 * follow behind a flaw in it. */
static int find_run(const struct wal *w, uint64_t i, struct sum before, struct frame *f, struct run *ret)
{
    bool begun = false, broken = false;
    int r, found = 0;

    ret->salt = w->salt;
    for (; (r = read_frame(w, i, f)) == 1; i++) {
        bool goes_on = same_salt(f->salt, ret->salt) && follows(w, before, f);
        broken = begun && (broken || !goes_on);
        if (!begun && goes_on) {
            begun = true;
            ret->first = i;
        }
        before = f->sum;
        if (!begun)
            ret->salt = f->salt; /* the header's may be what is damaged */
        if (!begun || !f->commits || !same_salt(f->salt, ret->salt))
            continue;
        if (broken)
            return 0;
        ret->last = i;
        found = 1;
    }
    return r < 0 ? r : found;
}

/* Does the database DB of PAGES pages have what F says?  SEEN has a bit for each page that a newer frame
 * had.  1, 0, -errno. */
static int has_page(int db, uint64_t pages, unsigned char *seen, const struct frame *f)
{
    unsigned char page[PAGE];
    uint64_t n = f->page;

    if (n == 0 || n > pages)
        return 0;
    if (seen[n / 8] & 1 << n % 8)
        return 1;
    seen[n / 8] |= (unsigned char)(1 << n % 8);
    int r = read_at(db, page, PAGE, (n - 1) * PAGE);
    return r == 1 ? memcmp(page, f->bytes + FRAME_HEAD, PAGE) == 0 : r;
}

/* Does the database DB have all that the frames of RUN say?  1, 0, -errno. */
static int has_all(int db, const struct wal *w, const struct run *run, struct frame *f)
{
    struct stat st;

    if (fstat(db, &st) < 0)
        return -errno;
    uint64_t pages = (uint64_t)st.st_size / PAGE;
    unsigned char *seen = calloc(1, pages / 8 + 1);
    int r = seen ? 1 : -ENOMEM;

    for (uint64_t i = run->last + 1; r == 1 && i-- > run->first;) {
        r = read_frame(w, i, f);
        if (r == 1)
            r = has_page(db, pages, seen, f);
    }
    free(seen);
    return r;
}

/* SQLite takes nothing of the file.  Is something in it, from frame I on, that the database at PATH hasn't?
 * 1, 0, -errno. */
static int is_needed(const struct wal *w, uint64_t i, struct sum before, const char *path, struct frame *f)
{
    struct run run = { { 0, 0 }, 0, 0 };
    int r = find_run(w, i, before, f, &run);

    if (r <= 0)
        return r;
    int db = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (db < 0)
        return -errno;
    r = has_all(db, w, &run, f);
    close(db);
    return r < 0 ? r : !r;
}

/* ---- judging --------------------------------------------------------------------------------------- */

/* 1 and *RET, 0, -errno. */
static int look_for_hole(const struct wal *w, const char *path, struct frame two[2], struct logwal *ret)
{
    uint64_t end, good;
    struct sum sum;
    int r = find_end(w, &end, &good, &sum, &two[0]);

    if (r == 0)
        r = begins_behind(w, end, sum, two);
    if (r == 1 && good == 0)
        r = is_needed(w, end, sum, path, &two[0]);
    if (r == 1)
        *ret = (struct logwal){ LOGWAL_HOLE, place_of(end), good ? place_of(good) : 0 };
    return r;
}

/* The order of bytes in sums is one of the things that the header would have said. */
static int look_without_header(struct wal *w, const char *path, struct frame *f, struct logwal *ret)
{
    int r = 0;

    for (int order = 0; r == 0 && order <= 1; order++) {
        w->big_endian = order;
        r = is_needed(w, 0, w->sum, path, f);
    }
    if (r == 1)
        *ret = (struct logwal){ LOGWAL_NO_HEADER, 0, 0 };
    return r;
}

int logwal_judge(const char *path, struct logwal *ret, struct errmsg *msg)
{
    char name[LOG_PATH_MAX + 8];
    struct wal w = { .fd = -1 };
    struct frame *two = malloc(2 * sizeof *two);

    *ret = (struct logwal){ LOGWAL_WHOLE, 0, 0 };
    snprintf(name, sizeof name, "%s-wal", path);
    int r = two ? open_wal(&w, name) : -ENOMEM;
    if (r == 0 && w.header == HEADER_GOOD)
        r = look_for_hole(&w, path, two, ret);
    else if (r == 0 && w.header == HEADER_BAD)
        r = look_without_header(&w, path, &two[0], ret);
    if (w.fd >= 0)
        close(w.fd);
    free(two);
    return r < 0 ? logdir_fail(-r, msg, name, "read it") : 0;
}
