/*
 * What the daemon's core asks of the world: clocks, timers, random bytes, workers, threads, the turns of its loop.
 *
 * All of it goes through one struct of functions, which are the system's unless a test puts others in their place before
 * the daemon starts: tests/daemon/simulator.h does, with a time that passes only when it says so, and with workers that
 * run one at a time, on the loop's thread, in an order drawn from a seed.  Then everything happens on one thread and the
 * same seed gives the same run.
 *
 * Files and sockets are not here.  Sockets are real ones, which in one thread do the same every time.  What can go wrong
 * with a file stands behind fail points already; a test can answer for them, too (failpoint.h).
 */
#ifndef SKADE_WORLD_H
#define SKADE_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct world {
    int64_t (*wall_us)(void);                  /* microseconds since 1970 UTC; may jump */
    uint64_t (*clock_ns)(void);                /* never goes back; for measuring */
    uint64_t (*now_ms)(const uv_loop_t *loop); /* never goes back; stands still within a turn of the loop */
    int (*random)(void *ret, size_t len);      /* up to 256 bytes: 0, or -EIO and nothing */

    /* As uv_timer_start() and uv_timer_stop(). */
    int (*timer_start)(uv_timer_t *timer, uv_timer_cb fire, uint64_t ms, uint64_t repeat_ms);
    int (*timer_stop)(uv_timer_t *timer);

    /* As uv_queue_work(): RUN on a worker, then DONE on the loop. */
    int (*work)(uv_loop_t *loop, uv_work_t *work, uv_work_cb run, uv_after_work_cb done);
    /* As uv_thread_create() and uv_thread_join(), for a thread that ends by itself and wakes the loop as its last deed. */
    int (*thread)(uv_thread_t *ret, uv_thread_cb run, void *arg);
    int (*join)(uv_thread_t *thread);
    bool log_takes_turns; /* the log has no thread of its own, its jobs are work() */

    /* Turn until somebody stops it. */
    void (*run)(uv_loop_t *loop);
    void (*stop)(uv_loop_t *loop);
};

extern struct world world;

#endif
