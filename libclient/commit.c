/*
 * Commits, and releases of many.
 *
 * A release travels as pieces that are not answered, one after the other, and an end that is.  The daemon
 * may refuse a piece at any time: between two pieces we look whether it did.  Rows without a uuid get one
 * before they are first sent, so that a release that is sent again is the same release.
 */
#include "client.h"

#include <inttypes.h>

#define PIECE_SIZE (256u << 10) /* bytes of a message, unless the daemon wants less */
#define ROW_SIZE_MAX 8320u      /* of a row with two locations of the longest kind */
#define TIME_GIVEN 16u          /* COMMIT_ROW flag */
#define ALONE UINT64_MAX        /* the index of a commit that isn't one of a release */

/* ---- from the caller's struct to a row ----------------------------------------------------------------- */

static struct uuid numbered_uuid(struct uuid base, uint64_t index)
{
    uint64_t low;

    memcpy(&low, base.b + 8, sizeof low);
    low ^= index << 16; /* leaves the variant alone */
    memcpy(base.b + 8, &low, sizeof low);
    return base;
}

static const char *commit_problem(const struct skade_commit *c)
{
    if (!c->location)
        return "its location is NULL";
    if (c->base == SKADE_BASE_IS && !c->base_location)
        return "its base_location is NULL";
    if (c->base > SKADE_BASE_IS)
        return "its base is none of SKADE_BASE_...";
    if (c->flags & ~(uint32_t)(SKADE_INTRODUCES | SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT))
        return "it has a flag that commits don't have";
    if (c->base == SKADE_BASE_IS && location_problem(bytes_of(c->base_location)))
        return "its base_location is no location";
    return location_problem(bytes_of(c->location));
}

static struct item_commit_row row_of(const struct skade_commit *c, struct uuid spare)
{
    struct item_commit_row row = {
        .table = c->table,
        .flags = c->flags | (c->has_time ? TIME_GIVEN : 0),
        .snapshot = c->snapshot,
        .time_us = c->has_time ? c->time_us : 0,
        .base = (uint8_t)c->base,
        .base_location = bytes_of(c->base == SKADE_BASE_IS ? c->base_location : ""),
        .location = bytes_of(c->location),
    };

    memcpy(row.uuid.b, c->uuid, sizeof row.uuid.b);
    if (uuid_is_zero(&row.uuid))
        row.uuid = spare;
    return row;
}

/* Commit INDEX of the release, or the only one, is not to be sent.  skadectl makes lines and names of these words. */
static int bad_row(skade *s, const struct skade_commit *c, uint64_t index, const char *problem)
{
    bool of_location = c->location && problem == location_problem(bytes_of(c->location));
    const char *field = of_location ? "location: " : "";

    if (index == ALONE)
        return fail(&s->msg, SKADE_EINPUT, "table %" PRIu32 ": %s%s", c->table, field, problem);
    return fail(&s->msg, SKADE_EINPUT, "commit %" PRIu64 " of the release (table %" PRIu32 "): %s%s",
                index + 1, c->table, field, problem);
}

/* Append C as a row.  0 or SKADE_EINPUT. */
static int put_row(skade *s, struct wr *w, const struct skade_commit *given, struct uuid spare,
                   uint64_t index)
{
    struct skade_commit c;

    copy_sized(&c, sizeof c, given, given->size);
    const char *problem = commit_problem(&c);
    if (problem)
        return bad_row(s, &c, index, problem);
    struct item_commit_row row = row_of(&c, spare);
    wire_put_commit_row(w, &row);
    return 0;
}

/* ---- answers ------------------------------------------------------------------------------------------- */

static int take_committed(skade *s, const struct frame *f, uint64_t *first, uint64_t *last)
{
    struct msg_committed m;

    if (wire_read_committed(f->payload, f->head.len, &m) < 0)
        return ask_broken(s, "a malformed answer to a commit");
    if (first)
        *first = m.first_seq;
    if (last)
        *last = m.last_seq;
    heard(s, m.last_seq);
    return 0;
}

/* The commit was refused with R; a conflict says what the head is. */
static int take_head(skade *s, int r, struct skade_answer *head)
{
    struct item_answer item;

    if (r != SKADE_ECONFLICT || s->refusal.code != r || !head)
        return r;
    head->status = SKADE_ENOSNAPSHOT;
    if (s->refusal.heads.count == 0)
        return r;
    wire_get_answer(&s->refusal.heads.items, &item);
    heard(s, item.seq);
    return answer_from_wire(head, &item) < 0 ? ask_broken(s, "a conflict with a malformed head") : r;
}

/* ---- one commit ---------------------------------------------------------------------------------------- */

static int commit_one(skade *s, const struct skade_commit *given, uint64_t *seq, struct skade_answer *head)
{
    struct uuid uuid;
    struct frame f;

    int r = ask_uuid(s, &uuid);
    if (r < 0)
        return r;
    struct wr *w = ask_begin(s);
    wire_put_commit(w, &(struct msg_commit){ .rows = { .count = 1 } });
    r = put_row(s, w, given, uuid, ALONE);
    /* Only now: the base's location may stand in that very buffer, from the conflict before. */
    if (r == 0 && head)
        r = answer_clear(s, head);
    if (r < 0)
        return r;
    r = ask(s, ASK_CHANGE, WIRE_COMMIT, WIRE_COMMITTED, &f);
    return r < 0 ? take_head(s, r, head) : take_committed(s, &f, seq, NULL);
}

static int check_size(skade *s, const struct skade_commit *c)
{
    if (!c || c->size < offsetof(struct skade_commit, flags) || c->size % _Alignof(struct skade_commit) != 0)
        return fail(&s->msg, SKADE_EINPUT, "skade_commit.size is not set");
    return 0;
}

int skade_commit(skade *s, const struct skade_commit *commit, uint64_t *seq, struct skade_answer *head)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0)
        r = check_size(s, commit);
    if (r == 0)
        r = commit_one(s, commit, seq, head);
    return (int)call_end(&c, r);
}

/* ---- pieces of a release ------------------------------------------------------------------------------- */

static int release_begin(skade *s, struct uuid base)
{
    if (attach_page(s) == SKADE_EREPLACED) /* its heartbeat is wanted at the end */
        return SKADE_EREPLACED;
    int r = ask_connect(s);
    if (r < 0)
        return r;
    s->release = (struct release){
        .open = true,
        .serial = s->stream.serial,
        .first_request = s->next_request,
        .next_request = s->next_request,
        .base = base,
    };
    return 0;
}

static bool is_on_its_connection(const skade *s)
{
    return s->stream.fd >= 0 && s->stream.serial == s->release.serial;
}

/* Has the daemon refused a piece?  It says so without being asked, perhaps while another question was
 * answered. */
static int look_for_refusal(skade *s)
{
    int r = 0;

    while (r == 0 && s->release.error == 0 && is_on_its_connection(s) && stream_has_input(&s->stream))
        r = ask_receive_unasked(s);
    if (s->release.error == 0)
        return r == 0 && !is_on_its_connection(s) ? STREAM_LOST : r;
    s->msg = s->release.msg;
    return s->release.error;
}

/* Put rows from *NEXT on into a message until it is full; *NEXT is then the first that isn't in. */
static int put_piece(skade *s, const struct skade_commit *c, size_t n, size_t *next)
{
    struct wr *w = ask_begin(s);
    size_t limit = s->welcome.frame_max - ROW_SIZE_MAX;
    size_t from = *next;
    uint64_t index = s->release.count;

    if (limit > PIECE_SIZE)
        limit = PIECE_SIZE;
    wire_put_release_add(w, &(struct msg_release_add){ .rows = { .count = 0 } });
    for (; *next < n && w->len < limit; ++*next, index++) {
        const struct skade_commit *row = (const void *)((const char *)c + *next * c->size);
        if (row->size != c->size)
            return fail(&s->msg, SKADE_EINPUT,
                        "commit %" PRIu64 " of the release has another size than the first", index + 1);
        int r = put_row(s, w, row, numbered_uuid(s->release.base, index), index);
        if (r < 0)
            return r;
    }
    wr_patch_u32(w, sizeof(struct frame_header), (uint32_t)(*next - from)); /* the list's count */
    s->release.count = index;
    return 0;
}

static int send_piece(skade *s)
{
    int r = look_for_refusal(s);
    if (r < 0)
        return r;
    if (ask_finish(s, WIRE_RELEASE_ADD) == 0)
        return -ENOMEM;
    s->release.next_request = s->next_request;
    r = ask_send(s);
    if (r < 0)
        return r;
    s->unfinished = s->stream.cut; /* nothing will be answered, unless it is refused */
    deadline_renew(s);
    return look_for_refusal(s);
}

static int add_rows(skade *s, const struct skade_commit *c, size_t n)
{
    for (size_t i = 0; i < n;) {
        int r = put_piece(s, c, n, &i);
        if (r == 0)
            r = send_piece(s);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Close the request that ends the release.  Its number, or 0. */
static uint64_t put_end(skade *s)
{
    wire_put_release_end(ask_begin(s), &(struct msg_release_end){ .count = s->release.count });
    return ask_finish(s, WIRE_RELEASE_END);
}

/* The answer to the end.  A piece that was refused meanwhile is why the end was refused, too. */
static int receive_end(skade *s, uint64_t number, struct frame *ret)
{
    int r = ask_await_long(s, NULL, NULL);
    if (r == 0)
        r = ask_receive(s, number, WIRE_COMMITTED, ret);
    if (s->release.error == 0)
        return r;
    s->msg = s->release.msg;
    return s->release.error;
}

/* *ENDED: from now on the daemon may have made it. */
static int end_rows(skade *s, bool *ended, uint64_t *first, uint64_t *last)
{
    struct frame f;

    int r = look_for_refusal(s);
    if (r < 0)
        return r;
    uint64_t number = put_end(s);
    if (number == 0)
        return -ENOMEM;
    r = ask_send(s);
    if (r < 0)
        return r;
    *ended |= r == 0;
    r = receive_end(s, number, &f);
    return r < 0 ? r : take_committed(s, &f, first, last);
}

/* The daemon forgets a release with its connection. */
static void release_forget(skade *s)
{
    if (s->release.open && is_on_its_connection(s) && s->release.next_request > s->release.first_request)
        ask_hang_up(s);
    s->release.open = false;
}

/* What the caller hears when the release ended with R. */
static int release_verdict(skade *s, bool ended, bool refused, int r)
{
    if (refused || r == SKADE_EREPLACED || r == SKADE_EPROTOCOL || (r != STREAM_LOST && !ended))
        return r;
    if (!ended)
        return fail(&s->msg, SKADE_EUNREACHABLE,
                    "the connection to %s broke: nothing of the release was made", s->socket_path);
    if (r == SKADE_ETIMEOUT)
        return r;
    return fail(&s->msg, SKADE_EUNKNOWN,
                "the connection to %s broke before the answer came: ask again with the same uuids",
                s->socket_path);
}

/* ---- a release at once --------------------------------------------------------------------------------- */

struct release_attempt {
    struct uuid base;
    bool connected; /* this time */
    bool ended;     /* any time */
    bool refused;
    int64_t give_up; /* the deadline of all further tries; 0: the connection hasn't broken yet */
};

static int try_release(skade *s, struct release_attempt *a, const struct skade_commit *c, size_t n,
                       uint64_t *first, uint64_t *last)
{
    int r = release_begin(s, a->base);
    a->connected = r == 0;
    if (r < 0)
        return r;
    s->refusal.code = 0;
    r = add_rows(s, c, n);
    if (r == 0)
        r = end_rows(s, &a->ended, first, last);
    a->refused = s->refusal.code != 0 || s->release.error != 0 || r == SKADE_EINPUT;
    if (r < 0 && !(s->refusal.code != 0 && s->release.error == 0))
        release_forget(s);
    s->release.open = false;
    return r;
}

/* As in ask(): a broken connection is one more try, a daemon that is away is worth waiting for once the
 * end was sent. */
static bool try_release_again(skade *s, struct release_attempt *a, int r)
{
    if (a->connected ? r != STREAM_LOST || a->refused : !a->ended || r == SKADE_EREPLACED)
        return false;
    if (a->give_up == 0) {
        deadline_renew(s);
        a->give_up = s->deadline;
    }
    s->deadline = a->give_up;
    count(s, CLIENT_requests_again);
    return deadline_pause(a->give_up, 50);
}

static int release_at_once(skade *s, const struct skade_commit *c, size_t n, uint64_t *first, uint64_t *last)
{
    struct release_attempt a = { .ended = false };

    if (s->release.open)
        return fail(&s->msg, SKADE_EINPUT, "a release in pieces is open: end or abort it first");
    int r = ask_uuid(s, &a.base);
    if (r < 0)
        return r;
    do
        r = try_release(s, &a, c, n, first, last);
    while (r < 0 && try_release_again(s, &a, r));
    return r < 0 ? release_verdict(s, a.ended, a.refused, r) : 0;
}

static int nothing_released(uint64_t *first, uint64_t *last)
{
    if (first)
        *first = 0;
    if (last)
        *last = 0;
    return 0;
}

int skade_release(skade *s, const struct skade_commit *commits, size_t n, uint64_t *first, uint64_t *last)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0 && n == 0)
        return (int)call_end(&c, nothing_released(first, last));
    if (r == 0)
        r = check_size(s, commits);
    if (r == 0)
        r = release_at_once(s, commits, n, first, last);
    return (int)call_end(&c, r);
}

/* ---- a release in pieces ------------------------------------------------------------------------------- */

/* A failure stays until the release is ended or aborted: a caller who overlooks it must not end half a
 * release. */
static int release_failed(skade *s, int r)
{
    release_forget(s);
    s->release.open = true;
    s->release.error = r;
    s->release.msg = s->msg;
    return r;
}

static int begin_pieces(skade *s)
{
    struct uuid base;

    int r = ask_uuid(s, &base);
    return r < 0 ? r : release_begin(s, base);
}

static int add_piecewise(skade *s, const struct skade_commit *commits, size_t n)
{
    int r = 0;

    if (!s->release.open)
        r = begin_pieces(s);
    if (r < 0)
        return r;
    r = look_for_refusal(s);
    if (r == 0 && n > 0)
        r = check_size(s, commits);
    if (r == 0)
        r = add_rows(s, commits, n);
    if (r < 0)
        r = release_failed(s, release_verdict(s, false, s->release.error != 0, r));
    return r;
}

int skade_release_add(skade *s, const struct skade_commit *commits, size_t n)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0)
        r = add_piecewise(s, commits, n);
    return (int)call_end(&c, r);
}

static int end_piecewise(skade *s, uint64_t *first, uint64_t *last)
{
    bool ended = false;

    if (!s->release.open)
        return fail(&s->msg, SKADE_EINPUT, "no release is open: skade_release_add() comes first");
    s->refusal.code = 0;
    int r = end_rows(s, &ended, first, last);
    bool refused = s->refusal.code != 0 || s->release.error != 0;
    if (r < 0 && !(s->refusal.code != 0 && s->release.error == 0))
        release_forget(s);
    s->release.open = false;
    return r < 0 ? release_verdict(s, ended, refused, r) : 0;
}

int skade_release_end(skade *s, uint64_t *first, uint64_t *last)
{
    struct call c;

    int r = call_begin(&c, s);
    if (r == 0)
        r = end_piecewise(s, first, last);
    return (int)call_end(&c, r);
}

/* It is called for what failed before it, and whoever called it wants to tell why. */
void skade_release_abort(skade *s)
{
    struct call c;
    struct errmsg story = s->msg;

    int r = call_begin_frozen(&c, s);
    if (r == 0) {
        release_forget(s);
        s->msg = story;
    }
    call_end(&c, r);
}
