/*
 * Commits and releases: made once however often they have to be sent, conflicts told, pieces refused in time.
 */
#include "client.h"
#include "fake.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct world *one_table(void)
{
    struct world *w = world_make();
    world_create(w, "shop.orders");
    return w;
}

static struct skade_commit commit_of(int64_t id, const char *location)
{
    return (struct skade_commit){ .size = sizeof(struct skade_commit),
                                  .table = 1,
                                  .flags = SKADE_INTRODUCES | SKADE_MOVES_HEAD | SKADE_WITH_SNAPSHOT,
                                  .snapshot = id,
                                  .location = location };
}

static bool uuid_is(const struct uuid *a, const unsigned char *b)
{
    return memcmp(a->b, b, sizeof a->b) == 0;
}

/* ---- one commit ---------------------------------------------------------------------------------------- */

START_TEST(a_commit_gets_a_sequence_number_and_a_uuid_of_its_own)
{
    struct world *w = one_table();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct skade_commit c = commit_of(10, "s3://orders/10");
    uint64_t seq = 0;

    ck_assert_int_eq(skade_commit(s, &c, &seq, NULL), 0);
    ck_assert_uint_eq(seq, 2);
    ck_assert_int_eq(skade_commit(s, &c, NULL, NULL), 0);
    ck_assert_uint_eq(f->uuids_count, 2);
    ck_assert(!uuid_is_zero(&f->uuids[0]) && !uuid_equal(&f->uuids[0], &f->uuids[1]));
    ck_assert_uint_eq(f->uuids[0].b[6] >> 4, 4);
    for (size_t i = 0; i < sizeof c.uuid; i++)
        ck_assert_uint_eq(c.uuid[i], 0); /* the caller's struct is the caller's */
    c.uuid[3] = 7;
    ck_assert_int_eq(skade_commit(s, &c, NULL, NULL), 0);
    ck_assert(uuid_is(&f->uuids[2], c.uuid));
    skade_close(s);
    fake_stop(f);
}
END_TEST

struct seen_row {
    struct item_commit_row row;
    char location[64], base[64];
};

static enum fake_verdict look_at_row(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                     struct wr *out)
{
    struct seen_row *seen = f->arg;
    struct msg_commit m;

    (void)out;
    if (h->type != WIRE_COMMIT)
        return FAKE_DEFAULT;
    ck_assert_int_eq(wire_read_commit(payload, h->len, &m), 0);
    wire_get_commit_row(&m.rows.items, &seen->row);
    snprintf(seen->location, sizeof seen->location, "%.*s", (int)seen->row.location.len,
             seen->row.location.data);
    snprintf(seen->base, sizeof seen->base, "%.*s", (int)seen->row.base_location.len,
             seen->row.base_location.data);
    return FAKE_DEFAULT;
}

START_TEST(a_commit_travels_as_it_was_given)
{
    struct world *w = one_table();
    struct seen_row seen = { .location = "" };
    struct fake *f = fake_start(w, look_at_row, &seen);
    skade *s = world_open(w, 0);
    struct skade_commit c = commit_of(INT64_MIN, "s3://orders/1");

    ck_assert_int_eq(skade_commit(s, &c, NULL, NULL), 0);
    ck_assert_int_eq(seen.row.snapshot, INT64_MIN);
    ck_assert_uint_eq(seen.row.flags, 7);
    ck_assert_uint_eq(seen.row.base, SKADE_BASE_ANY);
    ck_assert_str_eq(seen.location, "s3://orders/1");
    c = commit_of(2, "s3://orders/2");
    c.base = SKADE_BASE_IS;
    c.base_location = "s3://orders/1";
    c.has_time = 1;
    c.time_us = -5;
    c.flags = SKADE_MOVES_HEAD;
    ck_assert_int_eq(skade_commit(s, &c, NULL, NULL), 0);
    ck_assert_uint_eq(seen.row.flags, SKADE_MOVES_HEAD | 16);
    ck_assert_int_eq(seen.row.time_us, -5);
    ck_assert_str_eq(seen.base, "s3://orders/1");
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_lost_race_tells_the_head_and_can_be_run_again_from_there)
{
    struct world *w = one_table();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct skade_commit c = commit_of(10, "s3://orders/10");
    char buffer[100];
    struct skade_answer head = SKADE_ANSWER(buffer, sizeof buffer);

    c.base = SKADE_BASE_IS;
    c.base_location = "s3://orders/9";
    ck_assert_int_eq(skade_commit(s, &c, NULL, &head), SKADE_ECONFLICT);
    ck_assert_int_eq(head.status, SKADE_ENOSNAPSHOT);
    c.base = SKADE_BASE_NONE;
    ck_assert_int_eq(skade_commit(s, &c, NULL, &head), 0);
    c = commit_of(11, "s3://orders/11");
    c.base = SKADE_BASE_NONE;
    ck_assert_int_eq(skade_commit(s, &c, NULL, &head), SKADE_ECONFLICT);
    ck_assert_int_eq(head.status, 1);
    ck_assert_str_eq(buffer, "s3://orders/10");
    ck_assert_int_eq(head.snapshot, 10);
    c.base = SKADE_BASE_IS;
    c.base_location = buffer; /* the buffer that the next conflict would be told in */
    ck_assert_int_eq(skade_commit(s, &c, NULL, &head), 0);
    ck_assert_int_eq(skade_commit(s, &c, NULL, NULL), SKADE_EINPUT); /* emptied by the call before */
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(what_no_daemon_would_take_is_refused_here_and_named)
{
    struct world *w = one_table();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    char long_location[SKADE_LOCATION_MAX + 2];
    struct skade_commit bad[7];

    memset(long_location, 'x', sizeof long_location - 1);
    long_location[sizeof long_location - 1] = 0;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        bad[i] = commit_of(1, "s3://x");
    bad[0].location = NULL;
    bad[1].location = "";
    bad[2].location = long_location;
    bad[3].base = 3;
    bad[4].base = SKADE_BASE_IS;
    bad[5].flags = 64;
    bad[6].size = 0;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        ck_assert_int_eq(skade_commit(s, &bad[i], NULL, NULL), SKADE_EINPUT);
        ck_assert_ptr_nonnull(strstr(skade_errmsg(s), i < 6 ? "table 1" : "size"));
    }
    ck_assert_uint_eq(f->seen[WIRE_COMMIT], 0);
    long_location[SKADE_LOCATION_MAX] = 0;
    bad[2].location = long_location;
    ck_assert_int_eq(skade_commit(s, &bad[2], NULL, NULL), 0);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* Make the first *ARG changes, and hang up instead of answering. */
static enum fake_verdict lose_answers(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                      struct wr *out)
{
    int *times = f->arg;
    struct wr unsent = { .error = 0 };

    (void)out;
    if (*times == 0 || (h->type != WIRE_COMMIT && h->type != WIRE_RELEASE_END))
        return FAKE_DEFAULT;
    --*times;
    fake_answer(f, h, payload, &unsent);
    wr_fini(&unsent);
    return FAKE_CLOSE;
}

START_TEST(a_commit_whose_answer_was_lost_is_sent_again_with_the_same_uuid)
{
    struct world *w = one_table();
    int times = 3;
    struct fake *f = fake_start(w, lose_answers, &times);
    skade *s = world_open(w, 0);
    struct skade_commit c = commit_of(10, "s3://orders/10");
    uint64_t seq = 0;

    ck_assert_int_eq(skade_commit(s, &c, &seq, NULL), 0);
    ck_assert_uint_eq(seq, 2);
    ck_assert_uint_eq(f->connections, 4);
    ck_assert_uint_eq(handle_counter(s, "requests_again"), 3);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* Make the change, hang up and listen no more. */
static enum fake_verdict leave(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                               struct wr *out)
{
    (void)payload, (void)out;
    if (h->type != WIRE_COMMIT && h->type != WIRE_RELEASE_END && h->type != WIRE_RELEASE_ADD)
        return FAKE_DEFAULT;
    close(f->listening);
    f->listening = -1;
    return FAKE_CLOSE;
}

static enum fake_verdict leave_at_end(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                      struct wr *out)
{
    return h->type == WIRE_RELEASE_ADD ? FAKE_DEFAULT : leave(f, h, payload, out);
}

START_TEST(a_commit_whose_daemon_never_comes_back_is_unknown)
{
    struct world *w = one_table();
    struct fake *f = fake_start(w, leave, NULL);
    skade *s = world_open_impatient(w, 600);
    struct skade_commit c = commit_of(10, "s3://orders/10");

    ck_assert_int_eq(skade_commit(s, &c, NULL, NULL), SKADE_EUNKNOWN);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "same uuid"));
    ck_assert_int_eq(skade_commit(s, &c, NULL, NULL), SKADE_EUNREACHABLE); /* this one was never sent */
    skade_close(s);
    fake_stop(f);
}
END_TEST

static enum fake_verdict never_answer(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                      struct wr *out)
{
    (void)f, (void)payload, (void)out;
    return h->type == WIRE_HELLO ? FAKE_DEFAULT : FAKE_SILENT;
}

START_TEST(a_commit_without_an_answer_times_out)
{
    struct world *w = one_table();
    struct fake *f = fake_start(w, never_answer, NULL);
    skade *s = world_open_impatient(w, 30);
    struct skade_commit c = commit_of(10, "s3://orders/10");

    ck_assert_int_eq(skade_commit(s, &c, NULL, NULL), SKADE_ETIMEOUT);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "same uuid"));
    ck_assert_int_eq(s->stream.fd, -1);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- releases ------------------------------------------------------------------------------------------ */

/* N commits with locations of LEN bytes. */
static struct skade_commit *commits_of(size_t n, size_t len)
{
    struct skade_commit *c = calloc(n, sizeof *c);
    char *locations = malloc(n * (len + 1));

    for (size_t i = 0; i < n; i++) {
        char *location = locations + i * (len + 1);
        memset(location, 'x', len);
        location[len] = 0;
        c[i] = commit_of((int64_t)i, location);
    }
    return c;
}

static void commits_free(struct skade_commit *c)
{
    free((void *)c[0].location);
    free(c);
}

/* Every row's uuid, and how large the messages are. */
struct pieces {
    struct uuid uuids[20000];
    size_t rows;
    uint32_t longest;
};

static enum fake_verdict look_at_pieces(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                        struct wr *out)
{
    struct pieces *seen = f->arg;
    struct msg_release_add m;
    struct item_commit_row row;

    (void)out;
    if (h->type != WIRE_RELEASE_ADD)
        return FAKE_DEFAULT;
    ck_assert_int_eq(wire_read_release_add(payload, h->len, &m), 0);
    if (h->len > seen->longest)
        seen->longest = h->len;
    for (uint32_t i = 0; i < m.rows.count; i++) {
        wire_get_commit_row(&m.rows.items, &row);
        seen->uuids[seen->rows++] = row.uuid;
    }
    return FAKE_DEFAULT;
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct uuid));
}

START_TEST(a_release_travels_in_pieces_and_every_row_has_its_uuid)
{
    struct world *w = one_table();
    struct pieces *seen = calloc(1, sizeof *seen);
    struct fake *f = fake_start(w, look_at_pieces, seen);
    skade *s = world_open(w, 0);
    struct skade_commit *c = commits_of(20000, 100);
    uint64_t first = 0, last = 0;

    ck_assert_int_eq(skade_release(s, c, 20000, &first, &last), 0);
    ck_assert_uint_eq(first, 2);
    ck_assert_uint_eq(last, 20001);
    ck_assert_uint_eq(seen->rows, 20000);
    ck_assert_uint_le(seen->longest, (256 << 10) + 8320);
    ck_assert_uint_gt(f->seen[WIRE_RELEASE_ADD], 10);
    qsort(seen->uuids, seen->rows, sizeof seen->uuids[0], by_bytes);
    for (size_t i = 1; i < seen->rows; i++)
        ck_assert(!uuid_equal(&seen->uuids[i - 1], &seen->uuids[i]));
    commits_free(c);
    skade_close(s);
    fake_stop(f);
    free(seen);
}
END_TEST

START_TEST(the_longest_rows_fit_into_messages)
{
    struct world *w = one_table();
    struct pieces *seen = calloc(1, sizeof *seen);
    struct fake *f = fake_start(w, look_at_pieces, seen);
    skade *s = world_open(w, 0);
    struct skade_commit *c = commits_of(500, SKADE_LOCATION_MAX);

    for (size_t i = 0; i < 500; i++) {
        c[i].base = SKADE_BASE_IS;
        c[i].base_location = c[i].location;
    }
    ck_assert_int_eq(skade_release(s, c, 500, NULL, NULL), 0);
    ck_assert_uint_eq(seen->rows, 500);
    ck_assert_uint_le(seen->longest, (256 << 10) + 8320);
    commits_free(c);
    skade_close(s);
    fake_stop(f);
    free(seen);
}
END_TEST

START_TEST(a_release_whose_answer_was_lost_is_sent_again_as_it_was)
{
    struct world *w = one_table();
    int times = 2;
    struct fake *f = fake_start(w, lose_answers, &times);
    skade *s = world_open(w, 0);
    struct skade_commit *c = commits_of(3000, 100);
    uint64_t first = 0, last = 0;

    ck_assert_int_eq(skade_release(s, c, 3000, &first, &last), 0);
    ck_assert_uint_eq(first, 2);
    ck_assert_uint_eq(last, 3001);
    ck_assert_uint_eq(f->uuids_count, 3);
    ck_assert(uuid_equal(&f->uuids[0], &f->uuids[1]) && uuid_equal(&f->uuids[0], &f->uuids[2]));
    commits_free(c);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_release_that_is_broken_off_for_good_says_whether_it_may_have_been_made)
{
    struct world *w = one_table();
    bool at_end = _i == 1;
    struct fake *f = fake_start(w, at_end ? leave_at_end : leave, NULL);
    struct skade_commit *c = commits_of(20000, 100);
    skade *s = world_open_impatient(w, 600);

    ck_assert_int_eq(skade_release(s, c, 20000, NULL, NULL), at_end ? SKADE_EUNKNOWN : SKADE_EUNREACHABLE);
    skade_close(s);
    fake_stop(f);
    commits_free(c);
}
END_TEST

/* Refuse the third piece. */
static enum fake_verdict refuse_third(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                      struct wr *out)
{
    (void)payload;
    if (h->type != WIRE_RELEASE_ADD || f->seen[WIRE_RELEASE_ADD] != 2)
        return FAKE_DEFAULT;
    fake_error(out, h->request, SKADE_EBUSY, "the release is too large");
    return FAKE_SENT;
}

START_TEST(a_refused_piece_ends_the_release_with_its_reason)
{
    struct world *w = one_table();
    struct fake *f = fake_start(w, refuse_third, NULL);
    skade *s = world_open(w, 0);
    struct skade_commit *c = commits_of(20000, 500);

    ck_assert_int_eq(skade_release(s, c, 20000, NULL, NULL), SKADE_EBUSY);
    ck_assert_str_eq(skade_errmsg(s), "the release is too large");
    ck_assert_uint_eq(f->uuids_count, 0);
    f->hook = NULL;
    ck_assert_int_eq(skade_release(s, c, 10, NULL, NULL),
                     0); /* on another connection: what is left of the first is gone */
    ck_assert_uint_eq(f->connections, 2);
    commits_free(c);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* Refuse the end. */
static enum fake_verdict refuse_end(struct fake *f, const struct frame_header *h, const uint8_t *payload,
                                    struct wr *out)
{
    (void)payload;
    if (h->type != WIRE_RELEASE_END)
        return FAKE_DEFAULT;
    f->now->rows = 0;
    fake_error(out, h->request, SKADE_ECONFLICT, "commit 7: the head is another");
    return FAKE_SENT;
}

START_TEST(a_conflict_leaves_the_connection_and_nothing_else)
{
    struct world *w = one_table();
    struct fake *f = fake_start(w, refuse_end, NULL);
    skade *s = world_open(w, 0);
    struct skade_commit *c = commits_of(10, 50);

    ck_assert_int_eq(skade_release(s, c, 10, NULL, NULL), SKADE_ECONFLICT);
    ck_assert_str_eq(skade_errmsg(s), "commit 7: the head is another");
    f->hook = NULL;
    ck_assert_int_eq(skade_release(s, c, 10, NULL, NULL), 0);
    ck_assert_uint_eq(f->connections, 1);
    commits_free(c);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(nothing_is_released_without_a_word)
{
    struct world *w = one_table();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    uint64_t first = 7, last = 7;

    ck_assert_int_eq(skade_release(s, NULL, 0, &first, &last), 0);
    ck_assert_uint_eq(first + last, 0);
    ck_assert_uint_eq(f->seen[WIRE_RELEASE_END], 0);
    struct skade_commit *c = commits_of(3, 50);
    c[2].location = "";
    ck_assert_int_eq(skade_release(s, c, 3, NULL, NULL), SKADE_EINPUT);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "commit 3"));
    c[1].size = 0;
    ck_assert_int_eq(skade_release(s, c, 3, NULL, NULL), SKADE_EINPUT);
    ck_assert_ptr_nonnull(strstr(skade_errmsg(s), "commit 2"));
    commits_free(c);
    skade_close(s);
    fake_stop(f);
}
END_TEST

/* ---- releases in pieces -------------------------------------------------------------------------------- */

START_TEST(a_release_in_pieces_lets_questions_through)
{
    struct world *w = one_table();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct skade_commit *c = commits_of(100, 50);
    skade_table t;
    uint64_t first = 0, last = 0;

    ck_assert_int_eq(skade_release_end(s, NULL, NULL), SKADE_EINPUT);
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(skade_release_add(s, c + i * 10, 10), 0);
        ck_assert_int_eq(skade_find_table(s, "shop.orders", &t), 1);
    }
    ck_assert_int_eq(skade_release(s, c, 10, NULL, NULL), SKADE_EINPUT); /* one at a time */
    ck_assert_int_eq(skade_release_end(s, &first, &last), 0);
    ck_assert_uint_eq(last - first, 99);
    ck_assert_uint_eq(f->connections, 1);
    commits_free(c);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(an_aborted_release_is_forgotten)
{
    struct world *w = one_table();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct skade_commit *c = commits_of(10, 50);
    uint64_t first = 0, last = 0;

    ck_assert_int_eq(skade_release_add(s, c, 10), 0);
    skade_release_abort(s);
    ck_assert_int_eq(skade_release_end(s, NULL, NULL), SKADE_EINPUT);
    const char *right = c[2].location;
    c[2].location = "";
    ck_assert_int_eq(skade_release_add(s, c, 3), SKADE_EINPUT);
    skade_release_abort(s); /* leaves the story to be told */
    ck_assert_str_eq(skade_errmsg(s), "commit 3 of the release (table 1): location: it is empty");
    c[2].location = right;
    ck_assert_int_eq(skade_release_add(s, c, 3), 0);
    ck_assert_int_eq(skade_release_end(s, &first, &last), 0);
    ck_assert_uint_eq(last - first, 2);
    skade_release_abort(s);
    commits_free(c);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_failure_in_the_middle_cannot_be_overlooked)
{
    struct world *w = one_table();
    struct fake *f = fake_start(w, refuse_third, NULL);
    skade *s = world_open(w, 0);
    struct skade_commit *c = commits_of(10, 50);
    int failed = 0;

    for (int i = 0; i < 50; i++) {
        int r = skade_release_add(s, c, 10);
        ck_assert(r == 0 || r == SKADE_EBUSY);
        ck_assert_int_le(failed, r < 0); /* once failed, failed for ever */
        failed = r < 0;
        skade_ping(s);
    }
    ck_assert_int_eq(failed, 1);
    ck_assert_int_eq(skade_release_end(s, NULL, NULL), SKADE_EBUSY);
    ck_assert_str_eq(skade_errmsg(s), "the release is too large");
    ck_assert_uint_eq(f->seen[WIRE_RELEASE_END], 0);
    f->hook = NULL;
    ck_assert_int_eq(skade_release_add(s, c, 10), 0);
    ck_assert_int_eq(skade_release_end(s, NULL, NULL), 0);
    commits_free(c);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(a_lost_connection_ends_a_release_in_pieces)
{
    struct world *w = one_table();
    struct fake *f = fake_start(w, NULL, NULL);
    skade *s = world_open(w, 0);
    struct skade_commit *c = commits_of(10, 50);

    ck_assert_int_eq(skade_release_add(s, c, 10), 0);
    fake_stop(f);
    f = fake_start(w, NULL, NULL);
    if (_i == 1)
        ck_assert_int_ge(skade_ping(s), 0); /* reconnects: the handle is fine, the release isn't */
    ck_assert_int_eq(skade_release_add(s, c, 10), SKADE_EUNREACHABLE);
    ck_assert_int_eq(skade_release_end(s, NULL, NULL), SKADE_EUNREACHABLE);
    ck_assert_uint_eq(f->seen[WIRE_RELEASE_ADD] + f->seen[WIRE_RELEASE_END], 0);
    commits_free(c);
    skade_close(s);
    fake_stop(f);
}
END_TEST

START_TEST(an_end_that_is_lost_leaves_the_outcome_unknown)
{
    struct world *w = one_table();
    int times = 1;
    struct fake *f = fake_start(w, lose_answers, &times);
    skade *s = world_open(w, 0);
    struct skade_commit *c = commits_of(10, 50);

    ck_assert_int_eq(skade_release_add(s, c, 10), 0);
    ck_assert_int_eq(skade_release_end(s, NULL, NULL), SKADE_EUNKNOWN);
    commits_free(c);
    skade_close(s);
    fake_stop(f);
}
END_TEST

Suite *client_commit_suite(void);
Suite *client_commit_suite(void)
{
    Suite *suite = suite_create("client_commit");
    TCase *t = tcase_create("commit");

    tcase_set_timeout(t, 300);
    tcase_add_test(t, a_commit_gets_a_sequence_number_and_a_uuid_of_its_own);
    tcase_add_test(t, a_commit_travels_as_it_was_given);
    tcase_add_test(t, a_lost_race_tells_the_head_and_can_be_run_again_from_there);
    tcase_add_test(t, what_no_daemon_would_take_is_refused_here_and_named);
    tcase_add_test(t, a_commit_whose_answer_was_lost_is_sent_again_with_the_same_uuid);
    tcase_add_test(t, a_commit_whose_daemon_never_comes_back_is_unknown);
    tcase_add_test(t, a_commit_without_an_answer_times_out);
    tcase_add_test(t, a_release_travels_in_pieces_and_every_row_has_its_uuid);
    tcase_add_test(t, the_longest_rows_fit_into_messages);
    tcase_add_test(t, a_release_whose_answer_was_lost_is_sent_again_as_it_was);
    tcase_add_loop_test(t, a_release_that_is_broken_off_for_good_says_whether_it_may_have_been_made, 0, 2);
    tcase_add_test(t, a_refused_piece_ends_the_release_with_its_reason);
    tcase_add_test(t, a_conflict_leaves_the_connection_and_nothing_else);
    tcase_add_test(t, nothing_is_released_without_a_word);
    tcase_add_test(t, a_release_in_pieces_lets_questions_through);
    tcase_add_test(t, an_aborted_release_is_forgotten);
    tcase_add_test(t, a_failure_in_the_middle_cannot_be_overlooked);
    tcase_add_loop_test(t, a_lost_connection_ends_a_release_in_pieces, 0, 2);
    tcase_add_test(t, an_end_that_is_lost_leaves_the_outcome_unknown);
    suite_add_tcase(suite, t);
    return suite;
}
