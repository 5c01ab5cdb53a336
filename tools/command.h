/*
 * The table of subcommands, made from commands.def, and what is told about them.
 */
#ifndef SKADE_COMMAND_H
#define SKADE_COMMAND_H

#include "args.h"

#include <stdio.h>

struct ctl;

struct command {
    const char *name;
    int (*run)(struct ctl *c);
    enum { ALONE, CONNECTS, PATIENT, LOOKS } connects; /* see commands.def */
    const char *operands;
    const char *columns;
    const char *doc; /* a sentence, and perhaps more behind a newline */
    const struct option_spec *options;
};

/* All of them; the one without a name ends the table. */
extern const struct command commands[];
extern const struct option_spec global_options[];

/* NULL when there is none. */
const struct command *command_find(const char *name);

/* Everything that --help says: of one command, and of skadectl. */
void command_help(FILE *file, const struct command *command);
void commands_help(FILE *file);

#endif
