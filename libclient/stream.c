#include "stream.h"

#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define READ_SIZE 16384u /* room for what comes next, when nothing tells how long it is */
#define FIRST_FD 3       /* 0, 1 and 2 belong to whoever prints */

/* ---- deadlines ----------------------------------------------------------------------------------------- */

int64_t clock_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t deadline_in(int64_t timeout_ms)
{
    return timeout_ms < 0 ? DEADLINE_NEVER : clock_ms() + timeout_ms;
}

int deadline_left(int64_t deadline)
{
    if (deadline == DEADLINE_NEVER)
        return -1;
    int64_t left = deadline - clock_ms();
    if (left <= 0)
        return 0;
    return left < INT32_MAX ? (int)left : INT32_MAX;
}

int64_t deadline_sooner(int64_t deadline, int64_t timeout_ms)
{
    int64_t other = deadline_in(timeout_ms);
    return other < deadline ? other : deadline;
}

bool deadline_pause(int64_t deadline, unsigned ms)
{
    uint32_t random = 0;
    int left = deadline_left(deadline);

    if (left == 0)
        return false;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
        random = (uint32_t)(uintptr_t)&random >> 4;
    int wait = (int)(ms / 2 + random % (ms / 2 + 1));
    poll(NULL, 0, left > 0 && left < wait ? left : wait);
    return deadline_left(deadline) != 0;
}

/* ---- is the number still ours? ------------------------------------------------------------------------- */

bool stream_is_socket(int fd, dev_t dev, ino_t ino)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_dev == dev && st.st_ino == ino;
}

/* The host program may have closed our descriptor and got its number for something of its own: then it is
 * not ours to close, either. */
static bool still_ours(struct stream *s)
{
    if (s->fd < 0)
        return false;
    if (stream_is_socket(s->fd, s->dev, s->ino))
        return true;
    s->fd = -1;
    s->foreign++;
    return false;
}

/* poll() for EVENTS.  What happened, or STREAM_LOST, SKADE_ETIMEOUT. */
static int wait_for(struct stream *s, short events, int64_t deadline)
{
    for (;;) {
        if (!still_ours(s))
            return STREAM_LOST;
        struct pollfd p = { .fd = s->fd, .events = events };
        int n = poll(&p, 1, deadline_left(deadline));
        if (n > 0)
            return still_ours(s) ? p.revents : STREAM_LOST; /* the number may have changed hands meanwhile */
        if (n == 0 && deadline_left(deadline) == 0)
            return SKADE_ETIMEOUT;
        if (n < 0 && errno != EINTR)
            return STREAM_LOST;
    }
}

bool stream_is_alive(struct stream *s)
{
    if (!still_ours(s) || s->cut)
        return false;
    struct pollfd p = { .fd = s->fd, .events = POLLRDHUP };
    return poll(&p, 1, 0) == 0;
}

bool stream_has_input(struct stream *s)
{
    if (s->in_pos < s->in_len)
        return true;
    if (!still_ours(s))
        return true; /* receiving will tell that it is lost */
    struct pollfd p = { .fd = s->fd, .events = POLLIN };
    return poll(&p, 1, 0) != 0;
}

int stream_await(struct stream *s, int64_t deadline)
{
    if (s->in_pos < s->in_len)
        return 0;
    int r = wait_for(s, POLLIN, deadline);
    return r < 0 ? r : 0;
}

/* ---- connecting ---------------------------------------------------------------------------------------- */

static int move_up(int fd)
{
    if (fd < 0 || fd >= FIRST_FD)
        return fd;
    int up = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
    int error = errno;
    close(fd);
    errno = error;
    return up;
}

static int connect_failed(const char *path, int error, struct errmsg *msg)
{
    if (error == ENOENT || error == ECONNREFUSED || error == ENOTSOCK)
        return fail(msg, SKADE_EUNREACHABLE, "no daemon answers at %s: is skaded running for this instance?",
                    path);
    if (error == EACCES || error == EPERM)
        return fail(msg, SKADE_EDENIED,
                    "this user may not connect to %s: skaded's options read, write, admin give roles, and a "
                    "directory that skaded didn't make must let others in (chmod 0755)",
                    path);
    return fail(msg, SKADE_EUNREACHABLE, "cannot connect to %s: %s", path, strerrordesc_np(error));
}

static int connect_within(int fd, const struct sockaddr_un *to, int64_t deadline, struct errmsg *msg)
{
    while (connect(fd, (const struct sockaddr *)to, sizeof *to) < 0) {
        if (errno == EISCONN)
            return 0;
        if (errno == EINTR)
            continue;
        /* A Unix socket says so when the listener's backlog is full: the daemon is there and busy. */
        if (errno != EAGAIN)
            return connect_failed(to->sun_path, errno, msg);
        if (!deadline_pause(deadline, 20))
            return fail(msg, SKADE_ETIMEOUT, "the daemon at %s accepts no connection: it hangs or is overrun",
                        to->sun_path);
    }
    return 0;
}

static int check_peer(int fd, const char *path, uint32_t uid, struct errmsg *msg)
{
    struct ucred peer;
    socklen_t len = sizeof peer;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return fail(msg, SKADE_EFOREIGN, "cannot tell who listens at %s: %s", path, strerrordesc_np(errno));
    if (peer.uid != uid && peer.uid != 0)
        return fail(msg, SKADE_EFOREIGN,
                    "uid %u listens at %s; only uid %u, the directory's owner, and root are trusted",
                    peer.uid, path, uid);
    return 0;
}

static int remember(struct stream *s, int fd, const char *path, struct errmsg *msg)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return fail(msg, SKADE_EUNREACHABLE, "cannot look at the socket to %s: %s", path,
                    strerrordesc_np(errno));
    s->fd = fd;
    s->dev = st.st_dev;
    s->ino = st.st_ino;
    s->serial++;
    return 0;
}

static int open_socket(const char *path, struct errmsg *msg)
{
    int fd = move_up(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0)
        return fail(msg, SKADE_EUNREACHABLE, "cannot make a socket to %s: %s", path, strerrordesc_np(errno));
    return fd;
}

int stream_open(struct stream *s, const char *path, uint32_t uid, int64_t deadline, struct errmsg *msg)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };

    assert(s->fd < 0);
    if (strlen(path) >= sizeof to.sun_path)
        return fail(msg, SKADE_EINPUT,
                    "the socket path %s has more than %zu bytes: use a shorter run directory", path,
                    sizeof to.sun_path - 1);
    memcpy(to.sun_path, path, strlen(path));
    int fd = open_socket(path, msg);
    if (fd < 0)
        return fd;
    int r = connect_within(fd, &to, deadline, msg);
    if (r == 0)
        r = check_peer(fd, path, uid, msg);
    if (r == 0)
        r = remember(s, fd, path, msg);
    if (r < 0)
        close(fd);
    return r;
}

void stream_close(struct stream *s)
{
    if (still_ours(s))
        close(s->fd);
    s->fd = -1;
    s->cut = false;
    s->in_pos = s->in_len = 0;
}

void stream_shrink(struct stream *s)
{
    if (s->in_pos < s->in_len)
        return;
    free(s->in);
    s->in = NULL;
    s->in_pos = s->in_len = s->in_cap = 0;
}

/* ---- sending ------------------------------------------------------------------------------------------- */

int stream_send(struct stream *s, const void *data, size_t len, int64_t deadline)
{
    const uint8_t *next = data;
    const uint8_t *end = next + len;

    s->sent = 0;
    while (next < end) {
        if (!still_ours(s))
            return STREAM_LOST;
        ssize_t n = send(s->fd, next, (size_t)(end - next), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            next += n;
            s->sent += (size_t)n;
            s->cut = next < end;
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            return 1; /* gone, but perhaps not without a word: what it sent before can still be received */
        int r = wait_for(s, POLLIN | POLLOUT, deadline);
        if (r < 0)
            return r;
        if (r & POLLIN)
            return 1;
    }
    return 0;
}

bool stream_try(struct stream *s, const void *data, size_t len)
{
    if (!still_ours(s) || s->cut)
        return false;
    ssize_t n = send(s->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0 && (size_t)n < len) /* never: the kernel has one buffer for it, or none */
        stream_close(s);
    return n == (ssize_t)len;
}

/* ---- receiving ----------------------------------------------------------------------------------------- */

/* Make room for NEED bytes from in_pos on.  Frames that were lent are invalid after it. */
static int make_room(struct stream *s, size_t need)
{
    if (s->in_pos > 0) {
        memmove(s->in, s->in + s->in_pos, s->in_len - s->in_pos);
        s->in_len -= s->in_pos;
        s->in_pos = 0;
    }
    if (need <= s->in_cap)
        return 0;
    uint8_t *in = realloc(s->in, need);
    if (!in)
        return -ENOMEM;
    s->in = in;
    s->in_cap = need;
    return 0;
}

/* Receive what is there, up to the buffer's end. */
static int fill(struct stream *s, int64_t deadline)
{
    for (;;) {
        int r = wait_for(s, POLLIN, deadline);
        if (r < 0)
            return r;
        ssize_t n = recv(s->fd, s->in + s->in_len, s->in_cap - s->in_len, MSG_DONTWAIT);
        if (n > 0) {
            s->in_len += (size_t)n;
            return 0;
        }
        if (n == 0 || (errno != EINTR && errno != EAGAIN))
            return STREAM_LOST;
    }
}

int stream_receive(struct stream *s, int64_t deadline, struct frame *ret)
{
    for (;;) {
        size_t have = s->in_len - s->in_pos;
        int64_t len = have ? frame_length(s->in + s->in_pos, have, WIRE_FRAME_MAX) : 0;
        if (len < 0)
            return SKADE_EPROTOCOL;
        if (len > 0 && (size_t)len <= have) {
            const uint8_t *frame = s->in + s->in_pos;
            s->in_pos += (size_t)len;
            ret->payload = frame + sizeof ret->head;
            return frame_check(frame, (size_t)len, &ret->head);
        }
        int r = make_room(s, len > READ_SIZE ? (size_t)len : READ_SIZE);
        if (r == 0)
            r = fill(s, deadline);
        if (r < 0)
            return r;
    }
}
