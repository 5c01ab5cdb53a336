/*
 *      add ──> records in memory ──(budget used up)──> sorted, appended as a run to one unnamed file
 *                    │                                        │
 *      next <────────┴── from memory when there is no run ────┴── merged through a heap when there are
 *
 * In memory the sign bit of the first word is flipped, so that all words compare as unsigned.
 */
#include "sorter.h"
#include "sealing.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define WORDS_MAX 4
#define MEMORY_MIN (64u << 10)
#define FIRST_ROOM 256u  /* records */
#define RUN_BUFFER 4096u /* bytes, at least, to read a run through */
#define FEW 24u          /* so many are sorted by insertion */
#define MANY 4096u       /* so many are worth further memory, if the budget has it */
#define WIDE 1024u /* so many have a digit of 12 bits, which leaves one or two in a bucket of 4000 hashes */
#define WIDE_DIGITS 4096u
#define SIGN (1ull << 63)

struct run {
    uint64_t first; /* of its records in the file, and how many */
    uint64_t count;
    uint64_t next; /* not in the buffer yet */
    uint64_t *buffer;
    size_t have, at; /* records in the buffer */
};

struct sorter {
    unsigned words;
    int temp_dir;
    int fd;            /* of the runs, or -1 */
    uint64_t *records; /* COUNT of them, room for ROOM, never more than LIMIT */
    size_t count, room, limit;
    uint64_t total, spilled;
    bool reading;
    size_t position; /* reading from memory */
    struct run *runs;
    size_t runs_count, runs_room;
    uint64_t *run_buffers;
    size_t run_records; /* in the buffer of each */
    size_t *heap;       /* runs that have records, the smallest one's first */
    size_t heap_count;
    uint64_t out[WORDS_MAX];
};

int sorter_open(struct sorter **ret, unsigned words, size_t memory, int temp_dir, struct errmsg *msg)
{
    assert(words >= 1 && words <= WORDS_MAX);
    struct sorter *s = calloc(1, sizeof *s);
    if (!s)
        return fail(msg, -ENOMEM, "no memory to sort");
    s->words = words;
    s->temp_dir = temp_dir;
    s->fd = -1;
    s->limit = (memory > MEMORY_MIN ? memory : MEMORY_MIN) / (words * sizeof(uint64_t));
    *ret = s;
    return 0;
}

static void free_readers(struct sorter *s)
{
    free(s->run_buffers);
    free(s->heap);
    s->run_buffers = NULL;
    s->heap = NULL;
}

void sorter_close(struct sorter *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    free_readers(s);
    free(s->runs);
    free(s->records);
    free(s);
}

uint64_t sorter_count(const struct sorter *s)
{
    return s->total;
}

/* ---- sorting in memory: by bytes, most significant first, in place; few records by insertion ----
 *
 * Everything is written once for records of any width and compiled once for each, so that a record moves through
 * registers: three times as fast as with a width that is known at run time only. */

#define FOR_ONE_WIDTH static inline __attribute__((always_inline))

FOR_ONE_WIDTH bool less(const uint64_t *a, const uint64_t *b, unsigned words)
{
    for (unsigned i = 0; i < words; i++)
        if (a[i] != b[i])
            return a[i] < b[i];
    return false;
}

FOR_ONE_WIDTH void copy(uint64_t *to, const uint64_t *from, unsigned words)
{
    for (unsigned i = 0; i < words; i++)
        to[i] = from[i];
}

FOR_ONE_WIDTH void insertion_sort(uint64_t *records, size_t n, unsigned words)
{
    uint64_t moving[WORDS_MAX];
    for (size_t i = 1; i < n; i++) {
        size_t j = i;
        copy(moving, records + i * words, words);
        for (; j > 0 && less(moving, records + (j - 1) * words, words); j--)
            copy(records + j * words, records + (j - 1) * words, words);
        copy(records + j * words, moving, words);
    }
}

FOR_ONE_WIDTH unsigned digit(const uint64_t *record, unsigned byte)
{
    return (unsigned)(record[byte / 8] >> (56 - byte % 8 * 8)) & 255;
}

/* Take the record at HERE to the bucket of its digit, the one that stood there to its own, and so on, until one comes
 * that belongs HERE. */
FOR_ONE_WIDTH void send_round(uint64_t *records, uint64_t *here, unsigned home, unsigned byte, unsigned words,
                              uint32_t next[256])
{
    uint64_t moving[WORDS_MAX], other[WORDS_MAX];
    copy(moving, here, words);
    for (unsigned d; (d = digit(moving, byte)) != home;) {
        uint64_t *there = records + (size_t)next[d]++ * words;
        copy(other, there, words);
        copy(there, moving, words);
        copy(moving, other, words);
    }
    copy(here, moving, words);
}

/* Move each record into the bucket of its digit.  END receives the end of each bucket. */
FOR_ONE_WIDTH void distribute(uint64_t *records, const uint32_t count[256], unsigned byte, unsigned words,
                              uint32_t end[256])
{
    uint32_t next[256], sum = 0;
    for (unsigned d = 0; d < 256; d++) {
        next[d] = sum;
        sum += count[d];
        end[d] = sum;
    }
    for (unsigned d = 0; d < 256; d++)
        for (; next[d] < end[d]; next[d]++)
            send_round(records, records + (size_t)next[d] * words, d, byte, words, next);
}

typedef void radix_sort(uint64_t *records, size_t n, unsigned byte);

/* Depth is limited by the bytes of a record; a byte that all share costs a turn of the loop, not a level.  DEEPER is the
 * same for the buckets. */
FOR_ONE_WIDTH void sort_from(uint64_t *records, size_t n, unsigned byte, unsigned words, radix_sort *deeper)
{
    for (; n > FEW && byte < words * 8; byte++) {
        uint32_t count[256] = { 0 }, end[256];
        for (size_t i = 0; i < n; i++)
            count[digit(records + i * words, byte)]++;
        if (count[digit(records, byte)] == n)
            continue;
        distribute(records, count, byte, words, end);
        for (unsigned d = 0; d < 256; d++)
            if (count[d] > 1)
                deeper(records + (size_t)(end[d] - count[d]) * words, count[d], byte + 1);
        return;
    }
    if (n <= FEW)
        insertion_sort(records, n, words);
}

/* Copy the records to the buckets of their digit, in TO. */
FOR_ONE_WIDTH void scatter(uint64_t *to, const uint64_t *records, size_t n, const uint32_t count[256],
                           unsigned byte, unsigned words)
{
    uint32_t next[256], sum = 0;
    for (unsigned d = 0; d < 256; d++) {
        next[d] = sum;
        sum += count[d];
    }
    for (size_t i = 0; i < n; i++)
        copy(to + (size_t)next[digit(records + i * words, byte)]++ * words, records + i * words, words);
}

FOR_ONE_WIDTH void count_digits(const uint64_t *records, size_t n, unsigned byte, unsigned words,
                                uint32_t count[256])
{
    memset(count, 0, 256 * sizeof count[0]);
    for (size_t i = 0; i < n; i++)
        count[digit(records + i * words, byte)]++;
}

FOR_ONE_WIDTH unsigned wide_digit(const uint64_t *record, unsigned byte)
{
    return (unsigned)(record[byte / 8] >> (52 - byte % 8 * 8)) & (WIDE_DIGITS - 1);
}

/* How many records have each wide digit; the most that any has. */
FOR_ONE_WIDTH uint32_t count_wide(const uint64_t *records, size_t n, unsigned byte, unsigned words,
                                  uint32_t count[WIDE_DIGITS])
{
    uint32_t most = 0;
    memset(count, 0, WIDE_DIGITS * sizeof count[0]);
    for (size_t i = 0; i < n; i++)
        count[wide_digit(records + i * words, byte)]++;
    for (unsigned d = 0; d < WIDE_DIGITS; d++)
        most = count[d] > most ? count[d] : most;
    return most;
}

/* As scatter_back(), by a digit of the 12 bits from BYTE on.  What is in order of them but for a few is soon in order. */
FOR_ONE_WIDTH void scatter_back_wide(uint64_t *records, const uint64_t *room, size_t n, unsigned byte,
                                     unsigned words, radix_sort *in_place)
{
    uint32_t count[WIDE_DIGITS], next[WIDE_DIGITS], sum = 0;
    uint32_t most = count_wide(room, n, byte, words, count);
    for (unsigned d = 0; d < WIDE_DIGITS; d++) {
        next[d] = sum;
        sum += count[d];
    }
    for (size_t i = 0; i < n; i++)
        copy(records + (size_t)next[wide_digit(room + i * words, byte)]++ * words, room + i * words, words);
    if (most <= FEW)
        return insertion_sort(records, n, words);
    for (unsigned d = 0; d < WIDE_DIGITS; records += (size_t)count[d++] * words)
        if (count[d] > 1)
            in_place(records, count[d], byte);
}

/* From one bucket in ROOM to its place at RECORDS; the buckets in it are sorted there. */
FOR_ONE_WIDTH void scatter_back(uint64_t *records, const uint64_t *room, size_t n, unsigned byte,
                                unsigned words, radix_sort *in_place)
{
    uint32_t count[256];
    if (n >= WIDE && byte % 8 <= 6) /* the digit is in one word */
        return scatter_back_wide(records, room, n, byte, words, in_place);
    count_digits(room, n, byte, words, count);
    scatter(records, room, n, count, byte, words);
    for (unsigned d = 0; d < 256; records += (size_t)count[d++] * words)
        if (count[d] > 1)
            in_place(records, count[d], byte + 1);
}

/* The first two digits through ROOM, which has as much of it as the records take: half the time of doing it in place. */
FOR_ONE_WIDTH void sort_through(uint64_t *records, uint64_t *room, size_t n, unsigned words,
                                radix_sort *in_place)
{
    uint32_t count[256];
    unsigned byte = 0;
    for (count_digits(records, n, 0, words, count); count[digit(records, byte)] == n;) {
        if (++byte == words * 8 - 1)
            return in_place(records, n, byte);
        count_digits(records, n, byte, words, count);
    }
    scatter(room, records, n, count, byte, words);
    for (unsigned d = 0; d < 256; d++) {
        scatter_back(records, room, count[d], byte + 1, words, in_place);
        records += (size_t)count[d] * words;
        room += (size_t)count[d] * words;
    }
}

/* Two functions and one entry of the table for each width. */
#define WIDTHS(X) X(1) X(2) X(3) X(4)

#define SORT_WIDTH(words)                                                         \
    static void sort_in_place_##words(uint64_t *records, size_t n, unsigned byte) \
    {                                                                             \
        sort_from(records, n, byte, words, sort_in_place_##words);                \
    }                                                                             \
    static void sort_through_##words(uint64_t *records, uint64_t *room, size_t n) \
    {                                                                             \
        sort_through(records, room, n, words, sort_in_place_##words);             \
    }
WIDTHS(SORT_WIDTH)

#define SORT_ENTRY(words) [words] = { sort_in_place_##words, sort_through_##words },
static const struct {
    radix_sort *in_place;
    void (*through)(uint64_t *records, uint64_t *room, size_t n);
} sorts[WORDS_MAX + 1] = { WIDTHS(SORT_ENTRY) };

static bool in_order(const uint64_t *records, size_t n, unsigned words)
{
    for (size_t i = 1; i < n; i++)
        if (less(records + i * words, records + (i - 1) * words, words))
            return false;
    return true;
}

static void sort_records(struct sorter *s)
{
    uint64_t *room = NULL;
    assert(s->count <= UINT32_MAX);
    if (in_order(s->records, s->count, s->words))
        return;
    if (s->count >= MANY && s->count <= s->limit - s->count)
        room = malloc(s->count * s->words * sizeof *room);
    if (room)
        sorts[s->words].through(s->records, room, s->count);
    else
        sorts[s->words].in_place(s->records, s->count, 0);
    free(room);
}

/* ---- runs ---- */

static int open_file(struct sorter *s, struct errmsg *msg)
{
    if (s->fd >= 0)
        return 0;
    s->fd = openat(s->temp_dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return s->fd < 0 ? write_failed(errno, "making a temporary file to sort", msg) : 0;
}

static int add_run(struct sorter *s, struct errmsg *msg)
{
    if (s->runs_count == s->runs_room) {
        size_t room = s->runs_room ? 2 * s->runs_room : 16;
        struct run *runs = realloc(s->runs, room * sizeof *runs);
        if (!runs)
            return fail(msg, -ENOMEM, "no memory to sort");
        s->runs = runs;
        s->runs_room = room;
    }
    s->runs[s->runs_count++] = (struct run){ .first = s->spilled, .count = s->count };
    return 0;
}

static int spill(struct sorter *s, struct errmsg *msg)
{
    const size_t size = s->words * sizeof(uint64_t);
    int r = open_file(s, msg);
    if (r < 0)
        return r;
    sort_records(s);
    r = write_all(s->fd, s->records, s->count * size, s->spilled * size, "writing a temporary file to sort",
                  msg);
    if (r < 0)
        return r;
    r = add_run(s, msg);
    if (r < 0)
        return r;
    s->spilled += s->count;
    s->count = 0;
    return 0;
}

static int grow(struct sorter *s, struct errmsg *msg)
{
    size_t room = s->room ? 2 * s->room : FIRST_ROOM;
    if (room > s->limit)
        room = s->limit;
    uint64_t *records = realloc(s->records, room * s->words * sizeof *records);
    if (!records)
        return fail(msg, -ENOMEM, "no memory to sort");
    s->records = records;
    s->room = room;
    return 0;
}

static int make_room(struct sorter *s, struct errmsg *msg)
{
    if (s->count < s->room)
        return 0;
    return s->room < s->limit ? grow(s, msg) : spill(s, msg);
}

int sorter_add_many(struct sorter *s, const uint64_t *records, size_t n, struct errmsg *msg)
{
    assert(!s->reading);
    while (n > 0) {
        int r = make_room(s, msg);
        if (r < 0)
            return r;
        size_t some = n < s->room - s->count ? n : s->room - s->count;
        uint64_t *to = s->records + s->count * s->words;
        memcpy(to, records, some * s->words * sizeof *to);
        for (size_t i = 0; i < some; i++)
            to[i * s->words] ^= SIGN;
        records += some * s->words;
        s->count += some;
        s->total += some;
        n -= some;
    }
    return 0;
}

int sorter_add(struct sorter *s, const uint64_t *record, struct errmsg *msg)
{
    assert(!s->reading);
    int r = make_room(s, msg);
    if (r < 0)
        return r;
    uint64_t *to = s->records + s->count * s->words;
    to[0] = record[0] ^ SIGN;
    if (s->words > 1) /* a loop would become a call of memcpy(), for two or three words */
        to[1] = record[1];
    if (s->words > 2)
        to[2] = record[2];
    if (s->words > 3)
        to[3] = record[3];
    s->count++;
    s->total++;
    return 0;
}

/* ---- reading ---- */

static int read_all(int fd, void *data, size_t len, uint64_t off, struct errmsg *msg)
{
    char *at = data;
    while (len > 0) {
        ssize_t n = pread(fd, at, len, (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail(msg, n < 0 ? -errno : -EIO, "reading a temporary file to sort");
        at += n;
        len -= (size_t)n;
        off += (uint64_t)n;
    }
    return 0;
}

/* Fill the run's buffer: 1, or 0 when nothing is left of it. */
static int refill(struct sorter *s, struct run *run, struct errmsg *msg)
{
    const size_t size = s->words * sizeof(uint64_t);
    uint64_t left = run->first + run->count - run->next;
    run->have = left < s->run_records ? (size_t)left : s->run_records;
    run->at = 0;
    if (run->have == 0)
        return 0;
    int r = read_all(s->fd, run->buffer, run->have * size, run->next * size, msg);
    run->next += run->have;
    return r < 0 ? r : 1;
}

static const uint64_t *head(const struct sorter *s, size_t run)
{
    return s->runs[run].buffer + s->runs[run].at * s->words;
}

static void sift(struct sorter *s, size_t at)
{
    size_t moving = s->heap[at];
    for (size_t child; (child = 2 * at + 1) < s->heap_count; at = child) {
        if (child + 1 < s->heap_count && less(head(s, s->heap[child + 1]), head(s, s->heap[child]), s->words))
            child++;
        if (!less(head(s, s->heap[child]), head(s, moving), s->words))
            break;
        s->heap[at] = s->heap[child];
    }
    s->heap[at] = moving;
}

static int start_merge(struct sorter *s, struct errmsg *msg)
{
    s->heap_count = 0;
    for (size_t i = 0; i < s->runs_count; i++) {
        s->runs[i].next = s->runs[i].first;
        s->runs[i].buffer = s->run_buffers + i * s->run_records * s->words;
        int r = refill(s, &s->runs[i], msg);
        if (r < 0)
            return r;
        if (r == 1)
            s->heap[s->heap_count++] = i;
    }
    for (size_t i = s->heap_count / 2; i-- > 0;)
        sift(s, i);
    return 0;
}

/* What memory holds becomes the last run, and the memory the buffers of all. */
static int prepare_merge(struct sorter *s, struct errmsg *msg)
{
    const size_t size = s->words * sizeof(uint64_t);
    if (s->count > 0) {
        int r = spill(s, msg);
        if (r < 0)
            return r;
    }
    free(s->records);
    s->records = NULL;
    s->room = 0;
    s->run_records = s->limit / s->runs_count;
    if (s->run_records < RUN_BUFFER / size)
        s->run_records = RUN_BUFFER / size;
    s->run_buffers = malloc(s->runs_count * s->run_records * size);
    s->heap = malloc(s->runs_count * sizeof *s->heap);
    return s->run_buffers && s->heap ? 0 : fail(msg, -ENOMEM, "no memory to sort");
}

int sorter_rewind(struct sorter *s, struct errmsg *msg)
{
    if (!s->reading && s->runs_count > 0) {
        int r = prepare_merge(s, msg);
        if (r < 0)
            return r;
    } else if (!s->reading) {
        sort_records(s);
    }
    s->reading = true;
    s->position = 0;
    return s->runs_count > 0 ? start_merge(s, msg) : 0;
}

static void give(struct sorter *s, const uint64_t *record, const uint64_t **ret)
{
    memcpy(s->out, record, s->words * sizeof s->out[0]);
    s->out[0] ^= SIGN;
    *ret = s->out;
}

static int next_of_runs(struct sorter *s, const uint64_t **ret, struct errmsg *msg)
{
    if (s->heap_count == 0)
        return 0;
    struct run *run = &s->runs[s->heap[0]];
    give(s, head(s, s->heap[0]), ret);
    run->at++;
    if (run->at == run->have) {
        int r = refill(s, run, msg);
        if (r < 0)
            return r;
        if (r == 0)
            s->heap[0] = s->heap[--s->heap_count];
    }
    if (s->heap_count > 0)
        sift(s, 0);
    return 1;
}

int sorter_next(struct sorter *s, const uint64_t **record, struct errmsg *msg)
{
    if (!s->reading) {
        int r = sorter_rewind(s, msg);
        if (r < 0)
            return r;
    }
    if (s->runs_count > 0)
        return next_of_runs(s, record, msg);
    if (s->position == s->count)
        return 0;
    give(s, s->records + s->position++ * s->words, record);
    return 1;
}

static int column_of_memory(struct sorter *s, unsigned word, uint64_t *to, int n)
{
    const uint64_t flip = word == 0 ? SIGN : 0;
    if (s->count - s->position < (size_t)n)
        n = (int)(s->count - s->position);
    if (n == 0) /* perhaps there are no records at all */
        return 0;
    const uint64_t *from = s->records + s->position * s->words + word;
    for (int i = 0; i < n; i++)
        to[i] = from[(size_t)i * s->words] ^ flip;
    s->position += (size_t)n;
    return n;
}

int sorter_column(struct sorter *s, unsigned word, uint64_t *to, int n, struct errmsg *msg)
{
    const uint64_t *record;
    assert(word < s->words);
    if (s->reading && s->runs_count == 0)
        return column_of_memory(s, word, to, n);
    for (int i = 0; i < n; i++) {
        int r = sorter_next(s, &record, msg);
        if (r <= 0)
            return r < 0 ? r : i;
        to[i] = record[word];
    }
    return n;
}
