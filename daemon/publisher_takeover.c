/*
 * Taking over: from the control page that clients have now to the daemon's own.
 *
 *     make the page, complete and with its generation     nobody sees it
 *     link it as <epoch>.ctl                               the next start can find and retire it
 *     link it once more, rename that over the known name   new clients attach it; never is there no page
 *     store RETIRED in every older page                    their clients attach anew, and find the new page
 *     unlink the older epochs' files                       maps that clients still have go on living
 *
 * Retiring before the rename would send clients to the old page again and again.  A daemon that is killed
 * between rename and retire leaves clients on an older page that no name but its alias leads to: the next
 * start finds it there.  rename() of one link over another of the same file does nothing and leaves both, so
 * a page is never renamed over itself: each take-over makes a fresh file.
 */
#include "publisher_internal.h"

#include "checksum.h"
#include "counters.h"
#include "failpoint.h"
#include "world.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

struct takeover {
    struct publisher *p;
    uint64_t last_epoch;
    struct draft draft;        /* the new page's file */
    struct control_page *page; /* mapped */
    int known_fd;              /* the page that clients found until now; -1: there was none */
    struct publisher_takeover result;
};

/* ---- the new page -------------------------------------------------------------------------------------- */

/* The block that never changes.  The rest of a fresh file is zero. */
static void write_head(struct control_page *page, const struct publisher *p)
{
    memcpy(page->magic, FORMAT_MAGIC_CONTROL, sizeof page->magic);
    page->major = FORMAT_MAJOR;
    page->size = CONTROL_SIZE;
    page->epoch = p->epoch;
    page->log = p->options.log;
    page->seed = p->options.seed;
    page->created_us = (uint64_t)world.wall_us();
    page->pid = (uint64_t)getpid();
    page->counters = COUNTER_END;
    page->check = checksum(page, offsetof(struct control_page, check), 0);
}

/* P6 for the heartbeat, P7 for the others: nothing is ordered by them. */
static void carry_word(_Atomic uint64_t *to, const _Atomic uint64_t *from)
{
    atomic_store_explicit(to, atomic_load_explicit(from, memory_order_relaxed), memory_order_relaxed);
}

static void carry_over(struct control_page *to, const struct control_page *from)
{
    carry_word(&to->heartbeat, &from->heartbeat);
    carry_word(&to->state, &from->state);
    for (size_t i = 0; i < CONTROL_COUNTERS; i++)
        carry_word(&to->counter[i], &from->counter[i]);
}

static int make_page(struct takeover *t, uint64_t generation, uint64_t commit_seq, struct errmsg *msg)
{
    struct publisher *p = t->p;

    int r = draft_make(&t->draft, p, p->epoch, CONTROL_SIZE, msg);
    if (r < 0)
        return r;
    t->page = draft_map(&t->draft, CONTROL_SIZE);
    if (!t->page)
        return fail(msg, -errno, "cannot map a control page: %s", strerrordesc_np(errno));
    write_head(t->page, p);
    carry_over(t->page, p->page);
    /* Nobody sees it yet: linking it publishes all of this, since open() and mmap() of a name come after its link. */
    atomic_store_explicit(&t->page->commit_seq, commit_seq, memory_order_relaxed); /* P3 */
    atomic_store_explicit(&t->page->generation, generation, memory_order_relaxed); /* P2 */
    /* Writable by its owner, since the next daemon must be able to retire it. */
    return draft_chmod(&t->draft, p->options.mode | S_IWUSR, p->options.group, msg);
}

/* Before the rename takes its name away: the page that clients find now may have lost its alias. */
static int open_known(struct takeover *t, struct errmsg *msg)
{
    char name[SHM_NAME_MAX];

    int fd = publisher_open_ours(t->p, shm_name(name, &t->p->options.place, SHM_CONTROL, 0, 0), msg);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    t->known_fd = fd;
    return 0;
}

static int rename_over_known(struct takeover *t, const char *temp, struct errmsg *msg)
{
    struct publisher *p = t->p;
    char name[SHM_NAME_MAX];

    shm_name(name, &p->options.place, SHM_CONTROL, 0, 0);
    if (renameat(p->dir_fd, temp, p->dir_fd, name) == 0)
        return 0;
    /* It was ours or absent a moment ago; in a sticky directory nobody else's can be replaced. */
    return fail(msg, errno == EPERM || errno == EISDIR || errno == EACCES ? SKADE_EFOREIGN : -errno,
                "cannot rename %s/%s to %s: %s", p->options.place.dir, temp, name, strerrordesc_np(errno));
}

static int link_second(struct takeover *t, char *temp, struct errmsg *msg)
{
    int r = draft_link(&t->draft, t->p, draft_temp_name(temp, t->p, t->p->epoch), msg);
    if (r == 0)
        r = FAILPOINT("takeover.temp");
    if (r == 0)
        r = rename_over_known(t, temp, msg);
    if (r < 0)
        unlinkat(t->p->dir_fd, temp, 0);
    return r;
}

/* Give the page its two names.  What fails leaves neither. */
static int install(struct takeover *t, struct errmsg *msg)
{
    char alias[SHM_NAME_MAX], temp[SHM_NAME_MAX];

    shm_name(alias, &t->p->options.place, SHM_CONTROL_ALIAS, t->p->epoch, 0);
    int r = draft_link(&t->draft, t->p, alias, msg);
    if (r < 0)
        return r;
    r = FAILPOINT("takeover.alias");
    if (r == 0)
        r = link_second(t, temp, msg);
    if (r < 0)
        unlinkat(t->p->dir_fd, alias, 0);
    return r;
}

/* Put the new page where the old one is mapped, so that whoever counts goes on at the same address.
 * Should the kernel refuse, the address changes: rather that than no page. */
static void adopt(struct takeover *t)
{
    struct publisher *p = t->p;
    struct stat st;

    carry_over(t->page, p->page); /* once more: threads may have counted meanwhile */
    void *moved = mremap(t->page, CONTROL_SIZE, CONTROL_SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, p->page);
    if (moved == MAP_FAILED)
        p->page = t->page;
    t->page = NULL;
    if (fstat(t->draft.fd, &st) == 0) {
        p->page_dev = st.st_dev;
        p->page_ino = st.st_ino;
    }
    p->page_epoch = p->epoch;
}

/* ---- the older pages ----------------------------------------------------------------------------------- */

/* Store RETIRED in PAGE, which is one of the older EPOCH. */
static int retire_page(struct takeover *t, struct control_page *page, uint64_t epoch)
{
    if (epoch == t->last_epoch)
        t->result.saw_epoch = true;
    /* P5: pairs with control_generation() */
    if (atomic_exchange_explicit(&page->generation, CONTROL_RETIRED, memory_order_acq_rel) == CONTROL_RETIRED)
        return 0;
    t->result.retired++;
    return FAILPOINT("takeover.retire");
}

/* May PAGE be written to?  Its memory can be missing (a hole in a full file system would be SIGBUS; only
 * the words are touched), and only what is a control page is one: a hard link to any other file of ours
 * could have been put under its name. */
static bool is_page(struct control_page *page, struct control *ret)
{
    if (madvise(page, offsetof(struct control_page, counter), MADV_POPULATE_WRITE) < 0 && errno != EINVAL)
        return false;
    return control_check(page, ret) == 0;
}

/* Retire the page behind FD, if it is one; of EPOCH, if that isn't 0. */
static int retire_fd(struct takeover *t, int fd, uint64_t epoch, struct errmsg *msg)
{
    struct control c = { .page = NULL };
    struct stat st;
    int r = 0;

    if (fstat(fd, &st) < 0 || st.st_size != CONTROL_SIZE)
        return 0;
    struct control_page *page = mmap(NULL, CONTROL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return fail(msg, -errno, "cannot map an older control page to retire it: %s", strerrordesc_np(errno));
    if (is_page(page, &c) && (epoch == 0 || epoch == c.epoch))
        r = retire_page(t, page, c.epoch);
    munmap(page, CONTROL_SIZE);
    return r;
}

static int retire_alias(struct takeover *t, const char *name, uint64_t epoch, struct errmsg *msg)
{
    int fd = publisher_open_ours(t->p, name, msg);
    if (fd == -ENOENT || fd == SKADE_EFOREIGN)
        return 0;
    if (fd < 0)
        return fd;
    int r = retire_fd(t, fd, epoch, msg);
    close(fd);
    return r;
}

/* ---- the directory ------------------------------------------------------------------------------------- */

/* What is done with each name of this instance that is of another epoch.  Negative ends the walk. */
typedef int (*visit_fn)(struct takeover *t, const char *name, enum shm_kind kind, uint64_t epoch,
                        struct errmsg *msg);

static int visit_older(struct takeover *t, DIR *dir, visit_fn visit, struct errmsg *msg)
{
    enum shm_kind kind;
    uint64_t epoch, number;

    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (!shm_name_parse(e->d_name, &t->p->options.place, &kind, &epoch, &number) || epoch == 0 ||
            epoch == t->p->epoch)
            continue;
        int r = visit(t, e->d_name, kind, epoch, msg);
        if (r < 0)
            return r;
    }
    return 0;
}

static int walk_older(struct takeover *t, visit_fn visit, struct errmsg *msg)
{
    int fd = openat(t->p->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* a position of its own */
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return fail(msg, -error, "cannot list %s: %s", t->p->options.place.dir, strerrordesc_np(error));
    }
    int r = visit_older(t, dir, visit, msg);
    closedir(dir);
    return r;
}

static int visit_alias(struct takeover *t, const char *name, enum shm_kind kind, uint64_t epoch,
                       struct errmsg *msg)
{
    return kind == SHM_CONTROL_ALIAS ? retire_alias(t, name, epoch, msg) : 0;
}

/* All names with an epoch are alike here: aliases, roots, parts, what was on its way to a name. */
static int visit_sweep(struct takeover *t, const char *name, enum shm_kind kind, uint64_t epoch,
                       struct errmsg *msg)
{
    struct stat st;

    (void)kind, (void)epoch, (void)msg;
    if (fstatat(t->p->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && publisher_owns(t->p, &st) &&
        unlinkat(t->p->dir_fd, name, 0) == 0)
        t->result.swept++;
    return 0;
}

static int retire_older(struct takeover *t, struct errmsg *msg)
{
    int r = 0;

    if (t->known_fd >= 0)
        r = retire_fd(t, t->known_fd, 0, msg);
    if (r == 0 && t->p->page_fd >= 0)
        r = retire_fd(t, t->p->page_fd, 0, msg); /* our own, whose names may be gone */
    if (r == 0)
        r = walk_older(t, visit_alias, msg);
    return r;
}

static int sweep(struct takeover *t, struct errmsg *msg)
{
    int r = FAILPOINT("takeover.sweep");
    return r < 0 ? r : walk_older(t, visit_sweep, msg);
}

/* ---- the whole ----------------------------------------------------------------------------------------- */

/* From the rename on there is no way back. */
static int finish(struct takeover *t, struct errmsg *msg)
{
    struct publisher *p = t->p;

    adopt(t);
    int r = FAILPOINT("takeover.rename");
    if (r == 0)
        r = retire_older(t, msg);
    if (p->page_fd >= 0)
        close(p->page_fd);
    p->page_fd = draft_keep(&t->draft, p);
    return r == 0 ? sweep(t, msg) : r;
}

static void release(struct takeover *t)
{
    if (t->page)
        munmap(t->page, CONTROL_SIZE);
    if (t->known_fd >= 0)
        close(t->known_fd);
    draft_drop(&t->draft, t->p);
}

int publisher_take_over(struct publisher *p, uint64_t generation, uint64_t commit_seq, uint64_t last_epoch,
                        struct publisher_takeover *ret, struct errmsg *msg)
{
    struct takeover t = { .p = p, .last_epoch = last_epoch, .draft = { .fd = -1 }, .known_fd = -1 };

    assert(p->page_fd < 0 || p->page_epoch != p->epoch);
    int r = open_known(&t, msg);
    if (r == 0)
        r = make_page(&t, generation, commit_seq, msg);
    if (r == 0)
        r = install(&t, msg);
    if (r == 0)
        r = finish(&t, msg);
    release(&t);
    if (r == 0)
        *ret = t.result;
    return r;
}

int publisher_retire_older(struct publisher *p, uint64_t last_epoch, struct publisher_takeover *ret,
                           struct errmsg *msg)
{
    struct takeover t = { .p = p, .last_epoch = last_epoch, .draft = { .fd = -1 }, .known_fd = -1 };
    int r = 0;

    /* Our own page, once linked, stands under the well-known name. */
    if (publisher_page_epoch(p) != p->epoch)
        r = open_known(&t, msg);
    if (r == SKADE_EFOREIGN) /* somebody else's file stands there: it is no older page */
        r = 0;
    if (r == 0 && t.known_fd >= 0)
        r = retire_fd(&t, t.known_fd, 0, msg);
    if (r == 0)
        r = walk_older(&t, visit_alias, msg);
    if (r == 0)
        r = sweep(&t, msg);
    release(&t);
    if (r == 0)
        *ret = t.result;
    return r;
}

uint64_t publisher_page_epoch(const struct publisher *p)
{
    return p->page_ino ? p->page_epoch : 0;
}
