/* Ways to read memory as fast as a core can. */
#ifndef PROBE_READING_H
#define PROBE_READING_H

#include <stddef.h>
#include <stdint.h>

/* Which way is the fastest depends on the core: the roof is what the best of them reaches. */
struct reading {
    const char *name;
    uint64_t (*read)(const void *from, size_t bytes); /* a multiple of READ_UNIT, aligned to 64 */
};

enum { READINGS = 4, READ_UNIT = 1024 };

extern const struct reading readings[READINGS];

#endif
