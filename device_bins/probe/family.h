/* The child and all its descendants: what they use, and their end.
 *
 * Processes are always looked up in /proc itself, whatever --procfs says: a fake tree has no real processes.
 */
#ifndef PROBE_FAMILY_H
#define PROBE_FAMILY_H

#include "util.h"

enum { MAX_MEMBERS = 128, MAX_CPU_LIST = 128 };

struct member {
    pid_t pid;
    int stat;
    int status;
};

struct family {
    pid_t root; /* also its session and process group */
    struct member members[MAX_MEMBERS];
    size_t count;
    int loadavg; /* its last field is the newest pid: no change, no new process to look for */
    int64_t newest;
    int64_t next_scan_ns; /* used only where loadavg is denied */
};

/* Sums over all members that live. Resident pages shared by two of them count twice. */
struct usage {
    struct maybe rss_bytes, anon_bytes, swap_bytes, hwm_bytes, threads;
    int64_t cpu_user_ms, cpu_system_ms;
    int64_t processes;
    struct maybe cpu; /* where the root's first thread ran last, and where it may run; "" is unknown */
    char allowed[MAX_CPU_LIST];
};

/* Copy the list of cores that a thread's `status` allows to `list`; false when it does not tell or the list is too long. */
bool find_allowed(const char *status, char list[MAX_CPU_LIST]);

void family_start(struct family *family, pid_t root);
void family_measure(struct family *family, struct usage *usage, int64_t now_ns);

/* Send a signal to every process that is our child or in the root's session. Returns how many there were.
 * The probe is the reaper of orphans (PR_SET_CHILD_SUBREAPER): repeating this reaches every descendant.
 */
size_t family_signal(const struct family *family, int signal);

#endif
