/*
 * Error codes and what skadectl makes of them: an exit code and a word, each in this table only.
 */
#include "ctl.h"

#include <errno.h>

static const struct {
    int code;
    enum ctl_exit exit;
    const char *word;
} codes[] = {
    { 1, CTL_OK, "found" },
    { 0, CTL_OK, "ok" },
    { SKADE_ENOTABLE, CTL_MISSING, "no_table" },
    { SKADE_ENOSNAPSHOT, CTL_MISSING, "no_snapshot" },
    { SKADE_EEXPIRED, CTL_EXPIRED, "expired" },
    { SKADE_ECONFLICT, CTL_CONFLICT, "conflict" },
    { SKADE_EEXISTS, CTL_CONFLICT, "exists" },
    { SKADE_EUNREACHABLE, CTL_UNREACHABLE, "unreachable" },
    { SKADE_EUNKNOWN, CTL_UNREACHABLE, "unknown" }, /* it went away before it answered */
    { SKADE_EDENIED, CTL_DENIED, "denied" },
    { SKADE_EINPUT, CTL_USAGE, "bad_input" },
    { SKADE_EKIND, CTL_USAGE, "wrong_kind" },
    { SKADE_ETIMEOUT, CTL_TIMED_OUT, "timed_out" },
    { SKADE_EDAMAGED, CTL_FAILED, "damaged" },
    { SKADE_EREPLACED, CTL_FAILED, "log_replaced" },
    { -EEXIST, CTL_CONFLICT, "exists" },
    { -EACCES, CTL_DENIED, "denied" },
    { -EPERM, CTL_DENIED, "denied" },
    { -ETIMEDOUT, CTL_TIMED_OUT, "timed_out" },
};

enum ctl_exit exit_of(int code)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i].code == code)
            return codes[i].exit;
    return CTL_FAILED;
}

const char *status_word(int code)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i].code == code)
            return codes[i].word;
    return "failed";
}

static int badness(int code)
{
    switch (code) {
    case CTL_OK:
        return 0;
    case CTL_EXPIRED:
        return 1;
    case CTL_MISSING:
        return 2;
    case CTL_UNREACHABLE:
        return 4;
    default:
        return 3;
    }
}

int exit_worse(int a, int b)
{
    return badness(b) > badness(a) ? b : a;
}
