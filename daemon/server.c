/*
 * The daemon's life: start, timers and signals, orderly end.
 *
 * Start:  log -> lock in shared memory -> index -> take over -> socket
 * End:    no new connections -> what waits becomes durable and is answered -> connections close -> log closes clean
 */
#include "server.h"

#include "committer.h"
#include "compactions.h"
#include "gc.h"
#include "indexer.h"
#include "indexkeeper.h"
#include "listener.h"
#include "log.h"
#include "logcheck.h"
#include "prompt.h"
#include "renew.h"
#include "rundir.h"
#include "store.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define BEAT_MS 500
/* What is done each second rides on each second beat: a daemon at rest wakes up no more than twice a second. */
#define BEATS_OF_TICK 2
/* Longer than the time that a client trusts a heartbeat that stands still. */
#define ORPHAN_WAIT_MS 3000
/* An orderly end waits so long for peers that don't read what they are owed. */
#define DRAIN_MS 5000

int64_t server_now_us(void)
{
    return world.wall_us();
}

/* ---- directories ----------------------------------------------------------------------------------------------------------- */

static int make_dirs(const char *path, mode_t mode, struct errmsg *msg)
{
    char part[OPTION_TEXT_MAX];

    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return fail(msg, -errno, "cannot make %s: %s", part, strerror(errno));
        *slash = '/';
    }
    if (mkdir(part, mode) < 0 && errno != EEXIST)
        return fail(msg, -errno, "cannot make %s: %s; make it, or set data_dir", part, strerror(errno));
    return 0;
}

/* ---- start ------------------------------------------------------------------------------------------------------------------- */

/* The uid in shared-memory names is that of the run directory's owner: it is what clients can see of us before they
 * trust anything.  A run directory that isn't there yet will be ours. */
static uint32_t place_uid(const struct config *c)
{
    struct stat st;
    return lstat(c->run_dir.text, &st) == 0 ? st.st_uid : geteuid();
}

static int open_publisher(struct server *s, const struct commitlog_meta *meta, struct errmsg *msg)
{
    struct publisher_options options = { .log = meta->log, .seed = meta->seed };

    snprintf(options.place.dir, sizeof options.place.dir, "%.255s", s->config.shm_dir.text);
    snprintf(options.place.instance, sizeof options.place.instance, "%.32s", s->config.instance.text);
    options.place.uid = place_uid(&s->config);
    options.mode = config_shm_mode(&s->config, &options.group);
    int r = publisher_open(&s->publisher, &options, msg);
    if (r == 0)
        s->page = publisher_page(s->publisher);
    return r;
}

static int open_log(struct server *s, struct errmsg *msg)
{
    char dir[OPTION_TEXT_MAX + 8];

    int r = make_dirs(s->config.data_dir.text, 0755, msg);
    if (r < 0)
        return r;
    snprintf(dir, sizeof dir, "%s/log", s->config.data_dir.text);
    struct commitlog_options options = { .dir = dir,
                                         .sync_full = s->config.sync == SYNC_FULL,
                                         .skip_check = true }; /* replay.c does it, or needn't */
    return commitlog_open(&s->log, &options, msg);
}

/*
 * What the last daemon told of was durable.  A write-ahead log that became shorter, or was damaged in its last commit,
 * looks whole: without this, lost events would be missing without a word, and their numbers given out again.
 */
static int check_last_told(const struct server *s, const struct commitlog_meta *meta, struct errmsg *msg)
{
    const struct shm_place *place = publisher_place(s->publisher);
    char page[SHM_NAME_MAX];
    uint64_t told;

    if (!publisher_last_told(s->publisher, &told) || told <= meta->last_seq)
        return 0;
    return fail(msg, SKADE_EDAMAGED,
                "%s/log: has lost its newest events (%" PRIu64 "): it ends at %" PRIu64
                ", and clients were told of %" PRIu64
                ": see whether the disk is well, then restore the newest backup; or, to go on "
                "without those events, remove %s/%s",
                s->config.data_dir.text, told - meta->last_seq, meta->last_seq, told, place->dir,
                shm_name(page, place, SHM_CONTROL, 0, 0));
}

/*
 * Until the older page is RETIRED its readers may believe it.  If the last daemon left none that we could retire, and
 * didn't stop cleanly, we wait until they can't any more.
 */
static void pause_for_orphans(struct server *s, bool clean)
{
    if (!s->last_epoch || clean)
        return;
    if (indexer_retired_last(s->indexer))
        return;
    log_info(
        "the last daemon's control page is gone; commits wait %d ms, so that no reader still believes it",
        ORPHAN_WAIT_MS);
    committer_pause(s->committer, ORPHAN_WAIT_MS);
}

int server_start(struct server *s, struct errmsg *msg)
{
    int r = open_log(s, msg);
    if (r < 0)
        return r;
    struct commitlog_meta meta = *commitlog_meta(s->log);
    s->last_epoch = meta.last_epoch;
    s->origin = meta.origin;
    r = open_publisher(s, &meta, msg);
    if (r == 0)
        r = check_last_told(s, &meta, msg);
    if (r < 0)
        return r;
    atomic_store_explicit(&s->page->state, CONTROL_STARTING, memory_order_relaxed); /* P7 */
    s->ledger = ledger_new(&meta.log, meta.seed);
    s->committer = committer_new(s);
    if (!s->ledger || !s->committer)
        return fail(msg, -ENOMEM, "no memory");
    r = indexer_start(&s->indexer, s, msg);
    if (r < 0)
        return r;
    publisher_commit_seq(s->publisher, s->ledger->seq);
    counter_set(s->page, COUNTER_commit_seq, s->ledger->seq);
    s->indexkeeper = indexkeeper_new(s);
    if (!s->indexkeeper)
        return fail(msg, -ENOMEM, "no memory");
    r = store_open(&s->store, s, msg);
    if (r == 0)
        r = store_sweep(s->store, msg);
    if (r == 0)
        r = gc_start(s, msg);
    if (r < 0)
        return r;
    r = commitlog_set_epoch(s->log, publisher_epoch(s->publisher), false, msg);
    if (r < 0 &&
        r != SKADE_EFULL) /* on a full disk questions are answered; the first commit records the epoch */
        return r;
    s->epoch_recorded = r == 0;
    pause_for_orphans(s, meta.clean_stop);
    r = logthread_start(&s->log_thread, &s->loop, s->log);
    if (r < 0)
        return fail(msg, r, "cannot start the log's thread");
    logcheck_start(s);
    return listener_open(&s->listener, s, msg);
}

/* ---- timers and signals ---------------------------------------------------------------------------------------------------------- */

/* Each second. */
static void tick(struct server *s)
{
    counter_set(s->page, COUNTER_uptime, (world.now_ms(&s->loop) - s->started_ms) / 1000);
    counter_set(s->page, COUNTER_tail_events, s->ledger->seq - indexer_generation(s->indexer)->covered);
    counter_set(s->page, COUNTER_tables, s->ledger->living);
    counter_set(s->page, COUNTER_wal_bytes, logthread_wal_bytes(s->log_thread));
    counter_set(s->page, COUNTER_checkpoints, logthread_checkpoints(s->log_thread));
    listener_tick(s->listener);
    indexer_tick(s->indexer);
    indexkeeper_tick(s->indexkeeper);
    store_tick(s->store);
    compactions_tick(s);
    gc_tick(s);
}

static void beat(struct server *s)
{
    atomic_fetch_add_explicit(&s->page->heartbeat, 1, memory_order_relaxed); /* P6 */
}

static void on_beat(uv_timer_t *timer)
{
    struct server *s = timer->data;

    beat(s);
    if (s->beats++ % BEATS_OF_TICK == BEATS_OF_TICK - 1)
        tick(s);
}

/* Between two calls the loop slept once, at most; what it did besides, callbacks of sockets and workers included, is a
 * turn. */
static void on_loop_turned(uv_prepare_t *handle)
{
    struct server *s = handle->data;
    uint64_t now = world.clock_ns(), slept = uv_metrics_idle_time(&s->loop);
    uint64_t busy = now - s->turn_began_ns, idle = slept - s->turn_slept_ns;

    if (s->turn_began_ns && busy > idle)
        counter_max(s->page, COUNTER_loop_us_max, (busy - idle) / 1000);
    s->turn_began_ns = now;
    s->turn_slept_ns = slept;
}

static void close_handles(struct server *s)
{
    uv_handle_t *handles[] = { (uv_handle_t *)&s->beat, (uv_handle_t *)&s->sigterm, (uv_handle_t *)&s->sigint,
                               (uv_handle_t *)&s->sighup, (uv_handle_t *)&s->loop_turned };
    for (size_t i = 0; i < ARRAY_SIZE(handles); i++)
        if (!uv_is_closing(handles[i]))
            uv_close(handles[i], NULL);
}

/* Called again and again until nothing is left to wait for. */
static void on_draining(uv_timer_t *timer)
{
    struct server *s = timer->data;
    bool late = world.now_ms(&s->loop) - s->started_ms > DRAIN_MS; /* reused: when draining began */

    beat(s);
    bool idle = indexer_stop(s->indexer);
    idle = compactions_stop(s) && idle;
    idle = gc_stop(s) && idle && !s->workers;
    idle = logcheck_stop(s) && idle;
    if (committer_idle(s->committer))
        listener_drain(s->listener);
    if (!late && (!idle || !committer_idle(s->committer) || !listener_empty(s->listener)))
        return;
    if (!idle)
        return; /* a worker's job ends by itself and can't be left behind */
    if (!indexkeeper_stop(s->indexkeeper, s->exit_code == 0))
        return;
    world.stop(&s->loop);
}

void server_stop(struct server *s, int code)
{
    if (s->stopping) {
        if (s->exit_code == SERVER_RENEW) /* whoever wants it to end is not to see it begin anew */
            s->exit_code = code;
        return;
    }
    s->stopping = true;
    s->exit_code = code;
    s->started_ms = world.now_ms(&s->loop);
    atomic_store_explicit(&s->page->state, CONTROL_DRAINING, memory_order_relaxed); /* P7 */
    listener_close(s->listener);
    world.timer_start(&s->beat, on_draining, 0, 5);
}

void server_renew(struct server *s, const char *why)
{
    bool allowed = renew_allowed();

    log_error("%s; %s", why,
              allowed ? "the daemon begins anew and builds the index from the log"
                      : "the index was built anew only a moment ago, so the daemon stops");
    if (!s->stopping)
        server_stop(s, allowed ? SERVER_RENEW : 1);
    listener_hang_up(s->listener);
}

static void on_stop_signal(uv_signal_t *handle, int number)
{
    log_info("stopping on signal %d", number);
    server_stop(handle->data, 0);
}

/* Who may come in and read has changed, perhaps. */
static void admit(struct server *s)
{
    struct errmsg msg = { "" };
    gid_t group;

    mode_t mode = config_shm_mode(&s->config, &group);
    if (publisher_set_mode(s->publisher, mode, group))
        indexer_renew_names(s->indexer);
    if (store_admit(s->store, &msg) < 0)
        log_error("%s", msg.text);
    rundir_admit(&s->config);
}

static void on_reload_signal(uv_signal_t *handle, int number)
{
    struct server *s = handle->data;
    struct config *fresh = malloc(sizeof *fresh);
    struct errmsg msg = { "" };

    (void)number;
    if (!fresh)
        return;
    if (s->configure(fresh, &msg) < 0) {
        log_error("configuration not reloaded: %s", msg.text);
    } else {
        struct errmsg waiting;
        unsigned later = config_reload(&s->config, fresh, &waiting);
        log_set_level((enum log_level)s->config.log_level);
        listener_roles_changed(s->listener);
        if (!s->stopping)
            admit(s);
        log_info("configuration reloaded%s%s", later ? "; for a restart wait " : "", waiting.text);
    }
    free(fresh);
}

static void start_handles(struct server *s)
{
    s->started_ms = world.now_ms(&s->loop);
    uv_timer_init(&s->loop, &s->beat);
    uv_signal_init(&s->loop, &s->sigterm);
    uv_signal_init(&s->loop, &s->sigint);
    uv_signal_init(&s->loop, &s->sighup);
    uv_prepare_init(&s->loop, &s->loop_turned);
    uv_loop_configure(&s->loop, UV_METRICS_IDLE_TIME); /* for on_loop_turned() */
    s->beat.data = s->sigterm.data = s->sigint.data = s->sighup.data = s->loop_turned.data = s;
    world.timer_start(&s->beat, on_beat, 0, BEAT_MS);
    uv_signal_start(&s->sigterm, on_stop_signal, SIGTERM);
    uv_signal_start(&s->sigint, on_stop_signal, SIGINT);
    uv_signal_start(&s->sighup, on_reload_signal, SIGHUP);
    uv_prepare_start(&s->loop_turned, on_loop_turned);
}

/* 0 and anew: nothing is left undone. */
static bool is_clean(const struct server *s)
{
    return s->exit_code == 0 || s->exit_code == SERVER_RENEW;
}

static void stop_log(struct server *s)
{
    struct errmsg msg = { "" };

    s->log = logthread_stop(s->log_thread);
    if (is_clean(s) && !commitlog_failed(s->log) &&
        commitlog_set_epoch(s->log, publisher_epoch(s->publisher), true, &msg) < 0)
        log_warning("the clean stop could not be recorded: %s", msg.text);
    commitlog_close(s->log);
}

int server_run(struct server *s)
{
    start_handles(s);
    thread_be_prompt();
    atomic_store_explicit(&s->page->state, CONTROL_RUNNING, memory_order_relaxed); /* P7 */
    printf("skaded: ready on %s/%s.sock, %" PRIu64 " events\n", s->config.run_dir.text,
           s->config.instance.text, s->ledger->seq);
    fflush(stdout);
    world.run(&s->loop);
    if (s->exit_code == SERVER_RENEW)
        close_handles(s); /* a signal to stop that comes from here on ends the process at once */
    stop_log(s);
    close_handles(s);
    publisher_close(s->publisher, is_clean(s));
    indexkeeper_free(s->indexkeeper);
    logcheck_free(s);
    indexer_free(s->indexer);
    ledger_free(s->ledger);
    committer_free(s->committer);
    listener_free(s->listener);
    gc_free(s);
    store_close(s->store);
    return s->exit_code;
}
