/*
 * Prints the tables of docs/, and the man pages that are nothing but tables, from the tables of the code.
 */
#include "counters.h"
#include "skade_errors.h"
#include "wire.h"

#include <stdio.h>

static void protocol(void)
{
#define ITEM(NAME, name, doc) \
    printf("\n### item %s\n\n%s.\n\n| field | type | meaning |\n|---|---|---|\n", #name, doc);
#define MSG(number, NAME, name, sender, doc)                                                       \
    printf("\n### %d %s (%s)\n\n%s\n\n| field | type | meaning |\n|---|---|---|\n", number, #NAME, \
           #sender[0] == 'C' ? "client" : "daemon", doc);
#define FIELD(type, name, doc) printf("| %s | %s | %s |\n", #name, #type, doc);
#define LIST(item, name, doc) printf("| %s | list of %s | %s |\n", #name, #item, doc);
#include "messages.def"
}

static void counters(void)
{
    printf("| counter | kind | unit | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < COUNTER_END; i++)
        printf("| %s | %s | %s | %s |\n", counter_rows[i].name, counter_rows[i].kind, counter_rows[i].unit,
               counter_rows[i].help);
}

static void errors(void)
{
    printf("| code | name | text |\n|---|---|---|\n");
#define ROW(name, code, text) printf("| %d | SKADE_%s | %s |\n", code, #name, text);
    SKADE_ERROR_MAP(ROW)
#undef ROW
}

/* ---- man pages ---- */

/* TEXT as a paragraph of roff: no line begins with a dot or a quote, a backslash and a minus are themselves. */
static void roff(const char *text)
{
    bool line_begins = true;

    for (; *text; text++) {
        if (line_begins && (*text == '.' || *text == '\''))
            printf("\\&");
        if (*text == '\\')
            printf("\\e");
        else if (*text == '-')
            printf("\\-");
        else
            putchar(*text);
        line_begins = *text == '\n';
    }
    putchar('\n');
}

static void command_title(const char *name, const char *operands)
{
    printf(".SS \"%s %s\"\n", name, operands);
}

static void option_row(const char *name, const char *value)
{
    printf(".TP\n\\fB\\-\\-%s\\fR", name);
    if (value)
        printf(" \\fI%s\\fR", value);
    putchar('\n');
}

static void columns_row(const char *columns)
{
    if (*columns) {
        printf(".PP\nColumns: ");
        roff(columns);
    }
}

static void skadectl_1(void)
{
    printf(".TH SKADECTL 1 \"\" \"skade %s\"\n.SH NAME\nskadectl \\- ask and look after skade\n"
           ".SH SYNOPSIS\n.B skadectl\n[\\fIoption\\fR ...] \\fIcommand\\fR ...\n"
           ".SH DESCRIPTION\n",
           SKADE_VERSION);
    roff("Output is columns divided by one TAB, - for absent, times RFC 3339 UTC with microseconds, a header "
         "only on a "
         "terminal. An argument of - and digits is a number, not an option; -- ends the options.");
    printf(".SH OPTIONS OF EVERY COMMAND\n");
#define GLOBAL(name, value, doc) \
    option_row(name, value);     \
    roff(doc);
#include "commands.def"
    printf(".SH COMMANDS\n");
    const char *shown;
#define COMMAND(function, name, connects, operands, columns, doc) \
    command_title(name, operands);                                \
    roff(doc);                                                    \
    shown = columns;
#define OPTION(name, value, doc) \
    option_row(name, value);     \
    roff(doc);
#define END(function) columns_row(shown);
#include "commands.def"
    printf(".SH EXIT STATUS\n");
    roff("0 ok, 1 failure, 2 usage or wrong kind of table, 3 not found, 4 conflict or exists, 5 daemon "
         "unreachable, "
         "6 expired, 7 timed out, 8 permission denied. Of several answers: 5, else 3, else 6.");
    printf(".SH ENVIRONMENT\n");
    roff("SKADE_INSTANCE and SKADE_RUN_DIR are what --instance and --run-dir set. SKADE_SHM=no makes the "
         "library ask the "
         "daemon for everything.");
    printf(".SH SEE ALSO\n.BR skaded (8),\n.BR libskadeclient (3)\n");
}

static void skaded_conf_5(void)
{
    printf(".TH SKADED.CONF 5 \"\" \"skade %s\"\n.SH NAME\nskaded.conf \\- configuration of skaded\n"
           ".SH DESCRIPTION\n",
           SKADE_VERSION);
    roff("Lines `name = value`; # begins a comment. A line has at most 198 bytes and stands for itself. "
         "Every option can also be given on skaded's command line "
         "as "
         "--name=VALUE, which wins over the file. Durations take ms, s, min, h. Users are names, @groups or "
         "*.");
    printf(".SH OPTIONS\n");
#define OPTION(type, name, initial, min, max, when, doc)                                        \
    printf(".TP\n\\fB%s\\fR (%s%s%s%s)\n", #name, #type, *initial ? ", default " : "", initial, \
           #when[0] == 'R' ? ", SIGHUP changes it" : "");                                       \
    roff(doc);
#include "options.def"
    printf(".SH SEE ALSO\n.BR skaded (8)\n");
}

static const struct {
    const char *name;
    void (*print)(void);
} tables[] = { { "protocol", protocol },
               { "counters", counters },
               { "errors", errors },
               { "skadectl.1", skadectl_1 },
               { "skaded.conf.5", skaded_conf_5 } };

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < ARRAY_SIZE(tables); i++)
        if (strcmp(tables[i].name, argv[1]) == 0) {
            tables[i].print();
            return 0;
        }
    fprintf(stderr, "usage: tables");
    for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
        fprintf(stderr, "%c%s", i ? '|' : ' ', tables[i].name);
    fputc('\n', stderr);
    return 2;
}
