/*
 * What the files of the client library share: the handle, and what each file does for the others.
 *
 *   open.c      options, run directory, handles            history.c   history, since, tables: in pages
 *   call.c      what every public function does first      watch.c     events as they come
 *               and last                                    commit.c    commit, release
 *   stream.c    one socket: bytes out, frames in           change.c    create, rename, drop, expire
 *   ask.c       hello, requests, answers, asking again     admin.c     ping, reindex, clients, backup
 *   attach.c    control page, generations, moments         stats.c     counters: the daemon's, the handle's
 *   answer.c    what a struct skade_answer says            segments.c  what is mapped, and is it sound
 *   resolve.c   resolve, head, as_of, find_table           help.c      times, uuids, names, errors
 *   fresh.c     what is newer than the parts: the tail
 *   many.c      resolve_many                               view.c      frozen moments
 *   upload.c    rows on their way to the daemon            append.c    rows in
 *   tally.c     the daemon is told of lookups
 *   hold.c      a snapshot's files, leased                 scan.c      rows out
 *   get.c       the value of a key                         compact.c   compaction; gc.c: what it left
 *
 * A question goes this way:
 *
 *     moment_at_hand()  --yes-->  search the map  --settled-->  answer          no system call on this line
 *          | no                        | not settled
 *     moment_take(): attach, refresh   |
 *          |                           v
 *          +--------- no map ----> ask(): hello, request, answer, and again when the connection broke
 */
#ifndef SKADE_CLIENT_H
#define SKADE_CLIENT_H

#include "skade.h"

#include "control.h"
#include "errors.h"
#include "generation.h"
#include "names.h"
#include "rowset.h"
#include "stream.h"
#include "tailmap.h"
#include "wire.h"

/* ---- counters of a handle: X(name, help) --------------------------------------------------------------- */

/* clang-format off */
#define CLIENT_COUNTERS(X)                                                                          \
    X(hits_map,          "questions answered from shared memory")                                   \
    X(hits_tail,         "of them, those whose answer was in the mapped tail")                      \
    X(asked_daemon,      "questions that the daemon had to answer")                                 \
    X(stale_answers,     "answers from a map that may be out of date, because the handle allows it") \
    X(attaches,          "control pages attached")                                                  \
    X(refreshes,         "generations mapped")                                                      \
    X(vanished,          "generations replaced while they were opened")                             \
    X(tails,             "tails mapped")                                                            \
    X(tails_missing,     "generations whose tail could not be mapped")                              \
    X(retired_seen,      "control pages left because their daemon was succeeded")                   \
    X(strayed,           "control pages left because they are not the page of the daemon that answers") \
    X(failed_missing,    "failures to map: no such file; another /dev/shm, or names were deleted")  \
    X(failed_foreign,    "failures to map: another user's file, or not a file")                     \
    X(failed_damaged,    "failures to map: damaged")                                                \
    X(failed_version,    "failures to map: of an incompatible version")                             \
    X(failed_denied,     "failures to map: no permission")                                          \
    X(failed_resources,  "failures to map: out of memory or descriptors")                           \
    X(failed_other,      "failures to map: anything else")                                          \
    X(damage_seen,       "answers in a map that turned out damaged")                                \
    X(connects,          "connections made")                                                        \
    X(connects_failed,   "connections that could not be made")                                      \
    X(requests,          "requests sent")                                                           \
    X(requests_again,    "requests sent again after a broken connection")                           \
    X(connections_lost,  "connections that broke")                                                  \
    X(tallies,           "times the daemon was told how many questions memory answered")            \
    X(timeouts,          "requests without an answer in time")                                      \
    X(protocol_errors,   "connections closed because the daemon broke the protocol")                \
    X(foreign_fds,       "times the host program had closed our socket or used its number")         \
    X(forks,             "times the handle found itself in a child process")                        \
    X(logs_replaced,     "times the commit log turned out to be another one")
/* clang-format on */

enum client_counter {
#define COUNTER(name, help) CLIENT_##name,
    CLIENT_COUNTERS(COUNTER)
#undef COUNTER
        CLIENT_COUNTER_END
};

/* ---- shared memory ------------------------------------------------------------------------------------- */

/* When to try again what failed: soon at first, then ever less often. */
struct backoff {
    int64_t until; /* clock of struct skade */
    int64_t wait;  /* 0: nothing failed */
};

/* The heartbeat by the handle's own clock: it moved after the time MOVED_AFTER. */
struct pulse {
    uint64_t beat;
    int64_t looked; /* when BEAT was read last */
    int64_t moved_after;
};

struct shm {
    bool off;               /* SKADE_NO_SHM */
    struct control control; /* control.page NULL: not attached */
    struct generation *gen; /* the last that was mapped: what it has in common with the next is kept */
    const struct generation *current; /* GEN while it is of the attached page, else NULL */
    struct pulse pulse;
    struct backoff backoff;
    int failed;        /* the last failure since something could be mapped; 0: none */
    struct errmsg why; /* its story */
};

/* ---- the daemon ---------------------------------------------------------------------------------------- */

/* What the daemon said of itself on this connection. */
struct welcome {
    struct uuid origin; /* what files of stored tables carry */
    uint64_t epoch;
    uint64_t commit_seq;
    uint64_t control_dev;
    uint64_t control_ino;
    uint32_t frame_max;
    uint32_t protocol;
};

/* What it was told (tally.c). */
struct told {
    uint64_t map, tail;         /* lookups since the handle was opened */
    uint64_t epoch, generation; /* on this connection; 0: none */
};

/* An ERROR message: what it said, lent until the next frame is received. */
struct refusal {
    int code; /* 0: the last answer was none */
    struct wire_list heads;
};

/* A release that is sent in pieces (commit.c). */
struct release {
    bool open;
    uint64_t serial;        /* of the connection that it is on */
    uint64_t first_request; /* its pieces are the requests [first_request, next_request) */
    uint64_t next_request;
    uint64_t count;   /* commits */
    struct uuid base; /* commits without a uuid get this one plus their index */
    int error;        /* what the daemon said to a piece; the story is in MSG */
    struct errmsg msg;
};

/* Rows that travel to the daemon in pieces: an append, or what a compaction by callback leaves (upload.c). */
struct upload {
    bool open;
    bool sent;       /* something was: it lives and dies with its connection */
    bool in_row;     /* its value may go on */
    uint64_t serial; /* of that connection */
    uint64_t number; /* of the request that all its pieces are */
    uint64_t rows;
    struct content_sum *content; /* taken when the caller chose the uuid: it may have come before */
    struct uuid log;             /* that the table belongs to */
    uint32_t table;
    struct uuid uuid;
    struct wr out;    /* frames that are filled and not sent; the last is a ROWS message in the making */
    size_t frame_at;  /* where that begins in OUT */
    size_t record_at; /* its last record */
    size_t value_at;  /* and that one's value */
    int error;        /* what went wrong: all that follows fails with it */
    struct errmsg msg;
};

enum question_kind { QUESTION_RESOLVE, QUESTION_HEAD, QUESTION_AS_OF };

struct question {
    enum question_kind kind;
    uint32_t table;
    int64_t value; /* RESOLVE: snapshot id; AS_OF: time */
};

/* A message that nobody has asked for yet: msg is empty meanwhile. */
struct untold {
    bool set;
    struct question question;
    int status;
    int64_t snapshot;
    uint64_t retired_by;
    uint32_t location_len;
    uint32_t location_cap;
    int64_t first_us; /* AS_OF: the first commit */
    uint64_t first_seq;
};

#define PATH_ROOM 512

/* ---- the handle ---------------------------------------------------------------------------------------- */

struct skade {
    struct shm_place place; /* dir is "" until it is known */
    char run_dir[PATH_ROOM];
    char socket_path[PATH_ROOM + INSTANCE_MAX + 8]; /* too long for a socket: stream_open() says so */
    char label[64];
    int timeout_ms;
    unsigned flags;
    uint64_t verify_max; /* maps up to this size are checksummed whole */

    struct uuid log;      /* that table numbers belong to; zero: no contact yet */
    struct uuid history;  /* for us alone: another one whenever what we were told may be true no more */
    uint64_t newest;      /* event that we were told of */
    uint64_t newest_lost; /* the log went back from there; 0: it is another log */
    bool replaced;        /* another log was found, and no call has failed for it yet */

    struct shm shm;
    struct stream stream;
    struct welcome welcome;
    struct told told;
    int64_t told_at; /* by coarse_ms */
    bool unfinished; /* answers to the last request are outstanding: the connection can't be used again */
    bool lent;       /* a callback runs, with strings of the received frame */
    uint64_t next_request;   /* number of the next request */
    int64_t deadline;        /* of the call that runs */
    int64_t deadline_shared; /* of all calls together: skade_deadline(); DEADLINE_NEVER: none */
    uint64_t deadlines;      /* begun so far; tests look at it */
    struct wr out;           /* the request that is built or was sent */
    struct refusal refusal;
    struct release release;
    struct upload upload;
    uint64_t owed;     /* a request whose DONE is still to come and nobody waits for; 0: none */
    struct warm *warm; /* what gets have learned, newest first (get.c) */

    volatile uint8_t *parent_mark; /* a byte that fork() wipes in the child; NULL: compare parent_pid */
    pid_t parent_pid;
    int64_t (*coarse_ms)(void); /* CLOCK_MONOTONIC_COARSE; tests put their own clock here */
    uint64_t counters[CLIENT_COUNTER_END];
    struct errmsg msg;
    struct untold untold; /* instead of an empty msg */
};

/* Copy a struct whose size its writer told: what one side doesn't know is zero or left out. */
static inline void copy_sized(void *to, size_t to_size, const void *from, size_t from_size)
{
    size_t n = from_size < to_size ? from_size : to_size;

    memset(to, 0, to_size);
    memcpy(to, from, n);
}

static inline void count(skade *s, enum client_counter c)
{
    s->counters[c]++;
}

/* ---- call.c: the frame around every public function ---------------------------------------------------- */

/*
 *     struct call c;
 *     int r = call_begin(&c, s);
 *     if (r == 0)
 *         r = work(s);
 *     return call_end(&c, r);
 *
 * Between the two, cancellation is off, errno may be changed, the deadline runs, and a fork was noticed.
 *
 * A call has one deadline, s->deadline: connecting, hello, asking again, another page all end by it.  It
 * begins anew only where the daemon has given a sign of life (an answer with more to come, a piece taken, a
 * heartbeat), or where we were at work ourselves: deadline_renew().
 *
 * call_begin() fails with SKADE_EREPLACED, once, when the log was replaced behind the handle's back.
 */
struct call {
    skade *s;
    int saved_errno;
    int cancel_state;
    bool frozen; /* a view's call: the handle's owner still has to be told that the log was replaced */
};
int call_begin(struct call *c, skade *s);
int call_begin_frozen(struct call *c, skade *s);
int64_t call_end(struct call *c, int64_t result);
void deadline_renew(skade *s);

/* What was done since SINCE, a clock_ms(), was our own work: the daemon had no part in it. */
void deadline_leave_out(skade *s, int64_t since);

/* Has this process got the handle from its parent by fork()?  Only the connection matters: it is given up. */
void call_check_fork(skade *s);
int call_mark_process(skade *s); /* for skade_open(): 0 or -ENOMEM */
void call_unmark_process(skade *s);

/* ---- attach.c: which generation is current ------------------------------------------------------------- */

/* What a question is asked of. */
struct moment {
    const struct generation *gen; /* NULL: memory can't tell, ask the daemon */
    uint64_t at;                  /* as of this event; SEQ_MAX: the newest */
    uint64_t need;                /* what GEN must cover to prove that something isn't there */
    bool proved;                  /* the page needs no proof that it is current: done, or it is a view's */
    bool past;                    /* whatever GEN and its tail know is enough */
    const struct uuid *log; /* of a view: the only history whose daemon may be asked; NULL: the handle's */
};

/* The moment now, if the generation that the page names is the mapped one.  No system call, no write. */
static inline bool moment_at_hand(const skade *s, struct moment *ret)
{
    const struct generation *g = s->shm.current;

    if (!g)
        return false;
    uint64_t commit_seq = control_commit_seq(s->shm.control.page); /* P4: before the generation */
    if (control_generation(s->shm.control.page) != g->number)
        return false;
    if (commit_seq > g->covered && !g->tail_tried)
        return false;
    *ret = (struct moment){ .gen = g, .at = SEQ_MAX, .need = commit_seq };
    return true;
}

/* The same, attaching and mapping as needed.  0, with gen NULL when shared memory can't be used;
 * SKADE_EREPLACED. */
int moment_take(skade *s, struct moment *ret);

/* Has M's generation a tail, and what M needs is in it? */
static inline bool moment_has_tail(const struct moment *m)
{
    return m->gen->tail && (m->need > m->gen->covered || m->past);
}

/* Before asking the daemon as of M: SKADE_EREPLACED when it has another log than M. */
int moment_check_log(skade *s, const struct moment *m);

/* Attach the control page alone, and no generation.  0 or negative, with the reason in shm.why. */
int attach_page(skade *s);

/* Is the page its instance's present one, so that what it doesn't know isn't there?  By the heartbeat
 * alone; then, if that can't tell, by the connection. */
bool attach_is_beating(skade *s);
bool attach_is_current(skade *s);

/* The daemon of this connection said WELCOME: where its files are, and is the page that we have its page?
 * What failed before is tried again when it is another daemon than before. */
void attach_welcome(skade *s, struct bytes shm_dir, bool is_new);

/* No daemon answers: follow the note that the last one left beside its socket.  0; negative when there is
 * none to follow. */
int attach_by_note(skade *s);

/*
 * LOG is what a daemon or a page is about, and NEWEST its newest event.  0; SKADE_EREPLACED when the handle
 * knows another log, or was told of a later event, which this one lost: then all maps are gone.
 *
 * That never fires for a crash.  Whatever anyone is told of, by the page (P3) or the socket, was committed
 * before, and every later daemon begins with at least that.  It does for a power cut in mode "normal", as it
 * should.  Only a page that no daemon vouches for may be older without a reason: attach() leaves it alone.
 */
int attach_log(skade *s, const struct uuid *log, uint64_t newest);
int attach_tell_replaced(skade *s); /* SKADE_EREPLACED, with the message */

/* Note what the page says while we still have it: before asking a daemon what it knows, or leaving. */
void attach_remember(skade *s);

/* The daemon told of event SEQ. */
static inline void heard(skade *s, uint64_t seq)
{
    if (seq > s->newest)
        s->newest = seq;
}

void attach_drop(skade *s); /* let go of all maps */

/* Leave a page that doesn't stand under the well-known name any more: a successor's may. */
void attach_leave_unless_linked(skade *s);

/* Is the attached page that of the daemon at the other end of the connection? */
bool attach_is_connected(const skade *s);

/* ---- ask.c: requests and answers ----------------------------------------------------------------------- */

/* Have a connection on which hello was said.  0 or negative; msg says why.  SKADE_ETIMEOUT, and nothing is
 * tried, when the deadline has passed: a daemon that hangs is bothered once in a call. */
int ask_connect(skade *s);
void ask_hang_up(skade *s);

/* Begin a request: returns the buffer to put the payload into. */
struct wr *ask_begin(skade *s);

#define ANY_ANSWER 0u

enum ask_again {
    ASK_READ,  /* a question: once more when the connection broke */
    ASK_LONG,  /* the same, and the deadline runs only while the daemon gives no sign of life */
    ASK_CHANGE /* it carries a uuid: again until the deadline */
};

/*
 * Send what was put into the buffer as a message of TYPE and receive the first answer, an ANSWER message
 * (ANY_ANSWER: the caller looks at its type).
 *
 * 0 and *RET; the code of an ERROR message (then s->refusal has it, too, and the connection is fine); or
 * SKADE_EUNREACHABLE, SKADE_ETIMEOUT, SKADE_EPROTOCOL, SKADE_EREPLACED, SKADE_EUNKNOWN (ASK_CHANGE),
 * -ENOMEM ...
 */
int ask(skade *s, enum ask_again again, unsigned type, unsigned answer, struct frame *ret);

/* The next answer to the same request; to be called while the frame before has FRAME_MORE. */
int ask_more(skade *s, const struct frame *before, unsigned answer, struct frame *ret);

/*
 * The steps of ask(), for those who send and receive by themselves.  ask_finish() closes the request and
 * returns its number, 0 when memory is out.  ask_send(): 0 all sent, 1 the daemon spoke before that, or
 * negative.  ask_receive(): the next frame that answers request NUMBER; STREAM_LOST when the connection
 * broke, else as ask().  After a negative result that is no refusal the connection is closed.
 */
uint64_t ask_finish(skade *s, unsigned type);
int ask_send(skade *s);
int ask_receive(skade *s, uint64_t number, unsigned answer, struct frame *ret);

/* Receive a frame that is no answer: a refused piece of a release or an upload (0, and s->release or s->upload
 * has it), a DONE that nobody waits for (0), or the end (negative). */
int ask_receive_unasked(skade *s);

/* Wait for an answer that may take long, as ASK_LONG does.  0 or negative.  MEANWHILE (NULL: nothing) is called
 * several times a second; other than 0 it ends the wait with -ECANCELED, the request still outstanding. */
typedef int (*meanwhile_fn)(void *arg);
int ask_await_long(skade *s, meanwhile_fn meanwhile, void *arg);

/* Send the frames in W, of which none is answered in the ordinary way, with ASK_LONG's patience.  Refusals that
 * come meanwhile are taken as by ask_receive_unasked().  0 all sent, or negative and the connection is closed. */
int ask_send_long(skade *s, const struct wr *w);

/* Send what was put into the buffer, a message that is answered by DONE, and don't wait for that. */
void ask_unwaited(skade *s, unsigned type);

/* The daemon's answer isn't right: close the connection.  SKADE_EPROTOCOL. */
int ask_broken(skade *s, const char *what);

/* PING: the newest visible event.  0 or negative. */
int ask_newest(skade *s, uint64_t *ret);

/* A random uuid (RFC 4122, version 4).  0, or negative when the system has no randomness. */
int ask_uuid(skade *s, struct uuid *ret);

/* ---- tally.c: the daemon is told of lookups -------------------------------------------------------------- */

/* Tell what is not told yet, if that can be sent whole and without waiting; else it is told another time. */
void tally_tell(skade *s);

/* The same with a request that is sent anyway: append a TALLY frame to W when it is time to.  False: nothing was
 * appended.  After it was sent: tally_told(). */
bool tally_put(skade *s, struct wr *w, struct told *ret);
void tally_told(skade *s, const struct told *t);

/* Leave out what was not told: it is another process's to tell. */
void tally_skip(skade *s);

/* ---- answer.c: what a struct skade_answer says --------------------------------------------------------- */

#define ANSWER_SIZE_MIN 64u /* of struct skade_answer in version 0.1, the smallest that there is */

/* Is A usable?  0, its results emptied; or SKADE_EINPUT. */
int answer_clear(skade *s, struct skade_answer *a);
void answer_empty(struct skade_answer *a);

/* A as the index writes it. */
static inline struct part_query *answer_query(struct skade_answer *a)
{
    return (struct part_query *)(void *)a;
}

/* Has the index written the whole answer with STATUS?  Then it holds, whatever happened since. */
static inline bool answer_is_whole(int status)
{
    return status == 1 || status == -ERANGE || status == SKADE_EEXPIRED;
}

/* What a question that ends with STATUS returns: 1, 0 for what isn't there, or STATUS. */
int answer_result(int status);

/* Set A's status and return the question's result. */
int answer_status(struct skade_answer *a, int status);

/* Put what G found into A.  The question's result. */
int answer_from_map(struct skade_answer *a, const struct generation *g, const struct found *f);

/* Put what stands in tail T into A.  The question's result. */
int answer_from_tail(struct skade_answer *a, const struct tail *t, const struct fresh_found *f);

/* Put what the daemon found into A.  0, or SKADE_EPROTOCOL when it can't be. */
int answer_from_wire(struct skade_answer *a, const struct item_answer *item);

/* Note why A, the answer to Q, has no location; and when the first commit was, of a time before it.
 * answer_tell() puts that into words. */
void answer_note(skade *s, const struct question *q, const struct skade_answer *a);
void answer_note_first(skade *s, int64_t first_us, uint64_t first_seq);
void answer_tell(struct errmsg *msg, const struct untold *u);

/* ---- resolve.c, many.c: questions as of a moment, for handles and views -------------------------------- */

typedef bool (*is_current_fn)(skade *s); /* attach_is_beating() or attach_is_current() */

/* Answer from memory.  True, and *RESULT, when memory can tell. */
bool question_settle(skade *s, const struct moment *m, const struct question *q, struct skade_answer *a,
                     is_current_fn is_current, int *result);

/* Answer whatever it takes, within a call. */
int question_answer(skade *s, const struct moment *m, const struct question *q, struct skade_answer *a);

/* M's generation answers Q with STATUS: does that hold? */
bool moment_settles(skade *s, const struct moment *m, const struct question *q, int status,
                    is_current_fn is_current);

/* Is STATUS what a question can end with, and not "this map can't tell" or damage? */
bool question_is_outcome(int status);

/* Asking the daemon gave R: does the handle take an old answer instead, and is there a map? */
bool question_may_be_stale(const skade *s, int64_t r);

/* ---- fresh.c: what is newer than the parts ------------------------------------------------------------- */

/* Map the tail of the current generation, once.  What fails is counted: then the daemon is asked. */
void fresh_map(skade *s);

/* Ask memory for what the search of M's tail for a snapshot begins with. */
static inline void fresh_prefetch(const struct moment *m, uint32_t table, int64_t id)
{
    const struct tail *t = &m->gen->tail->tail;
    tail_prefetch_home(t, tail_home(t, table, id));
}

/* question_settle() for what M's tail may know, for a M that has one.  For a snapshot: the parts don't have it. */
bool fresh_settle(skade *s, const struct moment *m, const struct question *q, struct skade_answer *a,
                  is_current_fn is_current, int *result);

/* The same for N snapshots, at most FRESH_MANY, none of which the parts have; M is proved or not current.  The statuses of
 * those that are settled are set; returns how many. */
#define FRESH_MANY 256u
size_t fresh_settle_many(skade *s, const struct moment *m, struct skade_answer *const *a, size_t n);

/* The table of NAME, which the root doesn't know.  1, 0, or negative: the tail can't tell. */
int fresh_find(skade *s, const struct moment *m, struct bytes name, skade_table *ret);

/* ---- resolve.c again ----------------------------------------------------------------------------------- */

/* The same for names.  find_check(): SKADE_EINPUT unless NAME is one. */
int find_check(skade *s, const char *name);
bool find_settle(skade *s, const struct moment *m, struct bytes name, is_current_fn is_current,
                 skade_table *ret, int *result);
int find_answer(skade *s, const struct moment *m, struct bytes name, skade_table *ret);

/* The same for arrays, N > 0.  many_fail(): the call failed with R before any question was asked; returns
 * R. */
int64_t many_answer(skade *s, const struct moment *m, struct skade_answer *a, size_t n);
int64_t many_fail(skade *s, struct skade_answer *a, size_t n, int64_t r);

/* ---- upload.c: rows, in pieces ------------------------------------------------------------------------- */

/*
 *     upload_begin(s, &w);  put a BEGIN message into W;  upload_begun(s, its type);
 *     for each row:  upload_row(), any number of upload_write(), upload_row_end()
 *     put an END message into upload_last(s);  upload_send_last(s, its type, &number);
 *     ask_await_long() and ask_receive(), then upload_reason();  upload_close()
 *
 * Nothing is sent before a piece is full or the end comes.  Results are 0, STREAM_LOST, or as ask(); whoever gets a
 * negative one calls upload_forget(), unless the end was answered.
 */
int upload_begin(skade *s, struct wr **ret);
void upload_begun(skade *s, unsigned type);
int upload_row(skade *s, unsigned flags, struct bytes key);
int upload_write(skade *s, const void *data, size_t len);
int upload_row_end(skade *s);
/* Survivors of a compaction: a whole row; or one that begins with its length LEN, then upload_write() and
 * upload_row_end(). */
int upload_survivor(skade *s, const struct row *row);
int upload_long_survivor(skade *s, const struct row *row);
struct wr *upload_last(skade *s);
int upload_send_last(skade *s, unsigned type, uint64_t *number);
int upload_reason(skade *s, int r); /* a piece that was refused is why the end was refused */
void upload_forget(skade *s);       /* the daemon forgets it, too; it is closed */
void upload_close(skade *s);

/* ---- hold.c: a snapshot of a stored table, leased -------------------------------------------------------- */

struct hold_question {
    uint32_t table;
    uint32_t by; /* SKADE_AT_HEAD ... */
    int64_t value;
    uint64_t at;            /* as of this event */
    const struct uuid *log; /* of a view; NULL: the handle's */
};

struct hold {
    struct uuid log;    /* of the handle when it was taken */
    struct uuid origin; /* that the files carry */
    uint64_t serial;    /* of the connection that holds it; 0: nothing is held */
    uint64_t number;
    uint64_t at;
    uint32_t table;
    int64_t snapshot;
    uint64_t seq; /* 0: the table has no commit */
    int64_t time_us;
    uint64_t base_seq; /* of the compaction that it begins with; 0: none */
    uint64_t after;    /* its other files are of commits after this one */
    int fd;            /* the connection's, only looked at: hold_stands() */
    dev_t dev;
    ino_t ino;
};

struct hold_files {
    struct rowset_file *files; /* oldest first */
    size_t n, cap;
};

/* The log of a view (view.c), lent. */
const struct uuid *view_log(const skade_view *v);

/* What OPTIONS (NULL: the head, now) ask of TABLE.  0 or SKADE_EINPUT. */
int hold_ask(skade *s, skade_table table, const struct skade_scan_options *options,
             struct hold_question *ret);

int hold_take(skade *s, const struct hold_question *q, struct hold *ret);
/* Does the connection of the hold ARG stand? Any thread; touches nothing of the handle. */
bool hold_stands(void *arg);
bool hold_is_held(const skade *s, const struct hold *h); /* as far as we know */
void hold_end(skade *s, struct hold *h);                 /* doesn't wait; harmless when nothing is held */

/* The files of commits after NEWER_THAN, and the base when that is 0.  0, or 1 when the lease was lost: take another.
 * Negative; then and with 1 *RET is empty. */
int hold_files(skade *s, const struct hold *h, uint64_t newer_than, struct hold_files *ret);
void hold_files_fini(struct hold_files *f);

/* The rows of what Q asks, held: hold_take(), hold_files(), rowset_open().  H is held only with 0. */
int hold_open(skade *s, const struct hold_question *q, const struct rowset_options *opt, struct hold *h,
              struct rowset **ret);

/* Row as the caller of the library sees it; SIZE is what the caller's struct has. */
struct skade_row row_told(const struct row *row, uint32_t size);

/* ---- get.c ---------------------------------------------------------------------------------------------- */

void gets_forget(skade *s);                   /* let go of all that gets have learned */
void gets_forget_view(skade *s, uint64_t at); /* of that by a view of this moment */

/* ---- history.c: events, delivered to a callback -------------------------------------------------------- */

struct events {
    skade_event_fn fn;
    void *arg;
    bool (*follows)(uint64_t last, uint64_t seq); /* may SEQ come after LAST? */
    uint64_t last;                                /* the last one delivered */
    uint64_t count;
    uint64_t at;  /* newest event that the daemon had when it wrote the last message */
    bool end;     /* the last message said that there are no more */
    bool stopped; /* the callback returned other than 0 */
};

/* Deliver the events of an EVENTS message.  0, what the callback returned, or SKADE_EPROTOCOL. */
int events_deliver(skade *s, const struct frame *f, struct events *ev);
bool events_follow_closely(uint64_t last, uint64_t seq);

#endif
