/*
 * Requests about the rows of stored tables: appends, leases, lists of files.  Called by the dispatcher in handlers.c.
 */
#ifndef SKADE_HANDLE_TABLES_H
#define SKADE_HANDLE_TABLES_H

#include "session.h"
#include "wire.h"

void handle_append_begin(struct session *s, uint64_t request, const struct msg_append_begin *m);
void handle_rows(struct session *s, uint64_t request, const struct msg_rows *m);
void handle_append_end(struct session *s, uint64_t request, const struct msg_append_end *m);
void handle_append_abort(struct session *s, uint64_t request, const struct msg_append_abort *m);
void handle_append_ask(struct session *s, uint64_t request, const struct msg_append_ask *m);
void handle_lease(struct session *s, uint64_t request, const struct msg_lease *m);
void handle_lease_end(struct session *s, uint64_t request, const struct msg_lease_end *m);
void handle_files(struct session *s, uint64_t request, const struct msg_files *m);
void handle_compact(struct session *s, uint64_t request, const struct msg_compact *m);
void handle_compact_begin(struct session *s, uint64_t request, const struct msg_compact_begin *m);
void handle_compact_end(struct session *s, uint64_t request, const struct msg_compact_end *m);
void handle_gc(struct session *s, uint64_t request, const struct msg_gc *m);

#endif
