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
#define GOALS_MAX 192
#define MARKS_MAX 128
#define PLOTS_MAX 16
#define NOTES_MAX 16

struct figure {
    char group[48], name[48], unit[16];
    struct measure m;
    enum row_kind kind;
};

struct judged {
    struct goal goal;
    struct measure m;
    enum verdict verdict;
};

struct mark {
    char group[48], row[48];
    double at;
};

struct plot {
    char name[32];
    struct series series[SERIES_MAX];
    size_t count;
};

static char folder[256];
static struct figure figures[FIGURES_MAX];
static size_t figures_count;
static struct judged goals[GOALS_MAX];
static size_t goals_count;
static struct mark marks[MARKS_MAX];
static size_t marks_count;
static struct plot plots[PLOTS_MAX];
static size_t plots_count;
static char notes[NOTES_MAX][256];
static size_t notes_count;

static const char *const verdict_names[] = { [PASS] = "pass", [FLOOR] = "floor", [FAIL] = "fail" };

/* What groups and plots are about; a name that ends in '-' is of all that begin so, and %s is the rest of it. */
struct about {
    const char *name, *title, *text;
    const char *x_label; /* of a plot of lines */
};

static const struct about abouts[] = {
    { "lookups-", "Lookups over %s snapshots",
      "Nanoseconds from a table and an id to the whole location; a red stroke is a goal", NULL },
    { "publication-", "Publication over %s snapshots",
      "A release of 1024 commits, and how soon it is in the index", NULL },
    { "distributions", "Ids of many kinds", "Nanoseconds per lookup in the index alone", NULL },
    { "scaling", "Two processes at a time",
      "How many times what one does they do together: by their processors' time, and by the clock", NULL },
    { "idle", "200 idle clients", "Processor time of the daemon's loop for publishing 1024 commits", NULL },
    { "history", "A page of a table's history",
      "100 events out of 200,000, and a short history that is one page", NULL },
    { "commits_by_committers", "Commits by many at a time", "Durable commits per second; more is better",
      "committers" },
    { "commits", "Commits", "Durable commits per second; a red stroke is a goal", NULL },
    { "tables-tiny", "Tables of tiny commits", "10,000 commits of one row, before and after compaction",
      NULL },
    { "tables-", "Rows of stored tables, %s bytes each", "Nanoseconds per row", NULL },
    { "lookup_by_size", "A lookup, by how many snapshots there are", "Nanoseconds; less is better",
      "snapshots" },
};

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

/* ---- what a group is about ------------------------------------------------------------------------------------------ */

static bool is_about(const struct about *a, const char *name)
{
    size_t len = strlen(a->name);
    return a->name[len - 1] == '-' ? strncmp(a->name, name, len) == 0 : strcmp(a->name, name) == 0;
}

/* NULL: nothing is said about it. */
static const struct about *about_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(abouts); i++) {
        if (is_about(&abouts[i], name))
            return &abouts[i];
    }
    return NULL;
}

/* The one %s of a title is the end of the name. */
static void title_of(const char *name, char *ret, size_t size)
{
    const struct about *a = about_find(name);
    const char *title = a ? a->title : name, *rest = strstr(title, "%s");

    if (rest)
        snprintf(ret, size, "%.*s%s%s", (int)(rest - title), title, name + strlen(a->name), rest + 2);
    else
        snprintf(ret, size, "%s", title);
}

static const char *text_of(const char *name)
{
    const struct about *a = about_find(name);
    return a ? a->text : "";
}

static void path_of(char *ret, size_t size, const char *name)
{
    snprintf(ret, size, "%s/%.63s.svg", folder, name);
}

static void must_be_written(int r, const char *path)
{
    if (r < 0)
        die("cannot write %s: %s", path, strerror(-r));
}

/* ---- plots ---------------------------------------------------------------------------------------------------------- */

void report_mark(const char *group, const char *row, double at)
{
    if (marks_count == MARKS_MAX)
        die("too many marks");
    struct mark *m = &marks[marks_count++];
    snprintf(m->group, sizeof m->group, "%s", group);
    snprintf(m->row, sizeof m->row, "%s", row);
    m->at = at;
}

static struct plot *plot_find(const char *name)
{
    for (size_t i = 0; i < plots_count; i++) {
        if (strcmp(plots[i].name, name) == 0)
            return &plots[i];
    }
    if (plots_count == PLOTS_MAX)
        die("too many plots");
    struct plot *p = &plots[plots_count++];
    snprintf(p->name, sizeof p->name, "%s", name);
    return p;
}

static struct series *series_find(struct plot *p, const char *name, enum row_kind kind)
{
    for (size_t i = 0; i < p->count; i++) {
        if (strcmp(p->series[i].name, name) == 0)
            return &p->series[i];
    }
    if (p->count == SERIES_MAX)
        die("too many lines in a plot");
    struct series *s = &p->series[p->count++];
    snprintf(s->name, sizeof s->name, "%s", name);
    s->kind = kind;
    return s;
}

void report_point(const char *plot, const char *name, enum row_kind kind, double x, struct measure y)
{
    struct series *s = series_find(plot_find(plot), name, kind);

    if (s->count == POINTS_MAX)
        die("too many points in a line");
    s->x[s->count] = x;
    s->y[s->count++] = y;
}

static void plot_lines(const struct plot *p)
{
    const struct about *a = about_find(p->name);
    char path[512], title[128];

    path_of(path, sizeof path, p->name);
    title_of(p->name, title, sizeof title);
    must_be_written(
        svg_lines(path, title, text_of(p->name), a && a->x_label ? a->x_label : "", p->series, p->count),
        path);
}

static void add_marks(struct bar *b, const struct figure *f)
{
    for (size_t i = 0; i < marks_count && b->goals_count < BAR_GOALS_MAX; i++) {
        if (strcmp(marks[i].group, f->group) == 0 && strcmp(marks[i].row, f->name) == 0)
            b->goals[b->goals_count++] = marks[i].at;
    }
}

/* "ns_per_row" is for programs. */
static const char *unit_in_words(const char *unit, char *ret, size_t size)
{
    snprintf(ret, size, "%s", unit);
    for (char *at = ret; *at; at++)
        *at = *at == '_' ? ' ' : *at;
    return ret;
}

/* Figures of a group have units of their own; the plot shows those of its first. */
static void plot_group(const char *group, const char *unit)
{
    static struct bar bars[FIGURES_MAX];
    char path[512], title[128], words[32];
    size_t n = 0;

    for (size_t i = 0; i < figures_count; i++) {
        const struct figure *f = &figures[i];
        if (strcmp(f->group, group) != 0 || strcmp(f->unit, unit) != 0)
            continue;
        bars[n] = (struct bar){ .name = f->name,
                                .value = f->m.median,
                                .from = f->m.median - f->m.spread,
                                .to = f->m.median + f->m.spread,
                                .paint = (int)f->kind };
        add_marks(&bars[n++], f);
    }
    path_of(path, sizeof path, group);
    title_of(group, title, sizeof title);
    must_be_written(
        svg_bars(path, title, text_of(group), unit_in_words(unit, words, sizeof words), bars, n, 0), path);
}

static int paint_of(enum verdict v)
{
    return v == PASS ? PAINT_PASS : v == FLOOR ? PAINT_FLOOR : PAINT_FAIL;
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
        const char *dot = strchr(j->goal.name, '.');
        bars[n++] = (struct bar){ .name = dot ? dot + 1 : j->goal.name,
                                  .value = value,
                                  .from = value - spread,
                                  .to = value + spread,
                                  .paint = paint_of(j->verdict) };
    }
    path_of(path, sizeof path, "goals");
    must_be_written(svg_bars(path, "How far each goal is reached",
                             "Figure by target, turned so that more is better; at the red line it is reached",
                             "times the target", bars, n, 1),
                    path);
}

/* ---- the page --------------------------------------------------------------------------------------------------------- */

static size_t count_goals(enum verdict v)
{
    size_t n = 0;
    for (size_t i = 0; i < goals_count; i++)
        n += goals[i].verdict == v;
    return n;
}

static void write_summary(FILE *f)
{
    fprintf(f,
            "**%zu of %zu goals are reached, %zu to their floor, %zu are not; %d of those by more than the "
            "spread.**\n\n",
            count_goals(PASS), goals_count, count_goals(FLOOR), count_goals(FAIL), goals_failed());
    for (size_t i = 0; i < notes_count; i++)
        fprintf(f, "* %s\n", notes[i]);
    fprintf(f, "\nWhat the rows mean: docs/PERFORMANCE.md.  A ratio is taken inside each repetition; the "
               "figure is the "
               "median, the spread half the distance between the quartiles.\n");
}

static void write_goal(FILE *f, const struct judged *j)
{
    static const char *const words[] = { [PASS] = "✓ pass", [FLOOR] = "~ floor", [FAIL] = "✗ **fail**" };

    fprintf(f, "| %s | %s %g | ", j->goal.name, j->goal.sense == AT_LEAST ? "≥" : "≤", j->goal.target);
    if (j->goal.floor != j->goal.target)
        fprintf(f, "%g", j->goal.floor);
    fprintf(f, " | %.4g ± %.2g | %s%s |\n", j->m.median, j->m.spread, words[j->verdict],
            j->verdict == FAIL && !goal_counts_as_failed(&j->goal, j->m) ? " (within the spread)" : "");
}

static void write_goals(FILE *f)
{
    fprintf(
        f,
        "\n## Goals\n\n![goals](goals.svg)\n\n| goal | target | floor | figure | |\n|---|--:|--:|--:|---|\n");
    for (size_t i = 0; i < goals_count; i++)
        write_goal(f, &goals[i]);
}

static void write_heading(FILE *f, const char *name)
{
    char title[128];

    title_of(name, title, sizeof title);
    fprintf(f, "\n## %s\n\n![%s](%s.svg)\n", title, title, name);
}

static void write_group(FILE *f, const char *group)
{
    write_heading(f, group);
    fprintf(f,
            "\n<details><summary>figures</summary>\n\n| row | median | spread | unit |\n|---|--:|--:|---|\n");
    for (size_t i = 0; i < figures_count; i++) {
        const struct figure *x = &figures[i];
        if (strcmp(x->group, group) == 0)
            fprintf(f, "| %s | %.6g | %.2g | %s |\n", x->name, x->m.median, x->m.spread, x->unit);
    }
    fprintf(f, "\n</details>\n");
}

static bool begins_group(size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (strcmp(figures[k].group, figures[i].group) == 0)
            return false;
    }
    return true;
}

static void write_groups(FILE *f)
{
    for (size_t i = 0; i < plots_count; i++) {
        write_heading(f, plots[i].name);
        plot_lines(&plots[i]);
    }
    for (size_t i = 0; i < figures_count; i++) {
        if (!begins_group(i))
            continue;
        write_group(f, figures[i].group);
        plot_group(figures[i].group, figures[i].unit);
    }
}

void report_end(void)
{
    char path[512];

    snprintf(path, sizeof path, "%s/report.md", folder);
    FILE *f = fopen(path, "we");
    if (!f)
        die("cannot write %s: %s", path, strerror(errno));
    fprintf(f, "# What `make bench` measured\n\n");
    write_summary(f);
    write_goals(f);
    plot_goals();
    write_groups(f);
    must_be_written(fclose(f) == 0 ? 0 : -errno, path);
    printf("# %zu of %zu goals pass, %zu reach the floor, %zu fail, %d of them by more than the spread\n",
           count_goals(PASS), goals_count, count_goals(FLOOR), count_goals(FAIL), goals_failed());
    printf("# report: %s\n", path);
}
