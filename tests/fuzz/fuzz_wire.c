/*
 * Frames and every message: the first byte chooses the message, the rest is its payload.  What is taken must be written
 * again as the same bytes.
 */
#include "wire.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(const struct wr *w, const uint8_t *payload, size_t len, bool lists)
{
    /* Items of lists aren't written again here; the fixed part must be. */
    if (w->len > len || (!lists && w->len != len) || (w->len && memcmp(w->data, payload, w->len) != 0))
        abort();
}

#define MSG(number, NAME, name, sender, doc)                   \
    static void try_##name(const uint8_t *payload, size_t len) \
    {                                                          \
        struct msg_##name m;                                   \
        bool lists = false;                                    \
        struct wr w = { 0 };                                   \
        if (wire_read_##name(payload, len, &m) < 0)            \
            return;                                            \
        wire_put_##name(&w, &m);
#define LIST(item, name, doc) lists = true;
#define ITEM(NAME, name, doc)                                                         \
    __attribute__((unused)) static void no_##name(const uint8_t *payload, size_t len) \
    {                                                                                 \
        bool lists = false;                                                           \
        struct wr w = { 0 };
#define END(name)                        \
    check_same(&w, payload, len, lists); \
    wr_fini(&w);                         \
    }
#include "messages.def"

static void (*const tries[])(const uint8_t *payload, size_t len) = {
#define MSG(number, NAME, name, sender, doc) try_##name,
#include "messages.def"
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame_header h;

    if (size < 1)
        return 0;
    tries[data[0] % ARRAY_SIZE(tries)](data + 1, size - 1);
    if (frame_length(data, size, WIRE_FRAME_MAX) == (int64_t)size)
        frame_check(data, size, &h);
    return 0;
}
