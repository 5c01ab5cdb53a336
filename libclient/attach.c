/*
 * Which generation is current: the control page, the generation that it names, and what can be concluded
 * from them.
 *
 *     no page ---attach---> page ---word: a generation---> mapped
 *        ^                   |  \---word: NONE-----------> ask the daemon, until there is one
 *        |                   |
 *        +---word: RETIRED---+     its daemon was succeeded: the well-known name is another page by now
 *
 * A log can go back: a backup is restored, or an older copy put in its place.  Then everything that the handle knows
 * of it is given up, and its owner is told, once.  The first is told by the log's uuid, the second by the newest event
 * that the handle was ever told of.
 *
 * What fails is tried again later, and the daemon is asked meanwhile.  An older generation never answers
 * for the current one, since an event that takes an answer away is published by the generation word alone.
 */
#include "client.h"

#include "whereabouts.h"

#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>

#define ATTACH_STEPS 16 /* attach, refresh, and again when they were overtaken; then the daemon is asked */
#define BACKOFF_FIRST_MS 10
#define BACKOFF_LAST_MS 10000
#define HEARTBEAT_LIMIT_MS 2000 /* a new daemon that finds no page to retire waits longer (docs/FORMAT.md) */

/* ---- failures: counted by reason, and not repeated at once --------------------------------------------- */

static enum client_counter failure_counter(int error)
{
    switch (error) {
    case -ENOENT:
        return CLIENT_failed_missing;
    case SKADE_EFOREIGN:
        return CLIENT_failed_foreign;
    case SKADE_EDAMAGED:
        return CLIENT_failed_damaged;
    case SKADE_EVERSION:
        return CLIENT_failed_version;
    case -EACCES:
    case -EPERM:
        return CLIENT_failed_denied;
    case -ENOMEM:
    case -EMFILE:
    case -ENFILE:
        return CLIENT_failed_resources;
    default:
        return CLIENT_failed_other;
    }
}

/* Twice as long as last time, but by chance up to half less, so that many clients don't come back
 * together. */
static void back_off(skade *s)
{
    struct backoff *b = &s->shm.backoff;
    uint32_t random = 0;

    b->wait = b->wait == 0 ? BACKOFF_FIRST_MS : b->wait * 2;
    if (b->wait > BACKOFF_LAST_MS)
        b->wait = BACKOFF_LAST_MS;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
        random = 0;
    b->until = s->coarse_ms() + b->wait - random % (b->wait / 2);
}

static int attach_failed(skade *s, int error)
{
    count(s, failure_counter(error));
    s->shm.failed = error;
    back_off(s);
    return error;
}

static bool is_backing_off(const skade *s)
{
    return s->shm.backoff.wait != 0 && s->coarse_ms() < s->shm.backoff.until;
}

static void recovered(skade *s)
{
    s->shm.backoff.wait = 0;
    s->shm.failed = 0;
    s->shm.why.text[0] = 0;
}

/* ---- the page ------------------------------------------------------------------------------------------ */

void attach_remember(skade *s)
{
    if (s->shm.control.page)
        heard(s, control_commit_seq(s->shm.control.page)); /* P3 */
}

static void leave_page(skade *s)
{
    attach_remember(s);
    s->shm.current = NULL;
    control_close(&s->shm.control);
}

void attach_leave_unless_linked(skade *s)
{
    char name[SHM_NAME_MAX], path[SHM_DIR_MAX + SHM_NAME_MAX];
    struct stat st;

    if (!s->shm.control.page)
        return;
    snprintf(path, sizeof path, "%s/%s", s->place.dir, shm_name(name, &s->place, SHM_CONTROL, 0, 0));
    if (lstat(path, &st) < 0 || st.st_dev != s->shm.control.map.dev || st.st_ino != s->shm.control.map.ino)
        leave_page(s);
}

void attach_drop(skade *s)
{
    leave_page(s);
    generation_unref(s->shm.gen);
    s->shm.gen = NULL;
}

static bool is_page_of(const struct welcome *w, const struct control *c)
{
    return w->epoch == c->epoch && w->control_dev == (uint64_t)c->map.dev &&
           w->control_ino == (uint64_t)c->map.ino;
}

bool attach_is_connected(const skade *s)
{
    return s->stream.fd >= 0 && s->shm.control.page && is_page_of(&s->welcome, &s->shm.control);
}

/* Is C behind what we were told of its log? */
static bool is_behind(const skade *s, const struct control *c)
{
    return uuid_equal(&s->log, &c->log) && control_commit_seq(c->page) < s->newest; /* P3 */
}

/* Does C disagree with the daemon we are connected to, or with the log that we know? */
static bool contradicts(const skade *s, const struct control *c)
{
    if (s->stream.fd >= 0 && !is_page_of(&s->welcome, c))
        return true;
    return (!uuid_is_zero(&s->log) && !uuid_equal(&s->log, &c->log)) || is_behind(s, c);
}

static int is_stray(skade *s, const struct control *c)
{
    count(s, CLIENT_strayed);
    back_off(s);
    return fail(
        &s->shm.why, SKADE_EFOREIGN,
        "the control page in %s (epoch %016llx) is not that of the daemon at %s: is this another /dev/shm?",
        s->place.dir, (unsigned long long)c->epoch, s->socket_path);
}

/* The daemon of this run directory left a note of another log. */
static bool note_denies(const skade *s, const struct control *c)
{
    struct whereabouts note;

    return whereabouts_read(s->run_dir, s->place.instance, s->place.uid, &note, NULL) == 0 &&
           !uuid_equal(&note.log, &c->log);
}

/*
 * C may be right: a daemon that lost its names makes a new page under a new epoch and keeps its
 * connections.  Or it is the page of a daemon that we don't see, in a container that shares one half.  The
 * daemon's hello decides; when no daemon answers, the note that the last one left, and no page is taken that
 * is behind what we know: it may be an old one, or the log went back, and the next daemon will tell.
 */
static int let_daemon_decide(skade *s, const struct control *c)
{
    ask_hang_up(s);
    int r = ask_connect(s);
    if (r == SKADE_EREPLACED)
        return r;
    if (r == 0 ? !is_page_of(&s->welcome, c) : note_denies(s, c) || is_behind(s, c))
        return is_stray(s, c);
    return attach_log(s, &c->log, control_commit_seq(c->page)); /* P3 */
}

static void take_page(skade *s, const struct control *c)
{
    int64_t now = s->coarse_ms();

    leave_page(s);
    s->shm.control = *c;
    s->shm.pulse = (struct pulse){ .beat = control_heartbeat(c->page), /* P6 */
                                   .looked = now,
                                   .moved_after = now - HEARTBEAT_LIMIT_MS - 1 };
    count(s, CLIENT_attaches);
}

static int attach(skade *s)
{
    struct control c;

    int r = control_open(&c, &s->place, &s->shm.why);
    if (r < 0)
        return attach_failed(s, r);
    if (control_generation(c.page) == CONTROL_RETIRED) { /* P5 */
        r = attach_failed(s, fail(&s->shm.why, -ESTALE,
                                  "the control page in %s is retired and has no successor", s->place.dir));
        control_close(&c);
        return r;
    }
    if (contradicts(s, &c))
        r = let_daemon_decide(s, &c);
    else
        r = attach_log(s, &c.log, control_commit_seq(c.page)); /* P3 */
    if (r < 0) {
        control_close(&c);
        return r;
    }
    take_page(s, &c);
    return 0;
}

/* Leave a page that its daemon's successor retired.  True when there was one. */
static bool leave_retired(skade *s)
{
    if (control_generation(s->shm.control.page) != CONTROL_RETIRED) /* P5 */
        return false;
    count(s, CLIENT_retired_seen);
    leave_page(s);
    return true;
}

int attach_page(skade *s)
{
    if (s->shm.control.page && !leave_retired(s))
        return 0;
    if (s->shm.off)
        return fail(&s->shm.why, -ENOENT, "shared memory is switched off for this handle");
    return is_backing_off(s) ? -EAGAIN : attach(s);
}

/* ---- the generation ------------------------------------------------------------------------------------ */

static void take_generation(skade *s, struct generation *g)
{
    generation_unref(s->shm.gen);
    s->shm.gen = g;
    s->shm.current = g;
    count(s, CLIENT_refreshes);
    recovered(s);
    tally_tell(s);
}

/* Map the generation that WORD names. */
static int refresh(skade *s, uint64_t word)
{
    struct generation *g;
    const struct control *c = &s->shm.control;

    if (is_backing_off(s))
        return -EAGAIN;
    int64_t since = clock_ms();
    int r = generation_open(&g, &s->place, c->epoch, word, &c->log, s->shm.gen, s->verify_max, &s->shm.why);
    deadline_leave_out(s, since); /* large files that are checked take their time */
    if (r == -ENOENT && control_generation(c->page) != word) { /* P2: gone, since it was replaced meanwhile */
        count(s, CLIENT_vanished);
        return 0;
    }
    if (r < 0)
        return attach_failed(s, r);
    take_generation(s, g);
    return 0;
}

/* One step towards having the current generation mapped.  0, or negative when there is nothing to be done
 * now. */
static int step(skade *s)
{
    int r = attach_page(s);
    if (r < 0)
        return r;
    uint64_t word = control_generation(s->shm.control.page); /* P2 */
    if (word == CONTROL_NONE)
        return -EAGAIN;
    return word == CONTROL_RETIRED ? 0 : refresh(s, word);
}

/* Is the current generation mapped, and was its tail not looked for? */
static bool lacks_tail(const skade *s)
{
    const struct generation *g = s->shm.current;
    return g && !g->tail_tried && control_generation(s->shm.control.page) == g->number; /* P2 */
}

int moment_take(skade *s, struct moment *ret)
{
    *ret = (struct moment){ .at = SEQ_MAX };
    if (s->shm.off)
        return 0;
    for (int i = 0; i < ATTACH_STEPS; i++) {
        if (moment_at_hand(s, ret))
            return 0;
        if (lacks_tail(s)) {
            fresh_map(s);
            continue;
        }
        int r = step(s);
        if (r == SKADE_EREPLACED)
            return r;
        if (r < 0)
            break;
    }
    return 0;
}

int moment_check_log(skade *s, const struct moment *m)
{
    if (!m->log || uuid_equal(m->log, &s->history))
        return 0;
    return fail(&s->msg, SKADE_EREPLACED, "the commit log that the view looks at was replaced");
}

/* ---- is it current? ------------------------------------------------------------------------------------ */

/* The heartbeat is a counter and means nothing but "moved between two looks": no clock of ours is
 * compared with a clock of the daemon's.  What was seen to move after MOVED_AFTER proves life for two
 * seconds from then on. */
bool attach_is_beating(skade *s)
{
    struct pulse *p = &s->shm.pulse;

    if (!s->shm.control.page)
        return false;
    uint64_t beat = control_heartbeat(s->shm.control.page); /* P6 */
    int64_t now = s->coarse_ms();
    if (beat != p->beat) {
        p->beat = beat;
        p->moved_after = p->looked;
    }
    p->looked = now;
    return now - p->moved_after <= HEARTBEAT_LIMIT_MS;
}

bool attach_is_current(skade *s)
{
    return attach_is_beating(s) || (attach_is_connected(s) && stream_is_alive(&s->stream));
}

/* ---- what the daemon says ------------------------------------------------------------------------------ */

_Static_assert(sizeof(((struct whereabouts *)0)->shm_dir) <= SHM_DIR_MAX, "a note's directory fits");

void attach_welcome(skade *s, struct bytes shm_dir, bool is_new)
{
    bool moved = !bytes_equal(shm_dir, bytes_of(s->place.dir));

    if (moved) {
        memcpy(s->place.dir, shm_dir.data, shm_dir.len);
        s->place.dir[shm_dir.len] = 0;
    }
    if (s->shm.control.page && (moved || !is_page_of(&s->welcome, &s->shm.control))) {
        count(s, CLIENT_strayed);
        leave_page(s);
        recovered(s);
    }
    if (moved || is_new)
        recovered(s);
}

int attach_by_note(skade *s)
{
    struct whereabouts note;

    int r = whereabouts_read(s->run_dir, s->place.instance, s->place.uid, &note, &s->shm.why);
    if (r < 0)
        return r;
    memcpy(s->place.dir, note.shm_dir, strlen(note.shm_dir) + 1);
    s->log = s->history = note.log;
    return 0;
}

int attach_tell_replaced(skade *s)
{
    if (s->newest_lost == 0)
        return fail(
            &s->msg, SKADE_EREPLACED,
            "the commit log of instance %s was replaced by another one or by a backup: look tables up again",
            s->place.instance);
    return fail(
        &s->msg, SKADE_EREPLACED,
        "the commit log of instance %s went back, from event %llu to an older copy: look tables up again",
        s->place.instance, (unsigned long long)s->newest_lost);
}

/* A history of its own, also if it is that of the same log: views of before must not go on. */
static void begin_history(skade *s, const struct uuid *log, uint64_t newest)
{
    s->log = s->history = *log;
    if (s->newest_lost != 0 && ask_uuid(s, &s->history) < 0)
        s->history.b[0]++;
    s->newest = newest;
}

int attach_log(skade *s, const struct uuid *log, uint64_t newest)
{
    if (uuid_is_zero(&s->log))
        s->log = s->history = *log;
    bool is_same = uuid_equal(&s->log, log);
    if (is_same && newest >= s->newest) {
        s->newest = newest;
        return 0;
    }
    attach_drop(s);
    s->newest_lost = is_same ? s->newest : 0;
    begin_history(s, log, newest);
    s->replaced = true;
    count(s, CLIENT_logs_replaced);
    return attach_tell_replaced(s);
}
