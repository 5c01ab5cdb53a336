/*
 * A synthetic history that every process can compute for itself: the ordinal of a commit gives its table, snapshot id,
 * time and location, so that any answer can be judged without asking anybody.
 */
#ifndef SKADE_SYNTHETIC_H
#define SKADE_SYNTHETIC_H

#include <stdint.h>
#include <stdio.h>

#define SYNTHETIC_LOCATION_MAX 160

static inline uint64_t synthetic_mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* Snapshot VERSION of table TABLE: random looking, positive like Iceberg's. */
static inline int64_t synthetic_id(uint32_t table, uint32_t version)
{
    return (int64_t)(synthetic_mix((uint64_t)table << 32 | version) >> 1);
}

static inline int64_t synthetic_time_us(uint32_t table, uint32_t version)
{
    return 1700000000000000ll + (int64_t)version * 60000000 + table;
}

/* "lake.t00042"; returns RET, which has room for 32 bytes. */
static inline char *synthetic_table(char *ret, uint32_t table)
{
    snprintf(ret, 32, "lake.t%05u", table);
    return ret;
}

/* The metadata location as Iceberg's writers name it, about 120 bytes. */
static inline int synthetic_location(char *ret, uint32_t table, uint32_t version)
{
    uint64_t a = synthetic_mix(synthetic_mix((uint64_t)table << 32 | version) + 1), b = synthetic_mix(a);

    return snprintf(ret, SYNTHETIC_LOCATION_MAX,
                    "s3://lake-production/warehouse/events.db/t%05u/metadata/"
                    "%05u-%08x-%04x-%04x-%04x-%012llx.metadata.json",
                    table, version, (unsigned)(a >> 32), (unsigned)(a >> 16 & 0xffff), (unsigned)(a & 0xffff),
                    (unsigned)(b >> 48), (unsigned long long)(b & 0xffffffffffffull));
}

#endif
