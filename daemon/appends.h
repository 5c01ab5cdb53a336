/*
 * Appends: rows of a session become an .entries file on a worker, then a commit.
 *
 *   APPEND_BEGIN   nothing yet
 *   ROWS           into an unnamed file in the table's directory
 *   APPEND_END     sealed, synced, linked with its mark; then the committer judges, the log makes it durable
 *
 * Whatever ends it before the commit leaves nothing: the file has no name until then, or loses it again.
 */
#ifndef SKADE_APPENDS_H
#define SKADE_APPENDS_H

#include "session.h"
#include "wire.h"

void append_begin(struct session *s, uint64_t request, const struct msg_append_begin *m);
void append_end(struct session *s, uint64_t request, const struct msg_append_end *m);
void append_ask(struct session *s, uint64_t request, const struct msg_append_ask *m);

#endif
