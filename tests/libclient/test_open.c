/*
 * Opening a handle: options, environment, run directories and whom they make us trust.
 */
#include "client.h"
#include "fake.h"
#include "tempdir.h"
#include "whereabouts.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct world *published(void)
{
    struct world *w = world_make();
    world_new_page(w);
    world_create(w, "shop.orders");
    world_commit(w, 1, 10, 100, "s3://orders/10");
    world_publish(w);
    return w;
}

static int try_options(struct skade_options o)
{
    skade *s = NULL;
    int r = skade_open(&s, &o);

    ck_assert_int_eq(r == 0, s != NULL);
    skade_close(s);
    return r;
}

static int try_dir(const char *dir)
{
    struct skade_options o = { .size = sizeof o, .run_dir = dir, .timeout_ms = 20000 };
    return try_options(o);
}

static void assert_says(const char *what)
{
    ck_assert_msg(strstr(skade_errmsg(NULL), what) != NULL, "\"%s\" doesn't say \"%s\"", skade_errmsg(NULL),
                  what);
}

/* ---- options ------------------------------------------------------------------------------------------- */

START_TEST(options_without_a_size_are_refused)
{
    ck_assert_int_eq(try_options((struct skade_options){ .size = 0 }), SKADE_EINPUT);
    assert_says("skade_options.size");
}
END_TEST

START_TEST(options_of_earlier_and_later_versions_are_understood)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    struct {
        struct skade_options o;
        char later[64];
    } options = { .o = { .run_dir = w->run } };
    skade *s;

    memset(options.later, 0xff, sizeof options.later);
    options.o.timeout_ms = -1; /* refused where it is seen */
    options.o.size = offsetof(struct skade_options, timeout_ms);
    ck_assert_int_eq(skade_open(&s, &options.o), 0);
    skade_close(s);
    options.o.size = sizeof options;
    ck_assert_int_eq(skade_open(&s, &options.o), SKADE_EINPUT);
    options.o.timeout_ms = 0;
    ck_assert_int_eq(skade_open(&s, &options.o), 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(unknown_flags_and_impossible_names_are_refused)
{
    struct skade_options o = { .size = sizeof o, .flags = 1u << 30 };

    ck_assert_int_eq(try_options(o), SKADE_EINPUT);
    static const char *const names[] = {
        "", "UPPER", "a/b", "..", "a b", "123456789012345678901234567890123"
    };
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        o = (struct skade_options){ .size = sizeof o, .instance = names[i] };
        ck_assert_int_eq(try_options(o), SKADE_EINPUT);
        assert_says("instance name");
    }
}
END_TEST

/* ---- where --------------------------------------------------------------------------------------------- */

START_TEST(the_environment_names_instance_and_directory)
{
    struct world *w = world_make();
    snprintf(w->place.instance, sizeof w->place.instance, "other");
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s;

    setenv("SKADE_RUN_DIR", w->run, 1);
    setenv("SKADE_SHM_DIR", w->place.dir, 1);
    ck_assert_int_eq(skade_open(&s, NULL), SKADE_EUNREACHABLE);
    assert_says("default.sock");
    setenv("SKADE_INSTANCE", "other", 1);
    ck_assert_int_eq(skade_open(&s, NULL), 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(slashes_at_the_end_of_the_directory_do_not_matter)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    char dir[300];

    snprintf(dir, sizeof dir, "%s///", w->run);
    ck_assert_int_eq(try_dir(dir), 0);
    fake_stop(f);
}
END_TEST

START_TEST(a_directory_that_others_can_write_to_is_not_trusted)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    static const mode_t modes[] = { 0720, 0702, 01777, 0770 };

    for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
        ck_assert_int_eq(chmod(w->run, modes[i]), 0);
        ck_assert_int_eq(try_dir(w->run), SKADE_EFOREIGN);
        assert_says("chmod");
    }
    ck_assert_int_eq(chmod(w->run, 0755), 0);
    ck_assert_int_eq(try_dir(w->run), 0);
    fake_stop(f);
}
END_TEST

START_TEST(a_link_to_a_directory_is_not_trusted)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    char link[300], with_slash[310];

    snprintf(link, sizeof link, "%s.link", w->run);
    ck_assert_int_eq(symlink(w->run, link), 0);
    ck_assert_int_eq(try_dir(link), SKADE_EFOREIGN);
    snprintf(with_slash, sizeof with_slash, "%s/", link);
    ck_assert_int_eq(try_dir(with_slash), SKADE_EFOREIGN);
    fake_stop(f);
}
END_TEST

START_TEST(a_directory_that_is_not_there_and_one_too_long_are_told_apart)
{
    char dir[600];

    ck_assert_int_eq(try_dir("/nonexistent/skade"), SKADE_EUNREACHABLE);
    assert_says("/nonexistent/skade");
    memset(dir, 'x', sizeof dir - 1);
    dir[0] = '/';
    dir[sizeof dir - 1] = 0;
    ck_assert_int_eq(try_dir(dir), SKADE_EINPUT);
    ck_assert_int_eq(try_dir(""), SKADE_EINPUT);
}
END_TEST

START_TEST(a_socket_path_that_is_too_long_is_refused_and_named)
{
    char dir[300];

    int n = snprintf(dir, sizeof dir, "%s/", tempdir());
    memset(dir + n, 'd', 110);
    dir[n + 110] = 0;
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    ck_assert_int_eq(try_dir(dir), SKADE_EINPUT);
    assert_says("107 bytes");
}
END_TEST

START_TEST(root_looks_into_the_systems_directory_and_users_into_their_own)
{
    struct world *w = published();
    char dir[300];
    skade *s;

    snprintf(dir, sizeof dir, "%s/skade", tempdir());
    ck_assert_int_eq(rename(w->run, dir), 0);
    memcpy(w->run, dir, strlen(dir) + 1);
    *strrchr(dir, '/') = 0;
    setenv("XDG_RUNTIME_DIR", dir, 1);
    setenv("SKADE_SHM_DIR", w->place.dir, 1);
    if (geteuid() == 0) {
        ck_assert_int_eq(chmod(dir, 0755), 0);
        ck_assert_int_eq(chown(w->run, 65500, 65500), 0);
        ck_assert_int_eq(setresuid(65500, 65500, 65500), 0);
    }
    struct fake *f = fake_start(w, NULL, NULL);
    int r = skade_open(&s, NULL);
    ck_assert_msg(r == 0, "%s", skade_errmsg(NULL));
    ck_assert_str_eq(s->socket_path + strlen(s->socket_path) - 19, "/skade/default.sock");
    skade_close(s);
    fake_stop(f);
    ck_assert_int_eq(skade_open(&s, NULL), SKADE_EUNREACHABLE);
    assert_says(w->run); /* no socket anywhere: the directory that is there */
}
END_TEST

/* ---- first contact ------------------------------------------------------------------------------------- */

static void leave_note(struct world *w, struct uuid log, const char *shm_dir)
{
    struct whereabouts note = { .log = log };

    snprintf(note.shm_dir, sizeof note.shm_dir, "%s", shm_dir);
    ck_assert_int_eq(whereabouts_write(w->run, w->place.instance, &note, NULL), 0);
}

START_TEST(without_a_daemon_its_note_tells_where_its_maps_are)
{
    struct world *w = published();
    struct skade_answer a = answer();
    skade *s;

    unsetenv("SKADE_SHM_DIR");
    ck_assert_int_eq(world_try_open(w, 0, 1000, &s), SKADE_EUNREACHABLE);
    leave_note(w, w->log, w->place.dir);
    ck_assert_int_eq(world_try_open(w, 0, 1000, &s), 0);
    ck_assert_int_eq(skade_resolve(s, 1, 10, &a), 1);
    skade_close(s);
}
END_TEST

START_TEST(maps_of_another_log_than_the_notes_are_not_this_instances)
{
    struct world *w = published();
    struct uuid other = { { 1, 2, 3 } };
    skade *s;

    leave_note(w, other, w->place.dir);
    ck_assert_int_eq(world_try_open(w, 0, 1000, &s), SKADE_EUNREACHABLE);
    assert_says("not that of the daemon");
}
END_TEST

START_TEST(a_note_that_others_can_write_is_not_followed)
{
    struct world *w = published();
    char path[300];
    skade *s;

    leave_note(w, w->log, w->place.dir);
    snprintf(path, sizeof path, "%s/default.shm", w->run);
    ck_assert_int_eq(chmod(path, 0666), 0);
    ck_assert_int_eq(world_try_open(w, 0, 1000, &s), SKADE_EUNREACHABLE);
    ck_assert_int_eq(truncate(path, 10), 0);
    ck_assert_int_eq(chmod(path, 0444), 0);
    ck_assert_int_eq(world_try_open(w, 0, 1000, &s), SKADE_EUNREACHABLE);
}
END_TEST

START_TEST(without_daemon_and_map_nothing_can_be_opened)
{
    struct world *w = world_make();
    skade *s = NULL;

    ck_assert_int_eq(world_try_open(w, 0, 1000, &s), SKADE_EUNREACHABLE);
    assert_says("skaded running");
    assert_says("no map");
    ck_assert_int_eq(world_try_open(w, SKADE_NO_SHM, 1000, &s), SKADE_EUNREACHABLE);
    ck_assert_ptr_null(s);
}
END_TEST

static enum fake_verdict refuse(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                struct wr *out)
{
    (void)h, (void)payload;
    fake_error(out, 0, *(int *)f->arg, "go away");
    return FAKE_CLOSE;
}

START_TEST(a_daemon_that_refuses_is_quoted)
{
    struct world *w = world_make();
    int codes[] = { SKADE_EDENIED, SKADE_EVERSION, SKADE_EBUSY };
    skade *s = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
        struct fake *f = fake_start(w, refuse, &codes[i]);
        ck_assert_int_eq(world_try_open(w, 0, 20000, &s), codes[i]);
        assert_says("go away");
        fake_stop(f);
    }
}
END_TEST

static enum fake_verdict say_nothing(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                     struct wr *out)
{
    (void)f, (void)h, (void)payload, (void)out;
    return FAKE_SILENT;
}

START_TEST(a_daemon_that_hangs_times_out_unless_there_is_a_map)
{
    struct world *w = world_make();
    struct fake *f = fake_start(w, say_nothing, NULL);
    skade *s = NULL;

    ck_assert_int_eq(world_try_open(w, 0, 20, &s), SKADE_ETIMEOUT);
    world_new_page(w);
    world_create(w, "shop.orders");
    world_publish(w);
    ck_assert_int_eq(world_try_open(w, 0, 20, &s), 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

struct hello_seen {
    char label[128];
    uint64_t epoch, generation;
};

static enum fake_verdict look_at_hello(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                       struct wr *out)
{
    struct hello_seen *seen = f->arg;
    struct msg_hello m;

    (void)out;
    if (h->type != WIRE_HELLO)
        return FAKE_DEFAULT;
    ck_assert_int_eq(wire_read_hello(payload, h->len, &m), 0);
    ck_assert_uint_le(m.protocol_min, m.protocol_max);
    snprintf(seen->label, sizeof seen->label, "%.*s", (int)m.label.len, m.label.data);
    seen->epoch = m.epoch;
    seen->generation = m.generation;
    return FAKE_DEFAULT;
}

START_TEST(hello_tells_the_label_and_what_is_mapped)
{
    struct world *w = published();
    struct hello_seen seen = { .epoch = 1 };
    skade *s = world_open(w, 0);
    struct fake *f = fake_start(w, look_at_hello, &seen);

    ck_assert_int_ge(skade_ping(s), 0);
    ck_assert_str_eq(seen.label, "test");
    ck_assert_uint_eq(seen.epoch, w->epoch);
    ck_assert_uint_eq(seen.generation, w->generation);
    skade_close(s);
    ck_assert_int_eq(try_dir(w->run), 0);
    ck_assert_str_eq(seen.label, program_invocation_short_name);
    ck_assert_uint_eq(seen.epoch, 0);
    fake_stop(f);
}
END_TEST

static enum fake_verdict bad_welcome(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                     struct wr *out)
{
    struct msg_welcome m = { .protocol = 1,
                             .epoch = 1,
                             .log = f->world->log,
                             .frame_max = WIRE_FRAME_MAX,
                             .shm_dir = bytes_of("/dev/shm") };
    char path[400];

    (void)payload;
    memset(path, 'x', sizeof path);
    path[0] = '/';
    switch (*(int *)f->arg) {
    case 0:
        m.protocol = 0;
        break;
    case 1:
        m.protocol = WIRE_PROTOCOL_MAX + 1;
        break;
    case 2:
        m.frame_max = 100;
        break;
    case 3:
        m.shm_dir = bytes_of("");
        break;
    case 4:
        m.shm_dir = bytes_of("relative");
        break;
    case 5:
        m.shm_dir = (struct bytes){ path, sizeof path };
        break;
    case 6:
        m.shm_dir = (struct bytes){ "/dev\0shm", 8 };
        break;
    case 7:
        m.log = (struct uuid){ { 0 } };
        break;
    }
    size_t at = frame_begin(out);
    wire_put_welcome(out, &m);
    frame_end(out, at, WIRE_WELCOME, 0, h->request);
    return FAKE_SENT;
}

START_TEST(a_welcome_that_makes_no_sense_is_refused)
{
    struct world *w = world_make();
    int which = _i;
    struct fake *f = fake_start(w, bad_welcome, &which);
    skade *s = NULL;

    ck_assert_int_eq(world_try_open(w, 0, 20000, &s), _i < 2 ? SKADE_EVERSION : SKADE_EPROTOCOL);
    fake_stop(f);
}
END_TEST

START_TEST(errno_is_kept_and_closing_nothing_is_fine)
{
    struct world *w = world_make();
    skade *s = NULL;

    errno = 4242;
    ck_assert_int_eq(world_try_open(w, 0, 1000, &s), SKADE_EUNREACHABLE);
    ck_assert_int_eq(errno, 4242);
    skade_close(NULL);
    skade_view_close(NULL);
    struct fake *f = fake_start(w, NULL, NULL);
    errno = 4242;
    s = world_open(w, 0);
    skade_close(s);
    ck_assert_int_eq(errno, 4242);
    fake_stop(f);
}
END_TEST

Suite *client_open_suite(void);
Suite *client_open_suite(void)
{
    Suite *suite = suite_create("client_open");
    TCase *t = tcase_create("open");

    tcase_set_timeout(t, 300);
    tcase_add_test(t, options_without_a_size_are_refused);
    tcase_add_test(t, options_of_earlier_and_later_versions_are_understood);
    tcase_add_test(t, unknown_flags_and_impossible_names_are_refused);
    tcase_add_test(t, the_environment_names_instance_and_directory);
    tcase_add_test(t, slashes_at_the_end_of_the_directory_do_not_matter);
    tcase_add_test(t, a_directory_that_others_can_write_to_is_not_trusted);
    tcase_add_test(t, a_link_to_a_directory_is_not_trusted);
    tcase_add_test(t, a_directory_that_is_not_there_and_one_too_long_are_told_apart);
    tcase_add_test(t, a_socket_path_that_is_too_long_is_refused_and_named);
    tcase_add_test(t, root_looks_into_the_systems_directory_and_users_into_their_own);
    tcase_add_test(t, without_a_daemon_its_note_tells_where_its_maps_are);
    tcase_add_test(t, maps_of_another_log_than_the_notes_are_not_this_instances);
    tcase_add_test(t, a_note_that_others_can_write_is_not_followed);
    tcase_add_test(t, without_daemon_and_map_nothing_can_be_opened);
    tcase_add_test(t, a_daemon_that_refuses_is_quoted);
    tcase_add_test(t, a_daemon_that_hangs_times_out_unless_there_is_a_map);
    tcase_add_test(t, hello_tells_the_label_and_what_is_mapped);
    tcase_add_loop_test(t, a_welcome_that_makes_no_sense_is_refused, 0, 8);
    tcase_add_test(t, errno_is_kept_and_closing_nothing_is_fine);
    suite_add_tcase(suite, t);
    return suite;
}
