/*
 * What comes out: lines for programs, and a page and plots for people.
 *
 *      goal NAME GOAL FIGURE SPREAD pass|floor|fail
 *      figure NAME VALUE UNIT
 */
#include "bench.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>

#define FIGURES_MAX 512
#define GOALS_MAX 128
#define NOTES_MAX 16

struct figure {
    char group[32], name[48], unit[16];
    struct measure m;
    enum row_kind kind;
};

struct judged {
    struct goal goal;
    struct measure m;
    enum verdict verdict;
};

static char folder[256];
static struct figure figures[FIGURES_MAX];
static size_t figures_count;
static struct judged goals[GOALS_MAX];
static size_t goals_count;
static char notes[NOTES_MAX][256];
static size_t notes_count;

static const char *const verdict_names[] = { [PASS] = "pass", [FLOOR] = "floor", [FAIL] = "fail" };

/* ---- lines -------------------------------------------------------------------------------------------------------- */

void report_begin(const char *into)
{
    snprintf(folder, sizeof folder, "%s", into);
    if (mkdir(folder, 0777) < 0 && errno != EEXIST)
        die("cannot make %s: %s", folder, strerror(errno));
    setvbuf(stdout, NULL, _IOLBF, 0);
}

void report_figure(const char *group, const char *name, struct measure m, const char *unit,
                   enum row_kind kind)
{
    if (figures_count == FIGURES_MAX)
        die("too many figures");
    struct figure *f = &figures[figures_count++];
    snprintf(f->group, sizeof f->group, "%s", group);
    snprintf(f->name, sizeof f->name, "%s", name);
    snprintf(f->unit, sizeof f->unit, "%s", unit);
    f->m = m;
    f->kind = kind;
    printf("figure %s.%s %.6g %s\n", group, name, m.median, unit);
}

void report_rows(const char *group, const struct rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->row[i];
        report_figure(group, row->name, measure_of(row->ns, rows->reps), "ns", row->kind);
    }
}

void report_goal(const struct goal *g, struct measure m, enum verdict v)
{
    if (goals_count == GOALS_MAX)
        die("too many goals");
    goals[goals_count++] = (struct judged){ *g, m, v };
    printf("goal %s %s%g %.4g %.2g %s\n", g->name, g->sense == AT_LEAST ? ">=" : "<=", g->target, m.median,
           m.spread, verdict_names[v]);
}

void report_note(const char *format, ...)
{
    va_list args;

    if (notes_count == NOTES_MAX)
        die("too many notes");
    va_start(args, format);
    vsnprintf(notes[notes_count], sizeof notes[0], format, args);
    va_end(args);
    printf("# %s\n", notes[notes_count++]);
}

/* ---- plots ---------------------------------------------------------------------------------------------------------- */

/* Figures of a group have units of their own; the plot shows those of its first. */
static void plot_group(const char *group, const char *unit)
{
    static struct bar bars[FIGURES_MAX];
    char path[512], title[96];
    size_t n = 0;

    for (size_t i = 0; i < figures_count; i++) {
        const struct figure *f = &figures[i];
        if (strcmp(f->group, group) == 0 && strcmp(f->unit, unit) == 0)
            bars[n++] = (struct bar){ f->name, f->m.median, f->m.median - f->m.spread,
                                      f->m.median + f->m.spread, f->kind };
    }
    snprintf(path, sizeof path, "%s/%.31s.svg", folder, group);
    snprintf(title, sizeof title, "%.31s, %.15s", group, unit);
    int r = svg_bars(path, title, unit, bars, n, 0);
    if (r < 0)
        die("cannot write %s: %s", path, strerror(-r));
}

/* How often each goal is reached: beyond 1 is better, whatever its sense. */
static void plot_goals(void)
{
    static struct bar bars[GOALS_MAX];
    char path[512];
    size_t n = 0;

    for (size_t i = 0; i < goals_count; i++) {
        const struct judged *j = &goals[i];
        bool least = j->goal.sense == AT_LEAST;
        if (j->goal.target == 0 || j->m.median == 0)
            continue;
        double value = least ? j->m.median / j->goal.target : j->goal.target / j->m.median;
        double spread = value * j->m.spread / j->m.median;
        bars[n++] = (struct bar){ j->goal.name, value, value - spread, value + spread,
                                  j->verdict == FAIL    ? ROW_LIMIT
                                  : j->verdict == FLOOR ? ROW_PEER
                                                        : ROW_OURS };
    }
    snprintf(path, sizeof path, "%s/goals.svg", folder);
    int r = svg_bars(path, "goals: figure by target, 1 is reached", "", bars, n, 1);
    if (r < 0)
        die("cannot write %s: %s", path, strerror(-r));
}

/* ---- the page --------------------------------------------------------------------------------------------------------- */

static void write_goals(FILE *f)
{
    fprintf(f, "## Goals\n\n![goals](goals.svg)\n\n| goal | target | floor | figure | spread | "
               "|\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < goals_count; i++) {
        const struct judged *j = &goals[i];
        fprintf(f, "| %s | %s %g | %g | %.4g | %.2g | %s |\n", j->goal.name,
                j->goal.sense == AT_LEAST ? "≥" : "≤", j->goal.target, j->goal.floor, j->m.median,
                j->m.spread, verdict_names[j->verdict]);
    }
}

static void write_group(FILE *f, const char *group)
{
    fprintf(f, "\n## %s\n\n![%s](%s.svg)\n\n| row | median | spread | unit |\n|---|---|---|---|\n", group,
            group, group);
    for (size_t i = 0; i < figures_count; i++) {
        const struct figure *x = &figures[i];
        if (strcmp(x->group, group) == 0)
            fprintf(f, "| %s | %.6g | %.2g | %s |\n", x->name, x->m.median, x->m.spread, x->unit);
    }
}

static bool begins_group(size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (strcmp(figures[k].group, figures[i].group) == 0)
            return false;
    }
    return true;
}

void report_end(void)
{
    char path[512];

    snprintf(path, sizeof path, "%s/report.md", folder);
    FILE *f = fopen(path, "we");
    if (!f)
        die("cannot write %s: %s", path, strerror(errno));
    fprintf(f, "# make bench\n\nWhat the rows mean: docs/PERFORMANCE.md.\n\n");
    for (size_t i = 0; i < notes_count; i++)
        fprintf(f, "* %s\n", notes[i]);
    fprintf(f, "\n");
    write_goals(f);
    plot_goals();
    for (size_t i = 0; i < figures_count; i++) {
        if (!begins_group(i))
            continue;
        write_group(f, figures[i].group);
        plot_group(figures[i].group, figures[i].unit);
    }
    fclose(f);
    printf("# report: %s\n", path);
}
