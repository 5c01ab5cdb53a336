/*
 * The lock, writing files, self-healing.  Taking over is in test_takeover.c.
 */
#include "publisher_fixture.h"

#include "deny.h"
#include "part.h"
#include "quick.h"
#include "root.h"
#include "tempdir.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define O_TMPFILE_BIT (O_TMPFILE & ~O_DIRECTORY)

static mode_t mode_of(const char *path)
{
    struct stat st;
    ck_assert_msg(stat(path, &st) == 0, "%s", path);
    return st.st_mode & 07777;
}

static bool says(const char *text)
{
    return strstr(msg.text, text) != NULL;
}

/* ---- files --------------------------------------------------------------------------------------------- */

START_TEST(files_are_written_complete_and_under_their_names)
{
    struct segmap m;
    struct root *root;
    struct part *part;
    struct stat st;
    char name[SHM_NAME_MAX];

    fresh_place();
    unsigned fds = count_descriptors();
    struct publisher *p = start();
    uint64_t epoch = publisher_epoch(p);
    write_part(p, 1, 0, 5);
    write_root(p, 2);
    ck_assert_uint_eq(count_names(), 3); /* and the lock */

    shm_name(name, &options.place, SHM_ROOT, epoch, 2);
    ck_assert_int_eq(segmap_open(&m, &options.place, name, 1, 1 << 20, &msg), 0);
    ck_assert_int_eq(root_open(&root, m.base, m.size, ROOT_VERIFY, &msg), 0);
    ck_assert_uint_eq(root_header(root)->seg.generation, 2);
    root_close(root);
    segmap_close(&m);
    shm_name(name, &options.place, SHM_PART, epoch, 1);
    ck_assert_int_eq(segmap_open(&m, &options.place, name, 1, 1 << 20, &msg), 0);
    ck_assert_int_eq(part_open(&part, m.base, m.size, PART_VERIFY, &msg), 0);
    part_close(part);
    ck_assert_int_eq(stat(shm_path(SHM_PART, epoch, 1), &st), 0);
    ck_assert_uint_eq(st.st_nlink, 1);
    ck_assert_uint_eq(publisher_linked_bytes(p), root_bytes(3) + m.size);
    segmap_close(&m);

    publisher_unlink(p, SHM_PART, 1);
    ck_assert(!place_has(shm_path(SHM_PART, epoch, 1)));
    ck_assert_uint_eq(publisher_linked_bytes(p), root_bytes(3));
    publisher_unlink(p, SHM_PART, 1); /* gone already */
    unlink(shm_path(SHM_ROOT, epoch, 2));
    publisher_unlink(p, SHM_ROOT, 2);
    ck_assert_uint_eq(publisher_linked_bytes(p), 0);
    publisher_close(p, true);
    ck_assert_uint_eq(count_descriptors(), fds);
}
END_TEST

/* Maps of files in this place that can be written. */
static unsigned count_writable_maps(void)
{
    char line[1024];
    unsigned n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, f))
        n += strstr(line, options.place.dir) && strstr(line, " rw-s ");
    fclose(f);
    return n;
}

START_TEST(nothing_that_has_a_name_can_be_written)
{
    fresh_place();
    struct publisher *p = start();
    write_part(p, 1, 0, 5);
    write_root(p, 2);
    ck_assert_uint_eq(count_writable_maps(), 0);
    take_over(p, 2, 0);
    ck_assert_uint_eq(count_writable_maps(), 1); /* the words of the page */
    publisher_close(p, false);
    ck_assert_uint_eq(count_writable_maps(), 0);
}
END_TEST

START_TEST(a_name_that_is_another_file_by_now_is_not_unlinked)
{
    fresh_place();
    struct publisher *p = start();
    write_root(p, 1);
    const char *path = shm_path(SHM_ROOT, publisher_epoch(p), 1);
    unlink(path);
    put_file(path, "another", 7);
    publisher_unlink(p, SHM_ROOT, 1);
    ck_assert(place_has(path));
    ck_assert_uint_eq(publisher_linked_bytes(p), 0);
    publisher_close(p, false);
}
END_TEST

START_TEST(modes_dont_depend_on_the_umask)
{
    static const mode_t masks[] = { 000, 022, 077, 0777 }, modes[] = { 0400, 0440, 0444 };

    for (size_t i = 0; i < ARRAY_SIZE(masks) * ARRAY_SIZE(modes); i++) {
        fresh_place();
        options.mode = modes[i % 3];
        umask(masks[i / 3]);
        struct publisher *p = start();
        uint64_t epoch = publisher_epoch(p);
        write_part(p, 1, 0, 5);
        write_root(p, 2);
        take_over(p, 2, 0);
        ck_assert_int_eq(umask(022), masks[i / 3]);
        ck_assert_int_eq(mode_of(shm_path(SHM_PART, epoch, 1)), options.mode);
        ck_assert_int_eq(mode_of(shm_path(SHM_ROOT, epoch, 2)), options.mode);
        ck_assert_int_eq(mode_of(shm_path(SHM_CONTROL, 0, 0)), options.mode | 0200);
        ck_assert_int_eq(mode_of(shm_path(SHM_LOCK, 0, 0)), 0600);
        publisher_close(p, false);
    }
}
END_TEST

START_TEST(files_are_given_to_the_group_that_may_read_them)
{
    struct stat st;

    if (geteuid() != 0) {
        printf("skipped: giving files to any group takes root\n");
        return;
    }
    fresh_place();
    options.mode = 0440;
    options.group = STRANGER;
    struct publisher *p = start();
    write_root(p, 1);
    take_over(p, 1, 0);
    ck_assert_int_eq(stat(shm_path(SHM_ROOT, publisher_epoch(p), 1), &st), 0);
    ck_assert_uint_eq(st.st_gid, STRANGER);
    ck_assert_int_eq(stat(shm_path(SHM_CONTROL, 0, 0), &st), 0);
    ck_assert_uint_eq(st.st_gid, STRANGER);
    publisher_close(p, false);
}
END_TEST

START_TEST(a_full_file_system_is_an_error_that_names_the_cures)
{
    char free_bytes[32];
    const char *dir = tempdir_mounted("size=1m");

    if (!dir) {
        printf("skipped: mounting a small tmpfs takes root\n");
        return;
    }
    use_place(dir);
    struct publisher *p = start();
    write_root(p, 1);
    take_over(p, 1, 0);
    uint64_t room = publisher_room(p);
    unsigned names = count_names(), fds = count_descriptors();
    ck_assert_int_eq(try_root(p, 2, publisher_epoch(p), 30000), -ENOSPC);
    snprintf(free_bytes, sizeof free_bytes, "%llu are free", (unsigned long long)room);
    ck_assert_msg(says(dir) && says(free_bytes) && says("--shm-size") && says("--shm-dir"), "%s", msg.text);
    ck_assert_uint_eq(publisher_room(p), room);
    ck_assert_uint_eq(count_names(), names);
    ck_assert_uint_eq(count_descriptors(), fds);
    uint64_t parts = 0;
    ck_assert_int_eq(publisher_check(p, 1, &parts, 0), 1); /* all is as it was */

    tempdir_remount(dir, "size=16m");
    ck_assert_int_eq(try_root(p, 3, publisher_epoch(p), 30000), 0);
    publisher_close(p, false);
}
END_TEST

START_TEST(what_cannot_fit_is_not_tried)
{
    const char *dir = tempdir_mounted("size=1m");

    if (!dir || !deny_syscall(SYS_fallocate, 0, 0, 0, EIO)) { /* trying would be this error */
        printf("skipped: mounting a small tmpfs takes root\n");
        return;
    }
    use_place(dir);
    struct publisher *p = start();
    ck_assert_int_eq(try_root(p, 1, publisher_epoch(p), 3), -EIO);
    ck_assert_int_eq(try_root(p, 2, publisher_epoch(p), 30000), -ENOSPC);
    publisher_close(p, false);
}
END_TEST

/* Every page of the file system is asked for, so that trying is the only way to know: statfs says that all
 * is free. */
START_TEST(a_file_system_that_is_full_to_the_last_page_is_no_sigbus)
{
    const char *dir = tempdir_mounted("size=256k");

    if (!dir) {
        printf("skipped: mounting a small tmpfs takes root\n");
        return;
    }
    use_place(dir);
    struct publisher *p = start();
    for (uint64_t generation = 1; generation < 200; generation++) {
        int r = try_root(p, generation, publisher_epoch(p), 60);
        ck_assert_msg(r == 0 || r == -ENOSPC, "%s", msg.text);
        ck_assert_uint_le(publisher_linked_bytes(p), 256 * 1024);
    }
    ck_assert_uint_lt(publisher_room(p), 8192);
    struct publisher_takeover t;
    ck_assert_int_eq(publisher_take_over(p, 1, 0, 0, &t, &msg), -ENOSPC);
    ck_assert(!place_has(shm_path(SHM_CONTROL, 0, 0)));
    publisher_close(p, false);
}
END_TEST

START_TEST(a_file_system_without_room_for_names_says_so)
{
    const char *dir = tempdir_mounted("size=1m,nr_inodes=4");

    if (!dir) {
        printf("skipped: mounting a small tmpfs takes root\n");
        return;
    }
    use_place(dir);
    struct publisher *p = start(); /* the root directory and the lock are two inodes */
    int r = 0;
    uint64_t generation = 0;
    while (r == 0)
        r = try_root(p, ++generation, publisher_epoch(p), 1);
    ck_assert_int_eq(r, -ENOSPC);
    ck_assert_msg(says("another file") && says("nr_inodes"), "%s", msg.text);
    ck_assert_uint_eq(count_names(), generation);
    publisher_close(p, false);
}
END_TEST

START_TEST(a_file_system_without_a_limit_has_room)
{
    const char *dir = tempdir_mounted("size=0");

    if (!dir) {
        printf("skipped: mounting a tmpfs takes root\n");
        return;
    }
    use_place(dir);
    struct publisher *p = start();
    ck_assert_uint_eq(publisher_room(p), UINT64_MAX);
    write_root(p, 1);
    publisher_close(p, false);
}
END_TEST

/* Nothing of a root is left after it failed with ERROR, and the next one succeeds. */
static void check_nothing_left(struct publisher *p, int error)
{
    unsigned names = count_names(), fds = count_descriptors();
    uint64_t bytes = publisher_linked_bytes(p);

    ck_assert_int_eq(try_root(p, 77, publisher_epoch(p), 3), error);
    ck_assert_uint_gt(strlen(msg.text), 0);
    ck_assert_uint_eq(count_names(), names);
    ck_assert_uint_eq(count_descriptors(), fds);
    ck_assert_uint_eq(publisher_linked_bytes(p), bytes);
}

START_TEST(whatever_step_fails_nothing_is_left)
{
    static const char *const points[] = { "publish.reserve", "publish.fill", "publish.verify", "publish.link",
                                          "publish.linked" };
    if (!has_failpoints())
        return;
    fresh_place();
    struct publisher *p = start();
    for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
        at_failpoint(points[i], "fail 5");
        check_nothing_left(p, -EIO);
        at_failpoint(points[i], NULL);
    }
    at_failpoint("publish.reserve", "fail 28");
    check_nothing_left(p, -ENOSPC);
    ck_assert(says("--shm-size"));
    at_failpoint("publish.reserve", NULL);
    write_root(p, 77);
    publisher_close(p, false);
}
END_TEST

START_TEST(killed_at_any_step_a_writer_leaves_nothing_or_a_whole_file)
{
    static const char *const points[] = { "publish.reserve", "publish.fill", "publish.verify", "publish.link",
                                          "publish.linked" };
    if (!has_failpoints())
        return;
    for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
        fresh_place();
        at_failpoint(points[i], "kill");
        pid_t pid = fork();
        if (pid == 0) {
            write_root(start(), 1);
            _exit(0);
        }
        ck_assert_int_eq(wait_child(pid), -SIGKILL);
        at_failpoint(points[i], NULL);
        ck_assert_uint_eq(count_names(), strcmp(points[i], "publish.linked") == 0 ? 2 : 1);
        struct publisher *p = start();
        write_root(p, 1);
        take_over(p, 1, 0);
        ck_assert_uint_eq(count_names(), 4); /* lock, two of the page, root */
        publisher_close(p, false);
    }
}
END_TEST

static int fill_with_zeros(void *arg, void *buf, size_t size)
{
    (void)arg;
    memset(buf, 0, size);
    return 0;
}

/* A root of generation 1 without anything, and one that is damaged where only a checksum sees it. */
static int fill_empty_root(void *arg, void *buf, size_t size)
{
    struct root_input in = {
        .log = options.log, .seed = options.seed, .epoch = *(uint64_t *)arg, .generation = 1
    };
    ck_assert_uint_eq(root_size(&in), size);
    return root_fill(&in, buf, size);
}

static int fill_damaged_root(void *arg, void *buf, size_t size)
{
    int r = fill_empty_root(arg, buf, size);
    ((char *)buf)[size - 1] ^= 1;
    return r;
}

static int fail_to_fill(void *arg, void *buf, size_t size)
{
    (void)arg, (void)buf, (void)size;
    return -ENOMEM;
}

START_TEST(what_is_no_file_of_ours_gets_no_name)
{
    struct root_input empty = { .generation = 1 };
    struct segmap map;

    fresh_place();
    struct publisher *p = start();
    uint64_t epoch = publisher_epoch(p), size = root_size(&empty);
    ck_assert_int_eq(publisher_write(p, SHM_ROOT, 2, size, fill_empty_root, &epoch, &map, &msg),
                     SKADE_EDAMAGED);
    ck_assert_int_eq(publisher_write(p, SHM_ROOT, 1, size, fill_damaged_root, &epoch, &map, &msg),
                     SKADE_EDAMAGED);
    ck_assert_int_eq(publisher_write(p, SHM_ROOT, 1, 4096, fill_with_zeros, NULL, &map, &msg),
                     SKADE_EDAMAGED);
    ck_assert_int_eq(publisher_write(p, SHM_PART, 1, 4096, fill_with_zeros, NULL, &map, &msg),
                     SKADE_EDAMAGED);
    ck_assert_int_eq(publisher_write(p, SHM_PART, 1, 4096, fail_to_fill, NULL, &map, &msg), -ENOMEM);
    ck_assert_int_eq(try_root(p, 1, publisher_epoch(p) ^ 1, 3), -EAGAIN);
    options.seed++;
    ck_assert_int_eq(try_root(p, 1, publisher_epoch(p), 3), SKADE_EDAMAGED);
    options.seed--;
    options.log.b[0]++;
    ck_assert_int_eq(try_root(p, 1, publisher_epoch(p), 3), SKADE_EDAMAGED);
    ck_assert_uint_eq(count_names(), 1);
    publisher_close(p, false);
}
END_TEST

START_TEST(a_name_that_is_somebody_elses_is_refused_and_left_alone)
{
    fresh_place();
    struct publisher *p = start();
    alarm(10);
    for (enum squatter what = 0; what < SQUAT_END; what++) {
        const char *path = shm_path(SHM_ROOT, publisher_epoch(p), 77);
        if (!squat(what, path))
            continue;
        check_nothing_left(p, SKADE_EFOREIGN);
        ck_assert_msg(says(path) && says("uid") && says("mode") && says("--shm-dir"), "%s", msg.text);
        ck_assert(squats(what, path));
        unsquat(path);
    }
    publisher_close(p, false);
}
END_TEST

START_TEST(an_older_file_of_ours_makes_room)
{
    char content[16];

    fresh_place();
    struct publisher *p = start();
    const char *path = shm_path(SHM_ROOT, publisher_epoch(p), 1), *precious = in_place("precious");
    put_file(precious, "untouched", 10);
    ck_assert_int_eq(link(precious, path), 0); /* the name goes, the file stays as it is */
    write_root(p, 1);
    int fd = open(precious, O_RDONLY);
    ck_assert_int_eq(read(fd, content, sizeof content), 10);
    ck_assert_str_eq(content, "untouched");
    close(fd);
    publisher_close(p, false);
}
END_TEST

START_TEST(file_systems_without_unnamed_files_are_served)
{
    fresh_place();
    if (!deny_syscall(SYS_openat, 2, O_TMPFILE_BIT, O_TMPFILE_BIT, EOPNOTSUPP)) {
        printf("skipped: no seccomp here\n");
        return;
    }
    struct publisher *p = start();
    unsigned fds = count_descriptors();
    write_part(p, 1, 0, 5);
    write_root(p, 2);
    ck_assert_uint_eq(count_descriptors(), fds);
    ck_assert_uint_eq(count_names(), 3);
    take_over(p, 2, 0);
    ck_assert_uint_eq(count_names(), 5);
    ck_assert_int_eq(mode_of(shm_path(SHM_ROOT, publisher_epoch(p), 2)), 0444);
    ck_assert(squat(SQUAT_DIRECTORY, shm_path(SHM_ROOT, publisher_epoch(p), 77)));
    check_nothing_left(p, SKADE_EFOREIGN);
    publisher_close(p, false);
}
END_TEST

START_TEST(what_is_left_under_a_temporary_name_is_swept)
{
    if (!has_failpoints())
        return;
    fresh_place();
    at_failpoint("publish.link", "kill");
    pid_t pid = fork();
    if (pid == 0) {
        if (!deny_syscall(SYS_openat, 2, O_TMPFILE_BIT, O_TMPFILE_BIT, EOPNOTSUPP))
            _exit(77);
        write_root(start(), 1);
        _exit(0);
    }
    int status = wait_child(pid);
    at_failpoint("publish.link", NULL);
    if (status == 77) {
        printf("skipped: no seccomp here\n");
        return;
    }
    ck_assert_int_eq(status, -SIGKILL);
    ck_assert_uint_eq(count_names(), 2); /* the lock, and what the kernel can't clean up */
    struct publisher *p = start();
    write_root(p, 1);
    ck_assert_uint_eq(take_over(p, 1, 0).swept, 1);
    ck_assert_uint_eq(count_names(), 4);
    publisher_close(p, false);
}
END_TEST

START_TEST(without_proc_files_are_linked_by_descriptor)
{
    if (geteuid() != 0) {
        printf("skipped: linking a descriptor takes root on older kernels\n");
        return;
    }
    fresh_place();
    if (!deny_syscall(SYS_linkat, 4, AT_SYMLINK_FOLLOW, AT_SYMLINK_FOLLOW, ENOENT)) {
        printf("skipped: no seccomp here\n");
        return;
    }
    struct publisher *p = start();
    write_root(p, 1);
    take_over(p, 1, 0);
    ck_assert_uint_eq(count_names(), 4);
    publisher_close(p, false);
}
END_TEST

/* A system call that fails from now on, and what publisher_write() makes of it. */
struct denial {
    int number, arg;
    uint32_t mask, value;
    int error, expected;
    const char *says;
};

static const struct denial denials[] = {
    { SYS_openat, 2, O_TMPFILE_BIT, O_TMPFILE_BIT, EROFS, -EROFS, "cannot make a file" },
    { SYS_openat, 2, O_TMPFILE_BIT, O_TMPFILE_BIT, ENOSPC, -ENOSPC, "another file" },
    { SYS_fallocate, 0, 0, 0, ENOSPC, -ENOSPC, "--shm-size" },
    { SYS_fallocate, 0, 0, 0, EDQUOT, -ENOSPC, "--shm-size" },
    { SYS_fallocate, 0, 0, 0, EIO, -EIO, "cannot reserve" },
    { SYS_mmap, 3, 3, 1 /* MAP_SHARED */, EPERM, -EPERM, "cannot map" },
    { SYS_mmap, 2, 3, 1 /* PROT_READ */, ENOMEM, -ENOMEM, "cannot map" },
    { SYS_fchmod, 0, 0, 0, EPERM, -EPERM, "mode" },
    { SYS_linkat, 0, 0, 0, EMLINK, -EMLINK, "cannot link" },
    { SYS_linkat, 0, 0, 0, ENOSPC, -ENOSPC, "another file" },
};

static int write_under_denial(void *arg)
{
    const struct denial *d = arg;

    struct publisher *p = start();
    struct publisher_takeover t;
    if (!deny_syscall(d->number, d->arg, d->mask, d->value, d->error))
        return 77;
    check_nothing_left(p, d->expected);
    ck_assert_msg(says(d->says), "%s", msg.text);
    if (d->arg != 2 || d->number != SYS_mmap) { /* a page is not mapped to be read */
        ck_assert_int_eq(publisher_take_over(p, 1, 1, 0, &t, &msg), d->expected);
        ck_assert_msg(says(d->says), "%s", msg.text);
        ck_assert_uint_eq(count_names(), 1);
    }
    publisher_close(p, false);
    return 0;
}

START_TEST(whatever_system_call_fails_nothing_is_left)
{
    for (size_t i = 0; i < ARRAY_SIZE(denials); i++) {
        fresh_place();
        int r = run_in_child(write_under_denial, (void *)&denials[i]);
        if (r == 77)
            printf("skipped: no seccomp here\n");
        ck_assert_msg(r == 0 || r == 77, "%zu: %d", i, r);
    }
}
END_TEST

/* ---- the lock ------------------------------------------------------------------------------------------ */

START_TEST(a_second_daemon_is_refused_and_told_who_runs)
{
    struct publisher *second = NULL;
    char pid[32];

    fresh_place();
    struct publisher *p = start();
    unsigned fds = count_descriptors();
    snprintf(pid, sizeof pid, "process %d", getpid());
    ck_assert_int_eq(publisher_open(&second, &options, &msg), SKADE_ERUNNING);
    ck_assert_ptr_null(second);
    ck_assert_msg(says(pid) && says("test") && says(options.place.dir), "%s", msg.text);
    ck_assert_uint_eq(count_descriptors(), fds);

    snprintf(options.place.instance, sizeof options.place.instance, "other");
    struct publisher *other = start(); /* another instance is none of its business */
    publisher_close(other, false);
    snprintf(options.place.instance, sizeof options.place.instance, "test");
    publisher_close(p, false);
    publisher_close(start(), false);
}
END_TEST

START_TEST(epochs_are_never_the_same)
{
    fresh_place();
    struct publisher *p = start();
    uint64_t first = publisher_epoch(p);
    publisher_close(p, false);
    p = start();
    ck_assert_uint_ne(first, 0);
    ck_assert_uint_ne(publisher_epoch(p), first);
    publisher_close(p, false);
}
END_TEST

/* Twenty processes begin at the same time; the winner keeps the lock until all have tried. */
static int race(int begin, int result, int end)
{
    struct publisher *p;
    char byte;

    while (read(begin, &byte, 1) != 0)
        ;
    int r = publisher_open(&p, &options, &msg);
    byte = r == 0 ? 'w' : r == SKADE_ERUNNING ? 'l' : '?';
    if (write(result, &byte, 1) != 1)
        return 2;
    while (read(end, &byte, 1) != 0)
        ;
    return r == 0 || r == SKADE_ERUNNING ? 0 : 1;
}

static void race_once(void)
{
    enum { RACERS = 20 };
    int begin[2], result[2], end[2];
    pid_t pids[RACERS];
    unsigned winners = 0;

    ck_assert(pipe(begin) == 0 && pipe(result) == 0 && pipe(end) == 0);
    for (int i = 0; i < RACERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            close(begin[1]);
            close(end[1]);
            _exit(race(begin[0], result[1], end[0]));
        }
    }
    close(begin[1]);
    for (int i = 0; i < RACERS; i++) {
        char byte;
        ck_assert_int_eq(read(result[0], &byte, 1), 1);
        winners += byte == 'w';
    }
    ck_assert_uint_eq(winners, 1);
    close(end[1]);
    for (int i = 0; i < RACERS; i++)
        ck_assert_int_eq(wait_child(pids[i]), 0);
    int fds[] = { begin[0], result[0], result[1], end[0] };
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        close(fds[i]);
}

START_TEST(of_twenty_that_race_one_wins)
{
    int rounds = getenv("SKADE_TEST_LONG") ? 200 : 10;
    for (int i = 0; i < rounds; i++) {
        fresh_place(); /* sometimes the lock file is there already */
        race_once();
        race_once();
        ck_assert_uint_eq(count_names(), 1);
    }
}
END_TEST

START_TEST(a_lock_that_is_somebody_elses_is_refused)
{
    struct publisher *p = NULL;

    fresh_place();
    alarm(10);
    for (enum squatter what = 0; what < SQUAT_END; what++) {
        const char *path = shm_path(SHM_LOCK, 0, 0);
        if (!squat(what, path))
            continue;
        ck_assert_int_eq(publisher_open(&p, &options, &msg), SKADE_EFOREIGN);
        ck_assert_msg(says(path) && says("uid") && says("mode") && says("remove it"), "%s", msg.text);
        ck_assert(squats(what, path));
        unsquat(path);
    }
    publisher_close(start(), false);
}
END_TEST

START_TEST(other_descriptors_of_the_lock_file_dont_matter)
{
    struct publisher *second;

    fresh_place();
    struct publisher *p = start();
    close(open(shm_path(SHM_LOCK, 0, 0), O_RDWR)); /* a POSIX lock would be gone now */
    ck_assert_int_eq(publisher_open(&second, &options, &msg), SKADE_ERUNNING);
    publisher_close(p, false);
}
END_TEST

START_TEST(a_killed_daemons_lock_is_free)
{
    int ready[2];

    fresh_place();
    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        start();
        close(ready[0]);
        close(ready[1]);
        pause();
        _exit(0);
    }
    char byte;
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 0);
    struct publisher *p;
    ck_assert_int_eq(publisher_open(&p, &options, &msg), SKADE_ERUNNING);
    kill(pid, SIGKILL);
    ck_assert_int_eq(wait_child(pid), -SIGKILL);
    publisher_close(start(), false);
    close(ready[0]);
}
END_TEST

START_TEST(without_proc_a_second_daemon_is_refused_all_the_same)
{
    struct publisher *second;
    const char *dir = tempdir_mounted("size=1m");

    if (!dir || umount2("/proc", MNT_DETACH) < 0) {
        printf("skipped: unmounting /proc takes root\n");
        return;
    }
    use_place(dir);
    struct publisher *p = start();
    ck_assert_int_eq(publisher_open(&second, &options, &msg), SKADE_ERUNNING);
    ck_assert_msg(says("out of sight"), "%s", msg.text);
    write_root(p, 1);
    publisher_close(p, false);
    mount("proc", "/proc", "proc", 0, NULL); /* LeakSanitizer looks there at the end */
}
END_TEST

START_TEST(a_file_system_without_locks_is_an_error)
{
    struct publisher *p;

    fresh_place();
    unsigned fds = count_descriptors();
    if (!deny_syscall(SYS_flock, 0, 0, 0, ENOLCK)) {
        printf("skipped: no seccomp here\n");
        return;
    }
    ck_assert_int_eq(publisher_open(&p, &options, &msg), -ENOLCK);
    ck_assert_msg(says("cannot lock"), "%s", msg.text);
    ck_assert_uint_eq(count_descriptors(), fds);
}
END_TEST

/* A child that is started by exec must not keep the lock, or the restart is refused. */
START_TEST(no_descriptor_survives_exec)
{
    fresh_place();
    struct publisher *p = start();
    write_root(p, 1);
    take_over(p, 1, 0);
    unsigned ours = 0;
    for (int fd = 3; fd < 256; fd++) {
        char link[64], path[512] = "";
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink(link, path, sizeof path - 1) < 0 || !strstr(path, options.place.dir))
            continue;
        ours++;
        ck_assert_msg(fcntl(fd, F_GETFD) & FD_CLOEXEC, "%s", path);
    }
    ck_assert_uint_eq(ours, 3); /* directory, lock, page */
    publisher_close(p, false);
}
END_TEST

static int open_held(void *arg)
{
    struct publisher *p;
    (void)arg;
    return publisher_open(&p, &options, &msg) == SKADE_ERUNNING ? 0 : 1;
}

/* The child has opened the lock file and is held before it locks; meanwhile the file is removed and
 * another daemon starts.  The child locks a file without a name then, and must notice. */
START_TEST(a_lock_that_was_replaced_is_not_won)
{
    if (!has_failpoints())
        return;
    fresh_place();
    publisher_close(start(), false);
    const char *point = failpoint_path("lock.opened");
    ck_assert_int_eq(mkfifo(point, 0600), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(open_held(NULL));
    close(open(point, O_RDONLY));          /* waits until the child is there */
    int release = open(point, O_WRONLY);   /* waits until the child waits */
    unlink(failpoint_path("lock.opened")); /* it is held this once only */
    unlink(shm_path(SHM_LOCK, 0, 0));
    struct publisher *p = start();
    close(release);
    ck_assert_int_eq(wait_child(pid), 0);
    ck_assert(place_has(shm_path(SHM_LOCK, 0, 0)));
    publisher_close(p, false);
}
END_TEST

/* ---- the directory ------------------------------------------------------------------------------------- */

START_TEST(a_missing_directory_is_told_with_the_cure)
{
    struct publisher *p;

    fresh_place();
    strcat(options.place.dir, "/nothing");
    ck_assert_int_eq(publisher_open(&p, &options, &msg), -ENOENT);
    ck_assert_msg(says(options.place.dir) && says("--shm-dir"), "%s", msg.text);
    put_file(options.place.dir, "", 0);
    ck_assert_int_eq(publisher_open(&p, &options, &msg), -ENOTDIR);
}
END_TEST

START_TEST(a_directory_that_others_can_change_is_refused)
{
    struct publisher *p;

    fresh_place();
    ck_assert_int_eq(chmod(options.place.dir, 0777), 0);
    ck_assert_int_eq(publisher_open(&p, &options, &msg), SKADE_EFOREIGN);
    ck_assert_msg(says("0777") && says("chmod +t"), "%s", msg.text);
    ck_assert_int_eq(chmod(options.place.dir, 0770), 0);
    ck_assert_int_eq(publisher_open(&p, &options, &msg), SKADE_EFOREIGN);
    ck_assert_int_eq(chmod(options.place.dir, 01777), 0);
    publisher_close(start(), false);
    if (geteuid() != 0)
        return;
    ck_assert_int_eq(chown(options.place.dir, STRANGER, 0), 0);
    ck_assert_int_eq(publisher_open(&p, &options, &msg), SKADE_EFOREIGN);
    ck_assert_msg(says(options.place.dir) && says("54321"), "%s", msg.text);
}
END_TEST

/* ---- users --------------------------------------------------------------------------------------------- */

static int live_a_life(void *arg)
{
    uint64_t *epoch = arg;
    struct publisher *p;

    if (!become_stranger())
        return 77;
    int r = publisher_open(&p, &options, &msg);
    if (r < 0)
        return r == SKADE_EFOREIGN ? 2 : 1;
    write_part(p, 1, 0, 5);
    write_root(p, 2);
    struct publisher_takeover t = take_over(p, 2, *epoch);
    uint64_t parts[] = { 1 };
    if (publisher_check(p, 2, parts, 1) != 1 || t.saw_epoch != (*epoch != 0))
        return 3;
    publisher_close(p, true);
    return 0;
}

START_TEST(an_ordinary_user_takes_over_from_himself)
{
    uint64_t epoch = 0;

    if (geteuid() != 0) {
        printf("skipped: becoming another user takes root\n");
        return;
    }
    fresh_place();
    options.place.uid = STRANGER;
    options.mode = 0400;
    ck_assert_int_eq(chown(options.place.dir, STRANGER, STRANGER), 0);
    ck_assert_int_eq(run_in_child(live_a_life, &epoch), 0);
    struct control c = attach();
    epoch = c.epoch;
    ck_assert_int_eq(run_in_child(live_a_life, &epoch), 0);
    ck_assert_uint_eq(control_generation(c.page), CONTROL_RETIRED);
    ck_assert_uint_eq(count_names(), 5);
    control_close(&c);
}
END_TEST

START_TEST(a_daemon_that_clients_would_not_trust_doesnt_start)
{
    uint64_t epoch = 0;

    if (geteuid() != 0) {
        printf("skipped: becoming another user takes root\n");
        return;
    }
    fresh_place();
    options.place.uid = STRANGER + 1;
    ck_assert_int_eq(chmod(options.place.dir, 01777), 0);
    ck_assert_int_eq(run_in_child(live_a_life, &epoch), 2);
    ck_assert_uint_eq(count_names(), 0);
}
END_TEST

/* What an ordinary user is refused: each step's code is checked in his process. */
static int be_refused(void *arg)
{
    struct publisher *p;
    struct publisher_takeover t;

    (void)arg;
    if (!become_stranger())
        return 77;
    ck_assert_int_eq(chmod(options.place.dir, 0500), 0);
    ck_assert_int_eq(publisher_open(&p, &options, &msg), -EACCES);
    ck_assert_msg(says("cannot create") && says("Permission denied"), "%s", msg.text);
    ck_assert_int_eq(chmod(options.place.dir, 0700), 0);

    options.group = 0; /* he isn't a member */
    options.mode = 0440;
    p = start();
    check_nothing_left(p, -EPERM);
    ck_assert_msg(says("group 0") && says("member"), "%s", msg.text);
    publisher_close(p, false);

    options.group = (gid_t)-1;
    p = start();
    take_over(p, CONTROL_NONE, 0);
    publisher_close(p, false);
    ck_assert_int_eq(chmod(shm_path(SHM_CONTROL, 0, 0), 0400), 0); /* a page that can't be retired */
    p = start();
    ck_assert_int_eq(publisher_take_over(p, CONTROL_NONE, 0, 0, &t, &msg), -EACCES);
    ck_assert_msg(says(shm_path(SHM_CONTROL, 0, 0)) && says("writable"), "%s", msg.text);
    ck_assert_int_eq(unlink(shm_path(SHM_CONTROL, 0, 0)), 0); /* its alias is another such name */
    ck_assert_int_eq(publisher_take_over(p, CONTROL_NONE, 0, 0, &t, &msg), -EACCES);
    publisher_close(p, false);
    return 0;
}

START_TEST(what_an_ordinary_user_may_not_is_told)
{
    if (geteuid() != 0) {
        printf("skipped: becoming another user takes root\n");
        return;
    }
    fresh_place();
    options.place.uid = STRANGER;
    ck_assert_int_eq(chown(options.place.dir, STRANGER, STRANGER), 0);
    ck_assert_int_eq(run_in_child(be_refused, NULL), 0);
}
END_TEST

/* Once run as root, then as the user: in a sticky directory he can't remove root's files. */
START_TEST(what_root_left_behind_is_told_and_not_looped_over)
{
    uint64_t epoch = 0;

    if (geteuid() != 0) {
        printf("skipped: becoming another user takes root\n");
        return;
    }
    fresh_place();
    options.place.uid = STRANGER;
    ck_assert_int_eq(chmod(options.place.dir, 01777), 0);
    struct publisher *p = start();
    write_root(p, 1);
    take_over(p, 1, 0);
    publisher_close(p, false);
    unsigned names = count_names();
    alarm(10);
    ck_assert_int_eq(run_in_child(live_a_life, &epoch), 2);
    ck_assert_uint_eq(count_names(), names);

    /* The other way round root cleans up. */
    remove_tree(options.place.dir);
    ck_assert_int_eq(mkdir(options.place.dir, 0700), 0);
    ck_assert_int_eq(chown(options.place.dir, STRANGER, STRANGER), 0);
    ck_assert_int_eq(run_in_child(live_a_life, &epoch), 0);
    struct control c = attach();
    p = start();
    write_root(p, 1);
    ck_assert_uint_eq(take_over(p, 1, c.epoch).retired, 1);
    ck_assert_uint_eq(control_generation(c.page), CONTROL_RETIRED);
    ck_assert_uint_eq(count_names(), 4);
    control_close(&c);
    publisher_close(p, false);
}
END_TEST

/* ---- self-healing -------------------------------------------------------------------------------------- */

static struct publisher *running(void)
{
    struct publisher *p = start();
    write_part(p, 1, 0, 5);
    write_part(p, 2, 5, 9);
    write_root(p, 3);
    take_over(p, 3, 0);
    return p;
}

static int check_all(struct publisher *p)
{
    const uint64_t parts[] = { 1, 2 };
    return publisher_check(p, 3, parts, 2);
}

START_TEST(each_lost_name_is_noticed)
{
    fresh_place();
    struct publisher *p = running();
    uint64_t epoch = publisher_epoch(p);
    struct {
        enum shm_kind kind;
        uint64_t epoch, generation;
    } names[] = { { SHM_CONTROL, 0, 0 },
                  { SHM_CONTROL_ALIAS, epoch, 0 },
                  { SHM_ROOT, epoch, 3 },
                  { SHM_PART, epoch, 1 },
                  { SHM_PART, epoch, 2 } };
    ck_assert_int_eq(check_all(p), 1);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char away[512], path[512];
        snprintf(path, sizeof path, "%s", shm_path(names[i].kind, names[i].epoch, names[i].generation));
        snprintf(away, sizeof away, "%s", in_place("away"));
        ck_assert_int_eq(rename(path, away), 0);
        ck_assert_int_eq(check_all(p), 0);
        put_file(path, "another", 7);
        ck_assert_int_eq(check_all(p), 0);
        ck_assert_int_eq(rename(away, path), 0);
        ck_assert_int_eq(check_all(p), 1);
    }
    const uint64_t parts[] = { 1, 4 }; /* never written */
    ck_assert_int_eq(publisher_check(p, 3, parts, 2), 0);
    publisher_close(p, false);
}
END_TEST

/* What a user or a tidy system does: rm /dev/shm/skade.*, while clients are attached. */
START_TEST(a_new_epoch_heals_what_was_removed)
{
    fresh_place();
    struct publisher *p = running();
    struct control old = attach();
    struct control_page *page = publisher_page(p);
    atomic_store(&page->counter[7], 70);
    atomic_store(&page->heartbeat, 9);
    unsigned fds = count_descriptors();

    remove_tree(options.place.dir);
    ck_assert_int_eq(mkdir(options.place.dir, 0700), 0); /* even the directory is another one */
    ck_assert_int_eq(check_all(p), 0);
    ck_assert(place_has(shm_path(SHM_LOCK, 0, 0)));
    publisher_new_epoch(p);
    ck_assert_uint_ne(publisher_epoch(p), old.epoch);
    ck_assert_uint_eq(publisher_linked_bytes(p), 0);
    publisher_commit_seq(p, 200); /* commits go on, and clients must hear of them */
    ck_assert_uint_eq(control_commit_seq(old.page), 200);
    publisher_switch(p, CONTROL_NONE);
    ck_assert_uint_eq(control_generation(old.page), CONTROL_NONE);

    write_part(p, 4, 0, 9);
    write_root(p, 5);
    struct publisher_takeover t = take_over(p, 5, old.epoch);
    ck_assert_uint_eq(t.retired, 1);
    ck_assert(t.saw_epoch);
    ck_assert_uint_eq(count_descriptors(), fds);
    ck_assert_uint_eq(control_generation(old.page), CONTROL_RETIRED);
    struct control c = attach();
    ck_assert_uint_eq(c.epoch, publisher_epoch(p));
    ck_assert_uint_eq(control_generation(c.page), 5);
    ck_assert_uint_eq(control_heartbeat(c.page), 9);
    ck_assert_ptr_eq(publisher_page(p), page);
    ck_assert_uint_eq(atomic_load(&c.page->counter[7]), 70);
    const uint64_t parts[] = { 4 };
    ck_assert_int_eq(publisher_check(p, 5, parts, 1), 1);
    ck_assert_uint_eq(count_names(), 5);
    control_close(&c);
    control_close(&old);
    publisher_close(p, false);
}
END_TEST

START_TEST(another_mode_holds_for_what_is_written_in_the_next_epoch)
{
    fresh_place();
    struct publisher *p = running();
    uint64_t old = publisher_epoch(p);

    ck_assert(!publisher_set_mode(p, options.mode, options.group));
    ck_assert(publisher_set_mode(p, 0400, options.group));
    publisher_new_epoch(p);
    write_part(p, 4, 0, 9);
    write_root(p, 5);
    ck_assert_int_eq(mode_of(shm_path(SHM_PART, publisher_epoch(p), 4)), 0400);
    ck_assert_int_eq(mode_of(shm_path(SHM_CONTROL, 0, 0)), 0644); /* what has a name is left alone */
    take_over(p, 5, old);
    ck_assert_int_eq(mode_of(shm_path(SHM_ROOT, publisher_epoch(p), 5)), 0400);
    ck_assert_int_eq(mode_of(shm_path(SHM_CONTROL, 0, 0)), 0600);
    publisher_close(p, false);
}
END_TEST

START_TEST(a_lost_lock_is_taken_anew)
{
    struct publisher *second;

    fresh_place();
    struct publisher *p = running();
    unsigned fds = count_descriptors();
    unlink(shm_path(SHM_LOCK, 0, 0));
    ck_assert_int_eq(check_all(p), 1);
    ck_assert_int_eq(publisher_open(&second, &options, &msg), SKADE_ERUNNING);
    ck_assert_uint_eq(count_descriptors(), fds);
    ck_assert(squat(SQUAT_DIRECTORY, in_place("unrelated")));
    unlink(shm_path(SHM_LOCK, 0, 0));
    ck_assert(squat(SQUAT_FIFO, shm_path(SHM_LOCK, 0, 0)));
    ck_assert_int_eq(check_all(p), 1); /* not now; perhaps the next time */
    publisher_close(p, false);
}
END_TEST

START_TEST(a_lock_that_another_daemon_took_is_the_end)
{
    fresh_place();
    struct publisher *p = running();
    unlink(shm_path(SHM_LOCK, 0, 0));
    struct publisher *second = start();
    ck_assert_int_eq(check_all(p), SKADE_ERUNNING);
    publisher_close(p, false);
    publisher_close(second, false);
}
END_TEST

static int fill_across_epochs(void *arg, void *buf, size_t size)
{
    struct publisher *p = arg;
    struct root_input in = {
        .log = options.log, .seed = options.seed, .epoch = publisher_epoch(p), .generation = 9
    };
    publisher_new_epoch(p);
    ck_assert_uint_eq(root_size(&in), size);
    return root_fill(&in, buf, size);
}

START_TEST(a_file_for_an_epoch_that_is_over_gets_no_name)
{
    struct root_input in = { .generation = 9 };
    struct segmap map;

    fresh_place();
    struct publisher *p = running();
    uint64_t before = publisher_epoch(p);
    unsigned names = count_names();
    int r = publisher_write(p, SHM_ROOT, 9, root_size(&in), fill_across_epochs, p, &map, &msg);
    ck_assert_int_eq(r, -EAGAIN);
    ck_assert_uint_eq(count_names(), names);
    ck_assert(!place_has(shm_path(SHM_ROOT, before, 9)));
    ck_assert_uint_eq(publisher_linked_bytes(p), 0);
    publisher_close(p, false);
}
END_TEST

/* ---- threads ------------------------------------------------------------------------------------------- */

struct worker {
    struct publisher *p;
    _Atomic uint64_t done;
};

static void *write_many(void *arg)
{
    struct worker *w = arg;
    for (uint64_t generation = 1001; generation <= 1100; generation++) {
        write_part(w->p, generation, generation, generation + 1);
        atomic_store(&w->done, generation);
    }
    return NULL;
}

START_TEST(a_worker_writes_while_the_loop_goes_on)
{
    struct worker w = { .p = NULL };
    pthread_t thread;
    uint64_t generation = 1;

    fresh_place();
    w.p = start();
    write_root(w.p, generation);
    take_over(w.p, generation, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, write_many, &w), 0);
    while (atomic_load(&w.done) < 1100) {
        write_root(w.p, ++generation);
        publisher_switch(w.p, generation);
        publisher_commit_seq(w.p, generation);
        publisher_unlink(w.p, SHM_ROOT, generation - 1);
        ck_assert_int_eq(publisher_check(w.p, generation, NULL, 0), 1);
        publisher_linked_bytes(w.p);
    }
    pthread_join(thread, NULL);
    ck_assert_uint_eq(count_names(), 104);
    for (uint64_t part = 1001; part <= 1100; part++)
        publisher_unlink(w.p, SHM_PART, part);
    ck_assert_uint_eq(publisher_linked_bytes(w.p), root_bytes(3));
    publisher_close(w.p, false);
}
END_TEST

Suite *publisher_suite(void);
Suite *publisher_suite(void)
{
    Suite *s = suite_create("publisher");
    TCase *t = tcase_create("files");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, files_are_written_complete_and_under_their_names);
    tcase_add_test(t, nothing_that_has_a_name_can_be_written);
    tcase_add_test(t, a_name_that_is_another_file_by_now_is_not_unlinked);
    tcase_add_test(t, modes_dont_depend_on_the_umask);
    tcase_add_test(t, files_are_given_to_the_group_that_may_read_them);
    tcase_add_test(t, a_full_file_system_is_an_error_that_names_the_cures);
    tcase_add_test(t, what_cannot_fit_is_not_tried);
    tcase_add_test(t, a_file_system_that_is_full_to_the_last_page_is_no_sigbus);
    tcase_add_test(t, a_file_system_without_room_for_names_says_so);
    tcase_add_test(t, a_file_system_without_a_limit_has_room);
    tcase_add_test(t, whatever_step_fails_nothing_is_left);
    tcase_add_test(t, killed_at_any_step_a_writer_leaves_nothing_or_a_whole_file);
    tcase_add_test(t, what_is_no_file_of_ours_gets_no_name);
    tcase_add_test(t, a_name_that_is_somebody_elses_is_refused_and_left_alone);
    tcase_add_test(t, an_older_file_of_ours_makes_room);
    tcase_add_test(t, file_systems_without_unnamed_files_are_served);
    tcase_add_test(t, what_is_left_under_a_temporary_name_is_swept);
    tcase_add_test(t, without_proc_files_are_linked_by_descriptor);
    tcase_add_test(t, whatever_system_call_fails_nothing_is_left);
    tcase_add_test(t, a_worker_writes_while_the_loop_goes_on);
    suite_add_tcase(s, t);
    t = tcase_create("lock");
    tcase_set_timeout(t, getenv("SKADE_TEST_LONG") ? 600 : 60);
    tcase_add_test(t, a_second_daemon_is_refused_and_told_who_runs);
    tcase_add_test(t, epochs_are_never_the_same);
    tcase_add_test(t, of_twenty_that_race_one_wins);
    tcase_add_test(t, a_lock_that_is_somebody_elses_is_refused);
    tcase_add_test(t, other_descriptors_of_the_lock_file_dont_matter);
    tcase_add_test(t, a_killed_daemons_lock_is_free);
    tcase_add_test(t, without_proc_a_second_daemon_is_refused_all_the_same);
    tcase_add_test(t, a_file_system_without_locks_is_an_error);
    tcase_add_test(t, no_descriptor_survives_exec);
    tcase_add_test(t, a_lock_that_was_replaced_is_not_won);
    suite_add_tcase(s, t);
    t = tcase_create("place");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_missing_directory_is_told_with_the_cure);
    tcase_add_test(t, a_directory_that_others_can_change_is_refused);
    tcase_add_test(t, an_ordinary_user_takes_over_from_himself);
    tcase_add_test(t, a_daemon_that_clients_would_not_trust_doesnt_start);
    tcase_add_test(t, what_an_ordinary_user_may_not_is_told);
    tcase_add_test(t, what_root_left_behind_is_told_and_not_looped_over);
    suite_add_tcase(s, t);
    t = tcase_create("healing");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, each_lost_name_is_noticed);
    tcase_add_test(t, a_new_epoch_heals_what_was_removed);
    tcase_add_test(t, another_mode_holds_for_what_is_written_in_the_next_epoch);
    tcase_add_test(t, a_lost_lock_is_taken_anew);
    tcase_add_test(t, a_lock_that_another_daemon_took_is_the_end);
    tcase_add_test(t, a_file_for_an_epoch_that_is_over_gets_no_name);
    suite_add_tcase(s, t);
    return s;
}
