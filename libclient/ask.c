/*
 * Requests and answers: hello, one question at a time, and what to do when the connection breaks in
 * between.
 *
 * A request is built once and can be sent again as it is: questions may be asked twice, and everything that
 * changes something carries a uuid by which the daemon knows it again.  A connection is never repaired:
 * when something on it was left half done, it is closed and another one is made.
 */
#include "client.h"

#include <stdio.h>
#include <sys/random.h>

#define FRAME_MAX_LEAST 16384u       /* a daemon that takes less can't take a release's longest commit */
#define SIGN_OF_LIFE_MS 250          /* how often a long wait looks at the heartbeat */
#define RETURN_MS 10000              /* a restart takes less, and who waits longer should be told */
#define LONG_TIMEOUT_MS (600 * 1000) /* for long answers when no heartbeat can be seen */

/* ---- errors -------------------------------------------------------------------------------------------- */

void ask_hang_up(skade *s)
{
    stream_close(&s->stream);
    s->unfinished = false;
    s->owed = 0;
}

int ask_broken(skade *s, const char *what)
{
    count(s, CLIENT_protocol_errors);
    ask_hang_up(s);
    return fail(&s->msg, SKADE_EPROTOCOL, "the daemon at %s broke the protocol: %s", s->socket_path, what);
}

static int timed_out(skade *s)
{
    count(s, CLIENT_timeouts);
    return fail(&s->msg, SKADE_ETIMEOUT, "the daemon at %s did not answer within %d ms", s->socket_path,
                s->timeout_ms);
}

/* The stream failed with R. */
static int stream_failed(skade *s, int r)
{
    if (r == SKADE_EPROTOCOL)
        return ask_broken(s, "a malformed frame");
    if (r == STREAM_LOST)
        count(s, CLIENT_connections_lost);
    if (r == SKADE_ETIMEOUT)
        timed_out(s);
    ask_hang_up(s);
    return r;
}

/* What means something inside the library is nothing that a daemon may say. */
static bool is_error_code(int code)
{
    if (code == STREAM_LOST)
        return false;
    return (code < 0 && code > -4096) || (code <= SKADE_ENOTABLE && code >= SKADE_EFOREIGN);
}

/* F is an ERROR message. */
static int refused(skade *s, const struct frame *f)
{
    struct msg_error e;

    if (wire_read_error(f->payload, f->head.len, &e) < 0 || !is_error_code(e.code))
        return ask_broken(s, "a malformed error");
    s->refusal = (struct refusal){ .code = e.code, .heads = e.heads };
    if (e.message.len == 0)
        return fail(&s->msg, e.code, "%s", error_text(e.code));
    return fail(&s->msg, e.code, "%.*s", (int)e.message.len, e.message.data);
}

/* ---- receiving ----------------------------------------------------------------------------------------- */

/* Pieces of a release or an upload are answered only when they are refused, and then at any time. */
static bool is_of_upload(const skade *s, uint64_t request)
{
    const struct upload *u = &s->upload;
    return u->open && u->sent && u->serial == s->stream.serial && request == u->number;
}

static bool is_of_release(const skade *s, uint64_t request)
{
    const struct release *rel = &s->release;
    return rel->open && rel->serial == s->stream.serial && request >= rel->first_request &&
           request < rel->next_request;
}

static int piece_refused(skade *s, const struct frame *f, int *error, struct errmsg *story)
{
    struct errmsg before = s->msg;

    int r = refused(s, f);
    if (s->refusal.code == 0)
        return r;
    if (*error == 0) {
        *error = r;
        *story = s->msg;
    }
    s->refusal.code = 0;
    s->msg = before;
    return 0;
}

/* F came while request NUMBER waits for its ANSWER.  1: it is; 0: receive on; negative. */
static int judge(skade *s, uint64_t number, unsigned answer, const struct frame *f)
{
    bool is_error = f->head.type == WIRE_ERROR;

    if (s->owed != 0 && f->head.request == s->owed) {
        s->owed = 0;
        return 0;
    }
    if (is_error && is_of_upload(s, f->head.request)) /* first: its number may lie among a release's */
        return piece_refused(s, f, &s->upload.error, &s->upload.msg);
    if (is_error && f->head.request != number && is_of_release(s, f->head.request))
        return piece_refused(s, f, &s->release.error, &s->release.msg);
    if (is_error && f->head.request == 0) { /* about the connection: no answer to the request will come */
        int r = refused(s, f);
        s->refusal.code = 0;
        ask_hang_up(s);
        return r;
    }
    if (f->head.request != number)
        return ask_broken(s, "an answer to another request");
    if (!is_error && answer != ANY_ANSWER && f->head.type != answer)
        return ask_broken(s, "an answer of the wrong type");
    s->unfinished = (f->head.flags & FRAME_MORE) != 0 && !is_error;
    return is_error ? refused(s, f) : 1;
}

int ask_receive(skade *s, uint64_t number, unsigned answer, struct frame *ret)
{
    s->refusal.code = 0;
    for (;;) {
        int r = stream_receive(&s->stream, s->deadline, ret);
        if (r < 0)
            return stream_failed(s, r);
        r = judge(s, number, answer, ret);
        if (r != 0)
            return r < 0 ? r : 0;
    }
}

int ask_receive_unasked(skade *s)
{
    struct frame f;

    int r = stream_receive(&s->stream, s->deadline, &f);
    if (r < 0)
        return stream_failed(s, r);
    r = judge(s, 0, ANY_ANSWER, &f);
    return r > 0 ? ask_broken(s, "an answer to no request") : r;
}

int ask_more(skade *s, const struct frame *before, unsigned answer, struct frame *ret)
{
    deadline_renew(s);
    int r = ask_receive(s, before->head.request, answer, ret);
    if (r != STREAM_LOST)
        return r;
    return fail(&s->msg, SKADE_EUNREACHABLE, "the daemon at %s broke off in the middle of its answer",
                s->socket_path);
}

/* ---- hello --------------------------------------------------------------------------------------------- */

static int send_hello(skade *s, uint64_t number)
{
    const struct generation *g = s->shm.current;
    struct msg_hello hello = {
        .protocol_min = WIRE_PROTOCOL_MIN,
        .protocol_max = WIRE_PROTOCOL_MAX,
        .epoch = g ? g->epoch : 0,
        .generation = g ? g->number : 0,
        .label = bytes_of(s->label),
    };
    struct wr w = { .error = 0 };

    s->told.epoch = hello.epoch;
    s->told.generation = hello.generation;
    size_t at = frame_begin(&w);
    wire_put_hello(&w, &hello);
    frame_end(&w, at, WIRE_HELLO, 0, number);
    int r = w.error ? w.error : stream_send(&s->stream, w.data, w.len, s->deadline);
    wr_fini(&w);
    return r < 0 ? stream_failed(s, r) : 0;
}

static const char *welcome_problem(const struct msg_welcome *w)
{
    if (w->frame_max < FRAME_MAX_LEAST)
        return "it takes only tiny frames";
    if (w->shm_dir.len == 0 || w->shm_dir.len >= SHM_DIR_MAX || w->shm_dir.data[0] != '/' ||
        memchr(w->shm_dir.data, 0, w->shm_dir.len))
        return "its shared-memory directory is no path";
    return uuid_is_zero(&w->log) ? "its log has no uuid" : NULL;
}

static int take_welcome(skade *s, const struct frame *f)
{
    struct msg_welcome w;

    if (wire_read_welcome(f->payload, f->head.len, &w) < 0)
        return ask_broken(s, "a malformed welcome");
    if (w.protocol < WIRE_PROTOCOL_MIN || w.protocol > WIRE_PROTOCOL_MAX)
        return fail(&s->msg, SKADE_EVERSION, "the daemon at %s speaks protocol %u, this library %u",
                    s->socket_path, w.protocol, WIRE_PROTOCOL_MAX);
    const char *problem = welcome_problem(&w);
    if (problem)
        return ask_broken(s, problem);
    bool is_new = w.epoch != s->welcome.epoch;
    s->welcome = (struct welcome){
        .origin = w.origin,
        .epoch = w.epoch,
        .commit_seq = w.commit_seq,
        .control_dev = w.control_dev,
        .control_ino = w.control_ino,
        .frame_max = w.frame_max < WIRE_FRAME_MAX ? w.frame_max : WIRE_FRAME_MAX,
        .protocol = w.protocol,
    };
    /* First: the page that is left here may know of a later event than the daemon did when it wrote this. */
    int r = attach_log(s, &w.log, w.commit_seq);
    attach_welcome(s, w.shm_dir, is_new);
    return r;
}

static int hello(skade *s)
{
    struct frame f;
    uint64_t number = s->next_request++;

    int r = send_hello(s, number);
    if (r == 0)
        r = ask_receive(s, number, WIRE_WELCOME, &f);
    if (r == STREAM_LOST)
        return fail(
            &s->msg, SKADE_EUNREACHABLE,
            "the daemon at %s closed the connection at once, as it does when it has no more file descriptors "
            "(ulimit -n) or stops",
            s->socket_path);
    return r < 0 ? r : take_welcome(s, &f);
}

static int connect_anew(skade *s)
{
    ask_hang_up(s);
    attach_remember(s);
    s->refusal.code = 0;
    int r = stream_open(&s->stream, s->socket_path, s->place.uid, s->deadline, &s->msg);
    if (r == 0)
        r = hello(s);
    if (r == SKADE_EREPLACED) /* the connection is good: it is the handle that has to think again */
        return r;
    count(s, r < 0 ? CLIENT_connects_failed : CLIENT_connects);
    if (r < 0)
        ask_hang_up(s);
    return r;
}

int ask_connect(skade *s)
{
    if (deadline_left(s->deadline) == 0)
        return timed_out(s);
    if (!s->unfinished && stream_is_alive(&s->stream))
        return 0;
    return connect_anew(s);
}

/* ---- requests ------------------------------------------------------------------------------------------ */

struct wr *ask_begin(skade *s)
{
    s->out.len = 0;
    s->out.error = 0;
    s->refusal.code = 0;
    frame_begin(&s->out);
    return &s->out;
}

uint64_t ask_finish(skade *s, unsigned type)
{
    uint64_t number = s->next_request++;

    frame_end(&s->out, 0, (uint16_t)type, 0, number);
    if (s->out.error == 0)
        return number;
    fail(&s->msg, -ENOMEM, "out of memory for a request");
    return 0;
}

/* A DONE that arrives while we send would look like a word about what is sent. */
static int receive_owed(skade *s)
{
    int r = 0;

    while (r == 0 && s->owed != 0)
        r = ask_receive_unasked(s);
    return r;
}

int ask_send(skade *s)
{
    struct told told;

    int owed = receive_owed(s);
    if (owed < 0)
        return owed;
    s->unfinished = true;
    count(s, CLIENT_requests);
    size_t len = s->out.len; /* the request alone is what may be sent again */
    bool tells = tally_put(s, &s->out, &told);
    int r = stream_send(&s->stream, s->out.data, s->out.len, s->deadline);
    s->out.len = len;
    if (tells && r == 0)
        tally_told(s, &told);
    return r < 0 ? stream_failed(s, r) : r;
}

void ask_unwaited(skade *s, unsigned type)
{
    struct errmsg story = s->msg;
    uint64_t number = ask_finish(s, type);

    if (number != 0 && ask_send(s) == 0) {
        s->owed = number;
        s->unfinished = false;
    } else {
        ask_hang_up(s);
    }
    s->msg = story;
}

/* ---- long answers -------------------------------------------------------------------------------------- */

/* The deadline of a long wait runs from the last heartbeat.  A daemon whose heartbeat can't be seen gets long
 * enough. */
struct patience {
    bool beating;
    uint64_t beat;
};

static struct patience patience_begin(skade *s)
{
    if (attach_is_connected(s))
        return (struct patience){ true, control_heartbeat(s->shm.control.page) }; /* P6 */
    s->deadline = deadline_in(s->timeout_ms > LONG_TIMEOUT_MS ? s->timeout_ms : LONG_TIMEOUT_MS);
    return (struct patience){ .beating = false };
}

/* A slice of the wait is over.  Is there more of it? */
static bool patience_left(skade *s, struct patience *p)
{
    if (deadline_left(s->deadline) == 0)
        return false;
    if (!p->beating)
        return true;
    uint64_t now = control_heartbeat(s->shm.control.page); /* P6 */
    if (now != p->beat)
        deadline_renew(s);
    p->beat = now;
    return true;
}

int ask_await_long(skade *s, meanwhile_fn meanwhile, void *arg)
{
    struct patience p = patience_begin(s);

    for (;;) {
        int r = stream_await(&s->stream, deadline_sooner(s->deadline, SIGN_OF_LIFE_MS));
        if (r != SKADE_ETIMEOUT)
            return r < 0 ? stream_failed(s, r) : 0;
        if (!patience_left(s, &p))
            return stream_failed(s, r);
        if (meanwhile && meanwhile(arg) != 0)
            return -ECANCELED;
    }
}

int ask_send_long(skade *s, const struct wr *w)
{
    size_t done = 0;

    int r = receive_owed(s);
    if (r < 0)
        return r;
    struct patience p = patience_begin(s);
    count(s, CLIENT_requests);
    while (done < w->len) {
        r = stream_send(&s->stream, w->data + done, w->len - done,
                        deadline_sooner(s->deadline, SIGN_OF_LIFE_MS));
        done += s->stream.sent;
        if (r == 1) /* it takes the rest all the same, so that the connection stays good */
            r = ask_receive_unasked(s);
        else if (r == SKADE_ETIMEOUT && patience_left(s, &p))
            r = 0;
        else if (r < 0)
            stream_failed(s, r);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- ask, and ask again -------------------------------------------------------------------------------- */

/* How far the request came. */
struct attempt {
    enum ask_again again;
    bool connected;    /* this time */
    bool sent;         /* any time: the daemon may have acted on it */
    int lost;          /* times the connection broke */
    int64_t return_by; /* a daemon that went away is waited for until then; 0: none did */
};

static int exchange(skade *s, struct attempt *a, uint64_t number, unsigned answer, struct frame *ret)
{
    int r = ask_send(s);
    if (r < 0)
        return r;
    a->sent |= r == 0;
    if (a->again == ASK_LONG && r == 0) {
        r = ask_await_long(s, NULL, NULL);
        if (r < 0)
            return r;
    }
    return ask_receive(s, number, answer, ret);
}

/* R went wrong: is there another try? */
static bool try_again(skade *s, struct attempt *a, int r)
{
    /* A change that was sent waits for the daemon to come back: only it can tell what became of it. */
    if (!a->connected && a->return_by == 0)
        a->return_by = deadline_sooner(s->deadline, RETURN_MS);
    if (!a->connected)
        return a->again == ASK_CHANGE && a->sent && r != SKADE_EREPLACED && deadline_pause(a->return_by, 50);
    a->return_by = 0;
    if (s->refusal.code != 0 || r != STREAM_LOST)
        return false;
    count(s, CLIENT_requests_again);
    a->lost++;
    if (a->again == ASK_CHANGE)
        return deadline_pause(s->deadline, a->lost > 1 ? 50 : 2);
    return a->lost == 1;
}

/* What to tell the caller about R. */
static int verdict(skade *s, const struct attempt *a, int r)
{
    if (a->connected && s->refusal.code != 0)
        return r;
    bool unknown = a->again == ASK_CHANGE && a->sent && r != SKADE_EREPLACED && r != SKADE_EPROTOCOL;
    if (unknown && r == SKADE_ETIMEOUT)
        return fail(&s->msg, r, "the daemon at %s did not answer within %d ms: ask again with the same uuid",
                    s->socket_path, s->timeout_ms);
    if (unknown)
        return fail(&s->msg, SKADE_EUNKNOWN,
                    "the connection to %s broke before the answer came: ask again with the same uuid",
                    s->socket_path);
    if (r == STREAM_LOST)
        return fail(&s->msg, SKADE_EUNREACHABLE, "the daemon at %s closed the connection before it answered",
                    s->socket_path);
    return r;
}

int ask(skade *s, enum ask_again again, unsigned type, unsigned answer, struct frame *ret)
{
    struct attempt a = { .again = again };
    int r;

    uint64_t number = ask_finish(s, type);
    if (number == 0)
        return -ENOMEM;
    if (again == ASK_LONG && attach_page(s) == SKADE_EREPLACED) /* its heartbeat is wanted */
        return SKADE_EREPLACED;
    do {
        r = ask_connect(s);
        a.connected = r == 0;
        if (a.connected)
            r = exchange(s, &a, number, answer, ret);
    } while (r < 0 && try_again(s, &a, r));
    return r < 0 ? verdict(s, &a, r) : 0;
}

/* ---- small things that several files ask for ----------------------------------------------------------- */

int ask_newest(skade *s, uint64_t *ret)
{
    struct frame f;
    struct msg_pong pong;

    wire_put_ping(ask_begin(s), &(struct msg_ping){ .end_ = 0 });
    int r = ask(s, ASK_READ, WIRE_PING, WIRE_PONG, &f);
    if (r < 0)
        return r;
    if (wire_read_pong(f.payload, f.head.len, &pong) < 0)
        return ask_broken(s, "a malformed pong");
    *ret = pong.commit_seq;
    heard(s, pong.commit_seq);
    return 0;
}

int ask_uuid(skade *s, struct uuid *ret)
{
    if (getrandom(ret->b, sizeof ret->b, 0) != (ssize_t)sizeof ret->b)
        return fail(&s->msg, -errno, "the system has no random numbers: %s", strerrordesc_np(errno));
    ret->b[6] = (uint8_t)((ret->b[6] & 0x0f) | 0x40);
    ret->b[8] = (uint8_t)((ret->b[8] & 0x3f) | 0x80);
    return 0;
}
