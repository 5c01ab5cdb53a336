/*
 * What the tests of stored tables share: a real daemon (tools/cli_run.h), handles on it, tables with rows, and the rows
 * of a scan as one text.
 */
#ifndef SKADE_TEST_ROWS_KIT_H
#define SKADE_TEST_ROWS_KIT_H

#include "skade.h"

#include <check.h>
#include <stdbool.h>

/* Add T's tests after this: a daemon for each.  False: skaded isn't built. */
bool kit_fixture(TCase *t);

/* Ends the test unless R >= 0. */
#define kit_ok(s, r)                                                                        \
    do {                                                                                    \
        int64_t r_ = (r);                                                                   \
        ck_assert_msg(r_ >= 0, "%s:%d: %s: %s", __FILE__, __LINE__, skade_errname((int)r_), \
                      skade_errmsg(s));                                                     \
    } while (0)

skade *kit_open(void);
skade *kit_open_as(const char *label);
skade_table kit_table(skade *s, const char *name);    /* a stored one */
skade_table kit_external(skade *s, const char *name); /* one that isn't */

/* One commit of what TEXT says: words "k=v" (a row with a key), "=v" (one without), "k!" (a deletion). */
struct skade_appended kit_append(skade *s, skade_table t, const char *text);

/* Part PART of PARTS of the rows of SCAN as such words; the text is the caller's. */
char *kit_part(skade_scan *scan, unsigned flags, unsigned part, unsigned parts);
/* The rows of T, oldest first, as OPTIONS say: they must be WANT. */
void kit_rows(skade *s, skade_table t, const struct skade_scan_options *options, const char *want);

/* A get of KEY must find WANT; NULL: nothing. */
void kit_get(skade *s, skade_table t, const struct skade_scan_options *options, const char *key,
             const char *want);

/* Files of table T on disk, in all its directories. */
size_t kit_files(skade_table t);
/* Their bytes in directory N of T; -1: there is no such directory. */
int64_t kit_bytes(skade_table t, unsigned n);
void kit_await_no_dir(skade_table t, unsigned n);
/* Wait until there are N: what the daemon does without telling anyone.  Ends with the test's limit. */
void kit_await_files(skade_table t, size_t n);
/* Wait until what was committed has lost its marks: the last thing that is done for it, after the answer. */
void kit_await_settled(skade_table t);

/* Whether this build has fail points; says that the test is skipped when it hasn't. */
bool kit_has_failpoints(void);

/* A fail point that holds: make it, wait until the daemon is there, let it go. */
void kit_hold(const char *point);
void kit_await(const char *point);
void kit_let_go(const char *point);
/* Instead of letting it go: who is there stays until the descriptor is closed, and nobody else is held. */
int kit_keep(const char *point);
/* From now on it does what a file with TEXT says (failpoint.h); NULL: nothing any more. */
void kit_point(const char *point, const char *text);
char *kit_point_text(const char *point); /* what is left of a count; the caller's */

#endif
