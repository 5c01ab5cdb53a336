/*
 * Every error of skade, once: name, code, text.  Installed beside skade.h.
 *
 * A function that returns int returns 0 or more for success and one of these, or a negative errno, for failure.
 * Codes are part of the interface: append, never renumber.
 */
#ifndef SKADE_ERRORS_H
#define SKADE_ERRORS_H

/* clang-format off */
#define SKADE_ERROR_MAP(X)                                                                          \
    X(ENOTABLE,     -5001, "no such table")                                                         \
    X(ENOSNAPSHOT,  -5002, "no such snapshot")                                                      \
    X(EEXPIRED,     -5003, "the snapshot existed and was retired")                                  \
    X(ECONFLICT,    -5004, "the head of the table is not the expected one")                         \
    X(EEXISTS,      -5005, "a table of that name exists")                                           \
    X(EUNREACHABLE, -5006, "no skade daemon answers")                                               \
    X(EDENIED,      -5007, "this user may not do that")                                             \
    X(EINPUT,       -5008, "bad input")                                                             \
    X(EDAMAGED,     -5009, "damaged data")                                                          \
    X(EREPLACED,    -5010, "the commit log was replaced by another one")                            \
    X(ETIMEOUT,     -5011, "no answer in time")                                                     \
    X(EUNKNOWN,     -5012, "the outcome is unknown: ask again with the same uuid")                  \
    X(EVERSION,     -5013, "written or spoken by an incompatible version of skade")                 \
    X(EPROTOCOL,    -5014, "the peer broke the protocol")                                           \
    X(EKIND,        -5015, "this kind of table doesn't take that")                                  \
    X(EFULL,        -5016, "no space left: commits are refused, questions are answered")            \
    X(EBUSY,        -5017, "a limit of the daemon is reached: try again later")                     \
    X(ERUNNING,     -5018, "a daemon is already running here")                                      \
    X(EREADONLY,    -5019, "the daemon serves read-only")                                           \
    X(EFOREIGN,     -5020, "not a file of skade's, or not this user's")
/* clang-format on */

enum {
#define SKADE_ERROR_ENUM(name, code, text) SKADE_##name = (code),
    SKADE_ERROR_MAP(SKADE_ERROR_ENUM)
#undef SKADE_ERROR_ENUM
};

#endif
