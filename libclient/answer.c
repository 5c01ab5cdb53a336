/*
 * What a struct skade_answer says: filled from a map or from a message, and put into words when there is no
 * location.
 *
 * The struct is the caller's and says how large it is; a caller of a later version has fields that we leave
 * alone.
 */
#include "client.h"

#include "timefmt.h"

#include <inttypes.h>

_Static_assert(sizeof(struct skade_answer) == ANSWER_SIZE_MIN, "version 0.1");
_Static_assert(sizeof(struct part_query) == ANSWER_SIZE_MIN, "an index writes answers as they are");
#define SAME(ours, theirs)                                                                                   \
    _Static_assert(offsetof(struct skade_answer, ours) == offsetof(struct part_query, theirs) &&             \
                       sizeof(((struct skade_answer *)0)->ours) == sizeof(((struct part_query *)0)->theirs), \
                   #ours)
SAME(location_cap, location_cap);
SAME(location, location);
SAME(table, table);
SAME(status, status);
SAME(snapshot, id);
SAME(seq, seq);
SAME(time_us, time_us);
SAME(retired_by, retired_by);
SAME(location_len, location_len);
SAME(flags, flags);
_Static_assert((int)PART_WITH_SNAPSHOT == (int)SKADE_HAS_SNAPSHOT &&
                   (int)PART_FROM_MAP == (int)SKADE_FROM_MAP,
               "an index writes flags as they are");
_Static_assert((int)EVENT_HAS_SNAPSHOT == (int)SKADE_WITH_SNAPSHOT, "event flags are public");
_Static_assert((int)EVENT_INTRODUCES == (int)SKADE_INTRODUCES &&
                   (int)EVENT_MOVES_HEAD == (int)SKADE_MOVES_HEAD,
               "event flags are public");

void answer_empty(struct skade_answer *a)
{
    a->status = 0;
    a->seq = 0;
    a->time_us = 0;
    a->retired_by = 0;
    a->location_len = 0;
    a->flags = 0;
    if (a->location_cap > 0)
        a->location[0] = 0;
}

int answer_clear(skade *s, struct skade_answer *a)
{
    if (!a || a->size < ANSWER_SIZE_MIN)
        return fail(&s->msg, SKADE_EINPUT, "skade_answer.size is not set: initialise it with SKADE_ANSWER");
    if (!a->location && a->location_cap > 0)
        return fail(&s->msg, SKADE_EINPUT, "skade_answer.location is NULL");
    answer_empty(a);
    return 0;
}

int answer_result(int status)
{
    return status == SKADE_ENOTABLE || status == SKADE_ENOSNAPSHOT ? 0 : status;
}

int answer_status(struct skade_answer *a, int status)
{
    a->status = status;
    return answer_result(status);
}

static uint32_t public_flags(uint32_t event_flags)
{
    return event_flags & EVENT_HAS_SNAPSHOT ? SKADE_HAS_SNAPSHOT : 0;
}

/* ---- from a map ---------------------------------------------------------------------------------------- */

static int put_location(struct skade_answer *a, const struct generation *g, const struct found *f)
{
    size_t need = 0;
    size_t cap = a->location_cap > 0 ? a->location_cap - 1 : 0;

    int r = generation_location(g, f, a->location, cap, &need);
    if (r < 0 && r != -ERANGE)
        return r;
    a->location_len = r < 0 ? (uint32_t)need : (uint32_t)r;
    if (r < 0 || a->location_cap == 0)
        return -ERANGE;
    a->location[r] = 0;
    return 1;
}

int answer_from_map(struct skade_answer *a, const struct generation *g, const struct found *f)
{
    int status = f->status;

    a->flags = SKADE_FROM_MAP;
    if (status == 1 || status == SKADE_EEXPIRED) {
        a->table = f->hit.table;
        a->snapshot = f->hit.snapshot;
        a->seq = f->hit.seq;
        a->time_us = f->hit.time_us;
        a->retired_by = status == 1 ? 0 : f->retired_by;
        a->flags |= public_flags(f->hit.flags);
    }
    if (status == 1)
        status = put_location(a, g, f);
    return answer_status(a, status);
}

static int put_tail_location(struct skade_answer *a, const struct tail *t, const struct tail_hit *hit)
{
    int len = tail_location(t, hit, a->location, a->location_cap > 0 ? a->location_cap - 1 : 0);
    if (len < 0 && len != -ERANGE)
        return len;
    a->location_len = hit->text_len;
    if (len < 0 || a->location_cap == 0)
        return -ERANGE;
    a->location[len] = 0;
    return 1;
}

int answer_from_tail(struct skade_answer *a, const struct tail *t, const struct fresh_found *f)
{
    int status = f->status;

    a->table = f->hit.table;
    a->snapshot = f->hit.snapshot;
    a->seq = f->hit.seq;
    a->time_us = f->hit.time_us;
    a->retired_by = f->retired_by;
    a->flags = SKADE_FROM_MAP | public_flags(f->hit.flags);
    if (status == 1)
        status = put_tail_location(a, t, &f->hit);
    if (status != 1 && a->location_cap > 0)
        a->location[0] = 0;
    return answer_status(a, status);
}

/* ---- from a message ------------------------------------------------------------------------------------ */

static int take_location(struct skade_answer *a, struct bytes location)
{
    a->location_len = (uint32_t)location.len;
    if (location.len >= a->location_cap)
        return -ERANGE;
    memcpy(a->location, location.data, location.len);
    a->location[location.len] = 0;
    return 1;
}

static bool is_status(int status)
{
    return status == 1 || (status <= SKADE_ENOTABLE && status >= SKADE_EFOREIGN);
}

int answer_from_wire(struct skade_answer *a, const struct item_answer *item)
{
    if (!is_status(item->status) || item->location.len > LOCATION_MAX)
        return SKADE_EPROTOCOL;
    a->table = item->table;
    a->snapshot = item->snapshot;
    a->seq = item->seq;
    a->time_us = item->time_us;
    a->retired_by = item->retired_by;
    a->flags = public_flags(item->flags);
    a->status = item->status == 1 ? take_location(a, item->location) : item->status;
    return 0;
}

/* ---- in words ------------------------------------------------------------------------------------------ */

/* Most of those who ask for what isn't there don't read the message, so it is written when it is read. */
void answer_note(skade *s, const struct question *q, const struct skade_answer *a)
{
    s->msg.text[0] = 0;
    s->untold = (struct untold){
        .set = true,
        .question = *q,
        .status = a->status,
        .snapshot = a->snapshot,
        .retired_by = a->retired_by,
        .location_len = a->location_len,
        .location_cap = a->location_cap,
    };
}

void answer_note_first(skade *s, int64_t first_us, uint64_t first_seq)
{
    s->untold.first_us = first_us;
    s->untold.first_seq = first_seq;
}

static void tell_too_early(struct errmsg *msg, const struct untold *u)
{
    char asked[TIME_FORMAT_MAX], first[TIME_FORMAT_MAX];

    time_format(u->question.value, asked);
    if (u->first_seq == 0)
        fail(msg, 0, "table %" PRIu32 ": no commit up to %s", u->question.table, asked);
    else
        fail(msg, 0,
             "table %" PRIu32 ": no commit up to %s: its earliest is of %s (sequence number %" PRIu64 ")",
             u->question.table, asked, time_format(u->first_us, first), u->first_seq);
}

static void tell_no_snapshot(struct errmsg *msg, const struct untold *u)
{
    switch (u->question.kind) {
    case QUESTION_RESOLVE:
        fail(msg, 0, "table %" PRIu32 ": no snapshot %" PRId64, u->question.table, u->question.value);
        break;
    case QUESTION_HEAD:
        fail(msg, 0, "table %" PRIu32 ": no commit yet", u->question.table);
        break;
    case QUESTION_AS_OF:
        tell_too_early(msg, u);
        break;
    }
}

void answer_tell(struct errmsg *msg, const struct untold *u)
{
    uint32_t table = u->question.table;

    switch (u->status) {
    case SKADE_ENOTABLE:
        fail(msg, 0, "there is no table number %" PRIu32 ": it never was, or was dropped", table);
        break;
    case SKADE_ENOSNAPSHOT:
        tell_no_snapshot(msg, u);
        break;
    case SKADE_EEXPIRED:
        /* RETIRED_BY is the newest retirement of the table; which of them took this commit isn't kept. */
        fail(msg, 0,
             "table %" PRIu32 ": snapshot %" PRId64 " was retired, by event %" PRIu64 " or one before it",
             table, u->snapshot, u->retired_by);
        break;
    case -ERANGE:
        fail(msg, 0, "the location has %" PRIu32 " bytes; with its NUL it doesn't fit into %" PRIu32,
             u->location_len, u->location_cap);
        break;
    default:
        fail(msg, 0, "%s", error_text(u->status));
    }
}
