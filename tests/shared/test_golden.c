/*
 * Files of released formats must open for ever and give the same answers.  tests/fuzz/seeds.c wrote them.
 */
#include "part.h"
#include "root.h"
#include "tail.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

/* The file's bytes, aligned; the tests run in the repository's top folder. */
static void *read_golden(const char *name, size_t *size)
{
    char path[256];

    snprintf(path, sizeof path, "tests/data/golden/%s", name);
    FILE *f = fopen(path, "re");
    ck_assert_msg(f != NULL, "%s isn't here: run the suites in the repository's top folder", path);
    char *buf = aligned_alloc(64, 1 << 16);
    *size = fread(buf, 1, 1 << 16, f);
    fclose(f);
    return buf;
}

START_TEST(a_part_of_version_1_opens_and_answers)
{
    struct part_hit hit;
    struct errmsg msg = { "" };
    char where[LOCATION_MAX];
    struct part *p;
    size_t size;

    void *buf = read_golden("v1.part", &size);
    ck_assert_msg(part_open(&p, buf, size, PART_VERIFY, &msg) == 0, "%s", msg.text);
    ck_assert_uint_eq(part_rows(p), 40);
    /* Row i: table 1 + i % 4, snapshot i % 3, seq i + 1; every fifth location fits no template. */
    ck_assert_int_eq(part_find(p, 2, 1, &hit), 1);
    ck_assert_uint_eq(hit.seq, 2);
    int len = part_location(p, hit.ref, where, sizeof where, NULL);
    ck_assert_int_eq(len, 74);
    ck_assert_mem_eq(where, "s3://b/t/metadata/00001-00112233-4455-6677-8899-aabbccddeeff.metadata.json", 74);
    ck_assert_int_eq(part_find(p, 1, 0, &hit), 1);
    len = part_location(p, hit.ref, where, sizeof where, NULL);
    ck_assert_int_eq(len, 5);
    ck_assert_mem_eq(where, "odd 0", 5);
    ck_assert_int_eq(part_find(p, 1, 99, &hit), 0);
    ck_assert_int_eq(part_head(p, 4, SEQ_MAX, &hit), 1);
    ck_assert_uint_eq(hit.seq, 40);
    part_close(p);
    free(buf);
}
END_TEST

START_TEST(a_root_of_version_1_opens_and_answers)
{
    struct errmsg msg = { "" };
    struct root *r;
    uint32_t table;
    size_t size;

    void *buf = read_golden("v1.root", &size);
    ck_assert_msg(root_open(&r, buf, size, ROOT_VERIFY, &msg) == 0, "%s", msg.text);
    ck_assert_int_eq(root_find_table(r, bytes_of("shop.orders"), SEQ_MAX, &table), 1);
    ck_assert_uint_eq(table, 1);
    ck_assert_int_eq(root_find_table(r, bytes_of("a"), SEQ_MAX, &table), 0);
    ck_assert_int_eq(root_find_table(r, bytes_of("a"), 5, &table), 1);
    ck_assert_uint_eq(table, 2);
    root_close(r);
    free(buf);
}
END_TEST

START_TEST(a_tail_of_version_1_opens_and_answers)
{
    struct errmsg msg = { "" };
    char where[LOCATION_MAX];
    struct tail_hit hit;
    struct tail t;
    uint32_t table;
    size_t size;

    void *buf = read_golden("v1.tail", &size);
    ck_assert_msg(tail_open(&t, buf, size, &msg) == 0, "%s", msg.text);
    ck_assert_int_eq(tail_verify(&t, NULL), 0);
    ck_assert_int_eq(tail_count(&t), 4);
    ck_assert_int_eq(tail_find(&t, 4, 3, 7, &hit), 1);
    ck_assert_uint_eq(hit.seq, 11);
    ck_assert_int_eq(tail_location(&t, &hit, where, sizeof where), 5);
    ck_assert_mem_eq(where, "first", 5);
    ck_assert_int_eq(tail_head(&t, 4, 3, &hit), 1);
    ck_assert_uint_eq(hit.seq, 12);
    ck_assert_int_eq(tail_as_of(&t, 4, 3, 9, &hit), 1);
    ck_assert_uint_eq(hit.seq, 11);
    ck_assert_int_eq(tail_find_name(&t, 4, bytes_of("shop.new"), 9, &table), 1);
    ck_assert_uint_eq(table, 3);
    ck_assert_int_eq(tail_find(&t, 4, 3, 8, &hit), 0);
    free(buf);
}
END_TEST

Suite *golden_suite(void);
Suite *golden_suite(void)
{
    Suite *s = suite_create("golden");
    TCase *c = tcase_create("v1");

    tcase_add_test(c, a_part_of_version_1_opens_and_answers);
    tcase_add_test(c, a_root_of_version_1_opens_and_answers);
    tcase_add_test(c, a_tail_of_version_1_opens_and_answers);
    suite_add_tcase(s, c);
    return s;
}
