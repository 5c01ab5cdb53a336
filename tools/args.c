#include "args.h"

#include "plain.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- options ---- */

static int problem(struct args *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int problem(struct args *a, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vsnprintf(a->problem, sizeof a->problem, format, ap);
    va_end(ap);
    return -EINVAL;
}

static int table_size(const struct option_spec *table)
{
    int n = 0;

    while (table && table[n].name)
        n++;
    return n;
}

/* The place of the option whose name is the LEN bytes at NAME, or -1; *SPEC is its row. */
static int find_option(const struct args *a, const char *name, size_t len, const struct option_spec **spec)
{
    const struct option_spec *tables[2] = { a->common, a->special };
    int place = 0;

    for (int t = 0; t < 2; t++)
        for (const struct option_spec *o = tables[t]; o && o->name; o++, place++)
            if (strlen(o->name) == len && memcmp(o->name, name, len) == 0) {
                *spec = o;
                return place;
            }
    return -1;
}

static bool looks_like_option(const char *arg)
{
    return arg[0] == '-' && arg[1] && !args_is_number(arg);
}

/* The value that belongs to SPEC, from behind the `=` or from the next argument, which *TAKEN then counts. */
static int option_value(struct args *a, const struct option_spec *spec, const char *inline_value,
                        const char *next, const char **ret, int *taken)
{
    bool optional = spec->value && spec->value[0] == '[';

    *ret = inline_value ? inline_value : "";
    if (!spec->value)
        return inline_value ? problem(a, "--%s takes no value", spec->name) : 0;
    if (inline_value)
        return 0;
    if (optional) {
        int ms;
        if (!next || parse_seconds(next, &ms) == -EINVAL)
            return 0;
    } else if (!next) {
        return problem(a, "--%s needs a value: --%s %s", spec->name, spec->name, spec->value);
    }
    *ret = next;
    *taken = 1;
    return 0;
}

/* ARG begins with a dash and isn't a number.  The number of arguments it used, or -EINVAL. */
static int parse_option(struct args *a, const char *arg, const char *next)
{
    char shown[128];
    const struct option_spec *spec = NULL;
    const char *name = arg + 2;
    const char *equals = strchr(arg, '=');
    size_t len = equals > name ? (size_t)(equals - name) : strlen(arg) - 2;
    int place = arg[1] == '-' ? find_option(a, name, len, &spec) : -1;
    int taken = 0;

    if (place < 0)
        return problem(a, "unknown option %s", plain(arg, shown, sizeof shown));
    if (a->values[place])
        return problem(a, "--%s is given twice", spec->name);
    int r = option_value(a, spec, equals ? equals + 1 : NULL, next, &a->values[place], &taken);
    return r < 0 ? r : 1 + taken;
}

int args_parse(struct args *a, int argc, char **argv, bool stop_at_operand)
{
    int i = 0;

    assert(table_size(a->common) + table_size(a->special) <= ARGS_OPTIONS);
    a->operands = argv;
    a->count = 0;
    while (i < argc) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (!looks_like_option(argv[i])) {
            if (stop_at_operand)
                break;
            argv[a->count++] = argv[i++];
            continue;
        }
        int used = parse_option(a, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
        if (used < 0)
            return used;
        i += used;
    }
    while (i < argc)
        argv[a->count++] = argv[i++];
    return 0;
}

const char *args_value(const struct args *a, const char *name)
{
    const struct option_spec *spec;
    int place = find_option(a, name, strlen(name), &spec);

    assert(place >= 0);
    return a->values[place];
}

bool args_flag(const struct args *a, const char *name)
{
    return args_value(a, name) != NULL;
}

void args_arity(const char *synopsis, int *min, int *max)
{
    int depth = 0;

    *min = *max = 0;
    for (const char *p = synopsis; *p;) {
        size_t len = strcspn(p, " ");
        depth += *p == '[';
        *min += depth == 0;
        if (len > 3 && memmem(p, len, "...", 3))
            *max = INT_MAX;
        else if (*max < INT_MAX)
            *max += 1;
        depth -= p[len - 1] == ']';
        p += len + strspn(p + len, " ");
    }
}

/* ---- numbers ---- */

bool args_is_number(const char *text)
{
    const char *digits = text + (text[0] == '-');

    return *digits && strspn(digits, "0123456789") == strlen(digits);
}

/* Digits only, at most LIMIT. */
static int parse_magnitude(const char *digits, uint64_t limit, uint64_t *ret)
{
    uint64_t value = 0;

    for (const char *p = digits; *p; p++) {
        unsigned digit = (unsigned)(*p - '0');
        if (value > (limit - digit) / 10)
            return -ERANGE;
        value = value * 10 + digit;
    }
    *ret = value;
    return 0;
}

int parse_int64(const char *text, int64_t *ret)
{
    bool negative = text[0] == '-';
    uint64_t magnitude;

    if (!args_is_number(text))
        return -EINVAL;
    int r = parse_magnitude(text + negative, (uint64_t)INT64_MAX + negative, &magnitude);
    if (r < 0)
        return r;
    *ret = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return 0;
}

int parse_uint64(const char *text, uint64_t *ret)
{
    if (text[0] == '-')
        return args_is_number(text) ? -ERANGE : -EINVAL;
    return args_is_number(text) ? parse_magnitude(text, UINT64_MAX, ret) : -EINVAL;
}

int parse_seconds(const char *text, int *ret_ms)
{
    const char *point = text + strspn(text, "0123456789");
    const char *fraction = *point == '.' ? point + 1 : point;
    int64_t ms = 0, scale = 100;

    if (point == text || (*point == '.' && !*fraction) || fraction[strspn(fraction, "0123456789")])
        return -EINVAL;
    for (const char *p = text; p < point; p++) {
        ms = ms * 10 + (*p - '0');
        if (ms > INT_MAX / 1000)
            return -ERANGE;
    }
    ms *= 1000;
    for (const char *p = fraction; *p && scale; p++, scale /= 10)
        ms += (*p - '0') * scale;
    if (ms == 0 || ms > INT_MAX)
        return -ERANGE;
    *ret_ms = (int)ms;
    return 0;
}
