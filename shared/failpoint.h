/*
 * Named places where a test can make the world go wrong.  They exist only in builds with SKADE_FAILPOINTS.
 *
 * A test names a directory in SKADE_FAILPOINT_DIR.  When execution reaches FAILPOINT("log.commit") and that directory
 * holds an entry "log.commit", the entry's type and content say what happens:
 *
 *   a FIFO                 hold.  Opening it for writing returns when the test opens it for reading: so the test knows
 *                          that the place is reached.  Then this side reads until the test, which opens it for
 *                          writing, closes it.  No clock is involved on either side.
 *   a file "kill"          this process is killed with SIGKILL
 *   a file "fail NUMBER"   FAILPOINT() returns -NUMBER, as if the system had: "fail 28" is -ENOSPC
 *   a file "count N REST"  skip N arrivals (the file is rewritten with N - 1), then do REST
 */
#ifndef SKADE_FAILPOINT_H
#define SKADE_FAILPOINT_H

#ifdef SKADE_FAILPOINTS
/* A test that runs the code in its own process may answer instead of the directory: what FAILPOINT() returns. */
extern int (*failpoint_answer)(const char *name);
int failpoint(const char *name);
#define FAILPOINT(name) failpoint(name)
#else
#define FAILPOINT(name) (0)
#endif

#endif
