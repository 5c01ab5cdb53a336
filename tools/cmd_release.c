/*
 * release: many commits from JSON lines, all or none.
 *
 * Lines go to the library in pieces, so that a release may be larger than memory likes; nothing is visible before the
 * end, and a bad line anywhere leaves nothing.  The library and the daemon count commits, and whoever wrote the file
 * counts lines, so the numbers of blank lines are kept.
 */
#include "ctl.h"
#include "lines.h"
#include "name_cache.h"
#include "plain.h"
#include "progress.h"
#include "release_line.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE 1024

struct release {
    struct ctl *c;
    struct lines lines;
    struct name_cache names; /* of one piece */
    size_t count;            /* in this piece */
    uint64_t total;          /* in all pieces that were sent */
    uint64_t *blanks;        /* the numbers of blank lines */
    size_t blank_count;
    struct skade_commit commits[PIECE];
    char *strings[PIECE][2]; /* location and base of each: owned */
    struct release_line line;
    char problem[256];
};

static int bad_line(struct release *r, int code, const char *problem)
{
    return ctl_fail_with(r->c, code, "line %" PRIu64 ": %s", r->lines.number, problem);
}

/* ---- from commits to lines ---- */

static int note_blank(struct release *r)
{
    size_t n = r->blank_count;

    if ((n & (n - 1)) == 0) { /* full: room is a power of two */
        uint64_t *more = reallocarray(r->blanks, n ? 2 * n : 1, sizeof *more);
        if (!more)
            return bad_line(r, -ENOMEM, strerror(ENOMEM));
        r->blanks = more;
    }
    r->blanks[r->blank_count++] = r->lines.number;
    return 0;
}

/* The line of commit N, counted from 1. */
static uint64_t line_of(const struct release *r, uint64_t n)
{
    for (size_t i = 0; i < r->blank_count && r->blanks[i] <= n; i++)
        n++;
    return n;
}

/* The library or the daemon refused with CODE: a commit of the release, or all of it. */
static int refused(struct release *r, int code)
{
    const char *text = skade_errmsg(r->c->s);
    char shown[256];
    uint64_t n;
    int len = 0;

    if (sscanf(text, "commit %" SCNu64 " of the release%n", &n, &len) == 1 && len > 0)
        return ctl_fail_with(r->c, code, "line %" PRIu64 "%s", line_of(r, n), text + len);
    if (r->total == 1 && code != SKADE_EUNKNOWN && code != SKADE_ETIMEOUT && code != SKADE_EUNREACHABLE)
        return ctl_fail_with(r->c, code, "line %" PRIu64 " (%s): %s", line_of(r, 1),
                             plain(r->line.table, shown, sizeof shown), *text ? text : skade_strerror(code));
    return ctl_fail(r->c, NULL, code);
}

/* ---- pieces ---- */

static void forget_piece(struct release *r)
{
    for (size_t i = 0; i < r->count; i++) {
        free(r->strings[i][0]);
        free(r->strings[i][1]);
    }
    r->count = 0;
    name_cache_clear(&r->names);
}

/* Send what has gathered.  0 or an exit code. */
static int send_piece(struct release *r)
{
    int code = r->count ? skade_release_add(r->c->s, r->commits, r->count) : 0;

    r->total += r->count;
    forget_piece(r);
    progress_set(r->total, 0);
    return code < 0 ? refused(r, code) : 0;
}

static int lookup(void *s, const char *name, skade_table *ret)
{
    return skade_find_table(s, name, ret);
}

/* Put the line that was parsed into the piece.  0 or an exit code. */
static int add(struct release *r)
{
    struct release_line *line = &r->line;
    struct skade_commit *commit = &r->commits[r->count];
    char **strings = r->strings[r->count];
    char shown[256];

    int code = name_cache_find(&r->names, line->table, lookup, r->c->s, &line->commit.table);
    if (code <= 0)
        return ctl_fail_with(r->c, code ? code : SKADE_ENOTABLE, "line %" PRIu64 ": %s: %s", r->lines.number,
                             plain(line->table, shown, sizeof shown),
                             code ? skade_strerror(code) : "no such table: `skadectl tables` lists them");
    strings[0] = strdup(line->location);
    strings[1] = line->commit.base == SKADE_BASE_IS ? strdup(line->base_location) : NULL;
    r->count++;
    if (!strings[0] || (line->commit.base == SKADE_BASE_IS && !strings[1]))
        return bad_line(r, -ENOMEM, strerror(ENOMEM));
    *commit = line->commit;
    commit->location = strings[0];
    commit->base_location = strings[1];
    return 0;
}

static int take_line(struct release *r, const char *text, size_t len)
{
    if (strspn(text, " \t\r") == len)
        return note_blank(r);
    int code = release_line_parse(text, len, &r->line, r->problem, sizeof r->problem);
    if (code < 0)
        return bad_line(r, code, *r->problem ? r->problem : strerror(ENOMEM));
    code = add(r);
    return code == 0 && r->count == PIECE ? send_piece(r) : code;
}

static int take_lines(struct release *r)
{
    char *text;
    size_t len;
    int found, code = 0;

    while (code == 0 && (found = lines_next(&r->lines, &text, &len)) != 0) {
        if (found == -E2BIG)
            code = bad_line(r, SKADE_EINPUT, "the line is too long");
        else if (found < 0)
            code = bad_line(r, found, strerror(-found));
        else
            code = take_line(r, text, len);
    }
    return code == 0 ? send_piece(r) : code;
}

static int print_range(struct ctl *c, uint64_t first, uint64_t last, uint64_t count)
{
    out_seq(&c->out, first);
    out_seq(&c->out, last);
    out_count(&c->out, count);
    return ctl_row(c);
}

/* All pieces are sent: make them true.  A release of nothing is nothing. */
static int end(struct release *r)
{
    uint64_t first = 0, last = 0;

    if (r->total == 0)
        return print_range(r->c, 0, 0, 0);
    int code = skade_release_end(r->c->s, &first, &last);
    return code < 0 ? refused(r, code) : print_range(r->c, first, last, r->total);
}

static int run(struct release *r, int fd)
{
    int code = lines_open(&r->lines, fd, RELEASE_LINE_MAX);

    if (code < 0)
        return ctl_fail_with(r->c, code, "%s", strerror(-code));
    progress_begin("release", "commits");
    code = take_lines(r);
    if (code != 0)
        skade_release_abort(r->c->s);
    else
        code = end(r);
    progress_end();
    forget_piece(r);
    free(r->blanks);
    lines_close(&r->lines);
    return code;
}

int cmd_release(struct ctl *c)
{
    const char *path = c->args.count ? c->args.operands[0] : "-";
    bool standard_input = strcmp(path, "-") == 0;
    char shown[256];

    int fd = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return ctl_fail_with(c, -errno, "%s: %s", plain(path, shown, sizeof shown), strerror(errno));
    struct release *r = calloc(1, sizeof *r);
    int code = CTL_FAILED;
    if (r) {
        r->c = c;
        code = run(r, fd);
    } else {
        ctl_note(c, "%s", strerror(ENOMEM));
    }
    free(r);
    if (!standard_input)
        close(fd);
    return code;
}
