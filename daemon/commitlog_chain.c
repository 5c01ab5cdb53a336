/*
 * The chain: one checksum per event, over the one before and everything that the event says.
 *
 *   chain(0) = checksum(struct chain_origin)
 *   chain(n) = checksum(struct chain_row, then the bytes of text, then those of text2)
 *
 * The bytes are the same whatever keeps the log and on whatever machine: little-endian, no padding but
 * the zero that is spelled out.  The lengths stand before the texts, so that no byte can move from one
 * text to the other unnoticed.  The origin makes rows of one log useless in another; a restored log keeps it.
 *
 * SQLite does not notice a flipped bit in a row, nor a row that another process overwrote.  The chain does.
 */
#include "commitlog.h"

#include "checksum.h"
#include "format.h" /* refuses to compile on machines that are not little-endian */

#include <string.h>

struct chain_origin {
    /*  0 */ struct uuid origin;
    /* 16 */ uint64_t seed;
};
SIZE(chain_origin, 24);

struct chain_row {
    /*  0 */ uint64_t previous; /* chain value of the event before */
    /*  8 */ uint64_t seq;
    /* 16 */ uint32_t kind;
    /* 20 */ uint32_t flags;
    /* 24 */ uint32_t table;
    /* 28 */ uint32_t text_len;
    /* 32 */ uint32_t text2_len;
    /* 36 */ uint32_t zero;
    /* 40 */ int64_t snapshot;
    /* 48 */ int64_t time_us;
    /* 56 */ uint64_t watermark;
    /* 64 */ struct uuid uuid;
};
AT(chain_row, snapshot, 40);
AT(chain_row, uuid, 64);
SIZE(chain_row, 80);

uint64_t commitlog_chain_start(const struct uuid *origin, uint64_t seed)
{
    struct chain_origin start = { .origin = *origin, .seed = seed };
    return checksum(&start, sizeof start, 0);
}

static uint8_t *put(uint8_t *to, const void *data, size_t len)
{
    if (len)
        memcpy(to, data, len);
    return to + len;
}

uint64_t commitlog_chain(uint64_t previous, const struct event *e)
{
    struct chain_row row = {
        .previous = previous,
        .seq = e->seq,
        .kind = e->kind,
        .flags = e->flags,
        .table = e->table,
        .text_len = (uint32_t)e->text.len,
        .text2_len = (uint32_t)e->text2.len,
        .snapshot = e->snapshot,
        .time_us = e->time_us,
        .watermark = e->watermark,
        .uuid = e->uuid,
    };
    uint8_t buf[sizeof row + 2 * LOCATION_MAX];
    uint8_t *end = put(buf, &row, sizeof row);
    end = put(end, e->text.data, e->text.len);
    end = put(end, e->text2.data, e->text2.len);
    return checksum(buf, (size_t)(end - buf), 0);
}

const char *commitlog_event_flaw(const struct event *e)
{
    if (e->seq == 0 || e->seq > INT64_MAX)
        return "its sequence number is out of range";
    if (e->kind == 0 || e->kind >= EVENT_KIND_END)
        return "its kind is unknown";
    if (e->flags & ~(uint32_t)EVENT_FLAGS)
        return "it has unknown flags";
    if (e->table == 0)
        return "it has no table";
    if (e->text.len > LOCATION_MAX || e->text2.len > LOCATION_MAX)
        return "its text is too long";
    return NULL;
}

struct commitlog_cursor commitlog_start(const struct commitlog_meta *meta)
{
    return (struct commitlog_cursor){ 0, commitlog_chain_start(&meta->origin, meta->seed) };
}
