/*
 * Opening parts, and what is asked of the orders: heads, times, history.  Questions by id are in part_kernel.h.
 */
#include "part_view.h"

#include "checksum.h"

#include <assert.h>
#include <stdlib.h>

/* ---- instruction sets ------------------------------------------------------------------------------------ */

const struct part_kernel *part_kernel_of(enum part_isa isa)
{
    static const struct part_kernel *const kernels[] = { [PART_SCALAR] = &part_kernel_scalar,
                                                         [PART_AVX2] = &part_kernel_avx2,
                                                         [PART_AVX512] = &part_kernel_avx512 };
    return kernels[isa];
}

bool part_isa_has(enum part_isa isa)
{
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
    switch (isa) {
    case PART_SCALAR:
        return true;
    case PART_AVX2:
        return avx2;
    case PART_AVX512:
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    }
    return false;
}

enum part_isa part_isa_best(void)
{
    static const char *const names[] = {
        [PART_SCALAR] = "scalar", [PART_AVX2] = "avx2", [PART_AVX512] = "avx512"
    };
    const char *wanted = secure_getenv("SKADE_ISA");
    for (enum part_isa isa = PART_SCALAR; wanted && isa <= PART_AVX512; isa++) {
        if (strcmp(wanted, names[isa]) == 0 && part_isa_has(isa))
            return isa;
    }
    return part_isa_has(PART_AVX512) ? PART_AVX512 : part_isa_has(PART_AVX2) ? PART_AVX2 : PART_SCALAR;
}

void part_use_isa(struct part *p, enum part_isa isa)
{
    assert(part_isa_has(isa));
    p->kernel = part_kernel_of(isa);
}

/* ---- opening --------------------------------------------------------------------------------------------- */

uint64_t part_header_check(const void *base, uint32_t header_len)
{
    uint64_t before = checksum(base, offsetof(struct seg_header, header_check), 0);
    return checksum((const char *)base + sizeof(struct seg_header), header_len - sizeof(struct seg_header),
                    before);
}

static int check_seg(const char *base, size_t size, unsigned flags, const struct seg_header *h,
                     struct errmsg *msg)
{
    if (memcmp(h->magic, FORMAT_MAGIC_PART, sizeof h->magic) != 0)
        return fail(msg, SKADE_EDAMAGED, "not a part: it doesn't begin with %s", FORMAT_MAGIC_PART);
    if (h->major != FORMAT_MAJOR)
        return fail(msg, SKADE_EVERSION, "the part has format %u, this program reads %u", h->major,
                    FORMAT_MAJOR);
    if (h->size != size)
        return fail(msg, SKADE_EDAMAGED, "the part has %zu bytes, its header says %llu", size,
                    (unsigned long long)h->size);
    if (h->header_len < sizeof(struct part_header) || h->header_len > size)
        return fail(msg, SKADE_EDAMAGED, "the part's header has the impossible length %u", h->header_len);
    if (h->header_check != part_header_check(base, h->header_len))
        return fail(msg, SKADE_EDAMAGED, "the part's header is damaged: wrong checksum");
    if (flags & PART_VERIFY && h->content_check != checksum(base + h->header_len, size - h->header_len, 0))
        return fail(msg, SKADE_EDAMAGED, "the part's content is damaged: wrong checksum");
    return 0;
}

static bool section_inside(const struct seg_header *h, const struct section *s, size_t elem)
{
    return s->off % CACHE_LINE == 0 && s->off >= h->header_len &&
           array_inside(s->off, s->count, elem, h->size);
}

static bool sections_inside(const struct part_header *h)
{
#define INSIDE(name, type) section_inside(&h->seg, &h->name, sizeof(type)) &&
    return PART_SECTIONS(INSIDE) true;
#undef INSIDE
}

/* Are the counts those of one and the same part?  Sections are inside the file, so no product overflows. */
static bool counts_agree(const struct part_header *h)
{
    uint64_t slots = h->blocks.count * PART_SLOTS;
    return h->homes >= 1 && h->homes <= h->blocks.count && slots <= PART_ROWS_MAX &&
           h->extras.count <= PART_ROWS_MAX && h->extras.count <= h->rows &&
           h->rows - h->extras.count <= slots && h->order.count == h->rows && h->heads.count <= h->rows &&
           h->times.count == h->heads.count && h->fences.count == part_fences(h->times.count) &&
           h->tables.count <= h->rows && (h->rows == 0 || h->tables.count > 0);
}

static bool range_agrees(const struct part_header *h)
{
    return h->seg.from_seq <= h->seg.to_seq && h->seg.to_seq - h->seg.from_seq <= UINT32_MAX &&
           h->rows <= h->seg.to_seq - h->seg.from_seq;
}

static bool tree_agrees(const struct part_header *h, struct stree64_shape *ret)
{
    return stree64_shape(h->blocks.count, ret) && ret->height == h->height && ret->nodes == h->nodes.count &&
           memcmp(ret->first, h->level, sizeof h->level) == 0;
}

static void point_at_sections(struct part *p, const char *base)
{
#define POINT(name, type) p->name = (const void *)(base + p->header.name.off);
    PART_SECTIONS(POINT)
#undef POINT
    p->tree.nodes = p->nodes;
}

/* Do the ranks number the tables one after the other?  Then also note how many there are without a gap. */
static bool ranks_agree(struct part *p)
{
    uint64_t rank = 0;
    for (uint64_t i = 0; i < p->header.ranks.count; i++) {
        if (p->ranks[i].bits && p->ranks[i].rank != rank)
            return false;
        if (p->dense == 64 * i)
            p->dense += ~p->ranks[i].bits ? (uint32_t)__builtin_ctzll(~p->ranks[i].bits) : 64;
        rank += (uint64_t)__builtin_popcountll(p->ranks[i].bits);
    }
    return p->header.ranks.count == 0 || rank == p->header.tables.count;
}

int part_open(struct part **ret, const void *base, size_t size, unsigned flags, struct errmsg *msg)
{
    assert((uintptr_t)base % CACHE_LINE == 0);
    if (size < sizeof(struct part_header))
        return fail(msg, SKADE_EDAMAGED, "the part has %zu bytes, less than its header", size);
    struct part *p = calloc(1, sizeof *p);
    if (!p)
        return fail(msg, -ENOMEM, "no memory for a part");
    memcpy(&p->header, base, sizeof p->header);
    int r = check_seg(base, size, flags, &p->header.seg, msg);
    if (r == 0 && !(sections_inside(&p->header) && counts_agree(&p->header) && range_agrees(&p->header) &&
                    tree_agrees(&p->header, &p->tree.shape)))
        r = fail(msg, SKADE_EDAMAGED, "the part's header contradicts itself");
    if (r == 0) {
        point_at_sections(p, base);
        if (!ranks_agree(p))
            r = fail(msg, SKADE_EDAMAGED, "the part's table numbers contradict each other");
    }
    if (r < 0) {
        part_close(p);
        return r;
    }
    p->span = p->header.seg.to_seq - p->header.seg.from_seq;
    p->kernel = part_kernel_of(part_isa_best());
    *ret = p;
    return 0;
}

void part_close(struct part *p)
{
    free(p);
}

void part_readdress(void *buf, size_t size, uint64_t epoch, uint64_t generation)
{
    struct seg_header *h = buf;

    assert(size >= sizeof(struct part_header) && h->header_len <= size);
    h->epoch = epoch;
    h->generation = generation;
    h->header_check = part_header_check(buf, h->header_len);
}

const struct part_header *part_header(const struct part *p)
{
    return &p->header;
}

uint64_t part_rows(const struct part *p)
{
    return p->header.rows;
}

/* ---- by id ----------------------------------------------------------------------------------------------- */

int part_find(const struct part *p, uint32_t table, int64_t id, struct part_hit *ret)
{
    return p->kernel->find(p, table, id, ret);
}

int part_find_by_tree(const struct part *p, uint32_t table, int64_t id, struct part_hit *ret)
{
    return p->kernel->find_by_tree(p, table, id, ret);
}

int part_resolve(const struct part *p, const struct lifetimes *lives, uint32_t table, int64_t id,
                 struct part_query *q)
{
    return p->kernel->resolve(p, lives, table, id, q);
}

int part_resolve_by_tree(const struct part *p, const struct lifetimes *lives, uint32_t table, int64_t id,
                         struct part_query *q)
{
    return p->kernel->resolve_by_tree(p, lives, table, id, q);
}

size_t part_resolve_many(const struct part *p, struct part_many *m, uint32_t *list, size_t n)
{
    return p->kernel->resolve_many(p, m, list, n);
}

size_t part_resolve_many_by_tree(const struct part *p, struct part_many *m, uint32_t *list, size_t n)
{
    return p->kernel->resolve_many_by_tree(p, m, list, n);
}

void part_find_keys_by_tree(const struct part *p, const int64_t *keys, uint32_t *refs, size_t n)
{
    p->kernel->find_keys_by_tree(p, keys, refs, n);
}

/* ---- by ref ---------------------------------------------------------------------------------------------- */

int part_record(const struct part *p, uint32_t ref, struct part_hit *ret)
{
    struct record record;
    if (!part_record_at(p, ref, &record))
        return SKADE_EDAMAGED;
    part_hit_of(p, ref, &record, ret);
    return 1;
}

int part_location(const struct part *p, uint32_t ref, char *buf, size_t cap, size_t *need)
{
    struct record record;
    if (!part_record_at(p, ref, &record))
        return SKADE_EDAMAGED;
    uint32_t index = part_table_index(p, record.table);
    if (index == PART_NO_TABLE)
        return SKADE_EDAMAGED;
    size_t len = 0;
    int r = part_record_location(p, &record, index, buf, cap, &len, p->kernel->render);
    if (need)
        *need = len;
    return r;
}

/* ---- by order -------------------------------------------------------------------------------------------- */

/* Load the row that an order of TABLE has at POSITION. */
static bool load_of(const struct part *p, uint32_t table, uint32_t ref, struct part_hit *ret)
{
    return part_record(p, ref, ret) == 1 && ret->table == table;
}

/* In the order of TABLE: how many rows have seq <= SEQ.  Reads one row per step.  0 and *RET, or negative. */
static int rank_of_seq(const struct part *p, const struct part_table *t, uint64_t seq, uint32_t *ret)
{
    uint32_t low = 0;
    uint32_t n = t->order_count;
    while (n > 0) {
        struct part_hit hit;
        uint32_t half = n / 2;
        if (!load_of(p, t->number, p->order[t->order_first + low + half], &hit))
            return SKADE_EDAMAGED;
        if (hit.seq <= seq) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    *ret = low;
    return 0;
}

/* The row at POSITION of the order of T, as an answer. */
static int answer_at(const struct part *p, const struct part_table *t, uint32_t position,
                     struct part_hit *ret)
{
    struct part_hit hit;
    if (!load_of(p, t->number, p->order[t->order_first + position], &hit))
        return SKADE_EDAMAGED;
    *ret = hit;
    return 1;
}

int64_t part_snapshots(const struct part *p, uint32_t table, uint64_t after)
{
    struct part_table t;
    uint32_t rank = 0;
    int64_t count = 0;

    int r = part_table_load(p, table, &t);
    if (r == 1 && after > 0)
        r = rank_of_seq(p, &t, after, &rank) < 0 ? SKADE_EDAMAGED : 1;
    if (r != 1)
        return r;
    for (uint32_t i = rank; i < t.order_count; i++)
        count += !(p->order[t.order_first + i] & PART_EXTRA); /* what has a key stands in a block */
    return count;
}

int64_t part_rows_after(const struct part *p, uint32_t table, uint64_t after)
{
    struct part_table t;
    uint32_t rank = 0;

    int r = part_table_load(p, table, &t);
    if (r == 1 && after > 0)
        r = rank_of_seq(p, &t, after, &rank) < 0 ? SKADE_EDAMAGED : 1;
    return r == 1 ? (int64_t)(t.order_count - rank) : r;
}

int part_before(const struct part *p, uint32_t table, uint64_t before, struct part_hit *ret)
{
    struct part_table t;
    uint32_t rank;
    int r = part_table_load(p, table, &t);
    if (r <= 0 || before == 0)
        return r < 0 ? r : 0;
    r = rank_of_seq(p, &t, before - 1, &rank);
    if (r < 0 || rank == 0)
        return r;
    return answer_at(p, &t, rank - 1, ret);
}

int part_after(const struct part *p, uint32_t table, uint64_t after, struct part_hit *ret)
{
    struct part_table t;
    uint32_t rank;
    int r = part_table_load(p, table, &t);
    if (r <= 0)
        return r;
    r = rank_of_seq(p, &t, after, &rank);
    if (r < 0 || rank == t.order_count)
        return r;
    return answer_at(p, &t, rank, ret);
}

/* The newest head-moving row among the first RANK of the order. */
static int last_head(const struct part *p, const struct part_table *t, uint32_t rank, struct part_hit *ret)
{
    struct part_hit hit;
    while (rank-- > 0) {
        if (!load_of(p, t->number, p->order[t->order_first + rank], &hit))
            return SKADE_EDAMAGED;
        if (hit.flags & EVENT_MOVES_HEAD) {
            *ret = hit;
            return 1;
        }
    }
    return 0;
}

int part_head(const struct part *p, uint32_t table, uint64_t max_seq, struct part_hit *ret)
{
    struct part_table t;
    struct part_hit hit;
    uint32_t rank;
    int r = part_table_load(p, table, &t);
    if (r <= 0 || t.heads_count == 0 || max_seq <= p->header.seg.from_seq)
        return r < 0 ? r : 0;
    if (!load_of(p, table, t.head, &hit))
        return SKADE_EDAMAGED;
    if (hit.seq <= max_seq) {
        *ret = hit;
        return 1;
    }
    r = rank_of_seq(p, &t, max_seq, &rank);
    return r < 0 ? r : last_head(p, &t, rank, ret);
}

/* Of TIMES from LOW on, N: where those that are <= T_US end. */
static uint64_t end_of_time(const int64_t *times, uint64_t low, uint64_t n, int64_t t_us)
{
    while (n > 0) {
        uint64_t half = n / 2;
        bool right = times[low + half] <= t_us;
        low += right ? half + 1 : 0;
        n = right ? n - half - 1 : half;
    }
    return low;
}

/* Times and refs of [FIRST, END), which are few. */
static void prefetch_heads(const struct part *p, uint64_t first, uint64_t end)
{
    for (uint64_t i = first; i < end; i += CACHE_LINE / sizeof *p->times)
        __builtin_prefetch(&p->times[i]);
    for (uint64_t i = first; i < end; i += CACHE_LINE / sizeof *p->heads)
        __builtin_prefetch(&p->heads[i]);
    __builtin_prefetch(&p->times[end - 1]);
    __builtin_prefetch(&p->heads[end - 1]);
}

/*
 * In the time order of T: how many rows have time <= T_US.  Halving all times would wait for memory at each step.  The
 * fences of a table stand together, few lines; between two of them the times, and the refs beside them, are asked for all
 * at once.  Whatever the fences' bytes are, the answer is at most the number of rows.
 */
static uint32_t rank_of_time(const struct part *p, const struct part_table *t, int64_t t_us)
{
    uint64_t first = t->heads_first;
    uint64_t end = first + t->heads_count;
    uint64_t fence = part_fences(first); /* the first one at or behind FIRST */
    uint64_t fences = part_fences(end) - fence;
    uint64_t passed = end_of_time(p->fences, fence, fences, t_us) - fence;
    uint64_t low = passed > 0 ? (fence + passed - 1) * PART_FENCE : first;
    uint64_t high = passed < fences ? (fence + passed) * PART_FENCE : end;
    if (low < high)
        prefetch_heads(p, low, high);
    return (uint32_t)(end_of_time(p->times, low, high - low, t_us) - first);
}

int part_as_of(const struct part *p, uint32_t table, int64_t t_us, uint64_t max_seq, struct part_hit *ret)
{
    struct part_table t;
    int r = part_table_load(p, table, &t);
    if (r <= 0 || max_seq <= p->header.seg.from_seq)
        return r < 0 ? r : 0;
    for (uint32_t rank = rank_of_time(p, &t, t_us); rank-- > 0;) {
        struct part_hit hit;
        if (!load_of(p, table, p->heads[t.heads_first + rank], &hit))
            return SKADE_EDAMAGED;
        if (hit.seq <= max_seq) {
            *ret = hit;
            return 1;
        }
    }
    return 0;
}

int part_earliest(const struct part *p, uint32_t table, uint64_t max_seq, struct part_hit *ret)
{
    struct part_table t;
    int r = part_table_load(p, table, &t);
    if (r <= 0 || max_seq <= p->header.seg.from_seq)
        return r < 0 ? r : 0;
    for (uint32_t i = 0; i < t.heads_count; i++) {
        struct part_hit hit;
        if (!load_of(p, table, p->heads[t.heads_first + i], &hit))
            return SKADE_EDAMAGED;
        if (hit.seq <= max_seq) {
            *ret = hit;
            return 1;
        }
    }
    return 0;
}
