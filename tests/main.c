/*
 * All Check suites in one program.
 *
 *     check              all of them;  CK_RUN_SUITE=part for one, CK_FORK=no in this process, for a debugger
 *     check NAME         the suite that suites.def calls so
 *     check --list       their names
 *
 * tests/run.sh starts it once for each suite: Check's process grows with what its tests say, and each test is a fork of
 * it, so that all suites in one process take twice as long under a sanitizer.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUITE(name) Suite *name##_suite(void);
#include "suites.def"
#undef SUITE

static const struct {
    const char *name;
    Suite *(*make)(void);
} suites[] = {
#define SUITE(name) { #name, name##_suite },
#include "suites.def"
#undef SUITE
};

#define SUITES (sizeof suites / sizeof suites[0])

static int list(void)
{
    for (size_t i = 0; i < SUITES; i++)
        puts(suites[i].name);
    return EXIT_SUCCESS;
}

static int run(const char *name)
{
    SRunner *runner = srunner_create(NULL);
    size_t n = 0;

    for (size_t i = 0; i < SUITES; i++)
        if (!name || strcmp(suites[i].name, name) == 0) {
            srunner_add_suite(runner, suites[i].make());
            n++;
        }
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    if (n == 0)
        fprintf(stderr, "no suite is called %s: see --list\n", name);
    return n > 0 && failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--list") == 0)
        return list();
    return run(argc > 1 ? argv[1] : NULL);
}
