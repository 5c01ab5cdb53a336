/*
 * Plots without a library, readable on light and on dark paper: colours are classes, and the file says what they are on
 * either.
 *
 * Bars start at 0 where the values are of one magnitude.  Where they are not the axis is logarithmic, on which a bar's
 * length would mean nothing: there a dot stands on a thin line.  A whisker is the spread, a red stroke a goal.
 */
#include "bench.h"

#include <errno.h>
#include <math.h>

#define LEFT 190 /* for names */
#define WIDTH 520
#define RIGHT 120 /* for values, and names of lines */
#define TOP 64
#define STEP 22
#define BOTTOM 46
#define LINES_HEIGHT 320
#define LABEL_STEP 15
#define MAGNITUDE 30 /* times that the largest value may be the smallest on an axis that isn't logarithmic */

static const char *const paints[] = {
    [ROW_OURS] = "ours",   [ROW_PEER] = "peer",     [ROW_LIMIT] = "limit",
    [PAINT_PASS] = "pass", [PAINT_FLOOR] = "floor", [PAINT_FAIL] = "fail",
};

static const char style[] =
    "<style>\n"
    "svg{font:12px system-ui,sans-serif}\n"
    "text{fill:#1f2328} .faint{fill:#59636e} .title{font-size:16px;font-weight:600}\n"
    ".value{stroke:#fff;stroke-width:3;paint-order:stroke}\n"
    ".paper{fill:#fff} .grid{stroke:#e4e8ec} .minor{stroke:#f1f3f5} "
    ".whisker{stroke:#1f2328;stroke-opacity:.55}\n"
    ".ours{fill:#2563c9} .peer{fill:#c2740d} .limit{fill:#848d97}\n"
    ".pass{fill:#1a8a4a} .floor{fill:#c2940d} .fail{fill:#cf3040}\n"
    ".line{fill:none;stroke-width:2} .line.ours{stroke:#2563c9} .line.peer{stroke:#c2740d} "
    ".line.limit{stroke:#848d97}\n"
    ".goal{stroke:#cf3040;stroke-width:2} .stem{stroke-width:2;stroke-opacity:.35}\n"
    ".stem.ours{stroke:#2563c9} .stem.peer{stroke:#c2740d} .stem.limit{stroke:#848d97} "
    ".stem.pass{stroke:#1a8a4a} .stem.floor{stroke:#c2940d} .stem.fail{stroke:#cf3040}\n"
    "@media(prefers-color-scheme:dark){\n"
    "text{fill:#e6edf3} .faint{fill:#9198a1} .paper{fill:#0d1117} .grid{stroke:#2a313a} "
    ".minor{stroke:#1a2029}\n"
    ".whisker{stroke:#e6edf3} .value{stroke:#0d1117}\n"
    ".ours{fill:#5a9bff} .peer{fill:#e3a04a} .limit{fill:#8b949e}\n"
    ".pass{fill:#3fb96b} .floor{fill:#dcb030} .fail{fill:#ff6a70}\n"
    ".line.ours{stroke:#5a9bff} .line.peer{stroke:#e3a04a} .line.limit{stroke:#8b949e}\n"
    ".goal{stroke:#ff6a70} .line,.stem.line{fill:none}\n"
    ".stem.ours{stroke:#5a9bff} .stem.peer{stroke:#e3a04a} .stem.limit{stroke:#8b949e} "
    ".stem.pass{stroke:#3fb96b} .stem.floor{stroke:#dcb030} .stem.fail{stroke:#ff6a70}\n"
    "}\n"
    "</style>\n";

/* ---- axes ------------------------------------------------------------------------------------------------------ */

/* From LOW to HIGH, which are logarithms on a logarithmic axis, over the picture's FROM to TO. */
struct axis {
    bool logarithmic;
    double low, high;
    double from, to;
};

struct range {
    double least, most;
};

static struct range range_with(struct range r, double value)
{
    return value > 0 ? (struct range){ fmin(r.least, value), fmax(r.most, value) } : r;
}

/* 1, 2 or 5 times a power of ten: about a fifth of SPAN. */
static double tick_of(double span)
{
    double power = pow(10, floor(log10(span / 5))), times = span / 5 / power;
    return power * (times < 1.5 ? 1 : times < 3.5 ? 2 : times < 7.5 ? 5 : 10);
}

static struct axis axis_of(struct range r, bool logarithmic, double from, double to)
{
    struct axis a = { .logarithmic = logarithmic, .from = from, .to = to, .high = 1 };

    if (!(r.most > 0))
        return (struct axis){ .from = from, .to = to, .high = 1 };
    if (!logarithmic) {
        a.high = r.most * 1.02;
        return a;
    }
    a.low = floor(log10(r.least) * 4 - 0.4) / 4;
    a.high = ceil(log10(r.most) * 4 + 0.2) / 4;
    return a;
}

static double place(const struct axis *a, double value)
{
    double at = a->logarithmic ? (value > 0 ? log10(value) : a->low) : value;
    double share = (at - a->low) / (a->high - a->low);

    return a->from + (a->to - a->from) * fmin(fmax(share, 0), 1);
}

static bool is_on(const struct axis *a, double value)
{
    double at = a->logarithmic ? log10(value) : value;
    return at >= a->low - 1e-9 && at <= a->high + 1e-9;
}

/* "12.5 k": three digits are enough to look at. */
static const char *number(double value, char *ret, size_t size)
{
    static const char *const units[] = { "", " k", " M", " G" };
    size_t unit = 0;

    for (; value >= 999.5 && unit + 1 < ARRAY_SIZE(units); unit++)
        value /= 1000;
    snprintf(ret, size, value >= 100 ? "%.0f%s" : "%.3g%s", value, units[unit]);
    return ret;
}

/* A line across the picture, from A to B on the other axis. */
static void grid_line(FILE *f, bool across, double at, double a, double b, const char *class)
{
    if (across)
        fprintf(f, "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", class, a, b, at,
                at);
    else
        fprintf(f, "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", class, at, at, a,
                b);
}

static void tick(FILE *f, const struct axis *a, bool across, double value, double from, double to)
{
    char text[32];
    double at = place(a, value);

    grid_line(f, across, at, from, to, "grid");
    number(value, text, sizeof text);
    if (across)
        fprintf(f, "<text class=\"faint\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", from - 8,
                at + 4, text);
    else
        fprintf(f, "<text class=\"faint\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", at,
                to + 16, text);
}

/* Decades have numbers; their 2 and 5 too where there are few decades, otherwise a fainter line. */
static void logarithmic_ticks(FILE *f, const struct axis *a, bool across, double from, double to)
{
    bool few = a->high - a->low < 2.3;

    for (int decade = (int)floor(a->low); decade <= (int)ceil(a->high); decade++) {
        static const int steps[] = { 1, 2, 5 };
        for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
            double value = steps[i] * pow(10, decade);
            if (!is_on(a, value))
                continue;
            if (i == 0 || few)
                tick(f, a, across, value, from, to);
            else
                grid_line(f, across, place(a, value), from, to, "minor");
        }
    }
}

/* ACROSS: the lines go across the picture and the axis upwards. */
static void draw_axis(FILE *f, const struct axis *a, bool across, double from, double to)
{
    if (a->logarithmic) {
        logarithmic_ticks(f, a, across, from, to);
        return;
    }
    double step = tick_of(a->high);
    for (double value = 0; value <= a->high; value += step)
        tick(f, a, across, value, from, to);
}

/* ---- the page around a plot ---------------------------------------------------------------------------------------- */

static FILE *page_begin(const char *path, const char *title, const char *subtitle, int height)
{
    FILE *f = fopen(path, "we");

    if (f)
        fprintf(
            f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "role=\"img\">\n<title>%s</title>\n%s<rect class=\"paper\" width=\"100%%\" height=\"100%%\" "
            "rx=\"6\"/>\n<text class=\"title\" x=\"16\" y=\"26\">%s</text>\n<text class=\"faint\" x=\"16\" "
            "y=\"45\">%s</text>\n",
            LEFT + WIDTH + RIGHT, height, LEFT + WIDTH + RIGHT, height, title, style, title, subtitle);
    return f;
}

static int page_end(FILE *f)
{
    fprintf(f, "</svg>\n");
    return fclose(f) == 0 ? 0 : -errno;
}

static void draw_label(FILE *f, double x, double y, const char *text)
{
    fprintf(f, "<text class=\"faint\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x, y, text);
}

/* ---- bars ------------------------------------------------------------------------------------------------------------ */

static void draw_value(FILE *f, const struct axis *a, const struct bar *b, double y)
{
    const char *paint = paints[b->paint];
    double x = place(a, b->value);

    if (!a->logarithmic) {
        fprintf(f, "<rect class=\"%s\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"12\" rx=\"2\"/>\n", paint,
                LEFT, y - 6, fmax(x - LEFT, 1));
        return;
    }
    fprintf(f, "<line class=\"stem %s\" x1=\"%d\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", paint, LEFT, x, y,
            y);
    fprintf(f, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"/>\n", paint, x, y);
}

static void draw_bar(FILE *f, const struct axis *a, const struct bar *b, double y)
{
    char text[32];
    double end = fmax(place(a, b->value) + 4, place(a, b->to));

    fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 10, y + 4, b->name);
    draw_value(f, a, b, y);
    grid_line(f, true, y, place(a, b->from), place(a, b->to), "whisker");
    for (size_t i = 0; i < b->goals_count; i++) {
        grid_line(f, false, place(a, b->goals[i]), y - 9, y + 9, "goal");
        if (fabs(place(a, b->goals[i]) - end) < 40) /* not over the value */
            end = fmax(end, place(a, b->goals[i]));
    }
    fprintf(f, "<text class=\"faint value\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", end + 8, y + 4,
            number(b->value, text, sizeof text));
}

/* Whose bars these are, as far as there are any. */
static void draw_legend(FILE *f, const struct bar *bars, size_t n)
{
    static const struct {
        int paint;
        const char *word;
    } words[] = { { PAINT_FAIL, "missed" },     { PAINT_FLOOR, "floor" }, { PAINT_PASS, "reached" },
                  { ROW_LIMIT, "the machine" }, { ROW_PEER, "others" },   { ROW_OURS, "skade" } };
    double x = LEFT + WIDTH + RIGHT - 16;

    for (size_t w = 0; w < ARRAY_SIZE(words); w++) {
        size_t i = 0;
        while (i < n && bars[i].paint != words[w].paint)
            i++;
        if (i == n)
            continue;
        double width = 7.2 * (double)strlen(words[w].word);
        fprintf(f, "<circle class=\"%s\" cx=\"%.1f\" cy=\"22\" r=\"5\"/>\n", paints[words[w].paint],
                x - width - 9);
        fprintf(f, "<text class=\"faint\" x=\"%.1f\" y=\"26\">%s</text>\n", x - width, words[w].word);
        x -= width + 28;
    }
}

static struct range range_of_bars(const struct bar *bars, size_t n, double mark)
{
    struct range r = range_with((struct range){ INFINITY, 0 }, mark);

    for (size_t i = 0; i < n; i++) {
        r = range_with(r, bars[i].value);
        for (size_t k = 0; k < bars[i].goals_count; k++)
            r = range_with(r, bars[i].goals[k]);
    }
    return r;
}

int svg_bars(const char *path, const char *title, const char *subtitle, const char *unit,
             const struct bar *bars, size_t n, double mark)
{
    struct range r = range_of_bars(bars, n, mark);
    struct axis a = axis_of(r, r.most > MAGNITUDE * r.least || mark > 0, LEFT, LEFT + WIDTH);
    double bottom = TOP + (double)n * STEP;
    FILE *f = page_begin(path, title, subtitle, (int)bottom + BOTTOM);

    if (!f)
        return -errno;
    draw_axis(f, &a, false, TOP - 4, bottom);
    if (mark > 0)
        grid_line(f, false, place(&a, mark), TOP - 4, bottom, "goal");
    for (size_t i = 0; i < n; i++)
        draw_bar(f, &a, &bars[i], TOP + (double)i * STEP + STEP / 2.0);
    draw_legend(f, bars, n);
    draw_label(f, LEFT + WIDTH / 2.0, bottom + 34, unit);
    return page_end(f);
}

/* ---- lines ------------------------------------------------------------------------------------------------------------- */

static void draw_series(FILE *f, const struct axis *x, const struct axis *y, const struct series *s)
{
    const char *paint = paints[s->kind];

    fprintf(f, "<polyline class=\"line %s\" points=\"", paint);
    for (size_t i = 0; i < s->count; i++)
        fprintf(f, "%.1f,%.1f ", place(x, s->x[i]), place(y, s->y[i].median));
    fprintf(f, "\"/>\n");
    for (size_t i = 0; i < s->count; i++) {
        double at = place(x, s->x[i]);
        grid_line(f, false, at, place(y, s->y[i].median + s->y[i].spread),
                  place(y, s->y[i].median - s->y[i].spread), "whisker");
        fprintf(f, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n", paint, at,
                place(y, s->y[i].median));
    }
}

/* Names stand at the lines' ends, moved down where they would stand on each other. */
static void draw_names(FILE *f, const struct axis *x, const struct axis *y, const struct series *s, size_t n)
{
    bool done[SERIES_MAX] = { false };
    double lowest = -INFINITY;

    for (size_t named = 0; named < n; named++) {
        size_t best = n;
        for (size_t i = 0; i < n; i++)
            if (!done[i] && (best == n || place(y, s[i].y[s[i].count - 1].median) <
                                              place(y, s[best].y[s[best].count - 1].median)))
                best = i;
        done[best] = true;
        double at = fmax(place(y, s[best].y[s[best].count - 1].median), lowest + LABEL_STEP);
        fprintf(f, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", paints[s[best].kind], x->to + 10,
                at + 4, s[best].name);
        lowest = at;
    }
}

static void ranges_of_lines(const struct series *s, size_t n, struct range *x, struct range *y)
{
    *x = *y = (struct range){ INFINITY, 0 };
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < s[i].count; k++) {
            *x = range_with(*x, s[i].x[k]);
            *y = range_with(*y, s[i].y[k].median);
        }
    }
}

int svg_lines(const char *path, const char *title, const char *subtitle, const char *x_label,
              const struct series *s, size_t n)
{
    struct range x_range, y_range;
    double bottom = TOP + LINES_HEIGHT;
    FILE *f = page_begin(path, title, subtitle, (int)bottom + BOTTOM);

    if (!f)
        return -errno;
    ranges_of_lines(s, n, &x_range, &y_range);
    struct axis x = axis_of(x_range, x_range.most > 4 * x_range.least, LEFT / 2.0, LEFT + WIDTH);
    struct axis y = axis_of(y_range, y_range.most > MAGNITUDE * y_range.least, bottom, TOP);
    draw_axis(f, &y, true, x.from, x.to);
    draw_axis(f, &x, false, TOP, bottom);
    for (size_t i = 0; i < n; i++)
        draw_series(f, &x, &y, &s[i]);
    draw_names(f, &x, &y, s, n);
    draw_label(f, (x.from + x.to) / 2, bottom + 36, x_label);
    return page_end(f);
}
