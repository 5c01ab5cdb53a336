#include "names.h"

#include "event.h"
#include "format.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* ---- text ---------------------------------------------------------------------------------------------- */

/* How long is the character that begins with FIRST?  0 when none does: no continuation byte, and no byte
 * that could only begin an overlong form (c0, c1) or something above U+10FFFF (f5 and up). */
static size_t utf8_length(uint8_t first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xc2)
        return 0;
    if (first < 0xe0)
        return 2;
    if (first < 0xf0)
        return 3;
    return first < 0xf5 ? 4 : 0;
}

/* Decode the character at S, of which LEFT bytes are there.  Its length, 0 when it isn't one (RFC 3629). */
static size_t utf8_decode(const uint8_t *s, size_t left, uint32_t *ret)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t len = utf8_length(s[0]);

    if (len == 0 || len > left)
        return 0;
    uint32_t c = len == 1 ? s[0] : s[0] & 0xffu >> (len + 1);
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3fu);
    }
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *ret = c;
    return len;
}

static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

/* What names and locations have in common. */
static const char *text_problem(struct bytes text)
{
    const uint8_t *s = (const uint8_t *)text.data;
    size_t len;

    for (size_t i = 0; i < text.len; i += len) {
        uint32_t c = 0;
        len = utf8_decode(s + i, text.len - i, &c);
        if (len == 0)
            return "it is not valid UTF-8";
        if (is_control(c))
            return "it has a control character";
    }
    return NULL;
}

void text_make_printable(char *text)
{
    uint8_t *s = (uint8_t *)text;
    size_t left = strlen(text), len;

    for (; left > 0; s += len, left -= len) {
        uint32_t c = 0;
        len = utf8_decode(s, left, &c);
        if (len != 0 && !is_control(c))
            continue;
        len = len ? len : 1;
        memset(s, '?', len);
    }
}

static bool has_empty_level(struct bytes name)
{
    char before = '.';
    for (size_t i = 0; i < name.len; i++) {
        if (name.data[i] == '.' && before == '.')
            return true;
        before = name.data[i];
    }
    return before == '.';
}

const char *table_name_problem(struct bytes name)
{
    if (name.len == 0)
        return "it is empty";
    if (name.len > NAME_MAX_LEN)
        return "it is longer than 1024 bytes";
    const char *problem = text_problem(name);
    if (problem)
        return problem;
    if (memchr(name.data, '/', name.len))
        return "it has a '/'";
    return has_empty_level(name) ? "it has an empty level" : NULL;
}

const char *location_problem(struct bytes location)
{
    if (location.len == 0)
        return "it is empty";
    if (location.len > LOCATION_MAX)
        return "it is longer than 4096 bytes";
    return text_problem(location);
}

/* By value and not by isalnum(): what is a letter must not depend on the locale. */
static bool is_instance_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

const char *instance_name_problem(const char *name)
{
    size_t len = 0;

    for (; name[len]; len++) {
        if (len == INSTANCE_MAX)
            return "it is longer than 32 characters";
        if (!is_instance_char(name[len]))
            return "only a-z, 0-9, _ and - are allowed";
    }
    return len == 0 ? "it is empty" : NULL;
}

/* ---- names of shared-memory files ---------------------------------------------------------------------- */

static const struct {
    const char *suffix;
    int numbers; /* before the suffix: none, the epoch, epoch and generation */
} shm_kinds[SHM_KIND_END] = {
    [SHM_CONTROL] = { "ctl", 0 }, [SHM_CONTROL_ALIAS] = { "ctl", 1 }, [SHM_ROOT] = { "root", 2 },
    [SHM_PART] = { "part", 2 },   [SHM_TAIL] = { "tail", 2 },         [SHM_TEMP] = { "tmp", 2 },
    [SHM_LOCK] = { "lock", 0 },
};

static int shm_prefix(char *ret, const struct shm_place *place)
{
    return snprintf(ret, SHM_NAME_MAX, "skade.%" PRIu32 ".%s.v%u.", place->uid, place->instance,
                    FORMAT_MAJOR);
}

char *shm_name(char *ret, const struct shm_place *place, enum shm_kind kind, uint64_t epoch,
               uint64_t generation)
{
    const uint64_t numbers[] = { epoch, generation };
    int len = shm_prefix(ret, place);

    for (int i = 0; i < shm_kinds[kind].numbers; i++) {
        assert(numbers[i] != 0);
        len += snprintf(ret + len, SHM_NAME_MAX - (size_t)len, "%016" PRIx64 ".", numbers[i]);
    }
    snprintf(ret + len, SHM_NAME_MAX - (size_t)len, "%s", shm_kinds[kind].suffix);
    return ret;
}

/* Take "0123456789abcdef." from *S: exactly 16 lower-case digits that are not all zero, and a dot. */
static bool take_number(const char **s, uint64_t *ret)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t n = 0;

    for (int i = 0; i < 16; i++) {
        char c = (*s)[i];
        const char *digit = c ? strchr(digits, c) : NULL;
        if (!digit)
            return false;
        n = n << 4 | (uint64_t)(digit - digits);
    }
    if (n == 0 || (*s)[16] != '.')
        return false;
    *ret = n;
    *s += 17;
    return true;
}

bool shm_name_parse(const char *name, const struct shm_place *place, enum shm_kind *kind, uint64_t *epoch,
                    uint64_t *generation)
{
    char prefix[SHM_NAME_MAX];
    uint64_t numbers[2] = { 0, 0 };
    int count = 0;

    size_t len = (size_t)shm_prefix(prefix, place);
    if (strncmp(name, prefix, len) != 0)
        return false;
    name += len;
    while (count < 2 && take_number(&name, &numbers[count]))
        count++;
    for (int k = 0; k < SHM_KIND_END; k++) {
        if (shm_kinds[k].numbers == count && strcmp(shm_kinds[k].suffix, name) == 0) {
            *kind = (enum shm_kind)k;
            *epoch = numbers[0];
            *generation = numbers[1];
            return true;
        }
    }
    return false;
}
