#include "publisher_internal.h"

#include "checksum.h"
#include "counters.h"
#include "failpoint.h"
#include "part.h"
#include "root.h"
#include "tail.h"
#include "world.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- opening and closing ------------------------------------------------------------------------------- */

/* Random, so that no two daemons ever use the same names; 0 means none. */
static uint64_t choose_epoch(void)
{
    uint64_t epoch = 0;
    while (epoch == 0)
        (void)world.random(&epoch, sizeof epoch);
    return epoch;
}

/* Files can be renamed and removed by whoever may write the directory, unless it is sticky. */
static int check_dir(const struct publisher *p, int fd, struct errmsg *msg)
{
    const char *dir = p->options.place.dir;
    uid_t uid = p->options.place.uid;
    uid_t me = geteuid();
    struct stat st;

    if (fstat(fd, &st) < 0)
        return fail(msg, -errno, "cannot look at %s: %s", dir, strerrordesc_np(errno));
    if (st.st_uid != 0 && st.st_uid != me && st.st_uid != uid)
        return fail(msg, SKADE_EFOREIGN, "%s belongs to uid %u, mode %04o: use a --shm-dir of uid %u or root",
                    dir, st.st_uid, st.st_mode & 07777, me);
    if (st.st_mode & (S_IWGRP | S_IWOTH) && !(st.st_mode & S_ISVTX))
        return fail(msg, SKADE_EFOREIGN,
                    "%s of uid %u can be written by others and isn't sticky, mode %04o: chmod +t it, or use "
                    "another --shm-dir",
                    dir, st.st_uid, st.st_mode & 07777);
    if (me != 0 && me != uid)
        return fail(msg, SKADE_EFOREIGN,
                    "the run directory belongs to uid %u and this daemon is uid %u: clients would not trust "
                    "its files",
                    uid, me);
    return 0;
}

/* The descriptor of the shared-memory directory; negative. */
static int open_dir(const struct publisher *p, struct errmsg *msg)
{
    const char *dir = p->options.place.dir;

    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail(msg, -errno,
                    "cannot open the shared-memory directory %s: %s; name another with --shm-dir", dir,
                    strerrordesc_np(errno));
    int r = check_dir(p, fd, msg);
    if (r < 0) {
        close(fd);
        return r;
    }
    return fd;
}

/* The page that is there before the first take-over: same layout, seen by nobody. */
static int private_page(struct publisher *p, struct errmsg *msg)
{
    void *page = mmap(NULL, CONTROL_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return fail(msg, -errno, "no memory for a control page");
    p->page = page;
    atomic_store_explicit(&p->page->state, CONTROL_STARTING, memory_order_relaxed); /* P7 */
    return 0;
}

int publisher_open(struct publisher **ret, const struct publisher_options *options, struct errmsg *msg)
{
    assert(options->mode == 0400 || options->mode == 0440 || options->mode == 0444);
    assert(!instance_name_problem(options->place.instance));
    struct publisher *p = malloc(sizeof *p);
    if (!p)
        return fail(msg, -ENOMEM, "no memory for the publisher");
    *p = (struct publisher){ .options = *options, .dir_fd = -1, .lock_fd = -1, .page_fd = -1 };
    pthread_mutex_init(&p->mutex, NULL);
    int r = p->dir_fd = open_dir(p, msg);
    if (r < 0)
        goto fail;
    r = p->lock_fd = publisher_lock(p, msg);
    if (r < 0)
        goto fail;
    r = private_page(p, msg);
    if (r < 0)
        goto fail;
    p->epoch = choose_epoch();
    *ret = p;
    return 0;
fail:
    publisher_close(p, false);
    return r;
}

static void forget_linked(struct publisher *p)
{
    while (p->linked) {
        struct linked *next = p->linked->next;
        free(p->linked);
        p->linked = next;
    }
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

void publisher_close(struct publisher *p, bool clean)
{
    if (!p)
        return;
    if (p->page) {
        if (clean)
            atomic_store_explicit(&p->page->state, CONTROL_STOPPED, memory_order_relaxed); /* P7 */
        munmap(p->page, CONTROL_SIZE);
    }
    forget_linked(p);
    close_fd(p->page_fd);
    close_fd(p->dir_fd);
    close_fd(p->lock_fd); /* last: whoever gets the lock finds nothing of ours in motion */
    pthread_mutex_destroy(&p->mutex);
    free(p);
}

uint64_t publisher_epoch(const struct publisher *p)
{
    return p->epoch;
}

const struct shm_place *publisher_place(const struct publisher *p)
{
    return &p->options.place;
}

/* ---- the page ------------------------------------------------------------------------------------------ */

struct control_page *publisher_page(struct publisher *p)
{
    return p->page;
}

void publisher_page_id(const struct publisher *p, uint64_t *dev, uint64_t *ino)
{
    *dev = p->page_dev;
    *ino = p->page_ino;
}

void publisher_switch(struct publisher *p, uint64_t generation)
{
    assert(generation != CONTROL_RETIRED);
    /* P2: pairs with control_generation() */
    atomic_store_explicit(&p->page->generation, generation, memory_order_release);
}

void publisher_commit_seq(struct publisher *p, uint64_t seq)
{
    /* P3: pairs with control_commit_seq() */
    atomic_store_explicit(&p->page->commit_seq, seq, memory_order_release);
}

void publisher_new_epoch(struct publisher *p)
{
    pthread_mutex_lock(&p->mutex);
    p->epoch = choose_epoch();
    forget_linked(p);
    pthread_mutex_unlock(&p->mutex);
}

bool publisher_set_mode(struct publisher *p, mode_t mode, gid_t group)
{
    assert(mode == 0400 || mode == 0440 || mode == 0444);
    if (p->options.mode == mode && p->options.group == group)
        return false;
    pthread_mutex_lock(&p->mutex);
    p->options.mode = mode;
    p->options.group = group;
    pthread_mutex_unlock(&p->mutex);
    return true;
}

/* ---- what is linked ------------------------------------------------------------------------------------ */

/* False when the epoch is not EPOCH any more. */
static bool linked_add(struct publisher *p, uint64_t epoch, struct linked *file)
{
    pthread_mutex_lock(&p->mutex);
    bool current = p->epoch == epoch;
    if (current) {
        file->next = p->linked;
        p->linked = file;
    }
    pthread_mutex_unlock(&p->mutex);
    return current;
}

/* Where the list points to the file of KIND and GENERATION, or its end.  The mutex is held. */
static struct linked **linked_find(struct publisher *p, enum shm_kind kind, uint64_t generation)
{
    struct linked **at = &p->linked;
    while (*at && ((*at)->kind != kind || (*at)->generation != generation))
        at = &(*at)->next;
    return at;
}

/* Take it off the list; NULL when it isn't there.  The caller frees it. */
static struct linked *linked_take(struct publisher *p, enum shm_kind kind, uint64_t generation)
{
    pthread_mutex_lock(&p->mutex);
    struct linked **at = linked_find(p, kind, generation);
    struct linked *file = *at;
    if (file)
        *at = file->next;
    pthread_mutex_unlock(&p->mutex);
    return file;
}

static bool is_linked(struct publisher *p, enum shm_kind kind, uint64_t generation)
{
    pthread_mutex_lock(&p->mutex);
    bool linked = *linked_find(p, kind, generation) != NULL;
    pthread_mutex_unlock(&p->mutex);
    return linked;
}

uint64_t publisher_linked_bytes(const struct publisher *p)
{
    struct publisher *own = (struct publisher *)p; /* the mutex is no part of what the caller sees */
    uint64_t bytes = 0;

    pthread_mutex_lock(&own->mutex);
    for (const struct linked *file = p->linked; file; file = file->next)
        bytes += file->size;
    pthread_mutex_unlock(&own->mutex);
    return bytes;
}

/* Does NAME stand for this very file? */
static bool name_is(const struct publisher *p, const char *name, dev_t dev, ino_t ino)
{
    struct stat st;
    return fstatat(p->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == dev && st.st_ino == ino;
}

void publisher_unlink(struct publisher *p, enum shm_kind kind, uint64_t generation)
{
    char name[SHM_NAME_MAX];

    struct linked *file = linked_take(p, kind, generation);
    if (!file)
        return;
    shm_name(name, &p->options.place, kind, p->epoch, generation);
    if (name_is(p, name, file->dev, file->ino))
        unlinkat(p->dir_fd, name, 0);
    free(file);
}

uint64_t publisher_room(const struct publisher *p)
{
    struct statvfs vfs;

    if (fstatvfs(p->dir_fd, &vfs) < 0)
        return 0;
    return vfs.f_blocks == 0 ? UINT64_MAX : (uint64_t)vfs.f_bavail * vfs.f_frsize;
}

/* ---- writing a file ------------------------------------------------------------------------------------ */

/* A file that is being written.  The loop may begin a new epoch meanwhile: then it is too late for this
 * one. */
struct writing {
    struct publisher *p;
    uint64_t epoch;
    mode_t mode;
    gid_t group;
    enum shm_kind kind;
    uint64_t generation;
    size_t size;
    struct draft draft;
    struct segmap map; /* as a client maps it; of a tail only which file it is */
    char name[SHM_NAME_MAX];
};

/* What the loop may change meanwhile, as it is now. */
static void begin_writing(struct writing *w)
{
    struct publisher *p = w->p;

    pthread_mutex_lock(&p->mutex);
    w->epoch = p->epoch;
    w->mode = p->options.mode;
    w->group = p->options.group;
    pthread_mutex_unlock(&p->mutex);
}

static int too_late(const struct writing *w, struct errmsg *msg)
{
    return fail(msg, -EAGAIN, "%s was made for an epoch that is over", w->name);
}

static int fill_file(struct writing *w, publisher_fill_fn fill, void *arg, struct errmsg *msg)
{
    void *buf = draft_map(&w->draft, w->size);
    if (!buf)
        return fail(msg, -errno, "cannot map %zu bytes of %s: %s", w->size, w->name, strerrordesc_np(errno));
    int r = fill(arg, buf, w->size);
    munmap(buf, w->size); /* no writable map of it is left when it gets its name */
    if (r == 0)
        r = FAILPOINT("publish.fill");
    return r < 0 ? fail(msg, r, "cannot fill %s: %s", w->name, error_text(r)) : 0;
}

/* Open what is mapped as a client does, all checksums included, and copy its header. */
static int open_as_client(const struct writing *w, struct seg_header *ret, struct errmsg *msg)
{
    if (w->kind == SHM_ROOT) {
        struct root *root;
        int r = root_open(&root, w->map.base, w->map.size, ROOT_VERIFY, msg);
        if (r < 0)
            return r;
        *ret = root_header(root)->seg;
        root_close(root);
        return 0;
    }
    struct part *part;
    int r = part_open(&part, w->map.base, w->map.size, PART_VERIFY, msg);
    if (r < 0)
        return r;
    *ret = part_header(part)->seg;
    part_close(part);
    return 0;
}

/* Is it what was asked for? */
static int check_header(const struct writing *w, const struct seg_header *h, struct errmsg *msg)
{
    const struct publisher_options *o = &w->p->options;

    if (h->epoch != w->epoch)
        return too_late(w, msg);
    if (h->generation != w->generation || h->seed != o->seed || !uuid_equal(&h->log, &o->log))
        return fail(msg, SKADE_EDAMAGED, "%s is of another log or generation", w->name);
    int r = FAILPOINT("publish.verify");
    return r < 0 ? fail(msg, r, "cannot verify %s: %s", w->name, error_text(r)) : 0;
}

/* The whole content of parts of any size, too: it was written a moment ago and reading it again takes less
 * time than building it; what is published is what all clients rely on until the next generation. */
static int verify_file(struct writing *w, struct errmsg *msg)
{
    const struct publisher *p = w->p;
    struct seg_header h;

    int r = segmap_fd(&w->map, w->draft.fd, &p->options.place, w->name, w->size, w->size, msg);
    if (r == 0)
        r = open_as_client(w, &h, msg);
    return r < 0 ? r : check_header(w, &h, msg);
}

static int link_file(struct writing *w, struct errmsg *msg)
{
    int r = draft_chmod(&w->draft, w->mode, w->group, msg);
    if (r < 0)
        return r;
    r = FAILPOINT("publish.link");
    if (r == 0)
        r = draft_link(&w->draft, w->p, w->name, msg);
    else
        fail(msg, r, "cannot link %s: %s", w->name, error_text(r));
    if (r < 0)
        return r;
    r = FAILPOINT("publish.linked");
    if (r < 0) {
        unlinkat(w->p->dir_fd, w->name, 0);
        return fail(msg, r, "%s was linked, but: %s", w->name, error_text(r));
    }
    return 0;
}

/* It has its name; note that, unless it is of an epoch that is over. */
static int note_linked(struct writing *w, struct errmsg *msg)
{
    struct linked *file = malloc(sizeof *file);

    if (file)
        *file = (struct linked){ .kind = w->kind,
                                 .generation = w->generation,
                                 .size = w->size,
                                 .dev = w->map.dev,
                                 .ino = w->map.ino };
    if (file && linked_add(w->p, w->epoch, file))
        return 0;
    unlinkat(w->p->dir_fd, w->name, 0);
    int r = file ? too_late(w, msg) : fail(msg, -ENOMEM, "no memory to publish %s", w->name);
    free(file);
    return r;
}

/* From reserving to linking.  What failed has no map any more. */
static int write_file(struct writing *w, publisher_fill_fn fill, void *arg, struct errmsg *msg)
{
    struct publisher *p = w->p;

    assert(w->size > 0 && !is_linked(p, w->kind, w->generation));
    begin_writing(w);
    shm_name(w->name, &p->options.place, w->kind, w->epoch, w->generation);
    int r = draft_make(&w->draft, p, w->epoch, w->size, msg);
    if (r < 0)
        return r;
    r = fill_file(w, fill, arg, msg);
    if (r == 0)
        r = verify_file(w, msg);
    if (r == 0)
        r = link_file(w, msg);
    if (r == 0)
        r = note_linked(w, msg);
    draft_drop(&w->draft, p);
    if (r < 0)
        segmap_close(&w->map);
    return r;
}

int publisher_write(struct publisher *p, enum shm_kind kind, uint64_t generation, size_t size,
                    publisher_fill_fn fill, void *arg, struct segmap *ret, struct errmsg *msg)
{
    struct writing w = { .p = p, .kind = kind, .generation = generation, .size = size };

    assert(kind == SHM_ROOT || kind == SHM_PART);
    int r = write_file(&w, fill, arg, msg);
    if (r == 0)
        *ret = w.map;
    return r;
}

/* ---- tails ----------------------------------------------------------------------------------------------- */

/* A file without a name and content, whose memory is there and mapped. */
struct publisher_spare {
    struct draft draft;
    uint64_t epoch; /* of its temporary name, if it has one */
    void *base;
    size_t size;
};

void publisher_spare_free(struct publisher *p, struct publisher_spare *spare)
{
    if (!spare)
        return;
    if (spare->base)
        munmap(spare->base, spare->size);
    draft_drop(&spare->draft, p);
    free(spare);
}

int publisher_spare_make(struct publisher_spare **ret, struct publisher *p, size_t size, struct errmsg *msg)
{
    struct writing now = { .p = p };
    struct publisher_spare *spare = malloc(sizeof *spare);

    if (!spare)
        return fail(msg, -ENOMEM, "no memory for a file");
    begin_writing(&now);
    *spare = (struct publisher_spare){ .draft.fd = -1, .epoch = now.epoch, .size = size };
    int r = draft_make(&spare->draft, p, spare->epoch, size, msg);
    if (r == 0) {
        spare->base = draft_map(&spare->draft, size);
        if (!spare->base)
            r = fail(msg, -errno, "cannot map %zu bytes of a file in %s: %s", size, p->options.place.dir,
                     strerrordesc_np(errno));
    }
    if (r < 0) {
        publisher_spare_free(p, spare);
        return r;
    }
    assert(spare->base);
    memset(spare->base, 0, size); /* which it is: so that who fills it waits for no page */
    *ret = spare;
    return 0;
}

/* By the map that it was written through: its bytes are the file's. */
static int verify_tail(struct writing *w, const struct publisher_spare *spare, struct errmsg *msg)
{
    struct stat st;
    struct tail t;

    if (fstat(w->draft.fd, &st) < 0)
        return fail(msg, -errno, "cannot look at %s: %s", w->name, strerrordesc_np(errno));
    w->map.dev = st.st_dev;
    w->map.ino = st.st_ino;
    int r = tail_open(&t, spare->base, spare->size, msg);
    if (r == 0)
        r = tail_verify(&t, msg);
    if (r < 0)
        return r;
    struct seg_header h = { .epoch = t.epoch, .generation = t.generation, .seed = t.seed, .log = t.log };
    return check_header(w, &h, msg);
}

static int name_spare(struct writing *w, struct publisher_spare *spare, publisher_fill_fn fill, void *arg,
                      struct errmsg *msg)
{
    w->draft = spare->draft;
    int r = fill(arg, spare->base, spare->size);
    if (r == 0)
        r = FAILPOINT("publish.fill");
    if (r < 0)
        return fail(msg, r, "cannot fill %s: %s", w->name, error_text(r));
    r = verify_tail(w, spare, msg);
    if (r == 0)
        r = link_file(w, msg);
    return r < 0 ? r : note_linked(w, msg);
}

int publisher_write_tail(struct publisher *p, struct publisher_spare *spare, uint64_t generation, size_t size,
                         publisher_fill_fn fill, void *arg, void **ret, struct errmsg *msg)
{
    struct writing w = { .p = p, .kind = SHM_TAIL, .generation = generation, .size = size };
    int r = 0;

    assert(size > 0 && !is_linked(p, SHM_TAIL, generation));
    begin_writing(&w);
    shm_name(w.name, &p->options.place, SHM_TAIL, w.epoch, generation);
    if (spare && (spare->epoch != w.epoch || spare->size != size)) {
        publisher_spare_free(p, spare); /* a take-over removes temporary names of older epochs */
        spare = NULL;
    }
    if (!spare)
        r = publisher_spare_make(&spare, p, size, msg);
    if (r < 0)
        return r;
    assert(spare);
    r = name_spare(&w, spare, fill, arg, msg);
    if (r == 0) {
        *ret = spare->base;
        spare->base = NULL;
    }
    publisher_spare_free(p, spare);
    return r;
}

/* ---- self-healing -------------------------------------------------------------------------------------- */

static bool page_is_linked(const struct publisher *p)
{
    char known[SHM_NAME_MAX], alias[SHM_NAME_MAX];

    shm_name(known, &p->options.place, SHM_CONTROL, 0, 0);
    shm_name(alias, &p->options.place, SHM_CONTROL_ALIAS, p->page_epoch, 0);
    return name_is(p, known, p->page_dev, p->page_ino) && name_is(p, alias, p->page_dev, p->page_ino);
}

static bool file_is_linked(struct publisher *p, enum shm_kind kind, uint64_t generation)
{
    char name[SHM_NAME_MAX];
    dev_t dev = 0;
    ino_t ino = 0;

    pthread_mutex_lock(&p->mutex);
    const struct linked *file = *linked_find(p, kind, generation);
    if (file) {
        dev = file->dev;
        ino = file->ino;
    }
    pthread_mutex_unlock(&p->mutex);
    return file && name_is(p, shm_name(name, &p->options.place, kind, p->epoch, generation), dev, ino);
}

/* Was the directory itself replaced?  Then go on in the new one, where our files are missing and so is the
 * lock. */
static void check_same_dir(struct publisher *p)
{
    struct stat held, named;

    if (fstat(p->dir_fd, &held) < 0 || stat(p->options.place.dir, &named) < 0 ||
        (held.st_dev == named.st_dev && held.st_ino == named.st_ino))
        return;
    int fd = open_dir(p, NULL);
    if (fd < 0)
        return;
    dup3(fd, p->dir_fd, O_CLOEXEC); /* the number stays: a worker may be using it */
    close(fd);
}

/* A lock file that was removed doesn't keep a second daemon out: make it anew.  Only a daemon that was
 * faster is an error; what else goes wrong is tried again the next time. */
static int check_lock(struct publisher *p)
{
    char name[SHM_NAME_MAX];
    struct stat st;

    shm_name(name, &p->options.place, SHM_LOCK, 0, 0);
    if (fstat(p->lock_fd, &st) < 0 || name_is(p, name, st.st_dev, st.st_ino))
        return 0;
    int fd = publisher_lock(p, NULL);
    if (fd < 0)
        return fd == SKADE_ERUNNING ? fd : 0;
    close(p->lock_fd);
    p->lock_fd = fd;
    return 0;
}

int publisher_check(struct publisher *p, uint64_t root, const uint64_t *parts, size_t parts_count)
{
    assert(p->page_fd >= 0);
    check_same_dir(p);
    int r = check_lock(p);
    if (r < 0)
        return r;
    if (!page_is_linked(p) || !file_is_linked(p, SHM_ROOT, root))
        return 0;
    if (is_linked(p, SHM_TAIL, root) && !file_is_linked(p, SHM_TAIL, root))
        return 0;
    for (size_t i = 0; i < parts_count; i++) {
        if (!file_is_linked(p, SHM_PART, parts[i]))
            return 0;
    }
    return 1;
}
