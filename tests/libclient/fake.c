#include "fake.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- frames -------------------------------------------------------------------------------------------- */

void fake_frame(struct wr *out, uint16_t type, uint16_t flags, uint64_t request, const void *payload,
                size_t len)
{
    size_t at = frame_begin(out);
    wr_bytes(out, payload, len);
    frame_end(out, at, type, flags, request);
}

void fake_error(struct wr *out, uint64_t request, int code, const char *message)
{
    size_t at = frame_begin(out);
    wire_put_error(out, &(struct msg_error){ .code = code, .message = bytes_of(message) });
    frame_end(out, at, WIRE_ERROR, 0, request);
}

/* ---- questions ----------------------------------------------------------------------------------------- */

static void answer_hello(struct fake *f, const struct frame_header *h, struct wr *out)
{
    struct world *w = f->world;
    struct msg_welcome m = {
        .protocol = f->protocol ? f->protocol : WIRE_PROTOCOL_MAX,
        .epoch = f->epoch ? f->epoch : w->epoch,
        .log = w->log,
        .commit_seq = w->seq,
        .roles = 7,
        .uid = w->place.uid,
        .control_dev = w->dev,
        .control_ino = w->ino,
        .frame_max = WIRE_FRAME_MAX,
        .shm_dir = bytes_of(f->shm_dir[0] ? f->shm_dir : w->place.dir),
        .version = bytes_of("fake"),
    };
    size_t at = frame_begin(out);
    wire_put_welcome(out, &m);
    frame_end(out, at, WIRE_WELCOME, 0, h->request);
}

static void put_answer(struct world *w, struct wr *out, int status, uint32_t table, int64_t id,
                       const struct event *e, uint64_t at)
{
    struct item_answer item = { .status = status, .table = table, .snapshot = id, .location = { "", 0 } };

    if (e && (status == 1 || status == SKADE_EEXPIRED)) {
        item.flags = e->flags;
        item.snapshot = e->snapshot;
        item.seq = e->seq;
        item.time_us = e->time_us;
        item.retired_by = status == 1 ? 0 : world_retired_by(w, table, at);
    }
    if (status == 1)
        item.location = e->text;
    wire_put_answer(out, &item);
}

static uint64_t moment(struct fake *f, uint64_t at)
{
    f->last_at = at;
    return at < f->world->seq ? at : f->world->seq;
}

static void answer_resolve(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                           struct wr *out)
{
    struct msg_resolve m;
    struct item_key key;
    const struct event *e;

    ck_assert_int_eq(wire_read_resolve(payload, h->len, &m), 0);
    f->last_keys = m.keys.count;
    size_t at = frame_begin(out);
    wire_put_answers(out,
                     &(struct msg_answers){ .at = moment(f, m.at), .answers = { .count = m.keys.count } });
    for (uint32_t i = 0; i < m.keys.count; i++) {
        wire_get_key(&m.keys.items, &key);
        int status = world_resolve(f->world, key.table, key.snapshot, m.at, &e);
        put_answer(f->world, out, status, key.table, key.snapshot, e, m.at);
    }
    frame_end(out, at, WIRE_ANSWERS, 0, h->request);
}

static void answer_one(struct fake *f, const struct frame_header *h, uint64_t asked_at, int status,
                       uint32_t table, const struct event *e, struct wr *out)
{
    size_t at = frame_begin(out);
    wire_put_answers(out, &(struct msg_answers){ .at = moment(f, asked_at), .answers = { .count = 1 } });
    put_answer(f->world, out, status, table, 0, e, asked_at);
    frame_end(out, at, WIRE_ANSWERS, 0, h->request);
}

static void answer_head(struct fake *f, const struct frame_header *h, const uint8_t *payload, struct wr *out)
{
    struct msg_head m;
    const struct event *e;

    ck_assert_int_eq(wire_read_head(payload, h->len, &m), 0);
    int status = world_head(f->world, m.table, m.at, &e);
    answer_one(f, h, m.at, status, m.table, e, out);
}

static void answer_as_of(struct fake *f, const struct frame_header *h, const uint8_t *payload, struct wr *out)
{
    struct msg_as_of m;
    const struct event *e;

    ck_assert_int_eq(wire_read_as_of(payload, h->len, &m), 0);
    int status = world_as_of(f->world, m.table, m.time_us, m.at, &e);
    answer_one(f, h, m.at, status, m.table, e, out);
}

static void answer_lookup(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                          struct wr *out)
{
    struct msg_lookup m;

    ck_assert_int_eq(wire_read_lookup(payload, h->len, &m), 0);
    uint32_t table = world_find(f->world, m.name, m.at);
    if (table == 0) {
        fake_error(out, h->request, SKADE_ENOTABLE, "there is no such table");
        return;
    }
    size_t at = frame_begin(out);
    wire_put_table(out, &(struct msg_table){ .at = moment(f, m.at), .table = table, .kind = 1 });
    frame_end(out, at, WIRE_TABLE, 0, h->request);
}

static void answer_ping(struct fake *f, const struct frame_header *h, struct wr *out)
{
    size_t at = frame_begin(out);
    wire_put_pong(out, &(struct msg_pong){ .commit_seq = f->world->seq });
    frame_end(out, at, WIRE_PONG, 0, h->request);
}

/* ---- events -------------------------------------------------------------------------------------------- */

static void put_event(struct world *w, struct wr *out, const struct event *e)
{
    struct item_event item = { .seq = e->seq,
                               .kind = e->kind,
                               .flags = e->flags,
                               .table = e->table,
                               .snapshot = e->snapshot,
                               .time_us = e->time_us,
                               .watermark = e->watermark,
                               .uuid = e->uuid,
                               .name = world_name(w, e->table, e->seq),
                               .text = e->text,
                               .text2 = e->text2 };
    wire_put_event(out, &item);
}

static void answer_since(struct fake *f, const struct frame_header *h, const uint8_t *payload, struct wr *out)
{
    struct msg_since m;
    struct world *w = f->world;

    ck_assert_int_eq(wire_read_since(payload, h->len, &m), 0);
    uint64_t left = m.after < w->seq ? w->seq - m.after : 0;
    uint32_t n = left < m.limit ? (uint32_t)left : m.limit;
    size_t at = frame_begin(out);
    wire_put_events(out, &(struct msg_events){ .at = w->seq, .more = n < left, .events = { .count = n } });
    for (uint32_t i = 0; i < n; i++)
        put_event(w, out, &w->events[m.after + i]);
    frame_end(out, at, WIRE_EVENTS, 0, h->request);
}

static void answer_history(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                           struct wr *out)
{
    struct msg_history m;
    struct world *w = f->world;
    uint32_t n = 0;

    ck_assert_int_eq(wire_read_history(payload, h->len, &m), 0);
    size_t at = frame_begin(out);
    wire_put_events(out, &(struct msg_events){ .at = w->seq });
    size_t count_at = out->len - sizeof(uint32_t);
    bool more = false;
    for (uint64_t i = w->seq; i-- > 0 && !more;) {
        if (w->events[i].table != m.table || w->events[i].seq >= m.before)
            continue;
        more = n == m.limit;
        if (!more) {
            put_event(w, out, &w->events[i]);
            n++;
        }
    }
    wr_patch_u32(out, count_at, n);
    out->data[count_at - 1] = more;
    frame_end(out, at, WIRE_EVENTS, 0, h->request);
}

/* What is new for a watcher, a few events at a time. */
static void push(struct fake *f, struct fake_connection *c, struct wr *out)
{
    struct world *w = f->world;

    while (c->watch && c->watched < w->seq) {
        uint32_t n = w->seq - c->watched < 3 ? (uint32_t)(w->seq - c->watched) : 3;
        size_t at = frame_begin(out);
        wire_put_events(out, &(struct msg_events){ .at = w->seq, .events = { .count = n } });
        for (uint32_t i = 0; i < n; i++)
            put_event(w, out, &w->events[c->watched++]);
        frame_end(out, at, WIRE_EVENTS, FRAME_MORE, c->watch);
    }
}

static void answer_watch(struct fake *f, const struct frame_header *h, const uint8_t *payload, struct wr *out)
{
    struct msg_watch m;

    ck_assert_int_eq(wire_read_watch(payload, h->len, &m), 0);
    f->now->watch = h->request;
    f->now->watched = m.after;
    size_t at = frame_begin(out);
    wire_put_events(out, &(struct msg_events){ .at = f->world->seq });
    frame_end(out, at, WIRE_EVENTS, FRAME_MORE, h->request);
    push(f, f->now, out);
}

static void answer_cancel(struct fake *f, struct wr *out)
{
    size_t at = frame_begin(out);
    wire_put_done(out, &(struct msg_done){ .end_ = 0 });
    frame_end(out, at, WIRE_DONE, 0, f->now->watch);
    f->now->watch = 0;
}

/* ---- changes ------------------------------------------------------------------------------------------- */

static uint64_t known_seq(struct fake *f, const struct uuid *uuid)
{
    for (size_t i = 0; i < f->known_count; i++) {
        if (uuid_equal(&f->known[i], uuid))
            return f->known_seq[i];
    }
    return 0;
}

/* Make the change of UUID once; the first sequence number that it got. */
static uint64_t make_once(struct fake *f, const struct uuid *uuid, uint64_t seq)
{
    f->known[f->known_count] = *uuid;
    f->known_seq[f->known_count++] = seq;
    return seq;
}

static void note_uuid(struct fake *f, struct uuid uuid)
{
    unsigned n = f->uuids_count;
    if (n < ARRAY_SIZE(f->uuids))
        f->uuids[n] = uuid;
    f->uuids_count = n + 1;
}

static uint64_t add_commit(struct fake *f, const struct item_commit_row *row)
{
    struct event e = { .kind = EVENT_COMMIT,
                       .flags = row->flags & 7,
                       .table = row->table,
                       .snapshot = row->snapshot,
                       .time_us = row->time_us,
                       .uuid = row->uuid,
                       .text = row->location };
    pthread_mutex_unlock(&f->world->lock);
    uint64_t seq = world_add(f->world, &e);
    pthread_mutex_lock(&f->world->lock);
    return seq;
}

static void committed(struct wr *out, uint64_t request, uint64_t first, uint64_t last)
{
    size_t at = frame_begin(out);
    wire_put_committed(out, &(struct msg_committed){ .first_seq = first, .last_seq = last });
    frame_end(out, at, WIRE_COMMITTED, 0, request);
}

static void conflict(struct fake *f, const struct frame_header *h, uint32_t table, const struct event *head,
                     struct wr *out)
{
    size_t at = frame_begin(out);
    wire_put_error(out, &(struct msg_error){ .code = SKADE_ECONFLICT,
                                             .message = bytes_of("the head is another"),
                                             .heads = { .count = head != NULL } });
    if (head)
        put_answer(f->world, out, 1, table, 0, head, SEQ_MAX);
    frame_end(out, at, WIRE_ERROR, 0, h->request);
}

static bool base_holds(const struct item_commit_row *row, const struct event *head)
{
    if (row->base == SKADE_BASE_NONE)
        return !head;
    return row->base == SKADE_BASE_ANY || (head && bytes_equal(head->text, row->base_location));
}

static void answer_commit(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                          struct wr *out)
{
    struct msg_commit m;
    struct item_commit_row row;
    const struct event *head;

    ck_assert_int_eq(wire_read_commit(payload, h->len, &m), 0);
    ck_assert_uint_eq(m.rows.count, 1);
    wire_get_commit_row(&m.rows.items, &row);
    note_uuid(f, row.uuid);
    uint64_t seq = known_seq(f, &row.uuid);
    if (seq == 0) {
        world_head(f->world, row.table, SEQ_MAX, &head);
        if (!base_holds(&row, head)) {
            conflict(f, h, row.table, head, out);
            return;
        }
        seq = make_once(f, &row.uuid, add_commit(f, &row));
    }
    committed(out, h->request, seq, seq);
}

static void take_piece(struct fake *f, const struct frame_header *h, const uint8_t *payload)
{
    struct msg_release_add m;
    struct item_commit_row row;

    ck_assert_int_eq(wire_read_release_add(payload, h->len, &m), 0);
    for (uint32_t i = 0; i < m.rows.count; i++) {
        wire_get_commit_row(&m.rows.items, &row);
        if (f->now->rows++ == 0)
            f->now->first_uuid = row.uuid;
    }
}

/* Rows of a release are counted, not kept: the log would be too small for the long ones. */
static void answer_release_end(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                               struct wr *out)
{
    struct msg_release_end m;

    ck_assert_int_eq(wire_read_release_end(payload, h->len, &m), 0);
    uint64_t rows = f->now->rows;
    f->now->rows = 0;
    if (rows != m.count) {
        fake_error(out, h->request, SKADE_EINPUT, "another count");
        return;
    }
    note_uuid(f, f->now->first_uuid);
    uint64_t first = known_seq(f, &f->now->first_uuid);
    if (first == 0)
        first = make_once(f, &f->now->first_uuid, f->world->seq + 1);
    committed(out, h->request, first, first + rows - 1);
}

static void take_tally(struct fake *f, const struct frame_header *h, const uint8_t *payload)
{
    struct msg_tally m;

    ck_assert_int_eq(wire_read_tally(payload, h->len, &m), 0);
    f->told_map += m.map;
    f->told_tail += m.tail;
    f->told_generation = m.generation;
}

/* ---- serving ------------------------------------------------------------------------------------------- */

void fake_answer(struct fake *f, const struct frame_header *h, const uint8_t *payload, struct wr *out)
{
    switch (h->type) {
    case WIRE_HELLO:
        answer_hello(f, h, out);
        break;
    case WIRE_PING:
        answer_ping(f, h, out);
        break;
    case WIRE_LOOKUP:
        answer_lookup(f, h, payload, out);
        break;
    case WIRE_RESOLVE:
        answer_resolve(f, h, payload, out);
        break;
    case WIRE_HEAD:
        answer_head(f, h, payload, out);
        break;
    case WIRE_AS_OF:
        answer_as_of(f, h, payload, out);
        break;
    case WIRE_SINCE:
        answer_since(f, h, payload, out);
        break;
    case WIRE_HISTORY:
        answer_history(f, h, payload, out);
        break;
    case WIRE_WATCH:
        answer_watch(f, h, payload, out);
        break;
    case WIRE_CANCEL:
        answer_cancel(f, out);
        break;
    case WIRE_COMMIT:
        answer_commit(f, h, payload, out);
        break;
    case WIRE_TALLY:
        take_tally(f, h, payload);
        break;
    case WIRE_RELEASE_ADD:
        take_piece(f, h, payload);
        break;
    case WIRE_RELEASE_END:
        answer_release_end(f, h, payload, out);
        break;
    default:
        fake_error(out, h->request, SKADE_EVERSION, "the fake doesn't know that");
        break;
    }
}

static void drop(struct fake_connection *c)
{
    close(c->fd);
    wr_fini(&c->in);
    *c = (struct fake_connection){ .fd = -1 };
}

static bool send_all(int fd, const struct wr *out)
{
    for (size_t sent = 0; sent < out->len;) {
        ssize_t n = send(fd, out->data + sent, out->len - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        sent += (size_t)n;
    }
    return true;
}

/* False: the connection is over. */
static bool serve_frame(struct fake *f, struct fake_connection *c, const struct frame_header *h,
                        const uint8_t *payload)
{
    struct wr out = { .error = 0 };

    f->now = c;
    pthread_mutex_lock(&f->world->lock);
    enum fake_verdict verdict = f->hook ? f->hook(f, h, payload, &out) : FAKE_DEFAULT;
    if (verdict == FAKE_DEFAULT)
        fake_answer(f, h, payload, &out);
    pthread_mutex_unlock(&f->world->lock);
    f->seen[h->type]++; /* after it was served: who sees the count sees what it did */
    bool sent = verdict == FAKE_SILENT || send_all(c->fd, &out);
    wr_fini(&out);
    return sent && verdict != FAKE_CLOSE;
}

static bool serve_input(struct fake *f, struct fake_connection *c)
{
    uint8_t *room = wr_room(&c->in, 65536);
    ssize_t n = recv(c->fd, room, 65536, 0);
    c->in.len -= 65536 - (n > 0 ? (size_t)n : 0);
    if (n <= 0)
        return n < 0 && errno == EINTR;
    size_t done = 0;
    bool alive = true;
    while (alive) {
        struct frame_header h;
        int64_t len = frame_length(c->in.data + done, c->in.len - done, WIRE_FRAME_MAX);
        ck_assert_int_ge(len, 0);
        if (len == 0 || (size_t)len > c->in.len - done)
            break;
        ck_assert_int_eq(frame_check(c->in.data + done, (size_t)len, &h), 0);
        alive = serve_frame(f, c, &h, c->in.data + done + sizeof h);
        done += (size_t)len;
    }
    memmove(c->in.data, c->in.data + done, c->in.len - done);
    c->in.len -= done;
    return alive;
}

static void accept_one(struct fake *f)
{
    int fd = accept4(f->listening, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    f->connections++;
    for (size_t i = 0; i < FAKE_CONNECTIONS; i++) {
        if (f->c[i].fd < 0) {
            f->c[i].fd = fd;
            return;
        }
    }
    close(fd);
}

static void push_all(struct fake *f)
{
    char bytes[64];

    if (read(f->wake[0], bytes, sizeof bytes) < 0)
        return;
    pthread_mutex_lock(&f->world->lock);
    for (size_t i = 0; i < FAKE_CONNECTIONS; i++) {
        struct wr out = { .error = 0 };
        if (f->c[i].fd >= 0)
            push(f, &f->c[i], &out);
        send_all(f->c[i].fd, &out);
        wr_fini(&out);
    }
    pthread_mutex_unlock(&f->world->lock);
}

static void *run(void *arg)
{
    struct fake *f = arg;

    while (!f->stopping) {
        struct pollfd p[FAKE_CONNECTIONS + 2] = { { .fd = f->listening, .events = POLLIN },
                                                  { .fd = f->wake[0], .events = POLLIN } };
        for (size_t i = 0; i < FAKE_CONNECTIONS; i++)
            p[i + 2] = (struct pollfd){ .fd = f->c[i].fd, .events = POLLIN };
        if (poll(p, ARRAY_SIZE(p), -1) < 0)
            continue;
        if (p[1].revents)
            push_all(f);
        for (size_t i = 0; i < FAKE_CONNECTIONS; i++) {
            if (p[i + 2].revents && !serve_input(f, &f->c[i]))
                drop(&f->c[i]);
        }
        if (p[0].revents)
            accept_one(f);
    }
    return NULL;
}

/* ---- start and stop ------------------------------------------------------------------------------------ */

static void socket_path(const struct world *w, char *ret, size_t size)
{
    int n = snprintf(ret, size, "%s/%s.sock", w->run, w->place.instance);
    ck_assert_int_lt(n, (int)size);
}

struct fake *fake_start(struct world *w, fake_hook hook, void *arg)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct fake *f = calloc(1, sizeof *f);

    f->world = w;
    f->hook = hook;
    f->arg = arg;
    for (size_t i = 0; i < FAKE_CONNECTIONS; i++)
        f->c[i].fd = -1;
    ck_assert_int_eq(pipe2(f->wake, O_CLOEXEC), 0);
    socket_path(w, address.sun_path, sizeof address.sun_path);
    f->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(f->listening, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(f->listening, 64), 0);
    ck_assert_int_eq(pthread_create(&f->thread, NULL, run, f), 0);
    return f;
}

void fake_push(struct fake *f)
{
    ck_assert_int_eq(write(f->wake[1], "", 1), 1);
}

void fake_stop(struct fake *f)
{
    char path[108];

    f->stopping = true;
    fake_push(f);
    pthread_join(f->thread, NULL);
    for (size_t i = 0; i < FAKE_CONNECTIONS; i++) {
        if (f->c[i].fd >= 0)
            drop(&f->c[i]);
    }
    close(f->listening);
    close(f->wake[0]);
    close(f->wake[1]);
    socket_path(f->world, path, sizeof path);
    unlink(path);
    free(f);
}
