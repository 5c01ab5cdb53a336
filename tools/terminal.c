#include "terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l"        /* the second screen, without cursor */
#define LEAVE "\033[0m\033[?25h\033[?1049l" /* and back */

/* Read in signal handlers, and changed before they are there or by them alone. */
static struct termios saved, ours;
static volatile sig_atomic_t entered, resized;
static bool has_keys;

int terminal_write(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, text, len);
        if (n < 0 && errno == EAGAIN)
            poll(&(struct pollfd){ .fd = STDOUT_FILENO, .events = POLLOUT }, 1, -1);
        else if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0) {
            text += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

/* ---- entering and leaving: only what a signal handler may call ------------------------------------------------------ */

/* Once, whatever comes of it: a terminal that hung up takes nothing. */
static void write_once(const char *text, size_t len)
{
    ssize_t ignored = write(STDOUT_FILENO, text, len);
    (void)ignored;
}

static void enter(void)
{
    if (has_keys)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &ours);
    write_once(ENTER, sizeof ENTER - 1);
    entered = 1;
}

static void leave(void)
{
    if (!entered)
        return;
    entered = 0;
    write_once(LEAVE, sizeof LEAVE - 1);
    if (has_keys)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
}

/* End as the signal ends programs, so that who waits for us sees it. */
static void end_by(int number)
{
    leave();
    signal(number, SIG_DFL);
    raise(number); /* blocked while its handler runs: it comes when that returns */
}

static void handle(int number, void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };

    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

static void stop_by(int number)
{
    sigset_t mine;
    int error = errno;

    leave();
    signal(number, SIG_DFL);
    sigemptyset(&mine);
    sigaddset(&mine, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &mine, NULL); /* stopped here, until SIGCONT */
    sigprocmask(SIG_BLOCK, &mine, NULL);
    handle(number, stop_by);
    enter();
    resized = 1;
    errno = error;
}

static void note_size(int number)
{
    (void)number;
    resized = 1;
}

/* ---- for the program --------------------------------------------------------------------------------------------------- */

int terminal_begin(void)
{
    static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    sigset_t size;

    if (!isatty(STDOUT_FILENO))
        return -errno;
    has_keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &saved) == 0;
    ours = saved;
    ours.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* ISIG stays: Ctrl-C is a signal */
    ours.c_cc[VMIN] = 1;
    ours.c_cc[VTIME] = 0;
    sigemptyset(&size);
    sigaddset(&size, SIGWINCH);
    sigprocmask(SIG_BLOCK, &size, NULL); /* it comes while we wait, and then only */
    handle(SIGWINCH, note_size);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        handle(ends[i], end_by);
    handle(SIGTSTP, stop_by);
    atexit(terminal_end);
    enter();
    return 0;
}

void terminal_end(void)
{
    leave();
}

void terminal_size(size_t *width, size_t *height)
{
    struct winsize w = { 0 };

    ioctl(STDOUT_FILENO, TIOCGWINSZ, &w);
    *width = w.ws_col ? w.ws_col : 80;
    *height = w.ws_row ? w.ws_row : 24;
}

static int read_key(short events)
{
    unsigned char key;
    ssize_t n = events & POLLIN ? read(STDIN_FILENO, &key, 1) : 0;

    if (n == 1 && key != 0)
        return key;
    return n == 1 || (n < 0 && errno == EINTR) ? TERMINAL_TIME : TERMINAL_GONE;
}

int terminal_wait(int ms)
{
    struct pollfd in = { .fd = has_keys ? STDIN_FILENO : -1, .events = POLLIN };
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
    sigset_t none;

    sigemptyset(&none);
    int n = ppoll(&in, 1, &t, &none);
    if (resized) {
        resized = 0;
        return TERMINAL_RESIZED;
    }
    return n > 0 ? read_key(in.revents) : TERMINAL_TIME;
}
