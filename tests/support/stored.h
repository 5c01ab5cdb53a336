/*
 * A stored table that a test makes, in real files, and a model of it that is too simple to be wrong.
 *
 * The model is the list of what was done, in order.  A row is there if it is no deletion and nothing with its key was
 * done after it.  Keys are numbers; what they look like in the files is the table's choice.
 */
#ifndef SKADE_TEST_STORED_H
#define SKADE_TEST_STORED_H

#include "entry_writer.h"
#include "rowset.h"

#include <check.h>

/* CALL must go well; its last argument is a struct errmsg called msg. */
#define FINE(call)                                   \
    do {                                             \
        int fine_ = (call);                          \
        if (fine_ < 0)                               \
            ck_abort_msg("%s: %s", #call, msg.text); \
    } while (0)

#define NO_KEY UINT32_MAX

struct stored_op {
    uint32_t key; /* NO_KEY: a row without */
    uint32_t tag; /* tells its value */
    int64_t time_us;
    bool deletion;
};

enum stored_keys {
    KEYS_SHORT,   /* 0 to 12 bytes */
    KEYS_COLLIDE, /* sixteen each have the same hash */
    KEYS_LONG,    /* 60,000 bytes, that differ at the end */
    KEYS_EDGES    /* what order of bytes and bounds of files may stumble over; multiples of 8 ascend */
};

struct stored {
    const char *dir;
    int dirfd;
    struct uuid log;
    uint32_t table;
    enum stored_keys keys;
    uint32_t value_max; /* values have 0 to this many bytes */
    uint32_t value_big; /* unless 0: each seventh value has this many instead */

    struct stored_op *ops;
    size_t count, room;
    struct rowset_file *files;
    size_t file_count;
    uint32_t made; /* files so far, names come from it */
    struct entry_writer *writer;
    int fd;
};

#define STORED_KEY_MAX 60000

void stored_init(struct stored *t, const char *dir);
void stored_fini(struct stored *t);

/* One commit: begin, any number of rows, end. */
void stored_begin(struct stored *t);
void stored_put(struct stored *t, uint32_t key);
void stored_append(struct stored *t);
void stored_delete(struct stored *t, uint32_t key);
void stored_end(struct stored *t);

/* Make a base of what is there, in FILES .rows files; the model forgets the rest. */
void stored_compact(struct stored *t, unsigned files);

/* The ordinals of the ops that are there, oldest first; their number.  *RET is the caller's. */
size_t stored_there(const struct stored *t, uint32_t **ret);

/* The bytes of a key and of a value; the value's length without them. */
size_t stored_key(const struct stored *t, uint32_t key, char ret[STORED_KEY_MAX]);
size_t stored_value_len(const struct stored *t, uint32_t tag);
void stored_value(const struct stored *t, uint32_t tag, char *ret);

/* Is ROW what OP left?  Is VALUE? */
bool stored_row_says(const struct stored *t, const struct row *row, const struct stored_op *op);
bool stored_value_says(const struct stored *t, const char *value, const struct stored_op *op);

/* Parts one after the other are the rows that are there, THERE[n] of the ops. */
void stored_check_scan(const struct stored *t, struct rowset *s, enum entry_order order, unsigned parts,
                       const uint32_t *there, size_t n);

/* A get of each key from 0 to KEYS finds what is there. */
void stored_check_get(const struct stored *t, struct rowset *s, uint32_t keys, const uint32_t *there,
                      size_t n);

/* Everything that a prepared set can be asked, in 1 to PARTS_MAX parts. */
void stored_check(const struct stored *t, struct rowset *s, uint32_t keys, unsigned parts_max);

struct rowset_options stored_options(const struct stored *t, size_t memory);

/* The set of all its files, not prepared yet; the caller closes it. */
struct rowset *stored_open(const struct stored *t, size_t memory);

#endif
