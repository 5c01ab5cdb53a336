#include "acl.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

/* Layout and numbers of linux/posix_acl_xattr.h and linux/posix_acl.h, little-endian on every machine. */
#define NAME "system.posix_acl_access"
#define VERSION 2u
#define NO_ID 0xffffffffu
enum { USER_OBJ = 1, USER = 2, GROUP_OBJ = 4, GROUP = 8, MASK = 16, OTHER = 32 };
enum { NOTHING = 0, ENTER = 5, ALL = 7 }; /* r-x, rwx */

struct entry {
    uint16_t tag, perm;
    uint32_t id;
};

/* Three roles with all the users and groups that an option holds, and the four that every list has. */
#define ENTRIES_MAX                                            \
    (3 * (sizeof((option_users *)0)->users / sizeof(uid_t) +   \
          sizeof((option_users *)0)->groups / sizeof(gid_t)) + \
     4)

struct list {
    uint32_t version;
    struct entry entries[ENTRIES_MAX];
    size_t count; /* not part of the attribute */
};

static void put(struct list *l, unsigned tag, unsigned perm, uint32_t id)
{
    l->entries[l->count++] = (struct entry){ htole16((uint16_t)tag), htole16((uint16_t)perm), htole32(id) };
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = le32toh(((const struct entry *)a)->id), y = le32toh(((const struct entry *)b)->id);
    return (x > y) - (x < y);
}

/* The entries from FROM on: ascending and each once, as the kernel wants them. */
static void order(struct list *l, size_t from)
{
    size_t kept = from;

    qsort(l->entries + from, l->count - from, sizeof l->entries[0], compare_ids);
    for (size_t i = from; i < l->count; i++)
        if (kept == from || l->entries[kept - 1].id != l->entries[i].id)
            l->entries[kept++] = l->entries[i];
    l->count = kept;
}

static void put_users(struct list *l, const option_users *u)
{
    for (size_t i = 0; i < u->users_count; i++)
        put(l, USER, ENTER, u->users[i]);
}

static void put_groups(struct list *l, const option_users *u)
{
    for (size_t i = 0; i < u->groups_count; i++)
        put(l, GROUP, ENTER, u->groups[i]);
}

static size_t make(struct list *l, const struct config *c, gid_t group)
{
    l->version = htole32(VERSION);
    put(l, USER_OBJ, ALL, NO_ID);
    size_t from = l->count;
    put_users(l, &c->read);
    put_users(l, &c->write);
    put_users(l, &c->admin);
    order(l, from);
    put(l, GROUP_OBJ, group == (gid_t)-1 ? NOTHING : ENTER, NO_ID);
    from = l->count;
    put_groups(l, &c->read);
    put_groups(l, &c->write);
    put_groups(l, &c->admin);
    order(l, from);
    put(l, MASK, ENTER, NO_ID);
    put(l, OTHER, NOTHING, NO_ID);
    return sizeof l->version + l->count * sizeof l->entries[0];
}

int acl_admit(int fd, const struct config *c, gid_t group)
{
    struct list l = { .count = 0 };
    char now[sizeof l];

    size_t size = make(&l, c, group);
    ssize_t had = fgetxattr(fd, NAME, now, sizeof now);
    if (had == (ssize_t)size && memcmp(now, &l, size) == 0)
        return 1;
    return fsetxattr(fd, NAME, &l, size, 0) < 0 ? -errno : 0;
}

int acl_drop(int fd)
{
    if (fgetxattr(fd, NAME, NULL, 0) < 0)
        return 1; /* none, or none can be */
    return fremovexattr(fd, NAME) < 0 ? -errno : 0;
}

bool acl_is_needed(const struct config *c, gid_t group)
{
    const option_users *roles[] = { &c->read, &c->write, &c->admin };

    if (c->read.everyone || c->write.everyone || c->admin.everyone)
        return false;
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (roles[i]->users_count)
            return true;
        for (size_t g = 0; g < roles[i]->groups_count; g++)
            if (roles[i]->groups[g] != group)
                return true;
    }
    return false;
}
