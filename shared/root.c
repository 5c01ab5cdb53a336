#include "root.h"

#include "checksum.h"
#include "once.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define HEADER_MAX 512 /* bytes that a later header of this format may grow to */
#define BUCKET_BITS_MAX 31
#define ROOT_SIZE_MAX (1ull << 40)

/* Every section once, in the order of the file: name, element. */
#define ROOT_SECTIONS(X)         \
    X(parts, struct root_part)   \
    X(tables, struct root_table) \
    X(names, struct root_name)   \
    X(buckets, uint32_t)         \
    X(plain, uint64_t)           \
    X(heap, char)

/* ---- opening ------------------------------------------------------------------------------------------- */

struct root {
    const uint8_t *base;
    bool all_plain; /* has every table its bit? */
    struct root_header header;
    struct root_part parts[];
};

/* Of a header of LEN bytes: what lies around the word that holds the result. */
static uint64_t header_checksum(const void *header, uint32_t len)
{
    uint64_t before = checksum(header, offsetof(struct seg_header, header_check), 0);
    return checksum((const char *)header + sizeof(struct seg_header), len - sizeof(struct seg_header),
                    before);
}

/* The reason why the header is none that can be used; NULL when it can.  HEADER is a copy. */
static const char *header_problem(const struct root_header *header, size_t size)
{
    const struct seg_header *h = &header->seg;

    if (h->size != size)
        return "its size is not what the header says";
    if (h->header_len < sizeof *header || h->header_len > HEADER_MAX || h->header_len > size)
        return "the header has an impossible length";
    if (h->header_check != header_checksum(header, h->header_len))
        return "wrong checksum of the header";
    if (h->from_seq != 0 || header->names_seq < h->to_seq)
        return "its sequence numbers contradict each other";
    return NULL;
}

static bool section_inside(const struct seg_header *h, const struct section *s, size_t elem)
{
    return s->off % CACHE_LINE == 0 && s->off >= h->header_len &&
           array_inside(s->off, s->count, elem, h->size);
}

static const char *sections_problem(const struct root_header *h)
{
#define INSIDE(name, type) section_inside(&h->seg, &h->name, sizeof(type)) &&
    if (!(ROOT_SECTIONS(INSIDE) true))
        return "a section is not inside the file";
#undef INSIDE
    if (h->tables.count > UINT32_MAX || h->names.count > UINT32_MAX)
        return "it has too many names or tables";
    if (h->bucket_bits > BUCKET_BITS_MAX || h->buckets.count != (1ull << h->bucket_bits) + 1)
        return "its buckets are not 2^bits";
    if (h->plain.count != (h->tables.count + 63) / 64)
        return "it has not a bit for each table";
    return NULL;
}

static const char *parts_problem(const struct root *r)
{
    const struct root_header *h = &r->header;
    uint64_t covered = 0;

    for (uint64_t i = 0; i < h->parts.count; i++) {
        const struct root_part *p = &r->parts[i];
        if (p->from_seq != covered || p->to_seq < p->from_seq)
            return "its parts don't follow each other";
        if (p->generation == 0 || p->generation > h->seg.generation)
            return "a part is of no generation up to its own";
        covered = p->to_seq;
    }
    return covered == h->seg.to_seq ? NULL : "its parts don't cover what it says";
}

/* What magic and version say, and the bytes that are common to all segments; HEADER holds HEADER_MAX
 * bytes. */
static int check_header(const struct root_header *header, size_t size, struct errmsg *msg)
{
    if (memcmp(header->seg.magic, FORMAT_MAGIC_ROOT, sizeof header->seg.magic) != 0)
        return fail(msg, SKADE_EDAMAGED, "not a root: it doesn't begin with %s", FORMAT_MAGIC_ROOT);
    if (header->seg.major != FORMAT_MAJOR)
        return fail(msg, SKADE_EVERSION, "the root has format %u, this program reads %u", header->seg.major,
                    FORMAT_MAJOR);
    const char *problem = header_problem(header, size);
    if (!problem)
        problem = sections_problem(header);
    return problem ? fail(msg, SKADE_EDAMAGED, "the root is damaged: %s", problem) : 0;
}

static int check_content(const struct root *r, unsigned flags, struct errmsg *msg)
{
    const struct seg_header *h = &r->header.seg;
    const char *problem = parts_problem(r);

    if (flags & ROOT_VERIFY &&
        h->content_check != checksum(r->base + h->header_len, h->size - h->header_len, 0))
        problem = "wrong checksum of the content";
    return problem ? fail(msg, SKADE_EDAMAGED, "the root is damaged: %s", problem) : 0;
}

static uint64_t count_plain(const struct root *r)
{
    uint64_t count = 0, bits;

    for (uint64_t i = 0; i < r->header.plain.count; i++) {
        copy_once(&bits, r->base + r->header.plain.off + i * sizeof bits, sizeof bits);
        count += (uint64_t)__builtin_popcountll(bits);
    }
    return count;
}

int root_open(struct root **ret, const void *base, size_t size, unsigned flags, struct errmsg *msg)
{
    union {
        struct root_header header;
        char bytes[HEADER_MAX];
    } copy = { .bytes = { 0 } };

    if (size < sizeof copy.header)
        return fail(msg, SKADE_EDAMAGED, "the root is damaged: %zu bytes are too few", size);
    copy_once(&copy, base, size < sizeof copy ? size : sizeof copy);
    int result = check_header(&copy.header, size, msg);
    if (result < 0)
        return result;
    struct root *r = malloc(sizeof *r + copy.header.parts.count * sizeof r->parts[0]);
    if (!r)
        return fail(msg, -ENOMEM, "no memory for a root");
    r->base = base;
    r->header = copy.header;
    copy_once(r->parts, r->base + r->header.parts.off, r->header.parts.count * sizeof r->parts[0]);
    r->all_plain = count_plain(r) == r->header.tables.count;
    result = check_content(r, flags, msg);
    if (result < 0) {
        root_close(r);
        return result;
    }
    *ret = r;
    return 0;
}

void root_close(struct root *r)
{
    free(r);
}

const struct root_header *root_header(const struct root *r)
{
    return &r->header;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

int root_get_table(const struct root *r, uint32_t table, struct root_table *ret)
{
    if (table == 0 || table > r->header.tables.count)
        return 0;
    copy_once(ret, r->base + r->header.tables.off + (table - 1ull) * sizeof *ret, sizeof *ret);
    return 1;
}

struct lifetimes root_lifetimes(const struct root *r, uint64_t at)
{
    const struct root_header *h = &r->header;
    uint32_t count = (uint32_t)h->tables.count;

    return (struct lifetimes){ .rows = (const void *)(r->base + h->tables.off),
                               .plain = (const void *)(r->base + h->plain.off),
                               .count = count,
                               .plain_count = at >= h->names_seq ? count : 0,
                               .at = at,
                               .all_plain = at >= h->names_seq && r->all_plain };
}

int root_get_part(const struct root *r, size_t i, struct root_part *ret)
{
    if (i >= r->header.parts.count)
        return 0;
    *ret = r->parts[i];
    return 1;
}

/* A name in the heap, lent; false when there is none at OFF. */
static bool heap_name(const struct root *r, uint64_t off, uint32_t len, struct bytes *ret)
{
    if (len == 0 || len > NAME_MAX_LEN || !range_inside(off, len, r->header.heap.count))
        return false;
    *ret = (struct bytes){ (const char *)r->base + r->header.heap.off + off, len };
    return true;
}

int root_table_name(const struct root *r, uint32_t table, struct bytes *ret)
{
    struct root_table row;

    int found = root_get_table(r, table, &row);
    if (found != 1)
        return found;
    return heap_name(r, row.name_off, row.name_len, ret) ? 1 : SKADE_EDAMAGED;
}

/* ---- finding a name ------------------------------------------------------------------------------------ */

/* INDEX must be below the number of names. */
static struct root_name get_name(const struct root *r, uint32_t index)
{
    struct root_name row;
    copy_once(&row, r->base + r->header.names.off + (uint64_t)index * sizeof row, sizeof row);
    return row;
}

/* INDEX must be below the number of buckets plus one. */
static uint32_t get_bucket(const struct root *r, uint64_t index)
{
    uint32_t first;
    copy_once(&first, r->base + r->header.buckets.off + index * sizeof first, sizeof first);
    return first;
}

/* Names [first, end) of the array; inside of it. */
struct run {
    uint32_t first;
    uint32_t end;
};

static uint64_t bucket_of(uint64_t hash, uint32_t bits)
{
    return bits == 0 ? 0 : hash >> (64 - bits);
}

static int get_run(const struct root *r, uint64_t hash, struct run *ret)
{
    uint64_t bucket = bucket_of(hash, r->header.bucket_bits);

    ret->first = get_bucket(r, bucket);
    ret->end = get_bucket(r, bucket + 1);
    return ret->first <= ret->end && ret->end <= r->header.names.count ? 0 : SKADE_EDAMAGED;
}

/* The end of the names in RUN that have a lesser hash than HASH, or this one and began at AT or before.  A
 * name that was given away and taken back many times fills its bucket, so this is a binary search. */
static uint32_t upper_bound(const struct root *r, struct run run, uint64_t hash, uint64_t at)
{
    while (run.first < run.end) {
        uint32_t middle = run.first + (run.end - run.first) / 2;
        struct root_name row = get_name(r, middle);
        if (row.hash < hash || (row.hash == hash && row.from_seq <= at))
            run.first = middle + 1;
        else
            run.end = middle;
    }
    return run.first;
}

/* Is an interval that ends before TO_SEQ, and began at AT or before, still open just after AT? */
static bool open_at(uint64_t to_seq, uint64_t at)
{
    return to_seq == SEQ_MAX || at < to_seq;
}

int root_find_table(const struct root *r, struct bytes name, uint64_t at, uint32_t *ret)
{
    uint64_t hash = checksum(name.data, name.len, r->header.seg.seed);
    struct run run;

    int error = get_run(r, hash, &run);
    if (error < 0)
        return error;
    /* The newest row that began by then decides; rows before it are passed over only if another name has
     * the hash. */
    for (uint32_t i = upper_bound(r, run, hash, at); i > run.first; i--) {
        struct root_name row = get_name(r, i - 1);
        struct bytes found;
        if (row.hash != hash)
            return 0;
        if (!heap_name(r, row.off, row.len, &found) || row.table == 0 || row.table > r->header.tables.count)
            return SKADE_EDAMAGED;
        if (!bytes_equal(found, name))
            continue;
        if (row.from_seq > at || !open_at(row.to_seq, at))
            return 0;
        *ret = row.table;
        return 1;
    }
    return 0;
}

/* ---- building ------------------------------------------------------------------------------------------ */

/* About one name for each bucket. */
static uint32_t bits_for(size_t names)
{
    uint32_t bits = 0;
    while (bits < BUCKET_BITS_MAX && (1ull << bits) < names)
        bits++;
    return bits;
}

static uint64_t heap_bytes(const struct root_input *in)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < in->names_count; i++) {
        assert(in->names[i].name.len > 0 && in->names[i].name.len <= NAME_MAX_LEN);
        bytes += in->names[i].name.len;
    }
    return bytes;
}

/* Place the sections one after the other and fill in the header but for the checksums.  The file's size; 0
 * when it is more than ROOT_SIZE_MAX.  Counts of 2^32 and less times small elements don't overflow. */
static uint64_t lay_out(const struct root_input *in, struct root_header *h)
{
    if (in->parts_count > UINT32_MAX || in->tables_count > UINT32_MAX || in->names_count > UINT32_MAX)
        return 0;
    *h = (struct root_header){ .seg = { .magic = FORMAT_MAGIC_ROOT,
                                        .major = FORMAT_MAJOR,
                                        .header_len = sizeof *h,
                                        .epoch = in->epoch,
                                        .generation = in->generation,
                                        .log = in->log,
                                        .seed = in->seed,
                                        .to_seq = in->covered },
                               .names_seq = in->names_seq,
                               .bucket_bits = bits_for(in->names_count) };
    h->parts.count = in->parts_count;
    h->tables.count = in->tables_count;
    h->names.count = in->names_count;
    h->buckets.count = (1ull << h->bucket_bits) + 1;
    h->plain.count = (h->tables.count + 63) / 64;
    h->heap.count = heap_bytes(in);
    uint64_t off = sizeof *h;
#define PLACE(name, type)            \
    off = align_up(off, CACHE_LINE); \
    h->name.off = off;               \
    off += h->name.count * sizeof(type);
    ROOT_SECTIONS(PLACE)
#undef PLACE
    h->seg.size = align_up(off, CACHE_LINE);
    return h->seg.size <= ROOT_SIZE_MAX ? h->seg.size : 0;
}

uint64_t root_size(const struct root_input *in)
{
    struct root_header h;
    return lay_out(in, &h);
}

/* A name on its way into the order of the file. */
struct sorting {
    uint64_t hash;
    uint64_t from_seq;
    const struct root_name_row *row;
};

static int compare_sorting(const void *a, const void *b)
{
    const struct sorting *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->from_seq < y->from_seq ? -1 : x->from_seq > y->from_seq;
}

/* The names in the order of the file; free() it. */
static struct sorting *sort_names(const struct root_input *in)
{
    struct sorting *order = malloc((in->names_count + 1) * sizeof *order);
    if (!order)
        return NULL;
    for (size_t i = 0; i < in->names_count; i++) {
        const struct root_name_row *row = &in->names[i];
        order[i] = (struct sorting){ checksum(row->name.data, row->name.len, in->seed), row->from_seq, row };
    }
    qsort(order, in->names_count, sizeof *order, compare_sorting);
    return order;
}

/* The sections of a file that is being written. */
struct target {
    struct root_part *parts;
    struct root_table *tables;
    struct root_name *names;
    uint32_t *buckets;
    uint64_t *plain;
    char *heap;
};

static struct target target_of(void *buf, const struct root_header *h)
{
#define POINT(name, type) .name = (type *)(void *)((char *)buf + h->name.off),
    return (struct target){ ROOT_SECTIONS(POINT) };
#undef POINT
}

static void write_names(const struct target *t, const struct root_input *in, const struct sorting *order)
{
    uint64_t heap = 0;

    for (size_t i = 0; i < in->names_count; i++) {
        const struct root_name_row *row = order[i].row;
        assert(row->from_seq <= row->to_seq && row->table >= 1 && row->table <= in->tables_count);
        t->names[i] = (struct root_name){ .hash = order[i].hash,
                                          .from_seq = row->from_seq,
                                          .to_seq = row->to_seq,
                                          .off = heap,
                                          .len = (uint32_t)row->name.len,
                                          .table = row->table };
        memcpy(t->heap + heap, row->name.data, row->name.len);
        heap += row->name.len;
    }
}

/* Each bucket begins where the one before ends; the last entry is the number of names. */
static void write_buckets(const struct target *t, const struct root_header *h)
{
    uint64_t bucket = 0;

    for (uint32_t i = 0; i < h->names.count; i++) {
        for (uint64_t own = bucket_of(t->names[i].hash, h->bucket_bits); bucket <= own; bucket++)
            t->buckets[bucket] = i;
    }
    for (; bucket < h->buckets.count; bucket++)
        t->buckets[bucket] = (uint32_t)h->names.count;
}

/* NEWEST: for each table the row that its name is taken from so far, plus one; all 0 at first. */
static void write_tables(const struct target *t, const struct root_input *in, uint32_t *newest)
{
    memcpy(t->tables, in->tables, in->tables_count * sizeof t->tables[0]);
    for (uint32_t i = 0; i < in->names_count; i++) {
        uint32_t table = t->names[i].table - 1;
        if (newest[table] == 0 || t->names[newest[table] - 1].from_seq < t->names[i].from_seq)
            newest[table] = i + 1;
    }
    for (size_t table = 0; table < in->tables_count; table++) {
        assert(newest[table] != 0);
        t->tables[table].name_off = t->names[newest[table] - 1].off;
        t->tables[table].name_len = t->names[newest[table] - 1].len;
    }
}

/* Bits are zero at first. */
static void write_plain(const struct target *t, const struct root_input *in)
{
    for (size_t i = 0; i < in->tables_count; i++) {
        const struct root_table *row = &in->tables[i];
        uint64_t plain =
            row->created_seq <= in->names_seq && row->dropped_seq == SEQ_MAX && row->watermark == 0;
        t->plain[i / 64] |= plain << i % 64;
    }
}

static void seal(struct root_header *h, char *buf)
{
    h->seg.content_check = checksum(buf + sizeof *h, h->seg.size - sizeof *h, 0);
    h->seg.header_check = header_checksum(h, sizeof *h);
    memcpy(buf, h, sizeof *h);
}

int root_fill(const struct root_input *in, void *buf, size_t size)
{
    struct root_header h;
    int result = -ENOMEM;

    uint64_t needed = lay_out(in, &h);
    assert(needed != 0 && needed == size && (uintptr_t)buf % CACHE_LINE == 0);
    assert(in->names_seq >= in->covered);
    struct sorting *order = sort_names(in);
    uint32_t *newest = calloc(in->tables_count + 1, sizeof *newest);
    if (!order || !newest)
        goto out;
    memset(buf, 0, size);
    struct target t = target_of(buf, &h);
    if (in->parts_count)
        memcpy(t.parts, in->parts, in->parts_count * sizeof t.parts[0]);
    write_names(&t, in, order);
    write_buckets(&t, &h);
    if (in->tables_count)
        write_tables(&t, in, newest);
    write_plain(&t, in);
    seal(&h, buf);
    result = 0;
out:
    free(newest);
    free(order);
    return result;
}
