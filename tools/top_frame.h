/*
 * One picture of `skadectl top`: from two samples to lines of text that fit a screen.  A pure function, so that tests can
 * ask what it shows.
 *
 * Every line is at most as wide as the screen, also with names of wide, combining or hostile characters: what would move a
 * cursor, change the direction of text or isn't UTF-8 is shown as \xNN, and what doesn't fit ends in an ellipsis.
 */
#ifndef SKADE_TOP_FRAME_H
#define SKADE_TOP_FRAME_H

#include "top_sample.h"

#define TOP_WIDTH_MAX 400
#define TOP_HEIGHT_MAX 200

enum top_look { TOP_PLAIN, TOP_TITLE, TOP_HEADING, TOP_ALARM, TOP_FAINT };

struct top_line {
    enum top_look look;
    char text[TOP_WIDTH_MAX * 4 + 1];
};

struct top_frame {
    size_t count;
    struct top_line lines[TOP_HEIGHT_MAX];
};

struct top_view {
    const char *instance;
    const struct top_sample *now, *before; /* before: NULL, there is none, and so are no rates */
    size_t width, height;                  /* of the screen; larger ones are used in part */
    bool utf8;                             /* the terminal shows more than ASCII */
    bool keys;                             /* there is somebody to press them */
    enum top_table_order tables;
    enum top_client_order clients;
};

/* At most V->height lines. */
void top_draw(const struct top_view *v, struct top_frame *ret);

/* Columns that a character takes: 0 (combining), 1 or 2. */
int top_columns(uint32_t code);

#endif
