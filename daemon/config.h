/*
 * Configuration: defaults, then the file, then the command line.  The table is options.def.
 */
#ifndef SKADE_CONFIG_H
#define SKADE_CONFIG_H

#include "errors.h"
#include "util.h"

#include <stdio.h>
#include <sys/types.h>

#define OPTION_TEXT_MAX 1024

/* Types of options: what the parser accepts and what struct config holds. */
typedef struct option_string {
    char text[OPTION_TEXT_MAX];
} option_string;
typedef int64_t option_count;
typedef int64_t option_duration; /* milliseconds */
typedef int option_choice;       /* index into the alternatives */
typedef struct option_users {
    char text[OPTION_TEXT_MAX]; /* as given */
    bool everyone;
    size_t users_count, groups_count;
    uid_t users[64];
    gid_t groups[64];
} option_users;

struct config {
#define OPTION(type, name, def, min, max, when, doc) option_##type name;
#include "options.def"
};

enum { SYNC_FULL = 0, SYNC_NORMAL = 1 }; /* order of the choice in options.def */

/* Fill RET with the defaults. */
void config_defaults(struct config *ret);

/* Is there an option NAME? */
bool config_knows(const char *name);

/* Set option NAME to VALUE.  0, or SKADE_EINPUT with WHERE (a file; NULL: nothing), the option and what it takes in MSG. */
int config_set(struct config *c, const char *name, const char *value, const char *where, struct errmsg *msg);

/* Read FILE, `name = value` lines with # comments, over what C holds.  Every line stands for itself and is short: what the
 * parser would cut or join is refused.  0 or negative with file and line in MSG. */
int config_read(struct config *c, const char *file, struct errmsg *msg);

/* Resolve the empty paths for this user; check what depends on several options.  The instance gets its subfolder of the
 * data directory unless it is `default`. */
int config_finish(struct config *c, struct errmsg *msg);

/* Take from FRESH what may change while the daemon runs; returns how many START options differ and so need a restart, and
 * their names, with commas between, in WAITING. */
unsigned config_reload(struct config *running, const struct config *fresh, struct errmsg *waiting);

/* Write C as a configuration file with its documentation: conf/skaded.conf is this for the defaults. */
void config_print(const struct config *c, FILE *out);

/* One line for each option, for --help. */
void config_print_help(FILE *out);

/* Roles of a peer: bits of enum role. */
enum role { ROLE_READ = 1, ROLE_WRITE = 2, ROLE_ADMIN = 4 };
unsigned config_roles(const struct config *c, uid_t uid, gid_t gid, const gid_t *groups, size_t groups_count);

/* How the shared-memory files are readable: 0444, 0440 with *GROUP, or 0400. */
mode_t config_shm_mode(const struct config *c, gid_t *group);

#endif
