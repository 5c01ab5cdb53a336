#include "committer.h"

#include <stdlib.h>

struct text {
    struct text *next;
    size_t used, cap;
    char data[];
};

struct change *change_new(enum change_kind kind)
{
    struct change *c = calloc(1, sizeof *c);
    if (c)
        c->kind = kind;
    return c;
}

void change_free(struct change *c)
{
    if (!c)
        return;
    while (c->texts) {
        struct text *t = c->texts;
        c->texts = t->next;
        free(t);
    }
    free(c->rows);
    free(c);
}

struct bytes change_text(struct change *c, struct bytes s)
{
    struct text *t = c->texts;

    if (!t || t->cap - t->used < s.len) {
        size_t cap = s.len > 16384 ? s.len : (t ? 16384 : 512);
        if (cap < s.len)
            cap = s.len;
        t = malloc(sizeof *t + cap);
        if (!t)
            return (struct bytes){ NULL, 0 };
        t->next = c->texts;
        t->used = 0;
        t->cap = cap;
        c->texts = t;
        c->texts_bytes += cap;
    }
    char *copy = t->data + t->used;
    if (s.len)
        memcpy(copy, s.data, s.len);
    t->used += s.len;
    return (struct bytes){ copy, s.len };
}

struct change_row *change_row(struct change *c)
{
    if (c->rows_count == c->rows_cap) {
        size_t cap = c->rows_cap ? c->rows_cap * 2 : 1;
        struct change_row *more = realloc(c->rows, cap * sizeof *more);
        if (!more)
            return NULL;
        c->rows = more;
        c->rows_cap = cap;
    }
    struct change_row *row = &c->rows[c->rows_count++];
    memset(row, 0, sizeof *row);
    return row;
}
