#include "control.h"

#include "checksum.h"
#include "once.h"

/* The reason why HEAD, a copy of a page's immutable block, is none; NULL when all is well. */
static const char *head_problem(const struct control_page *head)
{
    if (head->size != CONTROL_SIZE)
        return "its size is wrong";
    if (head->check != checksum(head, offsetof(struct control_page, check), 0))
        return "wrong checksum";
    if (head->epoch == 0)
        return "it has no epoch";
    if (head->counters > CONTROL_COUNTERS)
        return "it has too many counters";
    return NULL;
}

/* control_check() with a reason; WHO begins the message. */
static int check(const struct control_page *page, struct control *ret, const char *who, struct errmsg *msg)
{
    struct control_page head; /* only the immutable block is copied */

    copy_once(&head, page, offsetof(struct control_page, pad0));
    if (memcmp(head.magic, FORMAT_MAGIC_CONTROL, sizeof head.magic) != 0)
        return fail(msg, SKADE_EDAMAGED, "%s is no control page: it doesn't begin with %s", who,
                    FORMAT_MAGIC_CONTROL);
    if (head.major != FORMAT_MAJOR)
        return fail(msg, SKADE_EVERSION, "%s has format %u, this program reads %u", who, head.major,
                    FORMAT_MAJOR);
    const char *problem = head_problem(&head);
    if (problem)
        return fail(msg, SKADE_EDAMAGED, "%s is damaged: %s", who, problem);
    ret->page = page;
    ret->epoch = head.epoch;
    ret->log = head.log;
    ret->seed = head.seed;
    ret->created_us = head.created_us;
    ret->pid = head.pid;
    ret->counters = head.counters;
    return 0;
}

int control_check(const struct control_page *page, struct control *ret)
{
    return check(page, ret, "the control page", NULL);
}

int control_open(struct control *ret, const struct shm_place *place, struct errmsg *msg)
{
    char name[SHM_NAME_MAX];
    struct control c = { .page = NULL };

    shm_name(name, place, SHM_CONTROL, 0, 0);
    int r = segmap_open(&c.map, place, name, CONTROL_SIZE, CONTROL_SIZE, msg);
    if (r < 0)
        return r;
    r = check((const struct control_page *)(const void *)c.map.base, &c, name, msg);
    if (r < 0) {
        segmap_close(&c.map);
        return r;
    }
    *ret = c;
    return 0;
}

void control_close(struct control *c)
{
    segmap_close(&c->map);
    c->page = NULL;
}
