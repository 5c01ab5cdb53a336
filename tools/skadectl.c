/*
 * skadectl: the operator's tool.  Reads the global options, finds the command in the table, opens the instance for it,
 * and makes sure at the end that what was printed was really written.
 */
#include "command.h"
#include "ctl.h"
#include "plain.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS 5000
#define PATIENCE_MS 3600000

/* With one of the standard descriptors closed the library's socket would get its number and our output would go to the
 * daemon.  What can't be read or written instead fails as the closed one would. */
static void fill_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

static int parse_global_values(struct ctl *c)
{
    const char *timeout = args_value(&c->args, "timeout");

    c->options.size = sizeof c->options;
    c->options.instance = args_value(&c->args, "instance");
    c->options.run_dir = args_value(&c->args, "run-dir");
    c->options.label = "skadectl";
    c->options.timeout_ms = TIMEOUT_MS;
    if (timeout) {
        if (parse_seconds(timeout, &c->options.timeout_ms) < 0)
            return ctl_usage(c, "--timeout %s is not a number of seconds above 0", timeout);
        c->timeout_given = true;
    }
    return 0;
}

static int check_arity(struct ctl *c)
{
    int min, max;
    char shown[128];

    args_arity(c->command->operands, &min, &max);
    if (c->args.count < min)
        return ctl_usage(c, "it needs %s", c->command->operands);
    if (c->args.count > max)
        return ctl_usage(c, "unexpected argument %s", plain(c->args.operands[max], shown, sizeof shown));
    return 0;
}

/* Is somebody there?  Asked with the usual patience before long work gets more of it, since a hung daemon shouldn't. */
static int knock(struct ctl *c)
{
    int r = ctl_open(c);

    if (r != 0)
        return r;
    ctl_question(c);
    int64_t rtt = skade_ping(c->s);
    r = rtt < 0 ? ctl_fail(c, NULL, (int)rtt) : 0;
    ctl_close(c);
    return r;
}

/* The command has something to do in any case; with a daemon that answers it waits for its long work, too. */
static int look_for_daemon(struct ctl *c)
{
    ctl_question(c);
    if (skade_ping(c->s) < 0)
        return 0;
    skade_deadline(c->s, -1);
    if (c->timeout_given)
        return 0;
    ctl_close(c);
    c->options.timeout_ms = PATIENCE_MS;
    return ctl_open(c);
}

static int run_connected(struct ctl *c)
{
    bool is_patient = c->command->connects == PATIENT;
    int r = is_patient ? knock(c) : 0;

    if (r != 0)
        return r;
    if (is_patient && !c->timeout_given)
        c->options.timeout_ms = PATIENCE_MS;
    r = ctl_open(c);
    if (r == 0 && c->command->connects == LOOKS)
        r = look_for_daemon(c);
    if (r != 0)
        return r;
    if (c->command->connects == CONNECTS)
        ctl_question(c);
    r = c->command->run(c);
    ctl_close(c);
    return r;
}

static int run_command(struct ctl *c, int argc, char **argv)
{
    c->args.special = c->command->options;
    if (args_parse(&c->args, argc, argv, false) < 0)
        return ctl_usage(c, "%s", c->args.problem);
    if (args_flag(&c->args, "help")) {
        command_help(stdout, c->command);
        return CTL_OK;
    }
    int r = parse_global_values(c);
    if (r == 0)
        r = check_arity(c);
    if (r != 0)
        return r;
    out_begin(&c->out, stdout, c->command->columns, args_flag(&c->args, "json"), ctl_on_terminal());
    return c->command->connects == ALONE ? c->command->run(c) : run_connected(c);
}

static int run(struct ctl *c, int argc, char **argv)
{
    char shown[128];

    if (args_parse(&c->args, argc, argv, true) < 0)
        return ctl_usage(c, "%s", c->args.problem);
    if (args_flag(&c->args, "version")) {
        printf("skadectl %s, libskadeclient %s\n", SKADE_VERSION, skade_version());
        return CTL_OK;
    }
    if (c->args.count == 0) {
        bool asked = args_flag(&c->args, "help");
        commands_help(asked ? stdout : stderr);
        return asked ? CTL_OK : CTL_USAGE;
    }
    const char *name = c->args.operands[0];
    c->command = command_find(name);
    if (!c->command)
        return ctl_usage(c, "there is no command %s", plain(name, shown, sizeof shown));
    return run_command(c, c->args.count - 1, c->args.operands + 1);
}

/* A full disk shows at the last write at the latest.  A reader who went away has had enough: no message then. */
static int finish(struct ctl *c, int code)
{
    errno = 0;
    bool bad = fflush(stdout) < 0 || ferror(stdout);
    int reason = c->out.error ? -c->out.error : errno;

    if (fclose(stdout) < 0) {
        bad = true;
        reason = reason ? reason : errno;
    }
    if (!bad)
        return code;
    if (reason != EPIPE)
        fprintf(stderr, "skadectl: standard output: %s\n", strerror(reason ? reason : EIO));
    return code ? code : CTL_FAILED;
}

int main(int argc, char **argv)
{
    struct ctl c = { .args = { .common = global_options } };

    fill_standard_descriptors();
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stderr, NULL, _IOLBF, 8192); /* whole lines, whoever else writes there */
    return finish(&c, run(&c, argc > 0 ? argc - 1 : 0, argv + 1));
}
