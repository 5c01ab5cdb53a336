#include "timefmt.h"

#include "skade_errors.h"

#include <inttypes.h>
#include <stdio.h>

#define DAY_S 86400
#define SECOND_US 1000000
#define DAYS_TO_1970 719528 /* from 0000-01-01 */
#define DAYS_IN_400_YEARS 146097

/* ---- calendar ------------------------------------------------------------------------------------------ */

struct date {
    int64_t year; /* 0 to 9999 */
    int month;    /* 1 to 12 */
    int day;
};

static bool is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int days_in_month(int64_t year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    return days[month - 1] + (month == 2 && is_leap(year));
}

/* Days from 0000-01-01 to the first of January of YEAR, 0 or more: 365 each, and the leap years before it. */
static int64_t days_to_year(int64_t year)
{
    return year * 365 + (year + 3) / 4 - (year + 99) / 100 + (year + 399) / 400;
}

static int64_t days_of_date(struct date d)
{
    int64_t days = days_to_year(d.year) + d.day - 1 - DAYS_TO_1970;
    for (int month = 1; month < d.month; month++)
        days += days_in_month(d.year, month);
    return days;
}

/* The inverse, for days whose year is 0 to 9999. */
static struct date date_of_days(int64_t days)
{
    struct date d = { .month = 1 };

    days += DAYS_TO_1970;
    d.year =
        days * 400 / DAYS_IN_400_YEARS; /* by the mean length of a year: off by one at most, either way */
    if (days_to_year(d.year) > days)
        d.year--;
    else if (days_to_year(d.year + 1) <= days)
        d.year++;
    days -= days_to_year(d.year);
    for (; days >= days_in_month(d.year, d.month); d.month++)
        days -= days_in_month(d.year, d.month);
    d.day = (int)days + 1;
    return d;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* A text that is read from left to right; once something doesn't fit, nothing fits any more. */
struct scan {
    const char *s;
    bool ok;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Exactly WIDTH digits whose number is within [MIN, MAX]. */
static int scan_number(struct scan *t, int width, int min, int max)
{
    int n = 0;

    for (int i = 0; i < width && t->ok; i++) {
        t->ok = is_digit(*t->s);
        if (t->ok)
            n = n * 10 + (*t->s++ - '0');
    }
    t->ok = t->ok && n >= min && n <= max;
    return t->ok ? n : min;
}

/* One of the characters in ANY; which. */
static char scan_char(struct scan *t, const char *any)
{
    t->ok = t->ok && *t->s && strchr(any, *t->s);
    return t->ok ? *t->s++ : 0;
}

/* ".678901" as microseconds.  Cutting digits off rounds towards the past, before 1970 too, since the
 * fraction is added to whole seconds: so "up to this moment" never takes in a commit that came after it. */
static int scan_fraction(struct scan *t)
{
    int us = 0, digits = 0;

    if (!t->ok || *t->s != '.')
        return 0;
    for (t->s++; is_digit(*t->s); t->s++) {
        if (++digits <= 6)
            us = us * 10 + (*t->s - '0');
    }
    t->ok = digits >= 1 && digits <= 9;
    for (; digits < 6; digits++)
        us *= 10;
    return us;
}

/* "Z" or "+05:30" as seconds east of UTC. */
static int scan_zone(struct scan *t)
{
    char sign = scan_char(t, "Zz+-");
    if (sign != '+' && sign != '-')
        return 0;
    int hours = scan_number(t, 2, 0, 23);
    scan_char(t, ":");
    int seconds = (hours * 60 + scan_number(t, 2, 0, 59)) * 60;
    return sign == '-' ? -seconds : seconds;
}

static struct date scan_date(struct scan *t)
{
    struct date d;

    d.year = scan_number(t, 4, 0, 9999);
    scan_char(t, "-");
    d.month = scan_number(t, 2, 1, 12);
    scan_char(t, "-");
    d.day = scan_number(t, 2, 1, days_in_month(d.year, d.month));
    return d;
}

/* The time of the day with its zone, as microseconds from midnight UTC. */
static int64_t scan_clock(struct scan *t)
{
    scan_char(t, "Tt ");
    int64_t seconds = scan_number(t, 2, 0, 23) * 3600;
    scan_char(t, ":");
    seconds += scan_number(t, 2, 0, 59) * 60;
    scan_char(t, ":");
    seconds += scan_number(t, 2, 0, 59);
    int us = scan_fraction(t);
    seconds -= scan_zone(t);
    return seconds * SECOND_US + us;
}

static int parse_date(const char *text, int64_t *ret)
{
    struct scan t = { text, true };

    int64_t us = days_of_date(scan_date(&t)) * DAY_S * SECOND_US;
    if (t.ok && *t.s)
        us += scan_clock(&t);
    if (!t.ok || *t.s)
        return SKADE_EINPUT;
    *ret = us;
    return 0;
}

/* Counted downwards: there is one more negative number than there are positive ones. */
static int parse_number(const char *digits, bool negative, int64_t *ret)
{
    int64_t n = 0;

    for (; *digits; digits++) {
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_sub_overflow(n, *digits - '0', &n))
            return SKADE_EINPUT;
    }
    if (!negative && __builtin_sub_overflow(0, n, &n))
        return SKADE_EINPUT;
    *ret = n;
    return 0;
}

int time_parse(const char *text, int64_t *ret)
{
    const char *digits = text + (*text == '-' || *text == '+');

    if (*digits && strspn(digits, "0123456789") == strlen(digits))
        return parse_number(digits, *text == '-', ret);
    return parse_date(text, ret);
}

/* ---- writing ------------------------------------------------------------------------------------------- */

/* N divided by D, rounded towards minus infinity; the remainder, 0 or more. */
static int64_t divide_down(int64_t n, int64_t d, int64_t *remainder)
{
    int64_t rest = n % d;
    *remainder = rest < 0 ? rest + d : rest;
    return n / d - (rest < 0);
}

char *time_format(int64_t time_us, char *ret)
{
    int64_t us, second;
    int64_t days = divide_down(divide_down(time_us, SECOND_US, &us), DAY_S, &second);

    if (days < -DAYS_TO_1970 || days >= days_to_year(10000) - DAYS_TO_1970) {
        snprintf(ret, TIME_FORMAT_MAX, "%" PRId64, time_us);
        return ret;
    }
    struct date d = date_of_days(days);
    snprintf(ret, TIME_FORMAT_MAX, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ", (unsigned)d.year % 10000,
             (unsigned)d.month % 100, (unsigned)d.day % 100, (unsigned)(second / 3600) % 100,
             (unsigned)(second / 60) % 60, (unsigned)second % 60, (unsigned)us % SECOND_US);
    return ret;
}
