#include "deny.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, field)
#define UNLESS_EQUAL(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip)

bool deny_syscall(int number, int arg, uint32_t mask, uint32_t value, int error)
{
    struct sock_filter code[] = {
        LOAD(offsetof(struct seccomp_data, nr)),
        UNLESS_EQUAL((uint32_t)number, 4),
        LOAD((uint32_t)(offsetof(struct seccomp_data, args) + sizeof(uint64_t) * (unsigned)arg)),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
        UNLESS_EQUAL(value, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((uint32_t)error & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof code[0], code };

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}
