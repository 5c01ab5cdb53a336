/*
 * Appends: rows in, one commit out.
 *
 *     begin --> put, delete, rows in pieces --> commit         errors stay until the append is aborted
 *
 * The rows of an append exist in one place only, the daemon's unnamed file: when the connection breaks before the end
 * was sent, nothing was made.  When it breaks after that, the daemon is asked what became of the uuid.  A uuid that the
 * caller chose may have come before with other rows, so the commit must be the one that these rows make.
 */
#include "client.h"

#include "content_sum.h"
#include "fileuri.h"
#include "rowstream.h"

#include <inttypes.h>
#include <sys/stat.h>

#define KEY_MAX 65535u

/* ---- while it is open ---------------------------------------------------------------------------------- */

/* What the caller hears when it ended with R before the end was sent. */
static int verdict_before_end(skade *s, int r)
{
    if (r != STREAM_LOST)
        return r;
    return fail(&s->msg, SKADE_EUNREACHABLE,
                "the connection to %s broke: nothing of the append was committed", s->socket_path);
}

/* A failure stays until the append is aborted: a caller who overlooks it must not commit half of it. */
static int append_failed(skade *s, int r)
{
    struct upload *u = &s->upload;

    r = verdict_before_end(s, r);
    upload_forget(s);
    u->open = true;
    u->sent = false;
    u->error = r;
    u->msg = s->msg;
    return r;
}

static int check_open(skade *s, bool in_row)
{
    const struct upload *u = &s->upload;

    if (!u->open)
        return fail(&s->msg, SKADE_EINPUT, "no append is open: skade_append_begin() comes first");
    if (u->error != 0)
        return upload_reason(s, 0);
    if (u->in_row != in_row)
        return fail(&s->msg, SKADE_EINPUT, "%s",
                    in_row ? "no row is open: skade_append_open_row() comes first"
                           : "a row is open: skade_append_close_row() comes first");
    return 0;
}

static int check_key(skade *s, const void *key, size_t key_len)
{
    if (!key || key_len <= KEY_MAX)
        return 0;
    return fail(&s->msg, SKADE_EINPUT, "a key of %zu bytes: it may have %u", key_len, KEY_MAX);
}

/* What a call that worked on the open append returns, when that gave R. */
static int append_result(skade *s, int r)
{
    const struct upload *u = &s->upload;
    bool is_news = u->error == 0 || u->sent;

    return r < 0 && u->open && is_news ? append_failed(s, upload_reason(s, r)) : r;
}

/* ---- begin, rows --------------------------------------------------------------------------------------- */

static int begin(skade *s, skade_table table, const unsigned char *given)
{
    struct msg_append_begin m = { .table = table };
    struct wr *w;
    int r = 0;

    if (given)
        memcpy(m.uuid.b, given, sizeof m.uuid.b);
    bool chosen = !uuid_is_zero(&m.uuid);
    if (!chosen)
        r = ask_uuid(s, &m.uuid);
    if (r == 0)
        r = upload_begin(s, &w);
    if (r < 0)
        return r;
    if (chosen && !(s->upload.content = content_sum_make())) {
        upload_close(s);
        return fail(&s->msg, -ENOMEM, "no memory for an append");
    }
    s->upload.table = table;
    s->upload.uuid = m.uuid;
    wire_put_append_begin(w, &m);
    upload_begun(s, WIRE_APPEND_BEGIN);
    return 0;
}

int skade_append_begin(skade *s, skade_table table, const unsigned char *uuid)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0)
        r = begin(s, table, uuid);
    return (int)call_end(&c, r); /* an append that was open before goes on */
}

static int open_row(skade *s, unsigned flags, const void *key, size_t key_len)
{
    int r = check_open(s, false);
    if (r == 0)
        r = check_key(s, key, key_len);
    if (r < 0)
        return r;
    struct bytes k = { key ? key : "", key ? key_len : 0 };
    return upload_row(s, flags | (key ? ROW_KEYED : 0), k);
}

static int put(skade *s, unsigned flags, const void *key, size_t key_len, const void *value, size_t value_len)
{
    int r = open_row(s, flags, key, key_len);
    if (r == 0)
        r = upload_write(s, value, value_len);
    if (r == 0)
        r = upload_row_end(s);
    return r;
}

int skade_append_put(skade *s, const void *key, size_t key_len, const void *value, size_t value_len)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0)
        r = append_result(s, put(s, 0, key, key_len, value, value_len));
    return (int)call_end(&c, r);
}

static int delete_key(skade *s, const void *key, size_t key_len)
{
    if (!key)
        return fail(&s->msg, SKADE_EINPUT, "only rows with a key can be deleted");
    return put(s, ROW_DELETE, key, key_len, NULL, 0);
}

int skade_append_delete(skade *s, const void *key, size_t key_len)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0)
        r = append_result(s, delete_key(s, key, key_len));
    return (int)call_end(&c, r);
}

int skade_append_open_row(skade *s, const void *key, size_t key_len)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0)
        r = append_result(s, open_row(s, 0, key, key_len));
    return (int)call_end(&c, r);
}

static int write_piece(skade *s, const void *data, size_t len)
{
    int r = check_open(s, true);
    return r < 0 ? r : upload_write(s, data, len);
}

int skade_append_write(skade *s, const void *data, size_t len)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0)
        r = append_result(s, write_piece(s, data, len));
    return (int)call_end(&c, r);
}

static int close_row(skade *s)
{
    int r = check_open(s, true);
    return r < 0 ? r : upload_row_end(s);
}

int skade_append_close_row(skade *s)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0)
        r = append_result(s, close_row(s));
    return (int)call_end(&c, r);
}

/* ---- commit -------------------------------------------------------------------------------------------- */

/* An answer to APPEND_ASK says where the rows are, and not how many. */
static void complete(const struct upload *u, struct bytes location, struct skade_appended *ret)
{
    char path[SKADE_LOCATION_MAX + 1];
    struct stat st;

    if (ret->rows != 0 || ret->seq == 0)
        return;
    ret->rows = u->rows;
    if (file_uri_path(path, sizeof path, location) >= 0 && stat(path, &st) == 0)
        ret->bytes = (uint64_t)st.st_size;
}

static int take_appended(skade *s, const struct frame *f, struct skade_appended *ret)
{
    struct msg_appended m;

    if (wire_read_appended(f->payload, f->head.len, &m) < 0)
        return ask_broken(s, "a malformed answer to an append");
    *ret = (struct skade_appended){ .table = s->upload.table,
                                    .snapshot = m.snapshot,
                                    .seq = m.seq,
                                    .time_us = m.time_us,
                                    .rows = m.rows,
                                    .bytes = m.bytes };
    complete(&s->upload, m.location, ret);
    return 0;
}

/* *ENDED: from now on the daemon may have committed it.  *ANSWERED: it is over there, too. */
static int end_rows(skade *s, bool *ended, bool *answered, struct skade_appended *ret)
{
    struct frame f;
    uint64_t number;

    wire_put_append_end(upload_last(s), &(struct msg_append_end){ .rows = s->upload.rows });
    int r = upload_send_last(s, WIRE_APPEND_END, &number);
    if (r < 0)
        return r;
    *ended = true;
    r = ask_await_long(s, NULL, NULL);
    if (r == 0)
        r = ask_receive(s, number, WIRE_APPENDED, &f);
    *answered = r == 0 || s->refusal.code != 0;
    return r < 0 ? (*answered ? upload_reason(s, r) : r) : take_appended(s, &f, ret);
}

static int unknown(skade *s)
{
    return fail(
        &s->msg, SKADE_EUNKNOWN,
        "the connection to %s broke before the answer came: append the same rows again with the same uuid",
        s->socket_path);
}

/* SNAPSHOT is what these rows get; 0: the uuid is of our making, so no others came with it. */
static int take_outcome(skade *s, const struct frame *f, int64_t snapshot, struct skade_appended *ret)
{
    struct skade_appended got;

    int r = take_appended(s, f, &got);
    if (r == 0 && snapshot && got.snapshot != snapshot)
        return fail(&s->msg, SKADE_EINPUT,
                    "this uuid came before with other rows: make a new one for a new append");
    if (r == 0)
        *ret = got;
    return r;
}

/* The answer was lost: the daemon is asked as soon as it is back. */
static int ask_outcome(skade *s, int64_t snapshot, struct skade_appended *ret)
{
    struct msg_append_ask m = { .table = s->upload.table, .uuid = s->upload.uuid };
    struct frame f;

    deadline_renew(s);
    int64_t give_up = s->deadline;
    do {
        s->deadline = give_up;
        wire_put_append_ask(ask_begin(s), &m);
        int r = ask(s, ASK_READ, WIRE_APPEND_ASK, WIRE_APPENDED, &f);
        if (r == 0)
            return take_outcome(s, &f, snapshot, ret);
        if (r == SKADE_ENOSNAPSHOT && s->refusal.code == r)
            return verdict_before_end(s, STREAM_LOST);
        if (r == SKADE_EREPLACED)
            return r;
    } while (deadline_pause(give_up, 50));
    return unknown(s);
}

static int commit(skade *s, struct skade_appended *ret)
{
    const struct upload *u = &s->upload;
    bool ended = false, answered = false;

    int r = check_open(s, false);
    int64_t snapshot = r == 0 && u->content ? content_snapshot(&u->uuid, content_sum_value(u->content)) : 0;
    if (r == 0)
        r = end_rows(s, &ended, &answered, ret);
    if (answered)
        upload_close(s);
    else
        upload_forget(s);
    if (answered || r == 0)
        return r;
    if (ended && r == STREAM_LOST)
        return ask_outcome(s, snapshot, ret);
    if (ended && r == SKADE_ETIMEOUT)
        return unknown(s);
    return verdict_before_end(s, r);
}

static int commit_told(skade *s, struct skade_appended *ret)
{
    struct skade_appended appended;

    if (ret && ret->size < sizeof *ret) {
        upload_forget(s);
        return fail(&s->msg, SKADE_EINPUT, "skade_appended.size is not set");
    }
    int r = commit(s, &appended);
    if (r < 0 || !ret)
        return r;
    appended.size = ret->size;
    copy_sized(ret, ret->size, &appended, sizeof appended);
    return 0;
}

int skade_append_commit(skade *s, struct skade_appended *ret)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0)
        r = commit_told(s, ret);
    return (int)call_end(&c, r);
}

void skade_append_abort(skade *s)
{
    struct call c;

    int r = call_begin_frozen(&c, s);
    if (r == 0)
        upload_forget(s);
    call_end(&c, r);
}
