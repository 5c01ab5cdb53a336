#include "release_line.h"

#include "args.h"
#include "json_line.h"
#include "plain.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum value_kind { VALUE_NULL, VALUE_BOOL, VALUE_NUMBER, VALUE_STRING };

/* A value as it stands in the line: a number's or string's bytes, or a truth. */
struct value {
    enum value_kind kind;
    const char *text;
    size_t len;
    bool truth;
};

struct parse {
    struct release_line *line;
    int depth;
    int field;      /* whose value comes next: index into fields, or -1 */
    unsigned given; /* bit by index */
    char *problem;  /* "" while all is well */
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

/* ---- values ---- */

/* V as a string of at most MAX bytes, whole, at RET. */
static int take_text(struct parse *p, const char *field, const struct value *v, char *ret, size_t max)
{
    if (v->kind != VALUE_STRING)
        return problem(p, "%s is not a string", field);
    if (v->len > max)
        return problem(p, "%s is longer than %zu bytes", field, max);
    if (memchr(v->text, 0, v->len))
        return problem(p, "%s has a NUL in it", field);
    memcpy(ret, v->text, v->len);
    ret[v->len] = 0;
    return 1;
}

/* V, a number or a string, as text in SIZE bytes at RET. */
static int take_word(struct parse *p, const char *field, const struct value *v, char *ret, size_t size)
{
    if (v->kind != VALUE_STRING && v->kind != VALUE_NUMBER)
        return problem(p, "%s is neither a string nor an integer", field);
    if (v->len >= size || memchr(v->text, 0, v->len))
        return problem(p, "%s is not what it should be: it is too long", field);
    memcpy(ret, v->text, v->len);
    ret[v->len] = 0;
    return 1;
}

static int take_table(struct parse *p, const struct value *v)
{
    const char *why = NULL;

    if (!take_text(p, "table", v, p->line->table, SKADE_NAME_MAX))
        return 0;
    return skade_name_check(p->line->table, &why) == 0 ||
           problem(p, "table is not a table name: %s", why ? why : "");
}

static int take_location(struct parse *p, const struct value *v)
{
    return take_text(p, "location", v, p->line->location, SKADE_LOCATION_MAX) &&
           (p->line->location[0] || problem(p, "location is empty"));
}

static int take_base(struct parse *p, const struct value *v)
{
    p->line->commit.base = v->kind == VALUE_NULL ? SKADE_BASE_NONE : SKADE_BASE_IS;
    return v->kind == VALUE_NULL || take_text(p, "base", v, p->line->base_location, SKADE_LOCATION_MAX);
}

static int take_snapshot(struct parse *p, const struct value *v)
{
    char word[64];

    p->line->commit.flags |= SKADE_WITH_SNAPSHOT;
    if (!take_word(p, "snapshot", v, word, sizeof word))
        return 0;
    int r = parse_int64(word, &p->line->commit.snapshot);
    if (r < 0)
        return problem(p, "snapshot %s",
                       r == -ERANGE ? "is outside the signed 64-bit range" : "is not an integer");
    return 1;
}

static int take_time(struct parse *p, const struct value *v)
{
    char word[64];

    p->line->commit.has_time = 1;
    if (!take_word(p, "time", v, word, sizeof word))
        return 0;
    if (v->kind == VALUE_NUMBER && !args_is_number(word))
        return problem(p, "time is not an integer: it is in microseconds");
    return skade_time_parse(word, &p->line->commit.time_us) == 0 ||
           problem(p, "time is neither RFC 3339 with zone, nor a date, nor microseconds");
}

static int take_uuid(struct parse *p, const struct value *v)
{
    char word[64];

    if (v->kind != VALUE_STRING)
        return problem(p, "uuid is not a string");
    return take_word(p, "uuid", v, word, sizeof word) &&
           (skade_uuid_parse(word, p->line->commit.uuid) == 0 || problem(p, "uuid is not a uuid"));
}

/* The head moves unless this says otherwise; see release_line_parse(). */
static int take_side(struct parse *p, const struct value *v)
{
    if (v->kind != VALUE_BOOL)
        return problem(p, "side is neither true nor false");
    if (v->truth)
        p->line->commit.flags &= ~(unsigned)SKADE_MOVES_HEAD;
    return 1;
}

enum null_means { NULL_IS_A_VALUE, NULL_IS_ABSENT }; /* our own JSON writes null for what is absent */

static const struct {
    const char *name;
    int (*take)(struct parse *p, const struct value *v);
    bool needed;
    enum null_means null;
} fields[] = {
    { "table", take_table, true, NULL_IS_A_VALUE },
    { "location", take_location, true, NULL_IS_A_VALUE },
    { "snapshot", take_snapshot, false, NULL_IS_ABSENT },
    { "base", take_base, false, NULL_IS_A_VALUE },
    { "time", take_time, false, NULL_IS_ABSENT },
    { "uuid", take_uuid, false, NULL_IS_ABSENT },
    { "side", take_side, false, NULL_IS_ABSENT },
};

enum { FIELDS = sizeof fields / sizeof fields[0] };

/* ---- yajl's callbacks: 1 to go on, 0 to stop ---- */

static int on_value(struct parse *p, struct value v)
{
    if (p->depth == 0)
        return problem(p, "not a JSON object");
    if (v.kind == VALUE_NULL && fields[p->field].null == NULL_IS_ABSENT)
        return 1;
    return fields[p->field].take(p, &v);
}

static int on_null(void *arg)
{
    return on_value(arg, (struct value){ .kind = VALUE_NULL });
}

static int on_boolean(void *arg, int truth)
{
    return on_value(arg, (struct value){ .kind = VALUE_BOOL, .truth = truth != 0 });
}

static int on_number(void *arg, const char *text, size_t len)
{
    return on_value(arg, (struct value){ .kind = VALUE_NUMBER, .text = text, .len = len });
}

static int on_string(void *arg, const unsigned char *text, size_t len)
{
    return on_value(arg, (struct value){ .kind = VALUE_STRING, .text = (const char *)text, .len = len });
}

static int on_object(void *arg)
{
    struct parse *p = arg;

    if (p->depth++ > 0)
        return problem(p, "%s is an object", fields[p->field].name);
    return 1;
}

static int on_array(void *arg)
{
    struct parse *p = arg;

    return p->depth == 0 ? problem(p, "not a JSON object")
                         : problem(p, "%s is an array", fields[p->field].name);
}

static int on_key(void *arg, const unsigned char *key, size_t len)
{
    struct parse *p = arg;
    char name[64], shown[64];

    for (p->field = 0; p->field < FIELDS; p->field++)
        if (strlen(fields[p->field].name) == len && memcmp(fields[p->field].name, key, len) == 0)
            break;
    if (p->field == FIELDS) {
        snprintf(name, sizeof name, "%.*s", (int)(len < 60 ? len : 60), (const char *)key);
        return problem(p, "unknown field %s", plain(name, shown, sizeof shown));
    }
    if (p->given & 1u << p->field)
        return problem(p, "%s is given twice", fields[p->field].name);
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

/* ---- the line ---- */

static int parse_json(struct parse *p, const char *line, size_t len)
{
    const char *wrong;
    int r = json_line(line, len, 0, &callbacks, p, &wrong);

    if (r == SKADE_EINPUT && !*p->problem)
        problem(p, "%s", wrong ? wrong : "not a JSON object");
    return *p->problem ? SKADE_EINPUT : r;
}

/* What no field can say alone. */
static int check_whole(struct parse *p)
{
    for (int i = 0; i < FIELDS; i++)
        if (fields[i].needed && !(p->given & 1u << i))
            return problem(p, "%s is missing", fields[i].name), SKADE_EINPUT;
    unsigned flags = p->line->commit.flags;
    if (!(flags & SKADE_MOVES_HEAD) && !(flags & SKADE_WITH_SNAPSHOT))
        return problem(p, "side needs a snapshot"), SKADE_EINPUT;
    return 0;
}

int release_line_parse(const char *line, size_t len, struct release_line *ret, char *problem_text,
                       size_t problem_size)
{
    struct parse p = { .line = ret, .field = -1, .problem = problem_text, .problem_size = problem_size };

    *problem_text = 0;
    ret->commit = (struct skade_commit){ .size = sizeof ret->commit, .flags = SKADE_MOVES_HEAD };
    int r = parse_json(&p, line, len);
    if (r == 0)
        r = check_whole(&p);
    if (r == 0 && ret->commit.flags & SKADE_WITH_SNAPSHOT)
        ret->commit.flags |= SKADE_INTRODUCES;
    return r;
}
