/*
 * Table names looked up once each, for a while: thousands of lines name a few tables, but a name may be given to another
 * table at any time, so that whoever uses this says when to forget.
 */
#ifndef SKADE_NAME_CACHE_H
#define SKADE_NAME_CACHE_H

#include <skade.h>
#include <stddef.h>

struct name_slot {
    char *name; /* NULL: free */
    size_t hash;
    skade_table table;
    int result; /* 1 and table, or why not */
};

/* Zero is an empty cache. */
struct name_cache {
    struct name_slot *slots;
    size_t size; /* 0 or a power of two, at least twice the count */
    size_t count;
    size_t seed; /* names come from strangers, who shouldn't know which ones meet */
};

/* The lookup behind it: of a handle, or a view. */
typedef int (*name_lookup)(void *from, const char *name, skade_table *ret);

/* What LOOKUP(FROM, NAME, RET) returned the first time.  Also -ENOMEM. */
int name_cache_find(struct name_cache *c, const char *name, name_lookup lookup, void *from, skade_table *ret);

/* Forget all names. */
void name_cache_clear(struct name_cache *c);

#endif
