#include "prompt.h"

#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLICE_NS 100000

void thread_be_prompt(void)
{
    /* struct sched_attr of sched_setattr(2), for which this C library has neither type nor wrapper. */
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime_ns, deadline_ns, period_ns;
    } attr = { .size = sizeof attr, .policy = SCHED_OTHER, .runtime_ns = SLICE_NS };

    /* A refusal costs speed only, and there is nobody to tell. */
    syscall(SYS_sched_setattr, 0, &attr, 0u);
}
