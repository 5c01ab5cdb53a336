/*
 * Which names are names: tables, instances, shared-memory files.
 */
#ifndef SKADE_NAMES_H
#define SKADE_NAMES_H

#include "util.h"

#define INSTANCE_MAX 32
#define SHM_NAME_MAX 160 /* bytes of a shared-memory file's name, NUL included */
#define SHM_DIR_MAX 256  /* bytes of the directory's path, NUL included */

/* NULL when NAME is a table name, else the reason why not (lent for ever): UTF-8, 1 to 1024 bytes, levels
 * divided by '.', none of them empty, no '/', no control characters (C0, DEL, C1). */
const char *table_name_problem(struct bytes name);

/* NULL when NAME is an instance name: 1 to 32 of a-z 0-9 _ -; else the reason. */
const char *instance_name_problem(const char *name);

/* Is LOCATION a metadata location: 1 to 4096 bytes without NUL, valid UTF-8, no control characters? NULL
 * or the reason. */
const char *location_problem(struct bytes location);

/* Every control character, and every byte that isn't UTF-8, becomes '?': for what quotes bytes of others to people. */
void text_make_printable(char *text);

/* Where an instance's shared-memory files are and whose they must be. */
struct shm_place {
    char dir[SHM_DIR_MAX];
    char instance[INSTANCE_MAX + 1];
    uint32_t
        uid; /* of the run directory's owner: in the names, and the only owner besides root that is trusted */
};

enum shm_kind {
    SHM_CONTROL,       /* skade.<uid>.<instance>.v1.ctl */
    SHM_CONTROL_ALIAS, /* ...v1.<epoch>.ctl */
    SHM_ROOT,          /* ...v1.<epoch>.<generation>.root */
    SHM_PART,          /* ...v1.<epoch>.<generation>.part */
    SHM_TAIL,          /* ...v1.<epoch>.<generation>.tail */
    SHM_TEMP,          /* ...v1.<epoch>.<number>.tmp: on its way to another name, read by nobody */
    SHM_LOCK,          /* ...v1.lock */
    SHM_KIND_END
};

/* Write the file name (without directory) to RET, SHM_NAME_MAX bytes; returns RET.  EPOCH and GENERATION
 * are ignored when the kind has none, and not 0 otherwise. */
char *shm_name(char *ret, const struct shm_place *place, enum shm_kind kind, uint64_t epoch,
               uint64_t generation);

/* Parse a file name strictly: true when shm_name() would have made exactly this name for PLACE.  The
 * results say from what; they are 0 where the kind has none. */
bool shm_name_parse(const char *name, const struct shm_place *place, enum shm_kind *kind, uint64_t *epoch,
                    uint64_t *generation);

#endif
