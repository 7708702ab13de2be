/* A phone is used by one at a time: a flock on a file, kept by a process of ours, with a record of who has it.
 *
 * The record is one JSON line. Its first value, the expiry in CLOCK_BOOTTIME, has a fixed width, so that it can be
 * written over in one piece. Who writes to the record holds the file's POSIX lock for that moment.
 */
#ifndef PROBE_LEASE_H
#define PROBE_LEASE_H

#include "util.h"

enum { LEASE_ID = 17, LEASE_TEXT = 4096 };

struct lease {
    char id[LEASE_ID];
    int64_t expires_ns, ttl_ms;
    pid_t pid;
    bool here;             /* of this boot */
    char text[LEASE_TEXT]; /* the record, without its newline */
};

/* Read the record; false when there is none. */
bool lease_read(int fd, struct lease *lease);

/* Is the lease in the file of `fd` held now? */
bool lease_is_held(int fd, struct lease *lease);

/* Find the lease that a run works under: held, and if `id` is given that very one. Returns 0, or an exit status after a
 * sentence on stderr.
 */
int lease_find(const char *path, const char *id, struct lease *lease);

/* Let it last for its whole length from now on. False: it is not held any more, or by somebody else. */
bool lease_extend(const char *path, const struct lease *lease);

/* Say in the record that it was given back: whoever finds another one that nobody holds knows that it was lost. False:
 * it is not ours, or cannot be written.
 */
bool lease_give_back(const char *path, const struct lease *lease);

/* Write over the expiry. */
bool lease_set_expiry(int fd, int64_t expires_ns);

#endif
