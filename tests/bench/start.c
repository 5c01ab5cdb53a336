/*
 * A start with a history behind it: from the index file and from the log alone, one after the other in each repetition.
 * And a daemon that has nothing to do: how often all its threads together wake up.
 *
 * The goal for starts was agreed upon at 10^7 commits (BENCH_N=10000000): the file has a fixed cost beside that of its
 * bytes, the uuids of the last 2^20 requests.
 */
#include "bench.h"

#include <unistd.h>

#define LARGE 10000000

/* Seconds from the program's start until it says that it serves; it goes on. */
static double timed_start(void)
{
    double began = now_ns();

    daemon_start_again("normal");
    return (now_ns() - began) / 1e9;
}

/* Without its index file. */
static double start_from_log(void)
{
    daemon_forget_index();
    return timed_start();
}

static void goal_of_start(uint64_t n, const char *size, struct measure gain)
{
    struct goal g = { .sense = AT_LEAST, .floor = 10, .target = 10 };

    snprintf(g.name, sizeof g.name, "speed.start_from_file.%s", size);
    if (n >= LARGE)
        goal_check(&g, gain);
}

void stage_start(uint64_t n, const char *size, int reps)
{
    struct history h = { .tables = TABLES, .versions = (uint32_t)(n / TABLES), .ids = IDS_RANDOM };
    double file[REPS_MAX], log[REPS_MAX];
    char group[48];

    snprintf(group, sizeof group, "start-%s", size);
    daemon_start("normal");
    history_fill(&h);
    daemon_stop();
    for (int i = 0; i < reps; i++) {
        log[i] = start_from_log();
        daemon_stop(); /* which writes the file */
        file[i] = timed_start();
        daemon_stop();
        end_if_interrupted();
    }
    report_figure(group, "from the log", measure_of(log, reps), "s", ROW_PEER);
    report_figure(group, "from the index file", measure_of(file, reps), "s", ROW_OURS);
    goal_of_start(n, size, measure_ratio(log, file, reps));
}

#define REST_S 4

void stage_rest(int reps)
{
    static const struct goal rest = { "speed.wake_ups_at_rest", AT_MOST, 2, 2, false };
    double wakes[REPS_MAX];

    daemon_start("normal");
    for (int i = 0; i < reps; i++) {
        uint64_t before = daemon_switches();
        sleep(REST_S); /* what is measured: how often it wakes up in that time */
        wakes[i] = (double)(daemon_switches() - before) / REST_S;
    }
    daemon_stop();
    report_figure("rest", "wake-ups a second", measure_of(wakes, reps), "", ROW_OURS);
    goal_check(&rest, measure_of(wakes, reps));
}
