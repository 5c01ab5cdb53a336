/*
 * A daemon that does as the test says: it listens at the world's socket, answers from the world's log, and
 * a hook may answer otherwise, not at all, or hang up.  One thread serves all connections.
 */
#ifndef SKADE_TEST_FAKE_H
#define SKADE_TEST_FAKE_H

#include "wire.h"
#include "world.h"

#define FAKE_CONNECTIONS 64

enum fake_verdict {
    FAKE_DEFAULT, /* answer as a daemon would */
    FAKE_SENT,    /* the hook put whole frames into OUT: send them */
    FAKE_SILENT,  /* send nothing */
    FAKE_CLOSE,   /* send what is in OUT and hang up */
};

struct fake;
/* Called in the fake's thread for each request.  PAYLOAD has h->len bytes. */
typedef enum fake_verdict (*fake_hook)(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                       struct wr *out);

struct fake_connection {
    int fd;
    struct wr in;
    uint64_t watch;   /* request number of its watch; 0: none */
    uint64_t watched; /* events up to here were sent */
    uint64_t rows;    /* commits of its open release */
    struct uuid first_uuid;
};

struct fake {
    struct world *world;
    fake_hook hook;
    void *arg; /* the hook's */
    int listening;
    int wake[2];
    pthread_t thread;
    atomic_bool stopping;
    atomic_uint seen[128];   /* requests by type */
    atomic_uint connections; /* accepted so far */
    struct fake_connection c[FAKE_CONNECTIONS];
    struct fake_connection *now; /* the one whose request is served */
    /* What the last requests said. */
    _Atomic uint64_t last_at;
    _Atomic uint32_t last_keys;
    _Atomic uint64_t told_map, told_tail; /* lookups, by all tallies together */
    _Atomic uint64_t told_generation;     /* by the last */
    struct uuid uuids[64];                /* of changes, in the order they came */
    atomic_uint uuids_count;
    struct uuid known[64]; /* uuids of changes that were made */
    uint64_t known_seq[64];
    size_t known_count;
    char shm_dir[SHM_DIR_MAX]; /* what WELCOME says; "" the world's */
    uint64_t epoch;            /* what WELCOME says; 0: the world's */
    uint32_t protocol;         /* what WELCOME says; 0: the newest */
};

/* Listen and serve.  The fake lives until fake_stop(); HOOK may be NULL. */
struct fake *fake_start(struct world *w, fake_hook hook, void *arg);
/* Close everything, remove the socket, free. */
void fake_stop(struct fake *f);

/* Tell watchers what is new in the world. */
void fake_push(struct fake *f);

/* For hooks: do and answer as without a hook. */
void fake_answer(struct fake *f, const struct frame_header *h, const uint8_t *payload, struct wr *out);
/* Whole frames. */
void fake_error(struct wr *out, uint64_t request, int code, const char *message);
void fake_frame(struct wr *out, uint16_t type, uint16_t flags, uint64_t request, const void *payload,
                size_t len);

#endif
