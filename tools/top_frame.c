#include "top_frame.h"

#include "plain.h"

#include <inttypes.h>
#include <skade.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 24
#define LISTS_MIN 7 /* lines below which no lists are drawn */

/* ---- characters ------------------------------------------------------------------------------------------------- */

struct span {
    uint32_t from, to;
};

static bool is_in(const struct span *spans, size_t n, uint32_t code)
{
    for (size_t i = 0; i < n; i++) {
        if (code >= spans[i].from && code <= spans[i].to)
            return true;
    }
    return false;
}

#define IS_IN(spans, code) is_in(spans, sizeof(spans) / sizeof(spans)[0], code)

/* The large blocks of Unicode's EastAsianWidth and of its combining marks: terminals differ about the rest. */
int top_columns(uint32_t code)
{
    static const struct span none[] = { { 0x300, 0x36f },   { 0x483, 0x489 },    { 0x591, 0x5bd },
                                        { 0x610, 0x61a },   { 0x64b, 0x65f },    { 0x1ab0, 0x1aff },
                                        { 0x1dc0, 0x1dff }, { 0x20d0, 0x20ff },  { 0xfe00, 0xfe0f },
                                        { 0xfe20, 0xfe2f }, { 0xe0100, 0xe01ef } };
    static const struct span two[] = { { 0x1100, 0x115f },   { 0x2e80, 0x303e },   { 0x3041, 0xa4cf },
                                       { 0xac00, 0xd7a3 },   { 0xf900, 0xfaff },   { 0xfe30, 0xfe6f },
                                       { 0xff00, 0xff60 },   { 0xffe0, 0xffe6 },   { 0x1f300, 0x1f64f },
                                       { 0x1f680, 0x1f6ff }, { 0x1f900, 0x1f9ff }, { 0x20000, 0x3fffd } };

    return IS_IN(none, code) ? 0 : IS_IN(two, code) ? 2 : 1;
}

/* Marks that turn the direction of text, that nobody sees, or that end a line. */
static bool is_treacherous(uint32_t code)
{
    static const struct span spans[] = { { 0x200b, 0x200f },  { 0x2028, 0x202e }, { 0x2060, 0x206f },
                                         { 0x61c, 0x61c },    { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb },
                                         { 0xe0000, 0xe007f } };
    return is_control(code) || IS_IN(spans, code);
}

/* ---- a line that is being written ---------------------------------------------------------------------------------- */

struct pen {
    struct top_line *line; /* NULL: the screen is full */
    size_t at, left;       /* bytes written, columns free */
    bool utf8;
};

static struct pen pen_begin(const struct top_view *v, struct top_frame *f, enum top_look look)
{
    size_t height = v->height < TOP_HEIGHT_MAX ? v->height : TOP_HEIGHT_MAX;

    if (f->count >= height)
        return (struct pen){ .line = NULL };
    struct top_line *line = &f->lines[f->count++];
    line->look = look;
    line->text[0] = 0;
    return (struct pen){ line, 0, v->width < TOP_WIDTH_MAX ? v->width : TOP_WIDTH_MAX, v->utf8 };
}

static void put(struct pen *p, const char *piece, size_t len, size_t columns)
{
    if (!p->line || columns > p->left || p->at + len >= sizeof p->line->text)
        return;
    memcpy(p->line->text + p->at, piece, len);
    p->at += len;
    p->line->text[p->at] = 0;
    p->left -= columns;
}

static void pad(struct pen *p, size_t columns)
{
    for (size_t i = 0; i < columns; i++)
        put(p, " ", 1, 1);
}

/* The next character of TEXT as it is shown: *LEN bytes and *COLUMNS; how many of TEXT's bytes it took. */
static size_t show_next(const char *text, bool utf8, char *piece, size_t *len, size_t *columns)
{
    uint32_t code = 0;
    size_t took = utf8_char(text, &code);

    if (took == 0 || is_treacherous(code) || (took > 1 && !utf8)) {
        *len = *columns = (size_t)snprintf(piece, 8, "\\x%02x", (unsigned char)*text);
        return 1;
    }
    memcpy(piece, text, took);
    *len = took;
    *columns = (size_t)top_columns(code);
    return took;
}

static size_t columns_of(const char *text, bool utf8)
{
    char piece[8];
    size_t len, columns, sum = 0;

    while (*text) {
        text += show_next(text, utf8, piece, &len, &columns);
        sum += columns;
    }
    return sum;
}

/* TEXT in exactly WIDTH columns, if the line has them. */
static void cell(struct pen *p, const char *text, size_t width)
{
    char piece[8];
    size_t len, columns, used = 0;
    bool fits = columns_of(text, p->utf8) <= width;
    size_t room = fits || width == 0 ? width : width - 1;

    while (*text) {
        size_t took = show_next(text, p->utf8, piece, &len, &columns);
        if (used + columns > room)
            break;
        put(p, piece, len, columns);
        used += columns;
        text += took;
    }
    if (!fits && width > 0) {
        put(p, p->utf8 ? "\xe2\x80\xa6" : "~", p->utf8 ? 3 : 1, 1);
        used++;
    }
    pad(p, width > used ? width - used : 0);
}

static void cell_right(struct pen *p, const char *text, size_t width)
{
    size_t columns = columns_of(text, p->utf8);

    pad(p, columns < width ? width - columns : 0);
    cell(p, text, columns < width ? columns : width);
}

static void say(struct pen *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct pen *p, const char *format, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    size_t columns = columns_of(text, p->utf8);
    cell(p, text, columns < p->left ? columns : p->left);
}

/* ---- numbers: short enough for a column ------------------------------------------------------------------------------ */

static const char *scaled(double value, double base, const char *const *units, size_t n, char *ret)
{
    size_t unit = 0;

    for (; value >= (base > 1000 ? 1023.5 : 999.5) && unit + 1 < n; unit++)
        value /= base;
    snprintf(ret, NUMBER_MAX,
             value < 9.995 && unit > 0   ? "%.2f%s"
             : value < 99.95 && unit > 0 ? "%.1f%s"
                                         : "%.0f%s",
             value, units[unit]);
    return ret;
}

/* "12345", "1.23 M"; "-": absent. */
static const char *count(uint64_t value, char *ret)
{
    static const char *const units[] = { "", " k", " M", " G", " T", " P", " E" };

    if (value == TOP_ABSENT)
        return "-";
    if (value < 100000) {
        snprintf(ret, NUMBER_MAX, "%" PRIu64, value);
        return ret;
    }
    return scaled((double)value, 1000, units, sizeof units / sizeof *units, ret);
}

static const char *bytes(uint64_t value, char *ret)
{
    static const char *const units[] = { " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB" };

    return value == TOP_ABSENT ? "-" : scaled((double)value, 1024, units, sizeof units / sizeof *units, ret);
}

/* Per second, between two values of a counter.  "-" when there are no two, or another daemon counts. */
static const char *rate(const struct top_view *v, uint64_t before, uint64_t now, char *ret)
{
    double seconds = v->before ? v->now->seconds - v->before->seconds : 0;

    if (before == TOP_ABSENT || now == TOP_ABSENT || now < before || seconds <= 0)
        return "-";
    double r = (double)(now - before) / seconds;
    if (r < 99.95) {
        snprintf(ret, NUMBER_MAX, "%.1f", r);
        return ret;
    }
    return count((uint64_t)(r + 0.5), ret);
}

/* Another daemon counts from 0 again. */
static bool same_daemon(const struct top_view *v)
{
    return v->before && v->before->state != TOP_NO_DAEMON && v->now->state != TOP_NO_DAEMON &&
           v->before->counters.uptime <= v->now->counters.uptime;
}

static const char *counter_rate(const struct top_view *v, uint64_t before, uint64_t now, char *ret)
{
    return same_daemon(v) ? rate(v, before, now, ret) : "-";
}

#define RATE(v, name, ret) \
    counter_rate(v, (v)->before ? (v)->before->counters.name : TOP_ABSENT, (v)->now->counters.name, ret)

static const char *duration(uint64_t s, char *ret)
{
    if (s == TOP_ABSENT)
        return "-";
    if (s >= 86400)
        snprintf(ret, NUMBER_MAX, "%" PRIu64 " d %02u:%02u", s / 86400, (unsigned)(s / 3600 % 24),
                 (unsigned)(s / 60 % 60));
    else
        snprintf(ret, NUMBER_MAX, "%02u:%02u:%02u", (unsigned)(s / 3600), (unsigned)(s / 60 % 60),
                 (unsigned)(s % 60));
    return ret;
}

/* ---- the upper part -------------------------------------------------------------------------------------------------- */

static void draw_title(const struct top_view *v, struct top_frame *f)
{
    static const char *const states[] = { [TOP_NO_DAEMON] = "no daemon",
                                          [TOP_STALLED] = "no daemon: gone or hung, these were its counters",
                                          [TOP_ALIVE] = "alive" };
    char up[NUMBER_MAX], when[32];
    struct pen p = pen_begin(v, f, v->now->state == TOP_ALIVE ? TOP_TITLE : TOP_ALARM);
    size_t width = columns_of(v->instance, p.utf8);

    say(&p, "skade ");
    cell(&p, v->instance, width < 20 ? width : 20);
    say(&p, "  %s", states[v->now->state]);
    if (v->now->state == TOP_ALIVE)
        say(&p, ", up %s", duration(v->now->counters.uptime, up));
    skade_time_format(v->now->time_us, when);
    when[19] = 'Z'; /* seconds are enough */
    when[20] = 0;
    if (p.left < 22)
        return;
    pad(&p, p.left - 20);
    say(&p, "%s", when);
}

static struct pen label(const struct top_view *v, struct top_frame *f, bool alarm, const char *name)
{
    struct pen p = pen_begin(v, f, alarm ? TOP_ALARM : TOP_PLAIN);

    cell(&p, name, 12 < p.left ? 12 : p.left);
    return p;
}

/* Texts of numbers that one line shows. */
struct texts {
    char a[NUMBER_MAX], b[NUMBER_MAX], c[NUMBER_MAX], d[NUMBER_MAX], e[NUMBER_MAX];
};

/* From all sources; of an older daemon, from those that it knows of. */
static uint64_t lookups(const struct top_counters *c)
{
    const uint64_t sources[] = { c->lookups_map, c->lookups_tail, c->questions };
    uint64_t sum = TOP_ABSENT;

    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        if (sources[i] != TOP_ABSENT)
            sum = (sum == TOP_ABSENT ? 0 : sum) + sources[i];
    }
    return sum;
}

static void draw_lookups(const struct top_view *v, struct top_frame *f)
{
    struct texts t;
    struct pen p = label(v, f, false, "lookups");

    say(&p, "by map %s/s, tail %s/s, socket %s/s; %s in all", RATE(v, lookups_map, t.a),
        RATE(v, lookups_tail, t.b), RATE(v, questions, t.c), count(lookups(&v->now->counters), t.d));
    p = label(v, f, false, "");
    say(&p, "map and tail as clients tell, with a new generation or a request");
}

static void draw_commits(const struct top_view *v, struct top_frame *f)
{
    const struct top_counters *c = &v->now->counters;
    bool full = c->log_full != TOP_ABSENT && c->log_full > 0;
    struct texts t;
    struct pen p = label(v, f, full, "commits");

    say(&p, "%s/s in %s transactions/s; %s conflicts/s; %s in all", RATE(v, commits, t.a),
        RATE(v, groups, t.b), RATE(v, conflicts, t.c), count(c->commits, t.d));
    if (full)
        say(&p, "; DISK FULL %s times", count(c->log_full, t.e));
}

/* Of the two sequence numbers: the gauge is written twice a second only. */
static uint64_t events_in_tail(const struct top_counters *c)
{
    if (c->commit_seq == TOP_ABSENT || c->covered_seq == TOP_ABSENT)
        return TOP_ABSENT;
    return c->commit_seq > c->covered_seq ? c->commit_seq - c->covered_seq : 0;
}

static void draw_tail(const struct top_view *v, struct top_frame *f)
{
    const struct top_counters *c = &v->now->counters;
    struct texts t;
    struct pen p = label(v, f, false, "tail");

    say(&p, "%s events; the index has %s of %s", count(events_in_tail(c), t.a), count(c->covered_seq, t.b),
        count(c->commit_seq, t.c));
    if (c->tail_room != TOP_ABSENT)
        say(&p, "; mapped %s of %s", count(c->tail_used, t.d), count(c->tail_room, t.e));
}

static void draw_index(const struct top_view *v, struct top_frame *f)
{
    const struct top_counters *c = &v->now->counters;
    bool asked = c->generation == 0, failing = c->rebuild_failing == 1;
    struct texts t;
    struct pen p = label(v, f, asked || failing, "index");

    if (asked || failing)
        say(&p, asked ? "EVERYONE ASKS THE SOCKET; " : "A REBUILD FAILED; ");
    say(&p, "generation %s; parts %s, %s; %s published/s; %s free", count(c->generation, t.a),
        count(c->parts, t.b), bytes(c->index_bytes, t.c), RATE(v, published, t.d),
        bytes(c->shm_free_bytes, t.e));
}

static void draw_rows(const struct top_view *v, struct top_frame *f)
{
    const struct top_counters *c = &v->now->counters;
    struct texts t;
    struct pen p = label(v, f, false, "rows");

    say(&p, "%s/s in %s appends/s; retired files %s", RATE(v, append_rows, t.a), RATE(v, appends, t.b),
        bytes(c->retired_bytes, t.c));
    p = label(v, f, false, "compactions");
    say(&p, "%s running; %s rows/s; %s done", count(c->compacting, t.a), RATE(v, compacted_rows, t.b),
        count(c->compactions, t.c));
}

static void draw_daemon(const struct top_view *v, struct top_frame *f)
{
    const struct top_counters *c = &v->now->counters;
    struct texts t;
    struct pen p = label(v, f, false, "clients");

    say(&p, "%s connections; %s watch; %s leases; %s requests/s", count(c->connections, t.a),
        count(c->watchers, t.b), count(c->leases, t.c), RATE(v, requests, t.d));
    p = label(v, f, false, "longest");
    say(&p, "transaction %s us; turn of the loop %s us; write-ahead file %s", count(c->log_us_max, t.a),
        count(c->loop_us_max, t.b), bytes(c->wal_bytes, t.c));
}

/* ---- the lists ---------------------------------------------------------------------------------------------------------- */

/* What is left for names beside columns of WIDTH. */
static size_t name_width(const struct top_view *v, size_t width)
{
    size_t screen = v->width < TOP_WIDTH_MAX ? v->width : TOP_WIDTH_MAX;
    return screen > width + 8 ? screen - width : 8;
}

#define TABLE_COLUMNS (2 + 8 + 12 + 14)

static void draw_table(const struct top_view *v, struct top_frame *f, const struct top_table *t)
{
    char text[NUMBER_MAX];
    struct pen p = pen_begin(v, f, TOP_PLAIN);

    cell(&p, t->name, name_width(v, TABLE_COLUMNS));
    pad(&p, 2);
    cell(&p, t->stored ? "stored" : "external", 8);
    cell_right(&p, count(t->snapshots, text), 12);
    cell_right(&p, t->seq ? count(t->seq, text) : "-", 14);
}

static void draw_tables(const struct top_view *v, struct top_frame *f, size_t lines)
{
    static const char *const orders[] = {
        [TOP_BY_SNAPSHOTS] = "by snapshots", [TOP_BY_CHANGE] = "by newest commit", [TOP_BY_NAME] = "by name"
    };
    char head[64], text[NUMBER_MAX];
    struct pen p = pen_begin(v, f, TOP_HEADING);

    snprintf(head, sizeof head, "TABLE  (%s, %s)", count(v->now->counters.tables, text), orders[v->tables]);
    cell(&p, head, name_width(v, TABLE_COLUMNS));
    pad(&p, 2);
    cell(&p, "KIND", 8);
    cell_right(&p, "SNAPSHOTS", 12);
    cell_right(&p, "NEWEST COMMIT", 14);
    for (size_t i = 0; i < lines; i++) {
        if (i < v->now->tables_count)
            draw_table(v, f, &v->now->tables[i]);
        else
            pen_begin(v, f, TOP_PLAIN);
    }
}

#define CLIENT_COLUMNS (7 + 9 + 7 + 12 + 6 + 12)

struct ranked {
    const struct top_client *client;
    double per_second; /* below 0: not known */
};

static double requests_per_second(const struct top_view *v, const struct top_client *c)
{
    const struct top_client *before = same_daemon(v) ? top_sample_find(v->before, c) : NULL;
    double seconds = v->before ? v->now->seconds - v->before->seconds : 0;

    if (!before || before->requests > c->requests || seconds <= 0)
        return -1;
    return (double)(c->requests - before->requests) / seconds;
}

static int by_requests(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->per_second != y->per_second)
        return x->per_second < y->per_second ? 1 : -1;
    if (x->client->requests != y->client->requests)
        return x->client->requests < y->client->requests ? 1 : -1;
    return (x->client > y->client) - (x->client < y->client); /* by label: so they are sorted */
}

static int by_lag(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->client->lag != y->client->lag)
        return x->client->lag < y->client->lag ? 1 : -1;
    return by_requests(a, b);
}

static void draw_client(const struct top_view *v, struct top_frame *f, const struct ranked *r)
{
    const struct top_client *c = r->client;
    char text[NUMBER_MAX];
    struct pen p = pen_begin(v, f, TOP_PLAIN);

    cell(&p, c->label, name_width(v, CLIENT_COLUMNS));
    cell_right(&p, count(c->uid, text), 7);
    if (c->pid)
        snprintf(text, sizeof text, "%" PRIu32, c->pid);
    cell_right(&p, c->pid ? text : "-", 9);
    cell_right(&p, count(c->connections, text), 7);
    cell_right(&p, c->generation ? count(c->generation, text) : "-", 12);
    cell_right(&p, c->generation ? count(c->lag, text) : "-", 6);
    if (r->per_second >= 0)
        snprintf(text, sizeof text, "%.1f", r->per_second);
    cell_right(&p, r->per_second < 0 ? "-" : text, 12);
}

static void head_of_clients(const struct top_view *v, struct top_frame *f)
{
    static const char *const orders[] = { [TOP_BY_REQUESTS] = "CLIENT  (by requests)",
                                          [TOP_BY_LAG] = "CLIENT  (by lag)",
                                          [TOP_BY_LABEL] = "CLIENT  (by label)" };
    struct pen p = pen_begin(v, f, TOP_HEADING);

    cell(&p, orders[v->clients], name_width(v, CLIENT_COLUMNS));
    cell_right(&p, "UID", 7);
    cell_right(&p, "PID", 9);
    cell_right(&p, "CONNS", 7);
    cell_right(&p, "GENERATION", 12);
    cell_right(&p, "LAG", 6);
    cell_right(&p, "REQUESTS/S", 12);
}

/* Clients are shown as far as memory to rank them is there: it always is. */
static void draw_clients(const struct top_view *v, struct top_frame *f, size_t lines)
{
    size_t n = v->now->clients_count;
    struct ranked *ranked = n ? calloc(n, sizeof *ranked) : NULL;

    head_of_clients(v, f);
    if (*v->now->clients_problem) {
        struct pen p = pen_begin(v, f, TOP_FAINT);
        say(&p, "%s", v->now->clients_problem);
    }
    for (size_t i = 0; ranked && i < n; i++)
        ranked[i] = (struct ranked){ &v->now->clients[i], requests_per_second(v, &v->now->clients[i]) };
    if (ranked && v->clients != TOP_BY_LABEL)
        qsort(ranked, n, sizeof *ranked, v->clients == TOP_BY_LAG ? by_lag : by_requests);
    for (size_t i = 0; ranked && i < n && i < lines; i++)
        draw_client(v, f, &ranked[i]);
    free(ranked);
}

/* ---- all of it ------------------------------------------------------------------------------------------------------------ */

/* One list gets half of what is left, and what the other doesn't need. */
static void draw_lists(const struct top_view *v, struct top_frame *f, size_t lines)
{
    size_t room = lines - 3; /* two headings, and a line between */
    size_t clients = v->now->clients_count + (*v->now->clients_problem != 0);
    size_t tables = v->now->tables_count < room / 2 ? v->now->tables_count : room / 2;

    if (clients < room - tables)
        tables = v->now->tables_count < room - clients ? v->now->tables_count : room - clients;
    draw_tables(v, f, tables);
    pen_begin(v, f, TOP_PLAIN);
    draw_clients(v, f, room - tables);
}

static void draw_absence(const struct top_view *v, struct top_frame *f)
{
    struct pen p;

    pen_begin(v, f, TOP_PLAIN);
    p = pen_begin(v, f, TOP_PLAIN);
    say(&p, "%s", v->now->problem);
    p = pen_begin(v, f, TOP_FAINT);
    say(&p, "This goes on when it is back.");
}

static void draw_keys(const struct top_view *v, struct top_frame *f)
{
    size_t height = v->height < TOP_HEIGHT_MAX ? v->height : TOP_HEIGHT_MAX;

    while (f->count + 1 < height)
        pen_begin(v, f, TOP_PLAIN);
    struct pen p = pen_begin(v, f, TOP_FAINT);
    say(&p, "q quit   t order of tables   c order of clients");
}

void top_draw(const struct top_view *v, struct top_frame *ret)
{
    ret->count = 0;
    draw_title(v, ret);
    if (v->now->state == TOP_NO_DAEMON) {
        draw_absence(v, ret);
    } else {
        draw_lookups(v, ret);
        draw_commits(v, ret);
        draw_tail(v, ret);
        draw_index(v, ret);
        draw_rows(v, ret);
        draw_daemon(v, ret);
        pen_begin(v, ret, TOP_PLAIN);
        if (v->height > ret->count + LISTS_MIN)
            draw_lists(v, ret, v->height - ret->count - (v->keys ? 1 : 0));
    }
    if (v->keys)
        draw_keys(v, ret);
}
