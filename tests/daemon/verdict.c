#include "verdict.h"

#include "quick.h"
#include "rowset.h"

#include <ftw.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the history, asked ------------------------------------------------------------------------------------------- */

static const struct past *event(uint64_t seq)
{
    return &crowd.events[seq - 1];
}

static bool is_commit_of(const struct past *e, uint32_t table)
{
    return e->table == table && (e->kind == EVENT_COMMIT || e->kind == EVENT_COMPACT);
}

static bool moves_head_of(const struct past *e, uint32_t table)
{
    return is_commit_of(e, table) && (e->flags & EVENT_MOVES_HEAD);
}

/* The event of TABLE among 1 ... AT that said last what its name is, or that it has none any more; NULL: it isn't there. */
static const struct past *naming(uint32_t table, uint64_t at)
{
    for (uint64_t seq = at; seq > 0; seq--) {
        const struct past *e = event(seq);
        if (e->table == table && e->kind == EVENT_DROP)
            return NULL;
        if (e->table == table && (e->kind == EVENT_CREATE || e->kind == EVENT_RENAME))
            return e;
    }
    return NULL;
}

static uint32_t find_name(const char *name, uint64_t at)
{
    for (uint64_t seq = at; seq > 0; seq--) {
        const struct past *e = event(seq);
        if ((e->kind == EVENT_CREATE || e->kind == EVENT_RENAME) && strcmp(e->text, name) == 0 &&
            naming(e->table, at) == e)
            return e->table;
    }
    return 0;
}

/* Is it retired by then?  Without a commit: is there no snapshot, or no table? */
static struct told judged(const struct past *commit, uint32_t table, uint64_t at)
{
    struct told t = { .status = commit ? 1 : SKADE_ENOSNAPSHOT };

    if (!naming(table, at))
        return (struct told){ .status = SKADE_ENOTABLE };
    if (!commit)
        return t;
    t.seq = commit->seq;
    for (uint64_t seq = at; seq > 0; seq--) {
        const struct past *e = event(seq);
        if (e->table != table || (e->kind != EVENT_EXPIRE && e->kind != EVENT_COMPACT))
            continue;
        if (commit->seq <= e->watermark) {
            t.status = SKADE_EEXPIRED;
            t.retired_by = seq;
        }
        break;
    }
    memcpy(t.location, commit->text, sizeof t.location);
    return t;
}

/* First location wins. */
static struct told resolve(uint32_t table, int64_t id, uint64_t at)
{
    const struct past *found = NULL;

    for (uint64_t seq = 1; !found && seq <= at; seq++)
        if (is_commit_of(event(seq), table) && (event(seq)->flags & EVENT_INTRODUCES) &&
            event(seq)->snapshot == id)
            found = event(seq);
    return judged(found, table, at);
}

/* What a compaction carried over stands after it. */
static struct told head(uint32_t table, uint64_t at)
{
    const struct past *found = NULL;

    for (uint64_t seq = at; !found && seq > 0; seq--)
        if (moves_head_of(event(seq), table))
            found = event(seq);
    if (found && found->kind == EVENT_COMPACT)
        for (uint64_t seq = found->seq - 1; seq > found->watermark; seq--)
            if (moves_head_of(event(seq), table)) {
                found = event(seq);
                break;
            }
    return judged(found, table, at);
}

static struct told as_of(uint32_t table, int64_t time_us, uint64_t at)
{
    const struct past *found = NULL;

    for (uint64_t seq = 1; seq <= at; seq++) {
        const struct past *e = event(seq);
        if (moves_head_of(e, table) && e->time_us <= time_us && (!found || e->time_us >= found->time_us))
            found = e;
    }
    return judged(found, table, at);
}

/* The event of TABLE that is number I before BEFORE, from the newest on; status 0: there are fewer. */
static struct told history(uint32_t table, uint64_t before, size_t i, uint64_t at)
{
    bool made = false;

    for (uint64_t seq = 1; !made && seq <= at; seq++)
        made = event(seq)->kind == EVENT_CREATE && event(seq)->table == table;
    if (!made)
        return (struct told){ .status = SKADE_ENOTABLE };
    for (uint64_t seq = before <= at ? before - 1 : at; seq > 0; seq--)
        if (event(seq)->table == table && i-- == 0) {
            struct told t = { .status = 1, .seq = seq };
            memcpy(t.location, event(seq)->text, sizeof t.location);
            return t;
        }
    return (struct told){ .status = 0 };
}

/* ---- questions ------------------------------------------------------------------------------------------------------ */

static bool same(const struct told *a, const struct told *b)
{
    return a->status == b->status && a->seq == b->seq && a->retired_by == b->retired_by &&
           (a->status != 1 || strcmp(a->location, b->location) == 0);
}

static struct told answer_at(const struct request *r, size_t i, uint64_t at)
{
    uint32_t table;

    switch (r->type) {
    case WIRE_RESOLVE:
        return resolve(r->table, r->values[i], at);
    case WIRE_HEAD:
        return head(r->table, at);
    case WIRE_AS_OF:
        return as_of(r->table, r->values[0], at);
    case WIRE_HISTORY:
        return history(r->table, r->before, i, at);
    default:
        table = find_name(r->name, at);
        return (struct told){ .status = table ? 1 : SKADE_ENOTABLE, .seq = table };
    }
}

/* True as of one moment between question and answer, mostly the one that it names itself. */
static void judge_question(const struct request *r)
{
    struct told refusal = { .status = r->code };
    bool short_list = r->type == WIRE_HISTORY && r->told_count < ROWS_MAX; /* the next one isn't there */
    size_t count = r->outcome == REFUSED || r->type == WIRE_LOOKUP ? 1 : r->told_count + short_list;

    ck_assert_uint_le(r->to, crowd.seq);
    for (size_t i = 0; i < count; i++) {
        const struct told *told = r->outcome == REFUSED ? &refusal : &r->told[i];
        struct told wanted = { 0 };
        bool right = false;
        for (uint64_t at = r->outcome == REFUSED ? 0 : r->from; !right && at <= r->to; at++) {
            wanted = answer_at(r, i, at);
            right = same(told, &wanted);
        }
        ck_assert_msg(
            right,
            "%s %zu of table %u, value %" PRId64 " at %" PRIu64 " ... %" PRIu64 ": %d, event %" PRIu64
            " by %" PRIu64 " %s, not %d, event %" PRIu64 " by %" PRIu64 " %s",
            wire_name(r->type), i, r->table, r->values[i], r->from, r->to, told->status, told->seq,
            told->retired_by, told->location, wanted.status, wanted.seq, wanted.retired_by, wanted.location);
    }
}

/* ---- changes ---------------------------------------------------------------------------------------------------------- */

/* The event with UUID; 0: none.  Never two. */
static uint64_t find_uuid(const struct uuid *uuid)
{
    uint64_t found = 0;

    for (uint64_t seq = 1; seq <= crowd.seq; seq++)
        if (uuid_equal(&event(seq)->uuid, uuid)) {
            ck_assert_msg(!found, "events %" PRIu64 " and %" PRIu64 " have one uuid", found, seq);
            found = seq;
        }
    return found;
}

static void judge_base(const struct request *r, uint64_t seq)
{
    const struct past *e = event(seq);
    struct told before = head(e->table, seq - 1);

    if (r->base == 1)
        ck_assert_msg(before.status == SKADE_ENOSNAPSHOT,
                      "event %" PRIu64 " was not to have a head before it", seq);
    if (r->base == 2)
        ck_assert_msg(before.status == 1 && strcmp(before.location, r->base_location) == 0,
                      "event %" PRIu64 " has another head before it than was asked for", seq);
}

static void judge_change(const struct request *r)
{
    uint64_t first = find_uuid(&r->uuids[0]);

    for (size_t i = 1; i < r->rows; i++)
        ck_assert_msg(find_uuid(&r->uuids[i]) == (first ? first + i : 0),
                      "a release at event %" PRIu64 " isn't whole", first);
    if (r->outcome == DONE && r->first_seq) {
        ck_assert_msg(first == r->first_seq && r->last_seq == first + r->rows - 1,
                      "%s acknowledged as event %" PRIu64 " is event %" PRIu64, wire_name(r->type),
                      r->first_seq, first);
    } else if (r->outcome != UNKNOWN) {
        ck_assert_msg(first == 0, "%s refused (%d) is event %" PRIu64, wire_name(r->type), r->code, first);
    }
    if (first && r->type == WIRE_COMMIT)
        judge_base(r, first);
}

/* It never takes the head, nor the first place of the head's snapshot, if it was there until then. */
static void judge_expiry(const struct past *e)
{
    struct told now = head(e->table, e->seq);

    ck_assert_msg(now.status == 1, "event %" PRIu64 " retires the head", e->seq);
    const struct past *commit = event(now.seq);
    if ((commit->flags & EVENT_HAS_SNAPSHOT) && resolve(e->table, commit->snapshot, e->seq - 1).status == 1)
        ck_assert_msg(resolve(e->table, commit->snapshot, e->seq).status == 1,
                      "event %" PRIu64 " retires the head's snapshot", e->seq);
}

/* ---- stored tables ---------------------------------------------------------------------------------------------------- */

/* Whatever the clock on the wall did, time goes on from commit to commit; and what isn't retired has its file. */
static void judge_stored(uint32_t table)
{
    int64_t last_us = INT64_MIN;

    for (uint64_t seq = 1; seq <= crowd.seq; seq++) {
        const struct past *e = event(seq);
        if (!is_commit_of(e, table))
            continue;
        if (e->kind == EVENT_COMMIT) {
            ck_assert_msg(e->time_us > last_us, "event %" PRIu64 " is not later than the one before", seq);
            last_us = e->time_us;
        }
        struct told t = judged(e, table, crowd.seq);
        ck_assert_msg(t.status != 1 || access(t.location + strlen("file://"), F_OK) == 0,
                      "event %" PRIu64 " has no file %s", seq, t.location);
    }
}

/* The append that made event SEQ. */
static const struct request *append_of(uint64_t seq)
{
    for (size_t i = 0; i < crowd.count; i++)
        if (crowd.requests[i]->type == WIRE_APPEND_END &&
            uuid_equal(&crowd.requests[i]->uuids[0], &event(seq)->uuid))
            return crowd.requests[i];
    ck_abort_msg("nobody asked for event %" PRIu64, seq);
    return NULL;
}

/* What all appends to TABLE leave of each key. */
static void written_rows(uint32_t table, uint64_t *values)
{
    for (uint64_t seq = 1; seq <= crowd.seq; seq++) {
        if (event(seq)->table != table || event(seq)->kind != EVENT_COMMIT)
            continue;
        const struct request *r = append_of(seq);
        for (size_t i = 0; i < r->written_count; i++)
            values[r->written[i].key] = r->written[i].value;
    }
}

static struct rowset_file file_of(const struct past *e)
{
    return (struct rowset_file){ e->text + strlen("file://"), e->seq, e->time_us, e->kind == EVENT_COMPACT };
}

/* The newest compaction's manifest, and the files of the commits that stand after it. */
static size_t list_files(uint32_t table, struct rowset_file *files)
{
    const struct past *base = NULL;
    size_t n = 0;

    for (uint64_t seq = 1; seq <= crowd.seq; seq++)
        if (event(seq)->table == table && event(seq)->kind == EVENT_COMPACT)
            base = event(seq);
    if (base)
        files[n++] = file_of(base);
    for (uint64_t seq = base ? base->watermark + 1 : 1; seq <= crowd.seq; seq++)
        if (event(seq)->table == table && event(seq)->kind == EVENT_COMMIT)
            files[n++] = file_of(event(seq));
    return n;
}

static void scan(struct rowset *set, uint64_t *values)
{
    struct errmsg msg = { "" };
    struct rowset_cursor *cursor;
    struct row row;
    int r;

    ck_assert_msg(rowset_prepare(set, &msg) == 0, "%s", msg.text);
    ck_assert_msg(rowset_cursor_open(&cursor, set, OLDEST_FIRST, 0, 1, &msg) == 0, "%s", msg.text);
    while ((r = rowset_next(cursor, &row, &msg)) == 1) {
        char key[16] = "", value[32] = "";
        memcpy(key, row.key.data, row.key.len);
        memcpy(value, row.value, row.value_len);
        ck_assert_uint_eq(values[atoi(key)], 0); /* one row of each key */
        values[atoi(key)] = strtoull(value, NULL, 10);
    }
    ck_assert_msg(r == 0, "%s", msg.text);
    rowset_cursor_close(cursor);
}

/* The rows of a stored table are what was appended. */
static void judge_rows(uint32_t table)
{
    struct rowset_file *files = calloc(crowd.seq + 1, sizeof *files);
    struct rowset_options options = { .log = crowd.origin, .table = table, .owner = geteuid() };
    uint64_t wanted[KEYS] = { 0 }, found[KEYS] = { 0 };
    struct rowset *set;
    struct errmsg msg = { "" };

    ck_assert_ptr_nonnull(files);
    written_rows(table, wanted);
    size_t n = list_files(table, files);
    ck_assert_msg(rowset_open(&set, files, n, &options, &msg) == 0, "%s", msg.text);
    scan(set, found);
    rowset_close(set);
    free(files);
    for (unsigned key = 0; key < KEYS; key++)
        ck_assert_msg(wanted[key] == found[key], "table %u, key %u: %" PRIu64 ", not %" PRIu64, table, key,
                      found[key], wanted[key]);
}

/* 32 hex digits. */
static struct uuid uuid_of(const char *name)
{
    struct uuid u = { { 0 } };

    for (size_t i = 0; i < sizeof u.b; i++) {
        char digits[3] = { name[2 * i], name[2 * i + 1], 0 };
        u.b[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return u;
}

/* Files are named by the uuid of their event; no mark of what is still to come is left after a start. */
static int judge_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    const char *name = path + ftw->base;

    (void)st;
    if (type != FTW_F)
        return 0;
    ck_assert_msg(strlen(name) > 33, "%s", path);
    struct uuid uuid = uuid_of(name);
    ck_assert_msg(find_uuid(&uuid) != 0, "%s is no event's", path);
    ck_assert_msg(strcmp(name + 32, ".pending") != 0, "%s was left", path);
    return 0;
}

static void judge_table(uint32_t table)
{
    judge_stored(table);
    if (naming(table, crowd.seq))
        judge_rows(table);
}

void verdict(void)
{
    nftw(sim_path("data/tables"), judge_file, 8, FTW_PHYS);
    for (uint64_t seq = 1; seq <= crowd.seq; seq++) {
        if (event(seq)->kind == EVENT_CREATE && (event(seq)->flags & EVENT_STORED))
            judge_table(event(seq)->table);
        if (event(seq)->kind == EVENT_EXPIRE)
            judge_expiry(event(seq));
    }
    for (size_t i = 0; i < crowd.count; i++) {
        const struct request *r = crowd.requests[i];
        ck_assert(r->outcome != WAITING || r->type == WIRE_WATCH);
        bool question = r->type == WIRE_RESOLVE || r->type == WIRE_HEAD || r->type == WIRE_AS_OF ||
                        r->type == WIRE_LOOKUP || r->type == WIRE_HISTORY;
        if (question && (r->outcome == DONE || r->code == SKADE_ENOTABLE || r->code == SKADE_ENOSNAPSHOT))
            judge_question(r);
        else if (r->rows)
            judge_change(r);
    }
}
