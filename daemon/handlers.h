/*
 * What the daemon does for each message.  One function per message; the table says which role it needs.
 */
#ifndef SKADE_HANDLERS_H
#define SKADE_HANDLERS_H

#include "session.h"

/* Why a checked frame may not come here and now, or NULL; the caller closes the connection then. */
const char *frame_problem(const struct session *s, const struct frame_header *h);

/* Serve one that may.  0, or SKADE_EPROTOCOL when the payload is malformed: the caller closes the connection. */
int handle_frame(struct session *s, const struct frame_header *h, const void *payload);

/* The session's end: let go of what its requests hold. */
void handlers_session_ends(struct session *s);

/* The peer took some of what it is owed: go on with watch and backup. */
void handlers_session_writable(struct session *s);

/* New events are visible: give S, which watches, what it lacks. */
void handlers_push_watch(struct session *s);

#endif
