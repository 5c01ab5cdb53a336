/*
 * A person at a terminal: runs a program on a pseudo terminal, reads what it shows, presses keys, changes the size.
 *
 *     pty ROWS COLUMNS PROGRAM ARGUMENT...
 *
 * Lines of standard input say what to do; each is answered by "ok", or by what is wrong, which ends it:
 *
 *     await TEXT       until a whole picture has TEXT          lacks TEXT    the last picture hasn't
 *     fits             until a picture fits the terminal      key C         press it
 *     resize R C       as a window that is dragged             signal NAME   to the program: TERM HUP TSTP CONT
 *     stopped          it is stopped, the terminal restored
 *     ended STATUS     it ended so (128 + the signal), and the terminal is restored
 *
 *     leave            end; so does the end of standard input
 *
 * A picture is what comes between "home" and "clear the rest", without the escapes in it.  The terminal is restored when the
 * program went back to the first screen, shows the cursor, and the line discipline is what it was.
 */
#include "stress.h"

#include <stdint.h>
#include <sys/ioctl.h>
#include <termios.h>

#define PICTURE_MAX (1u << 17)
#define WAIT_MS 60000 /* for a program that does nothing any more: never reached by one that works */

static int master;
static pid_t program;
static struct termios before;
static unsigned rows, columns;
static char picture[PICTURE_MAX], growing[PICTURE_MAX];
static size_t grown;
static bool in_picture, second_screen, no_cursor;
static char escape[64];
static size_t escape_len; /* 0: not in one */

/* ---- what the program writes ------------------------------------------------------------------------------------- */

static void end_escape(void)
{
    escape[escape_len] = 0;
    escape_len = 0;
    if (strcmp(escape, "\033[?1049h") == 0)
        second_screen = true;
    else if (strcmp(escape, "\033[?1049l") == 0)
        second_screen = false;
    else if (strcmp(escape, "\033[?25l") == 0)
        no_cursor = true;
    else if (strcmp(escape, "\033[?25h") == 0)
        no_cursor = false;
    else if (strcmp(escape, "\033[H") == 0) {
        in_picture = true;
        grown = 0;
    } else if (strcmp(escape, "\033[J") == 0 && in_picture) {
        in_picture = false;
        growing[grown] = 0;
        memcpy(picture, growing, grown + 1);
    }
}

static void take(char c)
{
    if (escape_len > 0 || c == '\033') {
        if (escape_len + 1 == sizeof escape)
            die("an escape without an end");
        escape[escape_len++] = c;
        bool introducer = escape_len <= 2; /* ESC [ */
        if (!introducer && c >= '@' && c <= '~')
            end_escape();
        return;
    }
    if (!in_picture || c == '\r')
        return;
    if (grown + 1 == sizeof growing)
        die("a picture without an end");
    growing[grown++] = c;
}

/* False: the program has closed the terminal. */
static bool read_some(void)
{
    struct pollfd p = { .fd = master, .events = POLLIN };
    char bytes[4096];

    if (poll(&p, 1, WAIT_MS) == 0)
        die("it shows nothing new; the last was:\n%s", picture);
    ssize_t n = read(master, bytes, sizeof bytes);
    for (ssize_t i = 0; i < n; i++)
        take(bytes[i]);
    return n > 0;
}

static void await(const char *text)
{
    while (!strstr(picture, text))
        if (!read_some())
            die("it ended before it showed '%s'; the last was:\n%s", text, picture);
}

/* ---- judging -------------------------------------------------------------------------------------------------------- */

/* Characters, not bytes: names in tests are of one column each. */
static unsigned length_of(const char *line, size_t bytes)
{
    unsigned n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += ((unsigned char)line[i] & 0xc0) != 0x80;
    return n;
}

static bool fits(void)
{
    unsigned lines = 0;

    for (const char *at = picture;; at++) {
        size_t len = strcspn(at, "\n");
        if (length_of(at, len) > columns)
            return false;
        lines++;
        at += len;
        if (!*at)
            return lines <= rows && picture[0] != 0;
    }
}

/* After a change of size a picture of before may still be on its way. */
static void await_fit(void)
{
    while (!fits())
        if (!read_some())
            die("it ended before it fitted %u by %u; the last was:\n%s", rows, columns, picture);
}

static void check_restored(void)
{
    struct termios now;

    if (tcgetattr(master, &now) < 0)
        die("tcgetattr: %s", strerror(errno));
    if (second_screen || no_cursor)
        die("the terminal is left %s", second_screen ? "on the second screen" : "without cursor");
    if (now.c_lflag != before.c_lflag || now.c_iflag != before.c_iflag || now.c_oflag != before.c_oflag)
        die("the terminal's modes are not what they were");
}

/* ---- doing ------------------------------------------------------------------------------------------------------------ */

static void set_size(void)
{
    struct winsize w = { .ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns };
    if (ioctl(master, TIOCSWINSZ, &w) < 0)
        die("TIOCSWINSZ: %s", strerror(errno));
}

static void send_signal(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = { { "TERM", SIGTERM }, { "HUP", SIGHUP }, { "TSTP", SIGTSTP }, { "CONT", SIGCONT } };

    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        if (strcmp(signals[i].name, name) == 0) {
            kill(program, signals[i].number);
            return;
        }
    }
    die("no signal %s", name);
}

static void check_stopped(void)
{
    int status;

    if (waitpid(program, &status, WUNTRACED) != program || !WIFSTOPPED(status))
        die("it did not stop");
    while (second_screen || no_cursor)
        read_some();
    check_restored();
}

static void check_ended(int wanted)
{
    while (read_some())
        ;
    int status = reap(program);
    program = 0;
    if (status != wanted)
        die("it ended with %d", status);
    check_restored();
}

static void obey(char *line)
{
    const char *word = strtok(line, " "), *rest = strtok(NULL, "");

    rest = rest ? rest : "";
    if (!word)
        die("an empty line");
    if (strcmp(word, "await") == 0)
        await(rest);
    else if (strcmp(word, "lacks") == 0 && strstr(picture, rest))
        die("it shows '%s':\n%s", rest, picture);
    else if (strcmp(word, "fits") == 0)
        await_fit();
    else if (strcmp(word, "key") == 0 && write(master, rest, 1) != 1)
        die("write: %s", strerror(errno));
    else if (strcmp(word, "resize") == 0) {
        if (sscanf(rest, "%u %u", &rows, &columns) != 2)
            die("resize ROWS COLUMNS");
        picture[0] = 0;
        set_size();
    } else if (strcmp(word, "signal") == 0)
        send_signal(rest);
    else if (strcmp(word, "stopped") == 0)
        check_stopped();
    else if (strcmp(word, "ended") == 0)
        check_ended(atoi(rest));
    printf("ok\n");
    fflush(stdout);
}

/* In the foreground of the terminal. */
static _Noreturn void become(int slave, char **argv)
{
    setpgid(0, 0);
    signal(SIGTTOU, SIG_IGN);
    tcsetpgrp(slave, getpid());
    signal(SIGTTOU, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    for (int fd = 0; fd < 3; fd++)
        dup2(slave, fd);
    execvp(argv[0], argv);
    _exit(127);
}

static void start(char **argv)
{
    char *name;

    master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0 || !(name = ptsname(master)))
        die("no pseudo terminal: %s", strerror(errno));
    int slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0 || tcgetattr(slave, &before) < 0)
        die("%s: %s", name, strerror(errno));
    set_size();
    /* We are the session's leader, as a shell is: a program without a parent in its session can't be stopped. */
    if (setsid() < 0 || ioctl(slave, TIOCSCTTY, 0) < 0)
        die("no session: %s", strerror(errno));
    signal(SIGHUP, SIG_IGN); /* when the terminal closes */
    program = fork_child();
    if (program == 0)
        become(slave, argv);
    close(slave);
}

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t room = 0;

    if (argc < 4)
        die("usage: pty ROWS COLUMNS PROGRAM ARGUMENT...");
    rows = (unsigned)atoi(argv[1]);
    columns = (unsigned)atoi(argv[2]);
    start(argv + 3);
    for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;) {
        line[strcspn(line, "\n")] = 0;
        if (strcmp(line, "leave") == 0)
            break;
        obey(line);
    }
    free(line);
    if (program > 0)
        kill(program, SIGKILL);
    return 0;
}
