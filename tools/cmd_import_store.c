/*
 * import-simd-r-drive: the live rows of a store of that engine become one commit.
 *
 * They are appended oldest entry first, so that a scan, newest first, gives them in the order of that engine's iterator.
 * It keeps no keys, only their hashes: a row's key is its key hash as 16 hexadecimal digits.  The file is checked whole
 * before a row is sent, and each payload again while it is sent, since nobody keeps others from writing to it.
 */
#include "ctl.h"
#include "plain.h"
#include "progress.h"
#include "store_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KEY_DIGITS 16

struct import_store {
    struct ctl *c;
    const char *path;
    skade_table table;
    enum drive_layout layout;
    struct drive *drive;
};

static int file_failed(struct import_store *im, int code, const struct drive_problem *why)
{
    char shown[256];

    return ctl_fail_with(im->c, code, "%s: %s", plain(im->path, shown, sizeof shown), why->text);
}

/* ---- rows ---- */

/* Exit codes go through drive_read() as they are: positive. */
static int send_piece(void *arg, const void *data, size_t len)
{
    struct import_store *im = arg;
    int r = skade_append_write(im->c->s, data, len);

    return r < 0 ? ctl_fail(im->c, im->c->args.operands[0], r) : 0;
}

static int send_row(struct import_store *im, const struct drive_row *row)
{
    struct drive_problem why;
    char key[KEY_DIGITS + 1];

    snprintf(key, sizeof key, "%016" PRIx64, row->key_hash);
    int r = skade_append_open_row(im->c->s, key, KEY_DIGITS);
    if (r < 0)
        return ctl_fail(im->c, im->c->args.operands[0], r);
    int code = drive_read(im->drive, row, send_piece, im, &why);
    if (code != 0)
        return code < 0 ? file_failed(im, code, &why) : code;
    r = skade_append_close_row(im->c->s);
    return r < 0 ? ctl_fail(im->c, im->c->args.operands[0], r) : 0;
}

static int send_rows(struct import_store *im)
{
    uint64_t count = drive_row_count(im->drive);
    int code = 0;

    progress_begin("import", "rows");
    for (uint64_t i = 0; code == 0 && i < count; i++) {
        struct drive_row row = drive_row(im->drive, i);
        code = send_row(im, &row);
        progress_set(i + 1, count);
    }
    return code;
}

/* ---- the commit ---- */

static int begin(struct import_store *im, const unsigned char *uuid)
{
    int r = skade_append_begin(im->c->s, im->table, uuid);

    return r < 0 ? ctl_fail(im->c, im->c->args.operands[0], r) : 0;
}

static int commit(struct import_store *im, struct skade_appended *ret)
{
    int r = skade_append_commit(im->c->s, ret);

    return r < 0 ? ctl_fail(im->c, im->c->args.operands[0], r) : 0;
}

/* An append of nothing commits nothing, but is refused by tables that keep no rows: ask before a large file is read. */
static int check_table(struct import_store *im)
{
    int code = begin(im, NULL);

    return code == 0 ? commit(im, NULL) : code;
}

static int print(struct ctl *c, const struct skade_appended *done)
{
    out_text(&c->out, c->args.operands[0]);
    if (done->seq)
        out_id(&c->out, done->snapshot);
    else
        out_absent(&c->out);
    out_seq(&c->out, done->seq);
    out_count(&c->out, done->rows);
    out_count(&c->out, done->bytes);
    return ctl_row(c);
}

static int open_file(struct import_store *im)
{
    struct drive_problem why;

    progress_begin("check", "bytes");
    int r = drive_open(&im->drive, im->path, im->layout, &why);
    return r < 0 ? file_failed(im, r, &why) : 0;
}

static int import(struct import_store *im, const unsigned char *uuid)
{
    struct skade_appended done = { .size = sizeof done };

    int code = ctl_find_table(im->c, im->c->args.operands[0], &im->table);
    if (code == 0)
        code = check_table(im);
    if (code == 0)
        code = open_file(im);
    if (code != 0)
        return code;
    ctl_next_question(im->c); /* checking took its time, and the daemon had no part in it */
    code = begin(im, uuid);
    if (code == 0)
        code = send_rows(im);
    if (code == 0)
        code = commit(im, &done);
    return code == 0 ? print(im->c, &done) : code;
}

/* ---- the command line ---- */

static int parse_layout(struct ctl *c, enum drive_layout *ret)
{
    const char *given = args_value(&c->args, "layout");
    char shown[64];

    *ret = DRIVE_ANY;
    if (!given)
        return 0;
    for (int i = 0; i < DRIVE_LAYOUTS; i++)
        if (strcmp(given, drive_layout_names[i]) == 0) {
            *ret = (enum drive_layout)i;
            return 0;
        }
    return ctl_usage(c, "--layout %s is neither 64, 16 nor none", plain(given, shown, sizeof shown));
}

int cmd_import_simd_r_drive(struct ctl *c)
{
    struct import_store im = { .c = c, .path = c->args.operands[1] };
    const char *given = args_value(&c->args, "uuid");
    unsigned char uuid[16];

    if (given && skade_uuid_parse(given, uuid) < 0)
        return ctl_fail_with(c, SKADE_EINPUT,
                             "--uuid: %s is no uuid: it looks like 123e4567-e89b-12d3-a456-426614174000",
                             given);
    int code = parse_layout(c, &im.layout);
    if (code == 0)
        code = import(&im, given ? uuid : NULL);
    skade_append_abort(c->s); /* harmless when it is committed */
    progress_end();
    drive_close(im.drive);
    return code;
}
