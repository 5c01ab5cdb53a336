/*
 * The way back through the file, once: every layout that still holds is checked beside the others, the first time that a
 * key hash is met is its newest entry, and that is kept unless it is a deletion.
 */
#include "store_file.h"

#include "drive_bytes.h"
#include "drive_entry.h"
#include "drive_keys.h"
#include "progress.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <skade_errors.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

const char *const drive_layout_names[DRIVE_LAYOUTS] = { "64", "16", "none" };

struct drive {
    struct drive_bytes bytes;
    struct drive_row *rows; /* newest first */
    uint64_t count, room;
    uint64_t entries;
};

int drive_read_failed(int r, struct drive_problem *why)
{
    if (r == SKADE_EDAMAGED)
        snprintf(why->text, sizeof why->text, "the file became shorter while it was read");
    else if (r == SKADE_EFOREIGN)
        snprintf(why->text, sizeof why->text, "this is no regular file");
    else if (r == -E2BIG)
        snprintf(why->text, sizeof why->text, "the file holds more than %u keys", DRIVE_KEYS_MAX);
    else if (r < 0)
        snprintf(why->text, sizeof why->text, "%s", strerror(-r));
    return r;
}

/* ---- one entry ---- */

uint64_t drive_padding(uint64_t begin, enum drive_layout layout)
{
    static const uint64_t alignment[DRIVE_LAYOUTS] = { 64, 16, 1 };

    return -begin & (alignment[layout] - 1);
}

int drive_entry_before(struct drive_bytes *b, uint64_t end, struct drive_entry *ret)
{
    const uint8_t *p;

    if (end < DRIVE_ENTRY_MIN)
        return 0;
    int r = drive_bytes_get(b, end - DRIVE_TRAILER, DRIVE_TRAILER, DRIVE_BACKWARD, &p);
    if (r < 0)
        return r;
    *ret = (struct drive_entry){ .begin = drive_le64(p + 8),
                                 .trailer = end - DRIVE_TRAILER,
                                 .key_hash = drive_le64(p),
                                 .crc = drive_le32(p + 16) };
    return ret->begin < ret->trailer;
}

/* Find the payload of E.  DRIVE_WHOLE, DRIVE_BAD_PADDING or a negative errno. */
static int find_payload(struct drive_bytes *b, struct drive_entry *e, enum drive_layout layout)
{
    uint64_t padding = drive_padding(e->begin, layout), len = e->trailer - e->begin;
    const uint8_t *p;

    int r = drive_bytes_get(b, e->begin, (size_t)(len <= padding ? len : padding + 1), DRIVE_BACKWARD, &p);
    if (r < 0)
        return r;
    if (len == 1 && p[0] == 0) /* a deletion has no padding */
        padding = 0;
    if (len <= padding)
        return DRIVE_BAD_PADDING;
    for (size_t i = 0; i < padding; i++)
        if (p[i] != 0)
            return DRIVE_BAD_PADDING;
    e->payload = e->begin + padding;
    e->is_delete = len - padding == 1 && p[padding] == 0;
    return DRIVE_WHOLE;
}

/* The CRC of the bytes from AT to END, which are given to PIECE (or not) on the way. */
static int checksum(struct drive_bytes *b, uint64_t at, uint64_t end, drive_piece piece, void *arg,
                    uint32_t *ret)
{
    /* What fits a window is fetched with what is before it: a step back reads no byte twice. */
    enum drive_way way = end - at <= DRIVE_WINDOW && !piece ? DRIVE_BACKWARD : DRIVE_FORWARD;
    uint32_t crc = 0;

    for (size_t n; at < end; at += n) {
        const uint8_t *p;
        n = end - at < DRIVE_WINDOW ? (size_t)(end - at) : DRIVE_WINDOW;
        int r = drive_bytes_get(b, at, n, way, &p);
        if (r < 0)
            return r;
        crc = (uint32_t)crc32(crc, p, (uInt)n);
        r = piece ? piece(arg, p, n) : 0;
        if (r != 0)
            return r;
    }
    *ret = crc;
    return 0;
}

int drive_entry_holds(struct drive_bytes *b, struct drive_entry *e, enum drive_layout layout)
{
    struct drive_entry found = *e;
    uint32_t crc = 0;

    int r = find_payload(b, &found, layout);
    if (r != DRIVE_WHOLE)
        return r;
    r = checksum(b, found.payload, found.trailer, NULL, NULL, &crc);
    if (r < 0)
        return r;
    if (crc != found.crc)
        return DRIVE_BAD_CHECKSUM;
    *e = found;
    return DRIVE_WHOLE;
}

/* ---- the way back ---- */

/* E is the newest entry of its key, unless the key was met before. */
static int take(struct drive *d, struct drive_keys *keys, const struct drive_entry *e)
{
    int r = drive_keys_add(keys, e->key_hash);

    d->entries++;
    if (r <= 0 || e->is_delete)
        return r < 0 ? r : 0;
    if (d->count == d->room) {
        uint64_t room = d->room ? d->room * 2 : 256;
        struct drive_row *rows = realloc(d->rows, (size_t)room * sizeof *rows);
        if (!rows)
            return -ENOMEM;
        d->rows = rows;
        d->room = room;
    }
    d->rows[d->count++] =
        (struct drive_row){ .key_hash = e->key_hash, .offset = e->payload, .len = e->trailer - e->payload };
    return 0;
}

/* The walk in LAYOUT ends at the entry that ends at END. */
static void give_up(unsigned *layouts, int layout, struct drive_walk *w, uint64_t end, enum drive_flaw flaw)
{
    *layouts &= ~(1u << layout);
    w->end = end;
    w->flaw = flaw;
}

/* Judge E in all of LAYOUTS; those in which it doesn't hold are given up. */
static int judge(struct drive_bytes *b, struct drive_entry *e, unsigned *layouts, struct drive_walk *walks)
{
    uint64_t judged = UINT64_MAX;
    int verdict = DRIVE_WHOLE;

    for (int i = 0; i < DRIVE_LAYOUTS; i++) {
        if (!(*layouts & 1u << i))
            continue;
        uint64_t padding = drive_padding(e->begin, (enum drive_layout)i);
        if (padding != judged) /* layouts that pad alike say the same */
            verdict = drive_entry_holds(b, e, (enum drive_layout)i);
        judged = padding;
        if (verdict < 0)
            return verdict;
        if (verdict == DRIVE_WHOLE)
            walks[i].whole++;
        else
            give_up(layouts, i, &walks[i], e->trailer + DRIVE_TRAILER, (enum drive_flaw)verdict);
    }
    return 0;
}

/* Walk from the end to 0.  What is left of LAYOUTS holds; WALKS say where the others were given up. */
static int walk(struct drive *d, struct drive_keys *keys, unsigned *layouts, struct drive_walk *walks)
{
    struct drive_entry e = { 0 };
    int r = 0;

    for (uint64_t end = d->bytes.size; end > 0 && *layouts; end = e.begin) {
        r = drive_entry_before(&d->bytes, end, &e);
        if (r == 0)
            for (int i = 0; i < DRIVE_LAYOUTS; i++)
                if (*layouts & 1u << i)
                    give_up(layouts, i, &walks[i], end, DRIVE_BAD_LINK);
        if (r > 0)
            r = judge(&d->bytes, &e, layouts, walks);
        if (r == 0 && *layouts)
            r = take(d, keys, &e);
        if (r < 0)
            return r;
        progress_set(d->bytes.size - end, d->bytes.size);
    }
    return 0;
}

/* Nothing in the file says which of LAYOUTS it has, and the caller didn't. */
static int ambiguous(unsigned layouts, struct drive_problem *why)
{
    const char *last = NULL;
    size_t n = (size_t)snprintf(why->text, sizeof why->text, "it holds in more than one layout, say which: ");

    for (int i = 0; i < DRIVE_LAYOUTS; i++) {
        if (!(layouts & 1u << i))
            continue;
        n += (size_t)snprintf(why->text + n, sizeof why->text - n, "%s--layout %s", last ? ", " : "",
                              drive_layout_names[i]);
        last = drive_layout_names[i];
    }
    return SKADE_EINPUT;
}

static int check(struct drive *d, unsigned asked, struct drive_problem *why)
{
    struct drive_walk walks[DRIVE_LAYOUTS] = { { 0 } };
    struct drive_keys keys = { 0 };
    unsigned layouts = asked;

    int r = walk(d, &keys, &layouts, walks);
    drive_keys_free(&keys);
    if (r < 0)
        return drive_read_failed(r, why);
    if (!layouts)
        return drive_explain(&d->bytes, walks, asked, why);
    bool several = layouts & (layouts - 1);
    return several && d->bytes.size ? ambiguous(layouts, why) : 0;
}

int drive_open(struct drive **ret, const char *path, enum drive_layout layout, struct drive_problem *why)
{
    struct drive *d = calloc(1, sizeof *d);

    if (!d)
        return drive_read_failed(-ENOMEM, why);
    int r = drive_bytes_open(&d->bytes, path);
    if (r < 0) {
        free(d);
        return drive_read_failed(r, why);
    }
    r = check(d, layout == DRIVE_ANY ? (1u << DRIVE_LAYOUTS) - 1 : 1u << layout, why);
    if (r < 0) {
        drive_close(d);
        return r;
    }
    *ret = d;
    return 0;
}

void drive_close(struct drive *d)
{
    if (!d)
        return;
    drive_bytes_close(&d->bytes);
    free(d->rows);
    free(d);
}

/* ---- rows ---- */

uint64_t drive_row_count(const struct drive *d)
{
    return d->count;
}

uint64_t drive_entry_count(const struct drive *d)
{
    return d->entries;
}

struct drive_row drive_row(const struct drive *d, uint64_t i)
{
    assert(i < d->count);
    return d->rows[d->count - 1 - i];
}

int drive_read(struct drive *d, const struct drive_row *row, drive_piece piece, void *arg,
               struct drive_problem *why)
{
    uint64_t trailer = row->offset + row->len;
    uint32_t crc = 0;
    const uint8_t *p;

    int r = checksum(&d->bytes, row->offset, trailer, piece, arg, &crc);
    if (r != 0)
        return drive_read_failed(r, why);
    r = drive_bytes_get(&d->bytes, trailer, DRIVE_TRAILER, DRIVE_FORWARD, &p);
    if (r < 0)
        return drive_read_failed(r, why);
    if (drive_le64(p) == row->key_hash && drive_le32(p + 16) == crc)
        return 0;
    snprintf(why->text, sizeof why->text,
             "the entry with its payload at offset %" PRIu64 " changed while it was read", row->offset);
    return SKADE_EDAMAGED;
}
