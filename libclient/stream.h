/*
 * One connection to the daemon: bytes out, frames in, everything within a deadline.
 *
 * The descriptor lives in a process that isn't ours.  Host programs close what they don't know, reuse
 * numbers, and fork.  So the number is always 3 or more, and before each use it is proved by device and
 * inode that it still means our socket; a number that means something else is forgotten: never written to,
 * never closed.
 *
 * Nothing here raises a signal.  Callers keep errno and the cancellation state (struct call in client.h).
 */
#ifndef SKADE_STREAM_H
#define SKADE_STREAM_H

#include "errors.h"
#include "wire.h"

#include <sys/types.h>

/* ---- deadlines: milliseconds of CLOCK_MONOTONIC -------------------------------------------------------- */

#define DEADLINE_NEVER INT64_MAX

int64_t clock_ms(void);
int64_t deadline_in(int64_t timeout_ms); /* < 0: DEADLINE_NEVER */
int deadline_left(int64_t deadline);     /* for poll(): milliseconds, at least 0; -1: for ever */
int64_t deadline_sooner(int64_t deadline, int64_t timeout_ms);
/* Sleep up to about MS, at random so that a crowd spreads, never beyond DEADLINE.  False when that has
 * passed, before or by sleeping: then there is no time to try again. */
bool deadline_pause(int64_t deadline, unsigned ms);

/* ---- streams ------------------------------------------------------------------------------------------- */

struct stream {
    int fd; /* -1: not connected */
    dev_t dev;
    ino_t ino;
    uint64_t serial;  /* which of the handle's connections this is, from 1 */
    uint64_t foreign; /* how often the number turned out to be somebody else's */
    bool cut;         /* a frame was sent in part: nothing more can be said */
    size_t sent;      /* bytes that went out in the last stream_send() */
    uint8_t *in;      /* [in_pos, in_len) was received and not yet given out */
    size_t in_pos;
    size_t in_len;
    size_t in_cap;
};

struct frame {
    struct frame_header head;
    const uint8_t *payload; /* head.len bytes, lent until the next stream_receive() */
};

/* What stream functions return when the other side is gone.  Never leaves the library. */
#define STREAM_LOST (-ECONNRESET)

/*
 * Connect to the socket PATH, whose process must run as UID or root.  Waits while the daemon's backlog is
 * full. 0; SKADE_EUNREACHABLE, SKADE_EDENIED, SKADE_EFOREIGN, SKADE_ETIMEOUT, SKADE_EINPUT (path too long),
 * with the story in MSG.
 */
int stream_open(struct stream *s, const char *path, uint32_t uid, int64_t deadline, struct errmsg *msg);

/* Close and forget everything but serial; harmless when closed. */
void stream_close(struct stream *s);

/* Is FD that socket, and not what took its number? */
bool stream_is_socket(int fd, dev_t dev, ino_t ino);

/* Connected, still ours, and not hung up?  Doesn't wait. */
bool stream_is_alive(struct stream *s);

/*
 * Send LEN bytes.  0; 1 when the other side spoke or left before all was sent, so that the caller should
 * receive and then close (cut tells whether a part was sent); STREAM_LOST, SKADE_ETIMEOUT.
 */
int stream_send(struct stream *s, const void *data, size_t len, int64_t deadline);

/* Send LEN bytes, a short message, now or not at all.  False: it was not sent. */
bool stream_try(struct stream *s, const void *data, size_t len);

/* Wait until there is something to receive, or the other side is gone.  0; STREAM_LOST, SKADE_ETIMEOUT. */
int stream_await(struct stream *s, int64_t deadline);

/* The next frame, checked.  0; STREAM_LOST, SKADE_ETIMEOUT, SKADE_EPROTOCOL, -ENOMEM. */
int stream_receive(struct stream *s, int64_t deadline, struct frame *ret);

/* Is there something to receive right now?  Doesn't wait. */
bool stream_has_input(struct stream *s);

/* Give the buffer's memory back.  What was received and not given out stays. */
void stream_shrink(struct stream *s);

#endif
