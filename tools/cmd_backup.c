/*
 * backup: a consistent copy of the log, streamed by the daemon into a new file, and the list of the files that the rows of
 * stored tables are in as of its last event.
 *
 * The list is exact: each table is held from before the copy begins until its files are listed, so none of them goes
 * meanwhile, and what is listed is the table as of the copy, however many commits and compactions came since.
 */
#include "ctl.h"
#include "new_file.h"
#include "plain.h"
#include "progress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *cure(int r)
{
    return r == -EEXIST ? ": choose another name, nothing is overwritten" : "";
}

static int file_failed(struct ctl *c, const char *path, int r)
{
    char shown[256];

    return ctl_fail_with(c, r, "%s: %s%s", plain(path, shown, sizeof shown), strerror(-r), cure(r));
}

/* ---- the log -------------------------------------------------------------------------------------------------------------- */

static int copy_log(struct ctl *c, const char *path, uint64_t *seq, uint64_t *bytes)
{
    struct new_file file;

    int r = new_file_begin(&file, path);
    if (r < 0)
        return file_failed(c, path, r);
    progress_begin("backup", "bytes");
    progress_follow(file.fd);
    int code = skade_backup(c->s, file.fd, seq, bytes);
    progress_end();
    if (code == 0)
        r = new_file_publish(&file);
    new_file_end(&file);
    if (code < 0)
        return ctl_fail(c, path, code);
    return r < 0 ? file_failed(c, path, r) : 0;
}

/* ---- stored tables ---------------------------------------------------------------------------------------------------------- */

struct stored {
    skade_table table;
    skade_scan *hold; /* NULL: none, or not any more */
};

struct tables {
    struct stored *stored;
    size_t count, cap;
    uint64_t up_to; /* events up to here count */
};

static int add_table(struct tables *t, skade_table table)
{
    if (t->count == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 64;
        struct stored *more = realloc(t->stored, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        t->stored = more;
        t->cap = cap;
    }
    t->stored[t->count++] = (struct stored){ .table = table };
    return 0;
}

static int note_table(void *arg, const struct skade_table_info *info)
{
    return info->stored ? add_table(arg, info->table) : 0;
}

/* A table that was made while the log was copied, unless it was listed already. */
static int note_created(void *arg, const struct skade_event *e)
{
    struct tables *t = arg;

    if (e->seq > t->up_to)
        return 1;
    if (e->kind != SKADE_EVENT_CREATE || !(e->flags & SKADE_STORED_TABLE))
        return 0;
    for (size_t i = 0; i < t->count; i++)
        if (t->stored[i].table == e->table)
            return 0;
    return add_table(t, e->table);
}

static void let_go(struct tables *t)
{
    for (size_t i = 0; i < t->count; i++)
        skade_scan_close(t->stored[i].hold);
    free(t->stored);
}

/* The number of the newest event now. */
static int newest_event(struct ctl *c, uint64_t *ret)
{
    skade_view *view;

    ctl_next_question(c);
    int r = skade_view_open(c->s, &view);
    if (r < 0)
        return ctl_fail(c, NULL, r);
    *ret = skade_view_seq(view);
    skade_view_close(view);
    return 0;
}

static int hold_table(struct ctl *c, struct stored *t, uint64_t as_of)
{
    struct skade_scan_options o = { .size = sizeof o, .as_of = as_of, .flags = SKADE_FILES_ONLY };

    ctl_next_question(c);
    int r = skade_scan_open(c->s, t->table, &o, &t->hold);
    return r < 0 && r != SKADE_ENOTABLE ? ctl_fail(c, NULL, r) : 0; /* dropped: its files aren't needed */
}

static int list_tables(struct ctl *c, struct tables *t)
{
    ctl_next_question(c);
    int64_t r = skade_tables(c->s, "", note_table, t);
    return r < 0 ? ctl_fail(c, NULL, (int)r) : 0;
}

static int hold_tables(struct ctl *c, struct tables *t)
{
    int code = 0;

    for (size_t i = 0; code == 0 && i < t->count; i++)
        code = hold_table(c, &t->stored[i], 0);
    return code;
}

/* ---- the list of their files -------------------------------------------------------------------------------------------------- */

static int print_path(void *arg, const struct skade_scan_file *file)
{
    if (strchr(file->path, '\n'))
        return -EILSEQ;
    return fprintf(arg, "%s\n", file->path) < 0 ? -EIO : 0;
}

/* The files of T as of event SEQ.  It may be that T wasn't there then. */
static int print_table(struct ctl *c, const struct stored *t, uint64_t seq, FILE *to)
{
    struct stored then = { .table = t->table };
    int64_t r = 0;

    int code = hold_table(c, &then, seq);
    if (code == 0 && then.hold) {
        ctl_next_question(c);
        r = skade_scan_files(then.hold, print_path, to);
    }
    skade_scan_close(then.hold);
    if (r == -EILSEQ)
        return ctl_fail_with(c, (int)r, "a file's path has a line break: it can't be in a list of lines");
    return r < 0 ? ctl_fail(c, NULL, (int)r) : code;
}

static int print_tables(struct ctl *c, const struct tables *t, int fd)
{
    FILE *to = fdopen(dup(fd), "w");
    int code = to ? 0 : ctl_fail_with(c, -ENOMEM, "no memory");

    for (size_t i = 0; code == 0 && i < t->count; i++)
        code = print_table(c, &t->stored[i], t->up_to, to);
    if (to && fclose(to) != 0 && code == 0)
        code = ctl_fail_with(c, -errno, "the list of files can't be written: %s", strerror(errno));
    return code;
}

static int write_list(struct ctl *c, const struct tables *t, const char *path)
{
    struct new_file file;

    int r = new_file_begin(&file, path);
    if (r < 0)
        return file_failed(c, path, r);
    int code = print_tables(c, t, file.fd);
    if (code == 0)
        r = new_file_publish(&file);
    new_file_end(&file);
    return r < 0 ? file_failed(c, path, r) : code;
}

/* ---- all of it ------------------------------------------------------------------------------------------------------------------ */

static int back_up(struct ctl *c, struct tables *t, const char *path, const char *list)
{
    uint64_t before = 0, bytes = 0;

    if (list && access(list, F_OK) == 0) /* before the long work */
        return file_failed(c, list, -EEXIST);
    int code = newest_event(c, &before);
    if (code == 0)
        code = list_tables(c, t);
    if (code == 0 && list)
        code = hold_tables(c, t);
    ctl_next_question(c);
    if (code == 0)
        code = copy_log(c, path, &t->up_to, &bytes);
    if (code == 0 && list) {
        ctl_next_question(c);
        int64_t r = skade_commits_since(c->s, before, 0, note_created, t);
        code = r < 0 ? ctl_fail(c, NULL, (int)r) : write_list(c, t, list);
    }
    if (code != 0)
        return code;
    if (!list && t->count)
        ctl_note(c,
                 "the rows of %zu stored table%s are in files that are not part of it: --entry-files LIST "
                 "says in which",
                 t->count, t->count == 1 ? "" : "s");
    out_text(&c->out, path);
    out_seq(&c->out, t->up_to);
    out_count(&c->out, bytes);
    return ctl_row(c);
}

int cmd_backup(struct ctl *c)
{
    struct tables t = { .count = 0 };
    int code = back_up(c, &t, c->args.operands[0], args_value(&c->args, "entry-files"));

    let_go(&t);
    return code;
}
