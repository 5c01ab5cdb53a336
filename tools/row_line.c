#include "row_line.h"

#include "base64.h"
#include "json_line.h"
#include "plain.h"

#include <errno.h>
#include <skade.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum field { FIELD_NONE, FIELD_KEY, FIELD_KEY_BASE64, FIELD_VALUE, FIELD_VALUE_BASE64, FIELD_DELETE, FIELDS };

static const char *const names[FIELDS] = {
    [FIELD_KEY] = "key",       [FIELD_KEY_BASE64] = "key_base64",
    [FIELD_VALUE] = "value",   [FIELD_VALUE_BASE64] = "value_base64",
    [FIELD_DELETE] = "delete",
};

struct parse {
    struct row_line *line;
    int depth;
    enum field field; /* whose value comes next */
    unsigned given;   /* bit by field */
    bool no_memory;
    char *problem;
    size_t problem_size;
};

static int problem(struct parse *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns 0, which is how a callback stops yajl. */
static int problem(struct parse *p, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vsnprintf(p->problem, p->problem_size, format, ap);
    va_end(ap);
    return 0;
}

static int copy(struct parse *p, const unsigned char *text, size_t len, bool base64, char **ret,
                size_t *ret_len)
{
    *ret = malloc(len + 1);
    if (!*ret) {
        p->no_memory = true;
        return 0;
    }
    memcpy(*ret, text, len);
    *ret_len = len;
    if (!base64)
        return 1;
    long n = base64_decode(*ret, *ret, len);
    if (n < 0)
        return problem(p, "%s is not base64", names[p->field]);
    *ret_len = (size_t)n;
    return 1;
}

static int on_string(void *arg, const unsigned char *text, size_t len)
{
    struct parse *p = arg;
    struct row_line *l = p->line;

    switch (p->depth ? p->field : FIELD_NONE) {
    case FIELD_KEY:
    case FIELD_KEY_BASE64:
        if (l->has_key)
            return problem(p, "key is given twice");
        l->has_key = true;
        return copy(p, text, len, p->field == FIELD_KEY_BASE64, &l->key, &l->key_len);
    case FIELD_VALUE:
    case FIELD_VALUE_BASE64:
        if (l->has_value)
            return problem(p, "value is given twice");
        l->has_value = true;
        return copy(p, text, len, p->field == FIELD_VALUE_BASE64, &l->value, &l->value_len);
    case FIELD_DELETE:
        return problem(p, "delete is neither true nor false");
    default:
        return problem(p, "not a JSON object");
    }
}

static int on_boolean(void *arg, int truth)
{
    struct parse *p = arg;

    if (p->depth == 0)
        return problem(p, "not a JSON object");
    if (p->field != FIELD_DELETE)
        return problem(p, "%s is not a string", names[p->field]);
    p->line->is_delete = truth != 0;
    return 1;
}

static int on_other(struct parse *p)
{
    return p->depth == 0 ? problem(p, "not a JSON object")
                         : problem(p, "%s is not a string", names[p->field]);
}

static int on_null(void *arg)
{
    return on_other(arg);
}

static int on_number(void *arg, const char *text, size_t len)
{
    (void)text, (void)len;
    return on_other(arg);
}

static int on_array(void *arg)
{
    return on_other(arg);
}

static int on_object(void *arg)
{
    struct parse *p = arg;
    return p->depth++ ? on_other(p) : 1;
}

static int on_key(void *arg, const unsigned char *key, size_t len)
{
    struct parse *p = arg;
    char name[64], shown[64];

    for (p->field = FIELD_KEY; p->field < FIELDS; p->field++)
        if (strlen(names[p->field]) == len && memcmp(names[p->field], key, len) == 0)
            break;
    if (p->field == FIELDS) {
        snprintf(name, sizeof name, "%.*s", (int)(len < 60 ? len : 60), (const char *)key);
        return problem(p, "unknown field %s", plain(name, shown, sizeof shown));
    }
    if (p->given & 1u << p->field)
        return problem(p, "%s is given twice", names[p->field]);
    p->given |= 1u << p->field;
    return 1;
}

static int on_end(void *arg)
{
    (void)arg;
    return 1;
}

static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_boolean,
    .yajl_number = on_number,
    .yajl_string = on_string,
    .yajl_start_map = on_object,
    .yajl_map_key = on_key,
    .yajl_end_map = on_end,
    .yajl_start_array = on_array,
    .yajl_end_array = on_end,
};

/* What no field can say alone. */
static int check_whole(struct parse *p)
{
    const struct row_line *l = p->line;

    if (l->is_delete && !l->has_key)
        return problem(p, "delete needs a key"), SKADE_EINPUT;
    if (l->is_delete && l->has_value)
        return problem(p, "a deletion has no value"), SKADE_EINPUT;
    if (!l->is_delete && !l->has_value)
        return problem(p, "value is missing"), SKADE_EINPUT;
    return 0;
}

int row_line_parse(const char *line, size_t len, struct row_line *ret, char *problem_text,
                   size_t problem_size)
{
    struct parse p = { .line = ret, .problem = problem_text, .problem_size = problem_size };
    const char *wrong;

    *problem_text = 0;
    *ret = (struct row_line){ 0 };
    int r = json_line(line, len, SIZE_MAX, &callbacks, &p, &wrong); /* whoever reads lines bounds them */
    if (p.no_memory || r == -ENOMEM)
        return -ENOMEM;
    if (r < 0 && !*problem_text)
        problem(&p, "%s", wrong ? wrong : "not a JSON object");
    return *problem_text ? SKADE_EINPUT : check_whole(&p);
}

void row_line_fini(struct row_line *l)
{
    free(l->key);
    free(l->value);
    *l = (struct row_line){ 0 };
}
