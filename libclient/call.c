/*
 * The frame around every public function: what the host program must not notice.
 *
 * errno, the cancellation state, and fork().  A thread that is cancelled while the library holds a
 * half-received frame would leave the handle in pieces, so cancellation waits until the call is over
 * (watch.c lets it in where nothing is half done).
 */
#include "client.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14 */
#endif

/* ---- fork ---------------------------------------------------------------------------------------------- */

/* A page that the kernel clears in a child.  Pids are no help: a grandchild may have its grandfather's. */
int call_mark_process(skade *s)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    s->parent_pid = getpid();
    if (page == MAP_FAILED)
        return -ENOMEM;
    if (madvise(page, size, MADV_WIPEONFORK) < 0) {
        munmap(page, size);
        return 0;
    }
    s->parent_mark = page;
    *s->parent_mark = 1;
    return 0;
}

void call_unmark_process(skade *s)
{
    if (s->parent_mark)
        munmap((void *)s->parent_mark, (size_t)sysconf(_SC_PAGESIZE));
}

static bool is_child(const skade *s)
{
    return s->parent_mark ? *s->parent_mark == 0 : getpid() != s->parent_pid;
}

/* The connection is the parent's: we close our copy of its descriptor, which the parent doesn't notice,
 * and say nothing on it.  Maps are everybody's. */
void call_check_fork(skade *s)
{
    if (!is_child(s))
        return;
    if (s->parent_mark)
        *s->parent_mark = 1;
    s->parent_pid = getpid();
    count(s, CLIENT_forks);
    tally_skip(s);
    ask_hang_up(s);
}

/* ---- the deadline -------------------------------------------------------------------------------------- */

void deadline_renew(skade *s)
{
    s->deadline = deadline_in(s->timeout_ms);
    s->deadlines++;
}

void deadline_leave_out(skade *s, int64_t since)
{
    s->deadline += clock_ms() - since;
}

#define TICK_COUNTS_MS 1000 /* less than this, and a tick of the coarse clock would */

/* Most calls never wait, and asking the exact clock would be a tenth of what they do. */
static void deadline_begin(skade *s)
{
    struct timespec t;

    if (s->timeout_ms < TICK_COUNTS_MS) {
        deadline_renew(s);
    } else {
        clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
        s->deadline = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000 + s->timeout_ms;
        s->deadlines++;
    }
    if (s->deadline > s->deadline_shared)
        s->deadline = s->deadline_shared;
}

void skade_deadline(skade *s, int timeout_ms)
{
    s->deadline_shared = deadline_in(timeout_ms);
}

/* ---- begin and end ------------------------------------------------------------------------------------- */

static void begin(struct call *c, skade *s, bool frozen)
{
    c->s = s;
    c->frozen = frozen;
    c->saved_errno = errno;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &c->cancel_state);
    call_check_fork(s);
    s->msg.text[0] = 0;
    s->untold.set = false;
    deadline_begin(s);
}

static int busy(skade *s)
{
    return fail(&s->msg, -EBUSY, "a callback may not use the handle that it is called by: open another one");
}

int call_begin(struct call *c, skade *s)
{
    begin(c, s, false);
    if (s->lent)
        return busy(s);
    if (s->replaced)
        return attach_tell_replaced(s);
    return 0;
}

int call_begin_frozen(struct call *c, skade *s)
{
    begin(c, s, true);
    return s->lent ? busy(s) : 0;
}

int64_t call_end(struct call *c, int64_t result)
{
    if (result == SKADE_EREPLACED && !c->frozen)
        c->s->replaced = false;
    pthread_setcancelstate(c->cancel_state, NULL);
    errno = c->saved_errno;
    return result;
}
