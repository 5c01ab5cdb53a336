#include "wire.h"

#include "checksum.h"

#include <assert.h>

/* ---- items, then messages: each table row becomes a list of reads or writes ---- */

#define ITEM(NAME, name, doc)                                   \
    void wire_get_##name(struct rd *r, struct item_##name *ret) \
    {                                                           \
        struct item_##name m = { .end_ = 0 };
#define MSG(number, NAME, name, sender, doc)                         \
    static void get_msg_##name(struct rd *r, struct msg_##name *ret) \
    {                                                                \
        struct msg_##name m = { .end_ = 0 };
#define FIELD(type, name, doc) m.name = rd_##type(r);
#define LIST(item, name, doc)                                  \
    m.name.count = rd_u32(r);                                  \
    m.name.items = rd_rest(r);                                 \
    struct rd walk = m.name.items;                             \
    struct item_##item skipped;                                \
    for (uint32_t i = 0; i < m.name.count && !walk.error; i++) \
        wire_get_##item(&walk, &skipped);                      \
    if (rd_done(&walk) < 0)                                    \
        r->error = SKADE_EPROTOCOL;
#define END(name) \
    (void)r;      \
    *ret = m;     \
    }
#include "messages.def"

#define MSG(number, NAME, name, sender, doc)                                      \
    int wire_read_##name(const void *payload, size_t len, struct msg_##name *ret) \
    {                                                                             \
        struct rd r = rd_of(payload, len);                                        \
        struct msg_##name m;                                                      \
        get_msg_##name(&r, &m);                                                   \
        int done = rd_done(&r);                                                   \
        if (done < 0)                                                             \
            return done;                                                          \
        *ret = m;                                                                 \
        return 0;                                                                 \
    }
#include "messages.def"

#define ITEM(NAME, name, doc)                                       \
    void wire_put_##name(struct wr *w, const struct item_##name *m) \
    {
#define MSG(number, NAME, name, sender, doc)                       \
    void wire_put_##name(struct wr *w, const struct msg_##name *m) \
    {
#define FIELD(type, name, doc) wr_##type(w, m->name);
#define LIST(item, name, doc) wr_u32(w, m->name.count);
#define END(name) \
    (void)w;      \
    (void)m;      \
    }
#include "messages.def"

static const struct {
    const char *name;
    char sender;
} messages[] = {
#define MSG(number, NAME, name, sender, doc) [number] = { #NAME, #sender[0] },
#include "messages.def"
};

const char *wire_name(unsigned type)
{
    return type < ARRAY_SIZE(messages) ? messages[type].name : NULL;
}

char wire_sender(unsigned type)
{
    return type < ARRAY_SIZE(messages) && messages[type].name ? messages[type].sender : 0;
}

/* ---- frames ---- */

size_t frame_begin(struct wr *w)
{
    size_t at = w->len;
    wr_room(w, sizeof(struct frame_header));
    return at;
}

static uint64_t frame_sum(const struct frame_header *h, const void *payload)
{
    return checksum(payload, h->len, checksum(h, offsetof(struct frame_header, check), 0));
}

void frame_end(struct wr *w, size_t at, uint16_t type, uint16_t flags, uint64_t request)
{
    if (w->error)
        return;
    struct frame_header h = { .type = type, .flags = flags, .request = request };
    h.len = (uint32_t)(w->len - at - sizeof h);
    h.check = frame_sum(&h, w->data + at + sizeof h);
    memcpy(w->data + at, &h, sizeof h);
}

int64_t frame_length(const void *data, size_t len, uint32_t max)
{
    struct frame_header h;

    if (len < sizeof h)
        return 0;
    memcpy(&h, data, sizeof h);
    if (h.len > max)
        return SKADE_EPROTOCOL;
    return (int64_t)(sizeof h + h.len);
}

int frame_check(const void *data, size_t len, struct frame_header *ret)
{
    struct frame_header h;

    if (len < sizeof h)
        return SKADE_EPROTOCOL;
    memcpy(&h, data, sizeof h);
    if (h.len != len - sizeof h)
        return SKADE_EPROTOCOL;
    if (h.check != frame_sum(&h, (const uint8_t *)data + sizeof h))
        return SKADE_EPROTOCOL;
    *ret = h;
    return 0;
}
