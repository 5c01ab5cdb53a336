/*
 * Administration over the socket: ping, reindex, clients, backup.
 */
#include "client.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

/* ---- ping ---------------------------------------------------------------------------------------------- */

static int64_t clock_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t ping(skade *s)
{
    uint64_t newest;

    int r = ask_connect(s); /* a round trip, and not a hello, is what is wanted */
    if (r < 0)
        return r;
    int64_t before = clock_us();
    r = ask_newest(s, &newest);
    return r < 0 ? r : clock_us() - before;
}

int64_t skade_ping(skade *s)
{
    struct call c;

    int64_t r = call_begin(&c, s);
    if (r == 0)
        r = ping(s);
    return call_end(&c, r);
}

/* ---- reindex ------------------------------------------------------------------------------------------- */

static int reindex(skade *s, struct skade_reindexed *ret)
{
    struct frame f;
    struct msg_reindexed m;

    wire_put_reindex(ask_begin(s), &(struct msg_reindex){ .end_ = 0 });
    int r = ask(s, ASK_LONG, WIRE_REINDEX, WIRE_REINDEXED, &f);
    if (r < 0)
        return r;
    if (wire_read_reindexed(f.payload, f.head.len, &m) < 0)
        return ask_broken(s, "a malformed answer to a reindex");
    ret->old_generation = m.old_generation;
    ret->generation = m.generation;
    ret->micros = m.micros;
    return 0;
}

int skade_reindex(skade *s, struct skade_reindexed *ret)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0 && ret->size < sizeof *ret)
        r = fail(&s->msg, SKADE_EINPUT, "skade_reindexed.size is not set");
    if (r == 0)
        r = reindex(s, ret);
    return (int)call_end(&c, r);
}

/* ---- clients ------------------------------------------------------------------------------------------- */

#define LABEL_MAX 256u

static uint64_t generations_behind(uint64_t current, uint64_t mapped)
{
    return mapped != 0 && mapped < current ? current - mapped : 0;
}

static int tell_client(skade *s, const struct item_client_row *row, uint64_t current, skade_client_fn fn,
                       void *arg)
{
    char label[LABEL_MAX + 1];
    size_t len = row->label.len < LABEL_MAX ? row->label.len : LABEL_MAX;
    struct skade_client client = {
        .size = sizeof client,
        .uid = row->uid,
        .pid = row->pid,
        .label = label,
        .generation = row->generation,
        .lag = generations_behind(current, row->generation),
        .requests = row->requests,
    };

    memcpy(label, row->label.data, len);
    label[len] = 0;
    s->lent = true;
    int r = fn(arg, &client);
    s->lent = false;
    return r;
}

static int tell_clients(skade *s, const struct frame *f, skade_client_fn fn, void *arg, int64_t *count)
{
    struct msg_client_list m;
    struct item_client_row row;

    if (wire_read_client_list(f->payload, f->head.len, &m) < 0)
        return ask_broken(s, "a malformed list of clients");
    for (uint32_t i = 0; i < m.clients.count; i++) {
        wire_get_client_row(&m.clients.items, &row);
        int r = tell_client(s, &row, m.generation, fn, arg);
        if (r != 0)
            return r;
        ++*count;
    }
    return 0;
}

static int64_t list_clients(skade *s, skade_client_fn fn, void *arg)
{
    struct frame f;
    int64_t count = 0;

    wire_put_clients(ask_begin(s), &(struct msg_clients){ .end_ = 0 });
    int r = ask(s, ASK_READ, WIRE_CLIENTS, WIRE_CLIENT_LIST, &f);
    while (r == 0) {
        bool more = (f.head.flags & FRAME_MORE) != 0;
        r = tell_clients(s, &f, fn, arg, &count);
        if (r != 0 || !more)
            break;
        r = ask_more(s, &f, WIRE_CLIENT_LIST, &f);
    }
    return r != 0 ? r : count;
}

int64_t skade_clients(skade *s, skade_client_fn fn, void *arg)
{
    struct call c;

    int64_t r = call_begin(&c, s);
    if (r == 0)
        r = list_clients(s, fn, arg);
    return call_end(&c, r);
}

/* ---- backup -------------------------------------------------------------------------------------------- */

/* All of it, also to a descriptor that doesn't block. */
static int write_all(skade *s, int fd, struct bytes data)
{
    while (data.len > 0) {
        ssize_t n = write(fd, data.data, data.len);
        if (n < 0 && errno == EAGAIN)
            poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, -1);
        else if (n < 0 && errno != EINTR)
            return fail(&s->msg, -errno, "cannot write the backup: %s", strerrordesc_np(errno));
        if (n > 0) {
            data.data += n;
            data.len -= (size_t)n;
        }
    }
    return 0;
}

static int write_chunk(skade *s, const struct frame *f, int fd, uint64_t *written)
{
    struct msg_chunk m;

    if (wire_read_chunk(f->payload, f->head.len, &m) < 0)
        return ask_broken(s, "a malformed piece of a backup");
    *written += m.data.len;
    return write_all(s, fd, m.data);
}

static int end_backup(skade *s, const struct frame *f, uint64_t written, uint64_t *seq, uint64_t *bytes)
{
    struct msg_backup_end m;

    if (f->head.type != WIRE_BACKUP_END || wire_read_backup_end(f->payload, f->head.len, &m) < 0 ||
        m.bytes != written)
        return ask_broken(s, "a backup that isn't complete");
    if (seq)
        *seq = m.seq;
    if (bytes)
        *bytes = m.bytes;
    return 0;
}

static int backup(skade *s, int fd, uint64_t *seq, uint64_t *bytes)
{
    struct frame f;
    uint64_t written = 0;

    wire_put_backup(ask_begin(s), &(struct msg_backup){ .end_ = 0 });
    int r = ask(s, ASK_LONG, WIRE_BACKUP, ANY_ANSWER, &f); /* until the first answer it can be asked again */
    while (r == 0 && f.head.type == WIRE_CHUNK && s->unfinished) {
        r = write_chunk(s, &f, fd, &written);
        if (r == 0)
            r = ask_more(s, &f, ANY_ANSWER, &f);
    }
    return r < 0 ? r : end_backup(s, &f, written, seq, bytes);
}

int skade_backup(skade *s, int fd, uint64_t *seq, uint64_t *bytes)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0)
        r = backup(s, fd, seq, bytes);
    return (int)call_end(&c, r);
}
