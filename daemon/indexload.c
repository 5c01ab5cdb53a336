#include "indexload.h"

#include "build.h"
#include "indexfile.h"
#include "log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

struct loading {
    struct server *server;
    int dir;
    struct index_file file;
    struct ledger *ledger;
    struct index_loaded *out;
    struct errmsg *msg;
};

/* ---- is it of this log? ------------------------------------------------------------------------------------------ */

static void set_readonly(struct server *s, const struct index_header *h, uint64_t last_seq)
{
    snprintf(s->readonly, sizeof s->readonly,
             "the log is older than the data: index/index was made of its %" PRIu64
             " events, and it has %" PRIu64
             "; restore the newest backup of the log, or, to go on without them, remove that file",
             h->covered, last_seq);
    log_error("%s; serving read-only", s->readonly);
}

/* 0, or negative: not to be believed.  -ERANGE: by no fault of its own. */
static int check_log(struct loading *l)
{
    struct server *s = l->server;
    const struct commitlog_meta *meta = commitlog_meta(s->log);
    const struct index_header *h = &l->file.header;
    struct commitlog_cursor *cursor = &l->out->cursor;

    if (!uuid_equal(&h->log, &meta->log) || h->seed != meta->seed)
        return fail(l->msg, SKADE_EDAMAGED, "index/index was made from another log, or before a restore");
    if (h->covered > meta->last_seq) {
        set_readonly(s, h, meta->last_seq);
        return -ERANGE;
    }
    int r = commitlog_seek(s->log, h->covered, cursor, l->msg);
    if (r == 0 && cursor->chain != h->chain)
        r = fail(l->msg, SKADE_EDAMAGED, "index/index knows another event %" PRIu64 " than the log",
                 h->covered);
    if (r == 0 && h->parts.count > INDEXLOAD_PARTS_MAX)
        r = fail(l->msg, SKADE_EFULL, "index/index has %" PRIu64 " parts", h->parts.count);
    return r;
}

/* ---- the ledger ------------------------------------------------------------------------------------------------------- */

static int load_events(struct loading *l)
{
    size_t place = 0;
    struct event e;
    int r;

    while ((r = indexfile_event(&l->file, &place, &e)) == 1) {
        if (e.seq > l->file.header.covered || commitlog_event_flaw(&e))
            return SKADE_EDAMAGED;
        r = ledger_restore(l->ledger, &e);
        if (r < 0)
            return r;
    }
    return r;
}

/* Of an expiry the daemon that was asked knows more than the log (judge_retire.c).  A start doesn't, wherever it takes its
 * events from.  U's are asked for in order: *OTHER is where the last one ended. */
static void forget_what_was_asked(const struct ledger *l, size_t *other, struct index_uuid *u)
{
    while (*other < l->others_count && l->others[*other].event->seq < u->seq)
        ++*other;
    const struct event *e = *other < l->others_count ? l->others[*other].event : NULL;
    if (e && e->seq == u->seq && e->kind == EVENT_EXPIRE)
        u->content = event_content(e);
}

static int load_uuids(struct loading *l)
{
    uint64_t seq = 0;
    size_t other = 0;

    for (uint64_t i = 0; i < l->file.header.uuids.count; i++) {
        struct index_uuid u = l->file.uuids[i];
        if (u.seq <= seq || u.seq > l->file.header.covered)
            return SKADE_EDAMAGED;
        seq = u.seq;
        forget_what_was_asked(l->ledger, &other, &u);
        int r = ledger_restore_uuid(l->ledger, &u);
        if (r < 0)
            return r;
    }
    return 0;
}

static int load_ledger(struct loading *l)
{
    struct server *s = l->server;

    l->ledger = ledger_new(&s->ledger->log, s->ledger->seed);
    if (!l->ledger)
        return -ENOMEM;
    int r = load_events(l);
    if (r == 0)
        r = load_uuids(l);
    return r < 0 ? fail(l->msg, r, "index/index: its events don't fit together: %s", error_text(r)) : 0;
}

/* ---- parts --------------------------------------------------------------------------------------------------------------- */

struct reading {
    struct loading *loading;
    const struct index_part *row;
    uint64_t epoch, generation;
    unsigned flags; /* of part_open() */
    int error;      /* the file's, not shared memory's */
};

/* Is what was read the part that `index` names, of this log?  Its content is verified later, or with the flags. */
static int check_part(const struct reading *rd, const void *buf, size_t size)
{
    const struct index_header *h = &rd->loading->file.header;
    struct part *part;

    int r = part_open(&part, buf, size, rd->flags, rd->loading->msg);
    if (r < 0)
        return r;
    const struct seg_header *seg = &part_header(part)->seg;
    if (seg->header_check != rd->row->header_check || seg->from_seq != rd->row->from_seq ||
        seg->to_seq != rd->row->to_seq || seg->seed != h->seed || !uuid_equal(&seg->log, &h->log))
        r = fail(rd->loading->msg, SKADE_EDAMAGED, "index/%016" PRIx64 ".part is another part",
                 rd->row->header_check);
    part_close(part);
    return r;
}

static int fill_part(void *arg, void *buf, size_t size)
{
    struct reading *rd = arg;

    rd->error = indexfile_read_part(rd->loading->dir, rd->row, buf, rd->loading->msg);
    if (rd->error == 0)
        rd->error = check_part(rd, buf, size);
    if (rd->error == 0)
        part_readdress(buf, size, rd->epoch, rd->generation);
    return rd->error;
}

/* In shared memory, under a name of this epoch, or in private memory when there is no room. */
static int load_part(struct loading *l, const struct index_part *row)
{
    struct publisher *publisher = l->server->publisher;
    struct index_loaded *out = l->out;
    struct reading rd = {
        .loading = l, .row = row, .epoch = publisher_epoch(publisher), .generation = ++out->last_number
    };
    struct errmsg why = { "" };
    struct part_map *made;

    int r = part_into_shared(publisher, rd.generation, row->size, fill_part, &rd, &made, &why);
    if (r < 0 && rd.error == 0 && r != SKADE_EDAMAGED) {
        out->not_shared = why;
        rd.flags = PART_VERIFY;
        rd.generation = 0;
        r = part_into_private(row->size, fill_part, &rd, &made, &why);
    }
    if (r < 0)
        return l->msg->text[0] ? r : fail(l->msg, r, "%s", why.text);
    out->parts[out->parts_count++] = made;
    return 0;
}

static int load_parts(struct loading *l)
{
    int r = 0;

    for (uint64_t i = 0; r == 0 && i < l->file.header.parts.count; i++)
        r = load_part(l, &l->file.parts[i]);
    return r;
}

static void drop_parts(struct loading *l)
{
    struct index_loaded *out = l->out;

    for (size_t i = 0; i < out->parts_count; i++) {
        if (out->parts[i]->generation)
            publisher_unlink(l->server->publisher, SHM_PART, out->parts[i]->generation);
        part_map_unref(out->parts[i]);
    }
    out->parts_count = 0;
}

static int finish_ledger(struct loading *l)
{
    struct generation g = { .covered = l->file.header.covered, .parts_count = l->out->parts_count };

    memcpy(g.parts, l->out->parts, g.parts_count * sizeof *g.parts);
    int r = ledger_restore_end(l->ledger, &g, l->file.header.covered);
    return r < 0 ? fail(l->msg, r, "index/index doesn't fit its parts: %s", error_text(r)) : 0;
}

/* ---- all of it ----------------------------------------------------------------------------------------------------------- */

static int load(struct loading *l)
{
    int r = check_log(l);
    if (r == 0)
        r = load_ledger(l);
    if (r == 0)
        r = load_parts(l);
    if (r == 0)
        r = finish_ledger(l);
    if (r < 0) {
        drop_parts(l);
        ledger_free(l->ledger);
        return r;
    }
    ledger_free(l->server->ledger);
    l->server->ledger = l->ledger;
    return 1;
}

int index_load(struct server *s, struct index_loaded *ret)
{
    struct errmsg msg = { "" };
    struct loading l = { .server = s, .out = ret, .msg = &msg };

    int r = l.dir = indexfile_dir(s->config.data_dir.text, false, &msg);
    if (r == -ENOENT)
        return 0;
    if (r >= 0)
        r = indexfile_read(l.dir, &l.file, &msg);
    if (r == 1) {
        r = load(&l);
        indexfile_fini(&l.file);
    }
    if (r < 0 && !s->readonly[0])
        log_warning("the index file is of no use, so the index is made from the log: %s", msg.text);
    if (r < 0 && l.dir >= 0 && !s->readonly[0])
        indexfile_remove(l.dir);
    if (l.dir >= 0)
        close(l.dir);
    return r == 1;
}
