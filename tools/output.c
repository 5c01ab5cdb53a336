#include "output.h"

#include "plain.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <skade.h>
#include <string.h>

/* ---- columns ---- */

/* `a b +c` without what text doesn't show. */
static void print_header(struct out *o)
{
    bool first = true;

    o->header = false;
    for (const char *p = o->columns; *p;) {
        size_t len = strcspn(p, " ");
        if (*p != '+') {
            fprintf(o->file, "%s%.*s", first ? "" : "\t", (int)len, p);
            first = false;
        }
        p += len + strspn(p + len, " ");
    }
    fputc('\n', o->file);
}

/* Move to the next column and print what stands before its value.  False when this kind of output doesn't show it. */
static bool column(struct out *o)
{
    const char *name = o->next;
    size_t len = strcspn(name, " ");
    bool first = name == o->columns;

    assert(*name);
    o->next = name + len + strspn(name + len, " ");
    if (first && o->header)
        print_header(o);
    if (o->json) {
        bool plus = *name == '+';
        fprintf(o->file, "%c\"%.*s\":", first ? '{' : ',', (int)len - plus, name + plus);
        return true;
    }
    if (*name == '+')
        return false;
    if (!first)
        fputc('\t', o->file);
    return true;
}

void out_begin(struct out *o, FILE *file, const char *columns, bool json, bool terminal)
{
    *o = (struct out){ .file = file, .columns = columns, .next = columns, .json = json };
    o->header = terminal && !json;
    errno = 0;
}

/* stdio keeps only that something failed; the reason is in errno if we look right away. */
static int out_problem(struct out *o)
{
    if (ferror(o->file) && !o->error)
        o->error = errno ? -errno : -EIO;
    return o->error;
}

int out_row(struct out *o)
{
    assert(!*o->next);
    fputs(o->json ? "}\n" : "\n", o->file);
    o->next = o->columns;
    o->rows++;
    return out_problem(o);
}

int out_flush(struct out *o)
{
    fflush(o->file);
    return out_problem(o);
}

/* ---- values ---- */

static bool is_harmless(const struct out *o, unsigned char c)
{
    return c >= 0x20 && c < 0x7f && !(o->json && (c == '"' || c == '\\'));
}

/* One character that can't be copied as it is; *P moves behind it. */
static void print_special(struct out *o, const char **p)
{
    uint32_t code = 0;
    size_t len = utf8_char(*p, &code);
    unsigned char byte = (unsigned char)**p;

    if (len > 1 && !is_control(code)) {
        fwrite(*p, 1, len, o->file);
    } else if (o->json) {
        if (len == 0)
            fputs("\\ufffd", o->file);
        else if (byte == '"' || byte == '\\')
            fprintf(o->file, "\\%c", byte);
        else
            fprintf(o->file, "\\u%04x", (unsigned)code);
    } else {
        fprintf(o->file, "\\x%02x", byte);
        len = 1; /* byte by byte, so that a two-byte control character shows both */
    }
    *p += len ? len : 1;
}

static void print_text(struct out *o, const char *text)
{
    if (o->json)
        fputc('"', o->file);
    for (const char *p = text; *p;) {
        size_t run = 0;
        while (is_harmless(o, (unsigned char)p[run]))
            run++;
        fwrite(p, 1, run, o->file);
        p += run;
        if (*p)
            print_special(o, &p);
    }
    if (o->json)
        fputc('"', o->file);
}

void out_text(struct out *o, const char *text)
{
    if (!text || !*text)
        out_absent(o);
    else if (column(o))
        print_text(o, text);
}

void out_absent(struct out *o)
{
    if (column(o))
        fputs(o->json ? "null" : "-", o->file);
}

void out_id(struct out *o, int64_t id)
{
    if (column(o))
        fprintf(o->file, o->json ? "\"%" PRId64 "\"" : "%" PRId64, id);
}

void out_seq(struct out *o, uint64_t seq)
{
    if (seq == 0)
        out_absent(o);
    else if (column(o))
        fprintf(o->file, o->json ? "\"%" PRIu64 "\"" : "%" PRIu64, seq);
}

void out_time(struct out *o, int64_t time_us)
{
    char text[32];

    if (o->json)
        out_id(o, time_us);
    else if (column(o))
        fputs(skade_time_format(time_us, text), o->file);
}

void out_count(struct out *o, uint64_t count)
{
    if (column(o))
        fprintf(o->file, "%" PRIu64, count);
}

void out_number(struct out *o, double number, int decimals)
{
    if (column(o))
        fprintf(o->file, "%.*f", decimals, number);
}

void out_flag(struct out *o, bool flag)
{
    static const char *const words[2][2] = { { "no", "yes" }, { "false", "true" } };

    if (column(o))
        fputs(words[o->json][flag], o->file);
}
