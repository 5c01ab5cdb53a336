#include "stored.h"

#include "manifest.h"
#include "quick.h"
#include "rows_writer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct errmsg msg;

void stored_init(struct stored *t, const char *dir)
{
    *t = (struct stored){ .dir = dir, .table = 7, .value_max = 40, .log = { "the log's uuid." } };
    t->dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(t->dirfd, 0);
}

void stored_fini(struct stored *t)
{
    for (size_t i = 0; i < t->file_count; i++)
        free((char *)t->files[i].path);
    free(t->files);
    free(t->ops);
    close(t->dirfd);
}

/* ---- what rows look like ------------------------------------------------------------------------------- */

/* XXH3 of 16 bytes is a function of lo = (the first 8) ^ F1 and hi = (the last 8) ^ F2, and for small lo equal to
 * 16 + (lo << 56) + (lo + 1) * hi.  So one sum has a hi for each lo that divides it right: here for lo of 0 to 15. */
#define F1 0x6782737bea4239b9ull
#define F2 0xaf56bc3b0996523aull
#define LCM 720720ull /* of 1 to 16 */

static size_t colliding_key(uint32_t key, char *ret)
{
    uint64_t lo = key % 16;
    uint64_t sum = ((1ull << 60) / LCM + 1 + key / 16) * LCM - (1ull << 56);
    uint64_t words[2] = { lo ^ F1, (sum - (lo << 56)) / (lo + 1) ^ F2 };

    memcpy(ret, words, sizeof words);
    return sizeof words;
}

/* LEN times BYTE, then N with its highest byte first. */
static size_t padded_key(char *ret, uint8_t byte, size_t len, uint32_t n)
{
    memset(ret, byte, len);
    for (size_t i = 0; i < 4; i++)
        ret[len + i] = (char)(n >> (24 - 8 * i));
    return len + 4;
}

/* All different: their lengths and first bytes tell which kind they are. */
static size_t edge_key(uint32_t key, char *ret)
{
    uint32_t n = key / 8;

    switch (key % 8) {
    case 0:
        return padded_key(ret, 0, 0, n);
    case 1:
        ret[4] = 0;
        return padded_key(ret, 0, 0, n) + 1;
    case 2:
        ret[4] = '\xff';
        return padded_key(ret, 0, 0, n) + 1;
    case 3:
        return padded_key(ret, 'p', KEY_BOUND_MAX, n);
    case 4:
        return padded_key(ret, 'p', KEY_BOUND_MAX - 2, n);
    case 5:
        return padded_key(ret, 0xff, KEY_BOUND_MAX - 4, n);
    case 6:
        return padded_key(ret, 0xff, KEY_BOUND_MAX + 10, n);
    default: /* the empty key, and 0xff only */
        memset(ret, 0xff, n);
        return n;
    }
}

size_t stored_key(const struct stored *t, uint32_t key, char ret[STORED_KEY_MAX])
{
    switch (t->keys) {
    case KEYS_COLLIDE:
        return colliding_key(key, ret);
    case KEYS_EDGES:
        return edge_key(key, ret);
    case KEYS_LONG:
        memset(ret, 'k', STORED_KEY_MAX);
        return STORED_KEY_MAX - 10 + (size_t)snprintf(ret + STORED_KEY_MAX - 10, 10, "%08u", key);
    default:
        return key == 0 ? 0 : (size_t)snprintf(ret, STORED_KEY_MAX, "k%u", key);
    }
}

size_t stored_value_len(const struct stored *t, uint32_t tag)
{
    if (t->value_big && tag % 7 == 0)
        return t->value_big;
    return tag % (t->value_max + 1);
}

void stored_value(const struct stored *t, uint32_t tag, char *ret)
{
    size_t len = stored_value_len(t, tag);

    for (size_t i = 0; i < len; i++)
        ret[i] = (char)((tag * 31u + i * 7u) >> 2);
}

/* ---- commits ------------------------------------------------------------------------------------------- */

static struct uuid next_uuid(struct stored *t)
{
    struct uuid uuid = { { 0 } };

    t->made++;
    memcpy(uuid.b + 8, &t->made, sizeof t->made);
    uuid.b[0] = 0xab;
    return uuid;
}

static int create(struct stored *t, const char *name)
{
    int fd = openat(t->dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    ck_assert_int_ge(fd, 0);
    return fd;
}

static void add_file(struct stored *t, const char *name, bool base)
{
    char *path;

    ck_assert_int_gt(asprintf(&path, "%s/%s", t->dir, name), 0);
    if ((t->file_count & (t->file_count - 1)) == 0)
        t->files = realloc(t->files, (t->file_count + 1) * 2 * sizeof *t->files);
    t->files[t->file_count++] = (struct rowset_file){
        .path = path, .seq = t->made, .time_us = 1000 * (int64_t)t->made, .base = base
    };
}

void stored_begin(struct stored *t)
{
    struct uuid uuid = next_uuid(t);
    char name[ENTRY_NAME_MAX];
    struct entry_writer_options opt = {
        .log = t->log, .uuid = uuid, .table = t->table, .temp_dir = t->dirfd
    };

    entry_name(name, NAME_ENTRIES, &uuid, 0);
    t->fd = create(t, name);
    add_file(t, name, false);
    FINE(entry_writer_open(&t->writer, t->fd, &opt, &msg));
}

static void add_op(struct stored *t, uint32_t key, bool deletion)
{
    if (t->count == t->room) {
        t->room = t->room ? t->room * 2 : 64;
        t->ops = realloc(t->ops, t->room * sizeof *t->ops);
    }
    t->ops[t->count] = (struct stored_op){ .key = key,
                                           .deletion = deletion,
                                           .time_us = 1000 * (int64_t)t->made,
                                           .tag = (uint32_t)(t->count * 2654435761u + t->made) };
    t->count++;
}

static void write_op(struct stored *t, const struct stored_op *op)
{
    static char key[STORED_KEY_MAX];
    unsigned flags = (op->key == NO_KEY ? 0u : ENTRY_KEYED) | (op->deletion ? ENTRY_DELETE : 0u);
    size_t key_len = op->key == NO_KEY ? 0 : stored_key(t, op->key, key);
    size_t len = op->deletion ? 0 : stored_value_len(t, op->tag);
    char *value = malloc(len + 1);

    stored_value(t, op->deletion ? 0 : op->tag, len ? value : NULL);
    FINE(entry_begin(t->writer, flags, (struct bytes){ key, key_len }, &msg));
    if (len)
        FINE(entry_piece(t->writer, value, len, &msg));
    FINE(entry_end(t->writer, &msg));
    free(value);
}

static void operate(struct stored *t, uint32_t key, bool deletion)
{
    add_op(t, key, deletion);
    write_op(t, &t->ops[t->count - 1]);
}

void stored_put(struct stored *t, uint32_t key)
{
    operate(t, key, false);
}

void stored_append(struct stored *t)
{
    operate(t, NO_KEY, false);
}

void stored_delete(struct stored *t, uint32_t key)
{
    operate(t, key, true);
}

void stored_end(struct stored *t)
{
    struct entry_sum sum;

    FINE(entry_writer_seal(t->writer, &sum, &msg));
    entry_writer_close(t->writer);
    close(t->fd);
    t->writer = NULL;
}

/* ---- what is there ------------------------------------------------------------------------------------- */

size_t stored_there(const struct stored *t, uint32_t **ret)
{
    uint32_t keys = 0;
    size_t n = 0;

    for (size_t i = 0; i < t->count; i++)
        if (t->ops[i].key != NO_KEY && t->ops[i].key >= keys)
            keys = t->ops[i].key + 1;
    uint32_t *last = calloc(keys + 1, sizeof *last), *there = malloc((t->count + 1) * sizeof *there);
    for (size_t i = 0; i < t->count; i++)
        if (t->ops[i].key != NO_KEY)
            last[t->ops[i].key] = (uint32_t)i;
    for (size_t i = 0; i < t->count; i++)
        if (t->ops[i].key == NO_KEY || (!t->ops[i].deletion && last[t->ops[i].key] == i))
            there[n++] = (uint32_t)i;
    free(last);
    *ret = there;
    return n;
}

struct rowset_options stored_options(const struct stored *t, size_t memory)
{
    return (struct rowset_options){
        .log = t->log, .table = t->table, .owner = getuid(), .memory = memory, .temp_dir = t->dir
    };
}

struct rowset *stored_open(const struct stored *t, size_t memory)
{
    struct rowset_options opt = stored_options(t, memory);
    struct rowset *s;

    FINE(rowset_open(&s, t->files, t->file_count, &opt, &msg));
    return s;
}

/* ---- a base -------------------------------------------------------------------------------------------- */

static void write_row(struct stored *t, struct rows_writer *w, const struct stored_op *op)
{
    static char key[STORED_KEY_MAX];
    size_t key_len = op->key == NO_KEY ? 0 : stored_key(t, op->key, key);
    size_t len = stored_value_len(t, op->tag);
    char *value = malloc(len + 1);

    stored_value(t, op->tag, value);
    FINE(rows_put(w, op->key == NO_KEY ? 0 : ROW_KEYED, (struct bytes){ key, key_len }, value, len,
                  op->time_us, &msg));
    free(value);
}

static void write_rows_file(struct stored *t, struct manifest *m, uint32_t i, const struct stored_op *ops,
                            size_t n)
{
    char name[ENTRY_NAME_MAX];
    struct rows_writer *w;
    struct rows_writer_options opt = { .log = t->log,
                                       .uuid = m->header.uuid,
                                       .table = t->table,
                                       .part = i + 1,
                                       .block_size = 4096,
                                       .temp_dir = t->dirfd };

    int fd = create(t, entry_name(name, NAME_ROWS, &m->header.uuid, i + 1));
    FINE(rows_writer_open(&w, fd, &opt, &msg));
    for (size_t k = 0; k < n; k++)
        write_row(t, w, &ops[k]);
    FINE(rows_writer_seal(w, &m->files[i], &msg));
    rows_writer_close(w);
    close(fd);
}

static void forget_dead(struct stored *t)
{
    uint32_t *there;
    size_t n = stored_there(t, &there);

    for (size_t i = 0; i < n; i++)
        t->ops[i] = t->ops[there[i]];
    t->count = n;
    free(there);
}

static void forget_files(struct stored *t)
{
    for (size_t i = 0; i < t->file_count; i++)
        free((char *)t->files[i].path);
    t->file_count = 0;
}

void stored_compact(struct stored *t, unsigned files)
{
    char name[ENTRY_NAME_MAX];
    struct manifest m = { .header = {
                              .log = t->log, .uuid = next_uuid(t), .table = t->table, .files = files } };

    forget_dead(t);
    m.header.rows = t->count;
    m.header.base_seq = t->made - 1;
    m.files = calloc(files + 1, sizeof *m.files);
    for (uint32_t i = 0; i < files; i++) {
        size_t from = t->count * i / files, to = t->count * (i + 1) / files;
        write_rows_file(t, &m, i, t->ops + from, to - from);
    }
    int fd = create(t, entry_name(name, NAME_MANIFEST, &m.header.uuid, 0));
    FINE(manifest_write(fd, &m, &msg));
    close(fd);
    free(m.files);
    forget_files(t);
    add_file(t, name, true);
}

/* ---- comparing ------------------------------------------------------------------------------------------ */

/* The value of ROW, which may be long, as READ gives it in pieces from the end to the beginning. */
static const char *whole_value(const struct row *row, int (*read)(void *, uint64_t, void *, size_t),
                               void *arg)
{
    static char *value;
    size_t left = row->value_len, piece = 100000;

    if (row->value || row->value_len == 0)
        return row->value;
    value = realloc(value, row->value_len);
    while (left) {
        size_t n = left < piece ? left : piece;
        left -= n;
        FINE(read(arg, left, value + left, n));
    }
    return value;
}

static int read_scanned(void *arg, uint64_t off, void *buffer, size_t len)
{
    return rowset_value_read(arg, off, buffer, len, &msg);
}

static int read_got(void *arg, uint64_t off, void *buffer, size_t len)
{
    return rowset_get_read(arg, off, buffer, len, &msg);
}

bool stored_row_says(const struct stored *t, const struct row *row, const struct stored_op *op)
{
    static char key[STORED_KEY_MAX];
    bool keyed = op->key != NO_KEY;

    if (row->flags != (keyed ? ROW_KEYED : 0u) || row->time_us != op->time_us)
        return false;
    if (keyed && !bytes_equal(row->key, (struct bytes){ key, stored_key(t, op->key, key) }))
        return false;
    return row->value_len == stored_value_len(t, op->tag);
}

bool stored_value_says(const struct stored *t, const char *value, const struct stored_op *op)
{
    static char want[1 << 22];

    stored_value(t, op->tag, want);
    size_t len = stored_value_len(t, op->tag);
    return len == 0 || memcmp(value, want, len) == 0;
}

/* Most rows as readers take them who ask for what is at hand first. */
static int next_scanned(struct rowset_cursor *c, struct row *row, size_t seen)
{
    if (seen % 5 && rowset_next_at_hand(c, row))
        return 1;
    return rowset_next(c, row, &msg);
}

void stored_check_scan(const struct stored *t, struct rowset *s, enum entry_order order, unsigned parts,
                       const uint32_t *there, size_t n)
{
    size_t seen = 0;

    for (unsigned part = 0; part < parts; part++) {
        struct rowset_cursor *c;
        struct row row;
        int r;
        FINE(rowset_cursor_open(&c, s, order, part, parts, &msg));
        while ((r = next_scanned(c, &row, seen)) == 1) {
            ALWAYS(seen < n);
            size_t i = order == OLDEST_FIRST ? seen : n - 1 - seen;
            ALWAYS(stored_row_says(t, &row, &t->ops[there[i]]));
            ALWAYS(stored_value_says(t, whole_value(&row, read_scanned, c), &t->ops[there[i]]));
            seen++;
        }
        FINE(r);
        ck_assert_int_eq(rowset_next_at_hand(c, &row), 0);
        ck_assert_int_eq(rowset_next(c, &row, &msg), 0);
        rowset_cursor_close(c);
    }
    ck_assert_uint_eq(seen, n);
}

void stored_check_get(const struct stored *t, struct rowset *s, uint32_t keys, const uint32_t *there,
                      size_t n)
{
    static char key[STORED_KEY_MAX];
    uint32_t *op_of = malloc((keys + 1) * sizeof *op_of);

    memset(op_of, 0xff, (keys + 1) * sizeof *op_of);
    for (size_t i = 0; i < n; i++)
        if (t->ops[there[i]].key != NO_KEY)
            op_of[t->ops[there[i]].key] = there[i];
    for (uint32_t k = 0; k <= keys; k++) {
        struct row row;
        int r = rowset_get(s, (struct bytes){ key, stored_key(t, k, key) }, &row, &msg);
        FINE(r);
        ALWAYS(r == (op_of[k] != UINT32_MAX));
        if (r == 0)
            continue;
        ALWAYS(stored_row_says(t, &row, &t->ops[op_of[k]]));
        ALWAYS(stored_value_says(t, whole_value(&row, read_got, s), &t->ops[op_of[k]]));
    }
    free(op_of);
}

static void check_sum(const struct stored *t, struct rowset *s, size_t n)
{
    struct rowset_sum sum;

    FINE(rowset_sum(s, &sum, &msg));
    ck_assert_uint_eq(sum.rows, n);
    ck_assert_uint_eq(sum.entries, t->count);
}

void stored_check(const struct stored *t, struct rowset *s, uint32_t keys, unsigned parts_max)
{
    uint32_t *there;
    size_t n = stored_there(t, &there);

    check_sum(t, s, n);
    for (unsigned parts = 1; parts <= parts_max; parts++) {
        stored_check_scan(t, s, OLDEST_FIRST, parts, there, n);
        stored_check_scan(t, s, NEWEST_FIRST, parts, there, n);
    }
    stored_check_get(t, s, keys, there, n);
    free(there);
}
