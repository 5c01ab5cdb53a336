#include "tail.h"

#include "checksum.h"
#include "mix.h"
#include "once.h"
#include "tail_layout.h"

#include <errno.h>

/* ---- opening ------------------------------------------------------------------------------------------- */

static const char *seg_problem(const struct seg_header *h, const uint8_t *head, size_t size)
{
    size_t after = offsetof(struct seg_header, header_check) + sizeof h->header_check;

    if (h->header_len != TAIL_HEADER_LEN)
        return "its header has another length";
    if (h->size != size)
        return "its size isn't what the header says";
    if (h->header_check != checksum(head + after, TAIL_HEADER_LEN - after,
                                    checksum(head, offsetof(struct seg_header, header_check), 0)))
        return "wrong checksum of the header";
    if (h->epoch == 0 || h->generation == 0)
        return "it has no epoch or generation";
    if (h->from_seq > SEQ_MAX - TAIL_ROOM_MAX - 1)
        return "its events have no numbers left";
    return NULL;
}

static bool section_fits(const struct section *s, uint64_t elem, uint64_t most, uint64_t size)
{
    return s->count >= 1 && s->count <= most && s->off % CACHE_LINE == 0 &&
           s->off >= sizeof(struct tail_header) && array_inside(s->off, s->count, elem, size);
}

static bool sections_fit(const struct tail_header *h, uint64_t size)
{
    return section_fits(&h->keys, sizeof(uint32_t), 4 * TAIL_ROOM_MAX, size) &&
           section_fits(&h->homes, sizeof(uint32_t), 4 * TAIL_ROOM_MAX, size) &&
           section_fits(&h->tables, sizeof(struct tail_table), TAIL_ROOM_MAX, size) &&
           section_fits(&h->lines, TAIL_LINE, TAIL_LINES_MAX, size);
}

static void view(struct tail *t, const struct tail_header *h, const uint8_t *base)
{
    t->base = base;
    t->words = (const struct tail_header *)(const void *)base;
    t->epoch = h->seg.epoch;
    t->generation = h->seg.generation;
    t->seed = h->seg.seed;
    t->from_seq = h->seg.from_seq;
    t->slot_seed = h->seg.header_check;
    t->log = h->seg.log;
    t->room = (uint32_t)h->tables.count;
    t->keys = (uint32_t)h->keys.count;
    t->homes = (uint32_t)h->homes.count;
    t->lines = (uint32_t)h->lines.count;
    t->key = (const _Atomic uint32_t *)(const void *)(base + h->keys.off);
    t->home = (const _Atomic uint32_t *)(const void *)(base + h->homes.off);
    t->table = (const struct tail_table *)(const void *)(base + h->tables.off);
    t->line = base + h->lines.off;
}

int tail_open(struct tail *ret, const void *base, size_t size, struct errmsg *msg)
{
    struct tail_header h; /* only what never changes is copied */

    if (size < sizeof h)
        return fail(msg, SKADE_EDAMAGED, "it is no tail: %zu bytes are too few", size);
    copy_once(&h, base, TAIL_HEADER_LEN);
    if (memcmp(h.seg.magic, FORMAT_MAGIC_TAIL, sizeof h.seg.magic) != 0)
        return fail(msg, SKADE_EDAMAGED, "it is no tail: it doesn't begin with %s", FORMAT_MAGIC_TAIL);
    if (h.seg.major != FORMAT_MAJOR)
        return fail(msg, SKADE_EVERSION, "it has format %u, this program reads %u", h.seg.major,
                    FORMAT_MAJOR);
    const char *problem = seg_problem(&h.seg, (const uint8_t *)&h, size);
    if (!problem && !sections_fit(&h, size))
        problem = "a section isn't inside it";
    if (problem)
        return fail(msg, SKADE_EDAMAGED, "it is damaged: %s", problem);
    view(ret, &h, base);
    return 0;
}

/* ---- words and slots ----------------------------------------------------------------------------------- */

/* The link in WORD, *RET.  0; SKADE_EDAMAGED. */
static inline int read_word(const _Atomic uint32_t *word, uint32_t *ret)
{
    uint32_t copy = atomic_load_explicit(word, memory_order_acquire); /* T1: pairs with lead_to() */

    *ret = tail_word_link(copy);
    return copy == tail_word(*ret) ? 0 : SKADE_EDAMAGED;
}

/* The slot of LINK, which is line + 1 and below BOUND.  0 and a copy that was checked; SKADE_EDAMAGED. */
static int read_slot(const struct tail *t, uint32_t link, uint32_t bound, struct tail_slot *ret)
{
    if (link >= bound)
        return SKADE_EDAMAGED;
    const uint8_t *at = t->line + (size_t)(link - 1) * TAIL_LINE;
    __builtin_prefetch(at + TAIL_LINE); /* its text, at least the most of it */
    __builtin_prefetch(at + 2 * TAIL_LINE);
    copy_once(ret, at, sizeof *ret);
    return ret->check == tail_slot_check(ret, t->slot_seed, link - 1) ? 0 : SKADE_EDAMAGED;
}

static void take(const struct tail *t, uint32_t link, const struct tail_slot *slot, struct tail_hit *ret)
{
    *ret = (struct tail_hit){ .seq = t->from_seq + slot->number,
                              .snapshot = slot->snapshot,
                              .time_us = slot->time_us,
                              .table = slot->table,
                              .flags = slot->flags & EVENT_FLAGS,
                              .kind = slot->kind,
                              .line = link - 1,
                              .text_len = slot->text_len,
                              .text_check = slot->text_check };
}

int tail_location(const struct tail *t, const struct tail_hit *hit, char *buf, size_t cap)
{
    if (hit->text_len > LOCATION_MAX || tail_lines_of(hit->text_len) > t->lines - hit->line)
        return SKADE_EDAMAGED;
    if (hit->text_len > cap)
        return -ERANGE;
    if (hit->text_len > 0)
        copy_once(buf, t->line + ((size_t)hit->line + 1) * TAIL_LINE, hit->text_len);
    return tail_text_check(buf, hit->text_len) == hit->text_check ? (int)hit->text_len : SKADE_EDAMAGED;
}

int tail_slot_at(const struct tail *t, uint32_t line, struct tail_slot *ret, uint32_t *next)
{
    int r = line < t->lines ? read_slot(t, line + 1, t->lines + 1, ret) : SKADE_EDAMAGED;
    if (r == 0 && (ret->text_len > LOCATION_MAX || tail_lines_of(ret->text_len) > t->lines - line))
        r = SKADE_EDAMAGED;
    if (r == 0)
        *next = line + tail_lines_of(ret->text_len);
    return r;
}

/* ---- by key -------------------------------------------------------------------------------------------- */

uint32_t tail_home(const struct tail *t, uint32_t table, int64_t id)
{
    return (uint32_t)key_home(key_of(table, id, t->seed), t->keys);
}

static uint32_t name_home(const struct tail *t, uint64_t hash)
{
    return (uint32_t)key_home((int64_t)hash, t->keys);
}

void tail_prefetch_home(const struct tail *t, uint32_t home)
{
    __builtin_prefetch((const void *)&t->key[home]);
}

void tail_prefetch_slot(const struct tail *t, uint32_t home)
{
    uint32_t link = tail_word_link(
        atomic_load_explicit(&t->key[home], memory_order_relaxed)); /* T1: only for a prefetch */

    if (link == 0 || link > t->lines)
        return;
    for (uint32_t i = 0; i < 3; i++)
        __builtin_prefetch(t->line + (size_t)(link - 1 + i) * TAIL_LINE);
}

/* Is SLOT in the right chain?  A word that was damaged leads into another one, or to a slot that is in none. */
static bool belongs(const struct tail *t, const struct tail_slot *slot, uint32_t home)
{
    return slot->flags & TAIL_KEYED &&
           home == (slot->kind == EVENT_CREATE ? name_home(t, (uint64_t)slot->snapshot)
                                               : tail_home(t, slot->table, slot->snapshot));
}

int tail_find(const struct tail *t, uint32_t count, uint32_t table, int64_t id, struct tail_hit *ret)
{
    uint32_t home = tail_home(t, table, id), bound = t->lines + 1, link;
    struct tail_slot slot;

    if (read_word(&t->key[home], &link) < 0) /* T3 */
        return SKADE_EDAMAGED;
    for (; link != 0; bound = link, link = slot.key_next) {
        if (read_slot(t, link, bound, &slot) < 0 || !belongs(t, &slot, home))
            return SKADE_EDAMAGED;
        if (slot.table == table && slot.snapshot == id && slot.kind != EVENT_CREATE) {
            if (slot.number > count)
                return 0; /* only the first of its key is in a chain */
            take(t, link, &slot, ret);
            return 1;
        }
    }
    return 0;
}

static int is_named(const struct tail *t, uint32_t link, const struct tail_slot *slot, struct bytes name)
{
    char buf[NAME_MAX_LEN];
    struct tail_hit hit;

    if (slot->text_len != name.len)
        return 0;
    take(t, link, slot, &hit);
    int len = tail_location(t, &hit, buf, sizeof buf);
    return len < 0 ? SKADE_EDAMAGED : memcmp(buf, name.data, name.len) == 0;
}

int tail_find_name(const struct tail *t, uint32_t count, struct bytes name, uint64_t after, uint32_t *ret)
{
    uint64_t hash = tail_name_hash(name, t->seed);
    uint32_t home = name_home(t, hash), bound = t->lines + 1, link;
    struct tail_slot slot;

    if (read_word(&t->key[home], &link) < 0) /* T3 */
        return SKADE_EDAMAGED;
    for (; link != 0; bound = link, link = slot.key_next) {
        if (read_slot(t, link, bound, &slot) < 0 || !belongs(t, &slot, home))
            return SKADE_EDAMAGED;
        if (slot.kind != EVENT_CREATE || (uint64_t)slot.snapshot != hash || slot.number > count ||
            t->from_seq + slot.number <= after)
            continue;
        int r = is_named(t, link, &slot, name);
        if (r == 1)
            *ret = slot.table;
        if (r != 0)
            return r;
    }
    return 0;
}

/* ---- by table ------------------------------------------------------------------------------------------ */

/* Where TABLE's slots are; NULL in *RET: nowhere. */
static int find_table(const struct tail *t, uint32_t table, const struct tail_table **ret)
{
    uint32_t home = (uint32_t)tail_table_home(table, t->homes), bound = t->room + 1, link;
    struct tail_table entry; /* of its words, none is used */

    *ret = NULL;
    if (read_word(&t->home[home], &link) < 0) /* T3 */
        return SKADE_EDAMAGED;
    for (; link != 0; bound = link, link = entry.next) {
        if (link >= bound)
            return SKADE_EDAMAGED;
        copy_once(&entry, &t->table[link - 1], TAIL_TABLE_FIXED);
        if (entry.check != tail_table_check(&entry, t->slot_seed, link - 1) ||
            tail_table_home(entry.number, t->homes) != home)
            return SKADE_EDAMAGED;
        if (entry.number == table) {
            *ret = &t->table[link - 1];
            return 0;
        }
    }
    return 0;
}

/* A walk over a table's slots, from the newest of COUNT to the oldest. */
struct walk {
    const struct tail *t;
    uint32_t table;
    uint32_t link;  /* of SLOT; 0: there are no more */
    uint32_t bound; /* links only fall */
    struct tail_slot slot;
};

static int step_to(struct walk *w, uint32_t link)
{
    w->bound = w->link == 0 ? w->t->lines + 1 : w->link;
    w->link = link;
    if (link == 0)
        return 0;
    int r = read_slot(w->t, link, w->bound, &w->slot);
    return r == 0 && w->slot.table != w->table ? SKADE_EDAMAGED : r;
}

static int walk_on(struct walk *w)
{
    return step_to(w, w->slot.table_prev);
}

static int walk_begin(struct walk *w, const struct tail *t, uint32_t count, uint32_t table,
                      const struct tail_table *entry)
{
    uint32_t link;

    *w = (struct walk){ .t = t, .table = table };
    int r = read_word(&entry->newest, &link); /* T3 */
    if (r == 0)
        r = step_to(w, link);
    while (r == 0 && w->link != 0 && w->slot.number > count)
        r = walk_on(w);
    return r;
}

/* Stand on TABLE's newest slot.  1, 0: it has none; SKADE_EDAMAGED. */
static int newest(struct walk *w, const struct tail *t, uint32_t count, uint32_t table)
{
    const struct tail_table *entry;

    int r = find_table(t, table, &entry);
    if (r < 0 || !entry)
        return r;
    r = walk_begin(w, t, count, table, entry);
    return r < 0 ? r : w->link != 0;
}

int tail_has_table(const struct tail *t, uint32_t count, uint32_t table)
{
    struct walk w;
    return newest(&w, t, count, table);
}

int tail_head(const struct tail *t, uint32_t count, uint32_t table, struct tail_hit *ret)
{
    struct walk w;

    int r = newest(&w, t, count, table);
    if (r != 1 || w.slot.head == 0)
        return r < 0 ? r : 0;
    if (w.slot.head != w.link)
        r = step_to(&w, w.slot.head);
    if (r < 0 || !(w.slot.flags & EVENT_MOVES_HEAD))
        return SKADE_EDAMAGED;
    if (w.slot.kind == EVENT_COMPACT)
        return -EAGAIN;
    take(t, w.link, &w.slot, ret);
    return 1;
}

/* The walk goes down in sequence, so at equal times the first one that is met is the later one. */
static int latest_by(struct walk *w, int64_t time_us, struct tail_hit *ret)
{
    int found = 0, r = 0;

    for (; r == 0 && w->link != 0; r = walk_on(w)) {
        if (w->slot.flags & EVENT_MOVES_HEAD && w->slot.time_us <= time_us &&
            (!found || w->slot.time_us > ret->time_us)) {
            take(w->t, w->link, &w->slot, ret);
            found = 1;
        }
        if (found && ret->time_us >= w->slot.earlier_max)
            break;
    }
    return r < 0 ? r : found;
}

/* Is TABLE's oldest one later than TIME_US?  It may know of slots past a reader's count: then it is too low, which is no
 * harm; or be about to change, and say nothing. */
static bool begins_after(const struct tail_table *entry, int64_t time_us)
{
    int64_t least = atomic_load_explicit(&entry->time_min, memory_order_relaxed); /* T2, T3 */
    int64_t twin = atomic_load_explicit(&entry->time_twin, memory_order_relaxed); /* T2, T3 */

    return least == ~twin && least > time_us;
}

int tail_as_of(const struct tail *t, uint32_t count, uint32_t table, int64_t time_us, struct tail_hit *ret)
{
    const struct tail_table *entry;
    struct walk w;

    int r = find_table(t, table, &entry);
    if (r < 0 || !entry || begins_after(entry, time_us))
        return r;
    r = walk_begin(&w, t, count, table, entry);
    return r < 0 ? r : latest_by(&w, time_us, ret);
}

int tail_earliest(const struct tail *t, uint32_t count, uint32_t table, struct tail_hit *ret)
{
    struct walk w;
    int found = 0;

    int r = newest(&w, t, count, table);
    if (r != 1)
        return r;
    for (r = 0; r == 0 && w.link != 0; r = walk_on(&w))
        if (w.slot.flags & EVENT_MOVES_HEAD && (!found || w.slot.time_us <= ret->time_us)) {
            take(t, w.link, &w.slot, ret);
            found = 1;
        }
    return r < 0 ? r : found;
}

/* ---- all ----------------------------------------------------------------------------------------------- */

int tail_verify(const struct tail *t, struct errmsg *msg)
{
    char buf[LOCATION_MAX];
    struct tail_slot slot;
    struct tail_hit hit;
    uint32_t line = 0, next = 0;

    int64_t count = tail_count(t);
    if (count < 0)
        return fail(msg, SKADE_EDAMAGED, "it says that it has more events than there is room for");
    for (uint32_t number = 1; number <= count; number++, line = next) {
        int r = tail_slot_at(t, line, &slot, &next);
        if (r == 0 && slot.number == number) {
            take(t, line + 1, &slot, &hit);
            r = tail_location(t, &hit, buf, sizeof buf);
        }
        if (r < 0 || slot.number != number)
            return fail(msg, SKADE_EDAMAGED, "event %u of it is damaged", number);
    }
    return 0;
}
