/*
 * A peer that keeps to the protocol and has little else to recommend it: it asks for much and reads nothing, says nothing,
 * holds connections, sends more than it may.  A script watches what that does to the daemon and to others.
 *
 *     peer hold N                      N greeted connections; how many there are, and the refusal; held until end of input
 *     peer silent                      connects and says nothing: must be closed
 *     peer idle TABLE                  of a watch and an idle connection the idle one must be closed, and the watch go on
 *     peer crowd TABLE N               N commits in one write; "sent"; at the end of input all must be answered
 *     peer again                       a watch that is cancelled, and another: each must get its own events
 *     peer deaf TABLE ID N             N connections that ask for 4096 locations and read nothing; "asked"; all must be closed
 *     peer patient TABLE ID            the same question, and its answer in how many frames, all as of one event
 *     peer backup                      asks for a backup and reads nothing; "asked"; must be closed
 *     peer expire UUID TABLE BY VALUE  its answer: the event, or what is refused; UUID is any number
 *
 * SKADE_RUN_DIR says where.
 */
#include "raw.h"

#include <inttypes.h>

#define KEYS 4096

static void wait_for_the_end_of_input(void)
{
    while (getchar() != EOF)
        ;
}

static void say(const char *word)
{
    puts(word);
    fflush(stdout);
}

/* ---- requests ------------------------------------------------------------------------------------------------------ */

static void put_commit(struct wr *w, uint64_t request, uint32_t table, int64_t snapshot)
{
    struct item_commit_row row = { .table = table,
                                   .flags = 7,
                                   .snapshot = snapshot,
                                   .base_location = { "", 0 },
                                   .location = bytes_of("s3://peer/location") };

    memcpy(row.uuid.b, &snapshot, sizeof snapshot);
    row.uuid.b[15] = 1;
    size_t at = frame_begin(w);
    wire_put_commit(w, &(struct msg_commit){ .rows.count = 1 });
    wire_put_commit_row(w, &row);
    frame_end(w, at, WIRE_COMMIT, 0, request);
}

static void put_watch(struct wr *w, uint64_t request, uint64_t after)
{
    size_t at = frame_begin(w);
    wire_put_watch(w, &(struct msg_watch){ .after = after });
    frame_end(w, at, WIRE_WATCH, 0, request);
}

static void put_resolve(struct wr *w, uint64_t request, uint32_t table, int64_t id)
{
    size_t at = frame_begin(w);
    wire_put_resolve(w, &(struct msg_resolve){ .at = UINT64_MAX, .keys.count = KEYS });
    for (int i = 0; i < KEYS; i++)
        wire_put_key(w, &(struct item_key){ .table = table, .snapshot = id });
    frame_end(w, at, WIRE_RESOLVE, 0, request);
}

/* ---- what it can do ------------------------------------------------------------------------------------------------- */

static void hold(int n)
{
    struct msg_error e = { .message = { "all", 3 } };
    int held = 0;

    while (held < n && try_greet(&e) >= 0)
        held++;
    printf("%d %.*s\n", held, (int)e.message.len, e.message.data);
    fflush(stdout);
    wait_for_the_end_of_input();
}

static void silent(void)
{
    must_hang_up(connect_raw());
}

static void idle(uint32_t table)
{
    const uint8_t *payload;
    struct wr w = { 0 }, c = { 0 };
    int watching = greet();

    put_watch(&w, 2, 0);
    send_all(watching, &w);
    expect(watching, WIRE_EVENTS, &payload);
    must_hang_up(greet()); /* it began to be idle later than the watch did */
    int other = greet();
    put_commit(&c, 2, table, 777);
    send_all(other, &c);
    expect(other, WIRE_COMMITTED, &payload);
    for (uint64_t seen = 0; seen != 777;) {
        struct msg_events m;
        struct item_event e;
        struct frame_header h = expect(watching, WIRE_EVENTS, &payload);
        if (wire_read_events(payload, h.len, &m) < 0)
            die("malformed events");
        for (uint32_t i = 0; i < m.events.count; i++) {
            wire_get_event(&m.events.items, &e);
            seen = (uint64_t)e.snapshot;
        }
    }
}

static void crowd(uint32_t table, int n)
{
    const uint8_t *payload;
    struct wr w = { 0 };
    int fd = greet();

    for (int i = 0; i < n; i++)
        put_commit(&w, (uint64_t)i + 2, table, i + 1);
    send_all(fd, &w);
    say("sent");
    wait_for_the_end_of_input();
    for (int i = 0; i < n; i++)
        expect(fd, WIRE_COMMITTED, &payload);
}

/* The next event of the second watch must be number NEXT. */
static uint64_t take_events(const struct frame_header *h, const uint8_t *payload, uint64_t last)
{
    struct msg_events m;
    struct item_event e;

    if (wire_read_events(payload, h->len, &m) < 0)
        die("malformed events");
    for (uint32_t i = 0; i < m.events.count; i++) {
        wire_get_event(&m.events.items, &e);
        if (h->request == 3 && e.seq != ++last)
            die("event %" PRIu64 " came where %" PRIu64 " was due", e.seq, last);
    }
    return last;
}

static void again(void)
{
    const uint8_t *payload;
    struct wr w = { 0 };
    bool cancelled = false;
    uint64_t last = 0, newest = UINT64_MAX;
    int fd = greet();

    put_watch(&w, 2, 3);
    size_t at = frame_begin(&w);
    wire_put_cancel(&w, &(struct msg_cancel){ .request = 2 });
    frame_end(&w, at, WIRE_CANCEL, 0, 4);
    put_watch(&w, 3, 0);
    send_all(fd, &w);
    while (last < newest) {
        struct frame_header h = receive(fd, &payload);
        cancelled |= h.type == WIRE_DONE;
        if (h.type == WIRE_DONE)
            continue;
        if (h.type != WIRE_EVENTS)
            die("a watch was answered by type %u", h.type);
        if (h.request == 2 && cancelled)
            die("a watch that is over goes on");
        memcpy(&newest, payload, sizeof newest); /* `at`, the first field */
        last = take_events(&h, payload, last);
    }
}

static void deaf(uint32_t table, int64_t id, int n)
{
    int *fds = calloc((size_t)n, sizeof *fds);

    for (int i = 0; i < n; i++) {
        struct wr w = { 0 };
        fds[i] = greet();
        put_resolve(&w, 2, table, id);
        send_all(fds[i], &w);
    }
    close(greet()); /* the daemon has come by all of them */
    say("asked");
    for (int i = 0; i < n; i++)
        must_hang_up(fds[i]);
    free(fds);
}

static void patient(uint32_t table, int64_t id)
{
    const uint8_t *payload;
    struct msg_answers m;
    struct item_answer a;
    struct frame_header h = { .flags = FRAME_MORE };
    struct wr w = { 0 };
    uint32_t answers = 0, frames = 0;
    uint64_t at = 0;
    int fd = greet();

    put_resolve(&w, 2, table, id);
    send_all(fd, &w);
    for (; h.flags & FRAME_MORE; frames++) {
        h = expect(fd, WIRE_ANSWERS, &payload);
        if (wire_read_answers(payload, h.len, &m) < 0 || (at && m.at != at))
            die("malformed answers, or of several moments");
        at = m.at;
        for (uint32_t i = 0; i < m.answers.count; i++, answers++) {
            wire_get_answer(&m.answers.items, &a);
            if (a.status != 1 || a.snapshot != id)
                die("answer %u is wrong", answers);
        }
    }
    if (answers != KEYS)
        die("%u answers to %u questions", answers, KEYS);
    printf("%u\n", frames);
}

static void backup(void)
{
    struct wr w = { 0 };
    int fd = greet();

    size_t at = frame_begin(&w);
    wire_put_backup(&w, &(struct msg_backup){ .end_ = 0 });
    frame_end(&w, at, WIRE_BACKUP, 0, 2);
    send_all(fd, &w);
    say("asked");
    must_hang_up(fd);
}

static void expire(const char *uuid, uint32_t table, uint8_t by, int64_t value)
{
    const uint8_t *payload;
    struct wr w = { 0 };
    struct msg_expire m = { .table = table, .by = by, .value = value };
    struct msg_committed done;
    struct msg_error e;
    uint64_t number = strtoull(uuid, NULL, 10);
    int fd = greet();

    memcpy(m.uuid.b, &number, sizeof number);
    size_t at = frame_begin(&w);
    wire_put_expire(&w, &m);
    frame_end(&w, at, WIRE_EXPIRE, 0, 2);
    send_all(fd, &w);
    struct frame_header h = receive(fd, &payload);
    if (h.type == WIRE_COMMITTED && wire_read_committed(payload, h.len, &done) == 0)
        printf("%" PRIu64 "\n", done.first_seq);
    else if (h.type == WIRE_ERROR && wire_read_error(payload, h.len, &e) == 0)
        printf("%s\n", skade_errname(e.code));
    else
        die("expire was answered by type %u", h.type);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int64_t n[5] = { 0 };

    for (int i = 2; i < argc && i < 7; i++)
        n[i - 2] = strtoll(argv[i], NULL, 10);
    if (strcmp(what, "hold") == 0)
        hold((int)n[0]);
    else if (strcmp(what, "silent") == 0)
        silent();
    else if (strcmp(what, "idle") == 0)
        idle((uint32_t)n[0]);
    else if (strcmp(what, "crowd") == 0)
        crowd((uint32_t)n[0], (int)n[1]);
    else if (strcmp(what, "again") == 0)
        again();
    else if (strcmp(what, "deaf") == 0)
        deaf((uint32_t)n[0], n[1], (int)n[2]);
    else if (strcmp(what, "patient") == 0)
        patient((uint32_t)n[0], n[1]);
    else if (strcmp(what, "backup") == 0)
        backup();
    else if (strcmp(what, "expire") == 0 && argc == 6)
        expire(argv[2], (uint32_t)n[1], (uint8_t)n[2], n[3]);
    else
        die("peer: see the beginning of its source");
    return 0;
}
