/*
 * Cursors: the rows that are there, from either end, in parts.
 *
 * A part is a stretch between two positions in the order of the table, oldest first, whichever way it is read.  A
 * position is a file and the number of a row in it; where part k of n begins depends on k / n and the files only, so
 * neighbours agree.
 *
 *      file 0        file 1              file 2
 *      | rows        | entries           | entries      |
 *      ^ {0, 0}              ^ {1, number}              ^ {3, 0}
 *
 * Each cursor has one file open at a time, and skips without opening those of which no row is left.
 */
#include "entry_run.h"
#include "rowset_inner.h"

#include <errno.h>
#include <stdlib.h>

struct position {
    size_t file;
    uint64_t number; /* 0: where the file begins */
};

struct rowset_cursor {
    struct rowset *set;
    enum entry_order order;
    struct position from, to; /* [from, to) */
    size_t next_file;         /* to be opened; ordinals go up, or down to 0 */
    size_t files_left;

    struct entry_file *file;   /* that is open, NULL: none */
    struct entry_cursor *rows; /* over it, or over one that was open: then it waits for the next */
    struct entry_run *run;     /* its rows at hand, if nothing about them can fail */
    bool file_ended;
    uint64_t low, high; /* its rows in the stretch: [low, high) */
    uint64_t last;      /* the one of them that comes last */

    struct dead_view dead;
    uint64_t dead_from, dead_to; /* what of the list is still ahead */
    uint64_t dead_number;        /* the next one's; see has_dead */
    bool has_dead;

    int ended; /* 0: no; 1: by the last row; negative: by an error */
    struct errmsg why;
    unsigned steps;
};

/* ---- where parts begin --------------------------------------------------------------------------------- */

/* The last file that begins at or before the NUMBERth of all entries. */
static size_t file_of(const struct rowset *s, uint64_t number)
{
    size_t from = 0, to = s->n;

    while (to - from > 1) {
        size_t middle = from + (to - from) / 2;
        if (s->files[middle].before <= number)
            from = middle;
        else
            to = middle;
    }
    return from;
}

/* Where the Kth of PARTS stretches begins, oldest first. */
static struct position boundary(const struct rowset *s, unsigned k, unsigned parts)
{
    if (k == 0 || k == parts || s->n == 0)
        return (struct position){ k == 0 ? 0 : s->n, 0 };
    uint64_t number = (uint64_t)((unsigned __int128)s->entries * k / parts);
    size_t i = file_of(s, number);
    return (struct position){ i, number - s->files[i].before };
}

/* ---- opening ------------------------------------------------------------------------------------------- */

/* Which files the stretch touches, and where to begin. */
static void plan_files(struct rowset_cursor *c)
{
    size_t end = c->to.number ? c->to.file + 1 : c->to.file;
    bool empty = c->from.file == c->to.file && c->from.number == c->to.number;

    c->files_left = empty ? 0 : end - c->from.file;
    c->next_file = c->order == OLDEST_FIRST ? c->from.file : end - 1;
}

int rowset_cursor_open(struct rowset_cursor **ret, struct rowset *s, enum entry_order order, unsigned part,
                       unsigned parts, struct errmsg *msg)
{
    assert(s->prepared && part < parts);
    unsigned k = order == OLDEST_FIRST ? part : parts - 1 - part;

    struct rowset_cursor *c = calloc(1, sizeof *c);
    if (!c)
        return fail(msg, -ENOMEM, "no memory for a cursor");
    c->set = s;
    c->order = order;
    c->dead.list = &s->dead;
    c->from = boundary(s, k, parts);
    c->to = boundary(s, k + 1, parts);
    plan_files(c);
    *ret = c;
    return 0;
}

static void leave_file(struct rowset_cursor *c)
{
    entry_file_close(c->file);
    c->file = NULL;
    c->run = NULL;
}

void rowset_cursor_close(struct rowset_cursor *c)
{
    if (!c)
        return;
    leave_file(c);
    entry_cursor_close(c->rows);
    free(c);
}

/* ---- dead rows ----------------------------------------------------------------------------------------- */

static int next_dead(struct rowset_cursor *c, struct errmsg *msg)
{
    c->has_dead = c->dead_from < c->dead_to;
    if (!c->has_dead)
        return 0;
    return dead_list_at(&c->dead, c->order == OLDEST_FIRST ? c->dead_from++ : --c->dead_to, &c->dead_number,
                        msg);
}

/* The dead rows of file I in [low, high). */
static int begin_dead(struct rowset_cursor *c, size_t i, struct errmsg *msg)
{
    uint64_t from = c->set->files[i].dead, to = rowset_dead_end(c->set, i);

    int r = dead_list_find(&c->dead, from, to, c->low, &from, msg);
    if (r == 0)
        r = dead_list_find(&c->dead, from, to, c->high, &to, msg);
    if (r < 0)
        return r;
    c->dead_from = from;
    c->dead_to = to;
    return next_dead(c, msg);
}

/* 1 if row NUMBER, which the cursor just came to, is dead. */
static inline int is_dead(struct rowset_cursor *c, uint64_t number, struct errmsg *msg)
{
    if (!c->has_dead || c->dead_number != number)
        return 0;
    int r = next_dead(c, msg);
    return r < 0 ? r : 1;
}

/* ---- files, one after the other -------------------------------------------------------------------------- */

static bool nothing_left(const struct rowset *s, size_t i)
{
    const struct data_file *d = &s->files[i];

    return d->rows == d->deletes + (rowset_dead_end(s, i) - d->dead);
}

/* Go to where the stretch begins in the file, if that isn't one of its ends. */
static int seek(struct rowset_cursor *c, uint64_t rows, struct errmsg *msg)
{
    if (c->order == OLDEST_FIRST)
        return c->low == 0 ? 0 : entry_seek_number(c->rows, c->low, msg);
    return c->high == rows ? 0 : entry_seek_number(c->rows, c->high - 1, msg);
}

static int begin_rows(struct rowset_cursor *c, int64_t time_us, struct errmsg *msg)
{
    if (c->rows)
        return entry_cursor_turn(&c->rows, c->file, time_us, msg);
    return entry_cursor_open(&c->rows, c->file, c->order, time_us, msg);
}

static int enter_file(struct rowset_cursor *c, size_t i, struct errmsg *msg)
{
    const struct data_file *d = &c->set->files[i];

    c->file_ended = false;
    c->low = i == c->from.file ? c->from.number : 0;
    c->high = i == c->to.file ? c->to.number : d->rows;
    c->last = c->order == OLDEST_FIRST ? c->high - 1 : c->low;
    int r = begin_dead(c, i, msg);
    if (r == 0)
        r = rowset_file_open(c->set, i, &c->file, msg);
    if (r == 0)
        r = begin_rows(c, d->time_us, msg);
    if (r == 0)
        r = seek(c, d->rows, msg);
    /* A list of dead rows in a file is read by windows. */
    if (r == 0 && (!c->has_dead || c->dead.list->numbers))
        c->run = entry_cursor_run(c->rows);
    return r;
}

/* 1 if there was one, 0 at the end. */
static int next_file(struct rowset_cursor *c, struct errmsg *msg)
{
    leave_file(c);
    while (c->files_left > 0) {
        size_t i = c->next_file;
        c->files_left--;
        c->next_file = c->order == OLDEST_FIRST ? i + 1 : i - 1;
        if (nothing_left(c->set, i))
            continue;
        int r = enter_file(c, i, msg);
        return r < 0 ? r : 1;
    }
    return 0;
}

/* ---- rows ------------------------------------------------------------------------------------------------ */

/* 1 if ROW, which was just read, is there.  The row behind the last of the stretch isn't even read: it is another part's,
 * and so is its damage. */
static inline int is_there(struct rowset_cursor *c, const struct row *row, struct errmsg *msg)
{
    c->file_ended = row->number == c->last;
    int r = is_dead(c, row->number, msg);
    return r < 0 ? r : r == 0 && !(row->flags & ROW_DELETE);
}

/* The next row of the stretch in this file that is there: 1, 0 at its end. */
static int next_here(struct rowset_cursor *c, struct row *row, struct errmsg *msg)
{
    while (!c->file_ended) {
        int r = entry_next(c->rows, row, msg);
        if (r <= 0)
            return r;
        r = is_there(c, row, msg);
        if (r >= 0 && ++c->steps % 1024 == 0 && rowset_cancelled(c->set, msg) < 0)
            r = -ECANCELED;
        if (r != 0)
            return r;
    }
    return 0;
}

int rowset_next_at_hand(struct rowset_cursor *c, struct row *ret)
{
    struct entry_run *run = c->run;

    if (!run)
        return 0;
    while (!c->file_ended && entry_run_next(run, c->order == OLDEST_FIRST, ret))
        if (is_there(c, ret, NULL))
            return 1;
    return 0;
}

static int next_row(struct rowset_cursor *c, struct row *row, struct errmsg *msg)
{
    for (;;) {
        int r = c->file ? next_here(c, row, msg) : 0;
        if (r != 0)
            return r;
        r = next_file(c, msg);
        if (r <= 0)
            return r;
    }
}

int rowset_next(struct rowset_cursor *c, struct row *ret, struct errmsg *msg)
{
    if (!c->ended) {
        int r = next_row(c, ret, &c->why);
        if (r > 0)
            return 1;
        leave_file(c);
        c->ended = r < 0 ? r : 1;
    }
    if (c->ended > 0)
        return 0;
    return fail(msg, c->ended, "%s", c->why.text);
}

int rowset_value_read(struct rowset_cursor *c, uint64_t off, void *buffer, size_t len, struct errmsg *msg)
{
    assert(c->file);
    return entry_value_read(c->rows, off, buffer, len, msg);
}
