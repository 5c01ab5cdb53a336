/*
 * The daemon's side of a tail.
 *
 * What was written is read again here without checks: only our own uid can write it, and it is ours alone.
 */
#include "tail.h"
#include "tail_layout.h"

#include <assert.h>

static uint64_t keys_of(uint32_t room)
{
    return 2ull * room;
}

/* ---- layout -------------------------------------------------------------------------------------------- */

static struct section place(uint64_t *at, uint64_t count, uint64_t elem)
{
    struct section s = { *at, count };
    *at = align_up(*at + count * elem, CACHE_LINE);
    return s;
}

static uint64_t lay_out(struct tail_header *h, uint32_t room, uint32_t lines)
{
    uint64_t at = sizeof *h;

    h->keys = place(&at, keys_of(room), sizeof(uint32_t));
    h->homes = place(&at, room, sizeof(uint32_t));
    h->tables = place(&at, room, sizeof(struct tail_table));
    h->lines = place(&at, lines, TAIL_LINE);
    return at;
}

uint64_t tail_size(uint32_t room, uint32_t lines)
{
    struct tail_header h;
    return lay_out(&h, room, lines);
}

uint32_t tail_lines_usual(void)
{
    return (uint32_t)(TAIL_BYTES - tail_size(TAIL_ROOM, 0)) / TAIL_LINE;
}

static struct tail_header *header(const struct tail_writer *w)
{
    return (struct tail_header *)(void *)w->base;
}

static _Atomic uint32_t *words(const struct tail_writer *w, const struct section *s)
{
    return (_Atomic uint32_t *)(void *)(w->base + s->off);
}

static struct tail_slot *slot_at(const struct tail_writer *w, uint32_t link)
{
    return (struct tail_slot *)(void *)(w->base + header(w)->lines.off) + (link - 1);
}

static struct tail_table *table_at(const struct tail_writer *w, uint32_t link)
{
    return (struct tail_table *)(void *)(w->base + header(w)->tables.off) + (link - 1);
}

void tail_begin(struct tail_writer *w, const struct tail_info *info, void *base)
{
    struct tail_header *h = base;
    size_t after = offsetof(struct seg_header, header_check) + sizeof h->seg.header_check;

    assert(info->room >= 1 && info->room <= TAIL_ROOM_MAX && info->lines >= 1 &&
           info->lines <= TAIL_LINES_MAX);
    *w = (struct tail_writer){ .base = base, .info = *info };
    memcpy(h->seg.magic, FORMAT_MAGIC_TAIL, sizeof h->seg.magic);
    h->seg.major = FORMAT_MAJOR;
    h->seg.header_len = TAIL_HEADER_LEN;
    h->seg.size = lay_out(h, info->room, info->lines);
    h->seg.epoch = info->epoch;
    h->seg.generation = info->generation;
    h->seg.log = info->log;
    h->seg.seed = info->seed;
    h->seg.from_seq = info->from_seq;
    h->seg.header_check = checksum((const uint8_t *)h + after, TAIL_HEADER_LEN - after,
                                   checksum(h, offsetof(struct seg_header, header_check), 0));
    w->slot_seed = h->seg.header_check;
    tail_show(w); /* none, which isn't 0 in the file */
}

/* ---- words --------------------------------------------------------------------------------------------- */

/* Our own: nobody else writes them. */
static uint32_t link_in(const _Atomic uint32_t *word)
{
    return tail_word_link(atomic_load_explicit(word, memory_order_relaxed));
}

/* T1: pairs with read_word() */
static void lead_to(_Atomic uint32_t *word, uint32_t link)
{
    atomic_store_explicit(word, tail_word(link), memory_order_release);
}

/* T2: seen with count.  Whoever sees one of them without the other doesn't use it. */
static void set_time_min(struct tail_table *entry, int64_t time_us)
{
    atomic_store_explicit(&entry->time_min, time_us, memory_order_relaxed);
    atomic_store_explicit(&entry->time_twin, ~time_us, memory_order_relaxed);
}

/* ---- tables -------------------------------------------------------------------------------------------- */

static struct tail_table *add_table(struct tail_writer *w, uint32_t number, _Atomic uint32_t *home)
{
    uint32_t link = ++w->tables; /* there is one for each event */
    struct tail_table *entry = table_at(w, link);

    entry->number = number;
    entry->next = link_in(home);
    entry->check = tail_table_check(entry, w->slot_seed, link - 1);
    set_time_min(entry, INT64_MAX);
    lead_to(home, link);
    return entry;
}

static struct tail_table *find_or_add_table(struct tail_writer *w, uint32_t number)
{
    _Atomic uint32_t *home =
        words(w, &header(w)->homes) + tail_table_home(number, (uint32_t)header(w)->homes.count);

    for (uint32_t link = link_in(home); link != 0; link = table_at(w, link)->next)
        if (table_at(w, link)->number == number)
            return table_at(w, link);
    return add_table(w, number, home);
}

/* ---- slots --------------------------------------------------------------------------------------------- */

static bool is_commit(const struct event *e)
{
    return e->kind == EVENT_COMMIT || e->kind == EVENT_COMPACT;
}

static bool introduces(const struct event *e)
{
    return is_commit(e) && (e->flags & EVENT_INTRODUCES) && (e->flags & EVENT_HAS_SNAPSHOT);
}

static bool is_of_table(const struct tail_slot *slot)
{
    return slot->kind == EVENT_COMMIT || slot->kind == EVENT_COMPACT || slot->kind == EVENT_CREATE;
}

static _Atomic uint32_t *key_word(const struct tail_writer *w, int64_t key)
{
    return words(w, &header(w)->keys) + key_home(key, header(w)->keys.count);
}

/* Has an earlier slot of the chain introduced the snapshot of SLOT? */
static bool is_repeat(const struct tail_writer *w, const struct tail_slot *slot, uint32_t link)
{
    for (; link != 0; link = slot_at(w, link)->key_next) {
        const struct tail_slot *other = slot_at(w, link);
        if (other->kind != EVENT_CREATE && other->table == slot->table && other->snapshot == slot->snapshot)
            return true;
    }
    return false;
}

/* The word that is to lead to SLOT by its key; NULL: none, for it is found by table only. */
static _Atomic uint32_t *chain_by_key(const struct tail_writer *w, const struct event *e,
                                      struct tail_slot *slot)
{
    int64_t key = e->kind == EVENT_CREATE ? slot->snapshot : key_of(e->table, e->snapshot, w->info.seed);
    _Atomic uint32_t *word = key_word(w, key);
    uint32_t newest = link_in(word);

    if (e->kind != EVENT_CREATE && (!introduces(e) || is_repeat(w, slot, newest)))
        return NULL;
    slot->key_next = newest;
    slot->flags |= TAIL_KEYED;
    return word;
}

static void chain_by_table(const struct tail_writer *w, const struct tail_table *table, uint32_t link,
                           struct tail_slot *slot)
{
    slot->table_prev = link_in(&table->newest);
    if (slot->table_prev != 0) {
        const struct tail_slot *prev = slot_at(w, slot->table_prev);
        slot->head = prev->head;
        slot->earlier_max = prev->earlier_max;
        if (prev->flags & EVENT_MOVES_HEAD && prev->time_us > slot->earlier_max)
            slot->earlier_max = prev->time_us;
    }
    if (slot->flags & EVENT_MOVES_HEAD)
        slot->head = link;
}

static void put_text(const struct tail_writer *w, struct bytes text, uint32_t link, struct tail_slot *slot)
{
    slot->text_len = (uint32_t)text.len;
    slot->text_check = tail_text_check(text.data, text.len);
    if (text.len)
        memcpy(slot_at(w, link + 1), text.data, text.len);
}

static struct tail_slot slot_of(const struct tail_writer *w, const struct event *e)
{
    struct tail_slot slot = { .snapshot = e->snapshot,
                              .time_us = e->time_us,
                              .earlier_max = INT64_MIN,
                              .table = e->table,
                              .flags = is_commit(e) ? (uint16_t)e->flags : 0,
                              .kind = (uint16_t)e->kind };

    if (e->kind == EVENT_CREATE)
        slot.snapshot = (int64_t)tail_name_hash(e->text, w->info.seed);
    return slot;
}

/* Lead readers to the slot of LINK.  What they meet is complete. */
static void lead_there(struct tail_table *table, _Atomic uint32_t *word, uint32_t link,
                       const struct tail_slot *slot)
{
    if (slot->flags & EVENT_MOVES_HEAD &&
        slot->time_us < atomic_load_explicit(&table->time_min, memory_order_relaxed))
        set_time_min(table, slot->time_us);
    lead_to(&table->newest, link);
    if (word)
        lead_to(word, link);
}

bool tail_append(struct tail_writer *w, const struct event *e)
{
    struct tail_slot slot = slot_of(w, e);
    struct bytes text = is_of_table(&slot) ? e->text : (struct bytes){ "", 0 };

    assert(w->full || e->seq == tail_seq(w) + 1);
    w->full |= w->slots == w->info.room || tail_lines_of(text.len) > w->info.lines - w->lines;
    if (w->full)
        return false;
    uint32_t link = w->lines + 1;
    w->lines += tail_lines_of(text.len);
    slot.number = ++w->slots;
    put_text(w, text, link, &slot);
    struct tail_table *table = is_of_table(&slot) ? find_or_add_table(w, e->table) : NULL;
    _Atomic uint32_t *word = chain_by_key(w, e, &slot);
    if (table)
        chain_by_table(w, table, link, &slot);
    slot.check = tail_slot_check(&slot, w->slot_seed, link - 1);
    *slot_at(w, link) = slot;
    if (table)
        lead_there(table, word, link, &slot);
    return true;
}

void tail_show(struct tail_writer *w)
{
    atomic_store_explicit(&header(w)->count, w->slots | (uint64_t)~w->slots << 32,
                          memory_order_release); /* T2: pairs with tail_count() */
}
