#include "table_check.h"

#include "indexer.h"
#include "rowset.h"
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- on a worker --------------------------------------------------------------------------------------------------- */

static void damaged(struct table_check *tc, const char *why)
{
    if (!tc->damaged++)
        snprintf(tc->detail, sizeof tc->detail, "%s", why);
}

static int check_data(struct table_check *tc, const char *path, const struct entry_expect *expect,
                      struct errmsg *msg)
{
    struct entry_file *file;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    tc->files++;
    if (fd < 0)
        return fail(msg, -errno, "%s: %s", path, strerror(errno));
    int r = entry_file_open(&file, fd, path, expect, msg);
    if (r == 0) {
        r = tc->full ? entry_file_verify(file, msg) : 0;
        entry_file_close(file);
    }
    return r;
}

static void check_manifest(struct table_check *tc, const char *path)
{
    const struct uuid *log = &tc->server->origin;
    struct manifest m;
    struct errmsg msg = { "" };
    char name[ENTRY_NAME_MAX], file[LOCATION_MAX + ENTRY_NAME_MAX];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    tc->files++;
    int r = fd < 0 ? fail(&msg, -errno, "%s: %s", path, strerror(errno))
                   : manifest_read(&m, fd, path, log, tc->hold.table, &msg);
    if (fd >= 0)
        close(fd);
    if (r < 0) {
        damaged(tc, msg.text);
        return;
    }
    int dir_len = (int)(strrchr(path, '/') - path);
    for (uint32_t i = 0; i < m.header.files; i++) {
        struct entry_expect expect = { .log = *log,
                                       .uuid = m.header.uuid,
                                       .table = tc->hold.table,
                                       .part = i + 1,
                                       .footer_check = m.files[i].footer_check,
                                       .size = m.files[i].size };
        snprintf(file, sizeof file, "%.*s/%s", dir_len, path,
                 entry_name(name, NAME_ROWS, &m.header.uuid, i + 1));
        if (check_data(tc, file, &expect, &msg) < 0)
            damaged(tc, msg.text);
    }
    manifest_fini(&m);
}

/* A file must be the one that its name says. */
static void name_says(const char *path, struct uuid *uuid)
{
    enum entry_name kind;
    uint32_t part;

    if (!entry_name_parse(strrchr(path, '/') + 1, &kind, uuid, &part))
        *uuid = (struct uuid){ { 0 } };
}

static void run_check(uv_work_t *work)
{
    struct table_check *tc = work->data;
    struct entry_expect expect = { .log = tc->server->origin, .table = tc->hold.table };
    struct errmsg msg = { "" };

    for (size_t i = 0; i < tc->list.count; i++) {
        const struct listed_file *f = &tc->list.files[i];
        name_says(f->path, &expect.uuid);
        if (f->base)
            check_manifest(tc, f->path);
        else if (check_data(tc, f->path, &expect, &msg) < 0)
            damaged(tc, msg.text);
    }
}

/* ---- on the loop ---------------------------------------------------------------------------------------------------------- */

static void next_table(struct table_check *tc);

static void checked(uv_work_t *work, int status)
{
    struct table_check *tc = work->data;

    (void)status;
    tc->server->workers--;
    filelist_fini(&tc->list);
    lease_unpin(tc->server, &tc->hold);
    next_table(tc);
}

static void listed(struct filelist *l)
{
    struct table_check *tc = l->owner;

    if (l->error < 0)
        damaged(tc, error_text(l->error));
    tc->work.data = tc;
    tc->server->workers++;
    if (world.work(&tc->server->loop, &tc->work, run_check, checked) < 0)
        abort(); /* only for a NULL callback */
}

/* A stored table that lives and has rows: its head, pinned. */
static bool pin(struct table_check *tc, const struct table *t)
{
    static struct answer head;
    struct server *s = tc->server;
    uint32_t number;

    if (t->kind != TABLE_STORED || t->dropped_seq != SEQ_MAX ||
        ledger_head(s->ledger, indexer_generation(s->indexer), t->number, SEQ_MAX, &head) != 1)
        return false;
    const struct retirement *base = table_base(t, SEQ_MAX, &number);
    tc->hold = (struct lease){ .table = t->number, .at = s->ledger->seq, .seq = head.seq };
    tc->hold.base_seq = base ? base->seq : 0;
    tc->hold.after = base ? base->watermark : 0;
    if (base && head.seq == base->seq)
        tc->hold.after = base->seq;
    lease_pin(s, &tc->hold);
    return true;
}

static void next_table(struct table_check *tc)
{
    struct server *s = tc->server;

    while (!*tc->cancelled && !s->stopping && tc->next < s->ledger->tables_count) {
        if (!pin(tc, s->ledger->tables[tc->next++]))
            continue;
        tc->list = (struct filelist){ .server = s,
                                      .table = tc->hold.table,
                                      .after = tc->hold.after,
                                      .seq = tc->hold.seq,
                                      .base_seq = tc->hold.base_seq,
                                      .owner = tc,
                                      .done = listed };
        filelist_start(&tc->list);
        return;
    }
    tc->done(tc);
}

void table_check_start(struct table_check *tc)
{
    next_table(tc);
}
