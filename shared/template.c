#include "template.h"

#define DASHED_LEN 36
#define PLAIN_LEN 32
#define WIDTH_MAX 255

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* No bytes may come without an address, to which nothing can be added, not even 0. */
static struct bytes with_data(struct bytes b)
{
    return b.data ? b : (struct bytes){ "", 0 };
}

/* ---- uuids: eight digits at a time, each in a byte of a word, the first in the lowest -------------------- */

#define EVERY_BYTE 0x0101010101010101ull

static uint64_t digits_of_values(uint64_t values)
{
    uint64_t letters = ((values + 6 * EVERY_BYTE) >> 4) & EVERY_BYTE;
    return values + '0' * EVERY_BYTE + letters * ('a' - '0' - 10);
}

/* What eight characters mean if they are digits; they are if the way back gives the same characters. */
static bool read_eight(uint64_t characters, uint8_t ret[4])
{
    uint64_t letters = (characters >> 6) & EVERY_BYTE;
    uint64_t values = ((characters & 15 * EVERY_BYTE) + 9 * letters) & 15 * EVERY_BYTE;
    uint64_t x = (values << 4 | values >> 8) & 0x00ff00ff00ff00ffull;
    x = (x | x >> 8) & 0x0000ffff0000ffffull;
    x |= x >> 16;
    memcpy(ret, &x, 4);
    return digits_of_values(values) == characters;
}

static uint64_t write_eight(const uint8_t bytes[4])
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    uint64_t x = (word | (uint64_t)word << 16) & 0x0000ffff0000ffffull;
    x = (x | x << 8) & 0x00ff00ff00ff00ffull;
    return digits_of_values((x >> 4 & 0x000f000f000f000full) | (x & 0x000f000f000f000full) << 8);
}

/* Two pieces of four digits, with a dash between them. */
static uint64_t load_pieces(const char *text, size_t first, size_t second)
{
    uint64_t word = 0;
    memcpy(&word, text + first, 4);
    memcpy((char *)&word + 4, text + second, 4);
    return word;
}

static bool read_plain(const char *text, struct uuid *ret)
{
    bool right = true;
    for (size_t i = 0; i < 4; i++)
        right &= read_eight(load_pieces(text, i * 8, i * 8 + 4), ret->b + i * 4);
    return right;
}

static bool read_dashed(const char *text, struct uuid *ret)
{
    bool dashes = text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-';
    return dashes && read_eight(load_pieces(text, 0, 4), ret->b) &&
           read_eight(load_pieces(text, 9, 14), ret->b + 4) &&
           read_eight(load_pieces(text, 19, 24), ret->b + 8) &&
           read_eight(load_pieces(text, 28, 32), ret->b + 12);
}

static bool read_uuid(const char *text, bool dashed, struct uuid *ret)
{
    return dashed ? read_dashed(text, ret) : read_plain(text, ret);
}

/* ---- numbers --------------------------------------------------------------------------------------------- */

/* The number that all LEN digits at TEXT are, if it isn't too large. */
static bool read_number(const char *text, size_t len, uint32_t *ret)
{
    uint32_t number = 0;
    for (size_t i = 0; i < len; i++) {
        if (!is_digit(text[i]) || number > PART_NUMBER >> 4)
            return false;
        number = number << 4 | (uint32_t)(text[i] - '0');
    }
    *ret = number;
    return len > 0;
}

/* Is this how a number is written when it is padded to WIDTH? */
static bool is_padded(const char *digits, size_t len, size_t width)
{
    return len == width || (len > width && digits[0] != '0');
}

/* ---- finding a template ---------------------------------------------------------------------------------- */

/* Where the last uuid in [from, len) of the text starts; LEN when there is none. */
static size_t find_uuid(const char *text, size_t from, size_t len, bool dashed)
{
    size_t size = dashed ? DASHED_LEN : PLAIN_LEN;
    struct uuid uuid;
    for (size_t at = len; at >= from + size; at--) {
        size_t start = at - size;
        bool alone = (start == from || !is_hex(text[start - 1])) && (at == len || !is_hex(text[at]));
        if (alone && read_uuid(text + start, dashed, &uuid))
            return start;
    }
    return len;
}

static size_t digits_before(const char *text, size_t from, size_t end)
{
    size_t start = end;
    while (start > from && is_digit(text[start - 1]))
        start--;
    return end - start;
}

/* Cut the number [at, at + len) out of the text before the template's variable part. */
static bool take_number(struct template *t, const char *text, size_t at, size_t len)
{
    uint32_t number;
    if (len > WIDTH_MAX || !read_number(text + at, len, &number))
        return false;
    t->shape |= TEMPLATE_NUMBER;
    t->width = text[at] == '0' ? (uint8_t)len : 1;
    t->prefix_len = (uint16_t)at;
    return true;
}

static void take_number_before(struct template *t, const char *text, size_t from, size_t uuid)
{
    if (uuid < from + 2 || is_digit(text[uuid - 1]))
        return;
    size_t len = digits_before(text, from, uuid - 1);
    if (take_number(t, text, uuid - 1 - len, len)) {
        t->shape |= TEMPLATE_SEPARATOR;
        t->separator = text[uuid - 1];
    }
}

static bool take_uuid(struct template *t, struct bytes location, size_t from, bool dashed)
{
    size_t at = find_uuid(location.data, from, location.len, dashed);
    if (at == location.len)
        return false;
    size_t end = at + (dashed ? DASHED_LEN : PLAIN_LEN);
    t->shape = dashed ? TEMPLATE_DASHED : TEMPLATE_PLAIN;
    t->prefix_len = (uint16_t)at;
    t->suffix = location.data + end;
    t->suffix_len = (uint16_t)(location.len - end);
    take_number_before(t, location.data, from, at);
    return true;
}

static void take_first_number(struct template *t, struct bytes location, size_t from)
{
    size_t at = from;
    while (at < location.len && !is_digit(location.data[at]))
        at++;
    size_t end = at;
    while (end < location.len && is_digit(location.data[end]))
        end++;
    if (take_number(t, location.data, at, end - at)) {
        t->suffix = location.data + end;
        t->suffix_len = (uint16_t)(location.len - end);
    }
}

/* Number and uuid are looked for in the file's name only: a uuid in a folder's name is the table's. */
static size_t name_start(struct bytes location)
{
    const char *slash = location.len ? memrchr(location.data, '/', location.len) : NULL;
    return slash ? (size_t)(slash + 1 - location.data) : 0;
}

struct template template_of(struct bytes location)
{
    location = with_data(location);
    size_t from = name_start(location);
    struct template t = { .prefix = location.data,
                          .prefix_len = (uint16_t)location.len,
                          .suffix = location.data };
    if (!take_uuid(&t, location, from, true) && !take_uuid(&t, location, from, false))
        take_first_number(&t, location, from);
    return t;
}

static bool same_text(const struct template *a, const struct template *b)
{
    return bytes_equal((struct bytes){ a->prefix, a->prefix_len },
                       (struct bytes){ b->prefix, b->prefix_len }) &&
           bytes_equal((struct bytes){ a->suffix, a->suffix_len },
                       (struct bytes){ b->suffix, b->suffix_len });
}

static bool same_but_width(const struct template *a, const struct template *b)
{
    return a->shape == b->shape && a->separator == b->separator && same_text(a, b);
}

bool template_join(struct template *a, const struct template *b)
{
    if (!same_but_width(a, b))
        return false;
    if (a->width < b->width)
        a->width = b->width;
    return true;
}

bool template_equal(const struct template *a, const struct template *b)
{
    return a->width == b->width && same_but_width(a, b);
}

/* ---- fitting and rendering ------------------------------------------------------------------------------- */

static bool starts_and_ends(const struct template *t, struct bytes location)
{
    return location.len >= (size_t)t->prefix_len + t->suffix_len &&
           bytes_equal((struct bytes){ t->prefix, t->prefix_len },
                       (struct bytes){ location.data, t->prefix_len }) &&
           bytes_equal((struct bytes){ t->suffix, t->suffix_len },
                       (struct bytes){ location.data + location.len - t->suffix_len, t->suffix_len });
}

bool template_fit(const struct template *t, struct bytes location, struct template_values *ret)
{
    location = with_data(location);
    struct template_values values = { 0 };
    size_t uuid_len = template_uuid_len(t->shape);
    size_t separator_len = t->shape & TEMPLATE_SEPARATOR ? 1 : 0;
    if (!starts_and_ends(t, location))
        return false;
    const char *middle = location.data + t->prefix_len;
    size_t len = location.len - t->prefix_len - t->suffix_len;
    if (len < uuid_len + separator_len)
        return false;
    size_t digits = len - uuid_len - separator_len;
    if (uuid_len && !read_uuid(middle + len - uuid_len, t->shape & TEMPLATE_DASHED, &values.uuid))
        return false;
    if (separator_len && middle[digits] != t->separator)
        return false;
    if (!(t->shape & TEMPLATE_NUMBER) && digits)
        return false;
    if (t->shape & TEMPLATE_NUMBER &&
        (!read_number(middle, digits, &values.number) || !is_padded(middle, digits, t->width)))
        return false;
    *ret = values;
    return true;
}

static char *write_text(char *dst, const char *text, size_t len)
{
    return len ? (char *)memcpy(dst, text, len) + len : dst;
}

static char *write_number(char *dst, uint32_t number, unsigned digits)
{
    uint64_t eight = template_eight_digits(number);
    unsigned zeros = digits > 8 ? digits - 8 : 0;
    memset(dst, '0', zeros);
    memcpy(dst + zeros, (const char *)&eight + (8 - (digits - zeros)), digits - zeros);
    return dst + digits;
}

static char *write_uuid(char *dst, const uint8_t uuid[16], bool dashed)
{
    uint64_t digits[4];
    for (size_t i = 0; i < 4; i++)
        digits[i] = write_eight(uuid + i * 4);
    if (!dashed)
        return write_text(dst, (const char *)digits, sizeof digits);
    const char *from = (const char *)digits;
    memcpy(dst, from, 8);
    memcpy(dst + 9, from + 8, 4);
    memcpy(dst + 14, from + 12, 4);
    memcpy(dst + 19, from + 16, 4);
    memcpy(dst + 24, from + 20, 12);
    dst[8] = dst[13] = dst[18] = dst[23] = '-';
    return dst + DASHED_LEN;
}

size_t template_render(const struct template *t, uint32_t number, const uint8_t uuid[16], char *dst,
                       size_t cap)
{
    unsigned digits = t->shape & TEMPLATE_NUMBER ? template_digits(number, t->width) : 0;
    size_t len = template_len(t, t->shape, digits);
    if (len > cap)
        return len;
    char *end = write_text(dst, t->prefix, t->prefix_len);
    if (digits)
        end = write_number(end, number, digits);
    if (t->shape & TEMPLATE_SEPARATOR)
        *end++ = t->separator;
    if (template_uuid_len(t->shape))
        end = write_uuid(end, uuid, t->shape & TEMPLATE_DASHED);
    write_text(end, t->suffix, t->suffix_len);
    return len;
}
