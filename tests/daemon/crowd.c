#include "crowd.h"

#include "checksum.h"
#include "indexer.h"
#include "quick.h"
#include "rowstream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CLIENTS 4 /* the first one watches */
#define ASKED_AT_ONCE 3
#define TABLES 6     /* names of external tables */
#define STORED 3     /* and of stored ones */
#define SNAPSHOTS 40 /* ids are drawn from so many, so that they repeat */

struct crowd crowd;

struct client {
    int fd; /* -1: not connected */
    uint8_t in[1 << 18];
    size_t in_len;
    uint64_t numbers;
    struct request *waiting[ASKED_AT_ONCE];
    size_t waiting_count;
    uint64_t lease; /* 0: none */
};

static struct client clients[CLIENTS];
static uint64_t locations;

static uint64_t below(uint64_t n)
{
    return random_below(&sim.random, n);
}

static void copy(char *ret, size_t size, struct bytes s)
{
    ck_assert_uint_lt(s.len, size);
    memcpy(ret, s.data, s.len);
    ret[s.len] = 0;
}

static uint64_t newest(void)
{
    return sim.server->ledger->seq;
}

/* ---- saying ----------------------------------------------------------------------------------------------------- */

static struct request *new_request(void)
{
    if (crowd.count == crowd.cap) {
        crowd.cap = crowd.cap ? crowd.cap * 2 : 256;
        crowd.requests = realloc(crowd.requests, crowd.cap * sizeof *crowd.requests);
        ck_assert_ptr_nonnull(crowd.requests);
    }
    struct request *r = calloc(1, sizeof *r);
    ck_assert_ptr_nonnull(r);
    crowd.requests[crowd.count++] = r;
    return r;
}

/* Begin a frame of R, put a payload into R->said, and end it; the number is filled in when it is sent. */
static size_t begin(struct request *r)
{
    return frame_begin(&r->said);
}

static void end(struct request *r, size_t at, enum wire_type type)
{
    frame_end(&r->said, at, (uint16_t)type, 0, 1);
    r->type = (uint16_t)type; /* of several, the last one is answered */
}

static void put_bytes(struct client *c, const void *data, size_t len)
{
    if (send(c->fd, data, len, MSG_NOSIGNAL) != (ssize_t)len)
        ck_assert_msg(errno == EPIPE || errno == ECONNRESET, "a request isn't taken");
}

static void say(struct client *c, struct request *r)
{
    struct wr out = { 0 };

    r->number = ++c->numbers;
    r->outcome = WAITING;
    r->from = newest();
    for (size_t at = 0; at < r->said.len;) {
        struct frame_header h;
        memcpy(&h, r->said.data + at, sizeof h);
        size_t frame = frame_begin(&out);
        wr_bytes(&out, r->said.data + at + sizeof h, h.len);
        frame_end(&out, frame, h.type, 0, r->number);
        at += sizeof h + h.len;
    }
    ck_assert_uint_lt(c->waiting_count, ASKED_AT_ONCE);
    c->waiting[c->waiting_count++] = r;
    put_bytes(c, out.data, out.len);
    wr_fini(&out);
}

/* ---- hearing ------------------------------------------------------------------------------------------------------ */

static void hear_answer(struct request *r, const struct item_answer *a)
{
    ck_assert_uint_lt(r->told_count, ROWS_MAX);
    struct told *t = &r->told[r->told_count++];
    *t = (struct told){ .status = a->status, .seq = a->seq, .retired_by = a->retired_by };
    copy(t->location, sizeof t->location, a->location);
}

static void hear_answers(struct request *r, const struct frame_header *h, const void *payload)
{
    struct msg_answers m;
    struct item_answer a;

    ck_assert_int_eq(wire_read_answers(payload, h->len, &m), 0);
    ck_assert(r->at == SEQ_MAX ? r->from <= m.at && m.at <= r->to : m.at == r->at);
    r->from = r->to = m.at; /* it says itself as of when */
    for (uint32_t i = 0; i < m.answers.count; i++) {
        wire_get_answer(&m.answers.items, &a);
        hear_answer(r, &a);
    }
}

/* A page of a table's events, newest first. */
static void hear_history(struct request *r, const struct frame_header *h, const void *payload)
{
    struct msg_events m;
    struct item_event e;

    ck_assert_int_eq(wire_read_events(payload, h->len, &m), 0);
    ck_assert_uint_le(m.events.count, ROWS_MAX);
    r->from = r->to = m.at;
    for (uint32_t i = 0; i < m.events.count; i++) {
        wire_get_event(&m.events.items, &e);
        struct told *t = &r->told[r->told_count++];
        *t = (struct told){ .status = 1, .seq = e.seq };
        copy(t->location, sizeof t->location, e.text);
    }
}

/* Sequence numbers have no gaps, and nobody is told of an event twice. */
static void hear_events(const struct frame_header *h, const void *payload)
{
    struct msg_events m;
    struct item_event e;

    ck_assert_int_eq(wire_read_events(payload, h->len, &m), 0);
    for (uint32_t i = 0; i < m.events.count; i++) {
        wire_get_event(&m.events.items, &e);
        ck_assert_uint_eq(e.seq, crowd.seq + 1);
        if (crowd.seq == crowd.events_cap) {
            crowd.events_cap = crowd.events_cap ? crowd.events_cap * 2 : 1024;
            crowd.events = realloc(crowd.events, crowd.events_cap * sizeof *crowd.events);
            ck_assert_ptr_nonnull(crowd.events);
        }
        struct past *p = &crowd.events[crowd.seq++];
        *p = (struct past){ .seq = e.seq,
                            .watermark = e.watermark,
                            .kind = e.kind,
                            .flags = e.flags,
                            .table = e.table,
                            .snapshot = e.snapshot,
                            .time_us = e.time_us,
                            .uuid = e.uuid };
        copy(p->name, sizeof p->name, e.name);
        copy(p->text, sizeof p->text, e.text);
        copy(p->text2, sizeof p->text2, e.text2);
    }
}

/* Whoever is told of a change finds it: the control page says so, and what takes answers away is in the maps. */
static void hear_done(struct request *r, uint64_t first, uint64_t last)
{
    struct server *s = sim.server;
    const struct generation *g = indexer_shown(s->indexer);

    if (r->first_seq) { /* asked again: the first answer again */
        ck_assert_uint_eq(r->first_seq, first);
        ck_assert_uint_eq(r->last_seq, last);
    }
    r->outcome = DONE;
    r->first_seq = first;
    r->last_seq = last;
    ck_assert_uint_ge(atomic_load(&s->page->commit_seq), last);
    if (r->type == WIRE_RENAME || r->type == WIRE_DROP || r->type == WIRE_EXPIRE || r->type == WIRE_COMPACT)
        ck_assert(control_generation(s->page) == 0 ||
                  (control_generation(s->page) == g->number && g->names_seq >= last));
}

/* A leased file is there, whatever was compacted and collected. */
static void hear_files(const struct frame_header *h, const void *payload)
{
    struct msg_file_list m;
    struct item_file_row f;
    char location[TEXT_MAX];

    ck_assert_int_eq(wire_read_file_list(payload, h->len, &m), 0);
    for (uint32_t i = 0; i < m.files.count; i++) {
        wire_get_file_row(&m.files.items, &f);
        copy(location, sizeof location, f.location);
        ck_assert_msg(strncmp(location, "file://", 7) == 0 && access(location + 7, F_OK) == 0,
                      "%s is leased and not there", location);
    }
}

static void hear_error(struct request *r, const struct frame_header *h, const void *payload)
{
    struct msg_error m;

    ck_assert_int_eq(wire_read_error(payload, h->len, &m), 0);
    /* An append that comes again is refused before its uuid is looked up when its table was dropped meanwhile: what
     * became of it the first time APPEND_ASK says. */
    bool open = m.code == SKADE_EUNKNOWN || m.code == SKADE_EUNREACHABLE ||
                (r->again && r->type == WIRE_APPEND_END && m.code == SKADE_ENOTABLE);
    r->outcome = open ? UNKNOWN : REFUSED;
    r->code = m.code;
    if (getenv("SKADE_SIM_ERRORS"))
        dprintf(2, "%s: %s: %.*s\n", wire_name(r->type), error_name(m.code), (int)m.message.len,
                m.message.data);
}

/* What R is told; false: more will come. */
static bool hear(struct client *c, struct request *r, const struct frame_header *h, const void *payload)
{
    struct msg_committed committed;
    struct msg_created created;
    struct msg_appended appended;
    struct msg_compacted compacted;
    struct msg_leased leased;
    struct msg_table table;

    r->to = newest();
    if (r->at && r->at != SEQ_MAX)
        r->from = r->to = r->at;
    switch (h->type) {
    case WIRE_PROGRESS:
        return false;
    case WIRE_EVENTS:
        if (r->type == WIRE_HISTORY) {
            hear_history(r, h, payload);
            break;
        }
        hear_events(h, payload);
        return false;
    case WIRE_ERROR:
        hear_error(r, h, payload);
        return true;
    case WIRE_ANSWERS:
        hear_answers(r, h, payload);
        break;
    case WIRE_TABLE:
        ck_assert_int_eq(wire_read_table(payload, h->len, &table), 0);
        r->from = r->to = table.at;
        r->told[0] = (struct told){ .status = 1, .seq = table.table };
        break;
    case WIRE_COMMITTED:
        ck_assert_int_eq(wire_read_committed(payload, h->len, &committed), 0);
        hear_done(r, committed.first_seq, committed.last_seq);
        break;
    case WIRE_CREATED:
        ck_assert_int_eq(wire_read_created(payload, h->len, &created), 0);
        hear_done(r, created.seq, created.seq);
        break;
    case WIRE_APPENDED:
        ck_assert_int_eq(wire_read_appended(payload, h->len, &appended), 0);
        hear_done(r, appended.seq, appended.seq);
        break;
    case WIRE_COMPACTED:
        ck_assert_int_eq(wire_read_compacted(payload, h->len, &compacted), 0);
        hear_done(r, compacted.seq, compacted.seq);
        if (compacted.joined)
            r->rows = 0; /* by another's uuid */
        break;
    case WIRE_LEASED:
        ck_assert_int_eq(wire_read_leased(payload, h->len, &leased), 0);
        c->lease = leased.lease;
        break;
    case WIRE_FILE_LIST:
        hear_files(h, payload);
        break;
    default:
        break;
    }
    r->outcome = DONE;
    return !(h->flags & FRAME_MORE);
}

/* Locations say where the simulation is, which is another place each time. */
static uint64_t hash_without_place(const struct frame_header *h, const void *payload)
{
    struct wr copied = { 0 };
    const char *where = sim_path("");
    uint8_t *at;

    wr_bytes(&copied, payload, h->len);
    wr_u64(&copied, h->request << 16 ^ h->type);
    while ((at = memmem(copied.data, copied.len, where, strlen(where))))
        memset(at, 0, strlen(where));
    uint64_t hash = checksum(copied.data, copied.len, crowd.hash);
    wr_fini(&copied);
    return hash;
}

static void hear_frame(struct client *c, const struct frame_header *h, const void *payload)
{
    if (h->type == WIRE_WELCOME)
        return; /* says the inode of the control page */
    crowd.answers++;
    crowd.hash = hash_without_place(h, payload);
    for (size_t i = 0; i < c->waiting_count; i++)
        if (c->waiting[i]->number == h->request) {
            if (hear(c, c->waiting[i], h, payload))
                c->waiting[i] = c->waiting[--c->waiting_count];
            return;
        }
    /* Of a release that failed before its end nothing is left to wait for; of any other request, it would be a stray. */
    ck_assert_msg(h->type == WIRE_ERROR, "an answer that nobody waits for: %s", wire_name(h->type));
}

static void hear_frames(struct client *c)
{
    size_t done = 0;

    for (;;) {
        struct frame_header h;
        int64_t len = frame_length(c->in + done, c->in_len - done, WIRE_FRAME_MAX);
        ck_assert_int_ge(len, 0);
        if (len == 0 || (size_t)len > c->in_len - done)
            break;
        ck_assert_int_eq(frame_check(c->in + done, (size_t)len, &h), 0);
        hear_frame(c, &h, c->in + done + sizeof h);
        done += (size_t)len;
    }
    memmove(c->in, c->in + done, c->in_len -= done);
}

static void close_client(struct client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    for (size_t i = 0; i < c->waiting_count; i++)
        c->waiting[i]->outcome = UNKNOWN;
    c->waiting_count = c->in_len = 0;
    c->lease = 0;
    c->fd = -1;
}

/* All that came. */
static void listen_to(struct client *c)
{
    while (c->fd >= 0) {
        ck_assert_uint_lt(c->in_len, sizeof c->in);
        ssize_t n = recv(c->fd, c->in + c->in_len, sizeof c->in - c->in_len, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            close_client(c);
            return;
        }
        c->in_len += (size_t)n;
        hear_frames(c);
    }
}

/* ---- what is asked -------------------------------------------------------------------------------------------------- */

static struct uuid new_uuid(void)
{
    struct uuid u;
    uint64_t words[2];

    words[0] = random_u64(&sim.random);
    words[1] = random_u64(&sim.random);
    memcpy(u.b, words, sizeof u.b);
    return u;
}

static void external_name(char *ret)
{
    snprintf(ret, 64, "x.t%u", (unsigned)below(TABLES));
}

static void stored_name(char *ret)
{
    snprintf(ret, 64, "s.t%u", (unsigned)below(STORED));
}

static bool is_dropped(uint32_t table)
{
    for (uint64_t i = 0; i < crowd.seq; i++)
        if (crowd.events[i].table == table && crowd.events[i].kind == EVENT_DROP)
            return true;
    return false;
}

/* A table, stored or not, that mostly still lives. */
static uint32_t some_table(bool stored)
{
    uint32_t table = (uint32_t)below(3);

    for (unsigned tries = 0; crowd.seq && tries < 100; tries++) {
        const struct past *e = &crowd.events[below(crowd.seq)];
        if ((strncmp(e->name, "s.", 2) == 0) != stored)
            continue;
        table = e->table;
        if (!is_dropped(table))
            break;
    }
    return table;
}

/* Mostly a head's location that was true not long ago. */
static void choose_base(struct request *r, uint32_t table)
{
    r->base = (uint8_t)(below(3) ? 2 * below(2) : below(3));
    snprintf(r->base_location, sizeof r->base_location, "s3://b/nothing");
    for (uint64_t i = crowd.seq; i > 0 && below(8); i--)
        if (crowd.events[i - 1].kind == EVENT_COMMIT && crowd.events[i - 1].table == table) {
            snprintf(r->base_location, sizeof r->base_location, "%s", crowd.events[i - 1].text);
            return;
        }
}

static void put_row(struct request *r, struct wr *w, uint32_t table)
{
    static const uint32_t flags[] = { 7, 7, 7, 7, 5, 2, 6, 7 | 16, 7 | 16 };
    char location[64];
    struct item_commit_row row = { .table = table,
                                   .flags = flags[below(ARRAY_SIZE(flags))],
                                   .snapshot = (int64_t)below(SNAPSHOTS),
                                   .uuid = new_uuid(),
                                   .base = r->base,
                                   .base_location = bytes_of(r->base == 2 ? r->base_location : "") };

    snprintf(location, sizeof location, "s3://b/%llu.json", (unsigned long long)++locations);
    row.location = bytes_of(location);
    if (row.flags & 16)
        row.time_us = (int64_t)below(1000000);
    r->uuids[r->rows++] = row.uuid;
    wire_put_commit_row(w, &row);
}

static void ask_commit(struct request *r)
{
    struct msg_commit m = { .rows.count = 1 };
    uint32_t table = some_table(below(20) == 0);

    choose_base(r, table);
    size_t at = begin(r);
    wire_put_commit(&r->said, &m);
    put_row(r, &r->said, table);
    end(r, at, WIRE_COMMIT);
}

static void ask_release(struct request *r)
{
    struct msg_release_add m = { .rows.count = 2 + (uint32_t)below(ROWS_MAX - 1) };
    struct msg_release_end e = { .count = m.rows.count };

    size_t at = begin(r);
    wire_put_release_add(&r->said, &m);
    for (uint32_t i = 0; i < m.rows.count; i++)
        put_row(r, &r->said, some_table(false));
    end(r, at, WIRE_RELEASE_ADD);
    at = begin(r);
    wire_put_release_end(&r->said, &e);
    end(r, at, WIRE_RELEASE_END);
}

static void ask_create(struct request *r)
{
    char name[64];
    bool stored = below(3) == 0;

    (stored ? stored_name : external_name)(name);
    struct msg_create m = { .uuid = new_uuid(),
                            .name = bytes_of(name),
                            .location = bytes_of(stored ? "" : "s3://b") };
    r->uuids[r->rows++] = m.uuid;
    size_t at = begin(r);
    wire_put_create(&r->said, &m);
    end(r, at, WIRE_CREATE);
}

static void ask_rename(struct request *r)
{
    char name[64], other[64];

    void (*draw)(char *) = below(4) ? external_name : stored_name;
    draw(name);
    draw(other);
    struct msg_rename m = { .uuid = new_uuid(), .name = bytes_of(name), .new_name = bytes_of(other) };
    r->uuids[r->rows++] = m.uuid;
    size_t at = begin(r);
    wire_put_rename(&r->said, &m);
    end(r, at, WIRE_RENAME);
}

static void ask_drop(struct request *r)
{
    char name[64];

    (below(4) ? external_name : stored_name)(name);
    struct msg_drop m = { .uuid = new_uuid(), .name = bytes_of(name) };
    r->uuids[r->rows++] = m.uuid;
    size_t at = begin(r);
    wire_put_drop(&r->said, &m);
    end(r, at, WIRE_DROP);
}

static void ask_expire(struct request *r)
{
    struct msg_expire m = { .uuid = new_uuid(), .table = some_table(below(4) == 0), .by = 2 };

    m.value = (int64_t)below(SNAPSHOTS);
    r->uuids[r->rows++] = m.uuid;
    size_t at = begin(r);
    wire_put_expire(&r->said, &m);
    end(r, at, WIRE_EXPIRE);
}

static void ask_append(struct request *r)
{
    struct msg_append_begin b = { .table = some_table(true), .uuid = new_uuid() };
    struct msg_append_end e = { .rows = 1 + below(ROWS_MAX) };
    struct wr records = { 0 };
    char key[16], value[32];

    for (uint64_t i = 0; i < e.rows; i++) {
        struct row_record row = { .flags = ROW_KEYED, .value = { "", 0 } };
        r->written[i].key = (unsigned)below(KEYS);
        r->written[i].value = below(6) ? ++locations : 0;
        snprintf(key, sizeof key, "%u", r->written[i].key);
        snprintf(value, sizeof value, "%llu", (unsigned long long)r->written[i].value);
        row.key = bytes_of(key);
        if (r->written[i].value)
            row.value = bytes_of(value);
        else
            row.flags |= ROW_DELETE;
        rowstream_put(&records, &row);
    }
    r->written_count = e.rows;
    r->uuids[r->rows++] = b.uuid;
    size_t at = begin(r);
    wire_put_append_begin(&r->said, &b);
    end(r, at, WIRE_APPEND_BEGIN);
    at = begin(r);
    wire_put_rows(&r->said, &(struct msg_rows){ .records = { (char *)records.data, records.len } });
    end(r, at, WIRE_ROWS);
    at = begin(r);
    wire_put_append_end(&r->said, &e);
    end(r, at, WIRE_APPEND_END);
    wr_fini(&records);
}

static void ask_compact(struct request *r)
{
    struct msg_compact m = { .uuid = new_uuid(), .table = some_table(true) };

    r->uuids[r->rows++] = m.uuid;
    size_t at = begin(r);
    wire_put_compact(&r->said, &m);
    end(r, at, WIRE_COMPACT);
}

static uint64_t some_moment(void)
{
    return below(2) || !crowd.seq ? SEQ_MAX : 1 + below(crowd.seq);
}

static void ask_resolve(struct request *r)
{
    struct msg_resolve m = { .at = r->at = some_moment(), .keys.count = 3 };

    r->table = some_table(below(3) == 0);
    size_t at = begin(r);
    wire_put_resolve(&r->said, &m);
    for (uint32_t i = 0; i < m.keys.count; i++) {
        const struct past *e = crowd.seq ? &crowd.events[below(crowd.seq)] : NULL;
        r->values[i] = e && e->table == r->table ? e->snapshot : (int64_t)below(SNAPSHOTS);
        wire_put_key(&r->said, &(struct item_key){ .table = r->table, .snapshot = r->values[i] });
    }
    end(r, at, WIRE_RESOLVE);
}

static void ask_head(struct request *r)
{
    struct msg_head m = { .at = r->at = some_moment(), .table = some_table(below(3) == 0) };

    r->table = m.table;
    size_t at = begin(r);
    wire_put_head(&r->said, &m);
    end(r, at, WIRE_HEAD);
}

static void ask_as_of(struct request *r)
{
    struct msg_as_of m = { .at = r->at = some_moment(), .table = some_table(below(3) == 0) };

    m.time_us = crowd.seq ? crowd.events[below(crowd.seq)].time_us - (int64_t)below(2) : 0;
    r->table = m.table;
    r->values[0] = m.time_us;
    size_t at = begin(r);
    wire_put_as_of(&r->said, &m);
    end(r, at, WIRE_AS_OF);
}

static void ask_lookup(struct request *r)
{
    (below(4) ? external_name : stored_name)(r->name);
    struct msg_lookup m = { .at = r->at = some_moment(), .name = bytes_of(r->name) };
    size_t at = begin(r);
    wire_put_lookup(&r->said, &m);
    end(r, at, WIRE_LOOKUP);
}

static void ask_history(struct request *r)
{
    struct msg_history m = { .at = SEQ_MAX, .before = some_moment(), .limit = ROWS_MAX };

    r->table = m.table = some_table(below(3) == 0);
    r->before = m.before;
    size_t at = begin(r);
    wire_put_history(&r->said, &m);
    end(r, at, WIRE_HISTORY);
}

static void ask_reindex(struct request *r)
{
    size_t at = begin(r);
    wire_put_reindex(&r->said, &(struct msg_reindex){ 0 });
    end(r, at, WIRE_REINDEX);
}

static void ask_gc(struct request *r)
{
    size_t at = begin(r);
    wire_put_gc(&r->said, &(struct msg_gc){ .now = (uint8_t)below(2) });
    end(r, at, WIRE_GC);
}

static void ask_lease(struct request *r)
{
    size_t at = begin(r);
    wire_put_lease(&r->said, &(struct msg_lease){ .at = SEQ_MAX, .table = some_table(true) });
    end(r, at, WIRE_LEASE);
}

/* Look at what is leased, or let go of it. */
static void ask_about_lease(struct client *c, struct request *r)
{
    size_t at = begin(r);

    if (below(3)) {
        wire_put_files(&r->said, &(struct msg_files){ .lease = c->lease, .before = SEQ_MAX });
        end(r, at, WIRE_FILES);
    } else {
        wire_put_lease_end(&r->said, &(struct msg_lease_end){ .lease = c->lease });
        end(r, at, WIRE_LEASE_END);
        c->lease = 0;
    }
}

/* A connection sends the rows of one append at a time. */
static bool appends(const struct client *c)
{
    for (size_t i = 0; i < c->waiting_count; i++)
        if (c->waiting[i]->type == WIRE_APPEND_END)
            return true;
    return false;
}

/* Something whose fate is not known, or that was done: it gets its first answer, or is done now. */
static bool ask_again(struct client *c)
{
    if (!crowd.count)
        return false;
    struct request *r = crowd.requests[crowd.count - 1 - below(crowd.count < 60 ? crowd.count : 60)];
    bool change = r->type == WIRE_COMMIT || r->type == WIRE_RELEASE_END || r->type == WIRE_CREATE ||
                  r->type == WIRE_RENAME || r->type == WIRE_DROP;
    if (!r->rows || !(r->outcome == UNKNOWN || (r->outcome == DONE && change)) || appends(c))
        return false;
    r->again = true;
    say(c, r);
    return true;
}

static const struct {
    unsigned weight;
    void (*ask)(struct request *r);
} questions[] = { { 24, ask_commit },  { 6, ask_release }, { 6, ask_create },  { 3, ask_rename },
                  { 1, ask_drop },     { 3, ask_expire },  { 12, ask_append }, { 3, ask_compact },
                  { 12, ask_resolve }, { 8, ask_head },    { 6, ask_as_of },   { 5, ask_lookup },
                  { 6, ask_history },  { 1, ask_reindex }, { 1, ask_gc },      { 3, ask_lease } };

static void ask_something(struct client *c)
{
    unsigned sum = 0;

    if (c->lease && below(4) == 0) {
        struct request *about = new_request();
        ask_about_lease(c, about);
        say(c, about);
        return;
    }
    if (below(12) == 0 && ask_again(c))
        return;
    for (size_t i = 0; i < ARRAY_SIZE(questions); i++)
        sum += questions[i].weight;
    uint64_t draw = below(sum);
    for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
        if (draw < questions[i].weight) {
            if (questions[i].ask == ask_append && appends(c))
                return;
            struct request *r = new_request();
            questions[i].ask(r);
            say(c, r);
            return;
        }
        draw -= questions[i].weight;
    }
}

/* ---- connecting ------------------------------------------------------------------------------------------------------- */

static void greet(struct client *c)
{
    struct wr out = { 0 };
    struct msg_hello hello = { .protocol_min = 1, .protocol_max = 1, .label = bytes_of("crowd") };

    size_t at = frame_begin(&out);
    wire_put_hello(&out, &hello);
    frame_end(&out, at, WIRE_HELLO, 0, ++c->numbers);
    put_bytes(c, out.data, out.len);
    wr_fini(&out);
}

static void watch(struct client *c)
{
    struct request *r = new_request();

    size_t at = begin(r);
    wire_put_watch(&r->said, &(struct msg_watch){ .after = crowd.seq });
    end(r, at, WIRE_WATCH);
    say(c, r);
}

static void connect_client(struct client *c)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };

    snprintf(to.sun_path, sizeof to.sun_path, "%.100s", sim_path("run/default.sock"));
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to) < 0) {
        close_client(c); /* it stops */
        return;
    }
    greet(c);
    if (c == clients)
        watch(c);
}

void crowd_act(bool may_ask)
{
    if (sim.killed)
        return;
    for (size_t i = 0; i < CLIENTS; i++) {
        struct client *c = &clients[i];
        listen_to(c);
        if (c->fd < 0 && may_ask)
            connect_client(c);
        if (c != clients && c->fd >= 0 && may_ask && c->waiting_count < ASKED_AT_ONCE && below(6) == 0)
            ask_something(c);
    }
}

struct request *crowd_request(void)
{
    return new_request();
}

void crowd_say(struct request *r)
{
    struct client *c = &clients[1];

    if (c->fd < 0)
        connect_client(c);
    say(c, r);
}

void crowd_hear(void)
{
    sim_settle();
    listen_to(&clients[1]);
}

void crowd_watch(void)
{
    listen_to(clients);
    if (clients->fd < 0)
        connect_client(clients);
}

void crowd_hang_up(void)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        listen_to(&clients[i]);
        close_client(&clients[i]);
    }
}

void crowd_begin(void)
{
    crowd = (struct crowd){ .hash = 1 };
    locations = 0;
    for (size_t i = 0; i < CLIENTS; i++) {
        memset(&clients[i], 0, sizeof clients[i]);
        clients[i].fd = -1;
    }
}

void crowd_forget_events(void)
{
    crowd.events = NULL;
    crowd.seq = crowd.events_cap = 0;
}

void crowd_end(void)
{
    for (size_t i = 0; i < crowd.count; i++) {
        wr_fini(&crowd.requests[i]->said);
        free(crowd.requests[i]);
    }
    free(crowd.requests);
    free(crowd.events);
}
