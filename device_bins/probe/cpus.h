/* Which cores there are. Numbers may have holes, and cores may be off. */
#ifndef PROBE_CPUS_H
#define PROBE_CPUS_H

#include "util.h"

enum { MAX_CPUS = 512, MAX_NAME = 16 };

/* Read a list such as `0,4-7` into `numbers` (room for MAX_CPUS); returns how many. Blanks separate as commas do. */
size_t parse_cpu_list(const char *text, int *numbers);

/* The cores of this machine, ascending: `present`, else `possible`, else the folders cpuN. */
size_t list_cpus(const char *sysfs, int *numbers, struct denied *denied);

/* Numbers N of the entries PREFIX<N> in a folder, ascending. Returns how many, or -errno. */
ssize_t list_numbered(const char *folder, const char *prefix, int *numbers, size_t cap);

/* What /proc/cpuinfo says of one core; an empty name is unknown. */
struct cpu_ident {
    char implementer[MAX_NAME];
    char part[MAX_NAME];
};

/* Fill `idents[i]` for each core `cpus[i]`; `features` gets a copy of the flags/Features line's value, or NULL. */
void read_cpuinfo(const struct roots *roots, const int *cpus, size_t count, struct cpu_ident *idents, char **features,
                  struct denied *denied);

#endif
