/*
 * help: the table of commands in words.
 */
#include "command.h"
#include "ctl.h"
#include "plain.h"

int cmd_help(struct ctl *c)
{
    char shown[128];

    if (c->args.count == 0) {
        commands_help(stdout);
        return CTL_OK;
    }
    const struct command *command = command_find(c->args.operands[0]);
    if (!command)
        return ctl_usage(c, "there is no command %s", plain(c->args.operands[0], shown, sizeof shown));
    command_help(stdout, command);
    return CTL_OK;
}
