#include "progress.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BAR_WIDTH 30
#define FIRST_MS 1000
#define EACH_MS 200

/* One process, one terminal, so one of these.  The lock is over everything but the atomics. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool running, ending, drawn;
    const char *label, *unit;
    _Atomic uint64_t done, total; /* relaxed: figures for a person */
    _Atomic int fd;               /* followed, or -1 */
} bar = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

static void look_at_file(void)
{
    struct stat st;
    int fd = atomic_load_explicit(&bar.fd, memory_order_relaxed);

    if (fd >= 0 && fstat(fd, &st) == 0)
        atomic_store_explicit(&bar.done, (uint64_t)st.st_size, memory_order_relaxed);
}

static void draw(void)
{
    uint64_t done = atomic_load_explicit(&bar.done, memory_order_relaxed);
    uint64_t total = atomic_load_explicit(&bar.total, memory_order_relaxed);
    char cells[BAR_WIDTH + 1];

    if (total < done)
        total = 0;
    for (int i = 0; i < BAR_WIDTH; i++)
        cells[i] = total && (double)done / (double)total * BAR_WIDTH > i ? '#' : '.';
    cells[BAR_WIDTH] = 0;
    if (total)
        fprintf(stderr, "\r\033[K%s [%s] %" PRIu64 " of %" PRIu64 " %s", bar.label, cells, done, total,
                bar.unit);
    else
        fprintf(stderr, "\r\033[K%s %" PRIu64 " %s", bar.label, done, bar.unit);
    fflush(stderr);
    bar.drawn = true;
}

static void add_ms(struct timespec *t, long ms)
{
    t->tv_nsec += ms % 1000 * 1000000;
    t->tv_sec += ms / 1000 + t->tv_nsec / 1000000000;
    t->tv_nsec %= 1000000000;
}

static void *drawer(void *unused)
{
    struct timespec next;

    (void)unused;
    clock_gettime(CLOCK_MONOTONIC, &next);
    add_ms(&next, FIRST_MS);
    pthread_mutex_lock(&bar.lock);
    while (!bar.ending) {
        if (pthread_cond_timedwait(&bar.wake, &bar.lock, &next) != ETIMEDOUT)
            continue;
        look_at_file();
        draw();
        add_ms(&next, EACH_MS);
    }
    pthread_mutex_unlock(&bar.lock);
    return NULL;
}

static void start_drawer(void)
{
    pthread_condattr_t monotonic;

    bar.ending = bar.drawn = false;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&bar.wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    bar.running = pthread_create(&bar.thread, NULL, drawer, NULL) == 0;
}

void progress_begin(const char *label, const char *unit)
{
    if (isatty(STDERR_FILENO) != 1)
        return;
    pthread_mutex_lock(&bar.lock);
    bar.label = label;
    bar.unit = unit;
    progress_set(0, 0);
    pthread_mutex_unlock(&bar.lock);
    if (!bar.running)
        start_drawer();
}

void progress_set(uint64_t done, uint64_t total)
{
    atomic_store_explicit(&bar.done, done, memory_order_relaxed);
    atomic_store_explicit(&bar.total, total, memory_order_relaxed);
}

void progress_follow(int fd)
{
    atomic_store_explicit(&bar.fd, fd, memory_order_relaxed);
}

/* Holds the lock that drawing needs. */
void progress_pause(void)
{
    pthread_mutex_lock(&bar.lock);
    if (bar.drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    bar.drawn = false;
}

void progress_resume(void)
{
    pthread_mutex_unlock(&bar.lock);
}

void progress_end(void)
{
    if (!bar.running)
        return;
    pthread_mutex_lock(&bar.lock);
    bar.ending = true;
    pthread_cond_signal(&bar.wake);
    pthread_mutex_unlock(&bar.lock);
    pthread_join(bar.thread, NULL);
    progress_pause();
    progress_resume();
    pthread_cond_destroy(&bar.wake);
    progress_follow(-1);
    bar.running = false;
}
