#include "cli_run.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct cli_result cli;

static char base[64], shm_base[64]; /* of all tests */
static char dir[80], shm_dir[80];   /* of this one */
static char skadectl[PATH_MAX + 16], skaded[PATH_MAX + 16];
static pid_t daemon_pid;

/* BUILD/tests/check is this program; the others are in BUILD. */
static void find_programs(void)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    if (n <= 0)
        return;
    self[n] = 0;
    for (int up = 0; up < 2; up++)
        *strrchr(self, '/') = 0;
    snprintf(skadectl, sizeof skadectl, "%s/skadectl", self);
    snprintf(skaded, sizeof skaded, "%s/skaded", self);
}

bool cli_is_built(void)
{
    find_programs();
    return access(skadectl, X_OK) == 0 && access(skaded, X_OK) == 0;
}

const char *cli_dir(void)
{
    return dir;
}

static void read_file(const char *name, char *ret, size_t size)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "re");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(ret, 1, size - 1, f);
    ret[n] = 0;
    fclose(f);
}

void cli_write(const char *name, const char *text)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

static int run_shell(const char *command)
{
    char whole[16384];

    snprintf(whole, sizeof whole, "cd %s && { %s ; } </dev/null >stdout.txt 2>stderr.txt", dir, command);
    int status = system(whole);
    read_file("stdout.txt", cli.out, sizeof cli.out);
    read_file("stderr.txt", cli.err, sizeof cli.err);
    cli.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return cli.exit;
}

int cli_shell(const char *format, ...)
{
    char command[16000];
    va_list ap;

    va_start(ap, format);
    ck_assert_int_lt(vsnprintf(command, sizeof command, format, ap), (int)sizeof command);
    va_end(ap);
    return run_shell(command);
}

int ctl(const char *format, ...)
{
    char arguments[15000], command[16000];
    va_list ap;

    va_start(ap, format);
    ck_assert_int_lt(vsnprintf(arguments, sizeof arguments, format, ap), (int)sizeof arguments);
    va_end(ap);
    char *bar = strstr(arguments, " | ");
    if (bar)
        *bar = 0;
    int len = snprintf(command, sizeof command, "%s%s$CTL %s", bar ? arguments : "", bar ? " | " : "",
                       bar ? bar + 3 : arguments);
    ck_assert_int_lt(len, (int)sizeof command);
    return run_shell(command);
}

/* It is ready when it says so; if it ends instead, its output does. */
static void wait_until_ready(int fd)
{
    char text[256] = "";
    size_t len = 0;
    ssize_t n = 1;

    while (n > 0 && !strchr(text, '\n') && len < sizeof text - 1) {
        n = read(fd, text + len, sizeof text - 1 - len);
        if (n > 0)
            text[len += (size_t)n] = 0;
    }
    ck_assert_msg(strncmp(text, "skaded: ready", 13) == 0, "the daemon doesn't start: %s", text);
}

void cli_start_daemon(void)
{
    int fds[2];
    char data[128], run[128];

    snprintf(data, sizeof data, "%s/data", dir);
    snprintf(run, sizeof run, "%s/run", dir);
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    daemon_pid = fork();
    if (daemon_pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves no daemon behind */
        dup2(fds[1], STDOUT_FILENO);
        execl(skaded, skaded, "--data-dir", data, "--run-dir", run, "--shm-dir", shm_dir, "--log-level",
              "warning", (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    wait_until_ready(fds[0]);
    close(fds[0]);
}

void cli_stop_daemon(void)
{
    int status;

    if (daemon_pid <= 0)
        return;
    kill(daemon_pid, SIGTERM);
    while (waitpid(daemon_pid, &status, 0) < 0 && errno == EINTR)
        ;
    daemon_pid = 0;
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}

static void remove_directories(const char *a, const char *b)
{
    char command[256];

    snprintf(command, sizeof command, "rm -rf %s %s", a, b);
    if (system(command) != 0)
        fprintf(stderr, "cannot remove %s %s\n", a, b);
}

void cli_begin(void)
{
    strcpy(base, "/tmp/skade-cli-XXXXXX");
    strcpy(shm_base, "/dev/shm/skade-cli-XXXXXX");
    if (!mkdtemp(base) || !mkdtemp(shm_base))
        abort();
}

void cli_end(void)
{
    remove_directories(base, shm_base);
}

void cli_setup(void)
{
    char run[128];

    find_programs();
    snprintf(dir, sizeof dir, "%s/XXXXXX", base);
    snprintf(shm_dir, sizeof shm_dir, "%s/XXXXXX", shm_base);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_ptr_nonnull(mkdtemp(shm_dir));
    snprintf(run, sizeof run, "%s/run", dir);
    setenv("CTL", skadectl, 1);
    setenv("SKADE_RUN_DIR", run, 1);
    unsetenv("SKADE_INSTANCE");
    cli_start_daemon();
}

void cli_teardown(void)
{
    cli_stop_daemon();
    remove_directories(dir, shm_dir);
}
