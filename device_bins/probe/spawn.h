/* Start the supervised command. */
#ifndef PROBE_SPAWN_H
#define PROBE_SPAWN_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct command {
    char **argv;  /* ends with NULL */
    char **env;   /* K=V to add, ends with NULL */
    int cwd;      /* open folder, or -1 */
    bool pinned;  /* may run on `cpus` only */
    cpu_set_t cpus;
    sigset_t mask; /* signals blocked in the command */
};

struct spawned {
    pid_t pid;
    int out;
    int err;
};

/* Fork and exec in a session of its own, stdin from /dev/null, stdout and stderr into pipes.
 *
 * Returns 0 when the program runs, else the errno of what failed (exec included: a program that exits 127 is told
 * apart from one that is not there). `spawned->pid` is set when a process exists and must be waited for.
 */
int spawn(const struct command *command, struct spawned *spawned);

#endif
