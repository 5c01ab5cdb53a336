#include "world.h"

#include "checksum.h"
#include "client.h"
#include "tempdir.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- making -------------------------------------------------------------------------------------------- */

static void new_log(struct world *w)
{
    static uint8_t logs;

    logs++;
    for (size_t i = 0; i < sizeof w->log.b; i++)
        w->log.b[i] = (uint8_t)(logs * 16 + i);
    w->seed = 0x9e3779b97f4a7c15ull * logs;
}

static struct world *worlds;

struct world *world_make(void)
{
    struct world *w = calloc(1, sizeof *w);
    ck_assert_ptr_nonnull(w);
    w->next = worlds;
    worlds = w;
    const char *dir = tempdir();
    snprintf(w->run, sizeof w->run, "%s/run", dir);
    snprintf(w->place.dir, sizeof w->place.dir, "%s/shm", dir);
    ck_assert_int_eq(mkdir(w->run, 0700), 0);
    ck_assert_int_eq(mkdir(w->place.dir, 0700), 0);
    snprintf(w->place.instance, sizeof w->place.instance, "default");
    w->place.uid = geteuid();
    pthread_mutex_init(&w->lock, NULL);
    new_log(w);
    setenv("SKADE_SHM_DIR", w->place.dir, 1); /* where a handle looks before a daemon told it */
    return w;
}

void world_replace_log(struct world *w)
{
    pthread_mutex_lock(&w->lock);
    w->seq = 0;
    w->tables = 0;
    w->parts_count = 0;
    new_log(w);
    pthread_mutex_unlock(&w->lock);
}

void world_go_back(struct world *w, uint64_t seq)
{
    pthread_mutex_lock(&w->lock);
    ck_assert_uint_le(seq, w->seq);
    w->seq = seq;
    w->tables = 0;
    for (uint64_t i = 0; i < seq; i++)
        w->tables += w->events[i].kind == EVENT_CREATE;
    w->parts_count = 0;
    pthread_mutex_unlock(&w->lock);
}

/* ---- the log ------------------------------------------------------------------------------------------- */

/* Texts live as long as the process, too. */
static struct text {
    struct text *next;
    char data[];
} * texts;

static struct bytes keep(struct bytes text)
{
    struct text *copy = malloc(sizeof *copy + text.len + 1);
    ck_assert_ptr_nonnull(copy);
    copy->next = texts;
    texts = copy;
    if (text.len)
        memcpy(copy->data, text.data, text.len);
    copy->data[text.len] = 0;
    return (struct bytes){ copy->data, text.len };
}

uint64_t world_add(struct world *w, const struct event *e)
{
    pthread_mutex_lock(&w->lock);
    ck_assert_uint_lt(w->seq, WORLD_EVENTS);
    struct event *to = &w->events[w->seq];
    *to = *e;
    to->seq = ++w->seq;
    to->text = keep(e->text);
    to->text2 = keep(e->text2);
    uint64_t seq = to->seq;
    if (to->kind != EVENT_COMMIT && to->kind != EVENT_CREATE)
        w->tail = NULL; /* T4: the next publication has another one */
    if (w->tail) {
        tail_append(w->tail, to);
        tail_show(w->tail); /* T2 */
    }
    if (w->page) /* P3: before anybody is told of it over the socket */
        atomic_store_explicit(&w->page->commit_seq, seq, memory_order_release);
    pthread_mutex_unlock(&w->lock);
    return seq;
}

uint32_t world_create(struct world *w, const char *name)
{
    pthread_mutex_lock(&w->lock);
    uint32_t table = ++w->tables;
    pthread_mutex_unlock(&w->lock);
    world_add(w, &(struct event){ .kind = EVENT_CREATE,
                                  .table = table,
                                  .text = bytes_of(name),
                                  .text2 = bytes_of("s3://external") });
    return table;
}

uint64_t world_commit(struct world *w, uint32_t table, int64_t id, int64_t time_us, const char *location)
{
    const struct event *before;
    uint32_t flags = EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT;

    int status = world_resolve(w, table, id, SEQ_MAX, &before);
    if (status == SKADE_ENOSNAPSHOT)
        flags |= EVENT_INTRODUCES;
    return world_add(w, &(struct event){ .kind = EVENT_COMMIT,
                                         .flags = flags,
                                         .table = table,
                                         .snapshot = id,
                                         .time_us = time_us,
                                         .text = bytes_of(location) });
}

uint64_t world_rename(struct world *w, uint32_t table, const char *name)
{
    return world_add(w, &(struct event){ .kind = EVENT_RENAME,
                                         .table = table,
                                         .text = bytes_of(name),
                                         .text2 = world_name(w, table, SEQ_MAX) });
}

uint64_t world_drop(struct world *w, uint32_t table)
{
    return world_add(
        w, &(struct event){ .kind = EVENT_DROP, .table = table, .text = world_name(w, table, SEQ_MAX) });
}

uint64_t world_expire(struct world *w, uint32_t table, uint64_t watermark)
{
    return world_add(w, &(struct event){ .kind = EVENT_EXPIRE, .table = table, .watermark = watermark });
}

/* ---- the truth ----------------------------------------------------------------------------------------- */

static bool lives(struct world *w, uint32_t table, uint64_t at)
{
    bool alive = false;
    for (uint64_t i = 0; i < w->seq && w->events[i].seq <= at; i++) {
        const struct event *e = &w->events[i];
        if (e->table == table && e->kind == EVENT_CREATE)
            alive = true;
        if (e->table == table && e->kind == EVENT_DROP)
            alive = false;
    }
    return alive;
}

static uint64_t watermark(struct world *w, uint32_t table, uint64_t at, uint64_t *by)
{
    uint64_t mark = 0;
    *by = 0;
    for (uint64_t i = 0; i < w->seq && w->events[i].seq <= at; i++) {
        const struct event *e = &w->events[i];
        if (e->table == table && e->kind == EVENT_EXPIRE) {
            mark = e->watermark;
            *by = e->seq;
        }
    }
    return mark;
}

uint64_t world_retired_by(struct world *w, uint32_t table, uint64_t at)
{
    uint64_t by;
    watermark(w, table, at, &by);
    return by;
}

static int verdict(struct world *w, uint32_t table, uint64_t at, const struct event *e)
{
    uint64_t by;

    if (!lives(w, table, at))
        return SKADE_ENOTABLE;
    if (!e)
        return SKADE_ENOSNAPSHOT;
    return e->seq <= watermark(w, table, at, &by) ? SKADE_EEXPIRED : 1;
}

int world_resolve(struct world *w, uint32_t table, int64_t id, uint64_t at, const struct event **ret)
{
    *ret = NULL;
    for (uint64_t i = 0; i < w->seq && w->events[i].seq <= at && !*ret; i++) {
        const struct event *e = &w->events[i];
        if (e->table == table && e->kind == EVENT_COMMIT && (e->flags & EVENT_INTRODUCES) &&
            e->snapshot == id)
            *ret = e;
    }
    return verdict(w, table, at, *ret);
}

int world_head(struct world *w, uint32_t table, uint64_t at, const struct event **ret)
{
    *ret = NULL;
    for (uint64_t i = 0; i < w->seq && w->events[i].seq <= at; i++) {
        const struct event *e = &w->events[i];
        if (e->table == table && e->kind == EVENT_COMMIT && (e->flags & EVENT_MOVES_HEAD))
            *ret = e;
    }
    return verdict(w, table, at, *ret);
}

int world_as_of(struct world *w, uint32_t table, int64_t time_us, uint64_t at, const struct event **ret)
{
    *ret = NULL;
    for (uint64_t i = 0; i < w->seq && w->events[i].seq <= at; i++) {
        const struct event *e = &w->events[i];
        if (e->table == table && e->kind == EVENT_COMMIT && (e->flags & EVENT_MOVES_HEAD) &&
            e->time_us <= time_us && (!*ret || e->time_us >= (*ret)->time_us))
            *ret = e;
    }
    return verdict(w, table, at, *ret);
}

struct bytes world_name(struct world *w, uint32_t table, uint64_t at)
{
    struct bytes name = { "", 0 };
    for (uint64_t i = 0; i < w->seq && w->events[i].seq <= at; i++) {
        const struct event *e = &w->events[i];
        if (e->table == table && (e->kind == EVENT_CREATE || e->kind == EVENT_RENAME))
            name = e->text;
    }
    return name;
}

uint32_t world_find(struct world *w, struct bytes name, uint64_t at)
{
    for (uint32_t t = 1; t <= w->tables; t++) {
        if (lives(w, t, at) && bytes_equal(world_name(w, t, at), name))
            return t;
    }
    return 0;
}

/* ---- files --------------------------------------------------------------------------------------------- */

const char *world_file(const struct world *w, enum shm_kind kind, uint64_t generation)
{
    static char path[SHM_DIR_MAX + SHM_NAME_MAX];
    char name[SHM_NAME_MAX];

    snprintf(path, sizeof path, "%s/%s", w->place.dir, shm_name(name, &w->place, kind, w->epoch, generation));
    return path;
}

static void write_file(const char *path, const void *data, size_t size, mode_t mode)
{
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, data, size), (ssize_t)size);
    ck_assert_int_eq(fchmod(fd, mode), 0);
    close(fd);
}

static void fill_page(struct world *w, struct control_page *page)
{
    memcpy(page->magic, FORMAT_MAGIC_CONTROL, sizeof page->magic);
    page->major = FORMAT_MAJOR;
    page->size = CONTROL_SIZE;
    page->epoch = w->epoch;
    page->log = w->log;
    page->seed = w->seed;
    page->counters = 3;
    page->check = checksum(page, offsetof(struct control_page, check), 0);
    atomic_store(&page->commit_seq, w->seq);
}

void world_new_page(struct world *w)
{
    char temporary[SHM_DIR_MAX + SHM_NAME_MAX];
    struct stat st;

    pthread_mutex_lock(&w->lock);
    w->epoch++;
    w->parts_count = 0;
    w->tail = NULL;
    pthread_mutex_unlock(&w->lock);
    snprintf(temporary, sizeof temporary, "%s/temporary", w->place.dir);
    int fd = open(temporary, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, CONTROL_SIZE), 0);
    struct control_page *page = mmap(NULL, CONTROL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(page, MAP_FAILED);
    fill_page(w, page);
    ck_assert_int_eq(fchmod(fd, 0400), 0);
    ck_assert_int_eq(fstat(fd, &st), 0);
    close(fd);
    ck_assert_int_eq(rename(temporary, world_file(w, SHM_CONTROL, 0)), 0);
    pthread_mutex_lock(&w->lock);
    w->page = page;
    w->dev = st.st_dev;
    w->ino = st.st_ino;
    pthread_mutex_unlock(&w->lock);
}

void world_retire_page(struct world *w)
{
    atomic_store(&w->page->generation, CONTROL_RETIRED); /* P5 */
}

void world_beat(struct world *w)
{
    atomic_fetch_add(&w->page->heartbeat, 1); /* P6 */
}

static uint64_t covered(const struct world *w)
{
    return w->parts_count ? w->parts[w->parts_count - 1].to_seq : 0;
}

static void make_part(struct world *w)
{
    const struct event *rows[WORLD_EVENTS];
    struct part_info info = { .log = w->log,
                              .seed = w->seed,
                              .epoch = w->epoch,
                              .generation = w->generation,
                              .from_seq = covered(w),
                              .to_seq = w->seq };
    struct part_plan *plan;
    size_t n = 0;

    for (uint64_t i = info.from_seq; i < w->seq; i++) {
        if (w->events[i].kind == EVENT_COMMIT)
            rows[n++] = &w->events[i];
    }
    ck_assert_int_eq(part_plan_rows(&plan, &info, rows, n), 0);
    size_t size = part_plan_size(plan);
    void *buf = aligned_alloc(64, align_up(size, 64));
    ck_assert_int_eq(part_plan_fill(plan, buf, size), 0);
    part_plan_free(plan);
    write_file(world_file(w, SHM_PART, w->generation), buf, size, 0400);
    const struct seg_header *h = buf;
    ck_assert_uint_lt(w->parts_count, WORLD_PARTS);
    w->parts[w->parts_count++] = (struct root_part){ .generation = w->generation,
                                                     .from_seq = info.from_seq,
                                                     .to_seq = info.to_seq,
                                                     .size = size,
                                                     .header_check = h->header_check,
                                                     .rows = n };
    free(buf);
}

/* Where the head is: the record of a part that has its sequence number. */
static void find_head(struct world *w, uint32_t table, struct root_table *row)
{
    const struct event *head;
    struct part_hit hit;

    int status = world_head(w, table, SEQ_MAX, &head);
    if (!head || status == SKADE_ENOTABLE)
        return;
    for (size_t i = 0; i < w->parts_count; i++) {
        struct segmap map = { .base = NULL };
        struct part *part;
        char name[SHM_NAME_MAX];
        shm_name(name, &w->place, SHM_PART, w->epoch, w->parts[i].generation);
        ck_assert_int_eq(segmap_open(&map, &w->place, name, 1, SIZE_MAX, NULL), 0);
        ck_assert_int_eq(part_open(&part, map.base, map.size, 0, NULL), 0);
        if (part_head(part, table, SEQ_MAX, &hit) == 1 && hit.seq == head->seq) {
            row->head_seq = hit.seq;
            row->head_part = (uint32_t)i;
            row->head_ref = hit.ref;
        }
        part_close(part);
        segmap_close(&map);
    }
}

static size_t collect_names(const struct world *w, struct root_name_row *names)
{
    size_t n = 0;
    for (uint64_t i = 0; i < w->seq; i++) {
        const struct event *e = &w->events[i];
        bool ends = e->kind == EVENT_RENAME || e->kind == EVENT_DROP;
        for (size_t k = 0; ends && k < n; k++) {
            if (names[k].table == e->table && names[k].to_seq == SEQ_MAX)
                names[k].to_seq = e->seq;
        }
        if (e->kind == EVENT_CREATE || e->kind == EVENT_RENAME)
            names[n++] = (struct root_name_row){ e->text, e->seq, SEQ_MAX, e->table };
    }
    return n;
}

static void collect_tables(struct world *w, struct root_table *tables)
{
    for (uint32_t t = 1; t <= w->tables; t++) {
        struct root_table *row = &tables[t - 1];
        *row = (struct root_table){ .dropped_seq = SEQ_MAX, .kind = TABLE_EXTERNAL };
        row->watermark = watermark(w, t, SEQ_MAX, &row->retired_by);
        find_head(w, t, row);
    }
    for (uint64_t i = 0; i < w->seq; i++) {
        const struct event *e = &w->events[i];
        if (e->kind == EVENT_CREATE)
            tables[e->table - 1].created_seq = e->seq;
        if (e->kind == EVENT_DROP)
            tables[e->table - 1].dropped_seq = e->seq;
    }
}

static void make_root(struct world *w)
{
    static struct root_name_row names[WORLD_EVENTS];
    static struct root_table tables[WORLD_EVENTS];
    struct root_input in = { .log = w->log,
                             .seed = w->seed,
                             .epoch = w->epoch,
                             .generation = w->generation,
                             .covered = covered(w),
                             .names_seq = w->seq,
                             .parts = w->parts,
                             .parts_count = w->parts_count,
                             .tables = tables,
                             .tables_count = w->tables,
                             .names = names,
                             .names_count = collect_names(w, names) };

    collect_tables(w, tables);
    size_t size = root_size(&in);
    void *buf = aligned_alloc(64, align_up(size, 64));
    ck_assert_int_eq(root_fill(&in, buf, size), 0);
    write_file(world_file(w, SHM_ROOT, w->generation), buf, size, 0400);
    free(buf);
}

/* Maps live as long as the process. */
static void make_tail(struct world *w)
{
    struct tail_info info = { .log = w->log,
                              .seed = w->seed,
                              .epoch = w->epoch,
                              .generation = w->generation,
                              .from_seq = covered(w),
                              .room = w->tail_room ? w->tail_room : 1000,
                              .lines = 5000 };
    uint64_t size = tail_size(info.room, info.lines);
    static struct tail_writer writers[64];
    static size_t used;

    w->tail = NULL;
    if (!w->tails)
        return;
    ck_assert_uint_lt(used, ARRAY_SIZE(writers));
    struct tail_writer *t = &writers[used++];
    int fd = open(world_file(w, SHM_TAIL, w->generation), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(map, MAP_FAILED);
    ck_assert_int_eq(fchmod(fd, 0400), 0);
    close(fd);
    tail_begin(t, &info, map);
    for (uint64_t i = info.from_seq; i < w->seq; i++)
        tail_append(t, &w->events[i]);
    tail_show(t); /* T4: before the word is stored */
    w->tail = t;
}

uint64_t world_make_files(struct world *w)
{
    w->generation++;
    if (w->seq > covered(w))
        make_part(w);
    make_root(w);
    make_tail(w);
    return w->generation;
}

uint64_t world_publish_behind(struct world *w)
{
    w->generation++;
    make_root(w);
    make_tail(w);
    atomic_store_explicit(&w->page->generation, w->generation, memory_order_release); /* P2 */
    return w->generation;
}

uint64_t world_publish(struct world *w)
{
    uint64_t generation = world_make_files(w);
    atomic_store_explicit(&w->page->generation, generation, memory_order_release); /* P2 */
    return generation;
}

/* ---- handles ------------------------------------------------------------------------------------------- */

int world_try_open(struct world *w, unsigned flags, int timeout_ms, skade **ret)
{
    struct skade_options o = {
        .size = sizeof o, .run_dir = w->run, .flags = flags, .label = "test", .timeout_ms = timeout_ms
    };

    return skade_open(ret, &o);
}

skade *world_open(struct world *w, unsigned flags)
{
    skade *s = NULL;
    int r = world_try_open(w, flags, 20000, &s);
    ck_assert_msg(r == 0, "%s: %s", skade_errname(r), skade_errmsg(NULL));
    return s;
}

skade *world_open_impatient(struct world *w, int timeout_ms)
{
    skade *s = world_open(w, 0);
    s->timeout_ms = timeout_ms; /* not before: opening must not depend on how busy the machine is */
    return s;
}

struct wanted {
    const char *name;
    uint64_t value;
    bool found;
};

static int find_counter(void *arg, const char *name, uint64_t value, const char *unit, const char *kind,
                        const char *help)
{
    struct wanted *wanted = arg;

    (void)unit, (void)kind, (void)help;
    if (strcmp(wanted->name, name) == 0) {
        wanted->value = value;
        wanted->found = true;
    }
    return 0;
}

uint64_t handle_counter(skade *s, const char *name)
{
    struct wanted wanted = { .name = name };

    ck_assert_int_eq(skade_client_stats(s, find_counter, &wanted), 0);
    ck_assert_msg(wanted.found, "no counter %s", name);
    return wanted.value;
}

_Thread_local int64_t test_clock_ms = 1000000;

static int64_t read_test_clock(void)
{
    return test_clock_ms;
}

void handle_clock(skade *s)
{
    s->coarse_ms = read_test_clock;
}

struct skade_answer answer(void)
{
    static _Thread_local char buffer[SKADE_LOCATION_MAX + 1];
    return (struct skade_answer)SKADE_ANSWER(buffer, sizeof buffer);
}
