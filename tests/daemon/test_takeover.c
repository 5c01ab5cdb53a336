/*
 * From one daemon to the next: the page that clients find, the pages that are retired, the files that are
 * swept.
 */
#include "publisher_fixture.h"

#include "counters.h"
#include "deny.h"
#include "quick.h"
#include "root.h"
#include "tempdir.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- one daemon ---------------------------------------------------------------------------------------- */

START_TEST(the_page_is_there_with_all_its_words)
{
    uint64_t dev, ino;
    struct stat known, alias;

    fresh_place();
    struct publisher *p = start();
    struct control_page *page = publisher_page(p);
    publisher_page_id(p, &dev, &ino);
    ck_assert(dev == 0 && ino == 0);
    counter_add(page, COUNTER_commits, 12);
    atomic_store(&page->heartbeat, 34);
    atomic_store(&page->state, CONTROL_RUNNING);
    write_root(p, 5);
    struct publisher_takeover t = take_over(p, 5, 0);
    ck_assert(t.retired == 0 && t.swept == 0 && !t.saw_epoch);

    struct control c = attach();
    ck_assert_uint_eq(c.epoch, publisher_epoch(p));
    ck_assert(uuid_equal(&c.log, &options.log));
    ck_assert_uint_eq(c.seed, options.seed);
    ck_assert_uint_eq(c.pid, (uint64_t)getpid());
    ck_assert_uint_eq(c.counters, COUNTER_END);
    ck_assert_uint_eq(control_generation(c.page), 5);
    ck_assert_uint_eq(control_commit_seq(c.page), 105);
    ck_assert_uint_eq(control_heartbeat(c.page), 34);
    ck_assert_uint_eq(atomic_load(&c.page->state), CONTROL_RUNNING);
    ck_assert_uint_eq(counter_get(c.page, COUNTER_commits), 12);

    ck_assert_ptr_eq(publisher_page(p), page); /* the same address, and now it is shared */
    counter_add(page, COUNTER_commits, 1);
    ck_assert_uint_eq(counter_get(c.page, COUNTER_commits), 13);
    publisher_switch(p, 6);
    publisher_commit_seq(p, 200);
    ck_assert_uint_eq(control_generation(c.page), 6);
    ck_assert_uint_eq(control_commit_seq(c.page), 200);

    publisher_page_id(p, &dev, &ino);
    ck_assert_int_eq(stat(shm_path(SHM_CONTROL, 0, 0), &known), 0);
    ck_assert_int_eq(stat(shm_path(SHM_CONTROL_ALIAS, c.epoch, 0), &alias), 0);
    ck_assert(known.st_ino == ino && known.st_dev == dev && alias.st_ino == ino);
    ck_assert_uint_eq(known.st_nlink, 2);
    ck_assert_uint_eq(count_names(), 4);
    publisher_close(p, true);
    ck_assert_uint_eq(atomic_load(&c.page->state), CONTROL_STOPPED);
    ck_assert_uint_eq(count_names(), 4);
    control_close(&c);
}
END_TEST

START_TEST(a_page_may_say_that_nothing_is_published)
{
    fresh_place();
    struct publisher *p = start();
    take_over(p, CONTROL_NONE, 0);
    struct control c = attach();
    ck_assert_uint_eq(control_generation(c.page), CONTROL_NONE);
    write_root(p, 1);
    publisher_switch(p, 1);
    ck_assert_uint_eq(control_generation(c.page), 1);
    publisher_close(p, false);
    ck_assert_uint_eq(atomic_load(&c.page->state), CONTROL_STARTING);
    control_close(&c);
}
END_TEST

/* ---- what was told ------------------------------------------------------------------------------------- */

START_TEST(the_last_daemons_page_tells_how_far_the_log_was)
{
    uint64_t told = 7;

    fresh_place();
    struct publisher *p = start();
    ck_assert_int_eq(publisher_last_told(p, &told), 0);
    take_over(p, CONTROL_NONE, 0);
    publisher_commit_seq(p, 4711);
    publisher_close(p, false);

    p = start();
    ck_assert_int_eq(publisher_last_told(p, &told), 1);
    ck_assert_uint_eq(told, 4711);
    take_over(p, CONTROL_NONE, 0);
    publisher_close(p, true);

    options.log.b[3] ^= 1; /* another log: a restore gives it another name */
    told = 7;
    p = start();
    ck_assert_int_eq(publisher_last_told(p, &told), 0);
    ck_assert_uint_eq(told, 7);
    publisher_close(p, false);
    options.log.b[3] ^= 1;
}
END_TEST

START_TEST(what_is_no_page_tells_nothing)
{
    static const unsigned char zeros[CONTROL_SIZE];
    static const size_t sizes[] = { 0, 1, CONTROL_SIZE - 1, CONTROL_SIZE };
    uint64_t told = 7;

    fresh_place();
    struct publisher *p = start();
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        put_file(shm_path(SHM_CONTROL, 0, 0), zeros, sizes[i]);
        ck_assert_int_eq(publisher_last_told(p, &told), 0);
        unlink(shm_path(SHM_CONTROL, 0, 0));
    }
    for (enum squatter what = 0; what < SQUAT_END; what++) {
        if (!squat(what, shm_path(SHM_CONTROL, 0, 0)))
            continue;
        ck_assert_int_eq(publisher_last_told(p, &told), 0);
        ck_assert(squats(what, shm_path(SHM_CONTROL, 0, 0)));
        unsquat(shm_path(SHM_CONTROL, 0, 0));
    }
    ck_assert_uint_eq(told, 7);
    publisher_close(p, false);
}
END_TEST

/* ---- one after the other ------------------------------------------------------------------------------- */

/* A daemon that ran, published generation 2 over part 1, and is gone.  Its epoch. */
static uint64_t ran(void)
{
    struct publisher *p = start();
    uint64_t epoch = publisher_epoch(p);
    write_part(p, 1, 0, 5);
    write_root(p, 2);
    take_over(p, 2, 0);
    publisher_close(p, false);
    return epoch;
}

START_TEST(the_older_page_is_retired_and_its_files_go)
{
    fresh_place();
    uint64_t before = ran();
    struct control old = attach();
    ck_assert_uint_eq(count_names(), 5);

    struct publisher *p = start();
    write_root(p, 1);
    ck_assert_uint_eq(control_generation(old.page), 2); /* up to now nothing has changed */
    struct publisher_takeover t = take_over(p, 1, before);
    ck_assert_uint_eq(t.retired, 1);
    ck_assert(t.saw_epoch);
    ck_assert_uint_eq(t.swept, 3); /* alias, part, root */
    ck_assert_uint_eq(control_generation(old.page), CONTROL_RETIRED);
    ck_assert_uint_eq(count_names(), 4);
    struct control c = attach();
    ck_assert_uint_eq(c.epoch, publisher_epoch(p));
    ck_assert_uint_eq(control_generation(c.page), 1);
    control_close(&c);
    control_close(&old);
    publisher_close(p, false);
}
END_TEST

START_TEST(an_epoch_that_left_no_page_was_not_seen)
{
    fresh_place();
    uint64_t before = ran();
    struct publisher *p = start();
    struct publisher_takeover t = take_over(p, CONTROL_NONE, before ^ 1);
    ck_assert_uint_eq(t.retired, 1);
    ck_assert(!t.saw_epoch);
    publisher_close(p, false);
}
END_TEST

START_TEST(a_page_that_is_retired_already_was_seen)
{
    fresh_place();
    uint64_t before = ran();
    int fd = open(shm_path(SHM_CONTROL, 0, 0), O_RDWR);
    uint64_t word = CONTROL_RETIRED;
    ck_assert_int_eq(pwrite(fd, &word, sizeof word, offsetof(struct control_page, generation)), sizeof word);
    close(fd);
    struct publisher *p = start();
    struct publisher_takeover t = take_over(p, CONTROL_NONE, before);
    ck_assert_uint_eq(t.retired, 0);
    ck_assert(t.saw_epoch);
    publisher_close(p, false);
}
END_TEST

START_TEST(a_page_without_its_alias_is_retired)
{
    fresh_place();
    uint64_t before = ran();
    struct control old = attach();
    unlink(shm_path(SHM_CONTROL_ALIAS, before, 0));
    struct publisher *p = start();
    struct publisher_takeover t = take_over(p, CONTROL_NONE, before);
    ck_assert_uint_eq(t.retired, 1);
    ck_assert(t.saw_epoch);
    ck_assert_uint_eq(control_generation(old.page), CONTROL_RETIRED);
    control_close(&old);
    publisher_close(p, false);
}
END_TEST

/* Daemons that died between rename and retire: nothing but their aliases leads to the pages that clients
 * have. */
START_TEST(pages_that_only_an_alias_leads_to_are_retired)
{
    struct control old[3];

    if (!has_failpoints())
        return;
    fresh_place();
    at_failpoint("takeover.rename", "kill");
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit((int)ran() & 1);
        ck_assert_int_eq(wait_child(pid), -SIGKILL);
        old[i] = attach();
    }
    at_failpoint("takeover.rename", NULL);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(control_generation(old[i].page), 2);
    unlink(shm_path(SHM_CONTROL, 0, 0));
    struct publisher *p = start();
    struct publisher_takeover t = take_over(p, CONTROL_NONE, old[1].epoch);
    ck_assert_uint_eq(t.retired, 3);
    ck_assert(t.saw_epoch);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(control_generation(old[i].page), CONTROL_RETIRED);
        control_close(&old[i]);
    }
    ck_assert_uint_eq(count_names(), 3);
    publisher_close(p, false);
}
END_TEST

START_TEST(clients_find_a_page_before_theirs_is_retired)
{
    if (!has_failpoints())
        return;
    fresh_place();
    ran();
    struct control old = attach();
    at_failpoint("takeover.rename", "kill");
    pid_t pid = fork();
    if (pid == 0)
        _exit((int)ran() & 1);
    ck_assert_int_eq(wait_child(pid), -SIGKILL);
    at_failpoint("takeover.rename", NULL);
    struct control now = attach();
    ck_assert_uint_ne(now.epoch, old.epoch);
    ck_assert_uint_eq(control_generation(now.page), 2);
    ck_assert_uint_eq(control_generation(old.page),
                      2); /* not told yet: the other order would send it in circles */
    control_close(&now);
    control_close(&old);
}
END_TEST

/* There is no moment when a client could find a page whose words are not there yet. */
START_TEST(the_page_is_complete_before_it_has_a_name)
{
    static struct control_page page;

    if (!has_failpoints())
        return;
    fresh_place();
    at_failpoint("takeover.alias", "kill");
    pid_t pid = fork();
    if (pid == 0) {
        struct publisher *p = start();
        counter_add(publisher_page(p), COUNTER_commits, 12);
        put_file(in_place("epoch"), &(uint64_t){ publisher_epoch(p) }, 8);
        take_over(p, 7, 0);
        _exit(0);
    }
    ck_assert_int_eq(wait_child(pid), -SIGKILL);
    at_failpoint("takeover.alias", NULL);
    uint64_t epoch;
    int fd = open(in_place("epoch"), O_RDONLY);
    ck_assert_int_eq(read(fd, &epoch, sizeof epoch), sizeof epoch);
    close(fd);
    fd = open(shm_path(SHM_CONTROL_ALIAS, epoch, 0), O_RDONLY);
    ck_assert_int_eq(read(fd, &page, sizeof page), sizeof page);
    close(fd);
    struct control c;
    ck_assert_int_eq(control_check(&page, &c), 0);
    ck_assert_uint_eq(control_generation(&page), 7);
    ck_assert_uint_eq(control_commit_seq(&page), 107);
    ck_assert_uint_eq(counter_get(&page, COUNTER_commits), 12);
    ck_assert_uint_eq(atomic_load(&page.state), CONTROL_STARTING);
}
END_TEST

START_TEST(a_failure_before_the_rename_changes_nothing)
{
    static const char *const points[] = { "publish.reserve", "takeover.alias", "takeover.temp" };
    struct publisher_takeover t;

    if (!has_failpoints())
        return;
    fresh_place();
    uint64_t before = ran();
    struct control old = attach();
    struct publisher *p = start();
    unsigned fds = count_descriptors();
    struct control_page *page = publisher_page(p);
    for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
        at_failpoint(points[i], "fail 5");
        ck_assert_int_eq(publisher_take_over(p, 1, 1, before, &t, &msg), -EIO);
        at_failpoint(points[i], NULL);
        ck_assert_uint_eq(count_names(), 5);
        ck_assert_uint_eq(count_descriptors(), fds);
        ck_assert_ptr_eq(publisher_page(p), page);
        ck_assert_uint_eq(control_generation(old.page), 2);
        struct control c = attach();
        ck_assert_uint_eq(c.epoch, before);
        control_close(&c);
    }
    write_root(p, 1);
    ck_assert_uint_eq(take_over(p, 1, before).retired, 1); /* and it can be tried again */
    control_close(&old);
    publisher_close(p, false);
}
END_TEST

/* A page whose counters lost their memory can be retired all the same; one whose words did is left alone. */
START_TEST(a_page_with_a_hole_is_no_sigbus)
{
    static char filler[4096];
    const char *dir = tempdir_mounted("size=256k");

    if (!dir) {
        printf("skipped: mounting a small tmpfs takes root\n");
        return;
    }
    use_place(dir);
    for (int hole = 0; hole < 2; hole++) {
        uint64_t before = ran();
        struct control old = attach();
        struct publisher *p = start();
        int fd = open(shm_path(SHM_CONTROL, 0, 0), O_RDWR);
        off_t at = hole ? 0 : 4096;
        ck_assert_int_eq(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, CONTROL_SIZE - at), 0);
        close(fd);
        fd = open(in_place("filler"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        while (publisher_room(p) > CONTROL_SIZE)
            ck_assert_int_eq(write(fd, filler, sizeof filler), sizeof filler);
        struct publisher_takeover t = take_over(p, CONTROL_NONE, before);
        ck_assert_uint_eq(t.retired, !hole);
        ck_assert_int_eq(t.saw_epoch, !hole);
        if (!hole)
            ck_assert_uint_eq(control_generation(old.page), CONTROL_RETIRED);
        close(fd);
        control_close(&old);
        publisher_close(p, false);
        unlink(in_place("filler"));
    }
}
END_TEST

START_TEST(a_refused_rename_changes_nothing)
{
    struct publisher_takeover t;

    fresh_place();
    uint64_t before = ran();
    struct publisher *p = start();
    if (!deny_syscall(SYS_renameat, 0, 0, 0, EPERM)) {
        printf("skipped: no seccomp here\n");
        return;
    }
    ck_assert_int_eq(publisher_take_over(p, 1, 1, before, &t, &msg), SKADE_EFOREIGN);
    ck_assert_ptr_nonnull(strstr(msg.text, "cannot rename"));
    ck_assert_uint_eq(count_names(), 5);
    struct control c = attach();
    ck_assert_uint_eq(c.epoch, before);
    ck_assert_uint_eq(control_generation(c.page), 2);
    control_close(&c);
    publisher_close(p, false);
}
END_TEST

START_TEST(a_page_that_cannot_be_moved_is_used_where_it_is)
{
    fresh_place();
    struct publisher *p = start();
    struct control_page *page = publisher_page(p);
    counter_add(page, COUNTER_commits, 12);
    if (!deny_syscall(SYS_mremap, 0, 0, 0, ENOMEM)) {
        printf("skipped: no seccomp here\n");
        return;
    }
    take_over(p, CONTROL_NONE, 0);
    ck_assert_ptr_ne(publisher_page(p), page);
    counter_add(publisher_page(p), COUNTER_commits, 1);
    struct control c = attach();
    ck_assert_uint_eq(counter_get(c.page, COUNTER_commits), 13);
    control_close(&c);
    publisher_close(p, false);
}
END_TEST

/* ---- what is not ours ---------------------------------------------------------------------------------- */

START_TEST(a_squatted_page_is_refused_and_left_alone)
{
    struct publisher_takeover t;

    fresh_place();
    struct publisher *p = start();
    alarm(10);
    for (enum squatter what = 0; what < SQUAT_END; what++) {
        const char *path = shm_path(SHM_CONTROL, 0, 0);
        if (!squat(what, path))
            continue;
        ck_assert_int_eq(publisher_take_over(p, 1, 1, 0, &t, &msg), SKADE_EFOREIGN);
        ck_assert_msg(strstr(msg.text, path) && strstr(msg.text, "uid") && strstr(msg.text, "--shm-dir"),
                      "%s", msg.text);
        ck_assert(squats(what, path));
        ck_assert_uint_eq(count_names(), 2);
        unsquat(path);
    }
    take_over(p, CONTROL_NONE, 0);
    publisher_close(p, false);
}
END_TEST

START_TEST(a_file_of_ours_that_is_no_page_is_replaced)
{
    static const size_t sizes[] = { 0, 100, CONTROL_SIZE, CONTROL_SIZE + 1 };
    char *zeros = calloc(1, CONTROL_SIZE + 1);

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        fresh_place();
        put_file(shm_path(SHM_CONTROL, 0, 0), zeros, sizes[i]);
        put_file(shm_path(SHM_CONTROL_ALIAS, 9, 0), zeros, sizes[i]);
        struct publisher *p = start();
        struct publisher_takeover t = take_over(p, CONTROL_NONE, 9);
        ck_assert(t.retired == 0 && !t.saw_epoch && t.swept == 1);
        struct control c = attach();
        ck_assert_uint_eq(c.epoch, publisher_epoch(p));
        control_close(&c);
        publisher_close(p, false);
    }
    free(zeros);
}
END_TEST

static void check_content(const char *path, const char *expected, size_t len)
{
    char *content = malloc(len + 1);
    int fd = open(path, O_RDONLY);
    ck_assert_int_eq(read(fd, content, len + 1), (ssize_t)len);
    ck_assert_int_eq(memcmp(content, expected, len), 0);
    close(fd);
    free(content);
}

/* Hard links let a stranger put our own files under names that we write to. */
START_TEST(only_a_control_page_is_written_to)
{
    static char precious[CONTROL_SIZE], page[CONTROL_SIZE];

    fresh_place();
    uint64_t other_epoch = ran(); /* a page under the alias of another epoch: some other daemon's */
    int fd = open(shm_path(SHM_CONTROL, 0, 0), O_RDONLY);
    ck_assert_int_eq(read(fd, page, sizeof page), sizeof page);
    close(fd);
    unlink(shm_path(SHM_CONTROL, 0, 0));
    unlink(shm_path(SHM_CONTROL_ALIAS, other_epoch, 0));
    put_file(in_place("other-page"), page, sizeof page);
    memset(precious, 'x', sizeof precious);
    put_file(in_place("precious"), precious, sizeof precious);
    ck_assert_int_eq(link(in_place("precious"), shm_path(SHM_CONTROL_ALIAS, 5, 0)), 0);
    ck_assert_int_eq(link(in_place("other-page"), shm_path(SHM_CONTROL_ALIAS, 6, 0)), 0);

    struct publisher *p = start();
    struct publisher_takeover t = take_over(p, CONTROL_NONE, other_epoch);
    ck_assert(t.retired == 0 && !t.saw_epoch);
    ck_assert_uint_eq(t.swept, 4);
    check_content(in_place("precious"), precious, sizeof precious);
    check_content(in_place("other-page"), page, sizeof page);
    publisher_close(p, false);
}
END_TEST

START_TEST(a_sweep_spares_look_alikes)
{
    static const char *const spared[] = {
        "skade.%u.other.v1.000000000000000a.ctl",
        "skade.%u.other.v1.000000000000000a.000000000000000b.root",
        "skade.%u.test2.v1.000000000000000a.000000000000000b.part",
        "skade.%u.test.v2.000000000000000a.000000000000000b.part",
        "skade.%u.test.v1.000000000000000A.000000000000000b.part",
        "skade.%u.test.v1.00000000000000a.000000000000000b.part",
        "skade.%u.test.v1.000000000000000g.000000000000000b.part",
        "skade.%u.test.v1.0000000000000000.000000000000000b.part",
        "skade.%u.test.v1.000000000000000a.0000000000000000.part",
        "skade.%u.test.v1.000000000000000a.000000000000000b.part.bak",
        "skade.%u.test.v1.000000000000000a.000000000000000b.seg",
        "skade.%u.test.v1.000000000000000a.000000000000000b",
        "skade.%u.test.v1.000000000000000a.root",
        "skade.%u.test.v1.root",
        "skade.%u.test.v1.tmp",
        "skade.1%u.test.v1.000000000000000a.000000000000000b.part",
        "prefix.skade.%u.test.v1.000000000000000a.000000000000000b.part",
    };
    static const char *const swept[] = {
        "skade.%u.test.v1.000000000000000a.ctl",
        "skade.%u.test.v1.000000000000000a.000000000000000b.root",
        "skade.%u.test.v1.000000000000000a.000000000000000b.part",
        "skade.%u.test.v1.000000000000000a.000000000000000b.tmp",
    };
    char name[256];

    fresh_place();
    alarm(10);
    unsigned squatters = 0;
    for (enum squatter what = 0; what < SQUAT_END;
         what++) { /* names that parse, of things that are not ours */
        squatters += squat(what, shm_path(SHM_PART, 0x10u + what, 1));
        squatters += squat(what, shm_path(SHM_CONTROL_ALIAS, 0x10u + what, 0));
    }
    for (size_t i = 0; i < ARRAY_SIZE(spared); i++) {
        snprintf(name, sizeof name, spared[i], options.place.uid);
        put_file(in_place(name), "", 0);
    }
    for (size_t i = 0; i < ARRAY_SIZE(swept); i++) {
        snprintf(name, sizeof name, swept[i], options.place.uid);
        put_file(in_place(name), "", 0);
    }
    struct publisher *p = start();
    write_root(p, 1);
    struct publisher_takeover t = take_over(p, 1, 0);
    ck_assert_uint_eq(t.swept, ARRAY_SIZE(swept));
    ck_assert_uint_eq(count_names(), squatters + ARRAY_SIZE(spared) + 4);
    for (enum squatter what = 0; what < SQUAT_END; what++) {
        if (what == SQUAT_STRANGER && geteuid() != 0)
            continue;
        ck_assert(squats(what, shm_path(SHM_PART, 0x10u + what, 1)));
        ck_assert(squats(what, shm_path(SHM_CONTROL_ALIAS, 0x10u + what, 0)));
    }
    ck_assert(!place_has(in_place("precious"))); /* where the symlinks lead */
    publisher_close(p, false);
}
END_TEST

START_TEST(a_directory_full_of_old_files_is_swept)
{
    fresh_place();
    for (uint64_t i = 1; i <= 3000; i++)
        put_file(shm_path(SHM_PART, 0xabc + i % 7, i), "", 0);
    struct publisher *p = start();
    ck_assert_uint_eq(take_over(p, CONTROL_NONE, 0).swept, 3000);
    ck_assert_uint_eq(count_names(), 3);
    publisher_close(p, false);
}
END_TEST

/* ---- killed, again and again, under a reader's eyes ---------------------------------------------------- */

/* What a client does all day, with everything that must be true checked.  Ends when the test says so: then
 * it must stand on the last epoch. */
struct watcher {
    struct control c;
    uint64_t attached;
};

static void check_generation(const struct control *c, uint64_t generation)
{
    char name[SHM_NAME_MAX];
    struct segmap m;

    shm_name(name, &options.place, SHM_ROOT, c->epoch, generation);
    int r = segmap_open(&m, &options.place, name, 1, 1 << 20, &msg);
    if (r == 0) {
        struct root *root;
        ALWAYS(root_open(&root, m.base, m.size, ROOT_VERIFY, &msg) == 0);
        ALWAYS(root_header(root)->seg.epoch == c->epoch && root_header(root)->seg.generation == generation);
        root_close(root);
        segmap_close(&m);
    }
    /* A name may only be gone when the page says that the generation is. */
    ALWAYS(r == 0 || (r == -ENOENT && control_generation(c->page) != generation));
}

static void attach_anew(struct watcher *w)
{
    struct control next = attach(); /* there is always a page */
    ALWAYS(!w->attached || next.map.ino != w->c.map.ino || next.map.dev != w->c.map.dev);
    if (w->attached)
        control_close(&w->c);
    w->c = next;
    w->attached++;
}

static int watch(int stop)
{
    struct watcher w = { .attached = 0 };
    uint64_t final = 0;

    attach_anew(&w);
    while (read(stop, &final, sizeof final) < 0) {
        uint64_t generation = control_generation(w.c.page);
        if (generation == CONTROL_RETIRED)
            attach_anew(&w);
        else if (generation != CONTROL_NONE)
            check_generation(&w.c, generation);
    }
    if (control_generation(w.c.page) == CONTROL_RETIRED)
        attach_anew(&w);
    return w.c.epoch == final ? 0 : 1;
}

static pid_t start_watcher(int *stop)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        _exit(watch(ends[0]));
    }
    close(ends[0]);
    *stop = ends[1];
    return pid;
}

/* A daemon that publishes three generations; killed at the fail point, if one is set. */
static int live(void *arg)
{
    (void)arg;
    struct publisher *p = start();
    write_part(p, 1, 0, 5);
    write_root(p, 2);
    take_over(p, 2, 0);
    write_root(p, 3);
    publisher_switch(p, 3);
    publisher_unlink(p, SHM_ROOT, 2);
    write_root(p, 4);
    publisher_switch(p, 4);
    publisher_unlink(p, SHM_ROOT, 3);
    publisher_close(p, false);
    return 0;
}

static const struct {
    const char *name;
    const char *what;
} deaths[] = {
    { "publish.fill", "kill" },    { "publish.link", "kill" },
    { "publish.linked", "kill" },  { "takeover.alias", "kill" },
    { "takeover.temp", "kill" },   { "takeover.rename", "kill" },
    { "takeover.retire", "kill" }, { "takeover.retire", "count 1 kill" },
    { "takeover.sweep", "kill" },  { "publish.linked", "count 2 kill" },
};

START_TEST(killed_at_any_step_clients_see_nothing_wrong)
{
    int rounds = getenv("SKADE_TEST_LONG") ? 100 : 2, stop;

    if (!has_failpoints())
        return;
    fresh_place();
    ck_assert_int_eq(run_in_child(live, NULL), 0);
    pid_t watcher = start_watcher(&stop);
    struct control seen[ARRAY_SIZE(deaths) * 2];
    for (int round = 0; round < rounds; round++) {
        size_t count = 0;
        for (size_t i = 0; i < ARRAY_SIZE(deaths); i++) {
            at_failpoint(deaths[i].name, deaths[i].what);
            int r = run_in_child(live, NULL);
            /* The second of several pages to be retired is not always there. */
            ck_assert_msg(r == -SIGKILL || (r == 0 && strncmp(deaths[i].what, "count 1", 7) == 0), "%s: %d",
                          deaths[i].name, r);
            at_failpoint(deaths[i].name, NULL);
            seen[count++] = attach(); /* clients that sit on whatever page they found */
            if (random_below(&(uint64_t){ (uint64_t)round * 100 + i }, 3) == 0) {
                ck_assert_int_eq(run_in_child(live, NULL), 0);
                seen[count++] = attach();
            }
        }
        ck_assert_int_eq(run_in_child(live, NULL), 0);
        struct control last = attach();
        for (size_t i = 0; i < count; i++) {
            ck_assert(seen[i].epoch == last.epoch || control_generation(seen[i].page) == CONTROL_RETIRED);
            control_close(&seen[i]);
        }
        control_close(&last);
        ck_assert_uint_eq(count_names(), 5); /* lock, two of the page, part, root */
    }
    struct control last = attach();
    ck_assert_int_eq(write(stop, &last.epoch, sizeof last.epoch), sizeof last.epoch);
    close(stop);
    ck_assert_int_eq(wait_child(watcher), 0);
    control_close(&last);
}
END_TEST

Suite *takeover_suite(void);
Suite *takeover_suite(void)
{
    Suite *s = suite_create("takeover");
    TCase *t = tcase_create("takeover");
    tcase_set_timeout(t, getenv("SKADE_TEST_LONG") ? 600 : 60);
    tcase_add_test(t, the_page_is_there_with_all_its_words);
    tcase_add_test(t, a_page_may_say_that_nothing_is_published);
    tcase_add_test(t, the_last_daemons_page_tells_how_far_the_log_was);
    tcase_add_test(t, what_is_no_page_tells_nothing);
    tcase_add_test(t, the_older_page_is_retired_and_its_files_go);
    tcase_add_test(t, an_epoch_that_left_no_page_was_not_seen);
    tcase_add_test(t, a_page_that_is_retired_already_was_seen);
    tcase_add_test(t, a_page_without_its_alias_is_retired);
    tcase_add_test(t, pages_that_only_an_alias_leads_to_are_retired);
    tcase_add_test(t, clients_find_a_page_before_theirs_is_retired);
    tcase_add_test(t, the_page_is_complete_before_it_has_a_name);
    tcase_add_test(t, a_failure_before_the_rename_changes_nothing);
    tcase_add_test(t, a_page_with_a_hole_is_no_sigbus);
    tcase_add_test(t, a_refused_rename_changes_nothing);
    tcase_add_test(t, a_page_that_cannot_be_moved_is_used_where_it_is);
    tcase_add_test(t, a_squatted_page_is_refused_and_left_alone);
    tcase_add_test(t, a_file_of_ours_that_is_no_page_is_replaced);
    tcase_add_test(t, only_a_control_page_is_written_to);
    tcase_add_test(t, a_sweep_spares_look_alikes);
    tcase_add_test(t, a_directory_full_of_old_files_is_swept);
    tcase_add_test(t, killed_at_any_step_clients_see_nothing_wrong);
    suite_add_tcase(s, t);
    return s;
}
