#include "listener.h"

#include "handlers.h"
#include "instancelock.h"
#include "log.h"
#include "rundir.h"
#include "whereabouts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* So many connections are kept for admins, and of few a share. */
#define KEPT_FOR_ADMINS 8

struct listener {
    struct server *server;
    uv_pipe_t pipe;
    bool listening;
    bool closing; /* the pipe: its handle can't be used again yet */
    bool lost;    /* the log was told that the socket can't be made anew */
    int lock;     /* a descriptor; see instancelock.h */
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    dev_t dev;
    ino_t ino;
    struct session *sessions;
    uint64_t count;
    bool closed;
};

/* ---- sessions ---- */

struct session *listener_first(const struct listener *l)
{
    return l->sessions;
}

static void remember(struct listener *l, struct session *s)
{
    s->next = l->sessions;
    if (s->next)
        s->next->prev = s;
    l->sessions = s;
    l->count++;
}

void listener_forget(struct listener *l, struct session *s)
{
    if (s->prev)
        s->prev->next = s->next;
    else
        l->sessions = s->next;
    if (s->next)
        s->next->prev = s->prev;
    l->count--;
}

bool listener_empty(const struct listener *l)
{
    return !l->sessions;
}

void listener_drain(struct listener *l)
{
    struct session *next;

    for (struct session *s = l->sessions; s; s = next) {
        next = s->next;
        session_drain(s);
    }
}

void listener_hang_up(struct listener *l)
{
    struct session *next;

    for (struct session *s = l->sessions; s; s = next) {
        next = s->next;
        if (s->inflight)
            session_close(s, "the daemon begins anew");
    }
}

void listener_events(struct listener *l)
{
    struct session *next;

    for (struct session *s = l->sessions; s; s = next) {
        next = s->next;
        if (s->watch.on)
            handlers_push_watch(s);
    }
}

void listener_roles_changed(struct listener *l)
{
    struct session *next;

    for (struct session *s = l->sessions; s; s = next) {
        next = s->next;
        session_roles_changed(s);
    }
}

static void keep_socket(struct listener *l);

/* What is wrong with S, if anything. */
static const char *time_is_up(struct session *s, const struct config *config, uint64_t now)
{
    uint64_t silence = now - s->heard_ms;

    if (s->frame_began_ms && s->reading && now - s->frame_began_ms > (uint64_t)config->frame_timeout)
        return "a frame took too long";
    if (!s->greeted && silence > (uint64_t)config->frame_timeout)
        return "it said no hello";
    if (session_stuck_ms(s) > (uint64_t)config->frame_timeout)
        return "it doesn't read its answers";
    if (!s->watch.on && (!s->leases_count || s->inflow) && !s->inflight && s->reading &&
        silence > (uint64_t)config->idle_timeout)
        return "it was silent too long";
    return NULL;
}

void listener_tick(struct listener *l)
{
    const struct config *config = &l->server->config;
    uint64_t now = world.now_ms(&l->server->loop);
    struct session *next;

    for (struct session *s = l->sessions; s; s = next) {
        next = s->next;
        if (s->closing)
            continue;
        const char *why = time_is_up(s, config, now);
        if (why) {
            counter_add(l->server->page, COUNTER_timeouts, 1);
            session_close(s, why);
        }
    }
    keep_socket(l);
}

static uint64_t connections_of(const struct listener *l, uid_t uid)
{
    uint64_t n = 0;

    for (const struct session *s = l->sessions; s; s = s->next)
        n += s->uid == uid;
    return n;
}

/* S is one more.  0, or SKADE_EBUSY and SKADE_EDENIED with the option's name. */
static int check_place(const struct listener *l, const struct session *s, struct errmsg *msg)
{
    uint64_t max = (uint64_t)l->server->config.max_connections, share = max - max / 4;
    uint64_t kept = max / 4 < KEPT_FOR_ADMINS ? max / 4 : KEPT_FOR_ADMINS;

    if (!s->roles)
        return fail(msg, SKADE_EDENIED,
                    "uid %u has no role here: skaded's options read, write, admin say who has",
                    (unsigned)s->uid);
    if (l->count > max)
        return fail(msg, SKADE_EBUSY,
                    "%" PRIu64 " connections are open, as many as max_connections allows: close some, or "
                    "raise it and send skaded "
                    "SIGHUP",
                    max);
    if (s->roles & ROLE_ADMIN)
        return 0;
    if (l->count > max - kept)
        return fail(msg, SKADE_EBUSY,
                    "%" PRIu64 " connections are open; of the %" PRIu64
                    " that max_connections allows the last %" PRIu64 " are kept for admins",
                    max - kept, max, kept);
    if (l->count > share && connections_of(l, s->uid) > share)
        return fail(msg, SKADE_EBUSY,
                    "uid %u has %" PRIu64 " connections open, three quarters of what max_connections allows",
                    (unsigned)s->uid, share);
    return 0;
}

static void on_connection(uv_stream_t *stream, int status)
{
    struct listener *l = stream->data;
    struct server *server = l->server;

    if (status < 0)
        return;
    struct session *s = session_accept(server, stream);
    if (!s)
        return;
    remember(l, s);
    if (s->closing)
        return;
    struct errmsg why = { "" };
    int r = check_place(l, s, &why);
    if (r < 0) {
        counter_add(server->page, COUNTER_connections_refused, 1);
        answer_error(s, 0, r, "%s", why.text);
        session_flush(s);
        session_drain(s);
        return;
    }
    session_resume(s);
}

/* ---- the socket ---- */

/* For clients that find no daemon: where its maps are, and that they are this log's. */
static int write_note(const struct server *s, struct errmsg *msg)
{
    struct whereabouts w = { .log = s->ledger->log };

    snprintf(w.shm_dir, sizeof w.shm_dir, "%s", publisher_place(s->publisher)->dir);
    return whereabouts_write(s->config.run_dir.text, s->config.instance.text, &w, msg);
}

/* DIR/NAME as a socket's path; config_finish() saw to it that it fits. */
static void join(char *ret, size_t size, const char *dir, const char *name)
{
    size_t n = strlen(dir), m = strlen(name);

    if (n + 1 + m >= size) {
        ret[0] = 0;
        return;
    }
    memcpy(ret, dir, n);
    ret[n] = '/';
    memcpy(ret + n + 1, name, m + 1);
}

static int bind_socket(struct listener *l, struct errmsg *msg)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    char name[16], *temporary = address.sun_path;
    struct stat st = { .st_ino = 0 };

    snprintf(name, sizeof name, ".%u", (unsigned)getpid());
    join(temporary, sizeof address.sun_path, l->server->config.run_dir.text, name);
    if (!l->path[0] || !temporary[0])
        return fail(msg, SKADE_EINPUT, "run_dir: '%s' is too long for a socket's path",
                    l->server->config.run_dir.text);

    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail(msg, -errno, "socket: %s", strerror(errno));
    unlink(temporary);
    int r = bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ? -errno : 0;
    /* Who may do what is decided by the kernel's word at accept; the mode only lets them ask. */
    if (r == 0 && chmod(temporary, 0666) < 0)
        r = -errno;
    if (r == 0 && listen(fd, SOMAXCONN) < 0)
        r = -errno;
    if (r == 0 && stat(temporary, &st) < 0)
        r = -errno;
    if (r == 0 && rename(temporary, l->path) < 0)
        r = -errno;
    if (r < 0) {
        unlink(temporary);
        close(fd);
        return fail(msg, r, "cannot listen on %s: %s", l->path, strerror(-r));
    }
    l->dev = st.st_dev;
    l->ino = st.st_ino;
    return fd;
}

static int hold_lock(struct listener *l, struct errmsg *msg)
{
    const struct config *config = &l->server->config;

    if (l->lock >= 0 && instance_lock_is_named(config, l->lock))
        return 0;
    int fd = instance_lock(config, msg);
    if (fd < 0)
        return fd;
    if (l->lock >= 0)
        close(l->lock);
    l->lock = fd;
    return 0;
}

static void on_pipe_closed(uv_handle_t *handle)
{
    struct listener *l = handle->data;
    l->closing = false;
}

static void close_pipe(struct listener *l)
{
    l->listening = false;
    l->closing = true;
    uv_close((uv_handle_t *)&l->pipe, on_pipe_closed);
}

/* The run directory with all that is in it, then the socket. */
static int start_listening(struct listener *l, struct errmsg *msg)
{
    struct server *s = l->server;

    int fd = rundir_make(&s->config, msg);
    if (fd == 0)
        fd = hold_lock(l, msg);
    if (fd == 0)
        fd = write_note(s, msg);
    if (fd == 0)
        fd = bind_socket(l, msg);
    if (fd < 0)
        return fd;
    /* libuv gets a descriptor and no path, so it can't unlink a successor's socket. */
    uv_pipe_init(&s->loop, &l->pipe, 0);
    l->pipe.data = l;
    int r = uv_pipe_open(&l->pipe, fd);
    if (r == 0)
        r = uv_listen((uv_stream_t *)&l->pipe, SOMAXCONN, on_connection);
    if (r < 0) {
        close_pipe(l);
        return fail(msg, r, "cannot listen on %s: %s", l->path, uv_strerror(r));
    }
    l->listening = true;
    return 0;
}

int listener_open(struct listener **ret, struct server *s, struct errmsg *msg)
{
    struct listener *l = calloc(1, sizeof *l);
    if (!l)
        return -ENOMEM;
    l->server = s;
    l->lock = -1;
    char name[INSTANCE_MAX + sizeof ".sock"];
    snprintf(name, sizeof name, "%.*s.sock", INSTANCE_MAX, s->config.instance.text);
    join(l->path, sizeof l->path, s->config.run_dir.text, name);
    int r = start_listening(l, msg);
    if (r < 0) {
        if (!l->closing) /* else the loop still has the handle; we are about to exit */
            listener_free(l);
        return r;
    }
    *ret = l;
    return 0;
}

static bool has_path(const struct listener *l)
{
    struct stat st;
    return lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino;
}

static void listen_again(struct listener *l)
{
    struct errmsg msg = { "" };

    if (start_listening(l, &msg) == 0)
        log_warning("the socket %s had lost its name and was made anew", l->path);
    else if (!l->lost)
        log_error("the socket %s has lost its name and can't be made anew: %s", l->path, msg.text);
    l->lost = !l->listening;
}

/* Nobody can connect to a socket whose name is gone, or another's: make it anew.  The old one is closed first, for its
 * handle is used again.  Who is connected stays so. */
static void keep_socket(struct listener *l)
{
    if (l->closed || l->closing || (l->listening && has_path(l)))
        return;
    if (l->listening)
        close_pipe(l);
    else
        listen_again(l);
}

void listener_close(struct listener *l)
{
    if (l->closed)
        return;
    l->closed = true;
    if (l->listening && has_path(l))
        unlink(l->path);
    if (l->listening)
        close_pipe(l);
}

void listener_free(struct listener *l)
{
    if (l->lock >= 0)
        close(l->lock);
    free(l);
}
