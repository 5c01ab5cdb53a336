#include "entry_writer.h"
#include "checksum.h"
#include "content_sum.h"
#include "key_range.h"
#include "sealing.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define MEMORY (8u << 20)

struct entry_writer {
    struct sealing out;
    struct sorter *skips; /* they come in order; it is here for its bounded memory */
    struct entry_header header;
    struct entry_footer footer;
    struct key_range range;
    uint64_t content;
    /* the row between entry_begin() and entry_end() */
    bool open;
    unsigned flags;
    uint64_t payload;
    size_t key_len;
    char key[ENTRY_KEY_MAX];
};

static void fill_header(struct entry_header *h, const struct entry_writer_options *opt)
{
    *h = (struct entry_header){ .major = FORMAT_MAJOR,
                                .header_len = sizeof *h,
                                .log = opt->log,
                                .uuid = opt->uuid,
                                .table = opt->table,
                                .align = opt->align ? opt->align : ENTRY_ALIGN,
                                .seen_seq = opt->seen_seq };
    memcpy(h->magic, FORMAT_MAGIC_ENTRIES, sizeof h->magic);
    h->check = checksum(h, offsetof(struct entry_header, check), 0);
}

int entry_writer_open(struct entry_writer **ret, int fd, const struct entry_writer_options *opt,
                      struct errmsg *msg)
{
    size_t memory = opt->memory ? opt->memory : MEMORY;
    struct entry_writer *w = calloc(1, sizeof *w);
    if (!w)
        return fail(msg, -ENOMEM, "no memory to write a file");
    fill_header(&w->header, opt);
    assert(w->header.align >= 8 && w->header.align <= 4096 && (w->header.align & (w->header.align - 1)) == 0);
    int r = sealing_open(&w->out, fd, memory, opt->temp_dir, msg);
    if (r < 0)
        goto fail;
    r = sorter_open(&w->skips, 1, memory / 64, opt->temp_dir, msg);
    if (r < 0)
        goto fail;
    r = sealing_put(&w->out, &w->header, sizeof w->header, msg);
    if (r < 0)
        goto fail;
    *ret = w;
    return 0;
fail:
    entry_writer_close(w);
    return r;
}

void entry_writer_close(struct entry_writer *w)
{
    if (!w)
        return;
    sealing_fini(&w->out);
    sorter_close(w->skips);
    free(w);
}

/* A row that can't be would leave half an entry: the file is lost with it. */
static int refuse(struct entry_writer *w, struct errmsg *msg, const char *why)
{
    w->out.failed = SKADE_EINPUT;
    return fail(msg, SKADE_EINPUT, "%s", why);
}

int entry_begin(struct entry_writer *w, unsigned flags, struct bytes key, struct errmsg *msg)
{
    struct sealing *out = &w->out;
    assert(!w->open && (flags & ~(unsigned)ENTRY_FLAGS) == 0);
    if (!(flags & ENTRY_KEYED)) {
        if (flags & ENTRY_DELETE)
            return refuse(w, msg, "a deletion needs a key");
        key.len = 0;
    }
    if (key.len > ENTRY_KEY_MAX)
        return refuse(w, msg, "a key is longer than 65535 bytes");
    sealing_sum_begin(out, SUM_ROW, entry_seed(&w->header.uuid, out->end));
    int r = sealing_align(out, w->header.align, msg);
    if (r < 0)
        return r;
    sealing_sum_begin(out, SUM_CONTENT, w->content);
    w->open = true;
    w->flags = flags;
    w->payload = out->end;
    w->key_len = key.len;
    if (key.len)
        memcpy(w->key, key.data, key.len);
    return 0;
}

int entry_piece(struct entry_writer *w, const void *data, size_t len, struct errmsg *msg)
{
    assert(w->open || w->out.failed);
    if (len > 0 && (w->flags & ENTRY_DELETE))
        return refuse(w, msg, "a deletion has no value");
    if (len > ENTRY_VALUE_MAX - (w->out.end - w->payload))
        return refuse(w, msg, "a value is longer than 128 TiB");
    return sealing_put(&w->out, data, len, msg);
}

/* What the row says, without where it stands: payload and key, then how long they are. */
static void sum_content(struct entry_writer *w, uint64_t payload_len)
{
    w->content = content_sum_chain(sealing_sum_end(&w->out, SUM_CONTENT), payload_len, w->key_len, w->flags);
}

static int put_trailer(struct entry_writer *w, uint64_t payload_len, uint64_t hash, struct errmsg *msg)
{
    struct entry_trailer t = { .hash = hash,
                               .prev = w->footer.last,
                               .payload_len = payload_len,
                               .key_len = (uint16_t)w->key_len,
                               .flags = (uint16_t)w->flags,
                               .number = (uint32_t)w->footer.rows };
    struct sealing *out = &w->out;
    uint8_t *room = sealing_room(out, offsetof(struct entry_trailer, check), msg);
    if (!room)
        return out->failed;
    w->footer.last = out->end - offsetof(struct entry_trailer, check);
    memcpy(room, &t, offsetof(struct entry_trailer, check));
    t.check = sealing_sum_end(out, SUM_ROW);
    return sealing_put(out, &t.check, sizeof t.check, msg);
}

static int count_row(struct entry_writer *w, uint64_t payload_len, uint64_t hash, struct errmsg *msg)
{
    struct entry_footer *f = &w->footer;
    f->rows++;
    f->raw_bytes += w->key_len + payload_len;
    f->deletes += (w->flags & ENTRY_DELETE) != 0;
    if (f->rows % ENTRY_SKIP == 0) {
        int r = sorter_add(w->skips, &f->last, msg);
        if (r < 0)
            return w->out.failed = r;
    }
    if (!(w->flags & ENTRY_KEYED))
        return 0;
    key_range_add(&w->range, (struct bytes){ w->key, w->key_len }, f->keyed == 0);
    f->keyed++;
    return sealing_key(&w->out, hash, f->last, msg);
}

int entry_end(struct entry_writer *w, struct errmsg *msg)
{
    struct sealing *out = &w->out;
    assert(w->open || out->failed);
    uint64_t payload_len = out->end - w->payload;
    uint64_t hash = w->flags & ENTRY_KEYED ? entry_hash((struct bytes){ w->key, w->key_len }) : 0;
    w->open = false;
    int r = sealing_put(out, w->key, w->key_len, msg);
    if (r < 0)
        return r;
    sum_content(w, payload_len);
    r = sealing_align(out, 8, msg);
    if (r < 0)
        return r;
    r = put_trailer(w, payload_len, hash, msg);
    if (r < 0)
        return r;
    return count_row(w, payload_len, hash, msg);
}

static int put_skips(struct entry_writer *w, struct errmsg *msg)
{
    const uint64_t *place;
    int r = sealing_map_begin(&w->out, &w->footer, &w->footer.skips, msg);
    while (r >= 0 && (r = sorter_next(w->skips, &place, msg)) == 1)
        r = sealing_put(&w->out, place, sizeof *place, msg);
    if (r < 0)
        return w->out.failed = r;
    return sealing_map_end(&w->out, &w->footer, &w->footer.skips, sorter_count(w->skips), msg);
}

int entry_writer_seal(struct entry_writer *w, struct entry_sum *ret, struct errmsg *msg)
{
    assert(!w->open || w->out.failed);
    int r = put_skips(w, msg);
    if (r < 0)
        return r;
    w->footer.low = w->range.low;
    w->footer.high = w->range.high;
    r = sealing_end(&w->out, &w->footer, w->header.check, msg);
    if (r < 0)
        return r;
    w->out.failed = SKADE_EINPUT; /* sealed: nothing more fits in */
    *ret = (struct entry_sum){ .size = w->footer.size,
                               .rows = w->footer.rows,
                               .keyed = w->footer.keyed,
                               .deletes = w->footer.deletes,
                               .raw_bytes = w->footer.raw_bytes,
                               .content = w->content,
                               .footer_check = w->footer.check };
    return 0;
}
