/*
 * What is wrong with a store of simd-r-drive that holds in no layout: which bytes, and what is whole before and behind
 * them.
 *
 *     0               lo            hi             size
 *     │ whole entries │ the damage  │ whole entries │
 *       found from 0 on               found from the end back
 *
 * Finding entries from the front costs a look at every byte, and only a file that is refused pays for it: an entry's end
 * isn't written anywhere, but it is where the link says where the entry began and the checksum of all between holds.
 */
#include "drive_entry.h"

#include <inttypes.h>
#include <skade_errors.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

/* ---- from the front ---- */

/* The search for the end of the entry that begins at BEGIN. */
struct search {
    uint64_t begin, payload;
    uint64_t summed; /* CRC is that of PAYLOAD up to here */
    uint32_t crc;
    bool is_padded; /* the padding is zero: there may be a payload behind it */
};

/* May the 20 bytes P, at TRAILER in the file, close S's entry?  Only the checksum is still asked. */
static bool links_back(const struct search *s, const uint8_t *p)
{
    return drive_le64(p + 8) == s->begin;
}

/* Extend S's sum to END; the bytes from AT on are P. */
static void sum_to(struct search *s, uint64_t end, const uint8_t *p, uint64_t at)
{
    if (end <= s->summed)
        return;
    s->crc = (uint32_t)crc32(s->crc, p + (s->summed - at), (uInt)(end - s->summed));
    s->summed = end;
}

/* A deletion at S's begin: one zero byte and its trailer. */
static int is_deletion(struct drive_bytes *b, const struct search *s)
{
    static const uint8_t zero;
    const uint8_t *p;

    if (b->size - s->begin < DRIVE_ENTRY_MIN)
        return 0;
    int r = drive_bytes_get(b, s->begin, DRIVE_ENTRY_MIN, DRIVE_FORWARD, &p);
    if (r < 0)
        return r;
    return p[0] == 0 && links_back(s, p + 1) && drive_le32(p + 17) == (uint32_t)crc32(0, &zero, 1);
}

static int begin_search(struct drive_bytes *b, uint64_t begin, enum drive_layout layout, struct search *ret)
{
    uint64_t padding = drive_padding(begin, layout);
    const uint8_t *p;

    *ret = (struct search){ .begin = begin, .payload = begin + padding, .summed = begin + padding };
    if (b->size - begin < padding + DRIVE_ENTRY_MIN)
        return 0;
    int r = drive_bytes_get(b, begin, (size_t)padding, DRIVE_FORWARD, &p);
    if (r < 0)
        return r;
    ret->is_padded = true;
    for (size_t i = 0; i < padding; i++)
        ret->is_padded = ret->is_padded && p[i] == 0;
    return 0;
}

/* Look for the trailer within the LEN bytes P at AT.  1 and the entry's end, or 0. */
static int search_window(struct search *s, const uint8_t *p, uint64_t at, size_t len, uint64_t *ret)
{
    for (size_t i = at == s->payload; i + DRIVE_TRAILER <= len; i++) {
        if (!links_back(s, p + i))
            continue;
        sum_to(s, at + i, p, at);
        if (drive_le32(p + i + 16) == s->crc) {
            *ret = at + i + DRIVE_TRAILER;
            return 1;
        }
    }
    sum_to(s, at + len - (DRIVE_TRAILER - 1), p, at);
    return 0;
}

/* Where the entry that begins at BEGIN ends.  1, 0: nowhere, or a negative errno. */
static int end_of_entry(struct drive_bytes *b, uint64_t begin, enum drive_layout layout, uint64_t *ret)
{
    struct search s;
    int r = begin_search(b, begin, layout, &s);

    if (r == 0)
        r = is_deletion(b, &s);
    if (r != 0) {
        *ret = begin + DRIVE_ENTRY_MIN;
        return r;
    }
    for (uint64_t at = s.payload; r == 0 && s.is_padded && at + DRIVE_TRAILER <= b->size; at = s.summed) {
        const uint8_t *p;
        r = drive_bytes_get(b, at, DRIVE_TRAILER, DRIVE_FORWARD, &p);
        if (r == 0)
            r = search_window(&s, p, at, drive_bytes_ahead(b, at), ret);
    }
    return r;
}

/* ---- the best explanation ---- */

struct damage {
    enum drive_layout layout;
    uint64_t lo, before; /* whole entries from 0 to LO */
    uint64_t hi, behind; /* and from HI to the end */
    enum drive_flaw flaw;
};

static int find_damage(struct drive_bytes *b, enum drive_layout layout, const struct drive_walk *w,
                       struct damage *ret)
{
    struct damage d = { .layout = layout, .hi = w->end, .behind = w->whole, .flaw = w->flaw };
    uint64_t end = 0;
    int r;

    /* One that reaches beyond HI is an accident of the bytes: what is behind HI hangs together. */
    while ((r = end_of_entry(b, d.lo, layout, &end)) > 0 && end < d.hi) {
        d.lo = end;
        d.before++;
    }
    *ret = d;
    return r < 0 ? r : 0;
}

static const char *entries(uint64_t n)
{
    return n == 1 ? "entry" : "entries";
}

/* The one entry that is damaged, when what begins at LO and ends at HI looks like one. */
static int describe_entry(struct drive_bytes *b, const struct damage *d, struct drive_problem *why)
{
    struct drive_entry e;
    int r = drive_entry_before(b, d->hi, &e);

    if (r <= 0 || d->flaw == DRIVE_BAD_LINK || e.begin != d->lo)
        return r < 0 ? r : 0;
    uint64_t payload = e.begin + drive_padding(e.begin, d->layout);
    if (d->flaw == DRIVE_BAD_PADDING)
        snprintf(why->text, sizeof why->text,
                 "entry %" PRIu64 ", key hash %016" PRIx64 ", at offset %" PRIu64
                 ": the padding before its payload is not zero",
                 d->before + 1, e.key_hash, e.begin);
    else
        snprintf(why->text, sizeof why->text,
                 "entry %" PRIu64 ", key hash %016" PRIx64 ": the checksum of its %" PRIu64
                 " bytes of payload at offset %" PRIu64 " is wrong",
                 d->before + 1, e.key_hash, e.trailer - payload, payload);
    return 1;
}

static int is_zero(struct drive_bytes *b, uint64_t from, uint64_t to)
{
    const uint8_t *p;

    for (size_t n; from < to; from += n) {
        n = to - from < DRIVE_WINDOW ? (size_t)(to - from) : DRIVE_WINDOW;
        int r = drive_bytes_get(b, from, n, DRIVE_FORWARD, &p);
        if (r < 0)
            return r;
        for (size_t i = 0; i < n; i++)
            if (p[i] != 0)
                return 0;
    }
    return 1;
}

static int describe_bytes(struct drive_bytes *b, const struct damage *d, struct drive_problem *why)
{
    int zero = is_zero(b, d->lo, d->hi);

    if (zero < 0)
        return zero;
    snprintf(why->text, sizeof why->text, "the %s%" PRIu64 " bytes at offset %" PRIu64 " are %s",
             d->hi == b->size ? "last " : "", d->hi - d->lo, d->lo,
             zero ? "zero, and no entry" : "no whole entry");
    return 0;
}

static void describe_rest(struct drive_bytes *b, const struct damage *d, struct drive_problem *why)
{
    size_t len = strlen(why->text);
    char *rest = why->text + len;
    size_t size = sizeof why->text - len;

    len = (size_t)snprintf(rest, size, "; %" PRIu64 " whole %s before", d->before, entries(d->before));
    if (d->hi == b->size)
        len += (size_t)snprintf(rest + len, size - len, ", which are the first %" PRIu64 " bytes", d->lo);
    else
        len += (size_t)snprintf(rest + len, size - len, " and %" PRIu64 " behind", d->behind);
    snprintf(rest + len, size - len, " (layout %s)", drive_layout_names[d->layout]);
}

static int describe(struct drive_bytes *b, const struct damage *d, struct drive_problem *why)
{
    int r = describe_entry(b, d, why);

    if (r == 0)
        r = describe_bytes(b, d, why);
    if (r < 0)
        return drive_read_failed(r, why);
    describe_rest(b, d, why);
    return SKADE_EDAMAGED;
}

int drive_explain(struct drive_bytes *b, const struct drive_walk walks[DRIVE_LAYOUTS], unsigned layouts,
                  struct drive_problem *why)
{
    struct damage best = { 0 };

    for (int i = 0; i < DRIVE_LAYOUTS; i++) {
        struct damage d;
        if (!(layouts & 1u << i))
            continue;
        int r = find_damage(b, (enum drive_layout)i, &walks[i], &d);
        if (r < 0)
            return drive_read_failed(r, why);
        if (d.before + d.behind > best.before + best.behind)
            best = d;
    }
    if (best.before + best.behind > 0)
        return describe(b, &best, why);
    snprintf(why->text, sizeof why->text,
             "this is no store of simd-r-drive%s, or damaged all over: no whole entry begins at offset 0, "
             "and none ends where the file does, at %" PRIu64,
             layouts & (layouts - 1) ? "" : " in that layout", b->size);
    return SKADE_EFOREIGN;
}
