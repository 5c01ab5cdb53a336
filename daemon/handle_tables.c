#include "handle_tables.h"

#include "appends.h"
#include "compactions.h"
#include "gc.h"
#include "inflow.h"
#include "leases.h"
#include "store.h"

#include <inttypes.h>

/* Files in one answer: a page of long locations stays well below a frame. */
#define FILES_MAX 1000
#define FRAME_FULL (512u << 10)

static void answer_done(struct session *s, uint64_t request)
{
    struct msg_done m = { 0 };
    size_t at = answer_begin(s);

    wire_put_done(&s->out, &m);
    answer_end(s, at, WIRE_DONE, 0, request);
}

/* ---- appends ------------------------------------------------------------------------------------------------------- */

void handle_append_begin(struct session *s, uint64_t request, const struct msg_append_begin *m)
{
    append_begin(s, request, m);
}

void handle_rows(struct session *s, uint64_t request, const struct msg_rows *m)
{
    inflow_rows(s, request, m->records);
}

void handle_append_end(struct session *s, uint64_t request, const struct msg_append_end *m)
{
    append_end(s, request, m);
}

void handle_append_abort(struct session *s, uint64_t request, const struct msg_append_abort *m)
{
    (void)m;
    if (s->inflow && s->inflow->ending) {
        answer_error(s, request, SKADE_EBUSY, "too late: its end came, and that is answered");
        return;
    }
    inflow_abort(s);
    answer_done(s, request);
}

void handle_append_ask(struct session *s, uint64_t request, const struct msg_append_ask *m)
{
    append_ask(s, request, m);
}

/* ---- leases and files ------------------------------------------------------------------------------------------------- */

void handle_lease(struct session *s, uint64_t request, const struct msg_lease *m)
{
    struct lease *lease;
    struct errmsg msg = { "" };

    int r = lease_take(s, m->table, m->at, m->by, m->value, &lease, &msg);
    if (r < 0) {
        answer_error(s, request, r, "%s", msg.text);
        return;
    }
    struct msg_leased answer = { .lease = lease->number,
                                 .at = lease->at,
                                 .table = lease->table,
                                 .snapshot = lease->snapshot,
                                 .seq = lease->seq,
                                 .time_us = lease->time_us,
                                 .base_seq = lease->base_seq,
                                 .after = lease->after };
    size_t at = answer_begin(s);
    wire_put_leased(&s->out, &answer);
    answer_end(s, at, WIRE_LEASED, 0, request);
}

void handle_lease_end(struct session *s, uint64_t request, const struct msg_lease_end *m)
{
    struct lease *lease = lease_find(s, m->lease);

    if (lease)
        lease_end(s, lease);
    answer_done(s, request);
}

struct page {
    struct session *session;
    size_t frame;
    uint32_t count, limit;
};

/* Where the file of E is now: the log says where it was made, and the data directory may have moved since. */
static struct bytes location_now(const struct store *store, const struct event *e, char *buffer)
{
    struct errmsg msg;
    struct uuid uuid;
    enum entry_name kind;
    uint32_t table, n;
    int len = -1;

    if (store_parse(e->text, &table, &n, &kind, &uuid))
        len = store_location(store, buffer, table, n, kind, &uuid, &msg);
    return len < 0 ? e->text : (struct bytes){ buffer, (size_t)len };
}

static int put_file(void *arg, const struct event *e)
{
    static char location[LOCATION_MAX + 1];
    struct page *p = arg;

    if (p->count == p->limit || p->session->out.len - p->frame > FRAME_FULL)
        return 1;
    struct item_file_row row = { .seq = e->seq,
                                 .snapshot = e->snapshot,
                                 .time_us = e->time_us,
                                 .base = e->kind == EVENT_COMPACT,
                                 .location = location_now(p->session->server->store, e, location) };
    wire_put_file_row(&p->session->out, &row);
    p->count++;
    return 0;
}

void handle_files(struct session *s, uint64_t request, const struct msg_files *m)
{
    const struct lease *lease = lease_find(s, m->lease);
    struct msg_file_list list = { 0 };

    if (!lease) {
        answer_error(s, request, SKADE_EEXPIRED,
                     "lease %" PRIu64 " isn't held by this connection: scan again", m->lease);
        return;
    }
    struct page p = { .session = s, .limit = m->limit && m->limit < FILES_MAX ? m->limit : FILES_MAX };
    p.frame = answer_begin(s);
    wire_put_file_list(&s->out, &list);
    size_t count_at = s->out.len - sizeof(uint32_t), more_at = count_at - 1;
    int r = lease->seq ? files_of(s->server, lease->table, lease->after, lease->seq, lease->base_seq,
                                  m->before, put_file, &p)
                       : 0;
    if (r < 0) {
        s->out.len = p.frame;
        answer_error(s, request, r, "the table's files can't be listed: %s", error_text(r));
        return;
    }
    if (!s->out.error)
        s->out.data[more_at] = r == 1;
    wr_patch_u32(&s->out, count_at, p.count);
    answer_end(s, p.frame, WIRE_FILE_LIST, 0, request);
}

/* ---- compaction and collection ------------------------------------------------------------------------------------------ */

void handle_compact(struct session *s, uint64_t request, const struct msg_compact *m)
{
    compaction_ask(s, request, m);
}

void handle_compact_begin(struct session *s, uint64_t request, const struct msg_compact_begin *m)
{
    compaction_begin_stream(s, request, m);
}

void handle_compact_end(struct session *s, uint64_t request, const struct msg_compact_end *m)
{
    compaction_end_stream(s, request, m);
}

void handle_gc(struct session *s, uint64_t request, const struct msg_gc *m)
{
    if (m->now && !(s->roles & ROLE_WRITE))
        answer_error(
            s, request, SKADE_EDENIED,
            "uid %u may not remove files: that takes the role write, which skaded's option write gives; "
            "without `now` they are listed",
            (unsigned)s->uid);
    else
        gc_ask(s, request, m);
}
