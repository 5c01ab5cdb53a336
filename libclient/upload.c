/*
 * Rows on their way to the daemon: records in ROWS messages of about 256 KiB, and never more than one in memory.
 *
 *     begin --> | BEGIN | ROWS record record ... |  --full--> send, go on with an empty ROWS
 *                         ^ frame_at     ^ record_at
 *
 * All pieces carry one request number and none is answered, so an ERROR with that number is about them, whenever it
 * comes.  A value that doesn't fit is cut: its record says that it goes on in the next message.
 */
#include "client.h"

#include "content_sum.h"
#include "rowstream.h"

#include <assert.h>

#define PIECE_SIZE (256u << 10)                /* bytes of a message, unless the daemon wants less */
#define RECORD_HEAD_MAX (ROW_RECORD_HEAD + 8u) /* with a time */

/* ---- pieces -------------------------------------------------------------------------------------------- */

static void begin_piece(struct upload *u)
{
    u->frame_at = frame_begin(&u->out);
    wire_put_rows(&u->out, &(struct msg_rows){ .records = { "", 0 } });
}

static size_t records_at(const struct upload *u)
{
    return u->frame_at + sizeof(struct frame_header) + sizeof(uint32_t);
}

/* Close the ROWS message, or take it away when nothing is in it. */
static void end_piece(struct upload *u)
{
    if (u->out.error)
        return;
    if (u->out.len == records_at(u)) {
        u->out.len = u->frame_at;
        return;
    }
    wr_patch_u32(&u->out, u->frame_at + sizeof(struct frame_header), (uint32_t)(u->out.len - records_at(u)));
    frame_end(&u->out, u->frame_at, WIRE_ROWS, 0, u->number);
}

/* Bytes that the message still takes. */
static size_t room(const skade *s)
{
    const struct upload *u = &s->upload;
    size_t limit = s->welcome.frame_max < PIECE_SIZE ? s->welcome.frame_max : PIECE_SIZE;
    size_t len = u->out.len - u->frame_at - sizeof(struct frame_header);

    return len < limit ? limit - len : 0;
}

/* ---- sending ------------------------------------------------------------------------------------------- */

static bool is_on_its_connection(const skade *s)
{
    return s->stream.fd >= 0 && s->stream.serial == s->upload.serial;
}

int upload_reason(skade *s, int r)
{
    if (s->upload.error == 0)
        return r;
    s->msg = s->upload.msg;
    return s->upload.error;
}

/* Has the daemon refused a piece?  It says so without being asked, perhaps while another question was answered. */
static int look_for_refusal(skade *s)
{
    int r = 0;

    while (r == 0 && s->upload.error == 0 && is_on_its_connection(s) && stream_has_input(&s->stream))
        r = ask_receive_unasked(s);
    if (r == 0 && !is_on_its_connection(s))
        r = STREAM_LOST;
    return upload_reason(s, r);
}

/* Be on the connection: the first piece chooses it. */
static int choose_connection(skade *s)
{
    struct upload *u = &s->upload;

    if (u->sent)
        return look_for_refusal(s);
    int r = ask_connect(s);
    if (r < 0)
        return r;
    if (!uuid_equal(&u->log, &s->log))
        return fail(&s->msg, SKADE_EREPLACED,
                    "the commit log that the rows were meant for was replaced: look the table up again and "
                    "begin anew");
    u->serial = s->stream.serial;
    u->sent = true;
    return 0;
}

static int send_frames(skade *s)
{
    struct upload *u = &s->upload;

    if (u->out.error)
        return fail(&s->msg, -ENOMEM, "out of memory for rows");
    int r = choose_connection(s);
    if (r == 0)
        r = ask_send_long(s, &u->out);
    if (r < 0)
        return upload_reason(s, r);
    u->out.len = 0;
    deadline_renew(s);
    return 0;
}

static int send_piece(skade *s)
{
    end_piece(&s->upload);
    int r = send_frames(s);
    if (r < 0)
        return r;
    begin_piece(&s->upload);
    return look_for_refusal(s);
}

/* ---- begin and end ------------------------------------------------------------------------------------- */

int upload_begin(skade *s, struct wr **ret)
{
    struct upload *u = &s->upload;

    if (u->open)
        return fail(&s->msg, SKADE_EINPUT, "an append is open on this handle: commit or abort it first");
    if (attach_page(s) == SKADE_EREPLACED) /* its heartbeat is wanted */
        return SKADE_EREPLACED;
    int r = ask_connect(s);
    if (r < 0)
        return r;
    *u = (struct upload){ .open = true, .number = s->next_request++, .log = s->log, .out = u->out };
    u->out.len = 0;
    u->out.error = 0;
    u->frame_at = frame_begin(&u->out);
    *ret = &u->out;
    return 0;
}

void upload_begun(skade *s, unsigned type)
{
    frame_end(&s->upload.out, s->upload.frame_at, (uint16_t)type, 0, s->upload.number);
    begin_piece(&s->upload);
}

struct wr *upload_last(skade *s)
{
    assert(!s->upload.in_row);
    end_piece(&s->upload);
    s->upload.frame_at = frame_begin(&s->upload.out);
    return &s->upload.out;
}

int upload_send_last(skade *s, unsigned type, uint64_t *number)
{
    struct upload *u = &s->upload;

    *number = s->next_request++;
    frame_end(&u->out, u->frame_at, (uint16_t)type, 0, *number);
    int r = send_frames(s);
    s->unfinished |= r == 0; /* until it is answered */
    return r;
}

/* Other things hang on the connection, leases above all, so it is kept if that can be. */
void upload_forget(skade *s)
{
    struct upload *u = &s->upload;

    if (u->open && u->sent && is_on_its_connection(s)) {
        if (s->unfinished || s->stream.cut) {
            ask_hang_up(s);
        } else {
            wire_put_append_abort(ask_begin(s), &(struct msg_append_abort){ .end_ = 0 });
            ask_unwaited(s, WIRE_APPEND_ABORT);
        }
    }
    upload_close(s);
}

void upload_close(skade *s)
{
    content_sum_free(s->upload.content);
    s->upload.content = NULL;
    s->upload.open = false;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static void begin_record(struct upload *u, unsigned flags, struct bytes key, int64_t time_us)
{
    struct row_record record = { .flags = flags, .key = key, .value = { "", 0 }, .time_us = time_us };

    u->record_at = u->out.len;
    rowstream_put(&u->out, &record);
    u->value_at = u->out.len;
}

/* Its value ends here, or goes on in the next record. */
static void end_record(struct upload *u, bool goes_on)
{
    if (u->out.error)
        return;
    if (goes_on)
        u->out.data[u->record_at] |= ROW_GOES_ON;
    wr_patch_u32(&u->out, u->record_at + ROW_RECORD_HEAD - sizeof(uint32_t),
                 (uint32_t)(u->out.len - u->value_at));
}

/* Have NEED bytes of room: whole in one message. */
static int make_room(skade *s, size_t need)
{
    size_t most = s->welcome.frame_max - sizeof(uint32_t);

    assert(!s->upload.in_row);
    if (need <= room(s))
        return 0;
    if (need > most)
        return fail(&s->msg, SKADE_EINPUT, "a record of %zu bytes: the daemon takes %zu at once", need, most);
    return send_piece(s);
}

int upload_row(skade *s, unsigned flags, struct bytes key)
{
    assert(key.len <= UINT16_MAX);
    int r = make_room(s, RECORD_HEAD_MAX + key.len);
    if (r < 0)
        return r;
    begin_record(&s->upload, flags, key, 0);
    if (s->upload.content)
        content_sum_row(s->upload.content, flags, key);
    s->upload.in_row = true;
    return 0;
}

int upload_survivor(skade *s, const struct row *row)
{
    int r = make_room(s, RECORD_HEAD_MAX + row->key.len + (size_t)row->value_len);
    if (r < 0)
        return r;
    begin_record(&s->upload, (row->flags & ROW_KEYED) | ROW_TIMED, row->key, row->time_us);
    wr_bytes(&s->upload.out, row->value, (size_t)row->value_len);
    return upload_row_end(s);
}

int upload_long_survivor(skade *s, const struct row *row)
{
    int r = make_room(s, 2 * RECORD_HEAD_MAX + row->key.len + sizeof(uint64_t));
    if (r < 0)
        return r;
    begin_record(&s->upload, (row->flags & ROW_KEYED) | ROW_TIMED, row->key, row->time_us);
    wr_u64(&s->upload.out, row->value_len);
    end_record(&s->upload, true);
    begin_record(&s->upload, ROW_MORE, (struct bytes){ "", 0 }, 0);
    s->upload.in_row = true;
    return 0;
}

static int go_on_in_next_piece(skade *s)
{
    end_record(&s->upload, true);
    int r = send_piece(s);
    if (r == 0)
        begin_record(&s->upload, ROW_MORE, (struct bytes){ "", 0 }, 0);
    return r;
}

int upload_write(skade *s, const void *data, size_t len)
{
    const char *next = data;

    if (s->upload.content)
        content_sum_piece(s->upload.content, data, len);
    while (len > 0) {
        size_t n = room(s);
        if (n == 0) {
            int r = go_on_in_next_piece(s);
            if (r < 0)
                return r;
            continue;
        }
        if (n > len)
            n = len;
        wr_bytes(&s->upload.out, next, n);
        if (s->upload.out.error)
            return fail(&s->msg, -ENOMEM, "out of memory for rows");
        next += n;
        len -= n;
    }
    return 0;
}

int upload_row_end(skade *s)
{
    end_record(&s->upload, false);
    if (s->upload.content)
        content_sum_row_end(s->upload.content);
    s->upload.in_row = false;
    s->upload.rows++;
    return s->upload.out.error ? fail(&s->msg, -ENOMEM, "out of memory for rows") : 0;
}
