/*
 * LMDB with a held read transaction: what a program would do that can do without a daemon.
 *
 * Two keys that tell equal ids of two tables apart; the goals take whichever is faster.  `bytes`: table and id, 12
 * bytes, compared as bytes.  `mixed`: table and id mixed into 64 bits, which LMDB compares as a number; the table stands
 * in the value and is compared, so that an equal key of another table is no answer.  Both are loaded in key order, so
 * that pages are full; nothing is written afterwards.
 */
#include "bench.h"

#include "synthetic.h"

#include <lmdb.h>
#include <stdlib.h>
#include <unistd.h>

#define COMMITS_PER_LOAD 100000

struct lmdb {
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi bytes, mixed;
};

static void must(int r, const char *what)
{
    if (r != 0)
        die("lmdb: %s: %s", what, mdb_strerror(r));
}

/* ---- loading ---------------------------------------------------------------------------------------------------- */

struct bytes_key {
    uint32_t word[3]; /* big-endian: table, then id */
};

static inline struct bytes_key bytes_key_of(uint32_t table, int64_t id)
{
    return (struct bytes_key){ { __builtin_bswap32(table), __builtin_bswap32((uint32_t)((uint64_t)id >> 32)),
                                 __builtin_bswap32((uint32_t)(uint64_t)id) } };
}

static void put(struct lmdb *l, MDB_dbi dbi, MDB_val key, const struct sorted_key *k, bool with_table)
{
    char value[sizeof k->table + SYNTHETIC_LOCATION_MAX];
    size_t before = with_table ? sizeof k->table : 0;

    memcpy(value, &k->table, sizeof k->table);
    size_t len = before + (size_t)synthetic_location(value + before, k->table, k->version);
    MDB_val data = { len, value };
    must(mdb_put(l->txn, dbi, &key, &data, MDB_APPEND), "put");
}

static void put_bytes(struct lmdb *l, const struct sorted_key *k)
{
    struct bytes_key key = bytes_key_of(k->table, (int64_t)k->key);
    put(l, l->bytes, (MDB_val){ sizeof key, &key }, k, false);
}

static void put_mixed(struct lmdb *l, const struct sorted_key *k)
{
    uint64_t key = k->key;
    put(l, l->mixed, (MDB_val){ sizeof key, &key }, k, true);
}

static void load(struct lmdb *l, struct sorted_key *keys, uint64_t n,
                 void (*put_one)(struct lmdb *, const struct sorted_key *))
{
    for (uint64_t i = 0; i < n; i++) {
        if (i % COMMITS_PER_LOAD == 0)
            must(mdb_txn_begin(l->env, NULL, 0, &l->txn), "begin");
        put_one(l, &keys[i]);
        if ((i + 1) % COMMITS_PER_LOAD == 0 || i + 1 == n)
            must(mdb_txn_commit(l->txn), "commit");
    }
    free(keys);
}

static void open_tables(struct lmdb *l)
{
    must(mdb_txn_begin(l->env, NULL, 0, &l->txn), "begin");
    must(mdb_dbi_open(l->txn, "bytes", MDB_CREATE, &l->bytes), "open");
    must(mdb_dbi_open(l->txn, "mixed", MDB_CREATE | MDB_INTEGERKEY, &l->mixed), "open");
    must(mdb_txn_commit(l->txn), "commit");
}

struct lmdb *lmdb_fill(const struct history *h)
{
    struct lmdb *l = allocate(sizeof *l);
    char path[512];

    snprintf(path, sizeof path, "%s/lmdb", place_folder());
    must(mdb_env_create(&l->env), "create");
    must(mdb_env_set_maxdbs(l->env, 2), "maxdbs");
    must(mdb_env_set_mapsize(l->env, (size_t)history_rows(h) * 512 + (64 << 20)), "mapsize");
    must(mdb_env_open(l->env, path, MDB_NOSUBDIR | MDB_NOSYNC | MDB_WRITEMAP | MDB_NORDAHEAD, 0600), "open");
    open_tables(l);
    load(l, history_by_id(h), history_rows(h), put_bytes);
    load(l, history_by_mixed_key(h), history_rows(h), put_mixed);
    must(mdb_txn_begin(l->env, NULL, MDB_RDONLY, &l->txn), "begin");
    return l;
}

void lmdb_close(struct lmdb *l)
{
    char path[512];

    mdb_txn_abort(l->txn);
    mdb_env_close(l->env);
    snprintf(path, sizeof path, "%s/lmdb", place_folder());
    unlink(path);
    snprintf(path, sizeof path, "%s/lmdb-lock", place_folder());
    unlink(path);
    free(l);
}

/* ---- rows ----------------------------------------------------------------------------------------------------------- */

static inline void give(struct skade_answer *a, const char *text, size_t len)
{
    memcpy(a->location, text, len);
    a->location[len] = 0;
    a->location_len = (uint32_t)len;
    a->status = 1;
}

static inline void look_up_bytes(struct lmdb *l, const struct question *q, struct skade_answer *a)
{
    struct bytes_key key = bytes_key_of(q->table, q->id);
    MDB_val k = { sizeof key, &key }, v;

    a->status = 0;
    if (mdb_get(l->txn, l->bytes, &k, &v) == 0)
        give(a, v.mv_data, v.mv_size);
}

static inline void look_up_mixed(struct lmdb *l, const struct question *q, struct skade_answer *a)
{
    uint64_t key = mixed_key(q->table, q->id);
    MDB_val k = { sizeof key, &key }, v;

    a->status = 0;
    if (mdb_get(l->txn, l->mixed, &k, &v) == 0 && memcmp(v.mv_data, &q->table, sizeof q->table) == 0)
        give(a, (char *)v.mv_data + sizeof q->table, v.mv_size - sizeof q->table);
}

void lmdb_bytes(void *l, const struct question *q, size_t n)
{
    for (size_t i = 0; i < n; i++)
        look_up_bytes(l, &q[i], &answers[i % WINDOW]);
}

void lmdb_bytes_fenced(void *l, const struct question *q, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fence();
        look_up_bytes(l, &q[i], &answers[i % WINDOW]);
    }
}

void lmdb_mixed(void *l, const struct question *q, size_t n)
{
    for (size_t i = 0; i < n; i++)
        look_up_mixed(l, &q[i], &answers[i % WINDOW]);
}

void lmdb_mixed_fenced(void *l, const struct question *q, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fence();
        look_up_mixed(l, &q[i], &answers[i % WINDOW]);
    }
}
