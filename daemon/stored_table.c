#include "stored_table.h"

#include "ledger.h"

#include <assert.h>
#include <inttypes.h>

/* Of a name in a message. */
#define SHOWN_MAX 200

static int shown(struct bytes name)
{
    return (int)(name.len < SHOWN_MAX ? name.len : SHOWN_MAX);
}

static bool is_dropped(const struct table *t, uint64_t at)
{
    return t->dropped_seq != SEQ_MAX && t->dropped_seq <= at;
}

int living_table(const struct server *s, uint32_t number, uint64_t at, struct table **ret, struct errmsg *msg)
{
    struct table *t = ledger_table(s->ledger, number);

    if (!t)
        return fail(msg, SKADE_ENOTABLE, "there is no table number %" PRIu32 ": look it up by its name",
                    number);
    struct bytes name = ledger_name_at(s->ledger, number, SEQ_MAX);
    if (is_dropped(t, at))
        return fail(msg, SKADE_ENOTABLE,
                    "table %" PRIu32 ", last called %.*s, was dropped by event %" PRIu64
                    ": look the name up again, or create it",
                    number, shown(name), name.data, t->dropped_seq);
    if (t->created_seq > at)
        return fail(msg, SKADE_ENOTABLE,
                    "table %" PRIu32 ", called %.*s, was made by event %" PRIu64
                    ", after the moment asked for",
                    number, shown(name), name.data, t->created_seq);
    *ret = t;
    return 0;
}

static int wrong_kind(struct bytes name, enum stored_use use, struct errmsg *msg)
{
    static const char *const cures[] = {
        [TO_READ] = "skade knows where its metadata is (resolve, head); scan and get are for stored tables",
        [TO_APPEND] = "use commit or release; append is for tables made without a location",
        [TO_COMPACT] = "they compact them, too; compact is for tables made without a location",
    };

    return fail(msg, SKADE_EKIND, "others keep the rows of %.*s: %s", shown(name), name.data, cures[use]);
}

int stored_table(const struct server *s, uint32_t number, uint64_t at, enum stored_use use,
                 struct table **ret, struct errmsg *msg)
{
    struct table *t = NULL;

    if (use != TO_READ && s->readonly[0])
        return fail(msg, SKADE_EREADONLY, "%s", s->readonly);
    int r = living_table(s, number, at, &t, msg);
    if (r < 0)
        return r;
    assert(t);
    if (t->kind != TABLE_STORED)
        return wrong_kind(ledger_name_at(s->ledger, number, at), use, msg);
    *ret = t;
    return 0;
}
