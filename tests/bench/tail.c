/*
 * What is newer than the index, next to what is in it: lookups in the mapped tail, half full and full, by lookups of the
 * same kind in parts, and what a tail costs those who don't need it.
 *
 * The index is held still, so that the tail stays as full as it was made.  The questions about parts go through a view that
 * was opened before: it has the same maps and no tail.
 */
#include "bench.h"

#include "format_tail.h"
#include "synthetic.h"

#include <stdlib.h>
#include <string.h>

#define VERSIONS 1000 /* in parts; those from there on are in the tail */
#define SINGLES 8192
#define BATCHES (64 * WINDOW)
#define RELEASE 4096

enum kind { VIEW_SINGLE, VIEW_BATCH, VIEW_HEAD, SINGLE, BATCH, TAIL_SINGLE, TAIL_BATCH, TAIL_HEAD, KINDS };

static const char *const names[KINDS] = {
    [VIEW_SINGLE] = "single",        [VIEW_BATCH] = "batch",        [VIEW_HEAD] = "head",
    [SINGLE] = "single-beside-tail", [BATCH] = "batch-beside-tail", [TAIL_SINGLE] = "tail-single",
    [TAIL_BATCH] = "tail-batch",     [TAIL_HEAD] = "tail-head",
};

struct tail_bench {
    struct history history;
    skade *s;
    skade_view *view; /* of before there was a tail */
    uint32_t newest;  /* commits in the tail */
    uint64_t wrong;
    double ns[KINDS][REPS_MAX];
};

static struct question questions[BATCHES];

/* ---- questions -------------------------------------------------------------------------------------------- */

static bool is_fresh(enum kind kind)
{
    return kind >= TAIL_SINGLE;
}

static void ask_fresh(const struct tail_bench *b, size_t n, bool heads)
{
    const struct history *h = &b->history;

    for (size_t i = 0; i < n; i++) {
        uint32_t k = (uint32_t)(random_next() % b->newest);
        if (heads)
            k = b->newest - 1 - (uint32_t)(random_next() % h->tables);
        uint32_t table = 1 + k % h->tables, version = VERSIONS + k / h->tables;
        questions[i] = (struct question){ history_id(h, table, version), table, version };
    }
}

static void choose(const struct tail_bench *b, enum kind kind, size_t n)
{
    if (is_fresh(kind))
        ask_fresh(b, n, kind == TAIL_HEAD);
    else if (kind == VIEW_HEAD)
        ask_for_heads(&b->history, questions, n);
    else
        ask_at_random(&b->history, 0, questions, n);
}

static void put_window(size_t i)
{
    for (size_t k = 0; k < WINDOW; k++) {
        answers[k].table = questions[i + k].table;
        answers[k].snapshot = questions[i + k].id;
    }
}

static void run(const struct tail_bench *b, enum kind kind, size_t n)
{
    switch (kind) {
    case VIEW_SINGLE:
        for (size_t i = 0; i < n; i++) {
            fence();
            skade_view_resolve(b->view, questions[i].table, questions[i].id, &answers[i % WINDOW]);
        }
        break;
    case VIEW_HEAD:
        for (size_t i = 0; i < n; i++) {
            fence();
            skade_view_head(b->view, questions[i].table, &answers[i % WINDOW]);
        }
        break;
    case VIEW_BATCH:
        for (size_t i = 0; i < n; i += WINDOW) {
            put_window(i);
            skade_view_resolve_many(b->view, answers, WINDOW);
        }
        break;
    case SINGLE:
    case TAIL_SINGLE:
        client_single(b->s, questions, n);
        break;
    case BATCH:
    case TAIL_BATCH:
        client_batch(b->s, questions, n);
        break;
    default:
        client_head(b->s, questions, n);
    }
}

static double measure(struct tail_bench *b, enum kind kind)
{
    size_t n = kind == VIEW_BATCH || kind == BATCH || kind == TAIL_BATCH ? BATCHES : SINGLES;

    choose(b, kind, n);
    answers_clear();
    double began = now_ns();
    run(b, kind, n);
    double took = (now_ns() - began) / (double)n;
    b->wrong += judge_answers(&b->history, questions, n, WHOLE_ANSWER);
    return took;
}

/* ---- one fill ---------------------------------------------------------------------------------------------- */

static struct measure ratio(const struct tail_bench *b, enum kind over, enum kind under, int reps)
{
    double samples[REPS_MAX];

    for (int i = 0; i < reps; i++)
        samples[i] = b->ns[over][i] / b->ns[under][i];
    return measure_of(samples, reps);
}

static void fill(struct tail_bench *b, uint32_t n)
{
    for (; b->newest < n; b->newest += RELEASE)
        history_release(b->s, &b->history, (uint64_t)VERSIONS * b->history.tables + b->newest, RELEASE);
}

static void run_fill(struct tail_bench *b, const char *how, uint32_t n, int reps)
{
    char group[32];
    static const struct {
        const char *name;
        enum kind over, under;
        double most;
    } goals[] = { { "tail_by_mapped.single", TAIL_SINGLE, VIEW_SINGLE, 3 },
                  { "tail_by_mapped.head", TAIL_HEAD, VIEW_HEAD, 3 },
                  { "tail_by_mapped.batch", TAIL_BATCH, VIEW_BATCH, 3 },
                  { "beside_tail.single", SINGLE, VIEW_SINGLE, 1.2 },
                  { "beside_tail.batch", BATCH, VIEW_BATCH, 1.2 } };

    fill(b, n);
    for (int rep = 0; rep < reps; rep++) {
        end_if_interrupted();
        for (int k = 0; k < KINDS; k++) {
            enum kind kind = (enum kind)((k + rep) % KINDS);
            b->ns[kind][rep] = measure(b, kind);
        }
    }
    snprintf(group, sizeof group, "tail-%s", how);
    for (int k = 0; k < KINDS; k++)
        report_figure(group, names[k], measure_of(b->ns[k], reps), "ns", ROW_OURS);
    for (size_t i = 0; i < ARRAY_SIZE(goals); i++)
        goal_of_tail(goals[i].name, how, ratio(b, goals[i].over, goals[i].under, reps), goals[i].most);
}

void stage_tail(int reps)
{
    static struct tail_bench b;

    b.history = (struct history){ .tables = TABLES, .versions = VERSIONS, .ids = IDS_RANDOM };
    daemon_hold_index(true);
    daemon_start("normal");
    history_fill(&b.history);
    b.s = daemon_open(0);
    check(skade_view_open(b.s, &b.view), "view", b.s);
    client_see_heartbeat(&b.s, 1);
    uint64_t asked = client_counter(b.s, "asked_daemon");
    run_fill(&b, "half", TAIL_ROOM / 2, reps);
    run_fill(&b, "full", TAIL_ROOM, reps);
    goals_of_tail(b.wrong, client_counter(b.s, "asked_daemon") - asked);
    skade_view_close(b.view);
    skade_close(b.s);
    daemon_stop();
    daemon_hold_index(false);
}
