#include "session.h"

#include "inflow.h"
#include "handlers.h"
#include "listener.h"
#include "log.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_CHUNK 65536

/* The analyzer can't see that whoever calls in here holds a reference of its own. */
/* NOLINTBEGIN(clang-analyzer-unix.Malloc) */

/* ---- life -------------------------------------------------------------------------------------------------------- */

struct session *session_ref(struct session *s)
{
    s->refs++;
    return s;
}

void session_unref(struct session *s)
{
    assert(s->refs > 0);
    if (--s->refs)
        return;
    change_free(s->release);
    wr_fini(&s->out);
    free(s->in);
    free(s);
}

static void on_closed(uv_handle_t *handle)
{
    struct session *s = handle->data;

    listener_forget(s->server->listener, s);
    session_unref(s);
}

void session_close(struct session *s, const char *why)
{
    if (s->closing)
        return;
    if (why)
        log_debug("connection of uid %u (%s): %s", (unsigned)s->uid, s->label, why);
    s->closing = true;
    if (s->watch.on)
        counter_add(s->server->page, COUNTER_watchers, (uint64_t)-1);
    s->watch.on = false;
    handlers_session_ends(s);
    counter_add(s->server->page, COUNTER_connections, (uint64_t)-1);
    uv_close((uv_handle_t *)&s->pipe, on_closed);
}

size_t session_owed(const struct session *s)
{
    return s->out.len + s->out_flying;
}

uint64_t session_stuck_ms(struct session *s)
{
    uint64_t now = world.now_ms(&s->server->loop);
    size_t unread = uv_stream_get_write_queue_size((uv_stream_t *)&s->pipe);

    if (session_owed(s) < SESSION_OWED_MAX || unread < s->unread)
        s->took_ms = now;
    s->unread = unread;
    return now - s->took_ms;
}

static void close_if_drained(struct session *s)
{
    if (s->draining && !s->inflight && !session_owed(s))
        session_close(s, NULL);
}

void session_drain(struct session *s)
{
    if (s->closing)
        return;
    s->draining = true;
    if (s->reading)
        uv_read_stop((uv_stream_t *)&s->pipe);
    s->reading = false;
    close_if_drained(s);
}

/* ---- out ----------------------------------------------------------------------------------------------------------- */

struct flight {
    uv_write_t write;
    struct session *session;
    struct wr bytes;
};

static void on_written(uv_write_t *write, int status)
{
    struct flight *f = write->data;
    struct session *s = f->session;

    s->out_flying -= f->bytes.len;
    s->took_ms = world.now_ms(&s->server->loop);
    wr_fini(&f->bytes);
    free(f);
    if (status < 0)
        session_close(s, "its end of the socket is gone");
    if (!s->closing) {
        handlers_session_writable(s);
        session_resume(s);
        close_if_drained(s);
    }
    session_unref(s);
}

void session_flush(struct session *s)
{
    if (s->closing || (!s->out.len && !s->out.error))
        return;
    struct flight *f = calloc(1, sizeof *f);
    if (!f || s->out.error) {
        free(f);
        session_close(s, "no memory for its answers");
        return;
    }
    f->session = session_ref(s);
    f->bytes = s->out;
    f->write.data = f;
    s->out = (struct wr){ 0 };
    s->out_flying += f->bytes.len;
    uv_buf_t buf = uv_buf_init((char *)f->bytes.data, (unsigned)f->bytes.len);
    int r = uv_write(&f->write, (uv_stream_t *)&s->pipe, &buf, 1, on_written);
    if (r < 0) {
        s->out_flying -= f->bytes.len;
        wr_fini(&f->bytes);
        free(f);
        session_close(s, "its end of the socket is gone");
        session_unref(s);
    }
}

size_t answer_begin(struct session *s)
{
    return frame_begin(&s->out);
}

void answer_end(struct session *s, size_t at, enum wire_type type, uint16_t flags, uint64_t request)
{
    frame_end(&s->out, at, (uint16_t)type, flags, request);
}

void answer_error(struct session *s, uint64_t request, int code, const char *format, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    struct msg_error m = { .code = code, .message = bytes_of(text) };
    size_t at = answer_begin(s);
    wire_put_error(&s->out, &m);
    answer_end(s, at, WIRE_ERROR, 0, request);
}

/* ---- in -------------------------------------------------------------------------------------------------------------- */

static bool may_take_more(const struct session *s)
{
    return !s->closing && !s->draining && s->inflight < (unsigned)s->server->config.max_inflight &&
           session_owed(s) < SESSION_OWED_MAX && !s->resolving && !inflow_is_full(s);
}

static void broken(struct session *s, const char *why)
{
    counter_add(s->server->page, COUNTER_protocol_errors, 1);
    answer_error(s, 0, SKADE_EPROTOCOL, "%s", why);
    session_flush(s);
    session_close(s, why);
}

/* Serve the frames that are complete, as long as the session may take more. */
static void serve_frames(struct session *s)
{
    size_t done = 0;

    s->held = true;
    while (may_take_more(s)) {
        struct frame_header h;
        int64_t len = frame_length(s->in + done, s->in_len - done, WIRE_FRAME_MAX);
        if (len == 0 || (len > 0 && (size_t)len > s->in_len - done)) {
            s->held = false;
            break;
        }
        if (len < 0 || frame_check(s->in + done, (size_t)len, &h) < 0) {
            broken(s, len < 0 ? "a frame is longer than allowed" : "a frame's checksum is wrong");
            return;
        }
        s->heard_ms = world.now_ms(&s->server->loop);
        if (h.type != WIRE_TALLY) { /* which asks for nothing */
            s->requests++;
            counter_add(s->server->page, COUNTER_requests, 1);
        }
        const char *problem = frame_problem(s, &h);
        if (!problem && handle_frame(s, &h, s->in + done + sizeof h) < 0)
            problem = "a malformed message";
        if (problem) {
            broken(s, problem);
            return;
        }
        done += (size_t)len;
    }
    if (s->closing)
        return;
    if (done) {
        memmove(s->in, s->in + done, s->in_len - done);
        s->in_len -= done;
    }
    if (done || !s->in_len)
        s->frame_began_ms = s->in_len ? world.now_ms(&s->server->loop) : 0;
}

/* A worker that takes the rows that came makes room for more of them: then nobody else would come for what is held. */
static void take_frames(struct session *s)
{
    s->taking = true;
    do {
        serve_frames(s);
        if (!s->closing)
            inflow_go(s);
        session_flush(s);
    } while (s->held && may_take_more(s));
    s->taking = false;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct session *s = handle->data;

    (void)suggested;
    /* A frame never needs more than this; grow towards it as bytes really come. */
    size_t max = WIRE_FRAME_MAX + sizeof(struct frame_header) + READ_CHUNK;
    if (s->in_cap - s->in_len < READ_CHUNK / 4 && s->in_cap < max) {
        size_t cap = s->in_cap ? s->in_cap * 2 : READ_CHUNK;
        if (cap > max)
            cap = max;
        uint8_t *more = realloc(s->in, cap);
        if (more) {
            s->in = more;
            s->in_cap = cap;
        }
    }
    size_t room = s->in_cap - s->in_len;
    *buf = uv_buf_init((char *)s->in + s->in_len, (unsigned)(room < READ_CHUNK ? room : READ_CHUNK));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct session *s = stream->data;

    (void)buf;
    if (n < 0) {
        /* A half-closed peer still gets the answers it is owed. */
        if (n == UV_EOF && (s->inflight || session_owed(s)))
            session_drain(s);
        else
            session_close(s, n == UV_EOF ? NULL : "reading from it failed");
        return;
    }
    if (n == 0)
        return;
    if (!s->in_len)
        s->frame_began_ms = world.now_ms(&s->server->loop);
    s->in_len += (size_t)n;
    session_ref(s);
    take_frames(s);
    session_resume(s);
    session_unref(s);
}

/* Read exactly while more may be taken. */
void session_resume(struct session *s)
{
    if (s->closing || s->draining || s->taking)
        return;
    bool want = may_take_more(s);
    if (want && !s->reading) {
        s->reading = true;
        s->heard_ms = world.now_ms(&s->server->loop); /* till now it couldn't be heard */
        s->frame_began_ms = s->in_len ? s->heard_ms : 0;
        session_ref(s);
        take_frames(s); /* what came before the pause */
        if (!s->closing && may_take_more(s))
            uv_read_start((uv_stream_t *)&s->pipe, on_alloc, on_read);
        else
            s->reading = false;
        session_unref(s);
    } else if (!want && s->reading) {
        uv_read_stop((uv_stream_t *)&s->pipe);
        s->reading = false;
    }
}

/* ---- accept ------------------------------------------------------------------------------------------------------------ */

/* Who connected: the kernel's word, as of connect(). */
static int identify(struct session *s)
{
    struct ucred cred;
    socklen_t len = sizeof cred;
    gid_t groups[256];
    socklen_t groups_len = sizeof groups;
    uv_os_fd_t fd;

    if (uv_fileno((uv_handle_t *)&s->pipe, &fd) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return -errno;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &groups_len) < 0)
        groups_len = 0; /* more than we hold, or an old kernel: the primary group counts */
    s->uid = cred.uid;
    s->pid = cred.pid;
    s->roles = config_roles(&s->server->config, cred.uid, cred.gid, groups, groups_len / sizeof groups[0]);
    return 0;
}

/* What it has open that takes a role that it hasn't. */
static bool exceeds_roles(const struct session *s)
{
    return (s->backup && !(s->roles & ROLE_ADMIN)) || ((s->release || s->inflow) && !(s->roles & ROLE_WRITE));
}

void session_roles_changed(struct session *s)
{
    if (s->closing)
        return;
    if (identify(s) < 0 || exceeds_roles(s)) {
        session_close(s, "its role was taken back");
        return;
    }
    if (s->roles || s->draining)
        return;
    if (s->watch.on)
        counter_add(s->server->page, COUNTER_watchers, (uint64_t)-1);
    s->watch.on = false;
    answer_error(s, 0, SKADE_EDENIED,
                 "uid %u has no role here any more: skaded's options read, write, admin say who has",
                 (unsigned)s->uid);
    session_flush(s);
    session_drain(s);
}

struct session *session_accept(struct server *server, uv_stream_t *listening)
{
    struct session *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->server = server;
    s->refs = 1;
    uv_pipe_init(&server->loop, &s->pipe, 0);
    s->pipe.data = s;
    s->heard_ms = s->took_ms = world.now_ms(&server->loop);
    counter_add(server->page, COUNTER_connections, 1);
    counter_add(server->page, COUNTER_connections_total, 1);
    if (uv_accept(listening, (uv_stream_t *)&s->pipe) < 0 || identify(s) < 0) {
        session_close(s, "could not be accepted");
        return s;
    }
    return s;
}

/* NOLINTEND(clang-analyzer-unix.Malloc) */
