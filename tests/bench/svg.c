/*
 * Plots without a library: horizontal bars on a logarithmic axis.
 */
#include "bench.h"

#include <errno.h>
#include <math.h>

#define LEFT 230 /* for names */
#define WIDTH 560
#define RIGHT 90 /* for values */
#define TOP 50
#define STEP 20
#define BOTTOM 30

static const char *const colours[] = {
    [ROW_OURS] = "#2a6fb0", [ROW_PEER] = "#b0892a", [ROW_LIMIT] = "#8a8a8a"
};

/* Decades: 10^low to 10^high. */
struct axis {
    int low, high;
};

static struct axis axis_of(const struct bar *bars, size_t n, double mark)
{
    double least = mark > 0 ? mark : INFINITY, most = mark > 0 ? mark : 0;

    for (size_t i = 0; i < n; i++) {
        least = fmin(least, bars[i].value);
        most = fmax(most, bars[i].value);
    }
    if (!(least > 0) || least > most)
        return (struct axis){ 0, 1 };
    struct axis a = { (int)floor(log10(least) - 0.05), (int)ceil(log10(most)) };
    return a.high > a.low ? a : (struct axis){ a.low, a.low + 1 };
}

static double place(const struct axis *a, double value)
{
    double at = value > 0 ? (log10(value) - a->low) / (a->high - a->low) : 0;
    return LEFT + WIDTH * fmin(fmax(at, 0), 1);
}

static void draw_axis(FILE *f, const struct axis *a, size_t n, const char *unit)
{
    double bottom = TOP + (double)n * STEP;

    for (int decade = a->low; decade <= a->high; decade++) {
        double x = place(a, pow(10, decade));
        fprintf(f, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", x, TOP - 4, x,
                bottom);
        fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g %s</text>\n", x, bottom + 16,
                pow(10, decade), unit);
    }
}

static void draw_bar(FILE *f, const struct axis *a, const struct bar *b, size_t row)
{
    double y = TOP + (double)row * STEP, x = place(a, b->value);

    fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 6, y + 13, b->name);
    fprintf(f, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"14\" fill=\"%s\"/>\n", LEFT, y + 2,
            x - LEFT, colours[b->kind]);
    fprintf(f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#000\"/>\n", place(a, b->from),
            y + 9, place(a, b->to), y + 9);
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\">%.*f</text>\n", fmax(x, place(a, b->to)) + 5, y + 13,
            b->value < 10    ? 2
            : b->value < 100 ? 1
                             : 0,
            b->value);
}

int svg_bars(const char *path, const char *title, const char *unit, const struct bar *bars, size_t n,
             double mark)
{
    struct axis a = axis_of(bars, n, mark);
    int height = TOP + (int)n * STEP + BOTTOM;

    FILE *f = fopen(path, "we");
    if (!f)
        return -errno;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
            "<text x=\"%d\" y=\"24\" font-size=\"15\">%s</text>\n",
            LEFT + WIDTH + RIGHT, height, LEFT, title);
    draw_axis(f, &a, n, unit);
    for (size_t i = 0; i < n; i++)
        draw_bar(f, &a, &bars[i], i);
    if (mark > 0)
        fprintf(f, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#c00\"/>\n", place(&a, mark),
                TOP - 4, place(&a, mark), height - BOTTOM);
    fprintf(f, "</svg>\n");
    return fclose(f) == 0 ? 0 : -errno;
}
