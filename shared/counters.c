#include "counters.h"

const struct counter_row counter_rows[] = {
#define COUNTER(name, kind, unit, help) { #name, #kind, unit, help },
#include "counters.def"
};
