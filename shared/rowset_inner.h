/*
 * What the files of the row set share: its data files, how one is opened, which rows of them are dead.
 *
 *   rowset.c       the list of files and what is known of them
 *   rowset_file.c  opening one, and a pool of few that stay open
 *   rowset_dead.c  finding the dead rows
 *   rowset_ranges.c  in which files to look for them
 *   rowset_members.c  among which rows
 *   rowset_list.c  keeping them: numbers by file, in memory or in an unnamed file
 *   rowset_keys.c  a set of keys that says when it is full
 *   rowset_scan.c  cursors and parts
 *   rowset_get.c   the row of a key
 *   rowset_keymap.c  in which file a key is, and where
 *   rowset_near.c  files that stay in memory
 *
 * Files have ordinals, oldest first: those of the base, then those that were committed after it.
 */
#ifndef SKADE_ROWSET_INNER_H
#define SKADE_ROWSET_INNER_H

#include "rowset.h"
#include "sorter.h"

#include <assert.h>

struct key_span; /* between which keys those of a file lie */

/* ---- data files ---------------------------------------------------------------------------------------- */

struct data_file {
    char *path;
    struct uuid uuid; /* that its header must have; zero: not known */
    int64_t time_us;  /* of the commit; of .rows each row has its own */
    uint64_t footer_check;
    uint64_t size, rows, keyed, deletes, raw_bytes; /* once known */
    uint64_t before;                                /* rows in all files before it; once prepared */
    uint64_t dead;         /* index of its first dead row in the list; once prepared */
    uint32_t part;         /* of a .rows file: its number in the manifest, from 1; else 0 */
    int32_t slot;          /* in the pool, -1: not there */
    bool known;            /* by the manifest or because it was open once */
    bool keys_differ;      /* once known: no key is in it twice */
    bool meets;            /* it may have a key of another file, or one twice; see rowset_find_meeting() */
    bool printed;          /* its prints were taken by this search for dead rows */
    struct key_span *keys; /* once known, if there are any */
};

/* ---- dead rows ----------------------------------------------------------------------------------------- */

/* Numbers of the dead rows, by file and then ascending.  Immutable once built; any thread may read it. */
struct dead_list {
    uint64_t *numbers; /* in memory, or NULL and in FD */
    uint64_t count;
    int fd;
};

#define DEAD_WINDOW 512

/* One reader's look at a list. */
struct dead_view {
    const struct dead_list *list;
    uint64_t from, count; /* what WINDOW holds */
    uint64_t window[DEAD_WINDOW];
};

void dead_list_fini(struct dead_list *l);

/* Take what SORTED has, {file, number} each, and note in FILES where each one's begin.  Uses about MEMORY bytes, or a file
 * without a name in TEMP_DIR. */
int dead_list_build(struct dead_list *l, struct sorter *sorted, struct data_file *files, size_t n,
                    size_t memory, int temp_dir, struct errmsg *msg);

/* The number at INDEX < count. */
int dead_list_at(struct dead_view *v, uint64_t index, uint64_t *ret, struct errmsg *msg);

/* The first index in [from, to) whose number is >= NUMBER, or TO. */
int dead_list_find(struct dead_view *v, uint64_t from, uint64_t to, uint64_t number, uint64_t *ret,
                   struct errmsg *msg);

/* ---- ranges of keys ------------------------------------------------------------------------------------ */

/* To be freed; 0 or -ENOMEM. */
int key_span_make(struct key_span **ret, const struct key_bound *low, const struct key_bound *high);

bool key_span_says(const struct key_span *s, const struct key_bound *low, const struct key_bound *high);

/* May KEY lie there? */
bool key_span_may_have(const struct key_span *s, struct bytes key);

/* Are all keys in A before all in B? */
bool key_span_before(const struct key_span *a, const struct key_span *b);

/* From the lowest to the highest end of some spans, which it borrows. */
struct key_hull {
    const struct key_span *lowest, *highest;
};

void key_hull_add(struct key_hull *h, const struct key_span *span);
bool key_hull_meets(const struct key_hull *h, const struct key_span *span);

/* Set MEETS of all files, which are known. */
int rowset_find_meeting(struct rowset *s, struct errmsg *msg);

/* ---- a set of keys ------------------------------------------------------------------------------------- */

/* Keys are compared in full.  When one didn't fit, the set is full and stays so until it is cleared. */
struct key_set {
    uint64_t *slots; /* upper half: part of the hash; lower half: 1 + where the key stands, in words */
    uint32_t *words; /* the keys: length, bytes, padding */
    uint64_t slot_count, word_count;
    uint64_t used, count;
    uint64_t seed;
    bool full;
};

enum key_verdict { KEY_NEW, KEY_KNOWN, KEY_LEFT };

int key_set_init(struct key_set *set, size_t memory);
void key_set_fini(struct key_set *set);
void key_set_clear(struct key_set *set);

/* KEY_NEW: it was not in it and is now.  KEY_LEFT: it is not in it and there is no room. */
enum key_verdict key_set_add(struct key_set *set, struct bytes key);
bool key_set_has(const struct key_set *set, struct bytes key);

/* ---- point reads: where rows are, and files that stay in memory ----------------------------------------------- */

struct keymap_slot {
    int64_t hash;
    uint64_t where; /* file + 1 in the upper 24 bits, place below; 0: free */
};

struct keymap {
    struct keymap_slot *slots;
    uint64_t capacity, used, seed; /* CAPACITY is a power of two, or 0 */
    unsigned shift;
    size_t limit;       /* bytes of the slots; while they grow half as many more are there */
    uint64_t *unlisted; /* a bit for each file that wasn't taken in */
    size_t unlisted_words;
};

void keymap_fini(struct keymap *m);
size_t keymap_bytes(const struct keymap *m);
/* The most that it takes while COUNT keys more are taken in. */
size_t keymap_needs(const struct keymap *m, uint64_t count);

/* Take in the keys of FILE, whose places are less than SIZE and multiples of UNIT.  One that doesn't fit is noted as such.
 * 0 or -ENOMEM. */
int keymap_add(struct keymap *m, uint32_t file, uint64_t size, unsigned unit,
               const struct entry_index *index);

/* Where the newest row with HASH is, of the files that were taken in: *PLACE counts units. */
bool keymap_find(const struct keymap *m, int64_t hash, uint32_t *file, uint64_t *place);

/* The newest file below BELOW that was added and not taken in; -1: none. */
int64_t keymap_unlisted_below(const struct keymap *m, uint64_t below);

struct near_chunk;

struct near_item {
    struct near_item *next; /* in its chunk */
    struct near_chunk *chunk;
    uint32_t file;
    uint32_t number; /* of BLOCK in its file */
    size_t bytes;
    struct entry_bytes whole;  /* a .entries file; or */
    struct entry_block *block; /* a block of a .rows file */
};

/* Memory that several items share, and that is given up as a whole. */
struct near_chunk {
    uint8_t *data;
    size_t size, filled;
    struct near_item *items;
    bool used; /* since the hand came by */
};

struct near_file {
    struct near_item *whole; /* NULL: it isn't near */
    struct near_item **blocks;
    uint64_t blocks_count;
    uint32_t rows_alone; /* read since it was near last, or when there was room */
};

/* What is in memory. */
struct near {
    struct near_file *files; /* by ordinal */
    size_t files_room;
    struct near_chunk **chunks; /* the last one made comes last, and is filled */
    size_t count, room, hand;
    size_t used;        /* bytes of chunks */
    size_t block_bytes; /* of the last block that came near */
};

void near_fini(struct near *n);

/* Lent until the next rowset_bring_...(); NULL: it isn't near. */
struct near_item *near_whole(const struct near *n, size_t i);
struct near_item *near_block(const struct near *n, size_t i, uint64_t number);

/* Give up what stands in the way of a keymap of KEYMAP bytes. */
void near_make_way(struct rowset *s, size_t keymap);

/* Bring the .entries file I, or a block of the .rows file I, which isn't near, into memory, if that can be.  0 in any case,
 * or negative when it can't be read. */
int rowset_bring_near(struct rowset *s, size_t i, struct errmsg *msg);
int rowset_bring_block_near(struct rowset *s, size_t i, uint64_t number, struct errmsg *msg);

/* ---- the set ------------------------------------------------------------------------------------------- */

#define POOL_SLOTS 64

struct pool_slot {
    struct entry_file *file;
    struct entry_cursor *cursor;
    size_t ordinal;
    uint64_t used; /* when, counted in uses */
};

struct rowset {
    struct uuid log;
    uint32_t table;
    uid_t owner;
    size_t memory;
    char *temp_dir;
    int (*cancelled)(void *arg);
    bool (*held)(void *arg);
    void *held_arg;
    void *arg;

    struct data_file *files;
    size_t n, base_n;
    uint64_t manifest_bytes; /* of the base */
    bool prepared;
    uint64_t entries; /* in all files, once prepared */
    struct dead_list dead;

    struct pool_slot pool[POOL_SLOTS]; /* for rowset_get() */
    unsigned pool_limit, pool_count;
    uint64_t pool_uses;

    struct keymap keymap; /* of the files [mapped_from, mapped_to) */
    size_t mapped_from, mapped_to;
    struct near near;
    struct entry_cursor *found; /* that the last rowset_get() got its row from */
};

/* -ECANCELED if the caller wants no more. */
int rowset_cancelled(struct rowset *s, struct errmsg *msg);

/* Index of the first dead row of the file after FILE. */
uint64_t rowset_dead_end(const struct rowset *s, size_t file);

/* Read the counts of all files that aren't known yet. */
int rowset_learn(struct rowset *s, struct errmsg *msg);

/* ---- finding the dead rows ------------------------------------------------------------------------------ */

/* Shares of the budget, in sixteenths.  A batch has as many suspects as keys of about 30 bytes fit into the set. */
enum share {
    SHARE_PRINTS = 6, /* gone before the newer ones come */
    SHARE_WANTED = 4, /* gone before the set of keys comes */
    SHARE_NEWER = 6,
    SHARE_OLDER = 2,
    SHARE_BATCH = 2,
    SHARE_LEFT = 1,
    SHARE_DEAD = 1,
    SHARE_KEYS = 4,
    SHARE_LIST = 8 /* everything else but the sorted dead rows is gone by then */
};

static inline size_t rowset_share(const struct rowset *s, enum share share)
{
    return s->memory / 16 * share;
}

struct member {
    int64_t hash;
    uint64_t file, place;
};

struct members {
    struct rowset *set;
    int temp_dir;
    unsigned file_bits; /* of a print; the others are the upper ones of a hash */
    struct sorter *prints, *wanted;
    struct sorter *newer, *older;
    const uint64_t *newer_head, *older_head; /* of the merge; NULL: at its end */
    unsigned steps;
};

/* Gather them: 1, or 0 if there are none, and then nothing is dead.  Learns on the way what the files' counts are.
 * members_close() after failure, too. */
int members_open(struct members *m, struct rowset *s, int temp_dir, struct errmsg *msg);
void members_close(struct members *m);

/* 1 and the one with the lowest hash, 0 at the end. */
int members_next(struct members *m, struct member *ret, struct errmsg *msg);

/* Find the dead rows, and what is known of files on the way. */
int rowset_find_dead(struct rowset *s, struct errmsg *msg);

/* ---- opening files ---------------------------------------------------------------------------------------- */

/* Open data file I: it is what the log means, belongs to whom it should, and says what it said before. */
int rowset_file_open(struct rowset *s, size_t i, struct entry_file **ret, struct errmsg *msg);

/* A regular file at PATH that may be read and that OWNER or root owns: a descriptor, and what it is in *ST, or negative. */
int rowset_open_path(const struct rowset *s, const char *path, struct stat *st, struct errmsg *msg);

/* Data file I in the pool, until another one pushes it out. */
int rowset_pool_get(struct rowset *s, size_t i, struct pool_slot **ret, struct errmsg *msg);
void rowset_pool_fini(struct rowset *s);

#endif
