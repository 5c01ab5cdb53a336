/*
 * bench SKADED FOLDER: run everything, print lines, write FOLDER/report.md and plots.
 *
 *   BENCH_N=10000000   lookups over that many snapshots, too       BENCH_REPS=15   repetitions
 *   BENCH_ONLY=lookups|distributions|commits|tables                       BENCH_STRICT=1  every goal counts, not index.* alone
 *
 * Exit: 0, 1 when a goal that counts failed by more than the spread, 2 when something couldn't be measured.
 */
#include "bench.h"

#include "part.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <time.h>

#define REPS_DEFAULT 15

static double clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

double now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

double processor_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* The same questions in every run. */
uint64_t random_next(void)
{
    static uint64_t state = 1;
    uint64_t z = state += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

void die(const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fprintf(stderr, "bench: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    exit(2);
}

void check(int r, const char *what, const skade *s)
{
    if (r < 0)
        die("%s: %s %s", what, skade_errname(r), skade_errmsg(s));
}

void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory)
        die("no memory for %zu bytes", bytes);
    return memory;
}

static bool is_wanted(const char *stage)
{
    const char *only = getenv("BENCH_ONLY");
    return !only || strcmp(only, stage) == 0;
}

static uint64_t number_from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void note_machine(int reps)
{
    static const char *const isa[] = {
        [PART_SCALAR] = "scalar", [PART_AVX2] = "avx2", [PART_AVX512] = "avx512"
    };
    struct utsname u;

    uname(&u);
    report_note("Linux %s, %s, %d repetitions, best instruction set %s", u.release, u.machine, reps,
                isa[part_isa_best()]);
    if (part_isa_best() != PART_AVX512)
        report_note("the speed goals were set with avx512: not to be judged on this processor");
}

/* "1e6" or "1500000". */
static void run_lookups(uint64_t n, int reps)
{
    char size[24];
    int zeros = 0;
    uint64_t rest = n;

    for (; rest % 10 == 0; rest /= 10)
        zeros++;
    if (rest == 1)
        snprintf(size, sizeof size, "1e%d", zeros);
    else
        snprintf(size, sizeof size, "%" PRIu64, n);
    stage_lookups(n, size, reps);
}

int main(int argc, char **argv)
{
    int reps = (int)number_from_environment("BENCH_REPS", REPS_DEFAULT);
    uint64_t n = number_from_environment("BENCH_N", 0);

    if (argc != 3 || reps < 1 || reps > REPS_MAX || n % TABLES != 0) {
        fprintf(stderr, "usage: bench SKADED FOLDER; BENCH_REPS is 1 to %d, BENCH_N a multiple of %d\n",
                REPS_MAX, TABLES);
        return 2;
    }
    report_begin(argv[2]);
    place_begin(argv[1]);
    note_machine(reps);
    if (is_wanted("lookups")) {
        run_lookups(10000, reps);
        run_lookups(1000000, reps);
        if (n != 0 && n != 10000 && n != 1000000)
            run_lookups(n, reps);
    }
    if (is_wanted("distributions"))
        stage_distributions(1000000, reps);
    if (is_wanted("commits"))
        stage_commits(reps < 7 ? reps : 7);
    if (is_wanted("tables"))
        stage_tables(reps);
    report_end();
    return goals_failed() > 0;
}
