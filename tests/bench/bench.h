/*
 * The benchmark: how fast are lookups next to SQLite, LMDB and what the machine's memory allows.
 *
 * Every figure that is judged is a ratio of rows of one run.  A row is a loop that answers a window of questions, or
 * steps through memory.  In each repetition every row runs once, in turn, each with a window of its own, so that what
 * disturbs the machine disturbs all of them and no row finds its answers in the cache because another asked before.
 * A ratio is taken inside a repetition; the median over the repetitions is the figure, half the distance between
 * its quartiles the spread.
 *
 *   main.c           stages in order, exit code          limits.c         what memory allows
 *   rows.c           rows, repetitions, medians          peer_lmdb.c      LMDB
 *   history.c        commits, questions, answers         peer_sqlite.c    SQLite
 *   goals.c          goals and how they are judged       lookups.c        the rows above, and ours, by size
 *   report.c         lines, Markdown                     by_client.c      through libskadeclient
 *   svg.c            plots                               by_part.c        the index alone
 *   daemon.c         a daemon in a temporary place       distributions.c  ids of many kinds
 *   writers.c        many who write one SQLite file      commits.c        commits, publication
 *   scaling.c        two processes at a time             idle.c           clients that do nothing
 *   pages.c          pages of a history                  count_syncs.c    the daemon's fsyncs, loaded into it
 *                                                        tables.c         rows of stored tables
 *                                                        tables_append.c  many writers, point reads
 */
#ifndef SKADE_BENCH_H
#define SKADE_BENCH_H

#include <skade.h>

#include "synthetic.h"
#include "util.h"

#include <stdio.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- small things (main.c) ------------------------------------------------------------------------------------- */

double now_ns(void);
double processor_ns(void); /* of this thread */
uint64_t random_next(void);
void random_begin(uint64_t seed); /* a process that was forked: questions of its own */
void *allocate(size_t bytes);     /* zeroed; ends the program when there is no memory */

/* Print what went wrong and end the program, with the daemon stopped and everything temporary removed. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
void check(int r, const char *what, const skade *s); /* dies when R < 0 */

/* One question starts when the one before is answered: without this a processor works on several at a time. */
static inline void fence(void)
{
#if defined(__x86_64__)
    _mm_lfence();
#else
    __asm__ volatile("isb" ::: "memory");
#endif
}

/* ---- history.c: what was committed, and questions about it ---------------------------------------------------------- */

enum ids { IDS_RANDOM, IDS_COUNTED, IDS_TIMED, IDS_OUTLIER, IDS_SHARED };

/* VERSIONS commits of each of TABLES tables.  Table numbers are 1 to TABLES; versions count from 0. */
struct history {
    uint32_t tables;
    uint32_t versions;
    enum ids ids;
    uint64_t first_seq; /* of version 0 of table 1; then version 0 of table 2, and so on */
};

int64_t history_id(const struct history *h, uint32_t table, uint32_t version);
uint64_t history_seq(const struct history *h, uint32_t table, uint32_t version);
static inline uint64_t history_rows(const struct history *h)
{
    return (uint64_t)h->tables * h->versions;
}

#define TABLES 1000 /* that lookups are spread over */
#define NOT_THERE UINT32_MAX

struct question {
    int64_t id;
    uint32_t table;
    uint32_t version; /* NOT_THERE: the id is of no commit */
};

/* MISSES of 100 questions ask for what isn't there. */
void ask_at_random(const struct history *h, unsigned misses, struct question *ret, size_t n);
/* For questions about a table alone: its newest version. */
void ask_for_heads(const struct history *h, struct question *ret, size_t n);

/* Where the answers go: the caller's buffers that every row fills, one after the other and again from the start. */
#define WINDOW 1024
#define LOCATION_ROOM 160
extern struct skade_answer answers[WINDOW];
void answers_clear(void); /* before anything is asked */

/* How much of an answer a row gives: peers give a location only, and so less than skade. */
enum answer_depth { NO_ANSWER, LOCATION_ONLY, WHOLE_ANSWER };

/* Compare the answers to the last questions of Q with what they must be.  How many are wrong. */
uint64_t judge_answers(const struct history *h, const struct question *q, size_t n, enum answer_depth depth);

/* ---- rows.c: rows and repetitions ------------------------------------------------------------------------------------ */

#define REPS_MAX 64
#define ROWS_MAX 64

enum row_kind { ROW_OURS, ROW_PEER, ROW_LIMIT };

struct row {
    const char *name;
    enum row_kind kind;
    void (*run)(void *arg, const struct question *q, size_t n); /* N questions, or N steps */
    void *arg;
    size_t n;                      /* a multiple of WINDOW unless HISTORY is NULL */
    const struct history *history; /* NULL: a limit, which has no questions */
    unsigned misses;               /* of 100 */
    enum answer_depth depth;
    bool heads;          /* asks for heads */
    bool waits;          /* for another process */
    double ns[REPS_MAX]; /* per question or step, in the order of the repetitions */
};

struct rows {
    struct row row[ROWS_MAX];
    size_t count;
    int reps;
    uint64_t wrong; /* answers */
};

struct row *rows_add(struct rows *rows, struct row row); /* lends it */
void rows_run(struct rows *rows, int reps);

/* The row of that name; with a name that ends in '.', the fastest of those that begin so.  NULL: there is none. */
const struct row *rows_find(const struct rows *rows, const char *name);

struct measure {
    double median;
    double spread;
};
struct measure measure_of(const double *samples, int n);
/* Of what OVER is by UNDER, repetition by repetition. */
struct measure measure_ratio(const double *over, const double *under, int n);
struct measure row_ns(const struct rows *rows, const char *name);
/* Row OVER divided by row UNDER times FACTOR, inside each repetition.  Both must be there. */
struct measure row_ratio(const struct rows *rows, const char *over, const char *under, double factor);

/* ---- goals.c, report.c: what comes out ---------------------------------------------------------------------------------- */

enum sense { AT_LEAST, AT_MOST };

/* FLOOR is what must be reached, TARGET what should be; equal where there is one number. */
struct goal {
    char name[64];
    enum sense sense;
    double floor;
    double target;
    bool avx512; /* the numbers were agreed upon with it: doesn't count on a processor without */
};

enum verdict { PASS, FLOOR, FAIL };
enum verdict goal_judge(const struct goal *g, struct measure m);
/* Did it fail by more than the spread that was measured, on a processor that it was agreed upon for? */
bool goal_counts_as_failed(const struct goal *g, struct measure m);

/* Judge, print and remember. */
void goal_check(const struct goal *g, struct measure m);
int goals_failed(void); /* how many count as failed */

/* The goals of issue "speed" that lookups over N snapshots have; those whose rows are missing are left out. */
void goals_of_lookups(const struct rows *rows, const char *size, uint64_t n, double lines_per_lookup);
void goals_of_distributions(const struct rows *rows);
/* GAIN: commits per second of 64 committers by those of one. */
void goals_of_commits(struct measure gain);
/* SQLITE: by those of 64 processes that write one SQLite file.  SYNCS: of the disk for each commit of one. */
void goals_of_writers(struct measure sqlite, struct measure syncs);
/* Lookups of two processes by those of one; and what they met on the way. */
void goals_of_scaling(struct measure single, struct measure batch, uint64_t waits, uint64_t wrong,
                      uint64_t asked);
/* The cost of a publication with idle clients by that without. */
void goals_of_idle(struct measure ratio);
/* A page at the end of a long history by one at its beginning; one of a long history by one of a short one. */
void goals_of_pages(struct measure oldest, struct measure longer, uint64_t wrong);
/* Rows of BYTES: times faster than LMDB (append) and SQLite (scan); times slower than what compaction can't avoid. */
/* What NAME costs with a tail that is full so far (HOW). */
void goal_of_tail(const char *name, const char *how, struct measure ratio, double most);
void goals_of_tail(uint64_t wrong, uint64_t asked);
void goals_of_tables(size_t bytes, struct measure append, struct measure scan, struct measure compact);
/* ENTRIES: millions of rows scanned per second; COMPACT: seconds for a million of rows. */
void goals_of_small_rows(struct measure entries, struct measure compact);

void report_begin(const char *folder);
/* Figures and plots belong to a group: "lookups-1e6". */
void report_figure(const char *group, const char *name, struct measure m, const char *unit,
                   enum row_kind kind);
void report_rows(const char *group, const struct rows *rows);
void report_goal(const struct goal *g, struct measure m, enum verdict v);
/* A goal's stroke across the bar of a row. */
void report_mark(const char *group, const char *row, double at);
/* A point of line NAME in a plot of its own, `PLOT.svg`, which is about what ABOUT says of it (report.c). */
void report_point(const char *plot, const char *name, enum row_kind kind, double x, struct measure y);
void report_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void report_end(void); /* write report.md and the plots */

/* Colours: a row's kind, or how a goal was judged. */
enum paint { PAINT_PASS = ROW_LIMIT + 1, PAINT_FLOOR, PAINT_FAIL };
#define BAR_GOALS_MAX 4
#define SERIES_MAX 16
#define POINTS_MAX 16

/* One bar of a plot. */
struct bar {
    const char *name;
    double value;
    double from, to; /* the spread around it */
    int paint;
    double goals[BAR_GOALS_MAX]; /* strokes across it */
    size_t goals_count;
};
/* One line of a plot. */
struct series {
    char name[32];
    enum row_kind kind;
    size_t count;
    double x[POINTS_MAX];
    struct measure y[POINTS_MAX];
};
/* Horizontal bars; MARK: a line across all of them at that value, 0 for none.  0 or -errno. */
int svg_bars(const char *path, const char *title, const char *subtitle, const char *unit,
             const struct bar *bars, size_t n, double mark);
/* Lines of 1 point or more each, in the order of their x.  0 or -errno. */
int svg_lines(const char *path, const char *title, const char *subtitle, const char *x_label,
              const struct series *s, size_t n);

/* ---- daemon.c ---------------------------------------------------------------------------------------------------------- */

/* Where SKADED is, and a temporary folder that is removed at exit. */
void place_begin(const char *skaded);
const char *place_folder(void);
const char *place_shm_dir(void); /* of the daemon's files */
void end_if_interrupted(void);

void daemon_hold_index(
    bool hold); /* daemons that are started from now on index when they are told to, only */
void daemon_start(const char *sync);       /* "full" or "normal"; with an empty log */
void daemon_start_again(const char *sync); /* with the data that there is */
void daemon_forget_index(void);            /* of a daemon that doesn't run: remove its index file */
uint64_t daemon_switches(void);            /* how often its threads, all together, stopped running */
/* Count its calls of fsync() and fdatasync() from its next start on; false: can't. */
bool daemon_count_syncs(void);
uint64_t daemon_syncs(void);
void daemon_stop(void);
double daemon_processor_ns(void); /* of all its threads together */
double daemon_loop_ns(void);      /* of its loop alone */
skade *daemon_open(unsigned flags);
uint64_t daemon_counter(skade *s, const char *name);

/* Commit the HISTORY, in the order of its sequence numbers; with a large one this takes minutes. */
void history_fill(struct history *h);
/* Commits FROM to FROM + N of the history, or of what may follow it, as one release.  The last sequence number. */
uint64_t history_release(skade *s, const struct history *h, uint64_t from, size_t n);

/* ---- the things that are measured ------------------------------------------------------------------------------------------ */

/* limits.c.  BYTES is the working set; as the index has it: in shared memory, on pages of the same size. */
struct limits;
struct limits *limits_open(size_t bytes, bool huge);
void limits_close(struct limits *l);
void limits_chase(void *l, const struct question *q, size_t n);
void limits_lines(void *l, const struct question *q, size_t n);
/* Bytes of the map at BASE that are mapped in huge pages. */
uint64_t huge_bytes(const void *base);

/* by_client.c: run() functions of rows; ARG is a skade, or struct by_name. */
void client_single(void *s, const struct question *q, size_t n);
void client_batch(void *s, const struct question *q, size_t n);
void client_head(void *s, const struct question *q, size_t n);
void client_as_of(void *s, const struct question *q, size_t n);
void client_by_name(void *by_name, const struct question *q, size_t n);
struct by_name {
    skade *s;
    char (*names)[32]; /* of tables 1 and so on */
};
/* A handle whose maps are read with that instruction set ("scalar" ...). */
skade *client_with_isa(const char *isa);
void client_see_heartbeat(skade *const *handles, size_t n);
uint64_t client_counter(skade *s, const char *name);

/* by_part.c: the same over a part, without generations and tables' lifetimes. */
struct lone_part;
struct lone_part *lone_part_open_largest(skade *s);         /* the daemon's */
struct lone_part *lone_part_build(const struct history *h); /* one in this process */
size_t lone_part_size(const struct lone_part *p);
/* The same in two steps: the commits of a history, as the daemon has them, and the part that they become. */
struct commits {
    struct event *events;
    const struct event **list;
    char (*texts)[SYNTHETIC_LOCATION_MAX];
};
struct commits commits_make(const struct history *h);
void commits_free(struct commits *c);
struct lone_part *lone_part_of(const struct history *h, const struct commits *c);
void lone_part_close(struct lone_part *p);
void part_single(void *p, const struct question *q, size_t n);
void part_tree(void *p, const struct question *q, size_t n);
void part_tree_loop(void *p, const struct question *q, size_t n);
void part_batch(void *p, const struct question *q, size_t n);
void part_tree_batch(void *p, const struct question *q, size_t n);
/* Whether keys are there, in batches: through the tree, and in an ideal hash table over the same keys. */
void lone_part_add_hash(struct lone_part *p);
void keys_tree(void *p, const struct question *q, size_t n);
void keys_hash(void *p, const struct question *q, size_t n);

struct part_facts {
    uint64_t rows, bytes, block_bytes, huge_bytes;
    double lines;     /* cache lines that a lookup reads, by the layout */
    double displaced; /* share of rows outside of their home */
    double in_heap;   /* share of locations in the heap */
    uint32_t reach;
};
struct part_facts lone_part_facts(const struct lone_part *p);

struct lmdb;
struct lmdb *lmdb_fill(const struct history *h);
void lmdb_close(struct lmdb *l);
void lmdb_bytes(void *l, const struct question *q, size_t n);
void lmdb_bytes_fenced(void *l, const struct question *q, size_t n);
void lmdb_mixed(void *l, const struct question *q, size_t n);
void lmdb_mixed_fenced(void *l, const struct question *q, size_t n);

struct sqlite;
struct sqlite *sqlite_fill(const struct history *h);
void sqlite_close(struct sqlite *q);
void sqlite_pair(void *l, const struct question *q, size_t n);
void sqlite_mixed(void *l, const struct question *q, size_t n);

/* Table and id mixed into one number, of which peers make keys. */
uint64_t mixed_key(uint32_t table, int64_t id);

/* 64 processes and one SQLite file: commits per second by the first N of them. */
#define WRITERS_MAX 64
struct writers;
struct writers *writers_open(void);
void writers_close(struct writers *w);
double writers_rate(struct writers *w, uint32_t n, double seconds);

/* The commits in the order of a peer's keys, for loading it in one pass; both give them. */
struct sorted_key {
    uint64_t key;
    uint32_t table;
    uint32_t version;
};
struct sorted_key *history_by_mixed_key(const struct history *h); /* no key twice */
struct sorted_key *history_by_id(const struct history *h);        /* by table, then by id */

/* ---- stages ------------------------------------------------------------------------------------------------------------------ */

void stage_lookups(uint64_t n, const char *size, int reps);
void stage_distributions(uint64_t n, int reps);
void stage_commits(int reps);
void stage_tables(int reps);
void stage_tail(int reps);
/* N snapshots: a start from the index file, and from the log. */
void stage_rebuild(int reps);
void stage_build(uint64_t n, const char *size, int reps);
void stage_start(uint64_t n, const char *size, int reps);
void stage_rest(int reps);
void stage_pages(int reps);
/* With a daemon that has H: lookups of two processes at a time; BYTES is what their limits are measured over. */
void stage_scaling(const struct history *h, size_t bytes, int reps);
/* What idle clients cost when more commits are published. */
void stage_idle(const struct history *h, int reps);
void stage_appends(int reps);
void stage_gets(int reps);
/* With a daemon that has H: how soon 1024 more commits are in the published index. */
void stage_publication(const struct history *h, const char *size, int reps);

#endif
