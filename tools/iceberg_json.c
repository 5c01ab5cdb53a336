/*
 * libyajl calls back for each value; a small machine knows where in the document it is:
 *
 *     BEFORE --{--> ROOT --[--> LIST --{--> ELEMENT     Below a key that skade doesn't use
 *                    ^           | ^          |         only brackets are counted.
 *     AFTER  <--}----+---<--]----+ +----<--}--+
 *
 * The table of fields says which keys are used where, of which type, and whether they must be there.
 */
#include "iceberg_json.h"

#include "iceberg_guard.h"
#include "iceberg_ids.h"
#include "skade_errors.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#define GO 1 /* what callbacks tell libyajl */
#define STOP 0

enum object { ROOT, SNAPSHOT, SNAPSHOT_LOG, METADATA_LOG };
enum type { INTEGER, STRING, LIST, NUL, BOOLEAN, OBJECT };
enum presence { REQUIRED, REQUIRED_SINCE_V2, OPTIONAL };

/* clang-format off */
#define FIELDS(X)                                                                       \
    X(FORMAT_VERSION,  ROOT,         "format-version",      INTEGER, REQUIRED)          \
    X(TABLE_UUID,      ROOT,         "table-uuid",          STRING,  REQUIRED_SINCE_V2) \
    X(LOCATION,        ROOT,         "location",            STRING,  REQUIRED)          \
    X(LAST_UPDATED,    ROOT,         "last-updated-ms",     INTEGER, REQUIRED)          \
    X(CURRENT,         ROOT,         "current-snapshot-id", INTEGER, OPTIONAL)          \
    X(SNAPSHOTS,       ROOT,         "snapshots",           LIST,    OPTIONAL)          \
    X(SNAPSHOT_LOGS,   ROOT,         "snapshot-log",        LIST,    OPTIONAL)          \
    X(METADATA_LOGS,   ROOT,         "metadata-log",        LIST,    OPTIONAL)          \
    X(SNAPSHOT_ID,     SNAPSHOT,     "snapshot-id",         INTEGER, REQUIRED)          \
    X(TIMESTAMP,       SNAPSHOT,     "timestamp-ms",        INTEGER, REQUIRED)          \
    X(SEQUENCE,        SNAPSHOT,     "sequence-number",     INTEGER, OPTIONAL)          \
    X(LOG_SNAPSHOT_ID, SNAPSHOT_LOG, "snapshot-id",         INTEGER, REQUIRED)          \
    X(LOG_TIMESTAMP,   SNAPSHOT_LOG, "timestamp-ms",        INTEGER, REQUIRED)          \
    X(METADATA_FILE,   METADATA_LOG, "metadata-file",       STRING,  REQUIRED)
/* clang-format on */

enum {
#define X(id, object, key, type, presence) id,
    FIELDS(X)
#undef X
        FIELD_COUNT
};

static const struct field {
    const char *key;
    size_t key_len;
    enum object object;
    enum type type;
    enum presence presence;
} fields[FIELD_COUNT] = {
#define X(id, object, key, type, presence) { key, sizeof(key) - 1, object, type, presence },
    FIELDS(X)
#undef X
};

static const char *const type_names[] = {
    [INTEGER] = "an integer", [STRING] = "a string",   [LIST] = "a list",
    [NUL] = "null",           [BOOLEAN] = "a boolean", [OBJECT] = "an object",
};

struct log_entry {
    int64_t id;
    int64_t timestamp_ms;
};

struct iceberg_json {
    const char *path;
    const struct iceberg_log_sink *log;
    struct iceberg_error *err;
    yajl_handle yajl;
    struct iceberg_guard guard;
    uint64_t fed; /* bytes, for messages */
    int failure;  /* what a callback or the guard failed with */

    enum { BEFORE, IN_ROOT, IN_LIST, IN_ELEMENT, AFTER } at;
    unsigned skip;    /* open brackets below a key that isn't used */
    int field;        /* of the last key, -1: not used */
    int list;         /* in IN_LIST and IN_ELEMENT: the field that is a list */
    enum object kind; /* in IN_ELEMENT: of its elements */
    size_t index;     /* in IN_LIST and IN_ELEMENT: of the element */

    uint32_t seen; /* bits of fields: the key was there in this object */
    uint32_t has;  /* and with a value that isn't null */
    int64_t integer[FIELD_COUNT];

    struct iceberg_metadata out;
    size_t snapshot_room;
    struct iceberg_ids ids; /* of out.snapshots, to their indexes */
    struct log_entry *entries;
    size_t entry_count, entry_room;
};

_Static_assert(FIELD_COUNT <= 32, "seen and has are 32 bits");

/* ---- messages ------------------------------------------------------------------------------------------ */

/* "snapshots[3].snapshot-id": where FIELD stands, or the element itself for -1. */
static const char *name_of(const struct iceberg_json *j, int field, char *buf, size_t size)
{
    const char *key = field < 0 ? "" : fields[field].key;
    if (j->at == IN_LIST || j->at == IN_ELEMENT)
        snprintf(buf, size, "%s[%zu]%s%s", fields[j->list].key, j->index, *key ? "." : "", key);
    else
        snprintf(buf, size, "%s", key);
    return buf;
}

__attribute__((format(printf, 3, 4))) static int field_fails(struct iceberg_json *j, int field,
                                                             const char *format, ...)
{
    char name[80], what[512];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    j->failure =
        iceberg_fail(j->err, SKADE_EINPUT, "%s: %s: %s", j->path, name_of(j, field, name, sizeof name), what);
    return STOP;
}

static int document_fails(struct iceberg_json *j)
{
    j->failure = iceberg_fail(j->err, SKADE_EINPUT, "%s: is not one JSON object", j->path);
    return STOP;
}

static int out_of_memory(struct iceberg_json *j)
{
    j->failure = iceberg_fail(j->err, -ENOMEM, "%s: no memory to read it", j->path);
    return STOP;
}

/* A value of a stranger's, cut to what a message can bear. */
#define QUOTED_MAX 40
static int quoted(size_t len)
{
    return len < QUOTED_MAX ? (int)len : QUOTED_MAX;
}

/* ---- values -------------------------------------------------------------------------------------------- */

/* Parse "-?[0-9]+", as which libyajl has recognized it.  0, or 1 above and -1 below the 64-bit range. */
static int parse_int64(const char *s, size_t len, int64_t *ret)
{
    bool negative = s[0] == '-';
    int64_t v = 0;
    for (size_t i = negative; i < len; i++) {
        int digit = s[i] - '0';
        if (__builtin_mul_overflow(v, (int64_t)10, &v) ||
            __builtin_add_overflow(v, (int64_t)(negative ? -digit : digit), &v))
            return negative ? -1 : 1;
    }
    *ret = v;
    return 0;
}

static bool fits_microseconds(int64_t ms)
{
    int64_t us;
    return !__builtin_mul_overflow(ms, (int64_t)1000, &us);
}

static int take_integer(struct iceberg_json *j, int field, const char *s, size_t len)
{
    int64_t v = 0;
    for (size_t i = 0; i < len; i++)
        if (!isdigit((unsigned char)s[i]) && s[i] != '-')
            return field_fails(j, field, "%.*s is not written as an integer", quoted(len), s);
    int beyond = parse_int64(s, len, &v);
    if (beyond)
        return field_fails(j, field, "%.*s is %s the signed 64-bit range", quoted(len), s,
                           beyond > 0 ? "above" : "below");
    if (field == FORMAT_VERSION && (v < 1 || v > 3))
        return field_fails(j, field, "%.*s is not supported, 1 to 3 are", quoted(len), s);
    if ((field == LAST_UPDATED || field == TIMESTAMP || field == LOG_TIMESTAMP) && !fits_microseconds(v))
        return field_fails(j, field, "%.*s is too far away for a time in microseconds", quoted(len), s);
    j->integer[field] = v;
    return GO;
}

static int hex_value(unsigned char c)
{
    return isdigit(c) ? c - '0' : tolower(c) - 'a' + 10;
}

/* 8-4-4-4-12 hexadecimal digits of either case. */
static bool parse_uuid(const char *s, size_t len, uint8_t uuid[16])
{
    size_t digits = 0;
    if (len != 36)
        return false;
    for (size_t i = 0; i < len; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? s[i] != '-' : !isxdigit((unsigned char)s[i]))
            return false;
        if (dash)
            continue;
        uuid[digits / 2] = (uint8_t)(uuid[digits / 2] << 4 | hex_value((unsigned char)s[i]));
        digits++;
    }
    return true;
}

static int take_location(struct iceberg_json *j, const char *s, size_t len)
{
    if (len == 0 || len > ICEBERG_LOCATION_MAX)
        return field_fails(j, LOCATION, "has %zu bytes, 1 to %d are allowed", len, ICEBERG_LOCATION_MAX);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
            return field_fails(j, LOCATION, "has a control character");
    memcpy(j->out.location, s, len);
    j->out.location[len] = '\0';
    return GO;
}

static int take_string(struct iceberg_json *j, int field, const char *s, size_t len)
{
    if (field == LOCATION)
        return take_location(j, s, len);
    if (field == TABLE_UUID)
        return parse_uuid(s, len, j->out.uuid)
                   ? GO
                   : field_fails(j, field, "\"%.*s\" is not a uuid", quoted(len), s);
    assert(field == METADATA_FILE);
    if (!j->log)
        return GO;
    j->failure = j->log->previous(j->log->arg, s, len);
    return j->failure < 0 ? out_of_memory(j) : GO;
}

static int wrong_type(struct iceberg_json *j, enum type type)
{
    return field_fails(j, j->field, "must be %s, not %s", type_names[fields[j->field].type],
                       type_names[type]);
}

static int take(struct iceberg_json *j, enum type type, const char *s, size_t len)
{
    int field = j->field;
    if (type == NUL && fields[field].presence != REQUIRED)
        return GO; /* the same as absent */
    if (type != fields[field].type)
        return wrong_type(j, type);
    j->has |= 1u << field;
    return type == INTEGER ? take_integer(j, field, s, len) : take_string(j, field, s, len);
}

/* ---- elements of lists --------------------------------------------------------------------------------- */

/*
 * Room for one more element of SIZE bytes in an array that has COUNT of them.  The array, moved maybe, or
 * NULL.
 */
static void *make_room(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    size_t wanted = *room ? *room * 2 : 64;
    void *bigger = reallocarray(array, wanted, size);
    if (bigger)
        *room = wanted;
    return bigger;
}

static int add_snapshot(struct iceberg_json *j)
{
    struct iceberg_metadata *m = &j->out;
    int64_t id = j->integer[SNAPSHOT_ID];
    uint32_t first = 0;
    void *array = make_room(m->snapshots, m->snapshot_count, &j->snapshot_room, sizeof *m->snapshots);
    if (!array)
        return out_of_memory(j);
    m->snapshots = array;
    int r = iceberg_ids_add(&j->ids, id, (uint32_t)m->snapshot_count);
    if (r < 0)
        return out_of_memory(j);
    if (r == 0) {
        iceberg_ids_find(&j->ids, id, &first);
        return field_fails(j, SNAPSHOT_ID, "%lld is the id of snapshots[%u] too", (long long)id, first);
    }
    m->snapshots[m->snapshot_count++] = (struct iceberg_snapshot){
        .id = id,
        .timestamp_ms = j->integer[TIMESTAMP],
        .sequence = j->has & 1u << SEQUENCE ? j->integer[SEQUENCE] : 0,
    };
    return GO;
}

static int add_log_entry(struct iceberg_json *j)
{
    void *array = make_room(j->entries, j->entry_count, &j->entry_room, sizeof *j->entries);
    if (!array)
        return out_of_memory(j);
    j->entries = array;
    j->entries[j->entry_count++] =
        (struct log_entry){ j->integer[LOG_SNAPSHOT_ID], j->integer[LOG_TIMESTAMP] };
    return GO;
}

static int check_presence(struct iceberg_json *j, enum object object)
{
    for (int i = 0; i < FIELD_COUNT; i++) {
        const struct field *f = &fields[i];
        bool required =
            f->presence == REQUIRED || (f->presence == REQUIRED_SINCE_V2 && j->out.format_version > 1);
        if (f->object == object && required && !(j->has & 1u << i))
            return field_fails(j, i, "is missing");
    }
    return GO;
}

static uint32_t fields_of(enum object object)
{
    uint32_t bits = 0;
    for (int i = 0; i < FIELD_COUNT; i++)
        if (fields[i].object == object)
            bits |= 1u << i;
    return bits;
}

static int begin_element(struct iceberg_json *j)
{
    j->at = IN_ELEMENT;
    j->seen &= ~fields_of(j->kind);
    j->has &= ~fields_of(j->kind);
    return GO;
}

static int end_element(struct iceberg_json *j)
{
    int r = check_presence(j, j->kind);
    if (r == GO && j->kind == SNAPSHOT)
        r = add_snapshot(j);
    if (r == GO && j->kind == SNAPSHOT_LOG)
        r = add_log_entry(j);
    j->at = IN_LIST;
    j->index++;
    return r;
}

static int begin_list(struct iceberg_json *j)
{
    j->at = IN_LIST;
    j->list = j->field;
    j->kind = j->field == SNAPSHOTS ? SNAPSHOT : j->field == SNAPSHOT_LOGS ? SNAPSHOT_LOG : METADATA_LOG;
    j->index = 0;
    return GO;
}

/* ---- what libyajl calls -------------------------------------------------------------------------------- */

static int scalar(struct iceberg_json *j, enum type type, const char *s, size_t len)
{
    if (j->skip)
        return GO;
    if (j->at == BEFORE)
        return document_fails(j);
    if (j->at == IN_LIST)
        return field_fails(j, -1, "must be an object, not %s", type_names[type]);
    return j->field < 0 ? GO : take(j, type, s, len);
}

static int on_null(void *ctx)
{
    return scalar(ctx, NUL, NULL, 0);
}

static int on_boolean(void *ctx, int value)
{
    (void)value;
    return scalar(ctx, BOOLEAN, NULL, 0);
}

static int on_number(void *ctx, const char *s, size_t len)
{
    return scalar(ctx, INTEGER, s, len);
}

static int on_string(void *ctx, const unsigned char *s, size_t len)
{
    return scalar(ctx, STRING, (const char *)s, len);
}

static int on_start(struct iceberg_json *j, enum type type)
{
    if (j->skip) {
        j->skip++;
        return GO;
    }
    switch (j->at) {
    case BEFORE:
        if (type != OBJECT)
            return document_fails(j);
        j->at = IN_ROOT;
        return GO;
    case IN_LIST:
        return type == OBJECT ? begin_element(j) : field_fails(j, -1, "must be an object, not a list");
    default:
        if (j->field < 0) {
            j->skip = 1;
            return GO;
        }
        return type == LIST && fields[j->field].type == LIST ? begin_list(j) : wrong_type(j, type);
    }
}

static int on_start_map(void *ctx)
{
    return on_start(ctx, OBJECT);
}

static int on_start_array(void *ctx)
{
    return on_start(ctx, LIST);
}

static int on_end(void *ctx)
{
    struct iceberg_json *j = ctx;
    if (j->skip) {
        j->skip--;
        return GO;
    }
    if (j->at == IN_ELEMENT)
        return end_element(j);
    j->at = j->at == IN_LIST ? IN_ROOT : AFTER;
    return GO;
}

static int find_field(enum object object, const unsigned char *key, size_t len)
{
    for (int i = 0; i < FIELD_COUNT; i++)
        if (fields[i].object == object && fields[i].key_len == len && memcmp(fields[i].key, key, len) == 0)
            return i;
    return -1;
}

static int on_key(void *ctx, const unsigned char *key, size_t len)
{
    struct iceberg_json *j = ctx;
    if (j->skip)
        return GO;
    j->field = find_field(j->at == IN_ROOT ? ROOT : j->kind, key, len);
    if (j->field < 0)
        return GO;
    /* Readers disagree about which of two counts, so neither does. */
    if (j->seen & 1u << j->field)
        return field_fails(j, j->field, "is there twice");
    j->seen |= 1u << j->field;
    return GO;
}

static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_boolean,
    .yajl_number = on_number, /* as text: 64-bit ids don't survive a double, and libyajl would clamp */
    .yajl_string = on_string,
    .yajl_start_map = on_start_map,
    .yajl_map_key = on_key,
    .yajl_end_map = on_end,
    .yajl_start_array = on_start_array,
    .yajl_end_array = on_end,
};

/* ---- the end of the document --------------------------------------------------------------------------- */

static void mark_logged(struct iceberg_json *j)
{
    for (size_t i = 0; i < j->entry_count; i++) {
        uint32_t at;
        if (!iceberg_ids_find(&j->ids, j->entries[i].id, &at))
            continue;
        struct iceberg_snapshot *s = &j->out.snapshots[at];
        s->logged = true;
        s->born_current |= s->timestamp_ms == j->entries[i].timestamp_ms;
    }
}

static int check_current(struct iceberg_json *j)
{
    uint32_t at;
    struct iceberg_metadata *m = &j->out;
    m->current = j->integer[CURRENT];
    m->has_current = j->has & 1u << CURRENT && m->current != -1;
    if (m->has_current && !iceberg_ids_find(&j->ids, m->current, &at))
        return field_fails(j, CURRENT, "%lld is not among the snapshots", (long long)m->current);
    return GO;
}

static int check_document(struct iceberg_json *j)
{
    struct iceberg_metadata *m = &j->out;
    m->format_version = (int)j->integer[FORMAT_VERSION];
    m->has_uuid = j->has & 1u << TABLE_UUID;
    m->last_updated_ms = j->integer[LAST_UPDATED];
    if (check_presence(j, ROOT) == STOP || check_current(j) == STOP)
        return j->failure;
    mark_logged(j);
    return 0;
}

/* ---- feeding ------------------------------------------------------------------------------------------- */

static int syntax_fails(struct iceberg_json *j)
{
    unsigned char *why = yajl_get_error(j->yajl, 0, NULL, 0);
    size_t len = why ? strcspn((const char *)why, "\n") : 0;
    int r = iceberg_fail(j->err, SKADE_EINPUT, "%s: is not one JSON object: %.*s at byte %llu", j->path,
                         (int)len, why ? (const char *)why : "", (unsigned long long)j->fed);
    if (why)
        yajl_free_error(j->yajl, why);
    return r;
}

int iceberg_json_new(const char *path, const struct iceberg_log_sink *log, struct iceberg_error *err,
                     struct iceberg_json **ret)
{
    struct iceberg_json *j = calloc(1, sizeof *j);
    if (!j)
        return iceberg_fail(err, -ENOMEM, "%s: no memory to read it", path);
    j->path = path;
    j->log = log;
    j->err = err;
    j->yajl = yajl_alloc(&callbacks, NULL, j);
    if (!j->yajl) {
        free(j);
        return iceberg_fail(err, -ENOMEM, "%s: no memory to read it", path);
    }
    *ret = j;
    return 0;
}

int iceberg_json_feed(struct iceberg_json *j, const unsigned char *text, size_t len)
{
    const char *why = iceberg_guard(&j->guard, text, len);
    if (why)
        return iceberg_fail(j->err, SKADE_EINPUT, "%s: is not one JSON object that skade reads: %s", j->path,
                            why);
    yajl_status status = yajl_parse(j->yajl, text, len);
    if (status == yajl_status_client_canceled)
        return j->failure;
    if (status == yajl_status_error) {
        j->fed += yajl_get_bytes_consumed(j->yajl);
        return syntax_fails(j);
    }
    j->fed += len;
    return 0;
}

int iceberg_json_end(struct iceberg_json *j, struct iceberg_metadata *ret)
{
    if (yajl_complete_parse(j->yajl) != yajl_status_ok)
        return j->failure ? j->failure : syntax_fails(j);
    assert(j->at == AFTER);
    int r = check_document(j);
    if (r < 0)
        return r;
    *ret = j->out;
    j->out.snapshots = NULL;
    return 0;
}

void iceberg_json_free(struct iceberg_json *j)
{
    if (!j)
        return;
    yajl_free(j->yajl);
    iceberg_ids_free(&j->ids);
    free(j->out.snapshots);
    free(j->entries);
    free(j);
}
