/*
 * Lookups as programs make them: through libskadeclient, by table handle, into the caller's buffers.
 */
#include "bench.h"

#include "synthetic.h"

#include <stdlib.h>
#include <unistd.h>

void client_single(void *s, const struct question *q, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fence();
        skade_resolve(s, q[i].table, q[i].id, &answers[i % WINDOW]);
    }
}

void client_batch(void *s, const struct question *q, size_t n)
{
    for (size_t i = 0; i < n; i += WINDOW) {
        for (size_t k = 0; k < WINDOW; k++) {
            answers[k].table = q[i + k].table;
            answers[k].snapshot = q[i + k].id;
        }
        skade_resolve_many(s, answers, WINDOW);
    }
}

void client_head(void *s, const struct question *q, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fence();
        skade_head(s, q[i].table, &answers[i % WINDOW]);
    }
}

void client_as_of(void *s, const struct question *q, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fence();
        skade_as_of(s, q[i].table, synthetic_time_us(q[i].table, q[i].version), &answers[i % WINDOW]);
    }
}

void client_by_name(void *arg, const struct question *q, size_t n)
{
    const struct by_name *b = arg;
    skade_table table;

    for (size_t i = 0; i < n; i++) {
        fence();
        if (skade_find_table(b->s, b->names[q[i].table - 1], &table) == 1)
            skade_resolve(b->s, table, q[i].id, &answers[i % WINDOW]);
    }
}

/* A fresh handle proves by its connection that the map is current, which takes a system call for each miss; once it saw
 * the daemon's heart beat, memory proves it.  The heart beats twice for each second that the daemon counts. */
void client_see_heartbeat(skade *const *handles, size_t n)
{
    skade *s = handles[0];
    uint64_t began = daemon_counter(s, "uptime");

    do {
        for (size_t i = 0; i < n; i++) {
            if (handles[i])
                skade_resolve(handles[i], 1, 0, &answers[0]);
        }
    } while (daemon_counter(s, "uptime") < began + 2);
    for (size_t i = 0; i < n; i++) {
        if (handles[i])
            skade_resolve(handles[i], 1, 0, &answers[0]);
    }
}

/* The library looks at SKADE_ISA when it maps a part, so: ask once while it is set. */
skade *client_with_isa(const char *isa)
{
    skade *s = daemon_open(0);

    setenv("SKADE_ISA", isa, 1);
    skade_resolve(s, 1, 0, &answers[0]);
    unsetenv("SKADE_ISA");
    return s;
}
