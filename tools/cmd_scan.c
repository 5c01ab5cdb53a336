/*
 * scan, get: the rows of a table that skade stores.
 *
 * With several threads each prints its part of the rows in pieces, one at a time: all rows come, each whole, in the
 * parts' order only within a part.
 */
#include "ctl.h"
#include "plain.h"
#include "row_print.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_SIZE (256u << 10)
#define THREADS_MAX 64

struct scan {
    struct ctl *c;
    const char *table;
    enum row_format format;
    unsigned flags, parts;
    skade_scan *scan;
    pthread_mutex_t output;
    int code;          /* the first that failed; under the mutex */
    char problem[512]; /* and why */
};

struct part {
    struct scan *scan;
    unsigned number;
    pthread_t thread;
    FILE *piece; /* what is printed and not yet on standard output; with one thread standard output itself */
    char *text;
    size_t size;
    uint64_t rows;
};

static void failed(struct part *p, int code, const char *problem)
{
    struct scan *s = p->scan;

    pthread_mutex_lock(&s->output);
    if (s->code == 0) {
        s->code = code;
        snprintf(s->problem, sizeof s->problem, "%s", problem);
    }
    pthread_mutex_unlock(&s->output);
}

/* The piece goes to standard output. */
static int flush_piece(struct part *p)
{
    struct scan *s = p->scan;

    if (p->piece == stdout)
        return ferror(stdout) ? -EPIPE : 0;
    fflush(p->piece);
    pthread_mutex_lock(&s->output);
    fwrite(p->text, 1, p->size, stdout);
    int r = ferror(stdout) ? -EPIPE : s->code; /* another part failed: no need to go on */
    pthread_mutex_unlock(&s->output);
    rewind(p->piece);
    return r;
}

static int print_row(struct part *p, skade_cursor *cursor, const struct skade_row *row)
{
    struct scan *s = p->scan;
    const char *why;
    char problem[256];

    int r = row_print(p->piece, s->format, cursor, row, &why);
    if (r < 0 && why) {
        snprintf(problem, sizeof problem, "a row can't be printed: %s; use --format jsonl", why);
        failed(p, SKADE_EINPUT, problem);
    } else if (r < 0) {
        failed(p, r, skade_cursor_errmsg(cursor));
    }
    p->rows++;
    return r;
}

static void *run_part(void *arg)
{
    struct part *p = arg;
    struct scan *s = p->scan;
    skade_cursor *cursor;
    struct skade_row row = { .size = sizeof row };
    int r = skade_cursor_open(s->scan, s->flags, p->number, s->parts, &cursor);

    if (r < 0) {
        failed(p, r, skade_strerror(r));
        return NULL;
    }
    while ((r = skade_cursor_next(cursor, &row)) == 1) {
        r = print_row(p, cursor, &row);
        if (r == 0 && (p->piece == stdout ? ferror(stdout) != 0 : ftell(p->piece) >= (long)PIECE_SIZE))
            r = flush_piece(p);
        if (r != 0)
            break;
    }
    if (r < 0)
        failed(p, r, skade_cursor_errmsg(cursor));
    if (p->piece != stdout)
        flush_piece(p);
    skade_cursor_close(cursor);
    return NULL;
}

static int open_part(struct part *p)
{
    p->piece = p->scan->parts == 1 ? stdout : open_memstream(&p->text, &p->size);
    return p->piece ? 0 : -ENOMEM;
}

static void close_part(struct part *p)
{
    if (p->piece && p->piece != stdout)
        fclose(p->piece);
    free(p->text);
}

static int run_parts(struct scan *s)
{
    struct part *parts = calloc(s->parts, sizeof *parts);
    unsigned running = 0;

    if (!parts)
        return CTL_FAILED;
    for (unsigned i = 0; i < s->parts; i++) {
        parts[i].scan = s;
        parts[i].number = i;
        if (open_part(&parts[i]) < 0)
            failed(&parts[i], -ENOMEM, strerror(ENOMEM));
    }
    for (unsigned i = 1; i < s->parts && s->code == 0; i++, running++)
        if (pthread_create(&parts[i].thread, NULL, run_part, &parts[i]) != 0) {
            failed(&parts[i], -EAGAIN, "no thread for a part; use fewer --threads");
            break;
        }
    if (s->code == 0)
        run_part(&parts[0]);
    for (unsigned i = 1; i <= running; i++)
        pthread_join(parts[i].thread, NULL);
    for (unsigned i = 0; i < s->parts; i++)
        close_part(&parts[i]);
    free(parts);
    if (s->code == -EPIPE)
        return CTL_FAILED; /* nobody reads any more */
    return s->code ? ctl_fail_with(s->c, s->code, "%s: %s", s->table, s->problem) : CTL_OK;
}

/* --snapshot or --as-of, for scan and get. */
static int which_snapshot(struct ctl *c, bool times, struct skade_scan_options *ret)
{
    const char *id = args_value(&c->args, "snapshot"), *time = times ? args_value(&c->args, "as-of") : NULL;

    *ret = (struct skade_scan_options){ .size = sizeof *ret };
    if (id && time)
        return ctl_fail_with(c, SKADE_EINPUT, "--snapshot and --as-of are two moments: give one");
    if (id) {
        ret->by = SKADE_AT_SNAPSHOT;
        return ctl_int64(c, "--snapshot", id, &ret->value);
    }
    if (time) {
        ret->by = SKADE_AT_TIME;
        return ctl_time(c, "--as-of", time, &ret->value);
    }
    return 0;
}

int cmd_scan(struct ctl *c)
{
    const char *format = args_value(&c->args, "format");
    struct skade_scan_options options;
    struct scan s = { .c = c, .table = c->args.operands[0], .output = PTHREAD_MUTEX_INITIALIZER };
    skade_table table;
    uint64_t threads = 1;
    char shown[128];

    if (row_format_parse(format ? format : c->out.json ? "jsonl" : "lines", &s.format) < 0)
        return ctl_fail_with(c, SKADE_EINPUT, "--format: %s is neither lines, tsv nor jsonl",
                             plain(format ? format : "", shown, sizeof shown));
    int code = which_snapshot(c, true, &options);
    if (code == 0)
        code = ctl_uint64_option(c, "threads", &threads);
    if (code == 0 && (threads < 1 || threads > THREADS_MAX))
        code = ctl_fail_with(c, SKADE_EINPUT, "--threads %s: 1 to %d can be", args_value(&c->args, "threads"),
                             THREADS_MAX);
    if (code == 0)
        code = ctl_find_table(c, s.table, &table);
    if (code != 0)
        return code;
    s.parts = (unsigned)threads;
    s.flags = args_flag(&c->args, "oldest-first") ? SKADE_OLDEST_FIRST : 0;
    int r = skade_scan_open(c->s, table, &options, &s.scan);
    if (r < 0)
        return ctl_fail(c, s.table, r);
    code = run_parts(&s);
    skade_scan_close(s.scan);
    return code;
}

/* ---- get -------------------------------------------------------------------------------------------------------------- */

static int print_found(struct ctl *c, const char *value, size_t len)
{
    if (c->out.json) {
        putc('{', stdout);
        json_bytes(stdout, "value", value, len);
        fputs("}\n", stdout);
    } else {
        fwrite(value, 1, len, stdout); /* nothing but the value, unless a person looks */
        if (ctl_on_terminal())
            putc('\n', stdout);
    }
    return CTL_OK;
}

int cmd_get(struct ctl *c)
{
    const char *name = c->args.operands[0], *key = c->args.operands[1];
    struct skade_scan_options options;
    skade_table table;
    size_t len = 0, cap = 65536;
    char shown[256];

    int code = which_snapshot(c, false, &options);
    if (code == 0)
        code = ctl_find_table(c, name, &table);
    if (code != 0)
        return code;
    char *value = malloc(cap);
    int r = value ? skade_get(c->s, table, &options, key, strlen(key), value, cap, &len) : -ENOMEM;
    while (r == -ERANGE) { /* it may have been replaced by a longer one meanwhile */
        free(value);
        cap = len;
        value = malloc(cap);
        r = value ? skade_get(c->s, table, &options, key, strlen(key), value, cap, &len) : -ENOMEM;
    }
    if (r == 1)
        code = print_found(c, value, len);
    else if (r == 0)
        code = ctl_fail_with(c, SKADE_ENOSNAPSHOT, "%s: no row has the key %s", name,
                             plain(key, shown, sizeof shown));
    else
        code = ctl_fail(c, name, r);
    free(value);
    return code;
}
