#include "segmap.h"

#include "deny.h"
#include "tempdir.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define STRANGER 54321
#define MIB ((size_t)1 << 20)
#define ANY_SIZE (64 * MIB)

static struct shm_place place;
static const char *dir;
static struct errmsg msg;

static void use_dir(const char *path)
{
    dir = path;
    place = (struct shm_place){ .instance = "test", .uid = getuid() };
    snprintf(place.dir, sizeof place.dir, "%s", dir);
}

static void fresh_dir(void)
{
    use_dir(tempdir());
}

static const char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static uint8_t byte_at(size_t i)
{
    return (uint8_t)(i * 131 + (i >> 12) + 7);
}

/* A file of SIZE bytes that can be told apart from zeros. */
static void make_file(const char *name, size_t size)
{
    uint8_t *bytes = malloc(size + 1);
    for (size_t i = 0; i < size; i++)
        bytes[i] = byte_at(i);
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_EXCL, 0400);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, size), (ssize_t)size);
    close(fd);
    free(bytes);
}

static int open_any(struct segmap *m, const char *name)
{
    msg.text[0] = 0;
    return segmap_open(m, &place, name, 1, ANY_SIZE, &msg);
}

/* How many pages this process has mapped, and how many descriptors are open. */
static long mapped_pages(void)
{
    char text[64] = "";
    int fd = open("/proc/self/statm", O_RDONLY);
    ck_assert_int_gt(read(fd, text, sizeof text - 1), 0);
    close(fd);
    return atol(text);
}

static int open_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* NAME is refused with ERROR, for a reason that names it, at once and leaving nothing behind. */
static void check_refused(const char *name, int error)
{
    struct segmap m = { .size = 42 };
    int fds = open_descriptors();
    long pages = mapped_pages();

    ck_assert_int_eq(open_any(&m, name), error);
    ck_assert_uint_eq(m.size, 42);
    ck_assert_ptr_nonnull(strstr(msg.text, name));
    ck_assert_int_eq(open_descriptors(), fds);
    ck_assert_int_eq(mapped_pages(), pages);
}

START_TEST(files_of_every_size_are_mapped)
{
    static const size_t sizes[] = { 1,           100,     4095,        4096,    4097,       2 * MIB - 4096,
                                    2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 5 * MIB, 5 * MIB + 3 };
    fresh_dir();
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        char name[32];
        struct segmap m;
        struct stat st;
        snprintf(name, sizeof name, "file%zu", sizes[i]);
        make_file(name, sizes[i]);
        long pages = mapped_pages();
        ck_assert_msg(open_any(&m, name) == 0, "%s", msg.text);
        ck_assert_uint_eq(m.size, sizes[i]);
        ck_assert_int_eq(stat(path_of(name), &st), 0);
        ck_assert_uint_eq(m.ino, st.st_ino);
        ck_assert_uint_eq(m.dev, st.st_dev);
        for (size_t at = 0; at < sizes[i]; at += at + 1 < sizes[i] && at + 509 >= sizes[i] ? 1 : 509)
            ck_assert_uint_eq(m.base[at], byte_at(at));
        ck_assert(sizes[i] < 2 * MIB || (uintptr_t)m.base % (2 * MIB) == 0);
        ck_assert_int_eq(mapped_pages() - pages, (long)(sizes[i] + 4095) / 4096);
        segmap_close(&m);
        ck_assert_int_eq(mapped_pages(), pages);
        segmap_close(&m); /* harmless */
    }
}
END_TEST

START_TEST(no_descriptor_is_kept_and_the_map_outlives_the_name)
{
    struct segmap m;

    fresh_dir();
    make_file("file", 10000);
    int fds = open_descriptors();
    ck_assert_int_eq(open_any(&m, "file"), 0);
    ck_assert_int_eq(open_descriptors(), fds);
    ck_assert_int_eq(unlink(path_of("file")), 0);
    ck_assert_uint_eq(m.base[9999], byte_at(9999));
    segmap_close(&m);
}
END_TEST

START_TEST(a_map_cannot_be_made_writable)
{
    struct segmap m;

    fresh_dir();
    make_file("file", 4096);
    ck_assert_int_eq(open_any(&m, "file"), 0);
    ck_assert_int_eq(mprotect((void *)m.base, m.size, PROT_READ | PROT_WRITE), -1);
    ck_assert_int_eq(errno, EACCES);
    segmap_close(&m);
}
END_TEST

START_TEST(a_missing_name_is_enoent)
{
    fresh_dir();
    check_refused("nothing", -ENOENT);
    place.dir[strlen(place.dir) - 1] = '?'; /* nor is there such a directory */
    check_refused("nothing", -ENOENT);
}
END_TEST

static void make_socket(const char *name)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%.100s", path_of(name));
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
}

START_TEST(what_is_no_regular_file_is_refused_at_once)
{
    fresh_dir();
    make_file("file", 100);
    ck_assert_int_eq(mkfifo(path_of("fifo"), 0400), 0);
    ck_assert_int_eq(mkdir(path_of("directory"), 0500), 0);
    ck_assert_int_eq(symlink("file", path_of("symlink")), 0);
    ck_assert_int_eq(symlink("nothing", path_of("dangling")), 0);
    ck_assert_int_eq(symlink("/dev/zero", path_of("device")), 0);
    make_socket("socket");
    alarm(5); /* a FIFO without O_NONBLOCK would wait for ever */
    check_refused("fifo", SKADE_EFOREIGN);
    check_refused("directory", SKADE_EFOREIGN);
    check_refused("symlink", SKADE_EFOREIGN);
    check_refused("dangling", SKADE_EFOREIGN);
    check_refused("device", SKADE_EFOREIGN);
    check_refused("socket", SKADE_EFOREIGN);
    alarm(0);
}
END_TEST

START_TEST(a_file_that_others_can_write_is_refused)
{
    static const mode_t refused[] = { 0602, 0620, 0666, 0422 }, fine[] = { 0400, 0440, 0444, 0644, 0600 };
    struct segmap m;

    fresh_dir();
    make_file("file", 100);
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        chmod(path_of("file"), refused[i]);
        check_refused("file", SKADE_EFOREIGN);
    }
    for (size_t i = 0; i < ARRAY_SIZE(fine); i++) {
        chmod(path_of("file"), fine[i]);
        ck_assert_int_eq(open_any(&m, "file"), 0);
        segmap_close(&m);
    }
}
END_TEST

START_TEST(only_the_places_owner_and_root_are_trusted)
{
    struct segmap m;

    if (geteuid() != 0) {
        printf("skipped: giving files away takes root\n");
        return;
    }
    fresh_dir();
    make_file("file", 100);
    place.uid = STRANGER;
    ck_assert_int_eq(open_any(&m, "file"), 0); /* root's */
    segmap_close(&m);
    ck_assert_int_eq(chown(path_of("file"), STRANGER, 0), 0);
    ck_assert_int_eq(open_any(&m, "file"), 0);
    segmap_close(&m);
    place.uid = STRANGER + 1;
    check_refused("file", SKADE_EFOREIGN);
    place.uid = 0;
    check_refused("file", SKADE_EFOREIGN);
}
END_TEST

START_TEST(a_file_that_may_not_be_read_is_eacces)
{
    if (geteuid() != 0) {
        printf("skipped: becoming another user takes root\n");
        return;
    }
    fresh_dir();
    make_file("file", 100);
    ck_assert_int_eq(chmod(dir, 0755), 0);
    ck_assert_int_eq(setgroups(0, NULL), 0);
    ck_assert_int_eq(setresgid(STRANGER, STRANGER, STRANGER), 0);
    ck_assert_int_eq(seteuid(STRANGER), 0);
    check_refused("file", -EACCES);
    ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

START_TEST(a_file_of_another_size_is_refused)
{
    struct segmap m;

    fresh_dir();
    make_file("empty", 0);
    make_file("file", 100);
    check_refused("empty", SKADE_EDAMAGED);
    ck_assert_int_eq(segmap_open(&m, &place, "file", 101, 200, &msg), SKADE_EDAMAGED);
    ck_assert_int_eq(segmap_open(&m, &place, "file", 50, 99, &msg), SKADE_EDAMAGED);
    ck_assert_int_eq(segmap_open(&m, &place, "file", 100, 100, &msg), 0);
    segmap_close(&m);
    chmod(path_of("file"), 0600);
    ck_assert_int_eq(truncate(path_of("file"), 99), 0);
    ck_assert_int_eq(segmap_open(&m, &place, "file", 100, 100, &msg), SKADE_EDAMAGED);
    ck_assert_ptr_nonnull(strstr(msg.text, "99"));
}
END_TEST

/* A file with a hole on a file system that is full: touching the hole is SIGBUS. */
static bool make_hole(void)
{
    const char *small = tempdir_mounted("size=256k");
    if (!small) {
        printf("skipped: mounting a small tmpfs takes root\n");
        return false;
    }
    use_dir(small);
    make_file("file", 100 * 1024);
    ck_assert_int_eq(truncate(path_of("file"), 8 * (off_t)MIB), 0);
    int fd = open(path_of("filler"), O_WRONLY | O_CREAT, 0600);
    static const char zeros[4096];
    while (write(fd, zeros, sizeof zeros) == sizeof zeros)
        ;
    close(fd);
    return true;
}

START_TEST(a_hole_without_memory_is_an_error_and_not_sigbus)
{
    if (make_hole())
        check_refused("file", SKADE_EDAMAGED);
}
END_TEST

START_TEST(an_old_kernel_finds_holes_another_way)
{
    struct segmap m;

    if (!make_hole())
        return;
    if (!deny_syscall(SYS_madvise, 2, UINT32_MAX, 22 /* MADV_POPULATE_READ */, EINVAL)) {
        printf("skipped: no seccomp here\n");
        return;
    }
    check_refused("file", SKADE_EDAMAGED);
    ck_assert_int_eq(truncate(path_of("file"), 50 * 1024), 0);
    ck_assert_int_eq(open_any(&m, "file"), 0);
    ck_assert_uint_eq(m.base[50 * 1024 - 1], byte_at(50 * 1024 - 1));
    segmap_close(&m);
}
END_TEST

START_TEST(a_sandbox_that_forbids_probing_is_served)
{
    struct segmap m;

    fresh_dir();
    make_file("file", 10000);
    if (!deny_syscall(SYS_madvise, 2, UINT32_MAX, 22, EINVAL) ||
        !deny_syscall(SYS_process_vm_readv, 0, 0, 0, EPERM)) {
        printf("skipped: no seccomp here\n");
        return;
    }
    ck_assert_int_eq(open_any(&m, "file"), 0);
    segmap_close(&m);
}
END_TEST

START_TEST(a_map_that_is_refused_leaves_nothing)
{
    fresh_dir();
    make_file("small", 10000);
    make_file("large", 3 * MIB);
    if (!deny_syscall(SYS_mmap, 3, MAP_SHARED | MAP_PRIVATE, MAP_SHARED, EPERM)) {
        printf("skipped: no seccomp here\n");
        return;
    }
    check_refused("small", -EPERM);
    check_refused("large", -EPERM); /* the addresses were reserved already */
}
END_TEST

START_TEST(too_little_address_space_is_enomem)
{
    struct rlimit limit;

    if (getenv("ASAN_OPTIONS") || mapped_pages() > (long)(1ull << 34) / 4096) {
        printf("skipped: a sanitizer needs its address space\n");
        return;
    }
    fresh_dir();
    make_file("large", 20 * MIB);
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = (rlim_t)mapped_pages() * 4096 + 8 * MIB;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    check_refused("large", -ENOMEM);
}
END_TEST

/* In a user namespace that maps nobody all files look like they are the overflow uid's, whoever's they
 * are. */
START_TEST(the_overflow_uid_is_trusted_only_where_it_is_real)
{
    struct segmap m;

    if (geteuid() != 0) {
        printf("skipped: giving files away takes root\n");
        return;
    }
    fresh_dir();
    make_file("file", 100);
    ck_assert_int_eq(chmod(path_of("file"), 0444), 0);
    ck_assert_int_eq(chmod(dir, 0755), 0);
    ck_assert_int_eq(chown(path_of("file"), 65534, 65534), 0);
    place.uid = 65534;
    ck_assert_int_eq(open_any(&m, "file"), 0);
    segmap_close(&m);
    ck_assert_int_eq(chown(path_of("file"), STRANGER, STRANGER), 0);
    if (unshare(CLONE_NEWUSER) < 0) {
        printf("skipped: no user namespaces here\n");
        return;
    }
    check_refused("file", SKADE_EFOREIGN);
}
END_TEST

START_TEST(maps_stay_out_of_core_dumps)
{
    struct segmap m;
    char line[512];
    unsigned long from, to;
    bool inside = false, left_out = false;

    fresh_dir();
    make_file("file", 10000);
    ck_assert_int_eq(open_any(&m, "file"), 0);
    FILE *f = fopen("/proc/self/smaps", "r");
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            inside = from <= (uintptr_t)m.base && (uintptr_t)m.base < to;
        if (inside && strncmp(line, "VmFlags:", 8) == 0)
            left_out = strstr(line, " dd") != NULL;
    }
    fclose(f);
    ck_assert(left_out);
    segmap_close(&m);
}
END_TEST

Suite *segmap_suite(void);
Suite *segmap_suite(void)
{
    Suite *s = suite_create("segmap");
    TCase *t = tcase_create("segmap");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, files_of_every_size_are_mapped);
    tcase_add_test(t, no_descriptor_is_kept_and_the_map_outlives_the_name);
    tcase_add_test(t, a_map_cannot_be_made_writable);
    tcase_add_test(t, a_missing_name_is_enoent);
    tcase_add_test(t, what_is_no_regular_file_is_refused_at_once);
    tcase_add_test(t, a_file_that_others_can_write_is_refused);
    tcase_add_test(t, only_the_places_owner_and_root_are_trusted);
    tcase_add_test(t, a_file_that_may_not_be_read_is_eacces);
    tcase_add_test(t, a_file_of_another_size_is_refused);
    tcase_add_test(t, a_hole_without_memory_is_an_error_and_not_sigbus);
    tcase_add_test(t, an_old_kernel_finds_holes_another_way);
    tcase_add_test(t, a_sandbox_that_forbids_probing_is_served);
    tcase_add_test(t, a_map_that_is_refused_leaves_nothing);
    tcase_add_test(t, too_little_address_space_is_enomem);
    tcase_add_test(t, the_overflow_uid_is_trusted_only_where_it_is_real);
    tcase_add_test(t, maps_stay_out_of_core_dumps);
    suite_add_tcase(s, t);
    return s;
}
