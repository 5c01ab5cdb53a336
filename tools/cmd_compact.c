/*
 * compact, gc: a table's history becomes a few large files; what that retired is removed.
 */
#include "ctl.h"
#include "plain.h"
#include "progress.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

/* ---- compact ------------------------------------------------------------------------------------------------------ */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

static int on_progress(void *arg, uint64_t done, uint64_t total, uint64_t bytes)
{
    (void)arg, (void)bytes;
    progress_set(done, total);
    return interrupted;
}

/* "128M", "1G", "65536": powers of 1024. */
static int parse_size(const char *text, uint64_t *ret)
{
    static const char units[] = "KMGT";
    char digits[32];
    size_t len = strlen(text), number = strspn(text, "0123456789");
    const char *unit = strchr(units, text[number]);

    if (number == 0 || number >= sizeof digits || (text[number] && (!unit || len > number + 1)))
        return -EINVAL;
    memcpy(digits, text, number);
    digits[number] = 0;
    if (parse_uint64(digits, ret) < 0)
        return -ERANGE;
    for (int i = text[number] ? (int)(unit - units) + 1 : 0; i > 0; i--) {
        if (*ret > UINT64_MAX / 1024)
            return -ERANGE;
        *ret *= 1024;
    }
    return 0;
}

static int read_options(struct ctl *c, struct skade_compact_options *o)
{
    const char *before = args_value(&c->args, "drop-before"), *prefix = args_value(&c->args, "keep-prefix"),
               *size = args_value(&c->args, "target-size"), *level = args_value(&c->args, "level"),
               *from = args_value(&c->args, "drop-from"), *to = args_value(&c->args, "drop-to"),
               *block = args_value(&c->args, "block-size");
    uint64_t bytes = 0;
    int64_t number = 0;
    int code = 0;

    if (before) {
        o->has_drop_before = 1;
        code = ctl_time(c, "--drop-before", before, &o->drop_before_us);
    }
    if (prefix) {
        o->keep_prefix = prefix;
        o->keep_prefix_len = strlen(prefix);
    }
    if (to && !from)
        from = "";
    if (from) {
        o->drop_from = from;
        o->drop_from_len = strlen(from);
        o->drop_to = to;
        o->drop_to_len = to ? strlen(to) : 0;
    }
    if (code == 0 && size && parse_size(size, &o->target_size) < 0)
        code = ctl_fail_with(c, SKADE_EINPUT, "--target-size: %s is no size like 128M", size);
    if (code == 0 && block && (parse_size(block, &bytes) < 0 || bytes > UINT32_MAX))
        code = ctl_fail_with(c, SKADE_EINPUT, "--block-size: %s is no size like 128K", block);
    o->block_size = (uint32_t)bytes;
    if (code == 0 && level)
        code = ctl_int64(c, "--level", level, &number);
    if (code == 0 && (number < -7 || number > 22))
        code = ctl_fail_with(c, SKADE_EINPUT, "--level %s: zstd has levels -7 to 22", level);
    o->level = (int)number;
    if (args_flag(&c->args, "dry-run"))
        o->flags |= SKADE_DRY_RUN;
    if (args_flag(&c->args, "no-wait"))
        o->flags |= SKADE_NO_WAIT;
    if (code == 0 && o->flags == (SKADE_DRY_RUN | SKADE_NO_WAIT))
        code = ctl_fail_with(c, SKADE_EINPUT,
                             "a dry run that nobody waits for tells nobody: leave out --no-wait");
    return code;
}

static int print_begun(struct ctl *c, const char *table)
{
    out_text(&c->out, table);
    for (int i = 0; i < 15; i++)
        out_absent(&c->out);
    return ctl_row(c);
}

static int print_compacted(struct ctl *c, const char *table, const struct skade_compacted *r)
{
    struct out *o = &c->out;

    if (r->joined)
        ctl_note(
            c,
            "%s: another request was compacting it; this is what came of that one, with its rules and not "
            "with those of this command: compact again for them",
            table);
    if (r->sampled)
        ctl_note(c, "%s: bytes_after is estimated from a sample", table);
    out_text(o, table);
    out_count(o, r->rows);
    out_count(o, r->rows_pruned);
    out_count(o, r->snapshots_before);
    out_count(o, r->carried);
    out_count(o, r->files_before);
    out_count(o, r->files_after);
    out_count(o, r->bytes_before);
    out_count(o, r->bytes_after);
    out_text(o, r->old_data_dir);
    out_number(o, (double)r->micros / 1e6, 3);
    if (r->seq)
        out_id(o, r->snapshot);
    else
        out_absent(o);
    out_seq(o, r->seq);
    out_count(o, r->raw_bytes);
    out_flag(o, r->joined);
    out_flag(o, r->sampled);
    return ctl_row(c);
}

int cmd_compact(struct ctl *c)
{
    const char *name = c->args.operands[0];
    struct skade_compact_options options = { .size = sizeof options, .progress = on_progress };
    static struct skade_compacted result;
    struct sigaction action = { .sa_handler = on_interrupt }, old;
    skade_table table;

    int code = read_options(c, &options);
    if (code == 0)
        code = ctl_find_table(c, name, &table);
    if (code != 0)
        return code;
    result.size = sizeof result;
    sigaction(SIGINT, &action, &old);
    progress_begin("compact", "rows");
    int r = skade_compact(c->s, table, &options, &result);
    progress_end();
    sigaction(SIGINT, &old, NULL);
    if (r == -ECANCELED)
        return ctl_fail_with(c, r, "%s: interrupted; nothing was changed", name);
    if (r < 0)
        return ctl_fail(c, name, r);
    return options.flags & SKADE_NO_WAIT ? print_begun(c, name) : print_compacted(c, name, &result);
}

/* ---- gc ------------------------------------------------------------------------------------------------------------- */

static int print_garbage(void *arg, const struct skade_garbage *g)
{
    struct ctl *c = arg;
    struct out *o = &c->out;

    out_text(o, g->name);
    out_text(o, g->dir);
    out_count(o, g->bytes);
    out_time(o, g->retired_us);
    out_time(o, g->due_us);
    out_text(o, g->waiting_for);
    out_count(o, g->files);
    return ctl_row(c);
}

/* Tables that are asked for, where no living one bears the name: dropped ones of that name, or the one of that number. */
struct wanted {
    const char *name;
    uint64_t number; /* 0: NAME is none */
    skade_table tables[64];
    size_t count;
};

static int note_wanted(void *arg, const struct skade_garbage *g)
{
    struct wanted *w = arg;

    if (strcmp(g->name, w->name) != 0 && g->table != w->number)
        return 0;
    for (size_t i = 0; i < w->count; i++)
        if (w->tables[i] == g->table)
            return 0;
    w->tables[w->count++] = g->table;
    return w->count == sizeof w->tables / sizeof w->tables[0];
}

static int find_tables(struct ctl *c, const char *name, struct wanted *w)
{
    int r = skade_find_table(c->s, name, &w->tables[0]);
    if (r < 0)
        return ctl_fail(c, name, r);
    w->count = (size_t)r;
    w->name = name;
    if (r == 1)
        return 0;
    if (parse_uint64(name, &w->number) < 0)
        w->number = 0;
    int64_t told = skade_gc(c->s, 0, 0, note_wanted, w);
    if (told < 0)
        return ctl_fail(c, name, (int)told);
    return w->count ? 0
                    : ctl_fail_with(c, SKADE_ENOTABLE,
                                    "there is no table '%s', and none that was dropped has files left", name);
}

int cmd_gc(struct ctl *c)
{
    const char *name = c->args.count ? c->args.operands[0] : NULL;
    unsigned flags = args_flag(&c->args, "now") ? SKADE_GC_NOW : 0;
    struct wanted w = { .count = 1 }; /* table 0: all */

    int code = name ? find_tables(c, name, &w) : 0;
    for (size_t i = 0; code == 0 && i < w.count; i++) {
        int64_t r = skade_gc(c->s, w.tables[i], flags, print_garbage, c);
        code = r < 0 ? ctl_fail(c, name, (int)r) : 0;
    }
    return code;
}
