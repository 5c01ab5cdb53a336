/*
 * The protocol between client and daemon: frames, and a struct with a codec for each message of messages.def.
 *
 * A frame is a header and a payload; both are covered by the header's checksum.  Requests carry a number that the
 * client chooses (not 0) and its answers repeat.  Strings and lists of a decoded message are lent by the frame that
 * it was decoded from.  docs/PROTOCOL.md is the description.
 */
#ifndef SKADE_WIRE_H
#define SKADE_WIRE_H

#include "event.h"
#include "rd.h"
#include "wr.h"

#define WIRE_PROTOCOL_MIN 1u
#define WIRE_PROTOCOL_MAX 2u
#define WIRE_PROTOCOL_TALLY 2u /* the first in which TALLY is known */
#define WIRE_KEYS_MAX 4096u    /* keys of one RESOLVE */
/* Longest payload, unless WELCOME says less: a row whose value comes whole, with the longest key, fits. */
#define WIRE_FRAME_MAX ((1u << 20) + (128u << 10))

/* [doc:frame_header] */
struct frame_header {
    /*  0 */ uint32_t len;     /* of the payload                                     */
    /*  4 */ uint16_t type;    /* enum wire_type                                     */
    /*  6 */ uint16_t flags;   /* FRAME_MORE                                         */
    /*  8 */ uint64_t request; /* chosen by the client, repeated in every answer     */
    /* 16 */ uint64_t check;   /* checksum() of bytes [0, 16) and then the payload   */
};
/* [end] */
_Static_assert(sizeof(struct frame_header) == 24, "frame header");

#define FRAME_MORE 1u /* more messages to the same request follow */

enum wire_type {
#define MSG(number, NAME, name, sender, doc) WIRE_##NAME = (number),
#include "messages.def"
};

/* A list inside a decoded message: COUNT items that wire_get_<item>() reads from ITEMS one after the other. */
struct wire_list {
    uint32_t count;
    struct rd items;
};

typedef uint8_t wire_u8;
typedef uint16_t wire_u16;
typedef uint32_t wire_u32;
typedef uint64_t wire_u64;
typedef int32_t wire_i32;
typedef int64_t wire_i64;
typedef struct uuid wire_uuid;
typedef struct bytes wire_str;

#define MSG(number, NAME, name, sender, doc) struct msg_##name {
#define ITEM(NAME, name, doc) struct item_##name {
#define FIELD(type, name, doc) wire_##type name;
#define LIST(item, name, doc) struct wire_list name;
#define END(name) \
    char end_;    \
    }             \
    ;
#include "messages.def"

/*
 * Codecs, for each message and item:
 *
 *   int  wire_read_<msg>(const void *payload, size_t len, struct msg_<msg> *ret)
 *        0, or SKADE_EPROTOCOL for anything but exactly one well-formed message (lists are walked too).
 *   void wire_put_<msg>(struct wr *w, const struct msg_<msg> *m)
 *        Append the payload; of a list only its count: the items follow by wire_put_<item>().
 *   void wire_get_<item>(struct rd *r, struct item_<item> *ret), void wire_put_<item>(struct wr *w, const ... *)
 */
#define MSG(number, NAME, name, sender, doc)                                       \
    int wire_read_##name(const void *payload, size_t len, struct msg_##name *ret); \
    void wire_put_##name(struct wr *w, const struct msg_##name *m);
#define ITEM(NAME, name, doc)                                    \
    void wire_get_##name(struct rd *r, struct item_##name *ret); \
    void wire_put_##name(struct wr *w, const struct item_##name *m);
#include "messages.def"

/* Name of a message type, "RESOLVE"; NULL when unknown. */
const char *wire_name(unsigned type);

/* 'C' or 'D': who sends it; 0 when unknown. */
char wire_sender(unsigned type);

/*
 * Frames.  frame_begin() reserves a header at the end of W and returns its offset; write the payload behind it;
 * frame_end() fills the header in.
 */
size_t frame_begin(struct wr *w);
void frame_end(struct wr *w, size_t at, uint16_t type, uint16_t flags, uint64_t request);

/* The length of the frame that begins in the LEN bytes at DATA: 0 when the header is incomplete; SKADE_EPROTOCOL when
 * its payload would be longer than MAX; otherwise header and payload together, which may be more than LEN. */
int64_t frame_length(const void *data, size_t len, uint32_t max);

/* Check a whole frame of LEN bytes and give its header; the payload is behind it.  0 or SKADE_EPROTOCOL. */
int frame_check(const void *data, size_t len, struct frame_header *ret);

#endif
