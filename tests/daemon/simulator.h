/*
 * A daemon in this process, on one thread, in a world that a seed decides: daemon/world.h with other functions in it.
 *
 *   time        stands still but in sim_turn(), which lets some of it pass and fires the timers that are due
 *   workers     are a heap of jobs; a turn runs one or gives one back to the loop, any of them, or lets them wait
 *   log thread  takes its turns as such a job
 *   faults      fail points fail as disks do, or the daemon is killed there
 *   sockets     are real, and so are files
 *
 * Killing: the directory is copied as it is at that moment, which is what kill -9 leaves.  The rest of that life goes on
 * in the old one, seen by nobody, until everything is closed in order; then the copy takes its place.  So a life costs no
 * process and leaks no memory.  What a power cut would take of unsynced pages is not simulated.
 *
 *     sim_begin(seed, place, true);
 *     while (...)
 *         sim_live(script, arg);      server_start(); server_run(), whose turns are the script's
 *     sim_end();
 */
#ifndef SKADE_TEST_SIMULATOR_H
#define SKADE_TEST_SIMULATOR_H

#include "server.h"

struct sim {
    uint64_t random;       /* draws everything */
    struct server *server; /* of this life; NULL between two */
    uint64_t now_us;       /* since the simulation began; no life begins at 0 again */
    int64_t wall_us;       /* what the clock on the wall is ahead of that */
    bool stopped;          /* nothing is left to do for the server */
    bool killed;           /* this life was ended by a crash: nobody sees the rest of it */
    bool faults;           /* fail points may fail */
    unsigned killed_in;    /* so many fail points, then it is killed; 0: no */
    uint64_t lives, kills, failures, jobs;
    uint64_t fired; /* timers */

    /* The test's: called just before the directory is copied; what the daemon said so far was heard. */
    void (*dying)(void);
    /* The test's own fail points, asked first; NULL: none. Not 0: the answer. */
    int (*failpoint)(const char *name);
};

extern struct sim sim;

/* PLACE (a directory) is used from scratch. */
void sim_begin(uint64_t seed, const char *place, bool faults);
void sim_end(void);

/* One life of the daemon with options set by CONFIGURE (may be NULL) over those of the simulation.  SCRIPT is called when
 * it serves, turns it with sim_turn() and returns when sim.stopped.  The daemon's exit code; fails the test when it can't
 * start. */
int sim_live(void (*configure)(struct config *c), void (*script)(void *arg), void *arg);

/* The loop's turn, with what the world did meanwhile. */
void sim_turn(void);

/* No faults, no time but MS, whatever is to be done is done: for tests that look at clocks. */
void sim_settle(void);
void sim_pass(uint64_t ms);

/* End this life: the daemon is killed here, or told to stop in order. */
void sim_kill(void);
void sim_stop(void);

/* Turn until it has ended. */
void sim_finish(void);

/* "PLACE/NAME" of the running life, in one of four buffers by turns. */
const char *sim_path(const char *name);

#endif
