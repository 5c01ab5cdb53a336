/*
 * The codecs, for every message of the table: what is written is read again, no prefix and no longer payload is taken,
 * a flipped byte of a frame is noticed.
 */
#include "wire.h"

#include "quick.h"

#include <check.h>
#include <stdlib.h>

/* ---- every message, filled with random values ---- */

static uint64_t state;
static char text[64];

static uint64_t next(void)
{
    return random_u64(&state);
}

static struct bytes random_str(void)
{
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)next();
    return (struct bytes){ text, next() % sizeof text };
}

static struct uuid random_uuid(void)
{
    struct uuid u;
    for (size_t i = 0; i < sizeof u.b; i++)
        u.b[i] = (uint8_t)next();
    return u;
}

#define FILL_u8() (uint8_t) next()
#define FILL_u16() (uint16_t) next()
#define FILL_u32() (uint32_t) next()
#define FILL_u64() next()
#define FILL_i32() (int32_t) next()
#define FILL_i64() (int64_t) next()
#define FILL_uuid() random_uuid()
#define FILL_str() random_str()

/* Messages and items alike: fill the fields, write, then write as many items as the list, if there is one, says. */
#define PUT_RANDOM(what, name)                  \
    static void put_random_##name(struct wr *w) \
    {                                           \
        struct what##_##name m = { .end_ = 0 }; \
        uint32_t items = 0;                     \
        void (*put_item)(struct wr *) = NULL;
#define ITEM(NAME, name, doc) PUT_RANDOM(item, name)
#define MSG(number, NAME, name, sender, doc) PUT_RANDOM(msg, name)
#define FIELD(type, name, doc) m.name = FILL_##type();
#define LIST(item, name, doc)                      \
    items = m.name.count = (uint32_t)(next() % 4); \
    put_item = put_random_##item;
#define END(name)                        \
    wire_put_##name(w, &m);              \
    for (uint32_t i = 0; i < items; i++) \
        put_item(w);                     \
    }
#include "messages.def"

/* Read and write again: the result is a copy of the payload. */
#define ITEM(NAME, name, doc)                                \
    static void copy_item_##name(struct rd *r, struct wr *w) \
    {                                                        \
        struct item_##name m;                                \
        wire_get_##name(r, &m);                              \
        wire_put_##name(w, &m);                              \
    }
#include "messages.def"

struct copying {
    struct wire_list list;
    void (*copy_item)(struct rd *r, struct wr *w);
};

static void copy_items(struct copying *c, struct wr *w)
{
    for (uint32_t i = 0; i < c->list.count; i++)
        c->copy_item(&c->list.items, w);
}

/* MSG opens a function, LIST notes the list in it, END closes it; ITEM makes the same frame for nothing. */
#define MSG(number, NAME, name, sender, doc)                                  \
    static int copy_msg_##name(const void *payload, size_t len, struct wr *w) \
    {                                                                         \
        struct msg_##name m;                                                  \
        struct copying copying = { { 0 }, NULL };                             \
        int r = wire_read_##name(payload, len, &m);                           \
        if (r < 0)                                                            \
            return r;                                                         \
        wire_put_##name(w, &m);
#define ITEM(NAME, name, doc)                                  \
    __attribute__((unused)) static int no_##name(struct wr *w) \
    {                                                          \
        struct copying copying = { { 0 }, NULL };
#define LIST(item, name, doc) copying = (struct copying){ m.name, copy_item_##item };
#define END(name)            \
    copy_items(&copying, w); \
    return 0;                \
    }
#include "messages.def"

static const struct {
    const char *name;
    void (*put)(struct wr *w);
    int (*copy)(const void *payload, size_t len, struct wr *w);
} messages[] = {
#define MSG(number, NAME, name, sender, doc) { #NAME, put_random_##name, copy_msg_##name },
#include "messages.def"
};

#define ROUNDS 50

START_TEST(every_message_is_read_as_it_was_written)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct wr a = { 0 }, b = { 0 };
        messages[_i].put(&a);
        ck_assert_int_eq(a.error, 0);
        ck_assert_msg(messages[_i].copy(a.data, a.len, &b) == 0, "%s", messages[_i].name);
        ck_assert_uint_eq(a.len, b.len);
        ck_assert(a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
        wr_fini(&a);
        wr_fini(&b);
    }
}
END_TEST

START_TEST(every_truncation_and_every_addition_is_refused)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct wr a = { 0 }, b = { 0 };
        messages[_i].put(&a);
        for (size_t len = 0; len < a.len; len++) {
            /* An allocation of exactly that size, so that a sanitizer sees a read behind its end. */
            uint8_t *cut = malloc(len ? len : 1);
            memcpy(cut, a.data, len);
            ck_assert_int_eq(messages[_i].copy(cut, len, &b), SKADE_EPROTOCOL);
            free(cut);
        }
        wr_u8(&a, 0);
        ck_assert_int_eq(messages[_i].copy(a.data, a.len, &b), SKADE_EPROTOCOL);
        wr_fini(&a);
        wr_fini(&b);
    }
}
END_TEST

START_TEST(a_damaged_payload_is_refused_or_read_without_harm)
{
    for (int round = 0; round < 5; round++) {
        struct wr a = { 0 };
        messages[_i].put(&a);
        for (size_t at = 0; at < a.len; at++)
            for (unsigned flip = 1; flip < 256; flip += 37) {
                struct wr b = { 0 };
                a.data[at] ^= (uint8_t)flip;
                int r = messages[_i].copy(a.data, a.len, &b);
                ck_assert(r == 0 || r == SKADE_EPROTOCOL);
                ck_assert(r < 0 || b.len == a.len); /* what is taken is taken whole */
                a.data[at] ^= (uint8_t)flip;
                wr_fini(&b);
            }
        wr_fini(&a);
    }
}
END_TEST

START_TEST(every_flipped_bit_of_a_frame_is_noticed)
{
    struct wr w = { 0 };
    struct frame_header h;
    size_t at = frame_begin(&w);

    messages[_i].put(&w);
    frame_end(&w, at, 7, FRAME_MORE, 99);
    ck_assert_int_eq(frame_length(w.data, w.len, WIRE_FRAME_MAX), (int64_t)w.len);
    ck_assert_int_eq(frame_check(w.data, w.len, &h), 0);
    ck_assert_uint_eq(h.request, 99);
    ck_assert_uint_eq(h.type, 7);
    ck_assert_uint_eq(h.flags, FRAME_MORE);
    for (size_t bit = 0; bit < w.len * 8; bit++) {
        w.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        ck_assert_int_eq(frame_check(w.data, w.len, &h), SKADE_EPROTOCOL);
        w.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t len = 0; len < w.len; len++)
        ck_assert_int_eq(frame_check(w.data, len, &h), SKADE_EPROTOCOL);
    wr_fini(&w);
}
END_TEST

START_TEST(a_frame_longer_than_allowed_is_refused_before_it_is_there)
{
    struct frame_header h = { .len = 1000 };

    ck_assert_int_eq(frame_length(&h, sizeof h - 1, 1000), 0);
    ck_assert_int_eq(frame_length(&h, sizeof h, 1000), 1024);
    ck_assert_int_eq(frame_length(&h, sizeof h, 999), SKADE_EPROTOCOL);
    h.len = UINT32_MAX;
    ck_assert_int_eq(frame_length(&h, sizeof h, WIRE_FRAME_MAX), SKADE_EPROTOCOL);
}
END_TEST

START_TEST(a_list_that_claims_more_than_there_is_is_refused)
{
    struct wr w = { 0 };
    struct msg_resolve m;

    wr_u64(&w, 5);
    wr_u32(&w, UINT32_MAX);
    ck_assert_int_eq(wire_read_resolve(w.data, w.len, &m), SKADE_EPROTOCOL);
    wr_fini(&w);
}
END_TEST

START_TEST(numbers_of_messages_are_for_ever)
{
    /* Golden: these numbers are spoken by released clients. */
    ck_assert_int_eq(WIRE_HELLO, 1);
    ck_assert_int_eq(WIRE_RESOLVE, 4);
    ck_assert_int_eq(WIRE_COMMIT, 12);
    ck_assert_int_eq(WIRE_STATS, 23);
    ck_assert_int_eq(WIRE_WELCOME, 64);
    ck_assert_int_eq(WIRE_ANSWERS, 68);
    ck_assert_int_eq(WIRE_DONE, 79);
    ck_assert_str_eq(wire_name(4), "RESOLVE");
    ck_assert_ptr_null(wire_name(5000));
    ck_assert_int_eq(wire_sender(4), 'C');
    ck_assert_int_eq(wire_sender(68), 'D');
    ck_assert_int_eq(wire_sender(0), 0);
}
END_TEST

START_TEST(a_frame_of_the_first_version_is_spoken_byte_by_byte)
{
    /* Golden: PING with request 1.  If this changes, so must the protocol version. */
    static const uint8_t golden[16] = { 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0 };
    static const uint64_t check = 3262967532553550511ull;
    struct wr w = { 0 };
    struct msg_ping m = { .end_ = 0 };
    uint64_t sum;

    size_t at = frame_begin(&w);
    wire_put_ping(&w, &m);
    frame_end(&w, at, WIRE_PING, 0, 1);
    ck_assert_uint_eq(w.len, 24);
    ck_assert_mem_eq(w.data, golden, sizeof golden);
    memcpy(&sum, w.data + 16, sizeof sum);
    ck_assert_uint_eq(sum, check);
    wr_fini(&w);
}
END_TEST

Suite *wire_suite(void);
Suite *wire_suite(void)
{
    Suite *s = suite_create("wire");
    TCase *c = tcase_create("messages");
    int n = (int)ARRAY_SIZE(messages);

    state = 42;
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, every_message_is_read_as_it_was_written, 0, n);
    tcase_add_loop_test(c, every_truncation_and_every_addition_is_refused, 0, n);
    tcase_add_loop_test(c, a_damaged_payload_is_refused_or_read_without_harm, 0, n);
    tcase_add_loop_test(c, every_flipped_bit_of_a_frame_is_noticed, 0, n);
    tcase_add_test(c, a_frame_longer_than_allowed_is_refused_before_it_is_there);
    tcase_add_test(c, a_list_that_claims_more_than_there_is_is_refused);
    tcase_add_test(c, numbers_of_messages_are_for_ever);
    tcase_add_test(c, a_frame_of_the_first_version_is_spoken_byte_by_byte);
    suite_add_tcase(s, c);
    return s;
}
