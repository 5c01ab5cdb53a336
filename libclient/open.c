/*
 * Handles: which instance, where it lives, whom to trust, and the first contact.
 *
 * The run directory decides all of it.  Its owner is the user whose daemon may answer and whose
 * shared-memory files may be mapped, besides root; so nobody else may be able to put a socket there.
 */
#include "client.h"

#include "content_sum.h"

#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_MS 5000
#define VERIFY_MAX (64u << 20) /* attaching a larger file must not read it whole */

static _Thread_local struct errmsg open_message; /* what skade_errmsg(NULL) shows */

/* ---- the run directory --------------------------------------------------------------------------------- */

/* An empty variable is as good as none. */
static const char *setting(const char *name)
{
    const char *value = secure_getenv(name);
    return value && value[0] ? value : NULL;
}

static bool exists(const char *dir, const char *suffix)
{
    char path[PATH_ROOM];
    struct stat st;

    int n = snprintf(path, sizeof path, "%s%s", dir, suffix);
    return n < (int)sizeof path && lstat(path, &st) == 0;
}

/* In /tmp a stranger may have been before the user, and who owns the directory is believed. */
static bool belongs_to_user(const char *dir)
{
    struct stat st;
    return lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && (st.st_uid == geteuid() || st.st_uid == 0);
}

static void user_run_dir(char *ret)
{
    const char *xdg = setting("XDG_RUNTIME_DIR");

    if (xdg)
        snprintf(ret, PATH_ROOM, "%s/skade", xdg);
    else
        snprintf(ret, PATH_ROOM, "/tmp/skade-%u", (unsigned)geteuid());
}

/* The user's own directory if the instance is there, else the system's.  When it is in neither, no daemon
 * runs; maps may be there all the same, so prefer the user's if there is one, his or root's. */
static void find_run_dir(const char *instance, char *ret)
{
    static const char system_dir[] = "/run/skade";
    char socket[INSTANCE_MAX + 8];

    snprintf(socket, sizeof socket, "/%s.sock", instance);
    user_run_dir(ret);
    if (geteuid() == 0 || !belongs_to_user(ret) || (!exists(ret, socket) && exists(system_dir, socket)))
        memcpy(ret, system_dir, sizeof system_dir);
}

static int choose_run_dir(skade *s, const char *given)
{
    char *ret = s->run_dir;

    if (!given)
        given = setting("SKADE_RUN_DIR");
    if (!given) {
        find_run_dir(s->place.instance, ret);
        return 0;
    }
    int n = snprintf(ret, PATH_ROOM, "%s", given);
    if (n == 0 || n >= PATH_ROOM)
        return fail(&s->msg, SKADE_EINPUT, "the run directory has %d bytes, 1 to %d are possible", n,
                    PATH_ROOM - 1);
    while (n > 1 && ret[n - 1] == '/') /* lstat() would follow a link that ends in a slash */
        ret[--n] = 0;
    return 0;
}

/* Whoever can write there can put up a socket of his own. */
static int trust_run_dir(skade *s, const char *dir)
{
    struct stat st;

    if (lstat(dir, &st) < 0) {
        if (errno == EACCES)
            return fail(&s->msg, SKADE_EDENIED, "this user may not look at the run directory %s", dir);
        return fail(&s->msg, SKADE_EUNREACHABLE,
                    "the run directory %s can't be seen (%s): is skaded running?", dir,
                    strerrordesc_np(errno));
    }
    if (!S_ISDIR(st.st_mode))
        return fail(&s->msg, SKADE_EFOREIGN,
                    "the run directory %s is not a directory; a link to one is not enough", dir);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return fail(&s->msg, SKADE_EFOREIGN,
                    "others than its owner may write into the run directory %s: chmod go-w it", dir);
    s->place.uid = st.st_uid;
    return 0;
}

/* ---- setting up ---------------------------------------------------------------------------------------- */

static int choose_instance(skade *s, const char *given)
{
    if (!given)
        given = setting("SKADE_INSTANCE");
    if (!given)
        given = "default";
    const char *problem = instance_name_problem(given);
    if (problem)
        return fail(&s->msg, SKADE_EINPUT, "\"%.40s\" is no instance name: %s", given, problem);
    memcpy(s->place.instance, given, strlen(given) + 1);
    return 0;
}

static int choose_place(skade *s, const char *given_dir)
{
    int r = choose_run_dir(s, given_dir);
    if (r < 0)
        return r;
    r = trust_run_dir(s, s->run_dir);
    if (r < 0)
        return r;
    snprintf(s->socket_path, sizeof s->socket_path, "%s/%s.sock", s->run_dir, s->place.instance);
    return 0;
}

static int64_t coarse_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int choose_manners(skade *s, const struct skade_options *o)
{
    const char *shm = setting("SKADE_SHM");

    if (o->timeout_ms < 0)
        return fail(&s->msg, SKADE_EINPUT, "a timeout of %d ms is none", o->timeout_ms);
    if (o->flags & ~(unsigned)(SKADE_NO_SHM | SKADE_ALLOW_STALE | SKADE_VERIFY_MAPS))
        return fail(&s->msg, SKADE_EINPUT, "skade_options.flags has a flag that this library doesn't know");
    s->timeout_ms = o->timeout_ms ? o->timeout_ms : TIMEOUT_MS;
    s->flags = o->flags;
    s->verify_max = o->flags & SKADE_VERIFY_MAPS ? UINT64_MAX : VERIFY_MAX;
    s->shm.off = (o->flags & SKADE_NO_SHM) != 0 || (shm && strcmp(shm, "no") == 0);
    snprintf(s->label, sizeof s->label, "%s", o->label ? o->label : program_invocation_short_name);
    return 0;
}

static int set_up(skade *s, const struct skade_options *o)
{
    s->stream.fd = -1;
    s->next_request = 1;
    s->deadline_shared = DEADLINE_NEVER;
    s->coarse_ms = coarse_ms;
    int r = call_mark_process(s);
    if (r < 0)
        return r;
    r = choose_manners(s, o);
    if (r < 0)
        return r;
    r = choose_instance(s, o->instance);
    if (r < 0)
        return r;
    return choose_place(s, o->run_dir);
}

/* ---- first contact ------------------------------------------------------------------------------------- */

/* Is this a daemon that isn't there, and not one that we can't get on with? */
static bool is_absence(int r)
{
    return r == SKADE_EUNREACHABLE || r == SKADE_ETIMEOUT || r == SKADE_EBUSY || r == SKADE_EDENIED;
}

/* Where to look when no daemon answers: where its note says, else where the user says.  Not just
 * anywhere: another daemon of the same user and name may have its files there. */
static int find_maps(skade *s)
{
    const char *dir = setting("SKADE_SHM_DIR");

    int r = attach_by_note(s);
    if (r != -ENOENT || !dir || strlen(dir) >= sizeof s->place.dir)
        return r;
    memcpy(s->place.dir, dir, strlen(dir) + 1);
    return 0;
}

/* Somebody must tell which log this is: the daemon, or its page. */
static int make_contact(skade *s)
{
    struct moment m;

    int r = ask_connect(s);
    if (!is_absence(r) || s->shm.off)
        return r;
    struct errmsg story = s->msg;
    if (find_maps(s) == 0)
        moment_take(s, &m);
    if (s->shm.control.page) /* alone it tells counters and proves nothing, but it says which log this is */
        return 0;
    return fail(&s->msg, r, "%.300s (and no map: %.150s)", story.text, s->shm.why.text);
}

static int contact(skade *s)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0)
        r = make_contact(s);
    return (int)call_end(&c, r);
}

static int open_failed(int r, const char *story, int saved_errno)
{
    fail(&open_message, r, "%s", story[0] ? story : error_text(r));
    errno = saved_errno;
    return r;
}

int skade_open(skade **ret, const struct skade_options *options)
{
    struct skade_options o = { .size = 0 };
    int saved_errno = errno;

    if (options && options->size < offsetof(struct skade_options, instance))
        return open_failed(SKADE_EINPUT, "skade_options.size is not set", saved_errno);
    if (options)
        copy_sized(&o, sizeof o, options, options->size);
    skade *s = calloc(1, sizeof *s);
    if (!s)
        return open_failed(-ENOMEM, "", saved_errno);
    int r = set_up(s, &o);
    if (r == 0)
        r = contact(s);
    if (r < 0) {
        open_failed(r, s->msg.text, saved_errno);
        skade_close(s);
        return r;
    }
    *ret = s;
    errno = saved_errno;
    return 0;
}

void skade_close(skade *s)
{
    struct call c;

    if (!s)
        return;
    call_begin_frozen(&c, s);
    attach_drop(s);
    tally_tell(s);
    ask_hang_up(s);
    gets_forget(s);
    stream_shrink(&s->stream);
    wr_fini(&s->out);
    content_sum_free(s->upload.content);
    wr_fini(&s->upload.out);
    call_unmark_process(s);
    call_end(&c, 0);
    free(s);
}

void skade_quiesce(skade *s)
{
    struct call c;

    int r = call_begin_frozen(&c, s);
    if (r == 0) { /* else a callback is at work with what we would let go */
        gets_forget(s);
        attach_drop(s);
        tally_tell(s);
        stream_shrink(&s->stream);
        wr_fini(&s->out);
        if (!s->upload.open)
            wr_fini(&s->upload.out);
    }
    call_end(&c, r);
}

/* The handle is const for the caller, to whom it makes no difference when the message was written. */
const char *skade_errmsg(const skade *s)
{
    if (!s)
        return open_message.text;
    if (s->untold.set && s->msg.text[0] == 0)
        answer_tell((struct errmsg *)&s->msg, &s->untold);
    return s->msg.text;
}
