/*
 * What is newer than the parts: answers from the mapped tail, and when they are the daemon's.
 */
#include "client.h"
#include "fake.h"
#include "quick.h"
#include "tail_layout.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* One table with a commit in a part, published with an empty tail. */
static struct world *published(void)
{
    struct world *w = world_make();

    w->tails = true;
    world_new_page(w);
    world_create(w, "shop.orders");
    world_commit(w, 1, 10, 100, "s3://orders/10");
    world_publish(w);
    return w;
}

static unsigned asked(const struct fake *f)
{
    unsigned n = 0;
    static const unsigned questions[] = { WIRE_RESOLVE, WIRE_HEAD, WIRE_AS_OF, WIRE_LOOKUP };

    for (size_t i = 0; i < ARRAY_SIZE(questions); i++)
        n += atomic_load(&f->seen[questions[i]]);
    return n;
}

/* What a question returned, and A, are what the world says: STATUS and E. */
static void same(const struct skade_answer *a, int r, int status, const struct event *e)
{
    ck_assert_msg(a->status == status, "%s instead of %s", skade_errname(a->status), skade_errname(status));
    ck_assert_int_eq(r, status == SKADE_ENOTABLE || status == SKADE_ENOSNAPSHOT ? 0 : status);
    if (status != 1)
        return;
    ck_assert_uint_eq(a->seq, e->seq);
    ck_assert_int_eq(a->snapshot, e->snapshot);
    ck_assert_int_eq(a->time_us, e->time_us);
    ck_assert_uint_eq(a->location_len, e->text.len);
    ck_assert_mem_eq(a->location, e->text.data, e->text.len);
}

static void asks_right(struct world *w, skade *s, uint32_t table, int64_t id, int64_t time_us)
{
    struct skade_answer a = answer();
    const struct event *e;

    int r = skade_resolve(s, table, id, &a);
    int status = world_resolve(w, table, id, SEQ_MAX, &e);
    same(&a, r, status, e);
    r = skade_head(s, table, &a);
    status = world_head(w, table, SEQ_MAX, &e);
    same(&a, r, status, e);
    r = skade_as_of(s, table, time_us, &a);
    status = world_as_of(w, table, time_us, SEQ_MAX, &e);
    same(&a, r, status, e);
}

static void finds(skade *s, const char *name, int64_t want)
{
    skade_table table = 0;
    int r = skade_find_table(s, name, &table);
    ck_assert_msg(r == (want != 0), "%s: %s", name, skade_errmsg(s));
    ck_assert_uint_eq(table, want);
}

/* ---- without the daemon ------------------------------------------------------------------------------------- */

START_TEST(what_is_newer_than_the_parts_needs_no_daemon)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);

    world_commit(w, 1, 20, 200, "s3://orders/20");
    world_commit(w, 1, 30, 150, "s3://orders/30");
    asks_right(w, s, 1, 20, 170);
    asks_right(w, s, 1, 30, 150);
    asks_right(w, s, 1, 10, 100);
    asks_right(w, s, 1, 99, 99);
    asks_right(w, s, 2, 10, 100);
    world_create(w, "shop.new");
    finds(s, "shop.new", 2);
    finds(s, "shop.orders", 1);
    finds(s, "shop.none", 0);
    asks_right(w, s, 2, 10, 100);
    world_commit(w, 2, 10, 100, "s3://new/10");
    asks_right(w, s, 2, 10, 100);
    ck_assert_uint_eq(asked(f), 0);
    ck_assert_uint_eq(handle_counter(s, "asked_daemon"), 0);
    ck_assert_uint_eq(handle_counter(s, "tails"), 1);
    ck_assert_uint_gt(handle_counter(s, "hits_tail"), 8);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_time_before_the_first_commit_names_that_one)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();

    world_commit(w, 1, 20, 50, "s3://orders/20");
    ck_assert_int_eq(skade_as_of(s, 1, 49, &a), 0);
    ck_assert_msg(strstr(skade_errmsg(s), "(sequence number 3)") != NULL, "%s", skade_errmsg(s));
    world_create(w, "shop.new");
    world_commit(w, 2, 20, 7, "s3://new/20");
    ck_assert_int_eq(skade_as_of(s, 2, 6, &a), 0);
    ck_assert_msg(strstr(skade_errmsg(s), "(sequence number 5)") != NULL, "%s", skade_errmsg(s));
    ck_assert_uint_eq(asked(f), 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_hit_in_the_tail_outlives_its_daemon)
{
    struct world *w = published();
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();

    handle_clock(s);
    skade_quiesce(s); /* attach by the test's clock */
    world_commit(w, 1, 20, 200, "s3://orders/20");
    ck_assert_int_eq(skade_resolve(s, 1, 20, &a), 1);
    ck_assert_str_eq(a.location, "s3://orders/20");
    ck_assert_int_eq(skade_head(s, 1, &a), SKADE_EUNREACHABLE);
    ck_assert_int_eq(skade_resolve(s, 1, 21, &a), SKADE_EUNREACHABLE);
    skade_close(s);
}
END_TEST

START_TEST(a_stale_answer_is_the_newest_that_memory_has)
{
    struct world *w = published();
    skade *s = world_open(w, SKADE_ALLOW_STALE);
    struct skade_answer a = answer();

    world_commit(w, 1, 20, 200, "s3://orders/20");
    ck_assert_int_eq(skade_head(s, 1, &a), 1);
    ck_assert_str_eq(a.location, "s3://orders/20");
    ck_assert_uint_ne(a.flags & SKADE_STALE, 0);
    skade_close(s);
}
END_TEST

START_TEST(a_buffer_that_is_too_small_gets_the_length)
{
    struct world *w = published();
    skade *s = world_open(w, 0);
    char buf[8];
    struct skade_answer a = SKADE_ANSWER(buf, sizeof buf);

    world_commit(w, 1, 20, 200, "s3://orders/20");
    ck_assert_int_eq(skade_resolve(s, 1, 20, &a), -ERANGE);
    ck_assert_uint_eq(a.location_len, 14);
    ck_assert_str_eq(buf, "");
    ck_assert_uint_eq(a.seq, 3);
    a = (struct skade_answer)SKADE_ANSWER(NULL, 0);
    ck_assert_int_eq(skade_resolve(s, 1, 20, &a), -ERANGE);
    ck_assert_uint_eq(a.location_len, 14);
    skade_close(s);
}
END_TEST

/* ---- moments ------------------------------------------------------------------------------------------------ */

START_TEST(what_commit_seq_does_not_tell_of_is_not_there_yet)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();

    world_commit(w, 1, 20, 200, "s3://orders/20");
    ck_assert_int_eq(skade_head(s, 1, &a), 1);
    ck_assert_uint_eq(a.seq, 3);
    struct event next = { .seq = 4,
                          .kind = EVENT_COMMIT,
                          .flags = EVENT_MOVES_HEAD | EVENT_HAS_SNAPSHOT | EVENT_INTRODUCES,
                          .table = 1,
                          .snapshot = 30,
                          .text = bytes_of("s3://orders/30") };
    tail_append(w->tail, &next);
    tail_show(w->tail); /* the transaction is durable, and its commit_seq on its way */
    ck_assert_int_eq(skade_head(s, 1, &a), 1);
    ck_assert_uint_eq(a.seq, 3);
    ck_assert_int_eq(skade_resolve(s, 1, 30, &a), 0);
    atomic_store_explicit(&w->page->commit_seq, 4, memory_order_release); /* P3 */
    ck_assert_int_eq(skade_head(s, 1, &a), 1);
    ck_assert_uint_eq(a.seq, 4);
    ck_assert_uint_eq(asked(f), 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_view_keeps_its_tail_and_its_moment)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();
    skade_view *v;

    world_commit(w, 1, 20, 200, "s3://orders/20");
    ck_assert_int_eq(skade_view_open(s, &v), 0);
    ck_assert_uint_eq(skade_view_seq(v), 3);
    world_commit(w, 1, 30, 300, "s3://orders/30");
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(skade_view_head(v, 1, &a), 1);
        ck_assert_uint_eq(a.seq, 3);
        ck_assert_int_eq(skade_view_resolve(v, 1, 20, &a), 1);
        ck_assert_int_eq(skade_view_resolve(v, 1, 30, &a), 0);
        ck_assert_int_eq(skade_view_as_of(v, 1, 1000, &a), 1);
        ck_assert_uint_eq(a.seq, 3);
        world_publish(w); /* everything is in parts now, and the old tail has no name soon */
        unlink(world_file(w, SHM_TAIL, w->generation - 1));
        ck_assert_int_eq(skade_head(s, 1, &a), 1);
        ck_assert_uint_eq(a.seq, 4);
    }
    ck_assert_uint_eq(asked(f), 0);
    skade_view_close(v);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* Random histories: of each table and snapshot, one by one and in one batch, as of now and of a view. */
START_TEST(parts_and_tail_together_say_what_happened)
{
    uint64_t state = (uint64_t)_i + 1;
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    char text[64];

    for (int i = 0; i < 300; i++) {
        uint32_t table = 1 + (uint32_t)random_below(&state, w->tables);
        int64_t id = (int64_t)random_below(&state, 31), time_us = (int64_t)random_below(&state, 500);
        const struct event *e;
        snprintf(text, sizeof text, "s3://%d", i);
        switch (random_below(&state, 40)) {
        case 0:
            world_create(w, text + 5);
            break;
        case 1:
            world_publish(w);
            break;
        case 2:
            if (world_head(w, table, SEQ_MAX, &e) == 1 && e->seq > 3) {
                world_expire(w, table, e->seq - 1);
                world_publish(w);
            }
            break;
        case 3:
            world_rename(w, table, text + 5);
            world_publish_behind(w);
            break;
        default:
            world_commit(w, table, id % 30, time_us, text);
        }
        if (w->parts_count + 1 == WORLD_PARTS)
            break;
        table = 1 + (uint32_t)random_below(&state, w->tables + 1);
        id = (int64_t)random_below(&state, 31);
        time_us = (int64_t)random_below(&state, 500);
        asks_right(w, s, table, id, time_us);
        struct bytes name = world_name(w, table, SEQ_MAX);
        if (name.len > 0)
            finds(s, name.data, world_find(w, name, SEQ_MAX));
    }
    ck_assert_uint_gt(handle_counter(s, "hits_tail"), 50);
    ck_assert_uint_eq(handle_counter(s, "damage_seen"), 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_batch_mixes_parts_tail_and_what_is_nowhere)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    static struct skade_answer a[700];
    static char where[700][32];
    char text[32];

    for (int i = 0; i < 600; i++) {
        snprintf(text, sizeof text, "s3://%d", i);
        world_commit(w, 1, 1000 + i % 500, i, text);
        if (i == 200)
            world_publish(w);
    }
    for (int i = 0; i < 700; i++) {
        a[i] = (struct skade_answer)SKADE_ANSWER(where[i], sizeof where[i]);
        a[i].table = i % 50 == 49 ? 7 : 1;
        a[i].snapshot = 1000 + i * 7 % 600;
    }
    int64_t found = skade_resolve_many(s, a, 700), expected = 0;
    for (int i = 0; i < 700; i++) {
        const struct event *e;
        int status = world_resolve(w, a[i].table, a[i].snapshot, SEQ_MAX, &e);
        same(&a[i], status == 1 ? 1 : answer_result(status), status, e);
        expected += status == 1;
    }
    ck_assert_int_eq(found, expected);
    ck_assert_uint_eq(asked(f), 0);
    ck_assert_uint_gt(handle_counter(s, "hits_tail"), 200);
    ck_assert_uint_eq(handle_counter(s, "hits_map"), 700);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- when the tail can't tell ------------------------------------------------------------------------------- */

START_TEST(behind_a_full_tail_the_daemon_is_asked)
{
    struct world *w = world_make();

    w->tails = true;
    w->tail_room = 2;
    world_new_page(w);
    world_create(w, "shop.orders");
    world_commit(w, 1, 10, 100, "s3://orders/10");
    world_publish(w);
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct skade_answer a = answer();
    for (int i = 0; i < 4; i++)
        world_commit(w, 1, 20 + i, 200 + i, "s3://orders/x");
    ck_assert_int_eq(skade_resolve(s, 1, 21, &a), 1);
    ck_assert_uint_eq(asked(f), 0);
    asks_right(w, s, 1, 23, 203);
    asks_right(w, s, 1, 99, 99);
    ck_assert_uint_eq(asked(f), 6);
    finds(s, "shop.none", 0);
    ck_assert_uint_eq(asked(f), 7);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(without_a_tail_the_daemon_is_asked_and_no_name_is_tried_twice)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);

    unlink(world_file(w, SHM_TAIL, w->generation));
    world_commit(w, 1, 20, 200, "s3://orders/20");
    for (int i = 0; i < 3; i++)
        asks_right(w, s, 1, 20, 200);
    ck_assert_uint_eq(asked(f), 9);
    ck_assert_uint_eq(handle_counter(s, "tails_missing"), 1);
    world_publish(w);
    world_commit(w, 1, 30, 300, "s3://orders/30");
    asks_right(w, s, 1, 30, 300);
    ck_assert_uint_eq(asked(f), 9);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* The tail of W's generation, writable. */
static uint8_t *open_tail_file(const struct world *w, size_t *size)
{
    const char *path = world_file(w, SHM_TAIL, w->generation);

    ck_assert_int_eq(chmod(path, 0600), 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    *size = (size_t)lseek(fd, 0, SEEK_END);
    void *map = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(map, MAP_FAILED);
    close(fd);
    return map;
}

START_TEST(a_damaged_tail_is_counted_and_the_daemon_is_asked)
{
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    size_t size;

    world_commit(w, 1, 20, 200, "s3://orders/20");
    uint8_t *map = open_tail_file(w, &size);
    const struct tail_header *h = (const void *)map;
    map[h->lines.off + 8] ^= 1;
    asks_right(w, s, 1, 20, 200);
    ck_assert_uint_eq(asked(f), 3);
    ck_assert_uint_ge(handle_counter(s, "damage_seen"), 3);
    map[h->lines.off + 8] ^= 1;
    map[h->lines.off + TAIL_LINE] ^= 1;
    asks_right(w, s, 1, 20, 200);
    ck_assert_uint_eq(asked(f), 6);
    map[h->lines.off + TAIL_LINE] ^= 1;
    asks_right(w, s, 1, 20, 200);
    ck_assert_uint_eq(asked(f), 6);
    munmap(map, size);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* A header of another log, epoch, generation, or of other parts; its checksum is right. */
START_TEST(the_tail_of_something_else_is_not_used)
{
    static const size_t places[] = { offsetof(struct seg_header, log), offsetof(struct seg_header, epoch),
                                     offsetof(struct seg_header, generation),
                                     offsetof(struct seg_header, from_seq),
                                     offsetof(struct seg_header, seed) };
    struct world *w = published();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    size_t size, after = offsetof(struct seg_header, header_check) + 8;

    uint8_t *map = open_tail_file(w, &size);
    struct seg_header *h = (void *)map;
    map[places[_i]] ^= 1;
    h->header_check = checksum(map + after, TAIL_HEADER_LEN - after,
                               checksum(h, offsetof(struct seg_header, header_check), 0));
    world_commit(w, 1, 20, 200, "s3://orders/20");
    asks_right(w, s, 1, 20, 200);
    ck_assert_uint_eq(asked(f), 3);
    ck_assert_uint_eq(handle_counter(s, "tails"), 0);
    munmap(map, size);
    skade_close(s);
    fake_stop(f);
}
END_TEST

Suite *client_fresh_suite(void);
Suite *client_fresh_suite(void)
{
    Suite *s = suite_create("client_fresh");
    TCase *c = tcase_create("map");

    tcase_set_timeout(c, 60);
    tcase_add_test(c, what_is_newer_than_the_parts_needs_no_daemon);
    tcase_add_test(c, a_time_before_the_first_commit_names_that_one);
    tcase_add_test(c, a_hit_in_the_tail_outlives_its_daemon);
    tcase_add_test(c, a_stale_answer_is_the_newest_that_memory_has);
    tcase_add_test(c, a_buffer_that_is_too_small_gets_the_length);
    tcase_add_test(c, what_commit_seq_does_not_tell_of_is_not_there_yet);
    tcase_add_test(c, a_view_keeps_its_tail_and_its_moment);
    tcase_add_loop_test(c, parts_and_tail_together_say_what_happened, 0, 8);
    tcase_add_test(c, a_batch_mixes_parts_tail_and_what_is_nowhere);
    suite_add_tcase(s, c);
    c = tcase_create("ask");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, behind_a_full_tail_the_daemon_is_asked);
    tcase_add_test(c, without_a_tail_the_daemon_is_asked_and_no_name_is_tried_twice);
    tcase_add_test(c, a_damaged_tail_is_counted_and_the_daemon_is_asked);
    tcase_add_loop_test(c, the_tail_of_something_else_is_not_used, 0, 5);
    suite_add_tcase(s, c);
    return s;
}
