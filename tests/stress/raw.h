/*
 * Connections to the daemon without the client library: frames are written and read as they are on the socket, so that a
 * program can say what no handle would.  What the daemon sends is checked; a daemon that neither answers nor closes is given
 * up after half a minute.
 */
#ifndef SKADE_STRESS_RAW_H
#define SKADE_STRESS_RAW_H

#include "stress.h"

#include "wire.h"

#include <sys/socket.h>
#include <sys/un.h>

#define PATIENCE_MS 30000

static inline int connect_raw(void)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };

    snprintf(to.sun_path, sizeof to.sun_path, "%s/default.sock", getenv("SKADE_RUN_DIR"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while (connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        if (errno != EAGAIN && errno != EINTR)
            die("connect: %s", strerror(errno));
    return fd;
}

static inline void send_all(int fd, struct wr *w)
{
    for (size_t at = 0; at < w->len;) {
        ssize_t n = send(fd, w->data + at, w->len - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EPIPE) /* refused: what it said is there to be read */
            break;
        if (n < 0 && errno != EINTR)
            die("send: %s", strerror(errno));
        at += n > 0 ? (size_t)n : 0;
    }
    wr_fini(w);
}

static inline bool receive_exactly(int fd, void *to, size_t len)
{
    for (size_t have = 0; have < len;) {
        struct pollfd p = { fd, POLLIN, 0 };
        if (poll(&p, 1, PATIENCE_MS) == 0)
            die("the daemon neither answers nor closes");
        ssize_t n = recv(fd, (char *)to + have, len - have, 0);
        if (n <= 0)
            return false;
        have += (size_t)n;
    }
    return true;
}

/* One frame; its payload is lent until the next one.  The type is 0 when the daemon closed. */
static inline struct frame_header receive(int fd, const uint8_t **payload)
{
    static uint8_t frame[WIRE_FRAME_MAX + sizeof(struct frame_header)];
    struct frame_header h = { .type = 0 };

    if (!receive_exactly(fd, frame, sizeof h))
        return h;
    int64_t len = frame_length(frame, sizeof h, WIRE_FRAME_MAX);
    if (len < 0 || !receive_exactly(fd, frame + sizeof h, (size_t)len - sizeof h))
        die("half a frame");
    if (frame_check(frame, (size_t)len, &h) < 0)
        die("a damaged frame");
    *payload = frame + sizeof h;
    return h;
}

/* The frame must be of this TYPE. */
static inline struct frame_header expect(int fd, unsigned type, const uint8_t **payload)
{
    struct frame_header h = receive(fd, payload);
    if (h.type != type)
        die("the answer is of type %u and not %u", h.type, type);
    return h;
}

static inline void must_hang_up(int fd)
{
    struct pollfd p = { fd, POLLHUP, 0 };
    p.events = 0; /* a hang-up is always told, and nothing else */
    if (poll(&p, 1, PATIENCE_MS) != 1)
        die("the connection was not closed");
}

static inline void put_hello(struct wr *w)
{
    size_t at = frame_begin(w);
    wire_put_hello(w, &(struct msg_hello){ .protocol_min = WIRE_PROTOCOL_MIN,
                                           .protocol_max = WIRE_PROTOCOL_MAX,
                                           .label = bytes_of("peer") });
    frame_end(w, at, WIRE_HELLO, 0, 1);
}

/* A greeted connection, or a refused one: then ERROR says why. */
static inline int try_greet(struct msg_error *error)
{
    struct wr w = { 0 };
    const uint8_t *payload;
    int fd = connect_raw();

    put_hello(&w);
    send_all(fd, &w);
    struct frame_header h = receive(fd, &payload);
    if (h.type == WIRE_WELCOME)
        return fd;
    if (h.type != WIRE_ERROR || wire_read_error(payload, h.len, error) < 0)
        die("hello was answered by type %u", h.type);
    close(fd);
    return -1;
}

static inline int greet(void)
{
    struct msg_error e;
    int fd = try_greet(&e);

    if (fd < 0)
        die("refused: %.*s", (int)e.message.len, e.message.data);
    return fd;
}

#endif
