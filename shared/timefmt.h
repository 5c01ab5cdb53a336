/*
 * Times as people write them: RFC 3339 with zone, dates, microseconds.  No locale, no time zone database.
 *
 * The calendar is the Gregorian one for all years, before 1582 and the year 0000 too, as RFC 3339 and ISO
 * 8601 have it.  Time is counted as POSIX does, without leap seconds: a second 60 has no number of its own
 * and is refused.
 */
#ifndef SKADE_TIMEFMT_H
#define SKADE_TIMEFMT_H

#include "util.h"

#define TIME_FORMAT_MAX 32 /* bytes that time_format() needs, NUL included */

/*
 * TEXT to microseconds since 1970 UTC.  0, or SKADE_EINPUT and *RET untouched.
 *
 *   2026-01-02T03:04:05.678901Z      RFC 3339 with Z or an offset like -05:30; t, z, and a blank for T, are
 *                                    fine; 1 to 9 fraction digits, of which those behind the sixth are cut off
 *   2026-01-02                       midnight UTC
 *   -1767323045678901                a signed decimal number: microseconds
 */
int time_parse(const char *text, int64_t *ret);

/* "2026-01-02T03:04:05.000006Z", or the number when the year isn't within 0000..9999.  What time_parse()
 * reads back to the same time.  TIME_FORMAT_MAX bytes at RET; returns it. */
char *time_format(int64_t time_us, char *ret);

#endif
