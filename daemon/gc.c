#include "gc.h"

#include "failpoint.h"
#include "filelist.h"
#include "leases.h"
#include "log.h"
#include "store.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Names that a worker removes before the loop looks again. */
#define REMOVE_SLICE 1000

/* KEPT: which files they are can't be told, so all stay; whoever asks to have them removed lets us look again. */
enum stage { STAGE_LISTING, STAGE_MEASURING, STAGE_WAITING, STAGE_REMOVING, STAGE_KEPT };

/* The files that one event took out of use. */
struct retired {
    struct retired *next;
    struct gc *gc;
    uint32_t table, n;               /* n: whose directory is shown */
    uint64_t seq;                    /* of the event */
    uint64_t after, up_to, base_seq; /* what it retired: commits in (after, up_to] and this base */
    int64_t retired_us;
    uint64_t due_ms;
    enum stage stage;
    struct filelist list;
    uv_work_t work;
    /* the worker's while it works */
    char **paths; /* what is there, in the order of removal */
    size_t count, cap, removed;
    size_t told; /* of removed: counted already */
    uint64_t bytes;
    bool missing; /* some were removed before */
    int error;
    struct errmsg msg; /* why it is kept */
};

struct asker {
    struct asker *next;
    struct session *session;
    uint64_t request;
    uint32_t table;
    bool now; /* what he asked for has no grace window any more */
};

struct gc {
    struct server *server;
    struct retired *first;
    struct asker *askers;
    bool stopping;
};

static void advance(struct retired *r);
static void answer_askers(struct gc *gc);

/* ---- life of a retirement ---------------------------------------------------------------------------------------------- */

static void forget_paths(struct retired *r)
{
    filelist_fini(&r->list);
    for (size_t i = 0; i < r->count; i++)
        free(r->paths[i]);
    free(r->paths);
    r->paths = NULL;
    r->count = r->cap = 0;
}

/* What is measured is counted; LEFT: it is no more. */
static void count_retired(const struct retired *r, bool left)
{
    struct control_page *page = r->gc->server->page;
    uint64_t files = r->count - r->removed;

    counter_add(page, COUNTER_retired_files, left ? files : (uint64_t)0 - files);
    counter_add(page, COUNTER_retired_bytes, left ? r->bytes : (uint64_t)0 - r->bytes);
}

static bool is_measured(const struct retired *r)
{
    return r->stage != STAGE_LISTING && r->stage != STAGE_MEASURING;
}

static void retired_free(struct retired *r)
{
    struct retired **link = &r->gc->first;

    while (*link != r)
        link = &(*link)->next;
    *link = r->next;
    if (is_measured(r))
        count_retired(r, false);
    forget_paths(r);
    free(r);
}

static int add_path(struct retired *r, const char *path)
{
    struct stat st;

    if (lstat(path, &st) < 0) {
        r->missing = true;
        return errno == ENOENT ? 0 : fail(&r->msg, -errno, "%s: %s", path, strerror(errno));
    }
    if (r->count == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : 64;
        char **more = realloc(r->paths, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        r->paths = more;
        r->cap = cap;
    }
    r->paths[r->count] = strdup(path);
    if (!r->paths[r->count])
        return -ENOMEM;
    r->count++;
    r->bytes += (uint64_t)st.st_size;
    return 0;
}

/* The .rows files of a base, and last the manifest that names them. */
static int add_base(struct retired *r, const char *path)
{
    struct manifest m;
    struct server *s = r->gc->server;
    char dir[LOCATION_MAX + 1], name[ENTRY_NAME_MAX], file[LOCATION_MAX + 1 + ENTRY_NAME_MAX];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0) {
        r->missing = true;
        return errno == ENOENT ? 0 : fail(&r->msg, -errno, "%s: %s", path, strerror(errno));
    }
    int result = manifest_read(&m, fd, path, &s->origin, r->table, &r->msg);
    close(fd);
    if (result < 0) {
        add_path(r, path); /* of what it names nothing is known */
        return result;
    }
    snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    *slash = 0;
    for (uint32_t i = 0; result == 0 && i < m.header.files; i++) {
        snprintf(file, sizeof file, "%s/%s", dir, entry_name(name, NAME_ROWS, &m.header.uuid, i + 1));
        result = add_path(r, file);
    }
    manifest_fini(&m);
    return result < 0 ? result : add_path(r, path);
}

static void run_measure(uv_work_t *work)
{
    struct retired *r = work->data;

    r->error = FAILPOINT("gc.measure");
    for (size_t i = 0; i < r->list.count && (r->error == 0 || r->msg.text[0]); i++) {
        int result =
            r->list.files[i].base ? add_base(r, r->list.files[i].path) : add_path(r, r->list.files[i].path);
        if (r->error == 0)
            r->error = result;
    }
}

/* In mode `normal` a mark stays until here; it is a second name of the same bytes. */
static void remove_mark(const char *path)
{
    char name[ENTRY_NAME_MAX], mark[LOCATION_MAX + ENTRY_NAME_MAX];
    enum entry_name kind;
    struct uuid uuid;
    uint32_t part;
    const char *base = strrchr(path, '/') + 1;

    if (!entry_name_parse(base, &kind, &uuid, &part) || kind == NAME_ROWS)
        return;
    snprintf(mark, sizeof mark, "%.*s%s", (int)(base - path), path, entry_name(name, NAME_PENDING, &uuid, 0));
    unlink(mark);
}

static void run_remove(uv_work_t *work)
{
    struct retired *r = work->data;
    size_t end = r->removed + REMOVE_SLICE;

    for (; r->removed < r->count && r->removed < end; r->removed++) {
        int injected = FAILPOINT("gc.remove");
        r->error = injected < 0 ? injected : unlink(r->paths[r->removed]) < 0 && errno != ENOENT ? -errno : 0;
        if (r->error < 0)
            return;
        remove_mark(r->paths[r->removed]);
    }
}

static void worked(uv_work_t *work, int status)
{
    struct retired *r = work->data;

    (void)status;
    r->gc->server->workers--;
    advance(r);
}

static void start_work(struct retired *r, uv_work_cb run)
{
    r->work.data = r;
    r->gc->server->workers++;
    if (world.work(&r->gc->server->loop, &r->work, run, worked) < 0)
        abort(); /* only for a NULL callback */
}

/* From here on no lease on an older moment is granted: its files go. */
static void mark_collected(struct retired *r)
{
    struct table *t = ledger_table(r->gc->server->ledger, r->table);

    if (t->collected_seq < r->seq)
        t->collected_seq = r->seq;
}

/* Leases that hold its files. */
static size_t holders(const struct retired *r)
{
    return leases_before(r->gc->server, r->table, r->seq);
}

static bool may_go(const struct retired *r)
{
    return r->stage == STAGE_WAITING && r->due_ms <= world.now_ms(&r->gc->server->loop) &&
           leases_oldest(r->gc->server, r->table) >= r->seq;
}

static void remove_now(struct retired *r)
{
    mark_collected(r);
    r->stage = STAGE_REMOVING;
    start_work(r, run_remove);
}

static void try_again_later(struct retired *r)
{
    log_warning("retired files of table %" PRIu32 " can't be removed: %s; trying again", r->table,
                error_text(r->error));
    r->error = 0;
    r->stage = STAGE_WAITING;
    r->due_ms = world.now_ms(&r->gc->server->loop) + (uint64_t)r->gc->server->config.gc_grace;
}

static void keep(struct retired *r)
{
    if (!r->msg.text[0])
        fail(&r->msg, r->error, "its files can't be looked at: %s", error_text(r->error));
    log_warning("retired files of table %" PRIu32 " are kept: %s; mend that, then: skadectl gc --now",
                r->table, r->msg.text);
    r->stage = STAGE_KEPT;
}

static void measured(struct retired *r)
{
    if (r->missing)
        mark_collected(r);
    filelist_fini(&r->list);
    if (r->error < 0)
        keep(r);
    else
        r->stage = STAGE_WAITING;
    count_retired(r, true);
}

static void tell_removed(struct retired *r)
{
    struct server *s = r->gc->server;

    counter_add(s->page, COUNTER_removed_files, r->removed - r->told);
    counter_add(s->page, COUNTER_retired_files, (uint64_t)0 - (r->removed - r->told));
    r->told = r->removed;
}

/* A step is over: what comes next. */
static void advance(struct retired *r)
{
    struct gc *gc = r->gc;

    if (gc->stopping) {
        retired_free(r);
        return;
    }
    if (r->stage == STAGE_MEASURING) {
        measured(r);
        if (r->stage == STAGE_WAITING && r->count == 0) {
            retired_free(r);
        } else if (may_go(r)) { /* who asked to have it removed at once waits for that */
            remove_now(r);
            return;
        }
    } else if (r->stage == STAGE_REMOVING) {
        tell_removed(r);
        if (r->error < 0) {
            try_again_later(r);
        } else if (r->removed < r->count) {
            start_work(r, run_remove);
            return;
        } else {
            log_info("table %" PRIu32 ": %zu files retired by event %" PRIu64 " removed", r->table, r->count,
                     r->seq);
            retired_free(r);
        }
    }
    answer_askers(gc);
}

static void listed(struct filelist *l)
{
    struct retired *r = l->owner;

    if (r->gc->stopping) {
        struct gc *gc = r->gc;
        retired_free(r);
        answer_askers(gc);
        return;
    }
    if (l->error < 0) {
        r->error = l->error;
        keep(r);
        answer_askers(r->gc);
        return;
    }
    r->stage = STAGE_MEASURING;
    start_work(r, run_measure);
}

/* Which files are they, and which are there?  In the end they wait, or are kept. */
static void look(struct retired *r)
{
    forget_paths(r);
    r->bytes = 0;
    r->error = 0;
    r->msg.text[0] = 0;
    r->stage = STAGE_LISTING;
    r->list = (struct filelist){ .server = r->gc->server,
                                 .table = r->table,
                                 .after = r->after,
                                 .seq = r->up_to,
                                 .base_seq = r->base_seq,
                                 .owner = r,
                                 .done = listed };
    filelist_start(&r->list);
}

/* A retirement by event SEQ of T: commits in (AFTER, UP_TO] and the base BASE. */
static void add(struct gc *gc, const struct table *t, uint64_t seq, uint64_t up_to, int64_t retired_us)
{
    struct retired *r = calloc(1, sizeof *r);
    uint32_t number;

    if (!r) {
        log_warning("no memory to remember retired files of table %" PRIu32
                    ": they are found at the next start",
                    t->number);
        return;
    }
    const struct retirement *base = table_base(t, seq - 1, &number);
    r->gc = gc;
    r->table = t->number;
    r->n = number;
    r->seq = seq;
    r->after = base ? base->watermark : 0;
    r->up_to = up_to;
    r->base_seq = base ? base->seq : 0;
    r->retired_us = retired_us ? retired_us : server_now_us();
    r->due_ms = world.now_ms(&gc->server->loop) + (uint64_t)gc->server->config.gc_grace;
    r->next = gc->first;
    gc->first = r;
    look(r);
}

void gc_retired(struct server *s, const struct event *e)
{
    const struct table *t = ledger_table(s->ledger, e->table);

    if (!s->gc || !t || t->kind != TABLE_STORED)
        return;
    if (e->kind == EVENT_COMPACT)
        add(s->gc, t, e->seq, e->watermark, t->retirements[t->retirements_count - 1].time_us);
    else if (e->kind == EVENT_DROP)
        add(s->gc, t, e->seq, e->seq, e->time_us);
}

/* ---- start ------------------------------------------------------------------------------------------------------------------ */

static bool has_files(const struct server *s, uint32_t table, uint32_t n)
{
    char path[OPTION_TEXT_MAX + 64];
    bool any = false;
    DIR *d = opendir(store_dir_name(s->store, path, sizeof path, table, n));

    if (!d)
        return false;
    for (struct dirent *e; !any && (e = readdir(d));)
        any = strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    if (!any)
        rmdir(path);
    return any;
}

/* Retirement k took files of the directories up to k out of use: nothing is left of it when these are empty. */
static void look_at(struct gc *gc, struct table *t)
{
    const struct server *s = gc->server;
    uint32_t number, oldest = UINT32_MAX, k = 0;

    table_base(t, SEQ_MAX, &number);
    for (uint32_t n = 0; n < number + (t->dropped_seq != SEQ_MAX); n++)
        if (has_files(s, t->number, n) && oldest == UINT32_MAX)
            oldest = n;
    for (size_t i = 0; i < t->retirements_count; i++) {
        if (!t->retirements[i].compaction)
            continue;
        if (k++ >= oldest)
            add(gc, t, t->retirements[i].seq, t->retirements[i].watermark, t->retirements[i].time_us);
        else
            t->collected_seq = t->retirements[i].seq;
    }
    if (t->dropped_seq != SEQ_MAX && oldest != UINT32_MAX)
        add(gc, t, t->dropped_seq, t->dropped_seq, t->dropped_us);
    else if (t->dropped_seq != SEQ_MAX)
        t->collected_seq = t->dropped_seq;
}

int gc_start(struct server *s, struct errmsg *msg)
{
    s->gc = calloc(1, sizeof *s->gc);
    if (!s->gc)
        return fail(msg, -ENOMEM, "no memory");
    s->gc->server = s;
    for (size_t i = 0; i < s->ledger->tables_count; i++)
        if (s->ledger->tables[i]->kind == TABLE_STORED && !s->readonly[0])
            look_at(s->gc, s->ledger->tables[i]);
    return 0;
}

/* ---- asking ---------------------------------------------------------------------------------------------------------------------- */

static bool concerns(const struct asker *a, const struct retired *r)
{
    return !a->table || a->table == r->table;
}

static void put_row(struct session *s, const struct retired *r)
{
    const struct server *server = s->server;
    char dir[OPTION_TEXT_MAX + 64], waiting[sizeof r->msg.text + 16] = "";
    uint64_t now = world.now_ms(&server->loop);
    size_t leases = holders(r);

    if (r->stage == STAGE_KEPT)
        snprintf(waiting, sizeof waiting, "kept: %s", r->msg.text);
    else if (leases)
        snprintf(waiting, sizeof waiting, "%zu lease%s", leases, leases == 1 ? "" : "s");
    else if (r->due_ms > now)
        snprintf(waiting, sizeof waiting, "grace window");
    int64_t left_us = r->due_ms > now ? (int64_t)(r->due_ms - now) * 1000 : 0;
    struct item_gc_row row = { .table = r->table,
                               .name = ledger_name_at(server->ledger, r->table, SEQ_MAX),
                               .dir =
                                   bytes_of(store_dir_name(server->store, dir, sizeof dir, r->table, r->n)),
                               .files = r->count - r->removed,
                               .bytes = r->bytes,
                               .retired_us = r->retired_us,
                               .due_us = server_now_us() + left_us,
                               .waiting_for = bytes_of(waiting) };
    wire_put_gc_row(&s->out, &row);
}

/* NOLINTBEGIN(clang-analyzer-unix.Malloc): it can't see that who is freed is in no list any more */
static void answer(struct gc *gc, const struct asker *a)
{
    struct session *s = a->session;
    struct msg_gc_list m = { 0 };
    uint32_t count = 0;

    if (s->closing)
        return;
    size_t at = answer_begin(s);
    wire_put_gc_list(&s->out, &m);
    size_t count_at = s->out.len - sizeof(uint32_t);
    for (const struct retired *r = gc->first; r; r = r->next)
        if (concerns(a, r)) {
            put_row(s, r);
            count++;
        }
    wr_patch_u32(&s->out, count_at, count);
    answer_end(s, at, WIRE_GC_LIST, 0, a->request);
}
/* NOLINTEND(clang-analyzer-unix.Malloc) */

static bool busy(const struct gc *gc, const struct asker *a)
{
    for (const struct retired *r = gc->first; r; r = r->next)
        if (concerns(a, r) && r->stage != STAGE_WAITING && r->stage != STAGE_KEPT)
            return true;
    return false;
}

/* Also when the last lease ended while something else was removed. */
static void remove_due(struct gc *gc, const struct asker *a)
{
    for (struct retired *r = gc->first; r; r = r->next)
        if (concerns(a, r) && may_go(r))
            remove_now(r);
}

static void free_asker(struct asker *a)
{
    struct session *s = a->session;

    free(a);
    s->inflight--;
    session_flush(s);
    session_resume(s);
    if (s->draining && !s->inflight)
        session_drain(s);
    session_unref(s);
}

/* Whoever asked gets the list when nothing that concerns him is under way. */
static void answer_askers(struct gc *gc)
{
    struct asker *ready = NULL;

    /* Answering lets sessions go on, ask again or end: by then nobody may stand in a list that is walked here. */
    for (struct asker **link = &gc->askers; *link;) {
        struct asker *a = *link;
        if (a->now && !gc->stopping)
            remove_due(gc, a);
        if (!gc->stopping && busy(gc, a)) {
            link = &a->next;
            continue;
        }
        *link = a->next;
        a->next = ready;
        ready = a;
    }
    while (ready) {
        struct asker *a = ready;
        ready = a->next;
        answer(gc, a);
        free_asker(a);
    }
}

void gc_leave(struct session *s)
{
    struct gc *gc = s->server->gc;

    for (struct asker **link = gc ? &gc->askers : NULL; link && *link;) {
        struct asker *a = *link;
        if (a->session != s) {
            link = &a->next;
            continue;
        }
        *link = a->next;
        free_asker(a);
    }
}

/* Without the grace window; and what was kept is looked at again, somebody may have mended what was wrong. */
static void hurry(struct retired *r)
{
    r->due_ms = 0;
    if (r->stage != STAGE_KEPT)
        return;
    count_retired(r, false);
    look(r);
}

void gc_ask(struct session *s, uint64_t request, const struct msg_gc *m)
{
    struct gc *gc = s->server->gc;
    struct asker *a = malloc(sizeof *a);

    if (!a) {
        answer_error(s, request, -ENOMEM, "skaded has no memory for a list of retired files: try again");
        return;
    }
    *a = (struct asker){ gc->askers, session_ref(s), request, m->table, m->now };
    gc->askers = a;
    s->inflight++;
    for (struct retired *r = gc->first; m->now && r; r = r->next)
        if (concerns(a, r))
            hurry(r);
    answer_askers(gc);
}

/* ---- each second -------------------------------------------------------------------------------------------------------------------- */

void gc_tick(struct server *s)
{
    for (struct retired *r = s->gc->first; r; r = r->next)
        if (may_go(r))
            remove_now(r);
}

bool gc_stop(struct server *s)
{
    struct gc *gc = s->gc;
    bool idle = true;

    if (!gc)
        return true;
    gc->stopping = true;
    for (struct retired *r = gc->first, *next; r; r = next) {
        next = r->next;
        if (r->stage == STAGE_WAITING || r->stage == STAGE_KEPT) {
            retired_free(r);
            continue;
        }
        if (r->stage == STAGE_LISTING)
            filelist_cancel(&r->list);
        idle = false;
    }
    answer_askers(gc);
    return idle;
}

void gc_free(struct server *s)
{
    free(s->gc);
    s->gc = NULL;
}
