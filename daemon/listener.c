#include "listener.h"

#include "handlers.h"
#include "log.h"
#include "whereabouts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct listener {
    struct server *server;
    uv_pipe_t pipe;
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

void listener_events(struct listener *l)
{
    struct session *next;

    for (struct session *s = l->sessions; s; s = next) {
        next = s->next;
        if (s->watch.on)
            handlers_push_watch(s);
    }
}

void listener_tick(struct listener *l)
{
    const struct config *config = &l->server->config;
    uint64_t now = uv_now(&l->server->loop);
    struct session *next;

    for (struct session *s = l->sessions; s; s = next) {
        next = s->next;
        if (s->closing)
            continue;
        bool slow =
            s->frame_began_ms && s->reading && now - s->frame_began_ms > (uint64_t)config->frame_timeout;
        bool silent = !s->greeted && now - s->heard_ms > (uint64_t)config->frame_timeout;
        bool idle = !s->watch.on && !s->inflight && now - s->heard_ms > (uint64_t)config->idle_timeout;
        if (slow || silent || idle) {
            counter_add(l->server->page, COUNTER_timeouts, 1);
            session_close(s, slow ? "a frame took too long" : "it was silent too long");
        }
    }
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
    if (l->count > (uint64_t)server->config.max_connections || !s->roles) {
        bool full = s->roles;
        counter_add(server->page, COUNTER_connections_refused, 1);
        if (full)
            answer_error(s, 0, SKADE_EBUSY, "%llu connections are open, as many as max_connections allows",
                         (unsigned long long)server->config.max_connections);
        else
            answer_error(s, 0, SKADE_EDENIED,
                         "uid %u has no role here: skaded's options read, write, admin say who has",
                         (unsigned)s->uid);
        session_flush(s);
        session_drain(s);
        return;
    }
    session_resume(s);
}

/* ---- the socket ---- */

static int make_run_dir(const struct server *s, struct errmsg *msg)
{
    const char *dir = s->config.run_dir.text;
    gid_t group;
    /* Others must reach the socket if they have a role; who has none is told so at accept. */
    mode_t mode = config_shm_mode(&s->config, &group) == 0400 && !s->config.write.text[0] &&
                          !s->config.admin.text[0] && !s->config.read.text[0]
                      ? 0700
                      : 0755;
    struct stat st;

    if (mkdir(dir, 0700) == 0) {
        if (chmod(dir, mode) < 0)
            return fail(msg, -errno, "%s: %s", dir, strerror(errno));
    } else if (errno != EEXIST) {
        return fail(msg, -errno, "cannot make the run directory %s: %s; make it or set run_dir", dir,
                    strerror(errno));
    }
    if (lstat(dir, &st) < 0)
        return fail(msg, -errno, "%s: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode) || (st.st_uid != geteuid() && geteuid() != 0) ||
        (st.st_mode & (S_IWGRP | S_IWOTH)))
        return fail(msg, SKADE_EFOREIGN,
                    "the run directory %s must be a directory of uid %u that nobody else can write to (it is "
                    "uid %u's, mode %04o)",
                    dir, (unsigned)geteuid(), (unsigned)st.st_uid, (unsigned)(st.st_mode & 07777));
    return 0;
}

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

int listener_open(struct listener **ret, struct server *s, struct errmsg *msg)
{
    struct listener *l = calloc(1, sizeof *l);
    if (!l)
        return -ENOMEM;
    l->server = s;
    char name[INSTANCE_MAX + sizeof ".sock"];
    snprintf(name, sizeof name, "%.*s.sock", INSTANCE_MAX, s->config.instance.text);
    join(l->path, sizeof l->path, s->config.run_dir.text, name);
    int fd = make_run_dir(s, msg);
    if (fd == 0)
        fd = write_note(s, msg);
    if (fd == 0)
        fd = bind_socket(l, msg);
    if (fd < 0) {
        free(l);
        return fd;
    }
    /* libuv gets a descriptor and no path, so it can't unlink a successor's socket. */
    uv_pipe_init(&s->loop, &l->pipe, 0);
    l->pipe.data = l;
    int r = uv_pipe_open(&l->pipe, fd);
    if (r == 0)
        r = uv_listen((uv_stream_t *)&l->pipe, SOMAXCONN, on_connection);
    if (r < 0)
        return fail(msg, r, "cannot listen on %s: %s", l->path, uv_strerror(r));
    *ret = l;
    return 0;
}

void listener_close(struct listener *l)
{
    struct stat st;

    if (l->closed)
        return;
    l->closed = true;
    if (stat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
        unlink(l->path);
    uv_close((uv_handle_t *)&l->pipe, NULL);
}

void listener_free(struct listener *l)
{
    free(l);
}
