/*
 * A start from the index file is a start from the log, only faster: the same ledger, field by field, and the same
 * answers.  And whatever is wrong with the file, or with the log that it stands for, is found.
 *
 * Lives of a daemon in the simulator over a log of random events that is written here.
 */
#include "indexload.h"

#include "failpoint.h"
#include "indexer.h"
#include "indexfile.h"
#include "ledger_same.h"
#include "publisher_fixture.h"
#include "quick.h"
#include "simulator.h"
#include "tempdir.h"

#include <errno.h>
#include <glob.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- random events ---------------------------------------------------------------------------------------------------- */

#define TABLES 9

/* What may happen next follows from a ledger that everything is applied to. */
struct author {
    uint64_t random;
    struct ledger *ledger;
    bool compacts;
    uint64_t newest[TABLES + 1]; /* commit of each table */
    char text[200], text2[200];
};

static uint64_t roll(struct author *a, uint64_t n)
{
    return random_below(&a->random, n);
}

static struct event random_commit(struct author *a, struct event e)
{
    uint64_t x = random_u64(&a->random);

    e.kind = EVENT_COMMIT;
    e.flags = EVENT_INTRODUCES | EVENT_HAS_SNAPSHOT | (roll(a, 4) ? EVENT_MOVES_HEAD : 0);
    e.snapshot = (int64_t)roll(a, 60);
    if (roll(a, 4))
        snprintf(a->text, sizeof a->text, "s3://b/t%u/metadata/%05d-%08x-1111-2222-3333-%012x.metadata.json",
                 e.table, (int)roll(a, 100), (unsigned)x, (unsigned)(x >> 32));
    else
        snprintf(a->text, sizeof a->text, "odd/%x", (unsigned)x);
    a->newest[e.table] = e.seq;
    return e;
}

/* A compaction or an expiry of what is under the head, or of all. */
static bool random_retirement(struct author *a, const struct table *t, struct event *e)
{
    uint64_t by, low = table_watermark(t, SEQ_MAX, &by);
    bool compact = a->compacts && roll(a, 2);

    if (t->head.seq <= low + 1)
        return false;
    e->watermark = compact ? low + 1 + roll(a, a->newest[t->number] - low) : low + roll(a, t->head.seq - low);
    e->kind = compact ? EVENT_COMPACT : EVENT_EXPIRE;
    if (!compact)
        return true;
    uint64_t seq = e->seq, mark = e->watermark;
    *e = random_commit(a, *e);
    *e = (struct event){ .seq = seq,
                         .kind = EVENT_COMPACT,
                         .flags = EVENT_INTRODUCES | EVENT_HAS_SNAPSHOT | EVENT_MOVES_HEAD,
                         .table = t->number,
                         .snapshot = 1000 + (int64_t)seq,
                         .time_us = e->time_us,
                         .watermark = mark,
                         .uuid = e->uuid,
                         .text2 = bytes_of(seq % 3 ? "2026-02-03T04:05:06.000007Z" : "") };
    return true;
}

/* The next event, lent until the next call. */
static struct event next_event(struct author *a)
{
    struct ledger *l = a->ledger;
    struct event e = { .seq = l->seq + 1, .time_us = (int64_t)roll(a, 100000) };
    uint64_t words[2] = { roll(a, 20) ? random_u64(&a->random) : 0, 7 };

    if (words[0])
        memcpy(&e.uuid, words, sizeof e.uuid);
    a->text[0] = a->text2[0] = 0;
    if (l->tables_count < TABLES && (l->tables_count == 0 || roll(a, 20) == 0)) {
        e.kind = EVENT_CREATE;
        e.table = (uint32_t)l->tables_count + 1;
        snprintf(a->text, sizeof a->text, "ns.t%u", (unsigned)e.seq);
        snprintf(a->text2, sizeof a->text2, "s3://b/%u", e.table);
    } else {
        e.table = 1 + (uint32_t)roll(a, l->tables_count);
        const struct table *t = ledger_table(l, e.table);
        uint64_t what = roll(a, 40);
        if (t->dropped_seq != SEQ_MAX) {
            e.table = (uint32_t)l->tables_count;
            t = ledger_table(l, e.table);
        }
        if (t->dropped_seq != SEQ_MAX) { /* all the newest are gone: another table */
            e.kind = EVENT_CREATE;
            e.table = (uint32_t)l->tables_count + 1;
            snprintf(a->text, sizeof a->text, "ns.more%u", (unsigned)e.seq);
            snprintf(a->text2, sizeof a->text2, "s3://more");
        } else if (what == 0) {
            e.kind = EVENT_RENAME;
            snprintf(a->text, sizeof a->text, "ns.r%u", (unsigned)e.seq);
            struct bytes name = ledger_name_at(l, e.table, SEQ_MAX);
            snprintf(a->text2, sizeof a->text2, "%.*s", (int)name.len, name.data);
        } else if (what == 1 && roll(a, 5) == 0) {
            e.kind = EVENT_DROP;
            struct bytes name = ledger_name_at(l, e.table, SEQ_MAX);
            snprintf(a->text, sizeof a->text, "%.*s", (int)name.len, name.data);
        } else if (what > 4 || e.table > TABLES || !random_retirement(a, t, &e)) {
            if (e.table <= TABLES)
                e = random_commit(a, e);
            else
                e = (struct event){ .seq = e.seq,
                                    .kind = EVENT_COMMIT,
                                    .flags = EVENT_MOVES_HEAD,
                                    .table = e.table,
                                    .time_us = e.time_us };
        }
    }
    e.text = bytes_of(a->text);
    e.text2 = bytes_of(a->text2);
    return e;
}

/* ---- ledgers alone: with compactions, whose files a daemon would miss --------------------------------------------------- */

#define EVENTS 600

struct capture {
    struct generation g;
    struct part_map maps[4];
    void *buffers[4];
};

static void add_part(struct capture *c, const struct ledger *l, const struct event *const *events, size_t n,
                     uint64_t to)
{
    size_t i = c->g.parts_count++;
    struct part_info info = {
        .log = l->log, .seed = l->seed, .epoch = 1, .generation = 1, .from_seq = c->g.covered, .to_seq = to
    };
    struct part_plan *plan;
    size_t rows = 0;
    const struct event *commits[EVENTS];

    for (size_t k = 0; k < n; k++)
        if (events[k]->seq > c->g.covered && events[k]->seq <= to &&
            (events[k]->kind == EVENT_COMMIT || events[k]->kind == EVENT_COMPACT))
            commits[rows++] = events[k];
    ck_assert_int_eq(part_plan_rows(&plan, &info, commits, rows), 0);
    size_t bytes = part_plan_size(plan);
    c->buffers[i] = aligned_alloc(64, align_up(bytes, 64));
    ck_assert_int_eq(part_plan_fill(plan, c->buffers[i], bytes), 0);
    part_plan_free(plan);
    c->maps[i] = (struct part_map){ .refs = 1, .size = bytes };
    ck_assert_int_eq(part_open(&c->maps[i].part, c->buffers[i], bytes, PART_VERIFY, NULL), 0);
    c->g.parts[i] = &c->maps[i];
    c->g.covered = to;
}

/* What an index file would have of L, into a fresh ledger. */
static struct ledger *restored(const struct ledger *l, const struct generation *g)
{
    struct ledger *r = ledger_new(&l->log, l->seed);
    struct index_uuid u;
    uint64_t place = 0;

    ck_assert_ptr_nonnull(r);
    for (size_t o = 0, c = 0; o < l->others_count || c < l->compactions_count;) {
        const struct event *other = o < l->others_count ? l->others[o].event : NULL;
        if (c < l->compactions_count && (!other || l->compactions[c].seq < other->seq)) {
            const struct compacted *k = &l->compactions[c++];
            struct event e = { .seq = k->seq,
                               .kind = EVENT_COMPACT,
                               .table = k->table,
                               .time_us = k->when_us,
                               .watermark = k->watermark };
            ck_assert_int_eq(ledger_restore(r, &e), 0);
        } else {
            ck_assert_int_eq(ledger_restore(r, other), 0);
            o++;
        }
    }
    while (uuids_copy(l->uuids, SEQ_MAX, &place, &u, 1))
        ck_assert_int_eq(ledger_restore_uuid(r, &u), 0);
    ck_assert_int_eq(ledger_restore_end(r, g, l->seq), 0);
    ledger_count_snapshots(r, g);
    return r;
}

START_TEST(a_restored_ledger_is_the_one_that_was_replayed)
{
    struct author a = { .random = (uint64_t)_i, .compacts = true };
    struct uuid log = { { 3 } };
    struct event *events[EVENTS];
    struct capture c = { .g = { .refs = 1 } };
    unsigned cuts = 1 + (unsigned)_i % 4;

    a.ledger = ledger_new(&log, 77);
    for (size_t i = 0; i < EVENTS; i++) {
        struct event e = next_event(&a);
        events[i] = event_copy(&e);
        ck_assert_int_eq(ledger_apply(a.ledger, events[i], true, NULL), 0);
    }
    for (unsigned i = 1; i <= cuts; i++)
        add_part(&c, a.ledger, (const struct event *const *)events, EVENTS, (uint64_t)EVENTS * i / cuts);
    ledger_count_snapshots(a.ledger, &c.g);
    struct ledger *r = restored(a.ledger, &c.g);
    ledgers_are_same(a.ledger, r);
    ledger_free(r);
    ledger_free(a.ledger);
    for (size_t i = 0; i < c.g.parts_count; i++) {
        part_close(c.maps[i].part);
        free(c.buffers[i]);
    }
    for (size_t i = 0; i < EVENTS; i++)
        free(events[i]);
}
END_TEST

START_TEST(what_does_not_fit_together_is_refused)
{
    struct uuid log = { { 3 } };
    struct ledger *l = ledger_new(&log, 1);
    struct event create = {
        .seq = 2, .kind = EVENT_CREATE, .table = 1, .text = bytes_of("a.b"), .text2 = bytes_of("x")
    };
    struct event compact = { .seq = 5, .kind = EVENT_COMPACT, .table = 1, .watermark = 4 }, e;
    struct index_uuid u = { { { 1 } }, 2, 0 }, none = { .seq = 3 };
    struct generation g = { .covered = 1 };

    ck_assert_int_eq(ledger_restore(l, &compact), SKADE_EDAMAGED); /* of no table */
    ck_assert_int_eq(ledger_restore(l, &create), 0);
    ck_assert_int_eq(ledger_restore(l, &create), SKADE_EDAMAGED); /* again */
    e = create;
    e.seq = 3;
    e.kind = EVENT_COMMIT;
    ck_assert_int_eq(ledger_restore(l, &e), SKADE_EDAMAGED); /* commits are in parts */
    e = compact;
    e.watermark = 5;
    ck_assert_int_eq(ledger_restore(l, &e), SKADE_EDAMAGED); /* of itself */
    ck_assert_int_eq(ledger_restore_uuid(l, &u), 0);
    ck_assert_int_eq(ledger_restore_uuid(l, &u), SKADE_EDAMAGED);
    ck_assert_int_eq(ledger_restore_uuid(l, &none), SKADE_EDAMAGED);
    ck_assert_int_eq(ledger_restore_end(l, &g, 1), SKADE_EDAMAGED); /* event 2 isn't covered */
    ledger_free(l);
}
END_TEST

/* ---- lives ----------------------------------------------------------------------------------------------------------------- */

static struct author author;

/* N more events, straight into the log, which no daemon has. */
static void write_log(uint64_t n)
{
    struct errmsg why = { "" };
    struct commitlog *log;
    struct commitlog_options opt = { .dir = sim_path("data/log"), .sync_full = false };

    mkdir(sim_path("data"), 0700);
    ck_assert_msg(commitlog_open(&log, &opt, &why) == 0, "%s", why.text);
    if (!author.ledger)
        author.ledger = ledger_new(&commitlog_meta(log)->log, commitlog_meta(log)->seed);
    for (uint64_t i = 0; i < n; i++) {
        struct event e = next_event(&author);
        ck_assert_msg(commitlog_append(log, &e, 1, &why) == 0, "%s", why.text);
        ck_assert_int_eq(ledger_apply(author.ledger, &e, true, NULL), 0);
    }
    commitlog_close(log);
}

static void place(uint64_t seed)
{
    sim_begin(seed, tempdir(), false);
    author = (struct author){ .random = seed };
}

static void end_place(void)
{
    ledger_free(author.ledger);
    sim_end();
}

/* What a life found at its start. */
static struct {
    uint64_t from_file;
    uint64_t seq;
    bool readonly;
    char why[256];
    uint64_t unchecked; /* at the end */
    uint64_t failed;
    bool is_damaged; /* no comparing: the log isn't what it was */
} seen;

static void look(void *arg)
{
    struct server *s = sim.server;

    (void)arg;
    seen.from_file = s->unchecked;
    seen.seq = s->ledger->seq;
    seen.readonly = s->readonly[0] != 0;
    snprintf(seen.why, sizeof seen.why, "%s", s->readonly);
    if (!seen.is_damaged)
        server_is_as_from_log(s);
    sim_settle();
}

static void look_and_stop(void *arg)
{
    look(arg);
    sim_stop();
    sim_finish();
    seen.unchecked = sim.server->unchecked;
    seen.failed = counter_get(sim.server->page, COUNTER_index_file_failed);
}

/* Long enough for everything that rides on timers. */
static void look_long(void *arg)
{
    look(arg);
    sim_pass(20000);
    if (!sim.server->stopping) {
        seen.unchecked = sim.server->unchecked;
        sim_stop();
    }
    sim_finish();
}

static void look_and_die(void *arg)
{
    look(arg);
    sim_kill();
    sim_stop();
    sim_finish();
}

static int live(void (*script)(void *arg))
{
    return sim_live(NULL, script, NULL);
}

static const char *only_part(void)
{
    static char path[512];
    glob_t found;

    ck_assert_int_eq(glob(sim_path("data/index/*.part"), 0, NULL, &found), 0);
    ck_assert_uint_eq(found.gl_pathc, 1);
    snprintf(path, sizeof path, "%s", found.gl_pathv[0]);
    globfree(&found);
    return path;
}

START_TEST(a_start_from_the_file_is_a_start_from_the_log)
{
    place((uint64_t)_i + 1);
    write_log(300 + (uint64_t)_i * 37);
    live(look_and_stop);
    ck_assert_uint_eq(seen.from_file, 0);
    live(look_and_stop); /* nothing newer */
    ck_assert_uint_eq(seen.from_file, author.ledger->seq);
    uint64_t before = author.ledger->seq;
    write_log(1 + (uint64_t)_i * 11);
    live(look_and_die); /* and some that are newer */
    ck_assert_uint_eq(seen.from_file, before);
    ck_assert_uint_eq(seen.seq, author.ledger->seq);
    live(look_long); /* and as a delta, since nothing was written */
    ck_assert_uint_eq(seen.from_file, before);
    ck_assert_uint_eq(seen.unchecked, 0);
    live(look_and_stop);
    ck_assert_uint_eq(seen.from_file, author.ledger->seq);
    end_place();
}
END_TEST

/* A kill at each of the places that matter, and at each arrival there. */
static const char *deadly;
static unsigned deadly_in;

static int die_there(const char *name)
{
    if (deadly && strcmp(name, deadly) == 0 && !sim.killed && --deadly_in == 0) {
        deadly = NULL;
        sim_kill();
    }
    return 0;
}

START_TEST(a_kill_while_it_is_written_leaves_what_a_start_can_use)
{
    static const char *const places[] = { "index.write", "index.fsync", "index.rename", "index.renamed" };

    if (!has_failpoints())
        return;
    place(9);
    sim.failpoint = die_there;
    write_log(200);
    for (size_t i = 0; i < ARRAY_SIZE(places); i++)
        for (unsigned n = 1; n <= 2; n++) {
            deadly = places[i];
            deadly_in = n;
            write_log(50);
            live(look_and_stop);
            ck_assert_ptr_null(deadly); /* it was there, and died */
            live(look_and_die);
            ck_assert_uint_eq(seen.seq, author.ledger->seq);
        }
    end_place();
}
END_TEST

static int no_room(const char *name)
{
    return strcmp(name, "index.write") == 0 ? -ENOSPC : 0;
}

START_TEST(a_full_disk_is_a_counter_and_the_old_file_stays)
{
    if (!has_failpoints())
        return;
    place(10);
    write_log(200);
    live(look_and_stop);
    uint64_t before = author.ledger->seq;
    write_log(50);
    sim.failpoint = no_room;
    ck_assert_int_eq(live(look_and_stop), 0);
    ck_assert_uint_eq(seen.failed, 1);
    sim.failpoint = NULL;
    live(look_and_stop);
    ck_assert_uint_eq(seen.from_file, before);
    end_place();
}
END_TEST

static void write_file(const char *path, const void *data, size_t len)
{
    FILE *out = fopen(path, "we");

    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(data, 1, len, out), len);
    ck_assert_int_eq(fclose(out), 0);
}

/* ---- damage ------------------------------------------------------------------------------------------------------------------ */

struct bytes_of_file {
    uint8_t *data;
    size_t size;
};

static struct bytes_of_file read_file(const char *path)
{
    struct stat st;
    struct bytes_of_file f;
    FILE *in = fopen(path, "re");

    ck_assert_ptr_nonnull(in);
    ck_assert_int_eq(fstat(fileno(in), &st), 0);
    f.size = (size_t)st.st_size;
    f.data = malloc(f.size);
    ck_assert_uint_eq(fread(f.data, 1, f.size, in), f.size);
    fclose(in);
    return f;
}

/* The files of index/ are put back before each trial: what is damaged is removed. */
static struct bytes_of_file good_index, good_part;
static char index_path[512], part_path[512];

static void keep_good(void)
{
    snprintf(index_path, sizeof index_path, "%s", sim_path("data/index/index"));
    snprintf(part_path, sizeof part_path, "%s", only_part());
    good_index = read_file(index_path);
    good_part = read_file(part_path);
}

static void try_files(const struct bytes_of_file *index, const struct bytes_of_file *part, const char *what,
                      size_t at)
{
    write_file(index_path, index->data, index->size);
    if (part)
        write_file(part_path, part->data, part->size);
    else
        unlink(part_path);
    live(look_and_die);
    ck_assert_msg(seen.from_file == 0, "%s at %zu: it was believed", what, at);
    ck_assert_uint_eq(seen.seq, author.ledger->seq);
    ck_assert_msg(access(index_path, F_OK) < 0, "%s at %zu: it is still there", what, at);
}

START_TEST(whatever_is_wrong_with_it_the_log_tells_all)
{
    place(11);
    write_log(60);
    live(look_and_stop);
    live(look_and_die);
    ck_assert_uint_eq(seen.from_file, 60);
    keep_good();
    for (size_t at = 0; at < good_part.size; at += at < 512 ? 23 : 211) {
        good_part.data[at] ^= 0x10;
        try_files(&good_index, &good_part, "a flipped bit of a part", at);
        good_part.data[at] ^= 0x10;
    }
    for (size_t at = 0; at < good_index.size; at += 61) { /* test_indexfile.c tries each */
        good_index.data[at] ^= 0x10;
        try_files(&good_index, &good_part, "a flipped bit", at);
        good_index.data[at] ^= 0x10;
    }
    for (int i = 0; i < 3; i++) {
        struct bytes_of_file cut = { good_part.data, i == 0 ? 0 : i == 1 ? 511 : good_part.size - 1 };
        try_files(&good_index, &cut, "an end of a part", cut.size);
        cut = (struct bytes_of_file){ good_index.data, i == 0 ? 0 : i == 1 ? 119 : good_index.size - 1 };
        try_files(&cut, &good_part, "an end", cut.size);
    }
    try_files(&good_index, NULL, "no part", 0);
    write_file(index_path, good_index.data, good_index.size);
    write_file(part_path, good_part.data, good_part.size);
    live(look_and_die);
    ck_assert_uint_eq(seen.from_file, 60); /* so the trials could have */
    free(good_index.data);
    free(good_part.data);
    end_place();
}
END_TEST

/* Change the log as another program could that keeps its checksum over the ends. */
static void sql(const char *text)
{
    sqlite3 *db;

    ck_assert_int_eq(sqlite3_open(sim_path("data/log/skade.db"), &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

START_TEST(the_file_of_another_log_is_thrown_away)
{
    char other[600], command[1400];

    place(12);
    write_log(80);
    live(look_and_stop);
    snprintf(other, sizeof other, "%s", sim_path("data/elsewhere"));
    snprintf(command, sizeof command, "mv '%s' '%s' && rm -r '%s'", sim_path("data/index"), other,
             sim_path("data/log"));
    ck_assert_int_eq(system(command), 0);
    ledger_free(author.ledger);
    author.ledger = NULL;
    write_log(120);
    snprintf(command, sizeof command, "rm -rf '%s'; mv '%s' '%s'; rm -f '%s'/*", sim_path("data/index"),
             other, sim_path("data/index"), sim_path("shm"));
    ck_assert_int_eq(system(command), 0);
    live(look_and_die);
    ck_assert_uint_eq(seen.from_file, 0);
    ck_assert_int_lt(access(sim_path("data/index/index"), F_OK), 0);
    end_place();
}
END_TEST

START_TEST(a_log_that_is_older_than_the_file_is_read_only_and_nothing_is_touched)
{
    char command[1400];

    place(13);
    write_log(80);
    snprintf(command, sizeof command, "cp -a '%s' '%s'", sim_path("data/log"), sim_path("data/old"));
    ck_assert_int_eq(system(command), 0);
    write_log(10);
    live(look_and_stop);
    struct bytes_of_file before = read_file(sim_path("data/index/index"));
    /* As after a boot: without the control page, which would tell, too. */
    snprintf(command, sizeof command, "rm -r '%s'; mv '%s' '%s'; rm -f '%s'/*", sim_path("data/log"),
             sim_path("data/old"), sim_path("data/log"), sim_path("shm"));
    ck_assert_int_eq(system(command), 0);
    live(look_long);
    ck_assert(seen.readonly);
    ck_assert_ptr_nonnull(strstr(seen.why, "older than the data"));
    ck_assert_uint_eq(seen.seq, 80);
    struct bytes_of_file after = read_file(sim_path("data/index/index"));
    ck_assert_uint_eq(before.size, after.size);
    ck_assert_mem_eq(before.data, after.data, after.size);
    free(before.data);
    free(after.data);
    end_place();
}
END_TEST

/* The rows that the file stands for aren't read before the daemon serves.  They are soon after. */
START_TEST(a_damaged_row_of_old_ends_the_daemon_and_the_next_start_refuses)
{
    place(14);
    write_log(300);
    live(look_and_stop);
    sql("UPDATE log SET time_us = time_us + 1 WHERE seq = 100");
    seen.is_damaged = true;
    ck_assert_int_eq(live(look_long), 1);
    ck_assert_uint_eq(seen.from_file, 300);
    ck_assert_int_lt(access(sim_path("data/index/index"), F_OK), 0);

    struct commitlog *log;
    struct errmsg why = { "" };
    struct commitlog_options opt = { .dir = sim_path("data/log"), .sync_full = true };
    ck_assert_int_eq(commitlog_open(&log, &opt, &why), 0);
    struct commitlog_cursor cursor = commitlog_start(commitlog_meta(log));
    ck_assert_int_eq(commitlog_read(log, &cursor, SIZE_MAX, SIZE_MAX, NULL, NULL, &why), SKADE_EDAMAGED);
    ck_assert_uint_eq(cursor.seq, 99);
    commitlog_close(log);
    end_place();
}
END_TEST

static void stop_at_once(void *arg)
{
    (void)arg;
    seen.from_file = sim.server->unchecked;
    sim_stop();
    sim_finish();
}

/* The end of a daemon writes what is newer into the file: not after this. */
START_TEST(a_damaged_row_that_is_found_while_the_daemon_ends_leaves_no_file)
{
    place(15);
    write_log(300);
    live(look_and_stop);
    write_log(20);
    sql("UPDATE log SET time_us = time_us + 1 WHERE seq = 100");
    live(stop_at_once);
    ck_assert_uint_eq(seen.from_file, 300);
    ck_assert_int_lt(access(sim_path("data/index/index"), F_OK), 0);
    end_place();
}
END_TEST

Suite *index_load_suite(void);
Suite *index_load_suite(void)
{
    Suite *s = suite_create("index_load");
    TCase *c = tcase_create("load");

    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, a_restored_ledger_is_the_one_that_was_replayed, 0, 40);
    tcase_add_test(c, what_does_not_fit_together_is_refused);
    tcase_add_loop_test(c, a_start_from_the_file_is_a_start_from_the_log, 0, 6);
    tcase_add_test(c, a_kill_while_it_is_written_leaves_what_a_start_can_use);
    tcase_add_test(c, a_full_disk_is_a_counter_and_the_old_file_stays);
    tcase_add_test(c, whatever_is_wrong_with_it_the_log_tells_all);
    tcase_add_test(c, the_file_of_another_log_is_thrown_away);
    tcase_add_test(c, a_log_that_is_older_than_the_file_is_read_only_and_nothing_is_touched);
    tcase_add_test(c, a_damaged_row_of_old_ends_the_daemon_and_the_next_start_refuses);
    tcase_add_test(c, a_damaged_row_that_is_found_while_the_daemon_ends_leaves_no_file);
    suite_add_tcase(s, c);
    return s;
}
