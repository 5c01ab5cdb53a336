/*
 * skaded: arguments, and what is done without serving.  The daemon itself is server.c.
 */
#include "log.h"
#include "renew.h"
#include "server.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_RUNNING = 3 };

/* Threads of libuv, unless the environment says otherwise.  Each append that is being made durable sits in one and waits for
 * the disk, and the more wait at a time, the more are done by one turn of the disk. */
#define WORKERS "16"

/* ---- arguments -------------------------------------------------------------------------------------------------------- */

enum mode { MODE_RUN, MODE_CHECK_CONFIG, MODE_PRINT_CONFIG, MODE_CHECK_LOG, MODE_RENEW_LOG };

struct arguments {
    enum mode mode;
    const char *config_file;
    const char *log_file; /* --check-log: NULL means this instance's; --renew-log */
};

static void print_help(void)
{
    printf("usage: skaded [--config FILE] [--<option>=VALUE ...]\n"
           "              [--check-config | --print-config | --check-log [FILE] | --renew-log FILE | "
           "--version | --help]\n"
           "\n"
           "Keeps the commit log of one instance and publishes its index in shared memory.\n"
           "Runs in the foreground; prints `skaded: ready` when it serves.\n"
           "--check-log verifies a log or backup. --renew-log, for `skadectl restore`, verifies a copy of a "
           "backup and makes\n"
           "it a log that clients don't take for the one that they know.\n"
           "\n"
           "Options, here or as `name = value` in FILE:\n");
    config_print_help(stdout);
    printf("\nExit: 0 clean stop, 2 usage or configuration, 3 already running, 1 anything else.\n");
}

/* `--name=VALUE` or `--name VALUE`, with - for _; how many arguments it took, or negative. */
static int take_option(struct config *c, char **argv, int left, struct errmsg *msg)
{
    char name[64];
    const char *value = strchr(argv[0], '=');
    size_t len = value ? (size_t)(value - argv[0]) - 2 : strlen(argv[0]) - 2;

    if (len >= sizeof name)
        return fail(msg, SKADE_EINPUT, "there is no option %s; skaded --help lists them", argv[0]);
    for (size_t i = 0; i < len; i++)
        name[i] = argv[0][2 + i] == '-' ? '_' : argv[0][2 + i];
    name[len] = 0;
    if (!config_knows(name))
        return fail(msg, SKADE_EINPUT, "there is no option %.*s; skaded --help lists them", (int)len + 2,
                    argv[0]);
    if (!value && left < 2)
        return fail(msg, SKADE_EINPUT, "%s needs a value; skaded --help lists the options", argv[0]);
    int r = config_set(c, name, value ? value + 1 : argv[1], NULL, msg);
    return r < 0 ? r : (value ? 1 : 2);
}

/* The file first, then the command line over it. */
static int take_arguments(int argc, char **argv, struct arguments *args, struct config *c, struct errmsg *msg)
{
    assert(argv);
    config_defaults(c);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--config=", 9) == 0)
            args->config_file = argv[i] + 9;
        else if (strcmp(argv[i], "--config") == 0 && i + 1 < argc)
            args->config_file = argv[i + 1];
    }
    int r = args->config_file ? config_read(c, args->config_file, msg) : 0;
    for (int i = 1, taken = 1; r >= 0 && i < argc; i += taken) {
        assert(argv[i]);
        r = 0;
        if (strncmp(argv[i], "--config=", 9) == 0)
            r = 1;
        else if (strcmp(argv[i], "--config") == 0)
            r = i + 1 < argc ? 2 : fail(msg, SKADE_EINPUT, "--config needs a file");
        else if (strcmp(argv[i], "--check-config") == 0)
            args->mode = MODE_CHECK_CONFIG;
        else if (strcmp(argv[i], "--print-config") == 0)
            args->mode = MODE_PRINT_CONFIG;
        else if (strcmp(argv[i], "--check-log") == 0) {
            args->mode = MODE_CHECK_LOG;
            if (i + 1 < argc && argv[i + 1][0] != '-') {
                args->log_file = argv[i + 1];
                r = 2;
            }
        } else if (strcmp(argv[i], "--renew-log") == 0) {
            args->mode = MODE_RENEW_LOG;
            args->log_file = i + 1 < argc ? argv[i + 1] : NULL;
            r = args->log_file ? 2 : fail(msg, SKADE_EINPUT, "--renew-log needs a file");
        } else if (strncmp(argv[i], "--", 2) == 0)
            r = take_option(c, argv + i, argc - i, msg);
        else
            r = fail(msg, SKADE_EINPUT, "'%s' is not an option; skaded --help lists them", argv[i]);
        taken = r > 1 ? r : 1;
    }
    return r < 0 ? r : config_finish(c, msg);
}

/* --check-log and --renew-log. */
static int look_at_log(const struct config *c, const struct arguments *args)
{
    char path[OPTION_TEXT_MAX + 32];
    const char *file = args->log_file ? args->log_file : path;
    struct commitlog_meta meta;
    struct errmsg msg = { "" };

    snprintf(path, sizeof path, "%s/log/skade.db", c->data_dir.text);
    int r = args->mode == MODE_RENEW_LOG ? commitlog_renew_file(file, &meta, &msg)
                                         : commitlog_check_file(file, &meta, &msg);
    if (r < 0) {
        fprintf(stderr, "skaded: %s\n", msg.text);
        return r == SKADE_ERUNNING ? EXIT_RUNNING : EXIT_FAILED;
    }
    printf("%s\t%" PRIu64 "\t%" PRIu64 "\n", file, meta.last_seq, meta.bytes);
    return EXIT_OK;
}

/* SIGHUP reads file and command line again. */
static int arguments_count;
static char **arguments;

static int configure_again(struct config *fresh, struct errmsg *msg)
{
    struct arguments args = { .mode = MODE_RUN };
    return take_arguments(arguments_count, arguments, &args, fresh, msg);
}

/* What we open must not become descriptor 0, 1 or 2: messages are written there. */
static void fill_standard_descriptors(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= 2);
    if (fd >= 0)
        close(fd);
}

/* The limit that the shell gave is often 1024; each connection needs one. */
static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv)
{
    static struct server s;
    struct arguments args = { .mode = MODE_RUN };
    struct errmsg msg = { "" };

    fill_standard_descriptors();
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            print_help();
            return EXIT_OK;
        }
        if (strcmp(argv[i], "--version") == 0) {
            printf("skaded %s\n", SKADE_VERSION);
            return EXIT_OK;
        }
    }
    arguments_count = argc;
    arguments = argv;
    s.configure = configure_again;
    if (take_arguments(argc, argv, &args, &s.config, &msg) < 0) {
        fprintf(stderr, "skaded: %s\n", msg.text);
        return EXIT_USAGE;
    }
    if (args.mode == MODE_PRINT_CONFIG)
        config_print(&s.config, stdout);
    if (args.mode == MODE_CHECK_CONFIG)
        printf("configuration is good\n");
    if (args.mode == MODE_CHECK_LOG || args.mode == MODE_RENEW_LOG)
        return look_at_log(&s.config, &args);
    if (args.mode != MODE_RUN)
        return EXIT_OK;

    log_set_level((enum log_level)s.config.log_level);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is an error like a full disk, not an end */
    raise_file_limit();
    setenv("UV_THREADPOOL_SIZE", WORKERS, 0);
    uv_loop_init(&s.loop);
    int r = server_start(&s, &msg);
    if (r < 0) {
        log_error("%s", msg.text[0] ? msg.text : error_text(r));
        return r == SKADE_ERUNNING ? EXIT_RUNNING : EXIT_FAILED;
    }
    r = server_run(&s);
    if (r != SERVER_RENEW)
        return r;
    log_error("the daemon can't begin anew: %s", error_text(renew(argv)));
    return EXIT_FAILED;
}
