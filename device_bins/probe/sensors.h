/* Clocks and thermal zones, read again and again through files that stay open. */
#ifndef PROBE_SENSORS_H
#define PROBE_SENSORS_H

#include "cpus.h"
#include "util.h"

enum { MAX_ZONES = 512 };

struct source {
    char *path;
    int fd;
    bool refused; /* not permitted: not tried again */
};

struct zone {
    int number;
    char *type; /* NULL: not readable */
    struct source temperature;
};

struct sensors {
    size_t cpu_count;
    int cpus[MAX_CPUS];
    size_t same_as[MAX_CPUS]; /* index of the first core with this core's clock (one cpufreq policy) */
    struct source current[MAX_CPUS];
    struct source cap[MAX_CPUS];
    size_t zone_count;
    struct zone zones[MAX_ZONES];
    struct denied denied;
    /* the last readings */
    struct maybe current_khz[MAX_CPUS];
    struct maybe cap_khz[MAX_CPUS];
    struct maybe milli_c[MAX_ZONES];
};

/* Find zones: number and type, ascending. Shared with `facts`. Returns how many. */
size_t find_zones(const char *sysfs, struct zone *zones, struct denied *denied);

/* Find cores and zones and try each once, so that `denied` is complete. */
void sensors_find(struct sensors *sensors, const char *sysfs);

/* Between two reads `breathe` is called: some sensors take milliseconds, and output must be stamped when it comes.
 * `reopen` tries files again that were not there (a core that was off).
 */
void sensors_read_clocks(struct sensors *sensors, bool reopen, void (*breathe)(void *), void *context);
void sensors_read_zones(struct sensors *sensors, void (*breathe)(void *), void *context);
void sensors_forget_zones(struct sensors *sensors);

#endif
