/*
 * Daemons reduced to their publisher: what the tests of publication and take-over have in common.
 */
#ifndef SKADE_TEST_PUBLISHER_FIXTURE_H
#define SKADE_TEST_PUBLISHER_FIXTURE_H

#include "publisher.h"

#include <check.h>

#define STRANGER 54321 /* a uid that nobody has */

extern struct publisher_options options; /* of the place where a test is */
extern struct errmsg msg;                /* of the last call */

/* Go to a fresh directory, or to DIR. */
void fresh_place(void);
void use_place(const char *dir);

/* "DIR/NAME" in one of four buffers by turns. */
const char *in_place(const char *name);

/* Path of a file of this place. */
const char *shm_path(enum shm_kind kind, uint64_t epoch, uint64_t generation);

/* How many names there are, and whether NAME is one. */
unsigned count_names(void);
bool place_has(const char *path);
unsigned count_descriptors(void);

/* Must succeed. */
struct publisher *start(void);
void write_root(struct publisher *p, uint64_t generation);
void write_part(struct publisher *p, uint64_t generation, uint64_t from_seq, uint64_t to_seq);
struct publisher_takeover take_over(struct publisher *p, uint64_t generation, uint64_t last_epoch);

/* May fail: the root of GENERATION with TABLES tables, of EPOCH. */
int try_root(struct publisher *p, uint64_t generation, uint64_t epoch, uint32_t tables);

/* Bytes of that root. */
uint64_t root_bytes(uint32_t tables);

/* A page of this place as a client has it. */
struct control attach(void);

/* Plant something that is not the daemon's at PATH, and see that it is still there and unchanged. */
enum squatter { SQUAT_FIFO, SQUAT_DIRECTORY, SQUAT_SYMLINK, SQUAT_STRANGER, SQUAT_END };
bool squat(enum squatter what, const char *path); /* false when that takes root */
bool squats(enum squatter what, const char *path);
void unsquat(const char *path);

/* A regular file of ours with LEN bytes of DATA. */
void put_file(const char *path, const void *data, size_t len);

/* What happens at a fail point from now on (see failpoint.h), in this process and its children; NULL:
 * nothing again. */
void at_failpoint(const char *name, const char *what);
const char *failpoint_path(const char *name);
bool has_failpoints(void); /* false: says that the test is skipped */

/* Run FN in a child; its exit status, or minus the signal that killed it. */
int run_in_child(int (*fn)(void *), void *arg);
int wait_child(pid_t pid);

/* Become the user STRANGER for good.  False when that takes root. */
bool become_stranger(void);

#endif
