/*
 * skadectl and skaded as users run them, from tests: real processes in directories of their own.
 *
 * The programs are looked for where the test program was built (`make check` builds them first).
 */
#ifndef SKADE_TEST_CLI_RUN_H
#define SKADE_TEST_CLI_RUN_H

#include <stdbool.h>

/* What the last run said. */
struct cli_result {
    int exit; /* -1: killed by a signal */
    char out[1 << 18];
    char err[1 << 16];
};
extern struct cli_result cli;

/* Are both programs there?  Otherwise the tests have nothing to run. */
bool cli_is_built(void);

/* An unchecked fixture: where the directories of all tests are, also of those that fail. */
void cli_begin(void);
void cli_end(void);

/* A checked fixture: directories and a daemon that is ready; and away with both. */
void cli_setup(void);
void cli_teardown(void);

/* The directory of the fixture, for files. */
const char *cli_dir(void);

void cli_stop_daemon(void);
void cli_start_daemon(void);

/*
 * Run `skadectl ARGUMENTS`, a piece of shell command line, in the fixture's directory; what comes before the first `|`
 * of "words | ARGUMENTS" is a command whose output it reads.  Fills `cli`, returns the exit code.
 */
int ctl(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same for any command line; $CTL is skadectl. */
int cli_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Write TEXT to file NAME of the fixture's directory. */
void cli_write(const char *name, const char *text);

#endif
