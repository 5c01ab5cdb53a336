/*
 * The socket: bind it so that it appears complete, accept, know who is connected.
 *
 * The path is bound under a temporary name, given its mode, and renamed into place, so that nobody meets a socket that
 * doesn't listen yet; on the way out it is removed only if it is still ours.  A lock beside it keeps a second daemon
 * away, and a name that is lost is made anew within about a second.
 *
 * No user but admins may hold most of the connections, and a few are kept for admins, so that nobody locks others out.
 */
#ifndef SKADE_LISTENER_H
#define SKADE_LISTENER_H

#include "server.h"

struct listener;
struct session;

/* Listen on the configured path.  0, or negative with path and cure in MSG. */
int listener_open(struct listener **ret, struct server *s, struct errmsg *msg);

/* No new connections, and the path goes. */
void listener_close(struct listener *l);
/* True when every connection is gone. */
bool listener_empty(const struct listener *l);
/* Close all connections once what they are owed is written. */
void listener_drain(struct listener *l);
/* Close those that wait for an answer at once. */
void listener_hang_up(struct listener *l);
void listener_free(struct listener *l);

/* New events are visible: give them to those who watch. */
void listener_events(struct listener *l);

/* Once a second: close who is idle or too slow; look after the socket's name. */
void listener_tick(struct listener *l);

/* The options say anew who may do what: it holds for those who are connected, too. */
void listener_roles_changed(struct listener *l);

/* All sessions, for CLIENTS: the first, and each one's next. */
struct session *listener_first(const struct listener *l);

/* A session ended: forget it. */
void listener_forget(struct listener *l, struct session *session);

#endif
