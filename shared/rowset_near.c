/*
 * What stays in memory for point reads: .entries files as a whole, and blocks of .rows files, unpacked.
 *
 *      chunks   | file | block | file | ...  |   | file | ... |      made one after the other, each given up as a whole
 *
 * What a get comes to is brought near if the budget has room.  It is read and not mapped: a disk that fails later is then
 * an error, not SIGBUS, and no look costs a fault.  When there is no room a hand goes round: a chunk that was asked for
 * since it came by last stays this time, and the get reads its row alone; one that wasn't goes.  A file that would send
 * others away comes only when so many rows were read from it alone that reading it whole costs no more than they did: so
 * what is asked for often stays, and a table larger than the budget costs at most twice what it would without one.
 *
 * Chunks are as large as the processor's large pages when the budget has many of them: each look goes to another page.
 */
#include "rowset_inner.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define SHARE 8      /* what takes more than this part of the budget is one of few */
#define CHUNKS_MIN 8 /* so many large ones at least, or they are as large as what is in them */
#define HUGE ((size_t)2 << 20)
#define ROW_ALONE 4096 /* bytes that are surely read in the time that a row alone takes, its file opened */

static void chunk_free(struct near_chunk *c)
{
    for (struct near_item *item; (item = c->items);) {
        c->items = item->next;
        free(item);
    }
    free(c->data);
    free(c);
}

void near_fini(struct near *n)
{
    for (size_t i = 0; i < n->count; i++)
        chunk_free(n->chunks[i]);
    for (size_t i = 0; i < n->files_room; i++)
        free(n->files[i].blocks);
    free(n->files);
    free(n->chunks);
    *n = (struct near){ 0 };
}

struct near_item *near_whole(const struct near *n, size_t i)
{
    return i < n->files_room ? n->files[i].whole : NULL;
}

struct near_item *near_block(const struct near *n, size_t i, uint64_t number)
{
    if (i >= n->files_room || number >= n->files[i].blocks_count)
        return NULL;
    return n->files[i].blocks[number];
}

/* ---- room ---------------------------------------------------------------------------------------------- */

static struct near_item **place_of(const struct near *n, const struct near_item *item)
{
    struct near_file *f = &n->files[item->file];

    return item->block ? &f->blocks[item->number] : &f->whole;
}

static void give_up(struct near *n, size_t at)
{
    struct near_chunk *c = n->chunks[at];

    for (struct near_item *item = c->items; item; item = item->next)
        *place_of(n, item) = NULL;
    n->used -= c->size;
    n->count--;
    memmove(&n->chunks[at], &n->chunks[at + 1], (n->count - at) * sizeof n->chunks[0]);
    chunk_free(c);
}

static size_t limit_of(const struct rowset *s)
{
    return s->memory - keymap_bytes(&s->keymap);
}

/* Is there room for SIZE bytes more, now that the hand went on as far as it could? */
static bool make_room(struct rowset *s, size_t size)
{
    struct near *n = &s->near;
    size_t limit = limit_of(s);

    while (n->count > 0 && n->used + size > limit) {
        if (n->hand >= n->count)
            n->hand = 0;
        struct near_chunk *there = n->chunks[n->hand];
        if (there->used) {
            there->used = false;
            n->hand++;
            return false;
        }
        give_up(n, n->hand);
    }
    return n->used + size <= limit;
}

void near_make_way(struct rowset *s, size_t keymap)
{
    while (s->near.count > 0 && s->near.used + keymap > s->memory)
        give_up(&s->near, s->near.count - 1);
}

static size_t chunk_size(const struct rowset *s, size_t bytes)
{
    return bytes <= HUGE / 2 && limit_of(s) >= CHUNKS_MIN * HUGE ? HUGE : bytes;
}

static bool fits(const struct near *n, size_t bytes)
{
    const struct near_chunk *last = n->count ? n->chunks[n->count - 1] : NULL;

    return last && last->size - last->filled >= bytes;
}

/* Would BYTES, a multiple of 64, have a place now?  Makes room for them. */
static bool has_room(struct rowset *s, size_t bytes)
{
    return bytes <= s->memory / SHARE && (fits(&s->near, bytes) || make_room(s, chunk_size(s, bytes)));
}

/* The same without giving anything up. */
static bool has_free_room(const struct rowset *s, size_t bytes)
{
    return bytes <= s->memory / SHARE &&
           (fits(&s->near, bytes) || s->near.used + chunk_size(s, bytes) <= limit_of(s));
}

static int add_chunk(struct near *n, size_t size)
{
    if (n->count == n->room) {
        size_t room = n->room ? n->room * 2 : 64;
        struct near_chunk **chunks = realloc(n->chunks, room * sizeof *chunks);
        if (!chunks)
            return -ENOMEM;
        n->chunks = chunks;
        n->room = room;
    }
    struct near_chunk *c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    c->data = aligned_alloc(size == HUGE ? HUGE : CACHE_LINE, size);
    if (!c->data) {
        free(c);
        return -ENOMEM;
    }
    if (size == HUGE)
        madvise(c->data, size, MADV_HUGEPAGE);
    c->size = size;
    n->used += size;
    n->chunks[n->count++] = c;
    return 0;
}

/* ---- places -------------------------------------------------------------------------------------------- */

static int reserve_file(struct near *n, size_t i)
{
    if (i < n->files_room)
        return 0;
    size_t room = i + 1 + i / 2;
    struct near_file *files = realloc(n->files, room * sizeof *files);
    if (!files)
        return -ENOMEM;
    memset(files + n->files_room, 0, (room - n->files_room) * sizeof *files);
    n->files = files;
    n->files_room = room;
    return 0;
}

/* A new item of file I with a place of BYTES, for which there is room; NULL: no memory, which is as if there were none. */
static struct near_item *make_item(struct rowset *s, size_t i, size_t bytes)
{
    struct near *n = &s->near;

    if (reserve_file(n, i) < 0 || (!fits(n, bytes) && add_chunk(n, chunk_size(s, bytes)) < 0))
        return NULL;
    struct near_item *item = calloc(1, sizeof *item);
    if (!item)
        return NULL;
    item->chunk = n->chunks[n->count - 1];
    item->file = (uint32_t)i;
    item->bytes = bytes;
    return item;
}

static void *memory_of(const struct near_item *item)
{
    return item->chunk->data + item->chunk->filled;
}

static void settle(struct near *n, struct near_item *item)
{
    struct near_chunk *c = item->chunk;

    *place_of(n, item) = item;
    item->next = c->items;
    c->items = item;
    c->filled += item->bytes;
    c->used = true;
}

/* ---- bringing ------------------------------------------------------------------------------------------ */

/* Has file I earned its place?  One more row of it is asked for. */
static bool is_worth_room(struct rowset *s, size_t i, size_t bytes)
{
    struct near_file *f = &s->near.files[i];

    if (!has_free_room(s, bytes) && ++f->rows_alone < bytes / ROW_ALONE)
        return false;
    f->rows_alone = 0;
    return true;
}

static int bring_whole(struct rowset *s, size_t i, struct entry_file *f, struct errmsg *msg)
{
    size_t bytes = align_up(entry_file_footer(f)->data_end, CACHE_LINE);

    if (reserve_file(&s->near, i) < 0 || !is_worth_room(s, i, bytes))
        return 0;
    struct near_item *item = has_room(s, bytes) ? make_item(s, i, bytes) : NULL;
    if (!item)
        return 0;
    int r = entry_file_bytes(f, memory_of(item), &item->whole, msg);
    if (r < 0) {
        free(item);
        return r;
    }
    settle(&s->near, item);
    return 0;
}

int rowset_bring_near(struct rowset *s, size_t i, struct errmsg *msg)
{
    struct pool_slot *slot;

    int r = rowset_pool_get(s, i, &slot, msg);
    return r < 0 ? r : bring_whole(s, i, slot->file, msg);
}

static int reserve_blocks(struct near *n, size_t i, uint64_t count)
{
    if (reserve_file(n, i) < 0)
        return -ENOMEM;
    if (n->files[i].blocks)
        return 0;
    n->files[i].blocks = calloc(count, sizeof n->files[i].blocks[0]);
    if (!n->files[i].blocks)
        return -ENOMEM;
    n->files[i].blocks_count = count;
    return 0;
}

/* Keep BLOCK, which is given, if it fits. */
static void keep_block(struct rowset *s, size_t i, uint64_t number, struct entry_block *block)
{
    size_t bytes = align_up(entry_block_bytes(block), CACHE_LINE);
    struct near_item *item = has_room(s, bytes) ? make_item(s, i, bytes) : NULL;

    s->near.block_bytes = bytes; /* the next one will have about as many */
    if (!item) {
        free(block);
        return;
    }
    item->number = (uint32_t)number;
    item->block = entry_block_move(block, memory_of(item));
    settle(&s->near, item);
}

int rowset_bring_block_near(struct rowset *s, size_t i, uint64_t number, struct errmsg *msg)
{
    struct entry_block *block = NULL;
    struct pool_slot *slot;

    if (!has_room(s, s->near.block_bytes))
        return 0;
    int r = rowset_pool_get(s, i, &slot, msg);
    if (r < 0)
        return r;
    uint64_t count = entry_file_footer(slot->file)->blocks.count;
    if (number >= count || count > UINT32_MAX || reserve_blocks(&s->near, i, count) < 0)
        return 0; /* who reads its row alone says what is wrong */
    r = entry_block_take(slot->cursor, number, &block, msg);
    if (r == 1)
        keep_block(s, i, number, block);
    return r < 0 ? r : 0;
}
