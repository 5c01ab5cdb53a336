/*
 * The committer inside: the group under judgement, for the files that judge and the one that makes it true.
 *
 *   change.c         changes and the texts that they own
 *   judge.c          what all judgements share; commits, releases, appends
 *   judge_names.c    create, rename, drop
 *   judge_retire.c   expire, compact
 *   committer.c      the queue, the transaction, what comes after it
 */
#ifndef SKADE_COMMITTER_INTERNAL_H
#define SKADE_COMMITTER_INTERNAL_H

#include "committer.h"

#include "indexer.h"
#include "names.h"

/* What one turn of the loop judges or applies of a large change, which is a group of its own. */
#define COMMIT_SLICE 2048

/* The transaction under way. */
struct group {
    struct log_job job; /* first: the log thread knows only this */
    struct committer *committer;
    struct change *changes, **changes_last;
    struct event *events;
    size_t count, cap;
    bool takes_away;        /* an answer: publish before it is visible */
    uint64_t epoch;         /* ours, as of its beginning */
    uint32_t tables;        /* created so far */
    struct uuids *uuids;    /* its members'; they become the ledger's when they are durable. NULL: none yet */
    struct bytes names[64]; /* created, renamed, dropped in this group */
    size_t names_count;
    int error;
    struct errmsg msg;
    uint64_t micros;
    bool large;           /* its only change is one of more than GROUP_EVENTS rows */
    size_t judged;        /* rows of that */
    uint64_t repeat_from; /* it came before: its first event; 0: it did not */
    size_t applied;       /* events */
    uint64_t commits;     /* among them */
    uv_work_t work;       /* its end */
};

struct committer {
    struct server *server;
    struct change *queue, **queue_last;
    struct group *group; /* under way */
    uint64_t groups;     /* number of the group that is judged; see struct table */
    uv_timer_t pause;
    uv_idle_t slices; /* of a large group: a turn for each */
    bool paused;
    bool refusing; /* the log had no room for the last group */
};

/* Come again in the next group: it rests on what this one changes.  Or, a large one, in the next turn. */
#define LATER 1

/* 0: judged, whether refused or not.  LATER: it must wait for the next group. */
int judge_one(struct group *g, struct change *c);

/* Judge COMMIT_SLICE rows more of the large change C, the only one of G.  0 judged, LATER: there are more; negative:
 * refused. */
int judge_slice(struct group *g, struct change *c);

/* Each: 0 judged, LATER, or negative: refused, as C says. */
int judge_commits(struct group *g, struct change *c);
int judge_create(struct group *g, struct change *c);
int judge_rename(struct group *g, struct change *c);
int judge_drop(struct group *g, struct change *c);
int judge_expire(struct group *g, struct change *c);
int judge_compact(struct group *g, struct change *c);

/* ---- what judgements share (judge.c) ---- */

/* Refuse C with CODE, which is returned. */
int refuse(struct change *c, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int refuse_other_content(struct change *c); /* its uuid came before */

/* Has this group changed what T is; is anything of it under way? And mark it so. */
bool touched(const struct group *g, const struct table *t);
bool has_pending(const struct group *g, const struct table *t);
void touch(struct group *g, struct table *t);
/* The same for names. touch_name() only when there is room: see judge_one(). */
bool touched_name(const struct group *g, struct bytes name);
void touch_name(struct group *g, struct bytes name);

/* The event that UUID made, in the ledger or this group. */
bool find_uuid(const struct group *g, const struct uuid *uuid, uint64_t *seq, uint64_t *content);
/* Did this request come before? 1 and *SEQ, 0 no, negative: refused, since it came with other content. */
int repeated(const struct group *g, struct change *c, const struct event *e, uint64_t *seq);
/* The group as it was with COUNT events. */
void take_back(struct group *g, size_t count);

/* PROTO becomes the group's next event, and C's only one; CONTENT is what its uuid stands for. */
int add_asked(struct group *g, struct change *c, struct event *proto, uint64_t content);
int add_single(struct group *g, struct change *c, struct event *proto);
/* C came before, as event SEQ: its first answer again. */
void answer_repeat(struct group *g, struct change *c, uint64_t seq);
/* 1: answered already; 0: new; negative: refused. */
int repeated_single(struct group *g, struct change *c, struct event *proto);

#endif
