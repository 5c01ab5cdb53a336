/*
 * The daemon's counters: names and descriptions from counters.def, values in the control page.
 */
#ifndef SKADE_COUNTERS_H
#define SKADE_COUNTERS_H

#include "format.h"

enum counter {
#define COUNTER(name, kind, unit, help) COUNTER_##name,
#include "counters.def"
    COUNTER_END
};
_Static_assert(COUNTER_END <= CONTROL_COUNTERS, "the control page has room for all counters");

struct counter_row {
    const char *name;
    const char *kind; /* "counter" or "gauge" */
    const char *unit; /* "" when it is a plain number */
    const char *help;
};

/* COUNTER_END rows in the order of the control page. */
extern const struct counter_row counter_rows[];

/* P7: independent relaxed words: no order between two counters is promised. */
static inline void counter_add(struct control_page *page, enum counter c, uint64_t n)
{
    atomic_fetch_add_explicit(&page->counter[c], n, memory_order_relaxed);
}

static inline void counter_set(struct control_page *page, enum counter c, uint64_t value)
{
    atomic_store_explicit(&page->counter[c], value, memory_order_relaxed);
}

static inline uint64_t counter_get(const struct control_page *page, enum counter c)
{
    return atomic_load_explicit(&page->counter[c], memory_order_relaxed);
}

/* Keep the greatest value seen. */
static inline void counter_max(struct control_page *page, enum counter c, uint64_t value)
{
    if (value > counter_get(page, c))
        counter_set(page, c, value);
}

#endif
