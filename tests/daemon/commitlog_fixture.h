/*
 * What the commit log's suites share: scratch directories, events that follow from their sequence number,
 * and the question whether a log holds exactly those.
 */
#ifndef TEST_COMMITLOG_FIXTURE_H
#define TEST_COMMITLOG_FIXTURE_H

#include "commitlog.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>

/* Unchecked fixtures: everything below one directory, removed when the case is over, also after a
 * crash of a test. */
void scratch_setup(void);
void scratch_teardown(void);

/* A path below the scratch directory that no other call got.  Lends until the process ends. */
const char *scratch_path(const char *name);
const char *path_in(const char *dir, const char *name); /* lends, like scratch_path() */

/* The event of sequence SEQ: always the same.  BUF holds its texts. */
struct sample {
    struct event event;
    char text[64];
    char text2[64];
};
void make_sample(struct sample *s, uint64_t seq);
bool is_sample(const struct event *e);

/* 0, or the error.  Without a look at the structure: the chain alone must do. */
int try_open(struct commitlog **ret, const char *dir, struct errmsg *msg);
/* These fail the test with the message. */
struct commitlog *must_open(const char *dir);
struct commitlog *must_open_with(struct commitlog_options opt);

/* Append the next N samples as one group; its result. */
int append_samples(struct commitlog *log, uint64_t n, struct errmsg *msg);
void must_append(struct commitlog *log, uint64_t n);

/* Read LOG from the start.  How many samples came before the end or the error that goes to *ERROR;
 * fails the test when one of them is anything else than the sample. */
uint64_t count_samples(struct commitlog *log, int *error, struct errmsg *msg);
void must_hold(struct commitlog *log, uint64_t n); /* exactly N samples, and the chain agrees */
void reopen_must_hold(const char *dir, uint64_t n);

/* Bytes of a file; gives.  And back. */
struct blob {
    unsigned char *data;
    size_t len;
};
struct blob read_blob(const char *path);
void write_blob(const char *path, const struct blob *b);
void copy_to(const char *from, const char *to); /* 0600 */
bool exists(const char *path);

/* Run SQL on the closed database at PATH, as any other program could. */
void raw_sql(const char *path, const char *sql);
int64_t raw_number(const char *path, const char *sql);

/* What a directory holds: names, types, modes, content, as one number. */
uint64_t fingerprint(const char *dir);

/* Fork; the child runs FN(ARG) and exits with what it returns. */
int in_child(int (*fn)(void *arg), void *arg); /* its exit status, or -signal */

#endif
