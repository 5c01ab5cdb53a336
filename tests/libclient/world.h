/*
 * A small world for tests of the client library: a log in memory, the shared-memory files that a daemon
 * would make of it, and directories to put them into.  The test is the only writer; fake.h answers on the
 * socket from the same log.
 *
 * Everything is as simple as can be, so that it can serve as the truth: questions are answered by walking
 * all events.
 */
#ifndef SKADE_TEST_WORLD_H
#define SKADE_TEST_WORLD_H

#include "control.h"
#include "event.h"
#include "generation.h"
#include "names.h"
#include "skade.h"
#include "tail.h"

#include <pthread.h>

#define WORLD_EVENTS 4096
#define WORLD_PARTS 16

struct world {
    struct world *next; /* of all that were made: they live as long as the process */
    char run[200];      /* run directory */
    struct shm_place place;
    struct uuid log;
    uint64_t seed;
    uint64_t epoch;            /* of the control page; 0: none yet */
    uint64_t generation;       /* last number used */
    struct control_page *page; /* mapped for writing; NULL: none */
    uint64_t dev, ino;         /* of the page's file */
    pthread_mutex_t lock;      /* over the events: fake.h reads them in a thread */
    struct event events[WORLD_EVENTS];
    uint64_t seq;    /* events so far: event N is events[N - 1] */
    uint32_t tables; /* numbers given so far */
    struct root_part parts[WORLD_PARTS];
    size_t parts_count;
    bool tails;               /* publications come with a tail, which events are appended to */
    uint32_t tail_room;       /* slots of the next one; 0: enough */
    struct tail_writer *tail; /* of the last publication; NULL: it has none */
};

/* A world with empty directories and no files.  Lives until the process ends. */
struct world *world_make(void);

/* ---- the log: each returns the event's sequence number, and stores it in the page if there is one ------ */

uint32_t world_create(struct world *w, const char *name); /* the table's number */
uint64_t world_commit(struct world *w, uint32_t table, int64_t id, int64_t time_us, const char *location);
uint64_t world_add(struct world *w, const struct event *e); /* any event; texts are copied */
uint64_t world_rename(struct world *w, uint32_t table, const char *name);
uint64_t world_drop(struct world *w, uint32_t table);
uint64_t world_expire(struct world *w, uint32_t table, uint64_t watermark);

/* Another log in the same directories: no events, no parts, another uuid.  Old files stay. */
void world_replace_log(struct world *w);

/* An older copy of the same log, which ends at SEQ: only the tables that were there.  Old files stay. */
void world_go_back(struct world *w, uint64_t seq);

/* ---- files --------------------------------------------------------------------------------------------- */

/* A new control page with the next epoch at the well-known name; the old page, if any, is not retired. */
void world_new_page(struct world *w);
void world_retire_page(struct world *w); /* the word of the present page */

/* Publish all events: a part of the events since the last publication and a root.  Returns the generation. */
uint64_t world_publish(struct world *w);
uint64_t world_make_files(struct world *w); /* the same without storing the generation word */
/* The path of a file; lends a static buffer. */
const char *world_file(const struct world *w, enum shm_kind kind, uint64_t generation);

/* Publish a generation with the parts that there are, so that the newest events are in its tail only. */
uint64_t world_publish_behind(struct world *w);

void world_beat(struct world *w);

/* ---- the truth ----------------------------------------------------------------------------------------- */

/* Status of snapshot ID of TABLE as of AT, and its commit. */
int world_resolve(struct world *w, uint32_t table, int64_t id, uint64_t at, const struct event **ret);
int world_head(struct world *w, uint32_t table, uint64_t at, const struct event **ret);
int world_as_of(struct world *w, uint32_t table, int64_t time_us, uint64_t at, const struct event **ret);
uint32_t world_find(struct world *w, struct bytes name, uint64_t at); /* 0: nobody */
struct bytes world_name(struct world *w, uint32_t table, uint64_t at);
uint64_t world_retired_by(struct world *w, uint32_t table, uint64_t at);

/* ---- handles ------------------------------------------------------------------------------------------- */

/* Open a handle for this world; fails the test when that fails. */
skade *world_open(struct world *w, unsigned flags);
/* The same, and it waits for answers so long only. */
skade *world_open_impatient(struct world *w, int timeout_ms);
int world_try_open(struct world *w, unsigned flags, int timeout_ms, skade **ret);

/* A counter of the handle by its name. */
uint64_t handle_counter(skade *s, const char *name);

/* The handle's own clock in milliseconds, for those that handle_clock() was called for. */
extern _Thread_local int64_t test_clock_ms;
void handle_clock(skade *s);

/* An answer with a buffer that belongs to the calling thread. */
struct skade_answer answer(void);

/* AddressSanitizer doesn't see that cancellation took frames away, and stumbles over them itself: such
 * tests go without. */
#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifndef HAS_ASAN
#define HAS_ASAN 0
#endif

#endif
