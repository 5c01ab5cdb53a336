#include "entries.h"
#include "quick.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct entry_writer_options entries_options(void)
{
    struct entry_writer_options opt = { .table = 7, .seen_seq = 99, .temp_dir = -1 };
    opt.log.b[0] = 1;
    opt.uuid.b[15] = 2;
    return opt;
}

static int write_row(struct entry_writer *w, const struct put *row, size_t piece, struct errmsg *msg)
{
    int r = entry_begin(w, row->flags, row->key, msg);
    if (r < 0)
        return r;
    for (size_t at = 0; at < row->value.len;) {
        size_t n = row->value.len - at;
        if (piece && n > piece)
            n = piece;
        r = entry_piece(w, row->value.data + at, n, msg);
        if (r < 0)
            return r;
        at += n;
    }
    return entry_end(w, msg);
}

int entries_write(int fd, const struct entry_writer_options *opt, const struct put *rows, size_t n,
                  size_t piece, struct entry_sum *sum, struct errmsg *msg)
{
    struct entry_writer *w;
    int r = entry_writer_open(&w, fd, opt, msg);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n && r == 0; i++)
        r = write_row(w, &rows[i], piece, msg);
    if (r == 0)
        r = entry_writer_seal(w, sum, msg);
    entry_writer_close(w);
    return r;
}

static int memory_file(void)
{
    int fd = memfd_create("entries", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

int entries_make(const struct put *rows, size_t n)
{
    struct entry_writer_options opt = entries_options();
    struct errmsg msg = { "" };
    struct entry_sum sum;
    int fd = memory_file();
    int r = entries_write(fd, &opt, rows, n, 0, &sum, &msg);
    ck_assert_msg(r == 0, "%d %s", r, msg.text);
    return fd;
}

int entries_of_bytes(const void *data, size_t size)
{
    int fd = memory_file();
    for (size_t at = 0; at < size;) {
        ssize_t k = pwrite(fd, (const char *)data + at, size - at, (off_t)at);
        ck_assert_int_gt(k, 0);
        at += (size_t)k;
    }
    return fd;
}

uint8_t *entries_bytes(int fd, size_t *size)
{
    struct stat st;
    ck_assert_int_eq(fstat(fd, &st), 0);
    *size = (size_t)st.st_size;
    uint8_t *data = malloc(*size + 1);
    ck_assert_int_eq(pread(fd, data, *size, 0), st.st_size);
    return data;
}

int entries_open(struct entry_file **ret, int fd, struct errmsg *msg)
{
    return entry_file_open(ret, dup(fd), "here.entries", NULL, msg);
}

/* A long value is read in odd pieces; wrong ones may come, but then the check says so. */
static int compare_long(struct entry_cursor *c, const struct put *want, struct errmsg *msg)
{
    static char buffer[70001];
    bool same = true;
    ALWAYS(want->value.len > ROW_WHOLE);
    for (size_t at = 0; at < want->value.len;) {
        size_t n = want->value.len - at < sizeof buffer ? want->value.len - at : sizeof buffer;
        int r = entry_value_read(c, at, buffer, n, msg);
        if (r < 0)
            return r;
        same = same && memcmp(buffer, want->value.data + at, n) == 0;
        at += n;
    }
    int r = entry_value_check(c, msg);
    ALWAYS(same || r < 0);
    return r;
}

static int compare_row(struct entry_cursor *c, const struct row *have, const struct put *want,
                       struct errmsg *msg)
{
    ALWAYS(have->flags == want->flags);
    ALWAYS(have->value_len == want->value.len);
    ALWAYS(bytes_equal(have->key, want->flags & ENTRY_KEYED ? want->key : (struct bytes){ NULL, 0 }));
    ALWAYS(have->time_us == 1234);
    if (!have->value)
        return compare_long(c, want, msg);
    ALWAYS(want->value.len == 0 || memcmp(have->value, want->value.data, want->value.len) == 0);
    return 0;
}

static int compare_rows(struct entry_cursor *c, bool backward, const struct put *rows, size_t n,
                        size_t *count, struct errmsg *msg)
{
    struct row row;
    int r;
    while ((r = entry_next(c, &row, msg)) == 1) {
        ALWAYS(*count < n);
        size_t i = backward ? n - 1 - *count : *count;
        ALWAYS(row.number == i);
        r = compare_row(c, &row, &rows[i], msg);
        if (r < 0)
            return r;
        ++*count;
    }
    if (r == 0)
        ALWAYS(*count == n);
    return r;
}

int entries_compare(struct entry_file *f, enum entry_order order, const struct put *rows, size_t n,
                    size_t *count, struct errmsg *msg)
{
    struct entry_cursor *c;
    struct row row;
    size_t here = 0;
    int r = entry_cursor_open(&c, f, order, 1234, msg);
    if (r < 0)
        return r;
    r = compare_rows(c, order == NEWEST_FIRST, rows, n, &here, msg);
    ALWAYS(entry_next(c, &row, NULL) == r); /* and so for ever */
    entry_cursor_close(c);
    if (count)
        *count = here;
    return r;
}
