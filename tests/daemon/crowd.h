/*
 * Clients of a simulated daemon: they ask at random, speak the protocol themselves, and note what they were told.
 *
 * One of them watches: what it is told is the history.  The others' requests and answers are kept until the end, when
 * verdict.h judges them by that history.
 */
#ifndef SKADE_TEST_CROWD_H
#define SKADE_TEST_CROWD_H

#include "simulator.h"
#include "wire.h"

#define ROWS_MAX 4
#define KEYS 20 /* of rows of stored tables: 0 ... */
#define TEXT_MAX 400

/* An event as the watcher was told. */
struct past {
    uint64_t seq, watermark;
    uint32_t kind, flags, table;
    int64_t snapshot, time_us;
    struct uuid uuid;
    char name[64], text[TEXT_MAX], text2[TEXT_MAX];
};

enum outcome { WAITING, DONE, REFUSED, UNKNOWN };

struct request {
    uint16_t type;   /* enum wire_type of the message that is answered */
    uint64_t number; /* of the latest time that it was asked */
    struct wr said;  /* frames, to say it again */
    enum outcome outcome;
    int code;          /* REFUSED */
    bool again;        /* it was asked more than once */
    uint64_t from, to; /* the newest event when it was asked, and answered */

    /* changes */
    struct uuid uuids[ROWS_MAX];
    size_t rows;
    uint8_t base;
    char base_location[TEXT_MAX];
    uint64_t first_seq, last_seq; /* DONE */
    struct {
        unsigned key;
        uint64_t value; /* 0: it is deleted */
    } written[ROWS_MAX];
    size_t written_count;

    /* questions, their answers */
    uint64_t at;     /* the moment that is asked about, or SEQ_MAX: now */
    uint64_t before; /* HISTORY */
    uint32_t table;
    int64_t values[ROWS_MAX]; /* snapshots, or a time */
    char name[64];
    struct told {
        int status;
        uint64_t seq, retired_by;
        char location[TEXT_MAX];
    } told[ROWS_MAX];
    size_t told_count;
};

struct crowd {
    struct request **requests; /* all */
    size_t count, cap;
    struct past *events; /* index: seq - 1 */
    uint64_t seq, events_cap;
    uint64_t answers;
    struct uuid origin; /* of the log: its files carry it */
    uint64_t hash;      /* of all that anybody was told */
};

extern struct crowd crowd;

void crowd_begin(void);
void crowd_end(void);

/* Between turns: hear what came, ask something, or not. */
void crowd_act(bool may_ask);

/* For scripts: a request whose frames they put into it; saying it; what can be done without time, and hearing of it. */
struct request *crowd_request(void);
void crowd_say(struct request *r);
void crowd_hear(void);

/* Only the watcher hears. */
void crowd_watch(void);

/* The caller took the events over; the watcher begins anew. */
void crowd_forget_events(void);

/* The daemon ends: what came is heard, what wasn't answered never will be. */
void crowd_hang_up(void);

#endif
