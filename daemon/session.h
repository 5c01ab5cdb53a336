/*
 * One connection: bytes in, frames out of them, answers back, and limits that keep one peer from hurting the others.
 *
 *   a frame longer than allowed, or damaged     the connection is closed
 *   a frame that isn't complete in time         the connection is closed
 *   more requests in flight than allowed        not read until some are answered
 *   a peer that doesn't read its answers        not read until it does; a watch waits; nothing is buffered without bound;
 *                                               the connection is closed if nothing of much moves
 *   silence                                     closed after the idle time, unless it watches
 *
 * Belongs to the loop.  Whoever will answer later holds a reference; the memory goes with the last one.
 */
#ifndef SKADE_SESSION_H
#define SKADE_SESSION_H

#include "committer.h"
#include "server.h"
#include "wire.h"

struct session {
    struct session *prev, *next;
    struct server *server;
    uv_pipe_t pipe;
    unsigned refs;
    bool closing;  /* nothing more is read or written */
    bool draining; /* closes when what it is owed is written */

    /* who it is */
    unsigned roles;
    uid_t uid;
    pid_t pid;
    bool greeted;
    char label[65];
    uint64_t epoch, generation; /* that it maps, as it told last */

    /* in */
    uint8_t *in;
    size_t in_len, in_cap;
    bool reading;
    bool taking;       /* frames are being served: whatever resumes it meanwhile need do nothing */
    bool held;         /* frames may be complete that were not served, since it might take no more */
    unsigned inflight; /* requests that will be answered later */
    uint64_t requests;
    uint64_t heard_ms;       /* last complete frame, or when we began to read again */
    uint64_t frame_began_ms; /* 0: no frame is begun */

    /* out */
    struct wr out;     /* not given to the kernel yet */
    size_t out_flying; /* given, not written yet */
    size_t unread;     /* of what is flying, when last looked at */
    uint64_t took_ms;  /* when it last took something, or didn't have to */

    /* what it has open */
    struct change *release;
    int release_error; /* the open release failed already; the rest of it is skipped */
    struct {
        bool on;
        bool reading;    /* a slice of old events is on its way, perhaps for an earlier watch */
        uint64_t number; /* of this watch: one more with each */
        uint64_t request;
        uint64_t after;
    } watch;
    struct resolving *resolving; /* its answer is longer than what may be owed */
    struct backup *backup;
    struct inflow *inflow; /* rows that it sends */
    struct lease **leases; /* by number, which ascends */
    size_t leases_count, leases_cap;
};

/* Accept from LISTENING.  The session announces its end by listener_forget(). NULL: refused or no memory. */
struct session *session_accept(struct server *s, uv_stream_t *listening);

struct session *session_ref(struct session *s);
void session_unref(struct session *s);

/* Begin to close; harmless when begun.  WHY (NULL: its own end) goes to the log at debug level. */
void session_close(struct session *s, const char *why);

/* Close once everything is written. */
void session_drain(struct session *s);

/*
 * Answers: begin a frame, put the payload into S->out, end it.  A frame that can't be built closes the connection.
 *
 *     size_t at = answer_begin(s);
 *     wire_put_pong(&s->out, &m);
 *     answer_end(s, at, WIRE_PONG, 0, request);
 */
size_t answer_begin(struct session *s);
void answer_end(struct session *s, size_t at, enum wire_type type, uint16_t flags, uint64_t request);
void answer_error(struct session *s, uint64_t request, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Hand what is in out to the kernel. Called at the end of each turn by whoever answered. */
void session_flush(struct session *s);

/* Something it waited for is done: go on reading, if that was why it paused. */
void session_resume(struct session *s);

/* Bytes that it is owed. */
size_t session_owed(const struct session *s);

/* For how long it has taken nothing although it is owed SESSION_OWED_MAX.  To be called once a tick. */
uint64_t session_stuck_ms(struct session *s);

/* Its roles are what the options now say; without any it is told so, and closed once it has what it is owed. */
void session_roles_changed(struct session *s);

/* The most that may be owed before reading, watches and backups pause. */
#define SESSION_OWED_MAX (1u << 20)

#endif
