/*
 * What can be known about a daemon that is dead, hangs, or is well: counters, segments, verification,
 * clients, backup.
 */
#include "client.h"
#include "counters.h"
#include "fake.h"
#include "tempdir.h"

#include <check.h>
#include <fcntl.h>
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
    world_commit(w, 1, 20, 200, "s3://orders/20");
    world_publish(w);
    return w;
}

/* ---- counters ------------------------------------------------------------------------------------------ */

struct counters {
    int n;
    uint64_t first, second;
    int stop_at;
};

static int see_counter(void *arg, const char *name, uint64_t value, const char *unit, const char *kind,
                       const char *help)
{
    struct counters *c = arg;

    ck_assert_str_eq(name, counter_rows[c->n].name);
    ck_assert_str_eq(unit, counter_rows[c->n].unit);
    ck_assert_str_eq(kind, counter_rows[c->n].kind);
    ck_assert_str_eq(help, counter_rows[c->n].help);
    if (c->n == 0)
        c->first = value;
    if (c->n == 1)
        c->second = value;
    c->n++;
    return c->n == c->stop_at ? 77 : 0;
}

START_TEST(counters_of_a_dead_daemon_can_be_read)
{
    struct world *w = published();
    skade *s = world_open(w, 0);
    struct counters c = { .n = 0 };

    atomic_store(&w->page->counter[0], 42);
    atomic_store(&w->page->counter[1], UINT64_MAX);
    ck_assert_int_eq(skade_stats(s, see_counter, &c), SKADE_STALLED);
    ck_assert_int_eq(c.n, 3); /* as many as the page says */
    ck_assert_uint_eq(c.first, 42);
    ck_assert_uint_eq(c.second, UINT64_MAX);
    c = (struct counters){ .stop_at = 2 };
    ck_assert_int_eq(skade_stats(s, see_counter, &c), 77);
    skade_close(s);
}
END_TEST

START_TEST(a_daemon_that_answers_is_alive)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct counters c = { .n = 0 };

    ck_assert_int_eq(skade_stats(s, see_counter, &c), SKADE_ALIVE);
    ck_assert_int_eq(c.n, 3);
    skade_close(s);
    fake_stop(f);
}
END_TEST

static enum fake_verdict hang_but_beat(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                       struct wr *out)
{
    (void)payload, (void)out;
    if (h->type != WIRE_PING)
        return FAKE_DEFAULT;
    if (f->arg)
        world_beat(f->world);
    return FAKE_SILENT;
}

START_TEST(a_daemon_that_hangs_is_alive_while_its_heart_beats)
{
    struct world *w = published();
    struct fake *f = fake_start(w, hang_but_beat, _i == 1 ? w : NULL);
    struct counters c = { .n = 0 };
    skade *s = world_open_impatient(w, 100);

    ck_assert_int_eq(skade_stats(s, see_counter, &c), _i == 1 ? SKADE_ALIVE : SKADE_STALLED);
    skade_close(s);
    fake_stop(f);
}
END_TEST

static enum fake_verdict tell_counters(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                       struct wr *out)
{
    (void)f, (void)payload;
    if (h->type != WIRE_STATS)
        return FAKE_DEFAULT;
    size_t at = frame_begin(out);
    wire_put_counters(out, &(struct msg_counters){ .counters = { .count = 2 } });
    wire_put_counter_row(
        out, &(struct item_counter_row){ .name = bytes_of("commits"), .value = 5, .unit = bytes_of("") });
    wire_put_counter_row(out, &(struct item_counter_row){ .name = bytes_of("of_a_later_version"),
                                                          .value = 6,
                                                          .unit = bytes_of("furlongs") });
    frame_end(out, at, WIRE_COUNTERS, 0, h->request);
    return FAKE_SENT;
}

static int see_later_counter(void *arg, const char *name, uint64_t value, const char *unit, const char *kind,
                             const char *help)
{
    int *n = arg;

    if (++*n == 1) {
        ck_assert_str_eq(name, "commits");
        ck_assert_uint_eq(value, 5);
        ck_assert_str_eq(kind, "counter");
        ck_assert(help[0] != 0);
    } else {
        ck_assert_str_eq(name, "of_a_later_version");
        ck_assert_str_eq(unit, "furlongs");
        ck_assert_str_eq(help, "");
    }
    return 0;
}

START_TEST(counters_come_over_the_socket_where_memory_cannot_be_seen)
{
    struct world *w = published();
    struct fake *f = fake_start(w, tell_counters, NULL);
    skade *s = world_open(w, SKADE_NO_SHM);
    int n = 0;

    ck_assert_int_eq(skade_stats(s, see_later_counter, &n), SKADE_ALIVE);
    ck_assert_int_eq(n, 2);
    skade_close(s);
    fake_stop(f);
}
END_TEST

static int count_counters(void *arg, const char *name, uint64_t value, const char *unit, const char *kind,
                          const char *help)
{
    (void)value, (void)unit;
    ck_assert(name[0] && help[0]);
    ck_assert_str_eq(kind, "counter");
    ++*(int *)arg;
    return 0;
}

START_TEST(every_counter_of_a_handle_has_a_name_and_a_meaning)
{
    struct world *w = published();
    skade *s = world_open(w, 0);
    int n = 0;

    ck_assert_int_eq(skade_client_stats(s, count_counters, &n), 0);
    ck_assert_int_eq(n, CLIENT_COUNTER_END);
    skade_close(s);
}
END_TEST

/* ---- segments ------------------------------------------------------------------------------------------ */

struct segments {
    struct world *w;
    skade *s;
    int n;
    int linked;
};

static int see_segment(void *arg, const struct skade_segment *g)
{
    struct segments *seen = arg;

    if (seen->s)
        skade_quiesce(seen->s); /* does nothing while a callback has the maps in its hands */
    struct world *w = seen->w;
    struct stat st;

    ck_assert_uint_eq(g->size, sizeof *g);
    ck_assert_uint_eq(g->is_root, seen->n == 0);
    const char *path = world_file(w, g->is_root ? SHM_ROOT : SHM_PART, g->generation);
    ck_assert_str_eq(strrchr(path, '/') + 1, g->file);
    if (g->linked) {
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_uint_eq(g->bytes, (uint64_t)st.st_size);
    }
    if (seen->n == 1) {
        ck_assert_uint_eq(g->from_seq, 0);
        ck_assert_uint_eq(g->to_seq, 2);
        ck_assert_uint_eq(g->snapshots, 1);
    }
    seen->n++;
    seen->linked += g->linked != 0;
    return 0;
}

START_TEST(segments_are_the_files_of_the_current_generation)
{
    struct world *w = published();
    skade *s = world_open(w, 0);
    struct segments seen = { .w = w, .s = s };

    ck_assert_int_eq(skade_segments(s, see_segment, &seen), 3);
    ck_assert_int_eq(seen.linked, 3);
    ck_assert_int_eq(unlink(world_file(w, SHM_PART, 1)), 0);
    seen = (struct segments){ .w = w };
    ck_assert_int_eq(skade_segments(s, see_segment, &seen), 3);
    ck_assert_int_eq(seen.linked, 2);
    skade_close(s);
}
END_TEST

START_TEST(a_handle_without_shared_memory_can_look_at_it_and_lets_go)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, SKADE_NO_SHM);
    struct segments seen = { .w = w };

    ck_assert_int_eq(skade_segments(s, see_segment, &seen), 3);
    ck_assert_ptr_null(s->shm.control.page);
    ck_assert_ptr_null(s->shm.gen);
    ck_assert(s->shm.off);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(segments_that_cannot_be_seen_are_an_error_with_a_reason)
{
    struct world *w = world_make();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct segments seen = { .w = w };

    ck_assert_int_eq(skade_segments(s, see_segment, &seen), -ENOENT);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), w->place.dir));
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- verify -------------------------------------------------------------------------------------------- */

static enum fake_verdict verify_log(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                    struct wr *out)
{
    struct msg_verify m;

    if (h->type != WIRE_VERIFY)
        return FAKE_DEFAULT;
    ck_assert_int_eq(wire_read_verify(payload, h->len, &m), 0);
    *(int *)f->arg = m.full;
    size_t at = frame_begin(out);
    wire_put_verified(out, &(struct msg_verified){ .rows = { .count = 1 } });
    wire_put_check_row(
        out, &(struct item_check_row){ .object = bytes_of("log"), .checked = 3, .detail = bytes_of("") });
    frame_end(out, at, WIRE_VERIFIED, 0, h->request);
    return FAKE_SENT;
}

struct checks {
    int n;
    int damaged;
    uint64_t checked, damaged_bytes; /* of what is damaged */
    char last[64], detail[300];
};

static int see_check(void *arg, const char *object, uint64_t checked, uint64_t damaged, const char *detail)
{
    struct checks *c = arg;

    c->n++;
    if (damaged) {
        c->checked = checked;
        c->damaged_bytes = damaged;
        c->damaged++;
        snprintf(c->detail, sizeof c->detail, "%s: %s", object, detail);
    }
    snprintf(c->last, sizeof c->last, "%s", object);
    return 0;
}

START_TEST(verification_is_of_the_maps_and_then_of_the_log)
{
    struct world *w = published();
    int full = -1;
    struct fake *f = fake_start(w, verify_log, &full);
    skade *s = world_open(w, 0);
    struct checks c = { .n = 0 };

    ck_assert_int_eq(skade_verify(s, _i, see_check, &c), 0);
    ck_assert_int_eq(full, _i);
    ck_assert_int_eq(c.n, 4);
    ck_assert_int_eq(c.damaged, 0);
    ck_assert_str_eq(c.last, "log");
    skade_close(s);
    fake_stop(f);
}
END_TEST

static void flip(const char *path, off_t off)
{
    char byte;

    ck_assert_int_eq(chmod(path, 0600), 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_eq(pread(fd, &byte, 1, off), 1);
    byte = (char)~byte;
    ck_assert_int_eq(pwrite(fd, &byte, 1, off), 1);
    ck_assert_int_eq(fchmod(fd, 0400), 0);
    close(fd);
}

/* _i: 0 damaged after it was mapped, 1 before. */
START_TEST(verification_finds_a_flipped_byte)
{
    struct world *w = published();
    int full;
    struct fake *f = fake_start(w, verify_log, &full);
    skade *s = world_open(w, 0);
    struct segments seen = { .w = w };
    struct checks c = { .n = 0 };
    struct stat st;

    if (_i == 0)
        ck_assert_int_eq(skade_segments(s, see_segment, &seen), 3);
    const char *path = world_file(w, SHM_PART, 1);
    ck_assert_int_eq(stat(path, &st), 0);
    flip(path, st.st_size - 1);
    ck_assert_int_eq(skade_verify(s, 0, see_check, &c), SKADE_EDAMAGED);
    ck_assert_int_eq(c.n, 4); /* the sound ones are told, too */
    ck_assert_int_eq(c.damaged, 1);
    ck_assert_uint_eq(c.checked, (uint64_t)st.st_size);
    ck_assert_uint_eq(c.damaged_bytes, c.checked);
    ck_assert_str_eq(c.last, "log");
    ck_assert_ptr_nonnull(strstr(c.detail, strrchr(path, '/') + 1));
    seen = (struct segments){ .w = w };
    ck_assert_int_eq(skade_segments(s, see_segment, &seen), 3);
    ck_assert_int_eq(seen.linked, 3);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_root_that_is_damaged_is_told_and_its_parts_as_far_as_it_can_be_read)
{
    struct world *w = published();
    int full;
    struct fake *f = fake_start(w, verify_log, &full);
    skade *s = world_open(w, 0);
    struct segments seen = { .w = w };
    struct checks c = { .n = 0 };
    const char *path = world_file(w, SHM_ROOT, w->generation);
    struct stat st;

    ck_assert_int_eq(stat(path, &st), 0);
    flip(path, _i == 0 ? st.st_size - 1 : 20); /* in the content; in the header */
    ck_assert_int_eq(skade_verify(s, 0, see_check, &c), SKADE_EDAMAGED);
    ck_assert_int_eq(c.damaged, 1);
    ck_assert_uint_eq(c.checked, (uint64_t)st.st_size);
    ck_assert_ptr_nonnull(strstr(c.detail, strrchr(world_file(w, SHM_ROOT, w->generation), '/') + 1));
    ck_assert_int_eq(skade_segments(s, see_segment, &seen), _i == 0 ? 3 : 1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- clients, backup ----------------------------------------------------------------------------------- */

static enum fake_verdict tell_clients(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                      struct wr *out)
{
    (void)f, (void)payload;
    if (h->type != WIRE_CLIENTS)
        return FAKE_DEFAULT;
    size_t at = frame_begin(out);
    wire_put_client_list(out, &(struct msg_client_list){ .generation = 10, .clients = { .count = 3 } });
    for (uint64_t g = 0; g < 12; g += 5)
        wire_put_client_row(out,
                            &(struct item_client_row){
                                .label = bytes_of("x"), .uid = 1, .pid = 2, .generation = g, .requests = g });
    frame_end(out, at, WIRE_CLIENT_LIST, 0, h->request);
    return FAKE_SENT;
}

static int see_client(void *arg, const struct skade_client *c)
{
    static const uint64_t lags[] = { 0, 5, 0 };
    int *n = arg;

    ck_assert_str_eq(c->label, "x");
    ck_assert_uint_eq(c->lag, lags[*n]);
    ++*n;
    return 0;
}

START_TEST(clients_lag_by_the_generations_they_miss)
{
    struct world *w = published();
    struct fake *f = fake_start(w, tell_clients, NULL);
    skade *s = world_open(w, 0);
    int n = 0;

    ck_assert_int_eq(skade_clients(s, see_client, &n), 3);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* Three pieces and the end; ARG: 0 all is well, 1 the size is wrong, 2 an error in the middle, 3 broken
 * off. */
static enum fake_verdict send_backup(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                     struct wr *out)
{
    int which = *(int *)f->arg;

    (void)payload;
    if (h->type != WIRE_BACKUP)
        return FAKE_DEFAULT;
    for (int i = 0; i < 3; i++) {
        size_t at = frame_begin(out);
        wire_put_chunk(out, &(struct msg_chunk){ .data = bytes_of("0123456789") });
        frame_end(out, at, WIRE_CHUNK, FRAME_MORE, h->request);
        if (i == 1 && which == 2) {
            fake_error(out, h->request, -EIO, "the disk is bad");
            return FAKE_SENT;
        }
        if (i == 1 && which == 3)
            return FAKE_CLOSE;
    }
    size_t at = frame_begin(out);
    wire_put_backup_end(out, &(struct msg_backup_end){ .seq = 9, .bytes = which == 1 ? 31 : 30 });
    frame_end(out, at, WIRE_BACKUP_END, 0, h->request);
    return FAKE_SENT;
}

START_TEST(a_backup_is_complete_or_an_error)
{
    static const int results[] = { 0, SKADE_EPROTOCOL, -EIO, SKADE_EUNREACHABLE };
    struct world *w = published();
    int which = _i;
    struct fake *f = fake_start(w, send_backup, &which);
    skade *s = world_open(w, 0);
    char data[64];
    uint64_t seq = 0, bytes = 0;
    int file[2];

    ck_assert_int_eq(pipe2(file, O_CLOEXEC), 0);
    ck_assert_int_eq(skade_backup(s, file[1], &seq, &bytes), results[_i]);
    if (_i == 0) {
        ck_assert_uint_eq(seq, 9);
        ck_assert_uint_eq(bytes, 30);
        ck_assert_int_eq(read(file[0], data, sizeof data), 30);
        ck_assert_mem_eq(data, "012345678901234567890123456789", 30);
    }
    ck_assert_int_ge(skade_ping(s), 0);
    ck_assert_uint_eq(f->connections, _i == 0 || _i == 2 ? 1 : 2);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_backup_that_cannot_be_written_says_so)
{
    struct world *w = published();
    int which = 0;
    struct fake *f = fake_start(w, send_backup, &which);
    skade *s = world_open(w, 0);

    ck_assert_int_eq(skade_backup(s, -1, NULL, NULL), -EBADF);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "cannot write"));
    ck_assert_int_ge(skade_ping(s), 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

Suite *client_stats_suite(void);
Suite *client_stats_suite(void)
{
    Suite *suite = suite_create("client_stats");
    TCase *t = tcase_create("stats");

    tcase_set_timeout(t, 300);
    tcase_add_test(t, counters_of_a_dead_daemon_can_be_read);
    tcase_add_test(t, a_daemon_that_answers_is_alive);
    tcase_add_loop_test(t, a_daemon_that_hangs_is_alive_while_its_heart_beats, 0, 2);
    tcase_add_test(t, counters_come_over_the_socket_where_memory_cannot_be_seen);
    tcase_add_test(t, every_counter_of_a_handle_has_a_name_and_a_meaning);
    tcase_add_test(t, segments_are_the_files_of_the_current_generation);
    tcase_add_test(t, a_handle_without_shared_memory_can_look_at_it_and_lets_go);
    tcase_add_test(t, segments_that_cannot_be_seen_are_an_error_with_a_reason);
    tcase_add_loop_test(t, verification_is_of_the_maps_and_then_of_the_log, 0, 2);
    tcase_add_loop_test(t, verification_finds_a_flipped_byte, 0, 2);
    tcase_add_loop_test(t, a_root_that_is_damaged_is_told_and_its_parts_as_far_as_it_can_be_read, 0, 2);
    tcase_add_test(t, clients_lag_by_the_generations_they_miss);
    tcase_add_loop_test(t, a_backup_is_complete_or_an_error, 0, 4);
    tcase_add_test(t, a_backup_that_cannot_be_written_says_so);
    suite_add_tcase(suite, t);
    return suite;
}
