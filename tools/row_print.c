#include "row_print.h"

#include "base64.h"
#include "plain.h"

#include <stdbool.h>
#include <string.h>

/* Long values are read in pieces: a multiple of 3, for base64. */
#define PIECE 49152u

int row_format_parse(const char *text, enum row_format *ret)
{
    static const char *const names[] = { "lines", "tsv", "jsonl" };

    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *ret = (enum row_format)i;
            return 0;
        }
    return -1;
}

/* ---- JSON ---- */

/* UTF-8 without NUL, as utf8_char() knows it. */
static bool is_text(const char *data, size_t len)
{
    for (size_t i = 0; i < len;) {
        char c[5] = { 0 };
        uint32_t code;
        memcpy(c, data + i, len - i < 4 ? len - i : 4);
        size_t n = c[0] ? utf8_char(c, &code) : 1;
        if (n == 0)
            return false;
        i += n;
    }
    return true;
}

static void print_string(FILE *file, const char *data, size_t len)
{
    size_t begin = 0;

    putc('"', file);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
            continue;
        fwrite(data + begin, 1, i - begin, file);
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else
            fprintf(file, "\\u%04x", c);
        begin = i + 1;
    }
    fwrite(data + begin, 1, len - begin, file);
    putc('"', file);
}

void json_bytes(FILE *file, const char *name, const void *data, size_t len)
{
    bool text = is_text(data, len);

    fprintf(file, "\"%s%s\":", name, text ? "" : "_base64");
    if (text) {
        print_string(file, data, len);
    } else {
        putc('"', file);
        base64_print(file, data, len);
        putc('"', file);
    }
}

/* ---- values that are read in pieces ---- */

struct sink {
    FILE *file; /* NULL: only look */
    bool base64;
    char unwanted; /* a byte that the format can't carry; '\0': all can be */
    bool found;
};

static int each_piece(skade_cursor *cursor, const struct skade_row *row, struct sink *sink)
{
    static _Thread_local char piece[PIECE];

    for (uint64_t off = 0; off < row->value_len;) {
        size_t len = row->value_len - off < PIECE ? (size_t)(row->value_len - off) : PIECE;
        int r = skade_cursor_read(cursor, off, piece, len);
        if (r < 0)
            return r;
        sink->found |= sink->unwanted && memchr(piece, sink->unwanted, len);
        if (sink->file && sink->base64)
            base64_print(sink->file, piece, len);
        else if (sink->file)
            fwrite(piece, 1, len, sink->file);
        off += len;
    }
    return 0;
}

static bool is_long(const struct skade_row *row)
{
    return !row->value && row->value_len;
}

/* Has the value a newline? 1, 0, or negative. */
static int has_newline(skade_cursor *cursor, const struct skade_row *row)
{
    struct sink look = { .unwanted = '\n' };

    if (!is_long(row))
        return row->value_len && memchr(row->value, '\n', (size_t)row->value_len);
    int r = each_piece(cursor, row, &look);
    return r < 0 ? r : look.found;
}

static int print_value(FILE *file, skade_cursor *cursor, const struct skade_row *row)
{
    struct sink out = { .file = file };

    if (is_long(row))
        return each_piece(cursor, row, &out);
    if (row->value_len)
        fwrite(row->value, 1, (size_t)row->value_len, file);
    return 0;
}

/* ---- rows ---- */

static int print_text(FILE *file, skade_cursor *cursor, const struct skade_row *row)
{
    if (row->has_key) {
        fwrite(row->key, 1, (size_t)row->key_len, file);
        putc('\t', file);
    }
    int r = print_value(file, cursor, row);
    putc('\n', file);
    return r;
}

static int print_json(FILE *file, skade_cursor *cursor, const struct skade_row *row)
{
    struct sink out = { .file = file, .base64 = true };
    int r = 0;

    putc('{', file);
    if (row->has_key) {
        json_bytes(file, "key", row->key, (size_t)row->key_len);
        putc(',', file);
    }
    if (is_long(row)) {
        fputs("\"value_base64\":\"", file);
        r = each_piece(cursor, row, &out);
        putc('"', file);
    } else {
        json_bytes(file, "value", row->value_len ? row->value : "", (size_t)row->value_len);
    }
    fputs("}\n", file);
    return r;
}

/* Why FORMAT can't carry the row; NULL when it can, unless *ERROR. */
static const char *misfit(enum row_format format, skade_cursor *cursor, const struct skade_row *row,
                          int *error)
{
    *error = 0;
    if (format == ROWS_JSON)
        return NULL;
    if (format == ROWS_LINES && row->has_key)
        return "it has a key, and lines has no place for one";
    if (format == ROWS_TSV && !row->has_key)
        return "it has no key, and tsv needs one";
    if (format == ROWS_TSV && row->key_len &&
        (memchr(row->key, '\t', (size_t)row->key_len) || memchr(row->key, '\n', (size_t)row->key_len)))
        return "its key has a TAB or newline";
    int r = has_newline(cursor, row);
    *error = r < 0 ? r : 0;
    return r == 1 ? "its value has a newline" : NULL;
}

int row_print(FILE *file, enum row_format format, skade_cursor *cursor, const struct skade_row *row,
              const char **why)
{
    int r;

    *why = misfit(format, cursor, row, &r);
    if (*why || r < 0)
        return *why ? SKADE_EINPUT : r;
    return format == ROWS_JSON ? print_json(file, cursor, row) : print_text(file, cursor, row);
}
