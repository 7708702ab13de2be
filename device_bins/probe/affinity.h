/* Where the threads of a run may run. */
#ifndef PROBE_AFFINITY_H
#define PROBE_AFFINITY_H

#include "family.h"

enum { MAX_CPU_LISTS = 64 };

/* The different `Cpus_allowed_list` of all threads of a family, in the order of bytes. */
struct affinity {
    bool known; /* false: some thread does not tell, or there are too many lists */
    size_t count;
    char lists[MAX_CPU_LISTS][MAX_CPU_LIST];
};

void affinity_read(const struct family *family, struct affinity *affinity);

#endif
