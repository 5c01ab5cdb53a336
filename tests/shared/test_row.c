/*
 * What identifies keys and ties checksums to places.  The values are part of the format.
 */
#include "checksum.h"
#include "format_entry.h"
#include "row.h"

#include <check.h>
#include <stdlib.h>

START_TEST(hashes_of_keys_are_the_published_ones)
{
    static const struct {
        struct bytes key;
        uint64_t hash;
    } known[] = {
        { { "", 0 }, 0x2d06800538d394c2 },         { { "\0", 1 }, 0xc44bdff4074eecdb },
        { { "alice", 5 }, 0x4da10dd61a0116b0 },    { { "bob", 3 }, 0x1403c0c40f49b8e5 },
        { { "carol", 5 }, 0xe2fdb994ad3fcba4 },    { { "key1", 4 }, 0x384d070cd5d829e2 },
        { { "test_key", 8 }, 0xe0614cc5ecbeed92 }, { { "longer_key_name", 15 }, 0x4c21bc57c3b572ee },
    };
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        ck_assert_uint_eq(entry_hash(known[i].key), known[i].hash);
    ck_assert_uint_eq(entry_hash((struct bytes){ NULL, 0 }), known[0].hash);
}
END_TEST

START_TEST(a_seed_depends_on_file_and_place)
{
    struct uuid a = { { 1 } }, b = { { 2 } };
    ck_assert_uint_eq(entry_seed(&a, 128), entry_seed(&a, 128));
    ck_assert_uint_ne(entry_seed(&a, 128), entry_seed(&b, 128));
    ck_assert_uint_ne(entry_seed(&a, 128), entry_seed(&a, 136));
}
END_TEST

START_TEST(pieces_may_come_in_any_whole_number)
{
    size_t len = 3 * ENTRY_PIECE + 5;
    uint8_t *data = malloc(len);
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(i * 31 >> 3);
    uint64_t whole = checksum_pieces(data, len, 7);
    uint64_t first = checksum_pieces(data, ENTRY_PIECE, 7);
    ck_assert_uint_eq(checksum_pieces(data + ENTRY_PIECE, len - ENTRY_PIECE, first), whole);
    first = checksum_pieces(data, 3 * ENTRY_PIECE, 7);
    ck_assert_uint_eq(checksum_pieces(data + 3 * ENTRY_PIECE, 5, first), whole);
    ck_assert_uint_eq(checksum_pieces(data, 0, 7), 7);
    ck_assert_uint_eq(checksum_pieces(data, 100, 7), checksum(data, 100, 7));
    data[ENTRY_PIECE] ^= 1;
    ck_assert_uint_ne(checksum_pieces(data, len, 7), whole);
    free(data);
}
END_TEST

Suite *row_suite(void);
Suite *row_suite(void)
{
    Suite *s = suite_create("row");
    TCase *c = tcase_create("row");

    tcase_add_test(c, hashes_of_keys_are_the_published_ones);
    tcase_add_test(c, a_seed_depends_on_file_and_place);
    tcase_add_test(c, pieces_may_come_in_any_whole_number);
    suite_add_tcase(s, c);
    return s;
}
