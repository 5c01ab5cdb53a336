/*
 * Inside of building parts.  A plan goes through the same steps whatever its rows come from:
 *
 *      part_rows.c    from events:       mix the keys, radix sort           \   items in order of their key,
 *      part_merge.c   from other parts:  merge their blocks as they stand   /   extras, tables with templates
 *
 *      part_plan.c    place items in blocks, lay out sections, fill them
 *
 * Rows are named by a `src` until they have a ref: the number of the event, or input << 32 | place in the input.
 */
#ifndef SKADE_PART_PLAN_H
#define SKADE_PART_PLAN_H

#include "part_view.h"

/* Blocks get 6 * 0.78 rows on average: more gaps cost memory, fewer cost neighbours. */
#define PLAN_ROWS_PER_100_BLOCKS 468

/* How many rows ahead memory is asked for. */
#define PLAN_PREFETCH 16

struct plan_item {
    uint64_t key; /* order: unsigned */
    uint64_t src;
};

/* Sort by key, stably, in linear time.  SCRATCH has room for N. */
void plan_sort(struct plan_item *items, size_t n, struct plan_item *scratch);

/* A row, as it will stand in the new part. */
struct plan_row {
    uint32_t table; /* index */
    uint32_t word;  /* with PART_ESCAPE when the location doesn't fit the template */
    uint32_t seq;   /* relative */
    int64_t time_us;
    uint8_t tail[16];
    int64_t snapshot;  /* these two when asked for the whole row */
    struct bytes text; /* borrowed until the next row is asked for */
};

struct plan_table {
    uint32_t number;
    uint32_t order_count;
    uint32_t heads_count;
    uint32_t order_first;
    uint32_t heads_first;
    uint32_t prefix_off;
    uint32_t suffix_off;
    struct template template;
};

/* Where rows come from. */
struct plan_source {
    /* The row SRC; WHOLE: with snapshot and text.  0 or damaged. */
    int (*row)(struct part_plan *plan, uint64_t src, bool whole, struct plan_row *ret);
    /* Write the orders of table INDEX: all refs by seq; times and refs of heads, in any order that is by seq where
     * times are equal; the ref of the newest head.  0 or damaged. */
    int (*order)(struct part_plan *plan, uint32_t index, uint32_t *order, int64_t *times, uint32_t *heads,
                 uint32_t *newest);
    /* Some time of a head, the I-th of N that are spread over the rows; 0: there is none. */
    int (*sample)(struct part_plan *plan, uint64_t i, uint64_t n, int64_t *ret);
    /* Ask memory for the row SRC; NULL: rows are read one after the other anyway. */
    void (*prefetch)(const struct part_plan *plan, uint64_t src);
    void (*free)(struct part_plan *plan);
};

struct plan_texts {
    char *data;
    size_t len;
    size_t capacity;
    uint64_t *slots; /* offset << 16 | length, or UINT64_MAX */
    size_t mask;
};

struct part_plan {
    const struct part_kernel *kernel;
    const struct plan_source *source;
    void *state; /* the source's */
    struct part_info info;
    struct part_header header; /* complete but for the checksums */
    struct plan_item *items;   /* the rows in blocks, by (key, table) */
    struct plan_item *extras;  /* the others; key is the relative seq */
    struct plan_item *scratch; /* for sorting; after plan_layout() for the heads of one table */
    size_t item_count;
    size_t extra_count;
    size_t extra_capacity;
    struct plan_table *tables; /* by number */
    size_t table_count;
    uint32_t *first; /* of each block: its first item */
    char *refs;      /* by plan_ref(): the rows' refs, every ref_stride bytes */
    size_t ref_stride;
    const uint64_t *first_ref; /* of each input */
    struct plan_texts texts;
    bool may_escape; /* some row might not fit its template */
};

/* Make an empty plan over ROWS rows; SKADE_EFULL when it covers too much. */
int plan_new(struct part_plan **ret, const struct part_info *info, const struct plan_source *source,
             uint64_t rows);

/* An array of N, zeroed; not NULL for none. */
void *plan_alloc(size_t n, size_t size);

/* The same for large arrays that will be written anyway: not zeroed, on huge pages if there are any. */
void *plan_alloc_room(size_t n, size_t size);

/* Put row SRC, of relative sequence SEQ, among the extras. */
int plan_add_extra(struct part_plan *plan, uint32_t seq, uint64_t src);

/* Everything about rows and tables is known: decide where all of it stands.  0, -ENOMEM, SKADE_EFULL, damaged. */
int plan_layout(struct part_plan *plan);

/* Turn TEXT into word and tail of ROW by the template of its table: rendered and compared byte by byte, and marked as
 * an escape if it differs. */
void plan_encode(const struct part_plan *plan, struct bytes text, struct plan_row *row);

/* Where the ref of row SRC is kept. */
static inline uint32_t *plan_ref(struct part_plan *plan, uint64_t src)
{
    return (void *)(plan->refs + (plan->first_ref[src >> 32] + (uint32_t)src) * plan->ref_stride);
}

#endif
