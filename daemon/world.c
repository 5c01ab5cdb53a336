#include "world.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>

static int64_t wall_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* So many come whole or not at all. */
static int random_bytes(void *ret, size_t len)
{
    return getrandom(ret, len, 0) == (ssize_t)len ? 0 : -EIO;
}

static void run(uv_loop_t *loop)
{
    uv_run(loop, UV_RUN_DEFAULT);
}

struct world world = {
    .wall_us = wall_us,
    .clock_ns = uv_hrtime,
    .now_ms = uv_now,
    .random = random_bytes,
    .timer_start = uv_timer_start,
    .timer_stop = uv_timer_stop,
    .work = uv_queue_work,
    .thread = uv_thread_create,
    .join = uv_thread_join,
    .run = run,
    .stop = uv_stop,
};
