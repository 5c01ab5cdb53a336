#include "command.h"

#include "ctl.h"

#include <string.h>

#define LINE_WIDTH 100

#define GLOBAL(name, value, doc) { name, value, doc },
const struct option_spec global_options[] = {
#include "commands.def"
    { NULL, NULL, NULL }
};

#define COMMAND(function, name, connects, operands, columns, doc) \
    static const struct option_spec options_of_##function[] = {
#define OPTION(name, value, doc) { name, value, doc },
#define END(function)    \
    {                    \
        NULL, NULL, NULL \
    }                    \
    }                    \
    ;
#include "commands.def"

const struct command commands[] = {
#define COMMAND(function, name, connects, operands, columns, doc) \
    { name, cmd_##function, connects, operands, columns, doc, options_of_##function },
#include "commands.def"
    { NULL, NULL, ALONE, NULL, NULL, NULL, NULL }
};

const struct command *command_find(const char *name)
{
    for (const struct command *c = commands; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

/* ---- help ---- */

/* TEXT in lines that begin with INDENT blanks, the first of them already printed.  A newline in it is kept. */
static void print_wrapped(FILE *file, const char *text, size_t indent)
{
    size_t at = indent;

    for (const char *p = text; *p;) {
        size_t word = strcspn(p, " \n");
        if (at > indent && at + 1 + word > LINE_WIDTH) {
            fprintf(file, "\n%*s", (int)indent, "");
            at = indent;
        }
        at += (size_t)fprintf(file, "%s%.*s", at > indent ? " " : "", (int)word, p);
        p += word;
        if (*p == '\n') {
            fprintf(file, "\n%*s", (int)indent, "");
            at = indent;
        }
        p += *p != 0;
    }
    fputc('\n', file);
}

static void print_option(FILE *file, const struct option_spec *o)
{
    char left[64];

    snprintf(left, sizeof left, "--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    fprintf(file, "  %-22s ", left);
    if (strlen(left) > 22)
        fprintf(file, "\n%25s", "");
    print_wrapped(file, o->doc, 25);
}

/* `table snapshot +status` in words. */
static void print_columns(FILE *file, const char *columns)
{
    const char *plus = strstr(columns, " +");
    size_t len = plus ? (size_t)(plus - columns) : strlen(columns);

    fprintf(file, "\nColumns: %.*s\n", (int)len, columns);
    if (!plus)
        return;
    fputs("With --json also:", file);
    for (const char *p = plus; p; p = strstr(p + 2, " +"))
        fprintf(file, " %.*s", (int)strcspn(p + 2, " "), p + 2);
    fputc('\n', file);
}

static void print_usage(FILE *file, const struct command *command)
{
    int at = fprintf(file, "Usage: skadectl %s%s%s", command->name, *command->operands ? " " : "",
                     command->operands);

    for (const struct option_spec *o = command->options; o->name; o++) {
        char option[64];
        int len = snprintf(option, sizeof option, "[--%s%s%s]", o->name, o->value ? " " : "",
                           o->value ? o->value : "");
        if (at + 1 + len > LINE_WIDTH)
            at = fprintf(file, "\n%*s", 15, "") - 1;
        at += fprintf(file, " %s", option);
    }
    fputs("\n\n", file);
}

void command_help(FILE *file, const struct command *command)
{
    print_usage(file, command);
    print_wrapped(file, command->doc, 0);
    if (command->options->name)
        fputs("\nOptions:\n", file);
    for (const struct option_spec *o = command->options; o->name; o++)
        print_option(file, o);
    if (*command->columns)
        print_columns(file, command->columns);
}

void commands_help(FILE *file)
{
    fputs("Usage: skadectl [--instance NAME] [--run-dir DIR] [--json] [--timeout SECONDS] COMMAND ...\n\n"
          "Ask and look after skade, which knows where the metadata of a table is.\n\nCommands:\n",
          file);
    for (const struct command *c = commands; c->name; c++)
        fprintf(file, "  %-10s %.*s\n", c->name, (int)strcspn(c->doc, "\n"), c->doc);
    fputs("\nOptions of every command:\n", file);
    for (const struct option_spec *o = global_options; o->name; o++)
        print_option(file, o);
    fputs("\n", file);
    print_wrapped(file,
                  "Output: columns divided by one TAB, - for absent, times RFC 3339 UTC, a header only on a "
                  "terminal. An argument of - and digits is a number, not an option; -- ends the options.\n"
                  "Exit code: 0 ok, 1 failure, 2 usage or wrong kind of table, 3 not found, 4 conflict or "
                  "exists, 5 daemon unreachable, 6 expired, 7 timed out, 8 permission denied.\n"
                  "`skadectl COMMAND --help` explains a command.",
                  0);
}
