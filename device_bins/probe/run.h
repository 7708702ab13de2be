/* One supervised run: what was asked, and where it stands. */
#ifndef PROBE_RUN_H
#define PROBE_RUN_H

#include "affinity.h"
#include "family.h"
#include "gpu.h"
#include "lease.h"
#include "sensors.h"
#include "sink.h"
#include "spawn.h"
#include "util.h"

#include <regex.h>
#include <sys/resource.h>

enum { MAX_TRIPS = 16, MS = 1000000 };

/* A temperature that ends the run. */
struct trip {
    const char *pattern; /* of the zone's whole type */
    regex_t regex;
    int64_t limit; /* in the zone's own unit */
};

struct options {
    struct roots roots;
    const char *folder;
    int64_t interval_ms;
    struct maybe deadline_ms, silence_ms;
    struct trip trips[MAX_TRIPS];
    size_t trip_count;
    const char *lease, *lease_id; /* NULL: none */
    bool detach;
    struct command command;
};

/* What is looked at once a second. Unknown in the samples between. */
struct slow {
    struct maybe gpu_bytes;
    struct affinity affinity;
};

enum phase { RUNNING, ENDING, KILLING, DRAINING, DONE };

struct run {
    const struct options *options;
    struct sink sink;
    struct sensors sensors;
    struct family family;
    struct gpu gpu;
    int meminfo;
    pid_t child;
    int pipes[2]; /* the child's stdout and stderr; -1 at their end */
    enum phase phase;
    const char *why;
    int error; /* of a failed spawn */
    bool adopts; /* orphaned descendants become our children, so `childless` means that all are dead */
    bool childless;
    struct maybe exit_code, signal_number;
    struct rusage used;
    size_t survivors;
    int64_t samples;
    struct maybe zone_limit[MAX_ZONES];
    const struct zone *tripped; /* the zone that was too hot, and its reading */
    int64_t tripped_at;
    struct lease lease;
    int64_t deadline_ns, sample_ns, zones_ns, step_ns, limit_ns, stamped_ns, heard_ns, lease_ns;
};

/* Read the command line. Returns 0, or an exit status after a sentence on stderr. */
int read_run_options(struct options *options, int count, char **words);

int64_t now_ns(void);
int64_t millis(struct timeval time);

void emit_start(struct run *run, int64_t mono_ns, int64_t boot_ns);
void emit_sensors(struct run *run);
void emit_output(struct run *run, int fd, const char *bytes, size_t count);
void emit_sample(struct run *run, const struct usage *usage, struct maybe available, const struct slow *slow);
void emit_end(struct run *run);

#endif
