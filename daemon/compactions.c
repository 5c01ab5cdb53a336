#include "compaction_internal.h"

#include "checksum.h"
#include "failpoint.h"
#include "gc.h"
#include "indexer.h"
#include "listener.h"
#include "log.h"
#include "stored_table.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- waiters --------------------------------------------------------------------------------------------------------- */

struct compaction *compaction_find(const struct server *s, uint32_t table, bool dry_run)
{
    struct compaction *c = s->compactions;

    while (c && (c->table != table || c->rewrite.dry_run != dry_run))
        c = c->next;
    return c;
}

int compaction_add_waiter(struct compaction *c, struct session *s, uint64_t request, bool joined)
{
    struct waiter *w = malloc(sizeof *w);

    if (!w)
        return -ENOMEM;
    *w = (struct waiter){ c->waiters, session_ref(s), request, joined, false };
    c->waiters = w;
    s->inflight++;
    return 0;
}

static void drop_waiter(struct waiter *w)
{
    struct session *s = w->session;

    free(w);
    s->inflight--;
    session_flush(s);
    session_resume(s);
    if (s->draining && !s->inflight)
        session_drain(s);
    session_unref(s);
}

/* Why it ended before its end. */
int compaction_was_stopped(struct compaction *c)
{
    if (c->dropped)
        return fail(&c->msg, SKADE_ECONFLICT, "the table was dropped meanwhile; nothing was changed");
    return fail(&c->msg, -ECANCELED, "the compaction was cancelled");
}

static void cancel(struct compaction *c)
{
    c->cancelled = true;
    atomic_store(&c->rewrite.cancelled, true);
    filelist_cancel(&c->list);
}

static void tell_waiter(const struct compaction *c, const struct waiter *w);

/* Too late to end it: W hears what came of it, and until then that we are there. */
static void keep_waiting(const struct compaction *c, struct waiter *w)
{
    w->late = true;
    tell_waiter(c, w);
}

static void stop_since_dropped(struct compaction *c)
{
    if (!c || c->submitted)
        return;
    c->dropped = true;
    cancel(c);
    if (c->arriving)
        compaction_stream_stop(c, SKADE_ECONFLICT, "the table was dropped meanwhile; nothing was changed");
}

void compaction_table_dropped(const struct server *s, uint32_t table)
{
    stop_since_dropped(compaction_find(s, table, false));
    stop_since_dropped(compaction_find(s, table, true));
}

bool compaction_leave(struct session *s, uint64_t request)
{
    bool left = true;

    for (struct compaction *c = s->server->compactions; c; c = c->next) {
        for (struct waiter **link = &c->waiters; *link;) {
            struct waiter *w = *link;
            if (w->session != s || (request && w->request != request)) {
                link = &w->next;
            } else if (request && c->submitted) {
                keep_waiting(c, w);
                left = false;
                link = &w->next;
            } else {
                *link = w->next;
                drop_waiter(w);
            }
        }
        if (!c->waiters && !c->automatic && !c->arriving)
            cancel(c);
    }
    return left;
}

static uint64_t carried(const struct compaction *c);

static void put_compacted(struct compaction *c, const struct waiter *w)
{
    char old[OPTION_TEXT_MAX + 64];
    const struct rewrite *rw = &c->rewrite;
    struct msg_compacted m = { .seq = c->seq,
                               .snapshot = c->snapshot,
                               .rows = rw->rows,
                               .rows_pruned = rw->rows_pruned,
                               .snapshots_before = c->snapshots_before,
                               .carried = c->seq ? carried(c) : 0,
                               .files_before = rw->files_before,
                               .files_after = rw->files_after,
                               .bytes_before = rw->bytes_before,
                               .bytes_after = rw->bytes_after,
                               .raw_bytes = rw->raw_bytes,
                               .micros = (world.clock_ns() - c->began_ns) / 1000,
                               .joined = w->joined,
                               .sampled = rw->sampled };
    if (c->seq)
        m.old_data_dir = bytes_of(store_dir_name(c->server->store, old, sizeof old, c->table, c->number));
    else
        m.old_data_dir = (struct bytes){ "", 0 };
    size_t at = answer_begin(w->session);
    wire_put_compacted(&w->session->out, &m);
    answer_end(w->session, at, WIRE_COMPACTED, 0, w->request);
}

static void put_done(const struct waiter *w)
{
    size_t at = answer_begin(w->session);

    wire_put_done(&w->session->out, &(struct msg_done){ .end_ = 0 });
    answer_end(w->session, at, WIRE_DONE, 0, w->request);
}

static void answer_waiters(struct compaction *c)
{
    while (c->waiters) {
        struct waiter *w = c->waiters;
        c->waiters = w->next;
        if (!w->session->closing && c->error < 0)
            answer_error(w->session, w->request, c->error, "%s",
                         c->msg.text[0] ? c->msg.text : error_text(c->error));
        else if (!w->session->closing)
            put_compacted(c, w);
        if (!w->session->closing && w->late)
            put_done(w);
        drop_waiter(w);
    }
}

/* ---- the end ------------------------------------------------------------------------------------------------------------------ */

static void unlink_self(struct compaction *c)
{
    struct compaction **link = &c->server->compactions;

    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
}

static void free_rules(struct prune *rules, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(rules[i].key);
        free(rules[i].key_to);
    }
    free(rules);
}

static void freed(uv_handle_t *handle)
{
    struct compaction *c = handle->data;

    free_rules(c->rules, c->rules_count);
    free(c->named);
    free(c);
}

static void count(const struct compaction *c)
{
    struct control_page *page = c->server->page;

    counter_add(page, COUNTER_compacting, (uint64_t)-1);
    if (c->rewrite.dry_run)
        return;
    counter_add(page, c->error < 0 ? COUNTER_compactions_failed : COUNTER_compactions, 1);
    if (c->error == 0) {
        counter_add(page, COUNTER_compacted_rows, c->rewrite.rows);
        counter_add(page, COUNTER_compacted_bytes, c->rewrite.bytes_after);
    }
}

/* Tell everyone, free everything. */
static void finish(struct compaction *c)
{
    if (c->error < 0 && c->error != -ECANCELED)
        log_warning("table %" PRIu32 ": not compacted: %s", c->table,
                    c->msg.text[0] ? c->msg.text : error_text(c->error));
    else if (c->seq)
        log_info("table %" PRIu32 ": compacted as event %" PRIu64 ": %" PRIu64 " rows, %" PRIu64
                 " dropped, %" PRIu64 " files and %" PRIu64 " bytes became %zu and %" PRIu64,
                 c->table, c->seq, c->rewrite.rows, c->rewrite.rows_pruned, c->rewrite.files_before,
                 c->rewrite.bytes_before, c->rewrite.outputs_count, c->rewrite.bytes_after);
    if (c->error < 0 && !c->rewrite.dry_run)
        ledger_table(c->server->ledger, c->table)->cooldown_ms =
            world.now_ms(&c->server->loop) + (uint64_t)c->server->config.compact_cooldown;
    count(c);
    unlink_self(c);
    lease_unpin(c->server, &c->hold);
    answer_waiters(c);
    filelist_fini(&c->list);
    rewrite_fini(&c->rewrite);
    if (c->manifest_fd >= 0)
        close(c->manifest_fd);
    if (c->dir >= 0)
        close(c->dir);
    uv_close((uv_handle_t *)&c->rewritten, freed);
}

static void work(struct compaction *c, uv_work_cb run, uv_after_work_cb done)
{
    c->work.data = c;
    c->server->workers++;
    if (world.work(&c->server->loop, &c->work, run, done) < 0)
        abort(); /* only for a NULL callback */
}

static void run_remove_dir(uv_work_t *w)
{
    const struct compaction *c = w->data;
    store_remove_dir(c->server->store, c->table, c->number + 1);
}

static void removed_dir(uv_work_t *w, int status)
{
    struct compaction *c = w->data;

    (void)status;
    c->server->workers--;
    finish(c);
}

/* The directory that was made for it would be found empty at the next start.  When nobody knows what became of the swap,
 * that start knows. */
void compaction_finish(struct compaction *c)
{
    bool made_dir = c->dir >= 0 && !c->rewrite.dry_run;

    c->arriving = false;
    if (made_dir && !c->seq && c->error != SKADE_EUNKNOWN)
        work(c, run_remove_dir, removed_dir);
    else
        finish(c);
}

/* ---- judging ------------------------------------------------------------------------------------------------------------------ */

static void run_unlink(uv_work_t *w)
{
    struct compaction *c = w->data;
    store_unlink(c->server->store, c->dir, &c->uuid, c->named, c->named_count);
}

static void run_settle(uv_work_t *w)
{
    struct compaction *c = w->data;
    store_settle(c->server->store, c->dir, &c->uuid);
}

static void tidied(uv_work_t *w, int status)
{
    struct compaction *c = w->data;

    (void)status;
    c->server->workers--;
    compaction_finish(c);
}

static int count_one(void *arg, const struct event *e)
{
    (void)e;
    ++*(uint64_t *)arg;
    return 0;
}

/* Commits that arrived between the scan and the swap. */
static uint64_t carried(const struct compaction *c)
{
    uint64_t n = 0;

    files_of(c->server, c->table, c->hold.at, c->seq - 1, 0, SEQ_MAX, count_one, &n);
    return n;
}

static void judged(struct change *change)
{
    struct compaction *c = change->owner;

    c->error = change->error;
    if (c->error == 0) {
        c->seq = change->first_seq;
        work(c, run_settle, tidied);
        return;
    }
    c->msg = change->msg;
    if (c->error == SKADE_EUNKNOWN) /* the next start finds out */
        compaction_finish(c);
    else
        work(c, run_unlink, tidied);
}

static void submit(struct compaction *c)
{
    struct change *change = change_new(CHANGE_COMPACT);

    if (change)
        change->location = change_text(change, bytes_of(c->location));
    if (!change || !change->location.data) {
        change_free(change);
        c->error = fail(&c->msg, -ENOMEM, "skaded has no memory for this compaction: try again");
        work(c, run_unlink, tidied);
        return;
    }
    change->table = c->table;
    change->uuid = c->uuid;
    change->compaction.base_seq = c->hold.base_seq;
    change->compaction.at = c->hold.at;
    change->compaction.snapshot = c->snapshot;
    change->compaction.time_us = c->hold.time_us;
    change->owner = c;
    change->done = judged;
    c->submitted = true;
    committer_submit(c->server->committer, change);
}

/* ---- linking -------------------------------------------------------------------------------------------------------------------- */

static int write_manifest(struct compaction *c)
{
    struct rewrite *rw = &c->rewrite;
    struct manifest m = { .header = { .log = rw->log,
                                      .uuid = c->uuid,
                                      .table = c->table,
                                      .files = (uint32_t)rw->outputs_count,
                                      .seen_seq = rw->seen_seq,
                                      .base_seq = c->hold.seq,
                                      .base_time_us = c->hold.time_us,
                                      .rows = rw->rows,
                                      .rows_pruned = rw->rows_pruned,
                                      .snapshots_before = c->snapshots_before } };

    m.files = calloc(rw->outputs_count + 1, sizeof *m.files);
    if (!m.files)
        return fail(&c->msg, -ENOMEM, "skaded has no memory for this compaction: try again");
    for (size_t i = 0; i < rw->outputs_count; i++)
        m.files[i] = rw->outputs[i].entry;
    c->manifest_fd = store_temp(c->server->store, c->dir, &c->msg);
    int r = c->manifest_fd < 0 ? c->manifest_fd : manifest_write(c->manifest_fd, &m, &c->msg);
    free(m.files);
    return r;
}

static int name_files(struct compaction *c)
{
    struct rewrite *rw = &c->rewrite;

    c->named = calloc(rw->outputs_count + 1, sizeof *c->named);
    if (!c->named)
        return fail(&c->msg, -ENOMEM, "skaded has no memory for this compaction: try again");
    for (size_t i = 0; i < rw->outputs_count; i++)
        c->named[i] = (struct store_file){ rw->outputs[i].fd, NAME_ROWS, (uint32_t)i + 1 };
    c->named[rw->outputs_count] = (struct store_file){ c->manifest_fd, NAME_MANIFEST, 0 };
    c->named_count = rw->outputs_count + 1;
    int r = FAILPOINT("compact.link");
    if (r == 0)
        r = store_link(c->server->store, c->dir, &c->uuid, c->named, c->named_count, &c->msg);
    return r == -EEXIST ? fail(&c->msg, SKADE_EINPUT, "this uuid came before: make a new one") : r;
}

static void run_link(uv_work_t *w)
{
    struct compaction *c = w->data;

    c->error = write_manifest(c);
    if (c->error == 0)
        c->error = name_files(c);
}

static void linked(uv_work_t *w, int status)
{
    struct compaction *c = w->data;

    (void)status;
    c->server->workers--;
    if (c->error < 0) {
        compaction_finish(c); /* no name is left */
    } else if (c->cancelled) {
        c->error = compaction_was_stopped(c);
        work(c, run_unlink, tidied);
    } else {
        submit(c);
    }
}

/* ---- rewriting -------------------------------------------------------------------------------------------------------------------- */

static int64_t make_snapshot(const struct compaction *c)
{
    uint64_t id = c->hold.seq;

    do {
        id = checksum(c->uuid.b, sizeof c->uuid.b, id) & INT64_MAX;
    } while (id == 0 || !snapshot_is_free(c->server, c->table, (int64_t)id));
    return (int64_t)id;
}

static void on_rewritten(uv_async_t *async)
{
    struct compaction *c = async->data;

    if (!c->rewriting)
        return;
    world.join(&c->thread);
    c->rewriting = false;
    c->server->workers--;
    compaction_rewritten(c);
}

void compaction_rewritten(struct compaction *c)
{
    c->error = c->rewrite.error;
    c->msg = c->rewrite.msg;
    if (c->cancelled && (c->error == 0 || c->error == -ECANCELED))
        c->error = compaction_was_stopped(c);
    if (c->error < 0 || c->rewrite.dry_run) {
        compaction_finish(c);
        return;
    }
    c->snapshot = make_snapshot(c);
    c->error = store_location(c->server->store, c->location, c->table, c->number + 1, NAME_MANIFEST, &c->uuid,
                              &c->msg);
    if (c->error < 0) {
        compaction_finish(c);
        return;
    }
    c->error = 0;
    work(c, run_link, linked);
}

static void rewrite_thread(void *arg)
{
    struct compaction *c = arg;
    const struct sched_param idle = { 0 };

    /* Readers and writers come first. */
    if (sched_setscheduler(0, SCHED_BATCH, &idle) == 0)
        setpriority(PRIO_PROCESS, (id_t)gettid(), 10);
    /* A dry run writes nothing. */
    c->dir = c->rewrite.dry_run ? store_root(c->server->store, &c->rewrite.msg)
                                : store_dir(c->server->store, c->table, c->number + 1, &c->rewrite.msg);
    c->rewrite.dir = c->dir;
    if (c->dir < 0)
        c->rewrite.error = c->dir;
    else
        rewrite_run(&c->rewrite);
    uv_async_send(&c->rewritten);
}

void compaction_prepare(struct compaction *c)
{
    const struct config *config = &c->server->config;
    struct rewrite *rw = &c->rewrite;

    rw->store = c->server->store;
    rw->log = c->server->origin;
    rw->uuid = c->uuid;
    rw->table = c->table;
    rw->seen_seq = c->hold.at;
    rw->rules = c->rules;
    rw->rules_count = c->rules_count;
    rw->threads = (unsigned)config->compact_threads;
    rw->memory = (size_t)config->compact_memory;
    if (!rw->target_size)
        rw->target_size = (uint64_t)config->compact_target_size;
    if (!rw->block_size)
        rw->block_size = (uint32_t)config->compact_block_size;
    if (!rw->level)
        rw->level = (int)config->compact_level;
}

static bool nothing_to_do(const struct compaction *c)
{
    const struct lease *h = &c->hold;

    const struct rewrite *rw = &c->rewrite;

    return !c->rules_count && !rw->target_size && !rw->block_size && !rw->level && h->base_seq &&
           h->after >= h->seq;
}

/* What is there stays as it is: say how it is. */
static void run_describe(uv_work_t *w)
{
    struct compaction *c = w->data;
    struct rewrite *rw = &c->rewrite;
    const char *path = c->list.files[0].path;
    struct manifest m;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    c->error = fd < 0 ? fail(&c->msg, SKADE_EDAMAGED, "cannot open %s: %s", path, strerror(errno))
                      : manifest_read(&m, fd, path, &c->server->origin, c->table, &c->msg);
    if (fd >= 0)
        close(fd);
    if (c->error < 0)
        return;
    rw->rows = m.header.rows;
    rw->files_before = rw->files_after = m.header.files;
    rw->bytes_before = m.header.size;
    for (uint32_t i = 0; i < m.header.files; i++) {
        rw->bytes_before += m.files[i].size;
        rw->raw_bytes += m.files[i].raw_bytes;
    }
    rw->bytes_after = rw->bytes_before;
    manifest_fini(&m);
}

static void listed(struct filelist *l)
{
    struct compaction *c = l->owner;
    struct rewrite *rw = &c->rewrite;

    c->error = c->cancelled ? compaction_was_stopped(c) : l->error;
    if (c->error < 0 && c->cancelled) {
        compaction_finish(c);
        return;
    }
    if (c->error < 0) {
        fail(&c->msg, c->error, "the table's files can't be listed: %s", error_text(c->error));
        compaction_finish(c);
        return;
    }
    if (!c->hold.seq) {
        compaction_finish(c);
        return;
    }
    if (nothing_to_do(c)) {
        c->unchanged = true;
        work(c, run_describe, tidied);
        return;
    }
    compaction_prepare(c);
    rw->files = l->files;
    rw->files_count = l->count;
    c->server->workers++;
    c->rewriting = true;
    if (world.thread(&c->thread, rewrite_thread, c) < 0) {
        c->rewriting = false;
        c->server->workers--;
        c->error = fail(&c->msg, SKADE_EBUSY, "no thread for a compaction; try again");
        compaction_finish(c);
    }
}

/* ---- asking ------------------------------------------------------------------------------------------------------------------------- */

static int copy_rules(struct compaction *c, const struct wire_list *list, struct errmsg *msg)
{
    struct rd items = list->items;
    struct item_prune_row row;

    c->rules = calloc(list->count + 1, sizeof *c->rules);
    if (!c->rules)
        return fail(msg, -ENOMEM, "skaded has no memory for this compaction: try again");
    for (uint32_t i = 0; i < list->count; i++) {
        struct prune *p = &c->rules[i];
        wire_get_prune_row(&items, &row);
        if (row.rule < PRUNE_BEFORE || row.rule > PRUNE_RANGE)
            return fail(msg, SKADE_EINPUT, "rule %u to drop rows isn't known", row.rule);
        p->rule = row.rule;
        p->time_us = row.time_us;
        p->key = malloc(row.key.len + 1);
        p->key_to = malloc(row.key_to.len + 1);
        c->rules_count++;
        if (!p->key || !p->key_to)
            return fail(msg, -ENOMEM, "skaded has no memory for this compaction: try again");
        memcpy(p->key, row.key.data, row.key.len);
        memcpy(p->key_to, row.key_to.data, row.key_to.len);
        p->key_len = row.key.len;
        p->key_to_len = row.key_to.len;
    }
    return 0;
}

int compaction_check_sizes(uint64_t target_size, uint32_t block_size, int32_t level, struct errmsg *msg)
{
    if (target_size && target_size < 65536)
        return fail(msg, SKADE_EINPUT, "a target size of %" PRIu64 " bytes is too small; take 64 KiB or more",
                    target_size);
    if (block_size && (block_size < 4096 || block_size > 4u << 20))
        return fail(msg, SKADE_EINPUT, "a block size of %u bytes: it must be 4 KiB to 4 MiB", block_size);
    if (level < -7 || level > 22)
        return fail(msg, SKADE_EINPUT, "zstd has levels -7 to 22, not %d", level);
    return 0;
}

/* What T is now becomes the snapshot to compact. */
static int take_snapshot(struct compaction *c, struct table *t)
{
    static struct answer head;
    struct server *s = c->server;
    const struct retirement *base = table_base(t, SEQ_MAX, &c->number);

    c->hold.at = s->ledger->seq;
    c->hold.table = t->number;
    c->hold.base_seq = base ? base->seq : 0;
    c->hold.after = base ? base->watermark : 0;
    int r = ledger_head(s->ledger, indexer_generation(s->indexer), t->number, SEQ_MAX, &head);
    if (r == 1) {
        c->hold.seq = head.seq;
        c->hold.snapshot = head.snapshot;
        c->hold.time_us = head.time_us;
        if (base && head.seq == base->seq)
            c->hold.after = base->seq;
    } else if (r != SKADE_ENOSNAPSHOT) {
        return fail(&c->msg, r, "the table's head: %s", error_text(r));
    }
    c->snapshots_before = t->snapshots;
    lease_pin(s, &c->hold);
    return 0;
}

/* A job for T, not running yet.  NULL with MSG. */
struct compaction *compaction_make(struct server *s, struct table *t, const struct uuid *uuid,
                                   const struct wire_list *rules, int *error, struct errmsg *msg)
{
    struct compaction *c = calloc(1, sizeof *c);

    if (!c) {
        *error = fail(msg, -ENOMEM, "skaded has no memory for this compaction: try again");
        return NULL;
    }
    c->server = s;
    c->table = t->number;
    c->uuid = *uuid;
    c->began_ns = world.clock_ns();
    c->manifest_fd = c->dir = -1;
    *error = rules ? copy_rules(c, rules, msg) : 0;
    if (*error == 0)
        *error = take_snapshot(c, t);
    if (*error < 0) {
        if (!msg->text[0])
            *msg = c->msg;
        free_rules(c->rules, c->rules_count);
        free(c);
        return NULL;
    }
    uv_async_init(&s->loop, &c->rewritten, on_rewritten);
    c->rewritten.data = c;
    c->next = s->compactions;
    s->compactions = c;
    counter_add(s->page, COUNTER_compacting, 1);
    return c;
}

static void begin(struct compaction *c)
{
    c->list = (struct filelist){ .server = c->server,
                                 .table = c->table,
                                 .after = c->hold.after,
                                 .seq = c->hold.seq,
                                 .base_seq = c->hold.base_seq,
                                 .owner = c,
                                 .done = listed };
    filelist_start(&c->list);
}

/* Begun, and nobody waits: an answer without figures. */
static void answer_begun(struct session *s, uint64_t request)
{
    struct msg_compacted m = { .old_data_dir = { "", 0 } };
    size_t at = answer_begin(s);

    wire_put_compacted(&s->out, &m);
    answer_end(s, at, WIRE_COMPACTED, 0, request);
}

/* The compaction that this request made before its answer was lost: its figures went with that. */
static bool answer_repeat(struct session *s, uint64_t request, const struct msg_compact *m)
{
    static struct history h;
    const struct ledger *l = s->server->ledger;
    uint64_t seq, content;
    int error;

    if (!uuids_find(l->uuids, &m->uuid, &seq, &content) || seq > l->seq || !ledger_table(l, m->table))
        return false;
    history_of(&h, l, indexer_generation(s->server->indexer), m->table, seq + 1);
    const struct event *e = history_next(&h, &error);
    if (!e || e->seq != seq || e->kind != EVENT_COMPACT)
        return false;
    struct msg_compacted made = { .seq = seq, .snapshot = e->snapshot, .old_data_dir = { "", 0 } };
    size_t at = answer_begin(s);
    wire_put_compacted(&s->out, &made);
    answer_end(s, at, WIRE_COMPACTED, 0, request);
    return true;
}

static int check_request(const struct server *s, const struct msg_compact *m, struct table **t,
                         const struct compaction *running, struct errmsg *msg)
{
    int r = stored_table(s, m->table, SEQ_MAX, TO_COMPACT, t, msg);

    if (r == 0)
        r = compaction_check_sizes(m->target_size, m->block_size, m->level, msg);
    if (r < 0)
        return r;
    if (m->mode > COMPACT_BEGIN_ONLY || uuid_is_zero(&m->uuid))
        return fail(msg, SKADE_EINPUT, "a compaction needs a mode that is known, and a uuid");
    if (m->mode == COMPACT_JOIN && !running)
        return fail(msg, SKADE_ECONFLICT, "the compaction of the table that was running is over; try again");
    if (running && running->cancelled)
        return fail(msg, SKADE_EBUSY, "a cancelled compaction of the table is still ending; try again");
    return 0;
}

void compaction_ask(struct session *s, uint64_t request, const struct msg_compact *m)
{
    bool dry_run = m->mode == COMPACT_DRY_RUN;
    struct compaction *running = compaction_find(s->server, m->table, dry_run), *c = running;
    struct errmsg msg = { "" };
    struct table *t = NULL;

    if (answer_repeat(s, request, m))
        return;
    int r = check_request(s->server, m, &t, running, &msg);
    if (r == 0 && running && running->arriving && s->inflow)
        r = fail(&msg, SKADE_EBUSY,
                 "the table is being compacted by rows of a connection that sends rows itself: end that "
                 "first");
    assert(r < 0 || t);
    if (r == 0 && !running)
        c = compaction_make(s->server, t, &m->uuid, &m->prune, &r, &msg);
    if (r < 0) {
        answer_error(s, request, r, "%s", msg.text[0] ? msg.text : error_text(r));
        return;
    }
    assert(c);
    if (m->mode == COMPACT_BEGIN_ONLY) {
        c->automatic = true;
        answer_begun(s, request);
    } else if (compaction_add_waiter(c, s, request, running != NULL) < 0) {
        answer_error(s, request, -ENOMEM, "skaded has no memory for this compaction: try again");
        if (!running)
            cancel(c);
    }
    if (running)
        return;
    c->rewrite.dry_run = dry_run;
    c->rewrite.target_size = m->target_size;
    c->rewrite.block_size = m->block_size;
    c->rewrite.level = m->level;
    begin(c);
}

/* ---- by itself ----------------------------------------------------------------------------------------------------------------- */

/* Is NAME in LIST, names and patterns divided by commas and blanks? */
static bool listed_name(const char *list, struct bytes name)
{
    char text[NAME_MAX_LEN + 1], pattern[OPTION_TEXT_MAX];
    static const char dividers[] = ", \t";

    memcpy(text, name.data, name.len);
    text[name.len] = 0;
    for (const char *p = list; *p;) {
        size_t len = strcspn(p, dividers);
        memcpy(pattern, p, len);
        pattern[len] = 0;
        if (len && fnmatch(pattern, text, 0) == 0)
            return true;
        p += len + (p[len] != 0);
    }
    return false;
}

void compaction_consider(struct server *s, struct table *t)
{
    const struct config *config = &s->config;
    struct errmsg msg = { "" };
    struct uuid uuid;
    int error;

    if (!config->compact_auto.text[0] || t->since_compaction < (uint64_t)config->compact_commits ||
        s->stopping || t->dropped_seq != SEQ_MAX || s->readonly[0] ||
        world.now_ms(&s->loop) < t->cooldown_ms || compaction_find(s, t->number, false) ||
        !listed_name(config->compact_auto.text, ledger_name_at(s->ledger, t->number, SEQ_MAX)))
        return;
    struct compaction *c = NULL;
    if (world.random(&uuid, sizeof uuid) == 0)
        c = compaction_make(s, t, &uuid, NULL, &error, &msg);
    if (!c) {
        t->cooldown_ms = world.now_ms(&s->loop) + (uint64_t)config->compact_cooldown;
        log_warning("table %" PRIu32 " can't be compacted: %s", t->number, msg.text);
        return;
    }
    c->automatic = true;
    begin(c);
}

/* ---- each second ---------------------------------------------------------------------------------------------------------------------- */

static void tell_waiter(const struct compaction *c, const struct waiter *w)
{
    struct rewrite *rw = (struct rewrite *)&c->rewrite;
    struct msg_progress m = { .rows_done = atomic_load(&rw->rows_done),
                              .rows_total = atomic_load(&rw->rows_total),
                              .bytes_written = atomic_load(&rw->bytes_written),
                              .joined = w->joined };

    if (w->session->closing || session_owed(w->session) >= SESSION_OWED_MAX)
        return;
    size_t at = answer_begin(w->session);
    wire_put_progress(&w->session->out, &m);
    answer_end(w->session, at, WIRE_PROGRESS, FRAME_MORE, w->request);
    session_flush(w->session);
}

static void tell_progress(const struct compaction *c)
{
    for (const struct waiter *w = c->waiters; w; w = w->next)
        tell_waiter(c, w);
}

void compactions_tick(struct server *s)
{
    for (const struct compaction *c = s->compactions; c; c = c->next)
        tell_progress(c);
}

bool compactions_stop(struct server *s)
{
    for (struct compaction *c = s->compactions, *next; c; c = next) {
        next = c->next;
        if (!c->cancelled)
            cancel(c);
        if (c->arriving)
            compaction_stream_stop(c, -ECANCELED,
                                   "the daemon stops"); /* nobody reads its rows any more: C may be gone */
    }
    return !s->compactions;
}
