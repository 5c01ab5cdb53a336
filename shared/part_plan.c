/*
 * Building parts: placing rows in blocks, laying out sections, filling them.  See part_plan.h.
 */
#include "part_plan.h"

#include "checksum.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE (2ul << 20)

void *plan_alloc(size_t n, size_t size)
{
    return calloc(n ? n : 1, size);
}

void *plan_alloc_room(size_t n, size_t size)
{
    if (n > SIZE_MAX / 2 / size)
        return NULL;
    if (n * size < 2 * HUGE_PAGE)
        return malloc(n * size + 1);
    size_t rounded = align_up(n * size, HUGE_PAGE);
    void *room = aligned_alloc(HUGE_PAGE, rounded);
    if (room)
        madvise(room, rounded, MADV_HUGEPAGE); /* without it the first touch of every 4 KiB is a fault */
    return room;
}

int plan_new(struct part_plan **ret, const struct part_info *info, const struct plan_source *source,
             uint64_t rows)
{
    assert(info->from_seq <= info->to_seq);
    if (rows > PART_ROWS_MAX || info->to_seq - info->from_seq > UINT32_MAX)
        return SKADE_EFULL;
    struct part_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return -ENOMEM;
    plan->kernel = part_kernel_of(part_isa_best());
    plan->source = source;
    plan->info = *info;
    plan->header.rows = rows;
    *ret = plan;
    return 0;
}

void part_plan_free(struct part_plan *plan)
{
    if (!plan)
        return;
    plan->source->free(plan);
    free(plan->items);
    free(plan->extras);
    free(plan->scratch);
    free(plan->tables);
    free(plan->first);
    free(plan->texts.data);
    free(plan->texts.slots);
    free(plan);
}

uint64_t part_plan_size(const struct part_plan *plan)
{
    return plan->header.seg.size;
}

int plan_add_extra(struct part_plan *plan, uint32_t seq, uint64_t src)
{
    if (plan->extra_count == plan->extra_capacity) {
        size_t capacity = plan->extra_capacity ? plan->extra_capacity * 2 : 64;
        struct plan_item *extras = realloc(plan->extras, capacity * sizeof *extras);
        if (!extras)
            return -ENOMEM;
        plan->extras = extras;
        plan->extra_capacity = capacity;
    }
    plan->extras[plan->extra_count++] = (struct plan_item){ .key = seq, .src = src };
    return 0;
}

void plan_encode(const struct part_plan *plan, struct bytes text, struct plan_row *row)
{
    const struct template *t = &plan->tables[row->table].template;
    struct template_values values;
    char rendered[LOCATION_MAX];
    memset(row->tail, 0, sizeof row->tail);
    row->word &= ~(PART_NUMBER | PART_ESCAPE);
    bool fits = template_fit(t, text, &values) &&
                plan->kernel->render(t, values.number, values.uuid.b, rendered, text.len) == text.len &&
                bytes_equal(text, (struct bytes){ rendered, text.len });
    if (!fits) {
        row->word |= PART_ESCAPE;
        return;
    }
    row->word |= values.number;
    memcpy(row->tail, values.uuid.b, sizeof row->tail);
}

/* ---- placing ------------------------------------------------------------------------------------------------
 *
 * One pass over the sorted items.  Those of a home, behind what earlier homes left over, fill it; what is too much goes
 * back into the gap of the block before (its smallest keys, so that order is kept), the rest is left over.  So nothing
 * leaves a home that isn't full, and nothing goes back farther than one block.
 */

static uint64_t home_of(const struct part_plan *plan, size_t item)
{
    return key_home((int64_t)(plan->items[item].key ^ MIX_SIGN), plan->header.homes);
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* BLOCK begins with item AT: how far is that from its home?  Items behind are nearer to theirs. */
static void note_reach(struct part_plan *plan, uint64_t block, size_t at)
{
    uint64_t home = home_of(plan, at);
    if (block > home && block - home > plan->header.reach)
        plan->header.reach = (uint32_t)(block - home);
}

/* Set first[] of every block and return how many there are. */
static uint64_t place_items(struct part_plan *plan)
{
    size_t at = 0;
    size_t end = 0;
    size_t room_before = 0;
    uint64_t block = 0;
    for (; block < plan->header.homes || at < plan->item_count; block++) {
        bool left_over = at < end;
        while (end < plan->item_count && home_of(plan, end) <= block)
            end++;
        if (end - at > PART_SLOTS)
            at += min_size(room_before, end - at - PART_SLOTS);
        if (left_over)
            note_reach(plan, block, at);
        plan->first[block] = (uint32_t)at;
        size_t count = min_size(PART_SLOTS, end - at);
        at += count;
        room_before = PART_SLOTS - count;
    }
    plan->first[block] = (uint32_t)at;
    return block;
}

static int place(struct part_plan *plan)
{
    uint64_t homes = (plan->item_count * 100ull + PLAN_ROWS_PER_100_BLOCKS - 1) / PLAN_ROWS_PER_100_BLOCKS;
    plan->header.homes = homes ? homes : 1;
    /* If all items left their homes they would need so many blocks more. */
    size_t blocks = plan->header.homes + plan->item_count / PART_SLOTS + 1;
    plan->first = plan_alloc_room(blocks + 1, sizeof *plan->first);
    if (!plan->first)
        return -ENOMEM;
    plan->header.blocks.count = place_items(plan);
    assert(plan->header.blocks.count <= blocks);
    return plan->header.blocks.count * PART_SLOTS > PART_ROWS_MAX ? SKADE_EFULL : 0;
}

/* ---- times: rows in blocks keep 48 bits, nine years ------------------------------------------------------ */

#define TIME_SAMPLES 512

static int compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The base from which 48 bits reach most of the N sorted times; what is to spare is shared by both sides. */
static int64_t best_base(const int64_t *times, size_t n)
{
    size_t best = 0;
    size_t best_first = 0;
    for (size_t first = 0, end = 0; first < n; first++) {
        while (end < n && (uint64_t)times[end] - (uint64_t)times[first] <= PART_TIME_MAX)
            end++;
        if (end - first > best) {
            best = end - first;
            best_first = first;
        }
    }
    uint64_t low = (uint64_t)times[best_first];
    uint64_t span = (uint64_t)times[best_first + best - 1] - low;
    uint64_t below = low - (uint64_t)INT64_MIN;
    uint64_t spare = (PART_TIME_MAX - span) / 2;
    return (int64_t)(low - (spare < below ? spare : below));
}

static void choose_time_base(struct part_plan *plan)
{
    struct part_header *h = &plan->header;
    int64_t samples[TIME_SAMPLES];
    size_t count = 0;
    h->time_base = h->time_min;
    if ((uint64_t)h->time_max - (uint64_t)h->time_min <= PART_TIME_MAX)
        return;
    for (size_t i = 0; i < TIME_SAMPLES; i++)
        count += (size_t)plan->source->sample(plan, i, TIME_SAMPLES, &samples[count]);
    if (count == 0)
        return;
    qsort(samples, count, sizeof *samples, compare_times);
    h->time_base = best_base(samples, count);
}

static bool time_fits(const struct part_plan *plan, int64_t time_us)
{
    return time_us >= plan->header.time_base &&
           (uint64_t)time_us - (uint64_t)plan->header.time_base <= PART_TIME_MAX;
}

/* ---- rows, as blocks and extras have them ---------------------------------------------------------------- */

/* The row SRC, decided: whole if it is an escape. */
static int block_row(struct part_plan *plan, uint64_t src, struct plan_row *ret)
{
    int r = plan->source->row(plan, src, false, ret);
    if (r < 0 || (!(ret->word & PART_ESCAPE) && time_fits(plan, ret->time_us)))
        return r;
    r = plan->source->row(plan, src, true, ret);
    ret->word = (ret->word & ~PART_NUMBER) | PART_ESCAPE;
    return r;
}

static int extra_row(struct part_plan *plan, uint64_t src, struct plan_row *ret)
{
    return plan->source->row(plan, src, true, ret);
}

static uint64_t heap_need(const struct plan_row *row)
{
    return row->word & PART_ESCAPE ? sizeof row->time_us + row->text.len : 0;
}

/* How large is the heap?  Most parts have none and need not look. */
static int measure_heap(struct part_plan *plan)
{
    struct part_header *h = &plan->header;
    if (!plan->may_escape && (uint64_t)h->time_max - (uint64_t)h->time_min <= PART_TIME_MAX)
        return 0;
    struct plan_row row;
    int r = 0;
    for (size_t i = 0; r == 0 && i < plan->item_count; i++) {
        r = block_row(plan, plan->items[i].src, &row);
        h->heap.count += r < 0 ? 0 : heap_need(&row);
    }
    for (size_t i = 0; r == 0 && i < plan->extra_count; i++) {
        r = extra_row(plan, plan->extras[i].src, &row);
        h->heap.count += r < 0 ? 0 : heap_need(&row);
    }
    return r;
}

/* ---- texts that don't fit into their tables: each once --------------------------------------------------- */

static int texts_init(struct plan_texts *texts, size_t count)
{
    size_t slots = 16;
    while (slots < count * 2)
        slots *= 2;
    texts->slots = malloc(slots * sizeof *texts->slots);
    if (!texts->slots)
        return -ENOMEM;
    memset(texts->slots, 0xff, slots * sizeof *texts->slots);
    texts->mask = slots - 1;
    return 0;
}

static int texts_append(struct plan_texts *texts, const char *data, size_t len)
{
    if (texts->len + len > UINT32_MAX)
        return SKADE_EFULL;
    if (texts->len + len > texts->capacity) {
        size_t capacity = (texts->len + len) * 2;
        char *grown = realloc(texts->data, capacity);
        if (!grown)
            return -ENOMEM;
        texts->data = grown;
        texts->capacity = capacity;
    }
    memcpy(texts->data + texts->len, data, len);
    texts->len += len;
    return 0;
}

/* Find or append; *RET is the offset. */
static int texts_add(struct plan_texts *texts, const char *data, uint16_t len, uint32_t *ret)
{
    *ret = 0;
    if (len == 0)
        return 0;
    size_t at = checksum(data, len, 0) & texts->mask;
    for (; texts->slots[at] != UINT64_MAX; at = (at + 1) & texts->mask) {
        uint64_t off = texts->slots[at] >> 16;
        if ((uint16_t)texts->slots[at] == len && memcmp(texts->data + off, data, len) == 0) {
            *ret = (uint32_t)off;
            return 0;
        }
    }
    *ret = (uint32_t)texts->len;
    texts->slots[at] = (uint64_t)texts->len << 16 | len;
    return texts_append(texts, data, len);
}

static int collect_texts(struct part_plan *plan)
{
    int r = texts_init(&plan->texts, plan->table_count * 2);
    for (size_t i = 0; r == 0 && i < plan->table_count; i++) {
        struct plan_table *t = &plan->tables[i];
        if (part_text_fits(t->template.prefix_len, t->template.suffix_len))
            continue;
        r = texts_add(&plan->texts, t->template.prefix, t->template.prefix_len, &t->prefix_off);
        if (r == 0)
            r = texts_add(&plan->texts, t->template.suffix, t->template.suffix_len, &t->suffix_off);
    }
    plan->header.texts.count = plan->texts.len;
    return r;
}

/* ---- layout ---------------------------------------------------------------------------------------------- */

/* Ranks cost 16 bytes per 64 numbers.  Tables that are spread so thin that these would outweigh the tables are
 * searched instead. */
static void size_ranks(struct part_plan *plan)
{
    struct part_header *h = &plan->header;
    if (plan->table_count == 0)
        return;
    h->table_first = plan->tables[0].number;
    uint64_t groups = (plan->tables[plan->table_count - 1].number - h->table_first) / 64 + 1ull;
    if (groups * sizeof(struct part_rank) <= plan->table_count * sizeof(struct part_table) + 1024)
        h->ranks.count = groups;
}

/* Also make room for sorting the heads of any table; what isn't used isn't touched and costs nothing. */
static int size_orders(struct part_plan *plan)
{
    struct part_header *h = &plan->header;
    size_t most_heads = 0;
    for (size_t i = 0; i < plan->table_count; i++) {
        struct plan_table *t = &plan->tables[i];
        t->order_first = (uint32_t)h->order.count;
        t->heads_first = (uint32_t)h->heads.count;
        h->order.count += t->order_count;
        h->heads.count += t->heads_count;
        if (t->heads_count > most_heads)
            most_heads = t->heads_count;
    }
    h->times.count = h->heads.count;
    h->fences.count = part_fences(h->times.count);
    assert(h->order.count == h->rows && h->heads.count <= h->rows);
    free(plan->scratch);
    plan->scratch = malloc((2 * most_heads + 1) * sizeof *plan->scratch);
    return plan->scratch ? 0 : -ENOMEM;
}

static int size_tree(struct part_header *h)
{
    struct stree64_shape shape;
    if (!stree64_shape(h->blocks.count, &shape))
        return SKADE_EFULL;
    h->nodes.count = shape.nodes;
    h->height = shape.height;
    memcpy(h->level, shape.first, sizeof h->level);
    return 0;
}

static void set_offsets(struct part_header *h)
{
    uint64_t off = sizeof *h;
#define OFFSET(name, type)           \
    off = align_up(off, CACHE_LINE); \
    h->name.off = off;               \
    off += h->name.count * sizeof(type);
    PART_SECTIONS(OFFSET)
#undef OFFSET
    h->seg.size = align_up(off, CACHE_LINE);
}

static void describe(struct part_plan *plan)
{
    struct seg_header *seg = &plan->header.seg;
    memcpy(seg->magic, FORMAT_MAGIC_PART, sizeof seg->magic);
    seg->major = FORMAT_MAJOR;
    seg->header_len = sizeof plan->header;
    seg->epoch = plan->info.epoch;
    seg->generation = plan->info.generation;
    seg->log = plan->info.log;
    seg->seed = plan->info.seed;
    seg->from_seq = plan->info.from_seq;
    seg->to_seq = plan->info.to_seq;
}

int plan_layout(struct part_plan *plan)
{
    plan->header.extras.count = plan->extra_count;
    plan->header.tables.count = plan->table_count;
    int r = place(plan);
    if (r < 0)
        return r;
    choose_time_base(plan);
    r = measure_heap(plan);
    if (r < 0)
        return r;
    r = collect_texts(plan);
    if (r < 0)
        return r;
    r = size_tree(&plan->header);
    if (r < 0)
        return r;
    r = size_orders(plan);
    if (r < 0)
        return r;
    size_ranks(plan);
    describe(plan);
    set_offsets(&plan->header);
    return 0;
}

/* ---- filling --------------------------------------------------------------------------------------------- */

struct filling {
    struct part_plan *plan;
    char *base;
    uint64_t heap_used;
};

static void *section(const struct filling *f, const struct section *s)
{
    return f->base + s->off;
}

/* Move the text and the time of an escaped row to the heap. */
static int put_escape(struct filling *f, struct plan_row *row)
{
    const struct part_header *h = &f->plan->header;
    if (!(row->word & PART_ESCAPE))
        return 0;
    /* Merged parts might give another answer than when they were measured only if someone writes to them. */
    if (!range_inside(f->heap_used, heap_need(row), h->heap.count))
        return SKADE_EDAMAGED;
    struct part_escape e = { .off = f->heap_used, .len = (uint32_t)row->text.len };
    char *to = (char *)section(f, &h->heap) + f->heap_used;
    memcpy(to, &row->time_us, sizeof row->time_us);
    if (row->text.len)
        memcpy(to + sizeof row->time_us, row->text.data, row->text.len);
    memcpy(row->tail, &e, sizeof e);
    f->heap_used += heap_need(row);
    return 0;
}

static void write_row(const struct part_plan *plan, const struct plan_row *row, struct part_row *ret)
{
    uint64_t time = row->word & PART_ESCAPE ? 0 : (uint64_t)row->time_us - (uint64_t)plan->header.time_base;
    memcpy(ret->table, &plan->tables[row->table].number, sizeof ret->table);
    memcpy(ret->word, &row->word, sizeof ret->word);
    memcpy(ret->seq, &row->seq, sizeof ret->seq);
    memcpy(ret->time, &time, sizeof ret->time);
    memcpy(ret->tail, row->tail, sizeof ret->tail);
}

static uint32_t marks_of(const struct part_plan *plan, uint64_t block, unsigned used)
{
    size_t first = plan->first[block];
    size_t next = plan->first[block + 1];
    uint32_t marks = (1u << used) - 1;
    if (first > 0 && home_of(plan, first - 1) == block)
        marks |= PART_BACK;
    if (next < plan->item_count && home_of(plan, next) <= block)
        marks |= PART_AHEAD;
    return marks;
}

/* MAXIMUM: the greatest key so far. */
static int fill_block(struct filling *f, uint64_t block, struct part_block *ret, int64_t *maximum)
{
    struct part_plan *plan = f->plan;
    struct part_block made = { 0 };
    unsigned used = 0;
    for (size_t i = plan->first[block]; i < plan->first[block + 1]; i++, used++) {
        struct plan_row row;
        if (plan->source->prefetch)
            plan->source->prefetch(plan, plan->items[min_size(i + PLAN_PREFETCH, plan->item_count - 1)].src);
        int r = block_row(plan, plan->items[i].src, &row);
        if (r == 0)
            r = put_escape(f, &row);
        if (r < 0)
            return r;
        made.key[used] = *maximum = (int64_t)(plan->items[i].key ^ MIX_SIGN);
        write_row(plan, &row, &made.row[used]);
        *plan_ref(plan, plan->items[i].src) = (uint32_t)(block * PART_SLOTS + used);
    }
    for (unsigned slot = used; slot < PART_SLOTS; slot++)
        made.key[slot] = *maximum;
    made.marks = marks_of(plan, block, used);
    memcpy(ret, &made, sizeof made);
    return 0;
}

static int fill_blocks(struct filling *f)
{
    const struct part_header *h = &f->plan->header;
    struct part_block *blocks = section(f, &h->blocks);
    int64_t maximum = INT64_MIN;
    for (uint64_t block = 0; block < h->blocks.count; block++) {
        int r = fill_block(f, block, &blocks[block], &maximum);
        if (r < 0)
            return r;
    }
    return 0;
}

static int fill_extras(struct filling *f)
{
    struct part_plan *plan = f->plan;
    struct part_extra *extras = section(f, &plan->header.extras);
    for (size_t i = 0; i < plan->extra_count; i++) {
        struct plan_row row;
        int r = extra_row(plan, plan->extras[i].src, &row);
        if (r == 0)
            r = put_escape(f, &row);
        if (r < 0)
            return r;
        extras[i] = (struct part_extra){ .snapshot = row.snapshot,
                                         .time_us = row.time_us,
                                         .table = plan->tables[row.table].number,
                                         .word = row.word,
                                         .seq = row.seq };
        memcpy(extras[i].tail, row.tail, sizeof row.tail);
        *plan_ref(plan, plan->extras[i].src) = PART_EXTRA | (uint32_t)i;
    }
    return 0;
}

static void fill_tree(struct filling *f)
{
    const struct part_header *h = &f->plan->header;
    const struct part_block *blocks = section(f, &h->blocks);
    struct stree64_shape shape;
    stree64_shape(h->blocks.count, &shape);
    stree64_fill(&shape, section(f, &h->nodes), &blocks->key[PART_SLOTS - 1], sizeof *blocks);
}

static void fill_fences(struct filling *f)
{
    const struct part_header *h = &f->plan->header;
    const int64_t *times = section(f, &h->times);
    int64_t *fences = section(f, &h->fences);
    for (uint64_t i = 0; i < h->fences.count; i++)
        fences[i] = times[i * PART_FENCE];
}

static void fill_ranks(struct filling *f)
{
    const struct part_plan *plan = f->plan;
    struct part_rank *ranks = section(f, &plan->header.ranks);
    memset(ranks, 0, plan->header.ranks.count * sizeof *ranks);
    for (size_t i = plan->table_count; plan->header.ranks.count && i-- > 0;) {
        uint32_t offset = plan->tables[i].number - plan->header.table_first;
        ranks[offset / 64].bits |= 1ull << offset % 64;
        ranks[offset / 64].rank = (uint32_t)i;
    }
}

/* Put the heads of a table in order of time; the order by sequence, in which they are, decides between equal times. */
static void sort_heads(struct part_plan *plan, int64_t *times, uint32_t *heads, uint32_t count)
{
    uint32_t i = 1;
    while (i < count && times[i - 1] <= times[i])
        i++;
    if (i >= count)
        return;
    struct plan_item *items = plan->scratch;
    struct plan_item *scratch = items + count;
    for (i = 0; i < count; i++)
        items[i] = (struct plan_item){ .key = (uint64_t)times[i] ^ MIX_SIGN, .src = heads[i] };
    plan_sort(items, count, scratch);
    for (i = 0; i < count; i++) {
        times[i] = (int64_t)(items[i].key ^ MIX_SIGN);
        heads[i] = (uint32_t)items[i].src;
    }
}

static int fill_table(struct filling *f, uint32_t index, struct part_table *ret)
{
    struct part_plan *plan = f->plan;
    const struct plan_table *t = &plan->tables[index];
    int64_t *times = (int64_t *)section(f, &plan->header.times) + t->heads_first;
    uint32_t *heads = (uint32_t *)section(f, &plan->header.heads) + t->heads_first;
    uint32_t *order = (uint32_t *)section(f, &plan->header.order) + t->order_first;
    uint32_t newest = PART_NO_REF;
    int r = plan->source->order(plan, index, order, times, heads, &newest);
    if (r < 0)
        return r;
    sort_heads(plan, times, heads, t->heads_count);
    *ret = (struct part_table){ .number = t->number,
                                .prefix_off = t->prefix_off,
                                .suffix_off = t->suffix_off,
                                .prefix_len = t->template.prefix_len,
                                .suffix_len = t->template.suffix_len,
                                .shape = t->template.shape,
                                .width = t->template.width,
                                .separator = (uint8_t)t->template.separator,
                                .order_first = t->order_first,
                                .order_count = t->order_count,
                                .heads_first = t->heads_first,
                                .heads_count = t->heads_count,
                                .head = newest };
    if (part_text_fits(ret->prefix_len, ret->suffix_len)) {
        memcpy(ret->text, t->template.prefix, ret->prefix_len);
        memcpy(ret->text + ret->prefix_len, t->template.suffix, ret->suffix_len);
    }
    return 0;
}

static int fill_tables(struct filling *f)
{
    struct part_table *tables = section(f, &f->plan->header.tables);
    for (size_t i = 0; i < f->plan->table_count; i++) {
        int r = fill_table(f, (uint32_t)i, &tables[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Zero what is between sections and behind the last one. */
static void fill_padding(struct filling *f)
{
    const struct part_header *h = &f->plan->header;
    uint64_t end = sizeof *h;
#define PAD(name, type)                          \
    memset(f->base + end, 0, h->name.off - end); \
    end = h->name.off + h->name.count * sizeof(type);
    PART_SECTIONS(PAD)
#undef PAD
    memset(f->base + end, 0, h->seg.size - end);
}

static void fill_header(struct filling *f)
{
    struct part_header *h = &f->plan->header;
    h->seg.content_check = checksum(f->base + sizeof *h, h->seg.size - sizeof *h, 0);
    h->seg.header_check = 0;
    memcpy(f->base, h, sizeof *h);
    h->seg.header_check = part_header_check(f->base, sizeof *h);
    memcpy(f->base, h, sizeof *h);
}

int part_plan_fill(struct part_plan *plan, void *buf, size_t size)
{
    struct filling f = { .plan = plan, .base = buf };
    assert(size == part_plan_size(plan) && (uintptr_t)buf % CACHE_LINE == 0);
    fill_padding(&f);
    int r = fill_blocks(&f);
    if (r == 0)
        r = fill_extras(&f);
    if (r == 0)
        r = fill_tables(&f);
    if (r < 0)
        return r;
    if (f.heap_used != plan->header.heap.count)
        return SKADE_EDAMAGED;
    fill_tree(&f);
    fill_ranks(&f);
    fill_fences(&f);
    if (plan->texts.len)
        memcpy(section(&f, &plan->header.texts), plan->texts.data, plan->texts.len);
    fill_header(&f);
    return 0;
}
