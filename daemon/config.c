#include "config.h"

#include "names.h"

#include <errno.h>
#include <grp.h>
#include <ini.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#define FILE_MAX (1u << 20)
/* inih cuts longer lines, and takes what is left for a line of its own. */
#define LINE_MAX_BYTES (INI_MAX_LINE - 2u)

/* ---- the table ---- */

enum when { START, RELOAD };

struct option {
    const char *name;
    int (*parse)(void *field, const char *value, const struct option *o, struct errmsg *msg);
    void (*print)(const void *field, const struct option *o, FILE *out);
    size_t offset;
    size_t size;
    const char *initial;
    const char *alternatives; /* choice */
    int64_t min, max;
    enum when when;
    const char *doc;
};

static int parse_string(void *field, const char *value, const struct option *o, struct errmsg *msg);
static int parse_count(void *field, const char *value, const struct option *o, struct errmsg *msg);
static int parse_duration(void *field, const char *value, const struct option *o, struct errmsg *msg);
static int parse_choice(void *field, const char *value, const struct option *o, struct errmsg *msg);
static int parse_users(void *field, const char *value, const struct option *o, struct errmsg *msg);
static void print_string(const void *field, const struct option *o, FILE *out);
static void print_count(const void *field, const struct option *o, FILE *out);
static void print_duration(const void *field, const struct option *o, FILE *out);
static void print_choice(const void *field, const struct option *o, FILE *out);
static void print_users(const void *field, const struct option *o, FILE *out);

/* In a choice the third column holds the alternatives, elsewhere a number. */
#define ALTERNATIVES_string(min) NULL
#define ALTERNATIVES_count(min) NULL
#define ALTERNATIVES_duration(min) NULL
#define ALTERNATIVES_users(min) NULL
#define ALTERNATIVES_choice(min) min
#define MINIMUM_string(min) min
#define MINIMUM_count(min) min
#define MINIMUM_duration(min) min
#define MINIMUM_users(min) min
#define MINIMUM_choice(min) 0

static const struct option options[] = {
#define OPTION(type, name, def, min, max, when, doc) \
    { #name,                                         \
      parse_##type,                                  \
      print_##type,                                  \
      offsetof(struct config, name),                 \
      sizeof(option_##type),                         \
      def,                                           \
      ALTERNATIVES_##type(min),                      \
      MINIMUM_##type(min),                           \
      max,                                           \
      when,                                          \
      doc },
#include "options.def"
};

static void *field_of(struct config *c, const struct option *o)
{
    return (char *)c + o->offset;
}

static const void *field_in(const struct config *c, const struct option *o)
{
    return (const char *)c + o->offset;
}

static const struct option *find_option(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(options); i++)
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    return NULL;
}

/* ---- types ---- */

static int parse_string(void *field, const char *value, const struct option *o, struct errmsg *msg)
{
    option_string *s = field;

    if (strlen(value) >= sizeof s->text)
        return fail(msg, SKADE_EINPUT, "%s: at most %zu bytes", o->name, sizeof s->text - 1);
    strcpy(s->text, value);
    return 0;
}

static void print_string(const void *field, const struct option *o, FILE *out)
{
    (void)o;
    fputs(((const option_string *)field)->text, out);
}

static int parse_number(const char *value, const char **end, int64_t *ret)
{
    char *e;

    errno = 0;
    long long v = strtoll(value, &e, 10);
    if (errno || e == value)
        return SKADE_EINPUT;
    *end = e;
    *ret = v;
    return 0;
}

static int parse_count(void *field, const char *value, const struct option *o, struct errmsg *msg)
{
    const char *end;
    int64_t v;

    if (parse_number(value, &end, &v) < 0 || *end || v < o->min || v > o->max)
        return fail(msg, SKADE_EINPUT, "%s: '%s' is not a number from %" PRId64 " to %" PRId64, o->name,
                    value, o->min, o->max);
    *(option_count *)field = v;
    return 0;
}

static void print_count(const void *field, const struct option *o, FILE *out)
{
    (void)o;
    fprintf(out, "%" PRId64, *(const option_count *)field);
}

static const struct {
    const char *name;
    int64_t ms;
} units[] = { { "ms", 1 }, { "s", 1000 }, { "min", 60000 }, { "h", 3600000 } };

static int parse_duration(void *field, const char *value, const struct option *o, struct errmsg *msg)
{
    const char *end;
    int64_t v;

    if (parse_number(value, &end, &v) == 0 && v >= 0)
        for (size_t i = 0; i < ARRAY_SIZE(units); i++)
            if (strcmp(end, units[i].name) == 0 && v <= o->max / units[i].ms && v * units[i].ms >= o->min) {
                *(option_duration *)field = v * units[i].ms;
                return 0;
            }
    return fail(msg, SKADE_EINPUT,
                "%s: '%s' is not a duration like 200ms, 10s, 5min, 1h from %" PRId64 "ms to %" PRId64 "ms",
                o->name, value, o->min, o->max);
}

static void print_duration(const void *field, const struct option *o, FILE *out)
{
    int64_t ms = *(const option_duration *)field;
    size_t u = ARRAY_SIZE(units) - 1;

    (void)o;
    while (u > 0 && (ms % units[u].ms || ms == 0))
        u--;
    fprintf(out, "%" PRId64 "%s", ms / units[u].ms, units[u].name);
}

static int parse_choice(void *field, const char *value, const struct option *o, struct errmsg *msg)
{
    size_t len = strlen(value);
    int i = 0;

    for (const char *a = o->alternatives; *a; i++) {
        size_t n = strcspn(a, "|");
        if (n == len && memcmp(a, value, n) == 0) {
            *(option_choice *)field = i;
            return 0;
        }
        a += n + (a[n] == '|');
    }
    return fail(msg, SKADE_EINPUT, "%s: '%s' is none of %s", o->name, value, o->alternatives);
}

static void print_choice(const void *field, const struct option *o, FILE *out)
{
    const char *a = o->alternatives;

    for (int i = *(const option_choice *)field; i > 0; i--)
        a += strcspn(a, "|") + 1;
    fprintf(out, "%.*s", (int)strcspn(a, "|"), a);
}

/* The number of a user or group; the last one means nobody in particular to the kernel. */
static bool parse_id(const char *text, uint32_t *ret)
{
    const char *end;
    int64_t number;

    if (text[0] < '0' || text[0] > '9' || parse_number(text, &end, &number) < 0 || *end ||
        number >= UINT32_MAX)
        return false;
    *ret = (uint32_t)number;
    return true;
}

/* A user by name or number. */
static int add_user(option_users *u, const char *name, const struct option *o, struct errmsg *msg)
{
    uint32_t number = 0;
    struct passwd *pw = getpwnam(name);

    if (!pw && !parse_id(name, &number))
        return fail(msg, SKADE_EINPUT, "%s: there is no user '%s'", o->name, name);
    if (u->users_count == ARRAY_SIZE(u->users))
        return fail(msg, SKADE_EINPUT, "%s: at most %zu users; use a @group", o->name, ARRAY_SIZE(u->users));
    u->users[u->users_count++] = pw ? pw->pw_uid : (uid_t)number;
    return 0;
}

static int add_group(option_users *u, const char *name, const struct option *o, struct errmsg *msg)
{
    uint32_t number = 0;
    struct group *gr = getgrnam(name);

    if (!gr && !parse_id(name, &number))
        return fail(msg, SKADE_EINPUT, "%s: there is no group '%s'", o->name, name);
    if (u->groups_count == ARRAY_SIZE(u->groups))
        return fail(msg, SKADE_EINPUT, "%s: at most %zu groups", o->name, ARRAY_SIZE(u->groups));
    u->groups[u->groups_count++] = gr ? gr->gr_gid : (gid_t)number;
    return 0;
}

static int parse_users(void *field, const char *value, const struct option *o, struct errmsg *msg)
{
    option_users u = { .everyone = false };
    char copy[OPTION_TEXT_MAX], *save = NULL;

    if (strlen(value) >= sizeof copy)
        return fail(msg, SKADE_EINPUT, "%s: at most %zu bytes", o->name, sizeof copy - 1);
    strcpy(u.text, value);
    strcpy(copy, value);
    for (char *word = strtok_r(copy, " ,\t", &save); word; word = strtok_r(NULL, " ,\t", &save)) {
        int r = 0;
        if (strcmp(word, "*") == 0)
            u.everyone = true;
        else if (word[0] == '@')
            r = add_group(&u, word + 1, o, msg);
        else
            r = add_user(&u, word, o, msg);
        if (r < 0)
            return r;
    }
    *(option_users *)field = u;
    return 0;
}

static void print_users(const void *field, const struct option *o, FILE *out)
{
    (void)o;
    fputs(((const option_users *)field)->text, out);
}

/* ---- reading ---- */

bool config_knows(const char *name)
{
    return find_option(name) != NULL;
}

void config_defaults(struct config *ret)
{
    memset(ret, 0, sizeof *ret);
    for (size_t i = 0; i < ARRAY_SIZE(options); i++)
        options[i].parse(field_of(ret, &options[i]), options[i].initial, &options[i], NULL);
}

int config_set(struct config *c, const char *name, const char *value, const char *where, struct errmsg *msg)
{
    const struct option *o = find_option(name);
    struct errmsg inner = { "" };

    const char *colon = where ? ": " : "";

    where = where ? where : "";
    if (!o)
        return fail(msg, SKADE_EINPUT, "%s%sthere is no option '%s'; skaded --help lists them", where, colon,
                    name);
    int r = o->parse(field_of(c, o), value, o, &inner);
    return r < 0 ? fail(msg, r, "%s%s%s", where, colon, inner.text) : 0;
}

struct reading {
    struct config *c;
    const char *file;
    struct errmsg *msg;
    int error;
};

static int take_line(void *arg, const char *section, const char *name, const char *value)
{
    struct reading *r = arg;
    char where[300];

    snprintf(where, sizeof where, "%s", r->file);
    if (section[0])
        r->error = fail(r->msg, SKADE_EINPUT, "%s: sections like [%s] mean nothing here", where, section);
    else
        r->error = config_set(r->c, name, value, where, r->msg);
    return r->error == 0;
}

/* All of FILE, with a zero behind it; free() it. */
static int load_file(const char *file, char **ret, size_t *ret_len, struct errmsg *msg)
{
    FILE *f = fopen(file, "re");
    if (!f)
        return fail(msg, -errno, "%s: %s", file, strerror(errno));
    char *text = malloc(FILE_MAX + 1);
    size_t len = text ? fread(text, 1, FILE_MAX + 1, f) : 0;
    int r = !text ? -ENOMEM : ferror(f) ? -errno : len > FILE_MAX ? -EFBIG : 0;
    fclose(f);
    if (r < 0) {
        free(text);
        if (r == -EFBIG)
            return fail(msg, SKADE_EINPUT, "%s: a configuration has at most %u bytes", file, FILE_MAX);
        return fail(msg, r, "%s: %s", file, strerror(-r));
    }
    text[len] = 0;
    *ret = text;
    *ret_len = len;
    return 0;
}

/* What inih would take for something else than it is. */
static const char *line_problem(const char *line, size_t len)
{
    static char too_long[64];

    if (memchr(line, 0, len))
        return "it has a zero byte";
    if (len > LINE_MAX_BYTES) {
        snprintf(too_long, sizeof too_long, "it has %zu bytes; a line has at most %u", len, LINE_MAX_BYTES);
        return too_long;
    }
    size_t blanks = strspn(line, " \t\v\f\r");
    if (blanks && blanks < len && !strchr(";#", line[blanks]))
        return "it begins with a blank: a line can't go on in the next one";
    return NULL;
}

static int check_lines(const char *file, const char *text, size_t len, struct errmsg *msg)
{
    int number = 1;

    for (size_t at = 0; at < len; number++) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;
        const char *problem = line_problem(text + at, n);
        if (problem)
            return fail(msg, SKADE_EINPUT, "%s:%d: %s", file, number, problem);
        at += n + 1;
    }
    return 0;
}

static int parse_text(struct config *c, const char *file, const char *text, struct errmsg *msg)
{
    struct reading reading = { c, file, msg, 0 };
    int line = ini_parse_string(text, take_line, &reading);

    if (line > 0 && reading.error) {
        struct errmsg inner = msg ? *msg : (struct errmsg){ "" };
        return fail(msg, reading.error, "line %d of %s", line, inner.text);
    }
    if (line != 0)
        return fail(msg, SKADE_EINPUT, "%s:%d: expected `name = value`", file, line);
    return 0;
}

int config_read(struct config *c, const char *file, struct errmsg *msg)
{
    char *text = NULL;
    size_t len = 0;

    int r = load_file(file, &text, &len, msg);
    if (r < 0)
        return r;
    r = check_lines(file, text, len, msg);
    if (r == 0)
        r = parse_text(c, file, text, msg);
    free(text);
    return r;
}

/* ---- paths of this user ---- */

static void set_path(option_string *s, const char *a, const char *b)
{
    snprintf(s->text, sizeof s->text, "%s%s", a, b);
}

static void default_data_dir(option_string *s)
{
    const char *xdg = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");

    if (geteuid() == 0)
        set_path(s, "/var/lib/skade", "");
    else if (xdg && xdg[0] == '/')
        set_path(s, xdg, "/skade");
    else
        set_path(s, home && home[0] == '/' ? home : "/tmp", "/.local/share/skade");
}

static void default_run_dir(option_string *s)
{
    const char *xdg = getenv("XDG_RUNTIME_DIR");

    if (geteuid() == 0)
        set_path(s, "/run/skade", "");
    else if (xdg && xdg[0] == '/')
        set_path(s, xdg, "/skade");
    else
        snprintf(s->text, sizeof s->text, "/tmp/skade-%u", (unsigned)geteuid());
}

int config_finish(struct config *c, struct errmsg *msg)
{
    const char *problem = instance_name_problem(c->instance.text);
    if (problem)
        return fail(msg, SKADE_EINPUT, "instance: '%s': %s", c->instance.text, problem);
    if (!c->data_dir.text[0])
        default_data_dir(&c->data_dir);
    if (!c->run_dir.text[0])
        default_run_dir(&c->run_dir);

    const option_string *dirs[] = { &c->data_dir, &c->run_dir, &c->shm_dir };
    const char *names[] = { "data_dir", "run_dir", "shm_dir" };
    for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
        if (dirs[i]->text[0] != '/' || strlen(dirs[i]->text) > 200)
            return fail(msg, SKADE_EINPUT, "%s: '%s' must be an absolute path of at most 200 bytes", names[i],
                        dirs[i]->text);
    if (strcmp(c->instance.text, "default") != 0) {
        size_t len = strlen(c->data_dir.text);
        snprintf(c->data_dir.text + len, sizeof c->data_dir.text - len, "/%s", c->instance.text);
    }
    if (strlen(c->run_dir.text) + strlen(c->instance.text) + strlen("/.sock") > 107)
        return fail(msg, SKADE_EINPUT,
                    "run_dir: '%s' is too long: the socket's path may have 107 bytes; choose a shorter one",
                    c->run_dir.text);
    if (c->group.text[0] && !getgrnam(c->group.text))
        return fail(msg, SKADE_EINPUT, "group: there is no group '%s'", c->group.text);
    return 0;
}

unsigned config_reload(struct config *running, const struct config *fresh, struct errmsg *waiting)
{
    unsigned need_restart = 0;
    size_t len = 0;

    waiting->text[0] = 0;
    for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
        const struct option *o = &options[i];
        if (o->when == RELOAD)
            memcpy(field_of(running, o), field_in(fresh, o), o->size);
        else if (memcmp(field_in(running, o), field_in(fresh, o), o->size) != 0 && len < sizeof waiting->text)
            len += (size_t)snprintf(waiting->text + len, sizeof waiting->text - len, "%s%s",
                                    need_restart++ ? ", " : "", o->name);
    }
    return need_restart;
}

/* ---- printing ---- */

void config_print(const struct config *c, FILE *out)
{
    fputs("# skaded.conf: every option with the value that holds.  `name = value`; a # begins a comment.\n",
          out);
    for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
        const struct option *o = &options[i];
        fprintf(out, "\n# %s%s\n%s = ", o->doc, o->when == RELOAD ? " SIGHUP changes it." : "", o->name);
        o->print(field_in(c, o), o, out);
        fputc('\n', out);
    }
}

void config_print_help(FILE *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
        const struct option *o = &options[i];
        int n = fprintf(out, "  --");
        for (const char *c = o->name; *c; c++, n++)
            fputc(*c == '_' ? '-' : *c, out);
        fprintf(out, "%*s%s%s%s%s\n", n < 24 ? 24 - n : 1, "", o->doc, o->initial[0] ? " Default: " : "",
                o->initial, o->initial[0] ? "." : "");
    }
}

/* ---- roles ---- */

static bool listed(const option_users *u, uid_t uid, gid_t gid, const gid_t *groups, size_t groups_count)
{
    if (u->everyone)
        return true;
    for (size_t i = 0; i < u->users_count; i++)
        if (u->users[i] == uid)
            return true;
    for (size_t i = 0; i < u->groups_count; i++) {
        if (u->groups[i] == gid)
            return true;
        for (size_t g = 0; g < groups_count; g++)
            if (u->groups[i] == groups[g])
                return true;
    }
    return false;
}

unsigned config_roles(const struct config *c, uid_t uid, gid_t gid, const gid_t *groups, size_t groups_count)
{
    if (uid == 0 || uid == geteuid() || listed(&c->admin, uid, gid, groups, groups_count))
        return ROLE_ADMIN | ROLE_WRITE | ROLE_READ;
    if (listed(&c->write, uid, gid, groups, groups_count))
        return ROLE_WRITE | ROLE_READ;
    return listed(&c->read, uid, gid, groups, groups_count) ? ROLE_READ : 0;
}

mode_t config_shm_mode(const struct config *c, gid_t *group)
{
    *group = (gid_t)-1;
    if (c->read.everyone || c->write.everyone || c->admin.everyone)
        return 0444;
    struct group *gr = c->group.text[0] ? getgrnam(c->group.text) : NULL;
    if (gr)
        *group = gr->gr_gid;
    else if (c->read.groups_count)
        *group = c->read.groups[0];
    return *group == (gid_t)-1 ? 0400 : 0440;
}
