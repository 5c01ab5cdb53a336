/*
 * Stored tables against their model (tests/support/rows_model.h): random operations from a seed, and every row that comes
 * out again must be the model's, byte by byte, in every order, at every snapshot that is alive; SKADE_EEXPIRED at every
 * other.
 *
 *     operations  appends and deletions, several to a commit; compactions with rules, with a callback, without; commits
 *                 that arrive meanwhile; expiry, collection, drop and recreation
 *     questions   scans newest first, oldest first, in parts; point reads; at snapshots, times, numbers, heads, views;
 *                 scans that are held over whatever comes next
 *     trouble     restarts, kill -9, kill at a fail point within a change, an error at a fail point of one
 *
 *     tables STEPS -- DAEMON-OPTIONS          SKADE_SEED repeats a run
 *
 * The model learns from the log what became of a change, and refuses what it didn't ask for: so a change within which
 * the daemon died was made whole or not at all.
 */
#include "stress.h"

#include "rows_model.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>

#define TIMEOUT_MS 60000
#define FRAIL_MS 300 /* for a change within which the daemon dies */
#define VIEWS 4
#define HOLDS 4
#define TABLES 3
#define ROWS_MAX 2500 /* of a table, before it is thinned out */

/* ---- the world -------------------------------------------------------------------------------------------------------- */

struct view {
    skade_view *view; /* NULL: none */
    skade *handle;
    uint64_t at;
};

/* A scan that stays open. */
struct hold {
    skade_scan *scan;
    uint64_t at;
    uint64_t k_seq; /* of the commit; 0: none */
    skade_table table;
    bool loose; /* the daemon has ended since: its files may go */
};

enum rule { NO_RULE, DROP_BEFORE, KEEP_PREFIX, DROP_RANGE, CALLBACK };

struct wanted_append {
    bool pending;
    skade_table table;
    unsigned char uuid[16];
    struct mrows rows;
};

struct wanted_compact {
    bool pending;
    skade_table table;
    unsigned char uuid[16];
    uint64_t at;
    enum rule rule;
    int64_t before_us;
    char from[8], to[8];
    uint64_t choice; /* of the callback */
    uint64_t target_size;
    uint32_t block_size;
};

struct world {
    struct daemon daemon;
    const char *data_dir;
    bool threads; /* a compaction has several */
    uint64_t random;
    skade *handle[2]; /* mapped, and without shared memory */
    skade *choosing;  /* for compactions by callback, during which the others are used */
    struct rows_model model;
    skade_table living[TABLES];
    uint64_t collected[64 * 1024]; /* by table: files that events up to here retired may be gone */
    struct view view[VIEWS];
    struct hold hold[HOLDS];
    struct wanted_append append;
    struct wanted_compact compact;
    uint64_t made; /* uuids and values */
    uint64_t scans, rows, gets, held, expired, compactions, carried, crashes, errors, restarts, big;
};

static uint64_t below(struct world *w, uint64_t n)
{
    return roll_below(&w->random, n);
}

static bool chance(struct world *w, unsigned in)
{
    return below(w, in) == 0;
}

static skade *some_handle(struct world *w)
{
    return w->handle[below(w, 2)];
}

static void make_uuid(struct world *w, unsigned char *ret)
{
    for (int i = 0; i < 2; i++) {
        uint64_t word = roll(&w->random);
        memcpy(ret + i * 8, &word, 8);
    }
}

static skade_table some_table(struct world *w)
{
    return w->living[below(w, TABLES)];
}

/* ---- learning what became of a change ------------------------------------------------------------------------------------ */

static bool rule_keeps(const struct wanted_compact *c, const struct mrow *row)
{
    const void *key;
    size_t len = row->key ? model_key(row->key, &key) : 0, from = strlen(c->from), to = strlen(c->to);

    switch (c->rule) {
    case DROP_BEFORE:
        return row->time_us >= c->before_us;
    case KEEP_PREFIX:
        return !row->key || (len >= from && memcmp(key, c->from, from) == 0);
    case DROP_RANGE:
        if (!row->key)
            return true;
        int low = memcmp(key, c->from, len < from ? len : from),
            high = memcmp(key, c->to, len < to ? len : to);
        return (low ? low < 0 : len < from) || !(high ? high < 0 : len < to);
    case CALLBACK:
        return (synthetic_mix(row->seed ^ c->choice) & 3) != 0;
    default:
        return true;
    }
}

static void learn_commit(struct world *w, struct mevent *e, const unsigned char *uuid)
{
    const struct mevent *before = NULL;

    if (!w->append.pending || w->append.table != e->table || memcmp(w->append.uuid, uuid, 16) != 0)
        die("event %llu is a commit that nobody asked for", (unsigned long long)e->seq);
    w->append.pending = false;
    for (uint64_t seq = 1; seq < e->seq; seq++)
        if (has_rows(mevent_at(&w->model, seq), e->table))
            before = mevent_at(&w->model, seq)->time_us > (before ? before->time_us : INT64_MIN)
                         ? mevent_at(&w->model, seq)
                         : before;
    if (before && e->time_us <= before->time_us)
        die("commit %llu isn't later than commit %llu before it", (unsigned long long)e->seq,
            (unsigned long long)before->seq);
    for (size_t i = 0; i < w->append.rows.count; i++) {
        struct mrow row = w->append.rows.row[i];
        row.time_us = e->time_us;
        mrows_add(&e->rows, &row);
    }
}

static void learn_compaction(struct world *w, struct mevent *e)
{
    struct wanted_compact *c = &w->compact;
    const struct mevent *head = mtable_head(&w->model, e->table, c->at);

    if (!c->pending || c->table != e->table)
        die("event %llu is a compaction that nobody asked for", (unsigned long long)e->seq);
    if (e->watermark != c->at || !head || e->time_us != head->time_us)
        die("compaction %llu retires up to %llu, not %llu, or has not the time of the head then",
            (unsigned long long)e->seq, (unsigned long long)e->watermark, (unsigned long long)c->at);
    c->pending = false;
    struct mrows rows = model_content(&w->model, head, c->at);
    for (size_t i = 0; i < rows.count; i++)
        if (rule_keeps(c, &rows.row[i]))
            mrows_add(&e->rows, &rows.row[i]);
    mrows_free(&rows);
    w->compactions++;
}

static int learn(void *arg, const struct skade_event *event)
{
    struct world *w = arg;

    if (event->seq != w->model.seq + 1)
        die("event %llu follows %llu", (unsigned long long)event->seq, (unsigned long long)w->model.seq);
    if ((event->kind == SKADE_EVENT_COMMIT || event->kind == SKADE_EVENT_COMPACT) &&
        (event->snapshot <= 0 || mtable_by_id(&w->model, event->table, event->snapshot, w->model.seq)))
        die("event %llu has an id that isn't new", (unsigned long long)event->seq);
    struct mevent *e = mevent_add(&w->model);
    e->kind = event->kind;
    e->flags = event->flags;
    e->table = event->table;
    e->watermark = event->watermark;
    e->snapshot = event->snapshot;
    e->time_us = event->time_us;
    e->location = strdup(event->location);
    if (e->kind == SKADE_EVENT_COMMIT)
        learn_commit(w, e, event->uuid);
    else if (e->kind == SKADE_EVENT_COMPACT)
        learn_compaction(w, e);
    if (e->table > w->model.tables)
        w->model.tables = e->table;
    return 0;
}

/* The model takes what the log has that it hasn't; their number. */
static uint64_t catch_up(struct world *w)
{
    int64_t n = skade_commits_since(w->handle[0], w->model.seq, 0, learn, w);

    if (n < 0)
        die_of(w->handle[0], "events", n);
    return (uint64_t)n;
}

/* ---- comparing ------------------------------------------------------------------------------------------------------------- */

static void show(const struct world *w, skade_table table)
{
    for (uint64_t seq = 1; seq <= w->model.seq; seq++) {
        const struct mevent *e = mevent_at(&w->model, seq);
        if (e->table == table)
            printf("  event %llu kind %u snapshot %lld time %lld watermark %llu rows %zu %s\n",
                   (unsigned long long)seq, e->kind, (long long)e->snapshot, (long long)e->time_us,
                   (unsigned long long)e->watermark, e->rows.count, e->location);
    }
}

static void check_value(const struct mrow *want, const struct skade_row *got, skade_cursor *cursor,
                        const char *who)
{
    static uint8_t mine[1 << 16], theirs[1 << 16];

    for (uint64_t off = 0; off < want->len; off += sizeof mine) {
        size_t n = want->len - off < sizeof mine ? (size_t)(want->len - off) : sizeof mine;
        const uint8_t *bytes = theirs;
        model_value(want, off, mine, n);
        if (got->value) {
            bytes = (const uint8_t *)got->value + off;
        } else {
            int r = skade_cursor_read(cursor, off, theirs, n);
            if (r < 0)
                die("%s: a value can't be read: %s: %s", who, skade_errname(r), skade_cursor_errmsg(cursor));
        }
        if (memcmp(bytes, mine, n) != 0)
            die("%s: other bytes in a value of %llu from %llu", who, (unsigned long long)want->len,
                (unsigned long long)off);
    }
}

static void check_row(const struct mrow *want, const struct skade_row *got, skade_cursor *cursor,
                      const char *who)
{
    const void *key = NULL;
    size_t len = want->key ? model_key(want->key, &key) : 0;

    if ((got->has_key != 0) != (want->key != 0) ||
        (want->key && (got->key_len != len || memcmp(got->key, key, len))))
        die("%s: another key: has %u len %llu, wanted key number %u", who, got->has_key,
            (unsigned long long)got->key_len, want->key);
    if (got->time_us != want->time_us || got->value_len != want->len)
        die("%s: row of key %u: time %lld length %llu, wanted %lld and %llu", who, want->key,
            (long long)got->time_us, (unsigned long long)got->value_len, (long long)want->time_us,
            (unsigned long long)want->len);
    if (got->value_len > 1u << 20 ? got->value != NULL : !got->value && got->value_len)
        die("%s: a value of %llu bytes is where it shouldn't be", who, (unsigned long long)got->value_len);
    check_value(want, got, cursor, who);
}

/* PART of PARTS of SCAN must be the next rows of WANT; returns how many came, or SKADE_EEXPIRED. */
static int64_t check_part(struct world *w, skade_scan *scan, const struct mrows *want, size_t from,
                          unsigned flags, unsigned part, unsigned parts, const char *who)
{
    struct skade_row row = { .size = sizeof row };
    skade_cursor *c;
    int r = skade_cursor_open(scan, flags, part, parts, &c);
    size_t n = from;

    if (r < 0)
        die("%s: cursor: %s", who, skade_errname(r));
    while ((r = skade_cursor_next(c, &row)) == 1) {
        if (n == want->count)
            die("%s: more than %zu rows (key %d, %llu bytes)", who, want->count, row.has_key,
                (unsigned long long)row.value_len);
        check_row(&want->row[flags & SKADE_OLDEST_FIRST ? n : want->count - 1 - n], &row, c, who);
        n++;
        w->rows++;
    }
    if (r < 0 && r != SKADE_EEXPIRED)
        die("%s: %s: %s", who, skade_errname(r), skade_cursor_errmsg(c));
    skade_cursor_close(c);
    return r < 0 ? r : (int64_t)(n - from);
}

/* All rows of SCAN, some way, must be WANT.  0 or SKADE_EEXPIRED. */
static int check_rows(struct world *w, skade_scan *scan, const struct mrows *want, const char *who)
{
    unsigned flags = chance(w, 2) ? SKADE_OLDEST_FIRST : 0;
    unsigned parts = chance(w, 2) ? 1 : 1 + (unsigned)below(w, 7);
    size_t n = 0;

    for (unsigned part = 0; part < parts; part++) {
        int64_t got = check_part(w, scan, want, n, flags, part, parts, who);
        if (got < 0)
            return (int)got;
        n += (size_t)got;
    }
    if (n != want->count)
        die("%s: %zu rows of %zu, in %u parts", who, n, want->count, parts);
    w->scans++;
    return 0;
}

static void check_info(skade_scan *scan, const struct mevent *k, const struct mrows *want, const char *who)
{
    struct skade_scan_info info = { .size = sizeof info };
    int r = skade_scan_info(scan, &info);

    if (r < 0)
        die("%s: info: %s", who, skade_errname(r));
    if (info.seq != (k ? k->seq : 0) || (k && (info.snapshot != k->snapshot || info.time_us != k->time_us)))
        die("%s: is snapshot %lld of event %llu, wanted event %llu", who, (long long)info.snapshot,
            (unsigned long long)info.seq, (unsigned long long)(k ? k->seq : 0));
    if (info.rows != want->count)
        die("%s: says %llu rows, has %zu", who, (unsigned long long)info.rows, want->count);
}

/* ---- questions ----------------------------------------------------------------------------------------------------------------- */

struct question {
    skade_table table;
    uint32_t by;
    int64_t value;
    const struct view *view; /* NULL: now */
};

/* What it must be answered: 1 and *K (NULL: no commit yet), or an error. */
static int expected(const struct world *w, const struct question *q, uint64_t at, const struct mevent **k)
{
    const struct rows_model *m = &w->model;

    *k = NULL;
    if (!mtable_is_there(m, q->table, at))
        return SKADE_ENOTABLE;
    if (q->by == SKADE_AT_HEAD)
        *k = mtable_head(m, q->table, at);
    else if (q->by == SKADE_AT_SNAPSHOT)
        *k = mtable_by_id(m, q->table, q->value, at);
    else if (q->by == SKADE_AT_TIME)
        *k = mtable_by_time(m, q->table, q->value, at);
    else if (q->value > 0 && (uint64_t)q->value <= at && has_rows(mevent_at(m, (uint64_t)q->value), q->table))
        *k = mevent_at(m, (uint64_t)q->value);
    if (!*k)
        return q->by == SKADE_AT_HEAD ? 1 : SKADE_ENOSNAPSHOT;
    return (*k)->seq <= mtable_watermark(m, q->table, at) ? SKADE_EEXPIRED : 1;
}

/* An event of TABLE that has rows, if there is one; the newer ones more often. */
static const struct mevent *some_event(struct world *w, skade_table table)
{
    uint64_t span = chance(w, 3) ? w->model.seq : w->model.seq < 40 ? w->model.seq : 40;

    for (int i = 0; i < 50; i++) {
        const struct mevent *e = mevent_at(&w->model, w->model.seq - below(w, span));
        if (has_rows(e, table))
            return e;
    }
    return NULL;
}

static struct question some_question(struct world *w)
{
    struct question q = { .table = chance(w, 40) ? 1 + (skade_table)below(w, w->model.tables + 2)
                                                 : some_table(w) };
    const struct view *v = &w->view[below(w, VIEWS)];
    const struct mevent *e = some_event(w, q.table);

    if (v->view && chance(w, 3))
        q.view = v;
    q.by = e ? (uint32_t)below(w, 4) : SKADE_AT_HEAD;
    if (q.by == SKADE_AT_SNAPSHOT)
        q.value = chance(w, 30) ? (int64_t)below(w, 100) : e->snapshot;
    else if (q.by == SKADE_AT_TIME)
        q.value = e->time_us + (int64_t)below(w, 3) - 1;
    else if (q.by == SKADE_AT_SEQ)
        q.value = chance(w, 30) ? (int64_t)below(w, 100) - 3 : (int64_t)e->seq;
    return q;
}

static void describe(char *ret, size_t cap, const struct question *q, const char *what)
{
    static const char *const names[] = { "head", "snapshot", "time", "number" };

    snprintf(ret, cap, "%s of table %u, %s %lld%s", what, q->table, names[q->by], (long long)q->value,
             q->view ? ", by view" : "");
}

/* Must the answer be R?  A view older than a collection may be told that it is too late. */
static bool is_right(struct world *w, const struct question *q, uint64_t at, int want, int r)
{
    bool late = q->view && at < w->collected[q->table];

    if (late && r == SKADE_EEXPIRED) {
        w->expired++;
        return true;
    }
    if (r == SKADE_EEXPIRED)
        w->expired++;
    return r == want;
}

static void wrong(struct world *w, const struct question *q, uint64_t at, const char *who, int want, int r,
                  skade *s) __attribute__((noreturn));
static void wrong(struct world *w, const struct question *q, uint64_t at, const char *who, int want, int r,
                  skade *s)
{
    show(w, q->table);
    die("%s, as of %llu of %llu: %s (%s), wanted %s", who, (unsigned long long)at,
        (unsigned long long)w->model.seq, r == 1 ? "found" : skade_errname(r), skade_errmsg(s),
        want == 1 ? "to find it" : skade_errname(want));
}

static bool keep_scan(struct world *w, skade_scan *scan, skade_table table, const struct mevent *k,
                      uint64_t at)
{
    for (int i = 0; i < HOLDS; i++)
        if (!w->hold[i].scan) {
            w->hold[i] = (struct hold){ .scan = scan, .at = at, .k_seq = k ? k->seq : 0, .table = table };
            return true;
        }
    return false;
}

static void scan(struct world *w, const struct question *q)
{
    uint64_t at = q->view ? q->view->at : w->model.seq;
    struct skade_scan_options o = { .size = sizeof o, .by = q->by, .value = q->value };
    const struct mevent *k;
    int want = expected(w, q, at, &k);
    skade *s = q->view ? q->view->handle : some_handle(w);
    skade_scan *scan;
    char who[200];

    describe(who, sizeof who, q, "scan");
    o.view = q->view ? q->view->view : NULL;
    if (chance(w, 4))
        o.memory = 1 << 16;
    int r = skade_scan_open(s, q->table, q->by == SKADE_AT_HEAD && !q->view ? NULL : &o, &scan);
    if (!is_right(w, q, at, want, r == 0 ? 1 : r))
        wrong(w, q, at, who, want, r == 0 ? 1 : r, s);
    if (r < 0)
        return;
    struct mrows rows = model_content(&w->model, k, at);
    check_info(scan, k, &rows, who);
    r = check_rows(w, scan, &rows, who);
    if (r < 0)
        die("%s: expired though it has a lease", who);
    mrows_free(&rows);
    if (!chance(w, 6) || !keep_scan(w, scan, q->table, k, at))
        skade_scan_close(scan);
}

static void check_hold(struct world *w, struct hold *h)
{
    struct mrows rows = model_content(&w->model, h->k_seq ? mevent_at(&w->model, h->k_seq) : NULL, h->at);
    char who[120];

    snprintf(who, sizeof who, "held scan of table %u, commit %llu as of %llu", h->table,
             (unsigned long long)h->k_seq, (unsigned long long)h->at);
    int r = check_rows(w, h->scan, &rows, who);
    if (r < 0 && !h->loose)
        die("%s: expired though it is held", who);
    mrows_free(&rows);
    w->held++;
}

static void end_hold(struct hold *h)
{
    skade_scan_close(h->scan);
    h->scan = NULL;
}

static void check_get_value(const struct mrow *want, const uint8_t *buffer, size_t cap, size_t len, int r,
                            const char *who)
{
    static uint8_t mine[1 << 16];
    size_t n = want->len < cap ? (size_t)want->len : cap;

    if (r != (want->len > cap ? -ERANGE : 1) || len != want->len)
        die("%s: %d and %zu bytes, wanted %llu", who, r, len, (unsigned long long)want->len);
    model_value(want, 0, mine, n);
    if (memcmp(mine, buffer, n) != 0)
        die("%s: another value", who);
}

static void get(struct world *w, const struct question *q)
{
    static uint8_t buffer[1 << 16];
    uint64_t at = q->view ? q->view->at : w->model.seq;
    struct skade_scan_options o = { .size = sizeof o, .by = q->by, .value = q->value };
    const struct mevent *k;
    const struct mrow *found = NULL;
    int want = expected(w, q, at, &k);
    skade *s = q->view ? q->view->handle : some_handle(w);
    size_t cap = below(w, chance(w, 4) ? 20 : sizeof buffer), len = 0;
    uint32_t number = 1 + (uint32_t)below(w, KEYS);
    const void *key;
    char who[220];

    size_t key_len = model_key(number, &key);
    describe(who, sizeof who, q, "get");
    o.view = q->view ? q->view->view : NULL;
    int r = skade_get(s, q->table, &o, key, key_len, buffer, cap, &len);
    w->gets++;
    if (!is_right(w, q, at, want, r >= 0 || r == -ERANGE ? 1 : r))
        wrong(w, q, at, who, want, r, s);
    if (r < 0 && r != -ERANGE)
        return;
    struct mrows rows = model_content(&w->model, k, at);
    for (size_t i = 0; i < rows.count; i++)
        if (rows.row[i].key == number)
            found = &rows.row[i];
    if (found)
        check_get_value(found, buffer, cap, len, r, who);
    else if (r != 0)
        die("%s: key %u is found and isn't there", who, number);
    mrows_free(&rows);
}

static void ask_something(struct world *w)
{
    struct question q = some_question(w);

    if (chance(w, 2))
        get(w, &q);
    else
        scan(w, &q);
    struct hold *h = &w->hold[below(w, HOLDS)];
    if (h->scan && chance(w, 4))
        check_hold(w, h);
    if (h->scan && chance(w, 12))
        end_hold(h);
}

/* Every snapshot that TABLE ever had, and where its files are. */
static void ask_everything(struct world *w, skade_table table)
{
    static char location[SKADE_LOCATION_MAX + 1];

    for (uint64_t seq = 1; seq <= w->model.seq; seq++) {
        const struct mevent *e = mevent_at(&w->model, seq), *k;
        struct skade_answer a = SKADE_ANSWER(location, sizeof location);
        struct question q = { .table = table, .by = SKADE_AT_SNAPSHOT };
        if (!has_rows(e, table))
            continue;
        q.value = e->snapshot;
        int want = expected(w, &q, w->model.seq, &k);
        skade_resolve(some_handle(w), table, q.value, &a);
        if (a.status != want ||
            (want == 1 && (a.seq != seq || a.time_us != e->time_us || strcmp(location, e->location))))
            wrong(w, &q, w->model.seq, "resolve", want, a.status, w->handle[0]);
        scan(w, &q);
        q.by = SKADE_AT_TIME;
        q.value = e->time_us;
        get(w, &q);
    }
}

/* ---- views ------------------------------------------------------------------------------------------------------------------------ */

static void change_view(struct world *w)
{
    struct view *v = &w->view[below(w, VIEWS)];

    skade_view_close(v->view);
    v->view = NULL;
    if (chance(w, 4))
        return;
    v->handle = some_handle(w);
    int r = skade_view_open(v->handle, &v->view);
    if (r < 0)
        die_of(v->handle, "view", r);
    v->at = skade_view_seq(v->view);
    if (v->at != w->model.seq)
        die("a view of %llu is as of %llu", (unsigned long long)w->model.seq, (unsigned long long)v->at);
}

/* ---- appends ------------------------------------------------------------------------------------------------------------------------- */

static uint64_t some_length(struct world *w)
{
    if (chance(w, 1500) && w->big < 12) {
        w->big++;
        return (1u << 20) + below(w, 200000);
    }
    if (chance(w, 150))
        return 60000 + below(w, 80000);
    return chance(w, 6) ? 0 : chance(w, 3) ? below(w, 2000) : below(w, 70);
}

static void plan_append(struct world *w)
{
    struct wanted_append *a = &w->append;
    size_t rows = chance(w, 20) ? below(w, 300) : 1 + below(w, 8);

    mrows_free(&a->rows);
    a->table = some_table(w);
    a->pending = true;
    make_uuid(w, a->uuid);
    for (size_t i = 0; i < rows; i++) {
        struct mrow row = { .seed = ++w->made };
        if (!chance(w, 4))
            row.key = 1 + (uint32_t)below(w, chance(w, 2) ? 8 : KEYS);
        row.deletion = row.key && chance(w, 4);
        row.len = row.deletion ? 0 : some_length(w);
        mrows_add(&a->rows, &row);
    }
}

static int put_row(struct world *w, skade *s, const struct mrow *row)
{
    static uint8_t value[2 << 20];
    const void *key = NULL;
    size_t key_len = row->key ? model_key(row->key, &key) : 0;

    if (row->deletion)
        return skade_append_delete(s, key, key_len);
    model_value(row, 0, value, row->len);
    if (!chance(w, 3))
        return skade_append_put(s, key, key_len, value, row->len);
    int r = skade_append_open_row(s, key, key_len);
    for (size_t off = 0, n; r == 0 && off < row->len; off += n) {
        n = 1 + below(w, row->len - off);
        r = skade_append_write(s, value + off, n);
    }
    return r == 0 ? skade_append_close_row(s) : r;
}

/* Send what is planned. */
static int send_append(struct world *w, skade *s, struct skade_appended *ret)
{
    const struct wanted_append *a = &w->append;
    int r = skade_append_begin(s, a->table, a->uuid);

    *ret = (struct skade_appended){ .size = sizeof *ret };
    for (size_t i = 0; r == 0 && i < a->rows.count; i++)
        r = put_row(w, s, &a->rows.row[i]);
    if (r == 0)
        return skade_append_commit(s, ret);
    skade_append_abort(s);
    return r;
}

static void append(struct world *w)
{
    struct skade_appended done;
    skade *s = some_handle(w);

    plan_append(w);
    int r = send_append(w, s, &done);
    if (r < 0)
        die_of(s, "append", r);
    uint64_t came = catch_up(w);
    if (came != (w->append.rows.count ? 1 : 0) || done.rows != w->append.rows.count ||
        (came && (done.seq != w->model.seq || done.snapshot != mevent_at(&w->model, done.seq)->snapshot)))
        die("an append of %zu rows was answered %llu rows, event %llu; %llu events came",
            w->append.rows.count, (unsigned long long)done.rows, (unsigned long long)done.seq,
            (unsigned long long)came);
    w->append.pending = false;
}

/* Begun, and then given up in one way or another. */
static void abort_append(struct world *w)
{
    skade *s = open_handle(0, TIMEOUT_MS);
    int r;

    plan_append(w);
    r = skade_append_begin(s, w->append.table, w->append.uuid);
    for (size_t i = 0; r == 0 && i < w->append.rows.count; i++)
        r = put_row(w, s, &w->append.rows.row[i]);
    if (r < 0)
        die_of(s, "an append", r);
    if (chance(w, 2))
        skade_append_abort(s);
    skade_close(s);
    w->append.pending = false;
    if (catch_up(w) != 0)
        die("an append that was given up was committed");
}

/* ---- compactions ---------------------------------------------------------------------------------------------------------------------- */

static void plan_compaction(struct world *w, enum rule rule)
{
    struct wanted_compact *c = &w->compact;
    const struct mevent *e;

    *c = (struct wanted_compact){
        .pending = true, .table = some_table(w), .rule = rule, .choice = roll(&w->random)
    };
    static const uint64_t targets[] = { 0, 65536, 300000 };
    c->target_size = targets[below(w, 3)];
    c->block_size = chance(w, 3) ? 4096 : 0;
    make_uuid(w, c->uuid);
    c->at = w->model.seq;
    e = some_event(w, c->table);
    c->before_us = e ? e->time_us : 0;
    unsigned from = 10 + (unsigned)below(w, 40);
    snprintf(c->from, sizeof c->from, rule == KEEP_PREFIX ? "k%u" : "k%02u",
             rule == KEEP_PREFIX ? from / 10 : from);
    snprintf(c->to, sizeof c->to, "k%02u", from + (unsigned)below(w, 20));
}

static struct skade_compact_options compact_options(struct world *w)
{
    const struct wanted_compact *c = &w->compact;
    struct skade_compact_options o = { .size = sizeof o };

    memcpy(o.uuid, c->uuid, 16);
    o.target_size = c->target_size;
    o.block_size = c->block_size;
    o.has_drop_before = c->rule == DROP_BEFORE;
    o.drop_before_us = c->before_us;
    if (c->rule == KEEP_PREFIX) {
        o.keep_prefix = c->from;
        o.keep_prefix_len = strlen(c->from);
    } else if (c->rule == DROP_RANGE) {
        o.drop_from = c->from;
        o.drop_from_len = strlen(c->from);
        o.drop_to = c->to;
        o.drop_to_len = strlen(c->to);
    }
    return o;
}

/* Is there anything to compact?  Without a rule or a size not, when nothing came after the base. */
static bool has_work(const struct world *w)
{
    const struct wanted_compact *c = &w->compact;
    const struct mevent *head = mtable_head(&w->model, c->table, c->at),
                        *base = mtable_base(&w->model, c->table, c->at);

    return head && (c->rule != NO_RULE || c->target_size || c->block_size || head != base);
}

/* Can it be swapped, after what came meanwhile? */
static int swap_result(const struct world *w)
{
    const struct wanted_compact *c = &w->compact;

    if (!mtable_is_there(&w->model, c->table, w->model.seq) ||
        mtable_watermark(&w->model, c->table, w->model.seq) > c->at)
        return SKADE_ECONFLICT;
    return 0;
}

static void check_compacted(struct world *w, skade *s, int want, int r, const struct skade_compacted *got)
{
    const struct wanted_compact *c = &w->compact;
    bool work = has_work(w);
    struct mrows before = model_content(&w->model, mtable_head(&w->model, c->table, c->at), c->at);
    uint64_t meanwhile = 0;

    if (r != want)
        die("a compaction of table %u: %s (%s), wanted %s", c->table, skade_errname(r), skade_errmsg(s),
            skade_errname(want));
    for (uint64_t seq = c->at + 1; seq <= w->model.seq; seq++)
        meanwhile += mevent_at(&w->model, seq)->table == c->table &&
                     mevent_at(&w->model, seq)->kind == SKADE_EVENT_COMMIT;
    uint64_t came = catch_up(w);
    if (came != (r == 0 && work ? 1 : 0))
        die("a compaction of table %u: %llu events came", c->table, (unsigned long long)came);
    if (came) {
        const struct mevent *e = mevent_at(&w->model, w->model.seq);
        if (got->seq != e->seq || got->snapshot != e->snapshot || got->rows != e->rows.count ||
            got->rows_pruned != before.count - e->rows.count || got->carried != meanwhile)
            die("a compaction as event %llu says %llu: %llu rows, %llu pruned, %llu carried; it is %zu, %zu, "
                "%llu",
                (unsigned long long)e->seq, (unsigned long long)got->seq, (unsigned long long)got->rows,
                (unsigned long long)got->rows_pruned, (unsigned long long)got->carried, e->rows.count,
                before.count - e->rows.count, (unsigned long long)meanwhile);
        w->carried += meanwhile;
    }
    mrows_free(&before);
    w->compact.pending = false;
}

/* The callback: sees exactly the rows of the head, oldest first, and in between others write. */
struct chooser {
    struct world *w;
    struct mrows rows;
    size_t seen, meanwhile; /* appends are made before this row */
    size_t refuse;          /* ends it at this row; SIZE_MAX: not */
};

static int choose(void *arg, const struct skade_row *row)
{
    struct chooser *c = arg;
    struct world *w = c->w;

    if (c->seen == c->meanwhile)
        for (uint64_t n = below(w, 3); n > 0; n--)
            append(w);
    if (c->seen >= c->rows.count)
        die("a callback is shown more than %zu rows", c->rows.count);
    const struct mrow *want = &c->rows.row[c->seen++];
    if (row->value) /* a long one can't be read here */
        check_row(want, row, NULL, "a callback's row");
    if (c->seen - 1 == c->refuse)
        return -EDOM;
    return rule_keeps(&w->compact, want);
}

static void compact_by_callback(struct world *w, skade *s, bool frail)
{
    struct chooser c = { .w = w, .refuse = SIZE_MAX, .meanwhile = SIZE_MAX };
    struct skade_compacted got = { .size = sizeof got };

    plan_compaction(w, CALLBACK);
    struct skade_compact_options o = compact_options(w);
    o.prune = choose;
    o.prune_arg = &c;
    c.rows = model_content(&w->model, mtable_head(&w->model, w->compact.table, w->compact.at), w->compact.at);
    if (!frail && c.rows.count)
        c.meanwhile = below(w, c.rows.count);
    if (!frail && c.rows.count && chance(w, 6))
        c.refuse = below(w, c.rows.count);
    int r = skade_compact(s, w->compact.table, &o, &got);
    mrows_free(&c.rows);
    if (!frail)
        check_compacted(w, s, c.refuse == SIZE_MAX ? swap_result(w) : -EDOM, r, &got);
}

static enum rule some_rule(struct world *w)
{
    return chance(w, 2) ? NO_RULE : (enum rule)below(w, CALLBACK);
}

static void dry_run(struct world *w)
{
    struct skade_compacted got = { .size = sizeof got };
    skade *s = some_handle(w);
    uint64_t keeps = 0;

    plan_compaction(w, some_rule(w));
    struct skade_compact_options o = compact_options(w);
    o.flags = SKADE_DRY_RUN;
    struct mrows rows =
        model_content(&w->model, mtable_head(&w->model, w->compact.table, w->compact.at), w->compact.at);
    for (size_t i = 0; i < rows.count; i++)
        keeps += rule_keeps(&w->compact, &rows.row[i]);
    int r = skade_compact(s, w->compact.table, &o, &got);
    if (r < 0)
        die_of(s, "a dry run", r);
    if (has_work(w) && (got.rows != keeps || got.rows_pruned != rows.count - keeps || got.seq))
        die("a dry run tells %llu rows and %llu pruned of %zu, wanted %llu", (unsigned long long)got.rows,
            (unsigned long long)got.rows_pruned, rows.count, (unsigned long long)keeps);
    mrows_free(&rows);
    w->compact.pending = false;
    if (catch_up(w) != 0)
        die("a dry run changed something");
}

/* The same request again makes nothing, and tells what it made. */
static void compact_again(struct world *w, const struct skade_compact_options *o,
                          const struct skade_compacted *first)
{
    struct skade_compacted got = { .size = sizeof got };
    skade *s = some_handle(w);

    int r = skade_compact(s, w->compact.table, o, &got);
    if (r < 0)
        die_of(s, "a compaction that is asked for again", r);
    if (catch_up(w) != 0 || got.seq != first->seq || got.snapshot != first->snapshot)
        die("a compaction that is asked for again is event %llu, and was %llu", (unsigned long long)got.seq,
            (unsigned long long)first->seq);
}

static void compact(struct world *w)
{
    struct skade_compacted got = { .size = sizeof got };
    skade *s = some_handle(w);

    plan_compaction(w, some_rule(w));
    struct skade_compact_options o = compact_options(w);
    int r = skade_compact(s, w->compact.table, &o, &got);
    check_compacted(w, s, 0, r, &got);
    if (got.seq && chance(w, 3))
        compact_again(w, &o, &got);
}

/* ---- a compaction that is held, and what happens meanwhile ------------------------------------------------------------------------------ */

struct background {
    skade *s;
    skade_table table;
    struct skade_compact_options o;
    struct skade_compacted got;
    int r;
};

static void *run_background(void *arg)
{
    struct background *b = arg;

    b->r = skade_compact(b->s, b->table, &b->o, &b->got);
    return NULL;
}

static void expire(struct world *w);
static void do_drop(struct world *w);
static void collect(struct world *w);

static void meanwhile(struct world *w)
{
    for (uint64_t n = below(w, 6); n > 0; n--) {
        if (chance(w, 12))
            expire(w);
        else if (chance(w, 40))
            do_drop(w);
        else if (chance(w, 8))
            collect(w);
        else if (chance(w, 5))
            change_view(w);
        else
            append(w);
        ask_something(w);
    }
}

static void restart(struct world *w, int signal);

static void compact_held(struct world *w)
{
    /* Several threads would come by the last one, and not wait for each other. */
    static const char *const places[] = { "compact.begin", "compact.link", "compact.scanned" };
    const char *place = places[below(w, w->threads ? 2 : 3)];
    struct background b = { .got = { .size = sizeof b.got } };
    pthread_t thread;
    char path[512];
    bool crash = chance(w, 8);

    plan_compaction(w, some_rule(w));
    if (!has_work(w)) {
        w->compact.pending = false;
        return;
    }
    b.s = open_handle(0, TIMEOUT_MS);
    b.table = w->compact.table;
    b.o = compact_options(w);
    failpoint_path(path, sizeof path, place);
    if (mkfifo(path, 0600) < 0 || pthread_create(&thread, NULL, run_background, &b) != 0)
        die("can't hold a compaction");
    int fd = open(path, O_RDONLY); /* returns when it is there */
    close(fd);
    struct wanted_compact kept = w->compact;
    w->compact.pending = false; /* it may not be swapped before it is let go */
    meanwhile(w);
    w->compact = kept;
    if (crash) { /* it is asked for again, of the next daemon */
        unlink(path);
        daemon_end(&w->daemon, SIGKILL);
        w->compact.at = w->model.seq;
        daemon_must_start(&w->daemon);
        pthread_join(thread, NULL);
        bool there = mtable_is_there(&w->model, w->compact.table, w->model.seq);
        check_compacted(w, b.s, there ? 0 : SKADE_ENOTABLE, b.r, &b.got);
        restart(w, 0);
        w->crashes++;
    } else {
        fd = open(path, O_WRONLY);
        unlink(path);
        close(fd);
        pthread_join(thread, NULL);
        check_compacted(w, b.s, swap_result(w), b.r, &b.got);
    }
    skade_close(b.s);
}

/* ---- expiry, collection, drop ------------------------------------------------------------------------------------------------------------- */

/* Did commits come while the compaction E ran? */
static bool carried_some(const struct rows_model *m, const struct mevent *e)
{
    for (uint64_t seq = e->watermark + 1; seq < e->seq; seq++)
        if (mevent_at(m, seq)->table == e->table && mevent_at(m, seq)->kind == SKADE_EVENT_COMMIT)
            return true;
    return false;
}

/* What an expiry by time retires. */
static uint64_t run_before(const struct rows_model *m, skade_table table, int64_t before_us)
{
    uint64_t last = mtable_watermark(m, table, m->seq);
    const struct mevent *head = mtable_head(m, table, m->seq);

    for (uint64_t seq = last + 1; head && seq < head->seq; seq++)
        if (has_rows(mevent_at(m, seq), table)) {
            if (mevent_at(m, seq)->time_us >= before_us)
                break;
            last = seq;
        }
    return last;
}

static void expire(struct world *w)
{
    skade_table table = some_table(w);
    const struct mevent *e = some_event(w, table), *head = mtable_head(&w->model, table, w->model.seq);
    uint64_t had = mtable_watermark(&w->model, table, w->model.seq), want, seq = 0;
    skade *s = some_handle(w);
    int r, wanted = 0;

    if (!e)
        return;
    if (chance(w, 2)) {
        want = run_before(&w->model, table, e->time_us);
        r = skade_expire_before(s, table, e->time_us, &seq);
    } else {
        want = e->seq;
        if ((e->kind == SKADE_EVENT_COMPACT && carried_some(&w->model, e)) || e->seq >= head->seq)
            wanted = SKADE_EINPUT;
        r = skade_expire_snapshot(s, table, e->snapshot, &seq);
    }
    if (r != wanted)
        die("expiry up to %llu of table %u: %s (%s), wanted %s", (unsigned long long)want, table,
            skade_errname(r), skade_errmsg(s), skade_errname(wanted));
    uint64_t came = catch_up(w);
    if (came != (r == 0 && want > had ? 1 : 0) || seq != (came ? w->model.seq : 0) ||
        (came && mevent_at(&w->model, seq)->watermark != want)) {
        show(w, table);
        die("expiry of table %u up to %llu: event %llu up to %llu", table, (unsigned long long)want,
            (unsigned long long)seq,
            (unsigned long long)(came ? mevent_at(&w->model, w->model.seq)->watermark : 0));
    }
}

static int look_at_garbage(void *arg, const struct skade_garbage *g)
{
    (void)arg;
    if (!strstr(g->waiting_for, "lease"))
        die("after a collection without waiting %llu files of %s wait for '%s'", (unsigned long long)g->files,
            g->dir, g->waiting_for);
    return 0;
}

/* Retirements that no scan of ours needs may be collected from now on; the daemon may hold them for gets. */
static void collect(struct world *w)
{
    skade_table table = chance(w, 2) ? some_table(w) : 0;
    skade *s = some_handle(w);

    int64_t r = skade_gc(s, table, SKADE_GC_NOW, look_at_garbage, NULL);
    if (r < 0)
        die_of(s, "gc", r);
    for (uint64_t seq = 1; seq <= w->model.seq; seq++) {
        const struct mevent *e = mevent_at(&w->model, seq);
        if ((e->kind == SKADE_EVENT_COMPACT || e->kind == SKADE_EVENT_DROP) && (!table || e->table == table))
            w->collected[e->table] = seq;
    }
}

static void table_name(char *ret, int slot)
{
    snprintf(ret, 32, "shop.t%d", slot);
}

static void create(struct world *w, int slot)
{
    char name[32];
    skade_table table;
    uint64_t seq;

    table_name(name, slot);
    int r = skade_create(some_handle(w), name, NULL, &table, &seq);
    if (r < 0)
        die_of(w->handle[0], "create", r);
    w->living[slot] = table;
    if (catch_up(w) != 1 || seq != w->model.seq)
        die("the creation of %s isn't event %llu", name, (unsigned long long)seq);
}

static void do_drop(struct world *w)
{
    int slot = (int)below(w, TABLES);
    char name[32];

    table_name(name, slot);
    int r = skade_drop(some_handle(w), name, NULL);
    if (r < 0)
        die_of(w->handle[0], "drop", r);
    if (catch_up(w) != 1)
        die("the drop of %s isn't one event", name);
    create(w, slot);
}

/* ---- trouble --------------------------------------------------------------------------------------------------------------------------------- */

/* End the daemon by SIGNAL (0: it has ended and was started again), and see that it knows what it knew. */
static void restart(struct world *w, int signal)
{
    if (signal) {
        int status = daemon_end(&w->daemon, signal);
        if (status != (signal == SIGTERM ? 0 : 128 + signal))
            die("the daemon ended with %d", status);
        daemon_must_start(&w->daemon);
    }
    for (int i = 0; i < HOLDS; i++)
        w->hold[i].loose = true;
    w->restarts++;
    catch_up(w);
    ask_everything(w, some_table(w));
}

static const char *some_place(struct world *w, bool compaction, bool kill)
{
    static const char *const both[] = { "store.temp",    "store.mark",   "store.link",
                                        "store.dirsync", "store.linked", "store.link" };
    static const char *const appends[] = { "entries.write", "entries.fsync" };
    static const char *const compactions[] = { "compact.begin", "compact.scanned", "compact.link",
                                               "rows.write",    "rows.fsync",      "manifest.write",
                                               "manifest.fsync" };
    static const char *const deadly[] = { "log.begin",     "log.insert",     "log.commit",
                                          "log.committed", "commit.durable", "store.settle" };

    if (kill && chance(w, 3))
        return deadly[below(w, sizeof deadly / sizeof deadly[0])];
    if (chance(w, 2))
        return both[below(w, sizeof both / sizeof both[0])];
    return compaction ? compactions[below(w, sizeof compactions / sizeof compactions[0])]
                      : appends[below(w, 2)];
}

/* One change by the frail handle: an append, or a compaction of either kind. */
static int try_change(struct world *w, unsigned kind, skade *s)
{
    struct skade_appended done;
    struct skade_compacted got = { .size = sizeof got };

    if (kind == 0) {
        plan_append(w);
        return send_append(w, s, &done);
    }
    if (kind == 1) {
        compact_by_callback(w, s, true);
        return 0;
    }
    plan_compaction(w, some_rule(w));
    struct skade_compact_options o = compact_options(w);
    return skade_compact(s, w->compact.table, &o, &got);
}

/* The same append again, whatever became of it: it is there once. */
static void append_again(struct world *w)
{
    struct skade_appended done;
    bool there = !w->append.pending;
    skade *s = some_handle(w);

    int r = send_append(w, s, &done);
    if (r < 0)
        die_of(s, "an append that is sent again", r);
    uint64_t came = catch_up(w);
    if (came != (there || !w->append.rows.count ? 0 : 1))
        die("an append that was%s made came %llu times when sent again", there ? "" : " not",
            (unsigned long long)came);
    const struct mevent *e = mevent_newest(&w->model, w->append.table, SKADE_EVENT_COMMIT, w->model.seq);
    if (w->append.rows.count && (!e || done.seq != e->seq || done.snapshot != e->snapshot))
        die("an append that is sent again gets another answer");
    w->append.pending = false;
}

static void crash_within(struct world *w)
{
    unsigned kind = (unsigned)below(w, 3);
    const char *place = some_place(w, kind != 0, true);
    skade *frail = open_handle(0, FRAIL_MS);
    char what[40];

    snprintf(what, sizeof what, "count %d kill", (int)below(w, 3));
    failpoint_set(place, what);
    try_change(w, kind, frail);
    failpoint_clear(place);
    if (!has_ended(w->daemon.pid))
        kill(w->daemon.pid, SIGKILL);
    daemon_end(&w->daemon, SIGKILL);
    skade_close(frail);
    daemon_must_start(&w->daemon);
    w->crashes++;
    restart(w, 0);
    if (kind == 0)
        append_again(w);
    w->compact.pending = false;
}

/* No room, or a bad disk, at one step: an error and no change, or none and the whole. */
static void fail_within(struct world *w)
{
    bool compaction = chance(w, 2);
    const char *place = some_place(w, compaction, false);
    skade *s = some_handle(w);
    char what[40];

    snprintf(what, sizeof what, "count %d fail %d", (int)below(w, 2), chance(w, 2) ? 28 : 5);
    failpoint_set(place, what);
    int r = try_change(w, compaction ? 2 : 0, s);
    failpoint_clear(place);
    uint64_t came = catch_up(w);
    bool work = compaction ? has_work(w) : w->append.rows.count != 0;
    if (came != (r == 0 && work ? 1 : 0))
        die("%s at %s: %s, and %llu events came", what, place, skade_errname(r), (unsigned long long)came);
    if (r < 0 && r != SKADE_EFULL && r != -EIO && r != -ENOSPC)
        die_of(s, place, r);
    if (r < 0 && !compaction)
        append_again(w);
    w->append.pending = w->compact.pending = false;
    w->errors++;
}

/* An append that was begun before compactions and drops, and is committed after them. */
static void append_across(struct world *w)
{
    struct skade_appended done = { .size = sizeof done };
    skade *s = open_handle(0, TIMEOUT_MS);

    plan_append(w);
    int r = skade_append_begin(s, w->append.table, w->append.uuid);
    for (size_t i = 0; r == 0 && i < w->append.rows.count; i++)
        r = put_row(w, s, &w->append.rows.row[i]);
    if (r < 0)
        die_of(s, "an append", r);
    w->append.pending = false;
    for (uint64_t n = 1 + below(w, 3); n > 0; n--)
        if (chance(w, 10))
            do_drop(w);
        else if (chance(w, 3))
            collect(w);
        else
            compact(w);
    w->append.pending = true;
    r = skade_append_commit(s, &done);
    bool there = mtable_is_there(&w->model, w->append.table, w->model.seq);
    uint64_t came = catch_up(w);
    /* An append of nothing asks for nothing. */
    if ((there ? r != 0 : r != SKADE_ENOTABLE && w->append.rows.count) ||
        came != (r == 0 && w->append.rows.count ? 1 : 0))
        die("an append of %zu rows across other changes: %s: %s; the table is%s there; %llu events came",
            w->append.rows.count, skade_errname(r), skade_errmsg(s), there ? "" : " not",
            (unsigned long long)came);
    w->append.pending = false;
    skade_close(s);
}

/* ---- steps ------------------------------------------------------------------------------------------------------------------------------------ */

/* Tables that grew large begin anew. */
static void thin_out(struct world *w)
{
    struct mrows rows =
        model_content(&w->model, mtable_head(&w->model, some_table(w), w->model.seq), w->model.seq);

    if (rows.count > ROWS_MAX)
        do_drop(w);
    mrows_free(&rows);
}

static void step(struct world *w)
{
    uint64_t dice = below(w, 1000);

    if (dice < 620)
        append(w);
    else if (dice < 635)
        abort_append(w);
    else if (dice < 650)
        append_across(w);
    else if (dice < 690)
        compact(w);
    else if (dice < 720)
        compact_by_callback(w, w->choosing, false);
    else if (dice < 750)
        compact_held(w);
    else if (dice < 765)
        dry_run(w);
    else if (dice < 805)
        expire(w);
    else if (dice < 835)
        collect(w);
    else if (dice < 845)
        do_drop(w);
    else if (dice < 905)
        change_view(w);
    else if (dice < 940)
        fail_within(w);
    else if (dice < 965)
        crash_within(w);
    else if (dice < 972)
        restart(w, chance(w, 2) ? SIGTERM : SIGKILL);
    else
        thin_out(w);
    ask_something(w);
    ask_something(w);
}

/* ---- the directory at the end -------------------------------------------------------------------------------------------------------------------- */

/* The base name of an event's file, without its suffix. */
static void stem_of(char *ret, size_t cap, const char *location)
{
    snprintf(ret, cap, "%s", strrchr(location, '/') + 1);
    *strchr(ret, '.') = 0;
}

/* Is the file NAME of TABLE one that its head needs? */
static bool is_needed(const struct world *w, skade_table table, const char *name)
{
    const struct mevent *base = mtable_base(&w->model, table, w->model.seq);
    char stem[SKADE_LOCATION_MAX + 1];

    for (uint64_t seq = 1; seq <= w->model.seq; seq++) {
        const struct mevent *e = mevent_at(&w->model, seq);
        if (!has_rows(e, table) || (e != base && base && e->seq <= base->watermark))
            continue;
        stem_of(stem, sizeof stem, e->location);
        if (strncmp(name, stem, strlen(stem)) == 0 && !strstr(name, ".pending"))
            return true;
    }
    return false;
}

static void check_dir(struct world *w, const char *path, int depth, skade_table table)
{
    DIR *d = opendir(path);
    char inner[4096];

    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (depth < 2)
            check_dir(w, inner, depth + 1, depth == 0 ? (skade_table)atoi(e->d_name) : table);
        else if (!mtable_is_there(&w->model, table, w->model.seq) || !is_needed(w, table, e->d_name))
            die("%s is left, and nobody needs it", inner);
    }
    if (d)
        closedir(d);
}

static void let_go_of_all(struct world *w)
{
    for (int i = 0; i < HOLDS; i++)
        if (w->hold[i].scan)
            end_hold(&w->hold[i]);
    for (int i = 0; i < VIEWS; i++)
        skade_view_close(w->view[i].view);
    skade_close(w->handle[0]);
    skade_close(w->handle[1]);
    skade_close(w->choosing);
}

static int look_at_check(void *arg, const char *object, uint64_t checked, uint64_t damaged,
                         const char *detail)
{
    (void)arg, (void)checked;
    if (damaged)
        die("%s is damaged: %s", object, detail);
    return 0;
}

/* Nobody holds anything: exactly the files of the living stay, and they are sound. */
static void finish(struct world *w)
{
    char tables[4096];

    for (int slot = 0; slot < TABLES; slot++)
        ask_everything(w, w->living[slot]);
    let_go_of_all(w);
    skade *s = open_handle(0, TIMEOUT_MS);
    int64_t left = skade_gc(s, 0, SKADE_GC_NOW, look_at_garbage, NULL);
    if (left != 0)
        die("%lld retirements are left though nobody needs them: %s", (long long)left, skade_errmsg(s));
    int r = skade_verify(s, 1, look_at_check, NULL);
    if (r < 0)
        die_of(s, "verify", r);
    skade_close(s);
    if (daemon_end(&w->daemon, SIGTERM) != 0)
        die("the daemon didn't end as it should");
    snprintf(tables, sizeof tables, "%s/tables", w->data_dir);
    check_dir(w, tables, 0, 0);
}

static void begin(struct world *w, int argc, char **argv)
{
    w->daemon = daemon_of(&argc, argv);
    for (char **o = w->daemon.options; *o; o++)
        if (strcmp(*o, "--data-dir") == 0)
            w->data_dir = o[1];
        else if (strcmp(*o, "--compact-threads") == 0)
            w->threads = true;
    w->random = seed_from_environment();
    daemon_must_start(&w->daemon);
    w->handle[0] = open_handle(0, TIMEOUT_MS);
    w->handle[1] = open_handle(SKADE_NO_SHM, TIMEOUT_MS);
    w->choosing = open_handle(0, TIMEOUT_MS);
    for (int slot = 0; slot < TABLES; slot++)
        create(w, slot);
}

int main(int argc, char **argv)
{
    static struct world w;
    long steps = argc > 1 ? atol(argv[1]) : 1000;

    begin(&w, argc, argv);
    for (long i = 0; i < steps; i++)
        step(&w);
    finish(&w);
    printf("%ld steps, %llu events, %llu scans, %llu rows, %llu gets, %llu held, %llu expired, %llu "
           "compactions, "
           "%llu carried, %llu crashes, %llu errors, %llu restarts\n",
           steps, (unsigned long long)w.model.seq, (unsigned long long)w.scans, (unsigned long long)w.rows,
           (unsigned long long)w.gets, (unsigned long long)w.held, (unsigned long long)w.expired,
           (unsigned long long)w.compactions, (unsigned long long)w.carried, (unsigned long long)w.crashes,
           (unsigned long long)w.errors, (unsigned long long)w.restarts);
    return 0;
}
