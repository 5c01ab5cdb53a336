/*
 * bench SKADED FOLDER: run everything, print lines, write FOLDER/report.md and plots.
 *
 *   BENCH_N=10000000   lookups over that many snapshots, too       BENCH_REPS=15   repetitions
 *   BENCH_ONLY=lookups,commits   stages: the table below
 *
 * Exit: 0, 1 when a goal failed by more than the spread, 2 when something couldn't be measured.
 */
#include "bench.h"

#include "part.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

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

static uint64_t random_state = 1; /* the same questions in every run */

void random_begin(uint64_t seed)
{
    random_state = seed;
}

uint64_t random_next(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15ull;

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

static uint64_t number_from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* "AMD EPYC": the first of the "model name" lines, which other architectures don't have. */
static void read_processor(char *ret, size_t size)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");

    snprintf(ret, size, "unknown processor");
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        snprintf(ret, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (f)
        fclose(f);
}

static void note_machine(int reps)
{
    static const char *const isa[] = {
        [PART_SCALAR] = "scalar", [PART_AVX2] = "avx2", [PART_AVX512] = "avx512"
    };
    struct utsname u;
    char model[128] = "";

    uname(&u);
    read_processor(model, sizeof model);
    report_note("%s, %ld processors, %.1f GiB of memory", model, sysconf(_SC_NPROCESSORS_ONLN),
                (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / (double)(1 << 30));
    report_note("Linux %s, %s, %d repetitions, best instruction set %s", u.release, u.machine, reps,
                isa[part_isa_best()]);
    if (part_isa_best() != PART_AVX512)
        report_note("the speed goals were set with avx512: they don't count on this processor");
}

/* "1e6" or "1500000". */
static const char *size_name(uint64_t n)
{
    static char size[24];
    int zeros = 0;
    uint64_t rest = n;

    for (; rest % 10 == 0; rest /= 10)
        zeros++;
    if (rest == 1)
        snprintf(size, sizeof size, "1e%d", zeros);
    else
        snprintf(size, sizeof size, "%" PRIu64, n);
    return size;
}

static void run_lookups(uint64_t n, int reps)
{
    stage_lookups(n, size_name(n), reps);
}

/* ---- stages ----------------------------------------------------------------------------------------------------- */

static void lookups(uint64_t n, int reps)
{
    run_lookups(10000, reps);
    run_lookups(1000000, reps);
    if (n != 0 && n != 10000 && n != 1000000)
        run_lookups(n, reps);
}

static void distributions(uint64_t n, int reps)
{
    (void)n;
    stage_distributions(1000000, reps);
}

static void commits(uint64_t n, int reps)
{
    (void)n;
    stage_commits(reps < 7 ? reps : 7);
}

static void tables(uint64_t n, int reps)
{
    (void)n;
    stage_tables(reps);
}

/* A million snapshots, with whom two processes and idle clients are measured. */
static void clients(uint64_t n, int reps)
{
    struct history h = { .tables = TABLES, .versions = 1000, .ids = IDS_RANDOM };

    (void)n;
    daemon_start("normal");
    history_fill(&h);
    skade *s = daemon_open(0);
    struct lone_part *part = lone_part_open_largest(s);
    struct part_facts facts = lone_part_facts(part);
    lone_part_close(part);
    skade_close(s);
    stage_scaling(&h, facts.block_bytes, reps);
    stage_idle(&h, reps);
    daemon_stop();
}

static void build(uint64_t n, int reps)
{
    stage_build(1000000, size_name(1000000), reps);
    if (n)
        stage_build(n, size_name(n), reps);
}

static void rebuild(uint64_t n, int reps)
{
    (void)n;
    stage_rebuild(reps < 7 ? reps : 7);
}

static void start(uint64_t n, int reps)
{
    uint64_t rows = n ? n : 1000000;

    stage_start(rows, size_name(rows), reps < 3 ? reps : 3);
}

static void rest(uint64_t n, int reps)
{
    (void)n;
    stage_rest(reps < 3 ? reps : 3);
}

static void history(uint64_t n, int reps)
{
    (void)n;
    stage_pages(reps);
}

static void tail(uint64_t n, int reps)
{
    (void)n;
    stage_tail(reps);
}

static void appends(uint64_t n, int reps)
{
    (void)n;
    stage_appends(reps);
}

static void gets(uint64_t n, int reps)
{
    (void)n;
    stage_gets(reps);
}

static const struct stage {
    const char *name;
    void (*run)(uint64_t n, int reps); /* N: BENCH_N, 0 when it isn't given */
} stages[] = {
    { "lookups", lookups }, { "distributions", distributions },
    { "clients", clients }, { "history", history },
    { "commits", commits }, { "tables", tables },
    { "tail", tail },       { "build", build },
    { "rebuild", rebuild }, { "start", start },
    { "rest", rest },       { "appends", appends },
    { "gets", gets },
};

/* Is NAME one of the words of LIST, which commas divide? */
static bool is_listed(const char *list, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = list; (at = strstr(at, name)) != NULL; at += len) {
        if ((at == list || at[-1] == ',') && (at[len] == 0 || at[len] == ','))
            return true;
    }
    return false;
}

/* A misspelt stage would be a benchmark without a goal that fails. */
static bool list_is_known(const char *list)
{
    size_t known = 0, words = 1;

    for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
        known += is_listed(list, stages[i].name);
    for (const char *at = list; *at; at++)
        words += *at == ',';
    return known == words;
}

static int usage(void)
{
    fprintf(
        stderr,
        "usage: bench SKADED FOLDER; BENCH_REPS is 1 to %d, BENCH_N a multiple of %d, BENCH_ONLY some of ",
        REPS_MAX, TABLES);
    for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
        fprintf(stderr, "%s%s", i > 0 ? "," : "", stages[i].name);
    fprintf(stderr, "\n");
    return 2;
}

int main(int argc, char **argv)
{
    int reps = (int)number_from_environment("BENCH_REPS", REPS_DEFAULT);
    uint64_t n = number_from_environment("BENCH_N", 0);
    const char *only = getenv("BENCH_ONLY");

    if (argc != 3 || reps < 1 || reps > REPS_MAX || n % TABLES != 0 || (only && !list_is_known(only)))
        return usage();
    report_begin(argv[2]);
    place_begin(argv[1]);
    note_machine(reps);
    double began = now_ns();
    for (size_t i = 0; i < ARRAY_SIZE(stages); i++) {
        if (!only || is_listed(only, stages[i].name))
            stages[i].run(n, reps);
    }
    report_note("took %.0f s", (now_ns() - began) * 1e-9);
    report_end();
    return goals_failed() > 0;
}
