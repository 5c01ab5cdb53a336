#include "ledger.h"

#include "checksum.h"
#include "timefmt.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* So many events of the tail are freed on the spot. */
#define TRIM_AT_ONCE 8192

static bool is_commit(const struct event *e)
{
    return e->kind == EVENT_COMMIT || e->kind == EVENT_COMPACT;
}

/* Make room for one more in the array at *P; amortised doubling.  0 or -ENOMEM. */
static int grow(void *p, size_t *cap, size_t count, size_t size)
{
    void **array = p;

    if (count < *cap)
        return 0;
    size_t n = *cap ? *cap * 2 : 64;
    void *more = realloc(*array, n * size);
    if (!more)
        return -ENOMEM;
    *array = more;
    *cap = n;
    return 0;
}

/* ---- events ------------------------------------------------------------------------------------------------- */

struct event *event_copy(const struct event *e)
{
    struct event *copy = malloc(sizeof *copy + e->text.len + e->text2.len);
    if (!copy)
        return NULL;
    char *text = (char *)(copy + 1);
    *copy = *e;
    if (e->text.len)
        memcpy(text, e->text.data, e->text.len);
    if (e->text2.len)
        memcpy(text + e->text.len, e->text2.data, e->text2.len);
    copy->text.data = text;
    copy->text2.data = text + e->text.len;
    return copy;
}

uint64_t event_content(const struct event *e)
{
    /* Neither seq nor time: the daemon gives them when the client doesn't.  A rename and a drop are requests about a
     * name: what they meant is in kind and texts.  Of an expiry the log has what became of it; what was asked is known
     * to the daemon that was asked (committer.c). */
    struct {
        uint32_t kind, flags, table, reserved;
        int64_t snapshot;
    } fixed = { e->kind, e->flags, 0, 0, 0 };

    if (is_commit(e)) {
        fixed.table = e->table;
        fixed.snapshot = e->snapshot;
    } else if (e->kind == EVENT_EXPIRE) {
        fixed.table = e->table;
        fixed.snapshot = (int64_t)e->watermark;
    }
    uint64_t sum = checksum(&fixed, sizeof fixed, 0);
    sum = checksum(e->text.data, e->text.len, sum);
    return checksum(e->text2.data, e->text2.len, sum);
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

struct ledger *ledger_new(const struct uuid *log, uint64_t seed)
{
    struct ledger *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->log = *log;
    l->seed = seed;
    l->uuids = uuids_new(seed);
    if (!l->uuids) {
        ledger_free(l);
        return NULL;
    }
    return l;
}

static void table_free(struct table *t)
{
    free((void *)t->head.location.data);
    free(t->retirements);
    free(t);
}

void ledger_free(struct ledger *l)
{
    if (!l)
        return;
    for (uint64_t seq = l->floor + 1; seq <= l->arrived; seq++)
        free(l->tail[seq - l->floor - 1].event);
    for (size_t i = 0; i < l->tables_count; i++)
        table_free(l->tables[i]);
    for (size_t i = 0; i < l->names_count; i++)
        free((void *)l->names[i].name.data);
    for (size_t i = 0; i < l->others_count; i++)
        free(l->others[i].event);
    free(l->tail);
    free(l->tail_hash);
    free(l->tables);
    free(l->names);
    free(l->name_hash);
    free(l->sorted);
    free(l->others);
    free(l->compactions);
    uuids_free(l->uuids);
    free(l);
}

struct table *ledger_table(const struct ledger *l, uint32_t number)
{
    return number >= 1 && number <= l->tables_count ? l->tables[number - 1] : NULL;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

static size_t name_slot(const struct ledger *l, struct bytes name)
{
    size_t slot = checksum(name.data, name.len, l->seed) & l->name_hash_mask;

    while (l->name_hash[slot] && !bytes_equal(l->names[l->name_hash[slot] - 1].name, name))
        slot = (slot + 1) & l->name_hash_mask;
    return slot;
}

static int name_hash_grow(struct ledger *l)
{
    size_t slots = l->name_hash ? (l->name_hash_mask + 1) * 2 : 256;
    uint32_t *old = l->name_hash;

    uint32_t *fresh = calloc(slots, sizeof *fresh);
    if (!fresh)
        return -ENOMEM;
    l->name_hash = fresh;
    l->name_hash_mask = slots - 1;
    /* In the order of the rows, so that the newest row of a name takes the slot. */
    for (size_t i = 0; i < l->names_count; i++)
        fresh[name_slot(l, l->names[i].name)] = (uint32_t)i + 1;
    free(old);
    return 0;
}

static int name_order(struct bytes a, struct bytes b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int r = n ? memcmp(a.data, b.data, n) : 0;
    return r ? r : (a.len > b.len) - (a.len < b.len);
}

size_t ledger_sorted_from(const struct ledger *l, struct bytes name)
{
    size_t low = 0, high = l->sorted_count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (name_order(l->names[l->sorted[mid]].name, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Give TABLE the name NAME from SEQ on. */
static int name_add(struct ledger *l, struct bytes name, struct table *t, uint64_t seq)
{
    if (grow(&l->names, &l->names_cap, l->names_count, sizeof *l->names) < 0 ||
        grow(&l->sorted, &l->sorted_cap, l->sorted_count, sizeof *l->sorted) < 0)
        return -ENOMEM;
    if ((l->names_count + 1) * 2 > (l->name_hash ? l->name_hash_mask + 1 : 0) && name_hash_grow(l) < 0)
        return -ENOMEM;
    char *copy = malloc(name.len ? name.len : 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, name.data, name.len);

    uint32_t row = (uint32_t)l->names_count++;
    size_t slot = name_slot(l, name);
    l->names[row] = (struct name_row){ { copy, name.len }, seq, SEQ_MAX, t->number, l->name_hash[slot] };
    l->name_hash[slot] = row + 1;
    t->name = row;

    size_t at = ledger_sorted_from(l, name);
    memmove(&l->sorted[at + 1], &l->sorted[at], (l->sorted_count - at) * sizeof *l->sorted);
    l->sorted[at] = row;
    l->sorted_count++;
    return 0;
}

/* T loses its name at SEQ. */
static void name_end(struct ledger *l, struct table *t, uint64_t seq)
{
    struct name_row *row = &l->names[t->name];
    size_t at = ledger_sorted_from(l, row->name);

    assert(at < l->sorted_count && l->sorted[at] == t->name);
    l->sorted_count--;
    memmove(&l->sorted[at], &l->sorted[at + 1], (l->sorted_count - at) * sizeof *l->sorted);
    row->to_seq = seq;
}

uint32_t ledger_find_name(const struct ledger *l, struct bytes name, uint64_t at)
{
    if (!l->name_hash)
        return 0;
    uint32_t next = l->name_hash[name_slot(l, name)];
    while (next) {
        const struct name_row *row = &l->names[next - 1];
        if (row->from_seq <= at)
            return row->to_seq > at || row->to_seq == SEQ_MAX ? row->table : 0;
        next = row->older;
    }
    return 0;
}

struct bytes ledger_name_at(const struct ledger *l, uint32_t table, uint64_t at)
{
    struct table *t = ledger_table(l, table);
    if (!t)
        return (struct bytes){ "", 0 };
    struct bytes name = l->names[t->name].name;
    if (l->names[t->name].from_seq <= at)
        return name;
    /* Renames are few: walk back through the table's other events for the one that gave the name it had. */
    for (uint32_t i = t->events_last; i; i = l->others[i - 1].table_prev) {
        const struct event *e = l->others[i - 1].event;
        if (e->kind != EVENT_RENAME && e->kind != EVENT_CREATE)
            continue;
        name = e->text;
        if (e->seq <= at)
            break;
    }
    return name;
}

/* ---- the tail ----------------------------------------------------------------------------------------------------- */

static struct tail_entry *entry_of(const struct ledger *l, uint64_t seq)
{
    return &l->tail[seq - l->floor - 1];
}

const struct event *ledger_tail_event(const struct ledger *l, uint64_t seq)
{
    return seq > l->floor && seq <= l->seq ? entry_of(l, seq)->event : NULL;
}

static size_t tail_slot(const struct ledger *l, uint32_t table, int64_t id)
{
    struct {
        int64_t id;
        uint64_t table;
    } key = { id, table };
    return checksum(&key, sizeof key, l->seed) & l->tail_hash_mask;
}

/* Chain the entry of SEQ, a commit that introduces a snapshot, into the hash. */
static void tail_hash_put(struct ledger *l, uint64_t seq)
{
    struct tail_entry *entry = entry_of(l, seq);
    size_t slot = tail_slot(l, entry->event->table, entry->event->snapshot);

    entry->hash_next = l->tail_hash[slot];
    l->tail_hash[slot] = (uint32_t)(seq - l->floor);
}

static bool introduces(const struct event *e)
{
    return is_commit(e) && (e->flags & EVENT_INTRODUCES) && (e->flags & EVENT_HAS_SNAPSHOT);
}

static void tail_hash_all(struct ledger *l)
{
    for (uint64_t seq = l->floor + 1; seq <= l->arrived; seq++)
        if (introduces(entry_of(l, seq)->event))
            tail_hash_put(l, seq);
}

/* Make the hash anew for what the tail holds, with room for COUNT and as much again. */
static int tail_rehash(struct ledger *l, size_t count)
{
    size_t slots = 1024;
    while (slots < count * 2)
        slots *= 2;
    if (!l->tail_hash || slots > l->tail_hash_mask + 1 || slots * 4 < l->tail_hash_mask + 1) {
        uint32_t *fresh = calloc(slots, sizeof *fresh);
        if (!fresh)
            return -ENOMEM;
        free(l->tail_hash);
        l->tail_hash = fresh;
        l->tail_hash_mask = slots - 1;
    } else {
        memset(l->tail_hash, 0, (l->tail_hash_mask + 1) * sizeof *l->tail_hash);
    }
    tail_hash_all(l);
    return 0;
}

/* Room for one more entry; before anything is changed, so that -ENOMEM leaves the ledger as it was. */
static int tail_reserve(struct ledger *l)
{
    size_t count = l->arrived - l->floor;

    if (grow(&l->tail, &l->tail_cap, count, sizeof *l->tail) < 0)
        return -ENOMEM;
    if (!l->tail_hash || count + 1 > l->tail_hash_mask)
        return tail_rehash(l, count);
    return 0;
}

int ledger_reserve(struct ledger *l, size_t count)
{
    size_t all = l->arrived - l->floor + count;

    if (all > l->tail_cap) {
        struct tail_entry *more = realloc(l->tail, all * sizeof *more);
        if (!more)
            return -ENOMEM;
        l->tail = more;
        l->tail_cap = all;
    }
    return !l->tail_hash || all > l->tail_hash_mask ? tail_rehash(l, all) : 0;
}

static void tail_append(struct ledger *l, struct event *e)
{
    struct table *t = ledger_table(l, e->table);

    l->arrived = e->seq;
    *entry_of(l, e->seq) = (struct tail_entry){ e, 0, 0 };
    if (is_commit(e)) {
        entry_of(l, e->seq)->table_prev = t->tail_last;
        t->tail_last = e->seq;
    }
    if (introduces(e))
        tail_hash_put(l, e->seq);
}

void forgotten_free(struct forgotten *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->entries[i].event);
    free(f->entries);
    *f = (struct forgotten){ .count = 0 };
}

/* The tail's oldest GONE entries, with the array that they stand in.  False: there are few, or no memory for another. */
static bool give_away(struct ledger *l, size_t gone, struct forgotten *ret)
{
    size_t rest = l->arrived - l->floor - gone;

    if (!ret || gone <= TRIM_AT_ONCE)
        return false;
    struct tail_entry *fresh = malloc((rest + 64) * sizeof *fresh);
    if (!fresh)
        return false;
    memcpy(fresh, l->tail + gone, rest * sizeof *fresh);
    *ret = (struct forgotten){ l->tail, gone };
    l->tail = fresh;
    l->tail_cap = rest + 64;
    return true;
}

void ledger_trim(struct ledger *l, uint64_t covered, struct forgotten *ret)
{
    assert(covered <= l->seq);
    if (covered <= l->floor)
        return;
    size_t gone = covered - l->floor;
    if (!give_away(l, gone, ret)) {
        for (size_t i = 0; i < gone; i++)
            free(l->tail[i].event);
        memmove(l->tail, l->tail + gone, (l->arrived - covered) * sizeof *l->tail);
    }
    l->floor = covered;
    /* Shrinking or clearing needs no memory; should it fail to shrink, the old table is kept. */
    if (tail_rehash(l, l->arrived - l->floor) < 0) {
        memset(l->tail_hash, 0, (l->tail_hash_mask + 1) * sizeof *l->tail_hash);
        tail_hash_all(l);
    }
}

/* The first commit in the tail that introduced ID of TABLE, not after AT; NULL: none. */
static const struct event *tail_find(const struct ledger *l, uint32_t table, int64_t id, uint64_t at)
{
    const struct event *first = NULL;

    if (!l->tail_hash)
        return NULL;
    for (uint32_t i = l->tail_hash[tail_slot(l, table, id)]; i; i = l->tail[i - 1].hash_next) {
        const struct event *e = l->tail[i - 1].event;
        if (e->table == table && e->snapshot == id && e->seq <= at)
            first = e; /* chains run from the newest to the oldest */
    }
    return first;
}

/* The table's newest commit in the tail with seq < BEFORE; NULL: none. */
static const struct event *tail_before(const struct ledger *l, const struct table *t, uint64_t *walk,
                                       uint64_t before)
{
    (void)t;
    while (*walk > l->floor) {
        const struct tail_entry *entry = entry_of(l, *walk);
        if (entry->event->seq < before)
            return entry->event;
        *walk = entry->table_prev;
    }
    return NULL;
}

/* ---- applying ------------------------------------------------------------------------------------------------------- */

static int set_head(struct table *t, const struct event *e)
{
    char *location = malloc(e->text.len ? e->text.len : 1);
    if (!location)
        return -ENOMEM;
    memcpy(location, e->text.data, e->text.len);
    free((void *)t->head.location.data);
    t->head = (struct head){ e->seq, e->flags, e->snapshot, e->time_us, { location, e->text.len } };
    return 0;
}

static int add_table(struct ledger *l, const struct event *e)
{
    if (e->table != l->tables_count + 1 || ledger_find_name(l, e->text, SEQ_MAX))
        return SKADE_EDAMAGED;
    if (grow(&l->tables, &l->tables_cap, l->tables_count, sizeof *l->tables) < 0)
        return -ENOMEM;
    struct table *t = calloc(1, sizeof *t);
    if (!t)
        return -ENOMEM;
    t->number = e->table;
    t->kind = e->flags & EVENT_STORED ? TABLE_STORED : TABLE_EXTERNAL;
    t->created_seq = e->seq;
    t->dropped_seq = SEQ_MAX;
    int r = name_add(l, e->text, t, e->seq);
    if (r < 0) {
        free(t);
        return r;
    }
    l->tables[l->tables_count++] = t;
    l->living++;
    return 0;
}

static int64_t when(const struct event *e)
{
    char text[TIME_FORMAT_MAX] = "";
    int64_t us = 0;

    if (e->kind != EVENT_COMPACT)
        return e->time_us;
    if (e->text2.len > 0 && e->text2.len < sizeof text)
        memcpy(text, e->text2.data, e->text2.len);
    return time_parse(text, &us) == 0 ? us : 0;
}

static int add_retirement(struct table *t, const struct event *e)
{
    struct retirement *more = realloc(t->retirements, (t->retirements_count + 1) * sizeof *more);
    if (!more)
        return -ENOMEM;
    t->retirements = more;
    more[t->retirements_count++] =
        (struct retirement){ e->seq, e->watermark, e->kind == EVENT_COMPACT, when(e) };
    return 0;
}

/* The same as below, of the parts alone.  The first part has each snapshot once and knows by itself how many there are;
 * in the others the first location has to be told from later ones. */
static uint64_t count_indexed(const struct generation *g, const struct table *t, uint64_t after,
                              uint64_t up_to)
{
    struct found f, first;
    uint64_t count = 0;

    if (g->parts_count > 0) {
        uint64_t end = part_header(g->parts[0]->part)->seg.to_seq;
        int64_t more = part_snapshots(g->parts[0]->part, t->number, after);
        int64_t rest = part_snapshots(g->parts[0]->part, t->number, up_to);
        if (more >= 0 && rest >= 0) {
            count = (uint64_t)(more - rest);
            after = after > end ? after : end;
        }
    }
    while (generation_after(g, t->number, after, &f) == 1 && f.hit.seq <= up_to) {
        after = f.hit.seq;
        if (f.hit.flags & EVENT_INTRODUCES)
            count += generation_search(g, t->number, f.hit.snapshot, SEQ_MAX, &first) == 1 &&
                     first.hit.seq == f.hit.seq;
    }
    return count;
}

/* How many snapshots that could be resolved were introduced in (AFTER, UP_TO]. */
static uint64_t count_introduced(const struct ledger *l, const struct generation *g, const struct table *t,
                                 uint64_t after, uint64_t up_to)
{
    struct found first;
    uint64_t count = g ? count_indexed(g, t, after, up_to) : 0;

    if (g && g->covered > after)
        after = g->covered < up_to ? g->covered : up_to;
    uint64_t walk = t->tail_last;
    for (const struct event *e;
         (e = tail_before(l, t, &walk, up_to + 1 ? up_to + 1 : SEQ_MAX)) && e->seq > after;
         walk = entry_of(l, e->seq)->table_prev)
        if (introduces(e) && tail_find(l, t->number, e->snapshot, SEQ_MAX) == e &&
            !(g && generation_search(g, t->number, e->snapshot, SEQ_MAX, &first) == 1))
            count++;
    return count;
}

static int apply_commit(struct ledger *l, struct table *t, const struct event *e, bool replay,
                        const struct generation *g)
{
    struct found f;

    /* A compaction stands where the commits up to its watermark stood: what came after them stays the head. */
    if ((e->flags & EVENT_MOVES_HEAD) && !(e->kind == EVENT_COMPACT && t->head.seq > e->watermark)) {
        int r = set_head(t, e);
        if (r < 0)
            return r;
    }
    if (!replay && introduces(e) && !tail_find(l, t->number, e->snapshot, SEQ_MAX) &&
        !(g && generation_search(g, t->number, e->snapshot, SEQ_MAX, &f) == 1))
        t->snapshots++;
    return 0;
}

static int apply_retirement(struct ledger *l, struct table *t, const struct event *e, bool replay,
                            const struct generation *g)
{
    uint64_t by, before = table_watermark(t, SEQ_MAX, &by);

    if (e->watermark >= e->seq || e->watermark < before)
        return SKADE_EDAMAGED;
    if (!replay)
        t->snapshots -= count_introduced(l, g, t, before, e->watermark);
    return add_retirement(t, e);
}

/* Events that aren't commits stay in memory for history: they are few. */
static int keep_other(struct ledger *l, const struct event *e)
{
    if (is_commit(e))
        return 0;
    if (grow(&l->others, &l->others_cap, l->others_count, sizeof *l->others) < 0)
        return -ENOMEM;
    struct event *copy = event_copy(e);
    if (!copy)
        return -ENOMEM;
    struct table *t = ledger_table(l, e->table);
    l->others[l->others_count++] = (struct other){ copy, t->events_last };
    t->events_last = (uint32_t)l->others_count;
    return 0;
}

static int keep_compaction(struct ledger *l, const struct event *e, int64_t when_us)
{
    if (grow(&l->compactions, &l->compactions_cap, l->compactions_count, sizeof *l->compactions) < 0)
        return -ENOMEM;
    l->compactions[l->compactions_count++] = (struct compacted){ e->seq, e->watermark, e->table, when_us };
    return 0;
}

static int apply_kind(struct ledger *l, const struct event *e, bool replay, const struct generation *g)
{
    struct table *t = ledger_table(l, e->table);

    if (e->kind == EVENT_CREATE)
        return add_table(l, e);
    if (!t || t->dropped_seq != SEQ_MAX)
        return SKADE_EDAMAGED;
    switch (e->kind) {
    case EVENT_COMMIT:
        t->since_compaction++;
        return apply_commit(l, t, e, replay, g);
    case EVENT_RENAME:
        if (ledger_find_name(l, e->text, SEQ_MAX))
            return SKADE_EDAMAGED;
        name_end(l, t, e->seq);
        return name_add(l, e->text, t, e->seq);
    case EVENT_DROP:
        name_end(l, t, e->seq);
        t->dropped_seq = e->seq;
        t->dropped_us = e->time_us;
        l->living--;
        return 0;
    case EVENT_EXPIRE:
        return apply_retirement(l, t, e, replay, g);
    case EVENT_COMPACT: {
        t->since_compaction = 0;
        int r = apply_retirement(l, t, e, replay, g);
        if (r == 0)
            r = keep_compaction(l, e, when(e));
        return r < 0 ? r : apply_commit(l, t, e, replay, g);
    }
    default:
        return SKADE_EDAMAGED;
    }
}

/* Takes E over, unless REPLAY. */
static int take(struct ledger *l, struct event *e, bool replay, const struct generation *g)
{
    uint64_t seq, content;

    if (e->seq != l->arrived + 1)
        return SKADE_EDAMAGED;
    int r = replay ? 0 : tail_reserve(l);
    if (r == 0)
        r = apply_kind(l, e, replay, g);
    if (r == 0)
        r = keep_other(l, e);
    if (r < 0)
        return r;
    if (!uuid_is_zero(&e->uuid) && !uuids_find(l->uuids, &e->uuid, &seq, &content))
        uuids_add(l->uuids, &e->uuid, e->seq, event_content(e));
    if (replay)
        l->arrived = l->floor = e->seq;
    else
        tail_append(l, e);
    return 0;
}

int ledger_apply(struct ledger *l, struct event *e, bool replay, const struct generation *g)
{
    assert(l->arrived == l->seq);
    int r = take(l, e, replay, g);
    if (r == 0)
        ledger_show(l);
    return r;
}

/* Has T commits that nobody sees yet? */
static bool is_arriving(const struct ledger *l, const struct table *t)
{
    return l->arrived > l->seq && t->arriving.since == l->seq;
}

int ledger_arrive(struct ledger *l, struct event *e, const struct generation *g)
{
    struct table *t = ledger_table(l, e->table);

    assert(e->kind == EVENT_COMMIT);
    if (t && !is_arriving(l, t)) {
        t->arriving.since = l->seq;
        t->arriving.tail_last = t->tail_last;
        t->arriving.snapshots = t->snapshots;
    }
    return take(l, e, false, g);
}

void ledger_show(struct ledger *l)
{
    l->seq = l->arrived;
}

void ledger_count_snapshots(struct ledger *l, const struct generation *g)
{
    for (size_t i = 0; i < l->tables_count; i++) {
        struct table *t = l->tables[i];
        uint64_t by, watermark = table_watermark(t, SEQ_MAX, &by);
        t->snapshots = count_introduced(l, g, t, watermark, SEQ_MAX - 1);
    }
}

uint64_t table_watermark(const struct table *t, uint64_t at, uint64_t *retired_by)
{
    for (size_t i = t->retirements_count; i-- > 0;)
        if (t->retirements[i].seq <= at) {
            *retired_by = t->retirements[i].seq;
            return t->retirements[i].watermark;
        }
    *retired_by = 0;
    return 0;
}

const struct retirement *table_base(const struct table *t, uint64_t at, uint32_t *number)
{
    const struct retirement *base = NULL;

    *number = 0;
    for (size_t i = 0; i < t->retirements_count && t->retirements[i].seq <= at; i++)
        if (t->retirements[i].compaction) {
            base = &t->retirements[i];
            ++*number;
        }
    return base;
}

/* ---- what is seen of it ----------------------------------------------------------------------------------------------- */

/* The moment AT, or now, by what is seen. */
static uint64_t seen(const struct ledger *l, uint64_t at)
{
    return l->arrived > l->seq && at > l->seq ? l->seq : at;
}

/* T's newest commit in the tail that may be seen, so that no question walks past those that may not. */
static uint64_t newest_seen(const struct ledger *l, const struct table *t)
{
    return is_arriving(l, t) ? t->arriving.tail_last : t->tail_last;
}

uint64_t ledger_snapshots(const struct ledger *l, const struct table *t)
{
    return is_arriving(l, t) ? t->arriving.snapshots : t->snapshots;
}

/* ---- questions ---------------------------------------------------------------------------------------------------------- */

static void answer_event(const struct event *e, struct answer *ret)
{
    ret->status = 1;
    ret->table = e->table;
    ret->flags = e->flags;
    ret->kind = e->kind;
    ret->snapshot = e->snapshot;
    ret->seq = e->seq;
    ret->time_us = e->time_us;
    ret->location = e->text;
}

static void answer_found(const struct generation *g, const struct found *f, struct answer *ret)
{
    int len = generation_location(g, f, ret->buffer, sizeof ret->buffer, NULL);

    ret->status = len < 0 ? len : 1;
    ret->table = f->hit.table;
    ret->flags = f->hit.flags;
    ret->kind = f->hit.kind;
    ret->snapshot = f->hit.snapshot;
    ret->seq = f->hit.seq;
    ret->time_us = f->hit.time_us;
    ret->location = (struct bytes){ ret->buffer, len < 0 ? 0 : (size_t)len };
}

static void answer_none(struct answer *ret, uint32_t table, int status)
{
    memset(ret, 0, offsetof(struct answer, buffer));
    ret->status = status;
    ret->table = table;
    ret->location.data = ret->buffer;
}

/* Was table T there at AT? */
static bool was_there(const struct table *t, uint64_t at)
{
    return t && t->created_seq <= at && (t->dropped_seq > at || t->dropped_seq == SEQ_MAX);
}

/* A commit that was found is an answer unless it was retired. */
static int judge(const struct table *t, uint64_t at, struct answer *ret)
{
    if (ret->status == 1 && ret->seq <= table_watermark(t, at, &ret->retired_by))
        ret->status = SKADE_EEXPIRED;
    else
        ret->retired_by = 0;
    return ret->status;
}

int ledger_resolve(const struct ledger *l, const struct generation *g, uint32_t table, int64_t id,
                   uint64_t at, struct answer *ret)
{
    const struct table *t = ledger_table(l, table);
    struct found f;

    at = seen(l, at);
    answer_none(ret, table, was_there(t, at) ? SKADE_ENOSNAPSHOT : SKADE_ENOTABLE);
    ret->snapshot = id;
    if (!was_there(t, at))
        return ret->status;
    int r = g ? generation_search(g, table, id, at, &f) : 0;
    if (r < 0)
        return ret->status = r;
    if (r == 1) {
        answer_found(g, &f, ret);
        return judge(t, at, ret);
    }
    const struct event *e = tail_find(l, table, id, at);
    if (!e)
        return ret->status;
    answer_event(e, ret);
    return judge(t, at, ret);
}

/* The newest commit up to AT that moved the head, in order of sequence. */
static void newest_mover(const struct ledger *l, const struct generation *g, const struct table *t,
                         uint64_t at, struct answer *ret)
{
    struct found f;
    uint64_t walk = newest_seen(l, t);

    for (const struct event *e; (e = tail_before(l, t, &walk, at == SEQ_MAX ? at : at + 1));
         walk = entry_of(l, e->seq)->table_prev)
        if (e->flags & EVENT_MOVES_HEAD) {
            answer_event(e, ret);
            return;
        }
    int r = g ? generation_search_head(g, t->number, at, &f) : 0;
    if (r < 0)
        ret->status = r;
    else if (r == 1)
        answer_found(g, &f, ret);
}

/* RET is a compaction: commits that it carried over come after it in the table, though before it in the log. */
static void carried_head(const struct ledger *l, const struct generation *g, const struct table *t,
                         struct answer *ret)
{
    static struct answer carried;
    uint32_t number;
    const struct retirement *base = table_base(t, ret->seq, &number);

    if (!base || base->seq != ret->seq || ret->seq < 2)
        return;
    answer_none(&carried, t->number, SKADE_ENOSNAPSHOT);
    newest_mover(l, g, t, ret->seq - 1, &carried);
    if (carried.status != 1 || carried.seq <= base->watermark)
        return;
    char *buffer = ret->buffer;
    bool lent = carried.location.data != carried.buffer;
    *ret = carried;
    if (!lent)
        ret->location.data = buffer;
}

int ledger_head(const struct ledger *l, const struct generation *g, uint32_t table, uint64_t at,
                struct answer *ret)
{
    const struct table *t = ledger_table(l, table);

    at = seen(l, at);
    answer_none(ret, table, was_there(t, at) ? SKADE_ENOSNAPSHOT : SKADE_ENOTABLE);
    if (!was_there(t, at))
        return ret->status;
    if (t->head.seq && t->head.seq <= at) {
        ret->status = 1;
        ret->flags = t->head.flags;
        ret->kind = EVENT_COMMIT;
        ret->snapshot = t->head.snapshot;
        ret->seq = t->head.seq;
        ret->time_us = t->head.time_us;
        ret->location = t->head.location;
        return ret->status;
    }
    newest_mover(l, g, t, at, ret);
    if (ret->status == 1 && ret->kind == EVENT_COMPACT)
        carried_head(l, g, t, ret);
    return judge(t, at, ret);
}

/* Is (TIME, SEQ) of E the better answer than RET's, for the greatest or the least? */
static bool better(const struct event *e, const struct answer *ret, bool greatest)
{
    if (ret->status != 1)
        return true;
    if (e->time_us != ret->time_us)
        return greatest == (e->time_us > ret->time_us);
    return greatest == (e->seq > ret->seq);
}

/* Let the table's heads in the tail compete with what RET holds already. */
static void compete(const struct ledger *l, const struct table *t, uint64_t at, int64_t limit_us,
                    bool greatest, struct answer *ret)
{
    uint64_t walk = newest_seen(l, t);

    for (const struct event *e; (e = tail_before(l, t, &walk, at == SEQ_MAX ? at : at + 1));
         walk = entry_of(l, e->seq)->table_prev)
        if ((e->flags & EVENT_MOVES_HEAD) && e->time_us <= limit_us && better(e, ret, greatest))
            answer_event(e, ret);
}

int ledger_as_of(const struct ledger *l, const struct generation *g, uint32_t table, int64_t time_us,
                 uint64_t at, struct answer *ret)
{
    const struct table *t = ledger_table(l, table);
    struct found f;

    at = seen(l, at);
    answer_none(ret, table, was_there(t, at) ? SKADE_ENOSNAPSHOT : SKADE_ENOTABLE);
    if (!was_there(t, at))
        return ret->status;
    int r = g ? generation_search_as_of(g, table, time_us, at, &f) : 0;
    if (r < 0)
        return ret->status = r;
    if (r == 1)
        answer_found(g, &f, ret);
    compete(l, t, at, time_us, true, ret);
    return judge(t, at, ret);
}

int ledger_earliest(const struct ledger *l, const struct generation *g, uint32_t table, uint64_t at,
                    struct answer *ret)
{
    const struct table *t = ledger_table(l, table);
    struct found f;

    at = seen(l, at);
    answer_none(ret, table, was_there(t, at) ? SKADE_ENOSNAPSHOT : SKADE_ENOTABLE);
    if (!was_there(t, at))
        return ret->status;
    int r = g ? generation_search_earliest(g, table, at, &f) : 0;
    if (r < 0)
        return ret->status = r;
    if (r == 1)
        answer_found(g, &f, ret);
    compete(l, t, at, INT64_MAX, false, ret);
    return ret->status;
}

/* ---- beginning again from parts --------------------------------------------------------------------------------------------- */

/* Of a COMPACT that is in the parts: what they don't tell.  Its time here is when it came to be. */
static int restore_compaction(struct ledger *l, const struct event *e)
{
    struct table *t = ledger_table(l, e->table);

    if (!t || t->dropped_seq != SEQ_MAX)
        return SKADE_EDAMAGED;
    int r = apply_retirement(l, t, e, true, NULL);
    if (r < 0)
        return r;
    t->retirements[t->retirements_count - 1].time_us = e->time_us;
    return keep_compaction(l, e, e->time_us);
}

int ledger_restore(struct ledger *l, const struct event *e)
{
    if (e->kind == EVENT_COMMIT || e->seq <= l->seq)
        return SKADE_EDAMAGED;
    int r = e->kind == EVENT_COMPACT ? restore_compaction(l, e) : apply_kind(l, e, true, NULL);
    if (r == 0)
        r = keep_other(l, e);
    if (r == 0)
        l->seq = l->arrived = l->floor = e->seq;
    return r;
}

int ledger_restore_uuid(struct ledger *l, const struct index_uuid *u)
{
    uint64_t seq, content;

    if (uuid_is_zero(&u->uuid) || uuids_find(l->uuids, &u->uuid, &seq, &content))
        return SKADE_EDAMAGED;
    return uuids_add(l->uuids, &u->uuid, u->seq, u->content);
}

/* The head that T has in the parts of G. */
static int restore_head(const struct ledger *l, const struct generation *g, struct table *t)
{
    static struct answer head;

    answer_none(&head, t->number, SKADE_ENOSNAPSHOT);
    newest_mover(l, g, t, SEQ_MAX, &head);
    if (head.status == 1 && head.kind == EVENT_COMPACT)
        carried_head(l, g, t, &head);
    if (head.status == SKADE_ENOSNAPSHOT)
        return 0;
    if (head.status != 1)
        return head.status;
    return set_head(t, &(struct event){ .seq = head.seq,
                                        .flags = head.flags,
                                        .snapshot = head.snapshot,
                                        .time_us = head.time_us,
                                        .text = head.location });
}

static int restore_since_compaction(const struct generation *g, struct table *t)
{
    uint32_t number;
    const struct retirement *base = table_base(t, SEQ_MAX, &number);

    for (size_t i = 0; i < g->parts_count; i++) {
        int64_t rows = part_rows_after(g->parts[i]->part, t->number, base ? base->seq : 0);
        if (rows < 0)
            return (int)rows;
        t->since_compaction += (uint64_t)rows;
    }
    return 0;
}

int ledger_restore_end(struct ledger *l, const struct generation *g, uint64_t covered)
{
    int r = l->seq <= covered && g->covered == covered ? 0 : SKADE_EDAMAGED;

    for (size_t i = 0; r == 0 && i < l->tables_count; i++) {
        r = restore_head(l, g, l->tables[i]);
        if (r == 0)
            r = restore_since_compaction(g, l->tables[i]);
    }
    l->seq = l->arrived = l->floor = covered;
    return r;
}

/* ---- history --------------------------------------------------------------------------------------------------------------- */

void history_of(struct history *h, const struct ledger *l, const struct generation *g, uint32_t table,
                uint64_t before)
{
    const struct table *t = ledger_table(l, table);

    h->ledger = l;
    h->generation = g;
    h->table = table;
    h->before = before;
    h->tail_seq = t ? newest_seen(l, t) : 0;
    h->other = t ? t->events_last : 0;
}

/* The newest commit in the parts before BEFORE, as an event. 1, 0, negative. */
static int part_event(struct history *h)
{
    struct found f;

    int r = h->generation ? generation_before(h->generation, h->table, h->before, &f) : 0;
    if (r != 1)
        return r;
    int len = generation_location(h->generation, &f, h->buffer, sizeof h->buffer, NULL);
    if (len < 0)
        return len;
    h->event = (struct event){ .seq = f.hit.seq,
                               .kind = f.hit.kind,
                               .flags = f.hit.flags,
                               .table = h->table,
                               .snapshot = f.hit.snapshot,
                               .time_us = f.hit.time_us,
                               .text = { h->buffer, (size_t)len },
                               .text2 = { "", 0 } };
    return 1;
}

const struct event *history_next(struct history *h, int *error)
{
    const struct ledger *l = h->ledger;
    const struct event *other = NULL;

    const struct event *newest = tail_before(l, NULL, &h->tail_seq, h->before);
    while (h->other && l->others[h->other - 1].event->seq >= h->before)
        h->other = l->others[h->other - 1].table_prev;
    if (h->other)
        other = l->others[h->other - 1].event;
    if (!newest) {
        int r = part_event(h);
        if (r < 0) {
            *error = r;
            return NULL;
        }
        newest = r == 1 ? &h->event : NULL;
    }
    if (!newest || (other && other->seq > newest->seq))
        newest = other;
    if (newest)
        h->before = newest->seq;
    *error = 0;
    return newest;
}
