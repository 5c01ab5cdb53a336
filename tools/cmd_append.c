/*
 * append: rows from a file or pipe become one commit, in memory that doesn't grow with them.
 *
 *   lines   a line is a row without key; its length is not limited
 *   tsv     key TAB value
 *   jsonl   see row_line.h
 */
#include "ctl.h"
#include "lines.h"
#include "plain.h"
#include "progress.h"
#include "row_line.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_SIZE (256u << 10)
#define JSON_LINE_MAX (256u << 20)
#define KEY_MAX 65535u

struct append {
    struct ctl *c;
    const char *table, *source; /* their names, for messages */
    int fd;
    uint64_t line; /* from 1 */
    uint64_t rows;
    bool in_row; /* of lines, tsv: the row is open */
    bool tsv;
    char *key; /* of tsv: what came before the TAB */
    size_t key_len;
    unsigned char uuid[16]; /* of the request */
};

static int bad_line(struct append *a, int code, const char *problem)
{
    char shown[256];

    return ctl_fail_with(a->c, code, "%s, line %" PRIu64 ": %s", plain(a->source, shown, sizeof shown),
                         a->line, problem);
}

static int checked(struct append *a, int r)
{
    return r < 0 ? ctl_fail(a->c, a->table, r) : 0;
}

/* ---- lines, tsv ---- */

/* More of the key of a tsv line; *TAKEN bytes of TEXT. */
static int take_key(struct append *a, const char *text, size_t len, size_t *taken)
{
    const char *tab = memchr(text, '\t', len), *newline = memchr(text, '\n', len);

    if (newline && (!tab || newline < tab))
        return bad_line(
            a, SKADE_EINPUT,
            "there is no TAB between key and value; rows without key need --format lines or jsonl");
    *taken = tab ? (size_t)(tab - text) : len;
    if (*taken > KEY_MAX - a->key_len)
        return bad_line(a, SKADE_EINPUT, "the key is longer than 65535 bytes");
    memcpy(a->key + a->key_len, text, *taken);
    a->key_len += *taken;
    if (!tab)
        return 0;
    ++*taken;
    a->in_row = true;
    return checked(a, skade_append_open_row(a->c->s, a->key, a->key_len));
}

static int end_row(struct append *a)
{
    a->in_row = false;
    a->key_len = 0;
    a->rows++;
    return checked(a, skade_append_close_row(a->c->s));
}

/* One step through TEXT: begin a row, or take what belongs to the open one. */
static int take_some(struct append *a, const char *text, size_t len, size_t *taken)
{
    int code = 0;

    *taken = 0;
    if (!a->in_row && a->tsv)
        return take_key(a, text, len, taken);
    if (!a->in_row) {
        a->in_row = true;
        code = checked(a, skade_append_open_row(a->c->s, NULL, 0));
        if (code != 0)
            return code;
    }
    const char *newline = memchr(text, '\n', len);
    size_t n = newline ? (size_t)(newline - text) : len;
    code = checked(a, n ? skade_append_write(a->c->s, text, n) : 0);
    *taken = n + (newline != NULL);
    if (code == 0 && newline) {
        code = end_row(a);
        a->line++;
    }
    return code;
}

static int take_text(struct append *a)
{
    char *buffer = malloc(READ_SIZE);
    int code = buffer ? 0 : CTL_FAILED;
    uint64_t bytes = 0;
    ssize_t n = 0;

    while (code == 0 && (n = read(a->fd, buffer, READ_SIZE)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            code = bad_line(a, -errno, strerror(errno));
            break;
        }
        for (size_t done = 0, taken; code == 0 && done < (size_t)n; done += taken)
            code = take_some(a, buffer + done, (size_t)n - done, &taken);
        progress_set(bytes += (uint64_t)n, 0);
    }
    if (code == 0 && a->in_row) /* the last line may lack its end */
        code = end_row(a);
    else if (code == 0 && a->key_len)
        code =
            bad_line(a, SKADE_EINPUT,
                     "there is no TAB between key and value; rows without key need --format lines or jsonl");
    free(buffer);
    return code;
}

/* ---- jsonl ---- */

static int take_json_line(struct append *a, const char *text, size_t len)
{
    struct row_line row;
    char why[256];
    skade *s = a->c->s;

    if (strspn(text, " \t\r") == len)
        return 0;
    int code = row_line_parse(text, len, &row, why, sizeof why);
    if (code < 0) {
        row_line_fini(&row);
        return bad_line(a, code, *why ? why : strerror(ENOMEM));
    }
    if (row.is_delete)
        code = skade_append_delete(s, row.key, row.key_len);
    else
        code = skade_append_put(s, row.has_key ? row.key : NULL, row.key_len, row.value, row.value_len);
    row_line_fini(&row);
    a->rows++;
    return checked(a, code);
}

static int take_json(struct append *a)
{
    struct lines lines;
    char *text;
    size_t len;
    int found, code = lines_open(&lines, a->fd, JSON_LINE_MAX);

    if (code < 0)
        return bad_line(a, code, strerror(-code));
    while (code == 0 && (found = lines_next(&lines, &text, &len)) != 0) {
        a->line = lines.number;
        if (found == -E2BIG)
            code = bad_line(a, SKADE_EINPUT,
                            "the line is longer than 256 MiB; longer values need --format lines or tsv");
        else if (found < 0)
            code = bad_line(a, found, strerror(-found));
        else
            code = take_json_line(a, text, len);
        if (a->rows % 1024 == 0)
            progress_set(a->rows, 0);
    }
    lines_close(&lines);
    return code;
}

/* ---- all of it ---- */

static int commit(struct append *a, const char *table)
{
    struct skade_appended done = { .size = sizeof done };
    struct ctl *c = a->c;
    char uuid[40];

    int r = skade_append_commit(c->s, &done);
    if (r == SKADE_EUNKNOWN)
        ctl_note(c, "%s: to find out, append the same rows again with --uuid %s", table,
                 skade_uuid_format(a->uuid, uuid));
    if (r < 0)
        return ctl_fail(c, table, r);
    out_text(&c->out, table);
    if (done.seq)
        out_id(&c->out, done.snapshot);
    else
        out_absent(&c->out);
    out_seq(&c->out, done.seq);
    out_count(&c->out, done.rows);
    out_count(&c->out, done.bytes);
    return ctl_row(c);
}

static int run(struct append *a, const char *table, const char *format)
{
    skade_table number;
    const char *given = args_value(&a->c->args, "uuid");

    if (given && skade_uuid_parse(given, a->uuid) < 0)
        return ctl_fail_with(a->c, SKADE_EINPUT,
                             "--uuid: %s is no uuid: it looks like 123e4567-e89b-12d3-a456-426614174000",
                             given);
    if (!given && getrandom(a->uuid, sizeof a->uuid, 0) != (ssize_t)sizeof a->uuid)
        return ctl_fail_with(a->c, -EIO, "no random bytes for a uuid; give one with --uuid");
    int code = ctl_find_table(a->c, table, &number);
    if (code != 0)
        return code;
    code = checked(a, skade_append_begin(a->c->s, number, a->uuid));
    if (code != 0)
        return code;
    bool json = strcmp(format, "jsonl") == 0;
    a->tsv = strcmp(format, "tsv") == 0;
    progress_begin("append", json ? "rows" : "bytes");
    code = json ? take_json(a) : take_text(a);
    code = code == 0 ? commit(a, table) : code;
    skade_append_abort(a->c->s); /* harmless when it is committed */
    progress_end();
    return code;
}

int cmd_append(struct ctl *c)
{
    const char *format = args_value(&c->args, "format"),
               *path = c->args.count > 1 ? c->args.operands[1] : "-";
    struct append a = { .c = c,
                        .table = c->args.operands[0],
                        .source = strcmp(path, "-") != 0 ? path : "standard input",
                        .fd = STDIN_FILENO,
                        .line = 1 };
    struct stat st;
    char shown[256];

    format = format ? format : "lines";
    if (strcmp(format, "lines") != 0 && strcmp(format, "tsv") != 0 && strcmp(format, "jsonl") != 0)
        return ctl_fail_with(c, SKADE_EINPUT, "--format: %s is neither lines, tsv nor jsonl",
                             plain(format, shown, sizeof shown));
    if (strcmp(path, "-") != 0)
        a.fd = open(path, O_RDONLY | O_CLOEXEC);
    if (a.fd < 0)
        return ctl_fail_with(c, -errno, "%s: %s", plain(path, shown, sizeof shown), strerror(errno));
    if (fstat(a.fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        if (a.fd != STDIN_FILENO)
            close(a.fd);
        return ctl_fail_with(c, SKADE_EINPUT,
                             "%s is a directory: give a file with rows, or - for standard input",
                             plain(a.source, shown, sizeof shown));
    }
    a.key = malloc(KEY_MAX);
    int code = a.key ? run(&a, c->args.operands[0], format) : CTL_FAILED;
    free(a.key);
    if (a.fd != STDIN_FILENO)
        close(a.fd);
    return code;
}
